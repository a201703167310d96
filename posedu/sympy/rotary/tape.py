"""TAPE in SymPy: contextualized positions, which each layer updates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy as sp

from posedu._arguments import Layout, TAPEMixing, require_choice, require_dimension
from posedu._renamed import renamed_names
from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.frequencies import frequencies
from posedu.sympy.rotary.rope import layout_matrix, rotation_2d

Blocks = sp.Matrix
"""The blocks of a token: a row of blocks for each head."""


def tape_start(
    position: sp.Expr | float, d: int, heads: int, *, base: sp.Expr | float = 10000
) -> Blocks:
    """TAPE's blocks of a position t in the first layer: RoPE's rotations R(ω_p t).

    A position has one 2 × 2 block for each pair of features and each head. The blocks
    are equal in all heads. Equation ``def-tape-start``.
    """
    position = expression("position", position)
    rotations = [rotation_2d(position * w) for w in frequencies(d, base=base)]
    return sp.Matrix.vstack(*[sp.Matrix.hstack(*rotations)] * heads)


def of_head(blocks: Blocks, head: int, heads: int) -> sp.Matrix:
    """Return one head's position blocks, side by side, from ``blocks`` of all heads.

    A position block is a matrix ``[r, 2]`` that multiplies one pair of features.
    ``head`` is the number of the head, of ``heads``.
    """
    r = blocks.rows // heads
    return blocks[head * r : head * r + r, :]


def attended_blocks(weights: Heads, blocks: Sequence[Blocks], i: int) -> Blocks:
    """The sum of all tokens' position blocks, weighted by token i's attention weights.

    A position block is a matrix that multiplies one pair of features. ``blocks`` has
    the blocks of each token, and ``weights`` a matrix ``[queries, keys]`` for each
    head, which weights the blocks of this head. Equation ``def-tape-attention``.
    """
    r = blocks[0].rows // len(weights)
    total = sp.zeros(*blocks[0].shape)
    for j, block in enumerate(blocks):
        total += _each(sp.diag(*(a[i, j] for a in weights)), r) * block
    return total


def tape_update(
    weights: Heads,
    blocks: Sequence[Blocks],
    mlp_output: sp.Matrix,
    *,
    mixing: TAPEMixing,
    attended: sp.Matrix,
    up: sp.Matrix,
    down: sp.Matrix,
    gate: sp.Matrix,
) -> tuple[Blocks, ...]:
    """The position blocks of the next layer, from attention weights and MLP output.

    A position block is a matrix that multiplies one pair of features. ``weights`` are
    the attention weights, ``blocks`` the blocks of each token in this layer, and
    ``mlp_output`` has a row for each token. ``attended``, ``up``, ``down`` and ``gate``
    are TAPE's trained matrices, and ``mixing`` says how ``attended`` mixes heads, as in
    :func:`posedu.numpy.rotary.tape`. Equations ``def-tape-attention`` and
    ``def-tape-mlp``.
    """
    gates = (mlp_output * gate.T).applyfunc(_silu)
    return updated_blocks(
        weights, blocks, gates, mixing=mixing, attended=attended, up=up, down=down
    )


def updated_blocks(
    weights: Heads,
    blocks: Sequence[Blocks],
    gates: sp.Matrix,
    *,
    mixing: TAPEMixing,
    attended: sp.Matrix,
    up: sp.Matrix,
    down: sp.Matrix,
) -> tuple[Blocks, ...]:
    """The position blocks of the next layer, from attention weights and MLP gates.

    A position block is a matrix that multiplies one pair of features. ``weights`` are
    the attention weights, ``blocks`` the blocks of each token in this layer, and
    ``gates`` has a row for each token. ``attended``, ``up`` and ``down`` are TAPE's
    trained matrices, and ``mixing`` says how ``attended`` mixes heads, as in
    :func:`posedu.numpy.rotary.tape`.
    """
    attended = _mixed(attended, mixing)
    r = blocks[0].rows // len(weights)
    updated = []
    for i, block in enumerate(blocks):
        near = block + _each(attended, r) * attended_blocks(weights, blocks, i)
        mixed = down * sp.diag(*gates[i, :]) * up
        updated.append(near + _each(mixed, r) * near)
    return tuple(updated)


def rotate_by_blocks(x: sp.Matrix, blocks: sp.Matrix, *, layout: Layout) -> sp.Matrix:
    """Multiply each pair of features of the column ``x`` by its position block [r, 2].

    ``blocks`` are the blocks of one head, side by side; ``layout`` says which features
    form a pair. Equation ``def-tape-turn``.
    """
    d, r = x.rows, blocks.rows
    paired = x if layout == "interleaved" else layout_matrix(d).T * x
    rotated = [
        blocks[:, p : p + 2] * sp.Matrix(paired[p : p + 2, :]) for p in range(0, d, 2)
    ]
    if layout == "interleaved":
        return sp.Matrix.vstack(*rotated)
    return sp.Matrix([pair[row] for row in range(r) for pair in rotated])


def tape(
    d: int,
    *,
    layout: Layout,
    mixing: TAPEMixing,
    attended: sp.Matrix,
    up: sp.Matrix,
    down: sp.Matrix,
    gate: sp.Matrix,
    base: sp.Expr | float = 10000,
) -> Hooks:
    """Return the hooks of TAPE, the functions by which it acts on attention.

    Positions are matrices that attention and MLP of each layer update. ``attended``,
    ``up``, ``down`` and ``gate`` are trained matrices, and ``mixing`` says how
    ``attended`` mixes the heads. See :func:`posedu.numpy.rotary.tape`.
    """
    require_dimension("d", d)
    require_choice("layout", layout, Layout)
    require_choice("mixing", mixing, TAPEMixing)
    attended, up = matrix("attended", attended), matrix("up", up)
    down, gate = matrix("down", down), matrix("gate", gate)
    heads = attended.rows

    def locate(positions: Sequence, x: sp.Matrix) -> tuple[Blocks, ...]:
        return tuple(tape_start(t, d, heads, base=base) for t in positions)

    def rotate_heads(x: Heads, positions: Sequence[Blocks]) -> Heads:
        return tuple(
            sp.Matrix.vstack(
                *(
                    rotate_by_blocks(m[i, :].T, of_head(at, h, heads), layout=layout).T
                    for i, at in enumerate(positions)
                )
            )
            for h, m in enumerate(x)
        )

    def rotate(q: Heads, k: Heads, positions: Sequence[Blocks]) -> tuple[Heads, Heads]:
        return rotate_heads(q, positions), rotate_heads(k, positions)

    def update(
        weights: Heads, tokens: Tokens, mlp_output: sp.Matrix
    ) -> tuple[Blocks, ...]:
        return tape_update(
            weights,
            tokens.positions,
            mlp_output,
            mixing=mixing,
            attended=attended,
            up=up,
            down=down,
            gate=gate,
        )

    return Hooks(locate=locate, rotate=rotate, update=update, heads=heads)


def _mixed(attended: sp.Matrix, mixing: TAPEMixing) -> sp.Matrix:
    """Return the matrix by which TAPE mixes heads, ``[heads, heads]``.

    It is the trained matrix ``attended`` if ``mixing`` is ``"heads"``, else the
    diagonal matrix of that matrix's row sums.
    """
    if require_choice("mixing", mixing, TAPEMixing) == "heads":
        return attended
    return sp.diag(*(sum(attended.row(h)) for h in range(attended.rows)))


def _each(mixed: sp.Matrix, r: int) -> sp.Matrix:
    """Extend a matrix that mixes heads, so that it mixes the heads' position blocks.

    Each head's block has r rows, and row n is mixed with row n of the other blocks.
    """
    return sp.Matrix(sp.kronecker_product(mixed, sp.eye(r)))


def _silu(z: sp.Expr) -> sp.Expr:
    return z / (1 + sp.exp(-z))


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
