"""TUPE in SymPy: logits of content plus a separately projected position term."""

from functools import cache

import sympy as sp

from posedu._arguments import TUPEFirstToken, require_choice
from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.bias.t5 import t5_bucket

EPSILON = sp.Rational(1, 10**5)  # added to the variance in the layer norm


def tupe(
    *,
    table: sp.Matrix,
    query_weight: sp.Matrix,
    key_weight: sp.Matrix,
    first_token: TUPEFirstToken,
    first: sp.Matrix | None = None,
    query_bias: sp.Matrix | None = None,
    key_bias: sp.Matrix | None = None,
    norm_weight: sp.Matrix | None = None,
    norm_bias: sp.Matrix | None = None,
    relative: sp.Matrix | None = None,
    distance: int = 128,
) -> Hooks:
    """Return the hooks of TUPE, the functions by which it acts on attention.

    The logits are q_i · k_j + (U_Q p_i) · (U_K p_j), all over √(2d), where p_t is row t
    of ``table``, the trained vector of position t. U_Q (``query_weight``) and U_K
    (``key_weight``) are trained matrices. ``first_token`` is the rule for logits with
    position 0, and ``first`` has its numbers; ``relative`` adds a bias for T5's bucket
    of the offset, up to ``distance``. Biases and norms that are ``None`` are left out.
    Equation ``def-tupe``. See :func:`posedu.numpy.relative.tupe`.
    """
    require_choice("first_token", first_token, TUPEFirstToken)
    extra = int(first_token == "rows")
    p = matrix("table", table)
    numbers = None if relative is None else matrix("relative", relative)

    @cache
    def vector(row: int, *, asks: bool) -> sp.Matrix:
        """Row number ``row`` of the table of position vectors, projected for all heads.

        The projection is ``query_weight`` if ``asks``, else ``key_weight``.
        """
        one = p.row(row)
        if norm_weight is not None:
            one = layer_norm(one, norm_weight, norm_bias, EPSILON)
        weight, bias = (query_weight, query_bias) if asks else (key_weight, key_bias)
        return project(one, weight, bias)

    def bias(tokens: Tokens) -> Heads:
        at, d = [sp.floor(t) for t in tokens.positions], tokens.d
        buckets = 0 if numbers is None else numbers.cols - extra

        def correlation(h: int, i: int, j: int) -> sp.Expr:
            own = slice(h * d, (h + 1) * d)
            query, key = vector(i, asks=True), vector(j, asks=False)
            return query[0, own].dot(key[0, own]) / sp.sqrt(2 * d)

        def of_bucket(h: int, bucket: int) -> sp.Expr:
            return 0 if numbers is None else numbers[h, bucket]

        def entry(h: int, i: int, j: int) -> sp.Expr:
            if first_token == "tied" or (at[i] != 0 and at[j] != 0):
                bucket = 0
                if numbers is not None:
                    offset = tokens.positions[i] - tokens.positions[j]
                    options = dict(buckets=buckets, distance=distance)
                    bucket = t5_bucket(offset, bidirectional=True, **options)
                of_positions = correlation(h, at[i] + extra, at[j] + extra)
                return of_positions + of_bucket(h, bucket)
            number = 0 if at[i] == 0 else 1
            if first_token == "numbers":
                return matrix("first", first)[h, number]
            bucket = buckets if number else buckets // 2
            return correlation(h, number, number) + of_bucket(h, bucket)

        return tokens.by_head(entry)

    return Hooks(scale=lambda d: 1 / sp.sqrt(2 * d), bias=bias)


def layer_norm(
    x: sp.Matrix, weight: sp.Matrix, bias: sp.Matrix, epsilon: sp.Expr
) -> sp.Matrix:
    """Layer norm of each row: (row − mean) / √(variance + epsilon) · weight + bias."""
    weight, bias = matrix("norm_weight", weight), matrix("norm_bias", bias)
    epsilon = expression("epsilon", epsilon)

    def normed(row: sp.Matrix) -> sp.Matrix:
        mean = sum(row) / sp.Integer(len(row))
        variance = sum((t - mean) ** 2 for t in row) / sp.Integer(len(row))
        deviation = sp.sqrt(variance + epsilon)
        columns = range(len(row))
        return [(row[c] - mean) / deviation * weight[c] + bias[c] for c in columns]

    return sp.Matrix([normed(x.row(r)) for r in range(x.rows)])


def project(x: sp.Matrix, weight: sp.Matrix, bias: sp.Matrix | None) -> sp.Matrix:
    """Apply a linear map to each row of ``x``: x · weightᵀ + bias.

    A ``bias`` of ``None`` adds nothing.
    """
    mapped = x * matrix("weight", weight).T
    if bias is None:
        return mapped
    row = matrix("bias", bias).reshape(1, mapped.cols)
    return mapped + sp.Matrix.vstack(*[row] * x.rows)
