"""Rotary encodings as modules, and the kernels that turn pairs of features."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from posedu._arguments import (
    LAYOUTS,
    require_base,
    require_choice,
    require_dimension,
    require_rotary_dim,
)
from posedu.torch._tensors import Positions, align_positions, cos_sin, require_floats
from posedu.torch.absolute import frequencies
from posedu.torch.encoding import Encoding

_TILE = 1 << 16  # features turned at a time in half precision on a CPU: fits in cache


def turn_pairs(
    x: Float[Tensor, "*batch tokens d"],
    cos: Float[Tensor, "*rows tokens pairs"],
    sin: Float[Tensor, "*rows tokens pairs"],
    *,
    layout: str,
    out: Float[Tensor, "*batch tokens d"] | None = None,
) -> Float[Tensor, "*batch tokens d"]:
    """Turn pair p of each token's features by the angle whose cos and sin are given.

    Products are formed in the dtype of ``cos`` (float32 or float64) and rounded once
    to the dtype of ``x``. Equation ``def-rope``.

    Parameters
    ----------
    x
        Queries or keys. Where ``cos`` has fewer than d/2 pairs, only the leading
        features turn and the rest pass through.
    cos, sin
        As :meth:`RoPE.table` gives them; they broadcast over the leading axes of x.
    layout
        ``"interleaved"`` or ``"half"``; see :func:`posedu.numpy.rotary.pairs`.
    out
        A tensor to write into, of the shape and dtype of ``x``, not ``x`` itself.
        Nothing is allocated then, and nothing is recorded for a gradient.
    """
    require_choice("layout", layout, LAYOUTS)
    if out is not None:
        if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
            raise ValueError(
                f"out must be {x.dtype} {list(x.shape)} on {x.device} like x, got "
                f"{out.dtype} {list(out.shape)} on {out.device}"
            )
        with torch.no_grad():
            return _turn_into(out, x, cos, sin, layout)
    if torch.compiler.is_compiling() or cos.requires_grad:
        return _turn_by_formula(x, cos, sin, layout)
    return _Turn.apply(x, cos, sin, layout)


def _pair_shape(layout: str) -> tuple[int, tuple[int, int]]:
    """The axis that holds a pair, and the shape that splits the feature axis so."""
    return (-1, (-1, 2)) if layout == "interleaved" else (-2, (2, -1))


def _turn_by_formula(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """x · cos + (pairs swapped) · (−sin, sin): one expression, for a compiler."""
    r = 2 * cos.shape[-1]
    axis, shape = _pair_shape(layout)
    pairs = x[..., :r].unflatten(-1, shape).to(cos.dtype)
    signed_sin = torch.stack((-sin, sin), axis)
    turned = pairs * cos.unsqueeze(axis) + pairs.flip(axis) * signed_sin
    turned = turned.flatten(-2).to(x.dtype)
    return turned if r == x.shape[-1] else torch.cat((turned, x[..., r:]), -1)


def _turn_into(
    out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: str
) -> Tensor:
    """Fill ``out`` with ``x`` turned; without a compiler, as few passes as can be."""
    if torch.compiler.is_compiling():
        return out.copy_(_turn_by_formula(x, cos, sin, layout))
    r = 2 * cos.shape[-1]
    if r < x.shape[-1]:
        out[..., r:] = x[..., r:]
        x, target = x[..., :r], out[..., :r]
    else:
        target = out
    if x.dtype == cos.dtype:
        _turn_exactly(target, x, cos, sin, layout)
        return out
    tokens = x.shape[-2]
    per_token = max(1, x.numel() // max(1, tokens))
    step = max(1, _TILE // per_token) if x.device.type == "cpu" else max(1, tokens)
    for i in range(0, tokens, step):
        part = slice(i, i + step)
        wide = x[..., part, :].to(cos.dtype)
        turned = torch.empty_like(wide)
        _turn_exactly(turned, wide, cos[..., part, :], sin[..., part, :], layout)
        target[..., part, :] = turned
    return out


def _turn_exactly(
    out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: str
) -> None:
    """Fill ``out``, all tensors of one dtype."""
    if layout == "interleaved" and x.stride(-1) == out.stride(-1) == 1:
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        target = torch.view_as_complex(out.unflatten(-1, (-1, 2)))
        torch.mul(pairs, torch.complex(cos, sin), out=target)
        return
    axis, shape = _pair_shape(layout)
    a, b = x.unflatten(-1, shape).unbind(axis)
    turned_a, turned_b = out.unflatten(-1, shape).unbind(axis)
    torch.mul(a, cos, out=turned_a).addcmul_(b, sin, value=-1)
    torch.mul(b, cos, out=turned_b).addcmul_(a, sin)


class _Turn(torch.autograd.Function):
    """The rotation with its own gradient: the rotation back."""

    @staticmethod
    def forward(ctx, x, cos, sin, layout):
        ctx.save_for_backward(cos, sin)
        ctx.layout = layout
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        return _turn_into(out, x, cos, sin, layout)

    @staticmethod
    def backward(ctx, gradient):
        cos, sin = ctx.saved_tensors
        return _Turn.apply(gradient, cos, -sin, ctx.layout), None, None, None


class RoPE(Encoding):
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

    Raises
    ------
    TypeError, ValueError
        ``d`` or ``rotary_dim`` odd, not positive or too large, unknown ``layout``,
        ``base`` not above 1.
    """

    def __init__(
        self,
        d: int,
        *,
        layout: str,
        base: float = 10000.0,
        rotary_dim: int | None = None,
    ):
        super().__init__()
        self.rotary_dim = require_rotary_dim(rotary_dim, d)
        self.d = d
        self.layout = require_choice("layout", layout, LAYOUTS)
        self.base = require_base(base)

    def table(
        self,
        positions: Positions,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> tuple[
        Float[Tensor, "*rows tokens pairs"], Float[Tensor, "*rows tokens pairs"]
    ]:
        """Cosines and sines of position · ω_p, for :func:`turn_pairs`.

        Angles are float64 whatever ``dtype`` is. ``device`` matters for a range only;
        a tensor of positions decides it itself. One table serves every layer.
        """
        if isinstance(positions, Tensor):
            device = positions.device
        omega = frequencies(self.rotary_dim, base=self.base, device=device)
        return cos_sin(positions, omega, dtype)

    def forward(
        self, x: Float[Tensor, "*batch tokens d"], positions: Positions
    ) -> Float[Tensor, "*batch tokens d"]:
        """Turn the pairs of ``x`` by its positions; equation ``def-rope``.

        ``positions`` is a range, ``[tokens]`` or ``[batch, tokens]``. The result has
        the dtype of ``x``; angles are float64, products at least float32.
        """
        return turn_pairs(x, *self._table_for(x, positions), layout=self.layout)

    def rotate(
        self,
        q: Float[Tensor, "*batch tokens d"],
        k: Float[Tensor, "*kv_batch tokens d"],
        positions: Positions,
    ) -> tuple[Float[Tensor, "*batch tokens d"], Float[Tensor, "*kv_batch tokens d"]]:
        """Turn queries and keys, which share their positions."""
        if k.dtype != q.dtype or k.shape[-2] != q.shape[-2]:
            raise ValueError(
                f"q and k must agree in dtype and tokens, got {q.dtype} "
                f"{list(q.shape)} and {k.dtype} {list(k.shape)}"
            )
        table = self._table_for(q, positions)
        require_floats("k", k)
        return (
            turn_pairs(q, *table, layout=self.layout),
            turn_pairs(k, *table, layout=self.layout),
        )

    def _table_for(self, x: Tensor, positions: Positions) -> tuple[Tensor, Tensor]:
        require_floats("x", x)
        if x.shape[-1] != self.d:
            raise ValueError(
                f"x must be [..., tokens, {self.d}], got shape {list(x.shape)}"
            )
        positions = align_positions(positions, x)
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        return self.table(positions, dtype=dtype, device=x.device)

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return (
            f"{self.d}, layout={self.layout!r}, base={self.base:g}, "
            f"rotary_dim={self.rotary_dim}"
        )


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
    _, shape = _pair_shape(source)
    turning, rest = by_head[:, :r], by_head[:, r:]
    turning = turning.unflatten(1, shape).transpose(1, 2).flatten(1, 2)
    return torch.cat((turning, rest), 1).flatten(0, 1)
