"""NeRF's encoding, sines and cosines at powers of two, as a PyTorch module."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import (
    NeRFLayout,
    NeRFUnit,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.torch._tensors import require_exact_angles
from posedu.torch.absolute._point_code import PointCode


class NeRF(PointCode):
    """NeRF's encoding of points (arXiv 2003.08934 Eq. 4), added to the input.

    The paper gives the code to a network: for that use :meth:`table`. A model that is
    wider than the code gets it in its first features. No parameters. Equation
    ``def-nerf-embed``.

    Parameters
    ----------
    d_model
        Width of the input vectors, at least that of the code: 2 · octaves · axes
        features, and ``axes`` more with the input.
    axes
        Coordinates of a position.
    octaves
        Number of frequencies: 10 for points, 4 for directions in the paper.
    unit, layout, append_input
        Whether an angle has the factor π, the order of the features, and whether the
        coordinates stand in front; see :func:`posedu.numpy.absolute.nerf_features`. The
        paper: ``"half turns"``, ``"axes"``, ``False``. The authors' code:
        ``"radians"``, ``"octaves"``, ``True``.

    Raises
    ------
    TypeError, ValueError
        Sizes that are no positive integers, ``d_model`` below the width of the code,
        unknown keywords; positions whose angles are above 2²⁹, on a CPU.
    """

    def __init__(
        self,
        d_model: int,
        *,
        axes: int,
        octaves: int,
        unit: NeRFUnit,
        layout: NeRFLayout,
        append_input: bool,
    ):
        require_dimension("axes", axes, 1)
        require_dimension("octaves", octaves, 1)
        own = axes if require_bool("append_input", append_input) else 0
        super().__init__(d_model, coordinates=axes, width=2 * octaves * axes + own)
        self.octaves = octaves
        self.unit = require_choice("unit", unit, NeRFUnit)
        self.layout = require_choice("layout", layout, NeRFLayout)
        self.append_input = append_input

    def _code(self, at: Float[Tensor, "*rows coordinates"]) -> Tensor:
        angle = angles_of_octaves(at, self.octaves, self.unit)
        features = arrange(angle.sin(), angle.cos(), self.layout)
        return torch.cat((at, features), -1) if self.append_input else features

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, axes={self.coordinates}, octaves={self.octaves}, "
            f"unit={self.unit!r}, layout={self.layout!r}, "
            f"append_input={self.append_input}"
        )


def angles_of_octaves(
    at: Float[Tensor, "*rows axes"], octaves: int, unit: NeRFUnit
) -> Float[Tensor, "*rows octaves axes"]:
    """Return 2^ℓ x_a, times π if ``unit`` is half turns; refuse angles above 2²⁹."""
    return require_exact_angles("angles", scaled_by_octaves(at, octaves, unit))


def scaled_by_octaves(
    t: Float[Tensor, "*rows axes"], octaves: int, unit: NeRFUnit
) -> Float[Tensor, "*rows octaves axes"]:
    """Return ``t`` times the frequency of each octave, 2^ℓ or 2^ℓ π."""
    doubled = torch.stack([t * 2.0**octave for octave in range(octaves)], -2)
    return doubled * math.pi if unit == "half turns" else doubled


def arrange(
    sin: Float[Tensor, "*rows octaves axes"],
    cos: Float[Tensor, "*rows octaves axes"],
    layout: NeRFLayout,
) -> Float[Tensor, "*rows features"]:
    """Return sines and cosines in one axis, in the order of ``layout``."""
    if layout == "half":
        return torch.stack((sin, cos), -3).flatten(-3)
    waves = torch.stack((sin, cos), -2)  # [octaves, functions, axes]
    return (waves if layout == "octaves" else waves.movedim(-1, -3)).flatten(-3)
