"""How fast each pair of features turns."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import SPACINGS, require_base, require_choice, require_dimension


def frequencies(
    d: int, *, base: float = 10000.0, spacing: str = "paper", device: Device = None
) -> Float[Tensor, "pairs"]:
    """Angular frequencies of the d/2 pairs in float64. Equation ``def-frequencies``.

    See :func:`posedu.numpy.frequencies.frequencies`, which states the two ``spacing``.
    """
    require_dimension("d", d)
    if not torch.compiler.is_compiling():  # to which a module's base is no number
        require_base(base)
    require_choice("spacing", spacing, SPACINGS)
    last = d / 2 if spacing == "paper" else max(d / 2 - 1, 1)
    exponent = torch.arange(d // 2, dtype=torch.float64, device=device) / last
    return torch.pow(base, -exponent)
