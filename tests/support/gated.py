"""Helpers for tests of gated encodings: layers on every route, with a cache."""

from functools import partial

import numpy as np
import torch

from posedu.torch import KVCache

ROUTES = ("eager", "sdpa", "flex")


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def causal(n):
    return np.tri(n, dtype=bool)


def stepwise(layer, x):
    """Four tokens at once, then one at a time, through a cache."""
    cache, steps = KVCache(), []
    for start, end in ((0, 4), *((i, i + 1) for i in range(4, x.shape[1]))):
        steps.append(layer(x[:, start:end], cache=cache))
    return torch.cat(steps, 1)


def same_on_every_route(make):
    x = torch.tensor(normal(5, 2, 9, 16))
    with torch.no_grad():
        expected = make("eager")(x)
        for route in ROUTES:
            layer = make(route)
            close = partial(torch.testing.assert_close, rtol=0, atol=1e-13)
            close(layer(x), expected)
            close(stepwise(layer, x), expected)
