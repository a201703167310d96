"""Runge–Kutta solution of FLOATER's neural ODE and its gradient, as one operation.

The number of steps depends on the values of the positions, so that no compiler can
unroll the loop. The loop is therefore a custom operation, whose gradient is the exact
gradient of the steps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Butcher tableaux: the nodes of the stages, the coefficients of earlier slopes in each
# stage, and the weights of the slopes.
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
_CHUNK = 64  # steps whose stages the backward keeps in memory at once


def integrate(
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
    """Return the solution of FLOATER's neural ODE at each position, in float64.

    The shape is ``[*positions, states, width]``. Equation ``def-floater``. ``start``
    are the states at position 0, ``[states, width]``. ``field`` are the weights and
    biases of the network that gives the slope: weight and bias of the inner layer, then
    weight and bias of the outer layer. From one whole position to the next, the solver
    takes ``steps`` steps with the coefficients named ``tableau``, through the time
    ``delta``.

    Raises
    ------
    ValueError
        A position beyond ``farthest``; a solution that at one of the positions is not
        finite or larger than ``largest``.
    """
    wide = [t.to(torch.float64) for t in (start, *field)]
    out = _integrate(
        *wide, positions.flatten(), tableau, delta / steps, steps, farthest, largest
    )
    return out.unflatten(0, positions.shape)


class _Net(NamedTuple):
    """Transposed weights and biases of the two-layer network that gives the slope.

    The slope is the right-hand side of FLOATER's ODE. ``a`` and ``a_bias`` belong to
    the inner layer, ``b`` and ``b_bias`` to the outer layer. The weights of the input
    "time" of both layers are separate: ``a_time`` and ``b_time``.
    """

    a: Tensor
    a_time: Tensor
    a_bias: Tensor
    b: Tensor
    b_time: Tensor
    b_bias: Tensor


class _Stage(NamedTuple):
    """Inputs and hidden units of FLOATER's network in a stage of a Runge–Kutta step.

    The inputs are the time of the stage and the state ``y``; ``hidden`` are the hidden
    units after the ReLU.
    """

    time: Tensor
    y: Tensor
    hidden: Tensor


def _net(inner: Tensor, inner_bias: Tensor, outer: Tensor, outer_bias: Tensor) -> _Net:
    a, a_time = inner[:, :-1].T, inner[:, -1]
    b, b_time = outer[:, :-1].T, outer[:, -1]
    return _Net(a, a_time, inner_bias, b, b_time, outer_bias)


def _step(
    net: _Net, time: Tensor, p: Tensor, step: Tensor, tableau: str
) -> tuple[Tensor, list[_Stage]]:
    """Take one Runge–Kutta step; return the state after the step, and its stages.

    The step goes from the state ``p`` at ``time`` to ``time + step``. ``net`` gives the
    slope; ``tableau`` names the coefficients, ``"classical"`` or ``"3/8"``.
    """
    places, rows, weights = _TABLEAUX[tableau]
    stages: list[_Stage] = []
    slopes: list[Tensor] = []
    for place, row in zip(places, rows, strict=True):
        y = _advanced(p, step, row, slopes)
        now = torch.add(time, step, alpha=place)
        hidden = (y @ net.a + torch.addcmul(net.a_bias, now, net.a_time)).relu()
        slopes.append(hidden @ net.b + torch.addcmul(net.b_bias, now, net.b_time))
        stages.append(_Stage(now, y, hidden))
    return _advanced(p, step, weights, slopes), stages


def _advanced(
    p: Tensor, step: Tensor, weights: Sequence[float], slopes: list[Tensor]
) -> Tensor:
    """Return the state ``p`` plus ``step`` times the weighted sum of ``slopes``.

    ``step`` is a length of time; ``slopes`` are the network's slopes in the stages of a
    Runge–Kutta step, with one of the ``weights`` each.
    """
    for weight, slope in zip(weights, slopes, strict=True):
        if weight:
            p = torch.addcmul(p, step, slope, value=weight)
    return p


class _Sums:
    """Gradients of FLOATER's network, summed over all Runge–Kutta stages."""

    def __init__(self, net: _Net):
        self.net = net
        self.totals = [torch.zeros_like(t) for t in net]

    def add(self, stages: list[_Stage], to_slopes: Sequence[Tensor]) -> None:
        """Add the gradients that ``stages`` give to the network's weights and biases.

        ``to_slopes`` are the gradients of the slopes, one tensor for each stage.
        """
        times, y, hidden = map(_rows, zip(*map(_with_times, stages), strict=True))
        slope = _rows(to_slopes)
        z = (slope @ self.net.b.T) * (hidden > 0)
        to_inner = y.T @ z, times[:, 0] @ z, z.sum(0)
        to_outer = hidden.T @ slope, times[:, 0] @ slope, slope.sum(0)
        sums = (*to_inner, *to_outer)
        self.totals = [t + s for t, s in zip(self.totals, sums, strict=True)]

    def finished(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the summed gradients of the network's weights and biases.

        In this order: inner weight, inner bias, outer weight, outer bias.
        """
        a, a_time, a_bias, b, b_time, b_bias = self.totals
        inner = torch.cat((a.T, a_time[:, None]), 1)
        return inner, a_bias, torch.cat((b.T, b_time[:, None]), 1), b_bias


def _rows(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.flatten(0, -2) for t in tensors])


def _with_times(stage: _Stage) -> _Stage:
    """Return ``stage`` with its time expanded to one number for each state.

    ``stage`` is a stage of a Runge–Kutta step.
    """
    return stage._replace(time=stage.time.expand(*stage.y.shape[:-1], 1))


def _step_back(
    net: _Net, step: Tensor, tableau: str, is_on: Sequence[Tensor], g: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Return the gradients of a Runge–Kutta step's initial state and of its slopes.

    ``g`` is the gradient of the state after the step, ``step`` the length of the step
    and ``tableau`` the name of its coefficients. ``is_on`` has a tensor for each stage,
    true for the hidden units that are above 0.
    """
    _, rows, weights = _TABLEAUX[tableau]
    to_slopes = [weight * (step * g) for weight in weights]
    for n in reversed(range(len(rows))):
        to_y = (to_slopes[n] @ net.b.T * is_on[n]) @ net.a.T
        g = g + to_y
        for m, weight in enumerate(rows[n]):
            if weight:
                to_slopes[m] = torch.addcmul(to_slopes[m], step, to_y, value=weight)
    return g, to_slopes


class _Places(NamedTuple):
    """Place of each position between the nodes of the solver's grid of whole steps.

    ``node`` is the index, in the result of :func:`_nodes`, of the last node on the way
    from 0 to the position, ``time`` the time of this node, and ``rest`` the time from
    there to the position. ``last`` is the number of whole steps to the farthest
    position, forwards (key 1) and backwards (key −1).
    """

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
    """Return FLOATER's states at whole steps of the solver, forwards and backwards.

    They are the states at the times 0, 1, … and then 0, −1, … in units of ``step``,
    stacked along the first axis. ``start`` is the state at time 0; ``last`` is the
    number of steps in each direction (keys 1 and −1). ``net`` gives the slope;
    ``tableau`` names the solver's coefficients.
    """
    nodes = []
    for direction, count in last.items():
        own, p = start.new_tensor(direction * step), start
        nodes.append(p)
        for time in (own * torch.arange(count, device=start.device)).unbind():
            p, _ = _step(net, time, p, own, tableau)
            nodes.append(p)
    return torch.stack(nodes)


@torch.library.custom_op("posedu::integrate_ode", mutates_args=())
def _integrate(
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
            f"positions must be at most farthest = {farthest} in size, since the ODE "
            f"is solved step by step from 0; got {far:g}"
        )
    net = _net(inner, inner_bias, outer, outer_bias)
    at = _places(positions, step, steps)
    out = _nodes(net, start, at.last, step, tableau)[at.node]
    out, _ = _step(net, at.time, out, at.rest, tableau)
    size = out.abs().max().item()
    if not size <= largest:
        raise ValueError(
            f"the solution must stay below {largest:.3g} for this dtype, got "
            f"{size:.3g} before the farthest position; give a smaller delta"
        )
    return out


@_integrate.register_fake
def _(start: Tensor, *others: Any) -> Tensor:
    return start.new_empty(others[4].shape[0], *start.shape)


@torch.library.custom_op("posedu::integrate_ode_backward", mutates_args=())
def _integrate_back(
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
    is_on = [stage.hidden > 0 for stage in stages]
    to_last, to_slopes = _step_back(net, at.rest, tableau, is_on, gradient)
    sums.add(stages, to_slopes)
    to_nodes = torch.zeros_like(nodes).index_add_(0, at.node, to_last)
    to_start = torch.zeros_like(start)
    first = 0
    for direction, count in at.last.items():
        own, g = start.new_tensor(direction * step), to_nodes[first + count]
        for begin in reversed(range(0, count, _CHUNK)):
            end = min(begin + _CHUNK, count)
            time = own * torch.arange(begin, end, device=start.device)[:, None, None]
            _, stages = _step(net, time, nodes[first:][begin:end], own, tableau)
            each_on = zip(*((s.hidden > 0).unbind() for s in stages), strict=True)
            of_slopes = []
            for n, on in reversed([*enumerate(each_on, first + begin)]):
                g, to_slopes = _step_back(net, own, tableau, on, g)
                g = to_nodes[n] + g
                of_slopes.append(torch.stack(to_slopes))
            sums.add(stages, torch.stack(of_slopes[::-1], 1).unbind())
        to_start = to_start + g
        first += count + 1
    return to_start, *sums.finished()


@_integrate_back.register_fake
def _(gradient: Tensor, *others: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(t) for t in others[:5])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.options = inputs[6:9]


def _pull(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    found = _integrate_back(gradient, *ctx.saved_tensors, *ctx.options)
    return *found, *[None] * 6


def _refuse(ctx: Any, *gradients: Tensor) -> None:
    raise NotImplementedError(
        "FLOATER has no second derivative: call without create_graph=True"
    )


_integrate.register_autograd(_pull, setup_context=_keep)
_integrate_back.register_autograd(_refuse)
