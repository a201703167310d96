"""Tables of vectors over symbols: shared by the heads, or one for each."""

from collections.abc import Callable, Sequence

import sympy as sp

from posedu.sympy._expressions import matrix
from posedu.sympy.attention import Heads, Tokens

Table = sp.Matrix | Sequence[sp.Matrix]


def tables(name: str, table: Table, heads: int) -> Heads:
    """Return the table of each head."""
    if isinstance(table, sp.MatrixBase):
        return (table,) * heads
    return tuple(matrix(name, own) for own in table)


def mix_with(
    weights: Heads,
    v: Heads,
    tokens: Tokens,
    vectors: Callable[[int, int, int], sp.Matrix],
) -> Heads:
    """Return Σ a_ij (v_j + vector of the head, the query and the key)."""
    heads = []
    for h, (a, own) in enumerate(zip(weights, v, strict=True)):
        out = sp.zeros(a.rows, own.cols)
        for i, visible in enumerate(tokens.visible):
            for j in visible:
                out[i, :] += a[i, j] * (own[j, :] + vectors(h, i, j))
        heads.append(out)
    return tuple(heads)
