"""Exercises on relative position vectors: Shaw, Music Transformer, Inkling."""

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

# relative-vectors-1: the row of a pair


def row(i, j, k):
    """Return which row of Shaw's key table query i reads for key j: an integer.

    ``k`` is the largest offset that has a row of its own.
    """
    return k + max(-k, min(k, j - i))


ROW = Exercise(
    name="relative-vectors-1",
    title="The row of a pair",
    kind="by hand",
    minutes=4,
    lines=1,
    statement=r"""
Shaw's key table has $2k + 1$ rows, from the farthest past to the farthest future.
Which row does the query at $i$ read for the key at $j$?
Rows count from 0.
""",
    hint=r"""
Which row belongs to the query's own position?
In which direction from there is the row of the next key?
""",
    cases=(
        (0, 0, 2),
        (3, 2, 2),
        (3, 4, 2),
        (5, 3, 2),
        (9, 3, 2),
        (1, 7, 2),
        (8, 0, 4),
        (4, 4, 0),
    ),
    solution=row,
    misconceptions=(
        Misconception(
            "Past and future exchanged",
            "The rows are ordered by j − i: the first belongs to keys far before the "
            "query.",
            lambda i, j, k: k + max(-k, min(k, i - j)),
        ),
        Misconception(
            "Offset not clipped",
            "There are 2k + 1 rows and no more. All farther keys share the last row on "
            "their side.",
            lambda i, j, k: k + j - i,
        ),
        Misconception(
            "Offset in place of its row",
            "Row 0 is the farthest past. A negative index would read the table from "
            "its end.",
            lambda i, j, k: max(-k, min(k, j - i)),
        ),
        Misconception(
            "k − 1 inside the clip",
            "Some lecture notes print k − 1. Then every pair has the same row: where "
            "are i and j?",
            lambda i, j, k: k + max(-k, min(k, k - 1)),
        ),
        Misconception(
            "Clip one too early",
            "There are k rows on each side, the last of them shared with all farther "
            "keys.",
            lambda i, j, k: k + max(1 - k, min(k - 1, j - i)) if k else 0,
        ),
        Misconception(
            "Clip one too late",
            "The table has the rows 0 to 2k. The last is that of k and all farther "
            "keys.",
            lambda i, j, k: k + max(-k, min(k + 1, j - i)),
        ),
        Misconception(
            "Distances without a sign",
            "A key before the query and one after it have different vectors.",
            lambda i, j, k: k + min(k, abs(j - i)),
        ),
        Misconception(
            "Past not clipped",
            "Far keys before the query share a row as well.",
            lambda i, j, k: k + min(k, j - i),
        ),
        Misconception(
            "Future not clipped",
            "Far keys after the query share a row as well.",
            lambda i, j, k: k + max(-k, j - i),
        ),
        Misconception(
            "Rows counted from 1",
            "Rows count from 0, and your first row is 1.",
            lambda i, j, k: k + 1 + max(-k, min(k, j - i)),
        ),
        Misconception(
            "Offset taken modulo the table's length",
            "Farther keys share the last row. They don't begin again.",
            lambda i, j, k: (k + j - i) % (2 * k + 1),
        ),
        Misconception(
            "Far keys with the query's own row",
            "Keys beyond the table share the last row on their side.",
            lambda i, j, k: k + j - i if abs(j - i) <= k else k,
        ),
        Misconception(
            "Only the key's position",
            "A relative vector belongs to the difference of both positions.",
            lambda i, j, k: min(2 * k, j),
        ),
        Misconception(
            "Limits of ±(k − 1)",
            "The last row on each side is that of the offset k, which all farther keys share.",
            lambda i, j, k: k + max(1 - k, min(k - 1, j - i)),
        ),
        Misconception(
            "Row clipped to k",
            "The rows go from 0 to 2k. The upper limit is 2k.",
            lambda i, j, k: max(0, min(k, j - i + k)),
        ),
        Misconception(
            "Last row never read",
            "2k + 1 rows counted from 0 end with row 2k.",
            lambda i, j, k: max(0, min(2 * k - 1, j - i + k)),
        ),
        Misconception(
            "Far future with the row of the far past",
            "Keys far after the query have a row of their own, the last.",
            lambda i, j, k: k + j - i if abs(j - i) <= k else 0,
        ),
    ),
    properties=(
        Property(
            "A shift of both positions changes nothing",
            lambda answer, i, j, k: answer(i + 5, j + 5, k) == answer(i, j, k),
        ),
    ),
    explanation=r"""
Rows are ordered by $j - i$, from $-k$ to $k$, so the row of the query's own position is $k$, and the next key has row $k + 1$.
The offset is clipped first: the row is $k + \max(-k, \min(k, j - i))$, {prf:ref}`the clipped offset <def-shaw-row-box>` in the papers' order.
All keys at distance $k$ or more on one side read the same row, the first or the last.
""",
)


# relative-vectors-2: a table with nothing beyond


def unclipped(w):
    """Return a key table ``[k, d]`` equivalent to w that gives far keys no vector.

    The two tables lead to equal attention weights. With ``w``, ``[k + 1, d]``, keys
    farther than the offset k get the first row.
    """
    return w[1:, :] - sp.ones(w.rows - 1, 1) * w[0, :]


_W = sp.Matrix(4, 2, sp.symbols("w:8", real=True))

GAUGE = Exercise(
    name="relative-vectors-2",
    title="A table with nothing beyond",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
`w`, a SymPy matrix, is the key table `[k + 1, d]` of a decoder: the vectors of the offsets $k, \dots, 1, 0$ in this order, and keys beyond $k$ get the first row.
Which table of the offsets $k - 1, \dots, 0$ gives the same weights if keys beyond it get *nothing*?
""",
    hint=r"""
What may you add to every row without changing a weight?
What must the farthest row become?
""",
    cases=(
        (sp.Matrix([[1], [3]]),),
        (sp.Matrix([[1, 2], [3, 5], [7, 0]]),),
        (_W,),
    ),
    solution=unclipped,
    misconceptions=(
        Misconception(
            "Far vector dropped",
            "Keys beyond the table had its product with the query, and now have 0. The "
            "other keys must change by the same amount.",
            lambda w: w[1:, :],
        ),
        Misconception(
            "Nearest row moved to 0",
            "Keys *beyond* the table get nothing, and the first row is theirs.",
            lambda w: w[:-1, :] - sp.ones(w.rows - 1, 1) * w[-1, :],
        ),
        Misconception(
            "Far vector added",
            "What must be added to the far row so that it becomes 0?",
            lambda w: w[1:, :] + sp.ones(w.rows - 1, 1) * w[0, :],
        ),
        Misconception(
            "Sign reversed",
            "Subtract the same vector from all rows. No row changes its sign.",
            lambda w: sp.ones(w.rows - 1, 1) * w[0, :] - w[1:, :],
        ),
        Misconception(
            "Neighboring rows subtracted",
            "Subtract the same vector from every row.",
            lambda w: w[1:, :] - w[:-1, :],
        ),
        Misconception(
            "Mean moved to 0",
            "Any common vector may be subtracted, but only one makes the far row 0.",
            lambda w: (
                w[1:, :] - sp.ones(w.rows - 1, 1) * (sp.ones(1, w.rows) * w) / w.rows
            ),
        ),
        Misconception(
            "Nearest row dropped in place of the far one",
            "The offsets k − 1, …, 0 are the rows from the second on.",
            lambda w: w[:-1, :] - sp.ones(w.rows - 1, 1) * w[0, :],
        ),
        Misconception(
            "Near vector subtracted",
            "Keys beyond the table have the *first* row's vector.",
            lambda w: w[1:, :] - sp.ones(w.rows - 1, 1) * w[-1, :],
        ),
        Misconception(
            "Order reversed",
            "The farthest offset comes first in both tables.",
            lambda w: unclipped(w)[::-1, :],
        ),
        Misconception(
            "Rows divided",
            "The softmax ignores a number that is *added* to a row of logits.",
            lambda w: sp.Matrix(w.rows - 1, w.cols, lambda r, c: w[r + 1, c] / w[0, c]),
        ),
        Misconception(
            "Second row moved to 0",
            "The row that must become 0 is that of the far keys, the first.",
            lambda w: w[1:, :] - sp.ones(w.rows - 1, 1) * w[1, :],
        ),
    ),
    properties=(
        Property(
            "A common vector in all rows is invisible",
            lambda answer, w: answer(w + sp.ones(*w.shape)) == answer(w),
        ),
    ),
    explanation=r"""
The same vector $u$ may be added to every row: all logits of query $i$ then change by $q_i^\top u/\sqrt d$, and no weight changes, by {prf:ref}`the theorem on gauge freedom <thm-relative-vectors-gauge>`.
The first row, that of all far keys, must become zero, so $u$ is minus this row; the other rows become $w_r$ minus the first row.
By {prf:ref}`the theorem on zeros beyond the table <thm-relative-vectors-clip>` a table with nothing beyond its end is therefore a clipped table with one more row.
""",
)


# relative-vectors-3: skewing


def by_key(products):
    """Reorder products ``[query, offset]`` by key: ``[query, key]``, both ``[L, L]``.

    The products are those of a query with the vectors of all offsets, the largest
    offset L − 1 first. Entries above the diagonal are 0.
    """
    n = len(products)
    padded = np.concatenate((np.zeros((n, 1)), products), axis=1)
    return np.tril(padded.reshape(n + 1, n)[1:])


def _skewed(padded, first):
    n = min(padded.shape)
    return padded.reshape(n + 1, n)[first : n + first]


def _behind(products):
    return np.concatenate((products, np.zeros((len(products), 1))), axis=1)


def _front(products):
    return np.concatenate((np.zeros((len(products), 1)), products), axis=1)


def _by_rolls(products, sign):
    n = len(products)
    rows = [np.roll(r, sign * (n - 1 - i)) for i, r in enumerate(products)]
    return np.tril(np.stack(rows))


SKEW = Exercise(
    name="relative-vectors-3",
    title="Skewing",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
`products[i, c]` is the product of query $i$ with the vector of offset $L - 1 - c$, `[L, L]`.
Return `[L, L]` by query and key: the product of $i - j$ for $j \le i$, and 0 above the diagonal.
No loop over tokens is needed.
""",
    hint=r"""
A column of zeros in front, rows of another length, one row less.
What stands above the diagonal then?
""",
    cases=(
        (np.array([[1.0, 2.0], [3.0, 4.0]]),),
        (np.arange(1.0, 10).reshape(3, 3),),
        (draw(7, 7),),
        (np.array([[5.0]]),),
    ),
    solution=by_key,
    misconceptions=(
        Misconception(
            "No zeros above the diagonal",
            "Skewing leaves a zero and then numbers of the next query above the "
            "diagonal. A causal mask would hide them. Here, set them to 0.",
            lambda t: _skewed(_front(t), 1),
        ),
        Misconception(
            "Zeros behind the rows",
            "The column of zeros comes in front, so that each row begins one later "
            "than the row before.",
            lambda t: np.tril(_skewed(_behind(t), 1)),
        ),
        Misconception(
            "Last row dropped",
            "Drop the first row: it holds only the numbers in front of query 0.",
            lambda t: np.tril(_skewed(_front(t), 0)),
        ),
        Misconception(
            "Nearest offset taken for the first",
            "Column 0 is the farthest, L − 1.",
            lambda t: by_key(t[:, ::-1]),
        ),
        Misconception(
            "Columns left in place",
            "A column is an offset, not a key: it belongs to another key in each row.",
            np.tril,
        ),
        Misconception(
            "Rows moved in the other direction",
            "In the last query's row columns are keys already. In the first query's "
            "row the last column is key 0.",
            lambda t: _by_rolls(t, 1),
        ),
        Misconception(
            "Query and key axes exchanged",
            "Row i holds the products of query i. Your answer is transposed.",
            lambda t: by_key(t).T,
        ),
        Misconception(
            "Diagonal missing",
            "Offset 0 is a query and its own key, which is not masked.",
            lambda t: np.tril(by_key(t), -1),
        ),
        Misconception(
            "Offsets one too large",
            "The last column is offset 0.",
            lambda t: by_key(np.roll(t, -1, axis=1)),
        ),
        Misconception(
            "Both sides of the diagonal filled",
            "A decoder's table has no offsets below 0.",
            lambda t: by_key(t) + np.tril(by_key(t), -1).T,
        ),
        Misconception(
            "Later keys masked",
            "Above the diagonal 0 is asked for. The −∞ is the work of the mask, which comes later.",
            lambda t: np.where(np.tri(len(t), dtype=bool), by_key(t), -np.inf),
        ),
        Misconception(
            "Wrong triangle",
            "Keys up to the query are on the diagonal and *below* it.",
            lambda t: np.triu(_skewed(_front(t), 1)),
        ),
        Misconception(
            "Offsets one too small",
            "Column c is the offset L − 1 − c. Which column is offset 0?",
            lambda t: by_key(np.roll(t, 1, axis=1)),
        ),
        Misconception(
            "Rows rolled by i",
            "Query 0 needs its last column, offset 0, at key 0, so its row is moved already, and the last query's is not.",
            lambda t: np.stack([np.roll(r, i) for i, r in enumerate(t)]),
        ),
        Misconception(
            "Query taken from the key",
            "The products of query i are in row i, for every key.",
            lambda t: np.tril(
                np.stack([np.diag(np.roll(t, i + 1, axis=1)) for i in range(len(t))])
            ),
        ),
    ),
    properties=(
        Property(
            "All entries on a diagonal belong to one offset",
            lambda answer, t: (
                np.ptp(
                    np.diag(answer(np.tile(np.arange(len(t), 0.0, -1), (len(t), 1))))
                )
                == 0
            ),
        ),
    ),
    explanation=r"""
With a zero in front, each row has $L + 1$ numbers; read in rows of $L$, each query's numbers begin one place later than the query's before, and after the first row is dropped the product of offset $i - j$ stands in column $j$.
Above the diagonal stand a zero and then numbers of the next query, by {prf:ref}`the theorem on the entries after skewing <thm-relative-vectors-skew>`, and `np.tril` sets them to 0.
The only work is a copy of $L^2$ numbers; as a strided view it needs none.
""",
)


# relative-vectors-4: weights by row


def relative_values(weights, table):
    """Return each query's weighted sum of relative value vectors, ``[L, d]``.

    ``weights`` are attention weights, ``[L, L]``; the rows of ``table``,
    ``[2k + 1, d]``, are Shaw's value vectors by clipped offset j − i.
    """
    n, k = len(weights), len(table) // 2
    i, j = np.indices((n, n))
    row = k + np.clip(j - i, -k, k)
    by_row = np.stack([(weights * (row == r)).sum(1) for r in range(2 * k + 1)], 1)
    return by_row @ table


def _weights(*shape):
    e = np.exp(draw(*shape))
    return e / e.sum(1, keepdims=True)


def _with_rows(choose):
    """Make a wrong answer (a function) to the exercise ``relative_values``.

    The exercise asks for weighted sums of Shaw's value vectors. In the wrong answer,
    ``choose(i, j, k, n)`` is the row of the table for query i and key j of n tokens, in
    place of k plus the offset j − i clipped to ±k; None stands for no row.
    """

    def answer(weights, table):
        n, k = len(weights), len(table) // 2
        out = np.zeros((n, table.shape[1]))
        for i in range(n):
            for j in range(n):
                r = choose(i, j, k, n)
                out[i] += weights[i, j] * (0 if r is None else table[r])
        return out

    return answer


def _clip(t, k):
    return max(-k, min(k, t))


VALUES = Exercise(
    name="relative-vectors-4",
    title="Weights by row",
    kind="NumPy",
    minutes=12,
    lines=5,
    statement=r"""
`weights` are a head's attention weights, `[L, L]`, and `table` holds Shaw's value vectors, `[2k + 1, d]`, from the farthest past on.
Return what they add to the outputs, $\sum_j A_{ij}\, w^V_{c(i-j)}$, `[L, d]`.
An array with a vector for each query and key is not needed.
""",
    hint=r"""
First sum the weights of each query over the keys that have the same row.
What do you multiply the sums by?
""",
    cases=(
        (np.array([[1.0, 0.0], [0.25, 0.75]]), np.array([[1.0], [10.0], [100.0]])),
        (_weights(6, 6), draw(5, 3)),
        (_weights(9, 9), draw(3, 4)),
        (_weights(3, 3), draw(9, 2)),
        (_weights(4, 4), draw(1, 2)),
    ),
    solution=relative_values,
    misconceptions=(
        Misconception(
            "Past and future exchanged",
            "The table begins with the farthest past: its rows are ordered by j − i.",
            _with_rows(lambda i, j, k, n: k + _clip(i - j, k)),
        ),
        Misconception(
            "Nothing for far keys",
            "Shaw's table is clipped: keys beyond k have the last vector on their "
            "side.",
            _with_rows(lambda i, j, k, n: k + j - i if abs(j - i) <= k else None),
        ),
        Misconception(
            "Distances without a sign",
            "A key before the query and one after it have different vectors.",
            _with_rows(lambda i, j, k, n: k + min(k, abs(j - i))),
        ),
        Misconception(
            "The query's own vector for every key",
            "Weights sum to 1, so your answer is the middle row, whatever the weights "
            "are.",
            _with_rows(lambda i, j, k, n: k),
        ),
        Misconception(
            "Weights transposed",
            "Row i holds the weights of query i, and its sum is over keys.",
            lambda weights, table: relative_values(weights.T, table),
        ),
        Misconception(
            "Clip one too early",
            "There are k rows on each side of the query's own row.",
            _with_rows(lambda i, j, k, n: k + _clip(j - i, max(k - 1, 0))),
        ),
        Misconception(
            "Only keys up to the query",
            "There may be weight on later keys as well.",
            _with_rows(lambda i, j, k, n: k + _clip(j - i, k) if j <= i else None),
        ),
        Misconception(
            "Vectors averaged over the keys",
            "The sum over keys uses the attention weights, not equal weights.",
            lambda weights, table: relative_values(
                np.full_like(weights, 1 / len(weights)), table
            ),
        ),
        Misconception(
            "Only the key's position",
            "A relative vector belongs to the difference of both positions.",
            _with_rows(lambda i, j, k, n: min(2 * k, j)),
        ),
        Misconception(
            "Offset taken modulo the table's length",
            "A negative index reads the table from its end. Clip first.",
            _with_rows(lambda i, j, k, n: (k + j - i) % (2 * k + 1)),
        ),
        Misconception(
            "Offset in place of its row",
            "A negative index reads the table from its end. Row 0 is the farthest past.",
            _with_rows(lambda i, j, k, n: _clip(j - i, k)),
        ),
        Misconception(
            "k taken for the table's length",
            "The table has 2k + 1 rows, so k is half of its length, rounded down.",
            _with_rows(lambda i, j, k, n: _clip(j - i, 2 * k)),
        ),
        Misconception(
            "Softmax taken again",
            "`weights` are weights already: their rows sum to 1.",
            lambda weights, table: relative_values(
                np.exp(weights) / np.exp(weights).sum(1, keepdims=True), table
            ),
        ),
        Misconception(
            "Later keys with the query's own vector",
            "The table has rows for keys after the query as well.",
            _with_rows(lambda i, j, k, n: k - min(k, max(0, i - j))),
        ),
    ),
    properties=(
        Property(
            "A common vector in all rows is added to every output",
            lambda answer, weights, table: np.allclose(
                answer(weights, table + 1) - answer(weights, table), 1
            ),
        ),
    ),
    explanation=r"""
All keys of a query with the same row are multiplied by the same vector, so their weights may be added first: $m_{ir}$ is the sum of query $i$'s weights over the keys of row $r$, and the result is $\sum_r m_{ir}\, w_r$, one matrix product.
This is the second equation of {prf:ref}`the theorem on one product for each query and row <thm-relative-vectors-rows>`.
It needs $L (2k + 1)$ numbers in place of $L^2 d$.
""",
)


# relative-vectors-5: relative logits


def relative_logits(x, weight, basis):
    """Return Inkling's relative logits of hidden states x, ``[heads, L, L]``.

    ``x`` is ``[L, d_model]``; ``weight`` projects a hidden state to a vector for each
    head. Column t of ``basis``, ``[d_rel, distances]``, belongs to distance t.
    """
    n, (d_rel, table_length) = len(x), basis.shape
    r = (x @ weight.T).unflatten(-1, (-1, d_rel)).transpose(0, 1)
    at = torch.arange(n)
    distance = at[:, None] - at
    near = (distance >= 0) & (distance < table_length)
    column = distance.clamp(0, table_length - 1).expand(len(r), n, n)
    return (r @ basis).gather(-1, column) * near


def _logits_case(n, d_model, heads, d_rel, table_length):
    return tuple(
        torch.tensor(draw(*shape))
        for shape in ((n, d_model), (heads * d_rel, d_model), (d_rel, table_length))
    )


def _distances(n):
    at = torch.arange(n)
    return at[:, None] - at


def _gathered_logits(r, basis, distance, near):
    table_length = basis.shape[1]
    column = distance.clamp(0, table_length - 1).expand(len(r), *distance.shape)
    return (r @ basis).gather(-1, column) * near


def _projected(x, weight, basis):
    return (x @ weight.T).unflatten(-1, (-1, len(basis))).transpose(0, 1)


def _with_distance(change, near=lambda t, length: (t >= 0) & (t < length)):
    """Make a wrong answer (a function) to the exercise ``relative_logits``.

    The exercise asks for Inkling's relative logits. In the wrong answer, ``change(t,
    length)`` replaces the distance t as the column of the basis that is read, or
    ``near(t, length)`` says at which distances the logits are not 0, right being 0 ≤ t
    < length. ``length`` is the number of distances in the basis.
    """

    def answer(x, weight, basis):
        t = _distances(len(x))
        r = _projected(x, weight, basis)
        return _gathered_logits(
            r, basis, change(t, basis.shape[1]), near(t, basis.shape[1])
        )

    return answer


def _same(t, length):
    return t


def _masked(x, weight, basis, hidden):
    mask = hidden(_distances(len(x)), basis.shape[1])
    return relative_logits(x, weight, basis).masked_fill(mask, -math.inf)


def _tokens_and_heads_mixed(x, weight, basis):
    t = _distances(len(x))
    r = (x @ weight.T).reshape(-1, len(x), len(basis))
    return _gathered_logits(r, basis, t, (t >= 0) & (t < basis.shape[1]))


LOGITS = Exercise(
    name="relative-vectors-5",
    title="Inkling's relative logits",
    kind="PyTorch",
    minutes=12,
    lines=7,
    statement=r"""
`x` is `[L, d_model]`, `weight` is `[heads · d_rel, d_model]`, `basis` is `[d_rel, table_length]`, its column $t$ the distance $t$.
Return $r_i^\top P_{i-j}$ of each head, `[heads, L, L]`, as a tensor: 0 for later keys, and from distance `table_length` on.
""",
    hint=r"""
`unflatten` gives each head its own numbers.
Take a product with the whole basis, then `gather` along the last axis.
""",
    cases=(
        _logits_case(2, 2, 1, 1, 2),
        _logits_case(5, 3, 1, 2, 3),
        _logits_case(6, 8, 2, 3, 4),
        _logits_case(3, 4, 4, 2, 8),
    ),
    solution=relative_logits,
    misconceptions=(
        Misconception(
            "Last number for far keys",
            "Shaw's table is clipped so. Inkling's relative logits are 0 from the "
            "table's length on.",
            _with_distance(_same, lambda t, length: t >= 0),
        ),
        Misconception(
            "Number of distance 0 for later keys",
            "Clamping a negative distance gives 0. Later keys get no term.",
            _with_distance(_same, lambda t, length: t < length),
        ),
        Misconception(
            "Distances without a sign",
            "The basis has only distances into the past. A later key gets 0.",
            _with_distance(lambda t, length: t.abs(), lambda t, e: t.abs() < e),
        ),
        Misconception(
            "Offset with the wrong sign",
            "The distance is query minus key. Your answer looks ahead.",
            _with_distance(
                lambda t, length: -t, lambda t, length: (t <= 0) & (-t < length)
            ),
        ),
        Misconception(
            "Basis read from its far end",
            "Column t is the distance t. Tables for skewing begin with the farthest "
            "distance, this one with the nearest.",
            lambda x, weight, basis: relative_logits(x, weight, basis.flip(-1)),
        ),
        Misconception(
            "r from the keys",
            "r belongs to the query: the query decides how much each distance counts.",
            lambda x, weight, basis: (
                torch.einsum(
                    "hjd,dij->hij",
                    _projected(x, weight, basis),
                    basis[:, _distances(len(x)).clamp(0, basis.shape[1] - 1)],
                )
                * ((_distances(len(x)) >= 0) & (_distances(len(x)) < basis.shape[1]))
            ),
        ),
        Misconception(
            "Axes of heads and d_rel exchanged",
            "The rows of the weight are [heads, d_rel], head by head.",
            lambda x, weight, basis: _gathered_logits(
                (x @ weight.T)
                .unflatten(-1, (len(basis), -1))
                .permute(2, 0, 1)
                .contiguous(),
                basis,
                _distances(len(x)),
                (_distances(len(x)) >= 0) & (_distances(len(x)) < basis.shape[1]),
            ),
        ),
        Misconception(
            "Relative term divided by a root",
            "Only the content products are divided. The relative logits are not.",
            lambda x, weight, basis: (
                relative_logits(x, weight, basis) / len(basis) ** 0.5
                if len(basis) > 1
                else relative_logits(x, weight, basis) / x.shape[1] ** 0.5
            ),
        ),
        Misconception(
            "Table one distance too long",
            "The table has `table_length` columns, so it ends at distance table_length "
            "− 1.",
            _with_distance(_same, lambda t, length: (t >= 0) & (t <= length)),
        ),
        Misconception(
            "Query's own position left out",
            "Distance 0 is the first column.",
            _with_distance(_same, lambda t, length: (t > 0) & (t < length)),
        ),
        Misconception(
            "Distances counted from 1",
            "Column 0 is the query's own position.",
            _with_distance(
                lambda t, length: t - 1, lambda t, length: (t > 0) & (t <= length)
            ),
        ),
        Misconception(
            "Keys without a term masked",
            "Logits of later and of far keys are 0 here. The −∞ for later keys is the work of the mask.",
            lambda x, weight, basis: _masked(
                x, weight, basis, lambda t, length: (t < 0) | (t >= length)
            ),
        ),
        Misconception(
            "Later keys masked",
            "The relative logit of a later key is 0. The −∞ is the work of the mask.",
            lambda x, weight, basis: _masked(x, weight, basis, lambda t, length: t < 0),
        ),
        Misconception(
            "Last distance dropped",
            "The distance table_length − 1 has a column, the last.",
            _with_distance(_same, lambda t, length: (t >= 0) & (t < length - 1)),
        ),
        Misconception(
            "Distance modulo the table's length",
            "From distance `table_length` on the logit is 0. The table does not begin again.",
            _with_distance(lambda t, length: t % length, lambda t, length: t >= 0),
        ),
        Misconception(
            "Distance without a sign, modulo the table's length",
            "Later keys and far keys have the logit 0.",
            _with_distance(
                lambda t, length: t.abs() % length, lambda t, length: t == t
            ),
        ),
        Misconception(
            "Tokens and heads mixed",
            "A reshape to [heads, L, d_rel] takes the numbers of several tokens for one head. Split the last axis first, then move the axis of the heads.",
            _tokens_and_heads_mixed,
        ),
        Misconception(
            "Weight reshaped, not transposed",
            "A reshape keeps the order of the numbers. `weight` must be transposed.",
            lambda x, weight, basis: relative_logits(
                x, weight.reshape(weight.T.shape).T, basis
            ),
        ),
        Misconception(
            "Basis reshaped, not transposed",
            "A reshape keeps the order of the numbers, so it does not exchange the axes of the basis.",
            lambda x, weight, basis: relative_logits(
                x, weight, basis.T.reshape(basis.shape)
            ),
        ),
    ),
    properties=(
        Property(
            "A doubled basis doubles the logits",
            lambda answer, x, weight, basis: torch.allclose(
                answer(x, weight, 2 * basis), 2 * answer(x, weight, basis)
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The product of $r_i$ with the whole basis has a number for each query and distance; `gather` takes the number of $i - j$ for each key.
Indices outside the table are clamped, so that `gather` reads some number there, and the mask `near` sets these numbers to 0: later keys have a negative distance, far keys one from `table_length` on.
By {prf:ref}`the definition of Inkling's relative logits <def-inkling-box>` this term, unlike $q_i^\top k_j$, is not divided by anything.
""",
)


# relative-vectors-6: relays


def relay_share(tokens, k, layers, logit):
    """Return the share of an early token in the last output after all layers, a float.

    Of the ``tokens`` tokens, the early token is layers · (k − 1) positions before the
    last. Each layer has the logit ``logit`` at the offset k − 1 and 0 at all others.
    """
    i, j = np.indices((tokens, tokens))
    e = np.tril(np.exp(np.where(i - j == k - 1, logit, 0.0)))
    weights = e / e.sum(axis=1, keepdims=True)
    return float(np.linalg.matrix_power(weights, layers)[-1, -1 - layers * (k - 1)])


def _relay(at=lambda k: k - 1, back=None, causal=True, power=np.linalg.matrix_power):
    """Make a wrong answer (a function) to the exercise ``relay_share``.

    The exercise asks for the share of an early token in the last output. Some steps of
    the answer can be wrong; with the defaults all are right. ``at(k)`` is the offset
    with the raised logit, ``back(k, layers)`` is how far back the early token is (None:
    layers · (k − 1)), without ``causal`` later keys count, and ``power`` replaces the
    matrix power.
    """

    def answer(tokens, k, layers, logit):
        i, j = np.indices((tokens, tokens))
        e = np.exp(np.where(at(k) == i - j, logit, 0.0))
        e = np.tril(e) if causal else e
        weights = e / e.sum(axis=1, keepdims=True)
        steps = layers * (k - 1) if back is None else back(k, layers)
        return float(power(weights, layers)[-1, -1 - steps])

    return answer


def _exponentials(tokens, k, logit, raised=np.equal):
    i, j = np.indices((tokens, tokens))
    return np.tril(np.exp(np.where(raised(i - j, k - 1), logit, 0.0)))


def _straight_path(tokens, k, layers, logit):
    e = _exponentials(tokens, k, logit)
    rows = tokens - 1 - (k - 1) * np.arange(layers)
    return float((e / e.sum(1, keepdims=True))[rows, rows - k + 1].prod())


def _softmax_over_queries(tokens, k, layers, logit):
    e = _exponentials(tokens, k, logit)
    power = np.linalg.matrix_power(e / e.sum(0), layers)
    return float(power[-1, -1 - layers * (k - 1)])


def _far_offsets_raised(tokens, k, layers, logit):
    e = _exponentials(tokens, k, logit, np.greater_equal)
    power = np.linalg.matrix_power(e / e.sum(1, keepdims=True), layers)
    return float(power[-1, -1 - layers * (k - 1)])


RELAY = Exercise(
    name="relative-vectors-6",
    title="Relays",
    kind="experiment",
    minutes=12,
    lines=4,
    statement=r"""
Each of `layers` layers of a decoder has the logit `logit` at the offset $k - 1$, the last that has a row of its own, and 0 elsewhere.
Each layer passes on its attention output alone, without a residual.
After $l$ = `layers` layers, which share does the last of `tokens` tokens hold of the token $l (k - 1)$ positions before it?
With 100 tokens, $k = 5$ and 4 layers, is it more than half for a logit of 5? Of 10?
""",
    hint=r"""
One layer's attention output is a matrix of weights times its inputs.
What do two layers give?
""",
    cases=(
        (3, 2, 1, 0.0),
        (6, 3, 2, 1.0),
        (10, 2, 3, 2.0),
        (9, 3, 1, 3.0),
        (100, 5, 4, 5.0),
        (100, 5, 4, 10.0),
    ),
    solution=relay_share,
    misconceptions=(
        Misconception(
            "One layer's weight to the power of the layers",
            "Your answer counts only the path by sharp steps, and with as many keys "
            "for every token as for the last. Other paths add to it, and earlier "
            "tokens see fewer keys: multiply matrices.",
            lambda tokens, k, layers, logit: float(
                (math.exp(logit) / (math.exp(logit) + tokens - 1)) ** layers
            ),
        ),
        Misconception(
            "Later keys not masked",
            "A decoder's query sees keys up to its own.",
            _relay(causal=False),
        ),
        Misconception(
            "Only the first layer",
            "Each layer reads the output of the layer below.",
            _relay(power=lambda w, n: w, back=lambda k, layers: k - 1),
        ),
        Misconception(
            "One layer too many",
            "The first power of the weights is one layer.",
            _relay(power=lambda w, n: np.linalg.matrix_power(w, n + 1)),
        ),
        Misconception(
            "Logit at the query's own position",
            "The logit is at the offset k − 1, so that every layer goes back.",
            _relay(at=lambda k: 0),
        ),
        Misconception(
            "Steps one too short",
            "The logit is at the offset k − 1.",
            _relay(at=lambda k: k - 2),
        ),
        Misconception(
            "Logit at the offset k",
            "The row of k is shared with all farther offsets. The last offset with a "
            "row of its own is k − 1.",
            _relay(at=lambda k: k),
        ),
        Misconception(
            "Position one too far",
            "The last token is at offset 0 from itself.",
            _relay(back=lambda k, layers: layers * (k - 1) + 1),
        ),
        Misconception(
            "Layers' weights added",
            "The second layer reads the first layer's outputs, not the tokens again.",
            _relay(power=lambda w, n: n * w, back=lambda k, layers: k - 1),
        ),
        Misconception(
            "Weights not normalized",
            "Every row of a softmax sums to one.",
            lambda tokens, k, layers, logit: float(
                np.linalg.matrix_power(
                    np.tril(
                        np.exp(
                            np.where(
                                np.subtract.outer(range(tokens), range(tokens))
                                == k - 1,
                                logit,
                                0.0,
                            )
                        )
                    ),
                    layers,
                )[-1, -1 - layers * (k - 1)]
            ),
        ),
        Misconception(
            "Only the straight path",
            "Other paths lead to the same token: multiply whole matrices.",
            _straight_path,
        ),
        Misconception(
            "Residual added",
            "Each layer passes on its attention output alone.",
            _relay(power=lambda w, n: np.linalg.matrix_power(w + np.eye(len(w)), n)),
        ),
        Misconception(
            "Element-wise power",
            "`**` takes the power of each entry. Layers are multiplied as matrices.",
            _relay(power=lambda w, n: w**n),
        ),
        Misconception(
            "Weights multiplied by the number of layers",
            "Each layer reads the outputs of the layer below, which are mixtures already.",
            _relay(power=lambda w, n: n * w),
        ),
        Misconception(
            "One layer too few",
            "With one layer the power is 1: the weights themselves.",
            _relay(power=lambda w, n: np.linalg.matrix_power(w, n - 1)),
        ),
        Misconception(
            "Softmax over the queries",
            "The weights of one query sum to 1, over its keys.",
            _softmax_over_queries,
        ),
        Misconception(
            "Largest share",
            "The share of one token is asked for, whether it is the largest or not.",
            lambda tokens, k, layers, logit: max(
                _relay(back=lambda k, layers, b=b: b)(tokens, k, layers, logit)
                for b in range(tokens)
            ),
        ),
        Misconception(
            "One key too many, and one path",
            "The raised key is one of the `tokens` keys, so the others are one fewer. And other paths lead to the same token.",
            lambda tokens, k, layers, logit: (
                (math.exp(logit) / (math.exp(logit) + tokens)) ** layers
            ),
        ),
        Misconception(
            "Position one too near",
            "The last token is at index −1, and 0 steps before itself.",
            _relay(back=lambda k, layers: layers * (k - 1) - 1),
        ),
        Misconception(
            "Far offsets with the logit, too",
            "The logit is at the offset k − 1 alone. The row of all farther offsets is the next.",
            _far_offsets_raised,
        ),
    ),
    properties=(
        Property(
            "With a larger logit the layers lose less",
            lambda answer, tokens, k, layers, logit: (
                answer(20, 3, 2, 6.0) > answer(20, 3, 2, 3.0)
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The weights of a layer are a lower triangular matrix, and $l$ layers are its power; the answer is one entry of the last row.
With 100 tokens, $k = 5$ and 4 layers it is 0.14 for a logit of 5, so less than half, and 0.98 for a logit of 10.
{prf:ref}`The theorem on relays <thm-relative-vectors-reach>` says at least $(1 + 99\, e^{-S})^{-4}$, which is 0.13 and 0.98: each layer must outweigh 99 other keys, and the losses of the layers multiply.
The exact share is a little larger, since earlier tokens see fewer keys and other paths lead to the same token.
""",
    prediction=Prediction(
        "With 100 tokens, k = 5 and 4 layers, how large is the share for a logit of 5?",
        lambda: relay_share(100, 5, 4, 5.0),
        near=0.3,
    ),
)


# relative-vectors-7: offsets beyond the table


def colleagues_row(i, j, k):
    """Return the row that query i reads for key j.

    It is a row of Shaw's key table, an integer.
    """
    rows = 2 * k + 1
    return (j - i + k) % rows


def pair_that_differs():
    """Return i, j and k for which `colleagues_row` is wrong."""
    return 0, 2, 1


def _no_pair(i, j, k):
    is_int = all(type(x) is int and x >= 0 for x in (i, j, k))
    return "" if is_int else "i, j and k are ints from 0"


WRAPPED = Exercise(
    name="relative-vectors-7",
    title="Find the input: far keys",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_row` should do what exercise relative-vectors-1 asks for.
She has tested it with $k = 2$ for all keys at distances up to 2 on both sides, and with $k = 0$ for a far key; all of these tests pass.
Find `i`, `j` and `k`, whole numbers from 0 on, for which it is wrong, with the sum $i + j + k$ as small as possible.
Which vector does a far key get from her?
""",
    hint=r"""
For which offsets do a remainder and a clip agree?
What is the remainder by 1?
""",
    cases=((),),
    solution=pair_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_row,
        right=row,
        tested=((5, 3, 2), (5, 4, 2), (5, 5, 2), (5, 6, 2), (5, 7, 2), (7, 0, 0)),
        refusal=_no_pair,
        size=lambda i, j, k: i + j + k,
        size_of="sum i + j + k",
    ),
    tolerance=0.0,
    explanation=r"""
A remainder leaves the offsets from $-k$ to $k$ as they are, so her tests near the query pass; with $k = 0$ there is one row, and both rules read it.
So $k$ must be at least 1 and the distance at least $k + 1$, which is 2 for $k = 1$: the sum is 3, with $i = 0$, $j = 2$ or the other way round.
Beyond the table the remainder begins again at the other end: a key just beyond the future end of the table gets the vector of the farthest past.
{prf:ref}`The clipped offset <def-shaw-row-box>` gives it the last row of its own side.
""",
)


SHEET = Sheet(
    title="Relative position representations: Shaw, Music Transformer, Inkling",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0.
Tables run from the farthest past on, as the papers' index $j - i$ has them.
Inkling's distance basis begins with the distance 0.
""",
    example=r"""
from posedu.numpy.attention import causal_mask, steps
from posedu.numpy.relative import music_transformer

table = np.array([[20.0], [10.0], [0.0]])
hooks = music_transformer(key_table=table, beyond="clip")
q, mask = np.ones((1, 4, 1)), causal_mask(4)
print(steps(q, 0 * q, q, hooks, mask=mask).logits[0])
""",
    figure="relative_vectors_explorable",
    exercises=(
        ROW,
        GAUGE,
        SKEW,
        VALUES,
        LOGITS,
        RELAY,
        WRAPPED,
    ),
)
