"""TAPE: contextualized equivariant positions, updated in each layer."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import (
    Layout,
    TAPEMixing,
    require_base,
    require_choice,
    require_dimension,
)
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import Positions, angles, cos_sin, require_floats
from posedu.torch.encoding import Encoding, Sizes, Tokens
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.rotation import rotate_pairs


class TAPE(Encoding):
    """Contextualized positions (TAPE, arXiv 2501.00712), updated in each layer.

    As in the authors' code a block of RoPE, ((c, −s), (s, c)), keeps this form, so a
    position is two numbers c and s of each head and pair; after the first layer
    c² + s² need not be 1. Give one module to a
    :class:`posedu.torch.transformer.Transformer` for all layers, or one to each and the
    first as ``input``. An untrained TAPE is RoPE in every layer: ``attended`` and
    ``up`` start at 0, ``down`` and ``gate`` normal with deviations 1/√width and
    1/√d_model. Attention takes O(L²) memory. Equations ``def-tape-start`` to
    ``def-tape-mlp``.

    Parameters
    ----------
    d
        Head dimension, even.
    heads
        Number of query heads and of key heads: no key head is shared.
    d_model
        Width of the MLP output.
    layout
        ``"interleaved"`` or ``"half"`` (the authors' code).
    mixing
        How the matrix ``attended`` mixes the attention outputs of the positions:
        ``"heads"``, by the matrix product for which it is declared, or ``"row sums"``,
        as the authors' code computes, where the sum of a row multiplies the output of
        its own head.
    width
        Hidden channels of the network that mixes heads by the MLP output. Default 4 ·
        heads (the authors' code).
    base
        Base of RoPE's frequencies. Default 10000.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``d`` odd, unknown ``layout`` or
        ``mixing``, ``base`` not above 1.
    """

    heads: int
    d: int
    d_model: int
    mixes_heads = True

    def __init__(
        self,
        d: int,
        heads: int,
        d_model: int,
        *,
        layout: Layout,
        mixing: TAPEMixing,
        width: int | None = None,
        base: float = 10000.0,
    ):
        super().__init__()
        self.d = require_dimension("d", d)
        self.heads = require_dimension("heads", heads, 1)
        self.d_model = require_dimension("d_model", d_model, 1)
        self.layout = require_choice("layout", layout, Layout)
        self.mixing = require_choice("mixing", mixing, TAPEMixing)
        self.base = require_base(base)
        width = 4 * heads if width is None else require_dimension("width", width, 1)
        self.position_shape = (heads, 2, d // 2)
        self.attended = nn.Parameter(torch.zeros(heads, heads))
        self.up = nn.Parameter(torch.zeros(width, heads))
        self.down = nn.Parameter(torch.empty(heads, width))
        self.gate = nn.Parameter(torch.empty(width, d_model))
        nn.init.normal_(self.down, std=width**-0.5)
        nn.init.normal_(self.gate, std=d_model**-0.5)

    def require(self, layer: Sizes) -> None:
        """Raise unless the layer has TAPE's sizes and no key-value head is shared."""
        super().require(layer)
        if layer.kv_heads != self.heads:
            raise ValueError(
                f"TAPE has positions for {self.heads} heads of keys, the layer has "
                f"{layer.kv_heads}"
            )

    def locate(
        self,
        positions: Shaped[Tensor, "rows tokens"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Float[Tensor, "rows tokens heads 2 pairs"]:
        """Return the first layer's positions: RoPE's cosines and sines, in float64.

        Equation ``def-tape-start``.
        """
        omega = frequencies(self.d, base=self.base, device=positions.device)
        start = torch.stack(cos_sin(angles(positions, omega), torch.float64), -2)
        return start[:, :, None].expand(*positions.shape, *self.position_shape)

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"], Float[Tensor, "batch heads tokens d"]
    ]:
        """Multiply each pair of q and k by c + i s, which ``positions`` hold.

        ``positions`` are ``[rows, tokens, heads, 2, pairs]``. Equation
        ``def-tape-turn``.
        """
        if (
            not isinstance(positions, Tensor)
            or positions.shape[2:] != self.position_shape
        ):
            raise ValueError(
                f"positions must be [rows, tokens, {self.heads}, 2, {self.d // 2}], "
                f"as locate returns them, got {positions}"
            )
        dtype = torch.promote_types(q.dtype, torch.float32)
        cos, sin = positions.to(dtype).movedim(2, 1).unbind(3)
        return (
            rotate_pairs(q, cos, sin, layout=self.layout),
            rotate_pairs(k, cos, sin, layout=self.layout),
        )

    def update(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        tokens: Tokens,
        mlp_output: Float[Tensor, "batch queries d_model"],
    ) -> Float[Tensor, "batch queries heads 2 pairs"]:
        """Return positions, updated by attention output and then by MLP output.

        First each position gains the sum of all positions, by attention weights, then
        the MLP output of its token mixes the heads.

        Equations ``def-tape-attention`` and ``def-tape-mlp``, in float32 or better.
        ``weights`` are the layer's attention weights, ``tokens`` holds the positions
        and ``mlp_output`` is the output of the layer's MLP.
        """
        require_floats("mlp_output", mlp_output)
        batch, _, queries, _ = weights.shape
        if mlp_output.shape != (batch, queries, self.d_model):
            raise ValueError(
                f"mlp_output must be [{batch}, {queries}, {self.d_model}] for weights "
                f"of shape {list(weights.shape)}, got shape {list(mlp_output.shape)}"
            )
        dtype = torch.promote_types(weights.dtype, torch.float32)
        attended, up, down, gate = (
            t.to(dtype) for t in (self.attended, self.up, self.down, self.gate)
        )
        query_positions, key_positions = (
            p.to(dtype).flatten(3)  # [rows, tokens, heads, d]
            for p in (tokens.query_positions, tokens.key_positions)
        )
        with without_autocast(mlp_output):
            attention_output = weights.to(dtype) @ key_positions.transpose(1, 2)
            attention_output = attention_output.transpose(1, 2)
            if self.mixing == "heads":
                updated = query_positions + attended @ attention_output
            else:
                row_sums = attended.sum(1)[:, None]
                updated = query_positions + row_sums * attention_output
            gates = functional.silu(mlp_output.to(dtype) @ gate.T)
            mixing = (down * gates[:, :, None]) @ up
            updated = updated + mixing @ updated
        return updated.unflatten(3, (2, -1)).double()

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d}, {self.heads}, {self.d_model}, layout={self.layout!r}, "
            f"mixing={self.mixing!r}, width={len(self.up)}, base={self.base:g}"
        )
