"""CARoPE: rotations by the powers of one frequency a head, which each token sets."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import Layout, require_index
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import wide_dtype
from posedu.torch.encoding import Tokens
from posedu.torch.path.rotation import PathRotation


class CARoPE(PathRotation):
    """CARoPE (arXiv 2507.23083): RoPE whose frequencies each token sets, head by head.

    Pair p of a head is rotated by the sum of f^(p + first exponent) over the tokens up
    to the token's own, with f = 1/(softplus(w · x) + 1) between 0 and 1. x is the
    layer's input; the paper's is the token embedding. w starts normal with deviation
    0.02. Equation ``def-carope``.

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    d
        Head dimension, even.
    layout
        ``"interleaved"`` or ``"half"``.
    first_exponent
        Exponent of pair 0, which rotates by one radian a token for 0, and by f for 1.
        The paper leaves it open.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``d`` odd, an unknown ``layout``, a
        ``first_exponent`` other than 0 and 1.
    """

    head_rows = ("frequency_weight",)

    def __init__(
        self, d_model: int, heads: int, d: int, *, layout: Layout, first_exponent: int
    ):
        super().__init__(d_model, heads, d, layout=layout)
        self.first_exponent = require_index("first_exponent", first_exponent)
        self.frequency_weight = nn.Parameter(0.02 * torch.randn(heads, d_model))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads"]]:
        """Return the logarithm of each token's frequencies, in float32 or wider."""
        weight = self.frequency_weight
        wide = wide_dtype(x, weight)
        with without_autocast(x):
            logits = x.to(wide) @ weight.to(wide).mT
        return {"log_frequencies": -functional.softplus(logits).log1p()}

    def angles(self, tokens: Tokens) -> Float[Tensor, "batch heads keys pairs"]:
        """Return the rotation angles: sums of the powers of the frequencies."""
        log_f = tokens.memory["log_frequencies"].to(torch.float64)
        exponents = self.first_exponent + torch.arange(self.d // 2, device=log_f.device)
        amounts = (log_f[..., None] * exponents).exp()
        return tokens.running_sum(amounts).mT

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{super().extra_repr()}, first_exponent={self.first_exponent}"
