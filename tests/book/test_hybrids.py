"""The stored hybrid models: their layers, and what each layer caches."""

import json

import pytest

from posedu.book.hybrids import load_hybrids
from support import ROOT

MODELS = {each.name: each for each in load_hybrids()}
KNOWN = {
    # Numbers of a state, of an attention layer's token; layers of each.
    "Qwen3-Next": (32 * 128 * 128, 2 * 2 * 256, 36, 12),
    "Qwen3.5 27B": (48 * 128 * 128, 2 * 4 * 256, 48, 16),
    "Kimi Linear": (32 * 128 * 128, 512 + 64, 21, 6),
    "Kimi K3": (96 * 128 * 128, 512 + 64, 69, 24),
    "Nemotron 3 Nano": (64 * 64 * 128, 2 * 2 * 128, 23, 6),
    "OLMo Hybrid": (30 * 96 * 192, 2 * 30 * 128, 24, 8),
    "Jamba": (8192 * 16, 2 * 8 * 128, 28, 4),
    "RecurrentGemma": (2560, 2 * 10 * 256, 18, 8),
    "LFM3": (0, 2 * 4 * 128, 13, 11),
}


@pytest.mark.parametrize("name", KNOWN)
def test_sizes_are_those_of_the_configuration(name):
    model = MODELS[name]
    state, token, recurrent, attention = KNOWN[name]
    assert (model.state, model.per_token) == (state, token)
    assert len(model.mixers.recurrent) == recurrent
    assert len(model.mixers.attention) == attention
    fixed, grows = model.cached(10)
    assert fixed == recurrent * (state + model.history)
    assert grows == attention * token * 10


def test_a_convolution_keeps_one_token_less_than_its_width():
    assert MODELS["Qwen3-Next"].history == 3 * (2 * 16 * 128 + 32 * 128)
    assert MODELS["LFM3"].history == 6 * 2048
    assert MODELS["MiniMax"].history == 0


def test_a_star_marks_the_defaults_of_a_class():
    labels = {each.label for each in MODELS.values()}
    assert {"Qwen3.5 27B", "Kimi K3", "MiniMax*", "Jamba*"} <= labels
    assert sum("*" in label for label in labels) == 11


def test_positions_of_attention_are_those_of_the_reading():
    assert MODELS["Kimi K3"].position == "NoPE"
    assert MODELS["Qwen3.5 27B"].position == "RoPE 64 of 256, 1e7"
    assert MODELS["Ling Hybrid"].position == "RoPE 64 of 64, 6e6"


def test_one_family_of_transformers_ignores_the_boundaries_of_packed_texts():
    path = ROOT / "tests/oracles/packed-hybrids.json"
    stored = json.loads(path.read_text("utf-8"))["families"]
    silent = {
        name
        for name, leak in stored.items()
        if not isinstance(leak["boundaries for the scan"], str)
    }
    assert silent == {"kimi_linear"}
    leak = stored["kimi_linear"]
    assert leak["boundaries for the scan"] == leak["positions alone"] > 0.5


def test_packed_texts_are_apart_only_with_their_boundaries_and_without_a_cache():
    path = ROOT / "tests/oracles/packed-hybrids.json"
    kernels = json.loads(path.read_text("utf-8"))["kernels"]
    for family, leak in kernels.items():
        assert leak["both, use_cache by default"] > 0.1, family
        assert (leak["positions alone"] < 1e-5) == (family == "llama")
        assert leak.get("remedy", leak["boundaries for both"]) < 1e-5, family
