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
    LogLinear,
    Mamba2,
    Mamba3,
    PaTH,
    PaTHFoX,
    SelectiveRoPE,
    TransformerXL,
    Wall,
)

MODEL, HEADS, D, RANK = 24, 3_000, 8, 12


def normal(deviation):
    """Return the cumulative probability of numbers around 0 of this deviation."""
    return norm(0, deviation).cdf


def between(low, high):
    """Return the cumulative probability of numbers that are even from low to high."""
    return uniform(low, high - low).cdf


def rate(x):
    """Return the cumulative probability of a decay's rate, stored as a logarithm."""
    return between(1, 16)(x.exp())


def step(x):
    """Return the cumulative probability of a step, the softplus of its bias."""
    return between(math.log(1e-3), math.log(0.1))(softplus(x).log())


OF_MODEL, OF_RANK = normal(MODEL**-0.5), normal(RANK**-0.5)
SMALL = normal(0.02)
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
            "gate_bias": step,
            "gate_rate": rate,
        },
    ),
    "GatedConvolution": (
        lambda: GatedConvolution(HEADS, width=4),
        {"taps": between(-0.5, 0.5)},
    ),
    "GatedDeltaNet": (
        lambda: GatedDeltaNet(MODEL, HEADS),
        {"gate_weight": OF_MODEL, "gate_bias": step, "gate_rate": rate},
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
        {"query_weight": normal(D**-0.5), "key_weight": normal(D**-0.5)},
    ),
    "GRAPE-AP": (
        lambda: GRAPEAP(
            MODEL, HEADS, slopes="authors", layout="half", normalized="both"
        ),
        {"probe_weight": normal(0.5 * MODEL**-0.5)},
    ),
    "KDA": (
        lambda: KDA(MODEL, HEADS, D, rank=RANK),
        {
            "gate_down": OF_MODEL,
            "gate_up": OF_RANK,
            "gate_bias": step,
            "gate_rate": rate,
        },
    ),
    "LogLinear": (
        lambda: LogLinear(MODEL, HEADS, buckets="strong"),
        {"gate_weight": SMALL, "level_weight": SMALL},
    ),
    "Mamba-2": (
        lambda: Mamba2(MODEL, HEADS),
        {"gate_weight": OF_MODEL, "gate_bias": step, "gate_rate": rate},
    ),
    "Mamba-3": (
        lambda: Mamba3(MODEL, HEADS, 128, rate="softplus"),
        {
            "gate_weight": OF_MODEL,
            "gate_bias": step,
            "rate_weight": OF_MODEL,
            "share_weight": OF_MODEL,
            "angle_weight": OF_MODEL,
        },
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
        {"phase_weight": normal(1)},
    ),
    "TAPE": (
        lambda: TAPE(D, 40, MODEL, layout="half", mixing="heads", width=36),
        {"down": normal(1 / 6), "gate": OF_MODEL},
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
    pytest.param(make, name, cdf, id=f"{module}-{name}")
    for module, (make, parameters) in MODULES.items()
    for name, cdf in parameters.items()
]


def follows(numbers, cdf):
    """Return whether numbers may be of a distribution: p ≥ 10⁻⁶ by Kolmogorov."""
    return kstest(numbers, cdf).pvalue >= 1e-6


@pytest.mark.parametrize(("make", "name", "cdf"), STARTS)
def test_a_start_follows_its_distribution(make, name, cdf):
    torch.manual_seed(0)
    numbers = make().get_parameter(name).detach().double().flatten()
    assert follows(numbers, lambda x: cdf(torch.as_tensor(x)))
    for factor in (0.5, 2):  # a start of another size would be noticed
        assert not follows(numbers, lambda x, f=factor: cdf(torch.as_tensor(x) * f))
