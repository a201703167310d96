"""Self-Extend, ReRoPE and dual chunk attention in SymPy: other far offsets."""

import sympy as sp

from posedu._arguments import FarOffsets, GroupJoin, Layout, require_choice, require_far
from posedu.sympy._expressions import expression
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.frequencies import frequencies
from posedu.sympy.rotary.rope import unstack_pairs


def extended_offset(
    query_position: sp.Expr | float,
    key_position: sp.Expr | float,
    *,
    far: FarOffsets,
    window: int,
    group: int | None = None,
    join: GroupJoin | None = None,
    chunk: int | None = None,
) -> sp.Expr:
    """The offset that RoPE uses for one query and key: far keys may count as nearer.

    Positions are numbers. ``far`` is the rule for far keys, beyond ``window``:
    ``"grouped"`` by ``group`` neighboring positions, a ``"constant"`` offset, or
    offsets by ``"chunks"`` of ``chunk`` positions. ``join`` is the shift that joins
    grouped offsets to near ones. Equations ``def-cache-grouped``,
    ``def-cache-constant`` and ``def-cache-chunks``. See
    :func:`posedu.numpy.rotary.extended_offsets`.
    """
    require_far(far, window, group, chunk, join)
    i = expression("query_position", query_position)
    j = expression("key_position", key_position)
    if chunk is not None:
        behind, top = sp.floor(i / chunk) - sp.floor(j / chunk), chunk + window
        query = i % chunk
        if behind == 1:
            query = sp.Min(query + chunk, top)
        elif behind > 1:
            query = sp.Integer(min(2 * chunk - 1, top))
        return query - j % chunk
    if i - j < window:
        return i - j
    if group is None:
        return sp.Integer(window)
    part = sp.Rational(window, group)
    shift = window - (sp.floor(part) if join == "floor" else part)
    return sp.floor(i / group) - sp.floor(j / group) + shift


def self_extend(
    *,
    far: FarOffsets,
    window: int,
    layout: Layout,
    group: int | None = None,
    join: GroupJoin | None = None,
    chunk: int | None = None,
    base: sp.Expr | float = 10000,
) -> Hooks:
    """Return the hooks of Self-Extend, the functions by which it acts on attention.

    RoPE uses the offsets of :func:`extended_offset`, which takes the same ``far``,
    ``window``, ``group``, ``join`` and ``chunk``: the offset of a far key is replaced
    by another, to stay within those of training. Equation ``def-cache-extended``.
    """
    require_far(far, window, group, chunk, join)
    require_choice("layout", layout, Layout)
    sizes = {"far": far, "window": window, "group": group, "join": join, "chunk": chunk}

    def logits(tokens: Tokens) -> Heads:
        at, omega = tokens.positions, frequencies(tokens.d, base=base)

        def entry(h: int, i: int, j: int) -> sp.Expr:
            offset = extended_offset(at[i], at[j], **sizes)
            members = zip(
                unstack_pairs(tokens.q[h][i, :], layout=layout),
                unstack_pairs(tokens.k[h][j, :], layout=layout),
                omega,
                strict=True,
            )
            terms = (
                (a * e + b * f) * sp.cos(offset * w)
                - (b * e - a * f) * sp.sin(offset * w)
                for (a, b), (e, f), w in members
            )
            return sum(terms) / sp.sqrt(tokens.d)

        return tokens.by_head(entry)

    return Hooks(logits=logits, needs_causal=True)
