"""Exercises on LieRE, rotations by exponentials of trained skew matrices."""

import functools
import math

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
from posedu.numpy.rotary import exponential, skew

# liere-1: a generator from three numbers


def generator(a, b, c):
    """Return the 3 × 3 generator with a, b, c above its diagonal, in SymPy.

    The three numbers are read row by row.
    """
    return sp.Matrix([[0, a, b], [-a, 0, c], [-b, -c, 0]])


def _upper(a, b, c):
    return sp.Matrix([[0, a, b], [0, 0, c], [0, 0, 0]])


GENERATOR = Exercise(
    name="liere-1",
    title="A generator from three numbers",
    kind="by hand",
    minutes=3,
    lines=1,
    statement=r"""
Write down the $3 \times 3$ generator $A = U - U^\top$ whose numbers above the diagonal are $a$, $b$, $c$, row by row.
Return an `sp.Matrix`.
""",
    hint=r"""
What must stand below the diagonal for $A^\top = -A$?
""",
    cases=(
        (sp.Integer(1), sp.Integer(0), sp.Integer(0)),
        tuple(sp.symbols("a b c", real=True)),
    ),
    solution=generator,
    misconceptions=(
        Misconception(
            "A symmetric matrix",
            "The exponential of a symmetric matrix stretches. What must Aᵀ be for "
            "lengths to be kept?",
            lambda a, b, c: _upper(a, b, c) + _upper(a, b, c).T,
        ),
        Misconception(
            "Only the upper triangle",
            "U alone is not skew: its exponential shears. Something must stand below "
            "the diagonal.",
            _upper,
        ),
        Misconception(
            "All signs reversed",
            "Your matrix is skew, but its rotation goes in the opposite direction: a, "
            "b, c themselves stand above the diagonal.",
            lambda a, b, c: generator(-a, -b, -c),
        ),
        Misconception(
            "Cross product's matrix",
            "The matrix of a cross product is skew as well, with the numbers in other "
            "places. Here they stand above the diagonal row by row.",
            lambda a, b, c: generator(-c, b, -a),
        ),
        Misconception(
            "One sign below the diagonal missing",
            "Each number below the diagonal is minus the number at the mirrored place.",
            lambda a, b, c: sp.Matrix([[0, a, b], [-a, 0, c], [-b, c, 0]]),
        ),
        Misconception(
            "One sign below the diagonal missing, in the first column",
            "Each number below the diagonal is minus the number at the mirrored place.",
            lambda a, b, c: sp.Matrix([[0, a, b], [a, 0, c], [-b, -c, 0]]),
        ),
        Misconception(
            "b and c exchanged",
            "Row by row: a and b stand in the first row, c in the second.",
            lambda a, b, c: generator(a, c, b),
        ),
        Misconception(
            "Diagonal not zero",
            "What does A = −Aᵀ say about the diagonal?",
            lambda a, b, c: generator(a, b, c) + sp.eye(3),
        ),
        Misconception(
            "Numbers in reverse order",
            "The order is row by row, from the left: a comes first.",
            lambda a, b, c: generator(c, b, a),
        ),
        Misconception(
            "Everything halved",
            "A = U − Uᵀ, where U holds the numbers as they are.",
            lambda a, b, c: generator(a, b, c) / 2,
        ),
        Misconception(
            "Only the lower triangle",
            "A = U − Uᵀ has both triangles.",
            lambda a, b, c: -_upper(a, b, c).T,
        ),
        Misconception(
            "Places below the diagonal filled row by row",
            "A is minus its own transpose: the entry at (2, 0) is minus the entry at "
            "(0, 2).",
            lambda a, b, c: sp.Matrix([[0, a, b], [-a, 0, c], [-c, -b, 0]]),
        ),
    ),
    properties=(
        Property(
            "A generator is skew: A + Aᵀ = 0",
            lambda answer, *case: (answer(*case) + answer(*case).T).is_zero_matrix,
        ),
    ),
    explanation=r"""
$A^\top = -A$ says that the diagonal is 0 and that each number below it is minus the number at the mirrored place.
So three numbers are free, and the first row is $0, a, b$, the second $-a, 0, c$, the third $-b, -c, 0$.
By {prf:ref}`the theorem that it is always a rotation <thm-liere-rotation>` any three numbers give a rotation matrix.
""",
)


# liere-2: one plane


def plane(u):
    """Return the exponential of [[0, u], [−u, 0]]: a SymPy matrix."""
    return sp.Matrix([[sp.cos(u), sp.sin(u)], [-sp.sin(u), sp.cos(u)]])


PLANE = Exercise(
    name="liere-2",
    title="One plane",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
On paper, sum the series of the exponential of

$$\begin{pmatrix} 0 & u \\ -u & 0 \end{pmatrix}.$$

Return the $2 \times 2$ `sp.Matrix`, for numbers or symbols.
""",
    hint=r"""
Square the matrix first.
Even powers are multiples of one matrix, odd powers of another.
""",
    cases=((sp.pi / 2,), (sp.pi / 3,), (sp.Symbol("u", real=True),)),
    solution=plane,
    misconceptions=(
        Misconception(
            "Counter-clockwise rotation",
            "The positive number stands above the diagonal, so the first column of A "
            "is (0, −u). In which direction does (1, 0) begin to move?",
            lambda u: plane(-u),
        ),
        Misconception(
            "Exponential entry by entry",
            "The exponential of a matrix is a power series in the matrix. At u = 0 it "
            "must give I, not a matrix of ones.",
            lambda u: sp.Matrix([[1, sp.exp(u)], [sp.exp(-u), 1]]),
        ),
        Misconception(
            "Series cut off after the first power",
            "I + A stretches by the root of 1 + u². What is A², and what are the "
            "powers after it?",
            lambda u: sp.Matrix([[1, u], [-u, 1]]),
        ),
        Misconception(
            "Hyperbolic functions",
            "Hyperbolic functions belong to A² = u² I. Here A² has the other sign.",
            lambda u: sp.Matrix([[sp.cosh(u), sp.sinh(u)], [-sp.sinh(u), sp.cosh(u)]]),
        ),
        Misconception(
            "Series cut off after the second power",
            "What are the powers after it? Together they make sines and cosines.",
            lambda u: sp.Matrix([[1 - u**2 / 2, u], [-u, 1 - u**2 / 2]]),
        ),
        Misconception(
            "Sine and cosine exchanged",
            "At u = 0 the exponential is I.",
            lambda u: sp.Matrix([[sp.sin(u), sp.cos(u)], [-sp.cos(u), sp.sin(u)]]),
        ),
        Misconception(
            "Missing minus sign",
            "Odd powers have the signs of the matrix itself.",
            lambda u: sp.Matrix([[sp.cos(u), sp.sin(u)], [sp.sin(u), sp.cos(u)]]),
        ),
        Misconception(
            "A reflection in place of a rotation",
            "At u = 0 the exponential is I.",
            lambda u: sp.Matrix([[sp.cos(u), sp.sin(u)], [sp.sin(u), -sp.cos(u)]]),
        ),
        Misconception(
            "Only the odd powers",
            "The even powers, with the zeroth, make cosines on the diagonal.",
            lambda u: sp.Matrix([[0, sp.sin(u)], [-sp.sin(u), 0]]),
        ),
        Misconception(
            "Identity added once more",
            "The identity is the zeroth power, and is already in the cosine.",
            lambda u: plane(u) + sp.eye(2),
        ),
        Misconception(
            "Exponentials in place of sines and cosines",
            "The powers of this matrix repeat with the signs + + − −: they make sines "
            "and cosines.",
            lambda u: sp.Matrix([[1, sp.exp(u)], [-sp.exp(u), 1]]),
        ),
        Misconception(
            "Only the even powers",
            "The odd powers make sines off the diagonal.",
            lambda u: sp.Matrix([[sp.cos(u), 0], [0, sp.cos(u)]]),
        ),
        Misconception(
            "Wrong sign on both diagonals",
            "At u = 0 the exponential is I.",
            lambda u: -plane(u),
        ),
        Misconception(
            "Even powers cut off after I",
            "A² = −u² I: the even powers go on, and make a cosine.",
            lambda u: sp.Matrix([[1, sp.sin(u)], [-sp.sin(u), 1]]),
        ),
        Misconception(
            "Wrong sign of the last entry",
            "At u = 0 the exponential is I.",
            lambda u: sp.Matrix([[sp.cos(u), sp.sin(u)], [-sp.sin(u), -sp.cos(u)]]),
        ),
        Misconception(
            "Exponential entry by entry, without the diagonal",
            "The exponential of a matrix is a power series in the matrix. At u = 0 it "
            "is I.",
            lambda u: sp.Matrix([[0, sp.exp(u)], [sp.exp(-u), 0]]),
        ),
        Misconception(
            "Exponentials on the diagonal",
            "The diagonal of the matrix is 0, but not that of its square. What is A²?",
            lambda u: sp.diag(sp.exp(u), sp.exp(-u)),
        ),
        Misconception(
            "A² not halved, and the series cut off there",
            "The second power is divided by 2!, and the series does not end there.",
            lambda u: sp.Matrix([[1 - u**2, u], [-u, 1 - u**2]]),
        ),
        Misconception(
            "Minus signs at both sines",
            "The odd powers are multiples of the matrix itself, whose two entries have "
            "opposite signs.",
            lambda u: sp.Matrix([[sp.cos(u), -sp.sin(u)], [-sp.sin(u), sp.cos(u)]]),
        ),
        Misconception(
            "Squares with the wrong sign",
            "cosh and sinh belong to A² = u² I. Multiply the matrix by itself: here "
            "A² = −u² I.",
            lambda u: sp.Matrix([[sp.cosh(u), sp.sinh(u)], [sp.sinh(u), sp.cosh(u)]]),
        ),
    ),
    properties=(
        Property(
            "A rotation has determinant 1",
            lambda answer, u: sp.simplify(answer(u).det() - 1) == 0,
        ),
    ),
    explanation=r"""
Let $A$ be the matrix. Then $A^2 = -u^2 I$, so $A^{2n} = (-1)^n u^{2n} I$ and $A^{2n+1} = (-1)^n u^{2n} A$.
The even powers sum to $\sum_n (-1)^n u^{2n}/(2n)!\; I = \cos u\; I$, the odd ones to $\sum_n (-1)^n u^{2n}/(2n+1)!\; A = (\sin u / u)\, A$.
Together this is $\cos u$ on the diagonal and $\pm\sin u$ off it, with plus above the diagonal: a clockwise rotation by $u$.
With blocks of 2 LieRE is therefore RoPE-Mixed, {prf:ref}`one of its special cases <thm-liere-cases>`.
""",
)


# liere-3: the rotation at a position


def rotation(entries, x):
    """Return the rotation R(x) of one block of 3 features: a float64 array [3, 3].

    ``entries``, [axes, 3], are the numbers above the diagonal of each axis's generator;
    ``x``, [axes], is the position.
    """
    upper = np.zeros((3, 3))
    upper[np.triu_indices(3, 1)] = x @ entries
    return expm(upper - upper.T)


def _above(entries, x):
    upper = np.zeros((3, 3))
    upper[np.triu_indices(3, 1)] = x @ entries
    return upper


def _axis_after_axis(entries, x):
    product = np.eye(3)
    for coordinate, own in zip(x, entries, strict=True):
        product = product @ exponential(coordinate * skew(own))
    return product


def _whole_powers(entries, x):
    product = np.eye(3)
    for coordinate, own in zip(x, entries, strict=True):
        power = np.linalg.matrix_power(exponential(skew(own)), int(coordinate))
        product = product @ power
    return product


def _below(entries, x):
    lower = np.zeros((3, 3))
    lower[np.tril_indices(3, -1)] = x @ entries
    return lower


ROTATION = Exercise(
    name="liere-3",
    title="The rotation at a position",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
`entries` is `[axes, 3]`: for each axis the numbers above the diagonal of a $3 \times 3$ generator, row by row.
`x` is a position, `[axes]`, of reals or of integers.
Return $R(x)$, `[3, 3]`.
`expm` is SciPy's matrix exponential.
Do it without `posedu.numpy.rotary`.
""",
    hint=r"""
$\sum_a x_a A_a$ is a generator too: which numbers stand above its diagonal?
`np.triu_indices(3, 1)` gives those places row by row.
""",
    cases=(
        (np.array([[np.pi / 2, 0.0, 0.0]]), np.array([1.0])),
        (np.array([[np.pi / 2, 0.0, 0.0], [0.0, 0.0, np.pi / 2]]), np.array([1.0, 2])),
        (draw(3, 3), draw(3)),
        (draw(2, 3), np.array([1, 2])),
        (np.array([[25.0, 0.0, 0.0]]), np.array([2.0])),
    ),
    solution=rotation,
    misconceptions=(
        Misconception(
            "One rotation per axis",
            "exp(x₀ A₀) exp(x₁ A₁) is exp(x₀ A₀ + x₁ A₁) at all x only where A₀ and A₁ "
            "commute. Add the generators first.",
            _axis_after_axis,
        ),
        Misconception(
            "Exponential entry by entry",
            "`np.exp` takes the exponential of each number. The exponential of a "
            "matrix is a power series in the matrix.",
            lambda entries, x: np.exp(skew(x @ entries)),
        ),
        Misconception(
            "Only the upper triangle",
            "The exponential of an upper triangle is again an upper triangle, and not "
            "a rotation.",
            lambda entries, x: expm(_above(entries, x)),
        ),
        Misconception(
            "Symmetric generators",
            "U + Uᵀ stretches. Which combination of U and Uᵀ is skew?",
            lambda entries, x: expm(_above(entries, x) + _above(entries, x).T),
        ),
        Misconception(
            "Position left out",
            "Your answer sums the generators. Multiply each by its coordinate first.",
            lambda entries, x: exponential(skew(entries.sum(axis=0))),
        ),
        Misconception(
            "Rotation at −x",
            "Look at where the numbers stand: above the diagonal.",
            lambda entries, x: rotation(entries, -x),
        ),
        Misconception(
            "One rotation per axis, in the opposite order",
            "The exponential of a sum is no product, in either order, unless the "
            "generators commute. Add the generators first.",
            lambda entries, x: _axis_after_axis(entries[::-1], x[::-1]),
        ),
        Misconception(
            "Series cut off after the first power",
            "I + A stretches. `expm` has the whole series.",
            lambda entries, x: np.eye(3) + skew(x @ entries),
        ),
        Misconception(
            "Rotations of the axes added",
            "Add the generators, before the exponential.",
            lambda entries, x: sum(
                exponential(c * skew(own)) for c, own in zip(x, entries, strict=True)
            ),
        ),
        Misconception(
            "Generator halved",
            "A = U − Uᵀ, where U holds the numbers as they are.",
            lambda entries, x: rotation(entries, x / 2),
        ),
        Misconception(
            "Generator in place of its exponential",
            "Its exponential is the rotation.",
            lambda entries, x: skew(x @ entries),
        ),
        Misconception(
            "First coordinate for every axis",
            "Axis a is multiplied by x[a].",
            lambda entries, x: rotation(entries, np.full_like(x, x[0])),
        ),
        Misconception(
            "Only the first axis",
            "Sum the generators of all axes.",
            lambda entries, x: rotation(entries[:1], x[:1]),
        ),
        Misconception(
            "Cross product's matrix",
            "The numbers stand above the diagonal, row by row.",
            lambda entries, x: rotation(entries[:, ::-1] * [-1, 1, -1], x),
        ),
        Misconception(
            "Diagonal not zero",
            "`np.triu_indices(3, 1)` begins above the diagonal.",
            lambda entries, x: expm(skew(x @ entries) + np.eye(3)),
        ),
        Misconception(
            "Series cut off after the second power",
            "I + A + A²/2 stretches a little. `expm` has the whole series.",
            lambda entries, x: (
                np.eye(3)
                + skew(x @ entries)
                + skew(x @ entries) @ skew(x @ entries) / 2
            ),
        ),
        Misconception(
            "Numbers cut to integers",
            "With the dtype of x your array holds integers where x does. Give it "
            "float64.",
            lambda entries, x: exponential(
                skew((x @ entries).astype(x.dtype).astype(float))
            ),
        ),
        Misconception(
            "Mean over the axes",
            "The generators of the axes are summed, not averaged.",
            lambda entries, x: rotation(entries, x / len(x)),
        ),
        Misconception(
            "Only the first two axes",
            "Sum the generators of all axes: there may be more than two.",
            lambda entries, x: rotation(entries[:2], x[:2]),
        ),
        Misconception(
            "Only the first and the last axis",
            "Sum the generators of all axes: there may be more than two, or only one.",
            lambda entries, x: rotation(entries[[0, -1]], x[[0, -1]]),
        ),
        Misconception(
            "Sign of the coordinates lost",
            "A negative coordinate rotates in the other direction.",
            lambda entries, x: rotation(entries, np.abs(x)),
        ),
        Misconception(
            "Sums multiplied",
            "Each coordinate multiplies the numbers of its own axis, and then the "
            "axes are summed.",
            lambda entries, x: rotation(entries.sum(0, keepdims=True), x.sum()[None]),
        ),
        Misconception(
            "Whole powers of the axes' rotations",
            "A power with a whole exponent cuts the coordinate to an integer, and a "
            "product of the axes' rotations is another encoding.",
            _whole_powers,
        ),
    ),
    properties=(
        Property(
            "A rotation keeps lengths: RᵀR = I",
            lambda answer, entries, x: np.allclose(
                answer(entries, x).T @ answer(entries, x), np.eye(3)
            ),
        ),
        Property(
            "At the origin the rotation is I",
            lambda answer, entries, x: np.allclose(answer(entries, 0 * x), np.eye(3)),
        ),
    ),
    explanation=r"""
{prf:ref}`The definition <def-lie-box>` has one exponential, of the sum $\sum_a x_a A_a$.
The sum is a generator too, and the numbers above its diagonal are $\sum_a x_a$ times those of axis $a$: `x @ entries`.
A product of one rotation for each axis is the same at all positions only where the generators commute.
""",
)


# liere-4: Rodrigues' formula


def rodrigues(a):
    """Return exp(A) of a 3 × 3 skew matrix A: a float64 array [3, 3].

    ``a`` is A, a float64 array [3, 3].
    """
    s = np.sqrt(np.sum(np.triu(a) ** 2))
    if s == 0:
        return np.eye(3)
    return np.eye(3) + np.sin(s) / s * a + (1 - np.cos(s)) / s**2 * a @ a


def _length(a):
    return np.sqrt(a[0, 1] ** 2 + a[0, 2] ** 2 + a[1, 2] ** 2)


def _combined(a, first, second):
    return np.eye(3) + first * a + second * a @ a


def _wrong_rodrigues(first, second):
    """Make a wrong answer (a function) to the exercise ``rodrigues``.

    The exercise asks for exp(A) = 1 + (sin s)/s A + (1 − cos s)/s² A² of a 3 × 3 skew
    matrix A, where s is the length of the three numbers above the diagonal of A. In the
    wrong answer, ``first(s)`` and ``second(s)`` replace the coefficients of A and A².
    """

    def answer(a):
        s = _length(a) or 1.0  # where A = 0 the coefficients do not matter
        return _combined(a, first(s), second(s))

    return answer


def _plane_formula(a):
    s = _length(a)
    return np.eye(3) if s == 0 else np.cos(s) * np.eye(3) + np.sin(s) / s * a


def _with_length(length):
    """Make a wrong answer (a function) to the exercise ``rodrigues``.

    The exercise asks for exp(A) of a 3 × 3 skew matrix A. In the wrong answer,
    ``length(a)`` replaces s, the length of the three numbers above the diagonal of A.
    """

    def answer(a):
        s = length(a) or 1.0
        return _combined(a, np.sin(s) / s, (1 - np.cos(s)) / s**2)

    return answer


RODRIGUES = Exercise(
    name="liere-4",
    title="Rodrigues' formula",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
Compute $\exp A$ of a $3 \times 3$ skew matrix `a`.
SciPy's `expm` does it with more work: find a formula with three terms.
Entries of the result may be off by at most $10^{-9}$, and entries of $A$ are between −100 and 100.
$A = 0$ is allowed, and so is a small $A$.
""",
    hint=r"""
$I$, $A$ and $A^2$ are all you need.
Let $s^2$ be the sum of the squares above the diagonal.
What is $A^3$?
""",
    cases=(
        (np.zeros((3, 3)),),
        (skew(np.array([2e-9, 0.0, 0.0])),),
        (skew(np.array([8e-5, 0.0, 0.0])),),
        (skew(np.array([0.001, 0.0, 0.0])),),
        (skew(np.array([0.002, 0.004, 0.006])),),
        (skew(np.array([np.pi / 2, 0.0, 0.0])),),
        (skew(np.array([0.5, -1.5, 2.0])),),
        (skew(np.array([30.0, 0.0, -40.0])),),
    ),
    solution=rodrigues,
    misconceptions=(
        Misconception(
            "A² not divided by s²",
            "With 1 − cos s alone the result is right for s = 1, and not in general. Which "
            "multiple of A has the length 1, and what is its square?",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: 1 - np.cos(s)),
        ),
        Misconception(
            "Neither A nor A² divided",
            "Your answer is the formula for an A of length 1. Divide A by its length "
            "first.",
            _wrong_rodrigues(np.sin, lambda s: 1 - np.cos(s)),
        ),
        Misconception(
            "A² divided by s, not by s²",
            "Divide A by its length, and then square. How often does s divide A²?",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: (1 - np.cos(s)) / s),
        ),
        Misconception(
            "Term with A² missing",
            "I + (sin s/s) A is no rotation: after a half turn, s = π, it is I again.",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: 0.0),
        ),
        Misconception(
            "cos s in place of 1 − cos s",
            "Near A = 0 the term with A² must be as small as s². Is yours?",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: np.cos(s) / s**2),
        ),
        Misconception(
            "Formula of a plane",
            "cos s I + (sin s/s) A shrinks the axis of the rotation, which must stay "
            "as it is: in three dimensions A² is not −s² I.",
            _plane_formula,
        ),
        Misconception(
            "Inverse rotation",
            "Your answer is exp(−A): the odd part has the wrong sign.",
            lambda a: rodrigues(-a),
        ),
        Misconception(
            "Every number counted twice in s",
            "s² is the sum over the numbers *above* the diagonal. The Frobenius norm "
            "includes the numbers below as well, and is √2 s.",
            _with_length(np.linalg.norm),
        ),
        Misconception(
            "s² in place of s",
            "The sum of the squares is s². Take its root.",
            _with_length(lambda a: _length(a) ** 2),
        ),
        Misconception(
            "Sum of absolute values as s",
            "s² is the sum of the squares.",
            _with_length(lambda a: np.abs(np.triu(a)).sum()),
        ),
        Misconception(
            "Largest number as s",
            "s² is the sum of all three squares.",
            _with_length(lambda a: np.abs(a).max()),
        ),
        Misconception(
            "A² entry by entry",
            "`a * a` and `a**2` square each number. A² is the matrix product.",
            lambda a: (
                np.eye(3)
                + np.sin(_length(a) or 1) / (_length(a) or 1) * a
                + (1 - np.cos(_length(a) or 1)) / (_length(a) or 1) ** 2 * a * a
            ),
        ),
        Misconception(
            "Sign of A² reversed",
            "A² is already negative: it reduces the identity to what a cosine leaves.",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: (np.cos(s) - 1) / s**2),
        ),
        Misconception(
            "1 + cos s in place of 1 − cos s",
            "Near A = 0 the term with A² must be as small as s².",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: (1 + np.cos(s)) / s**2),
        ),
        Misconception(
            "Identity missing",
            "The zeroth power of A is I.",
            lambda a: rodrigues(a) - np.eye(3),
        ),
        Misconception(
            "Series cut off after the second power",
            "I + A + A²/2 is right only near A = 0.",
            lambda a: _combined(a, 1.0, 0.5),
        ),
        Misconception(
            "Sine not divided by s",
            "Divide A by its length first: the length divides both terms.",
            _wrong_rodrigues(np.sin, lambda s: (1 - np.cos(s)) / s**2),
        ),
        Misconception(
            "Exponential entry by entry",
            "The exponential of a matrix is a power series in the matrix.",
            np.exp,
        ),
        Misconception(
            "Second term halved",
            "1 − cos s is s²/2 near 0, and A²/2 is the series' second term. No further "
            "half is needed.",
            _wrong_rodrigues(
                lambda s: np.sin(s) / s, lambda s: (1 - np.cos(s)) / (2 * s**2)
            ),
        ),
        Misconception(
            "Half of the Frobenius norm as s",
            "In the Frobenius norm each square is counted twice, so the norm is √2 s.",
            _with_length(lambda a: np.linalg.norm(a) / 2),
        ),
        Misconception(
            "Series cut off after the third power",
            "The sum of four terms is right only near A = 0. All powers of A are "
            "multiples of A and A².",
            lambda a: _combined(a, 1.0, 0.5) + a @ a @ a / 6,
        ),
        Misconception(
            "cos s in front of the identity",
            "With I + (1 − cos s) A²/s² the axis stays and the plane gets its cosine. "
            "A cosine in front of I changes both once more.",
            lambda a: rodrigues(a) + (np.cos(_length(a)) - 1) * np.eye(3),
        ),
        Misconception(
            "I + A below too large a limit",
            "I + A lacks A²/2, which is too large an error where s is 0.001. How small "
            "must s be for an error of 10⁻⁹?",
            lambda a: np.eye(3) + a if _length(a) < 0.01 else rodrigues(a),
        ),
        Misconception(
            "0/0 at A = 0",
            "sin s/s has a limit where s = 0, but not a value. Which rotation is exp A "
            "there?",
            lambda a: rodrigues(a) if a.any() else np.full((3, 3), np.nan),
        ),
        Misconception(
            "Series cut off too early",
            "Ten terms are enough only for a small A. All powers of A are multiples of "
            "A and A².",
            lambda a: sum(
                np.linalg.matrix_power(a, n) / math.factorial(n) for n in range(10)
            ),
        ),
        Misconception(
            "I for a small A",
            "For a small A, exp A is about I + A, and your answer leaves out A itself.",
            lambda a: np.eye(3) if _length(a) < 1e-4 else rodrigues(a),
        ),
        Misconception(
            "I for a very small A",
            "For a very small A, exp A is about I + A. The error must not exceed 10⁻⁹.",
            lambda a: np.eye(3) if _length(a) < 1e-6 else rodrigues(a),
        ),
        Misconception(
            "I + A for a small A",
            "I + A is wrong by s²/2. Where is that below 10⁻⁹?",
            lambda a: np.eye(3) + a if _length(a) < 1e-3 else rodrigues(a),
        ),
        Misconception(
            "A small number added to the divisor",
            "The number you add is not small compared with a small s. Only s = 0 needs "
            "care.",
            lambda a: _combined(
                a,
                np.sin(_length(a)) / (_length(a) + 1e-8),
                (1 - np.cos(_length(a))) / (_length(a) ** 2 + 1e-8),
            ),
        ),
        Misconception(
            "Inverse rotation, and I for a very small A",
            "Your answer is exp(−A): the odd part has the wrong sign. And for a very "
            "small A the result is about I + A, not I.",
            lambda a: np.eye(3) if _length(a) < 1e-6 else rodrigues(-a),
        ),
        Misconception(
            "Sign of the cosine lost",
            "The root of 1 − sin² s is |cos s|: beyond a quarter turn the cosine is "
            "negative.",
            _wrong_rodrigues(
                lambda s: np.sin(s) / s, lambda s: (1 - np.abs(np.cos(s))) / s**2
            ),
        ),
        Misconception(
            "Angle modulo π",
            "Sine and cosine repeat after 2π. After π they change their signs.",
            _wrong_rodrigues(
                lambda s: np.sin(s % np.pi) / s,
                lambda s: (1 - np.cos(s % np.pi)) / s**2,
            ),
        ),
    ),
    properties=(
        Property(
            "A generator of zeros gives I",
            lambda answer, a: np.allclose(answer(0 * a), np.eye(3)),
        ),
        Property(
            "A rotation keeps lengths: RᵀR = I",
            lambda answer, a: np.allclose(answer(a).T @ answer(a), np.eye(3)),
        ),
    ),
    level="optional",
    explanation=r"""
For a skew $3 \times 3$ matrix $A^3 = -s^2 A$, so all powers are multiples of $A$ and $A^2$ and the series has three parts.
The odd powers sum to $(\sin s / s)\, A$, the even ones from the second on to $\bigl((1 - \cos s)/s^2\bigr) A^2$, and the zeroth is $I$.
At $s = 0$ both factors are quotients 0/0, with the limits 1 and ½; there the result is $I$.
""",
)


# liere-5: two rotations that commute


def commuting_parts(a):
    """Return two commuting skew SymPy matrices that sum to the 4 × 4 skew matrix a."""
    u, v, w = a[2, 3], -a[1, 3], a[1, 2]
    f, g, h = a[0, 3], -a[0, 2], a[0, 1]
    upper = sp.Matrix([[0, u, v, w], [0, 0, f, g], [0, 0, 0, h], [0, 0, 0, 0]])
    dual = upper - upper.T
    return (a + dual) / 2, (a - dual) / 2


def _with_signs(a, first, second, third):
    dual = sp.zeros(4, 4)
    for sign, pair in ((first, (0, 1)), (second, (0, 2)), (third, (0, 3))):
        other = tuple(sorted({0, 1, 2, 3} - set(pair)))
        dual[pair], dual[other] = sign * a[other], sign * a[pair]
    dual -= dual.T
    return (a + dual) / 2, (a - dual) / 2


def _minus_once(a):
    first, second = commuting_parts(a)
    dual = first - second
    dual[1, 3], dual[3, 1] = dual[3, 1], dual[1, 3]
    return (a + dual) / 2, (a - dual) / 2


def _diagonal_blocks(a):
    inside = sp.diag(a[:2, :2], a[2:, 2:])
    return inside, a - inside


def _symbolic(entries):
    upper = sp.zeros(4, 4)
    places = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    for place, entry in zip(places, entries, strict=True):
        upper[place] = entry
    return upper - upper.T


def _commute(first, second):
    return (first * second - second * first).expand().is_zero_matrix


def _is_rotation(part):
    square = (part * part).expand()
    return (square - square[0, 0] * sp.eye(4)).expand().is_zero_matrix


PARTS = Exercise(
    name="liere-5",
    title="Two rotations that commute",
    kind="SymPy",
    minutes=15,
    lines=6,
    statement=r"""
`a` is a $4 \times 4$ skew `sp.Matrix`.
Let $\tilde A$ be the skew matrix with three pairs of its entries exchanged: those at $(0, 1)$ and $(2, 3)$; those at $(0, 2)$ and $(1, 3)$; those at $(0, 3)$ and $(1, 2)$.
Each pair is exchanged with a sign, and the sign of the first pair is plus.
Find the other two signs, such that $A_\pm = (A \pm \tilde A)/2$ commute for every $A$.
Return $A_+$ and $A_-$.
""",
    hint=r"""
$A_+$ and $A_-$ commute where $A$ and $\tilde A$ do.
Multiply $A$ and $\tilde A$ for six symbols, with unknown signs $\varepsilon$ and $\delta$, and look at the entries off the diagonal.
""",
    cases=(
        (_symbolic([1, 0, 0, 0, 0, 0]),),
        (_symbolic([0, 1, 0, 0, 3, 0]),),
        (_symbolic(sp.symbols("u:6", real=True)),),
    ),
    solution=commuting_parts,
    misconceptions=(
        Misconception(
            "Three plus signs",
            "With three plus signs the parts do not commute. Multiply them for A with "
            "two entries, at (0, 1) and at (0, 2).",
            lambda a: _with_signs(a, 1, 1, 1),
        ),
        Misconception(
            "Two minus signs",
            "Only one of the three pairs is exchanged with a minus.",
            lambda a: _with_signs(a, 1, -1, -1),
        ),
        Misconception(
            "Minus sign at the wrong pair",
            "A single minus sign is right, but it does not belong to (0, 3) and (1, "
            "2).",
            lambda a: _with_signs(a, 1, 1, -1),
        ),
        Misconception(
            "Two parts exchanged",
            "The sign of the pair (0, 1) and (2, 3) is given: it is plus.",
            lambda a: commuting_parts(a)[::-1],
        ),
        Misconception(
            "Parts not halved",
            "Your parts sum to 2A, and the product of their exponentials is exp(2A).",
            lambda a: tuple(2 * part for part in commuting_parts(a)),
        ),
        Misconception(
            "Matrix split into its blocks",
            "Your first part has the planes (0, 1) and (2, 3), the second the rest. "
            "These two do not commute.",
            _diagonal_blocks,
        ),
        Misconception(
            "Minus sign at the first pair",
            "The first pair's sign is given: plus. One of the other two pairs has the "
            "minus.",
            lambda a: _with_signs(a, -1, 1, 1),
        ),
        Misconception(
            "A and Ã in place of A₊ and A₋",
            "A₊ and A₋ are half of the sum and half of the difference of A and Ã.",
            lambda a: (a, commuting_parts(a)[0] - commuting_parts(a)[1]),
        ),
        Misconception(
            "A halved",
            "Two equal parts commute, but their squares are not multiples of I.",
            lambda a: (a / 2, a / 2),
        ),
        Misconception(
            "Upper and lower triangle as the parts",
            "Both parts must be skew.",
            lambda a: (a.upper_triangular(), a.lower_triangular()),
        ),
        Misconception(
            "Entries read from the other end",
            "Reading from the other end exchanges more than the three pairs, and "
            "changes signs. Exchange entries above the diagonal, and make the result "
            "skew.",
            lambda a: (lambda dual: ((a + dual) / 2, (a - dual) / 2))(
                sp.Matrix(4, 4, lambda i, j: a[3 - i, 3 - j])
            ),
        ),
        Misconception(
            "Minus sign at one entry of a pair only",
            "Both entries of the pair change their sign: each becomes minus the other.",
            _minus_once,
        ),
        Misconception(
            "All of A in one part",
            "A and a matrix of zeros commute, but they are not half of the sum and "
            "half of the difference of A and Ã.",
            lambda a: (a, sp.zeros(4, 4)),
        ),
    ),
    properties=(
        Property(
            "The parts sum to A",
            lambda answer, a: (sum(answer(a), sp.zeros(4, 4)) - a).is_zero_matrix,
        ),
        Property(
            "The parts commute",
            lambda answer, a: _commute(*answer(a)),
        ),
        Property(
            "The square of each part is a multiple of I",
            lambda answer, a: all(map(_is_rotation, answer(a))),
        ),
    ),
    level="hard",
    explanation=r"""
Write $u_0, \dots, u_5$ for the numbers above the diagonal, row by row, $\varepsilon$ for the sign at $(0, 2)$ and $(1, 3)$, and $\delta$ for the sign at $(0, 3)$ and $(1, 2)$.
The entry of $[A, \tilde A]$ at $(0, 1)$ is $-(\varepsilon + \delta)(u_1 u_2 - u_3 u_4)$, and the one at $(0, 2)$ is $(\delta - 1)(u_0 u_2 + u_3 u_5)$.
Both vanish for every $A$ only with $\delta = 1$ and $\varepsilon = -1$; then $A \tilde A = \tilde A A$ is a multiple of $I$, so $A_+$ and $A_-$ commute as well.
Hence $\exp A = \exp A_+ \exp A_-$: in four dimensions a rotation has two angles, and both are read from the first rows of $A_\pm$.
""",
)


# liere-6: the cost


def cost(axes, d, block, heads):
    """Return the cost of a LieRE layer: two integers.

    The first is the number of parameters. The second is the number of multiply-adds
    that rotate the queries of one token. ``axes`` and ``heads`` are numbers, ``d`` is
    the head dimension, and ``block`` is the number of features in a block.
    """
    blocks = heads * d // block
    return axes * blocks * (block * (block - 1) // 2), blocks * block**2


def _cost_with(parameters=None, multiply_adds=None):
    """Make a wrong answer (a function) to the exercise ``cost``.

    The exercise asks for the parameters and multiply-adds of a LieRE layer. In the
    wrong answer, ``parameters`` and ``multiply_adds`` replace the two integers; each is
    a function of axes, d, block and heads. With None the integer is right.
    """

    def answer(*case):
        right = cost(*case)
        return (
            right[0] if parameters is None else parameters(*case),
            right[1] if multiply_adds is None else multiply_adds(*case),
        )

    return answer


COST = Exercise(
    name="liere-6",
    title="The cost",
    kind="by hand",
    minutes=10,
    lines=2,
    statement=r"""
A layer has `heads` heads of `d` features, each with generators of its own for `axes` axes, in blocks of `block`.
Return two integers:

1. the number of parameters of the layer, if it stores no more than it needs;
2. the number of multiply-adds that rotate the queries of one token, in all heads, once the rotations are there. A multiplication and its addition count as one.
""",
    hint=r"""
Count for one block of one head first.
How many blocks are there?
""",
    cases=((1, 4, 2, 1), (2, 8, 4, 1), (3, 64, 8, 12)),
    solution=cost,
    misconceptions=(
        Misconception(
            "Every entry of a generator counted",
            "The diagonal is zero, and the lower triangle repeats the upper one. How "
            "many entries of a block are free?",
            lambda axes, d, block, heads: (
                heads * axes * d * block,
                heads * d * block,
            ),
        ),
        Misconception(
            "Dense d × d matrix multiplied",
            "All entries outside the blocks are zeros, so at most d · block are not. "
            "Multiply block by block.",
            lambda axes, d, block, heads: (
                heads * axes * d * (block - 1) // 2,
                heads * d**2,
            ),
        ),
        Misconception(
            "Cost of the dense form",
            "In the dense form the only block has the size d. Here the blocks are "
            "given.",
            lambda axes, d, block, heads: (
                heads * axes * d * (d - 1) // 2,
                heads * d**2,
            ),
        ),
        Misconception(
            "A single block counted",
            "A head of d features has d/block of them.",
            lambda axes, d, block, heads: (
                heads * axes * block * (block - 1) // 2,
                heads * block**2,
            ),
        ),
        Misconception(
            "One generator for all axes",
            "With one generator for all axes the rotation would depend only on the sum "
            "of the coordinates. Each axis trains a generator of its own.",
            lambda axes, d, block, heads: (
                heads * d * (block - 1) // 2,
                heads * d * block,
            ),
        ),
        Misconception(
            "One product for each axis",
            "The axes are summed in the exponent, and a single rotation is applied.",
            lambda axes, d, block, heads: (
                heads * axes * d * (block - 1) // 2,
                heads * axes * d * block,
            ),
        ),
        Misconception(
            "Heads left out",
            "Each head has generators of its own, and queries of its own.",
            lambda axes, d, block, heads: (axes * d * (block - 1) // 2, d * block),
        ),
        Misconception(
            "Diagonal counted",
            "The diagonal is zero. How many numbers stand above it?",
            _cost_with(
                lambda axes, d, block, heads: axes * heads * d * (block + 1) // 2
            ),
        ),
        Misconception(
            "Half of the entries counted",
            "The diagonal is zero, so less than half of the entries is free.",
            _cost_with(lambda axes, d, block, heads: axes * heads * d * block // 2),
        ),
        Misconception(
            "Every parameter counted twice",
            "The lower triangle repeats the upper one, up to the sign; and queries "
            "and keys are rotated by the same generators.",
            _cost_with(lambda axes, d, block, heads: axes * heads * d * (block - 1)),
        ),
        Misconception(
            "Heads left out of the parameters",
            "Each head has generators of its own.",
            _cost_with(lambda axes, d, block, heads: axes * d * (block - 1) // 2),
        ),
        Misconception(
            "One block per head in the parameters",
            "A head of d features has d/block of them.",
            _cost_with(
                lambda axes, d, block, heads: axes * heads * block * (block - 1) // 2
            ),
        ),
        Misconception(
            "b multiply-adds for a block",
            "Each of a block's b results is a sum of b products.",
            _cost_with(multiply_adds=lambda axes, d, block, heads: heads * d),
        ),
        Misconception(
            "Product of two matrices",
            "A matrix is multiplied by a vector: b² products for a block.",
            _cost_with(
                multiply_adds=lambda axes, d, block, heads: heads * d * block**2
            ),
        ),
        Misconception(
            "Twice as many products as there are",
            "A multiplication and its addition count as one, and only the queries are "
            "asked for.",
            _cost_with(
                multiply_adds=lambda axes, d, block, heads: 2 * heads * d * block
            ),
        ),
        Misconception(
            "Heads left out of the multiply-adds",
            "All heads are asked for.",
            _cost_with(multiply_adds=lambda axes, d, block, heads: d * block),
        ),
        Misconception(
            "Blocks left out of the multiply-adds",
            "A head of d features has d/block of them.",
            _cost_with(multiply_adds=lambda axes, d, block, heads: heads * block**2),
        ),
        Misconception(
            "Only additions counted",
            "A sum of b products has b − 1 additions, but it has b multiplications.",
            _cost_with(
                multiply_adds=lambda axes, d, block, heads: heads * d * (block - 1)
            ),
        ),
        Misconception(
            "Blocks of 2 assumed",
            "A block of 2 has one parameter for each axis and four products. Count "
            "for blocks of b.",
            _cost_with(
                lambda axes, d, block, heads: axes * heads * d // 2,
                lambda axes, d, block, heads: 2 * heads * d,
            ),
        ),
    ),
    properties=(
        Property(
            "Blocks of 2 train one number for each plane and axis",
            lambda answer, axes, d, block, heads: (
                answer(axes, d, 2, heads)[0] == heads * axes * d // 2
            ),
        ),
    ),
    level="optional",
    explanation=r"""
All heads together have $hd/b$ blocks for $h$ = `heads` and $b$ = `block`.
For each axis a block stores the $b(b - 1)/2$ numbers above its diagonal; to multiply a vector of $b$ features by a $b \times b$ matrix takes $b^2$ multiply-adds.
So there are $N\,hd\,(b - 1)/2$ parameters for $N$ axes and $hd\,b$ multiply-adds for the queries of a token: both grow with the size of the blocks, while RoPE, with blocks of 2, needs $2hd$ multiply-adds.
""",
)


# liere-7: block by block


def rotate_blocks(x, rotations):
    """Multiply each block of features by a matrix of its own; return [tokens, d].

    A block is b neighboring features of one token in ``x``, [tokens, d]; ``rotations``
    are [tokens, blocks, b, b].
    """
    blocks = x.unflatten(-1, rotations.shape[1:3])
    return (rotations @ blocks[..., None]).flatten(1)


def _features_apart(x, rotations):
    blocks, b = rotations.shape[1:3]
    columns = x.unflatten(-1, (b, blocks)).mT[..., None]
    return (rotations @ columns).squeeze(-1).mT.flatten(1)


def _random_rotations(*shape):
    return torch.tensor(exponential(skew(draw(*shape))))


BLOCKS = Exercise(
    name="liere-7",
    title="Block by block",
    kind="PyTorch",
    minutes=10,
    lines=2,
    statement=r"""
`x` is `[tokens, d]`, `rotations` is `[tokens, blocks, b, b]` with blocks · b = d.
Multiply each block of $b$ neighboring features of each token by its own matrix.
Return `[tokens, d]`.
No $d \times d$ matrix is needed.
""",
    hint=r"""
Give `x` the axes `[tokens, blocks, b]`, and one more axis of length 1: then every block is a column.
""",
    cases=tuple(
        (
            torch.tensor(draw(tokens, blocks * b)),
            _random_rotations(tokens, blocks, b * (b - 1) // 2),
        )
        for tokens, blocks, b in ((1, 2, 2), (3, 2, 4), (5, 4, 3))
    ),
    solution=rotate_blocks,
    misconceptions=(
        Misconception(
            "Every matrix transposed",
            "A row of features times R is the inverse rotation. Over which index of R "
            "must the sum with the features run?",
            lambda x, rotations: rotate_blocks(x, rotations.mT),
        ),
        Misconception(
            "Features of a block d/b apart",
            "Block m has the features m·b … m·b + b − 1.",
            _features_apart,
        ),
        Misconception(
            "First token's matrices for all tokens",
            "Each token stands at a position of its own.",
            lambda x, rotations: rotate_blocks(x, rotations[:1].expand_as(rotations)),
        ),
        Misconception(
            "First block's matrix for all blocks",
            "Each block of a token has a matrix of its own.",
            lambda x, rotations: rotate_blocks(
                x, rotations[:, :1].expand_as(rotations)
            ),
        ),
        Misconception(
            "No rotation",
            "Each block is multiplied by its own matrix.",
            lambda x, rotations: x.clone(),
        ),
        Misconception(
            "Every block rotated twice",
            "Each block is multiplied once.",
            lambda x, rotations: rotate_blocks(rotate_blocks(x, rotations), rotations),
        ),
        Misconception(
            "Matrices of the blocks in reverse order",
            "Block m is multiplied by rotations[:, m].",
            lambda x, rotations: rotate_blocks(x, rotations.flip(1)),
        ),
        Misconception(
            "Matrices of the tokens in reverse order",
            "Token n is multiplied by rotations[n].",
            lambda x, rotations: rotate_blocks(x, rotations.flip(0)),
        ),
        Misconception(
            "Only the first block rotated",
            "Rotate all blocks, each by its own matrix.",
            lambda x, rotations: torch.cat(
                (
                    rotate_blocks(x, rotations)[:, : rotations.shape[-1]],
                    x[:, rotations.shape[-1] :],
                ),
                -1,
            ),
        ),
        Misconception(
            "Products not summed",
            "A matrix times a column has sums over the block as its entries.",
            lambda x, rotations: (
                rotations.diagonal(dim1=-2, dim2=-1)
                * x.unflatten(-1, rotations.shape[1:3])
            ).flatten(1),
        ),
        Misconception(
            "Features of a block d/b apart, and the matrices transposed",
            "Block m has the features m·b … m·b + b − 1, and R is multiplied by a "
            "column.",
            lambda x, rotations: _features_apart(x, rotations.mT),
        ),
        Misconception(
            "Rows of the matrices summed",
            "Multiply each entry of R by the feature of its *column* before you sum.",
            lambda x, rotations: (
                rotations.sum(-1) * x.unflatten(-1, rotations.shape[1:3])
            ).flatten(1),
        ),
        Misconception(
            "Tokens and blocks mixed",
            "A reshape moves nothing in memory: the axis of tokens comes first, then "
            "that of blocks.",
            lambda x, rotations: (
                rotations
                @ x.reshape(rotations.shape[1], len(x), -1).transpose(0, 1)[..., None]
            ).reshape(x.shape),
        ),
        Misconception(
            "Matrices ordered by blocks, features by tokens",
            "Where one axis holds all blocks of all tokens, matrices and features "
            "must be in the same order: tokens first, then blocks.",
            lambda x, rotations: (
                rotations.transpose(0, 1).flatten(0, 1)
                @ x.reshape(-1, rotations.shape[-1], 1)
            ).reshape(x.shape),
        ),
    ),
    properties=(
        Property(
            "Rotations keep the length of every token",
            lambda answer, x, rotations: torch.allclose(
                answer(x, rotations).norm(dim=-1), x.norm(dim=-1)
            ),
        ),
    ),
    explanation=r"""
With the axes `[tokens, blocks, b, 1]` each block of features is a column, and one batched product multiplies it by its own matrix.
This is {prf:ref}`LieRE's block-diagonal form <def-liere-box>`: it costs $b$ multiply-adds for each feature, where a dense $d \times d$ matrix costs $d$.
""",
)


# liere-8: how far from relative


def relative_error(generators, x, y):
    """Return the largest absolute entry of R(x)ᵀ R(y) − R(y − x): a number.

    R(x) is LieRE's rotation at the position x, by ``generators``, [axes, d, d].
    """
    first, second, offset = (
        expm(np.tensordot(at, generators, 1)) for at in (x, y, y - x)
    )
    return np.abs(first.T @ second - offset).max()


def _largest(difference, generators):
    def rotate(at):
        return exponential(np.tensordot(at, generators, 1))

    return float(np.abs(difference(rotate)).max())


def _one_axis_after_the_other(generators, x, y):
    def rotate(at):
        return functools.reduce(
            np.matmul, map(exponential, at[:, None, None] * generators)
        )

    return float(np.abs(rotate(x).T @ rotate(y) - rotate(y - x)).max())


def _size_of_commutator(generators, x, y):
    first, second = (np.tensordot(at, generators, 1) for at in (x, y))
    return float(np.abs(first @ second - second @ first).max())


def _multiples(generator, axes):
    return np.arange(1.0, axes + 1)[:, None, None] * generator


_GENERIC = skew(draw(2, 6))
_COMMUTING = np.stack([_GENERIC[0], -2 * _GENERIC[0]])
_QUARTERS = skew(np.pi / 2 * np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))

RELATIVE = Exercise(
    name="liere-8",
    title="How far from relative",
    kind="experiment",
    minutes=10,
    lines=4,
    statement=r"""
`generators` is `[axes, d, d]`, skew, for any number of axes; `x` and `y` are positions, `[axes]`, of reals.
Measure by how much $R(x)^\top R(y) = R(y - x)$ fails: return the largest absolute entry of the difference, as a number.

Before you run the check: what do you expect of quarter turns about two directions?
And of two generators one of which is a multiple of the other?
""",
    hint=r"""
Write a small function for $R$ first; `np.tensordot(at, generators, 1)` is $\sum_a x_a A_a$.
""",
    cases=(
        (_QUARTERS, np.array([1.0, 0.0]), np.array([0.0, 1.0])),
        (_COMMUTING, np.array([3.0, 1.0]), np.array([1.0, 2.0])),
        (_GENERIC, np.array([3.0, 1.0]), np.array([1.0, 2.0])),
        (skew(draw(3, 3)), np.array([0.5, -1.25, 2.0]), np.array([1.5, 0.75, -0.5])),
    ),
    solution=relative_error,
    misconceptions=(
        Misconception(
            "Offset with the wrong sign",
            "R(x)ᵀ R(y) rotates back by x and on by y, so y − x remains. With x − y "
            "the law would fail even for generators that commute.",
            lambda generators, x, y: _largest(
                lambda rotate: rotate(x).T @ rotate(y) - rotate(x - y), generators
            ),
        ),
        Misconception(
            "Query's rotation not transposed",
            "R(x) R(y) adds positions. In the score qᵀ R(x)ᵀ R(y) k the first rotation "
            "is transposed.",
            lambda generators, x, y: _largest(
                lambda rotate: rotate(x) @ rotate(y) - rotate(y - x), generators
            ),
        ),
        Misconception(
            "Law used on both sides",
            "exp(−X) exp(Y) = exp(Y − X) is the law you test. If you use it, or put x "
            "and y on one line with the origin, the result is 0 for all generators.",
            lambda generators, x, y: 0.0,
        ),
        Misconception(
            "One rotation per axis",
            "R(x) is one exponential, of x₀ A₀ + x₁ A₁. The product of two is another "
            "encoding.",
            _one_axis_after_the_other,
        ),
        Misconception(
            "Commutator in place of the difference",
            "The commutator says whether the law fails, and by how much while the "
            "generators are small. Compare the rotations themselves.",
            _size_of_commutator,
        ),
        Misconception(
            "Largest entry with its sign",
            "Take absolute values before the largest.",
            lambda generators, x, y: (
                lambda rotate: (rotate(x).T @ rotate(y) - rotate(y - x)).max()
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Norm of the difference",
            "The largest absolute *entry* is asked for.",
            lambda generators, x, y: (
                lambda rotate: np.linalg.norm(rotate(x).T @ rotate(y) - rotate(y - x))
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Mean of the difference",
            "The largest absolute entry is asked for.",
            lambda generators, x, y: (
                lambda rotate: np.abs(rotate(x).T @ rotate(y) - rotate(y - x)).mean()
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Sum of the difference",
            "The largest absolute entry is asked for.",
            lambda generators, x, y: (
                lambda rotate: np.abs(rotate(x).T @ rotate(y) - rotate(y - x)).sum()
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Key's rotation transposed, not the query's",
            "In the score qᵀ R(x)ᵀ R(y) k the first rotation is transposed.",
            lambda generators, x, y: _largest(
                lambda rotate: rotate(x) @ rotate(y).T - rotate(y - x), generators
            ),
        ),
        Misconception(
            "Comparison with R(x + y)",
            "The law has R(y − x): the transpose rotates back.",
            lambda generators, x, y: _largest(
                lambda rotate: rotate(x).T @ rotate(y) - rotate(x + y), generators
            ),
        ),
        Misconception(
            "Law for sums tested",
            "R(x) R(y) = R(x + y) fails too, but by another amount. The score has "
            "R(x)ᵀ R(y).",
            lambda generators, x, y: _largest(
                lambda rotate: rotate(x) @ rotate(y) - rotate(x + y), generators
            ),
        ),
        Misconception(
            "Two orders of the product compared",
            "Compare R(x)ᵀ R(y) with R(y − x), not with the product in the other "
            "order.",
            lambda generators, x, y: _largest(
                lambda rotate: rotate(x).T @ rotate(y) - rotate(y) @ rotate(x).T,
                generators,
            ),
        ),
        Misconception(
            "Nothing subtracted",
            "A rotation itself is not small, whatever the generators. Subtract R(y − x) first.",
            lambda generators, x, y: _largest(
                lambda rotate: rotate(x).T @ rotate(y), generators
            ),
        ),
        Misconception(
            "Spectral norm of the difference",
            "The largest absolute *entry* is asked for, not a norm of the matrix.",
            lambda generators, x, y: (
                lambda rotate: np.linalg.norm(
                    rotate(x).T @ rotate(y) - rotate(y - x), 2
                )
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Rotations cut off after the first power",
            "I + A is close to a rotation only for very small A.",
            lambda generators, x, y: (
                lambda rotate: float(
                    np.abs(rotate(x).T @ rotate(y) - rotate(y - x)).max()
                )
            )(lambda at: np.eye(generators.shape[1]) + np.tensordot(at, generators, 1)),
        ),
        Misconception(
            "Key's rotation transposed, and the offset with the wrong sign",
            "In the score qᵀ R(x)ᵀ R(y) k the first rotation is transposed, and y − x "
            "remains.",
            lambda generators, x, y: _largest(
                lambda rotate: rotate(x) @ rotate(y).T - rotate(x - y), generators
            ),
        ),
        Misconception(
            "Only the first two axes",
            "Sum the generators of all axes: there may be more than two.",
            lambda generators, x, y: relative_error(generators[:2], x[:2], y[:2]),
        ),
        Misconception(
            "Positions cut to integers",
            "Positions are reals: 0.5 is one of them.",
            lambda generators, x, y: _largest(
                lambda rotate: (
                    rotate(np.trunc(x)).T @ rotate(np.trunc(y))
                    - rotate(np.trunc(y - x))
                ),
                generators,
            ),
        ),
        Misconception(
            "Half of the commutator in place of the difference",
            "Half of the commutator is the first term of the difference, and close to "
            "it only for small generators. Compare the rotations themselves.",
            lambda generators, x, y: _size_of_commutator(generators, x, y) / 2,
        ),
        Misconception(
            "Largest sum of a row",
            "The largest absolute *entry* is asked for, not a norm of the matrix.",
            lambda generators, x, y: (
                lambda rotate: np.linalg.norm(
                    rotate(x).T @ rotate(y) - rotate(y - x), np.inf
                )
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Smallest entry",
            "The largest absolute entry is asked for.",
            lambda generators, x, y: (
                lambda rotate: np.abs(rotate(x).T @ rotate(y) - rotate(y - x)).min()
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Rounded",
            "Return the number as it is.",
            lambda generators, x, y: round(relative_error(generators, x, y), 3),
        ),
    ),
    properties=(
        Property(
            "Generators that commute obey the law",
            lambda answer, generators, x, y: (
                abs(answer(_multiples(generators[0], len(x)), x, y)) < 1e-9
            ),
        ),
        Property(
            "At equal positions query and key meet as without rotation",
            lambda answer, generators, x, y: abs(answer(generators, x, x)) < 1e-9,
        ),
    ),
    explanation=r"""
For quarter turns about two directions the law fails: one entry is wrong by 0.80.
If one generator is a multiple of the other, it holds up to rounding: all rotations then lie on one line of generators, {prf:ref}`where the law holds for every skew matrix <thm-liere-line>`.
In general it holds for all positions if and only if the generators commute, by {prf:ref}`the main theorem on commuting generators <thm-com-main>`.
""",
)


# liere-9: the rank of the derivative


def derivative_rank(p):
    """Return the rank of the derivative of P ↦ exp(P − Pᵀ) at P: an int.

    ``p`` is the square matrix P, a float64 tensor.
    """
    jacobian = torch.autograd.functional.jacobian(
        lambda p: torch.matrix_exp(p - p.mT), p
    ).reshape(p.numel(), -1)
    return int(torch.linalg.matrix_rank(jacobian, atol=1e-6))


def _jacobian(p, generator=lambda p: p - p.mT):
    def rotation(p):
        return torch.matrix_exp(generator(p))

    return torch.autograd.functional.jacobian(rotation, p).reshape(p.numel(), -1)


def _rank_with(generator):
    """Make a wrong answer (a function) to the exercise ``derivative_rank``.

    The exercise asks for the rank of the derivative of P ↦ exp(P − Pᵀ). In the wrong
    answer, ``generator(P)`` replaces P − Pᵀ.
    """
    return lambda p: int(torch.linalg.matrix_rank(_jacobian(p, generator), atol=1e-6))


def _rank_of_slices(reduce):
    """Make a wrong answer: ``reduce(ranks)``, of the Jacobian's [b, b] slices."""

    def answer(p):
        slices = _jacobian(p).view(len(p), len(p), *p.shape)
        return int(reduce(torch.linalg.matrix_rank(slices, atol=1e-6)))

    return answer


def _entries_with_gradient(p):
    return int((_jacobian(p).abs().amax(0) > 1e-6).sum())


_FULL_TURN = torch.zeros(3, 3, dtype=torch.float64)
_FULL_TURN[0, 1] = 2 * torch.pi

RANK = Exercise(
    name="liere-9",
    title="Directions that change the rotation",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
Code often stores a full matrix $P$ and rotates by $\exp(P - P^\top)$.
`p` is such a matrix, `[b, b]`, float64.
In how many independent directions does a small change of $P$ change the rotation?
Return the rank of the derivative, an integer; take a singular value below $10^{-6}$ for zero.

Before you run the check: is it the same number for every $P$?
""",
    hint=r"""
`torch.autograd.functional.jacobian` differentiates a function from matrices to matrices.
Make a $b^2 \times b^2$ matrix of the result.
`torch.linalg.matrix_rank` has an argument `atol`.
""",
    cases=(
        *((torch.tensor(draw(b, b)),) for b in (2, 3, 4)),
        (0.9999 * _FULL_TURN,),
        (_FULL_TURN,),
        ((1 - 1e-6) * _FULL_TURN,),
        (_FULL_TURN - 1e-7 * (_FULL_TURN > 0),),
        (_FULL_TURN.mT,),
        (2 * _FULL_TURN,),
        (torch.nn.functional.pad(_FULL_TURN, (0, 1, 0, 1)),),
        (0 * _FULL_TURN,),
    ),
    solution=derivative_rank,
    misconceptions=(
        Misconception(
            "All entries of P counted",
            "The rotation is exp(P − Pᵀ), and a symmetric change of P leaves P − Pᵀ as "
            "it is.",
            lambda p: p.numel(),
        ),
        Misconception(
            "Directions without an effect",
            "Count the other directions: the rank, not the dimension of the kernel.",
            lambda p: p.numel() - derivative_rank(p),
        ),
        Misconception(
            "Entries of P that get a gradient",
            "Two entries may change the rotation in the same way, up to a sign. Only "
            "independent directions count.",
            _entries_with_gradient,
        ),
        Misconception(
            "b(b − 1)/2, wherever P is",
            "b(b − 1)/2 directions change A = P − Pᵀ, and also its exponential entry "
            "by entry. But where A is a full turn, tilt its axis a little, and the "
            "*matrix* exponential is still I.",
            lambda p: len(p) * (len(p) - 1) // 2,
        ),
        Misconception(
            "Rank of the rotation",
            "The rotation itself has the rank b. The rank of its *derivative* is asked "
            "for: in how many independent directions can P change the rotation?",
            len,
        ),
        Misconception(
            "Symmetric directions counted",
            "b(b + 1)/2 directions are symmetric, and leave P − Pᵀ as it is.",
            lambda p: len(p) * (len(p) + 1) // 2,
        ),
        Misconception(
            "Only the diagonal left out",
            "b² − b entries change A, but two at a time in the same way, up to the "
            "sign.",
            lambda p: len(p) * (len(p) - 1),
        ),
        Misconception(
            "Rank of P",
            "The rank of the *derivative* is asked for, the rank of a b² × b² matrix.",
            lambda p: int(torch.linalg.matrix_rank(p)),
        ),
        Misconception(
            "Jacobian not reshaped",
            "`matrix_rank` of [b, b, b, b] gives one rank for each [b, b] slice.",
            _rank_of_slices(torch.max),
        ),
        Misconception(
            "Jacobian not reshaped, ranks added",
            "`matrix_rank` of [b, b, b, b] gives one rank for each [b, b] slice, and "
            "directions of several slices may be the same.",
            _rank_of_slices(torch.sum),
        ),
        Misconception(
            "Rank of A",
            "The rank of the *derivative* is asked for, the rank of a b² × b² matrix.",
            lambda p: int(torch.linalg.matrix_rank(p - p.mT, atol=1e-6)),
        ),
        Misconception(
            "Rounding taken for a direction",
            "For a full turn some singular values are 1e−16: take those below 10⁻⁶ for "
            "zero.",
            lambda p: int((torch.linalg.svdvals(_jacobian(p)) > 0).sum()),
        ),
        Misconception(
            "Derivative with respect to A, not P",
            "A change of P changes P − Pᵀ, which stays skew. Differentiate this step, "
            "too.",
            lambda p: int(
                torch.linalg.matrix_rank(
                    torch.autograd.functional.jacobian(
                        torch.matrix_exp, p - p.mT
                    ).reshape(p.numel(), -1),
                    atol=1e-6,
                )
            ),
        ),
        Misconception(
            "Small directions left out",
            "Near a full turn some singular values are 10⁻⁴, and they count.",
            lambda p: int(torch.linalg.matrix_rank(_jacobian(p), atol=1e-3)),
        ),
        Misconception(
            "Only the upper triangle of P used",
            "P is a full matrix, and a number below the diagonal rotates as well.",
            _rank_with(lambda p: p.triu() - p.triu().mT),
        ),
        Misconception(
            "A halved",
            "The rotation is exp(P − Pᵀ), without a half: with a half, a full turn "
            "of A becomes a half turn.",
            _rank_with(lambda p: (p - p.mT) / 2),
        ),
        Misconception(
            "Default tolerance of `matrix_rank`",
            "By default `matrix_rank` takes only what is as small as rounding for "
            "zero. Here the limit is 10⁻⁶: pass `atol=1e-6`.",
            lambda p: int(torch.linalg.matrix_rank(_jacobian(p))),
        ),
    ),
    properties=(
        Property(
            "At most b(b − 1)/2 directions change the rotation",
            lambda answer, p: 2 * answer(p) <= len(p) * (len(p) - 1),
        ),
    ),
    explanation=r"""
It is not the same number for every $P$.
Only $P - P^\top$ matters, so of the $b^2$ directions at most $b(b - 1)/2$ change the rotation; at almost every $P$ it is this number.
But at a full turn about one direction of space, where the entry is $2\pi$, only the change of the angle is left: tilting the axis of a full turn leaves it the identity, and the rank is 1.
Near such a $P$ two singular values are small, and training moves the axis slowly.
""",
    prediction=Prediction(
        r"$P$ is $3 \times 3$, and its only entry that is not zero is $2\pi$ at (0, 1). In how many independent directions does a small change of $P$ change the rotation?",
        lambda: derivative_rank(_FULL_TURN),
    ),
)


# liere-10: one rotation after the other


def colleagues_rotation(entries, x):
    """Rotation [3, 3] at the position x.

    It is that of each axis, one after the other.
    """
    product = np.eye(3)
    for coordinate, numbers in zip(x, entries, strict=True):
        upper = np.zeros((3, 3))
        upper[np.triu_indices(3, 1)] = coordinate * numbers
        product = product @ expm(upper - upper.T)
    return product


def position_rotated_wrongly():
    """Return the smallest entries and position with a wrong `colleagues_rotation`.

    The answer is the pair of arguments: arrays ``[axes, 3]`` and ``[axes]``.
    """
    return np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([1.0, 1.0])


def _refused_position(entries, x):
    for given in (entries, x):
        if not isinstance(given, np.ndarray) or given.dtype.kind not in "if":
            return "entries and x are NumPy arrays of numbers"
    if x.ndim != 1 or entries.shape != (len(x), 3) or not len(x):
        return "entries are [axes, 3], and x is [axes]"
    if not max(np.abs(entries).max(), np.abs(x).max()) <= 10:
        return "all numbers are between −10 and 10"
    return ""


AXES = Exercise(
    name="liere-10",
    title="Find the input: a position",
    kind="find the input",
    minutes=10,
    lines=2,
    statement=r"""
`colleagues_rotation` should do what exercise liere-3 asks for.
Her tests are one axis, two axes with a position on the first of them, and two axes whose generators are multiples of each other; all pass.
Find `entries` and `x`, with numbers between −10 and 10, for which it is wrong.
The smallest input is the one with the fewest numbers that are not 0, in `entries` and `x` together.
Which property of the generators do all her tests share?
""",
    hint=r"""
When is $e^A e^B = e^{A + B}$?
How many axes must move, and how many generators must not be 0?
""",
    cases=((),),
    solution=position_rotated_wrongly,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_rotation,
        right=rotation,
        tested=(
            (np.array([[1.0, 2.0, 3.0]]), np.array([2.0])),
            (np.array([[1.0, 2.0, 3.0], [3.0, 1.0, 1.0]]), np.array([2.0, 0.0])),
            (np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]), np.array([1.0, 0.5])),
        ),
        refusal=_refused_position,
        size=lambda entries, x: int(np.count_nonzero(entries) + np.count_nonzero(x)),
        size_of="number of entries that are not 0",
    ),
    explanation=r"""
In all her tests the generators that act commute: there is only one, or they are multiples of each other.
A product of exponentials is the exponential of the sum, at all positions, only for such generators, {prf:ref}`the main theorem on commuting generators <thm-com-main>`.
For a failure two coordinates and two generators must not be 0, four numbers; generators of two different planes of the three, such as $(1, 0, 0)$ and $(0, 1, 0)$, do not commute, and the position $(1, 1)$ shows it.
""",
)


# liere-11: the length of a generator


def colleagues_rodrigues(a):
    """Rotation exp(A) by Rodrigues' formula.

    A is a 3 × 3 skew matrix.
    """
    s = np.abs(a).max()  # the angle
    if s == 0:
        return np.eye(3)
    first, second = np.sin(s) / s, (1 - np.cos(s)) / s**2
    return np.eye(3) + first * a + second * (a @ a)


def generator_of_wrong_angle():
    """Return the smallest generator for which `colleagues_rodrigues` is wrong.

    It is a 3 × 3 skew array with entries that are whole numbers.
    """
    return np.array([[0, 1, 1], [-1, 0, 0], [-1, 0, 0]])


def _refused_generator(a):
    if not isinstance(a, np.ndarray) or a.dtype.kind not in "if" or a.shape != (3, 3):
        return "a is a NumPy array [3, 3] of numbers"
    if (a != -a.T).any() or (a != np.round(a)).any():
        return "a is skew, with entries that are whole numbers"
    return ""


SIZE = Exercise(
    name="liere-11",
    title="Find the input: an angle",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_rodrigues` should do what exercise liere-4 asks for.
Her tests are rotations by 0, 1, 2 and −3 radians in each of the three coordinate planes; all pass.
Find a skew matrix whose entries are whole numbers for which it is wrong.
The smallest input is the one with the smallest sum of the absolute values above its diagonal.
By which angle does her function rotate there, and is it a rotation at all?
""",
    hint=r"""
What is $s$ in Rodrigues' formula, and when is it the largest entry?
""",
    cases=((),),
    solution=generator_of_wrong_angle,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_rodrigues,
        right=rodrigues,
        tested=tuple(
            (angle * skew(np.eye(3)[plane]),)
            for plane in range(3)
            for angle in (0.0, 1.0, 2.0, -3.0)
        ),
        refusal=_refused_generator,
        size=lambda a: int(np.abs(np.triu(a)).sum()),
        size_of="sum above the diagonal",
    ),
    explanation=r"""
$s^2$ is the sum of all three squares; the largest entry is $s$ only where the other two are 0, as in a coordinate plane.
Two entries 1 and one 0 are enough: right is a rotation by $\sqrt 2$ radians, and her formula has 1 in its place.
The result is no rotation, since $A^3 = -s^2 A$ holds with the right $s$ only: it makes some vectors 1.19 times as long, while {prf:ref}`the exponential of a skew matrix is always a rotation <thm-liere-rotation>`.
A test that lengths are kept, at a random matrix, would have found it.
""",
    level="optional",
)


SHEET = Sheet(
    title="LieRE",
    conventions=r"""
A generator is $A = U - U^\top$ with the free numbers above the diagonal, row by row.
$R(x) = \exp \sum_a x_a A_a$.
A head has $d$ features in $d/b$ blocks of $b$ neighbors.
""",
    example=r"""
from posedu.numpy.rotary import liere

entries = np.pi / 2 * np.array([[[1.0], [2.0]]])
x = np.array([[1.0, 0.0, 1.0, 0.0]] * 2)
y = liere(x, [[1], [2]], entries=entries, block=2)
print(np.rint(y).astype(int))
""",
    figure="liere_explorable",
    exercises=(
        GENERATOR,
        PLANE,
        ROTATION,
        RODRIGUES,
        PARTS,
        COST,
        BLOCKS,
        RELATIVE,
        RANK,
        AXES,
        SIZE,
    ),
)
