"""Practice: what a model's configuration says of its rotations, and its weights."""

from posedu.practice.layouts import (
    Conversion,
    ConvertError,
    Pairs,
    convert,
    convert_file,
)
from posedu.practice.positions import (
    kept_tokens,
    packed_positions,
    padded_positions,
)
from posedu.practice.read import read_rope
from posedu.practice.rope import ConfigError, Reading, Remark, Rope
from posedu.practice.write import write_rope

__all__ = [
    "ConfigError",
    "Conversion",
    "ConvertError",
    "Pairs",
    "Reading",
    "Remark",
    "Rope",
    "convert",
    "convert_file",
    "kept_tokens",
    "packed_positions",
    "padded_positions",
    "read_rope",
    "write_rope",
]
