"""Re-rotation of cached keys to other positions."""

from posedu._arguments import Layout
from posedu.torch.rotary._config import Config
from posedu.torch.rotary.rope import Frequencies, RoPE


class Rerotation(RoPE):
    """Re-rotation of rotated keys to other positions: k ← R_Δ k.

    Call the module with rotated keys and their shifts, new position minus old position.
    An attention factor is in the keys already and is not applied again. Inside a layer
    the module is RoPE itself, since all shifts are from position 0.
    :meth:`posedu.torch.cache.KVCache.move` shifts a whole cache. Equation
    ``def-cache-rerotation``.

    Parameters
    ----------
    d, layout, base, rotary_dim, frequencies
        Arguments by which the keys were rotated; see :class:`RoPE`.

    Raises
    ------
    TypeError, ValueError
        As :class:`RoPE`.
    """

    def __init__(
        self,
        d: int,
        *,
        layout: Layout,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        frequencies: Frequencies | None = None,
    ):
        super().__init__(
            d,
            layout=layout,
            base=base,
            rotary_dim=rotary_dim,
            frequencies=frequencies,
        )

    @classmethod
    def from_config(
        cls,
        config: Config,
        layer_type: str | None = None,
        *,
        layout: Layout | None = None,
        length: int | None = None,
    ) -> "Rerotation":
        """Make the re-rotation of a published model; see :meth:`RoPE.from_config`."""
        rope = RoPE.from_config(config, layer_type, layout=layout, length=length)
        return cls(
            rope.d,
            layout=rope.layout,
            base=rope.base,
            rotary_dim=rope.rotary_dim,
            frequencies=rope.frequencies,
        )
