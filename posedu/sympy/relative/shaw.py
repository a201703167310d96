"""Shaw's relative position vectors in SymPy, added to keys and to values."""

import sympy as sp

from posedu._arguments import require_reach
from posedu.sympy._expressions import expression
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.relative.offset_table import Table, mix_with, tables


def shaw_row(offset: sp.Expr, *, past: int, future: int) -> int:
    """Row of Shaw's table of relative position vectors for an offset i − j.

    The offset must have a numerical value. Offsets above ``past`` get the first row,
    offsets below −``future`` the last row. Equation ``def-shaw-row``. See
    :func:`posedu.numpy.relative.shaw_rows`.
    """
    require_reach(past, future)
    ahead = sp.ceiling(-expression("offset", offset))
    return past + int(max(-past, min(future, ahead)))


def shaw(
    *,
    past: int,
    future: int,
    key_table: Table | None = None,
    value_table: Table | None = None,
) -> Hooks:
    """Return the hooks of Shaw's position vectors, the functions that change attention.

    A vector of the offset is added to each key, and a second vector to each value, from
    ``key_table`` and ``value_table``; a table that is ``None`` adds nothing. ``past``
    and ``future`` are the largest offsets of earlier and of later keys with a vector of
    their own. Tables are ``[rows, d]``, one for all heads or a list with one for each
    head. Equation ``def-shaw``. See :func:`posedu.numpy.relative.shaw`.
    """
    require_reach(past, future)
    if key_table is None and value_table is None:
        raise ValueError("give key_table, value_table or both, got none")

    def row(tokens: Tokens, i: int, j: int) -> int:
        at = tokens.positions
        return shaw_row(at[i] - at[j], past=past, future=future)

    def bias(tokens: Tokens) -> Heads:
        w = tables("key_table", key_table, len(tokens.q))
        return tokens.by_head(
            lambda h, i, j: (
                tokens.q[h][i, :].dot(w[h][row(tokens, i, j), :]) / sp.sqrt(tokens.d)
            )
        )

    def mix(weights: Heads, v: Heads, tokens: Tokens) -> Heads:
        w = tables("value_table", value_table, len(v))
        return mix_with(weights, v, tokens, lambda h, i, j: w[h][row(tokens, i, j), :])

    opened = {} if key_table is None else {"bias": bias}
    if value_table is not None:
        opened["mix"] = mix
    return Hooks(**opened)
