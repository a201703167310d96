"""RoPE that rotates values, too, and rotates the attention output back."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import Layout, RotatedEnd, require_choice
from posedu.torch._tensors import Positions
from posedu.torch.rotary._config import Config
from posedu.torch.rotary.rope import RoPE
from posedu.torch.rotary.rotation import rotate_pairs


class ValueRotation(RoPE):
    """RoPE of queries, keys and values, undone in the attention output.

    Equation ``def-rotated-values``. DeepSeek-V4 has this rotation, with keys that are
    its values; here keys and values may differ.

    Parameters
    ----------
    d
        Head dimension, even, of queries, keys and values.
    layout
        ``"interleaved"`` (DeepSeek-V4) or ``"half"``.
    rotated
        Which features are rotated where not all are: the ``"leading"`` ones or the
        ``"trailing"`` ones (DeepSeek-V4).
    rotary_dim
        How many features are rotated; ``None``: all. DeepSeek-V4 rotates 64 of 512.
    base
        Base of the frequencies. Default 10000.

    Raises
    ------
    TypeError, ValueError
        As :class:`RoPE`; unknown ``rotated``.
    """

    def __init__(
        self,
        d: int,
        *,
        layout: Layout,
        rotated: RotatedEnd,
        rotary_dim: int | None = None,
        base: float = 10000.0,
    ):
        super().__init__(d, layout=layout, base=base, rotary_dim=rotary_dim)
        self.rotated = require_choice("rotated", rotated, RotatedEnd)

    @classmethod
    def from_config(
        cls,
        config: Config,
        layer_type: str | None = None,
        *,
        layout: Layout | None = None,
        length: int | None = None,
    ) -> "ValueRotation":
        """Refuse: no configuration says which features of values are rotated.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError(
            "a configuration does not say which features of values are rotated: make "
            f"{cls.__name__}(d, layout=…, rotated=…, rotary_dim=…, base=…) yourself"
        )

    def values(
        self, v: Float[Tensor, "batch kv_heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch kv_heads tokens d"]:
        """Rotate each value by the position of its token."""
        return self(v, positions)

    def output(
        self, out: Float[Tensor, "batch heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch heads tokens d"]:
        """Rotate the attention output back by the query's position."""
        cos, sin = self._table_for(out, positions)
        return self._rotate(out, (cos, -sin))

    def _rotate(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        if self.rotated == "leading" or self.rotary_dim == self.d:
            return rotate_pairs(x, *table, layout=self.layout)
        rest = self.d - self.rotary_dim
        rotated = rotate_pairs(x[..., rest:], *table, layout=self.layout)
        return torch.cat((x[..., :rest], rotated), -1)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{super().extra_repr()}, rotated={self.rotated!r}"
