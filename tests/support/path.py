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


def rotation_weights(q, k, steps, layout, sign=-1, first_key=1):
    """Attention weights of one head by two loops and complex planes.

    A token adds its row of ``steps`` to the angles. Their sums over the tokens from the
    key's on (``first_key`` 0), or from the next on, turn scores by ``sign``.
    """
    pairs = q.shape[1] // 2

    def planes(t):
        if layout == "half":
            return t[:, :pairs] + 1j * t[:, pairs:]
        return t[:, 0::2] + 1j * t[:, 1::2]

    zq, zk = planes(q), planes(k)
    weights = np.zeros((len(q), len(q)))
    for i in range(len(q)):
        for j in range(i + 1):
            angle = steps[j + first_key : i + first_key].sum(0)
            score = (zq[i].conj() * zk[j] * np.exp(sign * 1j * angle)).sum().real
            weights[i, j] = np.exp(score / np.sqrt(q.shape[1]))
    return weights / weights.sum(1, keepdims=True)


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


def texts_alone(layer, tokens):
    """Check that a layer's output does not depend on how its texts are given.

    In pieces, with padding before and between tokens, and packed; positions count the
    tokens of a text.
    """
    x = normal(2, tokens, layer.d_model, seed=2)
    close = {"rtol": 0, "atol": 1e-12}
    with torch.no_grad():
        whole = layer(x)
        pieces = stepwise(layer, x, (4, 1, 1, tokens - 6))
        torch.testing.assert_close(pieces, whole, **close)
        hidden = torch.isin(torch.arange(tokens + 3), torch.tensor([0, 1, 5]))
        padded = normal(2, tokens + 3, layer.d_model, seed=3)
        padded[:, ~hidden] = x
        positions = (~hidden).cumsum(0) - 1
        out = layer(padded, positions, key_padding_mask=hidden.expand(2, -1))
        torch.testing.assert_close(out[:, ~hidden], whole, **close)
        packed = x.reshape(1, 2 * tokens, -1)
        segments = torch.arange(2).repeat_interleave(tokens)[None]
        out = layer(packed, torch.arange(tokens).repeat(2), segments=segments)
        torch.testing.assert_close(out.reshape(whole.shape), whole, **close)
