"""Interactive figure of permutation equivariance: outputs for reordered words.

The reference implementation computes all numbers in advance; the script only looks them
up.
"""

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Reveal, explorable
from posedu.book.figures import COLORS
from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.numpy.attention import Projections, attention

Array = np.ndarray

WORDS = {"dog": (1.5, 0.0), "bites": (-0.5, 1.0), "man": (1.0, 1.5)}
BEFORE, AFTER = (0, 1, 2), (2, 1, 0)  # the second is drawn where scripts do not run
INKS = (*COLORS[:3], "currentColor")  # of the words and of the mean
X = (52, 144, 236, 346)  # of the positions and the mean
TOP, BOTTOM, RADIUS = 86, 228, 41  # of the two rows of dials
LONGEST = 2.8  # output that fits


def permutation_equivariance_explorable() -> Explorable:
    """Draw attention's outputs for three words, before and after a change of order.

    The outputs are computed by :func:`posedu.numpy.attention.attention` for one head
    with d = 2, W_q = 4 I and the other matrices I; positions are added by
    :func:`posedu.numpy.absolute.sinusoidal`.
    """
    orders = [AFTER, *(o for o in permutations(BEFORE) if o not in (BEFORE, AFTER))]
    names = {_key(o): " ".join(list(WORDS)[n] for n in o) for o in orders}
    numbers = {
        positions: {_key(o): _arrows(o, positions) for o in (BEFORE, *orders)}
        for positions in ("without", "with")
    }
    return explorable(
        "permutation_equivariance",
        _picture(),
        (
            Choice("order", "new order", names),
            Choice(
                "guess",
                "my guess",
                {
                    "": "choose before you look",
                    "position": "each position keeps its output",
                    "word": "each word keeps its output",
                    "none": "every output changes",
                },
            ),
            Reveal("look", "Look at the outputs"),
            Choice(
                "positions",
                "positions",
                {"without": "without positions", "with": "added to the inputs"},
            ),
        ),
        summary=f"{names[_key(AFTER)]}, without positions: each word keeps its output, "
        "changed by 0.00, and the mean moves by 0.00.",
        caption="The arrows are attention's outputs for the words, and their mean; the "
        "dashed arrows are those before the order changed.",
        numbers=numbers,
    )


def outputs(order: Sequence[int], positions: str) -> Float[Array, "4 2"]:
    """Return attention's outputs for reordered words; the last row is their mean.

    ``order`` lists the indices of the three words in their new order. ``positions`` is
    ``"with"`` if sinusoids are added to the words' vectors, else ``"without"``.
    """
    one = np.eye(2)
    w = Projections(q=4 * one[None], k=one[None], v=one[None], o=one[:, None])
    x = np.array(list(WORDS.values()))[list(order)]
    if positions == "with":
        x = x + sinusoidal(range(3), 2, layout="interleaved")
    y = attention(x, w)
    return np.vstack([y, y.mean(axis=0)])


def _key(order: Sequence[int]) -> str:
    return "".join(map(str, order))


def _arrows(order: Sequence[int], positions: str) -> list[list[float]]:
    return outputs(order, positions).round(3).tolist()


def _picture() -> str:
    before, after = (_arrows(order, "without") for order in (BEFORE, AFTER))
    heads = "".join(f'<text x="{X[n]}" y="14">position {n}</text>' for n in BEFORE)
    strands = "".join(
        f'<path class="strand" d="M{n},0C{n},0.5 {place},0.5 {place},1"'
        f' stroke="{INKS[n]}" style="stroke-width:2.5"/>'
        for place, n in enumerate(AFTER)
    )
    top = "".join(_dial(X[n], n, before[n]) for n in range(4))
    bottom = "".join(
        _dial(X[place], n, after[place], _dashed(before[n]))
        for place, n in enumerate((*AFTER, 3))
    )
    gap = BOTTOM - TOP - 2 * RADIUS - 26
    return f"""
<svg viewBox="0 0 400 274" font-size="14.5" style="max-width:30rem;margin:auto"
 role="img" aria-label="Outputs of three words and their mean as arrows: above in the
 first order, below in the new one; a strand leads each word to its new position">
{heads}<g transform="translate({X[0]},{TOP + RADIUS + 4}) scale({X[1] - X[0]},{gap})">
{strands}</g>
<g class="before" transform="translate(0,{TOP})">{top}</g>
<g class="after" transform="translate(0,{BOTTOM})">{bottom}</g>
<text class="moved" x="{X[3]}" y="{BOTTOM - RADIUS - 24}">moved by 0.00</text>
</svg>"""


def _dial(x: int, n: int, arrow: Sequence[float], old: str = "") -> str:
    """Return the SVG of a circle, in which an arrow is one word's attention output.

    ``x`` is the abscissa of the circle's center, ``n`` the word's index, or 3 for the
    mean output, and ``arrow`` the output's two features. ``old`` is the SVG of the
    output before the order changed; empty to leave it out.
    """
    word, scale = [*WORDS, "mean"][n], RADIUS / LONGEST
    return f"""
<g class="dial" transform="translate({x})">
<text class="word" y="{-RADIUS - 7}">{word}</text><text class="unseen" y="5"></text>
<g transform="scale({scale:.3f},{-scale:.3f})">
<circle r="{LONGEST}" stroke="currentColor" stroke-opacity="0.4"/>
<path class="arrow" d="{_to(arrow)}" stroke="{INKS[n]}" stroke-linecap="round"
 style="stroke-width:5"/>{old}</g></g>"""


def _dashed(arrow: Sequence[float]) -> str:
    return f"""
<path class="old" d="{_to(arrow)}" stroke="currentColor" stroke-dasharray="3 3"
 style="stroke-width:1.5"/>"""


def _to(arrow: Sequence[float]) -> str:
    x, y = arrow
    return f"M0,0L{x:g},{y:g}"
