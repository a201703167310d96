"""Laplacian encodings: entries of a graph's Laplacian eigenvectors as positions."""

import numpy as np
from jaxtyping import Bool, Float, Num

from posedu._arguments import LaplacianNormalization, require_choice, require_count
from posedu.numpy._arrays import Positions
from posedu.numpy.graph.adjacency import inverse_degrees, require_adjacency
from posedu.numpy.graph.features import embed_features

Array = np.ndarray


def laplacian(
    adjacency: Num[Array, "nodes nodes"], *, normalization: LaplacianNormalization
) -> Float[Array, "nodes nodes"]:
    """Laplacian of an undirected graph with adjacency matrix A and degrees D.

    Equation ``def-trees-laplacian``.

    Parameters
    ----------
    adjacency
        Symmetric weights of the edges, at least 0.
    normalization
        ``"symmetric"``: D^(−½) (D − A) D^(−½), with 0 for D^(−½) of a node without
        edges (arXiv 2012.09699: I − D^(−½) A D^(−½)). ``"none"``: D − A.

    Raises
    ------
    TypeError, ValueError
        See :func:`posedu.numpy.graph.require_adjacency`; an unknown ``normalization``.
    """
    a = require_adjacency(adjacency)
    require_choice("normalization", normalization, LaplacianNormalization)
    difference = np.diag(a.sum(1)) - a
    if normalization == "none":
        return difference
    scale = inverse_degrees(a, 0.5)
    return scale[:, None] * difference * scale


def laplacian_eigenvectors(
    adjacency: Num[Array, "nodes nodes"],
    count: int,
    *,
    normalization: LaplacianNormalization,
) -> tuple[Float[Array, "count"], Float[Array, "nodes count"]]:
    """The ``count`` smallest positive eigenvalues of a Laplacian, and eigenvectors.

    Eigenvectors are orthonormal columns. Their signs are arbitrary, and so is the basis
    of an eigenspace of several dimensions. Eigenvalue 0, whose multiplicity is the
    number of connected components, is left out: eigenvalues below 8 n² u times the
    norm of the Laplacian count as 0, for n nodes and the unit roundoff u. Where a graph
    has fewer positive eigenvalues, the last columns and their eigenvalues are 0.

    ``adjacency`` and ``normalization`` are those of :func:`laplacian`.

    Raises
    ------
    TypeError, ValueError
        See :func:`laplacian`; a ``count`` that is no integer or negative.
    """
    matrix = laplacian(adjacency, normalization=normalization)
    count, nodes = require_count("count", count), len(matrix)
    eigenvalues, vectors = np.linalg.eigh(matrix)
    size = np.abs(eigenvalues).max(initial=0.0)
    first = int((eigenvalues <= 8 * nodes**2 * 2.0**-53 * size).sum())
    kept = slice(first, min(first + count, nodes))
    found = kept.stop - kept.start
    padded = np.zeros((nodes, count))
    padded[:, :found] = vectors[:, kept]
    return np.append(eigenvalues[kept], np.zeros(count - found)), padded


def eigenspaces(
    eigenvalues: Float[Array, "count"], *, tolerance: float
) -> Bool[Array, "spaces count"]:
    """Members of each eigenspace, as a row of booleans over all eigenvalues.

    Neighbors that differ by at most ``tolerance`` belong to one eigenspace.
    ``eigenvalues`` are sorted, the smallest first.
    """
    values = np.asarray(eigenvalues, dtype=np.float64)
    space = np.concatenate(([0], np.diff(values) > tolerance)).cumsum()
    return np.equal(space[: len(values)], np.unique(space[: len(values)])[:, None])


def embed_laplacian(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    projection_weight: Float[Array, "d eigenvectors"],
    projection_bias: Float[Array, "d"],
) -> Float[Array, "*batch tokens d"]:
    """Add to each input vector a linear map of its node's eigenvector entries.

    arXiv 2012.09699. For the hook ``embed``, a function that a model calls
    before its layers. Equation ``def-trees-embed``.

    Parameters
    ----------
    x
        Input vectors, computed in float64.
    positions
        A row for each node, as :func:`laplacian_eigenvectors` returns them:
        ``[tokens, eigenvectors]``, with or without a batch axis in front.
    projection_weight, projection_bias
        The matrix C and the vector c of C p + c.

    Raises
    ------
    TypeError, ValueError
        Positions not finite or of another shape; parameters that do not fit.
    """
    return embed_features(x, positions, projection_weight, projection_bias)
