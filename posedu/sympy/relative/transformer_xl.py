"""Transformer-XL in SymPy: logits of four terms, of content and position."""

import sympy as sp

from posedu._arguments import Layout, require_choice
from posedu.sympy._expressions import expression, matrix
from posedu.sympy.absolute.sinusoidal import sinusoidal
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.frequencies import frequencies


def transformer_xl(
    *,
    global_content: sp.Matrix,
    global_position: sp.Matrix,
    position_weight: sp.Matrix,
    layout: Layout,
    clamp: sp.Expr | float | None = None,
) -> Hooks:
    """Return the hooks of Transformer-XL, the functions by which it acts on attention.

    The logits are (q_i + u) · k_j + (q_i + v) · W_R r_{i−j}, all over √d, where r is
    the sinusoidal encoding of the offset. The trained vectors u (``global_content``)
    and v (``global_position``) have a row for each head, and W_R is the trained matrix
    ``position_weight``. ``clamp`` is the largest distance, ``None`` for no limit;
    ``layout`` is the order of sines and cosines in r. Equation ``def-xl``. See
    :func:`posedu.numpy.relative.transformer_xl`.
    """
    u = matrix("global_content", global_content)
    v = matrix("global_position", global_position)
    w_r = matrix("position_weight", position_weight)
    (heads, d), omega = u.shape, frequencies(w_r.cols)
    require_choice("layout", layout, Layout)
    if clamp is not None:
        clamp = expression("clamp", clamp)

    def bias(tokens: Tokens) -> Heads:
        at = tokens.positions

        def entry(h: int, i: int, j: int) -> sp.Expr:
            t = at[i] - at[j]
            if clamp is not None:
                t = sp.Max(-clamp, sp.Min(t, clamp))
            r, own = sinusoidal(t, omega, layout=layout), w_r[h * d : (h + 1) * d, :]
            of_content = u.row(h).dot(tokens.k[h].row(j))
            of_distance = ((tokens.q[h].row(i) + v.row(h)) * own).dot(r)
            return (of_content + of_distance) / sp.sqrt(d)

        return tokens.by_head(entry)

    return Hooks(bias=bias, heads=heads)
