"""Attention in tiles of queries: every mask, a bias by offset, grouped heads."""

import itertools

import pytest
import torch

from posedu.book.timing import peak_memory
from posedu.torch import tiled_attention
from posedu.torch.tiled_attention import Limits, attend_within, by_group, grouped_sdpa

DOUBLE = torch.float64


def given(queries, keys, *, heads=2, kv_heads=2, d=4, d_v=4, dtype=DOUBLE):
    torch.manual_seed(queries + keys)
    q = torch.randn(2, heads, queries, d, dtype=dtype)
    k = torch.randn(2, kv_heads, keys, d, dtype=dtype)
    v = torch.randn(2, kv_heads, keys, d_v, dtype=dtype)
    row = torch.randn(
        heads, queries + keys - 1, dtype=torch.promote_types(dtype, torch.float32)
    )
    return [t.requires_grad_() for t in (q, k, v, row)]


def limits(kind, keys, causal):
    """Limits of one kind; padding and segments leave some queries without a key."""
    torch.manual_seed(0)
    return Limits(
        causal,
        window=17 if "window" in kind and causal else None,
        padding=torch.rand(2, keys) < 0.5 if "padding" in kind else None,
        segments=torch.randint(3, (2, keys)) if "segments" in kind else None,
    )


KINDS = ["none", "window", "padding", "segments", "window, padding, segments"]
SIZES = [(1, 1), (1, 700), (300, 300), (257, 600), (2, 40)]


def plainly(limits, q, k, v, bias, scale):
    """Attend by a loop over the queries; nothing of it is shared with the kernel."""
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=q.dtype)
    queries, keys, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    for b, h, i in itertools.product(*map(range, q.shape[:3])):
        place = i + keys - queries
        j = [
            j
            for j in range(keys)
            if not (limits.causal and j > place)
            and (limits.window is None or j > place - limits.window)
            and (limits.padding is None or not limits.padding[b, j])
            and (
                limits.segments is None
                or limits.segments[b, j] == limits.segments[b, place]
            )
        ]
        if j:
            logits = k[b, h // group, j] @ q[b, h, i] * scale
            if bias is not None:
                logits = logits + bias[h, [keys - 1 - (place - n) for n in j]]
            out[b, h, i] = logits.softmax(-1) @ v[b, h // group, j]
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_attention_is_that_of_a_loop(kind, causal, has_bias, monkeypatch):
    monkeypatch.setattr(tiled_attention, "_ROWS", 4)  # three tiles
    for queries, keys in ((1, 5), (9, 9), (9, 13), (2, 5)):
        *qkv, row = (t.detach() for t in given(queries, keys, heads=4, d=6))
        bounds, bias = limits(kind, keys, causal), row if has_bias else None
        if bounds.window:
            bounds = bounds._replace(window=3)
        out = attend_within(bounds, *qkv, bias, scale=0.3)
        assert (out - plainly(bounds, *qkv, bias, 0.3)).abs().max() < 1e-13


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [True, False])
def test_result_and_gradients_are_those_of_the_open_form(sizes, kind, causal):
    bounds = limits(kind, sizes[1], causal)
    masks = bounds.window, bounds.padding, bounds.segments, causal
    for has_bias, heads in ((True, 2), (True, 4), (False, 2), (False, 4)):
        *qkv, row = given(*sizes, heads=heads)
        tensors = [*qkv, row] if has_bias else qkv
        own = attend_within(bounds, *tensors, scale=0.3)
        other = tiled_attention._open(*qkv, row if has_bias else None, *masks, 0.3)
        assert (own - other).abs().max() < 1e-13
        upstream = torch.randn_like(own)
        for a, b in zip(
            torch.autograd.grad(own, tensors, upstream),
            torch.autograd.grad(other, tensors, upstream),
            strict=True,
        ):
            assert (a - b).abs().max() < 1e-12 * (1 + b.abs().max())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_gradients(kind, monkeypatch):
    monkeypatch.setattr(tiled_attention, "_ROWS", 2)
    tensors = given(3, 5)
    bounds = limits(kind, 5, True)
    assert torch.autograd.gradgradcheck(
        lambda *t: attend_within(bounds, *t, scale=0.5), tensors
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_bias", [True, False])
def test_memory_grows_with_the_length_and_not_its_square(kind, has_bias):
    device = torch.device("cpu")

    def peaks(task):
        return [peak_memory(lambda n=n: task(n), device) for n in (1024, 2048)]

    def forward(n):
        *qkv, row = given(n, n, heads=4, d=16, d_v=8, dtype=torch.float32)
        bias = row if has_bias else None
        return attend_within(limits(kind, n, True), *qkv, bias, scale=1.0)

    def at_once(n):
        *qkv, row = given(n, n, d=16)
        masks = limits(kind, n, True)
        bias = row if has_bias else None
        return tiled_attention._open(*qkv, bias, *masks[1:], True, 1.0)

    few, many = peaks(forward)
    assert many < 2.2 * few
    few, many = peaks(lambda n: forward(n).sum().backward())
    assert many < 2.2 * few
    few, many = peaks(at_once)
    assert many > 3.5 * few


@pytest.mark.parametrize("sizes", [(1, 4096), (4096, 4096)])
def test_a_window_costs_its_width_and_not_the_length(sizes):
    """The keys before the window are never read: they may be NaN."""
    queries, keys = sizes
    q, k, v, _ = (t.detach() for t in given(queries, keys, dtype=torch.float32))
    k[:, :, :1000], v[:, :, :1000] = torch.nan, torch.nan
    out = attend_within(Limits(causal=True, window=8), q, k, v, scale=0.5)
    assert out[:, :, -min(queries, 2048) :].isfinite().all()


def test_grouped_heads_are_repeated_keys_and_none_is_made():
    q, k, v, _ = (t.detach() for t in given(1, 4096, heads=16, d=32, d_v=32))
    repeated = (t.repeat_interleave(8, 1) for t in (k, v))
    expected = attend_within(Limits(causal=True), q, *repeated, scale=0.5)
    assert (grouped_sdpa(q, k, v, scale=0.5) - expected).abs().max() < 1e-14
    weights = torch.randn(2, 16, 3, 4096, dtype=DOUBLE)
    right = weights @ v.repeat_interleave(8, 1)
    assert (by_group(weights, v) - right).abs().max() < 1e-11
    wrong = weights @ v.repeat(1, 8, 1, 1)  # heads of a group are neighbors
    assert (wrong - right).abs().max() > 1
    used = peak_memory(lambda: grouped_sdpa(q, k, v, scale=0.5), torch.device("cpu"))
    assert used < k.nbytes / 8


def test_in_low_precision_the_bias_stays_wide():
    tensors = [t.detach() for t in given(200, 200)]
    tensors[3] -= 1000.0  # which bfloat16 rounds to multiples of 4
    exact = attend_within(Limits(causal=True), *tensors, scale=0.5)
    low = [t.to(torch.bfloat16) for t in tensors[:3]]
    rounded = [t.double() for t in low]
    exact = attend_within(Limits(causal=True), *rounded, tensors[3], scale=0.5)
    out = attend_within(Limits(causal=True), *low, tensors[3].float(), scale=0.5)
    assert out.dtype == torch.bfloat16
    assert (out - exact).abs().max() < 2.0**-6 * exact.abs().max()


def test_the_row_that_was_given_is_left_as_it_was():
    q, k, v, row = (t.detach() for t in given(5, 5, dtype=torch.float32))
    before = row.clone()
    attend_within(Limits(causal=True, window=2), q, k, v, row, scale=0.5)
    assert torch.equal(row, before)
