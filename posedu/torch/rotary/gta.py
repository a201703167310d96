"""GTA: geometric transform attention, by camera poses and places in the image."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import require_dimension, require_image_dim
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import (
    Positions,
    align_positions,
    cos_sin,
    in_float64,
    may_look,
    require_exact_angles,
)
from posedu.torch.encoding import Encoding
from posedu.torch.rotary.generators import exponential, skew
from posedu.torch.rotary.rotation import rotate_pairs

AXES = 8


class GTA(Encoding):
    """Geometric transform attention (arXiv 2310.10375). Equation ``def-gta``.

    A position is eight numbers: the translation and the rotation vector of the camera
    that took a token, which map a point of the world to the camera's coordinates, and
    the place (u, v) of the token in its image. The matrices D of positions are made in
    float64 and applied in float32 or better; no parameters. In float16, translations
    must be within :meth:`reach`; longer ones are refused on a CPU.

    Parameters
    ----------
    d
        Head dimension, a multiple of 4, of queries, keys and values.
    image_dim
        Number of trailing features that (u, v) transforms, a multiple of 4; the camera
        transforms the others.

    Raises
    ------
    TypeError, ValueError
        ``d`` or ``image_dim`` no multiple of 4, or ``image_dim`` above ``d``.
    """

    d: int
    position_shape = (AXES,)
    axes = AXES

    def __init__(self, d: int, *, image_dim: int):
        super().__init__()
        self.d = require_dimension("d", d, 4)
        self.image_dim = require_image_dim(image_dim, d)

    def reach(self, dtype: torch.dtype) -> float:
        """Largest length of a translation with which ``dtype`` cannot overflow.

        It is the dtype's largest number over 16 d: products of queries and keys are
        finite then, if their features are at most 4 in size before the transformation.
        """
        return torch.finfo(dtype).max / (16 * self.d)

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"], Float[Tensor, "batch kv_heads tokens d"]
    ]:
        """Multiply queries by Dᵀ and keys by D⁻¹, D the matrix of each token's pose."""
        at = self._aligned(q, positions)
        return self._act(q, _camera(at).mT, at, 1), self.values(k, positions)

    def values(
        self, v: Float[Tensor, "batch kv_heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch kv_heads tokens d"]:
        """Multiply each value by D⁻¹, D the matrix of its token's pose."""
        at = self._aligned(v, positions)
        return self._act(v, _inverse(_camera(at)), at, 1)

    def output(
        self, out: Float[Tensor, "batch heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch heads tokens d"]:
        """Multiply the attention output by D, the matrix of the query's pose."""
        at = self._aligned(out, positions)
        return self._act(out, _camera(at), at, -1)

    def _aligned(self, x: Tensor, positions: Positions) -> Tensor:
        at = in_float64(align_positions(positions, x, AXES), x.device)
        lengths = torch.linalg.vector_norm(at[..., :3].detach(), dim=-1)
        reach = self.reach(x.dtype)
        if may_look(lengths) and (lengths > reach).any():
            raise ValueError(
                f"translations must be at most {reach:g} long, or {x.dtype} may "
                f"overflow, got {lengths.max().item():g}"
            )
        return at

    def _act(self, x: Tensor, matrices: Tensor, at: Tensor, sense: int) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        split = self.d - self.image_dim
        blocks = x[..., :split].to(wide).unflatten(-1, (split // 4, 4))
        with without_autocast(x):
            transformed = blocks @ matrices.to(wide).mT
        transformed = transformed.flatten(-2).to(x.dtype)
        if not self.image_dim:
            return transformed
        angle = (at[..., 6:, None] * _octaves(self.image_dim, x.device)).flatten(-2)
        angle = require_exact_angles("angles of (u, v)", angle)
        cos, sin = cos_sin(sense * angle, wide)
        rotated = rotate_pairs(x[..., split:], cos, sin, layout="interleaved")
        return torch.cat((transformed, rotated), -1)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d}, image_dim={self.image_dim}"


def _octaves(image_dim: int, device: Device) -> Float[Tensor, "pairs"]:
    t = torch.arange(image_dim // 4, dtype=torch.float64, device=device)
    return 2 * math.pi * torch.exp2(-t)


def _camera(at: Float[Tensor, "*rows axes"]) -> Float[Tensor, "*rows 4 4"]:
    """Return each camera's matrix ((R, t), (0, 1)), R its rotation, t its translation.

    ``at`` are poses: t, then the rotation vector of R; further numbers are ignored.
    Equation ``def-gta-camera``.
    """
    x, y, z = at[..., 3:6].unbind(-1)
    rotation = exponential(skew(torch.stack((-z, y, -x), -1)))
    return _with_last_row(torch.cat((rotation, at[..., :3, None]), -1))


def _inverse(matrices: Float[Tensor, "*rows 4 4"]) -> Float[Tensor, "*rows 4 4"]:
    """Return the inverses ((Rᵀ, −Rᵀ t), (0, 1)) of camera matrices.

    R is the camera's rotation, t its translation.
    """
    inverse = matrices[..., :3, :3].mT
    return _with_last_row(torch.cat((inverse, -inverse @ matrices[..., :3, 3:]), -1))


def _with_last_row(upper: Tensor) -> Tensor:
    last = torch.zeros_like(upper[..., :1, :])
    last[..., 3] = 1
    return torch.cat((upper, last), -2)
