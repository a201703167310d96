"""The faces of an encoding that acts inside attention.

Inputs are random, of zeros, of ones, with equal keys and with logits of about ±100, for
no token, one, and up to five; two heads, d in 1 … 64, all parameters random. The
symbolic face, evaluated to 40 digits, takes part for d = 1, 4 and up to three tokens.

The bound is derived by following errors through the formula, step by step. An inner
product of n factors costs n roundings of the sum of absolute products; an error δ of a
logit changes softmax weights by at most e^2δ − 1 of their size, and a weight of a
broken stick by at most e^δ' − 1, where δ' adds up the errors of all logits of the row;
σ has slope at most 1/4 and log σ at most 1; between whole positions a bias has the
slope of its table; a norm passes twice the error over its size. Products and sums
inside are rounded to u of float32 or better, what is stored to u of the dtype.

Gradients are compared along one random direction of all inputs, and one of all
parameters, so short that within a radius of 2 no logit, norm or gate moves by more than
1/2, nor in the steps taken a CoPE position over a whole number, where it has a kink.
The reference's is an eighth-order central difference with step h = 2⁻⁵. All functions
of the direction are analytic and at most twice as large within that radius, so by
Cauchy's estimate it is off by at most 9! h⁸/(630 · 2⁹) of their size, and by 67 times
the reference's own error; the symbolic one is a difference over 10⁻¹², at 40 digits.
The other side may err by the error of each factor of a product of the chain rule, of
which there are at most 16, and by a rounding for each term of its sums.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import sympy as sp
import torch

from posedu.catalog import Encoding
from posedu.crosscheck.common import (
    COMPILED_DTYPES,
    DIGITS,
    DTYPES,
    HEADS,
    STEP,
    WEIGHTS,
    Tally,
    devices,
    rounded,
    to_numpy,
)

SIZES = (1, 4, 64)
EXACT_SIZES = (1, 4)  # of the symbolic face: their roots are numbers at once
LONGEST_EXACT = 3  # and its most tokens
COMPILED_SIZE = 64
FACTORS = 16  # of a product in the chain rule, at most

_TINY_STEP = sp.Rational(1, 10**12)

Arrays = dict[str, np.ndarray]


def compare(
    tally: Tally, encoding: Encoding, options: Mapping, *, compiled: bool, seed: int
) -> None:
    """Compare one variant's faces on every size, and on some with heads' own table."""
    make = encoding.face("torch")
    sizes = [(d, {}) for d in SIZES]
    if encoding.name == "cope":  # whose heads share a table or have their own
        sizes += [(d, {"heads": HEADS}) for d in EXACT_SIZES]
    for d, own in sizes:
        torch.manual_seed(seed)
        needed = encoding.sizes(d, HEADS) | own
        module = make(**needed, **options, **encoding.module_options)
        for parameter in module.parameters():
            with torch.no_grad():
                size = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1.0
                parameter.copy_((size * torch.randn_like(parameter)).bfloat16())
        trio = _Trio(encoding, dict(options), module, d, bool(own))
        for case, inputs in enumerate(_cases(encoding, d, seed)):
            _compare(tally, trio, inputs, seed)
            if compiled and d == COMPILED_SIZE and case == 0:
                torch.compiler.reset()
                compile_it = torch.compile(trio.module, fullgraph=True)
                _compare_fast(tally, trio, inputs, seed, compile_it, COMPILED_DTYPES)


@dataclass(frozen=True)
class _Trio:
    """A module with its parameters, and the other two faces that take the same."""

    encoding: Encoding
    options: dict
    module: torch.nn.Module
    d: int
    own: bool

    @property
    def parameters(self) -> Arrays:
        """The module's, under the names of the other faces."""
        return {
            name.replace(".", "_"): to_numpy(value)
            for name, value in self.module.named_parameters()
        }

    def reference(self, values: Arrays) -> np.ndarray:
        """The NumPy face."""
        return self.encoding.face("numpy")(**values, **self.options)

    def exact(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The symbolic face, head by head, of arrays of SymPy numbers."""
        face = self.encoding.face("sympy")
        if self.encoding.inputs == ("x",):
            return np.array(face(**{n: _matrix(v) for n, v in values.items()}))
        heads = []
        for h in range(HEADS):
            own = {n: v if self._is_shared(n) else v[h] for n, v in values.items()}
            own = {n: _matrix(v) for n, v in own.items()}
            heads.append(np.array(face(**own, **self.options)))
        return np.array(heads)

    def _is_shared(self, name: str) -> bool:
        return name == "x" or (name == "table" and not self.own)


def _matrix(value):
    if np.ndim(value) == 0:
        return value
    rows = value.reshape(len(value), -1) if value.ndim < 2 else value
    return sp.Matrix(*rows.shape, list(rows.flat))


def _cases(encoding: Encoding, d: int, seed: int) -> Iterator[Arrays]:
    """Named inputs: ``[heads, tokens, d]``, and x ``[tokens, heads · d]``."""
    rng = np.random.default_rng(seed)

    def draw(tokens: int) -> Arrays:
        width = HEADS * d
        shapes = {n: (HEADS, tokens, d) for n in "qkv"} | {"x": (tokens, width)}
        return {n: rng.normal(size=shapes[n]) for n in encoding.inputs}

    for tokens in (5, 3, 2, 1, 0):
        yield draw(tokens)
    yield {n: np.zeros_like(v) for n, v in draw(3).items()}
    yield {n: np.ones_like(v) for n, v in draw(3).items()}
    if "k" in encoding.inputs:
        same = draw(5)
        yield same | {"k": same["k"][:, :1] + 0 * same["k"]}
        large = draw(5)
        sizes = np.linalg.norm(large["q"], axis=-1) * np.linalg.norm(
            large["k"], axis=-1
        )
        yield large | {"q": large["q"] * 100 * math.sqrt(d) / sizes.max()}


def _compare(tally: Tally, trio: _Trio, inputs: Arrays, seed: int) -> None:
    if trio.d in EXACT_SIZES and 0 < _tokens(inputs) <= LONGEST_EXACT:
        _compare_exact(tally, trio, inputs, seed)
    _compare_fast(tally, trio, inputs, seed, trio.module, DTYPES)


def _tokens(inputs: Arrays) -> int:
    return next(iter(inputs.values())).shape[-2]


def _compare_exact(tally: Tally, trio: _Trio, inputs: Arrays, seed: int) -> None:
    number = np.vectorize(lambda x: sp.Float(float(x), DIGITS), otypes=[object])
    values = inputs | trio.parameters
    exact = {name: number(value) for name, value in values.items()}
    forward = trio.exact(exact)
    errors = _Errors(torch.float64)
    bound = _bound(errors, trio, values)
    out = trio.reference(values)
    where = ("cpu", torch.float64)
    tally.add(
        "sympy–numpy",
        "forward",
        *where,
        forward.astype(float),
        out,
        bound + errors.tiny,
    )
    line = _line(trio, values, list(values), seed, errors)
    if line is None:
        return
    moved = {n: exact[n] + _TINY_STEP * number(v) for n, v in line.items()}
    slope = ((trio.exact(moved) - forward) / _TINY_STEP).astype(float)
    difference = _difference(trio, values, line, np.ones_like(out))
    limit = _difference_error(out, bound, np.ones_like(out))
    where = ("sympy–numpy", "gradient", "cpu", torch.float64)
    tally.add(*where, slope.sum(), difference, limit + 1e-11)


def _compare_fast(
    tally: Tally,
    trio: _Trio,
    inputs: Arrays,
    seed: int,
    module: Callable,
    dtypes: tuple[torch.dtype, ...],
) -> None:
    compiled = module is not trio.module
    faces = "numpy–torch.compile" if compiled else "numpy–torch"
    for device in devices():
        for dtype in dtypes:
            trio.module.to(device=device, dtype=dtype)
            leaves = {
                name: torch.tensor(v[None], dtype=dtype, device=device).requires_grad_()
                for name, v in inputs.items()
            }
            given = {n: rounded(v, dtype) for n, v in inputs.items()}
            values = given | trio.parameters
            errors, exact = _Errors(dtype), _Errors(torch.float64)
            bound = _bound(errors, trio, values) + errors.tiny
            out = module(*leaves.values())
            expected = trio.reference(values)
            where = (device, dtype)
            tally.add(faces, "forward", *where, to_numpy(out[0]), expected, bound)

            upstream = np.random.default_rng(seed + 1).normal(size=expected.shape)
            upstream = rounded(upstream, dtype)
            parameters = dict(trio.module.named_parameters())
            wanted = leaves | {n.replace(".", "_"): p for n, p in parameters.items()}
            gradients = torch.autograd.grad(
                out,
                list(wanted.values()),
                torch.tensor(upstream[None], dtype=dtype, device=device),
                allow_unused=True,
                materialize_grads=True,
            )
            slopes = dict(zip(wanted, map(to_numpy, gradients), strict=True))
            slopes |= {name: slopes[name][0] for name in inputs}
            kinds = {"gradient": list(inputs), "parameters": list(trio.parameters)}
            for what, names in kinds.items():
                line = names and _line(trio, values, names, seed, errors)
                if not line:
                    continue
                given_slope = sum((slopes[n] * v).sum() for n, v in line.items())
                difference = _difference(trio, values, line, upstream)
                still = _bound(exact, trio, values)
                limit = _difference_error(expected, still, upstream)
                moving = _Errors(None)
                reach = _bound(moving, trio, values, line)
                limit += (np.abs(upstream) * reach).sum() * errors.of_a_product(values)
                limit += errors.tiny
                tally.add(faces, what, *where, given_slope, difference, limit)


def _line(
    trio: _Trio, values: Arrays, names: list[str], seed: int, errors: "_Errors"
) -> Arrays | None:
    """A direction that moves no factor by much, nor a position over a kink.

    ``None`` where a kink is as near as the errors of the positions.
    """
    if errors.kink > 1 / 4:
        return None
    rng = np.random.default_rng(seed + 2)
    line = {n: rng.normal(size=values[n].shape) for n in names}
    while True:
        probe = _Errors(None)
        _bound(probe, trio, values, {n: 2 * v for n, v in line.items()})
        if probe.largest <= 1 / 2 and probe.kink * 2 * STEP <= 1 / 2:
            return line
        line = {n: v / 2 for n, v in line.items()}


def _difference(
    trio: _Trio, values: Arrays, line: Arrays, upstream: np.ndarray
) -> float:
    """The eighth-order central difference of ⟨upstream, result⟩ along the line."""

    def product(t: float) -> float:
        moved = {n: values[n] + t * v for n, v in line.items()}
        return float((trio.reference(values | moved) * upstream).sum())

    return sum(
        weight * (product(n * STEP) - product(-n * STEP)) / STEP
        for n, weight in WEIGHTS
    )


def _difference_error(
    out: np.ndarray, bound: np.ndarray, upstream: np.ndarray
) -> float:
    """By how much that difference is off at most."""
    cut = math.factorial(9) * STEP**8 / 630 / 2**9
    largest = np.abs(out).max(initial=0.0) + 1
    size = np.abs(upstream)
    return float(67 * (size * bound).sum() + cut * 2 * largest * size.sum())


Near = tuple[np.ndarray, np.ndarray]
"""An array, and what each of its entries may be off by."""


class _Errors:
    """Follows errors through a formula, in the roundings of a dtype or in none."""

    def __init__(self, dtype: torch.dtype | None):
        self.inner = self.stored = self.tiny = 0.0
        if dtype is not None:
            wide = torch.promote_types(dtype, torch.float32)
            self.inner = torch.finfo(wide).eps / 2
            self.stored = torch.finfo(dtype).eps / 2
            self.tiny = torch.finfo(dtype).tiny
        self.largest = 0.0  # by how much a logit or the size of a factor changes
        self.kink = 0.0  # the same of a position, over its distance to a kink

    def of_a_product(self, values: Arrays) -> float:
        """The relative error of a product of the chain rule, summed up."""
        terms = sum(sum(v.shape) for v in values.values())
        return FACTORS * (self.largest + 2 * self.stored) + terms * self.inner

    def note(self, change: np.ndarray) -> None:
        """Remember the largest change of a factor."""
        self.largest = max(self.largest, float(np.max(change, initial=0.0)))

    def store(self, a: Near) -> Near:
        """Round to the dtype, twice at most."""
        value, error = a
        return value, error + 2 * self.stored * np.abs(value)

    def product(self, a: Near, b: Near) -> Near:
        """A matrix product."""
        (x, ex), (y, ey) = a, b
        size = np.abs(x) @ np.abs(y)
        error = ex @ (np.abs(y) + ey) + np.abs(x) @ ey
        error = error + (x.shape[-1] + 1) * self.inner * size
        return self.store((x @ y, error))

    def times(self, a: Near, b: Near) -> Near:
        """An entrywise product."""
        (x, ex), (y, ey) = a, b
        error = ex * (np.abs(y) + ey) + np.abs(x) * ey + self.inner * np.abs(x * y)
        return self.store((x * y, error))

    def plus(self, a: Near, b: Near) -> Near:
        """A sum."""
        value = a[0] + b[0]
        return value, a[1] + b[1] + self.inner * np.abs(value)

    def sigmoid(self, a: Near) -> Near:
        """σ, whose logarithm has slope at most 1."""
        value = np.exp(-np.logaddexp(0.0, -a[0]))
        self.note(a[1])
        return value, a[1] / 4 + 4 * self.inner * value

    def cumsum(self, a: Near) -> Near:
        """Sums along the last axis."""
        value = a[0].cumsum(-1)
        roundings = a[0].shape[-1] * self.inner * np.abs(a[0]).cumsum(-1)
        return value, a[1].cumsum(-1) + roundings

    def softmax_mix(self, logits: Near, v: Near) -> Near:
        """Causal softmax attention, given the logits."""
        z, e = logits
        n = z.shape[-1]
        seen = np.tri(n, dtype=bool)
        off = np.where(seen, e + 2 * self.inner * np.abs(z), 0.0)
        off = off.max(-1, initial=0.0, keepdims=True)
        self.note(off)
        z = np.where(seen, z, -np.inf)
        w = np.exp(z - z.max(-1, initial=-1e300, keepdims=True))
        w = w / np.maximum(w.sum(-1, keepdims=True), 1.0)
        changed = _growth(2 * off) + (n + 6) * self.inner
        return self.product((w, w * changed + 2 * self.stored * w), v)

    def norm(self, a: Near, gain: Near, eps: float) -> Near:
        """RMS norm over the last axis; ``gain`` is ``[heads, d]``."""
        x, e = a
        d = x.shape[-1]
        size = np.sqrt((x**2).mean(-1, keepdims=True) + eps)
        shift = np.linalg.norm(e, axis=-1, keepdims=True) / size
        self.note(shift)
        y = x / size
        off = (
            e / size + np.abs(y) * shift / np.sqrt(d) + (d + 6) * self.inner * np.abs(y)
        )
        g = (gain[0][:, None], gain[1][:, None])
        return self.times(self.store((y, off)), g)


def _bound(
    errors: _Errors, trio: _Trio, values: Arrays, moved: Arrays | None = None
) -> np.ndarray:
    """What the result is off by at most, if inputs are off by what they are moved."""
    near = {
        name: (value, np.abs((moved or {}).get(name, np.zeros_like(value))))
        for name, value in values.items()
    }
    return _FORMULAS[trio.encoding.name](errors, near, trio.options)[1]


def _growth(exponent: np.ndarray) -> np.ndarray:
    """By how much a weight changes with its exponent; beyond e¹⁰⁰ it makes no odds."""
    return np.expm1(np.minimum(exponent, 100.0))


def _transposed(a: Near) -> Near:
    return a[0].swapaxes(-1, -2), a[1].swapaxes(-1, -2)


def _logits(errors: _Errors, q: Near, k: Near) -> Near:
    z, e = errors.product(q, _transposed(k))
    root = np.sqrt(q[0].shape[-1])
    return errors.store((z / root, e / root))


def _stickbreaking(errors: _Errors, at: dict[str, Near], options: dict) -> Near:
    z, e = _logits(errors, at["q"], at["k"])
    n = z.shape[-1]
    seen = np.tri(n, k=0 if options["attend_current"] else -1, dtype=bool)
    cost = np.where(seen, np.logaddexp(0.0, z), 0.0)
    spent = cost[..., ::-1].cumsum(-1)[..., ::-1]
    e = np.where(seen, e, 0.0)
    off = e + e.sum(-1, keepdims=True)
    off = off + (n + 4) * errors.inner * (spent + np.abs(z))
    off = np.where(seen, off, 0.0).max(-1, initial=0.0, keepdims=True)
    errors.note(off)
    v, dv = at["v"]
    heaviest = np.abs(v).max(-2, initial=0.0, keepdims=True)
    times = 2 if options["remainder"] != "drop" else 1  # the remainder is off too
    changed = (
        times * np.expm1(np.minimum(off, 700))
        + (n + 6) * errors.inner
        + 2 * errors.stored
    )
    return v, changed * heaviest + times * dv.max(-2, initial=0.0, keepdims=True)


def _fox(errors: _Errors, at: dict[str, Near], options: dict) -> Near:
    log_gates = _log_gates(errors, at["x"], at["gate_weight"], at["gate_bias"])
    return _forgetting(errors, at["q"], at["k"], at["v"], log_gates)


def _log_gates(errors: _Errors, x: Near, weight: Near, bias: Near) -> Near:
    a, e = errors.product(weight, _transposed(x))
    a, e = errors.plus((a, e), (bias[0][:, None], bias[1][:, None]))
    value = -np.logaddexp(0.0, -a)
    return value, e + 4 * errors.inner * np.abs(value)


def _forgetting(errors: _Errors, q: Near, k: Near, v: Near, log_gates: Near) -> Near:
    c, e = errors.cumsum(log_gates)
    bias = c[..., :, None] - c[..., None, :], e[..., :, None] + e[..., None, :]
    logits = errors.plus(_logits(errors, q, k), errors.store(bias))
    return errors.softmax_mix(logits, v)


def _fox_pro(errors: _Errors, at: dict[str, Near], options: dict) -> Near:
    x, (heads, d) = at["x"], at["q_gain"][0].shape

    def by_head(name: str) -> Near:
        parts = errors.product(x, _transposed(at[f"{name}_weight"]))
        split = (part.reshape(len(part), heads, d) for part in parts)
        return tuple(np.moveaxis(part, 1, 0) for part in split)

    def shift(t: Near, name: str) -> Near:
        gate = errors.product(at[f"{name}_shift_weight"], _transposed(x))
        alpha, off = (part[..., None] for part in errors.sigmoid(gate))
        before = tuple(np.roll(part, 1, -2) for part in t)
        for part in before:
            part[:, :1] = 0
        return errors.plus(
            errors.times((alpha, off), before), errors.times((1 - alpha, off), t)
        )

    q, k, v = by_head("q"), shift(by_head("k"), "k"), shift(by_head("v"), "v")
    q, k = errors.norm(q, at["q_gain"], 1e-5), errors.norm(k, at["k_gain"], 1e-5)
    weight, bias = at["encoding_gate_weight"], at["encoding_gate_bias"]
    out = _forgetting(errors, q, k, v, _log_gates(errors, x, weight, bias))
    out = errors.norm(out, at["o_gain"], 1e-6)
    out = tuple(np.moveaxis(part, 0, 1).reshape(-1, heads * d) for part in out)
    gate = errors.sigmoid(errors.product(x, _transposed(at["out_gate_weight"])))
    return errors.product(errors.times(out, gate), _transposed(at["o_weight"]))


def _cope(errors: _Errors, at: dict[str, Near], options: dict) -> Near:
    q, k, table = at["q"], at["k"], at["table"]
    root = np.sqrt(q[0].shape[-1])
    content, off = _logits(errors, q, k)
    if options["scaling"] == "paper":
        off = (off + 2 * errors.inner * np.abs(content)) * root
        content = content * root
    n = content.shape[-1]
    gates, e = errors.sigmoid((content, off))
    back = tuple(np.where(np.tri(n, dtype=bool), t, 0.0)[..., ::-1] for t in (gates, e))
    p, e = (part[..., ::-1] for part in errors.cumsum(back))
    values, dv = errors.product(q, table)
    largest = values.shape[-1] - 1
    _note_kinks(errors, p, e, largest)
    slope = np.abs(np.diff(values, axis=-1)).max(-1, initial=0.0, keepdims=True)
    slope = slope + 2 * dv.max(-1, keepdims=True)
    low = np.minimum(p, largest)
    floor, ceiling = (f(low).astype(int) for f in (np.floor, np.ceil))
    lower, upper = (np.take_along_axis(values, i, -1) for i in (floor, ceiling))
    bias = lower + (low - floor) * (upper - lower)
    e = slope * e + dv.max(-1, keepdims=True)
    e = e + 4 * errors.inner * np.abs(values).max(-1, keepdims=True)
    if options["scaling"] == "code":
        bias, e = bias / root, e / root
    logits = errors.plus((content, off), errors.store((bias, e)))
    return errors.softmax_mix(logits, at["v"])


def _note_kinks(errors: _Errors, p: np.ndarray, e: np.ndarray, largest: int) -> None:
    """Positions have a kink at whole numbers up to the largest."""
    whole = np.clip(np.round(p), 0, largest)
    seen = np.tri(p.shape[-1], dtype=bool)
    distance = np.where(seen, np.abs(p - whole), np.inf)
    near = e / np.maximum(distance, 1e-300)
    errors.kink = max(errors.kink, float(near.max(initial=0.0)))


_FORMULAS = {
    "stickbreaking": _stickbreaking,
    "fox": _fox,
    "fox-pro": _fox_pro,
    "cope": _cope,
}
