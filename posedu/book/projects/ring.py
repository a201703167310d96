"""Project: attention over a sequence that is split among four ranks in a ring."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posedu._argument_types import short_repr
from posedu.book.figures import COLORS, Figure, canvas, finish
from posedu.book.projects.exchange import Program, replay, simulate
from posedu.book.projects.plots import draw_shares_of_bounds
from posedu.book.projects.recording import Recorder
from posedu.book.projects.records import Goal, Project, Report
from posedu.book.projects.rounding import (
    attention_magnitudes,
    error_over_bound,
    relative_error,
    softmax_magnitudes,
    stick_magnitudes,
)
from posedu.torch.stickbreaking import break_stick_log, softplus

RANKS, HEADS, D = 4, 2, 8
LENGTHS = 240, 400
SHORT = 40, 60  # so short that the bound of rounding is far below e^−20
STATISTICS = "FoX error", "stick error", "merge error"
GOALS = (
    *(Goal(name, most=1) for name in STATISTICS),
    Goal("bytes", most=0.85),
    Goal("work", most=1.4),
    Goal("largest tensor", most=1.05),
)
Merge = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Problem:
    """Queries, keys and values of all tokens, and logarithms of forget gates.

    ``log_f`` is None for stick-breaking attention. ``gradient`` is that of the output.
    """

    q: Float[Tensor, "heads tokens d"]
    k: Float[Tensor, "heads tokens d"]
    v: Float[Tensor, "heads tokens d"]
    log_f: Float[Tensor, "heads tokens"] | None
    gradient: Float[Tensor, "heads tokens d"]

    def inputs(self) -> list[Tensor]:
        """Return q, k, v and, if there are gates, the logarithms of gates."""
        every = (self.q, self.k, self.v, self.log_f)
        return [t for t in every if t is not None]


def draw(
    length: int,
    generator: torch.Generator,
    *,
    size: float = 1.0,
    gate: float | None = None,
) -> Problem:
    """Draw a problem of ``length`` tokens in float64.

    Queries and keys are normal with deviation ``size``. ``gate`` is the mean of the
    logits of forget gates, whose deviation is 1; None: there are no gates.
    """
    numbers = torch.randn(
        4, HEADS, length, D, generator=generator, dtype=torch.float64
    ).unbind()
    q, k, v, gradient = numbers
    log_f = None
    if gate is not None:
        logits = torch.randn(HEADS, length, generator=generator, dtype=torch.float64)
        log_f = torch.nn.functional.logsigmoid(logits + gate)
    return Problem(size * q, size * k, v, log_f, gradient)


def single_device(
    problem: Problem,
) -> tuple[Float[Tensor, "heads tokens d"], list[Tensor], list[Tensor], float]:
    """Return the attention of one device, without a ring, and bounds of its rounding.

    These are the output, the gradients of the problem's inputs, the sums of absolute
    values of all of them, the output's first, and the relative error of the bound. With
    gates, attention is FoX; without, stick-breaking without a query's own key.
    """
    inputs = [t.clone().requires_grad_() for t in problem.inputs()]
    q, k, v, *gates = inputs
    length, root = q.shape[1], q.shape[2] ** 0.5
    z = q @ k.mT / root
    largest = (q.detach().abs() @ k.detach().abs().mT).max() / root
    if gates:
        c = gates[0].cumsum(-1)
        bias = c[..., :, None] - c[..., None, :]
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = (z + bias).masked_fill(hidden, -math.inf).softmax(-1)
        sums = 2 * c.detach().abs().max()
    else:
        weights, log_rest = break_stick_log(z, attend_current=False)
        sums = -log_rest.detach().min()
    out = weights @ v
    gradients = torch.autograd.grad(out, inputs, problem.gradient)
    with torch.no_grad():
        if gates:
            of_logits = softmax_magnitudes(weights, v, problem.gradient)
        else:
            of_logits = stick_magnitudes(weights, z.sigmoid(), v, problem.gradient)
        sizes = attention_magnitudes(weights, of_logits, q, k, v, problem.gradient)
        every = [sizes[name] for name in ("out", "q", "k", "v")]
        if gates:  # a gate is in the bias of some of all pairs
            every.append(of_logits.sum((-1, -2)))
    u = torch.finfo(torch.float64).eps / 2
    off = u * float((D + 2) * largest + (length + 2) * sums)
    return out.detach(), list(gradients), every, relative_error(off, length)


def measure(
    split: Callable[..., Any],
    merge: Merge,
    fox: Program,
    merge_sticks: Merge,
    sticks: Program,
    *,
    seed: int,
) -> Mapping[str, float]:
    """Measure a learner's split, merges and the programs of a rank, in this order.

    The first function that is not written ends the measurement, without the quantities
    that need it; ``NotImplementedError`` is raised if there are none.

    "FoX error" and "stick error" are the largest errors, over their bounds, of outputs
    and of gradients; "merge error" is that of the two merges, with the gradients of
    values. The short text counts for the stick error alone. "bytes" are those that the
    busiest rank sends, forward, over the bytes of all keys and values. "work" is the
    number of multiplications of the busiest rank, over that of exactly the causal
    pairs, divided by the number of ranks. "largest tensor" is that of a rank, over the
    logits of the largest share's queries with as many keys. "work of rank n" is for the
    plot.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(*LENGTHS, (5,), generator=generator).tolist()
    drawn.append(int(torch.randint(*SHORT, (), generator=generator)))
    shares = {length: require_shares(split(length, RANKS), length) for length in drawn}
    gated = [
        draw(drawn[0], generator, gate=4.0),
        draw(drawn[1], generator, size=20.0, gate=3.0),
        draw(drawn[2], generator, gate=-6.0),
    ]
    ungated = [draw(drawn[3], generator), draw(drawn[4], generator, size=20.0)]
    short = draw(drawn[5], generator, size=4.0)
    found: dict[str, float] = {}
    runs: list[dict[str, float]] = []
    try:
        of_softmax = _merge_error(merge, generator)
        found["merge error"] = of_softmax
        of_fox = [_run(fox, problem, shares) for problem in gated]
        _require_isolation(fox, gated[0], shares, generator)
        found["FoX error"] = max(run["error"] for run in of_fox)
        runs += of_fox
        of_merged_sticks = _stick_merge_error(merge_sticks, generator)
        found["merge error"] = max(of_softmax, of_merged_sticks)
        of_sticks = [_run(sticks, problem, shares) for problem in ungated]
        _require_isolation(sticks, ungated[0], shares, generator)
        of_short = _run(sticks, short, shares)
        found["stick error"] = max(run["error"] for run in (*of_sticks, of_short))
        runs += of_sticks
    except NotImplementedError as error:
        if error.args or not found:
            raise
    works = {}
    if runs:
        for name in ("bytes", "largest tensor"):
            found[name] = max(run[name] for run in runs)
        names = [f"work of rank {rank}" for rank in range(RANKS)]
        works = {name: max(run[name] for run in runs) for name in names}
        found["work"] = max(works.values())
    order = [goal.quantity for goal in GOALS]
    return {name: found[name] for name in order if name in found} | works


def require_shares(shares: object, length: int) -> list[Int[Tensor, "tokens"]]:
    """Return the ranks' shares of the tokens if they are a fair split, else raise.

    Raises
    ------
    TypeError, ValueError
        If they are no list of a tensor of positions for each rank, in increasing order;
        if a token has no rank, or several; if one rank has over 4 tokens more than
        another.
    """
    if not isinstance(shares, list | tuple) or not all(
        isinstance(t, Tensor) and t.dtype == torch.int64 and t.ndim == 1 for t in shares
    ):
        raise TypeError(
            f"split must return a list of {RANKS} int64 tensors of positions, got "
            f"{short_repr(shares)}"
        )
    if len(shares) != RANKS:
        raise ValueError(f"split must return {RANKS} tensors, got {len(shares)}")
    if not torch.equal(torch.cat(list(shares)).sort().values, torch.arange(length)):
        raise ValueError(
            f"split({length}, {RANKS}) must give every token from 0 to {length - 1} to "
            "one rank: a token is missing, or has several"
        )
    for rank, positions in enumerate(shares):
        if not (positions.diff() > 0).all():
            raise ValueError(f"the positions of rank {rank} must be increasing")
    sizes = [len(t) for t in shares]
    if max(sizes) - min(sizes) > RANKS:
        raise ValueError(
            f"split({length}, {RANKS}) gives the ranks {sizes} tokens, but a rank has "
            f"memory for at most {RANKS} more than another"
        )
    return list(shares)


def arguments_of(
    problem: Problem, shares: Sequence[Int[Tensor, "tokens"]]
) -> list[tuple[Any, ...]]:
    """Return the arguments of each rank's program: its number, all shares, its tensors.

    The tensors are copies of the rank's part of q, k, v and, if there are gates, log_f.
    """
    return [
        (
            rank,
            [t.clone() for t in shares],
            *(t[:, share].clone() for t in problem.inputs()),
        )
        for rank, share in enumerate(shares)
    ]


def gathered(
    parts: Sequence[Tensor], shares: Sequence[Int[Tensor, "tokens"]]
) -> Tensor:
    """Return the ranks' results, whose second axis is that of tokens, as one tensor."""
    return torch.cat(list(parts), 1)[:, torch.cat(list(shares)).argsort()]


def _run(
    program: Program,
    problem: Problem,
    every_share: Mapping[int, list[Int[Tensor, "tokens"]]],
) -> dict[str, float]:
    """Run a program on all ranks; return its error, bytes, work and largest tensor."""
    out, gradients, sizes, relative = single_device(problem)
    shares = every_share[problem.q.shape[1]]
    arguments = arguments_of(problem, shares)
    leaves = [[t.requires_grad_() for t in given[2:]] for given in arguments]
    recorders = [Recorder() for _ in shares]
    exchanged = simulate(program, arguments, recorders)
    outputs = [
        _require_output(output, given)
        for output, given in zip(exchanged.outputs, leaves, strict=True)
    ]
    flat = [t for given in leaves for t in given]
    found = torch.autograd.grad(
        outputs,
        flat,
        [problem.gradient[:, share] for share in shares],
        allow_unused=True,
        materialize_grads=True,
    )
    kinds = len(leaves[0])
    whole = [gathered(found[n::kinds], shares) for n in range(kinds)]
    right, got = [out, *gradients], [gathered(outputs, shares), *whole]
    length = out.shape[1]
    ideal = 2 * HEADS * D * length * (length + 1) / 2 / len(shares)
    share = max(len(t) for t in shares)
    item = out.element_size()
    return {
        "error": max(
            error_over_bound(one.detach(), other, size, relative)
            for one, other, size in zip(got, right, sizes, strict=True)
        ),
        "bytes": max(exchanged.sent) / (2 * HEADS * length * D * item),
        "largest tensor": max(r.largest for r in recorders) / (HEADS * share**2 * item),
    } | {
        f"work of rank {rank}": recorder.multiplications / ideal
        for rank, recorder in enumerate(recorders)
    }


def _require_output(output: object, given: list[Tensor]) -> Tensor:
    """Return the output of a rank if its shape and dtype are right, else raise."""
    needed = list(given[0].shape)
    if not isinstance(output, Tensor) or list(output.shape) != needed:
        got = list(output.shape) if isinstance(output, Tensor) else short_repr(output)
        raise ValueError(f"a rank must return outputs of shape {needed}, got {got}")
    if output.dtype != torch.float64:
        raise ValueError(f"a rank's outputs must be float64, got {output.dtype}")
    if not output.requires_grad:
        raise ValueError(
            "a rank's outputs have no gradient: leave out .detach(), torch.no_grad() "
            "and NumPy"
        )
    return output


@torch.no_grad()
def _require_isolation(
    program: Program,
    problem: Problem,
    every_share: Mapping[int, list[Int[Tensor, "tokens"]]],
    generator: torch.Generator,
) -> None:
    """Raise unless a rank's output follows from its arguments and messages alone.

    Another problem is run in between, so that a variable that ranks share has its data.
    """
    shares = every_share[problem.q.shape[1]]
    exchanged = simulate(program, arguments_of(problem, shares))
    gate = None if problem.log_f is None else 0.0
    simulate(
        program, arguments_of(draw(problem.q.shape[1], generator, gate=gate), shares)
    )
    for rank, given in enumerate(arguments_of(problem, shares)):
        again = replay(program, given, exchanged.received[rank])
        same = torch.equal(again.nan_to_num(), exchanged.outputs[rank].nan_to_num())
        if not same:
            raise ValueError(
                f"rank {rank} with the same arguments and messages has another output: "
                "a rank may use its arguments and messages, and no variable of others"
            )


def _merge_error(merge: Merge, generator: torch.Generator) -> float:
    """Return the error over its bound of merged statistics of a softmax.

    The logits of three sets of keys are merged in two orders and in reverse. Some rows
    have no key in the first set, or in the first two.
    """
    logits = 300 * torch.randn(3, 2, 5, 7, generator=generator, dtype=torch.float64)
    logits[0, :, 0] = logits[:2, :, 1] = -math.inf
    v = torch.randn(3, 2, 7, D, generator=generator, dtype=torch.float64)
    v.requires_grad_()
    parts = []
    for z, values in zip(logits, v, strict=True):
        maximum = z.max(-1).values
        shifted = (z - maximum[..., None]).nan_to_num(-math.inf, neginf=-math.inf).exp()
        parts.append((maximum, shifted.sum(-1), shifted @ values))
    a, b, c = parts
    z, values = (torch.cat(t.unbind(), dim) for t, dim in ((logits, -1), (v, -2)))
    weights = z.softmax(-1)
    right, size = weights @ values, weights @ values.abs()
    worst = 0.0
    for found in (
        _merged(merge, _merged(merge, a, b), c),
        _merged(merge, a, _merged(merge, b, c)),
        _merged(merge, c, _merged(merge, b, a)),
    ):
        if not torch.equal(found[0], z.max(-1).values):
            return math.inf
        output = found[2] / found[1][..., None]
        relative = relative_error(0.0, 21)
        error = error_over_bound(output, right, size, relative)
        worst = max(worst, error, _gradient_error(output, right, v, relative))
    return worst


def _stick_merge_error(merge: Merge, generator: torch.Generator) -> float:
    """Return the error over its bound of merged statistics of broken sticks."""
    z = 2 * torch.randn(3, 2, 5, 7, generator=generator, dtype=torch.float64)
    z[0, :, 0] += 1000
    v = torch.randn(3, 2, 7, D, generator=generator, dtype=torch.float64)
    v.requires_grad_()
    parts = []
    for logits, values in zip(z, v, strict=True):  # the oldest keys first
        spent = softplus(logits).flip(-1).cumsum(-1).flip(-1)
        parts.append((-spent[..., 0], (logits - spent).exp() @ values))
    old, middle, near = parts
    logits, values = (torch.cat(t.unbind(), dim) for t, dim in ((z, -1), (v, -2)))
    spent = softplus(logits).flip(-1).cumsum(-1).flip(-1)
    weights = (logits - spent).exp()
    right = -spent[..., 0], weights @ values
    sizes = right[0], weights @ values.abs()
    off = float(torch.finfo(torch.float64).eps * 22 * spent.max())
    relative = relative_error(off, 21)
    worst = 0.0
    for found in (
        _merged(merge, _merged(merge, near, middle), old),
        _merged(merge, near, _merged(merge, middle, old)),
    ):
        for triple in zip(found, right, sizes, strict=True):
            worst = max(worst, error_over_bound(*triple, relative))
        worst = max(worst, _gradient_error(found[1], right[1], v, relative))
    return worst


def _gradient_error(found: Tensor, right: Tensor, v: Tensor, relative: float) -> float:
    """Return the error over its bound of the gradients of values of a sum of outputs.

    The gradients are sums of weights, so they are their own sums of absolute values.
    """
    got, needed = (
        torch.autograd.grad(t.sum(), v, retain_graph=True)[0] for t in (found, right)
    )
    return error_over_bound(got, needed, needed, relative)


def _merged(
    merge: Merge, one: tuple[Tensor, ...], other: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Return the merged statistics if they have the shapes of ``one``, else raise."""
    found = merge(tuple(t.clone() for t in one), tuple(t.clone() for t in other))
    needed = [list(t.shape) for t in one]
    if not isinstance(found, tuple) or not all(isinstance(t, Tensor) for t in found):
        raise TypeError(
            f"a merge must return a tuple of {len(one)} tensors, got "
            f"{short_repr(found)}"
        )
    if [list(t.shape) for t in found] != needed:
        raise ValueError(
            f"a merge must return tensors of shapes {needed}, those that it is given; "
            f"got {[list(t.shape) for t in found]}"
        )
    if not found[-1].requires_grad:
        raise ValueError(
            "a merge's outputs have no gradient: leave out .detach(), torch.no_grad() "
            "and NumPy"
        )
    return found


def plot(report: Report) -> Figure:
    """Draw the work of every rank, and each quantity over the bound of its goal."""
    figure, ((above,), (below,)) = canvas(2, 1, figsize=(5.6, 5.6))
    of_programs = [found for found in report.measured if "work" in found]
    for found in of_programs:
        works = [found[f"work of rank {rank}"] for rank in range(RANKS)]
        above.plot(range(RANKS), works, "o-", color=COLORS[0], alpha=0.7)
    above.axhline(
        1, color=COLORS[2], linestyle=":", label="causal pairs, shared evenly"
    )
    limit = next(goal.most for goal in GOALS if goal.quantity == "work")
    above.axhline(limit, color=COLORS[1], linestyle="--", label="goal")
    above.set(xlabel="rank", ylabel="work", ylim=(0, None))
    above.set_xticks(range(RANKS))
    above.legend(loc="lower right")
    draw_shares_of_bounds(below, report, GOALS)
    most = max((found["work"] for found in of_programs), default=None)
    work = "not measured" if most is None else f"at most {most:.2f}"
    reached = f"{sum(report.reached)} of {len(report.seeds)} seeds"
    return finish(
        figure,
        caption=f"Above: the work of each rank, over an even share of exactly the "
        f"causal pairs; {work}. Below: every quantity over the bound of its goal. "
        f"Points are seeds; {reached} reach all goals.",
        alt=f"Above: points for the work of four ranks, {work}, and a dashed line at "
        f"{limit:g}. Below: points for each of {len(GOALS)} goals on a logarithmic "
        "axis; points left of the dashed line at 1 reach their goal.",
    )


PROJECT = Project(
    name="ring",
    title="Project: ring attention with content-dependent positions",
    part="Content-dependent positions",
    minutes=120,
    cpu_minutes=1,
    uses=("fox-3", "stickbreaking-5", "stickbreaking-6"),
    answers=("split", "merge", "fox_rank", "merge_sticks", "sticks_rank"),
    measure=measure,
    goals=GOALS,
    plot=plot,
)
