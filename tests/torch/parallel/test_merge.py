"""The merge of two parts of the attention: three implementations, and mutants."""

import itertools

import numpy as np
import pytest
import sympy as sp
import torch

from posedu.numpy.parallel import Part, attend_part, merge
from posedu.sympy import parallel as symbolic
from posedu.torch.parallel.ring import Merged

BOUND = 1e-14
"""Some tens of roundings of numbers of size one."""


def drawn(seed, keys=(5, 7), hidden=0.0):
    """Logits and values of three queries, in parts of so many keys."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (3, sum(keys)))
    logits[rng.random(logits.shape) < hidden] = -np.inf
    v = rng.normal(size=(sum(keys), 2))
    return logits, v, np.cumsum((0, *keys))


def parts_of(logits, v, borders):
    slices = (slice(a, b) for a, b in itertools.pairwise(borders))
    return [attend_part(logits[:, s], v[s]) for s in slices]


def softmax(logits, v):
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights @ v / weights.sum(1, keepdims=True)


def mean(one, other):
    return Part((one.out + other.out) / 2, np.logaddexp(one.lse, other.lse))


def by_keys(one, other):
    """Outputs weighted as if all keys had one logit, 5 and 7 of them."""
    out = (5 * one.out + 7 * other.out) / 12
    return Part(out, np.logaddexp(one.lse, other.lse))


def without_shift(one, other):
    """The log-sum-exp of the first part is kept."""
    return Part(merge(one, other).out, one.lse)


@pytest.mark.parametrize("seed", range(5))
def test_two_parts_merge_to_all_keys(seed):
    logits, v, borders = drawn(seed)
    out, lse = merge(*parts_of(logits, v, borders))
    assert np.abs(out - softmax(logits, v)).max() < BOUND
    assert np.abs(lse - np.log(np.exp(logits).sum(1))).max() < BOUND


@pytest.mark.parametrize("wrong", (mean, by_keys, without_shift))
def test_wrong_merges_are_refused(wrong):
    logits, v, borders = drawn(0)
    merged, all_keys = wrong(*parts_of(logits, v, borders)), attend_part(logits, v)
    gaps = [np.abs(a - b).max() for a, b in zip(merged, all_keys, strict=True)]
    assert max(gaps) > 1e6 * BOUND


def test_any_order_and_grouping_and_the_unit():
    parts = parts_of(*drawn(1, keys=(2, 3, 4)))
    none = Part(np.zeros((3, 2)), np.full(3, -np.inf))
    found = [
        merge(merge(parts[i], parts[j]), parts[k])
        for i, j, k in itertools.permutations(range(3))
    ]
    found.append(merge(parts[0], merge(*parts[1:])))
    found.append(merge(none, merge(found[0], none)))
    for part in found[1:]:
        for a, b in zip(part, found[0], strict=True):
            assert np.abs(a - b).max() < BOUND


def test_parts_without_a_key():
    logits, v, borders = drawn(2, hidden=0.4)
    logits[0], logits[1, :5], logits[2, 5:] = -np.inf, -np.inf, -np.inf
    parts = parts_of(logits, v, borders)
    out, lse = merge(*parts)
    assert lse[0] == -np.inf and (out[0] == 0).all()
    assert np.array_equal(out[1], parts[1].out[1])
    assert np.array_equal(out[2], parts[0].out[2])
    empty = attend_part(logits[:, :0], v[:0])
    assert (empty.lse == -np.inf).all() and (empty.out == 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_pytorch_merges_as_numpy(seed):
    parts = parts_of(*drawn(seed, hidden=0.5))
    wanted = merge(*parts)
    own = [Merged(*(torch.tensor(t)[None, None] for t in p)) for p in parts]
    for a, b in zip(own[0].merge(own[1]), wanted, strict=True):
        assert torch.allclose(a[0, 0], torch.tensor(b), rtol=0, atol=BOUND)


def test_sympy_merges_as_numpy():
    logits, v, borders = drawn(3, keys=(1, 2))
    z, a = ([sp.Float(x, 30) for x in row] for row in (logits[0], v[:, 0]))
    first = symbolic.attend_part(z[:1], a[:1])
    merged = symbolic.merge(first, symbolic.attend_part(z[1:], a[1:]))
    out, lse = merge(*parts_of(logits, v, borders))
    assert abs(float(merged.out) - out[0, 0]) < BOUND
    assert abs(float(merged.lse) - lse[0]) < BOUND


def test_bad_parts_are_refused(unchecked):
    one, other = (attend_part(np.zeros((n, 1)), np.zeros((1, 2))) for n in (2, 3))
    with pytest.raises(ValueError, match=r"one shape, got \[2, 2\] and \[3, 2\]"):
        merge(one, other)
    with pytest.raises(ValueError, match="got 0 logits and 0 values"):
        symbolic.attend_part([], [])
    with pytest.raises(ValueError, match="got 2 logits and 1 values"):
        symbolic.attend_part([sp.S.One, sp.S.One], [sp.S.One])
