"""Transformer-XL: disentangled attention with four terms of content and position."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from posedu._arguments import (
    Layout,
    require_choice,
    require_dimension,
    require_not_negative,
)
from posedu.torch._tensors import angles, cos_sin
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.frequencies import frequencies
from posedu.torch.toeplitz_bias import skew


class TransformerXL(Encoding):
    """Transformer-XL's attention (arXiv 1901.02860 §3.3). Equation ``def-xl``.

    The logits are (q_i + u) · k_j + (q_i + v) · W_R r_{i−j}, all over √d. u and v are
    trained vectors, W_R r_{i−j} is the projected sinusoid of the offset. No maximal
    length. Where positions count up by one, each head has a vector for each distance
    and the product of this vector with every query: O(L (d + d_model)) and O(L²)
    numbers for a layer, never d numbers for each query and key. For other positions,
    and for a single query, the products are of d_model features, rotated by the
    positions of query and key. Attention takes O(L²) memory. u, v and W_R start normal
    with deviation 0.02.

    Parameters
    ----------
    d, heads, d_model
        Head dimension and query heads of the layer, and width of the sinusoids, even.
    layout
        Layout of the sinusoids: ``"interleaved"`` or ``"half"``; see
        :func:`posedu.numpy.relative.transformer_xl`.
    clamp
        The largest offset; farther ones are clamped to it. Default: no clamp.
    shared
        Another layer's module whose u and v, ``global_content`` and
        ``global_position``, this one shares: all layers of the authors' PyTorch code
        have one pair. Default: a pair of this layer alone (their TensorFlow scripts,
        ``untie_r``).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, an odd d_model, unknown ``layout``, a
        negative ``clamp``, a ``shared`` module of other sizes.
    """

    d: int
    heads: int
    head_rows = ("global_content", "global_position", "position.weight")

    def __init__(
        self,
        d: int,
        heads: int,
        d_model: int,
        *,
        layout: Layout,
        clamp: float | None = None,
        shared: "TransformerXL | None" = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.width = require_dimension("d_model", d_model)
        self.layout = require_choice("layout", layout, Layout)
        self.clamp = None if clamp is None else require_not_negative("clamp", clamp)
        if shared is None:
            self.global_content = nn.Parameter(0.02 * torch.randn(heads, d))
            self.global_position = nn.Parameter(0.02 * torch.randn(heads, d))
        elif not isinstance(shared, TransformerXL) or shared.global_content.shape != (
            heads,
            d,
        ):
            raise ValueError(
                f"shared must be a TransformerXL of {heads} heads of {d} features, got "
                f"{shared}"
            )
        else:
            self.global_content = shared.global_content
            self.global_position = shared.global_position
        self.position = nn.Linear(d_model, heads * d, bias=False)
        nn.init.normal_(self.position.weight, std=0.02)

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return u · k_j + (q_i + v) · W_R r_{i−j}, all over √d, float32 or wider.

        u and v are trained vectors of a head, W_R r_{i−j} is the projected sinusoid of
        the offset of query i and key j.
        """
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        u = self.global_content.to(wide)[:, None] * self.scale(tokens.d)
        of_contents = u @ tokens.k.to(wide).mT
        q_plus_v = tokens.q.to(wide) + self.global_position.to(wide)[:, None]
        weight = self.position.weight.to(wide) * self.scale(tokens.d)
        if tokens.consecutive and tokens.q.shape[2] > 1:
            return of_contents + self._by_skew(q_plus_v, weight, tokens)
        return of_contents + self._by_rotation(q_plus_v, weight, tokens)

    def _by_skew(
        self,
        q_plus_v: Float[Tensor, "batch heads queries d"],
        weight: Float[Tensor, "features d_model"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the term (q_i + v) · W_R r_{i−j} where positions count up by one.

        ``q_plus_v`` are the queries plus the trained vector v of each head. ``weight``
        is W_R, the projection of r_{i−j}, the sinusoid of an offset.
        """
        queries, keys = q_plus_v.shape[2], tokens.keys
        last = -1 if tokens.causal else 1 - queries  # skew needs one column more
        offsets = torch.arange(keys - 1, last - 1, -1, device=q_plus_v.device)
        distances = self._waves(offsets, q_plus_v.dtype) @ weight.mT
        distances = distances.unflatten(-1, (self.heads, self.d)).permute(1, 2, 0)
        return skew(q_plus_v @ distances, keys)

    @property
    def _pair_axis(self) -> int:
        return -1 if self.layout == "interleaved" else -2

    def _waves(
        self, offsets: Shaped[Tensor, "*shape"], dtype: torch.dtype
    ) -> Float[Tensor, "*shape d_model"]:
        """Return the sinusoidal vector of each offset, in ``dtype``.

        An offset is query position minus key position. If ``clamp`` is given, offsets
        farther from 0 count as ``clamp`` or −``clamp``.
        """
        if self.clamp is not None:
            offsets = offsets.clamp(-self.clamp, self.clamp)
        cos, sin = self._cos_sin(offsets, dtype)
        return torch.stack((sin, cos), self._pair_axis).flatten(-2)

    def _cos_sin(
        self, positions: Shaped[Tensor, "*shape"], dtype: torch.dtype
    ) -> tuple[Float[Tensor, "*shape pairs"], Float[Tensor, "*shape pairs"]]:
        omega = frequencies(self.width, device=positions.device)
        return cos_sin(angles(positions, omega), dtype)

    def _by_rotation(
        self,
        q_plus_v: Float[Tensor, "batch heads queries d"],
        weight: Float[Tensor, "features d_model"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the term (q_i + v) · W_R r_{i−j} at any positions i and j.

        Equation ``eq-xl-turned``. ``weight`` is W_R, the projection of r_{i−j}, the
        sinusoid of an offset. Where a and b are the coefficients that a query gives
        sine and cosine, a sin ω(i − j) + b cos ω(i − j) = (a sin ωi + b cos ωi) cos ωj
        + (b sin ωi − a cos ωi) sin ωj. ``q_plus_v`` are the queries plus the trained
        vector v of each head.
        """
        coefficients = q_plus_v @ weight.view(self.heads, self.d, -1)
        halves = (-1, 2) if self.layout == "interleaved" else (2, -1)
        a, b = coefficients.unflatten(-1, halves).unbind(self._pair_axis)
        i, j = tokens.query_positions, tokens.key_positions
        # Positions counted from the first key keep angles, and their rounding, small.
        (cos_i, sin_i), (cos_j, sin_j) = (
            (t[:, None] for t in self._cos_sin(at - j[:, :1], coefficients.dtype))
            for at in (i, j)
        )
        of_queries = torch.cat((a * sin_i + b * cos_i, b * sin_i - a * cos_i), -1)
        products = of_queries @ torch.cat((cos_j, sin_j), -1).mT
        if self.clamp is None:
            return products
        end = torch.full(
            (1,), self.clamp, dtype=torch.float64, device=coefficients.device
        )
        before, after = (
            coefficients @ self._waves(t, coefficients.dtype).mT for t in (-end, end)
        )
        products = torch.where(tokens.offsets < -self.clamp, before, products)
        return torch.where(tokens.offsets > self.clamp, after, products)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        clamp = "" if self.clamp is None else f", clamp={self.clamp:g}"
        return f"{self.d}, {self.heads}, {self.width}, layout={self.layout!r}{clamp}"
