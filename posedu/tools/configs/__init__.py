"""Read and write model configurations in many formats."""

from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import (
    ConfigError,
    Reading,
    Remark,
    RotaryConfig,
)
from posedu.tools.configs.write import write_rope

__all__ = [
    "ConfigError",
    "Reading",
    "Remark",
    "RotaryConfig",
    "read_rope",
    "write_rope",
]
