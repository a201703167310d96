"""Tables of positions are made once a forward pass, and are the right ones."""

import pytest
import torch

from posedu.torch import T5, ALiBi, RoPE, Transformer
from posedu.torch.shared import Shared

WIDTH, HEADS, D = 32, 4, 8
X = torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(0)).double()


def counted(monkeypatch, owner, name):
    """Replace a method by one that counts its calls."""
    calls, method = [], getattr(owner, name)

    def count(self, *arguments, **options):
        calls.append(arguments)
        return method(self, *arguments, **options)

    monkeypatch.setattr(owner, name, count)
    return calls


def model_of(encoding, layers=3):
    torch.manual_seed(0)
    return Transformer(WIDTH, HEADS, layers, encoding=encoding).double()


@pytest.mark.parametrize(
    ("make", "method"),
    [
        (lambda: RoPE(D, layout="half"), "_table"),
        (lambda: T5(HEADS, bidirectional=False), "of_offsets"),
    ],
)
def test_all_layers_have_one_table_and_every_pass_its_own(make, method, monkeypatch):
    encoding = make().double()
    calls = counted(monkeypatch, type(encoding), method)
    model = model_of(encoding)
    model(X)
    assert len(calls) == 1
    model(X[:, :3])
    assert len(calls) == 2
    apart = model_of([make().double() for _ in range(3)])
    apart.load_state_dict(model.state_dict(), strict=False)
    for own in (block.attention.encoding for block in apart.blocks):
        own.load_state_dict(encoding.state_dict())
    torch.testing.assert_close(apart(X), model(X), rtol=0, atol=0)


@torch.no_grad()
def test_a_decoding_step_makes_one_row_of_biases(monkeypatch):
    calls = counted(monkeypatch, ALiBi, "of_offsets")
    model = model_of(ALiBi(HEADS, slopes="authors"))
    caches = model.caches()
    model(X[:, :5], caches=caches)
    before = len(calls)
    model(X[:, 5:], caches=caches)
    assert len(calls) == before + 1


def test_a_subclass_that_rotates_otherwise_is_asked():
    class Still(RoPE):
        def rotate(self, q, k, positions):
            return q, k

    still, turning = Still(D, layout="half"), RoPE(D, layout="half")
    torch.testing.assert_close(model_of(still)(X), model_of(None)(X), rtol=0, atol=0)
    assert (model_of(still)(X) - model_of(turning)(X)).abs().max() > 1e-3


def test_positions_and_dtypes_of_their_own_have_tables_of_their_own():
    shared, made = Shared(), []
    a, b = torch.arange(3), torch.arange(3)

    def make():
        made.append(len(made))
        return made[-1]

    assert shared.once(make, a) == shared.once(make, a) == 0
    assert shared.once(make, b) == 1  # equal, but another tensor
    assert shared.once(make, a, torch.float32) == 2
    assert shared.once(make, a, torch.float64) == 3
    assert Shared().once(make, a) == 4


@torch.no_grad()
def test_default_positions_after_others_are_not_taken_as_consecutive():
    """The row of biases by offset serves only keys whose positions count up by one."""
    model = model_of(T5(HEADS, bidirectional=False))
    for block in model.blocks:
        torch.nn.init.normal_(block.attention.encoding.table)
    given, caches = [0, 4, 5, 30, 31], model.caches()
    model(X[:, :5], given, caches=caches)
    step = model(X[:, 5:], caches=caches)  # its position is 5
    whole = model(X, [*given, 5])
    torch.testing.assert_close(step, whole[:, 5:], rtol=0, atol=1e-13)
