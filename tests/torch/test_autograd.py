"""Kernels with custom gradients also have every other derivative."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from posedu.torch import rotate_pairs, separable_bias
from posedu.torch.attention import attend
from posedu.torch.bias import ALiBi
from posedu.torch.gated import cope
from posedu.torch.rotary import rotation
from posedu.torch.separable_bias import by_tiles
from posedu.torch.stickbreaking import stick_breaking_tiles, stickbreaking

TOKENS, D = 6, 4
ATOL = 1e-12


def normal(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


HEADS = tuple(normal(n, 2, 2, TOKENS, D) for n in range(3))
LATER = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
PADDING = torch.tensor([[True] + [False] * (TOKENS - 1)] * 2)


def turn(x, angle):
    return rotate_pairs(x, angle.cos(), angle.sin(), layout="half")


def turned(x, angle):
    a, b = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def tiled(q, k, v, b):
    return by_tiles(q, k, v, b, scale=0.5)


def untiled(q, k, v, b):
    logits = 0.5 * q @ k.mT + b[..., None, :]
    return logits.masked_fill(LATER, -torch.inf).softmax(-1) @ v


def stick(q, k, v):
    out, rest = stick_breaking_tiles(
        q, k, v, attend_current=False, key_padding_mask=PADDING[: len(q)], block=4
    )
    return out * rest[..., None]


def unstuck(q, k, v):
    """Products of what others leave, one key after the other."""
    share = (q @ k.mT / D**0.5).sigmoid()
    hidden = LATER | torch.eye(TOKENS, dtype=torch.bool) | PADDING[: len(q), None, None]
    share = share.masked_fill(hidden, 0.0)
    left = torch.ones_like(share[..., :1])
    out = torch.zeros_like(v)
    for j in reversed(range(TOKENS)):
        out = out + left * share[..., j : j + 1] * v[..., j : j + 1, :]
        left = left * (1 - share[..., j : j + 1])
    return out * left.log()


def count(values, logits):
    return cope.counted_bias(values, logits)


def counted(values, logits):
    gates = logits.sigmoid().masked_fill(LATER, 0.0)
    position = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=values.shape[-1] - 1)
    at = torch.arange(values.shape[-1], dtype=values.dtype)
    hats = (1 - (position[..., None] - at).abs()).clamp(min=0)
    return (hats * values[..., None, :]).sum(-1)


FUNCTIONS = {
    "turn": (
        rotation._PairRotation,
        turn,
        turned,
        (HEADS[0], normal(3, TOKENS, D // 2)),
        (0,),
    ),
    "tiles": (
        separable_bias._Tiles,
        tiled,
        untiled,
        (*HEADS, normal(3, 2, 2, TOKENS)),
        (0, 1, 2, 3),
    ),
    "sticks": (stickbreaking._StickBreaking, stick, unstuck, HEADS, (0, 1, 2)),
    "count": (
        cope._CountedBias,
        count,
        counted,
        (normal(4, 2, 2, TOKENS, 3), normal(5, 2, 2, TOKENS, TOKENS)),
        (0, 1),
    ),
}
each = pytest.mark.parametrize("name", FUNCTIONS)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=ATOL * TOKENS**4)


def loss_of(function, inputs, places):
    """A number as a function of the inputs at some places."""

    def loss(*chosen):
        every = list(inputs)
        for n, t in zip(places, chosen, strict=True):
            every[n] = t
        return function(*every).sin().sum()

    return loss, [inputs[n] for n in places]


def penalties(name, function):
    """The derivatives of each squared gradient, requested separately."""
    _, _, _, inputs, places = FUNCTIONS[name]
    for wanted in range(len(places)):
        loss, leaves = loss_of(function, inputs, places)
        leaves = [t.clone().requires_grad_() for t in leaves]
        (first,) = torch.autograd.grad(loss(*leaves), leaves[wanted], create_graph=True)
        found = torch.autograd.grad(first.square().sum(), leaves, allow_unused=True)
        yield [torch.zeros(()) if t is None else t for t in found]


@each
def test_second_derivatives_are_right_also_of_one_gradient_alone(name):
    _, kernel, plain, *_ = FUNCTIONS[name]
    close(list(penalties(name, kernel)), list(penalties(name, plain)))


@each
def test_a_gradient_without_a_derivative_is_seen(name, monkeypatch):
    function, kernel, plain, *_ = FUNCTIONS[name]
    right = function.backward

    def once(ctx, *gradients):
        """Detach the gradients: a mutant without second derivatives."""
        return tuple(t if t is None else t.detach() for t in right(ctx, *gradients))

    monkeypatch.setattr(function, "backward", staticmethod(once))
    with pytest.raises((AssertionError, RuntimeError)):
        close(list(penalties(name, kernel)), list(penalties(name, plain)))


@each
def test_transformed_functions_are_right(name):
    """``torch.func``: gradients, tangents, batches, and both at once."""
    _, kernel, plain, inputs, _ = FUNCTIONS[name]
    places = range(len(inputs))
    found, expected = [], []
    for function, results in ((kernel, found), (plain, expected)):
        loss, leaves = loss_of(function, inputs, places)
        wanted = tuple(places)
        gradient = torch.func.grad(loss, wanted)
        results.append(gradient(*leaves))
        moved = tuple(t.cos() for t in leaves)
        results.append(torch.func.jvp(loss, tuple(leaves), moved))
        for n in places:  # one input in two versions, the others in one
            batched = list(leaves)
            batched[n] = torch.stack((leaves[n], moved[n]))
            in_dims = tuple(0 if m == n else None for m in places)
            results.append(torch.vmap(loss, in_dims)(*batched))
            results.append(torch.vmap(gradient, in_dims)(*batched))
        results.append(torch.func.jvp(gradient, tuple(leaves), moved))
    close(found, expected)


@each
def test_forward_mode_is_right(name):
    _, kernel, plain, inputs, places = FUNCTIONS[name]
    found = []
    for function in (kernel, plain):
        loss, leaves = loss_of(function, inputs, places)
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, t.cos()) for t in leaves]
            found.append(forward_ad.unpack_dual(loss(*duals)).tangent)
    close(*found)


def test_the_table_is_not_kept_longer_than_the_features():
    """The rotation is linear: its gradient needs the table alone."""
    x = HEADS[0].clone().requires_grad_()
    out = turn(2 * x, normal(3, TOKENS, D // 2))
    assert [t.shape[-1] for t in out.grad_fn.saved_tensors] == [D // 2, D // 2]


STOCK = {"sdpa": None, "folded": ALiBi(2, slopes="authors")}


@pytest.mark.parametrize("route", STOCK)
def test_the_stock_kernel_refuses_what_its_open_form_has(route):
    """PyTorch's own error names the missing derivative and the way to get it."""
    x = HEADS[0].clone().requires_grad_()

    def second():
        out = attend(x, x, x, STOCK[route], route=route)
        (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)

    with pytest.raises(RuntimeError, match=r"derivative .* is not implemented"):
        second()
    with sdpa_kernel(SDPBackend.MATH):
        assert second()[0].isfinite().all()
