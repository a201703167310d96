"""Sinusoidal encodings in SymPy, and the linear maps that shift them by an offset."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import Layout, Spacing, require_choice
from posedu.sympy._expressions import expression, expressions
from posedu.sympy.frequencies import frequencies


def stack_pairs(pairs: Sequence[Sequence[sp.Expr]], *, layout: Layout) -> sp.Matrix:
    """The column of features whose pair p is ``pairs[p]``, in the given layout.

    ``layout`` is ``"interleaved"`` (neighbors form a pair) or ``"half"`` (first
    members, then second members).
    """
    pairs = expressions("pairs", pairs)
    if require_choice("layout", layout, Layout) == "interleaved":
        return sp.Matrix([member for pair in pairs for member in pair])
    return sp.Matrix([pair[member] for member in range(2) for pair in pairs])


def sinusoidal(
    position: sp.Expr | float, omega: Sequence[sp.Expr], *, layout: Layout
) -> sp.Matrix:
    """The sinusoidal encoding of a position, as a column, for frequencies ``omega``.

    Equation ``def-sinusoidal``.
    """
    position = expression("position", position)
    angles = [position * w for w in expressions("omega", omega)]
    return stack_pairs([(sp.sin(a), sp.cos(a)) for a in angles], layout=layout)


def embed_sinusoidal(
    x: sp.Matrix,
    position: sp.Expr | float,
    *,
    layout: Layout,
    base: sp.Expr | float = 10000,
    spacing: Spacing = "paper",
) -> sp.Matrix:
    """Add to the input vector ``x`` (a column) the sinusoidal encoding of ``position``.

    ``base`` and ``spacing`` determine the frequencies, ``layout`` the order of sines
    and cosines. The result is for the hook ``embed``, the function by which an encoding
    changes the input of a model.
    """
    omega = frequencies(x.rows, base=base, spacing=spacing)
    return x + sinusoidal(position, omega, layout=layout)


_OFFSET_ENTRIES = sp.Matrix(2, 2, sp.symbols("u1 v1 u2 v2"))


def offset_equations(omega: sp.Expr, offset: sp.Expr | float) -> list[sp.Eq]:
    """State four equations for the matrix M_t that shifts a sinusoid by an offset t.

    M_t = [[u1, v1], [u2, v2]] must satisfy M_t PE(i) = PE(i + t) for every i, with
    PE(i) the pair (sin ωi, cos ωi). In each of the two rows both sides combine sin ωi
    and cos ωi; these are independent functions of i, so their two coefficients must
    agree. Equation ``eq-sin-four``.
    """
    omega, offset = expressions("omega and offset", (omega, offset))
    alpha, beta = sp.symbols("alpha beta", real=True)  # ωi and ωt
    waves = sp.sin(alpha), sp.cos(alpha)
    shifted = sp.Matrix([sp.sin(alpha + beta), sp.cos(alpha + beta)])
    right = shifted.applyfunc(sp.expand_trig).subs(beta, omega * offset)
    left = _OFFSET_ENTRIES * sp.Matrix(waves)
    return [
        sp.Eq(sp.expand(left[row]).coeff(wave), right[row].coeff(wave))
        for row in range(2)
        for wave in waves
    ]


def solve_offset_matrix(omega: sp.Expr, offset: sp.Expr | float) -> sp.Matrix:
    """Find the only 2 × 2 matrix M that shifts sinusoids: M PE(i) = PE(i + offset).

    The entries of M solve :func:`offset_equations`. Equation ``eq-sin-offset``.
    """
    solution = sp.solve(offset_equations(omega, offset), list(_OFFSET_ENTRIES))
    return _OFFSET_ENTRIES.subs(solution)


def offset_matrix(offset: sp.Expr | float, omega: Sequence[sp.Expr]) -> sp.Matrix:
    """The matrix M_t that shifts sinusoidal encodings PE by an offset t, interleaved.

    PE(i + t) = M_t PE(i) for every position i, with the frequencies ``omega``. Equation
    ``eq-sin-offset``.
    """
    return sp.diag(*[solve_offset_matrix(w, offset) for w in omega])


def commutant(omega: Sequence[sp.Expr], offset: sp.Expr) -> sp.Matrix:
    """The general matrix A with M_tᵀ A M_t = A for every offset t, interleaved.

    M_t is :func:`offset_matrix`. A is solved entry by entry: the coefficients of the
    products of sines and cosines of the distinct angles must vanish. Free entries keep
    their names ``a_rc``. The frequencies must differ and be positive. Equation
    ``eq-sin-commutant``.
    """
    d = 2 * len(omega)
    a = sp.Matrix(d, d, lambda r, c: sp.Symbol(f"a_{r}{c}"))
    m = offset_matrix(offset, omega)
    residual = (m.T * a * m - a).applyfunc(lambda e: sp.expand(e.rewrite(sp.exp)))
    waves = {
        sp.exp(sp.I * offset * (s * v + u * w))
        for v in omega
        for w in omega
        for s in (-1, 0, 1)
        for u in (-1, 0, 1)
    }
    equations = []
    for entry in residual:
        collected = sp.collect(sp.powsimp(entry), waves, evaluate=False)
        equations += list(collected.values())
    return a.subs(sp.solve(equations, list(a), dict=True)[0])
