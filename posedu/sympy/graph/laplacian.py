"""Laplacian encodings in SymPy: exact Laplacians and projectors of eigenspaces."""

import sympy as sp

from posedu._arguments import LaplacianNormalization, require_choice
from posedu.sympy.graph.features import (
    Column,
    Rows,
    adjacency_matrix,
    embed_features,
    inverse_degrees,
)


def laplacian(adjacency: Rows, *, normalization: LaplacianNormalization) -> sp.Matrix:
    """Laplacian D − A of a graph, or D^(−½) (D − A) D^(−½), where D are the degrees.

    Equation ``def-trees-laplacian``. See :func:`posedu.numpy.graph.laplacian`.
    """
    a = adjacency_matrix(adjacency)
    require_choice("normalization", normalization, LaplacianNormalization)
    difference = sp.diag(*(sum(a.row(i)) for i in range(a.rows))) - a
    if normalization == "none":
        return difference
    scale = inverse_degrees(a, sp.Rational(1, 2))
    return scale * difference * scale


def eigenspace_projectors(symmetric: sp.Matrix) -> dict[sp.Expr, sp.Matrix]:
    """Projector of each eigenspace of a symmetric matrix, by eigenvalue.

    The projector of eigenvalue λ is the product of (S − μ)/(λ − μ) over the other
    eigenvalues μ; so no basis is chosen. Equation ``def-trees-projector``.
    """
    one = sp.eye(symmetric.rows)
    eigenvalues = list(symmetric.eigenvals())
    return {
        of: sp.prod(
            ((symmetric - mu * one) / (of - mu) for mu in eigenvalues if mu != of),
            start=one,
        ).applyfunc(sp.radsimp)
        for of in eigenvalues
    }


def embed_laplacian(
    x: sp.Matrix,
    position: Column,
    *,
    projection_weight: Rows,
    projection_bias: Column,
) -> sp.Matrix:
    """Add C p + c to the column ``x``, for a node's eigenvector entries p.

    Equation ``def-trees-embed``. See :func:`posedu.numpy.graph.embed_laplacian`.
    """
    return embed_features(x, position, projection_weight, projection_bias)
