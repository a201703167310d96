"""Random-walk encodings: return probabilities of a graph's nodes as positions."""

import numpy as np
from jaxtyping import Float, Num

from posedu._arguments import require_dimension
from posedu.numpy._arrays import Positions
from posedu.numpy.graph.adjacency import inverse_degrees, require_adjacency
from posedu.numpy.graph.features import embed_features

Array = np.ndarray


def return_probabilities(
    adjacency: Num[Array, "nodes nodes"], steps: int
) -> Float[Array, "nodes steps"]:
    """Probabilities that a random walk is back at its first node after 1, 2, … steps.

    (M^t)_ii for t = 1 … ``steps``, where M = A D⁻¹ and a node without edges is never
    left nor reached: its probabilities are 0. arXiv 2110.07875. Equation
    ``def-trees-walk``.

    Parameters
    ----------
    adjacency
        Symmetric weights of the edges, at least 0.
    steps
        Number of steps, the columns of the result. Without loops the first column
        is 0.

    Raises
    ------
    TypeError, ValueError
        See :func:`posedu.numpy.graph.require_adjacency`; ``steps`` that are not a
        positive integer.
    """
    a = require_adjacency(adjacency)
    m = a * inverse_degrees(a, 1.0)
    power, columns = np.eye(len(a)), []
    for _ in range(require_dimension("steps", steps, 1)):
        power = power @ m
        columns.append(np.diagonal(power))
    return np.stack(columns, -1)


def embed_random_walk(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    projection_weight: Float[Array, "d steps"],
    projection_bias: Float[Array, "d"],
) -> Float[Array, "*batch tokens d"]:
    """Add to each input vector a linear map of its node's return probabilities.

    arXiv 2110.07875. For the hook ``embed``, a function that a model calls before
    its layers. Equation ``def-trees-embed``.

    Parameters
    ----------
    x
        Input vectors, computed in float64.
    positions
        A row for each node, as :func:`return_probabilities` returns them:
        ``[tokens, steps]``, with or without a batch axis in front.
    projection_weight, projection_bias
        The matrix C and the vector c of C p + c.

    Raises
    ------
    TypeError, ValueError
        Positions not finite or of another shape; parameters that do not fit.
    """
    return embed_features(x, positions, projection_weight, projection_bias)
