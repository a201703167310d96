"""The symbolic face: small exact matrices, for the proofs in the chapters and tests."""

from posedu.sympy.absolute import embed_sinusoidal, floater
from posedu.sympy.attention import Doors, Tokens, attend
from posedu.sympy.bias import alibi, dape, fire, kerple_log, kerple_power, sandwich, t5
from posedu.sympy.gated import cope, fox, fox_pro
from posedu.sympy.relative import (
    deberta,
    inkling,
    music_transformer,
    shaw,
    transformer_xl,
    tupe,
)
from posedu.sympy.rotary import (
    axial,
    comrope_ap,
    comrope_ld,
    fope,
    fope_offset,
    liere,
    mixed,
    rope,
)
from posedu.sympy.stickbreaking import stick_breaking

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
    "rope",
    "sandwich",
    "shaw",
    "stick_breaking",
    "t5",
    "transformer_xl",
    "tupe",
]
