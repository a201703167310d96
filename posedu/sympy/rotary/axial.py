"""Axial RoPE in SymPy: each pair of features is rotated by one coordinate."""

import sympy as sp

from posedu._arguments import AxisOrder, Layout, require_choice, require_dimension
from posedu.sympy.frequencies import frequencies
from posedu.sympy.rotary.mixed import Position, mixed


def axial_frequencies(
    d: int, *, order: AxisOrder, base: sp.Expr | float = 100, axes: int = 2
) -> sp.Matrix:
    """The frequency vectors of axial RoPE: row p has pair p's frequency on one axis.

    ``axes`` is the number of coordinates of a position. ``order`` says whether the
    pairs of the axes are concatenated or alternate. Equation ``def-axial``. See
    :func:`posedu.numpy.rotary.axial_frequencies`.
    """
    axes = require_dimension("axes", axes, 1)
    d = require_dimension("d", d, 2 * axes)
    require_choice("order", order, AxisOrder)
    theta = frequencies(d // axes, base=base)
    rows = [
        [theta[t] if column == k else 0 for column in range(axes)]
        for k in range(axes)
        for t in range(len(theta))
    ]
    if order == "alternating":
        rows = [row for t in range(len(theta)) for row in rows[t :: len(theta)]]
    return sp.Matrix(rows)


def axial(
    x: sp.Matrix,
    position: Position,
    *,
    order: AxisOrder,
    layout: Layout,
    base: sp.Expr | float = 100,
    axes: int = 2,
) -> sp.Matrix:
    """Rotate one query or key, the column ``x``, by axial RoPE.

    The result is for the hook ``rotate``, the function by which an encoding changes
    queries and keys. ``order`` says whether the pairs of the axes are concatenated or
    alternate; ``axes`` is the number of coordinates of a position.
    """
    f = axial_frequencies(x.rows, order=order, base=base, axes=axes)
    return mixed(x, position, frequencies=f, layout=layout)
