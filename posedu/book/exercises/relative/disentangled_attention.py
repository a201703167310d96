"""Exercises on disentangled attention: Transformer-XL, TUPE, DeBERTa."""

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

# disentangled-attention-1: the column of a key


def column(i, j, queries, keys):
    """Return the column of key j's product in row i of a table [query, distance].

    Row i of the table has query i's products with the vectors of all distances, a
    column for each. Column 0 is the largest distance, ``keys`` − 1. The ``queries`` are
    the last of the ``keys`` tokens. The column is an int.
    """
    return j - i + queries - 1


COLUMN = Exercise(
    name="disentangled-attention-1",
    title="The column of a key",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
The last `queries` of `keys` tokens are queries.
A row of a table has a query's products with the vectors of all distances, the farthest first: column 0 is the distance `keys` − 1, the last column is the distance 0.
Key $j$ is not after query $i$: in which column of row $i$ is its product?
Rows and keys count from 0.
""",
    hint=r"""
The last query stands at the last key.
At which position does query $i$ stand?
How far is that from $j$?
""",
    cases=((0, 0, 1, 1), (1, 0, 2, 2), (0, 0, 2, 5), (2, 5, 3, 7), (1, 3, 4, 9)),
    solution=column,
    misconceptions=(
        Misconception(
            "Distance in place of the column",
            "The distance is right, but columns begin with the farthest one. Which "
            "column has the distance 0?",
            lambda i, j, queries, keys: keys - queries + i - j,
        ),
        Misconception(
            "Key's index as the column",
            "Before the shift a column is a distance. Only the last query has its keys "
            "in order.",
            lambda i, j, queries, keys: j,
        ),
        Misconception(
            "Query 0 put at the first key",
            "The last query stands at the last key, so the first one stands at keys − "
            "queries.",
            lambda i, j, queries, keys: j - i + keys - 1,
        ),
        Misconception(
            "One column too far to the right",
            "Where is the last query's last key? It is in the last column, keys − 1.",
            lambda i, j, queries, keys: j - i + queries,
        ),
        Misconception(
            "One column too far to the left",
            "Where is the last query's last key? It is in the last column, keys − 1.",
            lambda i, j, queries, keys: j - i + queries - 2,
        ),
        Misconception(
            "Wrong sign of the row",
            "A later query is farther from the same key, and a farther key is further "
            "left.",
            lambda i, j, queries, keys: j + i - queries + 1,
        ),
        Misconception(
            "Wrong sign of the key",
            "A later key is nearer, and a nearer key is further right.",
            lambda i, j, queries, keys: i - j + queries - 1,
        ),
        Misconception(
            "Offset in place of the column, without the memory",
            "If there are more keys than queries, rows and keys count from different "
            "tokens. And columns begin with the farthest distance.",
            lambda i, j, queries, keys: i - j,
        ),
        Misconception(
            "Distance subtracted from the number of queries",
            "There are as many columns as keys: the distance 0 has the column keys − "
            "1.",
            lambda i, j, queries, keys: queries - 1 - (keys - queries + i - j),
        ),
        Misconception(
            "Nearest distance first",
            "The farthest distance, keys − 1, has column 0. And at which position does "
            "query i stand?",
            lambda i, j, queries, keys: keys - 1 - j + i,
        ),
    ),
    properties=(
        Property(
            "The key before is one column further to the left",
            lambda answer, i, j, queries, keys: (
                j == 0
                or answer(i, j, queries, keys) - answer(i, j - 1, queries, keys) == 1
            ),
        ),
        Property(
            "The last query's last key has the last column",
            lambda answer, i, j, queries, keys: (
                answer(queries - 1, keys - 1, queries, keys) == keys - 1
            ),
        ),
    ),
    explanation=r"""
Query $i$ stands at position $\text{keys} - \text{queries} + i$, so its distance to key $j$ is $\text{keys} - \text{queries} + i - j$.
Column 0 is the distance $\text{keys} - 1$, so the column is $\text{keys} - 1$ minus the distance: $j - i + \text{queries} - 1$.
The number of keys cancels; for the last query, $i = \text{queries} - 1$, the column is the key itself.
From one query to the next the same key moves one column to the left, which {prf:ref}`the theorem on the shift <thm-xl-skew>` uses.
""",
)


# disentangled-attention-2: the four terms of one pair


def logit(q, k, r, u, v):
    """Return Transformer-XL's logit of one query and key, as a SymPy expression.

    ``q`` and ``k`` are the query and the key, ``r`` is the projected vector of the
    distance; ``u`` and ``v`` are the trained biases of content and of position. All are
    SymPy columns.
    """
    return ((q + u).dot(k) + (q + v).dot(r)) / sp.sqrt(q.rows)


def _columns(d):
    return tuple(sp.Matrix(sp.symbols(f"{name}:{d}")) for name in "qkruv")


LOGIT = Exercise(
    name="disentangled-attention-2",
    title="The four terms of one pair",
    kind="SymPy",
    minutes=5,
    lines=1,
    statement=r"""
`q`, `k`, `u`, `v` and `r` $= W_R\, r_{i-j}$ are columns of the same height $d$, over symbols.
Return Transformer-XL's logit $s_{ij}$.
""",
    hint=r"""
Which of $u$ and $v$ is multiplied by the content, which by the vector of the distance?
What is divided by $\sqrt d$?
""",
    cases=(_columns(1), _columns(2), _columns(4)),
    solution=logit,
    misconceptions=(
        Misconception(
            "u and v exchanged",
            "u is multiplied by the key's content, v by the vector of the distance.",
            lambda q, k, r, u, v: ((q + v).dot(k) + (q + u).dot(r)) / sp.sqrt(q.rows),
        ),
        Misconception(
            "u and v left out",
            "Your answer adds the key and the vector of the distance. The two terms "
            "that are the same for every query are missing.",
            lambda q, k, r, u, v: q.dot(k + r) / sp.sqrt(q.rows),
        ),
        Misconception(
            "No division",
            "All four terms are divided by √d.",
            lambda q, k, r, u, v: (q + u).dot(k) + (q + v).dot(r),
        ),
        Misconception(
            "Only the first term divided",
            "√d divides all four terms.",
            lambda q, k, r, u, v: (
                q.dot(k) / sp.sqrt(q.rows) + u.dot(k) + (q + v).dot(r)
            ),
        ),
        Misconception(
            "Only the content terms divided",
            "√d divides all four terms.",
            lambda q, k, r, u, v: (q + u).dot(k) / sp.sqrt(q.rows) + (q + v).dot(r),
        ),
        Misconception(
            "Terms with u and v not divided",
            "√d divides all four terms.",
            lambda q, k, r, u, v: q.dot(k + r) / sp.sqrt(q.rows) + u.dot(k) + v.dot(r),
        ),
        Misconception(
            "u for both terms",
            "u is multiplied by the key's content, and v by the vector of the "
            "distance.",
            lambda q, k, r, u, v: (q + u).dot(k + r) / sp.sqrt(q.rows),
        ),
        Misconception(
            "u times the query",
            "u stands in place of a query: it is multiplied by the key.",
            lambda q, k, r, u, v: (
                (q.dot(k) + q.dot(r) + u.dot(q) + v.dot(r)) / sp.sqrt(q.rows)
            ),
        ),
        Misconception(
            "Key times the vector of the distance",
            "The vector of the distance stands in place of a key: it is multiplied by "
            "the query.",
            lambda q, k, r, u, v: (
                (q.dot(k) + k.dot(r) + u.dot(k) + v.dot(r)) / sp.sqrt(q.rows)
            ),
        ),
        Misconception(
            "u times v, too",
            "u · v is none of the four terms. It is the same for all keys.",
            lambda q, k, r, u, v: (
                ((q + u).dot(k) + (q + v).dot(r) + u.dot(v)) / sp.sqrt(q.rows)
            ),
        ),
        Misconception(
            "All entries of a matrix summed",
            "An inner product multiplies each entry by the entry in the same place.",
            lambda q, k, r, u, v: (
                (sum(q + u) * sum(k) + sum(q + v) * sum(r)) / sp.sqrt(q.rows)
            ),
        ),
        Misconception(
            "DeBERTa's scale",
            "√(3d) is the scale of three terms. Transformer-XL divides its four terms "
            "by √d.",
            lambda q, k, r, u, v: (
                ((q + u).dot(k) + (q + v).dot(r)) / sp.sqrt(3 * q.rows)
            ),
        ),
        Misconception(
            "Divided by √(4d)",
            "TUPE and DeBERTa count terms under the root. Transformer-XL divides by "
            "√d.",
            lambda q, k, r, u, v: (
                ((q + u).dot(k) + (q + v).dot(r)) / sp.sqrt(4 * q.rows)
            ),
        ),
        Misconception(
            "Two terms too many",
            "(q + u + v)·(k + r) contains u·r and v·k, which are none of the four "
            "terms.",
            lambda q, k, r, u, v: (q + u + v).dot(k + r) / sp.sqrt(q.rows),
        ),
        Misconception(
            "Fourth term missing",
            "v is multiplied by the vector of the distance, whatever the query is.",
            lambda q, k, r, u, v: ((q + u).dot(k) + q.dot(r)) / sp.sqrt(q.rows),
        ),
        Misconception(
            "Third term missing",
            "u is multiplied by every key's content.",
            lambda q, k, r, u, v: (q.dot(k) + (q + v).dot(r)) / sp.sqrt(q.rows),
        ),
        Misconception(
            "Second term missing",
            "The query is multiplied by the vector of the distance, too.",
            lambda q, k, r, u, v: ((q + u).dot(k) + v.dot(r)) / sp.sqrt(q.rows),
        ),
        Misconception(
            "Divided by d",
            "The scale is the root of d.",
            lambda q, k, r, u, v: ((q + u).dot(k) + (q + v).dot(r)) / q.rows,
        ),
        Misconception(
            "A product of two inner products",
            "(q·u)(k·r) is not a sum of four inner products.",
            lambda q, k, r, u, v: q.dot(u) * k.dot(r) / sp.sqrt(q.rows),
        ),
    ),
    properties=(
        Property(
            "With a query of zeros the logit is (u · k + v · r)/√d",
            lambda answer, q, k, r, u, v: (
                sp.expand(
                    answer(0 * q, k, r, u, v) * sp.sqrt(q.rows) - u.dot(k) - v.dot(r)
                )
                == 0
            ),
        ),
    ),
    explanation=r"""
By {prf:ref}`the definition of Transformer-XL's logit <def-xl-box>` the four terms are $q^\top k + q^\top r + u^\top k + v^\top r$, all divided by $\sqrt d$; grouped, $(q + u)^\top k + (q + v)^\top r$.
$u$ and $v$ stand where an absolute encoding would have the query's position, and they are the same for every query.
So code adds $u$ to the queries for the product with the keys, and $v$ for the product with the distances.
""",
)


# disentangled-attention-3: the shift


def shift(products):
    """Reorder products ``[query, distance]`` by key: ``[queries, keys]``.

    The products are a query's with the vectors of all distances, the largest first.
    Entries are 0 where the key is after its query.
    """
    queries, keys = products.shape
    padded = np.pad(products, ((0, 0), (1, 0)))
    shifted = padded.ravel()[queries:].reshape(queries, keys)
    return np.tril(shifted, keys - queries)


def _by_distance(queries, keys):
    return np.round(draw(queries, keys), 2) + 3


def _unmasked(products):
    queries, keys = products.shape
    padded = np.pad(products, ((0, 0), (1, 0)))
    return padded.ravel()[queries:].reshape(queries, keys)


def _rolled(products, by):
    queries, keys = products.shape
    rows = [np.roll(row, by(i, queries)) for i, row in enumerate(products)]
    return np.tril(np.array(rows), keys - queries)


def _without_sign(products):
    queries, keys = products.shape
    distance = keys - queries + np.arange(queries)[:, None] - np.arange(keys)
    return np.take_along_axis(products, keys - 1 - abs(distance), 1)


def _padded_right(products):
    queries, keys = products.shape
    padded = np.pad(products, ((0, 0), (0, 1))).ravel()[queries:]
    return np.tril(padded.reshape(queries, keys), keys - queries)


SHIFT = Exercise(
    name="disentangled-attention-3",
    title="The shift",
    kind="NumPy",
    minutes=12,
    lines=4,
    statement=r"""
`products` is `[queries, keys]`: row $i$ has query $i$'s products with the vectors of the distances `keys` − 1, …, 0, in this order.
The last query stands at the last key.
Return the products by key, `[queries, keys]`, with zeros where the key comes later than the query.
No loop is needed: pad, reshape, cut.
""",
    hint=r"""
With one zero in front of each row, the flat array has `queries` numbers too many at its beginning.
""",
    cases=tuple((_by_distance(*s),) for s in ((1, 1), (2, 2), (2, 4), (3, 4), (5, 9))),
    solution=shift,
    misconceptions=(
        Misconception(
            "Nothing shifted",
            "Your columns are still distances. Only the last query has its keys in "
            "order.",
            lambda products: np.tril(products, products.shape[1] - products.shape[0]),
        ),
        Misconception(
            "No zeros above the diagonal",
            "After the shift a zero and numbers of the next query stand above the "
            "diagonal. Set them to 0.",
            _unmasked,
        ),
        Misconception(
            "Diagonal of a square matrix",
            "With more keys than queries the first query sees keys − queries + 1 keys. "
            "Where must np.tril begin?",
            lambda products: np.tril(_unmasked(products)),
        ),
        Misconception(
            "Zeros behind the rows, or one number too many cut",
            "Put the zero in front of each row, and cut as many numbers in front as "
            "there are queries.",
            _padded_right,
        ),
        Misconception(
            "Distances without a sign",
            "Where the key comes later than the query the entry is 0, not the number "
            "of a key that is as far away on the other side.",
            _without_sign,
        ),
        Misconception(
            "Each row one column too far to the left",
            "The last query's row stays as it is, and the row before it moves by one.",
            lambda products: _rolled(products, lambda i, n: i - n),
        ),
        Misconception(
            "Rows moved to the right",
            "An earlier query is nearer to every key: its numbers move to the left.",
            lambda products: _rolled(products, lambda i, n: n - 1 - i),
        ),
        Misconception(
            "First row kept, last row moved",
            "Row i moves by queries − 1 − i to the left. The last row does not move.",
            lambda products: _rolled(products, lambda i, n: -i),
        ),
        Misconception(
            "Distances reversed",
            "The farthest distance comes first, and the oldest key is the farthest. "
            "Reverse nothing.",
            lambda products: shift(products[:, ::-1]),
        ),
        Misconception(
            "Queries reversed",
            "Row 0 belongs to the first query, the one farthest from the end.",
            lambda products: shift(products[::-1]),
        ),
        Misconception(
            "Earlier keys hidden in place of later ones",
            "np.triu keeps what is above the diagonal.",
            lambda products: np.triu(
                _unmasked(products), products.shape[1] - products.shape[0]
            ),
        ),
        Misconception(
            "Query's own key hidden",
            "Distance 0 is the query's own token, and the query may look at it.",
            lambda products: np.tril(
                _unmasked(products), products.shape[1] - products.shape[0] - 1
            ),
        ),
        Misconception(
            "Mask before the shift",
            "Before the shift a column is a distance, and your mask takes the nearest "
            "keys from the first query. Mask above the diagonal after the shift.",
            lambda products: _unmasked(
                np.tril(products, products.shape[1] - products.shape[0])
            ),
        ),
    ),
    properties=(
        Property(
            "The last query's row stays as it is",
            lambda answer, products: np.array_equal(answer(products)[-1], products[-1]),
        ),
        Property(
            "Every query's own key has the last column's number",
            lambda answer, products: np.array_equal(
                np.diagonal(answer(products), products.shape[1] - products.shape[0]),
                products[:, -1],
            ),
        ),
    ),
    level="optional",
    explanation=r"""
With a zero in front, each row has $\text{keys} + 1$ numbers; read in rows of $\text{keys}$ from number $\text{queries}$ on, the product for key $j$ stands in column $j$ of its query.
This is {prf:ref}`the theorem on the shift <thm-xl-skew>` with rows that are longer by one: each query's row begins one place later than the row before.
The first query sees $\text{keys} - \text{queries} + 1$ keys, so `np.tril` begins at the diagonal $\text{keys} - \text{queries}$; above it stand numbers of the next query.
""",
)


# disentangled-attention-4: DeBERTa's rows


def logits(q, k, k_rows, q_rows):
    """Return one head's DeBERTa logits ``[tokens, tokens]``, as in the paper.

    ``q`` and ``k`` are ``[tokens, d]``. ``k_rows`` and ``q_rows`` are the tables of
    position keys and position queries, with a row for each clipped offset.
    """
    n, d = q.shape
    half = len(k_rows) // 2
    i, j = np.indices((n, n))
    to = np.clip(i - j + half, 0, 2 * half - 1)
    back = np.clip(j - i + half, 0, 2 * half - 1)
    to_position = (q @ k_rows.T)[i, to]
    to_content = (k @ q_rows.T)[j, back]
    return (q @ k.T + to_position + to_content) / np.sqrt(3 * d)


def _deberta_case(tokens, half, d):
    return (
        *draw(2, tokens, d),
        *draw(2, 2 * half, d, seed=1),
    )


def _deberta(to=None, back=None, terms=(1, 1, 1), root=3, swap=False, of_query=False):
    """Make a wrong answer (a function) to the exercise ``logits``.

    The exercise asks for DeBERTa's logits. Some steps of the answer can be wrong; with
    the defaults all are right. ``to(t, half)`` and ``back(t, half)`` map offsets to
    rows of the two position tables (None: clipped). ``of_query`` takes the content key
    of the query's token in place of the key's own token. ``terms`` weights the three
    terms, ``root`` replaces 3 in the √(3d) that divides the logits, and ``swap``
    exchanges the tables.
    """

    def clip(t, half):
        return np.clip(t + half, 0, 2 * half - 1)

    def answer(q, k, k_rows, q_rows):
        n, d = q.shape
        half = len(k_rows) // 2
        i, j = np.indices((n, n))
        if swap:
            k_rows, q_rows = q_rows, k_rows
        first = (to or clip)(i - j, half)
        second = (back or clip)(j - i, half)
        back_from = i if of_query else j
        parts = (
            q @ k.T,
            (q @ k_rows.T)[i, first],
            (k @ q_rows.T)[back_from, second],
        )
        total = sum(w * p for w, p in zip(terms, parts, strict=True))
        return total / np.sqrt(root * d)

    return answer


def _offset_rows(n, rows):
    half = len(rows) // 2
    i, j = np.indices((n, n))
    return rows[np.clip(i - j + half, 0, 2 * half - 1)]


def _of_query(q, q_rows):
    rows = _offset_rows(len(q), q_rows).swapaxes(0, 1)
    return (q[:, None] * rows).sum(-1) / np.sqrt(3 * q.shape[1])


def _with_fourth_term(q, k, k_rows, q_rows):
    n, d = q.shape
    rows = _offset_rows(n, k_rows) * _offset_rows(n, q_rows).swapaxes(0, 1)
    return logits(q, k, k_rows, q_rows) + rows.sum(-1) / np.sqrt(3 * d)


def _negated(t, half):
    return np.clip(-t + half, 0, 2 * half - 1)


DEBERTA = Exercise(
    name="disentangled-attention-4",
    title="DeBERTa's rows",
    kind="NumPy",
    minutes=15,
    lines=7,
    statement=r"""
`q` and `k` are `[tokens, d]`; `k_rows` and `q_rows` are `[2k, d]`, the rows $K_r$ and $Q_r$ of one head.
Return DeBERTa's logits as the *paper* prints them, `[tokens, tokens]`, positions 0, 1, 2, …
An array `[tokens, tokens, d]` is not needed.
""",
    hint=r"""
First take the products with all rows, `[tokens, 2k]`, then the indices.
Which token does each of the two products belong to?
""",
    cases=(_deberta_case(2, 1, 2), _deberta_case(4, 2, 3), _deberta_case(9, 3, 4)),
    solution=logits,
    misconceptions=(
        Misconception(
            "The code's index",
            "The authors' code takes δ(i, j) for the key's term, the paper δ(j, i): "
            "there the query is seen from the key.",
            _deberta(back=_negated),
        ),
        Misconception(
            "Both offsets with the wrong sign",
            "δ(i, j) is i − j + k: the query's position comes first.",
            _deberta(to=_negated, back=_negated),
        ),
        Misconception(
            "Query's offset with the wrong sign",
            "The first index is i − j + k, the second one j − i + k.",
            _deberta(to=_negated),
        ),
        Misconception(
            "The two tables exchanged",
            "Multiply q by k_rows, the rows made for keys, and k by q_rows.",
            _deberta(swap=True),
        ),
        Misconception(
            "Divided by √d",
            "Three products are added, so the scale is √(3d).",
            _deberta(root=1),
        ),
        Misconception(
            "Divided by √(2d)",
            "TUPE has two terms. DeBERTa has three.",
            _deberta(root=2),
        ),
        Misconception(
            "Position–content term missing",
            "Your answer has content–content and content–position. k is multiplied by "
            "a row of q_rows, too.",
            _deberta(terms=(1, 1, 0)),
        ),
        Misconception(
            "Content–position term missing",
            "q is multiplied by the row of the offset, too.",
            _deberta(terms=(1, 0, 1)),
        ),
        Misconception(
            "Content–content term missing",
            "q · k is the first of the three terms.",
            _deberta(terms=(0, 1, 1)),
        ),
        Misconception(
            "The query's product in the key's term",
            "The products with the second table belong to *keys*: take row j of them.",
            _deberta(of_query=True),
        ),
        Misconception(
            "Row k − 1 for offset 0",
            "The row is i − j + k: a token's own position has row k.",
            _deberta(
                to=lambda t, half: np.clip(t + half - 1, 0, 2 * half - 1),
                back=lambda t, half: np.clip(t + half - 1, 0, 2 * half - 1),
            ),
        ),
        Misconception(
            "Number of rows taken for k",
            "The tables have 2k rows, so k is half their number: offset 0 has row k.",
            _deberta(
                to=lambda t, half: np.clip(t + 2 * half, 0, 2 * half - 1),
                back=lambda t, half: np.clip(t + 2 * half, 0, 2 * half - 1),
            ),
        ),
        Misconception(
            "Clipped to 2k − 1 rows",
            "Row 0 belongs to −k and all offsets below: clip to 0 … 2k − 1.",
            _deberta(
                to=lambda t, half: np.clip(t + half, 1, 2 * half - 1),
                back=lambda t, half: np.clip(t + half, 1, 2 * half - 1),
            ),
        ),
        Misconception(
            "Offsets that wrap around",
            "In NumPy a negative index counts from the end. Clip before you index.",
            _deberta(
                to=lambda t, half: (t + half) % (2 * half),
                back=lambda t, half: (t + half) % (2 * half),
            ),
        ),
        Misconception(
            "k not added",
            "The row is i − j + k. In NumPy a negative index counts from the end.",
            _deberta(
                to=lambda t, half: np.clip(t, -half, half - 1),
                back=lambda t, half: np.clip(t, -half, half - 1),
            ),
        ),
        Misconception(
            "Clipped on one side",
            "Row 0 belongs to −k and all offsets below. In NumPy a negative index "
            "counts from the end.",
            _deberta(
                to=lambda t, half: np.minimum(t + half, 2 * half - 1),
                back=lambda t, half: np.minimum(t + half, 2 * half - 1),
            ),
        ),
        Misconception(
            "A fourth term",
            "DeBERTa has three terms. The product of a row of q_rows and a row of "
            "k_rows is left out.",
            _with_fourth_term,
        ),
        Misconception(
            "Query in both terms with positions",
            "The rows made for queries are multiplied by the *key*.",
            lambda q, k, k_rows, q_rows: (
                logits(q, k, k_rows, 0 * q_rows) + _of_query(q, q_rows)
            ),
        ),
        Misconception(
            "Only the content term divided",
            "√(3d) divides all three terms.",
            lambda q, k, k_rows, q_rows: (
                np.sqrt(3 * q.shape[1]) * logits(q, k, k_rows, q_rows)
                - q @ k.T
                + q @ k.T / np.sqrt(3 * q.shape[1])
            ),
        ),
        Misconception(
            "Distances without a sign",
            "Tokens to the left and to the right have rows of their own.",
            _deberta(
                to=lambda t, half: np.clip(abs(t) + half, 0, 2 * half - 1),
                back=lambda t, half: np.clip(abs(t) + half, 0, 2 * half - 1),
            ),
        ),
    ),
    properties=(
        Property(
            "With tables of zeros the logits are q · k over √(3d)",
            lambda answer, q, k, k_rows, q_rows: np.allclose(
                answer(q, k, 0 * k_rows, 0 * q_rows), q @ k.T / np.sqrt(3 * q.shape[1])
            ),
        ),
    ),
    explanation=r"""
`q @ k_rows.T` and `k @ q_rows.T` have $2k$ numbers for each token, from which an index takes one for each pair, so nothing has $d$ numbers for each pair.
The first product belongs to the query: row $i$, offset $i - j$. The second belongs to the key: row $j$, and from there the query is at the offset $j - i$.
Three products are added, so {prf:ref}`the definition <def-deberta-box>` divides by $\sqrt{3d}$.
Offsets are clipped to the rows $0, \dots, 2k - 1$, which {prf:ref}`are not symmetric <thm-deberta-rows>`: offset 0 has row $k$.
""",
)


# disentangled-attention-5: the mask of a memory


def memory_mask(tokens, segment, memory):
    """Return where a query may look at a key: a boolean tensor ``[tokens, tokens]``.

    A text is read in segments of ``segment`` tokens, each with a memory of the
    ``memory`` tokens before the segment. The mask has the same effect for the whole
    text.
    """
    t = torch.arange(tokens)[:, None]
    j = torch.arange(tokens)
    return (j <= t) & (j >= t // segment * segment - memory)


def _mask(visible):
    """Make a wrong answer (a function) to the exercise ``memory_mask``.

    The exercise asks for the mask of reading by segments with a memory. In the wrong
    answer, the mask is ``visible(t, j, segment, memory)`` of the queries t and the keys
    j, true where a query sees a key, in place of the right mask.
    """

    def answer(tokens, segment, memory):
        t = torch.arange(tokens)[:, None]
        return visible(t, torch.arange(tokens)[None], segment, memory)

    return answer


MEMORY_MASK = Exercise(
    name="disentangled-attention-5",
    title="The mask of a memory",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
A text of `tokens` tokens is read in segments of `segment` tokens.
Each layer caches the last `memory` tokens before the segment.
Return the mask under which the whole text can be read at once with the same result: `[tokens, tokens]`, boolean, true where a query may look at a key.
""",
    hint=r"""
Where does the segment of token $t$ begin?
""",
    cases=((2, 1, 0), (4, 2, 1), (6, 2, 2), (7, 3, 4), (9, 4, 1)),
    solution=memory_mask,
    misconceptions=(
        Misconception(
            "Sliding window",
            "In your mask every query sees equally many keys. But the memory ends "
            "where the *segment* begins, and later queries of the segment see more.",
            _mask(lambda t, j, segment, memory: (j <= t) & (j >= t - memory)),
        ),
        Misconception(
            "Sliding window as long as segment and memory",
            "Only the last query of a segment sees so many keys.",
            _mask(lambda t, j, segment, memory: (j <= t) & (j > t - segment - memory)),
        ),
        Misconception(
            "Later keys seen",
            "Within a segment attention is causal.",
            _mask(
                lambda t, j, segment, memory: (
                    (j < (t // segment + 1) * segment)
                    & (j >= t // segment * segment - memory)
                )
            ),
        ),
        Misconception(
            "Memory left out",
            "Your mask shows each segment only to itself.",
            _mask(
                lambda t, j, segment, memory: (j <= t) & (t // segment == j // segment)
            ),
        ),
        Misconception(
            "All earlier tokens seen",
            "The memory is cropped: a layer caches only the newest tokens.",
            _mask(lambda t, j, segment, memory: j <= t),
        ),
        Misconception(
            "True for hidden keys",
            "True is where a query *may* look.",
            lambda tokens, segment, memory: ~memory_mask(tokens, segment, memory),
        ),
        Misconception(
            "One key too many",
            "There are `memory` tokens before the segment, so the oldest is at the "
            "segment's start minus `memory`.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t) & (j >= t // segment * segment - memory - 1)
                )
            ),
        ),
        Misconception(
            "One key too few",
            "There are `memory` tokens before the segment, so the oldest is at the "
            "segment's start minus `memory`.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t) & (j > t // segment * segment - memory)
                )
            ),
        ),
        Misconception(
            "Query's own token hidden",
            "A query may look at its own token.",
            _mask(
                lambda t, j, segment, memory: (
                    (j < t) & (j >= t // segment * segment - memory)
                )
            ),
        ),
        Misconception(
            "Rows and columns exchanged",
            "The first axis is that of the queries.",
            lambda tokens, segment, memory: memory_mask(tokens, segment, memory).T,
        ),
        Misconception(
            "Memory counted in segments",
            "`memory` is a number of tokens.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t) & (j // segment >= t // segment - memory)
                )
            ),
        ),
        Misconception(
            "Memory rounded up to whole segments",
            "`memory` is a number of tokens, and may begin inside a segment.",
            lambda tokens, segment, memory: memory_mask(
                tokens, segment, -(-memory // segment) * segment
            ),
        ),
        Misconception(
            "Memory rounded down to whole segments",
            "`memory` is a number of tokens, and may begin inside a segment.",
            lambda tokens, segment, memory: memory_mask(
                tokens, segment, memory // segment * segment
            ),
        ),
        Misconception(
            "Everything seen near the beginning",
            "The memory ends before the query's segment and has `memory` tokens, also "
            "in the second segment.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t)
                    & ((j >= t // segment * segment - memory) | (t < segment + memory))
                )
            ),
        ),
        Misconception(
            "Segments counted from the end",
            "The first segment begins at token 0, and the last one may be shorter.",
            lambda tokens, segment, memory: memory_mask(
                tokens + -tokens % segment, segment, memory
            )[-tokens % segment :, -tokens % segment :],
        ),
        Misconception(
            "Key's segment in place of the query's",
            "The start of the query's segment decides how far back the memory goes.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t) & (j // segment * segment >= t - memory)
                )
            ),
        ),
    ),
    properties=(
        Property(
            "With segments of one token the mask is a window",
            lambda answer, tokens, segment, memory: torch.equal(
                answer(6, 1, 2), torch.ones(6, 6).tril().triu(-2).bool()
            ),
        ),
    ),
    explanation=r"""
The segment of token $t$ begins at $L \lfloor t/L \rfloor$, with $L$ = `segment`, and its memory holds the `memory` tokens before this place, so query $t$ sees the keys from there minus `memory` up to $t$.
The oldest visible key is the same for all queries of a segment, so this is no sliding window, unless a segment has a single token.
Under this mask the whole text gives the outputs of the segments, by {prf:ref}`the theorem on segments with a memory <thm-xl-memory>`.
""",
)


# disentangled-attention-6: the first token untied


def untie(content, positional, theta, d):
    """Return TUPE-A's logits of one head, ``[tokens, tokens]``, first token untied.

    ``content`` and ``positional``, ``[tokens, tokens]``, are products of contents and
    of positions, not divided by anything; ``d`` is the head dimension. ``theta`` has
    the two trained numbers that replace the positional logits of the first token.
    """
    z = positional / np.sqrt(2 * d)
    z[:, 0] = theta[1]
    z[0] = theta[0]
    return content / np.sqrt(2 * d) + z


def _untie_case(tokens, d):
    return *draw(2, tokens, tokens), draw(2), d


def _untied(change, root=2):
    """Make a wrong answer (a function) to the exercise ``untie``.

    The exercise asks for TUPE-A's logits. In the wrong answer, ``change(z, theta, d)``
    edits the positional logits z in another way than to put ``theta`` in the first row
    and column, or the products of contents and of positions are divided by √(``root`` ·
    d), right being √(2d).
    """

    def answer(content, positional, theta, d):
        z = positional / np.sqrt(root * d)
        change(z, theta, d)
        return content / np.sqrt(root * d) + z

    return answer


def _set(z, row, column, own=None):
    z[1:, 0], z[0, 1:] = column, row
    z[0, 0] = row if own is None else own


def _swapped(z, theta, d):
    _set(z, theta[1], theta[0])


def _column_last(z, theta, d):
    _set(z, theta[0], theta[1], theta[1])


def _corner_left(z, theta, d):
    _set(z, theta[0], theta[1], z[0, 0])


def _divided(z, theta, d):
    _set(z, theta[0] / np.sqrt(2 * d), theta[1] / np.sqrt(2 * d))


def _added(z, theta, d):
    z[1:, 0] += theta[1]
    z[0] += theta[0]


def _row_alone(z, theta, d):
    z[0] = theta[0]


def _column_alone(z, theta, d):
    z[1:, 0] = theta[1]


def _last_token(z, theta, d):
    z[:, -1] = theta[1]
    z[-1] = theta[0]


def _everything(content, positional, theta, d):
    z = (content + positional) / np.sqrt(2 * d)
    z[:, 0], z[0] = theta[1], theta[0]
    z[0] = theta[0]
    return z


UNTIE = Exercise(
    name="disentangled-attention-6",
    title="The first token untied",
    kind="NumPy",
    minutes=8,
    lines=4,
    statement=r"""
`content` has the products $q_i^\top k_j$ and `positional` the products $(U_Q P_i)^\top (U_K P_j)$, both `[tokens, tokens]` and not yet divided by anything.
`theta` is $(\theta_1, \theta_2)$.
Return TUPE-A's logits of a head of `d` features, `[tokens, tokens]`.
Which of the two numbers has no effect after the softmax?
""",
    hint=r"""
Only the positional part is replaced.
Which number stands at query 0 and key 0?
""",
    cases=tuple(_untie_case(*s) for s in ((1, 2), (2, 2), (3, 4), (6, 8))),
    solution=untie,
    misconceptions=(
        Misconception(
            "θ₁ and θ₂ exchanged",
            "θ₁ belongs to the first *query*: it fills the whole row.",
            _untied(_swapped),
        ),
        Misconception(
            "Column's number in the corner",
            "At query 0 and key 0 stands the row's number, θ₁.",
            _untied(_column_last),
        ),
        Misconception(
            "Corner left as it was",
            "The whole row of query 0 is θ₁, its own key included.",
            _untied(_corner_left),
        ),
        Misconception(
            "θ divided, too",
            "Only products are divided. θ₁ and θ₂ stand as they are.",
            _untied(_divided),
        ),
        Misconception(
            "θ₁ and θ₂ left out",
            "Row and column 0 have θ₁ and θ₂, not 0.",
            _untied(lambda z, theta, d: _set(z, 0.0, 0.0)),
        ),
        Misconception(
            "θ added",
            "Row and column 0 are *replaced*: the products that stood there are gone.",
            _untied(_added),
        ),
        Misconception(
            "Column not replaced",
            "For all other queries the first key has θ₂.",
            _untied(_row_alone),
        ),
        Misconception(
            "Row not replaced",
            "For the first query all keys have θ₁.",
            _untied(_column_alone),
        ),
        Misconception(
            "Contents replaced, too",
            "Only the positional products are replaced. q · k stays.",
            _everything,
        ),
        Misconception(
            "Divided by √d",
            "Two products are added, so the scale is √(2d).",
            _untied(lambda z, theta, d: _set(z, *theta), root=1),
        ),
        Misconception(
            "Divided by √(3d)",
            "√(3d) is the scale of three products. Two are added here, so it is √(2d).",
            _untied(lambda z, theta, d: _set(z, *theta), root=3),
        ),
        Misconception(
            "Divided by 2√d",
            "Both factors stand under the root: √(2d).",
            _untied(lambda z, theta, d: _set(z, *theta), root=4),
        ),
        Misconception(
            "Divided by √2 d",
            "Both factors stand under the root: √(2d).",
            lambda content, positional, theta, d: untie(
                content / math.sqrt(d), positional / math.sqrt(d), theta, d
            ),
        ),
        Misconception(
            "Divided by 2d",
            "The scale is the root of 2d.",
            lambda content, positional, theta, d: untie(
                content / math.sqrt(2 * d), positional / math.sqrt(2 * d), theta, d
            ),
        ),
        Misconception(
            "Nothing divided",
            "Both products are divided by √(2d).",
            lambda content, positional, theta, d: untie(
                content * math.sqrt(2 * d), positional * math.sqrt(2 * d), theta, d
            ),
        ),
        Misconception(
            "Contents not divided",
            "Both products are divided by √(2d).",
            lambda content, positional, theta, d: untie(
                content * math.sqrt(2 * d), positional, theta, d
            ),
        ),
        Misconception(
            "Contents divided by √d",
            "Both products are divided by √(2d), since they are added.",
            lambda content, positional, theta, d: untie(
                content * math.sqrt(2), positional, theta, d
            ),
        ),
        Misconception(
            "First token tied",
            "Row and column 0 have numbers of their own, θ₁ and θ₂.",
            _untied(lambda z, theta, d: None),
        ),
        Misconception(
            "Last token untied",
            "The class token is the first one.",
            _untied(_last_token),
        ),
        Misconception(
            "Positions not divided",
            "Both products are divided by √(2d).",
            lambda content, positional, theta, d: untie(
                content, positional * math.sqrt(2 * d), theta, d
            ),
        ),
        Misconception(
            "Positions left out",
            "Between all other tokens the positional products are added.",
            lambda content, positional, theta, d: untie(
                content, 0 * positional, theta, d
            ),
        ),
    ),
    properties=(
        Property(
            "The first row minus the divided content products is one number",
            lambda answer, content, positional, theta, d: (
                np.ptp(
                    (answer(content.copy(), positional.copy(), theta, d))[0]
                    - content[0] / np.sqrt(2 * d)
                )
                < 1e-12
            ),
        ),
    ),
    level="optional",
    explanation=r"""
All products are divided by $\sqrt{2d}$, since two are added; then the positional part of row 0 becomes $\theta_1$, its own key included, and that of column 0 becomes $\theta_2$ for all other queries.
$\theta_1$ has no effect after the softmax: it is added to every logit of the first query alike, by {prf:ref}`the theorem on dead parameters <thm-disentangled-unseen>`.
$\theta_2$ has one: it says how much every other token looks at the class token, wherever this token is.
""",
)


# disentangled-attention-7: how far back?


def tokens_back(token, layers, segment, memory):
    """Return how far back the oldest input of a token's output is: an int, in tokens.

    ``token`` is the token's position, counted from 0. The ``layers`` read the text in
    segments of ``segment`` tokens, each with a memory of the ``memory`` tokens before
    the segment.
    """
    oldest = token
    for _ in range(layers):
        oldest = max(oldest // segment * segment - memory, 0)
    return token - oldest


def _traced(begin):
    """Make a wrong answer (a function) to the exercise ``tokens_back``.

    In the wrong answer, ``begin(t, segment)`` replaces the first token of the segment
    of token t.
    """

    def answer(token, layers, segment, memory):
        oldest = token
        for _ in range(layers):
            oldest = max(begin(oldest, segment) - memory, 0)
        return token - oldest

    return answer


def _oldest(token, layers, segment, memory):
    return token - tokens_back(token, layers, segment, memory)


BACK = Exercise(
    name="disentangled-attention-7",
    title="How far back?",
    kind="experiment",
    minutes=12,
    lines=4,
    statement=r"""
A stack of `layers` layers reads a text in segments of `segment` tokens, each layer with a memory of the last `memory` tokens before the segment.
How many tokens back is the oldest input that the output of token `token` (from 0) depends on?
How many are they for segments of 4, three layers and token 60, with a memory of 4? With one of 5?
""",
    hint=r"""
One layer leads to the oldest token of the memory.
To which segment does that token belong, and where does that segment's memory begin?
""",
    cases=(
        (3, 1, 2, 1),
        (60, 3, 4, 4),
        (60, 3, 4, 5),
        (62, 2, 4, 3),
        (61, 4, 1, 6),
        (9, 5, 4, 8),
        (30, 2, 7, 0),
    ),
    solution=tokens_back,
    misconceptions=(
        Misconception(
            "Layers times memory",
            "Layers times memory is right for segments of one token. With longer ones "
            "a layer first reaches to the beginning of its segment.",
            lambda token, layers, segment, memory: min(layers * memory, token),
        ),
        Misconception(
            "Layers times segment",
            "The paper's O(N × L) is an order of magnitude, with memories as long as "
            "segments.",
            lambda token, layers, segment, memory: min(layers * segment, token),
        ),
        Misconception(
            "Only one layer counted",
            "The memory holds outputs of the layer below, which depend on older "
            "tokens.",
            lambda token, layers, segment, memory: tokens_back(
                token, 1, segment, memory
            ),
        ),
        Misconception(
            "Beyond the beginning of the text",
            "There is nothing before token 0.",
            lambda token, layers, segment, memory: (
                memory
                + (layers - 1) * segment * -(-memory // segment)
                + token % segment
            ),
        ),
        Misconception(
            "Beyond the beginning of the text, and the memory alone added",
            "There is nothing before token 0. And the oldest token of the memory "
            "belongs to a segment with a memory of its own.",
            lambda token, layers, segment, memory: layers * memory + token % segment,
        ),
        Misconception(
            "Counted from the end of the segment",
            "Count back from the token itself, which may stand inside its segment.",
            lambda token, layers, segment, memory: tokens_back(
                (token // segment + 1) * segment - 1, layers, segment, memory
            ),
        ),
        Misconception(
            "Counted from the beginning of the segment",
            "Count back from the token itself, which may stand inside its segment.",
            lambda token, layers, segment, memory: tokens_back(
                token // segment * segment, layers, segment, memory
            ),
        ),
        Misconception(
            "Nearest beginning of a segment",
            "A token's segment begins at the token or before it, never after it.",
            _traced(lambda t, segment: round(t / segment) * segment),
        ),
        Misconception(
            "First memory counted from the token",
            "In the first layer, too, the memory ends where the token's segment "
            "begins.",
            lambda token, layers, segment, memory: (
                token - _oldest(max(token - memory, 0), layers - 1, segment, memory)
            ),
        ),
        Misconception(
            "Memory alone added for later layers",
            "The oldest token of the memory belongs to a segment, and its memory "
            "begins before *that segment*.",
            lambda token, layers, segment, memory: min(
                layers * memory + token % segment, token
            ),
        ),
        Misconception(
            "Position in the segment counted for each layer",
            "A layer below begins at the oldest token of a memory, which has another "
            "position in its segment.",
            lambda token, layers, segment, memory: min(
                layers * (memory + token % segment), token
            ),
        ),
        Misconception(
            "Sliding windows",
            "How far a layer reaches depends on the token's position in its segment as "
            "well.",
            lambda token, layers, segment, memory: min(
                layers * (segment + memory - 1), token
            ),
        ),
        Misconception(
            "Oldest token itself",
            "How many tokens *back* is it?",
            lambda token, layers, segment, memory: (
                token - tokens_back(token, layers, segment, memory)
            ),
        ),
        Misconception(
            "One layer too many",
            "One layer reaches to the oldest token of its own memory.",
            lambda token, layers, segment, memory: tokens_back(
                token, layers + 1, segment, memory
            ),
        ),
        Misconception(
            "Only whole segments cached",
            "A memory of 5 tokens begins in the middle of a segment.",
            lambda token, layers, segment, memory: tokens_back(
                token, layers, segment, memory // segment * segment
            ),
        ),
        Misconception(
            "Memory rounded up to whole segments",
            "In the first layer the memory begins where it begins, also in the middle "
            "of a segment.",
            lambda token, layers, segment, memory: tokens_back(
                token, layers, segment, -(-memory // segment) * segment
            ),
        ),
        Misconception(
            "Tokens counted, not steps",
            "The token before is one back: 60 and 59 are one apart.",
            lambda token, layers, segment, memory: (
                tokens_back(token, layers, segment, memory) + 1
            ),
        ),
    ),
    properties=(
        Property(
            "With segments of one token every layer adds a memory",
            lambda answer, token, layers, segment, memory: answer(90, 4, 1, 7) == 28,
        ),
    ),
    level="hard",
    explanation=r"""
One layer leads from token $t$ to the oldest token of its segment's memory, $L \lfloor t/L \rfloor - M$, and the next layer leads on from that token in the same way, until token 0.
With segments of 4, three layers and token 60, a memory of 4 leads to 56, 52 and 48: 12 tokens back.
A memory of 5 leads to 55, whose segment begins at 52, then to 47 and 39: 21 tokens back.
One more token in the memory reaches into one more segment in every layer below: by {prf:ref}`the theorem on the reach <thm-xl-reach>` these layers contribute $L \lceil M/L \rceil$ each, not $M$.
""",
    prediction=Prediction(
        "With segments of 4, three layers and token 60, how many tokens back is it "
        "for a memory of 5?",
        lambda: tokens_back(60, 3, 4, 5),
        near=0.05,
    ),
)


# disentangled-attention-8: memories that end inside a segment


def colleagues_reach(token, layers, segment, memory):
    """Return how many tokens back the oldest input is.

    It is the oldest input of the output of ``token``.
    """
    in_segment = token % segment
    return min(in_segment + layers * memory, token)


def token_that_differs():
    """Return token, layers, segment and memory for which the function is wrong."""
    return 3, 2, 3, 1


def _no_token(token, layers, segment, memory):
    numbers = token, layers, segment, memory
    if any(type(n) is not int or not 0 <= n <= 1000 for n in numbers):
        return "all four are ints from 0 to 1000"
    return "" if layers and segment else "layers and segment are at least 1"


REACH = Exercise(
    name="disentangled-attention-8",
    title="Find the input: the reach of a memory",
    kind="find the input",
    minutes=12,
    lines=1,
    statement=r"""
`colleagues_reach` should do what exercise disentangled-attention-7 asks for.
She has tested it with segments of one token, with a memory as long as a segment, as in the paper, and with a memory of two segments; all of these tests pass.
Find `token`, `layers`, `segment` and `memory` for which it is wrong, with the position `token` as small as possible.
For which memories is she right, whatever the token?
""",
    hint=r"""
Where does the second layer start from, if the memory does not begin where a segment begins?
With one layer she is right. And nothing is before token 0.
""",
    cases=((),),
    solution=token_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_reach,
        right=tokens_back,
        tested=((50, 4, 1, 6), (61, 3, 4, 4), (62, 2, 4, 8)),
        refusal=_no_token,
        size=lambda token, layers, segment, memory: token,
        size_of="token",
    ),
    tolerance=0.0,
    explanation=r"""
The second layer reads from the oldest token of the memory, and reaches first to the beginning of *that token's* segment; she leaves this part out.
It is zero if every memory begins where a segment begins, so she is right for multiples of the segment's length.
Token 3 with two layers, segments of 3 and a memory of 1 is the smallest case: the first layer reads tokens 2 and 3, token 2 has read tokens 0 to 2, so the oldest input is 3 back, and she says 2.
Below token 3 both functions give the same numbers, since nothing lies before token 0; {prf:ref}`the theorem on the reach <thm-xl-reach>` has the general formula.
""",
)


SHEET = Sheet(
    title="Disentangled attention: Transformer-XL, TUPE, DeBERTa",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0, and $d$ the number of features of a head.
The last of the queries stands at the last of the keys.
""",
    example=r"""
from posedu.numpy.attention import steps
from posedu.numpy.relative import transformer_xl

zero, v = np.zeros((1, 3, 2)), np.array([[2**0.5, 0.0]])
r = dict(layout="interleaved", position_weight=np.eye(2))
xl = dict(global_content=0 * v, global_position=v, **r)
found = steps(zero, zero, zero, transformer_xl(**xl))
print(np.round(found.logits[0], 3))  # sin(i - j)
""",
    figure="disentangled_attention_explorable",
    exercises=(
        COLUMN,
        LOGIT,
        SHIFT,
        DEBERTA,
        MEMORY_MASK,
        UNTIE,
        BACK,
        REACH,
    ),
)
