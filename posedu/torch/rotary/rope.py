"""RoPE: rotary position embedding by positions that are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.types import Device

from posedu._arguments import (
    Layout,
    require_base,
    require_bool,
    require_choice,
    require_dimension,
    require_finite,
    require_own_frequencies,
    require_rotary_dim,
)
from posedu.torch._autograd import without_autocast
from posedu.torch._numbers import as_real_tensor
from posedu.torch._tensors import Positions, angles, cos_sin, require_floats
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary._config import Config, rotation_arguments
from posedu.torch.rotary.rotation import PairRotation

_ROWS = 128  # queries of a tile of causal linear attention

Frequencies = Float[Tensor, "pairs"] | Float[np.ndarray, "pairs"] | Sequence[float]


class RoPE(PairRotation):
    """Rotary position embedding (arXiv 2104.09864) of queries and keys, not of values.

    No parameters, no buffers that a cast of the model could round, no maximal length.
    Angles are float64: beyond position 2²⁹ they are less exact than float32 cosines.
    :meth:`from_config` makes one from the configuration of a published model.

    Parameters
    ----------
    d
        Head dimension, even.
    layout
        Which features form a pair: ``"interleaved"`` (RoFormer, Meta's Llama, GPT-J) or
        ``"half"`` (GPT-NeoX, Hugging Face's Llama). Weights trained with one layout
        need :func:`convert_layout` for the other layout.
    base
        Base of the frequencies. Default 10000 (the paper); Llama 3 uses 500000.
    rotary_dim
        How many leading features of each head are rotated (partial rotary, as GPT-J
        and GPT-NeoX). ``None``: all. Frequencies are base^(−2p/rotary_dim).
    frequencies
        Angular frequencies of the leading pairs instead, ``[pairs]``, as a
        tensor, a NumPy array or a list: what context extension methods (PI, NTK, YaRN,
        Llama 3, LongRoPE) change. Kept in float64.
    attention_factor
        The factor of all cosines and sines (arXiv 2309.00071 §3.4), which
        configurations call ``attention_factor`` or YaRN's ``mscale``. Default 1.

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
        layout: Layout,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        frequencies: Frequencies | None = None,
        attention_factor: float = 1.0,
    ):
        super().__init__()
        self.frequencies = None
        if frequencies is not None:
            own = as_real_tensor("frequencies", frequencies, dtype=torch.float64)
            own = own.detach().clone()
            if own.ndim != 1:
                raise ValueError(
                    f"frequencies must be [pairs], got shape {list(own.shape)}"
                )
            rotary_dim = require_own_frequencies(own.tolist(), rotary_dim)
            self.frequencies = own
        self.attention_factor = require_finite("attention_factor", attention_factor)
        self.rotary_dim = require_rotary_dim(rotary_dim, d)
        self.d = d
        self.layout = require_choice("layout", layout, Layout)
        self.base = require_base(base)

    @classmethod
    def from_config(
        cls,
        config: Config,
        layer_type: str | None = None,
        *,
        layout: Layout | None = None,
        length: int | None = None,
    ) -> "RoPE":
        """Make the rotation of a published model from its configuration.

        All rope types of :func:`posedu.tools.read_rope` are read: default, linear (PI),
        dynamic (NTK), YaRN, Llama 3, LongRoPE, partial and proportional; the attention
        factor included. A temperature of the logits and a further scale of the softmax
        are no part of a rotation: where a configuration has one, a warning says so.
        Warnings of ``read_rope`` are given, too.

        Parameters
        ----------
        config
            The path of a ``config.json`` or of its folder, its content as a mapping, or
            a configuration of transformers.
        layer_type
            Which layers, where the configuration has several types with a rotation
            each, such as ``"full_attention"`` and ``"sliding_attention"``.
        layout
            Needed where neither the configuration nor its model family decides the
            layout. Where they do: the layout of weights that were converted.
        length
            Length of the text in tokens, for methods whose frequencies depend on it:
            dynamic NTK and LongRoPE. Every position then has the frequencies of this
            length.

        Raises
        ------
        ValueError
            A configuration without rotations or one that cannot be read, an unknown or
            missing ``layer_type``, a missing ``layout`` or ``length``, positions with
            several coordinates (:meth:`MRoPE.from_config` reads configurations of
            M-RoPE).
        OSError
            The file cannot be read.
        """
        return cls(
            **rotation_arguments(config, layer_type, layout, length, has_sections=False)
        )

    def _apply(self, fn: Any, recurse: bool = True) -> "RoPE":
        """Move given frequencies to the module's device, and keep them float64.

        PyTorch calls this method with ``fn``, the function that moves or casts a
        tensor, and ``recurse``, whether submodules are changed, too.
        """
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
        """Return the cosines and sines that rotate keys further, by position shifts.

        The keys are rotated already, and contain the attention factor, which is
        therefore left out here. Cosines and sines are ``[*shifts, pairs]``, in
        ``dtype``.
        """
        return cos_sin(angles(shifts, self._frequencies(device)), dtype)

    def _frequencies(self, device: Device) -> Float[Tensor, "pairs"]:
        """Return the angular frequencies of the pairs of features, in float64.

        They are the frequencies given to the constructor or, if there are none, those
        that follow from ``base``.
        """
        if self.frequencies is None:
            return frequencies(self.rotary_dim, base=self.base, device=device)
        return self.frequencies.to(device)

    def rotation_state(self) -> tuple[Tensor, ...]:
        """Return the tensors that determine RoPE's angles.

        They are the base, as a tensor of one number, and, if the constructor got them,
        the frequencies.
        """
        base = torch.full((1,), self.base, dtype=torch.float64, device="cpu")
        return (base,) if self.frequencies is None else (base, self.frequencies)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        given = f"base={self.base:g}"
        if self.frequencies is not None:
            given = f"frequencies given, attention_factor={self.attention_factor:g}"
        return (
            f"{self.d}, layout={self.layout!r}, {given}, rotary_dim={self.rotary_dim}"
        )


def convert_layout(
    weight: Shaped[Tensor, "features *rest"],
    heads: int,
    *,
    source: Layout,
    target: Layout,
    rotary_dim: int | None = None,
) -> Shaped[Tensor, "features *rest"]:
    """Reorder rows of W_q or W_k (or their bias) from layout ``source`` to ``target``.

    As :func:`posedu.numpy.rotary.convert_layout`; here a reshape and a transpose.
    Scores are unchanged when W_q and W_k are both converted and the rotation uses
    ``target``. Equation ``eq-rope-layout``.

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
    require_choice("source", source, Layout)
    require_choice("target", target, Layout)
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
    rotated, rest = by_head[:, :r], by_head[:, r:]
    rotated = rotated.unflatten(1, shape).transpose(1, 2).flatten(1, 2)
    return torch.cat((rotated, rest), 1).flatten(0, 1)


def rope_linear_attention(
    q: Float[Tensor, "*batch tokens d"],
    k: Float[Tensor, "*batch tokens d"],
    v: Float[Tensor, "*batch tokens d_v"],
    positions: Positions,
    *,
    layout: Layout,
    base: float = 10000.0,
    causal: bool = False,
) -> Float[Tensor, "*batch tokens d_v"]:
    """Linear attention with RoPE in the numerator only (arXiv 2104.09864 Eq. 19).

    The feature map is elu + 1, before the rotation. Equation ``def-rope-linear``. Time
    and memory are O(L): sums over the keys take the place of weights; causal attention
    adds the keys of 128 queries at a time to them. Computed in float32 or wider.

    Parameters
    ----------
    q, k, v
        Queries, keys and values, with as many heads each.
    positions, layout, base
        See :class:`RoPE`.
    causal
        Whether a query attends only to itself and earlier tokens. Default false.

    Raises
    ------
    TypeError, ValueError
        As :class:`RoPE`; shapes that do not match.
    """
    for name, t in (("q", q), ("k", k), ("v", v)):
        require_floats(name, t)
    if q.ndim < 2 or k.shape != q.shape or v.shape[:-1] != q.shape[:-1]:
        raise ValueError(
            "q and k must be [..., tokens, d] and v [..., tokens, d_v], got "
            f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    require_bool("causal", causal)
    rotate = RoPE(q.shape[-1], layout=layout, base=base)
    dtype = torch.promote_types(torch.result_type(q, v), torch.float32)
    attend = _causal_linear_attention if causal else _linear_attention
    with without_autocast(q):
        q, k = (elu_plus_one(t.to(dtype)) for t in (q, k))
        rotated_q, rotated_k = (rotate(t, positions) for t in (q, k))
        return attend(rotated_q, rotated_k, q, k, v.to(dtype)).to(v.dtype)


def _linear_attention(
    rotated_q: Tensor, rotated_k: Tensor, q: Tensor, k: Tensor, v: Tensor
) -> Tensor:
    """Return linear attention of rotated features over that of ``q`` and ``k``."""
    return rotated_q @ (rotated_k.mT @ v) / (q @ k.sum(-2)[..., None])


def _causal_linear_attention(
    rotated_q: Tensor, rotated_k: Tensor, q: Tensor, k: Tensor, v: Tensor
) -> Tensor:
    """Return :func:`_linear_attention` where no query attends to later keys.

    Sums over the keys of earlier tiles are kept, and products of pairs are computed
    within a tile of queries.
    """
    outputs = []
    values = q.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1])
    keys = q.new_zeros(*q.shape[:-2], q.shape[-1], 1)
    pieces = (t.split(_ROWS, -2) for t in (rotated_q, rotated_k, q, k, v))
    for rotated_q, rotated_k, q, k, v in zip(*pieces, strict=True):
        within = (rotated_q @ rotated_k.mT).tril() @ v + rotated_q @ values
        total = (q @ k.mT).tril().sum(-1, keepdim=True) + q @ keys
        outputs.append(within / total)
        values = values + rotated_k.mT @ v
        keys = keys + k.sum(-2)[..., None]
    return torch.cat(outputs, -2)


def elu_plus_one(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return x + 1 above 0 and e^x below, the feature map of linear attention."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())
