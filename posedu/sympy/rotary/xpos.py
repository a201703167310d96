"""xPos in SymPy: RoPE with an exponential decay of each pair."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import Layout
from posedu.sympy._expressions import expression
from posedu.sympy.attention import Heads, Hooks, by_token
from posedu.sympy.rotary.rope import rope, stack_pairs

PAPER = sp.Rational(2, 5)


def xpos_scales(d: int, *, gamma: sp.Expr | float) -> list[sp.Expr]:
    """The decay ζ_p = (2p/d + γ)/(1 + γ) of each pair p of features in xPos.

    ``gamma`` is γ. Equation ``def-xpos-scale``.
    """
    gamma = expression("gamma", gamma)
    return [(sp.Rational(2 * p, d) + gamma) / (1 + gamma) for p in range(d // 2)]


def xpos(
    *,
    layout: Layout,
    center: sp.Expr | float,
    base: sp.Expr | float = 10000,
    gamma: sp.Expr | float = PAPER,
    scale_base: sp.Expr | float = 512,
) -> Hooks:
    """Return the hooks of xPos, the functions by which it acts on attention.

    xPos is RoPE with an exponential decay in each pair of features. ``center`` is the
    position at which the decay's factor is 1, ``gamma`` is γ of :func:`xpos_scales`,
    and ``scale_base`` the number of positions in which a pair decays by ζ_p. Equation
    ``def-xpos``. See :func:`posedu.numpy.rotary.xpos`.
    """
    center, scale_base = (
        expression(name, value)
        for name, value in (("center", center), ("scale_base", scale_base))
    )

    def scaled(column: sp.Matrix, position: sp.Expr, sign: int) -> sp.Matrix:
        exponent = sign * (position - center) / scale_base
        powers = [zeta**exponent for zeta in xpos_scales(column.rows, gamma=gamma)]
        power = stack_pairs([(p, p) for p in powers], layout=layout)
        rotated = rope(column, position, layout=layout, base=base)
        return rotated.multiply_elementwise(sp.Matrix(power))

    def rotate(q: Heads, k: Heads, positions: Sequence[sp.Expr]) -> tuple[Heads, Heads]:
        return (
            by_token(lambda x, at: scaled(x, at, 1), q, positions),
            by_token(lambda x, at: scaled(x, at, -1), k, positions),
        )

    return Hooks(rotate=rotate)
