"""Frequencies as tensors, NumPy arrays and lists make the same module."""

import warnings

import numpy as np
import pytest
import torch

from posedu.torch import MixedRoPE, MRoPE, RoPE
from posedu.torch._numbers import as_real_tensor
from posedu.torch.absolute import FourierLearned, FourierRandom
from posedu.torch.rotary import Rerotation

NUMBERS = np.array([1.0, 0.3, 0.1 + 2**-50])
ARRAYS = {
    "an array": NUMBERS,
    "a view that steps back": NUMBERS[::-1].copy()[::-1],
    "another byte order": NUMBERS.astype(">f8"),
    "read only": np.broadcast_to(NUMBERS, NUMBERS.shape),
    "a list": NUMBERS.tolist(),
    "a tuple": tuple(NUMBERS.tolist()),
    "numbers of NumPy": list(NUMBERS),
    "a tensor": torch.from_numpy(NUMBERS),
}
FOURIER = dict(unit="radians", layout="half", first="cos", amplitude="features")


@pytest.mark.parametrize("name", ARRAYS)
def test_rotations_keep_every_digit(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = ARRAYS[name]
        modules = (
            RoPE(6, layout="half", frequencies=given),
            Rerotation(6, layout="half", frequencies=given),
            MRoPE(
                6, layout="half", frequencies=given, sections=(2, 1), order="sectioned"
            ),
        )
    for module in modules:
        assert module.frequencies.dtype == torch.float64
        assert module.frequencies.tolist() == NUMBERS.tolist()


def test_a_module_does_not_share_an_array():
    own = NUMBERS.copy()
    module = RoPE(6, layout="half", frequencies=own)
    own[0] = 7.0
    assert module.frequencies[0] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trained_frequencies_take_arrays_in_their_dtype(dtype):
    vectors = np.arange(4, dtype=dtype).reshape(2, 2)
    mixed = MixedRoPE(4, layout="half", frequencies=vectors)
    random = FourierRandom(4, frequencies=vectors, **FOURIER)
    learned = FourierLearned(4, features=4, width=3, frequencies=vectors, **FOURIER)
    for module in (mixed, random, learned):
        assert module.frequencies.numpy(force=True).tolist() == vectors.tolist()
        assert module.frequencies.dtype == torch.from_numpy(vectors).dtype


def test_lists_have_pytorchs_default_dtype():
    vectors = [[1.0, 0.0], [0.0, 0.5]]
    mixed = MixedRoPE(4, layout="half", frequencies=vectors)
    random = FourierRandom(4, frequencies=vectors, **FOURIER)
    assert mixed.frequencies.dtype == random.frequencies.dtype == torch.float32
    assert mixed.frequencies.tolist() == random.frequencies.tolist() == vectors


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("yarn", "numbers must be numbers, but"),
        ([1.0, "a"], "numbers must be numbers, but"),
        (np.array(["a"]), "numbers must be numbers, but"),
        (np.array([1j]), "dense and real, got torch.complex128"),
        (torch.eye(2).to_sparse(), "dense and real"),
    ],
)
def test_what_is_no_number_is_refused(given, words, unchecked):
    with pytest.raises(TypeError, match=words):
        as_real_tensor("numbers", given)
