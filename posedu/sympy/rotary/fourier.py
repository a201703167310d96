"""FoPE over symbols."""

import sympy as sp

from posedu._arguments import PADDINGS, require_choice, require_dimension
from posedu.sympy.absolute import frequencies, stack_pairs
from posedu.sympy.rotary.axes import Rows


def kept_frequencies(
    d: int, *, length: int, base: sp.Expr | float = 10000
) -> list[sp.Expr]:
    """RoPE's frequencies from the floor 2π/length on. Equation ``def-fope-floor``."""
    floor = 2 * sp.pi / require_dimension("length", length, 1)
    return [w for w in frequencies(d, base=base) if w >= floor]


def fope(
    x: sp.Matrix,
    position: sp.Expr | float,
    *,
    cos_coefficients: Rows,
    sin_coefficients: Rows,
    length: int,
    layout: str,
    padding: str,
    base: sp.Expr | float = 10000,
) -> sp.Matrix:
    """The column ``x`` under the series of its position. Equation ``def-fope``."""
    omega = kept_frequencies(x.rows, length=length, base=base)
    angles = [position * w for w in omega]
    c = sp.Matrix([[sp.cos(a) for a in angles]]) * sp.Matrix(cos_coefficients)
    s = sp.Matrix([[sp.sin(a) for a in angles]]) * sp.Matrix(sin_coefficients)
    missing = x.rows // 2 - c.cols
    sine = 0 if require_choice("padding", padding, PADDINGS) == "identity" else 1
    series = list(zip([*c, *[1] * missing], [*s, *[sine] * missing], strict=True))
    if layout == "interleaved":
        members = list(zip(x[0::2], x[1::2], strict=True))
    else:
        members = list(zip(x[: x.rows // 2], x[x.rows // 2 :], strict=True))
    turned = [
        (c * a - s * b, s * a + c * b)
        for (a, b), (c, s) in zip(members, series, strict=True)
    ]
    return stack_pairs(turned, layout=layout)
