"""xPos: RoPE whose pairs decay with the distance from query to key."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import (
    Layout,
    require_base,
    require_choice,
    require_decay,
    require_dimension,
)
from posedu.torch._tensors import (
    Positions,
    align_positions,
    angles,
    in_float64,
    may_look,
)
from posedu.torch.encoding import Encoding
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.rotation import rotate_pairs


class XPos(Encoding):
    """RoPE with a decay in each pair (arXiv 2212.10554). Equation ``def-xpos``.

    No parameters and no table, but a maximal distance: positions must be within
    :meth:`reach` of the center, where their powers are normal numbers of the dtype.
    Other positions are refused on a CPU.

    Parameters
    ----------
    d
        Head dimension, even.
    layout
        ``"interleaved"`` (the authors' code) or ``"half"``.
    center
        The position whose queries and keys keep their size; see
        :func:`posedu.numpy.rotary.xpos`.
    base
        Base of the frequencies. Default 10000 (the paper).
    gamma, scale_base
        γ, which sets the decay ζ_p of each pair, and B, the number of positions in
        which a pair decays by ζ_p. Defaults 0.4 and 512 (the paper).

    Raises
    ------
    TypeError, ValueError
        ``d`` odd or not positive, unknown ``layout``, ``base`` not above 1, ``gamma``
        or ``scale_base`` not above 0, a ``center`` that is not finite.
    """

    d: int

    def __init__(
        self,
        d: int,
        *,
        layout: Layout,
        center: float,
        base: float = 10000.0,
        gamma: float = 0.4,
        scale_base: float = 512.0,
    ):
        super().__init__()
        self.d = require_dimension("d", d)
        self.layout = require_choice("layout", layout, Layout)
        self.base = require_base(base)
        require_decay(gamma, scale_base, center)
        self.center, self.gamma = float(center), float(gamma)
        self.scale_base = float(scale_base)

    def scales(self, device: Device = None) -> Float[Tensor, "pairs"]:
        """Return ζ_p of each pair, the base of its decay. Eq. ``def-xpos-scale``."""
        p = torch.arange(self.d // 2, dtype=torch.float64, device=device)
        return (2 * p / self.d + self.gamma) / (1 + self.gamma)

    def reach(self, dtype: torch.dtype) -> float:
        """Largest distance from the center where powers of all decays are normal.

        Farther away a power of a decay ζ_p is no normal number of ``dtype``. Equation
        ``eq-xpos-reach``.
        """
        fastest = math.log1p(1 / self.gamma)
        return self.scale_base * -math.log(torch.finfo(dtype).tiny) / fastest

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"], Float[Tensor, "batch kv_heads tokens d"]
    ]:
        """Rotate queries and keys; as positions rise, queries shrink and keys grow."""
        at = in_float64(align_positions(positions, q), q.device)
        from_center = at - self.center
        self._require_near(from_center, q.dtype)
        angle = angles(at, frequencies(self.d, base=self.base, device=q.device))
        rate = self.scales(q.device).log() / self.scale_base
        growth = (from_center[..., None] * rate).exp()
        wide = torch.promote_types(q.dtype, torch.float32)
        cos, sin = angle.cos(), angle.sin()
        return (
            rotate_pairs(
                q, (cos * growth).to(wide), (sin * growth).to(wide), layout=self.layout
            ),
            rotate_pairs(
                k, (cos / growth).to(wide), (sin / growth).to(wide), layout=self.layout
            ),
        )

    def _require_near(self, from_center: Tensor, dtype: torch.dtype) -> None:
        if not may_look(from_center):
            return
        reach = self.reach(dtype)
        if (from_center.abs() > reach).any():
            far = from_center[from_center.abs() > reach][0].item() + self.center
            raise ValueError(
                f"positions must be within {reach:.0f} of the center {self.center:g}, "
                f"where powers are normal numbers of {dtype}, got {far:g}"
            )

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d}, layout={self.layout!r}, center={self.center:g}, "
            f"base={self.base:g}, gamma={self.gamma:g}, scale_base={self.scale_base:g}"
        )
