"""Attention whose scores are products over the path: fast forms beside naive ones.

PaTH's and Wall's blocks and Selective RoPE's two rotations are timed over softmax
attention without an encoding. Beside them stand the forms that follow the definitions,
and for PaTH the plain PyTorch function of flash-linear-attention, where fla-core and
einops are installed. ``python -m posedu.book.timing.path_products`` writes
``path-products-cpu.json``, with peak memory.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, scaled_dot_product_attention

from posedu.book.timing.clock import Run
from posedu.book.timing.published import (
    error,
    is_installed,
    libraries_to_time,
    naive,
    run_timing,
)
from posedu.book.timing.results import Measurement, Timing, collect, compare
from posedu.torch.path import gated_products, path_products
from posedu.torch.rotary.rotation import rotate_pairs

HEADS, D = 2, 64
REPEATS: Mapping[int, int] = {256: 9, 512: 9, 1024: 5, 2048: 5, 4096: 3}
"""Timed calls of each function, by the number of tokens."""
MOST_PAIRS = 1024  # tokens, where a form keeps d numbers of each pair
LIMIT = "attention without encoding"


class Heads(NamedTuple):
    """Queries, keys and values of two heads, and what each token does on the path.

    ``w`` are PaTH's directions, of length 1, and ``beta`` its strengths; ``sums`` are
    Wall's sums of log gates, ``angles`` Selective RoPE's, both in float64.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    w: Tensor
    beta: Tensor
    sums: Tensor
    angles: Tensor


def drawn(length: int, dtype: torch.dtype = torch.float32) -> Heads:
    """Return random heads of ``length`` tokens, [1, heads, tokens, …]."""
    q, k, v, w = torch.randn(4, 1, HEADS, length, D, dtype=dtype)
    beta = 2 * torch.rand(1, HEADS, length, dtype=dtype)
    gates = -0.1 * torch.rand(1, HEADS, length, D, dtype=torch.float64)
    turns = torch.randn(1, HEADS, length, D // 2, dtype=torch.float64)
    w = normalize(w, dim=-1)
    return Heads(q, k, v, w, beta, gates.cumsum(2), turns.cumsum(2))


def wide(heads: Heads) -> Heads:
    """Return the same numbers in float64."""
    return Heads(*(t.double() for t in heads))


def attended(scores: Tensor, v: Tensor) -> Tensor:
    """Return the outputs of causal attention from unscaled scores."""
    length = v.shape[2]
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    return (scores * D**-0.5).masked_fill(later, -torch.inf).softmax(-1) @ v


def path_blocks(heads: Heads) -> Tensor:
    """Return PaTH's outputs, by blocks of 64 tokens."""
    q, k, v, w, beta, *_ = heads
    return attended(path_products(q, k, w, beta), v)


def path_loop(heads: Heads) -> Tensor:
    """Return PaTH's outputs: every token moves all keys before it."""
    q, k, v, w, beta, *_ = heads
    moved, scores = k.clone(), q.new_zeros(*q.shape[:3], q.shape[2])
    for i in range(q.shape[2]):
        old, now = moved[:, :, :i], w[:, :, i, :, None]
        old -= beta[:, :, i, None, None] * (old @ now) * now.mT
        scores[:, :, i, : i + 1] = (moved[:, :, : i + 1] @ q[:, :, i, :, None])[..., 0]
    return attended(scores, v)


def wall_blocks(heads: Heads) -> Tensor:
    """Return Wall's outputs, by blocks of queries that share an anchor."""
    return attended(gated_products(heads.q, heads.k, heads.sums), heads.v)


def wall_pairs(heads: Heads) -> Tensor:
    """Return Wall's outputs, from one decay for each pair of tokens and feature."""
    exponents = heads.sums[:, :, :, None] - heads.sums[:, :, None]
    decays = exponents.clamp(max=0.0).to(heads.q.dtype).exp()  # later keys are hidden
    scores = (heads.q[:, :, :, None] * decays * heads.k[:, :, None]).sum(-1)
    return attended(scores, heads.v)


def selective_rotations(heads: Heads) -> Tensor:
    """Return Selective RoPE's outputs: queries and keys rotated by their sums."""
    cos, sin = (f(heads.angles).to(heads.q.dtype) for f in (torch.cos, torch.sin))
    q, k = (rotate_pairs(t, cos, sin, layout="half") for t in (heads.q, heads.k))
    return scaled_dot_product_attention(q, k, heads.v, is_causal=True)


def selective_pairs(heads: Heads) -> Tensor:
    """Return Selective RoPE's outputs, from the angle of each pair of tokens."""
    q, k = (torch.complex(*t.chunk(2, -1)) for t in (heads.q, heads.k))
    angles = heads.angles[:, :, None] - heads.angles[:, :, :, None]
    turns = torch.polar(torch.ones_like(angles), angles).to(q.dtype)
    scores = (q.conj()[:, :, :, None] * turns * k[:, :, None]).real.sum(-1)
    return attended(scores, heads.v)


def forms(length: int, heads: Heads) -> dict[str, dict[str, Run]]:
    """Return the functions that compute each encoding's outputs, the fast one first.

    They are found by the encoding's title and the form's name; forms with d numbers for
    each pair are there for short texts only.
    """
    runs: dict[str, dict[str, Run]] = {
        "PaTH": {
            "blocks": partial(path_blocks, heads),
            "loop": partial(path_loop, heads),
        },
        "Wall": {"blocks": partial(wall_blocks, heads)},
        "Selective RoPE": {"rotations": partial(selective_rotations, heads)},
    }
    module = naive("path_attn") if is_installed("einops") else None
    if module is not None:
        q, k, v, w, beta, *_ = (t.transpose(1, 2).contiguous() for t in heads)
        no_gates = torch.zeros_like(beta)
        runs["PaTH"]["fla-core: naive"] = lambda: module.naive_path_attn(
            q, k, v, w, beta, no_gates, D**-0.5
        )
    if length <= MOST_PAIRS:
        runs["Wall"]["all pairs"] = partial(wall_pairs, heads)
        runs["Selective RoPE"]["all pairs"] = partial(selective_pairs, heads)
    return runs


def time_path_products(
    repeats: Mapping[int, int] = REPEATS,
    *,
    seed: int = 0,
    save_to: str | Path | None = None,
) -> Timing:
    """Time forms of PaTH, Wall and Selective RoPE over attention without an encoding.

    Errors are those of the outputs, against the fast form in float64, in the Euclidean
    norm.

    Parameters
    ----------
    repeats
        Timed calls of each function, by the number of tokens; each follows an untimed
        one.
    seed
        Seed of the inputs.
    save_to
        File that the result is saved to after each length.
    """
    device = torch.device("cpu")
    result = Timing.begin(
        *("path products", device, seed, *libraries_to_time("fla-core")),
        heads=HEADS,
        repeats={str(n): calls for n, calls in repeats.items()},
    )

    @torch.no_grad()
    def measure(length: int, d: int, dtype: torch.dtype) -> Iterator[Measurement]:
        heads = drawn(length, dtype)
        q, k, v, *_ = heads
        attention = partial(scaled_dot_product_attention, q, k, v, is_causal=True)
        exact = forms(length, wide(heads))
        for encoding, runs in forms(length, heads).items():
            reference = next(iter(exact[encoding].values()))()
            yield from compare(
                runs,
                attention,
                limit_name=LIMIT,
                task=encoding,
                length=length,
                d=d,
                dtype=dtype,
                device=device,
                repeats=repeats[length],
                bytes_moved=4 * HEADS * length * d * torch.finfo(dtype).bits // 8,
                errors={name: error(run(), reference) for name, run in runs.items()},
            )

    cells = [(length, D, torch.float32) for length in repeats]
    return collect(result, measure, cells, save_to, keep=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the path products; print and save a table, and return the exit status."""
    return run_timing("path_products", time_path_products, REPEATS, arguments)


if __name__ == "__main__":
    sys.exit(main())
