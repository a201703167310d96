"""Retention: loops, recurrent state, normalisations of paper and code, caches."""

import math

import numpy as np
import pytest
import torch

from posedu.numpy import path as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.torch import Attention, KVCache, Retention, attend
from support.path import DOUBLE, normal, stepwise

HEADS, D, TOKENS = 3, 8, 11
NORMALIZATIONS = ("none", "paper", "torchscale")
SPACINGS = ("rope", "torchscale")
EXPONENTS = {"rope": lambda p: -2 * p / D, "torchscale": lambda p: -p / (D / 2 - 1)}


def options_of(layout="interleaved", spacing="torchscale", normalization="none"):
    return dict(layout=layout, spacing=spacing, normalization=normalization)


def tokens_of(seed=0, size=1.0):
    return size * np.random.default_rng(seed).normal(size=(3, HEADS, TOKENS, D))


def as_complex(x, layout):
    a, b = (x[..., ::2], x[..., 1::2]) if layout == "interleaved" else np.split(x, 2, 1)
    return a + 1j * b


def powers_of(gamma, at):
    return np.tril(gamma ** np.subtract.outer(at, at))


def scores_of(q, k, at, h, layout, spacing):
    """s_ij γ^(i − j) of one head, by complex planes that turn and shrink per step."""
    omega = 10000.0 ** EXPONENTS[spacing](np.arange(D // 2))
    gamma = 1 - 2.0 ** (-5 - h)
    q, k = as_complex(q, layout), as_complex(k, layout)
    scores = np.zeros((len(q), len(k)))
    for i in range(len(q)):
        for j in range(i + 1):
            turn = (gamma * np.exp(1j * omega)) ** (at[i] - at[j])
            scores[i, j] = (np.conj(q[i]) * k[j] / turn.conj() ** -1).sum().real
            scores[i, j] = (q[i].conj() * k[j] * turn.conj().conj()).sum().real
    return scores
