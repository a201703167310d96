"""Tables of relative position vectors in SymPy: shared by heads, or one for each."""

from collections.abc import Callable, Sequence

import sympy as sp

from posedu.sympy._expressions import matrix
from posedu.sympy.attention import Heads, Tokens

Table = sp.Matrix | Sequence[sp.Matrix]


def tables(name: str, table: Table, heads: int) -> Heads:
    """Return a table of relative position vectors for each head, as a matrix.

    A table that heads share is repeated, a list of tables has one for each head.
    ``name`` names the table in error messages.
    """
    if isinstance(table, sp.MatrixBase):
        return (table,) * heads
    return tuple(matrix(name, own) for own in table)


def mix_with(
    weights: Heads,
    v: Heads,
    tokens: Tokens,
    vectors: Callable[[int, int, int], sp.Matrix],
) -> Heads:
    """Attention output Σ_j a_ij (v_j + r_ij) of each head.

    a_ij are the attention weights, v_j the values; r_ij is a relative position vector,
    which ``vectors(head, i, j)`` returns.
    """
    heads = []
    for h, (a, own) in enumerate(zip(weights, v, strict=True)):
        out = sp.zeros(a.rows, own.cols)
        for i, visible in enumerate(tokens.visible):
            for j in visible:
                out[i, :] += a[i, j] * (own[j, :] + vectors(h, i, j))
        heads.append(out)
    return tuple(heads)
