"""Random-walk encodings in SymPy: exact return probabilities of a graph's nodes."""

import sympy as sp

from posedu.sympy.graph.features import (
    Column,
    Rows,
    adjacency_matrix,
    embed_features,
    inverse_degrees,
)


def return_probabilities(adjacency: Rows, steps: int) -> sp.Matrix:
    """Probabilities (M^t)_ii of a return after t = 1 … ``steps``, a row for each node.

    M = A D⁻¹. Equation ``def-trees-walk``. See
    :func:`posedu.numpy.graph.return_probabilities`.
    """
    a = adjacency_matrix(adjacency)
    m = a * inverse_degrees(a, sp.S.One)
    powers = [m**t for t in range(1, steps + 1)]
    return sp.Matrix(a.rows, steps, lambda i, t: powers[t][i, i])


def embed_random_walk(
    x: sp.Matrix,
    position: Column,
    *,
    projection_weight: Rows,
    projection_bias: Column,
) -> sp.Matrix:
    """Add C p + c to the column ``x``, for a node's return probabilities p.

    Equation ``def-trees-embed``. See :func:`posedu.numpy.graph.embed_random_walk`.
    """
    return embed_features(x, position, projection_weight, projection_bias)
