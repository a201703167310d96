"""No position at all: attention as it is, sharpened by a factor of each head."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posedu._arguments import require_dimension, require_finite
from posedu.torch._tensors import Positions
from posedu.torch.encoding import Encoding


class NoPE(Encoding):
    """Attention without positions (NoPE, arXiv 2203.16634), for every route.

    Queries are multiplied by the factor, so that a kernel sees nothing new. Equation
    ``def-nope``.

    Parameters
    ----------
    factor
        What logits are multiplied by besides 1/√d: λ √d of arXiv 2404.12224. 1 is
        plain attention, more is sharper, 0 looks at all keys alike. Default 1.
    heads
        Query heads, for a trained factor of each, which starts at ``factor`` (the
        paper's head-based scale; its code starts at 1.6). Nothing holds it above 1:
        where the paper's bound is wanted, clamp it after every step, as its code does.

    Raises
    ------
    TypeError, ValueError
        A ``factor`` that is not finite, ``heads`` no positive integer.
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
        """Multiply the queries; keys stay as they are. Equation ``eq-nope-hook``."""
        factor = self.factor
        if isinstance(factor, Tensor):
            return (q * factor[:, None, None]).to(q.dtype), k
        return (q if factor == 1 else q * factor), k

    def extra_repr(self) -> str:
        """Say the factor, or how many are trained, when the module is printed."""
        return f"factor={self.factor}" if self.heads is None else f"heads={self.heads}"
