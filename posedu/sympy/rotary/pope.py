"""PoPE in SymPy: polar coordinates, lengths from content and angles from position."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks
from posedu.sympy.frequencies import frequencies
from posedu.sympy.stickbreaking import softplus


def pope(*, delta: sp.Matrix, base: sp.Expr | float = 10000) -> Hooks:
    """Return the hooks of PoPE, the functions by which it acts on attention.

    PoPE is polar coordinate position embedding. Each feature of a query or key becomes
    a vector in the plane, whose length is the feature's softplus and whose angle is set
    by the position. ``delta`` are trained shifts of the queries' angles. Equation
    ``def-pope``. See :func:`posedu.numpy.rotary.pope`.
    """
    delta = matrix("delta", delta)
    omega = frequencies(2 * delta.cols, base=expression("base", base))
    phase = delta.applyfunc(lambda d: sp.Min(0, sp.Max(-2 * sp.pi, d)))

    def rotated(own: sp.Matrix, positions: Sequence, phases: sp.Matrix) -> sp.Matrix:
        angles = sp.Matrix([[w * at for w in omega] for at in positions])
        for i in range(angles.rows):
            angles[i, :] -= phases
        lengths = own.applyfunc(softplus)
        return sp.Matrix.hstack(
            *(
                lengths.multiply_elementwise(angles.applyfunc(f))
                for f in (sp.cos, sp.sin)
            )
        )

    def rotate(q: Heads, k: Heads, positions: Sequence[sp.Expr]) -> tuple[Heads, Heads]:
        none = sp.zeros(1, delta.cols)
        return (
            tuple(rotated(own, positions, phase[h, :]) for h, own in enumerate(q)),
            tuple(rotated(own, positions, none) for own in k),
        )

    return Hooks(rotate=rotate, heads=delta.rows)
