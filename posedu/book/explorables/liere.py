"""Interactive figures of LieRE: rotations of three features, drawn on a sphere.

The script rotates by Rodrigues' formula; the back of the sphere is drawn faint.
"""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Reveal, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.rotary import rotations, skew

Array = np.ndarray

SCALE = 120  # of the unit sphere, also in the script
ASIDE, ABOVE = np.radians(25), np.radians(42)  # direction from which the sphere is seen
RIGHT = np.array([np.cos(ASIDE), np.sin(ASIDE), 0])
TOWARDS = np.array([np.sin(ASIDE), -np.cos(ASIDE), np.tan(ABOVE)]) * np.cos(ABOVE)
EYE = np.stack([RIGHT, np.cross(TOWARDS, RIGHT), TOWARDS])
START = np.array([0, 0.6, 0.8])
STEPS = 24  # steps of a curve
ANGLE = 90  # drawn where scripts do not run, in degrees
PLACE = (0.75, 0.5)
QUARTERS = skew(np.array([[-1.0, 0, 0], [0, 0, -1.0]]))  # about the third, the first
LEARNED = skew(np.array([[-2.4, 0.4, 0.2], [0.3, -0.6, -1.7]]))


def commuting_generators_explorable() -> Explorable:
    """Draw a vector rotated about two axes, in one order and in the reverse order.

    The reader first guesses where the second path ends. The rotations are computed by
    :func:`posedu.numpy.rotary.rotations` from the generators of rotations about the
    third and the first coordinate axis.
    """
    angle = np.radians(ANGLE)
    column, row, back = (
        _rotations_along((x, y), QUARTERS)
        for x, y in ((angle, 0), (0, angle), (-angle, 0))
    )
    first = np.vstack([column @ START, row[1:] @ column[-1] @ START])
    second = np.vstack([row @ START, column[1:] @ row[-1] @ START])
    ends = {"A": back[-1] @ row[-1] @ START, "B": second[-1], "C": first[-1]}
    gap = np.degrees(np.arccos(np.clip(ends["B"] @ ends["C"], -1, 1)))
    inside = (
        _axle([0, 0, 1], "column"),
        _axle([1, 0, 0], "row"),
        _curve("first", first, INKS[0]),
        _curve("second", second, INKS[1], "6 4"),
        *(_mark(name, end) for name, end in ends.items()),
    )
    label = (
        "A sphere with two axes. A path from the square rotates about the upright one, "
        "then about the other, and ends at C; A and B are guesses for the other order"
    )
    picture = f"""{_sphere(label, *inside)}
<p><span aria-hidden="true" style="color:{INKS[0]}">━</span> column, then row ·
<span aria-hidden="true" style="color:{INKS[1]}">┅</span> row, then column ·
between their ends: <output class="gap" aria-live="off">{gap:.0f}°</output></p>"""
    return explorable(
        "liere",
        picture,
        (
            Choice(
                "guess",
                "row, then column ends",
                {"": "choose before you look", "A": "at A", "B": "at B", "C": "at C"},
            ),
            Reveal("look", "Show the other order"),
            Slider("turn", "each angle", 15, 180, ANGLE, 15, f"{ANGLE}°"),
        ),
        summary=f"Two rotations by {ANGLE}°: row, then column ends at B, {gap:.0f}° "
        "from C, where column, then row ends.",
        caption="A vector of three features starts at the square. A step by one column "
        "rotates it about the upright axis, a step by one row about the other. Both "
        "orders lead to the same patch. If angles of up to 90° are halved, the gap "
        "shrinks to about a quarter.",
        numbers={"eye": EYE.tolist(), "start": START.tolist(), "steps": STEPS},
    )


def liere_explorable() -> Explorable:
    """Draw LieRE's rotation of a vector of three features, for a column and a row.

    The rotations are computed by :func:`posedu.numpy.rotary.rotations` from two
    generators in place of learned ones.
    """
    curve = _rotations_along(PLACE, LEARNED) @ START
    spin = np.array(PLACE) @ _spins(LEARNED)
    angle, length = np.linalg.norm(spin).item(), np.linalg.norm(curve[-1]).item()
    values = ", ".join(f"{value:.2f}" for value in curve[-1]).replace("-", "−")
    label = "A sphere, an axis through its center, and a path that rotates about it"
    inside = _axle(spin / angle), _curve("first", curve, INKS[0])
    picture = f"""{_sphere(label, *inside)}
<p>features: <output class="values" aria-live="off">{values}</output> ·
length: <output class="length" aria-live="off">{length:.2f}</output></p>"""
    return explorable(
        "liere",
        picture,
        (
            Slider("column", "column", 0, 1, PLACE[0], 0.05, f"{PLACE[0]:.2f}"),
            Slider("row", "row", 0, 1, PLACE[1], 0.05, f"{PLACE[1]:.2f}"),
        ),
        summary=f"At column {PLACE[0]:.2f}, row {PLACE[1]:.2f} the vector is rotated "
        f"by {np.degrees(angle):.0f}°; its features are {values}.",
        caption="A vector of three features starts at the square. Column and row "
        "together determine the axis and the angle of its rotation. All three "
        "features change, its length does not.",
        numbers={
            "eye": EYE.tolist(),
            "start": START.tolist(),
            "steps": STEPS,
            "spins": _spins(LEARNED).tolist(),
        },
    )


def _spins(generators: Float[Array, "axes 3 3"]) -> Float[Array, "axes 3"]:
    """Return the rotation vector ω of each skew 3 × 3 matrix A: A v = ω × v for all v.

    ``generators`` has a matrix A for each position axis. The vector ω points along the
    rotation axis, and its length is the angular speed.
    """
    return generators[:, [2, 0, 1], [1, 2, 0]]


def _rotations_along(
    place: tuple[float, float], generators: Float[Array, "axes 3 3"]
) -> Float[Array, "points 3 3"]:
    """Return LieRE's rotations at points on the line from the origin to a position.

    ``place`` is the position (column, row), ``generators`` has a skew matrix for each
    of the two axes; the points are evenly spaced.
    """
    points = np.linspace(0, 1, STEPS + 1)[:, None] * np.array(place, dtype=float)
    return rotations(points, generators[:, None])[:, 0]


def _sphere(label: str, *inside: str) -> str:
    around = np.linspace(0, 2 * np.pi, 37)
    ring = np.stack([np.cos(around), np.sin(around), 0 * around], -1)
    latitudes = [
        ring * [np.cos(up), np.cos(up), 0] + [0, 0, np.sin(up)]
        for up in np.radians([-60, -30, 0, 30, 60])
    ]
    longitudes = [
        np.stack([ring[:, 0] * np.cos(a), ring[:, 0] * np.sin(a), ring[:, 1]], axis=-1)
        for a in np.radians(np.arange(0, 180, 30))
    ]
    front, back = zip(*map(_drawn, (*latitudes, *longitudes)), strict=True)
    return f"""
<svg viewBox="-180 -145 360 270" font-size="15" role="img" aria-label="{label}"
 style="max-width:26rem;margin:auto">
<g transform="scale({SCALE})">
<circle r="1" stroke="currentColor" stroke-opacity="0.5" fill="currentColor"
 fill-opacity="0.05"/>
<path d="{"".join(back)}" stroke="currentColor" stroke-opacity="0.1"/>
<path d="{"".join(front)}" stroke="currentColor" stroke-opacity="0.3"/>
</g>
{"".join(inside)}</svg>"""


def _drawn(points: Float[Array, "points 3"], digits: int = 2) -> tuple[str, str]:
    """Return two SVG paths of a curve: on the front and on the back of the sphere.

    ``points`` are the curve's points in space. Coordinates in the paths have ``digits``
    decimal places.
    """
    x, y, depth = EYE @ points.T
    paths = ["", ""]
    for n in range(1, len(points)):
        behind = int(depth[n - 1] + depth[n] < 0)
        if n == 1 or behind != (depth[n - 2] + depth[n - 1] < 0):
            paths[behind] += f"M{x[n - 1]:.{digits}f},{-y[n - 1]:.{digits}f}"
        paths[behind] += f"L{x[n]:.{digits}f},{-y[n]:.{digits}f}"
    return paths[0], paths[1]


def _curve(
    name: str, points: Float[Array, "points 3"], ink: str, dashes: str = ""
) -> str:
    front, back = _drawn(points, 3)
    (x, y, _), (at_x, at_y, _) = SCALE * EYE @ points[-1], SCALE * EYE @ points[0]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f"""<g class="{name}"><g transform="scale({SCALE})" stroke="{ink}">
<path class="front" d="{front}"{dashed} style="stroke-width:3"/>
<path class="back" d="{back}"{dashed} stroke-opacity="0.4" style="stroke-width:3"/></g>
<circle class="end" r="5" fill="{ink}" transform="translate({x:.1f},{-y:.1f})"/>
<rect x="-4" y="-4" width="8" height="8" fill="currentColor"
 transform="translate({at_x:.1f},{-at_y:.1f})"/></g>
"""


def _axle(direction: list[float] | Float[Array, "3"], name: str = "") -> str:
    x, y, _ = EYE @ np.asarray(direction, dtype=float)
    label = (
        f'<text x="{176 * x:.0f}" y="{5 - 176 * y:.0f}">{name}</text>' if name else ""
    )
    return f"""<path class="axle" transform="scale({SCALE})" stroke="currentColor"
 d="M{-1.3 * x:.3f},{1.3 * y:.3f}L{1.3 * x:.3f},{-1.3 * y:.3f}"
 stroke-opacity="0.6" style="stroke-width:2"/>{label}
"""


def _mark(name: str, point: Float[Array, "3"]) -> str:
    x, y, _ = SCALE * (EYE @ point)
    return f"""<g class="{name}" transform="translate({x:.1f},{-y:.1f})">
<circle r="7" stroke="currentColor" style="stroke-width:2"/>
<text y="-13" font-weight="bold">{name}</text></g>
"""
