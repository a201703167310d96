"""RoPE-Mixed in SymPy: RoPE with a frequency vector for each pair of features."""

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
    """The dense matrix that rotates each pair p of features by f_p · position.

    f_p is row p of ``frequencies``. Equation ``def-mixed``.
    """
    angles = matrix("frequencies", frequencies) * matrix("position", position)
    return rotation(1, list(angles), layout=layout)


def mixed(
    x: sp.Matrix, position: Position, *, frequencies: Rows, layout: Layout
) -> sp.Matrix:
    """Rotate each pair p of one query or key, ``x``, by the angle f_p · position.

    f_p is row p of ``frequencies``. The result is for the hook ``rotate``, the function
    by which an encoding changes queries and keys.
    """
    return mixed_rotation(position, frequencies, layout=layout) * x
