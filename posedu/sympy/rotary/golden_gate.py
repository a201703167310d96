"""Golden gate RoPE in SymPy: exact frequency vectors in golden directions."""

import sympy as sp

from posedu._arguments import (
    GoldenRecipe,
    Layout,
    require_count,
    require_dimension,
    require_order,
    require_recipe,
)
from posedu.sympy._expressions import expression
from posedu.sympy.rotary.mixed import Position, mixed


def golden_direction(i: int, *, recipe: GoldenRecipe, axes: int = 2) -> sp.Matrix:
    """Golden direction number ``i``, counted from 1, as a row of ``axes`` numbers.

    Equations ``def-golden-angle`` and ``def-golden-quantiles``. See
    :func:`posedu.numpy.rotary.golden_directions`, which explains ``recipe``.
    """
    axes = require_dimension("axes", axes, 1)
    i = require_dimension("i", i, 1)
    if require_recipe(recipe, axes) == "angles":
        angle = sp.pi * sp.frac(i / sp.GoldenRatio)
        return sp.Matrix([[sp.cos(angle), sp.sin(angle)]])
    x = sp.Symbol("x")
    g = max(sp.real_roots(x ** (axes + 1) - x - 1))
    z = [sp.frac(i / g**a) for a in range(1, axes + 1)]
    quantiles = sp.Matrix([[sp.sqrt(2) * sp.erfinv(2 * point - 1) for point in z]])
    return quantiles / sp.sqrt(quantiles.dot(quantiles))


def golden_gate_frequencies(
    d: int,
    *,
    recipe: GoldenRecipe,
    slowest: sp.Expr | float,
    fastest: sp.Expr | float,
    axes: int = 2,
    head: int = 0,
) -> sp.Matrix:
    """Golden gate RoPE's frequency vectors: row p is that of pair p in head ``head``.

    Equation ``def-golden-gate``. See
    :func:`posedu.numpy.rotary.golden_gate_frequencies`.
    """
    pairs = require_dimension("d", d) // 2
    first = 1 + pairs * require_count("head", head)
    low, high = expression("slowest", slowest), expression("fastest", fastest)
    if not (low.free_symbols or high.free_symbols):
        require_order("slowest", float(low), "fastest", float(high))
    rows = []
    for p in range(pairs):
        t = sp.Rational(p, max(pairs - 1, 1))
        u = golden_direction(first + p, recipe=recipe, axes=axes)
        rows.append(list(low ** (1 - t) * high**t * u))
    return sp.Matrix(rows)


def golden_gate(
    x: sp.Matrix,
    position: Position,
    *,
    recipe: GoldenRecipe,
    slowest: sp.Expr | float,
    fastest: sp.Expr | float,
    layout: Layout,
    axes: int = 2,
    head: int = 0,
) -> sp.Matrix:
    """Rotate one query or key, the column ``x``, by golden gate RoPE.

    The result is for the hook ``rotate``, the function by which an encoding changes
    queries and keys. ``head`` is the number of its head, counted from 0, where heads
    have directions of their own. See :func:`posedu.numpy.rotary.golden_gate`.
    """
    f = golden_gate_frequencies(
        x.rows, recipe=recipe, slowest=slowest, fastest=fastest, axes=axes, head=head
    )
    return mixed(x, position, frequencies=f, layout=layout)
