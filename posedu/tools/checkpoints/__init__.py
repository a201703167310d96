"""Conversion of checkpoints between RoPE's layouts of pairs, which keeps all logits.

The order of the rows of W_q and W_k determines which two features of a head form a pair
and the direction of its rotation: a rotation of (a, b) by −θ is a rotation of (b, a) by
θ. So a conversion permutes rows within each head of queries and keys, of their biases
and of the weights of their norms. No number changes.
"""

from posedu.tools.checkpoints.conversion import (
    Conversion,
    ConvertError,
    Fused,
    Pairs,
)
from posedu.tools.checkpoints.converting import convert, convert_file, plan
from posedu.tools.checkpoints.planning import Plan, PlannedTensor

__all__ = [
    "Conversion",
    "ConvertError",
    "Fused",
    "Pairs",
    "Plan",
    "PlannedTensor",
    "convert",
    "convert_file",
    "plan",
]
