"""Angular frequencies of the pairs of features (RoPE, sinusoidal encoding)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import Spacing, require_base, require_choice, require_dimension


def frequencies(
    d: int, *, base: float = 10000.0, spacing: Spacing = "paper", device: Device = None
) -> Float[Tensor, "pairs"]:
    """Angular frequencies of the d/2 pairs of features, in float64.

    Equation ``def-frequencies``. See :func:`posedu.numpy.frequencies.frequencies`,
    which explains the two values of ``spacing``. By default ω_p = base^(−2p/d).
    """
    require_dimension("d", d)
    if not torch.compiler.is_compiling():  # Under a compiler, base may be symbolic.
        base = require_base(base)
    require_choice("spacing", spacing, Spacing)
    last = d / 2 if spacing == "paper" else max(d / 2 - 1, 1)
    exponent = torch.arange(d // 2, dtype=torch.float64, device=device) / last
    return torch.pow(base, -exponent)
