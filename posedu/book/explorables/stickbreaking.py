"""Interactive figure of stick-breaking: weights compared with softmax weights."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Reveal, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.attention import softmax
from posedu.numpy.stickbreaking import break_stick

Array = np.ndarray

LOGITS = (0.0, 1.0, 2.0, 3.0)  # of the newest key first
KEYS = len(LOGITS)
NARROW = 0.1  # a piece whose share has no room below it


def stickbreaking_explorable() -> Explorable:
    """Draw stick-breaking and softmax weights of four keys, with a slider per logit.

    The reader first guesses which key gets the most weight. The weights are computed by
    :func:`posedu.numpy.stickbreaking.break_stick` and
    :func:`posedu.numpy.attention.softmax`.
    """
    oldest_first = np.zeros((KEYS + 1, KEYS + 1))
    oldest_first[-1, :KEYS] = LOGITS[::-1]
    weights, rest = break_stick(oldest_first, attend_current=False)
    stick = np.append(weights[-1, KEYS - 1 :: -1], rest[-1])
    mean = np.append(softmax(np.array(LOGITS)), 0.0)
    options = {"": "…", **{str(k): f"{k + 1} back" for k in range(KEYS)}}
    return explorable(
        "stickbreaking",
        f"""<svg class="plot" viewBox="0 0 400 208" role="img" aria-label="Two bars
 from 0 to 1, the upper one cut by stick-breaking, the lower one by a softmax">
{_bar("stick-breaking: the newest key cuts first", stick, 0)}
{_bar("softmax: all keys at once", mean, 106)}
</svg>""",
        (
            Choice("guess", "most weight to", options | {str(KEYS): "no key"}),
            Reveal("reveal", "Cut the stick"),
            *(
                Slider(
                    f"logit{k}",
                    f'<span style="color:{INKS[k]}" aria-hidden="true">■</span> '
                    f"{k + 1} back",
                    -4,
                    4,
                    logit,
                    0.5,
                )
                for k, logit in enumerate(LOGITS)
            ),
        ),
        summary=f"Stick-breaking gives the most to the key {_most(stick)}, softmax to "
        f"the key {_most(mean)}.",
        caption="Four keys and their logits z, the newest at the left. In "
        "stick-breaking each key gets the fraction σ(z) of the remainder that newer "
        "keys leave, and the last remainder (hatched) may go to no key. A softmax "
        "distributes all of the weight, whatever the order of the keys is.",
    )


def _most(shares: Float[Array, "pieces"]) -> str:
    most = int(shares.argmax())
    return f"{most + 1} back, {100 * shares[most]:.1f} %"


def _bar(title: str, shares: Float[Array, "pieces"], y: int) -> str:
    ends = np.cumsum(shares)
    starts = ends - shares
    pieces = "".join(
        f'<path d="M{start:.4f},0V1H{end:.4f}V0z" fill="{color}"/>'
        for start, end, color in zip(starts, ends, INKS[:KEYS], strict=False)
    )
    names = "".join(
        f'<text x="{20 + 360 * (start + end) / 2:.1f}" y="82">'
        f"{f'{100 * share:.0f} %' if share >= NARROW else ''}</text>"
        for start, end, share in zip(starts, ends, shares, strict=True)
    )
    hatch = "".join(f"M{x / 60:.4f},1L{(x + 1) / 60:.4f},0" for x in range(60))
    return f"""<g transform="translate(0,{y})">
<text x="20" y="20" style="text-anchor:start">{title}</text>
<g transform="translate(20,30) scale(360,34)">
<path d="{hatch}" stroke="currentColor" stroke-opacity="0.35"/>
<path d="M0,0V1H1V0z" stroke="currentColor"/>
<g class="cut" shape-rendering="crispEdges">{pieces}</g>
</g>
<g class="cut">{names}</g>
</g>"""
