"""Cached keys moved to other positions."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from posedu.torch.rotary.rope import RoPE


class Rerotation(RoPE):
    """Keys as RoPE would have turned them at other positions: k ← R_Δ k.

    Called with turned keys and how far each moves, its new position minus the old one.
    An attention_factor is in the keys already and is not applied again. Inside a layer it is
    RoPE itself, which moves everything from position 0. A cache is moved by
    :meth:`posedu.torch.cache.KVCache.move`. Equation ``def-cache-rerotation``.

    Parameters
    ----------
    d, layout, base, rotary_dim, frequencies
        Those by which the keys were turned; see :class:`RoPE`.

    Raises
    ------
    TypeError, ValueError
        As :class:`RoPE`.
    """

    def __init__(
        self,
        d: int,
        *,
        layout: str,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        frequencies: Float[Tensor, "pairs"] | Sequence[float] | None = None,
    ):
        super().__init__(
            d,
            layout=layout,
            base=base,
            rotary_dim=rotary_dim,
            frequencies=frequencies,
        )
