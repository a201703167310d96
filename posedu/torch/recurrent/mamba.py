"""Mamba-2: a state that decays by a step size, which also scales what is written."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posedu._arguments import require_dimension
from posedu.torch.encoding import Tokens
from posedu.torch.gated.log_linear import initial_step_bias, step_sizes
from posedu.torch.recurrent.recurrence import Recurrence, wide


class Mamba2(Recurrence):
    """Mamba-2's state (arXiv 2405.21060): decays and strengths by one step size.

    The step of a token and head is Δ = softplus(w · x + b). The token multiplies the
    state by e^(−e^r Δ) and writes with the strength Δ: the weight of key j for query i
    is q_i · k_j e^D Δ_j, where D is the sum of the log decays of the tokens j + 1 … i,
    and that of the token's own key is larger by the head's ``skip``. There is no
    softmax, and nothing is divided by √d. The paper writes C for q, B for k and x for
    v. The layer's convolution, norm and gate are no part of it. Positions are not used.
    w, b and r start as in :class:`~posedu.torch.recurrent.GatedDeltaNet`, and ``skip``
    at 1. Equation ``def-mamba-2``.

    Parameters
    ----------
    d_model, heads
        Width of the layer's input, query heads.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers.
    """

    needs_x = needs_own_key_last = True
    head_rows = ("gate_weight", "gate_bias", "gate_rate", "skip")

    def __init__(self, d_model: int, heads: int):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.gate_weight = nn.Parameter(torch.randn(heads, d_model) * d_model**-0.5)
        self.gate_bias = nn.Parameter(initial_step_bias(heads))
        self.gate_rate = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        self.skip = nn.Parameter(torch.ones(heads))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads"]]:
        """Return each token's log decay and strength, in float32 or wider."""
        steps = step_sizes(x, self.gate_weight, self.gate_bias)
        rate = self.gate_rate.to(steps.dtype).exp()
        return {"log_decay": -rate * steps, "beta": steps}

    def scale(self, d: int) -> float:
        """Return 1: products of queries and keys are not scaled."""
        return 1.0

    def own(
        self,
        tokens: Tokens,
        q: Float[Tensor, "batch heads queries features"],
        k: Float[Tensor, "batch heads keys features"],
    ) -> Float[Tensor, "batch heads queries"]:
        """Return ``skip``, which a token's own value weighs besides the state."""
        return wide(self.skip)[:, None].expand(q.shape[:3])

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d_model}, {self.heads}"
