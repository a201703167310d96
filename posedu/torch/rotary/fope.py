"""FoPE: a Fourier series in place of each pair's single frequency."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from posedu._arguments import (
    FoPECoefficients,
    FoPEPadding,
    FoPESeries,
    Layout,
    require_base,
    require_bool,
    require_choice,
    require_dimension,
    require_fourier_dim,
    require_not_negative,
)
from posedu.torch._tensors import angles
from posedu.torch.encoding import Tokens
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.rotation import (
    PairRotation,
    given_parameter,
    require_optional_heads,
)


def kept_frequencies(
    d: int, *, length: int, base: float = 10000.0, device: Device = None
) -> Float[Tensor, "kept"]:
    """Return RoPE's frequencies of at least the floor 2π/length, in float64.

    ``length`` is the training length in tokens. Equation ``def-fope-floor``. See
    :func:`posedu.numpy.rotary.kept_frequencies`.
    """
    floor = 2 * math.pi / require_dimension("length", length, 1)
    require_dimension("d", d)
    kept = sum(require_base(base) ** (-2 * p / d) >= floor for p in range(d // 2))
    if kept == 0:
        raise ValueError(
            "length must be at least 7 to keep a frequency above 2π/length, "
            f"got {length}"
        )
    return frequencies(d, base=base, device=device)[:kept]


class FoPE(PairRotation):
    """Fourier Position Embedding (arXiv 2412.17739), as published and as released.

    Frequencies below 2π/length are dropped; every other pair gets a Fourier series of
    all remaining frequencies, with fixed random coefficients around the pair's own
    frequency; ``requires_grad_()`` makes the coefficients trained. Equation
    ``def-fope``. Paper and code differ in three places, each a keyword.

    Parameters
    ----------
    d
        Head dimension, even.
    layout
        Which features form a pair; the authors' code is ``"half"``.
    length
        Training length, at least 7; sets the floor.
    padding
        Cosine and sine of the pairs without a series. ``"identity"``: 1 and 0, no
        rotation (the paper's Eq. 13). ``"ones"``: both 1 (the code).
    coefficients
        Rule by which coefficients are drawn, where none are given. ``"paper"``: a
        series for every kept pair, its own frequency with 1, plus normal numbers of
        deviation ``sigma``. ``"code"``: at most d/4 series, and Xavier's deviation with
        gain ``sigma``, σ √(2 / (kept · series + heads · series)); where fewer series
        than kept frequencies fit, series i is around frequency i · ⌈kept / series⌉, if
        any.
    series
        Where the series acts. ``"tokens"``: on every query and key, as the code (scores
        then are relative only where each pair is one wave, ``eq-fope-mixing``).
        ``"offset"``: on the scores, as the paper's formula; it costs O(L² kept d) time
        and O(L² (kept + d)) memory. Default ``"tokens"``.
    heads
        Number of heads with coefficients of their own; under grouped queries the
        key-value heads. ``None``: one set for all.
    base
        Base of the frequencies. Default 10000.
    sigma
        Size of the random part of drawn coefficients. Default 0.3 (the paper's smallest
        model).
    fourier_dim
        The head dimension whose frequencies are summed, at least d: a larger one has
        more frequencies, closer to each other (the authors' ``fourier_dim``). Default
        d. For ``coefficients="paper"`` a multiple of d, so that a pair's own frequency
        is among them.
    normalize
        Whether each series is divided by the sum of its coefficients (the authors'
        ``fourier_norm``). Default false, as their configurations.
    cos_coefficients, sin_coefficients
        Coefficients to use instead of drawn ones, ``[kept, series]`` with at most d/2
        series, after an axis of ``heads`` if given.

    Raises
    ------
    TypeError, ValueError
        ``d`` odd, ``length`` too short, unknown keywords, a ``sigma`` that is negative
        or not finite, a ``fourier_dim`` that does not fit d, coefficients of another
        shape or not finite; both a rule and coefficients, or neither.
    """

    head_rows = ("cos_coefficients", "sin_coefficients")

    def __init__(
        self,
        d: int,
        *,
        layout: Layout,
        length: int,
        padding: FoPEPadding,
        coefficients: FoPECoefficients | None = None,
        series: FoPESeries = "tokens",
        heads: int | None = None,
        base: float = 10000.0,
        sigma: float = 0.3,
        fourier_dim: int | None = None,
        normalize: bool = False,
        cos_coefficients: Float[Tensor, "*heads kept series"] | None = None,
        sin_coefficients: Float[Tensor, "*heads kept series"] | None = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d)
        self.layout = require_choice("layout", layout, Layout)
        self.length = require_dimension("length", length, 1)
        self.padding = require_choice("padding", padding, FoPEPadding)
        self.series = require_choice("series", series, FoPESeries)
        self.hooks -= {"logits" if series == "tokens" else "rotate"}
        self.heads = require_optional_heads(heads)
        self.base = require_base(base)
        sigma = require_not_negative("sigma", sigma)
        self.normalize = require_bool("normalize", normalize)
        self.fourier_dim = require_fourier_dim(fourier_dim, d)
        kept = kept_frequencies(self.fourier_dim, length=length, base=base)
        self.kept = len(kept)
        given = sum(c is not None for c in (cos_coefficients, sin_coefficients))
        if coefficients is not None and given == 0:
            rule = require_choice("coefficients", coefficients, FoPECoefficients)
            cos_coefficients = self._draw(rule, sigma)
            sin_coefficients = self._draw(rule, sigma)
        elif (
            coefficients is not None
            or cos_coefficients is None
            or sin_coefficients is None
        ):
            raise ValueError(
                "either `coefficients` ('paper' or 'code'), to draw them, or both "
                "`cos_coefficients` and `sin_coefficients` must be given, got "
                f"coefficients={coefficients!r} and {given} of the two"
            )
        own = () if heads is None else (heads,)
        shape = (*own, self.kept, "series")
        self.cos_coefficients = given_parameter(
            "cos_coefficients", cos_coefficients, shape
        ).requires_grad_(False)
        shape = self.cos_coefficients.shape
        self.sin_coefficients = given_parameter(
            "sin_coefficients", sin_coefficients, tuple(shape)
        ).requires_grad_(False)
        if shape[-1] > d // 2:
            raise ValueError(
                f"there must be at most {d // 2} series for d = {d}, got {shape[-1]}"
            )

    def _draw(
        self, rule: FoPECoefficients, sigma: float
    ) -> Float[Tensor, "*heads kept series"]:
        """Draw series coefficients: columns of the identity matrix plus noise.

        ``rule``, ``"paper"`` or ``"code"``, is the argument ``coefficients`` of the
        class; ``sigma`` sets the size of the noise.
        """
        kept, own = self.kept, 1 if self.heads is None else self.heads
        if rule == "paper":
            require_dimension("fourier_dim", self.fourier_dim, self.d)
            step = self.fourier_dim // self.d
            dominant = torch.eye(kept)[:, ::step]
            noise = sigma * torch.randn(own, *dominant.shape)
        else:
            series = max(1, min(kept, self.d // 4))
            step = -(-kept // series)
            dominant = torch.eye(kept)[:, ::step]
            dominant = nn.functional.pad(dominant, (0, series - dominant.shape[1]))
            noise = nn.init.xavier_normal_(torch.empty(own, kept, series), gain=sigma)
        values = dominant + noise
        return values[0] if self.heads is None else values

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        cos, sin = self._both_series(positions, device)
        missing = self.d // 2 - cos.shape[-1]
        sine = 0.0 if self.padding == "identity" else 1.0
        pad = nn.functional.pad
        cos = pad(cos, (0, missing), value=1.0)
        return cos.to(dtype), pad(sin, (0, missing), value=sine).to(dtype)

    def _both_series(
        self, positions: Tensor | range, device: Device
    ) -> tuple[Tensor, Tensor]:
        omega = frequencies(self.fourier_dim, base=self.base, device=device)
        angle = angles(positions, omega[: self.kept])
        c, s = (t.to(angle) for t in (self.cos_coefficients, self.sin_coefficients))
        if self.normalize:
            c, s = (t / t.sum(-2, keepdim=True) for t in (c, s))
        return angle.cos() @ c, angle.sin() @ s

    def _rotate(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        return super()._rotate(x, table) if self.series == "tokens" else x

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the logits of every (query, key) pair.

        With ``series="offset"`` they are made by the Fourier series of each offset,
        over √d (equation ``def-fope-offset``), else of rotated queries and keys.
        """
        if self.series == "tokens":
            return super().logits(tokens)
        a, b = (t.unsqueeze(-2) for t in self._pairs(tokens.q))
        c, d = (t.unsqueeze(-3) for t in self._pairs(tokens.k))
        offsets = tokens.offsets
        table = self._table(offsets.flatten(-2), a.dtype, offsets.device)
        cos, sin = (
            t.unflatten(-2, offsets.shape[-2:])
            for t in self._for_heads(tokens.q, table)
        )
        scores = cos * (a * c + b * d) - sin * (b * c - a * d)
        return scores.sum(-1) * self.scale(tokens.d)

    def _pairs(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the first and the second features of all pairs, as two tensors."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        shape, axis = ((-1, 2), -1) if self.layout == "interleaved" else ((2, -1), -2)
        return wide.unflatten(-1, shape).unbind(axis)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d}, layout={self.layout!r}, length={self.length}, "
            f"padding={self.padding!r}, series={self.series!r}, heads={self.heads}, "
            f"fourier_dim={self.fourier_dim}, normalize={self.normalize}"
        )
