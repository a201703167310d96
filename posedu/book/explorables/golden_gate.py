"""Interactive figure of directions in the plane: recipes, their number, their gaps."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.rotary import golden_directions

Array = np.ndarray

MOST, COUNT, KIND = 64, 8, "angles"  # the last two: drawn where scripts do not run
INK = INKS[1]
RATIO = 8.0  # of the longest and the shortest vector
NAMES = {
    "angles": "golden angles, πi/φ",
    "quantiles": "the recipe for any number of axes",
    "circle": "the golden angle of a whole circle",
    "axial": "the two axes in turn",
}


def golden_gate_explorable() -> Explorable:
    """Draw frequency vectors in the plane, and say how even their directions are.

    A slider changes the number of pairs, a menu the recipe of the directions, which are
    those of :func:`posedu.numpy.rotary.golden_directions` for the first two.
    """
    angles = {name: direction_angles(name) for name in NAMES}
    drawn = angles[KIND][:COUNT]
    shown = described(drawn)
    picture = f"""
<svg class="plot" viewBox="-1.7 -1.07 3.4 2.14" role="img" aria-label="A disk with a
 line through its center for each direction, and two opposite dots for each frequency
 vector">
<circle r="1.02" fill="none" stroke="currentColor" stroke-opacity="0.25"/>
<path class="directions" d="{diameters(drawn)}" stroke="currentColor"
 stroke-opacity="0.5" fill="none" style="stroke-width:1.5"/>
<path class="vectors" d="{dots(drawn)}" stroke="{INK}" stroke-linecap="round"
 style="stroke-width:7"/>
</svg>
<p>Largest gap between directions: <output class="largest" aria-live="off"
>{shown["largest"]}</output> of the mean gap, smallest: <output class="smallest"
 aria-live="off">{shown["smallest"]}</output></p>"""
    return explorable(
        "golden_gate",
        picture,
        (
            Choice("kind", "directions", NAMES),
            Slider("count", "pairs", 2, MOST, COUNT),
        ),
        summary=summary_text(COUNT, shown),
        caption="The frequency vectors of a head in the plane, each drawn with its "
        "opposite, which rotates the same pair the other way; the longest is 8 times "
        "the shortest. Add pairs one by one: golden angles fall into the largest gap. "
        "From 3 pairs on the recipe for any number of axes leaves a wider one, and "
        "axial RoPE has two directions, however many pairs there are.",
        numbers={"angles": {name: list(row) for name, row in angles.items()}},
    )


def direction_angles(kind: str, count: int = MOST) -> Float[Array, "count"]:
    """Return the angles of ``count`` directions modulo π, by a recipe of ``NAMES``."""
    i = np.arange(1, count + 1)
    if kind == "axial":
        return (i - 1) % 2 * np.pi / 2
    if kind == "circle":
        return i * np.pi * (3 - np.sqrt(5)) % np.pi
    u = golden_directions(count, recipe=kind)
    return np.arctan2(u[:, 1], u[:, 0]) % np.pi


def lengths(count: int) -> Float[Array, "count"]:
    """Return the lengths of ``count`` vectors, a geometric series up to 1."""
    return RATIO ** (np.arange(count) / max(count - 1, 1) - 1)


def diameters(angles: Float[Array, "count"]) -> str:
    """Return a line through the disk for each direction, as SVG text."""
    ends = np.stack((np.cos(angles), -np.sin(angles)), -1)
    return "".join(f"M{-x:.4f},{-y:.4f}L{x:.4f},{y:.4f}" for x, y in ends)


def dots(angles: Float[Array, "count"]) -> str:
    """Return two opposite dots for each frequency vector, as SVG text."""
    ends = np.stack((np.cos(angles), -np.sin(angles)), -1)
    ends = ends * lengths(len(angles))[:, None]
    return "".join(f"M{x:.4f},{y:.4f}h.001M{-x:.4f},{-y:.4f}h.001" for x, y in ends)


def described(angles: Float[Array, "count"]) -> dict[str, str]:
    """Return the largest and the smallest gap over the mean gap, as text."""
    placed = np.sort(angles)
    gaps = np.diff(np.append(placed, placed[0] + np.pi)) * len(angles) / np.pi
    return {"largest": f"{gaps.max():.2f}", "smallest": f"{gaps.min():.2f}"}


def summary_text(count: int, shown: dict[str, str]) -> str:
    """Return the picture in a sentence."""
    return (
        f"{count} pairs: the largest gap between directions is {shown['largest']} "
        f"times the mean gap, the smallest {shown['smallest']} times."
    )
