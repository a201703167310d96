"""Read and write RoPE configurations, convert checkpoints, make token positions."""

from posedu.tools.checkpoints import (
    Conversion,
    ConvertError,
    Fused,
    Pairs,
    Plan,
    PlannedTensor,
    convert,
    convert_file,
    plan,
)
from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import (
    ConfigError,
    Reading,
    Remark,
    RotaryConfig,
)
from posedu.tools.configs.write import write_rope
from posedu.tools.positions import (
    kept_tokens,
    packed_positions,
    padded_positions,
)

__all__ = [
    "ConfigError",
    "Conversion",
    "ConvertError",
    "Fused",
    "Pairs",
    "Plan",
    "PlannedTensor",
    "Reading",
    "Remark",
    "RotaryConfig",
    "convert",
    "convert_file",
    "kept_tokens",
    "packed_positions",
    "padded_positions",
    "plan",
    "read_rope",
    "write_rope",
]
