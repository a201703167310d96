"""Base class of encodings that add a code of a point to the first features."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from posedu._arguments import require_dimension
from posedu.torch._tensors import (
    Positions,
    align_positions,
    from_list,
    in_float64,
    require_float_dtype,
    require_floats,
    require_positions,
)
from posedu.torch.encoding import Encoding


class PointCode(Encoding):
    """Encoding that adds a code of each position to the first features of a vector.

    Codes are computed in float64 and rounded once, to the dtype of the input vectors.
    A subclass defines ``_code``, from positions to codes, ``[..., width]``.
    ``coordinates`` is the number of coordinates of a position, and ``width`` that of
    the features of a code, at most ``d_model``.
    """

    d_model: int

    def __init__(self, d_model: int, *, coordinates: int, width: int):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        if d_model < width:
            raise ValueError(
                f"d_model must be at least {width}, the width of the code, got "
                f"{d_model}"
            )
        self.coordinates = coordinates
        self.width = width

    @property
    def position_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of one position: ``(coordinates,)``."""
        return (self.coordinates,)

    def table(
        self,
        positions: Positions,
        *,
        dtype: torch.dtype = torch.float32,
        device: Device = None,
    ) -> Float[Tensor, "*rows tokens width"]:
        """Return the code of each position, in ``dtype``, without other features.

        Positions are ``[..., tokens, coordinates]``. ``device`` matters only for
        positions in a list.
        """
        require_float_dtype("dtype", dtype)
        at = from_list(positions, device)
        require_positions(at)
        if isinstance(at, range) or at.ndim < 2 or at.shape[-1] != self.coordinates:
            given = "a range" if isinstance(at, range) else list(at.shape)
            raise ValueError(
                f"positions must be [..., tokens, {self.coordinates}], got {given}"
            )
        return self._code(at.to(torch.float64)).to(dtype)

    def embed(
        self, x: Float[Tensor, "*batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """Add the code of its position to each vector's first features, in x's dtype.

        ``positions`` is ``[tokens, coordinates]``, with or without a batch axis in
        front.
        """
        require_floats("x", x)
        if x.shape[-1:] != (self.d_model,):
            raise ValueError(
                f"x must be [..., tokens, {self.d_model}], got shape {list(x.shape)}"
            )
        at = in_float64(align_positions(positions, x, self.coordinates), x.device)
        code = self._code(at).to(x.dtype)
        return x + nn.functional.pad(code, (0, self.d_model - self.width))

    forward = embed

    def _code(self, at: Float[Tensor, "*rows coordinates"]) -> Tensor:
        raise NotImplementedError
