"""The exercises on FoX, the forget gate."""

import math
from dataclasses import dataclass

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw
from posedu.numpy.attention import causal_mask, softmax
from posedu.numpy.gated import forget_bias

# fox-1: the gates between


def kept(f, i, j):
    """The share of key j that is left at query i ≥ j, of the gates f."""
    return sp.Mul(*f[j + 1 : i + 1])


_GATES = sp.symbols("f:6", positive=True)

KEPT = Exercise(
    name="fox-1",
    title="The gates between",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
On paper: which gates does key $j$ pass on its way to query $i$?
`f` holds the gates, `f[l]` that of token $l$.
Return $F_{ij}$ for $j \le i$.
What must it be for $i = j$?
""",
    hint=r"""
From a token to the next one gate acts, that of the later token.
""",
    cases=((_GATES, 2, 2), (_GATES, 3, 2), (_GATES, 5, 1), (_GATES, 4, 0)),
    solution=kept,
    misconceptions=(
        Misconception(
            "The key's own gate is in the product",
            "f_j has decided about what came *before* j. Nothing of j itself has been "
            "forgotten when j is written: what must the product be for i = j?",
            lambda f, i, j: sp.prod(f[j : i + 1]),
        ),
        Misconception(
            "The query's gate is missing",
            "f_i acts before query i looks: what token i forgets is gone for token i. "
            "One step back costs one gate; which?",
            lambda f, i, j: sp.prod(f[j + 1 : i]),
        ),
        Misconception(
            "The gates are one place too early",
            "f_j is in and f_i is out. The number of gates is right, i − j, and they "
            "belong to the later end of each step.",
            lambda f, i, j: sp.prod(f[j:i]),
        ),
        Misconception(
            "The gates are added",
            "Shares of shares multiply. It is their logarithms that add up.",
            lambda f, i, j: sum(f[j + 1 : i + 1], sp.Integer(0)),
        ),
        Misconception(
            "These are all gates up to the query",
            "What was forgotten before key j existed does not concern it.",
            lambda f, i, j: sp.prod(f[: i + 1]),
        ),
        Misconception(
            "Only the query's gate is counted",
            "That is one step. Between j and i there are i − j of them, each with a "
            "gate.",
            lambda f, i, j: f[i] if i > j else sp.Integer(1),
        ),
        Misconception(
            "One gate, whatever the distance",
            "Between j and i there are i − j steps, each with a gate; for i = j "
            "there is none.",
            lambda f, i, j: f[i],
        ),
        Misconception(
            "This is the key's own gate",
            "f_j decides about what came before j.",
            lambda f, i, j: f[j],
        ),
        Misconception(
            "The query's gate is taken for all steps",
            "Every token on the way has a gate of its own.",
            lambda f, i, j: f[i] ** (i - j),
        ),
        Misconception(
            "The gates after the query are counted",
            "What comes after i is not known to query i, and has not forgotten "
            "anything yet.",
            lambda f, i, j: sp.Mul(*f[j + 1 :]),
        ),
        Misconception(
            "What is forgotten is multiplied",
            "f is what stays, 1 − f is what goes.",
            lambda f, i, j: sp.Mul(*(1 - x for x in f[j + 1 : i + 1])),
        ),
        Misconception(
            "This is its logarithm",
            "D is a sum of logarithms; the share is a product.",
            lambda f, i, j: sp.Add(*map(sp.log, f[j + 1 : i + 1])),
        ),
        Misconception(
            "These are all gates up to the key",
            "They have acted on what was there before j. Key j meets those that "
            "come after it.",
            lambda f, i, j: sp.Mul(*f[: j + 1]),
        ),
        Misconception(
            "The empty product is taken for 0",
            "For i = j no gate acts: nothing has been forgotten, and the whole is "
            "left.",
            lambda f, i, j: kept(f, i, j) if i > j else sp.Integer(0),
        ),
        Misconception(
            "The key's gate is taken for all steps",
            "Every token on the way has a gate of its own, and f_j is none of them.",
            lambda f, i, j: f[j] ** (i - j),
        ),
        Misconception(
            "What is forgotten is multiplied, one place too early",
            "f is what stays, and gates belong to the later end of each step.",
            lambda f, i, j: sp.Mul(*(1 - x for x in f[j:i])),
        ),
        Misconception(
            "The gates are two places too early",
            "From a token to the next one gate acts, that of the later token.",
            lambda f, i, j: sp.Mul(*f[max(j - 1, 0) : i]),
        ),
        Misconception(
            "The slice runs backwards",
            "The key is the earlier token: j ≤ i, so the gates from j + 1 on come "
            "first.",
            lambda f, i, j: sp.Mul(*f[i : j + 1]),
        ),
        Misconception(
            "Only the two ends are counted",
            "Every token on the way from j to i has a gate, and f_j is none of them.",
            lambda f, i, j: f[i] * f[j],
        ),
        Misconception(
            "This is what is forgotten",
            "The share that is *left* is asked for.",
            lambda f, i, j: 1 - kept(f, i, j),
        ),
    ),
    properties=(
        Property(
            "A query has forgotten nothing of itself",
            lambda a, f, i, j: a(f, i, i) == 1,
        ),
        Property(
            "What k keeps of j and i keeps of k multiply to what i keeps of j",
            lambda answer, f, i, j: (
                answer(f, 4, 1) == sp.expand(answer(f, 4, 2) * answer(f, 2, 1))
            ),
        ),
    ),
)


# fox-2: the bias of an ALiBi slope


def bias_of(m):
    """The gate bias b of a constant gate σ(b) that makes FoX ALiBi of slope m."""
    return -sp.log(sp.exp(m) - 1)


SLOPE = Exercise(
    name="fox-2",
    title="The bias of a slope",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
A gate that is the same for all tokens, $f = \sigma(b)$, makes FoX ALiBi with a slope $m > 0$: the logits fall by $m$ a token.
Which bias $b$ belongs to $m$?
Return a SymPy expression.
""",
    hint=r"""
What is $\log f$ to be? Solve $\sigma(b) = f$ for $b$.
""",
    cases=((sp.Rational(1, 2),), (sp.log(3),), (sp.Symbol("m", positive=True),)),
    solution=bias_of,
    misconceptions=(
        Misconception(
            "This is stick-breaking's logit",
            "There σ is what a key takes and 1 − σ what stays. A forget gate is what "
            "stays: the sign is the other one.",
            lambda m: sp.log(sp.exp(m) - 1),
        ),
        Misconception(
            "The slope is taken for the bias",
            "log f = −m is right. But f = σ(b), not e^b: the two are close for very "
            "negative b only.",
            lambda m: -m,
        ),
        Misconception(
            "The gate itself",
            "f = e^−m is the gate. The bias is what the sigmoid makes it of.",
            lambda m: sp.exp(-m),
        ),
        Misconception(
            "The time scale is taken for the bias",
            "1/m is the number of tokens T after which e^−1 is left. The bias follows "
            "it like a logarithm: about log T for long T.",
            lambda m: 1 / m,
        ),
        Misconception(
            "The bias is 5 for every slope",
            "5 is where one port of FoX starts, a slope of 0.0067. The paper starts "
            "at 0, where half is forgotten at every token. Neither follows from m.",
            lambda m: sp.Integer(5),
        ),
        Misconception(
            "One of the signs is lost",
            "The odds of f are f over 1 − f. And of 1 + e^(−b) = e^m the 1 goes to the "
            "other side.",
            lambda m: -sp.log(sp.exp(m) + 1),
        ),
        Misconception(
            "This is log f itself, with the sign lost",
            "The bias is what the sigmoid turns into the gate.",
            lambda m: m,
        ),
        Misconception(
            "The sigmoid is applied once more",
            "b is what goes into the sigmoid, f what comes out. You went forwards.",
            lambda m: 1 / (1 + sp.exp(m)),
        ),
        Misconception(
            "The logit of the slope",
            "The gate is f = e^(−m), not m; the logit of f is asked for.",
            lambda m: sp.log(m / (1 - m)),
        ),
        Misconception(
            "This holds for gentle slopes only",
            "−log m is the limit for small m. What is e^m − 1 in place of m?",
            lambda m: -sp.log(m),
        ),
        Misconception(
            "The logarithm of the fraction that is lost",
            "1 − e^(−m) is what a token forgets. Its logarithm is not yet the logit.",
            lambda m: sp.log(1 - sp.exp(-m)),
        ),
        Misconception(
            "The exponent has lost its minus",
            "f = e^(−m) is below 1. With e^m you ask for the logit of something "
            "above 1.",
            lambda m: -sp.log(sp.exp(-m) - 1),
        ),
        Misconception(
            "The gate is the fraction that is lost",
            "This is 1 − e^(−m). The bias is what the sigmoid makes the gate of.",
            lambda m: 1 - sp.exp(-m),
        ),
        Misconception(
            "The logarithm of the slope",
            "The gate is f = e^(−m), and b is its logit.",
            lambda m: sp.log(m),
        ),
        Misconception(
            "The gate is the slope's exponential, without its minus",
            "e^m is above 1, and no sigmoid gives that: f = e^(−m).",
            lambda m: sp.log(sp.exp(m) / (1 - sp.exp(m))),
        ),
        Misconception(
            "This is the sigmoid of the slope",
            "You went forwards: b is what goes into the sigmoid, and what comes out "
            "is e^(−m).",
            lambda m: 1 / (1 + sp.exp(-m)),
        ),
        Misconception(
            "Minus the logarithm of what is lost",
            "The logit is log f − log(1 − f): one of the two terms is missing.",
            lambda m: -sp.log(1 - sp.exp(-m)),
        ),
        Misconception(
            "The logit of the slope, with its sign reversed",
            "The gate is f = e^(−m), not m, nor 1 − m; the logit of f is asked for.",
            lambda m: sp.log(1 / m - 1),
        ),
        Misconception(
            "The slope is taken for odds",
            "m is −log f. What are the odds f/(1 − f)?",
            lambda m: sp.log(m / (1 + m)),
        ),
        Misconception(
            "The two exponentials are exchanged",
            "1 − e^m is below 0 and has no real logarithm.",
            lambda m: sp.log(1 - sp.exp(m)),
        ),
    ),
    properties=(
        Property(
            "At bias 0 half is forgotten: the slope log 2",
            lambda answer, m: sp.simplify(answer(sp.log(2))) == 0,
        ),
        Property(
            "A gentler slope needs a larger bias",
            lambda answer, m: (
                float(answer(sp.Rational(1, 9)) - answer(sp.Integer(1))) > 0
            ),
        ),
    ),
)


# fox-3: the weights


def weights(q, k, log_f):
    """FoX's weights ``[tokens, tokens]`` of one head."""
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
    """Weights whose logits are what q · k/√d and the gates make."""
    return lambda q, k, log_f: _softmax(bias(_logits(q, k), log_f))


WEIGHTS = Exercise(
    name="fox-3",
    title="The weights",
    kind="NumPy",
    minutes=12,
    lines=5,
    statement=r"""
`q` and `k` are `[tokens, d]`, `log_f` is `[tokens]`, of one head.
Return FoX's attention weights, `[tokens, tokens]`, zero above the diagonal.
""",
    hint=r"""
`np.cumsum(log_f)` is all that $D$ needs. Which term of the logits is divided by $\sqrt d$?
""",
    cases=(
        _weights_case(2, 4),
        _weights_case(3, 4),
        _weights_case(8, 16),
        (*draw(2, 20, 4), np.full(20, -50.0)),
    ),
    solution=weights,
    misconceptions=(
        Misconception(
            "D is divided by √d",
            "Only q · k is. D belongs to the gates, not to the products, and a head of "
            "64 features would forget with the gate f^(1/8).",
            lambda q, k, log_f: _softmax(
                _logits(q, k) + forget_bias(log_f) / np.sqrt(q.shape[1])
            ),
        ),
        Misconception(
            "The key's own gate f_j is included",
            "The sum starts one term too early, so every key is punished by the gate "
            "with which it forgot *others*. Was one of your sums exclusive?",
            lambda q, k, log_f: _softmax(_logits(q, k) + forget_bias(log_f) + log_f),
        ),
        Misconception(
            "The query's own gate f_i is missing",
            "The last step to the query costs a gate, too, and yours is free. (Left "
            "out for *all* keys of the row, the softmax would hide it; the query's own "
            "key pays nothing.)",
            lambda q, k, log_f: _softmax(
                _logits(q, k)
                + forget_bias(log_f)
                - np.where(np.eye(len(q)), 0, log_f[:, None])
            ),
        ),
        Misconception(
            "The sign of D is reversed",
            "Keys gain with every token that passes. log f is negative, so D must be: "
            "which of the two sums is the lower one?",
            lambda q, k, log_f: _softmax(_logits(q, k) - forget_bias(log_f)),
        ),
        Misconception(
            "The gates multiply the weights",
            "After the softmax the rows no longer sum to one. FoX adds log F to the "
            "logits, so that what is forgotten falls to the other keys.",
            lambda q, k, log_f: _softmax(_logits(q, k)) * np.exp(forget_bias(log_f)),
        ),
        Misconception(
            "F is added in place of its logarithm",
            "F is between 0 and 1, so even a forgotten key loses no more than 1 in its "
            "logit. What is added must be able to go to −∞.",
            lambda q, k, log_f: _softmax(_logits(q, k) + np.exp(forget_bias(log_f))),
        ),
        Misconception(
            "Later keys are not hidden",
            "The gates do not mask: above the diagonal c_i − c_j is positive.",
            lambda q, k, log_f: softmax(
                _logits(q, k) + forget_bias(log_f) - forget_bias(log_f).T
            ),
        ),
        Misconception(
            "The logits are not divided by √d",
            "q · k is, D is not.",
            lambda q, k, log_f: weights(q * np.sqrt(q.shape[1]), k, log_f),
        ),
        Misconception(
            "F multiplies the logits, inside the exponential",
            "A logit times F does not forget: a negative one even gains. F is to "
            "multiply the *exponential*; what does that add to the logit?",
            _with_bias(lambda z, log_f: z * np.exp(forget_bias(log_f))),
        ),
        Misconception(
            "D multiplies the logits",
            "D is added to q · k/√d.",
            _with_bias(lambda z, log_f: z * forget_bias(log_f)),
        ),
        Misconception(
            "Only the key's own gate acts",
            "There is no cumulative sum: each gate between key and query forgets "
            "once more.",
            _with_bias(lambda z, log_f: z + log_f),
        ),
        Misconception(
            "The key's own gate is subtracted",
            "There is no cumulative sum: log f of single tokens says nothing of "
            "those between key and query.",
            _with_bias(lambda z, log_f: z - log_f),
        ),
        Misconception(
            "The sums are of gates, not of their logarithms",
            "Gates multiply, so their logarithms add up.",
            _with_bias(
                lambda z, log_f: z + np.subtract.outer(*[np.exp(log_f).cumsum()] * 2)
            ),
        ),
        Misconception(
            "The query's part alone has no effect",
            "c_i is the same for all keys of a row, and softmax does not see it. "
            "These are the weights without gates.",
            _with_bias(lambda z, log_f: z),
        ),
        Misconception(
            "The softmax runs over the queries",
            "A query shares its weight among the keys: rows sum to one.",
            lambda q, k, log_f: (lambda e: e / e.sum(0))(
                np.tril(np.exp(_logits(q, k) + forget_bias(log_f)))
            ),
        ),
        Misconception(
            "Hidden keys count in the sum",
            "Weights above the diagonal were set to zero after the softmax. They "
            "must not take part in it.",
            lambda q, k, log_f: np.tril(
                softmax(_logits(q, k) + np.cumsum(log_f)[:, None] - np.cumsum(log_f))
            ),
        ),
        Misconception(
            "A logit of 0 is no mask",
            "e^0 = 1: hidden keys get weight. What must a logit be for its "
            "exponential to vanish?",
            lambda q, k, log_f: softmax(np.tril(_logits(q, k) + forget_bias(log_f))),
        ),
        Misconception(
            "A query does not see itself",
            "The diagonal belongs to the causal triangle.",
            lambda q, k, log_f: softmax(
                _logits(q, k) + forget_bias(log_f), np.tri(len(q), k=-1, dtype=bool)
            ),
        ),
        Misconception(
            "The weights are not normalized",
            "Exponentials still have to be divided by their sum.",
            lambda q, k, log_f: np.tril(np.exp(_logits(q, k) + forget_bias(log_f))),
        ),
        Misconception(
            "Queries and keys are exchanged",
            "Row i belongs to query i: q @ k.T.",
            lambda q, k, log_f: weights(k, q, log_f),
        ),
        Misconception(
            "The logits are divided by d",
            "By its root.",
            lambda q, k, log_f: weights(q / np.sqrt(q.shape[1]), k, log_f),
        ),
        Misconception(
            "This looks ahead",
            "What is hidden is the past here, not the future.",
            lambda q, k, log_f: softmax(
                _logits(q, k) + np.cumsum(log_f)[:, None] - np.cumsum(log_f),
                np.tri(len(q), dtype=bool).T,
            ),
        ),
        Misconception(
            "All rows share one sum",
            "Each query's weights sum to one.",
            lambda q, k, log_f: (lambda e: e / e.sum())(
                np.tril(np.exp(_logits(q, k) + forget_bias(log_f)))
            ),
        ),
        Misconception(
            "The rows are divided by the sum of all, hidden keys aside",
            "Each query's weights sum to one, not those of all queries.",
            lambda q, k, log_f: (
                len(q)
                * (lambda e: e / e.sum())(
                    np.tril(np.exp(_logits(q, k) + forget_bias(log_f)))
                )
            ),
        ),
        Misconception(
            "The sum, with the key's own gate, is divided by √d",
            "Only q · k is divided. And the sum starts after the key: f_j does not "
            "act on it.",
            lambda q, k, log_f: _softmax(
                _logits(q, k) + (forget_bias(log_f) + log_f) / np.sqrt(q.shape[1])
            ),
        ),
        Misconception(
            "One gate for all tokens",
            "This takes the mean of the gates. Each token has its own.",
            lambda q, k, log_f: _softmax(
                _logits(q, k) + forget_bias(np.full_like(log_f, log_f.mean()))
            ),
        ),
        Misconception(
            "The maximum is taken along the wrong axis",
            "What is subtracted before the exponential must be the same for all "
            "keys of a row, or the weights change.",
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
            "Summed from the last token",
            "Then the difference c_i − c_j has the other sign, and the gates of "
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
            "The gates are multiplied up and divided",
            "Over a long text the products reach 0, and 0/0 is NaN. "
            "Subtract their logarithms.",
            _by_products,
        ),
        Misconception(
            "Hidden logits of 0 count in the sum",
            "Their exponentials are 1: a row's weights no longer sum to one. The mask "
            "is −∞, before the softmax.",
            lambda q, k, log_f: np.tril(
                softmax(np.tril(_logits(q, k) + forget_bias(log_f)))
            ),
        ),
        Misconception(
            "The largest logit is sought among hidden keys, too",
            "Theirs, with c_i − c_j above 0, may be larger by far: every exponential "
            "is 0 then, and the row is 0/0.",
            _below_all,
        ),
    ),
    properties=(
        Property(
            "Rows sum to one",
            lambda answer, q, k, log_f: np.allclose(answer(q, k, log_f).sum(1), 1),
        ),
        Property(
            "The first gate never acts",
            lambda answer, q, k, log_f: np.allclose(
                answer(q, k, log_f),
                answer(q, k, log_f - 3.0 * (np.arange(len(q)) == 0)),
            ),
        ),
    ),
)


# fox-4: the sums of a fresh layer


def sums(x, weight):
    """Cumulative sums c of the log gates, bias at its start, float32 ``[tokens]``."""
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
    title="The sums of a fresh layer",
    kind="PyTorch",
    minutes=10,
    lines=2,
    statement=r"""
A layer of FoX has just been made: its gate is $\sigma(w \cdot x + b)$ with the $b$ that the authors' code starts from.
`x` is `[tokens, d_model]` in bf16, `weight` is `[d_model]` in float32.
Return $c$, the cumulative sums of the logarithms of the gates up to each token and with it, in float32 and with its digits, `[tokens]`.
Predict first: where is $c$ after a thousand tokens?
""",
    hint=r"""
`torch.nn.functional.logsigmoid`. In which type must each step be?
""",
    cases=(
        _sums_case(3, 0.5),
        _sums_case(3, 100),
        _sums_case(512, 0.02),
        _sums_case(1000, 0.5),
    ),
    solution=sums,
    misconceptions=(
        Misconception(
            "The bias starts at 5",
            "That is x-transformers' choice: gates of 0.993, and half is forgotten after "
            "103 tokens. Where does the paper start, and how much is a gate then?",
            lambda x, weight: _start(x, weight, 5.0).cumsum(0),
        ),
        Misconception(
            "The sums are kept in bf16",
            "After a thousand tokens c is near −700, where neighbors in bf16 are 4 "
            "apart and a token is worth 0.7. Which type must the sum have?",
            _sums_in_half,
        ),
        Misconception(
            "The gates are computed in bf16",
            "The sum is wide, but each of its terms has lost its digits before: widen "
            "x and the weight first.",
            _gates_in_half,
        ),
        Misconception(
            "The gates are summed, not their logarithms",
            "Gates multiply along the way, so their logarithms add up; c only falls.",
            lambda x, weight: _start(x, weight, 0.0).exp().cumsum(0),
        ),
        Misconception(
            "The gate of the token itself is missing",
            "c_i includes log f_i. Without it the query's own gate acts one token "
            "late, and a key pays for its own.",
            lambda x, weight: sums(x, weight) - _start(x, weight, 0.0),
        ),
        Misconception(
            "The fraction that is forgotten is summed",
            "log (1 − f) is the logarithm of what is lost. f is what stays.",
            lambda x, weight: torch.nn.functional.logsigmoid(
                -x.float() @ weight.float()
            ).cumsum(0),
        ),
        Misconception(
            "The sigmoid has become 0 before its logarithm",
            "In float32 σ(−200) is 0, and log 0 is −∞ for ever after. There is a "
            "function that never forms the small number.",
            lambda x, weight: (x.float() @ weight.float()).sigmoid().log().cumsum(0),
        ),
        Misconception(
            "The product is computed in bf16",
            "A sum of products has lost its digits before the gate is computed: "
            "widen x, do not narrow the weight.",
            lambda x, weight: _of_products((x @ weight.to(x.dtype)).float()),
        ),
        Misconception(
            "Nothing is summed",
            "These are the logarithms of the gates. c adds them up from the first "
            "token on.",
            lambda x, weight: _start(x, weight, 0.0),
        ),
        Misconception(
            "The gates are multiplied",
            "That is e^c. Over a thousand tokens it is 0 in float32, which is why "
            "one keeps the sum.",
            lambda x, weight: _start(x, weight, 0.0).exp().cumprod(0),
        ),
        Misconception(
            "Summed from the last token",
            "c runs from the first token to each.",
            lambda x, weight: _start(x, weight, 0.0).flip(0).cumsum(0).flip(0),
        ),
        Misconception(
            "The sign is lost",
            "Logarithms of gates are negative. softplus(−z) is minus log σ(z).",
            lambda x, weight: -sums(x, weight),
        ),
        Misconception(
            "These are the sums of what goes into the gates",
            "The sigmoid and the logarithm are missing.",
            lambda x, weight: (x.float() @ weight.float()).cumsum(0),
        ),
        Misconception(
            "The bias starts at 1",
            "Where does the authors' code start, and how much is a gate then?",
            lambda x, weight: _start(x, weight, 1.0).cumsum(0),
        ),
        Misconception(
            "The logarithm of base 2",
            "log f is the natural logarithm, as in softmax's exponential.",
            lambda x, weight: sums(x, weight) / math.log(2),
        ),
        Misconception(
            "All of it is bf16",
            "Product, gates and sum: each of them loses digits. Widen first.",
            lambda x, weight: (
                torch.nn.functional.logsigmoid(x @ weight.to(x.dtype)).cumsum(0).float()
            ),
        ),
        Misconception(
            "The finished sums went through bf16",
            "Near −700 neighbors in bf16 are 4 apart.",
            lambda x, weight: sums(x, weight).bfloat16().float(),
        ),
        Misconception(
            "Every token gets the whole sum",
            "c runs along the tokens: for each of them the sum up to it.",
            lambda x, weight: _start(x, weight, 0.0).sum().expand(len(x)).clone(),
        ),
        Misconception(
            "What is lost is summed, and its sign as well",
            "softplus(z) is −log (1 − σ(z)). log f is −softplus(−z).",
            lambda x, weight: torch.nn.functional.softplus(x.float() @ weight).cumsum(
                0
            ),
        ),
        Misconception(
            "A small number is put under the sigmoid",
            "It keeps −∞ away and changes the result: log σ(−200) is −200. There is "
            "a function that never forms the small number.",
            lambda x, weight: ((x.float() @ weight).sigmoid() + 1e-6).log().cumsum(0),
        ),
    ),
    properties=(
        Property(
            "Sums of logarithms of gates only fall",
            lambda answer, x, weight: bool((answer(x, weight).diff() < 0).all()),
        ),
    ),
    tolerance=1e-2,
)


# fox-5: one more feature


@dataclass(frozen=True)
class Kernel:
    """Causal attention of one head that knows neither a bias nor a scale."""

    window: int

    def __call__(self, q, k, v):
        """The outputs ``[tokens, …]``, of scores divided by the root of q's width."""
        offset = torch.arange(len(q))[:, None] - torch.arange(len(k))
        hidden = (offset < 0) | (offset >= self.window)
        scores = (q @ k.T / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
        return scores.softmax(-1) @ v


def attend(q, k, v, log_f, kernel):
    """FoX's outputs ``[tokens, d]`` by a kernel that knows neither bias nor scale."""
    d = q.shape[-1]
    c = log_f.cumsum(0)[:, None]
    root = (d + 1) ** 0.5  # by which the kernel will divide
    q = torch.cat((q * (root / d**0.5), torch.ones_like(c)), -1)
    k = torch.cat((k, -c * root), -1)
    return kernel(q, k, v)


def _extended(feature=lambda c: -c, grown=None, root=None, beside=torch.ones_like):
    """The kernel on queries that have grown, with ``feature(c) * root`` beside k."""

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
    """The single terms of cumulative sums."""
    return c.diff(dim=0, prepend=torch.zeros_like(c[:1]))


def _attend_case(tokens, d, window):
    q, k, v = torch.tensor(draw(3, tokens, d))
    log_f = torch.nn.functional.logsigmoid(torch.tensor(draw(tokens)))
    return q, k, v, log_f, Kernel(window)


FEATURE = Exercise(
    name="fox-5",
    title="One more feature",
    kind="PyTorch",
    minutes=15,
    lines=5,
    statement=r"""
You are given a compiled kernel and cannot change it: `kernel(q, k, v)` is causal attention, takes no bias, no mask and no scale, and divides every score by the root of the width of the queries that it *gets*.
It has a window, too: it looks back no further than it was built for, and does not say how far.
Make it compute FoX all the same, by one more feature of queries and keys.
`q`, `k`, `v` are `[tokens, d]`, `log_f` is `[tokens]`, all float64; $q^\top k$ is to be divided by $\sqrt d$ and the gates by nothing.
Return the outputs `[tokens, d]`, those of FoX within that window.
""",
    hint=r"""
What of $c_i - c_j$ depends on the key? An inner product with what is put beside the query must give it.
Then undo the kernel's division, which is not by $\sqrt d$, once for each of the two parts.
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
            "The sign of the key bias is reversed",
            "Of D = c_i − c_j the softmax sees only what depends on j. That is −c_j: "
            "c falls with time, so the *newest* key has the greatest bias.",
            _extended(lambda c: c),
        ),
        Misconception(
            "The bias is divided by a root",
            "The kernel divides the whole product, and the new feature with it. "
            "Something must undo that.",
            _extended(root=_not_grown),
        ),
        Misconception(
            "Neither part is freed of the kernel's division",
            "It divides by the root of the width that it gets, which is d + 1: q · k "
            "must be divided by √d, and the gates by nothing.",
            _extended(grown=_not_grown, root=_not_grown),
        ),
        Misconception(
            "q · k is divided by √(d + 1)",
            "The kernel takes the width that it gets for d. The gates are right; make "
            "up for it in the queries or keys as well.",
            _extended(grown=_not_grown),
        ),
        Misconception(
            "The kernel is taken to divide by √d",
            "It divides by the root of the width that it gets, and that has grown.",
            _extended(grown=_not_grown, root=lambda d: d**0.5),
        ),
        Misconception(
            "The bias is multiplied by √d",
            "The kernel divides by the root of the width that it gets: that of q with "
            "its new feature.",
            _extended(root=lambda d: d**0.5),
        ),
        Misconception(
            "The queries have shrunk",
            "The kernel divides by more than √d: what must q be multiplied by?",
            _extended(grown=lambda d: 1 / _by_both_widths(d)),
        ),
        Misconception(
            "The kernel is not asked",
            "This attends to all earlier keys. The kernel has a window, of which it "
            "does not speak: leave the attention to it.",
            _written_out,
        ),
        Misconception(
            "The key's own gate acts on it",
            "−c_j with a sum that stops before j is off by one: each key gets the "
            "gates of its past less its own.",
            _extended(lambda c: _singles(c) - c),
        ),
        Misconception(
            "The gates of single tokens are added, not their sums",
            "A key is forgotten by all tokens after it.",
            _extended(lambda c: -_singles(c)),
        ),
        Misconception(
            "The gates themselves are summed",
            "Gates multiply, so it is their logarithms that add up.",
            _extended(lambda c: -_singles(c).exp().cumsum(0)),
        ),
        Misconception(
            "The bias stands beside the query",
            "These are the kernel's outputs without gates: c_i with a 1 beside each key "
            "is the same for all keys of a row, and the softmax does not see it.",
            _extended(torch.ones_like, beside=lambda c: c),
        ),
        Misconception(
            "The sums are multiplied by one another",
            "c_i beside the query and c_j beside the key make a product. The bias is "
            "to be −c_j: what stands beside every query?",
            _extended(beside=lambda c: c),
        ),
        Misconception(
            "The sign of the key bias is reversed, and the kernel is taken to divide by √d",
            "Of D = c_i − c_j the softmax sees −c_j. And the kernel divides by the "
            "root of the width that it gets.",
            _extended(lambda c: c, grown=_not_grown, root=lambda d: d**0.5),
        ),
        Misconception(
            "The sign of the key bias is reversed, and the kernel's division is not undone",
            "Of D = c_i − c_j the softmax sees −c_j. And the kernel divides the "
            "whole product, new feature and all.",
            _extended(lambda c: c, grown=_not_grown, root=_not_grown),
        ),
        Misconception(
            "The new feature is scaled like the old ones",
            "q grows so that √d remains. The gates are to be divided by nothing: "
            "what has to stand beside the key?",
            _extended(root=_by_both_widths),
        ),
        Misconception(
            "The keys are multiplied by gates",
            "A gate multiplies the exponential of the score, not the key: it is a "
            "term of the logit.",
            lambda q, k, v, log_f, kernel: kernel(
                q, k * log_f.cumsum(0).exp()[:, None], v
            ),
        ),
        Misconception(
            "The values are multiplied by gates",
            "What is forgotten goes to the other keys. A gate acts inside the "
            "softmax, on the logit.",
            lambda q, k, v, log_f, kernel: kernel(
                q, k, v * log_f.cumsum(0).exp()[:, None]
            ),
        ),
    ),
    properties=(
        Property(
            "With all gates 1 this is the kernel's attention without gates",
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
)


# fox-6: shift, then norm


def keys(k, alpha):
    """FoX Pro's keys of one head, gains 1: ``[tokens, d]``."""
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
    """The shifted keys, divided by ``norm`` of them."""

    def answer(k, alpha):
        mixed = _mix(k, alpha, np.zeros_like(k[:1]))
        return mixed / norm(mixed)

    return answer


def _root_mean(x, axis=1, eps=1e-5):
    return np.sqrt((x**2).mean(axis=axis, keepdims=True) + eps)


def _layer_norm(k, alpha):
    mixed = _mix(k, alpha, np.zeros_like(k[:1]))
    centerd = mixed - mixed.mean(axis=1, keepdims=True)
    return centerd / _root_mean(centerd)


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
The keys of FoX Pro are mixed with those of the token before, by a gate $\alpha_i$ of each token, as the chapter defines it, and then RMS-normed.
`k` is `[tokens, d]`, `alpha` is `[tokens]`; gains are 1, and $\varepsilon = 10^{-5}$ is added to the mean square.
Return the keys, `[tokens, d]`.
""",
    hint=r"""
Which of the two keys does $\alpha$ weigh? What stands before the first token?
""",
    cases=(_keys_case(2, 2), _keys_case(3, 4), _keys_case(10, 8)),
    solution=keys,
    misconceptions=(
        Misconception(
            "α weighs the current token",
            "In KV-shift α is the share of the token *before*: α = 1 forgets the "
            "current key, α = 0 is no shift.",
            lambda k, alpha: keys(k, 1 - alpha),
        ),
        Misconception(
            "Norm before shift",
            "A mixture of two normed keys is no longer normed, and lengths that the "
            "shift should have seen are gone. Mind the order.",
            lambda k, alpha: _mix(_norm(k), alpha, np.zeros_like(k[:1])),
        ),
        Misconception(
            "The last token comes before the first",
            "np.roll wraps round, so the first token looks into the future. Before the "
            "first there is nothing: zeros.",
            lambda k, alpha: _norm(_mix(k, alpha, k[-1:])),
        ),
        Misconception(
            "The first token is its own predecessor",
            "Before the first token there are zeros, not a copy of it.",
            lambda k, alpha: _norm(_mix(k, alpha, k[:1])),
        ),
        Misconception(
            "The previous token's α is used",
            "Token i decides with its own α how much of its predecessor it takes.",
            lambda k, alpha: keys(k, np.concatenate((alpha[:1], alpha[:-1]))),
        ),
        Misconception(
            "Each key is divided by its length",
            "The RMS norm divides by the root of the *mean* square, so that features, "
            "not vectors, have the size 1.",
            lambda k, alpha: keys(k, alpha) / np.sqrt(k.shape[1]),
        ),
        Misconception(
            "The norm is missing",
            "This is the shift alone, which is right for values. Keys are normed.",
            lambda k, alpha: _mix(k, alpha, np.zeros_like(k[:1])),
        ),
        Misconception(
            "This is the length, not the root mean square",
            "The sum of the squares has to be divided by d: the *mean* square.",
            _normed(lambda x: np.sqrt((x**2).sum(1, keepdims=True) + 1e-5)),
        ),
        Misconception(
            "The vectors are made to have length 1",
            "The RMS norm makes the mean square 1, up to ε: there is a division by "
            "d, and an ε, in the root.",
            _normed(lambda x: np.linalg.norm(x, axis=1, keepdims=True)),
        ),
        Misconception(
            "The vectors are made to have length 1, with ε beside it",
            "The RMS norm divides by the root of the mean square plus ε.",
            _normed(lambda x: np.linalg.norm(x, axis=1, keepdims=True) + 1e-5),
        ),
        Misconception(
            "This is LayerNorm",
            "The mean is subtracted. The RMS norm divides by the root of the mean "
            "square and subtracts nothing.",
            _layer_norm,
        ),
        Misconception(
            "The standard deviation is divided by",
            "It subtracts the mean inside. The RMS norm has the mean of the squares "
            "as they are.",
            _normed(lambda x: np.sqrt(x.var(1, keepdims=True) + 1e-5)),
        ),
        Misconception(
            "ε stands outside the root",
            "It is added to the mean square, before the root is taken.",
            _normed(lambda x: _root_mean(x, eps=0) + 1e-5),
        ),
        Misconception(
            "ε is missing",
            "10⁻⁵ is added to the mean square, and for small keys it counts.",
            _normed(lambda x: _root_mean(x, eps=0)),
        ),
        Misconception(
            "ε is 10⁻⁶",
            "Other norms have that. Here it is 10⁻⁵.",
            _normed(lambda x: _root_mean(x, eps=1e-6)),
        ),
        Misconception(
            "ε is 10⁻⁸",
            "Other norms have that. Here it is 10⁻⁵.",
            _normed(lambda x: _root_mean(x, eps=1e-8)),
        ),
        Misconception(
            "The root is missing",
            "Divide by the root of the mean square.",
            _normed(lambda x: _root_mean(x) ** 2),
        ),
        Misconception(
            "The mean runs over the tokens",
            "Each key is normed by itself, over its own features; else a token "
            "would see later ones.",
            _normed(lambda x: _root_mean(x, axis=0)),
        ),
        Misconception(
            "One norm for all tokens",
            "Each key is normed by itself, over its own features.",
            _normed(lambda x: _root_mean(x, axis=None)),
        ),
        Misconception(
            "The token after is mixed in",
            "KV-shift looks one token back, not ahead.",
            _ahead,
        ),
        Misconception(
            "The shift is missing",
            "These are the normed keys. Mix first.",
            lambda k, alpha: _norm(k),
        ),
        Misconception(
            "The current key keeps its whole weight",
            "What α gives to the token before, 1 − α leaves to the current one.",
            lambda k, alpha: _norm(
                k + alpha[:, None] * np.concatenate((np.zeros_like(k[:1]), k[:-1]))
            ),
        ),
        Misconception(
            "Everything before is mixed in",
            "The shift takes the *given* key of the token before, not its mixed one.",
            lambda k, alpha: _norm(_running(k, alpha)),
        ),
        Misconception(
            "The previous key comes with its own α",
            "Token i decides with its own α how much of its predecessor it takes.",
            lambda k, alpha: _norm(
                (1 - alpha[:, None]) * k
                + np.concatenate((np.zeros_like(k[:1]), (alpha[:, None] * k)[:-1]))
            ),
        ),
        Misconception(
            "ε is added to the key",
            "It is added to the mean square, in the root.",
            lambda k, alpha: _normed(lambda x: _root_mean(x, eps=0))(k, alpha) + 1e-5,
        ),
        Misconception(
            "α of the token before is used",
            "Token i has a share of its own: α_i mixes key i − 1 into key i.",
            lambda k, alpha: keys(k, np.append(0.0, alpha[:-1])),
        ),
    ),
    properties=(
        Property(
            "No key has a mean square above 1",
            lambda answer, k, alpha: (answer(k, alpha) ** 2).mean(1).max() <= 1,
        ),
        Property(
            "Where α is 0 nothing is shifted",
            lambda answer, k, alpha: np.allclose(answer(k, 0 * alpha), _norm(k)),
        ),
    ),
)


# fox-7: how far does a head see?


def reach(log_f, share):
    """How many keys, the nearest first, hold ``share`` of the last query's weight."""
    f = np.exp(np.cumsum(log_f[:0:-1]))
    held = np.cumsum(np.append(1.0, f))
    return int((held < share * held[-1]).sum() + 1)


def _kept(log_f):
    """F of the last query, oldest key first."""
    return np.exp(forget_bias(log_f)[-1])


def _reach(kept, share):
    """How many of ``kept``, from the end, hold ``share`` of their sum."""
    held = np.cumsum(kept[::-1])
    return int((held < share * held[-1]).sum() + 1)


_HALF = np.full(40, -math.log(2))
_SLOW = np.full(2000, -math.log1p(math.exp(-5)))


@np.errstate(all="ignore")
def _by_ratio(log_f, share):
    c = np.exp(np.cumsum(log_f))
    held = np.cumsum((c[-1] / c)[::-1])
    return int(np.argmax(held >= share * held[-1]) + 1)


REACH = Exercise(
    name="fox-7",
    title="How far does a head see?",
    kind="experiment",
    minutes=12,
    lines=3,
    statement=r"""
All keys have the same content, so the last query's weights are proportional to $F_{ij}$.
Return how many keys, itself and the nearest first, hold at least `share` < 1 of its weight, as an `int`.
`log_f` is `[tokens]`, oldest first.
Predict before you run: for bias 0 and a share of 0.99? For bias 5?
""",
    hint=r"""
Cumulative sums twice: of $\log f$ from the end, and of what their exponentials hold.
""",
    cases=(
        (np.zeros(4), 0.6),
        (np.zeros(3), 0.9),
        (np.zeros(4), 0.5),
        (np.log([0.1, 0.9, 0.5, 0.4]), 0.75),
        (np.repeat([-50.0, -0.1], [20, 5]), 0.75),
        (_HALF, 0.99),
        (_SLOW, 0.99),
        (-np.logaddexp(0, -2 + 4 * draw(60)), 0.9),
        (np.log(np.random.default_rng(300).uniform(0.85, 1, size=300)), 0.95),
    ),
    solution=reach,
    misconceptions=(
        Misconception(
            "The weights are not normalized",
            "The shares F do not sum to one, so the nearest key alone, with F = 1, "
            "would be enough. Divide by their sum.",
            lambda log_f, share: int((_kept(log_f)[::-1].cumsum() < share).sum() + 1),
        ),
        Misconception(
            "More than the share",
            "At least the share: keys that hold it exactly are enough.",
            lambda log_f, share: int(
                (_kept(log_f)[::-1].cumsum() <= share * _kept(log_f).sum()).sum() + 1
            ),
        ),
        Misconception(
            "Keys are judged one by one",
            "F ≤ 1 − share says that one key weighs little. What do all the keys "
            "behind it weigh together?",
            lambda log_f, share: int((_kept(log_f) > 1 - share).sum()),
        ),
        Misconception(
            "One key too few",
            "The key with which the share is reached counts, too.",
            lambda log_f, share: reach(log_f, share) - 1,
        ),
        Misconception(
            "The oldest keys are counted first",
            "The nearest keys weigh most; gates are stored oldest first.",
            lambda log_f, share: _reach(_kept(log_f)[::-1], share),
        ),
        Misconception(
            "The key's own gate is in the product",
            "Each key pays for its own gate, even the query's own key. With constant "
            "gates nobody would notice, since the softmax normalizes.",
            lambda log_f, share: _reach(_kept(log_f) * np.exp(log_f), share),
        ),
        Misconception(
            "The shares add up the wrong part",
            "Count the keys that hold the share, not those that hold the rest.",
            lambda log_f, share: reach(log_f, 1 - share),
        ),
        Misconception(
            "Each key has the weight of its own gate",
            "F is the product of all gates between key and query, not one of them.",
            lambda log_f, share: _reach(np.exp(log_f), share),
        ),
        Misconception(
            "The gates are added, not their logarithms",
            "Gates multiply on the way from the key to the query.",
            lambda log_f, share: _reach(np.exp(log_f)[::-1].cumsum()[::-1], share),
        ),
        Misconception(
            "Logarithms are summed, not weights",
            "D is log F: take its exponential before you ask who holds how much.",
            lambda log_f, share: _reach(forget_bias(log_f)[-1], share),
        ),
        Misconception(
            "Single keys are compared with the rest",
            "One key that weighs more than 1 − share says nothing of what all of "
            "them hold together.",
            lambda log_f, share: int(
                (_kept(log_f) > (1 - share) * _kept(log_f).sum()).sum()
            ),
        ),
        Misconception(
            "The gates are read newest first",
            "`log_f` is stored oldest first: the newest gate stands at its "
            "end, and the step to the nearest older key costs that one.",
            lambda log_f, share: reach(np.append(log_f[:1], log_f[:0:-1]), share),
        ),
        Misconception(
            "F is a ratio of two exponentials",
            "Of sums from the oldest gate on both are 0 in a long text, and 0/0 is "
            "NaN. Subtract before the exponential, or sum from the end.",
            _by_ratio,
        ),
    ),
    properties=(
        Property(
            "The whole weight needs more keys than half of it",
            lambda answer, log_f, share: answer(log_f, 0.999) > answer(log_f, 0.5),
        ),
    ),
)


SHEET = Sheet(
    title="FoX, the forget gate",
    conventions=r"""
Everywhere $i$ is the query and $j \le i$ the key, counted from 0. $f_l \in (0, 1)$ is the gate of token $l$, $F_{ij}$ the share of key $j$ that is left at query $i$, $D = \log F$, and $c$ are the cumulative sums of $\log f$.
""",
    exercises=(KEPT, SLOPE, WEIGHTS, SUMS, FEATURE, SHIFT, REACH),
)
