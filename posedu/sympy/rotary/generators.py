"""Skew matrices (generators of rotations) and their matrix exponentials in SymPy."""

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING

import sympy as sp

from posedu._renamed import renamed_names
from posedu.sympy._expressions import expressions, matrix
from posedu.sympy.rotary.mixed import Position
from posedu.sympy.rotary.rope import rotation_2d

J = sp.Matrix([[0, -1], [1, 0]])
"""The rotation of the plane by 90°: exp(aJ) is the rotation by a."""


def skew(entries: Sequence[sp.Expr | float]) -> sp.Matrix:
    """The skew matrix A = U − Uᵀ, where U has ``entries`` above the diagonal, by row.

    Raises
    ------
    ValueError
        A number of entries that is not b(b − 1)/2 for a block size b ≥ 2.
    """
    entries = expressions("entries", entries)
    block = (1 + isqrt(1 + 8 * len(entries))) // 2
    places = [(i, j) for i in range(block) for j in range(i + 1, block)]
    if len(entries) != len(places) or not places:
        raise ValueError(
            "entries must be b(b − 1)/2 numbers for a block of b ≥ 2, got "
            f"{len(entries)}"
        )
    upper = sp.zeros(block, block)
    for place, entry in zip(places, entries, strict=True):
        upper[place] = entry
    return upper - upper.T


def commutator(a: sp.Matrix, b: sp.Matrix) -> sp.Matrix:
    """The commutator [A, B] = AB − BA of two matrices."""
    return (a * b - b * a).expand()


def exponential(a: sp.Matrix) -> sp.Matrix:
    """The matrix exponential exp(A) of a skew matrix of size 2, 3 or 4, in closed form.

    Size 2: the rotation of the plane. Size 3: Rodrigues' formula I + (sin s/s) A + ((1
    − cos s)/s²) A², where s is the angle, the length of the vector of A's three
    entries. Size 4: A is the sum of two commuting parts whose squares are multiples of
    −I, and exp(A) is the product of their exponentials. Equation ``eq-lie-closed``.
    """
    if a.rows != a.cols or (a + a.T).expand() != sp.zeros(*a.shape):
        raise ValueError(f"A must be skew, got {a}")
    if a.rows == 2:
        return rotation_2d(a[1, 0])
    if a.rows == 3:
        square = a[0, 1] ** 2 + a[0, 2] ** 2 + a[1, 2] ** 2
        s = sp.sqrt(square)
        half = _sinc(s / 2) ** 2 / 2
        return sp.eye(3) + _sinc(s) * a + half * a * a
    if a.rows == 4:
        plus, minus = isoclinic(a)
        return _exponential(plus, -(plus**2)[0, 0]) * _exponential(
            minus, -(minus**2)[0, 0]
        )
    raise ValueError(f"closed forms are implemented for sizes 2, 3 and 4, got {a.rows}")


def isoclinic(a: sp.Matrix) -> tuple[sp.Matrix, sp.Matrix]:
    """The two commuting parts of a 4 × 4 skew matrix.

    The square of each is a multiple of −I, and their sum is the matrix.
    """
    dual = skew([a[2, 3], -a[1, 3], a[1, 2], a[0, 3], -a[0, 2], a[0, 1]])
    return (a + dual) / 2, (a - dual) / 2


def _exponential(a: sp.Matrix, square: sp.Expr) -> sp.Matrix:
    """The exponential exp(A) of a matrix with A² = −square · I."""
    s = sp.sqrt(square)
    return sp.cos(s) * sp.eye(a.rows) + _sinc(s) * a


def _sinc(s: sp.Expr) -> sp.Expr:
    return sp.S.One if s == 0 else sp.sin(s) / s


def rotations(
    position: Position, generators: Sequence[Sequence[sp.Matrix]]
) -> list[sp.Matrix]:
    """Rotation matrices R(x) = exp(Σ_k x_k A_k) of a position x, one for each block.

    ``generators[k][m]`` is block m of the generator A_k of coordinate k. Equation
    ``def-lie``.
    """
    position = expressions("position", position)
    return [
        exponential(
            sum(
                (t * a for t, a in zip(position, blocks, strict=True)),
                sp.zeros(*blocks[0].shape),
            )
        )
        for blocks in zip(*generators, strict=True)
    ]


def require_block_size(block: int, blocks: Sequence[sp.Matrix]) -> None:
    """Raise unless all matrices ``blocks`` are ``block`` × ``block``."""
    for a in blocks:
        if a.shape != (block, block):
            raise ValueError(f"blocks must be {block} × {block}, got shape {a.shape}")


def rotate_blocks(x: sp.Matrix, rotation: Sequence[sp.Matrix]) -> sp.Matrix:
    """Multiply each block of features of the column ``x`` by its own matrix.

    Equation ``def-lie``.
    """
    return sp.diag(*(matrix("rotation", block) for block in rotation)) * x


def rotate_by_generators(
    x: sp.Matrix, position: Position, generators: Sequence[Sequence[sp.Matrix]]
) -> sp.Matrix:
    """Rotate each block of features of the column ``x`` by exp(Σ_k position_k A_k).

    The matrices are those of :func:`rotations` with the generators A_k.
    """
    return rotate_blocks(x, rotations(position, generators))


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
