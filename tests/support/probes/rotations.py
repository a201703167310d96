"""Probes that rotate or scale queries, keys, values and outputs."""

import math
from functools import partial

import numpy as np
import sympy as sp
import torch
from torch import nn

from posedu.numpy.attention import Hooks
from posedu.numpy.rotary import rope
from posedu.sympy import attention as symbolic
from posedu.sympy.attention import by_token
from posedu.sympy.rotary import rope as symbolic_rope
from posedu.torch import Encoding, RoPE
from support.probes.probe import Probe, both, by_loops, per_token, rotated

# YaRN: frequencies and an attention factor (arXiv 2309.00071, its code's form)


def yarn(d, base, length, factor):
    def pair(rotations):
        return d * np.log(length / (2 * np.pi * rotations)) / (2 * np.log(base))

    low, high = max(np.floor(pair(32)), 0), min(np.ceil(pair(1)), d - 1)
    p = np.arange(d // 2)
    slowed = np.clip((p - low) / (high - low), 0, 1)
    omega = base ** (-2 * p / d) * (1 - slowed + slowed / factor)
    options = dict(
        layout="half", frequencies=omega, attention_factor=0.1 * np.log(factor) + 1
    )
    rotary = partial(rope, **options)
    return Hooks(rotate=both(rotary))


def symbolic_yarn(d, base, length, factor):
    def pair(rotations):
        return d * sp.log(length / (2 * sp.pi * rotations)) / (2 * sp.log(base))

    low, high = max(sp.floor(pair(32)), 0), min(sp.ceiling(pair(1)), d - 1)
    ramp = [(p - low) / (high - low) for p in range(d // 2)]
    slowed = [max(sp.S.Zero, min(sp.S.One, r)) for r in ramp]
    omega = [
        base ** sp.Rational(-2 * p, d) * (1 - s + s / factor)
        for p, s in enumerate(slowed)
    ]
    options = dict(
        frequencies=omega, attention_factor=sp.log(factor) / 10 + 1, layout="half"
    )
    rotary = partial(by_token, partial(symbolic_rope, **options))
    return symbolic.Hooks(rotate=both(rotary))


class YaRN(RoPE):
    def __init__(self, d, base, length, factor):
        rotations = torch.tensor([32.0, 1.0], dtype=torch.float64)
        pair = d * (length / (2 * math.pi * rotations)).log() / (2 * math.log(base))
        low, high = pair[0].floor().clamp(min=0), pair[1].ceil().clamp(max=d - 1)
        p = torch.arange(d // 2).double()
        slowed = ((p - low) / (high - low)).clamp(0, 1)
        omega = base ** (-2 * p / d) * (1 - slowed + slowed / factor)
        attention_factor = 0.1 * math.log(factor) + 1
        super().__init__(
            d, layout="half", frequencies=omega, attention_factor=attention_factor
        )


class FactorOnLogitsOnce(YaRN):
    """The factor applied to the logits once, not to queries and keys."""

    def __init__(self, d, base, length, factor):
        super().__init__(d, base, length, factor)
        self.attention_factor **= 0.5


def yarn_oracle(q, k, v, positions, x, mask, d, base, length, factor):
    """Keep pairs of 32 or more full turns in the window; slow those of 1 or fewer."""
    ends = [
        math.log(length / (2 * math.pi * r)) / math.log(base) * d / 2 for r in (32, 1)
    ]
    low, high = math.floor(ends[0]), math.ceil(ends[1])

    def frequency(p):
        omega = base ** (-2 * p / d)
        unscaled = 1 - min(max((p - low) / (high - low), 0), 1)
        return unscaled * omega + (1 - unscaled) * omega / factor

    omega = np.array([frequency(p) for p in range(d // 2)])

    def logit(h, i, j):
        relative = rotated(q[h, i], (positions[i] - positions[j]) * omega) @ k[h, j]
        return relative * (0.1 * math.log(factor) + 1) ** 2 / math.sqrt(d)

    return by_loops(v, mask, logit)


# Log-n temperature: longer contexts, sharper queries (Ministral 3's formula)


def log_temperature(beta, length):
    def rotate(q, k, positions):
        return q * (1 + beta * np.log1p(np.floor(positions / length)))[:, None], k

    return Hooks(rotate=rotate)


def symbolic_log_temperature(beta, length):
    def sharpen(column, t):
        return (1 + beta * sp.log(1 + sp.floor(t / length))) * column

    return symbolic.Hooks(rotate=lambda q, k, at: (by_token(sharpen, q, at), k))


class LogTemperature(Encoding):
    def __init__(self, beta, length):
        super().__init__()
        self.beta, self.length = beta, length

    def rotate(self, q, k, positions):
        tau = 1 + self.beta * (positions.double() / self.length).floor().log1p()
        return (q * tau[:, None, :, None]).to(q.dtype), k


class TemperatureOfTheKey(LogTemperature):
    def rotate(self, q, k, positions):
        return super().rotate(k, q, positions)[::-1]


def log_temperature_oracle(q, k, v, positions, x, mask, beta, length):
    def logit(h, i, j):
        tau = 1 + beta * math.log(1 + positions[i] // length)
        return tau * (q[h, i] @ k[h, j]) / math.sqrt(q.shape[2])

    return by_loops(v, mask, logit)


# PoPE: lengths from the content, angles from the position (arXiv 2509.10534)


def pope(delta):
    def rotate(q, k, positions):
        d = q.shape[-1]
        angle = positions[:, None] * 10000.0 ** (-np.arange(d) / d)

        def polar(x, angle):
            length = np.logaddexp(0, x)
            return np.concatenate((length * np.cos(angle), length * np.sin(angle)), -1)

        return polar(q, angle), polar(k, angle + delta[:, None])

    return Hooks(rotate=rotate)


def symbolic_pope(delta):
    d = delta.cols
    omega = sp.Matrix([sp.Integer(10000) ** sp.Rational(-c, d) for c in range(d)])

    def polar(column, angle):
        length = column.applyfunc(lambda z: sp.log(1 + sp.exp(z)))
        parts = (angle.applyfunc(f) for f in (sp.cos, sp.sin))
        return sp.Matrix([length.multiply_elementwise(part) for part in parts])

    rotate_q = per_token(lambda q, t, head: polar(q, t * omega))
    rotate_k = per_token(lambda k, t, head: polar(k, t * omega + delta[head, :].T))
    return symbolic.Hooks(rotate=lambda q, k, at: (rotate_q(q, at), rotate_k(k, at)))


class PoPE(Encoding):
    def __init__(self, delta):
        super().__init__()
        self.delta, self.d = nn.Parameter(delta), delta.shape[-1]

    def rotate(self, q, k, positions):
        omega = 10000.0 ** (-torch.arange(self.d).double() / self.d)
        angle = positions[:, None, :, None] * omega
        return self.polar(q, angle), self.polar(k, angle + self.delta[:, None])

    def polar(self, x, angle):
        length = nn.functional.softplus(x, threshold=40)
        return torch.cat((length * angle.cos(), length * angle.sin()), -1).to(x.dtype)


class PhaseOfBoth(PoPE):
    def rotate(self, q, k, positions):
        q, _ = super().rotate(q, q, positions + 0.5)
        return q, super().rotate(k, k, positions)[1]


def pope_oracle(q, k, v, positions, x, mask, delta):
    d = q.shape[2]

    def logit(h, i, j):
        total = 0.0
        for c in range(d):
            phase = (positions[i] - positions[j]) / 10000 ** (c / d) - delta[
                h * len(delta) // len(q), c
            ]
            lengths = math.log(1 + math.exp(q[h, i, c])) * math.log(
                1 + math.exp(k[h, j, c])
            )
            total += lengths * math.cos(phase)
        return total / math.sqrt(d)

    return by_loops(v, mask, logit)


# Rotated values, and outputs rotated back (DeepSeek-V4)


def rotated_values(base):
    rotary = partial(rope, layout="half", base=base)
    return Hooks(
        rotate=both(rotary),
        values=rotary,
        output=lambda out, positions: rotary(out, -positions),
    )


def symbolic_rotated_values(base):
    rotary = partial(by_token, partial(symbolic_rope, layout="half", base=base))
    return symbolic.Hooks(
        rotate=both(rotary),
        values=rotary,
        output=lambda out, at: rotary(out, [-t for t in at]),
    )


class RotatedValues(RoPE):
    def __init__(self, d, base):
        super().__init__(d, layout="half", base=base)

    def values(self, v, positions):
        return self(v, positions)

    def output(self, out, positions):
        return self(out, -positions)


class OutputNotRotated(RotatedValues):
    def output(self, out, positions):
        return out


def rotated_values_oracle(q, k, v, positions, x, mask, base):
    d = q.shape[2]
    omega = np.array([base ** (-2 * p / d) for p in range(d // 2)])

    def logit(h, i, j):
        return (
            rotated(q[h, i], (positions[i] - positions[j]) * omega)
            @ k[h, j]
            / math.sqrt(d)
        )

    def value(h, i, j):
        return rotated(v[h, j], (positions[j] - positions[i]) * omega)

    return by_loops(v, mask, logit, value)


# GTA: a position is a matrix D; Attn(Dᵀ Q, D⁻¹ K, D⁻¹ V), then D (arXiv 2310.10375)


def gta():
    def act(matrices, x):
        blocks = x.reshape(*x.shape[:2], -1, matrices.shape[-1])
        return np.einsum("nab,hnpb->hnpa", matrices, blocks).reshape(x.shape)

    def rotate(q, k, positions):
        return act(positions.swapaxes(1, 2), q), act(np.linalg.inv(positions), k)

    def values(v, positions):
        return act(np.linalg.inv(positions), v)

    return Hooks(
        rotate=rotate, values=values, output=lambda out, positions: act(positions, out)
    )


def symbolic_gta():
    def act(column, matrix):
        return sp.diag(*[matrix] * (column.rows // matrix.rows)) * column

    def values(v, positions):
        return by_token(act, v, [matrix.inv() for matrix in positions])

    def rotate(q, k, positions):
        transposed = [matrix.T for matrix in positions]
        return by_token(act, q, transposed), values(k, positions)

    return symbolic.Hooks(rotate=rotate, values=values, output=partial(by_token, act))


class GTA(Encoding):
    position_shape = (2, 2)

    def rotate(self, q, k, positions):
        return self.act(positions.mT, q), self.act(positions.inverse(), k)

    def values(self, v, positions):
        return self.act(positions.inverse(), v)

    def output(self, out, positions):
        return self.act(positions, out)

    def act(self, matrices, x):
        blocks = x.unflatten(-1, (-1, matrices.shape[-1])).to(matrices.dtype)
        return (
            torch.einsum("bnij,bhnpj->bhnpi", matrices, blocks).flatten(-2).to(x.dtype)
        )


class TransposedForInverse(GTA):
    """The transpose in place of the inverse, correct for rotations alone."""

    def values(self, v, positions):
        return self.act(positions.mT, v)


def gta_oracle(q, k, v, positions, x, mask):
    d = q.shape[2]

    def between(i, j):
        return np.kron(np.eye(d // 2), positions[i] @ np.linalg.inv(positions[j]))

    def logit(h, i, j):
        return q[h, i] @ between(i, j) @ k[h, j] / math.sqrt(d)

    return by_loops(v, mask, logit, lambda h, i, j: between(i, j) @ v[h, j])


# Self-Extend: near keys by position, far ones by group (arXiv 2401.01325)


def self_extend(group, window):
    def logits(tokens):
        q, k, i, j = tokens.q, tokens.k, tokens.query_positions, tokens.key_positions
        rotary = partial(rope, layout="half")
        shift = window - window // group
        near = rotary(q, i) @ rotary(k, j).swapaxes(1, 2)
        far = rotary(q, i // group + shift) @ rotary(k, j // group).swapaxes(1, 2)
        return np.where(tokens.offsets < window, near, far) / np.sqrt(tokens.d)

    return Hooks(logits=logits)


def symbolic_self_extend(group, window):
    rotary = partial(symbolic_rope, layout="half")

    def logits(tokens):
        def entry(h, i, j):
            m, n = tokens.positions[i], tokens.positions[j]
            if m - n >= window:
                m, n = (
                    sp.floor(m / group) + window - window // group,
                    sp.floor(n / group),
                )
            q, k = tokens.q[h][i, :].T, tokens.k[h][j, :].T
            return rotary(q, m).dot(rotary(k, n)) / sp.sqrt(tokens.d)

        return tokens.by_head(entry)

    return symbolic.Hooks(logits=logits)


class SelfExtend(Encoding):
    def __init__(self, d, group, window):
        super().__init__()
        self.rope, self.group, self.window = RoPE(d, layout="half"), group, window

    def logits(self, tokens):
        q, k, i, j = tokens.q, tokens.k, tokens.query_positions, tokens.key_positions
        shift = self.window - self.window // self.group
        near = self.rope(q, i) @ self.rope(k, j).mT
        far = self.rope(q, i // self.group + shift) @ self.rope(k, j // self.group).mT
        return torch.where(tokens.offsets < self.window, near, far) * self.scale(
            tokens.d
        )


class GroupedWithoutShift(SelfExtend):
    """Groups without the shift, so that far keys get smaller offsets than near ones."""

    def logits(self, tokens):
        self.window, window = 0, self.window
        far = super().logits(tokens)
        self.window = window
        return torch.where(tokens.offsets < window, super().logits(tokens), far)


def self_extend_oracle(q, k, v, positions, x, mask, group, window):
    d = q.shape[2]
    omega = np.array([10000 ** (-2 * p / d) for p in range(d // 2)])

    def logit(h, i, j):
        distance = positions[i] - positions[j]
        if distance >= window:
            grouped = positions[i] // group - positions[j] // group
            distance = grouped + window - window // group
        return rotated(q[h, i], distance * omega) @ k[h, j] / math.sqrt(d)

    return by_loops(v, mask, logit)


PROBES = {
    "yarn": Probe(
        yarn,
        symbolic_yarn,
        YaRN,
        yarn_oracle,
        lambda draw, heads, kv_heads: dict(d=8, base=100, length=2048, factor=4),
        FactorOnLogitsOnce,
        d=8,
        roundings=6,
    ),
    "log-n temperature": Probe(
        log_temperature,
        symbolic_log_temperature,
        LogTemperature,
        log_temperature_oracle,
        lambda draw, heads, kv_heads: dict(beta=0.5, length=2),
        TemperatureOfTheKey,
    ),
    "pope": Probe(
        pope,
        symbolic_pope,
        PoPE,
        pope_oracle,
        lambda draw, heads, kv_heads: dict(delta=draw(kv_heads, 4)),
        PhaseOfBoth,
    ),
    "rotated values": Probe(
        rotated_values,
        symbolic_rotated_values,
        RotatedValues,
        rotated_values_oracle,
        lambda draw, heads, kv_heads: dict(base=100),
        OutputNotRotated,
        gain=2**0.5,
    ),
    "gta": Probe(
        gta,
        symbolic_gta,
        GTA,
        gta_oracle,
        lambda draw, heads, kv_heads: {},
        TransposedForInverse,
        position=(2, 2),
        gain=2.0,
    ),
    "self-extend": Probe(
        self_extend,
        symbolic_self_extend,
        SelfExtend,
        self_extend_oracle,
        lambda draw, heads, kv_heads: dict(group=2, window=3),
        GroupedWithoutShift,
    ),
}
