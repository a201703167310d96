"""GGUF metadata and files: read as llama.cpp computes rotations from them.

The expected numbers are computed here a second time, in the order of llama.cpp's own
code (``llama-context.cpp``, ``rope_yarn`` in ggml).
"""

import importlib.util
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posedu.tools import ConfigError, read_rope, write_rope
from posedu.tools.configs._gguf import architectures
from posedu.tools.configs.rotary_config import as_json

needs_gguf = pytest.mark.skipif(
    importlib.util.find_spec("gguf") is None,
    reason="the package gguf is not installed: pip install posedu[gguf]",
)
DATA = json.loads(
    (Path(__file__).parents[3] / "posedu/tools/configs/gguf.json").read_text("utf-8")
)
KEYS = {"layout", "order", "when", "reads", "window", "unrotated", "factors"}
KEYS |= {"temperature", "latent", "softmax", "one_mscale", "beta_fast"}
KEYS |= {"log_multiplier", "own", "encodings"}
LLAMA_31 = {
    **{"model_type": "llama", "head_dim": 128, "max_position_embeddings": 131072},
    "rope_theta": 500000.0,
    "rope_scaling": {
        **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0},
        **{"high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    },
}


YARN = {
    **{"rope__scaling__type": "yarn", "rope__scaling__factor": 16.0},
    **{"attention__sliding_window": 512, "block_count": 12},
}


def metadata(family, **values):
    """Metadata of heads of 64 features; dots are written ``__``."""
    own = {"attention.key_length": 64, "context_length": 4096, "rope.freq_base": 1e4}
    own |= {name.replace("__", "."): value for name, value in values.items()}
    full = {f"{family}.{name}": v for name, v in own.items() if v is not None}
    return {"general.architecture": family, **full}


def warnings(reading):
    return [(r.code, r.text) for r in reading.remarks if r.code]


# --- What llama.cpp does, by architecture


def test_every_architecture_has_a_record():
    assert [*DATA["made"]] == ["llama-cpp-python"]
    assert len(DATA["architectures"]) > 130
    for name, record in DATA["architectures"].items():
        assert {*record} <= KEYS, name
        assert record["layout"] in ("half", "interleaved", None)
        assert ("reads" in record) == (record["layout"] is not None)
        assert "encodings" not in record or record["layout"] is None
        assert record.get("order") in (None, "sectioned", "interleaved")
        assert record.get("factors") in (None, "all", "full")
        assert record.get("window", {}).get("scaling") in (
            None,
            "file",
            "none",
            "plain",
        )


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        *(
            (name, "interleaved")
            for name in ("llama", "glm4", "command-r", "deepseek2")
        ),
        *((name, "half") for name in ("qwen2", "gemma3", "phi3", "gpt-oss", "falcon")),
        *((name, None) for name in ("gpt2", "bloom", "mpt", "bert", "starcoder", "t5")),
    ],
)
def test_layouts(name, layout):
    reading = read_rope(metadata(name))
    rope = reading.kinds["all"]
    assert (rope and rope.layout) == layout
    assert warnings(reading) == []
    if layout is None:
        assert reading.kinds == {"all": None}
        assert "rotates nothing" in reading.remarks[0].text


@pytest.mark.parametrize(
    ("family", "values", "order"),
    [
        ("gpt2", {}, "a learned vector for each of 4,096 positions"),
        ("gpt2", {"context_length": None}, "a learned vector for each position"),
        ("bloom", {"attention__head_count": 4}, "ALiBi with the slopes 0.25, 0.0625"),
        ("refact", {}, "ALiBi"),
        ("mpt", {"attention__max_alibi_bias": 16.0}, "ALiBi"),
        ("mpt", {"attention__max_alibi_bias": 0.0}, ""),
        ("mpt", {}, ""),
        (
            "t5",
            {"attention__relative_buckets_count": 16},
            "T5's bias of scores, 16 buckets up to distance 128",
        ),
        ("t5encoder", {}, ""),
        ("mamba2", {}, "convolution or recurrence, without attention"),
        ("jamba", {}, "layers of convolution or recurrence between those of attention"),
        ("wavtokenizer-dec", {}, ""),
    ],
)
def test_without_rotation_it_says_where_the_order_comes_from(family, values, order):
    reading = read_rope(metadata(family, **values))
    assert not reading.is_rotated and warnings(reading) == []
    assert reading.order.startswith(order) and bool(reading.order) == bool(order)


def test_numbers_of_other_encodings_have_their_types():
    given = metadata("bloom", attention__head_count="many")
    assert read_rope(given).order == "ALiBi"
    for name, value in (
        ("mpt.attention.max_alibi_bias", -1.0),
        ("t5.attention.relative_buckets_count", 2.5),
    ):
        family, _, key = name.partition(".")
        with pytest.raises(ConfigError, match=name):
            read_rope(metadata(family, **{key.replace(".", "__"): value}))


def test_some_values_of_the_records():
    of = architectures()
    assert of["qwen2vl"]["order"] == "sectioned"
    assert of["qwen3vl"]["order"] == "interleaved"
    assert of["gemma3"]["window"]["base"] == ["rope.freq_base_swa", 10000.0]
    assert of["gemma3"]["window"]["scaling"] == "none"
    assert of["gemma2"]["window"]["base"] == ["rope.freq_base_swa", "rope.freq_base"]
    assert of["gemma2"]["window"]["scaling"] == "file"
    assert of["olmo2"]["window"]["scaling"] == "plain"
    assert of["gemma4"]["factors"] == "full" and of["llama"]["factors"] == "all"
    assert {n for n, r in of.items() if "own" in r} == {
        *("cogvlm", "deepseek2-ocr", "deepseek4", "dflash", "plamo", "step35")
    }
    assert {n for n, r in of.items() if "one_mscale" in r} == {"deepseek2"}
    assert {n for n, r in of.items() if "beta_fast" in r} == {"grok"}


def test_an_unknown_architecture_is_a_warning():
    reading = read_rope(metadata("of-nobody"))
    ((code, text),) = warnings(reading)
    assert code == "unknown-type" and "'of-nobody' is not an architecture" in text
    assert reading.kinds["all"].layout == ""
    ((code, _),) = warnings(read_rope(metadata("step35", attention__sliding_window=0)))
    assert code == "built-in-numbers"


# --- Frequencies and amplitudes


def of_ggml(given, *, width=64, reads=(), multiplier=1.0, fast=32.0, one_mscale=False):
    """Frequencies, amplitude and scale of scores of latent attention, as in C."""

    def get(name, default):
        return given.get(name, default) if name in reads else default

    kind = given.get("rope.scaling.type", "linear")
    factor = given.get("rope.scaling.factor", given.get("rope.scale_linear", 0))
    freq_scale = 1.0 if factor == 0 or kind == "none" else 1 / factor
    ext = get("rope.scaling.yarn_ext_factor", -1)
    if ext < 0:
        ext = float(kind == "yarn")
    attn = get("rope.scaling.yarn_attn_factor", 1.0)
    all_dims = get("rope.scaling.yarn_log_multiplier", 0.0) / multiplier
    if ext != 0:
        scale = 1 / freq_scale

        def mscale(m):
            return 1.0 if scale <= 1 else 0.1 * m * math.log(scale) + 1

        if all_dims != 0:
            same = one_mscale and all_dims != 1
            attn = mscale(all_dims if same else 1.0) / mscale(all_dims)
        else:
            attn = mscale(1.0)
        attn *= 1 / (1 + 0.1 * math.log(scale))
    attn *= given.get("rope.scaling.attn_factor", 1.0)
    base = given.get("rope.freq_base", 1e4)
    trained = given.get("rope.scaling.original_context_length", 4096)
    fast = get("rope.scaling.yarn_beta_fast", fast)
    slow = get("rope.scaling.yarn_beta_slow", 1.0)

    def corr_dim(turns):
        return width * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(0, math.floor(corr_dim(fast)))
    high = min(width - 1, math.ceil(corr_dim(slow)))
    found = []
    for pair in range(width // 2):
        extrapolated = base ** (-2 * pair / width)
        theta = interpolated = freq_scale * extrapolated
        if ext != 0:
            y = (pair - low) / max(0.001, high - low)
            mix = (1 - min(1, max(0, y))) * ext
            theta = interpolated * (1 - mix) + extrapolated * mix
        found.append(theta)
    growth = 1 + 0.1 * math.log(1 / freq_scale)
    scores = attn * growth * (1 + 0.1 * all_dims * math.log(1 / freq_scale))
    return np.array(found), attn * (growth if ext else 1), scores**2


def factors(least, most):
    return st.floats(least, most, allow_subnormal=False)


BETAS = ("rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow")
LOG = "rope.scaling.yarn_log_multiplier"
EXT = "rope.scaling.yarn_ext_factor"
READERS = {
    "llama": {},
    "grok": {
        "reads": (*(*BETAS, EXT, "rope.scaling.yarn_attn_factor"),),
        "fast": 8.0,
    },
    "mistral3": {"reads": (*BETAS, LOG)},
    "deepseek2": {"reads": (LOG,), "multiplier": 0.1, "one_mscale": True},
    "deepseek32": {"reads": (LOG,), "multiplier": 0.1},
}


def require_ggml(family, values):
    """Read ``values`` as metadata of ``family``, and compare with what is computed."""
    own = {name.replace(".", "__"): value for name, value in values.items()}
    reading = read_rope(metadata(family, rope__dimension_count=64, **own))
    rope = reading.kinds["all"]
    frequencies, amplitude, scores = of_ggml(values, **READERS[family])
    np.testing.assert_allclose(rope.frequencies(), frequencies, rtol=1e-12)
    assert math.isclose(rope.attention_factor, amplitude, rel_tol=1e-12)
    latent = family.startswith("deepseek")
    assert math.isclose(rope.softmax, scores if latent else 1, rel_tol=1e-12)
    return reading


@pytest.mark.parametrize("family", READERS)
@given(
    values=st.fixed_dictionaries(
        {
            "rope.freq_base": factors(1e3, 1e7),
            "rope.scaling.type": st.sampled_from(["yarn", "yarn", "none", "linear"]),
            "rope.scaling.factor": st.one_of(factors(1, 64), st.just(0.0)),
            "rope.scaling.attn_factor": factors(0.5, 2),
        },
        optional={
            "rope.scale_linear": factors(1, 64),
            "rope.scaling.original_context_length": st.integers(512, 2**18),
            BETAS[0]: factors(4, 64),
            BETAS[1]: factors(0.5, 2),
            EXT: st.sampled_from([-1.0, 0.0, 1.0]),
            "rope.scaling.yarn_attn_factor": factors(0.5, 2),
            LOG: factors(0.05, 1.5),
        },
    ),
)
def test_frequencies_and_amplitudes_are_those_of_ggml(family, values):
    reading = require_ggml(family, values)
    texts = " ".join(text for _, text in warnings(reading))
    for name in values:
        if "yarn" in name and name not in READERS[family].get("reads", ()):
            if values[name] in (-1.0, 1.0, 32.0):
                continue
            assert f"{family}.{name} is ignored" in texts


YARN_BY_4 = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("grok", {}),
        ("grok", {EXT: 0.0}),
        ("grok", {EXT: 1.0, "rope.scaling.type": "linear"}),
        ("grok", {EXT: 0.0, "rope.scaling.yarn_attn_factor": 0.5}),
        ("llama", {"rope.scaling.factor": 0.5}),
        ("mistral3", {LOG: 1.0}),
        ("mistral3", {LOG: 1.0, "rope.scaling.factor": 0.5}),
        ("deepseek2", {LOG: 0.0707}),
        ("deepseek32", {LOG: 0.0707}),
    ],
)
def test_cases_of_yarn(family, values):
    require_ggml(family, YARN_BY_4 | values)


def test_values_of_published_files():
    """A factor without a type is linear; DeepSeek-V3 has YaRN without amplitude."""
    linear = read_rope(metadata("llama", rope__scaling__factor=4.0)).kinds["all"]
    assert (linear.method, linear.options) == ("linear", {"factor": 4.0})
    old = read_rope(metadata("llama", rope__scale_linear=4.0)).kinds["all"]
    assert old == linear
    deepseek = read_rope(
        metadata(
            "deepseek2",
            **{"attention__key_length": 576, "attention__key_length_mla": 192},
            **{"rope__dimension_count": 64, "rope__scaling__type": "yarn"},
            **{
                "rope__scaling__factor": 40.0,
                "rope__scaling__yarn_log_multiplier": 0.1,
            },
            rope__scaling__original_context_length=4096,
        )
    )
    same = read_rope(
        {
            **{"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_theta": 1e4},
            **{"max_position_embeddings": 4096, "hidden_size": 7168},
            "num_attention_heads": 128,
            "rope_scaling": {
                **{"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0},
                "original_max_position_embeddings": 4096,
            },
        }
    )
    one, other = deepseek.kinds["all"], same.kinds["all"]
    np.testing.assert_allclose(one.frequencies(), other.frequencies(), rtol=1e-12)
    assert (one.head_dim, one.width) == (other.head_dim, other.width) == (64, 64)
    assert math.isclose(one.attention_factor, 1) and warnings(deepseek) == []
    assert math.isclose(one.softmax, other.softmax, rel_tol=1e-12)


def test_hunyuan_multiplies_its_base():
    gguf = metadata("hunyuan-dense", rope__scaling__alpha=1000.0)
    config = {
        **{"model_type": "hunyuan_v1_dense", "head_dim": 64, "rope_theta": 1e4},
        **{"max_position_embeddings": 4096},
        "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
    }
    one, other = (read_rope(c).kinds["all"].frequencies() for c in (gguf, config))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    ((code, text),) = warnings(read_rope(metadata("llama", rope__scaling__alpha=4.0)))
    assert code == "ignored-name" and "rope.scaling.alpha is ignored" in text
    with pytest.raises(ConfigError, match="heads of more than 2 features"):
        read_rope({**gguf, "hunyuan-dense.attention.key_length": 2})


def test_names_that_an_architecture_does_not_read():
    """The defaults are written by converters and change nothing."""
    yarn = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
    usual = metadata("qwen2", **yarn, rope__scaling__yarn_beta_fast=32.0)
    assert warnings(read_rope(usual)) == []
    ((code, text),) = warnings(
        read_rope({**usual, "qwen2.rope.scaling.yarn_beta_fast": 16.0})
    )
    assert code == "ignored-name" and "and 32 is used" in text
    half = metadata("grok", **yarn, rope__scaling__yarn_ext_factor=0.5)
    ((code, text),) = warnings(read_rope(half))
    assert code == "unread-name" and "yarn_ext_factor is 0.5" in text
    unknown = metadata("llama", rope__scaling__wobble=2.0)
    assert [code for code, _ in warnings(read_rope(unknown))] == ["unread-name"]
    assert warnings(read_rope(metadata("llama", rope__scaling__finetuned=True))) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope__scaling__type": "su"}, "must be one of none, linear, yarn, longrope"),
        ({"rope__scaling__type": "longrope"}, "give the .gguf file itself"),
        ({"attention__key_length": None}, "embedding_length and attention.head_count"),
        ({"rope__freq_base": "x"}, "rope.freq_base must be a number"),
        ({"rope__scaling__factor": -2.0}, "finite and above 0"),
    ],
)
def test_what_cannot_be_read(values, message):
    with pytest.raises(ConfigError, match=message):
        read_rope(metadata("llama", **values))


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**40),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(-1, 64), max_size=5),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
NAMES = (
    *("attention.head_count", "attention.key_length", "attention.key_length_swa"),
    *("attention.sliding_window", "attention.sliding_window_pattern", "block_count"),
    *("attention.rope_pattern", "attention.temperature_scale", "context_length"),
    *("attention.temperature_length", "embedding_length", "nextn_predict_layers"),
    *("hyper_connection.count", "rope.dimension_count", "rope.dimension_count_swa"),
    *("rope.dimension_sections", "rope.freq_base", "rope.freq_base_swa"),
    *("rope.scale_linear", "rope.scaling.alpha", "rope.scaling.attn_factor"),
    *("rope.scaling.factor", "rope.scaling.finetuned", "rope.scaling.type"),
    *("rope.scaling.original_context_length", "rope.scaling.yarn_beta_fast"),
    *("rope.scaling.yarn_beta_slow", "rope.scaling.yarn_ext_factor"),
    *("rope.scaling.yarn_attn_factor", "rope.scaling.yarn_log_multiplier"),
)


@given(
    family=st.sampled_from([*DATA["architectures"], "of-nobody"]),
    values=st.dictionaries(st.sampled_from(NAMES), ANYTHING),
    factors=st.dictionaries(
        st.sampled_from(["rope_freqs.weight", "rope_factors_long.weight"]), ANYTHING
    ),
    yarn=st.booleans(),
)
def test_anything_is_read_or_refused(family, values, factors, yarn):
    own = YARN if yarn else {}
    config = metadata(family, **own) | factors
    config |= {f"{family}.{name}": value for name, value in values.items()}
    try:
        reading = read_rope(config)
        assert json.dumps(as_json(reading)) and str(reading)
    except ConfigError as error:
        assert "\n" not in str(error)


def test_head_dimensions():
    """The first layer's number of heads counts if layers differ."""
    of = {"attention__key_length": None, "embedding_length": 512}
    for heads in (8, [8, 16]):
        reading = read_rope(metadata("openelm", **of, attention__head_count=heads))
        assert reading.kinds["all"].head_dim == 64
    with pytest.raises(ConfigError, match=r"^attention.head_count must be given"):
        read_rope(metadata("llama", **of))
    with pytest.raises(ConfigError, match="architecture must be text"):
        read_rope({"general.architecture": 3})


# --- Layers with a window, layers without rotation

FULL, WINDOW = "full_attention", "sliding_attention"


def test_a_window_of_gemma_3_is_not_scaled():
    """llama.cpp #17945: its factor is 1, and with it ggml's own."""
    reading = read_rope(metadata("gemma3", **YARN, rope__freq_base=1e6))
    full, window = reading.kinds[FULL], reading.kinds[WINDOW]
    assert (full.method, full.base, window.method) == ("yarn", 1e6, "default")
    assert (window.base, window.attention_factor) == (1e4, 1.0)
    assert math.isclose(full.attention_factor, 1 + 0.1 * math.log(16))
    assert reading.layers == (*[WINDOW] * 5, FULL) * 2
    assert any("takes 10000 in layers with a window" in r.text for r in reading.remarks)
    given = metadata("gemma3", **YARN, rope__freq_base=1e6, rope__freq_base_swa=2e4)
    assert read_rope(given).kinds[WINDOW].base == 2e4
    assert warnings(read_rope(given)) == []
    without = {**given, "gemma3.attention.sliding_window": 0}
    assert [*read_rope(without).kinds] == ["all"]
    assert [code for code, _ in warnings(read_rope(without))] == ["unread-name"]


@pytest.mark.parametrize(
    ("name", "method", "base", "amplitude"),
    [
        ("gpt-oss", "yarn", 2e4, 1 + 0.1 * math.log(16)),
        ("olmo2", "default", 1e6, 1.0),
        ("laguna", "default", 2e4, 1.0),
        ("muse-glimmer", "default", 2e4, 1.0),
    ],
)
def test_windows_of_other_architectures(name, method, base, amplitude):
    given = metadata(name, **YARN, rope__freq_base=1e6, rope__freq_base_swa=2e4)
    window = read_rope(given).kinds[WINDOW]
    assert (window.method, window.base) == (method, base)
    assert math.isclose(window.attention_factor, amplitude)


def test_a_window_that_rotates_alike_is_no_kind():
    assert [*read_rope(metadata("gpt-oss", **YARN)).kinds] == ["all"]


def test_the_attention_factor_of_the_file_is_also_that_of_a_window():
    """Except where the window is rotated without any scaling."""
    for name, expected in (("gemma3", 0.5), ("laguna", 1.0), ("olmo2", 1.0)):
        given = metadata(name, **YARN, rope__scaling__attn_factor=0.5)
        window = read_rope(given).kinds[WINDOW]
        assert math.isclose(window.attention_factor, expected)


def test_the_type_none_leaves_the_factor_of_windows():
    given = metadata("gpt-oss", **YARN | {"rope__scaling__type": "none"})
    kinds = read_rope(given).kinds
    assert (kinds[FULL].method, kinds[WINDOW].method) == ("default", "linear")


def test_windows_have_widths_and_patterns_of_their_own():
    widths = {"rope__dimension_count": 32, "rope__dimension_count_swa": 64}
    pattern = {"attention__sliding_window_pattern": [True, False, True] * 4}
    reading = read_rope(metadata("gemma4", **YARN, **widths, **pattern))
    assert [reading.kinds[k].width for k in (FULL, WINDOW)] == [32, 64]
    heads = metadata("gemma4", **YARN, **widths, attention__key_length_swa=96)
    kinds = read_rope(heads).kinds
    assert [kinds[k].head_dim for k in (FULL, WINDOW)] == [64, 96]
    assert reading.layers == (WINDOW, FULL, WINDOW) * 4
    by_number = metadata("gemma3", **YARN, attention__sliding_window_pattern=4)
    assert read_rope(by_number).layers == (*[WINDOW] * 3, FULL) * 3
    always = metadata("gemma3", **YARN, attention__sliding_window_pattern=0)
    assert {*read_rope(always).layers} == {WINDOW}
    first = read_rope(metadata("modern-bert", **YARN)).layers
    assert first == (FULL, WINDOW, WINDOW) * 4
    unlisted = metadata("gemma4", **YARN, rope__freq_base=1e6)
    assert read_rope(unlisted).layers == ()
    nextn = metadata("gemma3", **YARN, nextn_predict_layers=1)
    assert len(read_rope(nextn).layers) == 11
    with pytest.raises(ConfigError, match="a value for each of the 12 layers, got 3"):
        read_rope({**unlisted, "gemma4.attention.sliding_window_pattern": [1, 0, 1]})


def test_layers_without_rotation():
    """By the window, by a period, by a switch, by a list."""
    cohere = read_rope(metadata("cohere2", attention__sliding_window=8, block_count=8))
    assert cohere.kinds[FULL] is None and cohere.kinds[WINDOW] is not None
    assert cohere.layers == (*[WINDOW] * 3, FULL) * 2
    smol = read_rope(metadata("smollm3", block_count=8))
    assert smol.layers == (*["all"] * 3, "none") * 2 and smol.kinds["none"] is None
    deep = read_rope(metadata("exaone4", block_count=30))
    assert [*deep.kinds] == ["all"] and deep.kinds["all"] is not None
    small = metadata("smallthinker", block_count=8)
    assert [*read_rope(small).kinds] == ["all"]
    small["smallthinker.attention.sliding_window"] = 512
    assert read_rope(small).layers == ("none", *["all"] * 3) * 2
    granite = metadata("granite", rope__scaling__finetuned=False)
    assert read_rope(granite).kinds == {"all": None}
    listed = metadata("granite_swa", block_count=3, attention__rope_pattern=[1, 0, 1])
    assert read_rope(listed).layers == ("all", "none", "all")
    del listed["granite_swa.attention.rope_pattern"]
    assert [*read_rope(listed).kinds] == ["all"]
    for name in ("cohere2moe", "smollm3", "baichuan"):
        assert [c for c, _ in warnings(read_rope(metadata(name)))] == [
            "unlisted-layers"
        ]


def test_temperatures():
    mistral = metadata("mistral3", attention__temperature_scale=0.1)
    found = read_rope(mistral).temperature
    assert (found.growth, found.alpha, found.length) == ("steps", 0.1, 4096.0)
    assert (found.index_from, found.layers) == (0, "all")
    deepseek = metadata("deepseek2", attention__temperature_scale=0.1)
    with pytest.raises(ConfigError, match=r"needs a length, deepseek2\.attention"):
        read_rope(deepseek)
    deepseek["deepseek2.attention.temperature_length"] = 8192
    assert read_rope(deepseek).temperature.length == 8192.0
    llama = metadata("llama4", block_count=8)
    found = read_rope(llama).temperature
    assert (found.alpha, found.length, found.index_from) == (0.1, 8192.0, 1)
    assert found.layers == "none" and read_rope(llama).layers.count("none") == 2
    llama["llama4.attention.sliding_window"] = 0
    assert read_rope(llama).temperature is None
    assert [*read_rope(llama).kinds] == ["all"]
    ignored = metadata("qwen2", attention__temperature_scale=0.1)
    assert [code for code, _ in warnings(read_rope(ignored))] == ["ignored-name"]


# --- Several coordinates


def test_sections():
    sections = {"rope__dimension_sections": [8, 12, 12, 0]}
    for name, order in (("qwen2vl", "sectioned"), ("glm4", "sectioned")):
        rope = read_rope(metadata(name, **sections)).kinds["all"]
        assert (rope.sections, rope.order) == ((8, 12, 12), order)
        assert rope.layout == "half"
    assert read_rope(metadata("glm4")).kinds["all"].layout == "interleaved"
    one = read_rope(metadata("glm4", rope__dimension_sections=[32, 0, 0, 0]))
    assert one.kinds["all"].layout == "interleaved" and warnings(one) == []
    unknown = warnings(read_rope(metadata("of-nobody", **sections)))
    assert [code for code, _ in unknown] == ["unknown-type", "unread-name"]
    ((code, text),) = warnings(read_rope(metadata("llama", **sections)))
    assert code == "ignored-name" and "by one coordinate" in text
    for wrong, message in (
        ([8, 12, 11, 0], "add up to the 32 rotated pairs"),
        ([20, 0, 12, 0], "numbers above 0"),
        ("x", "a list of whole numbers"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_rope(metadata("qwen2vl", rope__dimension_sections=wrong))


def fourth_of_ggml(sections, pairs):
    """Pairs for which ``ggml_mrope_cache_init`` takes the fourth coordinate."""
    found = []
    for sector in range(pairs):
        if not (
            (sector % 3 == 1 and sector < 3 * sections[1])
            or (sector % 3 == 2 and sector < 3 * sections[2])
            or (sector % 3 == 0 and sector < 3 * sections[0])
        ):
            found.append(sector)
    return found


@pytest.mark.parametrize(
    "sections", [[11, 11, 10, 0], [12, 10, 10, 0], [10, 12, 10, 0]]
)
def test_interleaved_sections_and_pairs_that_are_not_rotated(sections):
    """Qwen3-VL's [24, 20, 20] leave two pairs to a coordinate that is 0 in text."""
    reading = read_rope(metadata("qwen3vl", rope__dimension_sections=sections))
    assert reading.kinds["all"].order == "interleaved"
    fourth = fourth_of_ggml(sections, 32)
    found = warnings(reading)
    assert [code for code, _ in found] == ["other-sections"] * bool(fourth)
    if fourth:
        assert f"the pairs {', '.join(map(str, fourth))} by" in found[0][1]
    assert fourth_of_ggml([24, 20, 20, 0], 64) == [61, 62]


# --- Output of gguf-dump


def dumped(config, tensors=()):
    """The output of ``gguf-dump --json``: arrays have no values."""
    entries = {
        name: {"index": n, "type": "X", "offset": 24 * n}
        | ({} if isinstance(value, list) else {"value": value})
        for n, (name, value) in enumerate(config.items())
    }
    version = {"GGUF.version": {"value": 3}, "GGUF.tensor_count": {"value": 9}}
    return {
        "filename": "m.gguf",
        "metadata": version | entries,
        "tensors": {name: {"shape": [32]} for name in tensors},
    }


def test_the_output_of_gguf_dump_is_read_alike():
    given = metadata("llama", rope__scaling__factor=2.0)
    read = read_rope(dumped(given, ["token_embd.weight"]))
    assert read.kinds == read_rope(given).kinds and read.remarks == ()
    assert any("rope_freqs" in r.text for r in read_rope(dumped(given)).remarks)
    with pytest.raises(ConfigError, match=r"a tensor rope_freqs\.weight"):
        read_rope(dumped(given, ["rope_freqs.weight"]))
    with pytest.raises(
        ConfigError, match="write the JSON with gguf-dump --json --json"
    ):
        read_rope(dumped(metadata("qwen2vl", rope__dimension_sections=[8, 12, 12, 0])))
    own = YARN | {"attention__sliding_window_pattern": [True] * 12}
    hidden = read_rope(dumped(metadata("afmoe", **own, rope__freq_base_swa=2e4), ["x"]))
    assert [*hidden.kinds] == [FULL, WINDOW] and hidden.layers == ()
    assert [code for code, _ in warnings(hidden)] == ["unlisted-layers"]
    unknown = dumped(metadata("llama", rope__scaling__wobble=2.0), ["x"])
    assert [code for code, _ in warnings(read_rope(unknown))] == ["unread-name"]


# --- Files


def written(path, config, **tensors):
    """Write a .gguf file with these metadata, tokens and tensors; return its path."""
    import gguf

    writer = gguf.GGUFWriter(path, config["general.architecture"])
    for name, value in config.items():
        if name == "general.architecture":
            continue
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    writer.add_tensor("token_embd.weight", np.zeros((4, 64), np.float32))
    for name, values in tensors.items():
        writer.add_tensor(f"{name}.weight", np.array(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@needs_gguf
def test_the_factors_of_llama_31_are_its_scaling(tmp_path):
    """The tensor that the converter writes holds plain over scaled frequencies."""
    other = read_rope(LLAMA_31).kinds["all"]
    plain = 500000.0 ** (-np.arange(64) / 64)
    config = metadata("llama", attention__key_length=128, rope__freq_base=500000.0)
    divisors = plain / other.frequencies()
    path = written(tmp_path / "a.gguf", config, rope_freqs=divisors)
    reading = read_rope(path)
    rope = reading.kinds["all"]
    assert reading.remarks == () and rope.method == "factors"
    np.testing.assert_allclose(rope.frequencies(), other.frequencies(), rtol=2.0**-23)
    assert not rope.follows_length
    for format in ("transformers 5", "transformers 4"):
        again = read_rope(write_rope(reading, format)).kinds["all"]
        np.testing.assert_array_equal(again.frequencies(), rope.frequencies())
        assert again.attention_factor == 1
    with pytest.raises(ConfigError, match="GGUF has no factors scaling"):
        write_rope(reading, "GGUF")
    linear = {**config, "llama.rope.scaling.factor": 2.0}
    halved = read_rope(written(tmp_path / "b.gguf", linear, rope_freqs=divisors))
    np.testing.assert_allclose(
        halved.kinds["all"].frequencies(), rope.frequencies() / 2, rtol=1e-15
    )
    yarn = {**linear, "llama.rope.scaling.type": "yarn"}
    with pytest.raises(ConfigError, match="the two together cannot be described"):
        read_rope(written(tmp_path / "c.gguf", yarn, rope_freqs=divisors))
    with pytest.raises(
        ConfigError, match="must be 64 numbers, one for each pair, got 9"
    ):
        read_rope(written(tmp_path / "d.gguf", config, rope_freqs=divisors[:9]))
    ones = read_rope(written(tmp_path / "e.gguf", config, rope_freqs=np.ones(64)))
    assert ones.kinds["all"].method == "default"
    qwen = metadata("qwen2", attention__key_length=128)
    unused = read_rope(written(tmp_path / "f.gguf", qwen, rope_freqs=divisors))
    assert [code for code, _ in warnings(unused)] == ["ignored-name"]
    assert unused.kinds["all"].method == "default"


@needs_gguf
@pytest.mark.parametrize("kind", ["longrope", None])
def test_lists_of_longrope_are_tensors(tmp_path, kind):
    """Phi-3's converter writes no type; the lists are there all the same."""
    short, long = np.linspace(1, 2, 32), np.linspace(1, 40, 32)
    values = {"rope__scaling__type": kind, "context_length": 131072}
    trained = {"rope__scaling__original_context_length": 4096}
    config = metadata("phi3", **values, **trained, rope__scaling__attn_factor=1.19)
    lists = {"rope_factors_short": short, "rope_factors_long": long}
    reading = read_rope(written(tmp_path / "phi.gguf", config, **lists))
    rope = reading.kinds["all"]
    assert (rope.method, rope.trained) == ("longrope", 4096)
    assert math.isclose(rope.attention_factor, 1.19, rel_tol=1e-6)
    plain = 1e4 ** (-np.arange(32) / 32)
    for length, divisors in ((4096, short), (4097, long)):
        expected = plain / divisors
        np.testing.assert_allclose(rope.frequencies(length), expected, rtol=1e-6)
    assert any("by the size of its context" in r.text for r in reading.remarks)
    assert warnings(reading) == []


@needs_gguf
def test_factors_of_gemma_4_leave_pairs_without_rotation(tmp_path):
    """Only in layers without a window."""
    config = metadata("gemma4", attention__sliding_window=512, rope__freq_base=1e6)
    divisors = [1.0] * 8 + [1e30] * 24
    reading = read_rope(written(tmp_path / "g.gguf", config, rope_freqs=divisors))
    full, window = reading.kinds[FULL], reading.kinds[WINDOW]
    assert (full.method, full.options["rotated_pairs"]) == ("proportional", 8)
    assert window.method == "default" and (window.frequencies() > 0).all()


@needs_gguf
def test_a_file_of_many_tokens_is_read_fast(tmp_path):
    own = {"block_count": 3, "attention__sliding_window": 512, "rope__freq_base": 1e6}
    config = metadata("gemma3", **own)
    config["gemma3.attention.sliding_window_pattern"] = [True, False, True]
    config["tokenizer.ggml.tokens"] = [f"token {n}" for n in range(150_000)]
    config["tokenizer.ggml.scores"] = [0.5] * 150_000
    path = written(tmp_path / "large.gguf", config)
    start = time.process_time()
    reading = read_rope(path)
    assert time.process_time() - start < 1.5
    assert reading.layers == (WINDOW, FULL, WINDOW)
    assert reading.kinds == read_rope(metadata("gemma3", **own)).kinds


@needs_gguf
def test_a_part_of_a_file_does_not_show_all_tensors(tmp_path):
    config = {**metadata("llama"), "split.count": 2}
    reading = read_rope(written(tmp_path / "part.gguf", config))
    assert any("rope_freqs" in r.text for r in reading.remarks)


@needs_gguf
def test_damaged_files_are_refused(tmp_path):
    config = {**metadata("llama"), "tokenizer.ggml.tokens": ["a", "b"] * 40}
    whole = written(tmp_path / "whole.gguf", config).read_bytes()
    path = tmp_path / "damaged.gguf"
    header = whole.index(b"token_embd.weight")
    for end in (5, 24, 60, header // 2, header - 9, header + 20):
        path.write_bytes(whole[:end])
        with pytest.raises(ConfigError, match=r"the \.gguf file cannot be read"):
            read_rope(path)
    path.write_bytes(whole.replace(b"rope.freq_base\x06", b"rope.freq_base\x63"))
    with pytest.raises(ConfigError, match=r"the \.gguf file cannot be read"):
        read_rope(path)


@needs_gguf
def test_factors_of_other_types_are_refused(tmp_path):
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "i.gguf", "llama")
    writer.add_uint32("llama.attention.key_length", 64)
    writer.add_tensor("rope_freqs.weight", np.ones(32, np.int32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ConfigError, match="must be float32 or float16, got I32"):
        read_rope(tmp_path / "i.gguf")


def test_a_file_needs_the_package(tmp_path, monkeypatch):
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0")
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.delitem(sys.modules, "posedu.tools.configs._gguf_file", raising=False)
    monkeypatch.delattr("posedu.tools.configs._gguf_file", raising=False)
    with pytest.raises(ConfigError, match=r"pip install posedu\[gguf\]"):
        read_rope(path)


# --- Written and read again


@st.composite
def configs(draw):
    """Configurations of transformers with what GGUF metadata can express."""
    family = draw(st.sampled_from(["llama", "qwen2", "phi3", "gemma", "mistral", ""]))
    width = 2 * draw(st.integers(4, 64))
    parameters = {"rope_theta": draw(factors(1e3, 1e7))}
    method = draw(st.sampled_from(["default", "linear", "yarn"]))
    parameters["rope_type"] = method
    if method != "default":
        parameters["factor"] = draw(factors(1, 64))
    if method == "yarn":
        parameters["original_max_position_embeddings"] = draw(st.integers(256, 65536))
        if draw(st.booleans()):
            parameters["attention_factor"] = draw(factors(0.5, 2))
    own = {"model_type": family} if family else {}
    return own | {
        **{"head_dim": width, "max_position_embeddings": 8192},
        "rope_parameters": parameters,
    }


@given(config=configs())
def test_what_is_written_is_read_again(config):
    reading = read_rope(config)
    one = reading.kinds["all"]
    other = read_rope(write_rope(reading, "GGUF")).kinds["all"]
    np.testing.assert_allclose(other.frequencies(), one.frequencies(), rtol=1e-14)
    assert math.isclose(other.attention_factor, one.attention_factor, rel_tol=1e-14)
    assert (other.head_dim, other.width) == (one.head_dim, one.width)
    assert other.layout == (one.layout or other.layout)


def test_limits_of_the_ramp_are_written_where_llama_cpp_reads_them():
    yarn = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
    limits = {
        f"rope__scaling__yarn_beta_{n}": v for n, v in (("fast", 16.0), ("slow", 2.0))
    }
    mistral = read_rope(metadata("mistral3", **yarn, **limits))
    again = read_rope(write_rope(mistral, "GGUF"))
    assert again.kinds == mistral.kinds and again.family == "mistral3"
    grok = read_rope(metadata("grok", **yarn))
    assert read_rope(write_rope(grok, "GGUF")).kinds == grok.kinds
    config = {
        **{"model_type": "qwen2", "head_dim": 64, "rope_theta": 1e4},
        **{"max_position_embeddings": 4096},
        "rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 16.0},
    }
    with pytest.raises(
        ConfigError, match="reads no beta_fast and beta_slow in 'qwen2'"
    ):
        write_rope(read_rope(config), "GGUF")
