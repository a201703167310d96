"""Exercises on stick-breaking attention."""

import math

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
from posedu.numpy.stickbreaking import break_stick

# stickbreaking-1: the pieces of a stick


def pieces(a, b, c):
    """Return the pieces of a stick that three keys take, and the rest: 4 expressions.

    Each key takes a fraction of what is left of the stick: ``a`` is the fraction of the
    oldest, ``b`` of the middle and ``c`` of the newest key, which takes first.
    """
    return a * (1 - b) * (1 - c), b * (1 - c), c, (1 - a) * (1 - b) * (1 - c)


def _pieces_that_sum_to_one(a, b, c):
    *taken, left = pieces(a, b, c)
    return [*(piece / (1 - left) for piece in taken), sp.Integer(0)]


PIECES = Exercise(
    name="stickbreaking-1",
    title="The pieces of a stick",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
Three keys break a stick of length 1 with the fractions $a$, $b$, $c$.
The key of $a$ is the oldest, and the key of $c$ is next to the query.
On paper, find the piece of each key and the rest of the stick.
Return the four in the order $a$, $b$, $c$, rest.
""",
    hint=r"""
Start at the query.
How much of the stick is left for the key of $b$?
""",
    cases=(
        (sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 4)),
        sp.symbols("beta:3"),
    ),
    solution=pieces,
    misconceptions=(
        Misconception(
            "Stick reversed",
            "In your answer the oldest key breaks first, and each weight is a product "
            "over *older* keys. The nearest key breaks first. Which keys come before "
            "each of the others?",
            lambda a, b, c: [a, b * (1 - a), c * (1 - a) * (1 - b), pieces(a, b, c)[3]],
        ),
        Misconception(
            "Fractions of the whole stick",
            "Each of your keys takes its fraction of the whole stick, so that more "
            "than the stick may be given away. A fraction is of the part that the "
            "nearer keys left.",
            lambda a, b, c: [a, b, c, pieces(a, b, c)[3]],
        ),
        Misconception(
            "A key's own 1 − β in its product",
            "A key breaks the part that it finds, and only the *nearer* keys have "
            "broken that.",
            lambda a, b, c: [
                p * (1 - own)
                for p, own in zip(pieces(a, b, c), (a, b, c, 0), strict=True)
            ],
        ),
        Misconception(
            "Row made to sum to one",
            "You divided by the sum. The weights of a row sum to less than one, and "
            "the remainder is not 0.",
            _pieces_that_sum_to_one,
        ),
        Misconception(
            "Fractions subtracted from one",
            "The remainder is not 1 − Σ β, since the fractions are not of the same "
            "stick.",
            lambda a, b, c: [*pieces(a, b, c)[:3], 1 - a - b - c],
        ),
        Misconception(
            "Only one nearer key counted",
            "The key of a comes after b *and* c, and each leaves 1 minus its fraction.",
            lambda a, b, c: [a * (1 - b), b * (1 - c), c, pieces(a, b, c)[3]],
        ),
        Misconception(
            "Pieces in reverse order",
            "The order is a, b, c, rest.",
            lambda a, b, c: [*pieces(a, b, c)[2::-1], pieces(a, b, c)[3]],
        ),
        Misconception(
            "Rest first",
            "The order is a, b, c, rest.",
            lambda a, b, c: [pieces(a, b, c)[3], *pieces(a, b, c)[:3]],
        ),
        Misconception(
            "Nearer keys' fractions subtracted",
            "1 − b − c is not what the nearer keys leave: c takes its fraction of the "
            "whole stick, and b of the part that c leaves.",
            lambda a, b, c: [a * (1 - b - c), b * (1 - c), c, pieces(a, b, c)[3]],
        ),
        Misconception(
            "Parts that are left multiplied, not the own fraction",
            "A key's own factor is its fraction β. Those of the nearer keys are 1 − β.",
            lambda a, b, c: [(1 - a) * b * c, (1 - b) * c, 1 - c, a * b * c],
        ),
        Misconception(
            "Fractions of the nearer keys multiplied",
            "A key finds the part that the nearer ones *left*: 1 − β of each.",
            lambda a, b, c: [a * b * c, b * c, c, pieces(a, b, c)[3]],
        ),
        Misconception(
            "Nothing left",
            "After each key a part of the stick is left. What do three keys leave?",
            lambda a, b, c: [*pieces(a, b, c)[:3], sp.Integer(0)],
        ),
        Misconception(
            "Rest before the oldest key",
            "The oldest key takes its fraction of that part, too.",
            lambda a, b, c: [*pieces(a, b, c)[:3], (1 - b) * (1 - c)],
        ),
        Misconception(
            "Sum of the pieces in place of the rest",
            "The rest is 1 minus the sum of the pieces.",
            lambda a, b, c: [*pieces(a, b, c)[:3], 1 - pieces(a, b, c)[3]],
        ),
        Misconception(
            "Fractions subtracted everywhere",
            "1 − b − c and 1 − a − b − c are not the parts that are left, since "
            "fractions are of the part that the nearer keys left.",
            lambda a, b, c: [a * (1 - b - c), b * (1 - c), c, 1 - a - b - c],
        ),
        Misconception(
            "Rest of two keys",
            "The key next to the query takes its piece, too.",
            lambda a, b, c: [
                *pieces(a, b, c)[:3],
                1 - pieces(a, b, c)[0] - pieces(a, b, c)[1],
            ],
        ),
        Misconception(
            "Fractions of the whole stick, and subtracted from one",
            "A fraction is of the part that the nearer keys left, so the rest is no "
            "difference of fractions.",
            lambda a, b, c: [a, b, c, 1 - a - b - c],
        ),
        Misconception(
            "Fractions of the nearer keys multiplied, and the rest made up",
            "A key finds the part that the nearer ones *left*: 1 − β of each.",
            lambda a, b, c: [a * b * c, b * c, c, 1 - a * b * c],
        ),
    ),
    properties=(
        Property(
            "Pieces and remainder sum to 1",
            lambda answer, a, b, c: sp.expand(sum(answer(a, b, c)) - 1) == 0,
        ),
    ),
    explanation=r"""
The key of $c$ is next to the query and takes $c$ of the whole stick; $1 - c$ is left.
The key of $b$ takes $b\,(1 - c)$, and $(1 - b)(1 - c)$ is left; the oldest takes $a\,(1 - b)(1 - c)$.
The rest is $(1 - a)(1 - b)(1 - c)$.
The four sum to 1 for any fractions, by {prf:ref}`the theorem that the products telescope <thm-stick-telescope>`; without the rest they do not.
""",
)


# stickbreaking-2: the logit of an ALiBi slope


def slope_logit(m):
    """Return the constant logit whose stick-breaking weights fall by e^−m per token.

    The logit is a SymPy expression of ``m``.
    """
    return sp.log(sp.exp(m) - 1)


SLOPE = Exercise(
    name="stickbreaking-2",
    title="The logit of an ALiBi slope",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
All logits of a row equal $z$.
For which $z$ do the weights fall by exactly $e^{-m}$ per token, as ALiBi's do with slope $m > 0$?
Return a SymPy expression of `m`.
Predict first: is $z$ more or less than $m$?
""",
    hint=r"""
Which share of the stick does one more key leave?
Set it equal to $e^{-m}$ and solve for $z$.
""",
    cases=((sp.Integer(1),), (sp.log(3),), (sp.Symbol("m", positive=True),)),
    solution=slope_logit,
    misconceptions=(
        Misconception(
            "Slope taken for the logit",
            "The weights fall by 1 − σ(z) per token, not by e^−z. The two are close "
            "only for large z.",
            lambda m: m,
        ),
        Misconception(
            "Solved in the wrong direction",
            "Your answer is the slope of a logit, m = softplus(z), with the letters "
            "exchanged. Solve it for z.",
            lambda m: sp.log(1 + sp.exp(m)),
        ),
        Misconception(
            "Logit of the fraction that stays",
            "Your answer has σ(z) = e^−m. But σ(z) is the fraction that is *taken*, "
            "and e^−m is the fraction that stays for the next key. (For a forget gate "
            "you would be right.)",
            lambda m: -sp.log(sp.exp(m) - 1),
        ),
        Misconception(
            "Logarithm of the fraction",
            "Your β = 1 − e^−m is right. Its logit is not its logarithm.",
            lambda m: sp.log(1 - sp.exp(-m)),
        ),
        Misconception(
            "Sign of the slope lost",
            "−m is the logarithm of the fraction that stays. The logit is that of the "
            "fraction that is taken.",
            lambda m: -m,
        ),
        Misconception(
            "Fraction that stays",
            "Your 1 − σ(z) = e^−m is right. Solve it for z.",
            lambda m: sp.exp(-m),
        ),
        Misconception(
            "Fraction in place of the logit",
            "Your β = 1 − e^−m is right. Which logit does it have?",
            lambda m: 1 - sp.exp(-m),
        ),
        Misconception(
            "Logarithm of the slope",
            "Your answer holds for very gentle slopes only. What is e^m − 1 in place "
            "of m?",
            lambda m: sp.log(m),
        ),
        Misconception(
            "Sign of the exponent lost",
            "The weights fall by e^−m, so 1 + e^z = e^m, with a plus in the exponent.",
            lambda m: sp.log(sp.exp(-m) - 1),
        ),
        Misconception(
            "Sigmoid applied once more",
            "z goes into the sigmoid, and β comes out.",
            lambda m: 1 / (1 + sp.exp(-m)),
        ),
        Misconception(
            "Missing logarithm",
            "e^z = e^m − 1. What is z?",
            lambda m: sp.exp(m) - 1,
        ),
        Misconception(
            "1 and the exponential exchanged",
            "1 − e^m is below 0 and has no real logarithm.",
            lambda m: sp.log(1 - sp.exp(m)),
        ),
    ),
    properties=(
        Property(
            "A steeper slope needs a larger logit",
            lambda answer, m: (
                float(answer(sp.Integer(1)) - answer(sp.Rational(1, 2))) > 0
            ),
        ),
    ),
    level="optional",
    explanation=r"""
One more key leaves the share $1 - \sigma(z) = 1/(1 + e^z)$ of the stick, and this is the ratio of two neighboring weights.
Set it to $e^{-m}$: then $1 + e^z = e^m$ and $z = \log(e^m - 1)$.
It is less than $m$ for every slope, since $e^m - 1 < e^m$, and for small $m$ far less, about $\log m$.
{prf:ref}`The theorem on constant logits <thm-stick-geometric>` reads it the other way: the slope is $\operatorname{softplus}(z)$.
""",
)


# stickbreaking-3: the paper's letters


def weights(z):
    """Return stick-breaking weights ``[query, key]`` of logits z, ``[query, key]``.

    The weights are computed as products, key by key.
    """
    beta = 1 / (1 + np.exp(-z))
    a = np.zeros_like(z)
    for i in range(len(z)):
        for j in range(i):
            a[i, j] = beta[i, j] * np.prod(1 - beta[i, j + 1 : i])
    return a


def _break(z, where, passed):
    """Return the weights of a wrong answer to the stick-breaking exercise ``weights``.

    Right is that the weight of key j < i for query i is β_ij times 1 − β of the keys
    between j and i, where β is the sigmoid of the logits ``z``, ``[query, key]``. In
    the wrong answer, ``passed(i, j)`` replaces the keys between j and i, or the
    condition ``where(i, j)`` for a nonzero weight replaces j < i.
    """
    beta = 1 / (1 + np.exp(-z))
    a = np.zeros_like(z)
    for i, j in np.ndindex(*z.shape):
        if where(i, j):
            a[i, j] = beta[i, j] * np.prod(1 - beta[i, passed(i, j)])
    return a


def _earlier(i, j):
    return j < i


def _normalized(z):
    total = weights(z).sum(-1, keepdims=True)
    return weights(z) / np.where(total > 0, total, 1)


def _down_the_column(z):
    beta = 1 / (1 + np.exp(-z))
    a = np.zeros_like(z)
    for i, j in np.ndindex(*z.shape):
        if j < i:
            a[i, j] = beta[i, j] * np.prod(1 - beta[j + 1 : i, j])
    return a


def _by_rows(z, weights_of_row):
    """Return the weights of a wrong answer to the stick-breaking exercise ``weights``.

    The exercise asks for weights ``[query, key]`` of logits ``z``, ``[query, key]``. In
    the wrong answer, ``weights_of_row`` maps the fractions (sigmoids of logits) of all
    keys before a query, oldest first, to their weights.
    """
    a = np.zeros_like(z)
    for i in range(1, len(z)):
        a[i, :i] = weights_of_row(1 / (1 + np.exp(-z[i, :i])))
    return a


def _softmax_of_earlier(z):
    odds = np.tril(np.exp(z), -1)
    total = odds.sum(-1, keepdims=True)
    return odds / np.where(total > 0, total, 1)


@np.errstate(all="ignore")
def _divided_out(z):
    beta = np.tril(1 / (1 + np.exp(-z)), -1)
    left = np.cumprod(1 - beta[:, ::-1], axis=1)[:, ::-1]
    return beta * (left / (1 - beta))


LETTERS = Exercise(
    name="stickbreaking-3",
    title="The paper's letters",
    kind="NumPy",
    minutes=12,
    lines=6,
    statement=r"""
The stick-breaking paper writes

$$A_{i,j} = \sigma(z_{i,j}) \prod_{i<k<j} \bigl(1 - \sigma(z_{k,j})\bigr)$$

with **$i$ the key and $j$ the query**.
Translate it into this book's letters, then compute it: `z` is `[query, key]`, and so is the result, with zeros where the key is not before the query.
Products are enough, and loops are allowed.
""",
    hint=r"""
Exchange the letters $i$ and $j$ first, in the bounds as well.
Then check with one row: which key's weight is a plain $\sigma$?
""",
    cases=(
        (np.zeros((3, 3)),),
        (np.array([[0.0, 1.0, 2.0], [-1.0, 0.5, 1.0], [2.0, -0.5, 0.0]]),),
        (draw(6, 6),),
        (np.where(np.eye(4, k=-1), 40.0, 0.0),),
    ),
    solution=weights,
    misconceptions=(
        Misconception(
            "Indices of the two papers mixed up: rows are keys",
            "The paper's A has the key first, and so has your answer: it is upper "
            "triangular. In this book row i is a query.",
            lambda z: weights(z).T,
        ),
        Misconception(
            "Indices of the two papers mixed up: the product is empty",
            "In the paper's formula i < k < j, i is the key. If i is the query, no k "
            "is between, the product is 1 and the weights are plain sigmoids.",
            lambda z: _break(z, _earlier, lambda i, j: slice(0, 0)),
        ),
        Misconception(
            "Stick reversed",
            "Your product runs over the keys older than j. The keys between j and the "
            "query break before j.",
            lambda z: _break(z, _earlier, lambda i, j: slice(0, j)),
        ),
        Misconception(
            "Query's own key included",
            "Your answer is that of `attend_current`, an option of the paper's code. "
            "The paper's formula stops before the query.",
            lambda z: _break(z, lambda i, j: j <= i, lambda i, j: slice(j + 1, i + 1)),
        ),
        Misconception(
            "Query's own key in the product",
            "Your product runs one key too far: the query's own key has no weight "
            "here, so it takes nothing.",
            lambda z: _break(z, _earlier, lambda i, j: slice(j + 1, i + 1)),
        ),
        Misconception(
            "Key's own factor in the product",
            "The product starts at the key *after* j. Only in log space does the sum "
            "start at j, since there the softplus makes log σ(z) of z.",
            lambda z: _break(z, _earlier, lambda i, j: slice(j, i)),
        ),
        Misconception(
            "Rows made to sum to one",
            "A row sums to 1 − r, and the first to 0. Geometric attention divides by "
            "the sum, stick-breaking does not.",
            _normalized,
        ),
        Misconception(
            "Product along a column",
            "In the paper z_{k,j} has the query second. In this book's letters all "
            "factors are from the query's row.",
            _down_the_column,
        ),
        Misconception(
            "σ and 1 − σ exchanged",
            "A key takes σ(z) and leaves 1 − σ(z).",
            lambda z: weights(-z),
        ),
        Misconception(
            "Sigmoid with the wrong sign",
            "σ(z) = 1/(1 + e^−z): a key with a large logit takes much.",
            lambda z: _by_rows(-z, lambda beta: beta),
        ),
        Misconception(
            "Factors σ, not 1 − σ",
            "A key finds the part that the nearer ones *left*: 1 − σ of each.",
            lambda z: _by_rows(
                z, lambda beta: beta * np.append(np.cumprod(beta[:0:-1])[::-1], 1.0)
            ),
        ),
        Misconception(
            "Factors added",
            "Each key leaves a share of what the one before left, so the factors are "
            "multiplied.",
            lambda z: _by_rows(
                z, lambda beta: beta * np.append(np.cumsum(1 - beta[:0:-1])[::-1], 1.0)
            ),
        ),
        Misconception(
            "Fractions subtracted from one",
            "1 − Σ β is not the part that is left, since fractions of fractions "
            "multiply.",
            lambda z: _by_rows(
                z,
                lambda beta: beta * (1 - np.append(np.cumsum(beta[:0:-1])[::-1], 0.0)),
            ),
        ),
        Misconception(
            "Softmax in place of stick-breaking",
            "The paper's formula has no sum over exponentials.",
            _softmax_of_earlier,
        ),
        Misconception(
            "Missing sigmoid",
            "The factors are σ(z) and 1 − σ(z).",
            lambda z: np.tril(
                np.array(
                    [
                        [z[i, j] * np.prod(1 - z[i, j + 1 : i]) for j in range(len(z))]
                        for i in range(len(z))
                    ]
                ),
                -1,
            ),
        ),
        Misconception(
            "All keys take part, later ones included",
            "Weights are zero where the key is not before the query.",
            lambda z: _break(z, lambda i, j: True, lambda i, j: slice(j + 1, None)),
        ),
        Misconception(
            "Older keys first, with each key's own 1 − σ",
            "The keys between j and the query break before j, and its own 1 − σ is "
            "not in the product.",
            lambda z: _break(z, _earlier, lambda i, j: slice(0, j + 1)),
        ),
        Misconception(
            "Later keys in the product",
            "The product stops before the query: keys after it take nothing.",
            lambda z: _break(z, _earlier, lambda i, j: slice(j + 1, None)),
        ),
        Misconception(
            "Later keys in the product, and each key's own 1 − σ",
            "The product starts after j and stops before the query.",
            lambda z: _break(z, _earlier, lambda i, j: slice(j, None)),
        ),
        Misconception(
            "Query's own key with a weight that is not in the product",
            "Weights are zero where the key is not *before* the query.",
            lambda z: _break(z, lambda i, j: j <= i, lambda i, j: slice(j + 1, i)),
        ),
        Misconception(
            "Paper's letters kept",
            "In the paper i is the key and j the query, so your result has the keys "
            "in its rows, and so has the z that you read. In this book row i is a "
            "query.",
            lambda z: weights(z.T).T,
        ),
        Misconception(
            "Factor of the nearest key left out",
            "The product ends at key i − 1, which is the first to break.",
            lambda z: (
                weights(np.where(np.eye(len(z), k=-1), -np.inf, z))
                + np.tril(np.triu(weights(z), -1))
            ),
        ),
        Misconception(
            "Key's own factor divided out again",
            "1 − σ(40) is 0 in float64, and 0/0 is NaN. Start the product after the "
            "key.",
            _divided_out,
        ),
    ),
    properties=(
        Property(
            "The weights of a query's own key and of later keys are 0",
            lambda answer, z: not np.triu(answer(z)).any(),
        ),
        Property(
            "A weight does not depend on the logits of older keys",
            lambda answer, z: np.allclose(
                answer(z)[:, 1:], answer(z + 5.0 * (np.arange(len(z)) == 0))[:, 1:]
            ),
        ),
    ),
    explanation=r"""
With the letters exchanged it is $A_{ij} = \sigma(z_{ij}) \prod_{j < k < i} (1 - \sigma(z_{ik}))$: $i$ is the query, and the product runs over the keys between the two.
The bounds are exchanged as well; whoever changes only the first factor gets an empty product, {ref}`the mistake that the chapter shows <err-stick-letters>`.
The nearest key, $j = i - 1$, has a plain $\sigma(z_{i,i-1})$ as its weight.
""",
)


# stickbreaking-4: the remainder


def remainder(z):
    """Return the part of a stick that all keys of one query leave, a float.

    ``z`` are the logits of the keys.
    """
    return float(np.exp(-np.logaddexp(0, z).sum()))


def _sigma(z):
    return 1 / (1 + np.exp(-z))


def _weights_of_row(z):
    row = np.broadcast_to(z, (len(z), len(z)))
    return break_stick(row, attend_current=True)[0][-1]


REMAINDER = Exercise(
    name="stickbreaking-4",
    title="The remainder",
    kind="NumPy",
    minutes=6,
    lines=1,
    statement=r"""
A query has the logits `z`, `[keys]`, in float64, all below 700.
Return the remainder $\prod_j (1 - \sigma(z_j))$, as a float, to full precision: these remainders are smaller than $10^{-15}$.
""",
    hint=r"""
$\log(1 - \sigma(z))$ is minus a function with a name, which `np.logaddexp(0, z)` computes accurately.
""",
    cases=(
        (np.array([40.0]),),
        (np.array([21.0, 21.0]),),
        (np.array([1.0, 0.0, -2.0, 40.0]),),
    ),
    solution=remainder,
    misconceptions=(
        Misconception(
            "Remainder taken as 1 − Σ",
            "The sum rounds to 1, and the difference is 0 or noise: a remainder below "
            "1e−16 has no correct digit. Add logarithms and never subtract from 1.",
            lambda z: float(1 - _weights_of_row(z).sum()),
        ),
        Misconception(
            "1 − σ(z) without its digits",
            "Your product is right, but σ(40) is 1 in float64, and 1 − 1 is 0. What "
            "is log (1 − σ(z)) on paper?",
            lambda z: float(np.prod(1 - _sigma(z))),
        ),
        Misconception(
            "Remainder for the opposite logits",
            "Σ log σ(z) belongs to keys that *leave* their fraction. log (1 − σ(z)) "
            "has the softplus with another sign.",
            lambda z: float(np.exp(-np.logaddexp(0, -z).sum())),
        ),
        Misconception(
            "Softplus taken for its argument",
            "softplus(z) ≈ z for large z only. At z = 0 a key takes half of the stick.",
            lambda z: float(np.exp(-np.maximum(z, 0).sum())),
        ),
        Misconception(
            "Sum of the weights",
            "The remainder is the part that is left: a product of 1 − σ.",
            lambda z: float(np.prod(_sigma(z))),
        ),
        Misconception(
            "Fractions added",
            "Each key leaves a share of what the one before left, so the factors are "
            "multiplied.",
            lambda z: float(1 - _sigma(z).sum()),
        ),
        Misconception(
            "Logarithm of the remainder",
            "The remainder is the exponential of your answer.",
            lambda z: float(-np.logaddexp(0, z).sum()),
        ),
        Misconception(
            "Sign in the exponent lost",
            "log (1 − σ(z)) is below 0.",
            lambda z: float(np.exp(np.logaddexp(0, z).sum())),
        ),
        Misconception(
            "Missing sigmoid",
            "1 − z is no share of anything.",
            lambda z: float(np.prod(1 - z)),
        ),
        Misconception(
            "Softplus taken for its argument, below 0 as well",
            "softplus(z) ≈ z for large z only. A key with a logit below 0 also takes "
            "a part of the stick; it does not add to it.",
            lambda z: float(np.exp(-z.sum())),
        ),
        Misconception(
            "1 minus the remainder",
            "1 minus the remainder is 1 to all digits. The remainder is asked for.",
            lambda z: float(1 - np.exp(-np.logaddexp(0, z).sum())),
        ),
        Misconception(
            "Last key alone",
            "Every key breaks the part that the others leave.",
            lambda z: float(np.exp(-np.logaddexp(0, z[-1]))),
        ),
        Misconception(
            "Remainders averaged",
            "The remainders of the keys are multiplied.",
            lambda z: float(np.exp(-np.logaddexp(0, z)).mean()),
        ),
        Misconception(
            "Remainders added",
            "The remainders of the keys are multiplied.",
            lambda z: float(np.exp(-np.logaddexp(0, z)).sum()),
        ),
        Misconception(
            "Sum of the weights for the opposite logits",
            "Your answer is 1 minus a product of σ. The remainder is a product of 1 − "
            "σ.",
            lambda z: float(1 - np.prod(_sigma(z))),
        ),
        Misconception(
            "Oldest key left out",
            "All keys break the stick, the oldest included.",
            lambda z: float(np.exp(-np.logaddexp(0, z[1:]).sum())),
        ),
        Misconception(
            "Rest of a softmax with a sink",
            "1/(1 + Σ e^z) adds the exponentials. The factors 1/(1 + e^z) multiply.",
            lambda z: float(np.exp(-np.logaddexp.reduce(np.append(z, 0)))),
        ),
    ),
    properties=(
        Property(
            "A remainder is above 0 and below 1e−15 for these logits, where 1 minus the "
            "sum of the weights has no digits left",
            lambda answer, z: 0 < answer(z) < 1e-15,
        ),
        Property(
            "The order of the keys does not matter",
            lambda answer, z: abs(answer(z) - answer(z[::-1])) < 1e-24,
        ),
    ),
    tolerance=1e-28,
    explanation=r"""
$\log(1 - \sigma(z)) = -\log(1 + e^z) = -\operatorname{softplus}(z)$, so the remainder is the exponential of minus a sum of softpluses.
For the logit 40 it is $e^{-40} \approx 4 \cdot 10^{-18}$, with all its digits.
As a difference, $1 - \sum_j A_j$, it would be 0 or noise: numbers just below 1 are $10^{-16}$ apart in float64, as {ref}`the chapter shows <err-stick-remainder>`.
""",
)


# stickbreaking-5: a row in float32


def row_weights(z):
    """Return one query's stick-breaking weights of float32 logits, oldest key first.

    ``z`` are the logits, ``[keys]``. The weights are computed in log space.
    """
    cost = z.clamp(min=0) + torch.log1p(torch.exp(-z.abs()))
    spent = cost.flip(0).cumsum(0).flip(0)
    return torch.exp(z - spent)


def _row(z, softplus):
    return torch.exp(z - softplus(z).flip(0).cumsum(0).flip(0))


def _naive(z):
    return (1 + z.exp()).log()


def _reversed_row(z):
    return torch.exp(z - torch.nn.functional.softplus(z).cumsum(0))


def _row_by_difference(z):
    cost = torch.nn.functional.softplus(z)
    return torch.exp(z - (cost.sum() - cost.cumsum(0) + cost))


def _small_weights(keys):
    """Return one query's logits: 0 for the oldest key, −17 for ``keys`` nearer ones.

    The logits are a float32 tensor, ``[keys + 1]``. The nearer keys each take almost
    nothing of the stick.
    """
    return torch.cat((torch.zeros(1), torch.full((keys,), -17.0)))


def _spent(z):
    return torch.nn.functional.softplus(z).flip(0).cumsum(0).flip(0)


ROW = Exercise(
    name="stickbreaking-5",
    title="Sixteen thousand keys of small weight",
    kind="PyTorch",
    minutes=15,
    lines=3,
    statement=r"""
Return the weights of one row of float32 logits `z`, `[keys]`, oldest first, where every key of the row may be attended.
Write softplus yourself; the logits reach from $-17$ to $100$, and there are up to 16385 keys.
Before you run the check: how much do sixteen thousand keys of logit $-17$ take together?
""",
    hint=r"""
$\log A_j = z_j - \sum_{l \ge j} \operatorname{softplus}(z_l)$: reverse the row, sum, and reverse it back.
For softplus take the larger of $z$ and 0 out of the logarithm.
""",
    cases=(
        (torch.tensor([100.0, 0.0]),),
        (torch.tensor([0.0, 6.0, 4.0]),),
        (torch.tensor(3 * draw(20), dtype=torch.float32),),
        (_small_weights(16384),),
        (torch.cat((torch.full((16000,), 100.0), torch.zeros(300))),),
    ),
    solution=row_weights,
    misconceptions=(
        Misconception(
            "Softplus written log(1 + e^z)",
            "In float32 e^z overflows from z = 89 on, and 1 + e^z is 1 below −17, so "
            "that sixteen thousand keys together take nothing. Which exponential "
            "never overflows, and which function computes log(1 + t) for tiny t?",
            lambda z: _row(z, _naive),
        ),
        Misconception(
            "log1p, but the exponential overflows",
            "Your weights for very negative logits are right. At z = 100 the "
            "exponential e^z is infinite, and the key gets nothing in place of almost "
            "all.",
            lambda z: _row(z, lambda z: z.exp().log1p()),
        ),
        Misconception(
            "Very negative logits taken to cost nothing",
            "Your weights for large logits are right. But there are sixteen thousand "
            "logits z = −17, and each costs e^z, which is lost in 1 + e^z. There is a "
            "function for log(1 + t).",
            lambda z: _row(z, lambda z: z.clamp(min=0) + (1 + (-z.abs()).exp()).log()),
        ),
        Misconception(
            "Softplus cut at 0",
            "max(z, 0) is close to softplus far from 0 only. Near 0 it is wrong by "
            "log 2, and the weights sum to more than 1.",
            lambda z: _row(z, lambda z: z.clamp(min=0)),
        ),
        Misconception(
            "Softplus cut where the error shows",
            "z for softplus(z) above 5 is wrong by 0.0067. In float32 the error of a "
            "cut vanishes only above 14.6.",
            lambda z: _row(z, lambda z: torch.nn.functional.softplus(z, threshold=5.0)),
        ),
        Misconception(
            "Stick reversed",
            "Your sum runs over the older keys. Each key pays for those between it "
            "and the query, at the end of the row.",
            _reversed_row,
        ),
        Misconception(
            "Row made to sum to one",
            "Softmax normalizes, stick-breaking does not: the rest of the stick is "
            "left.",
            lambda z: row_weights(z) / row_weights(z).sum(),
        ),
        Misconception(
            "Key's own softplus left out",
            "The sum starts at j itself, since z − softplus(z) is log σ(z).",
            lambda z: torch.exp(z - _spent(z) + torch.nn.functional.softplus(z)),
        ),
        Misconception(
            "Key's own softplus paid twice",
            "Take log σ(z) and the sum over the *nearer* keys, or z and the sum from "
            "j on.",
            lambda z: torch.exp(torch.nn.functional.logsigmoid(z) - _spent(z)),
        ),
        Misconception(
            "Logarithms of the weights",
            "Your logarithms are right. Now take their exponentials.",
            lambda z: z - _spent(z),
        ),
        Misconception(
            "Fractions of the whole stick",
            "Your weights are plain sigmoids: each key takes its fraction of the "
            "whole stick. The nearer keys break first.",
            torch.sigmoid,
        ),
        Misconception(
            "Costs added",
            "Softplus is subtracted, since it is minus log (1 − σ).",
            lambda z: torch.exp(z + _spent(z)),
        ),
        Misconception(
            "Row not reversed back",
            "Your costs are summed from the query on and stand in reverse order.",
            lambda z: torch.exp(z - torch.nn.functional.softplus(z).flip(0).cumsum(0)),
        ),
        Misconception(
            "Softmax in place of stick-breaking",
            "Stick-breaking has no sum over exponentials.",
            lambda z: z.softmax(0),
        ),
        Misconception(
            "Softplus of the opposite logit",
            "log (1 − σ(z)) is −softplus(z).",
            lambda z: torch.exp(
                z - torch.nn.functional.softplus(-z).flip(0).cumsum(0).flip(0)
            ),
        ),
        Misconception(
            "Fractions and remainders without their digits",
            "1 − σ(z) is 1 for z = −17 in float32, or nearly so, and 0 for z = 100. "
            "Add logarithms.",
            lambda z: (
                z.sigmoid()
                * torch.cat(
                    ((1 - z.sigmoid()).flip(0).cumprod(0).flip(0)[1:], torch.ones(1))
                )
            ),
        ),
        Misconception(
            "A key's own 1 − σ in its product, and digits lost",
            "A key's own 1 − σ is not in its product. And 1 − σ(z) is 1 for z = −17 "
            "in float32: add logarithms.",
            lambda z: z.sigmoid() * (1 - z.sigmoid()).flip(0).cumprod(0).flip(0),
        ),
        Misconception(
            "Stick reversed, with each key's own cost twice",
            "Each key pays for those between it and the query, and log σ(z) contains "
            "its own cost already.",
            lambda z: torch.exp(
                torch.nn.functional.logsigmoid(z)
                - torch.nn.functional.softplus(z).cumsum(0)
            ),
        ),
        Misconception(
            "Total minus a cumulative sum as the costs",
            "In float32 the total is large, and the small costs of the nearest keys "
            "are lost in the difference. Sum from the query on, without any "
            "subtraction.",
            _row_by_difference,
        ),
        Misconception(
            "Maximum added, not taken out",
            "log(1 + e^z) is max(z, 0) + log(1 + e^−|z|): what is taken out of the "
            "logarithm is no longer in its exponential.",
            lambda z: _row(z, lambda z: z.clamp(min=0) + z.exp().log1p()),
        ),
        Misconception(
            "Computed in bfloat16",
            "bfloat16 has two to three digits. The logits are float32: compute in it.",
            lambda z: row_weights(z.bfloat16()).float(),
        ),
    ),
    properties=(
        Property(
            "A row never sums to more than 1",
            lambda answer, z: answer(z).sum().item() <= 1 + 1e-4,
        ),
    ),
    tolerance=2e-5,
    level="hard",
    explanation=r"""
Together they take about $6.8 \cdot 10^{-4}$ of the stick: each takes $\sigma(-17) \approx 4.1 \cdot 10^{-8}$, and there are 16,384.
One such weight is below half the distance from 1 to the next float32, so `log(1 + exp(z))` gives 0 and the cost of all of them is lost; `log1p` keeps it.
For large logits `exp(z)` overflows, and for $z = 100$ the weights become 0: take $\max(z, 0)$ out of the logarithm first.
{ref}`The chapter has the formula that is written without care <err-stick-log>`, and {prf:ref}`the theorem on the rounding of a row <thm-stick-row>` bounds what is left.
""",
)


# stickbreaking-6: the first token


def attend(q, k, v, attend_current):
    """Return the stick-breaking attention outputs of one head, ``[tokens, d]``.

    ``q``, ``k`` and ``v`` are ``[tokens, d]``. The remainder of each stick is dropped.
    With ``attend_current`` a query's own key takes part.
    """
    z = q @ k.T / q.shape[-1] ** 0.5
    before = torch.ones_like(z, dtype=torch.bool).tril(0 if attend_current else -1)
    cost = torch.nn.functional.softplus(z).where(before, 0.0)
    spent = cost.flip(-1).cumsum(-1).flip(-1)
    return torch.exp(z - spent).where(before, 0.0) @ v


def _only_itself(q, k, v, attend_current):
    out = attend(q, k, v, attend_current)
    return out if attend_current else torch.cat((v[:1], out[1:]))


def _rows_of_one(q, k, v, attend_current):
    ones = torch.ones_like(v[:, :1])
    total = attend(q, k, ones, attend_current)
    return attend(q, k, v, attend_current) / total.where(total > 0, 1.0)


def _own_key_takes_nothing(q, k, v, attend_current):
    out = attend(q, k, v, False)
    if attend_current:
        z = (q * k).sum(-1, keepdim=True) / q.shape[-1] ** 0.5
        out = out + z.sigmoid() * v
    return out


def _everybody(q, k, v, attend_current):
    z = q @ k.T / q.shape[-1] ** 0.5
    spent = torch.nn.functional.softplus(z).flip(-1).cumsum(-1).flip(-1)
    return torch.exp(z - spent) @ v


def _attend_case(tokens, attend_current):
    q, k, v = torch.tensor(draw(3, tokens, tokens + 1))
    return q, k, v, attend_current


def _masked(cost=None, weight=None):
    """Make a wrong answer (a function) to the exercise ``attend``.

    The exercise asks for stick-breaking attention outputs. In the wrong answer, a
    causal mask is missing: ``cost=False`` leaves out the mask on the keys' costs −log(1
    − β), ``weight=False`` the mask on the weights. With None the mask is there.
    """

    def answer(q, k, v, attend_current):
        z = q @ k.T / q.shape[-1] ** 0.5
        before = torch.ones_like(z, dtype=torch.bool).tril(0 if attend_current else -1)
        paid = torch.nn.functional.softplus(z)
        paid = paid if cost is False else paid.where(before, 0.0)
        a = torch.exp(z - paid.flip(-1).cumsum(-1).flip(-1))
        return (a if weight is False else a.where(before, 0.0)) @ v

    return answer


def _own_key_costs(q, k, v, attend_current):
    z = (q * k).sum(-1, keepdim=True) / q.shape[-1] ** 0.5
    own = torch.sigmoid(z) * v
    return attend(q, k, v, True) - (0 if attend_current else own)


def _zero_logits(q, k, v, attend_current):
    z = q @ k.T / q.shape[-1] ** 0.5
    before = torch.ones_like(z, dtype=torch.bool).tril(0 if attend_current else -1)
    paid = torch.nn.functional.softplus(z.where(before, 0.0))
    a = torch.exp(z - paid.flip(-1).cumsum(-1).flip(-1))
    return a.where(before, 0.0) @ v


def _older_first(q, k, v, attend_current):
    z = q @ k.T / q.shape[-1] ** 0.5
    before = torch.ones_like(z, dtype=torch.bool).tril(0 if attend_current else -1)
    paid = torch.nn.functional.softplus(z).where(before, 0.0).cumsum(-1)
    return torch.exp(z - paid).where(before, 0.0) @ v


def _of_fractions(q, k, v, attend_current):
    z = q @ k.T / q.shape[-1] ** 0.5
    return z.sigmoid().tril(0 if attend_current else -1) @ v


def _with_rest(q, k, v, attend_current):
    total = attend(q, k, torch.ones_like(v[:, :1]), attend_current)
    return attend(q, k, v, attend_current) + (1 - total) * v


def _softmax(q, k, v, attend_current):
    z = q @ k.T / q.shape[-1] ** 0.5
    before = torch.ones_like(z, dtype=torch.bool).tril(0 if attend_current else -1)
    return z.masked_fill(~before, -torch.inf).softmax(-1).nan_to_num() @ v


def _softmax_of_all_or_earlier(q, k, v, attend_current):
    z = q @ k.T / q.shape[-1] ** 0.5
    before = torch.ones_like(z, dtype=torch.bool).tril(0 if attend_current else -1)
    return z.masked_fill(~before, -1e9).softmax(-1) @ v


def _one_key_further(q, k, v, attend_current):
    z = q @ k.T / q.shape[-1] ** 0.5
    before = torch.ones_like(z, dtype=torch.bool).tril(1 if attend_current else 0)
    cost = torch.nn.functional.softplus(z).where(before, 0.0)
    spent = cost.flip(-1).cumsum(-1).flip(-1)
    return torch.exp(z - spent).where(before, 0.0) @ v


def _by_products(left):
    """Make a wrong answer (a function) to the exercise ``attend``.

    The exercise asks for stick-breaking attention outputs. In the wrong answer, the
    weights are β times ``left(1 − β)``, which replaces the part of the stick that
    nearer keys leave. β, ``[tokens, tokens]``, are the fractions that the visible keys
    take, and 0 for all other keys.
    """

    def answer(q, k, v, attend_current):
        z = q @ k.T / q.shape[-1] ** 0.5
        beta = z.sigmoid().tril(0 if attend_current else -1)
        return (beta * left(1 - beta)) @ v

    return answer


def _own_cost_left_out(q, k, v, attend_current):
    z = q @ k.T / q.shape[-1] ** 0.5
    before = torch.ones_like(z, dtype=torch.bool).tril(0 if attend_current else -1)
    cost = torch.nn.functional.softplus(z).where(before, 0.0)
    spent = cost.flip(-1).cumsum(-1).flip(-1) - cost
    return torch.exp(z - spent).where(before, 0.0) @ v


ATTEND = Exercise(
    name="stickbreaking-6",
    title="The first token",
    kind="PyTorch",
    minutes=15,
    lines=5,
    statement=r"""
`q`, `k`, `v` of one head are `[tokens, d]`, and the logits are $q \cdot k / \sqrt d$.
Return the outputs `[tokens, d]`; the remainder is dropped.
With `attend_current` a query's own key is the first that breaks the stick; without it, the key before is the first.
What is the output of the first token in either case?
""",
    hint=r"""
Mask twice: a key that may not be attended costs nothing *and* has weight 0.
Is the mask `tril(0)` or `tril(-1)`?
""",
    cases=(
        _attend_case(2, False),
        _attend_case(2, True),
        _attend_case(7, False),
        _attend_case(7, True),
    ),
    solution=attend,
    misconceptions=(
        Misconception(
            "First token reads itself",
            "Without its own key the first token has no key at all: o₀ is an empty "
            "sum. What is the value of an empty sum?",
            _only_itself,
        ),
        Misconception(
            "attend_current ignored: no query with its own key",
            "Where it is True the stick starts at the query's own key, and the first "
            "token gets something, too.",
            lambda q, k, v, attend_current: attend(q, k, v, False),
        ),
        Misconception(
            "attend_current ignored: every query with its own key",
            "Where it is False the stick starts one key earlier: an off-by-one of the "
            "triangle.",
            lambda q, k, v, attend_current: attend(q, k, v, True),
        ),
        Misconception(
            "Own key read at no cost",
            "With attend_current the own key is the first to break the stick, so "
            "every older key gets less.",
            _own_key_takes_nothing,
        ),
        Misconception(
            "Rows made to sum to one",
            "Here the remainder is dropped, not shared out: nothing is divided by the "
            "sum.",
            _rows_of_one,
        ),
        Misconception(
            "Logits not divided by √d",
            "z = q · k / √d, as in softmax attention.",
            lambda q, k, v, attend_current: attend(
                q * q.shape[-1] ** 0.5, k, v, attend_current
            ),
        ),
        Misconception(
            "Later keys not masked",
            "Your later keys break the stick before the query's past does. A key "
            "after the query must neither take a piece nor cost one.",
            _everybody,
        ),
        Misconception(
            "Query's own key at a cost, without a weight",
            "Where attend_current is False it must neither take a piece nor cost one: "
            "the stick starts at the key before.",
            _own_key_costs,
        ),
        Misconception(
            "Later keys at a cost, without a weight",
            "A key that may not be attended must neither take a piece nor cost one: "
            "mask before the sum.",
            _masked(cost=False),
        ),
        Misconception(
            "Later keys with a weight, at no cost",
            "A key that may not be attended must neither take a piece nor cost one.",
            _masked(weight=False),
        ),
        Misconception(
            "Stick reversed",
            "The key next to the query breaks first; each key pays for those "
            "between it and the query.",
            _older_first,
        ),
        Misconception(
            "Fractions of the whole stick",
            "σ(z) is a share of the part that nearer keys left.",
            _of_fractions,
        ),
        Misconception(
            "Remainder added to the query's own value",
            "Here the remainder is dropped.",
            _with_rest,
        ),
        Misconception(
            "Softmax in place of stick-breaking",
            "Stick-breaking has no sum over exponentials.",
            _softmax,
        ),
        Misconception(
            "attend_current read the wrong way round",
            "True means that the query's own key is the first that breaks the stick.",
            lambda q, k, v, attend_current: attend(q, k, v, not attend_current),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row i belongs to query i: q @ k.T.",
            lambda q, k, v, attend_current: attend(k, q, v, attend_current),
        ),
        Misconception(
            "Logits divided by d",
            "The logits are divided by the root of d.",
            lambda q, k, v, attend_current: attend(
                q / q.shape[-1] ** 0.5, k, v, attend_current
            ),
        ),
        Misconception(
            "Keys summed, not the values",
            "The weights multiply the values v.",
            lambda q, k, v, attend_current: attend(q, k, k, attend_current),
        ),
        Misconception(
            "Sign of the logits reversed",
            "A key takes σ(z) of the stick and leaves 1 − σ(z).",
            lambda q, k, v, attend_current: attend(-q, k, v, attend_current),
        ),
        Misconception(
            "A key's own 1 − β in its product",
            "A key breaks the part that the *nearer* keys have left.",
            _by_products(lambda rest: rest.flip(-1).cumprod(-1).flip(-1)),
        ),
        Misconception(
            "Older keys first, with each key's own 1 − β",
            "The key next to the query breaks first, and its own 1 − β is not in "
            "its product.",
            _by_products(lambda rest: rest.cumprod(-1)),
        ),
        Misconception(
            "First token reads itself, whatever attend_current is",
            "With attend_current its own key takes its fraction, and the rest is "
            "dropped. Without it, o₀ is an empty sum.",
            lambda q, k, v, attend_current: torch.cat(
                (v[:1], attend(q, k, v, attend_current)[1:])
            ),
        ),
        Misconception(
            "A logit of 0 as the mask",
            "softplus(0) is log 2, so later keys still cost half of the stick each. A "
            "key that may not be attended costs nothing.",
            _zero_logits,
        ),
        Misconception(
            "Key's own softplus left out",
            "The sum of the costs starts at j itself, since z − softplus(z) is log "
            "σ(z).",
            _own_cost_left_out,
        ),
        Misconception(
            "Softmax in place of stick-breaking, over masked keys where all are masked",
            "Stick-breaking has no sum over exponentials, and the first token without "
            "its own key has the output 0.",
            _softmax_of_all_or_earlier,
        ),
        Misconception(
            "One later key too many",
            "The mask ends one key too late: `tril(0)` includes the query's own key, "
            "`tril(-1)` does not.",
            _one_key_further,
        ),
    ),
    properties=(
        Property(
            "Without its own key the first token's output is zero",
            lambda answer, q, k, v, attend_current: (
                not answer(q, k, v, False)[0].abs().max()
            ),
        ),
        Property(
            "A token's output does not depend on later ones",
            lambda answer, q, k, v, attend_current: torch.allclose(
                answer(q, k, v, attend_current)[:1],
                answer(q[:1], k[:1], v[:1], attend_current),
            ),
        ),
    ),
    explanation=r"""
Without its own key the first token has no key at all: the whole stick is remainder, which is dropped, and the output is 0.
With `attend_current` its own key breaks off $\sigma(z_{00})$ of the stick, so the output is $\sigma(z_{00})\, v_0$, and not $v_0$ as after a softmax over one key.
The weights of a row sum to 1 minus the remainder, by {prf:ref}`the theorem that the products telescope <thm-stick-telescope>`.
""",
)


# stickbreaking-7: how many keys are needed


def keys_needed(z, share):
    """Return the number of keys until at most ``share`` of the stick is left: an int.

    The keys of one query, with logits ``z``, break the stick from the nearest on. If
    all keys leave more, all keys are needed.
    """
    left = np.exp(-np.logaddexp(0, z[::-1]).cumsum())
    return int(min((left > share).sum() + 1, len(z)))


def _first_or_one(z, share):
    left = np.exp(-np.logaddexp(0, z[::-1]).cumsum())
    return int((left <= share).argmax() + 1)


def _needed_by_softmax(z, share):
    p = np.exp(z - z.max())[::-1].cumsum()
    return int((1 - p / p[-1] > share).sum() + 1)


def _left(z):
    return np.exp(-np.logaddexp(0, z[::-1]).cumsum())


STOP = Exercise(
    name="stickbreaking-7",
    title="How many keys are needed",
    kind="experiment",
    minutes=10,
    lines=3,
    statement=r"""
A query looks at its keys from the nearest on and may stop as soon as at most `share` < 1 of the stick is left.
`z` are the row's logits, oldest first.
Return the number of keys that it must look at; all of them, if even then more is left.
If exactly `share` is left, it stops; `share` may be as small as $10^{-18}$.
How many are needed for logits of 0 and a share of 0.001?
And for logits of $-8$ and a share of one half, in a long text?
""",
    hint=r"""
`np.logaddexp(0, z[::-1]).cumsum()` is minus the logarithm of the stick after each key.
Count the keys after which the stick is still too long.
""",
    cases=(
        (np.zeros(3), 0.6),
        (np.zeros(3), 0.5),
        (np.zeros(20), 0.001),
        (np.array([3.0, -1.0, 2.0, -5.0, 0.5, -2.0]), 0.05),
        (np.linspace(4, -4, 40), 0.01),
        (np.array([0.0, 40.0]), 1e-18),
        (np.full(30, -8.0), 0.5),
        (draw(200), math.exp(-10)),
    ),
    solution=keys_needed,
    misconceptions=(
        Misconception(
            "Oldest keys first",
            "The row is stored oldest first, and the nearest key breaks first: start "
            "at the end of the row.",
            lambda z, share: keys_needed(z[::-1], share),
        ),
        Misconception(
            "One key too few",
            "The key that brings the stick down to the share is looked at, too.",
            lambda z, share: max(keys_needed(z, share) - 1, 0),
        ),
        Misconception(
            "Keys with a small weight left out",
            "A small weight says little about the older keys: a key with a low logit "
            "takes almost nothing and leaves the whole stick. What bounds *all* older "
            "weights?",
            lambda z, share: int((_weights_of_row(z) > share).sum()),
        ),
        Misconception(
            "Fractions added",
            "β is a fraction of the part that is left, so the factors 1 − β multiply. "
            "1 − Σ β is not the stick.",
            lambda z, share: int(
                min((1 - _sigma(z[::-1]).cumsum() > share).sum() + 1, len(z))
            ),
        ),
        Misconception(
            "A single key if the stick stays too long",
            "The argmax of a row of False is 0. If all keys leave more than the "
            "share, all of them are needed.",
            _first_or_one,
        ),
        Misconception(
            "Weights of a softmax",
            "The softmax needs all keys before it can say which are not needed. With "
            "a stick the rest is known after each key.",
            _needed_by_softmax,
        ),
        Misconception(
            "One key too many if the stick stays too long",
            "There are no more than len(z) keys.",
            lambda z, share: int((_left(z) > share).sum() + 1),
        ),
        Misconception(
            "Broken part in place of the part that is left",
            "Stop when at most the share is *left*.",
            lambda z, share: keys_needed(z, 1 - share),
        ),
        Misconception(
            "Keys that are not needed",
            "Count the keys that must be looked at.",
            lambda z, share: len(z) - keys_needed(z, share),
        ),
        Misconception(
            "σ and 1 − σ exchanged",
            "A key takes σ(z) and leaves 1 − σ(z).",
            lambda z, share: keys_needed(-z, share),
        ),
        Misconception(
            "Logarithm compared with the share",
            "Take the exponential, or the logarithm of the share.",
            lambda z, share: int(
                min((-np.logaddexp(0, z[::-1]).cumsum() > share).sum() + 1, len(z))
            ),
        ),
        Misconception(
            "Each key's own rest compared",
            "The part that *all* keys so far have left counts: a product.",
            lambda z, share: int(min((1 - _sigma(z[::-1]) > share).sum() + 1, len(z))),
        ),
        Misconception(
            "All keys",
            "Keys with large logits leave little, so the query may stop.",
            lambda z, share: len(z),
        ),
        Misconception(
            "Oldest keys first, and one key too many if the stick stays too long",
            "The nearest key breaks first: start at the end of the row. And there are "
            "no more than len(z) keys.",
            lambda z, share: int((np.cumprod(1 - _sigma(z)) > share).sum() + 1),
        ),
        Misconception(
            "Keys that leave too much counted",
            "One more key is needed: the one that brings the stick down to the share.",
            lambda z, share: int((_left(z) > share).sum()),
        ),
        Misconception(
            "Keys numbered from 0",
            "The key with which the share is reached is one of those that must be "
            "looked at.",
            lambda z, share: int((_left(z) <= share).argmax()),
        ),
        Misconception(
            "One key too many",
            "The key that brings the stick down to the share is the last one.",
            lambda z, share: keys_needed(z, share) + 1,
        ),
        Misconception(
            "Less than the share awaited",
            "At most `share` must be left: the query stops at exactly the share, too.",
            lambda z, share: int(min((_left(z) >= share).sum() + 1, len(z))),
        ),
        Misconception(
            "1 − σ(z) without its digits",
            "Your products are right, but σ(40) is 1 in float64, and 1 − 1 is 0, less "
            "than any share. Add logarithms.",
            lambda z, share: int(
                min((np.cumprod(1 - _sigma(z[::-1])) > share).sum() + 1, len(z))
            ),
        ),
        Misconception(
            "Sum of the softpluses compared with the share",
            "It is minus the logarithm of the stick that is left, and grows. Compare "
            "it with −log(share).",
            lambda z, share: int(
                min((np.logaddexp(0, z[::-1]).cumsum() < share).sum() + 1, len(z))
            ),
        ),
        Misconception(
            "searchsorted on falling numbers",
            "`np.searchsorted` needs rising numbers, and the stick becomes shorter.",
            lambda z, share: int(np.searchsorted(_left(z), share)) + 1,
        ),
        Misconception(
            "No key if the stick stays too long",
            "If all keys leave more than the share, all of them are needed.",
            lambda z, share: keys_needed(z, share) if _left(z)[-1] <= share else 0,
        ),
        Misconception(
            "Formula of equal logits",
            "log(1/share)/softplus(z) holds if all logits are z. With the mean in its "
            "place it does not see where the large logits stand.",
            lambda z, share: int(
                min(len(z), np.ceil(-np.log(share) / np.logaddexp(0, z.mean())))
            ),
        ),
        Misconception(
            "Keys sorted by their logits",
            "The keys break the stick in the order of the row, from the nearest on.",
            lambda z, share: keys_needed(np.sort(z), share),
        ),
        Misconception(
            "One key too few, and at least one",
            "Your answer counts the keys that leave too much. The next key, which "
            "brings the stick down to the share, is looked at, too.",
            lambda z, share: max(int((_left(z) > share).sum()), 1),
        ),
    ),
    properties=(
        Property(
            "Larger logits never need more keys",
            lambda answer, z, share: answer(z + 3, share) <= answer(z, share),
        ),
    ),
    explanation=r"""
For logits of 0 each key leaves half of the stick, and $2^{-10} < 0.001 < 2^{-9}$: 10 keys are enough.
For logits of $-8$ each key takes about $e^{-8}$ of the stick, and half of it is left only after $\log 2 / \operatorname{softplus}(-8) \approx 2067$ keys; a query with fewer keys looks at all of them.
The keys that are not looked at have together at most the weight `share`, so {prf:ref}`the theorem on stopping early <thm-stick-stop>` bounds the error of the output.
""",
    prediction=Prediction(
        "For logits of $-8$ and a share of one half, how many keys must a query look at, if it has 5000?",
        lambda: keys_needed(np.full(5000, -8.0), 0.5),
        near=0.1,
    ),
)


# stickbreaking-8: the first logit that overflows


def colleagues_row(z):
    """Return one query's stick-breaking weights.

    ``z`` are its logits, float32.
    """
    newest_first = z.flip(0)
    softplus = torch.log(1 + torch.exp(newest_first))
    logs = newest_first - softplus.cumsum(0)
    return logs.exp().flip(0)


def logit_that_overflows():
    """Return a float32 tensor of one whole logit: wrong for `colleagues_row`."""
    return torch.tensor([89.0])


SOFTPLUS = Exercise(
    name="stickbreaking-8",
    title="Find the input: softplus",
    kind="find the input",
    minutes=6,
    lines=1,
    statement=r"""
`colleagues_row` should do what exercise stickbreaking-5 asks for.
Her tests are rows of a single key with the logits $-6$, 0 and 6; they pass.
Return a row of a single key, a float32 tensor `[1]` of a whole number, with the smallest absolute logit for which her weight is wrong.
From which logit on would it be wrong in float64?
""",
    hint=r"""
Which is the largest number of float32, and which exponential is the first above it?
`torch.finfo` knows the former.
""",
    cases=((),),
    solution=logit_that_overflows,
    misconceptions=(),
    tolerance=2e-5,
    hunt=Hunt(
        wrong=colleagues_row,
        right=row_weights,
        tested=(
            (torch.tensor([-6.0]),),
            (torch.tensor([0.0]),),
            (torch.tensor([6.0]),),
        ),
        refusal=lambda z: (
            ""
            if z.dtype == torch.float32
            and z.layout == torch.strided
            and z.shape == (1,)
            and z.abs().item() in range(1001)
            else "z is a float32 tensor of one whole number, at most 1000 in size"
        ),
        size=lambda z: int(z.abs().item()),
        size_of="absolute logit",
    ),
    explanation=r"""
The largest float32 is about $3.4 \cdot 10^{38}$: $e^{88}$ is below it and $e^{89}$ above, so her softplus of 89 is infinite, and the weight 0 in place of almost 1.
In float64 the exponential overflows from the logit 710 on.
On the negative side a single key shows no mistake: $\log(1 + e^z)$ loses the digits of numbers that are far below the tolerance; it takes thousands of keys to see it.
{ref}`The chapter has this formula among the mistakes <err-stick-log>`: a test of an exponential needs a logit near the end of its range.
""",
)


# stickbreaking-9: which end of the row is near


def colleagues_count(z, share):
    """Return the number of keys that are needed.

    After these at most ``share`` of the stick is left.
    """
    left = 1.0
    for number, logit in enumerate(z, start=1):
        left /= 1 + np.exp(logit)
        if left <= share:
            return number
    return len(z)


def row_that_differs():
    """Return `(z, share)`, few keys with a wrong `colleagues_count`."""
    return np.array([9, -9]), 0.5


NEAREST = Exercise(
    name="stickbreaking-9",
    title="Find the input: the nearest key",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_count` should do what exercise stickbreaking-7 asks for.
Her tests are 20 logits of 0 with the share 0.001, the logits 2, −1, 2 with the share 0.2, and a single logit of −8; they pass.
Return `(z, share)` with as few keys as possible for which it is wrong; `z` is an array of integers between −20 and 20, and `share` is above 0 and below 1.
Which rows can never show the mistake?
""",
    hint=r"""
Where does a row begin, and from where does a query look?
""",
    cases=((),),
    solution=row_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_count,
        right=keys_needed,
        tested=(
            (np.zeros(20, dtype=int), 0.001),
            (np.array([2, -1, 2]), 0.2),
            (np.array([-8]), 0.5),
        ),
        refusal=lambda z, share: (
            ""
            if z.ndim == 1
            and z.dtype.kind == "i"
            and 0 < len(z) <= 100
            and abs(z).max() < 20
            and 0 < share < 1
            else "z is an array of integers between −20 and 20, and share is above 0 "
            "and below 1"
        ),
        size=lambda z, share: len(z),
        size_of="number of keys",
    ),
    explanation=r"""
She breaks the stick from the oldest key on; rows are stored oldest first, and the query looks from the nearest on.
With the logits 9 and −9 and the share ½ she stops after one key, but the nearest key takes almost nothing, and 2 keys are needed.
A row that is the same forwards and backwards cannot show the mistake, and hers were all of this kind; a single key is as well, so two keys are the fewest.
{ref}`The chapter has the reversed stick among the mistakes <err-stick-reversed>`.
""",
    level="optional",
)


SHEET = Sheet(
    title="Stick-breaking attention",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0; rows of keys are stored oldest first.
$z_{ij}$ are logits, $\beta_{ij} = \sigma(z_{ij})$ fractions, $\operatorname{softplus}(z) = \log(1 + e^z)$.
""",
    example=r"""
from posedu.numpy.stickbreaking import break_stick

z = np.log([[1.0, 1.0, 3.0]])  # fractions 1/2, 1/2, 3/4
a, rest = break_stick(z, attend_current=True)
print(np.round(a, 4), np.round(rest, 4))
""",
    figure="stickbreaking_explorable",
    exercises=(PIECES, SLOPE, LETTERS, REMAINDER, ROW, ATTEND, STOP, SOFTPLUS, NEAREST),
)
