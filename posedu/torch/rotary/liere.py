"""LieRE: rotations with free skew generators, which need not commute."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import require_dimension, require_not_negative
from posedu.torch.rotary.generators import BlockRotation, skew
from posedu.torch.rotary.rotation import given_parameter, require_optional_heads


class LieRE(BlockRotation):
    """LieRE (arXiv 2406.10322): rotations by free skew generators.

    The generators need not commute, so that scores are in general not relative. Sums
    Σ_k x_k A_k whose norm is above 2²⁹ are refused on a CPU.

    Parameters
    ----------
    d
        Head dimension, a multiple of ``block``.
    block
        Block size b ≥ 2: the paper has 8, and d for the dense form. 2 is RoPE-Mixed.
    axes
        Number of coordinates. Default 2.
    heads
        Number of heads with generators of their own; under grouped queries the
        key-value heads. ``None``: one set for all.
    scale
        The entries above the diagonal start uniform in [0, scale). Default 2π (the
        authors' code).
    entries
        Initial entries instead, ``[axes, blocks, b(b − 1)/2]``, after an axis of
        ``heads`` if given. See :func:`skew`.

    Raises
    ------
    TypeError, ValueError
        ``d`` not a multiple of ``block``, a ``block`` below 2, sizes that are not
        positive integers, a ``scale`` that is negative or not finite, entries of
        another shape or not finite.
    """

    head_rows = ("entries",)

    def __init__(
        self,
        d: int,
        *,
        block: int,
        axes: int = 2,
        heads: int | None = None,
        scale: float = 2 * math.pi,
        entries: Float[Tensor, "*heads axes blocks entries"] | None = None,
    ):
        super().__init__()
        self.block = require_dimension("block", block, 1)
        if block < 2:
            raise ValueError(
                "block must be at least 2, got 1: one feature has no rotation"
            )
        self.d = require_dimension("d", d, block)
        self.axes = require_dimension("axes", axes, 1)
        self.position_shape = (axes,)
        self.heads = require_optional_heads(heads)
        scale = require_not_negative("scale", scale)
        own = () if heads is None else (heads,)
        shape = (*own, axes, d // block, block * (block - 1) // 2)
        if entries is None:
            entries = scale * torch.rand(shape)
        self.entries = given_parameter("entries", entries, shape)

    def generators(self) -> Float[Tensor, "*heads axes blocks block block"]:
        """Return the skew matrix A_k = U_k − U_kᵀ of each coordinate k, in float64.

        U_k holds the trained entries above its diagonal.
        """
        return skew(self.entries.to(torch.float64))
