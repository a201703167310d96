"""Exercises on reflections: PaTH and PaTH-FoX."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Repair,
    Sheet,
    draw,
)

# reflections-1: one transition


def determinant_and_square(beta, alpha):
    """Determinant of T = I − β w wᵀ, and squared length of T k, as SymPy expressions.

    w and k are unit vectors in any dimension, ``alpha`` is the angle between them, and
    ``beta`` is β.
    """
    return 1 - beta, 1 - beta * (2 - beta) * sp.cos(alpha) ** 2


_BETA = sp.Symbol("beta", positive=True)
_ALPHA = sp.Symbol("alpha", positive=True)
_HALF = sp.Rational(1, 2)


def _square(square, determinant=lambda beta: 1 - beta):
    return lambda beta, alpha: (determinant(beta), square(beta, sp.cos(alpha)))


def _determinant(determinant):
    return lambda beta, alpha: (
        determinant(beta, alpha),
        determinant_and_square(beta, alpha)[1],
    )


ONE_TRANSITION = Exercise(
    name="reflections-1",
    title="One transition",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
PaTH's transition of a token with the unit direction $w$ and the strength $\beta$ is $T = I - \beta w w^\top$.
A key $k$ of length 1 makes the angle $\alpha$ with $w$.
Return $(\det T, \lVert T k \rVert^2)$, exactly; `beta` and `alpha` are SymPy expressions.
For which $\beta$ is every length kept, and for which has $T$ no inverse?
""",
    hint=r"""
Split $k$ into a part along $w$ and a part across: what does $T$ do to each?
The determinant is the product of the eigenvalues.
""",
    cases=(
        (sp.Integer(1), sp.pi / 3),
        (sp.Integer(2), sp.pi / 3),
        (_HALF, sp.Integer(0)),
        (sp.Rational(3, 2), sp.pi / 4),
        (_BETA, _ALPHA),
    ),
    solution=determinant_and_square,
    misconceptions=(
        Misconception(
            "Determinant of a reflection for every β",
            "−1 belongs to β = 2. What is the eigenvalue along w for other β?",
            _determinant(lambda beta, alpha: sp.Integer(-1)),
        ),
        Misconception(
            "Determinant of an orthogonal matrix",
            "T is orthogonal for two strengths only, and a reflection has −1.",
            _determinant(lambda beta, alpha: sp.Integer(1)),
        ),
        Misconception(
            "β in place of 1 − β",
            "T w = w − β w: which factor does w get?",
            _determinant(lambda beta, alpha: beta),
        ),
        Misconception(
            "Sign of the determinant reversed",
            "For β = 0 it is T = I, with determinant 1.",
            _determinant(lambda beta, alpha: beta - 1),
        ),
        Misconception(
            "Eigenvalue taken twice",
            "1 − β is the eigenvalue of one direction. All others have 1.",
            _determinant(lambda beta, alpha: (1 - beta) ** 2),
        ),
        Misconception(
            "Determinant that depends on the key",
            "The determinant is one of T alone.",
            _determinant(lambda beta, alpha: 1 - beta * sp.cos(alpha) ** 2),
        ),
        Misconception(
            "Determinant of I plus β w wᵀ",
            "The matrix is I minus β w wᵀ.",
            _determinant(lambda beta, alpha: 1 + beta),
        ),
        Misconception(
            "Lengths always kept",
            "Only reflections, β = 2, and the identity keep all lengths. Try β = 1, "
            "the projection.",
            _square(lambda beta, c: sp.Integer(1)),
        ),
        Misconception(
            "Whole key multiplied by 1 − β",
            "Only the part along w is multiplied. The part across stays.",
            _square(lambda beta, c: (1 - beta) ** 2),
        ),
        Misconception(
            "Part across multiplied, part along kept",
            "The cosine of the angle with w belongs to the part along w.",
            _square(lambda beta, c: 1 - beta * (2 - beta) * (1 - c**2)),
        ),
        Misconception(
            "Factor 1 − β not squared",
            "The part along w has the length |1 − β| cos α. In a squared length it is "
            "squared.",
            _square(lambda beta, c: 1 - beta * c**2),
        ),
        Misconception(
            "Cosine not squared",
            "The part along w has the squared length cos² α.",
            _square(lambda beta, c: 1 - beta * (2 - beta) * c),
        ),
        Misconception(
            "Length in place of the squared length",
            "The square of the length is asked for.",
            _square(lambda beta, c: sp.sqrt(1 - beta * (2 - beta) * c**2)),
        ),
        Misconception(
            "Part along w alone",
            "The part across w belongs to the length, too.",
            _square(lambda beta, c: (1 - beta) ** 2 * c**2),
        ),
        Misconception(
            "Missing middle term",
            "(1 − β)² is 1 − 2β + β²: a term is missing.",
            _square(lambda beta, c: 1 + beta**2 * c**2),
        ),
        Misconception(
            "Quadratic term missing",
            "(1 − β)² is 1 − 2β + β²: a term is missing.",
            _square(lambda beta, c: 1 - 2 * beta * c**2),
        ),
        Misconception(
            "Two results exchanged",
            "The determinant comes first, then the squared length.",
            lambda beta, alpha: determinant_and_square(beta, alpha)[::-1],
        ),
    ),
    properties=(
        Property(
            "The results are exact, without floats",
            lambda answer, beta, alpha: (
                not sp.Tuple(*answer(beta, alpha)).has(sp.Float)
            ),
        ),
        Property(
            "A key across w keeps its length",
            lambda answer, beta, alpha: (
                sp.simplify(answer(beta, sp.pi / 2)[1] - 1) == 0
            ),
        ),
    ),
    explanation=r"""
$T$ multiplies $w$ by $1 - \beta$ and leaves all vectors across $w$ as they are; so the eigenvalues are $1 - \beta$ once and 1 otherwise, and $\det T = 1 - \beta$.
The parts of $k$ have the squared lengths $\cos^2 \alpha$ along $w$ and $\sin^2 \alpha$ across, so $\lVert T k \rVert^2 = (1 - \beta)^2 \cos^2 \alpha + \sin^2 \alpha = 1 - \beta (2 - \beta) \cos^2 \alpha$.
Every length is kept exactly for $\beta = 0$ and $\beta = 2$, {prf:ref}`the theorem on lengths <thm-path-norms>`.
For $\beta = 1$, the mean strength with which the authors' code starts, $T$ is a projection and has no inverse.
""",
)


# reflections-2: two reflections


def two_reflections(a, b):
    """Matrix of two reflections of the plane, a 2×2 SymPy matrix.

    Each is I − 2 w wᵀ. The direction w of the first has the angle ``a`` with the first
    axis, that of the second the angle ``b``; the first acts first.
    """

    def reflection(angle):
        w = sp.Matrix([sp.cos(angle), sp.sin(angle)])
        return sp.eye(2) - 2 * w * w.T

    return reflection(b) * reflection(a)


def _rotation(angle):
    c, s = sp.cos(angle), sp.sin(angle)
    return sp.Matrix([[c, -s], [s, c]])


def _mirrored(angle):
    c, s = sp.cos(angle), sp.sin(angle)
    return sp.Matrix([[c, s], [s, -c]])


_FIRST, _SECOND = sp.symbols("a b", real=True)

TWO = Exercise(
    name="reflections-2",
    title="Two reflections",
    kind="SymPy",
    minutes=10,
    lines=4,
    statement=r"""
In the plane two tokens reflect a key, with strength 2.
Their unit directions $w$ have the angles $a$ (the first token after the key) and $b$ (the second) with the first axis.
Return the matrix by which the key is multiplied, as a 2×2 SymPy matrix.
What kind of map is it, and when does the order of the two tokens not matter?
""",
    hint=r"""
$w = (\cos a, \sin a)^\top$.
The latest matrix stands at the left; simplify the product with `sp.trigsimp`.
""",
    cases=(
        (sp.Integer(0), sp.pi / 2),
        (sp.Integer(0), sp.pi / 6),
        (sp.pi / 3, sp.pi / 12),
        (_FIRST, _SECOND),
    ),
    solution=two_reflections,
    misconceptions=(
        Misconception(
            "Matrices in the wrong order",
            "The first token after the key acts first, so its matrix stands at the "
            "right. Yours rotates the other way.",
            lambda a, b: two_reflections(b, a),
        ),
        Misconception(
            "Rotation by the angle between",
            "Try a = 0 and b = 90°: each reflection reverses one coordinate.",
            lambda a, b: _rotation(b - a),
        ),
        Misconception(
            "Angles added",
            "If both directions are the same, the second reflection undoes the first.",
            lambda a, b: _rotation(2 * (a + b)),
        ),
        Misconception(
            "A reflection",
            "The determinant of a product of two reflections is (−1)².",
            lambda a, b: _mirrored(2 * (b - a)),
        ),
        Misconception(
            "First reflection alone",
            "The second token reflects the key, too.",
            lambda a, b: -_mirrored(2 * a),
        ),
        Misconception(
            "Second reflection alone",
            "The first token reflects the key, too.",
            lambda a, b: -_mirrored(2 * b),
        ),
        Misconception(
            "Strength 1",
            "I − w wᵀ is a projection. A reflection has strength 2.",
            lambda a, b: (
                (sp.eye(2) - _mirrored(2 * b)) * (sp.eye(2) - _mirrored(2 * a)) / 4
            ),
        ),
        Misconception(
            "Matrices added",
            "The second token acts on what the first has made: a product.",
            lambda a, b: -_mirrored(2 * a) - _mirrored(2 * b),
        ),
        Misconception(
            "Only one direction reversed",
            "I − 2 w wᵀ reverses w. Its negative, which you have once, keeps w.",
            lambda a, b: -two_reflections(a, b),
        ),
        Misconception(
            "Rotation by four times the angle",
            "Where the directions are at right angles, the product is −I.",
            lambda a, b: _rotation(4 * (b - a)),
        ),
        Misconception(
            "Difference of the projections",
            "Expand (I − 2 u uᵀ)(I − 2 w wᵀ): a term with both remains.",
            lambda a, b: (
                sp.eye(2)
                - (sp.eye(2) + _mirrored(2 * a))
                - (sp.eye(2) + _mirrored(2 * b))
            ),
        ),
        Misconception(
            "Identity",
            "Two reflections undo each other only if their directions are the same up "
            "to the sign.",
            lambda a, b: sp.eye(2),
        ),
    ),
    properties=(
        Property(
            "The same reflection twice changes nothing",
            lambda answer, a, b: sp.simplify(answer(a, a) - sp.eye(2)) == sp.zeros(2),
        ),
    ),
    explanation=r"""
The product is $\begin{pmatrix} \cos 2(b - a) & -\sin 2(b - a) \\ \sin 2(b - a) & \cos 2(b - a) \end{pmatrix}$: a rotation by twice the angle between the directions, {prf:ref}`as the chapter proves <thm-path-rotation>`.
The other order rotates by $-2(b - a)$.
The two agree if $4(b - a)$ is a multiple of $2\pi$: the directions are parallel, and the product is $I$, or at right angles, and it is $-I$.
With two such reflections for each token {prf:ref}`the scores are RoPE's <thm-path-rope>`; a single reflection has the determinant −1 and is no rotation.
""",
)


# reflections-3: one decoding step


def decoding_step(q, k, w, beta, keys):
    """Logits of a new token with all keys, and the keys to cache for the next token.

    ``q``, ``k``, ``w``, [d], and the number ``beta`` are the new token's; ``keys``,
    [tokens, d], are the earlier keys, moved by all earlier tokens. Returns (logits,
    keys): [tokens + 1] and [tokens + 1, d].
    """
    keys = keys - beta * (keys @ w)[:, None] * w
    keys = torch.cat((keys, k[None]))
    return keys @ q / len(q) ** 0.5, keys


def _decoded(move, own=lambda k, w, beta: k, scale=lambda d: d**0.5):
    """Make a wrong answer to the exercise ``decoding_step``.

    ``move`` and ``own`` take keys, w and beta, and return the moved cached keys and the
    new key; ``scale`` takes d and returns what the logits are divided by.
    """

    def answer(q, k, w, beta, keys):
        keys = torch.cat((move(keys, w, beta), own(k[None], w, beta)))
        return keys @ q / scale(len(q)), keys

    return answer


def _reflected(keys, w, beta):
    return keys - beta * (keys @ w)[:, None] * w


def _unmoved(keys, w, beta):
    return keys


def _decoding_case(tokens, d, beta, seed=0):
    rows = torch.tensor(draw(tokens + 3, d, seed=seed))
    w = rows[2] / rows[2].norm()
    return rows[0], rows[1], w, beta, rows[3:]


def _tensor(*rows):
    return torch.tensor(rows, dtype=torch.float64)


STEP = Exercise(
    name="reflections-3",
    title="One decoding step",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
PaTH decodes with a cache of moved keys: row $j$ of `keys` is $T_{i-1} \cdots T_{j+1} k_j$.
Given `q`, `k`, the unit direction `w` and the strength `beta` of the new token $i$, return its logits with all keys, divided by $\sqrt d$, the new key last, and the cached keys for the next token.
The matrix $T_i$ is not needed.
Which comes first, moving or appending?
""",
    hint=r"""
$T k = k - \beta\, w\, (w^\top k)$.
What must the last logit be?
""",
    cases=(
        (
            _tensor(1.0, 0.0, 0.0, 0.0),
            _tensor(3.0, 1.0, 0.0, 0.0),
            _tensor(0.6, 0.8, 0.0, 0.0),
            2.0,
            _tensor([1.0, 0.0, 0.0, 2.0]),
        ),
        _decoding_case(3, 4, 1.5),
        _decoding_case(5, 3, 1.0),
        _decoding_case(2, 4, 0.3, seed=1),
        _decoding_case(0, 4, 1.2),
    ),
    solution=decoding_step,
    misconceptions=(
        Misconception(
            "New key moved, too",
            "A token moves the keys before it, not its own: append after moving.",
            _decoded(_reflected, own=_reflected),
        ),
        Misconception(
            "New key moved alone",
            "A token moves the keys before it, and not its own.",
            _decoded(_unmoved, own=_reflected),
        ),
        Misconception(
            "Cached keys not moved",
            "The new token's transition acts on all keys before it.",
            _decoded(_unmoved),
        ),
        Misconception(
            "Moved for the scores, but not in the cache",
            "The next token needs the moved keys: its product contains T_i, too.",
            lambda q, k, w, beta, keys: (
                decoding_step(q, k, w, beta, keys)[0],
                torch.cat((keys, k[None])),
            ),
        ),
        Misconception(
            "Moved in the cache, but not for the scores",
            "The query looks after its own token has moved the keys.",
            lambda q, k, w, beta, keys: (
                torch.cat((keys, k[None])) @ q / len(q) ** 0.5,
                decoding_step(q, k, w, beta, keys)[1],
            ),
        ),
        Misconception(
            "Query moved as well",
            "T acts on the keys. Moving the query, too, applies it twice.",
            lambda q, k, w, beta, keys: (
                decoding_step(_reflected(q[None], w, beta)[0], k, w, beta, keys)[0],
                decoding_step(q, k, w, beta, keys)[1],
            ),
        ),
        Misconception(
            "Strength 2 for every token",
            "`beta` is this token's strength.",
            _decoded(lambda keys, w, beta: _reflected(keys, w, 2.0)),
        ),
        Misconception(
            "Strength doubled",
            "T = I − β w wᵀ, and β = 2 is the reflection. There is no further 2.",
            _decoded(lambda keys, w, beta: _reflected(keys, w, 2 * beta)),
        ),
        Misconception(
            "Strength left out",
            "T = I − β w wᵀ.",
            _decoded(lambda keys, w, beta: _reflected(keys, w, 1.0)),
        ),
        Misconception(
            "Sign reversed",
            "T = I − β w wᵀ.",
            _decoded(lambda keys, w, beta: _reflected(keys, w, -beta)),
        ),
        Misconception(
            "Part along w alone",
            "β w (wᵀ k) is what is subtracted from k.",
            _decoded(lambda keys, w, beta: beta * (keys @ w)[:, None] * w),
        ),
        Misconception(
            "Entries multiplied in place of w wᵀ",
            "wᵀ k is one number for each key, and multiplies the vector w.",
            _decoded(lambda keys, w, beta: keys - beta * keys * w * w),
        ),
        Misconception(
            "Projection without its direction",
            "wᵀ k is one number. Multiplied by w it is a vector.",
            _decoded(lambda keys, w, beta: keys - beta * (keys @ w)[:, None]),
        ),
        Misconception(
            "Factor 1 − β for the whole key",
            "Only the part along w is multiplied by 1 − β.",
            _decoded(lambda keys, w, beta: (1 - beta) * keys),
        ),
        Misconception(
            "Not divided by √d",
            "The logits are divided by √d.",
            _decoded(_reflected, scale=lambda d: 1),
        ),
        Misconception(
            "Divided by d",
            "The logits are divided by the root of d.",
            _decoded(_reflected, scale=lambda d: d),
        ),
        Misconception(
            "New key at the front",
            "The new key comes last.",
            lambda q, k, w, beta, keys: tuple(
                t.roll(1, 0) for t in decoding_step(q, k, w, beta, keys)
            ),
        ),
    ),
    properties=(
        Property(
            "The last logit is q · k/√d, whatever w and β are",
            lambda answer, q, k, w, beta, keys: torch.isclose(
                answer(q, k, w, beta, keys)[0][-1], q @ k / len(q) ** 0.5
            ),
        ),
    ),
    explanation=r"""
Move first, then append: the product over the path contains the query's own transition for all earlier keys, and nothing for the query's own key.
Subtracting $\beta\, w\, (w^\top k)$ takes about $4d$ operations per key; the matrix $T_i$ would take $2 d^2$.
Every token writes the whole key cache anew, which RoPE never does; {prf:ref}`in blocks <thm-path-blocks>` many tokens are moved at once.
""",
)


# reflections-4: a block of transitions


def amounts(w, beta):
    """Matrix A [tokens, d] with T_n ⋯ T_1 = I − WᵀA, where T_t = I − β_t w_t w_tᵀ.

    ``w``, [tokens, d], has the rows w_t, of any length; it is W. ``beta`` is [tokens].
    """
    found = np.zeros(w.shape)
    for t in range(len(w)):
        found[t] = beta[t] * (w[t] - w[:t] @ w[t] @ found[:t])
    return found


def _solved(gram, right=lambda w, beta: beta[:, None] * w):
    """Make a wrong answer to the exercise ``amounts``.

    It solves (I + ``gram(w, beta)``) A = ``right(w, beta)``.
    """
    return lambda w, beta: np.linalg.solve(
        np.eye(len(w)) + gram(w, beta), right(w, beta)
    )


def _strict(w, beta):
    return np.tril(beta[:, None] * (w @ w.T), -1)


def colleagues_amounts(w, beta):
    """Matrix A [tokens, d] with T_n ⋯ T_1 = I − WᵀA.

    T_t is I − β_t w_t w_tᵀ; the rows of ``w`` are w_t,
    and ``beta`` is [tokens].
    """
    lower = np.tril(w @ w.T * beta, -1)
    system = np.eye(len(w)) + lower
    return np.linalg.solve(system, beta[:, None] * w)


AMOUNTS = Exercise(
    name="reflections-4",
    title="A block of transitions as one matrix",
    kind="NumPy",
    minutes=15,
    lines=4,
    statement=r"""
The product of the transitions $T_t = I - \beta_t w_t w_t^\top$ of a block of tokens is $T_n \cdots T_1 = I - W^\top A$, where the rows of $W$ are the $w_t$, here `w`, which need not be unit vectors.
Return $A$, `[tokens, d]`, of which each row follows from those above it: $a_t = \beta_t \bigl( w_t - \sum_{s<t} (w_t^\top w_s)\, a_s \bigr)$.
Why does nothing go wrong for $\beta_t = 1$, where a transition has no inverse?
""",
    hint=r"""
Before token $t$ the product is $I - \sum_{s<t} w_s a_s^\top$.
What does token $t$ add to the sum?
""",
    cases=(
        (np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([2.0, 1.0])),
        (draw(1, 3), np.array([0.5])),
        (draw(3, 2), np.array([0.5, 1.5, 2.0])),
        (draw(4, 3) / 2, np.array([1.0, 0.2, 1.0, 1.7])),
        (draw(6, 4) / 2, np.array([0.0, 2.0, 1.0, 0.3, 0.0, 1.1])),
    ),
    solution=amounts,
    misconceptions=(
        Misconception(
            "Strength of the earlier token",
            "a_t is multiplied by β_t, the strength of the later of the two tokens: it "
            "belongs to the rows of w wᵀ, not to its columns.",
            colleagues_amounts,
        ),
        Misconception(
            "Earlier tokens left out",
            "Token t meets a key that the earlier tokens have moved.",
            lambda w, beta: beta[:, None] * w,
        ),
        Misconception(
            "Earlier tokens' w in place of their rows",
            "Rows above are already corrected: the sum is over a_s, not over β_s w_s.",
            lambda w, beta: beta[:, None] * w - _strict(w, beta) @ (beta[:, None] * w),
        ),
        Misconception(
            "Sum over w_s, without its strength",
            "The sum is over the rows a_s above.",
            lambda w, beta: beta[:, None] * w - _strict(w, beta) @ w,
        ),
        Misconception(
            "Sign of the sum reversed",
            "Earlier tokens have *taken off* a_s w_s.",
            _solved(lambda w, beta: -_strict(w, beta)),
        ),
        Misconception(
            "Strength missing in the sum",
            "β_t multiplies the whole bracket.",
            _solved(lambda w, beta: np.tril(w @ w.T, -1)),
        ),
        Misconception(
            "Strength missing before the bracket",
            "Without an earlier token a_t is β_t w_t.",
            _solved(_strict, right=lambda w, beta: w),
        ),
        Misconception(
            "Later tokens in place of the earlier ones",
            "Your matrix is that of the product in the other order, T_1 ⋯ T_n.",
            _solved(lambda w, beta: np.triu(beta[:, None] * (w @ w.T), 1)),
        ),
        Misconception(
            "All other tokens in the sum",
            "A token meets what the tokens before it have done, not those after it.",
            _solved(
                lambda w, beta: _strict(w, beta) + np.triu(beta[:, None] * (w @ w.T), 1)
            ),
        ),
        Misconception(
            "Own token in the sum",
            "The sum is over s < t: the diagonal does not belong to it.",
            _solved(lambda w, beta: np.tril(beta[:, None] * (w @ w.T))),
        ),
        Misconception(
            "Only the token before",
            "All earlier tokens have moved the key.",
            _solved(lambda w, beta: np.triu(_strict(w, beta), -1)),
        ),
        Misconception(
            "Matrix multiplied in place of its inverse",
            "A row needs the *corrected* rows above it: solve from the top down.",
            lambda w, beta: (np.eye(len(w)) + _strict(w, beta)) @ (beta[:, None] * w),
        ),
        Misconception(
            "Directions divided by their lengths",
            "w need not have unit rows, and the formula holds for all.",
            lambda w, beta: amounts(w / np.linalg.norm(w, axis=1)[:, None], beta),
        ),
        Misconception(
            "Strength squared",
            "β_t appears once, before the bracket.",
            _solved(_strict, right=lambda w, beta: beta[:, None] ** 2 * w),
        ),
        Misconception(
            "Product itself",
            "A is asked for, with a row for each token, not I − WᵀA.",
            lambda w, beta: (
                np.eye(w.shape[1]) - w.T @ amounts(w, beta)
                if len(w) == w.shape[1]
                else amounts(w, beta) * 0
            ),
        ),
    ),
    properties=(
        Property(
            "I − WᵀA is the product of the transitions, the last at the left",
            lambda answer, w, beta: np.allclose(
                np.eye(w.shape[1]) - w.T @ answer(w, beta),
                _product(w, beta),
            ),
        ),
    ),
    explanation=r"""
Before token $t$ a key $k$ has become $k - \sum_{s<t} w_s (a_s^\top k)$, and token $t$ takes off $\beta_t w_t w_t^\top$ of that: this is the row $a_t$.
Written for all rows at once it is $A = M D W$ with $M = (I + \operatorname{strict}(D W W^\top))^{-1}$, {prf:ref}`the WY form <thm-path-wy>`, and the loop is the solution of a triangular system from the top down.
Its diagonal has ones whatever the strengths are, so it always has a solution: no transition is ever inverted, unlike in {prf:ref}`the telescoped form <thm-path-telescope>`.
""",
)


def _product(w, beta):
    product = np.eye(w.shape[1])
    for row, strength in zip(w, beta, strict=True):
        product = product - strength * np.outer(row, row @ product)
    return product


# reflections-5: whose strength


def block_with_wrong_amounts():
    """Return a smallest input on which `colleagues_amounts` is wrong.

    The answer is (w, beta).
    """
    return np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, 2.0])


def _refused_block(w, beta):
    if w.ndim != 2 or beta.shape != (len(w),) or not 0 < w.size <= 400:
        return "w is [tokens, d], with 400 numbers or fewer, and beta is [tokens]"
    if w.dtype != float or beta.dtype != float or not np.abs(w).max() <= 10:
        return "w and beta are floats, those of w between −10 and 10"
    return "" if ((beta >= 0) & (beta <= 2)).all() else "strengths are from 0 to 2"


WHOSE = Exercise(
    name="reflections-5",
    title="Find the input: whose strength?",
    kind="find the input",
    minutes=10,
    lines=1,
    statement=r"""
`colleagues_amounts` should do what exercise reflections-4 asks for.
Her tests: one token; eight tokens with random directions, all of strength 1.5; three tokens with orthogonal directions and different strengths.
All pass.
Find `w` and `beta`, strengths from 0 to 2, for which her function is wrong; the smallest input has the fewest tokens.
With which models would her code give the right loss at the start of training, and when would it fail?
""",
    hint=r"""
Write out $A$ for two tokens: where does $\beta$ stand in hers?
""",
    cases=((),),
    solution=block_with_wrong_amounts,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_amounts,
        right=amounts,
        tested=(
            (draw(1, 3), np.array([0.7])),
            (draw(8, 4) / 2, np.full(8, 1.5)),
            (np.eye(3), np.array([0.3, 1.0, 2.0])),
        ),
        refusal=_refused_block,
        size=lambda w, beta: len(w),
        size_of="number of tokens",
    ),
    explanation=r"""
Her matrix is strict$(W W^\top D)$, with the strength of the *earlier* token; {prf:ref}`the WY form <thm-path-wy>` has strict$(D W W^\top)$, with that of the later one.
The two agree if all strengths are equal, or if no two directions have an inner product.
So two tokens with different strengths, the first not 0, and $w_1^\top w_2 \ne 0$ are enough, and a single token has no entry below the diagonal.
A model whose strengths all start near 1, as in a narrow layer of the authors' code, is nearly right at the start, and goes wrong as soon as the strengths differ.
""",
)


# reflections-6: a gate inside the scale


def half_lives(f, d):
    """Tokens until a key's share is halved, for both placements of the gate's scale.

    All gates are ``f``, and ``d`` is the head dimension. The results, SymPy
    expressions, are for the scalings "product" and "logit", in this order.
    """
    t = -sp.log(2) / sp.log(f)
    return t, sp.sqrt(d) * t


def _lives(product, logit):
    return lambda f, d: (product(f, d), logit(f, d))


def _right_life(f, d):
    return half_lives(f, d)[0]


def _second_life(factor):
    return _lives(_right_life, lambda f, d: factor(d) * _right_life(f, d))


def _first_life(t):
    return lambda f, d: (t(f), sp.sqrt(d) * t(f))


GATE = Exercise(
    name="reflections-6",
    title="A gate inside the scale",
    kind="by hand",
    minutes=8,
    lines=2,
    statement=r"""
PaTH-FoX adds the sum of the logarithms of the gates from key to query to the score.
The paper divides only the product of query and key by $\sqrt d$; the authors' code divides the whole logit, gates included.
All gates are `f`, and all products of queries and moved keys are equal.
After how many tokens $t$ has a key half the weight of the newest one?
Return it for the paper's scaling and for the code's, exactly; `f` and `d` are SymPy numbers.
Which gate of the paper has the effect of the code's gate $f$?
""",
    hint=r"""
A weight is the exponential of a logit.
By how much does the logit fall per token?
""",
    cases=(
        (_HALF, sp.Integer(64)),
        (sp.Rational(1, 3), sp.Integer(16)),
        (sp.Rational(9, 10), sp.Integer(128)),
        (sp.Symbol("f", positive=True), sp.Symbol("d", positive=True)),
    ),
    solution=half_lives,
    misconceptions=(
        Misconception(
            "Both alike",
            "In the code the gates' logarithms are divided by √d, too.",
            _second_life(lambda d: 1),
        ),
        Misconception(
            "Shorter memory in the code",
            "Dividing log f by √d makes it smaller: the code forgets *less* per token.",
            _second_life(lambda d: 1 / sp.sqrt(d)),
        ),
        Misconception(
            "Factor d",
            "The logit is divided by the root of d.",
            _second_life(lambda d: d),
        ),
        Misconception(
            "Two results exchanged",
            "The paper's scaling comes first, then the code's.",
            lambda f, d: half_lives(f, d)[::-1],
        ),
        Misconception(
            "Time scale in place of the half-life",
            "After −1/log f tokens the share 1/e is left. When is a half left?",
            _first_life(lambda f: -1 / sp.log(f)),
        ),
        Misconception(
            "Negative half-life",
            "Both log f and log ½ are negative: their quotient is not.",
            _first_life(lambda f: sp.log(2) / sp.log(f)),
        ),
        Misconception(
            "Quotient upside down",
            "A gate near 1 has a long half-life. Solve f^t = ½ for t.",
            _first_life(lambda f: -sp.log(f) / sp.log(2)),
        ),
        Misconception(
            "Half-life by the lost share",
            "1/(1 − f) is near −1/log f for gates near 1, and neither is the half-life.",
            _first_life(lambda f: 1 / (1 - f)),
        ),
        Misconception(
            "The same loss at every token",
            "Gates multiply: f^t = ½.",
            _first_life(lambda f: 1 / (2 * (1 - f))),
        ),
        Misconception(
            "Logarithm to base 2 of the gate",
            "Solve f^t = ½: t log f = −log 2.",
            _first_life(lambda f: -sp.log(2) * sp.log(f)),
        ),
        Misconception(
            "Effective gate in place of the half-life",
            "f^(1/√d) is the gate that acts. The half-life is asked for.",
            _lives(_right_life, lambda f, d: f ** (1 / sp.sqrt(d))),
        ),
        Misconception(
            "Gate divided, not its logarithm",
            "The logarithm of the gate is divided by √d; the gate itself becomes a "
            "root.",
            _lives(_right_life, lambda f, d: -sp.log(2) / sp.log(f / sp.sqrt(d))),
        ),
        Misconception(
            "Rounded up to whole tokens",
            "t is asked for exactly, and need not be whole.",
            lambda f, d: tuple(map(sp.ceiling, half_lives(f, d))),
        ),
    ),
    properties=(
        Property(
            "The results are exact, without floats",
            lambda answer, f, d: not sp.Tuple(*answer(f, d)).has(sp.Float),
        ),
        Property(
            "A gate of ½ halves in one token in the paper's scaling",
            lambda answer, f, d: sp.simplify(answer(_HALF, d)[0] - 1) == 0,
        ),
    ),
    level="optional",
    explanation=r"""
In the paper's scaling the logit falls by $-\log f$ per token, so $f^t = \frac12$ and $t = -\log 2 / \log f$.
In the code's it falls by $-\log f / \sqrt d$, so the half-life is $\sqrt d$ times as long: the code's gate $f$ acts as the paper's gate $f^{1/\sqrt d}$ in {prf:ref}`the definition of PaTH-FoX <def-path-fox-box>`.
Both start with $f = \frac12$: in a head of 64 features with the paper's scaling a weight is halved with every token, with the code's after eight tokens.
A model trained with one scaling gives other weights under the other one.
""",
    prediction=Prediction(
        "A gate is $\\frac12$ and $d = 64$. After how many tokens is a key's weight halved if the gate is divided by $\\sqrt d$ as well?",
        lambda: float(half_lives(_HALF, sp.Integer(64))[1]),
    ),
)


# reflections-7: keys that shrink


def mean_squares(w, beta):
    """Mean squared length of a unit key after 0, 1, …, n tokens, [n + 1].

    ``w``, [runs, n, d], are unit directions, and ``beta`` is the strength of all
    tokens. The key is the first unit vector, (1, 0, …, 0), in every run; the mean is
    over the runs.
    """
    keys = np.zeros(w[:, 0].shape)
    keys[:, 0] = 1.0
    means = [1.0]
    for t in range(w.shape[1]):
        along = (keys * w[:, t]).sum(axis=1)
        keys = keys - beta * along[:, None] * w[:, t]
        means.append((keys**2).sum(axis=1).mean())
    return np.array(means)


def _unit(*shape):
    w = draw(*shape)
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


def _keys(w, beta):
    """Return the keys of each run after 0, 1, …, n tokens, [n + 1, runs, d]."""
    keys = [np.eye(w.shape[2])[:1].repeat(len(w), 0)]
    for t in range(w.shape[1]):
        along = (keys[-1] * w[:, t]).sum(1, keepdims=True)
        keys.append(keys[-1] - beta * along * w[:, t])
    return np.stack(keys)


def _of_keys(size):
    return lambda w, beta: size(_keys(w, beta))


SHRINKING = Exercise(
    name="reflections-7",
    title="Keys that shrink",
    kind="experiment",
    minutes=12,
    lines=7,
    statement=r"""
`w`, `[runs, tokens, d]`, holds unit directions, and all tokens have the strength `beta`.
Let each run's tokens move the key $(1, 0, \dots, 0)$, and return the mean over the runs of its squared length after $0, 1, \dots$ tokens.
Then try it: draw directions at random with $d = 64$ and 500 runs, for $\beta$ = 0.5, 1, 1.5 and 2.
How does the mean fall with the number of tokens, and for which $\beta$ fastest?
""",
    hint=r"""
All runs at once: `keys` is `[runs, d]`, and $w^\top k$ is one number for each run.
""",
    cases=(
        (np.array([[[0.6, 0.8]], [[1.0, 0.0]]]), 1.0),
        (_unit(2, 3, 2), 0.5),
        (_unit(4, 3, 5), 1.5),
        (_unit(3, 6, 4), 2.0),
        (_unit(50, 20, 8), 1.0),
    ),
    solution=mean_squares,
    misconceptions=(
        Misconception(
            "Mean of the lengths",
            "The squared lengths are averaged.",
            _of_keys(lambda keys: np.linalg.norm(keys, axis=2).mean(1)),
        ),
        Misconception(
            "Square of the mean length",
            "The mean of squares is asked for, not the square of the mean.",
            _of_keys(lambda keys: np.linalg.norm(keys, axis=2).mean(1) ** 2),
        ),
        Misconception(
            "Squared length of the mean key",
            "In the mean key opposite directions cancel. Square first, then average.",
            _of_keys(lambda keys: (keys.mean(1) ** 2).sum(1)),
        ),
        Misconception(
            "Mean over the features",
            "A squared length is the *sum* of the squares of the features.",
            _of_keys(lambda keys: (keys**2).mean((1, 2))),
        ),
        Misconception(
            "Sum over the runs",
            "The mean over the runs is asked for.",
            _of_keys(lambda keys: (keys**2).sum((1, 2))),
        ),
        Misconception(
            "First run alone",
            "The mean over all runs is asked for.",
            _of_keys(lambda keys: (keys[:, 0] ** 2).sum(1)),
        ),
        Misconception(
            "Median of the runs",
            "The mean over the runs is asked for.",
            _of_keys(lambda keys: np.median((keys**2).sum(2), axis=1)),
        ),
        Misconception(
            "Expected value in place of the measurement",
            "That is the mean over *all* directions. Here the mean over the given ones "
            "is asked for.",
            lambda w, beta: (
                (1 - beta * (2 - beta) / w.shape[2]) ** np.arange(w.shape[1] + 1)
            ),
        ),
        Misconception(
            "Each token acts on the first key",
            "A token moves what the tokens before it have made of the key.",
            lambda w, beta: np.append(
                1.0, (1 - beta * (2 - beta) * w[:, :, 0] ** 2).mean(0)
            ),
        ),
        Misconception(
            "Means multiplied",
            "The mean of a product is not the product of the means: follow each run's "
            "key.",
            lambda w, beta: np.append(
                1.0, np.cumprod((1 - beta * (2 - beta) * w[:, :, 0] ** 2).mean(0))
            ),
        ),
        Misconception(
            "Tokens in the reversed order",
            "Token 0 acts first.",
            lambda w, beta: mean_squares(w[:, ::-1], beta),
        ),
        Misconception(
            "Sign of the reflection reversed",
            "The part along w is subtracted, so no key grows.",
            lambda w, beta: mean_squares(w, -beta),
        ),
        Misconception(
            "Strength doubled",
            "T = I − β w wᵀ, and β = 2 is the reflection.",
            lambda w, beta: mean_squares(w, 2 * beta),
        ),
        Misconception(
            "Strength left out",
            "T = I − β w wᵀ.",
            lambda w, beta: mean_squares(w, 1.0),
        ),
        Misconception(
            "All keys of ones",
            "The key is (1, 0, …, 0).",
            lambda w, beta: (
                mean_squares(np.roll(w, 1, axis=2), beta) * np.float64(w.shape[2])
            ),
        ),
        Misconception(
            "Runs and tokens exchanged",
            "The first axis has the runs, the second the tokens.",
            lambda w, beta: np.resize(
                mean_squares(w.swapaxes(0, 1), beta), w.shape[1] + 1
            ),
        ),
    ),
    properties=(
        Property(
            "No transition of strength from 0 to 2 makes a key longer",
            lambda answer, w, beta: (np.diff(answer(w, beta)) <= 1e-9).all(),
        ),
        Property(
            "Reflections, β = 2, keep lengths",
            lambda answer, w, beta: np.allclose(answer(w, 2.0), 1),
        ),
    ),
    explanation=r"""
For a random direction the mean of $(w^\top k)^2$ is $\lVert k \rVert^2/d$, so each token multiplies the mean squared length by $1 - \beta(2 - \beta)/d$, {prf:ref}`as the chapter proves for orthonormal directions <thm-path-norms>`, and it falls geometrically.
$\beta(2 - \beta)$ is largest at $\beta = 1$, the projection, and the same for $\beta = 0.5$ and 1.5; with $\beta = 2$ nothing falls.
At $d = 64$ and $\beta = 1$ half of the squared length is left after about 44 tokens: keys far back are forgotten although no gate is there.
A trained model's directions are not random: if all are equal, only the part of the key along that direction falls.
""",
    prediction=Prediction(
        "With $d = 64$, random directions and $\\beta = 1$: after how many tokens is half of the mean squared length left?",
        lambda: float(np.log(0.5) / np.log(1 - 1 / 64)),
        near=0.1,
    ),
)


# reflections-8: padding inside a text


def padded_scores(q, k, w, beta, mask):
    """PaTH's products q_i · T_i ⋯ T_(j+1) k_j of a batch.

    ``q``, ``k`` and the unit ``w`` are [batch, tokens, d],
    ``beta`` is [batch, tokens], and ``mask``, [batch,
    tokens], is True for real tokens. The result, [batch,
    tokens, tokens], is 0 for later keys, and where the
    query or the key is a padded token.
    """
    beta = beta * mask
    moved, rows = k.clone(), []
    for t in range(k.shape[1]):
        along = (moved[:, :t] * w[:, t, None]).sum(-1)
        along = along * beta[:, t, None]
        moved[:, :t] -= along[..., None] * w[:, t, None]
        rows.append((moved * q[:, t, None]).sum(-1))
    pairs = mask[:, :, None] & mask[:, None]
    return (torch.stack(rows, 1) * pairs).tril()


def _broken_padded_scores(q, k, w, beta, mask):
    """PaTH's products q_i · T_i ⋯ T_(j+1) k_j of a batch.

    ``q``, ``k`` and the unit ``w`` are [batch, tokens, d],
    ``beta`` is [batch, tokens], and ``mask``, [batch,
    tokens], is True for real tokens. The result, [batch,
    tokens, tokens], is 0 for later keys, and where the
    query or the key is a padded token.
    """
    moved, rows = k.clone(), []
    for t in range(k.shape[1]):
        along = (moved[:, :t] * w[:, t, None]).sum(-1)
        along = along * beta[:, t, None]
        moved[:, :t] -= along[..., None] * w[:, t, None]
        rows.append((moved * q[:, t, None]).sum(-1))
    pairs = mask[:, :, None] & mask[:, None]
    return (torch.stack(rows, 1) * pairs).tril()


def symptom_of_padding(function):
    """Return by how much padding changes the scores."""
    x = torch.arange(12.0).sin().reshape(1, 4, 3)
    w = torch.nn.functional.normalize(x.flip(1), dim=-1)
    beta = torch.full((1, 4), 2.0)
    mask = torch.tensor([[True, True, False, True]])
    real = [0, 1, 3]
    padded = function(x, x, w, beta, mask)
    padded = padded[:, real][..., real]
    kept = (t[:, real] for t in (x, x, w, beta, mask))
    alone = function(*kept)
    return (padded - alone).abs().max().item()


def _masked(of_beta=lambda beta, mask: beta, own=0):
    """Make a wrong answer to the exercise ``padded_scores``.

    ``of_beta`` returns the strengths that are used, and ``own`` is 1 if a token moves
    its own key as well.
    """

    def answer(q, k, w, beta, mask):
        beta = of_beta(beta, mask)
        moved, rows = k.clone(), []
        for t in range(k.shape[1]):
            reached = moved[:, : t + own]
            along = (reached * w[:, t, None]).sum(-1) * beta[:, t, None]
            moved[:, : t + own] = reached - along[..., None] * w[:, t, None]
            rows.append((moved * q[:, t, None]).sum(-1))
        pairs = mask[:, :, None] & mask[:, None]
        return (torch.stack(rows, 1) * pairs).tril()

    return answer


def _padding_case(rows, d, seed=0):
    mask = torch.tensor([[c == "x" for c in row] for row in rows])
    q, k, w = torch.tensor(draw(3, *mask.shape, d, seed=seed))
    w = w / w.norm(dim=-1, keepdim=True)
    beta = 2 * torch.tensor(draw(*mask.shape, seed=seed)).sigmoid()
    return q, k, w, beta, mask


PADDING = Exercise(
    name="reflections-8",
    title="Repair: padding inside a text",
    kind="repair",
    minutes=15,
    lines=1,
    statement=r"""
A server pads the prompts of a batch at their ends and then lets the model answer, so that padded tokens stand between a prompt and its answer.
They are masked as keys, and with RoPE and the right positions all is well; with PaTH the answers of short prompts are bad.
Repair `padded_scores`, so that `symptom_of_padding` gives 0.
Would the same code have failed with padding at the *left* of the prompts?
""",
    hint=r"""
What does a padded token do to the keys before it?
For which strength is a transition the identity?
""",
    cases=(
        _padding_case(("x.x",), 2),
        _padding_case(("xx.x", "x..x"), 3),
        _padding_case(("..xxx", "xx..x", "xxxxx"), 2),
        _padding_case((".x.xx.", "x..xxx"), 4),
    ),
    solution=padded_scores,
    misconceptions=(
        Misconception(
            "Padded tokens move keys",
            "The code is as it was: a padded token has a direction and a strength, and "
            "moves all keys before it.",
            _broken_padded_scores,
        ),
        Misconception(
            "Strengths of padding alone kept",
            "The mask is True for real tokens: these must move the keys.",
            _masked(lambda beta, mask: beta * ~mask),
        ),
        Misconception(
            "No token moves a key",
            "Real tokens must move the keys, as before.",
            _masked(lambda beta, mask: 0 * beta),
        ),
        Misconception(
            "Strength 1 for padding",
            "Strength 1 is a projection. Which strength is the identity?",
            _masked(lambda beta, mask: torch.where(mask, beta, 1.0)),
        ),
        Misconception(
            "Strength 2 for padding",
            "Strength 2 is a reflection: lengths stay, but the keys move.",
            _masked(lambda beta, mask: torch.where(mask, beta, 2.0)),
        ),
        Misconception(
            "Every token up to the last padding with strength 0",
            "Your strengths are 0 for real tokens before the last padding, too.",
            _masked(lambda beta, mask: beta * (mask.flip(-1).cumprod(-1).flip(-1) > 0)),
        ),
        Misconception(
            "Mask of the first prompt for all",
            "Each row has its own padding.",
            _masked(lambda beta, mask: beta * mask[:1]),
        ),
        Misconception(
            "Token after the padding does not move",
            "The mask is one token late: the padded token itself must have strength 0.",
            _masked(lambda beta, mask: beta * mask.roll(1, -1)),
        ),
        Misconception(
            "Token before the padding does not move",
            "The mask is one token early: the padded token itself must have strength 0.",
            _masked(lambda beta, mask: beta * mask.roll(-1, -1)),
        ),
        Misconception(
            "Own key moved as well",
            "A token moves the keys *before* it.",
            _masked(lambda beta, mask: beta * mask, own=1),
        ),
        Misconception(
            "Padded direction left as it is, the strength halved",
            "A weaker transition still moves the keys.",
            _masked(lambda beta, mask: torch.where(mask, beta, beta / 2)),
        ),
        Misconception(
            "Keys of padded pairs shown",
            "The result is 0 where the query or the key is a padded token.",
            lambda q, k, w, beta, mask: padded_scores(
                q, k, w, beta * mask, torch.ones_like(mask)
            ),
        ),
        Misconception(
            "Repaired for the symptom only",
            "In `symptom_of_padding` token 2 is padded. Use the mask.",
            _masked(lambda beta, mask: beta * (torch.arange(beta.shape[1]) != 2)),
        ),
    ),
    level="hard",
    explanation=r"""
A padded token's strength must be 0, so that {prf:ref}`its transition <def-householder-box>` is the identity; a direction of zeros does the same.
Masking it as a key is not enough, since it stands on the path between real tokens, and every token on the path acts.
Padding at the left stands before all real keys, and {prf:ref}`the tokens before a key have no effect <thm-path-local>`, so the same code would have been right.
Only PaTH's short convolution, which is not part of this exercise, reads up to two tokens before the text.
With RoPE, only positions are counted over a padded token, and these can be corrected.
""",
    repair=Repair(_broken_padded_scores, symptom_of_padding),
)


SHEET = Sheet(
    title="Reflections",
    conventions=r"""
$i$ is the query and $j \le i$ the key, counted from 0.
Token $t$ has the direction $w_t$ and the strength $\beta_t$; its transition $T_t = I - \beta_t w_t w_t^\top$ moves all keys before it, and the newest transition stands at the left.
""",
    example=r"""
from posedu.sympy.path import householder

w = sp.Matrix([3, 4]) / 5
for beta in sp.S((0, 1, 2)):
    moved = householder(w, beta) * sp.Matrix([1, 0])
    print("strength", beta, "gives", list(moved))
""",
    figure="reflections_explorable",
    exercises=(
        *(ONE_TRANSITION, TWO, STEP, AMOUNTS),
        *(WHOSE, GATE, SHRINKING, PADDING),
    ),
)
