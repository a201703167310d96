"""Interactive figure of decays summed from key to query: ALiBi, FoX, stick-breaking."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.gated import forget_bias
from posedu.numpy.stickbreaking import break_stick_log

Array = np.ndarray

TEXT = "Rome was hot . We went to Oslo . It rained . Where"
WORDS = TEXT.split()
LAST = len(WORDS) - 1
SLOPE = 0.25  # ALiBi's, and the slope of all where tokens are equal
STEPS = np.where([w == "." for w in WORDS], 0.9, 0.03)  # of FoX, −log f
LOGITS = np.where(
    [w in ("Rome", "Oslo") for w in WORDS], 2.0, -4.0
)  # of stick-breaking
EQUAL = np.log(np.expm1(SLOPE))  # logit of stick-breaking with the same slope
KEY, DIFFER = 7, 1.0  # drawn where scripts do not run
DASHES = {"alibi": "none", "fox": "7 4", "stick": "2 3"}
SAMPLES = {"alibi": "━━", "fox": "╍╍", "stick": "••••"}
NAMES = {"alibi": "ALiBi", "fox": "FoX", "stick": "stick-breaking"}


def decay_explorable() -> Explorable:
    """Draw attention's decay from a chosen key to the last query in three encodings.

    The encodings are ALiBi, FoX and stick-breaking. Each multiplies a key's weight by a
    factor for every token after the key; the decay is minus the logarithm of these
    factors' product. It is computed by :func:`posedu.numpy.gated.forget_bias` and
    :func:`posedu.numpy.stickbreaking.break_stick_log`.
    """
    paths = _paths(DIFFER)
    shown = {name: f"{path[KEY]:.2f}" for name, path in paths.items()}
    legend = " · ".join(
        '<span style="white-space:nowrap">'
        f'<span style="color:{color}" aria-hidden="true">{SAMPLES[name]}</span> '
        f'{NAMES[name]} <output class="{name}" aria-live="off">{path}</output></span>'
        for (name, path), color in zip(shown.items(), INKS, strict=False)
    )
    return explorable(
        "decay",
        _curves(paths) + f"<p>{legend}</p>",
        (
            Slider("key", "key", 0, LAST, KEY, shown=WORDS[KEY]),
            Slider("differ", "tokens differ", 0, 100, 100 * DIFFER, 5, "100 %"),
        ),
        summary=f"The path from “{WORDS[KEY]}” to “{WORDS[-1]}” is {shown['alibi']} "
        f"for ALiBi, {shown['fox']} for FoX, {shown['stick']} for stick-breaking.",
        caption="Sum over the tokens after key j, for the query “Where”: a constant "
        "for each token (ALiBi), much at a full stop (FoX), much at the place names "
        "that the query looks for (stick-breaking, without the key's own fraction). "
        "Where all tokens are equal, the three sums are equal.",
        numbers={
            "words": WORDS,
            "slope": SLOPE,
            "steps": STEPS.tolist(),
            "logits": LOGITS.tolist(),
        },
    )


def _paths(differ: float) -> dict[str, Float[Array, "keys"]]:
    """Return, for each of three encodings, the decay from every key to the last query.

    The keys of the dict are ``"alibi"``, ``"fox"`` and ``"stick"`` (stick-breaking).
    The decay is a sum over the tokens after the key: minus the logarithms of the
    factors that multiply the key's weight. ``differ`` is between 0, where all tokens
    decay alike, and 1, where each token has the decay of the example.
    """
    n = len(WORDS)
    steps = differ * STEPS + (1 - differ) * SLOPE
    logits = differ * LOGITS + (1 - differ) * EQUAL
    weights, _ = break_stick_log(np.tile(logits, (n, 1)), attend_current=True)
    fraction = 1 / (1 + np.exp(-logits))
    logs = {
        "alibi": forget_bias(np.full(n, -SLOPE))[-1],
        "fox": forget_bias(-steps)[-1],
        "stick": np.log(weights[-1] / fraction),
    }
    return {name: np.abs(log) for name, log in logs.items()}


def _line(name: str) -> str:
    color = INKS[list(DASHES).index(name)]
    return (
        f'<path class="path-{name}" stroke="{color}" stroke-dasharray="{DASHES[name]}"'
        ' style="stroke-width:2.2"'
    )


def _curves(paths: dict[str, Float[Array, "keys"]]) -> str:
    words = "".join(
        f'<text transform="translate({62 + 26 * j},216) rotate(-90)"'
        f' style="text-anchor:end">{word}</text>'
        for j, word in enumerate(WORDS)
    )
    ticks = "".join(f'<text x="36" y="{211 - 48 * p}">{p}</text>' for p in range(5))
    lines = "".join(
        f'{_line(name)} d="M{"L".join(f"{j},{p:.4f}" for j, p in enumerate(path))}"/>'
        for name, path in paths.items()
    )
    marks = "".join(
        f'<path class="mark-{name}" d="M{KEY},{path[KEY]:.4f}h.001" stroke="{color}"'
        ' stroke-linecap="round" style="stroke-width:9"/>'
        for (name, path), color in zip(paths.items(), INKS, strict=False)
    )
    return f"""
<svg class="plot" viewBox="0 0 400 270" role="img" aria-label="Three curves of the
 path against the key, falling to 0 at the query, each with a marker at the key">
{words}{ticks}
<text transform="translate(15,105) rotate(-90)">path</text>
<g transform="translate(57,206) scale(26,-48)">
<path d="M0,0H{LAST}M0,1H{LAST}M0,2H{LAST}M0,3H{LAST}M0,4H{LAST}"
 stroke="currentColor" stroke-opacity="0.25"/>
<path class="guide" d="M{KEY},0V4" stroke="currentColor" stroke-opacity="0.6"/>
{lines}{marks}
</g>
</svg>"""
