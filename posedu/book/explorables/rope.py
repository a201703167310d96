"""Interactive figure of RoPE: pairs as hands of clocks, and their score by offset.

The coordinates in the SVG are plain data, a pair's cosine and sine or an offset and its
score. SVG's ``transform`` scales and places them, so that the script need not.
"""

import numpy as np
from jaxtyping import Complex, Float, Int

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import rope_complex

Array = np.ndarray

D = 16
LONGEST = 256  # the largest offset
OFFSET, BASE = 16, 10_000  # drawn where scripts do not run
SHADOW, QUERY = INKS[:2]


def rope_explorable() -> Explorable:
    """Draw RoPE's rotated pairs and their score, with sliders for offset and base.

    The numbers are computed by :func:`posedu.numpy.rotary.rope_complex` for d = 16.
    """
    rotated = _rotated_pairs(np.arange(LONGEST + 1))
    scores = rotated.real.mean(axis=-1)
    slow = np.count_nonzero(OFFSET * frequencies(D, base=BASE) < np.pi / 2)
    clocks = "".join(_clock(p, pair) for p, pair in enumerate(rotated[OFFSET]))
    score = f"{scores[OFFSET]:.3f}"
    picture = f"""<div class="clocks">{clocks}</div>
<p><span aria-hidden="true">┄</span> key
<span aria-hidden="true" style="color:{QUERY}">━</span> query
<span aria-hidden="true" style="color:{SHADOW}">▬</span> projection of the query on
the key · score: <output
class="score" aria-live="off">{score}</output></p>
{_curve(scores)}"""
    return explorable(
        "rope",
        picture,
        (
            Slider("offset", "offset i − j", 0, LONGEST, OFFSET),
            Slider("base", "base", 1, 6, np.log10(BASE), 0.05, f"{BASE:,}"),
        ),
        summary=f"At offset {OFFSET} and base {BASE:,} the score is {score}; "
        f"{slow} of {D // 2} pairs are still within their first quarter turn.",
        caption="Relative to the key, pair p of the query is rotated by offset · "
        "ω<sub>p</sub>, whatever the two positions are, and the score is the mean of "
        f"the {D // 2} projections (d = {D}, q = k with pairs of equal length, score 1 "
        "at offset 0). A larger base lowers every frequency but the first.",
    )


def _rotated_pairs(offsets: Int[Array, "offsets"]) -> Complex[Array, "offsets pairs"]:
    """Return the pairs (1, 0), rotated by RoPE at each offset, as complex numbers."""
    pairs = np.tile([1.0, 0.0], (len(offsets), D // 2))
    return rope_complex(pairs, offsets, layout="interleaved", base=BASE)


def _clock(p: int, pair: complex) -> str:
    degrees = f"{np.degrees(np.angle(pair)) % 360:.1f}"
    return f"""
<svg class="clock" viewBox="0 0 80 112" font-size="14" role="img"
 aria-label="Pair {p}: query {degrees}° ahead of key">
<text x="40" y="14">p = {p}</text>
<g transform="translate(40,56) scale(34,-34)">
<circle r="1" stroke="currentColor" stroke-opacity="0.4"/>
<path class="shadow" d="M0,0H{pair.real:.4f}" stroke="{SHADOW}" style="stroke-width:7"/>
<path d="M0,0H1" stroke="currentColor" stroke-dasharray="2 2"/>
<path class="query" d="M0,0L{pair.real:.4f},{pair.imag:.4f}" stroke="{QUERY}"
 style="stroke-width:2.5"/>
</g>
<text class="angle" x="40" y="106">{degrees}°</text>
</svg>"""


def _curve(scores: Float[Array, "offsets"]) -> str:
    points = [f"{offset},{score:.4f}" for offset, score in enumerate(scores)]
    x_scale = 340 / LONGEST
    x_ticks = "".join(
        f'<text x="{45 + x_scale * offset:g}" y="168">{offset}</text>'
        for offset in range(0, LONGEST + 1, LONGEST // 4)
    )
    y_ticks = "".join(
        f'<text x="28" y="{83 - 68 * score}">{label}</text>'
        for score, label in ((-1, "−1"), (0, "0"), (1, "1"))
    )
    return f"""
<svg class="curve" viewBox="0 0 400 192" role="img"
 aria-label="Curve of the score against the offset, a marker at the chosen offset">
{x_ticks}{y_ticks}
<text x="215" y="187">offset i − j</text>
<text transform="translate(15,78) rotate(-90)">score</text>
<g transform="translate(45,78) scale({x_scale:g},-68)">
<path d="M0,-1H{LONGEST}M0,0H{LONGEST}M0,1H{LONGEST}M0,-1V1" stroke="currentColor"
 stroke-opacity="0.3"/>
<path class="guide" d="M{OFFSET},-1V1" stroke="{QUERY}" stroke-dasharray="4 3"/>
<path class="scores" d="M{"L".join(points)}" stroke="{SHADOW}" style="stroke-width:2"/>
<path class="marker" d="M{points[OFFSET]}h.001" stroke="{QUERY}" stroke-linecap="round"
 style="stroke-width:10"/>
</g>
</svg>"""
