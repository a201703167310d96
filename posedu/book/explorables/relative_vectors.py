"""Interactive figure of relative position vectors: attention weights by offset."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.attention import steps
from posedu.numpy.relative import shaw

Array = np.ndarray

NEAR = 4  # offsets with their own vector; farther keys share one
KEYS = 9
SIZE = 4.0  # of the query
SHIFT = np.array([0.4, -0.3])  # added to all vectors by "move all"
ANGLE, MOVED = 20, 0.0  # drawn where scripts do not run
OWN, SHARED, QUERY = INKS[:3]
_ANGLES = np.radians(90 - 72 * np.arange(NEAR + 1))
ROWS = np.stack((np.cos(_ANGLES), np.sin(_ANGLES)), -1)  # of the offsets 0, 1, …
X, Y, UNIT = 100, 108, 60


def relative_vectors_explorable() -> Explorable:
    """Draw a query among the vectors of offsets, and its attention weights by offset.

    The weights are computed by :func:`posedu.numpy.relative.shaw`; all tokens have
    equal contents.
    """
    weights = weights_of(ANGLE, MOVED)
    return explorable(
        "relative_vectors",
        _picture(weights),
        (
            Slider("angle", "query", 0, 355, ANGLE, 5, f"{ANGLE}°"),
            Slider("moved", "move all", 0, 1, MOVED, 0.1, f"{MOVED:.1f}"),
        ),
        summary=summary_text(weights),
        caption="Left: a vector for each offset, 4 and more sharing one, and a query. "
        "Right: the last query’s weights, if contents are equal. Without a shift, "
        "the offset whose vector the query points at gets the most weight. A common "
        "shift of all vectors changes no weight.",
        numbers={
            "rows": ROWS.round(6).tolist(),
            "keys": KEYS,
            "size": SIZE,
            "shift": SHIFT.tolist(),
        },
    )


def weights_of(angle: float, moved: float) -> Float[Array, "keys"]:
    """Return the last query's attention weights on its own key and earlier ones.

    The weights are in the order of the offsets 0, 1, …. ``angle`` is the direction of
    the query vector in degrees; ``moved`` times a fixed vector is added to the relative
    vectors of all offsets.
    """
    radians = np.radians(angle)
    q = np.tile(SIZE * np.array([np.cos(radians), np.sin(radians)]), (1, KEYS, 1))
    table = ROWS[::-1] + moved * SHIFT
    attention = steps(q, 0 * q, 0 * q, shaw(past=NEAR, future=0, key_table=table))
    return attention.weights[0, -1, ::-1]


def summary_text(weights: Float[Array, "keys"]) -> str:
    """Describe in one sentence the offset with the largest weight, and the far keys.

    Far keys share one relative vector. ``weights`` are in the order of the offsets.
    """
    best, far = int(weights.argmax()), f"{100 * weights[NEAR]:.1f} %"
    if best >= NEAR:
        return (
            f"The keys at offsets {NEAR} to {KEYS - 1} share a vector, and each gets "
            f"{far} of the weight."
        )
    return (
        f"The key at offset {best} gets {100 * weights[best]:.1f} % of the weight; "
        f"each of those at {NEAR} to {KEYS - 1}, which share a vector, {far}."
    )


def _picture(weights: Float[Array, "keys"]) -> str:
    inks = [OWN] * NEAR + [SHARED]
    arrows = "".join(
        f'<path d="M0,0L{x:.3f},{y:.3f}" stroke="{ink}" style="stroke-width:2.5"/>'
        for (x, y), ink in zip(ROWS, inks, strict=True)
    )
    names = "".join(
        f'<text x="{X + 1.22 * UNIT * x:.1f}" y="{Y + 5 - 1.22 * UNIT * y:.1f}">'
        f"{n if n < NEAR else f'{n}+'}</text>"
        for n, (x, y) in enumerate(ROWS)
    )
    radians = np.radians(ANGLE)
    bars = "".join(
        f'<path d="M{n + 0.5},0V{weight:.4f}" stroke="{inks[min(n, NEAR)]}"'
        ' style="stroke-width:11"/>'
        for n, weight in enumerate(weights)
    )
    marks = "".join(f'<text x="{231 + 18 * n}" y="198">{n}</text>' for n in range(KEYS))
    return f"""
<svg class="plot" viewBox="0 0 400 224" role="img" aria-label="Left, five arrows, which
 are vectors of offsets, and a query; right, a bar for the weight of each offset">
<text x="{X}" y="216">vectors, query</text>
<g class="names">{names}</g>
<g transform="translate({X},{Y}) scale({UNIT},-{UNIT})">
<path d="M-1.4,0H1.4M0,-1.4V1.4" stroke="currentColor" stroke-opacity="0.25"/>
<g class="rows">{arrows}</g>
<path class="query" d="M0,0L{0.75 * np.cos(radians):.3f},{0.75 * np.sin(radians):.3f}"
 stroke="{QUERY}" style="stroke-width:6"/>
</g>
{marks}<text x="303" y="216">offset</text>
<text x="210" y="34" style="text-anchor:end">1</text>
<text x="210" y="184" style="text-anchor:end">0</text>
<text x="303" y="18">weight</text>
<g transform="translate(222,180) scale(18,-150)">
<path d="M0,1H{KEYS}M0,0.5H{KEYS}" stroke="currentColor" stroke-opacity="0.25"/>
<path d="M0,0H{KEYS}" stroke="currentColor" stroke-opacity="0.5"/>
<g class="weights">{bars}</g>
</g>
</svg>"""
