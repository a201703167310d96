"""Interactive figure of RoPE layouts: projection rows in another order of pairs."""

import numpy as np

from posedu.book.explorables.frame import Choice, Explorable, explorable
from posedu.book.figures import INKS
from posedu.tools.checkpoints import Conversion, Pairs

ORDERS = {
    "half": "halves: p with p + w/2",
    "interleaved": "interleaved: neighbors",
    "half-clockwise": "halves, rotated clockwise",
    "interleaved-clockwise": "interleaved, rotated clockwise",
}
HEAD = 16
WIDTHS = {"16": "all 16", "8": "the first 8 of 16"}
FIRST = "interleaved", "half", 16  # Meta's code to that of transformers
LEFT, STEP, TOP, BOTTOM = 20, 24, 42, 142


def layouts_explorable() -> Explorable:
    """Draw the permutation of a head's 16 projection rows between two orders of pairs.

    An order of pairs says which rows of the queries' or keys' projection form a pair.
    The rows are permuted as by :class:`posedu.tools.checkpoints.Conversion`. The two
    rows of a pair have one color; there are eight pairs at most.
    """
    order = rows(*FIRST)
    paths = "".join(
        f'<path class="pair{n}" d="{lines(order, n, *FIRST)}" stroke="{INKS[n % 4]}"'
        f' stroke-dasharray="{"none" if n < 4 else "5 3"}"/>'
        for n in range(HEAD // 2)
    )
    names = "".join(
        f'<text class="from{n}" x="{LEFT + STEP * n}" y="{TOP - 8}">{n}</text>'
        f'<text class="to{n}" x="{LEFT + STEP * n}" y="{BOTTOM + 18}">{row}</text>'
        for n, row in enumerate(order)
    )
    picture = f"""
<svg class="plot" viewBox="0 0 400 188" role="img" aria-label="Sixteen rows above, and
 below them the same rows in their new order, each joined to its old place by a line in
 the color of its pair">
<text x="4" y="16" style="text-anchor:start">rows of the checkpoint</text>
<text x="4" y="181" style="text-anchor:start">rows of the converted one</text>
{names}<g>{paths}</g></svg>"""
    return explorable(
        "layouts",
        picture,
        (
            Choice("source", "from", _beginning_with(FIRST[0])),
            Choice("target", "to", _beginning_with(FIRST[1])),
            Choice("width", "rotated features", WIDTHS),
        ),
        summary=summary_text(*FIRST),
        caption="The two rows of a pair have one color and one dash. Every head of "
        "queries and of keys is permuted in the same way, so inner products change by "
        "rounding only; values are not permuted.",
    )


def rows(source: str, target: str, width: int) -> list[int]:
    """Return, for each row of a head's converted projection, its index before.

    The projection's matrix gives a head's queries or keys. ``source`` and ``target``
    are the orders of pairs before and after (keys of ``ORDERS``), ``width`` is the
    number of rotated features.
    """
    how = Conversion(
        source=_pairs(source), target=_pairs(target), head_dim=HEAD, width=width
    )
    return how.order(HEAD, 0).tolist()


def lines(order: list[int], pair: int, source: str, target: str, width: int) -> str:
    """Return the SVG path of two lines from the old to the new places of a pair's rows.

    ``order`` has the old index of each new row (:func:`rows`), ``pair`` is the pair's
    index; ``source`` and ``target`` are keys of ``ORDERS``. The path is empty if the
    pair is not among the ``width`` rotated features.
    """
    if pair >= width // 2:
        return ""
    features = _pairs(source).features(width)[:, pair]
    return "".join(
        f"M{LEFT + STEP * row},{TOP}L{LEFT + STEP * order.index(row)},{BOTTOM}"
        for row in sorted(features.tolist())
    )


def summary_text(source: str, target: str, width: int) -> str:
    """Describe the conversion: number of rows that move, and the first four rows.

    ``source`` and ``target`` are the orders of pairs before and after (keys of
    ``ORDERS``), ``width`` is the number of rotated features.
    """
    order = rows(source, target, width)
    moved = int((np.array(order) != np.arange(HEAD)).sum())
    if not moved:
        return "Nothing moves: the two are the same order."
    first = ", ".join(map(str, order[:4]))
    return (
        f"{moved} of {HEAD} rows of each head move. The new head begins with rows "
        f"{first} of the old one."
    )


def _pairs(order: str) -> Pairs:
    layout, *rest = order.split("-")
    return Pairs(layout=layout, clockwise=bool(rest))


def _beginning_with(order: str) -> dict[str, str]:
    return {order: ORDERS[order]} | ORDERS
