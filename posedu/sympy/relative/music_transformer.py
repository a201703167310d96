"""Music Transformer in SymPy: relative position vectors and the skewing procedure."""

import sympy as sp

from posedu._arguments import BeyondOffsets, require_choice
from posedu.sympy._expressions import matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.relative.offset_table import Table, mix_with, tables


def skew(products: sp.Matrix) -> sp.Matrix:
    """Rearrange products by query and offset into products by query and key.

    Products are inner products of queries (rows) with the relative position vectors of
    offsets (columns, farthest first). A column of zeros is put in front, the entries
    are read into rows one shorter, and the first row is dropped. Equation ``def-skew``.
    See :func:`posedu.numpy.relative.skew`.
    """
    products = matrix("products", products)
    n = products.rows
    padded = sp.zeros(n, 1).row_join(products)
    return padded.reshape(n + 1, n)[1:, :]


def music_transformer(
    *, key_table: Table, beyond: BeyondOffsets, value_table: Table | None = None
) -> Hooks:
    """Return the hooks of Music Transformer, the functions that change attention.

    A vector of the offset is added to each key, and a second vector to each value if
    ``value_table`` is given. Tables are ``[table_length, d]``, farthest offset first.
    Offsets outside the table get 0 if ``beyond`` is ``"zero"``, else the vector at the
    table's end. Equation ``def-music``. See
    :func:`posedu.numpy.relative.music_transformer`.
    """
    require_choice("beyond", beyond, BeyondOffsets)

    def vector(table: sp.Matrix, tokens: Tokens, i: int, j: int) -> sp.Matrix:
        table_length = table.rows
        steps = sp.floor(tokens.positions[i] - tokens.positions[j])
        if beyond == "zero" and not 0 <= steps < table_length:
            return sp.zeros(1, table.cols)
        return table[table_length - 1 - int(max(0, min(table_length - 1, steps))), :]

    def bias(tokens: Tokens) -> Heads:
        w = tables("key_table", key_table, len(tokens.q))
        return tokens.by_head(
            lambda h, i, j: (
                tokens.q[h][i, :].dot(vector(w[h], tokens, i, j)) / sp.sqrt(tokens.d)
            )
        )

    def mix(weights: Heads, v: Heads, tokens: Tokens) -> Heads:
        w = tables("value_table", value_table, len(v))
        return mix_with(weights, v, tokens, lambda h, i, j: vector(w[h], tokens, i, j))

    opened = {} if value_table is None else {"mix": mix}
    return Hooks(bias=bias, needs_causal=True, **opened)
