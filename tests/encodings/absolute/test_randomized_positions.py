"""CAPE, randomized positions, PoSE: distributions of samples, positions, errors."""

import copy
import itertools

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import absolute
from posedu.numpy.absolute.randomized import require_integers
from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.sympy import absolute as symbolic
from posedu.torch import CAPE, PoSE, Randomized, RoPE, Sinusoidal, Transformer

PLAIN = dict(max_shift=5.0, max_jitter=0.5, max_scale=1.03)
MODULES = {
    "cape": lambda **o: CAPE(**PLAIN, normalize=False, **o),
    "cape, normalized": lambda **o: CAPE(**PLAIN, normalize=True, **o),
    "randomized": lambda **o: Randomized(40, per="sequence", **o),
    "pose": lambda **o: PoSE(40, **o),
}
seeds = st.integers(0, 2**32 - 1)


def rng(seed=0):
    return np.random.default_rng(seed)


# CAPE


@given(seeds, st.floats(0, 0.5), st.floats(1, 3))
def test_up_to_half_a_step_of_jitter_keeps_the_order(seed, epsilon, most):
    bounds = dict(max_shift=5.0, max_jitter=epsilon, max_scale=most)
    places = absolute.cape(
        np.arange(30),
        normalize=False,
        **absolute.draw_cape(rng(seed), 4, 30, **bounds),
    )
    assert (np.diff(places) >= 0).all()


def test_at_half_a_step_two_places_may_meet_and_beyond_they_may_swap():
    def gap(epsilon):
        jitter = np.array([epsilon, -epsilon])
        places = absolute.cape([0, 1], shift=0, jitter=jitter, scale=1, normalize=False)
        return np.diff(places)[0]

    assert gap(0.5) == 0
    assert gap(0.49) > 0 > gap(0.51)


@pytest.mark.parametrize("draw", ["numpy", "torch"])
def test_draws_fill_their_ranges(draw):
    """A scale from 1/λ to λ, evenly in its logarithm; the others from −x to x."""
    bounds = dict(max_shift=5.0, max_jitter=0.5, max_scale=3.0)
    if draw == "numpy":
        drawn = absolute.draw_cape(rng(), 4000, 3, **bounds)
    else:
        torch.manual_seed(0)
        drawn = CAPE(**bounds, normalize=False).draw(4000, 3)
        drawn = {name: numbers.numpy() for name, numbers in drawn.items()}
    spread = {"shift": 5.0, "jitter": 0.5, "scale": np.log(3.0)}
    drawn["scale"] = np.log(drawn["scale"])
    for name, most in spread.items():
        numbers = drawn[name] / most
        assert np.abs(numbers).max() < 1 + 1e-12, name
        assert kolmogorov(np.sort(numbers.ravel()), np.linspace(-1, 1, 4001)) < 0.03


@given(seeds, st.booleans(), st.floats(-99, 99), st.floats(0.5, 2))
def test_normalized_positions_forget_where_they_start(seed, normalize, move, scale):
    at = rng(seed).normal(size=6)
    here, there = (
        absolute.cape(t, shift=0.25, jitter=0, scale=scale, normalize=normalize)
        for t in (at, at + move)
    )
    expected = 0 if normalize else scale * move
    np.testing.assert_allclose(there - here, expected, rtol=0, atol=1e-12)


def kolmogorov(one, other):
    """The largest difference of two empirical distribution functions."""
    both = np.concatenate([one, other])
    below = (np.searchsorted(np.sort(t), both, side="right") for t in (one, other))
    one_below, other_below = below
    return np.abs(one_below / len(one) - other_below / len(other)).max()


def test_a_scale_and_its_inverse_have_one_law_and_a_uniform_one_does_not():
    count, most = 20000, 1.4
    scale = absolute.draw_cape(
        rng(), count, 0, max_shift=0, max_jitter=0, max_scale=most
    )["scale"][:, 0]
    # A difference of 2.5 √(2/n) has a probability below 2 exp(−12.5).
    bound = 2.5 * np.sqrt(2 / count)
    assert kolmogorov(scale, 1 / scale) < bound
    uniform = mutants.cape_scales(rng(), most, count)
    assert kolmogorov(uniform, 1 / uniform) > bound
    assert 1 / most <= scale.min() < 0.72 < 1.39 < scale.max() <= most


def test_means_over_shifts_are_those_of_draws():
    p, q, w, most = 3.0, 1.0, 0.7, 5.0
    shift = absolute.draw_cape(
        rng(), 200000, 0, max_shift=most, max_jitter=0, max_scale=1
    )["shift"]
    places = absolute.cape(
        np.tile([p, q], (len(shift), 1)),
        shift=shift,
        jitter=0,
        scale=1,
        normalize=False,
    )
    found = np.prod(np.sin(w * places), -1)
    expected = np.cos(w * (p - q)) / 2
    expected -= np.cos(w * (p + q)) / 2 * np.sin(2 * w * most) / (2 * w * most)
    assert abs(found.mean() - expected) < 5 * found.std() / np.sqrt(len(found))
    whole = (sinusoidal(places, 2, layout="half")).prod(1).sum(-1)
    np.testing.assert_allclose(whole, np.cos(p - q), rtol=0, atol=1e-14)


def test_the_symbolic_mean_is_that_of_the_definition():
    t, w, d = sp.Symbol("t", real=True), *sp.symbols("w d", positive=True)
    mean = symbolic.mean_over_uniform(sp.cos(w * t), t, d)
    assert sp.simplify(mean - sp.sin(w * d) / (w * d)) == 0


# Randomized


@given(seeds, st.integers(0, 20), st.integers(0, 20))
def test_a_sample_is_ordered_and_below_the_limit(seed, tokens, more):
    limit = max(1, tokens + more)
    draws = absolute.draw_randomized(rng(seed), 3, tokens, limit=limit)
    places = absolute.randomized(np.arange(tokens), **draws)
    assert (np.diff(places) >= 1).all()
    assert not tokens or 0 <= places.min() <= places.max() < limit
    if more == 0 and tokens:
        assert (places == np.arange(tokens)).all()


def test_two_tokens_share_a_place_where_it_is_put_back():
    places = [mutants.sampled_with_replacement(rng(n), 8, 16) for n in range(20)]
    assert any((np.diff(p) == 0).any() for p in places)


@pytest.mark.parametrize("draw", ["numpy", "torch"])
def test_all_samples_are_equally_probable(draw):
    count, sets = 12000, list(itertools.combinations(range(5), 2))
    if draw == "numpy":
        samples = absolute.draw_randomized(rng(), count, 2, limit=5)["sample"]
    else:
        torch.manual_seed(0)
        samples = Randomized(5, per="sequence").draw(count, 2)["sample"].numpy()
    found = [tuple(row) for row in np.sort(samples)]
    share = np.array([found.count(s) for s in sets]) / count
    # Five standard deviations of a share of a tenth.
    assert np.abs(share - 0.1).max() < 5 * np.sqrt(0.09 / count)


@pytest.mark.parametrize("n, limit", [(1, 5), (3, 7), (5, 5)])
def test_means_and_gaps_are_those_of_all_samples(n, limit):
    sets = np.array(list(itertools.combinations(range(limit), n)))
    for k in range(n):
        mean = sp.Rational(int(sets[:, k].sum()), len(sets))
        assert symbolic.order_statistic_mean(k, n, limit) == mean
        assert mean == sp.Rational((k + 1) * (limit + 1), n + 1) - 1
    for k in range(n - 1):
        gaps = sets[:, k + 1] - sets[:, k]
        for gap in range(1, limit):
            often = sp.Rational(int((gaps == gap).sum()), len(sets))
            assert symbolic.gap_probability(gap, n, limit) == often


def test_no_gap_is_longer_than_the_range():
    assert [symbolic.gap_probability(gap, 3, 5) for gap in (4, 5, 6, 7)] == [0] * 4


# PoSE


@given(seeds, st.integers(1, 20), st.integers(0, 40))
def test_chunks_keep_their_steps_and_the_window(seed, tokens, more):
    window = tokens + more
    draws = absolute.draw_pose(rng(seed), 5, tokens, window=window)
    places = absolute.pose(np.arange(tokens), **draws)
    steps = np.diff(places)
    assert (steps >= 1).all() and ((steps > 1).sum(-1) <= 1).all()
    assert (places[:, 0] == 0).all() and places.max() < window
    assert (draws["cut"] >= 1).all() and (draws["cut"] <= -(-tokens // 2)).all()


@pytest.mark.parametrize("tokens, window", [(1, 4), (4, 9), (5, 12)])
def test_all_draws_together_cover_every_offset_of_the_window(tokens, window):
    seen = set()
    for cut in range(1, -(-tokens // 2) + 1):
        for skip in range(window - tokens + 1):
            at = absolute.pose(np.arange(tokens), cut=cut, skip=skip)
            one = set((at[:, None] - at)[np.tril_indices(tokens)])
            long = max(cut, tokens - cut)
            across = range(skip + 1, skip + tokens) if tokens > 1 else ()
            assert one == {*range(long), *across}
            seen |= one
    assert seen == ({0} if tokens == 1 else {*range(window)})


@pytest.mark.parametrize("tokens", [7, 8])
@pytest.mark.parametrize("draw", ["numpy", "torch"])
def test_cuts_and_skips_are_uniform(draw, tokens):
    count, window = 8000, tokens + 2
    if draw == "numpy":
        draws = absolute.draw_pose(rng(), count, tokens, window=window)
    else:
        torch.manual_seed(0)
        draws = {n: t.numpy() for n, t in PoSE(window).draw(count, tokens).items()}
    for name, values in (("cut", (1, 2, 3, 4)), ("skip", (0, 1, 2))):
        share = np.array([(draws[name] == v).mean() for v in values])
        p = 1 / len(values)
        assert np.abs(share - p).max() < 5 * np.sqrt(p * (1 - p) / count)


# Modules


@pytest.mark.parametrize("name", MODULES)
def test_training_draws_and_evaluation_does_so_where_the_paper_does(name):
    torch.manual_seed(0)
    module, at = MODULES[name](), torch.arange(9)[None]
    x = torch.zeros(3, 9, 4)
    one, other = module.locate(at, x), module.locate(at, x)
    assert one.shape == (3, 9) and not torch.equal(one, other)
    assert not torch.equal(one[0], one[1])
    module.eval()
    is_repeatable = torch.equal(module.locate(at, x), module.locate(at, x))
    assert is_repeatable != module.in_evaluation
    if not module.in_evaluation:
        expected = at - 4.0 if name == "cape, normalized" else at
        assert torch.equal(module.locate(at, x), expected)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("rows, tokens", [(-1, 3), (2, -3), (2, 3.0), (True, 3)])
@pytest.mark.usefixtures("unchecked")
def test_only_counts_are_drawn_for(name, rows, tokens):
    with pytest.raises((TypeError, ValueError), match=r"(rows|tokens) must be"):
        MODULES[name]().draw(rows, tokens)


@pytest.mark.parametrize("name", MODULES)
def test_a_generator_of_one_s_own_decides_alone(name):
    def located(seed):
        module = MODULES[name](generator=torch.Generator().manual_seed(seed))
        return module.locate(torch.arange(9)[None], torch.zeros(2, 9, 4))

    before = torch.get_rng_state()
    assert torch.equal(located(1), located(1)) and not torch.equal(
        located(1), located(2)
    )
    assert torch.equal(before, torch.get_rng_state())


def test_a_batch_may_share_its_sample():
    torch.manual_seed(0)
    module = Randomized(40, per="batch")
    assert module.locate(torch.arange(5)[None], torch.zeros(3, 5, 4)).shape == (1, 5)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_moves_no_place(name, dtype):
    module = MODULES[name]()
    draws = module.draw(2, 30)
    before = module.place(range(30), **draws)
    after = copy.deepcopy(module).to(dtype).place(range(30), **draws)
    assert torch.equal(before, after)
    assert after.dtype in (torch.float64, torch.int64)
    exact = torch.arange(600)
    rounded = mutants.cape_positions_of_the_activations(600, torch.bfloat16)
    assert (rounded.long() != exact).any()


@pytest.mark.parametrize("name", MODULES)
def test_only_samples_are_looked_up_by_a_token_s_number(name):
    between = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    module = MODULES[name]()
    if module.takes_indices:
        with pytest.raises((TypeError, ValueError), match="integers"):
            module.place(between, **module.draw(1, 3))
    else:
        assert module.place(between, **module.draw(1, 3)).shape == (1, 3)


def test_a_port_leaves_one_token_of_padding():
    hidden = mutants.cape_is_padding(10, 7)
    assert not hidden[7] and hidden[8]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("inner", [None, Sinusoidal(16, layout="half")])
def test_a_model_trains_with_moved_positions(name, inner):
    torch.manual_seed(0)
    moving = MODULES[name](inner=inner)
    rope = RoPE(8, layout="half")
    model = Transformer(16, 2, 2, encoding=rope, input=moving).double()
    x = torch.randn(2, 6, 16, dtype=torch.float64)
    torch.manual_seed(1)
    out = model(x)
    out.sum().backward()
    torch.manual_seed(1)
    places = moving.locate(torch.arange(6)[None], x)
    plain = Transformer(16, 2, 2, encoding=rope, input=inner).double()
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(plain(x, places), out, rtol=0, atol=1e-12)
    assert model.blocks[0].attention.q.weight.grad.abs().max() > 0


def test_places_drawn_once_serve_a_cache():
    torch.manual_seed(0)
    moving = Randomized(50, per="sequence")
    model = Transformer(16, 2, 2, encoding=RoPE(8, layout="half")).double()
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    places = moving.place(range(7), **moving.draw(2, 7))
    caches = model.caches()
    parts = [
        model(x[:, a:b], places[:, a:b], caches=caches) for a, b in ((0, 4), (4, 7))
    ]
    torch.testing.assert_close(
        torch.cat(parts, 1), model(x, places), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", MODULES)
def test_caches_are_refused_where_positions_need_the_whole_sequence(name):
    """All draw anew in each training call; PoSE and CAPE do not draw in evaluation."""
    moving = MODULES[name](inner=Sinusoidal(16, layout="half"))
    model = Transformer(16, 2, 2, input=moving).double()
    x = torch.randn(1, 7, 16, dtype=torch.float64)
    for training in (True, False):
        model.train(training)
        if training or name in ("cape, normalized", "randomized"):
            with pytest.raises(ValueError, match="of a sequence from all its tokens"):
                model(x[:, :4], caches=model.caches())
            continue
        caches = model.caches()
        parts = [model(x[:, a:b], caches=caches) for a, b in ((0, 4), (4, 5), (5, 7))]
        torch.testing.assert_close(torch.cat(parts, 1), model(x), rtol=0, atol=1e-12)


def test_normalized_positions_given_by_hand_serve_caches():
    moving = MODULES["cape, normalized"](inner=Sinusoidal(16, layout="half")).eval()
    model = Transformer(16, 2, 2, input=moving).double().eval()
    without = Transformer(16, 2, 2, input=moving.inner).double().eval()
    without.blocks, without.norm = model.blocks, model.norm
    x, at = torch.randn(1, 7, 16, dtype=torch.float64), torch.arange(7) - 3.0
    caches = without.caches()
    parts = [
        without(x[:, a:b], at[a:b], caches=caches) for a, b in ((0, 4), (4, 5), (5, 7))
    ]
    torch.testing.assert_close(torch.cat(parts, 1), model(x), rtol=0, atol=1e-12)


def test_what_is_inside_says_what_it_needs():
    inner = Sinusoidal(8, layout="half")
    with pytest.raises(ValueError, match="d_model = 8, the layer has d_model = 16"):
        Transformer(16, 2, 1, input=PoSE(40, inner=inner))


def test_repr_says_the_conventions():
    assert repr(CAPE(**PLAIN, normalize=True)).startswith(
        "CAPE(max_shift=5, max_jitter=0.5, max_scale=1.03, normalize=True"
    )
    assert repr(Randomized(9, per="batch")) == "Randomized(9, per='batch')"
    assert repr(PoSE(9)) == "PoSE(9)"


DRAWS = dict(shift=0, jitter=0, scale=1)


def cape(positions=(0, 1), normalize=False, **draws):
    return absolute.cape(positions, normalize=normalize, **DRAWS | draws)


def draw(name, *sizes, by=None, **bounds):
    return getattr(absolute, f"draw_{name}")(by or rng(), *(sizes or (2, 3)), **bounds)


def placed(make, positions=(0, 1, 2), drop=None, **draws):
    module = make()
    own = module.draw(2, 3)
    return module.place(list(positions), **own | draws)


REFUSED = [
    (lambda: cape(scale=0.0), ValueError, "scale must be above 0, got 0"),
    (lambda: cape(scale=[[1.0, 1.0]]), ValueError, "one number or .rows, 1., got"),
    (lambda: cape(jitter=np.zeros(3)), ValueError, "jitter must be one number, .2."),
    (lambda: cape(shift=np.nan), ValueError, "shift must be finite"),
    (lambda: cape(positions=np.zeros((2, 2, 2))), ValueError, "tokens.*shape .2, 2, 2"),
    (
        lambda: cape(shift=np.zeros((3, 1)), jitter=np.zeros((2, 2))),
        ValueError,
        "differ in rows: .2, 3.",
    ),
    (lambda: cape(normalize=1), TypeError, "normalize must be True or False"),
    (
        lambda: draw("cape", **PLAIN | {"max_scale": 0.9}),
        ValueError,
        "max_scale must be at least 1, got 0.9",
    ),
    (
        lambda: draw("cape", **PLAIN | {"max_shift": -1}),
        ValueError,
        "max_shift must be",
    ),
    (lambda: draw("cape", 2.5, 3, **PLAIN), TypeError, "rows must be an integer"),
    (lambda: draw("cape", 2, -3, **PLAIN), ValueError, "tokens must be from 0 to"),
    (
        lambda: draw("pose", by=np.random, window=9),
        TypeError,
        "default_rng.seed. makes",
    ),
    (lambda: draw("randomized", limit=2), ValueError, "limit must be at least 3"),
    (lambda: draw("pose", window=2), ValueError, "window must be at least 3"),
    (
        lambda: absolute.randomized([0], sample=[0.5]),
        TypeError,
        "sample must be integer",
    ),
    (lambda: absolute.randomized([0], sample=[3, 3]), ValueError, "a number twice"),
    (lambda: absolute.randomized([2], sample=[3, 4]), ValueError, "below 2, the size"),
    (lambda: absolute.randomized(0, sample=[3, 4]), ValueError, "positions and sample"),
    (lambda: absolute.randomized([0], sample=[2**53]), ValueError, "must be below"),
    (lambda: absolute.randomized([0], sample=[-(2**53)]), ValueError, "must be below"),
    (
        lambda: absolute.randomized(
            np.zeros((2, 1), int), sample=np.zeros((3, 1), int)
        ),
        ValueError,
        "differ in rows: 2 and 3",
    ),
    (lambda: absolute.pose([0], cut=1, skip=-2), ValueError, "not be negative, got -2"),
    (lambda: absolute.pose([0], cut=1.5, skip=2), TypeError, "cut must be integers"),
    (lambda: Randomized(0, per="batch"), ValueError, "limit must be a positive"),
    (lambda: Randomized(9, per="token"), ValueError, "per must be 'sequence' or"),
    (
        lambda: Randomized(2, per="batch").draw(1, 3),
        ValueError,
        "limit must be at least",
    ),
    (lambda: PoSE(2).draw(1, 3), ValueError, "window must be at least 3"),
    (lambda: PoSE(9, inner="rope"), TypeError, "inner must be an Encoding"),
    (lambda: PoSE(9, generator=3), TypeError, "must be a torch.Generator, got int"),
    (
        lambda: CAPE(**PLAIN | {"max_scale": 0.5}, normalize=True),
        ValueError,
        "max_scale must be at least 1",
    ),
    (lambda: placed(MODULES["cape"], shift=3.0), TypeError, "shift must be a torch"),
    (
        lambda: placed(MODULES["cape"], shift=torch.zeros(2, 2)),
        ValueError,
        "shift must",
    ),
    (lambda: placed(MODULES["pose"], cut=torch.ones(2, 1)), TypeError, "hold integers"),
    (lambda: placed(MODULES["pose"], cut=1), TypeError, "cut must be a torch.Tensor"),
    (
        lambda: placed(MODULES["randomized"], positions=(0, 3)),
        ValueError,
        "below 3, the",
    ),
    (
        lambda: placed(MODULES["randomized"], positions=(0.5,)),
        TypeError,
        "must be integ",
    ),
    (
        lambda: placed(MODULES["randomized"], sample=torch.ones(1, 3)),
        TypeError,
        "sample must hold integers",
    ),
    (
        lambda: placed(MODULES["randomized"], sample=[3]),
        ValueError,
        "a tensor .rows, n",
    ),
    (
        lambda: placed(MODULES["randomized"], positions=[[0]] * 3),
        ValueError,
        r"\[3, 1\]",
    ),
    (
        lambda: placed(MODULES["pose"], positions=[[0]] * 3),
        ValueError,
        "differ in rows",
    ),
    (lambda: symbolic.mean_over_uniform(1, "t", 1), TypeError, "must be a symbol"),
    (
        lambda: symbolic.mean_over_uniform(1, sp.Symbol("t"), 0),
        ValueError,
        "bound must be positive, got 0",
    ),
    (lambda: symbolic.gap_probability(1, 1, 5), ValueError, "n must be at least 2"),
    (lambda: symbolic.gap_probability(1, 6, 5), ValueError, "limit must be at least 6"),
    (lambda: symbolic.order_statistic_mean(2, 2, 5), ValueError, "k must be from 0 to"),
    (
        lambda: symbolic.order_statistic_mean(0, 6, 5),
        ValueError,
        "limit must be at least 6",
    ),
    (
        lambda: symbolic.randomized([-1], sample=[3, 5]),
        ValueError,
        "integers from 0 to 1, got -1",
    ),
    (
        lambda: symbolic.randomized([sp.Rational(1, 2)], sample=[3, 5]),
        ValueError,
        "integers from 0 to 1, got 1/2",
    ),
    (
        lambda: symbolic.randomized([0], sample=[3, 3]),
        ValueError,
        "different integers",
    ),
    (
        lambda: placed(MODULES["cape"], shift=torch.zeros(2, 3)),
        ValueError,
        r"shift must be \[rows, 1\], got shape \[2, 3\]",
    ),
    (
        lambda: placed(MODULES["cape"], jitter=torch.zeros(2, 1)),
        ValueError,
        r"jitter must be \[rows, 3\], got shape \[2, 1\]",
    ),
    (
        lambda: placed(MODULES["cape"], shift=torch.zeros(3, 1)),
        ValueError,
        "differ in rows: 3, and 2 of scale",
    ),
    (
        lambda: placed(MODULES["cape"], positions=torch.zeros(1, 1, 3).tolist()),
        ValueError,
        "positions must be .tokens. or",
    ),
    (lambda: placed(MODULES["cape"], jitter=None), TypeError, "jitter must be a torch"),
    (
        lambda: placed(MODULES["cape"], scale=torch.zeros(2, 1)),
        ValueError,
        "scale must be above 0, got 0",
    ),
    (
        lambda: placed(MODULES["cape"], scale=torch.full((2, 1), torch.nan)),
        ValueError,
        "scale must be finite",
    ),
    (
        lambda: PoSE(9).place(range(3), cut=None, skip=None),
        TypeError,
        "cut must be a torch.Tensor, got NoneType",
    ),
    (
        lambda: placed(MODULES["pose"], cut=torch.ones(2, 3, dtype=torch.int64)),
        ValueError,
        r"cut must be \[rows, 1\], got shape \[2, 3\]",
    ),
    (
        lambda: placed(MODULES["pose"], skip=torch.ones(2, 1, dtype=torch.bool)),
        TypeError,
        "skip must hold integers, got torch.bool",
    ),
    (
        lambda: placed(MODULES["pose"], skip=-torch.ones(2, 1, dtype=torch.int64)),
        ValueError,
        "skip must not be negative, got -1",
    ),
    (
        lambda: placed(MODULES["randomized"], sample=torch.ones(2, 3).bool()),
        TypeError,
        "sample must hold integers, got torch.bool",
    ),
    (
        lambda: placed(MODULES["randomized"], sample=torch.ones(2, 3).long()),
        ValueError,
        "sample must not hold a number twice",
    ),
    (
        lambda: symbolic.pose([0], cut=[1, 2], skip=1),
        ValueError,
        "cut must be one numb",
    ),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_is_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


def test_integers_are_those_that_float64_holds():
    given = np.array([1 - 2**53, -1000, 2**53 - 1])
    assert np.array_equal(require_integers("n", given), given)
    for one in (-(2**53), 2**53):
        with pytest.raises(ValueError, match="n must be below 9007199254740992"):
            require_integers("n", [one])
