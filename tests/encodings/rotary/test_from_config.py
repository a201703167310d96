"""``from_config`` for every rope type, compared with transformers and the tools."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from posedu.numpy.rotary import m_rope_axes, mixed, yarn_attention_factor
from posedu.tools import read_rope
from posedu.torch import MRoPE, RoPE
from posedu.torch.rotary import Rerotation, ValueRotation
from support import ROOT

ORACLE = json.loads(
    (ROOT / "tests/oracles/rope-types.json").read_text(encoding="utf-8")
)
CASES = {case["name"]: case for case in ORACLE["cases"]}

PLAIN = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 8192}
LLAMA = {**PLAIN, "rope_theta": 10_000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
QWEN = {
    "model_type": "qwen2_vl",
    "head_dim": 128,
    "rope_theta": 1e6,
    "max_position_embeddings": 8192,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
}
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 128,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}


def frequencies_and_factor(module):
    """The angle and the length of each pair in the table of position 1."""
    cos, sin = module.table([1.0], dtype=torch.float64)
    angle, size = torch.atan2(sin, cos)[0].numpy(), torch.hypot(cos, sin)[0].numpy()
    assert np.ptp(size) < 1e-14
    return angle, size[0]


def made(config, *arguments, **options):
    """The RoPE of a configuration whose reading may have warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return RoPE.from_config(config, *arguments, **options)


@pytest.mark.parametrize("name", CASES)
def test_every_rope_type_is_as_transformers_computes_it(name):
    """Its frequencies are float32: powers err by a few roundings of their exponents."""
    case = CASES[name]
    config = {
        "model_type": "llama",
        "head_dim": case["d"],
        "max_position_embeddings": case["longest"],
        "rope_parameters": {"rope_theta": case["base"], **case["parameters"]},
    }
    length = case["length"] or case["longest"]
    module = made(config, length=length)
    angle, factor = frequencies_and_factor(module)
    np.testing.assert_allclose(angle, case["frequencies"], rtol=1e-6, atol=0)
    assert factor == pytest.approx(case["attention_factor"], rel=1e-12)

    (read,) = read_rope(config).kinds.values()
    ours = read.frequencies(length)
    np.testing.assert_allclose(angle, ours, rtol=1e-14, atol=0)
    assert module.attention_factor == read.attention_factor
    assert (module.d, module.layout) == (case["d"], "half")


def test_all_rope_types_of_the_tools_are_among_the_cases():
    """Without HunYuan's alpha, which is an NTK base once and for all."""
    from posedu.tools.configs._rope_parameters import METHODS

    cases = {case["parameters"]["rope_type"] for case in CASES.values()}
    assert cases | {"default", "ntk"} == {*METHODS}


def test_a_default_is_the_rope_of_its_base():
    module = RoPE.from_config({**LLAMA, "partial_rotary_factor": 0.5})
    assert module.frequencies is None and module.rotary_dim == 32
    x = torch.randn(2, 5, 64, dtype=torch.float64)
    same = RoPE(64, layout="half", rotary_dim=32)
    torch.testing.assert_close(module(x, range(5)), same(x, range(5)), rtol=0, atol=0)


def test_a_partial_rotation_keeps_its_width_under_yarn():
    module = made({**LLAMA, "partial_rotary_factor": 0.5, "rope_scaling": YARN})
    assert module.rotary_dim == 32 and len(module.frequencies) == 16
    x = torch.randn(1, 5, 64)
    assert torch.equal(module(x, range(5))[..., 32:], x[..., 32:])


def test_alpha_is_a_larger_base():
    scaling = {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    angle, _ = frequencies_and_factor(made({**LLAMA, "rope_scaling": scaling}))
    base = 1e4 * 1000.0 ** (64 / 62)
    np.testing.assert_allclose(angle, base ** (-np.arange(32) / 32), rtol=1e-13)


def test_layer_types_have_rotations_of_their_own():
    near = RoPE.from_config(GEMMA, "sliding_attention")
    far = RoPE.from_config(GEMMA, "full_attention")
    omega = 1e6 ** (-np.arange(64) / 64) / 8
    np.testing.assert_allclose(frequencies_and_factor(far)[0], omega, rtol=1e-14)
    assert near.base == 1e4 and near.frequencies is None


def test_a_path_a_folder_and_an_object_serve(tmp_path):
    config = {**LLAMA, "rope_scaling": YARN}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))

    class Configuration:
        def to_dict(self):
            return config

    wanted = RoPE.from_config(config)
    for given in (path, str(path), tmp_path, Configuration()):
        module = RoPE.from_config(given)
        assert torch.equal(module.frequencies, wanted.frequencies)
        assert module.attention_factor == yarn_attention_factor(4.0)


def test_a_layout_is_read_where_it_is_known_and_else_must_be_given():
    unknown = {"head_dim": 64, "rope_theta": 1e4}
    with pytest.raises(ValueError, match="give `layout`, 'interleaved' or 'half'"):
        RoPE.from_config(unknown)
    given = RoPE.from_config(unknown, layout="interleaved")
    assert given.layout == "interleaved"
    assert RoPE.from_config(LLAMA).layout == "half"
    converted = RoPE.from_config(LLAMA, layout="interleaved")
    assert converted.layout == "interleaved"
    with pytest.raises(ValueError, match="layout"):
        RoPE.from_config(unknown, layout="halve")


@pytest.mark.parametrize("scaling", [None, YARN], ids=["default", "yarn"])
def test_m_rope_has_sections_order_and_scaling(scaling):
    scaling = {"rope_type": "default", **(scaling or {})}
    scaling["mrope_section"] = [16, 24, 24]
    config = {**QWEN, "rope_scaling": scaling}
    module = MRoPE.from_config(config)
    assert (module.sections, module.order) == ((16, 24, 24), "sectioned")
    x = np.random.default_rng(0).normal(size=(5, 128))
    at = np.arange(15.0).reshape(5, 3)
    (read,) = read_rope(config).kinds.values()
    axes = m_rope_axes(module.sections, order="sectioned")
    vectors = np.eye(3)[axes] * read.frequencies()[:, None]
    wanted = read.attention_factor * mixed(x, at, frequencies=vectors, layout="half")
    ours = module(torch.from_numpy(x), torch.from_numpy(at))
    np.testing.assert_allclose(ours.numpy(), wanted, rtol=0, atol=1e-12)
    text = torch.arange(5.0)[:, None].expand(5, 3)
    one = RoPE(
        128,
        layout="half",
        frequencies=read.frequencies(),
        attention_factor=read.attention_factor,
    )
    torch.testing.assert_close(
        module(torch.from_numpy(x), text), one(torch.from_numpy(x), range(5))
    )


def test_rerotation_leaves_the_attention_factor_out():
    config = {**LLAMA, "rope_scaling": YARN}
    moved, rope = Rerotation.from_config(config), RoPE.from_config(config)
    assert isinstance(moved, Rerotation) and moved.attention_factor == 1
    assert torch.equal(moved.frequencies, rope.frequencies)


def test_what_is_no_rotation_is_warned_of():
    deepseek = {
        "model_type": "deepseek_v3",
        "qk_rope_head_dim": 64,
        "rope_theta": 1e4,
        "max_position_embeddings": 163_840,
        "rope_scaling": {
            **{"type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0},
            "original_max_position_embeddings": 4096,
        },
    }
    with pytest.warns(UserWarning, match=r"scale of its softmax by 1\.8"):
        module = RoPE.from_config(deepseek, layout="interleaved")
    assert (module.d, module.attention_factor) == (64, 1.0)

    tempered = {**YARN, "llama_4_scaling_beta": 0.1, "rope_theta": 1e4}
    with pytest.warns(UserWarning, match=r"LogN\(growth='steps', alpha=0\.1"):
        RoPE.from_config({**PLAIN, "rope_parameters": tempered})

    with pytest.warns(UserWarning, match="rope_theta, the base: 10000"):
        RoPE.from_config({"head_dim": 8, "rope_parameters": {}}, layout="half")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RoPE.from_config({**LLAMA, "rope_scaling": YARN})


LONG = {
    **{"rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32},
    "original_max_position_embeddings": 4096,
}
AXIAL = {
    "_class_name": "FluxTransformer2DModel",
    "attention_head_dim": 128,
    "axes_dims_rope": [16, 56, 56],
}
NOPE = {**LLAMA, "num_hidden_layers": 2, "no_rope_layers": [1, 0]}
BAD = {
    "no layer type": (
        lambda: RoPE.from_config(GEMMA),
        "`layer_type` must be 'full_attention' or 'sliding_attention', got None: the "
        "configuration has a rotation for each",
    ),
    "an unknown layer type": (
        lambda: RoPE.from_config(GEMMA, "global"),
        "must be 'full_attention' or 'sliding_attention', got 'global'",
    ),
    "a layer type without rotation": (
        lambda: RoPE.from_config(NOPE, "none"),
        "must be 'all', got 'none', whose layers are not rotated",
    ),
    "no rotation at all": (
        lambda: RoPE.from_config({**LLAMA, "alibi": True}),
        "no layer with rotation",
    ),
    "no length": (
        lambda: made({**LLAMA, "rope_scaling": LONG}),
        "'longrope' computes frequencies from the length of the text: give `length`, "
        "in tokens (the training length is 4096)",
    ),
    "a length of no tokens": (
        lambda: made({**LLAMA, "rope_scaling": LONG}, length=0),
        "length must be",
    ),
    "M-RoPE": (
        lambda: made(QWEN),
        "M-RoPE sections, for positions with 3 coordinates: use MRoPE.from_config",
    ),
    "no M-RoPE": (
        lambda: MRoPE.from_config(LLAMA),
        "no M-RoPE sections: use RoPE.from_config",
    ),
    "axes": (lambda: RoPE.from_config(AXIAL), "3 coordinates", "AxialRoPE"),
    "axes, not M-RoPE's": (lambda: MRoPE.from_config(AXIAL), "AxialRoPE"),
    "no configuration": (lambda: RoPE.from_config(7), "config"),
    "no configuration of a rotation": (lambda: RoPE.from_config({"a": 1}), "'a'"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_say_what_is_needed(name):
    call, *words = BAD[name]
    with pytest.raises(ValueError) as raised:
        call()
    for word in words:
        assert word in str(raised.value)


def test_one_rotation_beside_layers_without_one_is_taken():
    assert RoPE.from_config(NOPE).base == 1e4


def test_no_configuration_says_which_values_are_rotated():
    with pytest.raises(NotImplementedError, match="which features of values"):
        ValueRotation.from_config(LLAMA)


def test_the_tools_are_imported_by_the_call_alone():
    code = "import sys, posedu.torch; print('posedu.tools' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
