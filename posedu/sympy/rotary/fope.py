"""FoPE in SymPy: a Fourier series in place of each pair's single frequency."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import (
    FoPEPadding,
    Layout,
    require_bool,
    require_choice,
    require_dimension,
    require_fourier_dim,
)
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.absolute.sinusoidal import stack_pairs
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.frequencies import frequencies
from posedu.sympy.rotary.mixed import Rows
from posedu.sympy.rotary.rope import unstack_pairs


def kept_frequencies(
    d: int, *, length: int, base: sp.Expr | float = 10000
) -> list[sp.Expr]:
    """RoPE's frequencies of at least 2π/length, which make a full turn in training.

    ``length`` is the training length. Equation ``def-fope-floor``.
    """
    floor = 2 * sp.pi / require_dimension("length", length, 1)
    kept = [w for w in frequencies(d, base=base) if w >= floor]
    if not kept:
        raise ValueError(
            f"length must be at least 7 to keep a frequency above 2π/length, "
            f"got {length}"
        )
    return kept


def fope_table(
    position: sp.Expr | float,
    d: int,
    *,
    cos_coefficients: Rows,
    sin_coefficients: Rows,
    length: int,
    padding: FoPEPadding,
    base: sp.Expr | float = 10000,
    fourier_dim: int | None = None,
    normalize: bool = False,
) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """FoPE's cosine and sine series for every pair of features at one position.

    ``cos_coefficients`` and ``sin_coefficients`` have a row for each frequency of
    :func:`kept_frequencies` and a column for each pair. Pairs without a column have
    cosine 1, and sine 0 if ``padding`` is ``"identity"``, else 1. ``length`` is the
    training length. The frequencies are those of ``fourier_dim`` features (default d);
    with ``normalize`` each column is divided by its sum. Equation ``def-fope``. See
    :func:`posedu.numpy.rotary.fope_table`.
    """
    fourier_dim = require_fourier_dim(fourier_dim, d)
    omega = kept_frequencies(fourier_dim, length=length, base=base)
    require_choice("padding", padding, FoPEPadding)
    sine = sp.S.Zero if padding == "identity" else sp.S.One
    position = expression("position", position)
    series = []
    for wave, coefficients, rest in (
        (sp.cos, cos_coefficients, sp.S.One),
        (sp.sin, sin_coefficients, sine),
    ):
        columns = matrix("coefficients", coefficients)
        if columns.rows != len(omega) or columns.cols > d // 2:
            raise ValueError(
                f"coefficients must be [{len(omega)}, series] with at most {d // 2} "
                f"series, got shape {list(columns.shape)}"
            )
        if require_bool("normalize", normalize):
            columns = columns * sp.diag(*[1 / sum(c) for c in columns.T.tolist()])
        waves = sp.Matrix([[wave(position * w) for w in omega]])
        series.append([*(waves * columns), *[rest] * (d // 2 - columns.cols)])
    return series[0], series[1]


def fope(
    x: sp.Matrix,
    position: sp.Expr | float,
    *,
    cos_coefficients: Rows,
    sin_coefficients: Rows,
    length: int,
    layout: Layout,
    padding: FoPEPadding,
    base: sp.Expr | float = 10000,
    fourier_dim: int | None = None,
    normalize: bool = False,
) -> sp.Matrix:
    """Apply FoPE to one query or key, the column ``x``, as the authors' code does.

    Each pair (a, b) becomes (C a − S b, S a + C b), with the two series C and S of
    :func:`fope_table`, of equal arguments, at the position. Equation ``def-fope``.
    """
    table = fope_table(
        position,
        x.rows,
        cos_coefficients=cos_coefficients,
        sin_coefficients=sin_coefficients,
        length=length,
        padding=padding,
        base=base,
        fourier_dim=fourier_dim,
        normalize=normalize,
    )
    rotated = [
        (c * a - s * b, s * a + c * b)
        for (a, b), c, s in zip(unstack_pairs(x, layout=layout), *table, strict=True)
    ]
    return stack_pairs(rotated, layout=layout)


def fope_offset(
    *,
    cos_coefficients: Rows | Sequence[Rows],
    sin_coefficients: Rows | Sequence[Rows],
    length: int,
    layout: Layout,
    padding: FoPEPadding,
    base: sp.Expr | float = 10000,
    fourier_dim: int | None = None,
    normalize: bool = False,
) -> Hooks:
    """Return the hooks of FoPE as the paper writes it.

    Hooks are the functions by which an encoding acts on attention. The logits use the
    series of each offset; the arguments are those of :func:`fope_table`. Coefficients
    are one matrix for all heads or one for each; if there are more query heads,
    neighboring heads share a matrix. Equation ``def-fope-offset``. See
    :func:`posedu.numpy.rotary.fope_offset`.
    """

    def logits(tokens: Tokens) -> Heads:
        return tuple(_of_head(tokens, h) for h in range(len(tokens.q)))

    def _of_head(tokens: Tokens, h: int) -> sp.Matrix:
        q, k, at, heads = tokens.q[h], tokens.k[h], tokens.positions, len(tokens.q)

        def entry(i, j):
            cos, sin = fope_table(
                at[i] - at[j],
                q.cols,
                cos_coefficients=_own(cos_coefficients, h, heads),
                sin_coefficients=_own(sin_coefficients, h, heads),
                length=length,
                padding=padding,
                base=base,
                fourier_dim=fourier_dim,
                normalize=normalize,
            )
            members = zip(
                unstack_pairs(q[i, :], layout=layout),
                unstack_pairs(k[j, :], layout=layout),
                cos,
                sin,
                strict=True,
            )
            terms = (
                c * (a * e + b * f) - s * (b * e - a * f)
                for (a, b), (e, f), c, s in members
            )
            return sum(terms) / sp.sqrt(tokens.d)

        return tokens.pairs(entry)

    return Hooks(logits=logits)


def _own(coefficients: Rows | Sequence[Rows], head: int, heads: int) -> Rows:
    """Return one head's coefficients, or ``coefficients`` if all heads share them.

    ``head`` is the number of the query head, ``heads`` the number of query heads;
    neighboring heads may share a matrix.
    """
    if sp.Array(expressions("coefficients", coefficients)).rank() == 2:
        return coefficients
    return coefficients[head * len(coefficients) // heads]
