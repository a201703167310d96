"""Probes that add to the logits, or scale them."""

import math
from dataclasses import replace

import numpy as np
import sympy as sp
import torch
from torch import nn
from torch.nn import functional

from posedu.numpy.attention import Hooks
from posedu.sympy import attention as symbolic
from posedu.torch import Encoding
from support.probes.probe import Probe, by_loops, by_query

# ALiBi (arXiv 2108.12409)


def alibi(slopes):
    return Hooks(bias=lambda tokens: -slopes[:, None, None] * tokens.offsets)


def symbolic_alibi(slopes):
    def bias(tokens):
        return tuple(tokens.of_offsets(lambda t, m=m: -m * t) for m in slopes)

    return symbolic.Hooks(bias=bias)


class ALiBi(Encoding):
    def __init__(self, slopes):
        super().__init__()
        self.heads, self.slopes = len(slopes), slopes[:, None]

    def fold(self, tokens):
        query, key = tokens.query_positions[:, None], tokens.key_positions[:, None]
        return -self.slopes * query, self.slopes * key


class SlopesReversed(ALiBi):
    def __init__(self, slopes):
        super().__init__(slopes.flip(0))


def alibi_oracle(q, k, v, positions, x, mask, slopes):
    def logit(h, i, j):
        distance = positions[i] - positions[j]
        return q[h, i] @ k[h, j] / math.sqrt(q.shape[2]) - slopes[h] * distance

    return by_loops(v, mask, logit)


# T5, causal: no 1/√d (arXiv 1910.10683)


def t5(table, distance):
    exact = table.shape[1] // 2

    def bias(tokens):
        n = np.maximum(np.floor(tokens.offsets), 0)
        octaves = np.log(np.maximum(n, exact) / exact) / np.log(distance / exact)
        bucket = np.where(n < exact, n, exact + exact * octaves)
        return table[:, np.minimum(bucket, 2 * exact - 1).astype(int)]

    return Hooks(scale=lambda d: 1.0, bias=bias)


def symbolic_t5(table, distance):
    exact = sp.Integer(table.cols // 2)

    def bucket(offset):
        n = sp.floor(offset)
        octaves = sp.log(max(n, exact) / exact) / sp.log(distance / exact)
        return min(2 * exact - 1, sp.floor(exact * (1 + octaves)) if n >= exact else n)

    def bias(tokens):
        at = tokens.positions
        return tokens.by_head(lambda h, i, j: table[h, bucket(at[i] - at[j])])

    return symbolic.Hooks(scale=lambda d: 1, bias=bias)


class T5(Encoding):
    def __init__(self, table, distance):
        super().__init__()
        self.table, self.distance = nn.Parameter(table), distance
        self.heads, self.exact = len(table), table.shape[1] // 2

    def scale(self, d):
        return 1.0

    def bias(self, tokens):
        n, exact = tokens.offsets[:, 0].double().floor(), self.exact
        octaves = (n.clamp(min=exact) / exact).log() / math.log(self.distance / exact)
        bucket = torch.where(n < exact, n.clamp(min=0), exact + exact * octaves)
        return self.table[:, bucket.clamp(max=2 * exact - 1).long()].transpose(0, 1)


class T5OverRootD(T5):
    def scale(self, d):
        return d**-0.5


def t5_oracle(q, k, v, positions, x, mask, table, distance):
    """Find buckets by integers: n^e ≥ e^(e − t) distance^t for e = exact."""
    exact = table.shape[1] // 2

    def bucket(n):
        coarse = [
            t for t in range(exact) if n**exact >= exact ** (exact - t) * distance**t
        ]
        return n if n < exact else exact + max(coarse)

    def logit(h, i, j):
        return (
            q[h, i] @ k[h, j]
            + table[h, bucket(math.floor(positions[i] - positions[j]))]
        )

    return by_loops(v, mask, logit)


# Shaw's keys and values (arXiv 1803.02155)


def shaw(keys, values):
    most = len(keys) // 2

    def row(tokens):
        return most + np.clip(np.floor(-tokens.offsets), -most, most).astype(int)

    def bias(tokens):
        relative = np.einsum("hid,ijd->hij", tokens.q, keys[row(tokens)])
        return relative / np.sqrt(tokens.d)

    def mix(weights, v, tokens):
        return weights @ v + np.einsum("hij,ijd->hid", weights, values[row(tokens)])

    return Hooks(bias=bias, mix=mix)


def symbolic_shaw(keys, values):
    most = keys.rows // 2

    def row(tokens):
        return tokens.of_offsets(lambda t: most + max(-most, min(most, sp.floor(-t))))

    def bias(tokens):
        q, r, table = tokens.q, row(tokens), keys / sp.sqrt(tokens.d)
        return tokens.by_head(lambda h, i, j: q[h][i, :].dot(table[r[i, j], :]))

    def mix(weights, v, tokens):
        rows = [values.extract(r, range(values.cols)) for r in row(tokens).tolist()]
        heads = zip(weights, v, strict=True)
        return tuple(
            by_query(lambda i, r, a=a, b=b: a[i, :] * (b + r), rows) for a, b in heads
        )

    return symbolic.Hooks(bias=bias, mix=mix)


class Shaw(Encoding):
    def __init__(self, keys, values):
        super().__init__()
        self.keys, self.values_ = nn.Parameter(keys), nn.Parameter(values)

    def row(self, tokens):
        most = len(self.keys) // 2
        return most + (-tokens.offsets[:, 0]).floor().clamp(-most, most).long()

    def bias(self, tokens):
        keys = self.keys[self.row(tokens)] * self.scale(tokens.d)
        return torch.einsum("bhid,bijd->bhij", tokens.q, keys)

    def mix(self, weights, v, tokens):
        values = self.values_[self.row(tokens)]
        return weights @ v + torch.einsum("bhij,bijd->bhid", weights, values)


class ShawKeysAlone(Shaw):
    def mix(self, weights, v, tokens):
        return weights @ v


def shaw_oracle(q, k, v, positions, x, mask, keys, values):
    most = len(keys) // 2

    def row(i, j):
        return most + max(-most, min(most, math.floor(positions[j] - positions[i])))

    def logit(h, i, j):
        return q[h, i] @ (k[h, j] + keys[row(i, j)]) / math.sqrt(q.shape[2])

    return by_loops(v, mask, logit, lambda h, i, j: v[h, j] + values[row(i, j)])


# Transformer-XL's four terms (arXiv 1901.02860)


def transformer_xl(u, v, weight):
    width = weight.shape[-1]
    omega = 10000.0 ** (-np.arange(0, width, 2) / width)

    def bias(tokens):
        angles = tokens.offsets[..., None] * omega
        waves = np.concatenate((np.sin(angles), np.cos(angles)), -1)
        r = np.einsum("hdm,ijm->hijd", weight, waves)
        content = np.einsum("hd,hjd->hj", u, tokens.k)[:, None]
        position = np.einsum("hid,hijd->hij", tokens.q + v[:, None], r)
        return (content + position) / np.sqrt(tokens.d)

    return Hooks(bias=bias)


def symbolic_transformer_xl(u, v, weight):
    width = weight[0].cols
    omega = [sp.Integer(10000) ** sp.Rational(-c, width) for c in range(0, width, 2)]

    def waves(offset):
        return sp.Matrix([f(offset * w) for f in (sp.sin, sp.cos) for w in omega])

    def bias(tokens):
        at = tokens.positions

        def entry(h, i, j):
            q, k = tokens.q[h][i, :].T, tokens.k[h][j, :].T
            r = weight[h] * waves(at[i] - at[j])
            return (u[h, :] * k + (q.T + v[h, :]) * r)[0] / sp.sqrt(tokens.d)

        return tokens.by_head(entry)

    return symbolic.Hooks(bias=bias)


class TransformerXL(Encoding):
    def __init__(self, u, v, weight):
        super().__init__()
        self.u, self.v, self.weight = map(nn.Parameter, (u, v, weight))
        self.heads, self.d, self.width = weight.shape

    def bias(self, tokens):
        omega = 10000.0 ** (-torch.arange(0, self.width, 2).double() / self.width)
        angles = tokens.offsets[:, 0, ..., None] * omega
        waves = torch.cat((angles.sin(), angles.cos()), -1).to(tokens.q.dtype)
        probed = (
            tokens.q + self.v[:, None]
        ) @ self.weight  # W_R applied to the queries
        position = torch.einsum("bhim,bijm->bhij", probed, waves)
        content = (self.u[:, None] * tokens.k).sum(-1)[:, :, None]
        return (content + position) * self.scale(tokens.d)


class DistanceFromTheKey(TransformerXL):
    """The offset with the opposite sign: r of j − i."""

    def bias(self, tokens):
        query, key = -tokens.query_positions, -tokens.key_positions
        return super().bias(replace(tokens, query_positions=query, key_positions=key))


def transformer_xl_oracle(q, k, v_, positions, x, mask, u, v, weight):
    width = weight.shape[2]

    def logit(h, i, j):
        distance = positions[i] - positions[j]
        angles = [distance / 10000 ** (2 * p / width) for p in range(width // 2)]
        r = weight[h] @ [*map(math.sin, angles), *map(math.cos, angles)]
        terms = (q[h, i] @ k[h, j], q[h, i] @ r, u[h] @ k[h, j], v[h] @ r)
        return sum(terms) / math.sqrt(q.shape[2])

    return by_loops(v_, mask, logit)


# TUPE: untied positions, and the first token's row and column reset (arXiv 2006.15595)


def tupe(table, w_q, w_k, row, column):
    def bias(tokens):
        i, j = (
            np.floor(p).astype(int)
            for p in (tokens.query_positions, tokens.key_positions)
        )
        q, k = (
            np.einsum("hdm,im->hid", *p) for p in ((w_q, table[i]), (w_k, table[j]))
        )
        untied = q @ k.swapaxes(1, 2) / np.sqrt(2 * tokens.d)
        untied = np.where(j == 0, column[:, None, None], untied)
        return np.where(i[:, None] == 0, row[:, None, None], untied)

    return Hooks(scale=lambda d: 1 / np.sqrt(2 * d), bias=bias)


def symbolic_tupe(table, w_q, w_k, row, column):
    def bias(tokens):
        at = [sp.floor(p) for p in tokens.positions]

        def entry(h, i, j):
            if 0 in (at[i], at[j]):
                return column[h] if at[i] else row[h]
            product = table[at[i], :] * w_q[h].T * w_k[h] * table[at[j], :].T
            return product[0] / sp.sqrt(2 * tokens.d)

        return tokens.by_head(entry)

    return symbolic.Hooks(scale=lambda d: 1 / sp.sqrt(2 * d), bias=bias)


class TUPE(Encoding):
    def __init__(self, table, w_q, w_k, row, column):
        super().__init__()
        self.table, self.w_q, self.w_k = map(nn.Parameter, (table, w_q, w_k))
        self.row, self.column = nn.Parameter(row), nn.Parameter(column)

    def scale(self, d):
        return (2 * d) ** -0.5

    def bias(self, tokens):
        i, j = tokens.query_positions.floor(), tokens.key_positions.floor()
        q = self.table[i.long()][:, None] @ self.w_q.mT
        k = self.table[j.long()][:, None] @ self.w_k.mT
        untied = q @ k.mT * self.scale(tokens.d)
        untied = torch.where(j[:, None, None] == 0, self.column[:, None, None], untied)
        return torch.where(i[:, None, :, None] == 0, self.row[:, None, None], untied)


class RowAndColumnSwapped(TUPE):
    def __init__(self, table, w_q, w_k, row, column):
        super().__init__(table, w_q, w_k, column, row)


def tupe_oracle(q, k, v, positions, x, mask, table, w_q, w_k, row, column):
    d = q.shape[2]

    def logit(h, i, j):
        m, n = math.floor(positions[i]), math.floor(positions[j])
        untied = (w_q[h] @ table[m]) @ (w_k[h] @ table[n]) / math.sqrt(2 * d)
        if n == 0:
            untied = column[h]
        if m == 0:
            untied = row[h]
        return q[h, i] @ k[h, j] / math.sqrt(2 * d) + untied

    return by_loops(v, mask, logit)


# DeBERTa's three terms, as its code has them: δ(i, j) in both (arXiv 2006.03654)


def deberta(q_rows, k_rows):
    half = k_rows.shape[1] // 2

    def bias(tokens):
        row = np.clip(np.floor(tokens.offsets) + half, 0, 2 * half - 1).astype(int)
        to_position = np.take_along_axis(tokens.q @ k_rows.swapaxes(1, 2), row[None], 2)
        of_keys = tokens.k @ q_rows.swapaxes(1, 2)
        from_position = np.take_along_axis(of_keys, row.T[None], 2).swapaxes(1, 2)
        return (to_position + from_position) / np.sqrt(3 * tokens.d)

    return Hooks(scale=lambda d: 1 / np.sqrt(3 * d), bias=bias)


def symbolic_deberta(q_rows, k_rows):
    half = k_rows[0].rows // 2

    def bias(tokens):
        at = tokens.positions

        def entry(h, i, j):
            row = max(0, min(2 * half - 1, sp.floor(at[i] - at[j]) + half))
            to_position = tokens.q[h][i, :].dot(k_rows[h][row, :])
            from_position = tokens.k[h][j, :].dot(q_rows[h][row, :])
            return (to_position + from_position) / sp.sqrt(3 * tokens.d)

        return tokens.by_head(entry)

    return symbolic.Hooks(scale=lambda d: 1 / sp.sqrt(3 * d), bias=bias)


class DeBERTa(Encoding):
    def __init__(self, q_rows, k_rows):
        super().__init__()
        self.q_rows, self.k_rows = nn.Parameter(q_rows), nn.Parameter(k_rows)

    def scale(self, d):
        return (3 * d) ** -0.5

    def bias(self, tokens):
        half = self.k_rows.shape[1] // 2
        row = (tokens.offsets.floor() + half).clamp(0, 2 * half - 1).long()
        to_position = torch.take_along_dim(tokens.q @ self.k_rows.mT, row, -1)
        from_position = torch.take_along_dim(self.q_rows @ tokens.k.mT, row, -2)
        return (to_position + from_position) * self.scale(tokens.d)


class DividedByRootD(DeBERTa):
    def scale(self, d):
        return d**-0.5


def deberta_oracle(q, k, v, positions, x, mask, q_rows, k_rows):
    half = k_rows.shape[1] // 2

    def logit(h, i, j):
        offset = math.floor(positions[i] - positions[j])
        row = (
            0 if offset <= -half else 2 * half - 1 if offset >= half else offset + half
        )
        c2p, p2c = q[h, i] @ k_rows[h, row], k[h, j] @ q_rows[h, row]
        return (q[h, i] @ k[h, j] + c2p + p2c) / math.sqrt(3 * q.shape[2])

    return by_loops(v, mask, logit)


# DAPE: an MLP over all heads' logits and biases, here ALiBi's (arXiv 2405.14722)


def dape(slopes, w_in, b_in, w_out, b_out):
    def logits(tokens):
        scores = tokens.q @ tokens.k.swapaxes(1, 2) / np.sqrt(tokens.d)
        bias = -slopes[:, None, None] * tokens.offsets
        both = np.concatenate((scores, bias))
        hidden = np.einsum("wc,cij->wij", w_in, both) + b_in[:, None, None]
        hidden = np.maximum(hidden, 0.01 * hidden)
        correction = np.einsum("hw,wij->hij", w_out, hidden) + b_out[:, None, None]
        return scores + bias + correction

    return Hooks(logits=logits)


def symbolic_dape(slopes, w_in, b_in, w_out, b_out):
    def logits(tokens):
        heads, at = zip(tokens.q, tokens.k, strict=True), tokens.positions
        scores = [q * k.T / sp.sqrt(tokens.d) for q, k in heads]

        def entry(i, j):
            own = sp.Matrix([s[i, j] for s in scores])
            bias = -(at[i] - at[j]) * sp.Matrix(slopes)
            hidden = w_in * own.col_join(bias) + sp.Matrix(b_in)
            hidden = hidden.applyfunc(lambda z: sp.Max(z, z / 100))
            return own + bias + w_out * hidden + sp.Matrix(b_out)

        return tokens.by_head(lambda h, i, j: entry(i, j)[h])

    return symbolic.Hooks(logits=logits)


class DAPE(Encoding):
    def __init__(self, slopes, w_in, b_in, w_out, b_out):
        super().__init__()
        self.heads, self.slopes = len(slopes), slopes[:, None, None]
        self.w_in, self.b_in = nn.Parameter(w_in), nn.Parameter(b_in)
        self.w_out, self.b_out = nn.Parameter(w_out), nn.Parameter(b_out)

    def logits(self, tokens):
        scores = tokens.q @ tokens.k.mT * self.scale(tokens.d)
        bias = (-self.slopes * tokens.offsets).to(scores.dtype)
        both = torch.cat((scores, bias.expand_as(scores)), 1).movedim(1, -1)
        hidden = functional.linear(both, self.w_in, self.b_in)
        hidden = functional.leaky_relu(hidden, 0.01)
        correction = functional.linear(hidden, self.w_out, self.b_out)
        return scores + bias + correction.movedim(-1, 1)


class RowFormOfTheBias(DAPE):
    """ALiBi as +m j: a softmax cannot tell it from −m (i − j), but an MLP can."""

    def logits(self, tokens):
        return super().logits(
            replace(tokens, query_positions=0 * tokens.query_positions)
        )


def dape_oracle(q, k, v, positions, x, mask, slopes, w_in, b_in, w_out, b_out):
    heads, _, d = q.shape

    def logit(h, i, j):
        scores = [q[g, i] @ k[g, j] / math.sqrt(d) for g in range(heads)]
        biases = [-m * (positions[i] - positions[j]) for m in slopes]
        total = scores[h] + biases[h] + b_out[h]
        for w in range(len(b_in)):
            z = b_in[w] + sum(
                a * b for a, b in zip(w_in[w], scores + biases, strict=True)
            )
            total += w_out[h, w] * (z if z > 0 else 0.01 * z)
        return total

    return by_loops(v, mask, logit)


# A bias of the key alone, from its input, in the features


def key_bias(weight):
    return Hooks(
        bias=lambda tokens: (weight @ tokens.x.T)[:, None].repeat(len(tokens.x), 1)
    )


def symbolic_key_bias(weight):
    def bias(tokens):
        biases = tokens.x * weight.T
        return tokens.by_head(lambda h, i, j: biases[j, h])

    return symbolic.Hooks(bias=bias)


class KeyBias(Encoding):
    needs_x, needs_positions = True, False

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def remember(self, x):
        return {"biases": x @ self.weight.T}

    def fold(self, tokens):
        of_keys = tokens.memory["biases"].mT.double()
        return torch.zeros_like(of_keys[..., : tokens.q.shape[2]]), of_keys


class BiasOfTheQuery(KeyBias):
    def fold(self, tokens):
        of_queries, of_keys = super().fold(tokens)
        new = of_keys[..., of_keys.shape[-1] - of_queries.shape[-1] :]
        return new, torch.zeros_like(of_keys)


def key_bias_oracle(q, k, v, positions, x, mask, weight):
    def logit(h, i, j):
        return q[h, i] @ k[h, j] / math.sqrt(q.shape[2]) + weight[h] @ x[j]

    return by_loops(v, mask, logit)


PROBES = {
    "alibi": Probe(
        alibi,
        symbolic_alibi,
        ALiBi,
        alibi_oracle,
        lambda draw, heads, kv_heads: dict(slopes=0.5 ** np.arange(1.0, heads + 1)),
        SlopesReversed,
    ),
    "t5": Probe(
        t5,
        symbolic_t5,
        T5,
        t5_oracle,
        lambda draw, heads, kv_heads: dict(table=draw(heads, 8), distance=16),
        T5OverRootD,
        only_causal=True,
    ),
    "shaw": Probe(
        shaw,
        symbolic_shaw,
        Shaw,
        shaw_oracle,
        lambda draw, heads, kv_heads: dict(keys=draw(5, 4), values=draw(5, 4)),
        ShawKeysAlone,
    ),
    "transformer-xl": Probe(
        transformer_xl,
        symbolic_transformer_xl,
        TransformerXL,
        transformer_xl_oracle,
        lambda draw, heads, kv_heads: dict(
            u=draw(heads, 4), v=draw(heads, 4), weight=draw(heads, 4, 6) / 2
        ),
        DistanceFromTheKey,
        roundings=6,
    ),
    "tupe": Probe(
        tupe,
        symbolic_tupe,
        TUPE,
        tupe_oracle,
        lambda draw, heads, kv_heads: dict(
            table=draw(50, 4) / 2,
            w_q=draw(heads, 4, 4) / 2,
            w_k=draw(heads, 4, 4) / 2,
            row=draw(heads),
            column=draw(heads),
        ),
        RowAndColumnSwapped,
        reach=50,
    ),
    "deberta": Probe(
        deberta,
        symbolic_deberta,
        DeBERTa,
        deberta_oracle,
        lambda draw, heads, kv_heads: dict(
            q_rows=draw(heads, 6, 4), k_rows=draw(heads, 6, 4)
        ),
        DividedByRootD,
    ),
    "dape": Probe(
        dape,
        symbolic_dape,
        DAPE,
        dape_oracle,
        lambda draw, heads, kv_heads: dict(
            slopes=0.5 ** np.arange(1.0, heads + 1),
            w_in=draw(5, 2 * heads) / 2,
            b_in=draw(5),
            w_out=draw(heads, 5) / 2,
            b_out=draw(heads),
        ),
        RowFormOfTheBias,
        roundings=8,
    ),
    "key bias": Probe(
        key_bias,
        symbolic_key_bias,
        KeyBias,
        key_bias_oracle,
        lambda draw, heads, kv_heads: dict(weight=draw(heads, 6) / 4),
        BiasOfTheQuery,
    ),
}
