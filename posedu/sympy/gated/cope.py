"""CoPE in SymPy: contextual positions, which count keys by gates of their content."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import CoPEGates, CoPEScaling, require_choice
from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.stickbreaking import sigmoid


def contextual_positions(gates: Sequence[sp.Expr]) -> list[sp.Expr]:
    """CoPE's position p_j of each key for one query: the sum of the gates from j on.

    ``gates`` are the query's gates of its visible keys, oldest key first. Equation
    ``def-cope-position``, before the clamp.
    """
    return [sp.Add(*gates[j:]) for j in range(len(gates))]


def interpolate(values: Sequence[sp.Expr], position: sp.Expr) -> sp.Expr:
    """Interpolate ``values`` linearly at a real position between two integers.

    The position must have a numerical value; its fraction is the weight of the value at
    the ceiling. Equation ``def-cope-interpolation``.
    """
    position = expression("position", position)
    low, high = int(sp.floor(position)), int(sp.ceiling(position))
    fraction = position - low
    return fraction * values[high] + (1 - fraction) * values[low]


def cope(
    *,
    table: sp.Matrix | Sequence[sp.Matrix],
    scaling: CoPEScaling,
    gates: CoPEGates = "content",
    gate_keys_weight: sp.Matrix | None = None,
) -> Hooks:
    """Return the hooks of CoPE, the functions by which it acts on attention.

    The bias of query q is q · e[p] at :func:`contextual_positions` p, where e[0], e[1],
    … are the trained vectors in the columns of ``table``: one matrix for all heads or
    one for each. ``scaling`` says which of content, gates and bias are divided by √d;
    ``gates`` says whether gates are products of the query with keys, values or separate
    keys, which ``gate_keys_weight`` makes. Inputs must be numbers. See
    :func:`posedu.numpy.gated.cope`.
    """
    require_choice("scaling", scaling, CoPEScaling)
    require_choice("gates", gates, CoPEGates)

    def scale(d: int) -> sp.Expr:
        return sp.S.One if scaling == "paper" else 1 / sp.sqrt(d)

    def keys_of(tokens: Tokens) -> Heads:
        if gates != "keys":
            return tokens.k if gates == "content" else tokens.v
        projected = tokens.x * matrix("gate_keys_weight", gate_keys_weight).T
        d = tokens.d
        return tuple(projected[:, h * d : (h + 1) * d] for h in range(len(tokens.q)))

    def bias(tokens: Tokens) -> Heads:
        is_shared = isinstance(table, sp.MatrixBase)
        own = [table] * len(tokens.q) if is_shared else table
        heads = []
        for q, k, rows in zip(tokens.q, keys_of(tokens), own, strict=True):
            e = matrix("table", rows)
            logits, values = scale(tokens.d) * q * k.T, q * e
            amounts = sp.zeros(*logits.shape)
            for i, visible in enumerate(tokens.visible):
                counted = contextual_positions([sigmoid(logits[i, j]) for j in visible])
                for j, p in zip(visible, counted, strict=True):
                    p = sp.Min(p, sp.Integer(e.cols - 1))
                    amounts[i, j] = interpolate(list(values[i, :]), p)
            heads.append(scale(tokens.d) * amounts if scaling == "code" else amounts)
        return tuple(heads)

    return Hooks(scale=scale, bias=bias, needs_causal=True)
