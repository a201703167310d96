"""Axial RoPE: each pair of features is rotated by one coordinate of the position."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import (
    AxisOrder,
    Layout,
    require_base,
    require_choice,
    require_dimension,
)
from posedu.torch._tensors import cos_sin, in_float64, require_exact_angles
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.rotation import PairRotation


def axial_frequencies(
    d: int,
    *,
    order: AxisOrder,
    base: float = 100.0,
    axes: int = 2,
    device: Device = None,
) -> Float[Tensor, "pairs axes"]:
    """Return the frequency vectors of axial RoPE in float64. Equation ``def-axial``.

    See :func:`posedu.numpy.rotary.axial_frequencies`, which explains the two
    values of ``order``.
    """
    require_dimension("axes", axes, 1)
    require_dimension("d", d, 2 * axes)
    require_choice("order", order, AxisOrder)
    theta = frequencies(d // axes, base=base, device=device)
    by_axis = torch.diag_embed(theta.expand(axes, -1).mT)  # frequency, axis, axis
    if order == "concatenated":
        by_axis = by_axis.transpose(0, 1)
    return by_axis.flatten(0, 1)


class AxialRoPE(PairRotation):
    """Axial RoPE (arXiv 2403.13298 §3.1): one coordinate rotates each pair of features.

    No parameters. Angles above 2²⁹ are refused on a CPU. A class or register token at
    the origin is not rotated; any other position that only such a token has works too.

    Parameters
    ----------
    d
        Head dimension, a multiple of 2·axes.
    order
        The axis of each pair: ``"concatenated"`` (the authors' code) or
        ``"alternating"`` (the paper).
    layout
        Which features form a pair; the authors' code is ``"interleaved"``.
    base
        Base of the frequencies. Default 100 (the paper).
    axes
        Number of coordinates. Default 2: (x, y), as :func:`grid` gives them.

    Raises
    ------
    TypeError, ValueError
        ``d`` not a multiple of 2·axes, unknown ``order`` or ``layout``, ``base`` not
        above 1.
    """

    axes: int
    is_group = True

    def __init__(
        self,
        d: int,
        *,
        order: AxisOrder,
        layout: Layout,
        base: float = 100.0,
        axes: int = 2,
    ):
        super().__init__()
        self.axes = require_dimension("axes", axes, 1)
        self.position_shape = (axes,)
        self.d = require_dimension("d", d, 2 * axes)
        self.order = require_choice("order", order, AxisOrder)
        self.layout = require_choice("layout", layout, Layout)
        self.base = require_base(base)

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        f = axial_frequencies(
            self.d, order=self.order, base=self.base, axes=self.axes, device=device
        )
        angle = in_float64(positions, device) @ f.mT
        return cos_sin(require_exact_angles("angles", angle), dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d}, order={self.order!r}, layout={self.layout!r}, "
            f"base={self.base:g}, axes={self.axes}"
        )
