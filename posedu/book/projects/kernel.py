"""Project: RoPE and attention with any score_mod, in tiles, without an L × L tensor."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import truediv
from statistics import median
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from posedu._argument_types import short_repr
from posedu.book.figures import COLORS, Figure, canvas, finish
from posedu.book.projects.plots import draw_shares_of_bounds
from posedu.book.projects.recording import Recorder
from posedu.book.projects.records import Goal, Project, Report
from posedu.book.projects.rounding import (
    attention_magnitudes,
    error_over_bound,
    relative_error,
    softmax_magnitudes,
    unit_roundoff,
)

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
Rotate = Callable[[Tensor, Tensor], Tensor]
Attend = Callable[[Tensor, Tensor, Tensor, ScoreMod], Tensor]

BASE = 10_000.0
FARTHEST = 1_000_000  # positions of the rotation's test
LENGTH, HEADS, D = 4096, 4, 32  # where time and memory are measured
FORWARD, BACKWARD = (700, 1000), (550, 700)  # lengths where errors are measured
REPEATS = 3
GOALS = (
    Goal("rotation error", most=1),
    Goal("output error", most=1),
    Goal("gradient error", most=1),
    Goal("keys at a time", most=512),
    Goal("scores", most=0.6),
    Goal("largest tensor", most=2.5),
    Goal("time", most=0.8),
)


def rotated(
    x: Float[Tensor, "batch heads tokens d"], positions: Int[Tensor, "tokens"]
) -> Float[Tensor, "batch heads tokens d"]:
    """Return x rotated by RoPE in the half layout, with the base 10,000."""
    exponents = -torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1]
    angles = positions.double()[:, None] * BASE**exponents
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def naive(
    q: Float[Tensor, "batch heads tokens d"],
    k: Float[Tensor, "batch heads tokens d"],
    v: Float[Tensor, "batch heads tokens d"],
    score_mod: ScoreMod,
) -> Float[Tensor, "batch heads tokens d"]:
    """Return causal attention with logits changed by ``score_mod``, by L × L tensors.

    ``score_mod(score, b, h, i, j)`` has the arguments of FlexAttention's: the logits
    q · k / √d and the numbers of batch entry, head, query and key. Here they are
    tensors that broadcast to the shape of the logits.
    """
    return naive_weights(q, k, score_mod)[1] @ v


def naive_weights(
    q: Float[Tensor, "batch heads tokens d"],
    k: Float[Tensor, "batch heads tokens d"],
    score_mod: ScoreMod,
) -> tuple[
    Float[Tensor, "batch heads tokens tokens"],
    Float[Tensor, "batch heads tokens tokens"],
]:
    """Return the logits that ``score_mod`` has changed, and the causal weights."""
    batch, heads, length, d = q.shape
    b, h = torch.arange(batch)[:, None, None, None], torch.arange(heads)[:, None, None]
    i, j = torch.arange(length)[:, None], torch.arange(length)
    z = score_mod(q @ k.mT / math.sqrt(d), b, h, i, j)
    return z, z.masked_fill(j > i, -math.inf).softmax(-1)


@dataclass
class Counted:
    """A score_mod whose calls are counted: scores in all, most keys of a call."""

    score_mod: ScoreMod
    scores: int = 0
    keys: int = 0

    def __call__(self, score: Any, b: Any, h: Any, i: Any, j: Any) -> Tensor:
        """Count the scores of a call and return the changed ones."""
        indices = {"b": b, "h": h, "i": i, "j": j}
        for name, index in indices.items():
            if not isinstance(index, Tensor) or index.is_floating_point():
                raise TypeError(
                    f"score_mod needs a tensor of integers as {name}, got "
                    f"{short_repr(index)}"
                )
        if score.ndim < 2:
            raise ValueError(
                "score_mod needs a tile of scores, [..., queries, keys], got the shape "
                f"{list(score.shape)}; FlexAttention in place of tiles is no answer"
            )
        shapes = {name: list(index.shape) for name, index in indices.items()}
        try:
            shape = torch.broadcast_shapes(score.shape, *shapes.values())
        except RuntimeError:
            shape = None
        if shape != score.shape:
            raise ValueError(
                f"score_mod needs b, h, i and j that broadcast to the score's shape, "
                f"{list(score.shape)}; got the shapes {shapes}"
            )
        changed = self.score_mod(score, b, h, i, j)
        self.scores += score.numel()
        self.keys = max(self.keys, score.shape[-1])
        return changed


@dataclass(frozen=True)
class Variant:
    """A score_mod and the tensors that it captures and that have gradients."""

    name: str
    score_mod: ScoreMod
    captured: list[Tensor] = field(default_factory=list)


def draw_variants(
    batch: int, heads: int, length: int, generator: torch.Generator, dtype: torch.dtype
) -> list[Variant]:
    """Draw the score_mods of a measurement.

    They are ALiBi, KERPLE's logarithm, a table by distance, a soft cap of the logits,
    a wave over the keys, a sliding window and documents. The wave is between −1000 and
    1000, where exp is 0 or infinite in float64; the last two hide keys by −∞.
    """

    def positive(*shape: int) -> Tensor:
        drawn = torch.rand(*shape, generator=generator, dtype=torch.float64)
        return (0.01 + 0.05 * drawn).to(dtype)

    slopes, r1, r2 = positive(heads), 20 * positive(heads), 5 * positive(heads)
    table = torch.randn(heads, 32, generator=generator, dtype=torch.float64).to(dtype)
    cap = 2 + 20 * positive(heads)
    window = int(torch.randint(20, 60, (), generator=generator))
    ends = torch.rand(batch, length, generator=generator) < 4 / length
    document = ends.cumsum(-1)
    period = 30 + 20 * torch.rand((), generator=generator, dtype=torch.float64)
    wave = (1000 * torch.cos(math.tau / period * torch.arange(length))).to(dtype)
    return [
        Variant("alibi", lambda s, b, h, i, j: s - slopes[h] * (i - j), [slopes]),
        Variant(
            "kerple",
            lambda s, b, h, i, j: s - r1[h] * torch.log1p(r2[h] * (i - j).abs()),
            [r1, r2],
        ),
        Variant(
            "table", lambda s, b, h, i, j: s + table[h, (i - j).clamp(0, 31)], [table]
        ),
        Variant("cap", lambda s, b, h, i, j: cap[h] * torch.tanh(s / cap[h])),
        Variant("wave", lambda s, b, h, i, j: s - wave[j]),
        Variant(
            "window",
            lambda s, b, h, i, j: torch.where(i - j < window + h, s, -math.inf),
        ),
        Variant(
            "documents",
            lambda s, b, h, i, j: torch.where(
                document[b, i] == document[b, j], s, -math.inf
            ),
        ),
    ]


def measure(rotate: Rotate, attend: Attend, *, seed: int) -> Mapping[str, float]:
    """Measure a learner's rotation and attention.

    "rotation error", "output error" and "gradient error" are the largest errors over
    their bounds. The rest is measured at 4096 tokens: the most keys with which
    score_mod is called, "scores", their number over that of the L × L scores, "largest
    tensor", its size over that of the queries, and "time", that of rotation and
    attention over the naive one's. "time of scaled_dot_product_attention" is the limit:
    the same rotation, and PyTorch's kernel without a score_mod.
    """
    generator = torch.Generator().manual_seed(seed)
    with _one_thread():
        found = {
            "rotation error": _rotation_error(rotate, generator),
            "output error": _output_error(rotate, attend, generator),
            "gradient error": _gradient_error(attend, generator),
        }
        return found | _costs(rotate, attend, generator)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _normal(
    *shape: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def _require_like(name: str, found: object, given: Tensor) -> Tensor:
    """Return a result if it has the shape, dtype and gradient of a given tensor."""
    if not isinstance(found, Tensor) or found.shape != given.shape:
        got = list(found.shape) if isinstance(found, Tensor) else short_repr(found)
        raise ValueError(f"{name} must return shape {list(given.shape)}, got {got}")
    if found.dtype != given.dtype:
        raise ValueError(
            f"{name} must return {given.dtype}, as it is given, got {found.dtype}"
        )
    if given.requires_grad and not found.requires_grad:
        raise ValueError(
            f"the result of {name} has no gradient: leave out .detach(), "
            "torch.no_grad() and NumPy"
        )
    return found


def _rotation_error(rotate: Rotate, generator: torch.Generator) -> float:
    """Return the largest error of a rotation over its bound, elementwise.

    An element has two products, with a rounded cosine and a rounded sine: 4u(|a| + |b|)
    for a pair (a, b), and the rounding of angles in float64.
    """
    worst = 0.0
    for dtype, last in ((torch.float32, FARTHEST), (torch.float64, LENGTH)):
        x = _normal(2, 3, 50, D, generator=generator, dtype=dtype)
        positions = torch.randint(last, (50,), generator=generator)
        positions[-1] = last
        found = _require_like("rotate", rotate(x.clone(), positions.clone()), x)
        right = rotated(x.double(), positions)
        of_pairs = x.double().abs().unflatten(-1, (2, D // 2)).sum(-2)
        sizes = torch.cat((of_pairs, of_pairs), -1)
        of_angles = 4 * last * unit_roundoff(torch.float64)
        bound = (4 * unit_roundoff(dtype) + of_angles) * sizes
        error = ((found.double() - right).abs() / bound).max()
        worst = max(worst, float(error) if error.isfinite() else math.inf)
    return worst


def _bound(z: Tensor, q: Tensor, k: Tensor, length: int, dtype: torch.dtype) -> float:
    """Return the relative error of attention on float64 copies of its inputs.

    ``z`` are the changed logits. The error of a logit has d + 12 roundings of the sum
    of absolute values, twice that of the pair's, and some of the changed logit.
    """
    products = float((q.abs() @ k.abs().mT).max()) / math.sqrt(q.shape[-1])
    changed = float(z.nan_to_num(0, 0, 0).abs().max())
    off = unit_roundoff(dtype) * (2 * (q.shape[-1] + 12) * products + 4 * changed)
    return relative_error(off, length, dtype)


@torch.no_grad()
def _output_error(rotate: Rotate, attend: Attend, generator: torch.Generator) -> float:
    """Return the largest error of outputs over its bound, in float32."""
    worst = 0.0
    length = int(torch.randint(*FORWARD, (), generator=generator))
    q, k, v = _normal(3, 2, 3, length, 16, generator=generator).unbind()
    positions = torch.arange(length) + int(
        torch.randint(FARTHEST, (), generator=generator)
    )
    for variant in draw_variants(2, 3, length, generator, torch.float32):
        own_q, own_k = (rotate(t.clone(), positions) for t in (q, k))
        found = attend(own_q, own_k, v.clone(), Counted(variant.score_mod))
        found = _require_like("attend", found, v)
        exact_q, exact_k = (rotated(t.double(), positions) for t in (q, k))
        z, weights = naive_weights(exact_q, exact_k, variant.score_mod)
        relative = _bound(z, exact_q, exact_k, length, torch.float32)
        right, size = weights @ v.double(), weights @ v.double().abs()
        error = error_over_bound(found.double(), right, size, relative)
        worst = max(worst, error)
    return worst


def _gradient_error(attend: Attend, generator: torch.Generator) -> float:
    """Return the largest error of gradients over its bound, in float64."""
    worst = 0.0
    length = int(torch.randint(*BACKWARD, (), generator=generator))
    shape = 2, 1, length, 16
    for variant in draw_variants(2, 1, length, generator, torch.float64):
        numbers = _normal(4, *shape, generator=generator, dtype=torch.float64)
        *inputs, gradient = numbers.unbind()
        q, k, v = inputs
        leaves = [t.requires_grad_() for t in (*inputs, *variant.captured)]
        found = attend(q, k, v, Counted(variant.score_mod))
        got = torch.autograd.grad(
            _require_like("attend", found, v),
            leaves,
            gradient,
            allow_unused=True,
            materialize_grads=True,
        )
        z, weights = naive_weights(q, k, variant.score_mod)
        right = torch.autograd.grad(weights @ v, leaves, gradient, retain_graph=True)
        of_logits = softmax_magnitudes(weights, v, gradient).detach()
        sizes = attention_magnitudes(weights, of_logits, q, k, v, gradient)
        of_captured = (
            torch.autograd.grad(z, variant.captured, of_logits)
            if variant.captured
            else ()
        )
        relative = _bound(z.detach(), q.detach(), k.detach(), length, torch.float64)
        every = [sizes["q"], sizes["k"], sizes["v"], *of_captured]
        for triple in zip(got, right, every, strict=True):
            worst = max(worst, error_over_bound(*triple, relative))
    return worst


@torch.no_grad()
def _costs(
    rotate: Rotate, attend: Attend, generator: torch.Generator
) -> dict[str, float]:
    """Return keys at a time, scores, largest tensor and times at 4096 tokens."""
    q, k, v = (_normal(1, HEADS, LENGTH, D, generator=generator) for _ in range(3))
    positions = torch.arange(LENGTH)
    slopes = 2.0 ** -torch.arange(1, HEADS + 1)

    def alibi(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return s - slopes[h] * (i - j)

    def run(score_mod: ScoreMod) -> Tensor:
        return attend(rotate(q, positions), rotate(k, positions), v, score_mod)

    def naive_run() -> Tensor:
        return naive(rotated(q, positions), rotated(k, positions), v, alibi)

    def limit() -> Tensor:
        own_q, own_k = rotated(q, positions), rotated(k, positions)
        return scaled_dot_product_attention(own_q, own_k, v, is_causal=True)

    counted = Counted(alibi)
    with Recorder() as recorder:
        run(counted)
    seconds = _seconds({"naive": naive_run, "run": lambda: run(alibi), "limit": limit})
    return {
        "keys at a time": counted.keys,
        "scores": counted.scores / (HEADS * LENGTH**2),
        "largest tensor": recorder.largest / (q.numel() * q.element_size()),
        "time": median(map(truediv, seconds["run"], seconds["naive"])),
        "time of scaled_dot_product_attention": median(
            map(truediv, seconds["limit"], seconds["naive"])
        ),
    }


def _seconds(runs: Mapping[str, Callable[[], Tensor]]) -> dict[str, list[float]]:
    """Return the CPU seconds of calls in turns, of each function but for its first."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(REPEATS + 1):
        for name, run in runs.items():
            started = time.process_time()
            run()
            if turn:
                seconds[name].append(time.process_time() - started)
    return seconds


def plot(report: Report) -> Figure:
    """Draw the times over the naive one's, and each quantity over its goal's bound."""
    figure, ((above,), (below,)) = canvas(2, 1, figsize=(5.6, 5.6))
    names = "time", "time of scaled_dot_product_attention"
    for found in report.measured:
        values = [1.0, *(found[name] for name in names)]
        above.plot(range(3), values, "o", color=COLORS[0], alpha=0.7)
    limit = next(goal.most for goal in GOALS if goal.quantity == "time")
    above.axhline(limit, color=COLORS[1], linestyle="--", label="goal")
    above.set(ylabel="time / time of the formula", ylim=(0, 1.1), xlim=(-0.5, 2.5))
    above.set_xticks(range(3), ("formula", "tiles", "PyTorch's kernel,\nno score_mod"))
    above.legend(loc="upper right")
    draw_shares_of_bounds(below, report, GOALS)
    shares = [median(found[name] for found in report.measured) for name in names]
    reached = f"{sum(report.reached)} of {len(report.seeds)} seeds"
    return finish(
        figure,
        caption=f"Above: times at {LENGTH} tokens over the formula's; tiles "
        f"{shares[0]:.2f}, PyTorch's kernel {shares[1]:.2f} (medians). Below: every "
        f"quantity over the bound of its goal. Points are seeds; {reached} reach all "
        "goals.",
        alt=f"Above: points at 1 for the formula, near {shares[0]:.2f} for tiles and "
        f"near {shares[1]:.2f} for PyTorch's kernel, and a dashed line at {limit:g}. "
        f"Below: points for each of {len(GOALS)} goals on a logarithmic axis; points "
        "left of the dashed line at 1 reach their goal.",
    )


PROJECT = Project(
    name="kernel",
    title="Project: a kernel for RoPE with any score_mod",
    part="Rotations",
    minutes=90,
    cpu_minutes=1,
    uses=("rope-3", "rope-7", "permutation-equivariance-7"),
    answers=("rotate", "attend"),
    measure=measure,
    goals=GOALS,
    plot=plot,
)
