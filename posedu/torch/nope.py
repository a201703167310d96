"""NoPE: attention without positions, with an optional factor for each head."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posedu._arguments import require_dimension, require_finite
from posedu.torch._tensors import Positions
from posedu.torch.encoding import Encoding


class NoPE(Encoding):
    """Attention without positions (NoPE, arXiv 2203.16634).

    ``factor`` multiplies the queries, so that every route (code path that computes
    attention) can serve the encoding. Equation ``def-nope``.

    Parameters
    ----------
    factor
        Factor of the logits besides 1/√d: λ √d of arXiv 2404.12224. 1 is plain
        attention; a larger factor makes weights sharper; 0 makes all weights equal.
        Default 1.
    heads
        Query heads, for one trained factor each, which starts at ``factor`` (the
        paper's head-based scale; its code starts at 1.6). The factor may fall below 1:
        for the paper's bound, clamp it after every step, as its code does.

    Raises
    ------
    TypeError, ValueError
        A ``factor`` that is not finite; ``heads`` that is no positive integer.
    """

    factor: float | Float[Tensor, "heads"]
    needs_positions = False

    def __init__(self, factor: float = 1.0, *, heads: int | None = None):
        super().__init__()
        start = require_finite("factor", factor)
        if heads is None:
            self.factor = start
        else:
            self.heads = require_dimension("heads", heads, 1)
            dtype = torch.get_default_dtype()
            if abs(start) > torch.finfo(dtype).max:
                raise ValueError(f"factor must be finite in {dtype}, got {start}")
            self.factor = nn.Parameter(torch.full((self.heads,), start))

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"],
        Float[Tensor, "batch kv_heads tokens d"],
    ]:
        """Multiply the queries by ``factor``. Equation ``eq-nope-hook``."""
        factor = self.factor
        if isinstance(factor, Tensor):
            return (q * factor[:, None, None]).to(q.dtype), k
        return (q if factor == 1 else q * factor), k

    def extra_repr(self) -> str:
        """Return ``factor`` or ``heads`` as text, which ``print(module)`` shows."""
        return f"factor={self.factor}" if self.heads is None else f"heads={self.heads}"
