"""Exercises on rotation and decay: scores as products over the path from key to query."""

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

# rotation-and-decay-1: a decay and a rotation as one number


def half_life_and_turns(gamma, theta):
    """Half-life t in tokens of z = γ e^(iθ), and the full turns that z makes in t.

    ``gamma`` is γ, between 0 and 1, and ``theta`` is θ in radians. Both results are
    SymPy expressions.
    """
    t = sp.log(2) / -sp.log(gamma)
    return t, t * theta / (2 * sp.pi)


def _half_life(t, turns=None):
    """Make a wrong answer to the exercise ``half_life_and_turns``.

    ``t`` is a function of γ, and ``turns`` one of t and θ; its default is the right
    number of turns.
    """
    turns = turns or (lambda t, theta: t * theta / (2 * sp.pi))
    return lambda gamma, theta: (t(gamma), turns(t(gamma), theta))


def _right_half_life(gamma):
    return half_life_and_turns(gamma, 0)[0]


def _turns(turns):
    return _half_life(_right_half_life, turns)


_HALF = sp.Rational(1, 2)

ONE_NUMBER = Exercise(
    name="rotation-and-decay-1",
    title="A decay and a rotation as one number",
    kind="by hand",
    minutes=6,
    lines=2,
    statement=r"""
In one plane of a head every token multiplies all earlier keys, written as complex numbers, by $z = \gamma e^{\mathrm{i}\theta}$ with $0 < \gamma < 1$.
After how many tokens $t$ has a key half of its length?
How many full turns has it made by then?
Return both, $(t, \text{turns})$, exactly; neither has to be a whole number.
""",
    hint=r"""
$|z^t| = \gamma^t$, and the argument of $z^t$ is $t\theta$.
""",
    cases=(
        (_HALF, sp.pi / 3),
        (sp.Rational(1, 4), sp.Integer(1)),
        (sp.Rational(31, 32), sp.Integer(1)),
        (2 ** sp.Rational(-1, 10), 2 * sp.pi / 7),
    ),
    solution=half_life_and_turns,
    misconceptions=(
        Misconception(
            "Time scale in place of the half-life",
            "After −1/log γ tokens the share 1/e is left. When is a half left?",
            _half_life(lambda gamma: -1 / sp.log(gamma)),
        ),
        Misconception(
            "Half-life by the lost share",
            "1/(1 − γ) is near −1/log γ for γ near 1, and neither is the half-life. "
            "Solve γ^t = ½.",
            _half_life(lambda gamma: 1 / (1 - gamma)),
        ),
        Misconception(
            "The same loss at every token",
            "A key does not lose the same length at every token, but the same share of "
            "what is left.",
            _half_life(lambda gamma: 1 / (2 * (1 - gamma))),
        ),
        Misconception(
            "Negative half-life",
            "Both log γ and log ½ are negative: their quotient is not.",
            _half_life(lambda gamma: sp.log(2) / sp.log(gamma)),
        ),
        Misconception(
            "Quotient of the logarithms upside down",
            "For γ near 1 the half-life is long. Solve t log γ = −log 2 for t.",
            _half_life(lambda gamma: -sp.log(gamma) / sp.log(2)),
        ),
        Misconception(
            "Half-life without the logarithm of 2",
            "Solve γ^t = ½ for t: γ appears in a logarithm, and so does ½.",
            _half_life(lambda gamma: -1 / (2 * sp.log(gamma))),
        ),
        Misconception(
            "Length of z² in place of z",
            "γ is the length itself, not its square: |z^t| = γ^t.",
            _half_life(lambda gamma: -sp.log(2) / (2 * sp.log(gamma))),
        ),
        Misconception(
            "Rounded up to whole tokens",
            "t is asked for exactly, and it need not be whole.",
            _half_life(lambda gamma: sp.ceiling(_right_half_life(gamma))),
        ),
        Misconception(
            "Angle in place of turns",
            "tθ is an angle in radians. How many radians has a full turn?",
            _turns(lambda t, theta: t * theta),
        ),
        Misconception(
            "Half turns counted",
            "A full turn has 2π radians. After π the key points the other way.",
            _turns(lambda t, theta: t * theta / sp.pi),
        ),
        Misconception(
            "Turns of one token",
            "θ/2π is the part of a turn that one token makes. There are t tokens.",
            _turns(lambda t, theta: theta / (2 * sp.pi)),
        ),
        Misconception(
            "Tokens of one turn",
            "2π/θ is the number of tokens of one turn. Divide t by it.",
            _turns(lambda t, theta: 2 * sp.pi / theta),
        ),
        Misconception(
            "Turns upside down",
            "A larger angle gives more turns: divide the whole angle tθ by 2π.",
            _turns(lambda t, theta: 2 * sp.pi / (t * theta)),
        ),
        Misconception(
            "Turns in degrees",
            "θ is in radians, so a full turn is 2π.",
            _turns(lambda t, theta: t * theta / 360),
        ),
        Misconception(
            "Decay applied to the angle, too",
            "γ shortens the key. The angle of a step stays θ, however short the key is.",
            lambda gamma, theta: (
                _right_half_life(gamma),
                theta / (4 * sp.pi * (1 - gamma)),
            ),
        ),
        Misconception(
            "Results in the other order",
            "The half-life comes first, then the turns.",
            lambda gamma, theta: half_life_and_turns(gamma, theta)[::-1],
        ),
    ),
    properties=(
        Property(
            "The results are exact, without floats",
            lambda answer, gamma, theta: (
                not sp.Tuple(*answer(gamma, theta)).has(sp.Float)
            ),
        ),
    ),
    explanation=r"""
$z^t = \gamma^t e^{\mathrm{i} t \theta}$: the length is $\gamma^t$ and the angle $t\theta$, so decay and rotation do not meet.
$\gamma^t = \frac12$ gives $t = \log 2 / (-\log \gamma)$, and $t\theta/2\pi$ are the turns.
With RetNet's first decay, $\gamma = 31/32$, and the fastest frequency, $\theta = 1$, a key makes about 3.5 turns while it loses half.
With two different gates in a plane, after rotating by sums of angles, {prf:ref}`the score depends on tokens before the key, too <thm-path-planes>`.
""",
    prediction=Prediction(
        "RetNet's first head has $\\gamma = 31/32$. After how many tokens has a key half of its length?",
        lambda: float(half_life_and_turns(sp.Rational(31, 32), 0)[0]),
        near=0.1,
    ),
)


# rotation-and-decay-2: a product over the path


def path_score(q, k, transitions, i, j):
    """Score of query i and key j ≤ i, moved by the tokens between them.

    ``q`` and ``k`` are [tokens, d]; ``transitions`` is [tokens, d, d], T_t of token t.
    """
    moved = k[j]
    for t in range(j + 1, i + 1):
        moved = transitions[t] @ moved
    return q[i] @ moved


def _product_of(tokens, step=lambda product, t: t @ product, by=np.matmul):
    """Make a wrong answer to the exercise ``path_score``.

    ``tokens`` is a function of i and j: the tokens whose transitions are multiplied,
    in order. ``step`` takes a product and the next matrix and returns their product,
    ``by`` applies the whole product to the key.
    """

    def answer(q, k, transitions, i, j):
        product = np.eye(q.shape[1])
        for t in tokens(i, j):
            product = step(product, transitions[t])
        return q[i] @ by(product, k[j])

    return answer


def _path(i, j):
    """Return the tokens of the path from key j to query i, in order."""
    return range(j + 1, i + 1)


def colleagues_score(q, k, transitions, i, j):
    """Score of query i and of key j ≤ i, moved on the way.

    ``q`` and ``k`` are [tokens, d], and
    ``transitions`` is [tokens, d, d].
    """
    product = np.eye(q.shape[1])
    for t in range(j + 1, i + 1):
        product = product @ transitions[t]
    return q[i] @ product @ k[j]


def _path_case(tokens, d, i, j):
    return *draw(2, tokens, d), draw(tokens, d, d), i, j


_ROWS = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
_SHEARS = np.array([[[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [2.0, 1.0]]])

PATH_SCORE = Exercise(
    name="rotation-and-decay-2",
    title="A product over the path",
    kind="NumPy",
    minutes=8,
    lines=4,
    statement=r"""
Each token $t$ has a transition, a matrix $T_t$, `transitions[t]`.
It moves all keys *before* the token; then the token's own key is added.
Return the score $s_{ij} = q_i^\top T_i \cdots k_j$ of query $i$ and the moved key $j \le i$.
Nothing is divided by $\sqrt d$.
Which transition acts first, and what is $s_{ii}$?
""",
    hint=r"""
Follow the key: which is the first token after $j$?
""",
    cases=(
        (_ROWS[:2], _ROWS[:2], _SHEARS, 1, 0),
        _path_case(4, 2, 2, 2),
        _path_case(4, 2, 3, 0),
        _path_case(5, 3, 4, 1),
        _path_case(5, 3, 3, 0),
        _path_case(6, 4, 3, 1),
    ),
    solution=path_score,
    misconceptions=(
        Misconception(
            "Matrices in the wrong order",
            "The first token after the key acts first, so its matrix stands next to the "
            "key, and the query's own matrix at the left.",
            colleagues_score,
        ),
        Misconception(
            "Key's own transition in the product",
            "T_j moves the keys before j. When it acts, key j is not there yet.",
            _product_of(lambda i, j: range(j, i + 1)),
        ),
        Misconception(
            "Missing query's own transition",
            "Token i moves all earlier keys before its query looks at them.",
            _product_of(lambda i, j: range(j + 1, i)),
        ),
        Misconception(
            "Transitions one token too early",
            "The number of transitions is right, but each step belongs to its later "
            "token: T_j acts before key j exists.",
            _product_of(lambda i, j: range(j, i)),
        ),
        Misconception(
            "All transitions up to the query",
            "What the tokens up to j have done was done to older keys.",
            _product_of(lambda i, j: range(i + 1)),
        ),
        Misconception(
            "All transitions of the text",
            "Tokens after the query have not been read when it looks.",
            lambda q, k, transitions, i, j: _product_of(
                lambda i, j: range(j + 1, len(q))
            )(q, k, transitions, i, j),
        ),
        Misconception(
            "Transposed transitions",
            "T_t itself acts on the keys, as columns: `transitions[t] @ moved`.",
            _product_of(_path, step=lambda product, t: t.T @ product),
        ),
        Misconception(
            "Transposed product",
            "Your product acts on the key from the right, k @ product: that is the "
            "transposed matrix.",
            _product_of(_path, by=lambda product, k: k @ product),
        ),
        Misconception(
            "Entries multiplied in place of matrices",
            "`*` multiplies entry by entry. Matrices are multiplied with `@`.",
            _product_of(_path, step=lambda product, t: t * product),
        ),
        Misconception(
            "Transitions added",
            "Each token moves what the one before it has moved: a product, not a sum.",
            _product_of(_path, step=lambda product, t: t + product),
        ),
        Misconception(
            "Only the query's transition",
            "Every token after the key moves it, not only the last one.",
            _product_of(lambda i, j: range(max(j + 1, i), i + 1)),
        ),
        Misconception(
            "Only the first transition",
            "Every token from j + 1 to i moves the key.",
            _product_of(lambda i, j: range(j + 1, min(j + 2, i + 1))),
        ),
        Misconception(
            "One transition for all tokens",
            "Each token has a transition of its own, `transitions[t]`.",
            lambda q, k, transitions, i, j: (
                q[i] @ np.linalg.matrix_power(transitions[i], i - j) @ k[j]
            ),
        ),
        Misconception(
            "No transitions",
            "This is the score without an encoding. Each token between moves the key.",
            _product_of(lambda i, j: ()),
        ),
        Misconception(
            "Divided by √d",
            "Here nothing is divided by √d.",
            lambda q, k, transitions, i, j: (
                path_score(q, k, transitions, i, j) / np.sqrt(q.shape[1])
            ),
        ),
        Misconception(
            "A query without its own key",
            "For i = j the product is empty: it is the identity, not 0.",
            lambda q, k, transitions, i, j: (
                path_score(q, k, transitions, i, j) * (i > j)
            ),
        ),
    ),
    properties=(
        Property(
            "With T = I everywhere the score is q · k",
            lambda answer, q, k, transitions, i, j: np.isclose(
                answer(q, k, 0 * transitions + np.eye(q.shape[1]), i, j), q[i] @ k[j]
            ),
        ),
    ),
    explanation=r"""
The first token after the key acts first, so $s_{ij} = q_i^\top T_i T_{i-1} \cdots T_{j+1} k_j$ with the latest matrix at the left.
For $i = j$ no token lies between, the product is empty, and $s_{ii} = q_i^\top k_i$.
The loop multiplies a vector by a matrix $i - j$ times, which takes $d^2$ operations each; multiplying the matrices first would take $d^3$.
By {prf:ref}`the theorem on the path <thm-path-local>` no token up to $j$ has a say in it, but through $q_i$ and $k_j$ themselves.
""",
)


# rotation-and-decay-3: the order of the product


def input_with_wrong_order():
    """Return a smallest input on which `colleagues_score` is wrong.

    The answer is (q, k, transitions, i, j).
    """
    q = k = np.array([[1.0, 0.0]] * 3)
    right, up = np.diag([1.0, 0.0]), np.ones((2, 2))
    up[1, 1] = 0
    return q, k, np.stack((right, up, np.array([[0.0, 1.0], [0.0, 0.0]]))), 2, 0


def _refused_path(q, k, transitions, i, j):
    if type(i) is not int or type(j) is not int or not 0 <= j <= i < len(q):
        return "i and j are integers with 0 ≤ j ≤ i, and i is below the tokens"
    n, d = q.shape
    if k.shape != (n, d) or transitions.shape != (n, d, d):
        return "q and k are [tokens, d], transitions are [tokens, d, d]"
    if d > 8 or n > 99:
        return "there are at most 99 tokens of 8 features"
    arrays = (q, k, transitions)
    if any(a.dtype != float or not np.abs(a).max() <= 10 for a in arrays):
        return "all entries are floats between −10 and 10"
    return ""


def _turned(angles):
    c, s = np.cos(angles), np.sin(angles)
    return np.moveaxis(np.array([[c, -s], [s, c]]), -1, 0)


ORDER = Exercise(
    name="rotation-and-decay-3",
    title="Find the input: the order of the product",
    kind="find the input",
    minutes=10,
    lines=4,
    statement=r"""
`colleagues_score` should do what exercise rotation-and-decay-2 asks for.
Her tests have five tokens each: the same random matrix at every token; rotations by different angles; different gates for every token and channel.
All pass.
Find an input on which her function is wrong; the smallest has the fewest tokens.
Entries are between −10 and 10, and $d$ is at most 8.
Why did her second and third test not find the mistake?
""",
    hint=r"""
Her product is in the wrong order.
How many matrices does a product need to have an order?
""",
    cases=((),),
    solution=input_with_wrong_order,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_score,
        right=path_score,
        tested=(
            (*draw(2, 5, 2), np.stack([draw(2, 2) / 2] * 5), 4, 0),
            (*draw(2, 5, 2), _turned(draw(5)), 4, 1),
            (*draw(2, 5, 2), np.exp(draw(5, 2))[..., None] * np.eye(2), 3, 0),
        ),
        refusal=_refused_path,
        size=lambda q, k, transitions, i, j: len(q),
        size_of="number of tokens",
    ),
    explanation=r"""
Rotations of one plane commute, and so do diagonal matrices: for them {prf:ref}`the order of the tokens between is invisible <thm-path-blind>`, so every order of the product is right.
Powers of one matrix commute as well.
A wrong order needs two different transitions that do not commute, $T_2 T_1 \ne T_1 T_2$, so $i - j \ge 2$ and there are at least three tokens.
In one dimension all numbers commute, so $d \ge 2$.
""",
)


# rotation-and-decay-4: the tokens that a score reads


def _rotated(vectors, angles):
    """Rotate pairs, rows of ``vectors``, counter-clockwise by an angle each."""
    c, s = np.cos(angles), np.sin(angles)
    a, b = vectors.T
    return np.stack((a * c - b * s, a * s + b * c), axis=1)


def _by_phases(phases):
    """Return a function of x: scores of fixed vectors rotated by ``phases(x)``."""

    def scores(x):
        q, k = draw(2, len(x), 2)
        return _rotated(q, phases(x)) @ _rotated(k, phases(x)).T

    return scores


def selective_scores(x):
    """Scores of queries and keys rotated by sums of their own and earlier steps."""
    return _by_phases(lambda x: np.cumsum(x @ [0.3, 0.2]))(x)


def exclusive_scores(x):
    """Scores of queries and keys rotated by sums of earlier tokens' steps."""
    return _by_phases(lambda x: np.cumsum(x @ [0.3, 0.2]) - x @ [0.3, 0.2])(x)


def end_scores(x):
    """Scores of queries and keys rotated by their own angles."""
    return _by_phases(lambda x: x @ [0.3, -0.3])(x)


def convolved_scores(x):
    """Scores of rotations whose steps are sums over a token and the one before it."""

    def phases(x):
        steps = 0.3 * x[:, 0]
        return np.cumsum(steps + np.append(0.0, steps[:-1]))

    return _by_phases(phases)(x)


def gated_scores(x):
    """Scores with a gate for each channel that reads the second entry of x."""
    q, k = draw(2, len(x), 2)
    sums = np.cumsum(-np.logaddexp(0, np.outer(x[:, 1], [1.0, -1.0])), axis=0)
    decays = np.exp(sums[:, None] - sums) * np.tri(len(x))[..., None]
    return np.einsum("in,jn,ijn->ij", q, k, decays)


def unequal_scores(x):
    """Scores of rotated queries and keys with two gates in the plane of rotation."""
    angles = np.cumsum(x @ [0.3, -0.3])
    q, k = (_rotated(v, angles) for v in draw(2, len(x), 2))
    sums = np.outer(np.arange(len(x)), [-0.1, -0.5])
    decays = np.exp(sums[:, None] - sums) * np.tri(len(x))[..., None]
    return np.einsum("in,jn,ijn->ij", q, k, decays)


ENCODINGS = {
    "selective": selective_scores,
    "exclusive": exclusive_scores,
    "ends": end_scores,
    "convolved": convolved_scores,
    "gated": gated_scores,
    "two gates": unequal_scores,
}


def tokens_read(encoding, x, i, j):
    """Array of booleans [tokens], True where x_t changes the score of i and j.

    ``encoding`` is a key of ENCODINGS, whose functions return the scores [tokens,
    tokens] for x, [tokens, channels]. Queries and keys do not depend on x.
    """
    scores = ENCODINGS[encoding]
    read = np.zeros(len(x), dtype=bool)
    for t, c in np.ndindex(x.shape):
        changed = x.copy()
        changed[t, c] += 1.0
        read[t] |= abs(scores(changed)[i, j] - scores(x)[i, j]) > 1e-9
    return read


def _read_by(change, read=lambda gap: abs(gap) > 1e-9, tokens=None):
    """Make a wrong answer to the exercise ``tokens_read``.

    ``change`` takes x and a token and returns the changed x, ``read`` takes the change
    of a score, and ``tokens`` takes i and j and returns those that are tried.
    """

    def answer(encoding, x, i, j):
        scores = ENCODINGS[encoding]
        tried = range(len(x)) if tokens is None else tokens(i, j)
        before = scores(x)[i, j]
        return _marked(
            x, [t for t in tried if read(scores(change(x, t))[i, j] - before)]
        )

    return answer


def _marked(x, tokens):
    return np.isin(np.arange(len(x)), list(tokens))


def _moved(amount):
    def change(x, t):
        return x + np.outer(np.arange(len(x)) == t, amount)

    return change


def _read_between(first, last):
    return lambda encoding, x, i, j: _marked(x, range(j + first, i + last))


_EITHER = [1.0, 0.3]  # an amount that no function of the cases cancels

READ = Exercise(
    name="rotation-and-decay-4",
    title="Which tokens does a score read?",
    kind="experiment",
    minutes=12,
    lines=6,
    statement=r"""
`ENCODINGS` has six functions, which return the scores `[tokens, tokens]` of one head for `x`, `[tokens, channels]`; queries and keys are fixed, and only the transitions read `x`.
Mark the tokens $t$ that the score of query `i` and key `j` reads: those for which another `x[t]` gives another score.
Add 1 to one number of `x` at a time; scores that differ by at most 1e-9 are equal.
Return an array of booleans, `[tokens]`.
Which of the six read the tokens $j + 1, \dots, i$ alone?
""",
    hint=r"""
Change a copy of `x`, not `x` itself.
A change of all numbers of a token at once may cancel.
""",
    cases=(
        ("selective", draw(3, 2), 2, 0),
        ("selective", draw(5, 2), 3, 1),
        ("selective", draw(4, 2), 2, 2),
        ("exclusive", draw(5, 2), 3, 1),
        ("ends", draw(5, 2), 4, 1),
        ("convolved", draw(5, 2), 4, 2),
        ("gated", draw(5, 2), 4, 1),
        ("two gates", draw(5, 2), 3, 2),
    ),
    solution=tokens_read,
    misconceptions=(
        Misconception(
            "Tokens of the path assumed",
            "That is what a product of transitions reads. Not all of these functions "
            "are one: change x and look.",
            _read_between(1, 1),
        ),
        Misconception(
            "All tokens from key to query assumed",
            "Change x and look: not all functions read both ends' own tokens.",
            _read_between(0, 1),
        ),
        Misconception(
            "Key's token assumed in place of the query's",
            "Change x and look: most functions read the query's own token.",
            _read_between(0, 0),
        ),
        Misconception(
            "All tokens up to the query assumed",
            "Change x and look.",
            lambda encoding, x, i, j: _marked(x, range(i + 1)),
        ),
        Misconception(
            "First channel alone changed",
            "A function may read another entry of x[t].",
            _read_by(_moved([1.0, 0.0])),
        ),
        Misconception(
            "Last channel alone changed",
            "A function may read another entry of x[t].",
            _read_by(_moved([0.0, 1.0])),
        ),
        Misconception(
            "All channels changed by the same amount",
            "A function that reads the difference of two channels sees nothing of it.",
            _read_by(_moved([1.0, 1.0])),
        ),
        Misconception(
            "Only tokens after the key tried",
            "Some scores read tokens up to the key as well.",
            _read_by(_moved(_EITHER), tokens=lambda i, j: range(j + 1, i + 1)),
        ),
        Misconception(
            "Only tokens from key to query tried",
            "Some scores read tokens before the key as well.",
            _read_by(_moved(_EITHER), tokens=lambda i, j: range(j, i + 1)),
        ),
        Misconception(
            "Only tokens strictly between tried",
            "Most scores read the query's own token, and some the key's.",
            _read_by(_moved(_EITHER), tokens=lambda i, j: range(j + 1, i)),
        ),
        Misconception(
            "Only tokens before the query tried",
            "Most scores read the query's own token.",
            _read_by(_moved(_EITHER), tokens=lambda i, j: range(i)),
        ),
        Misconception(
            "Signed change",
            "A score that falls has changed as well.",
            _read_by(_moved(_EITHER), read=lambda gap: gap > 1e-9),
        ),
        Misconception(
            "Signed change, reversed",
            "A score that rises has changed as well.",
            _read_by(_moved(_EITHER), read=lambda gap: gap < -1e-9),
        ),
        Misconception(
            "Large changes alone",
            "A change above 1e-9 counts.",
            _read_by(_moved(_EITHER), read=lambda gap: abs(gap) > 0.1),
        ),
        Misconception(
            "Rounding taken for a change",
            "Differences up to 1e-9 are rounding.",
            _read_by(_moved(_EITHER), read=lambda gap: gap != 0),
        ),
        Misconception(
            "Tokens that are not read",
            "The tokens are asked for that *do* change the score.",
            _read_by(_moved(_EITHER), read=lambda gap: abs(gap) <= 1e-9),
        ),
        Misconception(
            "Changes kept for the next tokens",
            "The token before the one that you try is still changed. Take a copy of x "
            "for each token.",
            lambda encoding, x, i, j: _read_by(
                lambda x, t: x + np.outer(np.arange(len(x)) <= t, _EITHER)
            )(encoding, x, i, j),
        ),
        Misconception(
            "Any score compared",
            "The score of query i and key j is asked for, not any score.",
            lambda encoding, x, i, j: np.array(
                [
                    np.abs(
                        ENCODINGS[encoding](_moved(_EITHER)(x, t))
                        - ENCODINGS[encoding](x)
                    ).max()
                    > 1e-9
                    for t in range(len(x))
                ]
            ),
        ),
        Misconception(
            "Score of the key i and the query j",
            "Row i of the scores is query i: `scores(x)[i, j]`.",
            lambda encoding, x, i, j: np.array(
                [
                    abs(
                        (
                            ENCODINGS[encoding](_moved(_EITHER)(x, t))
                            - ENCODINGS[encoding](x)
                        )[j, i]
                    )
                    > 1e-9
                    for t in range(len(x))
                ]
            ),
        ),
    ),
    explanation=r"""
`selective` and `gated` read $j + 1, \dots, i$ alone: they are products over the path, and {prf:ref}`the theorem on the path <thm-path-local>` says so for every choice of transitions.
`exclusive`, as GRAPE's, reads $j, \dots, i - 1$: the same number of tokens, each one place earlier.
`convolved` reads $j, \dots, i$, since a short convolution lets the first step after the key read the key's token.
`ends` reads key and query only: {prf:ref}`its product telescopes <thm-path-ends>`.
`two gates` reads every token up to the query, since with two gates in a plane {prf:ref}`the score depends on the sum of all angles up to the key <thm-path-planes>`.
""",
)


# rotation-and-decay-5: two gates in one plane


def commutator(phi, a, b):
    """The matrix R D − D R, a 2×2 SymPy matrix.

    R rotates by ``phi`` counter-clockwise, D is diagonal with the gates ``a`` and
    ``b``.
    """
    rotation = sp.Matrix([[sp.cos(phi), -sp.sin(phi)], [sp.sin(phi), sp.cos(phi)]])
    gates = sp.diag(a, b)
    return rotation * gates - gates * rotation


_PHI = sp.Symbol("phi", real=True)
_A, _B = sp.symbols("a b", positive=True)


def _gap(entries):
    return lambda phi, a, b: sp.Matrix(2, 2, entries(sp.cos(phi), sp.sin(phi), a, b))


TWO_GATES = Exercise(
    name="rotation-and-decay-5",
    title="Two gates in one plane",
    kind="SymPy",
    minutes=8,
    lines=3,
    statement=r"""
A token rotates a plane by $\varphi$, $R = \begin{pmatrix} \cos\varphi & -\sin\varphi \\ \sin\varphi & \cos\varphi \end{pmatrix}$, and multiplies its two coordinates by the gates $a$ and $b$, $D = \operatorname{diag}(a, b)$.
Return $R D - D R$ as a 2×2 SymPy matrix.
For which gates and which angles do rotation and decay commute?
""",
    hint=r"""
Multiply the matrices by hand: which entries cancel?
""",
    cases=(
        (sp.pi / 2, sp.Integer(1), sp.Integer(0)),
        (sp.pi / 6, _HALF, sp.Rational(1, 3)),
        (sp.pi, _HALF, sp.Rational(1, 3)),
        (_PHI, _A, _B),
    ),
    solution=commutator,
    misconceptions=(
        Misconception(
            "Always commuting",
            "Try φ = π/2 and the gates 1 and 0: where does (1, 0) go, either way?",
            lambda phi, a, b: sp.zeros(2, 2),
        ),
        Misconception(
            "Products in the other order, or gates exchanged",
            "Your answer is D R − R D. In R D the matrix D acts first, and a is the "
            "gate of the first coordinate.",
            lambda phi, a, b: -commutator(phi, a, b),
        ),
        Misconception(
            "Product alone",
            "R D is one half of the answer: subtract D R.",
            _gap(lambda c, s, a, b: [c * a, -s * b, s * a, c * b]),
        ),
        Misconception(
            "Other product alone",
            "D R is one half of the answer: subtract it from R D.",
            _gap(lambda c, s, a, b: [c * a, -s * a, s * b, c * b]),
        ),
        Misconception(
            "Sum of the two products",
            "The difference is asked for.",
            _gap(lambda c, s, a, b: [2 * c * a, -s * (a + b), s * (a + b), 2 * c * b]),
        ),
        Misconception(
            "Antisymmetric result",
            "Both entries off the diagonal have the same sign: one comes from −sin φ "
            "times −(a − b).",
            _gap(lambda c, s, a, b: [0, -s * (a - b), s * (a - b), 0]),
        ),
        Misconception(
            "Entries multiplied",
            "A matrix product is not the product of the entries; those commute always.",
            _gap(lambda c, s, a, b: [c * (a - b), 0, 0, c * (b - a)]),
        ),
        Misconception(
            "Cosine in place of the sine",
            "The diagonal entries cancel, so no cosine is left.",
            _gap(lambda c, s, a, b: [0, c * (a - b), c * (a - b), 0]),
        ),
        Misconception(
            "Sum of the gates",
            "Equal gates commute with every rotation, so their difference must appear.",
            _gap(lambda c, s, a, b: [0, s * (a + b), s * (a + b), 0]),
        ),
        Misconception(
            "Conjugated gates",
            "R D Rᵀ − D is another matrix: multiply it by R from the right.",
            lambda phi, a, b: commutator(phi, a, b) * _rotation(-phi),
        ),
        Misconception(
            "Gates added, not multiplied",
            "Gates act as a factor: e^{log g} multiplies.",
            _gap(lambda c, s, a, b: [a * c - a, -s, s, b * c - b]),
        ),
    ),
    properties=(
        Property(
            "Equal gates commute with every rotation",
            lambda answer, phi, a, b: sp.simplify(answer(phi, a, a)) == sp.zeros(2, 2),
        ),
    ),
    explanation=r"""
$RD - DR = (a - b) \sin\varphi \begin{pmatrix} 0 & 1 \\ 1 & 0 \end{pmatrix}$: the diagonal entries cancel, since a diagonal entry of $R$ meets the same gate from both sides.
So they commute exactly if $a = b$, or if $\varphi$ is a multiple of $\pi$, where $R = \pm I$.
With one gate per plane a transition is one complex number; with two different gates, after rotating queries and keys by sums of angles, {prf:ref}`the score depends on tokens before the key <thm-path-planes>`.
""",
)


# rotation-and-decay-6: a text's own rotations, without a loop


def complex_scores(q, k, steps, log_gates):
    """Scores [tokens, tokens] of rotation and decay; 0 for keys after the query.

    ``q`` and ``k`` are complex, [tokens, planes], one number for each plane. Token t
    turns each plane of all earlier keys clockwise by ``steps``, [tokens, planes], and
    multiplies it by the gate whose logarithm is in ``log_gates``, [tokens, planes].
    """
    sums = np.cumsum(log_gates - 1j * steps, axis=0)
    exponents = sums[:, None] - sums
    exponents[~np.tri(len(q), dtype=bool)] = -np.inf
    return np.einsum("ip,jp,ijp->ij", q.conj(), k, np.exp(exponents)).real


def _with_sums(sums, masked=True):
    """Make a wrong answer to the exercise ``complex_scores``.

    ``sums`` takes steps and log gates and returns the complex exponents' sums, of
    queries and of keys.
    """

    @np.errstate(all="ignore")
    def answer(q, k, steps, log_gates):
        of_queries, of_keys = sums(steps, log_gates)
        exponents = of_queries[:, None] - of_keys
        if masked:
            exponents[~np.tri(len(q), dtype=bool)] = -np.inf
        return np.einsum("ip,jp,ijp->ij", q.conj(), k, np.exp(exponents)).real

    return answer


def _same_sums(steps):
    return _with_sums(lambda angles, gates: [np.cumsum(steps(angles, gates), 0)] * 2)


@np.errstate(all="ignore")
def _split(q, k, steps, log_gates):
    sums = np.cumsum(log_gates - 1j * steps, axis=0)
    left, right = np.conj(q) * np.exp(sums), k * np.exp(-sums)
    return np.tril((left @ right.T).real)


@np.errstate(all="ignore")
def _masked_after(q, k, steps, log_gates):
    sums = np.cumsum(log_gates - 1j * steps, axis=0)
    factors = np.exp(sums[:, None] - sums)
    return (np.einsum("ip,jp,ijp->ij", q.conj(), k, factors) * np.tri(len(q))).real


def _one_gate(q, k, steps, log_gates):
    return complex_scores(q, k, steps, 0 * log_gates + log_gates.mean(1)[:, None])


def _complex_case(tokens, planes, size=1.0):
    a, b, c, d, e, f = draw(6, tokens, planes)
    return a + 1j * b, c + 1j * d, e, -size * np.logaddexp(0, f)


COMPLEX = Exercise(
    name="rotation-and-decay-6",
    title="Rotation and decay without a loop",
    kind="NumPy",
    minutes=12,
    lines=4,
    statement=r"""
A plane's two coordinates are one complex number, and a token's transition is one, too: `exp(log_gate - 1j * step)`.
The score of query $i$ and key $j \le i$ is the real part of $\sum_p \bar q_{ip}\, k_{jp} \prod_{t=j+1}^{i} e^{\log g_{tp} - \mathrm{i} a_{tp}}$, where $a$ are the steps.
Return all scores, `[tokens, tokens]`; no loop over pairs of tokens is needed.
The sums of the log gates reach −1000 in the check, so $e^{1000}$ must not appear.
""",
    hint=r"""
A product of exponentials is the exponential of a sum, and a sum over $j + 1, \dots, i$ is a difference of two cumulative sums.
Mask the exponents, not the scores.
""",
    cases=(
        (
            np.ones((2, 1), complex),
            np.ones((2, 1), complex),
            np.array([[0.0], [np.pi / 3]]),
            np.log(np.array([[0.25], [0.5]])),
        ),
        _complex_case(3, 1),
        _complex_case(4, 2),
        _complex_case(6, 3),
        _complex_case(20, 2, size=70.0),
    ),
    solution=complex_scores,
    misconceptions=(
        Misconception(
            "Exponentials of the sums themselves",
            "e^(−P) overflows where P is far below 0, and 0 · ∞ is NaN. Take the "
            "difference of the sums first.",
            _split,
        ),
        Misconception(
            "Scores masked, not exponents",
            "For later keys the exponent is large, its exponential infinite, and ∞ · 0 "
            "is NaN. Set these exponents to −∞.",
            _masked_after,
        ),
        Misconception(
            "Key's own step and gate in the product",
            "The product begins at j + 1: token j has moved older keys only.",
            _with_sums(
                lambda a, g: (
                    np.cumsum(g - 1j * a, 0),
                    np.cumsum(g - 1j * a, 0) - (g - 1j * a),
                )
            ),
        ),
        Misconception(
            "Each step one token too early",
            "Your sums are over j … i − 1. The product is over j + 1 … i.",
            _same_sums(
                lambda a, g: np.concatenate((0 * a[:1] + 0j, (g - 1j * a)[:-1]))
            ),
        ),
        Misconception(
            "Missing query's own step and gate",
            "The product ends at i, the query's own token; the query's own key is not "
            "moved at all.",
            lambda q, k, steps, log_gates: _without_last(q, k, steps, log_gates),
        ),
        Misconception(
            "Rotation counter-clockwise",
            "The transition is exp(log_gate − 1j · step): mind its sign, or the "
            "conjugate.",
            _same_sums(lambda a, g: g + 1j * a),
        ),
        Misconception(
            "Missing conjugate of the query",
            "The inner product of two planes is Re(q̄ k). Re(q k) turns with both.",
            lambda q, k, steps, log_gates: complex_scores(
                q.conj(), k, steps, log_gates
            ),
        ),
        Misconception(
            "Steps without a sum",
            "Every token between adds its step and its gate: a cumulative sum is "
            "missing.",
            _with_sums(lambda a, g: [g - 1j * a] * 2),
        ),
        Misconception(
            "No decay",
            "The gates are missing.",
            _same_sums(lambda a, g: -1j * a),
        ),
        Misconception(
            "No rotation",
            "The steps are missing.",
            _same_sums(lambda a, g: g + 0j),
        ),
        Misconception(
            "Decay reversed",
            "Keys grow with every token in your answer. Which of the two sums is lower?",
            _same_sums(lambda a, g: -g - 1j * a),
        ),
        Misconception(
            "Gates in place of their logarithms",
            "Gates multiply, so their logarithms add up.",
            _same_sums(lambda a, g: -np.exp(g) - 1j * a),
        ),
        Misconception(
            "Sums along the planes",
            "Each plane has sums of its own, over the tokens: axis 0.",
            _with_sums(lambda a, g: [np.cumsum(g - 1j * a, 1)] * 2),
        ),
        Misconception(
            "One gate for all planes",
            "Each plane has its own gates.",
            _one_gate,
        ),
        Misconception(
            "Absolute values in place of real parts",
            "A score can be negative: it is the real part of the sum.",
            lambda q, k, steps, log_gates: np.abs(
                complex_scores(q, k, steps, log_gates)
            ),
        ),
        Misconception(
            "Later keys not masked",
            "Scores with keys after the query are 0.",
            _with_sums(lambda a, g: [np.cumsum(g - 1j * a, 0)] * 2, masked=False),
        ),
    ),
    properties=(
        Property(
            "On the diagonal the score is Re(q̄ · k)",
            lambda answer, q, k, steps, log_gates: np.allclose(
                np.diag(answer(q, k, steps, log_gates)), (q.conj() * k).real.sum(1)
            ),
        ),
        Property(
            "The first token's step and gate have no effect",
            lambda answer, q, k, steps, log_gates: np.allclose(
                answer(q, k, steps, log_gates),
                answer(
                    q,
                    k,
                    steps + 2.0 * (np.arange(len(q)) == 0)[:, None],
                    log_gates - 1.0 * (np.arange(len(q)) == 0)[:, None],
                ),
            ),
        ),
    ),
    level="optional",
    explanation=r"""
Numbers commute, so the product is $e^{L_i - L_j}$ with the cumulative sums $L$ of $\log g - \mathrm{i} a$: {prf:ref}`the product telescopes <thm-path-telescope>`.
For $j \le i$ the real part of $L_i - L_j$ is at most 0, and no exponential overflows; for later keys it is positive, so these exponents are masked before the exponential.
Splitting into $e^{L_i}$ and $e^{-L_j}$ would be a single matrix product, but $e^{-L_j}$ overflows; exercise rotation-and-decay-8 repairs that.
""",
)


def _rotation(phi):
    return sp.Matrix([[sp.cos(phi), -sp.sin(phi)], [sp.sin(phi), sp.cos(phi)]])


def _without_last(q, k, steps, log_gates):
    own = log_gates - 1j * steps
    sums = np.cumsum(own, axis=0)
    exponents = sums[:, None] - own[:, None] - sums
    exponents[np.eye(len(q), dtype=bool)] = 0
    exponents[~np.tri(len(q), dtype=bool)] = -np.inf
    return np.einsum("ip,jp,ijp->ij", q.conj(), k, np.exp(exponents)).real


# rotation-and-decay-7: one decoding step


def decoding_step(q, k, step, keys, angle):
    """Scores of a new token with all keys, and what is cached for the next token.

    ``q``, ``k``, [d], and ``step``, [d/2], the angles that it adds, are the new
    token's; ``keys``, [tokens, d], are the earlier keys, each rotated by the sum of the
    steps up to its own, and ``angle``, [d/2], is the sum of all earlier steps. Features
    p and p + d/2 are a pair. Returns (scores, keys, angle): [tokens + 1],
    [tokens + 1, d], [d/2].
    """
    angle = angle + step
    cos, sin = angle.cos(), angle.sin()
    a, b = torch.stack((q, k)).chunk(2, dim=1)
    rotated = torch.cat((a * cos - b * sin, a * sin + b * cos), dim=1)
    keys = torch.cat((keys, rotated[1:]))
    return keys @ rotated[0], keys, angle


def _turn(x, angle):
    a, b = x.chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def _turn_neighbors(x, angle):
    a, b = x[..., ::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    pairs = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1)
    return pairs.flatten(-2)


def _decoded(
    of_query=lambda angle, step: angle + step,
    of_key=lambda angle, step: angle + step,
    of_cached=lambda angle, step: 0 * step,
    kept=lambda angle, step: angle + step,
    turn=_turn,
):
    """Make a wrong answer to the exercise ``decoding_step``.

    The four functions of the earlier angle and the new step give the angles by which
    the query, the new key and the cached keys are rotated, and the angle to keep.
    """

    def answer(q, k, step, keys, angle):
        query = turn(q, of_query(angle, step))
        key = turn(k, of_key(angle, step))
        keys = torch.cat((turn(keys, of_cached(angle, step)), key[None]))
        return keys @ query, keys, kept(angle, step)

    return answer


def _decoding_case(tokens, d):
    numbers = torch.tensor(draw(tokens + 2, d))
    step, angle = torch.tensor(draw(2, d // 2, seed=1)).abs()
    return *numbers[:2], step, numbers[2:], angle


STEP = Exercise(
    name="rotation-and-decay-7",
    title="One decoding step",
    kind="PyTorch",
    minutes=12,
    lines=6,
    statement=r"""
Decoding with rotations that read the text: token $t$ adds the angles $a_t$, and query and key of a token are rotated counter-clockwise by the sum of the steps up to its own.
The cache holds the rotated keys and one vector of angles.
Given `q`, `k` and `step` of a new token, return the scores with all keys (the new one last, nothing divided by $\sqrt d$), the new cached keys and the new angles.
Do the cached keys change when a token arrives?
""",
    hint=r"""
The token's own step belongs to its sum.
""",
    cases=(
        (
            torch.tensor([1.0, 0.0], dtype=torch.float64),
            torch.tensor([0.0, 2.0], dtype=torch.float64),
            torch.tensor([np.pi / 6], dtype=torch.float64),
            torch.tensor([[1.0, 0.0]], dtype=torch.float64),
            torch.tensor([np.pi / 3], dtype=torch.float64),
        ),
        _decoding_case(2, 4),
        _decoding_case(5, 6),
        _decoding_case(0, 4),
    ),
    solution=decoding_step,
    misconceptions=(
        Misconception(
            "The new step not yet added",
            "The step belongs to the new token: its query and key are rotated by the "
            "sum with its own step. All your scores but the last would be those of one "
            "token earlier.",
            _decoded(
                of_query=lambda angle, step: angle, of_key=lambda angle, step: angle
            ),
        ),
        Misconception(
            "Query rotated without its own step",
            "Token i moves all earlier keys before its query looks at them.",
            _decoded(of_query=lambda angle, step: angle),
        ),
        Misconception(
            "New key rotated without its own step",
            "With its own query the new key must give q · k: both have the same angle.",
            _decoded(of_key=lambda angle, step: angle),
        ),
        Misconception(
            "Rotated by the step alone",
            "The angles of a token are the sum of all steps up to its own.",
            _decoded(
                of_query=lambda angle, step: step, of_key=lambda angle, step: step
            ),
        ),
        Misconception(
            "Cached keys rotated, too",
            "A key keeps the angle of its own token. Only the difference of two angles "
            "enters a score.",
            _decoded(of_cached=lambda angle, step: step),
        ),
        Misconception(
            "Cached keys rotated back, too",
            "A key keeps the angle of its own token, since the query is rotated already.",
            _decoded(of_cached=lambda angle, step: -step),
        ),
        Misconception(
            "Clockwise rotation",
            "The keys in the cache are rotated counter-clockwise: (1, 0) goes to "
            "(cos, sin).",
            _decoded(
                of_query=lambda angle, step: -angle - step,
                of_key=lambda angle, step: -angle - step,
            ),
        ),
        Misconception(
            "Sum of angles not updated",
            "The next token needs the sum with this token's step.",
            _decoded(kept=lambda angle, step: angle),
        ),
        Misconception(
            "Step kept in place of the sum",
            "The next token needs the sum of all steps.",
            _decoded(kept=lambda angle, step: step),
        ),
        Misconception(
            "New key not rotated",
            "The cache holds rotated keys.",
            _decoded(of_key=lambda angle, step: 0 * step),
        ),
        Misconception(
            "Query not rotated",
            "The keys are rotated, so the query must be as well.",
            _decoded(of_query=lambda angle, step: 0 * step),
        ),
        Misconception(
            "Neighbors as pairs",
            "Features p and p + d/2 are a pair.",
            _decoded(turn=_turn_neighbors),
        ),
        Misconception(
            "Step added twice",
            "The sum up to the new token has its step once.",
            _decoded(
                of_query=lambda angle, step: angle + 2 * step,
                of_key=lambda angle, step: angle + 2 * step,
                kept=lambda angle, step: angle + 2 * step,
            ),
        ),
        Misconception(
            "New key at the front",
            "The new key comes last.",
            lambda q, k, step, keys, angle: (
                *(t.roll(1, 0) for t in decoding_step(q, k, step, keys, angle)[:2]),
                angle + step,
            ),
        ),
        Misconception(
            "Divided by √d",
            "Here nothing is divided by √d.",
            lambda q, k, step, keys, angle: (
                decoding_step(q, k, step, keys, angle)[0] / len(q) ** 0.5,
                *decoding_step(q, k, step, keys, angle)[1:],
            ),
        ),
        Misconception(
            "Cached angle in place of the sum in the scores",
            "The score with a cached key depends on the difference of two sums: rotate "
            "the query by its own sum, not by minus it.",
            _decoded(of_query=lambda angle, step: -angle - step),
        ),
    ),
    properties=(
        Property(
            "The last score is q · k, whatever the angles",
            lambda answer, q, k, step, keys, angle: torch.isclose(
                answer(q, k, step, keys, angle)[0][-1], q @ k
            ),
        ),
    ),
    explanation=r"""
Cached keys do not change: by {prf:ref}`the telescoping theorem <thm-path-telescope>` the product over the path is $R_i^\top R_j$, where $R_j$ rotates by the sum of the steps up to $j$, so each key is rotated once, when it is written.
The new token adds its step to the sum and is rotated by the new sum, its key like its query; the last score is therefore $q^\top k$.
A decoder keeps one number per pair besides the keys, which sums over thousands of tokens and so belongs in float64.
""",
)


# rotation-and-decay-8: gates that overflow


def far_scores(q, k, log_gates, start):
    """Gated products Σ_n q_in k_jn e^(P_in − P_jn).

    They are of the queries i = start, start + 1, … with
    the keys j < start, [queries, start], in the dtype of
    q. P is the sum of ``log_gates`` up to a token; all
    three arrays are [tokens, d].
    """
    sums = log_gates.double().cumsum(0)
    anchor = sums[start - 1]
    queries = q[start:] * (sums[start:] - anchor).exp().to(q.dtype)
    keys = k[:start] * (anchor - sums[:start]).exp().to(q.dtype)
    return queries @ keys.T


def _broken_far_scores(q, k, log_gates, start):
    """Gated products Σ_n q_in k_jn e^(P_in − P_jn).

    They are of the queries i = start, start + 1, … with
    the keys j < start, [queries, start], in the dtype of
    q. P is the sum of ``log_gates`` up to a token; all
    three arrays are [tokens, d].
    """
    sums = log_gates.double().cumsum(0)
    queries = q[start:] * sums[start:].exp().to(q.dtype)
    keys = k[:start] * (-sums[:start]).exp().to(q.dtype)
    return queries @ keys.T


def symptom_of_overflow(function):
    """Return how many of 50 × 150 scores are not finite."""
    q = k = torch.ones(200, 2)
    scores = function(q, k, torch.full((200, 2), -1.0), 150)
    return (~scores.isfinite()).sum().item()


def _anchored(anchor, sums=lambda log_gates: log_gates.double().cumsum(0), low=None):
    """Make a wrong answer to the exercise ``far_scores``.

    ``anchor`` takes the sums and ``start``; ``low`` is a bound of the exponents.
    """

    def answer(q, k, log_gates, start):
        total = sums(log_gates)
        at = anchor(total, start)
        of_queries, of_keys = total[start:] - at, at - total[:start]
        if low is not None:
            of_queries, of_keys = of_queries.clamp(min=low), of_keys.clamp(max=-low)
        queries = q[start:] * of_queries.exp().to(q.dtype)
        return queries @ (k[:start] * of_keys.exp().to(q.dtype)).T

    return answer


def _before_start(sums, start):
    return sums[start - 1]


def _with_decays(decays):
    """Make a wrong answer that multiplies q and k by decays, a function of sums."""

    def answer(q, k, log_gates, start):
        sums = log_gates.double().cumsum(0)
        left, right = (t.to(q.dtype) for t in decays(sums, start))
        return (q[start:] * left) @ (k[:start] * right).T

    return answer


def _gates_case(tokens, d, start, size, at=()):
    q, k, gates = torch.tensor(draw(3, tokens, d), dtype=torch.float32)
    gates = -size * gates.abs()
    for token in at:
        gates[token] = -150.0
    return q, k, gates, start


OVERFLOW = Exercise(
    name="rotation-and-decay-8",
    title="Repair: gates that overflow",
    kind="repair",
    minutes=15,
    lines=3,
    statement=r"""
Wall attention splits $e^{P_{in} - P_{jn}}$ into a factor of the query and one of the key, so that all scores are one matrix product.
On short texts the layer works; on longer ones the loss becomes NaN.
Repair `far_scores`, which computes the scores of a block of queries with all keys before the block, so that `symptom_of_overflow` gives 0; one matrix product is still enough.
The results are checked to 1e-4.
Would float64 in place of float32 be a repair?
""",
    hint=r"""
$P_i - P_j = (P_i - R) + (R - P_j)$ for every $R$.
For which $R$ is neither of the two brackets above 0?
""",
    cases=(
        (
            torch.ones(2, 1),
            torch.tensor([[2.0], [5.0]]),
            torch.tensor([[-3.0], [-1.0]]),
            1,
        ),
        _gates_case(6, 2, 4, 1.0),
        _gates_case(8, 3, 3, 1.0),
        _gates_case(90, 2, 60, 0.05),
        _gates_case(120, 2, 40, 8.0),
        _gates_case(160, 2, 80, 15.0),
        _gates_case(12, 2, 6, 0.1, at=(5,)),
        _gates_case(12, 2, 6, 0.1, at=(7,)),
        _gates_case(150, 2, 110, 0.02, at=range(80)),
    ),
    solution=far_scores,
    misconceptions=(
        Misconception(
            "Sums from the text's beginning",
            "The code is as it was: e^(−P_j) grows with every token before key j.",
            _broken_far_scores,
        ),
        Misconception(
            "Sums anchored at the last query",
            "At the last query R is below P_i for the others, and e^(P_i − R) "
            "overflows.",
            _anchored(lambda sums, start: sums[-1]),
        ),
        Misconception(
            "Sums anchored in the middle",
            "Half of the keys have R above P_j then. Where are all keys on one side and "
            "all queries on the other?",
            _anchored(lambda sums, start: sums[start // 2]),
        ),
        Misconception(
            "Anchored one token too early",
            "If the gate of the token before the block is tiny, R − P_j is large for "
            "that token's key.",
            _anchored(lambda sums, start: sums[max(start - 2, 0)]),
        ),
        Misconception(
            "Anchored one token too late",
            "If the gate of the block's second token is tiny, P_i − R is large for the "
            "first query.",
            _anchored(lambda sums, start: sums[min(start + 1, len(sums) - 1)]),
        ),
        Misconception(
            "Anchored at the mean of the sums",
            "Long texts overflow on both sides of a mean.",
            _anchored(lambda sums, start: sums.mean(0)),
        ),
        Misconception(
            "Exponents limited",
            "Limits of ±80 avoid the infinity, but the scores are wrong: between late "
            "keys and late queries no decay is left.",
            _anchored(lambda sums, start: 0 * sums[0], low=-80.0),
        ),
        Misconception(
            "Factors in float64",
            "e^(−P) overflows in float64, too, from 709 on.",
            lambda q, k, log_gates, start: _broken_far_scores(
                q.double(), k.double(), log_gates, start
            ).to(q.dtype),
        ),
        Misconception(
            "Infinities and NaN replaced",
            "The scores are finite now, and wrong.",
            lambda q, k, log_gates, start: _broken_far_scores(
                q, k, log_gates, start
            ).nan_to_num(0.0, 0.0, 0.0),
        ),
        Misconception(
            "Gates left out of the keys",
            "The keys' factor e^(R − P_j) is missing.",
            _with_decays(
                lambda sums, start: (
                    (sums[start:] - sums[start - 1]).exp(),
                    torch.ones_like(sums[:start]),
                )
            ),
        ),
        Misconception(
            "Gates left out of the queries",
            "The queries' factor e^(P_i − R) is missing.",
            _with_decays(
                lambda sums, start: (
                    torch.ones_like(sums[start:]),
                    (sums[start - 1] - sums[:start]).exp(),
                )
            ),
        ),
        Misconception(
            "Key's own gate included",
            "The sum begins after the key: P_j includes the key's own gate.",
            lambda q, k, log_gates, start: far_scores(
                q, k * log_gates.exp(), log_gates, start
            ),
        ),
        Misconception(
            "Exponents of the keys reversed",
            "The older a key is, the more gates it has passed: R − P_j is not above 0.",
            _with_decays(
                lambda sums, start: (
                    (sums[start:] - sums[start - 1]).exp(),
                    (sums[:start] - sums[0]).exp(),
                )
            ),
        ),
        Misconception(
            "Repaired for the symptom only",
            "In `symptom_of_overflow` all gates are equal. Here each has its own.",
            lambda q, k, log_gates, start: far_scores(
                q, k, log_gates * 0 + log_gates.mean(), start
            ),
        ),
        Misconception(
            "Sums in float32",
            "A sum of −12000 has an error of 0.0005 in float32, and so have all "
            "differences with it. The sums were in float64.",
            _anchored(_before_start, sums=lambda log_gates: log_gates.cumsum(0)),
        ),
        Misconception(
            "Sums anchored at the first key",
            "P_0 is near 0, so nothing has changed for long texts.",
            _anchored(lambda sums, start: sums[0]),
        ),
    ),
    tolerance=1e-4,
    level="hard",
    explanation=r"""
With the sum just before the block, $R = P_{\text{start} - 1}$, both exponents are at most 0: $P_i \le R$ for every query of the block and $R \le P_j$ for every key before it.
So no factor exceeds 1, and where one underflows the score is 0 to the precision of the dtype.
The first sum inside the block would do as well; every other sum has an input on which one of the factors overflows.
float64 moves the limit from 88 to 709 tokens of $\log g = -1$ and no further.
In exact arithmetic all anchors give the same scores; {prf:ref}`the theorem on anchors <thm-wall-anchor>` says which ones keep both factors at most 1.
""",
    repair=Repair(_broken_far_scores, symptom_of_overflow),
)


SHEET = Sheet(
    title="Rotation and decay",
    conventions=r"""
$i$ is the query and $j \le i$ the key, counted from 0; $\mathrm{i}$ is the imaginary unit.
The transition $T_t$ of token $t$ acts on all keys before $t$; scores are $s_{ij} = q_i^\top T_i \cdots T_{j+1} k_j$ and are not divided by $\sqrt d$.
""",
    example=r"""
from posedu.numpy.path import path_scores

q = k = np.ones((1, 3, 1))  # [heads, tokens, d]
gates = [0.1, 0.5, 0.9]
s = path_scores(q, k, lambda t, keys: gates[t] * keys)
print(s[0])
""",
    figure="rotation_and_decay_explorable",
    exercises=(
        *(ONE_NUMBER, PATH_SCORE, ORDER, READ),
        *(TWO_GATES, COMPLEX, STEP, OVERFLOW),
    ),
)
