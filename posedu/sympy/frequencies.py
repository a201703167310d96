"""Angular frequencies of pairs of features as exact SymPy expressions."""

import sympy as sp

from posedu._arguments import Spacing, require_base, require_choice, require_dimension
from posedu.sympy._expressions import expression


def frequencies(
    d: int, *, base: sp.Expr | float = 10000, spacing: Spacing = "paper"
) -> list[sp.Expr]:
    """Exact angular frequencies ω_p of the d/2 pairs of features, fastest first.

    ω_p is a power of ``base``; ``spacing`` is the rule for the exponents. Equation
    ``def-frequencies``.
    """
    d = require_dimension("d", d)
    exact = expression("base", base)
    if not exact.free_symbols:
        require_base(float(exact) if isinstance(base, sp.Expr) else base)
    if require_choice("spacing", spacing, Spacing) == "paper":
        steps = d
    else:
        steps = max(d - 2, 1)
    return [exact ** sp.Rational(-2 * p, steps) for p in range(d // 2)]
