"""Interactive figure of FoPE: a pair that is a sum of waves, and a score."""

import numpy as np
from jaxtyping import Complex

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.rotary import fope_table

Array = np.ndarray

LONGEST = 40  # last position, and the training length
STEP = 0.25  # from point to point of the curves
WEIGHTS = (1.0, 0.3, 0.0)  # drawn where scripts do not run
BASE = 10  # two pairs, of frequencies 1 and 0.316
CURVE, SCORE = INKS[:2]


def fope_explorable() -> Explorable:
    """Draw one pair of FoPE, and two neighboring tokens' score over their position.

    The pair is computed by :func:`posedu.numpy.rotary.fope_table` for d = 4 and base
    10. It is a sum of the first pair's own wave, the second pair's wave, and the first
    pair's wave of negative frequency.
    """
    at = np.arange(0, LONGEST + STEP, STEP)
    most = sum(WEIGHTS)
    here, there = pair_values(at) / most, pair_values(at + 1) / most
    scores = (there * here.conj()).real
    low, high = (
        f"{value:.2f}".replace("-", "−") for value in (scores.min(), scores.max())
    )
    circle = "L".join(f"{z.real:.3f},{z.imag:.3f}" for z in here)
    curve = "L".join(f"{x:g},{score:.3f}" for x, score in zip(at, scores, strict=True))
    wide = 200 / LONGEST
    picture = f"""
<svg viewBox="0 0 400 180" font-size="15" role="img"
 style="max-width:32rem;margin:auto"
 aria-label="On the left the path of the pair; on the right the score of two
 neighbors against their position">
<g transform="translate(78,80) scale(66,-66)">
<path d="M-1,0H1M0,-1V1" stroke="currentColor" stroke-opacity="0.3"/>
<circle r="1" stroke="currentColor" stroke-opacity="0.3"/>
<path class="curve" d="M{circle}" stroke="{CURVE}" style="stroke-width:1.5"/></g>
<text x="78" y="173">the pair</text>
<text x="172" y="19">1</text><text x="172" y="85">0</text>
<text x="170" y="151">−1</text>
<g transform="translate(184,80) scale({wide:g},-66)">
<path d="M0,-1H{LONGEST}M0,0H{LONGEST}M0,1H{LONGEST}M0,-1V1" stroke="currentColor"
 stroke-opacity="0.3"/>
<path class="scores" d="M{curve}" stroke="{SCORE}" style="stroke-width:2"/></g>
<text x="284" y="173">score at positions 0–{LONGEST}</text>
</svg>"""
    return explorable(
        "fope",
        picture,
        (
            Slider("own", "own wave", 0, 1, WEIGHTS[0], 0.1, f"{WEIGHTS[0]:.1f}"),
            Slider(
                "other", "another pair's", 0, 1, WEIGHTS[1], 0.1, f"{WEIGHTS[1]:.1f}"
            ),
            Slider("back", "own, negative", 0, 1, WEIGHTS[2], 0.1, f"{WEIGHTS[2]:.1f}"),
        ),
        summary=f"2 waves: the score of two neighbors varies from {low} to {high} with "
        "the position. It is not relative.",
        caption="With one wave the pair moves on a circle, and two neighbors have the "
        "same score at all positions: a level line, a relative score. That holds for "
        "any single wave. With two or more waves the length of the pair varies with "
        "the position, and so does the score. Both are drawn relative to the largest "
        "value that these weights allow.",
    )


def pair_values(at: np.ndarray) -> Complex[Array, "places"]:
    """Return FoPE's first pair as complex numbers cos + i sin, at each position.

    ``at`` has the positions; the weights of the pair's three waves are ``WEIGHTS``.
    """
    own, other, back = WEIGHTS
    cos, sin = fope_table(
        at,
        4,
        cos_coefficients=np.array([[own + back], [other]]),
        sin_coefficients=np.array([[own - back], [other]]),
        length=LONGEST,
        base=BASE,
        padding="identity",
    )
    return cos[:, 0] + 1j * sin[:, 0]
