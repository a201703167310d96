"""Project "latent attention": decode from latent vectors, without keys or values.

A learner's functions say what one token leaves in the cache, and what a layer of MLA
puts out for the newest token. The keys and values of the past must not be computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from posedu.book import figures
from posedu.book.projects.plots import draw_shares_of_bounds
from posedu.book.projects.recording import Recorder
from posedu.book.projects.records import Goal, Project, Report
from posedu.book.projects.rounding import unit_roundoff
from posedu.book.timing.clock import alternate
from posedu.numpy.rotary import rope
from posedu.torch import MLA, RoPE

D_MODEL, HEADS, LATENT, ROTARY = 256, 8, 64, 16
D = D_MODEL // HEADS
"""Features of a head without RoPE, and of its values."""
EPSILON = 1e-6
"""Added to the mean square in the norm of the latent vectors."""
TOKENS = 24
"""Tokens of the texts on which all outputs are compared."""
LONGEST, LENGTHS = 5000, 4
"""Largest size of a longer cache, and how many such sizes are drawn."""
FARTHEST = 10**6
"""The largest position."""
CACHED = 8192
"""Cached tokens of the step that is timed."""
REPEATS = 9
HEAD_D = 4
"""Features of the heads whose keys are rotated, for the counterexamples."""
REFUTED_BEYOND = 1e-8
"""Share of the sum of absolute values by which a matrix must be off: not rounding."""

ROPE = RoPE(ROTARY, layout="half")
"""The rotation of the features with RoPE; its angles are float64."""

Cached = tuple[Tensor, ...]


@dataclass(frozen=True)
class Weights:
    """Weights of one layer of MLA, as tensors of one dtype.

    Queries are made from the input by ``q``, without RoPE, and by ``q_rope``, with
    RoPE. ``down`` makes the latent vector, before its norm with gains ``gain``, and
    ``k_rope`` the key with RoPE, which all heads share. ``k_up`` and ``v_up`` map a
    latent vector to each head's keys and values. ``out`` maps the outputs of the heads
    to the layer's output, to which they add up.
    """

    q: Float[Tensor, "heads d d_model"]
    q_rope: Float[Tensor, "heads rotary d_model"]
    down: Float[Tensor, "latent d_model"]
    k_rope: Float[Tensor, "rotary d_model"]
    gain: Float[Tensor, "latent"]
    k_up: Float[Tensor, "heads d latent"]
    v_up: Float[Tensor, "heads d latent"]
    out: Float[Tensor, "heads d_model d"]

    @classmethod
    def of(cls, layer: MLA) -> "Weights":
        """Return the weights of a layer, without gradients."""
        if layer.q_down is not None or layer.kv_gain is None:
            raise ValueError("a layer with norm=True and without q_latent is needed")
        heads, d = layer.heads, layer.d
        of_heads = layer.q.weight.detach().unflatten(0, (heads, -1))
        down, k_rope = layer.kv_down.weight.detach().split((layer.latent, layer.rotary))
        return cls(
            q=of_heads[:, :d].contiguous(),
            q_rope=of_heads[:, d:].contiguous(),
            down=down,
            k_rope=k_rope,
            gain=layer.kv_gain.detach(),
            k_up=layer.k_up.weight.detach().unflatten(0, (heads, d)),
            v_up=layer.v_up.weight.detach().unflatten(0, (heads, d)),
            out=layer.o.weight.detach().unflatten(1, (heads, d)).movedim(1, 0),
        )


def draw_layer(seed: int, dtype: torch.dtype = torch.float64) -> MLA:
    """Return a layer of MLA with random weights and gains."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MLA(D_MODEL, HEADS, latent=LATENT, rotary=ROTARY, layout="half")
        gains = torch.empty(LATENT).uniform_(0.5, 2.0)
        layer.kv_gain = nn.Parameter(gains)
    return layer.to(dtype).requires_grad_(False)


def plain_step(
    weights: Weights,
    x: Float[Tensor, "d_model"],
    position: int,
    latents: Float[Tensor, "tokens latent"],
    keys: Float[Tensor, "tokens rotary"],
) -> Float[Tensor, "d_model"]:
    """Return the layer's output for the newest token, by the definition.

    The keys and values of all heads are computed from ``latents``, the normalized
    latent vectors of all tokens up to the newest; ``keys`` are the shared keys, already
    rotated. ``x`` and ``position`` are the newest token's input and position.
    """
    q = weights.q @ x
    q_rope = ROPE((weights.q_rope @ x)[:, None], [position])[:, 0]
    k = torch.einsum("hdc,jc->hjd", weights.k_up, latents)
    v = torch.einsum("hdc,jc->hjd", weights.v_up, latents)
    products = torch.einsum("hd,hjd->hj", q, k) + q_rope @ keys.T
    shares = (products / (D + ROTARY) ** 0.5).softmax(-1)
    outputs = torch.einsum("hj,hjd->hd", shares, v)
    return torch.einsum("hmd,hd->m", weights.out, outputs)


def _entry_of(
    entry: Callable[..., Any], weights: Weights, x: Tensor, position: int
) -> Cached:
    """Return what a learner caches of a token; raise unless it is vectors."""
    found = entry(weights, x, position)
    if not isinstance(found, tuple) or not all(isinstance(v, Tensor) for v in found):
        raise TypeError(
            "entry must return a tuple of tensors, the vectors to cache of one token, "
            f"got {type(found).__name__}"
        )
    if not found or any(v.ndim != 1 or v.dtype != x.dtype for v in found):
        given = ", ".join(f"{list(v.shape)} of {v.dtype}" for v in found)
        raise ValueError(
            f"entry must return vectors [n] of the dtype of x, {x.dtype}, got {given}"
        )
    return found


def _output_of(
    attend: Callable[..., Any],
    weights: Weights,
    x: Tensor,
    position: int,
    cached: Cached,
) -> Tensor:
    """Return a learner's output for the newest token; raise if it is no output."""
    found = attend(weights, x, position, cached)
    if not isinstance(found, Tensor):
        raise TypeError(f"attend must return a tensor, got {type(found).__name__}")
    if found.shape != x.shape or found.dtype != x.dtype:
        raise ValueError(
            f"attend must return {list(x.shape)} of {x.dtype}, like x, got "
            f"{list(found.shape)} of {found.dtype}"
        )
    return found


def _stack(
    entry: Callable[..., Any], weights: Weights, x: Tensor, start: int
) -> Cached:
    """Return a learner's cache for the tokens ``x``, the first at ``start``."""
    rows = [_entry_of(entry, weights, row, start + n) for n, row in enumerate(x)]
    shapes = {tuple(v.shape for v in row) for row in rows}
    if len(shapes) > 1:
        raise ValueError(f"entries must have one shape for all tokens, got {shapes}")
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def right_cache(
    layer: MLA, x: Float[Tensor, "tokens d_model"], start: int
) -> tuple[Float[Tensor, "tokens latent"], Float[Tensor, "tokens rotary"]]:
    """Return normalized latent vectors and rotated keys, for :func:`plain_step`.

    The position of the first token is ``start``.
    """
    latents, keys = layer.kv_down(x).split((LATENT, ROTARY), -1)
    latents = rms_norm(latents, (LATENT,), layer.kv_gain, EPSILON)
    return latents, ROPE(keys, torch.arange(start, start + len(x)))


def error_bound(
    layer: MLA, x: Float[Tensor, "tokens d_model"], dtype: torch.dtype
) -> float:
    """Return by how much an output, computed in ``dtype``, may be off.

    Rounding errors of a sum of n products are as random as the numbers: the sum is off
    by at most about √n u times the product of the vectors' norms, where u is the unit
    roundoff. So a logit is off by δ = √N u times the largest norm of a query times that
    of a key, over √(d + r), with N the number of terms of all sums on the way; a
    softmax weight by the share 2δ; and an output by 2δ + √N u times the largest norm of
    a row of the output projection times that of a token's values.
    """
    q, k, v, _ = layer.project(x[None].double(), None, None, None)
    terms = 3 * D_MODEL + 2 * LATENT + 2 * D + len(x)
    unit = terms**0.5 * unit_roundoff(dtype)
    logits = unit * q.norm(dim=-1).max() * k.norm(dim=-1).max() / (D + ROTARY) ** 0.5
    values = v.square().sum((1, 3)).max().sqrt()
    rows = layer.o.weight.double().norm(dim=1).max()
    return float((2 * logits + unit) * rows * values)


@torch.no_grad()
def output_error(
    entry: Callable[..., Any],
    attend: Callable[..., Any],
    *,
    seed: int,
    dtype: torch.dtype,
) -> float:
    """Return the largest error of a learner's outputs, over :func:`error_bound`.

    The right outputs are those of :class:`posedu.torch.MLA` without a cache, in
    float64, and those of :func:`plain_step` for ``LENGTHS`` longer caches, of random
    sizes up to ``LONGEST``. The rows of the cache come in their order and in a random
    one, and entries of another text are made after the cache's, so that they are the
    last ones made.
    """
    generator = torch.Generator().manual_seed(seed)
    layer = draw_layer(seed, dtype)
    weights = Weights.of(layer)
    powers = torch.rand(LENGTHS, generator=generator)
    longer = (TOKENS * (LONGEST / TOKENS) ** powers).int().tolist()
    x = torch.randn(max(longer), D_MODEL, generator=generator).to(dtype)
    start = int(torch.randint(FARTHEST // 2, FARTHEST, (), generator=generator))
    cached = _stack(entry, weights, x, start)
    _stack(entry, weights, x[:TOKENS].flip(0), start)
    layer = layer.double()
    own = x[:TOKENS].double()
    right = dict(enumerate(layer(own[None], start + torch.arange(TOKENS))[0]))
    exact = Weights.of(layer), right_cache(layer, x.double(), start)
    for n in (length - 1 for length in longer):
        past = (column[: n + 1] for column in exact[1])
        right[n] = plain_step(exact[0], x[n].double(), start + n, *past)
    worst = torch.zeros((), dtype=torch.float64)
    for n, output in right.items():
        orders = torch.arange(n + 1), torch.randperm(n + 1, generator=generator)
        for order in orders:
            rows = tuple(column[order] for column in cached)
            found = _output_of(attend, weights, x[n], start + n, rows)
            off = (found.double() - output).abs().max() / error_bound(
                layer, x[: max(n + 1, TOKENS)], dtype
            )
            worst = torch.maximum(worst, off)
    return float(worst) if worst.isfinite() else float("inf")


@torch.no_grad()
def step_cost(
    entry: Callable[..., Any], attend: Callable[..., Any], *, seed: int
) -> dict[str, float]:
    """Return what one step costs in float32 with ``CACHED`` tokens in the cache.

    ``"largest"`` is the number of numbers in the largest tensor that an operation
    returns, where a view counts as the tensor that it is a view of, and
    ``"multiplications"`` the number of multiplications in matrix products, both over
    the number of cached tokens. ``"time"`` is the time over that of
    :func:`plain_step`, the median of steps that alternate with plain ones. ``"error"``
    is the largest error of all these steps, over :func:`error_bound`. Each step is that
    of another token, from the last one back, with the whole cache.
    """
    generator = torch.Generator().manual_seed(seed)
    layer = draw_layer(seed, torch.float32)
    weights = Weights.of(layer)
    x = torch.randn(CACHED, D_MODEL, generator=generator)
    cached = _stack(entry, weights, x, 0)
    latents, keys = right_cache(layer, x, 0)
    newest = [(n, x[n].clone()) for n in reversed(range(CACHED))]
    outputs: list[Tensor] = []

    def step() -> None:
        n, own = newest[len(outputs)]
        outputs.append(_output_of(attend, weights, own, n, cached))

    step()
    with Recorder() as recorder:
        step()
    seconds = alternate(
        {"step": step},
        lambda: plain_step(weights, x[-1], CACHED - 1, latents, keys),
        device=torch.device("cpu"),
        repeats=REPEATS,
        warm_up=1,
    )["step"]
    right = [
        plain_step(weights, own, n, latents, keys) for n, own in newest[: len(outputs)]
    ]
    off = (torch.stack(outputs) - torch.stack(right)).abs().max()
    over = off / error_bound(layer.double(), x, torch.float32)
    return {
        "largest": recorder.largest / x.element_size() / CACHED,
        "multiplications": recorder.multiplications / CACHED,
        "time": float(np.median(seconds[:, 0] / seconds[:, 1])),
        "error": float(over) if over.isfinite() else float("inf"),
    }


def matrix_at(
    w_q: Float[np.ndarray, "d inputs"], up: Float[np.ndarray, "d latent"], offset: int
) -> Float[np.ndarray, "inputs latent"]:
    """Return the matrix between input and latent vector at an offset.

    It is W_qᵀ R_{−t} U at the offset t, with RoPE of base 10000 in the half layout. The
    score at this offset is the input times the matrix times the latent vector.
    """
    rotated = rope(up.T, np.full(up.shape[1], -offset), layout="half")
    return w_q.T @ rotated.T


def draw_matrices(seed: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return heads with a rotated key, (W_q, U), each with a matrix proposed for it.

    Some matrices are right at one of the offsets 0 … d, others are the mean of the
    right ones of several offsets. Of some heads W_q and U are such that one matrix is
    right at all of these offsets but one.
    """
    rng = np.random.default_rng(seed)
    cases = []
    for chosen in range(HEAD_D + 1):
        w_q, up = rng.normal(size=(2, HEAD_D, 3))
        cases.append((w_q, up, matrix_at(w_q, up, chosen)))
        several = rng.permutation(HEAD_D + 1)[:2]
        mean = np.mean([matrix_at(w_q, up, int(t)) for t in several], 0)
        cases.append((w_q, up, mean))
        cases.append(_right_but_at(chosen, rng))
    return [cases[n] for n in rng.permutation(len(cases))]


def _right_but_at(
    offset: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return W_q, U and the matrix that is right at the offsets 0 … d but ``offset``.

    The input and the latent vector are single numbers, so the matrix is one number. It
    and the d numbers of U solve d linear equations, one for each of the other offsets.
    """
    w_q = rng.normal(size=(HEAD_D, 1))
    others = [t for t in range(HEAD_D + 1) if t != offset]
    rows = [matrix_at(w_q, np.eye(HEAD_D), t)[0] for t in others]
    equations = np.column_stack((rows, -np.ones(HEAD_D)))
    solution = np.linalg.svd(equations)[2][-1]
    return w_q, solution[:HEAD_D, None], solution[HEAD_D:, None]


def refuted(counterexample: Callable[..., Any], *, seed: int) -> float:
    """Return the share of the proposed matrices that a learner's positions refute.

    Positions (i, j) of query and key, 0 ≤ j ≤ i ≤ d, refute a matrix if the right one
    at their offset differs from it by more than rounding: by the share
    ``REFUTED_BEYOND`` of the sum of absolute values.
    """
    cases = draw_matrices(seed)
    count = 0
    for w_q, up, matrix in cases:
        found = counterexample(w_q.copy(), up.copy(), matrix.copy())
        if not isinstance(found, Sequence) or len(found) != 2:
            raise TypeError(f"counterexample must return (i, j), got {found!r}")
        if not all(isinstance(n, int | np.integer) for n in found):
            raise TypeError(f"positions must be integers, got {found!r}")
        i, j = map(int, found)
        if not 0 <= j <= i <= HEAD_D:
            raise ValueError(f"0 ≤ j ≤ i ≤ {HEAD_D} is needed, got i = {i}, j = {j}")
        off = abs(matrix_at(w_q, up, i - j) - matrix).max()
        count += bool(off > REFUTED_BEYOND * (abs(w_q).T @ abs(up)).max())
    return count / len(cases)


def measure(
    entry: Callable[..., Any],
    attend: Callable[..., Any],
    counterexample: Callable[..., Any],
    *,
    seed: int,
) -> dict[str, float]:
    """Return errors, cost and refuted matrices of a learner's functions.

    All but the time is the same whenever a seed is measured.
    """
    weights = Weights.of(draw_layer(seed))
    token = _entry_of(entry, weights, torch.zeros(D_MODEL, dtype=torch.float64), 0)
    errors = {
        f"error, {name}": output_error(entry, attend, seed=seed, dtype=dtype)
        for name, dtype in (("float64", torch.float64), ("float32", torch.float32))
    }
    cost = step_cost(entry, attend, seed=seed)
    errors["error, float32"] = max(errors["error, float32"], cost["error"])
    return {
        **errors,
        "cached": float(sum(vector.numel() for vector in token)),
        "largest tensor": cost["largest"],
        "multiplications": cost["multiplications"],
        "time": cost["time"],
        "refuted": refuted(counterexample, seed=seed),
    }


GOALS = (
    Goal("error, float64", most=1.0),
    Goal("error, float32", most=1.0),
    Goal("cached", least=LATENT + ROTARY, most=LATENT + ROTARY),
    Goal("largest tensor", most=LATENT + ROTARY),
    Goal("multiplications", most=3 * HEADS * (2 * LATENT + ROTARY)),
    Goal("time", most=0.4),
    Goal("refuted", least=1.0),
)


def plot(report: Report) -> figures.Figure:
    """Draw every measured quantity over the bound of its goal."""
    bounded = [goal for goal in GOALS if goal.most is not None]
    figure, ((axes,),) = figures.canvas(figsize=(5.6, 3.0))
    draw_shares_of_bounds(axes, report, bounded)
    refuted = [found["refuted"] for found in report.measured]
    return figures.finish(
        figure,
        caption="What was measured over the bound of its goal, a point for each seed; "
        "left of the line, or on it, the goal is reached. Of the proposed matrices "
        f"{np.mean(refuted):.0%} are refuted.",
        alt="A row of points for each quantity on a logarithmic axis, with a dashed "
        "line at 1.",
    )


PROJECT = Project(
    name="latent-attention",
    title="Project: latent attention without keys",
    part="Practice",
    minutes=90,
    cpu_minutes=1,
    uses=("kv-cache-5", "rope-3"),
    answers=("entry", "attend", "counterexample"),
    measure=measure,
    goals=GOALS,
    plot=plot,
)
