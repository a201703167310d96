"""DAPE in SymPy: an MLP over all heads' logits and biases corrects the logits."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import sympy as sp

from posedu._arguments import (
    DAPEBias,
    DAPEEdges,
    require_bool,
    require_choice,
    require_edges,
)
from posedu.sympy._expressions import expressions, matrix
from posedu.sympy.attention import NO_HOOKS, Heads, Hooks, Tokens
from posedu.sympy.attention import logits as logits_of
from posedu.sympy.bias.alibi import alibi
from posedu.sympy.bias.fire import fire
from posedu.sympy.bias.t5 import t5

_BIASES = dict(alibi=alibi, t5=t5, fire=fire)


def dape(
    *,
    over: Hooks | DAPEBias | None,
    hidden_weight: Sequence[sp.Matrix],
    hidden_bias: Sequence[sp.Expr],
    out_weight: Sequence[sp.Matrix],
    out_bias: Sequence[sp.Expr],
    residual: bool,
    edges: DAPEEdges | None = None,
    **over_options: Any,
) -> Hooks:
    """Return the hooks of DAPE, the functions by which it acts on attention.

    An MLP of the logits and biases of all heads is added to the logits. The biases are
    those of ``over``, a second encoding, and are added, too, if ``residual``.
    ``hidden_weight`` has a matrix ``[channels, kernel]`` for each hidden unit,
    ``out_weight`` a matrix ``[width, kernel]`` for each head: the channels are the
    heads of logits and biases, the kernel is the number of neighboring keys that are
    read, counted among the keys that a query may attend to. ``edges`` is the rule for
    the second layer's input at masked keys, and ``over_…`` are the keywords of ``over``
    if it is given by name. Equation ``def-dape``. See :func:`posedu.numpy.bias.dape`.
    """
    w_1 = [matrix("hidden_weight", m) for m in hidden_weight]
    w_2 = [matrix("out_weight", m) for m in out_weight]
    b_1, b_2 = (expressions("bias", b) for b in (hidden_bias, out_bias))
    require_bool("residual", residual)
    require_edges(edges, w_1[0].cols)
    reach = w_1[0].cols // 2
    below = _below(over, len(w_2), over_options)

    def logits(tokens: Tokens) -> Heads:
        s = logits_of(tokens, Hooks(scale=below.scale))
        b = () if below.bias is None else below.bias(tokens)
        orders = [_order(keys, i, s[0].cols) for i, keys in enumerate(tokens.visible)]

        def hidden(i: int, place: int) -> list[sp.Expr]:
            visible, order = tokens.visible[i], orders[i]
            inside = 0 <= place < len(order)
            later = edges == "code" or (edges == "published" and inside)
            seen = inside and order[place] in visible
            if not seen and not (later and place > i):
                return [sp.S.Zero] * len(w_1)
            places = range(place - reach, place + reach + 1)
            read = [_row(t, visible, i, order, places) for t in (*s, *b)]
            z = [_sum(w, read) + c for w, c in zip(w_1, b_1, strict=True)]
            return [sp.Max(t, t / 100) for t in z]

        def refined(i: int, j: int) -> list[sp.Expr]:
            place = orders[i].index(j)
            near = [hidden(i, t) for t in range(place - reach, place + reach + 1)]
            read = list(map(list, zip(*near, strict=True)))
            return [_sum(w, read) + c for w, c in zip(w_2, b_2, strict=True)]

        found = {
            (i, j): refined(i, j) for i, keys in enumerate(tokens.visible) for j in keys
        }

        def logit(h: int, i: int, j: int) -> sp.Expr:
            added = b[h][i, j] if b else sp.S.Zero
            if added == -sp.oo:
                return added
            return s[h][i, j] + (added if residual else 0) + found[i, j][h]

        return tokens.by_head(logit)

    return Hooks(
        logits=logits,
        heads=len(w_2),
        needs_causal=below.needs_causal or edges in ("code", "published"),
    )


def _below(over: Hooks | DAPEBias | None, heads: int, options: dict[str, Any]) -> Hooks:
    if not isinstance(over, str):
        return NO_HOOKS if over is None else over
    given = {name.removeprefix("over_"): v for name, v in options.items()}
    if require_choice("over", over, DAPEBias) == "alibi":
        given["heads"] = heads
    return _BIASES[over](**given)


def _order(visible: Sequence[int], i: int, keys: int) -> list[int]:
    """Return all keys in an order in which those that query i sees are neighbors.

    Hidden keys up to the query's own come first, hidden later keys last. ``visible``
    are the keys that query i may attend to, ``keys`` is the number of all keys.
    """
    hidden = [n for n in range(keys) if n not in visible]
    before, after = ([n for n in hidden if (n > i) == later] for later in (False, True))
    return [*before, *visible, *after]


def _row(
    t: sp.Matrix, visible: Sequence[int], i: int, order: Sequence[int], places: range
) -> list[sp.Expr]:
    """Return query i's entries of ``t`` at places of ``order``, 0 for hidden keys.

    ``t`` is a matrix of logits or biases, a row for each query, ``order`` is that of
    :func:`_order`; ``visible`` are the keys that query i may attend to.
    """
    keys = [order[n] if 0 <= n < len(order) else None for n in places]
    return [t[i, n] if n in visible and t[i, n] != -sp.oo else sp.S.Zero for n in keys]


def _sum(weights: sp.Matrix, read: Sequence[Sequence[sp.Expr]]) -> sp.Expr:
    return sp.Add(*(w * t for w, t in zip(weights, chain(*read), strict=True)))
