"""TAPE over symbols: positions that move from layer to layer."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import LAYOUTS, MIXINGS, require_choice, require_dimension
from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.frequencies import frequencies
from posedu.sympy.rotary.rope import layout_matrix, rotation_2d

Blocks = sp.Matrix
"""The blocks of a token: those of a head beside each other, heads on each other."""


def tape_start(
    position: sp.Expr | float, d: int, heads: int, *, base: sp.Expr | float = 10000
) -> Blocks:
    """RoPE's rotations R(ω_p t) of one position, the same in every head.

    Equation ``def-tape-start``.
    """
    position = expression("position", position)
    turns = [rotation_2d(position * w) for w in frequencies(d, base=base)]
    return sp.Matrix.vstack(*[sp.Matrix.hstack(*turns)] * heads)


def of_head(blocks: Blocks, head: int, heads: int) -> sp.Matrix:
    """The blocks of one head, beside each other."""
    r = blocks.rows // heads
    return blocks[head * r : head * r + r, :]


def heard(weights: Heads, blocks: Sequence[Blocks], i: int) -> Blocks:
    """What token i hears of all blocks, each head with its weights.

    Equation ``def-tape-heard``.
    """
    r = blocks[0].rows // len(weights)
    total = sp.zeros(*blocks[0].shape)
    for j, block in enumerate(blocks):
        total += _each(sp.diag(*(a[i, j] for a in weights)), r) * block
    return total


def tape_update(
    weights: Heads,
    blocks: Sequence[Blocks],
    fed: sp.Matrix,
    *,
    mixing: str,
    attended: sp.Matrix,
    up: sp.Matrix,
    down: sp.Matrix,
    gate: sp.Matrix,
) -> tuple[Blocks, ...]:
    """The blocks of the next layer. Equations ``def-tape-heard``, ``def-tape-fed``.

    ``fed`` has a row for each token.
    """
    said = (fed * gate.T).applyfunc(_silu)
    return moved_blocks(
        weights, blocks, said, mixing=mixing, attended=attended, up=up, down=down
    )


def moved_blocks(
    weights: Heads,
    blocks: Sequence[Blocks],
    said: sp.Matrix,
    *,
    mixing: str,
    attended: sp.Matrix,
    up: sp.Matrix,
    down: sp.Matrix,
) -> tuple[Blocks, ...]:
    """The same, given what the gate says of each token, a row for each."""
    attended = _mixed(attended, mixing)
    r = blocks[0].rows // len(weights)
    moved = []
    for i, block in enumerate(blocks):
        near = block + _each(attended, r) * heard(weights, blocks, i)
        mixed = down * sp.diag(*said[i, :]) * up
        moved.append(near + _each(mixed, r) * near)
    return tuple(moved)


def turn_by_blocks(x: sp.Matrix, blocks: sp.Matrix, *, layout: str) -> sp.Matrix:
    """The column ``x`` with each pair multiplied by its block ``[r, 2]``.

    ``blocks`` are those of one head, beside each other. Equation ``def-tape-turn``.
    """
    d, r = x.rows, blocks.rows
    paired = x if layout == "interleaved" else layout_matrix(d).T * x
    turned = [
        blocks[:, p : p + 2] * sp.Matrix(paired[p : p + 2, :]) for p in range(0, d, 2)
    ]
    if layout == "interleaved":
        return sp.Matrix.vstack(*turned)
    return sp.Matrix([pair[row] for row in range(r) for pair in turned])


def tape(
    d: int,
    *,
    layout: str,
    mixing: str,
    attended: sp.Matrix,
    up: sp.Matrix,
    down: sp.Matrix,
    gate: sp.Matrix,
    base: sp.Expr | float = 10000,
) -> Hooks:
    """TAPE as hooks. See :func:`posedu.numpy.rotary.tape`."""
    require_dimension("d", d)
    require_choice("layout", layout, LAYOUTS)
    require_choice("mixing", mixing, MIXINGS)
    attended, up = matrix("attended", attended), matrix("up", up)
    down, gate = matrix("down", down), matrix("gate", gate)
    heads = attended.rows

    def locate(positions: Sequence, x: sp.Matrix) -> tuple[Blocks, ...]:
        return tuple(tape_start(t, d, heads, base=base) for t in positions)

    def turn(x: Heads, positions: Sequence[Blocks]) -> Heads:
        return tuple(
            sp.Matrix.vstack(
                *(
                    turn_by_blocks(m[i, :].T, of_head(at, h, heads), layout=layout).T
                    for i, at in enumerate(positions)
                )
            )
            for h, m in enumerate(x)
        )

    def rotate(q: Heads, k: Heads, positions: Sequence[Blocks]) -> tuple[Heads, Heads]:
        return turn(q, positions), turn(k, positions)

    def update(weights: Heads, tokens: Tokens, fed: sp.Matrix) -> tuple[Blocks, ...]:
        return tape_update(
            weights,
            tokens.positions,
            fed,
            mixing=mixing,
            attended=attended,
            up=up,
            down=down,
            gate=gate,
        )

    return Hooks(locate=locate, rotate=rotate, update=update, heads=heads)


def _mixed(attended: sp.Matrix, mixing: str) -> sp.Matrix:
    """What multiplies the heads: the matrix, or the sums of its rows."""
    if require_choice("mixing", mixing, MIXINGS) == "heads":
        return attended
    return sp.diag(*(sum(attended.row(h)) for h in range(attended.rows)))


def _each(mixed: sp.Matrix, r: int) -> sp.Matrix:
    """The same mixture of heads in each of a block's r rows."""
    return sp.Matrix(sp.kronecker_product(mixed, sp.eye(r)))


def _silu(z: sp.Expr) -> sp.Expr:
    return z / (1 + sp.exp(-z))
