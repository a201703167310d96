"""Interactive figure of length extrapolation: RoPE's angles that training lacked."""

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
    """Draw how far each pair of features rotates in training and in a longer text.

    A head has d = 64 features. RoPE's frequencies are computed by
    :func:`posedu.numpy.frequencies.frequencies`.
    """
    trained_share, tested_share = turn_shares(
        BASES[0], 2**TRAINED, 2 ** (TRAINED + FACTOR)
    )
    marks = "".join(
        f'<text x="{44 + 10.5 * (p + 0.5):g}" y="176">{p}</text>'
        for p in range(0, 32, 5)
    )
    picture = f"""
<svg class="plot" viewBox="0 0 400 204" role="img" aria-label="A bar for each of 32
 pairs: as high as its share of a full turn in training, and above it, hatched,
 the new angles in a longer text">
{marks}<text x="212" y="198">pair p, fastest first</text>
<text x="34" y="26" style="text-anchor:end">turn</text>
<text x="34" y="160" style="text-anchor:end">0</text>
<g transform="translate(44,156) scale(10.5,-134)">
<path d="M0,0H32M0,1H32M0,0V1" stroke="currentColor" stroke-opacity="0.3"/>
<path class="covered" d="{_bars(0 * trained_share, trained_share)}" stroke="{INKS[0]}"
 style="stroke-width:7"/>
<path class="new" d="{_bars(trained_share, tested_share)}" stroke="{INKS[1]}"
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
        caption="The share of a full turn by which each pair of d = 64 rotates between "
        "the first token and the last: a pair that completes a full turn in training "
        "meets no new angle in a longer text; the others do.",
    )


def turn_shares(
    base: float, trained: int, tested: int
) -> tuple[Float[Array, "pairs"], Float[Array, "pairs"]]:
    """Return each pair's share of a full turn, in training and in a longer text.

    ``base`` is RoPE's base; ``trained`` and ``tested`` are the lengths of the training
    texts and of the longer text in tokens. A share is 1 at most.
    """
    turns = frequencies(D, base=base) / (2 * np.pi)
    return tuple(np.minimum(turns * (length - 1), 1) for length in (trained, tested))


def summary_text(base: float, trained: int, tested: int) -> str:
    """Describe the picture: numbers of pairs with a full turn, and with new angles.

    The full turn is in training, on ``trained`` tokens. New angles occur in a text of
    ``tested`` tokens and did not in training. ``base`` is RoPE's base.
    """
    trained_share, tested_share = turn_shares(base, trained, tested)
    new = int((tested_share > trained_share).sum())
    return (
        f"{int((trained_share == 1).sum())} of {D // 2} pairs complete a full turn "
        f"within {trained:,} tokens; {new} meet new angles within {tested:,}."
    )


def _bars(low: Float[Array, "pairs"], high: Float[Array, "pairs"]) -> str:
    return "".join(
        f"M{p + 0.5:g},{a:.4f}V{b:.4f}"
        for p, (a, b) in enumerate(zip(low, high, strict=True))
        if b > a
    )
