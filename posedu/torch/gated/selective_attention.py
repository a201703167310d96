"""Selective attention: one head's queries lower the logits of keys from then on."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from posedu._arguments import require_bool
from posedu.torch.encoding import Encoding, Tokens


class SelectiveAttention(Encoding):
    """Selective attention (arXiv 2410.02703): tokens that are deselected fade.

    S_lj is the positive part of the first head's scaled product of query l and key j, 0
    for l = j and for keys that l may not attend to. F_ij, the sum of S_lj over the
    tokens l before query i, is subtracted from the logits of all heads. No parameters;
    positions are not used, except that ``spare_first`` spares the first token. Equation
    ``def-selective-attention``.

    Attention takes O(L²) memory for L tokens. A cache holds one number of each key, the
    sum of what was deselected so far, and a step with one token takes O(L d).

    Where :meth:`~posedu.torch.cache.KVCache.crop` or
    :meth:`~posedu.torch.cache.KVCache.drop` removes tokens, the sums keep what these
    tokens deselected, and the first of the tokens that are left counts as the first.

    Parameters
    ----------
    include_current
        Whether the selections of query i itself count for query i. The paper and
        x-transformers: no, they count from the next query on.
    spare_first
        Whether the first token of a text cannot be deselected (the paper, and the
        default of x-transformers).

    Raises
    ------
    TypeError
        Options that are not true or false.
    """

    needs_causal = True
    needs_positions = False
    needs_own_key_last = True
    accumulated = ("deselected",)
    mixes_heads = True

    def __init__(self, *, include_current: bool, spare_first: bool):
        super().__init__()
        self.include_current = require_bool("include_current", include_current)
        self.spare_first = require_bool("spare_first", spare_first)

    def selections(self, tokens: Tokens) -> Float[Tensor, "batch queries keys"]:
        """Return S_lj of every new token l and key j, in float32 or wider.

        Equation ``def-selections``.
        """
        q, k = tokens.q[:, 0], tokens.grouped_k[:, 0]
        wide = torch.promote_types(q.dtype, torch.float32)
        logits = q.to(wide) @ k.to(wide).mT * self.scale(tokens.d)
        queries, keys = logits.shape[1:]
        own = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
        own = own.tril(keys - queries).triu(keys - queries)
        counts = tokens.mask[:, 0] & ~own
        if tokens.padding is not None:
            counts = counts & ~tokens.padding[:, keys - queries :, None]
        if self.spare_first:
            counts = counts & ~_is_first(tokens)[:, None]
        return logits.relu().masked_fill(~counts, 0.0)

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch 1 queries keys"]:
        """Return −F_ij for every query i and key j, the same for all heads."""
        sums = self.selections(tokens).cumsum(1)
        if not self.include_current:
            sums = functional.pad(sums, (0, 0, 1, 0))[:, : tokens.q.shape[2]]
        return -(tokens.memory["deselected"][:, None] + sums)[:, None]

    def accumulate(self, tokens: Tokens) -> Mapping[str, Float[Tensor, "batch keys"]]:
        """Return the sum of what has been deselected of each key, to cache."""
        before = tokens.memory["deselected"]
        return {"deselected": before + self.selections(tokens).sum(1)}

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"include_current={self.include_current}, spare_first={self.spare_first}"


def _is_first(tokens: Tokens) -> Bool[Tensor, "rows keys"]:
    """Return whether each token is the first of its text, which padding is not.

    Each segment (packed sequence) is a text.
    """
    if tokens.segments is not None:
        every = slice(0, tokens.keys)
        limits = tokens.limits._replace(window=None)
        device = tokens.q.device
        seen = limits.allowed(every, every, tokens.keys, tokens.keys, device)
        return seen[:, 0].sum(-1) == 1
    shape = len(tokens.q), tokens.keys
    is_token = torch.ones(shape, dtype=torch.bool, device=tokens.q.device)
    if tokens.padding is not None:
        is_token = ~tokens.padding
    return is_token & (is_token.cumsum(-1) == 1)
