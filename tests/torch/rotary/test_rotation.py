"""The kernels under RoPE: every route to the same rotation, and what they refuse."""

import mpmath
import numpy as np
import pytest
import torch

from posedu.numpy import rotary as reference
from posedu.torch import RoPE, rotate_pairs
from posedu.torch._tensors import angles, cos_sin
from posedu.torch.frequencies import frequencies
from posedu.torch.rotary import rotation
from support import bounds, compiling

LAYOUTS = ("interleaved", "half")
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
MEMORY = {
    "plain": lambda b, h, t, d: torch.randn(b, h, t, d),
    "tokens before heads": lambda b, h, t, d: torch.randn(b, t, h, d).transpose(1, 2),
    "features first": lambda b, h, t, d: torch.randn(b, h, d, t).mT,
    "odd strides": lambda b, h, t, d: torch.randn(b, h, t, d + 5)[..., 3 : d + 3],
    "odd rows, even heads": lambda b, h, t, d: torch.randn(b, h, 2 * t, d + 1)[
        :, :, :t, :d
    ],
    "every other feature": lambda b, h, t, d: torch.randn(b, h, t, 2 * d)[..., ::2],
    "one row for all": lambda b, h, t, d: torch.randn(d).expand(b, h, t, d),
}


def wide(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def assert_turned(out, x, positions, layout, r=None):
    """Within the roundoff of ``tests/support/bounds.py`` of the float64 reference."""
    r = x.shape[-1] if r is None else r
    exact = x.detach().double().numpy()
    expected = reference.rope(exact, positions, layout=layout, rotary_dim=r)
    atol = bounds.rotated(exact[..., :r], positions, x.dtype, layout)
    error = np.abs(out.detach().double().numpy() - expected)
    assert out.dtype == x.dtype and out.shape == x.shape
    assert (error[..., :r] <= atol).all()
    assert not error[..., r:].any()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("r", [16, 6])
def test_any_strides_of_input_and_target(layout, dtype, memory, r):
    shape = (2, 3, 7, 16)
    x = MEMORY[memory](*shape).to(dtype)
    rope = RoPE(16, layout=layout, rotary_dim=r)
    positions = range(1000, 1007)
    assert_turned(rope(x, positions), x, positions, layout, r)
    table = rope.table(positions, dtype=wide(dtype))
    for order in MEMORY.keys() - {"one row for all"}:
        out = MEMORY[order](*shape).to(dtype)
        assert rotate_pairs(x, *table, layout=layout, out=out) is out
        assert_turned(out, x, positions, layout, r)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_trained_angles_turn_as_many_features_as_there_are_rows(layout):
    x, positions = torch.randn(4, 3, 16), range(5, 8)
    table = RoPE(16, layout=layout, rotary_dim=4).table(positions)
    cos, sin = (t.requires_grad_() for t in table)
    out = rotate_pairs(x, cos, sin, layout=layout)
    assert_turned(out, x, positions, layout, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_token_wider_than_a_tile_is_a_tile_of_its_own(layout):
    x = torch.randn(1, 2100, 3, 64).bfloat16()
    positions = range(5, 8)
    assert_turned(RoPE(64, layout=layout)(x, positions), x, positions, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_more_than_one_tile(layout, dtype):
    x = torch.randn(2, 8, 300, 64).to(dtype)
    positions = torch.stack((torch.arange(300), torch.arange(300).flip(0)))
    out = RoPE(64, layout=layout)(x, positions)
    for row in range(2):
        assert_turned(out[row], x[row], positions[row].numpy(), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8), (0, 3, 5, 8), (0, 0, 8)], ids=str)
def test_nothing_to_turn(layout, dtype, shape):
    rope = RoPE(8, layout=layout)
    x = torch.randn(shape).to(dtype).requires_grad_()
    positions = range(shape[-2])
    out = rope(x, positions)
    out.sum().backward()
    assert out.shape == x.grad.shape == shape
    table = rope.table(positions, dtype=wide(dtype))
    target = torch.empty_like(out)
    assert rotate_pairs(x.detach(), *table, layout=layout, out=target) is target


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("r", [8, 4, 2])
def test_positions_that_want_a_gradient_turn_the_same(layout, dtype, r):
    x = torch.randn(4, 2, 5, 8).to(dtype)  # sizes that r also takes
    positions = torch.tensor([0.5, -3, 1e3, 7, 2], dtype=torch.float64)
    rope = RoPE(8, layout=layout, rotary_dim=r)
    out = rope(x, positions.clone().requires_grad_())
    assert out.requires_grad
    assert_turned(out, x, positions.numpy(), layout, r)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("r", [8, 4])
def test_gradients(layout, r):
    rope = RoPE(8, layout=layout, rotary_dim=r)
    x = torch.randn(2, 3, 2, 8, dtype=torch.float64).transpose(1, 2).requires_grad_()
    positions = torch.tensor([0.5, -3, 1e6], dtype=torch.float64)
    cos, sin = rope.table(positions)
    cos, sin = cos.double(), sin.double()

    def turn(x):
        return rotate_pairs(x, cos, sin, layout=layout)

    assert torch.autograd.gradcheck(turn, (x,))
    assert torch.autograd.gradgradcheck(turn, (x,))
    near = torch.tensor([0.5, -3, 4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(rope, (x, near))
    assert torch.autograd.gradgradcheck(rope, (x, near))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_gradient_of_a_sum_is_an_expanded_tensor(layout, dtype):
    x = torch.randn(2, 5, 8).to(dtype).requires_grad_()
    RoPE(8, layout=layout)(x, range(5)).sum().backward()
    assert_turned(x.grad, torch.ones_like(x), -np.arange(5), layout)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "layout, dtype, dynamic",
    [("half", torch.bfloat16, False), ("interleaved", torch.float32, True)],
    ids=["static", "dynamic"],
)
def test_compiled(layout, dtype, dynamic):
    torch.compiler.reset()
    rope = RoPE(16, layout=layout, rotary_dim=12)

    @compiling.compiled(fullgraph=True, dynamic=dynamic)
    def turn(x, cos, sin):
        return rotate_pairs(x, cos, sin, layout=layout)

    @compiling.compiled(fullgraph=True, dynamic=dynamic)
    def turn_into(x, cos, sin, out):
        return rotate_pairs(x, cos, sin, layout=layout, out=out)

    for tokens in (5, 9) if dynamic else (5,):
        positions = range(70, 70 + tokens)
        x = torch.randn(2, tokens, 3, 16).to(dtype).transpose(1, 2)
        table = rope.table(positions, dtype=wide(dtype))
        out = torch.empty_like(x)
        turn_into(x, *table, out)
        assert_turned(out, x, positions, layout, 12)
        x.requires_grad_()
        turned = turn(x, *table)
        assert_turned(turned, x, positions, layout, 12)
        weight = torch.randn_like(turned)
        turned.backward(weight)
        assert_turned(x.grad, weight, -np.array(positions), layout, 12)


@pytest.mark.parametrize("pairs", (1, 3, 4))
def test_the_formula_that_is_compiled_is_the_same_rotation(pairs, monkeypatch):
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    cos, sin = RoPE(2 * pairs, layout="half").table(range(5), dtype=torch.float64)
    expected = rotate_pairs(x, cos, sin, layout="half")
    monkeypatch.setattr(rotation, "is_compiling", lambda: True)
    found = rotate_pairs(x, cos, sin, layout="half")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)


def spoil(**changes):
    """Arguments of ``rotate_pairs`` that fit, but for ``changes``."""
    x = torch.randn(2, 5, 8)
    cos, sin = RoPE(8, layout="half").table(range(5))
    return dict(x=x, cos=cos, sin=sin, layout="half") | {
        name: change(x, cos) for name, change in changes.items()
    }


def empty(x, cos):
    return torch.empty_like(x)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "changes, error, message",
    [
        (dict(out=lambda x, cos: x), ValueError, "share memory"),
        (dict(out=lambda x, cos: x.view(2, 5, 8)), ValueError, "share memory"),
        (dict(out=lambda x, cos: x[:1]), ValueError, r"out must be .*\[2, 5, 8\]"),
        (dict(out=lambda x, cos: x.double()), ValueError, "out must be torch.float32"),
        (dict(out=lambda x, cos: x.to("meta")), ValueError, "on cpu like x.*on meta"),
        (
            dict(cos=lambda x, cos: cos.clone().requires_grad_(), out=empty),
            ValueError,
            r"no gradient.*torch.no_grad\(\)",
        ),
        (
            dict(sin=lambda x, cos: cos.clone().requires_grad_(), out=empty),
            ValueError,
            r"no gradient.*torch.no_grad\(\)",
        ),
        (dict(sin=lambda x, cos: cos.to("meta")), ValueError, "on cpu and meta, x on"),
        (dict(layout=lambda x, cos: "halves"), ValueError, "'halves'"),
        (dict(x=lambda x, cos: x.long()), TypeError, "x must hold floats"),
        (dict(x=lambda x, cos: x.double()), TypeError, "no coarser.*got torch.float32"),
        (dict(sin=lambda x, cos: cos[:4]), ValueError, r"alike.*\[5, 4\].*\[4, 4\]"),
        (dict(sin=lambda x, cos: cos.double()), ValueError, "alike.*float64"),
        (
            dict(cos=lambda x, cos: cos.half(), sin=lambda x, cos: cos.half()),
            TypeError,
            "float32 or float64.*got torch.float16",
        ),
    ]
    + [
        (dict(cos=cut, sin=cut), ValueError, "broadcast over x")
        for cut in (
            lambda x, cos: cos[:1],
            lambda x, cos: cos[0],
            lambda x, cos: cos.repeat(1, 2),
            lambda x, cos: cos.expand(3, 5, 4),
            lambda x, cos: cos.expand(1, 1, 5, 4),
        )
    ],
)
def test_refused(changes, error, message):
    with pytest.raises(error, match=message):
        rotate_pairs(**spoil(**changes))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.usefixtures("unchecked")
def test_in_place_is_refused_under_a_compiler_too(compiled):
    arguments = spoil(out=lambda x, cos: x)
    turn = torch.compile(rotate_pairs, backend="eager") if compiled else rotate_pairs
    with pytest.raises(Exception, match="share memory"):
        turn(**arguments)


@pytest.mark.parametrize("positions", [range(2**20 - 64, 2**20), range(0, 2**20, 9973)])
@pytest.mark.parametrize("given", ["range", "integers", "reals"])
def test_a_float32_table_is_the_rounded_truth(positions, given):
    forms = dict(
        range=positions,
        integers=torch.tensor(positions),
        reals=torch.tensor(positions, dtype=torch.float64),
    )
    cos, sin = cos_sin(angles(forms[given], frequencies(128)), torch.float32)
    with mpmath.workdps(40):
        for p in (0, 1, 7, 31, 63):
            omega = mpmath.power(10000, mpmath.mpf(-2 * p) / 128)
            for i in (0, 1, len(positions) // 2, len(positions) - 1):
                angle = positions[i] * omega
                for ours, true in ((cos, mpmath.cos(angle)), (sin, mpmath.sin(angle))):
                    assert abs(ours[i, p].item() - true) <= 2**-25 + 1e-9
