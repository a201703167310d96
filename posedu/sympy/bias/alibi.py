"""ALiBi in SymPy: a bias that falls linearly with the distance."""

import sympy as sp

from posedu._arguments import ALiBiSides, ALiBiSlopes, require_choice, require_dimension
from posedu.sympy.attention import Heads, Hooks, Tokens


def alibi_slopes(heads: int, *, slopes: ALiBiSlopes) -> list[sp.Expr]:
    """ALiBi's slope m_h of each head, as an exact power of two.

    Equation ``def-alibi-slopes``. See :func:`posedu.numpy.bias.alibi_slopes`, which
    states the two choices of ``slopes``.
    """
    require_dimension("heads", heads, 1)
    require_choice("slopes", slopes, ALiBiSlopes)
    power = 1
    while 2 * power <= heads:
        power *= 2
    if slopes == "geometric":
        return [sp.Pow(2, sp.Rational(-8 * h, heads)) for h in range(1, heads + 1)]
    exponents = [sp.Rational(-8 * h, power) for h in range(1, power + 1)]
    between = [sp.Rational(-4 * h, power) for h in range(1, 2 * power, 2)]
    return [sp.Pow(2, e) for e in (*exponents, *between[: heads - power])]


def alibi(*, heads: int, slopes: ALiBiSlopes, sides: ALiBiSides = "causal") -> Hooks:
    """Return the hooks of ALiBi, the functions by which it acts on attention.

    The bias of head h is its slope m_h times the negative offset, or for ``sides``
    other than ``"causal"`` times the negative distance. ``slopes`` is the rule for the
    slopes, see :func:`alibi_slopes`. Equation ``def-alibi``. See
    :func:`posedu.numpy.bias.alibi`.
    """
    if require_choice("sides", sides, ALiBiSides) == "one-sided":
        half = require_dimension("heads", heads) // 2
        m = alibi_slopes(half, slopes=slopes) * 2
    else:
        m = alibi_slopes(heads, slopes=slopes)

    def entry(h: int, offset: sp.Expr) -> sp.Expr:
        if sides == "causal":
            return -m[h] * offset
        side = -1 if h < heads // 2 else 1
        if sides == "one-sided" and sp.sign(offset) == side:
            return -sp.oo
        return -m[h] * sp.Abs(offset)

    def bias(tokens: Tokens) -> Heads:
        at = tokens.positions
        return tokens.by_head(lambda h, i, j: entry(h, at[i] - at[j]))

    return Hooks(bias=bias, heads=heads, needs_causal=sides == "causal")
