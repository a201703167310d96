"""An encoding under autocast, in a layer, against the same layer in float64.

The layer takes every route that serves the encoding (FlexAttention has no gradient on a
CPU), with logits a few units wide. The bound is derived, not tuned: the unit roundoff u
of the dtype is carried through the layer by computing it in the open with every
rounding that autocast makes of weights, inputs and products (:class:`Rounded`), each as
large as it can be, up or down at random. The bound of an entry is 8 root mean squares
of what such runs are off by: independent errors add in squares, and a normal one passes
8 deviations once in 10^15. That roundings are as large as they can be triples their
variance, which covers the few that a kernel makes elsewhere and what is uncertain about
so few samples. All else is float32: a sum of n numbers of size one is off by n² u at
most.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, functional
from torch.overrides import TorchFunctionMode

from posedu.catalog import EncodingRecord, Variant
from posedu.crosscheck.common import (
    DEVIATIONS,
    Devices,
    Tally,
    to_numpy,
    trains_flex,
)
from posedu.torch import Attention, Encoding, Transformer
from posedu.torch.routes import ROUTES

D, TOKENS = 8, 24
SAMPLES = 8
DTYPES = (torch.bfloat16, torch.float16)

Numbers = tuple[Tensor, Tensor, Tensor]
"""Input, positions, upstream gradient."""


def compare(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare every route that serves one variant."""
    known: dict[tuple, tuple] = {}  # the layers of a variant differ in their route
    for layer in layers(encoding, variant, seed):
        route = getattr(layer, "route", "eager")
        able = [d for d in devices if route != "flex" or trains_flex(d)]
        stored = route == "sdpa" and not {"fold", "bias"}.isdisjoint(encoding.hooks)
        x, positions, upstream = numbers_of(layer, encoding.axes, seed=seed)
        if encoding.reach is not None and encoding.axes is not None:
            positions = positions.double().fmod(encoding.reach)
        numbers = x, positions, upstream
        names = ("out", "x", *(name for name, _ in _trained(layer)))
        for dtype, device in product(DTYPES, able):
            key = stored, dtype
            if key not in known:
                known[key] = reference(layer, numbers, dtype, stored=stored)
            found = use(layer, numbers, dtype, device)
            for name, *compared in zip(names, found, *known[key], strict=True):
                what = {"out": "forward", "x": "gradient"}.get(name, "parameters")
                tally.add(
                    f"float64–autocast {route}",
                    *(what, device, dtype, name),
                    *map(to_numpy, compared),
                )


def layers(encoding: EncodingRecord, variant: Variant, seed: int) -> Iterator[Module]:
    """A layer for every route that serves a variant, or what has no routes."""
    for route in ROUTES[:1] if encoding.of_model else ROUTES:
        torch.manual_seed(seed)
        with suppress(ValueError):
            yield _layer(encoding, variant, route)


def _layer(encoding: EncodingRecord, variant: Variant, route: str) -> Module:
    unit, heads = encoding.divisor(variant), variant.heads
    d = -(-D // unit) * unit
    if encoding.kind == "block":
        make = encoding.implementation("torch")
        return make(heads * d, heads, route=route, **variant.keywords)
    module = encoding.make(variant, d=d, heads=heads)
    if encoding.of_model:
        layers = 2 if encoding.kind == "layers" else 1
        return Transformer(heads * d, heads, layers, encoding=module)
    causal = module.needs_causal or not hasattr(module, "bidirectional")
    return Attention(heads * d, heads, encoding=module, route=route, causal=causal)


def numbers_of(
    layer: Module, axes: int | None = None, tokens: int = TOKENS, seed: int = 0
) -> Numbers:
    """Draw parameters of which logits are a few units wide, and the numbers."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for _, p in _trained(layer):
            if p.ndim > 1:
                p.normal_(0, 1.5 * p.shape[-1] ** -0.5)
    x = torch.randn(1, tokens, layer.d_model)
    shape = (tokens,) if axes is None else (tokens, axes)
    return x, torch.randint(0, 50, shape), torch.randn_like(x)


def _trained(layer: Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [(n, p) for n, p in layer.named_parameters() if p.requires_grad]


def reference(
    layer: Module, numbers: Numbers, dtype: torch.dtype, *, stored: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """What :func:`use` gives in float64, and the bounds of what it gives in ``dtype``.

    ``stored`` is explained at :class:`Rounded`.
    """
    exact = copy.deepcopy(layer).cpu().double()
    for part in exact.modules():
        if isinstance(part, Attention):
            part.route = "eager"
    x, positions, upstream = numbers
    expected = _run(exact, x.double(), positions, upstream)
    squares = [torch.zeros_like(t) for t in expected]
    with Rounded(exact, dtype, stored=stored):
        for _ in range(SAMPLES):
            rounded = _run(exact, x.double(), positions, upstream)
            for total, a, b in zip(squares, rounded, expected, strict=True):
                total += (a - b).square() / SAMPLES
    float32 = x[..., 0].numel() ** 2 * torch.finfo(torch.float32).eps / 2
    return expected, [DEVIATIONS * square.sqrt() + float32 for square in squares]


def use(
    layer: Module, numbers: Numbers, dtype: torch.dtype, device: torch.device
) -> list[Tensor]:
    """The result under autocast, and the gradients of input and parameters."""
    return _run(layer.to(device), *(t.to(device) for t in numbers), dtype=dtype)


def _run(
    layer: Module,
    x: Tensor,
    positions: Tensor,
    upstream: Tensor,
    dtype: torch.dtype | None = None,
) -> list[Tensor]:
    x = x.clone().requires_grad_()
    with torch.autocast(x.device.type, dtype, enabled=dtype is not None):
        out = layer(x, positions)
    wanted = [x, *(p for _, p in _trained(layer))]
    found = torch.autograd.grad(out, wanted, upstream.to(out.dtype))
    return [out.detach(), *found]


class _Rounding(torch.autograd.Function):
    """A number and its gradient, off at random.

    By u times its size and half of the smallest number, up or down.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Round ``x``."""
        ctx.dtype = dtype
        info = torch.finfo(dtype)
        sign = 2.0 * torch.randint(0, 2, x.shape) - 1
        off = sign * (info.eps * x.abs() + info.tiny * info.eps) / 2
        return torch.where(x.isfinite(), x + off, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Round the gradient."""
        return _Rounding.apply(gradient, ctx.dtype), None


_PRODUCTS = (functional.linear, Tensor.matmul, Tensor.__matmul__)
_STEPS = (
    *(Tensor.mul, Tensor.__mul__, Tensor.__rmul__, Tensor.__rsub__),
    *(torch.sigmoid, Tensor.sigmoid),
    *(functional.silu, functional.gelu, functional.rms_norm),
)
_EXACT = (
    *("locate", "embed", "enter", "rotate", "bias", "fold"),
    *("weigh", "log_gates", "update"),
)


class Rounded(TorchFunctionMode):
    """float64 with the roundings that autocast to ``dtype`` makes, at random.

    Off by u are the operands and results of products, among them the weights, and the
    results of the steps between projections and attention. Nothing is in the hooks
    that compute with angles, tables, gates, their sums and what they count: all that is
    float32 or better under autocast too, but for the weights that positions are moved
    by. ``stored``: the bias is an argument of a
    kernel, which takes it in its dtype.
    """

    def __init__(self, layer: Module, dtype: torch.dtype, *, stored: bool):
        super().__init__()
        self.dtype, self.depth = dtype, 0
        for encoding in layer.modules():
            if isinstance(encoding, Encoding):
                own = ("logits",) if encoding.opens("logits") else ()
                for name in (*_EXACT, *own):
                    if hasattr(encoding, name):
                        hook = self._exactly(getattr(encoding, name))
                        if name == "bias" and stored:
                            hook = self._storing(hook)
                        if name == "update":
                            hook = self._given_weights(hook)
                        setattr(encoding, name, hook)

    def _exactly(self, hook: Callable) -> Callable:
        def run(*args, **options):
            self.depth += 1
            try:
                return hook(*args, **options)
            finally:
                self.depth -= 1

        return run

    def _storing(self, hook: Callable) -> Callable:
        """The hook's bias less its largest of a row, which no weight depends on."""

        def run(tokens):
            bias = hook(tokens)
            hidden = bias.masked_fill(~tokens.mask, -torch.inf)
            return self._off(bias - hidden.detach().amax(-1, keepdim=True))

        return run

    def _given_weights(self, hook: Callable) -> Callable:
        """The hook, given weights as attention keeps them."""

        def run(weights, tokens, fed):
            return hook(self._off(weights), tokens, fed)

        return run

    def _off(self, x: Any) -> Any:
        is_number = isinstance(x, Tensor) and x.is_floating_point()
        return _Rounding.apply(x, self.dtype) if is_number else x

    def __torch_function__(
        self, function: Callable, types: Any, args: Sequence = (), kwargs: Any = None
    ) -> Any:
        if self.depth or function not in (*_PRODUCTS, *_STEPS):
            return function(*args, **(kwargs or {}))
        if function in _PRODUCTS:
            args = [self._off(x) for x in args]
        return self._off(function(*args, **(kwargs or {})))
