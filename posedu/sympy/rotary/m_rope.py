"""M-RoPE in SymPy: RoPE whose pairs are divided among several coordinates."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import Layout, SectionOrder, require_sections
from posedu.sympy.frequencies import frequencies
from posedu.sympy.rotary.mixed import Position, mixed


def m_rope_frequencies(
    sections: Sequence[int], *, order: SectionOrder, base: sp.Expr | float = 10000
) -> sp.Matrix:
    """M-RoPE's frequency vectors: row p has ω_p on the axis of pair p, else 0.

    ``sections`` are the numbers of pairs of each axis, ``order`` says which pairs these
    are. Equation ``def-m-rope``. See :func:`posedu.numpy.rotary.m_rope_frequencies`.
    """
    sections = require_sections(sections, order)
    axes = range(len(sections))
    if order == "sectioned":
        axis_of_pair = [axis for axis in axes for _ in range(sections[axis])]
    elif order == "alternating":
        others = [
            axis for _ in range(max(sections[1:], default=0)) for axis in axes[1:]
        ]
        axis_of_pair = others + [0] * sections[0]
    else:
        left, axis_of_pair = list(sections), []
        for p in range(sum(sections)):
            axis = p % len(sections) if left[p % len(sections)] else 0
            axis_of_pair.append(axis)
            left[axis] -= 1 if axis else 0
    omega = frequencies(2 * len(axis_of_pair), base=base)
    pairs = zip(axis_of_pair, omega, strict=True)
    return sp.Matrix([[w if axis == own else 0 for axis in axes] for own, w in pairs])


def m_rope(
    x: sp.Matrix,
    position: Position,
    *,
    sections: Sequence[int],
    order: SectionOrder,
    layout: Layout,
    base: sp.Expr | float = 10000,
) -> sp.Matrix:
    """Rotate one query or key, the column ``x``, by M-RoPE.

    The result is for the hook ``rotate``, the function by which an encoding changes
    queries and keys. ``sections`` are the numbers of pairs of each axis, ``order`` says
    which pairs these are.
    """
    f = m_rope_frequencies(sections, order=order, base=base)
    width = 2 * f.rows
    if x.rows < width:
        raise ValueError(f"x must have at least {width} features, got {x.rows}")
    rotated = mixed(x[:width, :], position, frequencies=f, layout=layout)
    return sp.Matrix.vstack(rotated, x[width:, :])
