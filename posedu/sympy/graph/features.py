"""Node features as positions in SymPy: a linear map adds them to an input vector."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy._expressions import matrix

Rows = sp.Matrix | Sequence[Sequence[sp.Expr | float]]
Column = sp.Matrix | Sequence[sp.Expr | float]


def embed_features(
    x: sp.Matrix,
    position: Column,
    projection_weight: Rows,
    projection_bias: Column,
) -> sp.Matrix:
    """Add C p + c to the column ``x``, where p, the ``position``, are node features.

    C and c are ``projection_weight`` and ``projection_bias``.
    """
    weight = matrix("projection_weight", projection_weight)
    bias = matrix("projection_bias", projection_bias)
    return x + weight * matrix("position", position) + bias


def adjacency_matrix(adjacency: Rows) -> sp.Matrix:
    """Return ``adjacency`` as a matrix if it is square and symmetric, else raise."""
    a = matrix("adjacency", adjacency)
    if a.rows != a.cols or a != a.T:
        raise ValueError(f"adjacency must be square and symmetric, got {a}")
    return a


def inverse_degrees(adjacency: sp.Matrix, power: sp.Expr) -> sp.Matrix:
    """The diagonal matrix of degrees to the power −``power``; 0 where there is none."""
    degrees = [sum(adjacency.row(i)) for i in range(adjacency.rows)]
    return sp.diag(*(degree**-power if degree != 0 else 0 for degree in degrees))
