"""Exercises on commuting generators of rotations."""

from itertools import combinations

import numpy as np
import sympy as sp
import torch
from scipy.linalg import expm

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)


def _skew(a, b, c):
    return sp.Matrix([[0, a, b], [-a, 0, c], [-b, -c, 0]])


_LZ, _LX = _skew(-1, 0, 0), _skew(0, 0, -1)
_GENERAL = (
    _skew(*sp.symbols("a:3", real=True)),
    _skew(*sp.symbols("b:3", real=True)),
)


# commuting-generators-1: the commutator


def commutator(a, b):
    """Return the commutator [A, B] of two SymPy matrices, A = a and B = b."""
    return a * b - b * a


COMMUTATOR = Exercise(
    name="commuting-generators-1",
    title="The commutator",
    kind="by hand",
    minutes=3,
    lines=1,
    statement=r"""
Return the commutator $[A, B]$ of two SymPy matrices.
On paper: which generator is $[L_z, L_x]$?
""",
    hint=r"""
Two products and a difference.
""",
    cases=(
        (_LZ, _LX),
        (sp.Matrix([[1, 2], [3, 4]]), sp.Matrix([[0, 1], [5, -6]])),
        _GENERAL,
    ),
    solution=commutator,
    misconceptions=(
        Misconception(
            "Sign reversed",
            "[A, B] begins with AB. Your answer is [B, A].",
            lambda a, b: b * a - a * b,
        ),
        Misconception(
            "Anticommutator",
            "With a plus sign it does not vanish for A = B.",
            lambda a, b: a * b + b * a,
        ),
        Misconception(
            "Always zero",
            "Products of entries commute, and so does a product with itself. Take "
            "matrix products, in both orders.",
            lambda a, b: a.multiply_elementwise(b) - b.multiply_elementwise(a),
        ),
        Misconception(
            "One product",
            "Subtract BA from AB.",
            lambda a, b: a * b,
        ),
        Misconception(
            "Halved",
            "[A, B] is the whole difference.",
            lambda a, b: (a * b - b * a) / 2,
        ),
        Misconception(
            "Matrices subtracted, not their products",
            "The commutator compares the products in both orders.",
            lambda a, b: a - b,
        ),
        Misconception(
            "One matrix transposed",
            "AB − BA takes both matrices as they are.",
            lambda a, b: a * b.T - b * a.T,
        ),
        Misconception(
            "Transposes multiplied by their matrices",
            "AB − BA contains no transpose.",
            lambda a, b: a.T * b - b.T * a,
        ),
        Misconception(
            "Transpose of the product subtracted",
            "(AB)ᵀ is BᵀAᵀ, which is BA for skew matrices, but not for all.",
            lambda a, b: a * b - (a * b).T,
        ),
    ),
    properties=(
        Property(
            "Every matrix commutes with itself",
            lambda answer, a, b: answer(a, a).expand().is_zero_matrix,
        ),
        Property(
            "The commutator of skew matrices is skew",
            lambda answer, a, b: (
                (answer(*_GENERAL) + answer(*_GENERAL).T).expand().is_zero_matrix
            ),
        ),
    ),
    explanation=r"""
$L_z L_x$ has its only entry, 1, in row 0 and column 2, and $L_x L_z$ has its only entry, 1, in row 2 and column 0.
So $[L_z, L_x]$ takes $e_2$ to $e_0$ and $e_0$ to $-e_2$: it is $L_y$, the generator of counter-clockwise rotations about the second direction.
It is not zero, so by {prf:ref}`the main theorem <thm-com-main>` rotations about two directions of space are not exactly relative.
""",
)


# commuting-generators-2: the second order


def second_order(a, b):
    """Return the coefficient of st in exp(sA) exp(tB) − exp(sA + tB), in SymPy.

    ``a`` and ``b`` are the square SymPy matrices A and B; so is the coefficient.
    """
    return (a * b - b * a) / 2


SECOND = Exercise(
    name="commuting-generators-2",
    title="The first term that fails",
    kind="SymPy",
    minutes=10,
    lines=2,
    statement=r"""
Return the coefficient of $st$ in $e^{sA} e^{tB} - e^{sA + tB}$, exactly, for two skew SymPy matrices.
You may expand the series, or find the formula on paper.
""",
    hint=r"""
Write both sides to second order.
The series of the sum contributes $(sA + tB)^2/2$.
Mind that $AB \ne BA$.
""",
    cases=(
        (_LZ, _LX),
        _GENERAL,
        tuple(sp.Matrix(4, 4, lambda i, j, n=n: i**n - j**n) for n in (1, 2)),
    ),
    solution=second_order,
    misconceptions=(
        Misconception(
            "A quarter in place of a half",
            "The series of exp(sA + tB) has (sA + tB)²/2, not /4 as printed in a "
            "paper's appendix.",
            lambda a, b: (a * b - b * a) / 4,
        ),
        Misconception(
            "Second series forgotten",
            "AB comes from the product alone. The exponential of the sum has terms in "
            "st as well.",
            lambda a, b: a * b,
        ),
        Misconception(
            "The whole commutator",
            "exp(sA + tB) contributes (AB + BA)/2, so half of AB remains.",
            lambda a, b: a * b - b * a,
        ),
        Misconception(
            "Order of the factors reversed",
            "exp(sA) comes first. Your coefficient belongs to exp(tB) exp(sA).",
            lambda a, b: (b * a - a * b) / 2,
        ),
        Misconception(
            "Only the series of the sum",
            "Subtract the terms of the sum's series from those of the product.",
            lambda a, b: -(a * b + b * a) / 2,
        ),
        Misconception(
            "Products added",
            "The result is a difference: where AB = BA it is 0.",
            lambda a, b: (a * b + b * a) / 2,
        ),
        Misconception(
            "AB taken for BA in the square",
            "(sA + tB)² has the terms AB *and* BA.",
            lambda a, b: sp.zeros(*a.shape),
        ),
        Misconception(
            "Half of AB left over",
            "(sA + tB)²/2 has AB/2 and BA/2: subtract both.",
            lambda a, b: a * b / 2,
        ),
        Misconception(
            "Square not halved",
            "The series of the exponential has (sA + tB)²/2.",
            lambda a, b: -b * a,
        ),
        Misconception(
            "AB alone in the square, and not halved",
            "(sA + tB)²/2 has AB/2 and BA/2.",
            lambda a, b: a * b - b * a / 2,
        ),
        Misconception(
            "Three factors in place of two",
            "Each product of your answer has three factors, so that it belongs to a term "
            "of degree 3. In the coefficient of st each has two, A and B.",
            lambda a, b: (a * a * b - 2 * a * b * a + b * a * a) / 6,
        ),
        Misconception(
            "Only the series of the sum, not halved",
            "Both series contribute, and the exponential's second term is halved.",
            lambda a, b: -(a * b + b * a),
        ),
        Misconception(
            "Squares of A and B left over",
            "A² and B² belong to s² and t². The coefficient of st has only AB and BA.",
            lambda a, b: a * b - (a + b) ** 2 / 2,
        ),
    ),
    explanation=r"""
To second order $e^{sA} e^{tB} = I + sA + tB + \tfrac{1}{2}s^2 A^2 + st\,AB + \tfrac{1}{2}t^2 B^2$, and $e^{sA + tB} = I + sA + tB + \tfrac{1}{2}(sA + tB)^2$.
The square is $s^2 A^2 + st\,(AB + BA) + t^2 B^2$, so the coefficient of $st$ in the difference is $AB - \tfrac{1}{2}(AB + BA) = \tfrac{1}{2}[A, B]$.
It is zero only if $A$ and $B$ commute, which proves one direction of {prf:ref}`the main theorem <thm-com-main>` once more.
""",
)


# commuting-generators-3: is it a rotation


def is_rotation(m):
    """Return whether the real square SymPy matrix m is a rotation matrix."""
    orthogonal = sp.simplify(m.T * m) == sp.eye(m.rows)
    return orthogonal and sp.simplify(m.det()) == 1


def _keeps_lengths(m):
    return sp.simplify(m.T * m) == sp.eye(m.rows)


_HALF, _TINY = sp.Rational(1, 2), sp.Rational(1, 10**12)
_TURN = sp.Matrix(
    [[sp.Rational(3, 5), -sp.Rational(4, 5)], [sp.Rational(4, 5), sp.Rational(3, 5)]]
)

ROTATION = Exercise(
    name="commuting-generators-3",
    title="Is it a rotation?",
    kind="by hand",
    minutes=5,
    lines=2,
    statement=r"""
Decide whether a real square SymPy matrix is a rotation matrix, exactly.
Its entries are numbers; sines and cosines may be among them.
Return `True` or `False`.
""",
    hint=r"""
There are two conditions, and neither follows from the other.
`sp.simplify` knows that $\cos^2 + \sin^2 = 1$.
""",
    cases=(
        (sp.diag(1, -1),),
        (sp.diag(2, _HALF),),
        (_TURN,),
        (sp.Matrix([[sp.cos(1), -sp.sin(1)], [sp.sin(1), sp.cos(1)]]),),
        (sp.diag(-1, -1, 1),),
        (sp.diag(-1, 1, 1),),
        (sp.Matrix([[1, 1], [0, 1]]),),
        (sp.eye(2),),
        (sp.diag(2, 2),),
        (sp.Matrix([[1, sp.Rational(3, 5)], [0, sp.Rational(4, 5)]]),),
        (sp.Matrix([[0, 0, 1], [1, 0, 0], [0, 1, 0]]),),
        (sp.Matrix([[1, _TINY], [-_TINY, 1]]),),
        (sp.Matrix([[1, 0, 1], [0, 1, 0], [0, 0, 1]]),),
        (sp.diag(_TURN, _TURN),),
        (sp.Matrix([[1, 1, 0], [1, 0, 0], [0, 0, -1]]),),
        (sp.Matrix([[1, 0], [2, 1]]),),
    ),
    solution=is_rotation,
    misconceptions=(
        Misconception(
            "Reflections accepted",
            "diag(1, −1) keeps lengths and angles, but is a reflection. What "
            "distinguishes it from a rotation?",
            _keeps_lengths,
        ),
        Misconception(
            "Stretches accepted",
            "diag(2, ½) keeps areas, not lengths.",
            lambda m: sp.simplify(m.det()) == 1,
        ),
        Misconception(
            "Half turns rejected",
            "A rotation may have the eigenvalue −1, in pairs: diag(−1, −1, 1) rotates "
            "by 180°.",
            lambda m: is_rotation(m) and all(m[n, n] >= 0 for n in range(m.rows)),
        ),
        Misconception(
            "Every matrix that keeps volumes accepted",
            "A shear keeps volumes, and changes lengths.",
            lambda m: bool(abs(m.det()) == 1),
        ),
        Misconception(
            "Symmetric matrices accepted",
            "A rotation's inverse is its transpose. Few rotations are symmetric.",
            lambda m: m == m.T,
        ),
        Misconception(
            "Matrices that are their own inverse accepted",
            "A rotation's inverse is its *transpose*.",
            lambda m: m * m == sp.eye(m.rows),
        ),
        Misconception(
            "Skew matrices accepted",
            "The *exponentials* of skew matrices are rotations.",
            lambda m: (m + m.T).is_zero_matrix,
        ),
        Misconception(
            "Only the lengths of the columns tested",
            "The columns must be at right angles to each other as well, and the "
            "determinant must be 1.",
            lambda m: all(m.col(n).dot(m.col(n)) == 1 for n in range(m.cols)),
        ),
        Misconception(
            "Every matrix accepted",
            "A rotation keeps lengths, and is no reflection.",
            lambda m: True,
        ),
        Misconception(
            "Only two dimensions considered",
            "In three dimensions there are more rotations than [[cos, −sin], [sin, "
            "cos]].",
            lambda m: (
                m.rows == 2
                and m[0, 0] == m[1, 1]
                and m[0, 1] == -m[1, 0]
                and sp.simplify(m.det()) == 1
            ),
        ),
        Misconception(
            "Only two dimensions considered, and nothing simplified",
            "In three dimensions there are more rotations, and cos² 1 + sin² 1 is 1, "
            "but SymPy says so only after `sp.simplify`.",
            lambda m: (
                m.rows == 2
                and m[0, 0] == m[1, 1]
                and m[0, 1] == -m[1, 0]
                and m.det() == 1
            ),
        ),
        Misconception(
            "Diagonal matrices rejected",
            "A half turn in a plane is diag(−1, −1).",
            lambda m: is_rotation(m) and not m.is_diagonal(),
        ),
        Misconception(
            "Only the trace tested",
            "There are two conditions: the transpose is the inverse, and the matrix is "
            "no reflection.",
            lambda m: bool(abs(m.trace()) <= m.rows and sp.simplify(m.det()) == 1),
        ),
        Misconception(
            "Only two dimensions considered, and stretches accepted",
            "[[a, −b], [b, a]] rotates and stretches, and in three dimensions there "
            "are more rotations.",
            lambda m: m.rows == 2 and m[0, 0] == m[1, 1] and m[0, 1] == -m[1, 0],
        ),
        Misconception(
            "Only reflections accepted",
            "A reflection has the determinant −1. What is that of a rotation?",
            lambda m: _keeps_lengths(m) and sp.simplify(m.det()) == -1,
        ),
        Misconception(
            "Only the right angles tested",
            "The columns of a rotation have length 1 as well.",
            lambda m: (m.T * m).is_diagonal(),
        ),
        Misconception(
            "Equal diagonal and a determinant of ±1 accepted",
            "The transpose must be the inverse, and the determinant 1.",
            lambda m: bool(m.det() in (1, -1) and len(set(m.diagonal())) == 1),
        ),
        Misconception(
            "Nothing simplified",
            "cos² 1 + sin² 1 is 1, but SymPy says so only after `sp.simplify`.",
            lambda m: bool(m.T * m == sp.eye(m.rows) and m.det() == 1),
        ),
        Misconception(
            "Only whole numbers accepted",
            "Sums of rounded fractions, sines and cosines are seldom exactly 1. Keep "
            "SymPy's numbers, and simplify.",
            lambda m: is_rotation(m) and all(entry.is_integer for entry in m),
        ),
        Misconception(
            "A tolerance",
            "SymPy's numbers are exact: a matrix that is off by 10⁻²⁴ is no rotation. "
            "No tolerance is needed.",
            lambda m: bool(
                np.allclose(np.array((m.T * m).evalf(), dtype=float), np.eye(m.rows))
                and abs(m.det().evalf() - 1) < 1e-9
            ),
        ),
        Misconception(
            "Eigenvalues of modulus 1 and determinant 1 accepted",
            "A shear has the eigenvalues 1 and 1, and changes lengths.",
            lambda m: bool(
                all(sp.simplify(abs(value)) == 1 for value in m.eigenvals())
                and sp.simplify(m.det()) == 1
            ),
        ),
        Misconception(
            "Columns of length 1 and a positive determinant accepted",
            "Columns of length 1 need not be at right angles. Then the determinant is "
            "less than 1.",
            lambda m: bool(
                all(sp.simplify(m.col(n).dot(m.col(n))) == 1 for n in range(m.cols))
                and sp.simplify(m.det()) > 0
            ),
        ),
        Misconception(
            "Right angles and determinant 1 accepted",
            "The columns of diag(2, ½) are at right angles, but not of length 1.",
            lambda m: bool(
                sp.simplify(m.T * m).is_diagonal() and sp.simplify(m.det()) == 1
            ),
        ),
        Misconception(
            "Matrices that are their own inverse, of determinant 1, accepted",
            "A rotation's inverse is its *transpose*. Few rotations are their own "
            "inverse.",
            lambda m: bool(
                sp.simplify(m * m) == sp.eye(m.rows) and sp.simplify(m.det()) == 1
            ),
        ),
        Misconception(
            "Only the first two columns tested",
            "All columns must have length 1 and be at right angles to each other.",
            lambda m: bool(
                sp.simplify(m.T * m)[:2, :2] == sp.eye(2) and sp.simplify(m.det()) == 1
            ),
        ),
        Misconception(
            "Only the first column tested",
            "All columns must have length 1 and be at right angles to each other.",
            lambda m: bool(
                sp.simplify(m.T * m)[0, 0] == 1 and sp.simplify(m.det()) == 1
            ),
        ),
        Misconception(
            "Matrices that commute with their transpose accepted",
            "A rotation's transpose is its *inverse*: MᵀM = MMᵀ is not enough.",
            lambda m: bool(
                sp.simplify(m.T * m - m * m.T).is_zero_matrix
                and sp.simplify(m.det()) == 1
            ),
        ),
        Misconception(
            "Entries up to 1 and determinant 1 accepted",
            "A shear may have such entries, and changes lengths.",
            lambda m: bool(
                all(abs(entry) <= 1 for entry in m) and sp.simplify(m.det()) == 1
            ),
        ),
        Misconception(
            "Only three dimensions considered",
            "The matrix may be of any size, and the identity has its size.",
            lambda m: m.rows == 3 and is_rotation(m),
        ),
        Misconception(
            "An axis demanded",
            "A rotation of the plane leaves no direction as it is, unless it is the "
            "identity, and a reflection leaves one.",
            lambda m: bool(
                _keeps_lengths(m) and sp.simplify((m - sp.eye(m.rows)).det()) == 0
            ),
        ),
    ),
    level="optional",
    explanation=r"""
A rotation matrix has $M^\top M = I$ and $\det M = 1$.
Neither follows from the other: a reflection has the first without the second, a shear the second without the first.
By {prf:ref}`the theorem on rotation matrices <thm-com-rotations>` these are exactly the exponentials of skew matrices.
""",
)


# commuting-generators-4: do generators commute, block by block


def commute(generators):
    """Return whether the generators of all axes commute with each other.

    ``generators``, ``[axes, blocks, b, b]``, are block-diagonal matrices, one for each
    axis.
    """
    products = np.einsum("amij,cmjk->acmik", generators, generators)
    return bool(np.allclose(products, products.swapaxes(0, 1)))


def _random_skew(*shape):
    u = draw(*shape)
    return u - u.swapaxes(-1, -2)


def _parallel(axes, blocks, b):
    return draw(axes, blocks, 1, 1) * _random_skew(1, blocks, b, b)


def _equal_eigenvalues(b):
    first = _random_skew(b, b)
    q, _ = np.linalg.qr(draw(b, b, seed=1))
    return np.stack([first, q @ first @ q.T])[:, None]


def _third_differs():
    together = _parallel(3, 1, 4)
    together[2] = _random_skew(1, 4, 4)
    return together


def _disjoint_planes():
    """Return generators of rotations in two disjoint planes, one for each axis.

    The array is [axes, blocks, b, b] = [2, 1, 4, 4].
    """
    generators = np.zeros((2, 1, 4, 4))
    generators[0, 0, :2, :2] = generators[1, 0, 2:, 2:] = [[0, 1], [-1, 0]]
    return generators


def _opposite_blocks():
    """Return generators, ``[2, 2, 3, 3]``, of two axes that do not commute.

    The shape is [axes, blocks, b, b]. The commutators of the two blocks are opposite,
    so the sum of the two is 0.
    """
    a, b = _random_skew(2, 3, 3)
    return np.stack((np.stack((a, -a)), np.stack((b, b))))


_ONE_OF_TWO_BLOCKS = np.concatenate(
    (_parallel(2, 1, 3), _random_skew(2, 1, 3, 3)), axis=1
)


def _skew_multiples(*factors):
    return np.stack([[[0, f], [-f, 0]] for f in factors])[:, None]


def _about_axes(*directions):
    """Return generators of rotations about directions of space, ``[axes, 1, 3, 3]``.

    There is one of the ``directions`` for each axis; its length is the angle of the
    rotation at position 1.
    """
    made = np.zeros((len(directions), 1, 3, 3))
    for generator, (x, y, z) in zip(made, directions, strict=True):
        generator[0] = [[0, -z, y], [z, 0, -x], [-y, x, 0]]
    return made


def _square_roots(*factors):
    """Return multiples of a 4 × 4 skew matrix whose square is −I: ``[axes, 1, 4, 4]``.

    Products of two of them are 0 off the diagonal, up to rounding.
    """
    q, _ = np.linalg.qr(draw(4, 4))
    root = q @ np.kron(np.eye(2), [[0.0, -1.0], [1.0, 0.0]]) @ q.T
    return np.array(factors)[:, None, None, None] * (root - root.T) / 2


def _commute_within(generators, **tolerances):
    products = np.einsum("amij,cmjk->acmik", generators, generators)
    return bool(np.allclose(products, products.swapaxes(0, 1), **tolerances))


def _pairs(generators):
    return combinations(range(len(generators)), 2)


def _by_eigenvalues(generators):
    values = np.sort(np.linalg.eigvals(generators).imag, axis=-1)
    return bool(np.allclose(values, values[:1]))


def _commute_exactly(generators):
    products = np.einsum("amij,cmjk->acmik", generators, generators)
    return bool((products == products.swapaxes(0, 1)).all())


def _summed_over_blocks(generators):
    products = np.einsum("amij,cmjk->acik", generators, generators)
    return bool(np.allclose(products, products.swapaxes(0, 1)))


def _across_blocks(generators):
    flat = generators.reshape(-1, *generators.shape[2:])
    products = np.einsum("aij,cjk->acik", flat, flat)
    return bool(np.allclose(products, products.swapaxes(0, 1)))


def _is_multiple(a, b):
    both = np.stack((a.ravel(), b.ravel()))
    return bool(np.linalg.matrix_rank(both, tol=1e-9 * np.abs(both).max()) < 2)


COMMUTE = Exercise(
    name="commuting-generators-4",
    title="Do they commute?",
    kind="NumPy",
    minutes=8,
    lines=2,
    statement=r"""
`generators` is `[axes, blocks, b, b]`: block-diagonal generators, one for each axis.
Decide whether they commute, every two of them, up to the rounding that `np.allclose` allows.
Return `True` or `False`.
""",
    hint=r"""
Take all products of one axis's blocks with another's: `np.einsum("amij,cmjk->acmik", …)`.
What does exchanging `a` and `c` do to them?
""",
    cases=(
        (_skew_multiples(1.0, 2.0),),
        (_parallel(2, 2, 4),),
        (_random_skew(2, 1, 3, 3),),
        (_equal_eigenvalues(4),),
        (_third_differs(),),
        (_third_differs()[[0, 2, 1]],),
        (_random_skew(1, 3, 4, 4),),
        (_disjoint_planes(),),
        (_random_skew(3, 1, 3, 3) * np.array([1, 0, 1])[:, None, None, None],),
        (_random_skew(3, 1, 3, 3) * np.array([0, 1, 1])[:, None, None, None],),
        (_opposite_blocks(),),
        (_ONE_OF_TWO_BLOCKS,),
        (_ONE_OF_TWO_BLOCKS[:, ::-1],),
        (_about_axes([0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]),),
        (_about_axes([0, 0, 1], [1, 0, 0], [-1, 0, -1]),),
        (_about_axes([0, 0, 2 * np.pi], [1, 0, 0]),),
        (_about_axes([0, 0, 0.01], [0.01, 0, 0]),),
        (1e6 * _parallel(2, 1, 3),),
        (_square_roots(1.0, 0.7),),
    ),
    solution=commute,
    misconceptions=(
        Misconception(
            "Products summed over the blocks",
            "Differences of two blocks may cancel. Each block must commute by itself: "
            "m stays in the result of the einsum.",
            _summed_over_blocks,
        ),
        Misconception(
            "Exact equality",
            "Products of rounded numbers differ in their last bit. Compare "
            "up to rounding.",
            _commute_exactly,
        ),
        Misconception(
            "Blocks compared with other blocks",
            "Blocks of different m never meet in a product. Compare the axes within "
            "each block.",
            _across_blocks,
        ),
        Misconception(
            "Only the eigenvalues compared",
            "Two matrices may have the same eigenvalues in different bases, and "
            "multiples of one matrix have different ones.",
            _by_eigenvalues,
        ),
        Misconception(
            "Only the first two axes compared",
            "Every two axes must commute, and here the third is different.",
            lambda generators: commute(generators[:2]),
        ),
        Misconception(
            "Only neighboring axes compared",
            "Commuting is not transitive: a zero generator commutes with both of its "
            "neighbors, but they need not commute with each other.",
            lambda generators: all(
                commute(generators[n : n + 2]) for n in range(len(generators))
            ),
        ),
        Misconception(
            "Only multiples of one another accepted",
            "Multiples commute, and so do rotations of different pairs of features.",
            lambda generators: bool(
                all(
                    _is_multiple(a, b)
                    for block in generators.swapaxes(0, 1)
                    for a in block
                    for b in block
                )
            ),
        ),
        Misconception(
            "Only the first block compared",
            "All blocks must commute, each with the same block of the other axes.",
            lambda generators: commute(generators[:, :1]),
        ),
        Misconception(
            "Generators that do not commute accepted",
            "Which products do you compare, and must all of their entries be equal? "
            "Products of entries commute for all matrices. With one factor transposed "
            "all skew matrices pass, since (AB)ᵀ is BA.",
            lambda generators: True,
        ),
        Misconception(
            "Only equal generators accepted",
            "Multiples of one matrix commute as well.",
            lambda generators: bool(np.allclose(generators, generators[:1])),
        ),
        Misconception(
            "Only anticommuting generators accepted",
            "AB = −BA is another condition. AB and BA must be equal.",
            lambda generators: all(
                np.allclose(
                    generators[a] @ generators[c], -generators[c] @ generators[a]
                )
                for a, c in _pairs(generators)
            ),
        ),
        Misconception(
            "Blocks added first",
            "Each block must commute by itself. In a sum the differences of two blocks "
            "may cancel.",
            lambda generators: commute(generators.sum(axis=1, keepdims=True)),
        ),
        Misconception(
            "One commuting pair taken for enough",
            "Every two axes must commute.",
            lambda generators: any(
                commute(generators[[a, c]])
                for a in range(len(generators))
                for c in range(a)
            ),
        ),
        Misconception(
            "Only the first and the last axis compared",
            "Every two axes must commute.",
            lambda generators: commute(generators[[0, -1]]),
        ),
        Misconception(
            "Only the first axis compared with the others",
            "Generators that commute with the first axis need not commute with each "
            "other. Every two axes must.",
            lambda generators: all(
                commute(generators[[0, n]]) for n in range(len(generators))
            ),
        ),
        Misconception(
            "Only the last block compared",
            "All blocks must commute, each with the same block of the other axes.",
            lambda generators: commute(generators[:, -1:]),
        ),
        Misconception(
            "Axes compared in a circle",
            "Each axis is compared with the next one, and the last with the first. "
            "Of four axes the first and the third are never compared.",
            lambda generators: all(
                commute(generators[[n, n - 1]]) for n in range(len(generators))
            ),
        ),
        Misconception(
            "Each axis compared with the sum of all",
            "Commutators with the others may cancel in the sum, as they do where the "
            "sum is 0.",
            lambda generators: all(
                commute(np.stack((own, generators.sum(axis=0)))) for own in generators
            ),
        ),
        Misconception(
            "Exponentials compared",
            "The exponential of a full turn is I, which commutes with every matrix, "
            "but its generator does not.",
            lambda generators: commute(expm(generators)),
        ),
        Misconception(
            "Too large a tolerance",
            "The products of small generators are small, and so are their "
            "differences. Take the tolerance of `np.allclose`.",
            lambda generators: _commute_within(generators, rtol=0.1, atol=0.1),
        ),
        Misconception(
            "No relative tolerance",
            "Where the generators are large, the rounding of their products is large "
            "as well. Take the tolerance of `np.allclose`.",
            lambda generators: _commute_within(generators, rtol=0, atol=1e-8),
        ),
        Misconception(
            "No absolute tolerance",
            "Where a product is 0 up to rounding, no relative tolerance is large "
            "enough. Take both tolerances of `np.allclose`.",
            lambda generators: _commute_within(generators, atol=0),
        ),
        Misconception(
            "Blocks of one axis compared with each other",
            "Blocks of different m never meet in a product. Compare each axis with "
            "the other axes.",
            lambda generators: all(map(_across_blocks, generators[:, None])),
        ),
        Misconception(
            "Only blocks of 2 accepted",
            "Skew 2 × 2 matrices always commute, but larger ones may commute as well.",
            lambda generators: generators.shape[-1] == 2,
        ),
        Misconception(
            "Only multiples of a whole generator accepted",
            "The factor may be another one in each block, and generators that are no "
            "multiples may commute as well.",
            lambda generators: all(
                _is_multiple(generators[a], generators[c])
                for a, c in _pairs(generators)
            ),
        ),
    ),
    explanation=r"""
Exchanging the two axes of generators turns every product $A_a A_c$ into $A_c A_a$, so the array equals its transpose if and only if all commutators are zero.
Blocks of different $m$ act on different features and are never multiplied with each other; but each block must commute by itself, and a sum over blocks can hide two commutators that cancel.
All pairs of axes are needed: commuting is not transitive.
This is the condition of {prf:ref}`the main theorem <thm-com-main>`.
""",
)


# commuting-generators-5: fold the basis


def fold(weight, basis):
    """Return the projection ``[d, d_model]`` that makes the basis Q unnecessary.

    ``weight`` is the projection of an encoding R = Q M Qᵀ, and ``basis`` is Q. With the
    returned projection the rotation M alone gives the scores of R.
    """
    return basis.T @ weight


def _orthogonal(d):
    return torch.linalg.qr(torch.tensor(draw(d, d, seed=1)))[0]


def _same_scores(answer, weight, basis):
    d = len(basis)
    x = torch.tensor(draw(2, weight.shape[1], seed=2))
    angle = torch.arange(1.0, d // 2 + 1).double()
    blocks = [
        torch.tensor([[c, -s], [s, c]])
        for c, s in zip(angle.cos().tolist(), angle.sin().tolist(), strict=True)
    ]
    rotation = torch.block_diag(*blocks).double()
    before = (basis @ rotation @ basis.T @ weight @ x[0]) @ (weight @ x[1])
    folded = answer(weight, basis)
    return torch.allclose((rotation @ folded @ x[0]) @ (folded @ x[1]), before)


FOLD = Exercise(
    name="commuting-generators-5",
    title="Fold the basis away",
    kind="PyTorch",
    minutes=8,
    lines=1,
    statement=r"""
A trained encoding is $R(x) = Q M(x) Q^\top$ with RoPE-Mixed $M$ and a fixed orthogonal $Q$.
Queries are $W x$.
Return the projection that gives the same scores with $M$ alone.
""",
    hint=r"""
Write $R q = Q M Q^\top W x$.
The leading $Q$ cancels against the key's.
""",
    cases=tuple((torch.tensor(draw(d, d)), _orthogonal(d)) for d in (2, 4, 6)),
    solution=fold,
    misconceptions=(
        Misconception(
            "Basis not transposed",
            "In R = Q M Qᵀ the features are first multiplied by Qᵀ. With Q they would "
            "enter the basis a second time.",
            lambda weight, basis: basis @ weight,
        ),
        Misconception(
            "Basis on the wrong side",
            "W maps inputs to features. Q acts on features, so on W's output.",
            lambda weight, basis: weight @ basis,
        ),
        Misconception(
            "Basis on both sides, Qᵀ W Q",
            "Q and Qᵀ on both sides of W would act on the inputs too, which have no "
            "such basis.",
            lambda weight, basis: basis.T @ weight @ basis,
        ),
        Misconception(
            "Nothing folded",
            "With M alone your scores are those of features in another basis. (Q Qᵀ W "
            "is W itself.)",
            lambda weight, basis: weight.clone(),
        ),
        Misconception(
            "Projection transposed",
            "Qᵀ acts on W x from the left.",
            lambda weight, basis: weight.T @ basis,
        ),
        Misconception(
            "Basis on the wrong side, transposed",
            "W maps inputs to features. Q acts on features, so on W's output.",
            lambda weight, basis: weight @ basis.T,
        ),
        Misconception(
            "Basis on both sides, Q W Qᵀ",
            "Q and Qᵀ on both sides of W would act on the inputs too, which have no "
            "such basis.",
            lambda weight, basis: basis @ weight @ basis.T,
        ),
        Misconception(
            "Qᵀ on both sides",
            "Qᵀ acts on W's output. The inputs have no such basis.",
            lambda weight, basis: basis.T @ weight @ basis.T,
        ),
        Misconception(
            "Projection lost",
            "Qᵀ multiplies W x: W must stay.",
            lambda weight, basis: basis.T.clone(),
        ),
    ),
    properties=(
        Property(
            "Scores are the same with RoPE-Mixed alone and folded projections",
            _same_scores,
        ),
    ),
    level="optional",
    explanation=r"""
The score is $(Q M(x) Q^\top W_q x')^\top (Q M(y) Q^\top W_k y')$ for the contents $x'$ and $y'$, and $Q^\top Q = I$ stands in its middle.
What remains is RoPE-Mixed alone with the projections $Q^\top W_q$ and $Q^\top W_k$.
By {prf:ref}`the normal form <thm-com-normal>` every family of commuting generators has such a $Q$, so an exactly relative encoding with a fixed basis can do no more than RoPE-Mixed with trained projections.
""",
)


# commuting-generators-6: two paths to the same corner


def path_distance(a, b, v):
    """Return the distance between exp(A) exp(B) v and exp(B) exp(A) v: a number.

    ``a`` and ``b`` are the matrices A and B, [d, d]; ``v`` is [d].
    """
    first, second = expm(a), expm(b)
    return np.linalg.norm(first @ second @ v - second @ first @ v)


def _shrinkage():
    a, b = (0.01 * np.array(turn, dtype=float) for turn in (_LZ, _LX))
    v = np.array([0.0, 0.6, 0.8])
    return path_distance(a, b, v) / path_distance(a / 10, b / 10, v)


_Z, _X = (np.array(m.tolist(), dtype=float) for m in (_LZ, _LX))
_V = np.array([0.0, 0.6, 0.8])


def _distance(end, other, size=np.linalg.norm):
    """Make a wrong answer (a function) to the exercise ``path_distance``.

    The exercise asks for the distance between exp(A) exp(B) v and exp(B) exp(A) v. In
    the wrong answer, ``end`` and ``other``, functions of exp(A), exp(B) and v, replace
    these two vectors, and ``size`` replaces the length of their difference (default:
    the length).
    """
    return lambda a, b, v: float(
        size(end(expm(a), expm(b), v) - other(expm(a), expm(b), v))
    )


PATHS = Exercise(
    name="commuting-generators-6",
    title="Two paths to the same corner",
    kind="experiment",
    minutes=8,
    lines=3,
    statement=r"""
Move $v$ one column and then one row, or one row and then one column: $e^{A} e^{B} v$ and $e^{B} e^{A} v$.
Return the distance between the two ends.
`expm` is SciPy's matrix exponential.
Then try it with small steps: by what factor does the distance shrink if both are a tenth as long?
""",
    hint=r"""
Take `np.linalg.norm` of a difference.
""",
    cases=(
        (np.pi / 2 * _Z, np.pi / 2 * _X, _V),
        (0.01 * _Z, 0.01 * _X, _V),
        (_Z, -2.5 * _X, _V),
        (*_random_skew(2, 3, 3), draw(3)),
        (*_random_skew(2, 4, 4), draw(4)),
    ),
    solution=path_distance,
    misconceptions=(
        Misconception(
            "One path taken twice",
            "Your distance is 0. Either both of your paths have the same order, or you "
            "compare only the lengths of the ends, which no rotation changes.",
            lambda a, b, v: np.linalg.norm(
                expm(a) @ expm(b) @ v - expm(a) @ expm(b) @ v
            ),
        ),
        Misconception(
            "Diagonal in place of exp(B) exp(A)",
            "exp(A + B) goes straight. Compare column-then-row with row-then-column.",
            lambda a, b, v: np.linalg.norm(expm(a) @ expm(b) @ v - expm(a + b) @ v),
        ),
        Misconception(
            "Exponential entry by entry",
            "np.exp takes the exponential of each entry, and makes ones of the zeros.",
            lambda a, b, v: np.linalg.norm(
                np.exp(a) @ np.exp(b) @ v - np.exp(b) @ np.exp(a) @ v
            ),
        ),
        Misconception(
            "Products of generators, not of rotations",
            "exp(A) exp(B) is not exp(AB).",
            lambda a, b, v: np.linalg.norm(expm(a @ b) @ v - expm(b @ a) @ v),
        ),
        Misconception(
            "Commutator in place of the difference",
            "The commutator gives the distance only for very small steps. Compare the "
            "rotations.",
            lambda a, b, v: np.linalg.norm((a @ b - b @ a) @ v),
        ),
        Misconception(
            "Matrices compared, not the ends",
            "The distance of the two *vectors* is asked for.",
            lambda a, b, v: np.linalg.norm(expm(a) @ expm(b) - expm(b) @ expm(a)),
        ),
        Misconception(
            "Largest difference",
            "The distance is the root of the sum of squares.",
            _distance(
                lambda x, y, v: x @ y @ v,
                lambda x, y, v: y @ x @ v,
                size=lambda d: np.abs(d).max(),
            ),
        ),
        Misconception(
            "Differences added",
            "The distance is the root of the sum of *squares*.",
            _distance(
                lambda x, y, v: x @ y @ v,
                lambda x, y, v: y @ x @ v,
                size=lambda d: np.abs(d).sum(),
            ),
        ),
        Misconception(
            "Root missing",
            "The distance is the *root* of the sum of squares.",
            _distance(
                lambda x, y, v: x @ y @ v,
                lambda x, y, v: y @ x @ v,
                size=lambda d: (d**2).sum(),
            ),
        ),
        Misconception(
            "One step compared with the other",
            "Both paths have both steps, in another order.",
            _distance(lambda x, y, v: x @ v, lambda x, y, v: y @ v),
        ),
        Misconception(
            "Distance from the start",
            "Compare the two ends with each other, not with v.",
            _distance(lambda x, y, v: x @ y @ v, lambda x, y, v: v),
        ),
        Misconception(
            "v multiplied from the left",
            "R v is asked for. A row times R is the inverse rotation.",
            _distance(lambda x, y, v: v @ x @ y, lambda x, y, v: v @ y @ x),
        ),
        Misconception(
            "Diagonal in place of exp(A) exp(B)",
            "exp(A + B) goes straight. Compare column-then-row with row-then-column.",
            lambda a, b, v: np.linalg.norm(expm(a + b) @ v - expm(b) @ expm(a) @ v),
        ),
        Misconception(
            "Relative distance",
            "The distance itself is asked for, not divided by the length of v.",
            lambda a, b, v: path_distance(a, b, v) / np.linalg.norm(v),
        ),
        Misconception(
            "Angle in place of the distance",
            "The distance of the two ends is the length of the straight line between "
            "them, not an angle.",
            lambda a, b, v: np.arccos(
                (expm(a) @ expm(b) @ v) @ (expm(b) @ expm(a) @ v) / (v @ v)
            ),
        ),
        Misconception(
            "v left out of one path",
            "Python multiplies before it subtracts: both products need v, or a pair "
            "of parentheses.",
            lambda a, b, v: np.linalg.norm(expm(a) @ expm(b) - expm(b) @ expm(a) @ v),
        ),
        Misconception(
            "Steps a tenth as long",
            "Return the distance for the given steps.",
            lambda a, b, v: path_distance(a / 10, b / 10, v),
        ),
        Misconception(
            "Factor in place of the distance",
            "Return the distance. The factor is a question for you.",
            lambda a, b, v: path_distance(a, b, v) / path_distance(a / 10, b / 10, v),
        ),
        Misconception(
            "Series cut off after the second power",
            "I + A + A²/2 is close to exp(A) only for small A.",
            lambda a, b, v: (lambda x, y: np.linalg.norm(x @ y @ v - y @ x @ v))(
                *(np.eye(len(v)) + m + m @ m / 2 for m in (a, b))
            ),
        ),
        Misconception(
            "One factor without its exponential",
            "Both steps are rotations: take the exponential of A and of B.",
            lambda a, b, v: np.linalg.norm(expm(a) @ b @ v - expm(b) @ a @ v),
        ),
        Misconception(
            "Second path backward",
            "The second path has the same two steps in the other order, not their "
            "inverses.",
            lambda a, b, v: np.linalg.norm(
                expm(a) @ expm(b) @ v - expm(-b) @ expm(-a) @ v
            ),
        ),
        Misconception(
            "Mean of the squares",
            "The distance is the root of the *sum* of squares.",
            lambda a, b, v: path_distance(a, b, v) / len(v) ** 0.5,
        ),
    ),
    explanation=r"""
The distance shrinks by a factor of about 100, not 10.
To second order the two products differ by $[A, B]$ applied to $v$, by the expansion of exercise commuting-generators-2, and the commutator of two matrices that are a tenth as large is a hundredth as large.
For quarter turns the ends are 1.72 apart: generators that do not commute break {prf:ref}`the exactly relative law <thm-com-main>` visibly for large steps and hardly for small ones.
""",
    prediction=Prediction(
        "Both steps are small. By what factor does the distance shrink if both are a tenth as long?",
        _shrinkage,
        near=0.05,
    ),
)


# commuting-generators-7: neighbors that commute


def colleagues_commute(generators):
    """Return whether all generators commute.

    They are ``[axes, blocks, b, b]``.
    """
    for n in range(len(generators) - 1):
        first, second = generators[n], generators[n + 1]
        if not np.allclose(first @ second, second @ first):
            return False
    return True


def generators_that_do_not_commute():
    """Return the smallest generators for which `colleagues_commute` is wrong.

    They are an array ``[axes, blocks, b, b]`` of skew matrices.
    """
    about_z = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 0]])
    about_x = np.array([[0, 0, 0], [0, 0, -1], [0, 1, 0]])
    return np.stack((about_z, np.zeros((3, 3)), about_x))[:, None]


def _refused_generators(generators):
    if not isinstance(generators, np.ndarray) or generators.dtype.kind not in "if":
        return "generators are a NumPy array of numbers"
    if generators.ndim != 4 or generators.shape[2] != generators.shape[3]:
        return "the shape is [axes, blocks, b, b]"
    if not generators.size or not np.isfinite(generators).all():
        return "there are one or more axes, blocks and features, and finite numbers"
    if (generators != -generators.swapaxes(2, 3)).any():
        return "every block is a skew matrix"
    return ""


_TURNS = generators_that_do_not_commute()

NEIGHBORS = Exercise(
    name="commuting-generators-7",
    title="Find the input: generators",
    kind="find the input",
    minutes=10,
    lines=3,
    statement=r"""
`colleagues_commute` should do what exercise commuting-generators-4 asks for, for skew blocks.
Her tests are two axes that commute, two that do not, and three axes with the generators $L_z$, $L_x$ and $L_z$; all pass.
Find generators, an array `[axes, blocks, b, b]` of skew matrices, for which it is wrong.
The smallest input is the one with the fewest entries.
Which pair of axes does she never compare, and why does it matter?
""",
    hint=r"""
Which generator commutes with every other one?
Can skew $2 \times 2$ matrices fail to commute?
""",
    cases=((),),
    solution=generators_that_do_not_commute,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_commute,
        right=commute,
        tested=(
            (_TURNS[[0, 0]],),
            (_TURNS[[0, 2]],),
            (_TURNS[[0, 2, 0]],),
        ),
        refusal=_refused_generators,
        size=lambda generators: generators.size,
        size_of="number of entries",
    ),
    explanation=r"""
She compares neighboring axes only, so of three axes she never compares the first with the last.
Commuting is not transitive: a zero generator, or a rotation in a plane of its own, commutes with both $L_z$ and $L_x$, which do not commute with each other.
With two axes nothing is left out, and skew $2 \times 2$ matrices are multiples of one matrix, so three axes and $3 \times 3$ blocks are needed: 27 entries.
{prf:ref}`The main theorem <thm-com-main>` asks for *all* pairs of axes.
""",
)


SHEET = Sheet(
    title="Commuting generators",
    conventions=r"""
$[A, B] = AB - BA$ and $R(x) = \exp(\sum_a x_a A_a)$.
Matrices are SymPy matrices where the kind is by hand or SymPy.
""",
    example=r"""
from posedu.numpy.rotary import rotations

quarter = np.pi / 2 * np.array([[0.0, -1.0], [1.0, 0.0]])
a = np.array([[quarter], [2 * quarter]])  # two axes
r = rotations([(1, 0), (0, 1)], a)[:, 0]
print(np.rint(r).astype(int))
""",
    figure="commuting_generators_explorable",
    exercises=(COMMUTATOR, SECOND, ROTATION, COMMUTE, FOLD, PATHS, NEIGHBORS),
)
