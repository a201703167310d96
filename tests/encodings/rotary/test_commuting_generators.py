"""Rotations in several coordinates: theorems, special cases, conventions, bad input."""

import inspect
import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, expm
from scipy.stats import ortho_group

import posedu.numpy
import posedu.sympy
from posedu.numpy import rotary as reference
from posedu.sympy import rotary as symbolic
from posedu.torch import (
    Attention,
    AxialRoPE,
    ComRoPEAP,
    ComRoPELD,
    KVCache,
    LieRE,
    MixedRoPE,
    RoPE,
    fold_basis,
    grid,
)
from posedu.torch import rotary as fast
from posedu.torch.rotary import exponential, perturb, skew
from support import compiling

pytestmark = pytest.mark.usefixtures("untraced_flex")

DOUBLE = torch.float64
U = 2.0**-53
seeds = st.integers(0, 2**31)
LAYOUTS, ORDERS = ("interleaved", "half"), ("concatenated", "alternating")


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def bound(exponent_norm, b, length):
    """Bound the error of two rotated vectors' score: 8 b u (1 + |X|) per exponential.

    Four of them are compared, of vectors whose lengths have the product ``length``.
    """
    return 4 * 8 * b * U * (1 + exponent_norm) * length


def relativity(generators, x, y, shift, seed=0):
    """The change of a score under a common shift, and its bound."""
    _, blocks, b, _ = generators.shape
    q, k = draw(seed, 2, 1, blocks * b)

    def score(x, y):
        turned = (
            reference.rotate_by_generators(v, [at], generators)
            for v, at in ((q, x), (k, y))
        )
        return np.vdot(*turned)

    norms = np.linalg.norm(generators, ord=2, axis=(-2, -1)).max(-1)
    reach = max(np.abs(p) @ norms for p in (x, y, x + shift, y + shift))
    limit = bound(reach, b, np.linalg.norm(q) * np.linalg.norm(k))
    return abs(score(x + shift, y + shift) - score(x, y)), limit


def places(seed, axes, far=100.0):
    x, y, shift = draw(seed, 3, axes)
    return x, y, far * shift


# Exactly relative, or not


@given(seeds, st.sampled_from((2, 4, 6)), st.integers(1, 3), st.integers(1, 3))
def test_comrope_is_exactly_relative(seed, block, axes, rounds):
    p = draw(seed, axes * rounds, block, block)
    theta = draw(seed + 1, axes, axes * rounds)
    for generators in (
        reference.ap_generators(p, axes=axes),
        reference.ld_generators(p, theta),
    ):
        change, limit = relativity(generators, *places(seed, axes))
        assert change <= limit


@given(seeds, st.integers(1, 4), st.integers(1, 3))
def test_mixed_rope_is_exactly_relative(seed, pairs, axes):
    f = draw(seed, pairs, axes)
    q, k = draw(seed + 1, 2, 1, 2 * pairs)
    x, y, shift = places(seed, axes)

    def score(x, y):
        options = {"frequencies": f, "layout": "half"}
        return np.vdot(
            *(reference.mixed(v, [p], **options) for v, p in ((q, x), (k, y)))
        )

    reach = np.abs(f).sum() * max(np.abs(p).max() for p in (x + shift, y + shift))
    limit = bound(reach, 2, np.linalg.norm(q) * np.linalg.norm(k))
    assert abs(score(x + shift, y + shift) - score(x, y)) <= limit


@given(seeds, st.integers(2, 6))
def test_liere_is_relative_on_a_line(seed, block):
    free = draw(seed, 1, 2, block * (block - 1) // 2)
    change, limit = relativity(reference.skew(free), *places(seed, 1))
    assert change <= limit


@given(seeds, st.integers(3, 6))
def test_liere_on_two_axes_is_not_but_for_pairs_with_the_origin(seed, block):
    generators = reference.skew(2 * draw(seed, 2, 1, block * (block - 1) // 2))

    def off(x, y):
        r, s, moved = reference.rotations([x, y, y - x], generators)[:, 0]
        return np.abs(r.T @ s - moved).max()

    points = draw(seed + 1, 8, 2, 2) + 3
    assert max(off(x, y) for x, y in points) > 1e-3
    assert off(np.zeros(2), points[0, 0]) < 1e-13


def test_the_quarter_turns_have_their_published_matrices():
    a = reference.skew(np.pi / 2 * np.array([[-1.0, 0, 0], [0, 0, -1]]))[:, None]
    x, y = np.eye(2)
    r, s, moved = reference.rotations([x, y, y - x], a)[:, 0]
    exact = [[0, 0, -1], [-1, 0, 0], [0, 1, 0]]
    np.testing.assert_allclose(r.T @ s, exact, rtol=0, atol=1e-15)
    published = [
        [0.1972, 0.5626, -0.8029],
        [-0.5626, -0.6057, -0.5626],
        [-0.8029, 0.5626, 0.1972],
    ]
    np.testing.assert_allclose(moved, published, rtol=0, atol=5.1e-5)


def test_the_law_can_hold_on_a_grid_without_commuting():
    a = reference.skew(np.pi * np.array([[-6.0, 0, 0], [0, 0, -8]]))[:, None]

    def off(x, y):
        r, s, moved = reference.rotations(np.array([x, y, y - x]), a)[:, 0]
        return np.abs(r.T @ s - moved).max()

    corners = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    assert max(off(x, y) for x in corners for y in corners) < 1e-13
    assert off(np.array([0.5, 0]), np.array([0, 0.5])) > 1


# Exponentials


@given(seeds, st.integers(2, 6), st.sampled_from((0.0, 1e-8, 1e-4, 1.0, 100.0)))
def test_exponentials_are_rotations_and_right(seed, block, size):
    a = size * reference.skew(draw(seed, block * (block - 1) // 2))
    norm = np.linalg.norm(a, ord=2)
    ours = exponential(torch.tensor(a)).numpy()
    limit = 16 * block * U * (1 + norm)
    np.testing.assert_allclose(ours, reference.exponential(a), rtol=0, atol=limit)
    # Its squarings double the error of the ones before: a larger multiple of |A|.
    np.testing.assert_allclose(ours, expm(a), rtol=0, atol=32 * limit)
    np.testing.assert_allclose(ours.T @ ours, np.eye(block), rtol=0, atol=2 * limit)
    assert np.linalg.det(ours) == pytest.approx(1, abs=4 * block * limit)


@pytest.mark.parametrize("block", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-4, 1.0])
def test_their_gradient_is_right_also_at_zero(block, size):
    entries = size * torch.tensor(draw(0, 2, block * (block - 1) // 2))
    entries.requires_grad_()
    assert torch.autograd.gradcheck(lambda e: exponential(skew(e)), entries, atol=1e-7)


# The normal form


@given(seeds, st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_commuting_generators_have_a_normal_form(seed, pairs, axes, kind):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(pairs, axes))
    f[0] *= kind != 1
    f[-1] = (f[-1], f[-1], f[0], -f[0])[kind]
    quarter = np.array([[0.0, -1], [1, 0]])
    q = ortho_group.rvs(2 * pairs, random_state=rng)
    a = np.stack([q @ block_diag(*[v * quarter for v in c]) @ q.T for c in f.T])
    a = (a - a.swapaxes(-1, -2)) / 2
    basis, found = reference.normal_form(a)
    form = np.stack([block_diag(*[v * quarter for v in c]) for c in found.T])
    np.testing.assert_allclose(basis.T @ a @ basis, form, rtol=0, atol=1e-12)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2 * pairs), atol=1e-13)


def comropes(seed, axes, heads, block, scale=1.0):
    torch.manual_seed(seed)
    shape = {"block": block, "axes": axes, "heads": heads, "scale": scale}
    d = 2 * axes * block
    yield ComRoPEAP(d, **shape)
    yield ComRoPELD(d, multipliers="per head", **shape)
    yield ComRoPELD(d, multipliers="shared", **shape)


@settings(max_examples=20)
@given(
    seeds,
    st.integers(1, 3),
    st.sampled_from((None, 2)),
    st.sampled_from((2, 4, 8)),
    st.sampled_from((0.0, 1.0)),
)
def test_comrope_is_mixed_rope_in_a_basis(seed, axes, heads, block, scale):
    for module in comropes(seed, axes, heads, block, scale):
        rope, basis = module.as_mixed_rope()
        own = () if heads is None else (heads,)
        x = torch.tensor(draw(seed, *own, 5, module.d))
        at = torch.tensor(draw(seed + 1, 5, axes))
        blocks = x.unflatten(-1, (-1, block))
        inside = torch.einsum("...mij,...tmi->...tmj", basis, blocks).flatten(-2)
        turned = rope(inside, at).unflatten(-1, (-1, block))
        out = torch.einsum("...mij,...tmj->...tmi", basis, turned).flatten(-2)
        torch.testing.assert_close(module.double()(x, at), out, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kv_heads", [2, 4])
def test_the_basis_folds_into_a_layer(kv_heads):
    for encoding in comropes(0, 2, kv_heads, 4):
        d = encoding.d
        layer = Attention(12, 4, kv_heads=kv_heads, d=d, encoding=encoding, bias=True)
        rope, basis = encoding.as_mixed_rope()
        lean = Attention(12, 4, kv_heads=kv_heads, d=d, encoding=rope, bias=True)
        layer, lean = layer.double(), lean.double()
        for name, weight in layer.state_dict().items():
            if name[0] in "qk":
                weight = fold_basis(weight, basis)
            if name[0] in "qkvo":
                lean.get_parameter(name).data = weight
        x, at = torch.tensor(draw(1, 2, 6, 12)), torch.tensor(draw(2, 6, 2))
        torch.testing.assert_close(layer(x, at), lean(x, at), rtol=0, atol=1e-12)


# Special cases


@given(seeds, st.sampled_from((2, 8)))
def test_rope_axial_and_mixed_are_cases_of_liere_and_comrope(seed, d):
    x = torch.tensor(draw(seed, 5, d))
    line = torch.tensor(draw(seed + 1, 5, 1) * 30)
    rope = RoPE(d, layout="interleaved")
    omega = torch.tensor(
        reference.axial_frequencies(d, order="alternating", axes=1, base=1e4)
    )
    targets = [(rope(x, line[:, 0]), omega, line)]
    if d == 8:
        plane = torch.tensor(draw(seed + 2, 5, 2) * 10)
        axial = AxialRoPE(d, order="alternating", layout="interleaved")
        f = torch.tensor(reference.axial_frequencies(d, order="alternating"))
        targets.append((axial(x, plane), f, plane))
        f = torch.tensor(draw(seed + 3, d // 2, 2))
        mixed = MixedRoPE(d, layout="interleaved", frequencies=f)
        targets.append((mixed(x, plane), f, plane))
    for wanted, f, at in targets:
        axes = f.shape[1]
        liere = LieRE(d, block=2, axes=axes).double()
        liere.entries.data = -f.mT[..., None]
        ld = ComRoPELD(d, block=2, axes=axes, multipliers="shared").double()
        ld.matrices.data = (
            torch.tensor([[0.0, 0.0], [1.0, 0.0]]).double().expand(d // 2, 2, 2)
        )
        ld.multipliers.data = f.mT.contiguous()
        for module in (liere, ld):
            torch.testing.assert_close(module(x, at), wanted, rtol=0, atol=1e-12)
    if d == 8:
        ap = ComRoPEAP(d, block=2).double()
        f = torch.tensor(reference.axial_frequencies(d, order="alternating")).sum(1)
        ap.matrices.data = f[:, None, None] * torch.tensor([[0.0, 0], [1, 0]]).double()
        torch.testing.assert_close(ap(x, plane), targets[1][0], rtol=0, atol=1e-12)


@given(seeds, st.sampled_from((8, 12, 24)))
def test_the_two_orders_are_a_permutation_of_pairs_apart(seed, d):
    axes = 2 if d == 8 else 3
    one, other = (reference.axial_frequencies(d, order=o, axes=axes) for o in ORDERS)
    assert sorted(map(tuple, one)) == sorted(map(tuple, other))
    assert (one != other).any()


def test_axial_frequencies_are_as_published():
    f = reference.axial_frequencies(16, order="concatenated")
    theta = 100.0 ** (-4 * np.arange(4) / 16)
    np.testing.assert_allclose(f[:4, 0], theta)
    np.testing.assert_allclose(f[4:, 1], theta)
    assert not f[:4, 1].any() and not f[4:, 0].any()
    torch.testing.assert_close(
        AxialRoPE(16, order="concatenated", layout="half").table(
            torch.tensor([[1.0, 0]]), dtype=DOUBLE
        )[0],
        torch.tensor(np.cos(f[:, 0]))[None],
    )


def test_mixed_starts_as_axial_in_a_turned_frame():
    torch.manual_seed(0)
    f = MixedRoPE.initial_frequencies(16, heads=3).numpy()
    first, second = f[:, :4], f[:, 4:]
    np.testing.assert_allclose((first * second).sum(-1), 0, atol=1e-12)
    length = 10.0 ** (-4 * np.arange(4) / 16)
    np.testing.assert_allclose(
        np.linalg.norm(first, axis=-1), length[None].repeat(3, 0)
    )
    direction = first / length[:, None]
    np.testing.assert_allclose(direction, direction[:, :1].repeat(4, 1), atol=1e-12)


@pytest.mark.parametrize("make", [grid, reference.grid])
def test_grids_count_columns_first_and_have_three_coordinates(make):
    def rows(*counts, **options):
        return np.asarray(make(*counts, **options)).tolist()

    six = [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]
    assert rows(3, 2, coordinates="index") == six
    centers = [[(x + 0.5) / 3, (y + 0.5) / 2] for x, y in six]
    np.testing.assert_allclose(rows(3, 2, coordinates="centers"), centers)
    ends = [[x / 2, y] for x, y in six]
    assert rows(3, 2, coordinates="ends") == ends
    assert rows(1, 1, 2, coordinates="ends") == [[0, 0, 0], [0, 0, 1]]


def swapped(x, positions, **options):
    """Column and row exchanged: invisible where an image is square and symmetric."""
    return reference.axial(x, np.asarray(positions)[:, ::-1], **options)


def test_swapped_axes_show_on_any_grid_that_is_not_square():
    x = draw(0, 6, 8)
    at = reference.grid(3, 2, coordinates="index")
    options = {"order": "concatenated", "layout": "half"}
    gap = np.abs(reference.axial(x, at, **options) - swapped(x, at, **options)).max()
    assert gap > 0.1


def test_a_class_token_at_the_origin_is_not_turned():
    x = torch.tensor(draw(0, 3, 16))
    at = torch.tensor([[0.0, 0.0], [2, 1], [0, 3]])
    for module in (
        AxialRoPE(16, order="concatenated", layout="half"),
        MixedRoPE(16, layout="half"),
        LieRE(16, block=8),
        ComRoPEAP(16, block=4),
    ):
        out = module(x, at)
        torch.testing.assert_close(out[0], x[0], rtol=0, atol=1e-12)
        assert (out[1] - x[1]).abs().max() > 1e-3


def test_perturbations_stay_in_the_patch_and_differ():
    at = torch.full((50_000, 2), 0.5, dtype=DOUBLE)
    deviations = {}
    for rule in ("paper", "code"):
        moved = perturb(
            at,
            patch=(0.1, 0.2),
            intensity=1.0,
            rule=rule,
            generator=torch.Generator().manual_seed(0),
        )
        steps = (moved - at) / torch.tensor([0.1, 0.2])
        assert steps.abs().max() <= 0.5 + 1e-12
        deviations[rule] = steps.std(0)
        again = perturb(at, patch=0.1, intensity=0.0, rule=rule)
        torch.testing.assert_close(again, at, rtol=0, atol=0)
    # of a standard normal truncated to, and of half of one clamped to [−½, ½]
    density, inside = 0.35207, 0.38292
    exact = math.sqrt(1 - density / inside)
    assert deviations["paper"].numpy() == pytest.approx(exact, rel=0.02)
    half = math.sqrt(0.25 * (0.68269 - 2 * 0.24197) + 0.25 * 0.31731)
    assert deviations["code"].numpy() == pytest.approx(half, rel=0.02)


# In a layer


@pytest.mark.parametrize("route", ["sdpa", "eager", "flex"])
@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("make", [
    lambda: AxialRoPE(8, order="alternating", layout="interleaved"),
    lambda: MixedRoPE(8, layout="half", heads=2),
    lambda: LieRE(8, block=8, heads=2),
    lambda: ComRoPEAP(8, block=4, heads=2),
    lambda: ComRoPELD(8, block=2, multipliers="shared", heads=2),
])  # fmt: skip
def test_a_cache_changes_nothing_where_positions_have_coordinates(make, route):
    torch.manual_seed(0)
    layer = Attention(32, 4, kv_heads=2, encoding=make(), route=route).double()
    x = torch.tensor(draw(1, 3, 7, 32))
    for at in (torch.tensor(draw(2, 7, 2)), torch.tensor(draw(3, 3, 7, 2))):
        with torch.no_grad():
            whole = layer(x, at)
            cache = KVCache()
            steps = [layer(x[:, :4], at[..., :4, :], cache=cache)]
            for i in range(4, 7):
                here = slice(i, i + 1)
                steps.append(layer(x[:, here], at[..., here, :], cache=cache))
        torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)


GROUPED = [
    (MixedRoPE(8, layout="half", heads=2), reference.mixed, {"layout": "half"}),
    (LieRE(8, block=4, heads=2, scale=1.0), reference.liere, {"block": 4}),
    (ComRoPEAP(8, block=4, heads=2), reference.comrope_ap, {"block": 4}),
    (ComRoPELD(8, block=2, multipliers="shared", heads=2),
     reference.comrope_ld, {"block": 2}),
    (ComRoPELD(8, block=2, multipliers="per head", heads=2),
     reference.comrope_ld, {"block": 2}),
]  # fmt: skip


@pytest.mark.parametrize("module, implementation, options", GROUPED)
def test_neighboring_heads_share_parameters_in_both_implementations(
    module, implementation, options
):
    x, at = draw(0, 3, 4, 5, 8), draw(1, 3, 5, 2)
    parameters = {n: p.detach().double().numpy() for n, p in module.named_parameters()}
    shared = implementation(x, at, **options, **parameters)
    ours = module(torch.tensor(x), torch.tensor(at)).detach().numpy()
    np.testing.assert_allclose(ours, shared, rtol=0, atol=1e-12)
    one = implementation(x[:, [0, 2]], at, **options, **parameters)
    np.testing.assert_allclose(shared[:, [0, 2]], one, rtol=0, atol=1e-14)
    other = implementation(x[:, [1, 3]], at, **options, **parameters)
    np.testing.assert_allclose(shared[:, [1, 3]], other, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="a multiple of 2 heads for parameters of 2"):
        implementation(x[:, :3], at, **options, **parameters)


# Parameters given


def made(name, heads, given):
    """A module with one of its parameters given, as a function of that."""
    own = {"heads": heads}
    return {
        "frequencies": lambda: MixedRoPE(8, layout="half", frequencies=given, **own),
        "entries": lambda: LieRE(8, block=4, axes=3, entries=given, **own),
        "matrices": lambda: ComRoPEAP(8, block=4, matrices=given, **own),
        "multipliers": lambda: ComRoPELD(8, block=4, multipliers=given, **own),
    }[name]()


SHAPES = {
    "frequencies": (4, 3),
    "entries": (3, 2, 6),
    "matrices": (2, 4, 4),
    "multipliers": (2, 2),
}
given_parameters = pytest.mark.parametrize("name, shape", SHAPES.items(), ids=SHAPES)


@given_parameters
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_given_parameters_are_copied_and_trained(name, shape, heads, dtype):
    shape = shape if heads is None else (heads, *shape)
    value = torch.tensor(draw(0, *shape), dtype=dtype, requires_grad=True)
    parameter = made(name, heads, value).get_parameter(name)
    assert torch.equal(parameter, value) and parameter.dtype == dtype
    assert parameter.requires_grad and parameter.is_leaf
    value.detach().zero_()
    assert parameter.all()


@given_parameters
def test_given_parameters_of_another_shape_are_refused(name, shape, unchecked):
    for heads, other in ((None, (7, *shape[1:])), (2, (2, 7, *shape[1:])), (2, shape)):
        if name == "multipliers" and other == shape:
            continue  # all heads share them
        with pytest.raises(ValueError) as caught:
            made(name, heads, torch.ones(other))
        needed = shape if heads is None else (heads, *shape)
        needed = (*needed[:-1], "axes") if name == "frequencies" else needed
        listed = ", ".join(map(str, needed))
        said = f"{name} must be [{listed}], got shape {list(other)}"
        assert str(caught.value) == said
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        made(name, None, torch.full(shape, math.nan))
    with pytest.raises(TypeError, match=f"{name} must hold floats, got torch.int64"):
        made(name, None, torch.ones(shape).long())


def test_a_given_parameter_leaves_the_other_draws_alone():
    torch.manual_seed(0)
    drawn = torch.randn(3, 2, 2)
    torch.manual_seed(0)
    module = ComRoPELD(6, block=2, multipliers=torch.ones(2, 3))
    assert torch.equal(module.matrices, drawn)


# One meaning for one name


def parameters_of(call):
    own = ("device", "rng", "generator")  # where and by what numbers are drawn
    return [p for p in inspect.signature(call).parameters if p not in own]


def singular(names):
    return [n.replace("matrices", "matrix").removesuffix("s") for n in names]


@pytest.mark.parametrize("implementation", [symbolic, fast], ids=["sympy", "torch"])
def test_a_name_has_the_same_parameters_in_every_implementation(implementation):
    """Symbolic functions take one token; symbolic ``rotation`` takes frequencies."""
    shared = {
        name
        for name in {*reference.__all__} & {*implementation.__all__}
        if callable(getattr(implementation, name))
    }
    if implementation is symbolic:
        shared.remove("rotation")
        ours = [name for name in posedu.sympy.__all__ if name[0].islower()]
        for name in ours:
            given = parameters_of(getattr(posedu.numpy, name))
            exactly = parameters_of(getattr(posedu.sympy, name))
            assert singular(given) == singular(exactly), name
    assert {"skew", "rotations", "exponential", "rotate_blocks"} < shared
    for name in shared:
        given = parameters_of(getattr(reference, name))
        theirs = parameters_of(getattr(implementation, name))
        assert singular(given) == singular(theirs), name


@settings(max_examples=20)
@given(seeds, st.sampled_from((2, 3, 4, 5)))
def test_rotations_and_blocks_are_the_same_in_every_implementation(seed, block):
    free = draw(seed, 2, 2, block * (block - 1) // 2)
    at, x = draw(seed + 1, 3, 2), draw(seed + 2, 3, 2 * block)
    a = reference.skew(free)
    assert np.array_equal(a, skew(torch.tensor(free)).numpy())
    r = reference.rotations(at, a)
    fast_r = fast.rotations(torch.tensor(at), torch.tensor(a))
    np.testing.assert_allclose(fast_r.numpy(), r, rtol=0, atol=1e-13)
    turned = reference.rotate_blocks(x, r)
    np.testing.assert_allclose(
        fast.rotate_blocks(torch.tensor(x), fast_r).numpy(), turned, rtol=0, atol=1e-12
    )
    assert np.array_equal(turned, reference.rotate_by_generators(x, at, a))
    if block > 3:
        return
    generators = [[symbolic.skew(e) for e in blocks] for blocks in free.tolist()]
    assert np.array_equal(np.array(generators, float), a)
    column, place = sp.Matrix(x[0].tolist()), at[0].tolist()
    exact = symbolic.rotate_blocks(column, symbolic.rotations(place, generators))
    assert exact == symbolic.rotate_by_generators(column, place, generators)
    number = np.array(exact.evalf(20), float).ravel()
    np.testing.assert_allclose(turned[0], number, rtol=0, atol=1e-12)


def test_repeated_positions_are_exponentiated_once(monkeypatch):
    module = LieRE(8, block=8, heads=2)
    calls = []
    original = fast.generators.rotations
    monkeypatch.setattr(
        fast.generators,
        "rotations",
        lambda at, a: calls.append(len(at)) or original(at, a),
    )
    at = torch.randint(0, 2, (5, 6, 2)).double()
    x = torch.tensor(draw(0, 5, 2, 6, 8))
    out = module(x, at)
    assert calls == [len(at.flatten(0, 1).unique(dim=0))]
    monkeypatch.undo()
    rows = [module(x[b], at[b]) for b in range(5)]
    torch.testing.assert_close(out, torch.stack(rows), rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("block", [2, 4, 8])
def test_compiled_liere_is_the_same(block):
    torch.compiler.reset()
    module = LieRE(16, block=block, heads=2, scale=1.0)
    compiled = compiling.compiled(module, fullgraph=True)
    x, at = torch.randn(3, 2, 5, 16), torch.randn(3, 5, 2)
    torch.testing.assert_close(compiled(x, at), module(x, at), rtol=1e-5, atol=1e-5)


def test_half_precision_models_keep_exact_angles():
    torch.manual_seed(0)
    for module in (
        MixedRoPE(8, layout="half"),
        LieRE(8, block=4),
        ComRoPEAP(8, block=4),
    ):
        module = module.to(torch.bfloat16)
        x = torch.randn(4, 8).to(torch.bfloat16)
        at = torch.tensor([[300.0, 1], [301, 1], [302, 1], [303, 1]])
        out = module(x, at)
        assert out.dtype == torch.bfloat16
        exact = module(x.double(), at)
        assert (out - exact).abs().max() <= 2.0**-8 * 4 * x.abs().max()


# Bad input


def x_of(*shape):
    return torch.zeros(shape)


BAD = [
    (lambda: AxialRoPE(6, order="concatenated", layout="half"),
     ValueError, "d must be a positive multiple of 4, got 6; the nearest valid value"),
    (lambda: AxialRoPE(8, order="xy", layout="half"), ValueError, "order must be"),
    (lambda: MixedRoPE(6, layout="half"), ValueError, "d must be .* multiple of 4"),
    (lambda: MixedRoPE(8, layout="half", frequencies=torch.zeros(3, 2)),
     ValueError, r"frequencies must be \[4, axes\], got shape \[3, 2\]"),
    (lambda: MixedRoPE(4, layout="half", frequencies=torch.full((2, 2), math.nan)),
     ValueError, "frequencies must be finite"),
    (lambda: LieRE(10, block=4), ValueError, "multiple of 4, got 10; .* is 8"),
    (lambda: LieRE(4, block=1), ValueError, "block must be at least 2"),
    (lambda: LieRE(4, block=2, scale=-1.0), ValueError, "scale must be finite"),
    (lambda: ComRoPEAP(12, block=3), ValueError, "multiple of 2, got 3"),
    (lambda: ComRoPEAP(24, block=8), ValueError, "multiple of 16, got 24"),
    (lambda: ComRoPELD(12, block=8, multipliers="shared"), ValueError, "multiple of 8"),
    (lambda: ComRoPELD(8, block=8, multipliers="none"), ValueError, "multipliers must"),
    (lambda: LieRE(4, block=2)(x_of(3, 4), torch.zeros(3, 3)),
     ValueError, r"positions must be \[tokens, 2\].*got shape \[3, 3\]"),
    (lambda: LieRE(4, block=2)(x_of(3, 4), range(3)),
     ValueError, r"positions must be \[tokens, 2\]"),
    (lambda: LieRE(4, block=2).table(range(3)),
     ValueError, r"positions must be \[..., tokens, 2\], got a range"),
    (lambda: LieRE(4, block=2).table(torch.zeros(3)),
     ValueError, r"positions must be \[..., tokens, 2\], got \[3\]"),
    (lambda: LieRE(4, block=2)(x_of(3, 4), torch.full((3, 2), math.inf)),
     ValueError, "positions must be finite, got inf"),
    (lambda: LieRE(4, block=2)(x_of(3, 4), torch.zeros(3, 2).half()),
     TypeError, "positions are torch.float16"),
    (lambda: LieRE(4, block=2, heads=2)(x_of(3, 3, 4), torch.zeros(3, 2)),
     ValueError, "a multiple of 2 heads, got shape"),
    (lambda: Attention(8, 2, encoding=LieRE(4, block=2))(x_of(1, 3, 8)),
     ValueError, r"LieRE needs positions \[3, 2\] or \[1, 3, 2\], got none"),
    (lambda: perturb(torch.zeros(3, 2), patch=0.1, intensity=-1.0, rule="code"),
     ValueError, "intensity must be finite and not negative, got -1.0"),
    (lambda: perturb(torch.zeros(3, 2), patch=(1.0,) * 3, intensity=1.0, rule="code"),
     ValueError, "patch must be one number or 2"),
    (lambda: grid(3, 0, coordinates="index"), ValueError, "count must be"),
    (lambda: grid(coordinates="index"), ValueError, "at least one count"),
    (lambda: grid(3, coordinates="pixels"), ValueError, "coordinates must be"),
    (lambda: fold_basis(torch.zeros(6, 2), torch.zeros(2, 2, 2)),
     ValueError, "multiple of 1 heads times d = 4, got shape"),
    (lambda: reference.skew(np.zeros(4)), ValueError, r"b\(b − 1\)/2 numbers"),
    (lambda: skew(torch.zeros(4)), ValueError, r"b\(b − 1\)/2 numbers"),
    (lambda: skew(torch.zeros(3, 0)), ValueError, r"got shape \[3, 0\]"),
    (lambda: skew(torch.zeros(3).long()), TypeError, "entries must hold floats"),
    (lambda: symbolic.skew([1, 2]), ValueError, r"b\(b − 1\)/2 numbers.*got 2"),
    (lambda: symbolic.skew([]), ValueError, "got 0"),
    (lambda: symbolic.liere(
        sp.zeros(4, 1), [0, 0], entries=[[[1], [1]]] * 2, block=4),
     ValueError, "blocks must be 4 × 4"),
    (lambda: symbolic.comrope_ap(
        sp.zeros(6, 1), [0, 0], matrices=[sp.eye(2)] * 3, block=2),
     ValueError, "the number of blocks must be a positive multiple of 2, got 3"),
    (lambda: symbolic.ld_generators([sp.eye(3)], [[1]]),
     ValueError, "block must be a positive multiple of 2, got 3"),
    (lambda: reference.ld_generators(np.zeros((2, 3, 3)), np.zeros((1, 2))),
     ValueError, "block must be a positive multiple of 2, got 3"),
    (lambda: reference.ap_generators(np.zeros((2, 4, 2))),
     ValueError, r"matrices must be \[blocks, b, b\] .* got shape \[2, 4, 2\]"),
    (lambda: reference.comrope_ap(
        np.zeros((3, 8)), np.zeros((3, 2)), matrices=np.zeros((2, 4, 4)), block=2),
     ValueError, r"blocks must be 2 × 2, got shape \[2, 4, 4\]"),
    (lambda: reference.rotate_blocks(np.zeros((3, 4)), np.zeros((3, 2, 2, 3))),
     ValueError, r"rotation must be \[..., tokens, blocks, b, b\] .*\[3, 4\]"),
    (lambda: reference.rotate_blocks(np.zeros((3, 4)), np.zeros((2, 2))),
     ValueError, r"got \[2, 2\]"),
    (lambda: reference.exponential(np.array([[0.0, 1], [1, 0]])),
     ValueError, r"a must be skew.*norms up to 2\.8e\+00 compared with 1\.4e\+00 of A"),
    (lambda: reference.exponential(np.array([[0.0, 1], [-1 - 1e-13, 0]])),
     ValueError, "a must be skew"),
    (lambda: reference.exponential(np.array([[0.0, np.nan], [-np.nan, 0]])),
     ValueError, "a must be skew, A = −Aᵀ, and finite"),
    (lambda: reference.exponential(np.zeros((2, 3))),
     ValueError, r"a must be \[..., b, b\], got shape \[2, 3\]"),
    (lambda: reference.exponential(np.zeros((2, 2), int)),
     TypeError, "a must hold floats"),
    (lambda: reference.normal_form(np.ones((2, 2))),
     ValueError, r"generators must be \[axes, d, d\], got shape \[2, 2\]"),
    (lambda: reference.normal_form(np.ones((1, 2, 2))),
     ValueError, "generators must be skew"),
    (lambda: reference.normal_form(
        reference.skew(np.array([[1.0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0]]))),
     ValueError, "found no planes that all generators rotate"),
    (lambda: reference.rotate_by_generators(
        np.zeros((3, 5)), np.zeros((3, 2)), np.zeros((2, 2, 2, 2))),
     ValueError, r"x must be \[..., tokens, 4\] for 2 blocks of 2"),
    (lambda: reference.comrope_ap(
        np.zeros((3, 6)), np.zeros((3, 2)), matrices=np.zeros((3, 2, 2)), block=2),
     ValueError, "the number of blocks must be a positive multiple of 2, got 3"),
    (lambda: reference.comrope_ld(
        np.zeros((3, 4)), np.zeros((3, 2)), matrices=np.zeros((2, 2, 2)),
        multipliers=np.zeros((2, 3)), block=2),
     ValueError, r"multipliers must be \[axes, 2\].*got shape \[2, 3\]"),
    (lambda: reference.mixed(
        np.zeros((3, 4)), np.zeros((3, 2)), layout="half",
        frequencies=np.zeros((3, 2))),
     ValueError, r"with 2 pairs, got shape \[3, 2\]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("tokens", [0, 1])
def test_no_token_and_one(tokens):
    for module in (
        AxialRoPE(8, order="concatenated", layout="half"),
        MixedRoPE(8, layout="half"),
        LieRE(8, block=8),
        ComRoPELD(8, block=4, multipliers="shared"),
    ):
        assert module(x_of(2, tokens, 8), torch.zeros(tokens, 2)).shape == (
            2,
            tokens,
            8,
        )
        assert module(x_of(2, tokens, 8), torch.zeros(2, tokens, 2)).shape == (
            2,
            tokens,
            8,
        )


def test_heads_with_a_turn_of_their_own_want_an_axis_of_heads(unchecked):
    module = MixedRoPE(8, layout="half", heads=2)
    for shape in ((3, 8), (3, 3, 8)):
        with pytest.raises(ValueError, match="with a multiple of 2 heads"):
            module(torch.zeros(shape), torch.zeros(3, 2))
