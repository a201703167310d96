"""Rotary modules are measured if a model cannot be run or hides its attention.

Rotary modules and their functions are in files of their own, as in a library; each is
wrong in at most one way.
"""

import importlib
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from posedu.tools.diagnose import Refused, diagnose, small
from posedu.tools.diagnose.report import series
from support.tiny_models import CONFIG, Configuration, Tiny, names

SOURCE = """
import torch
from torch import nn


class {name}(nn.Module):
    def __init__(self, base=500_000.0, d=32):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, d, 2) / d))

    def forward(self, x, position_ids):
        angles = position_ids[..., None].float() * self.inv_freq
        return {table}


class Attention(nn.Module):
    def forward(self, q, k, table):
        return {applied}(q, k, *table)


{functions}
"""
COS_SIN = "[f(torch.cat([angles, angles], -1)) for f in (torch.cos, torch.sin)]"
HALF = """
def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    half = lambda x: torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1)
    return q * cos + half(q) * sin, k * cos + half(k) * sin
"""
OPPOSITE = HALF.replace(
    "-x.chunk(2, -1)[1], x.chunk(2, -1)[0]", "x.chunk(2, -1)[1], -x.chunk(2, -1)[0]"
)
STRETCHING = HALF.replace("half(q) * sin,", "2 * half(q) * sin,").replace(
    "apply_rotary_pos_emb", "apply_rotary_pos_emb_other"
)
INTERLEAVED = """
def apply_rotary_emb(q, k, freqs_cis):
    def turned(x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * freqs_cis.unsqueeze(1)).flatten(-2)
    return turned(q), turned(k)
"""


class Hidden(nn.Module):
    """A model that multiplies queries by keys in an unseen way, or fails before."""

    def __init__(self, parts, *, config=None, fails=True, base=500_000.0):
        super().__init__()
        self.config, self.fails = config, fails
        self.embed = nn.Embedding(97, 64)
        self.rotary = next(
            made for name, made in vars(parts).items() if name.startswith("R")
        )(base)
        self.attention = parts.Attention()

    def forward(self, input_ids, position_ids):
        if self.fails:
            raise RuntimeError("wants pictures")
        x = self.embed(input_ids).unflatten(-1, (2, 32)).transpose(1, 2)
        q, k = self.attention(x, x, self.rotary(x, position_ids))
        return torch.einsum("rhqd,rhkd->rhqk", q, k)


@pytest.fixture
def parts(request):
    """Build a Python module of a rotary class, its caller, and functions."""
    made = []

    def build(functions, *, name="Rotary", table=None, applied="apply_rotary_pos_emb"):
        module = types.ModuleType(f"{request.node.name}_{len(made)}")
        sys.modules[module.__name__] = module
        made.append(module.__name__)
        table = table or f"tuple({COS_SIN})"
        exec(
            SOURCE.format(name=name, table=table, applied=applied, functions=functions),
            vars(module),
        )
        return module

    yield build
    for name in made:
        del sys.modules[name]


def of(parts, functions, *, config=CONFIG, base=500_000.0, fails=True, **options):
    return diagnose(
        Hidden(parts(functions, **options), config=config, base=base, fails=fails)
    )


COMPLEX = {
    "table": "torch.polar(torch.ones_like(angles), angles)",
    "applied": "apply_rotary_emb",
}


@pytest.mark.parametrize("fails", [True, False])
def test_rotated_columns_are_measured_without_the_model(parts, fails):
    found = of(parts, HALF, fails=fails)
    (layer,) = found.layers
    assert layer.name == "rotary with apply_rotary_pos_emb"
    for side in (layer.query, layer.key):
        assert (side.layout, side.width, side.unexplained) == ("half", 32, 0)
        assert not side.clockwise and not side.permuted and not side.is_absolute
        assert side.attention_factor == pytest.approx(1, abs=1e-6)
    assert series(layer.query) == pytest.approx((5e5, 1), rel=1e-4)
    assert found.ok and found.trials == ()
    (said,) = [f for f in found.findings if f.name == "alone"]
    assert ("wants pictures" if fails else "no attention was seen") in said.text


def test_faults_and_senses_are_named_there(parts):
    assert "clockwise" in [f.name for f in of(parts, OPPOSITE).findings]
    assert of(parts, OPPOSITE).layers[0].query.clockwise
    found = of(parts, INTERLEAVED, **COMPLEX)
    assert found.layers[0].query.layout == "interleaved"
    assert names(found) == []  # the layer's weights, which are not seen, may fit it
    assert "layout" in [f.name for f in found.findings]
    assert names(of(parts, HALF, base=1e4)) == ["base"]


def test_the_function_that_the_model_names_is_taken(parts):
    both = HALF + STRETCHING + OPPOSITE.replace("pos_emb(", "pos_emb_back(")
    (layer,) = of(parts, both).layers
    assert layer.name.endswith("with apply_rotary_pos_emb")
    (layer,) = of(parts, both, applied="apply_rotary_pos_emb_back").layers
    assert layer.query.clockwise


def test_all_functions_that_differ_are_shown_if_none_is_named(parts):
    """No function contradicts the configuration; one that scales is left out."""
    both = HALF + STRETCHING + INTERLEAVED_BY_COS
    rotary = parts(both).Rotary()
    rotary.config = Configuration(**CONFIG)
    found = diagnose(rotary)
    assert [layer.query.layout for layer in found.layers] == ["half", "interleaved"]
    assert found.ok
    again = HALF + HALF.replace("pos_emb(", "pos_emb_too(")
    (layer,) = diagnose(parts(again).Rotary()).layers
    assert layer.name == "apply_rotary_pos_emb"


INTERLEAVED_BY_COS = """
def apply_rotary_pos_emb_interleave(q, k, cos, sin):
    n = cos.shape[-1] // 2
    cos, sin = (t[..., :n].repeat_interleave(2, -1).unsqueeze(1) for t in (cos, sin))
    def turned(x):
        other = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        return x * cos + other * sin
    return turned(q), turned(k)
"""


def test_a_name_that_only_has_the_letters(parts):
    """``EuROPEan`` and ``property`` are not named after rotation."""
    with pytest.raises(Refused, match="wants pictures"):
        of(parts, HALF, name="REuropean")


def test_three_coordinates_and_kinds_of_layers(parts):
    angles = "position_ids.expand(3, -1, -1)[..., None].float() * self.inv_freq"
    table = f"(lambda angles: tuple({COS_SIN}))(({angles})[0])"
    found = of(parts, HALF, table=table)
    assert found.ok and found.layers[0].query.width == 32

    class Rotary(nn.Module):
        layer_types = ("full_attention", "sliding_attention")

        def forward(self, x, position_ids, layer_type):
            base = {"full_attention": 1e6, "sliding_attention": 1e4}[layer_type]
            omega = base ** (-torch.arange(0, 32, 2) / 32)
            angles = position_ids[..., None] * omega
            both = torch.cat([angles, angles], -1)
            return both.cos(), both.sin()

    module = parts(HALF)
    Rotary.__module__ = module.__name__
    layers = diagnose(Rotary()).layers
    found = {layer.name: series(layer.query)[0] for layer in layers}
    assert found == {
        "full_attention with apply_rotary_pos_emb": pytest.approx(1e6, rel=1e-3),
        "sliding_attention with apply_rotary_pos_emb": pytest.approx(1e4, rel=1e-3),
    }


def test_a_mutant_that_takes_positions_one_off_is_rejected(parts, monkeypatch):
    """The mutant's tables are those of p + 1, and the test above rejects it."""
    taken = importlib.import_module("posedu.tools.diagnose.rotary_modules")
    tables = taken._tables

    def one_off(module, kind, at, shape):
        shifted = tables(module, kind, [p + 1 for p in at], shape)
        return ((p - 1, table) for p, table in shifted)

    monkeypatch.setattr(taken, "_tables", one_off)
    with pytest.raises(AssertionError):
        test_rotated_columns_are_measured_without_the_model(parts, True)


class Indexed(Tiny):
    """A model with a product of matrices before attention that is no attention."""

    def forward(self, input_ids, *given, **named):
        x = self.embed(input_ids)
        scores = torch.einsum("rqhd,rkd->rqhk", x.unflatten(-1, (2, 32)), x[..., :32])
        torch.matmul(x[..., None, :2], scores)
        return super().forward(input_ids, *given, **named)


def test_a_product_of_one_token_is_not_taken_for_attention():
    found = diagnose(Indexed(config=CONFIG))
    assert found.ok, str(found)
    assert [layer.query.width for layer in found.layers] == [32, 32]


def test_both_halves_of_a_small_model_have_heads_of_one_width():
    config = Configuration(
        hidden_size=288,
        num_attention_heads=8,
        encoder_num_attention_heads=8,
        decoder_num_attention_heads=8,
    )
    less = small(config)
    assert less.encoder_num_attention_heads == less.decoder_num_attention_heads == 4
    assert less.hidden_size == 4 * 36


def test_a_small_model_has_what_models_want():
    config = Configuration(
        vocab_size=None, num_experts_per_tok=None, q_lora_rank=None, hidden_size=64
    )
    less = small(config)
    assert (less.vocab_size, less.num_experts_per_tok) == (512, 2)
    assert less.q_lora_rank is None and less.pad_token_id is None
    assert np.isscalar(less.hidden_size)


class ByLayer(Configuration):
    """A configuration that raises for values that differ by layer, as transformers'."""

    def __getattribute__(self, name):
        if name in super().__getattribute__("__dict__").get("by_layer", ()):
            raise RuntimeError(f"'{name}' is a per-layer attribute")
        return super().__getattribute__(name)


def test_a_small_model_keeps_widths_that_differ_by_layer():
    """Without a stated head dimension, features and heads give 288."""
    stated = dict(hidden_size=2304, num_attention_heads=8, head_dim=256)
    less = small(ByLayer(by_layer=("head_dim",), **stated))
    assert vars(less)["head_dim"] == 256
    assert less.hidden_size == 4 * 256
    stated |= dict(head_dim=None)
    assert small(Configuration(**stated)).head_dim == 288


def test_all_coordinates_of_an_image_are_measured(parts):
    """The table has the columns of one coordinate after the other."""
    angles = "(position_ids[..., None].float() * self.inv_freq).flatten(-2)"
    table = f"(lambda angles: tuple({COS_SIN}))({angles})"
    rotary = parts(HALF, table=table).Rotary(d=16)
    turning = diagnose(rotary).layers[0].query
    assert turning.width == 32
    assert np.allclose(turning.frequencies[:8], turning.frequencies[8:], atol=1e-6)
    video = {"model_type": "minimax_m3_vl_vision"}
    turning = diagnose(rotary, config=CONFIG | video).layers[0].query
    assert turning.width == 48


def test_a_module_that_no_layer_may_use_contradicts_nothing(parts):
    config = {"model_type": "granitemoehybrid", "position_embedding_type": "nope"}
    found = diagnose(parts(HALF).Rotary(), config=CONFIG | config)
    assert found.ok and found.layers[0].query.width == 32


def test_frequencies_of_two_coordinates_in_another_order_are_no_fault(parts):
    """Each coordinate has every other frequency of the head, as in Pixtral."""
    config = {
        "model_type": "pixtral",
        "hidden_size": 64,
        "num_attention_heads": 2,
        "rope_theta": 500_000.0,
    }
    rotary = parts(HALF).Rotary()
    order = torch.cat([torch.arange(0, 16, 2), torch.arange(1, 16, 2)])
    rotary.inv_freq = rotary.inv_freq[order]
    assert "frequencies" in names(diagnose(rotary, config=CONFIG))
    assert diagnose(rotary, config=config).ok
    rotary.inv_freq[:8] = rotary.inv_freq[:8].flip(0) * 1.1
    assert names(diagnose(rotary, config=config))
