"""Laplacian encodings: entries of Laplacian eigenvectors, projected and added."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import (
    LaplacianNormalization,
    require_choice,
    require_count,
    require_dimension,
)
from posedu.torch._tensors import require_floats
from posedu.torch.graph.features import (
    NodeFeatures,
    inverse_degrees,
    require_adjacency,
)


def laplacian_eigenvectors(
    adjacency: Float[Tensor, "*graphs nodes nodes"],
    count: int,
    *,
    normalization: LaplacianNormalization,
) -> tuple[Float[Tensor, "*graphs count"], Float[Tensor, "*graphs nodes count"]]:
    """Return the smallest positive Laplacian eigenvalues, and their eigenvectors.

    In float64, for graphs of equally many nodes. Signs of eigenvectors and bases of
    eigenspaces are arbitrary. Each graph leaves out its own eigenvalues 0, one for each
    connected component; where fewer than ``count`` are left, the last columns and their
    eigenvalues are 0. See :func:`posedu.numpy.graph.laplacian_eigenvectors`.

    Raises
    ------
    TypeError, ValueError
        An adjacency matrix that is not floating or not square (on a CPU also: not
        symmetric, or with weights that are negative or not finite), an unknown
        ``normalization``, a ``count`` that is no integer or negative.
    """
    a = require_adjacency(adjacency)
    require_choice("normalization", normalization, LaplacianNormalization)
    count, nodes = require_count("count", count), a.shape[-1]
    matrix = torch.diag_embed(a.sum(-1)) - a
    if normalization == "symmetric":
        scale = inverse_degrees(a, 0.5)
        matrix = scale[..., None] * matrix * scale[..., None, :]
    eigenvalues, vectors = torch.linalg.eigh(matrix)
    size = eigenvalues.abs().amax(-1, keepdim=True)
    zeros = (eigenvalues <= 8 * nodes**2 * 2.0**-53 * size).sum(-1, keepdim=True)
    place = zeros + torch.arange(count, device=a.device)
    is_missing = place >= nodes
    place = place.clamp(max=nodes - 1)
    kept = eigenvalues.gather(-1, place).masked_fill(is_missing, 0.0)
    columns = vectors.gather(-1, place[..., None, :].expand(*a.shape[:-1], count))
    return kept, columns.masked_fill(is_missing[..., None, :], 0.0)


def flip_signs(
    positions: Float[Tensor, "*graphs nodes eigenvectors"],
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*graphs nodes eigenvectors"]:
    """Multiply each eigenvector of each graph by a random sign, for training.

    arXiv 2003.00982 draws the signs anew in each step, so that a model learns that they
    mean nothing. ``generator`` draws them on the CPU.
    """
    require_floats("positions", positions)
    shape = (*positions.shape[:-2], 1, positions.shape[-1])
    signs = 2 * torch.randint(0, 2, shape, generator=generator) - 1
    return positions * signs.to(positions)


class Laplacian(NodeFeatures):
    """Laplacian encoding (arXiv 2012.09699): C p + c for eigenvector entries p.

    A position is a node's row of :func:`laplacian_eigenvectors`. C and c are trained.
    Equation ``def-trees-embed``.

    Parameters
    ----------
    d_model
        Width of the input vectors.
    eigenvectors
        Number of eigenvectors, the coordinates of a position. The paper has 8 for
        molecules.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers.
    """

    def __init__(self, d_model: int, *, eigenvectors: int):
        super().__init__(d_model, require_dimension("eigenvectors", eigenvectors, 1))
