"""Readings of models without rotation: where the order of tokens comes from."""

import json
from importlib.resources import files

import pytest

from posedu.tools import ConfigError, read_rope
from posedu.tools.configs.differences import differences
from posedu.tools.configs.other_encoding import OtherEncoding
from posedu.tools.configs.rotary_config import NoRopeError, as_json
from posedu.tools.diagnose.scores import expected_bias

DATA = json.loads(files("posedu.tools.configs").joinpath("unrotated.json").read_text())
SIZES = {"hidden_size": 64, "num_attention_heads": 4}
LLAMA = {"model_type": "llama", "rope_theta": 1e4, **SIZES}


def order(**config):
    return read_rope(config).order


def test_the_measured_families_are_those_of_the_version_of_the_others():
    others = json.loads(
        files("posedu.tools.configs").joinpath("families.json").read_text()
    )
    made = others["made"]
    versions = {made["transformers"], *made.get("agreeing", ())}
    assert DATA["made"]["transformers"] in versions
    assert len(DATA["families"]) > 80
    assert not {*DATA["families"]} & {*DATA["left out"]}


@pytest.mark.parametrize("family", DATA["families"])
def test_a_measured_family_is_read_and_its_order_is_known(family):
    reading = read_rope({"model_type": family, **SIZES})
    assert reading.kinds == {"all": None} and not reading.is_rotated
    assert reading.order and reading.warnings == []
    assert f"comes from {reading.order}" in reading.caption()
    assert len(as_json(reading)["encodings"]) == len(reading.encodings)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"model_type": "gpt2", "n_positions": 300},
            "learned vector for each of 300",
        ),
        (
            {"model_type": "opt"},
            "2,048 positions (a table of 2,050 rows",
        ),
        (
            {"model_type": "roberta", "max_position_embeddings": 514},
            "each of 512",
        ),
        (
            {"model_type": "whisper", "max_target_positions": 100},
            "learned vector for each of 100",
        ),
        ({"model_type": "fsmt"}, "sinusoids by position"),
        ({"model_type": "funnel"}, "sinusoids of the offset in the scores"),
        (
            {"model_type": "xlnet", "clamp_len": -1},
            "Transformer-XL's)",
        ),
        (
            {"model_type": "xlnet", "clamp_len": 1200},
            "the same from offset 1,200 on",
        ),
        ({"model_type": "zamba2", **SIZES}, "between those of attention"),
        (
            {"model_type": "bloom", "n_head": 8},
            "ALiBi with the slopes 0.5, 0.25",
        ),
        ({"model_type": "bloom"}, "ALiBi"),
        ({"model_type": "t5"}, "T5's bias of scores, 32 buckets up to distance 128"),
        (
            {"model_type": "mt5", "relative_attention_num_buckets": 64},
            "64 buckets up to distance 128",
        ),
        ({"model_type": "mamba"}, "convolution or recurrence, without attention"),
        ({"model_type": "nemotron_h"}, "between those of attention"),
        ({"model_type": "distilbert"}, "a learned vector for each of 512 positions"),
        ({"model_type": "distilbert", "sinusoidal_pos_embds": True}, "sinusoids"),
        ({"model_type": "mpnet"}, "and T5's bias of scores"),
        (
            {"model_type": "falcon", "alibi": True, **SIZES},
            "the slopes 0.25",
        ),
        (
            {"model_type": "mpt", "n_heads": 4, "attn_config": {"alibi_bias_max": 4}},
            "ALiBi with the slopes 0.5, 0.25",
        ),
    ],
)
def test_the_order_is_said_with_the_numbers_of_the_file(config, expected):
    assert expected in order(**config)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "vit"},
        {"model_type": "speech_to_text"},
        {"model_type": "deberta-v2", "position_biased_input": False},
        {"model_type": "bert", "position_embedding_type": "relative_key"},
        {"pos-emb": "rpe", **SIZES},
    ],
)
def test_what_is_not_known_is_said(config):
    reading = read_rope(config)
    assert reading.order == "" and not reading.is_rotated
    assert "the order of tokens is not known here" in reading.caption()


def test_a_family_that_is_not_known_may_rotate():
    for config in ({"model_type": "mine", **SIZES}, {"model_type": "seamless_m4t_v2"}):
        more = {"position_embeddings_type": "rotary"}
        with pytest.raises(NoRopeError):
            read_rope(config | more)
    assert order(model_type="mine", alibi=True, **SIZES).startswith("ALiBi")


def test_code_in_the_repository_is_a_note():
    (note,) = read_rope({"model_type": "bert", "auto_map": {"AutoModel": "x"}}).remarks
    assert note.level == "note" and "code is in the model's repository" in note.text


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"pos-emb": "learned"}, "a learned vector for each position"),
        ({"pos_emb": "none"}, "the causal mask alone"),
        ({"position_embedding_type": "learned_absolute"}, "a learned vector for each"),
    ],
)
def test_arguments_of_trainings_say_what_stands_for_rotation(config, expected):
    assert order(**SIZES, **config).startswith(expected)


def test_wrong_numbers_are_refused():
    for config in (
        {"model_type": "gpt2", "n_positions": "many"},
        {"model_type": "bloom", "n_head": -1},
        {"model_type": "mpt", "attn_config": 3},
    ):
        with pytest.raises(ConfigError):
            read_rope(config)


def test_rotation_and_other_encodings_differ_in_effect():
    bloom = read_rope({"model_type": "bloom", "n_head": 8})
    steeper = read_rope({"model_type": "bloom", "n_head": 16})
    vit = read_rope({"model_type": "vit"})
    rows = differences(bloom, read_rope(LLAMA)).found
    assert [(r.what, r.other) for r in rows] == [
        ("rotated", "yes"),
        ("order of tokens", "rotation"),
    ]
    assert rows[1].one.startswith("ALiBi")
    assert not differences(bloom, bloom).found
    (row,) = differences(bloom, steeper).found
    assert row.one != row.other
    assert "where the order of tokens comes from" in differences(bloom, vit).unknown[0]


def test_diagnose_takes_the_bias_from_the_same_facts():
    assert expected_bias({"model_type": "bloom"}).name == "ALiBi"
    t5 = {"model_type": "t5", "relative_attention_max_distance": 64}
    assert expected_bias(t5).distance == 64
    assert expected_bias("a path", read_rope(t5)).distance == 64
    assert expected_bias({"model_type": "bert"}) is None


def test_a_number_that_is_not_known_is_left_out():
    assert str(OtherEncoding(kind="learned")) == "a learned vector for each position"


@pytest.mark.parametrize("stated", [{}, {"attention_head_dim": 80}])
def test_zamba2_rotates_heads_of_twice_the_usual_width(stated):
    """Its class computes the width, whatever a file says of it."""
    config = {"model_type": "zamba2", "use_mem_rope": True, **SIZES, **stated}
    assert read_rope(config).kinds["all"].head_dim == 2 * 64 // 4


def test_a_text_model_without_rotation_is_said_beside_a_part_that_rotates():
    vision = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, **SIZES}
    text = {"model_type": "glm5_next_text", **SIZES}
    whole = {"model_type": "glm5_next", "vision_config": vision, "text_config": text}
    kinds = read_rope(whole).kinds
    assert kinds["text_config"] is None and kinds["vision_config"].head_dim == 16
