"""Exercises on relatives of FoX: selective and log-linear attention."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Repair,
    Sheet,
    draw,
)

# fox-relatives-1: what is left of a deselected key


def weight_left(n, m):
    """Weight of a key that m tokens deselect by log 2 each, beside n others.

    ``n`` and ``m`` are SymPy expressions, and so is the weight.
    """
    return 1 / (n * 2**m + 1)


_N, _M = sp.symbols("n m", positive=True)

LEFT = Exercise(
    name="fox-relatives-1",
    title="Weight of a deselected key",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
In selective attention a query sees $n + 1$ keys with the same product $q \cdot k$.
One of the keys has been deselected by $m$ earlier tokens, by $\log 2$ each; no other key has been deselected.
Return its weight, exactly; `n` and `m` are SymPy expressions.
How many selections of this size halve the weight, if there are many other keys, and when is the weight exactly 0?
""",
    hint=r"""
The bias of the key is $-m \log 2$, and that of all others 0.
What are the exponentials of the logits?
""",
    cases=(
        (sp.Integer(1), sp.Integer(1)),
        (sp.Integer(3), sp.Integer(2)),
        (sp.Integer(4), sp.Integer(0)),
        (_N, _M),
    ),
    solution=weight_left,
    misconceptions=(
        Misconception(
            "Factor in place of the weight",
            "2^(−m) multiplies the exponential. A softmax divides by the sum of all.",
            lambda n, m: 2**-m,
        ),
        Misconception(
            "Divided by the old sum",
            "The sum of the exponentials has become smaller, too: the key's own part "
            "of it is 2^(−m), not 1.",
            lambda n, m: 2**-m / (n + 1),
        ),
        Misconception(
            "Key missing in the sum",
            "The sum is over all n + 1 keys, the deselected one included.",
            lambda n, m: 2**-m / n,
        ),
        Misconception(
            "Weight of another key",
            "The weight of the deselected key is asked for.",
            lambda n, m: 1 / (n + 2**-m),
        ),
        Misconception(
            "Weight of all others together",
            "The weight of the deselected key is asked for.",
            lambda n, m: n / (n + 2**-m),
        ),
        Misconception(
            "Selections multiply",
            "The m selections are added in the bias, so that e^(−m log 2) = 2^(−m).",
            lambda n, m: sp.exp(-(sp.log(2) ** m)) / (n + sp.exp(-(sp.log(2) ** m))),
        ),
        Misconception(
            "Selections divide",
            "Each selection halves the exponential: m of them give 2^(−m), not "
            "1/(m + 1).",
            lambda n, m: 1 / (n * (m + 1) + 1),
        ),
        Misconception(
            "Last selection not counted",
            "All m tokens are earlier than the query, so all of them count.",
            lambda n, m: weight_left(n, m - 1),
        ),
        Misconception(
            "Query's own selection counted, too",
            "What the query itself deselects counts from the next query on.",
            lambda n, m: weight_left(n, m + 1),
        ),
        Misconception(
            "Key raised",
            "A selection is subtracted from the logit.",
            lambda n, m: weight_left(n, -m),
        ),
        Misconception(
            "One key too few",
            "There are n other keys, and n + 1 in all.",
            lambda n, m: weight_left(n - 1, m),
        ),
        Misconception(
            "Deleted",
            "A selection lowers a logit by a finite number: some weight is left.",
            lambda n, m: sp.Integer(0),
        ),
        Misconception(
            "Logit in place of the exponential",
            "Weights are proportional to exponentials of logits.",
            lambda n, m: (1 - m * sp.log(2)) / (n + 1 - m * sp.log(2)),
        ),
    ),
    properties=(
        Property(
            "The weight is exact, without floats",
            lambda answer, n, m: not sp.sympify(answer(n, m)).has(sp.Float),
        ),
        Property(
            "Without selections all keys have the weight 1/(n + 1)",
            lambda answer, n, m: (
                sp.simplify(answer(n, sp.Integer(0)) - 1 / (n + 1)) == 0
            ),
        ),
    ),
    explanation=r"""
The exponential of the key's logit is $2^{-m}$ times that of the others, so its weight is $2^{-m} / (n + 2^{-m}) = 1 / (n 2^m + 1)$.
With many other keys each selection halves it, and no number of selections makes it 0: in {prf:ref}`selective attention <def-selective-box>` nothing is deleted, so the bias by itself saves no memory.
Code that drops keys from a cache needs a rule of its own, such as a limit for the sum.
""",
)


# fox-relatives-2: the bias from head 0


def selective_bias(logits, include_current):
    """Bias D [tokens, tokens] of selective attention from head 0's logits.

    ``logits``, [tokens, tokens], are scaled; those of later keys are to be ignored.
    The first token cannot be deselected. ``include_current`` says whether the
    selections of query i count for query i. D is 0 for later keys.
    """
    selected = np.tril(np.maximum(logits, 0), -1)
    selected[:, 0] = 0
    sums = np.cumsum(selected, axis=0)
    return -sums if include_current else selected - sums


def _bias(select=lambda z: np.maximum(z, 0), diagonal=-1, first=0, axis=0, sign=-1):
    """Make a wrong answer to the exercise ``selective_bias``.

    ``select`` makes selections of logits; ``diagonal`` is the last one that is kept;
    ``first`` multiplies those of the first key; sums run along ``axis``.
    """

    def answer(logits, include_current):
        selected = np.tril(select(logits), diagonal)
        selected[:, 0] = first * selected[:, 0]
        sums = np.cumsum(selected, axis=axis)
        return np.tril(sign * (sums if include_current else sums - selected))

    return answer


def _shifted(logits, include_current):
    selected = np.tril(np.maximum(logits, 0), -1)
    selected[:, 0] = 0
    sums = np.cumsum(selected, axis=0)
    return -np.tril(sums if include_current else sums - np.roll(selected, 1, 0))


def _rows_alone(logits, include_current):
    selected = np.tril(np.maximum(logits, 0), -1)
    selected[:, 0] = 0
    return -np.tril(selected if include_current else np.roll(selected, 1, 0))


_FOUR = np.array([[2.0, 9, 9, 9], [2, 1, 9, 9], [1, 3, 1, 9], [1, 2, -4, 5]])

BIAS = Exercise(
    name="fox-relatives-2",
    title="The bias from head 0",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
Return the bias $D_{ij}$ of selective attention, `[tokens, tokens]`, which is minus the sum of $E_{lj} = \max(S_{lj}, 0)$ over the tokens $l$ after key $j$ and before query $i$; with `include_current` the query's own row $l = i$ counts, too.
`logits` are head 0's; the entries of later keys are not masked yet.
The first token is spared, and no token deselects itself.
Leave 0 where the key is later than the query.
Along which axis does the sum run, and which tokens would count if you forgot the causal mask?
""",
    hint=r"""
Set to 0 what may not count, before you add anything.
The row of query $i$ is the row of query $i - 1$ plus one row of $E$.
""",
    cases=(
        (_FOUR[:3, :3], True),
        (_FOUR[:3, :3], False),
        (_FOUR, False),
        (draw(5, 5), False),
        (draw(6, 6, seed=1), True),
        (draw(1, 1) + 3, True),
    ),
    solution=selective_bias,
    misconceptions=(
        Misconception(
            "Sum over the keys",
            "The sum runs over the tokens l that deselect one key: down a column.",
            _bias(axis=1),
        ),
        Misconception(
            "Own row always counted",
            "Without include_current the sum ends before the query's own row.",
            lambda logits, include_current: selective_bias(logits, True),
        ),
        Misconception(
            "Own row never counted",
            "With include_current the query's own row belongs to the sum.",
            lambda logits, include_current: selective_bias(logits, False),
        ),
        Misconception(
            "The two rules exchanged",
            "include_current=True counts the query's own row.",
            lambda logits, include_current: selective_bias(logits, not include_current),
        ),
        Misconception(
            "Own key deselected",
            "A token never deselects itself: its own entry is 0.",
            _bias(diagonal=0),
        ),
        Misconception(
            "First token not spared",
            "The first token of the text cannot be deselected.",
            _bias(first=1),
        ),
        Misconception(
            "Negative logits counted",
            "Only positive logits deselect: nothing is ever brought back.",
            _bias(select=lambda z: z),
        ),
        Misconception(
            "Absolute values",
            "A negative logit does not deselect: it counts as 0.",
            _bias(select=np.abs),
        ),
        Misconception(
            "Sign of the logits reversed",
            "The positive logits deselect, not the negative ones.",
            _bias(select=lambda z: np.maximum(-z, 0)),
        ),
        Misconception(
            "Positive bias",
            "The sum is subtracted from the logits: the bias is not positive.",
            _bias(sign=1),
        ),
        Misconception(
            "Causal mask left out",
            "Tokens before the key have an entry for it, too, which does not count: "
            "mask first, then add.",
            lambda logits, include_current: _bias(diagonal=len(logits))(
                logits * (1 - np.eye(len(logits))), include_current
            ),
        ),
        Misconception(
            "Each row alone",
            "What earlier tokens deselected stays deselected: add the rows up.",
            _rows_alone,
        ),
        Misconception(
            "Wrong row subtracted",
            "The sum before row i is the sum up to row i, less row i itself.",
            _shifted,
        ),
        Misconception(
            "Sum of the later rows",
            "The sum is over the tokens before the query, from the top down.",
            lambda logits, include_current: np.tril(
                selective_bias(logits, True)[-1]
                - selective_bias(logits, not include_current)
            ),
        ),
        Misconception(
            "Weights in place of logits",
            "Selections are logits, before any softmax.",
            _bias(
                select=lambda z: (
                    np.exp(z - z.max()) / np.exp(z - z.max()).sum(1, keepdims=True)
                )
            ),
        ),
    ),
    properties=(
        Property(
            "The bias of a key never rises from one query to the next",
            lambda answer, logits, include_current: (
                np.tril(np.diff(answer(logits, include_current), axis=0)) <= 1e-12
            ).all(),
        ),
        Property(
            "Logits of later keys change nothing",
            lambda answer, logits, include_current: np.allclose(
                answer(logits, include_current),
                answer(np.tril(logits) + np.triu(logits + 7, 1), include_current),
            ),
        ),
    ),
    explanation=r"""
The sum runs down the columns, over the *queries* $l$: `axis=0`.
Subtracting a row from the inclusive sum shifts it by one query, as in the paper.
Without the causal mask the tokens *before* a key would count as well, and lower keys that nobody who saw them deselected.
{prf:ref}`One number of each key <thm-selective-sum>` is enough to go on, since each row is the last one less a row of $E$.
""",
)


# fox-relatives-3: a step with a cache


def selective_step(logits, deselected):
    """Weights of a new token, and the numbers of the keys for the next one.

    ``logits``, [heads, keys], are the new token's scaled products with all keys, its
    own key last; ``deselected``, [keys], has what earlier tokens deselected of each
    key, 0 for the own one. Returns (weights, deselected), [heads, keys] and [keys].
    """
    weights = (logits - deselected).softmax(-1)
    selected = logits[0].relu()
    selected[0] = selected[-1] = 0
    return weights, deselected + selected


def _stepped(lower=lambda z, gone, own: z - gone, select=lambda z, gone: z[0].relu()):
    """Make a wrong answer to the exercise ``selective_step``.

    ``lower`` takes logits, the old numbers and the token's own selections, and returns
    what the softmax is given; ``select`` takes logits and old numbers.
    """

    def answer(logits, deselected):
        selected = select(logits, deselected).clone()
        selected[..., 0] = selected[..., -1] = 0
        lowered = lower(logits, deselected, selected)
        return lowered.softmax(-1), deselected + selected

    return answer


def _step_case(heads, keys, seed=0):
    gone = torch.tensor(np.abs(draw(keys, seed=seed)))
    gone[0] = gone[-1] = 0
    return 2 * torch.tensor(draw(heads, keys, seed=seed + 1)), gone


def _raw_step(logits, deselected):
    weights = (logits - deselected).softmax(-1)
    return weights, deselected + logits[0].relu()


def _row(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


STEP = Exercise(
    name="fox-relatives-3",
    title="A step with a cache",
    kind="PyTorch",
    minutes=10,
    lines=4,
    statement=r"""
Selective attention decodes with one number for each key: how much earlier tokens have deselected it.
Given the logits of all heads of the new token and these numbers, return its weights and the numbers for the next token.
By the paper's rule what the token itself deselects counts from the next query on; the first token is spared.
Which logits deselect: those before or after the numbers have been subtracted?
""",
    hint=r"""
Head 0 says what is deselected, and the bias goes to all heads.
The new key itself has the number 0.
""",
    cases=(
        (torch.stack((_row(1, 2, 3), _row(0, 0, 0))), _row(0, 1, 0)),
        _step_case(2, 5),
        _step_case(3, 4, seed=2),
        (4 * torch.tensor(draw(2, 6)), _row(0, 9, 0, 2, 5, 0)),
        (torch.tensor(draw(2, 1)) + 3, _row(0)),
    ),
    solution=selective_step,
    misconceptions=(
        Misconception(
            "Own selections counted at once",
            "By the paper's rule they count from the next query on.",
            _stepped(lower=lambda z, gone, own: z - gone - own),
        ),
        Misconception(
            "Own selections in place of the earlier ones",
            "The weights need what *earlier* tokens deselected.",
            _stepped(lower=lambda z, gone, own: z - own),
        ),
        Misconception(
            "Bias for head 0 alone",
            "Head 0 selects, and all heads are lowered.",
            _stepped(
                lower=lambda z, gone, own: torch.cat((z[:1] - gone, z[1:])),
            ),
        ),
        Misconception(
            "Head 0 spared",
            "Head 0 is lowered like the other heads.",
            _stepped(lower=lambda z, gone, own: torch.cat((z[:1], z[1:] - gone))),
        ),
        Misconception(
            "No bias",
            "Subtract the numbers before the softmax.",
            _stepped(lower=lambda z, gone, own: z),
        ),
        Misconception(
            "Keys raised",
            "A selection lowers the logit.",
            _stepped(lower=lambda z, gone, own: z + gone),
        ),
        Misconception(
            "Lowered logits deselect",
            "E is made of head 0's products themselves. A key that has been deselected "
            "can be deselected again in full.",
            _stepped(select=lambda z, gone: (z[0] - gone).relu()),
        ),
        Misconception(
            "All heads deselect",
            "Head 0 alone says what later queries should not see.",
            _stepped(select=lambda z, gone: z.relu().sum(0)),
        ),
        Misconception(
            "Another head deselects",
            "Head 0 is the first one.",
            _stepped(select=lambda z, gone: z[-1].relu()),
        ),
        Misconception(
            "Mean of the heads deselects",
            "Head 0 alone says what later queries should not see.",
            _stepped(select=lambda z, gone: z.mean(0).relu()),
        ),
        Misconception(
            "Negative logits bring keys back",
            "Only positive logits count: what is deselected never comes back.",
            _stepped(select=lambda z, gone: z[0]),
        ),
        Misconception(
            "Weights deselect",
            "E is made of logits, not of weights.",
            _stepped(select=lambda z, gone: (z[0] - gone).softmax(-1)),
        ),
        Misconception(
            "Own key and first token deselected",
            "A token never deselects itself, and the first token is spared.",
            _raw_step,
        ),
        Misconception(
            "First token not spared",
            "The first token of a text cannot be deselected.",
            lambda logits, deselected: (
                (logits - deselected).softmax(-1),
                deselected
                + logits[0].relu()
                * (torch.arange(len(deselected)) < len(deselected) - 1),
            ),
        ),
        Misconception(
            "Own key deselected",
            "A token never deselects itself.",
            lambda logits, deselected: (
                (logits - deselected).softmax(-1),
                deselected + logits[0].relu() * (torch.arange(len(deselected)) > 0),
            ),
        ),
        Misconception(
            "Earlier selections forgotten",
            "The numbers add up: the old ones belong to the new ones.",
            lambda logits, deselected: (
                selective_step(logits, deselected)[0],
                selective_step(logits, deselected)[1] - deselected,
            ),
        ),
        Misconception(
            "Numbers not updated",
            "The next token needs to know what this one deselected.",
            lambda logits, deselected: (
                selective_step(logits, deselected)[0],
                deselected,
            ),
        ),
    ),
    properties=(
        Property(
            "No key's number falls",
            lambda answer, logits, deselected: bool(
                (answer(logits.clone(), deselected)[1] >= deselected).all()
            ),
        ),
    ),
    explanation=r"""
The logits before the subtraction deselect: $E$ is made of head 0's products, so that {prf:ref}`the sum is one number of each key <thm-selective-sum>` and a step needs no earlier query.
A step costs a subtraction for each head and key, and one addition for each key.
A library that recomputes the whole $L \times L$ bias at each step, or that switches its cache off for this encoding, does more than is needed.
""",
)


# fox-relatives-4: the levels of a query


def levels(i):
    """Levels of the keys 0, 1, …, i of query i, an array of i + 1 integers.

    The buckets are the "weak" ones of the definition.
    """
    found, start = np.zeros(i + 1, dtype=int), 0
    while start < i:
        size = 1 << ((i - start).bit_length() - 1)
        found[start : start + size] = size.bit_length()
        start += size
    return found


def _level(of_pair):
    return lambda i: np.array([of_pair(i, j) for j in range(i + 1)])


def _by_distance(i, j):
    return (i - j).bit_length()


def colleagues_levels(i):
    """Levels of the keys 0, 1, …, i of query i."""
    distances = range(i, -1, -1)
    return np.array([t.bit_length() for t in distances])


def _right_level(i, j):
    return (i ^ j).bit_length()


def _sizes_from_the_small(i):
    """Return levels with the smallest bucket at the start of the text."""
    sizes = [1 << n for n in range(i.bit_length()) if i >> n & 1]
    return np.array([n.bit_length() for n in sizes for _ in range(n)] + [0])


LEVELS = Exercise(
    name="fox-relatives-4",
    title="The levels of a query",
    kind="NumPy",
    minutes=12,
    lines=6,
    statement=r"""
Log-linear attention divides what precedes query $i$: the first bucket has the largest power of two that is at most $i$, the next one the largest that fits into the rest, and so on; the query's own token is a bucket by itself.
A bucket of $2^n$ tokens has the level $n + 1$, the own token level 0.
Return the levels of the keys $0, \dots, i$, as an array of integers.
What do the sizes of the buckets have to do with the binary digits of $i$?
""",
    hint=r"""
Take buckets off from the left until nothing is left but the query's token.
`n.bit_length()` is the number of binary digits of an integer.
""",
    cases=((2,), (6,), (7,), (8,), (0,), (1,), (13,), (44,)),
    solution=levels,
    misconceptions=(
        Misconception(
            "Levels by the distance",
            "The buckets begin at the first token of the text, not at the query: the "
            "distance does not say where they end.",
            colleagues_levels,
        ),
        Misconception(
            "Query counted from 1",
            "Tokens are counted from 0, so that i tokens precede query i.",
            _level(lambda i, j: _right_level(i + 1, j + 1)),
        ),
        Misconception(
            "Own token among the digits",
            "The digits of i are the buckets before the query; its own token is a "
            "bucket by itself.",
            _level(lambda i, j: _right_level(i + 1, j)),
        ),
        Misconception(
            "One level too low",
            "A bucket of one token before the query has level 1, the own token 0.",
            _level(lambda i, j: max(_right_level(i, j) - 1, 0)),
        ),
        Misconception(
            "One level too high",
            "The query's own token has level 0.",
            _level(lambda i, j: _right_level(i, j) + 1),
        ),
        Misconception(
            "Buckets in the reversed order",
            "The largest bucket stands first, farthest from the query.",
            _sizes_from_the_small,
        ),
        Misconception(
            "Keys in the reversed order",
            "Key 0 comes first, the query's own token last.",
            lambda i: levels(i)[::-1],
        ),
        Misconception(
            "Sizes in place of levels",
            "A bucket of 2^n tokens has level n + 1.",
            _level(lambda i, j: 1 << _right_level(i, j) >> 1),
        ),
        Misconception(
            "Exclusive or itself",
            "The level is its number of binary digits.",
            _level(lambda i, j: i ^ j),
        ),
        Misconception(
            "Number of digits that differ",
            "The highest digit in which i and j differ counts, not how many differ.",
            _level(lambda i, j: (i ^ j).bit_count()),
        ),
        Misconception(
            "Lowest digit that differs",
            "The highest digit in which i and j differ decides.",
            _level(lambda i, j: ((i ^ j) & -(i ^ j)).bit_length()),
        ),
        Misconception(
            "Doubling from the query back",
            "Sizes are the digits of i: a digit that is 0 has no bucket.",
            _level(lambda i, j: (i - j + 1).bit_length() - 1 if j < i else 0),
        ),
        Misconception(
            "All keys before the query in one bucket",
            "Only a power of two fits into a bucket. What is left over gets smaller "
            "ones.",
            _level(lambda i, j: i.bit_length() if j < i else 0),
        ),
        Misconception(
            "Buckets numbered from the query",
            "A level belongs to a size: where a digit is 0 there is no bucket, and its "
            "level is not used.",
            lambda i: np.unique(levels(i), return_inverse=True)[1],
        ),
    ),
    properties=(
        Property(
            "A level n + 1 has 2^n keys, or none",
            lambda answer, i: all(
                np.count_nonzero(np.asarray(answer(i)) == n + 1) in (0, 1 << n)
                for n in range(i.bit_length())
            ),
        ),
    ),
    explanation=r"""
The sizes are the powers of two of which $i$ is the sum, the largest first: a bucket for each binary digit 1 of $i$.
A key in the bucket of $2^n$ tokens has the same digits as $i$ above digit $n$, and another one there, so its level is the number of digits of $i \oplus j$, as {prf:ref}`the theorem on digits <thm-log-linear-digits>` says.
The level depends on where both tokens stand, and not on their distance alone.
""",
)


# fox-relatives-5: levels by distance


def query_with_wrong_levels():
    """Return a smallest input on which `colleagues_levels` is wrong.

    The answer is i, an integer, in a tuple: (i,).
    """
    return (2,)


def _refused_query(i):
    if type(i) is not int:
        return "i is an integer"
    return "" if 0 <= i <= 4096 else "i is from 0 to 4096"


DISTANCE = Exercise(
    name="fox-relatives-5",
    title="Find the input: levels by distance",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_levels` should do what exercise fox-relatives-4 asks for.
Her tests: the queries 0, 1, 7 and 63.
All pass.
Find a query $i$ for which her function is wrong; the smallest input is the smallest $i$.
For which queries is her function right?
""",
    hint=r"""
Write down the buckets of the first queries.
""",
    cases=((),),
    solution=query_with_wrong_levels,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_levels,
        right=levels,
        tested=((0,), (1,), (7,), (63,)),
        refusal=_refused_query,
        size=lambda i: i,
        size_of="query i",
    ),
    explanation=r"""
Her level is the number of digits of the distance $i - j$, the right one {prf:ref}`that of the exclusive or <thm-log-linear-digits>` of $i$ and $j$.
Query 2 has one bucket with the tokens 0 and 1, of level 2, and she says level 1 for key 1.
The two agree for all keys where $i$ has only digits 1, $i = 2^n - 1$: no digit is borrowed in the subtraction.
Her levels would depend on the distance alone, but the buckets of one query would not be those of the next one put together, so that no state could be kept.
""",
)


# fox-relatives-6: one matrix for each bucket


def by_buckets(q, k, v, f, factors):
    """Log-linear attention of one head, with one matrix for each bucket.

    ``q``, ``k``, ``v`` are [tokens, d]; ``f``, [tokens], are the gates; ``factors``,
    [tokens, levels], are λ, with levels enough. Nothing is divided. Returns the
    outputs, [tokens, d].
    """
    states, out = {}, []
    for i in range(len(q)):
        states = {level: f[i] * m for level, m in states.items()}
        states[0] = torch.outer(k[i], v[i])
        out.append(sum(factors[i, n] * q[i] @ m for n, m in states.items()))
        merged, level = states.pop(0), 1
        while level in states:
            merged, level = merged + states.pop(level), level + 1
        states[level] = merged
    return torch.stack(out)


def _by_pairs(level=_right_level, decay=lambda f, i, j: f[j + 1 : i + 1].prod(), own=1):
    """Make an answer to ``by_buckets`` that has a weight for each pair.

    ``level`` takes query and key; ``decay`` takes gates, query and key.
    """

    def answer(q, k, v, f, factors):
        last = factors.shape[1] - 1
        return torch.stack(
            [
                sum(
                    factors[i, min(level(i, j), last)]
                    * decay(f, i, j)
                    * (q[i] @ k[j])
                    * v[j]
                    for j in range(i + own)
                )
                + 0 * v[0]
                for i in range(len(q))
            ]
        )

    return answer


def _softmaxed(q, k, v, f, factors):
    mask = torch.ones(len(q), len(q), dtype=torch.bool).tril()
    sums = f.log().cumsum(0)
    of_pairs = torch.tensor(
        [
            [_right_level(i, j) if j <= i else 0 for j in range(len(q))]
            for i in range(len(q))
        ]
    )
    logits = q @ k.T + sums[:, None] - sums + factors.gather(1, of_pairs).log()
    return logits.masked_fill(~mask, -torch.inf).softmax(-1) @ v


def _factors_of_keys(q, k, v, f, factors):
    weights = torch.zeros(len(q), len(q), dtype=q.dtype)
    for i in range(len(q)):
        for j in range(i + 1):
            weights[i, j] = factors[j, _right_level(i, j)] * f[j + 1 : i + 1].prod()
    return (weights * (q @ k.T)) @ v


def _buckets_case(tokens, d, seed=0):
    q, k, v = torch.tensor(draw(3, tokens, d, seed=seed))
    f = torch.tensor(draw(tokens, seed=seed)).sigmoid()
    factors = torch.tensor(draw(tokens, 5, seed=seed)).exp()
    return q, k, v, f, factors


BUCKETS = Exercise(
    name="fox-relatives-6",
    title="One matrix for each bucket",
    kind="PyTorch",
    minutes=25,
    lines=10,
    level="hard",
    statement=r"""
Compute log-linear attention of one head token by token: $o_i = \sum_j \lambda_{i\ell} F_{ij} (q_i^\top k_j) v_j$ with $\ell = \ell_{ij}$ and $F_{ij} = f_{j+1} \cdots f_i$.
Keep one matrix $\sum_j F_{ij}\, k_j v_j^\top$ for each bucket, and no keys.
At each token all matrices are multiplied by its gate, its own becomes level 0, and the output is read; after that the levels $0, 1, \dots$ that are in use without a gap become one matrix of the next level.
How many sums of matrices does this cost for each token, on average?
""",
    hint=r"""
A dictionary from levels to matrices.
Adding 1 to a binary number works the same way: the ones at its end become zeros, and the next digit becomes a one.
""",
    cases=(
        _buckets_case(2, 1),
        _buckets_case(3, 2),
        _buckets_case(5, 2, seed=1),
        _buckets_case(9, 3),
        _buckets_case(1, 2),
        _buckets_case(16, 2, seed=2),
    ),
    solution=by_buckets,
    misconceptions=(
        Misconception(
            "Own key multiplied by its gate",
            "The product of gates starts after the key, so that a token's own key is "
            "not multiplied.",
            _by_pairs(decay=lambda f, i, j: f[j : i + 1].prod()),
        ),
        Misconception(
            "Query's own gate missing",
            "The gate of token i acts on all earlier keys before query i reads.",
            _by_pairs(decay=lambda f, i, j: f[j + 1 : i].prod()),
        ),
        Misconception(
            "No gates",
            "All matrices are multiplied by the gate of each token.",
            _by_pairs(decay=lambda f, i, j: 1.0),
        ),
        Misconception(
            "Last gate alone",
            "The gates multiply: a matrix that was multiplied before is multiplied "
            "again.",
            _by_pairs(decay=lambda f, i, j: f[i] if j < i else 1.0),
        ),
        Misconception(
            "Merged before the output is read",
            "The query reads its own token at level 0, before anything is merged.",
            _by_pairs(level=lambda i, j: _right_level(i + 1, j)),
        ),
        Misconception(
            "Levels by the distance",
            "Buckets begin at the first token: the levels in use without a gap merge.",
            _by_pairs(level=_by_distance),
        ),
        Misconception(
            "Only two levels",
            "Where level 1 is in use, it becomes part of level 2, and so on.",
            _by_pairs(level=lambda i, j: min(i - j, 1)),
        ),
        Misconception(
            "One level for each token",
            "Matrices merge: a bucket has a power of two of tokens.",
            _by_pairs(level=lambda i, j: i - j),
        ),
        Misconception(
            "One factor for all",
            "Each level has its own factor.",
            _by_pairs(level=lambda i, j: 0),
        ),
        Misconception(
            "Levels one too high",
            "The token itself has level 0.",
            _by_pairs(level=lambda i, j: _right_level(i, j) + 1),
        ),
        Misconception(
            "Factors of the key's token",
            "λ is the query's: row i of the factors.",
            _factors_of_keys,
        ),
        Misconception(
            "Own token missing",
            "Query i reads its own key, too, at level 0.",
            _by_pairs(own=0),
        ),
        Misconception(
            "Softmax",
            "There is no softmax: weights may be negative, and need not sum to 1.",
            _softmaxed,
        ),
        Misconception(
            "Divided by √d",
            "Nothing is divided: the products are not scaled.",
            lambda q, k, v, f, factors: (
                by_buckets(q, k, v, f, factors) / q.shape[1] ** 0.5
            ),
        ),
        Misconception(
            "Keys and values exchanged",
            "The matrix is k vᵀ, and the query meets the key's side.",
            lambda q, k, v, f, factors: by_buckets(q, v, k, f, factors),
        ),
    ),
    properties=(
        Property(
            "With factors of 1 it is linear attention with a decay",
            lambda answer, q, k, v, f, factors: torch.allclose(
                answer(q, k, v, f, torch.ones_like(factors)),
                _by_pairs(level=lambda i, j: 0)(q, k, v, f, torch.ones_like(factors)),
            ),
        ),
    ),
    explanation=r"""
{prf:ref}`Merging is binary counting <thm-log-linear-states>`: the matrices in use are the digits 1 of the number of tokens read, and a new token carries.
Half of the tokens cause no sum, a quarter one, an eighth two, and so on: one sum a token on average.
A merged matrix loses which of its keys was which, but no key's product with the query: only the factors are shared.
With all factors 1 it is {prf:ref}`linear attention with a decay <thm-log-linear-equal>`.
""",
)


# fox-relatives-7: how many matrices


def numbers_of_matrices(tokens):
    """Largest and mean number of matrices of the queries 0, 1, …, tokens − 1.

    ``tokens`` is at least 1. Returns (an int, a float).
    """
    counts = [i.bit_count() + 1 for i in range(tokens)]
    return max(counts), sum(counts) / tokens


def _counted(count, last=0):
    """Make a wrong answer: ``count`` takes a query, of which the last is ``last``."""

    def answer(tokens):
        counts = [count(i) for i in range(tokens + last)]
        return max(counts), sum(counts) / tokens

    return answer


COUNT = Exercise(
    name="fox-relatives-7",
    title="How many matrices?",
    kind="experiment",
    minutes=8,
    lines=3,
    statement=r"""
Query $i$, counted from 0, needs one matrix for each bucket, its own token included.
Return the largest number of matrices that a query of a text needs, an int, and the mean over its queries.
Then try it with 1,000, 4,096 and 100,000 tokens.
Between which neighbors does the number fall most, and by what rule does the mean grow?
""",
    hint=r"""
`i.bit_count()` is the number of binary digits 1 of an integer.
""",
    cases=((1,), (2,), (8,), (9,), (100,), (1000,)),
    solution=numbers_of_matrices,
    misconceptions=(
        Misconception(
            "Number of digits",
            "A digit that is 0 has no bucket.",
            _counted(lambda i: i.bit_length() + 1),
        ),
        Misconception(
            "Own token missing",
            "The query's own token is a bucket, too.",
            _counted(lambda i: i.bit_count()),
        ),
        Misconception(
            "Queries counted from 1",
            "i tokens precede query i: the digits of i count, not those of i + 1.",
            _counted(lambda i: (i + 1).bit_count() + 1),
        ),
        Misconception(
            "Tokens read in place of tokens before",
            "The own token is a bucket by itself: the digits are those of i.",
            _counted(lambda i: (i + 1).bit_count()),
        ),
        Misconception(
            "One query too many",
            "The last query of a text has the number tokens − 1.",
            _counted(lambda i: i.bit_count() + 1, last=1),
        ),
        Misconception(
            "Digits that are 0",
            "Buckets are the digits that are 1.",
            _counted(lambda i: i.bit_length() - i.bit_count() + 1),
        ),
        Misconception(
            "Number of the last query",
            "The largest number over all queries is asked for: the last query may have "
            "few digits 1.",
            lambda tokens: (
                (tokens - 1).bit_count() + 1,
                numbers_of_matrices(tokens)[1],
            ),
        ),
        Misconception(
            "Median in place of the mean",
            "The mean over the queries is asked for.",
            lambda tokens: (
                numbers_of_matrices(tokens)[0],
                float(np.median([i.bit_count() + 1 for i in range(tokens)])),
            ),
        ),
        Misconception(
            "Sum in place of the mean",
            "Divide by the number of queries.",
            lambda tokens: (
                numbers_of_matrices(tokens)[0],
                numbers_of_matrices(tokens)[1] * tokens,
            ),
        ),
        Misconception(
            "Results exchanged",
            "The largest number comes first, then the mean.",
            lambda tokens: numbers_of_matrices(tokens)[::-1],
        ),
        Misconception(
            "Logarithm",
            "That is the number of levels that a text may use, not how many matrices "
            "its queries need.",
            lambda tokens: (
                (tokens - 1).bit_length() + 1,
                float(np.log2(tokens)) + 1,
            ),
        ),
    ),
    properties=(),
    explanation=r"""
Query $i$ needs a matrix for each digit 1 of $i$ and one for itself.
The most falls from $i = 2^n - 1$, with $n + 1$ matrices, to $i = 2^n$, with two: all buckets have become one.
Over $2^n$ tokens each digit is 1 half of the time, so the mean is $1 + n/2$: about half of the logarithm, which is why {prf:ref}`one matrix for each bucket <thm-log-linear-states>` costs less than its name says.
""",
    prediction=Prediction(
        "How many matrices does a query of a text of 4,096 tokens need on average?",
        lambda: numbers_of_matrices(4096)[1],
        near=0.05,
    ),
)


# fox-relatives-8: a text in chunks


def bias_in_chunks(selected, sizes):
    """Bias D of a text in chunks, by the paper's rule.

    ``selected``, [tokens, tokens], are the selections E, 0
    from the diagonal on; ``sizes`` has the number of tokens
    of each chunk. Returns D, [tokens, tokens].
    """
    rows, before = [], torch.zeros_like(selected[0])
    for chunk in selected.split(sizes):
        sums = before + chunk.cumsum(0) - chunk
        rows.append(-sums)
        before = before + chunk.sum(0)
    return torch.cat(rows)


def _broken_bias_in_chunks(selected, sizes):
    """Bias D of a text in chunks, by the paper's rule.

    ``selected``, [tokens, tokens], are the selections E, 0
    from the diagonal on; ``sizes`` has the number of tokens
    of each chunk. Returns D, [tokens, tokens].
    """
    rows, before = [], torch.zeros_like(selected[0])
    for chunk in selected.split(sizes):
        sums = before + chunk.cumsum(0) - chunk
        rows.append(-sums)
        before = chunk.sum(0)
    return torch.cat(rows)


def symptom_of_chunks(function):
    """Return by how much chunks change the bias."""
    logits = torch.arange(36.0).sin().reshape(6, 6)
    selected = logits.relu().tril(-1)
    whole = function(selected, [6])
    chunked = function(selected, [2, 2, 1, 1])
    return (whole - chunked).abs().max().item()


def _chunked(carry, shift=1):
    """Make a wrong answer to the exercise ``bias_in_chunks``.

    ``carry`` takes the old numbers and a chunk; ``shift`` is 0 if a query's own row
    counts.
    """

    def answer(selected, sizes):
        rows, before = [], torch.zeros_like(selected[0])
        for chunk in selected.split(sizes):
            rows.append(-(before + chunk.cumsum(0) - shift * chunk))
            before = carry(before, chunk)
        return torch.cat(rows)

    return answer


def _chunks_case(sizes, seed=0):
    tokens = sum(sizes)
    logits = torch.tensor(draw(tokens, tokens, seed=seed))
    return logits.relu().tril(-1), sizes


def _two_numbers(before, chunk):
    return before + chunk.sum(0) * (before == 0)


CHUNKS = Exercise(
    name="fox-relatives-8",
    title="Repair: a text in chunks",
    kind="repair",
    minutes=12,
    lines=1,
    statement=r"""
A server reads long prompts in chunks, with one number in the cache for each key.
With prompts of one or two chunks all is well; in longer ones variables that were assigned anew come back.
Repair `bias_in_chunks`, so that `symptom_of_chunks` gives 0.
Why does a test with two chunks not find the mistake?
""",
    hint=r"""
What does the cache know at the third chunk about the first one?
""",
    cases=(
        _chunks_case([1, 2, 1]),
        _chunks_case([2, 2, 1, 1], seed=1),
        _chunks_case([4]),
        _chunks_case([1] * 6, seed=2),
        _chunks_case([3, 1, 4], seed=3),
        _chunks_case([1]),
    ),
    solution=bias_in_chunks,
    misconceptions=(
        Misconception(
            "Only the last chunk counted",
            "The code is as it was: the numbers of earlier chunks are overwritten.",
            _broken_bias_in_chunks,
        ),
        Misconception(
            "Nothing carried over",
            "A chunk needs what all earlier chunks deselected.",
            _chunked(lambda before, chunk: 0 * before),
        ),
        Misconception(
            "Last row in place of the sum",
            "All rows of the chunk have deselected something, not only its last one.",
            _chunked(lambda before, chunk: before + chunk[-1]),
        ),
        Misconception(
            "Last token of a chunk forgotten",
            "What the last token of a chunk deselected counts for the next chunk.",
            _chunked(lambda before, chunk: before + chunk[:-1].sum(0)),
        ),
        Misconception(
            "Larger number kept",
            "The numbers add up.",
            _chunked(lambda before, chunk: torch.maximum(before, chunk.sum(0))),
        ),
        Misconception(
            "First number kept",
            "A key can be deselected in several chunks: the numbers add up.",
            _chunked(_two_numbers),
        ),
        Misconception(
            "Mean of the rows",
            "The rows of a chunk add up.",
            _chunked(lambda before, chunk: before + chunk.mean(0)),
        ),
        Misconception(
            "Sum over the keys",
            "Each key has its own number: the sum runs over the chunk's tokens.",
            _chunked(lambda before, chunk: before + chunk.sum()),
        ),
        Misconception(
            "Numbers counted twice",
            "The old numbers are in the sum already.",
            _chunked(lambda before, chunk: 2 * before + chunk.sum(0)),
        ),
        Misconception(
            "Selections subtracted",
            "The numbers are sums of selections, which are subtracted later.",
            _chunked(lambda before, chunk: before - chunk.sum(0)),
        ),
        Misconception(
            "Own row counted",
            "By the paper's rule a query's own selections count from the next one on.",
            _chunked(lambda before, chunk: before + chunk.sum(0), shift=0),
        ),
    ),
    explanation=r"""
The number of a key is {prf:ref}`the sum of all that was deselected of it so far <thm-selective-sum>`; the broken code keeps only what the last chunk deselected.
With two chunks the last chunk is all there is before the second one, so that the result is right.
A test needs three chunks, and a key that was deselected in the first one.
""",
    repair=Repair(_broken_bias_in_chunks, symptom_of_chunks),
)


SHEET = Sheet(
    title="Selective and log-linear attention",
    conventions=r"""
$i$ is the query and $j \le i$ the key, counted from 0.
$E_{lj} \ge 0$ is by how much token $l$ deselects key $j$, and $D$ the bias of all heads.
$f$ are gates, $\ell_{ij}$ is the level of key $j$ for query $i$, and $\lambda_{i\ell}$ the factor of query $i$ for a level.
""",
    example=r"""
from posedu.numpy.gated import accumulated_selections

E = np.zeros((4, 4))
E[1, 0], E[2, 0] = 2, 1  # tokens 1 and 2 deselect key 0
sums = accumulated_selections(E, include_current=False)
print(0.0 - sums)  # the bias D
""",
    figure="selective_attention_explorable",
    exercises=(LEFT, BIAS, STEP, LEVELS, DISTANCE, BUCKETS, COUNT, CHUNKS),
)
