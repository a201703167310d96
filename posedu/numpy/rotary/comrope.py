"""ComRoPE: rotations by matrix exponentials of skew generators that commute."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_block, require_dimension
from posedu.numpy._arrays import Positions, require_floats
from posedu.numpy.rotary.generators import require_block_size, rotate_by_generators

Array = np.ndarray


def comrope_ap(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    matrices: Float[Array, "*heads blocks block block"],
    block: int,
    axes: int = 2,
) -> Float[Array, "*batch tokens d"]:
    """Rotate queries or keys by ComRoPE with an axial partition.

    arXiv 2506.03737 Eq. 8. Block j of the features is rotated by exp(x (P_j − P_jᵀ)),
    where x is the coordinate of number j mod axes and P_j a trained matrix. For the
    hook ``rotate``, a function that attention calls.

    Parameters
    ----------
    x, positions
        As :func:`rotate_by_generators`.
    matrices
        The matrices P_j; only P_j − P_jᵀ matters.
    block
        Block size b, even; the paper's main experiments use 8.
    axes
        Number of coordinates N, a divisor of the number of blocks. Default 2.

    Returns
    -------
    float64 array of the shape of ``x``. Equation ``def-comrope-ap``.

    Raises
    ------
    TypeError, ValueError
        As :func:`rotate_by_generators`; an odd ``block``; a number of blocks that
        ``axes`` does not divide.
    """
    require_block_size(require_block(block), matrices)
    return rotate_by_generators(x, positions, ap_generators(matrices, axes=axes))


def ap_generators(
    matrices: Float[Array, "*heads blocks block block"], *, axes: int = 2
) -> Float[Array, "*heads axes blocks block block"]:
    """ComRoPE-AP's skew generator of each axis and each block j of the features.

    It is P_j − P_jᵀ for the axis j mod axes and 0 for the others; ``matrices`` are the
    trained P_j.
    """
    difference = _skew_part(matrices)
    blocks = difference.shape[-3]
    axes = require_dimension("axes", axes, 1)
    require_dimension("the number of blocks", blocks, axes)
    own = np.arange(blocks) % axes == np.arange(axes)[:, None]
    return own[:, :, None, None] * difference[..., None, :, :, :]


def comrope_ld(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    matrices: Float[Array, "*heads blocks block block"],
    multipliers: Float[Array, "*#heads axes blocks"],
    block: int,
) -> Float[Array, "*batch tokens d"]:
    """Rotate queries or keys by ComRoPE with linearly dependent generators.

    arXiv 2506.03737 Eq. 10. Block j of the features is rotated by exp(Σ_k x_k θ_kj (P_j
    − P_jᵀ)), where x_k are the coordinates, P_j a trained matrix and θ_kj trained
    factors. For the hook ``rotate``, a function that attention calls.

    Parameters
    ----------
    x, positions, matrices, block
        As :func:`comrope_ap`.
    multipliers
        The factors θ: for each head (the paper), or ``[axes, blocks]`` for all heads
        (the authors' code).

    Returns
    -------
    float64 array of the shape of ``x``. Equation ``def-comrope-ld``.

    Raises
    ------
    TypeError, ValueError
        As :func:`rotate_by_generators`; an odd ``block``; multipliers of another number
        of blocks.
    """
    require_block_size(require_block(block), matrices)
    return rotate_by_generators(x, positions, ld_generators(matrices, multipliers))


def ld_generators(
    matrices: Float[Array, "*heads blocks block block"],
    multipliers: Float[Array, "*#heads axes blocks"],
) -> Float[Array, "*heads axes blocks block block"]:
    """ComRoPE-LD's skew generator of each axis k and each block j of the features.

    It is θ_kj (P_j − P_jᵀ), where ``matrices`` are the trained P_j and ``multipliers``
    the trained factors θ.
    """
    difference = _skew_part(matrices)
    theta = require_floats("multipliers", multipliers)
    blocks, heads = difference.shape[-3], difference.shape[:-3]
    if (
        theta.ndim < 2
        or theta.shape[-1] != blocks
        or theta.shape[:-2] not in ((), heads)
    ):
        allowed = f"[axes, {blocks}]"
        if heads:
            allowed += f" or [{heads[0]}, axes, {blocks}]"
        raise ValueError(
            f"multipliers must be {allowed} for matrices of shape "
            f"{list(difference.shape)}, got shape {list(theta.shape)}"
        )
    return theta[..., None, None] * difference[..., None, :, :, :]


def _skew_part(
    matrices: Float[Array, "*heads blocks block block"],
) -> Float[Array, "*heads blocks block block"]:
    matrices = require_floats("matrices", matrices)
    if matrices.ndim not in (3, 4) or matrices.shape[-1] != matrices.shape[-2]:
        raise ValueError(
            "matrices must be [blocks, b, b] or [heads, blocks, b, b], got shape "
            f"{list(matrices.shape)}"
        )
    require_block(matrices.shape[-1])
    return matrices - matrices.swapaxes(-1, -2)
