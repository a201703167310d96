"""Selective attention in SymPy: exact sums of what a few tokens deselect."""

import sympy as sp

from posedu._arguments import require_bool
from posedu.sympy.attention import Heads, Hooks, Tokens


def selections(tokens: Tokens, *, spare_first: bool) -> sp.Matrix:
    """The selections S_lj: by how much token l deselects the earlier token j.

    S_lj is the positive part of the first head's scaled product, and 0 for a token's
    own key and, if ``spare_first``, for the first token. Equation ``def-selections``.
    """
    require_bool("spare_first", spare_first)
    logits = tokens.q[0] * tokens.k[0].T / sp.sqrt(tokens.d)

    def entry(token: int, j: int) -> sp.Expr:
        is_spared = j == token or (spare_first and tokens.visible[j] == (j,))
        return sp.S.Zero if is_spared else sp.Max(0, logits[token, j])

    return tokens.pairs(entry)


def accumulated_selections(
    selections: sp.Matrix, *, include_current: bool
) -> sp.Matrix:
    """The sums F_ij of the selections S_lj of key j by the tokens l before query i.

    With ``include_current`` the query's own selections count, too. Equation
    ``def-selective-attention``.
    """
    own = int(require_bool("include_current", include_current))
    return sp.Matrix(*selections.shape, lambda i, j: sp.Add(*selections[: i + own, j]))


def selective_attention(*, include_current: bool, spare_first: bool) -> Hooks:
    """Return the hooks of selective attention, functions by which it acts on attention.

    Arguments as for :func:`posedu.numpy.gated.selective_attention`. Equation
    ``def-selective-attention``.
    """
    require_bool("include_current", include_current)
    require_bool("spare_first", spare_first)

    def bias(tokens: Tokens) -> Heads:
        of_tokens = selections(tokens, spare_first=spare_first)
        sums = accumulated_selections(of_tokens, include_current=include_current)
        return tuple(-sums for _ in tokens.q)

    return Hooks(bias=bias, needs_causal=True)
