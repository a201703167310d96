"""Comparison of the implementations of encodings that change features token by token.

Inputs are random, adversarial (values of very different size, equal members of a
pair, zeros) and edge cases (no token, one token, positions far from 0, negative,
real, repeated), for d in 1 … 128 as far as the encoding allows. Trainable parameters
are those that the PyTorch implementation draws. The symbolic implementation, evaluated
to 40 digits, takes part for d ≤ 4 and blocks of at most 4 features.

The bound at each entry is derived, not tuned. The map of a token is affine, so unit
steps give the reference's matrix T and its added vector. With u the unit roundoff and b
the largest number of features that a row of T mixes, the bound is
``(|T| |x| + |added|) ((b + 2) u_table + 2 u_out) + angle_error · mixed``. The products
with a table of its dtype, their sums and the rounding of the table are b + 2 roundings,
and the result is rounded last. ``mixed`` is the sum of ``|x|`` over the features of a
row, and 1 more where something is added. ``angle_error`` is the error of the float64
angle or exponential, ``8 b u₆₄ (1 + sensitivity)``: a few roundings for each feature of
a block, each of which changes T as if position or parameters were off by u.
``sensitivity`` is the rate of that change: the largest change of an entry when the
reference is run with every position off by a small part of itself, up or down at
random, relative to that part; and the same for parameters, whose change could cancel
that of positions.

Gradients with respect to parameters are compared as slopes along the gradient to each
of them and along a random direction of all. A direction is scaled so that for each unit
step no entry of T or of the added vector changes by more than 1. It is shortened until
doubling the step of the reference's difference, an eighth-order central one, changes
the slope of no entry of the result by more than rounding does. The remaining error of
the difference is estimated by doubling the step, and 67 times the reference's own error
is added.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import torch

from posedu._argument_types import check_types
from posedu._arguments import require_dimension, require_seed
from posedu._renamed import renamed_names
from posedu.catalog import EncodingRecord, Variant
from posedu.crosscheck.common import (
    CPU,
    DIGITS,
    DTYPES,
    Devices,
    Tally,
    as_rationals,
    compiled_dtypes,
    difference,
    parameters_of,
    points_of,
    rounded,
    roundoff,
    to_numpy,
)
from posedu.torch import grid

SIZES = (1, 2, 64, 128)  # head dimensions, each rounded up to one that is allowed
HEADS = 2  # for encodings with parameters for each head
LARGEST_EXACT = (
    4  # largest d of the symbolic implementation, unless the least is larger
)
COMPILED_SIZE = 64

_PERTURBATION = 2.0**-32  # relative, of positions and parameters
_MOST_SHORTENINGS = 10  # of a line that bends
_TRIES = 4


def compare(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare the implementations of one configuration at all head dimensions.

    The dimensions are ``SIZES``, rounded up to those that the encoding takes.
    ``variant`` is the configuration (set of options). PyTorch runs on each of
    ``devices``, and ``seed`` fixes the random inputs. Errors are added to ``tally``.
    """
    for d in _sizes(encoding, variant):
        pair = Pair(encoding, variant, d, seed)
        for case in _cases(pair, seed):
            at = ReferenceAt(pair, case[1])
            if pair.has_exact and CPU in devices:
                _compare_exact(tally, at, case)
            _compare(tally, at, case, devices)


def compare_compiled(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare the compiled PyTorch module with NumPy, for d = 64 (rounded up).

    The inputs have five tokens. ``variant`` is the configuration (set of options) of
    the encoding. PyTorch runs on each of ``devices``, and ``seed`` fixes the random
    inputs. Errors are added to ``tally``.
    """
    torch.compiler.reset()  # Otherwise the limit of recompilations is soon reached.
    unit = encoding.divisor(variant)
    pair = Pair(encoding, variant, -(-COMPILED_SIZE // unit) * unit, seed)
    case = next(_cases(pair, seed))
    _compare(tally, ReferenceAt(pair, case[1]), case, devices, compiled=True)


@check_types
def ordinary_error(
    encoding: EncodingRecord, *, d: int = 48, heads: int = 2, seed: int = 0
) -> float:
    """Return the largest difference of PyTorch from the reference on ordinary inputs.

    Inputs are standard normal features in float64, at positions 0 … 14 or at the points
    of a 5 × 3 grid between 0 and 1, for every configuration (set of options) of the
    encoding in the catalog. ``d`` is the head dimension, rounded up to one that the
    encoding takes.

    Raises
    ------
    ValueError
        The encoding acts inside attention.
    """
    if encoding.kind != "features":
        raise ValueError(f"{encoding.title} does not change features token by token")
    require_dimension("heads", heads, 1)
    require_dimension("d", d, 1)
    torch.manual_seed(require_seed(seed))
    at = range(15) if encoding.axes is None else grid(5, 3, coordinates="centers")
    largest = []
    for variant in encoding.variants:
        module = encoding.make(variant, d=d, heads=heads).double()
        x = torch.randn(heads, 15, d, dtype=torch.float64)
        options = encoding.keywords(variant, d=d, heads=heads)
        trained = {n: to_numpy(p) for n, p in parameters_of(module).items()}
        reference = encoding.implementation("numpy")(
            x.numpy(), np.asarray(at, dtype=float), **options, **trained
        )
        largest.append(np.abs(to_numpy(module(x, at)) - reference).max())
    return float(np.max(largest))  # NaN if any is


class Pair:
    """An encoding's PyTorch module, NumPy and SymPy function, with equal parameters."""

    def __init__(
        self,
        encoding: EncodingRecord,
        variant: Variant,
        d: int,
        seed: int,
        heads: int = HEADS,
    ):
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.encoding, self.d = encoding, d
        self.implementation = encoding.implementation("numpy")
        self.heads = heads if "heads" in variant.sizes else None
        self.module = encoding.make(variant, d=d, heads=self.heads or 1)
        parameters = parameters_of(self.module)
        self.parameters = {name: to_numpy(p) for name, p in parameters.items()}
        self.trained = [name for name, p in parameters.items() if p.requires_grad]
        shared = encoding.make(replace(variant, sizes=()), d=d, heads=1)
        self.shared_ndim = {n: p.ndim for n, p in parameters_of(shared).items()}
        self.options = encoding.keywords(variant, d=d, heads=self.heads or 1)
        exact_up_to = max(LARGEST_EXACT, encoding.divisor(variant))
        self.has_exact = variant.has_symbolic and d <= exact_up_to
        self.has_rows = "tokens" in encoding.sizes  # A table has a row by position.
        self.rows = encoding.rows(variant)
        self.exact_maps: dict = {}

    def forward(self, x, positions, parameters=None):
        """Run the NumPy implementation on features ``x`` at ``positions``.

        ``parameters``, arrays by name, replace the module's parameters; by default the
        module's own are used.
        """
        parameters = self.parameters if parameters is None else parameters
        return self.implementation(x, positions, **self.options, **parameters)

    def affine(self, positions, parameters=None):
        """Return each token's affine map: matrices T and added vectors.

        T is ``[tokens, d, d]`` and the vectors are ``[tokens, d]``, after an axis of
        heads if heads have parameters of their own. The map is found by applying the
        NumPy implementation to 0 and to unit vectors. ``parameters``, arrays by name,
        replace the module's parameters; by default the module's own are used.
        """
        own = () if self.heads is None else (self.heads,)
        shape = (*own, len(positions), self.d)
        steps = np.eye(self.d + 1, self.d).reshape(-1, *[1] * (len(shape) - 1), self.d)
        x = np.broadcast_to(steps, (self.d + 1, *shape))
        *columns, added = self.forward(x, positions, parameters)
        return np.stack(columns, -1) - added[..., None], added

    def exact(self, x, positions, gradient):
        """Return the symbolic implementation's result, and its gradient to ``x``.

        ``gradient`` is the upstream gradient, the gradient of a loss with respect to
        the result.
        """
        forward, backward = np.empty(x.shape), np.empty(x.shape)
        for place in np.ndindex(x.shape[:-1]):
            head = None if self.heads is None else place[0]
            position = as_rationals(positions[place[-1]])
            jacobian, at_zero = self._exact_map(position, head)
            token, slope = (sp.Matrix(as_rationals(t[place])) for t in (x, gradient))
            forward[place] = [float(e) for e in jacobian * token + at_zero]
            backward[place] = [float(e) for e in jacobian.T * slope]
        return forward, backward

    def _exact_map(self, position, head):
        """Return the symbolic implementation's affine map (matrix T, added vector).

        The map is that of the features of one token at ``position`` in head number
        ``head``; ``head`` is ``None`` if heads share their parameters. Maps are cached.
        """
        if (position, head) not in self.exact_maps:
            parameters = {
                name: as_rationals(self._of_head(name, head))
                for name in self.parameters
            }
            column = sp.Matrix(sp.symbols(f"x:{self.d}", real=True))
            result = self.encoding.implementation("sympy")(
                column, position, **self.options, **parameters
            )
            jacobian, minus = sp.linear_eq_to_matrix(list(result), list(column))
            exact = jacobian.evalf(DIGITS), -minus.evalf(DIGITS)
            self.exact_maps[position, head] = exact
        return self.exact_maps[position, head]

    def _of_head(self, name, head):
        value = self.parameters[name]
        return value[head] if value.ndim > self.shared_ndim[name] else value


class ReferenceAt:
    """NumPy implementation at given positions: affine map of each token, and errors.

    The map is a matrix ``t`` and an added vector ``added``. The errors are bounds on
    the errors of angles, which :meth:`bound` uses.
    """

    def __init__(self, pair: Pair, positions: np.ndarray):
        self.pair, self.positions = pair, positions
        self.t, self.added = pair.affine(positions)
        both = self._changes("positions"), self._changes("parameters")
        changed = np.any([m[0] != 0 for changes in both for m in changes], axis=0)
        self.is_mixed = (self.t != 0) | changed
        self.mixing = int(self.is_mixed.sum(-1).max(initial=1))
        largest = sum(
            np.max([_largest_entry(*m) for m in changes], axis=0) for changes in both
        )
        sensitivity = largest / _PERTURBATION
        angle_error = 8 * self.mixing * roundoff(torch.float64) * (1 + sensitivity)
        self.angle_error = angle_error[..., None]

    def _changes(self, what: str):
        """Changes of each affine map by random changes of positions or parameters.

        ``what``, ``"positions"`` or ``"parameters"``, says which are changed. The list
        has a pair for each of several random changes: the changes of the matrices and
        the changes of the added vectors.
        """
        parameters, positions = self.pair.parameters, self.positions
        if what == "parameters" and not parameters:
            return [(np.zeros_like(self.t), np.zeros_like(self.added))]

        def perturbed(value):
            signs = self.pair.rng.choice((-1.0, 1.0), np.shape(value))
            return value * (1 + _PERTURBATION * signs)

        changes = []
        for _ in range(_TRIES):
            if what == "parameters":
                parameters = {n: perturbed(p) for n, p in self.pair.parameters.items()}
            elif not self.pair.has_rows:
                positions = perturbed(self.positions)
            t, added = self.pair.affine(positions, parameters)
            changes.append((t - self.t, added - self.added))
        return changes

    def forward(self, x):
        """Return the reference's result for x, and the sizes of the summed terms.

        The sizes are arrays from which :meth:`bound` computes the bound on errors.
        """
        out = np.einsum("...ij,...j->...i", self.t, x) + self.added
        return out, self._sizes(x, self.t, self.is_mixed, self.added)

    def backward(self, gradient):
        """Return the reference's gradient to x, and the sizes of the summed terms.

        ``gradient`` is the upstream gradient. The sizes are arrays from which
        :meth:`bound` computes the bound on errors.
        """
        t, is_mixed = self.t.swapaxes(-1, -2), self.is_mixed.swapaxes(-1, -2)
        out = np.einsum("...ij,...j->...i", t, gradient)
        return out, self._sizes(gradient, t, is_mixed, np.zeros_like(out))

    @staticmethod
    def _sizes(x, t, is_mixed, added):
        products = np.einsum("...ij,...j->...i", np.abs(t), np.abs(x)) + np.abs(added)
        mixed = np.einsum("...ij,...j->...i", is_mixed, np.abs(x)) + (added != 0)
        return products, mixed

    def bound(self, sizes, dtype, angles=torch.float64, tables=None):
        """Return the bound on an implementation's error, entry by entry.

        ``sizes`` are the sizes of summed terms that :meth:`forward` or :meth:`backward`
        returned. ``dtype`` is the dtype of the implementation's result, ``angles`` and
        ``tables`` are the dtypes of its angles and of its tables of cosines and sines.
        By default tables have ``dtype``, or float32 if that is wider.
        """
        products, mixed = sizes
        u_table = roundoff(tables or torch.promote_types(dtype, torch.float32))
        roundings = (self.mixing + 2) * u_table + 2 * roundoff(dtype)
        angle_error = self.angle_error * (roundoff(angles) / roundoff(torch.float64))
        return products * roundings + mixed * angle_error + torch.finfo(dtype).tiny


def _largest_entry(t: np.ndarray, added: np.ndarray) -> np.ndarray:
    """Largest size of an entry of matrix ``t`` and vector ``added``, by token."""
    return np.maximum(np.abs(t).max((-2, -1)), np.abs(added).max(-1))


def _compare_exact(tally: Tally, at: ReferenceAt, case) -> None:
    x, positions, gradient = case
    exact, exact_back = at.pair.exact(x, positions, gradient)
    where = ("cpu", torch.float64)
    (out, sizes), (back, back_sizes) = at.forward(x), at.backward(gradient)
    bound = at.bound(sizes, torch.float64)
    tally.add("sympy–numpy", "forward", *where, "out", exact, out, bound)
    bound = at.bound(back_sizes, torch.float64)
    tally.add("sympy–numpy", "gradient", *where, "x", exact_back, back, bound)


def _compare(
    tally: Tally, at: ReferenceAt, case, devices: Devices, *, compiled: bool = False
) -> None:
    x, _, gradient = case
    implementations = "numpy–torch.compile" if compiled else "numpy–torch"
    given = {t: (rounded(x, t), rounded(gradient, t)) for t in DTYPES}
    lines = None
    for device in devices:
        for dtype in compiled_dtypes(device) if compiled else DTYPES:
            where = (implementations, device, dtype)
            slopes = _compare_torch(tally, at, given[dtype], where, compiled)
            if slopes and x.size:
                lines = lines or _lines(at, slopes, given)
                _compare_slopes(tally, at, lines, slopes, given[dtype], where)


def _compare_torch(tally, at, given, where, compiled) -> dict[str, np.ndarray]:
    """Compare PyTorch's result and gradient to x; return gradients to parameters.

    ``at`` is the reference at the positions. ``given`` holds x and the upstream
    gradient; ``where`` the name of the pair of implementations, the device and the
    dtype. ``compiled`` says whether the module is compiled. Errors from ``at`` are
    added to ``tally``.
    """
    pair, (implementations, device, dtype), (x, gradient) = at.pair, where, given
    wide = torch.promote_types(dtype, torch.float32)
    module = pair.module.to(device=device, dtype=wide)
    leaf = torch.tensor(x, dtype=dtype, device=device, requires_grad=True)
    run = torch.compile(module, fullgraph=True) if compiled else module
    out = run(leaf, torch.as_tensor(at.positions, device=device))
    parameters = parameters_of(module)
    trained = [parameters[name] for name in pair.trained]
    upstream = torch.tensor(gradient, dtype=dtype, device=device)
    grad, *slopes = torch.autograd.grad(out, [leaf, *trained], upstream)
    expected, sizes = at.forward(x)
    key = (implementations, "forward", device, dtype, "out")
    tally.add(*key, to_numpy(out), expected, at.bound(sizes, dtype))
    expected, sizes = at.backward(gradient)
    key = (implementations, "gradient", device, dtype, "x")
    tally.add(*key, to_numpy(grad), expected, at.bound(sizes, dtype))
    return dict(zip(pair.trained, map(to_numpy, slopes), strict=True))


@dataclass(frozen=True)
class _Line:
    """A direction of the parameters, and the reference's slope along this direction.

    ``slopes`` holds the slope and the slope's error for inputs rounded to each dtype.
    """

    direction: dict[str, np.ndarray]
    slopes: dict[torch.dtype, tuple[float, float]]


def _lines(at: ReferenceAt, gradients, given) -> dict[str, _Line]:
    """Choose directions of the parameters, along which affine maps change by 1 at most.

    The directions are the gradient to each parameter, by the parameter's name, and a
    random direction of all, ``"all"``. For a unit step no entry of a token's map at
    ``at`` changes by more than 1. ``gradients`` are PyTorch's, by parameter; ``given``
    holds inputs and upstream gradient, rounded to each dtype.
    """
    pair = at.pair
    everywhere = {n: pair.rng.normal(size=g.shape) for n, g in gradients.items()}
    lines = {n: {n: g} for n, g in gradients.items() if g.any()} | {"all": everywhere}
    x = given[torch.float64][0]
    scaled = {name: _scaled(at, x, line) for name, line in lines.items()}
    return {n: _Line(line, _slopes(at, line, given)) for n, line in scaled.items()}


def _slopes(at: ReferenceAt, line, given) -> dict[torch.dtype, tuple[float, float]]:
    """NumPy's slopes along ``line`` for the inputs of each dtype, with their errors.

    ``line`` is a direction of the parameters, an array for each by name; ``at`` is the
    reference at the positions. ``given`` holds inputs and upstream gradient, rounded to
    each dtype. All dtypes are computed at once, since most of the time is taken by the
    tables of cosines and sines, which they share.
    """
    pair = at.pair
    x, gradient = (np.stack(each) for each in zip(*given.values(), strict=True))

    def products(t):
        shifted = {n: pair.parameters[n] + t * v for n, v in line.items()}
        out = pair.forward(x, at.positions, pair.parameters | shifted)
        return (out * gradient).reshape(len(x), -1).sum(-1)

    slopes, errors = difference(products)
    return dict(zip(given, zip(slopes, errors, strict=True), strict=True))


def _scaled(at: ReferenceAt, x: np.ndarray, line):
    """Scale a direction to speed 1, and shorten it until the result is nearly linear.

    ``line`` is a direction of the parameters, ``x`` the input and ``at`` the reference
    at the positions. The speed is the fastest change of an entry of a token's affine
    map, of the matrix or of the added vector. The speeds of tensors are added, so that
    no two cancel: together their effects may be quadratic. Where the speed is small at
    one point, as at the top of a wave, the line may bend nearby; and an entry may bend
    more than the entries that change most. So the line is shortened until no entry's
    difference shows that it bends.
    """
    speed = max(sum(_speed(at, name, v) for name, v in line.items()), 1e-300)
    scaled = {name: v / speed for name, v in line.items()}
    for _ in range(_MOST_SHORTENINGS):
        bend = _bend(at, x, scaled)
        if bend <= 1:
            break
        by = min(0.5, bend ** (-1 / 9))  # The error of the difference grows with h⁸.
        scaled = {name: by * v for name, v in scaled.items()}
    return scaled


def _bend(at: ReferenceAt, x: np.ndarray, line: dict[str, np.ndarray]) -> float:
    """Largest change of a result entry's slope by a doubled step, per rounding error.

    The result is that for the features ``x``; the steps go along ``line``, a direction
    of the parameters. If the ratio of change to roundings is at most 1, the slope is
    off by less than the roundings of the result at its ends, unless both steps are
    wrong by the same amount.
    """
    pair = at.pair

    def result(t):
        shifted = {n: pair.parameters[n] + t * v for n, v in line.items()}
        return pair.forward(x, at.positions, pair.parameters | shifted)

    change = 64 * difference(result)[1]
    products, mixed = at.forward(x)[1]
    roundings = products * (at.mixing + 4) * roundoff(torch.float64)
    roundings = roundings + mixed * at.angle_error
    allowed = 2 * 67 * roundings + torch.finfo(torch.float64).tiny
    return float((change / allowed).max())


def _speed(at: ReferenceAt, name: str, direction: np.ndarray) -> float:
    """Fastest change of an entry of a token's affine map as one parameter moves.

    The map is a matrix and an added vector, at the positions of ``at``. The parameter
    ``name`` moves along the array ``direction``.
    """
    size = np.abs(direction).max()
    shifted = {name: at.pair.parameters[name] + _PERTURBATION * direction / size}
    t, added = at.pair.affine(at.positions, at.pair.parameters | shifted)
    largest = np.max([np.abs(t - at.t).max(), np.abs(added - at.added).max()])
    return float(largest) * size / _PERTURBATION


def _compare_slopes(tally, at, lines, slopes, given, where) -> None:
    """Compare PyTorch's slope along each direction with the reference's.

    ``at`` is the reference at the positions. ``lines`` are directions of the
    parameters, with NumPy's slopes; ``slopes`` are PyTorch's gradients to the
    parameters. ``given`` holds x and the upstream gradient; ``where`` the name of the
    pair of implementations, the device and the dtype. Errors are added to ``tally``.
    """
    (implementations, device, dtype), (x, gradient) = where, given
    products, mixed = at.forward(x)[1]
    size = (np.abs(gradient) * (products + mixed)).sum()
    angle_error, u_64 = float(at.angle_error.max()), roundoff(torch.float64)
    u = roundoff(torch.promote_types(dtype, torch.float32))
    of_torch = angle_error + (at.mixing + 4 + x.size) * u
    of_reference = 67 * (angle_error + (at.mixing + 4) * u_64)
    for tensor, line in lines.items():
        expected, error = line.slopes[dtype]
        bound = size * (of_torch + of_reference) + error + torch.finfo(dtype).tiny
        given_slope = sum((slopes[n] * v).sum() for n, v in line.direction.items())
        key = (implementations, "parameters", device, dtype, tensor)
        tally.add(*key, given_slope, expected, bound)


def _sizes(encoding: EncodingRecord, variant: Variant) -> list[int]:
    """Return the head dimensions to test, each a multiple of the encoding's unit.

    The unit, which depends on the configuration ``variant``, is the number that the
    head dimension must be a multiple of. The dimensions are two units, and 1, 2, 64 and
    128 (``SIZES``) rounded up to whole units.
    """
    unit = encoding.divisor(variant)
    return sorted({-(-size // unit) * unit for size in SIZES} | {2 * unit})


def _cases(pair: Pair, seed: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield test inputs: features, positions and upstream gradients.

    Features and gradients are ``[heads, tokens, d]``, without the first axis if heads
    share their parameters. ``pair`` gives encoding, heads and d; ``seed`` fixes the
    random numbers.
    """
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
        positions = points_of(line, pair.encoding.axes)
        positions = positions if pair.rows is None else positions % pair.rows
        shape = (*own, len(line), pair.d)
        yield rng.normal(size=shape), positions, rng.normal(size=shape)
    positions = points_of(lines[0], pair.encoding.axes)
    shape = (*own, len(lines[0]), pair.d)
    for x in (
        np.zeros(shape),
        np.ones(shape),
        rng.normal(size=shape) * 10.0 ** rng.integers(-4, 5, size=shape),
    ):
        yield x, positions, rng.normal(size=shape)


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
