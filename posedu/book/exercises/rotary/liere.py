"""The exercises on LieRE."""

import math

import numpy as np
import sympy as sp
import torch
from scipy.linalg import expm

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw
from posedu.numpy.rotary import exponential, skew

# liere-1: a generator from three numbers


def generator(a, b, c):
    """The generator with a, b, c above its diagonal, row by row: a SymPy matrix."""
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
            "Symmetric",
            "The exponential of a symmetric matrix stretches. What must Aᵀ be for "
            "lengths to be kept?",
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
            "This is skew, but it turns the other way round: the numbers as they are "
            "given stand above the diagonal.",
            lambda a, b, c: generator(-a, -b, -c),
        ),
        Misconception(
            "Numbers filled in as for a cross product",
            "That is skew too, with the numbers at other places. Here they stand above "
            "the diagonal row by row.",
            lambda a, b, c: generator(-c, b, -a),
        ),
        Misconception(
            "One sign below the diagonal missing",
            "Each number below the diagonal is minus the one at the mirrored place.",
            lambda a, b, c: sp.Matrix([[0, a, b], [-a, 0, c], [-b, c, 0]]),
        ),
        Misconception(
            "One sign below the diagonal missing, in the first column",
            "Each number below the diagonal is minus the one at the mirrored place.",
            lambda a, b, c: sp.Matrix([[0, a, b], [a, 0, c], [-b, -c, 0]]),
        ),
        Misconception(
            "b and c exchanged",
            "Row by row: a and b stand in the first row, c in the second.",
            lambda a, b, c: generator(a, c, b),
        ),
        Misconception(
            "The diagonal is not zero",
            "A = −Aᵀ: what does that say of the diagonal?",
            lambda a, b, c: generator(a, b, c) + sp.eye(3),
        ),
        Misconception(
            "The numbers stand in reverse order",
            "Row by row, from the left: a comes first.",
            lambda a, b, c: generator(c, b, a),
        ),
        Misconception(
            "Everything halved",
            "A = U − Uᵀ, where U has the numbers as they are.",
            lambda a, b, c: generator(a, b, c) / 2,
        ),
        Misconception(
            "Only the lower triangle",
            "A = U − Uᵀ has both.",
            lambda a, b, c: -_upper(a, b, c).T,
        ),
        Misconception(
            "Places below the diagonal filled in their own order",
            "A is minus its own transpose: what stands at (2, 0) belongs to what "
            "stands at (0, 2).",
            lambda a, b, c: sp.Matrix([[0, a, b], [-a, 0, c], [-c, -b, 0]]),
        ),
    ),
    properties=(
        Property(
            "A generator is skew: A + Aᵀ = 0",
            lambda answer, *case: (answer(*case) + answer(*case).T).is_zero_matrix,
        ),
    ),
)


# liere-2: one plane


def plane(u):
    """The exponential of [[0, u], [−u, 0]]: a SymPy matrix."""
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
            "Rotation counter-clockwise",
            "The positive number stands above the diagonal, so the first column of A "
            "is (0, −u). Where does (1, 0) begin to move?",
            lambda u: plane(-u),
        ),
        Misconception(
            "Exponential entry by entry",
            "The exponential of a matrix is a power series in the matrix. At u = 0 it "
            "must give I, not a matrix of ones.",
            lambda u: sp.Matrix([[1, sp.exp(u)], [sp.exp(-u), 1]]),
        ),
        Misconception(
            "The series stops after the first power",
            "I + A stretches by the root of 1 + u². What is A², and what are the "
            "powers after it?",
            lambda u: sp.Matrix([[1, u], [-u, 1]]),
        ),
        Misconception(
            "This has hyperbolic functions",
            "They belong to A² = u² I. Here A² has the other sign.",
            lambda u: sp.Matrix([[sp.cosh(u), sp.sinh(u)], [-sp.sinh(u), sp.cosh(u)]]),
        ),
        Misconception(
            "The series stops after the second power",
            "What are the powers after it? They go on for ever, and make sines and "
            "cosines.",
            lambda u: sp.Matrix([[1 - u**2 / 2, u], [-u, 1 - u**2 / 2]]),
        ),
        Misconception(
            "Sine and cosine exchanged",
            "At u = 0 it must give I.",
            lambda u: sp.Matrix([[sp.sin(u), sp.cos(u)], [-sp.cos(u), sp.sin(u)]]),
        ),
        Misconception(
            "No minus sign anywhere",
            "Odd powers keep the signs of the matrix itself.",
            lambda u: sp.Matrix([[sp.cos(u), sp.sin(u)], [sp.sin(u), sp.cos(u)]]),
        ),
        Misconception(
            "Mirror",
            "At u = 0 it must give I.",
            lambda u: sp.Matrix([[sp.cos(u), sp.sin(u)], [sp.sin(u), -sp.cos(u)]]),
        ),
        Misconception(
            "Only the odd powers",
            "The even powers, with the zeroth, make cosines on the diagonal.",
            lambda u: sp.Matrix([[0, sp.sin(u)], [-sp.sin(u), 0]]),
        ),
        Misconception(
            "Identity added once more",
            "It is the zeroth power, and is in the cosine already.",
            lambda u: plane(u) + sp.eye(2),
        ),
        Misconception(
            "There are exponentials left",
            "The powers of this matrix repeat with signs + + − −: that makes sines "
            "and cosines.",
            lambda u: sp.Matrix([[1, sp.exp(u)], [-sp.exp(u), 1]]),
        ),
        Misconception(
            "Only the even powers",
            "The odd powers make sines off the diagonal.",
            lambda u: sp.Matrix([[sp.cos(u), 0], [0, sp.cos(u)]]),
        ),
        Misconception(
            "Both diagonals have a sign too many",
            "At u = 0 it must give I.",
            lambda u: -plane(u),
        ),
        Misconception(
            "The even powers stop at I",
            "A² = −u² I: the even powers go on, and make a cosine.",
            lambda u: sp.Matrix([[1, sp.sin(u)], [-sp.sin(u), 1]]),
        ),
        Misconception(
            "The last entry has the wrong sign",
            "At u = 0 it must give I.",
            lambda u: sp.Matrix([[sp.cos(u), sp.sin(u)], [-sp.sin(u), -sp.cos(u)]]),
        ),
        Misconception(
            "The exponential entry by entry, without the diagonal",
            "The exponential of a matrix is a power series in the matrix. At u = 0 "
            "it must give I.",
            lambda u: sp.Matrix([[0, sp.exp(u)], [sp.exp(-u), 0]]),
        ),
        Misconception(
            "Exponentials on the diagonal",
            "The matrix has nothing on its diagonal. Its square has: what is A²?",
            lambda u: sp.diag(sp.exp(u), sp.exp(-u)),
        ),
        Misconception(
            "A² not halved, and the series stops there",
            "The second power is divided by 2!, and the powers go on for ever.",
            lambda u: sp.Matrix([[1 - u**2, u], [-u, 1 - u**2]]),
        ),
        Misconception(
            "Both sines have a minus",
            "The odd powers are multiples of the matrix itself, whose two entries have "
            "opposite signs.",
            lambda u: sp.Matrix([[sp.cos(u), -sp.sin(u)], [-sp.sin(u), sp.cos(u)]]),
        ),
    ),
    properties=(
        Property(
            "A rotation has determinant 1",
            lambda answer, u: sp.simplify(answer(u).det() - 1) == 0,
        ),
    ),
)


# liere-3: the rotation at a position


def rotation(entries, x):
    """R(x) for one block of 3: a float64 array [3, 3]."""
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
Return $R(x)$, `[3, 3]`; `expm` is SciPy's matrix exponential.
Do it without `posedu.numpy.rotary`.
""",
    hint=r"""
$\sum_a x_a A_a$ is a generator too: which numbers stand above its diagonal?
`np.triu_indices(3, 1)` names those places row by row.
""",
    cases=(
        (np.array([[np.pi / 2, 0.0, 0.0]]), np.array([1.0])),
        (np.array([[np.pi / 2, 0.0, 0.0], [0.0, 0.0, np.pi / 2]]), np.array([1.0, 2])),
        (draw(3, 3), draw(3)),
        (draw(2, 3), np.array([1, 2])),
    ),
    solution=rotation,
    misconceptions=(
        Misconception(
            "One axis rotated after the other",
            "exp(x₀ A₀) exp(x₁ A₁) is exp(x₀ A₀ + x₁ A₁) only where A₀ and A₁ "
            "commute. Add first.",
            _axis_after_axis,
        ),
        Misconception(
            "Exponential entry by entry",
            "`np.exp` takes the exponential of each number. A matrix has an "
            "exponential of its own.",
            lambda entries, x: np.exp(skew(x @ entries)),
        ),
        Misconception(
            "The generators are not skew: only the upper triangle",
            "The exponential of an upper triangle is one too, and no rotation.",
            lambda entries, x: expm(_above(entries, x)),
        ),
        Misconception(
            "The generators are symmetric",
            "U + Uᵀ stretches. Which combination of U and Uᵀ is skew?",
            lambda entries, x: expm(_above(entries, x) + _above(entries, x).T),
        ),
        Misconception(
            "Position left out",
            "These are the generators summed. Each has to be multiplied by its "
            "coordinate.",
            lambda entries, x: exponential(skew(entries.sum(axis=0))),
        ),
        Misconception(
            "Rotation back",
            "It is the rotation at −x. Look at where the numbers stand: above the "
            "diagonal.",
            lambda entries, x: rotation(entries, -x),
        ),
        Misconception(
            "Order of the axes' turns reversed as well",
            "exp of a sum is no product, in either order, unless the generators "
            "commute. Add first.",
            lambda entries, x: _axis_after_axis(entries[::-1], x[::-1]),
        ),
        Misconception(
            "The series stops after the first power",
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
            "A = U − Uᵀ, where U has the numbers as they are.",
            lambda entries, x: rotation(entries, x / 2),
        ),
        Misconception(
            "Generator",
            "Its exponential is the rotation.",
            lambda entries, x: skew(x @ entries),
        ),
        Misconception(
            "Every axis has the first one's coordinate",
            "Axis a is multiplied by x[a].",
            lambda entries, x: rotation(entries, np.full_like(x, x[0])),
        ),
        Misconception(
            "Only the first axis turns",
            "All axes are summed.",
            lambda entries, x: rotation(entries[:1], x[:1]),
        ),
        Misconception(
            "Numbers filled in as for a cross product",
            "They stand above the diagonal, row by row.",
            lambda entries, x: rotation(entries[:, ::-1] * [-1, 1, -1], x),
        ),
        Misconception(
            "The diagonal is not empty",
            "`np.triu_indices(3, 1)` begins above the diagonal.",
            lambda entries, x: expm(skew(x @ entries) + np.eye(3)),
        ),
        Misconception(
            "The series stops after the second power",
            "I + A + A²/2 stretches a little. `expm` has the whole series.",
            lambda entries, x: (
                np.eye(3)
                + skew(x @ entries)
                + skew(x @ entries) @ skew(x @ entries) / 2
            ),
        ),
        Misconception(
            "Numbers cut to integers",
            "An array made in the dtype of x holds integers where x does.",
            lambda entries, x: exponential(
                skew((x @ entries).astype(x.dtype).astype(float))
            ),
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
            "At the origin nothing is turned",
            lambda answer, entries, x: np.allclose(answer(entries, 0 * x), np.eye(3)),
        ),
    ),
)


# liere-4: Rodrigues' formula


def rodrigues(a):
    """exp(A) of a 3 × 3 skew matrix: a float64 array [3, 3]."""
    s = np.sqrt(np.sum(np.triu(a) ** 2))
    if s == 0:
        return np.eye(3)
    return np.eye(3) + np.sin(s) / s * a + (1 - np.cos(s)) / s**2 * a @ a


def _length(a):
    return np.sqrt(a[0, 1] ** 2 + a[0, 2] ** 2 + a[1, 2] ** 2)


def _combined(a, first, second):
    return np.eye(3) + first * a + second * a @ a


def _wrong_rodrigues(first, second):
    """The formula with other coefficients of A and A², functions of s."""

    def answer(a):
        s = _length(a) or 1.0  # where A = 0 the coefficients do not matter
        return _combined(a, first(s), second(s))

    return answer


def _like_a_plane(a):
    s = _length(a)
    return np.eye(3) if s == 0 else np.cos(s) * np.eye(3) + np.sin(s) / s * a


def _with_length(length):
    """The formula with another ``length(a)``."""

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
Compute $\exp A$ of a $3 \times 3$ skew matrix `a`, without a matrix exponential.
Entries may be off by $10^{-9}$ at most for every $A$; $A = 0$ is allowed, and so is a small $A$.
""",
    hint=r"""
$I$, $A$ and $A^2$ are all you need.
Let $s^2$ be the sum of the squares above the diagonal: what is $A^3$?
""",
    cases=(
        (np.zeros((3, 3)),),
        (skew(np.array([2e-9, 0.0, 0.0])),),
        (skew(np.array([8e-5, 0.0, 0.0])),),
        (skew(np.array([0.001, 0.0, 0.0])),),
        (skew(np.array([0.002, 0.004, 0.006])),),
        (skew(np.array([np.pi / 2, 0.0, 0.0])),),
        (skew(np.array([0.5, -1.5, 2.0])),),
    ),
    solution=rodrigues,
    misconceptions=(
        Misconception(
            "A² not divided by s²",
            "With 1 − cos s alone the result is right only where s = 1. Which multiple "
            "of A has the length 1, and what is its square?",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: 1 - np.cos(s)),
        ),
        Misconception(
            "s² forgotten, and the s",
            "This is the formula for an A of length 1. Divide A by its length first.",
            _wrong_rodrigues(np.sin, lambda s: 1 - np.cos(s)),
        ),
        Misconception(
            "A² divided by s, not by s²",
            "Divide A by its length, and then square: how often is s in A²?",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: (1 - np.cos(s)) / s),
        ),
        Misconception(
            "Term with A² missing",
            "I + (sin s/s) A is no rotation: after a half turn, s = π, it is I again.",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: 0.0),
        ),
        Misconception(
            "1 − cos s has become cos s",
            "Near A = 0 the term with A² must be as small as s². Is yours?",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: np.cos(s) / s**2),
        ),
        Misconception(
            "Formula of a plane",
            "cos s I + (sin s/s) A shrinks the axis of the turn, which must stay: in "
            "three dimensions A² is not −s² I.",
            _like_a_plane,
        ),
        Misconception(
            "Turn back",
            "It is exp(−A): the sign of the odd part is wrong.",
            lambda a: rodrigues(-a),
        ),
        Misconception(
            "Every number counted twice in s",
            "s² is the sum over the numbers *above* the diagonal. The Frobenius "
            "norm has those below as well, and is √2 s.",
            _with_length(np.linalg.norm),
        ),
        Misconception(
            "Root forgotten: s is s²",
            "The sum of the squares is s².",
            _with_length(lambda a: _length(a) ** 2),
        ),
        Misconception(
            "s is a sum of absolute values",
            "The squares add up to s².",
            _with_length(lambda a: np.abs(np.triu(a)).sum()),
        ),
        Misconception(
            "s is the largest number",
            "The squares of all three add up to s².",
            _with_length(lambda a: np.abs(a).max()),
        ),
        Misconception(
            "A² taken entry by entry",
            "`a * a` and `a**2` square each number. The matrix product is meant.",
            lambda a: (
                np.eye(3)
                + np.sin(_length(a) or 1) / (_length(a) or 1) * a
                + (1 - np.cos(_length(a) or 1)) / (_length(a) or 1) ** 2 * a * a
            ),
        ),
        Misconception(
            "Sign of A² reversed",
            "A² is already negative: it must take away what cos s does not keep.",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: (np.cos(s) - 1) / s**2),
        ),
        Misconception(
            "1 + cos s",
            "Near A = 0 the term with A² must be as small as s².",
            _wrong_rodrigues(lambda s: np.sin(s) / s, lambda s: (1 + np.cos(s)) / s**2),
        ),
        Misconception(
            "Identity missing",
            "The zeroth power of A is I.",
            lambda a: rodrigues(a) - np.eye(3),
        ),
        Misconception(
            "The series stops after the second power",
            "I + A + A²/2 is right near A = 0 only.",
            lambda a: _combined(a, 1.0, 0.5),
        ),
        Misconception(
            "Sine not divided by s",
            "Divide A by its length first: it stands in both terms.",
            _wrong_rodrigues(np.sin, lambda s: (1 - np.cos(s)) / s**2),
        ),
        Misconception(
            "Exponential entry by entry",
            "The exponential of a matrix is a power series in the matrix.",
            np.exp,
        ),
        Misconception(
            "Half missing in the second term",
            "1 − cos s is s²/2 near 0, and A²/2 is the series' second term: no "
            "further half.",
            _wrong_rodrigues(
                lambda s: np.sin(s) / s, lambda s: (1 - np.cos(s)) / (2 * s**2)
            ),
        ),
        Misconception(
            "s is half of the Frobenius norm",
            "The squares, not the numbers, are counted twice there: the norm is √2 s.",
            _with_length(lambda a: np.linalg.norm(a) / 2),
        ),
        Misconception(
            "The series stops after the third power",
            "It is right near A = 0 only. All powers of A are multiples of A and A².",
            lambda a: _combined(a, 1.0, 0.5) + a @ a @ a / 6,
        ),
        Misconception(
            "cos s stands before the identity as well",
            "In cos s I + … the rest of the axis is missing; in I + … it is there. "
            "One of the two is too much.",
            lambda a: rodrigues(a) + (np.cos(_length(a)) - 1) * np.eye(3),
        ),
        Misconception(
            "Small A cut off too early",
            "I + A lacks A²/2, which is seen where s is 0.001. How small "
            "must s be for an error of 10⁻⁹?",
            lambda a: np.eye(3) + a if _length(a) < 0.01 else rodrigues(a),
        ),
        Misconception(
            "At A = 0 it is 0/0",
            "sin s/s has a limit where s = 0, but not a value. Which "
            "rotation is it there?",
            lambda a: rodrigues(a) if a.any() else np.full((3, 3), np.nan),
        ),
        Misconception(
            "The series stops too early",
            "Ten terms are enough for a small A only. All powers of A are "
            "multiples of A and A².",
            lambda a: sum(
                np.linalg.matrix_power(a, n) / math.factorial(n) for n in range(10)
            ),
        ),
        Misconception(
            "Small A taken for 0",
            "exp A is I + A there: what is left out is as large as A.",
            lambda a: np.eye(3) if _length(a) < 1e-4 else rodrigues(a),
        ),
        Misconception(
            "Very small A taken for 0",
            "exp A is I + A there, and 10⁻⁹ may be wrong, not more.",
            lambda a: np.eye(3) if _length(a) < 1e-6 else rodrigues(a),
        ),
        Misconception(
            "Second power of a small A left out",
            "I + A is wrong by s²/2. Where is that below 10⁻⁹?",
            lambda a: np.eye(3) + a if _length(a) < 1e-3 else rodrigues(a),
        ),
        Misconception(
            "Something small added to what is divided by",
            "It is not small beside a small s. Only s = 0 needs care.",
            lambda a: _combined(
                a,
                np.sin(_length(a)) / (_length(a) + 1e-8),
                (1 - np.cos(_length(a))) / (_length(a) ** 2 + 1e-8),
            ),
        ),
    ),
    properties=(
        Property(
            "A generator of zeros turns nothing: the result is I",
            lambda answer, a: np.allclose(answer(0 * a), np.eye(3)),
        ),
        Property(
            "A rotation keeps lengths: RᵀR = I",
            lambda answer, a: np.allclose(answer(a).T @ answer(a), np.eye(3)),
        ),
    ),
)


# liere-5: two turns that commute


def parts(a):
    """Two commuting skew SymPy matrices that sum to A."""
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
    first, second = parts(a)
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


def _is_turn(part):
    square = (part * part).expand()
    return (square - square[0, 0] * sp.eye(4)).expand().is_zero_matrix


PARTS = Exercise(
    name="liere-5",
    title="Two turns that commute",
    kind="SymPy",
    minutes=15,
    lines=6,
    statement=r"""
`a` is a $4 \times 4$ skew `sp.Matrix`.
Let $\tilde A$ be the skew matrix with three pairs of its entries exchanged: those at $(0, 1)$ and $(2, 3)$; those at $(0, 2)$ and $(1, 3)$; those at $(0, 3)$ and $(1, 2)$.
Each pair is exchanged with a sign; that of the first pair is plus.
Find the other two signs, such that $A_\pm = (A \pm \tilde A)/2$ commute for every $A$.
Return $A_+$ and $A_-$.
""",
    hint=r"""
$A_+$ and $A_-$ commute where $A$ and $\tilde A$ do.
Multiply these two for six symbols, with unknown signs $\varepsilon$ and $\delta$, and look at the entries off the diagonal.
""",
    cases=(
        (_symbolic([1, 0, 0, 0, 0, 0]),),
        (_symbolic([0, 1, 0, 0, 3, 0]),),
        (_symbolic(sp.symbols("u:6", real=True)),),
    ),
    solution=parts,
    misconceptions=(
        Misconception(
            "All three signs are plus",
            "Then the parts do not commute. Multiply them for A with two entries, at "
            "(0, 1) and at (0, 2).",
            lambda a: _with_signs(a, 1, 1, 1),
        ),
        Misconception(
            "Two signs are minus",
            "Only one of the three pairs is exchanged with a minus.",
            lambda a: _with_signs(a, 1, -1, -1),
        ),
        Misconception(
            "The minus is at the wrong pair",
            "One minus is right, and it is not at (0, 3) and (1, 2).",
            lambda a: _with_signs(a, 1, 1, -1),
        ),
        Misconception(
            "Two parts exchanged",
            "The sign of the pair (0, 1) and (2, 3) was given: it is plus.",
            lambda a: parts(a)[::-1],
        ),
        Misconception(
            "Parts not halved",
            "They sum to 2A. Then the product of their exponentials is exp(2A).",
            lambda a: tuple(2 * part for part in parts(a)),
        ),
        Misconception(
            "Matrix cut into its blocks",
            "Planes (0, 1) and (2, 3) on one side, the rest on the other: these two do "
            "not commute.",
            _diagonal_blocks,
        ),
        Misconception(
            "The first pair has the minus",
            "Its sign was given: plus. One of the other two has it.",
            lambda a: _with_signs(a, -1, 1, 1),
        ),
        Misconception(
            "A and its dual",
            "A₊ and A₋ are half of their sum and half of their difference.",
            lambda a: (a, parts(a)[0] - parts(a)[1]),
        ),
        Misconception(
            "A halved",
            "Two equal parts commute, but they are no turns of two planes: their "
            "squares are not multiples of I.",
            lambda a: (a / 2, a / 2),
        ),
        Misconception(
            "Triangles taken apart",
            "The parts must be skew, both of them.",
            lambda a: (a.upper_triangular(), a.lower_triangular()),
        ),
        Misconception(
            "Entries read from the other end",
            "This exchanges more than the three pairs, and signs along with them. "
            "Exchange above the diagonal, and make the result skew.",
            lambda a: (lambda dual: ((a + dual) / 2, (a - dual) / 2))(
                sp.Matrix(4, 4, lambda i, j: a[3 - i, 3 - j])
            ),
        ),
        Misconception(
            "Minus is on one of the two that exchanged",
            "Both change their sign: each gets minus the other.",
            _minus_once,
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
            lambda answer, a: all(map(_is_turn, answer(a))),
        ),
    ),
)


# liere-6: the bill


def bill(axes, d, block, heads):
    """Trained numbers of a layer, multiply-adds for one token: two integers."""
    blocks = heads * d // block
    return axes * blocks * (block * (block - 1) // 2), blocks * block**2


def _billed(trained=None, turned=None):
    """The bill with another first or second number, of ``(axes, d, block, heads)``."""

    def answer(*case):
        right = bill(*case)
        return (
            right[0] if trained is None else trained(*case),
            right[1] if turned is None else turned(*case),
        )

    return answer


BILL = Exercise(
    name="liere-6",
    title="The bill",
    kind="by hand",
    minutes=10,
    lines=2,
    statement=r"""
A layer has `heads` heads of `d` features, each with generators of its own for `axes` axes, in blocks of `block`.
Return two integers:

1. how many numbers the layer trains, if it stores no more than it needs;
2. how many multiply-adds turn the queries of one token, in all heads, once the rotations are there; a multiplication and its addition are one.
""",
    hint=r"""
Count for one block of one head first.
How many blocks are there?
""",
    cases=((1, 4, 2, 1), (2, 8, 4, 1), (3, 64, 8, 12)),
    solution=bill,
    misconceptions=(
        Misconception(
            "Every entry of a generator counted",
            "The diagonal is zero and the lower triangle repeats the upper one. How "
            "many entries of a block are free?",
            lambda axes, d, block, heads: (
                heads * axes * d * block,
                heads * d * block,
            ),
        ),
        Misconception(
            "Dense d × d matrix multiplied",
            "All but d · block of its entries are zeros. Multiply block by block.",
            lambda axes, d, block, heads: (
                heads * axes * d * (block - 1) // 2,
                heads * d**2,
            ),
        ),
        Misconception(
            "Bill of the dense form",
            "There the only block has the size d. Here the blocks are given.",
            lambda axes, d, block, heads: (
                heads * axes * d * (d - 1) // 2,
                heads * d**2,
            ),
        ),
        Misconception(
            "One block counted",
            "A head of d features has d/block of them.",
            lambda axes, d, block, heads: (
                heads * axes * block * (block - 1) // 2,
                heads * block**2,
            ),
        ),
        Misconception(
            "The axes share a generator",
            "Then the rotation would know the sum of the coordinates only. Each axis "
            "has one of its own to train.",
            lambda axes, d, block, heads: (
                heads * d * (block - 1) // 2,
                heads * d * block,
            ),
        ),
        Misconception(
            "Each axis one more product",
            "The axes are summed in the exponent. One rotation remains to be applied.",
            lambda axes, d, block, heads: (
                heads * axes * d * (block - 1) // 2,
                heads * axes * d * block,
            ),
        ),
        Misconception(
            "Heads missing",
            "Each head has generators of its own, and queries of its own.",
            lambda axes, d, block, heads: (axes * d * (block - 1) // 2, d * block),
        ),
        Misconception(
            "Diagonal counted",
            "It is zero. How many numbers stand above it?",
            _billed(lambda axes, d, block, heads: axes * heads * d * (block + 1) // 2),
        ),
        Misconception(
            "Half of the entries counted",
            "The diagonal is zero, so a little less than half is free.",
            _billed(lambda axes, d, block, heads: axes * heads * d * block // 2),
        ),
        Misconception(
            "Both triangles counted",
            "The lower one repeats the upper one, up to the sign.",
            _billed(lambda axes, d, block, heads: axes * heads * d * (block - 1)),
        ),
        Misconception(
            "Heads not counted in what is trained",
            "Each head has generators of its own.",
            _billed(lambda axes, d, block, heads: axes * d * (block - 1) // 2),
        ),
        Misconception(
            "One block of each head trained",
            "A head of d features has d/block of them.",
            _billed(
                lambda axes, d, block, heads: axes * heads * block * (block - 1) // 2
            ),
        ),
        Misconception(
            "A block costs only its size",
            "A block times b features: each of b results is a sum of b products.",
            _billed(turned=lambda axes, d, block, heads: heads * d),
        ),
        Misconception(
            "Two matrices multiplied",
            "A matrix and a vector: b² products for a block.",
            _billed(turned=lambda axes, d, block, heads: heads * d * block**2),
        ),
        Misconception(
            "Twice as many products as there are",
            "A multiplication and its addition count once, and only the queries are "
            "asked for.",
            _billed(turned=lambda axes, d, block, heads: 2 * heads * d * block),
        ),
        Misconception(
            "Heads not counted in the products",
            "All heads are asked for.",
            _billed(turned=lambda axes, d, block, heads: d * block),
        ),
        Misconception(
            "Blocks not counted in the products",
            "A head of d features has d/block of them.",
            _billed(turned=lambda axes, d, block, heads: heads * block**2),
        ),
    ),
    properties=(
        Property(
            "Blocks of 2 train one number a plane and axis",
            lambda answer, axes, d, block, heads: (
                answer(axes, d, 2, heads)[0] == heads * axes * d // 2
            ),
        ),
    ),
)


# liere-7: block by block


def rotate_blocks(x, rotations):
    """Turn each block by its own matrix: a tensor [tokens, d]."""
    blocks = x.unflatten(-1, rotations.shape[1:3])
    return (rotations @ blocks[..., None]).flatten(1)


def _strided(x, rotations):
    blocks, b = rotations.shape[1:3]
    columns = x.unflatten(-1, (b, blocks)).mT[..., None]
    return (rotations @ columns).squeeze(-1).mT.flatten(1)


def _random_rotations(*shape):
    return torch.tensor(exponential(skew(draw(*shape))))


TURN = Exercise(
    name="liere-7",
    title="Block by block",
    kind="PyTorch",
    minutes=10,
    lines=2,
    statement=r"""
`x` is `[tokens, d]`, `rotations` is `[tokens, blocks, b, b]` with blocks · b = d.
Multiply each block of $b$ neighboring features of each token by its own matrix, and return `[tokens, d]`.
No $d \times d$ matrix is needed.
""",
    hint=r"""
Give `x` the axes `[tokens, blocks, b]`, and one more of length 1: then every block is a column.
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
            "A row of features times R is the turn back. Which index of R must meet "
            "the features?",
            lambda x, rotations: rotate_blocks(x, rotations.mT),
        ),
        Misconception(
            "The features of a block are not neighbors here",
            "Block m has the features m·b … m·b + b − 1. This takes features that "
            "are d/b apart.",
            _strided,
        ),
        Misconception(
            "All tokens rotated alike",
            "This takes the first token's matrices for everyone. Each token stands at "
            "a position of its own.",
            lambda x, rotations: rotate_blocks(x, rotations[:1].expand_as(rotations)),
        ),
        Misconception(
            "All blocks rotated alike",
            "This takes the first block's matrix for every block of a token.",
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
            "One product for each block.",
            lambda x, rotations: rotate_blocks(rotate_blocks(x, rotations), rotations),
        ),
        Misconception(
            "The blocks' matrices are in reverse order",
            "Block m is turned by rotations[:, m].",
            lambda x, rotations: rotate_blocks(x, rotations.flip(1)),
        ),
        Misconception(
            "The tokens' matrices are in reverse order",
            "Token n is turned by rotations[n].",
            lambda x, rotations: rotate_blocks(x, rotations.flip(0)),
        ),
        Misconception(
            "Only the first block rotated",
            "All blocks are, each by its own matrix.",
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
            "A matrix times a column: each result is a sum over the block.",
            lambda x, rotations: (
                rotations.diagonal(dim1=-2, dim2=-1)
                * x.unflatten(-1, rotations.shape[1:3])
            ).flatten(1),
        ),
        Misconception(
            "The features of a block are not neighbors, and the matrices are transposed",
            "Block m has the features m·b … m·b + b − 1, and R times a column is "
            "meant.",
            lambda x, rotations: _strided(x, rotations.mT),
        ),
        Misconception(
            "Rows of the matrices summed",
            "Each entry of R meets the feature of its *column* before the sum.",
            lambda x, rotations: (
                rotations.sum(-1) * x.unflatten(-1, rotations.shape[1:3])
            ).flatten(1),
        ),
        Misconception(
            "Tokens and blocks mixed",
            "A reshape moves nothing in memory: the tokens' axis comes first, then the "
            "blocks'.",
            lambda x, rotations: (
                rotations
                @ x.reshape(rotations.shape[1], len(x), -1).transpose(0, 1)[..., None]
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
)


# liere-8: how far from relative


def off_relative(generators, x, y):
    """The largest absolute entry of R(x)ᵀ R(y) − R(y − x): a number."""
    first, second, moved = (
        expm(np.tensordot(at, generators, 1)) for at in (x, y, y - x)
    )
    return np.abs(first.T @ second - moved).max()


def _largest(difference, generators):
    def turn(at):
        return exponential(np.tensordot(at, generators, 1))

    return float(np.abs(difference(turn)).max())


def _one_axis_after_the_other(generators, x, y):
    def turn(at):
        return exponential(at[0] * generators[0]) @ exponential(at[1] * generators[1])

    return float(np.abs(turn(x).T @ turn(y) - turn(y - x)).max())


def _size_of_commutator(generators, x, y):
    first, second = (np.tensordot(at, generators, 1) for at in (x, y))
    return float(np.abs(first @ second - second @ first).max())


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
`generators` is `[axes, d, d]`, skew; `x` and `y` are positions, `[axes]`.
Measure by how much $R(x)^\top R(y) = R(y - x)$ fails: return the largest absolute entry of the difference, as a number.

Before you run the check: what do you expect of quarter turns about two directions, and what of two generators of which one is a multiple of the other?
""",
    hint=r"""
Write a small function for $R$ first; `np.tensordot(at, generators, 1)` is $\sum_a x_a A_a$.
""",
    cases=(
        (_QUARTERS, np.array([1.0, 0.0]), np.array([0.0, 1.0])),
        (_COMMUTING, np.array([3.0, 1.0]), np.array([1.0, 2.0])),
        (_GENERIC, np.array([3.0, 1.0]), np.array([1.0, 2.0])),
    ),
    solution=off_relative,
    misconceptions=(
        Misconception(
            "Offset taken the wrong way round",
            "R(x)ᵀ R(y) turns back by x and on by y, so y − x is what remains. With "
            "x − y even generators that commute seem to fail.",
            lambda generators, x, y: _largest(
                lambda turn: turn(x).T @ turn(y) - turn(x - y), generators
            ),
        ),
        Misconception(
            "Query's rotation not transposed",
            "R(x) R(y) adds positions. In the score qᵀ R(x)ᵀ R(y) k the first one is "
            "transposed.",
            lambda generators, x, y: _largest(
                lambda turn: turn(x) @ turn(y) - turn(y - x), generators
            ),
        ),
        Misconception(
            "Both sides computed by the law",
            "exp(−X) exp(Y) = exp(Y − X) is what you test. If you use it, or put x and "
            "y on one line with the origin, the result is 0 for all generators.",
            lambda generators, x, y: 0.0,
        ),
        Misconception(
            "One axis rotated after the other",
            "R(x) is one exponential, of x₀ A₀ + x₁ A₁. The product of two is another "
            "encoding.",
            _one_axis_after_the_other,
        ),
        Misconception(
            "Commutator",
            "It says whether the law fails, and how much while the generators are "
            "small. Compare the rotations themselves.",
            _size_of_commutator,
        ),
        Misconception(
            "Signs kept",
            "Take absolute values before the largest.",
            lambda generators, x, y: (
                lambda turn: (turn(x).T @ turn(y) - turn(y - x)).max()
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Norm of the difference",
            "The largest absolute *entry* is asked for.",
            lambda generators, x, y: (
                lambda turn: np.linalg.norm(turn(x).T @ turn(y) - turn(y - x))
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Mean of the difference",
            "The largest absolute entry is asked for.",
            lambda generators, x, y: (
                lambda turn: np.abs(turn(x).T @ turn(y) - turn(y - x)).mean()
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Sum of the difference",
            "The largest absolute entry is asked for.",
            lambda generators, x, y: (
                lambda turn: np.abs(turn(x).T @ turn(y) - turn(y - x)).sum()
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Key's rotation transposed, not the query's",
            "In the score qᵀ R(x)ᵀ R(y) k the first one is transposed.",
            lambda generators, x, y: _largest(
                lambda turn: turn(x) @ turn(y).T - turn(y - x), generators
            ),
        ),
        Misconception(
            "Compared with R(x + y)",
            "The law says R(y − x): the transpose turns back.",
            lambda generators, x, y: _largest(
                lambda turn: turn(x).T @ turn(y) - turn(x + y), generators
            ),
        ),
        Misconception(
            "Sum law tested",
            "R(x) R(y) = R(x + y) fails, too, but by another amount. The score has "
            "R(x)ᵀ R(y).",
            lambda generators, x, y: _largest(
                lambda turn: turn(x) @ turn(y) - turn(x + y), generators
            ),
        ),
        Misconception(
            "Order of the products tested",
            "R(x)ᵀ R(y) is compared with R(y − x), not with the product the other "
            "way round.",
            lambda generators, x, y: _largest(
                lambda turn: turn(x).T @ turn(y) - turn(y) @ turn(x).T, generators
            ),
        ),
        Misconception(
            "Nothing subtracted",
            "The largest entry of a rotation is about 1. The difference is asked for.",
            lambda generators, x, y: _largest(
                lambda turn: turn(x).T @ turn(y), generators
            ),
        ),
        Misconception(
            "Largest stretch of the difference",
            "The largest absolute *entry* is asked for, not a norm of the matrix.",
            lambda generators, x, y: (
                lambda turn: np.linalg.norm(turn(x).T @ turn(y) - turn(y - x), 2)
            )(lambda at: exponential(np.tensordot(at, generators, 1))),
        ),
        Misconception(
            "Rotations cut off after the first power",
            "I + A is a rotation for very small A only.",
            lambda generators, x, y: (
                lambda turn: float(np.abs(turn(x).T @ turn(y) - turn(y - x)).max())
            )(lambda at: np.eye(generators.shape[1]) + np.tensordot(at, generators, 1)),
        ),
        Misconception(
            "Key's rotation transposed, and the offset reversed",
            "In the score qᵀ R(x)ᵀ R(y) k the first one is transposed, and y − x is "
            "what remains.",
            lambda generators, x, y: _largest(
                lambda turn: turn(x) @ turn(y).T - turn(x - y), generators
            ),
        ),
    ),
    properties=(
        Property(
            "Generators that commute obey the law",
            lambda answer, generators, x, y: abs(answer(_COMMUTING, x, y)) < 1e-9,
        ),
        Property(
            "Query and key at one place meet unturned",
            lambda answer, generators, x, y: abs(answer(generators, x, x)) < 1e-9,
        ),
    ),
)


# liere-9: what the rotation sees


def seen(p):
    """The rank of the derivative of P ↦ exp(P − Pᵀ) at P: an int."""
    jacobian = torch.autograd.functional.jacobian(
        lambda p: torch.matrix_exp(p - p.mT), p
    ).reshape(p.numel(), -1)
    return int(torch.linalg.matrix_rank(jacobian, atol=1e-6))


def _jacobian(p):
    def rotation(p):
        return torch.matrix_exp(p - p.mT)

    return torch.autograd.functional.jacobian(rotation, p).reshape(p.numel(), -1)


def _entries_seen(p):
    return int((_jacobian(p).abs().amax(0) > 1e-6).sum())


_FULL_TURN = torch.zeros(3, 3, dtype=torch.float64)
_FULL_TURN[0, 1] = 2 * torch.pi

SEEN = Exercise(
    name="liere-9",
    title="What the rotation sees",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
Code often stores a full matrix $P$ and turns by $\exp(P - P^\top)$.
`p` is such a matrix, `[b, b]`, float64.
In how many independent directions does a small change of $P$ change the rotation?
Return the rank of the derivative, an integer; take a singular value below $10^{-6}$ for zero.

Before you run the check: is it the same number for every $P$?
""",
    hint=r"""
`torch.autograd.functional.jacobian` differentiates a function from matrices to matrices; make a $b^2 \times b^2$ matrix of the result.
`torch.linalg.matrix_rank` has an argument `atol`.
""",
    cases=(
        *((torch.tensor(draw(b, b)),) for b in (2, 3, 4)),
        (0.9999 * _FULL_TURN,),
        (_FULL_TURN,),
    ),
    solution=seen,
    misconceptions=(
        Misconception(
            "All entries of P counted",
            "The rotation is exp(P − Pᵀ), and a symmetric change of P leaves P − Pᵀ as "
            "it is.",
            lambda p: p.numel(),
        ),
        Misconception(
            "Directions that are not seen",
            "Count the others: the rank, not what is left of it.",
            lambda p: p.numel() - seen(p),
        ),
        Misconception(
            "Entries of P that get a gradient",
            "Two entries may change the rotation in the same way, up to a sign. Only "
            "independent directions count.",
            _entries_seen,
        ),
        Misconception(
            "b(b − 1)/2, wherever P is",
            "So many directions change A = P − Pᵀ. In the last case A is one full "
            "turn: tilt its axis a little, and exp A is still I.",
            lambda p: len(p) * (len(p) - 1) // 2,
        ),
        Misconception(
            "Number of rows",
            "So large is the rank of the rotation itself, too. The "
            "rank of its *derivative* is asked for: in how many "
            "independent directions can P change the rotation?",
            len,
        ),
        Misconception(
            "Symmetric directions counted",
            "b(b + 1)/2 of them leave P − Pᵀ as it is.",
            lambda p: len(p) * (len(p) + 1) // 2,
        ),
        Misconception(
            "Diagonal alone left out",
            "b² − b entries change A, but two of them at a time in the same way, up "
            "to the sign.",
            lambda p: len(p) * (len(p) - 1),
        ),
        Misconception(
            "Rank of P",
            "The rank of the *derivative* is asked for, of a b² × b² matrix.",
            lambda p: int(torch.linalg.matrix_rank(p)),
        ),
        Misconception(
            "Rank of A",
            "The rank of the *derivative* is asked for, of a b² × b² matrix.",
            lambda p: int(torch.linalg.matrix_rank(p - p.mT, atol=1e-6)),
        ),
        Misconception(
            "Rounding taken for a direction",
            "Of a full turn some singular values are 1e−16: take those below 10⁻⁶ "
            "for zero.",
            lambda p: int((torch.linalg.svdvals(_jacobian(p)) > 0).sum()),
        ),
        Misconception(
            "Derivative taken by A, not by P",
            "A change of P changes P − Pᵀ, which stays skew. Differentiate that, too.",
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
            "Near a full turn some singular values are 10⁻⁴: they count.",
            lambda p: int(torch.linalg.matrix_rank(_jacobian(p), atol=1e-3)),
        ),
    ),
    properties=(
        Property(
            "At most b(b − 1)/2 directions are seen",
            lambda answer, p: 2 * answer(p) <= len(p) * (len(p) - 1),
        ),
    ),
)


SHEET = Sheet(
    title="LieRE",
    conventions=r"""
A generator is $A = U - U^\top$ with the free numbers above the diagonal, row by row; $R(x) = \exp \sum_a x_a A_a$; a head has $d$ features in $d/b$ blocks of $b$ neighbors.
""",
    exercises=(
        GENERATOR,
        PLANE,
        ROTATION,
        RODRIGUES,
        PARTS,
        BILL,
        TURN,
        RELATIVE,
        SEEN,
    ),
)
