"""Interactive figure of distance biases: share of the weight on the nearest keys."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.bias import kerple_log_bias, kerple_power_bias

Array = np.ndarray

LONGEST = 16  # log₂ of the longest text
LENGTH, R1 = 9, 0.8  # drawn where scripts do not run
SLOPE = 1 / 16  # ALiBi's
NONE, LINE, LOG = "currentColor", *INKS[:2]
NAMES = {"alibi": "ALiBi", "kerple": "KERPLE", "none": "no bias"}


def distance_biases_explorable() -> Explorable:
    """Draw the share of the attention weight on the nearest keys, by their number.

    There is a curve under ALiBi, KERPLE and no bias, at equal contents. KERPLE's biases
    are computed by :func:`posedu.numpy.bias.kerple_log_bias` with r2 = 1; ALiBi has the
    slope 1/16.
    """
    length = 2**LENGTH
    gathered = totals(np.arange(2.0**LONGEST), R1)
    half = {name: halfway(total[:length]) for name, total in gathered.items()}
    marks = "".join(
        f'<text x="{44 + 20 * n}" y="196">{2**n:,}</text>'
        for n in range(0, LONGEST + 1, 4)
    )
    curves = "".join(
        f'<path class="{name}" d="M{_points(gathered[name][:length])}"'
        f' stroke="{ink}" style="stroke-width:2"{dash}/>'
        for name, ink, dash in (
            ("none", NONE, ' stroke-dasharray="5 4"'),
            ("alibi", LINE, ""),
            ("kerple", LOG, ""),
        )
    )
    legend = " · ".join(
        f'<span style="white-space:nowrap"><span aria-hidden="true"'
        f' style="color:{ink}">{mark}</span> {NAMES[name]}: <output'
        f' class="{name}-half" aria-live="off">{half[name]:,}</output></span>'
        for name, ink, mark in (
            ("alibi", LINE, "━"),
            ("kerple", LOG, "━"),
            ("none", NONE, "┄"),
        )
    )
    picture = f"""
<svg class="plot" viewBox="0 0 400 222" role="img" aria-label="Three curves that rise
 from left to right: the share of the weight against the number of nearest keys">
{marks}<text x="30" y="177" style="text-anchor:end">0</text>
<text x="30" y="101" style="text-anchor:end">½</text>
<text x="30" y="25" style="text-anchor:end">1</text>
<text x="204" y="216">nearest keys</text>
<g transform="translate(44,172) scale(20,-152)">
<path d="M0,0H{LONGEST}M0,1H{LONGEST}M0,0V1" stroke="currentColor"
 stroke-opacity="0.3"/>
<path d="M0,0.5H{LONGEST}" stroke="currentColor" stroke-opacity="0.5"
 stroke-dasharray="2 3"/>
{curves}</g>
</svg>
<p>Number of nearest keys with half of the weight: {legend}</p>"""
    return explorable(
        "distance_biases",
        picture,
        (
            Slider("length", "length", 4, LONGEST, LENGTH, shown=f"{length:,}"),
            Slider("r1", "KERPLE's r₁", 0.2, 2, R1, 0.1, f"{R1:.1f}"),
        ),
        summary=_summary_text(length, R1, half),
        caption="The share of the last query's weight on its nearest keys, if contents "
        "are equal. With ALiBi of slope 1/16, the same number of nearest keys has half "
        "of the weight in every text that is long enough; with KERPLE's logarithm this "
        "holds for r<sub>1</sub> above 1 only; without a bias it is always half of "
        "the keys.",
    )


def totals(
    distances: Float[Array, "keys"], r1: float
) -> dict[str, Float[Array, "keys"]]:
    """Return, for each bias, the sum of e^bias over the keys up to each distance.

    The biases are ALiBi's, KERPLE's and none; ``r1`` is KERPLE's factor before the
    logarithm. ``distances`` are 0, 1, ….
    """
    biases = {
        "alibi": kerple_power_bias(distances, r1=SLOPE, r2=1.0),
        "kerple": kerple_log_bias(distances, r1=r1, r2=1.0),
        "none": np.zeros(len(distances)),
    }
    return {name: np.exp(bias).cumsum() for name, bias in biases.items()}


def halfway(total: Float[Array, "keys"]) -> int:
    """Return how many of the nearest keys together have half of the attention weight.

    ``total`` has the sum of the weights of the nearest 1, 2, … keys.
    """
    return int(np.searchsorted(total, total[-1] / 2)) + 1


def _points(total: Float[Array, "keys"]) -> str:
    """Return the points of a curve of weight shares as SVG text.

    There are four points per doubling of the number of nearest keys. ``total`` has the
    sum of the weights of the nearest 1, 2, … keys.
    """
    nearest = np.unique(np.round(2 ** (np.arange(4 * LONGEST + 1) / 4)).astype(int))
    nearest = nearest[nearest <= len(total)]
    shares = total[nearest - 1] / total[-1]
    shares = np.floor(1e4 * shares + 0.5) / 1e4  # half up, as the script rounds
    pairs = zip(np.log2(nearest), shares, strict=True)
    return "L".join(f"{x:.3f},{share:.4f}" for x, share in pairs)


def _summary_text(length: int, r1: float, half: dict[str, int]) -> str:
    grows = "grows with the length" if r1 <= 1 else "is bounded"
    return (
        f"Of {length:,} keys the nearest {half['alibi']:,} have half of the weight "
        f"under ALiBi, the nearest {half['kerple']:,} under KERPLE with "
        f"r₁ = {r1:.1f}, where this number {grows}."
    )
