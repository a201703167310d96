"""Reference solution of the project "black box", and answers that do not suffice."""

from functools import cache

import numpy as np
import torch

from posedu.book.exercises.bias.distance_biases import buckets
from posedu.book.exercises.nope.nope import distinguishes
from posedu.book.exercises.rotary.rope import partial
from posedu.book.projects.records import Rubric

TOLERANCE = 1e-9  # rounding in float64 is near 1e-15


def last(model, tokens, positions=None):
    """Return the logits after the last token of each text, [batch, vocabulary]."""
    return model(tokens, positions)[:, -1]


def change(a, b):
    """Return the largest difference of two tensors of logits."""
    return (a - b).abs().max().item()


def texts(length):
    """Return 16 random texts, the same at every call."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(16, (16, length), generator=generator)


def letters(text):
    """Return a text of letters as tokens, [1, tokens]."""
    return torch.tensor([[ord(letter) - ord("a") for letter in text]])


@cache
def repeated():
    """Return an offset after which partial RoPE's pairs are almost back."""
    offsets = np.arange(1000, 100_000)
    rotated = partial(np.ones((len(offsets), 16)), offsets, 4)
    return int(offsets[np.square(rotated - 1).sum(1).argmin()])


@cache
def beyond_all_tables():
    """Return a distance in the last bucket of T5's largest table here."""
    return int(np.flatnonzero(buckets(np.arange(1000), 8, 128) == 15)[0])


def identify(model):
    """Return the name of the kind of a model's encoding."""
    x = texts(12)
    start = torch.arange(12)
    base = last(model, x)
    if change(base, last(model, x, 1000 * start)) < TOLERANCE:
        return without_positions(model)
    if change(base, last(model, x, start + 200)) > TOLERANCE:
        return with_absolute_positions(model)
    return with_offsets(model)


def without_positions(model):
    """Return the kind of an encoding that ignores positions."""
    one, many = letters("a"), letters("aaaaaaaa")
    if change(last(model, one), last(model, many)) > TOLERANCE:
        return "stick-breaking"  # its weights do not sum to 1
    assert not distinguishes("bcad", "cbad", 1)
    if change(last(model, letters("adbcd")), last(model, letters("adcbd"))) > TOLERANCE:
        return "fox"
    x = texts(40)
    other = x.clone()
    other[:, 0] = 15 - x[:, 0]
    is_seen = change(last(model, x), last(model, other)) > TOLERANCE
    return "none" if is_seen else "window"


def with_absolute_positions(model):
    """Return the kind of an encoding by which shifted texts have other outputs."""
    x, start = letters("aaaa"), torch.arange(4)
    if change(last(model, x), last(model, x, start + 200)) < TOLERANCE:
        return "log-n"  # it changes weights alone
    single = texts(1)
    far = (last(model, single, torch.tensor([n])) for n in (1000, 2000))
    return "learned" if change(*far) < TOLERANCE else "sinusoidal"


def with_offsets(model):
    """Return the kind of an encoding by which offsets alone matter."""
    x = texts(6)

    def at(distance):
        return last(model, x, torch.tensor([0, 1, 2, 3, 4, 4 + distance]))

    if change(at(100_000), last(model, x[:, -1:])) < TOLERANCE:
        return "alibi"  # the query sees its own key alone
    near = beyond_all_tables()
    if change(at(near), at(2 * near)) < TOLERANCE:
        return "t5"
    mirrored = torch.arange(6).flip(0)
    if change(last(model, x), last(model, x, mirrored)) < TOLERANCE:
        return "kerple"
    typical = change(at(20), at(20 + 500))
    again = change(at(20), at(20 + repeated()))
    return "partial-rope" if again < 0.1 * typical else "rope"


def by_two_tests(model):
    """Name the kind by whether positions matter, and whether a shift does."""
    x, start = texts(12), torch.arange(12)
    base = last(model, x)
    if change(base, last(model, x, 10 * start)) < TOLERANCE:
        return "none"
    if change(base, last(model, x, start + 20)) < TOLERANCE:
        return "rope"
    return "sinusoidal"


def near_alone(model):
    """Name the kind by the tests of the reference solution, with short texts alone.

    All positions are below 20, where a table, a line and a logarithm differ little.
    """
    x, start = texts(8), torch.arange(8)
    base = last(model, x)
    if change(base, last(model, x, 2 * start)) < TOLERANCE:
        one, many = letters("a"), letters("aaaaaaaa")
        if change(last(model, one), last(model, many)) > TOLERANCE:
            return "stick-breaking"
        swapped = x[:, [0, 1, 2, 3, 4, 6, 5, 7]]
        return "fox" if change(base, last(model, swapped)) > TOLERANCE else "none"
    if change(base, last(model, x, start + 10)) < TOLERANCE:
        mirrored = change(base, last(model, x, start.flip(0)))
        return "kerple" if mirrored < TOLERANCE else "rope"
    single = texts(1)
    places = [last(model, single, torch.tensor([n])) for n in range(20)]
    step = np.mean([change(places[n], places[n + 1]) for n in range(10)])
    leap = np.mean([change(places[n], places[n + 9]) for n in range(10)])
    return "sinusoidal" if step < 0.6 * leap else "learned"


ANSWERS = (identify,)

INSUFFICIENT = {"two-tests": (by_two_tests,), "near": (near_alone,)}

RUBRIC = Rubric(
    full=r"""
Question 1 of the write-up carries the understanding, not the number of models.
Every test rests on a theorem, and the write-up names it: a shuffle of the tokens before the last shows a multiset, equal tokens show weights that sum to one, a shift shows offsets, a far key shows how a bias ends.
All comparisons are of equal and unequal up to rounding, or the answer says why they cannot be (partial RoPE comes back only almost).
Tests are made at the length and the distance where kinds differ: the temperature beyond its $L$, the window beyond its width, T5 beyond its last bucket.
The answer knows the limits: the layouts of RoPE are not distinguished by any function of these models, since a permutation of the rows of $W_q$ and $W_k$ exchanges them; and with two layers the shuffle says nothing any more.
""",
    partial=r"""
Most kinds are identified, by tests that were found by trial: thresholds such as 0.01 that happen to separate the practice models, distances that happen to be far enough.
Typical gaps: a window taken for NoPE in short texts, the temperature for NoPE at small positions, partial RoPE for RoPE, KERPLE's logarithm and ALiBi confused because both fall.
Asked why a test works, the answer describes what was seen (“the output did not change”) and not why it cannot change.
It says that the layouts of RoPE are hard to distinguish, not that it is impossible.
""",
    none=r"""
The answer compares a few outputs and guesses: “positions matter, so it is sinusoidal”; “a shift changes nothing, so it is RoPE”.
It tests order by shuffling the whole text, the last token included, and concludes that every causal model has an encoding.
It compares the most probable tokens in place of the logits, or asks only for texts of one length.
A classifier (nearest neighbor, random forest) is trained on the logits of many practice models: it can reach both goals with 16 calls, and it answers no question.
The write-up lists names of encodings without a property that one has and another has not.
""",
)
