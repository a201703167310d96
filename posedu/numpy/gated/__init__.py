"""Gated positional encodings in NumPy (reference), one module for each encoding."""

from posedu.numpy.gated.cope import (
    contextual_positions,
    cope,
    interpolated_scalars,
    interpolated_vectors,
)
from posedu.numpy.gated.fox import (
    constant_gate_bias,
    forget_bias,
    fox,
    fox_pro,
    log_gates,
)
from posedu.numpy.gated.log_linear import (
    bucket_level,
    bucket_levels,
    level_weights,
    log_linear,
    log_linear_recurrent,
    mamba_log_gates,
)
from posedu.numpy.gated.selective_attention import (
    accumulated_selections,
    selections,
    selective_attention,
)

__all__ = [
    "accumulated_selections",
    "bucket_level",
    "bucket_levels",
    "constant_gate_bias",
    "contextual_positions",
    "cope",
    "forget_bias",
    "fox",
    "fox_pro",
    "interpolated_scalars",
    "interpolated_vectors",
    "level_weights",
    "log_gates",
    "log_linear",
    "log_linear_recurrent",
    "mamba_log_gates",
    "selections",
    "selective_attention",
]
