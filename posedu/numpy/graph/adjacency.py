"""Adjacency matrices of undirected graphs: the check and the degrees."""

import numpy as np
from jaxtyping import Float, Num

from posedu.numpy._arrays import as_array

Array = np.ndarray


def require_adjacency(
    adjacency: Num[Array, "nodes nodes"],
) -> Float[Array, "nodes nodes"]:
    """Return ``adjacency`` as float64 if it is that of an undirected graph, else raise.

    Entry (i, j) is the weight of the edge between nodes i and j, 0 where there is none.

    Raises
    ------
    TypeError, ValueError
        Entries that are not numbers, negative or not finite; a matrix that is not
        square or not symmetric.
    """
    a = as_array("adjacency", adjacency)
    if a.dtype.kind not in "biuf":
        raise TypeError(f"adjacency must hold real numbers, got dtype {a.dtype}")
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"adjacency must be [nodes, nodes], got shape {list(a.shape)}")
    a = a.astype(np.float64)
    if not (np.isfinite(a) & (a >= 0)).all():
        raise ValueError("adjacency must hold finite weights of at least 0")
    if (a != a.T).any():
        i, j = np.argwhere(a != a.T)[0]
        raise ValueError(
            f"adjacency must be symmetric: {a[i, j]:g} from node {i} to {j}, "
            f"{a[j, i]:g} back"
        )
    return a


def inverse_degrees(
    adjacency: Float[Array, "nodes nodes"], power: float
) -> Float[Array, "nodes"]:
    """The degrees to the power −``power``, and 0 for nodes without an edge."""
    degrees = adjacency.sum(1)
    is_isolated = degrees == 0
    return np.where(is_isolated, 0.0, np.where(is_isolated, 1.0, degrees) ** -power)
