"""Symbolic implementation of encodings: exact SymPy matrices for proofs and tests."""

from posedu.sympy.absolute.abacus import abacus
from posedu.sympy.absolute.cape import cape
from posedu.sympy.absolute.floater import floater
from posedu.sympy.absolute.fourier import (
    embed_fourier_learned,
    embed_fourier_random,
)
from posedu.sympy.absolute.hash_grid import embed_hash_grid
from posedu.sympy.absolute.integrated import embed_integrated
from posedu.sympy.absolute.learned import (
    embed_learned,
    embed_random,
    enter_learned,
)
from posedu.sympy.absolute.nerf import embed_nerf
from posedu.sympy.absolute.pose import pose
from posedu.sympy.absolute.position_coupling import position_coupling
from posedu.sympy.absolute.randomized import randomized
from posedu.sympy.absolute.sinusoidal import embed_sinusoidal
from posedu.sympy.attention import Hooks, Tokens, attend
from posedu.sympy.bias import (
    alibi,
    bam,
    dape,
    fire,
    kerple_log,
    kerple_power,
    sandwich,
    t5,
)
from posedu.sympy.gated import (
    cope,
    fox,
    fox_pro,
    log_linear,
    selective_attention,
)
from posedu.sympy.graph import algebraic, embed_laplacian, embed_random_walk
from posedu.sympy.nope import nope
from posedu.sympy.path import (
    carope,
    grape_a,
    grape_ap,
    grape_m,
    path_attention,
    path_fox,
    retention,
    selective_rope,
    wall,
)
from posedu.sympy.recurrent import (
    delta_net,
    delta_product,
    gated_convolution,
    gated_delta_net,
    gla,
    kda,
    lightning,
    linear_attention,
    mamba_2,
    mamba_3,
)
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
    golden_gate,
    gta,
    liere,
    m_rope,
    mixed,
    mla,
    pope,
    rerotation,
    rope,
    self_extend,
    string,
    tape,
    value_rotation,
    xpos,
)
from posedu.sympy.scaling import log_n
from posedu.sympy.stickbreaking import geometric, stick_breaking

__all__ = [
    "Hooks",
    "Tokens",
    "abacus",
    "algebraic",
    "alibi",
    "attend",
    "axial",
    "bam",
    "cape",
    "carope",
    "comrope_ap",
    "comrope_ld",
    "cope",
    "dape",
    "deberta",
    "delta_net",
    "delta_product",
    "embed_fourier_learned",
    "embed_fourier_random",
    "embed_hash_grid",
    "embed_integrated",
    "embed_laplacian",
    "embed_learned",
    "embed_nerf",
    "embed_random",
    "embed_random_walk",
    "embed_sinusoidal",
    "enter_learned",
    "fire",
    "floater",
    "fope",
    "fope_offset",
    "fox",
    "fox_pro",
    "gated_convolution",
    "gated_delta_net",
    "geometric",
    "gla",
    "golden_gate",
    "grape_a",
    "grape_ap",
    "grape_m",
    "gta",
    "inkling",
    "kda",
    "kerple_log",
    "kerple_power",
    "liere",
    "lightning",
    "linear_attention",
    "log_linear",
    "log_n",
    "m_rope",
    "mamba_2",
    "mamba_3",
    "mixed",
    "mla",
    "music_transformer",
    "nope",
    "path_attention",
    "path_fox",
    "pope",
    "pose",
    "position_coupling",
    "randomized",
    "rerotation",
    "retention",
    "rope",
    "sandwich",
    "selective_attention",
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
    "wall",
    "xpos",
]
