"""The integrated positional encoding of mip-NeRF, as a PyTorch module."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from posedu._arguments import (
    NeRFLayout,
    NeRFUnit,
    require_choice,
    require_dimension,
)
from posedu.torch.absolute._point_code import PointCode
from posedu.torch.absolute.nerf import angles_of_octaves, arrange, scaled_by_octaves


class Integrated(PointCode):
    """The mean of NeRF's code over an uncertain position (arXiv 2103.13415 §3.1).

    A position has the coordinates of a mean, then as many standard deviations, of which
    only the squares are used. The code is added to the first features of the input;
    :meth:`table` returns the code itself. No parameters. Equation ``def-integrated``.

    Parameters
    ----------
    d_model
        Width of the input vectors, at least that of the code: 2 · octaves · axes.
    axes
        Coordinates of the mean, and as many standard deviations.
    octaves
        Number of frequencies; the authors' code has 16 for points.
    unit, layout
        Whether an angle has the factor π, and the order of the features; see
        :func:`posedu.numpy.absolute.nerf_features`. The authors' code: ``"radians"``,
        ``"half"``.

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
    ):
        require_dimension("axes", axes, 1)
        require_dimension("octaves", octaves, 1)
        super().__init__(d_model, coordinates=2 * axes, width=2 * octaves * axes)
        self.octaves = octaves
        self.unit = require_choice("unit", unit, NeRFUnit)
        self.layout = require_choice("layout", layout, NeRFLayout)

    def _code(self, at: Float[Tensor, "*rows coordinates"]) -> Tensor:
        mean, deviation = at.chunk(2, -1)
        angle = angles_of_octaves(mean, self.octaves, self.unit)
        spread = scaled_by_octaves(deviation, self.octaves, self.unit)
        damping = (-spread.square() / 2).exp()
        return arrange(damping * angle.sin(), damping * angle.cos(), self.layout)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, axes={self.coordinates // 2}, octaves={self.octaves}, "
            f"unit={self.unit!r}, layout={self.layout!r}"
        )
