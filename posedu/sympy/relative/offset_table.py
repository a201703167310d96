"""Tables of relative position vectors in SymPy: shared by heads, or one for each."""

from collections.abc import Callable, Sequence

import sympy as sp

from posedu.sympy._expressions import matrix
from posedu.sympy.attention import Heads, Tokens

Table = sp.Matrix | Sequence[sp.Matrix]


def tables(name: str, table: Table, heads: int) -> Heads:
    """Return a table for each head: a shared table repeated, or each head's own."""
    if isinstance(table, sp.MatrixBase):
        return (table,) * heads
    return tuple(matrix(name, own) for own in table)


def mix_with(
    weights: Heads,
    v: Heads,
    tokens: Tokens,
    vectors: Callable[[int, int, int], sp.Matrix],
) -> Heads:
    """Attention output Σ_j a_ij (v_j + r_ij), with ``vectors(head, i, j)`` as r_ij."""
    heads = []
    for h, (a, own) in enumerate(zip(weights, v, strict=True)):
        out = sp.zeros(a.rows, own.cols)
        for i, visible in enumerate(tokens.visible):
            for j in visible:
                out[i, :] += a[i, j] * (own[j, :] + vectors(h, i, j))
        heads.append(out)
    return tuple(heads)
