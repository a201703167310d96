"""RoPE in SymPy: queries and keys rotated by angles proportional to position."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import (
    Layout,
    require_choice,
    require_dimension,
    require_rotary_dim,
)
from posedu.sympy._expressions import expression, expressions
from posedu.sympy.absolute.sinusoidal import stack_pairs
from posedu.sympy.frequencies import frequencies as geometric


def rotation_2d(angle: sp.Expr) -> sp.Matrix:
    """The 2 × 2 matrix of the counter-clockwise rotation of the plane by ``angle``."""
    angle = expression("angle", angle)
    return sp.Matrix([[sp.cos(angle), -sp.sin(angle)], [sp.sin(angle), sp.cos(angle)]])


def layout_matrix(d: int) -> sp.Matrix:
    """The permutation matrix P that changes layouts: x_half = P x_interleaved.

    ``d`` is the number of features.
    """
    d = require_dimension("d", d)
    order = [*range(0, d, 2), *range(1, d, 2)]
    return sp.Matrix(d, d, lambda r, c: int(order[r] == c))


def unstack_pairs(x: sp.Matrix, *, layout: Layout) -> list[tuple[sp.Expr, sp.Expr]]:
    """The list of pairs of features of a column or row ``x`` in the given layout."""
    features, pairs = list(x), require_dimension("d", len(x)) // 2
    if require_choice("layout", layout, Layout) == "interleaved":
        return list(zip(features[0::2], features[1::2], strict=True))
    return list(zip(features[:pairs], features[pairs:], strict=True))


def rotation(
    position: sp.Expr | float, omega: Sequence[sp.Expr], *, layout: Layout
) -> sp.Matrix:
    """RoPE's dense rotation matrix R_i of one position, for frequencies ``omega``.

    The columns are the images of the basis vectors of each pair. Equation
    ``def-rope-dense``.
    """
    d, position = 2 * len(omega), expression("position", position)
    angles = [position * w for w in expressions("omega", omega)]
    blocks = sp.diag(*map(rotation_2d, angles))
    rows = [list(blocks.row(r)) for r in range(d)]
    pairs = list(zip(rows[0::2], rows[1::2], strict=True))
    columns = [
        stack_pairs([(a[c], b[c]) for a, b in pairs], layout=layout) for c in range(d)
    ]
    half_columns = columns if layout == "interleaved" else columns[0::2] + columns[1::2]
    return sp.Matrix.hstack(*half_columns)


def rope(
    x: sp.Matrix,
    position: sp.Expr | float,
    *,
    layout: Layout,
    base: sp.Expr | float = 10000,
    rotary_dim: int | None = None,
    frequencies: Sequence[sp.Expr | float] | None = None,
    attention_factor: sp.Expr | float = 1,
) -> sp.Matrix:
    """Rotate each pair p of one query or key, the column ``x``, by position · ω_p.

    ``frequencies`` take the place of ω_p = base^(−2p/rotary_dim), ``attention_factor``
    multiplies the rotated features. ``rotary_dim`` is the number of rotated features,
    by default all. The result is for the hook ``rotate``, the function by which an
    encoding changes queries and keys. See :func:`posedu.numpy.rotary.rope`.
    """
    if frequencies is not None:
        rotary_dim = _own_rotary_dim(frequencies, rotary_dim)
    r = require_rotary_dim(rotary_dim, x.rows)
    omega = geometric(r, base=base) if frequencies is None else frequencies
    m = expression("attention_factor", attention_factor)
    rotated = m * rotation(position, omega, layout=layout) * x[:r, :]
    return sp.Matrix.vstack(rotated, x[r:, :])


def _own_rotary_dim(frequencies: Sequence, rotary_dim: int | None) -> int:
    """Return the number of features that ``frequencies`` rotate, two for each.

    Raises unless ``rotary_dim`` is this number or ``None``.
    """
    features = 2 * len(frequencies)
    if not features or rotary_dim not in (None, features):
        raise ValueError(
            f"{len(frequencies)} frequencies rotate {features} features, got "
            f"rotary_dim = {rotary_dim}"
        )
    return features
