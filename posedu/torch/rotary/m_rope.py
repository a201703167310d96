"""M-RoPE: RoPE's frequencies, shared out among several coordinates."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import torch
from jaxtyping import Int
from torch import Tensor
from torch.types import Device

from posedu._arguments import (
    AFTERS,
    LAYOUTS,
    require_base,
    require_choice,
    require_dimension,
    require_parts,
    require_sections,
)
from posedu.torch._tensors import cos_sin, in_float64
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.rotation import PairRotation


class MRoPE(PairRotation):
    """M-RoPE (arXiv 2409.12191 §2.1): pair p turns by ω_p times one coordinate.

    No parameters, no maximal size. Equation ``def-m-rope``. A token with equal
    coordinates, as text has them, is turned as by :class:`RoPE`.

    Parameters
    ----------
    d
        Head dimension, even and at least 2 Σ ``sections``: so many leading features
        turn, the others pass through.
    sections
        How many pairs look at each axis: time, rows and columns, or more axes.
    order
        Which pairs they are: ``"sectioned"``, ``"interleaved"`` or ``"alternating"``; see
        :func:`posedu.numpy.rotary.m_rope_axes`.
    layout
        Which features form a pair. Qwen's is ``"half"``, ERNIE's ``"interleaved"``.
    base
        Default 10000, RoPE's.

    Raises
    ------
    TypeError, ValueError
        ``d`` odd or too small, sections that ``order`` cannot share out, unknown
        ``order`` or ``layout``, ``base`` not above 1.
    """

    axes: int
    is_group = True

    def __init__(
        self,
        d: int,
        *,
        sections: Sequence[int],
        order: str,
        layout: str,
        base: float = 10000.0,
    ):
        super().__init__()
        self.sections = require_sections(sections, order)
        self.d = require_dimension("d", d)
        if d < 2 * sum(self.sections):
            raise ValueError(
                f"d must be at least {2 * sum(self.sections)} for sections of "
                f"{sum(self.sections)} pairs, got {d}"
            )
        self.order = order
        self.layout = require_choice("layout", layout, LAYOUTS)
        self.base = require_base(base)
        self.axes = len(self.sections)
        self.position_shape = (self.axes,)
        self._axis_of_pair = self._axes()
        self.turning = (
            f"sections={self.sections}, order={order!r}, layout={layout!r}, "
            f"base={self.base!r}"
        )

    def _axes(self) -> list[int]:
        """The axis of each pair."""
        pairs, others = range(sum(self.sections)), self.axes - 1
        if self.order == "sectioned":
            ends = list(accumulate(self.sections))
            return [bisect_right(ends, p) for p in pairs]
        if self.order == "alternating":
            taking_turns = sum(self.sections[1:])
            return [1 + p % others if p < taking_turns else 0 for p in pairs]
        own = [p % self.axes for p in pairs]
        return [
            axis if p // self.axes < self.sections[axis] else 0
            for p, axis in zip(pairs, own, strict=True)
        ]

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        omega = frequencies(2 * sum(self.sections), base=self.base, device=device)
        axes = in_float64(positions, device).unbind(-1)
        coordinates = torch.stack([axes[a] for a in self._axis_of_pair], -1)
        return cos_sin(coordinates * omega, dtype)

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return (
            f"{self.d}, sections={self.sections}, order={self.order!r}, "
            f"layout={self.layout!r}, base={self.base:g}"
        )


def m_rope_positions(
    parts: Sequence[int | Sequence[float]], *, after: str, device: Device = None
) -> Int[Tensor, "tokens 3"]:
    """Positions (time, row, column) of a sequence of text, images and videos.

    As :func:`posedu.numpy.rotary.m_rope_positions`, which states the ``parts`` and the
    two ``after``. Equation ``def-m-rope-positions``.
    """
    require_choice("after", after, AFTERS)
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
