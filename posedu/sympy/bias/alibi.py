"""ALiBi in SymPy: a bias that falls linearly with the distance."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import (
    ALiBiSides,
    ALiBiSlopes,
    require_choice,
    require_default_bias_max,
    require_dimension,
    require_positive,
)
from posedu.sympy._expressions import expressions
from posedu.sympy.attention import Heads, Hooks, Tokens


def alibi_slopes(
    heads: int, *, slopes: ALiBiSlopes, bias_max: float = 8.0
) -> list[sp.Expr]:
    """ALiBi's slope m_h of each head, as an exact power of two.

    Equation ``def-alibi-slopes``. See :func:`posedu.numpy.bias.alibi_slopes`, which
    states the two choices of ``slopes``; ``bias_max`` is the 8 in the exponent.
    """
    require_dimension("heads", heads, 1)
    require_choice("slopes", slopes, ALiBiSlopes)
    most = sp.Rational(require_positive("bias_max", bias_max))
    power = 1
    while 2 * power <= heads:
        power *= 2
    if slopes == "geometric":
        shares = [sp.Rational(h, heads) for h in range(1, heads + 1)]
    else:
        shares = [sp.Rational(h, power) for h in range(1, power + 1)]
        between = [sp.Rational(h, 2 * power) for h in range(1, 2 * power, 2)]
        shares += between[: heads - power]
    return [sp.Pow(2, -most * share) for share in shares]


def alibi(
    *,
    heads: int,
    slopes: ALiBiSlopes | Sequence[sp.Expr],
    sides: ALiBiSides = "causal",
    bias_max: float = 8.0,
) -> Hooks:
    """Return the hooks of ALiBi, the functions by which it acts on attention.

    The bias of head h is its slope m_h times the negative offset, or for ``sides``
    other than ``"causal"`` times the negative distance. ``slopes`` are the slopes, or
    the rule for them with its ``bias_max``, see :func:`alibi_slopes`. Equation
    ``def-alibi``. See :func:`posedu.numpy.bias.alibi`.
    """
    is_one_sided = require_choice("sides", sides, ALiBiSides) == "one-sided"
    require_dimension("heads", heads, 2 if is_one_sided else 1)
    if isinstance(slopes, str):
        like = heads // 2 if is_one_sided else heads
        m = alibi_slopes(like, slopes=slopes, bias_max=bias_max) * (heads // like)
    else:
        require_default_bias_max(bias_max)
        m = expressions("slopes", slopes)
        if len(m) != heads:
            raise ValueError(f"slopes must be {heads} expressions, got {len(m)}")

    def entry(h: int, offset: sp.Expr) -> sp.Expr:
        if sides == "causal":
            return -m[h] * offset
        side = -1 if h < heads // 2 else 1
        if is_one_sided and sp.sign(offset) == side:
            return -sp.oo
        return -m[h] * sp.Abs(offset)

    def bias(tokens: Tokens) -> Heads:
        at = tokens.positions
        return tokens.by_head(lambda h, i, j: entry(h, at[i] - at[j]))

    return Hooks(bias=bias, heads=heads, needs_causal=sides == "causal")
