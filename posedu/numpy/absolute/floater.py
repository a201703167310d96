"""FLOATER: position vectors that solve a learned differential equation."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    FARTHEST,
    Tableau,
    require_choice,
    require_dimension,
    require_positive,
)
from posedu.numpy._arrays import (
    Positions,
    require_floats,
    require_positions,
)
from posedu.numpy.attention import Hooks

Array = np.ndarray
Field = Callable[[Array | float, Array], Array]
"""The right side h(t, p) of p' = h(t, p), with times that broadcast against states."""


def runge_kutta(
    h: Field,
    time: Array | float,
    p: Float[Array, "*states width"],
    step: Array | float,
    *,
    tableau: Tableau,
) -> Float[Array, "*states width"]:
    """Advance the state ``p`` of p' = h(t, p) by one fourth-order Runge–Kutta step.

    The step goes from ``time`` to ``time + step``. The tableau ``"classical"`` has its
    stages at 0, 1/2, 1/2 and 1 of the step, ``"3/8"`` at 0, 1/3, 2/3 and 1.
    torchdiffeq, and so the code of arXiv 2003.09229, calls ``"3/8"`` "rk4". Equation
    ``def-floater-step``.

    Raises
    ------
    ValueError
        Unknown ``tableau``.
    """
    a = h(time, p)
    if require_choice("tableau", tableau, Tableau) == "classical":
        b = h(time + step / 2, p + step / 2 * a)
        c = h(time + step / 2, p + step / 2 * b)
        d = h(time + step, p + step * c)
        return p + step / 6 * (a + 2 * b + 2 * c + d)
    b = h(time + step / 3, p + step / 3 * a)
    c = h(time + step * 2 / 3, p + step * (b - a / 3))
    d = h(time + step, p + step * (a - b + c))
    return p + step / 8 * (a + 3 * b + 3 * c + d)


def flow(
    h: Field,
    start: Float[Array, "*states width"],
    positions: Positions,
    *,
    tableau: Tableau,
    delta: float,
    steps: int = 5,
    farthest: int = FARTHEST,
) -> Float[Array, "*tokens_and_states width"]:
    """Integrate p' = h(t, p) from ``start`` at position 0 to each position.

    Position i is the time ``i · delta``. The solver takes ``steps`` steps of equal
    length from each whole position to the next, and part of a step to a position
    between; so a position's vector does not depend on the other positions. Before 0 the
    solver goes backwards. Equation ``def-floater``.

    Parameters
    ----------
    h
        Function of times (a number, or an array that broadcasts) and states that
        returns the derivatives of the states.
    start
        p(0), one state or several, each of ``width`` features.
    positions
        Integers or finite reals, any shape and order.
    tableau
        See :func:`runge_kutta`.
    delta
        Time between neighbors (the paper's Δt): 0.1 in the text, 0.01 in its code.
    steps
        Runge–Kutta steps from a whole position to the next. Default 5 (the code; the
        text names no solver's step).
    farthest
        Largest position allowed, since the computing time grows with the largest
        position. Default 2¹⁶.

    Raises
    ------
    TypeError, ValueError
        ``start`` that holds no floats or is one number, positions not finite or too
        far, ``delta`` not positive, ``steps`` or ``farthest`` not a positive integer,
        unknown ``tableau``; a solution that overflows float64 before the farthest
        position.
    """
    start = require_floats("start", start)
    if start.ndim == 0 or start.size == 0:
        raise ValueError(
            f"start must be [..., width], not empty, got shape {list(start.shape)}"
        )
    positions = require_positions(positions)
    require_choice("tableau", tableau, Tableau)
    delta = require_positive("delta", delta)
    require_dimension("steps", steps, 1)
    require_dimension("farthest", farthest, 1)
    if np.abs(positions).max(initial=0) > farthest:
        raise ValueError(
            f"positions must be at most farthest = {farthest} in size, since the "
            f"equation is integrated step by step; got {np.abs(positions).max():g}"
        )

    with np.errstate(over="ignore", invalid="ignore"):
        out = _solution(h, start, positions, tableau, delta / steps, steps)
    if not np.isfinite(out).all():
        raise ValueError(
            "the solution overflows float64 before the farthest position; give a "
            f"smaller delta, got {delta:g}"
        )
    return out


def _solution(
    h: Field, start: Array, positions: Array, tableau: Tableau, step: float, steps: int
) -> Array:
    """Solve p' = h(t, p) up to each position, by whole steps and a shorter last one.

    p' = h(t, p) is FLOATER's differential equation, with the time t. The steps begin
    with the state ``start`` at time 0; ``tableau`` names the Runge–Kutta coefficients.
    ``step`` is the time of a whole step; ``steps`` of them lead from a whole position
    to the next.
    """
    count = np.abs(positions) * steps
    whole = np.floor(count)
    sign = np.where(positions < 0, -1, 1)
    last_nodes = np.empty((*positions.shape, *start.shape))
    for direction in (-1, 1):
        is_there = sign == direction
        node, last = start, whole[is_there].max(initial=0)
        for n in range(int(last) + 1):
            last_nodes[is_there & (whole == n)] = node
            if n < last:
                time = direction * n * step
                node = runge_kutta(h, time, node, direction * step, tableau=tableau)
    over = (*positions.shape, *[1] * start.ndim)
    time = (sign * whole * step).reshape(over)
    rest = (sign * (count - whole) * step).reshape(over)
    return runge_kutta(h, time, last_nodes, rest, tableau=tableau)


def released_field(
    inner: Float[Array, "hidden width_and_time"],
    inner_bias: Float[Array, "hidden"],
    outer: Float[Array, "width hidden_and_time"],
    outer_bias: Float[Array, "width"],
) -> Field:
    """The function h(t, p) in the code of arXiv 2003.09229: an MLP with one ReLU layer.

    Both layers of the MLP read the time t as their last input feature. Equation
    ``def-floater-field``. ``inner`` and ``outer`` are the weights of the MLP's two
    layers, whose biases are ``inner_bias`` and ``outer_bias``.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, or of shapes that do not fit each other.
    """
    inner, outer = require_floats("inner", inner), require_floats("outer", outer)
    inner_bias = require_floats("inner_bias", inner_bias)
    outer_bias = require_floats("outer_bias", outer_bias)
    hidden, width = inner_bias.size, outer_bias.size
    shapes = {"inner": (hidden, width + 1), "inner_bias": (hidden,)}
    shapes |= {"outer": (width, hidden + 1), "outer_bias": (width,)}
    given = inner.shape, inner_bias.shape, outer.shape, outer_bias.shape
    for (name, needed), shape in zip(shapes.items(), given, strict=True):
        if shape != needed:
            raise ValueError(
                f"{name} must be {list(needed)} for {width} features and {hidden} "
                f"hidden ones, got shape {list(shape)}"
            )

    w, w_time, v, v_time = inner[:, :-1], inner[:, -1], outer[:, :-1], outer[:, -1]

    def h(t: Array | float, p: Array) -> Array:
        hidden = np.maximum(p @ w.T + (t * w_time + inner_bias), 0)
        return hidden @ v.T + (t * v_time + outer_bias)

    return h


def floater(
    *,
    start: Float[Array, "3 width"],
    field_inner: Float[Array, "hidden width_and_time"],
    field_inner_bias: Float[Array, "hidden"],
    field_outer: Float[Array, "width hidden_and_time"],
    field_outer_bias: Float[Array, "width"],
    tableau: Tableau,
    delta: float,
    steps: int = 5,
    farthest: int = FARTHEST,
) -> Hooks:
    """Return the attention hooks of FLOATER.

    Position vectors p, which solve p' = h(t, p), are added to queries, keys and values.

    This is the paper's compatible form, where p is a bias of the three projections
    (arXiv 2003.09229): each projection of each layer has its own start p(0), and all
    share h.

    Parameters
    ----------
    start
        The starts p(0) of queries, of keys and of values, in this order; ``width`` is
        the sum of the dimensions of all heads. Keys and values of fewer heads get the
        first features of their vectors.
    field_inner, field_inner_bias, field_outer, field_outer_bias
        Weights and biases of h; see :func:`released_field`.
    tableau, delta, steps, farthest
        See :func:`flow`.

    Returns
    -------
    Hooks (functions that attention calls) with ``rotate`` and ``values``. Equation
    ``def-floater-hooks``.

    Raises
    ------
    TypeError, ValueError
        As :func:`flow` and :func:`released_field`; a layer whose heads have other than
        ``width`` features in all.
    """
    h = released_field(field_inner, field_inner_bias, field_outer, field_outer_bias)
    start, width = require_floats("start", start), np.size(field_outer_bias)
    if start.shape != (3, width):
        raise ValueError(
            f"start must be [3, {width}] like h, got shape {list(start.shape)}"
        )
    require_choice("tableau", tableau, Tableau)
    delta = require_positive("delta", delta)
    require_dimension("steps", steps, 1)
    require_dimension("farthest", farthest, 1)

    def at(which: slice, positions: Positions) -> Float[Array, "tokens states width"]:
        positions = require_positions(positions)
        if positions.ndim != 1:
            raise ValueError(
                "positions must be one number for each token, got shape "
                f"{list(positions.shape)}"
            )
        return flow(
            h,
            start[which],
            positions,
            tableau=tableau,
            delta=delta,
            steps=steps,
            farthest=farthest,
        )

    def rotate(q: Array, k: Array, positions: Positions) -> tuple[Array, Array]:
        heads, _, d = q.shape
        if heads * d != start.shape[1]:
            raise ValueError(
                f"start must be [3, {heads * d}] for {heads} heads of {d} features, "
                f"got shape {list(start.shape)}"
            )
        p = at(slice(0, 2), positions)
        return _with_vectors(q, p[:, 0]), _with_vectors(k, p[:, 1])

    def values(v: Array, positions: Positions) -> Array:
        return _with_vectors(v, at(slice(2, 3), positions)[:, 0])

    return Hooks(rotate=rotate, values=values)


def _with_vectors(
    x: Float[Array, "heads tokens d"], p: Float[Array, "tokens width"]
) -> Float[Array, "heads tokens d"]:
    heads, tokens, d = x.shape
    return x + p[:, : heads * d].reshape(tokens, heads, d).swapaxes(0, 1)
