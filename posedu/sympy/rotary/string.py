"""STRING in SymPy: rotations with commuting generators, Cayley and circulant form."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import STRINGForm, require_choice, require_dimension
from posedu.sympy._expressions import expressions
from posedu.sympy.rotary.generators import skew
from posedu.sympy.rotary.mixed import Position, Rows, mixed_rotation

LAYOUT = "interleaved"


def cayley(entries: Sequence[sp.Expr | float]) -> sp.Matrix:
    """The orthogonal matrix P = (I − S)(I + S)⁻¹ of the skew matrix S of ``entries``.

    ``entries`` are the entries of S above the diagonal, by row. Equation
    ``def-string-cayley``.
    """
    s = skew(entries)
    one = sp.eye(s.rows)
    return (one - s) * (one + s).inv()


def circulant_generators(coefficients: Rows) -> list[sp.Matrix]:
    """Return circulant-STRING's skew generators, one for each coordinate of a position.

    The generator of coordinate k is C_k − C_kᵀ, where C_k is the circulant matrix whose
    first column is row k of ``coefficients``, which are trained.
    """
    generators = []
    for column in expressions("coefficients", coefficients):
        c, d = list(column), len(column)
        circulant = sp.Matrix(d, d, lambda r, s, c=c, d=d: c[(r - s) % d])
        generators.append(circulant - circulant.T)
    return generators


def circulant_frequencies(coefficients: Rows) -> sp.Matrix:
    """Return circulant-STRING's frequencies, a row for each pair; the last row is 0.

    A row has a frequency for each coordinate of a position. ``coefficients`` has the
    first column of each coordinate's circulant matrix.
    """
    c = [list(column) for column in expressions("coefficients", coefficients)]
    d = require_dimension("d", len(c[0]))
    step = 2 * sp.pi / d
    return sp.Matrix(
        d // 2,
        len(c),
        lambda row, k: (
            2 * sum(c[k][n] * sp.sin(step * (row + 1) * n) for n in range(d))
            if row + 1 < d // 2
            else sp.S.Zero
        ),
    )


def fourier_basis(d: int) -> sp.Matrix:
    """The orthonormal Fourier basis of d features, as columns: cosines, sines in turn.

    The last two columns are the constant wave and the wave that changes its sign from
    feature to feature.
    """
    step = 2 * sp.pi / require_dimension("d", d)
    columns = [
        [sp.sqrt(sp.Rational(2, d)) * wave(step * m * n) for n in range(d)]
        for m in range(1, d // 2)
        for wave in (sp.cos, sp.sin)
    ]
    columns += [[sign**n / sp.sqrt(d) for n in range(d)] for sign in (1, -1)]
    return sp.Matrix(columns).T


def string(
    x: sp.Matrix,
    position: Position,
    *,
    form: STRINGForm,
    entries: Sequence[sp.Expr | float] | None = None,
    frequencies: Rows | None = None,
    coefficients: Rows | None = None,
) -> sp.Matrix:
    """Rotate one query or key, the column ``x``, by STRING.

    The form ``"cayley"`` multiplies ``x`` by the orthogonal matrix of ``entries``
    (:func:`cayley`), then rotates each pair p of features by the angle f_p · position,
    where f_p is row p of ``frequencies``. The form ``"circulant"``, with
    ``coefficients``, is computed in :func:`fourier_basis`, where circulant generators
    are diagonal in blocks of two. The result is for the hook ``rotate``, the function
    by which an encoding changes queries and keys. See
    :func:`posedu.numpy.rotary.string`.
    """
    require_choice("form", form, STRINGForm)
    if form == "cayley":
        rotation = mixed_rotation(position, frequencies, layout=LAYOUT)
        return rotation * cayley(entries) * x
    basis = fourier_basis(x.rows)
    omega = circulant_frequencies(coefficients)
    return basis * mixed_rotation(position, omega, layout=LAYOUT) * basis.T * x
