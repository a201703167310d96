"""States of recurrences, which go from the rank of a chunk to that of the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.parallel.chunks import Chunks
from posedu.torch.parallel.ranks import Ranks


def carried(
    ranks: Ranks, chunks: Chunks, encoding: Encoding, pieces: Sequence[Tokens]
) -> tuple[Float[Tensor, "batch heads queries d_v"], Mapping[str, Tensor]]:
    """Return the output of a recurrence for this rank's tokens, chunk after chunk.

    The second result are the states after this rank's last chunk.

    Each of ``pieces`` has the queries, keys and values of one of this rank's chunks.
    The states before a chunk come from the rank of the chunk before it, and gradients
    flow back to it.
    """
    outputs = []
    states: Mapping[str, Tensor] = {}
    for number, tokens in zip(chunks.held, pieces, strict=True):
        before, after = (chunks.owner(number + by) for by in (-1, 1))
        if before not in (None, ranks.rank):
            names: list[str] = []
            given = _Received.apply(ranks, before, names, *_sources(encoding, tokens))
            states = dict(zip(names, given, strict=True))
        out, states = encoding.carry(tokens, states)
        if after not in (None, ranks.rank):
            out = _Sent.apply(ranks, after, [*states], out, *states.values())
        outputs.append(out)
    return torch.cat(outputs, 2), states


def of_last_chunk(
    ranks: Ranks, owner: int, states: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the states after the whole text, on all ranks.

    ``states`` are those after this rank's last chunk; ``owner`` is the rank that has
    the last chunk of the text.
    """
    if ranks.rank != owner:
        (device,) = {t.device for t in states.values()}
        return ranks.receive(owner, device)
    for other in range(ranks.size):
        if other != owner:
            ranks.send(states, other)
    return dict(states)


def _sources(encoding: Encoding, tokens: Tokens) -> list[Tensor]:
    """Return what states depend on: a gradient that any of it needs is sent back."""
    given = tokens.q, tokens.grouped_k, tokens.grouped_v, tokens.x
    every = *given, *tokens.memory.values(), *encoding.parameters()
    return [t for t in every if t is not None]


class _Received(torch.autograd.Function):
    """States from another rank, which gets their gradients."""

    @staticmethod
    def forward(
        ctx: Any, ranks: Ranks, source: int, names: list[str], *sources: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the states, and append their names to ``names``.

        They are on the device of ``sources``, and need a gradient where one of these
        does.
        """
        received = ranks.receive(source, sources[0].device)
        ctx.ranks, ctx.source, ctx.names = ranks, source, [*received]
        ctx.sources = len(sources)
        names += received
        return tuple(received.values())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        """Send the gradients of the states to the rank that they came from."""
        ctx.ranks.send(dict(zip(ctx.names, gradients, strict=True)), ctx.source)
        return (None,) * (3 + ctx.sources)


class _Sent(torch.autograd.Function):
    """An output whose gradient asks another rank for those of the states sent to it."""

    @staticmethod
    def forward(
        ctx: Any,
        ranks: Ranks,
        target: int,
        names: list[str],
        out: Tensor,
        *states: Tensor,
    ) -> Tensor:
        """Send the states; return ``out``."""
        ctx.ranks, ctx.target, ctx.names = ranks, target, names
        ranks.send(dict(zip(names, states, strict=True)), target)
        return out.view_as(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        """Return the gradients of the states, which the other rank sends."""
        received = ctx.ranks.receive(ctx.target, gradient.device)
        return None, None, None, gradient, *(received[name] for name in ctx.names)
