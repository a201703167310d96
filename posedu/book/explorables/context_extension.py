"""Interactive figure of context extension: scaled frequency of each feature pair."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import llama3, ntk, p_rope, pi, resonance, riflex, yarn

Array = np.ndarray
Scaling = Callable[[Float[Array, "pairs"], float], Float[Array, "pairs"]]

TRAINED = 4096
SHARE = 0.75  # share of the pairs that p-RoPE rotates
METHODS = {
    "index": "YaRN, ramp of the code",
    "turns": "YaRN, ramp of the paper",
    "llama3": "Llama 3",
    "pi": "position interpolation",
    "ntk": "NTK-aware",
    "prope": f"p-RoPE, p = {SHARE}",
    "resonance": "Resonance",
    "riflex": "RIFLEx, pair nearest to one full turn",
    "rope": "RoPE, unchanged",
}
BASES = {"10000": "10,000", "500000": "500,000", "1000000": "1,000,000"}
WIDTHS = {"128": "128", "64": "64"}
DOUBLINGS = 4  # doublings of the length, where scripts do not run
FLOOR = -6.0  # where a pair of frequency 0 is drawn
KNOWN, NEW = INKS[0], INKS[1]


def context_extension_explorable() -> Explorable:
    """Draw each pair's scaled frequency over its trained one, by turns in training.

    Turns are the full turns of a pair within the training length, 4096 tokens. The
    frequencies are computed by the functions of :mod:`posedu.numpy.rotary`.
    """
    (method, *_), (base, *_), (d, *_) = METHODS, BASES, WIDTHS
    first = method, 2.0**DOUBLINGS, float(base), int(d)
    marks = "".join(
        f'<text x="{_x(10.0**n):.0f}" y="186">{text}</text>'
        for n, text in ((-3, "1/1000"), (-1, "1/10"), (0, "1"), (1, "10"), (3, "1000"))
    )
    rows = ((0, "1"), (-2, "1/4"), (-4, "1/16"), (FLOOR, "0"))
    names = "".join(
        f'<text x="46" y="{_y(n) + 5:.0f}" style="text-anchor:end">{text}</text>'
        for n, text in rows
    )
    lines = "".join(f"M52,{_y(n):g}H376" for n, _ in rows)
    known, new = dots(*first)
    picture = f"""
<svg class="plot" viewBox="-12 0 412 208" role="img" aria-label="A dot for each pair: to
 the right its full turns in training, upwards its scaled frequency over the trained
 one, from 0 to 1">
{marks}<text x="222" y="204">full turns within {TRAINED:,} tokens</text>
<text transform="translate(4,88) rotate(-90)">new ω over old ω</text>
{names}
<path d="{lines}" stroke="currentColor" stroke-opacity="0.3"/>
<path d="M{_x(1.0):.1f},10V{_y(FLOOR):g}" stroke="currentColor" stroke-opacity="0.6"
 stroke-dasharray="4 4"/>
<path class="known" d="{known}" stroke="{KNOWN}" stroke-linecap="round"
 style="stroke-width:6"/>
<path class="new" d="{new}" stroke="{NEW}" stroke-linecap="round"
 style="stroke-width:6"/>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{KNOWN}">●</span> meets no new angle</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{NEW}">●</span> meets new angles</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">┄</span> one full turn</span>
</p>"""
    return explorable(
        "context_extension",
        picture,
        (
            Choice("method", "method", METHODS),
            Slider("doublings", "s", 1, 5, DOUBLINGS, 1, f"{2**DOUBLINGS}"),
            Choice("base", "base", BASES),
            Choice("d", "d", WIDTHS),
        ),
        summary=summary_text(*first),
        caption="Each method of this chapter multiplies each pair's frequency by a "
        "number of its own. Left of the line of one full turn a pair met only part of "
        "its angles in training; the color shows whether it meets new ones in the "
        "longer text.",
    )


def scaled_frequencies(
    method: str, factor: float, base: float, d: int
) -> tuple[Float[Array, "pairs"], Float[Array, "pairs"]]:
    """Return RoPE's frequencies before and after a context extension method.

    ``method`` is a key of ``METHODS``; ``factor`` is how many times as long as in
    training a text may be. ``base`` is RoPE's base, ``d`` the head dimension.
    """
    omega = frequencies(d, base=base)
    near = int(np.abs(np.log(TRAINED * omega / (2 * np.pi))).argmin())
    scalings: dict[str, Scaling] = {
        "index": lambda w, s: yarn(w, factor=s, trained=TRAINED, ramp="index"),
        "turns": lambda w, s: yarn(w, factor=s, trained=TRAINED, ramp="turns"),
        "llama3": lambda w, s: llama3(w, factor=s, trained=TRAINED),
        "pi": lambda w, s: pi(w, factor=s),
        "ntk": lambda w, s: ntk(w, factor=s),
        "prope": lambda w, s: p_rope(w, share=SHARE),
        "resonance": lambda w, s: resonance(w),
        "riflex": lambda w, s: riflex(w, pair=near, tested=TRAINED * s, turns=1.0),
        "rope": lambda w, s: w,
    }
    return omega, scalings[method](omega, factor)


def meets_new(
    omega: Float[Array, "pairs"], scaled: Float[Array, "pairs"], factor: float
) -> Bool[Array, "pairs"]:
    """Return for each pair whether a longer text has angles that training lacked.

    ``omega`` has the frequencies in training, ``scaled`` the frequencies in a text that
    is ``factor`` times as long.
    """
    seen = np.minimum(TRAINED * omega, 2 * np.pi)
    asked = np.minimum(factor * TRAINED * scaled, 2 * np.pi)
    return asked > seen * (1 + 1e-9)


def dots(method: str, factor: float, base: float, d: int) -> tuple[str, str]:
    """Return two SVG paths: dots of pairs without new angles, and of pairs with them.

    New angles occur in the longer text and did not in training. A dot's abscissa is the
    pair's turns in training, its height the scaled over the trained frequency. The
    arguments have the same meaning as in :func:`scaled_frequencies`.
    """
    omega, scaled = scaled_frequencies(method, factor, base, d)
    with np.errstate(divide="ignore"):
        height = np.maximum(np.log2(scaled / omega), FLOOR)
    new = meets_new(omega, scaled, factor)
    at = [
        f"M{_x(turns):.1f},{_y(h):.1f}h.01"
        for turns, h in zip(TRAINED * omega / (2 * np.pi), height, strict=True)
    ]
    return (
        "".join(dot for dot, is_new in zip(at, new, strict=True) if not is_new),
        "".join(dot for dot, is_new in zip(at, new, strict=True) if is_new),
    )


def summary_text(method: str, factor: float, base: float, d: int) -> str:
    """Describe the picture: number of pairs with new angles, and the fastest pair.

    New angles occur in the longer text and did not in training. The arguments have the
    same meaning as in :func:`scaled_frequencies`.
    """
    omega, scaled = scaled_frequencies(method, factor, base, d)
    slow = int((TRAINED * omega < 2 * np.pi).sum())
    new = int(meets_new(omega, scaled, factor).sum())
    return (
        f"{METHODS[method]}, s = {factor:g}: {slow} of {d // 2} pairs do not complete "
        f"a full turn in training, and {new} meet new angles in "
        f"{TRAINED * factor:,.0f} tokens. From one token to the next the fastest pair "
        f"rotates by {scaled[0] / omega[0]:.2f} times the angle of training."
    )


def _x(turns: float) -> float:
    return 56 + 45 * (float(np.log10(turns)) + 4)


def _y(height: float) -> float:
    return 16 - 25 * height
