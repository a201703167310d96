"""T5's relative bias: a trained number for each bucket of distances and each head."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from posedu._arguments import (
    T5Scale,
    require_buckets,
    require_choice,
    require_dimension,
)
from posedu.torch._tensors import require_position_dtype, require_shape
from posedu.torch.bias.distance import ByDistance


def t5_buckets(
    offsets: Shaped[Tensor, "*shape"],
    *,
    bidirectional: bool,
    buckets: int = 32,
    distance: int = 128,
) -> Int[Tensor, "*shape"]:
    """Return the bucket number of each offset i − j. Equation ``def-t5-bucket``.

    See :func:`posedu.numpy.bias.t5_buckets`, which explains the arguments.
    """
    single, scaled = require_buckets(buckets, distance, bidirectional)
    require_position_dtype("offsets", offsets)
    offsets = offsets.to(torch.float64)
    steps = offsets.abs() if bidirectional else offsets.clamp(min=0)
    starts = _starts(single, scaled, int(distance), offsets.device)
    bucket = torch.bucketize(steps.contiguous(), starts, right=True) - 1
    return bucket + len(starts) * (offsets < 0) if bidirectional else bucket


def _starts(
    single: int, scaled: int, distance: int, device: torch.device
) -> Float[Tensor, "buckets"]:
    """Return the smallest distance in each bucket of one side, made on the device.

    The t-th of s = ``scaled`` buckets of the logarithmic scale starts at the first
    n ≥ e (distance/e)^(t/s), where e is ``single``. Near an integer n rounding may have
    moved the root across it; there n^s ≥ e^(s−t) distance^t decides.
    """
    all_t = torch.arange(scaled, dtype=torch.float64, device=device)
    starts = (single * (distance / single) ** (all_t / scaled)).ceil()
    for t in range(scaled):
        root = single * (distance / single) ** (t / scaled)
        n = round(root)
        if abs(root - n) < 1e-3:  # roots up to 2³¹ are off by less
            starts[t] = n + (n**scaled < single ** (scaled - t) * distance**t)
    return torch.cat([torch.arange(single, device=device), starts])


class T5(ByDistance):
    """T5's relative bias (arXiv 1910.10683 §2.1), which is not divided by √d.

    In T5 one module serves every layer of a stack. Equation ``def-t5``.

    Parameters
    ----------
    heads
        Query heads.
    bidirectional
        Whether later keys have buckets of their own: true in T5's encoder, false in its
        decoder.
    buckets
        Number of buckets. Default 32 (T5).
    distance
        T5's ``max_distance``: all distances from here on share the last bucket, and so
        do some smaller ones (with 32 buckets in a decoder those from 113 on). Default
        128 (T5).
    table
        Initial table of the trained numbers, ``[heads, buckets]``. Default: zeros. (T5
        draws them normal of deviation d_model^(−1/2).)
    scale
        Factor of the products q · k. ``"one"``: 1 (T5, default, which has √d in its
        initial weights instead). ``"root"``: 1/√d (MPNet; x-transformers and GPT-NeoX,
        which add √d times the table: multiply a table of theirs by it).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, fewer than two buckets on a side, an odd
        number of them for two sides, a ``distance`` that has a bucket of its own, a
        ``table`` of another shape; unknown ``scale``.
    """

    head_rows = ("table",)

    def __init__(
        self,
        heads: int,
        *,
        bidirectional: bool,
        buckets: int = 32,
        distance: int = 128,
        table: Float[Tensor, "heads buckets"] | None = None,
        scale: T5Scale = "one",
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.bidirectional = bidirectional
        require_buckets(buckets, distance, bidirectional)
        self.buckets, self.distance = buckets, distance
        table = torch.zeros(heads, buckets) if table is None else table
        require_shape("table", table, (heads, buckets))
        self.table = nn.Parameter(table.detach().clone())
        self.scaling = require_choice("scale", scale, T5Scale)

    def scale(self, d: int) -> float:
        """Return the factor of the products q · k: 1, or 1/√d for ``scale="root"``."""
        return 1.0 if self.scaling == "one" else super().scale(d)

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """Return the bias of each offset: the trained number of its bucket.

        An offset is query position minus key position.
        """
        bucket = t5_buckets(
            offsets,
            bidirectional=self.bidirectional,
            buckets=self.buckets,
            distance=self.distance,
        )
        return self.table[:, bucket]

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.heads}, bidirectional={self.bidirectional}, "
            f"buckets={self.buckets}, distance={self.distance}, scale={self.scaling!r}"
        )
