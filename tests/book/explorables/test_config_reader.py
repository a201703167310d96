"""Config reader: its script agrees with ``read_rope`` or names the command."""

import gzip
import json
import random
import re
import time

import numpy as np
import pytest

from posedu.book.explorables.config_reader import (
    EXAMPLES,
    FAMILIES,
    HEADINGS,
    _remark,
    _text,
    config_page,
    dots,
    known,
    rows,
    summary,
    training_line,
    warning_codes,
)
from posedu.tools import ConfigError, read_rope
from posedu.tools.configs import _rope_parameters, _timm, _transformers
from posedu.tools.configs.rotary_config import CODES
from support import ROOT
from support.explorables import contrast, numbers

ORACLES = ROOT / "tests/oracles"
CLASSES = json.loads(gzip.decompress((ORACLES / "rope-families.json.gz").read_bytes()))
CASES = {case["name"]: case["config"] for case in CLASSES["cases"]}
PAGE = config_page()._repr_html_()
WIDTHS = {"hidden_size": 4096, "num_attention_heads": 32}
BASE = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 4096}


def scaled(**parameters):
    return {**BASE, "rope_parameters": {"rope_theta": 1e4, **parameters}}


COMMON = {
    "default": scaled(rope_type="default"),
    "default, without a type": scaled(),
    "linear": scaled(rope_type="linear", factor=4),
    "dynamic": scaled(rope_type="dynamic", factor=2.0),
    "yarn": scaled(rope_type="yarn", factor=16.0, original_max_position_embeddings=512),
    "yarn, all numbers": scaled(
        **{"rope_type": "yarn", "factor": 8, "beta_fast": 4, "beta_slow": 2},
        **{"attention_factor": 0.5, "original_max_position_embeddings": 4096},
    ),
    "yarn, a ramp of no width": scaled(
        rope_type="yarn",
        factor=8,
        beta_fast=1,
        original_max_position_embeddings=4096,
    ),
    "yarn, two tokens": {
        **scaled(rope_type="yarn", factor=8, original_max_position_embeddings=2),
        "max_position_embeddings": 16,
    },
    "yarn, a rounded factor": scaled(
        rope_type="yarn", factor=7.93, original_max_position_embeddings=512
    ),
    "yarn, no longest text": {
        **scaled(rope_type="yarn", factor=8, original_max_position_embeddings=64),
        "max_position_embeddings": None,
    },
    "llama3": scaled(
        rope_type="llama3",
        factor=8,
        low_freq_factor=1,
        high_freq_factor=4,
        original_max_position_embeddings=512,
    ),
    "llama3, a ramp of no width": scaled(
        rope_type="llama3",
        factor=8,
        low_freq_factor=1,
        high_freq_factor=1,
        original_max_position_embeddings=128,
    ),
    "both names of the type": scaled(rope_type="linear", type="linear", factor=2),
    "no family": {"head_dim": 8, "rope_theta": 100, "rope_scaling": None},
    "an odd head": {"head_dim": 7, "rope_theta": 100},
    "a base of many digits": scaled(rope_theta=1234567.5),
    "of its family": BASE,
    "a base beside the object": {
        **{**BASE, "rope_theta": 500000.0},
        "rope_scaling": {"type": "linear", "factor": 2},
    },
    "a base in both places": {**scaled(), "rope_theta": 1e4},
    "a head from widths": {
        **{"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28},
        **{"sliding_window": 131072, "use_sliding_window": False},
    },
    "a head of its family": {"model_type": "gemma", "hidden_size": 3072},
    "no head of its family": {
        **{"model_type": "gemma", "hidden_size": 512, "num_attention_heads": 8},
        "head_dim": None,
    },
    "quantized": {
        **scaled(),
        "quantization_config": {"quant_method": "gptq", "true_sequential": True},
    },
}
"""Configurations that the page reads."""
TYPES = {
    "a factor below 1": scaled(rope_type="linear", factor=0.5),
    "yarn, no length of its own": scaled(type="yarn", factor=4),
    "yarn, a factor below 1": scaled(
        rope_type="yarn", factor=0.5, original_max_position_embeddings=4096
    ),
    "yarn, longer texts": scaled(
        rope_type="yarn", factor=4, original_max_position_embeddings=512
    ),
    "yarn, shorter texts": scaled(
        rope_type="yarn", factor=4, original_max_position_embeddings=8192
    ),
    "llama3, shorter texts": scaled(
        rope_type="llama3",
        factor=8,
        low_freq_factor=1,
        high_freq_factor=4,
        original_max_position_embeddings=8192,
    ),
    "alpha": scaled(rope_type="dynamic", alpha=1000.0, factor=1.0),
    "yarn, no factor": scaled(rope_type="yarn", original_max_position_embeddings=256),
    "yarn, whole": scaled(rope_type="yarn", factor=8, truncate=False, beta_fast=4),
    "yarn, mscale": scaled(rope_type="yarn", factor=40, mscale=1.0, mscale_all_dim=0.7),
    "longrope": scaled(
        rope_type="longrope",
        short_factor=[1.0] * 32,
        long_factor=[2.0] * 32,
        original_max_position_embeddings=1024,
    ),
    "proportional": scaled(rope_type="proportional", partial_rotary_factor=0.25),
    "partial": {**BASE, "rotary_pct": 0.25, "rotary_emb_base": 10000},
    "text for numbers": scaled(rope_type="linear", factor="4.0", rope_theta="1e6"),
    "both": {
        **scaled(rope_type="linear", factor=4.0),
        "rope_scaling": {"type": "linear", "factor": 2.0},
        "rope_theta": 500000.0,
    },
    "two bases": {**scaled(), "rope_theta": 500000.0},
    "two types, unknown names": scaled(type="su", rope_type="default", fact=3),
    "mrope": scaled(type="mrope", mrope_section=[8, 12, 12]),
    "interleaved": scaled(mrope_section=[8, 12, 12], mrope_interleaved=True),
    "inside": {"text_config": scaled(), "vision_config": {**BASE, "rope_theta": 100.0}},
    "beside": {
        **scaled(full={"rope_theta": 10.0}),
        "layer_types": ["full", "full"],
    },
    "family": {"model_type": "apertus", "head_dim": 64, "rope_parameters": {}},
    "switches": {**scaled(), "no_rope_layers": [1, 1, 0]},
    "switches, filled in": {**scaled(), "no_rope_layers": []},
    "an interval": {
        **scaled(),
        **{"no_rope_layer_interval": 4, "num_hidden_layers": 8},
    },
    "width": {**scaled(), "rotary_dim": 32},
    "latent": {
        **scaled(rope_type="yarn", factor=40, mscale=1.0, mscale_all_dim=0.7),
        "qk_rope_head_dim": 64,
    },
    "latent, plain": {
        **scaled(rope_type="yarn", factor=40, mscale=1.0, mscale_all_dim=0.7),
        **{"qk_rope_head_dim": 64, "model_type": "kimi_linear"},
    },
    "a family that is none": {**scaled(), "model_type": ["llama"]},
    "no kind rotates": {
        **BASE,
        "layer_types": ["full"],
        "rope_parameters": {"full": None},
    },
    "its base in code": {"model_type": "gptj", "n_embd": 4096, "n_head": 16},
    "windows": {
        **{"model_type": "cohere2", "head_dim": 64, "rope_theta": 1e4},
        **{"sliding_window": 8, "sliding_window_pattern": 4, "n_layers": 8},
    },
    "windows in letters": {
        **{"model_type": "exaone4", "head_dim": 64, "rope_theta": 1e4},
        **{"sliding_window": 8, "sliding_window_pattern": "LLG", "num_layers": 6},
    },
    "no window": {
        **{"model_type": "exaone4", "head_dim": 64, "rope_theta": 1e4},
        "layer_types": ["full_attention"] * 2,
    },
    "of tables": {
        **{"model_type": "esm", "head_dim": 64, "rope_theta": 1e4},
        "position_embedding_type": "absolute",
    },
    "of a bias": {**BASE, "model_type": "falcon", "alibi": True},
    "two sides": {"encoder": scaled(), "decoder": {**BASE, "rope_theta": 100.0}},
    "beside parts": {"rope_theta": 10.0, "text_config": scaled()},
    "axes of a family": {"model_type": "dinov3_vit", "head_dim": 64, "rope_theta": 100},
    "a base of layers with a window": {
        **{"model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 8},
        **{"rope_theta": 1e6, "rope_local_base_freq": 5000, "rope_scaling": None},
    },
    "two bases of a family": {
        **{"model_type": "gemma3", "rope_theta": 5.0},
        "text_config": {"sliding_window": 8, "num_hidden_layers": 7},
    },
    "a text of another type": {
        "model_type": "gemma3",
        "text_config": {**BASE, "rope_theta": 5.0},
    },
    "a flat file": {
        **{"model_type": "qwen2_vl", "hidden_size": 512, "num_attention_heads": 8},
        "vision_config": {"model_type": "qwen2_vl", "rope_theta": 10.0, "head_dim": 8},
    },
    "no pattern of its family": {
        **{"model_type": "cohere2", "head_dim": 64, "sliding_window": 8},
        **{"num_hidden_layers": 8, "sliding_window_pattern": None},
    },
    "neighbors of a family": {"model_type": "deepseek_v3", "qk_rope_head_dim": 64},
    "temperature": scaled(
        llama_4_scaling_beta=0.1, original_max_position_embeddings=8192
    ),
}
"""Configurations that only Python reads."""
REFUSED = {
    "nothing known": {"a": 1, "b": "two"},
    "more keys than are shown": dict.fromkeys("abcdefg", 1),
    "an empty object": {},
    "nothing of a family that is none": {"model_type": "of nobody"},
    "no widths": {"model_type": "llama"},
    "no widths within": {
        **{"model_type": "llava", "text_config": {"model_type": "llama"}},
        "vision_config": {"model_type": "pixtral"},
    },
    "no widths within, of no type": {"model_type": "qwen2_vl", "text_config": {}},
    "no head": {"rope_theta": 1e4},
    "type": scaled(rope_type="warp"),
    "a type that every object has": scaled(rope_type="constructor"),
    "not an object": {**BASE, "rope_scaling": "yarn"},
    "no number": scaled(rope_type="linear", factor="four"),
    "true": scaled(rope_type="linear", factor=True),
    "zero": scaled(rope_type="linear", factor=0),
    "missing": scaled(rope_type="llama3", factor=8.0),
    "order": scaled(
        rope_type="llama3", factor=8, low_freq_factor=4, high_freq_factor=1
    ),
    "beta": scaled(rope_type="yarn", factor=2, beta_fast=1, beta_slow=32),
    "truncate": scaled(rope_type="yarn", factor=2, truncate="no"),
    "list": scaled(rope_type="longrope", short_factor=3, long_factor=[1]),
    "short list": scaled(rope_type="longrope", short_factor=[1.0], long_factor=[1.0]),
    "sections": scaled(mrope_section=[1, 2, 3]),
    "whole": {**scaled(), "head_dim": 12.5},
    "one feature": {**scaled(), "head_dim": 1},
    "base 1": scaled(rope_theta=1),
    "share": scaled(rope_type="proportional", partial_rotary_factor=2.5),
    "no attention factor": scaled(
        rope_type="yarn", factor=1e300, mscale=1e307, mscale_all_dim=1e307
    ),
    "latent, out of reach": {
        **scaled(rope_type="yarn", factor=2, mscale_all_dim=1e200),
        "qk_rope_head_dim": 64,
    },
    "wide": {**scaled(), "head_dim": 2**31},
    "a wide part": {**scaled(), "rotary_pct": 1e300},
    "digits of another script": scaled(rope_theta="١٢٣٤"),
    "digits in groups": scaled(rope_theta="10_000"),
    "a word for a number": scaled(rope_theta="inf"),
    "signs": scaled(rope_theta='a\n"\\b"'),
    "huge": scaled(rope_theta=1e308, rope_type="linear", factor=1e-310),
    "no length": {
        "head_dim": 64,
        "rope_scaling": {"type": "yarn", "factor": 2},
        "rope_theta": 1e4,
    },
}
"""Configurations that nothing reads."""
FOREIGN = {
    "no rotation": {"model_type": "bert"},
    "GGUF": {
        **{**scaled(), "general.architecture": "llama"},
        **{"llama.embedding_length": 2048, "llama.attention.head_count": 32},
    },
    "Meta": {"dim": 4096, "n_heads": 32, "rope_theta": 5e5, "head_dim": 128},
    "Megatron": {"rotary_base": 1e4, "hidden_size": 4096, "num_attention_heads": 32},
    "NeoX": {"rotary-pct": 0.25, "hidden_size": 64, "num_attention_heads": 1},
    "ChatGLM": {**scaled(), **WIDTHS, "model_type": "chatglm"},
    "ChatGLM, by its ratio": {**scaled(), **WIDTHS, "rope_ratio": 50},
    "timm": {
        **{**scaled(), "architecture": "vit_base_patch16_rope_224"},
        "pretrained_cfg": {},
    },
    "diffusers": {**scaled(), "axes_dims": [16, 24, 24]},
}
READ = """([configs, known]) => configs.map((config) => {
  try { return posedu.readRope(config, known); } catch (e) { return e.message; }
})"""
COMMAND = "posedu config config.json"
SHOWN = {f"example {name}": config for name, (_, config) in EXAMPLES.items()}
SOURCES = [CASES, COMMON, TYPES, REFUSED, FOREIGN, SHOWN]
EVERY = {name: config for source in SOURCES for name, config in source.items()}
READ_HERE = {
    *COMMON,
    *SHOWN,
    *(
        name
        for name, config in CASES.items()
        if config["model_type"] in FAMILIES and not config.get("layer_types")
    ),
}


@pytest.fixture
def in_page(open_page):
    """A function from configurations to the page's readings or error messages."""
    tables = json.loads(json.dumps(known()))

    def read(configs, fragment=PAGE):
        found = open_page(fragment).evaluate(READ, [[*configs.values()], tables])
        return dict(zip(configs, found, strict=True))

    return read


def difference(found, config):
    """The first difference of the page's reading from Python's."""
    if not isinstance(found, dict):
        return found
    reading = read_rope(config)
    if [*reading.kinds] != ["all"] or reading.layers or reading.temperature:
        return "kinds of layers"
    rope = reading.kinds["all"]
    if rope is None or rope.width != rope.head_dim or rope.sections:
        return "rotated pairs"
    expected = {
        "format": reading.format,
        "family": reading.family,
        "method": rope.method,
        "base": rope.base,
        "head_dim": rope.head_dim,
        "trained": rope.trained or rope.longest,
        "layout": rope.layout,
        "remarks": [*map(str, reading.remarks)],
    }
    for key, value in expected.items():
        if found[key] != value:
            return key
    if found["attention_factor"] != pytest.approx(rope.attention_factor, rel=1e-15):
        return "attention factor"
    frequencies = rope.frequencies()
    if np.shape(found["frequencies"]) != frequencies.shape or not np.allclose(
        found["frequencies"], frequencies, rtol=1e-13, atol=0
    ):
        return "frequencies"
    return "softmax" if rope.softmax != 1 else None


def test_the_page_reads_common_configurations_as_python_does(in_page):
    """Configurations are those of all rotary classes of transformers, and others."""
    assert len(EVERY) == sum(map(len, SOURCES)) > 300
    assert len(READ_HERE & {*CASES}) >= 12
    for name, found in in_page(EVERY).items():
        if name in READ_HERE:
            assert difference(found, EVERY[name]) is None, name
        else:
            assert isinstance(found, str) and COMMAND in found, name


def test_what_the_page_does_not_read_is_refused_by_python_or_needs_more():
    for name in REFUSED:
        with pytest.raises(ConfigError):
            [rope.frequencies() for rope in read_rope(REFUSED[name]).kinds.values()]
    for name in {**TYPES, **FOREIGN}:
        assert read_rope(EVERY[name]), name


def test_the_families_of_the_page_rotate_whole_heads_alike():
    """Their classes fill in no width, second base or pattern that the page lacks."""
    found = set()
    for config in CASES.values():
        if config["model_type"] in FAMILIES:
            reading = read_rope(config)
            (rope,) = reading.kinds.values()
            assert rope.method == "default" and not rope.sections
            assert rope.width == rope.head_dim and not reading.remarks
            found.add(config["model_type"])
    assert found == {*FAMILIES}


POSITIONAL = sorted(
    {
        *_rope_parameters.KNOWN,
        *(*_transformers.BASES, *_transformers.LOCAL_BASES, *_transformers.SHARES),
        *(*_transformers.WIDTHS, *_timm.OWN, "axes_dims_rope", "rope_axes_dim"),
        *("qk_rope_head_dim", "layer_types", "per_layer_config", "layer_rope_theta"),
        *("no_rope_layers", "nope_layer_interval", "attn_temperature_tuning", "alibi"),
        *("sliding_window_pattern", "position_embedding_type", "global_rope_theta"),
        *(
            "rope_interleave",
            "rope_ratio",
            "initial_context_length",
            "rope_adjustments",
        ),
        *("rope_scaling_factor", "rotary_percentage", "rope_condense_ratio", "yarn"),
        *("rotary_emb_fraction", "rotary_emb_interleaved", "rotary_emb_scale_base"),
        *("use_dynamic_ntk", "swa_rope_theta", "compress_rope_theta", "rope_3d"),
        *("global_head_dim", "use_mem_rope", "rope_traditional", "llama_4_scaling"),
        *(
            "rotary_scaling_factor",
            "yarn_factor",
            "position_embeddings_type",
            "seq_len",
        ),
        *("use_logn_attn", "attention_chunk_size", "mscale_all", "n_positions"),
        *("relative_attention_num_buckets", "embed_dim", "kv_channels", "max_seq_len"),
    }
    - {"rope_theta", "max_position_embeddings", "rope_type", "type", "factor", "alpha"}
    - {"high_freq_factor", "low_freq_factor", "long_factor", "short_factor", "truncate"}
    - {"beta_fast", "beta_slow", "attention_factor"}
)
"""Names that concern positions wherever they stand."""


@pytest.mark.parametrize("place", ["beside", "within", "in a part", "in a list"])
def test_no_key_that_concerns_positions_is_ignored(in_page, place):
    put = {
        "beside": lambda name: {**scaled(), name: 1},
        "within": lambda name: scaled(**{name: 1}),
        "in a part": lambda name: {**scaled(), "text_config": {name: 1}},
        "in a list": lambda name: {**scaled(), "parts": [{"a": {name: 1}}]},
    }[place]
    for name, found in in_page({name: put(name) for name in POSITIONAL}).items():
        assert isinstance(found, str) and COMMAND in found, name
    beside = in_page({"no positions": put("rms_norm_eps")})["no positions"]
    assert isinstance(beside, str) == (place == "within")


def made_up(draws):
    """A configuration whose keys and values are drawn from those of real ones."""
    values = [1, 2.0, 4, 0.5, 32, 512, 4096, 1e4, 1e6, 0, -1, None, True, "4", [8], {}]
    names = [*_rope_parameters.KNOWN - {"alpha"}, "factor", "factor", "fact"]
    rope = {
        "rope_type": draws.choice(
            [*_rope_parameters.METHODS, "default", None, ["yarn"]]
        ),
        "factor": draws.choice([2.0, 4]),
        **{
            draws.choice(names): draws.choice(values) for _ in range(draws.randrange(4))
        },
    }
    if draws.random() < 0.6:  # A complete object of one type
        rope = dict(draws.choice([*COMMON.values()]).get("rope_parameters") or {})
        for name in draws.sample([*rope], min(len(rope), draws.randrange(2))):
            rope[name] = draws.choice(values)
    config = {
        **BASE,
        draws.choice(["rope_parameters", "rope_scaling"]): rope,
        draws.choice(["rope_theta", "head_dim", "hidden_size"]): draws.choice(values),
    }
    config["model_type"] = draws.choice([*FAMILIES, "phi", "gemma3_text", "new"])
    if draws.random() < 0.3:
        del config[draws.choice([*config])]
    return config


def test_a_made_up_configuration_is_read_as_by_python_or_not_at_all(in_page):
    draws = random.Random(1)
    configs = {n: made_up(draws) for n in range(3000)}
    read = {n: f for n, f in in_page(configs).items() if not isinstance(f, str)}
    assert 300 < len(read) < 2700
    for n, found in read.items():
        assert difference(found, configs[n]) is None, configs[n]


MUTANTS = {
    "the ramp ends inwards": (
        "[Math.floor(pairOf(fast)), Math.ceil(pairOf(slow))]",
        "[pairOf(fast), pairOf(slow)]",
    ),
    "the attention factor squared": ("growth + 1)", "(growth + 1) ** 2)"),
    "factors below 1": ("if (factor < 1)", "if (false)"),
    "lengths that do not fit": ("trained > longest || longest > reach", "false"),
    "training beyond the longest text": ("trained > longest || ", ""),
    "texts beyond the factor": (" || longest > reach", ""),
    "a ramp of no width": ("high += 0.001", "high += 2"),
    "the slow pairs kept": ("(1 - gamma[p]) * w / s", "(1 - gamma[p]) * w"),
    "the bounds of llama3 swapped": (
        '[value("high_freq_factor"), value("low_freq_factor")]',
        '[value("low_freq_factor"), value("high_freq_factor")]',
    ),
    "the family's base forgotten": ("config.rope_theta ?? family.base", "10000"),
    "the family's width forgotten": ("return family.head_dim;", "return 128;"),
    "pairs of whole indices": ("Math.ceil(headDim / 2)", "Math.floor(headDim / 2)"),
    "other keys ignored": ("    requireNoOtherKey(config);", ""),
    "other parameters ignored": ("if (other !== undefined)", "if (false)"),
    "another base ignored": ("&& base !== beside", "&& false"),
    "any model type": (": refer(`the model_type", ": {}; (`the model_type"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_of_the_script_is_noticed(in_page, mutant):
    right, wrong = MUTANTS[mutant]
    assert PAGE.count(right) == 1
    found = in_page(EVERY, PAGE.replace(right, wrong))
    read = {name for name, reading in found.items() if not isinstance(reading, str)}
    assert read != READ_HERE or any(difference(found[n], EVERY[n]) for n in READ_HERE)


@pytest.mark.parametrize("name", ["rope_theta", "factor"])
def test_a_text_of_many_digits_is_answered_at_once(in_page, name):
    config = scaled(rope_type="linear", factor=4) | {name: "1" * 200_000 + "x"}
    config["rope_parameters"][name] = config[name]
    start = time.perf_counter()
    (found,) = in_page({"digits": config}).values()
    assert COMMAND in found and len(found) < 1000
    assert time.perf_counter() - start < 5


# --- What a reader sees


def shown(page):
    return {
        "summary": page.locator(".summary").inner_text(),
        "rows": [
            row.locator("th, td").all_inner_texts()
            for row in page.locator("tbody tr").all()
        ],
        "remarks": page.locator("li").all_inner_texts(),
        "paths": [
            page.locator(f"path.{name}").get_attribute("d") or ""
            for name in ("pairs", "unscaled", "length")
        ],
    }


def test_a_warning_links_to_the_meaning_of_its_code(open_page):
    page, reading = open_page(PAGE), read_rope(EXAMPLES["dynamic"][1])
    page.locator("select").select_option("dynamic")
    target = page.locator("li a").get_attribute("href")
    (static,) = (re.search(r'href="(.*?)"', _remark(r))[1] for r in reading.remarks)
    assert target == static == "command.html#code-stale-keys"
    shown = warning_codes()._repr_html_()
    assert re.findall(r'<tr id="code-([\w-]+)"><td>\1</td>', shown) == [*CODES]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_what_python_says(open_page, name):
    page, reading = open_page(PAGE), read_rope(EXAMPLES[name][1])
    page.locator("select").select_option(name)
    assert page.locator("textarea").input_value() == _text(name)
    seen = shown(page)
    assert seen["summary"] == summary(reading)
    assert seen["rows"] == rows(reading)
    assert seen["remarks"] == [*map(str, reading.remarks)]
    rope = reading.kinds["all"]
    drawn = dots(rope.frequencies()), dots(rope.unscaled()), training_line(rope)
    for path, expected in zip(seen["paths"], drawn, strict=True):
        np.testing.assert_allclose(numbers(path), numbers(expected), atol=0.11)
    text = page.locator("pre").text_content()
    found = [float(n) for n in text.split()]
    np.testing.assert_allclose(found, rope.frequencies(), rtol=1e-13)


SHOW = """(configs) => {
  const text = document.querySelector("textarea");
  return configs.map((config) => {
    text.value = JSON.stringify(config);
    text.dispatchEvent(new Event("input"));
    return [
      document.querySelector(".summary").textContent,
      [...document.querySelectorAll("tbody tr > *")].map((cell) => cell.textContent),
      document.querySelector("path.pairs").getAttribute("d"),
    ];
  });
}"""


def test_whatever_is_pasted_the_table_is_that_of_python(open_page):
    found = open_page(PAGE).evaluate(SHOW, [*EVERY.values()])
    for name, (sentence, cells, path) in zip(EVERY, found, strict=True):
        if name not in READ_HERE:
            assert sentence.startswith("Not read: ") and COMMAND in sentence, name
            assert cells == [] and path == "", name
            continue
        reading = read_rope(EVERY[name])
        assert (sentence, [cells]) == (summary(reading), rows(reading)), name
        drawn = numbers(dots(reading.kinds["all"].frequencies()))
        np.testing.assert_allclose(numbers(path), drawn, atol=0.11)


def test_without_scripts_the_first_example_stands(open_page):
    page = open_page(PAGE, java_script_enabled=False)
    (_, config), *_ = EXAMPLES.values()
    seen = shown(page)
    assert seen["rows"] == rows(read_rope(config)) and seen["summary"]
    assert not page.locator("textarea").is_visible()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "NaN", '{"rope_theta": 1e999}', "[" * 100_000),
        '{"a_config":' * 5000 + '{"rope_theta": 1}' + "}" * 5000,
        json.dumps(scaled(**{f"k{n}": {"rope_theta": 5} for n in range(2000)})),
    ],
    ids=["empty", "cut", "list", "null", "NaN", "infinite", "deep", "parts", "kinds"],
)
def test_junk_is_answered_in_words(open_page, text):
    """The error message replaces everything that was read before."""
    page = open_page(PAGE)
    page.locator("textarea").fill(text)
    seen = shown(page)
    assert seen["summary"].startswith("Not read: ")
    assert "stack" not in seen["summary"]
    assert seen["rows"] == [[]] and seen["remarks"] == []
    assert seen["paths"] == ["", "", ""]


@pytest.mark.parametrize("name", ["rope_<img src=x onerror=alert(1)>", "__proto__"])
def test_names_from_a_configuration_are_text(open_page, name):
    """They are neither markup, which would run, nor prototypes of objects."""
    page = open_page(PAGE)
    page.locator("textarea").fill(json.dumps(scaled(**{name: 1})))
    assert name in shown(page)["summary"]
    assert page.locator("figure img").count() == 0


def test_everything_is_reached_by_keyboard(open_page):
    page = open_page(PAGE)
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.tagName"))
    assert reached == ["SELECT", "TEXTAREA", "DIV", "SUMMARY"]  # The table scrolls.
    page.locator("textarea").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type('{"head_dim": 8, "rope_theta": 100}')
    assert page.locator(".summary").inner_text().startswith("Format: transformers 4")


@pytest.mark.parametrize("name", ["llama3", "dynamic"])
@pytest.mark.parametrize("width", [320, 390, 600, 1280])
def test_the_table_is_seen_whole_with_its_headings(open_page, width, name):
    """A narrow screen shows a list with a heading next to each value."""
    page = open_page(PAGE, width=width)
    page.locator("select").select_option(name)
    box = page.locator(".rope")
    assert box.evaluate("e => e.scrollWidth <= e.clientWidth")
    for cell in page.locator("tbody td").all():
        beside = cell.evaluate("e => getComputedStyle(e, '::before').content")
        heads = page.locator("thead").is_visible()
        assert beside == ("none" if heads else f'"{cell.get_attribute("data-head")}"')
    heads = page.locator("tbody tr").first.locator("td").all()
    assert [cell.get_attribute("data-head") for cell in heads] == [*HEADINGS[1:]]


def test_a_narrow_table_without_scripts_has_its_headings(open_page):
    page = open_page(PAGE, width=390, java_script_enabled=False)
    cells = page.locator("tbody tr").first.locator("td").all()
    assert [cell.get_attribute("data-head") for cell in cells] == [*HEADINGS[1:]]


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_and_is_legible(open_page, width, theme):
    page = open_page(PAGE, width=width, color_scheme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    plot = page.locator("svg.plot").bounding_box()
    for text in page.locator("svg text").all():
        box = text.bounding_box()
        right = plot["x"] + plot["width"]
        assert plot["x"] <= box["x"] and box["x"] + box["width"] <= right
    page_color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for path in page.locator("svg path").all():
        ink = path.evaluate("e => getComputedStyle(e).stroke")
        assert contrast(ink, page_color) >= 3
    for place in ("td", "th", ".summary", "textarea", "svg text"):
        style = "fill" if place == "svg text" else "color"
        first = page.locator(place).first
        behind = page_color
        if place == "textarea":
            behind = first.evaluate("e => getComputedStyle(e).backgroundColor")
        ink = first.evaluate(f"e => getComputedStyle(e).{style}")
        assert contrast(ink, behind) >= 4.5, place
