"""Rotations by matrix exponentials of skew generators."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.types import Device

from posedu.torch._tensors import (
    in_float64,
    may_look,
    require_exact_angles,
    require_floats,
    require_position_dtype,
)
from posedu.torch.rotary.rotation import Rotation, rotate_blocks, rotate_pairs

_CLOSED = 4  # the largest block whose exponential has a closed form here


def skew(entries: Float[Tensor, "*rows entries"]) -> Float[Tensor, "*rows block block"]:
    """Return the skew matrix A = U − Uᵀ of the ``entries`` above U's diagonal.

    Raises
    ------
    TypeError, ValueError
        Entries not floating, or not b(b − 1)/2 of them for a block size b ≥ 2.
    """
    require_floats("entries", entries)
    count = entries.shape[-1] if entries.ndim else 0
    block = round((1 + math.sqrt(1 + 8 * count)) / 2)
    if count == 0 or block * (block - 1) // 2 != count:
        raise ValueError(
            "entries must end in an axis of b(b − 1)/2 numbers for blocks of b ≥ 2, "
            f"got shape {list(entries.shape)}"
        )
    rows, columns = torch.triu_indices(block, block, 1, device=entries.device)
    upper = entries.new_zeros(*entries.shape[:-1], block, block)
    upper[..., rows, columns] = entries
    return upper - upper.mT


def exponential(
    a: Float[Tensor, "*rows block block"],
) -> Float[Tensor, "*rows block block"]:
    """Return exp(A) of skew A: closed forms for blocks of 2, 3, 4, else by PyTorch.

    Blocks of 2: a rotation of the plane. 3: Rodrigues. 4: the product of two commuting
    exponentials (isoclinic parts). Larger: ``torch.matrix_exp``. Equation
    ``eq-lie-closed``. Skewness of A is not checked, since the check would make the host
    wait for the device.
    """
    require_floats("a", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"a must be [..., block, block], got shape {list(a.shape)}")
    b = a.shape[-1]
    if b == 2:
        angle = a[..., 1, 0]
        cos, sin = angle.cos(), angle.sin()
        return torch.stack((cos, -sin, sin, cos), -1).unflatten(-1, (2, 2))
    if b == 3:
        x, y, z = a[..., 0, 1], a[..., 0, 2], a[..., 1, 2]
        square = (x * x + y * y + z * z)[..., None, None]
        _, sinc = _cos_sinc(square)
        _, half_sinc = _cos_sinc(square / 4)
        one = torch.eye(3, dtype=a.dtype, device=a.device)
        return one + sinc * a + half_sinc**2 / 2 * (a @ a)
    if b == 4:
        plus, minus = _isoclinic(a)
        return _exponential_of_part(plus) @ _exponential_of_part(minus)
    if a.shape[:-2].numel() == 1:  # a single one is off by 1e-10: pytorch #196592
        return torch.matrix_exp(a.expand(2, *a.shape).contiguous())[0]
    return torch.matrix_exp(a.contiguous())


def _isoclinic(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return two commuting summands of the 4 × 4 skew matrices ``a``, ``[…, 4, 4]``.

    The square of each summand is −s² I for a number s of its own.
    """
    rows, columns = torch.triu_indices(4, 4, 1, device=a.device)
    u, v, w, x, y, z = a[..., rows, columns].unbind(-1)
    dual = skew(torch.stack((z, -y, x, w, -v, u), -1))
    return (a + dual) / 2, (a - dual) / 2


def _exponential_of_part(a: Tensor) -> Tensor:
    square = a[..., 0, 1:].square().sum(-1)[..., None, None]
    cos, sinc = _cos_sinc(square)
    return cos * torch.eye(4, dtype=a.dtype, device=a.device) + sinc * a


def _cos_sinc(square: Tensor) -> tuple[Tensor, Tensor]:
    """Return cos(s) and sin(s)/s for s² = ``square``, smooth also where s = 0.

    Below s² = 10⁻⁶ both are power series, whose next terms are below 2⁻⁵³.
    """
    small = square < 1e-6
    s = square.where(~small, 1.0).sqrt()
    cos = torch.where(small, 1 - square / 2 + square**2 / 24, s.cos())
    sinc = torch.where(small, 1 - square / 6 + square**2 / 120, s.sin() / s)
    return cos, sinc


def rotations(
    positions: Shaped[Tensor, "*rows tokens axes"],
    generators: Float[Tensor, "*heads axes blocks block block"],
) -> Float[Tensor, "*table tokens blocks block block"]:
    """Return the rotation exp(Σ_k x_k A_k) of each position x, block by block.

    x_k are the coordinates of a position, A_k the generators, whose dtype is kept.
    Equation ``def-lie``. If each head has its own generators, positions have an axis
    for heads, of size 1 or the number of heads, before the tokens.

    Raises
    ------
    TypeError, ValueError
        Shapes that do not match; on a CPU, an exponent whose norm is above 2²⁹.
    """
    require_position_dtype("positions", positions)
    require_floats("generators", generators)
    axes = generators.shape[-4:-3]
    own, rows = generators.shape[:-4], positions.shape[-3:-2]
    if (
        generators.ndim not in (4, 5)
        or positions.shape[-1:] != axes
        or (own and rows and rows[0] not in (1, own[0]))
    ):
        raise ValueError(
            "generators must be [axes, blocks, b, b], after an axis of heads or not, "
            f"and positions [..., axes]; got shapes {list(generators.shape)} and "
            f"{list(positions.shape)}"
        )
    exponents = positions.to(generators.dtype) @ generators.flatten(-3)
    exponents = exponents.unflatten(-1, generators.shape[-3:])
    norms = torch.linalg.vector_norm(exponents.detach(), dim=(-2, -1))
    require_exact_angles("norms of exponents", norms)
    return exponential(exponents)


class BlockRotation(Rotation[Tensor]):
    """Base class of rotations exp(Σ_k x_k A_k) at position x. Eq. ``def-lie``.

    x_k are the coordinates of the position, the generators A_k are skew and
    block-diagonal. Exponentials are float64 whatever the dtype of the features;
    exponents whose norm is above 2²⁹ are refused on a CPU. On a CPU those of large
    blocks are computed once for each distinct position, if the rows of a batch have
    positions of their own; elsewhere the host would have to wait for the number of
    distinct positions. Features are multiplied block by block. A subclass defines its
    :meth:`generators`.
    """

    block: int
    _features = 3

    def generators(self) -> Float[Tensor, "*heads axes blocks block block"]:
        """Return the skew matrix A_k of each coordinate k, as blocks, in float64."""
        raise NotImplementedError

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> Tensor:
        return self._rotations(in_float64(positions, device), self.generators(), dtype)

    def _rotations(
        self,
        positions: Tensor,
        generators: Tensor,
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Return :func:`rotations` in ``dtype``, one for each distinct position.

        Where distinct positions are not known or few exponentials are saved, each
        position has its own.
        """
        rows = positions.shape[:-2]
        shared = rows and (self.heads is None or rows[-1] == 1)
        if self.block <= _CLOSED or not shared or not may_look(positions):
            return rotations(positions, generators).to(dtype)
        distinct, place = positions.flatten(0, -2).unique(dim=0, return_inverse=True)
        table = rotations(distinct, generators).to(dtype)
        table = table[..., place, :, :, :].unflatten(-4, positions.shape[:-1])
        if self.heads is not None:
            table = table.movedim(0, len(rows)).squeeze(len(rows) - 1)
        return table

    def _rotate(self, x: Tensor, table: Tensor) -> Tensor:
        if self.block > 2:
            return rotate_blocks(x, table)
        cos, sin = table[..., 0, 0], table[..., 1, 0]
        return rotate_pairs(x, cos, sin, layout="interleaved")

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d}, block={self.block}, axes={self.axes}, heads={self.heads}"
