"""Context extension methods: published numbers, properties, errors."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.catalog import ROPE_SCALINGS
from posedu.numpy import rotary
from posedu.numpy.frequencies import frequencies, wavelengths
from posedu.numpy.rotary import (
    lerope,
    llama3,
    longrope,
    longrope_attention_factor,
    ntk,
    ntk_dynamic,
    p_rope,
    pi,
    resonance,
    riflex,
    rope,
    yarn,
    yarn_attention_factor,
)
from support import ROOT

ORACLE = json.loads(
    (ROOT / "tests/oracles" / "rope-types.json").read_text(encoding="utf-8")
)
CASES = {case["name"]: case for case in ORACLE["cases"]}
CODE = json.loads(
    (ROOT / "tests/oracles" / "model-code.json").read_text(encoding="utf-8")
)
TRAINED = "original_max_position_embeddings"

dims = st.integers(2, 64).map(lambda pairs: 2 * pairs)
bases = st.floats(2, 1e7)
factors = st.floats(1, 64)


def ours(case):
    """Frequencies and attention factor of a configuration, by our functions."""
    given, omega = case["parameters"], frequencies(case["d"], base=case["base"])
    kind, factor = given["rope_type"], given.get("factor")
    if kind == "linear":
        return pi(omega, factor=factor), 1.0
    if kind == "dynamic":
        lengths = dict(trained=case["longest"], length=case["length"])
        return ntk_dynamic(omega, factor=factor, **lengths), 1.0
    if kind == "llama3":
        ends = dict(low=given["low_freq_factor"], high=given["high_freq_factor"])
        return llama3(omega, factor=factor, trained=given[TRAINED], **ends), 1.0
    if kind == "proportional":
        return p_rope(omega, share=given["partial_rotary_factor"]), 1.0
    if kind == "longrope":
        lists = dict(short=given["short_factor"], long=given["long_factor"])
        lengths = dict(trained=given[TRAINED], length=case["length"])
        attention_factor = longrope_attention_factor(factor, trained=given[TRAINED])
        return longrope(omega, **lists, **lengths), attention_factor
    scales = {"mscale": "mscale", "mscale_all": "mscale_all_dim"}
    names = {"fast": "beta_fast", "slow": "beta_slow", "truncate": "truncate"}
    options, own = (
        {ours: given[theirs] for ours, theirs in each.items() if theirs in given}
        for each in (names, scales)
    )
    mapped = yarn(omega, factor=factor, trained=given[TRAINED], ramp="index", **options)
    return mapped, yarn_attention_factor(factor, **own)


@pytest.mark.parametrize("name", CASES)
def test_transformers_agrees(name):
    """Its numbers are float32: powers err by a few roundings of their exponents."""
    case = CASES[name]
    mapped, attention_factor = ours(case)
    np.testing.assert_allclose(mapped, case["frequencies"], rtol=1e-6, atol=0)
    assert attention_factor == pytest.approx(case["attention_factor"], rel=1e-12)


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("yarn")])
def test_the_paper_s_ramp_is_not_what_runs(name):
    """Pairs in the middle rotate half as fast again under one method as the other."""
    case = CASES[name]
    given = case["parameters"]
    ends = dict(fast=given.get("beta_fast", 32.0), slow=given.get("beta_slow", 1.0))
    printed = yarn(
        frequencies(case["d"], base=case["base"]),
        factor=given["factor"],
        trained=given[TRAINED],
        ramp="turns",
        **ends,
    )
    ratios = np.array(case["frequencies"]) / printed
    assert ratios.max() > 1.5


def test_the_ramp_ends_at_the_last_index_of_features():
    """The last index is d − 1, which few turns or many trained tokens reach."""
    omega = frequencies(8, base=100.0)
    found = yarn(omega, factor=4.0, trained=1e9, ramp="index")
    gamma = 1 - np.clip((np.arange(4) - 7) / 0.001, 0, 1)
    np.testing.assert_allclose(found, (1 - gamma) * omega / 4 + gamma * omega)
    step = math.log(omega[0] / omega[1])
    first = math.floor(math.log(1e3 / (2 * math.pi * 32)) / step)
    found = yarn(omega, factor=4.0, trained=1e3, slow=1e-9, ramp="index")
    gamma = 1 - np.clip((np.arange(4) - first) / (7 - first), 0, 1)
    np.testing.assert_allclose(found, (1 - gamma) * omega / 4 + gamma * omega)


def test_the_two_ramps_at_the_published_size():
    """d = 128, L = 4096, s = 16: a factor of up to three around pair 38."""
    sizes = dict(factor=16.0, trained=4096)
    by = {r: yarn(frequencies(128), ramp=r, **sizes) for r in ("turns", "index")}
    ratios = by["index"] / by["turns"]
    assert 2.9 < ratios.max() < 3.1 and 28 <= ratios.argmax() <= 44
    assert (ratios > 1.9).sum() >= 15


def test_transformers_does_not_read_a_nested_truncate():
    """transformers 5.23.0 looks for `truncate` above the layer types' parameters."""
    case = ORACLE["nested"]
    given = case["parameters"]
    assert given["truncate"] is False
    rounded, asked = (
        yarn(
            frequencies(case["d"], base=case["base"]),
            factor=given["factor"],
            trained=given[TRAINED],
            ramp="index",
            truncate=truncate,
        )
        for truncate in (True, False)
    )
    np.testing.assert_allclose(case["frequencies"], rounded, rtol=1e-6, atol=0)
    off = np.abs(rounded / asked - 1).max()
    assert off == pytest.approx(0.76, abs=0.005)


# Interpolation


INTERPOLATED = {128: (0.4593, 0.4343), 64: (0.2598, 0.2171), 16: (0.1211, 0.0543)}


@pytest.mark.parametrize("d", INTERPOLATED)
def test_the_printed_bound_of_interpolation_is_too_small(d):
    """All products 1, half way between the offsets 0 and 1, base 10,000."""
    omega = frequencies(d)
    error = abs(np.cos(omega / 2).sum() - (d / 2 + np.cos(omega).sum()) / 2)
    printed = d / (8 * math.log(1e4)) / 4
    assert error == pytest.approx(INTERPOLATED[d][0], abs=5e-5)
    assert printed == pytest.approx(INTERPOLATED[d][1], abs=5e-5)
    assert printed < error < printed + 1 / 8


# NTK


@given(dims, bases, factors)
def test_ntk_is_another_base(d, base, factor):
    """b·s^{d/(d−2)}: the fastest pair stays, the slowest is divided by s."""
    larger = base * factor ** (d / (d - 2))
    mapped = ntk(frequencies(d, base=base), factor=factor)
    np.testing.assert_allclose(mapped, frequencies(d, base=larger), rtol=1e-12)
    assert mapped[0] == 1
    np.testing.assert_allclose(
        mapped[-1] * factor, frequencies(d, base=base)[-1], rtol=1e-12
    )


@pytest.mark.parametrize(
    "version", [mutants.ntk_with_the_factor, mutants.ntk_without_two]
)
def test_other_bases_do_not_divide_the_slowest_by_the_factor(version):
    omega = frequencies(64)
    slowest = version(64, 10000.0, 8.0)[-1] * 8.0
    assert abs(slowest / omega[-1] - 1) > 0.01
    assert abs(ntk(omega, factor=8.0)[-1] * 8.0 / omega[-1] - 1) < 1e-12


def test_dynamic_is_plain_up_to_the_trained_length():
    omega = frequencies(16)
    for length in (1, 63, 64):
        for factor in (1.0, 4.0):
            mapped = ntk_dynamic(omega, factor=factor, trained=64, length=length)
            np.testing.assert_array_equal(mapped, omega)
    longer = ntk_dynamic(omega, factor=1.0, trained=64, length=256)
    np.testing.assert_allclose(longer, ntk(omega, factor=4.0), rtol=1e-15)
    library = ntk_dynamic(omega, factor=4.0, trained=64, length=256)
    np.testing.assert_allclose(library, ntk(omega, factor=13.0), rtol=1e-15)


# YaRN and Llama 3


@given(dims, bases, factors, st.floats(8, 1e5), st.sampled_from(["turns", "index"]))
def test_yarn_lies_between_rope_and_interpolation(d, base, factor, trained, ramp):
    omega = frequencies(d, base=base)
    mapped = yarn(omega, factor=factor, trained=trained, ramp=ramp)
    slack = 4 * np.finfo(float).eps
    assert (mapped <= omega * (1 + slack)).all()
    assert (mapped >= omega / factor * (1 - slack)).all()


@given(bases, factors)
def test_yarn_keeps_the_fast_and_divides_the_slow(base, factor):
    omega = frequencies(64, base=base)
    turns = 4096 * omega / (2 * np.pi)
    mapped = yarn(omega, factor=factor, trained=4096, ramp="turns")
    np.testing.assert_array_equal(mapped[turns >= 32], omega[turns >= 32])
    slow = turns <= 1
    np.testing.assert_allclose(mapped[slow], omega[slow] / factor, rtol=1e-15)


def test_llama_s_step():
    omega = frequencies(128, base=5e5)
    mapped = llama3(omega, factor=16.0, trained=8192, low=1.0, high=1.0)
    kept = 8192 * omega / (2 * np.pi) > 1
    np.testing.assert_array_equal(mapped, np.where(kept, omega, omega / 16))
    assert kept.any() and not kept.all()


def test_llama_3_keeps_what_turns_four_times():
    """It divides pairs without a full turn in 8192 positions, for its base."""
    omega = frequencies(128, base=5e5)
    mapped = llama3(omega, factor=8.0, trained=8192)
    kept, divided = mapped == omega, np.isclose(mapped, omega / 8, rtol=1e-15)
    turns = 8192 / wavelengths(128, base=5e5)
    np.testing.assert_array_equal(kept, turns >= 4)
    np.testing.assert_array_equal(divided, turns <= 1)
    assert (kept | divided).sum() < 64


def test_yarn_s_temperature():
    """s = 16: 0.1 ln 16 + 1; logits get its square."""
    assert yarn_attention_factor(16.0) == pytest.approx(1.2772588722239782, rel=1e-15)
    assert yarn_attention_factor(1.0) == yarn_attention_factor(0.5) == 1
    assert yarn_attention_factor(40.0, mscale=1.0, mscale_all=1.0) == 1
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 8))
    plain, hot = (
        rope(x, np.array([3, 9]), layout="half", attention_factor=a)
        for a in (1.0, yarn_attention_factor(16.0))
    )
    np.testing.assert_allclose(
        hot[0] @ hot[1],
        plain[0] @ plain[1] * yarn_attention_factor(16.0) ** 2,
        rtol=1e-14,
    )


# The others


def test_longrope_changes_its_list_with_the_length():
    omega, ones = frequencies(8), [1.0] * 4
    sizes = dict(short=ones, long=[1.0, 2.0, 4.0, 8.0], trained=64)
    np.testing.assert_array_equal(longrope(omega, length=64, **sizes), omega)
    longer = longrope(omega, length=65, **sizes)
    np.testing.assert_array_equal(longer, omega / [1, 2, 4, 8])
    assert longrope_attention_factor(0.5, trained=64) == 1
    assert longrope_attention_factor(64.0, trained=64) == pytest.approx(math.sqrt(2))


def test_the_first_tokens_of_longrope_s_paper_see_both_positions():
    """The first n̂ tokens keep their frequencies, which no single list does."""
    omega = frequencies(4, base=16.0)
    lists = dict(short=[1.0, 1.0], long=[1.0, 2.0])
    slower = longrope(omega, **lists, trained=64, length=65)

    def score(i, j, kept):
        rows = (
            rope(np.ones((1, 4)), [n], layout="half", frequencies=w)
            for n, w in ((i, slower), (j, omega if j < kept else slower))
        )
        query, key = rows
        return (query @ key.T).item()

    assert score(80, 70, kept=4) == pytest.approx(score(70, 60, kept=4), abs=1e-12)
    assert abs(score(72, 2, kept=4) - score(73, 3, kept=4)) > 0.1
    assert score(72, 2, kept=0) == pytest.approx(score(73, 3, kept=0), abs=1e-12)


@given(dims, st.floats(0, 1))
def test_p_rope_is_rope_and_then_nothing(d, share):
    omega = frequencies(d)
    mapped = p_rope(omega, share=share)
    kept = int(share * d / 2)
    np.testing.assert_array_equal(mapped[:kept], omega[:kept])
    assert (mapped[kept:] == 0).all()
    np.testing.assert_array_equal(p_rope(omega, share=1.0), omega)


def test_proportional_is_not_partial():
    """A quarter of the pairs either way; the slowest is 1 in 32,000 or 1 in 5.6."""
    proportional = p_rope(frequencies(64), share=0.25)[:8]
    partial = frequencies(16)
    assert proportional[0] == partial[0] == 1
    assert proportional[-1] / partial[-1] > 100


@given(dims, st.floats(2, 1e4))
def test_resonance_repeats_after_whole_positions(d, base):
    mapped = resonance(frequencies(d, base=base))
    lengths = 2 * np.pi / mapped
    whole = np.round(lengths)
    np.testing.assert_allclose(lengths, whole, rtol=1e-15)
    assert (np.abs(whole - wavelengths(d, base=base)) <= 0.5 + 1e-9).all()


def test_resonance_meets_no_new_angle():
    """A pair with a full turn within L positions has met all its angles there."""
    mapped = resonance(frequencies(16, base=100.0))
    period = np.round(2 * np.pi / mapped).astype(int)
    m = np.arange(200)
    for omega, length in zip(mapped, period, strict=True):
        known = np.exp(1j * omega * np.arange(length))
        np.testing.assert_allclose(
            np.exp(1j * omega * m), known[m % length], atol=1e-12
        )
    plain = np.exp(1j * m * frequencies(16, base=100.0)[0])
    assert np.abs(plain[6:, None] - plain[:6]).min(1).max() > 0.1


def test_riflex_slows_one_pair():
    omega = frequencies(16)
    for turns in (1.0, 0.9):
        mapped = riflex(omega, pair=3, tested=500.0, turns=turns)
        assert mapped[3] * 500 == pytest.approx(2 * np.pi * turns, rel=1e-15)
        np.testing.assert_array_equal(np.delete(mapped, 3), np.delete(omega, 3))


def test_lerope_starts_as_rope():
    omega = frequencies(8)
    np.testing.assert_array_equal(lerope(omega, alpha=np.zeros(4)), omega)
    slower = lerope(omega, alpha=np.log([1, 0.5, 0.25, 0.125]))
    np.testing.assert_allclose(slower, omega / [1, 2, 4, 8], rtol=1e-15)


@pytest.mark.parametrize("method", ROPE_SCALINGS.values(), ids=ROPE_SCALINGS)
def test_the_argument_is_left_as_it_was(method):
    omega = frequencies(8)
    for options in method.options:
        method.implementation("numpy")(omega, **options)
    np.testing.assert_array_equal(omega, frequencies(8))
    if method.attention_factor:
        assert callable(getattr(rotary, method.attention_factor))


W = frequencies(8)
REFUSED = {
    "integers": (lambda: ntk(np.arange(4), factor=2.0), "must hold floats"),
    "a matrix": (lambda: ntk(np.ones((2, 2)), factor=2.0), r"must be \[pairs\]"),
    "none": (lambda: ntk(np.ones(0), factor=2.0), r"must be \[pairs\]"),
    "infinite": (lambda: pi(np.array([1.0, np.inf]), factor=2.0), "must be finite"),
    "a factor of 0": (lambda: ntk(W, factor=0.0), "factor must be above 0"),
    "a factor of -1": (
        lambda: yarn(W, factor=-1.0, trained=8, ramp="turns"),
        "factor must be finite and not negative",
    ),
    "an unknown ramp": (
        lambda: yarn(W, factor=2.0, trained=8, ramp="paper"),
        "ramp must be 'turns' or 'index'",
    ),
    "slow above fast": (
        lambda: yarn(W, factor=2.0, trained=8, ramp="turns", slow=9.0, fast=2.0),
        "slow must be at most fast",
    ),
    "a row that is not geometric": (
        lambda: yarn(np.array([1.0, 0.5, 0.4]), factor=2.0, trained=8, ramp="index"),
        "fall by one ratio",
    ),
    "a row that rises": (
        lambda: yarn(np.array([1.0, 2.0]), factor=2.0, trained=8, ramp="index"),
        "two or more that fall",
    ),
    "one frequency": (
        lambda: yarn(np.array([1.0]), factor=2.0, trained=8, ramp="index"),
        "two or more that fall",
    ),
    "a length of 0": (
        lambda: ntk_dynamic(W, factor=1.0, trained=8, length=0),
        "length must be a positive multiple",
    ),
    "a short list": (
        lambda: longrope(W, short=[1.0], long=[1.0] * 4, trained=8, length=8),
        "short must be 4 finite numbers above 0",
    ),
    "a divisor of 0": (
        lambda: longrope(W, short=[1.0] * 4, long=[0.0] * 4, trained=8, length=8),
        "long must be 4 finite numbers above 0",
    ),
    "a length of 1": (lambda: longrope_attention_factor(2.0, trained=1), "above 1"),
    "a share above 1": (lambda: p_rope(W, share=1.5), "share must be from 0 to 1"),
    "turns too fast": (lambda: resonance(np.array([20.0])), "above 0 and below"),
    "a pair that is not there": (
        lambda: riflex(W, pair=4, tested=9.0, turns=1.0),
        "pair must be from 0 to 3",
    ),
    "a list of other length": (
        lambda: lerope(W, alpha=np.zeros(3)),
        r"alpha must be \[4\]",
    ),
    "growth beyond floats": (lambda: lerope(W, alpha=np.full(4, 1e4)), "out of reach"),
    "no attention factor": (
        lambda: yarn_attention_factor(16.0, mscale=-9.0),
        "no attention factor",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_map_is_refused(case, unchecked):
    call, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_dynamic_in_transformers_keeps_the_longest_text_so_far():
    """Its frequencies are no function of the text's length alone."""
    case = CODE["dynamic"]
    trained, longest, modules_own = case["trained"], case["trained"], {}
    for length, theirs in zip(case["lengths"], case["frequencies"], strict=True):
        longest = max(longest, length) if length >= trained else trained
        mine = ntk_dynamic(
            frequencies(case["d"]), factor=1.0, trained=trained, length=longest
        )
        np.testing.assert_allclose(theirs, mine, rtol=1e-6)
        modules_own.setdefault(length, []).append(theirs[-1])
    assert len(set(modules_own[3000])) == 2 and len(set(modules_own[2048])) == 2


def test_one_rotation_moves_a_key_and_changes_its_frequencies():
    rng = np.random.default_rng(0)
    then, now = frequencies(16), ntk(frequencies(16), factor=3.0)
    key, old, new = rng.normal(size=(1, 16)), 900, 37
    cached = rope(key, [old], layout="half", frequencies=then)
    moved = rope(cached, [1], layout="half", frequencies=new * now - old * then)
    fresh = rope(key, [new], layout="half", frequencies=now)
    np.testing.assert_allclose(moved, fresh, rtol=0, atol=1e-12)
    for wrong in (now, then):  # one shift for all frequencies
        shifted = rope(cached, [new - old], layout="half", frequencies=wrong)
        assert abs(shifted - fresh).max() > 0.1
