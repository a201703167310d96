"""Tensors of all ranks, gathered so that gradients flow back to the ranks."""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from posedu.torch.parallel.chunks import Chunks
from posedu.torch.parallel.ranks import Ranks

_HANDSHAKE = 256  # bytes with which a rank describes what it is about to exchange


def require_agreement(ranks: Ranks, what: str, tensors: tuple[Tensor, ...]) -> None:
    """Raise unless all ranks are about to exchange the same.

    ``what`` says what ``tensors`` are. Without this, some backends mix up tensors of
    different sizes or dtypes in silence.

    Raises
    ------
    ValueError
        Ranks that differ in ``what``, or in shapes or dtypes; the message names each.
    """
    kinds = ", ".join(f"{list(t.shape)} {t.dtype}" for t in tensors)
    description = f"{what}: {kinds}".encode()
    code = zlib.crc32(description).to_bytes(8, "big")
    own = torch.tensor(
        [*description[: _HANDSHAKE - 8].ljust(_HANDSHAKE - 8), *code], dtype=torch.uint8
    )
    of_ranks = [bytes(t.tolist()) for t in ranks.gather(own.to(tensors[0].device))]
    if len(set(of_ranks)) > 1:
        texts = (t[:-8].decode(errors="replace").rstrip() for t in of_ranks)
        every = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
        raise ValueError(f"all ranks must exchange the same, got {every}")


def gathered(
    ranks: Ranks,
    chunks: Chunks,
    tensors: tuple[Tensor, ...],
    axes: tuple[int, ...],
    what: str,
) -> tuple[Tensor, ...]:
    """Return the tensors of all tokens, of which each rank has those of its chunks.

    ``axes`` are the token axes of ``tensors``, and ``what`` says what they are, for
    error messages. Gradients are summed over ranks, and flow back to the rank that has
    the token: every rank's loss must depend on what is gathered.

    Raises
    ------
    ValueError
        As :func:`require_agreement`.
    """
    require_agreement(ranks, f"{chunks.order}, {what}", tensors)
    return _Gathered.apply(ranks, chunks, axes, *tensors)


class _Gathered(torch.autograd.Function):
    """Gather tensors of all ranks; send gradients back to the ranks, as sums."""

    @staticmethod
    def forward(
        ctx: Any, ranks: Ranks, chunks: Chunks, axes: tuple[int, ...], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        """Return each tensor of all tokens, in the order of the text."""
        ctx.ranks, ctx.chunks, ctx.axes = ranks, chunks, axes
        out = tuple(
            chunks.joined(ranks.gather(t), axis)
            for t, axis in zip(tensors, axes, strict=True)
        )
        ctx.mark_non_differentiable(*(t for t in out if not t.is_floating_point()))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        """Return the sum over ranks of the gradients of this rank's tokens."""
        given = zip(gradients, ctx.axes, ctx.needs_input_grad[3:], strict=True)
        own = [
            _summed(ctx.ranks, ctx.chunks.separated(g, axis)) if needs else None
            for g, axis, needs in given
        ]
        return None, None, None, *own


def _summed(ranks: Ranks, parts: list[Tensor]) -> Tensor:
    """Return the sum over ranks of their tensors for this rank, summed in float32."""
    dtype = parts[0].dtype
    wide = torch.promote_types(dtype, torch.float32)
    return ranks.reduce([part.to(wide) for part in parts]).to(dtype)
