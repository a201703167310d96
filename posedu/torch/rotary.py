"""Rotary encodings as modules, and the kernels that turn pairs of features."""

from collections.abc import Callable

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
from posedu.torch._tensors import (
    Positions,
    align_positions,
    cos_sin,
    require_floats,
    require_positions,
)
from posedu.torch.absolute import frequencies
from posedu.torch.encoding import Encoding

_TILE = 1 << 17  # features turned at a time on a CPU: with their products, half of L2


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
        ``"interleaved"`` or ``"half"``; see :func:`posedu.numpy.rotary.pairs`. In
        PyTorch's own kernels the first is the faster one, compiled the second.
    out
        A tensor to write into, like ``x`` but with memory of its own. Nothing of the
        size of ``x`` is allocated then (but by a compiler, for the interleaved
        layout), and nothing is recorded for a gradient: it needs ``torch.no_grad()``
        or arguments that require none, which is not checked under a compiler.

    Raises
    ------
    TypeError, ValueError
        ``cos`` and ``sin`` unlike each other, in half precision, coarser than ``x``
        or of a shape that does not fit it; an ``out`` that ``x`` cannot be turned
        into, or where a gradient is wanted; unknown ``layout``.
    """
    require_choice("layout", layout, LAYOUTS)
    _require_table(x, cos, sin)
    if out is not None:
        _require_target(out, x)
        _require_no_gradient(x, cos, sin)
        with torch.no_grad():
            return _turn_into(out, x, cos, sin, layout)
    if torch.compiler.is_compiling() or cos.requires_grad:
        return _turn_by_formula(x, cos, sin, layout)
    return _Turn.apply(x, cos, sin, layout)


def _require_table(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    require_floats("x", x)
    require_floats("cos", cos)
    if sin.shape != cos.shape or sin.dtype != cos.dtype:
        raise ValueError(
            f"cos and sin must be alike, got {cos.dtype} {list(cos.shape)} and "
            f"{sin.dtype} {list(sin.shape)}"
        )
    if cos.device != x.device or sin.device != x.device:
        raise ValueError(
            f"cos and sin are on {cos.device} and {sin.device}, x on {x.device}; "
            "move one of them"
        )
    exact = (torch.float32, torch.float64)
    if cos.dtype not in exact or torch.promote_types(x.dtype, cos.dtype) != cos.dtype:
        raise TypeError(
            f"cos and sin must be float32 or float64 and no coarser than x, which is "
            f"{x.dtype}; got {cos.dtype}"
        )
    rows = zip(reversed(cos.shape[:-2]), reversed(x.shape[:-2]), strict=False)
    if (
        not 2 <= cos.ndim <= x.ndim
        or cos.shape[-2] != x.shape[-2]
        or 2 * cos.shape[-1] > x.shape[-1]
        or any(n not in (1, m) for n, m in rows)
    ):
        raise ValueError(
            f"cos and sin must be [..., tokens, pairs] and broadcast over x, which is "
            f"{list(x.shape)}; got {list(cos.shape)}"
        )


def _require_target(out: Tensor, x: Tensor) -> None:
    if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
        raise ValueError(
            f"out must be {x.dtype} {list(x.shape)} on {x.device} like x, got "
            f"{out.dtype} {list(out.shape)} on {out.device}"
        )
    if out is x or _share_memory(out, x):
        raise ValueError("out must not share memory with x, which is read after it")


def _require_no_gradient(*tensors: Tensor) -> None:
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return
    if any(t.requires_grad for t in tensors):
        raise ValueError(
            "out= records no gradient; call under torch.no_grad() or pass x.detach() "
            "and a table that requires no gradient"
        )


def _share_memory(a: Tensor, b: Tensor) -> bool:
    """Whether their storages are one; never known under a compiler."""
    if torch.compiler.is_compiling() or not a.numel():
        return False
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != 0


def _turn_by_formula(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """One expression, for each layout the one that compiles to vector code."""
    r = 2 * cos.shape[-1]
    wide = x[..., :r].to(cos.dtype)
    if layout == "interleaved":
        a, b = wide.unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1)
    else:
        pairs = wide.unflatten(-1, (2, -1))
        sign = torch.arange(-1, 2, 2, device=x.device)[:, None]
        signed_sin = sign * sin.unsqueeze(-2)
        turned = pairs * cos.unsqueeze(-2) + pairs.flip(-2) * signed_sin
    turned = turned.flatten(-2).to(x.dtype)
    return turned if r == x.shape[-1] else torch.cat((turned, x[..., r:]), -1)


def _turn_into(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Fill ``out``; without a compiler, in few passes over few tokens at a time."""
    if torch.compiler.is_compiling():
        return out.copy_(_turn_by_formula(x, cos, sin, layout))
    r = 2 * cos.shape[-1]
    if r < x.shape[-1]:
        out[..., r:] = x[..., r:]
        x, turned = x[..., :r], out[..., :r]
    else:
        turned = out
    if layout == "half":
        _by_tiles(_turn_halves, turned, x, torch.cat((cos, cos), -1), sin)
    elif x.dtype == cos.dtype and _is_complex(x) and _is_complex(turned):
        torch.mul(_as_complex(x), torch.complex(cos, sin), out=_as_complex(turned))
    else:
        _by_tiles(_turn_complex, turned, x, torch.complex(cos, sin))
    return out


def _by_tiles(turn: Callable[..., None], *tensors: Tensor) -> None:
    """Call ``turn`` on as many tokens of all tensors at a time as stay in cache."""
    x = tensors[0]
    step = x.shape[-2]
    if x.device.type == "cpu":
        step = _TILE * step // max(1, x.numel())
    for tile in zip(*(t.split(max(1, step), -2) for t in tensors), strict=True):
        turn(*tile)


def _turn_halves(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    wide = x.to(cos.dtype)
    turned = out if out.dtype == cos.dtype else torch.empty_like(wide)
    torch.mul(wide, cos, out=turned)
    a, b = wide.chunk(2, -1)
    turned_a, turned_b = turned.chunk(2, -1)
    turned_a.addcmul_(b, sin, value=-1)
    turned_b.addcmul_(a, sin)
    if turned is not out:
        out.copy_(turned)


def _turn_complex(out: Tensor, x: Tensor, table: Tensor) -> None:
    wide = torch.empty(x.shape, dtype=table.real.dtype, device=x.device).copy_(x)
    _as_complex(wide).mul_(table)
    out.copy_(wide)


def _is_complex(x: Tensor) -> bool:
    """Whether the strides of ``x`` allow :func:`_as_complex`."""
    odd = any(stride % 2 for stride in (x.storage_offset(), *x.stride()[:-1]))
    return x.stride(-1) == 1 and not odd


def _as_complex(x: Tensor) -> Tensor:
    """Interleaved pairs (a, b) as numbers a + ib, in place."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


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
        require_positions(positions)
        if isinstance(positions, Tensor):
            device = positions.device
        return self._table(positions, dtype, device)

    def _table(self, positions, dtype, device) -> tuple[Tensor, Tensor]:
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
        require_floats("q", q)
        require_floats("k", k)
        if k.dtype != q.dtype or k.shape[-2:] != q.shape[-2:]:
            raise ValueError(
                f"q and k must agree in dtype, tokens and d, got {q.dtype} "
                f"{list(q.shape)} and {k.dtype} {list(k.shape)}"
            )
        table = self._table_for(q, positions)
        return (
            turn_pairs(q, *table, layout=self.layout),
            turn_pairs(k, *table, layout=self.layout),
        )

    def _table_for(self, x: Tensor, positions: Positions) -> tuple[Tensor, Tensor]:
        require_floats("x", x)
        if x.shape[-1:] != (self.d,):
            raise ValueError(
                f"x must be [..., tokens, {self.d}], got shape {list(x.shape)}"
            )
        positions = align_positions(positions, x)
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        return self._table(positions, dtype, x.device)

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
    shape = (-1, 2) if source == "interleaved" else (2, -1)
    turning, rest = by_head[:, :r], by_head[:, r:]
    turning = turning.unflatten(1, shape).transpose(1, 2).flatten(1, 2)
    return torch.cat((turning, rest), 1).flatten(0, 1)
