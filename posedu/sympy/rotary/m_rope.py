"""M-RoPE over symbols."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import require_sections
from posedu.sympy.frequencies import frequencies
from posedu.sympy.rotary.mixed import Position, mixed


def m_rope_frequencies(
    sections: Sequence[int], *, order: str, base: sp.Expr | float = 10000
) -> sp.Matrix:
    """The frequency vectors of M-RoPE, one a row. Equation ``def-m-rope``."""
    sections = require_sections(sections, order)
    axes = range(len(sections))
    if order == "sectioned":
        taken = [axis for axis in axes for _ in range(sections[axis])]
    elif order == "alternating":
        turns = [axis for _ in range(max(sections[1:], default=0)) for axis in axes[1:]]
        taken = turns + [0] * sections[0]
    else:
        left, taken = list(sections), []
        for p in range(sum(sections)):
            axis = p % len(sections) if left[p % len(sections)] else 0
            taken.append(axis)
            left[axis] -= 1 if axis else 0
    omega = frequencies(2 * len(taken), base=base)
    pairs = zip(taken, omega, strict=True)
    return sp.Matrix([[w if axis == own else 0 for axis in axes] for own, w in pairs])


def m_rope(
    x: sp.Matrix,
    position: Position,
    *,
    sections: Sequence[int],
    order: str,
    layout: str,
    base: sp.Expr | float = 10000,
) -> sp.Matrix:
    """The column ``x`` turned by M-RoPE: the hook ``rotate``."""
    f = m_rope_frequencies(sections, order=order, base=base)
    turning = 2 * f.rows
    if x.rows < turning:
        raise ValueError(f"x must have at least {turning} features, got {x.rows}")
    turned = mixed(x[:turning, :], position, frequencies=f, layout=layout)
    return sp.Matrix.vstack(turned, x[turning:, :])
