"""Readings of hybrid models: which layers have a recurrence, and which attention."""

import json
from collections import Counter

import pytest

from posedu.tools import ConfigError, read_rope
from posedu.tools.configs.differences import differences
from posedu.tools.configs.families import model_types
from posedu.tools.configs.hybrid import FAMILIES, read_mixers
from posedu.tools.configs.mixers import Mixers, numbered
from posedu.tools.configs.rotary_config import as_json
from support import ROOT

SIZES = {"hidden_size": 64, "num_attention_heads": 4}
NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
KIMI = [4, 8, 12, 16, 20, 24, 27]  # counted from 1
MODELS = {
    row["name"]: row
    for row in json.loads((ROOT / "book/data/as-shipped.json").read_text("utf-8"))[
        "models"
    ]
}


def config(family, depth=None, **more):
    depths = {} if depth is None else {"num_hidden_layers": depth}
    return {"model_type": family, **SIZES, **depths, **more}


def every(k, depth, offset=-1):
    return tuple(n for n in range(depth) if n % k == offset % k)


@pytest.mark.parametrize(
    ("given", "recurrence", "attention", "recurrent"),
    [
        (config("qwen3_next", 48), "gated-delta-net", every(4, 48), 36),
        (
            config("qwen3_next", 12, full_attention_interval=6),
            "gated-delta-net",
            (5, 11),
            10,
        ),
        (
            {
                "model_type": "qwen3_5",
                "text_config": config("qwen3_5_text", 64, rope_theta=1e7),
            },
            "gated-delta-net",
            every(4, 64),
            48,
        ),
        (
            config("kimi_linear", 27, linear_attn_config={"full_attn_layers": KIMI}),
            "kda",
            (3, 7, 11, 15, 19, 23, 26),
            20,
        ),
        (config("bailing_hybrid", 42), "kda", every(6, 42), 35),
        (
            config("nemotron_h", hybrid_override_pattern=NANO),
            "mamba-2",
            (5, 12, 19, 26, 33, 42),
            23,
        ),
        (config("jamba", 32), "mamba", every(8, 32, 4), 28),
        (
            config("bamba", 32, attn_layer_indices=[9, 18, 27]),
            "mamba-2",
            (9, 18, 27),
            29,
        ),
        (config("falcon_h1", 3), "mamba-2", (0, 1, 2), 3),
        (
            config(
                "granitemoehybrid",
                position_embedding_type="nope",
                layer_types=["mamba", "mamba", "attention"],
            ),
            "mamba-2",
            (2,),
            2,
        ),
        (
            config(
                "zamba2", layers_block_type=["linear_attention", "hybrid"], rope_theta=1
            ),
            "mamba-2",
            (1,),
            2,
        ),
        (config("minimax", 3, attn_type_list=[0, 0, 1]), "lightning", (2,), 2),
        (
            config("recurrent_gemma", 5, block_types=["recurrent", "attention"]),
            "rg-lru",
            (1, 3),
            3,
        ),
        (config("lfm2", 4, full_attn_idxs=[2]), "convolution", (2,), 3),
        (
            config("mine", rope_theta=1e4, layer_types=["linear_attention", "x"]),
            "recurrence",
            (1,),
            1,
        ),
    ],
    ids=lambda value: value.get("model_type") if isinstance(value, dict) else None,
)
def test_each_key_says_which_layers_are_recurrent(
    given, recurrence, attention, recurrent
):
    reading = read_rope(given)
    mixers = reading.mixers
    assert mixers.recurrence == recurrence
    assert mixers.attention == attention
    assert len(mixers.recurrent) == recurrent
    row = [*reading.rows()][-1]
    assert row[0] == str(mixers) and f"{recurrent} of" in row[0]
    assert row[1] == f"no rotation here: order comes from {mixers.order}"
    assert "convolution or recurrence" in reading.order
    titles = " ".join(row[0] for row in reading.rows())
    if len(reading.kinds) == 1:
        assert f"({len(attention)})" in titles


def test_layers_that_do_not_attend_are_not_counted_as_rotated():
    reading = read_rope(config("qwen3_next", 8, layer_types=["linear_attention"] * 7))
    assert "all" not in [row[0] for row in reading.rows()]
    published = read_rope(MODELS["Qwen3.5 27B"]["config"])
    text = str(published)
    assert published.mixers.roles == () or "(64)" not in text


@pytest.mark.parametrize("name", ["LFM3", "MiniMax", "Nemotron 3 Nano", "Qwen3-Next"])
def test_a_shipped_model_has_the_roles_of_its_completed_layer_types(name):
    row = MODELS[name]
    given = {**row["config"], "layer_types": row["layer_types"]}
    counted = Counter(read_rope(given).mixers.roles)
    types = Counter(row["layer_types"])
    assert counted["recurrence"] == types["linear_attention"] + types["conv"] > 0
    assert counted["mlp"] == types["moe"]


ROLES = {
    **dict.fromkeys(("linear_attention", "mamba", "conv"), "recurrence"),
    **dict.fromkeys(("mlp", "moe"), "mlp"),
    "hybrid": "both",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_roles_are_those_of_the_layers_that_the_class_makes(family):
    """All of a completed file; of a depth alone, those that the family fixes."""
    stored = json.loads((ROOT / "tests/oracles/hybrid-layers.json").read_text("utf-8"))
    completed, types = (stored["families"][family][k] for k in ("completed", "types"))
    roles = tuple(ROLES.get(own, "attention") for own in types)
    depth = completed.get("num_hidden_layers")
    if family == "falcon_h1":
        roles = ("both",) * depth
    sparse = {"model_type": completed["model_type"], "num_hidden_layers": depth}
    if family == "bamba":  # its default is no layer with attention
        completed["attn_layer_indices"] = []
    assert read_mixers(completed).roles == roles
    assert read_mixers(sparse).roles in (roles, ())


def test_every_family_is_one_that_the_reader_knows():
    unmeasured = {"zamba"}
    assert {*FAMILIES} <= model_types() | unmeasured


def test_models_without_a_recurrence_have_no_mixers():
    for family in ("llama", "mamba2", "gpt2", "qwen3"):
        reading = read_rope(config(family, 4))
        assert reading.mixers is None and as_json(reading)["mixers"] is None
        assert not any("no rotation here" in row[1] for row in reading.rows())


def test_layers_that_are_not_listed_are_named_as_such():
    reading = read_rope(config("bamba", 32))
    assert reading.mixers.roles == ()
    assert "in layers that are not listed" in str(reading)


@pytest.mark.parametrize(
    ("more", "order"),
    [
        ({"linear_conv_kernel_dim": 4}, "the state and a convolution of 4 tokens"),
        ({}, "the state and a convolution"),
    ],
)
def test_the_width_of_the_convolution_is_that_of_the_file(more, order):
    assert read_rope(config("qwen3_next", 4, **more)).mixers.order == order
    assert Mixers(recurrence="lightning", convolution=4).order == "the state"
    assert Mixers(recurrence="convolution").order == "a convolution"


def test_a_null_base_of_olmo_hybrid_is_no_rotation():
    """Its class makes no table then; it rotates if nothing is said of the base."""
    depth = {"num_hidden_layers": 8}
    for more in (
        {"rope_theta": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": None}},
    ):
        reading = read_rope(config("olmo_hybrid", **depth, **more))
        assert not reading.is_rotated
        assert "rope_theta is null" in reading.remarks[0].text
    for more in ({}, {"rope_parameters": None}, {"rope_theta": 5e5}):
        assert read_rope(config("olmo_hybrid", **depth, **more)).is_rotated
    assert read_rope(config("llama", rope_theta=None)).is_rotated


def test_a_wrapper_that_is_not_known_has_the_order_of_its_known_text():
    text = config("kimi_linear", 4, linear_attn_config={"full_attn_layers": [4]})
    reading = read_rope({"model_type": "kimi_k9", "text_config": text})
    assert reading.kinds == {"text_config": None}
    assert reading.mixers.attention == (3,)
    assert "kimi_k9 is not known here" in reading.remarks[0].text


def test_a_rotation_that_the_class_has_not_is_warned_of():
    for more in ({}, {"rope_theta": 1e4}):
        given = config("kimi_linear", 4, mla_use_nope=False, **more)
        (warning,) = read_rope(given).warnings
        assert "mla_use_nope is false" in warning
        assert not read_rope(given | {"mla_use_nope": True}).warnings


def test_differences_name_recurrent_layers_and_compare_rotations_elsewhere():
    four = read_rope(config("qwen3_next", 8))
    two = read_rope(config("qwen3_next", 8, full_attention_interval=2))
    (found,) = differences(four, two).found
    assert found.what == "recurrence" and "6 of 8" in found.one
    base = read_rope(
        config(
            "qwen3_next",
            8,
            rope_theta=1e7,
            layer_types=[*["linear_attention"] * 7, "x"],
        )
    )
    listed = read_rope(config("qwen3_next", 8, layer_types=[*["conv"] * 7, "x"]))
    places = {each.where for each in differences(listed, base).found}
    assert places == {"layer 7"}


def test_numbers_of_layers_are_runs():
    assert numbered([0, 1, 2, 4]) == "layers 0–2, 4"
    assert numbered([5]) == "layer 5"
    assert numbered(range(0, 20, 2)).endswith("10, …")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"hybrid_override_pattern": "MX"}, "hybrid_override_pattern must be"),
        ({"hybrid_override_pattern": 3}, "hybrid_override_pattern must be"),
        ({"layer_types": [1]}, "layer_types must be a list of texts"),
        ({"attn_layer_indices": "9"}, "attn_layer_indices must be a list of layers"),
        ({"full_attention_interval": 0}, "full_attention_interval must be"),
        ({"linear_attn_config": 3}, "linear_attn_config must be a JSON object"),
        (
            {"linear_attn_config": {"full_attn_layers": [0]}},
            r"full_attn_layers\[0\] must be",
        ),
        ({"block_types": [None]}, "block_types must be a list of texts"),
        ({"linear_conv_kernel_dim": -1}, "linear_conv_kernel_dim must be"),
    ],
)
def test_wrong_lists_of_layers_are_refused(more, text):
    with pytest.raises(ConfigError, match=text):
        read_rope(config("qwen3_next", 8, **more))


def test_a_depth_of_millions_is_cut():
    assert len(read_rope(config("qwen3_next", 2**30)).mixers.roles) == 4096


def gguf(architecture, **own):
    names = {f"{architecture}.{k.replace('__', '.')}": v for k, v in own.items()}
    return {"general.architecture": architecture, **names}


@pytest.mark.parametrize(
    ("given", "recurrence", "attention", "recurrent"),
    [
        (
            gguf("qwen35", block_count=65, nextn_predict_layers=1),
            "gated-delta-net",
            every(4, 64),
            48,
        ),
        (
            gguf("qwen3next", block_count=9, full_attention_interval=3),
            "gated-delta-net",
            (2, 5, 8),
            6,
        ),
        (
            gguf("jamba", block_count=4, attention__head_count_kv=[0, 8, 0, 0]),
            "mamba",
            (1,),
            3,
        ),
        (
            gguf(
                "nemotron_h",
                attention__head_count_kv=[0, 0, 8, 0],
                feed_forward_length=[0, 9, 0, 0],
            ),
            "mamba-2",
            (2,),
            2,
        ),
        (gguf("falcon-h1", block_count=3), "mamba-2", (0, 1, 2), 3),
        (gguf("kimi-linear", attention__head_count_kv=[0, 1]), "kda", (1,), 1),
        (gguf("lfm2", attention__head_count_kv=[0, 8]), "convolution", (1,), 1),
    ],
    ids=lambda value: (
        value.get("general.architecture") if isinstance(value, dict) else None
    ),
)
def test_gguf_says_which_layers_are_recurrent(given, recurrence, attention, recurrent):
    name = given["general.architecture"]
    sizes = {
        f"{name}.{key}": value
        for key, value in (
            ("embedding_length", 64),
            ("attention.head_count", 4),
            ("attention.key_length", 16),
            ("rope.dimension_count", 16),
            ("rope.dimension_sections", [3, 3, 2, 0]),
            ("rope.freq_base", 1e6),
            ("ssm.conv_kernel", 4),
        )
        if "sections" not in key or name == "qwen35"
    }
    reading = read_rope({**sizes, **given})
    mixers = reading.mixers
    assert mixers.recurrence == recurrence and mixers.convolution == 4
    assert mixers.attention == attention and len(mixers.recurrent) == recurrent
    assert "no rotation here" in str(reading)
    assert (reading.is_rotated, bool(reading.encodings)) in (
        (True, False),
        (False, True),
    )


def test_gguf_without_a_list_of_layers_names_the_recurrence():
    reading = read_rope(gguf("jamba", block_count=4))
    assert reading.mixers.roles == () and "not listed" in str(reading)
    assert read_rope(gguf("mamba2")).mixers is None
