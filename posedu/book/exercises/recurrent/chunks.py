"""Exercises on chunks: recurrences in matrix products."""

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

# chunks-1: two tokens of the delta rule


def two_writes(v, k, a, beta, s):
    """Writes of two tokens under the delta rule, a tuple of SymPy expressions.

    A token adds its key times its write to the state. Keys, values and the state are single numbers. ``v``, ``k``, ``a`` and ``beta`` are
    pairs: values, keys, gates and strengths of the two tokens; ``s`` is the state
    before them.
    """
    first = beta[0] * (v[0] - a[0] * k[0] * s)
    state = a[0] * s + k[0] * first
    return first, beta[1] * (v[1] - a[1] * k[1] * state)


def _writes(first=None, second=None):
    """Make a wrong answer to ``two_writes`` from one or two wrong functions.

    ``first`` takes v, k, a, beta and s; ``second`` takes these and the first write.
    """

    def answer(v, k, a, beta, s):
        one = (first or (lambda *given: two_writes(*given)[0]))(v, k, a, beta, s)
        if second is None:
            state = a[0] * s + k[0] * one
            return one, beta[1] * (v[1] - a[1] * k[1] * state)
        return one, second(v, k, a, beta, s, one)

    return answer


def _pair(name):
    return sp.symbols(f"{name}1:3", positive=True)


_S = sp.Symbol("s", positive=True)
_HALF = sp.Rational(1, 2)
_ONE = sp.Integer(1)

TWO = Exercise(
    name="chunks-1",
    title="Two tokens of the delta rule",
    kind="by hand",
    minutes=8,
    lines=3,
    statement=r"""
Two tokens follow the delta rule in a head with one feature, so that state, keys and values are numbers.
Token $t$ first multiplies the state by its gate $a_t$, and then writes $u_t = \beta_t (v_t - k_t \cdot \text{state})$: it adds $k_t u_t$ to the state.
Return $(u_1, u_2)$, exactly; the arguments are SymPy expressions.
Which part of $u_2$ does the triangular system of a chunk have below its diagonal?
""",
    hint=r"""
Write down the state after the first token.
The second token's gate multiplies all of it, what the first token has written included.
""",
    cases=(
        ((_ONE, sp.Integer(2)), (_ONE, _ONE), (_ONE, _HALF), (_ONE, _ONE), sp.S(0)),
        (
            (sp.Integer(3), sp.Integer(5)),
            (sp.Integer(1), sp.Integer(2)),
            (_HALF, sp.Rational(1, 3)),
            (_HALF, sp.Integer(2)),
            sp.Integer(4),
        ),
        (_pair("v"), _pair("k"), _pair("a"), _pair("b"), _S),
    ),
    solution=two_writes,
    misconceptions=(
        Misconception(
            "Values written without a correction",
            "That is the additive rule. The delta rule takes off what the state has.",
            _writes(
                lambda v, k, a, beta, s: beta[0] * v[0],
                lambda v, k, a, beta, s, u: beta[1] * v[1],
            ),
        ),
        Misconception(
            "First token's write forgotten",
            "When the second token comes, the state also has what the first has "
            "written.",
            _writes(
                second=lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] - a[1] * k[1] * a[0] * s)
                )
            ),
        ),
        Misconception(
            "First write not decayed",
            "The second token's gate multiplies the whole state.",
            _writes(
                second=lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] - k[1] * (a[1] * a[0] * s + k[0] * u))
                )
            ),
        ),
        Misconception(
            "First write decayed by its own gate",
            "A token's gate acts on what was in the state before, not on its own write.",
            _writes(
                second=lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] - a[1] * k[1] * a[0] * (s + k[0] * u))
                )
            ),
        ),
        Misconception(
            "State not decayed before the correction",
            "The state decays first and is corrected then.",
            _writes(
                lambda v, k, a, beta, s: beta[0] * (v[0] - k[0] * s),
                lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] - k[1] * (a[0] * s + k[0] * u))
                ),
            ),
        ),
        Misconception(
            "Key left out of the first write",
            "A token adds its key times what it writes.",
            _writes(
                second=lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] - a[1] * k[1] * (a[0] * s + u))
                )
            ),
        ),
        Misconception(
            "Key left out of the correction",
            "What the state has for a key is the state times the key.",
            _writes(
                lambda v, k, a, beta, s: beta[0] * (v[0] - a[0] * s),
                lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] - a[1] * (a[0] * s + k[0] * u))
                ),
            ),
        ),
        Misconception(
            "Value of the first token in place of its write",
            "The first token has not added its whole value, but u.",
            _writes(
                second=lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] - a[1] * k[1] * (a[0] * s + k[0] * v[0]))
                )
            ),
        ),
        Misconception(
            "Strength counted twice",
            "The first write has its strength already.",
            _writes(
                second=lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] - a[1] * k[1] * (a[0] * s + k[0] * beta[0] * u))
                )
            ),
        ),
        Misconception(
            "Strength on the value alone",
            "The strength multiplies the whole bracket.",
            _writes(
                lambda v, k, a, beta, s: beta[0] * v[0] - a[0] * k[0] * s,
                lambda v, k, a, beta, s, u: (
                    beta[1] * v[1] - a[1] * k[1] * (a[0] * s + k[0] * u)
                ),
            ),
        ),
        Misconception(
            "Sign of the correction reversed",
            "What the state already has is taken off the value.",
            _writes(
                lambda v, k, a, beta, s: beta[0] * (v[0] + a[0] * k[0] * s),
                lambda v, k, a, beta, s, u: (
                    beta[1] * (v[1] + a[1] * k[1] * (a[0] * s + k[0] * u))
                ),
            ),
        ),
        Misconception(
            "States in place of writes",
            "What the tokens write is asked for, not the states after them.",
            lambda v, k, a, beta, s: _states(v, k, a, beta, s),
        ),
        Misconception(
            "Two results exchanged",
            "The first token's write comes first.",
            lambda v, k, a, beta, s: two_writes(v, k, a, beta, s)[::-1],
        ),
    ),
    properties=(
        Property(
            "A state that already has the first value is left as it is",
            lambda answer, v, k, a, beta, s: (
                sp.simplify(answer(v, k, a, beta, v[0] / (a[0] * k[0]))[0]) == 0
            ),
        ),
    ),
    explanation=r"""
$u_1 = \beta_1 (v_1 - a_1 k_1 s)$; after the first token the state is $a_1 s + k_1 u_1$, so $u_2 = \beta_2 \bigl( v_2 - a_2 k_2 (a_1 s + k_1 u_1) \bigr)$.
Its term with $u_1$ is $-\beta_2 a_2 k_2 k_1 u_1$: the number $\beta_2 B_{21} = \beta_2\, k_2\, a_2\, k_1$ stands below the diagonal of $I + D B$ in {prf:ref}`the chunk's triangular system <thm-state-chunks>`.
The gate $a_1$ is not in it, since a token's own gate does not act on its write.
The rest, $\beta_2 (v_2 - a_2 a_1 k_2 s)$, is the right side.
""",
)


def _states(v, k, a, beta, s):
    first, second = two_writes(v, k, a, beta, s)
    state = a[0] * s + k[0] * first
    return state, a[1] * state + k[1] * second


# chunks-2: decays of a chunk


def decays(log_decay):
    """Products of the gates between all pairs of a chunk's tokens, [tokens, tokens].

    ``log_decay``, [tokens], has the logarithms of the gates, from 0 to −1000. Entry
    [r, s] is the product of the gates of the tokens s + 1 … r, 1 for r = s, and 0 for
    later s; all are finite.
    """
    sums = np.cumsum(log_decay)
    earlier = np.tri(len(sums), dtype=bool)
    exponents = np.where(earlier, sums[:, None] - sums, -np.inf)
    return np.exp(exponents)


def colleagues_decays(log_decay):
    """Products of gates between all pairs of tokens.

    ``log_decay``, [tokens], has the logarithms of the
    gates; the factors are in float32. Entry [r, s] of the
    result, [tokens, tokens], is the product of the gates
    of the tokens s + 1 … r, and 0 for later s.
    """
    sums = np.cumsum(log_decay).astype(np.float32)
    with np.errstate(all="ignore"):
        of_queries = np.exp(sums)[:, None]
        of_keys = np.exp(-sums)[None]
        return np.tril(of_queries * of_keys).astype(float)


def _quotients(log_decay):
    with np.errstate(all="ignore"):
        grown = np.exp(np.cumsum(log_decay))
        return np.tril(grown[:, None] / grown)


def _masked_late(log_decay):
    sums = np.cumsum(log_decay)
    with np.errstate(all="ignore"):
        return np.exp(sums[:, None] - sums) * np.tri(len(sums))


def _decayed(rows, columns, earlier=np.tri):
    """Make a wrong answer to ``decays``: e^(rows − columns), of two kinds of sums."""

    def answer(log_decay):
        difference = rows(log_decay)[:, None] - columns(log_decay)
        mask = earlier(len(log_decay)) > 0
        with np.errstate(all="ignore"):
            return np.exp(np.where(mask, difference, -np.inf))

    return answer


def _exclusive(log_decay):
    return np.cumsum(log_decay) - log_decay


DECAYS = Exercise(
    name="chunks-2",
    title="Decays of a chunk",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
In a chunk with gates $\alpha_t$ the weight of token $s$ for query $r$ has the factor $\alpha_{s+1} \cdots \alpha_r$.
Return these factors as a matrix, 0 where $s > r$, from the logarithms of the gates.
Gates may be as small as $e^{-1000}$, and the result must be finite all the same, also where a product is too small to be anything but 0.
Which step has to come first, the exponential or the mask?
""",
    hint=r"""
With $G = $ `np.cumsum(log_decay)` the factor is $e^{G_r - G_s}$.
What is $e^{G_r - G_s}$ for $s > r$, and what is $0 \cdot \infty$?
""",
    cases=(
        (np.log([0.5, 0.25, 0.5]),),
        (-np.abs(draw(1)),),
        (-np.abs(draw(7)),),
        (np.array([-0.5, 0.0, -1000.0, -0.25, -1000.0, -2.0]),),
        (np.full(4, -3.0),),
        (np.full(5, -400.0),),
    ),
    solution=decays,
    misconceptions=(
        Misconception(
            "Quotient of two exponentials",
            "A product of all gates is soon 0, and 0/0 is no number. Form the "
            "difference of the sums first.",
            _quotients,
        ),
        Misconception(
            "Two factors in float32",
            "In float32 e^(−G) is infinite as soon as −G passes 88.7, and both factors "
            "are rounded. Form the difference of the sums first.",
            colleagues_decays,
        ),
        Misconception(
            "Mask after the exponential",
            "For later tokens the exponential may be infinite, and 0 times infinity is "
            "no number. Mask the exponents.",
            _masked_late,
        ),
        Misconception(
            "Own gate of the key included",
            "A token's gate does not act on its own write: the product starts after s.",
            _decayed(np.cumsum, _exclusive),
        ),
        Misconception(
            "Gate of the query left out",
            "The query reads after its own token has decayed the state.",
            _decayed(_exclusive, np.cumsum),
        ),
        Misconception(
            "Gates a token late",
            "The product has the gates of s + 1 … r, and yours those of s … r − 1.",
            _decayed(_exclusive, _exclusive),
        ),
        Misconception(
            "Later keys in place of earlier ones",
            "Row r belongs to the query, and only keys s ≤ r count.",
            lambda log_decay: decays(log_decay).T,
        ),
        Misconception(
            "No mask",
            "A query has no later keys: their factor is 0.",
            _decayed(np.cumsum, np.cumsum, earlier=lambda n: np.ones((n, n))),
        ),
        Misconception(
            "Diagonal left out",
            "A token reads its own write with the factor 1.",
            _decayed(np.cumsum, np.cumsum, earlier=lambda n: np.tri(n, k=-1)),
        ),
        Misconception(
            "Later keys with the factor 1",
            "e⁰ is 1. For later keys the exponent must be −∞.",
            lambda log_decay: np.exp(
                np.tril(np.cumsum(log_decay)[:, None] - np.cumsum(log_decay))
            ),
        ),
        Misconception(
            "Logarithms in place of the factors",
            "The factors are asked for: take the exponential at the end.",
            lambda log_decay: np.tril(
                np.cumsum(log_decay)[:, None] - np.cumsum(log_decay)
            ),
        ),
        Misconception(
            "Sums without their differences",
            "e^(G_r) has the gates of all tokens up to r. The product starts after s.",
            lambda log_decay: (
                np.tri(len(log_decay)) * np.exp(np.cumsum(log_decay))[:, None]
            ),
        ),
        Misconception(
            "Gate of the query for all keys",
            "Every token between key and query has a gate.",
            lambda log_decay: np.tri(len(log_decay)) * np.exp(log_decay)[:, None],
        ),
        Misconception(
            "Sign of the exponent reversed",
            "Gates are at most 1, and so are their products.",
            lambda log_decay: np.tril(
                np.exp(
                    np.minimum(np.cumsum(log_decay) - np.cumsum(log_decay)[:, None], 50)
                )
            ),
        ),
        Misconception(
            "Powers of 2",
            "The logarithms are natural.",
            lambda log_decay: decays(log_decay * np.log(2)),
        ),
        Misconception(
            "Small products cut off",
            "Products below 0.001 are small and not 0.",
            lambda log_decay: np.where(decays(log_decay) < 1e-3, 0, decays(log_decay)),
        ),
    ),
    properties=(
        Property(
            "The factor from s to r is that from s to m times that from m to r",
            lambda answer, log_decay: all(
                np.isclose(answer(log_decay)[-1, 0], row[0] * answer(log_decay)[-1, m])
                for m, row in enumerate(answer(log_decay))
            ),
        ),
    ),
    explanation=r"""
The mask comes first: with $e^{-\infty} = 0$ the later tokens get exactly 0, and all other exponents are at most 0, so that nothing overflows.
{ref}`Masking afterwards <err-chunks-mask>` multiplies 0 and $\infty$, in the outputs or at the latest in the gradients.
The quotient $e^{G_r} / e^{G_s}$ is $0/0$ as soon as $G_s$ is below about −745, in float32 below −104.
$\Gamma_{rs}$ in {prf:ref}`the definition <def-chunk-decays-box>` has this number for each feature.
""",
)


# chunks-3: one chunk


def one_chunk(q, k, v, log_decay, state):
    """Outputs of a chunk, [tokens, d_v], and the state after it, [d, d_v].

    ``q`` and ``k`` are [tokens, d], ``v`` is [tokens, d_v], ``log_decay``, [tokens],
    has the logarithms of the gates, and ``state``, [d, d_v], is that before the chunk.
    """
    sums = np.cumsum(log_decay)
    pairs = (q @ k.T) * decays(log_decay)
    outputs = pairs @ v + np.exp(sums)[:, None] * (q @ state)
    kept = np.exp(sums[-1] - sums)[:, None] * k
    return outputs, np.exp(sums[-1]) * state + kept.T @ v


def _chunk(
    pairs=lambda q, k, g: (q @ k.T) * decays(g),
    reading=lambda g: np.exp(np.cumsum(g)),
    kept=lambda g: np.exp(np.sum(g) - np.cumsum(g)),
    forgotten=lambda g: np.exp(np.sum(g)),
):
    """Make a wrong answer to ``one_chunk`` from factors of its four terms."""

    def answer(q, k, v, log_decay, state):
        outputs = pairs(q, k, log_decay) @ v
        outputs = outputs + reading(log_decay)[:, None] * (q @ state)
        held = kept(log_decay)[:, None] * k
        return outputs, forgotten(log_decay) * state + held.T @ v

    return answer


def _chunk_case(tokens, d, d_v, seed=0):
    rows = draw(tokens, 2 * d + d_v + 1, seed=seed)
    q, k, v, gates = np.split(rows, (d, 2 * d, 2 * d + d_v), axis=1)
    return q, k, v, -np.abs(gates[:, 0]), draw(d, d_v, seed=seed + 1)


CHUNK = Exercise(
    name="chunks-3",
    title="One chunk",
    kind="NumPy",
    minutes=15,
    lines=5,
    statement=r"""
Each token of a head multiplies the state by its gate, adds $k_t v_t^\top$, and reads $o_t = S_t^\top q_t$.
Return the outputs of a chunk and the state after it, from the state before it, in matrix products and without a loop over the tokens.
The matrix of exercise chunks-2 has the decays between two tokens; write it again if you like.
Which factors does the state before the chunk get, and which do the chunk's own keys get in the next state?
""",
    hint=r"""
The outputs have two terms: pairs within the chunk, and the old state, read by the queries.
The new state has two terms: the old state, decayed, and what the tokens leave.
What token $s$ has written is decayed by the gates of the tokens after it.
""",
    cases=(
        (
            np.array([[1.0], [1.0]]),
            np.array([[1.0], [1.0]]),
            np.array([[3.0], [5.0]]),
            np.log([0.5, 0.25]),
            np.array([[8.0]]),
        ),
        _chunk_case(1, 2, 1),
        _chunk_case(4, 2, 3, seed=1),
        _chunk_case(6, 3, 2, seed=2),
    ),
    solution=one_chunk,
    misconceptions=(
        Misconception(
            "Old state not read",
            "The queries also read what earlier chunks have written.",
            _chunk(reading=lambda g: 0 * g),
        ),
        Misconception(
            "Old state read without decay",
            "The tokens up to the query have decayed it.",
            _chunk(reading=lambda g: 1 + 0 * g),
        ),
        Misconception(
            "Old state read after all of the chunk's gates",
            "A query comes before the later tokens of its chunk.",
            _chunk(reading=lambda g: np.exp(np.sum(g)) + 0 * g),
        ),
        Misconception(
            "Query's own gate left out",
            "A query reads after its own token has decayed the state.",
            _chunk(reading=lambda g: np.exp(np.cumsum(g) - g)),
        ),
        Misconception(
            "Pairs without decay",
            "What token s has written is decayed until r reads it.",
            _chunk(pairs=lambda q, k, g: np.tril(q @ k.T)),
        ),
        Misconception(
            "Later keys in the pairs",
            "A query does not read what later tokens write.",
            _chunk(pairs=lambda q, k, g: q @ k.T),
        ),
        Misconception(
            "Own key left out",
            "A token reads after it has written.",
            _chunk(pairs=lambda q, k, g: np.tril((q @ k.T) * decays(g), -1)),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row r of the pairs belongs to query r.",
            _chunk(pairs=lambda q, k, g: (k @ q.T) * decays(g)),
        ),
        Misconception(
            "Keys kept without decay",
            "Later tokens of the chunk decay what a token has written.",
            _chunk(kept=lambda g: 1 + 0 * g),
        ),
        Misconception(
            "Keys decayed from the start of the chunk",
            "What token s has written is decayed by the gates *after* s.",
            _chunk(kept=lambda g: np.exp(np.cumsum(g))),
        ),
        Misconception(
            "Keys decayed by their own gate",
            "A token's own gate acts before it writes.",
            _chunk(kept=lambda g: np.exp(np.sum(g) - np.cumsum(g) + g)),
        ),
        Misconception(
            "Keys decayed by the whole chunk",
            "The last token's write is not decayed at all.",
            _chunk(kept=lambda g: np.exp(np.sum(g)) + 0 * g),
        ),
        Misconception(
            "Old state kept without decay",
            "Every token of the chunk decays it.",
            _chunk(forgotten=lambda g: 1.0),
        ),
        Misconception(
            "Old state forgotten",
            "The state after the chunk also has what earlier chunks have written.",
            _chunk(forgotten=lambda g: 0.0),
        ),
        Misconception(
            "Old state decayed by the last token alone",
            "Every token of the chunk decays it.",
            _chunk(forgotten=lambda g: np.exp(g[-1])),
        ),
    ),
    properties=(
        Property(
            "Two chunks, one after the other, give what one chunk of both gives",
            lambda answer, q, k, v, g, state: _in_two(answer, q, k, v, g, state),
        ),
    ),
    explanation=r"""
$O = A V + \tilde Q S$ and $S' = E S + \hat K^\top V$, {prf:ref}`the theorem <thm-state-chunks>` with all strengths 1.
The old state is read with the gates of the tokens up to the query, $e^{G_r}$, and goes into the next state with those of the whole chunk, $e^{G_C}$.
A key goes into it with the gates after it, $e^{G_C - G_s}$, which is 1 for the last token.
No factor is above 1, so nothing overflows however strong the gates are.
""",
)


def _in_two(answer, q, k, v, g, state):
    whole = answer(q, k, v, g, state)
    half = len(q) // 2
    if half == 0:
        return True
    first, middle = answer(*(t[:half] for t in (q, k, v, g)), state)
    second, last = answer(*(t[half:] for t in (q, k, v, g)), middle)
    return np.allclose(np.concatenate((first, second)), whole[0]) and np.allclose(
        last, whole[1]
    )


# chunks-4: what tokens write


def written(k, v, beta, state):
    """Writes of a chunk's tokens under the delta rule, [tokens, d_v].

    ``k`` is [tokens, d], ``v`` is [tokens, d_v], ``beta`` is [tokens], and ``state``,
    [d, d_v], is that before the chunk. There are no gates.
    """
    known = (k @ k.mT).tril(-1)
    system = torch.eye(len(k), dtype=k.dtype) + beta[:, None] * known
    right = beta[:, None] * (v - k @ state)
    return torch.linalg.solve_triangular(system, right, upper=False)


def _solve(
    gram=lambda k, beta: beta[:, None] * (k @ k.mT).tril(-1),
    right=lambda k, v, beta, state: beta[:, None] * (v - k @ state),
):
    """Make a wrong answer to ``written``: it solves (I + gram) U = right."""

    def answer(k, v, beta, state):
        system = torch.eye(len(k), dtype=k.dtype) + gram(k, beta)
        return torch.linalg.solve(system, right(k, v, beta, state))

    return answer


def _written_case(tokens, d, d_v, seed=0):
    rows = torch.tensor(draw(tokens, d + d_v, seed=seed))
    k, v = rows[:, :d], rows[:, d:]
    beta = 2 * torch.tensor(draw(tokens, seed=seed + 1)).sigmoid()
    state = torch.tensor(draw(d, d_v, seed=seed + 2))
    return k / k.norm(dim=1, keepdim=True), v, beta, state


def _tensor(*rows):
    return torch.tensor(rows, dtype=torch.float64)


WRITTEN = Exercise(
    name="chunks-4",
    title="A triangular system for a chunk",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
Without gates a token of the delta rule writes $u_t = \beta_t \bigl( v_t - S_{t-1}^\top k_t \bigr)$, and the state becomes $S_{t-1} + k_t u_t^\top$.
Return the rows $u_t$ of a chunk, from the state before it, without a loop over the tokens.
Use `torch.linalg.solve_triangular`.
Why does the system have a solution for all strengths?
""",
    hint=r"""
$S_{t-1} = S + \sum_{s<t} k_s u_s^\top$.
Insert that, and collect all terms with a $u$ on the left.
""",
    cases=(
        (
            _tensor([1.0, 0.0], [0.6, 0.8]),
            _tensor([2.0], [3.0]),
            torch.tensor([0.5, 1.5], dtype=torch.float64),
            _tensor([1.0], [4.0]),
        ),
        _written_case(1, 3, 2),
        _written_case(4, 3, 2, seed=1),
        _written_case(7, 2, 3, seed=4),
    ),
    solution=written,
    misconceptions=(
        Misconception(
            "Chunk's own tokens not counted",
            "A token meets what the earlier tokens of the chunk have written, too.",
            lambda k, v, beta, state: beta[:, None] * (v - k @ state),
        ),
        Misconception(
            "Old state not counted",
            "The state before the chunk also has something for these keys.",
            _solve(right=lambda k, v, beta, state: beta[:, None] * v),
        ),
        Misconception(
            "Strength of the earlier token",
            "The bracket is multiplied by the strength of its own, later token: it "
            "belongs to the rows.",
            _solve(lambda k, beta: (k @ k.mT * beta).tril(-1)),
        ),
        Misconception(
            "Strength missing in the system",
            "β multiplies the whole bracket, with the sum over earlier tokens.",
            _solve(lambda k, beta: (k @ k.mT).tril(-1)),
        ),
        Misconception(
            "Strength missing on the right",
            "Without earlier tokens u is β times what is missing.",
            _solve(right=lambda k, v, beta, state: v - k @ state),
        ),
        Misconception(
            "Strength missing before the old state",
            "β multiplies the whole bracket.",
            _solve(right=lambda k, v, beta, state: beta[:, None] * v - k @ state),
        ),
        Misconception(
            "Sign of the sum reversed",
            "What is known is *taken off* the value, so it stands with a plus on the "
            "left.",
            _solve(lambda k, beta: -beta[:, None] * (k @ k.mT).tril(-1)),
        ),
        Misconception(
            "Sign of the old state reversed",
            "What the state has for a key is taken off the value.",
            _solve(right=lambda k, v, beta, state: beta[:, None] * (v + k @ state)),
        ),
        Misconception(
            "Own token in the sum",
            "A token corrects the state *before* its own write.",
            _solve(lambda k, beta: beta[:, None] * (k @ k.mT).tril()),
        ),
        Misconception(
            "Later tokens in the sum",
            "A token meets the writes of tokens before it alone.",
            _solve(
                lambda k, beta: beta[:, None] * (k @ k.mT - torch.diag((k * k).sum(1)))
            ),
        ),
        Misconception(
            "Later tokens in place of earlier ones",
            "A token meets the writes of tokens before it.",
            _solve(lambda k, beta: beta[:, None] * (k @ k.mT).triu(1)),
        ),
        Misconception(
            "Matrix multiplied in place of solved",
            "One product corrects for the first-order terms only: earlier writes are "
            "corrected themselves. Solve the system.",
            lambda k, v, beta, state: (
                (torch.eye(len(k), dtype=k.dtype) - beta[:, None] * (k @ k.mT).tril(-1))
                @ (beta[:, None] * (v - k @ state))
            ),
        ),
        Misconception(
            "Only the token before",
            "All earlier tokens of the chunk have written.",
            _solve(
                lambda k, beta: (beta[:, None] * (k @ k.mT).tril(-1)).triu(-1),
            ),
        ),
        Misconception(
            "Outputs of keys in place of what is written",
            "What is written is asked for, not what the state then has for each key.",
            lambda k, v, beta, state: (
                k @ state + (k @ k.mT).tril() @ written(k, v, beta, state)
            ),
        ),
    ),
    properties=(
        Property(
            "With strength 1 and a key of length 1 the state then has the last value",
            lambda answer, k, v, beta, state: torch.allclose(
                k[-1] @ state
                + k[-1] @ k.mT @ answer(k, v, torch.ones_like(beta), state),
                v[-1],
            ),
        ),
    ),
    explanation=r"""
With $S_{t-1} = S + \sum_{s<t} k_s u_s^\top$ the rows satisfy $u_t + \beta_t \sum_{s<t} (k_t^\top k_s)\, u_s = \beta_t (v_t - S^\top k_t)$, {prf:ref}`the system of a chunk <thm-state-chunks>` with all gates 1.
The matrix has ones on its diagonal and zeros above, so its determinant is 1 whatever the strengths are, and the solution runs from the top row down.
Keys need no unit length for that; but then a state may grow.
Of the tensor's axes only the tokens are solved for, so all chunks of a text can be solved at once for the right sides $D V$ and $D K$.
""",
)


# chunks-5: how many tokens share an anchor


def chunk_that_overflows():
    """Return a smallest input on which `colleagues_decays` is wrong, a tuple.

    Its one entry is ``log_decay``.
    """
    return (np.full(18, -5.0),)


def _refused_gates(log_decay):
    if log_decay.ndim != 1 or not 0 < log_decay.size <= 400:
        return "log_decay is [tokens], with 1 to 400 tokens"
    if log_decay.dtype != float or not ((log_decay <= 0) & (log_decay >= -5)).all():
        return "log gates are floats from −5 to 0"
    return ""


ANCHOR = Exercise(
    name="chunks-5",
    title="Find the input: how many tokens share an anchor?",
    kind="find the input",
    minutes=10,
    lines=1,
    statement=r"""
`colleagues_decays` computes decays from two factors, one of queries and one of keys, in float32, for gates whose logarithms a model bounds by −5.
Both are exponentials of sums of log gates that start at one token, the *anchor*.
Her tests: one token with the log gate −5; four tokens with different gates; sixteen tokens, all with −5.
All pass.
Find log gates from −5 to 0 for which her function is wrong; the smallest input has the fewest tokens.
Which size of sub-chunk is safe, and why would a test with random gates hardly find the mistake?
""",
    hint=r"""
Up to which number is $e^x$ finite in float32?
`np.log(np.finfo(np.float32).max)` knows.
""",
    cases=((),),
    solution=chunk_that_overflows,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_decays,
        right=decays,
        tested=(
            (np.array([-5.0]),),
            (np.array([-0.5, -2.0, 0.0, -4.0]),),
            (np.full(16, -5.0),),
        ),
        refusal=_refused_gates,
        size=len,
        size_of="number of tokens",
    ),
    tolerance=1e-4,
    explanation=r"""
$e^{-G}$ overflows in float32 when $-G$ passes 88.7, that is with the 18th gate of −5, since $17 \cdot 5 = 85 < 88.7 < 90$.
Then $e^{G} e^{-G}$ is $0 \cdot \infty$ or infinite.
Sub-chunks of 16 are safe, and 17 tokens too; sub-chunks of 32 are not.
Random gates have a sum near their mean, far from the bound: a sum of 18 has to use the bound nearly in full.
With halved chunks query and key {prf:ref}`meet at a token between them <thm-wall-anchor>`, so no factor is above 1, and no bound is needed.
""",
)


# chunks-6: a text on several devices


def whole_map(f, h):
    """The map of all chunks, a tuple (F, H) of [d, d] and [d, d_v].

    Chunk n maps the state S to ``f[n]`` S + ``h[n]``; ``f`` is [chunks, d, d], ``h`` is
    [chunks, d, d_v], and chunk 0 comes first. All chunks together map S to F S + H.
    """
    linear, added = np.eye(f.shape[1]), np.zeros(h.shape[1:])
    for n in range(len(f)):
        linear, added = f[n] @ linear, f[n] @ added + h[n]
    return linear, added


def _maps(linear=None, added=None):
    """Make a wrong answer to ``whole_map`` from a wrong first or second result."""

    def answer(f, h):
        right = whole_map(f, h)
        return (
            right[0] if linear is None else linear(f, h),
            right[1] if added is None else added(f, h),
        )

    return answer


def _folded(step, start=None):
    def answer(f, h):
        total = np.zeros(h.shape[1:]) if start is None else start(f, h)
        for own_f, own_h in zip(f, h, strict=True):
            total = step(own_f, own_h, total)
        return total

    return answer


def _product_of(f):
    total = np.eye(f.shape[1])
    for matrix in f:
        total = total @ matrix
    return total


MAPS = Exercise(
    name="chunks-6",
    title="A text on several devices",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
Each device holds a part of a long text and has computed what this part does to the state: it maps $S$ to $F_n S + H_n$.
Return the map $(F, H)$ of all parts together, `(f, h)` in the order of the text.
How many numbers does a device send on for a head with $d = d_v = 128$, and does the number depend on the length of its part?
""",
    hint=r"""
Insert one map into the other: $F_2 (F_1 S + H_1) + H_2$.
Start with the map that leaves every state as it is.
""",
    cases=(
        (
            np.array([[[0.5]], [[2.0]]]),
            np.array([[[1.0]], [[3.0]]]),
        ),
        (draw(1, 2, 2), draw(1, 2, 3)),
        (draw(3, 2, 2, seed=1), draw(3, 2, 1, seed=2)),
        (draw(4, 3, 3, seed=3) / 2, draw(4, 3, 2, seed=4)),
        (draw(0, 2, 2), draw(0, 2, 2)),
    ),
    solution=whole_map,
    misconceptions=(
        Misconception(
            "Matrices in the wrong order",
            "The last chunk acts last: its matrix stands at the left.",
            _maps(lambda f, h: _product_of(f)),
        ),
        Misconception(
            "Chunks in the reversed order",
            "Chunk 0 comes first.",
            lambda f, h: whole_map(f[::-1], h[::-1]),
        ),
        Misconception(
            "Added parts summed without their maps",
            "Later chunks also transform what earlier ones have added.",
            _maps(added=lambda f, h: h.sum(0)),
        ),
        Misconception(
            "Last chunk's part alone",
            "What earlier chunks have added is still there, transformed.",
            _maps(added=lambda f, h: h[-1] if len(h) else np.zeros(h.shape[1:])),
        ),
        Misconception(
            "Own part transformed by its own matrix",
            "F_n acts on the state before the chunk. H_n is what the chunk adds to it.",
            _maps(added=_folded(lambda f, h, total: f @ (total + h))),
        ),
        Misconception(
            "Matrix at the right of the state",
            "A state has features of keys as rows, and F acts on the rows.",
            _maps(
                added=lambda f, h: _folded(lambda f, h, total: f.T @ total + h)(f, h)
            ),
        ),
        Misconception(
            "Matrices multiplied entry by entry",
            "Maps compose by matrix products.",
            _maps(lambda f, h: np.prod(f, 0)),
        ),
        Misconception(
            "Matrices added",
            "Maps compose by matrix products.",
            _maps(lambda f, h: f.sum(0)),
        ),
        Misconception(
            "Sign of the added part reversed",
            "F_2 H_1 + H_2 is a sum.",
            _maps(added=_folded(lambda f, h, total: f @ total - h)),
        ),
        Misconception(
            "First chunk left out",
            "Chunk 0 belongs to the map.",
            _maps(
                lambda f, h: whole_map(f[1:], h[1:])[0],
                lambda f, h: whole_map(f[1:], h[1:])[1],
            ),
        ),
        Misconception(
            "Map of the last chunk transformed twice",
            "Each chunk's matrix is applied once.",
            _maps(lambda f, h: whole_map(f, h)[0] @ whole_map(f, h)[0]),
        ),
        Misconception(
            "No identity for a text without chunks",
            "A text without chunks leaves the state as it is.",
            _maps(
                lambda f, h: (
                    whole_map(f, h)[0] if len(f) else np.zeros((f.shape[1],) * 2)
                )
            ),
        ),
    ),
    properties=(
        Property(
            "Any grouping of the chunks gives the same map",
            lambda answer, f, h: _in_groups(answer, f, h),
        ),
    ),
    explanation=r"""
$F_2 (F_1 S + H_1) + H_2 = (F_2 F_1) S + (F_2 H_1 + H_2)$, {prf:ref}`and the composition is associative <thm-chunk-compose>`, so devices may combine their maps in a tree.
A device sends $d (d + d_v) = 2 \cdot 128^2 = 32{,}768$ numbers a head, whatever the length of its part; ring attention would pass on all keys and values.
For gates without the delta rule $F$ is diagonal, and $d + d\, d_v$ numbers are enough.
A map of a text without tokens is $(I, 0)$.
""",
)


def _in_groups(answer, f, h):
    if len(f) < 2:
        return True
    first, second = answer(f[:1], h[:1]), answer(f[1:], h[1:])
    both = answer(np.stack((first[0], second[0])), np.stack((first[1], second[1])))
    return all(map(np.allclose, both, answer(f, h)))


# chunks-7: the best size of a chunk


def best_size(d, d_v, rho, sizes):
    """The best size of chunk, a whole number, and its time per token.

    A token takes C (d + d_v) + 2 d d_v multiply-adds in chunks of C, and a chunk reads
    and writes a state of d d_v numbers once. Moving a number takes as long as ``rho``
    multiply-adds, and the time is in multiply-adds. The best size, of the list
    ``sizes``, has the least time; of equally good ones it is the smallest.
    """
    times = {
        c: c * (d + d_v) + 2 * d * d_v + rho * 2 * d * d_v / c for c in sorted(sizes)
    }
    best = min(times, key=times.get)
    return best, times[best]


def _best(operations, moves):
    """Make a wrong answer to ``best_size`` from the two parts of a token's time."""

    def answer(d, d_v, rho, sizes):
        times = {c: operations(c, d, d_v) + rho * moves(c, d, d_v) for c in sizes}
        best = min(sorted(sizes), key=times.get)
        return best, float(times[best])

    return answer


def _operations(c, d, d_v):
    return c * (d + d_v) + 2 * d * d_v


def _moves(c, d, d_v):
    return 2 * d * d_v / c


def _time(c, d, d_v, rho):
    return float(_operations(c, d, d_v) + rho * _moves(c, d, d_v))


def _with_time(choose):
    """Make a wrong answer to ``best_size`` from a wrong choice of the size."""

    def answer(d, d_v, rho, sizes):
        size = choose(d, d_v, rho, sizes)
        return size, _time(size, d, d_v, rho)

    return answer


_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

SIZE = Exercise(
    name="chunks-7",
    title="The best size of a chunk",
    kind="experiment",
    minutes=10,
    lines=3,
    statement=r"""
For the additive rule a token takes $C (d + d_v) + 2 d\, d_v$ multiply-adds in chunks of $C$; a chunk reads its state once and writes it once.
A machine moves one number in the time of `rho` multiply-adds.
Return the size, of the list `sizes` in any order, with the least time per token, and that time, in multiply-adds.
Then try it: heads of 64, 128 and 256 features, `rho` from 1 to 1,000.
By which factor does the best size grow if the head is four times as large, and how much is lost with half of it?
""",
    hint=r"""
The time of moving the state is shared by the $C$ tokens of a chunk.
`min` with a `key` gives the first of equally good sizes.
""",
    cases=(
        (2, 2, 2, [1, 2, 4]),
        (64, 64, 1, _SIZES),
        (128, 128, 32, _SIZES[::-1]),
        (128, 64, 300, _SIZES),
        (16, 256, 100, _SIZES),
        (256, 256, 1000, _SIZES),
        (8, 8, 0, _SIZES),
        (32, 32, 16, [16, 32]),
        (4, 4, 4, [8, 2, 4]),
        (3, 3, 6, [6, 3]),
    ),
    solution=best_size,
    misconceptions=(
        Misconception(
            "Operations alone",
            "By operations the smallest size is always best. Moving the state counts.",
            _best(_operations, lambda c, d, d_v: 0.0),
        ),
        Misconception(
            "Moves alone",
            "By moves the largest size is always best. Operations count, too.",
            _best(lambda c, d, d_v: 0, _moves),
        ),
        Misconception(
            "State moved once",
            "A chunk reads the state and writes it.",
            _best(_operations, lambda c, d, d_v: d * d_v / c),
        ),
        Misconception(
            "Largest time",
            "The least time is asked for.",
            _with_time(
                lambda d, d_v, rho, sizes: max(
                    sizes, key=lambda c: _time(c, d, d_v, rho)
                )
            ),
        ),
        Misconception(
            "Index in place of the size",
            "The size is asked for, not its place in the list.",
            lambda d, d_v, rho, sizes: (
                sorted(sizes).index(best_size(d, d_v, rho, sizes)[0]),
                best_size(d, d_v, rho, sizes)[1],
            ),
        ),
        Misconception(
            "Time of a chunk in place of a token's",
            "Chunks of different sizes have different numbers of tokens: divide by C.",
            _best(
                lambda c, d, d_v: c * _operations(c, d, d_v),
                lambda c, d, d_v: 2.0 * d * d_v,
            ),
        ),
        Misconception(
            "Moves of a chunk counted for each token",
            "The tokens of a chunk share the moves of the state.",
            _best(_operations, lambda c, d, d_v: 2.0 * d * d_v),
        ),
        Misconception(
            "Pairs alone counted",
            "Reading and updating the state takes d d_v multiply-adds each.",
            _best(lambda c, d, d_v: c * (d + d_v), _moves),
        ),
        Misconception(
            "State read without an update",
            "Reading and updating the state takes d d_v multiply-adds each.",
            _best(lambda c, d, d_v: c * (d + d_v) + d * d_v, _moves),
        ),
        Misconception(
            "Largest of equally good sizes",
            "Of equally good sizes the smallest is asked for.",
            _with_time(
                lambda d, d_v, rho, sizes: min(
                    sizes, key=lambda c: (_time(c, d, d_v, rho), -c)
                )
            ),
        ),
        Misconception(
            "Square root of the formula, rounded down",
            "The best of the given sizes is asked for.",
            _with_time(
                lambda d, d_v, rho, sizes: max(
                    1, int((2 * rho * d * d_v / (d + d_v)) ** 0.5)
                )
            ),
        ),
        Misconception(
            "Values as wide as keys",
            "`d_v` is the number of features of values.",
            lambda d, d_v, rho, sizes: best_size(d, d, rho, sizes),
        ),
        Misconception(
            "Cost of a move reversed",
            "`rho` multiply-adds take as long as one move.",
            lambda d, d_v, rho, sizes: best_size(d, d_v, 1 / max(rho, 1e-9), sizes),
        ),
        Misconception(
            "State of d + d_v numbers",
            "The state is a matrix.",
            _best(_operations, lambda c, d, d_v: 2 * (d + d_v) / c),
        ),
        Misconception(
            "Pairs of the whole text",
            "Within a chunk a token meets C tokens, and the cost grows like C, not C².",
            _best(lambda c, d, d_v: c * c * (d + d_v), _moves),
        ),
    ),
    properties=(
        Property(
            "The first result is one of the sizes",
            lambda answer, d, d_v, rho, sizes: answer(d, d_v, rho, sizes)[0] in sizes,
        ),
    ),
    explanation=r"""
The time per token is $C (d + d_v) + 2 d\, d_v + 2 \rho\, d\, d_v / C$, with its minimum at $C_0 = \sqrt{2 \rho\, d\, d_v / (d + d_v)}$, {eq}`eq-chunk-best`; for $d = d_v$ it is $\sqrt{\rho\, d}$.
A head four times as large has a best size twice as large.
With half of the best size the time is larger by $(d + d_v) C_0 / 2$, for $d = d_v = 128$ and $\rho = 32$ by an eighth: the minimum is flat, and powers of 2 are fine enough.
Kernels keep the state in fast memory between chunks, where $\rho$ is small; the number of steps in sequence, and the size of the machine's matrix products, then decide.
""",
    prediction=Prediction(
        "$d = d_v = 128$, and moving a number takes as long as 128 multiply-adds. Which power of 2 is the best size of a chunk?",
        lambda: best_size(128, 128, 128, _SIZES)[0],
    ),
)


# chunks-8: resets in packed texts


def packed_decays(log_decay, segments):
    """Products of gates between tokens of packed texts.

    ``log_decay``, [tokens], has the logarithms of the
    gates in float32, and ``segments``, [tokens], whole
    numbers that never fall: tokens of one text have one
    number. Entry [r, s] of the result, [tokens, tokens] in
    float32, is the product of the gates of s + 1 … r; it
    is 0 for later s and for s of another text.
    """
    sums = log_decay.cumsum(0)
    exponents = sums[:, None] - sums
    same = segments[:, None] == segments
    hidden = ~same.tril()
    return exponents.masked_fill(hidden, -torch.inf).exp()


def _broken_packed_decays(log_decay, segments):
    """Products of gates between tokens of packed texts.

    ``log_decay``, [tokens], has the logarithms of the
    gates in float32, and ``segments``, [tokens], whole
    numbers that never fall: tokens of one text have one
    number. Entry [r, s] of the result, [tokens, tokens] in
    float32, is the product of the gates of s + 1 … r; it
    is 0 for later s and for s of another text.
    """
    starts = segments.diff(prepend=segments[:1]) != 0
    log_decay = log_decay.masked_fill(starts, -1e5)
    sums = log_decay.cumsum(0)
    exponents = sums[:, None] - sums
    hidden = ~torch.ones_like(exponents).bool().tril()
    return exponents.masked_fill(hidden, -torch.inf).exp()


def symptom_of_resets(function):
    """Return the change of the second text by packing."""
    gates = -torch.arange(1.0, 65) / 4096
    text = torch.arange(64) // 32
    packed = function(gates, text)[32:, 32:]
    alone = function(gates[32:], text[32:])
    return (packed - alone).abs().max().item()


def _packed(reset=None, hidden=None):
    """Make a wrong answer to ``packed_decays``.

    ``reset`` returns the log gates that are used, and ``hidden`` the pairs that get the
    factor 0.
    """

    def answer(log_decay, segments):
        starts = segments.diff(prepend=segments[:1]) != 0
        gates = log_decay if reset is None else reset(log_decay, starts)
        sums = gates.cumsum(0)
        exponents = sums[:, None] - sums
        same = (segments[:, None] == segments).tril()
        mask = ~same if hidden is None else hidden(segments, starts)
        return exponents.masked_fill(mask, -torch.inf).exp()

    return answer


def _later(segments, starts):
    return ~torch.ones(len(segments), len(segments)).bool().tril()


def _packed_case(sizes, seed=0):
    gates = -torch.tensor(draw(sum(sizes), seed=seed)).abs().float()
    segments = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return gates, segments


PACKED = Exercise(
    name="chunks-8",
    title="Repair: resets in packed texts",
    kind="repair",
    minutes=15,
    lines=4,
    statement=r"""
Two texts stand in one row, and the second must not read what the first has written.
The code replaces the log gate of the first token of a text by −100,000, since $e^{-100000} = 0$.
The loss of packed rows differs a little from that of single texts.
Repair `packed_decays`, so that `symptom_of_resets` gives 0.
Why is a gate of 0, whose logarithm is $-\infty$, worse still?
""",
    hint=r"""
How far apart are two neighboring float32 numbers near 100,000?
No gate is needed to give a pair of two texts the factor 0.
""",
    cases=(
        (torch.tensor([-0.5, -0.25, -1.0]), torch.tensor([0, 1, 1])),
        _packed_case((4,)),
        _packed_case((2, 3), seed=1),
        _packed_case((1, 4, 1, 2), seed=2),
        (torch.tensor([-1.0, -2.0, -0.5, -3.0]), torch.tensor([3, 3, 7, 8])),
    ),
    solution=packed_decays,
    tolerance=1e-6,
    misconceptions=(
        Misconception(
            "Resets by a large number",
            "The code is as it was: 100,000 stays in all later sums, and float32 has "
            "hardly two digits after the point there.",
            _broken_packed_decays,
        ),
        Misconception(
            "Resets by an infinite number",
            "All later sums are −∞, and their differences no numbers.",
            _packed(lambda g, starts: g.masked_fill(starts, -torch.inf), _later),
        ),
        Misconception(
            "Resets by a smaller number",
            "e⁻¹⁰ is not 0: the second text still reads the first.",
            _packed(lambda g, starts: g.masked_fill(starts, -10.0), _later),
        ),
        Misconception(
            "No resets",
            "The second text must not read what the first has written.",
            _packed(None, _later),
        ),
        Misconception(
            "No mask for later tokens",
            "Later keys have the factor 0 within a text, too.",
            _packed(None, lambda segments, starts: segments[:, None] != segments),
        ),
        Misconception(
            "Own text hidden, other texts shown",
            "Tokens of one text have one number in `segments`.",
            _packed(
                None,
                lambda segments, starts: ~(segments[:, None] != segments).tril(),
            ),
        ),
        Misconception(
            "First token of each text hidden",
            "The first token of a text is read by its text as any other.",
            _packed(
                None,
                lambda segments, starts: (
                    ~(segments[:, None] == segments).tril() | starts[None]
                ),
            ),
        ),
        Misconception(
            "First query of each text without keys",
            "The first token of a text reads its own write.",
            _packed(
                None,
                lambda segments, starts: (
                    ~(segments[:, None] == segments).tril() | starts[:, None]
                ),
            ),
        ),
        Misconception(
            "Diagonal hidden",
            "A token reads its own write.",
            _packed(
                None,
                lambda segments, starts: ~(segments[:, None] == segments).tril(-1),
            ),
        ),
        Misconception(
            "Log gates of the first tokens set to 0",
            "The gate of a text's first token acts on nothing that its text reads; but "
            "pairs of two texts must get the factor 0.",
            _packed(lambda g, starts: g.masked_fill(starts, 0.0), _later),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row r belongs to the query, and later keys are hidden.",
            lambda log_decay, segments: packed_decays(log_decay, segments).mT,
        ),
        Misconception(
            "Only texts that are neighbors separated",
            "A text must not read any other text.",
            _packed(
                None,
                lambda segments, starts: (
                    _later(segments, starts) | (segments[:, None] - segments == 1)
                ),
            ),
        ),
        Misconception(
            "Segments taken for numbers 0 and 1",
            "`segments` may be any whole numbers that never fall.",
            _packed(
                None,
                lambda segments, starts: (
                    _later(segments, starts)
                    | (segments[:, None].clamp(max=1) != segments.clamp(max=1))
                ),
            ),
        ),
        Misconception(
            "Hidden pairs with the factor 1",
            "e⁰ is 1. Hidden exponents are −∞.",
            lambda log_decay, segments: torch.where(
                packed_decays(log_decay, segments) > 0,
                packed_decays(log_decay, segments),
                1.0,
            ),
        ),
    ),
    level="hard",
    explanation=r"""
Pairs of two texts are masked, and no sum contains a border: {ref}`this is exact <err-chunks-reset>`.
Near 100,000 neighboring float32 numbers are 0.008 apart, and all sums of the second text lie there, so that differences of two of them, the small numbers that count, are off by as much.
With $-\infty$ the differences are $-\infty - (-\infty)$, no numbers at all.
In chunks one thing is to be added: a state that is carried into a chunk is read by the tokens of its own text alone.
""",
    repair=Repair(_broken_packed_decays, symptom_of_resets),
)


SHEET = Sheet(
    title="Chunks",
    conventions=r"""
A state is a matrix $S$ with the features of keys as rows and those of values as columns; a token decays it, writes, and reads $o_t = S_t^\top q_t$.
A chunk has $C$ tokens; within a chunk, $r$ is the query and $s \le r$ the key.
""",
    example=r"""
from posedu.numpy.recurrent import read_states

ones = np.ones((1, 3, 1))
gates = np.log(np.full((1, 3), 0.5))
writes = ones, ones, 8 * ones, gates, np.ones((1, 3))
out, state = read_states(*writes, delta=False)
print("outputs", out.ravel(), "state", state.ravel())
""",
    figure="chunks_explorable",
    exercises=(TWO, DECAYS, CHUNK, WRITTEN, ANCHOR, MAPS, SIZE, PACKED),
)
