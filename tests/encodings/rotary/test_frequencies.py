"""Context extension of RoPE, by scaled frequencies."""

import math

import numpy as np
import pytest
import torch

from posedu.catalog import ROPE_SCALINGS
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import pi, rope
from posedu.torch import RoPE

MAPS = pytest.mark.parametrize("method", ROPE_SCALINGS.values(), ids=ROPE_SCALINGS)


@MAPS
def test_every_implementation_of_rope_takes_the_result(method):
    rng = np.random.default_rng(0)
    x, positions = rng.normal(size=(5, 8)), rng.uniform(0, 1e4, size=5)
    for options in method.options:
        mapped = method.implementation("numpy")(frequencies(8), **options)
        assert mapped.dtype == np.float64 and mapped.shape == (4,)
        turned = rope(x, positions, layout="half", frequencies=mapped)
        module = RoPE(8, layout="half", frequencies=torch.tensor(mapped))
        fast = module(torch.tensor(x), torch.tensor(positions))
        np.testing.assert_allclose(fast.numpy(), turned, rtol=0, atol=1e-13)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0, 8.0])
def test_interpolated_positions_are_met_in_training(factor):
    """At s·m the angles are those of m; a power of two divides without rounding."""
    x = np.random.default_rng(1).normal(size=(6, 16))
    positions = np.arange(6.0)
    slower = pi(frequencies(16), factor=factor)
    there = rope(x, factor * positions, layout="half", frequencies=slower)
    here = rope(x, positions, layout="half", frequencies=frequencies(16))
    np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("wrong", [lambda w: w * 4.0, lambda w: 4.0 - w, lambda w: w])
def test_what_is_no_interpolation_is_seen(wrong):
    """Multiplied frequencies, subtracted ones, and none changed."""
    assert np.abs(wrong(frequencies(16)) - pi(frequencies(16), factor=4.0)).max() > 0.1


@pytest.mark.parametrize("factor", [0, -1.0, math.inf, math.nan])
def test_a_factor_that_is_none_is_refused(factor):
    with pytest.raises(ValueError, match=r"factor must be (above 0|finite.*), got"):
        pi(frequencies(8), factor=factor)


def test_frequencies_that_are_no_floats_are_refused(unchecked):
    with pytest.raises(TypeError, match="frequencies must hold floats, got dtype int"):
        pi(np.arange(4), factor=2.0)
