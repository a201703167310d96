"""xPos, rotated values and GTA: relative and non-relative versions, limits."""

import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag, expm
from scipy.spatial.transform import Rotation

from mutants import published_encodings as mutants
from posedu.numpy import attend as attend_numpy
from posedu.numpy import gta, rope, value_rotation, xpos
from posedu.numpy.attention import softmax, steps
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import (
    camera_matrix,
    image_frequencies,
    inverse_camera_matrix,
    xpos_scales,
)
from posedu.sympy.rotary import pose_matrices
from posedu.torch import GTA, Attention, KVCache, ValueRotation, XPos, attend

pytestmark = pytest.mark.usefixtures("untraced_flex")

seeds = st.integers(0, 99)
DEEPSEEK = dict(layout="interleaved", rotated="trailing", rotary_dim=64)


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def logits(q, k, hooks, positions):
    return steps(q, k, np.zeros_like(k), hooks, positions=positions).logits


def output(q, k, v, hooks, positions):
    return steps(q, k, v, hooks, positions=positions).out


# xPos


def test_the_scales_are_torchscale_s():
    """(arange(0, d, 2) + 0.4 d)/(1.4 d), its buffer for d = 64."""
    expected = (np.arange(0, 64, 2) + 0.4 * 64) / (1.4 * 64)
    np.testing.assert_allclose(xpos_scales(64), expected, rtol=1e-15)
    assert xpos_scales(64)[0] == pytest.approx(2 / 7)


def test_a_score_by_hand():
    """One pair of ones at offset 512: 2/7 of 2 cos 512, over √2."""
    hooks = xpos(layout="interleaved", center=0.0)
    found = logits(np.ones((1, 2, 2)), np.ones((1, 2, 2)), hooks, np.array([512, 0]))
    expected = 2 / 7 * 2 * math.cos(512) / math.sqrt(2)
    assert found[0, 0, 1] == pytest.approx(expected, rel=1e-13)


@given(st.integers(-2000, 2000), st.integers(-2000, 2000), seeds)
def test_scores_know_neither_start_nor_center(shift, center, seed):
    """Powers reach ζ^(±8), e^10; angles 2000 and a half unit in their last place."""
    q, k, at = drawn(seed, 1, 5, 4), drawn(seed + 1, 1, 5, 4), np.arange(5.0) * 7
    here = logits(q, k, xpos(layout="half", center=0.0), at)
    there = logits(q, k, xpos(layout="half", center=float(center)), at + shift)
    size = 4 * np.abs(q).max() * np.abs(k).max() / 2
    np.testing.assert_allclose(here, there, atol=size * (2000 + 16) * 2**-50)


@pytest.mark.parametrize("tokens", [6, 7])
def test_published_centres_are_seen_in_keys_and_not_in_scores(tokens):
    """For an odd number of tokens torchscale's center is one more than lucidrains'."""
    q, k = drawn(0, 1, tokens, 4), drawn(1, 1, tokens, 4)
    torchscale, lucidrains = -(-tokens // 2), tokens // 2
    found = [
        steps(q, k, k, xpos(layout="interleaved", center=float(c), scale_base=2.0))
        for c in (torchscale, lucidrains)
    ]
    np.testing.assert_allclose(found[0].logits, found[1].logits, rtol=1e-12)
    ratio = found[0].tokens.k / found[1].tokens.k
    power = np.repeat(xpos_scales(4) ** ((torchscale - lucidrains) / 2), 2)
    np.testing.assert_allclose(ratio, np.broadcast_to(power, ratio.shape), rtol=1e-12)


def test_it_is_the_exponential_of_one_generator():
    """A = ω J − ln ζ/B in each pair: q ᵀ e^{(j − i) A} k."""
    zeta, omega = xpos_scales(6), frequencies(6)
    pairs = [
        [[-math.log(z) / 512, -w], [w, -math.log(z) / 512]]
        for z, w in zip(zeta, omega, strict=True)
    ]
    A = block_diag(*map(np.array, pairs))
    q, k, at = drawn(2, 1, 4, 6), drawn(3, 1, 4, 6), np.array([0.0, 3, 50, 400])
    expected = [
        [q[0, i] @ expm((at[j] - at[i]) * A) @ k[0, j] for j in range(4)]
        for i in range(4)
    ]
    found = logits(q, k, xpos(layout="interleaved", center=9.0), at)[0]
    np.testing.assert_allclose(found * math.sqrt(6), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "version",
    [
        mutants.xpos_scales_in_halves,
        mutants.xpos_keys_shrink_too,
        mutants.xpos_center_of_each,
    ],
)
def test_published_mistakes_change_scores(version):
    """Versions that shrink by position, or scale a pair unevenly, are not relative."""
    q, k = np.repeat(drawn(4, 2, 1, 8), 6, 1)
    at = np.arange(0.0, 1800, 300)
    a, b = version(q, k, at)
    scores = a @ b.T
    right = logits(q[None], k[None], xpos(layout="interleaved", center=0.0), at)[0]
    assert np.ptp(np.diag(right, -1)) < 1e-12 < 0.1 < np.abs(scores - right).max()
    if version is not mutants.xpos_center_of_each:
        assert np.ptp(np.diag(scores, -1)) > 0.01


def test_far_mismatches_gain():
    """A logit of −8 decays to 0 over full turns of its pair; RoPE's stays."""
    x = np.zeros((1, 3, 2))
    x[0, 0], x[0, 2] = [-8 * math.sqrt(2), 0], [1, 0]
    far = np.array([0, 0, 2 * math.pi * 400])
    weights = [
        steps(x, x, x, hooks, positions=far).weights[0, 2]
        for hooks in (
            xpos(layout="half", center=0.0),
            value_rotation(layout="half", rotated="leading"),
        )
    ]
    ratios = [w[0] / w[1] for w in weights]
    assert ratios[0] > 0.9 and ratios[1] == pytest.approx(math.exp(-8), rel=1e-6)


def test_translations_of_float16_have_a_reach():
    d = 16
    encoding, at = GTA(d, image_dim=4), torch.zeros(12, 8)
    at[:, :3] = torch.tensor(drawn(0, 12, 3))
    at[:, :3] *= 0.999 * encoding.reach(torch.float16) / at[:, :3].norm(dim=1).max()
    x = torch.tensor(drawn(1, 1, 2, 12, d)).clamp(-4, 4).sign().mul(4).half()
    for route in ("eager", "sdpa"):
        assert attend(x, x, x, encoding, positions=at, route=route).isfinite().all()
    for dtype in (torch.float32, torch.bfloat16):
        far = 1e4 * at
        assert attend(*[x.to(dtype)] * 3, encoding, positions=far).isfinite().all()
    edge = torch.zeros(12, 8)
    edge[:, 0] = encoding.reach(torch.float16)
    assert attend(x, x, x, encoding, positions=edge).isfinite().all()
    with pytest.raises(ValueError, match=r"translations must be at most 255.*float16"):
        attend(x, x, x, encoding, positions=1.01 * at)


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_end_where_the_dtype_does(dtype):
    """B ln(1/tiny) / ln(1/ζ₀) from the center, and no farther."""
    module = XPos(4, layout="half", center=100.0)
    reach = module.reach(dtype)
    ends = torch.tensor([-reach, reach], dtype=torch.float64)
    q = torch.ones(1, 1, 2, 4, dtype=dtype)
    turned = module.rotate(q, q, 100 + ends * (1 - 1e-9))
    assert all(t.isfinite().all() for t in turned)
    smallest = (2 / 7) ** (reach / 512)
    assert smallest == pytest.approx(torch.finfo(dtype).tiny, rel=1e-9)
    with pytest.raises(ValueError, match=r"within \d+ of the center 100"):
        module.rotate(q, q, 100 + ends * (1 + 1e-3))


# Rotated values


def outputs_of(version, weights, v, positions):
    def turn(x, at):
        return rope(x, at, layout="interleaved")

    return version(weights, v, positions, turn)


@given(st.integers(-(2**20), 2**20), seeds)
def test_what_is_gathered_is_of_offsets(shift, seed):
    """Angles reach 2²⁰ and err by half a unit in their last place each."""
    q, k, v = drawn(seed, 3, 2, 6, 8)
    hooks = value_rotation(layout="half", rotated="leading")
    here, there = (output(q, k, v, hooks, np.arange(6.0) + s) for s in (0, shift))
    size = 8 * np.abs(v).max() * (1 + np.abs(q).max() * np.abs(k).max())
    np.testing.assert_allclose(here, there, atol=size * 2**20 * 2**-51)


def test_an_output_is_a_sum_of_values_turned_by_the_offset():
    """o_i = Σ_j a_ij R_{j−i} v_j with RoPE's weights, by loops."""
    q, k, v, at = *drawn(0, 3, 1, 5, 4), np.array([0.0, 3, 4, 10, 11.5])
    hooks = value_rotation(layout="interleaved", rotated="leading", base=7.0)
    turned = [rope(x[0], at, layout="interleaved", base=7.0) for x in (q, k)]
    weights = softmax(turned[0] @ turned[1].T / 2)
    taken = steps(q, k, v, hooks, positions=at)
    np.testing.assert_allclose(taken.weights[0], weights, atol=1e-15)
    for i in range(5):
        moved = rope(v[0], at - at[i], layout="interleaved", base=7.0)
        np.testing.assert_allclose(taken.out[0, i], weights[i] @ moved, atol=1e-14)


@pytest.mark.parametrize(
    "version", [mutants.values_not_turned_back, mutants.values_turned_on]
)
def test_without_the_inverse_it_knows_the_start(version):
    weights, v = softmax(drawn(0, 6, 6)), drawn(1, 6, 8)
    here, there = (outputs_of(version, weights, v, np.arange(6) + s) for s in (0, 100))
    assert np.abs(here - there).max() > 0.5


def test_turned_back_too_early_nothing_is_turned():
    weights, v, at = softmax(drawn(0, 6, 6)), drawn(1, 6, 8), np.arange(6)
    found = outputs_of(mutants.values_turned_back_by_keys, weights, v, at)
    np.testing.assert_allclose(found, weights @ v, atol=1e-14)


def test_deepseek_turns_its_trailing_64_in_pairs_of_neighbors():
    """Compare with transformers 5.23.0: x cos + swapped x sin on x[..., -64:]."""
    x, at = drawn(3, 1, 4, 512), np.array([0.0, 1, 17, 900])
    hooks = value_rotation(**DEEPSEEK)
    found, _ = hooks.rotate(x, x, at)
    angle = np.repeat(at[:, None] * 10000.0 ** (-np.arange(0, 64, 2) / 64), 2, -1)
    own = x[..., -64:]
    swapped = np.stack((-own[..., 1::2], own[..., ::2]), -1).reshape(own.shape)
    np.testing.assert_array_equal(found[..., :-64], x[..., :-64])
    expected = own * np.cos(angle) + swapped * np.sin(angle)
    np.testing.assert_allclose(found[..., -64:], expected, atol=1e-13)
    leading = value_rotation(**{**DEEPSEEK, "rotated": "leading"})
    assert np.abs(leading.rotate(x, x, at)[0] - found).max() > 0.5


def test_keys_that_are_values_are_turned_once():
    """K = V: what rotate makes of keys is what values makes of them."""
    k, at = drawn(4, 1, 5, 8), np.arange(5.0)
    hooks = value_rotation(layout="interleaved", rotated="trailing", rotary_dim=4)
    np.testing.assert_array_equal(hooks.rotate(k, k, at)[1], hooks.values(k, at))


# GTA


def pose(rotation, translation, place=(0.0, 0.0)):
    return np.concatenate((translation, rotation.as_rotvec(), place))


def poses(seed, tokens):
    rng = np.random.default_rng(seed)
    turns = Rotation.random(tokens, random_state=seed)
    return turns, rng.normal(size=(tokens, 3)), rng.uniform(size=(tokens, 2))


def stacked(turns, translations, places):
    own = zip(turns, translations, places, strict=True)
    return np.stack([pose(*one) for one in own])


def test_a_camera_is_the_matrix_that_scipy_has():
    turns, translations, places = poses(0, 9)
    matrices = camera_matrix(stacked(turns, translations, places))
    np.testing.assert_allclose(matrices[:, :3, :3], turns.as_matrix(), atol=1e-14)
    np.testing.assert_array_equal(matrices[:, :3, 3], translations)
    inverse = inverse_camera_matrix(matrices)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrices), atol=1e-13)
    unmoved = camera_matrix(np.zeros(6))
    np.testing.assert_array_equal(unmoved, np.eye(4))


def test_pairs_of_the_image_turn_by_octaves():
    expected = 2 * np.pi * np.array([[1, 0], [0.5, 0], [0, 1], [0, 0.5]])
    np.testing.assert_array_equal(image_frequencies(8), expected)


def test_every_octave_is_the_same_in_each_implementation():
    """The record's variants have one coordinate; here are three and a camera."""
    q, k, v = drawn(9, 3, 2, 4, 16)
    at = stacked(*poses(9, 4)).round(3)
    expected = attend_numpy(q, k, v, gta(image_dim=12), positions=at)
    given = (torch.tensor(t)[None] for t in (q, k, v))
    found = attend(*given, GTA(16, image_dim=12), positions=torch.tensor(at))
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-13)
    one = [sp.Rational(str(x)) for x in at[0].tolist()]
    exact, inverse = (np.array(m.evalf(20), float) for m in pose_matrices(one, 16, 12))
    hooks = gta(image_dim=12)
    rows = np.eye(16)[None, :, :]
    places = np.tile(at[0], (16, 1))
    np.testing.assert_allclose(hooks.values(rows, places)[0].T, inverse, atol=1e-13)
    np.testing.assert_allclose(hooks.output(rows, places)[0].T, exact, atol=1e-13)


@given(seeds)
def test_another_world_changes_nothing(seed):
    """g_i → g_i h: the world and its cameras are rotated and moved, and so are images.

    Camera matrices are at most 1 + |t| ≤ 16 in size: products of four of them and a
    few hundred roundings.
    """
    turns, translations, places = poses(seed, 5)
    (turn,), (move,), aside = poses(seed + 100, 1)
    q, k, v = drawn(seed, 3, 2, 5, 12)
    moved = turns * turn, translations + turns.apply(move), places + aside
    for image_dim in (0, 4):
        here, there = (
            output(q, k, v, gta(image_dim=image_dim), stacked(*at))
            for at in ((turns, translations, places), moved)
        )
        np.testing.assert_allclose(here, there, atol=16**4 * 300 * 2**-53)
        assert np.abs(here).max() > 0.05


def test_a_camera_turned_by_itself_changes_much():
    """g_i → h g_i is another scene: what each camera sees has moved."""
    turns, translations, places = poses(1, 5)
    (turn,), (move,), _ = poses(7, 1)
    q, k, v = drawn(1, 3, 2, 5, 8)
    moved = turn * turns, move + turn.apply(translations), places
    here, there = (
        output(q, k, v, gta(image_dim=0), stacked(*at))
        for at in ((turns, translations, places), moved)
    )
    assert np.abs(here - there).max() > 0.1


@pytest.mark.parametrize(
    "version",
    [
        mutants.gta_transposed_for_inverse,
        mutants.gta_queries_as_keys,
        mutants.gta_camera_to_world,
    ],
)
def test_wrong_maps_see_the_world_move(version):
    turns, translations, places = poses(2, 5)
    (turn,), (move,), _ = poses(8, 1)
    moved = turns * turn, translations + turns.apply(move), places
    q, k, v = drawn(2, 3, 5, 4)

    def out(at):
        for_q, for_k, for_out = version(camera_matrix(stacked(*at)))
        to_q = np.einsum("nab,nb->na", for_q, q)
        to_k, to_v = (np.einsum("nab,nb->na", for_k, x) for x in (k, v))
        gathered = softmax(to_q @ to_k.T / 2) @ to_v
        return np.einsum("nab,nb->na", for_out, gathered)

    assert np.abs(out(moved) - out((turns, translations, places))).max() > 0.1


def test_without_cameras_it_rotates_values():
    """u = i/2π and v = 0: octaves of i in the first half of the features."""
    q, k, v, at = *drawn(5, 3, 2, 6, 16), np.arange(6.0)
    places = np.zeros((6, 8))
    places[:, 6] = at / (2 * np.pi)
    base = 2.0 ** (8 / 2)
    other = value_rotation(
        layout="interleaved", rotated="leading", rotary_dim=8, base=base
    )
    np.testing.assert_allclose(
        output(q, k, v, gta(image_dim=16), places),
        output(q, k, v, other, at),
        atol=1e-13,
    )


def test_gradients_of_poses_are_finite_where_nothing_turns():
    module = GTA(8, image_dim=4).double()
    at = torch.zeros(1, 3, 8, dtype=torch.float64, requires_grad=True)
    q, k, v = torch.tensor(drawn(6, 3, 1, 2, 3, 8))
    attend(q, k, v, module, positions=at).square().sum().backward()
    assert at.grad.isfinite().all() and at.grad[..., 3:6].abs().max() > 0


# All three


MADE = {
    "xpos": lambda d: XPos(d, layout="half", center=4.0, scale_base=8.0),
    "values": lambda d: ValueRotation(
        d, layout="interleaved", rotated="trailing", rotary_dim=4
    ),
    "values, leading": lambda d: ValueRotation(
        d, layout="half", rotated="leading", rotary_dim=4
    ),
    "gta": lambda d: GTA(d, image_dim=4),
}
REFERENCES = {
    "xpos": xpos(layout="half", center=4.0, scale_base=8.0),
    "values": value_rotation(layout="interleaved", rotated="trailing", rotary_dim=4),
    "values, leading": value_rotation(layout="half", rotated="leading", rotary_dim=4),
    "gta": gta(image_dim=4),
}


def places_of(name, tokens):
    if name == "gta":
        return torch.tensor(stacked(*poses(3, tokens)))
    return torch.arange(tokens)


@pytest.mark.parametrize("route", ["eager", "sdpa", "flex"])
@pytest.mark.parametrize("name", MADE)
def test_routes_agree_with_grouped_queries(name, route):
    q = torch.tensor(drawn(0, 2, 4, 9, 8))
    k, v = torch.tensor(drawn(1, 2, 2, 2, 9, 8))
    at = places_of(name, 9)
    given = (t[0].numpy() for t in (q, k, v))
    expected = attend_numpy(*given, REFERENCES[name], positions=at.numpy())
    with torch.no_grad():
        found = attend(q, k, v, MADE[name](8), positions=at, route=route)
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name", MADE)
def test_decoding_is_a_full_run(name):
    torch.manual_seed(0)
    layer = Attention(16, heads=2, encoding=MADE[name](8)).double()
    x, cache, at = torch.tensor(drawn(2, 1, 11, 16)), KVCache(), places_of(name, 11)
    cuts = [4, 1, 1, 5]
    pairs = zip(x.split(cuts, 1), at.split(cuts), strict=True)
    parts = [layer(part, own, cache=cache) for part, own in pairs]
    assert (torch.cat(parts, 1) - layer(x, at)).abs().max() < 1e-12


REFUSED = {
    "a center of none": (
        lambda: xpos(layout="half", center=math.nan),
        "center must be finite",
    ),
    "a decay of none": (
        lambda: XPos(4, layout="half", center=0.0, gamma=0.0),
        "gamma must be above 0",
    ),
    "far away": (
        lambda: logits(
            *np.ones((2, 1, 2, 4)), xpos(layout="half", center=0.0), np.array([0, 1e6])
        ),
        "within 289519 of the center 0",
    ),
    "two axes": (
        lambda: logits(
            *np.ones((2, 2, 2, 4)), xpos(layout="half", center=0.0), np.ones((2, 2))
        ),
        "one number for each token",
    ),
    "values of two axes": (
        lambda: output(
            *np.ones((3, 2, 2, 4)),
            value_rotation(layout="half", rotated="leading"),
            np.ones((2, 2)),
        ),
        "one number for each token",
    ),
    "the middle": (
        lambda: value_rotation(layout="half", rotated="middle"),
        "rotated must be 'leading' or 'trailing'",
    ),
    "too much of an image": (
        lambda: GTA(8, image_dim=12),
        "image_dim must be at most d = 8",
    ),
    "half a pair of an image": (
        lambda: gta(image_dim=2),
        "image_dim must be a multiple of 4",
    ),
    "numbers for poses": (
        lambda: output(*np.ones((3, 1, 2, 4)), gta(image_dim=0), np.arange(2.0)),
        r"positions must be \[tokens, 8\]",
    ),
    "no poses": (
        lambda: attend(*torch.ones(3, 1, 1, 2, 4), GTA(4, image_dim=0)),
        r"GTA needs positions \[2, 8\]",
    ),
    "half a pose": (lambda: camera_matrix(np.zeros(3)), r"poses must be \[..., 6\]"),
    "another d": (
        lambda: Attention(16, heads=2, encoding=GTA(4, image_dim=0)),
        "GTA was made for d = 4",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_fits_none_is_refused(case, unchecked):
    call, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call()
