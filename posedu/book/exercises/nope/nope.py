"""Exercises on NoPE, attention without a positional encoding."""

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

# nope-1: the weight of a first token


def first_weight(i, tau, gap):
    """Attention weight of token 0 for the query at position i, as an expression.

    The score of token 0 is ``gap`` above the equal scores of the other tokens up to i,
    and all scores are multiplied by ``tau``.
    """
    return 1 / (1 + i * sp.exp(-tau * gap))


_I, _TAU, _GAP, _A, _R = sp.symbols("i tau g a r", positive=True)

FIRST_WEIGHT = Exercise(
    name="nope-1",
    title="The weight of a first token",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
On paper: a causal layer without positions, with the temperature $\tau$.
The score of token 0 is $g$ above those of all other tokens, which are equal.
Which weight does the query at position $i$ give to token 0?
Return a SymPy expression of `i`, `tau` and `gap`.
""",
    hint=r"""
How many *other* keys does the query at $i$ see?
Give them the score 0.
""",
    cases=(
        (sp.Integer(3), sp.Integer(1), sp.Integer(0)),
        (sp.Integer(4), sp.Integer(2), sp.Integer(1)),
        (_I, _TAU, _GAP),
    ),
    solution=first_weight,
    misconceptions=(
        Misconception(
            "Positions counted from 1",
            "The query at position i sees i other tokens and its own.",
            lambda i, tau, gap: 1 / (1 + (i - 1) * sp.exp(-tau * gap)),
        ),
        Misconception(
            "Token 0 counted among the others",
            "There are i + 1 keys, and one of them is token 0.",
            lambda i, tau, gap: 1 / (1 + (i + 1) * sp.exp(-tau * gap)),
        ),
        Misconception(
            "Gap with the wrong sign",
            "The score of token 0 is the larger one, so its weight must grow with the "
            "gap.",
            lambda i, tau, gap: 1 / (1 + i * sp.exp(tau * gap)),
        ),
        Misconception(
            "Temperature forgotten",
            "Scores are multiplied by τ before the softmax.",
            lambda i, tau, gap: 1 / (1 + i * sp.exp(-gap)),
        ),
        Misconception(
            "Divided by the temperature",
            "Scores are multiplied by τ, not divided by it. A larger temperature is "
            "sharper.",
            lambda i, tau, gap: 1 / (1 + i * sp.exp(-gap / tau)),
        ),
        Misconception(
            "Weights that do not sum to one",
            "Divide by the sum over all keys that the query sees.",
            lambda i, tau, gap: sp.exp(tau * gap),
        ),
        Misconception(
            "Ratio of two weights",
            "The weight of token 0 over that of all others is the odds. The weight "
            "itself is below 1.",
            lambda i, tau, gap: sp.exp(tau * gap) / i,
        ),
        Misconception(
            "Weight of the others",
            "The others together get the rest. The weight of token 0 is asked for.",
            lambda i, tau, gap: i / (i + sp.exp(tau * gap)),
        ),
        Misconception(
            "Weight of one other token",
            "Its numerator is e⁰. The weight of token 0 is asked for.",
            lambda i, tau, gap: 1 / (i + sp.exp(tau * gap)),
        ),
        Misconception(
            "Weight multiplied by the temperature",
            "The temperature multiplies scores, and the softmax comes after.",
            lambda i, tau, gap: tau / (1 + i * sp.exp(-gap)),
        ),
        Misconception(
            "All weights equal",
            "The weights are equal only for a gap of 0.",
            lambda i, tau, gap: 1 / (1 + i),
        ),
        Misconception(
            "Temperature outside the exponent",
            "τ multiplies the score, which stands in the exponent.",
            lambda i, tau, gap: tau * sp.exp(gap) / (tau * sp.exp(gap) + i),
        ),
    ),
    properties=(
        Property(
            "At position 0 the weight is 1",
            lambda answer, i, tau, gap: (
                sp.simplify(answer(sp.Integer(0), sp.Integer(2), sp.Integer(3)) - 1)
                == 0
            ),
        ),
    ),
    explanation=r"""
The query at $i$ sees token 0 and $i$ others; give the others the score 0.
The softmax of $\tau g$ among $i$ zeros is $\frac{e^{\tau g}}{e^{\tau g} + i} = \frac1{1 + i\, e^{-\tau g}}$.
With $g = 0$ it is $\frac1{i + 1}$; in general the weight falls from 1 to 0 along the text and is one half at $i = e^{\tau g}$, so a layer without positions can read the position off it, as in the chapter's step on the marked key.
How finely it can do so is {prf:ref}`the theorem on the unit of such a ruler <thm-nope-unit>`.
""",
)


# nope-2: a temperature for a length


def longer_text_temperature(tau, gap, r):
    """Temperature for a text r times as long, as an expression.

    With this temperature one key keeps the weight that it has in the shorter text with
    the temperature ``tau``. Its score is ``gap`` above the equal scores of all other
    keys.
    """
    return tau + sp.log(r) / gap


LONGER_TEXT = Exercise(
    name="nope-2",
    title="A temperature for a longer text",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: with the temperature $\tau$ a head gives some weight to one key whose score is $g$ above the equal scores of $i$ other keys.
In a longer text there are $r\,i$ other keys.
With which temperature does the one key keep its weight?
Return a SymPy expression of `tau`, `gap` and `r`.
Why does $i$ not appear?
""",
    hint=r"""
The weight depends on $i\,e^{-\tau g}$ alone, which must stay the same.
""",
    cases=(
        (sp.Integer(1), sp.Integer(2), sp.Integer(4)),
        (sp.Rational(3, 2), sp.Integer(1), sp.Integer(10)),
        (_TAU, _GAP, _R),
    ),
    solution=longer_text_temperature,
    misconceptions=(
        Misconception(
            "Temperature proportional to the length",
            "The temperature stands in an exponent: r times as many keys need log r more "
            "there.",
            lambda tau, gap, r: tau * r,
        ),
        Misconception(
            "Multiplied by the logarithm",
            "i e^(−τ g) must stay the same. A factor of i is a term in the exponent.",
            lambda tau, gap, r: tau * sp.log(r) / gap,
        ),
        Misconception(
            "Gap forgotten",
            "A step of τ moves the logit by a multiple of the gap: divide by the gap.",
            lambda tau, gap, r: tau + sp.log(r),
        ),
        Misconception(
            "Multiplied by the gap",
            "The larger the gap, the less the temperature has to grow.",
            lambda tau, gap, r: tau + gap * sp.log(r),
        ),
        Misconception(
            "Sign of the change reversed",
            "More other keys need a sharper softmax, not a flatter one.",
            lambda tau, gap, r: tau - sp.log(r) / gap,
        ),
        Misconception(
            "Temperature of the old text forgotten",
            "Your answer is the part that must be added to τ.",
            lambda tau, gap, r: sp.log(r) / gap,
        ),
        Misconception(
            "One added in place of the old temperature",
            "The old temperature need not be 1.",
            lambda tau, gap, r: 1 + sp.log(r) / gap,
        ),
        Misconception(
            "r + 1 in place of r",
            "There are r times as many *others*, so the odds are exactly r times "
            "worse.",
            lambda tau, gap, r: tau + sp.log(1 + r) / gap,
        ),
        Misconception(
            "Logarithm of base 2",
            "The softmax has the base e.",
            lambda tau, gap, r: tau + sp.log(r, 2) / gap,
        ),
        Misconception(
            "Logarithm lost",
            "r stands before an exponential, and the temperature is in its exponent.",
            lambda tau, gap, r: tau + r / gap,
        ),
        Misconception(
            "Temperature proportional to the logarithm of the length",
            "Your answer would be right only where the temperature times the gap is 1.",
            lambda tau, gap, r: tau * (1 + sp.log(r)),
        ),
        Misconception(
            "Whole multiplied",
            "log r over the gap is added to the temperature. It does not multiply it.",
            lambda tau, gap, r: tau * (1 + sp.log(r) / gap),
        ),
        Misconception(
            "Logarithm of base 10",
            "The softmax has the base e.",
            lambda tau, gap, r: tau + sp.log(r, 10) / gap,
        ),
    ),
    properties=(
        Property(
            "For r = 1 the temperature is unchanged",
            lambda answer, tau, gap, r: (
                sp.simplify(answer(sp.Integer(3), sp.Integer(2), sp.Integer(1)) - 3)
                == 0
            ),
        ),
    ),
    explanation=r"""
The weight is $\frac1{1 + i\, e^{-\tau g}}$, so it stays the same exactly if $i\, e^{-\tau g}$ does.
With $r\, i$ others and the temperature $\tau'$: $r\, i\, e^{-\tau' g} = i\, e^{-\tau g}$, so $\tau' g = \tau g + \log r$ and $\tau' = \tau + \frac{\log r}g$.
$i$ does not appear because it cancels: only the ratio of the two lengths matters, as {prf:ref}`the theorem on a temperature for a length <thm-nope-length>` says.
""",
)


# nope-3: a temperature of each head


def weights(q, k, temperatures):
    """Causal attention weights of all heads, [heads, tokens, tokens].

    ``q`` and ``k`` are [heads, tokens, d]. ``temperatures``, [heads], has the number by
    which each head's logits are multiplied.
    """
    logits = temperatures[:, None, None] * q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
    logits = np.where(np.tril(np.ones(logits.shape[1:], bool)), logits, -np.inf)
    a = np.exp(logits - logits.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True)


def _weights(change=lambda z, f: f[:, None, None] * z, mask=0, after=None, root=True):
    """Make a wrong answer (a function) to the exercise ``weights``.

    The exercise asks for causal attention weights with a temperature of each head.
    Some steps of the answer can be wrong; with the defaults all are right.
    ``change(logits, temperatures)`` applies the temperatures. ``mask`` is the number of
    later keys that a query sees (right: 0), ``after(weights, temperatures)`` changes
    the weights (None: not at all), and without ``root`` the scores are not divided by
    √d.
    """

    def answer(q, k, temperatures):
        z = q @ k.swapaxes(1, 2) / (np.sqrt(q.shape[2]) if root else 1)
        logits = change(z, temperatures)
        seen = np.tril(np.ones(logits.shape[1:], bool), mask)
        largest = np.where(seen, logits, -np.inf).max(-1, keepdims=True)
        a = np.where(seen, np.exp(logits - np.where(seen, largest, 0)), 0)
        a = a / np.maximum(a.sum(-1, keepdims=True), 1e-300)
        return a if after is None else after(a, temperatures)

    return answer


def _zeroed(q, k, temperatures):
    logits = np.tril(temperatures[:, None, None] * q @ k.swapaxes(1, 2))
    logits = logits / np.sqrt(q.shape[2])
    a = np.exp(logits - logits.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True)


def _masked(hidden, temper, largest=lambda z: z.max(-1, keepdims=True)):
    """Make a wrong answer (a function) to the exercise ``weights``.

    The exercise asks for causal attention weights with a temperature of each head. In
    the wrong answer ``temper(logits, temperatures, later, hidden)`` applies the
    temperatures and gives later keys the logit ``hidden``, and ``largest(logits)`` is
    subtracted before the exponential.
    """

    def answer(q, k, temperatures):
        z = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
        later = np.triu(np.ones(z.shape[1:], bool), 1)
        z = temper(z, temperatures[:, None, None], later, hidden)
        a = np.exp(z - largest(z))
        return a / a.sum(-1, keepdims=True)

    return answer


def _mask_last(z, f, later, hidden):
    return np.where(later, hidden, f * z)


def _head_case(heads, tokens, d):
    q, k = draw(heads, tokens, d), draw(heads, tokens, d, seed=1)
    return q, k, 0.5 + np.arange(heads) * 0.75


WEIGHTS = Exercise(
    name="nope-3",
    title="A temperature of each head",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
`q` and `k` are `[heads, tokens, d]`, `temperatures` is `[heads]`.
Return the causal attention weights, `[heads, tokens, tokens]`, of logits $\tau_h\, q_i^\top k_j/\sqrt d$.
Large logits must not overflow, also where rows lie far apart; a temperature may be 0, and no row is empty.
What would change if the temperatures multiplied the keys?
""",
    hint=r"""
`temperatures[:, None, None]` has one number for each head.
""",
    cases=(
        _head_case(1, 2, 2),
        (40.0 * np.eye(2)[None], 40.0 * np.eye(2)[None], np.array([2.0])),
        (400.0 * np.ones((1, 2, 1)), -400.0 * np.ones((1, 2, 1)), np.array([2.0])),
        (np.array([[[1.0], [40.0]]]), 40.0 * np.ones((1, 2, 1)), np.array([2.0])),
        (np.ones((1, 2, 1)), np.array([[[1.0], [2.0]]]), np.array([0.0])),
        _head_case(2, 3, 4),
        _head_case(3, 3, 2),
    ),
    solution=weights,
    misconceptions=(
        Misconception(
            "Divided by the temperatures",
            "Logits are multiplied by τ, which is an inverse temperature.",
            _weights(lambda z, f: z / f[:, None, None]),
        ),
        Misconception(
            "Temperatures left out",
            "The logits of each head are multiplied by its own temperature.",
            _weights(lambda z, f: z),
        ),
        Misconception(
            "One temperature for all heads",
            "Each head has its own temperature.",
            _weights(lambda z, f: f[0] * z),
        ),
        Misconception(
            "Mean of the temperatures for all heads",
            "Each head has its own temperature.",
            _weights(lambda z, f: f.mean() * z),
        ),
        Misconception(
            "Heads in reverse order",
            "The first temperature is the first head's.",
            _weights(lambda z, f: f[::-1, None, None] * z),
        ),
        Misconception(
            "Weights multiplied by the temperatures",
            "The temperatures multiply logits, and rows sum to one after that.",
            _weights(lambda z, f: z, after=lambda a, f: f[:, None, None] * a),
        ),
        Misconception(
            "Both queries and keys multiplied",
            "Your logits have the square of the temperature.",
            _weights(lambda z, f: f[:, None, None] ** 2 * z),
        ),
        Misconception(
            "Root of the temperatures",
            "The temperatures multiply logits as they are.",
            _weights(lambda z, f: np.sqrt(f)[:, None, None] * z),
        ),
        Misconception(
            "Not divided by √d",
            "The temperature comes besides 1/√d, not in its place.",
            _weights(root=False),
        ),
        Misconception(
            "No mask",
            "Later keys get 0.",
            _weights(mask=10**6),
        ),
        Misconception(
            "Own key masked",
            "Key i is not later than query i.",
            _weights(mask=-1),
        ),
        Misconception(
            "Future seen, not the past",
            "Each row is a query, and its later keys get weight 0.",
            lambda q, k, f: weights(q[:, ::-1], k[:, ::-1], f)[:, ::-1, ::-1],
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row i belongs to query i.",
            lambda q, k, f: weights(k, q, f),
        ),
        Misconception(
            "Later keys with the logit 0",
            "e⁰ is 1. The logits of later keys must be −∞.",
            lambda q, k, f: _zeroed(q, k, f),
        ),
        Misconception(
            "Masked after the softmax",
            "Rows of yours do not sum to one.",
            _weights(mask=10**6, after=lambda a, f: np.tril(a)),
        ),
        Misconception(
            "Divided by d",
            "Logits are divided by √d.",
            lambda q, k, f: weights(q / np.sqrt(q.shape[2]), k, f),
        ),
        Misconception(
            "One maximum for all rows",
            "Where all logits of a row are far below that maximum, the row is 0/0. "
            "Subtract each row's own largest logit.",
            _masked(-np.inf, _mask_last, lambda z: z.max()),
        ),
        Misconception(
            "Finite mask",
            "Logits of a row may all lie below the number that you put in place of "
            "later keys. −∞ is below every number.",
            _masked(-1e3, _mask_last),
        ),
        Misconception(
            "Temperature applied to the mask",
            "−∞ times a temperature of 0 is NaN. Multiply the logits first, then mask.",
            _masked(
                -np.inf, lambda z, f, later, hidden: f * np.where(later, hidden, z)
            ),
        ),
        Misconception(
            "Divided by the root of the number of tokens",
            "d is the width of the queries.",
            lambda q, k, f: weights(q * np.sqrt(q.shape[2] / q.shape[1]), k, f),
        ),
    ),
    properties=(
        Property(
            "With the temperature 0 each query gives all its keys the same weight",
            lambda answer, q, k, f: bool(
                np.allclose(answer(q, k, 0 * f)[:, -1], 1 / q.shape[1])
            ),
        ),
    ),
    explanation=r"""
The temperature multiplies the logits of its head, next to $1/\sqrt d$; the mask sets later keys to $-\infty$ before the softmax, so that each row sums to 1.
The largest logit of each row is subtracted first, which changes no weight.
If the temperatures multiplied the keys, the weights would be the same, by {prf:ref}`the definition of a temperature <def-nope-box>` and the linearity of the product; but a cache would hold scaled keys, and query heads that share a key head could not have temperatures of their own.
""",
)


# nope-4: entropy and the temperature


def slope(scores, tau):
    """Derivative of the entropy of softmax(τ s) with respect to τ, a float.

    ``scores``, [keys], are s, and ``tau`` is τ.
    """
    a = np.exp(tau * scores - np.max(tau * scores))
    a /= a.sum()
    mean = a @ scores
    return -tau * (a @ (scores - mean) ** 2)


def _softmax(z):
    a = np.exp(z - z.max())
    return a / a.sum()


def _log_sum(z):
    return z.max() + np.log(np.exp(z - z.max()).sum())


def _variance(weighed):
    return lambda s, tau: -tau * weighed(s, _softmax(tau * s))


SLOPE = Exercise(
    name="nope-4",
    title="Entropy and the temperature",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
`scores` are the scores of one query for the keys that it sees, and `tau` is the temperature.
Return $\partial \mathcal H/\partial \tau$ for the entropy $\mathcal H = -\sum_j a_j \log a_j$ of $a = \operatorname{softmax}(\tau s)$, as a `float`, exactly (no difference quotient).
Scores of a thousand must not overflow.
When is this derivative 0?
""",
    hint=r"""
The chapter derives it: the result is a factor times a variance *under the weights*.
""",
    cases=(
        (np.array([0.0, 1.0]), 1.0),
        (np.array([0.0, 1.0, 3.0]), 0.5),
        (np.array([2.0, 2.0, 2.0]), 2.0),
        (draw(6), 1.5),
        (draw(5) + 30.0, 2.0),
        (1000.0 * draw(5), 0.003),
        (np.array([1000.0, 1001.0]), 2.0),
        (np.array([0.0, 1000.0]), 1.0),
    ),
    solution=slope,
    misconceptions=(
        Misconception(
            "Sign lost",
            "Sharper weights have less entropy.",
            lambda s, tau: -slope(s, tau),
        ),
        Misconception(
            "Factor before the variance lost",
            "At τ = 0 the entropy is largest, so its slope is 0 there.",
            lambda s, tau: slope(s, tau) / tau,
        ),
        Misconception(
            "Factor counted twice",
            "The variance is that of s, not of τ s.",
            lambda s, tau: slope(s, tau) * tau,
        ),
        Misconception(
            "Keys counted alike in the variance",
            "Each key counts by its weight.",
            _variance(lambda s, a: np.var(s)),
        ),
        Misconception(
            "Weights without the temperature",
            "a is the softmax of τ s.",
            lambda s, tau: -tau * (_softmax(s) @ s**2 - (_softmax(s) @ s) ** 2),
        ),
        Misconception(
            "Mean not subtracted",
            "The second moment is no variance: add 30 to all scores and it changes.",
            _variance(lambda s, a: a @ s**2),
        ),
        Misconception(
            "Standard deviation in place of the variance",
            "The variance is the square of the deviation.",
            _variance(lambda s, a: np.sqrt(a @ (s - a @ s) ** 2)),
        ),
        Misconception(
            "Deviations from the mean of all keys alike",
            "The mean is also taken under the weights.",
            _variance(lambda s, a: a @ (s - s.mean()) ** 2),
        ),
        Misconception(
            "Entropy, not its slope",
            "The derivative by τ is asked for.",
            lambda s, tau: _log_sum(tau * s) - tau * (_softmax(tau * s) @ s),
        ),
        Misconception(
            "Slope of the mean score",
            "The derivative of the mean score is the variance itself, which is "
            "positive.",
            lambda s, tau: slope(s, tau) / -tau,
        ),
        Misconception(
            "Variance of the weights",
            "The variance is that of the scores, under the weights.",
            _variance(lambda s, a: np.var(a)),
        ),
        Misconception(
            "Mean score",
            "The slope of the entropy does not change if a constant is added to all "
            "scores. The mean score does.",
            _variance(lambda s, a: a @ s),
        ),
        Misconception(
            "Entropy in bits",
            "The entropy is defined with the natural logarithm.",
            lambda s, tau: slope(s, tau) / np.log(2),
        ),
    ),
    properties=(
        Property(
            "A constant added to all scores does not change the result",
            lambda answer, s, tau: bool(
                np.isclose(answer(s + 7.0, tau), answer(s, tau), rtol=1e-6, atol=1e-9)
            ),
        ),
    ),
    explanation=r"""
With $Z = \sum_j e^{\tau s_j}$ and the mean score $\bar s = \sum_j a_j s_j$, $\mathcal H = \log Z - \tau \bar s$, and $\partial \log Z/\partial \tau = \bar s$.
So $\partial \mathcal H/\partial \tau = \bar s - \bar s - \tau\, \partial \bar s/\partial \tau$, which is $-\tau$ times the variance of the scores under the weights: {prf:ref}`the theorem on entropy and temperature <thm-nope-entropy>`.
It is 0 at $\tau = 0$, where the entropy is largest, and where the variance is 0, that is, where all scores are equal; in floating point also where the weights are those of a single key up to rounding.
""",
    level="optional",
)


# nope-5: how often a token is counted


def token_weights(tokens, layers):
    """Weight of each input token in the last output, [tokens], float64.

    Each of ``layers`` layers replaces every token by the mean of the tokens up to it.
    """
    count = torch.arange(1, tokens + 1, dtype=torch.float64)
    average = torch.ones(tokens, tokens, dtype=torch.float64).tril() / count[:, None]
    return torch.linalg.matrix_power(average, layers)[-1]


def _counted(make, row=-1):
    """Make a wrong answer (a function) to the exercise ``token_weights``.

    The exercise asks for the weights of input tokens after layers of averaging: the
    last row of the power ``layers`` of a matrix of averages. The wrong answer is row
    ``row`` of the matrix ``make(ones, count, layers)``, where ``ones`` is a square
    matrix of ones and ``count``, a column, has the number of tokens up to each token.
    """

    def answer(tokens, layers):
        count = torch.arange(1, tokens + 1, dtype=torch.float64)
        return make(torch.ones(tokens, tokens, dtype=torch.float64), count, layers)[row]

    return answer


def _power(ones, count, layers):
    return torch.linalg.matrix_power(ones.tril() / count[:, None], layers)


COUNTED = Exercise(
    name="nope-5",
    title="How often a token is counted",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
There are `layers` causal layers, one after the other, with equal logits.
Values and outputs are passed on unchanged, and there is no residual sum.
The last of the `tokens` outputs is a weighted sum of the input tokens.
Return the weights, `[tokens]` in float64, token 0 first.
Which token has the largest weight after one layer, after two, after ten?
""",
    hint=r"""
One layer is a lower triangular matrix.
What are its rows, and what are two layers?
""",
    cases=((2, 1), (3, 2), (4, 3), (5, 0), (9, 10)),
    solution=token_weights,
    misconceptions=(
        Misconception(
            "The mean of all tokens in every layer",
            "The second layer averages the outputs of the first, which are means of "
            "different lengths.",
            lambda tokens, layers: torch.full(
                (tokens,), 1 / tokens, dtype=torch.float64
            ),
        ),
        Misconception(
            "Every query sees every key",
            "The layers are causal.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(ones / len(ones), n)
            ),
        ),
        Misconception(
            "Columns that sum to one",
            "The weights of a query, which are a row, sum to one.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    ones.tril() / count.flip(0), n
                )
            ),
        ),
        Misconception(
            "Weights not divided by their number",
            "A softmax of equal logits gives each key one over the number of keys.",
            _counted(lambda ones, count, n: torch.linalg.matrix_power(ones.tril(), n)),
        ),
        Misconception(
            "All rows divided by the number of all tokens",
            "Query i sees i + 1 keys.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    ones.tril() / len(ones), n
                )
            ),
        ),
        Misconception(
            "Order reversed",
            "Token 0 comes first and has the largest weight.",
            lambda tokens, layers: token_weights(tokens, layers).flip(0),
        ),
        Misconception(
            "Weights of the first output",
            "The last token's output is asked for: the last row.",
            _counted(_power, row=0),
        ),
        Misconception(
            "Weights of the last token in all outputs",
            "Your answer is a column. A row is asked for.",
            lambda tokens, layers: _power(
                torch.ones(tokens, tokens, dtype=torch.float64),
                torch.arange(1, tokens + 1, dtype=torch.float64),
                layers,
            )[:, -1],
        ),
        Misconception(
            "One layer too many",
            "Zero layers leave the tokens as they are.",
            lambda tokens, layers: token_weights(tokens, layers + 1),
        ),
        Misconception(
            "One layer too few",
            "One layer is one average.",
            lambda tokens, layers: token_weights(tokens, max(layers - 1, 0)),
        ),
        Misconception(
            "Each weight raised to a power",
            "Layers multiply matrices, not entries.",
            _counted(lambda ones, count, n: (ones.tril() / count[:, None]) ** n),
        ),
        Misconception(
            "A residual sum added",
            "There is no residual sum here.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    torch.eye(len(ones), dtype=torch.float64)
                    + ones.tril() / count[:, None],
                    n,
                )
            ),
        ),
        Misconception(
            "Own key not seen",
            "A query sees itself.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    ones.tril(-1) / (count[:, None] - 1).clamp(min=1), n
                )
            ),
        ),
        Misconception(
            "A column in place of a row",
            "The weights with which the last output sums tokens are a row.",
            lambda tokens, layers: _power(
                torch.ones(tokens, tokens, dtype=torch.float64),
                torch.arange(1, tokens + 1, dtype=torch.float64),
                layers,
            )[:, 0],
        ),
        Misconception(
            "Normalized at the end only",
            "Every layer averages: each row of the matrix sums to one before the "
            "power is taken.",
            _counted(
                lambda ones, count, n: (lambda row: row / row.sum(1, keepdim=True))(
                    torch.linalg.matrix_power(ones.tril(), n)
                )
            ),
        ),
        Misconception(
            "Mean of input and average",
            "There is no residual sum here, and no half of it.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    (
                        torch.eye(len(ones), dtype=torch.float64)
                        + ones.tril() / count[:, None]
                    )
                    / 2,
                    n,
                )
            ),
        ),
        Misconception(
            "Own token left out",
            "A query sees its own token, too, not only those before it.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    torch.cat(
                        (
                            torch.eye(len(ones), dtype=torch.float64)[:1],
                            ones.tril(-1)[1:],
                        )
                    )
                    / (count[:, None] - 1).clamp(min=1),
                    n,
                )
            ),
        ),
        Misconception(
            "Later tokens averaged",
            "A causal layer averages the tokens up to each one: the matrix is lower "
            "triangular.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    ones.triu() / count.flip(0)[:, None], n
                )
            ),
        ),
    ),
    properties=(
        Property(
            "The weights sum to one",
            lambda answer, tokens, layers: (
                abs(float(answer(tokens, layers).sum()) - 1) < 1e-9
            ),
        ),
    ),
    explanation=r"""
One layer is the lower triangular matrix whose row $i$ has $i + 1$ entries $\frac1{i + 1}$; several layers are its power, and the last output belongs to the last row.
After one layer all weights are equal.
After two layers token 0 has the largest, because it is in all averages of the first layer: with 9 tokens 0.31, and the last token has 0.012, in agreement with {prf:ref}`the theorem on two averaging layers <thm-nope-orders>`.
After ten layers token 0 has 0.993 of the weight: every layer moves weight towards the beginning.
""",
    prediction=Prediction(
        "With 9 tokens and ten layers, which weight has token 0?",
        lambda: float(token_weights(9, 10)[0]),
        near=0.02,
    ),
)


# nope-6: which texts are distinguished


def distinguishes(left, right, layers):
    """Return whether averaging layers give two texts different last outputs.

    ``left`` and ``right`` are the texts, ``layers`` is the number of layers. Each layer
    replaces every token by the mean of the tokens up to it.
    """

    def last_output(text):
        count = np.arange(1, len(text) + 1)
        vectors = np.eye(256)[[ord(letter) for letter in text]]
        for _ in range(layers):
            vectors = np.cumsum(vectors, axis=0) / count[:, None]
        return vectors[-1]

    return bool(np.abs(last_output(left) - last_output(right)).max() > 1e-12)


def _unlike(last_output):
    """Make a wrong answer (a function) to the exercise ``distinguishes``.

    The exercise asks whether two texts have different last outputs. In the wrong
    answer, ``last_output(text, layers)`` replaces the last output of a text.
    """

    def answer(left, right, layers):
        outputs = (last_output(text, layers) for text in (left, right))
        return bool(np.abs(np.subtract(*outputs)).max() > 1e-12)

    return answer


def _mean_number(text, layers):
    numbers = np.array([float(ord(letter)) for letter in text])
    for _ in range(layers):
        numbers = np.cumsum(numbers) / np.arange(1, len(numbers) + 1)
    return numbers[-1]


def _last_sum(text, layers):
    vectors = np.eye(256)[[ord(letter) for letter in text]]
    for _ in range(layers):
        vectors = np.cumsum(vectors, axis=0)
    return vectors[-1]


def _whole_length(text, layers):
    vectors = np.eye(256)[[ord(letter) for letter in text]]
    for _ in range(layers):
        vectors = np.cumsum(vectors, axis=0) / len(text)
    return vectors[-1]


def _sum_over_letters(text, layers):
    vectors = np.eye(256)[[ord(letter) for letter in text]]
    for _ in range(layers):
        vectors = np.cumsum(vectors, axis=1) / np.arange(1, len(text) + 1)[:, None]
    return vectors[-1]


def _normalized_last(text, layers):
    summed = _last_sum(text, layers)
    return summed / summed.sum()


def _last_mean(text, layers):
    vectors = np.eye(256)[[ord(letter) for letter in text]]
    for _ in range(layers):
        vectors = np.cumsum(vectors, axis=0) / np.arange(1, len(text) + 1)[:, None]
    return vectors[-1]


def _with_residual(text, layers):
    vectors = np.eye(256)[[ord(letter) for letter in text]]
    for _ in range(layers):
        means = np.cumsum(vectors, axis=0) / np.arange(1, len(text) + 1)[:, None]
        vectors = vectors + means
    return vectors[-1]


def _shares(text):
    """Map each letter of a text to its share of all letters of the text, a float."""
    return {letter: text.count(letter) / len(text) for letter in set(text)}


DISTINGUISHES = Exercise(
    name="nope-6",
    title="Which texts are distinguished",
    kind="experiment",
    minutes=15,
    lines=6,
    statement=r"""
`left` and `right` are two texts of characters with codes below 256, and each character is a unit vector of its own.
They go through `layers` causal layers, one after the other, with equal logits; values and outputs are passed on unchanged.
Are the last outputs of the two texts different, by more than $10^{-12}$?
Return a `bool`.
Predict before you compute, with one layer and with two: are `abc` and `bac` different? `abc` and `abcabc`? `aa` and `aaa`? `aab` and `aba`?
""",
    hint=r"""
A causal average is a cumulative sum over the number of tokens so far.
""",
    cases=(
        ("ab", "ba", 1),
        ("ab", "ba", 2),
        ("abc", "bac", 1),
        ("abc", "bac", 2),
        ("ab", "abab", 1),
        ("ab", "abab", 2),
        ("aa", "aaa", 2),
        ("aac", "ac", 1),
        ("abc", "abd", 1),
        ("ac", "bb", 1),
        ("a", "ÿ", 1),
        ("ab", "ab", 3),
        ("abc", "ab", 0),
        ("ab", "cb", 0),
        ("bca", "cba", 0),
        (9 * "a" + "b", 9 * "a" + "c", 11),
        ("abba", "baab", 2),
        (9 * "a" + "b", 9 * "a" + "c", 13),
        (199 * "a" + "b", 199 * "a" + "c", 4),
        (199 * "a" + "b", 199 * "a" + "c", 6),
    ),
    solution=distinguishes,
    misconceptions=(
        Misconception(
            "Sets compared",
            "Your answer compares the sets of letters. A letter that occurs twice has "
            "twice the weight.",
            lambda left, right, layers: set(left) != set(right),
        ),
        Misconception(
            "Shares of letters compared, whatever the layers",
            "Your answer compares how often letters occur. Two layers see the order: "
            "early tokens are in more averages.",
            lambda left, right, layers: _shares(left) != _shares(right),
        ),
        Misconception(
            "One layer that sees the order",
            "Your answer assumes that one layer sees the order. The last query of one "
            "layer sees a sum, which has no order.",
            lambda left, right, layers: left != right,
        ),
        Misconception(
            "Lengths that are seen",
            "Your answer assumes that texts of different lengths are distinguished. "
            "In one layer equal shares give equal outputs, however many tokens there are.",
            lambda left, right, layers: (
                len(left) != len(right) or distinguishes(left, right, layers)
            ),
        ),
        Misconception(
            "Letters counted, not averaged",
            "Your answer assumes that the number of each letter counts. Weights sum to one, so in one layer twice as many of every letter is the same.",
            lambda left, right, layers: (
                sorted(left) != sorted(right) or distinguishes(left, right, layers)
            ),
        ),
        Misconception(
            "Sums in place of means",
            "Your answer assumes that vectors are added up. Weights sum to one: each "
            "sum is divided by the number of tokens so far.",
            _unlike(_last_sum),
        ),
        Misconception(
            "Letters as numbers",
            "Each character is a unit vector of its own. As numbers, `a` and `c` have "
            "the same mean as `b` twice.",
            _unlike(_mean_number),
        ),
        Misconception(
            "Small differences ignored",
            "`np.allclose` ignores differences below 10⁻⁸, and 10⁻¹² is asked for.",
            lambda left, right, layers: (
                distinguishes(left, right, layers)
                and max(map(len, (left, right))) ** layers < 10**8
            ),
        ),
        Misconception(
            "Only the last token compared",
            "The last token alone decides only where there is no layer.",
            lambda left, right, layers: left[-1] != right[-1],
        ),
        Misconception(
            "At least one layer assumed",
            "With no layer the output is the last token itself.",
            lambda left, right, layers: distinguishes(left, right, max(layers, 1)),
        ),
        Misconception(
            "Only the first token compared",
            "The first output is the first token. The *last* output is asked for.",
            lambda left, right, layers: left[0] != right[0],
        ),
        Misconception(
            "One layer too few",
            "One layer is one average.",
            lambda left, right, layers: distinguishes(left, right, max(layers - 1, 0)),
        ),
        Misconception(
            "One layer too many",
            "One layer is one average.",
            lambda left, right, layers: distinguishes(left, right, layers + 1),
        ),
        Misconception(
            "Nothing distinguished without positions",
            "Your answer is always False. A causal mask already distinguishes beginnings. "
            "(Where you compare vectors: one entry that differs is enough, whatever its "
            "sign.)",
            lambda left, right, layers: False,
        ),
        Misconception(
            "Everything distinguished",
            "Try the same text twice.",
            lambda left, right, layers: True,
        ),
        Misconception(
            "Answer the wrong way round",
            "True means that the outputs are different.",
            lambda left, right, layers: not distinguishes(left, right, layers),
        ),
        Misconception(
            "Any difference counted",
            "Only differences above 10⁻¹² count.",
            lambda left, right, layers: bool(
                (_last_mean(left, layers) != _last_mean(right, layers)).any()
            ),
        ),
        Misconception(
            "Numbers of letters compared",
            "Your answer compares how many there are of each letter, whatever the "
            "layers. Weights sum to one, and two layers see the order.",
            lambda left, right, layers: sorted(left) != sorted(right),
        ),
        Misconception(
            "Whole length in every mean",
            "The token at position i sees i + 1 tokens, and its mean is over those.",
            _unlike(_whole_length),
        ),
        Misconception(
            "Residual connection added",
            "There is none here: a layer's output is the mean alone, not the mean "
            "added to the layer's input.",
            _unlike(_with_residual),
        ),
        Misconception(
            "Sum over letters",
            "The cumulative sum runs along the tokens, axis 0. Axis 1 has the letters.",
            _unlike(_sum_over_letters),
        ),
        Misconception(
            "Normalized at the end only",
            "Every layer averages, not only the last one.",
            _unlike(_normalized_last),
        ),
    ),
    properties=(
        Property(
            "A text is not distinguished from itself",
            lambda answer, left, right, layers: answer(left, left, layers) is False,
        ),
    ),
    tolerance=0.0,
    level="hard",
    explanation=r"""
One layer computes the shares of the letters, so it distinguishes neither `aab` from `aba`, nor `abc` from `bac`, by {prf:ref}`the theorem on one causal layer <thm-one-causal-layer>`, nor `abc` from `abcabc`, by {prf:ref}`the theorem on shares <thm-nope-shares>`.
Two layers give earlier places larger weights, so they distinguish all three of these pairs.
`aa` and `aaa` stay the same after any number of layers, by {prf:ref}`the theorem on equal tokens <thm-nope-constant>`.
Texts that differ at their end only become alike with depth: with 200 letters the last one has the weight $200^{-n}$ after $n$ layers.
""",
)


# nope-7: sums and means


def colleagues_comparison(left, right, layers):
    """Return whether averaging layers distinguish texts.

    They do if the last outputs differ.
    """

    def last_output(text):
        codes = np.array([ord(c) for c in text])
        letters = codes[:, None] == np.arange(256)
        layer = np.tri(len(text))
        stack = np.linalg.matrix_power(layer, layers)
        return (stack @ letters)[-1]

    ends = last_output(left), last_output(right)
    return not np.allclose(*ends, rtol=0, atol=1e-12)


def texts_that_differ():
    """Return two texts and a number of layers on which the function is wrong."""
    return "a", "aa", 1


def _no_texts(left, right, layers):
    are_texts = all(isinstance(t, str) and 0 < len(t) <= 100 for t in (left, right))
    if not are_texts or max(map(ord, left + right)) > 255:
        return "the texts have 1 to 100 characters, with codes below 256"
    is_number = type(layers) is int and 0 <= layers <= 100
    return "" if is_number else "layers is an int from 0 to 100"


SUMS = Exercise(
    name="nope-7",
    title="Find the input: weights that do not sum to one",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_comparison` should do what exercise nope-6 asks for.
She has tested it with `ab` and `ba` for one layer and for two, with `abc` and `abd` for one layer, and with `aac` and `ac` for one layer; all of these tests pass.
Find two texts and a number of layers for which it is wrong, with as few letters as possible in both texts together.
What has she left out?
""",
    hint=r"""
What does one layer of hers compute from `aa`?
""",
    cases=((),),
    solution=texts_that_differ,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_comparison,
        right=distinguishes,
        tested=(
            ("ab", "ba", 1),
            ("ab", "ba", 2),
            ("abc", "abd", 1),
            ("aac", "ac", 1),
        ),
        refusal=_no_texts,
        size=lambda left, right, layers: len(left) + len(right),
        size_of="number of letters",
    ),
    tolerance=0.0,
    explanation=r"""
She adds the vectors up and does not divide by their number, so for her `aa` is twice `a`.
The weights of a softmax sum to one, and the mean of equal vectors is the same for every number of them, by {prf:ref}`the theorem on equal tokens <thm-nope-constant>`; `a` and `aa` have three letters.
Two texts of one letter each have no sum to divide, so with two letters she is right.
Texts of the same length are divided by the same numbers, so tests with equal lengths cannot show the mistake in one layer.
""",
)


# nope-8: two texts that two averaging layers confuse


def colleagues_guess(left, right, layers):
    """Return whether averaging layers distinguish texts.

    They do if the last outputs differ.
    """
    return left != right


def texts_that_are_confused():
    """Return two texts of the same length that 2 layers confuse, and the number 2."""
    return "babbababbbbb", "bbaababbbbba", 2


def _not_two_layers(left, right, layers):
    if type(layers) is not int or layers != 2:
        return "there are two layers"
    if set(left + right) - {"a", "b"} or not 0 < len(left) == len(right) <= 100:
        return "both texts have the same length, up to 100, of the letters a and b"
    return ""


CONFUSED = Exercise(
    name="nope-8",
    title="Find the input: two orders, one output",
    kind="find the input",
    minutes=30,
    lines=1,
    level="hard",
    statement=r"""
`colleagues_guess` should do what exercise nope-6 asks for.
"Two layers distinguish all orders", she has read, and her tests with two layers pass for `ab` and `ba`, for `aab` and `aba`, and for `aabb` and `abab`.
Find two different texts of the letters `a` and `b`, of the same length and as short as possible, that two layers do not distinguish.
Return both texts and the number of layers, 2.
A program may search for them.
Which hypothesis of the theorem has she overlooked?
""",
    hint=r"""
Place $j$ of $L$ has the weight $(H_L - H_j)/L$, and only the sum of the weights of all `a` matters.
Which whole numbers $k$ have $\frac1k$ that add up to zero, with signs?
The two texts need not have equally many `a`.
""",
    cases=((),),
    solution=texts_that_are_confused,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_guess,
        right=distinguishes,
        tested=(("ab", "ba", 2), ("aab", "aba", 2), ("aabb", "abab", 2)),
        refusal=_not_two_layers,
        size=lambda left, right, layers: len(left),
        size_of="length",
    ),
    tolerance=0.0,
    explanation=r"""
{prf:ref}`The theorem on two averaging layers <thm-nope-orders>` asks for linearly independent tokens, and equal letters are not independent: what counts is the sum of the weights of all places of a letter.
If an `a` moves from place $j$ to place $j + 1$, this sum falls by $\frac1{L (j + 1)}$, and an `a` at the last place has $\frac1{L \cdot L}$.
With $L = 12$, `a` at the places 1, 4, 6 and `a` at the places 2, 3, 5, 11 have the same sum, because $\frac12 = \frac14 + \frac16 + \frac1{12}$: from 1 to 2 it loses $\frac12$ (in units of $\frac1L$), from 4 to 3 and from 6 to 5 it gains $\frac14 + \frac16$, and the last place adds $\frac1{12}$.
A search through all texts of up to 11 letters finds no such pair.
""",
)


SHEET = Sheet(
    title="NoPE: no positional encoding",
    conventions=r"""
Tokens count from 0; a causal query sees itself and all tokens before it.
$\tau$ multiplies logits, besides $1/\sqrt d$.
There is no positional encoding anywhere.
""",
    example=r"""
from posedu.numpy.attention import attend
from posedu.numpy.nope import nope

q, k = np.ones((1, 2, 1)), np.log([[[1.0], [3.0]]])
v = np.array([[[0.0], [10.0]]])  # [heads, tokens, d]
print(np.round(attend(q, k, v, nope(temperature=2.0)), 3))
""",
    figure="nope_explorable",
    exercises=(
        FIRST_WEIGHT,
        LONGER_TEXT,
        WEIGHTS,
        SLOPE,
        COUNTED,
        DISTINGUISHES,
        SUMS,
        CONFUSED,
    ),
)
