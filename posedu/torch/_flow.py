"""Follow a flow step by step, forward and back, as one operation for a compiler.

How many steps there are only the positions say, and so no compiler can unroll them: to
it the loop is a custom operation, which has a gradient of its own, that of the steps.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Of each tableau the places of the stages, what each stage adds of the slopes before,
# and the weights of the slopes.
_TABLEAUX = {
    "classical": (
        (0.0, 0.5, 0.5, 1.0),
        ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
        (1 / 6, 1 / 3, 1 / 3, 1 / 6),
    ),
    "3/8": (
        (0.0, 1 / 3, 2 / 3, 1.0),
        ((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)),
        (1 / 8, 3 / 8, 3 / 8, 1 / 8),
    ),
}
_FLUSH = 256  # stages whose share of the gradient is kept before it is summed


def flow(
    start: Tensor,
    field: Sequence[Tensor],
    positions: Tensor,
    *,
    tableau: str,
    delta: float,
    steps: int,
    farthest: int,
    largest: float,
) -> Tensor:
    """P at each position: float64 ``[*positions, states, width]``. ``def-floater``.

    ``field`` are the inner weights and biases, then the outer ones.

    Raises
    ------
    ValueError
        A position farther than ``farthest``; a flow that is not finite, or larger than
        ``largest``, at one of them.
    """
    wide = [t.to(torch.float64) for t in (start, *field)]
    out = _follow(
        *wide, positions.flatten(), tableau, delta / steps, steps, farthest, largest
    )
    return out.unflatten(0, positions.shape)


class _Net(NamedTuple):
    """The field, as it multiplies rows: ``a`` and ``b`` without the time's weights."""

    a: Tensor
    a_time: Tensor
    a_bias: Tensor
    b: Tensor
    b_time: Tensor
    b_bias: Tensor


class _Stage(NamedTuple):
    """What a stage of a step read and what its hidden units were."""

    time: Tensor | float
    y: Tensor
    hidden: Tensor


def _net(inner: Tensor, inner_bias: Tensor, outer: Tensor, outer_bias: Tensor) -> _Net:
    a, a_time = inner[:, :-1].T, inner[:, -1]
    b, b_time = outer[:, :-1].T, outer[:, -1]
    return _Net(a, a_time, inner_bias, b, b_time, outer_bias)


def _step(
    net: _Net, time: Tensor | float, p: Tensor, step: Tensor | float, tableau: str
) -> tuple[Tensor, list[_Stage]]:
    """One step, and the stages of it."""
    places, rows, weights = _TABLEAUX[tableau]
    stages: list[_Stage] = []
    slopes: list[Tensor] = []
    for place, row in zip(places, rows, strict=True):
        y = _moved(p, step, row, slopes)
        now = time + place * step
        hidden = (y @ net.a + (now * net.a_time + net.a_bias)).relu()
        slopes.append(hidden @ net.b + (now * net.b_time + net.b_bias))
        stages.append(_Stage(now, y, hidden))
    return _moved(p, step, weights, slopes), stages


def _moved(
    p: Tensor, step: Tensor | float, weights: Sequence[float], slopes: list[Tensor]
) -> Tensor:
    for weight, slope in zip(weights, slopes, strict=True):
        if weight:
            p = p + weight * step * slope
    return p


class _Sums:
    """The gradients of the field's parameters, a sum over all stages."""

    def __init__(self, net: _Net):
        self.net = net
        self.totals = [torch.zeros_like(t) for t in net]
        self.kept: list[tuple[_Stage, Tensor, Tensor]] = []

    def pull(self, stage: _Stage, g: Tensor) -> Tensor:
        """The gradient to what a stage read, from that to its slope."""
        to_z = (g @ self.net.b.T) * (stage.hidden > 0)
        self.kept.append((stage, to_z, g))
        if len(self.kept) == _FLUSH:
            self._flush()
        return to_z @ self.net.a.T

    def _flush(self) -> None:
        if not self.kept:
            return
        stages, to_z, to_slope = zip(*self.kept, strict=True)
        times = torch.cat([_times(stage) for stage in stages])
        y, hidden = (_rows(s[n] for s in stages) for n in (1, 2))
        z, slope = _rows(to_z), _rows(to_slope)
        to_inner = y.T @ z, times @ z, z.sum(0)
        to_outer = hidden.T @ slope, times @ slope, slope.sum(0)
        sums = (*to_inner, *to_outer)
        self.totals = [t + s for t, s in zip(self.totals, sums, strict=True)]
        self.kept = []

    def finished(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As the parameters are shaped."""
        self._flush()
        a, a_time, a_bias, b, b_time, b_bias = self.totals
        inner = torch.cat((a.T, a_time[:, None]), 1)
        return inner, a_bias, torch.cat((b.T, b_time[:, None]), 1), b_bias


def _rows(tensors: Iterator[Tensor] | Sequence[Tensor]) -> Tensor:
    return torch.cat([t.flatten(0, -2) for t in tensors])


def _times(stage: _Stage) -> Tensor:
    shape = stage.y.shape[:-1]
    if isinstance(stage.time, Tensor):
        return stage.time[..., 0].expand(shape).flatten()
    return stage.y.new_full((shape.numel(),), stage.time)


def _step_back(
    sums: _Sums, step: Tensor | float, tableau: str, stages: list[_Stage], g: Tensor
) -> Tensor:
    """The gradient to where a step started, from that to where it ended."""
    _, rows, weights = _TABLEAUX[tableau]
    to_slopes = [weight * step * g for weight in weights]
    to_start = g
    for n in reversed(range(len(stages))):
        to_y = sums.pull(stages[n], to_slopes[n])
        to_start = to_start + to_y
        for m, weight in enumerate(rows[n]):
            if weight:
                to_slopes[m] = to_slopes[m] + weight * step * to_y
    return to_start


class _Places(NamedTuple):
    """Where positions lie: the last node before each, and the rest of a step."""

    last: dict[int, int]
    node: Tensor
    time: Tensor
    rest: Tensor


def _places(positions: Tensor, step: float, steps: int) -> _Places:
    count = positions.abs() * steps
    whole = count.floor()
    is_before = positions < 0
    sign = 1.0 - 2.0 * is_before
    last = {
        1: int(whole.masked_fill(is_before, 0).max()),
        -1: int(whole.masked_fill(~is_before, 0).max()),
    }
    node = whole.long() + is_before * (last[1] + 1)
    time, rest = sign * whole * step, sign * (count - whole) * step
    return _Places(last, node, time[:, None, None], rest[:, None, None])


def _nodes(
    net: _Net, start: Tensor, last: dict[int, int], step: float, tableau: str
) -> Tensor:
    """The states at the multiples of ``step`` from 0 on, then from 0 back."""
    nodes = []
    for direction, count in last.items():
        p = start
        nodes.append(p)
        for n in range(count):
            p, _ = _step(net, direction * n * step, p, direction * step, tableau)
            nodes.append(p)
    return torch.stack(nodes)


@torch.library.custom_op("posedu::flow", mutates_args=())
def _follow(
    start: Tensor,
    inner: Tensor,
    inner_bias: Tensor,
    outer: Tensor,
    outer_bias: Tensor,
    positions: Tensor,
    tableau: str,
    step: float,
    steps: int,
    farthest: int,
    largest: float,
) -> Tensor:
    if positions.numel() == 0:
        return start.new_empty(0, *start.shape)
    far = positions.abs().max().item()
    if not far <= farthest:
        raise ValueError(
            f"positions must be at most farthest = {farthest} in size, for the flow "
            f"is followed step by step; got {far:g}"
        )
    net = _net(inner, inner_bias, outer, outer_bias)
    at = _places(positions, step, steps)
    out = _nodes(net, start, at.last, step, tableau)[at.node]
    out, _ = _step(net, at.time, out, at.rest, tableau)
    size = out.abs().max().item()
    if not size <= largest:
        raise ValueError(
            f"the flow must stay below {largest:.3g} for this dtype, got {size:.3g} "
            "before the farthest position; give a smaller delta"
        )
    return out


@_follow.register_fake
def _(start: Tensor, *others: Any) -> Tensor:
    return start.new_empty(others[4].shape[0], *start.shape)


@torch.library.custom_op("posedu::flow_back", mutates_args=())
def _follow_back(
    gradient: Tensor,
    start: Tensor,
    inner: Tensor,
    inner_bias: Tensor,
    outer: Tensor,
    outer_bias: Tensor,
    positions: Tensor,
    tableau: str,
    step: float,
    steps: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    net = _net(inner, inner_bias, outer, outer_bias)
    sums = _Sums(net)
    if positions.numel() == 0:
        return torch.zeros_like(start), *sums.finished()
    at = _places(positions, step, steps)
    nodes = _nodes(net, start, at.last, step, tableau)
    _, stages = _step(net, at.time, nodes[at.node], at.rest, tableau)
    to_last = _step_back(sums, at.rest, tableau, stages, gradient)
    to_nodes = torch.zeros_like(nodes).index_add_(0, at.node, to_last)
    to_start = torch.zeros_like(start)
    first = 0
    for direction, count in at.last.items():
        g = to_nodes[first + count]
        for n in reversed(range(count)):
            time, own = direction * n * step, direction * step
            _, stages = _step(net, time, nodes[first + n], own, tableau)
            g = to_nodes[first + n] + _step_back(sums, own, tableau, stages, g)
        to_start = to_start + g
        first += count + 1
    return to_start, *sums.finished()


@_follow_back.register_fake
def _(gradient: Tensor, *others: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(t) for t in others[:5])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.options = inputs[6:9]


def _pull(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    found = _follow_back(gradient, *ctx.saved_tensors, *ctx.options)
    return *found, *[None] * 6


def _refuse(ctx: Any, *gradients: Tensor) -> None:
    raise NotImplementedError(
        "FLOATER has no second derivative: do without create_graph=True"
    )


_follow.register_autograd(_pull, setup_context=_keep)
_follow_back.register_autograd(_refuse)
