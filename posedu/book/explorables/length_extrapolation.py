"""RoPE's pairs in training and beyond it: which angles are new."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.frequencies import frequencies

Array = np.ndarray

D = 64
BASES = (10**4, 5 * 10**5, 10**6)
TRAINED, FACTOR = 12, 3  # exponents of two: what is drawn where scripts do not run


def length_extrapolation_explorable() -> Explorable:
    """Draw how far each pair of d = 64 turns in a text of training and in a longer one.

    Frequencies are those of :func:`posedu.numpy.frequencies.frequencies`.
    """
    seen, reached = turn_shares(BASES[0], 2**TRAINED, 2 ** (TRAINED + FACTOR))
    marks = "".join(
        f'<text x="{44 + 10.5 * (p + 0.5):g}" y="176">{p}</text>'
        for p in range(0, 32, 5)
    )
    picture = f"""
<svg class="plot" viewBox="0 0 400 204" role="img" aria-label="A bar for each of 32
 pairs: as high as the part of a turn that it makes in training, and above it, hatched,
 what is new in a longer text">
{marks}<text x="212" y="198">pair p, fastest first</text>
<text x="34" y="26" style="text-anchor:end">turn</text>
<text x="34" y="160" style="text-anchor:end">0</text>
<g transform="translate(44,156) scale(10.5,-134)">
<path d="M0,0H32M0,1H32M0,0V1" stroke="currentColor" stroke-opacity="0.3"/>
<path class="seen" d="{_bars(0 * seen, seen)}" stroke="{INKS[0]}"
 style="stroke-width:7"/>
<path class="new" d="{_bars(seen, reached)}" stroke="{INKS[1]}"
 style="stroke-width:7" stroke-dasharray="3 2"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">━</span> angles of training</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">┅</span> new ones in the longer text</span></p>"""
    return explorable(
        "length_extrapolation",
        picture,
        (
            Slider("trained", "trained on", 6, 15, TRAINED, 1, f"{2**TRAINED:,}"),
            Slider("factor", "times as long", 0, 7, FACTOR, 1, f"{2**FACTOR}"),
            Choice("base", "base", {str(base): f"{base:,}" for base in BASES}),
        ),
        summary=summary_text(BASES[0], 2**TRAINED, 2 ** (TRAINED + FACTOR)),
        caption="How much of a turn each pair of d = 64 makes between the first token "
        "and the last: a pair that completes one in training meets no new angle in a "
        "longer text, the others do.",
    )


def turn_shares(
    base: float, trained: int, tested: int
) -> tuple[Float[Array, "pairs"], Float[Array, "pairs"]]:
    """The share of a turn that each pair makes in training, and in the longer text."""
    turns = frequencies(D, base=base) / (2 * np.pi)
    return tuple(np.minimum(turns * (length - 1), 1) for length in (trained, tested))


def summary_text(base: float, trained: int, tested: int) -> str:
    """The picture in words."""
    seen, reached = turn_shares(base, trained, tested)
    new = int((reached > seen).sum())
    return (
        f"{int((seen == 1).sum())} of {D // 2} pairs complete a turn within "
        f"{trained:,} tokens; {new} meet new angles within {tested:,}."
    )


def _bars(low: Float[Array, "pairs"], high: Float[Array, "pairs"]) -> str:
    return "".join(
        f"M{p + 0.5:g},{a:.4f}V{b:.4f}"
        for p, (a, b) in enumerate(zip(low, high, strict=True))
        if b > a
    )
