"""The reference face: float64 NumPy, as close to the printed formula as code can be."""

from posedu.numpy.absolute.sinusoidal import embed_sinusoidal
from posedu.numpy.attention import Doors, Tokens, attend
from posedu.numpy.bias import alibi, t5
from posedu.numpy.gated import cope, fox, fox_pro
from posedu.numpy.relative import deberta, transformer_xl, tupe
from posedu.numpy.rotary import (
    axial,
    comrope_ap,
    comrope_ld,
    fope,
    fope_offset,
    liere,
    mixed,
    pi,
    rope,
)
from posedu.numpy.stickbreaking import stick_breaking

__all__ = [
    "Doors",
    "Tokens",
    "alibi",
    "attend",
    "axial",
    "comrope_ap",
    "comrope_ld",
    "cope",
    "deberta",
    "embed_sinusoidal",
    "fope",
    "fope_offset",
    "fox",
    "fox_pro",
    "liere",
    "mixed",
    "pi",
    "rope",
    "stick_breaking",
    "t5",
    "transformer_xl",
    "tupe",
]
