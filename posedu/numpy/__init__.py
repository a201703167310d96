"""The reference implementation of encodings: float64 NumPy, close to the formulas."""

from posedu.numpy.absolute.cape import cape
from posedu.numpy.absolute.floater import floater
from posedu.numpy.absolute.fourier import (
    embed_fourier_learned,
    embed_fourier_random,
)
from posedu.numpy.absolute.learned import (
    embed_learned,
    embed_random,
    enter_learned,
)
from posedu.numpy.absolute.pose import pose
from posedu.numpy.absolute.randomized import randomized
from posedu.numpy.absolute.sinusoidal import embed_sinusoidal
from posedu.numpy.attention import Hooks, Tokens, attend
from posedu.numpy.bias import alibi, dape, fire, kerple_log, kerple_power, sandwich, t5
from posedu.numpy.gated import cope, fox, fox_pro
from posedu.numpy.nope import nope
from posedu.numpy.path import path_attention, path_fox, selective_rope
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
    gta,
    lerope,
    liere,
    llama3,
    longrope,
    m_rope,
    mixed,
    mla,
    ntk,
    ntk_dynamic,
    p_rope,
    pi,
    pope,
    rerotation,
    resonance,
    riflex,
    rope,
    self_extend,
    string,
    tape,
    value_rotation,
    xpos,
    yarn,
)
from posedu.numpy.scaling import log_n
from posedu.numpy.stickbreaking import stick_breaking

__all__ = [
    "Hooks",
    "Tokens",
    "alibi",
    "attend",
    "axial",
    "cape",
    "comrope_ap",
    "comrope_ld",
    "cope",
    "dape",
    "deberta",
    "embed_fourier_learned",
    "embed_fourier_random",
    "embed_learned",
    "embed_random",
    "embed_sinusoidal",
    "enter_learned",
    "fire",
    "floater",
    "fope",
    "fope_offset",
    "fox",
    "fox_pro",
    "gta",
    "inkling",
    "kerple_log",
    "kerple_power",
    "lerope",
    "liere",
    "llama3",
    "log_n",
    "longrope",
    "m_rope",
    "mixed",
    "mla",
    "music_transformer",
    "nope",
    "ntk",
    "ntk_dynamic",
    "p_rope",
    "path_attention",
    "path_fox",
    "pi",
    "pope",
    "pose",
    "randomized",
    "rerotation",
    "resonance",
    "riflex",
    "rope",
    "sandwich",
    "selective_rope",
    "self_extend",
    "shaw",
    "stick_breaking",
    "string",
    "t5",
    "tape",
    "transformer_xl",
    "tupe",
    "value_rotation",
    "xpos",
    "yarn",
]
