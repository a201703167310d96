"""The gallery of models: what is read of each, and what its picture shows."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from posedu.book.model_gallery import (
    BOTTOM,
    FULL,
    LEGEND,
    MLP,
    RECURRENT,
    SELECTED,
    TOP,
    UNROTATED,
    WINDOW,
    Gallery,
    Model,
    bases,
    describe,
    layers,
    load_models,
    made_of,
    overview,
    panel,
)
from posedu.tools import read_rope
from support import ROOT

STORED = ROOT / "book/data/as-shipped.json"
MODELS = {model.name: model for model in load_models(STORED)}
SLIDING, GLOBAL = "sliding_attention", "full_attention"


def made(config, *layer_types):
    """A model of a Llama-like configuration."""
    whole = {"model_type": "llama", "head_dim": 8, **config}
    return Model("test", "published", read_rope(whole), layer_types)


TWO = made(
    {
        "model_type": "gemma3_text",
        "num_hidden_layers": 3,
        "layer_types": [SLIDING, GLOBAL, SLIDING],
        "max_position_embeddings": 512,
        "rope_parameters": {
            SLIDING: {"rope_type": "default", "rope_theta": 1e4},
            GLOBAL: {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
        },
    },
    *(SLIDING, GLOBAL, SLIDING),
)


def test_stored_models_are_forty_three_and_each_is_read_with_all_its_layers():
    rows = json.loads(STORED.read_text("utf-8"))["models"]
    assert len(MODELS) == len(rows) == 43
    for row in rows:
        model = MODELS[row["name"]]
        assert len(model.roles) == len(row["layer_types"]) > 0
        assert {*model.roles} <= {*LEGEND}
        assert bool(model.ropes) == model.reading.is_rotated


def test_layers_have_the_roles_of_their_types():
    hybrid = {GLOBAL: FULL, "mamba": RECURRENT, "moe": MLP, SLIDING: WINDOW}
    model = made({"rope_theta": 1e4}, *hybrid, "indexed_attention")
    assert model.roles == (*hybrid.values(), SELECTED)
    unrotated = made({"no_rope_layers": [1, 0], "num_hidden_layers": 2}, *[GLOBAL] * 2)
    assert unrotated.roles == (FULL, UNROTATED)
    assert [*unrotated.ropes] == [FULL]
    assert layers(unrotated) == "1 full, 1 no rotation"


def test_recurrent_layers_of_a_model_without_rotation_stay_recurrent():
    assert {*MODELS["Nemotron 3 Nano"].roles} == {UNROTATED, RECURRENT, MLP}


def test_rotary_embeddings_are_those_of_the_layers_roles():
    assert {role: rope.base for role, rope in TWO.ropes.items()} == {
        FULL: 1e6,
        WINDOW: 1e4,
    }
    assert bases(TWO) == "base 1,000,000 (full); base 10,000 (window)"
    alike = made({"rope_theta": 1e4}, SLIDING, GLOBAL)
    assert [*alike.ropes] == [FULL] and bases(alike) == "base 10,000"
    named = MODELS["DeepSeek-V4 Flash"].ropes
    assert {role: rope.base for role, rope in named.items()} == {
        SELECTED: 160_000,
        WINDOW: 10_000,
    }
    unlisted = MODELS["LFM3"].ropes
    assert {role: rope.base for role, rope in unlisted.items()} == {
        FULL: 1_000_000,
        WINDOW: 10_000,
    }


def test_turns_are_those_of_rotated_pairs_before_scaling_in_the_training_length():
    frequencies = 1e6 ** -(np.arange(4) / 4)
    np.testing.assert_allclose(TWO.turns(FULL), 512 * frequencies / (2 * np.pi))
    assert len(MODELS["Gemma 4 26B"].turns(FULL)) == 64
    assert MODELS["gpt-oss 20B"].trained == 4096
    assert MODELS["DeepSeek-V4 Flash"].trained == 65536
    with pytest.raises(ValueError, match="length of test is not known"):
        made({"rope_theta": 1e4}, GLOBAL).turns(FULL)


def points(path):
    """The places of dots in a path."""
    return np.array(re.findall(r"M([\d.]+),([\d.]+)", path), dtype=float)


def test_a_panel_shows_each_pair_at_its_wavelength():
    text = panel(TWO)
    svg = ET.fromstring(re.search(r"<svg.*?</svg>", text, re.S)[0])
    drawn = [p for p in svg.iter("path") if p.get("class") == "pairs"]
    for path, rope in zip(drawn, TWO.ropes.values(), strict=True):
        heights = BOTTOM - points(path.get("d"))[:, 1]
        powers = 0.5 + heights * 8 / (BOTTOM - TOP)
        waves = np.log10(2 * np.pi / rope.frequencies())
        np.testing.assert_allclose(powers, waves, atol=0.01)
    (line,) = (p for p in svg.iter("path") if p.get("class") == "trained")
    height = BOTTOM - points(line.get("d"))[0, 1]
    power = 0.5 + height * 8 / (BOTTOM - TOP)
    np.testing.assert_allclose(power, np.log10(512), atol=0.01)
    bars = [p.get("d").count("z") for p in svg.iter("path") if p.get("fill")]
    assert bars == [2, 1]


def test_a_panel_is_said_in_words():
    assert describe(TWO) == (
        "test: full: 4 pairs, wavelengths 50.3 to 1,600,000 tokens; window: 4 pairs, "
        "wavelengths 6.28 to 6,300 tokens; line at 512 tokens. Layers: 1 full, "
        "2 window."
    )
    odd = replace(TWO, name='<"x">')
    assert "<strong>&lt;&quot;x&quot;&gt;</strong>" in panel(odd)
    ET.fromstring(panel(odd))


def test_models_without_rotation_have_a_picture_and_a_row():
    bloom = MODELS["BLOOM"]
    assert describe(bloom) == "BLOOM: no pairs. Layers: 2 no rotation."
    assert 'class="pairs"' not in panel(bloom) and "ALiBi" in panel(bloom)
    head, row = overview([bloom], caption="a").rows()
    assert dict(zip(head, row, strict=True))["base"] == "–"


def test_a_gallery_is_a_figure_with_a_picture_for_each_model_and_a_legend():
    gallery = Gallery([*MODELS.values()], caption=made_of(STORED))
    shown = gallery._repr_html_()
    assert shown.count('role="img"') == 43
    assert all(meaning in shown for meaning in LEGEND.values())
    assert shown.count("<figure ") == shown.count("<figcaption>") == 1
    assert "transformers 5.24.0" in shown and "http" in made_of(STORED)


def test_the_table_says_what_differs_between_layers():
    head, row = overview([TWO], caption="a").rows()
    cells = dict(zip(head, row, strict=True))
    assert cells == {
        "model": "test",
        "origin": "published",
        "training length": "512",
        "base": "1,000,000; 10,000",
        "method": "linear; default",
        "rotated features": "8 of 8",
        "full turn": "2 of 4",
        "factor": "1",
        "layout": "half",
        "layers": "1 full, 2 window",
    }
