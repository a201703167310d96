"""Algebraic positional encodings: a path is the product of its steps' rotations."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import require_dimension, require_not_negative
from posedu.torch._tensors import in_float64
from posedu.torch.rotary.generators import BlockRotation, skew
from posedu.torch.rotary.rotation import given_parameter, require_optional_heads


class Algebraic(BlockRotation):
    """Algebraic positional encoding (arXiv 2312.16045): products along a path.

    A position has ``depth`` steps of ``branches`` coordinates, which say how often the
    step takes each branch; :func:`posedu.numpy.graph.tree_positions` makes such rows.
    Each coordinate x rotates by exp(x A), where A is the trained generator of its
    branch, and a position rotates by the product of its coordinates' rotations.
    Equation ``def-trees-algebraic``. Exponents x A whose norm is above 2²⁹ are refused
    on a CPU.

    Parameters
    ----------
    d
        Head dimension, a multiple of ``block``.
    block
        Block size b ≥ 2; d for the paper's dense matrices. Blocks of 2 commute, so that
        only the number of times that a path takes each branch counts.
    branches
        Number of branches, the generators. Default 2.
    depth
        Number of steps of a position. 1 for lines and grids, the length of the longest
        path for trees.
    heads
        Number of heads with generators of their own; under grouped queries the
        key-value heads. ``None``: one set for all.
    scale
        The entries above the diagonal start uniform in [0, scale). Default 1.
    entries
        Initial entries instead, ``[branches, blocks, b(b − 1)/2]``, after an axis of
        ``heads`` if given. See :func:`posedu.torch.rotary.skew`.

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
        depth: int,
        branches: int = 2,
        heads: int | None = None,
        scale: float = 1.0,
        entries: Float[Tensor, "*heads branches blocks entries"] | None = None,
    ):
        super().__init__()
        self.block = require_dimension("block", block, 1)
        if block < 2:
            raise ValueError(
                "block must be at least 2, got 1: one feature has no rotation"
            )
        self.d = require_dimension("d", d, block)
        self.branches = require_dimension("branches", branches, 1)
        self.depth = require_dimension("depth", depth, 1)
        self.axes = depth * branches
        self.position_shape = (self.axes,)
        self.heads = require_optional_heads(heads)
        scale = require_not_negative("scale", scale)
        own = () if heads is None else (heads,)
        shape = (*own, branches, d // block, block * (block - 1) // 2)
        if entries is None:
            entries = scale * torch.rand(shape)
        self.entries = given_parameter("entries", entries, shape)

    def generators(self) -> Float[Tensor, "*heads branches blocks block block"]:
        """Return the skew matrix A = U − Uᵀ of each branch, in float64.

        U holds the trained entries above its diagonal.
        """
        return skew(self.entries.to(torch.float64))

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> Tensor:
        at = in_float64(positions, device)
        generators = self.generators()
        table = None
        for c, x in enumerate(at.split(1, -1)):
            n = c % self.branches
            branch = generators[..., n : n + 1, :, :, :]
            factor = self._rotations(x, branch)
            table = factor if table is None else table @ factor
        assert table is not None  # depth and branches are positive
        return table.to(dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d}, block={self.block}, branches={self.branches}, "
            f"depth={self.depth}, heads={self.heads}"
        )
