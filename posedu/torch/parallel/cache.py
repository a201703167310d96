"""The part of a key-value cache that a rank keeps of a text that is cut over ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posedu.torch._cut import current_cut
from posedu.torch._tensors import Positions
from posedu.torch.cache import KVCache, token_slice
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.parallel.ring import Merged, attended_block, logits_of_block

_POSITIONS = "positions"  # in the memory: those of all tokens


class CutCache(KVCache):
    """Keys and values of a rank's tokens, and the per-token state of the whole text.

    The cache of a layer under :func:`posedu.torch.parallel.context_parallel`. The first
    call has a rank's own tokens, and the cache keeps their keys and values. Every later
    call has the same new tokens on all ranks; the rank t mod n of n keeps key and value
    of the token t of the text, so that what ranks keep differs by one token at most.

    ``places`` are the indices in the text of the tokens whose keys are here, ``len`` is
    the number of tokens of the text, and ``count`` the next default position.
    Positions and ``memory`` (what an encoding or a layer caches besides keys and
    values) are those of all tokens, on every rank. Keys cannot be moved.

    Parameters
    ----------
    capacity
        Tokens of this rank for which memory is reserved at the first call, as for
        :class:`~posedu.torch.cache.KVCache`.
    """

    def __init__(self, capacity: int | None = None) -> None:
        super().__init__(capacity)
        self.places: Int[Tensor, "_"] | None = None
        self.ranks: tuple[int, int] | None = None
        self.padding: Bool[Tensor, "batch all_tokens"] | None = None

    def __len__(self) -> int:
        """Return the number of tokens of the text whose keys some rank keeps."""
        return self.memory[_POSITIONS].shape[1] if _POSITIONS in self.memory else 0

    def appended(
        self,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        memory: Mapping[str, Tensor],
        encoding: Encoding,
    ) -> CutCache:
        """Return a new cache with the new tokens; leave this cache as is.

        The arguments are those of :meth:`posedu.torch.cache.KVCache.appended`.

        Raises
        ------
        ValueError
            As there; no cut in force, or one over other ranks than the cache is of.
        """
        cut = current_cut()
        if cut is None:
            raise ValueError(
                "the cache has the keys of one rank of a cut text: call the layer "
                "inside context_parallel"
            )
        given = cut.ranks.rank, cut.ranks.size
        if self.ranks not in (None, given):
            raise ValueError(
                "the cache has the keys of rank {} of {}, the cut that is in force "
                "is of rank {} of {}".format(*self.ranks, *given)
            )
        extended, places, new = CutCache(), self.places, k.shape[2]
        if places is not None:
            rank, ranks = given
            of_new = torch.arange(len(self), len(self) + new, device=k.device)
            kept = of_new % ranks == rank
            memory = {**memory, _POSITIONS: _of_batch(positions, k)}
            k, v, positions = k[:, :, kept], v[:, :, kept], positions[:, kept]
            places = torch.cat((places, of_new[kept]))
        extended.copy_from(super().appended(k, v, positions, memory, encoding))
        extended.places, extended.ranks = places, given
        extended.count = self.count + new
        return extended

    def settled(
        self, places: Tensor, positions: Tensor, memory: Mapping[str, Tensor]
    ) -> None:
        """Take the places of own tokens, and what all tokens have, after a first call.

        ``positions`` and ``memory`` are those of the whole text.
        """
        self.places, self.count = places, positions.shape[1]
        self.memory = {**memory, _POSITIONS: _of_batch(positions, self.entries[0])}

    def hide(
        self, window: int | None, padding: Bool[Tensor, "batch keys"] | None
    ) -> tuple[int | None, Bool[Tensor, "batch own_keys"] | None]:
        """Return the window, and the padding of the keys of this rank."""
        self.padding = padding
        if self.places is None or padding is None:
            return window, padding
        return window, padding[:, self.places]

    def part(self, encoding: Encoding, tokens: Tokens) -> Merged:
        """Return the attention of new queries over the keys of this rank.

        Per-token state in ``tokens`` is that of the whole text.
        """
        assert self.places is not None
        terms = None
        if encoding.uses("fold") and encoding.uses("remember"):
            k, v = zeros_for_keys(tokens, len(self))
            of_text = replace(
                tokens,
                grouped_k=k,
                grouped_v=v,
                query_positions=_of_batch(tokens.query_positions, k),
                key_positions=self.memory[_POSITIONS],
                padding=self.padding,
            )
            terms = encoding.fold(of_text)
        if terms is not None:
            of_query, of_key = terms
            terms = of_query, of_key[..., self.places]
        block = replace(tokens, causal=False, memory={}, consecutive=False)
        logits = logits_of_block(encoding, block, terms)
        mask = self._mask(tokens, self.places)
        return attended_block(logits.masked_fill(~mask, -torch.inf), block.grouped_v)

    def _mask(
        self, tokens: Tokens, places: Tensor
    ) -> Bool[Tensor, "batch_or_1 1 queries keys"]:
        new = tokens.q.shape[2]
        of_queries = torch.arange(len(self) - new, len(self), device=places.device)
        offset = of_queries[:, None] - places
        mask = torch.ones_like(offset, dtype=torch.bool)
        if tokens.causal:
            mask = mask & (offset >= 0)
        if tokens.window is not None:
            mask = mask & (offset < tokens.window)
        if tokens.padding is None:
            return mask[None, None]
        return mask & ~tokens.padding[:, None, None]

    def crop(self, start: int | None = None, stop: int | None = None) -> None:
        """Keep only the tokens ``start`` … ``stop`` − 1 of the text, on all ranks.

        All ranks must call this. Otherwise as :meth:`posedu.torch.cache.KVCache.crop`.
        """
        kept = token_slice(start, stop)
        if self.k is None or self.places is None:
            return
        first, last, _ = kept.indices(len(self))
        own = (self.places >= first) & (self.places < last)
        self.count -= len(self) - last
        k, v, positions = self.entries
        self.k, self.v = k[:, :, own], v[:, :, own]
        self.positions = positions[:, own]
        self.memory = {name: t[:, kept] for name, t in self.memory.items()}
        self.places = self.places[own] - first
        if self.count == 0:
            self.copy_from(CutCache(self.capacity))  # the next call is a first one

    def move(self, encoding: Encoding, shifts: float | Positions) -> NoReturn:
        """Raise ``ValueError``: each rank has some of the keys only."""
        raise ValueError(
            "keys that lie on several ranks cannot be moved: compute them anew"
        )

    def drop(self, encoding: Encoding, start: int, stop: int) -> NoReturn:
        """Raise ``ValueError``: later keys would have to be moved."""
        raise ValueError(
            "keys that lie on several ranks cannot be moved to close a gap: compute "
            "them anew"
        )


def zeros_for_keys(tokens: Tokens, count: int) -> tuple[Tensor, Tensor]:
    """Return zeros in place of ``count`` keys and values, which take no memory.

    For hooks that read positions and per-token state alone.
    """
    k, v = (
        t.new_zeros(()).expand(*t.shape[:2], count, t.shape[3])
        for t in (tokens.grouped_k, tokens.grouped_v)
    )
    return k, v


def _of_batch(positions: Tensor, k: Tensor) -> Tensor:
    """Return positions with a row for each text of the batch."""
    return positions.expand(len(k), *positions.shape[1:])
