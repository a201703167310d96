"""Exercises on attention without a positional encoding."""

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
)


def permutation():
    """Return the matrix P that orders tokens as 2, 3, 1, 0: a 4 × 4 SymPy matrix."""
    return sp.Matrix([[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0]])


def _rows(*order):
    return sp.Matrix(4, 4, lambda i, j: int(order[i] == j))


def averaged_twice(n, j):
    """Return the weight of token j in the last of n outputs, as a SymPy rational.

    Each of two layers replaces every token by the mean of the tokens up to it; tokens
    count from 0.
    """
    return sum(sp.Rational(1, i + 1) for i in range(j, n)) / n


def by_columns(n, m):
    """Return a bias with equal rows that acts like ALiBi's, and constants of the rows.

    The bias, n × n, is ALiBi's of slope m plus one constant for each row, so it gives
    the same attention weights. The constants are n × 1; both are SymPy matrices.
    """
    bias = sp.Matrix(n, n, lambda i, j: m * j)
    return bias, sp.Matrix(n, 1, lambda i, _: m * i)


def _alibi(n, m):
    return sp.Matrix(n, n, lambda i, j: -m * (i - j))


def _undone(bias, constants):
    return (bias - constants * sp.ones(1, bias.cols)).expand()


def four_terms(x_i, p_i, x_j, p_j, W_q, W_k):
    """Return the four content and position terms of a query-key product.

    The query's token is x_i + p_i and the key's is x_j + p_j, each content plus
    position (SymPy columns); ``W_q`` and ``W_k`` are the query and key projections. The
    terms are a list of SymPy expressions.
    """

    def score(query_side, key_side):
        return (query_side.T * W_q.T * W_k * key_side)[0]

    return [score(left, right) for left in (x_i, p_i) for right in (x_j, p_j)]


def causal(queries, keys):
    """Return the causal mask of the last ``queries`` of ``keys`` tokens.

    The mask is a boolean array [queries, keys], true where a query may look at a key.
    """
    i = np.arange(queries)[:, None] + keys - queries
    j = np.arange(keys)
    return j <= i


def _diagonal(queries, keys, k):
    return np.tril(np.ones((queries, keys), dtype=bool), k)


def share(k, heads):
    """Return the keys that each query head sees in grouped-query attention.

    ``k`` are the keys of all key heads, ``heads`` is the number of query heads. The
    keys returned are a tensor [batch, heads, tokens, d].
    """
    group = heads // k.shape[1]
    return k.repeat_interleave(group, 1)


def weights(logits, mask):
    """Return masked softmax weights, an array of the shape of the logits.

    ``mask`` is true where a query may look at a key. A query that may look at no key
    gets weights 0.
    """
    shown = np.where(mask, logits, -np.inf)
    top = shown.max(-1, keepdims=True)
    grown = np.exp(shown - np.where(np.isfinite(top), top, 0.0))
    total = grown.sum(-1, keepdims=True)
    return grown / np.where(total > 0, total, 1.0)


def _softmax(logits):
    grown = np.exp(logits - logits.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


def furthest(dtype):
    """Return the last position T up to which all values 1/(t + 1) differ, an integer.

    The values, one for each position t = 0, …, T, are stored in ``dtype``.
    """
    t = torch.arange(4096, dtype=torch.float64)
    value = (1 / (t + 1)).to(dtype)
    return int((value[1:] == value[:-1]).nonzero()[0])


def _reciprocals(dtype):
    return (1 / torch.arange(1, 4097, dtype=torch.float64)).to(dtype)


def _matrix(name, rows, columns):
    return sp.Matrix(sp.MatrixSymbol(name, rows, columns))


def _absolute(size):
    vectors = [_matrix(name, size, 1) for name in ("x_i", "p_i", "x_j", "p_j")]
    return *vectors, _matrix("W_q", size, size), _matrix("W_k", size, size)


_SLOPE = sp.Symbol("m", positive=True)


def _averaged(weight):
    """Make a wrong answer (a function) to the exercise ``averaged_twice``.

    The exercise asks for a token's weight after two layers of averaging: the sum of
    1/(n (i + 1)) over i = j … n − 1. In the wrong answer, ``weight(n, i)`` replaces
    1/(n (i + 1)).
    """
    return lambda n, j: sum((weight(n, i) for i in range(j, n)), sp.Integer(0))


def _terms(between):
    """Make a wrong answer (a function) to the exercise ``four_terms``.

    The exercise asks for the four terms of a query-key product. In the wrong answer,
    the matrix ``between(W_q, W_k)`` replaces W_qᵀ W_k in each term.
    """
    return lambda x_i, p_i, x_j, p_j, W_q, W_k: [
        (left.T * between(W_q, W_k) * right)[0]
        for left in (x_i, p_i)
        for right in (x_j, p_j)
    ]


def _divided(grown, axis=-1):
    total = grown.sum(axis, keepdims=True)
    return grown / np.where(total == 0, 1.0, total)


def _top(logits, mask):
    """Largest logit among the keys that the mask allows each query, [..., queries, 1].

    ``logits`` are [..., queries, keys]. 0 for a query to which the mask allows no key.
    """
    top = np.where(mask, logits, -np.inf).max(-1, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


def _below_all(logits, mask):
    shown = np.where(mask, logits, -np.inf)
    return np.exp(shown - (shown.max() if mask.any() else 0.0))


def _lifted(logits, mask):
    return _raised(logits, mask, logits.max(-1, keepdims=True))


def _raised(logits, mask, subtracted):
    return np.where(mask, np.exp(logits - subtracted), 0.0)


def colleagues_weights(logits, mask):
    """Return the weights of a masked softmax.

    A row without allowed keys gets zeros.
    """
    largest = logits.max(-1, keepdims=True)
    lifted = np.exp(logits - largest) * mask
    sums = lifted.sum(-1, keepdims=True)
    return lifted / np.where(sums == 0, 1.0, sums)


def logits_that_vanish():
    """Return logits and a mask, both [1, 2], on which the function is wrong."""
    return np.array([[746.0, 0.0]]), np.array([[False, True]])


def _not_two_keys(logits, mask):
    if type(logits) is not np.ndarray or type(mask) is not np.ndarray:
        return "logits and mask are arrays"
    if logits.shape != (1, 2) or mask.shape != (1, 2) or mask.dtype != bool:
        return "logits and mask are arrays of shape [1, 2], and mask is boolean"
    is_whole = np.isfinite(logits).all() and (logits == np.abs(logits // 1)).all()
    return "" if is_whole else "logits are whole numbers from 0 on"


def colleagues_share(k, heads):
    """Return the keys that each query head sees.

    Heads share keys, as in grouped-query attention.
    """
    return k.repeat(1, heads // k.shape[1], 1, 1)


def keys_that_differ():
    """Return keys and a number of query heads on which the function is wrong."""
    return torch.tensor([3.0, 5.0]).reshape(1, 2, 1, 1), 4


def _no_groups(k, heads):
    is_dense = k.layout == torch.strided and k.is_floating_point()
    if not is_dense or k.ndim != 4 or type(heads) is not int:
        return "k is a float tensor [batch, kv_heads, tokens, d], and heads an int"
    is_multiple = 0 < heads <= 64 and min(k.shape) > 0 and heads % k.shape[1] == 0
    return "" if is_multiple else "heads is a multiple of kv_heads, from 1 to 64"


VANISHED = Exercise(
    name="permutation-equivariance-9",
    title="Find the input: masked softmax",
    kind="find the input",
    minutes=15,
    lines=1,
    level="hard",
    statement=r"""
`colleagues_weights` should do what exercise permutation-equivariance-7 asks for.
She has tested it with a row without allowed keys, with two logits of 1000, and with masked logits that are 3 and 600 larger than the allowed one; all of these tests pass.
Find `logits` and `mask`, arrays of shape `[1, 2]`, on which it is wrong.
The logits must be whole numbers from 0 on, and the larger of the two as small as possible.
Why do masked logits of some hundreds do no harm?
""",
    hint=r"""
What does she subtract from the logits?
Which is the smallest positive number that float64 can hold?
""",
    cases=((),),
    solution=logits_that_vanish,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_weights,
        right=weights,
        tested=(
            (np.array([[1.0, 2.0]]), np.array([[False, False]])),
            (np.array([[1000.0, 1000.0]]), np.array([[True, True]])),
            (np.array([[3.0, 0.0]]), np.array([[False, True]])),
            (np.array([[600.0, 0.0]]), np.array([[False, True]])),
        ),
        refusal=_not_two_keys,
        size=lambda logits, mask: int(logits.max()),
        size_of="larger logit",
    ),
    explanation=r"""
She subtracts the largest logit of the row, though it is masked.
If a masked logit is larger by $x$, the exponential of the allowed key is $e^{-x}$.
The sum is the same $e^{-x}$, so the quotient is right as long as float64 can hold that number.
$e^{-745}$ is rounded to the smallest positive number, about $4.9 \cdot 10^{-324}$.
$e^{-746}$ is rounded to 0, and the allowed key gets weight 0 in place of 1.
In float32 this happens from 104 on, so subtract the largest *allowed* logit; by {prf:ref}`the theorem on row constants <thm-row-constant>` any constant is right on paper.
""",
)

TILED = Exercise(
    name="permutation-equivariance-10",
    title="Find the input: grouped heads",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_share` should do what exercise permutation-equivariance-6 asks for.
She has tested it with one key head for four query heads, and with four key heads for four query heads; both tests pass.
Find `k` and `heads` on which it is wrong, with as few query heads as possible.
Why could her tests not show the mistake?
""",
    hint=r"""
How does the order of the heads differ between `repeat` and `repeat_interleave`?
The entries of `k` are yours to choose: if all are equal, no order shows.
""",
    cases=((),),
    solution=keys_that_differ,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_share,
        right=share,
        tested=(
            (torch.tensor([3.0, 5.0]).reshape(1, 1, 2, 1), 4),
            (torch.tensor([3.0, 5.0, 7.0, 9.0]).reshape(1, 4, 1, 1), 4),
        ),
        refusal=_no_groups,
        size=lambda k, heads: heads,
        size_of="number of query heads",
    ),
    explanation=r"""
Four query heads and two key heads are the smallest case: her heads use the key heads 0, 1, 0, 1, and right is 0, 0, 1, 1.
With one key head, or with one query head for each key head, both orders are the same, so the two extreme cases, multi-query and plain multi-head attention, cannot show the mistake.
Fewer query heads have no other case: 1, 2 and 3 are divisible only by 1 and by themselves.
The shapes agree in every case, so no error is raised either.
""",
)


SHEET = Sheet(
    title="Attention",
    conventions=r"""
Positions and tokens are counted from 0; $i$ is the position of the query, $j$ that of the key.
""",
    example=r"""
from posedu.numpy.attention import steps

q = np.array([[[1.0], [0.0]]])  # [heads, tokens, d]
k = np.log([[[1.0], [3.0]]])
a = steps(q, k, k).weights
print(np.round(a, 3))  # a row for each query
""",
    figure="permutation_equivariance_explorable",
    exercises=(
        Exercise(
            name="permutation-equivariance-1",
            title="A permutation by hand",
            kind="by hand",
            minutes=5,
            lines=1,
            statement=r"""
Reorder four tokens so that $(PX)_i = x_{\pi(i)}$ with $\pi = (2, 3, 1, 0)$: token 2 comes first, then 3, then 1, then 0.
Write down the matrix $P$ as a SymPy matrix, entry by entry.
""",
            hint=r"""
Row 0 of $P$ times $X$ must give $x_2^\top$.
Which single entry of that row is 1?
""",
            cases=((),),
            solution=permutation,
            misconceptions=(
                Misconception(
                    "Inverse permutation",
                    "Row i of P picks the token that comes to place i. Yours sends "
                    "token i to the place that the list names.",
                    lambda: permutation().T,
                ),
                Misconception(
                    "List read backwards",
                    "The first number of the list says which token comes to place 0, "
                    "the top row.",
                    lambda: _rows(0, 1, 3, 2),
                ),
                Misconception(
                    "List on the diagonal",
                    "A permutation matrix moves tokens and scales none: one 1 in each row "
                    "and in each column, zeros elsewhere.",
                    lambda: sp.diag(2, 3, 1, 0),
                ),
                Misconception(
                    "Nothing moved",
                    "Your answer is the identity, which leaves token 0 in front.",
                    lambda: sp.eye(4),
                ),
                Misconception(
                    "Tokens in reverse order",
                    "π = (2, 3, 1, 0) is not (3, 2, 1, 0): token 2 comes first.",
                    lambda: _rows(3, 2, 1, 0),
                ),
                Misconception(
                    "List counted from 1",
                    "The numbers of the list are 0 to 3, and token 0 is the first.",
                    lambda: _rows(1, 2, 0, 3),
                ),
                Misconception(
                    "List read as a cycle",
                    "The list does not say 2 → 3 → 1 → 0 → 2. Its entry i says which "
                    "token comes to place i: token 2 to place 0, token 3 to place 1.",
                    lambda: _rows(2, 0, 3, 1),
                ),
                Misconception(
                    "List read as a cycle, and followed backwards",
                    "The list does not say 2 → 3 → 1 → 0 → 2. Its entry i says which "
                    "token comes to place i: token 2 to place 0, token 3 to place 1.",
                    lambda: _rows(1, 3, 0, 2),
                ),
            ),
            properties=(
                Property(
                    "P Pᵀ is the identity",
                    lambda answer: answer() * answer().T == sp.eye(4),
                ),
                Property(
                    "P takes the column (0, 1, 2, 3) to (2, 3, 1, 0)",
                    lambda answer: (
                        list(answer() * sp.Matrix([0, 1, 2, 3])) == [2, 3, 1, 0]
                    ),
                ),
            ),
            explanation=r"""
Row $i$ of $PX$ is $\sum_j P_{ij}\, x_j^\top$, and it must be $x_{\pi(i)}^\top$: the single 1 of row $i$ stands in column $\pi(i)$, so in columns 2, 3, 1, 0 from the top row to the bottom row.
The inverse permutation has the matrix $P^\top$, with $P^\top P = I$; here it is another matrix, since $\pi$ is not its own inverse.
Multiplication by such a matrix is what attention commutes with, by {prf:ref}`the corollary on permutation equivariance <thm-equivariance>`.
""",
        ),
        Exercise(
            name="permutation-equivariance-2",
            title="Two layers of averaging",
            kind="by hand",
            minutes=10,
            lines=1,
            statement=r"""
All logits are zero and a causal mask is on, so each token becomes the mean of itself and all earlier ones.
Do this twice, in two layers.
With which weight does token $j$ enter the last of $n$ tokens?
Work it out on paper for $n = 3$ first, then return the exact weight as a SymPy rational, for any $n$ and $j$.
""",
            hint=r"""
After one layer token $i$ is the mean of $i + 1$ tokens.
Which of these means contain token $j$, and with which weight?
Then average over $i$.
""",
            cases=(
                *((n, j) for n in (1, 2, 3, 5) for j in range(n)),
                *((7, 0), (20, 3)),
            ),
            solution=averaged_twice,
            misconceptions=(
                Misconception(
                    "One layer",
                    "After one layer the last token is a plain mean. The second layer "
                    "averages means of different lengths.",
                    lambda n, j: sp.Rational(1, n),
                ),
                Misconception(
                    "A token that does not see itself",
                    "Under a causal mask token j is in the average at place j already.",
                    lambda n, j: sum(
                        sp.Rational(1, n * i) for i in range(j + 2, n + 1)
                    ),
                ),
                Misconception(
                    "Nearest fraction with a small denominator",
                    "A rounded number fits many fractions. Add and divide fractions "
                    "from the beginning.",
                    lambda n, j: sp.Rational(
                        float(averaged_twice(n, j))
                    ).limit_denominator(1000),
                ),
                Misconception(
                    "Missing second average",
                    "You added the n means of the first layer without dividing by n.",
                    lambda n, j: sum(sp.Rational(1, i) for i in range(j + 1, n + 1)),
                ),
                Misconception(
                    "Early and late swapped",
                    "Which token is in more of the first layer's averages, an early one "
                    "or a late one?",
                    lambda n, j: averaged_twice(n, n - 1 - j),
                ),
                Misconception(
                    "Each mean taken for a mean of all tokens",
                    "Token i is the mean of only i + 1 tokens after the first layer.",
                    _averaged(lambda n, i: sp.Rational(1, n * n)),
                ),
                Misconception(
                    "Two layers, 1/n each",
                    "In the first layer the means are of different lengths, and token j is "
                    "in several of them.",
                    lambda n, j: sp.Rational(1, n**2),
                ),
                Misconception(
                    "Only one of the means counted",
                    "Token j enters the mean at place j, and all the later ones as well.",
                    lambda n, j: sp.Rational(1, n * (j + 1)),
                ),
                Misconception(
                    "One mean of the first layer",
                    "Your answer is the weight of token j at place j after one layer. "
                    "The second layer averages such means.",
                    lambda n, j: sp.Rational(1, j + 1),
                ),
                Misconception(
                    "Means one token too long",
                    "The mean at place i has i + 1 tokens, since places count from 0.",
                    _averaged(lambda n, i: sp.Rational(1, n * (i + 2))),
                ),
                Misconception(
                    "All means counted",
                    "Token j is not in the means before place j.",
                    lambda n, j: sum(sp.Rational(1, n * (i + 1)) for i in range(n)),
                ),
                Misconception(
                    "Means before token j counted",
                    "Under a causal mask token j is in the means at place j and after it.",
                    lambda n, j: sum(sp.Rational(1, n * (i + 1)) for i in range(j + 1)),
                ),
                Misconception(
                    "Both weights squared",
                    "The weights of the two layers multiply along each path from j to "
                    "the last token, and the paths add up.",
                    _averaged(lambda n, i: sp.Rational(1, (i + 1) ** 2)),
                ),
                Misconception(
                    "Second average over the means that contain j",
                    "All n means of the first layer are averaged. In those before "
                    "place j the weight of token j is 0.",
                    lambda n, j: averaged_twice(n, j) * n / (n - j),
                ),
                Misconception(
                    "Means counted from the last token",
                    "The mean at place i has i + 1 tokens, not n − i.",
                    _averaged(lambda n, i: sp.Rational(1, n * (n - i))),
                ),
                Misconception(
                    "Tokens counted from 1",
                    "Token i is the mean of i + 1 tokens, since tokens count from 0.",
                    lambda n, j: sum(
                        (sp.Rational(1, n * i) for i in range(max(j, 1), n)),
                        sp.Integer(0),
                    ),
                ),
            ),
            properties=(
                Property(
                    "The weights of all n tokens sum to 1",
                    lambda answer, n, j: sum(answer(n, k) for k in range(n)) == 1,
                ),
            ),
            explanation=r"""
After one layer token $i$ is the mean of tokens $0, \dots, i$, in which $x_j$ has weight $1/(i + 1)$ if $i \ge j$, and weight 0 otherwise.
The second layer averages these $n$ means, so token $j$ enters the last token with weight $\frac1n \sum_{i=j}^{n-1} \frac1{i+1} = (H_n - H_j)/n$, where $H_j = 1 + \frac12 + \dots + \frac1j$.
For $n = 3$ the weights are $\frac13\bigl(1 + \frac12 + \frac13\bigr) = \frac{11}{18}$, $\frac13\bigl(\frac12 + \frac13\bigr) = \frac5{18}$ and $\frac13 \cdot \frac13 = \frac2{18}$.
They fall with $j$, so two layers see an order; one layer does not, by {prf:ref}`the theorem on one causal layer <thm-one-causal-layer>`.
Of 100 tokens the last has the weight $1/100^2$, so the first has $100\, H_{100} \approx 519$ times its weight.
""",
            prediction=Prediction(
                "By what factor is the weight of the first of 100 tokens larger than that "
                "of the last, after two layers?",
                lambda: float(averaged_twice(100, 0) / averaged_twice(100, 99)),
                near=0.1,
            ),
        ),
        Exercise(
            name="permutation-equivariance-3",
            title="ALiBi in one row",
            kind="SymPy",
            minutes=10,
            lines=2,
            statement=r"""
ALiBi adds $-m\,(i - j)$ to the logit of query $i$ and key $j$.
Softmax ignores a constant that is added to a row.
Find the $n \times n$ bias $B'$ with all rows equal and its first column zero, and the column $\alpha$ of $n$ constants, such that

$$B'_{ij} = -m\,(i - j) + \alpha_i .$$

Return both as SymPy matrices.
Leave masking to the mask: fill the whole square.
""",
            hint=r"""
Write $-m\,(i - j)$ as a part that depends on $i$ alone and a part that depends on $j$ alone.
""",
            cases=((1, _SLOPE), (2, _SLOPE), (3, sp.Rational(1, 2)), (4, _SLOPE)),
            solution=by_columns,
            misconceptions=(
                Misconception(
                    "Largest bias for the farthest keys",
                    "Near keys have the larger j under a causal mask, so they must "
                    "get the larger bias.",
                    lambda n, m: tuple(-part for part in by_columns(n, m)),
                ),
                Misconception(
                    "Constants with the wrong sign",
                    "α is added to the rows of −m (i − j), not subtracted from them.",
                    lambda n, m: (by_columns(n, m)[0], -by_columns(n, m)[1]),
                ),
                Misconception(
                    "Rows not equal",
                    "The mask takes care of the keys after the query. Zeros in their "
                    "place lose the one row that all queries share.",
                    lambda n, m: (
                        sp.Matrix(n, n, lambda i, j: m * j if j <= i else 0),
                        by_columns(n, m)[1],
                    ),
                ),
                Misconception(
                    "Last column zero, not the first",
                    "For softmax it makes no difference, but the exercise asks for "
                    "zeros in column 0.",
                    lambda n, m: (
                        by_columns(n, m)[0].applyfunc(lambda b: b - m * (n - 1)),
                        by_columns(n, m)[1].applyfunc(lambda a: a - m * (n - 1)),
                    ),
                ),
                Misconception(
                    "Columns counted from 1",
                    "The first column must be zero: keys count from 0.",
                    lambda n, m: tuple(
                        part.applyfunc(lambda x: x + m) for part in by_columns(n, m)
                    ),
                ),
                Misconception(
                    "Mask in the bias",
                    "The bias has all rows equal, and −∞ above the diagonal belongs to "
                    "the mask.",
                    lambda n, m: (
                        sp.Matrix(n, n, lambda i, j: m * j if j <= i else -sp.oo),
                        by_columns(n, m)[1],
                    ),
                ),
                Misconception(
                    "Constants counted from 1",
                    "Row 0 of −m (i − j) has a 0 in column 0 already, so nothing is "
                    "added to it.",
                    lambda n, m: (
                        by_columns(n, m)[0],
                        by_columns(n, m)[1].applyfunc(lambda a: a + m),
                    ),
                ),
                Misconception(
                    "Equal columns in place of equal rows",
                    "Your bias depends on the query alone, and softmax would not see "
                    "it at all.",
                    lambda n, m: (by_columns(n, m)[0].T, by_columns(n, m)[1]),
                ),
                Misconception(
                    "Missing slope",
                    "The bias falls by m per token, not by 1.",
                    lambda n, m: by_columns(n, 1),
                ),
                Misconception(
                    "ALiBi unchanged",
                    "The rows of ALiBi's bias differ. What may be added to a row "
                    "without a change of softmax?",
                    lambda n, m: (_alibi(n, m), sp.zeros(n, 1)),
                ),
                Misconception(
                    "Missing constants",
                    "α is what is added to the rows of −m (i − j) to make them equal.",
                    lambda n, m: (by_columns(n, m)[0], sp.zeros(n, 1)),
                ),
            ),
            properties=(
                Property(
                    "Bias minus α is −m (i − j)",
                    lambda answer, n, m: (
                        _undone(*answer(n, m)) == _alibi(n, m).expand()
                    ),
                ),
            ),
            explanation=r"""
$-m\,(i - j) = m\,j - m\,i$: the first part depends on the key alone, the second on the query alone.
So $\alpha_i = m\,i$ takes the second part away, and $B'_{ij} = m\,j$ is left, with equal rows and a first column of zeros.
Softmax gives the same weights for both, by {prf:ref}`the corollary on ALiBi by columns <thm-alibi-columns>`; under a causal mask one row of $n$ numbers then replaces the whole matrix.
""",
        ),
        Exercise(
            name="permutation-equivariance-4",
            title="Content and position terms",
            kind="SymPy",
            minutes=10,
            lines=4,
            statement=r"""
Token $i$ is $x_i + p_i$, token $j$ is $x_j + p_j$; the query is $W_q (x_i + p_i)$, the key $W_k (x_j + p_j)$.
Return the four parts of their product as a list of four expressions, in the order content–content, content–position, position–content, position–position.
The first word names the query's side.
All arguments are SymPy matrices; a $1 \times 1$ matrix gives its entry by `[0]`.
""",
            hint=r"""
Write a small function for $a^\top W_q^\top W_k\, b$ and call it four times.
""",
            cases=(_absolute(1), _absolute(2)),
            solution=four_terms,
            misconceptions=(
                Misconception(
                    "Middle terms swapped",
                    "The first word names the query's side: in content–position the query "
                    "brings its content and the key its position.",
                    lambda *case: [four_terms(*case)[n] for n in (0, 2, 1, 3)],
                ),
                Misconception(
                    "Queries and keys swapped",
                    "W_q belongs to token i, the query's, and W_k to token j, the "
                    "key's.",
                    lambda x_i, p_i, x_j, p_j, W_q, W_k: four_terms(
                        x_i, p_i, x_j, p_j, W_k, W_q
                    ),
                ),
                Misconception(
                    "Positions not projected",
                    "Positions are added before the projections, so W_q and W_k act "
                    "on them as on the content.",
                    lambda x_i, p_i, x_j, p_j, W_q, W_k: [
                        (left.T * right)[0]
                        for left in (W_q * x_i, p_i)
                        for right in (W_k * x_j, p_j)
                    ],
                ),
                Misconception(
                    "W_q not transposed",
                    "(W a)ᵀ is aᵀ Wᵀ.",
                    _terms(lambda W_q, W_k: W_q * W_k),
                ),
                Misconception(
                    "W_k transposed in place of W_q",
                    "(W_q a)ᵀ (W_k b) is aᵀ W_qᵀ W_k b.",
                    _terms(lambda W_q, W_k: W_q * W_k.T),
                ),
                Misconception(
                    "Missing query projection",
                    "The query is W_q (x_i + p_i).",
                    _terms(lambda W_q, W_k: W_k),
                ),
                Misconception(
                    "Missing key projection",
                    "The key is W_k (x_j + p_j).",
                    _terms(lambda W_q, W_k: W_q.T),
                ),
                Misconception(
                    "Position first",
                    "The order is content–content, content–position, position–content, "
                    "position–position.",
                    lambda *case: four_terms(*case)[::-1],
                ),
                Misconception(
                    "Query's token on both sides",
                    "The query's side has x_i and p_i, the key's side x_j and p_j.",
                    lambda x_i, p_i, x_j, p_j, W_q, W_k: four_terms(
                        x_i, p_i, x_i, p_i, W_q, W_k
                    ),
                ),
                Misconception(
                    "Tokens exchanged in position–content",
                    "The query brings its own position p_i, and the key its content"
                    " x_j.",
                    lambda x_i, p_i, x_j, p_j, W_q, W_k: [
                        four_terms(x_i, p_i, x_j, p_j, W_q, W_k)[n]
                        if n != 2
                        else four_terms(x_i, p_j, x_i, p_i, W_q, W_k)[2]
                        for n in range(4)
                    ],
                ),
                Misconception(
                    "Position–position term not projected",
                    "W_q and W_k act on positions as on the content.",
                    lambda x_i, p_i, x_j, p_j, W_q, W_k: [
                        *four_terms(x_i, p_i, x_j, p_j, W_q, W_k)[:3],
                        (p_i.T * p_j)[0],
                    ],
                ),
                Misconception(
                    "Mean of the two middle terms",
                    "The two differ: in one the query brings its content, in the other "
                    "its position.",
                    lambda *case: [
                        four_terms(*case)[n]
                        if n in (0, 3)
                        else (four_terms(*case)[1] + four_terms(*case)[2]) / 2
                        for n in range(4)
                    ],
                ),
                Misconception(
                    "Token j as the query",
                    "W_q belongs to token i, since the first word names the query's "
                    "side.",
                    lambda x_i, p_i, x_j, p_j, W_q, W_k: four_terms(
                        x_j, p_j, x_i, p_i, W_q, W_k
                    ),
                ),
                Misconception(
                    "A token with itself in the middle terms",
                    "The query brings x_i or p_i, the key p_j or x_j.",
                    lambda x_i, p_i, x_j, p_j, W_q, W_k: [
                        four_terms(x_i, p_i, x_j, p_j, W_q, W_k)[0],
                        four_terms(x_i, p_i, x_i, p_i, W_q, W_k)[1],
                        four_terms(x_j, p_j, x_j, p_j, W_q, W_k)[2],
                        four_terms(x_i, p_i, x_j, p_j, W_q, W_k)[3],
                    ],
                ),
            ),
            properties=(
                Property(
                    "The four terms sum to the score of x + p",
                    lambda answer, x_i, p_i, x_j, p_j, W_q, W_k: (
                        sp.expand(
                            sum(answer(x_i, p_i, x_j, p_j, W_q, W_k))
                            - ((x_i + p_i).T * W_q.T * W_k * (x_j + p_j))[0]
                        )
                        == 0
                    ),
                ),
            ),
            level="optional",
            explanation=r"""
$\bigl(W_q (x_i + p_i)\bigr)^\top W_k (x_j + p_j)$ is linear in $x_i + p_i$ and in $x_j + p_j$, so it is the sum of $a^\top W_q^\top W_k\, b$ over $a \in \{x_i, p_i\}$ and $b \in \{x_j, p_j\}$.
These are the four terms of the chapter's section on a vector for each position.
Only the last, $p_i^\top W_q^\top W_k\, p_j$, is the same for every sentence; the two in the middle connect content with position.
""",
        ),
        Exercise(
            name="permutation-equivariance-5",
            title="The causal mask of a cache",
            kind="NumPy",
            minutes=10,
            lines=3,
            statement=r"""
A sequence has `keys` tokens. The last `queries` of them are new, and only these have queries; the others, if any, are in the cache.
Return the boolean mask, `[queries, keys]`, that is true where a query may look: at every token that is not after it.
""",
            hint=r"""
At which position in the sequence does query 0 stand?
Check your mask on one query and three keys.
""",
            cases=((1, 1), (2, 2), (1, 3), (2, 5), (3, 4)),
            solution=causal,
            misconceptions=(
                Misconception(
                    "Mask aligned at the first key",
                    "The new queries come after everything in the cache: the last query "
                    "stands at the last key.",
                    lambda queries, keys: _diagonal(queries, keys, 0),
                ),
                Misconception(
                    "A token that does not see itself",
                    "A query may look at its own key. Otherwise the first token of "
                    "all could look at nothing.",
                    lambda queries, keys: _diagonal(queries, keys, keys - queries - 1),
                ),
                Misconception(
                    "A token that sees the next one",
                    "Your mask allows one key too many, and the model could read the "
                    "token that it should predict.",
                    lambda queries, keys: _diagonal(queries, keys, keys - queries + 1),
                ),
                Misconception(
                    "Past and future swapped",
                    "True marks the keys at which the query may look: its own and the "
                    "earlier ones.",
                    lambda queries, keys: ~causal(queries, keys),
                ),
                Misconception(
                    "Everything visible",
                    "Your mask is right for a single new token. Of several new tokens "
                    "the earlier ones must not see the later ones.",
                    lambda queries, keys: np.ones((queries, keys), dtype=bool),
                ),
                Misconception(
                    "Cache hidden",
                    "The new tokens may look at everything in the cache, not just at "
                    "themselves.",
                    lambda queries, keys: (
                        causal(queries, keys) & (np.arange(keys) >= keys - queries)
                    ),
                ),
                Misconception(
                    "Mask of the new tokens, stretched",
                    "Only the last `queries` columns belong to new tokens. The "
                    "columns before them are in the cache, and all of them are "
                    "visible.",
                    lambda queries, keys: (
                        np.arange(keys)
                        <= keys // queries * (np.arange(queries)[:, None] + 1) - 1
                    ),
                ),
                Misconception(
                    "New tokens before the cache",
                    "Tokens in the cache are the earlier ones, so their columns come "
                    "first.",
                    lambda queries, keys: np.hstack(
                        (
                            _diagonal(queries, queries, 0),
                            np.ones((queries, keys - queries), dtype=bool),
                        )
                    ),
                ),
                Misconception(
                    "Queries in reverse order",
                    "The last row belongs to the newest token, which sees most.",
                    lambda queries, keys: causal(queries, keys)[::-1],
                ),
                Misconception(
                    "Keys in reverse order",
                    "Column 0 is the oldest key, which every query sees.",
                    lambda queries, keys: causal(queries, keys)[:, ::-1],
                ),
                Misconception(
                    "Later keys visible, not earlier ones",
                    "Your mask shows the query its own key and all later ones. The "
                    "later ones must be hidden.",
                    lambda queries, keys: ~_diagonal(queries, keys, keys - queries - 1),
                ),
                Misconception(
                    "Later keys visible, counted from the first key",
                    "The new queries come after everything in the cache, and the keys "
                    "after them must be hidden.",
                    lambda queries, keys: ~_diagonal(queries, keys, -1),
                ),
                Misconception(
                    "New tokens that do not see each other",
                    "A token sees every earlier one, cached or new.",
                    lambda queries, keys: np.hstack(
                        (
                            np.ones((queries, keys - queries), dtype=bool),
                            np.eye(queries, dtype=bool),
                        )
                    ),
                ),
            ),
            properties=(
                Property(
                    "The last query sees every key",
                    lambda answer, queries, keys: bool(answer(queries, keys)[-1].all()),
                ),
            ),
            explanation=r"""
Query $r$ of the new ones stands at position $\text{keys} - \text{queries} + r$ and sees the keys up to this position, so the mask is aligned at the last query and the last key.
An offset of 0 in place of $\text{keys} - \text{queries}$ aligns it at the first query and the first key, as PyTorch's `is_causal=True` does; both agree only where nothing is cached.
The same tokens without a cache have the same rows in their square mask, so a cache changes no output.
""",
        ),
        Exercise(
            name="permutation-equivariance-6",
            title="The key heads of grouped queries",
            kind="PyTorch",
            minutes=5,
            lines=2,
            statement=r"""
In grouped-query attention `k` is `[batch, kv_heads, tokens, d]` and there are more query heads than key heads.
Neighboring query heads share: with 6 query heads and 2 key heads, heads 0, 1, 2 use key head 0.
Return the keys that each query head sees, `[batch, heads, tokens, d]`.
""",
            hint=r"""
`Tensor.repeat` and `Tensor.repeat_interleave` both give the right shape; try them on `torch.tensor([0, 1])`.
""",
            cases=(
                (torch.tensor([3.0, 5.0]).reshape(1, 2, 1, 1), 2),
                (torch.tensor([3.0, 5.0]).reshape(1, 2, 1, 1), 4),
                (torch.arange(24.0).reshape(2, 2, 3, 2), 6),
                (torch.arange(3.0).reshape(1, 3, 1, 1), 12),
                (torch.arange(2, dtype=torch.float64).reshape(1, 2, 1, 1), 4),
            ),
            solution=share,
            misconceptions=(
                Misconception(
                    "Heads tiled",
                    "Neighboring query heads share a key head; yours alternate. Both "
                    "have the right shape, so there is no error.",
                    lambda k, heads: k.repeat(1, heads // k.shape[1], 1, 1),
                ),
                Misconception(
                    "Multi-query attention",
                    "All your query heads have the first key head. Each group has its "
                    "own.",
                    lambda k, heads: k[:, :1].repeat(1, heads, 1, 1),
                ),
                Misconception(
                    "Tokens repeated, not heads",
                    "Your shape is right only because of the reshape. Look at which "
                    "axis grows.",
                    lambda k, heads: k.repeat_interleave(
                        heads // k.shape[1], 2
                    ).reshape(k.shape[0], heads, *k.shape[2:]),
                ),
                Misconception(
                    "Groups in reverse order",
                    "Query head 0 belongs to key head 0.",
                    lambda k, heads: share(k, heads).flip(1),
                ),
                Misconception(
                    "The last key head for all query heads",
                    "Each group has its own.",
                    lambda k, heads: k[:, -1:].repeat(1, heads, 1, 1),
                ),
                Misconception(
                    "Heads spread evenly from the first to the last",
                    "Rounding gives the first and the last key head fewer queries than "
                    "the others. Groups are equal.",
                    lambda k, heads: k[
                        :, torch.linspace(0, k.shape[1] - 1, heads).round().long()
                    ],
                ),
                Misconception(
                    "Heads spread evenly, and rounded down",
                    "Only your last query head has the last key head. Groups are equal.",
                    lambda k, heads: k[
                        :, torch.linspace(0, k.shape[1] - 1, heads).long()
                    ],
                ),
                Misconception(
                    "Two key heads",
                    "Two is the number of the example. `k` says how many there are.",
                    lambda k, heads: k[:, :2].repeat_interleave(heads // 2, 1),
                ),
                Misconception(
                    "Key head rounded, not rounded down",
                    "Head h of a group of g belongs to ⌊h/g⌋.",
                    lambda k, heads: k[
                        :,
                        (torch.arange(heads) * k.shape[1] / heads)
                        .round()
                        .long()
                        .clamp(max=k.shape[1] - 1),
                    ],
                ),
                Misconception(
                    "Batch repeated, not the heads",
                    "Your shape is right only because of the reshape. Look at which "
                    "axis grows.",
                    lambda k, heads: k.repeat(heads // k.shape[1], 1, 1, 1).reshape(
                        len(k), heads, *k.shape[2:]
                    ),
                ),
            ),
            explanation=r"""
Query head $h$ uses key head $\lfloor h/g \rfloor$, where $g$ is the number of query heads for each key head; for 6 query heads and 2 key heads $g = 3$.
`repeat_interleave` writes each key head $g$ times in a row: heads 0, 0, 0, 1, 1, 1.
`repeat` tiles: heads 0, 1, 0, 1, 0, 1, the same shape, with the wrong key head for heads 1 and 4.
""",
        ),
        Exercise(
            name="permutation-equivariance-7",
            title="A row without allowed keys",
            kind="NumPy",
            minutes=15,
            lines=5,
            statement=r"""
`logits` and `mask` are arrays `[..., queries, keys]`, and each row belongs to one query.
Compute weights from logits, row by row, over the keys where `mask` is true.
Masked keys get weight zero, and a row in which nothing is allowed gets zeros, not NaN.
Logits may have any size and either sign: a thousand must not overflow, and a masked logit, however large, must not matter.
""",
            hint=r"""
Subtract the largest *allowed* logit of the row first, which changes the range and no weight.
What do you subtract in a row without allowed keys, and by what do you divide there?
""",
            cases=(
                (np.array([[0.5, -1.0]]), np.array([[True, True]])),
                (np.array([[0.5, -1.0]]), np.array([[True, False]])),
                (np.array([[0.5, -1.0]]), np.array([[False, False]])),
                (np.array([[999.0, 1000.0, 0.0]]), np.array([[True, True, False]])),
                (np.array([[1000.0, -1000.0]]), np.array([[False, True]])),
                (np.array([[-1000.0, 1000.0]]), np.array([[True, True]])),
                (np.array([[0.0, 1e12]]), np.array([[True, False]])),
                (np.array([[-1e12, 0.0]]), np.array([[True, False]])),
                (np.array([[1000.0, 1000.0], [0.0, 0.0]]), np.full((2, 2), True)),
                (
                    np.array([[1.0, 3.0], [2.0, -1.0], [0.0, 0.5]]),
                    np.array([[True, True], [True, True], [True, False]]),
                ),
                (
                    np.array([[[1.0, 3.0], [0.0, 2.0]], [[5.0, 1.0], [2.0, 4.0]]]),
                    np.array(
                        [[[True, True], [False, True]], [[True, True], [True, True]]]
                    ),
                ),
            ),
            solution=weights,
            misconceptions=(
                Misconception(
                    "0/0 in an empty row",
                    "Where nothing is allowed the sum of the exponentials is 0, and "
                    "the row becomes NaN. By what may it be divided there?",
                    lambda logits, mask: (
                        weights(logits, mask) / mask.any(-1, keepdims=True)
                    ),
                ),
                Misconception(
                    "Logits clipped",
                    "Clipping makes logits of 999 and 1000 equal. Subtracting keeps "
                    "their differences.",
                    lambda logits, mask: weights(np.clip(logits, -500, 500), mask),
                ),
                Misconception(
                    "Even weights for the masked keys of an empty row",
                    "A large negative number in every place is a constant, and "
                    "softmax does not see constants.",
                    lambda logits, mask: _softmax(np.where(mask, logits, -1e9)),
                ),
                Misconception(
                    "Weights that do not sum to one",
                    "Your answer sets masked weights to zero after the division. The "
                    "allowed ones must share all the weight.",
                    lambda logits, mask: _softmax(logits) * mask,
                ),
                Misconception(
                    "Masked keys that still count",
                    "A logit of 0 does not remove a key: its exponential is 1.",
                    lambda logits, mask: _softmax(np.where(mask, logits, 0.0)),
                ),
                Misconception(
                    "Mask read the wrong way round",
                    "In this exercise True means that the query may look.",
                    lambda logits, mask: weights(logits, ~mask),
                ),
                Misconception(
                    "Largest logit subtracted, though it is masked",
                    "A huge masked logit then makes all the allowed ones vanish. The "
                    "largest *allowed* one must become 0.",
                    lambda logits, mask: _divided(_lifted(logits, mask)),
                ),
                Misconception(
                    "Large number subtracted from the masked logits",
                    "A masked logit may be larger still. It must not matter, however "
                    "large it is.",
                    lambda logits, mask: (
                        _softmax(logits - np.where(mask, 0.0, 1e9)) * mask
                    ),
                ),
                Misconception(
                    "A thousand subtracted from the masked logits",
                    "A masked logit may be larger by more. It must not matter, however "
                    "large it is.",
                    lambda logits, mask: (
                        _softmax(logits - np.where(mask, 0.0, 1e3))
                        * mask.any(-1, keepdims=True)
                    ),
                ),
                Misconception(
                    "Large negative number in place of the masked logits",
                    "Allowed logits may be lower still. The exponential of a masked "
                    "logit must be 0, however low the others are.",
                    lambda logits, mask: _softmax(np.where(mask, logits, -1e9)) * mask,
                ),
                Misconception(
                    "Even weights in an empty row",
                    "A row in which nothing is allowed gets zeros.",
                    lambda logits, mask: np.where(
                        mask.any(-1, keepdims=True),
                        weights(logits, mask),
                        1 / logits.shape[-1],
                    ),
                ),
                Misconception(
                    "First allowed logit subtracted",
                    "A logit far above the first still overflows. After the subtraction "
                    "none may be above 0.",
                    lambda logits, mask: _divided(
                        _raised(
                            logits,
                            mask,
                            np.take_along_axis(logits, mask.argmax(-1)[..., None], -1),
                        )
                    ),
                ),
                Misconception(
                    "Mean of the logits subtracted",
                    "A logit far above the mean still overflows. After the subtraction "
                    "none may be above 0.",
                    lambda logits, mask: _divided(
                        _raised(
                            logits,
                            mask,
                            np.where(mask, logits, 0.0).mean(-1, keepdims=True),
                        )
                    ),
                ),
                Misconception(
                    "Largest logit taken to be positive",
                    "If all allowed logits are far below 0, so is the largest. Your "
                    "exponentials all vanish there.",
                    lambda logits, mask: _divided(
                        _raised(logits, mask, np.maximum(_top(logits, mask), 0.0))
                    ),
                ),
                Misconception(
                    "One sum for all rows",
                    "Each row has weights of its own that sum to 1: the sum runs over the "
                    "keys, along the last axis.",
                    lambda logits, mask: _divided(_below_all(logits, mask), axis=None),
                ),
                Misconception(
                    "Sum over the queries",
                    "A query shares its weight among keys, along the last axis.",
                    lambda logits, mask: weights(
                        logits.swapaxes(-1, -2), mask.swapaxes(-1, -2)
                    ).swapaxes(-1, -2),
                ),
                Misconception(
                    "Logits not exponentiated",
                    "Weights are exponentials divided by their sum.",
                    lambda logits, mask: _divided(np.where(mask, logits, 0.0)),
                ),
                Misconception(
                    "Sign of the logits reversed",
                    "The largest logit gets the most weight.",
                    lambda logits, mask: weights(-logits, mask),
                ),
                Misconception(
                    "Weights not divided by their sum",
                    "Each row in which something is allowed sums to 1.",
                    lambda logits, mask: np.exp(
                        np.where(mask, logits - _top(logits, mask), -np.inf)
                    ),
                ),
                Misconception(
                    "Mask not used",
                    "Masked keys get weight zero and share nothing.",
                    lambda logits, mask: _softmax(logits),
                ),
                Misconception(
                    "Equal weights for all allowed keys",
                    "Your weights do not depend on the logits.",
                    lambda logits, mask: _divided(mask.astype(float)),
                ),
                Misconception(
                    "Largest allowed logit of all rows subtracted",
                    "A row of smaller logits then vanishes. Each row has a largest "
                    "logit of its own.",
                    lambda logits, mask: _divided(_below_all(logits, mask)),
                ),
            ),
            properties=(
                Property(
                    "Each row sums to 1, or to 0 where nothing is allowed",
                    lambda answer, logits, mask: np.allclose(
                        answer(logits, mask).sum(-1), mask.any(-1), rtol=0, atol=1e-9
                    ),
                ),
            ),
            explanation=r"""
A number subtracted from a whole row changes no weight, by {prf:ref}`the theorem on row constants <thm-row-constant>`, so the largest allowed logit may be subtracted: then the largest exponential is 1, and none overflows.
Masked logits become $-\infty$ before the maximum is taken, so their exponentials are 0 and they have no say in what is subtracted.
In a row without allowed keys the maximum is $-\infty$ and the sum is 0: subtract 0 and divide by 1 there, and the row is zeros, as {prf:ref}`the definition of softmax <dfn-softmax>` says.
""",
        ),
        Exercise(
            name="permutation-equivariance-8",
            title="How far can 1/(t + 1) count?",
            kind="experiment",
            minutes=15,
            lines=3,
            statement=r"""
A causal layer without any encoding can write $1/(t + 1)$ at position $t$, counting from a beginning token at $t = 0$.
Store these numbers in `dtype`, computing them in float64 first.
Up to which position $T$ are the stored values of positions $0, 1, \dots, T$ all different?
Return $T$ for any 16-bit floating dtype.
""",
            hint=r"""
The values fall, so the first two that are equal stand next to each other. 4096 positions are enough.
""",
            cases=((torch.bfloat16,), (torch.float16,)),
            solution=furthest,
            misconceptions=(
                Misconception(
                    "Number of positions in place of the last one",
                    "Positions count from zero.",
                    lambda dtype: furthest(dtype) + 1,
                ),
                Misconception(
                    "Range of the exact integers",
                    "The stored number is the reciprocal, whose neighbors come closer "
                    "like 1/t². Try it.",
                    lambda dtype: round(2 / torch.finfo(dtype).eps),
                ),
                Misconception(
                    "Numbers t + 1 stored, not their reciprocals",
                    "Whole numbers collide where their spacing is 2. The stored "
                    "number is 1/(t + 1), whose neighbors come closer like 1/t².",
                    lambda dtype: round(2 / torch.finfo(dtype).eps) - 1,
                ),
                Misconception(
                    "Spacing at 1",
                    "1/eps is only the order of magnitude. Between two powers of two "
                    "the spacing stays the same while the steps of 1/(t + 1) shrink.",
                    lambda dtype: round(1 / torch.finfo(dtype).eps),
                ),
                Misconception(
                    "All different values counted, less one",
                    "Some later values differ again. The question is where the first "
                    "two are equal.",
                    lambda dtype: len(_reciprocals(dtype).unique()) - 1,
                ),
                Misconception(
                    "One too few",
                    "T is the first of the two equal neighbors, since it differs from "
                    "all positions before it. The values begin with 1, at t = 0.",
                    lambda dtype: furthest(dtype) - 1,
                ),
                Misconception(
                    "All different values counted",
                    "Some later values differ again. And a position is asked for, not "
                    "a number of positions.",
                    lambda dtype: len(_reciprocals(dtype).unique()),
                ),
                Misconception(
                    "Last position that differs from its neighbor",
                    "The first two equal neighbors end the range, whatever comes "
                    "later.",
                    lambda dtype: int((_reciprocals(dtype).diff() != 0).nonzero()[-1]),
                ),
                Misconception(
                    "Rounding step taken to be the same everywhere",
                    "eps is the spacing at 1. Smaller numbers are closer together.",
                    lambda dtype: next(
                        t
                        for t in range(4096)
                        if 1 / (t + 1) - 1 / (t + 2) <= torch.finfo(dtype).eps
                    ),
                ),
            ),
            level="optional",
            explanation=r"""
$T$ is 189 in `bfloat16` and 1463 in `float16`: there $1/(T + 1)$ and $1/(T + 2)$ are rounded to the same number.
Neighboring values differ by about $1/(t + 1)^2$, while between $2^{-8}$ and $2^{-7}$ the numbers of `bfloat16` are $2^{-15}$ apart; the differences fall below this spacing at $t + 1 = 2^{7.5} \approx 181$.
For `float16`, with three more significant bits, this happens at $2^{10.5} \approx 1448$.
In exact numbers the layer that writes $1/(t + 1)$ gives each position a value of its own, whatever the length; in `bfloat16` it does so for 190 tokens.
""",
            prediction=Prediction(
                "What is $T$ for `bfloat16`?",
                lambda: furthest(torch.bfloat16),
                near=0.1,
            ),
        ),
        VANISHED,
        TILED,
    ),
)
