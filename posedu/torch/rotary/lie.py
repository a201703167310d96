"""Rotations by matrix exponentials of skew generators: LieRE and ComRoPE."""

import math

import numpy as np
import torch
from jaxtyping import Float, Shaped
from scipy.linalg import schur
from torch import Tensor, nn

from posedu._arguments import (
    MULTIPLIERS,
    PERTURBATIONS,
    require_block,
    require_choice,
    require_dimension,
)
from posedu.torch._tensors import require_floats, require_positions
from posedu.torch.rotary.axes import MixedRoPE
from posedu.torch.rotary.turning import (
    Rotation,
    given_parameter,
    require_optional_heads,
    turn_blocks,
    turn_pairs,
)

_CLOSED = 4  # the largest block whose exponential has a closed form here


def skew(entries: Float[Tensor, "*rows entries"]) -> Float[Tensor, "*rows block block"]:
    """A = U − Uᵀ, where U holds ``entries`` above its diagonal, row by row.

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
    """exp(A) of skew matrices: closed forms for blocks of 2, 3 and 4, else the series.

    2: a rotation of the plane. 3: Rodrigues. 4: the product of two commuting
    exponentials (isoclinic parts). Larger: ``torch.matrix_exp``. Equation
    ``eq-lie-closed``. The lower triangle is not looked at by the closed forms.
    """
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
        return torch.eye(3).to(a) + sinc * a + half_sinc**2 / 2 * (a @ a)
    if b == 4:
        plus, minus = _isoclinic(a)
        return _exponential_of_part(plus) @ _exponential_of_part(minus)
    if a.shape[:-2].numel() == 1:  # alone, it is off by up to 1e-10: pytorch #196592
        return torch.matrix_exp(a.expand(2, *a.shape).contiguous())[0]
    return torch.matrix_exp(a.contiguous())


def _isoclinic(a: Tensor) -> tuple[Tensor, Tensor]:
    """The two commuting parts of 4 × 4 skew matrices, each squaring to −s² I."""
    rows, columns = torch.triu_indices(4, 4, 1, device=a.device)
    sign = torch.tensor([1, -1, 1, 1, -1, 1]).to(a)
    dual = skew(sign * a[..., rows, columns].flip(-1))
    return (a + dual) / 2, (a - dual) / 2


def _exponential_of_part(a: Tensor) -> Tensor:
    square = a[..., 0, 1:].square().sum(-1)[..., None, None]
    cos, sinc = _cos_sinc(square)
    return cos * torch.eye(4).to(a) + sinc * a


def _cos_sinc(square: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine of s and sin(s)/s, smooth in s² ≥ 0 also where s = 0.

    Below s² = 10⁻⁶ by their series, whose next terms are below 2⁻⁵³.
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
    """R(x) = exp(Σ_k x_k A_k), block by block, in the dtype of the generators.

    Equation ``def-lie``. With generators of each head, positions have an axis for the
    heads, of size 1 or theirs, before the tokens.
    """
    exponents = positions.to(generators.dtype) @ generators.flatten(-3)
    return exponential(exponents.unflatten(-1, generators.shape[-3:]))


class BlockRotation(Rotation):
    """R(x) = exp(Σ_k x_k A_k) for skew, block-diagonal A_k. Equation ``def-lie``.

    Exponentials are float64, whatever the dtype of the features, and computed once for
    each distinct position; the product is block by block. A subclass says what its
    generators are.
    """

    block: int
    _features = 3

    def generators(self) -> Float[Tensor, "*heads axes blocks block block"]:
        """The skew matrices A_k, block by block, in float64."""
        raise NotImplementedError

    def _table(self, positions, dtype, device) -> Tensor:
        positions = positions.to(torch.float64)
        rows = positions.shape[:-2]
        shared = rows and (self.heads is None or rows[-1] == 1)
        untold = torch.compiler.is_compiling() or positions.is_meta
        if self.block <= _CLOSED or not shared or untold:
            return self._exponentials(positions).to(dtype)
        distinct, place = positions.flatten(0, -2).unique(dim=0, return_inverse=True)
        table = self._exponentials(distinct).to(dtype)
        table = table[..., place, :, :, :].unflatten(-4, positions.shape[:-1])
        if self.heads is not None:
            table = table.movedim(0, len(rows)).squeeze(len(rows) - 1)
        return table

    def _exponentials(self, positions: Tensor) -> Tensor:
        return rotations(positions, self.generators())

    def _turn(self, x: Tensor, table: Tensor) -> Tensor:
        if self.block > 2:
            return turn_blocks(x, table)
        cos, sin = table[..., 0, 0], table[..., 1, 0]
        return turn_pairs(x, cos, sin, layout="interleaved")

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return f"{self.d}, block={self.block}, axes={self.axes}, heads={self.heads}"


class LieRE(BlockRotation):
    """LieRE (arXiv 2406.10322): free skew generators, so in general not relative.

    Parameters
    ----------
    d
        Head dimension, a multiple of ``block``.
    block
        Block size b ≥ 2: the paper has 8, and d for the dense form. 2 is RoPE-Mixed.
    axes
        Number of coordinates. Default 2.
    heads
        How many heads have generators of their own; under grouped queries the
        key-value heads. ``None``: one set for all.
    scale
        The entries above the diagonal start uniform in [0, scale). Default 2π (the
        authors' code).
    entries
        Where they start instead, ``[axes, blocks, b(b − 1)/2]``, after an axis of
        ``heads`` where there are some. See :func:`skew`.

    Raises
    ------
    TypeError, ValueError
        ``d`` not a multiple of ``block``, a ``block`` below 2, sizes that are not
        positive integers, a ``scale`` that is negative or not finite, entries of
        another shape or not finite.
    """

    def __init__(
        self,
        d: int,
        *,
        block: int,
        axes: int = 2,
        heads: int | None = None,
        scale: float = 2 * math.pi,
        entries: Float[Tensor, "*heads axes blocks entries"] | None = None,
    ):
        super().__init__()
        self.block = require_dimension("block", block, 1)
        if block < 2:
            raise ValueError("block must be at least 2, got 1; nothing turns in a line")
        self.d = require_dimension("d", d, block)
        self.axes = require_dimension("axes", axes, 1)
        self.position_shape = (axes,)
        self.heads = require_optional_heads(heads)
        if not 0 <= scale < math.inf:
            raise ValueError(f"scale must be finite and not negative, got {scale}")
        own = () if heads is None else (heads,)
        shape = (*own, axes, d // block, block * (block - 1) // 2)
        if entries is None:
            entries = scale * torch.rand(shape)
        self.entries = given_parameter("entries", entries, shape)

    def generators(self) -> Float[Tensor, "*heads axes blocks block block"]:
        """The skew matrices A_k = U_k − U_kᵀ, in float64."""
        return skew(self.entries.to(torch.float64))


class ComRoPE(BlockRotation):
    """What the two kinds of ComRoPE share: P − Pᵀ, times a number for each axis.

    Use :class:`ComRoPEAP` or :class:`ComRoPELD`.
    """

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
        if not 0 <= scale < math.inf:
            raise ValueError(f"scale must be finite and not negative, got {scale}")
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
        """The skew matrices A_k, which commute, in float64."""
        return self._multipliers()[..., None, None] * self._skew_part().unsqueeze(-4)

    def as_mixed_rope(
        self,
    ) -> tuple[MixedRoPE, Float[Tensor, "*heads blocks block block"]]:
        """The same rotation as RoPE-Mixed in a fixed basis Q: R(x) = Q M(x) Qᵀ.

        Equation ``eq-com-normal``. The basis cancels in every score, so
        :func:`fold_basis` can put it into W_q and W_k once, and RoPE-Mixed alone
        remains: O(d) a token and no exponential. For a trained model: frequencies and
        basis, both float64, are copies without a gradient.
        """
        part = self._skew_part().detach().cpu()
        flat = part.reshape(-1, self.block, self.block)
        planes = [_planes(a.numpy()) for a in flat]
        basis = torch.stack([q for q, _ in planes]).reshape(part.shape)
        turns = torch.stack([t for _, t in planes]).reshape(*part.shape[:-2], -1)
        multipliers = self._multipliers().detach().cpu()
        f = turns[..., None] * multipliers.mT.unsqueeze(-2)
        mixed = MixedRoPE(
            self.d,
            layout="interleaved",
            heads=self.heads,
            frequencies=f.flatten(-3, -2),
        )
        device = self.matrices.device
        return mixed.to(device), basis.to(device)


def _planes(a: np.ndarray) -> tuple[Tensor, Tensor]:
    """An orthogonal Q, and the turns t_p with QᵀAQ = blockdiag_p(t_p J)."""
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
    turns = [triangular[second, first] for first, second in pairs]
    order = [column for pair in pairs for column in pair]
    return torch.from_numpy(basis[:, order]), torch.tensor(turns, dtype=torch.float64)


class ComRoPEAP(ComRoPE):
    """ComRoPE with an axial partition (arXiv 2506.03737 Eq. 8): exactly relative.

    Block j turns with coordinate j mod axes alone, by P_j − P_jᵀ. Equation
    ``def-comrope-ap``.

    Parameters
    ----------
    d
        Head dimension, a multiple of block · axes.
    block
        Block size b, even; the paper's main experiments use 8.
    axes
        Number of coordinates N. Default 2.
    heads
        How many heads have matrices of their own; under grouped queries the key-value
        heads. ``None``: one set for all.
    scale
        Standard deviation of the entries of P at the start. Default 1 (the authors'
        code); 0 to fine-tune a model that had no encoding (the paper, §4.2).
    matrices
        Where the P start instead, ``[blocks, b, b]``, after an axis of ``heads`` where
        there are some.

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

    Block j turns by θ_kj (P_j − P_jᵀ) with coordinate k: exactly relative. Equation
    ``def-comrope-ld``.

    Parameters
    ----------
    d
        Head dimension, a multiple of ``block``.
    block, axes, heads, scale, matrices
        As :class:`ComRoPEAP`.
    multipliers
        Whose the θ are: ``"per head"`` (the paper) or ``"shared"`` by all heads (the
        authors' code). They start standard normal. Without ``heads`` the two are one.
        Or where they start, ``[axes, blocks]``, after an axis of ``heads`` where each
        has its own.

    Raises
    ------
    TypeError, ValueError
        As :class:`ComRoPEAP`; multipliers of another shape or not finite, or an unknown
        word.
    """

    def __init__(
        self,
        d: int,
        *,
        block: int,
        multipliers: str | Float[Tensor, "*heads axes blocks"],
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
            require_choice("multipliers", multipliers, MULTIPLIERS)
            is_shared = multipliers == "shared"
        own = () if heads is None or is_shared else (heads,)
        shape = (*own, axes, d // block)
        if not isinstance(multipliers, Tensor):
            multipliers = torch.randn(shape)
        self.multipliers = given_parameter("multipliers", multipliers, shape)

    def _multipliers(self) -> Tensor:
        return self.multipliers.to(torch.float64)


def fold_basis(
    weight: Shaped[Tensor, "features *rest"],
    basis: Float[Tensor, "*heads blocks block block"],
) -> Shaped[Tensor, "features *rest"]:
    """W_q or W_k (or its bias) with Qᵀ multiplied in, for each of its heads.

    Parameters
    ----------
    weight
        ``[heads · d, d_model]``, or a bias ``[heads · d]``.
    basis
        From :meth:`ComRoPE.as_mixed_rope`. Heads of ``weight`` beyond the basis's
        share it with their neighbours (grouped queries); without heads, all share it.

    Returns
    -------
    A tensor like ``weight``. Scores are unchanged if W_q and W_k are both folded and
    RoPE-Mixed takes the place of ComRoPE.

    Raises
    ------
    ValueError
        A ``weight`` that is not made of heads of the basis's size.
    """
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
    rule: str,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*rows axes"]:
    """Coordinates moved at random within their patch, for training (arXiv 2506.03737).

    Parameters
    ----------
    positions
        Patch centres, floating.
    patch
        The side of a patch in the units of ``positions``: one number or one an axis.
    intensity
        The paper's σ ≥ 0; 0 moves nothing, its main experiments use 1.
    rule
        ``"paper"``: normal with deviation σ · patch, truncated to the patch.
        ``"code"``: half that deviation, clamped to the patch.
    generator
        Source of randomness. Default: torch's own.

    Raises
    ------
    TypeError, ValueError
        Positions that are not finite floats, an ``intensity`` that is negative or not
        finite, unknown ``rule``, a ``patch`` for another number of axes.
    """
    require_positions(positions)
    require_floats("positions", positions)
    require_choice("rule", rule, PERTURBATIONS)
    if not 0 <= intensity < math.inf:
        raise ValueError(f"intensity must be finite and not negative, got {intensity}")
    side = torch.as_tensor(patch, dtype=positions.dtype, device=positions.device)
    if side.ndim > 1 or side.numel() not in (1, positions.shape[-1]):
        raise ValueError(
            f"patch must be one number or {positions.shape[-1]}, got {patch}"
        )
    if intensity == 0:
        return positions.clone()
    move = torch.empty_like(positions)
    if rule == "paper":
        nn.init.trunc_normal_(move, 0.0, intensity, -0.5, 0.5, generator=generator)
    else:
        move.normal_(0.0, intensity / 2, generator=generator).clamp_(-0.5, 0.5)
    return positions + move * side
