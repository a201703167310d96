"""Log-n temperature: published numbers, properties, errors."""

import json
import math
import tomllib

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.catalog import CATALOG
from posedu.numpy import attend as attend_numpy
from posedu.numpy import log_n
from posedu.numpy.attention import softmax
from posedu.numpy.relative import log_temperature
from posedu.numpy.scaling import log_n_temperature
from posedu.sympy import scaling as symbolic
from posedu.torch import Attention, AxialRoPE, KVCache, LogN, RoPE, attend
from posedu_sphinx import ROOT

pytestmark = pytest.mark.usefixtures("untraced_flex")

LLAMA_4 = dict(growth="steps", index_from=1, alpha=0.1, length=8192.0)
MINISTRAL = dict(growth="steps", index_from=0, alpha=0.1, length=16384.0)
INKLING = dict(growth="floor", index_from=1, alpha=0.1, length=128000.0)
BEAM = dict(growth="power", index_from=1, alpha=0.1, length=2048.0)
SHIPPED = {"llama4": LLAMA_4, "ministral": MINISTRAL, "inkling": INKLING, "beam": BEAM}
shipped = pytest.mark.parametrize("name", SHIPPED)


@pytest.mark.parametrize(
    ("options", "last_cold", "next_one"),
    [(LLAMA_4, 8190, 1 + 0.1 * math.log(2)), (MINISTRAL, 16383, 1 + 0.1 * math.log(2))],
)
def test_the_first_step_is_where_it_ships(options, last_cold, next_one):
    """Llama 4 counts tokens, Ministral positions: one is a token later."""
    tau = log_n_temperature(np.array([0, last_cold, last_cold + 1]), **options)
    assert tau.tolist() == [1, 1, next_one]
    other = mutants.log_n_steps(np.array([last_cold + 1]), 0.1, options["length"])
    assert (other == tau[2:]).all() == (options is MINISTRAL)


def test_the_floor_is_inkling_s():
    at = np.array([0, 127998, 127999, 128000, 10**6])
    tau = log_n_temperature(at, **INKLING)
    assert tau[:3].tolist() == [1, 1, 1] and tau[3] > 1
    np.testing.assert_array_equal(tau, log_temperature(at, floor=128000.0, alpha=0.1))


def test_a_power_starts_above_1():
    """At position 0 one token has been seen: (1 + 1/2048)^0.1."""
    tau = log_n_temperature(np.array([0, 2047]), **BEAM)
    np.testing.assert_allclose(tau, [(1 + 1 / 2048) ** 0.1, 2**0.1], rtol=1e-15)


@pytest.mark.parametrize("standing_out", [0.5, 1.0, 2.0])
def test_ln_n_keeps_the_weight_of_a_key_that_stands_out(standing_out):
    """n^c/(n^c + n − 1) goes to 0, ½ or 1 as c is below, at or above 1.

    Without a temperature the weight goes to 0 like e^c/n.
    """
    weights = []
    for n in (10, 10**3, 10**5):
        tau = log_n_temperature(
            np.array([n - 1]),
            growth="learned",
            index_from=1,
            slope=np.ones(1),
            offset=np.zeros(1),
        )
        logits = np.zeros(n)
        logits[0] = standing_out
        weights.append(softmax(tau.item() * logits)[0])
        assert softmax(logits)[0] < math.exp(standing_out) / n
    if standing_out < 1:
        assert weights[-1] < weights[0] / 10
    elif standing_out == 1:
        np.testing.assert_allclose(weights[-1], 0.5, atol=1e-4)
    else:
        assert weights[-1] > 0.9999


@shipped
@given(st.integers(-(2**40), 2**40))
def test_temperatures_never_fall_and_are_at_least_1(name, position):
    tau = log_n_temperature(np.array([position, position + 1]), **SHIPPED[name])
    assert 1 <= tau[0] <= tau[1] and np.isfinite(tau).all()


@shipped
def test_the_three_implementations_agree(name):
    options = SHIPPED[name]
    at = [0, 1, 2047, 2048, 8191, 8192, 16384, 128000, 10**7]
    exact = {
        key: sp.nsimplify(value) if key in ("alpha", "length") else value
        for key, value in options.items()
    }
    expected = [float(symbolic.log_n_temperature(sp.Integer(t), **exact)) for t in at]
    np.testing.assert_allclose(
        log_n_temperature(np.array(at), **options), expected, rtol=1e-14
    )
    q = torch.ones(1, 2, len(at), 4, dtype=torch.float64)
    warm, k = LogN(**options).rotate(q, q, torch.tensor(at))
    assert k is q
    np.testing.assert_allclose(warm[0, 0, :, 0].numpy(), expected, rtol=1e-14)


def test_scores_of_equal_offsets_differ():
    """So no encoding of offsets: what it costs."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 6, 4)) for _ in range(3))
    options = dict(growth="power", index_from=1, alpha=0.5, length=2.0)
    here, there = (
        attend_numpy(q, k, v, log_n(**options), positions=np.arange(6) + shift)
        for shift in (0, 100)
    )
    assert np.abs(here - there).max() > 0.1


@pytest.mark.parametrize("route", ["eager", "sdpa", "flex"])
def test_it_goes_with_a_rotation(route):
    """Scaling commutes with rotation."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 9, 8, dtype=torch.float64) for _ in range(3))
    options = dict(growth="floor", index_from=1, alpha=0.5, length=2.0)
    rotation = RoPE(8, layout="half")
    both = attend(q, k, v, LogN(**options, over=rotation), route=route)
    tau = torch.tensor(log_n_temperature(np.arange(9), **options))
    by_hand = attend(q * tau[:, None], k, v, rotation)
    assert (both - by_hand).abs().max() < 1e-14
    assert (both - attend(q, k, v, rotation)).abs().max() > 1e-3


def test_decoding_is_a_full_run():
    torch.manual_seed(0)
    encoding = LogN(growth="steps", index_from=0, alpha=0.5, length=3.0)
    layer = Attention(16, heads=2, encoding=encoding).double()
    x, cache = torch.randn(1, 11, 16, dtype=torch.float64), KVCache()
    parts = [layer(part, cache=cache) for part in x.split([4, 1, 1, 5], 1)]
    assert (torch.cat(parts, 1) - layer(x)).abs().max() < 1e-14


def test_a_learned_temperature_starts_at_1_and_trains():
    torch.manual_seed(0)
    encoding = LogN(growth="learned", index_from=1, heads=2)
    layer = Attention(16, heads=2, encoding=encoding).double()
    x = torch.randn(1, 7, 16, dtype=torch.float64)
    plain = Attention(16, heads=2).double()
    plain.load_state_dict(layer.state_dict(), strict=False)
    assert (layer(x) - plain(x)).abs().max() < 1e-14
    layer(x).square().sum().backward()
    assert (encoding.slope.grad.abs() > 0).all()
    assert (encoding.offset.grad.abs() > 0).all()


def test_positions_in_the_millions_are_not_rounded_in_bfloat16():
    """τ is one float64 number for each; only the product is bfloat16."""
    q = torch.ones(1, 1, 2, 4, dtype=torch.bfloat16)
    at = torch.tensor([8191, 2**24 + 1])
    warm, _ = LogN(**LLAMA_4).rotate(q, q, at)
    exact = log_n_temperature(at.numpy(), **LLAMA_4)
    assert (warm[0, 0, :, 0].double() - torch.tensor(exact)).abs().max() < 2**-8


def test_the_data_on_models_say_what_can_be_computed():
    """Each family once a pattern, and the counts that were read with them."""
    data = tomllib.loads((ROOT / "book/data/layers.toml").read_text("utf-8"))
    patterns = data["pattern"]
    for pattern in patterns:
        named = pattern["default"] + pattern["configured"]
        assert len(set(named)) == len(named) > 0 and pattern["rule"]
    none, fourth, recurrent, learned, *_ = patterns
    assert len(none["default"] + fourth["default"]) == 15
    assert len(none["configured"] + recurrent["configured"]) == 5
    assert len(recurrent["default"] + learned["default"]) == 4
    adopters = {name for t in data["temperature"] for name in t["model"].split(", ")}
    assert adopters == set(CATALOG["log-n"].adopters)
    for own in data["temperature"]:
        numbers = {k: own[k] for k in ("alpha", "length") if k in own}
        if numbers:
            ours = SHIPPED[own["model"].lower().replace(" ", "").partition("-")[0]]
            assert numbers.items() <= ours.items()
            assert own["growth"] == ours["growth"]
            assert own["index_from"] == ours["index_from"]


def test_layers_without_rope_are_counted_as_the_data_say():
    """From the first layer or from the last, as the code of transformers counts."""
    path = ROOT / "tests/oracles/model-code.json"
    code = json.loads(path.read_text(encoding="utf-8"))
    for depth, models in code["layers_with_rope"].items():
        for name, has in models.items():
            at = [n for n, rope in enumerate(has) if not rope]
            if name.startswith("muse"):
                at = [len(has) - 1 - n for n in reversed(at)]
                assert [n % 4 for n in at] == [0] * len(at)
            else:
                assert [(n + 1) % 4 for n in at] == [0] * len(at)
            assert len(has) == int(depth) and len(at) >= len(has) // 4


A = np.ones(2)
REFUSED = {
    "an unknown growth": (
        lambda: log_n(growth="log", index_from=1, alpha=0.1, length=9.0),
        "growth must be 'steps' or 'floor' or 'power' or 'learned'",
    ),
    "no length": (
        lambda: LogN(growth="steps", index_from=1, alpha=0.1),
        "needs alpha and length",
    ),
    "a length of 0": (
        lambda: log_n(growth="steps", index_from=1, alpha=0.1, length=0.0),
        "length must be above 0",
    ),
    "counting from 2": (
        lambda: LogN(growth="steps", index_from=2, alpha=0.1, length=9.0),
        "index_from must be 0 or 1",
    ),
    "a falling one": (
        lambda: LogN(growth="steps", index_from=1, alpha=-0.1, length=9.0),
        "alpha must be finite and not negative",
    ),
    "learned without heads": (
        lambda: LogN(growth="learned", index_from=1),
        "growth='learned' without them",
    ),
    "heads of what is not learned": (
        lambda: LogN(growth="steps", index_from=1, alpha=0.1, length=9.0, heads=2),
        "growth='steps' with them",
    ),
    "learned with a length": (
        lambda: LogN(growth="learned", index_from=1, heads=2, length=9.0),
        "no alpha and no length",
    ),
    "a slope alone": (
        lambda: log_n(growth="learned", index_from=1, slope=A),
        "slope and offset go together",
    ),
    "over no rotation": (
        lambda: LogN(**LLAMA_4, over=LogN(**LLAMA_4)),
        "over must be a rotation, got LogN",
    ),
    "over two axes": (
        lambda: LogN(**LLAMA_4, over=AxialRoPE(8, layout="half", order="concatenated")),
        "over must rotate by positions that are numbers",
    ),
    "a rotation of another size": (
        lambda: Attention(
            16, heads=2, encoding=LogN(**LLAMA_4, over=RoPE(4, layout="half"))
        ),
        "RoPE was made for d = 4",
    ),
    "a matrix of positions": (
        lambda: log_n_temperature(np.ones((2, 2)), **LLAMA_4),
        "one number for each token",
    ),
    "another number of heads": (
        lambda: attend_numpy(
            np.ones((3, 2, 4)),
            np.ones((3, 2, 4)),
            np.ones((3, 2, 4)),
            log_n(growth="learned", index_from=1, slope=A, offset=A),
        ),
        r"slope must be \[3\]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_temperature_is_refused(case, unchecked):
    call, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize("alpha", [1e300, 3.1])
def test_an_alpha_by_which_temperatures_overflow_is_refused(alpha, unchecked):
    """The temperature was infinite, without a word."""
    options = {"growth": "power", "index_from": 1, "alpha": alpha, "length": 2048.0}
    for make in (log_n, LogN):
        with pytest.raises(ValueError, match="alpha must be at most 3 for growth='po"):
            make(**options)
    with pytest.raises(ValueError, match="alpha must be at most 3 for growth='power'"):
        log_n_temperature(np.arange(3), **options)
    with pytest.raises(ValueError, match=r"alpha must be at most 5.8e\+36 for growth="):
        LogN(**options | {"growth": "steps", "alpha": 1e300})


def test_the_largest_alpha_gives_finite_temperatures_at_every_exact_position():
    at = np.array([0, 4096, 2**53 - 1])
    for growth, alpha in ("power", 3.02), ("steps", 5.8e36), ("floor", 5.8e36):
        options = {"growth": growth, "index_from": 1, "alpha": alpha, "length": 2048.0}
        assert np.isfinite(log_n_temperature(at, **options)).all()
        q = torch.full((1, 1, 3, 2), 1.0)
        hot, _ = LogN(**options).rotate(q, q, torch.tensor(at))
        assert hot.isfinite().all()


@pytest.mark.parametrize("length", [1e-320, 1e-300])
def test_a_length_by_which_positions_overflow_is_refused(length, unchecked):
    """Position / length was infinite, and the logits were not numbers."""
    options = {"growth": "steps", "index_from": 1, "alpha": 0.5, "length": length}
    for make in (log_n, LogN):
        with pytest.raises(ValueError, match="length must be at least 1e-250"):
            make(**options)
