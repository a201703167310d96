"""TAPE: loops written out, invariances that hold and that fail, errors."""

import numpy as np
import pytest
import sympy as sp
import torch

from mutants import published_encodings as mutants
from posedu.numpy import rotary as reference
from posedu.numpy.attention import Projections, causal_mask, stack, steps
from posedu.sympy import rotary as symbolic
from posedu.sympy.attention import steps as exact_steps
from posedu.torch import TAPE, KVCache, RoPE, Sinusoidal, Transformer, attend
from posedu.torch.attention import steps as fast_steps

D, HEADS, WIDTH, TOKENS = 4, 2, 3, 5
D_MODEL = D * HEADS
LAYOUT, MIXING = ("interleaved", "half"), ("heads", "row sums")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def matrices(seed=0, heads=HEADS, width=WIDTH, d_model=D_MODEL):
    rng = np.random.default_rng(seed)
    shapes = (heads, heads), (width, heads), (heads, width), (width, d_model)
    names = "attended", "up", "down", "gate"
    return {n: rng.normal(size=s) / 2 for n, s in zip(names, shapes, strict=True)}


def hooks(layout="half", mixing="heads", seed=0, **options):
    return reference.tape(D, layout=layout, mixing=mixing, **matrices(seed), **options)


def weights_of(tokens=TOKENS, heads=HEADS, seed=3):
    """Causal weights that add up to one."""
    drawn = np.exp(normal(heads, tokens, tokens, seed=seed)) * causal_mask(tokens)
    return drawn / drawn.sum(-1, keepdims=True)


def blocks_of(r=2, tokens=TOKENS, seed=5):
    return normal(tokens, HEADS, D // 2, r, 2, seed=seed)


def update(weights, blocks, mlp_output, mixing="heads", **changed):
    return reference.tape_update(
        weights, blocks, mlp_output, mixing=mixing, **matrices() | changed
    )


def module(layout="half", mixing="heads", seed=0, kind=TAPE, **options):
    """Make a float64 module with parameters of size one."""
    made = kind(
        D, HEADS, D_MODEL, layout=layout, mixing=mixing, width=WIDTH, **options
    ).double()
    given = {n: torch.tensor(p) for n, p in matrices(seed).items()}
    made.load_state_dict(given)
    return made


def model(encoding, layers=3, seed=0, **options):
    torch.manual_seed(seed)
    made = Transformer(
        D_MODEL, HEADS, layers, encoding=encoding, expansion=2, **options
    )
    for block in made.blocks:  # whose start is nearly blind
        for part in (block.attention.q, block.attention.k, block.attention.o):
            part.weight.data *= 4
    return made.double().eval()


def close(a, b, size=1.0):
    """Equal but for a thousand roundings of float64, of numbers up to ``size``."""
    a, b = (np.asarray(torch.as_tensor(t).detach()) for t in (a, b))
    np.testing.assert_allclose(a, b, rtol=0, atol=1000 * 2.0**-53 * size)


X = torch.tensor(normal(2, TOKENS, D_MODEL, seed=9))


# The authors' code, written out.


def written_out(c, s, weights, mlp_output, attended, up, down, gate):
    """VITA-Group/TAPE, models/llama/adape.py: PELayer and what comes before it.

    ``c`` and ``s`` are [heads, tokens, d], halves repeated; one sequence.
    """
    e = []
    for part in (c, s):
        averaged = weights @ part
        e.append(part + np.einsum("qnd,qe->qnd", averaged, attended))
    said = mlp_output @ gate.T
    said = said / (1 + np.exp(-said))
    out = []
    for part in e:
        channels = said.T[:, :, None] * np.einsum("qnd,eq->end", part, up)
        out.append(part + np.einsum("end,qe->qnd", channels, down))
    return out


def test_the_update_is_that_of_the_authors_code():
    angle = np.arange(TOKENS)[:, None] * [1.0, 0.01, 1.0, 0.01]
    c, s = (np.stack([f(angle)] * HEADS) for f in (np.cos, np.sin))
    weights, mlp_output = weights_of(), normal(TOKENS, D_MODEL)
    c, s = written_out(c, s, weights, mlp_output, **matrices())
    start = reference.tape_start(np.arange(TOKENS), D, HEADS)
    moved = update(weights, start, mlp_output, "row sums")
    close(moved[..., 0, 0], c[..., : D // 2].swapaxes(0, 1), 10)
    close(moved[..., 1, 0], s[..., : D // 2].swapaxes(0, 1), 10)
    close(moved[..., 1, 1], moved[..., 0, 0])
    close(moved[..., 0, 1], -moved[..., 1, 0])
    q = normal(HEADS, TOKENS, D)
    half = np.concatenate((-q[..., D // 2 :], q[..., : D // 2]), -1)
    turned = reference.rotate_by_blocks(q, moved, layout="half")
    close(turned, q * c + half * s, 10)


def test_row_sums_are_what_the_einsum_computes_and_no_product():
    attended, averaged = normal(3, 3), normal(3, TOKENS, D)
    code = np.einsum("qnd,qe->qnd", averaged, attended)
    close(code, attended.sum(1)[:, None, None] * averaged, 10)
    assert abs(code - np.einsum("qe,end->qnd", attended, averaged)).max() > 1
    diagonal = np.diag(normal(3))
    product = np.einsum("qe,end->qnd", diagonal, averaged)
    close(np.einsum("qnd,qe->qnd", averaged, diagonal), product, 10)


@pytest.mark.parametrize("mixing", MIXING)
def test_the_modes_agree_where_the_matrix_is_diagonal(mixing):
    diagonal = np.diag(normal(HEADS))
    given = weights_of(), blocks_of(), normal(TOKENS, D_MODEL)
    close(
        update(*given, mixing, attended=diagonal),
        update(*given, "heads", attended=diagonal),
    )


@pytest.mark.parametrize("layout", LAYOUT)
@pytest.mark.parametrize("mixing", MIXING)
def test_the_module_moves_blocks_as_the_reference_does(layout, mixing):
    q, mlp_output = normal(HEADS, TOKENS, D), normal(TOKENS, D_MODEL)
    fast, slow = module(layout, mixing), hooks(layout, mixing)
    blocks = slow.locate(np.arange(TOKENS), None)
    now = fast.locate(torch.arange(TOKENS)[None], X[:1])
    for _ in range(2):
        seen = steps(q, q, q, slow, positions=blocks, mask=causal_mask(TOKENS))
        taken = fast_steps(*[torch.tensor(q[None])] * 3, fast, positions=now)
        close(taken.out[0], seen.out, 100)
        blocks = slow.update(seen.weights, seen.tokens, mlp_output)
        now = fast.update(taken.weights, taken.tokens, torch.tensor(mlp_output[None]))
        close(now[0].detach().movedim(2, 3), blocks[..., 0], 100)


# RoPE is where it starts.


@pytest.mark.parametrize("layout", LAYOUT)
@pytest.mark.parametrize("mixing", MIXING)
def test_a_new_module_is_rope_in_every_layer(layout, mixing):
    fresh = TAPE(D, HEADS, D_MODEL, layout=layout, mixing=mixing)
    assert fresh.down.abs().min() > 0 and fresh.gate.abs().min() > 0
    positions = torch.tensor([0.0, 3.5, -2.0, 100.0, 7.0])
    out = model(fresh)(X, positions)
    close(out, model(RoPE(D, layout=layout))(X, positions))
    assert abs(model(module(layout, mixing))(X, positions) - out).max() > 1e-2


def test_a_new_module_hears_a_gradient_from_the_first_step():
    """``attended`` and ``up`` move at once, what ``up`` multiplies after them."""
    fresh = TAPE(D, HEADS, D_MODEL, layout="half", mixing="heads")
    (model(fresh)(X) * X).sum().backward()
    size = {n: p.grad.abs().max() for n, p in fresh.named_parameters()}
    assert size["attended"] > 1e-3 and size["up"] > 1e-3
    assert size["down"] == size["gate"] == 0


def test_the_width_is_four_times_the_heads():
    fresh = TAPE(D, 3, 3 * D, layout="half", mixing="heads")
    assert fresh.up.shape == (12, 3) and fresh.gate.shape == (12, 3 * D)


def test_sums_over_channels_and_features_start_of_size_one():
    """Five deviations of a mean square of 4096 and of 16384 normal numbers."""
    torch.manual_seed(0)
    fresh = TAPE(4, 32, 128, layout="half", mixing="heads")
    assert abs(fresh.down.square().sum(1).mean() - 1) < 5 * (2 / 4096) ** 0.5
    assert abs(fresh.gate.square().sum(1).mean() - 1) < 5 * (2 / 16384) ** 0.5


# What is kept: theorems of the chapter, on numbers.


def orthogonal(r, seed=0):
    return np.linalg.qr(normal(D // 2, r, r, seed=seed))[0]


@pytest.mark.parametrize("mixing", MIXING)
@pytest.mark.parametrize("r", [1, 2, 3])
def test_the_update_carries_an_orthogonal_matrix_through(r, mixing):
    o, blocks = orthogonal(r), blocks_of(r)
    given = weights_of(), normal(TOKENS, D_MODEL)

    def turned(b):
        return np.einsum("prs,ihpsu->ihpru", o, b)

    moved = update(given[0], blocks, given[1], mixing)
    close(update(given[0], turned(blocks), given[1], mixing), turned(moved), 100)
    q, k = normal(2, HEADS, TOKENS, D)
    scores = [
        np.einsum("hid,hjd->hij", *(implementation(x, b) for x in (q, k)))
        for b in (moved, turned(moved))
        for implementation in [
            lambda x, b: reference.rotate_by_blocks(x, b, layout="half")
        ]
    ]
    close(*scores, 1000)


def test_the_update_commutes_with_permutations():
    order = np.array([3, 0, 4, 1, 2])
    weights, blocks, mlp_output = weights_of(), blocks_of(), normal(TOKENS, D_MODEL)
    moved = update(weights, blocks, mlp_output)
    shuffled = weights[:, order][:, :, order]
    close(update(shuffled, blocks[order], mlp_output[order]), moved[order], 10)


def test_a_model_without_a_mask_commutes_with_permutations():
    order, positions = torch.tensor([3, 0, 4, 1, 2]), torch.arange(TOKENS)
    made = model(module(), causal=False)
    close(made(X[:, order], positions[order]), made(X, positions)[:, order], 100)


class MovedApart(TAPE):
    """A variant of the authors' ablation: sines and cosines have different weights."""

    def update(self, weights, tokens, mlp_output):
        moved = super().update(weights, tokens, mlp_output)
        return moved * torch.tensor([[1.0], [0.5]], dtype=torch.float64)


@pytest.mark.parametrize("mixing", MIXING)
def test_a_shift_of_all_positions_changes_nothing(mixing):
    """For positions up to 1000, angles and rotated features are off by 1000 u."""
    right, apart = (module(mixing=mixing, kind=kind) for kind in (TAPE, MovedApart))
    positions = torch.arange(TOKENS)
    out, other = (model(m)(X, positions) for m in (right, apart))
    close(model(right)(X, positions + 1000), out, 100)
    close(model(right)(X, positions - 0.25), out, 100)
    assert abs(model(apart)(X, positions + 1000) - other).max() > 1e-2


def test_moved_apart_a_score_knows_where_it_is():
    """The smallest case: one pair, two tokens, cosines times 1 + a."""

    def score(shift, a):
        start = reference.tape_start(np.array([0.0, 1.0]) + shift, 2, 1)
        moved = mutants.rows_moved_apart(start, (1 + a, 1.0))
        x = np.array([[[1.0, 0.0]]])
        q, k = (
            reference.rotate_by_blocks(x, b[None], layout="half")[0, 0] for b in moved
        )
        return q @ k

    for shift in (0.0, 1.0, 2.5):
        close(score(shift, 0.0), np.cos(1.0))
        far = 1 + 2 * shift
        expected = ((4 + 1) * np.cos(1.0) + (4 - 1) * np.cos(far)) / 2
        close(score(shift, 1.0), expected)


def test_summed_over_queries_a_token_hears_the_future():
    weights, blocks = weights_of(), blocks_of()
    later = blocks.copy()
    later[-1] += 1
    averaged, changed = (
        mutants.summed_over_queries(weights, b) for b in (blocks, later)
    )
    assert (abs(changed - averaged)[0] > 1e-3).all()
    mlp_output = normal(TOKENS, D_MODEL)
    moved, kept = (update(weights, b, mlp_output) for b in (blocks, later))
    close(moved[:-1], kept[:-1])


def test_the_first_token_hears_itself_alone_and_grows():
    """One head: by 1 + c at every layer, whatever else is in the sequence."""
    c, layers = 0.5, 6
    given = matrices(heads=1, d_model=D) | {"attended": np.array([[c]])}
    given["up"] = 0 * given["up"]
    moving = reference.tape(D, layout="half", mixing="heads", **given)
    blocks = moving.locate(np.arange(TOKENS), None)
    for n in range(1, layers + 1):
        q = normal(1, TOKENS, D, seed=n)
        taken = steps(q, q, q, moving, positions=blocks, mask=causal_mask(TOKENS))
        blocks = moving.update(taken.weights, taken.tokens, normal(TOKENS, D, seed=n))
        close(np.linalg.det(blocks[0]), (1 + c) ** (2 * n), (1 + c) ** (2 * n))
        assert (np.linalg.norm(blocks, 2, axis=(-2, -1)) <= (1 + c) ** n + 1e-9).all()


def test_what_is_heard_evenly_is_a_dirichlet_kernel_long():
    n, omega = 7, np.array([1.0, 0.01])
    weights = np.full((1, n, n), 1 / n)
    start = reference.tape_start(np.arange(n), D, 1)
    averaged = np.einsum("hij,jhpru->ihpru", weights, start)
    length = np.sqrt(np.linalg.det(averaged[0, 0]))
    close(length, abs(np.sin(n * omega / 2) / (n * np.sin(omega / 2))))


# Gradients.


@pytest.mark.parametrize("mixing", MIXING)
def test_gradients_are_those_of_differences(mixing):
    made = model(module(mixing=mixing), layers=2)
    trained = {n: p for n, p in made.named_parameters() if n.startswith("input")}
    x = X[:1, :3].clone().requires_grad_()
    positions = torch.tensor([0.0, 1.0, 2.5])

    def out(x, *values):
        given = dict(zip(trained, values, strict=True))
        return torch.func.functional_call(made, given, (x, positions))

    assert {n.removeprefix("input.") for n in trained} == {*M}
    assert torch.autograd.gradcheck(out, (x, *trained.values()))


def test_the_gradient_to_a_block_is_that_of_a_difference():
    moving = module()
    start = torch.tensor(normal(1, 3, HEADS, 2, D // 2), requires_grad=True)
    q = torch.tensor(normal(1, HEADS, 3, D))
    mlp_output = torch.tensor(normal(1, 3, D_MODEL))

    def later(blocks):
        taken = fast_steps(q, q, q, moving, positions=blocks)
        blocks = moving.update(taken.weights, taken.tokens, mlp_output)
        return attend(q, q, q, moving, positions=blocks)

    assert torch.autograd.gradcheck(later, (start,))


# Models: layers, caches, padding.


def test_the_reference_s_stack_is_attention_and_update_in_turn():
    rng = np.random.default_rng(0)
    w = [
        Projections(
            *rng.normal(size=(3, HEADS, D, D_MODEL)), rng.normal(size=(8, 2, 4))
        )
        for _ in range(2)
    ]
    own = [hooks(seed=1), hooks(seed=2)]
    x, positions = X[0].numpy(), np.arange(TOKENS)
    mask = causal_mask(TOKENS)
    out = stack(x, [(p, np.tanh) for p in w], positions, mask=mask, hooks=own)
    at = own[0].locate(positions, x)
    for p, moving in zip(w, own, strict=True):
        q, k, v = (np.einsum("hdm,im->hid", m, x) for m in (p.q, p.k, p.v))
        taken = steps(q, k, v, moving, positions=at, x=x, mask=mask)
        x = x + np.einsum("mhd,hid->im", p.o, taken.out)
        mlp_output = np.tanh(x)
        x, at = x + mlp_output, moving.update(taken.weights, taken.tokens, mlp_output)
    close(out, x, 100)


@pytest.mark.parametrize("mixing", MIXING)
@pytest.mark.parametrize("pieces", [(3, 1, 1), (1,) * TOKENS, (0, 5)])
def test_a_prefix_and_what_follows_are_the_whole(mixing, pieces):
    made, positions = model(module(mixing=mixing)), torch.arange(TOKENS) * 1.5
    caches, outputs, start = made.caches(), [], 0
    for n in pieces:
        new = slice(start, start := start + n)
        outputs.append(made(X[:, new], positions[new], caches=caches))
    close(torch.cat(outputs, 1), made(X, positions), 100)


def test_a_cache_holds_the_positions_of_its_own_layer():
    made = model(module())
    caches = made.caches()
    made(X, caches=caches)
    first, second, third = (cache.positions for cache in caches)
    assert first.shape == (1, TOKENS, HEADS, 2, D // 2)
    assert second.shape == third.shape == (2, TOKENS, HEADS, 2, D // 2)
    close(first.square().sum(3), torch.ones(()))
    assert abs(second - first).max() > 0.1 and abs(third - second).max() > 0.1
    assert second.numel() == caches[1].v.numel()


def test_positions_of_another_layer_are_another_model():
    made = model(module())
    caches = made.caches()
    made(X[:, :3], caches=caches)
    for name in ("positions", "k"):
        kept = getattr(caches[1], name)
        setattr(caches[1], name, getattr(caches[0], name).expand_as(kept))
    late = made(X[:, 3:], caches=caches)
    assert abs(late - made(X)[:, 3:]).max() > 1e-3


def test_one_module_for_each_layer_takes_the_first_as_input():
    own = [module(seed=n) for n in range(3)]
    out = model(own, input=own[0])(X)
    assert abs(out - model(own[0])(X)).max() > 1e-3
    same = [module(seed=0) for _ in range(3)]
    close(model(same, input=same[0])(X), model(same[0])(X))


@pytest.mark.parametrize(
    "encoding, first",
    [
        (lambda: [module(), module()], lambda own: None),
        (
            lambda: [Sinusoidal(D_MODEL, layout="half") for _ in range(2)],
            lambda own: own[0],
        ),
        (lambda: [module(), module()], lambda own: Sinusoidal(D_MODEL, layout="half")),
    ],
    ids=["no input", "no update", "another input"],
)
def test_other_encodings_of_a_layer_may_not_act_on_the_input(encoding, first):
    own = encoding()
    with pytest.raises(ValueError, match="acts on the input of the model"):
        model(own, layers=2, input=first(own))


def test_left_padding_is_as_if_absent():
    made, positions = model(module()), torch.arange(TOKENS)
    padding = torch.arange(TOKENS)[None] < torch.tensor([[2], [0]])
    out = made(X, positions, key_padding_mask=padding)
    close(out[0, 2:], made(X[:1, 2:], positions[2:])[0], 100)
    close(out[1], made(X[1:], positions)[0], 100)


def test_a_query_without_keys_hears_nothing():
    moving, layer = module(), fast_steps
    q = torch.tensor(normal(1, HEADS, 2, D))
    start = moving.locate(torch.arange(2)[None], X[:, :2])
    padding = torch.tensor([[True, False]])
    taken = layer(q, q, q, moving, positions=start, key_padding_mask=padding)
    silent = torch.zeros(1, 2, D_MODEL, dtype=torch.float64)
    moved = moving.update(taken.weights, taken.tokens, silent)
    close(moved[0, 0], start[0, 0])
    assert abs(moved[0, 1] - start[0, 1]).max() > 0.1


@pytest.mark.parametrize("tokens", [0, 1])
def test_short_sequences(tokens):
    out = model(module())(X[:, :tokens])
    assert out.shape == (2, tokens, D_MODEL) and out.isfinite().all()
    moving, q = hooks(), np.zeros((HEADS, tokens, D))
    start = moving.locate(np.arange(tokens), None)
    taken = steps(q, q, q, moving, positions=start)
    moved = moving.update(taken.weights, taken.tokens, np.zeros((tokens, D_MODEL)))
    assert moved.shape == start.shape == (tokens, HEADS, D // 2, 2, 2)


def test_blocks_are_kept_in_float64_and_moved_in_float32_or_better():
    moving = module().bfloat16()
    start = moving.locate(torch.tensor([[2**20, 2**20 + 1]]), X[:, :2])
    angle = (2.0**20 + np.arange(2))[:, None] * [1.0, 0.01]
    close(start[0, :, 0, 1], np.sin(angle), 2.0**20)
    weights = torch.ones(1, HEADS, 2, 2, dtype=torch.bfloat16) / 2
    mlp_output = torch.zeros(1, 2, D_MODEL, dtype=torch.bfloat16)
    q = torch.zeros(1, HEADS, 2, D, dtype=torch.bfloat16)
    tokens = fast_steps(q, q, q, moving, positions=start).tokens
    moved = moving.update(weights, tokens, mlp_output)
    assert start.dtype == moved.dtype == torch.float64
    exact = module().update(weights.double(), tokens, mlp_output.double())
    coarse = torch.tensor(2.0**-24) * 10
    rounded = abs(matrices()["attended"]).max() * 2.0**-9 * 4  # of the parameters
    assert abs(moved - exact).max() < coarse + rounded


# What is refused.


M = matrices()
WRONG = {
    "d odd": (dict(d=5), ValueError, "d must be a positive multiple of 2"),
    "layout": (dict(layout="other"), ValueError, "layout must be 'interleaved'"),
    "mixing": (dict(mixing="rows"), ValueError, "mixing must be 'heads' or 'row sums'"),
    "base": (dict(base=1), ValueError, "base must be finite and greater than 1"),
}
IMPLEMENTATIONS = {
    "numpy": lambda d, **given: reference.tape(d, **M | given),
    "torch": lambda d, **given: TAPE(d, HEADS, D_MODEL, **given),
    "sympy": lambda d, **given: symbolic.tape(
        d, **{n: sp.Matrix(p) for n, p in M.items()}, **given
    ).locate([1], None),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_wrong_options_are_refused(implementation, case):
    changed, error, message = WRONG[case]
    good = dict(d=D, layout="half", mixing="heads")
    IMPLEMENTATIONS[implementation](**good)
    with pytest.raises(error, match=message):
        IMPLEMENTATIONS[implementation](**good | changed)


NUMPY = {
    "a list of words": (dict(up=["a"]), "up must hold floats"),
    "a vector": (dict(attended=np.ones(2)), "attended must be a matrix"),
    "not square": (dict(attended=np.ones((2, 3))), r"attended must be \[2, 2\]"),
    "up of other heads": (dict(up=np.ones((3, 4))), r"up must be \[3, 2\]"),
    "down turned": (dict(down=np.ones((3, 2))), r"down must be \[2, 3\]"),
    "gate of other width": (dict(gate=np.ones((4, 8))), r"gate must be \[3, 8\]"),
    "not finite": (dict(gate=np.full((3, 8), np.nan)), "gate must be finite"),
}


@pytest.mark.parametrize("case", NUMPY)
@pytest.mark.usefixtures("unchecked")
def test_wrong_matrices_are_refused(case):
    changed, message = NUMPY[case]
    with pytest.raises((TypeError, ValueError), match=message):
        reference.tape(D, layout="half", mixing="heads", **M | changed)


@pytest.mark.usefixtures("unchecked")
def test_arrays_that_do_not_fit_are_refused():
    weights, blocks, mlp_output = weights_of(), blocks_of(), normal(TOKENS, D_MODEL)
    for given, message in (
        ((weights[:1], blocks, mlp_output), r"weights must be \[2, 5, 5\]"),
        ((weights, blocks[..., 0], mlp_output), "blocks must be"),
        ((weights, blocks[..., [0, 1, 0]], mlp_output), "blocks must be"),
        ((weights, blocks[:, :, :0], mlp_output), "blocks must be"),
        ((weights, blocks, mlp_output[:, :3]), r"mlp_output must be \[5, 8\]"),
        ((weights, blocks.astype(int), mlp_output), "blocks must hold floats"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            update(*given)
    with pytest.raises(ValueError, match=r"x must be \[2, 5, 4\]"):
        reference.rotate_by_blocks(np.ones((2, 4, 4)), blocks, layout="half")
    with pytest.raises(ValueError, match="positions must be one number"):
        reference.tape_start(np.ones((2, 2)), D, HEADS)
    q = normal(HEADS, TOKENS, D)
    with pytest.raises(ValueError, match=r"must be blocks \[tokens, 2, 2, r, 2\]"):
        steps(q, q, q, hooks(), positions=np.arange(TOKENS))
    with pytest.raises(ValueError, match="k must have 2 heads"):
        steps(q, q[:1], q[:1], hooks(), positions=blocks)


@pytest.mark.usefixtures("unchecked")
def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"positions for 2 heads of keys, .* has 1"):
        model(module(), kv_heads=1)
    with pytest.raises(ValueError, match="made for heads = 2, the layer has heads = 4"):
        Transformer(D_MODEL, 4, 2, encoding=module())
    with pytest.raises(ValueError, match="made for d_model = 8"):
        Transformer(12, 2, 2, encoding=TAPE(6, 2, 8, layout="half", mixing="heads"))
    with pytest.raises(ValueError, match="'update', which only route='eager' has"):
        model(module(), route="sdpa")
    q = torch.zeros(1, HEADS, 3, D, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"positions must be \[3, 2, 2, 2\]"):
        attend(q, q, q, module(), positions=range(3))
    with pytest.raises(ValueError, match="as locate returns them"):
        module().rotate(q, q, torch.arange(3)[None])
    with pytest.raises(ValueError, match="needs positions"):
        attend(q, q, q, module())
    taken = fast_steps(
        q, q, q, module(), positions=module().locate(torch.arange(3)[None], X[:, :3])
    )
    with pytest.raises(ValueError, match=r"mlp_output must be \[1, 3, 8\]"):
        module().update(taken.weights, taken.tokens, q[0])


def test_a_cache_keeps_to_its_encoding():
    moving, cache = module(), KVCache()
    q = torch.zeros(1, HEADS, 3, D, dtype=torch.float64)
    start = moving.locate(torch.arange(3)[None], X[:, :3])
    attend(q, q, q, moving, positions=start, cache=cache)
    with pytest.raises(ValueError, match="belongs to a layer with TAPE, not RoPE"):
        attend(q, q, q, RoPE(D, layout="half"), cache=cache)


# The symbolic implementation.


@pytest.mark.parametrize("layout", LAYOUT)
@pytest.mark.parametrize("mixing", MIXING)
def test_the_symbolic_implementation_is_the_reference(layout, mixing):
    exact = symbolic.tape(
        D, layout=layout, mixing=mixing, **{n: sp.Matrix(p) for n, p in M.items()}
    )
    q, mlp_output = normal(HEADS, 2, D), normal(2, D_MODEL)
    positions = [sp.Rational(1, 2), 3]
    heads = tuple(sp.Matrix(m) for m in q)
    at = [b.evalf() for b in exact.locate(positions, None)]
    taken = exact_steps(heads, heads, heads, exact, positions=at)
    moved = exact.update(taken.weights, taken.tokens, sp.Matrix(mlp_output))
    slow = hooks(layout, mixing)
    start = slow.locate(np.array([0.5, 3.0]), None)
    seen = steps(q, q, q, slow, positions=start, mask=causal_mask(2))
    expected = slow.update(seen.weights, seen.tokens, mlp_output)
    # The blocks of a head side by side: [heads · r, pairs · 2].
    expected = expected.transpose(0, 1, 3, 2, 4).reshape(2, HEADS * 2, D)
    close(np.array([b.evalf().tolist() for b in moved], dtype=float), expected, 100)


def test_the_printed_module_says_its_conventions():
    said = repr(TAPE(4, 2, 8, layout="half", mixing="row sums"))
    assert (
        said == "TAPE(4, 2, 8, layout='half', mixing='row sums', width=8, base=10000)"
    )


def test_mlp_outputs_of_another_batch_are_refused(unchecked):
    """One row was used for both sequences, silently."""
    encoding = TAPE(4, 2, 8, layout="half", mixing="row sums")
    weights = torch.ones(2, 2, 3, 3) / 3
    with pytest.raises(ValueError, match=r"must be \[2, 3, 8\].*got shape \[1, 3, 8\]"):
        encoding.update(weights, None, torch.ones(1, 3, 8))
