"""M-RoPE and STRING: several coordinates, one axis a pair or planes of their own."""

import json

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import rotary
from posedu.sympy import rotary as symbolic
from posedu.torch import STRING, Attention, KVCache, MixedRoPE, MRoPE, RoPE
from posedu.torch.rotary import m_rope_positions
from support import ROOT, bounds

DOUBLE = torch.float64
LAYOUTS = ("interleaved", "half")
ORACLE = json.loads(
    (ROOT / "tests/oracles" / "m-rope.json").read_text(encoding="utf-8")
)
NEW, OLD = ORACLE["5.23.0"], ORACLE["4.57.6"]

far = st.integers(-(2**20), 2**20) | st.floats(-(2.0**20), 2.0**20)
seeds = st.integers(0, 2**32 - 1)
layouts = st.sampled_from(LAYOUTS)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def within(actual, expected, atol):
    __tracebackhide__ = True
    assert np.shape(actual) == np.shape(expected)
    excess = np.abs(np.asarray(actual) - np.asarray(expected)) - atol
    assert (excess <= 0).all(), f"{excess.max():.3g} beyond {np.max(atol):.3g}"


@st.composite
def sharings(draw):
    """Sections and an order that can share pairs out so."""
    order = draw(st.sampled_from(["sectioned", "interleaved", "alternating"]))
    count = draw(st.integers(1, 4))
    if order == "sectioned":
        sections = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    elif order == "alternating":
        own = draw(st.integers(0, 4))
        sections = [draw(st.integers(0, 4)), *[own] * (count - 1)]
    else:
        first = draw(st.integers(1, 6))
        others = st.lists(st.integers(0, first), min_size=count - 1, max_size=count - 1)
        sections = [first, *draw(others)]
        for axis in range(1, count):
            room = len(range(axis, sum(sections), count))
            sections[0] += max(0, sections[axis] - room) * count
    sections[0] += not sum(sections)
    return tuple(sections), order


# M-RoPE: which pair looks at which axis.


def test_pairs_of_published_models_look_at_the_axes_that_transformers_gives_them():
    for model, order in (
        ("qwen2_vl", "sectioned"),
        ("qwen3_vl", "interleaved"),
        ("qwen3_5", "interleaved"),
    ):
        known = NEW["axes"][model]
        axes = rotary.m_rope_axes(known["sections"], order=order)
        assert known["order"] == order and [*axes, *axes] == known["features"]
    height, width, time = NEW["axes"]["ernie4_5_vl_moe"]["sections"]
    axes = rotary.m_rope_axes((time, height, width), order="alternating")
    assert axes.repeat(2).tolist() == NEW["axes"]["ernie4_5_vl_moe"]["features"]


def test_the_port_of_hunyuan_gives_the_two_features_of_a_pair_different_axes():
    known = NEW["axes"]["hunyuan_vl"]
    first, second = np.reshape(known["features"], (2, -1))
    assert (first != second).all()
    assert [*first, *second] == mutants.sections_of_features(known["sections"]).tolist()
    axes = rotary.m_rope_axes(known["sections"], order="sectioned")
    assert axes.tolist() == np.repeat(range(4), 16).tolist()


@given(sharings())
def test_each_axis_has_as_many_pairs_as_its_section_says(sharing):
    sections, order = sharing
    axes = rotary.m_rope_axes(sections, order=order)
    assert np.bincount(axes, minlength=len(sections)).tolist() == list(sections)
    usual = rotary.m_rope_frequencies(sections, order=order)
    given = rotary.m_rope_frequencies(sections, order=order, base=10000.0)
    assert np.array_equal(usual, given)
    f = rotary.m_rope_frequencies(sections, order=order, base=100.0)
    assert np.array_equal(f.argmax(-1), axes) and ((f > 0).sum(-1) == 1).all()
    np.testing.assert_allclose(
        f.sum(-1), 100.0 ** (-np.arange(len(axes)) / len(axes)), rtol=8 * bounds.U64
    )
    exact = symbolic.m_rope_frequencies(sections, order=order, base=sp.Integer(100))
    np.testing.assert_allclose(
        np.array(exact.evalf(20), dtype=float), f, rtol=8 * bounds.U64
    )
    module = MRoPE(2 * len(axes), sections=sections, order=order, layout="half")
    each = torch.eye(len(sections), dtype=DOUBLE)
    cos, _ = module.table(torch.arange(1.0, 2.0).double() * each, dtype=DOUBLE)
    assert np.array_equal((cos != 1).numpy().argmax(0), axes)


@pytest.mark.parametrize(
    "version", [mutants.interleaved_to_the_end, mutants.sectioned_for_interleaved]
)
def test_other_orders_are_seen(version):
    sections = (24, 20, 20)
    right = rotary.m_rope_axes(sections, order="interleaved")
    assert (right != version(sections)).any()
    x = normal(0, 1, 128)
    f = rotary.m_rope_frequencies(sections, order="interleaved")
    other = f.sum(-1, keepdims=True) * (version(sections)[:, None] == np.arange(3))
    for at, same in ((5, 5, 5), True), ((5, 9, 2), False):
        one, two = (
            rotary.mixed(x, [at], frequencies=g, layout="half") for g in (f, other)
        )
        assert np.array_equal(one, two) is same


# M-RoPE: what it is.


@given(sharings(), layouts, st.integers(0, 2), seeds)
def test_text_is_turned_as_by_rope(sharing, layout, more, seed):
    sections, order = sharing
    turning = 2 * sum(sections)
    x, at = normal(seed, 4, turning + 2 * more), 100 * normal(seed + 1, 4)
    everywhere = np.repeat(at[:, None], len(sections), 1)
    options = dict(layout=layout, base=500.0)
    text = rotary.m_rope(x, everywhere, sections=sections, order=order, **options)
    rope = rotary.rope(x, at, rotary_dim=turning, **options)
    size = np.abs(at)
    within(text, rope, bounds.rotated_blocks(x, size, 2, DOUBLE))
    module = MRoPE(x.shape[-1], sections=sections, order=order, **options)
    plain = RoPE(x.shape[-1], rotary_dim=turning, **options)
    turned = module(torch.tensor(x), torch.tensor(everywhere))
    assert torch.equal(turned, plain(torch.tensor(x), torch.tensor(at)))


@given(sharings(), layouts, st.data())
def test_scores_see_the_offset_of_each_axis_alone(sharing, layout, data):
    sections, order = sharing
    point = st.tuples(*[far] * len(sections))
    positions, shift = (np.array(data.draw(point), dtype=float) for _ in range(2))
    positions = np.stack((positions, positions[::-1]))
    q, k = normal(data.draw(seeds), 2, 2, 2 * sum(sections))
    module = MRoPE(q.shape[-1], sections=sections, order=order, layout=layout)
    scores = []
    for at in (positions, positions + shift):
        turned = module.rotate(*map(torch.tensor, (q, k)), torch.tensor(at))
        scores.append((turned[0] @ turned[1].mT).numpy())
    size = (np.abs(positions) + np.abs(shift)).sum(-1).max()
    within(*scores, bounds.relative_scores(q, k, size))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_four_axes_and_an_axis_without_pairs(layout):
    options = dict(sections=(1, 2, 0, 1), order="sectioned", layout=layout)
    x, at = normal(1, 2, 3, 10), normal(2, 2, 3, 4)
    module = MRoPE(10, **options)
    turned = module(torch.tensor(x), torch.tensor(at))
    expected = rotary.m_rope(x, at, **options)
    size = np.abs(at).sum(-1)
    within(turned.numpy(), expected, bounds.rotated_blocks(x, size, 2, DOUBLE))
    assert torch.equal(turned[..., 8:], torch.tensor(x[..., 8:]))
    at[..., 2] = 99
    assert np.array_equal(rotary.m_rope(x, at, **options), expected)


def test_doubled_sections_do_not_rotate():
    axes = mutants.sections_of_features((16,) * 4).reshape(2, -1)
    omega = rotary.m_rope_frequencies((64,), order="sectioned")[:, 0]

    def length(at):
        a, b = np.array(at)[axes] * omega
        x, y = normal(3, 2, 64)
        turned = x * np.cos(a) - y * np.sin(a), y * np.cos(b) + x * np.sin(b)
        return np.linalg.norm(turned) / np.linalg.norm((x, y))

    assert length((7, 7, 7, 7)) == pytest.approx(1, abs=1e-12)
    assert abs(length((7, 3, 5, 0)) - 1) > 0.01


# Positions.


def steps(part, scale):
    """A part of the oracle's, with the steps from frame to frame for the seconds."""
    if isinstance(part, int):
        return part
    return (*part[:3], *[scale(seconds) for seconds in part[3:]])


@pytest.mark.parametrize("version, after", [(OLD, "largest"), (NEW, "grid")])
def test_positions_are_those_of_transformers(version, after):
    for case in version["positions"]:
        for model, scale in (
            ("qwen2-vl", lambda seconds: 1),
            # 4.57.6 makes whole seconds of them before it multiplies
            ("qwen2.5-vl", lambda s: 4 * (int(s) if version is OLD else s)),
        ):
            parts = [steps(part, scale) for part in case["parts"]]
            found = rotary.m_rope_positions(parts, after=after)
            assert found.tolist() == case[model]["positions"]
            assert found.max() + 1 - len(found) == case[model]["delta"]


@pytest.mark.parametrize("version", [OLD, NEW])
def test_omni_goes_on_behind_the_largest_coordinate_in_both_versions(version):
    for case in version["positions"]:
        parts = [steps(part, lambda seconds: 25 * seconds) for part in case["parts"]]
        found = rotary.m_rope_positions(parts, after="largest")
        assert found.tolist() == case["qwen2.5-omni"]["positions"]
        assert found.max() + 1 - len(found) == case["qwen2.5-omni"]["delta"]


numbers = st.integers(1, 4)
grids = st.tuples(numbers, numbers, numbers)
videos = st.tuples(numbers, numbers, numbers, st.floats(0, 30))


@given(st.lists(st.integers(0, 5) | grids | videos, max_size=5))
def test_positions_of_both_implementations_are_equal_and_later_parts_come_later(parts):
    found = rotary.m_rope_positions(parts, after="largest")
    for after in ("largest", "grid"):
        implementation = m_rope_positions(parts, after=after)
        assert implementation.dtype == torch.int64
        assert np.array_equal(
            implementation, rotary.m_rope_positions(parts, after=after)
        )
    first, last = 0, -1
    for part in parts:
        count = part if isinstance(part, int) else int(np.prod(part[:3]))
        if count:
            own = found[first : first + count]
            assert own.min() == last + 1 and (own.min(0) == last + 1).all()
            last, first = own.max(), first + count
            assert len({tuple(place) for place in own}) == count or part[3] < 1
    assert first == len(found)


def test_positions_by_hand():
    found = rotary.m_rope_positions([2, (1, 2, 2), 1], after="largest")
    assert found.tolist() == [
        *([0, 0, 0], [1, 1, 1]),
        *([2, 2, 2], [2, 2, 3], [2, 3, 2], [2, 3, 3]),
        [4, 4, 4],
    ]
    video = rotary.m_rope_positions([(3, 1, 1, 12.5), 1], after="largest")
    assert video.tolist() == [[0, 0, 0], [12, 0, 0], [25, 0, 0], [26, 26, 26]]
    video = rotary.m_rope_positions([(3, 1, 1, 12.5), 1], after="grid")
    assert video.tolist()[-1] == [1, 1, 1]
    assert rotary.m_rope_positions([], after="grid").shape == (0, 3)


# STRING.


def make(form, d, seed=0, **options):
    torch.manual_seed(seed)
    return STRING(d, form=form, **options).double()


def arrays(module):
    return {n: p.detach().numpy() for n, p in module.named_parameters()}


@pytest.mark.parametrize("d", [4, 8, 64, 128])
@pytest.mark.parametrize("form", ["cayley", "circulant"])
def test_three_axes_share_the_usual_heads(form, d):
    """A video's t, x and y: 64 and 128 are no multiples of 6."""
    module = make(form, d, axes=3)
    at, x = normal(0, 5, 3), normal(1, 5, d)
    found = module(torch.tensor(x), torch.tensor(at)).detach().numpy()
    expected = rotary.string(x, at, form=form, **arrays(module))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    if form == "cayley":
        f = module.frequencies.detach().numpy()
        counts = (f != 0).sum(0)
        assert counts.sum() == d // 2 and counts.max() - counts.min() <= 1


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_equal_shares_start_as_axial_rope(axes):
    start = make("cayley", 12, axes=axes).frequencies.detach().numpy()
    f = rotary.axial_frequencies(12, order="concatenated", axes=axes)
    np.testing.assert_allclose(start, f, rtol=1e-7)


@given(st.integers(1, 6), st.integers(1, 3), seeds)
def test_circulant_is_the_exponential_of_its_generators(half, axes, seed):
    d = 2 * half
    c, at = normal(seed, axes, d), normal(seed + 1, 3, axes)
    generators = rotary.circulant_generators(c)
    assert np.array_equal(generators, np.roll(generators, (1, 1), (-2, -1)))
    products = np.einsum("kij,ljn->klin", generators, generators)
    size = np.abs(generators).max() ** 2
    within(products, products.swapaxes(0, 1), 4 * d**2 * bounds.U64 * size)
    x = normal(seed + 2, 3, d)
    turned = rotary.string(x, at, form="circulant", coefficients=c)
    dense = rotary.exponential(np.einsum("tk,kij->tij", at, generators))
    expected = np.einsum("tij,tj->ti", dense, x)
    norms = np.linalg.norm(generators, 2, axis=(-2, -1))
    size = np.abs(at) @ norms
    within(turned, expected, bounds.rotated_blocks(x, size, d, DOUBLE))


@given(st.integers(2, 8), seeds)
def test_two_features_of_a_circulant_rest_and_all_frequencies_are_reached(half, seed):
    d = 2 * half
    f = normal(seed, half - 1, 2)
    n, m = np.arange(d), np.arange(1, half)
    c = (np.sin(2 * np.pi / d * np.outer(n, m)) @ f / d).T
    found = rotary.circulant_frequencies(c)
    within(found[:-1], f, 8 * d * bounds.U64 * np.abs(f).max())
    assert not found[-1].any()
    generators = rotary.circulant_generators(c)
    resting = np.stack((np.ones(d), (-1.0) ** n))
    within(generators @ resting.T, np.zeros((2, d, 2)), 8 * d * bounds.U64)
    ranks = np.linalg.matrix_rank(np.concatenate(generators))
    assert ranks == d - 2
    even = normal(seed, 1, d)
    even = even + even[:, -n % d]  # what is even is not seen
    within(rotary.circulant_frequencies(even), np.zeros((half, 1)), 1e-13)


@given(st.integers(2, 9), seeds)
def test_cayley_is_a_rotation_without_the_eigenvalue_minus_one(d, seed):
    p = rotary.cayley(normal(seed, d * (d - 1) // 2))
    within(p.T @ p, np.eye(d), 32 * d**2 * bounds.U64)
    assert np.linalg.det(p) == pytest.approx(1, abs=1e-12)
    assert np.abs(np.linalg.eigvals(p) + 1).min() > 1e-6
    s = np.linalg.inv(np.eye(d) + p) @ (np.eye(d) - p)  # its own inverse
    within(s, rotary.skew(normal(seed, d * (d - 1) // 2)), 1e-9 * (1 + abs(s).max()))
    other = mutants.cayley_of_any(normal(seed, d, d))
    assert np.abs(other.T @ other - np.eye(d)).max() > 1e-3


def test_what_stretches_is_seen():
    c = normal(0, 2, 6)
    stretched = mutants.circulant_sum(np.ones(2), c)
    assert np.linalg.norm(stretched, 2) > 1.1
    turned = rotary.string(np.eye(6), np.ones((6, 2)), form="circulant", coefficients=c)
    assert np.linalg.norm(turned, 2) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("form", ["cayley", "circulant"])
@given(st.data())
def test_scores_of_string_see_the_offset_alone(form, data):
    module = make(form, 8, data.draw(st.integers(0, 99)), heads=2)
    point = st.tuples(far, far)
    positions = np.array(data.draw(st.lists(point, min_size=2, max_size=4)), float)
    shift = np.array(data.draw(point), dtype=float)
    q, k = normal(data.draw(seeds), 2, 2, len(positions), 8)
    scores = []
    for at in (positions, positions + shift):
        with torch.no_grad():
            turned = module.rotate(*map(torch.tensor, (q, k)), torch.tensor(at))
        scores.append((turned[0] @ turned[1].mT).numpy())
    parameters = arrays(module)
    f = parameters.get("frequencies")
    if f is None:
        f = rotary.circulant_frequencies(parameters["coefficients"])
    largest = np.abs(f).reshape(-1, 2).max(0)
    size = ((np.abs(positions) + np.abs(shift)) @ largest).max()
    within(*scores, bounds.relative_scores(q, k, size, 8))


@pytest.mark.parametrize("form", ["cayley", "circulant"])
def test_it_is_mixed_rope_in_a_basis(form):
    module = make(form, 8)
    x, at = torch.tensor(normal(0, 5, 8)), torch.tensor(normal(1, 5, 2)) * 10
    if form == "cayley":
        before, after = module.basis(), torch.eye(8, dtype=DOUBLE)
        f = module.frequencies
    else:
        before = torch.tensor(np.array(symbolic.fourier_basis(8).T.evalf(), float))
        after = before.T
        f = torch.tensor(rotary.circulant_frequencies(arrays(module)["coefficients"]))
    mixed = MixedRoPE(8, layout="interleaved", frequencies=f)
    expected = mixed(x @ before.T, at) @ after.T
    within(module(x, at).detach(), expected.detach(), 1e-13)


def test_a_compiler_and_no_tokens_take_waves_without_a_transform(unchecked):
    module = make("circulant", 8, heads=2)
    x, at = torch.tensor(normal(0, 2, 5, 8)), torch.tensor(normal(1, 5, 2)) * 10
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    within(compiled(x, at).detach(), module(x, at).detach(), 1e-13)
    assert module(x[:, :0], at[:0]).shape == (2, 0, 8)


def test_cayley_starts_as_mixed_where_s_is_0():
    module = make("cayley", 8, scale=0.0)
    mixed = MixedRoPE(8, layout="interleaved", frequencies=module.frequencies)
    x, at = torch.tensor(normal(0, 5, 8)), torch.tensor(normal(1, 5, 2))
    assert torch.equal(module(x, at), mixed(x, at))
    axial = rotary.axial_frequencies(8, order="concatenated")
    within(module.frequencies.detach(), axial, 1e-6)


def test_the_start_has_the_deviations_that_it_says():
    module = make("circulant", 64, heads=40, scale=3.0)
    f = rotary.circulant_frequencies(arrays(module)["coefficients"])[:, :-1]
    assert f.std() == pytest.approx(3, rel=0.1)
    module = make("cayley", 64, heads=4, scale=3.0)
    assert module.entries.std().item() == pytest.approx(3 / 8, rel=0.1)


@pytest.mark.parametrize("form", ["cayley", "circulant"])
def test_neighboring_heads_share_parameters(form):
    module = make(form, 8, heads=2)
    q, k = torch.tensor(normal(0, 3, 6, 5, 8)), torch.tensor(normal(1, 3, 2, 5, 8))
    at = torch.tensor(normal(2, 5, 2))
    turned, _ = module.rotate(q, k, at)
    for head in range(6):
        own = {n: p[head // 3] for n, p in arrays(module).items()}
        expected = rotary.string(q[:, head].numpy(), at.numpy(), form=form, **own)
        within(turned[:, head].detach(), expected, 1e-13)


@pytest.mark.parametrize("form", ["cayley", "circulant"])
def test_gradients_of_both_orders(form):
    module = make(form, 4, heads=2)
    names = [n for n, _ in module.named_parameters()]
    x = torch.tensor(normal(6, 2, 3, 4), requires_grad=True)
    at = torch.tensor(normal(7, 3, 2), requires_grad=True)

    def turn(x, at, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(module, given, (x, at))

    given = (x, at, *module.parameters())
    assert torch.autograd.gradcheck(turn, given)
    assert torch.autograd.gradgradcheck(turn, given)


ENCODINGS = {
    "m-rope": lambda: MRoPE(8, sections=(2, 1, 1), order="interleaved", layout="half"),
    "cayley": lambda: STRING(8, form="cayley"),
    "circulant": lambda: STRING(8, form="circulant"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_cached_prefix_changes_nothing(name):
    torch.manual_seed(0)
    encoding = ENCODINGS[name]()
    layer = Attention(16, heads=2, encoding=encoding).double()
    x = torch.randn(2, 9, 16).double()
    at = torch.randint(0, 50, (9, encoding.axes))
    cache = KVCache()
    parts = [
        layer(x[:, own], at[own], cache=cache) for own in (slice(0, 6), slice(6, 9))
    ]
    torch.testing.assert_close(torch.cat(parts, 1), layer(x, at), rtol=0, atol=1e-13)


SHARED = dict(order="interleaved", layout="half")
Z = np.zeros((2, 8))
REFUSED = {
    "no sections": (
        lambda: MRoPE(8, sections=(), **SHARED),
        ValueError,
        "sections must have at least one pair",
    ),
    "a number": (lambda: MRoPE(8, sections=4, **SHARED), TypeError, "for each axis"),
    "a share": (
        lambda: MRoPE(8, sections=(0.5, 0.5), **SHARED),
        TypeError,
        "a section must be an integer",
    ),
    "too few features": (
        lambda: MRoPE(6, sections=(2, 1, 1), **SHARED),
        ValueError,
        "d must be at least 8",
    ),
    "an odd d": (
        lambda: MRoPE(9, sections=(2, 1, 1), **SHARED),
        ValueError,
        "d must be a positive multiple of 2",
    ),
    "no room in the stride": (
        lambda: MRoPE(128, sections=(16, 24, 24), **SHARED),
        ValueError,
        "leaves axis 1 at most 21 of",
    ),
    "turns of unequal length": (
        lambda: rotary.m_rope_axes((20, 22, 24), order="alternating"),
        ValueError,
        "must be equal for order='alternating'",
    ),
    "another order": (
        lambda: rotary.m_rope_axes((2, 1, 1), order="strided"),
        ValueError,
        "order must be 'sectioned' or",
    ),
    "too few features of the reference": (
        lambda: rotary.m_rope(Z, np.zeros((2, 3)), sections=(3, 2, 2), **SHARED),
        ValueError,
        "d at least 14",
    ),
    "too few features of symbols": (
        lambda: symbolic.m_rope(sp.ones(4, 1), [0, 0, 0], sections=(2, 1, 1), **SHARED),
        ValueError,
        "at least 8 features",
    ),
    "two coordinates": (
        lambda: rotary.m_rope(Z, np.zeros((2, 2)), sections=(2, 1, 1), **SHARED),
        ValueError,
        r"positions must be \[tokens, 3\]",
    ),
    "ids before tokens": (
        lambda: MRoPE(8, sections=(2, 1, 1), **SHARED)(
            torch.zeros(1, 5, 8), torch.zeros(3, 1, 5)
        ),
        ValueError,
        r"positions must be \[tokens, 3\]",
    ),
    "a part of two": (
        lambda: rotary.m_rope_positions([(2, 2)], after="grid"),
        ValueError,
        "a picture or video must be",
    ),
    "half a token": (
        lambda: rotary.m_rope_positions([2.5], after="grid"),
        TypeError,
        "text must be an integer",
    ),
    "no rows": (
        lambda: m_rope_positions([(1, 0, 2)], after="grid"),
        ValueError,
        "rows must be a positive",
    ),
    "time that runs back": (
        lambda: m_rope_positions([(1, 1, 2, -1.0)], after="grid"),
        ValueError,
        "step must be finite and not negative",
    ),
    "words": (
        lambda: m_rope_positions("ab", after="grid"),
        TypeError,
        "parts must be counts and grids",
    ),
    "too far": (
        lambda: m_rope_positions([2**31 - 1, 2], after="grid"),
        ValueError,
        "coordinates must be at most",
    ),
    "another rule": (
        lambda: m_rope_positions([1], after="max"),
        ValueError,
        "after must be 'largest' or 'grid'",
    ),
    "another form": (
        lambda: STRING(8, form="fft"),
        ValueError,
        "form must be 'cayley' or 'circulant'",
    ),
    "a negative scale": (
        lambda: STRING(8, form="cayley", scale=-1.0),
        ValueError,
        "scale must be finite and not negative",
    ),
    "odd d": (
        lambda: STRING(9, form="circulant", axes=3),
        ValueError,
        "d must be a positive multiple of 2",
    ),
    "no entries": (
        lambda: rotary.string(Z, Z[:, :2], form="cayley"),
        ValueError,
        "takes entries and frequencies alone",
    ),
    "entries for a circulant": (
        lambda: rotary.string(Z, Z[:, :2], form="circulant", entries=np.ones(1)),
        ValueError,
        "takes coefficients alone",
    ),
    "entries of another d": (
        lambda: rotary.string(
            Z, Z[:, :2], form="cayley", entries=np.ones(6), frequencies=Z[:, :2]
        ),
        ValueError,
        r"x must be \[..., tokens, 4\] for these parameters",
    ),
    "an odd circulant": (
        lambda: rotary.circulant_frequencies(np.ones((2, 5))),
        ValueError,
        "with d even",
    ),
    "coefficients not finite": (
        lambda: rotary.circulant_generators(np.full((2, 4), np.nan)),
        ValueError,
        "coefficients must be finite",
    ),
    "entries not finite": (
        lambda: rotary.cayley(np.array([np.inf])),
        ValueError,
        "entries must be finite",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case, unchecked):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


def test_only_features_must_be_even():
    """The reference takes any number of heads and tokens, and no odd d."""
    options = dict(sections=(2, 1), order="sectioned", layout="half")
    at = np.arange(6.0).reshape(3, 2)
    x = np.random.default_rng(0).normal(size=(3, 8))
    assert rotary.m_rope(x, at, **options).shape == x.shape
    with pytest.raises(ValueError, match="d must be a positive multiple of 2, got 7"):
        rotary.m_rope(np.ones((2, 3, 7)), at, **options)
