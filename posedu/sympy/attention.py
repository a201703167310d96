"""Attention over symbols, with hooks: a few tokens, exact weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sympy as sp

from posedu._renamed import renamed_names
from posedu.sympy._expressions import expressions

Heads = tuple[sp.Matrix, ...]
"""A matrix for each head."""


@dataclass(frozen=True)
class Tokens:
    """The arguments of the hooks between queries and keys; tokens are rows.

    ``q`` and ``k`` are as the hook ``rotate`` left them and ``v`` as ``values`` did,
    ``d`` is the head dimension before. ``visible[i]`` lists the keys that query i may
    attend to, oldest first. ``x`` is the layer's input, ``None`` where it was not
    given.
    """

    q: Heads
    k: Heads
    v: Heads
    d: int
    positions: tuple[Any, ...]
    visible: tuple[tuple[int, ...], ...]
    x: sp.Matrix | None = None

    def pairs(self, entry: Callable[[int, int], sp.Expr]) -> sp.Matrix:
        """The matrix of ``entry(i, j)``, 0 where query i may not attend to key j."""
        n = len(self.visible)
        return sp.Matrix(n, n, lambda i, j: entry(i, j) if j in self.visible[i] else 0)

    def by_head(self, entry: Callable[[int, int, int], sp.Expr]) -> Heads:
        """The matrix of ``entry(h, i, j)`` of each head, as :meth:`pairs`."""
        heads = range(len(self.q))
        return tuple(self.pairs(lambda i, j, h=h: entry(h, i, j)) for h in heads)

    def of_offsets(self, entry: Callable[[sp.Expr], sp.Expr]) -> sp.Matrix:
        """The matrix of ``entry(i − j)`` in positions, as :meth:`pairs`."""
        at = self.positions
        return self.pairs(lambda i, j: entry(at[i] - at[j]))


def softmax(row: Sequence[sp.Expr]) -> sp.Matrix:
    """Weights proportional to exp(logit), as a row. Equation ``def-softmax``."""
    row = expressions("row", row)
    total = sum(sp.exp(logit) for logit in row)
    return sp.Matrix([[sp.exp(logit) / total for logit in row]])


def weigh(logits: Heads, tokens: Tokens) -> Heads:
    """:func:`softmax` over the keys that a query may attend to."""
    return tuple(by_row(matrix, tokens, softmax) for matrix in logits)


def by_row(
    logits: sp.Matrix,
    tokens: Tokens,
    weights: Callable[[list[sp.Expr]], Sequence[sp.Expr]],
) -> sp.Matrix:
    """Apply ``weights`` to the logits of each row's visible keys; others get 0."""
    filled = sp.zeros(*logits.shape)
    for i, keys in enumerate(tokens.visible):
        row = weights([logits[i, j] for j in keys]) if keys else []
        for j, weight in zip(keys, row, strict=True):
            filled[i, j] = weight
    return filled


def mix(weights: Heads, v: Heads, tokens: Tokens) -> Heads:
    """The weighted sums of the values."""
    return tuple(a * b for a, b in zip(weights, v, strict=True))


@dataclass(frozen=True)
class Hooks:
    """The points where an encoding may act; see :class:`posedu.numpy.attention.Hooks`.

    All arrays of heads are a matrix for each; :func:`by_token` turns a function of one
    token's column into one of them. ``heads`` is their number where it matters,
    With ``needs_causal`` no key may come after its query.
    """

    locate: Callable = lambda positions, x: positions
    embed: Callable = lambda x, positions: x
    enter: Callable = lambda x, positions: x
    rotate: Callable = lambda q, k, positions: (q, k)
    values: Callable = lambda v, positions: v
    scale: Callable[[int], sp.Expr] = lambda d: 1 / sp.sqrt(d)
    bias: Callable[[Tokens], Heads] | None = None
    logits: Callable[[Tokens], Heads] | None = None
    weigh: Callable[[Heads, Tokens], Heads] = weigh
    mix: Callable[[Heads, Heads, Tokens], Heads] = mix
    output: Callable = lambda out, positions: out
    update: Callable = lambda weights, tokens, mlp_output: tokens.positions
    heads: int | None = None
    needs_causal: bool = False


NO_HOOKS = Hooks()


def logits(tokens: Tokens, hooks: Hooks = NO_HOOKS) -> Heads:
    """Scaled inner products and bias, or the result of the hook ``logits``.

    Raises
    ------
    ValueError
        A bias for another number of heads.
    """
    if hooks.logits is not None:
        return hooks.logits(tokens)
    scale = hooks.scale(tokens.d)
    scaled = tuple(scale * q * k.T for q, k in zip(tokens.q, tokens.k, strict=True))
    if hooks.bias is None:
        return scaled
    bias = hooks.bias(tokens)
    if len(bias) != len(scaled):
        raise ValueError(f"a bias of {len(bias)} heads for {len(scaled)} heads")
    return tuple(s + b for s, b in zip(scaled, bias, strict=True))


class Steps(NamedTuple):
    """The intermediate results of attention, for each head."""

    tokens: Tokens
    logits: Heads
    weights: Heads
    out: Heads


def steps(
    q: Sequence[sp.Matrix],
    k: Sequence[sp.Matrix],
    v: Sequence[sp.Matrix],
    hooks: Hooks = NO_HOOKS,
    *,
    positions: Sequence | None = None,
    x: sp.Matrix | None = None,
    causal: bool = True,
) -> Steps:
    """Attention without projections, with its intermediate results.

    With fewer keys and values than queries, each serves a group of neighboring heads.
    ``positions`` default to 0, 1, 2, …
    """
    n, d = q[0].shape
    positions = range(n) if positions is None else positions
    positions = tuple(expressions("positions", t) for t in positions)
    _require_heads(q, k, v, hooks)
    if len(positions) != n or (x is not None and x.rows != n):
        rows = "none" if x is None else x.rows
        raise ValueError(
            f"{n} tokens need as many positions and rows of x, got {len(positions)} "
            f"and {rows}"
        )
    if hooks.needs_causal and not causal:
        raise ValueError("the encoding is causal; give causal=True")
    group = len(q) // len(k)
    q, k = hooks.rotate(tuple(q), tuple(k), positions)
    v = hooks.values(tuple(v), positions)
    k, v = (tuple(m for m in t for _ in range(group)) for t in (k, v))
    visible = tuple(tuple(range(i + 1 if causal else n)) for i in range(n))
    tokens = Tokens(q, k, v, d, positions, visible, x)
    scores = logits(tokens, hooks)
    weights = hooks.weigh(scores, tokens)
    out = hooks.output(hooks.mix(weights, v, tokens), positions)
    return Steps(tokens, scores, weights, out)


def _require_heads(q, k, v, hooks: Hooks) -> None:
    if len(k) != len(v) or len(q) % len(k):
        raise ValueError(
            f"q, k and v must have heads that divide, got {len(q)}, {len(k)}, {len(v)}"
        )
    if hooks.heads not in (None, len(q)):
        raise ValueError(f"the encoding has {hooks.heads} heads, q has {len(q)}")
    shapes = [m.shape for m in (*q, *k)]
    if {*shapes} != {shapes[0]} or any(m.rows != shapes[0][0] for m in v):
        raise ValueError(
            f"q and k must agree in tokens and d, v in tokens, got {shapes} and "
            f"{[m.shape for m in v]}"
        )


def attend(
    q: Sequence[sp.Matrix],
    k: Sequence[sp.Matrix],
    v: Sequence[sp.Matrix],
    hooks: Hooks = NO_HOOKS,
    *,
    positions: Sequence | None = None,
    x: sp.Matrix | None = None,
    causal: bool = True,
) -> Heads:
    """Attention without projections: the output of :func:`steps`.

    Equation ``def-hooks``.
    """
    return steps(q, k, v, hooks, positions=positions, x=x, causal=causal).out


def by_token(
    function: Callable[[sp.Matrix, Any], sp.Matrix],
    heads: Heads,
    positions: Sequence,
) -> Heads:
    """Apply ``function`` to each token's features, a column, and its position."""
    return tuple(
        sp.Matrix.vstack(*(function(m[i, :].T, t).T for i, t in enumerate(positions)))
        for m in heads
    )


def stack(
    x: sp.Matrix,
    layers: Sequence[tuple[Sequence[Sequence[sp.Matrix]], sp.Matrix, Callable]],
    positions: Sequence | None = None,
    *,
    hooks: Hooks | Sequence[Hooks] = NO_HOOKS,
    causal: bool = True,
) -> sp.Matrix:
    """Layers of attention and MLP, each added to the stream, without norms.

    Each layer has the projections of queries, keys and values, a matrix
    ``[d, d_model]`` for each head, that of the output ``[d_model, heads · d]``, and a
    MLP: a function of the stream. ``hooks`` are one encoding for all layers, or
    one for each. See :func:`posedu.numpy.attention.stack`.
    """
    positions = tuple(range(x.rows) if positions is None else positions)
    hooks = [hooks] * len(layers) if isinstance(hooks, Hooks) else hooks
    positions = hooks[0].locate(positions, x)
    x = hooks[0].embed(x, positions)
    for (projections, w_o, MLP), own in zip(layers, hooks, strict=True):
        x = own.enter(x, positions)
        q, k, v = (tuple(x * m.T for m in heads) for heads in projections)
        results = steps(q, k, v, own, positions=positions, x=x, causal=causal)
        x = x + sp.Matrix.hstack(*results.out) * w_o.T
        mlp_output = MLP(x)
        x = x + mlp_output
        positions = own.update(results.weights, results.tokens, mlp_output)
    return x


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
    hooks = NO_HOOKS if bias is None else Hooks(bias=lambda tokens: (bias,))
    q, k, v = ((x * w.T,) for w in (w_q, w_k, w_v))
    return attend(q, k, v, hooks, x=x, causal=causal)[0]


def permutation_matrix(order: Sequence[int]) -> sp.Matrix:
    """The matrix P with (P X)_i = X_{order[i]}."""
    n = len(order)
    return sp.Matrix(n, n, lambda i, j: int(order[i] == j))


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
