"""ComRoPE: rotations with trained generators that commute."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from posedu._arguments import (
    ComRoPEMultipliers,
    ComRoPENoise,
    require_block,
    require_choice,
    require_dimension,
    require_not_negative,
)
from posedu.torch._numbers import as_real_tensor
from posedu.torch._tensors import (
    require_all_finite,
    require_floats,
    require_positions,
)
from posedu.torch.rotary.generators import BlockRotation
from posedu.torch.rotary.mixed import MixedRoPE
from posedu.torch.rotary.rotation import given_parameter, require_optional_heads


class ComRoPE(BlockRotation):
    """Base class of ComRoPE: trained skew generators that commute.

    Block j of the features has the generator θ_kj (P_j − P_jᵀ) for coordinate k, with a
    trained matrix P_j and a factor θ_kj, which a subclass defines. Use
    :class:`ComRoPEAP` or :class:`ComRoPELD`.
    """

    axes: int
    is_group = True
    head_rows: tuple[str, ...] = ("matrices",)

    def __init__(
        self,
        d: int,
        *,
        block: int,
        axes: int,
        heads: int | None,
        scale: float,
        matrices: Float[Tensor, "*heads blocks block block"] | None,
    ):
        super().__init__()
        self.block = require_block(block)
        self.d = require_dimension("d", d, block)
        self.axes = require_dimension("axes", axes, 1)
        self.position_shape = (axes,)
        self.heads = require_optional_heads(heads)
        scale = require_not_negative("scale", scale)
        own = () if heads is None else (heads,)
        shape = (*own, d // block, block, block)
        if matrices is None:
            matrices = scale * torch.randn(shape)
        self.matrices = given_parameter("matrices", matrices, shape)

    def _multipliers(self) -> Float[Tensor, "*heads axes blocks"]:
        raise NotImplementedError

    def _skew_part(self) -> Float[Tensor, "*heads blocks block block"]:
        matrices = self.matrices.to(torch.float64)
        return matrices - matrices.mT

    def generators(self) -> Float[Tensor, "*heads axes blocks block block"]:
        """Return the skew matrices A_k of the coordinates k, in float64.

        All of them commute; A_k consists of blocks.
        """
        return self._multipliers()[..., None, None] * self._skew_part().unsqueeze(-4)

    def as_mixed_rope(
        self,
    ) -> tuple[MixedRoPE, Float[Tensor, "*heads blocks block block"]]:
        """Return the same rotation as a RoPE-Mixed module, and its fixed basis Q.

        The rotation R is Q M Qᵀ, with an orthogonal Q and RoPE-Mixed's rotation M.
        Equation ``eq-com-normal``. The basis cancels in every score, so
        :func:`fold_basis` can put it into W_q and W_k once, and RoPE-Mixed alone
        remains: O(d) a token and no exponential. The conversion is meant for a trained
        model: frequencies and basis, both float64, are copies without a gradient.
        """
        part = self._skew_part().detach().cpu()
        flat = part.reshape(-1, self.block, self.block)
        planes = [_planes(a.numpy()) for a in flat]
        basis = torch.stack([q for q, _ in planes]).reshape(part.shape)
        rates = torch.stack([t for _, t in planes]).reshape(*part.shape[:-2], -1)
        multipliers = self._multipliers().detach().cpu()
        f = rates[..., None] * multipliers.mT.unsqueeze(-2)
        mixed = MixedRoPE(
            self.d,
            layout="interleaved",
            heads=self.heads,
            frequencies=f.flatten(-3, -2),
        )
        device = self.matrices.device
        return mixed.to(device), basis.to(device)


def _planes(a: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return a basis Q of the planes that a skew matrix A rotates, and their rates t.

    QᵀAQ has the 2 × 2 blocks t_p J, with J the generator of a rotation. ``a`` is A,
    ``[d, d]`` with d even; Q is ``[d, d]``, t ``[d/2]``, both float64.
    """
    from scipy.linalg import schur  # slow to import, and only this function needs it

    triangular, basis = schur(a)
    pairs, fixed, column = [], [], 0
    while column < len(a):
        if column + 1 < len(a) and triangular[column + 1, column]:
            pairs.append((column, column + 1))
            column += 2
        else:
            fixed.append(column)
            column += 1
    pairs += zip(fixed[::2], fixed[1::2], strict=True)
    rates = [triangular[second, first] for first, second in pairs]
    order = [column for pair in pairs for column in pair]
    return torch.from_numpy(basis[:, order]), torch.tensor(rates, dtype=torch.float64)


class ComRoPEAP(ComRoPE):
    """ComRoPE with an axial partition (arXiv 2506.03737 Eq. 8): exactly relative.

    Block j of the features is rotated by exp(x (P_j − P_jᵀ)), with a trained matrix
    P_j, where x is the coordinate of number j mod axes. Exponents whose norm is above
    2²⁹ are refused on a CPU. Equation ``def-comrope-ap``.

    Parameters
    ----------
    d
        Head dimension, a multiple of block · axes.
    block
        Block size b, even; the paper's main experiments use 8.
    axes
        Number of coordinates N. Default 2.
    heads
        Number of heads with matrices of their own; under grouped queries the key-value
        heads. ``None``: one set for all.
    scale
        Standard deviation of the entries of the P_j at the start. Default 1 (the
        authors' code); 0 to fine-tune a model that had no encoding (the paper, §4.2).
    matrices
        Initial P_j instead, ``[blocks, b, b]``, after an axis of ``heads`` if given.

    Raises
    ------
    TypeError, ValueError
        ``d`` not a multiple of block · axes, an odd ``block``, sizes that are not
        positive integers, a ``scale`` that is negative or not finite, matrices of
        another shape or not finite.
    """

    def __init__(
        self,
        d: int,
        *,
        block: int,
        axes: int = 2,
        heads: int | None = None,
        scale: float = 1.0,
        matrices: Float[Tensor, "*heads blocks block block"] | None = None,
    ):
        super().__init__(
            d, block=block, axes=axes, heads=heads, scale=scale, matrices=matrices
        )
        require_dimension("d", d, block * axes)

    def _multipliers(self) -> Tensor:
        blocks = torch.arange(self.d // self.block, device=self.matrices.device)
        axes = torch.arange(self.axes, device=self.matrices.device)
        return (blocks % self.axes == axes[:, None]).to(torch.float64)


class ComRoPELD(ComRoPE):
    """ComRoPE with linearly dependent generators (arXiv 2506.03737 Eq. 10).

    Coordinates x_k rotate block j of the features by exp(Σ_k x_k θ_kj (P_j − P_jᵀ)),
    with trained matrices P_j and factors θ_kj. Scores are exactly relative. Exponents
    whose norm is above 2²⁹ are refused on a CPU. Equation ``def-comrope-ld``.

    Parameters
    ----------
    d
        Head dimension, a multiple of ``block``.
    block, axes, heads, scale, matrices
        Block size, number of coordinates, number of heads with matrices of their own,
        and deviation or values of the initial matrices; as for :class:`ComRoPEAP`.
    multipliers
        The θ: ``"per head"`` (the paper) or ``"shared"`` by all heads (the authors'
        code), both initially standard normal; without ``heads`` the two are the same.
        Or their initial values, ``[axes, blocks]``, after an axis of ``heads`` where
        each has its own.

    Raises
    ------
    TypeError, ValueError
        As :class:`ComRoPEAP`; multipliers of another shape or not finite, or an unknown
        choice.
    """

    def __init__(
        self,
        d: int,
        *,
        block: int,
        multipliers: ComRoPEMultipliers | Float[Tensor, "*heads axes blocks"],
        axes: int = 2,
        heads: int | None = None,
        scale: float = 1.0,
        matrices: Float[Tensor, "*heads blocks block block"] | None = None,
    ):
        super().__init__(
            d, block=block, axes=axes, heads=heads, scale=scale, matrices=matrices
        )
        if isinstance(multipliers, Tensor):
            is_shared = multipliers.ndim == 2
        else:
            require_choice("multipliers", multipliers, ComRoPEMultipliers)
            is_shared = multipliers == "shared"
        own = () if heads is None or is_shared else (heads,)
        shape = (*own, axes, d // block)
        if not isinstance(multipliers, Tensor):
            multipliers = torch.randn(shape)
        self.multipliers = given_parameter("multipliers", multipliers, shape)
        if not is_shared:
            self.head_rows = ("matrices", "multipliers")

    def _multipliers(self) -> Tensor:
        return self.multipliers.to(torch.float64)


def fold_basis(
    weight: Shaped[Tensor, "features *rest"],
    basis: Float[Tensor, "*heads blocks block block"],
) -> Shaped[Tensor, "features *rest"]:
    """Multiply each head of a projection W_q or W_k (or its bias) by Qᵀ of a basis Q.

    Parameters
    ----------
    weight
        ``[heads · d, d_model]``, or a bias ``[heads · d]``.
    basis
        Q of :meth:`ComRoPE.as_mixed_rope`. Where ``weight`` has more heads, neighbors
        share a basis (grouped queries); without an axis of heads, all share Q.

    Returns
    -------
    A tensor like ``weight``. Scores are unchanged if W_q and W_k are both folded and
    RoPE-Mixed takes the place of ComRoPE.

    Raises
    ------
    ValueError
        A ``weight`` that is not made of heads of the basis's size.
    """
    require_floats("weight", weight)
    require_floats("basis", basis)
    is_square = basis.ndim in (3, 4) and basis.shape[-1] == basis.shape[-2]
    if not is_square or 0 in basis.shape:
        raise ValueError(
            "basis must be [blocks, b, b] or [heads, blocks, b, b], got shape "
            f"{list(basis.shape)}"
        )
    blocks, b, _ = basis.shape[-3:]
    heads = 1 if basis.ndim == 3 else len(basis)
    if weight.ndim == 0 or weight.shape[0] % (heads * blocks * b):
        raise ValueError(
            f"the first axis of weight must be a multiple of {heads} heads times "
            f"d = {blocks * b}, got shape {list(weight.shape)}"
        )
    by_block = weight.reshape(heads, -1, blocks, b, *weight.shape[1:])
    basis = basis.reshape(heads, blocks, b, b).to(torch.float64)
    folded = torch.einsum("hmij,hgmi...->hgmj...", basis, by_block.to(torch.float64))
    return folded.reshape(weight.shape).to(weight.dtype)


def perturb(
    positions: Float[Tensor, "*rows axes"],
    *,
    patch: float | tuple[float, ...],
    intensity: float,
    rule: ComRoPENoise,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*rows axes"]:
    """Perturb coordinates within their patch, for training (arXiv 2506.03737).

    Parameters
    ----------
    positions
        Patch centers, floating.
    patch
        The side of a patch in the units of ``positions``: one number, or one for each
        axis.
    intensity
        The paper's σ ≥ 0; 0 changes nothing, its main experiments use 1.
    rule
        ``"paper"``: normal with deviation σ · patch, truncated to the patch.
        ``"code"``: normal with deviation σ/2 · patch, clamped to the patch: its edges
        are more probable, and from σ = 1 on shifts are larger on the whole.
    generator
        Source of randomness. Default: torch's own.

    Raises
    ------
    TypeError, ValueError
        Positions that are not finite floats, an ``intensity`` that is negative or not
        finite, unknown ``rule``, a ``patch`` that is not finite or for another number
        of axes.
    """
    require_floats("positions", positions)
    require_positions(positions)
    require_choice("rule", rule, ComRoPENoise)
    intensity = require_not_negative("intensity", intensity)
    side = as_real_tensor("patch", patch, dtype=positions.dtype).to(positions.device)
    require_all_finite("patch", side)
    if side.ndim > 1 or side.numel() not in (1, positions.shape[-1]):
        raise ValueError(
            f"patch must be one number or {positions.shape[-1]}, got {patch}"
        )
    if intensity == 0:
        return positions.clone()
    noise = torch.empty_like(positions)
    if rule == "paper":
        nn.init.trunc_normal_(noise, 0.0, intensity, -0.5, 0.5, generator=generator)
    else:
        noise.normal_(0.0, intensity / 2, generator=generator).clamp_(-0.5, 0.5)
    return positions + noise * side
