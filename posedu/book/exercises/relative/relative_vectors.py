"""The exercises on relative vectors."""

import math

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# relative-vectors-1: the row of a pair


def row(i, j, k):
    """The row of ``key_table`` that query i reads for key j, an integer."""
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
Which row has the query's own place? Which way from there does the next key lie?
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
            "Past and future are exchanged",
            "The rows stand by j − i: the first belongs to keys far before the query.",
            lambda i, j, k: k + max(-k, min(k, i - j)),
        ),
        Misconception(
            "The offset is not clipped",
            "There are 2k + 1 rows and no more; all that is farther shares the last.",
            lambda i, j, k: k + j - i,
        ),
        Misconception(
            "This is the offset, not its row",
            "Row 0 is the farthest past. A negative index would read the table from "
            "its end.",
            lambda i, j, k: max(-k, min(k, j - i)),
        ),
        Misconception(
            "The argument of the clip is k − 1",
            "So lecture notes print it. Every pair then has the same row; where are i "
            "and j?",
            lambda i, j, k: k + max(-k, min(k, k - 1)),
        ),
        Misconception(
            "The clip comes one too early",
            "There are k rows on each side, the last of them shared with all beyond.",
            lambda i, j, k: k + max(1 - k, min(k - 1, j - i)) if k else 0,
        ),
        Misconception(
            "The clip comes one too late",
            "Rows 0 to 2k are the table; the last is that of k and all beyond.",
            lambda i, j, k: k + max(-k, min(k + 1, j - i)),
        ),
        Misconception(
            "Distances have no sign here",
            "A key before the query and one after it have different vectors.",
            lambda i, j, k: k + min(k, abs(j - i)),
        ),
        Misconception(
            "Only the future is clipped",
            "Far keys before the query share a row as well.",
            lambda i, j, k: k + min(k, j - i),
        ),
        Misconception(
            "Only the past is clipped",
            "Far keys after the query share a row as well.",
            lambda i, j, k: k + max(-k, j - i),
        ),
        Misconception(
            "Rows count from 0",
            "Your first row is 1.",
            lambda i, j, k: k + 1 + max(-k, min(k, j - i)),
        ),
        Misconception(
            "The offset is taken round the table",
            "Farther keys share the last row; they don't begin again.",
            lambda i, j, k: (k + j - i) % (2 * k + 1),
        ),
        Misconception(
            "Far keys read the query's own row",
            "What is beyond the table shares its last row on that side.",
            lambda i, j, k: k + j - i if abs(j - i) <= k else k,
        ),
        Misconception(
            "The key's place alone is clipped",
            "A relative vector belongs to the difference of both places.",
            lambda i, j, k: min(2 * k, j),
        ),
    ),
    properties=(
        Property(
            "Moving both places changes nothing",
            lambda answer, i, j, k: answer(i + 5, j + 5, k) == answer(i, j, k),
        ),
    ),
)


# relative-vectors-2: nothing beyond


def unclipped(w):
    """The table ``[k, d]`` with nothing beyond it that gives the weights of ``w``."""
    return w[1:, :] - sp.ones(w.rows - 1, 1) * w[0, :]


_W = sp.Matrix(4, 2, sp.symbols("w:8", real=True))

GAUGE = Exercise(
    name="relative-vectors-2",
    title="Nothing beyond",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
`w` is the key table `[k + 1, d]` of a decoder: the vectors of the offsets $k, \dots, 1, 0$ in this order, and keys beyond $k$ get the first row.
Which table of the offsets $k - 1, \dots, 0$ gives the same weights if keys beyond it get *nothing*?
""",
    hint=r"""
What may you add to every row without changing a weight? And what must the row of the farthest then be?
""",
    cases=(
        (sp.Matrix([[1], [3]]),),
        (sp.Matrix([[1, 2], [3, 5], [7, 0]]),),
        (_W,),
    ),
    solution=unclipped,
    misconceptions=(
        Misconception(
            "The far vector is dropped",
            "Keys beyond the table got its product with the query, and now get 0: the "
            "others have to move with them.",
            lambda w: w[1:, :],
        ),
        Misconception(
            "The near end is moved to 0",
            "It is the keys *beyond* the table that get nothing; the first row is "
            "theirs.",
            lambda w: w[:-1, :] - sp.ones(w.rows - 1, 1) * w[-1, :],
        ),
        Misconception(
            "The far vector is added",
            "What must be added to it so that it becomes 0?",
            lambda w: w[1:, :] + sp.ones(w.rows - 1, 1) * w[0, :],
        ),
        Misconception(
            "The sign is reversed",
            "All rows move by the same vector; none is turned.",
            lambda w: sp.ones(w.rows - 1, 1) * w[0, :] - w[1:, :],
        ),
        Misconception(
            "Neighbors are subtracted",
            "The same vector must be taken from every row.",
            lambda w: w[1:, :] - w[:-1, :],
        ),
        Misconception(
            "The mean is moved to 0",
            "Any common vector may be taken away, but only one makes the far row 0.",
            lambda w: (
                w[1:, :] - sp.ones(w.rows - 1, 1) * (sp.ones(1, w.rows) * w) / w.rows
            ),
        ),
        Misconception(
            "The far row is kept and the near one dropped",
            "The offsets k − 1, …, 0 are the rows from the second on.",
            lambda w: w[:-1, :] - sp.ones(w.rows - 1, 1) * w[0, :],
        ),
        Misconception(
            "The near vector is subtracted",
            "Keys beyond the table have the *first* row's vector.",
            lambda w: w[1:, :] - sp.ones(w.rows - 1, 1) * w[-1, :],
        ),
        Misconception(
            "The order is reversed",
            "The farthest comes first in both tables.",
            lambda w: unclipped(w)[::-1, :],
        ),
        Misconception(
            "Rows are divided",
            "The softmax ignores what is *added* to a row of logits.",
            lambda w: sp.Matrix(w.rows - 1, w.cols, lambda r, c: w[r + 1, c] / w[0, c]),
        ),
    ),
    properties=(
        Property(
            "A common vector in all rows is invisible",
            lambda answer, w: answer(w + sp.ones(*w.shape)) == answer(w),
        ),
    ),
)


# relative-vectors-3: skewing


def by_key(products):
    """The products ``[L, L]`` of queries and keys, 0 above the diagonal."""
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
`products[i, c]` is what query $i$ says to the offset $L - 1 - c$, `[L, L]`.
Return `[L, L]` by query and key: the product of $i - j$ for $j \le i$, and 0 above the diagonal.
No loop over tokens.
""",
    hint=r"""
A column of zeros in front, rows of another length, one row less. What stands above the diagonal then?
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
            "The junk is still there",
            "Above the diagonal the trick leaves a zero and then numbers of the next "
            "query. A causal mask would hide them; here they are to be 0.",
            lambda t: _skewed(_front(t), 1),
        ),
        Misconception(
            "The zeros stand behind",
            "The column comes in front, so that each row begins one later than the "
            "row before.",
            lambda t: np.tril(_skewed(_behind(t), 1)),
        ),
        Misconception(
            "The last row is dropped",
            "The first row holds nothing but what was in front of query 0.",
            lambda t: np.tril(_skewed(_front(t), 0)),
        ),
        Misconception(
            "The nearest offset is taken to be first",
            "Column 0 is the farthest, L − 1.",
            lambda t: by_key(t[:, ::-1]),
        ),
        Misconception(
            "The columns are left where they are",
            "A column is an offset, not a key: it belongs to another key in each row.",
            np.tril,
        ),
        Misconception(
            "Rows are moved the other way",
            "The last query's columns are keys already; the first one's last column is "
            "key 0.",
            lambda t: _by_rolls(t, 1),
        ),
        Misconception(
            "Keys are taken for queries",
            "Row i holds what query i says. Yours is transposed.",
            lambda t: by_key(t).T,
        ),
        Misconception(
            "The diagonal is missing",
            "Offset 0 is a query and its own key, which no mask hides.",
            lambda t: np.tril(by_key(t), -1),
        ),
        Misconception(
            "Offsets are one too large",
            "The last column is offset 0.",
            lambda t: by_key(np.roll(t, -1, axis=1)),
        ),
        Misconception(
            "Both sides of the diagonal are filled",
            "A decoder's table has no offsets below 0.",
            lambda t: by_key(t) + np.tril(by_key(t), -1).T,
        ),
    ),
    properties=(
        Property(
            "Every entry on a diagonal is of one offset",
            lambda answer, t: (
                np.ptp(
                    np.diag(answer(np.tile(np.arange(len(t), 0.0, -1), (len(t), 1))))
                )
                == 0
            ),
        ),
    ),
)


# relative-vectors-4: weights by row


def relative_values(weights, table):
    """Σ_j a_ij w of each query, ``[L, d]``, of a table ``[2k + 1, d]`` by j − i."""
    n, k = len(weights), len(table) // 2
    i, j = np.indices((n, n))
    row = k + np.clip(j - i, -k, k)
    by_row = np.stack([(weights * (row == r)).sum(1) for r in range(2 * k + 1)], 1)
    return by_row @ table


def _weights(*shape):
    e = np.exp(draw(*shape))
    return e / e.sum(1, keepdims=True)


def _with_rows(choose):
    """The right sums over rows that ``choose`` gives; None stands for no row."""

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
`weights` are a head's, `[L, L]`, and `table` holds Shaw's vectors of values, `[2k + 1, d]`, from the farthest past on.
Return what they add to the outputs, $\sum_j A_{ij}\, w^V_{c(i-j)}$, `[L, d]`, without a vector for each query and key.
""",
    hint=r"""
First sum the weights of each query over the keys that have the same row. What do you multiply the sums with?
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
            "Past and future are exchanged",
            "The table begins with the farthest past: its rows stand by j − i.",
            _with_rows(lambda i, j, k, n: k + _clip(i - j, k)),
        ),
        Misconception(
            "Far keys add nothing",
            "Shaw's table is clipped: beyond k they have the last vector.",
            _with_rows(lambda i, j, k, n: k + j - i if abs(j - i) <= k else None),
        ),
        Misconception(
            "Distances have no sign here",
            "A key before the query and one after it have different vectors.",
            _with_rows(lambda i, j, k, n: k + min(k, abs(j - i))),
        ),
        Misconception(
            "Every key has the query's own vector",
            "Weights sum to 1, so yours adds the middle row, whatever the weights are.",
            _with_rows(lambda i, j, k, n: k),
        ),
        Misconception(
            "The weights are transposed",
            "Row i holds the weights of query i, and its sum is over keys.",
            lambda weights, table: relative_values(weights.T, table),
        ),
        Misconception(
            "The clip comes one too early",
            "There are k rows on each side of the query's own.",
            _with_rows(lambda i, j, k, n: k + _clip(j - i, max(k - 1, 0))),
        ),
        Misconception(
            "Decoders' keys alone are counted",
            "There may be weight on later keys as well.",
            _with_rows(lambda i, j, k, n: k + _clip(j - i, k) if j <= i else None),
        ),
        Misconception(
            "Vectors are averaged over the keys",
            "They are weighed by the attention weights, not equally.",
            lambda weights, table: relative_values(
                np.full_like(weights, 1 / len(weights)), table
            ),
        ),
        Misconception(
            "Rows are read by the key's place",
            "A relative vector belongs to the difference of both places.",
            _with_rows(lambda i, j, k, n: min(2 * k, j)),
        ),
        Misconception(
            "Rows are taken round the table",
            "A negative index reads the table from its end; clip first.",
            _with_rows(lambda i, j, k, n: (k + j - i) % (2 * k + 1)),
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
)


# relative-vectors-5: relative logits


def relative_logits(x, weight, basis):
    """Inkling's relative logits ``[heads, L, L]``."""
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


def _looked_up(r, basis, distance, near):
    table_length = basis.shape[1]
    column = distance.clamp(0, table_length - 1).expand(len(r), *distance.shape)
    return (r @ basis).gather(-1, column) * near


def _projected(x, weight, basis):
    return (x @ weight.T).unflatten(-1, (-1, len(basis))).transpose(0, 1)


def _with_distance(change, near=lambda t, length: (t >= 0) & (t < length)):
    """The right logits, with another distance and another reach."""

    def answer(x, weight, basis):
        t = _distances(len(x))
        r = _projected(x, weight, basis)
        return _looked_up(r, basis, change(t, basis.shape[1]), near(t, basis.shape[1]))

    return answer


def _same(t, length):
    return t


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
`unflatten` gives each head its own numbers. A product with the whole basis, then `gather` along the last axis.
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
            "Far keys get the last number",
            "That is Shaw's clip. Inkling's relative logits end: from the table's "
            "length on there is nothing.",
            _with_distance(_same, lambda t, length: t >= 0),
        ),
        Misconception(
            "Later keys get the number of distance 0",
            "Clamping a negative distance gives 0. What is wanted there is no term.",
            _with_distance(_same, lambda t, length: t < length),
        ),
        Misconception(
            "Distances have no sign here",
            "The basis is of the past alone; a later key gets 0.",
            _with_distance(lambda t, length: t.abs(), lambda t, e: t.abs() < e),
        ),
        Misconception(
            "The offset has the other sign",
            "Query minus key: yours looks ahead.",
            _with_distance(
                lambda t, length: -t, lambda t, length: (t <= 0) & (-t < length)
            ),
        ),
        Misconception(
            "The basis is read from its far end",
            "Column t is the distance t; skewed tables begin with the farthest, this "
            "one doesn't.",
            lambda x, weight, basis: relative_logits(x, weight, basis.flip(-1)),
        ),
        Misconception(
            "The keys are asked",
            "r is the query's: who looks says what it wants of a distance.",
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
            "Heads and their numbers are exchanged",
            "The rows of the weight are [heads, d_rel], head by head.",
            lambda x, weight, basis: _looked_up(
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
            "The relative term is divided by a root",
            "Contents are divided; these numbers are not.",
            lambda x, weight, basis: (
                relative_logits(x, weight, basis) / len(basis) ** 0.5
                if len(basis) > 1
                else relative_logits(x, weight, basis) / x.shape[1] ** 0.5
            ),
        ),
        Misconception(
            "The table is one distance too long",
            "A table of so many columns ends at distance table_length − 1.",
            _with_distance(_same, lambda t, length: (t >= 0) & (t <= length)),
        ),
        Misconception(
            "A query's own place is left out",
            "Distance 0 is the first column.",
            _with_distance(_same, lambda t, length: (t > 0) & (t < length)),
        ),
        Misconception(
            "Distances count from 1",
            "Column 0 is the query's own place.",
            _with_distance(
                lambda t, length: t - 1, lambda t, length: (t > 0) & (t <= length)
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
)


# relative-vectors-6: relays


def relayed(tokens, k, layers, logit):
    """The last token's share of the token layers · (k − 1) before it, a float."""
    i, j = np.indices((tokens, tokens))
    e = np.tril(np.exp(np.where(i - j == k - 1, logit, 0.0)))
    weights = e / e.sum(axis=1, keepdims=True)
    return float(np.linalg.matrix_power(weights, layers)[-1, -1 - layers * (k - 1)])


def _relay(at=lambda k: k - 1, back=None, causal=True, power=np.linalg.matrix_power):
    """The right share, with something else in place of one part of it."""

    def answer(tokens, k, layers, logit):
        i, j = np.indices((tokens, tokens))
        e = np.exp(np.where(at(k) == i - j, logit, 0.0))
        e = np.tril(e) if causal else e
        weights = e / e.sum(axis=1, keepdims=True)
        steps = layers * (k - 1) if back is None else back(k, layers)
        return float(power(weights, layers)[-1, -1 - steps])

    return answer


RELAY = Exercise(
    name="relative-vectors-6",
    title="Relays",
    kind="experiment",
    minutes=12,
    lines=4,
    statement=r"""
Each of `layers` layers of a decoder has the logit `logit` at the offset $k - 1$, the last that has a row of its own, and 0 elsewhere.
What share of the token $l (k - 1)$ places before it does the last of `tokens` hold after $l$ = `layers` layers, if each passes on what it gathers?
Predict before you run: with 100 tokens, $k = 5$ and 4 layers, is it more than half for a logit of 5? Of 10?
""",
    hint=r"""
What one layer gathers is a matrix of weights. What do two do?
""",
    cases=(
        (3, 2, 1, 0.0),
        (6, 3, 2, 1.0),
        (10, 2, 3, 2.0),
        (9, 3, 1, 3.0),
        (100, 5, 4, 5.0),
        (100, 5, 4, 10.0),
    ),
    solution=relayed,
    misconceptions=(
        Misconception(
            "This is one layer's weight, to the power of the layers",
            "It is what goes by sharp steps, if every token saw as many keys as the last. "
            "More arrives by other ways, and earlier tokens see fewer: multiply matrices.",
            lambda tokens, k, layers, logit: float(
                (math.exp(logit) / (math.exp(logit) + tokens - 1)) ** layers
            ),
        ),
        Misconception(
            "Later keys are weighed too",
            "A decoder's query sees keys up to its own.",
            _relay(causal=False),
        ),
        Misconception(
            "The first layer is all there is",
            "Each layer reads what the one below has gathered.",
            _relay(power=lambda w, n: w, back=lambda k, layers: k - 1),
        ),
        Misconception(
            "A layer too many",
            "The first power of the weights is one layer.",
            _relay(power=lambda w, n: np.linalg.matrix_power(w, n + 1)),
        ),
        Misconception(
            "The logit stands at the query's own place",
            "It is at the offset k − 1, so that every layer goes back.",
            _relay(at=lambda k: 0),
        ),
        Misconception(
            "The steps are one too short",
            "The logit is at the offset k − 1.",
            _relay(at=lambda k: k - 2),
        ),
        Misconception(
            "The logit stands at the offset k",
            "The row of k is shared with all beyond; the last offset with a row of its "
            "own is k − 1.",
            _relay(at=lambda k: k),
        ),
        Misconception(
            "The place is one too far",
            "The last token is at the offset 0 from itself.",
            _relay(back=lambda k, layers: layers * (k - 1) + 1),
        ),
        Misconception(
            "The layers' weights are added",
            "A second layer reads the first one's outputs, not the tokens again.",
            _relay(power=lambda w, n: n * w, back=lambda k, layers: k - 1),
        ),
        Misconception(
            "The weights are not normalized",
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
    ),
    properties=(
        Property(
            "Sharper layers lose less",
            lambda answer, tokens, k, layers, logit: (
                answer(20, 3, 2, 6.0) > answer(20, 3, 2, 3.0)
            ),
        ),
    ),
)


SHEET = Sheet(
    title="Relative vectors",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0. Tables stand from the farthest past on, as the papers' index $j - i$ has them; Inkling's distance basis begins with the distance 0.
""",
    exercises=(ROW, GAUGE, SKEW, VALUES, LOGITS, RELAY),
)
