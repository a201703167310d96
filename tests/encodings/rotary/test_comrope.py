"""ComRoPE: commuting generators, their special cases, and the cheaper form."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mutants import published_encodings as mutants
from posedu.numpy import rotary
from posedu.torch import (
    Attention,
    AxialRoPE,
    ComRoPEAP,
    ComRoPELD,
    LieRE,
    MixedRoPE,
    RoPE,
    fold_basis,
    grid,
)
from posedu.torch.rotary import perturb
from support import bounds, compiling

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
DOUBLE = torch.float64
KINDS = ("ap", "ld", "ld shared")

far = st.integers(-(2**20), 2**20) | st.floats(-(2.0**20), 2.0**20)
seeds = st.integers(0, 2**32 - 1)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def within(actual, expected, atol):
    __tracebackhide__ = True
    assert np.shape(actual) == np.shape(expected)
    excess = np.abs(np.asarray(actual) - np.asarray(expected)) - atol
    assert (excess <= 0).all(), f"{excess.max():.3g} beyond {np.max(atol):.3g}"


def make(kind, d, seed=0, dtype=DOUBLE, **options):
    torch.manual_seed(seed)
    if kind == "ap":
        return ComRoPEAP(d, **options).to(dtype)
    multipliers = "shared" if kind == "ld shared" else "per head"
    return ComRoPELD(d, multipliers=multipliers, **options).to(dtype)


def reference(module, x, positions):
    """The NumPy implementation with the module's parameters."""
    parameters = {n: p.detach().double().numpy() for n, p in module.named_parameters()}
    if isinstance(module, ComRoPEAP):
        parameters["axes"] = module.axes
        implementation = rotary.comrope_ap
    else:
        implementation = rotary.comrope_ld
    return implementation(x, positions, block=module.block, **parameters)


def size_of(positions, module):
    """Σ_k |x_k| |A_k| of each token, the largest over heads and blocks."""
    generators = module.generators().detach().numpy()
    norms = np.linalg.norm(generators, ord=2, axis=(-2, -1))
    largest = np.moveaxis(norms, -2, -1).reshape(-1, module.axes).max(0)
    return np.abs(positions) @ largest


@st.composite
def arguments(draw):
    """Draw arguments of :func:`make`: any kind, sizes and scale, in float64."""
    block, axes = draw(st.sampled_from([2, 4, 6])), draw(st.integers(1, 3))
    return dict(
        kind=draw(st.sampled_from(KINDS)),
        d=block * axes * draw(st.integers(1, 2)),
        seed=draw(st.integers(0, 1000)),
        block=block,
        axes=axes,
        heads=draw(st.sampled_from([None, 2])),
        scale=10.0 ** draw(st.integers(-4, 0)),
    )


# Generators.


def test_a_block_of_ap_looks_at_one_axis_in_turn():
    matrices = normal(0, 4, 2, 2)
    generators = rotary.ap_generators(matrices, axes=2)
    turn = matrices - matrices.swapaxes(-1, -2)
    assert np.array_equal(generators[0], turn * [[[1]], [[0]], [[1]], [[0]]])
    assert np.array_equal(generators[1], turn * [[[0]], [[1]], [[0]], [[1]]])


def test_a_block_of_ld_has_multiples_of_one_matrix():
    matrices, theta = normal(1, 3, 4, 4), normal(2, 2, 3)
    generators = rotary.ld_generators(matrices, theta)
    for k in range(2):
        for m in range(3):
            expected = theta[k, m] * (matrices[m] - matrices[m].T)
            assert np.array_equal(generators[k, m], expected)


@given(arguments())
def test_generators_are_skew_commute_and_equal_the_reference_s(given_arguments):
    module = make(**given_arguments)
    generators = module.generators().detach().numpy()
    assert np.array_equal(generators, -generators.swapaxes(-1, -2))
    products = np.einsum("...kmij,...lmjn->...klmin", generators, generators)
    size = np.abs(generators).max(initial=0) ** 2
    atol = 4 * module.block**2 * bounds.U64 * size
    within(products, products.swapaxes(-5, -4), atol)
    matrices = module.matrices.detach().numpy()
    if isinstance(module, ComRoPEAP):
        expected = rotary.ap_generators(matrices, axes=module.axes)
    else:
        theta = module.multipliers.detach().numpy()
        expected = rotary.ld_generators(matrices, theta)
    assert np.array_equal(generators, expected)


@given(arguments(), seeds)
def test_only_the_skew_part_of_the_matrices_matters(given_arguments, seed):
    module = make(**given_arguments)
    x = torch.tensor(normal(seed, 2, 3, module.d))
    positions = torch.tensor(normal(seed + 1, 3, module.axes))
    turned = module(x, positions)
    gradient = torch.tensor(normal(seed + 2, 2, 3, module.d))
    (slope,) = torch.autograd.grad(turned, module.matrices, gradient)
    assert torch.equal(slope, -slope.mT)
    with torch.no_grad():
        symmetric = module.matrices.round(decimals=2)
        module.matrices.add_(symmetric + symmetric.mT)
    torch.testing.assert_close(module(x, positions), turned, rtol=0, atol=1e-12)


# Exactly relative.


@given(arguments(), st.data())
def test_scores_see_only_the_offset(given_arguments, data):
    module = make(**given_arguments)
    n, d = 3, module.d
    point = st.lists(far, min_size=module.axes, max_size=module.axes)
    positions = np.array(data.draw(st.lists(point, min_size=n, max_size=n)), float)
    shift = np.array(data.draw(point), float)
    q, k = normal(data.draw(seeds), 2, 2, n, d)
    size = size_of(np.abs(positions) + np.abs(shift), module).max()
    atol = bounds.relative_scores(q, k, size, module.block)
    by_reference, by_module = [], []
    for at in (positions, positions + shift):
        turned = [reference(module, t, at) for t in (q, k)]
        by_reference.append(turned[0] @ turned[1].swapaxes(-1, -2))
        fast = module.rotate(torch.tensor(q), torch.tensor(k), torch.tensor(at))
        by_module.append((fast[0] @ fast[1].mT).detach().numpy())
    within(*by_reference, atol)
    within(*by_module, atol)


@given(st.sampled_from(KINDS), st.integers(0, 1000))
def test_the_same_generators_without_the_restriction_are_not(kind, seed):
    x = torch.tensor(normal(seed, 2, 6, 16))
    patches, options = grid(3, 2, coordinates="centers"), dict(block=4, heads=2)
    spread = []
    for module in (
        make(kind, 16, seed=seed, **options),
        LieRE(16, scale=1.0, **options).double(),
    ):
        scores = []
        for shift in (0.0, 0.75):
            turned = module(x, patches + shift)
            scores.append((turned @ turned.mT).detach())
        spread.append((scores[0] - scores[1]).abs().max().item())
    assert spread[0] < 1e-12 < 1e-4 < spread[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_token_in_the_middle_moves_along(kind):
    module = make(kind, 16, block=4)
    x = torch.randn(7, 16).double()
    patches = grid(3, 2, coordinates="centers")
    everywhere = torch.cat((torch.full((1, 2), 0.5), patches))
    turned = [module(x, everywhere + shift).detach() for shift in (0.0, 3.25)]
    here, there = (t @ t.T for t in turned)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-12)
    left_behind = module(x, torch.cat((everywhere[:1], patches + 3.25))).detach()
    apart = (left_behind @ left_behind.T - here).abs()
    assert apart[0, 1:].max() > 0.1 and apart[1:, 1:].max() < 1e-12


# Special cases.


@given(st.integers(1, 3), st.integers(1, 3), seeds)
def test_ap_with_blocks_of_two_is_axial(pairs, axes, seed):
    d = 2 * axes * pairs
    x, positions = normal(seed, 4, d), 10 * normal(seed + 1, 4, axes)
    f = rotary.axial_frequencies(d, order="alternating", axes=axes).sum(-1)
    matrices = np.zeros((len(f), 2, 2))
    matrices[:, 1, 0] = f
    turned = rotary.comrope_ap(x, positions, matrices=matrices, block=2, axes=axes)
    options = dict(order="alternating", layout="interleaved", axes=axes)
    expected = rotary.axial(x, positions, **options)
    atol = bounds.rotated_blocks(x, np.abs(positions).sum(-1), 2, DOUBLE)
    within(turned, expected, atol)
    module = make("ap", d, block=2, axes=axes)
    module.matrices.data = torch.tensor(matrices)
    fast = module(torch.tensor(x), torch.tensor(positions)).detach()
    axial = AxialRoPE(d, **options)(torch.tensor(x), torch.tensor(positions))
    within(fast, axial, atol)


@given(st.integers(1, 6), far, seeds)
def test_both_kinds_on_one_axis_with_blocks_of_two_are_rope(pairs, start, seed):
    d = 2 * pairs
    x, positions = normal(seed, 3, d), start + np.arange(3)
    omega = 10000.0 ** (-np.arange(pairs) / pairs)
    matrices, ones = np.zeros((pairs, 2, 2)), np.zeros((pairs, 2, 2))
    matrices[:, 1, 0], ones[:, 1, 0] = omega, 1
    expected = rotary.rope(x, positions, layout="interleaved")
    atol = bounds.rotated_blocks(x, np.abs(positions), 2, DOUBLE)
    line, given_x = positions[:, None], torch.tensor(x)
    ap = rotary.comrope_ap(x, line, matrices=matrices, block=2, axes=1)
    ld = rotary.comrope_ld(x, line, matrices=ones, multipliers=omega[None], block=2)
    within(ap, expected, atol)
    within(ld, expected, atol)
    rope = RoPE(d, layout="interleaved")(given_x, torch.tensor(positions))
    for kind, value in (("ap", matrices), ("ld", ones)):
        module = make(kind, d, block=2, axes=1)
        module.matrices.data = torch.tensor(value)
        if kind == "ld":
            module.multipliers.data = torch.tensor(omega[None])
        within(module(given_x, torch.tensor(line)).detach(), rope, atol)


@given(st.integers(1, 4), st.integers(1, 3), st.sampled_from([None, 2]), seeds)
def test_ld_with_blocks_of_two_is_mixed(pairs, axes, heads, seed):
    own = () if heads is None else (heads,)
    f = normal(seed, *own, pairs, axes)
    x, positions = normal(seed + 1, *own, 4, 2 * pairs), 10 * normal(seed + 2, 4, axes)
    matrices = np.zeros((*own, pairs, 2, 2))
    matrices[..., 1, 0] = 1
    theta = f.swapaxes(-1, -2)
    options = dict(matrices=matrices, multipliers=theta, block=2)
    turned = rotary.comrope_ld(x, positions, **options)
    expected = rotary.mixed(x, positions, frequencies=f, layout="interleaved")
    size = np.abs(positions) @ np.abs(f).reshape(-1, axes).max(0)
    atol = bounds.rotated_blocks(x, size, 2, DOUBLE)
    within(turned, expected, atol)
    module = make("ld", 2 * pairs, block=2, axes=axes, heads=heads)
    module.matrices.data, module.multipliers.data = map(torch.tensor, (matrices, theta))
    start = dict(heads=heads, frequencies=torch.tensor(f))
    mixed = MixedRoPE(2 * pairs, layout="interleaved", **start)
    arguments = torch.tensor(x), torch.tensor(positions)
    within(module(*arguments).detach(), mixed(*arguments).detach(), atol)


@given(arguments(), seeds)
def test_both_kinds_are_liere_with_restricted_entries(given_arguments, seed):
    module = make(**given_arguments)
    heads = [] if module.heads is None else [module.heads]
    general = LieRE(
        module.d, block=module.block, axes=module.axes, heads=module.heads
    ).double()
    rows, columns = np.triu_indices(module.block, 1)
    entries = module.generators()[..., rows, columns].detach()
    assert entries.shape == general.entries.shape
    general.entries.data = entries
    x = torch.tensor(normal(seed, 3, *heads, 4, module.d))
    positions = torch.tensor(normal(seed + 1, 4, module.axes))
    turned = module(x, positions).detach()
    size = size_of(positions.numpy(), module).max()
    atol = bounds.rotated_blocks(x.numpy(), size, module.block, DOUBLE)
    within(general(x, positions).detach(), turned, atol)
    by_entries = rotary.liere(
        x.numpy(), positions.numpy(), entries=entries.numpy(), block=module.block
    )
    within(by_entries, reference(module, x.numpy(), positions.numpy()), atol)


def test_a_rotation_in_place_of_its_generator_turns_by_another_angle():
    # The paper's Eq. 33: if P_j is a rotation by θ, the block rotates by 2 sin θ.
    theta, x = 0.3, np.array([[1.0, 0.0]])
    matrices = mutants.rotation_for_its_generator(theta)[None]
    turned = rotary.comrope_ap(x, [[1.0]], matrices=matrices, block=2, axes=1)
    angle = np.arctan2(turned[0, 1], turned[0, 0])
    assert angle == pytest.approx(2 * np.sin(theta), abs=1e-15)
    assert abs(angle - theta) > 0.2


# The same rotation as mixed RoPE in a fixed basis.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("block", [2, 4, 8])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0])
def test_as_mixed_rope_is_the_same_rotation(kind, heads, axes, block, scale):
    d = 2 * axes * block
    module = make(kind, d, block=block, axes=axes, heads=heads, scale=scale)
    mixed, basis = module.as_mixed_rope()
    own = [] if heads is None else [heads]
    assert mixed.frequencies.shape == (*own, d // 2, axes)
    assert basis.shape == (*own, 2 * axes, block, block)
    assert mixed.frequencies.dtype == basis.dtype == DOUBLE
    identity = torch.eye(block).expand_as(basis).double()
    torch.testing.assert_close(basis.mT @ basis, identity, rtol=0, atol=1e-14)

    def by_block(matrices, x):
        blocks = x.unflatten(-1, (-1, block))
        spread = matrices if heads is None else matrices.unsqueeze(1)
        return torch.einsum("...mij,...mj->...mi", spread, blocks).flatten(-2)

    x, positions = torch.randn(3, 2, 5, d).double(), torch.randn(3, 5, axes).double()
    turned = module(x, positions)
    in_the_basis = mixed(by_block(basis.mT, x), positions)
    atol = 1e-12
    torch.testing.assert_close(by_block(basis, in_the_basis), turned, rtol=0, atol=atol)
    torch.testing.assert_close(
        in_the_basis @ in_the_basis.mT, turned @ turned.mT, rtol=0, atol=d * atol
    )


def test_a_direction_that_does_not_turn_may_stand_before_a_plane():
    """The Schur form has its zeros where they fall: here 0, a plane, 0, 0, 0."""
    p = torch.zeros(1, 6, 6, dtype=DOUBLE)
    p[0, 1, 2], p[0, 1, 4] = 0.7, 0.3
    module = ComRoPEAP(6, block=6, axes=1, matrices=p)
    mixed, basis = module.as_mixed_rope()
    x, at = torch.tensor(normal(0, 3, 6)), torch.arange(3)[:, None]
    turned = mixed(x @ basis[0], at) @ basis[0].T
    within(turned.detach(), module(x, at).detach(), 1e-14)


@given(arguments())
def test_its_frequency_vectors_have_the_directions_of_the_generators(given_arguments):
    module = make(**given_arguments)
    mixed, _ = module.as_mixed_rope()
    f = mixed.frequencies.detach().unflatten(-2, (-1, module.block // 2))
    blocks = f.shape[-3]
    if isinstance(module, ComRoPEAP):
        axis = torch.arange(blocks) % module.axes
        others = torch.arange(module.axes) != axis[:, None, None]
        assert (f[others.expand(f.shape)] == 0).all()
    else:
        # In a block all vectors are parallel to (θ_1, …, θ_N).
        theta = module.multipliers.detach().mT.unsqueeze(-2)
        across = f * theta.roll(1, -1) - f.roll(1, -1) * theta
        assert across.abs().max() <= 8 * bounds.U64 * f.abs().max() * theta.abs().max()


def test_what_as_mixed_rope_gives_is_a_copy():
    module = make("ld", 8, block=4)
    mixed, basis = module.as_mixed_rope()
    assert not basis.requires_grad and mixed.frequencies.grad_fn is None
    before = mixed.frequencies.clone()
    with torch.no_grad():
        module.matrices += 1
        module.multipliers += 1
    assert torch.equal(mixed.frequencies, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads, kv_heads", [(2, 2), (4, 2), (4, 1)])
@pytest.mark.parametrize("per_head", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_folded_weights_make_mixed_rope_of_a_layer(
    kind, heads, kv_heads, per_head, causal
):
    encoding = make(kind, 8, block=4, heads=kv_heads if per_head else None)
    torch.manual_seed(1)
    options = dict(kv_heads=kv_heads, d=8, causal=causal, bias=True)
    layer = Attention(12, heads, encoding=encoding, **options).double()
    mixed, basis = encoding.as_mixed_rope()
    folded = Attention(12, heads, encoding=mixed, **options).double()
    weights = layer.state_dict()
    for name in ("q.weight", "q.bias", "k.weight", "k.bias"):
        weights[name] = fold_basis(weights[name], basis)
    folded.load_state_dict(weights | {"encoding.frequencies": mixed.frequencies}, False)
    x, patches = torch.randn(2, 6, 12).double(), grid(3, 2, coordinates="centers")
    with torch.no_grad():
        expected = layer(x, patches)
        torch.testing.assert_close(folded(x, patches), expected, rtol=0, atol=1e-12)
        folded.q.load_state_dict(layer.q.state_dict())
        assert (folded(x, patches) - expected).abs().max() > 1e-3, "only keys folded"


def test_folding_by_hand():
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    identity = torch.eye(2)
    rows = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    # Qᵀ (1, 2) = (2, −1): the first block rotates by −π/2, the second stays.
    folded = fold_basis(rows, torch.stack((quarter, identity)))
    assert folded.flatten().tolist() == [2, -1, 3, 4]
    of_heads = torch.stack((quarter, identity))[:, None]
    assert fold_basis(rows[:, 0], of_heads).tolist() == [2, -1, 3, 4]
    # Four heads on two bases: neighbors share one.
    four = torch.arange(1.0, 9.0)
    assert fold_basis(four, of_heads).tolist() == [2, -1, 4, -3, 5, 6, 7, 8]
    assert fold_basis(four.bfloat16(), of_heads).dtype == torch.bfloat16


# Perturbed coordinates.


@pytest.mark.parametrize("rule", ["paper", "code"])
@pytest.mark.parametrize("intensity", [1e-6, 0.1, 1.0, 50.0])
def test_perturbed_positions_stay_in_their_patch(rule, intensity):
    centers = grid(5, 3, coordinates="centers").expand(200, 15, 2)
    side = (1 / 5, 1 / 3)
    moved = perturb(centers, patch=side, intensity=intensity, rule=rule)
    move = (moved - centers).abs() / torch.tensor(side)
    assert 0 < move.max() <= 0.5 + 1e-12
    assert moved.dtype == centers.dtype and moved.shape == centers.shape
    x, y = (moved - centers).flatten(0, 1).T
    # Axes move independently: a sample correlation of 3000 has deviation 3000^(−1/2).
    assert abs(np.corrcoef(x, y)[0, 1]) < 5 / 3000**0.5


def perturbed_by_torch(centers, **options):
    source = torch.Generator().manual_seed(3)
    return perturb(torch.tensor(centers), generator=source, **options).numpy()


def perturbed_by_numpy(centers, **options):
    return rotary.perturb(centers, rng=np.random.default_rng(3), **options)


@pytest.mark.parametrize("perturbed", [perturbed_by_torch, perturbed_by_numpy])
@pytest.mark.parametrize("intensity", [0.1, 0.5, 1.0, 2.0])
def test_the_paper_truncates_and_the_code_halves_and_clamps(intensity, perturbed):
    n = 200_000
    centers = np.zeros((n, 1))

    def moves(rule):
        options = dict(patch=4.0, intensity=intensity, rule=rule)
        return (perturbed(centers, **options) / 4).ravel()

    # A statistic of n samples is within 5 of its standard deviations.
    edge = 0.5 / intensity
    paper, expected = moves("paper"), stats.truncnorm(-edge, edge, scale=intensity)
    assert abs(paper.mean()) < 5 * expected.std() / n**0.5
    spread = (expected.moment(4) - expected.var() ** 2) ** 0.5
    assert abs(paper.var() - expected.var()) < 5 * spread / n**0.5
    assert stats.kstest(paper[::50], expected.cdf).pvalue > 1e-6
    code = moves("code")
    at_the_edge = 2 * stats.norm.sf(0.5, scale=intensity / 2)
    deviation = (at_the_edge * (1 - at_the_edge) / n) ** 0.5
    assert abs((np.abs(code) == 0.5).mean() - at_the_edge) <= 5 * deviation
    inside = code[np.abs(code) < 0.5][::50]
    half = stats.truncnorm(-2 * edge, 2 * edge, scale=intensity / 2)
    assert stats.kstest(inside, half.cdf).pvalue > 1e-6


@pytest.mark.parametrize("perturbed", [perturbed_by_torch, perturbed_by_numpy])
@pytest.mark.parametrize("intensity", [1e5, 1e9, 1e17, 1e300])
def test_the_paper_s_noise_fills_the_patch_if_it_is_strong(intensity, perturbed):
    options = dict(patch=1.0, intensity=intensity, rule="paper")
    moves = perturbed(np.zeros((4000, 1)), **options).ravel()
    assert stats.kstest(moves, stats.uniform(-0.5, 1).cdf).pvalue > 1e-6


@pytest.mark.parametrize("patch", [np.nan, (1.0, np.inf), "x", object, None, 1j])
def test_a_patch_is_finite_numbers(patch, unchecked):
    centers = grid(3, 2, coordinates="centers")
    with pytest.raises((TypeError, ValueError), match="patch must be"):
        perturb(centers, patch=patch, intensity=1.0, rule="code")


def test_the_reference_perturbs_each_axis_within_its_patch():
    centers = grid(5, 3, coordinates="centers").numpy()
    side = (1 / 5, 1 / 3)
    for rule, intensity in product(("paper", "code"), (0, 1e-6, 1.0, 1e6)):
        options = dict(patch=side, intensity=intensity, rule=rule)
        move = (perturbed_by_numpy(centers, **options) - centers) / side
        assert np.abs(move).max() <= 0.5 + 1e-12
        assert (move != 0).all() == (intensity > 0)
    options = dict(intensity=1.0, rule="code")
    for one in 0.2, (0.2,):
        both = perturbed_by_numpy(centers, patch=(0.2, 0.2), **options)
        assert np.array_equal(perturbed_by_numpy(centers, patch=one, **options), both)
    with pytest.raises(ValueError, match="patch must be one number or one for each"):
        perturbed_by_numpy(centers, patch=(1.0,) * 3, intensity=1.0, rule="code")


def test_no_intensity_moves_nothing_and_a_generator_repeats_itself():
    centers = grid(3, 2, coordinates="centers")
    for rule in ("paper", "code"):
        same = perturb(centers, patch=0.5, intensity=0, rule=rule)
        assert torch.equal(same, centers) and same is not centers
        again = [
            perturb(
                centers,
                patch=0.5,
                intensity=1,
                rule=rule,
                generator=torch.Generator().manual_seed(0),
            )
            for _ in range(2)
        ]
        assert torch.equal(*again)
        other = perturb(centers, patch=0.5, intensity=1, rule=rule)
        assert not torch.equal(other, again[0])
    single = perturb(centers.float(), patch=(0.5, 0.25), intensity=1, rule="paper")
    assert single.dtype == torch.float32


# Implementations.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [2, 4, 8])
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("parameters", [DOUBLE, torch.bfloat16], ids=str)
def test_modules_are_the_reference_in_every_dtype(
    kind, block, heads, dtype, parameters
):
    module = make(kind, 2 * block, dtype=parameters, block=block, heads=heads)
    x = torch.randn(3, 2, 6, 2 * block, dtype=DOUBLE).to(dtype)
    for positions in (
        grid(3, 2, coordinates="centers"),
        torch.tensor(normal(5, 3, 6, 2)),
        torch.randint(-1000, 1000, (6, 2)),
    ):
        turned = module(x, positions)
        assert turned.dtype == dtype
        exact, at = x.double().numpy(), positions.numpy()
        size = size_of(at, module)
        size = size if size.ndim == 1 else size[:, None]
        atol = bounds.rotated_blocks(exact, size, block, dtype)
        within(turned.detach().double(), reference(module, exact, at), atol)


def test_neighboring_heads_share_matrices_under_grouped_queries():
    for kind in KINDS:
        module = make(kind, 8, block=4, heads=2)
        q, k = torch.randn(3, 6, 5, 8).double(), torch.randn(3, 2, 5, 8).double()
        positions = torch.randn(5, 2).double()
        turned_q, turned_k = (t.detach() for t in module.rotate(q, k, positions))
        torch.testing.assert_close(turned_k, module(k, positions))
        for group in range(3):
            shared = module(q[:, group::3], positions)
            torch.testing.assert_close(turned_q[:, group::3], shared)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [2, 4])
def test_gradients_reach_features_positions_and_parameters(kind, block):
    module = make(kind, 2 * block, block=block, heads=2)
    names, values = zip(*module.named_parameters(), strict=True)
    x = torch.tensor(normal(6, 2, 3, 2 * block), requires_grad=True)
    positions = torch.tensor([[0, 0], [0.5, -1], [1e-5, 0]], dtype=DOUBLE)
    positions.requires_grad_()

    def turn(x, positions, *values):
        at = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, at, (x, positions))

    assert torch.autograd.gradcheck(turn, (x, positions, *values))
    nothing = [torch.zeros_like(v, requires_grad=True) for v in values]
    assert torch.autograd.gradcheck(turn, (x, positions, *nothing))


def test_parameters_start_normal_or_as_nothing():
    torch.manual_seed(8)
    module = ComRoPELD(64, block=8, multipliers="per head", heads=40, axes=3)
    assert module.matrices.shape == (40, 8, 8, 8)
    assert module.multipliers.shape == (40, 3, 8)
    for values in (module.matrices, module.multipliers):
        n = values.numel()
        assert abs(values.mean().item()) < 5 / n**0.5
        assert abs(values.var().item() - 1) < 5 * (2 / n) ** 0.5
    shared = ComRoPELD(64, block=8, multipliers="shared", heads=40, axes=3)
    assert shared.multipliers.shape == (3, 8)
    small = ComRoPEAP(64, block=8, heads=40, scale=0.02).matrices
    assert small.std().item() == pytest.approx(0.02, rel=0.05)
    x = torch.randn(3, 16)
    for kind in KINDS:
        still = make(kind, 16, dtype=torch.float32, block=8, scale=0)
        assert torch.equal(still(x, torch.randn(3, 2)), x)


# Modules.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads", [None, 2])
def test_it_runs_where_there_is_no_data(kind, heads):
    with torch.device("meta"):
        module = make(kind, 16, dtype=torch.float32, block=8, heads=heads)
        x = torch.empty(3, 2, 5, 16)
        assert module(x, torch.empty(3, 5, 2)).shape == x.shape


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", ["ap", "ld"])
def test_compiled_is_the_same(kind):
    torch.compiler.reset()
    module = make(kind, 16, block=4, heads=2)
    compiled = compiling.compiled(module, fullgraph=True)
    x = torch.tensor(normal(11, 3, 2, 6, 16), requires_grad=True)
    leaves = [x, *module.parameters()]
    positions, gradient = grid(3, 2, coordinates="centers"), torch.randn(3, 2, 6, 16)
    results = []
    for implementation in (module, compiled):
        out = implementation(x, positions)
        results.append([out, *torch.autograd.grad(out, leaves, gradient.double())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-11)


def test_repr_says_the_conventions():
    module = ComRoPEAP(12, block=2, axes=3)
    assert repr(module) == "ComRoPEAP(12, block=2, axes=3, heads=None)"
