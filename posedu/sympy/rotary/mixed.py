"""RoPE-Mixed over symbols."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import Layout
from posedu.sympy._expressions import matrix
from posedu.sympy.rotary.rope import rotation

Position = Sequence[sp.Expr | float]
Rows = sp.Matrix | Sequence[Sequence[sp.Expr | float]]


def mixed_rotation(
    position: Position, frequencies: Rows, *, layout: Layout
) -> sp.Matrix:
    """The dense rotation by the angle f_p · x in pair p. Equation ``def-mixed``."""
    angles = matrix("frequencies", frequencies) * matrix("position", position)
    return rotation(1, list(angles), layout=layout)


def mixed(
    x: sp.Matrix, position: Position, *, frequencies: Rows, layout: Layout
) -> sp.Matrix:
    """The column ``x`` with pair p rotated by f_p · position: the hook ``rotate``."""
    return mixed_rotation(position, frequencies, layout=layout) * x
