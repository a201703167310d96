"""ComRoPE: rotations by matrix exponentials of skew generators that commute."""

from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    ComRoPENoise,
    require_block,
    require_choice,
    require_dimension,
    require_not_negative,
)
from posedu.numpy._arrays import Positions, require_floats, require_positions
from posedu.numpy.absolute.cape import require_rng
from posedu.numpy.rotary.generators import require_block_size, rotate_by_generators

Array = np.ndarray
_FLAT = 1e6  # a normal density varies by less than 1e-12 over 1e-6 of its deviation


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


def perturb(
    positions: Float[Array, "*rows axes"],
    *,
    rng: np.random.Generator,
    patch: float | tuple[float, ...],
    intensity: float,
    rule: ComRoPENoise,
) -> Float[Array, "*rows axes"]:
    """Perturb coordinates within their patch, for training (arXiv 2506.03737).

    Parameters
    ----------
    positions
        Patch centers, floating.
    rng
        The source of randomness.
    patch
        The side of a patch in the units of ``positions``: one number, or one for each
        axis.
    intensity
        The paper's σ ≥ 0; 0 changes nothing.
    rule
        ``"paper"``: normal with deviation σ · patch, truncated to the patch.
        ``"code"``: normal with deviation σ/2 · patch, clamped to the patch.

    Returns
    -------
    float64 array of the shape of ``positions``.

    Raises
    ------
    TypeError, ValueError
        Positions that are not finite floats, an ``intensity`` that is negative or not
        finite, unknown ``rule``, a ``patch`` for another number of axes.
    """
    require_rng(rng)
    centers = require_positions(require_floats("positions", positions), "positions")
    intensity = require_not_negative("intensity", intensity)
    side = require_positions(patch, "patch")
    if side.ndim > 1 or side.size not in (1, *centers.shape[-1:]):
        raise ValueError(
            f"patch must be one number or one for each axis, got {patch} for positions "
            f"of shape {list(centers.shape)}"
        )
    require_choice("rule", rule, ComRoPENoise)
    if intensity == 0:
        return centers.copy()
    if rule == "code":
        noise = rng.normal(0.0, intensity / 2, centers.shape).clip(-0.5, 0.5)
        return centers + noise * side
    if intensity > _FLAT:
        return centers + rng.uniform(-0.5, 0.5, centers.shape) * side
    normal = NormalDist(0.0, intensity)
    share = rng.uniform(normal.cdf(-0.5), normal.cdf(0.5), centers.shape)
    drawn = np.reshape([normal.inv_cdf(p) for p in share.ravel()], centers.shape)
    return centers + drawn.clip(-0.5, 0.5) * side
