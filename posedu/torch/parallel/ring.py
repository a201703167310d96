"""Ring attention: keys and values travel from rank to rank, and outputs are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from posedu.torch._autograd import without_autocast
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.parallel.chunks import Chunks
from posedu.torch.parallel.ranks import Ranks
from posedu.torch.tiled_attention import by_group

SERVED = frozenset(
    {
        *("rotate", "values", "scale", "fold", "bias", "output"),
        *("locate", "embed", "enter", "remember"),
        *("move_keys", "by_distance", "score_mod"),
    }
)
"""Hooks of encodings whose parts can be merged: the logit is a product plus a bias."""


def require_parts(encoding: Encoding, instead: str) -> None:
    """Raise ``ValueError`` unless attention over parts of the keys can be merged.

    It can where the logit of a pair is the scaled product of its query and key, plus a
    bias that follows from the pair alone or is a term of each. ``instead`` says in the
    error message what to do.
    """
    others = sorted(encoding.hooks - SERVED)
    if encoding.uses("bias") and encoding.uses("remember"):
        others.append("remember")
    if others:
        raise ValueError(
            f"{type(encoding).__name__} uses the hook {others[0]!r}, which needs all "
            f"keys of a query at once: {instead}"
        )


class Merged(NamedTuple):
    """Attention over a part of the keys: the output and the log-sum-exp of the logits.

    Two parts merge to one over the keys of both (``eq-merge``). Without a key the
    output is 0 and the log-sum-exp −∞.
    """

    out: Float[Tensor, "batch heads queries d_v"]
    lse: Float[Tensor, "batch heads queries"]

    def merge(self, other: Merged) -> Merged:
        """Return the attention over the keys of both parts."""
        lse = torch.logaddexp(self.lse, other.lse)
        safe = lse.masked_fill(lse == -torch.inf, 0.0)
        own, others = (
            part.out * torch.exp(part.lse - safe)[..., None] for part in (self, other)
        )
        return Merged(own + others, lse)


@dataclass(frozen=True)
class Ring:
    """The ring of a rank: all that it needs besides queries, keys and values.

    ``tokens`` are this rank's; positions, padding and segments are those of the whole
    text. ``folds`` is true if the bias has the form that the hook ``fold`` gives: the
    ``terms`` are then a query and a key term for each of this rank's chunks. Else they
    are the layer's input of each chunk, if the encoding needs it.
    """

    ranks: Ranks
    chunks: Chunks
    encoding: Encoding
    tokens: Tokens
    positions: Tensor
    padding: Bool[Tensor, "batch all_tokens"] | None
    segments: Tensor | None
    folds: bool

    @property
    def size(self) -> int:
        """Tokens of a chunk."""
        return self.tokens.q.shape[2] // len(self.chunks.held)

    def visits(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield for each step the blocks to compute: which chunk meets which.

        A block is (step, place of the query chunk in this rank, place of the key chunk
        in its rank, number of the key chunk). Blocks whose keys are all later or
        all too far are left out.
        """
        n, tokens = self.ranks.size, self.tokens
        for step in range(n):
            source = self.chunks.of_rank((self.ranks.rank - step) % n)
            for i, own in enumerate(self.chunks.held):
                for j, other in enumerate(source):
                    is_later = tokens.causal and other > own
                    nearest = (own - other - 1) * self.size + 1
                    is_far = tokens.window is not None and nearest >= tokens.window
                    if not (is_later or is_far):
                        yield step, i, j, other

    def logits(
        self,
        i: int,
        other: int,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        terms: Sequence[Tensor],
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the masked logits of a query chunk for a key chunk.

        ``i`` is the place of the query chunk in this rank, ``other`` the number of the
        key chunk; ``q``, ``k`` and ``v`` are their tensors, ``terms`` the terms of the
        bias of all chunks.
        """
        tokens, size = self.tokens, self.size
        keys = slice(other * size, (other + 1) * size)
        block = Tokens(
            q=q,
            grouped_k=k,
            grouped_v=v,
            d=tokens.d,
            query_positions=tokens.query_positions[:, i * size : (i + 1) * size],
            key_positions=self.positions[:, keys],
            causal=False,
            x=terms[i] if terms and not self.folds else None,
        )
        of_block = None
        if self.folds:
            of_query, of_key = terms[2 * i : 2 * i + 2]
            of_block = of_query, of_key[..., keys]
        logits = logits_of_block(self.encoding, block, of_block)
        mask = self._mask(self.chunks.held[i], other, q.device)
        return logits if mask is None else logits.masked_fill(~mask, -torch.inf)

    def _mask(self, own: int, other: int, device: Any) -> Tensor | None:
        tokens, size = self.tokens, self.size
        keys, queries = (slice(c * size, (c + 1) * size) for c in (other, own))
        place = torch.arange(size, device=device)
        offset = (own - other) * size + place[:, None] - place
        masks = []
        if tokens.causal and own == other:
            masks.append((offset >= 0)[None, None])
        if tokens.window is not None:
            masks.append((offset < tokens.window)[None, None])
        if self.padding is not None:
            masks.append(~self.padding[:, None, None, keys])
        if self.segments is not None:
            of_queries = self.segments[:, None, queries, None]
            masks.append(of_queries == self.segments[:, None, None, keys])
        if not masks:
            return None
        mask = masks[0]
        for further in masks[1:]:
            mask = mask & further
        return mask

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, terms: Sequence[Tensor]
    ) -> Merged:
        """Return the output of this rank's queries over the keys of all ranks."""
        parts = self._empty(q, v)
        queries, done = self._split(q), 0
        travelling: tuple[Tensor, ...] = (k, v)
        for step, i, j, other in self.visits():
            while done < step:
                travelling, done = self.ranks.shift(travelling), done + 1
            keys, values = (self._split(t)[j] for t in travelling)
            logits = self.logits(i, other, queries[i], keys, values, terms)
            parts[i] = parts[i].merge(attended_block(logits, values))
        while done < self.ranks.size - 1:
            travelling, done = self.ranks.shift(travelling), done + 1
        return Merged(*(torch.cat(t, 2) for t in zip(*parts, strict=True)))

    def gradients(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        merged: Merged,
        grad: Tensor,
        terms: Sequence[Tensor],
        parameters: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor], list[Tensor]]:
        """Return the gradients of q, k, v, of the terms and of the parameters.

        Keys and values travel once more, with the sums of their gradients, which arrive
        at home after the last step.
        """
        own = [p for p in self.encoding.parameters() if p.requires_grad]
        if [p.data_ptr() for p in own] != [p.data_ptr() for p in parameters]:
            raise RuntimeError(
                f"the parameters of {type(self.encoding).__name__} are not those of "
                "the forward pass (torch.func.functional_call?): give form='all-gather'"
            )
        wide = merged.lse.dtype
        of_q = torch.zeros_like(q, dtype=wide)
        of_terms, of_parameters = (
            [torch.zeros_like(t) for t in group] for group in (terms, parameters)
        )
        sums = (torch.zeros_like(t, dtype=wide) for t in (k, v))
        travelling: tuple[Tensor, ...] = (k, v, *sums)
        done = 0
        queries, lses, grads = (
            self._split(t) for t in (q, merged.lse[..., None], grad.to(wide))
        )
        inner = self._split((grad.to(wide) * merged.out).sum(-1, keepdim=True))
        for step, i, j, other in self.visits():
            while done < step:
                travelling, done = self.ranks.shift(travelling), done + 1
            keys, values, of_k, of_v = (self._split(t)[j] for t in travelling)
            inputs = [
                t.detach().requires_grad_(t.is_floating_point())
                for t in (queries[i], keys, *terms)
            ]
            with torch.enable_grad():
                own_q, own_k, *own_terms = inputs
                logits = self.logits(i, other, own_q, own_k, values, own_terms)
            lse = lses[i].masked_fill(lses[i] == -torch.inf, 0.0)
            weights = torch.exp(logits.detach().to(wide) - lse)
            of_v += _by_key_head(weights.mT @ grads[i], values)
            of_weights = by_group(grads[i], values.mT.to(wide))
            of_logits = weights * (of_weights - inner[i])
            given = torch.autograd.grad(
                logits,
                (own_q, own_k, *own_terms, *parameters),
                of_logits.to(logits.dtype),
                allow_unused=True,
            )
            self._split(of_q)[i].add_(given[0])
            of_k += given[1]
            for total, new in zip((*of_terms, *of_parameters), given[2:], strict=True):
                if new is not None:
                    total += new
        while done < self.ranks.size:
            travelling, done = self.ranks.shift(travelling), done + 1
        of_k, of_v = travelling[2:]
        return of_q.to(q), of_k.to(k), of_v.to(v), of_terms, of_parameters

    def _split(self, t: Tensor) -> tuple[Tensor, ...]:
        return t.tensor_split(len(self.chunks.held), 2)

    def _empty(self, q: Tensor, v: Tensor) -> list[Merged]:
        wide = torch.promote_types(q.dtype, torch.float32)
        shape = *q.shape[:2], self.size
        return [
            Merged(
                q.new_zeros(*shape, v.shape[3], dtype=wide),
                q.new_full(shape, -torch.inf, dtype=wide),
            )
            for _ in self.chunks.held
        ]


def logits_of_block(
    encoding: Encoding, block: Tokens, terms: tuple[Tensor, Tensor] | None
) -> Float[Tensor, "batch heads queries keys"]:
    """Return the logits of a block of queries and keys, not masked.

    ``terms`` are the query and the key term of the bias, ``None`` where the encoding
    gives the logits itself.
    """
    if terms is None:
        return encoding.logits(block)
    products = by_group(block.q, block.grouped_k.mT) * encoding.scale(block.d)
    of_query, of_key = terms
    bias = of_query[..., :, None] + of_key[..., None, :]
    return products + bias.to(torch.promote_types(block.q.dtype, torch.float32))


def attended_block(logits: Tensor, v: Tensor) -> Merged:
    """Return the softmax attention over the keys of a block."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    lse = logits.logsumexp(-1)
    safe = lse.masked_fill(lse == -torch.inf, 0.0)
    weights = torch.exp(logits - safe[..., None])
    return Merged(by_group(weights, v.to(weights.dtype)), lse)


def _by_key_head(of_heads: Tensor, grouped: Tensor) -> Tensor:
    """Return the sums over the query heads of each group."""
    group = of_heads.shape[1] // grouped.shape[1]
    return of_heads.unflatten(1, (-1, group)).sum(2)


class RingAttention(torch.autograd.Function):
    """Ring attention with a backward ring, which keeps no other rank's keys."""

    @staticmethod
    def forward(
        ctx: Any,
        ring: Ring,
        count: int,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *others: Tensor,
    ) -> Tensor:
        """Return the output; ``others`` are ``count`` terms, then parameters."""
        merged = ring.attend(q, k, v, others[:count])
        ctx.ring, ctx.count = ring, count
        ctx.save_for_backward(q, k, v, *merged, *others)
        return merged.out.to(v.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """Return the gradients, for keys and values by a second ring."""
        q, k, v, out, lse, *others = ctx.saved_tensors
        terms, parameters = others[: ctx.count], others[ctx.count :]
        with without_autocast(q):
            of_q, of_k, of_v, of_terms, of_parameters = ctx.ring.gradients(
                q, k, v, Merged(out, lse), grad, terms, parameters
            )
        return None, None, of_q, of_k, of_v, *of_terms, *of_parameters
