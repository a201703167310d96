"""Rotated values in SymPy: RoPE rotates values, and its inverse the output."""

from functools import partial

import sympy as sp

from posedu._arguments import Layout, RotatedEnd, require_choice, require_rotary_dim
from posedu.sympy.attention import Hooks, by_token
from posedu.sympy.rotary.rope import rope


def value_rotation(
    *,
    layout: Layout,
    rotated: RotatedEnd,
    rotary_dim: int | None = None,
    base: sp.Expr | float = 10000,
) -> Hooks:
    """Return the hooks of rotated values, the functions by which they act on attention.

    RoPE rotates queries, keys and values, and RoPE's inverse rotates the attention
    output. ``rotated`` says at which end of a head the ``rotary_dim`` rotated features
    are. See :func:`posedu.numpy.rotary.value_rotation`.
    """
    require_choice("rotated", rotated, RotatedEnd)

    def one(column: sp.Matrix, position: sp.Expr) -> sp.Matrix:
        r = require_rotary_dim(rotary_dim, column.rows)
        start = 0 if rotated == "leading" else column.rows - r
        parts = column[:start, :], column[start : start + r, :], column[start + r :, :]
        own = rope(parts[1], position, layout=layout, base=base)
        return sp.Matrix.vstack(parts[0], own, parts[2])

    rotate = partial(by_token, one)
    return Hooks(
        rotate=lambda q, k, positions: (rotate(q, positions), rotate(k, positions)),
        values=rotate,
        output=lambda out, positions: rotate(out, [-at for at in positions]),
    )
