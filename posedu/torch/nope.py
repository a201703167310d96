"""NoPE: attention without positions, with an optional temperature for each head."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posedu._arguments import require_dimension, require_finite
from posedu.torch._tensors import Positions
from posedu.torch.encoding import Encoding


class NoPE(Encoding):
    """Attention without positions (NoPE, arXiv 2203.16634).

    ``temperature`` multiplies the queries, so that every route (code path that computes
    attention) can serve the encoding. Equation ``def-nope``.

    Parameters
    ----------
    temperature
        τ, an inverse temperature, by which logits are multiplied besides 1/√d: λ √d of
        arXiv 2404.12224. 1 is plain attention; a larger one makes weights sharper; 0
        makes all weights equal. Default 1.
    heads
        Query heads, for one trained temperature each, which starts at ``temperature``
        (the paper's head-based scale; its code starts at 1.6). A temperature may fall
        below 1: for the paper's bound, clamp it after every step, as its code does.

    Raises
    ------
    TypeError, ValueError
        A ``temperature`` that is not finite; ``heads`` that is no positive integer.
    """

    temperature: float | Float[Tensor, "heads"]
    needs_positions = False
    head_rows = ("temperature",)

    def __init__(self, temperature: float = 1.0, *, heads: int | None = None):
        super().__init__()
        start = require_finite("temperature", temperature)
        if heads is None:
            self.temperature = start
        else:
            self.heads = require_dimension("heads", heads, 1)
            dtype = torch.get_default_dtype()
            if abs(start) > torch.finfo(dtype).max:
                raise ValueError(f"temperature must be finite in {dtype}, got {start}")
            self.temperature = nn.Parameter(torch.full((self.heads,), start))

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"],
        Float[Tensor, "batch kv_heads tokens d"],
    ]:
        """Multiply the queries by ``temperature``. Equation ``eq-nope-hook``."""
        temperature = self.temperature
        if isinstance(temperature, Tensor):
            return (q * temperature[:, None, None]).to(q.dtype), k
        return (q if temperature == 1 else q * temperature), k

    def extra_repr(self) -> str:
        """Return the text in the parentheses of ``print(module)``."""
        if self.heads is None:
            return f"temperature={self.temperature}"
        return f"heads={self.heads}"
