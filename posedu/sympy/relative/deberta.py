"""DeBERTa in SymPy: content–content, content–position and position–content logits."""

import sympy as sp

from posedu._arguments import DeBERTaIndex, DeBERTaRows, require_choice, require_span
from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.relative.tupe import layer_norm, project

EPSILON = sp.Rational(1, 10**7)  # added to the variance in the layer norm


def deberta_row(
    offset: sp.Expr, *, span: int, rows: DeBERTaRows, distance: int = 512
) -> int:
    """Row of DeBERTa's table of relative position vectors for an offset i − j.

    The offset must have a numerical value. ``span`` is the number of rows of the table
    for earlier keys, and for later keys; ``rows`` is the rule for large offsets, and
    ``distance`` the end of its logarithmic scale. Equation ``def-deberta-row``. See
    :func:`posedu.numpy.relative.deberta_rows`.
    """
    m = require_span(span, rows, distance)
    t = int(sp.floor(expression("offset", offset)))
    if rows == "microsoft":
        t = max(1 - distance, min(t, distance - 1))
    if rows != "paper" and abs(t) > m:
        steps, size = sp.Rational(distance - 1, m), sp.Rational(abs(t), m) ** (m - 1)
        further = next((n for n in range(m) if steps**n >= size), m)
        t = (m + further) * (1 if t > 0 else -1)
    return max(0, min(t + span, 2 * span - 1))


def deberta(
    *,
    table: sp.Matrix,
    query_weight: sp.Matrix,
    key_weight: sp.Matrix,
    rows: DeBERTaRows,
    index: DeBERTaIndex,
    query_bias: sp.Matrix | None = None,
    norm_weight: sp.Matrix | None = None,
    norm_bias: sp.Matrix | None = None,
    distance: int = 512,
) -> Hooks:
    """Return the hooks of DeBERTa, the functions by which it acts on attention.

    The logits are products of content with content, content with position and position
    with content, all over √(3d). ``table`` has the position vectors, which
    ``query_weight`` and ``key_weight`` project; ``rows`` and ``distance`` are those of
    :func:`deberta_row`, and ``index`` says whether position–content products use the
    row of i − j or of j − i. Without ``norm_…`` the table has no layer norm. Equation
    ``def-deberta``. See :func:`posedu.numpy.relative.deberta`.
    """
    require_choice("index", index, DeBERTaIndex)
    p = matrix("table", table)
    options = dict(span=p.rows // 2, rows=rows, distance=distance)
    require_span(**options)
    if norm_weight is not None:
        p = layer_norm(p, norm_weight, norm_bias, EPSILON)
    of_queries = project(p, query_weight, query_bias)
    of_keys = project(p, key_weight, None)

    def bias(tokens: Tokens) -> Heads:
        at, d = tokens.positions, tokens.d

        def entry(h: int, i: int, j: int) -> sp.Expr:
            own = slice(h * d, (h + 1) * d)
            to = deberta_row(at[i] - at[j], **options)
            back = to if index == "code" else deberta_row(at[j] - at[i], **options)
            to_position = tokens.q[h].row(i).dot(of_keys[to, own])
            to_content = tokens.k[h].row(j).dot(of_queries[back, own])
            return (to_position + to_content) / sp.sqrt(3 * d)

        return tokens.by_head(entry)

    return Hooks(scale=lambda d: 1 / sp.sqrt(3 * d), bias=bias)
