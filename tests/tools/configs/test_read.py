"""Configurations of all formats: reading, writing, warnings."""

import gzip
import json
import math
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from posedu.command import main as command
from posedu.numpy.scaling import log_n_temperature
from posedu.tools import ConfigError, read_rope, write_rope
from posedu.tools.configs.rotary_config import as_json
from posedu.tools.configs.write import FORMATS
from support import ROOT

ORACLES = ROOT / "tests/oracles"
FAMILIES = json.loads(gzip.decompress((ORACLES / "rope-families.json.gz").read_bytes()))
CASES = {case["name"]: case for case in FAMILIES["cases"]}
for _name, _asked in (
    ("esm.EsmRotaryEmbedding", {"position_embedding_type": "rotary"}),
    (
        "granitemoehybrid.GraniteMoeHybridRotaryEmbedding",
        {"position_embedding_type": "rope"},
    ),
    ("zamba2.Zamba2RotaryEmbedding", {"use_mem_rope": True}),
):  # Their classes rotate although the default configurations do not ask for it.
    CASES[_name]["config"] |= _asked
EPS = np.finfo(np.float32).eps

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 131072,
}
SCALED = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA_31 = {
    **LLAMA,
    "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", **SCALED},
}


def rope_of(case, kind):
    """The rotary embedding that is read for a buffer's kind of layer."""
    kinds = read_rope(case["config"]).kinds
    inner = {k: v for k, v in kinds.items() if "_config" not in k} or kinds
    return inner[kind] if kind else next(v for v in inner.values() if v is not None)


def within(case, kind, rope):
    """Return whether a rotation has the frequencies of transformers, in any order.

    Its tables are float32: the exponent 2p/d is rounded, times ln b it moves a
    frequency by less than 2·ln b roundings, and division, ramp and power add some.
    """
    theirs = np.sort(case["frequencies"][kind])
    ours = rope.frequencies()
    ours = np.sort(ours[: rope.sections[0]] if rope.order == "separate" else ours)
    if theirs.shape != ours.shape:
        return False
    bound = (8 + 2 * math.log(rope.base)) * EPS * ours
    return bool((np.abs(theirs - ours) <= bound).all())


# --- The formats of transformers


@pytest.mark.parametrize("name", CASES)
def test_it_reads_what_each_class_of_transformers_computes(name):
    case = CASES[name]
    for kind, attention_factor in case["attention_factors"].items():
        rope = rope_of(case, kind)
        assert within(case, kind, rope)
        assert rope.attention_factor == pytest.approx(
            attention_factor or 1.0, rel=1e-12
        )


MUTANTS = {
    "the base forgotten (vllm #42624)": (
        lambda rope: rope.base != 1e4,
        lambda rope: {"base": 1e4},
    ),
    "a quarter of the head rotated as a whole (mlx-lm #1698)": (
        lambda rope: rope.width < rope.head_dim,
        lambda rope: {"width": rope.head_dim},
    ),
    "proportional read as partial": (
        lambda rope: rope.method == "proportional",
        lambda rope: {"method": "default", "width": 2 * rope.options["rotated_pairs"]},
    ),
    "no scaling": (
        lambda rope: rope.method in ("yarn", "llama3", "longrope"),
        lambda rope: {"method": "default"},
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_published_mutants_are_noticed(mutant):
    """Every class that a mutant concerns rejects it."""
    concerns, change = MUTANTS[mutant]
    met = 0
    for case in CASES.values():
        for kind in case["frequencies"]:
            rope = rope_of(case, kind)
            if concerns(rope):
                met += 1
                assert not within(case, kind, replace(rope, **change(rope)))
    assert met >= 3


def as_version_4(config):
    """A flat configuration as it was written before ``rope_parameters``."""
    old = dict(config)
    given = dict(old.pop("rope_parameters"))
    for name in ("rope_theta", "partial_rotary_factor"):
        if name in given:
            old[name] = given.pop(name)
    if given.get("rope_type") in (None, "default"):
        given.pop("rope_type", None)
    elif "rope_type" in given:
        given["type"] = given.pop("rope_type")
    return {**old, "rope_scaling": given or None}


def test_both_versions_say_the_same():
    compared = 0
    for case in CASES.values():
        given = case["config"].get("rope_parameters")
        inside = any(name.endswith("_config") for name in case["config"])
        if not given or inside or any(isinstance(v, dict) for v in given.values()):
            continue
        if "axial" in given.values() or "rotary_dim" in case["config"]:
            continue
        compared += 1
        old = read_rope(as_version_4(case["config"]))
        assert old.format == "transformers 4"
        new = read_rope(case["config"])
        assert new.kinds.keys() == old.kinds.keys()
        for one, other in zip(new.kinds.values(), old.kinds.values(), strict=True):
            if one is None:
                assert other is None
            else:
                np.testing.assert_array_equal(one.frequencies(), other.frequencies())
                assert one.attention_factor == other.attention_factor
    assert compared > 100


def test_a_version_that_keeps_two_bases_at_the_top():
    gemma = {
        **{"head_dim": 256, "rope_theta": 1e6, "rope_local_base_freq": 1e4},
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    }
    read = read_rope(gemma)
    near, far = read.kinds["sliding_attention"], read.kinds["full_attention"]
    assert (near.base, near.method) == (1e4, "default")
    assert (far.base, far.method, far.options["factor"]) == (1e6, "linear", 8.0)
    assert read.layers.count("sliding_attention") == 5


def test_layers_without_rotation():
    """A list of switches, bases of 0 and null parameters say so."""
    switched = read_rope({**LLAMA, "rope_theta": 1e4, "no_rope_layers": [1, 1, 1, 0]})
    assert switched.layers == ("all", "all", "all", "none")
    assert switched.kinds["none"] is None
    based = read_rope({**LLAMA, "rope_theta": 1e4, "layer_rope_theta": [1e4, 0]})
    assert based.layers == ("all", "none")
    types = ["sliding_attention", "full_attention"]
    nested = {"sliding_attention": {"rope_theta": 1e4}, "full_attention": None}
    nulled = read_rope({**LLAMA, "layer_types": types, "rope_parameters": nested})
    assert nulled.kinds["full_attention"] is None
    assert nulled.kinds["sliding_attention"].base == 1e4


SWITCHES = {
    # What a configuration has, the layers that transformers 5.23.0 rotates (1), and
    # the temperature of the others.
    "Llama 4 Scout, as published": (
        {
            "model_type": "llama4",
            "text_config": {
                **{"model_type": "llama4_text", "num_hidden_layers": 8},
                **{"head_dim": 128, "rope_theta": 5e5, "no_rope_layers": []},
            },
        },
        ("11101110", (0.1, 8192.0)),
    ),
    "Llama 4, an interval and a temperature": (
        {
            **{"model_type": "llama4_text", "num_hidden_layers": 4, "head_dim": 128},
            **{"rope_theta": 5e5, "no_rope_layer_interval": 2, "floor_scale": 4096},
        },
        ("1010", (0.1, 4096.0)),
    ),
    "Llama 4, no temperature": (
        {
            **{"model_type": "llama4_text", "num_hidden_layers": 4, "head_dim": 128},
            **{"rope_theta": 5e5, "attn_temperature_tuning": False},
        },
        ("1110", None),
    ),
    "SmolLM3": (
        {
            **{"model_type": "smollm3", "num_hidden_layers": 5, "head_dim": 128},
            **{"rope_theta": 2e6, "no_rope_layers": None},
        },
        ("11101", None),
    ),
    "SmolLM3, its own list": (
        {
            **{"model_type": "smollm3", "num_hidden_layers": 3, "head_dim": 128},
            **{"rope_theta": 2e6, "no_rope_layers": [1, 0, 0]},
        },
        ("100", None),
    ),
    "Mistral Large 4": (
        {
            **{"model_type": "mistral_large4_text", "num_hidden_layers": 4},
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
        ("1110", None),
    ),
    "Muse Glimmer": (
        {
            **{"model_type": "muse_glimmer_text", "num_hidden_layers": 6},
            "rope_theta": 1e4,
        },
        ("101110", None),
    ),
    "Muse Spark": (
        {
            **{"model_type": "muse_spark_text", "num_hidden_layers": 5},
            "head_dim": 64,
        },
        ("01110", None),
    ),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_layers_without_rotation_that_a_class_fills_in(name):
    config, (rotated, temperature) = SWITCHES[name]
    reading = read_rope(config)
    kinds = [kind.split(": ")[-1] for kind in reading.layers]
    assert "".join(str(int(kind != "none")) for kind in kinds) == rotated
    assert reading.warnings == []
    found = reading.temperature
    assert (found and (found.alpha, found.length)) == temperature
    assert found is None or found.layers.split(": ")[-1] == "none"


def test_layers_without_rotation_that_cannot_be_listed_are_a_warning():
    (warning,) = read_rope({**LLAMA, "model_type": "smollm3"}).warnings
    assert "num_hidden_layers is missing" in warning
    flint = {**LLAMA, "model_type": "flint", "sliding_window": 512}
    (warning,) = read_rope(flint).warnings
    assert "num_hidden_layers is missing, so this family's layers" in warning
    unlisted = {"num_hidden_layers": 8, "sliding_window_pattern": None}
    (warning,) = read_rope({**flint, **unlisted}).warnings
    assert "layer_types is missing, so this family's layers without" in warning
    switched = {**LLAMA, "no_rope_layer_interval": 0, "num_hidden_layers": 4}
    with pytest.raises(ConfigError, match="no_rope_layer_interval must be"):
        read_rope(switched)


def only(config):
    """The rotation of a configuration that has one."""
    (rope,) = read_rope(config).kinds.values()
    return rope


def layout_of(config):
    """The layout of all rotations of a configuration."""
    (layout,) = {rope.layout for rope in read_rope(config).kinds.values()}
    return layout


def test_a_family_that_rotates_need_not_say_so():
    """The first Llamas have no rope_theta, and GPT-J has its base in its code."""
    rope = only(LLAMA)
    assert (rope.base, rope.width, rope.head_dim) == (1e4, 128, 128)
    assert read_rope(LLAMA).warnings == []
    gptj = {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "rotary_dim": 64}
    rope = only(gptj)
    assert (rope.base, rope.width, rope.head_dim) == (1e4, 64, 256)
    assert rope.layout == "interleaved"
    sizes = {"hidden_size": 768, "num_attention_heads": 12}
    assert only({"model_type": "roformer", **sizes}).layout == "interleaved"
    assert read_rope({"model_type": "bert", **sizes}).kinds == {"all": None}


@pytest.mark.parametrize(
    ("layout", "families"),
    [
        ("half", "llama qwen2 gemma3_text gpt_neox phi3 gpt_oss mistral nanochat"),
        ("interleaved", "gptj glm4 cohere ernie4_5 llama4_text openai_privacy_filter"),
        ("interleaved", "deepseek_v3 mistral4 glm4_moe_lite youtu axk1"),
        ("half", "qwen2_vl qwen2_5_vl"),
        ("", "mine"),
    ],
)
def test_layouts_that_a_family_fixes(layout, families):
    """Or its configuration decides, ``rope_interleave``, or nothing does."""
    for family in families.split():
        config = {"model_type": family, "head_dim": 64, "rope_theta": 1e4}
        assert layout_of(config) == layout, family
        for said, other in ((True, "interleaved"), (False, "half")):
            assert layout_of({**config, "rope_interleave": said}) == other


WIDTH = {"hidden_size": 3584, "num_attention_heads": 28}
LINEAR = {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
GEMMA = {"model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 1024}
FILLED = {
    # What is published, and what AutoConfig of transformers 5.23.0 makes of it: bases,
    # where the base of layers with a window is another, features of a head, and which
    # layers those are.
    "Gemma 3, 4B": (
        {
            **{"model_type": "gemma3", "vision_config": {"model_type": "siglip"}},
            "text_config": {**GEMMA, **LINEAR, "hidden_size": 2560},
        },
        (1e6, 1e4, 256, "sssssfs"),
    ),
    "Gemma 3, a text of no type": (
        {"model_type": "gemma3", "text_config": {**GEMMA, "model_type": None}},
        (1e6, 1e4, 256, "sssssfs"),
    ),
    "Gemma 3, one base said": (
        {**GEMMA, "rope_theta": 5e5, "sliding_window_pattern": 3},
        (5e5, 1e4, 256, "ssfssfs"),
    ),
    "Gemma 3n": (
        {"model_type": "gemma3n", "text_config": {**GEMMA, "model_type": None}},
        (1e6, 1e4, 256, "ssssfss"),
    ),
    "ModernBERT": ({"model_type": "modernbert", **WIDTH}, (1.6e5, 1e4, 128, "")),
    "Gemma": ({"model_type": "gemma", **WIDTH}, (1e4, None, 256, "")),
    "Gemma, by its width": (
        {"model_type": "gemma", **WIDTH, "head_dim": None},
        (1e4, None, 128, ""),
    ),
    "Cohere 2": (
        {**GEMMA, **WIDTH, "model_type": "cohere2"},
        (None, 1e4, 128, "sssfsss"),
    ),
    "Qwen2-VL": ({"model_type": "qwen2_vl", **WIDTH}, (1e6, None, 128, "")),
    "Qwen2.5-VL, with eyes of its own type": (
        {
            **{"model_type": "qwen2_5_vl", **WIDTH},
            "vision_config": {"model_type": "qwen2_5_vl", "hidden_size": 1280},
        },
        (1e6, None, 128, ""),
    ),
    "Qwen3-VL": (
        {"model_type": "qwen3_vl", "text_config": WIDTH},
        (5e5, None, 128, ""),
    ),
}


@pytest.mark.parametrize("name", FILLED)
def test_what_a_class_fills_in(name):
    config, (base, local, head_dim, layers) = FILLED[name]
    reading = read_rope(config)
    ropes = {kind.split(": ")[-1]: rope for kind, rope in reading.kinds.items()}
    far, near = next(iter(ropes.values())), None
    if "sliding_attention" in ropes:
        far, near = ropes["full_attention"], ropes["sliding_attention"]
    assert (far and far.base, near and near.base) == (base, local)
    assert {rope.head_dim for rope in ropes.values() if rope} == {head_dim}
    assert "".join(kind.split(": ")[-1][0] for kind in reading.layers) == layers
    assert reading.warnings == []
    if far and near:
        assert near.method == "default"


FILLED_OBJECTS = {
    # Methods, bases, rotated features of heads, and amplitude, by kind of layer: what
    # the classes of transformers 5.23.0 fill in, whatever else the file says.
    "gpt-oss": (
        {"model_type": "gpt_oss", "head_dim": 64},
        {"all": ("yarn", 150_000.0, (64, 64), 1.3465735902799727)},
    ),
    "Ministral 3, a base that is ignored": (
        {"model_type": "ministral3", "head_dim": 128, "rope_theta": 1e4},
        {"all": ("yarn", 1e6, (128, 128), 1.0)},
    ),
    "Gemma 4": (
        {"model_type": "gemma4_text", "head_dim": 256, "global_head_dim": 256},
        {
            "sliding_attention": ("default", 1e4, (256, 256), 1.0),
            "full_attention": ("proportional", 1e6, (256, 256), 1.0),
        },
    ),
    "Gemma 4, in a whole, heads of 512": (
        {"model_type": "gemma4", "text_config": WIDTH},
        {
            "text_config: sliding_attention": ("default", 1e4, (256, 256), 1.0),
            "text_config: full_attention": ("proportional", 1e6, (512, 512), 1.0),
        },
    ),
    "OLMo 3, as published": (
        {
            **{"model_type": "olmo3", **WIDTH, "rope_theta": 5e5},
            "max_position_embeddings": 65536,
            "rope_scaling": {
                **{"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2},
                "original_max_position_embeddings": 8192,
            },
        },
        {
            "sliding_attention": ("default", 5e5, (128, 128), 1.0),
            "full_attention": ("yarn", 5e5, (128, 128), 1.2),
        },
    ),
    "DeepSeek-V4, as published": (
        {
            **{"model_type": "deepseek_v4", "head_dim": 512, "qk_rope_head_dim": 64},
            **{"rope_theta": 10_000, "compress_rope_theta": 40_000},
            "rope_scaling": {
                **{"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1},
                "original_max_position_embeddings": 65536,
            },
        },
        {
            "main": ("default", 1e4, (64, 64), 1.0),
            "compress": ("yarn", 4e4, (64, 64), 1.0),
        },
    ),
    "Qwen3-Next, a share": (
        {"model_type": "qwen3_next", "head_dim": 256, "rope_theta": 1e7},
        {"all": ("default", 1e7, (64, 256), 1.0)},
    ),
    "RecurrentGemma, a share": (
        {"model_type": "recurrent_gemma", **WIDTH, "rope_theta": 1e4},
        {"all": ("default", 1e4, (64, 128), 1.0)},
    ),
    "Bamba, a share that a file cannot change": (
        {"model_type": "bamba", **WIDTH, "partial_rotary_factor": 1.0},
        {"all": ("default", 1e4, (64, 128), 1.0)},
    ),
    "Step 3.5, lists by layer": (
        {
            **{"model_type": "step3p5", "head_dim": 128, **LINEAR},
            **{"rope_theta": [5e6, 1e4], "partial_rotary_factors": [0.5, 1.0]},
            "layer_types": ["full_attention", "sliding_attention"],
            "yarn_only_types": ["full_attention"],
        },
        {
            "full_attention": ("linear", 5e6, (64, 128), 1.0),
            "sliding_attention": ("default", 1e4, (128, 128), 1.0),
        },
    ),
    "DBRX": (
        {
            **{"model_type": "dbrx", "d_model": 6144, "n_heads": 48},
            "attn_config": {"kv_n_heads": 8, "rope_theta": 500_000},
        },
        {"all": ("default", 5e5, (128, 128), 1.0)},
    ),
}


@pytest.mark.parametrize("name", FILLED_OBJECTS)
def test_what_a_class_fills_in_whatever_else_is_said(name):
    config, wanted = FILLED_OBJECTS[name]
    kinds = read_rope(config).kinds
    assert {
        kind: (r.method, r.base, (r.width, r.head_dim), r.attention_factor)
        for kind, r in kinds.items()
    } == wanted


def test_what_a_class_does_not_read_is_a_warning():
    """A base that the class ignores, and objects that it ignores or refuses."""
    flat = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    dbrx, _ = FILLED_OBJECTS["DBRX"]
    for config, text in (
        ({"model_type": "ministral3", "rope_theta": 1e4}, "rope_theta is ignored by"),
        ({"model_type": "gpt_neox", **WIDTH, "rope_theta": 1e5}, "is ignored by this"),
        (
            {"model_type": "cohere2_moe", **LINEAR, "num_hidden_layers": 4},
            "rope_scaling is ignored by this",
        ),
        ({"model_type": "gemma3_text", **flat}, "rope_parameters is ignored by this"),
        ({"model_type": "gemma4_text", **flat}, "needs one for full_attention, "),
        ({"model_type": "mistral4", **flat}, "partial_rotary_factor is missing, and"),
        (dbrx, "attn_config.rope_theta is 500000, which is used here"),
    ):
        (warning,) = read_rope({**WIDTH, "head_dim": 128, **config}).warnings
        assert text in warning


def test_lists_by_layer_that_cannot_be_read():
    step, _ = FILLED_OBJECTS["Step 3.5, lists by layer"]
    with pytest.raises(ConfigError, match="layer_types is needed to read it"):
        read_rope({**step, "layer_types": None})
    with pytest.raises(ConfigError, match="one value for all layers of the kind 'full"):
        read_rope({**step, "layer_types": ["full_attention"] * 2})
    with pytest.raises(ConfigError, match="partial_rotary_factors must have one value"):
        read_rope({**step, "partial_rotary_factors": [0.5]})


@pytest.mark.parametrize(
    ("family", "more", "sections", "order"),
    [
        ("qwen3_vl_text", {}, (24, 20, 20), "interleaved"),
        ("cosmos3_edge_text", {"mrope_interleaved": True}, (24, 20, 20), "interleaved"),
        ("qwen2_vl", {}, (16, 24, 24), "sectioned"),
        ("qwen3_5_text", {"mrope_section": [12, 10, 10]}, (12, 10, 10), "interleaved"),
    ],
)
def test_sections_of_a_family_and_their_order(family, more, sections, order):
    """The order is that of the class, whatever the flag says."""
    width = 64 / 256 if "qwen3_5" in family else 1.0
    given = {"rope_theta": 1e6, "partial_rotary_factor": width, **more}
    config = {"model_type": family, "head_dim": 256 if width < 1 else 128}
    rope = only({**config, "rope_parameters": given})
    assert (rope.sections, rope.order) == (sections, order)
    other = {**given, "mrope_interleaved": order == "sectioned"}
    reading = read_rope({**config, "rope_parameters": other})
    assert [*reading.kinds.values()] == [rope]
    (warning,) = reading.warnings
    assert f"this family's sections are always {order}" in warning


def test_sections_that_do_not_fit_the_head_are_a_warning():
    (warning,) = read_rope({"model_type": "qwen3_vl_text", "head_dim": 64}).warnings
    assert "[24, 20, 20], which does not add up to the 32 rotated pairs" in warning


def test_families_whose_code_has_no_rotation():
    """Whatever their configurations say; a repository's own code may differ."""
    said = {"rope_theta": 1e4, "rope_scaling": None, "partial_rotary_factor": 0.5}
    for family in "nemotron_h", "kimi_linear", "jamba", "bert":
        reading = read_rope({"model_type": family, **WIDTH, **said})
        assert reading.kinds == {"all": None} and reading.warnings == []
        assert "has no rotation, whatever" in str(reading.remarks[0])
    own_code = {"model_type": "bert", **WIDTH, **said, "auto_map": {"AutoModel": "m"}}
    assert only(own_code).base == 1e4
    for inner, text in (
        ({"alibi": True, "rope_theta": 1e4}, "attn_config.alibi is true"),
        ({"rope": False, "rope_theta": 1e4}, "attn_config.rope is false"),
    ):
        mpt = {"model_type": "mpt", "d_model": 4096, "n_heads": 32}
        reading = read_rope({**mpt, "attn_config": inner})
        assert reading.kinds == {"all": None} and reading.warnings == []
        assert text in str(reading.remarks[0])


@pytest.mark.parametrize(
    ("family", "name", "value"),
    [
        ("zamba2", "use_mem_rope", True),
        ("wav2vec2-conformer", "position_embeddings_type", "rotary"),
        ("wav2vec2-bert", "position_embeddings_type", "rotary"),
        ("seamless_m4t", "position_embeddings_type", "rotary"),
    ],
)
def test_families_that_rotate_only_if_asked(family, name, value):
    config = {"model_type": family, **WIDTH}
    assert read_rope(config).kinds == {"all": None}
    assert read_rope(config).warnings == []
    asked = {**config, name: value, "rotary_embedding_base": 5000}
    rope = only(asked)
    width = 256 if family == "zamba2" else 128  # Its heads are twice as wide.
    assert (rope.base, rope.width) == (5000.0, width)
    before = any("not their outputs" in r.text for r in read_rope(asked).remarks)
    assert before == (name == "position_embeddings_type")


def test_rotations_that_no_reading_describes():
    with pytest.raises(ConfigError, match="CLVP rotates values as well"):
        read_rope({"model_type": "clvp", "text_config": {"rope_theta": 1e4, **WIDTH}})
    gte = {"rope_theta": 2e4, "rope_scaling": {"type": "ntk", "factor": 8.0}}
    with pytest.raises(ConfigError, match="'ntk', which transformers does not define"):
        read_rope({"model_type": "new", **WIDTH, **gte})


def test_parts_that_a_class_fills_in_are_noted():
    (note,) = read_rope({"model_type": "csm", "head_dim": 64}).remarks[:1]
    assert str(note).startswith("note: codec_config is missing: the class fills it in")


def test_two_bases_that_are_said_are_no_contradiction():
    """Gemma-3-1B's fields, as they are published."""
    said = {"rope_theta": 1000000, "rope_local_base_freq": 10000, "rope_scaling": None}
    reading = read_rope({**GEMMA, "head_dim": 256, **said})
    assert reading.warnings == []
    bases = {kind: rope.base for kind, rope in reading.kinds.items()}
    assert bases == {"full_attention": 1e6, "sliding_attention": 1e4}
    (warning,) = read_rope(
        {**GEMMA, **said, "rope_scaling": {"rope_theta": 5e5}}
    ).warnings
    assert warning.startswith(
        "rope_theta is 1000000, but rope_parameters.rope_theta is 500000.0"
    )


def test_families_whose_full_attention_is_unrotated():
    """Layers with a window are given as a list, or in the older way as a pattern."""
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 8}
    kinds = [*["sliding_attention"] * 3, "full_attention"] * 2
    old = {**sizes, "rope_theta": 5e4, "sliding_window": 4096}
    for family in "cohere2", "exaone4", "exaone_moe", "kolibri1", "flint":
        for more in ({"layer_types": kinds}, {"sliding_window_pattern": 4}):
            read = read_rope({**old, "model_type": family, **more})
            assert read.kinds["full_attention"] is None
            assert read.kinds["sliding_attention"].base == 5e4
            assert list(read.layers) == kinds
    spelled = {**old, "model_type": "exaone4", "sliding_window_pattern": "LLLG"}
    assert list(read_rope(spelled).layers) == kinds
    every = only({**spelled, "sliding_window": None})
    assert every.base == 5e4
    listed = {**old, "model_type": "exaone4", "layer_types": kinds}
    assert only({**listed, "sliding_window": None}).base == 5e4


def test_a_window_that_comes_again_and_again():
    gemma = {
        **{"model_type": "gemma3_text", "head_dim": 256, "rope_theta": 1e6},
        **{"rope_local_base_freq": 1e4, "num_hidden_layers": 26},
        **{"sliding_window": 1024, "sliding_window_pattern": 6},
    }
    read = read_rope(gemma)
    assert read.layers.count("full_attention") == 4 and len(read.layers) == 26
    assert read.layers[5] == "full_attention"
    with pytest.raises(ConfigError, match="sliding_window_pattern must be a number"):
        read_rope({**gemma, "sliding_window_pattern": "LLX"})


def test_what_says_that_positions_come_in_otherwise():
    esm = {"model_type": "esm", "head_dim": 64, "rope_theta": 1e4}
    for config in (
        {**esm, "position_embedding_type": "absolute"},
        {**LLAMA, "model_type": "falcon", "alibi": True},
        {**LLAMA, "model_type": "granitemoehybrid", "position_embedding_type": "nope"},
    ):
        read = read_rope(config)
        assert read.kinds == {"all": None} and read.warnings == []
        assert any("no layer is rotated" in str(remark) for remark in read.remarks)
    assert only({**esm, "position_embedding_type": "rotary"}).base == 1e4
    assert only({**LLAMA, "model_type": "falcon", "alibi": False}).base == 1e4


def test_parts_that_are_named_by_their_side():
    part = {"model_type": "t5_gemma_module", "head_dim": 256, "rope_theta": 1e4}
    read = read_rope({"model_type": "t5gemma", "encoder": part, "decoder": part})
    assert [*read.kinds] == ["encoder", "decoder"]
    with pytest.raises(ConfigError, match=r"several parts \(encoder, decoder\)"):
        write_rope(read, "transformers 5")


def test_a_base_outside_the_parts_is_ignored():
    """BLT's outer configuration has no heads."""
    read = read_rope({"rope_theta": 5e5, "encoder_config": LLAMA_31})
    assert [*read.kinds] == ["encoder_config"]
    (warning,) = read.warnings
    assert warning.startswith("RoPE parameters outside the sub-configurations")


@pytest.mark.parametrize("family", ["dinov3_vit", "sapiens2", "llama4_vision_model"])
def test_axes_that_a_family_fixes(family):
    rope = only({"model_type": family, "head_dim": 64, "rope_theta": 100.0})
    assert (rope.order, rope.sections) == ("separate", (16, 16))
    omega = 100.0 ** (-np.arange(16) / 16)
    np.testing.assert_allclose(rope.frequencies(), np.tile(omega, 2), rtol=1e-14)


def test_llama_3_1_by_the_numbers_that_meta_computes():
    """Pairs of more than 4 turns in 8192 stay, those of less than 1 get ω / 8."""
    rope = read_rope(LLAMA_31).kinds["all"]
    plain = 500000.0 ** (-np.arange(64) / 64)
    turns = 8192 * plain / (2 * np.pi)
    ratio = rope.frequencies() / plain
    np.testing.assert_allclose(ratio[turns > 4], 1, rtol=1e-15)
    np.testing.assert_allclose(ratio[turns < 1], 1 / 8, rtol=1e-15)
    assert rope.trained == 8192 and rope.longest == 131072
    np.testing.assert_allclose(rope.rotations(), turns, rtol=1e-15)
    assert (8192 * rope.frequencies() / (2 * np.pi) >= 1).sum() < (turns >= 1).sum()


def test_frequencies_that_follow_the_length():
    dynamic = {**LLAMA, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
    rope = read_rope({**dynamic, "rope_theta": 1e4}).kinds["all"]
    assert rope.follows_length and rope.trained == 131072
    short, long = rope.frequencies(100), rope.frequencies(4 * 131072)
    np.testing.assert_array_equal(short, rope.frequencies())
    assert long[0] == short[0] and long[-1] < short[-1] / 2


def test_an_object_of_transformers_is_read_by_its_dictionary():
    class Config:
        def to_dict(self):
            return LLAMA_31

    assert str(read_rope(Config())) == str(read_rope(LLAMA_31))


def test_a_temperature_is_in_the_caption():
    read = read_rope(
        {
            **{**LLAMA, "model_type": "llama4_text", "rope_theta": 5e5},
            **{"num_hidden_layers": 8, "floor_scale": 8192, "attn_scale": 0.1},
        }
    )
    text = "1 + 0.1 ln(1 + ⌊(i + 1)/8192⌋) for a query at position i, in layers 'none'"
    assert f"Scores are multiplied by {text}" in read.caption()
    assert "multiplied" not in read_rope(LLAMA_31).caption()


def test_temperatures():
    """Llama 4's in layers without rotation, Mistral's in all; as the chapter has it."""
    llama = read_rope(CASES["llama4.Llama4TextRotaryEmbedding"]["config"])
    mistral = read_rope(CASES["ministral3.Ministral3RotaryEmbedding"]["config"])
    said = [vars(reading.temperature) for reading in (llama, mistral)]
    layers = [keywords.pop("layers") for keywords in said]
    assert layers == ["none", "all"] and llama.layers.count("none") == 12
    for keywords, position, expected in (
        (said[0], 8190, 1.0),
        (said[0], 8191, 1 + 0.1 * math.log(2)),
        (said[1], 16383, 1.0),
        (said[1], 16384, 1 + 0.1 * math.log(2)),
    ):
        (found,) = log_n_temperature(np.array([position]), **keywords)
        assert math.isclose(found, expected, rel_tol=1e-15)
    assert read_rope(LLAMA_31).temperature is None


# --- Other formats

LLAMA_3_META = {"dim": 4096, "n_heads": 32, "n_layers": 32, "rope_theta": 500000.0}
FOREIGN = {
    "GGUF": (
        {
            "general.architecture": "llama",
            "llama.embedding_length": 4096,
            "llama.attention.head_count": 32,
            "llama.context_length": 8192,
            "llama.rope.freq_base": 500000.0,
            "llama.rope.dimension_count": 128,
        },
        dict(LLAMA, rope_theta=5e5),
    ),
    "GGUF, YaRN": (
        {
            "general.architecture": "qwen2",
            "qwen2.embedding_length": 4096,
            "qwen2.attention.head_count": 32,
            "qwen2.rope.freq_base": 1e6,
            "qwen2.rope.scaling.type": "yarn",
            "qwen2.rope.scaling.factor": 4.0,
            "qwen2.rope.scaling.original_context_length": 32768,
        },
        dict(LLAMA, rope_theta=1e6)
        | {
            "rope_scaling": {
                **{"type": "yarn", "factor": 4.0},
                "original_max_position_embeddings": 32768,
            }
        },
    ),
    "GGUF, an attention factor undone": (
        {
            **{"general.architecture": "x", "x.attention.key_length": 128},
            **{"x.rope.freq_base": 1e4, "x.rope.scaling.type": "yarn"},
            **{"x.rope.scaling.factor": 16.0, "x.context_length": 4096},
            "x.rope.scaling.attn_factor": 1 / (1 + 0.1 * math.log(16)),
        },
        dict(LLAMA, rope_theta=1e4, max_position_embeddings=4096)
        | {"rope_scaling": {"type": "yarn", "factor": 16.0, "attention_factor": 1.0}},
    ),
    "Meta's params.json": (
        {**LLAMA_3_META, "use_scaled_rope": True},
        LLAMA_31,
    ),
    "Megatron-LM": (
        {
            **{"hidden_size": 4096, "num_attention_heads": 32, "rotary_base": 500000},
            **{"use_rope_scaling": True, "max_position_embeddings": 131072},
        },
        LLAMA_31,
    ),
    "Megatron-LM, a part": (
        {
            **{"kv_channels": 128, "rotary_percent": 0.5},
            "rotary_seq_len_interpolation_factor": 4,
        },
        dict(LLAMA, rope_theta=1e4, partial_rotary_factor=0.5)
        | {"rope_scaling": {"type": "linear", "factor": 4.0}},
    ),
    "GPT-NeoX": (
        {
            **{"pos-emb": "rotary", "rotary-pct": 0.25, "hidden-size": 4096},
            "num-attention-heads": 32,
        },
        dict(LLAMA, rope_theta=1e4, partial_rotary_factor=0.25),
    ),
    "ChatGLM": (
        {
            **{"model_type": "chatglm", "kv_channels": 128, "rope_ratio": 50},
            "seq_length": 131072,
        },
        dict(LLAMA, rope_theta=5e5, partial_rotary_factor=0.5),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_other_formats_are_read_alike(name):
    """They equal the configuration of the same rotation for transformers."""
    foreign, same = FOREIGN[name]
    read = read_rope(foreign)
    assert name.startswith(read.format)
    one, other = read.kinds["all"], read_rope(same).kinds["all"]
    np.testing.assert_array_equal(one.frequencies(), other.frequencies())
    assert math.isclose(one.attention_factor, other.attention_factor, rel_tol=4e-16)
    assert one.head_dim == other.head_dim


def test_layouts_of_other_formats():
    layouts = {
        name: read_rope(c).kinds["all"].layout for name, (c, _) in FOREIGN.items()
    }
    assert layouts == {
        **{"GGUF": "interleaved", "GGUF, YaRN": "half"},
        "GGUF, an attention factor undone": "",
        "Meta's params.json": "interleaved",
        **{"Megatron-LM": "half", "Megatron-LM, a part": "half"},
        **{"GPT-NeoX": "half", "ChatGLM": "interleaved"},
    }
    turned = {**FOREIGN["Megatron-LM"][0], "rotary_interleaved": True}
    assert read_rope(turned).kinds["all"].layout == "interleaved"


def test_remarks_on_other_formats():
    """A base that two generations mean differently, numbers built into code."""
    (bare,) = read_rope({"dim": 4096, "n_heads": 32}).warnings
    assert "10000 is used, the base of Llama 1 and 2" in bare and "500000" in bare
    (scaled,) = read_rope(FOREIGN["Meta's params.json"][0]).warnings
    assert "a factor of 8" in scaled and "have 32" in scaled
    scout = {**LLAMA_3_META, "use_scaled_rope": True, "moe_args": {"num_experts": 16}}
    scout["nope_layer_interval"] = 4
    read = read_rope(scout)
    assert read.kinds["all"].options == {"factor": 16.0, "low": 1.0, "high": 1.0}
    assert read.layers[:5] == ("all", "all", "all", "none", "all")
    assert read.layers.count("none") == 8 and len(read.layers) == 32
    assert any("rope_freqs" in str(r) for r in read_rope(FOREIGN["GGUF"][0]).remarks)
    lists = {**FOREIGN["GGUF"][0], "llama.rope.scaling.type": "longrope"}
    with pytest.raises(ConfigError, match="are the tensors rope_factors_short"):
        read_rope(lists)
    with pytest.raises(ConfigError, match="pos_emb must be one of rotary, learned"):
        read_rope({"pos-emb": "other"})


@pytest.mark.parametrize(
    ("config", "sections", "layout"),
    [
        (
            {
                **{"_class_name": "Lumina2Transformer2DModel", "hidden_size": 2304},
                "axes_dim_rope": [32, 32, 32],
            },
            *((16, 16, 16), "interleaved"),
        ),
        (
            {
                **{"_class_name": "WanTransformer3DModel", "attention_head_dim": 128},
                "rope_max_seq_len": 1024,
            },
            *((22, 21, 21), "interleaved"),
        ),
        (
            {
                "_class_name": "CogView4Transformer2DModel",
                **{"attention_head_dim": 128, "rope_axes_dim": [256, 256]},
            },
            *((32, 32), "half"),
        ),
    ],
    ids=["Lumina 2", "Wan", "CogView 4"],
)
def test_axes_that_a_diffusion_model_computes(config, sections, layout):
    """They follow from the head in Wan and CogView 4, whose lists count positions."""
    reading = read_rope(config)
    rope = reading.kinds["all"]
    own = [1e4 ** (-np.arange(n) / n) for n in sections]
    np.testing.assert_array_equal(rope.frequencies(), np.concatenate(own))
    assert (rope.sections, rope.order, rope.layout) == (sections, "separate", layout)
    assert reading.warnings == []
    if "attention_head_dim" in config:
        with pytest.raises(ConfigError, match="attention_head_dim is needed"):
            read_rope({"_class_name": config["_class_name"]})


def test_a_diffusion_model_that_rotates_no_heads():
    with pytest.raises(ConfigError, match="before they are divided into heads"):
        read_rope({"_class_name": "LTXVideoTransformer3DModel"})


def test_axes_of_diffusion_models():
    """Flux: 16, 56 and 56 features of a head of 128, each axis from frequency 1."""
    flux = {
        **{"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128},
        "axes_dims_rope": [16, 56, 56],
    }
    rope = read_rope(flux).kinds["all"]
    omega = rope.frequencies()
    own = [1e4 ** (-np.arange(0, d, 2) / d) for d in (16, 56, 56)]
    np.testing.assert_array_equal(omega, np.concatenate(own))
    assert (rope.order, rope.sections) == ("separate", (8, 28, 28))
    assert rope.layout == "interleaved" and read_rope(flux).warnings == []
    bases = {"Flux2Transformer2DModel": 2000.0, "ZImageTransformer2DModel": 256.0}
    for name, base in bases.items():
        assert read_rope({**flux, "_class_name": name}).kinds["all"].base == base
    (warning,) = read_rope({"axes_dims_rope": [16, 16]}).warnings
    assert "is not a known class of diffusers" in warning
    for wrong in ([15, 17], [], "16", [64, 128]):
        with pytest.raises(ConfigError, match="axes_dims_rope"):
            read_rope({**flux, "axes_dims_rope": wrong})


TIMM = json.loads((ORACLES / "timm-tables.json").read_text("utf-8"))


def coordinates(given):
    """Coordinates of the patch of the tables, in the order of the sections."""
    patch, grid = (list(TIMM[name]) for name in ("patch", "grid"))
    if given.get("rope_grid_indexing") == "xy":
        patch, grid = patch[::-1], grid[::-1]
    if given.get("rope_type") == "dinov3":
        middles = [(p + 0.5) / n for p, n in zip(patch, grid, strict=True)]
        return [2 * math.pi * (2 * m - 1) for m in middles]
    if given.get("rope_type") == "mrope":
        return [0, *patch]
    return [p + given.get("rope_grid_offset", 0) for p in patch]


@pytest.mark.parametrize("number", range(len(TIMM["cases"])))
def test_timm_computes_what_is_read(number):
    """Sines and cosines of a patch, as its own classes lay them out."""
    case = TIMM["cases"][number]
    given = case["model_args"]
    reading = read_rope(given)
    rope = reading.kinds["all"]
    omega, at = rope.frequencies(), coordinates(given)
    if rope.order == "separate":
        axis = np.repeat([0, 1], rope.sections)
    else:
        axis = np.arange(len(omega)) % 3
        for k in 1, 2:
            of = np.flatnonzero(axis == k)
            axis[of[rope.sections[k] :]] = 0
    angles = omega * np.array(at)[axis]
    angles = np.tile(angles, 2) if rope.layout == "half" else np.repeat(angles, 2)
    expected = np.concatenate((np.sin(angles), np.cos(angles)))
    np.testing.assert_allclose(case["table"], expected, atol=4 * EPS * 2 * math.pi)
    assert reading.format == "timm"


def test_architectures_of_timm_are_known():
    hub = {"architecture": "vit_base_patch16_rope_224", "pretrained_cfg": {}}
    read = read_rope(hub)
    rope = read.kinds["all"]
    assert (rope.base, rope.head_dim, rope.layout) == (100.0, 64, "interleaved")
    assert read.family == "vit_base_patch16_rope_224"
    assert any("the column comes before the row" in str(r) for r in read.remarks)
    other = read_rope({**hub, "model_args": {"rope_temperature": 50.0}})
    assert other.kinds["all"].base == 50.0
    dino = read_rope({**hub, "architecture": "vit_base_patch16_dinov3"})
    assert dino.kinds["all"].layout == "half"
    assert any("from −1 to 1" in str(remark) for remark in dino.remarks)


TIMM_REFUSED = {
    "vit_base_patch16_rope_mixed_224": ({}, "frequencies are weights of the model"),
    "resnet50": ({}, "'resnet50' is not known to be an architecture of timm"),
    "vit_base_patch16_rope_224": ({"use_rot_pos_emb": False}, "no layer is rotated"),
    "eva02_base_patch14_224": ({"rope_type": "base"}, "must be one of cat, axial"),
    "eva02_tiny_patch14_224": ({"num_heads": 7}, "a multiple of 4 features, got 27"),
    "a": ({"rope_temperature": 10}, "embed_dim and num_heads must be given"),
    "vit_small_patch16_dinov3": ({"rope_temperature": 1}, "must be above 1, got 1"),
    "vit_large_patch16_dinov3": (
        {"rope_type": "mrope", "rope_mrope_section": [1]},
        "must be three numbers",
    ),
}


@pytest.mark.parametrize("architecture", TIMM_REFUSED)
def test_what_timm_does_not_say_is_refused(architecture):
    args, message = TIMM_REFUSED[architecture]
    with pytest.raises(ConfigError, match=message):
        read_rope({"architecture": architecture, "model_args": args})


def test_sections_of_timm_that_do_not_tile_are_told():
    given = {"embed_dim": 128, "num_heads": 2, "rope_type": "mrope"}
    read = read_rope({**given, "use_rot_pos_emb": True})
    assert read.kinds["all"].sections == (11, 11, 10)
    (warning,) = read.warnings
    assert "[8, 12, 12], but the 32 pairs are divided as [11, 11, 10]" in warning


# --- And back


def same_rotations(one, other):
    """Return whether two readings have the same kinds, layers and numbers."""
    if one.kinds.keys() != other.kinds.keys():
        return False
    if other.layers != one.layers and {*one.layers, *other.layers} != {"all"}:
        return False
    for a, b in zip(one.kinds.values(), other.kinds.values(), strict=True):
        if a is None or b is None:
            if a is not b:
                return False
            continue
        lengths = (None, 10**7)
        same = [np.array_equal(a.frequencies(n), b.frequencies(n)) for n in lengths]
        same.append(math.isclose(a.attention_factor, b.attention_factor, rel_tol=4e-16))
        same.append(a.softmax == b.softmax)
        told = [(r.head_dim, r.sections, r.order) for r in (a, b)]
        if not all(same) or told[0] != told[1]:
            return False
    return True


SOURCES = {
    **{name: case["config"] for name, case in CASES.items()},
    **{name: foreign for name, (foreign, _) in FOREIGN.items()},
    **{f"timm {n}": case["model_args"] for n, case in enumerate(TIMM["cases"])},
    "Flux": {
        **{"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128},
        "axes_dims_rope": [16, 56, 56],
    },
    "GLM": {"model_type": "glm4", "head_dim": 128, "partial_rotary_factor": 0.5},
}


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_reads_as_what_was_read(format):
    written = refused = 0
    for config in SOURCES.values():
        reading = read_rope(config)
        try:
            back = json.loads(json.dumps(write_rope(reading, format)))
        except ConfigError as error:
            refused += 1
            assert str(error)
            continue
        written += 1
        again = read_rope(back)
        assert again.format == format
        assert same_rotations(reading, again)
    least = {"transformers 5": 160, "transformers 4": 140, "GPT-NeoX": 70}
    few = {"Meta's params.json": 10, "ChatGLM": 2, "diffusers": 10, "timm": 8}
    assert written >= (least | few).get(format, 80)
    assert refused


def test_what_is_written_keeps_the_layout_or_is_refused():
    for format, layout in (
        ("GPT-NeoX", "half"),
        ("Meta's params.json", "interleaved"),
    ):
        for said in "half", "interleaved":
            reading = read_rope({**LLAMA, "rope_interleave": said == "interleaved"})
            if said == layout:
                back = read_rope(write_rope(reading, format))
                assert back.kinds["all"].layout == layout
            else:
                with pytest.raises(ConfigError, match=f"has the layout '{layout}'"):
                    write_rope(reading, format)


LATENT = {
    **{"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_theta": 1e4},
    "max_position_embeddings": 163840,
    "rope_scaling": {
        **{"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0},
        "original_max_position_embeddings": 4096,
    },
}


def test_latent_attention_scales_its_softmax_besides():
    """``yarn_apply_mscale`` of deepseek_v3 in transformers 5.23.0, and its like."""
    reading = read_rope(LATENT)
    assert reading.kinds["all"].attention_factor == 1
    mscale = 0.1 * 1.0 * math.log(40) + 1.0
    assert reading.kinds["all"].softmax == pytest.approx(mscale * mscale, rel=1e-15)
    assert "also multiplies the scale of its softmax by 1.87385" in str(
        reading.remarks[0]
    )
    plain = {**LATENT, "model_type": "dots3_note_text"}
    whole = {**LATENT, "model_type": "llama", "qk_rope_head_dim": None, "head_dim": 64}
    alone = {k: v for k, v in LATENT["rope_scaling"].items() if k != "mscale_all_dim"}
    for other in plain, whole, {**LATENT, "rope_scaling": alone}:
        assert {rope.softmax for rope in read_rope(other).kinds.values()} == {1}
    with pytest.raises(ConfigError, match="a factor of the softmax scale"):
        write_rope(reading, "GGUF")


UNWRITTEN = {
    "GGUF": (LLAMA_31, "GGUF has no llama3 scaling"),
    "Megatron-LM": (
        dict(LLAMA, no_rope_layers=[1, 0], rope_theta=1e4),
        "one rotary embedding for all layers",
    ),
    "transformers 4": (
        CASES["gemma3.Gemma3RotaryEmbedding"]["config"],
        "no parameters for each kind of layer",
    ),
    "transformers 5": (
        dict(text_config=LLAMA_31, vision_config=LLAMA_31),
        "the model has several parts",
    ),
    "Klingon": (LLAMA_31, "`format` must be one of transformers 5"),
}


@pytest.mark.parametrize("format", UNWRITTEN)
def test_what_a_spelling_cannot_say_is_refused(format):
    config, message = UNWRITTEN[format]
    with pytest.raises(ConfigError, match=message):
        write_rope(read_rope(config), format)


# --- What is ignored, contradictory or misread

REMARKS = {
    "no base": (dict(LLAMA, rope_parameters={"rope_type": "default"}), None),
    "another base": (
        dict(LLAMA, rope_theta=5e5, rope_parameters={"rope_theta": 1e4}),
        "rope_theta is 500000.0, but rope_parameters.rope_theta is 10000.0",
    ),
    "an unknown name": (
        dict(LLAMA, rope_theta=1e4, rope_scaling={"fator": 2.0}),
        "rope_scaling.fator is not a RoPE parameter and is ignored",
    ),
    "two types": (
        dict(LLAMA, rope_theta=1e4)
        | {"rope_scaling": {"type": "dynamic", "rope_type": "linear", "factor": 2}},
        "the first is used",
    ),
    "mrope": (
        dict(LLAMA, rope_theta=1e4)
        | {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
        "'mrope', which transformers does not define",
    ),
    "stale keys": (
        dict(LLAMA, rope_theta=1e4)
        | {"rope_scaling": {"type": "dynamic", "factor": 2}},
        "keys that were cached before a change are rotated by the wrong",
    ),
    "both objects": (
        dict(LLAMA, rope_parameters={"rope_theta": 1e4}, rope_scaling={"factor": 2.0}),
        "are both given and differ",
    ),
}


@pytest.mark.parametrize("case", REMARKS)
def test_what_is_wrong_is_said(case):
    config, text = REMARKS[case]
    warnings = read_rope(config).warnings
    if text is None:  # the family has a base of its own
        assert warnings == []
        config = {**config, "model_type": "of nobody"}
        (warning,) = read_rope(config).warnings
        assert "does not give rope_theta" in warning
    else:
        assert sum(text in warning for warning in warnings) == 1


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LISTS = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 4096, **LISTS}
LENGTHS = {
    # What max_position_embeddings and the object say, and words of the warning.
    "as far as the factor": (131072, YARN, None),
    "a longest text that is not extended, as Qwen's": (32768, YARN, None),
    "a little more, as Qwen 3's": (40960, YARN, None),
    "a rounded factor": (131072, {**YARN, "factor": 3.99}, None),
    "no longest text": (None, YARN, None),
    "farther than the factor": (131072, {**YARN, "factor": 2.0}, "to 65,536, and"),
    "a factor of 1": (131072, {**YARN, "factor": 1.0}, "to 32,768, and"),
    "shorter than training": (8192, YARN, "32,768, is above max_position_embeddings"),
    "no training length": (
        131072,
        {"rope_type": "yarn", "factor": 4.0},
        "131,072, is taken as the training length",
    ),
    "Llama 3.1": (131072, LLAMA_31["rope_scaling"], None),
    "Llama 3.1, shorter": (4096, LLAMA_31["rope_scaling"], "8,192, is above"),
    "Llama 3.1, no training length": (
        131072,
        {**LLAMA_31["rope_scaling"], "original_max_position_embeddings": None},
        "is taken as the training length",
    ),
    "a factor below 1": (8192, {"type": "linear", "factor": 0.5}, "factor is 0.5: bel"),
    "linear": (8192, {"type": "linear", "factor": 2.0}, None),
    "linear, a ratio": (
        8192,
        {"type": "linear", "factor": 2.0, "original_max_position_embeddings": 4096},
        None,
    ),
    "linear, another ratio": (
        8192,
        {"type": "linear", "factor": 2.0, "original_max_position_embeddings": 2048},
        "is 4 times as long, and frequencies are divided by 2",
    ),
    "not scaled": (
        8192,
        {"rope_type": "default", "original_max_position_embeddings": 2048},
        "is 4 times as long, and frequencies are divided by 1",
    ),
    "no text longer than training": (
        2048,
        {"rope_type": "default", "original_max_position_embeddings": 2048},
        None,
    ),
    "a length of the temperature": (
        8192,
        {"original_max_position_embeddings": 2048, "llama_4_scaling_beta": 0.1},
        None,
    ),
    "two longest texts": (
        131072,
        {**YARN, "max_position_embeddings": 65536},
        "is 65536, which is ignored: the one outside, 131072,",
    ),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_lengths_that_do_not_fit_are_said(case):
    longest, given, text = LENGTHS[case]
    config = {**LLAMA, "max_position_embeddings": longest, "rope_theta": 1e6}
    warnings = read_rope({**config, "rope_scaling": given}).warnings
    assert [text in warning for warning in warnings] == [True] * (text is not None)


def test_a_training_length_outside_is_read_where_the_class_reads_it():
    """``standardize_rope_params`` of transformers 5.23, tried on 192 classes.

    Only Phi-3 and Phi-4-multimodal have it outside, where it is 4096 unless the file
    says otherwise; others take ``max_position_embeddings`` if there is none inside.
    """
    name = "original_max_position_embeddings"
    alone = {k: v for k, v in YARN.items() if k != name}

    def trained(family, beside, inside):
        config = {**LLAMA, "model_type": family, "rope_theta": 1e6, name: beside}
        read = read_rope({**config, "rope_scaling": {**alone, name: inside}})
        said = [w for w in read.warnings if "outside" in w or "own, is used" in w]
        return read.kinds["all"].trained, len(said)

    assert trained("llama", 4096, None) == (131072, 1)
    assert trained("llama", 4096, 32768) == (32768, 1)
    assert trained("llama", 32768, 32768) == (32768, 0)
    assert trained("phi3", 8192, None) == (8192, 0)
    assert trained("phi3", 8192, 32768) == (8192, 1)
    assert trained("phi3", None, 32768) == (4096, 1)
    assert trained("phi4_multimodal", None, None) == (4096, 0)
    assert trained("of nobody", 4096, None) == (4096, 0)
    own_code = {**LLAMA, "auto_map": {}, name: 4096, "rope_scaling": alone}
    assert read_rope(own_code).kinds["all"].trained == 4096


def test_a_factor_that_two_versions_of_a_library_take_from_elsewhere_is_said():
    """``_compute_longrope_parameters`` of transformers 4.57.6 takes a ratio."""
    phi = {**LLAMA, "model_type": "phi3", "rope_theta": 1e4}
    for factor, said in ((32.0, 0), (4.0, 1)):
        read = read_rope({**phi, "rope_scaling": {**LONGROPE, "factor": factor}})
        texts = [w for w in read.warnings if "takes the ratio 32" in w]
        assert len(texts) == said
        wanted = math.sqrt(1 + math.log(factor) / math.log(4096))
        assert read.kinds["all"].attention_factor == pytest.approx(wanted)


def test_of_two_objects_the_one_that_transformers_takes_is_read():
    """``convert_rope_params_to_dict`` of transformers 5 takes ``rope_scaling``."""
    both = LLAMA_31 | {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}
    reading = read_rope(both)
    assert len(reading.warnings) == 1
    assert reading.kinds == read_rope(LLAMA_31).kinds
    names = both | {"rotary_pct": 0.5, "rope_scaling_factor": 2.0}
    assert len(read_rope(names).warnings) > 1


def test_what_is_right_is_not_warned_of():
    """No warning of any class's own configuration but of what changes with length."""
    for case in CASES.values():
        for warning in read_rope(case["config"]).warnings:
            expected = (
                *("change with the length", "not a RoPE parameter", "5 ignores"),
                "is not read",  # few names, counted in test_unread.py
                "which does not add up to the",  # nor do these classes run
            )
            assert any(text in warning for text in expected), warning


# --- Foreign and hostile

REFUSED = {
    "nothing": ({}, "the configuration is empty; give a whole config.json"),
    "other names": (
        {"a": 1, "b": 2},
        r"not recognized \(top-level keys: 'a', 'b'\); supported: Hugging Face, timm",
    ),
    "many other names": (dict.fromkeys("abcdefg"), r"keys: 'a', .*, 'f', …\); supp"),
    "no rotation": (
        {"model_type": "of nobody"},
        "no RoPE parameters: none of rope_theta",
    ),
    "no widths": ({"model_type": "llama"}, r"in this configuration \(llama\): give"),
    "no widths within": (
        {"model_type": "llava", "text_config": {"model_type": "llama"}},
        r"^the head dimension is left to the class in text_config \(llama\): give the "
        r"configuration that transformers completes, AutoConfig.from_pretrained\(",
    ),
    "a list": ([1], "`config` must be a path"),
    "no sizes": ({"rope_theta": 1e4}, "head_dim is needed"),
    "a base of text": (dict(LLAMA, rope_theta="big"), "must be a number, got 'big'"),
    "a base of 0": (dict(LLAMA, rope_theta=0), "finite and above 0, got 0"),
    "keys that are no text": ({1: "x"}, "the keys must be text, got 1"),
    "a base of NaN": (dict(LLAMA, rope_theta=math.nan), "finite and above 0, got nan"),
    "a base of 1": (dict(LLAMA, rope_theta=1), "must be above 1, got 1"),
    "true heads": (
        dict(LLAMA, rope_theta=1e4, num_attention_heads=True),
        "num_attention_heads must be a number, got True",
    ),
    "half a head": (
        dict(LLAMA, rope_theta=1e4, head_dim=64.5),
        "head_dim must be a whole number",
    ),
    "an unknown type": (
        dict(LLAMA, rope_scaling={"type": "spiral"}),
        "rope_type must be one of default, linear",
    ),
    "a type that is a list": (
        dict(LLAMA, rope_scaling={"type": ["yarn"]}),
        "must be one of default",
    ),
    "parameters that are a list": (
        dict(LLAMA, rope_parameters=[1]),
        "rope_parameters must be a JSON object, got",
    ),
    "no factor": (dict(LLAMA, rope_scaling={"type": "linear"}), "linear needs factor"),
    "a list too short": (
        dict(LLAMA)
        | {
            "rope_scaling": {
                **{"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]},
                "original_max_position_embeddings": 4096,
            }
        },
        "must be 64 numbers, one for each pair, got 1",
    ),
    "sections too many": (
        dict(LLAMA, rope_scaling={"type": "mrope", "mrope_section": [16, 24, 25]}),
        "must add up to the 64 rotated pairs, got",
    ),
    "turned about": (
        dict(LLAMA)
        | {"rope_scaling": {"type": "llama3", **SCALED, "high_freq_factor": 0.5}},
        "high_freq_factor must be at least low_freq_factor, got 0.5 and 1",
    ),
    "a share of nothing": (
        dict(LLAMA, rope_theta=1e4, partial_rotary_factor=0.01),
        "at least 2 of the 128 features of a head must be rotated, got 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_says_nothing_is_refused_with_its_place(case):
    config, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        read = read_rope(config)
        for rope in read.kinds.values():
            rope.frequencies()


MANY = 4097
SIZES = {
    "heads of ALiBi": ({"model_type": "bloom", "n_head": 2**16 + 1}, "65536 heads"),
    "heads of ALiBi, inside": (
        {"model_type": "mpt", "n_heads": 2**30, "attn_config": {"alibi": True}},
        "65536 heads",
    ),
    "heads of ALiBi, in GGUF": (
        {"general.architecture": "bloom", "bloom.attention.head_count": 2**30},
        "65536 heads",
    ),
    "types of layers": (
        {**LLAMA, "rope_theta": 1e4, "layer_types": ["full_attention"] * MANY},
        "layer_types must have at most 4096 layers, got 4,097",
    ),
    "switches of layers": (
        {**LLAMA, "rope_theta": 1e4, "no_rope_layers": [1] * MANY},
        "no_rope_layers must have at most 4096",
    ),
    "a pattern": (
        {"model_type": "nemotron_h", "hybrid_override_pattern": "M" * MANY},
        "hybrid_override_pattern must have at most 4096",
    ),
    "layers in GGUF": (
        {"general.architecture": "jamba", "jamba.attention.head_count_kv": [0] * MANY},
        "head_count_kv must have at most 4096",
    ),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes_that_would_take_minutes_or_all_memory_are_refused(case):
    config, message = SIZES[case]
    with pytest.raises(ConfigError, match=message):
        str(read_rope(config))


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(
        ["yarn", "default", "longrope", "full_attention", "llama", "1e4"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=6,
)
NAMES = sorted(
    {name for case in CASES.values() for name in case["config"]}
    & {
        *("rope_theta", "rope_parameters", "rope_scaling", "head_dim", "hidden_size"),
        *("num_attention_heads", "layer_types", "max_position_embeddings"),
        *("partial_rotary_factor", "model_type", "per_layer_config", "text_config"),
        *("original_max_position_embeddings", "no_rope_layers", "qk_rope_head_dim"),
    }
)
INNER = [
    *("rope_type", "type", "rope_theta", "factor", "short_factor", "long_factor"),
    *("mrope_section", "truncate", "mscale", "mscale_all_dim", "alpha", "beta_fast"),
    *("low_freq_factor", "high_freq_factor", "full_attention", "attention_factor"),
    *("original_max_position_embeddings", "partial_rotary_factor"),
]


WINDOWS = {"model_type": "exaone4", "sliding_window": 8, "sliding_window_pattern": 4}
PLAIN = {
    **{name: foreign for name, (foreign, _) in FOREIGN.items()},
    "timm": {
        **{"architecture": "vit_base_patch16_rope_224", "rope_type": "mrope"},
        **{"model_args": {"embed_dim": 64}, "num_heads": 2, "rope_temperature": 9.0},
        **{"rope_mrope_section": [1, 2, 3], "rope_grid_offset": 1},
    },
    "windows": {**LLAMA, **WINDOWS, "num_hidden_layers": 8, "rope_theta": 1e4},
    "others": {
        **{"encoder": LLAMA, "decoder": LLAMA_31, "rope_theta": 1.0},
        **{"model_type": "esm", "position_embedding_type": "rotary", "alibi": False},
    },
}


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(CASES)),
    st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=3),
    st.dictionaries(st.sampled_from(INNER), JUNK, max_size=3),
)
@example("afmoe.AfmoeRotaryEmbedding", {"model_type": [], "rope_parameters": None}, {})
def test_whatever_it_is_it_is_read_or_refused(name, top, inner):
    """Real configurations with junk give finite frequencies or ConfigError."""
    config = {**CASES[name]["config"], **top}
    if isinstance(config.get("rope_parameters"), dict):
        config["rope_parameters"] = {**config["rope_parameters"], **inner}
    try:
        said = as_json(read_rope(config))
    except ConfigError as error:
        assert str(error)
        return
    for rope in said["kinds"].values():
        if rope is not None:
            assert np.isfinite(rope["frequencies"]).all()
            assert (
                math.isfinite(rope["attention_factor"]) and rope["attention_factor"] > 0
            )


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(sorted(PLAIN)))
def test_other_formats_are_read_or_refused(data, name):
    """Junk replaces any of their values."""
    config = PLAIN[name]
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(config)), JUNK))
    try:
        said = as_json(read_rope({**config, **changed}))
    except ConfigError as error:
        assert str(error)
        return
    for rope in said["kinds"].values():
        assert rope is None or np.isfinite(rope["frequencies"]).all()


# --- The command


@pytest.fixture
def write(tmp_path):
    def write(text, name="config.json"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_the_command_prints_a_table(write, capsys):
    path = write(json.dumps(LLAMA_31))
    assert command(["config", path]) == 0
    printed = capsys.readouterr().out
    assert "Rotary embeddings of llama, config format: transformers 4" in printed
    assert "llama3" in printed and "500,000" in printed
    assert command(["config", str(Path(path).parent)]) == 0
    assert capsys.readouterr().out == printed


def test_the_command_speaks_to_machines(write, capsys):
    assert command(["config", write(json.dumps(LLAMA_31)), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    rope = read_rope(LLAMA_31).kinds["all"]
    assert said["kinds"]["all"]["frequencies"] == rope.frequencies().tolist()


def test_the_command_warns_and_says_so(write, capsys):
    config, text = REMARKS["another base"]
    assert command(["config", write(json.dumps(config))]) == 1
    assert f"{text}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON: it ends within an object or list, at line 1"),
        ('{"a":\n"b', "it ends within an object or list, at line 2"),
        ('{"a": 1,}', "is not JSON: Expecting property name"),
        (b"\xff\xfe\x00", "is not JSON: it is not text"),
        (b"GGUF\x03\0\0\0" + b"\xff" * 2**24, "gguf"),
        ("{}", "the configuration is empty"),
        ("[" * 10**5, "is not JSON"),
        ("3", "the file must be a JSON object, got 3"),
        ('{"rope_theta": NaN, "head_dim": 64}', "finite and above 0"),
        ('{"rope_theta": 1e999, "head_dim": 64}', "finite and above 0"),
        (b"{" + b" " * 2**24 + b"}", "must have at most 16777216 bytes"),
        (
            '{"rope_theta": 1e4, "head_dim": 2147483648}',
            "a head must have at most 65536 features",
        ),
        (
            '{"rope_theta": 1e4, "head_dim": 8, "rotary_dim": 1e9}',
            "a head must have at most",
        ),
        (
            '{"rope_theta": 1e4, "head_dim": 8, "rotary_pct": 1e300}',
            "a head must have at most",
        ),
        (
            '{"head_dim": 64, "rotary_dim": 32, "rope_parameters": {"rope_theta": 1e4, '
            '"partial_rotary_factor": NaN}}',
            "partial_rotary_factor must be finite",
        ),
        (
            '{"head_dim": 2147483648, "rope_parameters": {"rope_theta": 1e4, '
            '"rope_type": "proportional", "partial_rotary_factor": 1.7e308}}',
            "a head must have at most",
        ),
        (
            '{"rope_theta": 1e308, "head_dim": 64, "rope_scaling": {"type": "linear", '
            '"factor": 1e-310}}',
            "out of reach",
        ),
    ],
)
def test_the_command_refuses_without_a_traceback(write, capsys, text, message):
    assert command(["config", write(text)]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1 and said.out == ""
    assert said.err.count("config.json: ") == 1  # the file's name, once


@pytest.mark.parametrize(
    "text",
    ["1{}x", "{}", "1.{}x", "1e{}x"],
    ids=["x", "digits", "fraction", "exponent"],
)
def test_a_text_of_many_digits_is_answered_at_once(text):
    """A pattern that backtracks would try every division of the digits in two."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        with pytest.raises(ConfigError, match="rope_theta must be"):
            read_rope({"head_dim": 64, "rope_theta": text.format("1" * 200_000)})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_command_prints_no_orders_to_a_terminal(write):
    """Names with escapes, and halves of characters, which no stream takes."""
    name = "\x1b[31m\ud800"
    config = {"head_dim": 8, "model_type": name, "rope_scaling": {name: 1}}
    path = write(json.dumps(config | {"rope_theta": 1e4}))
    done = subprocess.run(
        [sys.executable, "-m", "posedu", "config", path], capture_output=True
    )
    assert done.returncode == 1 and done.stderr == b""
    assert rb"\x1b[31m\ud800" in done.stdout and b"\x1b" not in done.stdout


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_command_runs_without_torch_scipy_and_sympy(options, tmp_path):
    paths = [tmp_path / f"{name}.json" for name in CASES]
    for path, case in zip(paths, CASES.values(), strict=True):
        path.write_text(json.dumps(case["config"]))
    code = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(('torch', 'scipy', 'sympy'))  # not to be found\n"
        "from posedu.command import main\n"
        f"options = ['config', *{options!r}]\n"
        "assert {main([*options, path]) for path in sys.argv[1:]} == {0, 1}"
    )
    command = [sys.executable, "-c", code, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= len(paths)


def test_a_name_that_is_given_twice_is_a_warning(write, capsys):
    text = '{"head_dim": 64, "rope_theta": 1e4, "rope_theta": 5e5}'
    assert command(["config", write(text)]) == 1
    said = capsys.readouterr().out
    assert "'rope_theta' is given twice; the last is used" in said
    assert "500,000" in said
    assert (
        command(["config", write(b"\xef\xbb\xbf" + json.dumps(LLAMA_31).encode())]) == 0
    )


def test_the_command_says_that_there_is_no_file(tmp_path, capsys):
    for path, missing in (
        (tmp_path / "nothing.json", "nothing.json"),
        (tmp_path, "config.json"),
    ):
        assert command(["config", str(path)]) == 2
        said = capsys.readouterr().err
        assert said == f"{tmp_path / missing}: there is no such file\n"
