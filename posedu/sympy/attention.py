"""Attention in SymPy, with hooks for encodings: exact weights of a few tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sympy as sp

from posedu._renamed import renamed_names
from posedu.sympy._expressions import expressions

Heads = tuple[sp.Matrix, ...]
"""A tuple with one matrix for each head."""


@dataclass(frozen=True)
class Tokens:
    """The queries, keys, values and positions that attention passes to its hooks.

    Hooks are the functions by which an encoding acts on attention. Tokens are rows.
    ``q`` and ``k`` are the results of the hook ``rotate``, ``v`` is the result of the
    hook ``values``, and ``d`` is the head dimension before ``rotate``. ``visible[i]``
    lists the keys that query i may attend to, oldest first. ``x`` is the layer's input,
    ``None`` where it was not given.
    """

    q: Heads
    k: Heads
    v: Heads
    d: int
    positions: tuple[Any, ...]
    visible: tuple[tuple[int, ...], ...]
    x: sp.Matrix | None = None

    def pairs(self, entry: Callable[[int, int], sp.Expr]) -> sp.Matrix:
        """Matrix of ``entry(i, j)`` for query i and key j, 0 where key j is hidden.

        A key is hidden if the query may not attend to it.
        """
        n = len(self.visible)
        return sp.Matrix(n, n, lambda i, j: entry(i, j) if j in self.visible[i] else 0)

    def by_head(self, entry: Callable[[int, int, int], sp.Expr]) -> Heads:
        """Matrix of ``entry(h, i, j)`` for each head h, 0 where key j is hidden.

        A key is hidden if query i may not attend to it.
        """
        heads = range(len(self.q))
        return tuple(self.pairs(lambda i, j, h=h: entry(h, i, j)) for h in heads)

    def of_offsets(self, entry: Callable[[sp.Expr], sp.Expr]) -> sp.Matrix:
        """Matrix of ``entry(offset)`` of query and key, 0 where the key is hidden.

        The offset is query position minus key position. A key is hidden if the query
        may not attend to it.
        """
        at = self.positions
        return self.pairs(lambda i, j: entry(at[i] - at[j]))


def softmax(row: Sequence[sp.Expr]) -> sp.Matrix:
    """Softmax of one row of logits: weights proportional to exp(logit), as a row.

    Equation ``def-softmax``.
    """
    row = expressions("row", row)
    total = sum(sp.exp(logit) for logit in row)
    return sp.Matrix([[sp.exp(logit) / total for logit in row]])


def weigh(logits: Heads, tokens: Tokens) -> Heads:
    """Attention weights of each head: :func:`softmax` of each query's visible logits.

    Visible are the keys that the query may attend to; all other keys get 0.
    """
    return tuple(by_row(matrix, tokens, softmax) for matrix in logits)


def by_row(
    logits: sp.Matrix,
    tokens: Tokens,
    weights: Callable[[list[sp.Expr]], Sequence[sp.Expr]],
) -> sp.Matrix:
    """Apply ``weights`` to each query's logits of the keys that it may attend to.

    ``weights`` is a function from logits to attention weights, such as :func:`softmax`.
    ``logits`` is a matrix ``[queries, keys]``. All other keys get 0.
    """
    filled = sp.zeros(*logits.shape)
    for i, keys in enumerate(tokens.visible):
        row = weights([logits[i, j] for j in keys]) if keys else []
        for j, weight in zip(keys, row, strict=True):
            filled[i, j] = weight
    return filled


def mix(weights: Heads, v: Heads, tokens: Tokens) -> Heads:
    """Attention output of each head: sums of the values, weighted by ``weights``.

    ``weights`` and ``v`` have a matrix for each head, ``[queries, keys]`` and ``[keys,
    d]``. ``tokens`` is not used: it is an argument of every hook ``mix``.
    """
    return tuple(a * b for a, b in zip(weights, v, strict=True))


@dataclass(frozen=True)
class Hooks:
    """The functions by which a positional encoding acts on attention, called hooks.

    :class:`posedu.numpy.attention.Hooks` explains each hook. Here queries, keys, values
    and logits are tuples with one matrix for each head; :func:`by_token` applies a
    function of one token's column to all tokens of all heads. ``heads`` is the number
    of heads, where an encoding has a fixed one. With ``needs_causal`` no key may come
    after its query.
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
    """Attention logits of each head: scaled products of queries and keys, plus bias.

    The bias and the scale are those of ``hooks``, an encoding's functions that act on
    attention. If there is a hook ``logits``, its result is returned instead.

    Raises
    ------
    ValueError
        The bias has not as many heads as the queries.
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
    """The results of attention's steps: tokens, logits, attention weights and output.

    ``tokens`` holds queries, keys, values and positions, as hooks (the functions by
    which an encoding acts on attention) take them. ``logits``, ``weights`` and ``out``
    have a matrix for each head.
    """

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
    """Attention of given queries, keys and values, with all intermediate results.

    ``q``, ``k`` and ``v`` have a matrix for each head, tokens are rows. With fewer
    key-value heads than query heads, each key-value head serves a group of neighboring
    query heads. ``hooks`` are an encoding's functions that act on attention.
    ``positions`` default to 0, 1, 2, … ``x`` is the layer's input, for hooks that read
    it.
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
    """Attention output of given queries, keys and values, without projections.

    The output is ``out`` of :func:`steps`, which takes the same arguments; ``hooks``
    are an encoding's functions that act on attention. Equation ``def-hooks``.
    """
    return steps(q, k, v, hooks, positions=positions, x=x, causal=causal).out


def by_token(
    function: Callable[[sp.Matrix, Any], sp.Matrix],
    heads: Heads,
    positions: Sequence,
) -> Heads:
    """Apply ``function`` to the features of each token in each head, and its position.

    ``heads`` has a matrix for each head, tokens are rows; ``positions`` has a position
    for each token. ``function`` takes a token's features as a column, and its position,
    and returns a column.
    """
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
    """Apply a stack of attention and MLP layers with residual sums and without norms.

    Each layer has the projections of queries, keys and values, a matrix ``[d,
    d_model]`` for each head; the output projection ``[d_model, heads · d]``; and an
    MLP, a function of the hidden vectors. ``hooks`` are an encoding's functions that
    act on attention, either for all layers or a sequence with those of each layer. See
    :func:`posedu.numpy.attention.stack`.
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
    """Output of one attention head; each row of ``x`` is the input vector of a token.

    Equation ``def-attention``.

    ``w_q``, ``w_k`` and ``w_v`` are ``[d, d_model]``; ``bias`` is ``[queries, keys]``
    and added to the scaled logits.
    """
    hooks = NO_HOOKS if bias is None else Hooks(bias=lambda tokens: (bias,))
    q, k, v = ((x * w.T,) for w in (w_q, w_k, w_v))
    return attend(q, k, v, hooks, x=x, causal=causal)[0]


def permutation_matrix(order: Sequence[int]) -> sp.Matrix:
    """The matrix P that permutes rows by ``order``: (P X)_i = X_{order[i]}."""
    n = len(order)
    return sp.Matrix(n, n, lambda i, j: int(order[i] == j))


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
