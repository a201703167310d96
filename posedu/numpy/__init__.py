"""The reference face: float64 NumPy, as close to the printed formula as code can be."""

from posedu.numpy.absolute import embed_sinusoidal, floater
from posedu.numpy.attention import Doors, Tokens, attend
from posedu.numpy.bias import alibi, dape, fire, kerple_log, kerple_power, sandwich, t5
from posedu.numpy.gated import cope, fox, fox_pro
from posedu.numpy.relative import (
    deberta,
    inkling,
    music_transformer,
    shaw,
    transformer_xl,
    tupe,
)
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
    "dape",
    "deberta",
    "embed_sinusoidal",
    "fire",
    "floater",
    "fope",
    "fope_offset",
    "fox",
    "fox_pro",
    "inkling",
    "kerple_log",
    "kerple_power",
    "liere",
    "mixed",
    "music_transformer",
    "pi",
    "rope",
    "sandwich",
    "shaw",
    "stick_breaking",
    "t5",
    "transformer_xl",
    "tupe",
]
