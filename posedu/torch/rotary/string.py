"""STRING: commuting generators in two forms, Cayley and circulant."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from posedu._arguments import (
    STRINGForm,
    require_choice,
    require_dimension,
    require_not_negative,
)
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import cos_sin, in_float64, require_exact_angles
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.generators import skew
from posedu.torch.rotary.rotation import (
    PairRotation,
    given_parameter,
    require_optional_heads,
)


def _fourier_basis(d: int, device: Device) -> Float[Tensor, "d waves"]:
    """Return the cosine and sine waves of d features, as orthonormal columns.

    Circulant-STRING rotates the planes that cosine and sine of the same frequency span.
    The cosines of the frequencies 1 … d/2 − 1 come first, then their sines.
    """
    n = torch.arange(d, dtype=torch.float64, device=device)
    angle = 2 * math.pi / d * n[:, None] * n[1 : d // 2]
    return math.sqrt(2 / d) * torch.cat((angle.cos(), angle.sin()), -1)


def _axial_start(d: int, axes: int) -> Float[Tensor, "pairs axes"]:
    """Return axial RoPE's frequency vectors, in float64, for any number of pairs.

    Each axis has an equal share of the d/2 pairs, the first axes one more if needed.
    """
    start = torch.zeros(d // 2, axes, dtype=torch.float64)
    for axis, pairs in enumerate(torch.arange(d // 2).tensor_split(axes)):
        if len(pairs):
            start[pairs, axis] = frequencies(2 * len(pairs), base=100.0)
    return start


class STRING(PairRotation):
    """STRING (arXiv 2502.02562): generators that commute; scores are exactly relative.

    Angles above 2²⁹ are refused on a CPU.

    Parameters
    ----------
    d
        Head dimension, even.
    form
        ``"cayley"``: RoPE-Mixed, interleaved, after a basis P = (I − S)(I + S)⁻¹ with a
        trained skew S; trained frequency vectors. Equation ``def-string-cayley``.
        ``"circulant"``: exponentials of C − Cᵀ for circulant C, by Fourier transforms
        in O(d log d). Equation ``def-string-circulant``.
    axes
        Number of coordinates. Default 2.
    heads
        Number of heads with parameters of their own; under grouped queries the
        key-value heads. ``None``: one set for all.
    scale
        Scale of the normal initialization: S's entries have the deviation scale/√d, and
        circulant frequencies the deviation scale. Default 1. Frequencies of
        ``"cayley"`` start as axial RoPE's, each axis with an equal share of the pairs
        or one more. These initial values are ours.

    Raises
    ------
    TypeError, ValueError
        ``d`` odd, unknown ``form``, sizes that are not positive integers, a ``scale``
        that is negative or not finite.
    """

    axes: int
    head_rows = ("coefficients", "entries", "frequencies")

    def __init__(
        self,
        d: int,
        *,
        form: STRINGForm,
        axes: int = 2,
        heads: int | None = None,
        scale: float = 1.0,
    ):
        super().__init__()
        self.axes = require_dimension("axes", axes, 1)
        self.position_shape = (axes,)
        self.d = require_dimension("d", d)
        self.form = require_choice("form", form, STRINGForm)
        self.heads = require_optional_heads(heads)
        self.layout = "interleaved"
        scale = require_not_negative("scale", scale)
        own = () if heads is None else (heads,)
        if form == "circulant":
            shape = (*own, axes, d)
            start = scale / math.sqrt(2 * d) * torch.randn(shape)
            self.coefficients = given_parameter("coefficients", start, shape)
            return
        start = scale / math.sqrt(d) * torch.randn(*own, d * (d - 1) // 2)
        self.entries = given_parameter("entries", start, tuple(start.shape))
        f = _axial_start(d, axes).to(torch.get_default_dtype()).expand(*own, -1, -1)
        self.frequencies = given_parameter("frequencies", f, tuple(f.shape))

    def basis(self) -> Float[Tensor, "*heads d d"]:
        """Return the orthogonal P = (I − S)(I + S)⁻¹ of form "cayley", in float64.

        S is the trained skew matrix.
        """
        s = skew(self.entries.to(torch.float64))
        one = torch.eye(self.d, dtype=torch.float64, device=s.device)
        return torch.linalg.solve(one + s, one - s)  # they commute

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        x = in_float64(positions, device)
        if self.form == "cayley":
            angle = x @ self.frequencies.to(torch.float64).mT
            return cos_sin(require_exact_angles("angles", angle), dtype)
        sines = _fourier_basis(self.d, x.device)[:, self.d // 2 - 1 :]
        f = math.sqrt(2 * self.d) * self.coefficients.to(torch.float64) @ sines
        # The transform mixes features of all sizes, so the table is float64.
        return cos_sin(require_exact_angles("angles", x @ f), torch.float64)

    def _rotate(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = table
        wide = x.to(torch.promote_types(x.dtype, cos.dtype))
        with without_autocast(x):
            if self.form == "cayley":
                p = self.basis().to(wide.dtype)
                if self.heads is not None:
                    p = p.repeat_interleave(x.shape[-3] // self.heads, 0)
                return super()._rotate(wide @ p.mT, table).to(x.dtype)
            less = cos - 1  # x + (R − I) x rounds nothing where R = I
            if torch.compiler.is_compiling() or not x.numel():
                # Compilers lack complex numbers, MKL lacks transforms of no numbers.
                q = _fourier_basis(self.d, x.device)
                a, b = (wide @ q).unflatten(-1, (2, -1)).unbind(-2)
                change = torch.cat((a * less - b * sin, b * less + a * sin), -1)
                return (wide + change @ q.mT).to(x.dtype)
            waves = torch.fft.rfft(wide)[..., 1:-1] * torch.complex(less, -sin)
            change = torch.fft.irfft(nn.functional.pad(waves, (1, 1)), n=self.d)
            return (wide + change).to(x.dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d}, form={self.form!r}, axes={self.axes}, heads={self.heads}"
