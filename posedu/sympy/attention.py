"""Attention over symbols: a few tokens, exact weights, every door open."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

Heads = tuple[sp.Matrix, ...]
"""A matrix for each head."""


@dataclass(frozen=True)
class Tokens:
    """What the doors between queries and keys may look at; tokens are rows.

    ``q`` and ``k`` are as the door ``rotate`` left them and ``v`` as ``values`` did,
    ``d`` is the head dimension before. ``seen[i]`` lists the keys that query i may look
    at, oldest first. ``x`` is the layer's input, ``None`` where it was not given.
    """

    q: Heads
    k: Heads
    v: Heads
    d: int
    positions: tuple[Any, ...]
    seen: tuple[tuple[int, ...], ...]
    x: sp.Matrix | None = None

    def pairs(self, entry: Callable[[int, int], sp.Expr]) -> sp.Matrix:
        """The matrix of ``entry(i, j)``, 0 where query i may not look at key j."""
        n = len(self.seen)
        return sp.Matrix(n, n, lambda i, j: entry(i, j) if j in self.seen[i] else 0)

    def of_offsets(self, entry: Callable[[sp.Expr], sp.Expr]) -> sp.Matrix:
        """The matrix of ``entry(i − j)`` in positions, as :meth:`pairs`."""
        at = self.positions
        return self.pairs(lambda i, j: entry(at[i] - at[j]))


def softmax(row: Sequence[sp.Expr]) -> sp.Matrix:
    """Weights proportional to exp(logit), as a row. Equation ``def-softmax``."""
    total = sum(sp.exp(logit) for logit in row)
    return sp.Matrix([[sp.exp(logit) / total for logit in row]])


def weigh(logits: Heads, tokens: Tokens) -> Heads:
    """:func:`softmax` over the keys that a query may look at."""
    return tuple(by_row(matrix, tokens, softmax) for matrix in logits)


def by_row(
    logits: sp.Matrix,
    tokens: Tokens,
    weights: Callable[[list[sp.Expr]], Sequence[sp.Expr]],
) -> sp.Matrix:
    """Apply ``weights`` to the logits of each row's seen keys; the others get 0."""
    filled = sp.zeros(*logits.shape)
    for i, keys in enumerate(tokens.seen):
        row = weights([logits[i, j] for j in keys]) if keys else []
        for j, weight in zip(keys, row, strict=True):
            filled[i, j] = weight
    return filled


def mix(weights: Heads, v: Heads, tokens: Tokens) -> Heads:
    """The weighted sums of the values."""
    return tuple(a * b for a, b in zip(weights, v, strict=True))


@dataclass(frozen=True)
class Doors:
    """Where an encoding may act; see :class:`posedu.numpy.attention.Doors`.

    ``rotate``, ``values`` and ``output`` are given a column, its position and its head.
    ``bias`` gives a matrix for each head.
    """

    locate: Callable = lambda positions: positions
    embed: Callable = lambda x, positions: x
    enter: Callable = lambda x, positions: x
    rotate: Callable = lambda column, position, head: column
    values: Callable = lambda column, position, head: column
    scale: Callable[[int], sp.Expr] = lambda d: 1 / sp.sqrt(d)
    bias: Callable[[Tokens], Heads] | None = None
    logits: Callable[[Tokens], Heads] | None = None
    weigh: Callable[[Heads, Tokens], Heads] = weigh
    mix: Callable[[Heads, Heads, Tokens], Heads] = mix
    output: Callable = lambda column, position, head: column
    update: Callable = lambda weights, tokens, fed: tokens.positions


SHUT = Doors()


def logits(tokens: Tokens, doors: Doors = SHUT) -> Heads:
    """Scaled inner products and bias, or what the door ``logits`` has in their place.

    Raises
    ------
    ValueError
        A bias for another number of heads.
    """
    if doors.logits is not None:
        return doors.logits(tokens)
    scale = doors.scale(tokens.d)
    scaled = tuple(scale * q * k.T for q, k in zip(tokens.q, tokens.k, strict=True))
    if doors.bias is None:
        return scaled
    bias = doors.bias(tokens)
    if len(bias) != len(scaled):
        raise ValueError(f"a bias of {len(bias)} heads for {len(scaled)} heads")
    return tuple(s + b for s, b in zip(scaled, bias, strict=True))


def attend(
    q: Sequence[sp.Matrix],
    k: Sequence[sp.Matrix],
    v: Sequence[sp.Matrix],
    doors: Doors = SHUT,
    *,
    positions: Sequence | None = None,
    x: sp.Matrix | None = None,
    causal: bool = True,
) -> Heads:
    """Attention without projections, for a matrix of each head; tokens are rows.

    With fewer keys and values than queries, each serves a group of neighbouring heads.
    ``positions`` default to 0, 1, 2, … Equation ``def-doors``.
    """
    group, n, d = len(q) // len(k), q[0].rows, q[0].cols
    positions = tuple(range(n) if positions is None else positions)

    def act(door, heads):
        """Give each row of each head, as a column, to a door."""
        return tuple(
            sp.Matrix.vstack(*(door(m[i, :].T, positions[i], h).T for i in range(n)))
            for h, m in enumerate(heads)
        )

    k, v = act(doors.rotate, k), act(doors.values, v)
    k, v = (tuple(m for m in t for _ in range(group)) for t in (k, v))
    seen = tuple(tuple(range(i + 1 if causal else n)) for i in range(n))
    tokens = Tokens(act(doors.rotate, q), k, v, d, positions, seen, x)
    weights = doors.weigh(logits(tokens, doors), tokens)
    return act(doors.output, doors.mix(weights, v, tokens))


def attention(
    x: sp.Matrix,
    w_q: sp.Matrix,
    w_k: sp.Matrix,
    w_v: sp.Matrix,
    *,
    bias: sp.Matrix | None = None,
    causal: bool = False,
) -> sp.Matrix:
    """One head of attention, one token a row of ``x``. Equation ``def-attention``.

    ``w_q``, ``w_k`` and ``w_v`` are ``[d, d_model]``; ``bias`` is ``[queries, keys]``
    and added to the scaled logits.
    """
    doors = SHUT if bias is None else Doors(bias=lambda tokens: (bias,))
    q, k, v = ((x * w.T,) for w in (w_q, w_k, w_v))
    return attend(q, k, v, doors, x=x, causal=causal)[0]


def permutation_matrix(order: Sequence[int]) -> sp.Matrix:
    """The matrix P with (P X)_i = X_{order[i]}."""
    n = len(order)
    return sp.Matrix(n, n, lambda i, j: int(order[i] == j))
