"""FLOATER in SymPy: position vectors that solve a differential equation."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product
from math import factorial, prod
from typing import Any

import sympy as sp

from posedu._arguments import FARTHEST, Tableau, require_choice, require_dimension
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.attention import Heads, Hooks

Field = Callable[[Any, sp.Matrix], sp.Matrix]
"""The right side h(t, p) of p' = h(t, p): a function of time and a column."""


def butcher(tableau: Tableau) -> tuple[sp.Matrix, sp.Matrix, sp.Matrix]:
    """The coefficients of a fourth-order Runge–Kutta method, its Butcher tableau.

    ``tableau`` is the name of the method, such as ``"classical"``. Returns the matrix
    A, the row of weights b and the column of stage times c. Equation
    ``def-floater-step``.
    """
    third, half = sp.Rational(1, 3), sp.Rational(1, 2)
    if require_choice("tableau", tableau, Tableau) == "classical":
        rows = ([0, 0, 0, 0], [half, 0, 0, 0], [0, half, 0, 0], [0, 0, 1, 0])
        weights = sp.Matrix([[1, 2, 2, 1]]) / 6
    else:
        rows = ([0, 0, 0, 0], [third, 0, 0, 0], [-third, 1, 0, 0], [1, -1, 1, 0])
        weights = sp.Matrix([[1, 3, 3, 1]]) / 8
    a = sp.Matrix(rows)
    return a, weights, a * sp.ones(4, 1)


def runge_kutta(
    h: Field, time: Any, p: sp.Matrix, step: Any, *, tableau: Tableau
) -> sp.Matrix:
    """Advance the state ``p`` of p' = h(t, p) by one fourth-order Runge–Kutta step.

    The step begins at ``time`` and has the length ``step``; ``tableau`` names the
    method. Equation ``def-floater-step``.
    """
    a, weights, places = butcher(tableau)
    slopes: list[sp.Matrix] = []
    for row in range(4):
        slope = sum((a[row, n] * k for n, k in enumerate(slopes)), 0 * p)
        slopes.append(h(time + places[row] * step, p + step * slope))
    return p + step * sum((w * k for w, k in zip(weights, slopes, strict=True)), 0 * p)


def rooted_trees(order: int) -> list[tuple]:
    """All rooted trees of ``order`` nodes, each the sorted tuple of its branches."""
    if order == 1:
        return [()]
    found = {
        tuple(sorted(branches))
        for count in range(1, order)
        for sizes in combinations_with_replacement(range(1, order), count)
        if sum(sizes) == order - 1
        for branches in product(*map(rooted_trees, sizes))
    }
    return sorted(found)


def order_errors(tableau: Tableau, order: int) -> list[sp.Expr]:
    """Errors of a Runge–Kutta method in Butcher's order conditions of one order.

    Each error is (b·Φ(τ) − 1/γ(τ)) / σ(τ) for a rooted tree τ of ``order`` nodes, where
    b are the method's weights, Φ(τ) is the vector that τ makes of the matrix A of the
    method, γ(τ) the density and σ(τ) the symmetry of τ. The errors are the factors of
    the elementary differentials in the error of one step. Equation
    ``eq-floater-order``.
    """
    a, weights, _ = butcher(tableau)

    def stages(tree: tuple) -> sp.Matrix:
        result = sp.ones(4, 1)
        for branch in tree:
            result = result.multiply_elementwise(a * stages(branch))
        return result

    def density(tree: tuple) -> int:
        return _size(tree) * prod(map(density, tree))

    def symmetry(tree: tuple) -> int:
        counts = Counter(tree).items()
        return prod(factorial(n) * symmetry(branch) ** n for branch, n in counts)

    return [
        ((weights * stages(tree))[0] - sp.Rational(1, density(tree))) / symmetry(tree)
        for tree in rooted_trees(order)
    ]


def _size(tree: tuple) -> int:
    return 1 + sum(map(_size, tree))


def flow(
    h: Field,
    start: sp.Matrix,
    position: Any,
    *,
    tableau: Tableau,
    delta: Any,
    steps: int = 5,
) -> sp.Matrix:
    """Integrate p' = h(t, p) from ``start`` at position 0 to a numeric position.

    From one position to the next t grows by ``delta``, in ``steps`` Runge–Kutta steps;
    a float ``delta`` is taken exactly. ``tableau`` names the Runge–Kutta method.
    Equation ``def-floater``. See :func:`posedu.numpy.absolute.flow`.
    """
    position = sp.Rational(expression("position", position))
    step = _exact(delta) / require_dimension("steps", steps, 1)
    whole, sign = sp.floor(abs(position) * steps), sp.sign(position)
    p = start
    for n in range(int(whole)):
        p = runge_kutta(h, sign * n * step, p, sign * step, tableau=tableau)
    rest = position * steps - sign * whole
    if rest == 0:
        return p
    return runge_kutta(h, sign * whole * step, p, rest * step, tableau=tableau)


def released_field(
    inner: sp.Matrix,
    inner_bias: Sequence[sp.Expr],
    outer: sp.Matrix,
    outer_bias: Sequence[sp.Expr],
) -> Field:
    """The function h(t, p) in FLOATER's code: an MLP with one hidden layer of ReLUs.

    Both layers of the MLP read the time t as last input. ``inner`` and ``outer`` are
    the weights of the hidden and the output layer, with their biases. Equation
    ``def-floater-field``.
    """
    biases = [matrix("bias", bias) for bias in (inner_bias, outer_bias)]

    def h(t: Any, p: sp.Matrix) -> sp.Matrix:
        z = inner * p.col_join(sp.Matrix([t])) + biases[0]
        hidden = z.applyfunc(lambda entry: sp.Max(entry, 0))
        return outer * hidden.col_join(sp.Matrix([t])) + biases[1]

    return h


def rotation_field(omega: Sequence[sp.Expr]) -> sp.Matrix:
    """The skew matrix Ω for which sinusoidal encodings p solve p' = Ω p, interleaved.

    Ω (sin ωt, cos ωt) = ω (cos ωt, −sin ωt) for each pair. Equation
    ``def-floater-omega``.
    """
    omega = expressions("omega", omega)
    return sp.diag(*[sp.Matrix([[0, w], [-w, 0]]) for w in omega])


def floater(
    *,
    start: sp.Matrix,
    field_inner: sp.Matrix,
    field_inner_bias: Sequence[sp.Expr],
    field_outer: sp.Matrix,
    field_outer_bias: Sequence[sp.Expr],
    tableau: Tableau,
    delta: Any,
    steps: int = 5,
    farthest: int = FARTHEST,
) -> Hooks:
    """Return the hooks of FLOATER, the functions by which it acts on attention.

    Position vectors p, which solve p' = h(t, p), are added to queries, keys and values.
    ``start`` has their starts p(0), in this order, and h is the MLP of
    :func:`released_field` with the ``field_…`` weights. The largest position allowed is
    ``farthest``. Equation ``def-floater-hooks``. See
    :func:`posedu.numpy.absolute.floater`.
    """
    h = released_field(field_inner, field_inner_bias, field_outer, field_outer_bias)
    options = {"tableau": tableau, "delta": delta, "steps": steps}
    require_dimension("farthest", farthest, 1)

    def with_vectors(heads: Heads, of: int, positions: Sequence[Any]) -> Heads:
        if too_far := [t for t in positions if sp.Abs(t) > farthest]:
            raise ValueError(
                f"positions must be at most farthest = {farthest} in size, got "
                f"{too_far[0]}"
            )
        vectors = [flow(h, start[of, :].T, t, **options).T for t in positions]
        d = heads[0].cols
        return tuple(
            m + sp.Matrix.vstack(*(p[:, n * d : (n + 1) * d] for p in vectors))
            for n, m in enumerate(heads)
        )

    def rotate(q: Heads, k: Heads, positions: Sequence[Any]) -> tuple[Heads, Heads]:
        return with_vectors(q, 0, positions), with_vectors(k, 1, positions)

    return Hooks(
        rotate=rotate, values=lambda v, positions: with_vectors(v, 2, positions)
    )


def _exact(delta: Any) -> sp.Expr:
    """Return ``delta`` exactly: a float as a ratio, any other expression unchanged."""
    given = expression("delta", delta)
    return sp.Rational(given) if given.is_Float else given
