"""Recurrent layers hold against the outputs of transformers' own, in float32."""

import json

import pytest
import torch

from posedu.torch import (
    KDA,
    Attention,
    GatedConvolution,
    GatedDeltaNet,
    LightningAttention,
    Mamba2,
    RecurrentLayer,
    StateCache,
)
from support import ROOT

STORED = json.loads(
    (ROOT / "tests/oracles/recurrent-layers.json").read_text(encoding="utf-8")
)
LAYERS = {
    "qwen3_next": lambda: RecurrentLayer(
        8, 4, encoding=GatedDeltaNet(8, 4), qk_heads=2, d=4, d_v=6
    ),
    "olmo_hybrid": lambda: RecurrentLayer(
        *(8, 2),
        encoding=GatedDeltaNet(8, 2, negative_eigenvalues=True),
        d=4,
        d_v=6,
        norm_eps=1e-5,
    ),
    "kimi_linear": lambda: RecurrentLayer(
        *(8, 2),
        encoding=KDA(8, 2, 4),
        norm_eps=1e-5,
        output_gate="sigmoid",
        gate_rank=4,
    ),
    "mamba2": lambda: RecurrentLayer(
        *(8, 4),
        encoding=Mamba2(8, 4),
        qk_heads=2,
        d=6,
        d_v=4,
        convolution_bias=True,
        output_norm="group",
        norm_eps=1e-5,
        gate_first=True,
    ),
    "minimax": lambda: RecurrentLayer(
        *(8, 2),
        encoding=LightningAttention(2, layer=1, layers=4),
        convolution=None,
        output_norm="all",
        output_gate="sigmoid",
    ),
    "lfm2": lambda: Attention(8, 8, encoding=GatedConvolution(8)),
}


def loaded(name):
    """The layer with transformers' weights, in float64, its input and their output."""
    stored, layer = STORED[name], LAYERS[name]()
    weights = {n: torch.tensor(t) for n, t in stored["weights"].items()}
    layer.load_state_dict(weights)  # strict: each parameter has one there
    return layer.double(), torch.tensor(stored["x"]).double(), stored["out"]


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_the_published_one(name):
    layer, x, published = loaded(name)
    expected = torch.tensor(published).double()
    with torch.no_grad():
        found, cache = layer(x), StateCache()
        pieces = [layer(piece, cache=cache) for piece in x.split((66, 1, 1, 2), 1)]
    bound = 2e-6 * expected.abs().max()  # theirs is computed in float32
    assert (found - expected).abs().max() < bound
    assert (torch.cat(pieces, 1) - expected).abs().max() < bound


def test_a_layer_with_the_other_order_of_norm_and_gate_is_not():
    layer, x, published = loaded("mamba2")
    layer.gate_first = False
    expected = torch.tensor(published).double()
    with torch.no_grad():
        assert (layer(x) - expected).abs().max() > 0.1 * expected.abs().max()


def test_every_stored_layer_is_compared():
    assert {*STORED} - {"transformers", "torch"} == {*LAYERS}
