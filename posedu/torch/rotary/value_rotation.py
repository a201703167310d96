"""Rotated values as a module."""

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import TURNED, require_choice
from posedu.torch._tensors import Positions
from posedu.torch.rotary.rope import RoPE
from posedu.torch.rotary.rotation import rotate_pairs


class ValueRotation(RoPE):
    """RoPE that turns values, too, and the output back. Equation ``def-rotated-values``.

    As DeepSeek-V4 has it, whose keys are its values; here they may differ.

    Parameters
    ----------
    d
        Head dimension, even, of queries, keys and values.
    layout
        ``"interleaved"`` (DeepSeek-V4) or ``"half"``.
    turned
        Which features turn where not all do: the ``"leading"`` ones or the
        ``"trailing"`` ones (DeepSeek-V4).
    rotary_dim
        How many; ``None``: all. DeepSeek-V4 turns 64 of 512.
    base
        Default 10000.

    Raises
    ------
    TypeError, ValueError
        As :class:`RoPE`; unknown ``turned``.
    """

    def __init__(
        self,
        d: int,
        *,
        layout: str,
        turned: str,
        rotary_dim: int | None = None,
        base: float = 10000.0,
    ):
        super().__init__(d, layout=layout, base=base, rotary_dim=rotary_dim)
        self.turned = require_choice("turned", turned, TURNED)

    def values(
        self, v: Float[Tensor, "batch kv_heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch kv_heads tokens d"]:
        """Turn each value by its own position."""
        return self(v, positions)

    def output(
        self, out: Float[Tensor, "batch heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch heads tokens d"]:
        """Turn what was gathered back by the query's position."""
        cos, sin = self._table_for(out, positions)
        return self._turn(out, (cos, -sin))

    def _turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        if self.turned == "leading" or self.rotary_dim == self.d:
            return rotate_pairs(x, *table, layout=self.layout)
        rest = self.d - self.rotary_dim
        turned = rotate_pairs(x[..., rest:], *table, layout=self.layout)
        return torch.cat((x[..., :rest], turned), -1)

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return f"{super().extra_repr()}, turned={self.turned!r}"
