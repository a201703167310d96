"""Gated linear attention (GLA): each row of the state decays by its own gate."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_dimension, require_positive
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import wide_dtype
from posedu.torch.recurrent.recurrence import Recurrence


class GLA(Recurrence):
    """Gated linear attention (arXiv 2312.06635): a state whose rows have own gates.

    The gates of a token are α = σ(W₂ W₁ x + b)^(1/τ), one for each head and feature of
    its keys. The weight of key j for query i is Σ_n q_in k_jn Π_l α_ln / √d, the
    product over the tokens l = j + 1 … i, without a softmax. Positions are not used.
    The paper's norm of a head's output and its gate are no part of it. W₁ starts normal
    with deviation 1/√d_model, W₂ with 1/√rank, and b at 0. Equation ``def-gla``.

    Parameters
    ----------
    d_model, heads, d
        Width of the layer's input, query heads, head dimension.
    rank
        Rows of W₁. Default 16 (the paper).
    temperature
        τ. Default 16 (the paper).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, a ``temperature`` not above 0.
    """

    needs_x = True
    head_rows = ("gate_up", "gate_bias")

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        rank: int = 16,
        temperature: float = 16.0,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d, 1)
        self.temperature = require_positive("temperature", temperature)
        require_dimension("rank", rank, 1)
        self.gate_down = nn.Parameter(torch.randn(rank, d_model) * d_model**-0.5)
        self.gate_up = nn.Parameter(torch.randn(heads, d, rank) * rank**-0.5)
        self.gate_bias = nn.Parameter(torch.zeros(heads, d))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads d"]]:
        """Return the logarithm of each token's gates, in float32 or wider."""
        z = low_rank(x, self.gate_down, self.gate_up, self.gate_bias)
        return {"log_decay": functional.logsigmoid(z) / self.temperature}

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, {self.heads}, {self.d}, rank={len(self.gate_down)}, "
            f"temperature={self.temperature:g}"
        )


def low_rank(
    x: Float[Tensor, "batch tokens d_model"],
    down: Float[Tensor, "rank d_model"],
    up: Float[Tensor, "heads d rank"],
    bias: Float[Tensor, "heads d"],
) -> Float[Tensor, "batch tokens heads d"]:
    """Return W₂ W₁ x + b of each token, in float32 or wider."""
    dtype = wide_dtype(x, bias)
    with without_autocast(x):
        inner = x.to(dtype) @ down.to(dtype).mT
        z = inner @ up.to(dtype).flatten(0, 1).mT
        return z.unflatten(-1, bias.shape) + bias.to(dtype)
