"""Probes whose order comes from the content: gates, sticks and reflections."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import sympy as sp
import torch
from torch import nn
from torch.nn import functional

from posedu.numpy.attention import Hooks
from posedu.sympy import attention as symbolic
from posedu.torch import Encoding
from posedu.torch.stickbreaking import stick_breaking_tiles
from support.probes.probe import Probe, by_loops, sigmoid, wide

# FoX: a gate of each token (arXiv 2503.02130)


def fox(weight, bias):
    def forgotten(tokens):
        gates = -np.logaddexp(0, -(weight @ tokens.x.T + bias[:, None]))
        c = np.cumsum(gates, axis=1)
        return c[:, :, None] - c[:, None, :]

    return Hooks(bias=forgotten)


def symbolic_fox(weight, bias):
    def forgotten(tokens):
        logits = tokens.x * weight.T + sp.ones(tokens.x.rows, 1) * sp.Matrix([bias])
        gates = logits.applyfunc(lambda z: 1 / (1 + sp.exp(-z)))

        return tokens.by_head(lambda h, i, j: sp.log(sp.prod(gates[j + 1 : i + 1, h])))

    return symbolic.Hooks(bias=forgotten)


class FoX(Encoding):
    needs_causal = needs_x = True
    needs_positions = False

    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.start = nn.Parameter(weight), nn.Parameter(bias)

    def remember(self, x):
        logits = functional.linear(x, self.weight, self.start)
        return {"gates": functional.logsigmoid(wide(logits))}

    def fold(self, tokens):
        c = tokens.running_sum(tokens.memory["gates"])
        return c[..., c.shape[-1] - tokens.q.shape[2] :], -c


class FirstGateIncluded(FoX):
    """The product starts at the key's own gate."""

    def fold(self, tokens):
        of_queries, of_keys = super().fold(tokens)
        return of_queries, of_keys + tokens.memory["gates"].mT.double()


def fox_oracle(q, k, v, positions, x, mask, weight, bias):
    def logit(h, i, j):
        gates = [sigmoid(weight[h] @ x[t] + bias[h]) for t in range(j + 1, i + 1)]
        return q[h, i] @ k[h, j] / math.sqrt(q.shape[2]) + math.log(math.prod(gates))

    return by_loops(v, mask, logit)


# CoPE: gates count the position (arXiv 2405.18719; its code's scaling)


def cope(table):
    def bias(tokens):
        logits = tokens.q @ tokens.k.swapaxes(1, 2) / np.sqrt(tokens.d)
        gates = np.where(tokens.mask, 1 / (1 + np.exp(-logits)), 0)
        counted = np.cumsum(gates[..., ::-1], -1)[..., ::-1].clip(
            max=table.shape[1] - 1
        )
        amounts = tokens.q @ table / np.sqrt(tokens.d)
        low, high = (f(counted).astype(int) for f in (np.floor, np.ceil))
        at_low, at_high = (np.take_along_axis(amounts, p, 2) for p in (low, high))
        return at_low + (counted - low) * (at_high - at_low)

    return Hooks(bias=bias)


def symbolic_cope(table):
    def bias(tokens):
        def entry(h, i, j):
            q, scale = tokens.q[h][i, :], 1 / sp.sqrt(tokens.d)
            logits = [scale * q.dot(tokens.k[h][t, :]) for t in range(j, i + 1)]
            counted = sp.Add(*(1 / (1 + sp.exp(-z)) for z in logits))
            counted = min(counted, table.cols - 1)
            low, high = (table[:, int(f(counted))] for f in (sp.floor, sp.ceiling))
            return scale * q.dot(low + (counted - sp.floor(counted)) * (high - low))

        return tokens.by_head(entry)

    return symbolic.Hooks(bias=bias)


class CoPE(Encoding):
    needs_causal, needs_positions = True, False

    def __init__(self, table):
        super().__init__()
        self.table, self.d = nn.Parameter(table), len(table)

    def bias(self, tokens):
        logits = tokens.q @ tokens.k.mT * self.scale(tokens.d)
        gates = wide(logits).sigmoid().masked_fill(~tokens.mask, 0)
        counted = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=self.table.shape[1] - 1)
        amounts = wide(tokens.q @ self.table * self.scale(tokens.d))
        low, high = (
            amounts.gather(-1, p.long()) for p in (counted.floor(), counted.ceil())
        )
        return torch.lerp(low, high, counted.frac())


class OwnGateLeftOut(CoPE):
    """The sum ends before the query's own gate."""

    def bias(self, tokens):
        earlier = tokens.mask.tril(tokens.k.shape[2] - tokens.q.shape[2] - 1)
        seen = SimpleNamespace(q=tokens.q, k=tokens.k, d=tokens.d, mask=earlier)
        return super().bias(seen)


def cope_oracle(q, k, v, positions, x, mask, table):
    d = q.shape[2]

    def logit(h, i, j):
        gates = [
            sigmoid(q[h, i] @ k[h, t] / math.sqrt(d))
            for t in range(j, i + 1)
            if mask[i, t]
        ]
        p = min(sum(gates), table.shape[1] - 1)
        part = p - math.floor(p)
        vector = part * table[:, math.ceil(p)] + (1 - part) * table[:, math.floor(p)]
        return (q[h, i] @ k[h, j] + q[h, i] @ vector) / math.sqrt(d)

    return by_loops(v, mask, logit)


# Stick-breaking (arXiv 2410.17980): not a softmax at all


def stick_breaking():
    def weigh(logits, tokens):
        beta = np.where(np.tril(tokens.mask, -1), 1 / (1 + np.exp(-logits)), 0)
        left = np.cumprod(1 - beta[..., ::-1], -1)[..., ::-1]
        return beta * np.append(left[..., 1:], np.ones_like(left[..., :1]), -1)

    return Hooks(weigh=weigh)


def symbolic_stick_breaking():
    def weigh(logits, tokens):
        def entry(h, i, j):
            left = [1 / (1 + sp.exp(logits[h][i, t])) for t in range(j + 1, i)]
            return sp.prod(left) / (1 + sp.exp(-logits[h][i, j])) if j < i else 0

        return tokens.by_head(entry)

    return symbolic.Hooks(weigh=weigh)


class StickBreaking(Encoding):
    needs_causal, needs_positions = True, False

    def weigh(self, logits, tokens):
        earlier = tokens.mask.tril(logits.shape[-1] - logits.shape[-2] - 1)
        cost = functional.softplus(wide(logits), threshold=40).masked_fill(~earlier, 0)
        spent = cost.flip(-1).cumsum(-1).flip(-1)
        return (logits - spent).masked_fill(~earlier, -torch.inf).exp()

    def attend(self, tokens):
        q, k, v, padding = tokens.q, tokens.k, tokens.v, tokens.padding
        return stick_breaking_tiles(
            q, k, v, attend_current=False, key_padding_mask=padding
        )[0]


class OldestFirst(StickBreaking):
    """The product over older keys: the far end breaks the stick first."""

    def weigh(self, logits, tokens):
        earlier = tokens.mask.tril(logits.shape[-1] - logits.shape[-2] - 1)
        cost = functional.softplus(logits).masked_fill(~earlier, 0)
        return (logits - cost.cumsum(-1)).masked_fill(~earlier, -torch.inf).exp()


def stick_breaking_oracle(q, k, v, positions, x, mask):
    def weigh(logits):
        weights, left = [0.0], 1.0
        for z in reversed(logits[:-1]):
            weights.append(sigmoid(z) * left)
            left *= 1 - sigmoid(z)
        return weights[::-1]

    def logit(h, i, j):
        return q[h, i] @ k[h, j] / math.sqrt(q.shape[2])

    return by_loops(v, mask, logit, weigh=weigh)


# PaTH: reflections on the way from key to query (arXiv 2505.16381)


def path(direction, strength):
    def logits(tokens):
        w = np.einsum("hdm,im->hid", direction, tokens.x)
        w /= np.linalg.norm(w, axis=-1, keepdims=True)
        beta = 2 / (1 + np.exp(-strength @ tokens.x.T))
        logits, on_the_way = np.zeros((len(w), *tokens.mask.shape)), tokens.q.copy()
        for j in reversed(range(len(tokens.x))):
            logits[:, :, j] = np.einsum("hid,hd->hi", on_the_way, tokens.k[:, j])
            past = on_the_way[:, j:]
            along = np.einsum("hid,hd->hi", past, w[:, j]) * beta[:, j, None]
            past -= along[..., None] * w[:, j, None]
        return logits / np.sqrt(tokens.d)

    return Hooks(logits=logits)


def symbolic_path(direction, strength):
    def logits(tokens):
        def entry(h, i, j):
            row = tokens.q[h][i, :]
            for t in range(i, j, -1):
                w = direction[h] * tokens.x[t, :].T
                beta = 2 / (1 + sp.exp(-strength[h, :].dot(tokens.x[t, :])))
                row = row - beta * (row * w)[0] * w.T / w.dot(w)
            return row.dot(tokens.k[h][j, :]) / sp.sqrt(tokens.d)

        return tokens.by_head(entry)

    return symbolic.Hooks(logits=logits)


class PaTH(Encoding):
    needs_causal = needs_x = True
    needs_positions = False

    def __init__(self, direction, strength):
        super().__init__()
        self.direction, self.strength = nn.Parameter(direction), nn.Parameter(strength)
        self.heads, self.d, self.d_model = direction.shape

    def remember(self, x):
        w = torch.einsum("hdm,bim->bihd", self.direction, x)
        beta = 2 * functional.linear(x, self.strength).sigmoid()
        return {"w": functional.normalize(w, dim=-1), "beta": beta}

    def logits(self, tokens):
        keys, new = tokens.k.shape[2], tokens.q.shape[2]
        place = torch.arange(keys - new, keys, device=tokens.q.device)[:, None]
        on_the_way, columns = tokens.q, []
        for j in reversed(range(keys)):
            columns.append((on_the_way * tokens.k[:, :, j, None]).sum(-1))
            w, beta = (
                tokens.memory["w"][:, j, :, None],
                tokens.memory["beta"][:, j, :, None, None],
            )
            reflected = on_the_way - beta * (on_the_way * w).sum(-1, keepdim=True) * w
            on_the_way = torch.where(place >= j, reflected, on_the_way)
        return torch.stack(columns[::-1], -1) * self.scale(tokens.d)


class ReflectionOfTheKey(PaTH):
    """The product goes down to H_j, the key's own."""

    def logits(self, tokens):
        w, beta = (tokens.memory[name].transpose(1, 2) for name in ("w", "beta"))
        k = tokens.k - beta[..., None] * (tokens.k * w).sum(-1, keepdim=True) * w
        return super().logits(replace(tokens, grouped_k=k))


def path_oracle(q, k, v, positions, x, mask, direction, strength):
    d = q.shape[2]

    def logit(h, i, j):
        product = np.eye(d)
        for t in range(j + 1, i + 1):
            w = direction[h] @ x[t]
            beta = 2 * sigmoid(strength[h] @ x[t])
            product = (np.eye(d) - beta * np.outer(w, w) / (w @ w)) @ product
        return q[h, i] @ product @ k[h, j] / math.sqrt(d)

    return by_loops(v, mask, logit)


PROBES = {
    "fox": Probe(
        fox,
        symbolic_fox,
        FoX,
        fox_oracle,
        lambda draw, heads, kv_heads: dict(weight=draw(heads, 6) / 2, bias=draw(heads)),
        FirstGateIncluded,
        only_causal=True,
    ),
    "cope": Probe(
        cope,
        symbolic_cope,
        CoPE,
        cope_oracle,
        lambda draw, heads, kv_heads: dict(table=draw(4, 4)),
        OwnGateLeftOut,
        only_causal=True,
    ),
    "stick-breaking": Probe(
        stick_breaking,
        symbolic_stick_breaking,
        StickBreaking,
        stick_breaking_oracle,
        lambda draw, heads, kv_heads: {},
        OldestFirst,
        only_causal=True,
        accumulates=True,
    ),
    "path": Probe(
        path,
        symbolic_path,
        PaTH,
        path_oracle,
        lambda draw, heads, kv_heads: dict(
            direction=draw(heads, 4, 6), strength=draw(heads, 6) / 4
        ),
        ReflectionOfTheKey,
        lines=25,
        only_causal=True,
        roundings_on_the_way=3,
    ),
}
