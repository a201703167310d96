"""T5's relative bias in SymPy: a number for each bucket of distances and each head."""

import sympy as sp

from posedu._arguments import T5Scale, require_buckets, require_choice
from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens


def t5_bucket(
    offset: sp.Expr, *, bidirectional: bool, buckets: int = 32, distance: int = 128
) -> int:
    """T5's bucket of an offset i − j that has a numerical value.

    If ``bidirectional``, half of the ``buckets`` are for later keys. From ``distance``
    on, distances share the last bucket. Equation ``def-t5-bucket``. See
    :func:`posedu.numpy.bias.t5_buckets`.
    """
    e, scaled = require_buckets(buckets, distance, bidirectional)
    offset = expression("offset", offset)
    n = int(sp.floor(sp.Abs(offset) if bidirectional else sp.Max(offset, 0)))
    if n >= e:
        size, step = sp.Rational(n, e) ** scaled, sp.Rational(distance, e)
        n = e + sum(bool(size >= step**t) for t in range(1, scaled))
    return n + e + scaled if bidirectional and offset < 0 else n


def t5(
    *,
    table: sp.Matrix,
    bidirectional: bool,
    distance: int = 128,
    scale: T5Scale = "one",
) -> Hooks:
    """Return the hooks of T5's bias, the functions by which it acts on attention.

    The bias is the number in ``table``, ``[heads, buckets]``, for the head and for
    :func:`t5_bucket` of the offset, with ``bidirectional`` and ``distance`` as there.
    Products q · k are multiplied by 1, or by 1/√d for ``scale="root"``. Equation
    ``def-t5``. See :func:`posedu.numpy.bias.t5`.
    """
    table = matrix("table", table)
    require_choice("scale", scale, T5Scale)
    options = dict(bidirectional=bidirectional, buckets=table.cols, distance=distance)

    def bias(tokens: Tokens) -> Heads:
        bucket = tokens.of_offsets(lambda offset: t5_bucket(offset, **options))
        return tuple(
            bucket.applyfunc(lambda b, h=h: table[h, b]) for h in range(table.rows)
        )

    return Hooks(
        scale=lambda d: sp.S.One if scale == "one" else 1 / sp.sqrt(d), bias=bias
    )
