"""Lightning attention (MiniMax): ALiBi's slopes as decays that fade with the depth."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import require_count, require_dimension
from posedu.torch.encoding import Tokens
from posedu.torch.recurrent.recurrence import Recurrence

_EPS = 1e-5  # the published code's, which keeps the last layer's decays above 0


class LightningAttention(Recurrence):
    """MiniMax's lightning attention (arXiv 2501.08313): a state with fixed decays.

    Each token multiplies the state by e^(−s), s = 2^(−8 (h + 1)/H) f for head h of H,
    f = 1 − l/(L − 1 + ε) + ε in layer l of L, and ε = 1e−5: the weight of key j for
    query i is q_i · k_j e^(−s (i − j)), without a softmax and without a division by √d.
    Positions are not used: i − j counts tokens. The model's SiLU of queries, keys and
    values, its norm and its gate are no part of it. No parameters. Equation
    ``def-lightning``.

    Parameters
    ----------
    heads
        Query heads.
    layer, layers
        Number of the layer, counted from 0, and how many there are.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, a ``layer`` that does not exist.
    """

    heads: int

    def __init__(self, heads: int, *, layer: int, layers: int):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.layers = require_dimension("layers", layers, 1)
        self.layer = require_count("layer", layer)
        if layer >= layers:
            raise ValueError(
                f"layer must be in 0 … layers − 1 = {layers - 1}, got {layer}"
            )

    def slopes(self, device: Device = None) -> Float[Tensor, "heads"]:
        """Return s of each head, in float64. Equation ``def-lightning``."""
        heads = self.layer_heads
        h = torch.arange(1, heads + 1, dtype=torch.float64, device=device)
        fading = 1 - self.layer / (self.layers - 1 + _EPS) + _EPS
        return self.own_heads(torch.exp2(-8 * h / heads)) * fading

    def scale(self, d: int) -> float:
        """Return 1: products of queries and keys are not scaled."""
        return 1.0

    def decays(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch keys heads *features"], Float[Tensor, "batch keys heads"]
    ]:
        """Return −s of each token and head, and ones."""
        _, ones = super().decays(tokens)
        return -self.slopes(ones.device) * ones, ones

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.heads}, layer={self.layer}, layers={self.layers}"
