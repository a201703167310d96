"""Exercises on rotated values, xPos and GTA."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)

# rotated-values-1: the inverse of a value's map


def inverse_map(i, a, c):
    """Return the matrix for the output at query i: a 2 × 2 SymPy matrix.

    The layer multiplies the value at position j by c^j [[1, aj], [0, 1]]. The returned
    matrix multiplies the output at i and makes it depend on offsets only.
    """
    return c**-i * sp.Matrix([[1, -a * i], [0, 1]])


_A, _C, _I = sp.Symbol("a", real=True), sp.Symbol("c", positive=True), sp.Symbol("i")


def _inverse_with(entries, power=lambda i, c: c**-i):
    return lambda i, a, c: power(i, c) * sp.Matrix(entries(i, a))


INVERSE = Exercise(
    name="rotated-values-1",
    title="The inverse of a value's map",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: a layer with relative weights multiplies the value at position $j$ by $c^j \begin{pmatrix} 1 & aj \\ 0 & 1 \end{pmatrix}$ with $c > 0$.
By which matrix must the attention output of the query at $i$ be multiplied, so that it depends only on offsets?
At position 0 the matrix is the identity.
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
    solution=inverse_map,
    misconceptions=(
        Misconception(
            "The value's own map",
            "With the value's own map the sum of both positions counts, not their "
            "offset.",
            _inverse_with(lambda i, a: [[1, a * i], [0, 1]], lambda i, c: c**i),
        ),
        Misconception(
            "Transpose",
            "The inverse of a rotation is its transpose, but this map is no rotation.",
            _inverse_with(lambda i, a: [[1, 0], [a * i, 1]], lambda i, c: c**i),
        ),
        Misconception(
            "Transpose of the inverse",
            "The transposed inverse is for queries, which meet keys in an inner "
            "product.",
            _inverse_with(lambda i, a: [[1, 0], [-a * i, 1]]),
        ),
        Misconception(
            "Factor c^(−i) left out",
            "The values carry c^j, so the output needs c^(−i).",
            _inverse_with(
                lambda i, a: [[1, -a * i], [0, 1]], lambda i, c: sp.Integer(1)
            ),
        ),
        Misconception(
            "Only the factor",
            "The matrix must be inverted, too.",
            _inverse_with(lambda i, a: [[1, 0], [0, 1]]),
        ),
        Misconception(
            "Factor of the value",
            "The factor is c^(−i): only then do the positions subtract.",
            _inverse_with(lambda i, a: [[1, -a * i], [0, 1]], lambda i, c: c**i),
        ),
        Misconception(
            "Each entry inverted",
            "The inverse of a matrix is not that of its entries.",
            lambda i, a, c: c**-i * sp.Matrix([[1, 1 / (a * i)], [0, 1]]),
        ),
        Misconception(
            "Matrix not inverted",
            "In the inverse the upper right entry has the other sign.",
            _inverse_with(lambda i, a: [[1, a * i], [0, 1]]),
        ),
        Misconception(
            "Upper right entry divided by the factor once more",
            "The factor c^(−i) multiplies each entry once.",
            lambda i, a, c: c**-i * sp.Matrix([[1, -a * i * c**-i], [0, 1]]),
        ),
        Misconception(
            "Exponent 1 of the factor",
            "At position i the i-th power must be undone.",
            _inverse_with(lambda i, a: [[1, -a * i], [0, 1]], lambda i, c: 1 / c),
        ),
        Misconception(
            "Entry a in place of i a",
            "At position i the upper right entry is −i a.",
            _inverse_with(lambda i, a: [[1, -a], [0, 1]]),
        ),
        Misconception(
            "Identity",
            "Relative weights alone do not make the output depend only on offsets.",
            lambda i, a, c: sp.eye(2),
        ),
    ),
    properties=(
        Property(
            "The result is the inverse of the value's map at the same position",
            lambda answer, i, a, c: (
                sp.simplify(
                    answer(i, a, c) * c**i * sp.Matrix([[1, a * i], [0, 1]]) - sp.eye(2)
                )
                == sp.zeros(2)
            ),
        ),
    ),
    explanation=r"""
The map at $j$ is $\Phi(j) = c^j \begin{pmatrix} 1 & aj \\ 0 & 1 \end{pmatrix}$, and $\Phi(j)\,\Phi(j') = \Phi(j + j')$: powers of $c$ multiply, and the entries above the diagonals add.
So $\Phi(i)^{-1} = \Phi(-i) = c^{-i} \begin{pmatrix} 1 & -ai \\ 0 & 1 \end{pmatrix}$, and with it a value arrives at the query as $\Phi(-i)\,\Phi(j)\,v = \Phi(j - i)\,v$, which depends on the offset only.
By the theorem {prf:ref}`Values and outputs need inverse maps <thm-rotated-values-both>` no other matrix that is the identity at position 0 does this.
""",
)


# rotated-values-2: the reach of powers


def farthest_distance(tiny, gamma, span):
    """Return how far from the center xPos' factors do not underflow, as an expression.

    Up to this distance all factors are at least ``tiny``; ``gamma`` sets how fast the
    pairs decay, ``span`` is the unit of distance in the decay.
    """
    return span * sp.log(1 / tiny) / sp.log((1 + gamma) / gamma)


def _farther():
    gamma, span = sp.Rational(2, 5), sp.Integer(512)
    double, single = (
        farthest_distance(sp.Integer(2) ** exponent, gamma, span)
        for exponent in (-1022, -126)
    )
    return float(double / single)


_T, _G, _B = sp.symbols("t g b", positive=True)

FARTHEST = Exercise(
    name="rotated-values-2",
    title="The reach of xPos' powers",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
xPos multiplies pair $p$ of the query at a distance $n$ from the center by $\zeta_p^{n/B}$, with $\zeta_p = (2p/d + \gamma)/(1 + \gamma)$ and $B$ = `span`.
Up to which $n$ are all of these factors at least `tiny`, the smallest normal number of a dtype?
Return a SymPy expression of `tiny`, `gamma` and `span`.
How much farther does float64 reach than float32?
""",
    hint=r"""
Which pair has the smallest factor?
""",
    cases=(
        (sp.Rational(1, 8), sp.Rational(1, 3), sp.Integer(10)),
        (sp.Rational(1, 100), sp.Rational(2, 5), sp.Integer(512)),
        (_T, _G, _B),
    ),
    solution=farthest_distance,
    misconceptions=(
        Misconception(
            "Scale forgotten",
            "The exponent is n/B.",
            lambda tiny, gamma, span: sp.log(1 / tiny) / sp.log((1 + gamma) / gamma),
        ),
        Misconception(
            "Divided by B",
            "A larger B gives a slower decay, so the reach is larger.",
            lambda tiny, gamma, span: (
                sp.log(1 / tiny) / sp.log((1 + gamma) / gamma) / span
            ),
        ),
        Misconception(
            "γ in place of ζ₀",
            "The first pair has ζ₀ = γ/(1 + γ).",
            lambda tiny, gamma, span: span * sp.log(tiny) / sp.log(gamma),
        ),
        Misconception(
            "Wrong sign",
            "Both logarithms are negative, so their quotient is positive.",
            lambda tiny, gamma, span: span * sp.log(tiny) / sp.log((1 + gamma) / gamma),
        ),
        Misconception(
            "Quotient upside down",
            "Divide the logarithm of tiny by that of ζ₀.",
            lambda tiny, gamma, span: (
                span * sp.log((1 + gamma) / gamma) / sp.log(1 / tiny)
            ),
        ),
        Misconception(
            "Missing logarithm",
            "n stands in the exponent. Take logarithms.",
            lambda tiny, gamma, span: span * gamma / (1 + gamma) / tiny,
        ),
        Misconception(
            "Logarithms to two different bases",
            "The quotient of a logarithm to base 2 and a natural one depends on the "
            "base. Take both to the same base.",
            lambda tiny, gamma, span: (
                span * sp.log(1 / tiny) / sp.log(2) / sp.log((1 + gamma) / gamma)
            ),
        ),
        Misconception(
            "1 + γ in place of ζ₀",
            "ζ₀ has γ in the numerator.",
            lambda tiny, gamma, span: span * sp.log(1 / tiny) / sp.log(1 + gamma),
        ),
        Misconception(
            "Reach on both sides",
            "2n is the length of a text with its center in the middle.",
            lambda tiny, gamma, span: (
                2 * span * sp.log(1 / tiny) / sp.log((1 + gamma) / gamma)
            ),
        ),
        Misconception(
            "Exponent doubled",
            "A score has both factors, but each is a number of its own.",
            lambda tiny, gamma, span: (
                span * sp.log(1 / tiny) / sp.log((1 + gamma) / gamma) / 2
            ),
        ),
        Misconception(
            "Sum 1 + γ not divided as a whole",
            "ζ₀ is γ/(1 + γ): Python divides before it adds.",
            lambda tiny, gamma, span: span * sp.log(tiny) / sp.log(2 * gamma),
        ),
        Misconception(
            "Quotient of logarithms in place of the logarithm of a quotient",
            "log(γ/(1 + γ)) is a difference of two logarithms.",
            lambda tiny, gamma, span: (
                span * sp.log(tiny) * sp.log(1 + gamma) / sp.log(gamma)
            ),
        ),
        Misconception(
            "Logarithms added",
            "log(γ/(1 + γ)) is a difference of two logarithms. Their sum belongs to "
            "a product.",
            lambda tiny, gamma, span: (
                span * sp.log(1 / tiny) / sp.log(gamma * (1 + gamma))
            ),
        ),
        Misconception(
            "Logarithms subtracted, not divided",
            "n/B multiplies log ζ₀. So it is a quotient of two logarithms.",
            lambda tiny, gamma, span: (
                span * (sp.log(tiny) - sp.log(gamma / (1 + gamma)))
            ),
        ),
        Misconception(
            "Missing logarithms",
            "n stands in the exponent. Take logarithms.",
            lambda tiny, gamma, span: span * tiny * (1 + gamma) / gamma,
        ),
        Misconception(
            "1 − γ in place of γ",
            "The first pair has p = 0: ζ₀ = γ/(1 + γ).",
            lambda tiny, gamma, span: (
                span * sp.log(tiny) / sp.log((1 - gamma) / (1 + gamma))
            ),
        ),
        Misconception(
            "Exponential in place of the logarithm",
            "n stands in the exponent. Which function brings it down?",
            lambda tiny, gamma, span: span * sp.exp(tiny) / sp.exp(gamma / (1 + gamma)),
        ),
    ),
    properties=(
        Property(
            "Twice the B gives twice the distance",
            lambda answer, tiny, gamma, span: (
                sp.simplify(
                    answer(tiny, gamma, 2 * span) - 2 * answer(tiny, gamma, span)
                )
                == 0
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The first pair has the smallest factor, with $\zeta_0 = \gamma/(1 + \gamma)$.
$\zeta_0^{n/B} \ge t$ for $t$ = `tiny` means $\tfrac{n}{B} \log \zeta_0 \ge \log t$; both logarithms are negative, so $n \le B \log(1/t) / \log\tfrac{1 + \gamma}{\gamma}$.
The smallest normal numbers are $2^{-1022}$ in float64 and $2^{-126}$ in float32, so float64 reaches $1022/126 = 8.1$ times as far.
With the paper's numbers, 0.4 and 512 in {prf:ref}`the definition of xPos <def-xpos-box>`, these are about 289,500 and 35,700 positions.
""",
    prediction=Prediction(
        "How many times farther does float64 reach than float32?",
        _farther,
        near=0.05,
    ),
)


# rotated-values-3: rotated values


def rotate_values(weights, v, positions):
    """Return attention outputs of rotated values, rotated back, [tokens, d], float64.

    Values at position j are rotated by R_j, and the output at i by the inverse of R_i.
    ``weights`` are attention weights, [tokens, tokens]; ``v`` is [tokens, d], and
    ``positions`` are [tokens].
    """
    d = v.shape[-1]
    angle = positions[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    z = (v[:, 0::2] + 1j * v[:, 1::2]) * np.exp(1j * angle)
    z = (weights @ z) * np.exp(-1j * angle)
    return np.stack((z.real, z.imag), -1).reshape(v.shape)


def _rotate_values_with(
    into=lambda angle: angle,
    out=lambda angle: -angle,
    frequencies=lambda d: 10000.0 ** (-np.arange(0, d, 2) / d),
    half=False,
    mixed=lambda weights: weights,
):
    """Make a wrong answer (a function) to the exercise ``rotate_values``.

    The exercise asks for attention outputs of rotated values. Some steps of the answer
    can be wrong; with the defaults all are right. ``into(angle)`` are the angles by
    which values are rotated, ``out(angle)`` the angles by which outputs are rotated
    back. ``frequencies(d)`` replace RoPE's, ``half`` chooses the half layout, and
    ``mixed`` changes the attention weights.
    """

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


ROTATED = Exercise(
    name="rotated-values-3",
    title="Values that are rotated, and back",
    kind="NumPy",
    minutes=12,
    lines=5,
    statement=r"""
`weights` are `[tokens, tokens]`, a row for each query; `v` is `[tokens, d]`, `positions` `[tokens]`.
Return $R_i^\top \sum_j a_{ij} R_j v_j$, `[tokens, d]`, with RoPE's rotations for the base 10,000 and neighboring features as pairs.
Then move all positions by 100.
What changes, and what changes if the last rotation is left out?
""",
    hint=r"""
Take pairs as complex numbers: one multiplication before the sum, and one after it.
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
    solution=rotate_values,
    misconceptions=(
        Misconception(
            "Output not rotated back",
            "Your output is still rotated by the keys' positions.",
            _rotate_values_with(out=lambda angle: 0 * angle),
        ),
        Misconception(
            "Output rotated forwards",
            "The output is rotated by the inverse.",
            _rotate_values_with(out=lambda angle: angle),
        ),
        Misconception(
            "No rotation",
            "Your answer is the sum without any rotation. Either both rotations are "
            "missing, or the second comes before the sum.",
            _rotate_values_with(
                into=lambda angle: 0 * angle, out=lambda angle: 0 * angle
            ),
        ),
        Misconception(
            "Values not rotated",
            "The values are rotated by their own positions first.",
            _rotate_values_with(into=lambda angle: 0 * angle),
        ),
        Misconception(
            "Both rotations in the wrong direction",
            "RoPE rotates by +position before the sum.",
            _rotate_values_with(into=lambda angle: -angle, out=lambda angle: angle),
        ),
        Misconception(
            "Half layout",
            "Features 2p and 2p + 1 are a pair.",
            _rotate_values_with(half=True),
        ),
        Misconception(
            "One frequency per feature",
            "A pair has one frequency, base^(−2p/d).",
            _rotate_values_with(
                frequencies=lambda d: 10000.0 ** (-np.arange(d // 2) / d)
            ),
        ),
        Misconception(
            "Pairs counted from 1",
            "The first pair's frequency is 1: p counts from 0.",
            _rotate_values_with(
                frequencies=lambda d: 10000.0 ** (-np.arange(2, d + 2, 2) / d)
            ),
        ),
        Misconception(
            "Weights transposed",
            "A row of the weights belongs to a query.",
            _rotate_values_with(mixed=lambda weights: weights.T),
        ),
        Misconception(
            "Positions counted from 0",
            "Use `positions`, which are given.",
            lambda weights, v, positions: rotate_values(
                weights, v, np.arange(len(positions)) * 1.0
            ),
        ),
        Misconception(
            "First position for all queries",
            "Each query's output is rotated back by its own position.",
            _rotate_values_with(out=lambda angle: -angle[:1] + 0 * angle),
        ),
        Misconception(
            "Frequencies rise",
            "The first pair has the frequency 1, and the others have smaller ones: "
            "base^(−2p/d).",
            _rotate_values_with(
                frequencies=lambda d: 10000.0 ** (np.arange(0, d, 2) / d)
            ),
        ),
        Misconception(
            "One frequency for all pairs",
            "Pair p has the frequency base^(−2p/d). Is an exponent cut to an integer?",
            _rotate_values_with(frequencies=lambda d: np.ones(d // 2)),
        ),
        Misconception(
            "Frequencies from 1 down to 1/base",
            "The last of d/2 pairs has p = d/2 − 1: its frequency is not 1/base.",
            _rotate_values_with(
                frequencies=lambda d: (
                    10000.0 ** (-np.arange(d // 2) / max(d // 2 - 1, 1))
                )
            ),
        ),
        Misconception(
            "Base 1000",
            "The base is 10,000.",
            _rotate_values_with(
                frequencies=lambda d: 1000.0 ** (-np.arange(0, d, 2) / d)
            ),
        ),
        Misconception(
            "Weights times a cosine",
            "Each pair of a value is rotated by an angle of its own, and a rotation "
            "has a sine, too.",
            lambda weights, v, positions: (
                weights * np.cos(positions[:, None] - positions) @ v
            ),
        ),
        Misconception(
            "Positions sorted",
            "`positions` are those of the tokens, in their order.",
            lambda weights, v, positions: rotate_values(weights, v, np.sort(positions)),
        ),
    ),
    properties=(
        Property(
            "A shift of all positions changes nothing",
            lambda answer, weights, v, positions: bool(
                np.allclose(
                    answer(weights, v, positions + 7), answer(weights, v, positions)
                )
            ),
        ),
        Property(
            "Where all positions are equal the output is weights @ v",
            lambda answer, weights, v, positions: bool(
                np.allclose(answer(weights, v, 0 * positions + 3.0), weights @ v)
            ),
        ),
    ),
    explanation=r"""
If all positions move by 100, the output stays the same up to rounding: it is $\sum_j a_{ij} R_{j-i}\, v_j$, and offsets do not change.
Without the last rotation it is $\sum_j a_{ij} R_j\, v_j$, and every output is rotated by $R_{100}$.
By the theorem {prf:ref}`Values and outputs need inverse maps <thm-rotated-values-both>` rotated values are relative only with the inverse rotation of the output.
""",
)


# rotated-values-4: xPos a million tokens from the start


def xpos_scores(q, k, positions, gamma, span):
    """Return xPos' scores, [tokens, tokens], 0 for later keys; float64, finite.

    ``q`` and ``k`` are [tokens, d], ``positions`` are [tokens]. ``gamma`` sets how fast
    the pairs decay, ``span`` is the unit of distance in the decay.
    """
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
    half=False,
    conjugate=np.conj,
):
    """Make a wrong answer (a function) to the exercise ``xpos_scores``.

    The exercise asks for xPos' scores. Some steps of the answer can be wrong; with the
    defaults all are right. The decay is ``zeta(d, gamma)`` to the ``power(offset,
    span)``, the offset being limited by ``reach``; without ``of_offset`` the decay is a
    quotient of two positions' factors. ``angle(offset)`` replaces the offset in the
    rotation, ``end`` masks the scores, ``half`` chooses the half layout, and
    ``conjugate`` is applied to the keys' pairs, as complex numbers.
    """

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
            first = slice(d // 2) if half else slice(0, d, 2)
            second = slice(d // 2, d) if half else slice(1, d, 2)
            z_q, z_k = (x[:, first] + 1j * x[:, second] for x in (q, k))
            scores = (z_q[:, None] * conjugate(z_k) * factor).sum(-1).real
            return end(scores, offset[..., 0])

    return answer


def _far(tokens, d, seed, start, step, gamma, span):
    q, k = draw(2, tokens, d, seed=seed)
    return q, k, start + step * np.arange(tokens), gamma, span


SCORES = Exercise(
    name="rotated-values-4",
    title="xPos, a million tokens from the start",
    kind="experiment",
    minutes=25,
    lines=8,
    statement=r"""
`q` and `k` are `[tokens, d]` with neighboring features as pairs, and `positions`, `[tokens]`, rises.
Return xPos' scores $\sum_p \zeta_p^{(i-j)/B}\,(R_i q_i)_p^\top (R_j k_j)_p$ for keys that are not later than their query, and 0 for others: `[tokens, tokens]`, float64, finite at positions of a million, too.
`gamma` is $\gamma$ and `span` is $B$; the base is 10,000 and nothing is divided by $\sqrt d$.
Then compute $\zeta_0^{i/B}$ and $\zeta_0^{-j/B}$ apart at a million.
What is their product in floating point?
""",
    hint=r"""
Which power does a score need?
""",
    cases=(
        (np.ones((2, 2)), np.ones((2, 2)), np.array([0.0, 2.0]), 1.0, 2.0),
        _far(3, 4, 0, 0.0, 1.0, 0.4, 8.0),
        _far(4, 6, 1, 1e6, 100.0, 0.4, 512.0),
        _far(2, 4, 30, 0.0, 1e6, 0.4, 512),
    ),
    solution=xpos_scores,
    misconceptions=(
        Misconception(
            "Two powers, of i and of j",
            "Far from 0 each of the two powers is 0 or infinite. Only their product is "
            "finite: take the power of the offset.",
            _scores(of_offset=False),
        ),
        Misconception(
            "No decay",
            "Your scores are RoPE's.",
            _scores(power=lambda offset, span: 0 * offset),
        ),
        Misconception(
            "Growth in place of decay",
            "Far keys get less of each product, not more.",
            _scores(power=lambda offset, span: -offset / span),
        ),
        Misconception(
            "Scale forgotten",
            "The exponent is the offset over B.",
            _scores(power=lambda offset, span: offset),
        ),
        Misconception(
            "Exponent doubled",
            "The query's and the key's factor together give one power of the offset.",
            _scores(power=lambda offset, span: 2 * offset / span),
        ),
        Misconception(
            "One ζ for all pairs",
            "Each pair has a ζ of its own: fast pairs decay fastest.",
            _scores(zeta=lambda d, gamma: gamma / (1 + gamma) + np.zeros(d // 2)),
        ),
        Misconception(
            "p/d in place of 2p/d",
            "The slowest pair's ζ is close to 1.",
            _scores(zeta=lambda d, g: (np.arange(d // 2) / d + g) / (1 + g)),
        ),
        Misconception(
            "Decay fastest for slow pairs",
            "ζ grows with p.",
            _scores(zeta=lambda d, g: ((np.arange(0, d, 2) / d + g) / (1 + g))[::-1]),
        ),
        Misconception(
            "Missing 1 + γ",
            "ζ is at most 1.",
            _scores(zeta=lambda d, g: np.arange(0, d, 2) / d + g),
        ),
        Misconception(
            "No rotation",
            "xPos is RoPE with a decay.",
            _scores(angle=lambda offset: 0 * offset),
        ),
        Misconception(
            "Later keys not masked",
            "The scores of later keys are 0 here.",
            _scores(end=lambda scores, offset: scores),
        ),
        Misconception(
            "Query's own key masked",
            "The key at the query's own position is not later.",
            _scores(end=lambda scores, offset: np.where(offset > 0, scores, 0.0)),
        ),
        Misconception(
            "Divided by √d",
            "The scores are not divided here.",
            lambda q, k, positions, gamma, span: (
                xpos_scores(q, k, positions, gamma, span) / np.sqrt(q.shape[-1])
            ),
        ),
        Misconception(
            "Later keys not masked, and growing",
            "The scores of later keys are 0 here.",
            _scores(reach=lambda offset: offset, end=lambda scores, offset: scores),
        ),
        Misconception(
            "Later keys not masked, with the decay of their distance",
            "The scores of later keys are 0 here.",
            _scores(reach=abs, end=lambda scores, offset: scores),
        ),
        Misconception(
            "Rotation by minus the offset",
            "Queries and keys are rotated by +position: the phase of q times the "
            "conjugate of k is +(i − j) ω.",
            _scores(angle=lambda offset: -offset),
        ),
        Misconception(
            "Half layout",
            "Neighboring features 2p and 2p + 1 are a pair.",
            _scores(half=True),
        ),
        Misconception(
            "−∞ for later keys",
            "The scores of later keys are 0 here.",
            _scores(end=lambda scores, offset: np.where(offset >= 0, scores, -np.inf)),
        ),
        Misconception(
            "Indices in place of positions",
            "Use `positions`, which are given.",
            lambda q, k, positions, gamma, span: xpos_scores(
                q, k, np.arange(len(q)) * 1.0, gamma, span
            ),
        ),
        Misconception(
            "Decay by indices",
            "The decay is by the distance of two positions, as is the rotation.",
            lambda q, k, positions, gamma, span: _scores(
                reach=lambda offset: np.maximum(
                    np.subtract.outer(np.arange(len(q)), np.arange(len(q))), 0
                )[..., None]
            )(q, k, positions, gamma, span),
        ),
        Misconception(
            "γ = 0.4 for every input",
            "γ is the argument `gamma`.",
            lambda q, k, positions, gamma, span: xpos_scores(
                q, k, positions, 0.4, span
            ),
        ),
        Misconception(
            "B = 512 for every input",
            "B is the argument `span`.",
            lambda q, k, positions, gamma, span: xpos_scores(
                q, k, positions, gamma, 512
            ),
        ),
        Misconception(
            "Offset times B",
            "The exponent is the offset over B.",
            _scores(power=lambda offset, span: offset * span),
        ),
        Misconception(
            "Whole quotient of offset and B",
            "The exponent is a real number: `/`, not `//`.",
            _scores(power=lambda offset, span: offset // span),
        ),
        Misconception(
            "Sum 1 + γ not divided as a whole",
            "Python divides before it adds: 1 + γ needs parentheses.",
            _scores(zeta=lambda d, g: (np.arange(0, d, 2) / d + g) / 1 + g),
        ),
        Misconception(
            "ζ up to 1 in the last pair",
            "The last of d/2 pairs has p = d/2 − 1: its ζ is below 1.",
            _scores(
                zeta=lambda d, g: (np.arange(d // 2) / max(d // 2 - 1, 1) + g) / (1 + g)
            ),
        ),
        Misconception(
            "Mean ζ for all pairs",
            "Each pair has a ζ of its own: fast pairs decay fastest.",
            _scores(
                zeta=lambda d, g: np.full(
                    d // 2, (np.arange(0, d, 2) / d + g).mean() / (1 + g)
                )
            ),
        ),
        Misconception(
            "Exponential of −ζ",
            "ζ is the base of the power, not a rate.",
            _scores(zeta=lambda d, g: np.exp(-(np.arange(0, d, 2) / d + g) / (1 + g))),
        ),
        Misconception(
            "Conjugate missing",
            "An inner product of two pairs is the real part of one times the "
            "conjugate of the other.",
            _scores(conjugate=lambda z: z),
        ),
        Misconception(
            "Mean over the pairs",
            "The products of the pairs are summed.",
            lambda q, k, positions, gamma, span: (
                2 * xpos_scores(q, k, positions, gamma, span) / q.shape[-1]
            ),
        ),
        Misconception(
            "Earlier keys masked",
            "The scores of *later* keys are 0.",
            _scores(end=lambda scores, offset: np.where(offset <= 0, scores, 0.0)),
        ),
        Misconception(
            "Weights in place of scores",
            "The scores are asked for, before any softmax.",
            _scores(
                end=lambda scores, offset: (
                    np.exp(scores)
                    * (offset >= 0)
                    / (np.exp(scores) * (offset >= 0)).sum(-1, keepdims=True)
                )
            ),
        ),
        Misconception(
            "NaN replaced by 0",
            "Far from 0 each of the two powers is 0 or infinite, and what was lost is "
            "not 0. Take one power, of the offset.",
            _scores(
                of_offset=False,
                end=lambda scores, offset: np.where(
                    offset >= 0, np.nan_to_num(scores, posinf=0, neginf=0), 0.0
                ),
            ),
        ),
        Misconception(
            "Earlier keys masked as well",
            "If later keys and then earlier ones are set to 0, only the diagonal is "
            "left. The scores of earlier keys stay.",
            _scores(end=lambda scores, offset: np.where(offset == 0, scores, 0.0)),
        ),
    ),
    properties=(
        Property(
            "A shift of all positions by 10 changes nothing",
            lambda answer, q, k, positions, gamma, span: bool(
                np.allclose(
                    answer(q, k, positions + 10, gamma, span),
                    answer(q, k, positions, gamma, span),
                )
            ),
        ),
        Property(
            "No score exceeds the product of the two vectors' lengths, as ζ is at most 1",
            lambda answer, q, k, positions, gamma, span: bool(
                (
                    abs(answer(q, k, positions, gamma, span))
                    <= np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(k, axis=1)
                    + 1e-9
                ).all()
            ),
        ),
    ),
    level="hard",
    explanation=r"""
A score needs one power for each pair, $\zeta_p^{(i-j)/B}$, which is between 0 and 1 for keys that are not later.
Apart, $\zeta_0^{i/B}$ is $3.5^{-1953}$ at a million with the paper's $\gamma = 0.4$ and $B = 512$, which float64 rounds to 0, and $\zeta_0^{-j/B}$ is infinite in NumPy; their product is NaN.
A center in the middle of the text, as in {prf:ref}`the definition of xPos <def-xpos-box>`, makes the exponents smaller but only helps up to the distance of exercise rotated-values-2.
{prf:ref}`The theorem on far logits <thm-xpos-far>` says what remains of a score: at most $\zeta^{(i-j)/B}$ of the slowest pair, times the lengths.
""",
)


# rotated-values-5: inverse camera matrices


def inverse_cameras(cameras):
    """Return the inverses of camera matrices, [tokens, 4, 4].

    Each matrix of ``cameras``, [tokens, 4, 4], has a rotation, a translation and the
    last row 0, 0, 0, 1.
    """
    inverse = np.zeros_like(cameras)
    back = cameras[:, :3, :3].swapaxes(1, 2)
    inverse[:, :3, :3] = back
    inverse[:, :3, 3:] = -back @ cameras[:, :3, 3:]
    inverse[:, 3, 3] = 1
    return inverse


def _inverses(
    rotation=lambda R: R.swapaxes(1, 2),
    move=lambda R, t: -R.swapaxes(1, 2) @ t,
    corner=1.0,
):
    """Make a wrong answer (a function) to the exercise ``inverse_cameras``.

    The exercise asks for inverses of camera matrices. In the wrong answer,
    ``rotation(R)`` replaces the inverse's rotation Rᵀ, ``move(R, t)`` the inverse's
    translation −Rᵀ t, or ``corner`` the last entry, 1.
    """

    def answer(cameras):
        R, t = cameras[:, :3, :3], cameras[:, :3, 3:]
        inverse = np.zeros_like(cameras)
        inverse[:, :3, :3], inverse[:, :3, 3:] = rotation(R), move(R, t)
        inverse[:, 3, 3] = corner
        return inverse

    return answer


def _cameras(tokens, seed):
    rotations, _ = np.linalg.qr(draw(tokens, 3, 3, seed=seed))
    rotations = rotations * np.sign(np.linalg.det(rotations))[:, None, None]
    made = np.zeros((tokens, 4, 4))
    made[:, :3, :3], made[:, 3, 3] = rotations, 1
    made[:, :3, 3] = draw(tokens, 3, seed=seed + 1)
    return made


_ONE = np.eye(4)[None, [1, 2, 0, 3]]
_ONE[0, :3, 3] = [1, 2, 3]

INVERSES = Exercise(
    name="rotated-values-5",
    title="Inverse camera matrices",
    kind="NumPy",
    minutes=10,
    lines=5,
    statement=r"""
`cameras` are matrices $\begin{pmatrix} R & t \\ 0 & 1 \end{pmatrix}$ with rotations $R$, `[tokens, 4, 4]`.
Return their inverses, float64.
$R$ and $t$ are all that they need: a solver would give the same, with more work and rounding.
For which of them is the transpose enough?
""",
    hint=r"""
Let $y = Rx + t$.
What is $x$?
""",
    cases=((_ONE,), (_cameras(2, 0),), (_cameras(5, 3),)),
    solution=inverse_cameras,
    misconceptions=(
        Misconception(
            "Transpose",
            "The transpose inverts the rotation, but puts the translation into the "
            "last row.",
            lambda cameras: cameras.swapaxes(1, 2),
        ),
        Misconception(
            "−t, not rotated back",
            "The translation is subtracted before the inverse rotation, so it is "
            "rotated back as well.",
            _inverses(move=lambda R, t: -t),
        ),
        Misconception(
            "t rotated forwards",
            "t is rotated by the transpose.",
            _inverses(move=lambda R, t: -R @ t),
        ),
        Misconception(
            "Wrong sign of the translation",
            "The inverse subtracts the translation.",
            _inverses(move=lambda R, t: R.swapaxes(1, 2) @ t),
        ),
        Misconception(
            "Rotation not inverted",
            "The inverse rotates back.",
            _inverses(rotation=lambda R: R),
        ),
        Misconception(
            "Only the rotation",
            "The translation must be undone, too.",
            _inverses(move=lambda R, t: 0 * t),
        ),
        Misconception(
            "Only the translation",
            "The rotation must be undone, too.",
            _inverses(rotation=lambda R: R, move=lambda R, t: -t),
        ),
        Misconception(
            "Negative in place of the inverse rotation",
            "The inverse of a rotation is its transpose, not its negative.",
            _inverses(rotation=lambda R: -R, move=lambda R, t: -t),
        ),
        Misconception(
            "0 in the corner",
            "The last row is 0, 0, 0, 1.",
            _inverses(corner=0.0),
        ),
        Misconception(
            "−1 in the corner",
            "The last row is 0, 0, 0, 1.",
            _inverses(corner=-1.0),
        ),
        Misconception(
            "Each entry inverted",
            "The inverse of a matrix is not that of its entries.",
            lambda cameras: np.divide(
                1.0, cameras, out=np.zeros_like(cameras), where=cameras != 0
            ),
        ),
        Misconception(
            "Transposed, with −t in the last row",
            "The translation stands in the last column.",
            lambda cameras: _negated(cameras.swapaxes(1, 2)),
        ),
        Misconception(
            "Rotation not inverted, and t rotated forwards",
            "The inverse rotates back, t as well.",
            _inverses(rotation=lambda R: R, move=lambda R, t: -R @ t),
        ),
    ),
    properties=(
        Property(
            "A camera times its inverse is I",
            lambda answer, cameras: bool(
                np.allclose(cameras @ answer(cameras), np.eye(4))
            ),
        ),
    ),
    explanation=r"""
From $y = Rx + t$ follows $x = R^\top (y - t) = R^\top y - R^\top t$, since the inverse of a rotation is its transpose.
So the inverse has $R^\top$ and $-R^\top t$, as in {prf:ref}`the theorem on poses <thm-gta>`.
The transpose of the whole matrix is enough only for $t = 0$: otherwise it has $t^\top$ in its last row.
""",
)


def _negated(transposed):
    changed = transposed.copy()
    changed[:, 3, :3] *= -1
    return changed


# rotated-values-6: attention with poses


def attend_with_poses(q, k, v, cameras, inverses):
    """Return GTA's attention output, [tokens, d], in the dtype of q.

    ``q``, ``k`` and ``v`` are [tokens, d]. ``cameras`` and ``inverses`` are the
    matrices of the tokens' poses and the inverses of these matrices, [tokens, 4, 4].
    """

    def act(matrices, x):
        blocks = x.reshape(len(x), -1, 4)
        return torch.einsum("nab,nmb->nma", matrices, blocks).reshape(x.shape)

    scores = act(cameras.mT, q) @ act(inverses, k).T / q.shape[-1] ** 0.5
    return act(cameras, scores.softmax(-1) @ act(inverses, v))


def _unmapped(cameras, inverses):
    return torch.eye(4, dtype=cameras.dtype).expand_as(cameras)


def _rotation_only(cameras, inverses):
    only = cameras.clone()
    only[:, :3, 3] = 0
    return only


def _first_block_mapped(q, k, v, cameras, inverses):
    def act(matrices, x):
        first = torch.einsum("nab,nb->na", matrices, x[:, :4])
        return torch.cat((first, x[:, 4:]), -1)

    scores = act(cameras.mT, q) @ act(inverses, k).T / q.shape[-1] ** 0.5
    return act(cameras, scores.softmax(-1) @ act(inverses, v))


def _softmax_for_each_block(q, k, v, cameras, inverses):
    blocks = zip(*(x.split(4, -1) for x in (q, k, v)), strict=True)
    answer = _posed(scale=lambda _: q.shape[-1] ** -0.5)
    return torch.cat([answer(*block, cameras, inverses) for block in blocks], -1)


def _posed(
    for_q=lambda c, i: c.mT,
    for_k=lambda c, i: i,
    for_v=lambda c, i: i,
    for_out=lambda c, i: c,
    scale=lambda d: d**-0.5,
    weights=lambda s: s.softmax(-1),
    blocks=lambda x: x.reshape(len(x), -1, 4),
    back=lambda y, x: y.reshape(x.shape),
):
    """Make a wrong answer (a function) to the exercise ``attend_with_poses``.

    The exercise asks for GTA's attention output. Some steps of the answer can be wrong;
    with the defaults all are right. ``for_q``, ``for_k``, ``for_v`` and ``for_out``
    choose which matrices (cameras, inverses or their transposes) multiply queries,
    keys, values and outputs. ``scale(d)`` multiplies the scores, and ``weights`` makes
    attention weights of them. ``blocks`` splits the features into fours, ``back`` joins
    them.
    """

    def answer(q, k, v, cameras, inverses):
        def act(pick, x):
            y = torch.einsum("nab,nmb->nma", pick(cameras, inverses), blocks(x))
            return back(y, x)

        scores = act(for_q, q) @ act(for_k, k).T * scale(q.shape[-1])
        return act(for_out, weights(scores) @ act(for_v, v))

    return answer


def _scene(tokens, d, seed):
    own = _cameras(tokens, seed)
    contents = draw(3, tokens, d, seed=seed + 2)
    both = own, inverse_cameras(own)
    return tuple(torch.tensor(x) for x in (*contents, *both))


def _far_scores():
    """Return a scene whose second query has scores a thousand times as large."""
    q, *others = _scene(2, 4, 5)
    return q * torch.tensor([[1.0], [1000.0]]), *others


def _moved(answer, q, k, v, cameras, inverses):
    step = torch.tensor(_cameras(1, 40)).to(q)
    back = torch.tensor(inverse_cameras(_cameras(1, 40))).to(q)
    here = answer(q, k, v, cameras, inverses)
    there = answer(q, k, v, cameras @ step, back @ inverses)
    return bool(torch.allclose(there, here, atol=1e-4))


POSES = Exercise(
    name="rotated-values-6",
    title="Attention with poses",
    kind="PyTorch",
    minutes=15,
    lines=6,
    statement=r"""
`q`, `k` and `v` are `[tokens, d]`, one head.
`cameras` and `inverses` are the matrices $C_i$ of the tokens' poses and $C_i^{-1}$, `[tokens, 4, 4]`, and act on each four neighboring features.
Return GTA's output, `[tokens, d]`, where every token looks at all tokens, with scores divided by $\sqrt d$.
All tensors have one dtype, float64 or float32, and the output has it, too.
What changes if every $C_i$ becomes $C_i H$, and what if it becomes $H C_i$?
""",
    hint=r"""
There are four matrices for four tensors.
Which of them is transposed, and which inverted?
""",
    cases=(
        _scene(1, 4, 0),
        _scene(2, 4, 5),
        _scene(3, 8, 10),
        _scene(4, 12, 20),
        tuple(x.float() for x in _scene(2, 4, 30)),
        _far_scores(),
    ),
    solution=attend_with_poses,
    misconceptions=(
        Misconception(
            "Queries without the transpose",
            "A score is an inner product: only with the transpose do the query's and "
            "the key's matrix multiply.",
            _posed(for_q=lambda c, i: c),
        ),
        Misconception(
            "The keys' map for queries",
            "One map for queries and keys is right only for rotations.",
            _posed(for_q=lambda c, i: i),
        ),
        Misconception(
            "Transposes in place of inverses",
            "Transposes are right only for rotations.",
            _posed(for_k=lambda c, i: c.mT, for_v=lambda c, i: c.mT),
        ),
        Misconception(
            "Values not mapped",
            "Without a map of the values the output is not in the query's frame.",
            _posed(for_v=_unmapped),
        ),
        Misconception(
            "Output not mapped",
            "The values were mapped to the world. The output still needs the query's "
            "camera.",
            _posed(for_out=_unmapped),
        ),
        Misconception(
            "Inverse for the output",
            "Values are multiplied by the inverse, so the output is multiplied by the "
            "camera.",
            _posed(for_out=lambda c, i: i),
        ),
        Misconception(
            "Transpose for the output",
            "The transpose belongs to queries, which meet keys in an inner product. The "
            "output is a sum of values, and is multiplied by the camera itself.",
            _posed(for_out=lambda c, i: c.mT),
        ),
        Misconception(
            "Cameras for the keys",
            "A query's camera must meet the inverse of the key's: keys are multiplied "
            "by the inverse.",
            _posed(for_k=lambda c, i: c),
        ),
        Misconception(
            "Transposed inverses for the keys",
            "The transpose in front of the query's camera is all that the inner "
            "product needs: keys are multiplied by the inverse.",
            _posed(for_k=lambda c, i: i.mT),
        ),
        Misconception(
            "Cameras for the values",
            "Values are multiplied by the inverse of their camera, and the output by "
            "the query's camera.",
            _posed(for_v=lambda c, i: c),
        ),
        Misconception(
            "Maps of values and output exchanged",
            "Values are multiplied by the inverse, and the output by the camera.",
            _posed(for_v=lambda c, i: c, for_out=lambda c, i: i),
        ),
        Misconception(
            "Poses from camera to world",
            "In your answer all four maps are inverted. These poses map the world to "
            "the camera.",
            _posed(
                for_q=lambda c, i: i.mT,
                for_k=lambda c, i: c,
                for_v=lambda c, i: c,
                for_out=lambda c, i: i,
            ),
        ),
        Misconception(
            "No division by √d",
            "Scores are divided by √d.",
            _posed(scale=lambda d: 1.0),
        ),
        Misconception(
            "Scale of a block",
            "d is the number of all features, not that of a block.",
            _posed(scale=lambda d: 0.5),
        ),
        Misconception(
            "Softmax over queries",
            "The weights of a query sum to 1.",
            _posed(weights=lambda s: s.softmax(0)),
        ),
        Misconception(
            "Blocks of features d/4 apart",
            "A block is four neighboring features.",
            _posed(
                blocks=lambda x: x.reshape(len(x), 4, -1).mT,
                back=lambda y, x: y.mT.reshape(x.shape),
            ),
        ),
        Misconception(
            "Causal mask",
            "Every token looks at all tokens.",
            _posed(
                weights=lambda s: s.masked_fill(
                    torch.ones_like(s).triu(1).bool(), -torch.inf
                ).softmax(-1)
            ),
        ),
        Misconception(
            "One map for all four tensors",
            "Queries get the transpose, keys and values the inverse, and the output "
            "the camera.",
            _posed(for_q=lambda c, i: c, for_k=lambda c, i: c, for_v=lambda c, i: c),
        ),
        Misconception(
            "Values and output not mapped",
            "Your scores are relative, but values must be mapped to the query's "
            "camera, too.",
            _posed(
                for_v=_unmapped,
                for_out=_unmapped,
            ),
        ),
        Misconception(
            "Attention without poses",
            "Each token's query, key, value and output are multiplied by matrices of "
            "its own pose. With one pose for all tokens the matrices cancel.",
            _posed(
                for_q=_unmapped, for_k=_unmapped, for_v=_unmapped, for_out=_unmapped
            ),
        ),
        Misconception(
            "Queries and keys not mapped",
            "Your scores do not depend on the poses. Queries and keys are mapped, too.",
            _posed(for_q=_unmapped, for_k=_unmapped),
        ),
        Misconception(
            "Queries not mapped",
            "A query is multiplied by a matrix as well.",
            _posed(for_q=_unmapped),
        ),
        Misconception(
            "Keys not mapped",
            "A key is multiplied by a matrix as well.",
            _posed(for_k=_unmapped),
        ),
        Misconception(
            "Divided by d",
            "Scores are divided by the *root* of d.",
            _posed(scale=lambda d: 1 / d),
        ),
        Misconception(
            "Multiplied by √d",
            "Scores are *divided* by √d.",
            _posed(scale=lambda d: d**0.5),
        ),
        Misconception(
            "Root of the number of tokens",
            "d is the number of features of a token.",
            lambda q, k, v, cameras, inverses: _posed(scale=lambda d: len(q) ** -0.5)(
                q, k, v, cameras, inverses
            ),
        ),
        Misconception(
            "No softmax",
            "The weights are the softmax of the scores.",
            _posed(weights=lambda s: s),
        ),
        Misconception(
            "A softmax for each block",
            "One head has one score for a query and a key: the sum over all blocks.",
            _softmax_for_each_block,
        ),
        Misconception(
            "Translations left out",
            "A pose has a translation, too: the last column of its matrix.",
            _posed(
                for_q=lambda c, i: _rotation_only(c, i).mT,
                for_k=lambda c, i: _rotation_only(c, i).mT,
                for_v=lambda c, i: _rotation_only(c, i).mT,
                for_out=_rotation_only,
            ),
        ),
        Misconception(
            "Scores transposed",
            "A row of the scores belongs to a query, a column to a key.",
            _posed(weights=lambda s: s.T.softmax(-1)),
        ),
        Misconception(
            "Only the first four features mapped",
            "The matrices act on each four neighboring features: on all blocks.",
            _first_block_mapped,
        ),
    ),
    properties=(Property("Another frame of the world changes nothing", _moved),),
    tolerance=1e-5,
    explanation=r"""
Scores and outputs contain the poses only as $C_i C_j^{-1}$, by {prf:ref}`the theorem on poses <thm-gta>`: queries get $C_i^\top$, keys and values $C_j^{-1}$, and the output $C_i$.
$C_i H$ changes nothing, since $C_i H (C_j H)^{-1} = C_i C_j^{-1}$: the world has another frame.
$H C_i$ makes it $H C_i C_j^{-1} H^{-1}$, so in general scores and outputs change, but for a token's score with itself: every camera has been moved in its own frame.
""",
)


# rotated-values-7: a translation that is not rotated back


def colleagues_inverses(cameras):
    """Inverses [tokens, 4, 4] of camera matrices.

    A camera has a rotation and a translation.
    """
    inverse = np.array(cameras, dtype=float)
    inverse[:, :3, :3] = cameras[:, :3, :3].swapaxes(1, 2)
    inverse[:, :3, 3] = -cameras[:, :3, 3]
    return inverse


def cameras_with_wrong_inverses():
    """Return the smallest cameras for which `colleagues_inverses` is wrong.

    They are an array ``[tokens, 4, 4]``.
    """
    camera = np.diag([-1.0, -1.0, 1.0, 1.0])
    camera[0, 3] = 1.0
    return camera[None]


def _refused_cameras(cameras):
    if not isinstance(cameras, np.ndarray) or cameras.dtype != float:
        return "cameras are a float64 array"
    if cameras.ndim != 3 or cameras.shape[1:] != (4, 4) or not len(cameras):
        return "cameras are [tokens, 4, 4], with one token or more"
    if (cameras[:, 3] != [0, 0, 0, 1]).any() or not np.abs(cameras).max() <= 1000:
        return "the last row is 0, 0, 0, 1, and no entry is above 1000"
    rotations = cameras[:, :3, :3]
    lengths = np.abs(rotations.swapaxes(1, 2) @ rotations - np.eye(3)).max()
    if lengths > 1e-12 or (np.linalg.det(rotations) < 0).any():
        return "the first three rows and columns are a rotation matrix"
    return ""


def _shifted(rotation, translation):
    camera = rotation.copy()
    camera[:3, 3] = translation
    return camera[None]


_QUARTER = np.diag([1.0, -1.0, 1.0, 1.0])[[1, 0, 2, 3]]

TRANSLATION = Exercise(
    name="rotated-values-7",
    title="Find the input: a camera",
    kind="find the input",
    minutes=10,
    lines=3,
    statement=r"""
`colleagues_inverses` should do what exercise rotated-values-5 asks for.
Her tests are a camera that is only translated, one that is only rotated, and one that is rotated by a quarter turn about the direction of its translation; all pass.
Find cameras for which it is wrong.
The smallest are those with the fewest entries that differ from the identity matrix, counted over all cameras.
What do her tests have in common?
""",
    hint=r"""
The translation of the inverse is $-R^\top t$: when is it $-t$?
Which rotation differs from the identity matrix in the fewest entries?
""",
    cases=((),),
    solution=cameras_with_wrong_inverses,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_inverses,
        right=inverse_cameras,
        tested=(
            (_shifted(np.eye(4), [1.0, 2.0, 3.0]),),
            (_shifted(_QUARTER, [0.0, 0.0, 0.0]),),
            (_shifted(_QUARTER, [0.0, 0.0, 2.0]),),
        ),
        refusal=_refused_cameras,
        size=lambda cameras: int((cameras != np.eye(4)).sum()),
        size_of="number of entries that differ",
    ),
    explanation=r"""
In all her tests $R^\top t = t$: there is no rotation, no translation, or the translation lies on the axis of the rotation.
A rotation other than the identity differs from it in two entries or more, and half turns about a coordinate axis differ in two; with one number of a translation across the axis these are three.
For $R = \mathrm{diag}(-1, -1, 1)$ and $t = (1, 0, 0)$ right is $-R^\top t = (1, 0, 0)$, by {prf:ref}`the theorem on poses <thm-gta>`, and hers is $(-1, 0, 0)$.
The product of a camera and its inverse should be the identity for *random* cameras: that test has no blind spot.
""",
)


SHEET = Sheet(
    title="Rotated values (DeepSeek-V4), xPos and GTA",
    conventions=r"""
Positions $i$ of queries and $j$ of keys count from 0.
A camera's matrix maps the world to the camera.
Neighboring features $2p$ and $2p + 1$ are pair $p$.
""",
    example=r"""
from posedu.numpy.rotary import camera_matrix

pose = [5.0, 0.0, 0.0, 0.0, 0.0, np.pi / 2]  # t, rotation
point = [1.0, 0.0, 0.0, 1.0]  # in the world
in_camera = camera_matrix(pose) @ point
print(np.rint(in_camera).astype(int))
""",
    figure="rotated_values_explorable",
    exercises=(INVERSE, FARTHEST, ROTATED, SCORES, INVERSES, POSES, TRANSLATION),
)
