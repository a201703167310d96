"""Nothing unread is silent: names that a reader does not know are warned of."""

import copy
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posedu.tools import ConfigError, read_rope
from posedu.tools.configs._watched import Watched, about_positions
from posedu.tools.configs.rotary_config import CODES, NOTE, WARNING, Remark

ORACLES = Path(__file__).parents[2] / "oracles"
STORED = json.loads(gzip.decompress((ORACLES / "rope-families.json.gz").read_bytes()))
CASES = {case["name"]: case["config"] for case in STORED["cases"]}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "rope_theta": 10_000.0,
}
META = {"dim": 4096, "n_heads": 32, "rope_theta": 1e6}
MEGATRON = {"hidden_size": 4096, "num_attention_heads": 32, "rotary_base": 10_000}

OTHER_SPELLINGS = {
    "gpt-oss": ({"rope_scaling_factor": 32.0, "initial_context_length": 4096}, LLAMA),
    "Mistral's yarn": ({"yarn": {"factor": 16, "beta": 32.0}}, META),
    "Mistral's temperature": ({"llama_4_scaling": {"beta": 0.1}}, META),
    "LitGPT's share": ({"rotary_percentage": 0.25}, LLAMA),
    "LitGPT's interpolation": ({"rope_condense_ratio": 4}, LLAMA),
    "LitGPT's scaling": ({"rope_adjustments": {"factor": 8.0}}, LLAMA),
    "flash-attn's share": ({"rotary_emb_fraction": 0.5}, LLAMA),
    "flash-attn's layout": ({"rotary_emb_interleaved": True}, LLAMA),
    "flash-attn's xPos": ({"rotary_emb_scale_base": 512.0}, LLAMA),
    "Qwen 1": ({"use_dynamic_ntk": True}, LLAMA),
    "MiMo's windows": ({"swa_rope_theta": 10_000}, LLAMA),
    "DeepSeek-V4's second base": ({"compress_rope_theta": 160_000}, LLAMA),
    "Gemma 4's wide heads": ({"global_head_dim": 512}, LLAMA),
    "Zamba 2": ({"use_mem_rope": True}, LLAMA),
    "three axes": ({"rope_3d": True}, LLAMA),
    "MLX's layout": ({"rope_traditional": True}, LLAMA),
    "Megatron's type": ({"rope_type": "yarn"}, MEGATRON),
    "Megatron's factor": ({"rotary_scaling_factor": 40.0}, MEGATRON),
    "Megatron's ramp": ({"yarn_beta_fast": 32.0}, MEGATRON),
    "Megatron's sections": ({"mrope_section": [16, 24, 24]}, MEGATRON),
    "Megatron's encoding": (
        {"position_embedding_type": "mrope"},
        MEGATRON,
    ),
}
"""Names in people's files that no reader here knows, and the file around them."""


@pytest.mark.parametrize("meant", ["rope_theta", "partial_rotary_factor"])
def test_a_misspelled_name_is_warned_of_with_the_right_one(meant):
    """Two letters are exchanged, so that "rotary" may no longer be in the name."""
    config = LLAMA | {meant: 0.5 if "factor" in meant else 5e5}
    value = config.pop(meant)
    for at in range(len(meant) - 1):
        name = meant[:at] + meant[at + 1] + meant[at] + meant[at + 2 :]
        if name == meant:
            continue
        (warning,) = (r for r in read_rope({**config, name: value}).remarks if r.code)
        assert warning.text.startswith(f"{name} is not read")
        assert warning.text.endswith(f"is it {meant}, misspelled?")


def test_names_that_are_like_others_and_right_are_not_warned_of():
    assert not read_rope(LLAMA | {"v_head_dim": 128, "rope_thetas": None}).warnings


@pytest.mark.parametrize("names, around", OTHER_SPELLINGS.values(), ids=OTHER_SPELLINGS)
def test_other_spellings_are_warned_of(names, around):
    """Each was once read without a word."""
    plain, found = read_rope(around), read_rope(around | names)
    new = {*found.remarks} - {*plain.remarks}
    assert any(
        remark.code == "unread-name" and name in remark.text
        for remark in new
        for name in names
    )


def _values(reading):
    """Rotations that are read, of the kinds that layers have, else all of them."""
    rotations = [
        (
            kind if reading.layers else "",
            rope
            and (
                *rope.frequencies().tolist(),
                rope.attention_factor,
                rope.softmax,
                rope.layout,
                rope.sections,
                rope.order,
            ),
        )
        for kind, rope in reading.kinds.items()
        if not reading.layers or kind in reading.layers
    ]
    return sorted(map(str, rotations)), reading.layers, reading.temperature


def _paths(config, above=()):
    for name, value in config.items():
        yield (*above, name), value
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))


def _without(config, path):
    changed = copy.deepcopy(config)
    inside = changed
    for name in path[:-1]:
        inside = inside[name]
    return changed, inside, inside.pop(path[-1])


def _renamed(config, path):
    changed, inside, value = _without(config, path)
    inside[f"{path[-1]}_of_rope"] = value
    return changed


def _nested(config, path):
    changed, inside, value = _without(config, path)
    inside["rope_settings"] = {path[-1]: value}
    return changed


# The kinds of layer of DeepSeek-V4 have labels that its list of layers does not use.
LABELS = {"deepseek_v4.DeepseekV4RotaryEmbedding"}


@pytest.mark.parametrize("change", [_renamed, _nested])
@pytest.mark.parametrize("part", range(4))
def test_no_name_of_any_class_is_renamed_or_nested_in_silence(change, part):
    """Every name of every family: another reading comes with another remark."""
    changed_readings = 0
    for case, config in [*CASES.items()][part::4]:
        before = read_rope(config)
        for path, value in _paths(config):
            if value in (None, False, "", [], {}):
                continue
            try:
                after = read_rope(change(config, path))
            except ConfigError:
                continue
            if _values(after) != _values(before):
                changed_readings += 1
                new = {*after.remarks} - {*before.remarks}
                is_label = case in LABELS and isinstance(value, dict)
                assert new or is_label, (case, path)
    assert changed_readings > 20


def test_a_name_added_anywhere_is_warned_of():
    for case, config in [*CASES.items()][::10]:
        for path, value in [((), config), *_paths(config)]:
            if not isinstance(value, dict):
                continue
            changed = copy.deepcopy(config)
            inside = changed
            for name in path:
                inside = inside[name]
            inside["my_rope_switch"] = 3
            new = {*read_rope(changed).remarks} - {*read_rope(config).remarks}
            assert any("my_rope_switch" in remark.text for remark in new), (case, path)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda new: [new],
        lambda new: [[new]],
        lambda new: [1, [[], [{"x": [[new]]}]]],
        lambda new: ([new, {}],),
    ],
    ids=["list", "list of lists", "objects between", "tuples"],
)
def test_a_name_in_lists_of_any_depth_is_warned_of(wrapped):
    """In every object of every family: none is lost in silence."""
    for case, config in [*CASES.items()][::10]:
        before = {*read_rope(config).remarks}
        for path, value in [((), config), *_paths(config)]:
            if not isinstance(value, dict):
                continue
            changed = copy.deepcopy(config)
            inside = changed
            for name in path:
                inside = inside[name]
            inside["more"] = wrapped({"my_rope_switch": 3, "rope_thetas": 5.0})
            new = {*read_rope(changed).remarks} - before
            for name in ("my_rope_switch", "rope_thetas"):
                assert any(name in remark.text for remark in new), (case, path)


def _names_in(value, above=""):
    """The paths of all names in a value, except those of objects."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict):
                yield from _names_in(inner, f"{above}{name}.")
            else:
                yield f"{above}{name}"
                yield from _names_in(inner, f"{above}{name}")
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            dot = "." * isinstance(inner, dict)
            yield from _names_in(inner, f"{above}[{n}]{dot}")


@given(
    st.recursive(
        st.integers(1, 9),
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_the_unread_names_are_all_names(value):
    config = {"top": value}
    assert sorted(Watched(config).unread()) == sorted(_names_in(config))


def test_only_the_last_part_of_a_file_s_own_names_is_left_unread():
    """The classes' own files have no more of these warnings than are true."""
    named = {
        remark.text.partition(" is not read")[0]
        for config in CASES.values()
        for remark in read_rope(config).remarks
        if remark.code == "unread-name"
    }
    assert len(named) <= 6, named


def test_names_are_noted_where_they_are_read():
    config = Watched({"a": 1, "b": {"c": 2, "d": 3}, "e": None, "f": [{"g": 4}]})
    assert [*config.unread()] == ["a", "b.c", "b.d", "f", "f[0].g"]
    assert "a" in config and [*config.items()] and repr(config)
    assert [*config.unread()] == ["a", "b.c", "b.d", "f", "f[0].g"]
    assert config["a"] == 1 and config.get("b").get("d") == 3
    assert [*config.unread()] == ["b.c", "f", "f[0].g"]


def test_names_that_are_numbers_are_no_error():
    """Objects in memory have them, such as ``id2label`` of transformers."""
    config = LLAMA | {"id2label": {0: "NEGATIVE", 1: "POSITIVE"}}
    assert read_rope(config).remarks == read_rope(LLAMA).remarks


def test_names_under_a_prefix_are_noted_in_the_whole():
    config = Watched({"llama.rope.base": 1, "llama.rope.scaling.factor": 2, "x": 3})
    scaling = config.under("llama.").under("rope.scaling.")
    assert dict(scaling) == {"factor": 2}
    assert [*config.unread()] == ["llama.rope.base", "x"]


@pytest.mark.parametrize(
    "name, expected",
    [
        ("rope_theta", True),
        ("vision_config.rotary-pct", True),
        ("rope_scaling.beta", True),
        ("attn_config.alibi", True),
        ("no_rope_layers", True),
        ("max_position_embeddings", False),
        ("left_max_position_embeddings", False),
        ("relative_attention_num_buckets", False),
        ("temperature", False),
        ("qk_nope_head_dim", False),
        ("hidden_size", False),
    ],
)
def test_names_that_have_to_do_with_positions(name, expected):
    assert about_positions(name) is expected


def test_each_warning_has_a_code_and_no_note_has():
    with pytest.raises(ValueError, match="a warning has one of the codes unread-name"):
        Remark(WARNING, "x")
    with pytest.raises(ValueError, match="a note has none"):
        Remark(NOTE, "x", "unread-name")
    assert str(Remark(WARNING, "x", "unread-name")) == "warning [unread-name]: x"
    assert all(text and not text.endswith(".") for text in CODES.values())
