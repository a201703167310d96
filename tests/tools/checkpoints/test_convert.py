"""Converted checkpoints keep every logit, and unknown orders are refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.numpy.frequencies import frequencies
from posedu.tools.checkpoints import (
    Conversion,
    ConvertError,
    Fused,
    Pairs,
    convert,
)
from posedu.torch import Attention, RoPE

HALF, NEIGHBORS = Pairs(layout="half"), Pairs(layout="interleaved")
ORDERS = [
    Pairs(layout=layout, clockwise=clockwise)
    for layout in ("half", "interleaved")
    for clockwise in (False, True)
]
D = 8
EPS = torch.finfo(torch.float64).eps


def layer(order, *, rotary_dim=None, kv_heads=2, bias=True, seed=0):
    """Attention with these pairs, and with numbers that follow from the seed."""
    sign = -1.0 if order.clockwise else 1.0
    speeds = torch.tensor(sign * frequencies(rotary_dim or D))
    rope = RoPE(D, layout=order.layout, frequencies=speeds, rotary_dim=rotary_dim)
    torch.manual_seed(seed)
    return Attention(
        32, 4, kv_heads=kv_heads, bias=bias, encoding=rope, causal=True
    ).double()


def output_change(source, target, conversion, **options):
    """The relative change of the output with converted weights in target's layer."""
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(1)).double()
    old, new = layer(source, **options), layer(target, **options, seed=5)
    new.load_state_dict(convert(old.state_dict(), conversion))
    at = torch.arange(9) + 1000
    return (old(x, at) - new(x, at)).abs().max().item() / old(x, at).abs().max().item()


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("target", ORDERS, ids=str)
@pytest.mark.parametrize("source", ORDERS, ids=str)
def test_no_logit_changes(source, target, rotary_dim):
    """Only sums are reordered, also for grouped queries, biases, partial rotation."""
    conversion = Conversion(source=source, target=target, head_dim=D, width=rotary_dim)
    assert output_change(source, target, conversion, rotary_dim=rotary_dim) <= 64 * EPS
    if source != target:
        identity = Conversion(
            source=source, target=source, head_dim=D, width=rotary_dim
        )
        assert output_change(source, target, identity, rotary_dim=rotary_dim) > 1e-3


def test_a_published_mutant_of_grouped_queries_changes_logits():
    """transformers 5.23.0's PermuteForRope permutes keys by the queries' heads."""
    conversion = Conversion(source=HALF, target=NEIGHBORS, head_dim=D)
    state = layer(HALF).state_dict()
    right = convert(state, conversion)
    k = state["k.weight"]  # 2 heads of 8 are permuted as 4 heads of 4.
    wrong = k.unflatten(0, (4, 2, 2)).transpose(1, 2).flatten(0, 2)
    assert not torch.equal(right["k.weight"], wrong)
    new = layer(NEIGHBORS)
    new.load_state_dict({**right, "k.weight": wrong})
    x = torch.randn(1, 9, 32).double()
    assert (new(x) - layer(HALF)(x)).abs().max() > 1e-3


@given(st.sampled_from(ORDERS), st.sampled_from(ORDERS), st.data())
def test_a_conversion_and_its_inverse_change_nothing(source, target, data):
    """They keep every bit, also by way of any third layout."""
    head_dim = data.draw(st.integers(1, 12)) * 2
    width = 2 * data.draw(st.integers(1, head_dim // 2))
    rotated = data.draw(st.sampled_from(["leading", "trailing"]))
    sizes = dict(head_dim=head_dim, width=width, rotated=rotated)
    rows = head_dim * data.draw(st.integers(1, 4))
    state = {f"{n}_proj.weight": np.arange(3.0 * rows).reshape(rows, 3) for n in "qkv"}

    def step(one, other, given):
        return convert(given, Conversion(source=one, target=other, **sizes))

    there = step(source, target, state)
    third = data.draw(st.sampled_from(ORDERS))
    around = step(third, target, step(source, third, state))
    for name, was in state.items():
        np.testing.assert_array_equal(step(target, source, there)[name], was)
        np.testing.assert_array_equal(around[name], there[name])
        assert sorted(map(tuple, there[name])) == sorted(map(tuple, was))


def test_projections_and_norms_of_queries_and_keys_are_permuted():
    rows = {
        "model.layers.0.self_attn.q_proj.weight": 16,
        "model.layers.0.self_attn.k_proj.weight": 8,
        "model.layers.0.self_attn.k_proj.bias": 8,
        "model.layers.0.self_attn.q_norm.weight": 8,
        "model.layers.0.self_attn.v_proj.weight": 8,
        "model.layers.0.self_attn.o_proj.weight": 16,
        "model.layers.0.mlp.up_proj.weight": 8,
        "model.layers.0.input_layernorm.weight": 8,
        "lm_head.weight": 9,
    }
    state = {name: np.arange(float(n)) for name, n in rows.items()}
    for name in rows:
        if name.endswith("proj.weight"):
            state[name] = np.tile(state[name], (16, 1)).T
    conversion = Conversion(source=HALF, target=NEIGHBORS, head_dim=8)
    done = convert(state, conversion)
    own = [0, 4, 1, 5, 2, 6, 3, 7]
    changed = {name for name in rows if done[name] is not state[name]}
    assert changed == {name for name in rows if re.search("[qk]_(proj|norm)", name)}
    for name in changed:
        heads = np.arange(rows[name] // 8)[:, None] * 8
        found = done[name] if done[name].ndim == 1 else done[name][:, 0]
        assert found.tolist() == (heads + own).ravel().tolist()
    assert [*done] == [*state]


def test_latent_attention_rotates_the_end_of_each_query_and_one_key():
    rows = {
        "q_b_proj.weight": 12,  # 2 heads of 2 unrotated and 4 rotated
        "kv_a_proj_with_mqa.weight": 9,  # 5 latent and 4 rotated
        "kv_b_proj.weight": 8,
    }
    state = {name: np.arange(float(n))[:, None] for name, n in rows.items()}
    state["q_a_layernorm.weight"] = np.arange(6.0)
    conversion = Conversion(
        source=NEIGHBORS, target=HALF, head_dim=6, width=4, rotated="trailing"
    )
    done = convert(state, conversion)
    queries = done["q_b_proj.weight"].ravel().tolist()
    assert queries == [0, 1, 2, 4, 3, 5, 6, 7, 8, 10, 9, 11]
    key = done["kv_a_proj_with_mqa.weight"].ravel().tolist()
    assert key == [0, 1, 2, 3, 4, 5, 7, 6, 8]
    assert all(
        done[n] is state[n] for n in ("kv_b_proj.weight", "q_a_layernorm.weight")
    )


Q, K, V = np.zeros((16, 3)), np.zeros((8, 3)), np.ones((8, 3))
QKV = {"q_proj.weight": Q, "k_proj.weight": K, "v_proj.weight": V}
HOW = Conversion(source=HALF, target=NEIGHBORS, head_dim=8)
NEITHER = "must be matrices of queries and keys, such as"
REFUSED = {
    "nothing": ({}, NEITHER),
    "nothing of attention": ({"up_proj.weight": Q}, NEITHER),
    "no keys": ({"q_proj.weight": Q}, "q_proj.weight has no matrix of keys"),
    "no queries": (
        {"k_proj.weight": K, "v_proj.weight": V},
        "k_proj.weight has no matrix of queries",
    ),
    "a norm alone": ({"q_norm.weight": K[0]}, "q_norm.weight has no matrix of queries"),
    "a layer without keys": (
        {**{f"0.{name}": x for name, x in QKV.items()}, "1.q_proj.weight": Q},
        "1.q_proj.weight has no matrix of keys",
    ),
    "keys that are values": (
        {"q_proj.weight": Q, "k_proj.weight": K},
        "k_proj.weight has no matrix of values",
    ),
    "two matrices of queries": (
        {**QKV, "wq.weight": Q},
        "is one of several matrices of queries in one module; 2 tensors are refused",
    ),
    "fused": ({"attn.c_attn.weight": Q}, "c_attn.weight has queries, keys and values"),
    "fused and not": (
        {**QKV, "c_attn.weight": Q},
        "c_attn.weight has queries, keys and values in one matrix",
    ),
    "fused by another name": (
        {**QKV, "0.attn.to_qkv.weight": Q},
        "to_qkv.weight has queries, keys and values in one matrix",
    ),
    "LoRA": ({**QKV, "q_proj.lora_B.weight": Q}, "lora_B.weight belongs to an adapter"),
    "LoRA's A": ({**QKV, "k_proj.lora_A.weight": Q}, "lora_A.weight belongs to an"),
    "AWQ, GPTQ": (
        {**QKV, "k_proj.qweight": K},
        "k_proj.qweight belongs to an adapter or to quantized",
    ),
    "FP8, NVFP4": (
        {**QKV, "q_proj.weight_scale": Q[:, :1]},
        "q_proj.weight_scale belongs to an adapter or to quantized",
    ),
    "NVFP4's scale": (
        {**QKV, "q_proj.weight_scale_2": np.array(1.0)},
        "q_proj.weight_scale_2 belongs to an adapter or to quantized",
    ),
    "bitsandbytes": (
        {**QKV, "q_proj.weight.absmax": Q[0]},
        "q_proj.weight.absmax belongs to an adapter or to quantized",
    ),
    "fused and quantized": (
        {**QKV, "0.qkv_proj.qweight": Q},
        "qkv_proj.qweight belongs to an adapter or to quantized",
    ),
    "integers": (
        {**QKV, "q_proj.weight": Q.astype(np.int8)},
        "q_proj.weight must be of floats, got int8",
    ),
    "eight bits": (
        {**QKV, "q_proj.weight": torch.zeros(16, 3, dtype=torch.float8_e4m3fn)},
        "q_proj.weight must be of floats, got float8_e4m3fn",
    ),
    "two models": (
        {
            f"{of}.layers.0.{name}": tensor
            for of in ("text", "eye")
            for name, tensor in QKV.items()
        },
        "queries and keys of several models (text.layers.*, eye.layers.*)",
    ),
    "no tensor": (
        {"q_proj.weight": 3},
        "must map names to tensors, 'q_proj.weight' does not",
    ),
    "no name": ({3: Q}, "must map names to tensors, 3 does not"),
    "no state dict": ([Q], "`state` must map names to tensors, got"),
    "no whole heads": (
        {**QKV, "k_proj.weight": np.zeros((12, 3))},
        "k_proj.weight must have whole heads of 8 rows, got 12",
    ),
    "a norm by another name": (
        {**QKV, "0.q_layer_norm.weight": np.ones(8)},
        "q_layer_norm.weight looks like a norm of queries or keys",
    ),
    "a norm of another size": (
        {**QKV, "q_norm.weight": np.ones(4)},
        "q_norm.weight must have 8 numbers, for all heads or for each of 2 heads",
    ),
    "a norm with features first": (
        {**QKV, "q_norm.weight": np.ones((8, 2))},
        "q_norm.weight must have 8 numbers, for all heads or for each of 2 heads",
    ),
    "a convolution of queries": (
        {**QKV, "q_conv1d.weight": np.ones((16, 1, 4))},
        "q_conv1d.weight looks like a part of queries or keys",
    ),
    "a bias as a parameter": (
        {**QKV, "q_bias": np.ones(16)},
        "q_bias looks like a part of queries or keys",
    ),
    "queries by another name": (
        {**QKV, "to_q.weight": Q},
        "to_q.weight looks like a part of queries or keys",
    ),
    "a factor of each feature": (
        {**QKV, "per_dim_scale": np.ones(8)},
        "per_dim_scale has a number for each feature of a head",
    ),
    "a gate among the queries": (
        {**QKV, "q_proj.weight": np.zeros((32, 3)), "o_proj.weight": Q.T},
        "q_proj.weight has 32 rows, which do not fit the heads",
    ),
    "columns for features": (
        {**QKV, "q_proj.weight": np.zeros((8, 16)), "k_proj.weight": np.eye(8)},
        "k_proj.weight must have the 16 columns of the queries' matrix, got 8",
    ),
    "a flat weight": (
        {**QKV, "q_proj.weight": np.zeros(48)},
        "q_proj.weight must be a matrix with a row for each feature, got shape (48,)",
    ),
    "three axes": (
        {**QKV, "q_proj.weight": np.zeros((2, 8, 3))},
        "q_proj.weight must be a matrix with a row for each feature",
    ),
    "no numbers": (
        {**QKV, "k_proj.weight": torch.empty(10**12, 0)},
        "k_proj.weight must have the 3 columns of the queries' matrix, got 0",
    ),
    "a number": (
        {**QKV, "k_proj.bias": np.array(1.0)},
        "k_proj.bias must have a number for each row of the weight beside it, got ()",
    ),
    "one key for all heads, and keys": (
        {**QKV, "kv_a_proj_with_mqa.weight": K},
        "k_proj.weight is beside a matrix with one key for all heads",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_state_dict_of_unknown_order_is_refused(case, unchecked):
    state, message = REFUSED[case]
    with pytest.raises(ConvertError, match=re.escape(message)):
        convert(state, HOW)


@pytest.mark.parametrize(
    ("others", "rows", "message"),
    [
        ({}, 40, "qkv.weight must have 32 rows for 2 heads of queries and 1 of keys"),
        (
            {"o_proj.weight": np.zeros((3, 24))},
            32,
            "qkv.weight must be beside an output matrix with 16 columns",
        ),
        (
            {"q_proj.weight": Q},
            32,
            "q_proj.weight is beside a matrix that has queries and keys",
        ),
        (
            {"k_norm.weight": np.ones(16)},
            32,
            "k_norm.weight must have 8 numbers, for all heads or for each of 1 heads",
        ),
    ],
)
def test_a_fused_matrix_of_other_heads_is_refused(others, rows, message):
    fused = Fused(order="stacked", heads=2, kv_heads=1)
    with pytest.raises(ConvertError, match=re.escape(message)):
        convert(
            {"qkv.weight": np.zeros((rows, 3)), **others}, replace(HOW, fused=fused)
        )


def test_a_fused_bias_without_its_matrix_is_refused():
    fused = Fused(order="stacked", heads=2, kv_heads=1)
    with pytest.raises(ConvertError, match=r"qkv\.bias must have a number for each"):
        convert({"qkv.bias": np.zeros(32)}, replace(HOW, fused=fused))


LEFT = {
    "a scale of cached keys": {"k_scale": np.array(1.0)},
    "sinks": {"sinks": np.ones(8)},
    "frequencies": {"rotary_emb.inv_freq": np.ones(8)},
    "a gate of its own": {"g_proj.weight": np.ones((16, 3))},
    "quantized experts": {"mlp.experts.0.up_proj.qweight": np.ones((8, 3))},
    "a convolution": {"1.conv.in_proj.weight": np.ones((9, 3))},
    "a state-space layer": {
        "1.mamba.A_log": np.ones(8),
        "1.mamba.in_proj.weight": np.ones((32, 3)),
    },
    "linear attention": {
        "1.linear_attn.A_log": np.ones(8),
        "1.linear_attn.in_proj_qkvz.weight": np.ones((32, 3)),
        "1.linear_attn.conv1d.weight": np.ones((32, 1, 4)),
    },
    "linear attention with queries": {
        "1.self_attn.A_log": np.ones(8),
        "1.self_attn.q_proj.weight": np.ones((12, 3)),
        "1.self_attn.q_conv1d.weight": np.ones((12, 1, 4)),
    },
}


@pytest.mark.parametrize("case", LEFT)
def test_tensors_of_no_rotation_are_left(case):
    done = convert({**LEFT[case], **QKV}, HOW)
    assert all(done[name] is tensor for name, tensor in LEFT[case].items())
    assert done["q_proj.weight"] is not Q


def test_one_of_several_models_is_converted():
    one = {f"layers.0.{name}": tensor for name, tensor in QKV.items()}
    both = {f"{of}.{name}": x for of in ("text", "eye") for name, x in one.items()}
    found, alone = convert(both, replace(HOW, within="text.")), convert(one, HOW)
    for name, tensor in one.items():
        assert found[f"eye.{name}"] is tensor
        np.testing.assert_array_equal(found[f"text.{name}"], alone[name])


def test_attention_to_another_text_is_left():
    """Its path differs within each layer, which takes a star in the prefix."""
    state = {
        f"layers.{n}.{of}.{name}": tensor.copy()
        for n in range(2)
        for of in ("self_attn", "cross_attn", "draft.self_attn")
        for name, tensor in QKV.items()
    }
    with pytest.raises(ConvertError, match="several models"):
        convert(state, HOW)
    done = convert(state, replace(HOW, within="layers.*.self"))
    changed = {name for name in state if done[name] is not state[name]}
    assert changed == {name for name in state if re.search(r"\d.self_attn.[qk]", name)}


def test_queries_and_keys_by_their_whole_names():
    rows = np.arange(16.0)[:, None]
    names = {"self.query.weight": rows, "self.key.weight": rows[:8]}
    state = {**names, "self.value.weight": rows[:8], "value": rows}
    found = convert(state, HOW)
    order = HOW.order(8, 0)
    np.testing.assert_array_equal(found["self.key.weight"][:, 0], order)
    np.testing.assert_array_equal(found["self.query.weight"][8:, 0], 8 + order)
    assert all(found[name] is state[name] for name in state if "value" in name)


def test_layers_without_a_number_are_refused():
    by_layer = replace(HOW, head_dim={0: 8})
    named = {f"layers.1.{name}": tensor for name, tensor in QKV.items()}
    with pytest.raises(ConvertError, match="is of layer 1, and `head_dim` is by layer"):
        convert(named, by_layer)
    for path in ("", "stages.0.blocks.0."):
        unnumbered = {f"{path}{name}": tensor for name, tensor in QKV.items()}
        with pytest.raises(ConvertError, match="is of no single layer, and `head_dim`"):
            convert(unnumbered, by_layer)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Pairs(layout="thirds"), "layout must be"),
        (lambda: Pairs(layout="half", clockwise=1), "clockwise must be"),
        (lambda: Conversion(source=HALF, target=HALF, head_dim=0), "head_dim must be"),
        (
            lambda: Conversion(source=HALF, target=HALF, head_dim=8, width=5),
            "width must be",
        ),
        (
            lambda: Conversion(source=HALF, target=HALF, head_dim=8, width=10),
            "`width` must be at most head_dim = 8, got 10",
        ),
        (
            lambda: Conversion(source=HALF, target=HALF, head_dim=8, rotated="middle"),
            "rotated must be",
        ),
        (lambda: replace(HOW, width=0), "width must be a positive multiple of 2"),
        (
            lambda: replace(HOW, head_dim={0: 8, 1: 7}),
            r"width\[1\] must be a positive multiple of 2, got 7",
        ),
        (
            lambda: replace(HOW, head_dim={0: 8}, width={1: 8}),
            "`head_dim` and `width` must be for the same layers",
        ),
        (
            lambda: replace(HOW, head_dim={0: 8}, width={0: 10}),
            r"`width`\[0\] must be at most head_dim = 8, got 10",
        ),
        (lambda: Fused(order="mixed", heads=8, kv_heads=2), "order must be"),
        (
            lambda: Fused(order="stacked", heads=8, kv_heads=3),
            "heads must be a positive multiple of 3, got 8",
        ),
    ],
)
def test_arguments_that_are_no_conversion_are_refused(call, message, unchecked):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
