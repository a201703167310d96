"""Exercises on one text that many devices share."""

import numpy as np
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

# many-devices-1: bytes that a rank sends


def sent_bytes(tokens, ranks, heads, kv_heads, d, size):
    """Bytes that a rank sends in a layer's forward pass, (in a ring, with Ulysses).

    ``tokens`` are those of the whole text, in equal chunks for ``ranks`` ranks;
    ``heads`` and ``kv_heads`` are the numbers of heads of queries and of keys, ``d`` is
    their width, and a number has ``size`` bytes. Both results are integers.
    """
    own = tokens // ranks * d * size
    ring = (ranks - 1) * 2 * kv_heads * own
    widths = 2 * heads + 2 * max(kv_heads, ranks)
    return ring, widths * own * (ranks - 1) // ranks


def _sent(ring=None, ulysses=None):
    """Make a wrong answer to ``sent_bytes`` from one or two wrong functions.

    They take the arguments and the bytes of a rank's tokens in a head.
    """

    def answer(tokens, ranks, heads, kv_heads, d, size):
        case = tokens, ranks, heads, kv_heads, d, size
        own = tokens // ranks * d * size
        right = sent_bytes(*case)
        return (
            right[0] if ring is None else ring(*case, own),
            right[1] if ulysses is None else ulysses(*case, own),
        )

    return answer


def _ulysses(widths, share=lambda n: (n - 1, n)):
    """Make a wrong number of bytes with Ulysses from widths of heads H, g and ranks."""

    def sent(tokens, ranks, heads, kv_heads, d, size, own):
        above, below = share(ranks)
        return widths(heads, kv_heads, ranks) * own * above // below

    return _sent(ulysses=sent)


SENT = Exercise(
    name="many-devices-1",
    title="Bytes that a rank sends",
    kind="by hand",
    minutes=10,
    lines=4,
    statement=r"""
A text of $N$ tokens is cut into $n$ equal chunks, one for each rank, in a layer with $H$ heads of queries and $g$ heads of keys of $d$ numbers each.
In a *ring* a rank passes on keys and values, step after step, until every rank has met those of all others.
With *Ulysses* ($n$ divides $H$) every rank gets all tokens of $H/n$ heads of queries, with their keys and values, and afterwards sends the outputs back to the ranks that have the tokens.
If $g < n$, heads of keys and values are first repeated until there are $n$ of each; otherwise $n$ divides $g$, too.
Return the bytes that one rank sends in both cases.
How does an all-gather of keys and values differ from the ring, and for which $n$ do ring and Ulysses send the same if $g \ge n$?
""",
    hint=r"""
A rank sends nothing to itself.
In a ring there are $n - 1$ exchanges; with Ulysses a rank keeps one part of $n$ of all that it has.
""",
    cases=(
        (4, 2, 2, 2, 1, 1),
        (1024, 4, 16, 8, 64, 2),
        (4096, 16, 32, 4, 128, 2),
        (2**20, 64, 64, 8, 128, 2),
        (96, 1, 4, 2, 8, 4),
        (90, 3, 12, 3, 5, 8),
    ),
    solution=sent_bytes,
    misconceptions=(
        Misconception(
            "A full round of the ring",
            "After n − 1 exchanges every rank has met all keys.",
            _sent(lambda N, n, H, g, d, b, own: n * 2 * g * own),
        ),
        Misconception(
            "One exchange",
            "Keys are passed on until every rank has met them.",
            _sent(lambda N, n, H, g, d, b, own: min(n - 1, 1) * 2 * g * own),
        ),
        Misconception(
            "Keys without values",
            "A rank needs the values of other ranks, too.",
            _sent(lambda N, n, H, g, d, b, own: (n - 1) * g * own),
        ),
        Misconception(
            "Keys of every query head",
            "Keys and values have g heads, and only these travel.",
            _sent(lambda N, n, H, g, d, b, own: (n - 1) * 2 * H * own),
        ),
        Misconception(
            "Whole text in each exchange",
            "In one exchange a rank sends the keys of one chunk.",
            _sent(lambda N, n, H, g, d, b, own: (n - 1) * 2 * g * n * own),
        ),
        Misconception(
            "Exchanges in a tree",
            "In a ring a chunk visits all ranks, one after the other.",
            _sent(lambda N, n, H, g, d, b, own: int(np.ceil(np.log2(n))) * 2 * g * own),
        ),
        Misconception(
            "Outputs not sent back",
            "The next layer needs the outputs of all heads where the tokens are.",
            _ulysses(lambda H, g, n: H + 2 * max(g, n)),
        ),
        Misconception(
            "Queries and outputs not sent",
            "A rank computes its heads for all tokens, so it needs their queries, and "
            "the outputs go back.",
            _ulysses(lambda H, g, n: 2 * max(g, n)),
        ),
        Misconception(
            "Values not sent to the ranks of their heads",
            "Keys and values are both sent.",
            _ulysses(lambda H, g, n: 2 * H + max(g, n)),
        ),
        Misconception(
            "Heads of keys not repeated",
            "With fewer heads of keys than ranks some ranks would have none.",
            _ulysses(lambda H, g, n: 2 * H + 2 * g),
        ),
        Misconception(
            "Heads of keys repeated for every query head",
            "They are repeated until every rank has one, no further.",
            _ulysses(lambda H, g, n: 4 * H),
        ),
        Misconception(
            "Everything sent away",
            "A rank keeps what belongs to its own heads.",
            _ulysses(lambda H, g, n: 2 * H + 2 * max(g, n), lambda n: (1, 1)),
        ),
        Misconception(
            "Everything sent to every rank",
            "A token's head goes to one rank, not to all.",
            _ulysses(lambda H, g, n: 2 * H + 2 * max(g, n), lambda n: (n - 1, 1)),
        ),
        Misconception(
            "Numbers in place of bytes",
            "A number has `size` bytes.",
            lambda N, n, H, g, d, b: sent_bytes(N, n, H, g, d, 1),
        ),
        Misconception(
            "Bytes of all ranks together",
            "What one rank sends is asked for.",
            lambda N, n, H, g, d, b: tuple(n * x for x in sent_bytes(N, n, H, g, d, b)),
        ),
        Misconception(
            "Two results exchanged",
            "The ring comes first.",
            lambda N, n, H, g, d, b: sent_bytes(N, n, H, g, d, b)[::-1],
        ),
    ),
    properties=(
        Property(
            "A single rank sends nothing",
            lambda answer, N, n, *sizes: tuple(answer(N, 1, *sizes)) == (0, 0),
        ),
    ),
    explanation=r"""
In a ring a rank sends $n - 1$ times the keys and values of one chunk of $c = N/n$ tokens: $(n - 1)\, 2 c g d b$ bytes for numbers of $b$ bytes, the main term of {eq}`eq-cut-bytes`.
An all-gather sends as many bytes at once: one call in place of $n - 1$, and keys and values of all tokens in memory, where a ring holds one chunk of another rank.
With Ulysses queries, keys, values and outputs move, $c\, (2 H + 2 g)\, d b$ bytes, of which $1/n$ stays: $\frac{n-1}{n}\, c\, (2H + 2g)\, d b$.
Ring over Ulysses is $n g / (H + g)$, so they are equal at $n = 1 + H/g$, and with more ranks Ulysses sends less, as long as $g \ge n$.
""",
)


# many-devices-2: positions of a zigzag rank


def zigzag_positions(tokens, ranks, rank):
    """Positions in the whole text of a rank's tokens, whole numbers [tokens / ranks].

    The text is cut into 2 · ``ranks`` equal chunks. A rank has the chunk of its own
    number, counted from the start, and then the chunk of its own number, counted from
    the end; both counts start at 0.
    """
    size = tokens // (2 * ranks)
    last = 2 * ranks - 1 - rank
    within = np.arange(size)
    return np.concatenate((rank * size + within, last * size + within))


def _positions(first=lambda n, r: r, second=lambda n, r: 2 * n - 1 - r):
    """Make a wrong answer to ``zigzag_positions`` from the numbers of two chunks."""

    def answer(tokens, ranks, rank):
        size = tokens // (2 * ranks)
        within = np.arange(size)
        chunks = first(ranks, rank), second(ranks, rank)
        return np.concatenate([chunk * size + within for chunk in chunks])

    return answer


POSITIONS = Exercise(
    name="many-devices-2",
    title="Positions of a zigzag rank",
    kind="NumPy",
    minutes=8,
    lines=4,
    statement=r"""
Under a zigzag cut rank $r$ of $n$ has the chunks $r$ and $2n - 1 - r$ of $2n$ equal chunks.
Return the positions of its tokens in the whole text, in this order.
A model that makes its own `arange` gets $0, 1, 2, \dots$ on every rank.
Which logits of RoPE are still right then, and which are wrong?
""",
    hint=r"""
Chunk $m$ starts at $m$ times the size of a chunk.
Both chunks run forward.
""",
    cases=(
        (8, 2, 1),
        (8, 2, 0),
        (32, 2, 0),
        (24, 3, 1),
        (6, 1, 0),
        (40, 4, 3),
        (64, 8, 5),
    ),
    solution=zigzag_positions,
    misconceptions=(
        Misconception(
            "Local positions",
            "These positions start at 0 on every rank: the offset to the keys of "
            "other ranks is lost.",
            lambda tokens, ranks, rank: np.arange(tokens // ranks),
        ),
        Misconception(
            "Contiguous cut",
            "Under a zigzag cut a rank has two chunks, one of each half of the text.",
            lambda tokens, ranks, rank: (
                rank * (tokens // ranks) + np.arange(tokens // ranks)
            ),
        ),
        Misconception(
            "Striped cut",
            "These are the positions of every n-th token.",
            lambda tokens, ranks, rank: np.arange(rank, tokens, ranks),
        ),
        Misconception(
            "First local position as an offset",
            "The second chunk does not follow the first one in the text.",
            lambda tokens, ranks, rank: (
                rank * (tokens // (2 * ranks)) + np.arange(tokens // ranks)
            ),
        ),
        Misconception(
            "Second chunk counted in the same direction",
            "The ranks take the second half of the chunks in reversed order, so that "
            "a rank with an early chunk has a late one, too.",
            _positions(second=lambda n, r: n + r),
        ),
        Misconception(
            "Last chunk counted from 1",
            "Of 2n chunks the last has the number 2n − 1.",
            _positions(second=lambda n, r: 2 * n - r),
        ),
        Misconception(
            "Second chunk one too early",
            "The chunk of rank r is the r-th last, counted from 0.",
            _positions(second=lambda n, r: 2 * n - 2 - r),
        ),
        Misconception(
            "Second chunk reversed",
            "The chunks are taken in reversed order, their tokens are not.",
            lambda tokens, ranks, rank: np.concatenate(
                (
                    zigzag_positions(tokens, ranks, rank)[: tokens // (2 * ranks)],
                    zigzag_positions(tokens, ranks, rank)[
                        : tokens // (2 * ranks) - 1 : -1
                    ],
                )
            ),
        ),
        Misconception(
            "Chunks exchanged",
            "The earlier chunk comes first.",
            _positions(lambda n, r: 2 * n - 1 - r, lambda n, r: r),
        ),
        Misconception(
            "Ranks counted from the end",
            "Rank 0 has the first chunk and the last.",
            lambda tokens, ranks, rank: zigzag_positions(
                tokens, ranks, ranks - 1 - rank
            ),
        ),
        Misconception(
            "Positions start again in the second chunk",
            "A chunk is no text of its own.",
            _positions(second=lambda n, r: 0),
        ),
        Misconception(
            "Positions from 1",
            "The first token of the text has position 0.",
            lambda tokens, ranks, rank: 1 + zigzag_positions(tokens, ranks, rank),
        ),
    ),
    properties=(
        Property(
            "The ranks together have every position once",
            lambda answer, tokens, ranks, rank: np.array_equal(
                np.sort(
                    np.concatenate([answer(tokens, ranks, r) for r in range(ranks)])
                ),
                np.arange(tokens),
            ),
        ),
    ),
    explanation=r"""
Chunk $r$ starts at $r s$ and chunk $2n - 1 - r$ at $(2n - 1 - r)\, s$, with $s = N / 2n$.
{prf:ref}`Parts merge exactly under any cut <thm-merge-fold>`, if the logits have positions in the whole text.
With local positions RoPE's logits are right where query and key stand in one chunk, since only their offset counts, and between the two middle chunks, which are neighbors on the last rank.
Between all other chunks the offset is wrong.
A model that is trained so learns in spite of it, and its loss hardly shows the mistake: compare with one device, token by token.
""",
    prediction=Prediction(
        "32 tokens, 2 ranks, a zigzag cut. Which position has the token with the local index 8 on rank 0?",
        lambda: int(zigzag_positions(32, 2, 0)[8]),
    ),
)


# many-devices-3: merge parts of a softmax


def merged(outs, lses):
    """Attention over the keys of all parts: outputs [queries, d_v], lse [queries].

    ``outs``, [parts, queries, d_v], has the outputs over the keys of each part alone,
    and ``lses``, [parts, queries], the logarithms of the sums of exp(logit). A query
    without a key in a part has the output 0 and −∞ there; without any key it has both
    in the result.
    """
    lse = np.logaddexp.reduce(lses)
    safe = np.where(lse == -np.inf, 0.0, lse)
    shares = np.exp(lses - safe)
    return np.einsum("pq,pqd->qd", shares, outs), lse


def _merged(shares=None, lse=None):
    """Make a wrong answer to ``merged`` from the parts' shares or the second result."""

    def answer(outs, lses):
        right = merged(outs, lses)
        with np.errstate(all="ignore"):
            out = right[0]
            if shares is not None:
                out = np.einsum("pq,pqd->qd", shares(lses), outs)
            return out, right[1] if lse is None else lse(lses)

    return answer


def _unshifted(lses):
    weights = np.exp(lses)
    return weights / weights.sum(0)


def _reached(lses):
    """Return which parts have a key for each query."""
    return (lses > -np.inf).astype(float)


def _parts_of(splits, queries=3, d_v=2, seed=0, scale=1.0):
    """Return outputs and log-sum-exps of the parts of a causal text."""
    keys = sum(splits)
    logits = scale * draw(queries, keys, seed=seed)
    place = np.arange(keys)
    logits[place > np.arange(queries)[:, None] * keys // queries] = -np.inf
    v = draw(keys, d_v, seed=seed + 1)
    outs, lses = [], []
    for stop, size in zip(np.cumsum(splits), splits, strict=True):
        part = logits[:, stop - size : stop]
        lse = np.logaddexp.reduce(part, axis=1, initial=-np.inf)
        safe = np.where(lse == -np.inf, 0.0, lse)
        outs.append(np.exp(part - safe[:, None]) @ v[stop - size : stop])
        lses.append(lse)
    return np.array(outs), np.array(lses)


MERGED = Exercise(
    name="many-devices-3",
    title="Merge parts of a softmax",
    kind="NumPy",
    minutes=12,
    lines=4,
    statement=r"""
Keys are cut into parts.
Of each part a query has the output $o_k$ of attention over the keys of this part alone, and $\ell_k = \log \sum_j e^{z_j}$ of its logits.
Return the output and the $\ell$ over all keys.
Some queries have no key in a part, $\ell_k = -\infty$ and $o_k = 0$, and some have none at all; logits may be as large as 1,000.
No result may be NaN.
In which order may the parts come, and how many numbers of a query and head cross from rank to rank?
""",
    hint=r"""
The sum over all keys of $e^{z_j} v_j$ is the sum over the parts of $e^{\ell_k} o_k$.
`np.logaddexp` is exact for large numbers and for $-\infty$.
What is $-\infty - (-\infty)$?
""",
    cases=(
        (np.array([[[1.0]], [[3.0]]]), np.array([[0.0], [np.log(3.0)]])),
        (np.array([[[2.0]], [[0.0]]]), np.array([[0.5], [-np.inf]])),
        (np.zeros((2, 1, 1)), np.full((2, 1), -np.inf)),
        (np.array([[[1.0]], [[2.0]]]), np.array([[1000.0], [999.0]])),
        (np.array([[[1.0]], [[2.0]]]), np.array([[-1000.0], [-1001.0]])),
        _parts_of((2, 2), seed=1),
        _parts_of((3,), seed=2),
        _parts_of((3, 1, 2, 3), queries=4, seed=3, scale=4.0),
    ),
    solution=merged,
    misconceptions=(
        Misconception(
            "Mean of the outputs",
            "A part with larger logits has a larger share.",
            _merged(lambda lses: np.ones_like(lses) / len(lses)),
        ),
        Misconception(
            "Mean of the parts with keys",
            "A part with larger logits has a larger share.",
            _merged(lambda lses: _reached(lses) / np.maximum(_reached(lses).sum(0), 1)),
        ),
        Misconception(
            "Sum of the outputs",
            "Each output is normalized by its own part's sum. Weigh the parts.",
            _merged(np.ones_like),
        ),
        Misconception(
            "Exponentials without a shift",
            "The exponential of 1,000 is infinite and that of −1,000 is 0. Take the "
            "common log-sum-exp off first.",
            _merged(_unshifted),
        ),
        Misconception(
            "Minus infinity from minus infinity",
            "A query without any key has the log-sum-exp −∞, and −∞ − (−∞) is no "
            "number.",
            _merged(lambda lses: np.exp(lses - np.logaddexp.reduce(lses, axis=0))),
        ),
        Misconception(
            "Shares by log-sum-exps without the exponential",
            "A part's share is e^ℓ_k over the sum of these.",
            _merged(
                lambda lses: (
                    np.where(lses == -np.inf, 0, lses)
                    / np.where(lses == -np.inf, 0, lses).sum(0)
                )
            ),
        ),
        Misconception(
            "Shares relative to the largest part",
            "The shares of all parts must sum to 1.",
            _merged(
                lambda lses: np.exp(
                    lses - np.where(lses.max(0) == -np.inf, 0, lses.max(0))
                )
            ),
        ),
        Misconception(
            "Shares of the parts exchanged",
            "A part's output is weighted by its own log-sum-exp.",
            lambda outs, lses: (merged(outs, lses[::-1])[0], merged(outs, lses)[1]),
        ),
        Misconception(
            "Powers of 2",
            "The logarithms are natural.",
            _merged(
                lambda lses: (
                    2.0 ** (lses - lses.max(0)) / (2.0 ** (lses - lses.max(0))).sum(0)
                )
            ),
        ),
        Misconception(
            "Log-sum-exps added",
            "Sums of exponentials are added, not their logarithms.",
            _merged(lse=lambda lses: lses.sum(0)),
        ),
        Misconception(
            "Largest log-sum-exp",
            "The largest is only near the log-sum-exp of all.",
            _merged(lse=lambda lses: lses.max(0)),
        ),
        Misconception(
            "Sum in place of its logarithm",
            "ℓ is the logarithm of the sum: the sum itself soon overflows.",
            _merged(lse=lambda lses: np.exp(lses).sum(0)),
        ),
        Misconception(
            "Minus infinity replaced by a finite number",
            "Without any key the log-sum-exp is −∞: with a finite number, a query "
            "without keys counts in later merges.",
            _merged(
                lse=lambda lses: np.logaddexp.reduce(np.maximum(lses, -1e4), axis=0)
            ),
        ),
        Misconception(
            "Log-sum-exp of the last part",
            "The second result is that of the keys of all parts.",
            _merged(lse=lambda lses: lses[-1]),
        ),
        Misconception(
            "Shares over the queries",
            "The shares of the parts sum to 1 for each query.",
            _merged(
                lambda lses: np.exp(lses - np.logaddexp.reduce(lses, axis=1)[:, None])
            ),
        ),
    ),
    properties=(
        Property(
            "A part without keys changes nothing",
            lambda answer, outs, lses: all(
                np.allclose(more, one)
                for more, one in zip(
                    answer(
                        np.concatenate((np.zeros_like(outs[:1]), outs)),
                        np.concatenate((np.full_like(lses[:1], -np.inf), lses)),
                    ),
                    answer(outs, lses),
                    strict=True,
                )
            ),
        ),
    ),
    explanation=r"""
$\ell = \log \sum_k e^{\ell_k}$ and $o = \sum_k e^{\ell_k - \ell} o_k$, where $\ell$ is replaced by 0 if it is $-\infty$, so that all shares are 0.
{prf:ref}`Sums do not depend on order or grouping <thm-merge-fold>`: the pairs $(\ell, o)$ form a commutative monoid, with $(-\infty, 0)$ as its unit, and parts may come in any order.
For a query and head $d_v + 1$ numbers cross, however many keys a part has; that is why decoding over a cache that is cut sends little {eq}`eq-decode-bytes`.
In bfloat16 a number near 40 is off by up to 1/8, which changes the ratio of two shares by up to 28 %, and the output by as much as {prf:ref}`the theorem on the error of a merge <thm-merge-error>` allows: keep $\ell$ in float32.
""",
)


# many-devices-4: gates before a chunk


def gates_before(totals):
    """Sums of the log gates of all tokens before each chunk, [ranks, 2, heads].

    ``totals``, [ranks, 2, heads] in float64, has the sums of the log gates of each
    rank's two chunks: rank r of n has the chunks r and 2n − 1 − r of the text, in this
    order, and the result has the same order.
    """
    ranks = len(totals)
    in_order = torch.cat((totals[:, 0], totals[:, 1].flip(0)))
    before = in_order.cumsum(0) - in_order
    return torch.stack((before[:ranks], before[ranks:].flip(0)), 1)


def _in_order(totals):
    return torch.cat((totals[:, 0], totals[:, 1].flip(0)))


def _by_rank(chunks):
    ranks = len(chunks) // 2
    return torch.stack((chunks[:ranks], chunks[ranks:].flip(0)), 1)


def _exclusive(t, dim=0):
    return t.cumsum(dim) - t


def _totals(ranks, heads, seed=0):
    return -torch.tensor(draw(ranks, 2, heads, seed=seed)).abs()


GATES = Exercise(
    name="many-devices-4",
    title="Forget gates of earlier chunks",
    kind="PyTorch",
    minutes=12,
    lines=4,
    statement=r"""
FoX adds the sum of the log gates of the tokens after $j$, up to $i$, to the logit of query $i$ and key $j$.
Each rank sums those of its own chunks, and needs the sum of all gates *before* each chunk to continue it.
All ranks have exchanged the totals of their chunks.
Return for each chunk the sum of the totals of the chunks before it in the text, under a zigzag cut.
How many numbers of a head does a rank give, and which gradients are wrong if no rank gets gradients of them back?
""",
    hint=r"""
Bring the totals into the order of the text first: the second chunks of the ranks come in reversed order.
The sum before a chunk is the running sum without the chunk itself.
""",
    cases=(
        (torch.tensor([[[-1.0], [-8.0]], [[-2.0], [-4.0]]], dtype=torch.float64),),
        (_totals(1, 2),),
        (_totals(3, 1, seed=1),),
        (_totals(4, 2, seed=2),),
        (_totals(2, 3, seed=3),),
    ),
    solution=gates_before,
    misconceptions=(
        Misconception(
            "Chunk itself included",
            "The chunk's own gates are already in its own running sum.",
            lambda totals: _by_rank(_in_order(totals).cumsum(0)),
        ),
        Misconception(
            "Contiguous cut",
            "A rank's two chunks are no neighbors in the text.",
            lambda totals: _exclusive(totals.flatten(0, 1)).unflatten(0, (-1, 2)),
        ),
        Misconception(
            "Second chunks in the order of the ranks",
            "Rank 0 has the last chunk of the text.",
            lambda totals: torch.stack(
                _exclusive(torch.cat((totals[:, 0], totals[:, 1]))).chunk(2), 1
            ),
        ),
        Misconception(
            "Second results not brought back",
            "The results have the order of the ranks, as the totals have.",
            lambda totals: torch.stack(_exclusive(_in_order(totals)).chunk(2), 1),
        ),
        Misconception(
            "Sums of later chunks",
            "A token is decayed by the gates between it and a later query: the sum "
            "runs from the start of the text.",
            lambda totals: _by_rank(
                _in_order(totals).sum(0) - _in_order(totals).cumsum(0)
            ),
        ),
        Misconception(
            "Each half on its own",
            "Before the second half of the text stands the first one.",
            lambda totals: torch.stack(
                (
                    _exclusive(totals[:, 0]),
                    _exclusive(totals[:, 1].flip(0)).flip(0),
                ),
                1,
            ),
        ),
        Misconception(
            "Ranks as wholes",
            "Between a rank's two chunks stand chunks of other ranks.",
            lambda totals: _exclusive(totals.sum(1))[:, None].expand_as(totals),
        ),
        Misconception(
            "Gates start at 0 on each rank",
            "The running sum continues that of the chunks before.",
            torch.zeros_like,
        ),
        Misconception(
            "Own first chunk alone",
            "All chunks of other ranks that stand before count as well.",
            lambda totals: torch.stack(
                (torch.zeros_like(totals[:, 0]), totals[:, 0]), 1
            ),
        ),
        Misconception(
            "Chunk before alone",
            "All chunks before count, not the last of them alone.",
            lambda totals: _by_rank(
                torch.cat((0 * totals[:1, 0], _in_order(totals)[:-1]))
            ),
        ),
        Misconception(
            "Results in the order of the text",
            "The results are [ranks, 2, heads], with the two chunks of each rank.",
            lambda totals: _exclusive(_in_order(totals)).unflatten(0, (-1, 2)),
        ),
        Misconception(
            "Sums over the heads",
            "Each head has its own gates.",
            lambda totals: _exclusive(totals, 2),
        ),
        Misconception(
            "Sign reversed",
            "Sums of log gates are at most 0.",
            lambda totals: -gates_before(totals),
        ),
        Misconception(
            "Exponential of the sums",
            "The sum of the logarithms is asked for.",
            lambda totals: gates_before(totals).exp(),
        ),
        Misconception(
            "Two chunks exchanged",
            "A rank's earlier chunk comes first.",
            lambda totals: gates_before(totals).flip(1),
        ),
    ),
    properties=(
        Property(
            "Nothing stands before the first chunk of rank 0",
            lambda answer, totals: not answer(totals)[0, 0].any(),
        ),
    ),
    explanation=r"""
In the order of the text the totals are those of the first chunks, and then those of the second chunks from the last rank to the first; an exclusive running sum over the $2n$ chunks gives what stands before each, as {eq}`eq-cut-prefix` needs it.
A rank gives two numbers of each head, whatever the length of the text.
Backward, a total gets the gradients of all sums that it is in, those of the later chunks: a running sum from the *end* of the text.
Without it outputs and loss are right on every rank, and the gradients of the gates are wrong in all chunks but the last, after which no query comes: test gradients on every rank.
""",
)


# many-devices-5: heads of a rank


def heads_of_rank(heads, kv_heads, ranks, rank):
    """ALiBi's slopes of a rank's query heads, and their key heads, [heads / ranks] each.

    Rank r of n has the r-th of n equal runs of the query heads. Slopes are float64, and
    key heads are whole numbers in the numbering of the whole model. ``heads`` is a
    power of 2 and a multiple of ``ranks`` and of ``kv_heads``.
    """
    size = heads // ranks
    own = rank * size + np.arange(size)
    return 2.0 ** (-8 * (own + 1) / heads), own * kv_heads // heads


def _heads(slopes=None, keys=None):
    """Make a wrong answer to ``heads_of_rank`` from wrong slopes or key heads.

    They take H, g, n and the numbers of the rank's heads in the model, and in the rank.
    """

    def answer(heads, kv_heads, ranks, rank):
        right = heads_of_rank(heads, kv_heads, ranks, rank)
        local = np.arange(heads // ranks)
        given = heads, kv_heads, ranks, rank * (heads // ranks) + local, local
        return (
            right[0] if slopes is None else slopes(*given),
            right[1] if keys is None else keys(*given),
        )

    return answer


HEADS = Exercise(
    name="many-devices-5",
    title="Heads of a rank under tensor parallelism",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
Tensor parallelism cuts a layer's $H$ query heads into $n$ runs of neighbors.
Head $h$ of the model, counted from 0, has ALiBi's slope $2^{-8 (h+1)/H}$, and shares the key head $\lfloor h g / H \rfloor$ with the other heads of its group.
Return the slopes of a rank's heads, and the key head of each.
What must be done if $n > g$, forward and backward?
""",
    hint=r"""
The first head of rank $r$ is head $r H/n$ of the model.
Everything else follows from the numbers of the heads in the model.
""",
    cases=(
        (4, 2, 2, 1),
        (4, 2, 2, 0),
        (8, 2, 4, 3),
        (16, 4, 2, 1),
        (32, 8, 4, 2),
        (8, 8, 2, 1),
        (8, 1, 8, 5),
        (16, 2, 8, 3),
        (8, 4, 1, 0),
    ),
    solution=heads_of_rank,
    misconceptions=(
        Misconception(
            "First slopes on each rank",
            "Each rank then has the slopes of the model's first heads.",
            _heads(lambda H, g, n, own, local: 2.0 ** (-8 * (local + 1) / H)),
        ),
        Misconception(
            "Slopes of a model with H/n heads",
            "The slopes are those of H heads: a cut does not change the model.",
            _heads(lambda H, g, n, own, local: 2.0 ** (-8 * (local + 1) * n / H)),
        ),
        Misconception(
            "Heads counted from 1",
            "Head 0 of the model has the slope 2^(−8/H).",
            _heads(lambda H, g, n, own, local: 2.0 ** (-8 * (own + 2) / H)),
        ),
        Misconception(
            "Slopes from 1",
            "The first head has the slope 2^(−8/H), not 1.",
            _heads(lambda H, g, n, own, local: 2.0 ** (-8 * own / H)),
        ),
        Misconception(
            "Slopes in reversed order",
            "The first head has the steepest slope.",
            _heads(lambda H, g, n, own, local: 2.0 ** (-8 * (H - own) / H)),
        ),
        Misconception(
            "Every n-th head",
            "A rank has a run of neighboring heads, which share key heads.",
            _heads(
                lambda H, g, n, own, local: (
                    2.0 ** (-8 * (local * n + own[0] // len(own) + 1) / H)
                ),
                lambda H, g, n, own, local: (local * n + own[0] // len(own)) * g // H,
            ),
        ),
        Misconception(
            "Negative slopes",
            "A slope is positive; the bias is minus slope times distance.",
            _heads(lambda H, g, n, own, local: -(2.0 ** (-8 * (own + 1) / H))),
        ),
        Misconception(
            "Exponents in place of slopes",
            "The slope is a power of 2.",
            _heads(lambda H, g, n, own, local: -8 * (own + 1) / H),
        ),
        Misconception(
            "Key heads by local numbers",
            "The numbers of heads in the model are asked for.",
            _heads(keys=lambda H, g, n, own, local: local * g // H),
        ),
        Misconception(
            "Key heads in turn",
            "Neighboring query heads share a key head; they do not take turns.",
            _heads(keys=lambda H, g, n, own, local: own % g),
        ),
        Misconception(
            "Key heads of their own",
            "Several query heads share a key head.",
            _heads(keys=lambda H, g, n, own, local: own),
        ),
        Misconception(
            "One key head for the rank",
            "A rank may have several groups of heads.",
            _heads(keys=lambda H, g, n, own, local: 0 * own + own[0] * g // H),
        ),
        Misconception(
            "Key heads cut as if each rank had g/n of them",
            "With more ranks than key heads, a key head is on several ranks.",
            _heads(
                keys=lambda H, g, n, own, local: (
                    own[0] // len(own) * max(g // n, 1)
                    + local * max(g // n, 1) // len(own)
                )
            ),
        ),
        Misconception(
            "Key heads rounded up",
            "The groups start with head 0: round down.",
            _heads(keys=lambda H, g, n, own, local: -(-own * g // H)),
        ),
    ),
    properties=(
        Property(
            "The ranks together have the slopes of the whole model",
            lambda answer, heads, kv_heads, ranks, rank: np.allclose(
                np.concatenate(
                    [answer(heads, kv_heads, ranks, r)[0] for r in range(ranks)]
                ),
                answer(heads, kv_heads, 1, 0)[0],
            ),
        ),
    ),
    explanation=r"""
Rank $r$ has the heads $r H/n, \dots, (r + 1) H/n - 1$ of the model, and slopes, learned tables, gates and sinks are taken by these numbers; with the first slopes on each rank a model runs, and all ranks but the first compute another bias.
With $n > g$ a key head belongs to several ranks {eq}`eq-tp-keys`: its weights are copied to each of them, never left empty, and backward the gradients of the copies are *summed*.
The same holds for the shared rotary key of MLA, which every rank needs.
""",
)


# many-devices-6: stick-breaking parts that arrive in any order


def merged_stick_breaking(rest, outs, numbers):
    """Stick-breaking over all parts: (rest, output).

    ``rest``, [parts, queries], is what the keys of a part
    leave of a stick of length 1, and ``outs``, [parts,
    queries, d_v], is the output of the part alone.
    ``numbers``, [parts], are the different numbers of the
    parts in the text. Parts stand in the order of arrival.
    """
    left = torch.ones_like(rest[0])
    out = torch.zeros_like(outs[0])
    for part in numbers.argsort(descending=True):
        out = out + left[:, None] * outs[part]
        left = left * rest[part]
    return left, out


def _broken_merged_stick_breaking(rest, outs, numbers):
    """Stick-breaking over all parts: (rest, output).

    ``rest``, [parts, queries], is what the keys of a part
    leave of a stick of length 1, and ``outs``, [parts,
    queries, d_v], is the output of the part alone.
    ``numbers``, [parts], are the different numbers of the
    parts in the text. Parts stand in the order of arrival.
    """
    left = torch.ones_like(rest[0])
    out = torch.zeros_like(outs[0])
    for part in range(len(rest)):
        out = out + left[:, None] * outs[part]
        left = left * rest[part]
    return left, out


def symptom_of_arrival(function):
    """Return the error of four parts of two keys each."""
    share = torch.arange(8.0).sin().sigmoid().double()

    def part(keys):
        left, out = torch.ones(1).double(), 0.0
        for j in reversed(keys):  # the nearest key first
            out = out + left * share[j] * j
            left = left * (1 - share[j])
        return left, out[:, None]

    numbers = torch.tensor([0, 3, 1, 2])  # of a zigzag ring
    parts = [part(range(2 * m, 2 * m + 2)) for m in numbers]
    rest, outs = map(torch.stack, zip(*parts, strict=True))
    out = function(rest, outs, numbers)[1]
    return (out - part(range(8))[1]).abs().max().item()


def _sticks(order=None, weight=None, remains=None):
    """Make a wrong answer to ``merged_stick_breaking`` from an order or a rule of a step."""

    def answer(rest, outs, numbers):
        given = numbers.argsort(descending=True) if order is None else order(numbers)
        left, out = torch.ones_like(rest[0]), torch.zeros_like(outs[0])
        for part in given:
            own = left if weight is None else weight(left, rest[part])
            out = out + own[:, None] * outs[part]
            left = left * rest[part] if remains is None else remains(left, rest[part])
        return left, out

    return answer


def _sticks_case(numbers, queries=1, d_v=1, seed=0):
    parts = len(numbers)
    rows = torch.tensor(draw(parts, queries, 1 + d_v, seed=seed))
    rest = rows[..., 0].sigmoid()
    return rest, (1 - rest)[..., None] * rows[..., 1:], torch.tensor(numbers)


STICKS = Exercise(
    name="many-devices-6",
    title="Repair: stick-breaking parts that arrive in any order",
    kind="repair",
    minutes=15,
    lines=4,
    statement=r"""
In stick-breaking attention the nearest key breaks off its share first, and farther keys share what is left.
The keys of a part together leave $\rho$ of a stick of length 1 and give the output $o$.
The code merges the parts of a query in the order in which they arrive.
In a ring with a contiguous cut all is well; under a zigzag cut the output is wrong, and the rest is right.
Repair `merged_stick_breaking`, so that `symptom_of_arrival` gives 0.
Why is all well with a contiguous cut, and why is the rest always right?
""",
    hint=r"""
All parts stand before the query in the text.
Which of them is nearest to it, the one with the smallest number or the one with the largest?
""",
    cases=(
        (
            torch.tensor([[0.5], [0.25]], dtype=torch.float64),
            torch.tensor([[[4.0]], [[8.0]]], dtype=torch.float64),
            torch.tensor([0, 1]),
        ),
        _sticks_case([2, 1, 0], seed=1),
        _sticks_case([0, 3, 1, 2], queries=2, d_v=2, seed=2),
        _sticks_case([5, 0, 7, 3], queries=3, seed=3),
        _sticks_case([4], seed=4),
        _sticks_case([1, 2, 0], queries=2, d_v=3, seed=5),
    ),
    solution=merged_stick_breaking,
    tolerance=1e-9,
    misconceptions=(
        Misconception(
            "Order of arrival",
            "The code is as it was: the part that arrives first is not always the "
            "nearest one.",
            _broken_merged_stick_breaking,
        ),
        Misconception(
            "Order of arrival reversed",
            "The part that arrives last is not always the nearest one.",
            _sticks(lambda numbers: reversed(range(len(numbers)))),
        ),
        Misconception(
            "Farthest part first",
            "The part with the largest number is nearest to the query.",
            _sticks(lambda numbers: numbers.argsort()),
        ),
        Misconception(
            "Ranks of the numbers in place of the order",
            "`argsort` twice gives each part's rank. The parts themselves are asked "
            "for, from the largest number to the smallest.",
            _sticks(lambda numbers: numbers.argsort(descending=True).argsort()),
        ),
        Misconception(
            "Outputs added",
            "A farther part gets what nearer parts have left.",
            _sticks(weight=lambda left, rest: torch.ones_like(left)),
        ),
        Misconception(
            "Outputs weighted by the part's own rest",
            "A part's output has its own shares already. It gets what *nearer* parts "
            "have left.",
            _sticks(weight=lambda left, rest: left * rest),
        ),
        Misconception(
            "Outputs weighted by what was broken off",
            "A farther part gets what nearer parts have left.",
            _sticks(weight=lambda left, rest: 1 - left * rest),
        ),
        Misconception(
            "Nearest part before alone",
            "All nearer parts have broken off their shares.",
            _sticks(remains=lambda left, rest: rest),
        ),
        Misconception(
            "Rests subtracted",
            "A part leaves a share ρ of what it gets: multiply.",
            _sticks(remains=lambda left, rest: left - (1 - rest)),
        ),
        Misconception(
            "Rest never reduced",
            "Every part breaks off its share of what is left.",
            _sticks(remains=lambda left, rest: left),
        ),
        Misconception(
            "Nearest part alone",
            "Farther parts get what the nearest one leaves.",
            _sticks(lambda numbers: numbers.argsort(descending=True)[:1]),
        ),
        Misconception(
            "Mean of the outputs",
            "In stick-breaking, shares do not depend on how many parts there are.",
            lambda rest, outs, numbers: (
                merged_stick_breaking(rest, outs, numbers)[0],
                outs.mean(0),
            ),
        ),
        Misconception(
            "Output divided by what was broken off",
            "Stick-breaking does not normalize: what is left of the stick is lost.",
            lambda rest, outs, numbers: (
                merged_stick_breaking(rest, outs, numbers)[0],
                merged_stick_breaking(rest, outs, numbers)[1]
                / (1 - merged_stick_breaking(rest, outs, numbers)[0])[:, None],
            ),
        ),
        Misconception(
            "Broken-off part in place of the rest",
            "The first result is what is left of the stick.",
            lambda rest, outs, numbers: (
                1 - merged_stick_breaking(rest, outs, numbers)[0],
                merged_stick_breaking(rest, outs, numbers)[1],
            ),
        ),
    ),
    properties=(
        Property(
            "The order of arrival does not matter",
            lambda answer, rest, outs, numbers: torch.allclose(
                answer(rest.flip(0), outs.flip(0), numbers.flip(0))[1],
                answer(rest, outs, numbers)[1],
            ),
        ),
    ),
    level="hard",
    explanation=r"""
Of a nearer and a farther part, $(\rho_1, o_1)$ and $(\rho_2, o_2)$, the merged one is $(\rho_1 \rho_2,\ o_1 + \rho_1 o_2)$ by {eq}`eq-cut-sticks`: this is associative, but not commutative.
The rest is a product, which has no order; the outputs have one, so parts are sorted by number, the largest first.
With a contiguous cut rank $r$ meets the chunks $r, r - 1, \dots, 0$ in this order, near to far, as the ring brings them.
Under a zigzag cut two chunks arrive in each step, and they surround chunks that came earlier or come later: a program keeps the parts until their neighbors are there, or sorts them at the end.
""",
    repair=Repair(_broken_merged_stick_breaking, symptom_of_arrival),
)


# many-devices-7: load of packed texts


def imbalance(lengths, ranks, cut):
    """Largest number of pairs of a rank over the mean of all ranks, a float.

    ``lengths`` are those of the texts in a row, one after the other; a token attends to
    the tokens of its own text up to itself. ``cut`` is "contiguous", "zigzag" or
    "striped". The row's number of tokens is a multiple of 2 · ``ranks``.
    """
    pairs = np.concatenate([np.arange(size) + 1 for size in lengths])
    if cut == "striped":
        loads = pairs.reshape(-1, ranks).sum(0)
    elif cut == "contiguous":
        loads = pairs.reshape(ranks, -1).sum(1)
    else:
        chunks = pairs.reshape(2 * ranks, -1).sum(1)
        loads = (chunks + chunks[::-1])[:ranks]
    return float(loads.max() / loads.mean())


def _loads(lengths, ranks, cut, pairs=lambda size: np.arange(size) + 1):
    """Return the numbers of pairs of all ranks."""
    of_tokens = np.concatenate([pairs(size) for size in lengths])
    place = np.arange(len(of_tokens))
    owner = {
        "striped": place % ranks,
        "contiguous": place * ranks // len(place),
        "zigzag": place * 2 * ranks // len(place),
    }[cut]
    owner = np.minimum(owner, 2 * ranks - 1 - owner)
    return np.bincount(owner, of_tokens, ranks)


def _ratio(loads):
    return float(loads.max() / loads.mean())


def _renamed(**cuts):
    """Make a wrong answer to ``imbalance`` that computes other cuts."""
    return lambda lengths, ranks, cut: imbalance(lengths, ranks, cuts.get(cut, cut))


def _unfolded(lengths, ranks, cut):
    """Return the ratio if rank r has the chunks r and r + n."""
    if cut != "zigzag":
        return imbalance(lengths, ranks, cut)
    pairs = np.concatenate([np.arange(size) + 1 for size in lengths])
    return _ratio(pairs.reshape(2, ranks, -1).sum((0, 2)))


LOAD = Exercise(
    name="many-devices-7",
    title="Load of packed texts",
    kind="experiment",
    minutes=15,
    lines=9,
    statement=r"""
For one text, a contiguous cut gives the last of $n$ ranks up to $2 - 1/n$ times the mean of all pairs, and a zigzag cut gives all ranks as many.
Rows of packed texts are another matter.
Return the largest number of (query, key) pairs of a rank over the mean, for the lengths of the texts in a row and each of three cuts: contiguous, zigzag (chunks $r$ and $2n - 1 - r$ of $2n$ for rank $r$) and striped (every $n$-th token).
Then search: which rows of 1,024 tokens are worst for four ranks and a contiguous cut, and which bound holds for all rows?
""",
    hint=r"""
The token with index $t$ in its own text has $t + 1$ pairs, wherever the text stands in the row.
Reshape the row so that one axis is that of the ranks, or of the $2n$ chunks.
""",
    cases=(
        ([3, 1], 2, "contiguous"),
        ([8], 2, "zigzag"),
        ([8], 2, "contiguous"),
        ([8], 2, "striped"),
        ([5, 2, 5], 3, "contiguous"),
        ([5, 2, 5], 3, "zigzag"),
        ([5, 2, 5], 3, "striped"),
        ([512, 256, 128, 128], 4, "contiguous"),
        ([512, 256, 128, 128], 4, "zigzag"),
        ([512, 256, 128, 128], 4, "striped"),
        ([64] * 8 + [512], 8, "contiguous"),
        ([64] * 8 + [512], 8, "zigzag"),
        ([6], 1, "contiguous"),
    ),
    solution=imbalance,
    misconceptions=(
        Misconception(
            "One long text",
            "A token attends to its own text alone.",
            lambda lengths, ranks, cut: imbalance([sum(lengths)], ranks, cut),
        ),
        Misconception(
            "Bound of one text",
            "2 − 1/n is a bound for one text under a contiguous cut.",
            lambda lengths, ranks, cut: (
                2 - 1 / ranks if cut == "contiguous" else imbalance(lengths, ranks, cut)
            ),
        ),
        Misconception(
            "Zigzag cuts taken for equal",
            "They are equal for one text, not for packed ones.",
            lambda lengths, ranks, cut: (
                1.0 if cut == "zigzag" else imbalance(lengths, ranks, cut)
            ),
        ),
        Misconception(
            "Second chunks in the order of the ranks",
            "Rank 0 has the first chunk and the last.",
            _unfolded,
        ),
        Misconception(
            "Striped cut taken for the contiguous one",
            "Under a striped cut rank r has the tokens r, r + n, r + 2n …",
            _renamed(striped="contiguous"),
        ),
        Misconception(
            "Contiguous and striped cuts exchanged",
            "A contiguous chunk is a run of tokens.",
            _renamed(striped="contiguous", contiguous="striped"),
        ),
        Misconception(
            "Zigzag cut taken for the striped one",
            "Under a zigzag cut a rank has two runs of tokens.",
            _renamed(zigzag="striped"),
        ),
        Misconception(
            "Own keys left out",
            "A token attends to itself, too.",
            lambda lengths, ranks, cut: _ratio(_loads(lengths, ranks, cut, np.arange)),
        ),
        Misconception(
            "Later keys included",
            "A token attends to keys up to itself.",
            lambda lengths, ranks, cut: _ratio(
                _loads(lengths, ranks, cut, lambda size: np.full(size, size))
            ),
        ),
        Misconception(
            "Tokens in place of pairs",
            "All ranks have as many tokens. Count their pairs.",
            lambda lengths, ranks, cut: 1.0,
        ),
        Misconception(
            "Mean over the largest",
            "The largest load is divided by the mean.",
            lambda lengths, ranks, cut: 1 / imbalance(lengths, ranks, cut),
        ),
        Misconception(
            "Largest over the smallest",
            "The largest load is divided by the mean.",
            lambda lengths, ranks, cut: float(
                _loads(lengths, ranks, cut).max() / _loads(lengths, ranks, cut).min()
            ),
        ),
        Misconception(
            "Largest load",
            "The ratio to the mean is asked for.",
            lambda lengths, ranks, cut: float(_loads(lengths, ranks, cut).max()),
        ),
        Misconception(
            "Smallest over the mean",
            "The slowest rank counts, which has most pairs.",
            lambda lengths, ranks, cut: float(
                _loads(lengths, ranks, cut).min() / _loads(lengths, ranks, cut).mean()
            ),
        ),
        Misconception(
            "Excess in place of the ratio",
            "The ratio is 1 if all ranks have as many.",
            lambda lengths, ranks, cut: imbalance(lengths, ranks, cut) - 1,
        ),
        Misconception(
            "Shortest text first",
            "The texts stand in the row in the order given.",
            lambda lengths, ranks, cut: imbalance(sorted(lengths), ranks, cut),
        ),
    ),
    properties=(
        Property(
            "The ratio is from 1 to the number of ranks",
            lambda answer, lengths, ranks, cut: (
                1 - 1e-9 <= answer(lengths, ranks, cut) <= ranks + 1e-9
            ),
        ),
    ),
    explanation=r"""
A rank can have at most all pairs, $n$ times the mean, so $n$ is a bound for every cut; for one text {prf:ref}`the theorem on pairs of a rank <thm-cut-load>` has a smaller one.
A contiguous cut comes near it: 762 texts of one token and then one of 262 give the last of four ranks 34,432 of 35,215 pairs, 3.911 times the mean.
This is the worst row of 1,024 tokens: the long text ends with the chunk and begins six tokens before it, so that all of the chunk's queries have six keys more, while the other ranks have few more pairs.
Texts of 512, 256, 128 and 128 tokens on four ranks have the ratio 2.18 with a contiguous cut, 1.45 with a zigzag cut, and 1.01 with a striped one, which gives neighbors of nearly equal load to different ranks.
""",
    prediction=Prediction(
        "Eight texts of 64 tokens and then one of 512, on eight ranks with a contiguous cut: what is the largest load over the mean?",
        lambda: imbalance([64] * 8 + [512], 8, "contiguous"),
        near=0.05,
    ),
)


# many-devices-8: does a zigzag cut balance every row?


def unbalanced_row():
    """Return a smallest input on which `colleagues_imbalance` is wrong, a tuple.

    Its entries are ``lengths``, a list, ``ranks`` and ``cut``.
    """
    return [1, 3], 2, "zigzag"


def colleagues_imbalance(lengths, ranks, cut):
    """Largest number of pairs of a rank over the mean.

    ``lengths`` are those of the texts in a row; a token
    attends to its own text up to itself. ``cut`` is
    "contiguous", "zigzag" or "striped".
    """
    if cut == "zigzag":  # an early chunk and a late one
        return 1.0
    keys = [key for n in lengths for key in range(1, n + 1)]
    place = np.arange(len(keys))
    contiguous = place * ranks // len(keys)
    striped = place % ranks
    rank = striped if cut == "striped" else contiguous
    of_ranks = np.bincount(rank, weights=keys)
    return float(of_ranks.max() / of_ranks.mean())


def _refused_row(lengths, ranks, cut):
    if not isinstance(lengths, list) or {*map(type, lengths)} != {int}:
        return "lengths is a list of integers"
    if min(lengths) < 1 or sum(lengths) > 999:
        return "a text has at least one token, and a row at most 999"
    if type(ranks) is not int or not 1 <= ranks <= 8:
        return "ranks is an integer from 1 to 8"
    if cut not in ("contiguous", "zigzag", "striped"):
        return "cut is 'contiguous', 'zigzag' or 'striped'"
    if sum(lengths) % (2 * ranks):
        return "the number of tokens in a row is a multiple of 2 · ranks"
    return ""


HUNTED = Exercise(
    name="many-devices-8",
    title="Find the input: does a zigzag cut balance every row?",
    kind="find the input",
    minutes=10,
    lines=1,
    statement=r"""
`colleagues_imbalance` answers the exercise before this one, and takes zigzag cuts for equal.
Her tests of zigzag cuts: one text of 8 tokens on two ranks, two texts of 8 on two ranks, four texts of 4 on two ranks, and one of 12 on three.
All pass.
Find a row of packed texts for which her function is wrong; the smallest input has the fewest tokens in all.
Which rows does a zigzag cut balance?
""",
    hint=r"""
In a row of four tokens rank 0 has the outer two, and rank 1 the inner two.
Write down the number of keys of each of the four, for every row of four tokens.
""",
    cases=((),),
    solution=unbalanced_row,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_imbalance,
        right=imbalance,
        tested=(
            ([8], 2, "zigzag"),
            ([8, 8], 2, "zigzag"),
            ([4, 4, 4, 4], 2, "zigzag"),
            ([12], 3, "zigzag"),
        ),
        refusal=_refused_row,
        size=lambda lengths, ranks, cut: sum(lengths),
        size_of="number of tokens",
    ),
    explanation=r"""
The tokens of the row $1, 3$ have 1, 1, 2 and 3 keys: of two ranks, rank 0 has $1 + 3 = 4$ pairs, and rank 1 has $1 + 2 = 3$.
Rank $r$ has the chunks $r$ and $2n - 1 - r$, so loads are equal if the pairs of the chunks grow evenly along the row, {prf:ref}`as in one text <thm-cut-load>`, or if all chunks have as many, as with texts that fill a chunk each.
A program that packs can therefore cut every text of a row in zigzag by itself, padded to a multiple of $2n$ tokens.
""",
)


SHEET = Sheet(
    title="Context and tensor parallelism: one text on many devices",
    conventions=r"""
$n$ ranks share a text of $N$ tokens, $c = N/n$ each; ranks, chunks, heads and positions are counted from 0.
Under a contiguous cut rank $r$ has the chunk $r$ of $n$; under a zigzag cut it has the chunks $r$ and $2n - 1 - r$ of $2n$.
A layer has $H$ heads of queries and $g$ heads of keys and values, of $d$ numbers each.
""",
    example=r"""
from posedu.torch.parallel import Chunks

for rank in range(3):
    held = Chunks("zigzag", 3, rank).held
    print("rank", rank, "has the chunks", held)
""",
    figure="many_devices_explorable",
    exercises=(SENT, POSITIONS, MERGED, GATES, HEADS, STICKS, LOAD, HUNTED),
)
