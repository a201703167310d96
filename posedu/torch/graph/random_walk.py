"""Random-walk encodings: return probabilities of nodes, projected and added."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import require_dimension
from posedu.torch.graph.features import (
    NodeFeatures,
    inverse_degrees,
    require_adjacency,
)


def return_probabilities(
    adjacency: Float[Tensor, "*graphs nodes nodes"], steps: int
) -> Float[Tensor, "*graphs nodes steps"]:
    """Return the probability of a return to each node after 1, 2, …, ``steps`` steps.

    In float64, for graphs of equally many nodes. Equation ``def-trees-walk``. See
    :func:`posedu.numpy.graph.return_probabilities`.

    Raises
    ------
    TypeError, ValueError
        An adjacency matrix that is not floating or not square (on a CPU also: not
        symmetric, or with weights that are negative or not finite); ``steps`` that are
        not a positive integer.
    """
    a = require_adjacency(adjacency)
    m = a * inverse_degrees(a, 1.0)[..., None, :]
    power, columns = m, [m.diagonal(dim1=-2, dim2=-1)]
    for _ in range(require_dimension("steps", steps, 1) - 1):
        power = power @ m
        columns.append(power.diagonal(dim1=-2, dim2=-1))
    return torch.stack(columns, -1)


class RandomWalk(NodeFeatures):
    """Random-walk encoding (arXiv 2110.07875): C p + c for return probabilities p.

    A position is a node's row of :func:`return_probabilities`. C and c are trained.
    Equation ``def-trees-embed``.

    Parameters
    ----------
    d_model
        Width of the input vectors.
    steps
        Length of the longest walk, the coordinates of a position.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers.
    """

    def __init__(self, d_model: int, *, steps: int):
        super().__init__(d_model, require_dimension("steps", steps, 1))
