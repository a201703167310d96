"""Gated encodings, the reference face: FoX (``forget``) and CoPE (``contextual``)."""

from posedu.numpy.gated.contextual import (
    contextual_positions,
    interpolated_scalars,
    interpolated_vectors,
)
from posedu.numpy.gated.forget import (
    constant_gate_bias,
    forget_bias,
    forgetting_attention,
    log_gates,
)

__all__ = [
    "constant_gate_bias",
    "contextual_positions",
    "forget_bias",
    "forgetting_attention",
    "interpolated_scalars",
    "interpolated_vectors",
    "log_gates",
]
