"""Differences of two configurations: by effect, not by spelling."""

from dataclasses import replace

import pytest

from posedu.tools import read_rope
from posedu.tools.configs.differences import SAME, differences

LLAMA = {
    "model_type": "llama",
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
}
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 64,
    "num_hidden_layers": 6,
    "sliding_window": 512,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_theta": 10_000.0},
        "full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0},
    },
}


def found(one, other):
    result = differences(read_rope(one), read_rope(other))
    return [(d.where, d.what.partition(":")[0]) for d in result.found], result


@pytest.mark.parametrize(
    "change, where, what",
    [
        ({"rope_theta": 10_000.1}, "all", "frequencies"),
        ({"head_dim": 128}, "all", "head dimension"),
        ({"partial_rotary_factor": 0.5}, "all", "pairs"),
        ({"model_type": "gptj"}, "all", "layout"),
        (
            {"rope_scaling": {"type": "yarn", "factor": 4.0}},
            "all",
            "attention factor",
        ),
    ],
)
def test_each_thing_that_differs_is_named(change, where, what):
    names, _ = found(LLAMA, LLAMA | change)
    assert (where, what) in names


def test_a_base_in_float32_is_the_same_base():
    inside = LLAMA | {"rope_theta": 10_000.0 * (1 + SAME / 4)}
    assert found(LLAMA, inside)[0] == []
    outside = LLAMA | {"rope_theta": 10_000.0 * (1 + 4 * SAME)}
    assert found(LLAMA, outside)[0] == [("all", "frequencies")]


def test_layers_are_compared_one_by_one():
    shifted = GEMMA | {"layer_types": ["full_attention"] + ["sliding_attention"] * 5}
    names, _ = found(GEMMA, shifted)
    assert names == [("layer 0", "frequencies"), ("layer 5", "frequencies")]
    shorter = GEMMA | {"layer_types": GEMMA["layer_types"][:5], "num_hidden_layers": 5}
    names, result = found(GEMMA, shorter)
    assert names == [] and "5 layers" in result.caption()


def test_neighboring_layers_share_a_line():
    other = GEMMA | {
        "rope_parameters": GEMMA["rope_parameters"]
        | {"sliding_attention": {"rope_theta": 20_000.0}}
    }
    assert found(GEMMA, other)[0] == [("layers 0–4", "frequencies")]


def test_a_pair_that_one_side_alone_rotates_differs():
    some = LLAMA | {
        "rope_parameters": {
            "rope_theta": 10_000.0,
            "rope_type": "proportional",
            "partial_rotary_factor": 0.5,
        }
    }
    for one, other in ((some, LLAMA), (LLAMA, some)):
        _, result = found(one, other)
        assert [d.what for d in result.found] == ["frequencies: 16 of 32 pairs"]


def test_layers_without_rotation_differ_from_rotated_ones():
    still = LLAMA | {
        "model_type": "smollm3",
        "num_hidden_layers": 4,
        "no_rope_layers": [1, 1, 1, 0],
    }
    rotated = still | {"no_rope_layers": [1, 1, 1, 1]}
    names, result = found(still, rotated)
    assert names == [("layer 3", "rotated")]
    assert (result.found[0].one, result.found[0].other) == ("no", "yes")


def test_methods_that_follow_the_length_are_compared_at_the_longest_text_too():
    dynamic = LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 4.0}}
    other = LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 8.0}}
    one = read_rope(dynamic).kinds["all"]
    longer = replace(one, longest=16_384)
    reading = read_rope(dynamic)
    stretched = replace(reading, kinds={"all": longer})
    second = read_rope(other)
    second = replace(
        second, kinds={"all": replace(second.kinds["all"], longest=16_384)}
    )
    result = differences(stretched, second)
    assert [d.what for d in result.found] == [
        "frequencies at 16,384 tokens: 31 of 32 pairs"
    ]


def test_what_is_not_known_is_said():
    bare = {"rope_theta": 10_000.0, "head_dim": 64}
    names, result = found(LLAMA, bare)
    assert names == [] and "Not compared: the layout" in result.caption()


def test_no_configuration_differs_from_itself():
    for config in (LLAMA, GEMMA):
        assert found(config, config)[1].found == ()
