"""Retention (RetNet): a rotation and a decay for each step, and no softmax."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.nn import functional
from torch.types import Device

from posedu._arguments import (
    Layout,
    RetentionNormalization,
    RetentionSpacing,
    Spacing,
    require_base,
    require_choice,
    require_dimension,
)
from posedu.torch._sequences import gathered
from posedu.torch._tensors import angles, cos_sin
from posedu.torch.encoding import Encoding, Sizes, Tokens
from posedu.torch.frequencies import frequencies
from posedu.torch.recurrent.recurrence import Recurrence, State
from posedu.torch.rotary.rotation import PairRotation

_LARGEST = 5e4  # torchscale's largest divisor of a row, below the largest float16


class Retention(PairRotation, Recurrence):
    """Retention (RetNet, arXiv 2307.08621): rotations and decays, without a softmax.

    Queries and keys are rotated as by RoPE, and a head's scaled products s_ij of query
    i and key j are multiplied by γ_h^(i − j), where i and j are positions and
    γ_h = 1 − 2^(−5−h). The products are the weights of the values; they may be negative
    and need not sum to 1. Equation ``def-retention``.

    RetNet's norm of each head's output and its gate are no part of it. No parameters.
    Attention takes O(L²) memory and operations for L tokens, and O(L) for one token
    with a cache; without a normalization of rows it is a recurrence, whose default
    route takes O(L) for all tokens and O(1) for one with a state. No query may have a
    position so far before that of a key that it attends to that γ_h^(i − j) overflows:
    about 2790 positions in float32.

    Parameters
    ----------
    heads
        Query heads.
    d
        Head dimension, even.
    layout
        Which features form a pair: ``"interleaved"`` (torchscale, the authors' code) or
        ``"half"`` (flash-linear-attention).
    spacing
        Frequencies: ``"rope"``, base^(−2p/d) (flash-linear-attention), or
        ``"torchscale"``, base^(−p/(d/2 − 1)).
    normalization
        ``"none"``: weights are s_ij γ_h^(i − j) (flash-linear-attention). ``"paper"``:
        each row of powers is divided by the root of its sum, and each row of weights by
        the absolute value of its sum if that is above 1. ``"torchscale"``: the sum of
        absolute values in its place, but 50000 at most; its gradient treats the divisor
        as a constant, here the divisor has a gradient.
    base
        Base of the frequencies. Default 10000 (both).

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, ``d`` odd or not positive, an unknown
        ``layout``, ``spacing`` or ``normalization``, ``base`` not above 1.
    """

    is_group = needs_positions = True
    logits = Encoding.logits  # products, which the hook `weigh` decays
    d: int

    def __init__(
        self,
        heads: int,
        d: int,
        *,
        layout: Layout,
        spacing: RetentionSpacing,
        normalization: RetentionNormalization,
        base: float = 10000.0,
    ):
        super().__init__()
        self.query_heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d)
        self.spacing = require_choice("spacing", spacing, RetentionSpacing)
        self.normalization = require_choice(
            "normalization", normalization, RetentionNormalization
        )
        self.layout = require_choice("layout", layout, Layout)
        self.base = require_base(base)
        self.is_fused = normalization == "none"
        if not self.is_fused:
            self.hooks -= {"attend", "carry"}

    def require(self, layer: Sizes) -> None:
        """Raise unless the layer has this head dimension and number of query heads."""
        Encoding.require(self, layer)  # unlike a rotation's, whose heads are of keys
        if layer.heads != self.query_heads:
            raise ValueError(
                f"Retention was made for heads = {self.query_heads}, the layer has "
                f"heads = {layer.heads}"
            )

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        rule: Spacing = "paper" if self.spacing == "rope" else "tensor2tensor"
        omega = frequencies(self.d, base=self.base, spacing=rule, device=device)
        return cos_sin(angles(positions, omega), dtype)

    def rotation_state(self) -> tuple[Tensor, ...]:
        """Return a tensor of one number that determines the angles: the base."""
        return (torch.full((1,), self.base, dtype=torch.float64, device="cpu"),)

    def log_decays(self, device: Device = None) -> Float[Tensor, "heads"]:
        """Return log γ_h of each head, in float64. Equation ``def-retention-decay``."""
        h = torch.arange(self.query_heads, dtype=torch.float64, device=device)
        return self.own_heads(torch.log1p(-torch.exp2(-5 - h)))

    def decays(
        self, tokens: Tokens
    ) -> tuple[Float[Tensor, "batch keys heads"], Float[Tensor, "batch keys heads"]]:
        """Return log γ times the positions since the token before, and β = 1."""
        at, is_token = _in_sequence(tokens)
        steps, follows = at - _earlier(at), _earlier(is_token)
        if tokens.segments is not None:
            of_segment = tokens.segments.gather(1, tokens.sequence_order)
            follows = follows & (of_segment == _earlier(of_segment))
        steps = steps.masked_fill(~follows, 0.0)
        steps = gathered(steps, tokens.sequence_order.argsort(1))
        _, ones = super().decays(tokens)
        return steps[..., None] * self.log_decays(steps.device), ones

    def carry(
        self, tokens: Tokens, states: Mapping[str, State]
    ) -> tuple[Float[Tensor, "batch heads queries d_v"], Mapping[str, State]]:
        """Read the outputs of new tokens; return them and the states after them.

        Besides the sum, a state has the position of the last token.
        """
        before, (at, is_token) = dict(states), _in_sequence(tokens)
        last = at[:, -1:]
        if "position" in before:
            position = before["position"][:, 0, 0]
            first = at.gather(
                1, (~is_token).sum(1, keepdim=True).clamp(max=at.shape[1] - 1)
            )
            steps = torch.where(is_token[:, -1:], first - position, 0.0)
            decay = (steps[..., None] * self.log_decays(steps.device)).exp()
            before["values"] = (
                decay.mT[..., None].to(before["values"]) * before["values"]
            )
            last = torch.where(is_token[:, -1:], last, position)
        out, new = super().carry(tokens, before)
        return out, {**new, "position": last[:, None, None]}

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return scaled products times decays. Equation ``def-retention-weights``.

        The weights are in float32 or wider; keys that are masked have the weight 0.
        """
        dtype = torch.promote_types(logits.dtype, torch.float32)
        exponents = tokens.offsets * self.log_decays(logits.device)[:, None, None]
        powers = exponents.exp().masked_fill(~tokens.mask, 0.0)
        if self.normalization == "none":
            return logits * powers.to(dtype)
        total = powers.sum(-1, keepdim=True)
        powers = powers / torch.where(total > 0, total, 1.0).sqrt()
        weights = logits * powers.to(dtype)
        if self.normalization == "paper":
            size = weights.sum(-1, keepdim=True).abs()
        else:
            size = weights.abs().sum(-1, keepdim=True).clamp(max=_LARGEST)
        return weights / size.clamp(min=1.0)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.query_heads}, {self.d}, layout={self.layout!r}, "
            f"spacing={self.spacing!r}, normalization={self.normalization!r}, "
            f"base={self.base:g}"
        )


def _in_sequence(
    tokens: Tokens,
) -> tuple[Float[Tensor, "batch keys"], Bool[Tensor, "batch keys"]]:
    """Return positions in the order of the sequences, and which are not padding's."""
    order = tokens.sequence_order
    at = tokens.key_positions.to(torch.float64).expand(order.shape).gather(1, order)
    if tokens.padding is None:
        return at, torch.ones_like(order, dtype=torch.bool)
    return at, ~tokens.padding.expand(order.shape).gather(1, order)


def _earlier(t: Shaped[Tensor, "batch keys"]) -> Shaped[Tensor, "batch keys"]:
    """Return the numbers of the token before each one; of the first it is 0."""
    return functional.pad(t, (1, 0))[:, :-1]
