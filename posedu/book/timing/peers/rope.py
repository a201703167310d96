"""Timing of RoPE, by published libraries and by posedu.

Everything that a library can precompute for the positions is made before the clock
starts: cosines and sines (posedu, transformers), or angles alone, whose cosines every
call computes (rotary-embedding-torch, x-transformers).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posedu._arguments import LAYOUTS
from posedu.book.timing.clock import Run
from posedu.book.timing.results import Measurement, Timing, collect, compare
from posedu.book.timing.timed_calls import compiled, copy_of
from posedu.numpy import rotary
from posedu.numpy.frequencies import frequencies as geometric
from posedu.torch import RoPE, rotate_pairs

FARTHEST = 2**20  # the error of a table is measured below this position


@dataclass(frozen=True)
class Peer:
    """A published library's RoPE for one head dimension.

    ``layout`` says which features the library pairs: ``"half"`` or ``"interleaved"``.
    ``table`` is a function that returns cosines and sines of the positions that it is
    given, in float32. ``prepare`` is a function that takes q and k, makes the tables,
    and returns a function that rotates q and k.
    """

    layout: str
    table: Callable[[Tensor], tuple[Tensor, Tensor]]
    prepare: Callable[[Tensor, Tensor], Run]


def _transformers(d: int, device: torch.device) -> Peer:
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama as llama

    config = LlamaConfig(hidden_size=d, num_attention_heads=1)
    module = llama.LlamaRotaryEmbedding(config).to(device)

    def prepare(q, k):
        cos, sin = module(q, torch.arange(q.shape[-2], device=device)[None])
        return lambda: llama.apply_rotary_pos_emb(q, k, cos, sin)

    like = torch.empty(0, device=device)
    return Peer("half", lambda positions: module(like, positions[None]), prepare)


def _rotary_embedding_torch(d: int, device: torch.device) -> Peer:
    from rotary_embedding_torch import RotaryEmbedding

    module = RotaryEmbedding(dim=d).to(device)

    def table(positions):
        angle = module(positions)
        return angle.cos(), angle.sin()

    def prepare(q, k):
        rotate = module.rotate_queries_or_keys
        return lambda: (rotate(q), rotate(k))

    return Peer("interleaved", table, prepare)


def _x_transformers(d: int, device: torch.device) -> Peer:
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    module = RotaryEmbedding(d).to(device)

    def table(positions):
        angle, _ = module(positions)
        return angle.cos(), angle.sin()

    def prepare(q, k):
        angle, scale = module.forward_from_seq_len(q.shape[-2])
        return lambda: tuple(apply_rotary_pos_emb(t, angle, scale) for t in (q, k))

    return Peer("interleaved", table, prepare)


LIBRARIES: dict[str, Callable[[int, torch.device], Peer]] = {
    "transformers": _transformers,
    "rotary-embedding-torch": _rotary_embedding_torch,
    "x-transformers": _x_transformers,
}


def _missing(device: torch.device) -> dict[str, str]:
    """Return the import error of each library that cannot be imported, by library.

    The dict is empty if all libraries are installed.
    """
    reasons = {}
    for library, make in LIBRARIES.items():
        try:
            make(64, device)
        except ImportError as error:
            reasons[library] = str(error)
    return reasons


def _ours(q: Tensor, k: Tensor, layout: str) -> dict[str, Run]:
    length, d = q.shape[-2:]
    table = RoPE(d, layout=layout).table(range(length), device=q.device)
    buffers = torch.empty_like(q), torch.empty_like(k)

    def fresh():
        return [rotate_pairs(t, *table, layout=layout) for t in (q, k)]

    def buffered():
        return [
            rotate_pairs(t, *table, layout=layout, out=buffer)
            for t, buffer in zip((q, k), buffers, strict=True)
        ]

    name = f"posedu, {layout}"
    return {
        name: fresh,
        f"{name}, into a buffer": buffered,
        f"{name}, compiled": compiled(fresh),
        f"{name}, compiled, into a buffer": compiled(buffered),
    }


def _relative_error(run: Run, q: Tensor, k: Tensor, layout: str) -> float:
    difference, size = 0.0, 0.0
    for x, rotated in zip((q, k), run(), strict=True):
        exact = x.double().cpu().numpy()
        expected = rotary.rope(exact, range(x.shape[-2]), layout=layout)
        error = rotated.double().cpu().numpy() - expected
        difference, size = difference + (error**2).sum(), size + (expected**2).sum()
    return float(np.sqrt(difference / size))


def _cosine_error(cos: Tensor, layout: str, positions: Tensor, d: int) -> float:
    if cos.shape[-1] == d:
        cos = cos[..., rotary.pairs(d, layout=layout)[0]]
    angle = positions.double().cpu().numpy()[:, None] * geometric(d)
    return float(np.abs(cos.double().cpu().numpy() - np.cos(angle)).max())


def time_rope(
    *,
    lengths: Sequence[int] = (2048, 8192),
    head_dims: Sequence[int] = (64, 128),
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16),
    device: str | torch.device = "cpu",
    heads: int = 16,
    repeats: int = 30,
    seed: int = 0,
    save_to: str | Path | None = None,
    keep: bool = False,
) -> Timing:
    """Time the forward of posedu's and libraries' RoPE on q and k ``[1, heads, L, d]``.

    In the task ``rotate``, tables of cosines and sines are made beforehand; the limit,
    to whose time all are compared, is a copy of q and k, and ``a fresh copy`` shows the
    cost of allocating the result. In the task ``table``, cosines and sines of L
    positions are computed in float32; the limit is a fill of as many numbers as
    posedu's table has, and the error is the largest error of a cosine for L positions
    spread evenly below 2²⁰.

    Parameters have the same meaning as in :func:`posedu.book.timing.time_encoding`.
    Everything that the process had compiled before is reset.
    """
    device = torch.device(device)
    missing = _missing(device)
    found = [library for library in LIBRARIES if library not in missing]
    settings = {"heads": heads, "repeats": repeats}
    result = Timing.begin("rope", device, seed, found, missing, **settings)

    @torch.no_grad()
    def rotations(length: int, d: int, dtype: torch.dtype) -> list[Measurement]:
        torch.compiler.reset()
        shape = (1, heads, length, d)
        q, k = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
        runs: dict[str, Run] = {"a fresh copy": lambda: (q.clone(), k.clone())}
        errors = {"a fresh copy": 0.0}
        for layout in LAYOUTS:
            ours = _ours(q, k, layout)
            runs |= ours
            errors |= {n: _relative_error(r, q, k, layout) for n, r in ours.items()}
        for library in found:
            peer = LIBRARIES[library](d, device)
            run = peer.prepare(q, k)
            theirs = {
                library: run,
                f"{library}, compiled": compiled(run, fullgraph=False),
            }
            runs |= theirs
            errors |= {
                n: _relative_error(r, q, k, peer.layout) for n, r in theirs.items()
            }
        moved = 2 * (q.nbytes + k.nbytes)
        return compare(
            runs,
            copy_of(q, k),
            limit_name="copy",
            task="rotate",
            length=length,
            d=d,
            dtype=dtype,
            device=device,
            repeats=repeats,
            bytes_moved=moved,
            errors=errors,
        )

    @torch.no_grad()
    def tables(length: int, d: int) -> list[Measurement]:
        near = torch.arange(length, device=device)
        far = (near + 1) * (FARTHEST // length) - 1
        ours = RoPE(d, layout="half")
        builders = {"posedu": ("half", ours.table)}
        for library in found:
            peer = LIBRARIES[library](d, device)
            builders[library] = peer.layout, peer.table
        filled = torch.empty(2, length, d // 2, device=device)
        return compare(
            {
                n: (lambda table=table: table(near))
                for n, (_, table) in builders.items()
            },
            lambda: filled.fill_(1.0),
            limit_name="fill",
            task="table",
            length=length,
            d=d,
            dtype=torch.float32,
            device=device,
            repeats=repeats,
            bytes_moved=filled.nbytes,
            errors={
                n: _cosine_error(table(far)[0].squeeze(0), layout, far, d)
                for n, (layout, table) in builders.items()
            },
        )

    def measure(length: int, d: int, dtype: torch.dtype) -> Iterator[Measurement]:
        yield from rotations(length, d, dtype)
        if dtype == dtypes[0]:
            yield from tables(length, d)

    cells = list(product(lengths, head_dims, dtypes))
    return collect(result, measure, cells, save_to, keep)
