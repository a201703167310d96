"""FoPE: a Fourier series in place of each pair's single frequency."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posedu._arguments import (
    COEFFICIENTS,
    LAYOUTS,
    PADDINGS,
    SERIES,
    require_base,
    require_choice,
    require_dimension,
)
from posedu.torch._tensors import Positions, angles
from posedu.torch.absolute import frequencies
from posedu.torch.encoding import LAYER_DOORS, Tokens
from posedu.torch.rotary.turning import PairRotation, require_optional_heads


class FoPE(PairRotation):
    """Fourier Position Embedding (arXiv 2412.17739), as published and as released.

    Frequencies below 2π/length are dropped; every other pair gets a series of all that
    remain, with fixed random coefficients around its own frequency. Equation
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
        What the pairs without a series do. ``"identity"``: they do not turn (the
        paper's Eq. 13). ``"ones"``: cosine and sine are both 1 (the code).
    coefficients
        How they are drawn. ``"paper"``: a series for every kept pair, its own
        frequency with 1, plus normal numbers of deviation ``sigma``. ``"code"``: at
        most d/4 series, and Xavier's deviation with gain ``sigma``,
        σ √(2 / (kept · series + heads · series)); where fewer series than kept
        frequencies fit, series i is around frequency i · ⌈kept / series⌉, if any.
    series
        Where it acts. ``"tokens"``: on every query and key, as the code (then scores
        are not relative, ``eq-fope-mixing``). ``"offset"``: on the scores, as the
        paper's formula; it costs O(L² d) time and memory. Default ``"tokens"``.
    heads
        How many heads have coefficients of their own; under grouped queries the
        key-value heads. ``None``: one set for all.
    base
        Default 10000.
    sigma
        Default 0.3 (the paper's smallest model).

    Raises
    ------
    TypeError, ValueError
        ``d`` odd, ``length`` too short, unknown keywords, a ``sigma`` that is negative
        or not finite.
    """

    def __init__(
        self,
        d: int,
        *,
        layout: str,
        length: int,
        padding: str,
        coefficients: str,
        series: str = "tokens",
        heads: int | None = None,
        base: float = 10000.0,
        sigma: float = 0.3,
    ):
        super().__init__()
        self.d = require_dimension("d", d)
        self.layout = require_choice("layout", layout, LAYOUTS)
        self.length = require_dimension("length", length, 1)
        self.padding = require_choice("padding", padding, PADDINGS)
        require_choice("coefficients", coefficients, COEFFICIENTS)
        self.series = require_choice("series", series, SERIES)
        self.heads = require_optional_heads(heads)
        self.base = require_base(base)
        if not 0 <= sigma < math.inf:
            raise ValueError(f"sigma must be finite and not negative, got {sigma}")
        floor = 2 * math.pi / length
        self.kept = int((frequencies(d, base=base, device="cpu") >= floor).sum())
        if self.kept == 0:
            raise ValueError(
                "length must be at least 7 to keep a frequency above 2π/length, "
                f"got {length}"
            )
        self.cos_coefficients = _draw(self.kept, d, heads, coefficients, sigma)
        self.sin_coefficients = _draw(self.kept, d, heads, coefficients, sigma)

    def kept_frequencies(self, device=None) -> Float[Tensor, "kept"]:
        """The frequencies from the floor 2π/length on. See ``def-fope-floor``."""
        return frequencies(self.d, base=self.base, device=device)[: self.kept]

    def _table(self, positions, dtype, device) -> tuple[Tensor, Tensor]:
        cos, sin = self._both_series(positions, device)
        missing = self.d // 2 - cos.shape[-1]
        sine = 0.0 if self.padding == "identity" else 1.0
        pad = nn.functional.pad
        cos = pad(cos, (0, missing), value=1.0)
        return cos.to(dtype), pad(sin, (0, missing), value=sine).to(dtype)

    def _both_series(self, positions: Positions, device) -> tuple[Tensor, Tensor]:
        angle = angles(positions, self.kept_frequencies(device))
        c, s = self.cos_coefficients, self.sin_coefficients
        return angle.cos() @ c.to(angle), angle.sin() @ s.to(angle)

    def _turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        return super()._turn(x, table) if self.series == "tokens" else x

    def opens(self, door: str) -> bool:
        """Whether the series acts there."""
        if door in LAYER_DOORS:
            return door == ("rotate" if self.series == "tokens" else "logits")
        return super().opens(door)

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of the offset's series, over √d. Equation ``def-fope-offset``."""
        if self.series == "tokens":
            return super().logits(tokens)
        q, k = (self._as_complex(t) for t in (tokens.q, tokens.k))
        h = q.unsqueeze(-2) * k.conj().unsqueeze(-3)
        offsets = tokens.offsets
        table = self._table(offsets.flatten(-2), h.real.dtype, offsets.device)
        cos, sin = (
            t.unflatten(-2, offsets.shape[-2:])
            for t in self._for_heads(tokens.q, table)
        )
        return (cos * h.real - sin * h.imag).sum(-1) * self.scale(tokens.d)

    def _as_complex(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        shape, axis = ((-1, 2), -1) if self.layout == "interleaved" else ((2, -1), -2)
        return torch.complex(*wide.unflatten(-1, shape).unbind(axis))

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return (
            f"{self.d}, layout={self.layout!r}, length={self.length}, "
            f"padding={self.padding!r}, series={self.series!r}, heads={self.heads}"
        )


def _draw(
    kept: int, d: int, heads: int | None, rule: str, sigma: float
) -> nn.Parameter:
    """Fixed coefficients ``[*heads, kept, series]`` around the identity."""
    own = 1 if heads is None else heads
    if rule == "paper":
        dominant = torch.eye(kept)
        noise = sigma * torch.randn(own, kept, kept)
    else:
        series = max(1, min(kept, d // 4))
        step = -(-kept // series)
        dominant = torch.eye(kept)[:, ::step]
        dominant = nn.functional.pad(dominant, (0, series - dominant.shape[1]))
        noise = nn.init.xavier_normal_(torch.empty(own, kept, series), gain=sigma)
    values = dominant + noise
    return nn.Parameter(values[0] if heads is None else values, requires_grad=False)
