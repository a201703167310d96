"""T5's relative bias over symbols."""

from bisect import bisect_right

import sympy as sp

from posedu._buckets import bucket_starts
from posedu.sympy.attention import Doors, Heads, Tokens


def t5_bucket(
    offset: sp.Expr, *, bidirectional: bool, buckets: int = 32, distance: int = 128
) -> int:
    """The bucket of an offset i − j that has a value. Equation ``def-t5-bucket``."""
    one_side = buckets // 2 if bidirectional else buckets
    steps = sp.Abs(offset) if bidirectional else sp.Max(offset, 0)
    bucket = bisect_right(bucket_starts(one_side, distance), steps) - 1
    return bucket + one_side if bidirectional and offset < 0 else bucket


def t5(*, table: sp.Matrix, bidirectional: bool, distance: int = 128) -> Doors:
    """T5's bias as doors; ``table`` is ``[heads, buckets]``. Equation ``def-t5``."""
    table = sp.Matrix(table)
    options = dict(bidirectional=bidirectional, buckets=table.cols, distance=distance)

    def bias(tokens: Tokens) -> Heads:
        return tuple(
            tokens.of_offsets(
                lambda offset, h=h: table[h, t5_bucket(offset, **options)]
            )
            for h in range(table.rows)
        )

    return Doors(scale=lambda d: sp.S.One, bias=bias)
