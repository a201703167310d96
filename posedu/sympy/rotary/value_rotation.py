"""Rotated values over symbols."""

from functools import partial

import sympy as sp

from posedu._arguments import TURNED, require_choice, require_rotary_dim
from posedu.sympy.attention import Hooks, by_token
from posedu.sympy.rotary.rope import rope


def value_rotation(
    *,
    layout: str,
    turned: str,
    rotary_dim: int | None = None,
    base: sp.Expr | float = 10000,
) -> Hooks:
    """Rotated values as hooks; see :func:`posedu.numpy.rotary.value_rotation`."""
    require_choice("turned", turned, TURNED)

    def one(column: sp.Matrix, position: sp.Expr) -> sp.Matrix:
        r = require_rotary_dim(rotary_dim, column.rows)
        start = 0 if turned == "leading" else column.rows - r
        parts = column[:start, :], column[start : start + r, :], column[start + r :, :]
        own = rope(parts[1], position, layout=layout, base=base)
        return sp.Matrix.vstack(parts[0], own, parts[2])

    turn = partial(by_token, one)
    return Hooks(
        rotate=lambda q, k, positions: (turn(q, positions), turn(k, positions)),
        values=turn,
        output=lambda out, positions: turn(out, [-at for at in positions]),
    )
