"""Probes that need a model: hooks before the layers, in each of them, between them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import sympy as sp
import torch
from torch import nn
from torch.nn import functional

from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.numpy.attention import Hooks
from posedu.numpy.frequencies import frequencies
from posedu.sympy import attention as symbolic
from posedu.sympy.absolute.sinusoidal import embed_sinusoidal
from posedu.sympy.frequencies import frequencies as omega
from posedu.torch import Encoding, RoPE, Sinusoidal
from support.probes.probe import both, by_loops, per_token


@dataclass(frozen=True)
class ModelProbe:
    """A variant of :class:`probes.probe.Probe` for the hooks of a model.

    Implementations receive the parameters of one layer. ``parameters(normal, layers)``
    draws them; parameters named in ``own`` are drawn for each layer.
    ``oracle(x, positions, layers, …)`` receives all of them, and layers as
    :class:`Layer`.
    """

    numpy: Callable
    sympy: Callable
    torch: Callable
    oracle: Callable
    parameters: Callable
    mutant: Callable
    own: tuple[str, ...] = ()
    lines: int = 15


@dataclass(frozen=True)
class Layer:
    """The parts of a layer: projections as arrays, norm and MLP as functions."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    o: np.ndarray
    norm: Callable
    MLP: Callable


def through(
    x,
    layers,
    attend,
    before=lambda n, x: x,
    after=lambda n, weights, mlp_output: None,
):
    """Causal layers, one after the other; ``attend(n, q, k, v)`` gives logit and value.

    ``before`` changes the input of layer n; ``after`` receives its attention weights
    and MLP output.
    """
    mask = np.tri(len(x), dtype=bool)
    for n, layer in enumerate(layers):
        x = before(n, x)
        q, k, v = (
            layer.norm(x) @ w.swapaxes(1, 2) for w in (layer.q, layer.k, layer.v)
        )
        logit, value = attend(n, q, k, v)
        one_hot = np.broadcast_to(np.eye(len(x)), (len(q), len(x), len(x)))
        weights = by_loops(one_hot, mask, logit)
        out = by_loops(v, mask, logit, value)
        x = x + sum(out[h] @ layer.o[:, h].T for h in range(len(q)))
        mlp_output = layer.MLP(x)
        x = x + mlp_output
        after(n, weights, mlp_output)
    return x


def content(n, q, k, v):
    """No encoding inside attention."""
    return lambda h, i, j: q[h, i] @ k[h, j] / math.sqrt(q.shape[2]), None


# A learned table added in every layer (arXiv 1808.04444)


def learned(table):
    return Hooks(enter=lambda x, positions: x + table[np.floor(positions).astype(int)])


def symbolic_learned(table):
    def enter(x, positions):
        return x + sp.Matrix([table[int(sp.floor(p)), :] for p in positions])

    return symbolic.Hooks(enter=enter)


class Learned(Encoding):
    def __init__(self, table):
        super().__init__()
        self.table, self.d_model = nn.Parameter(table), table.shape[1]

    def enter(self, x, positions):
        return x + self.table[positions.floor().long()]


class CountsFromOne(Learned):
    """Positions of a model whose first row is for padding (RoBERTa's has two such)."""

    def enter(self, x, positions):
        return super().enter(x, positions + 1)


def learned_oracle(x, positions, layers, table):
    def before(n, x):
        rows = [table[n][math.floor(p)] for p in positions]
        return np.array([vector + row for vector, row in zip(x, rows, strict=True)])

    return through(x, layers, content, before)


# FLOATER: a differential equation gives the addends of q, k, v (arXiv 2003.09229)

STEPS = 4


def follow(h, start, times):
    """Solve p' = h(t, p) from ``start`` at 0 to ``times`` by four steps of RK4.

    For arrays, tensors and matrices alike.
    """
    p, t, step = start, 0 * times, times / STEPS
    for _ in range(STEPS):
        a = h(t, p)
        b = h(t + step / 2, p + step / 2 * a)
        c = h(t + step / 2, p + step / 2 * b)
        d = h(t + step, p + step * c)
        p, t = p + step / 6 * (a + 2 * b + 2 * c + d), t + step
    return p


def floater(starts, w_in, b_in, w_out):
    def h(t, p):
        return np.maximum(p @ w_in[:, :-1].T + t * w_in[:, -1] + b_in, 0) @ w_out.T

    def at(name, positions):
        start = starts[name][:, None].repeat(len(positions), 1)
        return follow(h, start, positions[:, None])

    def rotate(q, k, positions):
        return q + at(0, positions), k + at(1, positions)

    return Hooks(rotate=rotate, values=lambda v, positions: v + at(2, positions))


def symbolic_floater(starts, w_in, b_in, w_out):
    def h(t, p):
        hidden = w_in * p.col_join(sp.Matrix([t])) + sp.Matrix(b_in)
        return w_out * hidden.applyfunc(lambda z: sp.Max(z, 0))

    def moved(name):
        start = starts[name]
        return per_token(lambda x, t, head: x + follow(h, start[head, :].T, t))

    def rotate(q, k, positions):
        return moved(0)(q, positions), moved(1)(k, positions)

    return symbolic.Hooks(rotate=rotate, values=moved(2))


class Flow(nn.Module):
    """The function h that all layers share."""

    def __init__(self, w_in, b_in, w_out):
        super().__init__()
        self.w_in, self.b_in, self.w_out = map(nn.Parameter, (w_in, b_in, w_out))

    def forward(self, t, p):
        t = t.expand(*p.shape[:-1], 1).to(p.dtype)
        hidden = functional.linear(torch.cat((p, t), -1), self.w_in, self.b_in)
        return hidden.relu() @ self.w_out.T


class FLOATER(Encoding):
    def __init__(self, starts, flow):
        super().__init__()
        self.starts, self.flow = nn.Parameter(starts), flow
        _, self.heads, self.d = starts.shape

    def rotate(self, q, k, positions):
        return q + self.at(0, positions), k + self.at(1, positions)

    def values(self, v, positions):
        return v + self.at(2, positions)

    def at(self, name, positions):
        times = positions[:, None, :, None].to(self.starts.dtype)
        starts = self.starts[name][:, None].expand(len(times), -1, times.shape[2], -1)
        return follow(self.flow, starts, times)


class ValuesLeftOut(FLOATER):
    def values(self, v, positions):
        return v


def floater_oracle(x, positions, layers, starts, w_in, b_in, w_out):
    """The state of each token by itself, in the ordinary tableau of Runge and Kutta."""
    nodes, weights = (0, 0.5, 0.5, 1), (1 / 6, 1 / 3, 1 / 3, 1 / 6)

    def h(t, p):
        hidden = [
            max(0.0, row @ [*p, t] + b) for row, b in zip(w_in, b_in, strict=True)
        ]
        return w_out @ hidden

    def state(start, time):
        p = start.copy()
        for n in range(STEPS):
            slopes = []
            for node in nodes:
                moved = p + time / STEPS * node * (slopes[-1] if slopes else 0)
                slopes.append(h(time / STEPS * (n + node), moved))
            p = p + time / STEPS * np.dot(weights, slopes)
        return p

    def attend(n, q, k, v):
        q, k, v = (
            np.array(
                [
                    [
                        vector + state(s, t)
                        for vector, t in zip(head, positions, strict=True)
                    ]
                    for head, s in zip(tokens, start, strict=True)
                ]
            )
            for tokens, start in zip((q, k, v), starts[n], strict=True)
        )
        return content(n, q, k, v)[0], lambda head, i, j: v[head, j]

    return through(x, layers, attend)


# CAPE: sinusoids of positions that training augments (arXiv 2106.03143)


def cape(d_model, shift, jitter, scale, generator=None):
    def locate(positions, x):
        if generator is None:
            return positions
        moved = positions + generator.uniform(-shift, shift)
        moved = moved + generator.uniform(-jitter, jitter, positions.shape)
        return moved * np.exp(generator.uniform(-1, 1) * np.log(scale))

    def embed(x, positions):
        return x + sinusoidal(positions, d_model, layout="half")

    return Hooks(locate=locate, embed=embed)


def symbolic_cape(d_model, shift, jitter, scale, draws=None):
    def locate(positions, x):
        if draws is None:
            return positions
        u_shift, u_jitter, u_scale = draws
        own = zip(positions, u_jitter, strict=True)
        return [(p + shift * u_shift + jitter * u) * scale**u_scale for p, u in own]

    def embed(x, positions):
        add = partial(embed_sinusoidal, layout="half")
        return symbolic.by_token(add, (x,), positions)[0]

    return symbolic.Hooks(locate=locate, embed=embed)


class CAPE(Sinusoidal):
    def __init__(self, d_model, shift, jitter, scale):
        super().__init__(d_model, layout="half")
        self.shift, self.jitter, self.log_scale = shift, jitter, math.log(scale)

    def locate(self, positions, x):
        if not self.training:
            return positions
        options = dict(dtype=torch.float64, device=x.device)
        shift, scale = 2 * torch.rand(2, len(x), 1, **options) - 1
        jitter = 2 * torch.rand(x.shape[:2], **options) - 1
        moved = positions + self.shift * shift + self.jitter * jitter
        return moved * (self.log_scale * scale).exp()


class AugmentedInEvaluation(CAPE):
    def locate(self, positions, x):
        self.training, mode = True, self.training
        moved = super().locate(positions, x)
        self.training = mode
        return moved


def cape_oracle(x, positions, layers, d_model, shift, jitter, scale):
    half = d_model // 2
    waves = [
        [f(p / 10000 ** (c / half)) for f in (math.sin, math.cos) for c in range(half)]
        for p in positions
    ]
    return through(x + np.array(waves), layers, content)


# TAPE: layers update position tensors (arXiv 2501.00712, its code's form)


def silu(z):
    return z / (1 + np.exp(-z))


def tape(d, attended, up, down, gate):
    def locate(positions, x):
        angle = positions[:, None, None] * frequencies(d)
        return np.stack((np.cos(angle), np.sin(angle)), 2).repeat(len(attended), 1)

    def rotate(q, k, positions):
        c, s = positions.transpose(2, 1, 0, 3)
        halves = (np.split(t, 2, -1) for t in (q, k))
        rotated = [(a * c - b * s, b * c + a * s) for a, b in halves]
        return tuple(np.concatenate(t, -1) for t in rotated)

    def update(weights, tokens, mlp):
        past = np.einsum("h,hij,jhcp->ihcp", attended, weights, tokens.key_positions)
        e = tokens.query_positions + past
        return e + np.einsum("hw,iw,wg,igcp->ihcp", down, silu(mlp @ gate.T), up, e)

    return Hooks(locate=locate, rotate=rotate, update=update)


def symbolic_tape(d, attended, up, down, gate):
    def locate(positions, x):
        e = [[f(t * w) for f in (sp.cos, sp.sin) for w in omega(d)] for t in positions]
        return [sp.Matrix([row] * len(attended)) for row in e]

    def rotate(column, e, head):
        c, s = sp.diag(*e[head, : d // 2]), sp.diag(*e[head, d // 2 :])
        return sp.Matrix([[c, -s], [s, c]]) * column

    def update(w, tokens, mlp):
        gated = (mlp * gate.T).applyfunc(lambda z: z / (1 + sp.exp(-z)))

        def moved(i, at):
            past = (sp.diag(*(a[i, j] for a in w)) * at[j] for j in tokens.visible[i])
            e = at[i] + sp.diag(*attended) * sum(past, 0 * at[i])
            return e + down * sp.diag(*gated[i, :]) * up * e

        return [moved(i, tokens.positions) for i in range(mlp.rows)]

    return symbolic.Hooks(locate=locate, rotate=both(per_token(rotate)), update=update)


class TAPE(RoPE):
    def __init__(self, d, **w):
        super().__init__(d, layout="half")
        self.w, self.position_shape = nn.ParameterDict(w), (len(w["attended"]), d)

    def locate(self, positions, x):
        start = torch.cat(self.table(positions, dtype=torch.float64), -1)
        return start[:, :, None].expand(*positions.shape, *self.position_shape)

    def rotate(self, q, k, positions):
        table = positions.movedim(2, 1).chunk(2, 3)
        return tuple(self._rotate(t, table) for t in (q, k))

    def update(self, weights, tokens, mlp):
        attended, down, gate, up = (t.double() for _, t in sorted(self.w.items()))
        past = attended[:, None, None] * weights @ tokens.key_positions.movedim(2, 1)
        e = tokens.query_positions + past.movedim(1, 2)
        return e + down * functional.silu(mlp.double() @ gate.T)[:, :, None] @ up @ e


class CosinesAlone(TAPE):
    """An update of the cosines alone, so that sines keep their old values."""

    def update(self, weights, tokens, mlp):
        new, old = super().update(weights, tokens, mlp), tokens.query_positions
        return torch.cat((new.chunk(2, -1)[0], old.chunk(2, -1)[1]), -1)


def tape_oracle(x, positions, layers, d, attended, up, down, gate):
    heads, pairs = len(attended), d // 2
    omega = [10000 ** (-2 * p / d) for p in range(pairs)]
    start = [
        [[np.exp(1j * t * w) for w in omega] for _ in range(heads)] for t in positions
    ]
    state = {"z": np.array(start)}  # [tokens, heads, pairs]

    def attend(n, q, k, v):
        z, (q, k) = state["z"], (t[..., :pairs] + 1j * t[..., pairs:] for t in (q, k))

        def logit(h, i, j):
            products = np.conj(q[h, i] * z[i, h]) * (k[h, j] * z[j, h])
            return products.sum().real / math.sqrt(d)

        return logit, None

    def after(n, weights, mlp):
        z = state["z"].copy()
        for i, h in np.ndindex(z.shape[:2]):
            for j in range(i + 1):
                z[i, h] += attended[h] * weights[h, i, j] * state["z"][j, h]
        gated = silu(mlp @ gate.T)
        state["z"] = np.stack(
            [z[i] + down @ np.diag(gated[i]) @ up @ z[i] for i in range(len(z))]
        )

    return through(x, layers, attend, after=after)


MODELS = {
    "learned per layer": ModelProbe(
        learned,
        symbolic_learned,
        Learned,
        learned_oracle,
        lambda draw, layers: dict(table=draw(layers, 50, 8)),
        CountsFromOne,
        own=("table",),
    ),
    "floater": ModelProbe(
        floater,
        symbolic_floater,
        FLOATER,
        floater_oracle,
        lambda draw, layers: dict(
            starts=draw(layers, 3, 2, 4),
            w_in=draw(5, 5) / 4,
            b_in=draw(5) / 4,
            w_out=draw(4, 5) / 16,
        ),
        ValuesLeftOut,
        own=("starts",),
    ),
    "cape": ModelProbe(
        cape,
        symbolic_cape,
        CAPE,
        cape_oracle,
        lambda draw, layers: dict(d_model=8, shift=5, jitter=0.5, scale=1.25),
        AugmentedInEvaluation,
    ),
    "tape": ModelProbe(
        tape,
        symbolic_tape,
        TAPE,
        tape_oracle,
        lambda draw, layers: dict(
            d=4,
            attended=draw(2),
            up=draw(3, 2) / 2,
            down=draw(2, 3) / 2,
            gate=draw(3, 8) / 4,
        ),
        CosinesAlone,
    ),
}
