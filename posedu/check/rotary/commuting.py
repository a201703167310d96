"""The exercises on commuting generators."""

import numpy as np
import sympy as sp
import torch
from scipy.linalg import expm

from posedu.check.core import Exercise, Misconception, Property, Sheet, draw


def _skew(a, b, c):
    return sp.Matrix([[0, a, b], [-a, 0, c], [-b, -c, 0]])


_LZ, _LX = _skew(-1, 0, 0), _skew(0, 0, -1)
_GENERAL = (
    _skew(*sp.symbols("a:3", real=True)),
    _skew(*sp.symbols("b:3", real=True)),
)


# commuting-1: the commutator


def commutator(a, b):
    """[A, B]: a SymPy matrix."""
    return a * b - b * a


COMMUTATOR = Exercise(
    name="commuting-1",
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
    cases=((_LZ, _LX), _GENERAL),
    solution=commutator,
    misconceptions=(
        Misconception(
            "The sign is reversed",
            "[A, B] begins with AB. This is [B, A].",
            lambda a, b: b * a - a * b,
        ),
        Misconception(
            "This is the anticommutator",
            "With a plus it does not vanish for A = B.",
            lambda a, b: a * b + b * a,
        ),
        Misconception(
            "Entry by entry",
            "Numbers commute, so products of entries always cancel: the matrix "
            "product is meant.",
            lambda a, b: a.multiply_elementwise(b) - b.multiply_elementwise(a),
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
                (answer(a, b) + answer(a, b).T).expand().is_zero_matrix
            ),
        ),
    ),
)


# commuting-2: the second order


def second_order(a, b):
    """The coefficient of st in exp(sA) exp(tB) − exp(sA + tB): a SymPy matrix."""
    return (a * b - b * a) / 2


SECOND = Exercise(
    name="commuting-2",
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
            "The second series is forgotten",
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
            "The order is reversed",
            "exp(sA) stands first: this is the coefficient for exp(tB) exp(sA).",
            lambda a, b: (b * a - a * b) / 2,
        ),
    ),
)


# commuting-3: is it a rotation


def is_rotation(m):
    """Whether a real square matrix is a rotation: True or False."""
    orthogonal = (m.T * m - sp.eye(m.rows)).is_zero_matrix
    return bool(orthogonal and m.det() == 1)


_HALF = sp.Rational(1, 2)
_TURN = sp.Matrix(
    [[sp.Rational(3, 5), -sp.Rational(4, 5)], [sp.Rational(4, 5), sp.Rational(3, 5)]]
)

ROTATION = Exercise(
    name="commuting-3",
    title="Is it a rotation?",
    kind="by hand",
    minutes=5,
    lines=2,
    statement=r"""
Decide whether a real square SymPy matrix is a rotation matrix.
Return `True` or `False`.
""",
    hint=r"""
Two conditions, and neither follows from the other.
""",
    cases=(
        (sp.diag(1, -1),),
        (sp.diag(2, _HALF),),
        (_TURN,),
        (sp.diag(-1, -1, 1),),
        (sp.diag(-1, 1, 1),),
        (sp.Matrix([[1, 1], [0, 1]]),),
    ),
    solution=is_rotation,
    misconceptions=(
        Misconception(
            "Mirrors pass",
            "diag(1, −1) keeps lengths and angles, and turns nothing into its mirror "
            "image: what tells it from a rotation?",
            lambda m: (m.T * m - sp.eye(m.rows)).is_zero_matrix,
        ),
        Misconception(
            "Stretches pass",
            "diag(2, ½) keeps areas, not lengths.",
            lambda m: m.det() == 1,
        ),
        Misconception(
            "Half turns do not pass",
            "A rotation may have the eigenvalue −1, in pairs: diag(−1, −1, 1) turns "
            "by 180°.",
            lambda m: is_rotation(m) and all(m[n, n] >= 0 for n in range(m.rows)),
        ),
    ),
)


# commuting-4: do generators commute, block by block


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


def _by_eigenvalues(generators):
    values = np.sort(np.linalg.eigvals(generators).imag, axis=-1)
    return bool(np.allclose(values, values[:1]))


def _across_blocks(generators):
    flat = generators.reshape(-1, *generators.shape[2:])
    products = np.einsum("aij,cjk->acik", flat, flat)
    return bool(np.allclose(products, products.swapaxes(0, 1)))


COMMUTE = Exercise(
    name="commuting-4",
    title="Do they commute?",
    kind="NumPy",
    minutes=8,
    lines=2,
    statement=r"""
`generators` is `[axes, blocks, b, b]`: block-diagonal generators, one for each axis.
Decide whether they commute, every two of them.
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
        (_random_skew(1, 3, 4, 4),),
    ),
    solution=commute,
    misconceptions=(
        Misconception(
            "Blocks are compared with other blocks",
            "Blocks of different m never meet in a product. Compare the axes within "
            "one block.",
            _across_blocks,
        ),
        Misconception(
            "Only equal eigenvalues are looked at",
            "Two matrices may have the same eigenvalues in different bases, and "
            "multiples of one matrix have different ones.",
            _by_eigenvalues,
        ),
        Misconception(
            "Only the first two axes are looked at",
            "Every two axes must commute; here the third is different.",
            lambda generators: commute(generators[:2]),
        ),
    ),
)


# commuting-5: fold the basis


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
    name="commuting-5",
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
            "The basis is not transposed",
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
    ),
    properties=(
        Property(
            "Scores are the same with RoPE-Mixed alone and folded projections",
            _same_scores,
        ),
    ),
)


# commuting-6: two ways round the corner


def two_ways(a, b, v):
    """The distance between exp(A) exp(B) v and exp(B) exp(A) v: a number."""
    first, second = expm(a), expm(b)
    return np.linalg.norm(first @ second @ v - second @ first @ v)


_Z, _X = (np.array(m.tolist(), dtype=float) for m in (_LZ, _LX))
_V = np.array([0.0, 0.6, 0.8])

WAYS = Exercise(
    name="commuting-6",
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
    ),
    solution=two_ways,
    misconceptions=(
        Misconception(
            "One way is walked twice",
            "Both paths have the same order, so they end together.",
            lambda a, b, v: np.linalg.norm(
                expm(a) @ expm(b) @ v - expm(a) @ expm(b) @ v
            ),
        ),
        Misconception(
            "The diagonal is one of the ways",
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
    ),
)

SHEET = Sheet(
    title="commuting generators",
    conventions=r"""
$[A, B] = AB - BA$; $R(x) = \exp(\sum_a x_a A_a)$; SymPy matrices where the kind is by hand or SymPy.
""",
    exercises=(COMMUTATOR, SECOND, ROTATION, COMMUTE, FOLD, WAYS),
)
