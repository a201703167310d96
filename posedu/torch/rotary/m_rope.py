"""M-RoPE: RoPE whose pairs are divided among several coordinates."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import torch
from jaxtyping import Int
from torch import Tensor
from torch.types import Device

from posedu._arguments import (
    Layout,
    SectionOrder,
    TextStart,
    require_choice,
    require_dimension,
    require_parts,
    require_sections,
)
from posedu.torch._tensors import cos_sin, in_float64, require_exact_angles
from posedu.torch.rotary._config import Config, rotation_arguments
from posedu.torch.rotary.rope import Frequencies, RoPE


class MRoPE(RoPE):
    """M-RoPE (arXiv 2409.12191 §2.1): the angle of pair p is ω_p times one coordinate.

    No parameters. Angles above 2²⁹ are refused on a CPU. Equation ``def-m-rope``. A
    token with equal coordinates, as text has them, is rotated as by :class:`RoPE`.

    Parameters
    ----------
    d
        Head dimension, even and at least 2 Σ ``sections``: so many leading features
        are rotated, the others pass through.
    sections
        How many pairs each axis rotates: time, rows and columns, or more axes.
    order
        Which pairs each axis rotates: ``"sectioned"``, ``"interleaved"`` or
        ``"alternating"``; see :func:`posedu.numpy.rotary.m_rope_axes`.
    layout
        Which features form a pair. Qwen's is ``"half"``, ERNIE's ``"interleaved"``.
    base
        Base of the frequencies. Default 10000, RoPE's.
    frequencies, attention_factor
        As for :class:`RoPE`: what context extension methods change.

    Raises
    ------
    TypeError, ValueError
        As :class:`RoPE`; ``d`` too small, unknown ``order``, or sections that
        ``order`` does not allow.
    """

    axes: int

    def __init__(
        self,
        d: int,
        *,
        sections: Sequence[int],
        order: SectionOrder,
        layout: Layout,
        base: float = 10000.0,
        frequencies: Frequencies | None = None,
        attention_factor: float = 1.0,
    ):
        sections = require_sections(sections, order)
        rotary_dim = 2 * sum(sections)
        if require_dimension("d", d) < rotary_dim:
            raise ValueError(
                f"d must be at least {rotary_dim} for sections of "
                f"{sum(sections)} pairs, got {d}"
            )
        super().__init__(
            d,
            layout=layout,
            base=base,
            rotary_dim=rotary_dim,
            frequencies=frequencies,
            attention_factor=attention_factor,
        )
        self.sections, self.order = sections, order
        self.axes = len(self.sections)
        self.position_shape = (self.axes,)
        self._axis_of_pair = self._axes()

    @classmethod
    def from_config(
        cls,
        config: Config,
        layer_type: str | None = None,
        *,
        layout: Layout | None = None,
        length: int | None = None,
    ) -> "MRoPE":
        """Make the rotation of a published model with M-RoPE from its configuration.

        As :meth:`RoPE.from_config`, for configurations with sections (``mrope_section``
        of Qwen-VL, ``xdrope_section`` of HunYuan-VL, ERNIE 4.5-VL). That method
        explains the arguments.
        """
        return cls(
            **rotation_arguments(config, layer_type, layout, length, has_sections=True)
        )

    def _axes(self) -> list[int]:
        """Return the axis by which each pair of features is rotated."""
        pairs, others = range(sum(self.sections)), self.axes - 1
        if self.order == "sectioned":
            ends = list(accumulate(self.sections))
            return [bisect_right(ends, p) for p in pairs]
        if self.order == "alternating":
            alternating = sum(self.sections[1:])
            return [1 + p % others if p < alternating else 0 for p in pairs]
        own = [p % self.axes for p in pairs]
        return [
            axis if p // self.axes < self.sections[axis] else 0
            for p, axis in zip(pairs, own, strict=True)
        ]

    def _table_of_shifts(
        self, shifts: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        axes = in_float64(shifts, device).unbind(-1)
        coordinates = torch.stack([axes[a] for a in self._axis_of_pair], -1)
        angle = coordinates * self._frequencies(device)
        return cos_sin(require_exact_angles("angles", angle), dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{super().extra_repr()}, sections={self.sections}, order={self.order!r}"


def m_rope_positions(
    parts: Sequence[int | Sequence[float]], *, after: TextStart, device: Device = None
) -> Int[Tensor, "tokens 3"]:
    """Return positions (time, row, column) of a sequence of text, images and videos.

    As :func:`posedu.numpy.rotary.m_rope_positions`, which explains ``parts`` and the
    two values of ``after``. Equation ``def-m-rope-positions``.
    """
    require_choice("after", after, TextStart)
    start, places = 0, [torch.zeros(0, 3, dtype=torch.int64, device=device)]
    for part in require_parts(parts):
        sizes = (part, 1, 1) if isinstance(part, int) else part[:3]
        cells = torch.ones(sizes, device=device).nonzero()
        if isinstance(part, int):
            places.append(start + cells[:, :1].expand(-1, 3))
            start += part
            continue
        cells[:, 0] = (cells[:, 0].to(torch.float64) * part[3]).floor().to(torch.int64)
        places.append(start + cells)
        grid = max(part[1:3])
        start += grid if after == "grid" else max(grid, int(cells[-1, 0]) + 1)
    return torch.cat(places)
