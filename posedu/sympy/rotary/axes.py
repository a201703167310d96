"""RoPE for several coordinates over symbols."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import ORDERS, require_choice, require_dimension
from posedu.sympy.absolute import frequencies
from posedu.sympy.rotary.line import rotation

Position = Sequence[sp.Expr | float]
Rows = sp.Matrix | Sequence[Sequence[sp.Expr | float]]


def axial_frequencies(
    d: int, *, order: str, base: sp.Expr | float = 100, axes: int = 2
) -> sp.Matrix:
    """The frequency vectors of axial RoPE, one a row. Equation ``def-axial``."""
    axes = require_dimension("axes", axes, 1)
    d = require_dimension("d", d, 2 * axes)
    require_choice("order", order, ORDERS)
    theta = frequencies(d // axes, base=base)
    rows = [
        [theta[t] if column == k else 0 for column in range(axes)]
        for k in range(axes)
        for t in range(len(theta))
    ]
    if order == "alternating":
        rows = [row for t in range(len(theta)) for row in rows[t :: len(theta)]]
    return sp.Matrix(rows)


def mixed_rotation(position: Position, frequencies: Rows, *, layout: str) -> sp.Matrix:
    """The dense rotation by the angle f_p · x in pair p. Equation ``def-mixed``."""
    angles = sp.Matrix(frequencies) * sp.Matrix(position)
    return rotation(1, list(angles), layout=layout)


def mixed(
    x: sp.Matrix, position: Position, *, frequencies: Rows, layout: str
) -> sp.Matrix:
    """The column ``x`` with pair p turned by f_p · position: the door ``rotate``."""
    return mixed_rotation(position, frequencies, layout=layout) * x


def axial(
    x: sp.Matrix,
    position: Position,
    *,
    order: str,
    layout: str,
    base: sp.Expr | float = 100,
    axes: int = 2,
) -> sp.Matrix:
    """The column ``x`` turned by axial RoPE: the door ``rotate``."""
    f = axial_frequencies(x.rows, order=order, base=base, axes=axes)
    return mixed(x, position, frequencies=f, layout=layout)
