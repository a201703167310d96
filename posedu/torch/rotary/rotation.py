"""Kernels that rotate pairs and blocks of features, and base classes of rotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.types import Device

from posedu._arguments import Layout, require_choice, require_dimension
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import (
    Positions,
    align_positions,
    from_list,
    require_all_finite,
    require_float_dtype,
    require_floats,
    require_positions,
)
from posedu.torch.encoding import Encoding, Sizes
from posedu.torch.shared import Shared

_TILE = 1 << 19  # features rotated at a time on a CPU: faster than fewer and than all

_SMALL = 1 << 13  # features below which the calls of the kernel cost more than its work

Table = TypeVar("Table", Tensor, tuple[Tensor, Tensor])  # blocks, or cosines and sines


def rotate_pairs(
    x: Float[Tensor, "*batch tokens d"],
    cos: Float[Tensor, "*rows tokens pairs"],
    sin: Float[Tensor, "*rows tokens pairs"],
    *,
    layout: Layout,
    out: Float[Tensor, "*batch tokens d"] | None = None,
) -> Float[Tensor, "*batch tokens d"]:
    """Rotate each pair of a token's features by the angle that cos and sin give.

    Products are formed in the dtype of ``cos`` (float32 or float64) and rounded once
    to the dtype of ``x``. Equation ``def-rope``.

    Parameters
    ----------
    x
        Queries or keys. Where ``cos`` has fewer than d/2 pairs, only the leading
        features are rotated and the rest pass through.
    cos, sin
        Results of :meth:`RoPE.table`; they broadcast over the leading axes of x.
    layout
        ``"interleaved"`` or ``"half"``; see :func:`posedu.numpy.rotary.pairs`. Without
        a compiler the first is the faster one, under ``torch.compile`` the second.
    out
        A tensor to write into, like ``x`` but whose memory no argument shares. Nothing
        of the size of ``x`` is allocated then, except by a compiler for the interleaved
        layout, and nothing is recorded for a gradient: it needs ``torch.no_grad()`` or
        arguments that require none, which is not checked under a compiler.

    Raises
    ------
    TypeError, ValueError
        ``cos`` and ``sin`` unlike each other, in half precision, coarser than ``x``
        or of a shape that does not fit it; an ``out`` that does not fit ``x`` or shares
        memory with an argument, or is given where a gradient is needed; unknown
        ``layout``.
    """
    require_choice("layout", layout, Layout)
    _require_table(x, cos, sin)
    if out is not None:
        _require_target(out, x, cos, sin)
        _require_no_gradient(x, cos, sin)
        with torch.no_grad():
            return _rotate_into(out, x, cos, sin, layout)
    is_learned = cos.requires_grad or sin.requires_grad
    if is_compiling() or is_learned or _is_small_step(x):
        return _rotate_by_formula(x, cos, sin, layout)
    return _PairRotation.apply(x, cos, sin, layout)


def _is_small_step(x: Tensor) -> bool:
    """Return whether ``x`` is small and no gradient is recorded, as in decoding.

    Small is a tensor of at most 2¹³ numbers.
    """
    return not torch.is_grad_enabled() and x.numel() <= _SMALL


def _require_table(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    require_floats("x", x)
    require_floats("cos", cos)
    require_floats("sin", sin)
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


def _require_target(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    require_floats("out", out)
    if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
        raise ValueError(
            f"out must be {x.dtype} {list(x.shape)} on {x.device} like x, got "
            f"{out.dtype} {list(out.shape)} on {out.device}"
        )
    steps = zip(out.shape, out.stride(), strict=True)
    if any(n > 1 and step == 0 for n, step in steps):
        raise ValueError(
            "out must have memory for each of its numbers, got an expanded tensor"
        )
    for name, read in (("x", x), ("cos", cos), ("sin", sin)):
        if out is read or _share_memory(out, read):
            raise ValueError(
                f"out must not share memory with {name}, which is read after out is "
                "written"
            )


def _require_no_gradient(*tensors: Tensor) -> None:
    if is_compiling() or not torch.is_grad_enabled():
        return
    if any(t.requires_grad for t in tensors):
        raise ValueError(
            "out= records no gradient; call under torch.no_grad() or pass x.detach() "
            "and a table that requires no gradient"
        )


def _share_memory(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors' storages overlap; False under a compiler."""
    if is_compiling() or a.is_meta or a.device != b.device:
        return False
    first, second = (t.untyped_storage() for t in (a, b))
    start, begin = first.data_ptr(), second.data_ptr()
    return start < begin + second.nbytes() and begin < start + first.nbytes()


def _rotate_by_formula(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """Rotate the pairs of features of ``x``, by one expression for each layout.

    The expressions are those that compile to SIMD code. ``cos`` and ``sin`` are cosine
    and sine of each pair's angle.
    """
    r = 2 * cos.shape[-1]
    is_partial = r < x.shape[-1]
    wide = (x[..., :r] if is_partial else x).to(cos.dtype)
    if layout == "half" and is_compiling():
        pairs = wide.unflatten(-1, (2, -1))
        sign = torch.arange(-1, 2, 2, device=x.device)[:, None]
        signed_sin = sign * sin.unsqueeze(-2)
        rotated = pairs * cos.unsqueeze(-2) + pairs.flip(-2) * signed_sin
        rotated = rotated.flatten(-2)
    else:
        is_half = layout == "half"
        a, b = wide.chunk(2, -1) if is_half else wide.unflatten(-1, (-1, 2)).unbind(-1)
        new_a = torch.addcmul(a * cos, b, sin, value=-1)
        new_b = torch.addcmul(b * cos, a, sin)
        both = new_a, new_b
        rotated = torch.cat(both, -1) if is_half else torch.stack(both, -1).flatten(-2)
    rotated = rotated.to(x.dtype)
    return torch.cat((rotated, x[..., r:]), -1) if is_partial else rotated


def _rotate_into(
    out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: Layout
) -> Tensor:
    """Write ``x`` with rotated pairs of features into ``out``, and return ``out``.

    ``cos`` and ``sin`` are those of the angle of each pair; features beyond the pairs
    are copied. Without a compiler, slices of few tokens are rotated by few operations
    each.
    """
    if is_compiling():
        return out.copy_(_rotate_by_formula(x, cos, sin, layout))
    r = 2 * cos.shape[-1]
    if r < x.shape[-1]:
        out[..., r:] = x[..., r:]
        x, rotated = x[..., :r], out[..., :r]
    else:
        rotated = out
    if layout == "half":
        _by_tiles(_rotate_halves, rotated, x, torch.cat((cos, cos), -1), sin)
    elif x.dtype == cos.dtype and _is_complex(x) and _is_complex(rotated):
        torch.mul(_as_complex(x), torch.complex(cos, sin), out=_as_complex(rotated))
    else:
        _by_tiles(_rotate_complex, rotated, x, torch.complex(cos, sin))
    return out


def _by_tiles(rotate: Callable[..., None], *tensors: Tensor) -> None:
    """Call ``rotate`` on slices of all tensors along the token axis, the last but one.

    ``rotate`` writes into its first argument. On a CPU a slice has as many tokens as
    stay in the processor's cache; elsewhere one slice has all tokens.
    """
    x = tensors[0]
    step = x.shape[-2]
    if x.device.type == "cpu":
        step = _TILE * step // max(1, x.numel())
    for tile in zip(*(t.split(max(1, step), -2) for t in tensors), strict=True):
        rotate(*tile)


def _rotate_halves(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    wide = x.to(cos.dtype)
    rotated = out if out.dtype == cos.dtype else torch.empty_like(wide)
    torch.mul(wide, cos, out=rotated)
    a, b = wide.chunk(2, -1)
    rotated_a, rotated_b = rotated.chunk(2, -1)
    rotated_a.addcmul_(b, sin, value=-1)
    rotated_b.addcmul_(a, sin)
    if rotated is not out:
        out.copy_(rotated)


def _rotate_complex(out: Tensor, x: Tensor, table: Tensor) -> None:
    wide = torch.empty(x.shape, dtype=table.real.dtype, device=x.device).copy_(x)
    _as_complex(wide).mul_(table)
    out.copy_(wide)


def _is_complex(x: Tensor) -> bool:
    """Return whether :func:`_as_complex` can view ``x`` as complex numbers.

    That needs a last axis of adjacent numbers, and even strides and an even offset.
    """
    odd = any(stride % 2 for stride in (x.storage_offset(), *x.stride()[:-1]))
    return x.stride(-1) == 1 and not odd


def _as_complex(x: Tensor) -> Tensor:
    """View the interleaved pairs (a, b) of ``x`` as complex numbers a + ib."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


class _PairRotation(torch.autograd.Function):
    """Autograd function of pair rotation, whose gradient is the inverse rotation.

    The function serves tables (cosines and sines) that need no gradient. The rotated
    features are linear in the features and in the table, so that its forward-mode
    derivative is a sum of two rotations.
    """

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        return _rotate_into(out, x, cos, sin, layout)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, cos, sin, ctx.layout = inputs
        ctx.save_for_backward(cos, sin)
        ctx.save_for_forward(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        cos, sin = ctx.saved_tensors
        return _PairRotation.apply(gradient, cos, -sin, ctx.layout), None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        x, cos, sin = ctx.saved_tensors
        d_x, d_cos, d_sin, _ = (0 if t is None else t for t in tangents)
        r = 2 * cos.shape[-1]
        by_table = _rotate_by_formula(
            x[..., :r], d_cos + 0 * cos, d_sin + 0 * sin, ctx.layout
        )
        by_table = nn.functional.pad(by_table, (0, x.shape[-1] - r))
        return _rotate_by_formula(d_x + 0 * x, cos, sin, ctx.layout) + by_table

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return torch.vmap(_rotate_by_formula, in_dims)(*inputs), 0


def rotate_blocks(
    x: Float[Tensor, "*batch tokens d"],
    rotation: Float[Tensor, "*rows tokens blocks block block"],
) -> Float[Tensor, "*batch tokens d"]:
    """Multiply each block of b features by its own b × b matrix. See ``def-lie``.

    Products are formed in the dtype of ``rotation`` (float32 or float64) and rounded
    once to the dtype of ``x``; no d × d matrix is made.

    Parameters
    ----------
    x
        Queries or keys.
    rotation
        The ``table`` of LieRE and ComRoPE; it broadcasts over the leading axes of
        ``x``, without a copy.

    Raises
    ------
    TypeError, ValueError
        A ``rotation`` in half precision, or whose shape does not fit ``x``.
    """
    require_floats("x", x)
    require_floats("rotation", rotation)
    if rotation.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"rotation must be float32 or float64, got {rotation.dtype}")
    blocks, b = rotation.shape[-3:-1] if rotation.ndim > 3 else (0, 0)
    rows = zip(reversed(rotation.shape[:-4]), reversed(x.shape[:-2]), strict=False)
    if (
        rotation.shape[-1:] != (b,)
        or (blocks * b,) != x.shape[-1:]
        or rotation.shape[-4:-3] != x.shape[-2:-1]
        or rotation.ndim - 2 > x.ndim
        or any(n not in (1, m) for n, m in rows)
    ):
        raise ValueError(
            "rotation must be [..., tokens, blocks, b, b] with blocks · b = d for x of "
            f"shape {list(x.shape)}, got {list(rotation.shape)}"
        )
    wide = x.to(torch.promote_types(x.dtype, rotation.dtype))
    rotation = rotation.to(wide.dtype)
    features = wide.unflatten(-1, (-1, b))
    with without_autocast(x):
        rotated = torch.einsum("...mij,...mj->...mi", rotation, features)
    return rotated.flatten(-2).to(x.dtype)


class Rotation(Encoding, Generic[Table]):
    """Base class of rotary encodings, which rotate features by a table of rotations.

    A subclass sets ``d``, and ``axes`` and ``heads`` where it has them, and defines
    ``_table``, which makes the table for given positions, and ``_rotate``, which
    applies the table to features. A table has the rotation of each position; its kind
    (cosines and sines of pairs, or blocks) is the subclass's.
    """

    d: int
    heads: int | None = None
    axes: int | None = None
    is_group = False  # whether R(x) R(y) = R(x + y), so that keys can be re-rotated
    _features = 1  # trailing axes of a table after the token axis

    def require(self, layer: Sizes) -> None:
        """Raise unless the layer fits this rotation.

        Its head dimension must be ``d``, and ``heads`` must divide its number of
        key-value heads.
        """
        if self.d != layer.d or (self.heads and layer.kv_heads % self.heads):
            heads = f" and a multiple of {self.heads} heads" if self.heads else ""
            raise ValueError(
                f"{type(self).__name__} was made for d = {self.d}{heads}, the layer "
                f"has d = {layer.d} and {layer.kv_heads} key-value heads"
            )

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> Table:
        raise NotImplementedError

    def _table_of_shifts(
        self, shifts: Tensor | range, dtype: torch.dtype, device: Device
    ) -> Table:
        """Return the table that rotates keys further, by shifts of their positions.

        The keys are rotated already. The table has a rotation for each shift, in
        ``dtype``; by default the rotation of a position is that of an equal shift.
        """
        return self._table(shifts, dtype, device)

    def _rotate(self, x: Tensor, table: Table) -> Tensor:
        raise NotImplementedError

    def table(
        self,
        positions: Positions,
        *,
        dtype: torch.dtype = torch.float32,
        device: Device = None,
    ) -> Table:
        """Return the table by which :meth:`forward` rotates features, in ``dtype``.

        Cosines and sines for :func:`rotate_pairs`, or blocks for :func:`rotate_blocks`,
        with an axis of heads before the tokens where each head has its own table.
        Angles are float64 whatever ``dtype`` is. ``device`` matters for a range or a
        list; a tensor of positions stays on its device. Without trainable parameters
        one table serves every layer.
        """
        require_float_dtype("dtype", dtype)
        positions = from_list(positions, device)
        require_positions(positions)
        if self.axes is not None and (
            isinstance(positions, range)
            or positions.ndim < 2
            or positions.shape[-1] != self.axes
        ):
            given = "a range" if isinstance(positions, range) else list(positions.shape)
            raise ValueError(
                f"positions must be [..., tokens, {self.axes}], got {given}"
            )
        if isinstance(positions, Tensor):
            device = positions.device
        return self._table(positions, dtype, device)

    def forward(
        self, x: Float[Tensor, "*batch tokens d"], positions: Positions
    ) -> Float[Tensor, "*batch tokens d"]:
        """Rotate the features of ``x`` by the positions of its tokens.

        ``positions`` is ``[tokens]``, ``[batch, tokens]`` or a range; with several
        coordinates ``[tokens, axes]`` or ``[batch, tokens, axes]``. The result has the
        dtype of ``x``; angles are float64, products at least float32. An encoding with
        parameters for each head takes ``[…, heads, tokens, d]``, or a multiple of its
        heads, of which neighbors share parameters (grouped queries).
        """
        return self._rotate(x, self._for_heads(x, self._table_for(x, positions)))

    def rotate(
        self,
        q: Float[Tensor, "*batch tokens d"],
        k: Float[Tensor, "*kv_batch tokens d"],
        positions: Positions,
    ) -> tuple[Float[Tensor, "*batch tokens d"], Float[Tensor, "*kv_batch tokens d"]]:
        """Rotate queries and keys by ``positions``, which are the positions of both."""
        require_floats("q", q)
        require_floats("k", k)
        if k.dtype != q.dtype or k.shape[-2:] != q.shape[-2:]:
            raise ValueError(
                f"q and k must agree in dtype, tokens and d, got {q.dtype} "
                f"{list(q.shape)} and {k.dtype} {list(k.shape)}"
            )
        return self._rotate_both(q, k, self._table_for(q, positions))

    def rotate_in_model(
        self, q: Tensor, k: Tensor, positions: Tensor, shared: Shared
    ) -> tuple[Tensor, Tensor]:
        """Return queries and keys rotated by a table made once for all layers.

        The table has the rotation of each position; ``shared`` keeps it for one forward
        pass.
        """
        if getattr(self.rotate, "__func__", None) is not Rotation.rotate:
            return self.rotate(q, k, positions)
        key = self, positions, q.shape, q.dtype
        table = shared.once(lambda: self._table_for(q, positions), *key)
        return self._rotate_both(q, k, table)

    def _rotate_both(self, q: Tensor, k: Tensor, table: Table) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys by ``table``, the rotations of their positions."""
        heads = q.shape[-3:-2], k.shape[-3:-2]
        is_shared = self.heads is None and all(heads)
        if is_shared and not is_compiling() and _is_small_step(q):
            both = self._rotate(torch.cat((q, k), -3), table)
            rotated_q, rotated_k = both.split([n for (n,) in heads], -3)
            return rotated_q, rotated_k
        return (
            self._rotate(q, self._for_heads(q, table)),
            self._rotate(k, self._for_heads(k, table)),
        )

    def rotation_state(self) -> tuple[Tensor, ...]:
        """Return the tensors that determine the angles: all parameters and buffers.

        The tuple is empty if the encoding's keys cannot be moved by a further rotation.
        """
        return super().rotation_state() if self.is_group else ()

    def move_keys(
        self,
        k: Float[Tensor, "batch kv_heads keys d"],
        shifts: Shaped[Tensor, "rows keys *position"],
    ) -> Float[Tensor, "batch kv_heads keys d"]:
        """Rotate cached keys further: k becomes R_Δ k, with its position shift Δ.

        Equation ``def-cache-rerotation``. ``shifts`` are the new positions minus the
        old ones. Encodings whose keys cannot be moved by a further rotation raise a
        ``ValueError``.
        """
        if not self.is_group or self.uses("values"):
            raise ValueError(
                f"keys of {type(self).__name__} cannot be shifted by a further "
                "rotation: compute them anew"
            )
        return self._rotate(k, self._for_heads(k, self._table_for(k, shifts, True)))

    def _table_for(
        self, x: Tensor, positions: Positions, further: bool = False
    ) -> Table:
        require_floats("x", x)
        if x.shape[-1:] != (self.d,):
            raise ValueError(
                f"x must be [..., tokens, {self.d}], got shape {list(x.shape)}"
            )
        positions = align_positions(positions, x, self.axes)
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        make = self._table_of_shifts if further else self._table
        return make(positions, dtype, x.device)

    def _for_heads(self, x: Tensor, table: Table) -> Table:
        """Return ``table`` with each head's rotations repeated for the heads of ``x``.

        Neighboring heads of ``x`` share the rotations of one head of the table (grouped
        queries). A table without heads is returned unchanged.
        """
        if self.heads is None:
            return table
        if x.ndim < 3 or x.shape[-3] % self.heads:
            raise ValueError(
                f"x must be [..., heads, tokens, d] with a multiple of {self.heads} "
                f"heads, got shape {list(x.shape)}"
            )
        group = x.shape[-3] // self.heads
        if group == 1:
            return table
        head_axis = -2 - self._features
        if isinstance(table, tuple):
            cos, sin = (t.repeat_interleave(group, head_axis) for t in table)
            return cos, sin
        return table.repeat_interleave(group, head_axis)


class PairRotation(Rotation[tuple[Tensor, Tensor]]):
    """Base class of rotations of pairs of features, by a table of cosines and sines."""

    layout: Layout

    def _rotate(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        return rotate_pairs(x, *table, layout=self.layout)


def given_parameter(
    name: str, value: Tensor, shape: tuple[int | str, ...]
) -> nn.Parameter:
    """Return a copy of ``value`` to train; raise unless finite and of ``shape``.

    A string in ``shape`` stands for any positive size. ``name`` is the parameter's name
    in error messages.
    """
    require_floats(name, value)
    if value.ndim != len(shape) or any(
        n != m if isinstance(m, int) else n == 0
        for n, m in zip(value.shape, shape, strict=True)
    ):
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"{name} must be [{wanted}], got shape {list(value.shape)}")
    require_all_finite(name, value)
    return nn.Parameter(value.detach().clone())


def require_optional_heads(heads: int | None) -> int | None:
    """Return ``heads`` if it is ``None`` (shared by all) or positive, else raise."""
    return None if heads is None else require_dimension("heads", heads, 1)
