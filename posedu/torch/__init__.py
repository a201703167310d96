"""PyTorch implementations of positional encodings: modules to train, on CPU or GPU."""

from posedu.torch.absolute.abacus import Abacus
from posedu.torch.absolute.cape import CAPE
from posedu.torch.absolute.floater import FLOATER
from posedu.torch.absolute.fourier import FourierLearned, FourierRandom
from posedu.torch.absolute.hash_grid import HashGrid
from posedu.torch.absolute.integrated import Integrated
from posedu.torch.absolute.learned import (
    BERTInput,
    Learned,
    LearnedPerLayer,
    Random,
)
from posedu.torch.absolute.nerf import NeRF
from posedu.torch.absolute.pose import PoSE
from posedu.torch.absolute.position_coupling import PositionCoupling
from posedu.torch.absolute.randomized import Randomized
from posedu.torch.absolute.sinusoidal import Sinusoidal
from posedu.torch.attention import Attention, KVCache, attend
from posedu.torch.bias import (
    BAM,
    DAPE,
    FIRE,
    T5,
    ALiBi,
    KERPLELog,
    KERPLEPower,
    Sandwich,
)
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.gated import CoPE, FoX, FoXPro, LogLinear, SelectiveAttention
from posedu.torch.graph import (
    Algebraic,
    Laplacian,
    RandomWalk,
)
from posedu.torch.language_model import LanguageModel
from posedu.torch.nope import NoPE
from posedu.torch.path import (
    GRAPEA,
    GRAPEAP,
    GRAPEM,
    CARoPE,
    PaTH,
    PaTHFoX,
    Retention,
    SelectiveRoPE,
    Wall,
)
from posedu.torch.recurrent import (
    GLA,
    KDA,
    DeltaNet,
    DeltaProduct,
    GatedConvolution,
    GatedDeltaNet,
    LightningAttention,
    LinearAttention,
    Mamba2,
    Mamba3,
    RecurrentLayer,
)
from posedu.torch.relative import (
    TUPE,
    DeBERTa,
    Inkling,
    MusicTransformer,
    Shaw,
    TransformerXL,
)
from posedu.torch.rotary import (
    GTA,
    MLA,
    STRING,
    TAPE,
    AxialRoPE,
    ComRoPEAP,
    ComRoPELD,
    FoPE,
    GoldenGateRoPE,
    LieRE,
    MixedRoPE,
    MRoPE,
    PoPE,
    Rerotation,
    RoPE,
    SelfExtend,
    ValueRotation,
    XPos,
    convert_layout,
    fold_basis,
    grid,
    rotate_blocks,
    rotate_pairs,
)
from posedu.torch.scaling import LogN
from posedu.torch.state_cache import StateCache
from posedu.torch.stickbreaking import Geometric, StickBreaking
from posedu.torch.transformer import Transformer

__all__ = [
    "BAM",
    "CAPE",
    "DAPE",
    "FIRE",
    "FLOATER",
    "GLA",
    "GRAPEA",
    "GRAPEAP",
    "GRAPEM",
    "GTA",
    "KDA",
    "MLA",
    "STRING",
    "T5",
    "TAPE",
    "TUPE",
    "ALiBi",
    "Abacus",
    "Algebraic",
    "Attention",
    "AxialRoPE",
    "BERTInput",
    "CARoPE",
    "CoPE",
    "ComRoPEAP",
    "ComRoPELD",
    "DeBERTa",
    "DeltaNet",
    "DeltaProduct",
    "Encoding",
    "FoPE",
    "FoX",
    "FoXPro",
    "FourierLearned",
    "FourierRandom",
    "GatedConvolution",
    "GatedDeltaNet",
    "Geometric",
    "GoldenGateRoPE",
    "HashGrid",
    "Inkling",
    "Integrated",
    "KERPLELog",
    "KERPLEPower",
    "KVCache",
    "LanguageModel",
    "Laplacian",
    "Learned",
    "LearnedPerLayer",
    "LieRE",
    "LightningAttention",
    "LinearAttention",
    "LogLinear",
    "LogN",
    "MRoPE",
    "Mamba2",
    "Mamba3",
    "MixedRoPE",
    "MusicTransformer",
    "NeRF",
    "NoPE",
    "PaTH",
    "PaTHFoX",
    "PoPE",
    "PoSE",
    "PositionCoupling",
    "Random",
    "RandomWalk",
    "Randomized",
    "RecurrentLayer",
    "Rerotation",
    "Retention",
    "RoPE",
    "Sandwich",
    "SelectiveAttention",
    "SelectiveRoPE",
    "SelfExtend",
    "Shaw",
    "Sinusoidal",
    "StateCache",
    "StickBreaking",
    "Tokens",
    "Transformer",
    "TransformerXL",
    "ValueRotation",
    "Wall",
    "XPos",
    "attend",
    "convert_layout",
    "fold_basis",
    "grid",
    "rotate_blocks",
    "rotate_pairs",
]
