"""The exercises on CoPE."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# cope-1: all gates alike


def count(i, j, gate, npos):
    """The position p_ij of key j for query i if every gate is ``gate``."""
    return sp.Min(gate * (i - j + 1), npos - 1)


COUNT = Exercise(
    name="cope-1",
    title="All gates alike",
    kind="by hand",
    minutes=4,
    lines=1,
    statement=r"""
Let every gate of the query $i$ be equal to `gate`, a number from 0 to 1.
Return the position $p_{ij}$ of key $j$ for a table of `npos` columns, two or more, exactly: `gate` is a SymPy number.
What does it say for open gates, `gate` = 1?
""",
    hint=r"""
How many keys are there from $j$ to $i$, both included? And what is the largest position that the table has?
""",
    cases=(
        (0, 0, sp.Integer(1), 4),
        (3, 1, sp.Integer(0), 4),
        (3, 2, sp.Rational(1, 2), 4),
        (4, 2, sp.Rational(1, 2), 4),
        (6, 1, sp.Integer(1), 4),
        (7, 0, sp.Integer(1), 4),
        (9, 0, sp.Rational(1, 4), 8),
    ),
    solution=count,
    misconceptions=(
        Misconception(
            "This is the distance",
            "i − j counts the steps from the key to the query. CoPE counts tokens, and "
            "both ends are among them: what does a token count for itself?",
            lambda i, j, gate, npos: sp.Min(gate * (i - j), npos - 1),
        ),
        Misconception(
            "The largest position is one too large",
            "A table of npos columns has positions from 0 on. Which is its last?",
            lambda i, j, gate, npos: sp.Min(gate * (i - j + 1), npos),
        ),
        Misconception(
            "Positions go on beyond the table",
            "The table has npos columns; what is farther than the last shares it.",
            lambda i, j, gate, npos: gate * (i - j + 1),
        ),
        Misconception(
            "The keys older than j are counted",
            "From the first token to the key is an absolute position, the same for "
            "every query. CoPE counts what lies between the key and the query.",
            lambda i, j, gate, npos: sp.Min(gate * (j + 1), npos - 1),
        ),
        Misconception(
            "The position is rounded down",
            "A gate may be a half, and so may a position: that is why the table is "
            "interpolated.",
            lambda i, j, gate, npos: sp.floor(sp.Min(gate * (i - j + 1), npos - 1)),
        ),
        Misconception(
            "The gate is left out",
            "That is the position when all gates are open. A gate of ½ counts half "
            "a token.",
            lambda i, j, gate, npos: sp.Min(i - j + 1, npos - 1),
        ),
        Misconception(
            "The count is cut off before the gate",
            "Gates are summed first; it is the sum that may not exceed the table.",
            lambda i, j, gate, npos: gate * sp.Min(i - j + 1, npos - 1),
        ),
        Misconception(
            "Neither end is counted",
            "i − j − 1 tokens lie strictly between. CoPE counts both ends.",
            lambda i, j, gate, npos: sp.Min(gate * sp.Max(i - j - 1, 0), npos - 1),
        ),
        Misconception(
            "The position is rounded up",
            "A gate may be a half, and so may a position: that is why the table is "
            "interpolated.",
            lambda i, j, gate, npos: sp.ceiling(sp.Min(gate * (i - j + 1), npos - 1)),
        ),
        Misconception(
            "The larger of the two is taken",
            "The table *limits* the position.",
            lambda i, j, gate, npos: sp.Max(gate * (i - j + 1), npos - 1),
        ),
        Misconception(
            "The gates are multiplied",
            "Positions are sums of gates: three gates of ½ count 1½ tokens.",
            lambda i, j, gate, npos: sp.Min(gate ** (i - j + 1), npos - 1),
        ),
        Misconception(
            "The largest position is one too small",
            "A table of npos columns has positions 0 … npos − 1.",
            lambda i, j, gate, npos: sp.Min(gate * (i - j + 1), npos - 2),
        ),
        Misconception(
            "All tokens up to the query are counted",
            "The count starts at the key: older tokens do not lie between.",
            lambda i, j, gate, npos: sp.Min(gate * (i + 1), npos - 1),
        ),
        Misconception(
            "The key's end is not counted, and there is no limit",
            "CoPE counts both ends, and what is farther than the last column shares "
            "it.",
            lambda i, j, gate, npos: gate * (i - j),
        ),
        Misconception(
            "The key's end is not counted, and the last column is one too far",
            "CoPE counts both ends, and a table of npos columns ends at npos − 1.",
            lambda i, j, gate, npos: sp.Min(gate * (i - j), npos),
        ),
        Misconception(
            "The keys after the query are counted",
            "j ≤ i: the count goes from the key to the query.",
            lambda i, j, gate, npos: sp.Max(0, sp.Min(gate * (j - i + 1), npos - 1)),
        ),
        Misconception(
            "Indices are added",
            "How many keys are there from j to i?",
            lambda i, j, gate, npos: sp.Min(gate * (i + j + 1), npos - 1),
        ),
        Misconception(
            "The position begins again beyond the table",
            "What is farther than the last column shares it.",
            lambda i, j, gate, npos: sp.Mod(gate * (i - j + 1), npos),
        ),
        Misconception(
            "The 1 is not gated",
            "The gate of the last token counts as all the others.",
            lambda i, j, gate, npos: sp.Min(gate * (i - j) + 1, npos - 1),
        ),
        Misconception(
            "Positions are counted from the other end of the table",
            "Near keys have small positions.",
            lambda i, j, gate, npos: npos - 1 - sp.Min(gate * (i - j + 1), npos - 1),
        ),
        Misconception(
            "A token too many is counted",
            "From j to i there are i − j steps, and one token more than steps.",
            lambda i, j, gate, npos: sp.Min(gate * (i - j + 2), npos - 1),
        ),
    ),
    properties=(
        Property(
            "Closed gates leave every key at position 0",
            lambda answer, i, j, gate, npos: answer(i, j, sp.Integer(0), npos) == 0,
        ),
    ),
)


# cope-2: from the key to the query


def positions(logits, npos):
    """p_ij of gate logits, ``[queries, keys]``; 0 above the diagonal."""
    gates = np.tril(1 / (1 + np.exp(-logits)))
    counted = np.cumsum(gates[:, ::-1], axis=1)[:, ::-1]
    return np.minimum(counted, npos - 1)


def _gates(logits):
    return np.tril(1 / (1 + np.exp(-logits)))


def _counted(gates):
    return np.cumsum(gates[:, ::-1], axis=1)[:, ::-1]


def _own_gates(logits):
    return np.diag(_gates(logits))


def _token_wise(logits, npos):
    c = np.cumsum(_own_gates(logits))
    since_key = c[:, None] - c + _own_gates(logits)
    return np.minimum(np.tril(since_key), npos - 1)


def _limited(counted):
    """Positions of gates, counted as ``counted(gates)`` says and cut off."""
    return lambda logits, npos: np.minimum(counted(_gates(logits)), npos - 1)


POSITIONS = Exercise(
    name="cope-2",
    title="From the key to the query",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
`logits[i, j]` is the gate logit of query $i$ and key $j$, `[n, n]`.
Return all positions $p_{ij}$ as an array `[n, n]`, with 0 where $j > i$.
`npos` is the number of columns of the table.
""",
    hint=r"""
`np.tril` closes the gates of the future. `np.cumsum` sums from the left; turn the rows round before and after it.
""",
    cases=(
        (draw(2, 2), 8),
        (draw(4, 4), 3),
        (draw(7, 7) + 1, 3),
    ),
    solution=positions,
    misconceptions=(
        Misconception(
            "The sum runs over older keys",
            "This counts from the first key up to key j, so the nearest keys get the "
            "largest positions. Count the other way: from the key to the query.",
            lambda logits, npos: np.minimum(
                np.cumsum(_gates(logits), axis=1), npos - 1
            ),
        ),
        Misconception(
            "Each token has one position for all queries",
            "A gate belongs to a query and a key. One gate for each token, summed from "
            "the start, gives an absolute position that no query can choose.",
            lambda logits, npos: np.minimum(
                np.tril(np.broadcast_to(np.cumsum(_own_gates(logits)), logits.shape)),
                npos - 1,
            ),
        ),
        Misconception(
            "Each token has one gate for all queries",
            "A difference of cumulative sums is how FoX counts. Here another query "
            "sees other gates on the same keys, so no one list of gates will do.",
            _token_wise,
        ),
        Misconception(
            "The key's own gate is left out",
            "The sum includes both ends. The nearest key of each query is its own "
            "token: its position is that token's gate, not 0.",
            lambda logits, npos: np.minimum(
                _counted(_gates(logits)) - _gates(logits), npos - 1
            ),
        ),
        Misconception(
            "The query's own gate is left out",
            "The sum includes both ends: the query's own key is counted as well.",
            lambda logits, npos: np.minimum(
                _counted(np.tril(_gates(logits), -1)), npos - 1
            ),
        ),
        Misconception(
            "Keys after the query are counted",
            "Their gates must be closed before anything is summed; a mask on the "
            "attention weights comes too late.",
            lambda logits, npos: np.minimum(
                _counted(1 / (1 + np.exp(-logits))), npos - 1
            ),
        ),
        Misconception(
            "The sum runs over queries",
            "A row belongs to one query. It adds up its own gates, along the keys.",
            lambda logits, npos: np.minimum(
                np.cumsum(_gates(logits), axis=0), npos - 1
            ),
        ),
        Misconception(
            "The largest position is one too large",
            "The columns of the table are numbered from 0. What is the last number?",
            lambda logits, npos: np.minimum(_counted(_gates(logits)), npos),
        ),
        Misconception(
            "Positions go on beyond the table",
            "There are npos columns, however many keys there are.",
            lambda logits, npos: _counted(_gates(logits)),
        ),
        Misconception(
            "The sigmoid is missing",
            "Logits are any numbers. Gates are between 0 and 1, which is what makes "
            "positions grow away from the query.",
            lambda logits, npos: np.minimum(_counted(np.tril(logits)), npos - 1),
        ),
        Misconception(
            "The gates say how much a token is *not* counted",
            "σ has its minus in the exponent: large logits open the gate.",
            lambda logits, npos: positions(-logits, npos),
        ),
        Misconception(
            "Keys after the query are counted, and then hidden",
            "Zeros above the diagonal come too late: the sums to the left of it "
            "have already counted the future.",
            lambda logits, npos: np.tril(
                np.minimum(_counted(1 / (1 + np.exp(-logits))), npos - 1)
            ),
        ),
        Misconception(
            "The rows were not turned back",
            "The sums are right and stand in reverse order.",
            _limited(lambda g: np.cumsum(g[:, ::-1], axis=1)),
        ),
        Misconception(
            "These are the gates of the future",
            "`np.triu` keeps keys after the query. The past is what counts.",
            lambda logits, npos: np.minimum(
                _counted(np.triu(1 / (1 + np.exp(-logits)))), npos - 1
            ),
        ),
        Misconception(
            "All keys of a row have one position",
            "This is the sum of the whole row. Key j counts from itself to the "
            "query only.",
            _limited(
                lambda g: np.tril(np.broadcast_to(g.sum(1, keepdims=True), g.shape))
            ),
        ),
        Misconception(
            "These are the gates, not their sums",
            "A position is the sum of all gates from the key to the query.",
            _limited(lambda g: g),
        ),
        Misconception(
            "These are distances",
            "They are the positions when all gates are open. A gate counts as much "
            "as it is open.",
            _limited(
                lambda g: np.tril(np.arange(len(g))[:, None] - np.arange(len(g)) + 1.0)
            ),
        ),
        Misconception(
            "The sums are rounded",
            "Gates are fractions, and so are positions: the table is interpolated.",
            lambda logits, npos: np.round(positions(logits, npos)),
        ),
        Misconception(
            "The sums are rounded down",
            "Gates are fractions, and so are positions: the table is interpolated.",
            lambda logits, npos: np.floor(positions(logits, npos)),
        ),
        Misconception(
            "The older keys are left out and the newer too",
            "A position sums the gates between key and query, with both ends.",
            _limited(lambda g: np.maximum(_counted(np.tril(g, -1)) - g, 0)),
        ),
        Misconception(
            "The sums run over later queries",
            "A row belongs to one query. It adds up its own gates, along the keys.",
            _limited(lambda g: np.cumsum(g[::-1], axis=0)[::-1]),
        ),
        Misconception(
            "The positions begin again beyond the table",
            "What is farther than the last column shares it.",
            lambda logits, npos: _counted(_gates(logits)) % npos,
        ),
        Misconception(
            "The sum runs over older keys, and the future is hidden after it",
            "This counts from the first key up to key j. Count from the key to the "
            "query.",
            lambda logits, npos: np.tril(
                np.minimum(np.cumsum(1 / (1 + np.exp(-logits)), axis=1), npos - 1)
            ),
        ),
        Misconception(
            "A gate can be negative",
            "The sigmoid is between 0 and 1, the tanh between −1 and 1.",
            lambda logits, npos: np.minimum(
                _counted(np.tril(np.tanh(logits))), npos - 1
            ),
        ),
        Misconception(
            "The sum runs over the queries",
            "Rows are queries. The position is a sum along a row: over the "
            "keys from j to the query.",
            lambda logits, npos: np.tril(
                np.minimum(np.cumsum(_gates(logits)[::-1], axis=0)[::-1], npos - 1)
            ),
        ),
        Misconception(
            "Masked logits are 0, and their gates ½",
            "A gate of the future has to be 0: close it after the sigmoid.",
            lambda logits, npos: np.tril(
                np.minimum(
                    np.cumsum((1 / (1 + np.exp(-np.tril(logits))))[:, ::-1], axis=1)[
                        :, ::-1
                    ],
                    npos - 1,
                )
            ),
        ),
    ),
    properties=(
        Property(
            "Above the diagonal everything is 0",
            lambda answer, logits, npos: not np.triu(answer(logits, npos), 1).any(),
        ),
        Property(
            "Along a row positions do not grow towards the query",
            lambda answer, logits, npos: bool(
                (np.diff(answer(logits, npos)) <= 1e-12).all()
            ),
        ),
        Property(
            "No position is above npos − 1",
            lambda answer, logits, npos: bool(
                (answer(logits, npos) <= npos - 1 + 1e-12).all()
            ),
        ),
    ),
)


# cope-3: between two columns


def interpolate(u, p):
    """The numbers ``u`` of columns 0, 1, … at the real position ``p`` ≥ 0."""
    p = sp.Min(p, len(u) - 1)
    low, high = sp.floor(p), sp.ceiling(p)
    return (p - low) * u[high] + (1 - p + low) * u[low]


_U = sp.symbols("u0:4", real=True)


def _last(u):
    return sp.Integer(len(u) - 1)


def _swapped(u, p):
    p = sp.Min(p, _last(u))
    low, high = sp.floor(p), sp.ceiling(p)
    return (p - low) * u[low] + (1 - p + low) * u[high]


def _extrapolated(u, p):
    cell = sp.Min(sp.floor(p), _last(u) - 1)
    return u[cell] + (p - cell) * (u[cell + 1] - u[cell])


def _between(value):
    """An answer that is given the fraction and the two numbers beside p."""

    def answer(u, p):
        p = sp.Min(p, _last(u))
        low, high = sp.floor(p), sp.ceiling(p)
        return value(p, p - low, u[low], u[high])

    return answer


def _fraction_added(u, p):
    p = sp.Min(p, len(u) - 1)
    low = sp.floor(p)
    return u[low] + (p - low) * u[sp.ceiling(p)]


INTERPOLATE = Exercise(
    name="cope-3",
    title="Between two columns",
    kind="SymPy",
    minutes=6,
    lines=3,
    statement=r"""
`u` is a tuple with one SymPy symbol a column, $u_0, u_1, …$; `p` ≥ 0 is a fraction or an integer of SymPy's, and may lie beyond the table.
Return CoPE's interpolated value $u[p]$, exactly.
""",
    hint=r"""
Bring `p` into the table first. Then `sp.floor`, `sp.ceiling`, and two weights that sum to 1.
""",
    cases=(
        (_U[:2], sp.Integer(0)),
        (_U[:2], sp.Rational(1, 4)),
        (_U, sp.Integer(2)),
        (_U, sp.Rational(8, 3)),
        (_U, sp.Rational(7, 2)),
        (_U, sp.Rational(9, 2)),
    ),
    solution=interpolate,
    misconceptions=(
        Misconception(
            "Floor and ceiling are swapped",
            "At p = 2¼ column 2 is the nearer one and must weigh more: which of the "
            "two weights does the fraction ¼ belong to?",
            _swapped,
        ),
        Misconception(
            "The position is rounded to the nearest column",
            "Then the value would jump, and the gates would get no gradient anywhere.",
            lambda u, p: u[sp.Min(sp.floor(p + sp.Rational(1, 2)), _last(u))],
        ),
        Misconception(
            "The fraction is cut off",
            "Between two columns both have a part in the value.",
            lambda u, p: u[sp.Min(sp.floor(p), _last(u))],
        ),
        Misconception(
            "The last line goes on beyond the table",
            "What is farther than the last column gets the last column's value.",
            _extrapolated,
        ),
        Misconception(
            "The first column is taken for position 1",
            "Position 0 needs a column too: it is where keys stand when all gates are "
            "closed.",
            lambda u, p: interpolate(u, sp.Max(p - 1, 0)),
        ),
        Misconception(
            "One weight is 1 − p",
            "The weights are the fraction of p and one minus that *fraction*.",
            _between(lambda p, t, low, high: t * high + (1 - p) * low),
        ),
        Misconception(
            "The position itself is a weight",
            "Only its fraction says how far one is from column ⌊p⌋ to column ⌈p⌉.",
            _between(lambda p, t, low, high: p * high + (1 - p) * low),
        ),
        Misconception(
            "Both columns weigh a half",
            "How near is p to each of them?",
            _between(lambda p, t, low, high: (low + high) / 2),
        ),
        Misconception(
            "The next column is taken",
            "Between two columns both have a part in the value.",
            _between(lambda p, t, low, high: high),
        ),
        Misconception(
            "Only the difference is left",
            "This is what has to be added to the value of column ⌊p⌋.",
            _between(lambda p, t, low, high: t * (high - low)),
        ),
        Misconception(
            "The position goes round",
            "What is farther than the last column gets the last column's value; it "
            "does not begin again.",
            lambda u, p: interpolate(u, p % len(u)),
        ),
        Misconception(
            "Beyond the table the value is 0",
            "What is farther than the last column gets the last column's value.",
            lambda u, p: interpolate(u, p) if p <= len(u) - 1 else sp.Integer(0),
        ),
        Misconception(
            "The weight of the next column is missing",
            "The two weights sum to 1.",
            _between(lambda p, t, low, high: (1 - t) * low + high),
        ),
        Misconception(
            "At a whole position the value is 0",
            "⌈p⌉ − p and p − ⌊p⌋ are both 0 there. Which two weights always sum to 1?",
            _between(lambda p, t, low, high: t * high + (sp.ceiling(p) - p) * low),
        ),
        Misconception(
            "The weights are exchanged, and both vanish at a whole position",
            "At p = 2¼ column 2 is the nearer one. And two weights must always sum "
            "to 1.",
            _between(lambda p, t, low, high: t * low + (sp.ceiling(p) - p) * high),
        ),
        Misconception(
            "The two columns are added, not subtracted",
            "From column ⌊p⌋ one goes a part of the way to the next: what is the "
            "whole way?",
            _between(lambda p, t, low, high: low + t * (high + low)),
        ),
        Misconception(
            "Only the left column has a part",
            "Between two columns both have, and the weights sum to 1.",
            _between(lambda p, t, low, high: t * low),
        ),
        Misconception(
            "Only the left column has a part, the nearer the larger",
            "Between two columns both have, and the weights sum to 1.",
            _between(lambda p, t, low, high: (1 - t) * low),
        ),
        Misconception(
            "The fraction is added to the whole lower number",
            "A mean's shares sum to 1: what the upper number gets the lower one loses.",
            _fraction_added,
        ),
        Misconception(
            "The columns go round",
            "What is farther than the last column gets the last column's value.",
            lambda u, p: (
                (p - sp.floor(p)) * u[sp.ceiling(p) % len(u)]
                + (1 - p + sp.floor(p)) * u[sp.floor(p) % len(u)]
            ),
        ),
    ),
)


# cope-4: a head of CoPE


def cope_weights(q, k, table):
    """The weights ``[n, n]`` of one causal head, everything divided by √d."""
    n, d = q.shape
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    content = q @ k.T / d**0.5
    gates = content.sigmoid() * causal
    p = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=table.shape[1] - 1)
    u = q @ table / d**0.5
    low = p.floor()
    bias = torch.lerp(u.gather(1, low.long()), u.gather(1, p.ceil().long()), p - low)
    return (content + bias).masked_fill(~causal, -torch.inf).softmax(-1)


def _head(q, k, table, *, content=1.0, gates=1.0, bias=1.0, count=None, swap=False):
    """One head whose content, gate logits and bias are multiplied by what is given."""
    causal = torch.ones(len(q), len(q), dtype=torch.bool).tril()
    products = q @ k.T
    g = (products * gates).sigmoid() * causal
    p = (count or _since_key)(g).clamp(max=table.shape[1] - 1)
    u = q @ table * bias
    low, high = u.gather(1, p.floor().long()), u.gather(1, p.ceil().long())
    if swap:
        low, high = high, low
    logits = products * content + torch.lerp(low, high, p - p.floor())
    return logits.masked_fill(~causal, -torch.inf).softmax(-1)


def _since_key(gates):
    return gates.flip(-1).cumsum(-1).flip(-1)


def _since_key_by_token(gates):
    own = gates.diagonal()
    c = own.cumsum(0)
    return (c[:, None] - c + own).tril()


def _with_roots(**powers):
    """A head in which each part is multiplied by its power of √d."""

    def answer(q, k, table):
        root = q.shape[-1] ** 0.5
        return _head(q, k, table, **{part: root**n for part, n in powers.items()})

    return answer


def _counting(count=None, swap=False):
    def answer(q, k, table):
        s = q.shape[-1] ** -0.5
        return _head(q, k, table, content=s, gates=s, bias=s, count=count, swap=swap)

    return answer


def _head_case(n, d, npos):
    return tuple(map(torch.tensor, (*draw(2, n, d), draw(d, npos))))


def _later(axis=-1):
    """Everything as it should be, with the mask or the softmax elsewhere."""

    def answer(q, k, table):
        z = _all_logits(q, k, table)
        causal = torch.ones_like(z, dtype=torch.bool).tril()
        return z.masked_fill(~causal, -torch.inf).softmax(axis)

    return answer


def _all_logits(q, k, table, gates=None, closed=True, columns=None, beside=None):
    """The logits before the mask, of other gates, columns or vectors if given."""
    z = q @ k.T / q.shape[-1] ** 0.5
    g = z.sigmoid() if gates is None else gates(z)
    p = _since_key(g.tril() if closed else g).clamp(max=table.shape[1] - 1)
    u = (q if beside is None else beside(q, k)) @ table / q.shape[-1] ** 0.5
    low, high = u.gather(1, p.floor().long()), u.gather(1, p.ceil().long())
    if columns is not None:
        return z + u.gather(1, columns(p).long())
    return z + torch.lerp(low, high, p - p.floor())


def _causal_softmax(z):
    return z.masked_fill(
        torch.ones_like(z, dtype=torch.bool).triu(1), -torch.inf
    ).softmax(-1)


def _with_logits(**changed):
    return lambda q, k, table: _causal_softmax(_all_logits(q, k, table, **changed))


WEIGHTS = Exercise(
    name="cope-4",
    title="A head of CoPE",
    kind="PyTorch",
    minutes=15,
    lines=9,
    statement=r"""
`q` and `k` are `[n, d]`, `table` is `[d, npos]`.
Return the attention weights of a CoPE head, `[n, n]`, as the authors' code has them by default: the gates reuse the content logits, and *content, gate logits and bias* are all divided by $\sqrt d$.
""",
    hint=r"""
Interpolate numbers, not vectors: `u = q @ table` has one number for each query and column, and `u.gather(1, index)` picks them. `torch.lerp` is the rest of the interpolation.
""",
    cases=(_head_case(3, 4, 4), _head_case(6, 8, 3)),
    solution=cope_weights,
    misconceptions=(
        Misconception(
            "The table's part is not divided by √d",
            "This is the paper's listing, and the option cope_nodiv of the authors' "
            "code. Their default divides the sum of content and bias.",
            _with_roots(content=-1, gates=-1, bias=0),
        ),
        Misconception(
            "Nothing is divided by √d",
            "So the paper prints its formulas. The authors' code divides.",
            _with_roots(content=0, gates=0, bias=0),
        ),
        Misconception(
            "The gates are not divided by √d",
            "The gates reuse the content logits as they are when they enter softmax. "
            "Undivided they saturate much sooner.",
            _with_roots(content=-1, gates=0, bias=-1),
        ),
        Misconception(
            "The table's part is divided twice",
            "Once √d has divided it there is nothing left to divide: q · e is an inner "
            "product of d terms like any other.",
            _with_roots(content=-1, gates=-1, bias=-2),
        ),
        Misconception(
            "Floor and ceiling are swapped",
            "The bias would jump at every whole position. Which column is near when "
            "the fraction is small?",
            _counting(swap=True),
        ),
        Misconception(
            "The sum runs over older keys",
            "Positions are counted from the key to the query, so the query's own key "
            "has the smallest.",
            _counting(lambda g: g.cumsum(-1)),
        ),
        Misconception(
            "The key's own gate is left out",
            "The sum has both ends: the key j and the query's own key i.",
            _counting(lambda g: _since_key(g) - g),
        ),
        Misconception(
            "Each token has one gate for all queries",
            "A gate compares this query with that key. Gates of tokens, in cumulative "
            "sums, are FoX's.",
            _counting(_since_key_by_token),
        ),
        Misconception(
            "The bias is left out",
            "These are the weights without any position, as they are while the table "
            "is zero.",
            lambda q, k, table: cope_weights(q, k, 0 * table),
        ),
        Misconception(
            "Later keys are not hidden",
            "Their gates are closed, and their weights must vanish as well.",
            lambda q, k, table: _all_logits(q, k, table).softmax(-1),
        ),
        Misconception(
            "Gates after the query are open",
            "They are counted in every position of the row. The mask on the logits "
            "comes too late for them.",
            _with_logits(closed=False),
        ),
        Misconception(
            "The softmax runs over the queries",
            "A query shares its weight among the keys: rows sum to one.",
            _later(axis=0),
        ),
        Misconception(
            "Hidden keys count in the sum",
            "Weights above the diagonal were set to zero after the softmax. They "
            "must not take part in it.",
            lambda q, k, table: _all_logits(q, k, table).softmax(-1).tril(),
        ),
        Misconception(
            "The position is rounded down",
            "Between two columns both have a part in the bias.",
            _with_logits(columns=torch.floor),
        ),
        Misconception(
            "The position is rounded up",
            "Between two columns both have a part in the bias.",
            _with_logits(columns=torch.ceil),
        ),
        Misconception(
            "The position is rounded to the nearest column",
            "Between two columns both have a part in the bias; else the gates would "
            "get no gradient.",
            _with_logits(columns=torch.round),
        ),
        Misconception(
            "The sigmoid is missing",
            "Gates are between 0 and 1; logits are not.",
            lambda q, k, table: _causal_softmax(
                _all_logits(q, k, table, gates=lambda z: z.clamp(min=0))
            ),
        ),
        Misconception(
            "All gates are open",
            "These are distances. The gates are what lets CoPE count some tokens only.",
            _with_logits(gates=torch.ones_like),
        ),
        Misconception(
            "The keys meet the table",
            "The bias is q · e[p]: the query's.",
            _with_logits(beside=lambda q, k: k),
        ),
        Misconception(
            "The content is left out of the logits",
            "They are the sum of q · k and of the bias.",
            lambda q, k, table: _causal_softmax(
                _all_logits(q, k, table) - q @ k.T / q.shape[-1] ** 0.5
            ),
        ),
        Misconception(
            "The bias is added to the weights",
            "It is added to the logits, before the softmax.",
            lambda q, k, table: (
                _causal_softmax(q @ k.T / q.shape[-1] ** 0.5)
                + (_all_logits(q, k, table) - q @ k.T / q.shape[-1] ** 0.5).tril()
            ),
        ),
        Misconception(
            "Queries and keys are exchanged",
            "Row i belongs to query i: q @ k.T.",
            lambda q, k, table: cope_weights(k, q, table),
        ),
        Misconception(
            "Divided by d, not by its root",
            "Content, gates and bias are divided by √d.",
            _with_roots(content=-2, gates=-2, bias=-2),
        ),
        Misconception(
            "The query's own gate is left out",
            "The sum has both ends: the key j and the query's own key i.",
            _counting(lambda g: _since_key(g.tril(-1))),
        ),
        Misconception(
            "These are distances, without gates",
            "The gates are what lets CoPE count some tokens only.",
            lambda q, k, table: _causal_softmax(
                _all_logits(
                    q,
                    k,
                    table,
                    gates=torch.ones_like,
                    columns=lambda p: (
                        torch.arange(len(q))[:, None] - torch.arange(len(q))
                    ).clamp(0, table.shape[1] - 1),
                )
            ),
        ),
        Misconception(
            "The gates are softmax weights",
            "A gate is a sigmoid: it does not compete with the others.",
            lambda q, k, table: _causal_softmax(
                _all_logits(q, k, table, gates=_causal_softmax)
            ),
        ),
        Misconception(
            "Hidden logits are 0",
            "e^0 = 1: hidden keys get weight. The mask is −∞.",
            lambda q, k, table: _all_logits(q, k, table).tril().softmax(-1),
        ),
        Misconception(
            "The content is not divided by √d",
            "All three are: content, gate logits and bias.",
            _with_roots(content=0, gates=-1, bias=-1),
        ),
        Misconception(
            "Only the gates are divided by √d",
            "All three are: content, gate logits and bias.",
            _with_roots(content=0, gates=-1, bias=0),
        ),
        Misconception(
            "Only the content is divided by √d",
            "All three are: content, gate logits and bias.",
            _with_roots(content=-1, gates=0, bias=0),
        ),
        Misconception(
            "Only the bias is divided by √d",
            "All three are: content, gate logits and bias.",
            _with_roots(content=0, gates=0, bias=-1),
        ),
        Misconception(
            "The gates are taken for positions",
            "A position is the *sum* of the gates from the key to the query.",
            _counting(lambda g: g),
        ),
        Misconception(
            "The content is divided twice",
            "Once √d has divided q · k there is nothing left to divide.",
            _with_roots(content=-2, gates=-1, bias=-1),
        ),
    ),
    properties=(
        Property(
            "Every row sums to 1",
            lambda answer, q, k, table: torch.allclose(
                answer(q, k, table).sum(-1), torch.ones(len(q)).double()
            ),
        ),
        Property(
            "Keys after the query get nothing",
            lambda answer, q, k, table: not answer(q, k, table).triu(1).any(),
        ),
    ),
)


# cope-5: the k-th last mark


def kth_last(marked, k, sharp):
    """The last query's weights ``[n]``: gates open on the marks, column k is sharp."""
    counted = np.cumsum(marked[::-1])[::-1]
    logits = sharp * (counted == k) + sharp * marked
    return np.exp(logits) / np.exp(logits).sum()


def _pick(chosen, marked, sharp):
    logits = sharp * chosen + sharp * marked
    return np.exp(logits) / np.exp(logits).sum()


def _marks(word):
    return np.array([letter == "x" for letter in word])


def _counted_marks(marked):
    return np.cumsum(marked[::-1])[::-1]


KTH_LAST = Exercise(
    name="cope-5",
    title="The k-th last mark",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
The last query looks for the $k$-th last marked key, for $k = 1$ the last.
`marked` says which keys are marked; the gates (with keys of their own) are 1 on these and 0 elsewhere.
The bias is `sharp` at position $k$ and 0 at all others; the content logit is `sharp` on marked keys and 0 elsewhere; the table is as long as needed, and `sharp` is small enough for `np.exp`.
Return the last query's weights, `[n]`.
Think first: which keys would the sharp column find without the content?
""",
    hint=r"""
The positions are whole numbers: sums of marks from the end.
""",
    cases=(
        (_marks("x.x."), 1, 2.0),
        (_marks("x.x..x.xx.."), 3, 4.0),
        (_marks(".x....x...x"), 2, 8.0),
    ),
    solution=kth_last,
    misconceptions=(
        Misconception(
            "A sharp column alone finds a stretch of keys",
            "An unmarked key counts nothing itself, so it has the same position as "
            "the next newer mark, and shares the weight. The content logit must tell "
            "them apart.",
            lambda marked, k, sharp: _pick(
                np.cumsum(marked[::-1])[::-1] == k, 0.0, sharp
            ),
        ),
        Misconception(
            "Tokens are counted, not marks",
            "With every gate open the position is a distance plus one. That is a "
            "relative encoding, and the mark's distance varies.",
            lambda marked, k, sharp: _pick(
                np.arange(len(marked), 0, -1) == k, marked, sharp
            ),
        ),
        Misconception(
            "The marks are counted from the oldest",
            "This is the k-th mark of the text. The sum runs from the key to the "
            "query, so the last mark has position 1.",
            lambda marked, k, sharp: _pick(np.cumsum(marked) == k, marked, sharp),
        ),
        Misconception(
            "The mark does not count itself",
            "The sum includes its key. What is the position of the last mark?",
            lambda marked, k, sharp: _pick(
                np.cumsum(marked[::-1])[::-1] - marked == k, marked, sharp
            ),
        ),
        Misconception(
            "The last mark is taken for number 0",
            "Position 0 are the keys after the last mark. The last mark has counted "
            "one: itself.",
            lambda marked, k, sharp: _pick(
                np.cumsum(marked[::-1])[::-1] == k - 1, marked, sharp
            ),
        ),
        Misconception(
            "Older marks are clamped to the same column",
            "With npos = k + 1 columns everything older than the k-th last mark has "
            "position k as well. How many columns does this head need?",
            lambda marked, k, sharp: _pick(
                np.cumsum(marked[::-1])[::-1] >= k, marked, sharp
            ),
        ),
        Misconception(
            "Only the mark at position k gets a logit",
            "Content and bias are added: a marked key at another position has its "
            "content logit, and an unmarked one at position k the bias.",
            lambda marked, k, sharp: _pick(
                (_counted_marks(marked) == k) & marked, 0.0, sharp
            ),
        ),
        Misconception(
            "The bias is left out",
            "These weights are equal on all marks.",
            lambda marked, k, sharp: _pick(0.0, marked, sharp),
        ),
        Misconception(
            "The weights are not divided by their sum",
            "Softmax: exponentials over their sum.",
            lambda marked, k, sharp: np.exp(
                sharp * (_counted_marks(marked) == k) + sharp * marked
            ),
        ),
        Misconception(
            "These are the logits",
            "They are right. Now the softmax.",
            lambda marked, k, sharp: (
                sharp * (_counted_marks(marked) == k) + sharp * marked
            ),
        ),
        Misconception(
            "The mark is picked outright",
            "With a finite sharp the other keys keep some weight: softmax of the "
            "logits.",
            lambda marked, k, sharp: ((_counted_marks(marked) == k) & marked) * 1.0,
        ),
        Misconception(
            "Unmarked keys are hidden",
            "They have the content logit 0, not −∞: their weight is small, not zero.",
            lambda marked, k, sharp: (
                _pick(_counted_marks(marked) == k, marked, sharp)
                * marked
                / (_pick(_counted_marks(marked) == k, marked, sharp) * marked).sum()
            ),
        ),
        Misconception(
            "Positions are counted without the gates",
            "Position k is the k-th *token* from the end here, and every token "
            "counts from 0.",
            lambda marked, k, sharp: _pick(
                np.arange(len(marked))[::-1] == k, marked, sharp
            ),
        ),
        Misconception(
            "Newer marks share the column",
            "The column is sharp at position k, not up to it.",
            lambda marked, k, sharp: _pick(_counted_marks(marked) <= k, marked, sharp),
        ),
        Misconception(
            "The content is multiplied with the bias",
            "Both are logits, and are added.",
            lambda marked, k, sharp: _pick(
                (_counted_marks(marked) == k) * marked * sharp, 0.0, sharp
            ),
        ),
        Misconception(
            "The content logit is replaced by the bias",
            "On a key at position k there is the bias, and on a marked key the "
            "content.",
            lambda marked, k, sharp: _pick(
                2 * (_counted_marks(marked) == k), 0.0, sharp
            ),
        ),
        Misconception(
            "The counts were not turned back",
            "They are summed from the end and stand in reverse order.",
            lambda marked, k, sharp: _pick(np.cumsum(marked[::-1]) == k, marked, sharp),
        ),
        Misconception(
            "The unmarked keys are counted",
            "Gates are 1 on marked keys.",
            lambda marked, k, sharp: _pick(_counted_marks(~marked) == k, marked, sharp),
        ),
        Misconception(
            "The column is 1, not sharp",
            "Both logits are multiplied by sharp.",
            lambda marked, k, sharp: _pick(
                (_counted_marks(marked) == k) + 1.0 * marked, 0.0, 1.0
            ),
        ),
        Misconception(
            "Only the content is sharp",
            "Both logits are multiplied by sharp.",
            lambda marked, k, sharp: _pick(
                (_counted_marks(marked) == k) / sharp, marked, sharp
            ),
        ),
        Misconception(
            "Only the bias is sharp",
            "Both logits are multiplied by sharp.",
            lambda marked, k, sharp: _pick(
                _counted_marks(marked) == k, marked / sharp, sharp
            ),
        ),
    ),
    properties=(
        Property(
            "The largest weight is on a marked key",
            lambda answer, marked, k, sharp: bool(
                marked[np.argmax(answer(marked, k, sharp))]
            ),
        ),
        Property(
            "The weights sum to 1",
            lambda answer, marked, k, sharp: np.isclose(
                answer(marked, k, sharp).sum(), 1
            ),
        ),
    ),
)


# cope-6: gates that cannot learn


def gate_gradient(gates, u, j):
    """The gradient of u[p_j] with respect to the gates of the last query, by autograd.

    ``gates`` has one gate a key, ``u`` one number a column.
    """
    gates = gates.clone().requires_grad_()
    p = gates[j:].sum().clamp(max=len(u) - 1)
    low, high = p.floor(), p.ceil()
    value = (p - low) * u[high.long()] + (1 - p + low) * u[low.long()]
    value.backward()
    return gates.grad


def _by_slope(slope, first=lambda j: j, last=None):
    """A gradient that is ``slope(u, p)`` on the gates from ``first(j)`` to ``last``."""

    def answer(gates, u, j):
        p = gates[j:].sum().clamp(max=len(u) - 1)
        gradient = torch.zeros_like(gates)
        gradient[slice(first(j), last and last(j))] = slope(u, p)
        return gradient

    return answer


def _slope(u, p):
    return u[p.ceil().long()] - u[p.floor().long()]


def _slope_to_the_right(u, p):
    low = p.floor().long().clamp(max=len(u) - 2)
    return u[low + 1] - u[low]


def _slope_by_differences(u, p, step=1e-4):
    columns = np.arange(len(u))
    right, left = np.interp([p + step, p - step], columns, u)
    return (right - left) / (2 * step)


def _gates_of(*values):
    return torch.tensor(values, dtype=torch.float64)


_TABLE = torch.tensor(draw(6))


def _last_slope_beyond(gates, u, j):
    gradient = gate_gradient(gates, u, j)
    if gates[j:].sum() > len(u) - 1:
        gradient[j:] = u[-1] - u[-2]
    return gradient


GRADIENT = Exercise(
    name="cope-6",
    title="Gates that cannot learn",
    kind="experiment",
    minutes=10,
    lines=6,
    statement=r"""
`gates` are the gates of the last query, one a key, and `u` its numbers $u_0, u_1, …$, one a column.
Write the bias of key $j$ as CoPE's code computes it – sum, clamp, floor, ceiling, interpolation – and return its gradient with respect to all gates, by autograd.
Predict before you run: what becomes of the gradient if all gates are exactly 0 or 1? If the position is beyond the table? In the fourth case the gates are ½, ¼, ¼, 1 and 0.
""",
    hint=r"""
`gates.clone().requires_grad_()`, then `.backward()` on the value, then `.grad`. `floor` and `ceil` have gradient 0.
""",
    cases=(
        (_gates_of(0.3, 0.9), _TABLE[:3], 0),
        (_gates_of(0.2, 0.9, 0.4, 0.8), _TABLE, 1),
        (_gates_of(1.0, 0.0, 1.0, 1.0), _TABLE, 1),
        (_gates_of(0.5, 0.25, 0.25, 1.0, 0.0), _TABLE, 0),
        (_gates_of(0.9, 0.8, 0.7, 0.9, 0.6), _TABLE[:3], 1),
        (_gates_of(0.5, 1.0, 1.0), _TABLE[:3], 0),
    ),
    solution=gate_gradient,
    misconceptions=(
        Misconception(
            "At a whole position the slope to the right is taken",
            "That is a choice one could make, but autograd differentiates the code: "
            "it takes column ⌈p⌉, and at a whole p that is the column of the floor. "
            "And beyond the table the clamp lets nothing through: no slope goes on.",
            _by_slope(_slope_to_the_right),
        ),
        Misconception(
            "The slopes on both sides are averaged",
            "A difference quotient does not see what the code does at a whole "
            "position. Let autograd go through floor and ceiling.",
            _by_slope(_slope_by_differences),
        ),
        Misconception(
            "All gates move the position",
            "The sum starts at key j: older keys have no part in its position.",
            _by_slope(_slope, first=lambda j: 0),
        ),
        Misconception(
            "Older gates move the position",
            "The sum runs from key j to the query, not from the first key to j.",
            _by_slope(_slope, first=lambda j: 0, last=lambda j: j + 1),
        ),
        Misconception(
            "The key's own gate is left out",
            "Key j is counted as well: its gate moves its position.",
            _by_slope(_slope, first=lambda j: j + 1),
        ),
        Misconception(
            "No gate ever gets a gradient",
            "So it would be if positions were rounded. Interpolation is there to keep "
            "the fraction, and through it the gradient.",
            _by_slope(lambda u, p: 0.0),
        ),
        Misconception(
            "The sign is reversed",
            "The slope is the number of column ⌈p⌉ minus that of column ⌊p⌋.",
            _by_slope(lambda u, p: -_slope(u, p)),
        ),
        Misconception(
            "Every gate moves the position by 1, whatever the table says",
            "That is the gradient of p. The bias is u at p: multiply by the slope "
            "of u there.",
            _by_slope(lambda u, p: 1.0),
        ),
        Misconception(
            "Only the key's own gate moves the position",
            "The sum runs on to the query, and so does the gradient.",
            _by_slope(_slope, last=lambda j: j + 1),
        ),
        Misconception(
            "Only the query's own gate moves the position",
            "The sum starts at key j, and so does the gradient.",
            _by_slope(_slope, first=lambda j: -1),
        ),
        Misconception(
            "Beyond the table the last slope is kept",
            "What the clamp cuts off moves nothing.",
            _last_slope_beyond,
        ),
        Misconception(
            "The value is given, not its gradient",
            "It is what `.backward()` starts from; the gradient is in `.grad`.",
            _by_slope(
                lambda u, p: (
                    (p - p.floor()) * u[p.ceil().long()]
                    + (1 - p + p.floor()) * u[p.floor().long()]
                )
            ),
        ),
        Misconception(
            "Older gates move the position, by the slope to the right",
            "The sum runs from key j to the query, not from the first key to j.",
            _by_slope(_slope_to_the_right, first=lambda j: 0, last=lambda j: j + 1),
        ),
        Misconception(
            "The position is clamped to npos",
            "Positions count from 0: the last column is npos − 1, and "
            "beyond it nothing moves.",
            lambda gates, u, j: gate_gradient(gates, torch.cat((u, 0 * u[:1])), j),
        ),
        Misconception(
            "Older gates are the position",
            "The sum runs from key j to the query, not from the first key to j.",
            lambda gates, u, j: gate_gradient(
                gates.flip(0), u, len(gates) - 1 - j
            ).flip(0),
        ),
    ),
)

SHEET = Sheet(
    title="CoPE",
    conventions=r"""
Queries $i$ and keys $j \le i$ count from 0; $\sigma$ is the sigmoid; a table has `npos` columns $e[0], e[1], …$; everything is causal.
""",
    exercises=(COUNT, POSITIONS, INTERPOLATE, WEIGHTS, KTH_LAST, GRADIENT),
)
