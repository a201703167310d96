"""Wall attention: each channel of the product of query and key has its own gates."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_bool, require_dimension, require_finite
from posedu.torch._compiled import untraced
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.gated.fox import log_gates
from posedu.torch.path._sequence import forget_bias, products_in_segments

_BLOCK = 32  # queries that share an anchor


class Wall(Encoding):
    """Wall attention: a gate for each channel inside the product of query and key.

    The logit of query i and key j is Σ_n q_in k_jn e^(P_in − P_jn) / √d over the
    channels n, where P_in sums the logarithms of the gates σ(w · x + b) of head and
    channel over the tokens up to i. Positions are not used. Equation ``def-wall``.

    Attention takes O(L²) memory and O(L² d) operations for L tokens, and O(L d) for one
    token with a cache, which holds the log gates of every query head, in float32,
    beside the keys. No exponent is above 0, whatever the length.

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    d
        Head dimension.
    scalar_gate
        Whether a further gate of each head acts as FoX's: the sum of its logarithms is
        added to the logits, not divided by √d. Default false.
    gate_bias
        Initial b of all gates. Default 8 (the authors' code), which makes attention
        almost plain at the start; every w starts with deviation 0.02.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, a ``gate_bias`` that is not finite.
    """

    needs_causal = needs_x = True
    needs_positions = False
    head_rows = ("gate_weight", "gate_bias", "scalar_weight", "scalar_bias")

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        scalar_gate: bool = False,
        gate_bias: float = 8.0,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d, 1)
        start = require_finite("gate_bias", gate_bias)
        self.gate_weight = nn.Parameter(0.02 * torch.randn(heads, d, d_model))
        self.gate_bias = nn.Parameter(torch.full((heads, d), start))
        self.scalar_weight = self.scalar_bias = None
        if require_bool("scalar_gate", scalar_gate):
            self.scalar_weight = nn.Parameter(0.02 * torch.randn(heads, d_model))
            self.scalar_bias = nn.Parameter(torch.full((heads,), start))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens ..."]]:
        """Return the logarithms of each token's gates, in float32 or wider."""
        weight, bias = self.gate_weight, self.gate_bias
        gates = log_gates(x, weight.flatten(0, 1), bias.flatten())
        memory = {"log_gates": gates.unflatten(-1, bias.shape)}
        if self.scalar_bias is not None:
            own = log_gates(x, self.scalar_weight, self.scalar_bias)
            memory["scalar_log_gates"] = own
        return memory

    def products(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return Σ_n q_in k_jn e^(P_in − P_jn) of every query i and key j.

        The products are in float32 or wider; for keys after the query they have no
        meaning.
        """
        gates = tokens.memory["log_gates"]
        dtype = torch.promote_types(tokens.q.dtype, gates.dtype)
        q, k = tokens.q.to(dtype), tokens.k.to(dtype)
        return products_in_segments(
            gated_products, tokens, q, k, tokens.running_sum(gates).mT
        )

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the scaled products, plus sums of log gates. Eq. ``def-wall``."""
        scores = self.products(tokens) * self.scale(tokens.d)
        if self.scalar_bias is None:
            return scores
        gates = forget_bias(tokens.memory["scalar_log_gates"], tokens)
        return scores + gates.to(scores.dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        has_scalar = self.scalar_bias is not None
        return f"{self.d_model}, {self.heads}, {self.d}, scalar_gate={has_scalar}"


@untraced("gated_products")
def gated_products(
    q: Float[Tensor, "batch heads queries d"],
    k: Float[Tensor, "batch heads keys d"],
    sums: Float[Tensor, "batch heads keys d"],
    *,
    block: int = _BLOCK,
) -> Float[Tensor, "batch heads queries keys"]:
    """Products Σ_n q_in k_jn e^(P_in − P_jn) over the channels n, block by block.

    The queries are those of the last keys; ``sums`` are P, in float64, which fall along
    the tokens. ``block`` queries share an anchor R, the sum before the first of them:
    keys before the block are multiplied by e^(R − P_j) and queries by e^(P_i − R).
    Neither factor is above 1, unlike e^(−P_j) (``thm-wall-anchor``). Within a block
    the exponents are P_i − P_j. For keys after the query the result has no meaning.
    """
    queries, keys = q.shape[2], k.shape[2]
    rows = [q.new_zeros(*q.shape[:2], 0, keys)]
    for start in range(0, queries, block):
        own_q = q[:, :, start : start + block]
        before = keys - queries + start
        after = before + own_q.shape[2]
        own_k, own_sums = k[:, :, before:after], sums[:, :, before:after]
        anchor = sums[:, :, max(before - 1, 0), None]
        far_q = own_q * (own_sums - anchor).to(q.dtype).exp()
        far_k = k[:, :, :before] * (anchor - sums[:, :, :before]).to(q.dtype).exp()
        exponents = own_sums[:, :, :, None] - own_sums[:, :, None]
        exponents = exponents.masked_fill(_later(own_q)[..., None], 0.0)
        near_k = own_k[:, :, None] * exponents.to(q.dtype).exp()
        near = (near_k @ own_q[..., None]).squeeze(-1)
        row = torch.cat((far_q @ far_k.mT, near), -1)
        rows.append(functional.pad(row, (0, keys - after)))
    return torch.cat(rows, 2)


def _later(
    q: Float[Tensor, "batch heads queries d"],
) -> Bool[Tensor, "queries queries"]:
    """Return a mask that is true for keys after the query, in a block of ``q``."""
    n = q.shape[2]
    return torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
