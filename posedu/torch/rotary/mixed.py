"""RoPE-Mixed: RoPE with a trained frequency vector for each pair of features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import Layout, require_choice, require_dimension
from posedu.torch._numbers import as_real_tensor
from posedu.torch._tensors import cos_sin, in_float64, require_exact_angles
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary.rotation import (
    PairRotation,
    given_parameter,
    require_optional_heads,
)

FrequencyVectors = (
    Float[Tensor, "*heads pairs axes"]
    | Float[np.ndarray, "*heads pairs axes"]
    | Sequence[Sequence[float] | Sequence[Sequence[float]]]
)


class MixedRoPE(PairRotation):
    """RoPE-Mixed (arXiv 2403.13298 §3.2): every pair has a trained frequency vector.

    The angle of pair p of a token at x is f_p · x. Equation ``def-mixed``. The paper
    trains vectors for each head and layer and excludes them from weight decay. Angles
    above 2²⁹ are refused on a CPU: float64 would hold them less exactly than float32
    holds their cosines.

    Parameters
    ----------
    d
        Head dimension: a multiple of 4, or of 2 where ``frequencies`` are given.
    layout
        Which features form a pair; the authors' code is ``"interleaved"``.
    heads
        Number of heads with frequencies of their own; under grouped queries the
        key-value heads. ``None``: one set for all.
    base
        Base of the initial lengths base^(−4t/d). Default 10 (the authors' code).
    frequencies
        Initial frequency vectors instead, ``[pairs, axes]`` or ``[heads, pairs,
        axes]``, as a tensor, a NumPy array or nested lists. Default: see
        :meth:`initial_frequencies`.

    Raises
    ------
    TypeError, ValueError
        ``d`` not a multiple of 4 (or 2), unknown ``layout``, ``base`` not above 1,
        frequencies of another shape or not finite.
    """

    is_group = True
    head_rows = ("frequencies",)

    def __init__(
        self,
        d: int,
        *,
        layout: Layout,
        heads: int | None = None,
        base: float = 10.0,
        frequencies: FrequencyVectors | None = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d)
        self.layout = require_choice("layout", layout, Layout)
        self.heads = require_optional_heads(heads)
        if frequencies is None:
            vectors = self.initial_frequencies(d, heads=heads, base=base)
            vectors = vectors.to(torch.get_default_dtype())
        else:
            vectors = as_real_tensor("frequencies", frequencies)
        own = () if heads is None else (heads,)
        shape = (*own, d // 2, "axes")
        self.frequencies = given_parameter("frequencies", vectors, shape)
        self.axes = vectors.shape[-1]
        self.position_shape = (self.axes,)

    @staticmethod
    def initial_frequencies(
        d: int, *, heads: int | None = None, base: float = 10.0
    ) -> Float[Tensor, "*heads pairs 2"]:
        """Draw the initial frequencies of the authors' code for two axes, in float64.

        Each head is axial RoPE in a frame of its own, rotated by an angle φ uniform in
        [0, 2π): the first half of the pairs points to φ, the second to φ + π/2, with
        lengths base^(−4t/d), t = 0 … d/4 − 1.
        """
        require_dimension("d", d, 4)
        size = frequencies(d // 2, base=base)
        own = () if heads is None else (heads,)
        phi = 2 * math.pi * torch.rand(*own, 1, dtype=torch.float64)
        direction = torch.cat((phi, phi + math.pi / 2), -1)[..., None]
        return torch.stack(
            (
                (size * direction.cos()).flatten(-2),
                (size * direction.sin()).flatten(-2),
            ),
            -1,
        )

    def _table(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> tuple[Tensor, Tensor]:
        f = self.frequencies.to(torch.float64)
        angle = in_float64(positions, device) @ f.mT
        return cos_sin(require_exact_angles("angles", angle), dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d}, layout={self.layout!r}, heads={self.heads}, axes={self.axes}"
