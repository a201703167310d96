"""Gated short convolutions (LFM2): weights of the last few tokens by their distance."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_dimension
from posedu.torch import routes
from posedu.torch._sequences import earlier_in_sequence, sequence_order
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.recurrent.recurrence import State, in_order, wide


class GatedConvolution(Encoding):
    """A gated short convolution (LFM2, arXiv 2511.23404) as attention.

    The weight of key j for query i is q_i · k_j c_(i − j) for i − j < ``width`` and 0
    for earlier keys, where c are the taps of a head and i − j counts tokens. There is
    no softmax, and nothing is divided by √d. LFM2's layer has as many heads as
    features, each of one feature: it convolves the products of keys (B) and values (x),
    and multiplies them by the queries (C). Taps start uniform up to ± 1/√width.
    Positions are not used. Equation ``def-gated-convolution``.

    Parameters
    ----------
    heads
        Query heads.
    width
        Number of tokens, the query's own among them. Default 3 (LFM2).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers.
    """

    needs_causal = needs_own_key_last = True
    needs_positions = False
    is_fused = True
    heads: int
    head_rows = ("taps",)

    def __init__(self, heads: int, *, width: int = 3):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.width = require_dimension("width", width, 1)
        taps = torch.empty(heads, width).uniform_(-1, 1) * width**-0.5
        self.taps = nn.Parameter(taps)  # the last one is of the token itself

    def scale(self, d: int) -> float:
        """Return 1: products of queries and keys are not scaled."""
        return 1.0

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return products times taps, 0 for keys that are masked or too far."""
        place = tokens.sequence_order.argsort(1)
        first = tokens.keys - tokens.q.shape[2]
        apart = place[:, first:, None] - place[:, None]
        is_near = tokens.mask & ((apart >= 0) & (apart < self.width))[:, None]
        taps = self.taps.to(torch.promote_types(logits.dtype, torch.float32))
        index = (self.width - 1 - apart).clamp(0, self.width - 1)
        return (logits * taps[:, index].transpose(0, 1)).masked_fill(~is_near, 0.0)

    def attend(self, tokens: Tokens) -> Float[Tensor, "batch heads queries d_v"]:
        """Sum the weighted values of the last tokens: O(L width d) operations."""
        if tokens.window is not None:
            return routes.eager(self, tokens)[0]
        q = functional.pad(tokens.q, (0, 0, tokens.keys - tokens.q.shape[2], 0))
        order = tokens.sequence_order
        masks = tokens.padding, tokens.segments
        out = self._convolved(q, tokens.k, tokens.v, order, *masks)
        return out[:, :, tokens.keys - tokens.q.shape[2] :]

    def carry(
        self, tokens: Tokens, states: Mapping[str, State]
    ) -> tuple[Float[Tensor, "batch heads queries d_v"], Mapping[str, State]]:
        """Read the outputs of new tokens; return them and the states after them.

        The states are the keys and values of the last ``width`` − 1 tokens.
        """
        before = self.width - 1
        k, v = (
            torch.cat((states[name], t), 2)
            if name in states
            else functional.pad(t, (0, 0, before, 0))
            for name, t in (("keys", wide(tokens.k)), ("values", wide(tokens.v)))
        )
        q = functional.pad(tokens.q, (0, 0, before, 0))
        padding = tokens.padding
        if padding is not None:
            padding = functional.pad(padding, (before, 0))
        order = sequence_order(k[:, 0], padding, None)
        out = self._convolved(q, k, v, order, padding, None)[:, :, before:]
        newest = order[:, tokens.keys :]
        new = {"keys": in_order(k, newest), "values": in_order(v, newest)}
        return out.to(tokens.grouped_v.dtype), new

    def _convolved(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch heads tokens d"],
        v: Float[Tensor, "batch heads tokens d_v"],
        order: Int[Tensor, "batch tokens"],
        padding: Bool[Tensor, "batch tokens"] | None,
        segments: Int[Tensor, "batch tokens"] | None,
    ) -> Float[Tensor, "batch heads tokens d_v"]:
        """Return the outputs of all tokens, in the order in which they are given."""
        dtype = v.dtype
        q, k, v = (in_order(wide(t), order) for t in (q, k, v))
        taps, out = wide(self.taps).to(v), torch.zeros_like(v)
        of_sequence = None
        if padding is not None or segments is not None:
            of_sequence = earlier_in_sequence(order, padding, segments, self.width)
        for s in range(self.width):
            of_key, value = (_later(t, s) for t in (k, v))
            weight = (q * of_key).sum(-1) * taps[:, self.width - 1 - s, None]
            if of_sequence is not None:
                weight = weight.masked_fill(~of_sequence[s][:, None], 0.0)
            out = out + weight[..., None] * value
        return in_order(out, order.argsort(1)).to(dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.heads}, width={self.width}"


def _later(
    t: Float[Tensor, "batch heads tokens d"], s: int
) -> Float[Tensor, "batch heads tokens d"]:
    """Return the tokens s places later, after zeros."""
    return functional.pad(t, (0, 0, s, 0))[:, :, : t.shape[2]]
