"""Exercises on FoX, attention with a forget gate."""

import math
from dataclasses import dataclass

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
from posedu.numpy.attention import causal_mask, softmax
from posedu.numpy.gated import forget_bias

# fox-1: the gates from a key to a query


def share_left(f, i, j):
    """Share of key j's unnormalized weight that the gates f leave at query i ≥ j.

    ``f`` is a list of the gates of all tokens; the share is a SymPy expression.
    """
    return sp.Mul(*f[j + 1 : i + 1])


_GATES = sp.symbols("f:6", positive=True)

SHARE_LEFT = Exercise(
    name="fox-1",
    title="The gates from a key to a query",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
On paper: which gates does key $j$ pass on its way to query $i$?
`f` holds the gates, `f[l]` that of token $l$.
Return $F_{ij}$ for $j \le i$.
What is $F_{ij}$ for $i = j$?
""",
    hint=r"""
From a token to the next one a single gate acts, that of the later token.
""",
    cases=((_GATES, 2, 2), (_GATES, 3, 2), (_GATES, 5, 1), (_GATES, 4, 0)),
    solution=share_left,
    misconceptions=(
        Misconception(
            "Key's own gate in the product",
            "f_j acts on the tokens *before* j. When key j is written, nothing of it "
            "has been forgotten: what must the product be for i = j?",
            lambda f, i, j: sp.prod(f[j : i + 1]),
        ),
        Misconception(
            "Missing query's gate",
            "f_i acts before query i looks: what token i forgets is gone for token i. "
            "One step back has one gate. Which one?",
            lambda f, i, j: sp.prod(f[j + 1 : i]),
        ),
        Misconception(
            "Gates one place too early",
            "Your product contains f_j and not f_i. The number of gates, i − j, is "
            "right, but each gate belongs to the later end of its step.",
            lambda f, i, j: sp.prod(f[j:i]),
        ),
        Misconception(
            "Gates added",
            "Shares of shares multiply. Only their logarithms add up.",
            lambda f, i, j: sum(f[j + 1 : i + 1], sp.Integer(0)),
        ),
        Misconception(
            "All gates up to the query",
            "The gates up to key j have acted before key j existed.",
            lambda f, i, j: sp.prod(f[: i + 1]),
        ),
        Misconception(
            "Only the query's gate counted",
            "A single gate is a single step. From j to i there are i − j steps, each "
            "with a gate.",
            lambda f, i, j: f[i] if i > j else sp.Integer(1),
        ),
        Misconception(
            "One gate, whatever the distance",
            "From j to i there are i − j steps, each with a gate. For i = j there is "
            "none.",
            lambda f, i, j: f[i],
        ),
        Misconception(
            "Key's own gate",
            "f_j acts on the tokens before j.",
            lambda f, i, j: f[j],
        ),
        Misconception(
            "Query's gate taken for all steps",
            "Every token on the way has a gate of its own.",
            lambda f, i, j: f[i] ** (i - j),
        ),
        Misconception(
            "Gates after the query counted",
            "Query i does not know the gates after it, and they have not forgotten "
            "anything yet.",
            lambda f, i, j: sp.Mul(*f[j + 1 :]),
        ),
        Misconception(
            "Forgotten shares multiplied",
            "f is the share that stays, 1 − f the share that is forgotten.",
            lambda f, i, j: sp.Mul(*(1 - x for x in f[j + 1 : i + 1])),
        ),
        Misconception(
            "Logarithm in place of the share",
            "D is a sum of logarithms. The share is a product.",
            lambda f, i, j: sp.Add(*map(sp.log, f[j + 1 : i + 1])),
        ),
        Misconception(
            "All gates up to the key",
            "These gates act on the tokens before j. Key j meets the gates after it.",
            lambda f, i, j: sp.Mul(*f[: j + 1]),
        ),
        Misconception(
            "Empty product taken for 0",
            "For i = j no gate acts: nothing has been forgotten, and the share is 1.",
            lambda f, i, j: share_left(f, i, j) if i > j else sp.Integer(0),
        ),
        Misconception(
            "Key's gate taken for all steps",
            "Every token on the way has a gate of its own, and f_j is none of them.",
            lambda f, i, j: f[j] ** (i - j),
        ),
        Misconception(
            "Forgotten shares multiplied, one place too early",
            "f is the share that stays, and a gate belongs to the later end of its "
            "step.",
            lambda f, i, j: sp.Mul(*(1 - x for x in f[j:i])),
        ),
        Misconception(
            "Gates two places too early",
            "From a token to the next one gate acts, that of the later token.",
            lambda f, i, j: sp.Mul(*f[max(j - 1, 0) : i]),
        ),
        Misconception(
            "Slice in the wrong direction",
            "The key is the earlier token, j ≤ i, so take the gates from j + 1 on.",
            lambda f, i, j: sp.Mul(*f[i : j + 1]),
        ),
        Misconception(
            "Only the two ends counted",
            "Every token from j + 1 to i has a gate, and f_j is none of them.",
            lambda f, i, j: f[i] * f[j],
        ),
        Misconception(
            "Forgotten share",
            "The share that is *left* is asked for.",
            lambda f, i, j: 1 - share_left(f, i, j),
        ),
    ),
    properties=(
        Property(
            "At its own position a key has the share 1",
            lambda a, f, i, j: a(f, i, i) == 1,
        ),
        Property(
            "The shares from j to k and from k to i multiply to the share from j to i",
            lambda answer, f, i, j: (
                answer(f, 4, 1) == sp.expand(answer(f, 4, 2) * answer(f, 2, 1))
            ),
        ),
    ),
    explanation=r"""
Key $j$ passes the gates $f_{j+1}, \dots, f_i$: one at each step, that of the later token.
Its own gate acts on older tokens only, before it is written, and the query's own gate acts before the query looks.
For $i = j$ there is no step and the product is empty, so $F_{ii} = 1$.
By {prf:ref}`the theorem on composition and rank <thm-fox-semigroup>` the shares multiply along a path, $F_{ij} = F_{ik} F_{kj}$, which would count a gate twice if both ends belonged to it.
""",
)


# fox-2: the bias of an ALiBi slope


def gate_bias(m):
    """Bias b of a constant gate σ(b) with which FoX is ALiBi of slope m."""
    return -sp.log(sp.exp(m) - 1)


SLOPE = Exercise(
    name="fox-2",
    title="The gate bias of an ALiBi slope",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
With the same gate $f = \sigma(b)$ for all tokens, FoX is ALiBi with a slope $m > 0$: the logits fall by $m$ per token.
Which bias $b$ belongs to $m$?
Return a SymPy expression.
""",
    hint=r"""
What must $\log f$ be?
Solve $\sigma(b) = f$ for $b$.
""",
    cases=((sp.Rational(1, 2),), (sp.log(3),), (sp.Symbol("m", positive=True),)),
    solution=gate_bias,
    misconceptions=(
        Misconception(
            "Stick-breaking's logit",
            "In stick-breaking a key takes σ and leaves 1 − σ. A forget gate is the "
            "share that is left, so the sign is the other one.",
            lambda m: sp.log(sp.exp(m) - 1),
        ),
        Misconception(
            "Slope taken for the bias",
            "Your log f = −m is right. But f = σ(b), not e^b: the two are close only "
            "for very negative b.",
            lambda m: -m,
        ),
        Misconception(
            "Gate in place of its bias",
            "f = e^−m is the gate. The sigmoid of the bias is the gate.",
            lambda m: sp.exp(-m),
        ),
        Misconception(
            "Time scale taken for the bias",
            "1/m is the number of tokens T after which e^−1 is left. The bias grows "
            "with it like a logarithm: it is about log T for long T.",
            lambda m: 1 / m,
        ),
        Misconception(
            "Bias 5 for every slope",
            "One port of FoX starts at 5, a slope of 0.0067. The paper starts at 0, "
            "where half is forgotten at every token. Neither follows from m.",
            lambda m: sp.Integer(5),
        ),
        Misconception(
            "One of the signs lost",
            "The odds of f are f over 1 − f. Solve 1 + e^(−b) = e^m: the 1 goes to "
            "the other side.",
            lambda m: -sp.log(sp.exp(m) + 1),
        ),
        Misconception(
            "−log f in place of the bias",
            "The sigmoid turns the bias into the gate. The logarithm alone is not its "
            "inverse.",
            lambda m: m,
        ),
        Misconception(
            "Sigmoid applied once more",
            "b goes into the sigmoid, and f comes out. Your answer goes forwards.",
            lambda m: 1 / (1 + sp.exp(m)),
        ),
        Misconception(
            "Logit of the slope",
            "The gate is f = e^(−m), not m. The logit of f is asked for.",
            lambda m: sp.log(m / (1 - m)),
        ),
        Misconception(
            "An approximation for gentle slopes",
            "−log m is the limit for small m. What is e^m − 1 in place of m?",
            lambda m: -sp.log(m),
        ),
        Misconception(
            "Logarithm of the forgotten fraction",
            "A token forgets 1 − e^(−m). The logarithm of that is not yet the logit.",
            lambda m: sp.log(1 - sp.exp(-m)),
        ),
        Misconception(
            "Minus of the exponent lost",
            "f = e^(−m) is below 1. With e^m you take the logit of a number above 1.",
            lambda m: -sp.log(sp.exp(-m) - 1),
        ),
        Misconception(
            "Forgotten fraction in place of the bias",
            "A token forgets 1 − e^(−m). The sigmoid of the bias is the gate.",
            lambda m: 1 - sp.exp(-m),
        ),
        Misconception(
            "Logarithm of the slope",
            "The gate is f = e^(−m), and b is its logit.",
            lambda m: sp.log(m),
        ),
        Misconception(
            "Exponential of the slope, without its minus",
            "e^m is above 1, and no sigmoid gives that: f = e^(−m).",
            lambda m: sp.log(sp.exp(m) / (1 - sp.exp(m))),
        ),
        Misconception(
            "Sigmoid of the slope",
            "b goes into the sigmoid, and e^(−m) comes out. Your answer goes forwards.",
            lambda m: 1 / (1 + sp.exp(-m)),
        ),
        Misconception(
            "Minus the logarithm of the forgotten fraction",
            "The logit is log f − log(1 − f): one of the two terms is missing.",
            lambda m: -sp.log(1 - sp.exp(-m)),
        ),
        Misconception(
            "Logit of the slope, with its sign reversed",
            "The gate is f = e^(−m), not m and not 1 − m. The logit of f is asked for.",
            lambda m: sp.log(1 / m - 1),
        ),
        Misconception(
            "Slope taken for odds",
            "m is −log f. What are the odds f/(1 − f)?",
            lambda m: sp.log(m / (1 + m)),
        ),
        Misconception(
            "Two exponentials exchanged",
            "1 − e^m is below 0 and has no real logarithm.",
            lambda m: sp.log(1 - sp.exp(m)),
        ),
    ),
    properties=(
        Property(
            "For a slope of log 2, half is forgotten at every token and the bias is 0",
            lambda answer, m: sp.simplify(answer(sp.log(2))) == 0,
        ),
        Property(
            "A gentler slope needs a larger bias",
            lambda answer, m: (
                float(answer(sp.Rational(1, 9)) - answer(sp.Integer(1))) > 0
            ),
        ),
    ),
    explanation=r"""
The logits fall by $m$ per token if $\log f = -m$.
Then $1/f = 1 + e^{-b} = e^m$, so $b = -\log(e^m - 1)$, as in {prf:ref}`the theorem on FoX's special cases <thm-fox-alibi>`.
For $m = \log 2$ it is 0, gentler slopes have larger biases, and for small $m$ it is about $-\log m$: ALiBi's flattest slope, $1/256$, has $b \approx 5.5$.
""",
)


# fox-3: the weights


def weights(q, k, log_f):
    """Attention weights ``[tokens, tokens]`` of one FoX head.

    ``q`` and ``k`` are ``[tokens, d]``; ``log_f``, ``[tokens]``, are the logarithms of
    the forget gates.
    """
    c = np.cumsum(log_f)
    logits = q @ k.T / np.sqrt(q.shape[1]) + c[:, None] - c
    logits = np.where(np.tri(len(q), dtype=bool), logits, -np.inf)
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _logits(q, k):
    return q @ k.T / np.sqrt(q.shape[1])


def _softmax(logits):
    return softmax(logits, causal_mask(len(logits)))


def _weights_case(tokens, d):
    return *draw(2, tokens, d), -np.logaddexp(0, draw(tokens))


@np.errstate(all="ignore")
def _by_products(q, k, log_f):
    products = np.cumprod(np.exp(log_f))
    e = np.tril(np.exp(_logits(q, k)) * products[:, None] / products)
    return e / e.sum(axis=1, keepdims=True)


@np.errstate(all="ignore")
def _below_all(q, k, log_f):
    c = np.cumsum(log_f)
    logits = _logits(q, k) + c[:, None] - c
    e = np.tril(np.exp(logits - logits.max(axis=1, keepdims=True)))
    return e / e.sum(axis=1, keepdims=True)


def _with_bias(bias):
    """Make a wrong answer (a function) to the exercise ``weights``.

    The exercise asks for a FoX head's attention weights. The wrong answer is a causal
    softmax of ``bias(z, log_f)``, where z is q · k/√d and ``log_f`` the log gates.
    Right are z plus sums of log gates.
    """
    return lambda q, k, log_f: _softmax(bias(_logits(q, k), log_f))


WEIGHTS = Exercise(
    name="fox-3",
    title="The weights",
    kind="NumPy",
    minutes=12,
    lines=5,
    statement=r"""
`q` and `k` of one head are `[tokens, d]`, and `log_f` is `[tokens]`.
Return FoX's attention weights, `[tokens, tokens]`, zero above the diagonal.
""",
    hint=r"""
$D$ follows from `np.cumsum(log_f)`.
Which term of the logits is divided by $\sqrt d$?
""",
    cases=(
        _weights_case(2, 4),
        _weights_case(3, 4),
        _weights_case(8, 16),
        (*draw(2, 20, 4), np.full(20, -50.0)),
        (*(600 * draw(2, 3, 4)), np.full(3, -1.0)),
    ),
    solution=weights,
    misconceptions=(
        Misconception(
            "D divided by √d",
            "Only q · k is divided. D belongs to the gates, not to the products: "
            "divided, it would turn a gate f into f^(1/8) in a head of 64 features.",
            lambda q, k, log_f: _softmax(
                _logits(q, k) + forget_bias(log_f) / np.sqrt(q.shape[1])
            ),
        ),
        Misconception(
            "Key's own gate f_j included",
            "Your sum starts one term too early, so every key pays for the gate with "
            "which it forgot *other* tokens. Was one of your sums exclusive?",
            lambda q, k, log_f: _softmax(_logits(q, k) + forget_bias(log_f) + log_f),
        ),
        Misconception(
            "Missing query's own gate f_i",
            "The last step to the query has a gate, too, and yours is missing. (Left "
            "out for *all* keys of the row, the softmax would hide it; the query's "
            "own key has none.)",
            lambda q, k, log_f: _softmax(
                _logits(q, k)
                + forget_bias(log_f)
                - np.where(np.eye(len(q)), 0, log_f[:, None])
            ),
        ),
        Misconception(
            "Sign of D reversed",
            "In your answer keys gain with every token that passes. log f is "
            "negative, so D must be negative: which of the two sums is lower?",
            lambda q, k, log_f: _softmax(_logits(q, k) - forget_bias(log_f)),
        ),
        Misconception(
            "Weights multiplied by the gates",
            "After the softmax your rows no longer sum to one. FoX adds log F to the "
            "logits, so that the other keys get the lost weight.",
            lambda q, k, log_f: _softmax(_logits(q, k)) * np.exp(forget_bias(log_f)),
        ),
        Misconception(
            "F added in place of its logarithm",
            "F is between 0 and 1, so even a forgotten key loses no more than 1 in "
            "its logit. The added term must be able to reach −∞.",
            lambda q, k, log_f: _softmax(_logits(q, k) + np.exp(forget_bias(log_f))),
        ),
        Misconception(
            "Later keys not masked",
            "The gates do not mask: above the diagonal c_i − c_j is positive.",
            lambda q, k, log_f: softmax(
                _logits(q, k) + forget_bias(log_f) - forget_bias(log_f).T
            ),
        ),
        Misconception(
            "Logits not divided by √d",
            "q · k is divided by √d, D is not.",
            lambda q, k, log_f: weights(q * np.sqrt(q.shape[1]), k, log_f),
        ),
        Misconception(
            "Logits multiplied by F",
            "A logit times F does not forget: a negative logit even gains. F must "
            "multiply the *exponential*. Which term does that add to the logit?",
            _with_bias(lambda z, log_f: z * np.exp(forget_bias(log_f))),
        ),
        Misconception(
            "Logits multiplied by D",
            "D is added to q · k/√d.",
            _with_bias(lambda z, log_f: z * forget_bias(log_f)),
        ),
        Misconception(
            "Key's own gate alone",
            "A cumulative sum is missing: each gate between key and query forgets "
            "once more.",
            _with_bias(lambda z, log_f: z + log_f),
        ),
        Misconception(
            "Key's own gate subtracted",
            "A cumulative sum is missing: log f of single tokens says nothing of the "
            "tokens between key and query.",
            _with_bias(lambda z, log_f: z - log_f),
        ),
        Misconception(
            "Sums of gates, not of their logarithms",
            "Gates multiply, so their logarithms add up.",
            _with_bias(
                lambda z, log_f: z + np.subtract.outer(*[np.exp(log_f).cumsum()] * 2)
            ),
        ),
        Misconception(
            "Query's part of the bias alone",
            "c_i is the same for all keys of a row, and softmax does not see it. Your "
            "weights are those without gates.",
            _with_bias(lambda z, log_f: z),
        ),
        Misconception(
            "Softmax over the queries",
            "A query shares its weight among the keys, so rows sum to one.",
            lambda q, k, log_f: (lambda e: e / e.sum(0))(
                np.tril(np.exp(_logits(q, k) + forget_bias(log_f)))
            ),
        ),
        Misconception(
            "Masked keys in the sum of the softmax",
            "Your answer sets weights above the diagonal to zero after the softmax. "
            "Masked keys must take no part in it.",
            lambda q, k, log_f: np.tril(
                softmax(_logits(q, k) + np.cumsum(log_f)[:, None] - np.cumsum(log_f))
            ),
        ),
        Misconception(
            "A logit of 0 as the mask",
            "e^0 = 1, so masked keys get weight. For which logit is the exponential 0?",
            lambda q, k, log_f: softmax(np.tril(_logits(q, k) + forget_bias(log_f))),
        ),
        Misconception(
            "A query that does not see itself",
            "The diagonal belongs to the causal triangle.",
            lambda q, k, log_f: softmax(
                _logits(q, k) + forget_bias(log_f), np.tri(len(q), k=-1, dtype=bool)
            ),
        ),
        Misconception(
            "Weights not normalized",
            "The exponentials must be divided by their sum.",
            lambda q, k, log_f: np.tril(np.exp(_logits(q, k) + forget_bias(log_f))),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row i belongs to query i: q @ k.T.",
            lambda q, k, log_f: weights(k, q, log_f),
        ),
        Misconception(
            "Logits divided by d",
            "The logits are divided by the root of d.",
            lambda q, k, log_f: weights(q / np.sqrt(q.shape[1]), k, log_f),
        ),
        Misconception(
            "Past masked, not the future",
            "Your mask hides the past. The future must be masked.",
            lambda q, k, log_f: softmax(
                _logits(q, k) + np.cumsum(log_f)[:, None] - np.cumsum(log_f),
                np.tri(len(q), dtype=bool).T,
            ),
        ),
        Misconception(
            "One sum for all rows",
            "Each query's weights sum to one.",
            lambda q, k, log_f: (lambda e: e / e.sum())(
                np.tril(np.exp(_logits(q, k) + forget_bias(log_f)))
            ),
        ),
        Misconception(
            "Rows divided by the sum of all rows",
            "Each query's weights sum to one, not those of all queries together.",
            lambda q, k, log_f: (
                len(q)
                * (lambda e: e / e.sum())(
                    np.tril(np.exp(_logits(q, k) + forget_bias(log_f)))
                )
            ),
        ),
        Misconception(
            "Sum with the key's own gate, divided by √d",
            "Only q · k is divided. And the sum starts after the key: f_j does not "
            "act on it.",
            lambda q, k, log_f: _softmax(
                _logits(q, k) + (forget_bias(log_f) + log_f) / np.sqrt(q.shape[1])
            ),
        ),
        Misconception(
            "One gate for all tokens",
            "Your answer takes the mean of the gates. Each token has its own.",
            lambda q, k, log_f: _softmax(
                _logits(q, k) + forget_bias(np.full_like(log_f, log_f.mean()))
            ),
        ),
        Misconception(
            "Maximum taken along the wrong axis",
            "The number subtracted before the exponential must be the same for all "
            "keys of a row. Otherwise the weights change.",
            lambda q, k, log_f: (
                lambda z: (lambda e: e / e.sum(1, keepdims=True))(np.exp(z - z.max(0)))
            )(
                np.where(
                    np.tri(len(q)) > 0,
                    _logits(q, k) + np.subtract.outer(*[np.cumsum(log_f)] * 2),
                    -1e9,
                )
            ),
        ),
        Misconception(
            "Sums from the last token",
            "With sums from the end c_i − c_j has the other sign, and the gates of "
            "other tokens.",
            _with_bias(
                lambda z, log_f: (
                    z + np.subtract.outer(*[np.cumsum(log_f[::-1])[::-1]] * 2)
                )
            ),
        ),
        Misconception(
            "Divided by the root of the number of tokens",
            "d is the width of the queries.",
            lambda q, k, log_f: weights(q * np.sqrt(q.shape[1] / len(q)), k, log_f),
        ),
        Misconception(
            "Gates multiplied up and divided",
            "Over a long text the products reach 0, and 0/0 is NaN. Subtract sums of "
            "logarithms.",
            _by_products,
        ),
        Misconception(
            "Masked logits of 0 in the sum",
            "Their exponentials are 1, so a row's weights no longer sum to one. The "
            "mask is −∞, before the softmax.",
            lambda q, k, log_f: np.tril(
                softmax(np.tril(_logits(q, k) + forget_bias(log_f)))
            ),
        ),
        Misconception(
            "Maximum taken over masked keys, too",
            "Masked logits may be larger by far, since c_i − c_j is above 0 there. "
            "Every exponential is 0 then, and the row is 0/0.",
            _below_all,
        ),
        Misconception(
            "Finite mask",
            "Logits of a row may all lie below the number that you put in place of "
            "later keys. −∞ is below every number.",
            lambda q, k, log_f: (
                lambda z: softmax(np.where(np.tri(len(z), dtype=bool), z, -1e3))
            )(_logits(q, k) + np.cumsum(log_f)[:, None] - np.cumsum(log_f)),
        ),
    ),
    properties=(
        Property(
            "Rows sum to one",
            lambda answer, q, k, log_f: np.allclose(answer(q, k, log_f).sum(1), 1),
        ),
        Property(
            "The first gate has no effect",
            lambda answer, q, k, log_f: np.allclose(
                answer(q, k, log_f),
                answer(q, k, log_f - 3.0 * (np.arange(len(q)) == 0)),
            ),
        ),
    ),
    explanation=r"""
The logits are $q_i^\top k_j / \sqrt d + c_i - c_j$ with the cumulative sums $c$ of $\log f$, by {prf:ref}`the theorem on differences of sums <thm-fox-sums>`.
Only the products are divided by $\sqrt d$; $D$ is a logarithm of a share and is added as it is.
The part $c_i$ is constant in a row and cancels in the softmax, {prf:ref}`so it may be left out <thm-fox-key>`; with it all biases are at most 0.
""",
)


# fox-4: the sums of a new layer


def log_gate_sums(x, weight):
    """Cumulative sums c of the log gates of a new FoX layer, float32 ``[tokens]``.

    ``x``, ``[tokens, d_model]``, are the hidden states; ``weight``, ``[d_model]``, are
    the weights of the gate.
    """
    return torch.nn.functional.logsigmoid(x.float() @ weight.float()).cumsum(0)


def _start(x, weight, bias):
    return torch.nn.functional.logsigmoid(x.float() @ weight.float() + bias)


def _sums_in_half(x, weight):
    return _start(x, weight, 0.0).to(x.dtype).cumsum(0).float()


def _gates_in_half(x, weight):
    logits = x @ weight.to(x.dtype)
    return torch.nn.functional.logsigmoid(logits).float().cumsum(0)


def _sums_case(tokens, size):
    x = torch.tensor(draw(tokens, 8), dtype=torch.bfloat16)
    return x, torch.tensor(size * draw(8), dtype=torch.float32)


def _of_products(products):
    return torch.nn.functional.logsigmoid(products).cumsum(0)


SUMS = Exercise(
    name="fox-4",
    title="The sums of a new layer",
    kind="PyTorch",
    minutes=10,
    lines=2,
    statement=r"""
A layer of FoX is new: its gate is $\sigma(w \cdot x + b)$ with the $b$ from which the authors' code starts.
`x` is `[tokens, d_model]` in bf16, and `weight` is `[d_model]` in float32.
Return $c$, the cumulative sums of the logarithms of the gates up to and including each token, in float32 and to its precision, `[tokens]`.
How large is $c$ after a thousand tokens, and what would bf16 make of it?
""",
    hint=r"""
Use `torch.nn.functional.logsigmoid`.
Which dtype does each step need?
""",
    cases=(
        _sums_case(3, 0.5),
        _sums_case(3, 100),
        _sums_case(512, 0.02),
        _sums_case(1000, 0.5),
    ),
    solution=log_gate_sums,
    misconceptions=(
        Misconception(
            "Bias 5 at the start",
            "x-transformers starts at 5: gates of 0.993, so that half is forgotten "
            "after 103 tokens. Where does the paper start, and how much is a gate "
            "then?",
            lambda x, weight: _start(x, weight, 5.0).cumsum(0),
        ),
        Misconception(
            "Sums computed in bf16",
            "After a thousand tokens c is near −700, where neighboring bf16 numbers "
            "are 4 apart, and a token adds −0.7. Which type must the sum have?",
            _sums_in_half,
        ),
        Misconception(
            "Gates computed in bf16",
            "Your sum is wide, but each of its terms has lost its digits before: "
            "widen x and the weight first.",
            _gates_in_half,
        ),
        Misconception(
            "Gates summed, not their logarithms",
            "Gates multiply along the way, so their logarithms add up. c only falls.",
            lambda x, weight: _start(x, weight, 0.0).exp().cumsum(0),
        ),
        Misconception(
            "Missing gate of the token itself",
            "c_i includes log f_i. Without it the query's own gate acts one token "
            "late, and a key pays for its own gate.",
            lambda x, weight: log_gate_sums(x, weight) - _start(x, weight, 0.0),
        ),
        Misconception(
            "Logarithms of the forgotten fractions summed",
            "1 − f is the fraction that is lost. f is the fraction that stays.",
            lambda x, weight: torch.nn.functional.logsigmoid(
                -x.float() @ weight.float()
            ).cumsum(0),
        ),
        Misconception(
            "Logarithm of a sigmoid that is 0",
            "In float32 σ(−200) is 0, and log 0 is −∞, from that token on. There is a "
            "function that never forms the small number.",
            lambda x, weight: (x.float() @ weight.float()).sigmoid().log().cumsum(0),
        ),
        Misconception(
            "Product computed in bf16",
            "Your product has lost its digits before the gate is computed: widen x, "
            "do not narrow the weight.",
            lambda x, weight: _of_products((x @ weight.to(x.dtype)).float()),
        ),
        Misconception(
            "No sum",
            "Your numbers are the logarithms of the gates. c adds them up from the "
            "first token on.",
            lambda x, weight: _start(x, weight, 0.0),
        ),
        Misconception(
            "Gates multiplied",
            "Your numbers are e^c. After a thousand tokens it is 0 in float32, so c "
            "is stored as the sum.",
            lambda x, weight: _start(x, weight, 0.0).exp().cumprod(0),
        ),
        Misconception(
            "Sums from the last token",
            "c runs from the first token to each.",
            lambda x, weight: _start(x, weight, 0.0).flip(0).cumsum(0).flip(0),
        ),
        Misconception(
            "Sign lost",
            "Logarithms of gates are negative. softplus(−z) is minus log σ(z).",
            lambda x, weight: -log_gate_sums(x, weight),
        ),
        Misconception(
            "Sums of the gate logits",
            "The sigmoid and the logarithm are missing.",
            lambda x, weight: (x.float() @ weight.float()).cumsum(0),
        ),
        Misconception(
            "Bias 1 at the start",
            "Where does the authors' code start, and how much is a gate then?",
            lambda x, weight: _start(x, weight, 1.0).cumsum(0),
        ),
        Misconception(
            "Logarithm of base 2",
            "log f is the natural logarithm, as in softmax's exponential.",
            lambda x, weight: log_gate_sums(x, weight) / math.log(2),
        ),
        Misconception(
            "Everything in bf16",
            "Product, gates and sum each lose digits. Widen first.",
            lambda x, weight: (
                torch.nn.functional.logsigmoid(x @ weight.to(x.dtype)).cumsum(0).float()
            ),
        ),
        Misconception(
            "Finished sums rounded to bf16",
            "Near −700 neighboring bf16 numbers are 4 apart.",
            lambda x, weight: log_gate_sums(x, weight).bfloat16().float(),
        ),
        Misconception(
            "Whole sum for every token",
            "c runs along the tokens: each token has the sum up to it.",
            lambda x, weight: _start(x, weight, 0.0).sum().expand(len(x)).clone(),
        ),
        Misconception(
            "Logarithms of the forgotten fractions, with the wrong sign",
            "softplus(z) is −log (1 − σ(z)). log f is −softplus(−z).",
            lambda x, weight: torch.nn.functional.softplus(x.float() @ weight).cumsum(
                0
            ),
        ),
        Misconception(
            "A small number added inside the logarithm",
            "It avoids −∞ and changes the result: log σ(−200) is −200. There is a "
            "function that never forms the small number.",
            lambda x, weight: ((x.float() @ weight).sigmoid() + 1e-6).log().cumsum(0),
        ),
        Misconception(
            "Bias −5 at the start",
            "Gates of σ(−5) = 0.007 forget nearly everything at every token. Where "
            "does the authors' code start?",
            lambda x, weight: _start(x, weight, -5.0).cumsum(0),
        ),
    ),
    properties=(
        Property(
            "The sums fall from token to token",
            lambda answer, x, weight: bool((answer(x, weight).diff() < 0).all()),
        ),
    ),
    tolerance=1e-2,
    explanation=r"""
The authors' code starts with $b = 0$, so the gates are about ½ and each token adds about $\log \tfrac12 = -0.69$: after a thousand tokens $c \approx -693$.
In bf16 numbers near 693 are 4 apart, six times the step, so a running sum in bf16 stops at 256, where the step is less than half of the distance between two numbers: sum in float32.
`logsigmoid` is exact also where $\sigma$ is 0 in floats, and there the logarithm of the sigmoid is $-\infty$.
x-transformers starts with $b = 5$ instead: {ref}`the chapter compares the two <err-fox-bias>`.
""",
    prediction=Prediction(
        "With the authors' bias at the start and weights that are still 0, what is $c$ after 1000 tokens?",
        lambda: float(
            log_gate_sums(torch.zeros(1000, 1, dtype=torch.bfloat16), torch.zeros(1))[
                -1
            ]
        ),
        near=0.1,
    ),
)


# fox-5: FoX by one more feature


@dataclass(frozen=True)
class Kernel:
    """Causal attention of one head in a window, without arguments for bias or scale.

    ``window`` is the number of nearest keys that a query sees, its own key included.
    """

    window: int

    def __call__(self, q, k, v):
        """Return attention outputs ``[tokens, width of v]`` for queries, keys, values.

        Scores are divided by √(width of q).
        """
        offset = torch.arange(len(q))[:, None] - torch.arange(len(k))
        hidden = (offset < 0) | (offset >= self.window)
        scores = (q @ k.T / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
        return scores.softmax(-1) @ v


def attend(q, k, v, log_f, kernel):
    """Outputs ``[tokens, d]`` of FoX by an attention kernel without bias and scale.

    ``q``, ``k`` and ``v`` are ``[tokens, d]``, ``log_f``, ``[tokens]``, are the log
    gates. ``kernel(q, k, v)`` returns outputs of attention and divides scores by
    √(width of q).
    """
    d = q.shape[-1]
    c = log_f.cumsum(0)[:, None]
    root = (d + 1) ** 0.5  # The kernel divides by this root.
    q = torch.cat((q * (root / d**0.5), torch.ones_like(c)), -1)
    k = torch.cat((k, -c * root), -1)
    return kernel(q, k, v)


def _extended(feature=lambda c: -c, grown=None, root=None, beside=torch.ones_like):
    """Make a wrong answer (a function) to the exercise ``attend``.

    The exercise asks for FoX's outputs by an attention kernel without bias. In the
    answer, queries are multiplied by ``grown(d)`` (right: √((d + 1)/d)). One feature is
    added: ``beside(c)`` to queries (right: 1) and ``feature(c) * root(d)`` to keys
    (right: −c √(d + 1)), where c are the cumulative log gates. The wrong answer has a
    wrong one of these four functions; the defaults are right.
    """

    def answer(q, k, v, log_f, kernel):
        d = q.shape[-1]
        c = log_f.cumsum(0)[:, None]
        q = torch.cat((q * (grown or _by_both_widths)(d), beside(c)), -1)
        k = torch.cat((k, feature(c) * (root or _of_new_width)(d)), -1)
        return kernel(q, k, v)

    return answer


def _by_both_widths(d):
    return ((d + 1) / d) ** 0.5


def _of_new_width(d):
    return (d + 1) ** 0.5


def _not_grown(d):
    return 1.0


def _written_out(q, k, v, log_f, kernel):
    c = log_f.cumsum(0)
    mask = torch.ones(len(q), len(k), dtype=torch.bool).triu(1)
    bias = (c[:, None] - c).masked_fill(mask, -torch.inf)
    return (q @ k.T / q.shape[-1] ** 0.5 + bias).softmax(-1) @ v


def _singles(c):
    """Single terms (log gates) whose cumulative sums along the first axis are ``c``."""
    return c.diff(dim=0, prepend=torch.zeros_like(c[:1]))


def _attend_case(tokens, d, window):
    q, k, v = torch.tensor(draw(3, tokens, d))
    log_f = torch.nn.functional.logsigmoid(torch.tensor(draw(tokens)))
    return q, k, v, log_f, Kernel(window)


FEATURE = Exercise(
    name="fox-5",
    title="FoX by one more feature",
    kind="PyTorch",
    minutes=18,
    lines=5,
    statement=r"""
You are given a compiled kernel and cannot change it.
`kernel(q, k, v)` is causal attention, takes no bias, no mask and no scale, and divides every score by the root of the width of the queries that it *gets*.
It also has a window of a fixed size, which you do not know.
Make it compute FoX, by one more feature of queries and keys.
`q`, `k`, `v` are `[tokens, d]`, `log_f` is `[tokens]`, all float64; $q^\top k$ must be divided by $\sqrt d$ and the gates by nothing.
Return the outputs of FoX within that window, `[tokens, d]`.
""",
    hint=r"""
Which part of $c_i - c_j$ depends on the key?
The product of the two new features must be this part.
Then undo the kernel's division, which is not by $\sqrt d$, once for $q^\top k$ and once for the gates.
""",
    cases=(
        _attend_case(2, 3, window=2),
        _attend_case(4, 3, window=2),
        _attend_case(9, 4, window=5),
        _attend_case(20, 16, window=20),
    ),
    solution=attend,
    misconceptions=(
        Misconception(
            "Sign of the key bias reversed",
            "Of D = c_i − c_j the softmax sees only the part that depends on j, which "
            "is −c_j. c falls with time, so the *newest* key has the greatest bias.",
            _extended(lambda c: c),
        ),
        Misconception(
            "Bias divided by a root",
            "The kernel divides the whole product, and the new feature with it. Your "
            "features must undo that.",
            _extended(root=_not_grown),
        ),
        Misconception(
            "Division by the kernel undone for neither part",
            "The kernel divides by the root of the width of its queries, which is now "
            "d + 1. q · k must be divided by √d, and the gates by nothing.",
            _extended(grown=_not_grown, root=_not_grown),
        ),
        Misconception(
            "q · k divided by √(d + 1)",
            "The kernel divides by the root of the width of its queries, d + 1. Your "
            "gates are right; make up for it in q · k as well.",
            _extended(grown=_not_grown),
        ),
        Misconception(
            "Kernel assumed to divide by √d",
            "The kernel divides by the root of the width of its queries, which has "
            "grown.",
            _extended(grown=_not_grown, root=lambda d: d**0.5),
        ),
        Misconception(
            "Bias multiplied by √d",
            "The kernel divides by the root of the width of its queries, that of q "
            "with its new feature.",
            _extended(root=lambda d: d**0.5),
        ),
        Misconception(
            "Queries made smaller",
            "The kernel divides by more than √d. By what must q be multiplied?",
            _extended(grown=lambda d: 1 / _by_both_widths(d)),
        ),
        Misconception(
            "Kernel not used",
            "Your answer attends to all earlier keys. The kernel has a window of "
            "unknown size: leave the attention to it.",
            _written_out,
        ),
        Misconception(
            "Key's own gate included",
            "−c_j with a sum that stops before j is off by one gate: each key gets "
            "the gates of its past without its own.",
            _extended(lambda c: _singles(c) - c),
        ),
        Misconception(
            "Gates of single tokens added, not their sums",
            "Every token after a key forgets it once more, so the gates are summed.",
            _extended(lambda c: -_singles(c)),
        ),
        Misconception(
            "Gates themselves summed",
            "Gates multiply, so their logarithms add up.",
            _extended(lambda c: -_singles(c).exp().cumsum(0)),
        ),
        Misconception(
            "Outputs without gates",
            "Your outputs are the kernel's for q, k and v alone. If you have added a "
            "feature: c_i with a 1 beside each key is the same for all keys of a row, "
            "and the softmax does not see it.",
            _extended(torch.ones_like, beside=lambda c: c),
        ),
        Misconception(
            "Sums multiplied by each other",
            "c_i beside the query and c_j beside the key make a product. The bias "
            "must be −c_j: what stands beside every query?",
            _extended(beside=lambda c: c),
        ),
        Misconception(
            "Sign of the key bias reversed, and kernel assumed to divide by √d",
            "Of D = c_i − c_j the softmax sees −c_j. And the kernel divides by the "
            "root of the width of its queries.",
            _extended(lambda c: c, grown=_not_grown, root=lambda d: d**0.5),
        ),
        Misconception(
            "Sign of the key bias reversed, and the kernel's division not undone",
            "Of D = c_i − c_j the softmax sees −c_j. And the kernel divides the whole "
            "product, the new feature included.",
            _extended(lambda c: c, grown=_not_grown, root=_not_grown),
        ),
        Misconception(
            "New feature scaled like the old ones",
            "q is multiplied so that q · k is divided by √d in the end. The gates "
            "must be divided by nothing: what has to stand beside the key?",
            _extended(root=_by_both_widths),
        ),
        Misconception(
            "Keys multiplied by gates",
            "A gate multiplies the exponential of the score, not the key. It is a "
            "term of the logit.",
            lambda q, k, v, log_f, kernel: kernel(
                q, k * log_f.cumsum(0).exp()[:, None], v
            ),
        ),
        Misconception(
            "Values multiplied by gates",
            "The weight that a forgotten key loses goes to the other keys. A gate "
            "acts inside the softmax, on the logit.",
            lambda q, k, v, log_f, kernel: kernel(
                q, k, v * log_f.cumsum(0).exp()[:, None]
            ),
        ),
        Misconception(
            "Exponential as feature",
            "The feature is added to the logit, and the softmax takes the "
            "exponential. It must be −c_j itself.",
            _extended(lambda c: (-c).exp()),
        ),
    ),
    properties=(
        Property(
            "With all gates 1 the result is the kernel's attention without gates",
            lambda answer, q, k, v, log_f, kernel: torch.allclose(
                answer(q, k, v, 0 * log_f, kernel), kernel(q, k, v)
            ),
        ),
        Property(
            "The first token reads itself",
            lambda answer, q, k, v, log_f, kernel: torch.allclose(
                answer(q, k, v, log_f, kernel)[0], v[0]
            ),
        ),
    ),
    level="hard",
    explanation=r"""
The softmax needs $-c_j$ only, {prf:ref}`the key's part of the bias <thm-fox-key>`, and a product of two features can be this number: 1 in the query, $-c_j$ in the key.
The kernel divides all products by $\sqrt{d + 1}$, the root of the new width: multiply $-c_j$ by it, and the old features of the query by $\sqrt{d + 1}/\sqrt d$.
The window is the kernel's own and needs nothing: the first keys drop out of the sum with their features.
{prf:ref}`The theorem on folded biases <thm-fox-folded>` does the same with several features, to keep digits.
""",
)


# fox-6: shift, then norm


def shifted_keys(k, alpha):
    """Shifted and RMS-normed keys of one FoX Pro head, gains 1: ``[tokens, d]``.

    ``k``, ``[tokens, d]``, are the keys. ``alpha``, ``[tokens]``, are the gates that
    mix each key with the key before.
    """
    before = np.concatenate((np.zeros_like(k[:1]), k[:-1]))
    mixed = alpha[:, None] * before + (1 - alpha[:, None]) * k
    return mixed / np.sqrt((mixed**2).mean(axis=1, keepdims=True) + 1e-5)


def _norm(x):
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)


def _mix(k, alpha, first):
    before = np.concatenate((first, k[:-1]))
    return alpha[:, None] * before + (1 - alpha[:, None]) * k


def _keys_case(tokens, d):
    alpha = np.random.default_rng((tokens, d)).uniform(0.1, 0.9, size=tokens)
    return 0.1 * draw(tokens, d), alpha


def _normed(norm):
    """Make a wrong answer (a function) to the exercise ``shifted_keys``.

    The exercise asks for a FoX Pro head's keys. In the wrong answer, the mixed keys are
    divided by ``norm(mixed)`` in place of the root of their mean square (plus 1e-5).
    """

    def answer(k, alpha):
        mixed = _mix(k, alpha, np.zeros_like(k[:1]))
        return mixed / norm(mixed)

    return answer


def _root_mean(x, axis=1, eps=1e-5):
    return np.sqrt((x**2).mean(axis=axis, keepdims=True) + eps)


def _layer_norm(k, alpha):
    mixed = _mix(k, alpha, np.zeros_like(k[:1]))
    centered = mixed - mixed.mean(axis=1, keepdims=True)
    return centered / _root_mean(centered)


def _running(k, alpha):
    mixed = [(1 - alpha[0]) * k[0]]
    for a, key in zip(alpha[1:], k[1:], strict=True):
        mixed.append(a * mixed[-1] + (1 - a) * key)
    return np.array(mixed)


def _ahead(k, alpha):
    after = np.concatenate((k[1:], np.zeros_like(k[:1])))
    return _norm(alpha[:, None] * after + (1 - alpha[:, None]) * k)


SHIFT = Exercise(
    name="fox-6",
    title="Shift, then norm",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
Each key of FoX Pro is mixed with that of the token before, by a gate $\alpha_i$ of each token, as the chapter defines it, and then RMS-normed.
`k` is `[tokens, d]`, `alpha` is `[tokens]`; gains are 1, and $\varepsilon = 10^{-5}$ is added to the mean square.
Return the keys, `[tokens, d]`.
""",
    hint=r"""
Which of the two keys is multiplied by $\alpha$?
What stands before the first token?
""",
    cases=(_keys_case(2, 2), _keys_case(3, 4), _keys_case(10, 8)),
    solution=shifted_keys,
    misconceptions=(
        Misconception(
            "α as the share of the current token",
            "In KV-shift α is the share of the token *before*: α = 1 drops the "
            "current key, α = 0 is no shift.",
            lambda k, alpha: shifted_keys(k, 1 - alpha),
        ),
        Misconception(
            "Norm before the shift",
            "A mixture of two normed keys is no longer normed, and the shift no "
            "longer sees their lengths. Shift first.",
            lambda k, alpha: _mix(_norm(k), alpha, np.zeros_like(k[:1])),
        ),
        Misconception(
            "Last token before the first",
            "np.roll wraps around, so the first token reads the future. Before the "
            "first token there are zeros.",
            lambda k, alpha: _norm(_mix(k, alpha, k[-1:])),
        ),
        Misconception(
            "First token as its own predecessor",
            "Before the first token there are zeros, not a copy of it.",
            lambda k, alpha: _norm(_mix(k, alpha, k[:1])),
        ),
        Misconception(
            "Previous token's α used",
            "Token i decides with its own α how much of its predecessor it takes.",
            lambda k, alpha: shifted_keys(k, np.concatenate((alpha[:1], alpha[:-1]))),
        ),
        Misconception(
            "Each key divided by its length",
            "The RMS norm divides by the root of the *mean* square, so that features, "
            "not vectors, have the size 1.",
            lambda k, alpha: shifted_keys(k, alpha) / np.sqrt(k.shape[1]),
        ),
        Misconception(
            "Missing norm",
            "Your answer is the shift alone, which is right for values. Keys are "
            "normed.",
            lambda k, alpha: _mix(k, alpha, np.zeros_like(k[:1])),
        ),
        Misconception(
            "Length in place of the root mean square",
            "The sum of the squares must be divided by d: the *mean* square is asked "
            "for.",
            _normed(lambda x: np.sqrt((x**2).sum(1, keepdims=True) + 1e-5)),
        ),
        Misconception(
            "Vectors of length 1",
            "The RMS norm makes the mean square 1, up to ε. There is a division by d, "
            "and an ε, in the root.",
            _normed(lambda x: np.linalg.norm(x, axis=1, keepdims=True)),
        ),
        Misconception(
            "Vectors of length 1, with ε beside the length",
            "The RMS norm divides by the root of the mean square plus ε.",
            _normed(lambda x: np.linalg.norm(x, axis=1, keepdims=True) + 1e-5),
        ),
        Misconception(
            "LayerNorm",
            "The mean is subtracted. The RMS norm divides by the root of the mean "
            "square and subtracts nothing.",
            _layer_norm,
        ),
        Misconception(
            "Divided by the standard deviation",
            "The standard deviation subtracts the mean. The RMS norm takes the mean "
            "of the squares as they are.",
            _normed(lambda x: np.sqrt(x.var(1, keepdims=True) + 1e-5)),
        ),
        Misconception(
            "ε outside the root",
            "ε is added to the mean square, before the root is taken.",
            _normed(lambda x: _root_mean(x, eps=0) + 1e-5),
        ),
        Misconception(
            "Missing ε",
            "10⁻⁵ is added to the mean square, and for small keys it counts.",
            _normed(lambda x: _root_mean(x, eps=0)),
        ),
        Misconception(
            "ε 10⁻⁶",
            "Other norms have 10⁻⁶. Here ε is 10⁻⁵.",
            _normed(lambda x: _root_mean(x, eps=1e-6)),
        ),
        Misconception(
            "ε 10⁻⁸",
            "Other norms have 10⁻⁸. Here ε is 10⁻⁵.",
            _normed(lambda x: _root_mean(x, eps=1e-8)),
        ),
        Misconception(
            "Missing root",
            "Divide by the root of the mean square.",
            _normed(lambda x: _root_mean(x) ** 2),
        ),
        Misconception(
            "Mean over the tokens",
            "Each key is normed by itself, over its own features. Otherwise a token "
            "would see later ones.",
            _normed(lambda x: _root_mean(x, axis=0)),
        ),
        Misconception(
            "One norm for all tokens",
            "Each key is normed by itself, over its own features.",
            _normed(lambda x: _root_mean(x, axis=None)),
        ),
        Misconception(
            "Token after mixed in",
            "KV-shift looks one token back, not ahead.",
            _ahead,
        ),
        Misconception(
            "Missing shift",
            "Your answer is the normed keys. Mix first.",
            lambda k, alpha: _norm(k),
        ),
        Misconception(
            "Whole weight for the current key",
            "The token before has the share α, the current one has 1 − α.",
            lambda k, alpha: _norm(
                k + alpha[:, None] * np.concatenate((np.zeros_like(k[:1]), k[:-1]))
            ),
        ),
        Misconception(
            "Everything before mixed in",
            "The shift takes the *given* key of the token before, not its mixed key.",
            lambda k, alpha: _norm(_running(k, alpha)),
        ),
        Misconception(
            "Previous key with its own α",
            "Token i decides with its own α how much of its predecessor it takes.",
            lambda k, alpha: _norm(
                (1 - alpha[:, None]) * k
                + np.concatenate((np.zeros_like(k[:1]), (alpha[:, None] * k)[:-1]))
            ),
        ),
        Misconception(
            "ε added to the key",
            "ε is added to the mean square, in the root.",
            lambda k, alpha: _normed(lambda x: _root_mean(x, eps=0))(k, alpha) + 1e-5,
        ),
        Misconception(
            "α of the token before used",
            "Token i has a share of its own: α_i mixes key i − 1 into key i.",
            lambda k, alpha: shifted_keys(k, np.append(0.0, alpha[:-1])),
        ),
    ),
    properties=(
        Property(
            "No key has a mean square above 1",
            lambda answer, k, alpha: (answer(k, alpha) ** 2).mean(1).max() <= 1,
        ),
        Property(
            "Where α is 0 the key is normed only",
            lambda answer, k, alpha: np.allclose(answer(k, 0 * alpha), _norm(k)),
        ),
    ),
    level="optional",
    explanation=r"""
$\alpha_i$ is the share of the key *before*, $1 - \alpha_i$ that of the token's own; before the first token stand zeros, so the first key is only made smaller and then normed.
The shift comes first and the norm second, as {prf:ref}`the definition of FoX (Pro) <def-fox-pro-box>` has it: normed keys that are mixed afterwards have no unit mean square.
With gains 1 the mean square of a key is just below 1, because $\varepsilon$ is added to it.
""",
)


# fox-7: how far a head sees


def keys_holding(log_f, share):
    """Fewest nearest keys that hold the part ``share`` of the weight: an int.

    The weight is the attention weight of the last FoX query on all keys, which have
    equal content; ``log_f``, ``[tokens]``, are the log gates.
    """
    f = np.exp(np.cumsum(log_f[:0:-1]))
    cumulative = np.cumsum(np.append(1.0, f))
    return int((cumulative < share * cumulative[-1]).sum() + 1)


def _shares_left(log_f):
    """Share of each key's unnormalized weight that FoX's gates leave at the last query.

    ``log_f``, ``[tokens]``, are the log gates. The shares are ``[tokens]``, the oldest
    key's first.
    """
    return np.exp(forget_bias(log_f)[-1])


def _keys_holding(shares, share):
    """Number of last entries that hold the part ``share`` of the sum of ``shares``.

    An entry of ``shares``, ``[tokens]``, is the share of one key's unnormalized weight
    that FoX's gates leave; the newest key is last.
    """
    cumulative = np.cumsum(shares[::-1])
    return int((cumulative < share * cumulative[-1]).sum() + 1)


_HALF = np.full(40, -math.log(2))
_SLOW = np.full(2000, -math.log1p(math.exp(-5)))


@np.errstate(all="ignore")
def _by_ratio(log_f, share):
    c = np.exp(np.cumsum(log_f))
    cumulative = np.cumsum((c[-1] / c)[::-1])
    return int(np.argmax(cumulative >= share * cumulative[-1]) + 1)


KEYS_HOLDING = Exercise(
    name="fox-7",
    title="How far a head sees",
    kind="experiment",
    minutes=12,
    lines=3,
    statement=r"""
All keys have the same content, so the last query's weights are proportional to $F_{ij}$.
Return the smallest number of nearest keys, the query's own included, that together hold at least `share` < 1 of its weight.
`log_f` is `[tokens]`, oldest first.
What is this number for a gate bias of 0 and a share of 0.99?
And for a gate bias of 5?
""",
    hint=r"""
Take cumulative sums twice: of $\log f$ from the end, and of their exponentials.
""",
    cases=(
        (np.zeros(4), 0.6),
        (np.zeros(3), 0.9),
        (np.zeros(4), 0.5),
        (np.zeros(4), 0.7501),
        (np.zeros(12), 0.5),
        (np.log([0.1, 0.9, 0.5, 0.4]), 0.75),
        (np.repeat([-50.0, -0.1], [20, 5]), 0.75),
        (_HALF, 0.99),
        (_SLOW, 0.99),
        (-np.logaddexp(0, -2 + 4 * draw(60)), 0.9),
        (np.log(np.random.default_rng(300).uniform(0.85, 1, size=300)), 0.95),
    ),
    solution=keys_holding,
    misconceptions=(
        Misconception(
            "Weights not normalized",
            "The shares F do not sum to one. Without a normalization the nearest key "
            "alone, with F = 1, would be enough. Divide by their sum.",
            lambda log_f, share: int(
                (_shares_left(log_f)[::-1].cumsum() < share).sum() + 1
            ),
        ),
        Misconception(
            "More than the share required",
            "At least the share is asked for: keys that hold it exactly are enough.",
            lambda log_f, share: int(
                (
                    _shares_left(log_f)[::-1].cumsum()
                    <= share * _shares_left(log_f).sum()
                ).sum()
                + 1
            ),
        ),
        Misconception(
            "Keys compared one by one",
            "F ≤ 1 − share says that one key has little weight. What weight do all "
            "the older keys have together?",
            lambda log_f, share: int((_shares_left(log_f) > 1 - share).sum()),
        ),
        Misconception(
            "One key too few",
            "The key with which the share is reached counts, too.",
            lambda log_f, share: keys_holding(log_f, share) - 1,
        ),
        Misconception(
            "Oldest keys counted first",
            "The nearest keys have the most weight, and gates are stored oldest first.",
            lambda log_f, share: _keys_holding(_shares_left(log_f)[::-1], share),
        ),
        Misconception(
            "Key's own gate in the product",
            "Your keys pay for their own gates, even the query's own key. With "
            "constant gates the mistake would not show, since the softmax normalizes.",
            lambda log_f, share: _keys_holding(
                _shares_left(log_f) * np.exp(log_f), share
            ),
        ),
        Misconception(
            "The other part of the weight added up",
            "Count the keys that hold the share, not those that hold the rest.",
            lambda log_f, share: keys_holding(log_f, 1 - share),
        ),
        Misconception(
            "Weight from the key's own gate alone",
            "F is the product of all gates between key and query, not one of them.",
            lambda log_f, share: _keys_holding(np.exp(log_f), share),
        ),
        Misconception(
            "Gates added, not their logarithms",
            "Gates multiply on the way from the key to the query.",
            lambda log_f, share: _keys_holding(
                np.exp(log_f)[::-1].cumsum()[::-1], share
            ),
        ),
        Misconception(
            "Logarithms summed, not weights",
            "D is log F. Take its exponential first, and sum the exponentials.",
            lambda log_f, share: _keys_holding(forget_bias(log_f)[-1], share),
        ),
        Misconception(
            "Single keys compared with the rest",
            "A single key with more than 1 − share says nothing of the weight of all "
            "keys together.",
            lambda log_f, share: int(
                (_shares_left(log_f) > (1 - share) * _shares_left(log_f).sum()).sum()
            ),
        ),
        Misconception(
            "Gates read newest first",
            "`log_f` is stored oldest first: the newest gate is the last entry, and "
            "the step to the nearest older key has this gate.",
            lambda log_f, share: keys_holding(
                np.append(log_f[:1], log_f[:0:-1]), share
            ),
        ),
        Misconception(
            "F as a ratio of two exponentials",
            "In a long text both exponentials of the sums from the oldest gate are 0, "
            "and 0/0 is NaN. Subtract before the exponential, or sum from the end.",
            _by_ratio,
        ),
        Misconception(
            "Single gates, not products",
            "F is the product of all gates between key and query. Yours is the last "
            "one of them alone.",
            lambda log_f, share: _keys_holding(
                np.exp(np.append(log_f[1:], 0.0)), share
            ),
        ),
        Misconception(
            "One key too many",
            "The oldest gate stands before the oldest key, and no key is beyond it: n "
            "tokens have n keys.",
            lambda log_f, share: keys_holding(np.append(0.0, log_f), share),
        ),
        Misconception(
            "Gates in reverse order",
            "`log_f` is stored oldest first, and the query is the last token.",
            lambda log_f, share: keys_holding(log_f[::-1], share),
        ),
        Misconception(
            "Weights rounded before they are added",
            "Twelve weights of 1/12 are no binary numbers, and six of them may add up "
            "to less than ½. Compare the sum of the F with the share of their whole "
            "sum.",
            lambda log_f, share: int(
                (
                    np.cumsum((lambda f: f / f.sum())(_shares_left(log_f)[::-1]))
                    < share
                ).sum()
                + 1
            ),
        ),
    ),
    properties=(
        Property(
            "The share 0.999 needs more keys than the share 0.5",
            lambda answer, log_f, share: answer(log_f, 0.999) > answer(log_f, 0.5),
        ),
    ),
    explanation=r"""
With the bias 0 every gate is ½, and 7 keys hold $1 - 2^{-7}$, more than 0.99.
With the bias 5 each gate is $\sigma(5) \approx 0.9933$, and it takes 686 keys, in a text that is long enough.
In both cases it is about $\log(100)/\mu$ with $\mu = -\log f$, the window of {prf:ref}`the theorem on the mean window <thm-fox-window>`.
So at the first step a layer of the authors' sees about seven tokens, and one with the bias 5 a hundred times as many.
""",
    prediction=Prediction(
        "With a gate bias of 5 at every token, how many keys hold 0.99 of the weight?",
        lambda: keys_holding(_SLOW, 0.99),
        near=0.2,
    ),
)


# fox-8: at least, or more


def colleagues_count(log_f, share):
    """Fewest nearest keys that hold the part ``share``."""
    log_left = np.append(0.0, log_f[:0:-1]).cumsum()
    held = np.exp(log_left).cumsum()
    too_few = held <= share * held[-1]
    return int(np.count_nonzero(too_few)) + 1


def gates_that_differ():
    """Return `(log_f, share)`, few tokens with a wrong `colleagues_count`."""
    return np.zeros(2), 0.5


TIES = Exercise(
    name="fox-8",
    title="Find the input: at least",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_count` should do what exercise fox-7 asks for.
Her tests are 40 and 300 gates of ½ with the shares 0.99 and 0.7, and 3 open gates with the share 0.9; they pass.
Return `(log_f, share)` with as few tokens as possible for which it is wrong; `share` is above 0 and below 1, and `log_f` has numbers from −99 to 0.
Why would a thousand random tests probably not have found it?
""",
    hint=r"""
*At least* the share is asked for.
When do some of the nearest keys hold it exactly?
""",
    cases=((),),
    solution=gates_that_differ,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_count,
        right=keys_holding,
        tested=(
            (np.full(40, -math.log(2)), 0.99),
            (np.full(300, -math.log(2)), 0.7),
            (np.zeros(3), 0.9),
        ),
        refusal=lambda log_f, share: (
            ""
            if log_f.ndim == 1
            and log_f.dtype == float
            and 0 < len(log_f) <= 1000
            and log_f.min() >= -99
            and log_f.max() <= 0
            and 0 < share < 1
            else "log_f is a float array of at most 1000 numbers from −99 to 0, and "
            "share is above 0 and below 1"
        ),
        size=lambda log_f, share: len(log_f),
        size_of="number of tokens",
    ),
    explanation=r"""
She asks for *more* than the share, which differs only where some of the nearest keys hold exactly the share.
One token holds everything, which no share below 1 equals; two open gates give both keys the weight ½, and with the share ½ one key is enough.
For random gates the sums are random numbers, and an exact tie has probability 0: edge cases must be written down, not drawn.
Gates of 1 and shares with few binary digits are the inputs whose sums have no rounding.
""",
)


SHEET = Sheet(
    title="FoX, the forget gate",
    conventions=r"""
Everywhere $i$ is the query and $j \le i$ the key, counted from 0.
$f_l \in (0, 1)$ is the gate of token $l$, $F_{ij}$ the share of key $j$ that is left at query $i$, $D = \log F$, and $c$ are the cumulative sums of $\log f$.
""",
    example=r"""
from posedu.numpy.gated import log_gates

x = np.log([[1.0], [3.0], [9.0]])  # [tokens, d_model]
w, b = np.array([[1.0], [-1.0]]), np.zeros(2)  # two heads
print(np.round(np.exp(log_gates(x, w, b)), 3))
""",
    figure="fox_explorable",
    exercises=(SHARE_LEFT, SLOPE, WEIGHTS, SUMS, FEATURE, SHIFT, KEYS_HOLDING, TIES),
)
