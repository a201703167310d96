"""The exercises on commuting generators."""

import numpy as np
import sympy as sp
import torch
from scipy.linalg import expm

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw


def _skew(a, b, c):
    return sp.Matrix([[0, a, b], [-a, 0, c], [-b, -c, 0]])


_LZ, _LX = _skew(-1, 0, 0), _skew(0, 0, -1)
_GENERAL = (
    _skew(*sp.symbols("a:3", real=True)),
    _skew(*sp.symbols("b:3", real=True)),
)


# commuting-generators-1: the commutator


def commutator(a, b):
    """[A, B]: a SymPy matrix."""
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
            "[A, B] begins with AB. This is [B, A].",
            lambda a, b: b * a - a * b,
        ),
        Misconception(
            "Anticommutator",
            "With a plus it does not vanish for A = B.",
            lambda a, b: a * b + b * a,
        ),
        Misconception(
            "Always zero",
            "Products of entries commute, and so does a product with itself: matrix "
            "products are meant, in both orders.",
            lambda a, b: a.multiply_elementwise(b) - b.multiply_elementwise(a),
        ),
        Misconception(
            "One product",
            "BA has to be subtracted.",
            lambda a, b: a * b,
        ),
        Misconception(
            "Halved",
            "[A, B] is the whole difference.",
            lambda a, b: (a * b - b * a) / 2,
        ),
        Misconception(
            "Matrices subtracted",
            "The products in both orders are compared.",
            lambda a, b: a - b,
        ),
        Misconception(
            "One matrix transposed",
            "AB − BA, as they are.",
            lambda a, b: a * b.T - b * a.T,
        ),
        Misconception(
            "Transposes multiplied by their matrices",
            "AB − BA, without a transpose.",
            lambda a, b: a.T * b - b.T * a,
        ),
        Misconception(
            "Transpose of the product subtracted",
            "(AB)ᵀ is BᵀAᵀ, which is BA for skew matrices only.",
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
)


# commuting-generators-2: the second order


def second_order(a, b):
    """The coefficient of st in exp(sA) exp(tB) − exp(sA + tB): a SymPy matrix."""
    return (a * b - b * a) / 2


SECOND = Exercise(
    name="commuting-generators-2",
    title="The first term that fails",
    kind="SymPy",
    minutes=10,
    lines=2,
    statement=r"""
For two skew SymPy matrices return the coefficient of $st$ in $e^{sA} e^{tB} - e^{sA + tB}$, exactly.
You may expand the series, or find the formula on paper.
""",
    hint=r"""
Write both sides to second order. From the sum's series comes $(sA + tB)^2/2$; mind that $AB \ne BA$.
""",
    cases=((_LZ, _LX), _GENERAL),
    solution=second_order,
    misconceptions=(
        Misconception(
            "A quarter instead of a half",
            "The series of exp(sA + tB) has (sA + tB)²/2, not /4: as printed in a "
            "paper's appendix.",
            lambda a, b: (a * b - b * a) / 4,
        ),
        Misconception(
            "Second series forgotten",
            "AB is what the product alone has. The exponential of the sum has st "
            "terms as well.",
            lambda a, b: a * b,
        ),
        Misconception(
            "The whole commutator",
            "exp(sA + tB) contributes (AB + BA)/2, so half of AB survives.",
            lambda a, b: a * b - b * a,
        ),
        Misconception(
            "Order reversed",
            "exp(sA) stands first: this is the coefficient for exp(tB) exp(sA).",
            lambda a, b: (b * a - a * b) / 2,
        ),
        Misconception(
            "Only the sum's series is there",
            "Its terms are subtracted from those of the product.",
            lambda a, b: -(a * b + b * a) / 2,
        ),
        Misconception(
            "Products added",
            "What remains is a difference: where AB = BA nothing may fail.",
            lambda a, b: (a * b + b * a) / 2,
        ),
        Misconception(
            "AB taken for BA in the square",
            "(sA + tB)² has the terms AB *and* BA.",
            lambda a, b: sp.zeros(*a.shape),
        ),
        Misconception(
            "Half of AB left over",
            "(sA + tB)²/2 has AB/2 and BA/2: both are subtracted.",
            lambda a, b: a * b / 2,
        ),
        Misconception(
            "Square not halved",
            "The series of the exponential has (sA + tB)²/2.",
            lambda a, b: -b * a,
        ),
        Misconception(
            "The square has AB only, not halved by two orders",
            "(sA + tB)²/2 has AB/2 and BA/2.",
            lambda a, b: a * b - b * a / 2,
        ),
        Misconception(
            "Coefficient of s²t or st²",
            "Those come later, with two brackets. Here one is enough.",
            lambda a, b: (a * a * b - 2 * a * b * a + b * a * a) / 6,
        ),
        Misconception(
            "Only the sum's series is there, and not halved",
            "The terms of both series count, and the exponential's second one is "
            "halved.",
            lambda a, b: -(a * b + b * a),
        ),
    ),
)


# commuting-generators-3: is it a rotation


def is_rotation(m):
    """Whether a real square matrix is a rotation: True or False."""
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
Two conditions, and neither follows from the other.
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
    ),
    solution=is_rotation,
    misconceptions=(
        Misconception(
            "Mirrors pass",
            "diag(1, −1) keeps lengths and angles, and turns nothing into its mirror "
            "image: what tells it from a rotation?",
            _keeps_lengths,
        ),
        Misconception(
            "Stretches pass",
            "diag(2, ½) keeps areas, not lengths.",
            lambda m: sp.simplify(m.det()) == 1,
        ),
        Misconception(
            "Half turns do not pass",
            "A rotation may have the eigenvalue −1, in pairs: diag(−1, −1, 1) turns "
            "by 180°.",
            lambda m: is_rotation(m) and all(m[n, n] >= 0 for n in range(m.rows)),
        ),
        Misconception(
            "Everything that keeps volumes passes",
            "A shear does, and changes lengths.",
            lambda m: bool(abs(m.det()) == 1),
        ),
        Misconception(
            "Symmetric matrices looked for",
            "A rotation's inverse is its transpose; few are symmetric.",
            lambda m: m == m.T,
        ),
        Misconception(
            "Matrices that are their own inverse looked for",
            "A rotation's inverse is its *transpose*.",
            lambda m: m * m == sp.eye(m.rows),
        ),
        Misconception(
            "Skew matrices looked for",
            "Their *exponentials* are rotations.",
            lambda m: (m + m.T).is_zero_matrix,
        ),
        Misconception(
            "Only the lengths of the columns looked at",
            "They must be at right angles to each other as well, and det = 1.",
            lambda m: all(m.col(n).dot(m.col(n)) == 1 for n in range(m.cols)),
        ),
        Misconception(
            "Everything passes",
            "A rotation keeps lengths, and is no mirror.",
            lambda m: True,
        ),
        Misconception(
            "Only two dimensions are thought of",
            "In three dimensions there is more than [[cos, −sin], [sin, cos]].",
            lambda m: (
                m.rows == 2
                and m[0, 0] == m[1, 1]
                and m[0, 1] == -m[1, 0]
                and m.det() == 1
            ),
        ),
        Misconception(
            "Diagonal matrices do not pass",
            "A half turn in a plane is diag(−1, −1).",
            lambda m: is_rotation(m) and not m.is_diagonal(),
        ),
        Misconception(
            "Only the trace looked at",
            "Two conditions: the transpose is the inverse, and no mirror.",
            lambda m: bool(abs(m.trace()) <= m.rows and m.det() == 1),
        ),
        Misconception(
            "Only two dimensions are thought of, and stretches pass",
            "[[a, −b], [b, a]] turns and stretches; and in three dimensions there "
            "is more.",
            lambda m: m.rows == 2 and m[0, 0] == m[1, 1] and m[0, 1] == -m[1, 0],
        ),
        Misconception(
            "Only mirrors pass",
            "A mirror has determinant −1. A rotation?",
            lambda m: _keeps_lengths(m) and sp.simplify(m.det()) == -1,
        ),
        Misconception(
            "Only the right angles looked at",
            "The columns of a rotation have length 1 as well.",
            lambda m: (m.T * m).is_diagonal(),
        ),
        Misconception(
            "Everything with a determinant of 1 or −1, and equal diagonal, passes",
            "The transpose must be the inverse, and the determinant 1.",
            lambda m: bool(m.det() in (1, -1) and len(set(m.diagonal())) == 1),
        ),
        Misconception(
            "Nothing simplified",
            "cos² 1 + sin² 1 is 1, but SymPy says so only after `sp.simplify`.",
            lambda m: bool(m.T * m == sp.eye(m.rows) and m.det() == 1),
        ),
        Misconception(
            "Only whole numbers pass",
            "Rounded fractions, sines and cosines seldom make exactly 1. "
            "Keep SymPy's numbers, and simplify.",
            lambda m: is_rotation(m) and all(entry.is_integer for entry in m),
        ),
        Misconception(
            "Nearly is enough",
            "SymPy's numbers are exact: what is off by 10⁻²⁴ is no rotation. No "
            "tolerance is needed.",
            lambda m: bool(
                np.allclose(np.array((m.T * m).evalf(), dtype=float), np.eye(m.rows))
                and abs(m.det().evalf() - 1) < 1e-9
            ),
        ),
    ),
)


# commuting-generators-4: do generators commute, block by block


def commute(generators):
    """Whether all axes' generators ``[axes, blocks, b, b]`` commute: True or False."""
    products = np.einsum("amij,cmjk->acmik", generators, generators)
    return bool(np.allclose(products, products.swapaxes(0, 1)))


def _random_skew(*shape):
    u = draw(*shape)
    return u - u.swapaxes(-1, -2)


def _parallel(axes, blocks, b):
    return draw(axes, blocks, 1, 1) * _random_skew(1, blocks, b, b)


def _like_eigenvalues(b):
    first = _random_skew(b, b)
    q, _ = np.linalg.qr(draw(b, b, seed=1))
    return np.stack([first, q @ first @ q.T])[:, None]


def _third_differs():
    together = _parallel(3, 1, 4)
    together[2] = _random_skew(1, 4, 4)
    return together


def _apart():
    """Turns in two planes that have nothing in common."""
    generators = np.zeros((2, 1, 4, 4))
    generators[0, 0, :2, :2] = generators[1, 0, 2:, 2:] = [[0, 1], [-1, 0]]
    return generators


def _opposite_blocks():
    """Two axes whose blocks do not commute, and sum to blocks that do."""
    a, b = _random_skew(2, 3, 3)
    return np.stack((np.stack((a, -a)), np.stack((b, b))))


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
    return np.linalg.matrix_rank(np.stack((a.ravel(), b.ravel())), tol=1e-9) < 2


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
All products of one axis's blocks with another's: `np.einsum("amij,cmjk->acmik", …)`. What does exchanging `a` and `c` do to them?
""",
    cases=(
        (_parallel(2, 2, 4),),
        (_random_skew(2, 1, 3, 3),),
        (_like_eigenvalues(4),),
        (_third_differs(),),
        (_third_differs()[[0, 2, 1]],),
        (_random_skew(1, 3, 4, 4),),
        (_apart(),),
        (_random_skew(3, 1, 3, 3) * np.array([1, 0, 1])[:, None, None, None],),
        (_random_skew(3, 1, 3, 3) * np.array([0, 1, 1])[:, None, None, None],),
        (_opposite_blocks(),),
        (np.concatenate((_parallel(2, 1, 3), _random_skew(2, 1, 3, 3)), axis=1),),
    ),
    solution=commute,
    misconceptions=(
        Misconception(
            "Products summed over the blocks",
            "Differences of two blocks may cancel. Each block has to "
            "commute by itself: m stays in the result of the einsum.",
            _summed_over_blocks,
        ),
        Misconception(
            "Equality is exact",
            "Products of rounded numbers differ in their last bit. Compare "
            "up to rounding.",
            _commute_exactly,
        ),
        Misconception(
            "Blocks compared with other blocks",
            "Blocks of different m never meet in a product. Compare the axes within "
            "one block.",
            _across_blocks,
        ),
        Misconception(
            "Only equal eigenvalues looked at",
            "Two matrices may have the same eigenvalues in different bases, and "
            "multiples of one matrix have different ones.",
            _by_eigenvalues,
        ),
        Misconception(
            "Only the first two axes looked at",
            "Every two axes must commute; here the third is different.",
            lambda generators: commute(generators[:2]),
        ),
        Misconception(
            "Only neighboring axes looked at",
            "Commuting is not handed on: a generator that is zero commutes with "
            "both of its neighbors, and they need not with each other.",
            lambda generators: all(
                commute(generators[n : n + 2]) for n in range(len(generators))
            ),
        ),
        Misconception(
            "Only multiples of one another pass",
            "Multiples commute. So do turns in two planes that have nothing in common.",
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
            "Only the first block looked at",
            "All blocks must commute, each with its own like.",
            lambda generators: commute(generators[:, :1]),
        ),
        Misconception(
            "Some that do not commute pass",
            "Which products do you compare, and must all of their "
            "entries be equal? Of entries instead of matrices, "
            "everything passes: numbers commute. So it does if one product is "
            "transposed: of skew matrices, (AB)ᵀ is BA.",
            lambda generators: True,
        ),
        Misconception(
            "Nothing passes but equal generators",
            "Multiples of one matrix commute as well.",
            lambda generators: bool(np.allclose(generators, generators[:1])),
        ),
        Misconception(
            "Anticommuting generators pass, and no others",
            "AB = −BA is another thing: AB and BA are to be equal.",
            lambda generators: bool(
                np.allclose(
                    np.einsum("amij,cmjk->acmik", generators, generators),
                    -np.einsum("cmij,amjk->acmik", generators, generators),
                )
            ),
        ),
        Misconception(
            "Blocks added first",
            "Each block has to commute by itself: differences of two blocks may "
            "cancel.",
            lambda generators: commute(generators.sum(axis=1, keepdims=True)),
        ),
        Misconception(
            "Enough that one pair commutes",
            "Every two of them must.",
            lambda generators: any(
                commute(generators[[a, c]])
                for a in range(len(generators))
                for c in range(a)
            ),
        ),
        Misconception(
            "Only the first and the last axis looked at",
            "Every two of them must commute.",
            lambda generators: commute(generators[[0, -1]]),
        ),
        Misconception(
            "First axis compared with the others, and these not with each other",
            "What commutes with the first axis need not commute with the rest. Every "
            "two of them must.",
            lambda generators: all(
                commute(generators[[0, n]]) for n in range(len(generators))
            ),
        ),
    ),
)


# commuting-generators-5: fold the basis


def fold(weight, basis):
    """The projection ``[d, d_model]`` that gives the same scores with M alone."""
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
    turn = torch.block_diag(*blocks).double()
    before = (basis @ turn @ basis.T @ weight @ x[0]) @ (weight @ x[1])
    folded = answer(weight, basis)
    return torch.allclose((turn @ folded @ x[0]) @ (folded @ x[1]), before)


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
Write $R q = Q M Q^\top W x$, and remember that the leading $Q$ cancels against the key's.
""",
    cases=tuple((torch.tensor(draw(d, d)), _orthogonal(d)) for d in (2, 4, 6)),
    solution=fold,
    misconceptions=(
        Misconception(
            "Basis not transposed",
            "R = Q M Qᵀ begins, seen from the features, with Qᵀ. Q would go into the "
            "basis a second time.",
            lambda weight, basis: basis @ weight,
        ),
        Misconception(
            "It multiplies from the wrong side",
            "W maps inputs to features; Q acts on features, so on W's output.",
            lambda weight, basis: weight @ basis,
        ),
        Misconception(
            "It goes in and out again",
            "Q and Qᵀ around W would act on the inputs too, which have no such basis.",
            lambda weight, basis: basis.T @ weight @ basis,
        ),
        Misconception(
            "Nothing folded",
            "The scores with M alone are those of features in another basis. (Q Qᵀ is no "
            "change: of the two, one cancels against the key's.)",
            lambda weight, basis: weight.clone(),
        ),
        Misconception(
            "Projection transposed",
            "Qᵀ acts on W x from the left.",
            lambda weight, basis: weight.T @ basis,
        ),
        Misconception(
            "It multiplies from the wrong side, transposed",
            "W maps inputs to features; Q acts on features, so on W's output.",
            lambda weight, basis: weight @ basis.T,
        ),
        Misconception(
            "It goes out and in again",
            "Q and Qᵀ around W would act on the inputs too, which have no such basis.",
            lambda weight, basis: basis @ weight @ basis.T,
        ),
        Misconception(
            "The basis goes in on both sides",
            "Qᵀ acts on W's output. The inputs have no such basis.",
            lambda weight, basis: basis.T @ weight @ basis.T,
        ),
        Misconception(
            "Projection lost",
            "Qᵀ acts on W x: W has to stay.",
            lambda weight, basis: basis.T.clone(),
        ),
    ),
    properties=(
        Property(
            "Scores are the same with RoPE-Mixed alone and folded projections",
            _same_scores,
        ),
    ),
)


# commuting-generators-6: two ways round the corner


def two_ways(a, b, v):
    """The distance between exp(A) exp(B) v and exp(B) exp(A) v: a number."""
    first, second = expm(a), expm(b)
    return np.linalg.norm(first @ second @ v - second @ first @ v)


_Z, _X = (np.array(m.tolist(), dtype=float) for m in (_LZ, _LX))
_V = np.array([0.0, 0.6, 0.8])


def _distance(end, other, size=np.linalg.norm):
    """The size of the difference of two ends, of exp(A), exp(B) and v."""
    return lambda a, b, v: float(
        size(end(expm(a), expm(b), v) - other(expm(a), expm(b), v))
    )


WAYS = Exercise(
    name="commuting-generators-6",
    title="Two ways round the corner",
    kind="experiment",
    minutes=8,
    lines=3,
    statement=r"""
Walk from $v$ one column and then one row, or one row and then one column: $e^{A} e^{B} v$ and $e^{B} e^{A} v$.
Return the distance between the two ends.
`expm` is SciPy's matrix exponential.
Predict before you run: by what factor does it shrink if both steps are a tenth as long?
""",
    hint=r"""
`np.linalg.norm` of a difference.
""",
    cases=(
        (np.pi / 2 * _Z, np.pi / 2 * _X, _V),
        (0.01 * _Z, 0.01 * _X, _V),
        (_Z, -2.5 * _X, _V),
        (*_random_skew(2, 3, 3), draw(3)),
    ),
    solution=two_ways,
    misconceptions=(
        Misconception(
            "One way walked twice",
            "Both paths have the same order, so they end together, or only the lengths "
            "of the two ends are compared, which no rotation changes.",
            lambda a, b, v: np.linalg.norm(
                expm(a) @ expm(b) @ v - expm(a) @ expm(b) @ v
            ),
        ),
        Misconception(
            "Diagonal one of the ways",
            "exp(A + B) goes straight; compare column-then-row with row-then-column.",
            lambda a, b, v: np.linalg.norm(expm(a) @ expm(b) @ v - expm(a + b) @ v),
        ),
        Misconception(
            "Entry by entry",
            "np.exp of a matrix exponentiates its entries; the zeros become ones.",
            lambda a, b, v: np.linalg.norm(
                np.exp(a) @ np.exp(b) @ v - np.exp(b) @ np.exp(a) @ v
            ),
        ),
        Misconception(
            "The products are of generators, not of rotations",
            "exp(A) exp(B) is not exp(AB).",
            lambda a, b, v: np.linalg.norm(expm(a @ b) @ v - expm(b @ a) @ v),
        ),
        Misconception(
            "Commutator",
            "It is the distance for very small steps only. Compare the rotations.",
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
            "Both ways have both steps, in another order.",
            _distance(lambda x, y, v: x @ v, lambda x, y, v: y @ v),
        ),
        Misconception(
            "The way goes back to the start",
            "Compare the two ends with each other, not with v.",
            _distance(lambda x, y, v: x @ y @ v, lambda x, y, v: v),
        ),
        Misconception(
            "v multiplied from the left",
            "R v: a row times R is the turn back.",
            _distance(lambda x, y, v: v @ x @ y, lambda x, y, v: v @ y @ x),
        ),
        Misconception(
            "Diagonal one of the ways, and the row comes first",
            "exp(A + B) goes straight; compare column-then-row with row-then-column.",
            lambda a, b, v: np.linalg.norm(expm(a + b) @ v - expm(b) @ expm(a) @ v),
        ),
    ),
)

SHEET = Sheet(
    title="commuting generators",
    conventions=r"""
$[A, B] = AB - BA$; $R(x) = \exp(\sum_a x_a A_a)$; SymPy matrices where the kind is by hand or SymPy.
""",
    exercises=(COMMUTATOR, SECOND, ROTATION, COMMUTE, FOLD, WAYS),
)
