"""Interactive figure of learned embeddings: cosines of one vector with all others.

The rows of a table of embeddings are its positions' vectors.
"""

import math

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, Switch, explorable
from posedu.book.figures import INKS
from posedu.numpy.absolute import random_table, sinusoidal

Array = np.ndarray

LENGTH, MOST = 48, 128
POWER, ROW = 5, 20  # drawn where scripts do not run
CHANCE = 0.01
TENTHS = random_table(LENGTH, MOST, std=10.0, seed=0).round().clip(-30, 30).astype(int)
ORDER = np.random.default_rng(1).permutation(LENGTH)


def learned_embeddings_explorable() -> Explorable:
    """Draw the cosines of one position's vector with all vectors, and a bound.

    The bound is for random vectors. The vectors are the first features of
    :func:`posedu.numpy.absolute.random_table`, or
    :func:`posedu.numpy.absolute.sinusoidal` ones, in order or shuffled.
    """
    found = cosines("random", 2**POWER, ROW, shuffled=False)
    limit = bound(2**POWER)
    picture = f"""
<svg class="plot" viewBox="0 0 400 250" role="img" aria-label="A stem for each position:
 the cosine of its row with the row of the chosen position, between minus one and one;
 a band around 0 is the bound for random rows">
<text x="215" y="18">cosine with the row of the chosen position</text>
<text x="40" y="40" style="text-anchor:end">1</text>
<text x="40" y="130" style="text-anchor:end">0</text>
<text x="40" y="220" style="text-anchor:end">−1</text>
<text x="54" y="244">0</text><text x="215" y="244">position</text>
<text x="376" y="244">{LENGTH - 1}</text>
<g transform="translate(54,125) scale({322 / (LENGTH - 1):.4f},-90)">
<path class="band" d="{band(limit)}" fill="{INKS[1]}" fill-opacity="0.18"
 stroke="none"/>
<path d="M-0.5,0H{LENGTH - 0.5}" stroke="currentColor" stroke-opacity="0.3"/>
<path class="stems" d="{stems(found)}" stroke="{INKS[0]}" style="stroke-width:3"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">┃</span> cosine</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">▒</span> all others</span> of 99 random tables in 100</p>"""
    return explorable(
        "learned_embeddings",
        picture,
        (
            Choice("kind", "rows", {"random": "random", "sinusoidal": "sinusoidal"}),
            Slider("row", "chosen position", 0, LENGTH - 1, ROW, 1, f"{ROW}"),
            Slider("power", "features d", 2, 7, POWER, 1, f"{2**POWER}"),
            Switch("shuffled", "shuffle the rows"),
        ),
        summary=summary_text(found, ROW, limit),
        caption="Random rows are nearly orthogonal, the more so the more features they "
        "have, and neighbors are on average no more alike than other rows: shuffled "
        "rows look no different. Sinusoids have a hill around the chosen position, "
        "which shuffling destroys.",
        numbers={"table": letters(), "order": ORDER.tolist()},
    )


def cosines(
    kind: str, d: int, row: int, *, shuffled: bool
) -> Float[Array, "positions"]:
    """Return the cosines of one position's vector with the vectors of all positions.

    ``kind`` is ``"random"`` or ``"sinusoidal"``, ``d`` the number of features, ``row``
    the one position; with ``shuffled`` the vectors are in random order.
    """
    if kind == "random":
        table = TENTHS[:, :d] / 10
    else:
        table = sinusoidal(np.arange(LENGTH), d, layout="interleaved")
    if shuffled:
        table = table[ORDER]
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(unit @ unit[row])


def letters() -> list[str]:
    """Encode the random table of embeddings as text, a string for each position.

    A letter stands for a number: "^" is 0, and the next letter, "_", is 1/10.
    """
    return ["".join(chr(ord("^") + n) for n in row) for row in TENTHS]


def bound(d: int) -> float:
    """Return a bound ε of a random vector's |cosine| with each of n − 1 other vectors.

    The vectors have ``d`` features. In 99 of 100 random tables no cosine is larger: 2
    (n − 1) exp(−d ε²/2) = 1/100. The bound is 1 at most. See ``eq-learned-cap``.
    """
    return min(1.0, math.sqrt(2 * math.log(2 * (LENGTH - 1) / CHANCE) / d))


def stems(found: Float[Array, "positions"]) -> str:
    """Return the SVG path of vertical lines from 0 to each position's cosine.

    ``found`` has the cosines of one position's vector with all vectors.
    """
    return "".join(f"M{n},0V{c:.4f}" for n, c in enumerate(found))


def band(limit: float) -> str:
    """Return the SVG path of a band from −limit to limit over all positions."""
    return f"M-0.5,{-limit:.4f}H{LENGTH - 0.5}V{limit:.4f}H-0.5Z"


def summary_text(found: Float[Array, "positions"], row: int, limit: float) -> str:
    """Describe the picture: the vector least orthogonal to the chosen one, and a bound.

    ``found`` has the chosen vector's cosines with all vectors, ``row`` is the chosen
    vector's position, ``limit`` the bound for random vectors.
    """
    others = np.abs(found)
    others[row] = -1
    at = int(np.argmax(np.round(others, 9)))
    return (
        f"Of all other rows the one at {at} is least orthogonal to that at {row}: "
        f"|cosine| {others[at]:.2f}; the bound for random rows is {limit:.2f}."
    )
