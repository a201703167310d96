"""Mamba-3: a state that decays and rotates, and writes a part of each token later."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import MambaRate, require_choice, require_dimension
from posedu.torch._autograd import without_autocast
from posedu.torch._sequences import gathered
from posedu.torch._tensors import cos_sin, wide_dtype
from posedu.torch.encoding import Tokens
from posedu.torch.gated.log_linear import initial_step_bias, step_sizes
from posedu.torch.recurrent.recurrence import Recurrence, State, wide
from posedu.torch.rotary.rotation import rotate_pairs
from posedu.torch.stickbreaking import softplus

_SLOWEST = 1e-4  # the authors' lower bound of −A

Features = tuple[
    Float[Tensor, "batch heads queries d"], Float[Tensor, "batch heads keys d"]
]


class Mamba3(Recurrence):
    """Mamba-3's state (arXiv 2603.15569): decays, rotations, and writes in two parts.

    With the step Δ = softplus(w · x + b), a rate A and λ = σ(u · x + c) of each token
    and head, the state is S_t = e^(A Δ) (S_(t−1) + (1 − λ) Δ k_(t−1) v_(t−1)ᵀ) +
    λ Δ k_t v_tᵀ. Queries and keys get a bias of each head and are rotated by sums of
    the angles π Δ tanh(ω), ω = W x, which heads share but for their steps. A token's
    own value is added, times the head's ``skip``. There is no softmax, and nothing is
    divided by √d. The layer's norms of queries and keys and its gate are no part of it;
    this is the form with one input and one output (SISO). Positions are not used. All
    weights of x start normal with deviation 1/√d_model, b so that softplus(b) is
    log-uniform from 0.001 to 0.1. Equation ``def-mamba-3``.

    Parameters
    ----------
    d_model, heads, d
        Width of the layer's input, query heads, head dimension, which is even.
    rate
        A of a number z = w · x + b: −softplus(z) (``"softplus"``, flash-linear-
        attention) or −(1 + z) above 0 and −1/(1 − z) below (``"rational"``, the
        authors' code); at most −1e−4.
    rotary_dim
        How many leading features are rotated, in interleaved pairs. Default d/2 (the
        authors' code), rounded down to an even number, and at least 2.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, an odd ``d`` or ``rotary_dim``, a
        ``rotary_dim`` above ``d``, unknown ``rate``.
    """

    needs_x = needs_own_key_last = True
    d: int
    head_rows = (
        "gate_weight",
        "gate_bias",
        "rate_weight",
        "rate_bias",
        "share_weight",
        "share_bias",
        "q_bias",
        "k_bias",
        "skip",
    )

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        rate: MambaRate,
        rotary_dim: int | None = None,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d)
        self.rate = require_choice("rate", rate, MambaRate)
        if rotary_dim is None:
            rotary_dim = max(2, d // 4 * 2)
        if require_dimension("rotary_dim", rotary_dim) > d:
            raise ValueError(f"rotary_dim must be at most d = {d}, got {rotary_dim}")
        self.rotary_dim = rotary_dim

        def projection(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, d_model) * d_model**-0.5)

        self.gate_weight = projection(heads)
        self.gate_bias = nn.Parameter(initial_step_bias(heads))
        self.rate_weight = projection(heads)
        self.rate_bias = nn.Parameter(torch.zeros(heads))
        self.share_weight = projection(heads)
        self.share_bias = nn.Parameter(torch.zeros(heads))
        self.angle_weight = projection(rotary_dim // 2)
        self.q_bias = nn.Parameter(torch.ones(heads, d))
        self.k_bias = nn.Parameter(torch.ones(heads, d))
        self.skip = nn.Parameter(torch.ones(heads))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads *pairs"]]:
        """Return each token's log decay, both strengths and angles."""
        steps = step_sizes(x, self.gate_weight, self.gate_bias)
        dtype = wide_dtype(x, self.gate_bias)
        with without_autocast(x):
            x = x.to(dtype)
            z = x @ self.rate_weight.to(dtype).mT + self.rate_bias.to(dtype)
            share = x @ self.share_weight.to(dtype).mT + self.share_bias.to(dtype)
            omega = x @ self.angle_weight.to(dtype).mT
        if self.rate == "softplus":
            speed = softplus(z)
        else:
            speed = torch.where(z > 0, 1 + z, 1 / (1 - z.clamp(max=0)))
        turns = math.pi * torch.tanh(omega)[:, :, None] * steps[..., None]
        return {
            "log_decay": -speed.clamp(min=_SLOWEST) * steps,
            "now": share.sigmoid() * steps,
            "later": (-share).sigmoid() * steps,
            "turns": turns,
        }

    def scale(self, d: int) -> float:
        """Return 1: products of queries and keys are not scaled."""
        return 1.0

    def decays(
        self, tokens: Tokens
    ) -> tuple[Float[Tensor, "batch keys heads"], Float[Tensor, "batch keys heads"]]:
        """Return log decays, and strengths after the next token of the sequence."""
        memory = tokens.memory
        return memory["log_decay"], memory["now"] + _following(tokens)

    def features(
        self, tokens: Tokens, start: Float[Tensor, "batch heads 1 pairs"] | None = None
    ) -> Features:
        """Return queries and keys with biases, rotated by angles from ``start`` on."""
        angles = tokens.running_sum(tokens.memory["turns"]).mT
        if start is not None:
            angles = angles + start
        q, k = wide(tokens.q), wide(tokens.k)
        q, k = (
            t + b.to(t.dtype)[:, None] for t, b in ((q, self.q_bias), (k, self.k_bias))
        )
        of_queries = angles[:, :, tokens.keys - q.shape[2] :]
        return (
            rotate_pairs(q, *cos_sin(of_queries, q.dtype), layout="interleaved"),
            rotate_pairs(k, *cos_sin(angles, k.dtype), layout="interleaved"),
        )

    def own(
        self,
        tokens: Tokens,
        q: Float[Tensor, "batch heads queries d"],
        k: Float[Tensor, "batch heads keys d"],
    ) -> Float[Tensor, "batch heads queries"]:
        """Return what a query's own value weighs besides the state.

        That is ``skip``, less the part that is written with the next token only.
        """
        first = tokens.keys - q.shape[2]
        later = _following(tokens).mT[:, :, first:]
        return wide(self.skip)[:, None] - later * (q * k[:, :, first:]).sum(-1)

    def carry(
        self, tokens: Tokens, states: Mapping[str, State]
    ) -> tuple[Float[Tensor, "batch heads queries d_v"], Mapping[str, State]]:
        """Read the outputs of new tokens; return them and the states after them.

        Besides the sum, a state has the angles so far and the last token's key and
        value, of which the next token writes the rest.
        """
        new, v = dict(states), wide(tokens.v)
        q, k = self.features(tokens, states.get("angles"))
        order = tokens.sequence_order
        is_token = torch.ones_like(order, dtype=torch.bool)
        if tokens.padding is not None:
            is_token = ~tokens.padding
        count = is_token.sum(1)
        if "key" in states:
            place = (order.shape[1] - count).clamp(max=order.shape[1] - 1)
            first = order.gather(1, place[:, None])
            rest = gathered(tokens.memory["later"], first).mT[..., None]
            rest = rest.masked_fill((count == 0)[:, None, None, None], 0.0)
            new["values"] = states["values"] + rest * states["key"] @ states["value"]
        out = self.read(tokens, q, k, v, new)
        last = order[:, -1:]

        def newest(t: Tensor, before: Tensor | None) -> Tensor:
            found = gathered(t.transpose(1, 2), last).transpose(1, 2)
            if before is None:
                return found.masked_fill((count == 0)[:, None, None, None], 0.0)
            return torch.where((count == 0)[:, None, None, None], before, found)

        key = states.get("key")
        new["key"] = newest(k, None if key is None else key.mT).mT
        new["value"] = newest(v, states.get("value"))
        turns = tokens.memory["turns"].to(torch.float64)
        total = (turns * is_token[..., None, None]).sum(1)[:, :, None]
        if "angles" in states:
            total = total + states["angles"]
        new["angles"] = total.remainder(2 * math.pi)
        return out.to(tokens.grouped_v.dtype), new

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, {self.heads}, {self.d}, rate={self.rate!r}, "
            f"rotary_dim={self.rotary_dim}"
        )


def _following(tokens: Tokens) -> Float[Tensor, "batch keys heads"]:
    """Return what the next token of the sequence writes of each token, or 0."""
    later, order = tokens.memory["later"], tokens.sequence_order
    in_sequence = gathered(later, order)
    following = functional.pad(in_sequence, (0, 0, 0, 1))[:, 1:]
    if tokens.segments is not None:
        segments = tokens.segments.gather(1, order)
        is_last = torch.cat((segments, segments[:, -1:] + 1), 1).diff(dim=1) != 0
        following = following.masked_fill(is_last[..., None], 0.0)
    return gathered(following, order.argsort(1))
