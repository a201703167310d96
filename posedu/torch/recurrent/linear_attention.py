"""Linear attention: a state that only sums, with or without RoPE."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import Layout, require_dimension, require_positive
from posedu.torch.encoding import Tokens
from posedu.torch.recurrent.recurrence import Recurrence, State, wide
from posedu.torch.rotary.rope import RoPE, elu_plus_one

Features = tuple[
    Float[Tensor, "batch heads queries d"], Float[Tensor, "batch heads keys d"]
]


class LinearAttention(Recurrence):
    """Causal linear attention (arXiv 2006.16236), with or without RoPE.

    The weight of key j for query i is φ(q_i) · φ(k_j) over the sum of these products of
    all keys up to the query and ε, with φ(x) = elu(x) + 1. RoPE rotates φ(q) and φ(k)
    above the line, not below it (arXiv 2104.09864 Eq. 19), so that weights may be
    negative and need not sum to 1. Nothing is divided by √d. No parameters. Equation
    ``def-linear-attention``.

    Parameters
    ----------
    d
        Head dimension, even with a ``layout``.
    layout
        Which features RoPE rotates as a pair, ``"interleaved"`` or ``"half"``;
        ``None`` for no rotation, and no positions.
    base
        Base of RoPE's frequencies. Default 10000.
    eps
        ε. Default 1e−6 (the authors' code).

    Raises
    ------
    TypeError, ValueError
        As :class:`posedu.torch.rotary.rope.RoPE`, ``eps`` not above 0.
    """

    def __init__(
        self, d: int, *, layout: Layout | None, base: float = 10000.0, eps: float = 1e-6
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1 if layout is None else 2)
        self.rope = None if layout is None else RoPE(d, layout=layout, base=base)
        self.needs_positions = layout is not None
        self.eps = require_positive("eps", eps)

    def scale(self, d: int) -> float:
        """Return 1: products of queries and keys are not scaled."""
        return 1.0

    def features(self, tokens: Tokens) -> Features:
        """Return φ of queries and keys, rotated where there is a ``layout``."""
        q, k = self.unrotated(tokens)
        if self.rope is None:
            return q, k
        return (
            self.rope(q, tokens.query_positions),
            self.rope(k, tokens.key_positions),
        )

    def unrotated(self, tokens: Tokens) -> Features:
        """Return φ of queries and keys, in float32 or wider."""
        return elu_plus_one(wide(tokens.q)), elu_plus_one(wide(tokens.k))

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the products over the sums of those without a rotation."""
        q, k = self.unrotated(tokens)
        products = super().weigh(q @ k.mT, tokens)
        return super().weigh(logits, tokens) / (
            products.sum(-1, keepdim=True) + self.eps
        )

    def read(
        self,
        tokens: Tokens,
        q: Float[Tensor, "batch heads queries features"],
        k: Float[Tensor, "batch heads keys features"],
        v: Float[Tensor, "batch heads keys d_v"],
        states: dict[str, State] | None = None,
        name: str = "values",
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Read sums of values from one state, and those of products from another."""
        ones = torch.ones_like(v[..., :1])
        total = super().read(tokens, *self.unrotated(tokens), ones, states, "total")
        return super().read(tokens, q, k, v, states, name) / (total + self.eps)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d}, eps={self.eps:g}"
