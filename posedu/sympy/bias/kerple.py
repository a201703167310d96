"""KERPLE in SymPy: biases that fall with the logarithm or a power of the distance."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import KERPLEScaling, require_choice
from posedu.sympy._expressions import expression, expressions
from posedu.sympy.attention import Heads, Hooks, Tokens


def kerple_log_bias(
    offset: sp.Expr, *, r1: sp.Expr, r2: sp.Expr, r3: sp.Expr = sp.S.One
) -> sp.Expr:
    """KERPLE's logarithmic bias −r1 log(1 + r2 t^r3) at the distance t = abs(offset).

    Equation ``def-kerple``.
    """
    offset = expression("offset", offset)
    return -r1 * sp.log(1 + r2 * sp.Abs(offset) ** r3)


def kerple_power_bias(offset: sp.Expr, *, r1: sp.Expr, r2: sp.Expr) -> sp.Expr:
    """KERPLE's power bias −r1 t^r2 at the distance t = abs(offset).

    Equation ``def-kerple``.
    """
    return -r1 * sp.Abs(expression("offset", offset)) ** r2


def kerple_log(
    *,
    log_r1: Sequence[sp.Expr],
    log_r2: Sequence[sp.Expr],
    logit_r3: Sequence[sp.Expr] | None = None,
    scaling: KERPLEScaling,
) -> Hooks:
    """Return the hooks of logarithmic KERPLE, the functions that change attention.

    The bias of each head is :func:`kerple_log_bias` with r = e^log_r and r3 =
    2σ(logit_r3), or r3 = 1 if ``logit_r3`` is ``None``; it is divided by √d if
    ``scaling`` is ``"paper"``. See :func:`posedu.numpy.bias.kerple_log`.
    """
    require_choice("scaling", scaling, KERPLEScaling)
    r1, r2 = (_exp("log_r", r) for r in (log_r1, log_r2))
    r3 = [sp.S.One] * len(r1) if logit_r3 is None else _exponents(logit_r3)

    def entry(h: int, offset: sp.Expr) -> sp.Expr:
        return kerple_log_bias(offset, r1=r1[h], r2=r2[h], r3=r3[h])

    def bias(tokens: Tokens) -> Heads:
        return _of_offsets(tokens, entry, len(r1), scaling)

    return Hooks(bias=bias, heads=len(r1))


def kerple_power(
    *,
    log_r1: Sequence[sp.Expr],
    logit_r2: Sequence[sp.Expr],
    log_r3: Sequence[sp.Expr] | None = None,
    logit_r4: Sequence[sp.Expr] | None = None,
    scaling: KERPLEScaling,
) -> Hooks:
    """Return the hooks of KERPLE by powers, the functions that change attention.

    The bias of each head is :func:`kerple_power_bias` with r1 = e^log_r1 and r2 =
    2σ(logit_r2); it is divided by √d if ``scaling`` is ``"paper"``. With ``log_r3`` and
    ``logit_r4`` the products of queries and keys at distance t are multiplied by e^(−r3
    t^r4), too. See :func:`posedu.numpy.bias.kerple_power`.
    """
    require_choice("scaling", scaling, KERPLEScaling)
    if (log_r3 is None) != (logit_r4 is None):
        raise ValueError("a weight needs both log_r3 and logit_r4")
    r1, r2 = _exp("log_r1", log_r1), _exponents(logit_r2)

    def entry(h: int, offset: sp.Expr) -> sp.Expr:
        return kerple_power_bias(offset, r1=r1[h], r2=r2[h])

    def bias(tokens: Tokens) -> Heads:
        return _of_offsets(tokens, entry, len(r1), scaling)

    if log_r3 is None:
        return Hooks(bias=bias, heads=len(r1))
    r3, r4 = _exp("log_r3", log_r3), _exponents(logit_r4)

    def logits(tokens: Tokens) -> Heads:
        at, added = tokens.positions, bias(tokens)

        def logit(h: int, i: int, j: int) -> sp.Expr:
            product = tokens.q[h][i, :].dot(tokens.k[h][j, :]) / sp.sqrt(tokens.d)
            weight = kerple_power_bias(at[i] - at[j], r1=r3[h], r2=r4[h])
            return product * sp.exp(weight) + added[h][i, j]

        return tokens.by_head(logit)

    return Hooks(logits=logits, heads=len(r1))


def _of_offsets(tokens: Tokens, entry, heads: int, scaling: KERPLEScaling) -> Heads:
    """Each head's matrix of biases ``entry(h, i − j)`` for query i and key j.

    ``heads`` is the number of heads that have parameters. The biases are divided by √d
    if ``scaling`` is ``"paper"``.
    """
    scale = 1 / sp.sqrt(tokens.d) if scaling == "paper" else sp.S.One
    return tuple(
        tokens.of_offsets(lambda offset, h=h: scale * entry(h, offset))
        for h in range(heads)
    )


def _exp(name: str, logarithms: Sequence[sp.Expr]) -> list[sp.Expr]:
    return [sp.exp(r) for r in expressions(name, logarithms)]


def _exponents(logits: Sequence[sp.Expr]) -> list[sp.Expr]:
    return [2 / (1 + sp.exp(-r)) for r in expressions("logit_r", logits)]
