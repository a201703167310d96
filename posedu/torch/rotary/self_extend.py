"""Self-Extend, ReRoPE and dual chunk attention: far offsets mapped to others."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import (
    FarOffsets,
    GroupJoin,
    Layout,
    require_base,
    require_choice,
    require_dimension,
    require_far,
)
from posedu.torch._tensors import angles, cos_sin
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.rotation import rotate_pairs


class SelfExtend(Encoding):
    """RoPE whose far offsets are mapped to others, to stay within those of training.

    Keys are cached before rotation. A key is rotated in two ways, or a query in three,
    and each (query, key) pair takes the product that its offset needs. No tensor of
    queries · keys · d numbers is made. Attention takes O(L²) memory. Equation
    ``def-cache-extended``.

    Parameters
    ----------
    d
        Head dimension, even.
    far, window, group, join, chunk
        Rule for far offsets (``"grouped"``, ``"constant"`` or ``"chunks"``) and the
        sizes that it needs; see :func:`posedu.numpy.rotary.extended_offsets`.
    layout, base
        Which features form a pair, and base of the frequencies; see
        :class:`posedu.torch.rotary.RoPE`.

    Raises
    ------
    TypeError, ValueError
        ``d`` odd or not positive, unknown ``far``, ``join`` or ``layout``, sizes that
        ``far`` needs and lacks or does not take, ``base`` not above 1.
    """

    needs_causal = True

    def __init__(
        self,
        d: int,
        *,
        far: FarOffsets,
        window: int,
        layout: Layout,
        group: int | None = None,
        join: GroupJoin | None = None,
        chunk: int | None = None,
        base: float = 10000.0,
    ):
        super().__init__()
        self.d = require_dimension("d", d)
        require_far(far, window, group, chunk, join)
        self.far, self.window, self.group, self.join = far, window, group, join
        self.chunk = chunk
        self.layout = require_choice("layout", layout, Layout)
        self.base = require_base(base)

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the logits of every (query, key) pair.

        Each is one of two or three products q · k, which differ in the rotation of
        query and key: the one that the offset of the pair needs.
        """
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        q, k = tokens.q.to(wide) * self.scale(tokens.d), tokens.k.to(wide)
        i, j = tokens.query_positions, tokens.key_positions
        if self.chunk is not None:
            return self._across_chunks(q, k, i, j, self.chunk)
        # Positions counted from the first key keep angles, and their rounding, small.
        near = self._rotated(q, i - j[:, :1]) @ self._rotated(k, j - j[:, :1]).mT
        if self.group is None:
            far = self._rotated(q, torch.full_like(i, self.window)) @ k.mT
        else:
            far = self._grouped(q, k, i, j, self.group)
        return torch.where(tokens.offsets < self.window, near, far)

    def _grouped(
        self, q: Tensor, k: Tensor, i: Tensor, j: Tensor, group: int
    ) -> Float[Tensor, "batch heads queries keys"]:
        of_query, of_key = (torch.div(p, group, rounding_mode="floor") for p in (i, j))
        of_query, of_key = of_query - of_key[:, :1], of_key - of_key[:, :1]
        if self.join == "floor":
            of_query = of_query + (self.window - self.window // group)
        else:  # float64: an integer tensor plus a fraction would be float32
            of_query = of_query.double() + (self.window - self.window / group)
        return self._rotated(q, of_query) @ self._rotated(k, of_key).mT

    def _across_chunks(
        self, q: Tensor, k: Tensor, i: Tensor, j: Tensor, chunk: int
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the logits of dual chunk attention.

        ``q`` and ``k`` are queries and keys before rotation, ``i`` and ``j`` their
        positions, ``chunk`` is the number of tokens in a chunk. Keys are rotated by
        their place in a chunk, queries by the number of chunks between query and key.
        """
        of_query, of_key = (torch.div(p, chunk, rounding_mode="floor") for p in (i, j))
        behind = of_query[:, None, :, None] - of_key[:, None, None]
        top = chunk + self.window
        inside = i % chunk
        farthest = torch.full_like(i, min(2 * chunk - 1, top))
        places = inside, (inside + chunk).clamp(max=top), farthest
        keys = self._rotated(k, j % chunk).mT
        same, next_one, others = (self._rotated(q, p) @ keys for p in places)
        return torch.where(behind < 1, same, torch.where(behind == 1, next_one, others))

    def _rotated(
        self, x: Float[Tensor, "batch heads tokens d"], positions: Tensor
    ) -> Float[Tensor, "batch heads tokens d"]:
        omega = frequencies(x.shape[-1], base=self.base, device=x.device)
        cos, sin = cos_sin(angles(positions[:, None], omega), x.dtype)
        return rotate_pairs(x, cos, sin, layout=self.layout)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        sizes = {"group": self.group, "join": self.join, "chunk": self.chunk}
        given = "".join(f", {n}={v!r}" for n, v in sizes.items() if v is not None)
        return (
            f"{self.d}, far={self.far!r}, window={self.window}{given}, "
            f"layout={self.layout!r}, base={self.base:g}"
        )
