"""PoPE over symbols."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Doors, Heads
from posedu.sympy.frequencies import frequencies
from posedu.sympy.stickbreaking import softplus


def polar(x: sp.Matrix, angles: Sequence[sp.Expr]) -> sp.Matrix:
    """A row of contents as lengths at these angles, cosines and then sines."""
    lengths = [softplus(entry) for entry in x]
    pairs = list(zip(lengths, angles, strict=True))
    return sp.Matrix([[r * f(a) for f in (sp.cos, sp.sin) for r, a in pairs]])


def pope(*, delta: sp.Matrix, base: sp.Expr | float = 10000) -> Doors:
    """PoPE as doors; see :func:`posedu.numpy.rotary.pope`. Equation ``def-pope``."""
    delta = matrix("delta", delta)
    omega = frequencies(2 * delta.cols, base=expression("base", base))

    def rows(heads: Heads, positions: Sequence[sp.Expr], phases: sp.Matrix) -> Heads:
        def row(h: int, i: int) -> sp.Matrix:
            angles = sp.Matrix([[w * positions[i] for w in omega]]) + phases[h, :]
            return polar(heads[h][i, :], list(angles))

        tokens = range(len(positions))
        return tuple(
            sp.Matrix.vstack(*(row(h, i) for i in tokens)) for h in range(len(heads))
        )

    def rotate(q: Heads, k: Heads, positions: Sequence[sp.Expr]) -> tuple[Heads, Heads]:
        phase = delta.applyfunc(lambda d: sp.Min(0, sp.Max(-2 * sp.pi, d)))
        none = sp.zeros(len(q), delta.cols)
        return rows(q, positions, none), rows(k, positions, phase)

    return Doors(rotate=rotate)
