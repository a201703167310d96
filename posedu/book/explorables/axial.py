"""Interactive figure of axial and mixed RoPE: scores of image patches with one key.

The script computes the scores from the frequency vectors, which Python exports.
"""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.rotary import axial_frequencies, grid, mixed

Array = np.ndarray

COLUMNS, ROWS = 12, 8
KEY = (4, 3)  # drawn where scripts do not run
MINUS, PLUS = INKS[:2]
NAMES = {
    "axial": "axial: columns and rows apart",
    "one": "mixed: all pairs in one direction",
    "two": "mixed: in two mirrored directions",
}


def axial_explorable() -> Explorable:
    """Draw all patches' scores with one key of an image, under axial and mixed RoPE.

    The numbers are computed by :func:`posedu.numpy.rotary.mixed` for q = k = (1, 0) in
    each pair, and divided by the number of pairs. Axial RoPE has d = 16 and base 10;
    the frequency vectors of mixed RoPE are √2 times as long as axial RoPE's vectors.
    """
    vectors = frequency_vectors()
    table = scores(vectors["axial"], KEY)
    here, right, below, both = (
        table[KEY[1] + down, KEY[0] + across] for down in (0, 1) for across in (0, 1)
    )
    picture = f"""{_picture(table)}
<p><span aria-hidden="true" style="color:{PLUS}">■</span> positive,
<span aria-hidden="true" style="color:{MINUS}">■</span> negative score ·
<span aria-hidden="true">━</span> the key's patch and the next one down the diagonal:
together <output class="diagonal" aria-live="off">{here + both:.2f}</output> ·
<span aria-hidden="true">┅</span> the two other neighbors:
together <output class="others" aria-live="off">{right + below:.2f}</output></p>"""
    return explorable(
        "axial",
        picture,
        (
            Choice("kind", "encoding", NAMES),
            Slider("column", "key's column", 0, COLUMNS - 2, KEY[0]),
            Slider("row", "key's row", 0, ROWS - 2, KEY[1]),
        ),
        summary=f"Axial, key in column {KEY[0]}, row {KEY[1]}: the two patches on the "
        f"diagonal score {here + both:.2f} together, the two other neighbors "
        f"{right + below:.2f}.",
        caption="Each patch is colored by the score of a query there with the key at "
        "the ring, all with the same content (score 1 at the key). The pattern moves "
        "with the key, since a score depends on the two offsets only. An axial head "
        "prefers a cross: by itself it cannot prefer the diagonal. A mixed head can.",
        numbers={
            "vectors": {name: f.tolist() for name, f in vectors.items()},
            "inks": [MINUS, PLUS],
        },
    )


def frequency_vectors() -> dict[str, Float[Array, "pairs axes"]]:
    """Return the frequency vectors of axial RoPE and of two kinds of mixed RoPE.

    The result maps a kind to one vector for each pair: ``"axial"``, or mixed RoPE whose
    vectors have one direction (``"one"``) or two mirrored ones (``"two"``). Both
    components of every mixed vector have the same size.
    """
    axial = axial_frequencies(16, order="concatenated", base=10)
    s = axial[:4, 0]
    falling, rising = np.stack([s, -s], -1), np.stack([s, s], -1)
    return {"axial": axial, "one": falling, "two": np.vstack([falling, rising])}


def scores(
    frequencies: Float[Array, "pairs axes"], key: tuple[int, int]
) -> Float[Array, "rows columns"]:
    """Return each patch's score with the key, divided by the number of feature pairs.

    ``frequencies`` has each pair's frequency vector; ``key`` is the column and the row
    of the key's patch.
    """
    pairs = len(frequencies)
    places = np.vstack([grid(COLUMNS, ROWS, coordinates="index"), key])
    content = np.tile([1.0, 0.0], (len(places), pairs))
    rotated = mixed(content, places, frequencies=frequencies, layout="interleaved")
    return (rotated[:-1] @ rotated[-1]).reshape(ROWS, COLUMNS) / pairs


def _picture(table: Float[Array, "rows columns"]) -> str:
    patches = "".join(
        f'<path class="patch" d="M{column},{row}h1v1h-1z"'
        f' fill="{PLUS if score > 0 else MINUS}" fill-opacity="{abs(score):.2f}"/>'
        for (row, column), score in np.ndenumerate(table)
    )
    lines = "".join(f"M0,{row}H{COLUMNS}" for row in range(ROWS + 1)) + "".join(
        f"M{column},0V{ROWS}" for column in range(COLUMNS + 1)
    )
    return f"""
<svg class="grid" viewBox="-0.05 -0.05 {COLUMNS + 0.1} {ROWS + 0.1}" role="img"
 aria-label="A grid of {COLUMNS} columns and {ROWS} rows of patches, colored by their
 scores with the key, and a ring at the key">
{patches}
<path d="{lines}" stroke="currentColor" stroke-opacity="0.2"/>
<g class="key" transform="translate({KEY[0]},{KEY[1]})" stroke="currentColor">
<circle cx="0.5" cy="0.5" r="0.3" style="stroke-width:3"/>
<path d="M0.5,0.5L1.5,1.5" style="stroke-width:2"/>
<path d="M1.5,0.5L0.5,1.5" stroke-dasharray="4 4" style="stroke-width:2"/>
<path d="M0.5,0.5h.001M1.5,1.5h.001" stroke-linecap="round" style="stroke-width:8"/>
<circle cx="1.5" cy="0.5" r="0.1"/><circle cx="0.5" cy="1.5" r="0.1"/>
</g></svg>"""
