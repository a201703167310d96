"""Helpers for tests of path encodings: two-loop oracles, layers, caches, packing."""

import numpy as np
import torch

from posedu.torch import Attention, KVCache

DOUBLE = torch.float64


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=DOUBLE)


def loop_scores(q, k, transitions):
    """The scores q_i · T_i ⋯ T_(j+1) k_j of one head, from d × d matrices, by loops."""
    scores = np.zeros((len(q), len(k)))
    for j in range(len(k)):
        u = k[j]
        for i in range(j, len(q)):
            if i > j:
                u = transitions[i] @ u
            scores[i, j] = q[i] @ u
    return scores


def layer_of(encoding, *, kv_heads=None, seed=0, spread=0.7):
    """A layer in float64 whose parameters are not where they start."""
    torch.manual_seed(seed)
    sizes = {"d": encoding.d, "kv_heads": kv_heads}
    layer = Attention(encoding.d_model, encoding.heads, encoding=encoding, **sizes)
    with torch.no_grad():
        for p in layer.parameters():
            if p.requires_grad:
                p.normal_(0, spread * p.shape[-1] ** -0.5 if p.ndim > 1 else spread)
    return layer.double().eval()


def stepwise(layer, x, pieces, **options):
    """The output of a layer that gets its input in pieces, through a cache."""
    cache, out = KVCache(), []
    padding = options.pop("key_padding_mask", None)
    start = 0
    for size in pieces:
        stop = start + size
        hidden = None if padding is None else padding[:, :stop]
        out.append(layer(x[:, start:stop], cache=cache, key_padding_mask=hidden))
        start = stop
    return torch.cat(out, 1)
