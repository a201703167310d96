"""Forms of the recurrences: chunks, all pairs and the loop, beside softmax attention.

Published code in plain PyTorch is timed beside them where it is installed: the loops
and chunks of flash-linear-attention (the files ``naive.py`` of fla-core, which run
without Triton) and the chunks of transformers' Qwen3-Next. ``python -m
posedu.book.timing.recurrences`` writes ``recurrences-cpu.json``.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

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
from posedu.torch import Attention, GatedDeltaNet, KVCache, StateCache
from posedu.torch.recurrent import Writes, by_chunks, pair_weights

HEADS, D = 2, 64
REPEATS: Mapping[int, int] = {256: 9, 1024: 9, 4096: 5, 16384: 3, 65536: 1}
"""Timed calls of each function, by the number of tokens."""
MOST_PAIRS, LONGEST_LOOP = 4096, 16384  # tokens
LIMIT = "softmax attention"
RULES: Mapping[str, tuple[str, bool]] = {
    "one gate": ("head", False),
    "gates of features": ("feature", False),
    "gate and delta rule": ("head", True),
    "gates of features and delta rule": ("feature", True),
}
"""Gates of the state, and whether a token corrects it, by name."""


def drawn(rule: str, length: int) -> Writes:
    """Return random numbers of a recurrence in float32, with keys of length 1.

    ``rule`` is a name in :data:`RULES`, ``length`` the number of tokens. Gates halve
    the state in 7 tokens or more.
    """
    gates, delta = RULES[rule]
    q, k, v = torch.randn(3, 1, HEADS, length, D)
    shape = (1, HEADS, length, D) if gates == "feature" else (1, HEADS, length)
    log_decay, beta = -0.1 * torch.rand(shape), torch.rand(1, HEADS, length)
    segments = torch.zeros(1, 0, dtype=torch.int64)  # one text
    q, k = normalize(q, dim=-1) * D**-0.5, normalize(k, dim=-1)
    return Writes(q, k, v, log_decay, beta, segments, delta)


def wide(writes: Writes) -> Writes:
    """Return the same numbers in float64."""
    numbers = (t.double() for t in writes[:5])
    return Writes(*numbers, writes.segments, writes.delta)


def loop(writes: Writes) -> Tensor:
    """Return the outputs of the recurrence, token by token."""
    q, k, v, log_decay, beta, _, delta = writes
    decay = log_decay.exp()
    decay = decay[..., None] if decay.ndim == k.ndim else decay[..., None, None]
    state, out = k.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]), []
    for t in range(k.shape[2]):
        state = decay[:, :, t] * state
        new = v[:, :, t]
        if delta:
            new = new - (k[:, :, t, None] @ state)[:, :, 0]
        written = beta[:, :, t, None, None] * k[:, :, t, :, None] * new[:, :, None]
        state = state + written
        out.append(q[:, :, t, None] @ state)
    return torch.cat(out, 2)


def published(rule: str, writes: Writes) -> dict[str, Run]:
    """Return the published functions for a rule that are installed, by name."""
    q, k, v, log_decay, beta, *_ = writes
    by_tokens = [t.transpose(1, 2).contiguous() for t in (q, k, v, log_decay, beta)]
    q, k, v, log_decay, beta = by_tokens
    runs: dict[str, Run] = {}
    fla = {name: naive(name) for name in ("gated_delta_rule", "kda")}
    if rule == "gate and delta rule":
        if (module := fla["gated_delta_rule"]) is not None:
            given = dict(q=q, k=k, v=v, g=log_decay, beta=beta, scale=1.0)
            for form in ("recurrent", "chunk"):
                function = getattr(module, f"naive_{form}_gated_delta_rule")
                runs[f"fla-core: {form}"] = lambda f=function: f(**given)[0]
        if is_installed("transformers"):
            runs["transformers: chunk"] = _of_transformers(q, k, v, log_decay, beta)
    if rule == "gates of features and delta rule" and fla["kda"] is not None:
        given = dict(q=q, k=k, v=v, g=log_decay, beta=beta, scale=1.0)
        for form in ("recurrent", "chunk"):
            function = getattr(fla["kda"], f"naive_{form}_kda")
            runs[f"fla-core: {form}"] = lambda f=function: f(**given)[0]
    return runs


def _of_transformers(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Run:
    from transformers.models.qwen3_next.modeling_qwen3_next import (
        torch_chunk_gated_delta_rule,
    )

    scaled = q * D**0.5  # the function divides by it
    return lambda: torch_chunk_gated_delta_rule(scaled, k, v, g=g, beta=beta)[0]


def forms(rule: str, writes: Writes) -> dict[str, Run]:
    """Return the functions that compute a rule's outputs, by name."""
    length = writes.k.shape[2]
    runs: dict[str, Run] = {"chunks": lambda: by_chunks(writes)[0]}
    if length <= MOST_PAIRS:
        runs["all pairs"] = lambda: pair_weights(writes) @ writes.v
    if length <= LONGEST_LOOP:
        runs["loop"] = lambda: loop(writes)
        runs |= published(rule, writes)
    return runs


def steps(context: int) -> dict[str, Run]:
    """Return functions that decode one token after ``context`` others, by layer."""
    x = torch.randn(1, context, HEADS * D)
    runs = {}
    for name, encoding in (
        ("Gated DeltaNet", GatedDeltaNet(HEADS * D, HEADS)),
        (LIMIT, None),
    ):
        layer = Attention(HEADS * D, HEADS, encoding=encoding).eval()
        cache = KVCache(context + 1) if encoding is None else StateCache()
        layer(x, cache=cache)
        runs[name] = partial(_decoded, layer, cache, x[:, :1])
    return runs


def _decoded(layer: Attention, cache: KVCache, x: Tensor) -> Tensor:
    return layer(x, cache=cache.shared())


def time_recurrences(
    repeats: Mapping[int, int] = REPEATS,
    *,
    seed: int = 0,
    save_to: str | Path | None = None,
) -> Timing:
    """Time each form of each rule over causal softmax attention, on a CPU.

    Errors are those of the outputs, against the chunks in float64, in the Euclidean
    norm. A decoding step of a layer is timed after as many tokens.

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
    libraries, missing = libraries_to_time("fla-core", "transformers")
    result = Timing.begin(
        *("recurrences", device, seed, libraries, missing),
        heads=HEADS,
        repeats={str(n): calls for n, calls in repeats.items()},
    )

    @torch.no_grad()
    def measure(length: int, d: int, dtype: torch.dtype) -> Iterator[Measurement]:
        size = torch.finfo(dtype).bits // 8
        q, k, v = torch.randn(3, 1, HEADS, length, d, dtype=dtype)
        attention = partial(scaled_dot_product_attention, q, k, v, is_causal=True)

        def compared(
            task: str, runs: Mapping[str, Run], limit: Run, numbers: int, **how: Any
        ) -> list[Measurement]:
            return compare(
                runs,
                limit,
                limit_name=LIMIT,
                task=task,
                length=length,
                d=d,
                dtype=dtype,
                device=device,
                repeats=repeats[length],
                bytes_moved=size * HEADS * numbers,
                **how,
            )

        for rule in RULES:
            writes = drawn(rule, length)
            runs = forms(rule, writes)
            exact = by_chunks(wide(writes))[0]
            errors = {name: error(run(), exact) for name, run in runs.items()}
            moved = 4 * length * d
            yield from compared(rule, runs, attention, moved, errors=errors)
        decoding = steps(length)
        limit = decoding.pop(LIMIT)
        yield from compared("decode a token", decoding, limit, 2 * d * d)

    cells = [(length, D, torch.float32) for length in repeats]
    return collect(result, measure, cells, save_to, keep=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the recurrences; print and save a table, and return the exit status."""
    return run_timing("recurrences", time_recurrences, REPEATS, arguments)


if __name__ == "__main__":
    sys.exit(main())
