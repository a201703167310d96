"""The exercises on four terms: Transformer-XL, TUPE, DeBERTa."""

import math

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# disentangled-attention-1: the column of a key


def column(i, j, queries, keys):
    """The column of query i's row, in a table by distance, that key j has."""
    return j - i + queries - 1


COLUMN = Exercise(
    name="disentangled-attention-1",
    title="The column of a key",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
The last `queries` of `keys` tokens are asked; a row of a table has a query's products with the vectors of all distances, the farthest first: column 0 is the distance `keys` − 1, the last column is 0.
In which column of row $i$ is the product for key $j$?
Rows and keys count from 0.
""",
    hint=r"""
At which position does query $i$ stand, if the last one stands at the last key? How far is that from $j$?
""",
    cases=((0, 0, 1, 1), (1, 0, 2, 2), (0, 0, 2, 5), (2, 5, 3, 7), (1, 3, 4, 9)),
    solution=column,
    misconceptions=(
        Misconception(
            "This is the distance",
            "The distance is right, but columns begin with the farthest one: which "
            "column is distance 0?",
            lambda i, j, queries, keys: keys - queries + i - j,
        ),
        Misconception(
            "A column is taken for a key",
            "Before the shift a column is a distance; only the last query has its keys "
            "in order.",
            lambda i, j, queries, keys: j,
        ),
        Misconception(
            "Query 0 is put at the first key",
            "The last query stands at the last key, so the first one at keys − queries.",
            lambda i, j, queries, keys: j - i + keys - 1,
        ),
        Misconception(
            "One too far to the right",
            "Where is the last query's last key? In the last column, keys − 1.",
            lambda i, j, queries, keys: j - i + queries,
        ),
        Misconception(
            "One too far to the left",
            "Where is the last query's last key? In the last column, keys − 1.",
            lambda i, j, queries, keys: j - i + queries - 2,
        ),
        Misconception(
            "The sign of the row is turned",
            "A later query is farther from the same key, and farther is further left.",
            lambda i, j, queries, keys: j + i - queries + 1,
        ),
        Misconception(
            "The key's sign is turned",
            "A later key is nearer, and nearer is further right.",
            lambda i, j, queries, keys: i - j + queries - 1,
        ),
        Misconception(
            "This is the offset, without the memory",
            "Rows and keys count from different tokens if there are more keys than "
            "queries, and columns begin with the farthest distance.",
            lambda i, j, queries, keys: i - j,
        ),
        Misconception(
            "The distance is taken from the number of queries",
            "There are as many columns as keys: distance 0 is column keys − 1.",
            lambda i, j, queries, keys: queries - 1 - (keys - queries + i - j),
        ),
        Misconception(
            "Distances begin with the nearest",
            "The farthest distance, keys − 1, is column 0. And at which position does "
            "query i stand?",
            lambda i, j, queries, keys: keys - 1 - j + i,
        ),
    ),
    properties=(
        Property(
            "The next key is one column further",
            lambda answer, i, j, queries, keys: (
                answer(i, j + 1, queries, keys) - answer(i, j, queries, keys) == 1
            ),
        ),
        Property(
            "The last query's last key has the last column",
            lambda answer, i, j, queries, keys: (
                answer(queries - 1, keys - 1, queries, keys) == keys - 1
            ),
        ),
    ),
)


# disentangled-attention-2: four terms of one pair


def logit(q, k, r, u, v):
    """Transformer-XL's logit of one query and key."""
    return ((q + u).dot(k) + (q + v).dot(r)) / sp.sqrt(q.rows)


def _columns(d):
    return tuple(sp.Matrix(sp.symbols(f"{name}:{d}")) for name in "qkruv")


LOGIT = Exercise(
    name="disentangled-attention-2",
    title="Four terms of one pair",
    kind="SymPy",
    minutes=6,
    lines=1,
    statement=r"""
`q`, `k`, `u`, `v` and `r` $= W_R\, r_{i-j}$ are columns of the same height $d$, over symbols.
Return Transformer-XL's logit $s_{ij}$.
""",
    hint=r"""
Which of $u$ and $v$ meets the content, which the distance? What is divided by $\sqrt d$?
""",
    cases=(_columns(1), _columns(2), _columns(4)),
    solution=logit,
    misconceptions=(
        Misconception(
            "u and v are exchanged",
            "u meets the key's content, v the distance.",
            lambda q, k, r, u, v: ((q + v).dot(k) + (q + u).dot(r)) / sp.sqrt(q.rows),
        ),
        Misconception(
            "u and v are left out",
            "This is the key plus a vector of the distance. What every query asks is "
            "missing.",
            lambda q, k, r, u, v: q.dot(k + r) / sp.sqrt(q.rows),
        ),
        Misconception(
            "Nothing is divided",
            "All four terms are divided by √d.",
            lambda q, k, r, u, v: (q + u).dot(k) + (q + v).dot(r),
        ),
        Misconception(
            "Only the first term is divided",
            "√d divides all four.",
            lambda q, k, r, u, v: (
                q.dot(k) / sp.sqrt(q.rows) + u.dot(k) + (q + v).dot(r)
            ),
        ),
        Misconception(
            "Only the contents are divided",
            "√d divides all four.",
            lambda q, k, r, u, v: (q + u).dot(k) / sp.sqrt(q.rows) + (q + v).dot(r),
        ),
        Misconception(
            "This is DeBERTa's root",
            "√(3d) is for three terms, and √(4d) is nobody's: Transformer-XL divides "
            "by √d.",
            lambda q, k, r, u, v: (
                ((q + u).dot(k) + (q + v).dot(r)) / sp.sqrt(3 * q.rows)
            ),
        ),
        Misconception(
            "It is divided by √(4d)",
            "A root for each term is TUPE's and DeBERTa's thought; Transformer-XL "
            "divides by √d.",
            lambda q, k, r, u, v: (
                ((q + u).dot(k) + (q + v).dot(r)) / sp.sqrt(4 * q.rows)
            ),
        ),
        Misconception(
            "u and v meet each other's vectors too",
            "(q + u + v)·(k + r) has u·r and v·k, which are none of the four.",
            lambda q, k, r, u, v: (q + u + v).dot(k + r) / sp.sqrt(q.rows),
        ),
        Misconception(
            "The fourth term is missing",
            "v meets the distance even where the query says nothing.",
            lambda q, k, r, u, v: ((q + u).dot(k) + q.dot(r)) / sp.sqrt(q.rows),
        ),
        Misconception(
            "The third term is missing",
            "u meets every key's content.",
            lambda q, k, r, u, v: (q.dot(k) + (q + v).dot(r)) / sp.sqrt(q.rows),
        ),
        Misconception(
            "The second term is missing",
            "The query asks the distance, too.",
            lambda q, k, r, u, v: ((q + u).dot(k) + v.dot(r)) / sp.sqrt(q.rows),
        ),
        Misconception(
            "It is divided by d",
            "The root of d is meant.",
            lambda q, k, r, u, v: ((q + u).dot(k) + (q + v).dot(r)) / q.rows,
        ),
        Misconception(
            "The vectors of the query are multiplied",
            "(q·u)(k·r) has nothing of a sum of four inner products.",
            lambda q, k, r, u, v: q.dot(u) * k.dot(r) / sp.sqrt(q.rows),
        ),
    ),
    properties=(
        Property(
            "A query that says nothing still has a logit",
            lambda answer, q, k, r, u, v: (
                sp.expand(
                    answer(0 * q, k, r, u, v) * sp.sqrt(q.rows) - u.dot(k) - v.dot(r)
                )
                == 0
            ),
        ),
    ),
)


# disentangled-attention-3: the shift


def shift(products):
    """By key, ``[queries, keys]``, zero where a key comes later than its query."""
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
Return them by key, `[queries, keys]`, with zeros where the key comes later than the query.
No loop is needed: pad, reshape, cut.
""",
    hint=r"""
With one zero in front of each row, the flat array has `queries` numbers too many at its beginning.
""",
    cases=tuple((_by_distance(*s),) for s in ((1, 1), (2, 2), (2, 4), (3, 4), (5, 9))),
    solution=shift,
    misconceptions=(
        Misconception(
            "Nothing is shifted",
            "Columns are distances as yet; only the last query has its keys in order.",
            lambda products: np.tril(products, products.shape[1] - products.shape[0]),
        ),
        Misconception(
            "What stands above the diagonal is still there",
            "The view has numbers of the next query there, and zeros: junk, to be "
            "hidden.",
            _unmasked,
        ),
        Misconception(
            "The diagonal is that of a square",
            "With more keys than queries the first query sees keys − queries + 1 of "
            "them: where does np.tril have to begin?",
            lambda products: np.tril(_unmasked(products)),
        ),
        Misconception(
            "The zeros stand behind the rows",
            "Padded on the right the rows come apart the other way; the zero goes in "
            "front.",
            _padded_right,
        ),
        Misconception(
            "Each row is one place too far to the left",
            "The last query's row is right as it is; the one before moves by one.",
            lambda products: _rolled(products, lambda i, n: i - n),
        ),
        Misconception(
            "Rows move the other way",
            "An earlier query is nearer to every key: its numbers move to the left.",
            lambda products: _rolled(products, lambda i, n: n - 1 - i),
        ),
        Misconception(
            "The first row stays and the last one moves",
            "Row i moves by queries − 1 − i to the left; the last one does not.",
            lambda products: _rolled(products, lambda i, n: -i),
        ),
        Misconception(
            "Distances are turned round",
            "The farthest distance comes first, and the oldest key is the farthest: "
            "nothing is to be reversed.",
            lambda products: shift(products[:, ::-1]),
        ),
        Misconception(
            "Queries are turned round",
            "Row 0 is the first query, the one farthest from the end.",
            lambda products: shift(products[::-1]),
        ),
        Misconception(
            "Later keys are kept, earlier ones hidden",
            "np.triu keeps what is above the diagonal.",
            lambda products: np.triu(
                _unmasked(products), products.shape[1] - products.shape[0]
            ),
        ),
        Misconception(
            "The query's own key is hidden",
            "Distance 0 is the query itself, and it may look at itself.",
            lambda products: np.tril(
                _unmasked(products), products.shape[1] - products.shape[0] - 1
            ),
        ),
        Misconception(
            "The mask is put before the shift",
            "Before the shift a column is a distance: the first query loses its nearest "
            "keys. What is to be hidden stands above the diagonal after it.",
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
)


# disentangled-attention-4: DeBERTa's rows


def logits(q, k, k_rows, q_rows):
    """DeBERTa's logits ``[tokens, tokens]`` of one head, as the paper prints them."""
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
    """A version of DeBERTa with other rows, terms, root, or tables."""

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


def _turned(t, half):
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
Do not build an array `[tokens, tokens, d]`.
""",
    hint=r"""
First the products with all rows, `[tokens, 2k]`, then indices. Which token does each of the two products belong to?
""",
    cases=(_deberta_case(2, 1, 2), _deberta_case(4, 2, 3), _deberta_case(9, 3, 4)),
    solution=logits,
    misconceptions=(
        Misconception(
            "This is the code's index",
            "The authors' code takes δ(i, j) for the key's term, the paper δ(j, i): "
            "the query is seen from the key.",
            _deberta(back=_turned),
        ),
        Misconception(
            "Both offsets are turned",
            "δ(i, j) is i − j + k, the query's position first.",
            _deberta(to=_turned, back=_turned),
        ),
        Misconception(
            "The query's offset is turned",
            "The first index is i − j + k, the second one j − i + k.",
            _deberta(to=_turned),
        ),
        Misconception(
            "The query meets the wrong table",
            "q meets the rows that were made for keys, k_rows, and k those of queries.",
            _deberta(swap=True),
        ),
        Misconception(
            "This is divided by √d",
            "Three products are added, and so √(3d).",
            _deberta(root=1),
        ),
        Misconception(
            "This is divided by √(2d)",
            "TUPE has two terms; DeBERTa has three.",
            _deberta(root=2),
        ),
        Misconception(
            "The key's term is missing",
            "That is content–content and content–position; k meets Q, too.",
            _deberta(terms=(1, 1, 0)),
        ),
        Misconception(
            "The query's term is missing",
            "q meets the row of the offset, too.",
            _deberta(terms=(1, 0, 1)),
        ),
        Misconception(
            "The contents are missing",
            "q · k is the first of the three terms.",
            _deberta(terms=(0, 1, 1)),
        ),
        Misconception(
            "The query's product is taken in the key's term",
            "The second table's products are those of *keys*: take row j of them.",
            _deberta(of_query=True),
        ),
        Misconception(
            "Offset 0 has row k − 1",
            "i − j + k: the own position has row k.",
            _deberta(
                to=lambda t, half: np.clip(t + half - 1, 0, 2 * half - 1),
                back=lambda t, half: np.clip(t + half - 1, 0, 2 * half - 1),
            ),
        ),
        Misconception(
            "The clip is that of 2k − 1 rows",
            "Row 0 is for −k and all below: clip to 0 … 2k − 1.",
            _deberta(
                to=lambda t, half: np.clip(t + half, 1, 2 * half - 1),
                back=lambda t, half: np.clip(t + half, 1, 2 * half - 1),
            ),
        ),
        Misconception(
            "Offsets wrap round",
            "A negative index counts from the end in NumPy; clip before you index.",
            _deberta(
                to=lambda t, half: (t + half) % (2 * half),
                back=lambda t, half: (t + half) % (2 * half),
            ),
        ),
        Misconception(
            "Distances are taken without a sign",
            "Left and right of a token have rows of their own.",
            _deberta(
                to=lambda t, half: np.clip(abs(t) + half, 0, 2 * half - 1),
                back=lambda t, half: np.clip(abs(t) + half, 0, 2 * half - 1),
            ),
        ),
    ),
    properties=(
        Property(
            "With empty tables it is q · k over √(3d)",
            lambda answer, q, k, k_rows, q_rows: np.allclose(
                answer(q, k, 0 * k_rows, 0 * q_rows), q @ k.T / np.sqrt(3 * q.shape[1])
            ),
        ),
    ),
)


# disentangled-attention-5: what a memory lets through


def seen(tokens, segment, memory):
    """True where query t may look at key j: a boolean tensor ``[tokens, tokens]``."""
    t = torch.arange(tokens)[:, None]
    j = torch.arange(tokens)
    return (j <= t) & (j >= t // segment * segment - memory)


def _mask(seen):
    """A mask of t, j, segment and memory."""

    def answer(tokens, segment, memory):
        t = torch.arange(tokens)[:, None]
        return seen(t, torch.arange(tokens)[None], segment, memory)

    return answer


SEEN = Exercise(
    name="disentangled-attention-5",
    title="What a memory lets through",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
A text of `tokens` tokens is read in segments of `segment` tokens; a layer remembers the last `memory` tokens before each.
Return the mask under which the whole text can be read at once with the same result: `[tokens, tokens]`, boolean, true where a query may look at a key.
""",
    hint=r"""
Where does the segment of token $t$ begin?
""",
    cases=((2, 1, 0), (4, 2, 1), (6, 2, 2), (7, 3, 4), (9, 4, 1)),
    solution=seen,
    misconceptions=(
        Misconception(
            "This is a sliding window",
            "Every query of yours sees equally many keys. But the memory ends where the "
            "*segment* begins, and later queries of it see more.",
            _mask(lambda t, j, segment, memory: (j <= t) & (j >= t - memory)),
        ),
        Misconception(
            "This is a window of segment and memory",
            "Only the last query of a segment sees so many keys.",
            _mask(lambda t, j, segment, memory: (j <= t) & (j > t - segment - memory)),
        ),
        Misconception(
            "Later keys are seen",
            "Within a segment attention is causal.",
            _mask(
                lambda t, j, segment, memory: (
                    (j < (t // segment + 1) * segment)
                    & (j >= t // segment * segment - memory)
                )
            ),
        ),
        Misconception(
            "The memory is left out",
            "These are the segments by themselves.",
            _mask(
                lambda t, j, segment, memory: (j <= t) & (t // segment == j // segment)
            ),
        ),
        Misconception(
            "Everything before is seen",
            "The memory is cropped: only its newest tokens are kept.",
            _mask(lambda t, j, segment, memory: j <= t),
        ),
        Misconception(
            "The mask says what is hidden",
            "True is where a query *may* look.",
            lambda tokens, segment, memory: ~seen(tokens, segment, memory),
        ),
        Misconception(
            "One key too many",
            "memory tokens before the segment: the oldest has the segment's start less "
            "memory.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t) & (j >= t // segment * segment - memory - 1)
                )
            ),
        ),
        Misconception(
            "One key too few",
            "memory tokens before the segment: the oldest has the segment's start less "
            "memory.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t) & (j > t // segment * segment - memory)
                )
            ),
        ),
        Misconception(
            "The query does not see itself",
            "A query may look at its own token.",
            _mask(
                lambda t, j, segment, memory: (
                    (j < t) & (j >= t // segment * segment - memory)
                )
            ),
        ),
        Misconception(
            "Rows and columns are exchanged",
            "The first axis is queries.",
            lambda tokens, segment, memory: seen(tokens, segment, memory).T,
        ),
        Misconception(
            "The memory is counted in segments",
            "`memory` is a number of tokens.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t) & (j // segment >= t // segment - memory)
                )
            ),
        ),
        Misconception(
            "The key's segment is taken",
            "It is the query's segment that says how far the memory goes.",
            _mask(
                lambda t, j, segment, memory: (
                    (j <= t) & (j // segment * segment >= t - memory)
                )
            ),
        ),
    ),
    properties=(
        Property(
            "With segments of one token it is a window",
            lambda answer, tokens, segment, memory: torch.equal(
                answer(6, 1, 2), torch.ones(6, 6).tril().triu(-2).bool()
            ),
        ),
    ),
)


# disentangled-attention-6: the first token untied


def untie(content, positional, theta, d):
    """TUPE-A's logits ``[tokens, tokens]`` of one head."""
    z = positional / np.sqrt(2 * d)
    z[:, 0] = theta[1]
    z[0] = theta[0]
    return content / np.sqrt(2 * d) + z


def _untie_case(tokens, d):
    return *draw(2, tokens, tokens), draw(2), d


def _untied(change, root=2):
    """A version of the positional part, which ``change`` writes into."""

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


def _own_kept(z, theta, d):
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
`content` has the products $q_i^\top k_j$ and `positional` the products $(U_Q P_i)^\top (U_K P_j)$, both `[tokens, tokens]` and not yet divided by anything; `theta` is $(\theta_1, \theta_2)$.
Return TUPE-A's logits of a head of `d` features, `[tokens, tokens]`.
Which of the two numbers can the softmax afterwards not see?
""",
    hint=r"""
What is replaced is the positional part alone. Who wins at query 0 and key 0?
""",
    cases=(_untie_case(2, 2), _untie_case(3, 4), _untie_case(6, 8)),
    solution=untie,
    misconceptions=(
        Misconception(
            "θ₁ and θ₂ are exchanged",
            "θ₁ is what the first *query* has, in its whole row.",
            _untied(_swapped),
        ),
        Misconception(
            "The column wins in the corner",
            "At query 0 and key 0 the row's number stands, θ₁.",
            _untied(_column_last),
        ),
        Misconception(
            "The corner is left as it was",
            "The whole row of query 0 is θ₁, its own key included.",
            _untied(_own_kept),
        ),
        Misconception(
            "θ is divided, too",
            "Only products are divided; θ₁ and θ₂ stand as they are.",
            _untied(_divided),
        ),
        Misconception(
            "Both numbers are left out",
            "Row and column 0 have θ₁ and θ₂, not 0.",
            _untied(lambda z, theta, d: _set(z, 0.0, 0.0)),
        ),
        Misconception(
            "θ is added",
            "Row and column are *reset*: what was there is gone.",
            _untied(_added),
        ),
        Misconception(
            "The column is not reset",
            "The other queries see the first key by θ₂.",
            _untied(_row_alone),
        ),
        Misconception(
            "The row is not reset",
            "The first query sees all keys by θ₁.",
            _untied(_column_alone),
        ),
        Misconception(
            "The contents are reset, too",
            "Only what positions say is replaced; q · k stays.",
            _everything,
        ),
        Misconception(
            "This is divided by √d",
            "Two products are added, and so √(2d).",
            _untied(lambda z, theta, d: _set(z, *theta), root=1),
        ),
        Misconception(
            "The first token is tied",
            "Row and column 0 have numbers of their own.",
            _untied(lambda z, theta, d: None),
        ),
        Misconception(
            "The last token is untied",
            "The class token is the first one.",
            _untied(_last_token),
        ),
        Misconception(
            "Positions are not divided",
            "Both products are divided by √(2d).",
            lambda content, positional, theta, d: untie(
                content, positional * math.sqrt(2 * d), theta, d
            ),
        ),
        Misconception(
            "Positions are left out",
            "Between all other tokens the positional products count.",
            lambda content, positional, theta, d: untie(
                content, 0 * positional, theta, d
            ),
        ),
    ),
    properties=(
        Property(
            "The first row less the contents is one number",
            lambda answer, content, positional, theta, d: (
                np.ptp(
                    (answer(content.copy(), positional.copy(), theta, d))[0]
                    - content[0] / np.sqrt(2 * d)
                )
                < 1e-12
            ),
        ),
    ),
)


# disentangled-attention-7: how far back?


def back(token, layers, segment, memory):
    """How many tokens back the oldest input is that an output depends on."""
    oldest = token
    for _ in range(layers):
        oldest = max(oldest // segment * segment - memory, 0)
    return token - oldest


BACK = Exercise(
    name="disentangled-attention-7",
    title="How far back?",
    kind="experiment",
    minutes=12,
    lines=4,
    statement=r"""
A stack of `layers` layers reads a text in segments of `segment` tokens, each layer with a memory of the last `memory` tokens before the segment.
Token `token` (from 0) has an output: how many tokens back is the oldest input that it depends on?
Predict before you run: segments of 4, three layers, token 60, with a memory of 4; and with one of 5?
""",
    hint=r"""
One layer leads to the oldest token of the memory. Of which segment is that, and where does that segment's memory begin?
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
    solution=back,
    misconceptions=(
        Misconception(
            "Layers times memory",
            "That is right for segments of one token. Else a layer first reaches to "
            "the beginning of its segment.",
            lambda token, layers, segment, memory: min(layers * memory, token),
        ),
        Misconception(
            "Layers times segment",
            "The paper's O(N × L) is an order of magnitude, with memories as long as "
            "segments.",
            lambda token, layers, segment, memory: min(layers * segment, token),
        ),
        Misconception(
            "Only one layer is counted",
            "What the memory holds are outputs of the layer below, which have seen "
            "older ones.",
            lambda token, layers, segment, memory: back(token, 1, segment, memory),
        ),
        Misconception(
            "The beginning of the text is passed",
            "There is nothing before token 0.",
            lambda token, layers, segment, memory: (
                memory
                + (layers - 1) * segment * -(-memory // segment)
                + token % segment
            ),
        ),
        Misconception(
            "Later layers go back by the memory alone",
            "The oldest token of the memory belongs to a segment, and its memory "
            "begins before *that*.",
            lambda token, layers, segment, memory: min(
                layers * memory + token % segment, token
            ),
        ),
        Misconception(
            "The place in the segment is counted for each layer",
            "A layer below begins at the oldest token of a memory, which has another "
            "place in its segment.",
            lambda token, layers, segment, memory: min(
                layers * (memory + token % segment), token
            ),
        ),
        Misconception(
            "A window slides",
            "Where in its segment a token stands counts as well.",
            lambda token, layers, segment, memory: min(
                layers * (segment + memory - 1), token
            ),
        ),
        Misconception(
            "This is the oldest token itself",
            "How many tokens *back* is it?",
            lambda token, layers, segment, memory: (
                token - back(token, layers, segment, memory)
            ),
        ),
        Misconception(
            "One layer too many",
            "One layer reaches to the oldest token of its own memory.",
            lambda token, layers, segment, memory: back(
                token, layers + 1, segment, memory
            ),
        ),
        Misconception(
            "Only whole segments are remembered",
            "A memory of 5 tokens begins in the middle of a segment.",
            lambda token, layers, segment, memory: back(
                token, layers, segment, memory // segment * segment
            ),
        ),
        Misconception(
            "The memory is rounded up to segments",
            "In the first layer it ends where it ends.",
            lambda token, layers, segment, memory: back(
                token, layers, segment, -(-memory // segment) * segment
            ),
        ),
        Misconception(
            "Tokens are counted, not steps",
            "The token before is one back: 60 and 59 are one apart.",
            lambda token, layers, segment, memory: (
                back(token, layers, segment, memory) + 1
            ),
        ),
    ),
    properties=(
        Property(
            "With segments of one token every layer adds a memory",
            lambda answer, token, layers, segment, memory: answer(90, 4, 1, 7) == 28,
        ),
    ),
)


SHEET = Sheet(
    title="Four terms",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0, and $d$ the features of a head. The last of the queries stands at the last of the keys.
""",
    exercises=(COLUMN, LOGIT, SHIFT, DEBERTA, SEEN, UNTIE, BACK),
)
