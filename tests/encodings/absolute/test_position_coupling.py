"""Position coupling: indices by significance, draws, caches, errors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import absolute
from posedu.sympy import absolute as symbolic
from posedu.torch import Abacus, Learned, PositionCoupling, Transformer
from posedu.torch.absolute import coupled_indices

numbers = st.integers(0, 10**12)


def rng(seed=0):
    return np.random.default_rng(seed)


def roles_of(text):
    """Roles of the characters of a sum whose result is written least digit first."""
    before, _, after = text.partition("=")
    kinds = {"$": -1, "+": 0}
    roles = [kinds.get(c, 1) for c in before] + [0]
    return np.array(roles + [kinds.get(c, 2) for c in after])


def added(a, b, is_padded):
    digits = max(map(len, (str(a), str(b)))) if is_padded else 1
    total = f"{a + b:0{digits + is_padded}d}"[::-1]
    return f"${a:0{digits}d}+{b:0{digits}d}={total}$"


def test_the_ids_of_the_released_code_s_format():
    """653 + 49 = 702, written with zeros in front and the answer reversed, start 4."""
    index = absolute.coupled_indices(roles_of("$653+049=2070$"))
    expected = [0, 5, 6, 7, 8, 5, 6, 7, 8, 7, 6, 5, 4, 0]
    assert absolute.position_coupling(index, start=4).tolist() == expected


@given(numbers, numbers, st.booleans())
def test_digits_of_equal_significance_share_an_id(a, b, is_padded):
    text = added(a, b, is_padded)
    index = absolute.coupled_indices(roles_of(text))
    np.testing.assert_array_equal(coupled_indices(torch.tensor(roles_of(text))), index)
    plus, equals, end = text.index("+"), text.index("="), len(text) - 1
    units = (plus - 1, equals - 1, equals + 1)
    for power in range(len(str(a + b))):
        ids, value = set(), 0
        for sign, at, step, edge in zip(
            (1, 1, -1), units, (-1, -1, 1), (0, plus, end), strict=True
        ):
            i = at + step * power
            if (edge - i) * step > 0:
                ids.add(int(index[i]))
                value += sign * int(text[i])
        assert len(ids) == 1, (text, power)
        assert value in (0, -1, 9, 10)  # what decides on the carry
    assert index[plus] == index[equals] == 1 + index[plus - 1]
    assert index[0] == index[-1] == -1


@given(numbers, numbers)
def test_a_generated_digit_does_not_change_the_ids_before_it(a, b):
    roles = torch.tensor(roles_of(added(a, b, True)))
    whole, equals = coupled_indices(roles), (roles == 0).nonzero().max()
    for stop in range(int(equals) + 1, len(roles)):
        assert torch.equal(coupled_indices(roles[:stop]), whole[:stop])


def test_summands_may_be_reversed_and_the_sum_need_not_be():
    """17 + 385 = 402 in four ways of writing have the ids of their significance."""
    for summands, total in ((1, 1), (1, 2), (2, 1), (2, 2)):
        roles = np.array([summands] * 2 + [0] + [summands] * 3 + [0] + [total] * 3)
        down, up = [1, 2, 3], [3, 2, 1]
        orders = {1: down, 2: up}
        short = orders[summands][1:] if summands == 1 else up[:2]
        expected = [*short, 4, *orders[summands], 4, *orders[total]]
        assert absolute.coupled_indices(roles).tolist() == expected
        assert coupled_indices(torch.tensor(roles)).tolist() == expected


def test_rows_have_their_own_longest_summand():
    rows = np.array([[1, 1, 0, 1, 0, 2, 2, 2], [1, 0, 1, 0, 2, 2, -1, -1]])
    each = np.stack([absolute.coupled_indices(row) for row in rows])
    np.testing.assert_array_equal(absolute.coupled_indices(rows), each)
    np.testing.assert_array_equal(coupled_indices(torch.tensor(rows)), each)


def test_ids_by_place_in_the_text_do_not_couple():
    """Mutant: ids from the left of every number, which differ where lengths differ."""
    roles = roles_of("$17+385=204$")
    index = absolute.coupled_indices(roles)
    wrong = mutants.positions_from_the_left(roles)
    units = [2, 6, 8]
    assert len({*index[units]}) == 1 < len({*wrong[units]})


@given(st.lists(st.integers(-1, 8), max_size=9), st.integers(0, 99))
def test_abacus_is_position_coupling_one_index_lower(index, shift):
    at = np.array(index, dtype=np.int64)
    coupled = absolute.position_coupling(at - 1, start=shift + 1)
    np.testing.assert_array_equal(absolute.abacus(at, shift=shift), coupled)
    k = torch.tensor([[shift]])
    np.testing.assert_array_equal(
        Abacus(99, per="batch").place(torch.tensor(at), shift=k),
        PositionCoupling(99).place(torch.tensor(at) - 1, start=k + 1),
    )


# Starts


@pytest.mark.parametrize("draw", ["numpy", "torch", "located"])
def test_starts_are_uniform_as_far_as_there_is_room(draw):
    count, most, largest = 9000, 7, 4
    if draw == "numpy":
        start = absolute.draw_position_coupling(
            rng(), count, 6, max_position=most, largest=largest
        )["start"]
    else:
        torch.manual_seed(0)
        module, at = PositionCoupling(most), torch.tensor([[-1, 4, 2]])
        if draw == "torch":
            start = module.draw(count, 3, largest=at[:, 1:2])["start"]
        else:
            places = module.locate(at, torch.zeros(count, 3, 2))
            assert places.max() == most and not places[:, 0].any()
            start = places[:, 1] - 4
        start = start.numpy()
    assert {*np.unique(start)} == {1, 2, 3}
    for value in (1, 2, 3):  # five standard deviations of a share of a third
        assert abs((start == value).mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / count)


@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_by_default_there_is_room_for_as_many_ids_as_tokens(tokens):
    torch.manual_seed(0)
    start = PositionCoupling(5).draw(900, tokens)["start"]
    of_numpy = absolute.draw_position_coupling(rng(), 900, tokens, max_position=5)
    assert start.max() == 6 - max(tokens, 1) or tokens == 0
    assert of_numpy["start"].max() == 6 - max(tokens, 1)


# The module


def test_evaluation_starts_at_one():
    module = PositionCoupling(9).eval()
    at = torch.tensor([[-1, 0, 1, 2, 0, 1]])
    assert module.locate(at, torch.zeros(1, 6, 4)).tolist() == [[0, 1, 2, 3, 1, 2]]
    assert module.train().locate(at[:, :0], torch.zeros(1, 0, 4)).shape == (1, 0)


def test_generated_digits_may_use_caches():
    torch.manual_seed(0)
    inner = Learned(16, 9, beyond="raise", std=1.0)
    coupling = PositionCoupling(8, inner=inner)
    model = Transformer(16, 2, 2, input=coupling).double()
    at = coupled_indices(torch.tensor(roles_of("$17+38=055$")))
    x = torch.randn(2, len(at), 16, dtype=torch.float64)
    with pytest.raises(ValueError, match="of a sequence from all its tokens"):
        model(x, at, caches=model.caches())
    model.eval()
    caches = model.caches()
    parts = [
        model(x[:, a:b], at[a:b], caches=caches)
        for a, b in ((0, 7), (7, 8), (8, len(at)))
    ]
    torch.testing.assert_close(torch.cat(parts, 1), model(x, at), rtol=0, atol=1e-12)


def test_repr_says_the_bound():
    assert repr(PositionCoupling(102)) == "PositionCoupling(102)"


def placed(positions=(0, 1, 2), **draws):
    module = PositionCoupling(5)
    return module.place(list(positions), **module.draw(2, 3) | draws)


def draw(*sizes, **bounds):
    return absolute.draw_position_coupling(rng(), *(sizes or (2, 3)), **bounds)


def indices(*roles):
    return coupled_indices(torch.tensor(roles))


REFUSED = [
    (lambda: absolute.coupled_indices([3]), ValueError, "-1, 0, 1 or 2, got 3"),
    (lambda: absolute.coupled_indices([0.5]), TypeError, "roles must be integers"),
    (lambda: absolute.coupled_indices(1), ValueError, r"got shape \[\]"),
    (
        lambda: absolute.coupled_indices([[1, 0, 2], [0, 2, 2]]),
        ValueError,
        "got digit 2 at a longest summand of 0 digits",
    ),
    (lambda: indices(-2), ValueError, "-1, 0, 1 or 2, got -2"),
    (lambda: coupled_indices(torch.ones(2)), TypeError, "roles must hold integers"),
    (lambda: coupled_indices([1]), TypeError, "torch.Tensor, got list"),
    (lambda: coupled_indices(torch.tensor(1)), ValueError, r"got shape \[\]"),
    (lambda: indices(1, 0, 2, 2, 2), ValueError, "got digit 3 at a longest"),
    (
        lambda: absolute.position_coupling([1], start=0),
        ValueError,
        "at least 1, got 0",
    ),
    (
        lambda: absolute.position_coupling([1], start=1.5),
        TypeError,
        "start must be integers",
    ),
    (
        lambda: absolute.position_coupling([np.inf], start=1),
        ValueError,
        "finite, got inf",
    ),
    (
        lambda: absolute.position_coupling([1], start=[1, 2]),
        ValueError,
        r"or \[rows, 1\], got",
    ),
    (lambda: absolute.coupled_indices([-2, 1]), ValueError, "-1, 0, 1 or 2, got -2"),
    (lambda: draw(max_position=2), ValueError, "max_position must be at least 3"),
    (lambda: draw(max_position=0), ValueError, "max_position must be a positive"),
    (lambda: draw(max_position=4, largest=-1), ValueError, "largest"),
    (lambda: draw(max_position=4, largest=4), ValueError, "at least 5"),
    (lambda: draw(-1, 2, max_position=4), ValueError, "rows must be"),
    (
        lambda: absolute.draw_position_coupling(np.random, 1, 1, max_position=4),
        TypeError,
        "rng must be",
    ),
    (lambda: PositionCoupling(0), ValueError, "max_position must be a positive"),
    (lambda: PositionCoupling(2).draw(1, 3), ValueError, "max_position must be at"),
    (
        lambda: PositionCoupling(3).locate(torch.tensor([[3]]), torch.zeros(1, 1, 2)),
        ValueError,
        "below max_position = 3, got 3",
    ),
    (lambda: placed(start=torch.tensor([[0]])), ValueError, "at least 1, got 0"),
    (lambda: placed(start=torch.ones(2, 1)), TypeError, "start must hold integers"),
    (lambda: placed([[0]] * 3), ValueError, "differ in rows"),
    (
        lambda: symbolic.position_coupling([1], start=[1, 2]),
        ValueError,
        "start must be one",
    ),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_is_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()
