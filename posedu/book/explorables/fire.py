"""Interactive figure of FIRE's bias: a function of a normalized distance."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.bias import fire_inputs

Array = np.ndarray

LONGEST = 1000
C = 0.1
QUERY, THRESHOLD = 600, 200  # drawn where scripts do not run
KINKS = {0.0: 0.0, 0.5: -0.2, 0.7: -0.75, 0.85: -0.55, 1.0: -1.0}  # the curve f
DISTANCES = np.unique(np.round(LONGEST ** (np.arange(61) / 60)).astype(int))


def fire_explorable() -> Explorable:
    """Draw FIRE's bias over the distance, for a query's position and a threshold.

    The normalized distances, which are the inputs of FIRE's function, are computed by
    :func:`posedu.numpy.bias.fire_inputs`, with c = 0.1.
    """
    marks = "".join(
        f'<text x="{40 + 0.34 * t:g}" y="176">{t:,}</text>' for t in range(0, 1001, 250)
    )
    middle = middle_of(QUERY, THRESHOLD)
    picture = f"""
<svg class="plot" viewBox="0 0 406 204" role="img" aria-label="A curve with kinks over
 the distance of a key, from 0 to the query's position, and a dashed one, that of a
 query at the threshold">
{marks}<text x="210" y="198">distance</text>
<text x="30" y="22" style="text-anchor:end">0</text>
<text x="30" y="156" style="text-anchor:end">−1</text>
<g transform="translate(40,18) scale(0.34,-134)">
<path d="M0,0H{LONGEST}M0,-1H{LONGEST}M0,0V-1" stroke="currentColor"
 stroke-opacity="0.3"/>
<path class="held" d="M{_points(THRESHOLD, THRESHOLD)}" stroke="currentColor"
 style="stroke-width:2" stroke-dasharray="5 4"/>
<path class="fire" d="M{_points(QUERY, THRESHOLD)}" stroke="{INKS[0]}"
 style="stroke-width:2"/>
<path class="middle" d="M{middle:.1f},0V-1" stroke="{INKS[1]}"
 style="stroke-width:2"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">━</span> this query</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">┄</span> a query at the
 threshold</span> · <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">━</span> the curve's middle: distance <output
 class="middle-at" aria-live="off">{middle:.0f}</output></span></p>"""
    return explorable(
        "fire",
        picture,
        (
            Slider("query", "query at", 10, LONGEST, QUERY, 10),
            Slider("threshold", "threshold", 50, 500, THRESHOLD, 50),
        ),
        summary=_summary_text(QUERY, THRESHOLD),
        caption="FIRE's bias of the keys of one query, c = 0.1, for a curve with three "
        "kinks. Up to the threshold every query has the same curve, as far as it has "
        "keys; beyond the threshold the curve is stretched over all keys.",
    )


def curve(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return FIRE's function f, here a fixed broken line with three kinks, at x.

    ``x`` has normalized distances between 0 and 1.
    """
    return np.interp(x, [*KINKS], [*KINKS.values()])


def bias_curve(query: int, threshold: int) -> Float[Array, "points 2"]:
    """Return distances from 0 to the query's position, and FIRE's bias at each.

    ``query`` is the query's position. A distance is normalized by ``query`` or by
    ``threshold``, whichever is larger.
    """
    t = np.concatenate(([0], DISTANCES[query > DISTANCES], [query]))
    x = fire_inputs(t, query, c=C, threshold=threshold, later="zero", eps=0.0)
    return np.stack((t, curve(x)), -1)


def middle_of(query: int, threshold: int) -> float:
    """Return the distance that FIRE normalizes to 1/2.

    ``query`` is the query's position, ``threshold`` the position below which all
    queries have one normalization.
    """
    return float((np.sqrt(C * max(query, threshold) + 1) - 1) / C)


def _points(query: int, threshold: int) -> str:
    rounded = np.floor(1e4 * bias_curve(query, threshold) + 0.5) / 1e4
    return "L".join(f"{t:.0f},{b:.4f}" for t, b in rounded)


def _summary_text(query: int, threshold: int) -> str:
    what = (
        "has the same curve as a query at the threshold"
        if query <= threshold
        else "has a stretched curve"
    )
    return (
        f"A query at {query:,} with the threshold {threshold} {what}; the curve's "
        f"middle is at distance {middle_of(query, threshold):.0f}."
    )
