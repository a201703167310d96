"""Interactive figure of ComRoPE: planes in which the encoding rotates feature blocks.

Each plane shows the projections of four features. The script rotates the projections;
Python exports the projections and the frequency vectors.
"""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.rotary import normal_form
from posedu.numpy.rotary.comrope import ap_generators, ld_generators

Array = np.ndarray

PLACE = (0.35, 0.6)  # drawn where scripts do not run
ROW = "grid-template-columns:repeat(4,1fr);max-width:30rem;margin:auto"
KINDS = {
    "pairs": "AP, blocks of 2: as axial RoPE",
    "ap": "ComRoPE-AP, blocks of 4",
    "ld": "ComRoPE-LD, blocks of 4",
}
LAWS = {
    "pairs": "planes 0 and 2 follow the column, 1 and 3 the row",
    "ap": "planes 0 and 1 follow the column, 2 and 3 the row",
    "ld": "all planes follow both, those of a block in one proportion",
}


def comrope_explorable() -> Explorable:
    """Draw the planes in which axial RoPE, ComRoPE-AP or -LD rotates eight features.

    AP stands for an axial partition, LD for linearly dependent generators. The planes
    are computed by :func:`posedu.numpy.rotary.normal_form` for random generators in
    place of learned ones.
    """
    numbers = {}
    for kind, generators in example_generators().items():
        shadows, frequencies = planes(generators)
        numbers[kind] = {
            "law": LAWS[kind],
            "shadows": shadows.round(4).tolist(),
            "frequencies": frequencies.round(4).tolist(),
        }
    shown = numbers["pairs"]
    angles = np.array(shown["frequencies"]) @ PLACE
    clocks = "".join(map(_clock, range(4), np.array(shown["shadows"]), angles))
    shown_angles = ", ".join(_degrees(angle) for angle in angles)
    keys = "".join(
        f'<span aria-hidden="true" style="color:{ink}">━</span> ' for ink in INKS[:4]
    )
    return explorable(
        "comrope",
        f"""<div class="clocks" style="{ROW}">{clocks}</div>
<p>{keys} features 0, 1, 2, 3 in planes 0 and 1; 4, 5, 6, 7 in planes 2 and 3</p>""",
        (
            Choice("kind", "encoding", KINDS),
            Slider("column", "column", 0, 1, PLACE[0], 0.05, f"{PLACE[0]:.2f}"),
            Slider("row", "row", 0, 1, PLACE[1], 0.05, f"{PLACE[1]:.2f}"),
        ),
        summary=f"At column {PLACE[0]:.2f}, row {PLACE[1]:.2f} the planes are rotated "
        f"by {shown_angles}: {LAWS['pairs']}.",
        caption="Each line is the projection of one feature on a plane; all lines of a "
        "plane rotate together. In blocks of 2 a plane is a pair of features. In "
        "larger blocks training also chooses the planes, and every feature has a "
        "component in each plane of its block.",
        numbers=numbers,
    )


def example_generators() -> dict[str, Float[Array, "axes blocks b b"]]:
    """Return random generators of axial RoPE, ComRoPE-AP and ComRoPE-LD.

    AP (``"ap"``) stands for an axial partition, LD (``"ld"``) for linearly dependent
    generators; axial RoPE is ``"pairs"``. The matrices that would be trained are
    standard normal, as at ComRoPE's initialization.
    """
    rng = np.random.default_rng(1)
    two, four = rng.normal(size=(4, 2, 2)), rng.normal(size=(2, 4, 4))
    return {
        "pairs": ap_generators(two),
        "ap": ap_generators(four),
        "ld": ld_generators(four, np.array([[1.0, -0.5], [0.4, 1.0]])),
    }


def planes(
    generators: Float[Array, "axes blocks b b"],
) -> tuple[Float[Array, "4 4 2"], Float[Array, "4 axes"]]:
    """Return features' projections on each of four planes, and the planes' frequencies.

    ``generators`` has a skew matrix for each position axis and block of features.
    ComRoPE rotates features within each of the planes. The first two planes have the
    projections of features 0 to 3, the last two of features 4 to 7. A plane has a
    frequency for each axis.
    """
    size = generators.shape[-1]
    shadows, frequencies = [], []
    for number, block in enumerate(generators.swapaxes(0, 1)):
        basis, vectors = normal_form(block)
        for plane, vector in enumerate(vectors):
            shadow = np.zeros((4, 2))
            first = number * size % 4
            shadow[first : first + size] = basis[:, 2 * plane : 2 * plane + 2]
            shadows.append(shadow)
            frequencies.append(vector)
    return np.array(shadows), np.array(frequencies)


def _clock(plane: int, shadows: Float[Array, "4 2"], angle: float) -> str:
    rotated = shadows[:, 0] + 1j * shadows[:, 1]
    rotated *= np.exp(1j * angle)
    lines = "".join(
        f'<path class="rotation" d="M0,0L{tip.real:.3f},{tip.imag:.3f}" stroke="{ink}"'
        ' style="stroke-width:4"/>'
        for tip, ink in zip(rotated, INKS, strict=False)
    )
    return f"""
<svg class="clock" viewBox="0 0 80 112" font-size="14" role="img"
 aria-label="Plane {plane}, rotated by {_degrees(angle)}">
<text x="40" y="14">plane {plane}</text>
<g transform="translate(40,56) scale(34,-34)">
<circle r="1" stroke="currentColor" stroke-opacity="0.4"/>{lines}</g>
<text class="angle" x="40" y="108">{_degrees(angle)}</text>
</svg>"""


def _degrees(angle: float) -> str:
    return f"{np.degrees(angle):.0f}°".replace("-", "−")
