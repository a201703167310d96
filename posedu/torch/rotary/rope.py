"""RoPE: one coordinate."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.types import Device

from posedu._arguments import (
    LAYOUTS,
    require_base,
    require_choice,
    require_dimension,
    require_finite,
    require_own_frequencies,
    require_rotary_dim,
)
from posedu.torch._tensors import angles, cos_sin
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.rotation import PairRotation


class RoPE(PairRotation):
    """Rotary position embedding (arXiv 2104.09864): q and k turn, values do not.

    No parameters, no buffers that a cast of the model could round, no maximal length.

    Parameters
    ----------
    d
        Head dimension, even.
    layout
        Which features form a pair: ``"interleaved"`` (RoFormer, Meta's Llama, GPT-J)
        or ``"half"`` (GPT-NeoX, Hugging Face's Llama). Weights trained with one need
        :func:`convert_layout` for the other.
    base
        Default 10000 (the paper); Llama 3 uses 500000.
    rotary_dim
        How many leading features of each head turn (partial rotary, as GPT-J and
        GPT-NeoX). ``None``: all. Frequencies are base^(−2p/rotary_dim).
    frequencies
        Angular frequencies of the leading pairs in place of those, ``[pairs]``: what
        methods that lengthen the context change.
    attention_factor
        What cosines and sines are multiplied by (YaRN's attention factor, arXiv
        2309.00071 §3.4). Default 1.

    Raises
    ------
    TypeError, ValueError
        ``d`` or ``rotary_dim`` odd, not positive or too large, unknown ``layout``,
        ``base`` not above 1, frequencies that are not finite or too many, an
        ``attention_factor`` that is not finite.
    """

    is_group = True

    def __init__(
        self,
        d: int,
        *,
        layout: str,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        frequencies: Float[Tensor, "pairs"] | Sequence[float] | None = None,
        attention_factor: float = 1.0,
    ):
        super().__init__()
        self.frequencies = None
        if frequencies is not None:
            own = _as_exact(frequencies)
            if own.ndim != 1:
                raise ValueError(
                    f"frequencies must be [pairs], got shape {list(own.shape)}"
                )
            rotary_dim = require_own_frequencies(own.tolist(), rotary_dim)
            self.frequencies = own
        self.attention_factor = require_finite("attention_factor", attention_factor)
        self.rotary_dim = require_rotary_dim(rotary_dim, d)
        self.d = d
        self.layout = require_choice("layout", layout, LAYOUTS)
        self.base = require_base(base)
        turns = f"base={self.base!r}"
        if self.frequencies is not None:
            turns = f"frequencies={self.frequencies.tolist()}"
        self.turning = f"layout={layout!r}, rotary_dim={self.rotary_dim}, {turns}"

    def _apply(self, fn: Any, recurse: bool = True) -> "RoPE":
        """Let frequencies of its own go where the module goes, and stay float64."""
        super()._apply(fn, recurse)
        if self.frequencies is not None:
            place = fn(torch.empty(0, device=self.frequencies.device)).device
            self.frequencies = self.frequencies.to(place)
        return self

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        cos, sin = self._table_of_shifts(positions, dtype, device)
        if self.attention_factor == 1:
            return cos, sin
        return self.attention_factor * cos, self.attention_factor * sin

    def _table_of_shifts(
        self, shifts: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        """Without the attention factor, which turned keys have already."""
        if self.frequencies is None:
            omega = frequencies(self.rotary_dim, base=self.base, device=device)
        else:
            omega = self.frequencies.to(device)
        return cos_sin(angles(shifts, omega), dtype)

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        given = f"base={self.base:g}"
        if self.frequencies is not None:
            given = (
                f"frequencies of its own, attention_factor={self.attention_factor:g}"
            )
        return (
            f"{self.d}, layout={self.layout!r}, {given}, rotary_dim={self.rotary_dim}"
        )


def _as_exact(frequencies: Float[Tensor, "pairs"] | Sequence[float]) -> Tensor:
    """Frequencies as a tensor in float64 of their own, a list on the CPU."""
    place = frequencies.device if isinstance(frequencies, Tensor) else "cpu"
    try:
        given = torch.as_tensor(frequencies, device=place)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"frequencies must be numbers, but {error}") from None
    if given.is_complex() or given.layout != torch.strided:
        raise TypeError(f"frequencies must be dense and real, got {given.dtype}")
    exact = torch.as_tensor(frequencies, dtype=torch.float64, device=place)
    return exact.detach().clone()


def convert_layout(
    weight: Shaped[Tensor, "features *rest"],
    heads: int,
    *,
    source: str,
    target: str,
    rotary_dim: int | None = None,
) -> Shaped[Tensor, "features *rest"]:
    """Reorder the rows of W_q or W_k (or their bias) from one layout to the other.

    As :func:`posedu.numpy.rotary.convert_layout`; here a reshape and a transpose.
    Scores are unchanged when both are converted and the rotation uses ``target``.
    Equation ``eq-rope-layout``.

    Parameters
    ----------
    weight
        ``[heads · d, d_model]``, or a bias ``[heads · d]``.
    heads
        Heads of *this* matrix: for grouped queries, W_k has ``kv_heads``.
    source, target
        ``"interleaved"`` or ``"half"``.
    rotary_dim
        How many leading features of each head rotate. ``None``: all.

    Raises
    ------
    TypeError, ValueError
        A first axis that ``heads`` does not divide into even heads, unknown layouts.
    """
    require_choice("source", source, LAYOUTS)
    require_choice("target", target, LAYOUTS)
    require_dimension("heads", heads, 1)
    if weight.ndim == 0 or weight.shape[0] % heads:
        raise ValueError(
            f"the first axis of weight must be a multiple of heads = {heads}, "
            f"got shape {list(weight.shape)}"
        )
    by_head = weight.unflatten(0, (heads, -1))
    r = require_rotary_dim(rotary_dim, by_head.shape[1])
    if source == target:
        return weight.clone()
    shape = (-1, 2) if source == "interleaved" else (2, -1)
    turning, rest = by_head[:, :r], by_head[:, r:]
    turning = turning.unflatten(1, shape).transpose(1, 2).flatten(1, 2)
    return torch.cat((turning, rest), 1).flatten(0, 1)
