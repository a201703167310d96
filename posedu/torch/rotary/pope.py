"""PoPE: polar coordinate position embedding of queries and keys."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_base, require_dimension
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import Positions, align_positions, angles
from posedu.torch.encoding import Encoding
from posedu.torch.frequencies import frequencies


class PoPE(Encoding):
    """Polar coordinate position embedding (arXiv 2509.10534). Equation ``def-pope``.

    A feature becomes a length, the softplus of its content, and an angle, position
    times the feature's frequency. Keys and queries have 2d features: twice the
    products, and twice the cache of keys.

    Parameters
    ----------
    d
        Head dimension.
    heads
        Query heads; each has a phase ``delta`` for each feature, initially 0.
    base
        Base of the frequencies. Default 10000 (the paper).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, a ``base`` that is not above 1.
    """

    d: int
    heads: int
    head_rows = ("delta",)

    def __init__(self, d: int, heads: int, *, base: float = 10000.0):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.base = require_base(base)
        self.delta = nn.Parameter(torch.zeros(heads, d))

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens 2*d"],
        Float[Tensor, "batch kv_heads tokens 2*d"],
    ]:
        """Return q and k in polar form: softplus lengths at the position's angles.

        The angles of a query are less by the phases ``delta``, within [−2π, 0].
        """
        omega = frequencies(2 * self.d, base=self.base, device=q.device)
        angle = angles(align_positions(positions, q), omega)
        phase = self.delta.double().clamp(-2 * math.pi, 0.0)[:, None]
        with without_autocast(q):
            return _polar(q, angle - phase), _polar(k, angle)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d}, {self.heads}, base={self.base:g}"


def _polar(
    x: Float[Tensor, "*batch tokens d"], angle: Float[Tensor, "*rows tokens d"]
) -> Float[Tensor, "*batch tokens 2*d"]:
    wide = torch.promote_types(x.dtype, torch.float32)
    length = functional.softplus(x.to(wide), threshold=40.0)
    cos, sin = angle.cos().to(wide), angle.sin().to(wide)
    return torch.cat((length * cos, length * sin), -1).to(x.dtype)
