"""Log-n temperature: a factor of the queries that grows with their position."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from posedu._arguments import TemperatureGrowth, require_dimension, require_growth
from posedu.torch._tensors import Positions, align_positions, in_float64
from posedu.torch.encoding import Encoding, Sizes
from posedu.torch.rotary.rotation import Rotation


class LogN(Encoding):
    """Queries times a temperature that grows with their position. Eq. ``def-log-n``.

    Parameters
    ----------
    growth, index_from, alpha, length
        Formula of the temperature, the number of the first position (0 or 1), and the
        formula's constants α and L; see :func:`posedu.numpy.scaling.log_n_temperature`.
    heads
        Heads of the layer, for ``growth="learned"`` alone. Each has a ``slope`` and an
        ``offset``, initially 0 and 1: a temperature of 1.
    over
        A rotation of queries and keys to apply as well, such as RoPE. Default: none.

    Raises
    ------
    TypeError, ValueError
        An unknown ``growth``, arguments that it does not take or that are missing, an
        ``over`` that is no rotation or rotates by several coordinates.
    """

    head_rows = ("slope", "offset")

    def __init__(
        self,
        *,
        growth: TemperatureGrowth,
        index_from: int,
        alpha: float | None = None,
        length: float | None = None,
        heads: int | None = None,
        over: Rotation[Any] | None = None,
    ):
        super().__init__()
        self.alpha, self.length = require_growth(
            growth, alpha, length, index_from, heads is not None
        )
        if over is not None and not isinstance(over, Rotation):
            raise TypeError(f"over must be a rotation, got {type(over).__name__}")
        if over is not None and over.axes is not None:
            raise ValueError(
                "over must rotate by positions that are numbers, got "
                f"{type(over).__name__} of {over.axes} axes"
            )
        self.growth, self.index_from, self.over = growth, index_from, over
        self.slope = self.offset = None
        if heads is not None:
            self.heads = require_dimension("heads", heads, 1)
            self.slope = nn.Parameter(torch.zeros(heads))
            self.offset = nn.Parameter(torch.ones(heads))

    def require(self, layer: Sizes) -> None:
        """Raise unless the layer has the sizes of this module and of ``over``."""
        super().require(layer)
        if self.over is not None:
            self.over.require(layer)

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"], Float[Tensor, "batch kv_heads tokens d"]
    ]:
        """Rotate q and k by ``over``, if given; multiply q by the temperature."""
        if self.over is not None:
            q, k = self.over.rotate(q, k, positions)
        wide = torch.promote_types(q.dtype, torch.float32)
        tau = self._temperature(align_positions(positions, q), q, wide)
        return (q * tau[..., None]).to(q.dtype), k

    def rotation_state(self) -> tuple[Tensor, ...]:
        """Return the tensors that determine the angles of the rotation ``over``.

        Without ``over`` the tuple is empty.
        """
        return () if self.over is None else self.over.rotation_state()

    def move_keys(
        self,
        k: Float[Tensor, "batch kv_heads keys d"],
        shifts: Shaped[Tensor, "rows keys"],
    ) -> Float[Tensor, "batch kv_heads keys d"]:
        """Move cached keys as the rotation ``over`` does; keys have no temperature.

        ``shifts`` are new positions minus old ones. Without ``over``, ``k`` is
        returned.
        """
        return k if self.over is None else self.over.move_keys(k, shifts)

    def _temperature(
        self, positions: Tensor | range, q: Tensor, wide: torch.dtype
    ) -> Float[Tensor, "*batch tokens"]:
        n = in_float64(positions, q.device) + self.index_from
        if self.slope is not None and self.offset is not None:
            growth = n.clamp(min=1.0).log().to(wide)
            slope, offset = (t.to(wide)[:, None] for t in (self.slope, self.offset))
            return slope * growth + offset
        share = n.clamp(min=0.0) / self.length
        if self.growth == "steps":
            return (1 + self.alpha * (1 + share.floor()).log()).to(wide)
        if self.growth == "floor":
            return (1 + self.alpha * share.clamp(min=1.0).log()).to(wide)
        return ((1 + share) ** self.alpha).to(wide)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"growth={self.growth!r}, index_from={self.index_from}, "
            f"alpha={self.alpha}, length={self.length}"
        )
