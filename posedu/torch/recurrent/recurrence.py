"""Base class of encodings whose output is read from a state, without a softmax."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from posedu.torch import routes
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.recurrent.forms import Writes, by_chunks, pair_weights, state_outputs

State = Float[Tensor, "batch heads _ _"]


class Recurrence(Encoding):
    """An encoding that reads the output of a query from a state, a matrix of each head.

    Token t changes the state to S_t = T_t S_(t−1) + β_t k_t v_tᵀ, and its output is
    S_tᵀ q_t times the scale (``def-state``): the weight of key j for query i is
    q_i · T_i ⋯ T_(j+1) k_j β_j. T_t is diag(α_t) or, for the ``delta`` rule,
    (I − β_t k_t k_tᵀ) diag(α_t). A subclass says what a token caches: ``"log_decay"``,
    the numbers log α of each head, or of each head and feature, and ``"beta"``; without
    the one nothing decays, without the other β is 1. A token may change the state in
    several ``steps``, of which the last has its key and value.

    There are two routes: ``"fused"``, the default, takes O(L) memory and operations for
    L tokens, chunk by chunk; ``"eager"`` computes the weights of all pairs. A layer's
    window hides keys and leaves the state as it is, and takes the second route.
    """

    needs_causal = True
    needs_positions = False
    is_fused = True
    delta = False
    steps = 1

    def features(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch heads queries features"],
        Float[Tensor, "batch heads keys features"],
    ]:
        """Return queries, which include the scale, and keys, in float32 or wider."""
        q, k = (wide(t) for t in (tokens.q, tokens.k))
        return q * self.scale(tokens.d), k

    def decays(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch keys heads *features"], Float[Tensor, "batch keys heads"]
    ]:
        """Return log α and β of each token, in float32 or wider."""
        like = tokens.grouped_k
        shape = len(like), tokens.keys, tokens.q.shape[1]
        dtype = torch.promote_types(like.dtype, torch.float32)
        log_decay = tokens.memory.get("log_decay")
        if log_decay is None:
            log_decay = like.new_zeros(shape, dtype=dtype)
        beta = tokens.memory.get("beta")
        if beta is None:
            beta = like.new_ones(shape, dtype=dtype)
        return log_decay, beta

    def own(
        self,
        tokens: Tokens,
        q: Float[Tensor, "batch heads queries features"],
        k: Float[Tensor, "batch heads keys features"],
    ) -> Float[Tensor, "batch heads queries"] | None:
        """Return what a query's own value weighs besides the state; by default nothing.

        ``q`` and ``k`` are the results of :meth:`features`.
        """
        return None

    def pairs(
        self,
        tokens: Tokens,
        q: Float[Tensor, "batch heads queries features"],
        k: Float[Tensor, "batch heads keys features"],
    ) -> Float[Tensor, "batch heads queries keys steps"]:
        """Return the weight of what each step of a key wrote, for every query.

        ``q`` and ``k`` are the results of :meth:`features`. Equation
        ``eq-state-weights``.
        """
        order = _order(tokens)
        weights = pair_weights(self.writes(tokens, q, k, wide(tokens.v), order))
        weights = weights[:, :, self.steps - 1 :: self.steps]
        weights = weights.unflatten(-1, (-1, self.steps))
        if order is not None:
            back = order.argsort(1)
            of_keys = in_order(in_order(weights, back).transpose(2, 3), back)
            weights = of_keys.transpose(2, 3)
        return weights[:, :, tokens.keys - tokens.q.shape[2] :]

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the weights of the values of all keys."""
        q, k = self.features(tokens)
        weights, own = self.pairs(tokens, q, k)[..., -1], self.own(tokens, q, k)
        if own is None:
            return weights
        before = tokens.keys - tokens.q.shape[2]
        return weights + functional.pad(own.to(weights).diag_embed(), (before, 0))

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the weights, 0 for masked keys: they need not sum to 1."""
        return logits.masked_fill(~tokens.mask, 0.0)

    def attend(self, tokens: Tokens) -> Float[Tensor, "batch heads queries d_v"]:
        """Read the outputs from the state, chunk by chunk. Eq. ``eq-state-chunks``."""
        if tokens.window is not None:
            return routes.eager(self, tokens)[0]
        out = self.read(tokens, *self.features(tokens), wide(tokens.v))
        return out.to(tokens.grouped_v.dtype)

    def carry(
        self, tokens: Tokens, states: Mapping[str, State]
    ) -> tuple[Float[Tensor, "batch heads queries d_v"], Mapping[str, State]]:
        """Read the outputs of new tokens; return them and the states after them."""
        new = dict(states)
        out = self.read(tokens, *self.features(tokens), wide(tokens.v), new)
        return out.to(tokens.grouped_v.dtype), new

    def read(
        self,
        tokens: Tokens,
        q: Float[Tensor, "batch heads queries features"],
        k: Float[Tensor, "batch heads keys features"],
        v: Float[Tensor, "batch heads keys d_v"],
        states: dict[str, State] | None = None,
        name: str = "values",
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Read S_tᵀ q_t for the given queries, keys and values of the tokens.

        With ``states``, the tokens go on from the state of this ``name`` among them,
        which is then replaced by the one after them.
        """
        order = _order(tokens)
        writes = self.writes(tokens, q, k, v, order)
        if states is None:
            out = state_outputs(writes)
        else:
            out, states[name] = by_chunks(writes, states.get(name))
        out = out[:, :, self.steps - 1 :: self.steps]
        if order is not None:
            out = in_order(out, order.argsort(1))
        before, own = tokens.keys - q.shape[2], self.own(tokens, q, k)
        out = out[:, :, before:]
        if own is None:
            return out
        if tokens.padding is not None:
            own = own.masked_fill(tokens.padding[:, None, before:], 0.0)
        return out + own[..., None].to(out) * v[:, :, before:]

    def writes(
        self,
        tokens: Tokens,
        q: Float[Tensor, "batch heads queries features"],
        k: Float[Tensor, "batch heads keys features"],
        v: Float[Tensor, "batch heads keys d_v"],
        order: Int[Tensor, "batch keys"] | None,
    ) -> Writes:
        """Return what each token writes, in the order of the sequences.

        Padding writes nothing, and the state passes it as it is.
        """
        log_decay, beta = (t.transpose(1, 2) for t in self.decays(tokens))
        # Log decays may be float64, whose sums are: states and products need not be.
        dtype = torch.promote_types(q.dtype, beta.dtype)
        q = functional.pad(q, (0, 0, tokens.keys - q.shape[2], 0))
        q, k, v, beta = (t.to(dtype) for t in (q, k, v, beta))
        segments = tokens.segments
        if segments is None:
            segments = tokens.key_positions.new_zeros(len(q), 0, dtype=torch.int64)
        if tokens.padding is not None:
            hidden = tokens.padding[:, None]
            beta = beta.masked_fill(hidden, 0.0)
            log_decay = log_decay.masked_fill(
                hidden[..., *(None,) * (log_decay.ndim - 3)], 0.0
            )
        if order is not None:
            q, k, v, log_decay, beta = (
                in_order(t, order) for t in (q, k, v, log_decay, beta)
            )
            segments = segments.gather(1, order)
        return Writes(q, k, v, log_decay, beta, segments, self.delta)


def wide(t: Tensor) -> Tensor:
    """Return ``t`` in float32, or in float64 if it is."""
    return t.to(torch.promote_types(t.dtype, torch.float32))


def in_order(
    t: Shaped[Tensor, "batch heads tokens *features"],
    order: Int[Tensor, "batch places"],
) -> Shaped[Tensor, "batch heads places *features"]:
    """Return the tokens of ``t`` whose indices are ``order``."""
    index = order.reshape(len(order), 1, -1, *(1,) * (t.ndim - 3))
    return t.gather(2, index.expand(*t.shape[:2], -1, *t.shape[3:]))


def _order(tokens: Tokens) -> Int[Tensor, "batch keys"] | None:
    """Return the order of the tokens by segments, ``None`` if it is theirs already."""
    if tokens.segments is None:
        return None
    return tokens.segments.argsort(dim=1, stable=True)
