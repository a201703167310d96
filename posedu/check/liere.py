"""The exercises on LieRE."""

import numpy as np
import sympy as sp
import torch
from scipy.linalg import expm

from posedu.check.core import Exercise, Misconception, Property

_rng = np.random.default_rng(0)


# liere-1: a generator from free numbers


def generator(a, b, c):
    """The 3 × 3 generator with a, b, c above its diagonal, row by row."""
    return sp.Matrix([[0, a, b], [-a, 0, c], [-b, -c, 0]])


def _upper(a, b, c):
    return sp.Matrix([[0, a, b], [0, 0, c], [0, 0, 0]])


GENERATOR = Exercise(
    name="liere-1",
    title="A generator from three numbers",
    kind="by hand",
    minutes=3,
    lines=1,
    cases=(
        (sp.Integer(1), sp.Integer(0), sp.Integer(0)),
        tuple(sp.symbols("a b c", real=True)),
    ),
    solution=generator,
    misconceptions=(
        Misconception(
            "This is symmetric",
            "Adding the transpose makes A = Aᵀ, whose exponential stretches. What "
            "must Aᵀ be for lengths to be kept?",
            lambda a, b, c: _upper(a, b, c) + _upper(a, b, c).T,
        ),
        Misconception(
            "Only the upper triangle",
            "U alone is not skew: its exponential shears. Something has to stand "
            "below the diagonal.",
            _upper,
        ),
        Misconception(
            "All signs are the other way",
            "This is Uᵀ − U: skew, but it turns the other way round. The numbers "
            "themselves stand above the diagonal.",
            lambda a, b, c: _upper(a, b, c).T - _upper(a, b, c),
        ),
    ),
    properties=(
        Property(
            "A generator is skew: A + Aᵀ = 0",
            lambda answer, *case: (answer(*case) + answer(*case).T).is_zero_matrix,
        ),
    ),
)


# liere-2: the exponential of a plane


def plane(u):
    """The exponential of [[0, u], [−u, 0]]."""
    return sp.Matrix([[sp.cos(u), sp.sin(u)], [-sp.sin(u), sp.cos(u)]])


PLANE = Exercise(
    name="liere-2",
    title="One plane",
    kind="by hand",
    minutes=5,
    lines=1,
    cases=((sp.pi / 2,), (sp.pi / 3,), (sp.Symbol("u", real=True),)),
    solution=plane,
    misconceptions=(
        Misconception(
            "This turns counter-clockwise",
            "The positive number stands *above* the diagonal: to first order the "
            "second feature is added to the first. Which way is that?",
            lambda u: plane(u).T,
        ),
        Misconception(
            "Entry by entry",
            "The exponential of a matrix is a power series of the matrix, not the "
            "exponential of each entry: exp(0) of the diagonal would be 1 for all u.",
            lambda u: sp.Matrix([[1, sp.exp(u)], [sp.exp(-u), 1]]),
        ),
        Misconception(
            "The series stops after the first power",
            "I + A agrees for tiny u only; at u = π/2 its columns are longer than 1. "
            "What is A²?",
            lambda u: sp.Matrix([[1, u], [-u, 1]]),
        ),
    ),
    properties=(
        Property(
            "A rotation has determinant 1",
            lambda answer, u: sp.simplify(answer(u).det() - 1) == 0,
        ),
    ),
)


# liere-3: Rodrigues


def rodrigues(a):
    """exp(A) of a 3 × 3 skew A, without a matrix exponential."""
    square = a[0, 1] ** 2 + a[0, 2] ** 2 + a[1, 2] ** 2
    s = np.sqrt(square)
    if s == 0:
        return np.eye(3)
    return np.eye(3) + np.sin(s) / s * a + (1 - np.cos(s)) / square * a @ a


def _size(a):
    return np.sqrt(a[0, 1] ** 2 + a[0, 2] ** 2 + a[1, 2] ** 2) or 1.0


def _skew3(a, b, c):
    return np.array([[0, a, b], [-a, 0, c], [-b, -c, 0]], dtype=float)


RODRIGUES = Exercise(
    name="liere-3",
    title="Rodrigues' formula",
    kind="NumPy",
    minutes=10,
    lines=4,
    cases=(
        (_skew3(np.pi / 2, 0, 0),),
        (_skew3(0, 0, 0),),
        (_skew3(0.5, -1.5, 2.0),),
    ),
    solution=rodrigues,
    misconceptions=(
        Misconception(
            "A² is not divided by s²",
            "With 1 − cos s alone the result is right only where s = 1. Count the "
            "powers of s in A².",
            lambda a: (
                np.eye(3)
                + np.sin(_size(a)) / _size(a) * a
                + (1 - np.cos(_size(a))) * a @ a
            ),
        ),
        Misconception(
            "A is not divided by s",
            "sin s times A has length s sin s where sin s is meant. Divide by what "
            "makes A a unit generator.",
            lambda a: (
                np.eye(3)
                + np.sin(_size(a)) * a
                + (1 - np.cos(_size(a))) / _size(a) ** 2 * a @ a
            ),
        ),
        Misconception(
            "Only a plane's formula",
            "cos s I + (sin s / s) A shrinks the axis of the turn, which must stay: "
            "A² is not −s² I in three dimensions.",
            lambda a: np.cos(_size(a)) * np.eye(3) + np.sin(_size(a)) / _size(a) * a,
        ),
        Misconception(
            "This is the turn back",
            "The sign of the odd part is reversed: this is exp(−A).",
            lambda a: rodrigues(-a),
        ),
    ),
    properties=(
        Property(
            "A rotation keeps lengths: RᵀR = I",
            lambda answer, a: np.allclose(answer(a).T @ answer(a), np.eye(3)),
        ),
    ),
)


# liere-4: free numbers


def free_numbers(axes, d, block, heads):
    """How many free numbers LieRE trains in a layer."""
    return heads * axes * d * (block - 1) // 2


FREE = Exercise(
    name="liere-4",
    title="Free numbers",
    kind="by hand",
    minutes=5,
    lines=1,
    cases=((1, 4, 2, 1), (2, 8, 4, 1), (3, 64, 8, 12)),
    solution=free_numbers,
    misconceptions=(
        Misconception(
            "Every stored entry is counted",
            "A block of b × b has a diagonal of zeros and a lower triangle that "
            "repeats the upper one. How many entries are free?",
            lambda axes, d, block, heads: heads * axes * d * block,
        ),
        Misconception(
            "One block is counted",
            "b(b − 1)/2 belong to one block. A head has more than one.",
            lambda axes, d, block, heads: heads * axes * block * (block - 1) // 2,
        ),
        Misconception(
            "The axes share a generator",
            "Then x and y would be interchangeable. Each axis has a generator of its "
            "own.",
            lambda axes, d, block, heads: heads * d * (block - 1) // 2,
        ),
        Misconception(
            "The heads are missing",
            "Each head has generators of its own here.",
            lambda axes, d, block, heads: axes * d * (block - 1) // 2,
        ),
    ),
)


# liere-5: apply blocks


def turn_blocks(x, rotation):
    """Multiply each block of features of each token by its own matrix."""
    blocks, b = rotation.shape[1:3]
    parts = x.reshape(len(x), blocks, b)
    return torch.einsum("tmij,tmj->tmi", rotation, parts).reshape(x.shape)


def _strided(x, rotation):
    blocks, b = rotation.shape[1:3]
    parts = x.reshape(len(x), b, blocks).mT
    turned = torch.einsum("tmij,tmj->tmi", rotation, parts)
    return turned.mT.reshape(x.shape)


def _rotations(tokens, blocks, b):
    u = torch.tensor(_rng.normal(size=(tokens, blocks, b, b)))
    return torch.matrix_exp(u - u.mT)


TURN = Exercise(
    name="liere-5",
    title="Block by block",
    kind="PyTorch",
    minutes=8,
    lines=3,
    cases=tuple(
        (torch.tensor(_rng.normal(size=(t, m * b))), _rotations(t, m, b))
        for t, m, b in ((1, 2, 2), (3, 2, 4), (5, 4, 3))
    ),
    solution=turn_blocks,
    misconceptions=(
        Misconception(
            "Every matrix is transposed",
            "Rows of x times R is Rᵀ times the column: the turn back. Which index of "
            "R meets the features?",
            lambda x, r: turn_blocks(x, r.mT),
        ),
        Misconception(
            "Features of a block are not neighbours here",
            "A block takes the features m·b … m·b + b − 1. This takes every "
            "(d/b)-th one.",
            _strided,
        ),
        Misconception(
            "All tokens get the first one's rotation",
            "Each token stands somewhere else: R has a token axis.",
            lambda x, r: (
                turn_blocks(x, r[:1].expand_as(r))
                if len(x) > 1
                else turn_blocks(x, r) + 1
            ),
        ),
    ),
    properties=(
        Property(
            "Rotations keep the length of every token",
            lambda answer, x, r: torch.allclose(
                answer(x, r).norm(dim=-1), x.norm(dim=-1)
            ),
        ),
    ),
)


# liere-6: how far from relative


def off_relative(a, x, y):
    """The largest entry of |R(x)ᵀ R(y) − R(y − x)|, with R(x) = exp(Σ x_a A_a)."""
    first, second, moved = (expm(np.tensordot(at, a, 1)) for at in (x, y, y - x))
    return np.abs(first.T @ second - moved).max()


def _measure(left, right):
    def measured(a, x, y):
        def turn(at):
            return expm(np.tensordot(at, a, 1))

        return np.abs(left(turn, x, y) - right(turn, x, y)).max()

    return measured


_Z, _X = _skew3(-np.pi / 2, 0, 0), _skew3(0, 0, -np.pi / 2)

RELATIVE = Exercise(
    name="liere-6",
    title="How far from relative",
    kind="experiment",
    minutes=10,
    lines=2,
    cases=(
        (np.stack([_Z, _X]), np.array([1.0, 0]), np.array([0, 1.0])),
        (np.stack([_Z, _X]), np.array([3.0, 1.5]), np.array([2.0, 2.5])),
        (
            np.stack([_skew3(*_rng.normal(size=3)) for _ in range(2)]),
            np.array([4.0, 7.0]),
            np.array([5.0, 5.5]),
        ),
    ),
    solution=off_relative,
    misconceptions=(
        Misconception(
            "The offset is taken the wrong way round",
            "R(x)ᵀ turns x away, so y − x is left. Even commuting generators fail "
            "with x − y.",
            _measure(lambda r, x, y: r(x).T @ r(y), lambda r, x, y: r(x - y)),
        ),
        Misconception(
            "The first rotation is not transposed",
            "R(x) R(y) adds positions. The score transposes the query's rotation.",
            _measure(lambda r, x, y: r(x) @ r(y), lambda r, x, y: r(y - x)),
        ),
        Misconception(
            "One token stands at the origin",
            "With x = 0 the law holds for any generators, so this always says 0. "
            "Keep x where it is.",
            _measure(lambda r, x, y: r(0 * x).T @ r(y), lambda r, x, y: r(y)),
        ),
    ),
    tolerance=1e-10,
)

EXERCISES = (GENERATOR, PLANE, RODRIGUES, FREE, TURN, RELATIVE)
