"""What the modules ask of their tensor arguments, and tables of cosines and sines."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

Positions = Shaped[Tensor, "*rows tokens"] | Shaped[Tensor, "*rows tokens axes"] | range


def require_floats(name: str, x: Tensor) -> None:
    """Raise unless ``x`` is a tensor of real floats."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must hold floats, got {x.dtype}")


def require_positions(positions: Positions, like: Tensor | None = None) -> None:
    """Raise unless ``positions`` are exact, finite and on the device of ``like``.

    A range is always valid. Finiteness of floats is not checked under
    ``torch.compile``, where looking at values would break the graph.
    """
    if isinstance(positions, range):
        return
    if not isinstance(positions, Tensor):
        raise TypeError(
            f"positions must be a tensor or a range, got {type(positions).__name__}"
        )
    if positions.dtype in (torch.bfloat16, torch.float16):
        exact = 256 if positions.dtype == torch.bfloat16 else 2048
        raise TypeError(
            f"positions are {positions.dtype}, which holds integers exactly only up "
            f"to {exact}; give integers, float32 or float64"
        )
    if positions.is_complex() or positions.dtype == torch.bool:
        raise TypeError(f"positions must be real numbers, got {positions.dtype}")
    if like is not None and positions.device != like.device:
        raise ValueError(
            f"positions are on {positions.device}, the features on {like.device}; "
            "move one of them"
        )
    if (
        positions.is_floating_point()
        and not positions.is_meta
        and not torch.compiler.is_compiling()
        and not positions.isfinite().all()
    ):
        bad = positions[~positions.isfinite()][0].item()
        raise ValueError(f"positions must be finite, got {bad}")


def length(positions: range) -> int:
    """``len``, by arithmetic that ``torch.compile`` can trace for changing ends."""
    return max(0, -((positions.start - positions.stop) // positions.step))


def align_positions(
    positions: Positions, x: Tensor, axes: int | None = None
) -> Shaped[Tensor, "..."] | range:
    """Shape ``positions`` so that it broadcasts over ``x`` without its feature axis.

    ``[tokens]`` or a range serves every leading axis of ``x``; ``[batch, tokens]``
    gives each row of the first axis of ``x`` positions of its own. Where a position
    has ``axes`` coordinates, a last axis holds them. Any other shape is refused.
    """
    if x.ndim < 2:
        raise ValueError(f"x must be [..., tokens, d], got shape {list(x.shape)}")
    require_positions(positions, x)
    tokens = [x.shape[-2]] if axes is None else [x.shape[-2], axes]
    given = [length(positions)] if isinstance(positions, range) else [*positions.shape]
    if given == tokens:
        return positions
    if x.ndim > 2 and given == [x.shape[0], *tokens]:
        return positions.reshape(x.shape[0], *[1] * (x.ndim - 3), *tokens)
    last = "" if axes is None else f", {axes}"
    raise ValueError(
        f"positions must be [tokens{last}] or [batch, tokens{last}] for x of shape "
        f"{list(x.shape)}, got shape {given}"
    )


def angles(
    positions: Positions, frequencies: Float[Tensor, "*heads pairs"]
) -> Float[Tensor, "*rows tokens pairs"]:
    """Position · frequency in float64, one number times ``[pairs]``."""
    if isinstance(positions, range):
        steps = torch.arange(length(positions), device=frequencies.device)
        positions = positions.start + positions.step * steps
    return positions.to(torch.float64)[..., None] * frequencies


def cos_sin(
    angle: Float[Tensor, "*rows tokens pairs"], dtype: torch.dtype
) -> tuple[Float[Tensor, "*rows tokens pairs"], Float[Tensor, "*rows tokens pairs"]]:
    """Cosine and sine of float64 angles, in ``dtype``.

    Up to position 2²⁰ a float32 result is the true value but for its own rounding,
    at most 2⁻²⁵, and 10⁻⁹ for the angle; a product in float32 would be off by 6e-2.
    """
    return angle.cos().to(dtype), angle.sin().to(dtype)
