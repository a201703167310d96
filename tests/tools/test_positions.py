"""Positions of padded, packed and cached tokens agree with loops and models."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.numpy import rerotation, rope
from posedu.tools import kept_tokens, packed_positions, padded_positions
from posedu.torch import Attention, Learned, RoPE, Transformer


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), max_size=4))
def test_real_tokens_are_counted(rows):
    mask = np.array(rows, dtype=bool).reshape(-1, 5)
    found = padded_positions(mask)
    for row, positions in zip(mask, found, strict=True):
        assert positions[row].tolist() == list(range(row.sum()))
        assert (positions >= 0).all() and (np.diff(positions) >= 0).all()


def test_padding_on_the_left_changes_nothing():
    """The model has a table, in which wrong positions are other rows."""
    torch.manual_seed(0)
    model = Transformer(16, 2, 2, input=Learned(16, 20, beyond="raise")).double()
    x = torch.randn(1, 6, 16, dtype=torch.float64)
    padded = torch.cat((torch.randn(1, 3, 16, dtype=torch.float64), x), 1)
    mask = torch.tensor([[False] * 3 + [True] * 6])
    at = torch.tensor(padded_positions(mask.numpy()))
    found = model(padded, at, key_padding_mask=~mask)[:, 3:]
    torch.testing.assert_close(found, model(x), rtol=0, atol=1e-13)
    counted = model(padded, torch.arange(9)[None], key_padding_mask=~mask)[:, 3:]
    assert (counted - model(x)).abs().max() > 1e-2


@given(st.lists(st.integers(0, 6), max_size=6))
def test_packed_texts_begin_at_0_each(lengths):
    positions, segments = packed_positions(np.cumsum([0, *lengths]))
    expected = [(i, n) for n, length in enumerate(lengths) for i in range(length)]
    assert [*zip(positions.tolist(), segments.tolist(), strict=True)] == expected


def test_packed_attention_is_that_of_each_text():
    torch.manual_seed(0)
    layer = Attention(16, 2, encoding=RoPE(8, layout="half"), causal=True).double()
    texts = [torch.randn(1, n, 16, dtype=torch.float64) for n in (3, 5, 2)]
    positions, segments = map(torch.tensor, packed_positions([0, 3, 8, 10]))
    found = layer(torch.cat(texts, 1), positions, segments=segments[None])
    expected = torch.cat([layer(text) for text in texts], 1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    alone = layer(torch.cat(texts, 1), positions)
    assert (alone - expected).abs().max() > 1e-2


@given(st.integers(0, 30), st.integers(0, 9), st.integers(0, 9))
def test_sinks_and_a_window(count, sinks, window):
    kept, shifts = kept_tokens(count, sinks=sinks, window=window)
    assert {*kept} == {n for n in range(count) if n < sinks or n >= count - window}
    assert (kept + shifts).tolist() == list(range(len(kept)))
    assert (shifts <= 0).all() and (len(kept) < count or not shifts.any())
    assert len(kept) == min(count, sinks + window)


def test_rerotated_keys_are_those_of_their_new_positions():
    k = np.random.default_rng(0).normal(size=(40, 8))
    cached = rope(k, np.arange(40), layout="half")
    kept, shifts = kept_tokens(40, sinks=4, window=9)
    found = rerotation(cached[kept], shifts, layout="half")
    expected = rope(k[kept], np.arange(13), layout="half")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


REFUSED = {
    "a mask of numbers": (
        lambda: padded_positions(np.ones((1, 3))),
        "`mask` must be boolean, True at real tokens, got dtype float64",
    ),
    "a mask of one row": (
        lambda: padded_positions(np.ones(3, dtype=bool)),
        r"`mask` must be \[rows, tokens\], got shape \[3\]",
    ),
    "lengths in place of ends": (
        lambda: packed_positions([3, 5]),
        r"must begin with 0 and not decrease, .* got \[3, 5\]",
    ),
    "ends that fall": (lambda: packed_positions([0, 5, 3]), "must begin with 0"),
    "no ends": (lambda: packed_positions(np.array([], dtype=int)), "must begin with 0"),
    "ends of a batch": (lambda: packed_positions([[0, 3]]), "must begin with 0"),
    "ends that are no whole numbers": (
        lambda: packed_positions([0.0, 2.5]),
        "`cu_seqlens` must be whole numbers, got dtype float64",
    ),
    "a count below 0": (lambda: kept_tokens(-1, sinks=0, window=0), "count"),
    "half a window": (lambda: kept_tokens(3, sinks=0, window=0.5), "window"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_give_no_positions_are_refused(case, unchecked):
    call, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_masked_mask_is_refused(unchecked):
    mask = np.ma.masked_array([[True] * 3], mask=[[0, 1, 0]])
    with pytest.raises(TypeError, match="`mask` must be a plain array"):
        padded_positions(mask)
