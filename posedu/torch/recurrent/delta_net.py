"""DeltaNet, Gated DeltaNet and KDA: a token corrects what the state has for its key."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_bool, require_dimension, require_negative
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import wide_dtype
from posedu.torch.encoding import Tokens
from posedu.torch.gated.log_linear import initial_step_bias, step_sizes
from posedu.torch.recurrent.gla import low_rank
from posedu.torch.recurrent.recurrence import Recurrence, wide

_EPS = 1e-6  # of the lengths of queries and keys, as in the published code


class DeltaNet(Recurrence):
    """DeltaNet (arXiv 2102.11174, 2406.06484): the delta rule without a decay.

    With unit vectors q and k, a token writes β (v − Sᵀ k) for its key, the part of its
    value that the state does not have yet: the transition is I − β k kᵀ, and the
    weight of key j for query i is q_i · T_i ⋯ T_(j+1) k_j β_j / √d. Positions are not
    used. The layer's convolutions, SiLU and norm are no part of it. u starts normal
    with deviation 1/√d_model. Equation ``def-delta-net``.

    Parameters
    ----------
    d_model, heads
        Width of the layer's input, query heads.
    negative_eigenvalues
        Whether β is 2 σ(u · x) and not σ(u · x), so that the eigenvalue 1 − β of a
        transition may be negative (arXiv 2411.12537). Default false.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers.
    """

    needs_x = True
    delta = True
    heads: int
    d_model: int
    head_rows: tuple[str, ...] = ("beta_weight",)

    def __init__(self, d_model: int, heads: int, *, negative_eigenvalues: bool = False):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.negative_eigenvalues = require_bool(
            "negative_eigenvalues", negative_eigenvalues
        )
        self.beta_weight = nn.Parameter(torch.randn(heads, d_model) * d_model**-0.5)

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens ..."]]:
        """Return β of each token and head, in float32 or wider."""
        dtype = wide_dtype(x, self.beta_weight)
        with without_autocast(x):
            logits = x.to(dtype) @ self.beta_weight.to(dtype).mT
        return {"beta": (2.0 if self.negative_eigenvalues else 1.0) * logits.sigmoid()}

    def features(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch heads queries d"], Float[Tensor, "batch heads keys d"]
    ]:
        """Return queries and keys of length 1, the queries times the scale."""
        q, k = (unit(wide(t)) for t in (tokens.q, tokens.k))
        return q * self.scale(tokens.d), k

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, {self.heads}, "
            f"negative_eigenvalues={self.negative_eigenvalues}"
        )


class GatedDeltaNet(DeltaNet):
    """Gated DeltaNet (arXiv 2412.06464): the delta rule after a decay of each head.

    Like :class:`DeltaNet`, but the state first decays by the gate of the token and
    head, with log α = −e^r softplus(w · x + b): the transition is (I − β k kᵀ) α. The
    layer's convolutions, SiLU, norm and gate are no part of it. At the start w is
    normal with deviation 1/√d_model, softplus(b) log-uniform from 0.001 to 0.1 and e^r
    uniform from 1 to 16. Equation ``def-gated-delta-net``.

    Parameters
    ----------
    d_model, heads, negative_eigenvalues
        As :class:`DeltaNet`.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers.
    """

    head_rows: tuple[str, ...] = (
        "beta_weight",
        "gate_weight",
        "gate_bias",
        "gate_rate",
    )

    def __init__(self, d_model: int, heads: int, *, negative_eigenvalues: bool = False):
        super().__init__(d_model, heads, negative_eigenvalues=negative_eigenvalues)
        self.gate_weight = nn.Parameter(torch.randn(heads, d_model) * d_model**-0.5)
        self.gate_bias = nn.Parameter(initial_step_bias(heads))
        self.gate_rate = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens ..."]]:
        """Return β and the log gate of each token and head, in float32 or wider."""
        steps = step_sizes(x, self.gate_weight, self.gate_bias)
        log_decay = -self.gate_rate.to(steps.dtype).exp() * steps
        return {**super().remember(x), "log_decay": log_decay}


class KDA(DeltaNet):
    """Kimi Delta Attention (arXiv 2510.26692): the delta rule after decays of features.

    Like :class:`GatedDeltaNet`, but each feature n of a head's keys has its own gate:
    the transition is (I − β k kᵀ) diag(α), with log α_n = −e^r softplus(z_n) for
    z = W₂ W₁ x + b. The layer's convolutions, SiLU, norm and gate are no part of it.
    W₁ starts normal with deviation 1/√d_model and W₂ with 1/√rank; b and r start as in
    :class:`GatedDeltaNet`, but r at 0 with ``lowest``. Equation ``def-kda``.

    Parameters
    ----------
    d_model, heads, d
        Width of the layer's input, query heads, head dimension.
    rank
        Rows of W₁. Default ``d`` (the authors' code).
    lowest
        A bound on the log gates: log α_n is this number times σ(e^r z_n) instead.
        Default ``None``, none; published models with a bound have −5.
    negative_eigenvalues
        As :class:`DeltaNet`.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``lowest`` not below 0.
    """

    d: int
    head_rows: tuple[str, ...] = ("beta_weight", "gate_up", "gate_bias", "gate_rate")

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        rank: int | None = None,
        lowest: float | None = None,
        negative_eigenvalues: bool = False,
    ):
        super().__init__(d_model, heads, negative_eigenvalues=negative_eigenvalues)
        self.d = require_dimension("d", d, 1)
        self.lowest = None if lowest is None else require_negative("lowest", lowest)
        rank = self.d if rank is None else require_dimension("rank", rank, 1)
        self.gate_down = nn.Parameter(torch.randn(rank, d_model) * d_model**-0.5)
        self.gate_up = nn.Parameter(torch.randn(heads, d, rank) * rank**-0.5)
        self.gate_bias = nn.Parameter(initial_step_bias(heads, d))
        rates = torch.empty(heads).uniform_(1, 16).log()
        if self.lowest is not None:  # σ(e^r b) would be 0 for a large e^r
            rates.zero_()
        self.gate_rate = nn.Parameter(rates)

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens ..."]]:
        """Return β and the log gates of each token, in float32 or wider."""
        z = low_rank(x, self.gate_down, self.gate_up, self.gate_bias)
        rate = self.gate_rate.to(z.dtype).exp()[:, None]
        if self.lowest is None:
            log_decay = rate * functional.logsigmoid(-z)  # −softplus(z)
        else:
            log_decay = self.lowest * (rate * z).sigmoid()
        return {**super().remember(x), "log_decay": log_decay}

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, {self.heads}, {self.d}, rank={len(self.gate_down)}, "
            f"lowest={self.lowest}, negative_eigenvalues={self.negative_eigenvalues}"
        )


def unit(x: Float[Tensor, "*vectors d"]) -> Float[Tensor, "*vectors d"]:
    """Return vectors divided by √(x · x + ε): of length 1, unless they are tiny."""
    return x * (x.square().sum(-1, keepdim=True) + _EPS).rsqrt()
