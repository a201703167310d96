"""Golden gate RoPE: frequency vectors whose directions follow the golden ratio."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import (
    GoldenRecipe,
    Layout,
    require_choice,
    require_dimension,
    require_order,
    require_recipe,
)
from posedu.torch._tensors import cos_sin, in_float64, require_exact_angles
from posedu.torch.rotary.rotation import PairRotation, require_optional_heads


def golden_directions(
    count: int, *, recipe: GoldenRecipe, axes: int = 2, device: Device = None
) -> Float[Tensor, "count axes"]:
    """Return unit vectors that are spread over all directions, in float64.

    See :func:`posedu.numpy.rotary.golden_directions`, which explains the two recipes.
    Equations ``def-golden-angle`` and ``def-golden-quantiles``.
    """
    require_dimension("count", count, 1)
    require_dimension("axes", axes, 1)
    i = torch.arange(1, count + 1, dtype=torch.float64, device=device)
    if require_recipe(recipe, axes) == "angles":
        angle = math.pi * (i / ((1 + math.sqrt(5)) / 2)).frac()
        return torch.stack((angle.cos(), angle.sin()), -1)
    g = 2.0
    for _ in range(64):  # The distance from the root falls to less than a third.
        g = (1 + g) ** (1 / (axes + 1))
    steps = g ** -torch.arange(1, axes + 1, dtype=torch.float64, device=device)
    cloud = torch.special.ndtri(torch.outer(i, steps).frac())
    return torch.nn.functional.normalize(cloud, dim=-1, eps=0.0)


def golden_gate_frequencies(
    d: int,
    *,
    recipe: GoldenRecipe,
    slowest: float,
    fastest: float,
    axes: int = 2,
    heads: int | None = None,
    device: Device = None,
) -> Float[Tensor, "*heads pairs axes"]:
    """Return the frequency vectors of golden gate RoPE in float64.

    Equation ``def-golden-gate``. See
    :func:`posedu.numpy.rotary.golden_gate_frequencies`, which explains the arguments.
    """
    require_order("slowest", slowest, "fastest", fastest)
    pairs, heads = require_dimension("d", d) // 2, require_optional_heads(heads)
    return _frequencies(pairs, recipe, slowest, fastest, axes, heads, device)


def _frequencies(
    pairs: int,
    recipe: GoldenRecipe,
    slowest: float,
    fastest: float,
    axes: int,
    heads: int | None,
    device: Device,
) -> Float[Tensor, "*heads pairs axes"]:
    t = torch.arange(pairs, dtype=torch.float64, device=device) / max(pairs - 1, 1)
    length = slowest ** (1 - t) * fastest**t
    u = golden_directions(pairs * (heads or 1), recipe=recipe, axes=axes, device=device)
    own = u if heads is None else u.unflatten(0, (heads, pairs))
    return own * length[:, None]


class GoldenGateRoPE(PairRotation):
    """Golden gate RoPE (J. Xiong, 2025): fixed frequency vectors in all directions.

    No parameters. The angle of pair p of a token at x is f_p · x, as in
    :class:`MixedRoPE`; the directions of f_p follow the golden ratio. Equation
    ``def-golden-gate``. Angles above 2²⁹ are refused on a CPU.

    Parameters
    ----------
    d
        Head dimension, even.
    recipe
        ``"angles"``: the angles πi/φ, in the plane alone; there they are the more even
        ones. ``"quantiles"``: for any number of axes.
    slowest, fastest
        Length of the first and of the last pair's vector, in radians for each unit of
        the coordinates.
    layout
        Which features form a pair; the author's code is ``"half"``.
    axes
        Number of coordinates. Default 2.
    heads
        Number of heads with directions of their own, as the author has them; under
        grouped queries the key-value heads. ``None``: one set for all.

    Raises
    ------
    TypeError, ValueError
        An odd ``d``, an unknown ``recipe`` or ``layout``, angles for another number of
        axes than 2, not 0 < ``slowest`` ≤ ``fastest``, ``heads`` not positive.
    """

    axes: int
    is_group = True

    def __init__(
        self,
        d: int,
        *,
        recipe: GoldenRecipe,
        slowest: float,
        fastest: float,
        layout: Layout,
        axes: int = 2,
        heads: int | None = None,
    ):
        super().__init__()
        self.d, self.heads = require_dimension("d", d), require_optional_heads(heads)
        self.axes = require_dimension("axes", axes, 1)
        self.position_shape = (self.axes,)
        self.recipe = require_recipe(recipe, self.axes)
        self.layout = require_choice("layout", layout, Layout)
        require_order("slowest", slowest, "fastest", fastest)
        self.slowest, self.fastest = slowest, fastest

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        recipe, low, high = self.recipe, self.slowest, self.fastest
        heads = None if self.heads is None else self.layer_heads
        sizes = self.axes, heads
        f = _frequencies(self.d // 2, recipe, low, high, *sizes, device)
        if heads is not None:
            f = self.own_heads(f)
        angle = in_float64(positions, device) @ f.mT
        return cos_sin(require_exact_angles("angles", angle), dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d}, recipe={self.recipe!r}, slowest={self.slowest:g}, "
            f"fastest={self.fastest:g}, layout={self.layout!r}, axes={self.axes}, "
            f"heads={self.heads}"
        )
