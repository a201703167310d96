"""The exercises on stick-breaking attention."""

import math

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw
from posedu.numpy.stickbreaking import break_stick

# stickbreaking-1: the pieces of a stick


def pieces(a, b, c):
    """What three keys take, the oldest first, and what is left: four results."""
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
The key of $a$ is the oldest, the key of $c$ stands next to the query.
On paper, find what each of them takes and what is left; return the four in the order $a$, $b$, $c$, rest.
""",
    hint=r"""
Start at the query. What is left when the key of $b$ comes to its turn?
""",
    cases=(
        (sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 4)),
        sp.symbols("beta:3"),
    ),
    solution=pieces,
    misconceptions=(
        Misconception(
            "The stick is reversed",
            "Here the oldest key breaks first, and each weight is a product over "
            "*older* keys. Who stands nearest to the query, and who must wait?",
            lambda a, b, c: [a, b * (1 - a), c * (1 - a) * (1 - b), pieces(a, b, c)[3]],
        ),
        Misconception(
            "Nobody waits",
            "Each key takes its fraction of the whole stick, so that more may be given "
            "away than there is. A fraction is of what the nearer keys left.",
            lambda a, b, c: [a, b, c, pieces(a, b, c)[3]],
        ),
        Misconception(
            "A key pays for itself",
            "Its own 1 − β is in the product, too. A key breaks what it finds, and "
            "what it finds only the *nearer* keys have broken.",
            lambda a, b, c: [
                p * (1 - own)
                for p, own in zip(pieces(a, b, c), (a, b, c, 0), strict=True)
            ],
        ),
        Misconception(
            "The row is made to sum to one",
            "You divided by the sum. The weights of a row sum to less than one, and "
            "the remainder is not nothing.",
            _pieces_that_sum_to_one,
        ),
        Misconception(
            "The fractions are subtracted from one",
            "The remainder is not 1 − Σ β: the fractions are not of the same stick.",
            lambda a, b, c: [*pieces(a, b, c)[:3], 1 - a - b - c],
        ),
        Misconception(
            "Only the neighbor is waited for",
            "a waits for b *and* c, and each leaves 1 minus its fraction.",
            lambda a, b, c: [a * (1 - b), b * (1 - c), c, pieces(a, b, c)[3]],
        ),
        Misconception(
            "The pieces are in reverse order",
            "The order is a, b, c, rest.",
            lambda a, b, c: [*pieces(a, b, c)[2::-1], pieces(a, b, c)[3]],
        ),
        Misconception(
            "The rest comes first",
            "The order is a, b, c, rest.",
            lambda a, b, c: [pieces(a, b, c)[3], *pieces(a, b, c)[:3]],
        ),
        Misconception(
            "The nearer keys' fractions are subtracted",
            "1 − b − c is not what is left: c takes its fraction of what b leaves, "
            "or b of what c leaves.",
            lambda a, b, c: [a * (1 - b - c), b * (1 - c), c, pieces(a, b, c)[3]],
        ),
        Misconception(
            "What is left is multiplied, not what is taken",
            "The key's own factor is its fraction β; those of the nearer keys are 1 "
            "− β.",
            lambda a, b, c: [(1 - a) * b * c, (1 - b) * c, 1 - c, a * b * c],
        ),
        Misconception(
            "The fractions of the nearer keys are multiplied",
            "A key finds what the nearer ones *left*: 1 − β of it.",
            lambda a, b, c: [a * b * c, b * c, c, pieces(a, b, c)[3]],
        ),
        Misconception(
            "Nothing is left",
            "After each key a part of the stick is left. What do three of them leave?",
            lambda a, b, c: [*pieces(a, b, c)[:3], sp.Integer(0)],
        ),
        Misconception(
            "The rest is what the oldest key finds",
            "It takes its fraction of that, too.",
            lambda a, b, c: [*pieces(a, b, c)[:3], (1 - b) * (1 - c)],
        ),
        Misconception(
            "The rest is what all of them take",
            "1 minus that is left.",
            lambda a, b, c: [*pieces(a, b, c)[:3], 1 - pieces(a, b, c)[3]],
        ),
        Misconception(
            "Fractions are subtracted everywhere",
            "1 − b − c and 1 − a − b − c are not what is left: fractions are of "
            "what the nearer keys left.",
            lambda a, b, c: [a * (1 - b - c), b * (1 - c), c, 1 - a - b - c],
        ),
        Misconception(
            "The rest is what two of them leave",
            "The key next to the query takes its piece, too.",
            lambda a, b, c: [
                *pieces(a, b, c)[:3],
                1 - pieces(a, b, c)[0] - pieces(a, b, c)[1],
            ],
        ),
        Misconception(
            "Nobody waits, and fractions are subtracted from one",
            "A fraction is of what the nearer keys left, so the rest is no "
            "difference of fractions.",
            lambda a, b, c: [a, b, c, 1 - a - b - c],
        ),
        Misconception(
            "The fractions of the nearer keys are multiplied, and the rest made up",
            "A key finds what the nearer ones *left*: 1 − β of it.",
            lambda a, b, c: [a * b * c, b * c, c, 1 - a * b * c],
        ),
    ),
    properties=(
        Property(
            "Pieces and remainder make one stick",
            lambda answer, a, b, c: sp.expand(sum(answer(a, b, c)) - 1) == 0,
        ),
    ),
)


# stickbreaking-2: the logit of an ALiBi slope


def logit_of(m):
    """The constant logit z whose weights fall by the factor e^−m a token."""
    return sp.log(sp.exp(m) - 1)


SLOPE = Exercise(
    name="stickbreaking-2",
    title="The logit of a slope",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
All logits of a row equal $z$.
For which $z$ do the weights fall by exactly $e^{-m}$ a token, as ALiBi's do with slope $m > 0$?
Return a SymPy expression in $m$.
Predict first: is it more or less than $m$?
""",
    hint=r"""
What does one more key leave of the stick? Set it equal to $e^{-m}$ and solve for $z$.
""",
    cases=((sp.Integer(1),), (sp.log(3),), (sp.Symbol("m", positive=True),)),
    solution=logit_of,
    misconceptions=(
        Misconception(
            "The slope is taken for the logit",
            "The weights fall by 1 − σ(z) a token, not by e^−z. The two are close only "
            "for large z.",
            lambda m: m,
        ),
        Misconception(
            "Solved in the wrong direction",
            "This is the slope of a logit, m = softplus(z), with the letters "
            "exchanged. It must be solved for z.",
            lambda m: sp.log(1 + sp.exp(m)),
        ),
        Misconception(
            "The logit of the fraction that stays",
            "This has σ(z) = e^−m. But σ(z) is the fraction that is *taken*; what "
            "stays for the next key is the other one. (For a forget gate you would be "
            "right.)",
            lambda m: -sp.log(sp.exp(m) - 1),
        ),
        Misconception(
            "The logarithm of the fraction",
            "The fraction β = 1 − e^−m is right. Its logit is not its logarithm.",
            lambda m: sp.log(1 - sp.exp(-m)),
        ),
        Misconception(
            "The sign of the slope is lost",
            "−m is the logarithm of what stays. The logit is that of the fraction "
            "that is taken.",
            lambda m: -m,
        ),
        Misconception(
            "This is what stays of the stick",
            "1 − σ(z) = e^−m is right. Solve it for z.",
            lambda m: sp.exp(-m),
        ),
        Misconception(
            "This is the fraction",
            "β = 1 − e^−m is right. Which logit does it have?",
            lambda m: 1 - sp.exp(-m),
        ),
        Misconception(
            "The logarithm of the slope",
            "This holds for very gentle slopes only. What is e^m − 1 in place of m?",
            lambda m: sp.log(m),
        ),
        Misconception(
            "The exponent has lost its sign",
            "The weights fall by e^−m, so 1 + e^z = e^m, with a plus in the exponent.",
            lambda m: sp.log(sp.exp(-m) - 1),
        ),
        Misconception(
            "The sigmoid is applied once more",
            "z is what goes into the sigmoid, β what comes out.",
            lambda m: 1 / (1 + sp.exp(-m)),
        ),
        Misconception(
            "The logarithm is missing",
            "e^z = e^m − 1. What is z?",
            lambda m: sp.exp(m) - 1,
        ),
        Misconception(
            "The 1 and the exponential are exchanged",
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
)


# stickbreaking-3: the paper's letters


def weights(z):
    """Weights ``[query, key]`` of logits ``[query, key]``, by the products."""
    beta = 1 / (1 + np.exp(-z))
    a = np.zeros_like(z)
    for i in range(len(z)):
        for j in range(i):
            a[i, j] = beta[i, j] * np.prod(1 - beta[i, j + 1 : i])
    return a


def _break(z, where, passed):
    """β where ``where(i, j)``, times 1 − β of the keys ``passed(i, j)``."""
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
    """A row's weights on the keys before it, by a function of their fractions."""
    a = np.zeros_like(z)
    for i in range(1, len(z)):
        a[i, :i] = weights_of_row(1 / (1 + np.exp(-z[i, :i])))
    return a


@np.errstate(all="ignore")
def _divided_out(z):
    beta = np.tril(1 / (1 + np.exp(-z)), -1)
    left = np.cumprod(1 - beta[:, ::-1], axis=1)[:, ::-1]
    return beta * (left / (1 - beta))


LETTERS = Exercise(
    name="stickbreaking-3",
    title="Two papers, two alphabets",
    kind="NumPy",
    minutes=12,
    lines=6,
    statement=r"""
The stick-breaking paper writes

$$A_{i,j} = \sigma(z_{i,j}) \prod_{i<k<j} \bigl(1 - \sigma(z_{k,j})\bigr)$$

with **$i$ the key and $j$ the query**.
Translate it into this book's letters, then compute it: `z` is `[query, key]`, and so is the result, with zeros where the key is not before the query.
Products will do; loops, too.
""",
    hint=r"""
Exchange the letters $i$ and $j$ first, in the bounds as well. Then check with one row: whose weight is a plain $\sigma$?
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
            "The indices of the two papers are mixed up: rows are keys",
            "The paper's A has the key first, and so has yours: it is upper "
            "triangular. In this book row i is a query.",
            lambda z: weights(z).T,
        ),
        Misconception(
            "The indices of the two papers are mixed up: the product is empty",
            "In the paper's formula i < k < j, i is the key. If i is the query, no k "
            "is between, the product is 1 and the weights are plain sigmoids.",
            lambda z: _break(z, _earlier, lambda i, j: slice(0, 0)),
        ),
        Misconception(
            "The stick is reversed",
            "The product runs over the keys older than j. It is those between j and "
            "the query that break before it.",
            lambda z: _break(z, _earlier, lambda i, j: slice(0, j)),
        ),
        Misconception(
            "The query's own key breaks, too",
            "That is attend_current, which the paper's code can do. Its formula stops "
            "before the query.",
            lambda z: _break(z, lambda i, j: j <= i, lambda i, j: slice(j + 1, i + 1)),
        ),
        Misconception(
            "The query's own key is passed",
            "Your product runs one key too far: the query's own key has no weight "
            "here, so it may break nothing off.",
            lambda z: _break(z, _earlier, lambda i, j: slice(j + 1, i + 1)),
        ),
        Misconception(
            "The key's own factor is in the product",
            "It has to start at the key *after* j. Only in log space does the sum "
            "start at j, since there softplus makes log σ(z) of z.",
            lambda z: _break(z, _earlier, lambda i, j: slice(j, i)),
        ),
        Misconception(
            "The rows are made to sum to one",
            "A row sums to 1 − r, and the first to 0. Dividing by the sum is geometric "
            "attention's habit.",
            _normalized,
        ),
        Misconception(
            "The product runs down a column",
            "In the paper z_{k,j} has the query second. In this book's letters the "
            "query's row is the same in all factors.",
            _down_the_column,
        ),
        Misconception(
            "The stick is broken by what stays",
            "A key takes σ(z) and leaves 1 − σ(z).",
            lambda z: weights(-z),
        ),
        Misconception(
            "The sigmoid has the wrong sign",
            "σ(z) = 1/(1 + e^−z): a large logit takes much.",
            lambda z: _by_rows(-z, lambda beta: beta),
        ),
        Misconception(
            "The factors are σ, not 1 − σ",
            "A key finds what the nearer ones *left*.",
            lambda z: _by_rows(
                z, lambda beta: beta * np.append(np.cumprod(beta[:0:-1])[::-1], 1.0)
            ),
        ),
        Misconception(
            "The factors are added",
            "What is left of what is left: a product.",
            lambda z: _by_rows(
                z, lambda beta: beta * np.append(np.cumsum(1 - beta[:0:-1])[::-1], 1.0)
            ),
        ),
        Misconception(
            "The fractions are subtracted from one",
            "1 − Σ β is not what is left: fractions of fractions multiply.",
            lambda z: _by_rows(
                z,
                lambda beta: beta * (1 - np.append(np.cumsum(beta[:0:-1])[::-1], 0.0)),
            ),
        ),
        Misconception(
            "This is a softmax",
            "The paper's formula has no sum over exponentials.",
            lambda z: _by_rows(
                z, lambda beta: beta / (1 - beta) / (beta / (1 - beta)).sum()
            ),
        ),
        Misconception(
            "The sigmoid is missing",
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
            "All keys take part, also later ones",
            "Zeros where the key is not before the query.",
            lambda z: _break(z, lambda i, j: True, lambda i, j: slice(j + 1, None)),
        ),
        Misconception(
            "Older keys break first, and each pays for itself",
            "The keys between j and the query break before j, and its own 1 − σ is "
            "not in the product.",
            lambda z: _break(z, _earlier, lambda i, j: slice(0, j + 1)),
        ),
        Misconception(
            "Later keys break, too",
            "The product stops before the query: what comes after it breaks nothing.",
            lambda z: _break(z, _earlier, lambda i, j: slice(j + 1, None)),
        ),
        Misconception(
            "Later keys break, too, and each key pays for itself",
            "The product starts after j and stops before the query.",
            lambda z: _break(z, _earlier, lambda i, j: slice(j, None)),
        ),
        Misconception(
            "The query's own key weighs, and breaks nothing",
            "Zeros where the key is not *before* the query.",
            lambda z: _break(z, lambda i, j: j <= i, lambda i, j: slice(j + 1, i)),
        ),
        Misconception(
            "The paper's letters are kept",
            "There i is the key and j the query: the result has the keys in its "
            "rows, and so has the z that is read. In this book row i is a query.",
            lambda z: weights(z.T).T,
        ),
        Misconception(
            "The query's neighbor leaves everything",
            "The product ends at key i − 1, which is the first to break.",
            lambda z: (
                weights(np.where(np.eye(len(z), k=-1), -np.inf, z))
                + np.tril(np.triu(weights(z), -1))
            ),
        ),
        Misconception(
            "The key's own factor is divided out again",
            "1 − σ(40) is 0 in float64, and 0/0 is NaN. Begin the product after the "
            "key.",
            _divided_out,
        ),
    ),
    properties=(
        Property(
            "No query gives its own or a later key any weight",
            lambda answer, z: not np.triu(answer(z)).any(),
        ),
        Property(
            "A weight does not feel the logits of older keys",
            lambda answer, z: np.allclose(
                answer(z)[:, 1:], answer(z + 5.0 * (np.arange(len(z)) == 0))[:, 1:]
            ),
        ),
    ),
)


# stickbreaking-4: what is left


def remainder(z):
    """What a row of logits leaves of the stick."""
    return float(np.exp(-np.logaddexp(0, z).sum()))


def _sigma(z):
    return 1 / (1 + np.exp(-z))


def _weights_of_row(z):
    row = np.broadcast_to(z, (len(z), len(z)))
    return break_stick(row, attend_current=True)[0][-1]


REMAINDER = Exercise(
    name="stickbreaking-4",
    title="What is left",
    kind="NumPy",
    minutes=6,
    lines=1,
    statement=r"""
A query has the logits `z`, `[keys]`, in float64.
Return the remainder $\prod_j (1 - \sigma(z_j))$, as a float, with its digits: these remainders are smaller than $10^{-15}$.
""",
    hint=r"""
$\log(1 - \sigma(z))$ has a name. `np.logaddexp(0, z)` is good at it.
""",
    cases=(
        (np.array([40.0]),),
        (np.array([21.0, 21.0]),),
        (np.array([1.0, 0.0, -2.0, 40.0]),),
    ),
    solution=remainder,
    misconceptions=(
        Misconception(
            "The remainder is taken as 1 − Σ",
            "The sum rounds to 1, and the difference is 0 or noise: a remainder below "
            "1e−16 has no digit there. Add logarithms and never subtract from 1.",
            lambda z: float(1 - _weights_of_row(z).sum()),
        ),
        Misconception(
            "1 − σ(z) has lost its digits",
            "The product is right, but σ(40) is 1 in float64, and 1 − 1 is 0. What is "
            "log (1 − σ(z)) on paper?",
            lambda z: float(np.prod(1 - _sigma(z))),
        ),
        Misconception(
            "This is what the keys would leave for the opposite logits",
            "Σ log σ(z) is the stick if every key *left* its fraction. log (1 − σ(z)) "
            "is another of softplus's signs.",
            lambda z: float(np.exp(-np.logaddexp(0, -z).sum())),
        ),
        Misconception(
            "Softplus is taken for its argument",
            "softplus(z) ≈ z for large z only; at z = 0 a key takes half of the stick.",
            lambda z: float(np.exp(-np.maximum(z, 0).sum())),
        ),
        Misconception(
            "This is what the keys take",
            "The remainder is what is left: a product of 1 − σ.",
            lambda z: float(np.prod(_sigma(z))),
        ),
        Misconception(
            "The fractions are added",
            "What is left of what is left: a product.",
            lambda z: float(1 - _sigma(z).sum()),
        ),
        Misconception(
            "This is the logarithm",
            "The remainder is its exponential.",
            lambda z: float(-np.logaddexp(0, z).sum()),
        ),
        Misconception(
            "The sign in the exponent is lost",
            "log (1 − σ(z)) is below 0.",
            lambda z: float(np.exp(np.logaddexp(0, z).sum())),
        ),
        Misconception(
            "The sigmoid is missing",
            "1 − z is no share of anything.",
            lambda z: float(np.prod(1 - z)),
        ),
        Misconception(
            "Softplus is taken for its argument, below 0 as well",
            "softplus(z) ≈ z for large z only; a key with a logit below 0 leaves "
            "less than the whole stick, not more.",
            lambda z: float(np.exp(-z.sum())),
        ),
        Misconception(
            "This is 1 minus the remainder",
            "Which to all digits is 1. The rest is asked for.",
            lambda z: float(1 - np.exp(-np.logaddexp(0, z).sum())),
        ),
        Misconception(
            "The last key alone breaks",
            "Every key breaks what the others leave.",
            lambda z: float(np.exp(-np.logaddexp(0, z[-1]))),
        ),
        Misconception(
            "The remainders are averaged",
            "They multiply.",
            lambda z: float(np.exp(-np.logaddexp(0, z)).mean()),
        ),
        Misconception(
            "The remainders are added",
            "They multiply.",
            lambda z: float(np.exp(-np.logaddexp(0, z)).sum()),
        ),
        Misconception(
            "This is what the opposite logits would take",
            "1 minus a product of σ. The remainder is a product of 1 − σ.",
            lambda z: float(1 - np.prod(_sigma(z))),
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
)


# stickbreaking-5: a row in float32


def row_weights(z):
    """The weights of one row of float32 logits, oldest first, in log space."""
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


def _quiet(keys):
    """One key of logit 0, and many nearer ones that take next to nothing."""
    return torch.cat((torch.zeros(1), torch.full((keys,), -17.0)))


def _spent(z):
    return torch.nn.functional.softplus(z).flip(0).cumsum(0).flip(0)


ROW = Exercise(
    name="stickbreaking-5",
    title="Sixteen thousand quiet keys",
    kind="PyTorch",
    minutes=12,
    lines=3,
    statement=r"""
Return the weights of one row of float32 logits `z`, `[keys]`, oldest first, where every key of the row may be attended.
Write softplus yourself; the logits reach from $-17$ to $100$, and there are up to 16385 keys.
Before you run the check: sixteen thousand keys of logit $-17$, how much do they take together?
""",
    hint=r"""
$\log A_j = z_j - \sum_{l \ge j} \operatorname{softplus}(z_l)$: turn the row round, sum, turn it back. For softplus take the larger of $z$ and 0 out of the logarithm.
""",
    cases=(
        (torch.tensor([100.0, 0.0]),),
        (torch.tensor([0.0, 6.0, 4.0]),),
        (torch.tensor(3 * draw(20), dtype=torch.float32),),
        (_quiet(16384),),
        (torch.cat((torch.full((16000,), 100.0), torch.zeros(300))),),
    ),
    solution=row_weights,
    misconceptions=(
        Misconception(
            "Softplus is written log(1 + e^z)",
            "In float32 e^z overflows from z = 89 on, and 1 + e^z is 1 below −17: "
            "then sixteen thousand keys together take nothing. Both ends can be saved: "
            "which exponential never overflows, and which function knows log(1 + t) "
            "for tiny t?",
            lambda z: _row(z, _naive),
        ),
        Misconception(
            "log1p, but the exponential overflows",
            "Very negative logits are right now. At z = 100 e^z is infinite, and the "
            "key gets nothing in place of almost all.",
            lambda z: _row(z, lambda z: z.exp().log1p()),
        ),
        Misconception(
            "Very negative logits are taken to cost nothing",
            "Large ones are right. But of z = −17 there are sixteen thousand, and each "
            "costs e^z; where that is added to 1 it is lost, and there is a function "
            "for log(1 + t).",
            lambda z: _row(z, lambda z: z.clamp(min=0) + (1 + (-z.abs()).exp()).log()),
        ),
        Misconception(
            "Softplus is cut at 0",
            "max(z, 0) is softplus far from 0 only; near 0 it is wrong by log 2, and "
            "weights exceed what is there.",
            lambda z: _row(z, lambda z: z.clamp(min=0)),
        ),
        Misconception(
            "Softplus is cut where it can be seen",
            "z for softplus(z) above 5 is wrong by 0.0067. In float32 a cut hides only "
            "above 14.6.",
            lambda z: _row(z, lambda z: torch.nn.functional.softplus(z, threshold=5.0)),
        ),
        Misconception(
            "The stick is reversed",
            "The sum runs over the older keys. Each key pays for those between it and "
            "the query, at the end of the row.",
            _reversed_row,
        ),
        Misconception(
            "The row is made to sum to one",
            "Softmax normalizes, stick-breaking does not: what nobody takes is left.",
            lambda z: row_weights(z) / row_weights(z).sum(),
        ),
        Misconception(
            "The key's own softplus is left out",
            "The sum starts at j itself, since z − softplus(z) is log σ(z).",
            lambda z: torch.exp(z - _spent(z) + torch.nn.functional.softplus(z)),
        ),
        Misconception(
            "The key's own softplus is paid twice",
            "log σ(z) and the sum over the *nearer* keys, or z and the sum from j on.",
            lambda z: torch.exp(torch.nn.functional.logsigmoid(z) - _spent(z)),
        ),
        Misconception(
            "These are logarithms",
            "They are right. Now their exponentials.",
            lambda z: z - _spent(z),
        ),
        Misconception(
            "Nothing is spent",
            "Plain sigmoids: each key takes its fraction of the whole stick. The "
            "nearer keys break first.",
            torch.sigmoid,
        ),
        Misconception(
            "The costs are added",
            "Softplus is subtracted: it is minus log (1 − σ).",
            lambda z: torch.exp(z + _spent(z)),
        ),
        Misconception(
            "The row was not turned back",
            "The costs are summed from the query on and stand in reverse order.",
            lambda z: torch.exp(z - torch.nn.functional.softplus(z).flip(0).cumsum(0)),
        ),
        Misconception(
            "This is a softmax",
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
            "Fractions and what they leave have lost their digits",
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
            "A key pays for itself, and digits are lost",
            "Its own 1 − σ is not in its product. And 1 − σ(z) is 1 for z = −17 in "
            "float32: add logarithms.",
            lambda z: z.sigmoid() * (1 - z.sigmoid()).flip(0).cumprod(0).flip(0),
        ),
        Misconception(
            "The stick is reversed, and a key pays for itself",
            "Each key pays for those between it and the query, and log σ(z) has its "
            "own cost in it already.",
            lambda z: torch.exp(
                torch.nn.functional.logsigmoid(z)
                - torch.nn.functional.softplus(z).cumsum(0)
            ),
        ),
        Misconception(
            "The costs are a total minus a cumulative sum",
            "In float32 the total is large, and the small costs of the "
            "nearest keys are lost in the difference. Sum from the query "
            "on: nothing is subtracted then.",
            _row_by_difference,
        ),
    ),
    properties=(
        Property(
            "A row never sums to more than 1",
            lambda answer, z: answer(z).sum().item() <= 1 + 1e-4,
        ),
    ),
    tolerance=2e-5,
)


# stickbreaking-6: the first token


def attend(q, k, v, attend_current):
    """Outputs ``[tokens, d]`` of one head that drops the remainder."""
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
    q, k, v = torch.tensor(draw(3, tokens, 4))
    return q, k, v, attend_current


def _masked(cost=None, weight=None):
    """Attention with other masks on what keys cost and on what they weigh."""

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


def _by_products(left):
    """Fractions times ``left(1 − β)`` of the keys that may be attended."""

    def answer(q, k, v, attend_current):
        z = q @ k.T / q.shape[-1] ** 0.5
        beta = z.sigmoid().tril(0 if attend_current else -1)
        return (beta * left(1 - beta)) @ v

    return answer


ATTEND = Exercise(
    name="stickbreaking-6",
    title="The first token",
    kind="PyTorch",
    minutes=15,
    lines=5,
    statement=r"""
`q`, `k`, `v` are `[tokens, d]`, of one head; its logits are $q \cdot k / \sqrt d$.
Return the outputs `[tokens, d]`; the remainder is dropped.
With `attend_current` a query's own key is the first that breaks the stick; without, the key before it is.
What does the first token get in either case?
""",
    hint=r"""
Mask twice: a key that may not be attended costs nothing *and* weighs nothing. `tril(0)` or `tril(-1)`?
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
            "The first token reads itself",
            "Without its own key it has no key at all: o₀ is an empty sum. What is the "
            "value of one?",
            _only_itself,
        ),
        Misconception(
            "attend_current is ignored: no query has its own key",
            "Where it is True the stick starts at the query's own key, and the first "
            "token gets something, too.",
            lambda q, k, v, attend_current: attend(q, k, v, False),
        ),
        Misconception(
            "attend_current is ignored: every query has its own key",
            "Where it is False the stick starts one key earlier: an off-by-one of the "
            "triangle.",
            lambda q, k, v, attend_current: attend(q, k, v, True),
        ),
        Misconception(
            "The own key is read, and costs nothing",
            "With attend_current it is the first to break the stick, so every older "
            "key gets less.",
            _own_key_takes_nothing,
        ),
        Misconception(
            "The rows are made to sum to one",
            "Here the remainder is dropped, not shared out: nothing is divided.",
            _rows_of_one,
        ),
        Misconception(
            "The logits are not divided by √d",
            "z = q · k / √d, as in softmax attention.",
            lambda q, k, v, attend_current: attend(
                q * q.shape[-1] ** 0.5, k, v, attend_current
            ),
        ),
        Misconception(
            "Later keys are not hidden",
            "They break the stick before the query's own past is asked. A key after "
            "the query must neither take a piece nor cost one.",
            _everybody,
        ),
        Misconception(
            "The query's own key weighs nothing, but it costs",
            "Where attend_current is False it must neither take a piece nor cost one: "
            "the stick starts at the key before.",
            _own_key_costs,
        ),
        Misconception(
            "Later keys weigh nothing, but they cost",
            "A key that may not be attended must neither take a piece nor cost one: "
            "mask before the sum.",
            _masked(cost=False),
        ),
        Misconception(
            "Later keys cost nothing, but they weigh",
            "A key that may not be attended must neither take a piece nor cost one.",
            _masked(weight=False),
        ),
        Misconception(
            "The stick is reversed",
            "The key next to the query breaks first; each key pays for those "
            "between it and the query.",
            _older_first,
        ),
        Misconception(
            "Every key gets the whole of its share",
            "σ(z) is a share of what nearer keys left.",
            _of_fractions,
        ),
        Misconception(
            "The remainder goes to the query's own value",
            "Here the remainder is dropped.",
            _with_rest,
        ),
        Misconception(
            "This is a softmax",
            "Stick-breaking has no sum over exponentials.",
            _softmax,
        ),
        Misconception(
            "attend_current is read the wrong way round",
            "True: the query's own key is the first that breaks the stick.",
            lambda q, k, v, attend_current: attend(q, k, v, not attend_current),
        ),
        Misconception(
            "Queries and keys are exchanged",
            "Row i belongs to query i: q @ k.T.",
            lambda q, k, v, attend_current: attend(k, q, v, attend_current),
        ),
        Misconception(
            "The logits are divided by d",
            "By its root.",
            lambda q, k, v, attend_current: attend(
                q / q.shape[-1] ** 0.5, k, v, attend_current
            ),
        ),
        Misconception(
            "The keys are read, not the values",
            "The weights are put on v.",
            lambda q, k, v, attend_current: attend(q, k, k, attend_current),
        ),
        Misconception(
            "The sign of the logits is reversed",
            "A key takes σ(z) of the stick and leaves 1 − σ(z).",
            lambda q, k, v, attend_current: attend(-q, k, v, attend_current),
        ),
        Misconception(
            "A key pays for itself",
            "Its own 1 − β is not in its product: it breaks what the *nearer* keys "
            "have left.",
            _by_products(lambda rest: rest.flip(-1).cumprod(-1).flip(-1)),
        ),
        Misconception(
            "Older keys break first, and each pays for itself",
            "The key next to the query breaks first, and its own 1 − β is not in "
            "its product.",
            _by_products(lambda rest: rest.cumprod(-1)),
        ),
        Misconception(
            "The first token reads itself, whatever is asked for",
            "With attend_current its own key takes its fraction, and the rest is "
            "dropped. Without, o₀ is an empty sum.",
            lambda q, k, v, attend_current: torch.cat(
                (v[:1], attend(q, k, v, attend_current)[1:])
            ),
        ),
        Misconception(
            "Logits of 0 are no mask",
            "softplus(0) is log 2: later keys still cost, each a half of the stick. A "
            "key that may not be attended costs nothing.",
            _zero_logits,
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
)


# stickbreaking-7: how far must one look?


def keys_needed(z, share):
    """How many keys, the nearest first, until at most ``share`` of the stick is left.

    All of them if even then more is left.
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
    title="How far must one look?",
    kind="experiment",
    minutes=10,
    lines=3,
    statement=r"""
A query walks its keys from the nearest on and may stop as soon as at most `share` < 1 of the stick is left.
`z` are the row's logits, oldest first.
Return how many keys it must look at, as an `int`; all of them, if even then more is left.
Predict before you run: for logits 0 and a share of 0.001? For logits $-8$ and one half?
""",
    hint=r"""
`np.logaddexp(0, z[::-1]).cumsum()` is minus the logarithm of the stick after each key. Count the keys after which it is still too long.
""",
    cases=(
        (np.zeros(3), 0.6),
        (np.zeros(20), 0.001),
        (np.array([3.0, -1.0, 2.0, -5.0, 0.5, -2.0]), 0.05),
        (np.linspace(4, -4, 40), 0.01),
        (np.full(30, -8.0), 0.5),
        (draw(200), math.exp(-10)),
    ),
    solution=keys_needed,
    misconceptions=(
        Misconception(
            "The oldest keys are asked first",
            "The row is stored oldest first, and the nearest key breaks first: walk it "
            "from its end.",
            lambda z, share: keys_needed(z[::-1], share),
        ),
        Misconception(
            "One key too few",
            "The key that brings the stick below the share has to be looked at, too.",
            lambda z, share: max(keys_needed(z, share) - 1, 0),
        ),
        Misconception(
            "Keys with a small weight are left out",
            "A small weight says little about the keys behind it: a quiet key takes "
            "nothing and leaves the whole stick. What bounds *all* older weights?",
            lambda z, share: int((_weights_of_row(z) > share).sum()),
        ),
        Misconception(
            "The fractions are added",
            "β is a fraction of what is left, so fractions multiply: 1 − Σ β is not "
            "the stick.",
            lambda z, share: int(
                min((1 - _sigma(z[::-1]).cumsum() > share).sum() + 1, len(z))
            ),
        ),
        Misconception(
            "Where the stick never gets so short, one key is said to do",
            "The argmax of a row of False is 0. If all keys leave more than the share, "
            "all of them are needed.",
            _first_or_one,
        ),
        Misconception(
            "These are the weights of a softmax",
            "There you must have seen all keys to know that you need not have. A stick "
            "knows what is left after each.",
            _needed_by_softmax,
        ),
        Misconception(
            "Where the stick never gets so short, one key too many is counted",
            "There are no more than len(z) keys.",
            lambda z, share: int((_left(z) > share).sum() + 1),
        ),
        Misconception(
            "What is left is taken for what is broken off",
            "Stop when at most share is *left*.",
            lambda z, share: keys_needed(z, 1 - share),
        ),
        Misconception(
            "This is how many keys are not needed",
            "Count those that must be looked at.",
            lambda z, share: len(z) - keys_needed(z, share),
        ),
        Misconception(
            "σ and 1 − σ are exchanged",
            "A key takes σ(z) and leaves 1 − σ(z).",
            lambda z, share: keys_needed(-z, share),
        ),
        Misconception(
            "The logarithm is compared with the share",
            "Take the exponential, or the logarithm of the share.",
            lambda z, share: int(
                min((-np.logaddexp(0, z[::-1]).cumsum() > share).sum() + 1, len(z))
            ),
        ),
        Misconception(
            "Each key's own rest is compared",
            "What *all* keys so far have left counts: a product.",
            lambda z, share: int(min((1 - _sigma(z[::-1]) > share).sum() + 1, len(z))),
        ),
        Misconception(
            "All keys are needed",
            "Loud keys leave little: one may stop.",
            lambda z, share: len(z),
        ),
        Misconception(
            "The oldest keys are asked first, and there is no last one",
            "The nearest key breaks first: walk the row from its end. And there are "
            "no more than len(z) keys.",
            lambda z, share: int((np.cumprod(1 - _sigma(z)) > share).sum() + 1),
        ),
        Misconception(
            "The keys that leave too much are counted",
            "One more is needed: the one that brings the stick below the share.",
            lambda z, share: int((_left(z) > share).sum()),
        ),
        Misconception(
            "The keys are numbered from 0",
            "How many must be looked at? The key with which the share is reached is "
            "one of them.",
            lambda z, share: int((_left(z) <= share).argmax()),
        ),
        Misconception(
            "One key too many",
            "The key that brings the stick down to the share is the last one.",
            lambda z, share: keys_needed(z, share) + 1,
        ),
    ),
    properties=(
        Property(
            "Of louder keys no more are needed",
            lambda answer, z, share: answer(z + 3, share) <= answer(z, share),
        ),
    ),
)


SHEET = Sheet(
    title="stick-breaking attention",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0; rows of keys are stored oldest first. $z_{ij}$ are logits, $\beta_{ij} = \sigma(z_{ij})$ fractions, $\operatorname{softplus}(z) = \log(1 + e^z)$.
""",
    exercises=(PIECES, SLOPE, LETTERS, REMAINDER, ROW, ATTEND, STOP),
)
