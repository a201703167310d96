"""Exercises on CoPE, contextual position encoding."""

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

# cope-1: all gates equal


def count(i, j, gate, npos):
    """CoPE's position p_ij of key j for query i if every gate is ``gate``.

    ``gate`` is a number from 0 to 1; ``npos`` is the number of columns of CoPE's table,
    one for each whole position.
    """
    return sp.Min(gate * (i - j + 1), npos - 1)


COUNT = Exercise(
    name="cope-1",
    title="All gates equal",
    kind="by hand",
    minutes=4,
    lines=1,
    statement=r"""
Let every gate of the query $i$ be equal to `gate`, a number from 0 to 1.
Return the position $p_{ij}$ of key $j$ for a table of `npos` columns, two or more, exactly: `gate` is a SymPy number.
What is the position for open gates, `gate` = 1?
""",
    hint=r"""
How many keys are there from $j$ to $i$, both included?
And what is the largest position that the table has?
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
            "Distance in place of the count",
            "i − j counts the steps from the key to the query. CoPE counts tokens, "
            "and both ends are among them: what does a token count for itself?",
            lambda i, j, gate, npos: sp.Min(gate * (i - j), npos - 1),
        ),
        Misconception(
            "Largest position one too large",
            "A table of npos columns has positions from 0 on. Which is its last "
            "position?",
            lambda i, j, gate, npos: sp.Min(gate * (i - j + 1), npos),
        ),
        Misconception(
            "Positions beyond the table",
            "The table has npos columns. Keys farther than the last column share it.",
            lambda i, j, gate, npos: gate * (i - j + 1),
        ),
        Misconception(
            "Keys older than j counted",
            "The number of tokens from the first to the key is an absolute position, "
            "the same for every query. CoPE counts the tokens from the key to the "
            "query.",
            lambda i, j, gate, npos: sp.Min(gate * (j + 1), npos - 1),
        ),
        Misconception(
            "Position rounded down",
            "A gate may be a half, and so may a position. That is why the table is "
            "interpolated.",
            lambda i, j, gate, npos: sp.floor(sp.Min(gate * (i - j + 1), npos - 1)),
        ),
        Misconception(
            "Gate left out",
            "Your answer is the position when all gates are open. A gate of ½ counts "
            "half a token.",
            lambda i, j, gate, npos: sp.Min(i - j + 1, npos - 1),
        ),
        Misconception(
            "Count limited before the gate",
            "Gates are summed first. Their sum may not exceed the last position of "
            "the table.",
            lambda i, j, gate, npos: gate * sp.Min(i - j + 1, npos - 1),
        ),
        Misconception(
            "Neither end counted",
            "i − j − 1 tokens lie strictly between. CoPE counts both ends.",
            lambda i, j, gate, npos: sp.Min(gate * sp.Max(i - j - 1, 0), npos - 1),
        ),
        Misconception(
            "Position rounded up",
            "A gate may be a half, and so may a position. That is why the table is "
            "interpolated.",
            lambda i, j, gate, npos: sp.ceiling(sp.Min(gate * (i - j + 1), npos - 1)),
        ),
        Misconception(
            "Maximum in place of the minimum",
            "The table *limits* the position.",
            lambda i, j, gate, npos: sp.Max(gate * (i - j + 1), npos - 1),
        ),
        Misconception(
            "Gates multiplied",
            "Positions are sums of gates: three gates of ½ count 1½ tokens.",
            lambda i, j, gate, npos: sp.Min(gate ** (i - j + 1), npos - 1),
        ),
        Misconception(
            "Largest position one too small",
            "A table of npos columns has positions 0 … npos − 1.",
            lambda i, j, gate, npos: sp.Min(gate * (i - j + 1), npos - 2),
        ),
        Misconception(
            "All tokens up to the query counted",
            "The count starts at the key. Older tokens are not counted.",
            lambda i, j, gate, npos: sp.Min(gate * (i + 1), npos - 1),
        ),
        Misconception(
            "Key's end not counted, and no limit",
            "CoPE counts both ends, and keys farther than the last column share it.",
            lambda i, j, gate, npos: gate * (i - j),
        ),
        Misconception(
            "Key's end not counted, and last column one too far",
            "CoPE counts both ends, and a table of npos columns ends at npos − 1.",
            lambda i, j, gate, npos: sp.Min(gate * (i - j), npos),
        ),
        Misconception(
            "Keys after the query counted",
            "j ≤ i: the count goes from the key to the query.",
            lambda i, j, gate, npos: sp.Max(0, sp.Min(gate * (j - i + 1), npos - 1)),
        ),
        Misconception(
            "Indices added",
            "How many keys are there from j to i?",
            lambda i, j, gate, npos: sp.Min(gate * (i + j + 1), npos - 1),
        ),
        Misconception(
            "Positions that begin again beyond the table",
            "Keys farther than the last column share it.",
            lambda i, j, gate, npos: sp.Mod(gate * (i - j + 1), npos),
        ),
        Misconception(
            "A token counted without a gate",
            "The gate of every token counts, that of the last one included.",
            lambda i, j, gate, npos: sp.Min(gate * (i - j) + 1, npos - 1),
        ),
        Misconception(
            "Positions counted from the other end of the table",
            "Near keys have small positions.",
            lambda i, j, gate, npos: npos - 1 - sp.Min(gate * (i - j + 1), npos - 1),
        ),
        Misconception(
            "One token too many",
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
    explanation=r"""
From $j$ to $i$ there are $i - j$ steps and $i - j + 1$ tokens, and each adds one gate, so the sum is `gate` $\cdot\,(i - j + 1)$; the table's last position, `npos` − 1, limits it.
With open gates the position is $\min(i - j + 1,\ \text{npos} - 1)$, by {prf:ref}`the theorem on relative position, plus one <thm-cope-ordinary>`: not the distance, but one more, because the key and the query are both counted.
A query's own token is therefore at position 1, and column 0 of the table is not used at all.
""",
)


# cope-2: positions from gates


def positions(logits, npos):
    """CoPE's positions p_ij from gate logits, ``[queries, keys]``; 0 for later keys.

    ``npos`` is the number of columns of CoPE's table, one for each whole position.
    """
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
    """Make a wrong answer (a function) to the exercise ``positions``.

    The exercise asks for CoPE's positions, sums of gates. In the wrong answer,
    ``counted(gates)`` replaces the sums; both are limited to npos − 1.
    """
    return lambda logits, npos: np.minimum(counted(_gates(logits)), npos - 1)


POSITIONS = Exercise(
    name="cope-2",
    title="Positions from gates",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
`logits[i, j]` is the gate logit of query $i$ and key $j$, `[n, n]`.
Return all positions $p_{ij}$ as an array `[n, n]`, with 0 where $j > i$.
`npos` is the number of columns of the table.
""",
    hint=r"""
`np.tril` closes the gates of the future.
`np.cumsum` sums from the left; reverse the rows before and after it.
""",
    cases=(
        (draw(2, 2), 8),
        (draw(4, 4), 3),
        (draw(7, 7) + 1, 3),
    ),
    solution=positions,
    misconceptions=(
        Misconception(
            "Sum over older keys",
            "Your answer sums from the first key up to key j, so the nearest keys get "
            "the largest positions. Sum from the key to the query.",
            lambda logits, npos: np.minimum(
                np.cumsum(_gates(logits), axis=1), npos - 1
            ),
        ),
        Misconception(
            "One position per token for all queries",
            "A gate belongs to a query and a key. One gate per token, summed from the "
            "start, gives an absolute position on which no query has an influence.",
            lambda logits, npos: np.minimum(
                np.tril(np.broadcast_to(np.cumsum(_own_gates(logits)), logits.shape)),
                npos - 1,
            ),
        ),
        Misconception(
            "One gate per token for all queries",
            "FoX counts with a difference of cumulative sums. In CoPE another query "
            "has other gates on the same keys, so one list of gates is not enough.",
            _token_wise,
        ),
        Misconception(
            "Key's own gate left out",
            "The sum includes both ends. The nearest key of each query is its own "
            "token, whose position is its gate, not 0.",
            lambda logits, npos: np.minimum(
                _counted(_gates(logits)) - _gates(logits), npos - 1
            ),
        ),
        Misconception(
            "Query's own gate left out",
            "The sum includes both ends, so the query's own key is counted as well.",
            lambda logits, npos: np.minimum(
                _counted(np.tril(_gates(logits), -1)), npos - 1
            ),
        ),
        Misconception(
            "Keys after the query counted",
            "Their gates must be closed before anything is summed. A mask on the "
            "attention weights comes too late.",
            lambda logits, npos: np.minimum(
                _counted(1 / (1 + np.exp(-logits))), npos - 1
            ),
        ),
        Misconception(
            "Sum over queries",
            "A row belongs to one query. It sums its own gates, along the keys.",
            lambda logits, npos: np.minimum(
                np.cumsum(_gates(logits), axis=0), npos - 1
            ),
        ),
        Misconception(
            "Largest position one too large",
            "The columns of the table are numbered from 0. What is the last number?",
            lambda logits, npos: np.minimum(_counted(_gates(logits)), npos),
        ),
        Misconception(
            "Positions beyond the table",
            "There are npos columns, however many keys there are.",
            lambda logits, npos: _counted(_gates(logits)),
        ),
        Misconception(
            "Missing sigmoid",
            "Logits are any numbers. Gates are between 0 and 1, so that positions "
            "grow away from the query.",
            lambda logits, npos: np.minimum(_counted(np.tril(logits)), npos - 1),
        ),
        Misconception(
            "Sign of the gate logits reversed",
            "σ has its minus in the exponent, so large logits open the gate.",
            lambda logits, npos: positions(-logits, npos),
        ),
        Misconception(
            "Keys after the query counted, and then hidden",
            "Zeros above the diagonal come too late: the sums to the left of it "
            "have already counted the future.",
            lambda logits, npos: np.tril(
                np.minimum(_counted(1 / (1 + np.exp(-logits))), npos - 1)
            ),
        ),
        Misconception(
            "Rows not reversed back",
            "Your sums are right, but they stand in reverse order.",
            _limited(lambda g: np.cumsum(g[:, ::-1], axis=1)),
        ),
        Misconception(
            "Gates of the future",
            "`np.triu` keeps the keys after the query. The earlier keys are counted.",
            lambda logits, npos: np.minimum(
                _counted(np.triu(1 / (1 + np.exp(-logits)))), npos - 1
            ),
        ),
        Misconception(
            "One position for all keys of a row",
            "Your position is the sum of the whole row. Key j counts from itself to "
            "the query only.",
            _limited(
                lambda g: np.tril(np.broadcast_to(g.sum(1, keepdims=True), g.shape))
            ),
        ),
        Misconception(
            "Gates, not their sums",
            "A position is the sum of all gates from the key to the query.",
            _limited(lambda g: g),
        ),
        Misconception(
            "Distances in place of positions",
            "With open gates the positions are distances plus one. A gate counts as "
            "much as it is open.",
            _limited(
                lambda g: np.tril(np.arange(len(g))[:, None] - np.arange(len(g)) + 1.0)
            ),
        ),
        Misconception(
            "Sums rounded",
            "Gates are fractions, and so are positions. That is why the table is "
            "interpolated.",
            lambda logits, npos: np.round(positions(logits, npos)),
        ),
        Misconception(
            "Sums rounded down",
            "Gates are fractions, and so are positions. That is why the table is "
            "interpolated.",
            lambda logits, npos: np.floor(positions(logits, npos)),
        ),
        Misconception(
            "Neither end counted",
            "A position sums the gates from the key to the query, with both ends.",
            _limited(lambda g: np.maximum(_counted(np.tril(g, -1)) - g, 0)),
        ),
        Misconception(
            "Sums over later queries",
            "A row belongs to one query. It sums its own gates, along the keys.",
            _limited(lambda g: np.cumsum(g[::-1], axis=0)[::-1]),
        ),
        Misconception(
            "Positions that begin again beyond the table",
            "Keys farther than the last column share it.",
            lambda logits, npos: _counted(_gates(logits)) % npos,
        ),
        Misconception(
            "Sum over older keys, and the future masked after it",
            "Your answer sums from the first key up to key j. Sum from the key to the "
            "query.",
            lambda logits, npos: np.tril(
                np.minimum(np.cumsum(1 / (1 + np.exp(-logits)), axis=1), npos - 1)
            ),
        ),
        Misconception(
            "Tanh in place of the sigmoid",
            "The sigmoid is between 0 and 1, the tanh between −1 and 1.",
            lambda logits, npos: np.minimum(
                _counted(np.tril(np.tanh(logits))), npos - 1
            ),
        ),
        Misconception(
            "Sum along the queries",
            "Rows are queries. The position is a sum along a row: over the keys from "
            "j to the query.",
            lambda logits, npos: np.tril(
                np.minimum(np.cumsum(_gates(logits)[::-1], axis=0)[::-1], npos - 1)
            ),
        ),
        Misconception(
            "Masked logits of 0, with gates of ½",
            "A gate of the future must be 0: close it after the sigmoid.",
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
    explanation=r"""
Row $i$ belongs to query $i$: close the gates of later keys, and sum the rest from the key to the query, which is a cumulative sum from the right.
The step from one key to the next is the gate of the key, by {prf:ref}`the theorem that steps are gates <thm-cope-steps>`, so positions never grow towards the query.
Two queries have different gates on the same keys: no single list of positions serves them both.
""",
)


# cope-3: interpolation between two columns


def interpolate(u, p):
    """CoPE's bias at a real position ``p`` ≥ 0, interpolated between whole positions.

    ``u`` is a tuple with the bias at each whole position, from 0 on.
    """
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
    """Make a wrong answer (a function) to the exercise ``interpolate``.

    The exercise asks for CoPE's bias interpolated at a position p. In the wrong answer,
    ``value(p, fraction, below, above)`` replaces the interpolation: ``fraction`` is p −
    ⌊p⌋, ``below`` and ``above`` are the biases at ⌊p⌋ and ⌈p⌉.
    """

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
    title="Interpolation between two columns",
    kind="SymPy",
    minutes=6,
    lines=3,
    statement=r"""
`u` is a tuple with one SymPy symbol for each column, $u_0, u_1, …$.
`p` ≥ 0 is a SymPy fraction or integer, and may lie beyond the table.
Return CoPE's interpolated value $u[p]$, exactly.
""",
    hint=r"""
Limit `p` to the table first.
Then use `sp.floor`, `sp.ceiling`, and two weights that sum to 1.
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
            "Floor and ceiling swapped",
            "At p = 2¼ column 2 is the nearer one and must weigh more: which of the "
            "two weights does the fraction ¼ belong to?",
            _swapped,
        ),
        Misconception(
            "Position rounded to the nearest column",
            "The value would jump, and the gates would get no gradient anywhere.",
            lambda u, p: u[sp.Min(sp.floor(p + sp.Rational(1, 2)), _last(u))],
        ),
        Misconception(
            "Position rounded down",
            "Between two columns both contribute to the value.",
            lambda u, p: u[sp.Min(sp.floor(p), _last(u))],
        ),
        Misconception(
            "Last line extended beyond the table",
            "Positions farther than the last column get the value of the last column.",
            _extrapolated,
        ),
        Misconception(
            "First column taken for position 1",
            "Position 0 needs a column, too: keys are there when all gates are closed.",
            lambda u, p: interpolate(u, sp.Max(p - 1, 0)),
        ),
        Misconception(
            "One weight 1 − p",
            "The weights are the fraction of p and one minus that *fraction*.",
            _between(lambda p, t, low, high: t * high + (1 - p) * low),
        ),
        Misconception(
            "Position itself a weight",
            "Only the fraction of p says how far p is between column ⌊p⌋ and column "
            "⌈p⌉.",
            _between(lambda p, t, low, high: p * high + (1 - p) * low),
        ),
        Misconception(
            "Weight of ½ for both columns",
            "The weights depend on how near p is to each of the two columns.",
            _between(lambda p, t, low, high: (low + high) / 2),
        ),
        Misconception(
            "Position rounded up",
            "Between two columns both contribute to the value.",
            _between(lambda p, t, low, high: high),
        ),
        Misconception(
            "Difference alone",
            "Your answer is what must be added to the value of column ⌊p⌋.",
            _between(lambda p, t, low, high: t * (high - low)),
        ),
        Misconception(
            "Positions that go round the table",
            "Positions farther than the last column get the value of the last column. "
            "They do not begin again.",
            lambda u, p: interpolate(u, p % len(u)),
        ),
        Misconception(
            "Value 0 beyond the table",
            "Positions farther than the last column get the value of the last column.",
            lambda u, p: interpolate(u, p) if p <= len(u) - 1 else sp.Integer(0),
        ),
        Misconception(
            "Missing weight of the next column",
            "The two weights sum to 1.",
            _between(lambda p, t, low, high: (1 - t) * low + high),
        ),
        Misconception(
            "Value 0 at a whole position",
            "⌈p⌉ − p and p − ⌊p⌋ are both 0 there. Which two weights always sum to 1?",
            _between(lambda p, t, low, high: t * high + (sp.ceiling(p) - p) * low),
        ),
        Misconception(
            "Weights exchanged, and both 0 at a whole position",
            "At p = 2¼ column 2 is the nearer one. And two weights must always sum "
            "to 1.",
            _between(lambda p, t, low, high: t * low + (sp.ceiling(p) - p) * high),
        ),
        Misconception(
            "Two columns added, not subtracted",
            "From column ⌊p⌋ the value goes a part of the way to the next column. "
            "What is the whole way?",
            _between(lambda p, t, low, high: low + t * (high + low)),
        ),
        Misconception(
            "Left column alone, with the weight of the right one",
            "Between two columns both contribute, and the weights sum to 1.",
            _between(lambda p, t, low, high: t * low),
        ),
        Misconception(
            "Left column alone, with its own weight",
            "Between two columns both contribute, and the weights sum to 1.",
            _between(lambda p, t, low, high: (1 - t) * low),
        ),
        Misconception(
            "Fraction of the right column added to the whole left one",
            "The two weights sum to 1: what the right column gets, the left one loses.",
            _fraction_added,
        ),
        Misconception(
            "Columns that go round",
            "Positions farther than the last column get the value of the last column.",
            lambda u, p: (
                (p - sp.floor(p)) * u[sp.ceiling(p) % len(u)]
                + (1 - p + sp.floor(p)) * u[sp.floor(p) % len(u)]
            ),
        ),
        Misconception(
            "Position clamped one too early",
            "Columns count from 0. Which position has the last of `len(u)` columns?",
            lambda u, p: interpolate(u[:-1], p),
        ),
    ),
    explanation=r"""
The position is first limited to the last column, then its two neighbors are mixed: the fraction $p - \lfloor p \rfloor$ is the weight of the upper column, and the rest, $1 - p + \lfloor p \rfloor$, that of the lower.
At a whole position both neighbors are the same column, and the weights are 0 and 1.
The result is {prf:ref}`continuous in the position, and linear between whole positions <thm-cope-line>`; without the limit there would be no column beyond the table.
""",
)


# cope-4: a head of CoPE


def cope_weights(q, k, table):
    """Attention weights ``[n, n]`` of one causal CoPE head.

    ``q`` and ``k`` are ``[n, d]``. Content logits, gate logits and bias are divided by
    √d; ``table`` is CoPE's table, with a trained vector (a column) for each whole
    position.
    """
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
    """Attention weights of a CoPE head, with a factor on each of its three terms.

    ``q`` and ``k`` are ``[n, d]``, ``table`` is ``[d, npos]``. ``content``, ``gates``
    and ``bias`` multiply content logits, gate logits and bias. ``count`` maps the gates
    to positions; None counts gates from the key to the query, which is right. ``swap``
    exchanges the table's columns below and above a position.
    """
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
    """Make a wrong answer (a function) to the exercise ``cope_weights``.

    The exercise asks for a CoPE head's attention weights, in which content logits, gate
    logits and bias are divided by √d. In the wrong answer, ``powers`` are the powers of
    √d that multiply these three terms (right: −1), by the names ``content``, ``gates``
    and ``bias``.
    """

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


def _far_apart():
    """Return q, k and a table with logits below −10⁵ in one row, above 10⁵ in another.

    A finite mask is then above a logit, and the largest logit far above a whole row.
    """
    k = torch.full((2, 4), 300.0, dtype=torch.float64)
    return k * torch.tensor([[-1.0], [1.0]]), k, _head_case(2, 4, 3)[2]


def _later(axis=-1):
    """Make a wrong answer (a function) to the exercise ``cope_weights``.

    The exercise asks for a CoPE head's attention weights, a softmax over the keys. In
    the wrong answer the softmax runs along ``axis``: 0 are the queries; −1, the
    default, are the keys, which is right.
    """

    def answer(q, k, table):
        z = _all_logits(q, k, table)
        causal = torch.ones_like(z, dtype=torch.bool).tril()
        return z.masked_fill(~causal, -torch.inf).softmax(axis)

    return answer


def _all_logits(q, k, table, gates=None, closed=True, columns=None, beside=None):
    """Logits of a CoPE head before the causal mask, ``[queries, keys]``.

    ``q`` and ``k`` are ``[n, d]``; ``table``, ``[d, npos]``, is CoPE's table. Some
    steps can be wrong; with the defaults all are right. ``gates`` replaces the sigmoid
    that maps logits to gates. ``columns`` rounds positions, so that each reads a single
    column of the table. ``beside(q, k)`` are the vectors that are multiplied by the
    table, in place of the queries. ``closed`` sets the gates of later keys to 0.
    """
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
Interpolate numbers, not vectors: `u = q @ table` has one number for each query and column, and `u.gather(1, index)` picks the columns.
`torch.lerp` does the rest of the interpolation.
""",
    cases=(_head_case(3, 4, 4), _head_case(6, 8, 3), _far_apart()),
    solution=cope_weights,
    misconceptions=(
        Misconception(
            "Table's part not divided by √d",
            "Your answer is the paper's listing, and the option `cope_nodiv` of the "
            "authors' code. By default the code divides the sum of content and bias.",
            _with_roots(content=-1, gates=-1, bias=0),
        ),
        Misconception(
            "Nothing divided by √d",
            "The paper prints its formulas without √d. The authors' code divides.",
            _with_roots(content=0, gates=0, bias=0),
        ),
        Misconception(
            "Gates not divided by √d",
            "The gates reuse the content logits as they enter the softmax. Undivided "
            "they saturate much sooner.",
            _with_roots(content=-1, gates=0, bias=-1),
        ),
        Misconception(
            "Table's part divided twice",
            "q · e is an inner product of d terms like any other: divide it by √d "
            "once.",
            _with_roots(content=-1, gates=-1, bias=-2),
        ),
        Misconception(
            "Floor and ceiling swapped",
            "Your bias jumps at every whole position. Which column is near when the "
            "fraction is small?",
            _counting(swap=True),
        ),
        Misconception(
            "Sum over older keys",
            "Positions are counted from the key to the query, so the query's own key "
            "has the smallest.",
            _counting(lambda g: g.cumsum(-1)),
        ),
        Misconception(
            "Key's own gate left out",
            "The sum includes both ends: the key j and the query's own key i.",
            _counting(lambda g: _since_key(g) - g),
        ),
        Misconception(
            "One gate per token for all queries",
            "A gate compares this query with that key. FoX takes gates of tokens, in "
            "cumulative sums.",
            _counting(_since_key_by_token),
        ),
        Misconception(
            "Bias left out",
            "Your weights are those without any position, which CoPE has while the "
            "table is zero.",
            lambda q, k, table: cope_weights(q, k, 0 * table),
        ),
        Misconception(
            "Later keys not hidden",
            "Their gates are closed, and their weights must vanish as well.",
            lambda q, k, table: _all_logits(q, k, table).softmax(-1),
        ),
        Misconception(
            "Gates after the query open",
            "Your positions count open gates after the query. The mask on the logits "
            "comes too late for them.",
            _with_logits(closed=False),
        ),
        Misconception(
            "Softmax over the queries",
            "A query shares its weight among the keys, so rows sum to one.",
            _later(axis=0),
        ),
        Misconception(
            "Masked keys in the sum of the softmax",
            "Your answer sets weights above the diagonal to zero after the softmax. "
            "Masked keys must take no part in it.",
            lambda q, k, table: _all_logits(q, k, table).softmax(-1).tril(),
        ),
        Misconception(
            "Position rounded down",
            "Between two columns both contribute to the bias.",
            _with_logits(columns=torch.floor),
        ),
        Misconception(
            "Position rounded up",
            "Between two columns both contribute to the bias.",
            _with_logits(columns=torch.ceil),
        ),
        Misconception(
            "Position rounded to the nearest column",
            "Between two columns both contribute to the bias. With rounding the gates "
            "would get no gradient.",
            _with_logits(columns=torch.round),
        ),
        Misconception(
            "Missing sigmoid",
            "Gates are between 0 and 1; logits are not.",
            lambda q, k, table: _causal_softmax(
                _all_logits(q, k, table, gates=lambda z: z.clamp(min=0))
            ),
        ),
        Misconception(
            "All gates open",
            "Your positions are distances plus one. With gates CoPE can count some "
            "tokens only.",
            _with_logits(gates=torch.ones_like),
        ),
        Misconception(
            "Keys multiplied with the table",
            "The bias is q · e[p], with the query.",
            _with_logits(beside=lambda q, k: k),
        ),
        Misconception(
            "Content left out of the logits",
            "The logits are the sum of q · k and of the bias.",
            lambda q, k, table: _causal_softmax(
                _all_logits(q, k, table) - q @ k.T / q.shape[-1] ** 0.5
            ),
        ),
        Misconception(
            "Bias added to the weights",
            "The bias is added to the logits, before the softmax.",
            lambda q, k, table: (
                _causal_softmax(q @ k.T / q.shape[-1] ** 0.5)
                + (_all_logits(q, k, table) - q @ k.T / q.shape[-1] ** 0.5).tril()
            ),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row i belongs to query i: q @ k.T.",
            lambda q, k, table: cope_weights(k, q, table),
        ),
        Misconception(
            "Divided by d in place of √d",
            "Content, gates and bias are divided by √d.",
            _with_roots(content=-2, gates=-2, bias=-2),
        ),
        Misconception(
            "Query's own gate left out",
            "The sum includes both ends: the key j and the query's own key i.",
            _counting(lambda g: _since_key(g.tril(-1))),
        ),
        Misconception(
            "Distances in place of positions",
            "With gates CoPE can count some tokens only.",
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
            "Softmax in place of the sigmoid",
            "A gate is a sigmoid: it does not compete with the other gates.",
            lambda q, k, table: _causal_softmax(
                _all_logits(q, k, table, gates=_causal_softmax)
            ),
        ),
        Misconception(
            "Masked logits of 0",
            "e^0 = 1, so masked keys get weight. The mask is −∞.",
            lambda q, k, table: _all_logits(q, k, table).tril().softmax(-1),
        ),
        Misconception(
            "Content not divided by √d",
            "Content, gate logits and bias are all divided by √d.",
            _with_roots(content=0, gates=-1, bias=-1),
        ),
        Misconception(
            "Only the gates divided by √d",
            "Content, gate logits and bias are all divided by √d.",
            _with_roots(content=0, gates=-1, bias=0),
        ),
        Misconception(
            "Only the content divided by √d",
            "Content, gate logits and bias are all divided by √d.",
            _with_roots(content=-1, gates=0, bias=0),
        ),
        Misconception(
            "Only the bias divided by √d",
            "Content, gate logits and bias are all divided by √d.",
            _with_roots(content=0, gates=0, bias=-1),
        ),
        Misconception(
            "Gates taken for positions",
            "A position is the *sum* of the gates from the key to the query.",
            _counting(lambda g: g),
        ),
        Misconception(
            "Content divided twice",
            "Divide q · k by √d once.",
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
            "Keys after the query get weight 0",
            lambda answer, q, k, table: not answer(q, k, table).triu(1).any(),
        ),
    ),
    explanation=r"""
The gates are the sigmoids of the content logits, closed above the diagonal and summed from the right.
The bias needs one number for each query and column, $q_i^\top e[n]$, and not a vector for each pair, by {prf:ref}`the theorem on numbers instead of vectors <thm-cope-scalars>`.
Everything is divided by $\sqrt d$ once, also inside the sigmoid: with another divisor in the gates the same weights count other positions.
""",
)


# cope-5: the k-th last mark


def kth_last(marked, k, sharp):
    """CoPE weights ``[n]`` of a query that looks for the k-th last marked key.

    These are attention weights; the query is the last one. ``marked``, ``[n]``, is true
    for the marked keys. CoPE's gates are open (1) on the marked keys and closed (0) on
    the others. ``sharp`` is the logit of a marked key and the bias at position k.
    """
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


def _exponentials_added(marked, k, sharp):
    e = np.exp(sharp * (_counted_marks(marked) == k)) + np.exp(sharp * marked)
    return e / e.sum()


KTH_LAST = Exercise(
    name="cope-5",
    title="The k-th last mark",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
The last query looks for the $k$-th last marked key; for $k = 1$ it is the last one.
`marked` says which keys are marked; the gates (with keys of their own) are 1 on these and 0 elsewhere.
The bias is `sharp` at position $k$ and 0 at all other positions.
The content logit is `sharp` on marked keys and 0 elsewhere.
The table is as long as needed, and `sharp` is small enough for `np.exp`.
Return the last query's weights, `[n]`.
Think first: on which keys would most of the weight be without the content logit?
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
            "Sharp column without the content",
            "An unmarked key counts nothing itself, so it has the same position as "
            "the next newer mark, and shares the weight. The content logit must "
            "distinguish the two.",
            lambda marked, k, sharp: _pick(
                np.cumsum(marked[::-1])[::-1] == k, 0.0, sharp
            ),
        ),
        Misconception(
            "Tokens counted, not marks",
            "With every gate open the position is a distance plus one. Your encoding "
            "is relative, and the distance of the mark varies.",
            lambda marked, k, sharp: _pick(
                np.arange(len(marked), 0, -1) == k, marked, sharp
            ),
        ),
        Misconception(
            "Marks counted from the oldest",
            "Your answer finds the k-th mark of the text. The sum runs from the key "
            "to the query, so the last mark has position 1.",
            lambda marked, k, sharp: _pick(np.cumsum(marked) == k, marked, sharp),
        ),
        Misconception(
            "A mark that does not count itself",
            "The sum includes its key. What is the position of the last mark?",
            lambda marked, k, sharp: _pick(
                np.cumsum(marked[::-1])[::-1] - marked == k, marked, sharp
            ),
        ),
        Misconception(
            "Last mark counted as number 0",
            "The keys after the last mark have position 0. The last mark has counted "
            "one mark: itself.",
            lambda marked, k, sharp: _pick(
                np.cumsum(marked[::-1])[::-1] == k - 1, marked, sharp
            ),
        ),
        Misconception(
            "Older marks clamped to the same column",
            "With npos = k + 1 columns everything older than the k-th last mark has "
            "position k as well. How many columns does this head need?",
            lambda marked, k, sharp: _pick(
                np.cumsum(marked[::-1])[::-1] >= k, marked, sharp
            ),
        ),
        Misconception(
            "A logit for the mark at position k only",
            "Content and bias are added: a marked key at another position has its "
            "content logit, and an unmarked one at position k the bias.",
            lambda marked, k, sharp: _pick(
                (_counted_marks(marked) == k) & marked, 0.0, sharp
            ),
        ),
        Misconception(
            "Bias left out",
            "Your weights are equal on all marks.",
            lambda marked, k, sharp: _pick(0.0, marked, sharp),
        ),
        Misconception(
            "Weights not divided by their sum",
            "Softmax: exponentials over their sum.",
            lambda marked, k, sharp: np.exp(
                sharp * (_counted_marks(marked) == k) + sharp * marked
            ),
        ),
        Misconception(
            "Logits in place of weights",
            "Your logits are right. Now apply the softmax.",
            lambda marked, k, sharp: (
                sharp * (_counted_marks(marked) == k) + sharp * marked
            ),
        ),
        Misconception(
            "All weight on the mark",
            "With a finite `sharp` the other keys keep some weight: softmax of the "
            "logits.",
            lambda marked, k, sharp: ((_counted_marks(marked) == k) & marked) * 1.0,
        ),
        Misconception(
            "Unmarked keys masked",
            "Unmarked keys have the content logit 0, not −∞: their weight is small, "
            "not zero.",
            lambda marked, k, sharp: (
                _pick(_counted_marks(marked) == k, marked, sharp)
                * marked
                / (_pick(_counted_marks(marked) == k, marked, sharp) * marked).sum()
            ),
        ),
        Misconception(
            "Positions counted without the gates",
            "Your position k is the k-th *token* from the end, counted from 0. The "
            "gates count marks.",
            lambda marked, k, sharp: _pick(
                np.arange(len(marked))[::-1] == k, marked, sharp
            ),
        ),
        Misconception(
            "Column sharp up to k",
            "The column is sharp at position k, not up to it.",
            lambda marked, k, sharp: _pick(_counted_marks(marked) <= k, marked, sharp),
        ),
        Misconception(
            "Content multiplied by the bias",
            "Both are logits, and are added.",
            lambda marked, k, sharp: _pick(
                (_counted_marks(marked) == k) * marked * sharp, 0.0, sharp
            ),
        ),
        Misconception(
            "Content logit replaced by the bias",
            "A key at position k has the bias, and a marked key has the content "
            "logit. Both are added.",
            lambda marked, k, sharp: _pick(
                2 * (_counted_marks(marked) == k), 0.0, sharp
            ),
        ),
        Misconception(
            "Counts not reversed back",
            "Your counts are summed from the end and stand in reverse order.",
            lambda marked, k, sharp: _pick(np.cumsum(marked[::-1]) == k, marked, sharp),
        ),
        Misconception(
            "Unmarked keys counted",
            "Gates are 1 on marked keys.",
            lambda marked, k, sharp: _pick(_counted_marks(~marked) == k, marked, sharp),
        ),
        Misconception(
            "Column with 1 in place of `sharp`",
            "Both logits are multiplied by sharp.",
            lambda marked, k, sharp: _pick(
                (_counted_marks(marked) == k) + 1.0 * marked, 0.0, 1.0
            ),
        ),
        Misconception(
            "Only the content sharp",
            "Both logits are multiplied by sharp.",
            lambda marked, k, sharp: _pick(
                (_counted_marks(marked) == k) / sharp, marked, sharp
            ),
        ),
        Misconception(
            "Only the bias sharp",
            "Both logits are multiplied by sharp.",
            lambda marked, k, sharp: _pick(
                _counted_marks(marked) == k, marked / sharp, sharp
            ),
        ),
        Misconception(
            "Unmarked keys with −sharp",
            "The content logit of unmarked keys is 0.",
            lambda marked, k, sharp: _pick(
                _counted_marks(marked) == k, np.where(marked, 1, -1), sharp
            ),
        ),
        Misconception(
            "Exponentials added",
            "Logits are added before the exponential is taken.",
            _exponentials_added,
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
    level="optional",
    explanation=r"""
Without the content logit the keys at position $k$ would share most of the weight: the $k$-th last mark and all unmarked keys between it and the next older mark, since a key that counts nothing has the position of the mark after it.
With the content logit only the mark itself has the logit $2S$, where $S$ is `sharp`, and all other keys have $S$ or 0.
So its weight is at least $1/(1 + i\,e^{-S})$, by {prf:ref}`the theorem on the k-th last mark <thm-cope-count>`, wherever in the text it stands.
""",
)


# cope-6: gates without a gradient


def gate_gradient(gates, u, j):
    """Gradient of CoPE's bias u[p_j] with respect to the gates, by autograd: [keys].

    ``gates`` has one gate of the last query for each key, ``u`` the bias at each whole
    position. p_j, the position of key j, is the sum of the gates from j on.
    """
    gates = gates.clone().requires_grad_()
    p = gates[j:].sum().clamp(max=len(u) - 1)
    low, high = p.floor(), p.ceil()
    value = (p - low) * u[high.long()] + (1 - p + low) * u[low.long()]
    value.backward()
    return gates.grad


def _by_slope(slope, first=lambda j: j, last=None):
    """Make a wrong answer (a function) to the exercise ``gate_gradient``.

    The exercise asks for the gradient of CoPE's bias u[p_j]: the slope of u at p_j for
    the gates from key j on, 0 for the others. In the wrong answer, gates from
    ``first(j)`` to before ``last(j)`` get ``slope(u, p)``, all others 0; ``last`` None
    means to the end.
    """

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


def _slope_beside(gates, u, j):
    is_inside = gates[j:].sum() < len(u) - 1
    return _by_slope(_slope_to_the_right)(gates, u, j) * is_inside


GRADIENT = Exercise(
    name="cope-6",
    title="Gates without a gradient",
    kind="experiment",
    minutes=12,
    lines=6,
    statement=r"""
`gates` are the gates of the last query, one for each key, and `u` are its numbers $u_0, u_1, …$, one for each column.
Write the bias of key $j$ as CoPE's code computes it – sum, clamp, floor, ceiling, interpolation – and return its gradient with respect to all gates, by autograd.
Predict before you run: what is the gradient if all gates are exactly 0 or 1?
And if the position is beyond the table?
In the fourth case the gates are ½, ¼, ¼, 1 and 0.
""",
    hint=r"""
`gates.clone().requires_grad_()`, then `.backward()` on the value, then `.grad`.
`floor` and `ceil` have gradient 0.
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
            "Slope to the right at a whole position",
            "Your slope is one possible choice, but autograd differentiates the code. "
            "At a whole p the column ⌈p⌉ is also the column ⌊p⌋, and beyond the "
            "table the clamp has gradient 0.",
            _by_slope(_slope_to_the_right),
        ),
        Misconception(
            "Slopes on both sides averaged",
            "A difference quotient does not follow the code at a whole position. Let "
            "autograd go through floor and ceiling.",
            _by_slope(_slope_by_differences),
        ),
        Misconception(
            "Gradient for all gates",
            "The sum starts at key j, so older gates do not change the position.",
            _by_slope(_slope, first=lambda j: 0),
        ),
        Misconception(
            "Gradient for older gates",
            "The sum runs from key j to the query, not from the first key to j.",
            _by_slope(_slope, first=lambda j: 0, last=lambda j: j + 1),
        ),
        Misconception(
            "Key's own gate left out",
            "Key j is counted as well, so its gate changes its position.",
            _by_slope(_slope, first=lambda j: j + 1),
        ),
        Misconception(
            "No gradient for any gate",
            "There would be none if positions were rounded. Interpolation keeps the "
            "fraction, and with it the gradient.",
            _by_slope(lambda u, p: 0.0),
        ),
        Misconception(
            "Sign reversed",
            "The slope is the number of column ⌈p⌉ minus that of column ⌊p⌋.",
            _by_slope(lambda u, p: -_slope(u, p)),
        ),
        Misconception(
            "Gradient of the position",
            "Your gradient is that of p. The bias is u at p: multiply by the slope of "
            "u there.",
            _by_slope(lambda u, p: 1.0),
        ),
        Misconception(
            "Gradient for the key's own gate only",
            "The sum runs on to the query, and so does the gradient.",
            _by_slope(_slope, last=lambda j: j + 1),
        ),
        Misconception(
            "Gradient for the query's own gate only",
            "The sum starts at key j, and so does the gradient.",
            _by_slope(_slope, first=lambda j: -1),
        ),
        Misconception(
            "Last slope kept beyond the table",
            "The clamp has gradient 0 beyond the table.",
            _last_slope_beyond,
        ),
        Misconception(
            "Value in place of its gradient",
            "`.backward()` starts from the value. The gradient is in `.grad`.",
            _by_slope(
                lambda u, p: (
                    (p - p.floor()) * u[p.ceil().long()]
                    + (1 - p + p.floor()) * u[p.floor().long()]
                )
            ),
        ),
        Misconception(
            "Gradient for older gates, with the slope to the right",
            "The sum runs from key j to the query, not from the first key to j.",
            _by_slope(_slope_to_the_right, first=lambda j: 0, last=lambda j: j + 1),
        ),
        Misconception(
            "Position clamped to npos",
            "Positions count from 0, so the last column is npos − 1. Beyond it the "
            "gradient is 0.",
            lambda gates, u, j: gate_gradient(gates, torch.cat((u, 0 * u[:1])), j),
        ),
        Misconception(
            "Position summed from the first key",
            "The sum runs from key j to the query, not from the first key to j.",
            lambda gates, u, j: gate_gradient(
                gates.flip(0), u, len(gates) - 1 - j
            ).flip(0),
        ),
        Misconception(
            "Slope beside the whole position",
            "Your slope is that just above a whole position. At the position itself floor and ceiling are the same column: what does autograd give for the code?",
            _slope_beside,
        ),
        Misconception(
            "Query's own gate left out",
            "The sum runs from key j up to the query, which has a gate for itself.",
            lambda gates, u, j: torch.cat(
                (gate_gradient(gates[:-1], u, j), gates[:1] * 0)
            ),
        ),
        Misconception(
            "Sigmoid taken of the gates",
            "`gates` are gates already, not their logits.",
            lambda gates, u, j: (
                gate_gradient(gates.sigmoid(), u, j)
                * gates.sigmoid()
                * (1 - gates.sigmoid())
            ),
        ),
    ),
    level="optional",
    explanation=r"""
If all gates are 0 or 1, the position is a whole number, floor and ceiling are the same column, and the gradient is 0: at $p = n$ the code computes $(p - n)\, u_n + (1 - p + n)\, u_n$, where $p$ cancels.
The fourth case has the position $\tfrac12 + \tfrac14 + \tfrac14 + 1 = 2$ and the gradient 0 as well, though no rule on single gates shows it.
Beyond the table it is 0 because the clamp is constant there.
At all other positions each gate from key $j$ on gets the slope $u_{\lceil p \rceil} - u_{\lfloor p \rfloor}$, by {prf:ref}`the theorem that the bias is linear between whole positions <thm-cope-line>`, and older gates get 0.
""",
    prediction=Prediction(
        "The gates are ½, ¼, ¼, 1 and 0, and the table has the numbers 0, 1, 4, 9, 16, 25. What does autograd give as the derivative of the first key's bias with respect to its gate?",
        lambda: float(
            gate_gradient(
                _gates_of(0.5, 0.25, 0.25, 1.0, 0.0), torch.arange(6.0) ** 2, 0
            )[0]
        ),
    ),
)

# cope-7: gates that depend on the query


def colleagues_positions(logits, npos):
    """CoPE's positions, ``[queries, keys]``."""
    gates = 1 / (1 + np.exp(-np.diag(logits)))
    counted = np.cumsum(gates)  # one sum serves all queries
    since_key = counted[:, None] - counted + gates
    return np.minimum(np.tril(since_key), npos - 1)


def logits_that_differ():
    """Return `(logits, npos)`, few tokens with wrong `colleagues_positions`."""
    return np.array([[0, 0], [1, 0]]), 4


SAME_GATES = Exercise(
    name="cope-7",
    title="Find the input: one gate for each token",
    kind="find the input",
    minutes=6,
    lines=1,
    statement=r"""
`colleagues_positions` should do what exercise cope-2 asks for.
She tested 4 tokens with all logits 0, and 5 tokens whose logits are 0, 1, 2, 3, 4 in every row.
Both tests pass.
Return `(logits, npos)` with as few tokens as possible for which it is wrong; the logits are integers between −9 and 9.
What do her two tests have in common?
""",
    hint=r"""
Which entries of the logits does her code read?
""",
    cases=((),),
    solution=logits_that_differ,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_positions,
        right=positions,
        tested=(
            (np.zeros((4, 4), dtype=int), 8),
            (np.tile(np.arange(5), (5, 1)), 3),
        ),
        refusal=lambda logits, npos: (
            ""
            if logits.dtype.kind == "i"
            and logits.shape == (len(logits), len(logits))
            and 0 < len(logits) <= 50
            and abs(logits).max() < 10
            and type(npos) is int
            and npos > 1
            else "logits is a square integer array of at most 50 tokens, with entries "
            "between −9 and 9, and npos an integer above 1"
        ),
        size=lambda logits, npos: len(logits),
        size_of="number of tokens",
    ),
    explanation=r"""
She reads the diagonal alone: the gate that each token has for itself.
With one token this is the whole matrix; with two, query 1 has a gate of its own on key 0, and any logit there other than that of key 0 for itself changes its position, as long as the table does not cut it off.
In both tests all rows are equal, so the gates do not depend on the query, and then one sum serves all: this is FoX's case, not CoPE's.
{ref}`The chapter shows the same mistake in numbers <err-cope-token>`.
""",
)


# cope-8: marks beyond the k-th


def colleagues_weights(marked, k, sharp):
    """Weights ``[n]`` of a query for the k-th last mark."""
    keys = range(len(marked))
    number = np.array([marked[j:].sum() for j in keys])
    column = number.clip(max=k)
    e = np.exp(sharp * (1.0 * marked + (column == k)))
    return e / e.sum()


def marks_that_differ():
    """Return `(marked, k, sharp)`, few keys with wrong `colleagues_weights`."""
    return np.array([True, True]), 1, 1


OLDER_MARKS = Exercise(
    name="cope-8",
    title="Find the input: a table that ends at k",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_weights` should do what exercise cope-5 asks for.
It saves columns: its table ends at position $k$.
Her tests look for the 1st last mark in `.x.` and `x`, and for the 3rd last in `xx.x`, where `x` stands for a marked key; they pass.
Return `(marked, k, sharp)` with as few keys as possible for which it is wrong; `marked` is an array of `True` and `False`, and `k` and `sharp` are integers from 1 to 9.
How many columns does the head need?
""",
    hint=r"""
Which keys have a position above $k$ in a long table, and which position do they have in hers?
""",
    cases=((),),
    solution=marks_that_differ,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_weights,
        right=kth_last,
        tested=(
            (np.array([False, True, False]), 1, 2),
            (np.array([True]), 1, 2),
            (np.array([True, True, False, True]), 3, 4),
        ),
        refusal=lambda marked, k, sharp: (
            ""
            if marked.dtype == bool
            and marked.ndim == 1
            and 0 < len(marked) <= 50
            and k in range(1, 10)
            and sharp in range(1, 10)
            else "marked is an array of at most 50 truth values, and k and sharp are "
            "integers from 1 to 9"
        ),
        size=lambda marked, k, sharp: len(marked),
        size_of="number of keys",
    ),
    explanation=r"""
A table that ends at $k$ has $k + 1$ columns, and all older keys are clamped to the last one, $k$, where the bias is.
Then an older mark has the same logit as the $k$-th last one: with two marks and $k = 1$ she gives both the weight ½.
With one key the softmax gives 1 whatever the logits, so two keys are the fewest.
The head needs $k + 2$ columns, so that older marks have a column of their own after $k$: {prf:ref}`the theorem on the k-th last mark <thm-cope-count>` asks for $k < n_{\max} - 1$, where $n_{\max}$ is the number of columns.
""",
    level="optional",
)


SHEET = Sheet(
    title="CoPE",
    conventions=r"""
Queries $i$ and keys $j \le i$ count from 0, and everything is causal.
$\sigma$ is the sigmoid, and a table has `npos` columns $e[0], e[1], …$.
""",
    example=r"""
from posedu.numpy.gated import interpolated_vectors

table = np.array([[0.0, 1.0, 2.0], [5.0, 6.0, 9.0]])
p = np.array([[1.0, 1.5]])  # [queries, keys]
print(interpolated_vectors(p, table))  # e[1], e[1.5]
""",
    figure="cope_explorable",
    exercises=(
        COUNT,
        POSITIONS,
        INTERPOLATE,
        WEIGHTS,
        KTH_LAST,
        GRADIENT,
        SAME_GATES,
        OLDER_MARKS,
    ),
)
