"""Test cases that show a bias at every distance: bucket edges, 10³, 10⁵, one query.

In a short row no key is far from its query, so a bias that is wrong only far away
agrees with the right one. The rows here have a last query whose keys are at chosen
distances, and keys whose inner products with the query balance the bias: otherwise a
softmax hides what a bias does far away.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from posedu.catalog import TOKENS, EncodingRecord
from posedu.crosscheck import attention_hooks
from posedu.crosscheck.common import rounded
from posedu.numpy.attention import Hooks, Tokens, attend, logits

Array = np.ndarray

KEYS = 300  # keys of the one query of a decoding step
ROW = 64  # tokens of a row for kernels that count tokens themselves
FARTHEST = 100_000
_SEARCHED = 1024  # distances in which edges of buckets are searched
_POWERS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768, 65536)
_MOST_EDGES = 64  # of one encoding; Self-Extend has one at every third distance
_READ_EARLIER_QUERIES = ("selective-attention",)  # in the bias of a later query
_OF_WHAT_LIES_BETWEEN = ("path", "recurrent")  # families
_BALANCED_FROM = 20.0  # Weights e^−20 apart hide errors of a bias.


@dataclass(frozen=True)
class ChangedDistances(Tokens):
    """Tokens whose offsets, query position minus key position, are changed.

    ``change`` maps the array of offsets to the changed one.
    """

    change: Callable[[Array], Array] = lambda offsets: offsets

    @property
    def offsets(self) -> Array:
        """Changed offset of every (query, key) pair."""
        return self.change(self.query_positions[:, None] - self.key_positions)


def with_distances(
    tokens: Tokens, change: Callable[[Array], Array]
) -> ChangedDistances:
    """Return ``tokens`` with offsets (query minus key position) changed by ``change``.

    An encoding that uses positions themselves still gets the right ones.
    """
    own = {name: getattr(tokens, name) for name in tokens.__dataclass_fields__}
    return ChangedDistances(**own | {"change": change})


def attend_to_last(hooks: Hooks) -> Callable[..., Array]:
    """Return the function that computes attention's output of the last query alone.

    It takes the arguments of ``attend``. For ``hooks`` (functions by which an encoding
    acts on attention) that replace a part of attention, or need the layer's input, all
    queries are computed and the last is taken.
    """
    is_plain = (
        hooks.logits is None and hooks.transport is None and hooks.weigh is Hooks.weigh
    )

    def attended(
        q: Array,
        k: Array,
        v: Array,
        wrapped: Hooks,
        *,
        positions: Array,
        x: Array | None,
        causal: bool,
    ) -> Array:
        if x is not None or not is_plain:
            given = dict(positions=positions, x=x, causal=causal)
            return attend(q, k, v, wrapped, **given)[:, -1:]
        d, group = q.shape[-1], len(q) // len(k)
        q, k = wrapped.rotate(q, k, positions)
        k, v = (t.repeat(group, axis=0) for t in (k, wrapped.values(v, positions)))
        last, mask = positions[-1:], np.ones((1, len(positions)), dtype=bool)
        tokens = Tokens(q[:, -1:], k, v, d, last, positions, mask)
        weights = wrapped.weigh(logits(tokens, wrapped), tokens)
        return wrapped.output(wrapped.mix(weights, v, tokens), last)

    return attended


def last_of_all(hooks: Hooks) -> Callable[..., Array]:
    """Return the function that computes all queries, and takes the last one's output.

    It takes the arguments of ``attend``.
    """
    return lambda *given, **named: attend(*given, **named)[:, -1:]


def at_last_query(case: attention_hooks.Case) -> attention_hooks.Case:
    """Return a copy of ``case`` that computes the last query's output alone."""
    implementation = case.encoding.implementation("numpy")
    changed = case.with_implementation(implementation, case.keywords, case.positions)
    reads_others = case.encoding.name in _READ_EARLIER_QUERIES
    changed.attend_by = last_of_all if reads_others else attend_to_last
    return changed


def logits_at(case: attention_hooks.Case, hooks: Hooks, distances: Array) -> Array:
    """Return the logits ``[heads, distances]`` of a query and keys that are all ones.

    ``case`` has the sizes, ``hooks`` (functions by which an encoding acts on attention)
    the bias. Numbers at equal distances are equal, so the logits are a function of the
    distance alone.
    """
    n, heads, d = len(distances), case.heads, case.d
    ones = np.ones((heads, n, d))
    far = max(distances.max(), 0)
    queries = n if "x" in case.inputs else 1
    tokens = Tokens(
        q=ones[:, :queries],
        k=ones,
        v=ones,
        d=d,
        query_positions=np.full(queries, far),
        key_positions=far - distances,
        mask=np.ones((queries, n), dtype=bool),
        x=np.ones((n, heads * d)),
    )
    found = np.asarray(logits(tokens, hooks))
    return np.broadcast_to(found, (heads, queries, n))[:, 0]


def edges(case: attention_hooks.Case, largest: int) -> set[int]:
    """Return the distances around which logits jump from one constant to another.

    They are the first distance of every bucket or stretch of equal logits and the
    distance before it, up to 1024 or ``largest``; a part of them if there are very
    many. ``case`` has the encoding, its options and parameters. The logits of a product
    along the path, and of a recurrence, depend on what lies between: they have none.
    """
    if case.encoding.family in _OF_WHAT_LIES_BETWEEN:
        return set()
    hooks = case.encoding.implementation("numpy")(**case.keywords, **case.parameters)
    found: set[int] = set()
    for sign in (1, -1):
        line = np.arange(min(_SEARCHED, largest) + 1)
        values = logits_at(case, hooks, sign * line)
        same = np.all(values[:, 1:] == values[:, :-1], axis=0)
        for n in np.flatnonzero(~same) + 1:
            if (n > 1 and same[n - 2]) or (n < len(same) and same[n]):
                found |= {int(n) - 1, int(n)}
    chosen = np.array(sorted(found))
    if len(chosen) > _MOST_EDGES:
        chosen = chosen[np.linspace(0, len(chosen) - 1, _MOST_EDGES).astype(int)]
    return set(chosen.tolist())


def largest_distance(encoding: EncodingRecord) -> int:
    """Return the largest distance at which an encoding is tested, at most 10⁵.

    It is less if the encoding has a table of tokens, or a largest position.
    """
    if "tokens" in encoding.sizes:
        return TOKENS - 1
    return (
        FARTHEST if encoding.reach is None else int(min(encoding.reach - 1, FARTHEST))
    )


def distances(case: attention_hooks.Case, largest: int) -> list[int]:
    """Return the distances to test: around edges and lengths, 10³, 10⁵, increasing.

    Lengths are the whole numbers among the encoding's options, such as a window, and
    the sizes of its parameters, such as a table. All distances are at most ``largest``.
    """
    sizes = {int(v) for v in case.keywords.values() if isinstance(v, int | float)}
    sizes |= {n for p in case.parameters.values() for n in p.shape}
    near = {n + step for n in (*_POWERS, *sizes) for step in (-1, 0, 1)}
    chosen = {*range(21), 300, 1000, 1001, FARTHEST - 1, FARTHEST} | near
    chosen |= {largest - 1, largest} | edges(case, largest)
    return sorted(n for n in chosen if 0 <= n <= largest)


def positions_at(chosen: list[int], is_causal: bool) -> tuple[tuple[int, ...], ...]:
    """Return rows of positions whose last token has keys at the ``chosen`` distances.

    In the first row all keys come before the query. Unless attention is causal, the
    keys of a second row come after the query.
    """
    after = tuple(reversed(chosen))
    before = tuple(chosen[-1] - n for n in after)
    return (before,) if is_causal else (before, after)


def widened(case: attention_hooks.Case) -> attention_hooks.Case:
    """Round the inputs of a case without bfloat16 bounds to what bfloat16 represents.

    The inputs of ``case``, drawn in the coarsest dtype that has bounds, are changed.
    """
    for x in case.inputs.values():
        x[...] = rounded(x, torch.bfloat16)
    return case


def balanced(case: attention_hooks.Case) -> attention_hooks.Case:
    """Change the last query and its keys so that inner products balance the bias.

    The last query is all ones. The keys' features are sums of numbers that bfloat16
    represents, so that the logits of all keys differ as little as without a bias.
    ``case`` is returned, unchanged if the bias is small or no sum of biases and inner
    products.
    """
    hooks = case.encoding.implementation("numpy")(**case.keywords, **case.parameters)
    if hooks.logits is not None or hooks.rotate is not Hooks.rotate:
        return case
    q, k = case.inputs["q"], case.inputs["k"]
    for row, at in enumerate(np.array(case.positions)):
        n = len(at)
        mask = np.tril(np.ones((n, n), dtype=bool))
        x = case.inputs["x"][row] if "x" in case.inputs else None
        tokens = Tokens(q[row], k[row], case.inputs["v"][row], case.d, at, at, mask, x)
        bias = np.broadcast_to(hooks.bias(tokens), (*q.shape[1:3], n))[:, -1]
        bias = np.where(np.isfinite(bias), bias, 0.0)
        if np.ptp(bias) < _BALANCED_FROM:
            continue
        q[row, :, -1] = 1.0
        rest = (k[row, :, :, 0] - bias) / hooks.scale(case.d)
        for feature in range(case.d):
            k[row, :, :, feature] = rounded(rest, torch.bfloat16)
            rest = rest - k[row, :, :, feature]
    return case
