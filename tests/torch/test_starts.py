"""Tests of random starts: each module draws from the distribution that it states."""

import math

import pytest
import torch
from scipy.stats import kstest, norm, uniform
from torch.nn.functional import softplus

from posedu.torch import (
    GLA,
    GRAPEA,
    GRAPEAP,
    KDA,
    TAPE,
    Algebraic,
    CARoPE,
    DeltaNet,
    DeltaProduct,
    GatedConvolution,
    GatedDeltaNet,
    Geometric,
    HashGrid,
    KERPLELog,
    KERPLEPower,
    LogLinear,
    Mamba2,
    Mamba3,
    MixedRoPE,
    PaTH,
    PaTHFoX,
    SelectiveRoPE,
    TransformerXL,
    Wall,
)

MODEL, HEADS, D, RANK = 24, 3_000, 8, 12


def between(low, high):
    return uniform(low, high - low)


OF_MODEL, OF_RANK, SMALL = norm(0, MODEL**-0.5), norm(0, RANK**-0.5), norm(0, 0.02)
RATE, STEP = between(1, 16), between(math.log(1e-3), math.log(0.1))
MEANING = {  # what is distributed so, if it is not the parameter itself
    "gate_rate": torch.exp,
    "gate_bias": lambda b: softplus(b).log(),
    **dict.fromkeys(("log_r1", "log_r2", "log_r3"), torch.exp),
    **dict.fromkeys(("logit_r2", "logit_r3", "logit_r4"), lambda z: 2 * z.sigmoid()),
    "frequencies": lambda f: torch.atan2(f[..., 1], f[..., 0]),
}
MODULES = {
    "Algebraic": (
        lambda: Algebraic(64, block=8, depth=2, heads=40),
        {"entries": between(0, 1)},
    ),
    "Algebraic of another scale": (
        lambda: Algebraic(64, block=8, depth=2, heads=40, scale=0.3),
        {"entries": between(0, 0.3)},
    ),
    "CARoPE": (
        lambda: CARoPE(MODEL, HEADS, D, layout="half", first_exponent=0),
        {"frequency_weight": SMALL},
    ),
    "DeltaNet": (lambda: DeltaNet(MODEL, HEADS), {"beta_weight": OF_MODEL}),
    "DeltaProduct": (
        lambda: DeltaProduct(MODEL, HEADS, D, steps=3, gated=True),
        {
            "beta_weight": OF_MODEL,
            "early_key": OF_MODEL,
            "early_value": OF_MODEL,
            "gate_weight": OF_MODEL,
            "gate_bias": STEP,
            "gate_rate": RATE,
        },
    ),
    "GatedConvolution": (
        lambda: GatedConvolution(HEADS, width=4),
        {"taps": between(-0.5, 0.5)},
    ),
    "GatedDeltaNet": (
        lambda: GatedDeltaNet(MODEL, HEADS),
        {"gate_weight": OF_MODEL, "gate_bias": STEP, "gate_rate": RATE},
    ),
    "Geometric": (
        lambda: Geometric(MODEL, HEADS, D, normalize=True),
        {
            "direction_weight": between(-(MODEL**-0.5), MODEL**-0.5),
            "direction_bias": between(-(MODEL**-0.5), MODEL**-0.5),
        },
    ),
    "GLA": (
        lambda: GLA(MODEL, HEADS, D, rank=RANK),
        {"gate_down": OF_MODEL, "gate_up": OF_RANK},
    ),
    "GRAPE-A": (
        lambda: GRAPEA(HEADS, D, slopes="authors", gates="both", unit_vectors=False),
        {"query_weight": norm(0, D**-0.5), "key_weight": norm(0, D**-0.5)},
    ),
    "GRAPE-AP": (
        lambda: GRAPEAP(
            MODEL, HEADS, slopes="authors", layout="half", normalized="both"
        ),
        {"probe_weight": norm(0, 0.5 * MODEL**-0.5)},
    ),
    "KDA": (
        lambda: KDA(MODEL, HEADS, D, rank=RANK),
        {
            "gate_down": OF_MODEL,
            "gate_up": OF_RANK,
            "gate_bias": STEP,
            "gate_rate": RATE,
        },
    ),
    "HashGrid": (
        lambda: HashGrid(
            MODEL,
            axes=2,
            features=2,
            levels=4,
            table_size=4096,
            coarsest=16,
            finest=128,
            resolution="cells",
        ),
        {"entries": between(-1e-4, 1e-4)},
    ),
    "KERPLE, logarithmic": (
        lambda: KERPLELog(HEADS, scaling="code", powers=True),
        {"log_r1": between(0, 2), "log_r2": between(0, 1), "logit_r3": between(0, 2)},
    ),
    "KERPLE, power": (
        lambda: KERPLEPower(HEADS, scaling="code", weight=True),
        {
            "log_r1": between(0, 1),
            "logit_r2": between(0, 2),
            "log_r3": between(0, 1),
            "logit_r4": between(0, 2),
        },
    ),
    "LogLinear": (
        lambda: LogLinear(MODEL, HEADS, buckets="strong"),
        {"gate_weight": SMALL, "gate_bias": STEP, "level_weight": SMALL},
    ),
    "Mamba-2": (
        lambda: Mamba2(MODEL, HEADS),
        {"gate_weight": OF_MODEL, "gate_bias": STEP, "gate_rate": RATE},
    ),
    "Mamba-3": (
        lambda: Mamba3(MODEL, HEADS, 128, rate="softplus"),
        {
            "gate_weight": OF_MODEL,
            "gate_bias": STEP,
            "rate_weight": OF_MODEL,
            "share_weight": OF_MODEL,
            "angle_weight": OF_MODEL,
        },
    ),
    "Mixed RoPE": (
        lambda: MixedRoPE(4, layout="half", heads=HEADS),
        {"frequencies": between(-math.pi, math.pi)},
    ),
    "PaTH": (
        lambda: PaTH(MODEL, HEADS, D, rank=RANK),
        {"w_down": SMALL, "w_up": SMALL, "w_taps": SMALL, "beta_weight": SMALL},
    ),
    "PaTH-FoX": (
        lambda: PaTHFoX(MODEL, HEADS, D, scaling="product"),
        {"gate_weight": SMALL},
    ),
    "Selective RoPE": (
        lambda: SelectiveRoPE(80, 40, 128, layout="half", gate=True, rank=RANK),
        {
            "phase_down": SMALL,
            "phase_weight": SMALL,
            "taps": between(-0.5, 0.5),
            "gate_weight": SMALL,
        },
    ),
    "Selective RoPE without a rank": (
        lambda: SelectiveRoPE(
            8 * HEADS, HEADS, D, layout="half", gate=False, rank=None
        ),
        {"phase_weight": norm(0, 1)},
    ),
    "TAPE": (
        lambda: TAPE(D, 40, MODEL, layout="half", mixing="heads", width=36),
        {"down": norm(0, 1 / 6), "gate": OF_MODEL},
    ),
    "Transformer-XL": (
        lambda: TransformerXL(D, HEADS, MODEL, layout="half"),
        {"global_content": SMALL, "global_position": SMALL, "position.weight": SMALL},
    ),
    "Wall": (
        lambda: Wall(MODEL, HEADS, D, scalar_gate=True),
        {"gate_weight": SMALL, "scalar_weight": SMALL},
    ),
}
STARTS = [
    pytest.param(make, name, start, id=f"{module}-{name}")
    for module, (make, parameters) in MODULES.items()
    for name, start in parameters.items()
]


def follows(numbers, start):
    """Return whether numbers may be of a distribution: p ≥ 10⁻⁶ by Kolmogorov."""
    return kstest(numbers, start.cdf).pvalue >= 1e-6


@pytest.mark.parametrize(("make", "name", "start"), STARTS)
def test_a_start_follows_its_distribution(make, name, start):
    torch.manual_seed(0)
    numbers = make().get_parameter(name).detach().double()
    numbers = MEANING.get(name, torch.clone)(numbers).flatten()
    assert follows(numbers, start)
    assert not follows(2 * numbers, start) and not follows(numbers / 2, start)
