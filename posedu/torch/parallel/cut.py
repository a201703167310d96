"""A text that is cut over ranks: which tokens each has, and how they meet the others.

Under :func:`context_parallel` layers and models run on a rank's own tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.types import Device

from posedu._arguments import require_choice
from posedu.torch._cut import in_force
from posedu.torch.attention import Attention, Steps, attended
from posedu.torch.cache import KVCache
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.parallel.cache import CutCache, zeros_for_keys
from posedu.torch.parallel.chunks import Chunks, Order
from posedu.torch.parallel.gather import gathered, require_agreement
from posedu.torch.parallel.ranks import Processes, Ranks, ranks_of
from posedu.torch.parallel.ring import Merged, Ring, RingAttention, require_parts
from posedu.torch.parallel.states import carried, of_last_chunk
from posedu.torch.routes import Route
from posedu.torch.shared import Shared
from posedu.torch.state_cache import StateCache

Form = Literal["all-gather", "ring"]
FORMS: tuple[Form, ...] = get_args(Form)


class TextCut:
    """A text in equal chunks, of which each rank has one or two.

    Parameters
    ----------
    ranks
        The ranks that share the text.
    order
        Which chunks a rank has: see :class:`Chunks`.
    form
        How keys reach queries: see :func:`context_parallel`.

    Raises
    ------
    ValueError
        An unknown ``order`` or ``form``.
    """

    def __init__(self, ranks: Ranks, *, order: Order, form: Form):
        self.ranks = ranks
        order = require_choice("order", order, Order)
        self.chunks = Chunks(order, ranks.size, ranks.rank)
        self.form = require_choice("form", form, Form)

    def places(self, tokens: int, device: Device = None) -> Int[Tensor, "_"]:
        """Return the indices in the whole text of this rank's ``tokens``."""
        size = self._size(tokens)
        within = torch.arange(size, device=device)
        return torch.cat([number * size + within for number in self.chunks.held])

    def own(self, t: Shaped[Tensor, "..."], axis: int) -> Shaped[Tensor, "..."]:
        """Return this rank's tokens of a tensor of all tokens along an axis.

        Raises
        ------
        ValueError
            Tokens that do not divide into chunks of one size.
        """
        if t.shape[axis] % self.chunks.count:
            raise ValueError(
                f"a text in {self.chunks.count} chunks must have a multiple of "
                f"{self.chunks.count} tokens, got {t.shape[axis]}: pad it"
            )
        return self.chunks.separated(t, axis)[self.ranks.rank]

    def whole(self, t: Shaped[Tensor, "..."], axis: int) -> Shaped[Tensor, "..."]:
        """Return the tensor of all tokens along an axis, of this rank's ``t``.

        Gradients flow back to the rank that has the token. All ranks must call this.

        Raises
        ------
        ValueError
            Ranks that differ in the shape or dtype of ``t``, or in the order; tokens
            that are no equal chunks.
        """
        self._size(t.shape[axis])
        return gathered(self.ranks, self.chunks, (t,), (axis,), "a tensor")[0]

    def agreed(self, t: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """Return the tensor ``t`` of the rank that has the last token, on all ranks.

        No gradient flows through it.
        """
        return self.ranks.gather(t)[self._last]

    @property
    def _last(self) -> int:
        """The rank that has the last token of the text."""
        owner = self.chunks.owner(self.chunks.count - 1)
        assert owner is not None
        return owner

    def cache(self, capacity: int | None = None) -> CutCache:
        """Return an empty cache, for ``capacity`` tokens of this rank."""
        return CutCache(capacity)

    def require_cache(self, cache: KVCache) -> None:
        """Raise ``ValueError`` unless a layer whose text is cut can use the cache."""
        if not isinstance(cache, CutCache | StateCache):
            raise ValueError(
                "a layer whose text is cut over ranks needs a CutCache, or a "
                f"StateCache for a recurrence, got a {type(cache).__name__}: make it "
                "by the model's caches() inside context_parallel"
            )

    def projected(
        self,
        layer: Attention,
        x: Float[Tensor, "batch tokens d_model"],
        padding: Bool[Tensor, "batch tokens"] | None,
        segments: Int[Tensor, "batch tokens"] | None,
        cache: KVCache | None,
        shared: Shared,
    ) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        """Return a layer's queries, keys and values of this rank's tokens.

        A layer that mixes neighboring tokens gets those before each chunk. The fourth
        result is what ``cache`` is to keep besides: without a cache, nothing.
        """
        size = self._size(x.shape[1])
        masks = [self._whole_once(t, shared) for t in (padding, segments)]
        earlier: dict[str, tuple[Tensor, ...]] = {}
        projected = []
        for number, part in zip(self.chunks.held, self._split(x, 1), strict=True):
            of_padding, of_segments = (
                None if t is None else t[:, : (number + 1) * size] for t in masks
            )
            before = _Before(self.ranks, number, earlier)
            projected.append(layer.project(part, of_padding, of_segments, before))
        of_q, of_k, of_v, states = zip(*projected, strict=True)
        memory: Mapping[str, Tensor] = {}
        if isinstance(cache, StateCache):
            every = {name: torch.cat(parts, 1) for name, parts in earlier.items()}
            memory = layer.history(every, masks[0])
        elif cache is not None:
            memory = {
                name: torch.cat([of_part[name] for of_part in states], 1)
                for name in states[0]
            }
        return torch.cat(of_q, 2), torch.cat(of_k, 2), torch.cat(of_v, 2), memory

    def attend(
        self,
        encoding: Encoding,
        tokens: Tokens,
        route: Route,
        cache: KVCache | None = None,
    ) -> Steps:
        """Return the output of this rank's queries over the keys of the whole text.

        ``tokens`` are this rank's queries, keys and values, and ``route`` is the code
        path where keys are gathered. ``cache``, which has them already, gets what else
        it keeps. If it had tokens before, the queries are those of all ranks.
        """
        if cache is None:
            return self._attend(encoding, tokens, route)
        if any(t.requires_grad for t in (tokens.q, tokens.grouped_k, tokens.grouped_v)):
            raise ValueError(
                "no gradient flows through the caches of a cut text: call the layer "
                "under torch.no_grad()"
            )
        if isinstance(cache, StateCache):
            out, states = self._by_states(encoding, tokens)
            cache.settled(of_last_chunk(self.ranks, self._last, states))
            cache.count = cache.seen = cache.count * self.ranks.size
            return Steps(out, tokens, None)
        assert isinstance(cache, CutCache)
        carries = encoding.uses("carry")
        require_parts(
            encoding,
            "give its layer a StateCache, and no window"
            if carries
            else "decode on one device",
        )
        if cache.places is not None:
            return Steps(self._merged(encoding, tokens, cache), tokens, None)
        tokens = replace(tokens, key_positions=tokens.query_positions)  # gathered once
        steps = self._attend(encoding, tokens, route)
        positions = self._whole_once(tokens.query_positions, tokens.shared)
        memory = self._memory(tokens)
        places = self.places(tokens.keys, tokens.q.device)
        cache.settled(places, positions, memory)
        return steps

    def _merged(self, encoding: Encoding, tokens: Tokens, cache: CutCache) -> Tensor:
        """Return the output of queries that all ranks have over the keys of all."""
        what = f"decoding with {len(cache)} tokens, queries"
        tokens.shared.once(
            lambda: require_agreement(self.ranks, what, (tokens.q,)), "agreement"
        )
        own = cache.part(encoding, tokens)
        parts = self.ranks.gather(torch.cat((own.out, own.lse[..., None]), -1))
        merged = reduce(Merged.merge, (Merged(t[..., :-1], t[..., -1]) for t in parts))
        return merged.out.to(tokens.grouped_v.dtype)

    def _attend(self, encoding: Encoding, tokens: Tokens, route: Route) -> Steps:
        if self.form == "ring":
            return Steps(self._by_ring(encoding, tokens), tokens, None)
        names = [name for name in tokens.memory if name not in encoding.accumulated]
        k, v, *memory = gathered(
            self.ranks,
            self.chunks,
            (tokens.grouped_k, tokens.grouped_v, *(tokens.memory[n] for n in names)),
            (2, 2, *(1 for _ in names)),
            f"keys of {type(encoding).__name__}",
        )
        pieces = self._pieces(tokens, k, v, dict(zip(names, memory, strict=True)))
        if encoding.accumulated:
            pieces = self._accumulated(encoding, pieces)
        parts = tuple(attended(encoding, piece, route) for piece in pieces)
        return Steps(torch.cat([part.out for part in parts], 2), tokens, None, parts)

    def _by_ring(self, encoding: Encoding, tokens: Tokens) -> Tensor:
        if encoding.uses("carry"):
            return self._by_states(encoding, tokens)[0]
        self._require_agreement(encoding, tokens)
        require_parts(encoding, "give form='all-gather'")
        shared = tokens.shared
        padding, segments = (
            self._whole_once(t, shared) for t in (tokens.padding, tokens.segments)
        )
        terms: list[Tensor] = []
        if encoding.uses("fold") and not encoding.uses("bias"):
            terms = self._terms(encoding, tokens)
        folds = bool(terms)
        if tokens.x is not None and encoding.needs_x and not folds:
            terms = [*self._split(tokens.x, 1)]
        ring = Ring(
            self.ranks,
            self.chunks,
            encoding,
            tokens,
            positions=self._whole_once(tokens.key_positions, shared),
            padding=padding,
            segments=segments,
            folds=folds,
        )
        parameters = [p for p in encoding.parameters() if p.requires_grad]
        given = tokens.q, tokens.grouped_k, tokens.grouped_v
        return RingAttention.apply(ring, len(terms), *given, *terms, *parameters)

    def _require_agreement(self, encoding: Encoding, tokens: Tokens) -> None:
        require_agreement(
            self.ranks,
            f"ring, {self.chunks.order}, keys of {type(encoding).__name__}",
            (tokens.grouped_k, tokens.grouped_v),
        )

    def _by_states(
        self, encoding: Encoding, tokens: Tokens
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return the output of a recurrence, whose states go from chunk to chunk.

        The second result are the states after this rank's last chunk.
        """
        self._require_agreement(encoding, tokens)
        if tokens.window is not None or tokens.segments is not None:
            given = "a window" if tokens.segments is None else "segments"
            raise ValueError(
                f"the states of {type(encoding).__name__} cannot be passed on under "
                f"{given}: give form='all-gather'"
            )
        pieces = [
            replace(
                tokens,
                q=q,
                grouped_k=k,
                grouped_v=v,
                query_positions=positions,
                key_positions=positions,
                x=None if tokens.x is None else self._split(tokens.x, 1)[i],
                padding=(
                    None
                    if tokens.padding is None
                    else self._split(tokens.padding, 1)[i]
                ),
                memory={n: self._split(t, 1)[i] for n, t in tokens.memory.items()},
            )
            for i, (q, k, v, positions) in enumerate(
                zip(
                    *(
                        self._split(t, 2)
                        for t in (tokens.q, tokens.grouped_k, tokens.grouped_v)
                    ),
                    self._split(tokens.query_positions, 1),
                    strict=True,
                )
            )
        ]
        return carried(self.ranks, self.chunks, encoding, pieces)

    def _terms(self, encoding: Encoding, tokens: Tokens) -> list[Tensor]:
        """Return the query terms and the key terms of the bias of each chunk.

        They need what each token remembers, and neither keys nor values.
        """
        memory = self._memory(tokens)
        count = self.chunks.count * self._size(tokens.q.shape[2])
        k, v = zeros_for_keys(tokens, count)
        terms: list[Tensor] = []
        for piece in self._pieces(tokens, k, v, memory):
            summands = encoding.fold(piece)
            if summands is None:
                return []
            of_query, of_key = summands
            terms += of_query, functional.pad(of_key, (0, count - of_key.shape[-1]))
        return terms

    def _memory(self, tokens: Tokens) -> dict[str, Tensor]:
        """Return the per-token state of the whole text."""
        return {
            name: gathered(self.ranks, self.chunks, (t,), (1,), name)[0]
            for name, t in tokens.memory.items()
        }

    def _pieces(
        self, tokens: Tokens, k: Tensor, v: Tensor, memory: dict[str, Tensor]
    ) -> list[Tokens]:
        """Return the queries of each of this rank's chunks, with the keys they may see.

        ``tokens`` are this rank's, ``k``, ``v`` and ``memory`` those of the whole text.
        """
        shared, size = tokens.shared, self._size(tokens.q.shape[2])
        of_text = [
            self._whole_once(t, shared)
            for t in (tokens.key_positions, tokens.padding, tokens.segments)
        ]
        positions = shared.once(
            lambda: self._split(tokens.query_positions, 1),
            *("chunks", tokens.query_positions),
        )
        x = [None] if tokens.x is None else self._split(tokens.x, 1)
        q = self._split(tokens.q, 2)

        def visible(t: Any, axis: int, number: int) -> Any:
            """Return the tokens that a chunk may see, its own last."""
            if t is None:
                return None
            stop = (number + 1) * size
            return t.narrow(axis, 0, stop) if tokens.causal else t.roll(-stop, axis)

        pieces = []
        for i, number in enumerate(self.chunks.held):
            key_positions, padding, segments = (visible(t, 1, number) for t in of_text)
            pieces.append(
                replace(
                    tokens,
                    q=q[i],
                    grouped_k=visible(k, 2, number),
                    grouped_v=visible(v, 2, number),
                    query_positions=positions[i],
                    key_positions=key_positions,
                    x=x[i % len(x)],
                    memory={name: visible(t, 1, number) for name, t in memory.items()},
                    padding=padding,
                    segments=segments,
                    consecutive=tokens.consecutive and tokens.causal,
                )
            )
        return pieces

    def _accumulated(self, encoding: Encoding, pieces: list[Tokens]) -> list[Tokens]:
        """Return the pieces with the state that the queries before them add to keys."""
        count = self.chunks.count * pieces[0].q.shape[2]
        added = []
        for piece in pieces:
            wide = torch.promote_types(piece.q.dtype, torch.float32)
            none = piece.q.new_zeros(len(piece.q), piece.keys, dtype=wide)
            memory = {**piece.memory, **dict.fromkeys(encoding.accumulated, none)}
            added.append(encoding.accumulate(replace(piece, memory=memory)))
        before = {}
        for name in encoding.accumulated:
            parts = [
                functional.pad(of_piece[name], (0, count - of_piece[name].shape[1]))
                for of_piece in added
            ]
            of_chunks = self.whole(torch.stack(parts, 1), 1)
            before[name] = of_chunks.cumsum(1) - of_chunks
        return [
            replace(
                piece,
                memory={
                    **piece.memory,
                    **{n: t[:, number, : piece.keys] for n, t in before.items()},
                },
            )
            for number, piece in zip(self.chunks.held, pieces, strict=True)
        ]

    def _size(self, tokens: int) -> int:
        """Return the tokens of a chunk, of this rank's ``tokens``."""
        held = len(self.chunks.held)
        if tokens % held:
            raise ValueError(f"a rank has {held} equal chunks, got {tokens} tokens")
        return tokens // held

    def _split(self, t: Tensor, axis: int) -> tuple[Tensor, ...]:
        return t.tensor_split(len(self.chunks.held), axis)

    def _whole_once(self, t: Tensor | None, shared: Shared) -> Any:
        """Return the tensor of all tokens, gathered once for all layers of a model."""
        if t is None:
            return None
        return shared.once(lambda: self.whole(t, 1), "whole", t)


class _Before(KVCache):
    """The tokens before a chunk, for a layer that mixes neighboring tokens.

    ``earlier`` has the tokens of the chunks of the first step, by name: empty in that
    step, which fills it, and read in the second one.
    """

    def __init__(
        self, ranks: Ranks, number: int, earlier: dict[str, tuple[Tensor, ...]]
    ):
        super().__init__()
        self._ranks, self._number, self._earlier = ranks, number, earlier

    def extended(
        self,
        name: str,
        new: Shaped[Tensor, "batch tokens *features"],
        newest: int | None = None,
    ) -> Shaped[Tensor, "batch keys *features"]:
        """Return this chunk's tokens after those before it, or their ``newest``."""
        kept = new if newest is None else new[:, max(0, new.shape[1] - newest) :]
        earlier, ranks = self._earlier.get(name, ()), self._ranks
        step = Chunks("backward" if earlier else "contiguous", ranks.size, ranks.rank)
        (of_step,) = gathered(ranks, step, (kept,), (1,), name)
        every = (*earlier, *of_step.tensor_split(ranks.size, 1))
        self._earlier[name] = every
        none = of_step[:, :0]  # so that every rank's gradient asks what was gathered
        before = torch.cat((none, *every[: self._number]), 1)
        if newest is not None:
            before = before[:, max(0, before.shape[1] - newest) :]
        return torch.cat((before, new), 1)


@contextmanager
def context_parallel(
    group: dist.ProcessGroup | DeviceMesh | Ranks | None = None,
    *,
    order: Order = "zigzag",
    form: Form = "all-gather",
) -> Iterator[TextCut]:
    """Cut texts over ranks: layers and models called inside take a rank's own tokens.

    Attention, models and encodings run as they are, forward and backward; positions
    that are not given are those in the whole text. All ranks must call the same layers
    in the same order, with equal parameters, and all must call ``backward``, inside the
    context: ``torch.utils.checkpoint`` computes layers again there. The gradients that
    a rank gets are those of the sum of all ranks' losses, for its tokens; those of
    parameters are its share (:func:`sum_gradients`). So divide a rank's sum of losses
    by the tokens of the whole text. Gradients of gradients are refused. Compiled
    functions run uncompiled inside, since a compiler does not see the cut.

    With caches (:class:`CutCache`; a model's ``caches()`` makes them inside), the first
    call has a rank's own tokens, and each later call the same new tokens on all ranks.
    A rank then attends to the keys that it keeps, and outputs are merged (``eq-merge``)
    for encodings that a ring can serve. So a rank sends a few numbers of each head for
    a token, whatever the length of the text. A mask of padding then has an entry for
    each token of the text. A recurrence has a
    :class:`~posedu.torch.state_cache.StateCache`: in the first call the states go from
    chunk to chunk, in either form, and all ranks get the last ones; later calls
    exchange nothing. No gradient flows through caches.

    Parameters
    ----------
    group
        A process group, a device mesh of one axis, or :class:`Ranks`. Default: all
        processes.
    order
        Which chunks a rank has: see :class:`Chunks`. Default ``"zigzag"``.
    form
        ``"all-gather"`` (default): keys, values and what an encoding remembers of each
        token are gathered on every rank, and a rank's queries meet those up to their
        own chunk's end; every encoding can be served. ``"ring"``: keys and values
        travel from rank to rank, and outputs are merged (``eq-merge``); an encoding may
        change queries, keys and values and add a bias. A rank holds keys and values of
        one other rank at a time, the logits of one block, and of all tokens only
        positions, masks and what the encoding remembers. The states of a recurrence go
        from chunk to chunk.

    Yields
    ------
    TextCut
        The cut, whose methods ``own`` and ``whole`` cut tensors and join them.

    Raises
    ------
    ValueError
        An unknown ``order`` or ``form``; inside, an encoding that a ring, or a cache,
        cannot serve, other caches, and ranks that are about to exchange different
        shapes or dtypes.
    RuntimeError
        No process group.
    """
    ranks = ranks_of(group)
    cut = TextCut(ranks, order=order, form=form)
    with ranks.uncompiled(), in_force(cut, in_all_threads=isinstance(ranks, Processes)):
        yield cut


def sum_gradients(module: nn.Module, ranks: Ranks) -> None:
    """Add up the gradients of a module's parameters over the ranks, on all of them.

    A parameter without a gradient on this rank must have none on all others. Of a
    ``DTensor``, this rank's part is added to the same part of the other ranks.
    """
    for parameter in module.parameters():
        gradient = parameter.grad
        if gradient is None:
            continue
        if isinstance(gradient, DTensor):
            part = torch.stack(ranks.gather(gradient.to_local())).sum(0)
            mesh, placements = gradient.device_mesh, gradient.placements
            parameter.grad = DTensor.from_local(part, mesh, placements)
        else:
            parameter.grad = torch.stack(ranks.gather(gradient)).sum(0)
