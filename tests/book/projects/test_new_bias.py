"""Project "new bias": what counts as a proof, what counts as new, and the training."""

import numpy as np
import pytest
import sympy as sp
import torch

from posedu.book.projects import expected, new_bias
from posedu.book.projects.new_bias import (
    HEADS,
    PROJECT,
    TabledBias,
    distances,
    error_of,
    fits,
    measure,
    mixtures_of,
    smallest_eigenvalue,
    table_of,
)
from posedu.book.projects.solutions.new_bias import ANSWERS, INSUFFICIENT
from posedu.torch.bias import alibi_slopes

S = sp.Symbol("s", positive=True)  # as mixtures_of makes it
GOALS = {goal.quantity: goal for goal in PROJECT.goals}
BIAS, MIXTURE = ANSWERS


@pytest.fixture
def tiny(monkeypatch):
    """Few and short steps of training."""
    for name, value in {"STEPS": 3, "BATCH": 2, "TESTED": 2}.items():
        monkeypatch.setattr(new_bias, name, value)
    new_bias.bits_of_alibi.cache_clear()


@pytest.fixture
def untrained(monkeypatch):
    """No training: ALiBi has 3 bits everywhere, the learner's bias 2.5."""
    for name, value in {"bits_of": 2.5, "bits_of_alibi": 3.0}.items():
        bits = dict.fromkeys((128, 256, 512), value)
        monkeypatch.setattr(new_bias, name, lambda made, seed, bits=bits: bits)


def missed(measured):
    return {name for name, goal in GOALS.items() if not goal.is_reached(measured)}


def of_one(triple):
    return lambda s, heads: [triple] * heads


def test_the_reference_solution_is_proved_and_new(untrained):
    measured = measure(*ANSWERS, seed=5)
    assert measured["error of the mixture"] < 1e-12
    assert measured["bits gained"] == 0.5
    assert not missed(measured)


def test_kerple_is_not_new(untrained):
    assert missed(measure(*INSUFFICIENT["kerple"], seed=5)) == {
        "distance from the catalog"
    }


@pytest.mark.parametrize(
    "row",
    [
        -distances() / 7,
        -2 * np.sqrt(distances()),
        -3 * np.log1p(distances() / 5),
        -1.5 * np.log1p(distances() ** 1.5),
        0 * distances(),
        3 - distances() / 7,
    ],
)
def test_what_the_book_has_is_not_new(row):
    assert min(fits(row).values()) < 0.02


def test_a_family_fits_as_well_as_its_special_cases():
    for scale in (0.2, 1.0, 30.0):
        found = fits(-3 * np.log1p(distances() / scale))
        assert max(found["KERPLE, log"], found["KERPLE, three numbers"]) < 1e-6
    for row in (*table_of(BIAS), -2 * np.sqrt(distances()), -distances() / 7):
        found = fits(row)
        fewer = min(found["KERPLE, log"], found["KERPLE, power"])
        assert found["KERPLE, three numbers"] < fewer + 1e-6
        assert found["KERPLE, power"] < found["ALiBi"] + 1e-6


@pytest.mark.parametrize(
    ("r1", "r2", "r3"), [(1.5, 1.0, 1.5), (1.5, 0.1, 0.4), (0.5, 1e-3, 1.9)]
)
def test_three_numbers_are_found(r1, r2, r3):
    row = -r1 * np.log1p(r2 * distances() ** r3)
    assert fits(row)["KERPLE, three numbers"] < 1e-5


def test_the_length_decides_nothing_for_alibi_and_the_reference_solution():
    for measured in expected("new-bias").measured:
        for of in ("bits", "ALiBi's"):
            bits = [measured[f"{of} at {n}"] for n in (128, 256, 512)]
            assert np.ptp(bits) < 0.01


def test_a_line_and_a_logarithm_together_are_new():
    row = -distances() / 256 - np.log1p(distances())
    assert min(fits(row).values()) > GOALS["distance from the catalog"].least


def test_one_old_head_is_enough_to_miss(untrained, monkeypatch):
    monkeypatch.setattr(new_bias, "error_of", lambda *arguments: 0.0)

    def mixed(t, heads):
        return np.concatenate((BIAS(t, heads)[:-1], [-t / 4]))

    assert missed(measure(mixed, MIXTURE, seed=5)) == {"distance from the catalog"}


def test_a_difference_between_the_fixed_distances_is_found():
    table = table_of(BIAS)
    s, heads = mixtures_of(MIXTURE)
    table[0, 200:290] -= 0.01
    table[0, 320:500] -= 0.01
    with pytest.raises(ValueError, match="the mixture of head 0 is"):
        error_of(table, s, heads, seed=1)


@pytest.mark.parametrize(
    ("triple", "row"),
    [
        ((sp.Rational(1, 4), {}, 0), -distances() / 4),
        ((0, {sp.Rational(1, 8): 3}, 0), 3 * np.expm1(-distances() / 8)),
        ((0, {}, sp.exp(-S) / S), -np.log1p(distances())),
    ],
)
def test_mixtures_are_integrated(triple, row):
    s, heads = mixtures_of(of_one(triple))
    assert error_of(row[None], s, heads[:1], 1) < 1e-12


@pytest.mark.parametrize("density", [1 / S, 1 / S**2])
def test_a_density_without_an_integral_is_no_proof(density):
    s, heads = mixtures_of(of_one((0, {}, density)))
    with pytest.raises(ValueError, match="density of head 0 does not converge"):
        error_of(table_of(BIAS)[:1], s, heads[:1], 1)


def test_a_wrong_mixture_is_refused_before_training(monkeypatch):
    def train(make, seed):
        raise AssertionError("trained")

    monkeypatch.setattr(new_bias, "bits_of", train)
    with pytest.raises(ValueError, match="the mixture of head 0 is -0 at distance 1"):
        measure(BIAS, of_one((0, {}, 0)), seed=5)


@pytest.mark.parametrize("power", [2.2, 3.0])
def test_a_power_above_the_square_is_no_kernel(power):
    rows = np.tile(-((distances() / 128) ** power), (HEADS, 1))
    assert smallest_eigenvalue(rows) < 0


def test_one_head_that_is_no_kernel_is_seen():
    rows = table_of(BIAS)
    assert smallest_eigenvalue(rows) > 0
    rows[2] = -4.0 * (distances() >= 8)
    assert smallest_eigenvalue(rows) < 0


@pytest.mark.parametrize(
    ("mixture", "error", "message"),
    [
        (lambda s, heads: [], ValueError, "a list of 4 triples"),
        (of_one((1, {})), ValueError, "a slope, a dictionary and a density"),
        (of_one((1, [2, 3], 0)), TypeError, "a dictionary of weights by rate"),
        (of_one((0.25, {}, 0)), ValueError, "slope of head 0 must be exact"),
        (of_one((-1, {}, 0)), ValueError, "slope of head 0 must be not negative"),
        (of_one((0, {1: -2}, 0)), ValueError, "a weight of head 0 must be positive"),
        (of_one((0, {0: 2}, 0)), ValueError, "a rate of head 0 must be positive"),
        (of_one((sp.Symbol("m"), {}, 0)), ValueError, "other symbols, got m"),
        (lambda s, heads: [(0, {}, -s)] * heads, ValueError, "-s is not so"),
        (
            lambda s, heads: [(0, {}, sp.exp(-s) - sp.exp(-2 * s))] * heads,
            ValueError,
            "is not known to SymPy to be so",
        ),
        (of_one((sp.true, {}, 0)), TypeError, "must be a SymPy expression"),
    ],
)
def test_what_proves_nothing_is_refused(mixture, error, message):
    with pytest.raises(error, match=message):
        mixtures_of(mixture)


@pytest.mark.parametrize(
    ("bias", "error", "message"),
    [
        (lambda t, heads: [[0.0]], TypeError, "float64 NumPy array, got list"),
        (lambda t, heads: torch.zeros(4, 512), TypeError, "got torch.float32"),
        (lambda t, heads: -t, ValueError, r"\[4, 512\], got shape \[512\]"),
        (
            lambda t, heads: -np.log(np.tile(t, (heads, 1)) - 1),
            ValueError,
            "got nan in head 0 at distance 0",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_no_bias_is_refused(bias, error, message):
    with pytest.raises(error, match=message):
        table_of(bias)


def test_alibi_by_a_table_is_trained_as_alibi_is(tiny):
    table = -alibi_slopes(HEADS, slopes="authors").numpy()[:, None] * distances()
    found = new_bias.bits_of(lambda: TabledBias(table), 4)
    alibis = new_bias.bits_of_alibi(new_bias.settings(), 4)
    assert found == pytest.approx(alibis, abs=1e-4)


def test_a_measurement_is_repeatable_and_leaves_no_trace(tiny, monkeypatch):
    monkeypatch.setattr(new_bias, "error_of", lambda *arguments: 0.0)
    torch.manual_seed(3)
    first, drawn = measure(*ANSWERS, seed=8), torch.rand(())
    new_bias.bits_of_alibi.cache_clear()
    assert measure(*ANSWERS, seed=8) == first
    torch.manual_seed(3)
    assert torch.rand(()) == drawn
    gained = first["ALiBi's at 512"] - first["bits at 512"]
    assert first["bits gained"] == gained
