"""Comparison of implementations of encodings inside attention, or of whole blocks.

The three implementations attend with the same queries, keys, values, positions and
parameters. These are drawn at random and rounded to the coarsest dtype, so that all
implementations compute with the same numbers: up to twelve tokens, d in 1 … 16;
positions 0, 1, …, far from 0, negative, real, different in each row; grouped queries;
small logits and, in float32 and wider, large ones. PyTorch takes every route (way to
compute attention) that serves the encoding; on a CPU FlexAttention has no gradient and
no kernel, and takes part in float64. Where positions change from layer to layer there
are two layers of the same tokens, and the result is the second layer's. The symbolic
implementation, evaluated to 40 digits, takes part for up to three tokens.

The model of rounding is statistical. The reference (NumPy) runs unmodified on numbers
that round at random after every operation (:mod:`posedu.crosscheck.rounding`), by
relative errors up to u. For matrix products and for the results of hooks (functions by
which an encoding acts on attention), which a route may store in the dtype, u is the
dtype's unit roundoff; for all other operations in bfloat16 it is float32's. A block may
keep everything in the dtype, so there u is the dtype's for everything but the sums on
the way. A sum of n terms rounds n − 1 times, relative to the sum of their absolute
values. Positions and parameters are exact. The bound is 8 standard deviations of 16
such runs, entry by entry: independent errors add in squares, and a normal error exceeds
the bound once in two million.

Gradients are compared as slopes of ⟨upstream, result⟩: for each tensor along the
gradient itself, and for all inputs and all parameters at once along random amounts with
the signs of the gradient. Nothing cancels there, so a wrong factor shows, or any other
error. The reference's slope is an eighth-order central difference, whose error is
estimated by doubling its step. The spread of the slope is that of runs whose random
errors stay the same along the line: each factor of the chain rule is then off by a
rounding of its own. The symbolic slope is a difference over 10⁻¹², at 40 digits.

At a kink, a point without a derivative (CoPE's whole positions), a slope means nothing.
Runs record their decisions: the side of a kink that a number is on. Inputs for which
the decisions of any of these runs differ from those of the exact run, at twice u in
bfloat16, are drawn again, and counted. A direction is shortened until no step of the
difference crosses a kink.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from types import SimpleNamespace

import numpy as np
import sympy as sp
import torch

from posedu.catalog import TOKENS, EncodingRecord, Variant
from posedu.crosscheck.common import (
    CPU,
    DEVIATIONS,
    DIGITS,
    DTYPES,
    MAGNIFIED,
    SAMPLES,
    STEP,
    Devices,
    Tally,
    compiled_dtypes,
    difference,
    parameters_of,
    points_of,
    rounded,
    roundoff,
    to_numpy,
    trains_flex,
)
from posedu.crosscheck.layers import run_layers
from posedu.crosscheck.rounding import Arithmetic
from posedu.numpy.attention import Hooks as NumpyHooks
from posedu.numpy.attention import attend, causal_mask
from posedu.numpy.attention import steps as reference_steps
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.attention import attend as attend_exactly
from posedu.sympy.attention import logits as exact_logits
from posedu.sympy.attention import steps as exact_steps
from posedu.torch import routes
from posedu.torch.attention import attend as attend_torch
from posedu.torch.attention import steps as torch_steps

WIDE = (torch.float64, torch.float32)
EXACT_SIZES = (1, 4)  # Their square roots are rational.
LONGEST_EXACT = 3
LONGEST, SHORTEST = 2.0**-2, 2.0**-8  # lengths of a direction
LARGE = 2.0**-20  # Errors of this size hide the roundings of float64 itself.
DRAWS = 1000
FLOAT32 = roundoff(torch.float32) / roundoff(torch.bfloat16)
_MEASURED = ("spread", "input_lines", "parameter_lines", "own_error", "gradients")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Shape:
    """Sizes of inputs to draw: the head dimension, and the positions of each sequence.

    ``slopes`` are compared along directions of ``"each"`` tensor, of ``"all"`` at once,
    or of ``"none"``. If ``is_grouped``, attention is causal and ``group`` query heads
    share a key-value head; if ``group`` is ``None``, all heads do. ``size`` multiplies
    the first input (the queries, or a block's input), so that logits are larger or
    smaller. ``dtypes`` are the dtypes to compare.
    """

    d: int
    positions: tuple[tuple[float, ...], ...]
    is_grouped: bool = False
    group: int | None = None
    size: float = 1.0
    dtypes: tuple[torch.dtype, ...] = DTYPES
    slopes: str = "none"

    @property
    def tokens(self) -> int:
        """Number of tokens in each sequence."""
        return len(self.positions[0])

    @property
    def is_exact(self) -> bool:
        """True if inputs of these sizes can be computed to 40 digits in seconds."""
        return self.d in EXACT_SIZES and 0 < self.tokens <= LONGEST_EXACT


SHAPES = (
    Shape(4, ((0, 1, 2),), slopes="all"),
    Shape(1, ((2**20, 2**20 + 3), (-5, 1.5))),
    Shape(
        16,
        ((9, 0, -2.5, 7.75, 8, 30, 4, 3.5, 5, 6, 12, 11),),
        is_grouped=True,
        size=0.5,
        slopes="each",
    ),
    Shape(4, (tuple(range(5)),), size=16, dtypes=WIDE),
    Shape(4, ((7,),)),
    Shape(4, ((),)),
)
COMPILED_SHAPE = Shape(64, (tuple(range(5)),), slopes="all")
FLEX_SHAPE = replace(SHAPES[2], slopes="all")


def compare(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare the implementations of one configuration on inputs of several sizes.

    The sizes are ``SHAPES``, from one to twelve tokens. ``variant`` is the
    configuration (set of options) of the encoding. PyTorch runs on each of ``devices``,
    and ``seed`` fixes the random inputs. Errors are added to ``tally``.
    """
    for number, shape in enumerate(SHAPES):
        case = draw_case(tally, encoding, variant, shape, seed + DRAWS * number)
        for device in devices:
            _compare(tally, case, case.routes(device), device, shape.dtypes)
        if variant.has_symbolic and shape.is_exact and CPU in devices:
            _compare_exact(tally, case)


def compare_compiled(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare compiled PyTorch attention with NumPy, by the encoding's first route.

    A route is a way in which PyTorch computes attention. ``variant`` is the
    configuration (set of options) of the encoding. PyTorch runs on each of ``devices``,
    and ``seed`` fixes the random inputs. Errors are added to ``tally``.
    """
    case = draw_case(tally, encoding, variant, COMPILED_SHAPE, seed)
    for device in devices:
        route, call = next(iter(case.routes(device).items()))
        _compare_compiled(tally, case, route, call, device)


def compare_flex(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare compiled FlexAttention where it serves the encoding and has gradients.

    ``variant`` is the configuration (set of options) of the encoding, and ``seed``
    fixes the random inputs. FlexAttention runs on each of ``devices`` that is a GPU;
    its errors from NumPy are added to ``tally``.
    """
    able = [device for device in devices if trains_flex(device)]
    if not able:
        return
    case = draw_case(tally, encoding, variant, FLEX_SHAPE, seed)
    for device in able:
        if "flex" in (calls := case.routes(device)):
            _compare_compiled(tally, case, "flex", calls["flex"], device)


def _compare_compiled(
    tally: Tally, case: "Case", route: str, call: Callable, device: torch.device
) -> None:
    torch.compiler.reset()
    calls = {f"{route}, compiled": torch.compile(call, fullgraph=True)}
    _compare(tally, case, calls, device, compiled_dtypes(device))


class Crossing(Exception):
    """Raised by a computation that is on another side of a kink than the exact one.

    A kink is a point where a result has no derivative. The computation has rounding
    errors or moved inputs.
    """


def draw_case(
    tally: Tally,
    encoding,
    variant,
    shape,
    seed: int,
    prepare: Callable[["Case"], "Case"] = lambda case: case,
) -> "Case":
    """Draw inputs that are not next to a kink, and compute NumPy's results on them.

    A kink is a point where a result has no derivative. ``variant`` is the configuration
    (set of options) of ``encoding``; ``shape``, a :class:`Shape`, has the inputs'
    sizes; ``seed`` is the seed of the first draw. ``tally`` counts the inputs that were
    drawn again. ``prepare`` may change drawn inputs before results are computed.
    """
    kind = {"block": _Block, "hooks": _Hooks, "layers": _Layers}[encoding.kind]
    for attempt in range(DRAWS):
        case = prepare(kind(encoding, variant, shape, seed + attempt))
        try:
            case.measure()
        except Crossing:
            tally.redrawn += 1
        else:
            return case
    raise RuntimeError(f"{DRAWS} inputs of {encoding.name} were all next to a kink")


@dataclass(frozen=True)
class Line:
    """NumPy's slope along a direction of inputs or parameters, with error and spread.

    ``direction`` has an array for each tensor that it moves, ``tensor`` is the name of
    that tensor, or ``"all"`` if all are moved, and ``what`` is ``"gradient"`` for
    inputs and ``"parameters"`` for parameters. ``error`` is the error of ``slope`` as a
    difference. ``spread`` is the slope's standard deviation by roundings, per unit
    roundoff, for each dtype.
    """

    what: str
    tensor: str
    direction: Arrays
    slope: float
    error: float
    spread: Mapping[torch.dtype, float]

    def along(self, gradients: Arrays) -> float:
        """Return an implementation's slope along this direction, from its gradients.

        ``gradients`` has the gradient to each input and parameter by name.
        """
        return sum((gradients[n] * v).sum() for n, v in self.direction.items())

    def bound(self, dtype: torch.dtype) -> float:
        """Return the bound on the error of an implementation's slope in ``dtype``."""
        rounding = DEVIATIONS * roundoff(dtype) * self.spread[dtype]
        return rounding + self.error + torch.finfo(dtype).tiny


class _Spread(dict):
    """Standard deviation of a result per unit of rounding error, by dtype.

    ``run`` computes the result with the random rounding errors of an
    :class:`Arithmetic`; it runs when a dtype of ``dtypes`` is first asked for. In
    bfloat16 the errors are up to twice the unit roundoff u; in wider dtypes they are so
    large that they hide the roundings of float64 itself. ``is_coarse`` says that all
    intermediate results may be in the dtype.
    """

    def __init__(
        self,
        run: Callable[[Arithmetic], np.ndarray],
        dtypes: tuple[torch.dtype, ...],
        is_coarse: bool,
    ):
        super().__init__()
        self.run, self.dtypes, self.is_coarse = run, dtypes, is_coarse

    def __missing__(self, dtype: torch.dtype) -> np.ndarray:
        if dtype in WIDE:
            self |= dict.fromkeys(WIDE, self._deviation(LARGE, LARGE))
        elif dtype in self.dtypes:
            amount = 2 * roundoff(dtype)
            self[dtype] = self._deviation(amount, amount * FLOAT32)
        else:
            raise KeyError(dtype)
        return self[dtype]

    @cached_property
    def _exact(self) -> np.ndarray:
        return self.run(Arithmetic())

    def _deviation(self, amount: float, summed: float) -> np.ndarray:
        amounts = amount, amount if self.is_coarse else summed, summed
        runs = [self.run(Arithmetic(*amounts, n)) for n in range(SAMPLES)]
        errors = (np.stack(runs) - self._exact) / amount
        return np.sqrt((errors**2).mean(axis=0))


class Case:
    """Random inputs for one configuration of an encoding, and NumPy's results.

    A configuration is a set of options. A subclass defines how the three
    implementations are called.
    """

    is_coarse = False
    """True if all intermediate results, not just stored ones, may be in the dtype."""

    def __init__(
        self, encoding: EncodingRecord, variant: Variant, shape: Shape, seed: int
    ):
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.encoding, self.variant, self.shape = encoding, variant, shape
        self.heads = variant.heads
        self.positions = shape.positions
        if "tokens" in encoding.sizes:  # A table has rows for these positions only.
            self.positions = tuple(
                tuple(p % TOKENS for p in row) for row in shape.positions
            )
        if encoding.reach is not None:
            self.positions = tuple(
                tuple(math.fmod(p, encoding.reach) for p in row)
                for row in shape.positions
            )
        if encoding.axes is not None:
            rows = (np.array(row) / encoding.axes for row in self.positions)
            points = (points_of(row, encoding.axes).tolist() for row in rows)
            self.positions = tuple(tuple(map(tuple, row)) for row in points)
        unit = encoding.divisor(variant)
        self.d = -(-shape.d // unit) * unit
        self.module = encoding.make(variant, d=self.d, heads=self.heads)
        with torch.no_grad():
            for p in self.module.parameters():
                size = p.shape[-1] ** -0.5 if p.ndim > 1 else 1.0
                drawn = size * torch.randn_like(p) if p.requires_grad else p
                p.copy_(drawn.bfloat16())
        parameters = parameters_of(self.module)
        self.trained = [n for n, p in parameters.items() if p.requires_grad]
        self.parameters = {n: to_numpy(p) for n, p in parameters.items()}
        self.inputs = {n: self._draw(*s) for n, s in self.input_shapes().items()}
        self.inputs[next(iter(self.inputs))] *= shape.size
        self.values = self.inputs | self.parameters
        self.keywords = encoding.keywords(variant, d=self.d, heads=self.heads)
        self._at_start: dict[tuple, np.ndarray] = {}

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input, by the input's name."""
        raise NotImplementedError

    def routes(self, device: torch.device) -> dict[str, Callable]:
        """Return PyTorch's implementation by each route, as functions of the inputs.

        A route is a way in which PyTorch computes attention, such as ``"sdpa"``. Each
        function takes the input tensors by name and runs on ``device``.
        """
        raise NotImplementedError

    def reference_row(self, values: Arrays, row: int, arithmetic: Arithmetic):
        """Run the NumPy implementation on sequence number ``row`` of ``values``.

        ``values`` are inputs and parameters by name; ``arithmetic`` is the model of
        roundings, which adds random errors to every operation.
        """
        raise NotImplementedError

    def exact_row(self, values: Arrays, row: int):
        """Run the symbolic implementation on sequence number ``row`` of ``values``.

        ``values`` are inputs and parameters by name. The numbers have 40 digits.
        """
        raise NotImplementedError

    def _draw(self, *shape: int) -> np.ndarray:
        coarsest = self.shape.dtypes[-1]
        return rounded(self.rng.normal(size=shape), coarsest)

    def reference(self, values: Arrays, arithmetic: Arithmetic) -> np.ndarray:
        """Run NumPy on all sequences; raise Crossing if the result crosses a kink.

        A kink is a point where a result has no derivative. ``values`` are inputs and
        parameters by name; ``arithmetic`` is the model of roundings, which adds random
        errors to every operation. The results are stacked, one for each sequence.
        """
        rows = range(len(self.shape.positions))
        out = [np.asarray(self.reference_row(values, n, arithmetic)) for n in rows]
        if arithmetic.decisions != self.decisions:
            raise Crossing
        return np.stack(out)

    def exact(self, values: Arrays) -> np.ndarray:
        """Run the symbolic implementation on all sequences, to 40 digits.

        ``values`` are inputs and parameters by name.
        """
        rows = [self.exact_row(values, n) for n in range(len(self.shape.positions))]
        return np.vectorize(lambda e: sp.N(e, DIGITS), otypes=[object])(np.array(rows))

    def with_implementation(
        self, implementation: Callable, keywords: Arrays, positions: np.ndarray
    ) -> "Case":
        """Return a copy with equal inputs whose NumPy function is ``implementation``.

        ``keywords`` (the function's keyword arguments) and ``positions`` replace the
        keywords and positions of the copied object.
        """
        other = copy(self)
        other.encoding = SimpleNamespace(
            implementation=lambda _: implementation,
            name=self.encoding.name,
            axes=self.encoding.axes,
        )
        other.keywords, other.positions = keywords, positions
        other._forget()
        return other

    def _forget(self) -> None:
        """Drop results of another implementation, other inputs or other dtypes."""
        self._at_start = {}
        for name in _MEASURED:
            self.__dict__.pop(name, None)

    def evaluate(self) -> np.ndarray:
        """Run the NumPy implementation on all sequences, without added roundings."""
        rows = range(len(self.shape.positions))
        out = [self.reference_row(self.values, n, Arithmetic()) for n in rows]
        return np.stack([np.asarray(row) for row in out])

    def measure(self) -> None:
        """Compute and store NumPy's result; raise Crossing if it is next to a kink.

        What takes many runs, :attr:`spread` and :attr:`lines`, is measured here only if
        NumPy decides anything on the way: without a decision there is no kink.
        """
        self._forget()
        exact = Arithmetic()
        self.decisions = exact.decisions
        self.expected = self.reference(self.values, exact)
        self.upstream = self._draw(*self.expected.shape)
        if self.decisions:
            for measured in (self.spread, *(line.spread for line in self.lines)):
                for dtype in self.shape.dtypes:
                    _ = measured[dtype]

    @cached_property
    def spread(self) -> dict[torch.dtype, np.ndarray]:
        """Standard deviation of the result by simulated roundings, for each dtype."""
        return self._spread(self._start)

    @property
    def lines(self) -> list["Line"]:
        """Slopes of ⟨upstream gradient, result⟩ along inputs and parameters."""
        return self.input_lines + self.parameter_lines

    @cached_property
    def input_lines(self) -> list["Line"]:
        """Slopes of ⟨upstream gradient, result⟩ along inputs."""
        return [*self._lines("gradient", [*self.inputs])]

    @cached_property
    def parameter_lines(self) -> list["Line"]:
        """Slopes of ⟨upstream gradient, result⟩ along trained parameters."""
        return [*self._lines("parameters", self.trained)]

    @cached_property
    def gradients(self) -> Arrays:
        """PyTorch's gradients to inputs and trained parameters in float64, by name."""
        return self.run(self.routes(CPU)["eager"], torch.float64)[1]

    @cached_property
    def own_error(self) -> float:
        """Error of ⟨upstream gradient, result⟩ by the roundings of float64 itself."""
        product = self._spread(lambda a: self._sum(self._start(a)))
        own = DEVIATIONS * roundoff(torch.float64) * MAGNIFIED
        return own * float(product[torch.float64])

    def bound(self, dtype: torch.dtype) -> np.ndarray:
        """Return the bound on an implementation's error in ``dtype``, for each entry.

        The entries are those of the attention output.
        """
        own = roundoff(torch.float64) * self.spread[torch.float64]
        deviation = roundoff(dtype) * self.spread[dtype] + own
        return DEVIATIONS * deviation + torch.finfo(dtype).tiny

    def _spread(self, run: Callable[[Arithmetic], np.ndarray]) -> "_Spread":
        """Return the spread of what ``run`` computes with an :class:`Arithmetic`."""
        return _Spread(run, self.shape.dtypes, self.is_coarse)

    def _product(self, line: Arrays, t: float, arithmetic: Arithmetic) -> float:
        """Inner product ⟨upstream gradient, result⟩ for inputs moved along ``line``.

        ``line`` is a direction of inputs and parameters by name, by ``t`` times which
        they are moved. ``arithmetic`` is the model of roundings.
        """
        shifted = self.values | {n: self.values[n] + t * v for n, v in line.items()}
        return self._sum(self.reference(shifted, arithmetic))

    def _sum(self, result: np.ndarray) -> float:
        """Inner product ⟨upstream, result⟩ of the upstream gradient and ``result``."""
        return float((result * self.upstream).sum())

    def _start(self, arithmetic: Arithmetic) -> np.ndarray:
        """Return NumPy's result for the drawn inputs, with simulated roundings.

        ``arithmetic`` is the model of roundings. Results are cached by the sizes and
        the seed of the random errors.
        """
        if arithmetic.key not in self._at_start:
            result = self.reference(self.values, arithmetic.again())
            self._at_start[arithmetic.key] = result
        return self._at_start[arithmetic.key]

    def _lines(self, what: str, names: list[str]) -> Iterator[Line]:
        """Measure slopes along tensors of these names, which are inputs or parameters.

        ``what`` is ``"gradient"`` for inputs and ``"parameters"`` for parameters.
        """
        if self.shape.slopes == "none" or not names:
            return
        gradients = self.gradients
        mixed = {name: self._random(gradients[name]) for name in names}
        if self.shape.slopes == "each":
            for name in names:
                yield self._line(what, name, {name: gradients[name]})
        yield self._line(what, "all", mixed)

    def _random(self, gradient: np.ndarray) -> np.ndarray:
        """Random array with the signs of ``gradient`` where the gradient is not 0."""
        amounts = self.rng.normal(size=gradient.shape)
        return np.where(gradient == 0, amounts, np.abs(amounts) * np.sign(gradient))

    def _line(self, what: str, tensor: str, towards: Arrays) -> Line:
        """Measure NumPy's slope along ``towards``, a direction of inputs or parameters.

        If the direction is 0, a random one is taken. ``what`` is ``"gradient"`` for
        inputs and ``"parameters"`` for parameters; ``tensor`` is the name of the moved
        tensor, or ``"all"``.
        """
        if not any(v.any() for v in towards.values()):
            towards = {n: self._random(v) for n, v in towards.items()}
        length = np.sqrt(sum((v**2).sum() for v in towards.values()))
        line = {n: LONGEST * v / length for n, v in towards.items()}
        while True:
            try:
                at = partial(self._product, line)
                slope, error = difference(lambda t, at=at: at(t, Arithmetic()))
                break
            except Crossing:
                line = {n: v / 2 for n, v in line.items()}
                if sum((v**2).sum() for v in line.values()) < SHORTEST**2:
                    raise

        def rounded_slope(a: Arithmetic) -> float:
            """Slope of ⟨upstream gradient, result⟩ between two points of the line.

            Both points have the same random rounding errors, those of ``a``.
            """
            return (at(STEP, a.again()) - self._sum(self._start(a))) / STEP

        spread = self._spread(rounded_slope)
        return Line(what, tensor, line, slope, error + self.own_error, spread)

    def run(
        self, route: Callable, dtype: torch.dtype, device: str | torch.device = "cpu"
    ) -> tuple[np.ndarray, Arrays | None]:
        """Return PyTorch's result by ``route``, and its gradients, or ``None``.

        ``route`` is one of the functions that :meth:`routes` returns. Gradients are
        those to inputs and trained parameters by name; FlexAttention has none on a CPU.
        """
        self.module.to(device=device, dtype=dtype)
        leaves = {
            name: torch.tensor(v, dtype=dtype, device=device).requires_grad_()
            for name, v in self.inputs.items()
        }
        try:
            out = route(leaves)
        except NotImplementedError:  # FlexAttention has no gradients on a CPU.
            with torch.no_grad():
                detached = {name: leaf.detach() for name, leaf in leaves.items()}
                return to_numpy(route(detached)), None
        parameters = parameters_of(self.module)
        wanted = leaves | {name: parameters[name] for name in self.trained}
        gradients = torch.autograd.grad(
            out,
            list(wanted.values()),
            torch.tensor(self.upstream, dtype=dtype, device=device),
            allow_unused=True,
            materialize_grads=True,
        )
        slopes = dict(zip(wanted, map(to_numpy, gradients), strict=True))
        return to_numpy(out), slopes


class _Hooks(Case):
    """Inputs and implementations of an encoding that acts inside attention.

    Each implementation runs attention by a function ``attend``, which takes queries,
    keys, values and the encoding.
    """

    @staticmethod
    def attend_by(hooks: NumpyHooks) -> Callable[..., np.ndarray]:
        """Return the function that computes NumPy's attention with these hooks."""
        return attend

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of queries, keys and values, and of the layer's input x if needed."""
        batch, n, d = len(self.shape.positions), self.shape.tokens, self.d
        shapes = {"q": (batch, self.heads, n, d)}
        shapes |= dict.fromkeys("kv", (batch, self.heads // self._group, n, d))
        return shapes | (
            {"x": (batch, n, self.heads * d)} if self.module.needs_x else {}
        )

    @property
    def _group(self) -> int:
        return (self.shape.group or self.heads) if self.shape.is_grouped else 1

    @property
    def _axes(self) -> tuple[int, ...]:
        return () if self.encoding.axes is None else (self.encoding.axes,)

    @property
    def attention(self) -> dict[str, bool]:
        """Keyword arguments with which each implementation of attention is called.

        The only one is ``causal``, which says whether attention is causal.
        """
        return {"causal": self.module.needs_causal or self.shape.is_grouped}

    def routes(self, device: torch.device) -> dict[str, Callable]:
        """Return PyTorch's attention by every route that serves the encoding.

        A route is a way in which PyTorch computes attention, such as ``"sdpa"``. The
        result has a function of the input tensors (by name) for each route, to be run
        on ``device``.
        """
        served = [r for r in routes.ROUTES if self._serves(r)]
        if not (self.shape.is_grouped or trains_flex(device)):
            # Tracing FlexAttention takes seconds.
            served = [r for r in served if r != "flex"]
        return {route: partial(self._attend_torch, route=route) for route in served}

    def _serves(self, route: str) -> bool:
        try:
            return bool(routes.choose_route(self.module, route))
        except ValueError:
            return False

    def _attend_torch(
        self, leaves: Mapping[str, torch.Tensor], *, route: str
    ) -> torch.Tensor:
        q, k, v = (leaves[name] for name in "qkv")
        shape = (*q.shape[::2], *self._axes)
        positions = torch.tensor(np.array(self.positions), device=q.device)
        return attend_torch(
            q,
            k,
            v,
            self.module,
            positions=positions.reshape(shape),
            x=leaves.get("x"),
            route=route,
            **self.attention,
        )

    def reference_row(self, values: Arrays, row: int, arithmetic: Arithmetic):
        """Return NumPy's attention output for sequence number ``row`` of ``values``.

        ``values`` are inputs and parameters by name; ``arithmetic`` is the model of
        roundings, which adds random errors to every operation.
        """
        exact = arithmetic.exact
        parameters = {n: exact.wrap(values[n]) for n in self.parameters}
        hooks = self.encoding.implementation("numpy")(**self.keywords, **parameters)
        q, k, v = (arithmetic.wrap(values[name][row]) for name in "qkv")
        return self.attend_by(hooks)(
            q,
            k,
            v,
            arithmetic.hooks(hooks),
            positions=np.array(self.positions[row]).reshape(-1, *self._axes),
            x=arithmetic.wrap(values["x"][row]) if "x" in values else None,
            **self.attention,
        )

    def exact_row(self, values: Arrays, row: int):
        """Return SymPy's attention output for sequence number ``row`` of ``values``.

        ``values`` are inputs and parameters by name. The logits are evaluated to
        numbers first, which makes the run faster.
        """
        parameters = {n: _symbolic(values[n]) for n in self.parameters}
        hooks = self.encoding.implementation("sympy")(**self.keywords, **parameters)
        hooks = replace(hooks, logits=partial(_evaluated_logits, hooks))
        q, k, v = (_symbolic(values[name][row]) for name in "qkv")
        return attend_exactly(
            q,
            k,
            v,
            hooks,
            positions=[_rational(p) for p in self.positions[row]],
            x=_symbolic(values["x"][row]) if "x" in values else None,
            **self.attention,
        )


class _Layers(_Hooks):
    """Inputs and implementations of an encoding that changes positions by layer.

    Each layer changes the positions of the next.
    """

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of queries, keys and values, and of the MLP output."""
        batch, n = len(self.shape.positions), self.shape.tokens
        of_layer = (batch, n, self.heads * self.d)
        return super().input_shapes() | {"mlp_output": of_layer}

    @property
    def _group(self) -> int:
        return 1

    def _attend_torch(
        self, leaves: Mapping[str, torch.Tensor], *, route: str
    ) -> torch.Tensor:
        positions = torch.tensor(self.positions, device=leaves["q"].device)
        return run_layers(
            torch_steps,
            self.module,
            leaves["q"],
            leaves["k"],
            leaves["v"],
            leaves["mlp_output"],
            positions,
            route=route,
            **self.attention,
        )

    def reference_row(self, values: Arrays, row: int, arithmetic: Arithmetic):
        """Return NumPy's attention output after two layers, for sequence ``row``.

        ``values`` are inputs and parameters by name; ``arithmetic`` is the model of
        roundings, which adds random errors to every operation.
        """
        parameters = {n: arithmetic.exact.wrap(values[n]) for n in self.parameters}
        hooks = self.encoding.implementation("numpy")(**self.keywords, **parameters)
        mask = causal_mask(self.shape.tokens) if self.shape.is_grouped else None
        given = (arithmetic.wrap(values[n][row]) for n in ("q", "k", "v", "mlp_output"))
        positions = np.array(self.positions[row])
        hooks = arithmetic.hooks(hooks)
        return run_layers(reference_steps, hooks, *given, positions, mask=mask)

    def exact_row(self, values: Arrays, row: int):
        """Return SymPy's attention output after two layers, for sequence ``row``.

        ``values`` are inputs and parameters by name. Logits and positions are evaluated
        to numbers at every step.
        """
        parameters = {n: _symbolic(values[n]) for n in self.parameters}
        hooks = self.encoding.implementation("sympy")(**self.keywords, **parameters)
        start = hooks.locate
        hooks = replace(
            hooks,
            logits=partial(_evaluated_logits, hooks),
            locate=lambda at, x: tuple(b.evalf(DIGITS) for b in start(at, x)),
        )
        given = (_symbolic(values[name][row]) for name in ("q", "k", "v", "mlp_output"))
        positions = [sp.Rational(p) for p in self.positions[row]]
        return run_layers(exact_steps, hooks, *given, positions, **self.attention)


class _Block(Case):
    """Inputs and implementations of an encoding that is a whole attention block.

    A block may keep every intermediate result in the dtype. Its implementations are
    given positions if they take them.
    """

    is_coarse = True

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of the block's only input, x."""
        batch, n = len(self.shape.positions), self.shape.tokens
        return {"x": (batch, n, self.heads * self.d)}

    def routes(self, device: torch.device) -> dict[str, Callable]:
        """Return the PyTorch block by its default route and ``"eager"``.

        A route is a way in which PyTorch computes attention.
        """
        served = {routes.choose_route(self.module.encoding, None): None, "eager": None}
        at = (torch.tensor(self.positions, device=device),)
        at = at if self._takes_positions else ()
        return {route: partial(self._run_block, at, route=route) for route in served}

    @property
    def _takes_positions(self) -> bool:
        return (
            "positions" in signature(self.encoding.implementation("numpy")).parameters
        )

    def _run_block(
        self, at: tuple[torch.Tensor, ...], leaves: dict[str, torch.Tensor], route: str
    ) -> torch.Tensor:
        self.module.route = route
        return self.module(leaves["x"], *at)

    def reference_row(self, values: Arrays, row: int, arithmetic: Arithmetic):
        """Return the NumPy block's output for sequence number ``row`` of ``values``.

        ``values`` are inputs and parameters by name; ``arithmetic`` is the model of
        roundings, which adds random errors to every operation.
        """
        given = {n: values[n] for n in self.parameters} | self.keywords
        if self._takes_positions:
            given["positions"] = np.array(self.positions[row])
        return self.encoding.implementation("numpy")(
            arithmetic.wrap(values["x"][row]), **given
        )

    def exact_row(self, values: Arrays, row: int):
        """Return the SymPy block's output for sequence number ``row`` of ``values``.

        ``values`` are inputs and parameters by name. Positions are given with 40
        digits.
        """
        given = {n: _symbolic(values[n]) for n in self.parameters} | self.keywords
        if self._takes_positions:
            given["positions"] = _symbolic(np.array(self.positions[row]))
        return self.encoding.implementation("sympy")(
            _symbolic(values["x"][row]), **given
        )


def _evaluated_logits(hooks: Hooks, tokens: Tokens) -> Heads:
    """Logits of ``tokens`` with SymPy's ``hooks``, evaluated to 40-digit numbers.

    Hooks are the functions by which an encoding acts on attention. The logits are a
    matrix ``[queries, keys]`` for each head.
    """
    return tuple(matrix.evalf(DIGITS) for matrix in exact_logits(tokens, hooks))


def _rational(position: float | tuple[float, ...]):
    """Convert a position, or each coordinate of a position, to an exact rational."""
    if isinstance(position, tuple):
        return [sp.Rational(p) for p in position]
    return sp.Rational(position)


def _symbolic(value: np.ndarray):
    """Convert an array to a list or matrices of 40-digit SymPy numbers.

    An array of 1 axis becomes a list, of 2 axes a matrix, of 3 axes a list of matrices.
    """
    if value.ndim == 1:
        return [sp.Float(x, DIGITS) for x in value]
    if value.ndim == 3:
        return [_symbolic(matrix) for matrix in value]
    return sp.Matrix(*value.shape, [e for row in value for e in _symbolic(row)])


def _compare(
    tally: Tally,
    case: Case,
    calls: Mapping[str, Callable],
    device: torch.device,
    dtypes: tuple[torch.dtype, ...],
) -> None:
    for dtype in dtypes:
        for label, call in calls.items():
            if label == "flex" and not trains_flex(device) and dtype != torch.float64:
                continue  # Each is traced, which takes as long as all the rest.
            where = (f"numpy–torch {label}", device, dtype)
            with warnings.catch_warnings():  # FlexAttention is run eagerly on purpose.
                warnings.filterwarnings("ignore", "flex_attention called without")
                found = case.run(call, dtype, device)
            _compare_one(tally, case, where, *found)


def _compare_one(
    tally: Tally, case: Case, where: tuple, out: np.ndarray, slopes: Arrays | None
) -> None:
    implementations, *place = where
    dtype = place[-1]
    bound = case.bound(dtype)
    tally.add(implementations, "forward", *place, "out", out, case.expected, bound)
    if slopes is None:
        return
    for line in case.lines:
        key = (implementations, line.what, *place, line.tensor)
        tally.add(*key, line.along(slopes), line.slope, line.bound(dtype))


def _shifted(values: Arrays, line: Line, t: sp.Rational) -> Arrays:
    """Inputs and parameters moved by ``t`` along a direction, as 40-digit numbers.

    ``line`` has the direction. ``values`` holds inputs and parameters by name; those
    that the direction does not move are returned unchanged.
    """
    number = np.vectorize(lambda x: sp.Float(float(x), DIGITS), otypes=[object])
    shifted = {n: number(values[n]) + t * number(v) for n, v in line.direction.items()}
    return values | shifted


def _compare_exact(tally: Tally, case: Case) -> None:
    where = ("cpu", torch.float64)
    own = DEVIATIONS * roundoff(torch.float64) * case.spread[torch.float64]
    bound = own + torch.finfo(torch.float64).tiny
    exact = case.exact(case.values).astype(float)
    key = ("sympy–numpy", "forward", *where, "out")
    tally.add(*key, exact, case.expected, bound)
    step = sp.Rational(1, 10**12)
    for line in case.lines:
        if line.tensor != "all":
            continue
        ends = [case.exact(_shifted(case.values, line, s * step)) for s in (-1, 1)]
        slope = ((ends[1] - ends[0]) * case.upstream).sum() / (2 * step)
        key = ("sympy–numpy", line.what, *where, "all")
        tally.add(*key, float(slope), line.slope, line.error)
