"""Reference solution of the project on ring attention."""

import math
from itertools import pairwise

import torch

from posedu.book.projects.records import Rubric


def split(length, ranks):
    """Return the tokens of each rank: chunk r and the r-th chunk from the end."""
    chunks = torch.arange(length).tensor_split(2 * ranks)
    return [torch.cat((chunks[r], chunks[-1 - r])) for r in range(ranks)]


def contiguous(length, ranks):
    """Return the tokens of each rank: one run of neighbors."""
    return list(torch.arange(length).tensor_split(ranks))


def merge(one, other):
    """Merge maximum, sum and output of the logits of two sets of keys."""
    maximum = torch.maximum(one[0], other[0])
    shift = maximum.masked_fill(maximum == -math.inf, 0.0)
    first, second = ((part[0] - shift).exp() for part in (one, other))
    total = first * one[1] + second * other[1]
    out = first[..., None] * one[2] + second[..., None] * other[2]
    return maximum, total, out


def merge_without_maximum(one, other):
    """Merge sums and outputs as if every maximum were 0."""
    first, second = one[0].exp(), other[0].exp()
    total = first * one[1] + second * other[1]
    out = first[..., None] * one[2] + second[..., None] * other[2]
    return torch.zeros_like(one[0]), total, out


def merge_sticks(nearer, older):
    """Merge log remainder and output of two runs of keys, the nearer one first."""
    left = nearer[0].exp()[..., None]
    return nearer[0] + older[0], nearer[1] + left * older[1]


def runs_of(positions):
    """Return the slices of a rank's tokens whose positions are neighbors."""
    gaps = [0, *((positions.diff() > 1).nonzero()[:, 0] + 1).tolist(), len(positions)]
    return [slice(a, b) for a, b in pairwise(gaps)]


def fox_statistics(q, k, v, of_queries, of_keys, i, j):
    """Return maximum, sum and output of a block of logits with FoX's bias."""
    z = q @ k.mT / q.shape[-1] ** 0.5
    z = z + of_queries[..., :, None] - of_keys[..., None, :]
    z = z.masked_fill(j > i[:, None], -math.inf)
    maximum = z.amax(-1)
    weights = (z - maximum[..., None]).exp()
    return maximum, weights.sum(-1), weights @ v


def fox_statistics_without_maximum(q, k, v, of_queries, of_keys, i, j):
    """Return sum and output of a block of logits, whose maximum is taken for 0."""
    z = q @ k.mT / q.shape[-1] ** 0.5
    z = z + of_queries[..., :, None] - of_keys[..., None, :]
    weights = z.masked_fill(j > i[:, None], -math.inf).exp()
    return torch.zeros_like(weights[..., 0]), weights.sum(-1), weights @ v


def sums_before(rank, shares, log_f):
    """Send the sum of log gates of each run around; return the sum before each run."""
    runs = [runs_of(positions) for positions in shares]
    passing = torch.stack([log_f[:, run].sum(-1) for run in runs[rank]])
    totals = {rank: passing}
    for step in range(1, len(shares)):
        (passing,) = yield (passing,)
        totals[(rank - step) % len(shares)] = passing
    sums = {
        int(shares[source][run][0]): total
        for source, of_runs in totals.items()
        for run, total in zip(runs[source], of_runs, strict=True)
    }
    return [
        sum(total for first, total in sums.items() if first < shares[rank][run.start])
        + torch.zeros_like(log_f[:, 0])
        for run in runs[rank]
    ]


def fox_of_sums(
    rank, shares, q, k, v, c, statistics=fox_statistics, merge_blocks=merge
):
    """Send keys, values and their sums c around; return the outputs of FoX."""
    runs = [runs_of(positions) for positions in shares]
    held = [None for _ in runs[rank]]
    block = k, v, c
    for step in range(len(shares)):
        source = (rank - step) % len(shares)
        keys, values, of_keys = block
        for n, mine in enumerate(runs[rank]):
            i = shares[rank][mine]
            for theirs in runs[source]:
                j = shares[source][theirs]
                if j[0] > i[-1]:
                    continue
                found = statistics(
                    q[:, mine],
                    keys[:, theirs],
                    values[:, theirs],
                    c[:, mine],
                    of_keys[:, theirs],
                    i,
                    j,
                )
                held[n] = found if held[n] is None else merge_blocks(held[n], found)
        if step < len(shares) - 1:
            block = yield block
    return torch.cat([out / total[..., None] for _, total, out in held], 1)


def fox_rank(rank, shares, q, k, v, log_f):
    """Compute a rank's FoX outputs: first the gates' sums go around, then the keys."""
    before = yield from sums_before(rank, shares, log_f)
    c = [
        log_f[:, run].cumsum(-1) + earlier[:, None]
        for run, earlier in zip(runs_of(shares[rank]), before, strict=True)
    ]
    return (yield from fox_of_sums(rank, shares, q, k, v, torch.cat(c, -1)))


def fox_rank_without_prefix(rank, shares, q, k, v, log_f):
    """Compute a rank's FoX outputs with sums of gates that start anew in each run."""
    c = [log_f[:, run].cumsum(-1) for run in runs_of(shares[rank])]
    return (yield from fox_of_sums(rank, shares, q, k, v, torch.cat(c, -1)))


def fox_rank_without_maximum(rank, shares, q, k, v, log_f):
    """Compute a rank's FoX outputs with exponentials of the logits themselves."""
    before = yield from sums_before(rank, shares, log_f)
    c = [
        log_f[:, run].cumsum(-1) + earlier[:, None]
        for run, earlier in zip(runs_of(shares[rank]), before, strict=True)
    ]
    return (
        yield from fox_of_sums(
            rank,
            shares,
            q,
            k,
            v,
            torch.cat(c, -1),
            fox_statistics_without_maximum,
            merge_without_maximum,
        )
    )


def softplus(z):
    """Return log(1 + e^z), exact for large and for small z."""
    return z.clamp(min=0) + (-z.abs()).exp().log1p()


def sticks_rank(rank, shares, q, k, v):
    """Compute a rank's stick-breaking attention; keys and values go around."""
    runs = [runs_of(positions) for positions in shares]
    found = [[] for _ in runs[rank]]
    block, source = (k, v), rank
    for step in range(len(shares)):
        keys, values = block
        for n, mine in enumerate(runs[rank]):
            i = shares[rank][mine]
            for theirs in runs[source]:
                j = shares[source][theirs]
                if j[0] >= i[-1]:
                    continue
                hidden = j >= i[:, None]
                z = q[:, mine] @ keys[:, theirs].mT / q.shape[-1] ** 0.5
                cost = softplus(z).masked_fill(hidden, 0.0)
                spent = cost.flip(-1).cumsum(-1).flip(-1)
                weights = (z - spent).masked_fill(hidden, -math.inf).exp()
                part = -spent[..., 0], weights @ values[:, theirs]
                found[n].append((int(j[0]), part))
        if step < len(shares) - 1:
            block = yield block
            source = (source - 1) % len(shares)
    outputs = []
    for parts in found:
        parts.sort(key=lambda part: -part[0])  # the nearest keys first
        whole = parts[0][1]
        for _, part in parts[1:]:
            whole = merge_sticks(whole, part)
        outputs.append(whole[1])
    return torch.cat(outputs, 1)


ANSWERS = (split, merge, fox_rank, merge_sticks, sticks_rank)
INSUFFICIENT = {
    "no-prefix": (split, merge, fox_rank_without_prefix, merge_sticks, sticks_rank),
    "no-maximum": (
        split,
        merge_without_maximum,
        fox_rank_without_maximum,
        merge_sticks,
        sticks_rank,
    ),
    "contiguous": (contiguous, merge, fox_rank, merge_sticks, sticks_rank),
}
RUBRIC = Rubric(
    full=r"""
All goals are reached by eight pieces, the $r$-th from either end for rank $r$: each rank multiplies 9 of the 36 causal pairs of pieces, so that work is 9/8, or 10/8 on the last rank if its two pieces, which are neighbors, are taken as one.
The write-up says what travels: keys, values, and one number $c_j$ for each key and head; before that, one sum for each piece and head, since $D_{ij} = c_i - c_j$ depends on earlier gates through their sum alone.
(Shifting a block by a sum that comes later is as good.)
It proves that both merges are associative, and shows by an example that the merge of sticks does not commute; so a rank keeps the parts of runs until the nearer ones have come.
It names 709.8 and 88.7, where float64 and bf16 overflow, and closed gates as a second cause.
""",
    partial=r"""
FoX or stick-breaking is right, and not both; or all outputs are right, and work is 2 because each rank has neighbors, or because whole shares are multiplied and then masked.
Typical gaps: sums of gates are sent for ranks and not for pieces, which fails with a split from both ends; sticks are merged in the order of arrival, which with a split from both ends is right for the last rank alone, and with neighbors for all ranks; a row that is hidden as a whole gives NaN, which is then replaced by 0 without a reason.
The write-up says that the maximum is “for stability” and does not say which numbers overflow, or that the merge is “order-sensitive” and not what must be kept for it.
""",
    none=r"""
Each rank adds up its own gates, so that keys of earlier ranks are preferred where they should be forgotten, or attends to its own keys alone.
Statistics are added as if all maxima were 0, or normalized outputs of blocks are averaged.
Or the ring is avoided: all keys are collected first, or a variable outside the function holds them.
The write-up describes the code line by line and says that the encoding “is added locally”; it has no count of bytes or of pairs.
""",
)
