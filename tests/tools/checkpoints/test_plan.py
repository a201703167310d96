"""Plans list tensors in few lines, and conversions follow configurations."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from posedu.tools.checkpoints import (
    Conversion,
    ConvertError,
    Pairs,
    Plan,
    PlannedTensor,
    convert,
    plan,
)
from posedu.tools.checkpoints.conversion import CLOCKWISE
from posedu.tools.configs import ConfigError
from support import ROOT

HALF, NEIGHBORS = Pairs(layout="half"), Pairs(layout="interleaved")
HOW = Conversion(source=HALF, target=NEIGHBORS, head_dim=8, width=4)
LAYER = {
    "self_attn.q_proj.weight": (16, 3),
    "self_attn.k_proj.weight": (8, 3),
    "self_attn.v_proj.weight": (8, 3),
    "self_attn.q_norm.weight": (2, 8),
    "mlp.up_proj.weight": (5, 3),
}


def model(layers, **others):
    """A state dict with these layers."""
    shapes = {
        f"model.layers.{n}.{name}": shape
        for n in layers
        for name, shape in LAYER.items()
    }
    return {name: np.zeros(shape) for name, shape in (shapes | others).items()}


def test_a_plan_lists_every_tensor_once():
    state = model(range(2), **{"model.layers.1.self_attn.q_bias": (16,)})
    found = plan(state, HOW)
    assert [tensor.name for tensor in found.tensors] == [*state]
    q = found.permuted[0]
    assert q == PlannedTensor(
        name="model.layers.0.self_attn.q_proj.weight",
        shape=(16, 3),
        action="permute",
        axis=0,
        heads=2,
        head_dim=8,
        width=4,
        starts=(0, 8),
    )
    assert found.order(q)[8:].tolist() == [8, 10, 9, 11, 12, 13, 14, 15]
    norm = found.permuted[2]
    assert (norm.axis, norm.heads, norm.starts) == (1, 2, (0,))
    assert len(found.permuted) == 6 and len(found.left) == 4
    assert [tensor.reason for tensor in found.refused] == [
        "looks like a part of queries or keys, and the order of its features is not "
        "known"
    ]
    json.dumps(asdict(found))
    with pytest.raises(ValueError, match=r"tensor must be permuted, got .*v_proj"):
        found.order(found.left[0])
    with pytest.raises(ConvertError, match=r"layers\.1\.self_attn\.q_bias looks"):
        convert(state, HOW)


def test_equal_layers_share_a_line():
    state = model([*range(32)], **{"model.layers.5.self_attn.q_bias": (16,)})
    lines = str(plan(state, HOW)).splitlines()
    assert lines[0] == (
        "Pairs half → interleaved: 96 tensors to permute, 64 to leave, 1 refused"
    )
    assert lines[2].startswith("refuse ") and ".5.self_attn.q_bias" in lines[2]
    cells = [line.split("  ") for line in lines]
    q = [cell.strip() for cell in cells[3] if cell.strip()]
    assert q == [
        *("permute", "32", "model.layers.0–31.self_attn.q_proj.weight", "16 × 3"),
        *("0", "2 × 8, 4 rotated"),
    ]
    assert len(lines) == 8


def test_layers_that_differ_have_lines_of_their_own():
    state = model([0, 1, 3, 5, 6, 7, 9, 11, 20])
    lines = str(plan(state, HOW)).splitlines()
    assert any("layers.0–1, 3, 5–7, …, 20.self_attn.q_proj" in line for line in lines)
    by_layer = replace(HOW, head_dim={0: 8, 1: 4}, width={0: 4, 1: 0})
    text = str(plan(model(range(2)), by_layer))
    assert "layers.0.self_attn.q_proj" in text
    assert "in a layer without rotation" in text


def test_a_table_has_forty_lines_at_most():
    others = {f"part{chr(97 + n)}.weight": (n,) for n in range(26)}
    others |= {f"more{chr(97 + n)}.weight": (n,) for n in range(26)}
    lines = str(plan(model(range(2), **others), HOW)).splitlines()
    assert len(lines) == 40 and "and 20 lines more" in lines[-1]
    assert "permute" in lines[2]


def test_a_plan_shows_html():
    html = plan(model([0]), replace(HOW, target=Pairs(layout="half", clockwise=True)))
    assert "half, clockwise" in html._repr_html_()


def test_an_unknown_action_is_refused(unchecked):
    with pytest.raises(ValueError, match="action must be"):
        PlannedTensor(name="a", shape=(), action="guess")
    assert isinstance(plan(model([0]), HOW), Plan)


# --- Configurations

LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
}
LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "rope_interleave": True,
}


def from_config(config, **options):
    return Conversion.from_config(config, target=NEIGHBORS, **options)


@pytest.mark.parametrize("form", ["mapping", "file", "folder", "object"])
def test_a_configuration_gives_the_dimensions(tmp_path, form):
    (tmp_path / "config.json").write_text(json.dumps(LATENT))

    class Config:
        def to_dict(self):
            return LATENT

    forms = {
        "mapping": LATENT,
        "file": str(tmp_path / "config.json"),
        "folder": tmp_path,
        "object": Config(),
    }
    assert from_config(forms[form]) == Conversion(
        source=NEIGHBORS,
        target=NEIGHBORS,
        head_dim=24,
        width=8,
        rotated="trailing",
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"head_dim": 8, "width": 8}),
        (
            {"head_dim": 16, "rope_scaling": {"type": "linear", "factor": 2.0}},
            {"head_dim": 16, "width": 16},
        ),
        (
            {"partial_rotary_factor": 0.5},
            {"head_dim": 8, "width": 4},
        ),
        (
            {"model_type": "smollm3", "num_hidden_layers": 4},
            {"head_dim": 8, "width": {0: 8, 1: 8, 2: 8, 3: 0}},
        ),
        (
            {"model_type": "nanochat"},
            {"source": replace(HALF, clockwise=True), "head_dim": 8, "width": 8},
        ),
    ],
)
def test_families(changes, expected):
    plain = {"source": HALF, "target": NEIGHBORS}
    assert from_config({**LLAMA, **changes}) == Conversion(**{**plain, **expected})


def test_heads_by_layer():
    """Full-attention layers have a head dimension of their own, in the text model."""
    text = {
        "model_type": "gemma4_text",
        "hidden_size": 32,
        "num_attention_heads": 4,
        "head_dim": 8,
        "layer_types": ["sliding_attention", "full_attention"],
        "per_layer_config": {"01": {"head_dim": 16}},
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {
                "rope_type": "proportional",
                "partial_rotary_factor": 0.25,
                "rope_theta": 1e6,
            },
        },
    }
    vision = {**LLAMA, "head_dim": 4}
    config = {"model_type": "gemma4", "text_config": text, "vision_config": vision}
    sizes = {0: 8, 1: 16}
    assert from_config(config, within="model.language_model.") == Conversion(
        source=HALF,
        target=NEIGHBORS,
        head_dim=sizes,
        width=sizes,
        within="model.language_model.",
    )


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"rope_theta": 1e4, "head_dim": 8}, ConvertError, "give `source`"),
        ({**LATENT, "qk_nope_head_dim": None}, ConfigError, "qk_nope_head_dim must be"),
        (
            {"model_type": "bloom", "alibi": True, "rope_theta": 1.0, "head_dim": 8},
            ConvertError,
            "has no layer with rotation",
        ),
        (
            {**LLAMA, "model_type": "llama4_vision_model"},
            ConvertError,
            "separate pairs for each coordinate",
        ),
        (
            {**LLAMA, "model_type": "gemma3_text", "rope_local_base_freq": 1e4},
            ConvertError,
            "does not list which layer has which: give head_dim and width by layer",
        ),
    ],
)
def test_an_unclear_configuration_is_refused(config, error, message):
    with pytest.raises(error, match=message):
        from_config(config)


def test_pictures_have_other_heads():
    vision = {**LLAMA, "head_dim": 4}
    config = {"model_type": "llava", "text_config": LLAMA, "vision_config": vision}
    assert from_config(config) == from_config(LLAMA)


def test_a_given_source_is_kept():
    config = {"rope_theta": 1e4, "head_dim": 8}
    assert from_config(config, source=HALF).source == HALF


def test_no_other_family_rotates_clockwise():
    rows = json.loads((ROOT / "book/data/census.json").read_text("utf-8"))["rows"]
    clockwise = {
        row["family"]
        for row in rows
        for layer in row.get("layers", ())
        if layer["clockwise"]
    }
    assert clockwise == {*CLOCKWISE}
