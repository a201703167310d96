"""Helpers for tensors: argument checks, positions as tensors, cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch._C import _functorch
from torch.types import Device

from posedu._arguments import LARGEST_ANGLE
from posedu.torch._cut import current_cut

Positions = Shaped[Tensor, "*rows_and_tokens"] | range | Sequence[object]

# Absolute positions below this are exact, given float64 angles; ``None``: all values
# of the dtype are.
_EXACT_BELOW = {
    torch.float64: 2**53,
    torch.float32: 2**24,
    torch.int64: 2**53,
    torch.int32: None,
    torch.int16: None,
    torch.int8: None,
    torch.uint8: None,
}


def require_floats(name: str, x: Tensor) -> None:
    """Raise unless ``x`` is a dense tensor of real floats of 16 bits or more.

    ``name`` is the name of ``x`` in the error message.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
    if x.layout != torch.strided:
        raise TypeError(f"{name} must be dense, got {x.layout}")
    require_float_dtype(name, x.dtype)


def require_float_dtype(name: str, dtype: torch.dtype) -> None:
    """Raise unless ``dtype`` is a type of real floats of 16 bits or more.

    ``name`` is the name of the argument that has the dtype, for the error message.
    """
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} must be a torch.dtype, got {dtype!r}")
    if not dtype.is_floating_point:
        raise TypeError(f"{name} must hold floats, got {dtype}")
    if dtype.itemsize < 2:
        raise TypeError(f"{name} must hold floats of 16 bits or more, got {dtype}")


def wide_dtype(x: Tensor, parameter: Tensor) -> torch.dtype:
    """Return the dtype to compute in: the wider one of both tensors', or float32."""
    own = torch.promote_types(x.dtype, parameter.dtype)
    return torch.promote_types(own, torch.float32)


def require_shape(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless ``x`` is a tensor of finite floats of the given shape.

    ``name`` is the name of ``x`` in the error message. Whether numbers are finite is
    checked on a CPU only.
    """
    require_floats(name, x)
    if x.shape != shape:
        raise ValueError(f"{name} must be {list(shape)}, got shape {list(x.shape)}")
    require_all_finite(name, x)


def require_all_finite(name: str, x: Tensor) -> None:
    """Raise if ``x`` is on a CPU and has a number that is not finite.

    ``name`` is the name of ``x`` in the error message.
    """
    if x.is_cpu and not x.isfinite().all():
        raise ValueError(f"{name} must be finite")


def may_look(x: Tensor) -> bool:
    """Return whether the values of ``x`` can be read without waiting: on a CPU.

    To read values on another device, the program would wait for the device.
    """
    return x.is_cpu and can_read(x)


def can_read(x: Tensor) -> bool:
    """Return whether ``x`` has values: not on "meta", under compile or under vmap."""
    return not (x.is_meta or torch.compiler.is_compiling() or _is_batched(x))


def is_transformed(x: Tensor) -> bool:
    """Return whether ``torch.func`` batches or differentiates with respect to ``x``."""
    return is_wrapped(x) and (x.requires_grad or _is_batched(x))


def is_wrapped(x: Tensor) -> bool:
    """Return whether a transform of ``torch.func`` is tracing ``x``."""
    if torch.compiler.is_compiling():
        return False
    return _functorch.is_functorch_wrapped_tensor(x)


def _is_batched(x: Tensor) -> bool:
    while _functorch.is_gradtrackingtensor(x):
        x = _functorch.get_unwrapped(x)
    return _functorch.is_batchedtensor(x)


def require_positions(positions: Tensor | range, like: Tensor | None = None) -> None:
    """Raise unless ``positions`` are exact, finite and on the device of ``like``.

    Positions are exact below 2⁵³ (2²⁴ for float32), where a float holds every integer.
    Values are checked on a CPU only (:func:`may_look`).
    """
    if isinstance(positions, range):
        _require_exact_range(positions)
        return
    require_position_dtype("positions", positions)
    if like is not None and positions.device != like.device:
        raise ValueError(
            f"positions are on {positions.device}, the features on {like.device}; "
            "move one of them"
        )
    dtype = positions.dtype
    limit = _EXACT_BELOW[dtype]
    if limit is None or not may_look(positions):
        return
    exact = (-limit < positions) & (positions < limit)
    if not exact.all():
        bad = positions[~exact][0].item()
        if not math.isfinite(bad):
            raise ValueError(f"positions must be finite, got {bad}")
        raise ValueError(
            f"positions of {dtype} must be below {limit} in size to be exact, got {bad}"
        )


def require_position_dtype(name: str, positions: Tensor) -> None:
    """Raise unless ``positions`` are a dense tensor of a dtype that holds positions.

    These are int8 to int64, uint8, float32 and float64. ``name`` is the argument's name
    in the error message.
    """
    if not isinstance(positions, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor, got {type(positions).__name__}"
        )
    dtype = positions.dtype
    if dtype.is_floating_point and dtype.itemsize < 4:
        raise TypeError(
            f"{name} are {dtype}, which holds integers exactly only up to "
            f"{2 / torch.finfo(dtype).eps:.0f}; give integers, float32 or float64"
        )
    if dtype not in _EXACT_BELOW:
        raise TypeError(f"{name} must be real numbers, got {dtype}")
    if positions.layout != torch.strided:
        raise TypeError(f"{name} must be dense, got {positions.layout}")


def _require_exact_range(positions: range) -> None:
    if torch.compiler.is_compiling():
        return
    for end in (positions.start, positions.stop):
        if abs(end) > 2**53:
            raise ValueError(
                f"positions must be below {2**53} in size to be exact, got {positions}"
            )


def require_input(x: Tensor | None, d_model: int, weight: Tensor) -> Tensor:
    """Return the input ``x`` of a layer; raise unless it fits the layer's weights.

    The shape must be ``[batch, tokens, d_model]``, dtype and device those of
    ``weight``; under autocast the dtype may differ.
    """
    if x is None:
        raise ValueError(f"x must be [batch, tokens, {d_model}], got none")
    require_floats("x", x)
    if x.ndim != 3 or x.shape[-1] != d_model:
        raise ValueError(f"x must be [batch, tokens, {d_model}], got {list(x.shape)}")
    if x.device != weight.device:
        raise ValueError(
            f"x is on {x.device}, the weights on {weight.device}; move one of them"
        )
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"x is {x.dtype}, the weights are {weight.dtype}; convert one of them"
        )
    return x


def as_positions(
    positions: Positions | None,
    shape: tuple[int, ...] | None,
    like: Tensor,
    *,
    start: int,
    reader: str,
) -> Shaped[Tensor, "rows tokens *position"]:
    """Return positions as int64 or float64 tensor, ``[1 or batch, tokens, *shape]``.

    ``like`` is ``[batch, …, tokens, d]``; ``shape`` is the shape of one position,
    ``None`` where any shape is accepted. Default positions count on from ``start``; an
    encoding whose positions have several coordinates has no default positions.
    ``reader`` is the encoding's name, for error messages.

    Raises
    ------
    TypeError, ValueError
        Positions that are not finite, not exact, on another device or of another
        shape; no positions where there is no default.
    """
    if positions is None:
        if shape:
            batch, tokens = like.shape[0], like.shape[-2]
            last = ", ".join(map(str, shape))
            raise ValueError(
                f"{reader} needs positions [{tokens}, {last}] or "
                f"[{batch}, {tokens}, {last}], got none"
            )
        cut, stop = current_cut(), start + like.shape[-2]
        if not torch.compiler.is_compiling():
            _require_exact_range(range(start, stop))
        if cut is None or start:  # after tokens in a cache all ranks have the new ones
            positions = torch.arange(start, stop, device=like.device)
        else:
            positions = cut.places(like.shape[-2], like.device)
    else:
        positions = from_list(positions, like.device)
        require_positions(positions, like)
    if isinstance(positions, range):
        positions = as_tensor(positions, like.device)
    batch, tokens = like.shape[0], like.shape[-2]
    if shape is None:
        is_shared = positions.ndim < 2 or positions.shape[:2] not in (
            (1, tokens),
            (batch, tokens),
        )
        shape = positions.shape[1 if is_shared else 2 :]
    # Tuples of other lengths are compared too, which an exported program remembers.
    if positions.ndim == 1 + len(shape) and positions.shape == (tokens, *shape):
        positions = positions[None]
    elif positions.shape not in ((1, tokens, *shape), (batch, tokens, *shape)):
        last = "".join(f", {n}" for n in shape)
        raise ValueError(
            f"positions must be [{tokens}{last}] or [{batch}, {tokens}{last}], "
            f"got shape {list(positions.shape)}{_hint(positions.shape, like)}"
        )
    is_real = positions.is_floating_point()
    return positions.to(torch.float64 if is_real else torch.int64)


def from_list(positions: Positions, device: Device) -> Tensor | range:
    """Convert a list of positions to an exact tensor; keep a tensor or range as is."""
    if isinstance(positions, Tensor | range):
        return positions
    if isinstance(positions, str) or not isinstance(positions, Sequence):
        raise TypeError(
            "positions must be a tensor, a range or a list, got "
            f"{type(positions).__name__}"
        )
    try:
        exact = torch.tensor(positions, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"positions must be a list of numbers, or of rows of them, got {positions}"
        ) from None
    if exact.is_floating_point():
        exact = torch.tensor(positions, dtype=torch.float64, device="cpu")
    return exact.to(device)


def length(positions: range) -> int:
    """Return ``len(positions)``, by arithmetic that ``torch.compile`` can trace."""
    return max(0, -((positions.start - positions.stop) // positions.step))


def align_positions(
    positions: Positions, x: Tensor, axes: int | None = None
) -> Shaped[Tensor, "..."] | range:
    """Shape ``positions`` so that it broadcasts over ``x`` without its feature axis.

    ``[tokens]``, ``[1, tokens]`` or a range serves every leading axis of ``x``;
    ``[batch, tokens]`` gives each index of the first axis its own positions. Where a
    position has ``axes`` coordinates, a last axis holds them. Other shapes are refused.
    """
    if x.ndim < 2:
        raise ValueError(f"x must be [..., tokens, d], got shape {list(x.shape)}")
    positions = from_list(positions, x.device)
    require_positions(positions, x)
    tokens = [x.shape[-2]] if axes is None else [x.shape[-2], axes]
    given = [length(positions)] if isinstance(positions, range) else [*positions.shape]
    if given == tokens:
        return positions
    if isinstance(positions, Tensor):
        if given == [1, *tokens]:
            return positions[0]
        if x.ndim > 2 and given == [x.shape[0], *tokens]:
            return positions.reshape(x.shape[0], *[1] * (x.ndim - 3), *tokens)
    last = "" if axes is None else f", {axes}"
    raise ValueError(
        f"positions must be [tokens{last}] or [batch, tokens{last}] for x of shape "
        f"{list(x.shape)}, got shape {given}{_hint(given, x)}"
    )


def _hint(given: Sequence[int], x: Tensor) -> str:
    """Return a hint on the order of x's axes, to end an error message.

    ``given`` is the shape of the refused positions. The hint is empty unless this shape
    suggests that the axes of tokens and of heads in ``x`` are swapped.
    """
    if x.ndim == 4 and x.shape[1] in given[:2]:
        return "; the axes are [batch, heads, tokens, d], not [batch, tokens, heads, d]"
    return ""


def angles(
    positions: Shaped[Tensor, "..."] | range, frequencies: Float[Tensor, "*heads pairs"]
) -> Float[Tensor, "*rows tokens pairs"]:
    """Return the angle position · frequency of each position and pair, in float64.

    An angle of the size s is off by up to 2⁻⁵³ s: beyond s = 2²⁹ by more than float32
    rounds its cosine.
    """
    return in_float64(positions, frequencies.device)[..., None] * frequencies


def require_exact_angles(
    name: str, sizes: Float[Tensor, "..."]
) -> Float[Tensor, "..."]:
    """Return ``sizes``, angles or norms of exponents; raise if one is above 2²⁹.

    Float64 holds larger angles less exactly than float32 would hold their cosines.
    Values are checked on a CPU only (:func:`may_look`). ``name`` says in the error
    message what the sizes are.
    """
    if may_look(sizes):
        far = sizes.abs() > LARGEST_ANGLE
        if far.any():
            raise ValueError(
                f"{name} must be at most 2**29 in size, where float64 still has "
                f"24 bits after the point, got {sizes[far][0].item():g}: positions or "
                "frequencies are too large"
            )
    return sizes


def in_float64(
    positions: Shaped[Tensor, "..."] | range, device: Device
) -> Float[Tensor, "..."]:
    """Return positions as a float64 tensor; a range is put on ``device``."""
    if isinstance(positions, range):
        positions = as_tensor(positions, device)
    return positions.to(torch.float64)


def as_tensor(positions: range, device: Device) -> Int[Tensor, "tokens"]:
    """Return a range of positions (which may be empty) as a tensor on ``device``."""
    steps = torch.arange(length(positions), device=device)
    return positions.start + positions.step * steps


def cos_sin(
    angle: Float[Tensor, "*rows tokens pairs"], dtype: torch.dtype
) -> tuple[Float[Tensor, "*rows tokens pairs"], Float[Tensor, "*rows tokens pairs"]]:
    """Return cosine and sine of float64 angles, in ``dtype``.

    Up to position 2²⁰ a float32 result differs from the true value by its own rounding,
    at most 2⁻²⁵, and by 10⁻⁹ for the angle; angles in float32 would be off by 6e-2.
    """
    return angle.cos().to(dtype), angle.sin().to(dtype)


def split_exactly(
    t: Float[Tensor, "*rows n"], dtype: torch.dtype, pieces: int
) -> list[Float[Tensor, "*rows n"]]:
    """Split ``t`` into summands in ``dtype`` that add up to ``t``, the largest first.

    ``pieces`` is the number of summands. In every summand but the last, all numbers of
    a row (the last axis) are multiples of one power of 2, so that their differences are
    exact. The gradient flows through the last summand only.
    """
    if t.numel() == 0:
        return [t.to(dtype)] * pieces
    bits = -round(math.log2(torch.finfo(dtype).eps))
    largest = t.detach().abs().amax(-1, keepdim=True)
    tiny = torch.finfo(t.dtype).tiny
    unit = largest.clamp(min=tiny).log2().floor().add(1).exp2()
    parts, rest = [], t
    for _ in range(1, pieces):
        unit = unit * 2.0**-bits
        part = (rest.detach() / unit).round() * unit
        parts.append(part.to(dtype))
        rest = rest - part
    return [*parts, rest.to(dtype)]


def seeded_normal(
    shape: tuple[int, ...], deviation: float, seed: int
) -> Float[Tensor, "*shape"]:
    """Draw normal float32 numbers from a seed, the same numbers on every device.

    Their mean is 0, their standard deviation ``deviation``.

    Raises
    ------
    ValueError
        A deviation so large that a number may overflow float32.
    """
    if deviation > torch.finfo(torch.float32).max / 16:  # no normal number is above 16
        raise ValueError(
            f"numbers of deviation {deviation:g} must be finite in float32"
        )
    generator = torch.Generator("cpu").manual_seed(seed)
    normal = torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
    return (deviation * normal).to(torch.empty(0).device)
