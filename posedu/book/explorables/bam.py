"""Interactive figure of BAM: the prior over distances, by shape, factor and center."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.attention import softmax
from posedu.numpy.bias import bam_bias

Array = np.ndarray

SHOWN = 33  # distances in the picture
KEYS = 2**16  # of the long text
NEAR = 16
BETA, SCALE, CENTER = 1.0, -3, 0  # drawn where scripts do not run


def bam_explorable() -> Explorable:
    """Draw BAM's prior over the nearest 33 keys, and say what it keeps in long texts.

    Sliders change the exponent β, the factor α = 2^s and the distance of the center.
    The bias is :func:`posedu.numpy.bias.bam_bias`.
    """
    shown = described(BETA, SCALE, CENTER)
    marks = "".join(
        f'<text x="{50 + 10 * t}" y="186">{t}</text>' for t in range(0, SHOWN, 8)
    )
    picture = f"""
<svg class="plot" viewBox="0 0 400 212" role="img" aria-label="Bars of the prior at
 the distances 0 to 32, and lines at the prior's largest value and at 0">
{marks}<text x="210" y="206">distance</text>
<g transform="translate(50,164) scale(10,-140)">
<path d="M-1,0H33" stroke="currentColor" stroke-opacity="0.4"/>
<path d="M-1,1H33" stroke="currentColor" stroke-opacity="0.2"/>
<path class="prior" d="{bars(shares(BETA, SCALE, CENTER)[:SHOWN])}"
 stroke="{INKS[0]}" style="stroke-width:7"/>
</g></svg>
<p>Weight at equal contents: the highest bar <output class="top" aria-live="off"
>{shown["top"]}</output>; the token itself <output class="own" aria-live="off"
>{shown["own"]}</output>; the nearest {NEAR} of {SHOWN} keys <output class="near"
 aria-live="off">{shown["near"]}</output>, of {KEYS:,} keys <output class="far"
 aria-live="off">{shown["far"]}</output></p>"""
    return explorable(
        "bam",
        picture,
        (
            Slider("beta", "β, exponent", -1.5, 3, BETA, 0.25, f"{BETA:g}"),
            Slider("scale", "α, factor", -10, 2, SCALE, shown=factor(SCALE)),
            Slider("center", "−μ, center", 0, 24, CENTER),
        ),
        summary=summary_text(BETA, shown),
        caption="BAM's prior over the nearest 33 keys, each bar relative to the "
        "highest. With the center at 0 it is ALiBi's for β = 1 and half of a bell for "
        "β = 2. For β = 0 it is flat, and below 0 the token at the center gets least: "
        "such a prior loses its near keys in a long text.",
    )


def shares(
    beta: float, scale: int, center: int, keys: int = SHOWN
) -> Float[Array, "keys"]:
    """Return the prior of each distance 0, 1, … over ``keys`` keys.

    The bias has the exponent ``beta``, α = 2^``scale`` and the center at the distance
    ``center``.
    """
    distances = np.arange(float(keys))
    return softmax(bam_bias(distances, alpha=2.0**scale, beta=beta, mu=-float(center)))


def bars(prior: Float[Array, "distances"]) -> str:
    """Return a line for each distance as SVG text, the highest of height 1."""
    heights = np.floor(1e4 * prior / prior.max() + 0.5) / 1e4
    return "".join(f"M{t},0V{height:.4f}" for t, height in enumerate(heights))


def factor(scale: int) -> str:
    """Return α = 2^``scale`` as text: a whole number or a fraction."""
    return f"{2**scale}" if scale >= 0 else f"1/{2**-scale}"


def described(beta: float, scale: int, center: int) -> dict[str, str]:
    """Return the shown shares of weight by name, as text."""
    prior = shares(beta, scale, center)
    long = shares(beta, scale, center, KEYS)
    return {
        "top": percent(prior.max()),
        "own": percent(prior[0]),
        "near": percent(prior[:NEAR].sum()),
        "far": percent(long[:NEAR].sum()),
    }


def percent(share: float) -> str:
    """Return a share as a percentage with one digit after the point, half up."""
    return f"{np.floor(1000 * share + 0.5) / 10:.1f} %"


def summary_text(beta: float, shown: dict[str, str]) -> str:
    """Return the picture in a sentence."""
    proper = "proper" if beta > 0 else "improper"
    exponent = f"{beta:g}".replace("-", "−")
    return (
        f"With β = {exponent} the prior is {proper}: the nearest {NEAR} of {SHOWN} "
        f"keys have {shown['near']} of the weight, of {KEYS:,} keys {shown['far']}."
    )
