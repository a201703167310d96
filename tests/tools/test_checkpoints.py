"""Converted checkpoints keep every logit, and unknown orders are refused."""

import json
import os
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
    Pairs,
    convert,
    convert_file,
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
    state = {f"{n}_proj.weight": np.arange(3.0 * rows).reshape(rows, 3) for n in "qk"}

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
        "lm_head.weight": 8,
    }
    state = {name: np.arange(float(n)) for name, n in rows.items()}
    conversion = Conversion(source=HALF, target=NEIGHBORS, head_dim=8)
    done = convert(state, conversion)
    own = [0, 4, 1, 5, 2, 6, 3, 7]
    changed = {name for name in rows if done[name] is not state[name]}
    assert changed == {name for name in rows if re.search("[qk]_(proj|norm)", name)}
    for name in changed:
        heads = np.arange(rows[name] // 8)[:, None] * 8
        assert done[name].tolist() == (heads + own).ravel().tolist()
    assert [*done] == [*state]


def test_latent_attention_rotates_the_end_of_each_query_and_one_key():
    state = {
        "q_b_proj.weight": np.arange(12.0),  # 2 heads of 2 unrotated and 4 rotated
        "kv_a_proj_with_mqa.weight": np.arange(9.0),  # 5 latent and 4 rotated
        "kv_b_proj.weight": np.arange(8.0),
        "q_a_layernorm.weight": np.arange(6.0),
    }
    conversion = Conversion(
        source=NEIGHBORS, target=HALF, head_dim=6, width=4, rotated="trailing"
    )
    done = convert(state, conversion)
    assert done["q_b_proj.weight"].tolist() == [0, 1, 2, 4, 3, 5, 6, 7, 8, 10, 9, 11]
    assert done["kv_a_proj_with_mqa.weight"].tolist() == [0, 1, 2, 3, 4, 5, 7, 6, 8]
    assert all(
        done[n] is state[n] for n in ("kv_b_proj.weight", "q_a_layernorm.weight")
    )


Q, K = np.zeros((16, 3)), np.zeros((8, 3))
HOW = Conversion(source=HALF, target=NEIGHBORS, head_dim=8)
REFUSED = {
    "nothing": ({}, "got 0 matrices of queries and 0 of keys among 0 names"),
    "no keys": ({"q_proj.weight": Q}, "1 matrices of queries and 0 of keys"),
    "a layer without keys": (
        {"0.q_proj.weight": Q, "1.q_proj.weight": Q, "0.k_proj.weight": K},
        "2 matrices of queries and 1 of keys",
    ),
    "fused": (
        {"q_proj.weight": Q, "k_proj.weight": K, "h.0.attn.c_attn.weight": Q},
        "c_attn.weight has queries, keys and values in one matrix",
    ),
    "an adapter": (
        {"q_proj.weight": Q, "k_proj.weight": K, "q_proj.lora_B.weight": Q},
        "lora_B.weight belongs to an adapter",
    ),
    "quantized": (
        {"q_proj.weight": Q, "k_proj.weight": K, "k_proj.qweight": K},
        "k_proj.qweight belongs to an adapter or to quantized",
    ),
    "scales of rows": (
        {"q_proj.weight": Q, "k_proj.weight": K, "q_proj.weight_scale": Q[:, :1]},
        "q_proj.weight_scale belongs to an adapter or to quantized",
    ),
    "two models": (
        {
            **{"text.layers.0.q_proj.weight": Q, "text.layers.0.k_proj.weight": K},
            **{"eye.layers.0.q_proj.weight": Q, "eye.layers.0.k_proj.weight": K},
        },
        "queries and keys of several models (eye.layers, text.layers)",
    ),
    "no tensor": (
        {"q_proj.weight": 3},
        "must map names to tensors, 'q_proj.weight' does not",
    ),
    "no name": ({3: Q}, "must map names to tensors, 3 does not"),
    "no state dict": ([Q], "`state` must map names to tensors, got"),
    "no whole heads": (
        {"q_proj.weight": Q, "k_proj.weight": np.zeros((12, 3))},
        "k_proj.weight must have whole heads of 8 rows, got 12",
    ),
    "a norm by another name": (
        {"q_proj.weight": Q, "k_proj.weight": K, "0.q_layer_norm.weight": np.ones(8)},
        "q_layer_norm.weight looks like a norm of queries or keys",
    ),
    "no numbers": (
        {"q_proj.weight": Q, "k_proj.weight": torch.empty(10**12, 0)},
        "k_proj.weight must have whole heads of 8 rows, got 0",
    ),
    "a number": (
        {"q_proj.weight": Q, "k_proj.weight": K, "k_proj.bias": np.array(1.0)},
        "k_proj.bias must have whole heads of 8 rows, got 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_state_dict_of_unknown_order_is_refused(case, unchecked):
    state, message = REFUSED[case]
    with pytest.raises(ConvertError, match=re.escape(message)):
        convert(state, HOW)


def test_one_of_several_models_is_converted():
    one = {"layers.0.q_proj.weight": Q, "layers.0.k_proj.weight": K}
    both = {f"{of}.{name}": x for of in ("text", "eye") for name, x in one.items()}
    found, alone = convert(both, replace(HOW, within="text.")), convert(one, HOW)
    for name, tensor in one.items():
        assert found[f"eye.{name}"] is tensor
        np.testing.assert_array_equal(found[f"text.{name}"], alone[name])


def test_queries_and_keys_by_their_whole_names():
    rows = np.arange(16.0)[:, None]
    state = {"self.query.weight": rows, "self.key.weight": rows[:8], "value": rows}
    found = convert(state, HOW)
    order = HOW.order(8, 0)
    np.testing.assert_array_equal(found["self.key.weight"][:, 0], order)
    np.testing.assert_array_equal(found["self.query.weight"][8:, 0], 8 + order)
    assert found["value"] is rows


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
    ],
)
def test_arguments_that_are_no_conversion_are_refused(call, message, unchecked):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


# --- Files


def written(path, tensors, **changes):
    """Write a safetensors file of bf16 tensors."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
            **changes.get(name, {}),
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def read(path):
    """The tensors and the header of a safetensors file."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    tensors = {}
    for name, of in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + n for n in of["data_offsets"])
            flat = torch.frombuffer(bytearray(raw[begin:end]), dtype=torch.bfloat16)
            tensors[name] = flat.view(of["shape"])
    return tensors, header


@pytest.fixture
def state():
    made = torch.Generator().manual_seed(0)
    shapes = {
        "k_proj.weight": (8, 3),
        "v_proj.weight": (8, 3),
        "q_proj.weight": (16, 3),
    }
    shapes["q_proj.bias"] = (16,)
    return {
        name: torch.randn(shape, generator=made).bfloat16()
        for name, shape in shapes.items()
    }


def test_a_file_is_converted_as_its_tensors_are(tmp_path, state):
    source = written(tmp_path / "old.safetensors", state)
    source.chmod(0o640)
    target = tmp_path / "new.safetensors"
    assert convert_file(source, target, HOW) == 3
    assert target.stat().st_mode == source.stat().st_mode
    found, header = read(target)
    assert header == read(source)[1] and header["__metadata__"] == {"format": "pt"}
    for name, expected in convert(state, HOW).items():
        assert torch.equal(found[name], expected)
    assert convert_file(str(source), str(source), HOW) == 3
    assert source.read_bytes() == target.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["new.safetensors", "old.safetensors"]


def test_an_interrupted_conversion_leaves_the_file_unchanged(
    tmp_path, state, monkeypatch
):
    source = written(tmp_path / "old.safetensors", state)
    before = source.read_bytes()

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("posedu.tools.checkpoints.tqdm", stopped)
    with pytest.raises(KeyboardInterrupt):
        convert_file(source, source, HOW)
    assert source.read_bytes() == before
    assert os.listdir(tmp_path) == ["old.safetensors"]


BROKEN = {
    "empty": lambda raw: b"",
    "no header": lambda raw: raw[:5],
    "a header longer than the file": lambda raw: b"\xff" * 8 + raw[8:],
    "a header that is no JSON": lambda raw: raw[:8] + b"[" + raw[9:],
    "cut off": lambda raw: raw[:-1],
}


def test_a_header_with_a_name_twice_is_refused(tmp_path, state):
    path = written(tmp_path / "old.safetensors", state)
    twice = path.read_bytes().replace(b"v_proj.weight", b"k_proj.weight")
    path.write_bytes(twice)
    with pytest.raises(ConvertError, match="a name is given twice"):
        convert_file(path, path, HOW)
    assert path.read_bytes() == twice


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_is_refused(tmp_path, state, fault):
    path = written(tmp_path / "old.safetensors", state)
    path.write_bytes(BROKEN[fault](path.read_bytes()))
    target = tmp_path / "new.safetensors"
    with pytest.raises(
        ConvertError, match=r"old\.safetensors is not a safetensors file"
    ):
        convert_file(path, target, HOW)
    assert not target.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"dtype": "I8"},
            "k_proj.weight must be of floats, got I8: quantized weights have",
        ),
        ({"shape": [8, 4]}, "bytes of k_proj.weight do not fit its shape"),
        ({"data_offsets": [0, 10**6]}, "lies outside"),
        ({"data_offsets": [-2, 46]}, "lies outside"),
        ({"data_offsets": [0]}, "is not a safetensors file"),
        ({"shape": [10**12, 0], "data_offsets": [0, 0]}, r"has the shape \[10000"),
        ({"shape": [-8, -3]}, r"has the shape \[-8, -3\]"),
        ({"shape": [8.0, 3]}, r"has the shape \[8.0, 3\]"),
        ({"data_offsets": [0.0, 48.0]}, "offsets that are not whole numbers"),
        ({"data_offsets": [2, 50]}, "overlaps another"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, state, changes, message):
    path = written(tmp_path / "old.safetensors", state, **{"k_proj.weight": changes})
    with pytest.raises(ConvertError, match=message):
        convert_file(path, tmp_path / "new.safetensors", HOW)
