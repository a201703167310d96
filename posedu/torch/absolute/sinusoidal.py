"""Sinusoidal encodings, added to the input, as a PyTorch module."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import (
    Layout,
    Spacing,
    require_base,
    require_choice,
    require_dimension,
)
from posedu.torch._tensors import (
    Positions,
    align_positions,
    angles,
    cos_sin,
    from_list,
    require_float_dtype,
    require_floats,
    require_positions,
)
from posedu.torch.encoding import Encoding
from posedu.torch.frequencies import frequencies


class Sinusoidal(Encoding):
    """The sinusoidal encoding of arXiv 1706.03762 §3.5, added to the input.

    The paper multiplies the token embeddings by √d_model first; this module leaves that
    to the model. No parameters, no maximal length.

    Parameters
    ----------
    d_model
        Width of the input vectors, even.
    layout
        ``"interleaved"`` (the paper) or ``"half"`` (tensor2tensor, fairseq).
    base
        Base of the frequencies. Default 10000 (the paper).
    spacing
        Formula of the frequencies: ``"paper"`` or ``"tensor2tensor"``; see
        :func:`posedu.numpy.frequencies.frequencies`.

    Raises
    ------
    TypeError, ValueError
        ``d_model`` odd or not positive, ``base`` not above 1, unknown ``layout`` or
        ``spacing``.
    """

    d_model: int

    def __init__(
        self,
        d_model: int,
        *,
        layout: Layout,
        base: float = 10000.0,
        spacing: Spacing = "paper",
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model)
        self.layout = require_choice("layout", layout, Layout)
        self.base = require_base(base)
        self.spacing = require_choice("spacing", spacing, Spacing)

    def table(
        self,
        positions: Positions,
        *,
        dtype: torch.dtype = torch.float32,
        device: Device = None,
    ) -> Float[Tensor, "*rows tokens d_model"]:
        """Return the sinusoidal vector of each position. Equation ``def-sinusoidal``.

        Angles are float64 whatever ``dtype`` is. ``device`` matters only for positions
        in a range or a list; a tensor of positions stays on its own device.
        """
        require_float_dtype("dtype", dtype)
        positions = from_list(positions, device)
        require_positions(positions)
        if isinstance(positions, Tensor):
            device = positions.device
        return self._table(positions, dtype, device)

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> Tensor:
        omega = frequencies(
            self.d_model, base=self.base, spacing=self.spacing, device=device
        )
        cos, sin = cos_sin(angles(positions, omega), dtype)
        pair_axis = -1 if self.layout == "interleaved" else -2
        return torch.stack((sin, cos), pair_axis).flatten(-2)

    def embed(
        self, x: Float[Tensor, "*batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """Add the sinusoidal vector of its position to each vector, in x's dtype.

        ``positions`` is a range, ``[tokens]`` or ``[batch, tokens]``.
        """
        require_floats("x", x)
        if x.shape[-1:] != (self.d_model,):
            raise ValueError(
                f"x must be [..., tokens, {self.d_model}], got shape {list(x.shape)}"
            )
        positions = align_positions(positions, x)
        return x + self._table(positions, x.dtype, x.device)

    forward = embed

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, layout={self.layout!r}, base={self.base:g}, "
            f"spacing={self.spacing!r}"
        )
