"""DeltaProduct: several corrections of the state by each token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posedu._arguments import require_bool, require_dimension
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import wide_dtype
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.gated.log_linear import initial_step_bias, step_sizes
from posedu.torch.heads import HeadRange
from posedu.torch.recurrent.delta_net import unit
from posedu.torch.recurrent.forms import Writes
from posedu.torch.recurrent.recurrence import Recurrence, in_order, wide


class DeltaProduct(Recurrence):
    """DeltaProduct (arXiv 2502.10297): a token corrects the state for several keys.

    A token takes ``steps`` steps of the delta rule, each with a key, a value and a
    strength β. The last step has the attention layer's key and value; those of the
    earlier ones are W_m x and V_m x. The transition of a token is the product
    (I − β_n k_n k_nᵀ) ⋯ (I − β_1 k_1 k_1ᵀ) α, with queries and keys of length 1 and
    α = 1, or with ``gated`` the gate of :class:`GatedDeltaNet`. Positions are not used.
    The layer's convolutions, SiLU and norm are no part of it. All weights of x start
    normal with deviation 1/√d_model, and b and r of the gate as there. Equation
    ``def-delta-product``.

    Parameters
    ----------
    d_model, heads, d
        Width of the layer's input, query heads, head dimension.
    steps
        Steps of a token. Default 2 (flash-linear-attention).
    d_v
        Features of a head's values. Default ``d``.
    gated
        Whether the state decays before a token's first step. Default false.
    negative_eigenvalues
        Whether each β is 2 σ(u · x) and not σ(u · x). Default true (the paper).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers.
    """

    needs_x = True
    delta = True
    head_rows = ("gate_weight", "gate_bias", "gate_rate")

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        steps: int = 2,
        d_v: int | None = None,
        gated: bool = False,
        negative_eigenvalues: bool = True,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d, 1)
        self.steps = require_dimension("steps", steps, 1)
        self.d_v = d if d_v is None else require_dimension("d_v", d_v, 1)
        self.gated = require_bool("gated", gated)
        self.negative_eigenvalues = require_bool(
            "negative_eigenvalues", negative_eigenvalues
        )

        def projection(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, d_model) * d_model**-0.5)

        self.beta_weight = projection(steps, heads)
        self.early_key = projection(steps - 1, heads * d)
        self.early_value = projection(steps - 1, heads * self.d_v)
        if gated:
            self.gate_weight = projection(heads)
            self.gate_bias = nn.Parameter(initial_step_bias(heads))
            self.gate_rate = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())

    def of_heads(self, heads: HeadRange) -> Encoding:
        """Return the encoding of some of a layer's heads; it uses these parameters."""
        own = super().of_heads(heads)
        for name in ("beta_weight", "early_key", "early_value"):  # first axis: steps
            rows = heads.rows(getattr(own, name), 1)
            own._parameters[name] = cast(nn.Parameter, rows)
        return own

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads ..."]]:
        """Return what each token writes in its steps, and its log gates."""
        dtype = wide_dtype(x, self.beta_weight)
        largest = 2.0 if self.negative_eigenvalues else 1.0
        with without_autocast(x):
            betas, keys, values = (
                torch.einsum("btc,snc->btns", x.to(dtype), weight.to(dtype))
                for weight in (self.beta_weight, self.early_key, self.early_value)
            )
        keys, values = (
            t.unflatten(2, (self.heads, -1)).transpose(3, 4) for t in (keys, values)
        )
        memory = {
            "betas": largest * betas.sigmoid(),
            "keys": unit(keys),
            "values": values,
        }
        if self.gated:
            step = step_sizes(x, self.gate_weight, self.gate_bias)
            memory["log_decay"] = -self.gate_rate.to(step.dtype).exp() * step
        return memory

    def features(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch heads queries d"], Float[Tensor, "batch heads keys d"]
    ]:
        """Return queries and keys of length 1, the queries times the scale."""
        q, k = (unit(wide(t)) for t in (tokens.q, tokens.k))
        return q * self.scale(tokens.d), k

    def writes(
        self,
        tokens: Tokens,
        q: Float[Tensor, "batch heads queries d"],
        k: Float[Tensor, "batch heads keys d"],
        v: Float[Tensor, "batch heads keys d_v"],
        order: Int[Tensor, "batch keys"] | None,
    ) -> Writes:
        """Return what the steps of all tokens write, in the order of the sequences."""
        own = super().writes(tokens, q, k, v, order)
        betas, keys, values = (
            tokens.memory[name].transpose(1, 2) for name in ("betas", "keys", "values")
        )
        if tokens.padding is not None:
            betas = betas.masked_fill(tokens.padding[:, None, :, None], 0.0)
        if order is not None:
            betas, keys, values = (in_order(t, order) for t in (betas, keys, values))

        def in_row(early: Tensor, last: Tensor) -> Tensor:
            """Return the steps of all tokens in a row."""
            return torch.cat((early.to(last), last[:, :, :, None]), 3).flatten(2, 3)

        waiting = torch.zeros_like(keys)
        later = own.log_decay.new_zeros(*own.log_decay.shape, self.steps - 1)
        return Writes(
            in_row(waiting, own.q),
            in_row(keys, own.k),
            in_row(values, own.v),
            torch.cat((own.log_decay[..., None], later), -1).flatten(2),
            betas.to(own.beta).flatten(2),
            own.segments.repeat_interleave(self.steps, 1),
            delta=True,
        )

    def mix(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        v: Float[Tensor, "batch heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Sum the values of the last steps by ``weights``, and those of the others."""
        early = self.pairs(tokens, *self.features(tokens))[..., :-1]
        early = early.masked_fill(~tokens.mask[..., None], 0.0)
        values = tokens.memory["values"].to(early)
        return weights @ v + torch.einsum("bhqkm,bkhmv->bhqv", early, values).to(v)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, {self.heads}, {self.d}, steps={self.steps}, "
            f"d_v={self.d_v}, gated={self.gated}, "
            f"negative_eigenvalues={self.negative_eigenvalues}"
        )
