"""Abacus: indices of digits, draws, caches, errors."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.numpy import absolute
from posedu.sympy import absolute as symbolic
from posedu.torch import Abacus, Learned, Transformer
from posedu.torch.absolute import digit_indices

masks = st.lists(st.booleans(), max_size=30)


def rng(seed=0):
    return np.random.default_rng(seed)


# Indices


@given(st.lists(masks, min_size=1, max_size=3))
def test_digits_are_counted_from_one_in_every_run(rows):
    n = min(map(len, rows))
    given = np.array([row[:n] for row in rows], dtype=bool).reshape(len(rows), n)
    expected = np.zeros(given.shape, int)
    for row, digits in zip(expected, given, strict=True):
        text = "".join("d" if is_digit else "." for is_digit in digits)
        for run in re.finditer("d+", text):
            row[slice(*run.span())] = 1 + np.arange(len(run[0]))
    np.testing.assert_array_equal(absolute.digit_indices(given), expected)
    np.testing.assert_array_equal(digit_indices(torch.tensor(given)), expected)


@given(masks, st.integers(0, 30))
def test_a_digit_s_index_does_not_read_later_tokens(mask, cut):
    whole = digit_indices(torch.tensor(mask, dtype=torch.bool))
    part = digit_indices(torch.tensor(mask[:cut], dtype=torch.bool))
    assert torch.equal(whole[:cut], part)


def test_reversed_numbers_share_ids_by_significance_and_others_do_not():
    """17 + 385 = 402, and the trap: without reversing, units have the ids 2 and 3."""

    def units(text, of):
        at = absolute.digit_indices(np.array([c.isdigit() for c in text]))
        return {int(at[i]) for i in of}

    assert units("71+583=204", (0, 3, 7)) == {1}
    assert units("17+385=402", (1, 5, 9)) == {2, 3}


# Shifts


@given(st.integers(0, 2**32 - 1), st.integers(0, 9), st.integers(0, 12))
def test_digits_are_shifted_together_and_nothing_else_is(seed, most, tokens):
    draws = absolute.draw_abacus(rng(seed), 3, tokens, max_shift=most)
    index = absolute.digit_indices(rng(seed).random((3, tokens)) < 0.7)
    places = absolute.abacus(index, **draws)
    is_digit = index > 0
    assert (places[~is_digit] == 0).all()
    assert (places - index == np.where(is_digit, draws["shift"], 0)).all()
    assert (draws["shift"] >= 0).all() and (draws["shift"] <= most).all()


@pytest.mark.parametrize("draw", ["numpy", "torch"])
def test_shifts_are_uniform_with_both_ends(draw):
    count = 9000
    if draw == "numpy":
        shift = absolute.draw_abacus(rng(), count, 1, max_shift=2)["shift"]
    else:
        torch.manual_seed(0)
        shift = Abacus(2, per="sequence").draw(count, 1)["shift"].numpy()
    assert {*np.unique(shift)} == {0, 1, 2}
    for value in range(3):  # five standard deviations of a share of a third
        assert abs((shift == value).mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / count)


@pytest.mark.parametrize("digits, most", [(1, 0), (1, 4), (3, 4), (4, 3), (7, 2)])
def test_the_share_of_a_position_is_that_of_all_shifts(digits, most):
    for t in range(1, digits + most + 1):
        shifts = sum(1 <= t - k <= digits for k in range(most + 1))
        share = symbolic.trained_share(t, digits=digits, max_shift=most)
        assert share * (most + 1) == shifts > 0


# The module


def test_a_batch_shares_its_shift_or_each_sequence_has_one():
    torch.manual_seed(0)
    shapes = {per: Abacus(99, per=per).draw(4, 3)["shift"].shape for per in PER}
    assert shapes == {"batch": (1, 1), "sequence": (4, 1)}


PER = ("batch", "sequence")


def test_evaluation_has_no_shift_and_gives_other_tokens_zero():
    module = Abacus(99, per="batch").eval()
    at = torch.tensor([[-1, 0, 1, 2, 0, 1]])
    assert module.locate(at, torch.zeros(1, 6, 4)).tolist() == [[0, 0, 1, 2, 0, 1]]
    torch.manual_seed(1)
    moved = module.train().locate(at, torch.zeros(1, 6, 4))
    assert moved[0, 2] > 1 and moved.tolist()[0][:2] == [0, 0]


def test_generated_digits_may_use_caches():
    torch.manual_seed(0)
    inner = Learned(16, 12, beyond="raise", std=1.0)
    model = Transformer(16, 2, 2, input=Abacus(3, per="batch", inner=inner)).double()
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    at = digit_indices(torch.tensor([0, 1, 1, 0, 1, 1, 0, 1, 1]).bool())
    with pytest.raises(ValueError, match="of a sequence from all its tokens"):
        model(x, at, caches=model.caches())
    model.eval()
    caches = model.caches()
    parts = [
        model(x[:, a:b], at[a:b], caches=caches) for a, b in ((0, 7), (7, 8), (8, 9))
    ]
    torch.testing.assert_close(torch.cat(parts, 1), model(x, at), rtol=0, atol=1e-12)
    moved = at + (at > 0)
    assert not torch.allclose(model(x, at), model(x, moved))


def test_repr_says_the_conventions():
    assert repr(Abacus(99, per="batch")) == "Abacus(99, per='batch')"


def draw(**bounds):
    return absolute.draw_abacus(rng(), 2, 3, **bounds)


def placed(positions=(0, 1, 2), **draws):
    module = Abacus(5, per="sequence")
    return module.place(list(positions), **module.draw(2, 3) | draws)


REFUSED = [
    (lambda: absolute.digit_indices([0, 1]), TypeError, "boolean, got dtype int"),
    (lambda: absolute.digit_indices(True), ValueError, r"tokens., got shape \[\]"),
    (lambda: digit_indices([True]), TypeError, "boolean tensor, got list"),
    (lambda: digit_indices(torch.ones(3)), TypeError, "got torch.float32"),
    (lambda: digit_indices(torch.tensor(True)), ValueError, r"got shape \[\]"),
    (lambda: absolute.abacus([1], shift=-2), ValueError, "not be negative, got -2"),
    (lambda: absolute.abacus([1], shift=0.5), TypeError, "shift must be integers"),
    (lambda: absolute.abacus([np.nan], shift=0), ValueError, "finite, got nan"),
    (lambda: absolute.abacus([1], shift=[1, 2]), ValueError, r"or \[rows, 1\], got"),
    (lambda: draw(max_shift=-1), ValueError, "max_shift"),
    (lambda: absolute.draw_abacus(np.random, 2, 3, max_shift=1), TypeError, "rng must"),
    (lambda: absolute.draw_abacus(rng(), -1, 3, max_shift=1), ValueError, "rows must"),
    (lambda: absolute.draw_abacus(rng(), 1, 0.5, max_shift=1), TypeError, "tokens"),
    (lambda: Abacus(-1, per="batch"), ValueError, "max_shift"),
    (lambda: Abacus(9, per="token"), ValueError, "per must be 'sequence' or"),
    (lambda: placed(shift=torch.tensor([[-3]])), ValueError, "at least 0, got -3"),
    (lambda: placed(shift=torch.ones(2, 1)), TypeError, "shift must hold integers"),
    (lambda: placed(shift=1), TypeError, "shift must be a torch.Tensor"),
    (lambda: placed([[0]] * 3), ValueError, "differ in rows"),
    (lambda: symbolic.abacus([1], shift=[1, 2]), ValueError, "shift must be one"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_is_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()
