"""Recurrences token by token, in PyTorch, for tests of the recurrent encodings."""

import torch

from posedu.torch.recurrent import Writes

DOUBLE = torch.float64


def walked(writes, state=None):
    """Outputs and last state of a recurrence, one token and one row at a time."""
    q, k, v, log_decay, beta, segments, delta = writes
    if log_decay.ndim < q.ndim:
        log_decay = log_decay[..., None].expand_as(q)
    outputs = torch.zeros_like(v)
    last = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    for b in range(len(q)):
        for h in range(q.shape[1]):
            s = last[b, h] if state is None else state[b, h].clone()
            for t in range(q.shape[2]):
                if t and segments[b, t] != segments[b, t - 1]:
                    s = torch.zeros_like(s)
                s = torch.diag(log_decay[b, h, t].exp()) @ s
                key = k[b, h, t]
                if delta:
                    s = s - beta[b, h, t] * torch.outer(key, key) @ s
                s = s + beta[b, h, t] * torch.outer(key, v[b, h, t])
                outputs[b, h, t] = s.mT @ q[b, h, t]
            last[b, h] = s
    return outputs, last


def drawn(
    seed, tokens, d=5, d_v=3, *, delta, by_feature, segments=False, decay=1.0, heads=2
):
    """Random writes of two texts, with keys of length 1."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=DOUBLE)

    shape = 2, heads, tokens
    q, k, v = normal(*shape, d), normal(*shape, d), normal(*shape, d_v)
    k = k / k.norm(dim=-1, keepdim=True)
    gates = -decay * normal(*shape, *([d] if by_feature else [])).abs()
    beta = 2 * torch.rand(shape, generator=generator, dtype=DOUBLE)
    begins = torch.rand(2, tokens, generator=generator) < 0.1
    numbers = begins.cumsum(1) if segments else torch.zeros(2, tokens).long()
    return Writes(q, k, v, gates, beta, numbers, delta)
