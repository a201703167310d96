"""The diagnosis names the single mistake planted in each model."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from posedu.command import main as command
from posedu.tools._foreign_code import Interruption
from posedu.tools.diagnose import Refused, diagnose, small
from posedu.tools.diagnose.report import (
    FAULT,
    NOTE,
    Finding,
    as_json,
    bases,
    series,
    without_attention,
)
from support.tiny_models import CONFIG, Attention, Configuration, Tiny, names


class Counting(nn.Module):
    """The same model without an argument for positions."""

    def __init__(self, **options):
        super().__init__()
        self.inner = Tiny(**options)

    def forward(self, input_ids):
        return self.inner(input_ids).logits


def test_partial_rotation_is_read_as_partial_and_as_proportional():
    """Frequencies have base 1000 or a million; the half layout distinguishes them."""
    parts = {"partial": {"width": 16, "base": 1e3}, "proportional": {"unrotated": 8}}
    for name, own in parts.items():
        for layout in "half", "interleaved":
            model = Tiny(**{"base": 1e6, "layout": layout} | own)
            turning = diagnose(model, behavior=False).layers[0].query
            assert turning.width == 16
            read = bases(turning)
            assert {**read} == pytest.approx(
                {"partial": 1e3, "proportional": 1e6}
                if layout == "interleaved"
                else {name: {"partial": 1e3, "proportional": 1e6}[name]},
                rel=1e-3,
            )
            text = str(diagnose(model, behavior=False))
            assert all(
                f"{b:,.0f}, {n}" in text
                for n, b in {"partial": 1e3, "proportional": 1e6}.items()
                if n in read
            )


def test_the_fault_of_a_proportional_head_names_its_base():
    config = CONFIG | {
        "rope_parameters": {
            "rope_type": "proportional",
            "partial_rotary_factor": 0.5,
            "rope_theta": 1e6,
        }
    }
    config.pop("rope_theta")
    right = diagnose(Tiny(base=1e6, unrotated=8), config=config, behavior=False)
    assert right.ok, right
    [fault] = diagnose(
        Tiny(base=1e4, unrotated=8), config=config, behavior=False
    ).faults
    assert fault.name == "base" and "base 10,000" in fault.text, fault


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("width", [32, 16])
def test_rotated_columns_are_measured(layout, width, product):
    model = Tiny(base=10_000.0, layout=layout, width=width, product=product)
    found = diagnose(model)
    for layer in found.layers:
        for side in (layer.query, layer.key):
            assert (side.layout, side.width, side.unexplained) == (layout, width, 0)
            omega = 1e4 ** (-np.arange(0, width, 2) / width)
            assert np.abs(side.frequencies / omega - 1).max() < 1e-4
            assert np.abs(side.frequencies - omega).max() < 4e-7
            assert side.attention_factor == pytest.approx(1, abs=1e-6)
    base, fastest = series(found.layers[0].query)
    assert base == pytest.approx(1e4, rel=1e-4) and fastest == pytest.approx(1)
    assert found.ok and {t.name: t.ok for t in found.trials} == {
        "own positions": True,
        "elsewhere": True,
        "padded": True,
        "padded and counted": True,
        "cached": True,
        "padded and cached": True,
        "packed": False,
        "after a longer text": True,
    }
    assert [f.name for f in found.findings] == ["packed"]


def test_a_model_that_is_as_its_configuration_says():
    found = diagnose(Tiny(config=CONFIG))
    assert found.ok, str(found)
    assert [layer.name for layer in found.layers] == ["layers.0", "layers.1"]
    assert "0–31: 32" in str(found) and "500,000" in str(found).replace(
        "5e+05", "500,000"
    )


UNREADABLE = {"model_type": "mine", "rope_theta": 500_000.0}
"""A configuration without a head dimension."""


def test_a_configuration_that_cannot_be_read_is_no_agreement():
    found = diagnose(Tiny(config=UNREADABLE), behavior=False)
    assert not found.ok and not found.faults
    why = "its configuration could not be read: head_dim is needed"
    assert f"not compared: {why}" in str(found)
    assert as_json(found)["uncompared"].startswith(why)


def test_a_model_without_a_configuration_is_not_compared():
    found = diagnose(Tiny(), behavior=False)
    assert found.ok and found.lines() == [
        "not compared: the model has no configuration",
        "no fault",
    ]
    assert "not compared" not in str(diagnose(Tiny(), config=CONFIG))


BROKEN = {
    "layout": (dict(layout="interleaved"), "layout"),
    "base lost": (dict(base=10_000.0), "base"),
    "table cast": (dict(cast="table"), "coarse table"),
    "positions cast": (dict(cast="positions"), "positions"),
    "frequencies cast": (dict(cast="frequencies"), "coarse frequencies"),
    "attention_factor": (dict(attention_factor=1.2), "attention_factor"),
    "queries alone": (dict(keys=False), "one side"),
    "width": (dict(width=16), "width"),
    "lower frequencies": (dict(doubled=0.25), "base"),
    "cache one off": (dict(cache_shift=1), "cache"),
    "no rotation": (dict(rotates=False), "no rotation"),
    "one layer": (dict(layers=[{}, {"base": 1e4}]), "base"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_fault_is_named(broken):
    options, name = BROKEN[broken]
    found = diagnose(Tiny(config=CONFIG, **options))
    assert name in names(found), str(found)
    assert all(f.mend for f in found.faults)


def test_the_report_names_measured_and_expected_numbers():
    report = str(diagnose(Tiny(config=CONFIG, base=10_000.0), behavior=False))
    assert "those of base 10,000, but the configuration requires base 500,000" in report
    report = str(diagnose(Tiny(config=CONFIG, cast="positions"), behavior=False))
    assert "rounded to bfloat16: 4093 is taken for 4096" in report
    report = str(diagnose(Tiny(config=CONFIG, layers=[{}, {"base": 1e4}])))
    assert "layers.1: the frequencies" in report and "layers.0:" not in report


def test_garbage_in_a_buffer():
    model = Tiny(config=CONFIG)
    for layer in model.layers:
        layer.omega.copy_(torch.tensor(np.random.default_rng(0).uniform(0, 1, 16)))
    assert {"frequencies", "unfilled buffer"} <= {*names(diagnose(model))}
    model.layers[0].omega[3] = torch.nan
    found = names(diagnose(model, behavior=False))
    assert {"not finite", "unfilled buffer"} <= {*found}
    for layer in model.layers:
        layer.omega.zero_()
    assert {"no rotation", "unfilled buffer"} <= {*names(diagnose(model))}
    stored = Tiny(config=CONFIG)
    for layer in stored.layers:  # Buffers in a checkpoint may have any values.
        layer.register_buffer("learned", torch.tensor([3.0, -1.0] * 8))
    assert diagnose(stored).ok


def test_scaling_that_is_not_applied():
    scaling = {"rope_type": "linear", "factor": 4.0}
    config = CONFIG | {"rope_scaling": scaling}
    assert names(diagnose(Tiny(config=config))) == ["method"]
    assert diagnose(Tiny(config=config, doubled=0.25)).ok


def test_layers_of_one_part_are_not_taken_for_those_of_another():
    """LFM3 lists the types of its vision layers; the text layers are measured."""
    text = CONFIG | {
        "rope_theta": None,
        "layer_types": ["full_attention", "full_attention"],
        "rope_parameters": {"full_attention": {"rope_theta": 5e5}},
    }
    picture = CONFIG | {"rope_theta": 1e4}
    both = {"model_type": "mine", "vision_config": picture, "text_config": text}
    assert diagnose(Tiny(config=both)).ok
    assert names(diagnose(Tiny(config=both, base=2e4))) == ["base"]


def test_the_scale_of_scores_may_be_in_both_sides():
    assert diagnose(Tiny(config=CONFIG, attention_factor=32**-0.25)).ok
    said = diagnose(Tiny(config=CONFIG, attention_factor=32**-0.5))
    assert names(said) == ["attention_factor"]


def test_a_layer_that_should_not_be_rotated():
    config = CONFIG | {"no_rope_layers": [1, 0]}
    assert names(diagnose(Tiny(config=config))) == ["rotation"]
    unrotated = [{}, {"rotates": False}]
    assert diagnose(Tiny(config=config, layers=unrotated)).ok


def test_notes_are_no_faults():
    found = diagnose(Tiny(sense=-1, permuted=True, layout="interleaved"))
    assert found.ok
    assert {"clockwise", "permuted"} <= {f.name for f in found.findings}
    assert (
        found.layers[0].query.layout == "interleaved"
    )  # This is the layout of the weights.


def test_one_fault_is_reported_once():
    found = diagnose(Tiny(config=CONFIG, cast="frequencies"), behavior=False)
    assert names(found) == ["coarse frequencies"]


def test_angles_that_belong_to_no_frequency():
    """Lengths are right, so cosines and sines are not rounded."""

    def also(y, positions):
        half = positions[:, None, :, None].float() ** 2
        a, b = y.chunk(2, -1)
        return torch.cat(
            [a * half.cos() - b * half.sin(), a * half.sin() + b * half.cos()], -1
        )

    assert "angles" in names(diagnose(changed(also), behavior=False))


def test_features_that_are_normalized_after_rotation():
    """A module sets the length of queries and keys, as in Llama 4."""

    class Unit(nn.Module):
        def forward(self, x):
            return x / x.square().mean(-1, keepdim=True).sqrt()

    class Normed(Attention):
        def __init__(self):
            super().__init__()
            self.unit = Unit()

        def rotate(self, x, positions):
            return self.unit(super().rotate(x, positions))

    model = Tiny(config=CONFIG)
    for n in range(2):
        model.layers[n] = Normed()
    found = diagnose(model)
    assert found.ok, str(found)
    assert found.layers[0].query.width == 32


def test_coarse_features_do_not_make_two_sides_of_one():
    """A bfloat16 pair of low frequency may seem unrotated on one side only."""
    torch.manual_seed(0)
    model = Tiny(layers=[{}, {}], base=500_000.0).to(torch.bfloat16)
    for layer in model.layers:
        layer.omega = 5e5 ** (-torch.arange(0, 32, 2).float() / 32)
    for seed in range(3):
        torch.manual_seed(seed)
        for layer in model.layers:
            nn.init.normal_(layer.project.weight, std=0.125)
        assert "one side" not in names(diagnose(model, behavior=False))


class Other(Attention):
    """Attention with a change of the rotated features."""

    def __init__(self, change, **options):
        super().__init__(**options)
        self.change = change

    def rotate(self, x, positions):
        return self.change(super().rotate(x, positions), positions)


def changed(change, config=None):
    model = Tiny(config=config)
    for n in range(2):
        model.layers[n] = Other(change)
    return model


def test_a_change_that_is_no_rotation_of_pairs_is_unexplained():
    def mixed(y, positions):
        y = y.clone()
        third = y[..., :1] * positions[:, None, :, None].float().cos()
        y[..., 5:6] += third
        return y

    found = diagnose(changed(mixed), behavior=False)
    assert found.layers[0].query.unexplained >= 1
    assert "unexplained" in [f.name for f in found.findings]


def test_features_that_grow_with_the_position_are_not_rotated():
    """They grow as by the temperature of unrotated layers in Beam."""

    def hotter(y, positions):
        return y * (1 + positions[:, None, :, None].float() / 64).log1p()

    model = changed(hotter, config=CONFIG | {"no_rope_layers": [1, 0]})
    model.layers[0] = Attention()
    model.layers[1].rotates = False
    found = diagnose(model)
    assert found.layers[1].query.width == found.layers[1].query.unexplained == 0
    assert found.ok, str(found)


def test_one_side_in_another_order():
    calls = []

    def every_other(y, positions):
        calls.append(1)
        return y.flip(-1) if len(calls) % 2 else y

    assert "permuted" in names(diagnose(changed(every_other), behavior=False))


def test_positions_beyond_the_training_length_are_left_out():
    """Frequencies that depend on the length change there, here at 512."""

    def later(y, positions):
        far = (positions[:, None, :, None] >= 512).float()
        return y * (1 - far) + y.roll(1, -1) * far

    config = CONFIG | {"max_position_embeddings": 512}
    assert diagnose(changed(later, config), behavior=False).ok
    said = diagnose(changed(later, CONFIG), behavior=False)
    assert names(said) == ["no pairs"]


def test_positions_that_are_added():
    found = diagnose(Tiny(added=True, rotates=False), positions=(0, 1, 2, 8, 33))
    assert found.ok
    assert {"absolute", "elsewhere", "padding"} <= {f.name for f in found.findings}
    turned = diagnose(Tiny(added=True), positions=(0, 1, 2, 8, 33))
    assert turned.layers[0].query.layout == "half"
    assert turned.layers[0].query.frequencies[0] == pytest.approx(1, abs=1e-5)


def test_a_model_that_counts_positions_itself():
    found = diagnose(Counting(base=10_000.0, layout="interleaved"))
    assert found.layers[1].query.layout == "interleaved"
    assert series(found.layers[0].query)[0] == pytest.approx(1e4, rel=1e-3)
    assert "its forward has no position_ids" in str(found)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    base=st.floats(100, 1e7),
    layout=st.sampled_from(["half", "interleaved"]),
    width=st.sampled_from([8, 12, 24, 32]),
    sense=st.sampled_from([1, -1]),
    attention_factor=st.floats(0.5, 2),
)
def test_any_rotation_is_found_again(base, layout, width, sense, attention_factor):
    own = dict(
        base=base,
        layout=layout,
        width=width,
        sense=sense,
        attention_factor=attention_factor,
    )
    found = diagnose(Tiny(layers=[{}], **own), behavior=False).layers[0]
    omega = base ** (-np.arange(0, width, 2) / width)
    assert found.query.layout == layout and found.query.width == width
    assert np.abs(sense * found.query.frequencies - omega).max() < 1e-6
    assert found.key.attention_factor == pytest.approx(attention_factor, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_in_other_dtypes(dtype):
    model = Tiny(layers=[{}], base=10_000.0).to(dtype)
    model.layers[0].omega = model.layers[0].omega.float()
    diagnosis = diagnose(model, behavior=False)
    found = diagnosis.layers[0].query
    assert diagnosis.ok, str(diagnosis)
    assert found.layout == "half"
    omega = 1e4 ** (-np.arange(0, 32, 2) / 32)
    visible = np.abs(found.frequencies) > found.uncertainty
    assert visible.sum() >= 8
    assert np.abs(found.frequencies - omega[: len(visible)]).max() < 4e-3


class Upcast(Tiny):
    """A model of 16 bits that returns float32 logits, as many do."""

    def forward(self, input_ids, attention_mask=None, position_ids=None, **more):
        found = super().forward(input_ids, attention_mask, position_ids, **more)
        found["logits"] = found.logits.float()
        return found


@pytest.mark.parametrize("made", [Tiny, Upcast])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_outputs_of_16_bits_are_not_compared(dtype, made):
    """A bound of 4096 roundoffs would pass any output."""
    model = made().to(dtype)
    for layer in model.layers:
        layer.omega = 5e5 ** (-torch.arange(0, 32, 2).float() / 32)
    found = diagnose(model)
    assert found.ok and "note (16 bits): all layers" in str(found)
    packed = next(trial for trial in found.trials if trial.name == "packed")
    assert packed.ok is None and "give the model in float32" in packed.why
    assert {trial.ok for trial in found.trials} == {None}
    again = {trial.name: trial.ok for trial in diagnose(model.float()).trials}
    assert again["packed"] is False


def test_a_cast_of_the_model_that_casts_its_frequencies():
    said = diagnose(Tiny().bfloat16(), behavior=False)
    assert names(said) == ["coarse buffer", "coarse buffer"]
    assert "layers.0.omega is in bfloat16" in str(said)


def test_dropout_is_no_fault_of_positions():
    """A new model is in training mode."""

    class Dropping(Tiny):
        def forward(self, input_ids, attention_mask=None, position_ids=None, **more):
            found = super().forward(input_ids, attention_mask, position_ids, **more)
            found["logits"] = F.dropout(found.logits, 0.5, self.training)
            return found

    model = Dropping(config=CONFIG).train()
    found = diagnose(model)
    assert found.ok and model.training, str(found)


def test_the_model_is_left_as_it_was():
    model = Tiny().train()
    model.layers[1].eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    diagnose(model)
    assert model.training and not model.layers[1].training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert not model._forward_hooks and not model.layers[0]._forward_pre_hooks


class WithoutAttention(nn.Module):
    """A model without attention."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(97, 8)

    def forward(self, input_ids):
        return self.embed(input_ids)


def test_models_that_cannot_be_diagnosed_are_refused_with_a_reason():
    with pytest.raises(Refused, match="no attention was seen"):
        diagnose(WithoutAttention())
    with pytest.raises(Refused, match=r"no nn\.Embedding"):
        diagnose(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="must begin with 0 and 1 and increase"):
        diagnose(Tiny(), positions=(0, 2, 1))

    class Failing(Tiny):
        def forward(self, input_ids, position_ids):
            raise RuntimeError("no such thing")

    with pytest.raises(Refused, match="does not run: no such thing"):
        diagnose(Failing())


def test_inputs_of_ones_own():
    class Named(Tiny):
        def forward(self, words, where):
            return super().forward(words, position_ids=where)

    found = diagnose(Named(), inputs=lambda tokens, at: {"words": tokens, "where": at})
    assert found.layers[0].query.layout == "half"


def test_inputs_of_a_model_without_tokens():
    """The function of the inputs decides what they are."""

    class Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Attention()

        def forward(self, x, at):
            return self.layer(x, at, None, None)[0]

    table = torch.randn(256, 64)

    def inputs(tokens, at):
        return {"x": table[tokens], "at": at}

    found = diagnose(Features(), inputs=inputs)
    assert {trial.ok for trial in found.trials} == {None}  # The model needs positions.
    assert found.layers[0].query.layout == "half"
    with pytest.raises(Refused, match=r"no nn\.Embedding"):
        diagnose(Features())


def test_outputs_that_cannot_be_compared():
    class Pooled(Tiny):
        def forward(self, input_ids, attention_mask=None, position_ids=None):
            found = super().forward(input_ids, attention_mask, position_ids)
            return found.logits[:, -(input_ids.shape[1] // 2) :]

    told = {t.name: t for t in diagnose(Pooled(config=CONFIG)).trials}
    assert told["elsewhere"].ok
    assert told["padded"].ok is None and "cannot be compared" in told["padded"].why


def right():
    return Tiny(config=CONFIG)


def wrong():
    return Tiny(config=CONFIG, layout="interleaved")


def unreadable():
    return Tiny(config=UNREADABLE)


def nothing():
    return 3


def raising():
    raise RuntimeError("two\nlines")


def leaving():
    raise SystemExit(3)


class Leaving(BaseException):
    """Error of code under test that is no Exception."""


class Ending(Tiny):
    """A model that raises ``error`` after some ``calls``, from then on."""

    def __init__(self, error, calls=0):
        super().__init__(config=CONFIG)
        self.error, self.left = error, calls
        self.register_forward_pre_hook(type(self).count)

    def count(self, _):
        """Count a call; raise the error if it is one too many."""
        self.left -= 1
        if self.left < 0:
            raise self.error


def ended():
    return Ending(SystemExit(0))


def left():
    raise Leaving("gone")


@pytest.mark.parametrize(
    "error, said",
    [(SystemExit(0), "it raises SystemExit: 0"), (Leaving(), "it raises Leaving")],
)
def test_a_model_that_ends_the_process_does_not_run(error, said):
    with pytest.raises(Refused, match=f"the model does not run: {said}"):
        diagnose(Ending(error))


def test_a_trial_in_which_a_model_ends_the_process_is_not_tried():
    """The model runs as long as rotations are measured, and then no longer."""
    patient = Ending(SystemExit(0), calls=1000)
    assert not any("SystemExit" in text for text in diagnose(patient).untried)
    count = (1000 - patient.left) * 3 // 4
    found = diagnose(Ending(SystemExit(0), calls=count))
    assert any("raises SystemExit" in text for text in found.untried)
    assert not found.faults


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interruption()])
def test_an_interruption_ends_a_diagnosis(error):
    with pytest.raises(type(error)):
        diagnose(Ending(error))


def test_at_the_command_line(capsys):
    here = __name__
    assert command(["diagnose", f"{here}:right"]) == 0
    assert "Measured rotations of Tiny" in capsys.readouterr().out
    assert command(["diagnose", f"{here}:wrong"]) == 1
    assert "fault (layout)" in capsys.readouterr().out
    assert command(["diagnose", f"{here}:wrong", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["layers"][0]["layout"] == "interleaved"
    assert command(["diagnose", f"{here}:unreadable"]) == 2
    assert "not compared: its configuration" in capsys.readouterr().out
    for target, why in (
        ("mm", "mm: neither a file or folder nor package.module:function"),
        ("/nonexist", "neither a file or folder nor package.module:function"),
        (f"{here}:nothing", "must return a torch.nn.Module"),
        (f"{here}:missing", "missing"),
        ("no_such_module:make", "no_such_module"),
        (f"{here}:raising", "RuntimeError: two lines"),
        (f"{here}:leaving", "SystemExit: 3"),
        (f"{here}:left", "Leaving: gone"),
        (f"{here}:ended", "the model does not run: it raises SystemExit: 0"),
        (":", "Empty module name"),
    ):
        assert command(["diagnose", target]) == 2
        said = capsys.readouterr().err
        assert why in said and said.count("\n") == 1


def test_json_holds_all_of_it():
    found = diagnose(Tiny(config=CONFIG))
    said = json.loads(json.dumps(as_json(found)))
    assert len(said["layers"][0]["frequencies"]) == 16
    assert {t["name"] for t in said["trials"]} == {t.name for t in found.trials}


def test_a_small_model_is_of_float32_whatever_the_file_says():
    part = Configuration(dtype="float16", torch_dtype=torch.float16)
    less = small(Configuration(dtype=torch.bfloat16, part=part))
    assert less.dtype == less.part.dtype == less.part.torch_dtype == torch.float32
    assert part.dtype == "float16"
    assert small(Configuration(dtype=None)).dtype is None


@pytest.mark.parametrize("sections, few", [((8, 20, 8), (1, 2, 1)), ((30, 6), (3, 1))])
def test_the_sections_of_a_small_model_have_all_its_layers(sections, few):
    names = ("n_input_layers", "n_recurrent_layers", "n_output_layers")[
        -len(sections) :
    ]
    counts = dict(zip(names, sections, strict=True))
    less = small(Configuration(num_hidden_layers=36, n_other_layers=36, **counts))
    assert less.n_other_layers == 36
    less = small(Configuration(num_hidden_layers=36, **counts))
    assert tuple(getattr(less, name) for name in names) == few
    assert sum(few) == less.num_hidden_layers


def test_a_small_model_rotates_its_heads_as_the_large_one():
    large = Configuration(
        hidden_size=4096,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=None,
        num_hidden_layers=32,
        layer_types=["sliding_attention"] * 31 + ["full_attention"],
        vocab_size=128_000,
        pad_token_id=127_999,
        rope_theta=5e5,
        initializer_range=0.02,
        sections=[16, 24, 24],
        part=Configuration(n_embd=64, n_head=2, n_layer=8),
    )
    less = small(large)
    assert (less.num_attention_heads, less.num_key_value_heads) == (4, 1)
    assert (less.hidden_size, less.head_dim) == (512, 128)
    assert less.num_hidden_layers == len(less.layer_types) == 4
    assert less.pad_token_id < less.vocab_size == 512
    assert (less.rope_theta, less.sections) == (5e5, [16, 24, 24])
    assert (less.part.n_embd, less.part.n_head, less.part.n_layer) == (64, 2, 4)
    assert less.initializer_range == pytest.approx(512**-0.5)
    assert large.hidden_size == 4096 and large.part.n_layer == 8
    large.layer_types[5] = "full_attention"
    assert set(small(large).layer_types) == {"sliding_attention", "full_attention"}
    assert small(large).num_hidden_layers == 6
    every = small(large, layers=None)
    assert every.num_hidden_layers == len(every.layer_types) == 32


def test_a_layout_is_no_fault_where_attention_was_not_seen():
    """It may reorder features first, as that of Qwen2.5-Omni's transformer does."""
    fault = Finding(FAULT, "layout", "pairs are other ones.")
    assert without_attention(fault).level == NOTE
    assert without_attention(replace(fault, name="base")).level == FAULT
