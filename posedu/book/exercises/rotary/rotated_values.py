"""The exercises on rotated values, xPos and poses."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.records import Exercise, Misconception, Property, Sheet, draw

# rotated-values-1: what undoes a value's map


def undo(i, a, c):
    """A 2 × 2 SymPy matrix."""
    return c**-i * sp.Matrix([[1, -a * i], [0, 1]])


_A, _C, _I = sp.Symbol("a", real=True), sp.Symbol("c", positive=True), sp.Symbol("i")


def _undone(entries, power=lambda i, c: c**-i):
    return lambda i, a, c: power(i, c) * sp.Matrix(entries(i, a))


UNDO = Exercise(
    name="rotated-values-1",
    title="What undoes it",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: a layer with relative weights multiplies the value at position $j$ by $c^j \begin{pmatrix} 1 & aj \\ 0 & 1 \end{pmatrix}$ with $c > 0$.
By which matrix must what the query at $i$ gathers be multiplied, so that only offsets count? At position 0 nothing is multiplied.
Return a SymPy matrix of `i`, `a` and `c`.
""",
    hint=r"""
Is the map of $j + j'$ the product of those of $j$ and $j'$?
""",
    cases=(
        (sp.Integer(1), sp.Integer(3), sp.Integer(2)),
        (sp.Integer(2), sp.Integer(1), sp.Rational(1, 2)),
        (_I, _A, _C),
    ),
    solution=undo,
    misconceptions=(
        Misconception(
            "The same map",
            "Then the sum of both positions counts, not their offset.",
            _undone(lambda i, a: [[1, a * i], [0, 1]], lambda i, c: c**i),
        ),
        Misconception(
            "The transpose",
            "The inverse of a rotation is its transpose. This is no rotation.",
            _undone(lambda i, a: [[1, 0], [a * i, 1]], lambda i, c: c**i),
        ),
        Misconception(
            "The transpose of the inverse",
            "That is for queries, which meet keys in an inner product.",
            _undone(lambda i, a: [[1, 0], [-a * i, 1]]),
        ),
        Misconception(
            "Factor forgotten",
            "What grows with j has to shrink with i.",
            _undone(lambda i, a: [[1, -a * i], [0, 1]], lambda i, c: sp.Integer(1)),
        ),
        Misconception(
            "Only the factor",
            "The matrix is to be undone, too.",
            _undone(lambda i, a: [[1, 0], [0, 1]]),
        ),
        Misconception(
            "The factor of the value",
            "c to the power −i: positions subtract.",
            _undone(lambda i, a: [[1, -a * i], [0, 1]], lambda i, c: c**i),
        ),
        Misconception(
            "One over the entry",
            "Matrices are not inverted entry by entry.",
            lambda i, a, c: c**-i * sp.Matrix([[1, 1 / (a * i)], [0, 1]]),
        ),
        Misconception(
            "The matrix as it was",
            "Its upper right entry has the other sign in the inverse.",
            _undone(lambda i, a: [[1, a * i], [0, 1]]),
        ),
        Misconception(
            "The factor divides the entry as well",
            "c to the power −i multiplies each entry once.",
            lambda i, a, c: c**-i * sp.Matrix([[1, -a * i * c**-i], [0, 1]]),
        ),
        Misconception(
            "The factor's exponent is 1",
            "At i it is the i-th power that has to go.",
            _undone(lambda i, a: [[1, -a * i], [0, 1]], lambda i, c: 1 / c),
        ),
        Misconception(
            "The entry does not grow",
            "At i it is i times a.",
            _undone(lambda i, a: [[1, -a], [0, 1]]),
        ),
        Misconception(
            "No map at all",
            "Weights that are relative do not make what they gather so.",
            lambda i, a, c: sp.eye(2),
        ),
    ),
    properties=(
        Property(
            "It undoes the value's map at the same position",
            lambda answer, i, a, c: (
                sp.simplify(
                    answer(i, a, c) * c**i * sp.Matrix([[1, a * i], [0, 1]]) - sp.eye(2)
                )
                == sp.zeros(2)
            ),
        ),
    ),
)


# rotated-values-2: where powers end


def farthest(tiny, gamma, span):
    """The distance from the center, as an expression."""
    return span * sp.log(1 / tiny) / sp.log((1 + gamma) / gamma)


_T, _G, _B = sp.symbols("t g b", positive=True)

FARTHEST = Exercise(
    name="rotated-values-2",
    title="Where powers end",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
xPos multiplies pair $p$ of the query at a distance $n$ from the center by $\zeta_p^{n/B}$, with $\zeta_p = (2p/d + \gamma)/(1 + \gamma)$ and $B$ = `span`.
Up to which $n$ are all of these factors at least `tiny`, the smallest normal number of a dtype?
Return a SymPy expression of `tiny`, `gamma` and `span`. How much farther does it reach in float64 than in float32?
""",
    hint=r"""
Which pair has the smallest factor?
""",
    cases=(
        (sp.Rational(1, 8), sp.Integer(1), sp.Integer(10)),
        (sp.Rational(1, 100), sp.Rational(2, 5), sp.Integer(512)),
        (_T, _G, _B),
    ),
    solution=farthest,
    misconceptions=(
        Misconception(
            "Scale forgotten",
            "The exponent is n/B.",
            lambda tiny, gamma, span: sp.log(1 / tiny) / sp.log((1 + gamma) / gamma),
        ),
        Misconception(
            "Divided by the scale",
            "A larger B decays more slowly, so it reaches farther.",
            lambda tiny, gamma, span: (
                sp.log(1 / tiny) / sp.log((1 + gamma) / gamma) / span
            ),
        ),
        Misconception(
            "γ for ζ₀",
            "The first pair's is γ over 1 + γ.",
            lambda tiny, gamma, span: (
                -span * sp.log(1 / tiny) / sp.log(gamma)
                if gamma != 1
                else span * sp.log(1 / tiny)
            ),
        ),
        Misconception(
            "The sign",
            "Both logarithms are negative, or both positive.",
            lambda tiny, gamma, span: span * sp.log(tiny) / sp.log((1 + gamma) / gamma),
        ),
        Misconception(
            "The ratio rotated over",
            "It is the logarithm of tiny over that of ζ₀.",
            lambda tiny, gamma, span: (
                span * sp.log((1 + gamma) / gamma) / sp.log(1 / tiny)
            ),
        ),
        Misconception(
            "No logarithm",
            "n stands in the exponent.",
            lambda tiny, gamma, span: span * gamma / (1 + gamma) / tiny,
        ),
        Misconception(
            "Bits for digits",
            "One logarithm to base 2 and the other natural do not cancel.",
            lambda tiny, gamma, span: (
                span * sp.log(1 / tiny) / sp.log(2) / sp.log((1 + gamma) / gamma)
            ),
        ),
        Misconception(
            "1 + γ for ζ₀",
            "It is γ that stands above.",
            lambda tiny, gamma, span: span * sp.log(1 / tiny) / sp.log(1 + gamma),
        ),
        Misconception(
            "Both sides",
            "That is how long a text may be with its center in the middle.",
            lambda tiny, gamma, span: (
                2 * span * sp.log(1 / tiny) / sp.log((1 + gamma) / gamma)
            ),
        ),
        Misconception(
            "Twice the scale",
            "A score has both factors, but each is a number of its own.",
            lambda tiny, gamma, span: (
                span * sp.log(1 / tiny) / sp.log((1 + gamma) / gamma) / 2
            ),
        ),
        Misconception(
            "1/γ for (1 + γ)/γ",
            "ζ₀ is γ over 1 + γ.",
            lambda tiny, gamma, span: span * sp.log(1 / tiny) / sp.log(1 + 2 / gamma),
        ),
    ),
    properties=(
        Property(
            "With B twice as large it is twice as far",
            lambda answer, tiny, gamma, span: (
                sp.simplify(
                    answer(tiny, gamma, 2 * span) - 2 * answer(tiny, gamma, span)
                )
                == 0
            ),
        ),
    ),
)


# rotated-values-3: rotated values


def gather(weights, v, positions):
    """What the queries gather, [tokens, d], float64."""
    d = v.shape[-1]
    angle = positions[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    z = (v[:, 0::2] + 1j * v[:, 1::2]) * np.exp(1j * angle)
    z = (weights @ z) * np.exp(-1j * angle)
    return np.stack((z.real, z.imag), -1).reshape(v.shape)


def _gathered(
    into=lambda angle: angle,
    out=lambda angle: -angle,
    frequencies=lambda d: 10000.0 ** (-np.arange(0, d, 2) / d),
    half=False,
    mixed=lambda weights: weights,
):
    """With other turns."""

    def answer(weights, v, positions):
        d = v.shape[-1]
        angle = positions[:, None] * frequencies(d)
        a, b = (v[:, : d // 2], v[:, d // 2 :]) if half else (v[:, ::2], v[:, 1::2])
        z = mixed(weights) @ ((a + 1j * b) * np.exp(1j * into(angle)))
        z = z * np.exp(1j * out(angle))
        if half:
            return np.concatenate((z.real, z.imag), -1)
        return np.stack((z.real, z.imag), -1).reshape(v.shape)

    return answer


def _case(tokens, d, seed, positions=None):
    weights = np.exp(draw(tokens, tokens, seed=seed))
    at = np.arange(tokens) if positions is None else np.array(positions)
    weights = weights / weights.sum(-1, keepdims=True)
    return weights, draw(tokens, d, seed=seed + 1), at.astype(float)


GATHER = Exercise(
    name="rotated-values-3",
    title="Values that are turned, and back",
    kind="NumPy",
    minutes=12,
    lines=5,
    statement=r"""
`weights` are `[tokens, tokens]`, a row for each query; `v` is `[tokens, d]`, `positions` `[tokens]`.
Return $R_i^\top \sum_j a_{ij} R_j v_j$, `[tokens, d]`, with RoPE's rotations for the base 10,000 and neighboring features as pairs.
Then move all positions by 100. What changes, and what if the last turn is left out?
""",
    hint=r"""
Pairs as complex numbers: one multiplication before the sum, and one behind it.
""",
    cases=(
        (
            np.array([[1.0, 0.0], [0.5, 0.5]]),
            np.array([[1.0, 0.0], [0.0, 2.0]]),
            np.arange(2.0),
        ),
        _case(3, 4, 0),
        _case(4, 6, 5, [9, 2, 2.5, 30]),
    ),
    solution=gather,
    misconceptions=(
        Misconception(
            "Not rotated back",
            "What was gathered is still turned by the keys' positions.",
            _gathered(out=lambda angle: 0 * angle),
        ),
        Misconception(
            "Turned on",
            "The output is turned by the inverse.",
            _gathered(out=lambda angle: angle),
        ),
        Misconception(
            "Values not rotated",
            "Nothing is turned in the end: both turns are missing, or the second comes "
            "before the sum.",
            _gathered(into=lambda angle: 0 * angle, out=lambda angle: 0 * angle),
        ),
        Misconception(
            "First turn missing",
            "Values are turned by their own positions, too.",
            _gathered(into=lambda angle: 0 * angle),
        ),
        Misconception(
            "Both turns the other way",
            "RoPE turns by +position before the sum.",
            _gathered(into=lambda angle: -angle, out=lambda angle: angle),
        ),
        Misconception(
            "Halves for neighbors",
            "Features 2p and 2p + 1 are a pair.",
            _gathered(half=True),
        ),
        Misconception(
            "Frequencies of every feature",
            "A pair has one frequency, base^(−2p/d).",
            _gathered(frequencies=lambda d: 10000.0 ** (-np.arange(d // 2) / d)),
        ),
        Misconception(
            "One pair too far",
            "The first pair's frequency is 1: p counts from 0.",
            _gathered(frequencies=lambda d: 10000.0 ** (-np.arange(2, d + 2, 2) / d)),
        ),
        Misconception(
            "Weights transposed",
            "A row of the weights is a query's.",
            _gathered(mixed=lambda weights: weights.T),
        ),
        Misconception(
            "Positions from 0",
            "Positions are given.",
            lambda weights, v, positions: gather(
                weights, v, np.arange(len(positions)) * 1.0
            ),
        ),
        Misconception(
            "Turned back by the first position",
            "Each query turns back by its own position.",
            _gathered(out=lambda angle: -angle[:1] + 0 * angle),
        ),
    ),
    properties=(
        Property(
            "Moving all positions changes nothing",
            lambda answer, weights, v, positions: bool(
                np.allclose(
                    answer(weights, v, positions + 7), answer(weights, v, positions)
                )
            ),
        ),
        Property(
            "Where all positions are equal it is weights @ v",
            lambda answer, weights, v, positions: bool(
                np.allclose(answer(weights, v, 0 * positions + 3.0), weights @ v)
            ),
        ),
    ),
)


# rotated-values-4: xPos far from home


def xpos_scores(q, k, positions, gamma, span):
    """The scores, [tokens, tokens], 0 where the key is later; float64, finite."""
    d = q.shape[-1]
    zeta = (np.arange(0, d, 2) / d + gamma) / (1 + gamma)
    omega = 10000.0 ** (-np.arange(0, d, 2) / d)
    offset = (positions[:, None] - positions)[..., None]
    factor = zeta ** (np.maximum(offset, 0) / span) * np.exp(1j * offset * omega)
    z_q, z_k = (x[:, 0::2] + 1j * x[:, 1::2] for x in (q, k))
    scores = (z_q[:, None] * z_k.conj() * factor).sum(-1).real
    return np.where(offset[..., 0] >= 0, scores, 0.0)


def _scores(
    zeta=lambda d, gamma: (np.arange(0, d, 2) / d + gamma) / (1 + gamma),
    power=lambda offset, span: offset / span,
    reach=lambda offset: np.maximum(offset, 0),
    angle=lambda offset: offset,
    end=lambda scores, offset: np.where(offset >= 0, scores, 0.0),
    of_offset=True,
):
    """With another decay."""

    def answer(q, k, positions, gamma, span):
        d = q.shape[-1]
        offset = (positions[:, None] - positions)[..., None]
        omega = 10000.0 ** (-np.arange(0, d, 2) / d)
        z = zeta(d, gamma)
        with np.errstate(all="ignore"):
            decay = z ** power(reach(offset), span)
            if not of_offset:
                own = z ** (positions[:, None] / span)
                decay = own[:, None] / own
            factor = decay * np.exp(1j * angle(offset) * omega)
            z_q, z_k = (x[:, 0::2] + 1j * x[:, 1::2] for x in (q, k))
            scores = (z_q[:, None] * z_k.conj() * factor).sum(-1).real
        return end(scores, offset[..., 0])

    return answer


def _far(tokens, d, seed, start, step, gamma, span):
    q, k = draw(2, tokens, d, seed=seed)
    return q, k, start + step * np.arange(tokens), gamma, span


SCORES = Exercise(
    name="rotated-values-4",
    title="xPos, a million tokens from home",
    kind="experiment",
    minutes=15,
    lines=8,
    statement=r"""
`q` and `k` are `[tokens, d]` with neighboring features as pairs, `positions` `[tokens]` rises.
Return xPos' scores $\sum_p \zeta_p^{(i-j)/B}\,(R_i q_i)_p^\top (R_j k_j)_p$ for keys that are not later than their query, and 0 for others: `[tokens, tokens]`, float64, finite at positions of a million, too. `gamma` is $\gamma$ and `span` $B$; the base is 10,000 and nothing is divided by $\sqrt d$.
Then compute $\zeta_0^{i/B}$ and $\zeta_0^{-j/B}$ apart at a million. What is their product to a computer?
""",
    hint=r"""
Which power does a score need?
""",
    cases=(
        (np.ones((2, 2)), np.ones((2, 2)), np.array([0.0, 2.0]), 1.0, 2.0),
        _far(3, 4, 0, 0.0, 3.0, 0.4, 8.0),
        _far(4, 6, 1, 1e6, 100.0, 0.4, 512.0),
    ),
    solution=xpos_scores,
    misconceptions=(
        Misconception(
            "Two powers",
            "Each of them alone is 0 or infinite far from 0; only their quotient is not.",
            _scores(of_offset=False),
        ),
        Misconception(
            "No decay",
            "That is RoPE.",
            _scores(power=lambda offset, span: 0 * offset),
        ),
        Misconception(
            "It grows",
            "Far keys get less of each product, not more.",
            _scores(power=lambda offset, span: -offset / span),
        ),
        Misconception(
            "Scale forgotten",
            "The exponent is the offset over B.",
            _scores(power=lambda offset, span: offset),
        ),
        Misconception(
            "Twice the decay",
            "The query's and the key's factor together make one power of the offset.",
            _scores(power=lambda offset, span: 2 * offset / span),
        ),
        Misconception(
            "One ζ for all pairs",
            "Fast pairs decay fastest.",
            _scores(zeta=lambda d, gamma: gamma / (1 + gamma) + np.zeros(d // 2)),
        ),
        Misconception(
            "p/d for 2p/d",
            "The slowest pair's ζ is close to 1.",
            _scores(zeta=lambda d, g: (np.arange(d // 2) / d + g) / (1 + g)),
        ),
        Misconception(
            "The slow pairs decay fastest",
            "ζ grows with p.",
            _scores(zeta=lambda d, g: ((np.arange(0, d, 2) / d + g) / (1 + g))[::-1]),
        ),
        Misconception(
            "No 1 + γ",
            "ζ is at most 1.",
            _scores(zeta=lambda d, g: np.arange(0, d, 2) / d + g),
        ),
        Misconception(
            "No turn",
            "xPos is RoPE with a decay.",
            _scores(angle=lambda offset: 0 * offset),
        ),
        Misconception(
            "Later keys scored",
            "They are 0 here.",
            _scores(end=lambda scores, offset: scores),
        ),
        Misconception(
            "Token itself not seen",
            "A key at its query is not later.",
            _scores(end=lambda scores, offset: np.where(offset > 0, scores, 0.0)),
        ),
        Misconception(
            "Divided by √d",
            "Nothing is divided here.",
            lambda q, k, positions, gamma, span: (
                xpos_scores(q, k, positions, gamma, span) / np.sqrt(q.shape[-1])
            ),
        ),
        Misconception(
            "Later keys scored, and grow",
            "They are 0 here.",
            _scores(reach=lambda offset: offset, end=lambda scores, offset: scores),
        ),
        Misconception(
            "Later keys scored by their distance",
            "They are 0 here.",
            _scores(reach=abs, end=lambda scores, offset: scores),
        ),
    ),
    properties=(
        Property(
            "Moving all positions by 10 changes nothing",
            lambda answer, q, k, positions, gamma, span: bool(
                np.allclose(
                    answer(q, k, positions + 10, gamma, span),
                    answer(q, k, positions, gamma, span),
                )
            ),
        ),
    ),
)


# rotated-values-5: cameras undone


def undo_cameras(cameras):
    """The inverses, [tokens, 4, 4]."""
    inverse = np.zeros_like(cameras)
    back = cameras[:, :3, :3].swapaxes(1, 2)
    inverse[:, :3, :3] = back
    inverse[:, :3, 3:] = -back @ cameras[:, :3, 3:]
    inverse[:, 3, 3] = 1
    return inverse


def _inverses(
    turn=lambda R: R.swapaxes(1, 2),
    move=lambda R, t: -R.swapaxes(1, 2) @ t,
    corner=1.0,
):
    """With other blocks."""

    def answer(cameras):
        R, t = cameras[:, :3, :3], cameras[:, :3, 3:]
        inverse = np.zeros_like(cameras)
        inverse[:, :3, :3], inverse[:, :3, 3:] = turn(R), move(R, t)
        inverse[:, 3, 3] = corner
        return inverse

    return answer


def _cameras(tokens, seed):
    turns, _ = np.linalg.qr(draw(tokens, 3, 3, seed=seed))
    turns = turns * np.sign(np.linalg.det(turns))[:, None, None]
    made = np.zeros((tokens, 4, 4))
    made[:, :3, :3], made[:, 3, 3] = turns, 1
    made[:, :3, 3] = draw(tokens, 3, seed=seed + 1)
    return made


_ONE = np.eye(4)[None, [1, 2, 0, 3]]
_ONE[0, :3, 3] = [1, 2, 3]

INVERSES = Exercise(
    name="rotated-values-5",
    title="Cameras undone",
    kind="NumPy",
    minutes=10,
    lines=5,
    statement=r"""
`cameras` are matrices $\begin{pmatrix} R & t \\ 0 & 1 \end{pmatrix}$ with rotations $R$, `[tokens, 4, 4]`.
Return their inverses, float64, written with $R$ and $t$ alone; a solver would give the same, with more work and rounding.
For which of them is the transpose enough?
""",
    hint=r"""
$y = Rx + t$. What is $x$?
""",
    cases=((_ONE,), (_cameras(2, 0),), (_cameras(5, 3),)),
    solution=undo_cameras,
    misconceptions=(
        Misconception(
            "The transpose",
            "It undoes the turn; a translation it puts into the last row.",
            lambda cameras: cameras.swapaxes(1, 2),
        ),
        Misconception(
            "Minus t",
            "What is subtracted before turning back is turned back as well.",
            _inverses(move=lambda R, t: -t),
        ),
        Misconception(
            "t rotated on",
            "It is turned by the transpose.",
            _inverses(move=lambda R, t: -R @ t),
        ),
        Misconception(
            "The sign of the translation",
            "What was added is subtracted.",
            _inverses(move=lambda R, t: R.swapaxes(1, 2) @ t),
        ),
        Misconception(
            "The turn stays",
            "The inverse turns back.",
            _inverses(turn=lambda R: R),
        ),
        Misconception(
            "Only the turn",
            "The translation is to be undone, too.",
            _inverses(move=lambda R, t: 0 * t),
        ),
        Misconception(
            "Only the translation",
            "The turn is to be undone, too.",
            _inverses(turn=lambda R: R, move=lambda R, t: -t),
        ),
        Misconception(
            "Minus the turn",
            "A rotation is undone by its transpose, not by its negative.",
            _inverses(turn=lambda R: -R, move=lambda R, t: -t),
        ),
        Misconception(
            "The corner is 0",
            "The last row is 0, 0, 0, 1.",
            _inverses(corner=0.0),
        ),
        Misconception(
            "The corner changes its sign",
            "The last row is 0, 0, 0, 1.",
            _inverses(corner=-1.0),
        ),
        Misconception(
            "One over each entry",
            "Matrices are not inverted entry by entry.",
            lambda cameras: np.divide(
                1.0, cameras, out=np.zeros_like(cameras), where=cameras != 0
            ),
        ),
        Misconception(
            "Transposed, with minus t in the row",
            "The translation stands in the last column.",
            lambda cameras: _negated(cameras.swapaxes(1, 2)),
        ),
        Misconception(
            "The turn stays, and t is rotated on",
            "The inverse turns back, t as well.",
            _inverses(turn=lambda R: R, move=lambda R, t: -R @ t),
        ),
    ),
    properties=(
        Property(
            "A camera times its inverse is 1",
            lambda answer, cameras: bool(
                np.allclose(cameras @ answer(cameras), np.eye(4))
            ),
        ),
    ),
)


def _negated(transposed):
    moved = transposed.copy()
    moved[:, 3, :3] *= -1
    return moved


# rotated-values-6: attention with poses


def attend_with_poses(q, k, v, cameras, inverses):
    """The output, [tokens, d], of the dtype of q."""

    def act(matrices, x):
        blocks = x.reshape(len(x), -1, 4)
        return torch.einsum("nab,nmb->nma", matrices, blocks).reshape(x.shape)

    scores = act(cameras.mT, q) @ act(inverses, k).T / q.shape[-1] ** 0.5
    return act(cameras, scores.softmax(-1) @ act(inverses, v))


def _posed(
    for_q=lambda c, i: c.mT,
    for_k=lambda c, i: i,
    for_v=lambda c, i: i,
    for_out=lambda c, i: c,
    scale=lambda d: d**-0.5,
    axis=-1,
    hide=lambda s: s,
    blocks=lambda x: x.reshape(len(x), -1, 4),
    back=lambda y, x: y.reshape(x.shape),
):
    """With other matrices."""

    def answer(q, k, v, cameras, inverses):
        def act(pick, x):
            y = torch.einsum("nab,nmb->nma", pick(cameras, inverses), blocks(x))
            return back(y, x)

        scores = act(for_q, q) @ act(for_k, k).T * scale(q.shape[-1])
        return act(for_out, hide(scores).softmax(axis) @ act(for_v, v))

    return answer


def _scene(tokens, d, seed):
    own = _cameras(tokens, seed)
    contents = draw(3, tokens, d, seed=seed + 2)
    both = own, undo_cameras(own)
    return tuple(torch.tensor(x) for x in (*contents, *both))


def _moved(answer, q, k, v, cameras, inverses):
    step = torch.tensor(_cameras(1, 40))
    back = torch.tensor(undo_cameras(_cameras(1, 40)))
    here = answer(q, k, v, cameras, inverses)
    return bool(torch.allclose(answer(q, k, v, cameras @ step, back @ inverses), here))


POSES = Exercise(
    name="rotated-values-6",
    title="Attention with poses",
    kind="PyTorch",
    minutes=15,
    lines=6,
    statement=r"""
`q`, `k` and `v` are `[tokens, d]`, one head; `cameras` and `inverses` are the matrices $C_i$ of the tokens' poses and $C_i^{-1}$, `[tokens, 4, 4]`, and act on each four neighboring features.
Return what GTA gathers, `[tokens, d]`, every token looking at all, with scores over $\sqrt d$.
What changes if every $C_i$ becomes $C_i H$, and what if it becomes $H C_i$?
""",
    hint=r"""
Four matrices for four tensors: which of them is transposed, which inverted?
""",
    cases=(_scene(1, 4, 0), _scene(2, 4, 5), _scene(3, 8, 10), _scene(4, 12, 20)),
    solution=attend_with_poses,
    misconceptions=(
        Misconception(
            "Queries without the transpose",
            "A score is an inner product: the query's matrix has to meet the key's.",
            _posed(for_q=lambda c, i: c),
        ),
        Misconception(
            "Queries as keys",
            "One map for both is enough for rotations alone.",
            _posed(for_q=lambda c, i: i),
        ),
        Misconception(
            "Transposes for inverses",
            "That is right for rotations alone.",
            _posed(for_k=lambda c, i: c.mT, for_v=lambda c, i: c.mT),
        ),
        Misconception(
            "Values not moved",
            "Then what is gathered is not in the query's frame.",
            _posed(for_v=lambda c, i: torch.eye(4, dtype=c.dtype).expand_as(c)),
        ),
        Misconception(
            "Output not moved",
            "Values were brought to the world; the query's camera is still to come.",
            _posed(for_out=lambda c, i: torch.eye(4, dtype=c.dtype).expand_as(c)),
        ),
        Misconception(
            "Output moved back",
            "Values have the inverse, so the output has the camera.",
            _posed(for_out=lambda c, i: i),
        ),
        Misconception(
            "Values and output exchanged",
            "Values have the inverse, and the output the camera.",
            _posed(for_v=lambda c, i: c, for_out=lambda c, i: i),
        ),
        Misconception(
            "Camera to world",
            "All four the other way round: these poses map the world to the camera.",
            _posed(
                for_q=lambda c, i: i.mT,
                for_k=lambda c, i: c,
                for_v=lambda c, i: c,
                for_out=lambda c, i: i,
            ),
        ),
        Misconception(
            "No scale",
            "Scores are divided by √d.",
            _posed(scale=lambda d: 1.0),
        ),
        Misconception(
            "The scale of a block",
            "d is the number of all features.",
            _posed(scale=lambda d: 0.5),
        ),
        Misconception(
            "Softmax over queries",
            "A query's weights sum to 1.",
            _posed(axis=0),
        ),
        Misconception(
            "Blocks of features that are far apart",
            "Four neighbors are a block.",
            _posed(
                blocks=lambda x: x.reshape(len(x), 4, -1).mT,
                back=lambda y, x: y.mT.reshape(x.shape),
            ),
        ),
        Misconception(
            "A causal mask",
            "Every token looks at all.",
            _posed(
                hide=lambda s: s.masked_fill(
                    torch.ones_like(s).triu(1).bool(), -torch.inf
                )
            ),
        ),
        Misconception(
            "One map for all four",
            "A query has the transpose, keys and values the inverse, the output the camera.",
            _posed(for_q=lambda c, i: c, for_k=lambda c, i: c, for_v=lambda c, i: c),
        ),
        Misconception(
            "Scores alone",
            "That is a relative score; values are to be seen from the query's camera, too.",
            _posed(
                for_v=lambda c, i: torch.eye(4, dtype=c.dtype).expand_as(c),
                for_out=lambda c, i: torch.eye(4, dtype=c.dtype).expand_as(c),
            ),
        ),
    ),
    properties=(Property("Another frame of the world changes nothing", _moved),),
)


SHEET = Sheet(
    title="Values that turn, cameras that move",
    conventions=r"""
Positions $i$ of queries and $j$ of keys count from 0. A camera's matrix takes the world to the camera. Neighboring features $2p$ and $2p + 1$ are pair $p$.
""",
    exercises=(UNDO, FARTHEST, GATHER, SCORES, INVERSES, POSES),
)
