"""The faces of an encoding that changes features, token by token.

Inputs are random, adversarial (values of very different size, equal members of a
pair, zeros) and edge cases (no token, one token, positions far from 0, negative,
real, repeated), for d in 1 … 128 as far as d may be that. Trainable parameters are
those that the PyTorch face draws, once shared by all heads and once for each of
two. The symbolic face, evaluated to 40 digits, takes part for d ≤ 4 and blocks of
at most 4 features.

The bound at each entry is derived, not tuned. With u the unit roundoff and b the
features that are mixed (2 for pairs), it is
``scale · (turn + (b + 2) u_table + 2 u_out)``. ``scale`` bounds what is multiplied:
``|x| + 2`` where a vector of sines is added, √b times the length of the token where
features turn, times the largest sum of coefficients where the table is a series.
``turn`` is the error of the float64 angle: ``6 u₆₄ a`` for an angle that is at most
a (a frequency by a power and a division, the products and their sum), and
``8 b u₆₄ (1 + a)`` for a matrix exponential of norm a, whose eigenvectors or
squarings cost a few b roundings for each unit of a. The products with a table of
its dtype, their sums and its own rounding are b + 2 more, the result's rounding
the last.

Gradients with respect to parameters are compared along a random direction, so
scaled that it turns no token by more than one radian for each unit step. The
reference's is an eighth-order central difference with step h = 2⁻⁵: every
derivative of a rotation along that direction is at most 1, so the difference is
off by at most h⁸/630 < 2 · 10⁻¹⁵, and by 67 times the reference's own error.
"""

from collections.abc import Iterator, Mapping

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

SIZES = (1, 2, 64, 128)  # head dimensions to try, each rounded up to what d may be
LARGEST_EXACT = 4  # the largest d whose exact values take about a second
LARGEST_EXACT_BLOCK = 4  # beyond it no closed form is known
COMPILED_SIZE = 64


def compare(
    tally: Tally, encoding: Encoding, options: Mapping, *, compiled: bool, seed: int
) -> None:
    """Compare one variant's faces on every size, with and without heads' own."""
    for heads in (None, HEADS) if _has_heads(encoding) else (None,):
        if compiled:
            torch.compiler.reset()  # or its limit of recompilations is soon reached
        for d in _sizes(encoding, options):
            pair = _Pair(encoding, options, d, heads, seed)
            compile_now = compiled and d >= COMPILED_SIZE > d - d // 2
            _compare(tally, pair, compile_now, seed)


class _Pair:
    """A PyTorch module and the reference functions with its parameters."""

    def __init__(
        self,
        encoding: Encoding,
        options: Mapping,
        d: int,
        heads: int | None,
        seed: int,
    ):
        torch.manual_seed(seed)
        own = {} if heads is None else {"heads": heads}
        make = encoding.face("torch")
        self.encoding, self.options, self.d, self.heads = encoding, options, d, heads
        self.module = make(d, **options, **encoding.module_options, **own)
        self.parameters = {
            name: to_numpy(value) for name, value in self.module.named_parameters()
        }
        self.trained = [n for n, p in self.module.named_parameters() if p.requires_grad]
        shared = make(d, **options, **encoding.module_options)
        self.shared_ndim = {n: p.ndim for n, p in shared.named_parameters()}
        self.numpy = encoding.face("numpy")
        self.sympy = encoding.face("sympy")
        self.block = options.get("block", 2)
        self.exact_maps: dict = {}

    def forward(self, x, positions, parameters=None):
        parameters = self.parameters if parameters is None else parameters
        return self.numpy(x, positions, **self.options, **parameters)

    def backward(self, x, positions, gradient):
        """Jᵀ · gradient; J by unit steps, exact because the map is affine in x."""
        steps = np.eye(self.d).reshape(self.d, *[1] * (x.ndim - 1), self.d)
        columns = self.forward(steps + 0 * x, positions)
        columns = columns - self.forward(0 * x, positions)
        return np.moveaxis((columns * gradient).sum(-1), 0, -1)

    def exact(self, x, positions, gradient):
        """Result and gradient of the symbolic face, evaluated token by token."""
        forward, backward = np.empty(x.shape), np.empty(x.shape)
        for place in np.ndindex(x.shape[:-1]):
            head = None if self.heads is None else place[0]
            jacobian, at_zero = self._exact_map(_exactly(positions[place[-1]]), head)
            token, slope = (sp.Matrix(_exactly(t[place])) for t in (x, gradient))
            forward[place] = [float(e) for e in jacobian * token + at_zero]
            backward[place] = [float(e) for e in jacobian.T * slope]
        return forward, backward

    def _exact_map(self, position, head):
        """The symbolic face at a position, as a matrix and what is added to it."""
        if (position, head) not in self.exact_maps:
            parameters = {n: _exactly(self._of_head(n, head)) for n in self.parameters}
            column = sp.Matrix(sp.symbols(f"x:{self.d}", real=True))
            turned = self.sympy(column, position, **self.options, **parameters)
            jacobian, minus = sp.linear_eq_to_matrix(list(turned), list(column))
            exact = jacobian.evalf(DIGITS), -minus.evalf(DIGITS)
            self.exact_maps[position, head] = exact
        return self.exact_maps[position, head]

    def _of_head(self, name, head):
        value = self.parameters[name]
        return value[head] if value.ndim > self.shared_ndim[name] else value

    @property
    def has_exact(self) -> bool:
        return self.d <= LARGEST_EXACT and self.block <= LARGEST_EXACT_BLOCK

    def scale(self, x):
        """What the factors of a result multiply, at most."""
        if self.encoding.doors == ("embed",):
            return np.abs(x) + 2
        length = np.linalg.norm(x, axis=-1, keepdims=True) + np.zeros_like(x)
        return np.sqrt(self.block) * length * self._series()

    def _series(self) -> float:
        """By how much a series of waves can exceed one wave."""
        sums = [
            np.abs(value).sum(axis=-2).max()
            for name, value in self.parameters.items()
            if name.endswith("coefficients")
        ]
        return max(1.0, sum(sums))

    def turn_error(self, positions) -> np.ndarray:
        """The error of the turning part of each token, ``[tokens, 1]``."""
        u = torch.finfo(torch.float64).eps / 2
        angle = self.reach(positions)
        if hasattr(self.module, "generators"):
            return 8 * self.block * u * (1 + angle)
        return 6 * u * angle

    def by_axis(self, positions) -> np.ndarray:
        """The size of each coordinate, ``[tokens, axes]``."""
        return np.abs(positions.astype(float)).reshape(-1, self.encoding.axes or 1)

    def reach(self, positions) -> np.ndarray:
        """The largest angle, or norm of the exponent, of each token."""
        by_axis = self.by_axis(positions)
        if hasattr(self.module, "generators"):
            generators = to_numpy(self.module.generators())
            norms = np.linalg.norm(generators, ord=2, axis=(-2, -1))
            largest = np.moveaxis(norms, -2, 0).reshape(by_axis.shape[1], -1).max(1)
        elif "frequencies" in self.parameters:
            f = np.abs(self.parameters["frequencies"])
            largest = f.reshape(-1, by_axis.shape[1]).max(0)
        else:
            largest = np.ones(by_axis.shape[1])
        return (by_axis @ largest)[:, None]

    def bound(self, x, positions, dtype):
        u_out = torch.finfo(dtype).eps / 2
        table = torch.promote_types(dtype, torch.float32)
        u_table = torch.finfo(table).eps / 2
        roundings = (self.block + 2) * u_table + 2 * u_out
        error = self.turn_error(positions) + roundings
        return self.scale(x) * error + torch.finfo(dtype).tiny


def _compare(tally: Tally, pair: _Pair, compile_now: bool, seed: int) -> None:
    for case, (x, positions, gradient) in enumerate(_cases(pair, seed)):
        if pair.has_exact:
            exact, exact_back = pair.exact(x, positions, gradient)
            forward = pair.forward(x, positions)
            backward = pair.backward(x, positions, gradient)
            where = ("cpu", torch.float64)
            bound = pair.bound(x, positions, torch.float64)
            tally.add("sympy–numpy", "forward", *where, exact, forward, bound)
            bound = pair.bound(gradient, positions, torch.float64)
            tally.add("sympy–numpy", "gradient", *where, exact_back, backward, bound)
        for device in devices():
            for dtype in DTYPES:
                calls = {"torch": lambda module: module}
                if compile_now and case == 0 and dtype in COMPILED_DTYPES:
                    calls["torch.compile"] = lambda module: torch.compile(
                        module, fullgraph=True
                    )
                given = (rounded(x, dtype), positions, rounded(gradient, dtype))
                for label, prepare in calls.items():
                    faces = f"numpy–{label}"
                    _compare_fast(
                        tally, pair, faces, prepare, given, dtype, device, seed
                    )


def _compare_fast(tally, pair, faces, prepare, case, dtype, device, seed) -> None:
    x, positions, gradient = case
    exact_parameters = torch.float64 if dtype == torch.float64 else torch.float32
    module = pair.module.to(device=device, dtype=exact_parameters)
    leaf = torch.tensor(x, dtype=dtype, device=device, requires_grad=True)
    out = prepare(module)(leaf, torch.as_tensor(positions, device=device))
    trained = [module.get_parameter(name) for name in pair.trained]
    grad, *of_parameters = torch.autograd.grad(
        out, [leaf, *trained], torch.tensor(gradient, dtype=dtype, device=device)
    )
    where = (faces, "forward", device, dtype)
    bound = pair.bound(x, positions, dtype)
    tally.add(*where, to_numpy(out), pair.forward(x, positions), bound)
    where = (faces, "gradient", device, dtype)
    bound = pair.bound(gradient, positions, dtype)
    expected = pair.backward(x, positions, gradient)
    tally.add(*where, to_numpy(grad), expected, bound)
    if trained and x.size:
        slopes = dict(zip(pair.trained, map(to_numpy, of_parameters), strict=True))
        where = (faces, "parameters", device, dtype)
        tally.add(*where, *_slopes(pair, slopes, case, dtype, seed))


def _slopes(pair, slopes, case, dtype, seed):
    """The slope along one direction of the parameters, twice, and its bound."""
    x, positions, gradient = case
    direction = _direction(pair, positions, seed)

    def product(t):
        moved = {n: pair.parameters[n] + t * v for n, v in direction.items()}
        return (pair.forward(x, positions, pair.parameters | moved) * gradient).sum()

    expected = sum(
        weight * (product(n * STEP) - product(-n * STEP)) / STEP
        for n, weight in WEIGHTS
    )
    given = sum((slopes[n] * v).sum() for n, v in direction.items())
    lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(gradient, axis=-1)
    size = np.sqrt(pair.block) * lengths.sum()
    u_64 = torch.finfo(torch.float64).eps / 2
    u = u_64 if dtype == torch.float64 else torch.finfo(torch.float32).eps / 2
    turn = float(pair.turn_error(positions).max())
    reference = 67 * (turn + (pair.block + 4) * u_64) + 2e-15
    bound = size * (reference + turn + (pair.block + 4 + x.size) * u)
    return given, expected, bound + torch.finfo(dtype).tiny


def _direction(pair, positions, seed):
    """A random change of the parameters that turns no token by more than 1."""
    rng = np.random.default_rng(seed)
    change = {n: rng.normal(size=pair.parameters[n].shape) for n in pair.trained}
    reach = _reach_of_change(pair, positions, change)
    return {name: value / max(reach, 1e-300) for name, value in change.items()}


def _reach_of_change(pair, positions, change) -> float:
    """A bound on how fast the exponent of any token changes."""
    furthest = pair.by_axis(positions).sum(-1).max()
    sizes = {n: np.abs(v).max() for n, v in change.items()}
    if "matrices" not in change:
        return furthest * sum(sizes.values()) * pair.block
    # θ (P − Pᵀ): a product, so each factor's change is multiplied by the other's size
    here = {n: np.abs(pair.parameters[n]).max(initial=1.0) for n in change}
    matrices = 2 * pair.block * (here["matrices"] + sizes["matrices"])
    other = here.get("multipliers", 1.0) + sizes.get("multipliers", 0.0)
    return furthest * 4 * matrices * other


def _has_heads(encoding: Encoding) -> bool:
    make = encoding.face("torch")
    return "heads" in make.__init__.__annotations__


def _sizes(encoding: Encoding, options: Mapping) -> list[int]:
    """The head dimensions of ``SIZES``, each rounded up to a multiple of the unit."""
    unit = encoding.divisor(options)
    return sorted({-(-size // unit) * unit for size in SIZES} | {2 * unit})


def _exactly(value):
    """A number as a rational, an array as nested tuples of them."""
    if isinstance(value, np.ndarray) and value.ndim:
        return tuple(_exactly(item) for item in value)
    return sp.Rational(float(value))


def _cases(pair: _Pair, seed: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Inputs ``[*heads, tokens, d]``, positions and gradients like the inputs."""
    rng = np.random.default_rng(seed)
    own = () if pair.heads is None else (pair.heads,)
    lines = (
        np.arange(5),
        np.array([], dtype=np.int64),
        np.array([1]),
        2**20 - np.arange(3),
        np.array([-3, 7, 7, 0]),
        np.array([0.5, -2.25, 1e3 + 1 / 3]),
    )
    for line in lines:
        positions = _spread(line, pair.encoding.axes)
        shape = (*own, len(line), pair.d)
        yield rng.normal(size=shape), positions, rng.normal(size=shape)
    positions = _spread(lines[0], pair.encoding.axes)
    shape = (*own, len(lines[0]), pair.d)
    for x in (
        np.zeros(shape),
        np.ones(shape),
        rng.normal(size=shape) * 10.0 ** rng.integers(-4, 5, size=shape),
    ):
        yield x, positions, rng.normal(size=shape)


def _spread(line: np.ndarray, axes: int | None) -> np.ndarray:
    """Positions on a line, or points whose coordinates are that line, turned about."""
    if axes is None:
        return line
    return np.stack([np.roll(line[::-1] * (1 - k), k) for k in range(axes)], -1)
