"""Interactive figure of NoPE: a key's weight encodes the number of other keys."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.attention import softmax

Array = np.ndarray

DOUBLINGS = 13  # at most 2¹³ keys besides the marked one
GAP = 4.0  # difference of the marked key's logit from the others'
TEMPERATURE, AT = 1.0, 6  # drawn where scripts do not run
WIDTH = 26  # of a doubling


def nope_explorable() -> Explorable:
    """Draw the weight of a marked key over the number of other keys.

    Weights are computed by :func:`posedu.numpy.attention.softmax`; the temperature
    multiplies the logits, like the temperature of :func:`posedu.numpy.nope.nope`.
    """
    others = 2**AT
    weight = weight_of(others, TEMPERATURE)
    marks = "".join(
        f'<text x="{46 + WIDTH * n}" y="176">{2**n:,}</text>'
        for n in range(0, DOUBLINGS, 3)
    )
    half, drawn = half_at(TEMPERATURE), _path(TEMPERATURE)
    picture = f"""
<svg class="plot" viewBox="0 0 400 204" role="img" aria-label="The weight of one key
 over the number of other keys, on a logarithmic axis: a falling curve, and a dashed
 one, that of equal logits">
{marks}<text x="215" y="198">other keys</text>
<text x="36" y="26" style="text-anchor:end">1</text>
<text x="36" y="92" style="text-anchor:end">½</text>
<text x="36" y="158" style="text-anchor:end">0</text>
<g transform="translate(46,154) scale({WIDTH},-132)">
<path d="M0,0H{DOUBLINGS}M0,0.5H{DOUBLINGS}M0,0V1" stroke="currentColor"
 stroke-opacity="0.3"/>
<path class="equal" d="{_path(0.0)}" stroke="currentColor"
 style="stroke-width:2" stroke-dasharray="5 4"/>
<path class="half" d="M{half:.3f},0V0.5" stroke="{INKS[1]}" style="stroke-width:2"/>
<path class="weight" d="{drawn}" stroke="{INKS[0]}" style="stroke-width:2"/>
<path class="here" d="M{AT},{weight:.4f}h.001" stroke="{INKS[0]}"
 style="stroke-width:9;stroke-linecap:round"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">━</span> the marked key</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">┄</span> if all logits were
 equal</span> · <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">━</span> half of the weight:</span> <output class="unit"
 aria-live="off">{2**half:,.0f}</output> other keys</p>"""
    return explorable(
        "nope",
        picture,
        (
            Slider(
                *("temperature", "temperature", 0, 2),
                *(TEMPERATURE, 0.05, f"{TEMPERATURE:.2f}"),
            ),
            Slider("others", "other keys", 0, DOUBLINGS, AT, 1, f"{others:,}"),
        ),
        summary=_summary_text(others, TEMPERATURE),
        caption="One key's logit is 4 above all others', times the temperature. Its "
        "weight encodes the number of other keys, and relative changes of it best "
        "where the weight is one half; a larger temperature moves that place to the "
        "right.",
    )


def weight_of(others: int, temperature: float) -> float:
    """Return the attention weight of the marked key among ``others`` other keys.

    ``temperature`` multiplies the logits; before that the marked key's logit is greater
    than the equal logits of the others.
    """
    logits = np.zeros(others + 1)
    logits[0] = GAP
    return float(softmax(temperature * logits)[0])


def half_at(temperature: float) -> float:
    """Return log₂ of the number of other keys at which the marked key's weight is ½.

    ``temperature`` multiplies the logits.
    """
    return temperature * GAP / np.log(2)


def weight_curve(temperature: float) -> Float[Array, "points 2"]:
    """Return points of a curve: the marked key's weight over the number of other keys.

    A point is log₂ of the number and the weight; points are quarters of a doubling
    apart. ``temperature`` multiplies the logits.
    """
    others = np.unique(np.round(2 ** (np.arange(4 * DOUBLINGS + 1) / 4)).astype(int))
    return np.array([(np.log2(n), weight_of(int(n), temperature)) for n in others])


def _path(temperature: float) -> str:
    return "M" + "L".join(f"{x:.3f},{w:.4f}" for x, w in weight_curve(temperature))


def _summary_text(others: int, temperature: float) -> str:
    weight = 100 * weight_of(others, temperature)
    return (
        f"With the temperature {temperature:.2f} the marked key has {weight:.1f} % of "
        f"the weight among {others:,} others."
    )
