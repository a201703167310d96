"""KV caches: moved keys, dropped tokens, Self-Extend, latent attention."""

import copy
import gc
import io
import math
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import attend as attend_numpy
from posedu.numpy import mla, rerotation, rope, self_extend
from posedu.numpy.attention import Hooks, causal_mask, steps
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import (
    extended_offsets,
    layout_permutation,
    ntk_dynamic,
    yarn,
    yarn_attention_factor,
)
from posedu.sympy.rotary import extended_offset
from posedu.torch import (
    GTA,
    MLA,
    STRING,
    T5,
    ALiBi,
    Attention,
    AxialRoPE,
    ComRoPEAP,
    ComRoPELD,
    FoPE,
    KVCache,
    LearnedPerLayer,
    LieRE,
    LogN,
    MixedRoPE,
    MRoPE,
    NoPE,
    PoPE,
    Rerotation,
    RoPE,
    SelfExtend,
    Sinusoidal,
    Transformer,
    ValueRotation,
    XPos,
    grid,
)

HALF = dict(layout="half")
U64 = 2.0**-53


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def filled(encoding, tokens=9, *, positions=None, d_model=16, heads=2, dtype=None):
    """A layer, its input, and a cache that has seen it."""
    torch.manual_seed(0)
    dtype = dtype or torch.float64
    layer = Attention(d_model, heads, encoding=encoding).to(dtype)
    x, cache = torch.randn(1, tokens, d_model, dtype=dtype), KVCache()
    layer(x, positions, cache=cache)
    return layer, x, cache


# Keys


@given(st.integers(0, 99), st.integers(-(2**20), 2**20), st.integers(-(2**20), 2**20))
def test_two_moves_are_one_and_keys_arrive_where_they_would_be(seed, old, shift):
    """Angles err by 4 u times their size, each of three; products by less."""
    keys = drawn(seed, 5, 8)
    at = np.arange(5.0) + old
    moved = rerotation(rope(keys, at, **HALF), np.full(5, shift), **HALF)
    fresh = rope(keys, at + shift, **HALF)
    far = 2 * (abs(old) + abs(shift) + 5)
    bound = np.abs(keys).max() * (6 * far * U64 * 2 + 16 * U64)
    np.testing.assert_allclose(moved, fresh, atol=bound)
    back = rerotation(moved, np.full(5, -shift), **HALF)
    np.testing.assert_allclose(back, rope(keys, at, **HALF), atol=bound)


def test_wrong_moves_are_seen():
    keys = drawn(0, 5, 8)
    old, new = np.arange(5.0) + 7, np.arange(5.0) + 3

    def turn(x, at):
        return rope(x, at, **HALF)

    fresh, cached = turn(keys, new), turn(keys, old)
    for fault in (mutants.moved_by_the_old_position, mutants.moved_backwards):
        assert np.abs(fault(cached, old, new, turn) - fresh).max() > 0.1
    moved = rerotation(cached, new - old, **HALF)
    np.testing.assert_allclose(moved, fresh, atol=1e-14)


def test_an_attention_factor_is_not_applied_again():
    at, shift = np.arange(5.0), np.full(5, 3.0)
    omega = yarn(frequencies(8), factor=4.0, trained=64, ramp="index")
    attention_factor = yarn_attention_factor(factor=4.0)
    turns = dict(layout="half", frequencies=omega)
    keys = drawn(0, 5, 8)
    cached, fresh = (
        rope(keys, p, **turns, attention_factor=attention_factor)
        for p in (at, at + shift)
    )
    moved = rerotation(cached, shift, **turns)
    np.testing.assert_allclose(moved, fresh, atol=1e-14)

    def turn(x, p):
        return rope(x, p, **turns)

    twice = mutants.moved_with_the_attention_factor(
        cached, at, at + shift, turn, attention_factor
    )
    assert np.abs(twice - fresh).max() > 0.1
    encoding = RoPE(
        8, layout="half", frequencies=omega.tolist(), attention_factor=attention_factor
    )
    fast = encoding.move_keys(torch.tensor(cached)[None, None], torch.full((1, 5), 3))
    np.testing.assert_allclose(fast[0, 0].numpy(), fresh, atol=1e-14)


def error_of_a_move(shift, dtype):
    """ε: a moved pair is off by at most ε times its length.

    Products and sum are of float32 or better, with a table off by its own rounding and
    that of its angle: (|a| + |b|)(τ + 2u) each feature, at most twice the length of the
    pair together. Rounding to ``dtype`` adds u of the result.
    """
    working = torch.float64 if dtype == torch.float64 else torch.float32
    u, w = torch.finfo(dtype).eps / 2, torch.finfo(working).eps / 2
    tau = 4 * abs(shift) * U64 + 4 * U64 + w
    return 2 * (tau + 2 * w) * (1 + u) + u


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_errors_of_moves_add_up(dtype):
    """After n of them at most (1 + ε)ⁿ − 1 of a pair's length; from the first, ε."""
    torch.manual_seed(0)
    encoding, shift, moves = RoPE(64, layout="half"), -3, 64
    first = torch.randn(1, 2, 50, 64).to(dtype)
    k, each = first, torch.full((1, 50), shift)
    for _ in range(moves):
        k = encoding.move_keys(k, each)
    exact = encoding.move_keys(first.double(), moves * each)
    once = encoding.move_keys(first, moves * each)

    def off(found):
        a, b = (found.double() - exact).unflatten(-1, (2, -1)).unbind(-2)
        c, d = exact.unflatten(-1, (2, -1)).unbind(-2)
        return (torch.hypot(a, b) / torch.hypot(c, d)).max().item()

    epsilon = error_of_a_move(shift, dtype)
    assert off(k) <= (1 + epsilon) ** moves - 1
    assert off(once) <= error_of_a_move(moves * shift, dtype)
    assert off(k) > 4 * off(once)
    if dtype == torch.float32:
        assert off(k) > 1e-6  # the bound is not of another dtype


# The cache


@pytest.mark.parametrize("route", ["eager", "sdpa"])
@pytest.mark.parametrize("shift", [-5, 1000, 2.5])
def test_a_moved_cache_answers_as_a_fresh_one(route, shift):
    encoding = RoPE(8, layout="interleaved")
    layer, x, cache = filled(encoding)
    layer.route = route
    new = torch.randn(1, 2, 16, dtype=torch.float64)
    cache.move(encoding, shift)
    fresh = KVCache()
    layer(x, torch.arange(9) + shift, cache=fresh)
    assert (cache.k - fresh.k).abs().max() < 1e-12
    torch.testing.assert_close(cache.positions, fresh.positions)
    at = torch.arange(9, 11) + shift
    expected = layer(new, at, cache=fresh)
    integers = isinstance(shift, int)
    found = layer(new, None if integers else at, cache=cache)
    assert (found - expected).abs().max() < 1e-12
    assert cache.count == 11 + (shift if integers else 0)


def test_a_cache_moved_without_its_keys_does_not():
    encoding = RoPE(8, layout="half")
    layer, _, cache = filled(encoding)
    torch.manual_seed(1)
    new = torch.randn(1, 1, 16, dtype=torch.float64)
    stale = KVCache()
    stale.copy_from(cache)
    cache.move(encoding, -5)
    stale.positions = stale.positions - 5
    at = torch.tensor([4])
    answers = [layer(new, at, cache=c) for c in (cache, stale)]
    assert (answers[0] - answers[1]).abs().max() > 1e-3


def test_a_move_copies():
    """A fork keeps its own, and what was refused changed nothing."""
    encoding = RoPE(8, layout="half")
    _, _, cache = filled(encoding)
    fork, before = KVCache(), cache.k.clone()
    fork.copy_from(cache)
    cache.move(encoding, 7)
    cache.drop(encoding, 2, 5)
    assert (fork.k == before).all() and len(fork) == 9 and fork.count == 9
    for shifts in ([1, 2], float("nan"), "3"):
        with pytest.raises((TypeError, ValueError)):
            fork.move(encoding, shifts)
    assert (fork.k == before).all() and fork.consecutive


def test_sinks_and_a_window():
    """The kept tokens answer as if the layer had never processed the others."""
    encoding = RoPE(8, layout="half")
    layer, x, cache = filled(encoding, 20)
    cache.drop(encoding, 4, -6)
    kept = torch.cat((x[:, :4], x[:, -6:]), 1)
    fresh = KVCache()
    layer(kept, cache=fresh)
    assert len(cache) == cache.count == 10
    assert cache.positions.tolist() == [[*range(10)]]
    assert (cache.k - fresh.k).abs().max() < 1e-13
    torch.testing.assert_close(cache.v, fresh.v, rtol=0, atol=1e-13)
    new = torch.randn(1, 3, 16, dtype=torch.float64)
    both = (layer(new, cache=c) for c in (cache, fresh))
    torch.testing.assert_close(*both, rtol=0, atol=1e-12)


@given(st.integers(0, 12), st.integers(-12, 12))
def test_drop_is_a_slice(start, stop):
    layer, _, cache = filled(NoPE(), 10)
    before = cache.v.clone()
    kept = [n for n in range(10) if n not in range(10)[start:stop]]
    cache.drop(layer.encoding, start, stop)
    assert (cache.v == before[:, :, kept]).all()
    assert cache.positions.tolist() == [[*range(len(kept))]]


def test_what_looks_between_query_and_key_moves_its_positions_alone():
    for encoding in (ALiBi(2, slopes="authors"), T5(2, bidirectional=False)):
        layer, x, cache = filled(encoding)
        before = cache.k
        cache.move(encoding, 100)
        assert cache.k is before and cache.positions[0, 0] == 100
        new = torch.randn(1, 2, 16, dtype=torch.float64)
        expected = layer(torch.cat((x, new), 1))[:, 9:]
        found = layer(new, cache=cache)
        assert (found - expected).abs().max() < 1e-12


@pytest.mark.parametrize(
    "encoding",
    [
        AxialRoPE(8, order="alternating", layout="half"),
        MixedRoPE(8, layout="half"),
        MRoPE(8, sections=(2, 2), order="interleaved", layout="half"),
    ],
)
def test_positions_of_several_coordinates(encoding):
    at = grid(3, 3, coordinates="index")
    layer, x, cache = filled(encoding.double(), positions=at)
    with pytest.raises(ValueError, match=r"2 coordinates: give a shift of \[keys, 2\]"):
        cache.move(encoding, 1)
    with pytest.raises(ValueError, match="coordinates"):
        cache.drop(encoding, 0, 2)
    by = torch.tensor([5, -2]).expand(9, 2)
    cache.move(encoding, by)
    fresh = KVCache()
    layer(x, at + by, cache=fresh)
    torch.testing.assert_close(cache.k, fresh.k, rtol=0, atol=1e-13)


def test_frequencies_that_follow_the_length_cannot_be_moved():
    own = ntk_dynamic(frequencies(8), factor=2.0, trained=4, length=9)
    stretched = RoPE(8, layout="half", frequencies=own.tolist())
    layer, _, cache = filled(RoPE(8, layout="half"))
    with pytest.raises(ValueError, match="rotated by another RoPE module"):
        cache.move(stretched, 1)
    before = layer.encoding
    layer.encoding = stretched
    layer(torch.randn(1, 1, 16, dtype=torch.float64), cache=cache)
    for encoding in (stretched, before, RoPE(8, layout="half")):
        with pytest.raises(ValueError, match=r"depend on the length.* compute them an"):
            cache.drop(encoding, 0, 2)
    layer, _, cache = filled(stretched)
    cache.move(stretched, 1)  # the same frequencies throughout are no obstacle


def one_token():
    return torch.randn(1, 1, 16, dtype=torch.float64)


def set_base(rope):
    rope.base = 500.0


def set_frequencies(rope):
    rope.frequencies = torch.tensor(frequencies(8) / 2)


def scale_frequencies(rope):
    rope.frequencies.mul_(0.5)


def train(rotation):
    with torch.no_grad():
        next(rotation.parameters()).add_(1e-6)


def load(rotation):
    state = {name: 2 * value for name, value in rotation.state_dict().items()}
    rotation.load_state_dict(state)


def train_last(rotation):
    with torch.no_grad():
        [*rotation.parameters()][-1].view(-1)[-1] += 1e-3


CHANGES = {
    "base": (lambda: RoPE(8, layout="half"), set_base),
    "given": (lambda: RoPE(8, layout="half"), set_frequencies),
    "scaled": (
        lambda: RoPE(8, layout="half", frequencies=frequencies(8).tolist()),
        scale_frequencies,
    ),
    "trained": (lambda: MixedRoPE(8, layout="half", heads=2), train),
    "loaded": (lambda: MixedRoPE(8, layout="half"), load),
    "matrices": (lambda: ComRoPEAP(8, block=2), train),
    "multipliers": (
        lambda: ComRoPELD(8, block=4, multipliers="shared"),
        train_last,
    ),
    "under a temperature": (
        lambda: LogN(
            growth="floor",
            index_from=1,
            alpha=0.5,
            length=3.0,
            over=RoPE(8, layout="half"),
        ),
        lambda e: set_base(e.over),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_angles_that_changed_in_one_module_cannot_be_moved(name):
    """Between two calls, or after the last: in both cases keys have other angles."""
    make, change = CHANGES[name]
    for is_last in (False, True):
        rotation = make().double()
        axes = rotation.position_shape
        at = torch.rand(9, *axes, dtype=torch.float64)
        layer, _, cache = filled(rotation, positions=at)
        cache.move(rotation, torch.ones(9, *axes))
        change(rotation)
        if not is_last:
            layer(one_token(), at[:1], cache=cache)
        before = dict(vars(cache))
        with pytest.raises(ValueError, match=r"angles of .* changed .* anew"):
            cache.move(rotation, torch.ones(len(cache), *axes))
        if not axes:
            with pytest.raises(ValueError, match=r"angles of .* changed .* anew"):
                cache.drop(rotation, 0, 2)
        assert all(vars(cache)[key] is old for key, old in before.items())


def test_angles_that_changed_and_changed_back_cannot_be_moved_either():
    rotation = RoPE(8, layout="half")
    layer, _, cache = filled(rotation)
    for base in (500.0, 10000.0):
        rotation.base = base
        layer(one_token(), cache=cache)
    with pytest.raises(ValueError, match="angles of RoPE changed"):
        cache.move(rotation, 1)


def test_what_does_not_enter_keys_may_change():
    """Keys hold no position: temperatures scale queries, biases are added to logits."""
    growth = dict(growth="learned", index_from=1, heads=2)
    for encoding in (LogN(**growth), T5(2, bidirectional=False)):
        layer, _, cache = filled(encoding.double())
        train(encoding)
        layer(one_token(), cache=cache)
        cache.move(encoding, 4)
        assert cache.count == 14


OTHERS = {
    "mixed": lambda: MixedRoPE(8, layout="half"),
    "com, axial": lambda: ComRoPEAP(8, block=2),
    "com, linear": lambda: ComRoPELD(8, block=2, multipliers="shared"),
    "axial": lambda: AxialRoPE(8, order="alternating", layout="half"),
    "rope": lambda: RoPE(8, layout="half"),
    "alibi": lambda: ALiBi(2, slopes="authors"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_keys_of_another_module_are_refused(name):
    """Refuse even a module that would rotate alike, and keys that hold no position."""
    one, other = OTHERS[name]().double(), OTHERS[name]().double()
    axes = one.position_shape
    _, _, cache = filled(one, positions=torch.rand(9, *axes, dtype=torch.float64))
    before, shifts = cache.k, torch.ones(9, *axes, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"rotated by another .* of the layer"):
        cache.move(other, shifts)
    if not axes:
        with pytest.raises(ValueError, match=r"rotated by another .* of the layer"):
            cache.drop(other, 0, 2)
    assert cache.k is before
    cache.move(one, shifts)


def copied(*parts):
    return copy.deepcopy(parts)


def pickled(*parts):
    file = io.BytesIO()
    torch.save(parts, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [copied, pickled])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_cache_and_its_layer_are_copied_together(again, is_first):
    for encoding in (RoPE(8, layout="half"), MixedRoPE(8, layout="half").double()):
        axes = encoding.position_shape
        at = torch.rand(9, *axes, dtype=torch.float64)
        layer, _, cache = filled(encoding, positions=at)
        cache.detach()  # PyTorch copies no tensor that has a gradient to pass on
        parts = again(*((cache, layer) if is_first else (layer, cache)))
        new_cache, new_layer = parts if is_first else parts[::-1]
        assert new_layer.encoding is not encoding
        shifts = torch.ones(9, *axes, dtype=torch.int64)
        new_cache.move(new_layer.encoding, shifts)
        assert torch.equal(cache.positions, at[None])
        cache.move(encoding, shifts)
        torch.testing.assert_close(new_cache.k, cache.k, rtol=0, atol=0)


def test_copies_of_a_model_or_of_a_cache_fit_while_the_angles_are_equal():
    """A deep copy is the same encoding until it is trained; a new module is not."""
    rotation = MixedRoPE(8, layout="half").double()
    layer, x, cache = filled(rotation, positions=PLACES)
    cache.detach()
    shifts = torch.ones(9, 2, dtype=torch.int64)
    expected = KVCache()
    layer(x, PLACES + 1, cache=expected)
    fork, trained = copy.deepcopy(cache), copy.deepcopy(layer)
    copy.copy(cache).move(rotation, shifts)
    fork.move(trained.encoding, shifts)
    torch.testing.assert_close(fork.k, expected.k, rtol=0, atol=1e-13)
    train(trained.encoding)
    with pytest.raises(ValueError, match="angles of MixedRoPE changed"):
        cache.move(trained.encoding, shifts)
    restored = MixedRoPE(8, layout="half").double()
    restored.load_state_dict(rotation.state_dict())
    with pytest.raises(ValueError, match="another MixedRoPE module"):
        cache.move(restored, shifts)
    (restored,) = pickled(rotation)
    with pytest.raises(ValueError, match="another MixedRoPE module"):
        cache.move(restored, shifts)
    rotation.load_state_dict(rotation.state_dict())
    cache.move(rotation, shifts)


def test_a_cache_keeps_no_parameter_alive():
    layer, _, cache = filled(MixedRoPE(8, layout="half").double(), positions=PLACES)
    parameters = [weakref.ref(p) for p in layer.parameters()]
    module = weakref.ref(layer.encoding)
    cache.detach()  # the keys' gradient leads to the projections
    del layer
    gc.collect()
    assert module() is None and {p() for p in parameters} == {None}
    assert len(cache) == 9


def test_another_class_does_not_append():
    layer, x, cache = filled(RoPE(8, layout="half"))
    before = dict(vars(cache))
    layer.encoding = NoPE()
    with pytest.raises(ValueError, match="belongs to a layer with RoPE, not NoPE"):
        layer(x, cache=cache)
    assert all(vars(cache)[name] is old for name, old in before.items())


PLACES = grid(3, 3, coordinates="index")
SECTIONS = dict(sections=(2, 2), layout="half")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            AxialRoPE(8, order="alternating", layout="half"),
            AxialRoPE(8, order="concatenated", layout="half"),
        ),
        (
            AxialRoPE(8, order="alternating", layout="half"),
            AxialRoPE(8, order="alternating", layout="half", base=7.0),
        ),
        (
            MRoPE(8, order="interleaved", **SECTIONS),
            MRoPE(8, order="sectioned", **SECTIONS),
        ),
        (MixedRoPE(8, layout="half"), MixedRoPE(8, layout="interleaved")),
    ],
)
def test_angles_of_several_coordinates_are_known_too(one, other):
    """Another order, base, section or layout of the same class is another map."""
    _, _, cache = filled(one.double(), positions=PLACES)
    before = cache.k
    with pytest.raises(ValueError, match=r"rotated by another .* of the layer"):
        cache.move(other, torch.ones(9, 2))
    assert cache.k is before
    cache.move(one, torch.ones(9, 2))


def test_positions_in_the_input_of_a_model_do_not_move():
    """Nor do those of a layer, below whose stream all others are."""
    rotation = RoPE(8, layout="half")
    added = Sinusoidal(16, layout="half")
    first = LearnedPerLayer(16, 40, beyond="raise")
    cases = [
        Transformer(16, 2, 2, encoding=added),
        Transformer(16, 2, 2, encoding=rotation, input=added),
        Transformer(16, 2, 2, encoding=[first, rotation]),
    ]
    for model in cases:
        caches = model.caches()
        for tokens in 5, 1:
            model(torch.randn(1, tokens, 16), caches=caches)
        name = "Sinusoidal" if model.input is added else "LearnedPerLayer"
        for cache, layer in zip(caches, model.blocks, strict=True):
            before = cache.k
            for change in (
                lambda c, e: c.move(e, 3),
                lambda c, e: c.drop(e, 0, 2),
            ):
                with pytest.raises(ValueError, match=f"{name} puts .* anew"):
                    change(cache, layer.attention.encoding)
            assert cache.k is before and cache.count == 6
    model = Transformer(16, 2, 2, encoding=rotation)
    caches = model.caches()
    model(torch.randn(1, 5, 16), caches=caches)
    caches[1].move(rotation, 3)
    assert caches[1].count == 8


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("encoding", [RoPE(8, layout="half"), NoPE()])
def test_moves_that_are_refused_change_nothing(encoding):
    """Shifts that are no numbers, or that lead to positions that are not exact."""
    layer, _, cache = filled(encoding)
    before = dict(vars(cache))
    beyond = [2**53 - 1, -(2**53), 2**63 - 1, 2**70, 2**2000, 1e300, math.inf]
    for shifts in (*beyond, math.nan, torch.full((9,), 2**53 - 1)):
        with pytest.raises(ValueError, match=r"exact|finite"):
            cache.move(encoding, shifts)
    for shifts in (None, True, "3", 3j):
        with pytest.raises(TypeError):
            cache.move(encoding, shifts)
    for other in (None, layer, type(encoding)):
        for change in (lambda e: cache.move(e, 1), lambda e: cache.drop(e, 0, 1)):
            with pytest.raises(TypeError, match="encoding must be that of the layer"):
                change(other)
    assert all(vars(cache)[name] is old for name, old in before.items())
    cache.move(encoding, 2**53 - 9)
    assert cache.positions[0, -1] == 2**53 - 1
    with pytest.raises(ValueError, match="must be below 9007199254740992 in size"):
        layer(torch.zeros(1, 1, 16, dtype=torch.float64), cache=cache)


@pytest.mark.usefixtures("unchecked")
def test_slices_that_are_no_integers_are_refused():
    encoding = NoPE()
    _, _, cache = filled(encoding)
    for place in ("a", 1.5, math.nan, True, 1j):
        for arguments in ((place,), (0, place)):
            with pytest.raises(TypeError, match="must be an integer or None, got"):
                cache.crop(*arguments)
            with pytest.raises(TypeError, match="must be an integer or None, got"):
                cache.drop(encoding, *reversed((5, *arguments)[-2:]))
    assert len(cache) == cache.count == 9
    cache.crop(np.int64(1), np.int64(8))
    assert len(cache) == 7


def test_a_temperature_is_of_the_query():
    """So the keys of what it is put over are moved, and no others."""
    growth = dict(growth="floor", index_from=1, alpha=0.5, length=3.0)
    for over in (None, RoPE(8, layout="half")):
        encoding = LogN(**growth, over=over)
        layer, x, cache = filled(encoding)
        cache.move(encoding, 5)
        fresh = KVCache()
        layer(x, range(5, 14), cache=fresh)
        torch.testing.assert_close(cache.k, fresh.k, rtol=0, atol=1e-13)


def test_an_emptied_cache_forgets_its_angles():
    layer, x, cache = filled(RoPE(8, layout="half"))
    cache.crop(0, 0)
    layer.encoding = RoPE(8, layout="half", base=500.0)
    layer(x, cache=cache)
    cache.move(layer.encoding, 3)
    assert cache.positions[0, 0] == 3


def test_no_rotation_no_move():
    cases = {
        FoPE(8, layout="half", length=64, padding="ones", coefficients="paper"): None,
        LieRE(8, block=4): grid(3, 3, coordinates="index"),
        PoPE(8, 2): None,
        STRING(8, form="cayley"): grid(3, 3, coordinates="index"),
        XPos(8, layout="half", center=0.0): None,
        ValueRotation(8, layout="half", rotated="leading"): None,
        GTA(8, image_dim=4): torch.rand(9, 8),
    }
    for encoding, at in cases.items():
        _, _, cache = filled(encoding.double(), positions=at)
        by = torch.ones(9, dtype=torch.int64) if at is None else torch.ones_like(at)
        with pytest.raises(ValueError, match="anew"):
            cache.move(encoding, by)
    encoding = Sinusoidal(16, layout="half")
    with pytest.raises(ValueError, match=r"hook 'embed'.* anew"):
        encoding.move_keys(torch.zeros(1, 2, 9, 8), torch.ones(1, 9))
    _, _, cache = filled(ALiBi(2, slopes="authors"))
    with pytest.raises(ValueError, match="belongs to a layer with ALiBi, not NoPE"):
        cache.move(NoPE(), 1)


def test_an_empty_cache_has_only_a_count():
    cache = KVCache()
    cache.drop(RoPE(8, layout="half"), 0, 4)
    cache.move(RoPE(8, layout="half"), 6)
    assert cache.count == 6 and len(cache) == 0
    layer = Attention(16, 2, encoding=RoPE(8, layout="half"))
    layer(torch.randn(1, 2, 16), cache=cache)
    assert cache.positions.tolist() == [[6, 7]]


def test_a_module_of_the_keys_alone():
    keys, shifts = torch.randn(2, 3, 5, 8), torch.tensor([0, 4, -1, 2, 1000])
    turns = dict(layout="interleaved", base=100.0, rotary_dim=4)
    found = Rerotation(8, **turns)(keys, shifts)
    torch.testing.assert_close(found, RoPE(8, **turns)(keys, shifts))
    torch.testing.assert_close(found[..., 4:], keys[..., 4:], rtol=0, atol=0)


# Far offsets

SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))


def grouped(n, window, group, join="floor"):
    at = np.arange(n)
    sizes = dict(far="grouped", window=window, group=group, join=join)
    return extended_offsets(at, at, **sizes)


def test_offsets_by_hand():
    """w = 4, G = 2, query at 9: keys 9 … 6 as they are, then 4, 5, 5, 6, 6, 6 …"""
    row = grouped(10, 4, 2)[9]
    assert row.tolist() == [6, 6, 5, 5, 4, 4, 3, 2, 1, 0]
    at = np.arange(10)
    row = extended_offsets(at, at, far="constant", window=3)[9]
    assert row.tolist() == [3, 3, 3, 3, 3, 3, 3, 2, 1, 0]
    row = extended_offsets(at, at, far="chunks", window=2, chunk=4)[9]
    assert row.tolist() == [6, 5, 4, 3, 5, 4, 3, 2, 1, 0]
    row = extended_offsets(at, at, far="chunks", window=4, chunk=4)[9]
    assert row.tolist() == [7, 6, 5, 4, 5, 4, 3, 2, 1, 0]  # 2c − 1, below c + w


@given(SIZES, st.integers(1, 60), st.sampled_from(["floor", "exact"]))
def test_grouped_offsets_never_fall_with_distance(sizes, n, join):
    """Near ones are as they are; the first far one is at most 1 beyond the window."""
    window, group = sizes
    found = grouped(n, window, group, join)
    i, j = np.tril_indices(n)
    near = i - j < window
    assert (found[i, j][near] == (i - j)[near]).all()
    assert (found[i, j][~near] >= window - 1 + 1 / group - 1e-9).all()
    for row in range(n):
        assert (np.diff(found[row, : row + 1]) <= 1e-9).all()
    if join == "floor" and n > window:
        top = window - window // group + (n - 1) // group
        assert found[i, j].max() == top
        first = found[i, j][i - j == window]
        assert set(first) <= {window, window + 1}
        if window % group == 0:
            assert set(first) == {window}


@given(SIZES, st.integers(1, 60))
def test_the_longest_text(sizes, more):
    """No offset reaches the trained length up to N, and N + 1 tokens reach it."""
    window, group = sizes
    trained = window + more
    n = (trained - window + window // group) * group
    assert grouped(n, window, group).max() == trained - 1
    assert grouped(n + 1, window, group).max() == trained
    printed = mutants.self_extend_longest(trained, window, group)
    assert (printed <= n) == (window % group == 0)
    assert printed - n == window % group


@given(SIZES, st.integers(0, 40))
def test_whole_groups_move_and_nothing_else(sizes, shift):
    window, group = sizes
    at = np.arange(4 * group + window)
    options = dict(far="grouped", window=window, group=group, join="floor")
    here, there = (extended_offsets(p, p, **options) for p in (at, at + shift))
    lower = np.tril(np.ones_like(here, dtype=bool))
    assert (here == there)[lower].all() == (shift % group == 0)


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 60))
def test_chunks_keep_what_is_near_and_bound_what_is_far(window, more, n):
    chunk, at = window + more, np.arange(n)
    found = extended_offsets(at, at, far="chunks", window=window, chunk=chunk)
    i, j = np.tril_indices(n)
    near = i - j <= min(window, chunk - 1)
    assert (found[i, j][near] == (i - j)[near]).all()
    assert found[i, j].min() >= 0 and found[i, j].max() <= chunk + window


def test_published_mistakes_are_seen():
    i, j = np.arange(20)[:, None], np.arange(20)
    expected = grouped(20, 5, 3)
    lower = np.tril(np.ones((20, 20), dtype=bool))
    for fault in (
        mutants.self_extend_without_shift,
        mutants.self_extend_of_the_offset,
        mutants.self_extend_one_late,
    ):
        assert (fault(i, j, 5, 3) != expected)[lower].any(), fault


def test_prompt_and_step_of_one_file_differ_where_the_group_does_not_divide():
    """LongLM cdbbb06, Llama.py: w − w/G for a prompt, w − ⌊w/G⌋ for a token."""
    floor, exact = (grouped(12, 4, 3, join)[11, 0] for join in ("floor", "exact"))
    assert floor - exact == pytest.approx(1 / 3)
    floor, exact = (grouped(12, 6, 3, join)[11, 0] for join in ("floor", "exact"))
    assert floor == exact


KINDS = {
    "grouped": dict(far="grouped", window=3, group=2, join="floor"),
    "exact": dict(far="grouped", window=3, group=2, join="exact"),
    "constant": dict(far="constant", window=3),
    "chunks": dict(far="chunks", window=2, chunk=3),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_offsets_of_the_symbolic_implementation(kind):
    at = np.arange(14)
    found = extended_offsets(at, at, **KINDS[kind])
    for i in range(14):
        for j in range(i + 1):
            assert float(extended_offset(i, j, **KINDS[kind])) == pytest.approx(
                found[i, j], abs=1e-15
            )


@kinds
def test_near_it_is_rope(kind):
    """A text no longer than the window, which is the only change there is."""
    q, k, v = drawn(0, 3, 2, 3, 8)
    sizes = KINDS[kind]
    turned = Hooks(
        rotate=lambda q, k, p: (rope(q, p, **HALF), rope(k, p, **HALF)),
    )
    same = attend_numpy(q, k, v, turned)
    found = attend_numpy(q, k, v, self_extend(layout="half", **sizes))
    np.testing.assert_allclose(found, same, atol=1e-14)


@kinds
def test_decoding_is_a_full_run(kind):
    encoding = SelfExtend(8, layout="half", **KINDS[kind])
    torch.manual_seed(0)
    layer = Attention(16, 2, encoding=encoding).double()
    x, cache = torch.randn(2, 13, 16, dtype=torch.float64), KVCache()
    parts = [layer(part, cache=cache) for part in x.split([5, 1, 1, 6], 1)]
    assert (torch.cat(parts, 1) - layer(x)).abs().max() < 1e-13


def test_keys_of_self_extend_are_cached_unturned():
    encoding = SelfExtend(8, layout="half", **KINDS["grouped"])
    layer, x, cache = filled(encoding, 7)
    expected = layer.k(x).unflatten(-1, (2, 8)).transpose(1, 2)
    assert (cache.k == expected).all()
    cache.move(encoding, 2)
    assert (cache.k == expected).all()


SIZES_REFUSED = [
    (dict(far="near", window=3), "far must be"),
    (dict(far="grouped", window=3, group=2), "far='grouped' needs join, got join=None"),
    (dict(far="grouped", window=3, join="floor"), "needs group"),
    (dict(far="constant", window=3, group=2), "has no group, got group=2"),
    (dict(far="constant", window=3, chunk=2), "has no chunk"),
    (dict(far="chunks", window=3), "needs chunk"),
    (dict(far="chunks", window=3, chunk=2), "chunk must be at least the window of 3"),
    (dict(far="constant", window=0), "window must be a positive"),
    (dict(far="grouped", window=3, group=0, join="floor"), "group must be a positive"),
    (dict(far="grouped", window=3, group=2, join="round"), "join must be 'floor'"),
]


@pytest.mark.parametrize(("sizes", "message"), SIZES_REFUSED)
def test_sizes_refused(sizes, message):
    for call in (
        lambda: extended_offsets([0], [0], **sizes),
        lambda: extended_offset(0, 0, **sizes),
        lambda: self_extend(layout="half", **sizes),
        lambda: SelfExtend(8, layout="half", **sizes),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# Latent attention


def block(seed=0, **options):
    torch.manual_seed(seed)
    given = dict(latent=6, rotary=4, layout="half") | options
    layer = MLA(32, 4, **given).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_(0, p.shape[-1] ** -0.5)
    return layer


BLOCKS = [
    dict(),
    dict(layout="interleaved", q_latent=5),
    dict(norm=False, q_latent=3, base=100.0),
    dict(window=4, rotary=6),
]


@pytest.mark.parametrize("options", BLOCKS)
def test_absorbed_is_plain(options):
    """The cache's way, which makes no key and no value, is that without a cache."""
    layer = block(**options)
    x, cache = torch.randn(2, 11, 32, dtype=torch.float64), KVCache()
    plain = layer(x)
    parts = [layer(part, cache=cache) for part in x.split([4, 1, 1, 5], 1)]
    assert (torch.cat(parts, 1) - plain).abs().max() < 1e-12
    gradients = [
        torch.autograd.grad(out.square().sum(), [*layer.parameters()])
        for out in (plain, layer(x, cache=KVCache()))
    ]
    for a, b in zip(*gradients, strict=True):
        assert (a - b).abs().max() < 1e-10 * (1 + a.abs().max())


@pytest.mark.parametrize("options", BLOCKS[:3])
def test_the_reference_agrees_at_any_positions(options):
    layer = block(**options)
    at = np.array([3.0, 0.0, 7.5, -2.0, 100.0])
    x = torch.randn(1, 5, 32, dtype=torch.float64)
    given = {
        n.replace(".", "_"): p.detach().numpy() for n, p in layer.named_parameters()
    }
    turns = {n: options[n] for n in ("base",) if n in options}
    layout = options.get("layout", "half")
    found = mla(x[0].numpy(), at, heads=4, layout=layout, **turns, **given)
    for cache in (None, KVCache()):
        fast = layer(x, torch.tensor(at), cache=cache)[0].detach().numpy()
        np.testing.assert_allclose(fast, found, atol=1e-13)


def test_a_cache_of_few_numbers():
    """Latent vector and shared key, of all heads: here 10, in place of 64."""
    layer, cache = block(), KVCache()
    layer(torch.randn(1, 7, 32, dtype=torch.float64), cache=cache)
    assert cache.k.shape == (1, 1, 7, 4) and cache.v.shape == (1, 1, 7, 6)
    assert cache.memory == {}


def test_a_latent_cache_is_moved_by_its_shared_key():
    layer, x = block(), torch.randn(1, 8, 32, dtype=torch.float64)
    cache, fresh = KVCache(), KVCache()
    layer(x, cache=cache)
    latent = cache.v
    cache.drop(layer.shared, 2, -3)
    layer(torch.cat((x[:, :2], x[:, -3:]), 1), cache=fresh)
    assert (cache.k - fresh.k).abs().max() < 1e-13
    assert (cache.v == torch.cat((latent[:, :, :2], latent[:, :, -3:]), 2)).all()
    new = torch.randn(1, 1, 32, dtype=torch.float64)
    both = [layer(new, cache=c) for c in (cache, fresh)]
    assert (both[0] - both[1]).abs().max() < 1e-13


def test_padding_and_packing():
    layer = block()
    x = torch.randn(1, 6, 32, dtype=torch.float64)
    hidden = torch.tensor([[True, True, False, False, False, False]])
    at = torch.tensor([[0, 0, 0, 1, 2, 3]])
    padded = layer(x, at, key_padding_mask=hidden)[:, 2:]
    assert (padded - layer(x[:, 2:])).abs().max() < 1e-13
    decoded = layer(x, at, key_padding_mask=hidden, cache=KVCache())[:, 2:]
    assert (padded - decoded).abs().max() < 1e-13
    packed = layer(x, [0, 1, 0, 1, 2, 3], segments=torch.tensor([[0, 0, 1, 1, 1, 1]]))
    assert (packed[:, 2:] - padded).abs().max() < 1e-13


def test_interleaved_in_and_half_out_is_one_permutation_of_both():
    """transformers' DeepSeek reorders queries and keys, then rotates halves.

    Scores are the same; a key so cached does not fit a query that was not sorted.
    """
    q, k = drawn(0, 6, 8), drawn(1, 6, 8)
    at, order = np.arange(6.0), layout_permutation(8)
    turned = [rope(t, at, layout="interleaved") for t in (q, k)]
    sorted_first = [rope(t[:, order], at, layout="half") for t in (q, k)]
    scores = turned[0] @ turned[1].T
    np.testing.assert_allclose(sorted_first[0] @ sorted_first[1].T, scores, atol=1e-13)
    np.testing.assert_allclose(sorted_first[1], turned[1][:, order], atol=1e-14)
    assert np.abs(turned[0] @ sorted_first[1].T - scores).max() > 1


def test_the_scale_counts_what_turns():
    layer = block()
    assert layer.encoding.scale(layer.rotary + layer.d) == pytest.approx(12**-0.5)
    _, taken = layer.steps(torch.randn(1, 3, 32, dtype=torch.float64), cache=KVCache())
    assert taken.tokens.d == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(rotary=3), "rotary must be a positive multiple of 2"),
        (dict(latent=0), "latent must be a positive"),
        (dict(layout="both"), "layout must be"),
        (dict(q_latent=0), "q_latent must be a positive"),
        (dict(norm=1), "norm must be True or False"),
        (dict(route="fused"), "no kernel of its own"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_blocks_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        block(**change)
    with pytest.raises(ValueError, match="d_model must be a positive multiple of 8"):
        MLA(12, 4, latent=2, rotary=2, layout="half")


WEIGHTS = dict(
    q_weight=(12, 8),
    kv_down_weight=(5, 8),
    k_up_weight=(8, 3),
    v_up_weight=(8, 3),
    o_weight=(8, 8),
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(q_weight=(12, 7)), r"q_weight must be \[12, 8\]"),
        (dict(kv_down_weight=(6, 8)), "rotary must be a positive multiple of 2"),
        (dict(k_up_weight=(7, 3)), "rows for 2 heads"),
        (dict(v_up_weight=(8, 2)), r"v_up_weight must be \[8, 3\]"),
        (dict(v_up_weight=(7, 3)), "rows for 2 heads"),
        (dict(k_up_weight=(0, 3)), "rows for 2 heads"),
        (dict(o_weight=(8, 7)), r"o_weight must be \[8, 8\]"),
        (dict(q_gain=(3,)), "give q_down_weight"),
        (dict(kv_gain=(4,)), r"kv_gain must be \[3\]"),
        (dict(o_weight=(8,)), r"o_weight must be \[out, in\]"),
        (dict(q_down_weight=(3, 8)), r"q_weight must be \[12, 3\]"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_weights_refused(change, message):
    given = {n: drawn(0, *shape) for n, shape in (WEIGHTS | change).items()}
    with pytest.raises(ValueError, match=message):
        mla(drawn(1, 4, 8), heads=2, layout="half", **given)


def test_scores_are_of_offsets():
    layer = block()
    x = torch.randn(1, 6, 32, dtype=torch.float64)
    there = layer(x, torch.arange(6) + 1000)
    assert (layer(x) - there).abs().max() < 1e-10
    assert (layer(x) - layer(x, 2 * torch.arange(6))).abs().max() > 1e-3


def test_heads_of_a_step():
    """Logits of the reference, by the hooks, at the offsets of far keys."""
    q, k, v = drawn(3, 3, 1, 9, 4)
    at = np.arange(9.0)
    hooks = self_extend(layout="half", far="constant", window=2)
    taken = steps(q, k, v, hooks, mask=causal_mask(9))
    for i in range(9):
        for j in range(i + 1):
            there = rope(q[0, i][None], [min(i - j, 2)], **HALF)[0] @ k[0, j]
            assert taken.logits[0, i, j] == pytest.approx(there / 2, abs=1e-14)
    assert taken.tokens.query_positions.tolist() == at.tolist()
    assert math.isclose(taken.weights[0, 8].sum(), 1)
