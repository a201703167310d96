"""Comparison of a layer with an encoding under autocast with the same layer in float64.

The layer takes every route (way to compute attention) that serves the encoding
(FlexAttention has no gradient on a CPU), with logits a few units wide. The bound is
derived, not tuned. The unit roundoff u of the dtype is carried through the layer: the
layer is run by the route "eager" with every rounding that autocast makes of weights,
inputs and products (:class:`Rounded`), each as large as it can be, up or down at
random. A kernel that computes no gradient from stored weights takes the softmax's
gradient from its own output, which is rounded: dS = P (dP − dO · O), so that rounding
is carried, too. The bound of an entry is 8 root mean squares of the errors of such
runs: independent errors add in squares, and a normal error exceeds 8 deviations once in
10^15. Taking roundings as large as they can be triples their variance, which covers the
few roundings that a kernel makes elsewhere and the uncertainty of so few samples.
Everything else is float32: a sum of n numbers of size one is off by at most n² u.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module, functional
from torch.overrides import TorchFunctionMode

from posedu._renamed import renamed_names
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
_KERNELS = ("sdpa", "flex", "folded")
SAMPLES = 8
DTYPES = (torch.bfloat16, torch.float16)

Numbers = tuple[Tensor, Tensor, Tensor]
"""The input, the positions and the upstream gradient."""


def compare(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare a layer under autocast with float64, by every route, and fill ``tally``.

    A route is a way in which PyTorch computes attention. ``variant`` is the
    configuration (set of options) of the encoding in the layer. The layer runs on each
    of ``devices``, and ``seed`` fixes its random inputs and parameters.
    """
    # The layers of a variant differ in their route alone, so they share a reference.
    known: dict[tuple, tuple] = {}
    for layer in layers(encoding, variant, seed):
        route = getattr(layer, "route", "eager")
        able = [d for d in devices if route != "flex" or trains_flex(d)]
        kernel = route in _KERNELS
        stored = route == "sdpa" and not {"fold", "bias"}.isdisjoint(encoding.hooks)
        x, positions, upstream = draw_numbers(layer, encoding.axes, seed=seed)
        if encoding.reach is not None and encoding.axes is not None:
            positions = positions.double().fmod(encoding.reach)
        numbers = x, positions, upstream
        names = ("out", "x", *(name for name, _ in _trained(layer)))
        for dtype, device in product(DTYPES, able):
            key = stored, kernel, dtype
            if key not in known:
                known[key] = reference(
                    layer, numbers, dtype, stored=stored, kernel=kernel
                )
            found = run_under_autocast(layer, numbers, dtype, device)
            for name, *compared in zip(names, found, *known[key], strict=True):
                what = {"out": "forward", "x": "gradient"}.get(name, "parameters")
                tally.add(
                    f"float64–autocast {route}",
                    what,
                    device,
                    dtype,
                    name,
                    *map(to_numpy, compared),
                )


def layers(encoding: EncodingRecord, variant: Variant, seed: int) -> Iterator[Module]:
    """Yield a layer with the encoding for every route that serves the encoding.

    A route is a way in which PyTorch computes attention, such as ``"sdpa"``. For an
    encoding that acts outside the layers one model is yielded, which has no route.
    ``variant`` is the encoding's configuration (set of options); ``seed`` fixes the
    random parameters.
    """
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


def draw_numbers(
    layer: Module, axes: int | None = None, tokens: int = TOKENS, seed: int = 0
) -> Numbers:
    """Draw a layer's parameters; return its input, positions and upstream gradient.

    The matrices among the parameters are drawn so that logits are a few units wide.
    ``axes`` is the number of coordinates of a position, ``None`` for plain numbers.
    Input and gradient are ``[1, tokens, d_model]``.
    """
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
    layer: Module,
    numbers: Numbers,
    dtype: torch.dtype,
    *,
    stored: bool,
    kernel: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return a layer's float64 results, and bounds on their errors under autocast.

    ``numbers`` are the input, the positions and the upstream gradient. The results are
    the output and the gradients that :func:`run_under_autocast` returns; autocast is to
    ``dtype``. ``stored`` says whether a kernel takes the bias in ``dtype``, ``kernel``
    whether one computes the gradient from the rounded output, as in :class:`Rounded`.
    """
    exact = copy.deepcopy(layer).cpu().double()
    for part in exact.modules():
        if isinstance(part, Attention):
            part.route = "eager"
    x, positions, upstream = numbers
    expected = _run(exact, x.double(), positions, upstream)
    squares = [torch.zeros_like(t) for t in expected]
    with Rounded(exact, dtype, stored=stored, kernel=kernel):
        for _ in range(SAMPLES):
            rounded = _run(exact, x.double(), positions, upstream)
            for total, a, b in zip(squares, rounded, expected, strict=True):
                total += (a - b).square() / SAMPLES
    float32 = x[..., 0].numel() ** 2 * torch.finfo(torch.float32).eps / 2
    return expected, [DEVIATIONS * square.sqrt() + float32 for square in squares]


def run_under_autocast(
    layer: Module, numbers: Numbers, dtype: torch.dtype, device: torch.device
) -> list[Tensor]:
    """Return a layer's output under autocast to ``dtype`` on ``device``, and gradients.

    ``numbers`` are the input, the positions and the upstream gradient. The list has the
    output, then the gradients to the input and to each trained parameter.
    """
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
    """Autograd function that adds a random rounding error to a tensor and its gradient.

    The error is u, the dtype's unit roundoff, times the number's size plus half of the
    dtype's smallest subnormal number, up or down.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Return ``x`` with a random rounding error of ``dtype`` in each entry."""
        ctx.dtype = dtype
        info = torch.finfo(dtype)
        sign = 2.0 * torch.randint(0, 2, x.shape) - 1
        off = sign * (info.eps * x.abs() + info.tiny * info.eps) / 2
        return torch.where(x.isfinite(), x + off, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient with a random rounding error in each entry, and ``None``.

        ``None`` stands in the place of a gradient to ``dtype``.
        """
        return _Rounding.apply(gradient, ctx.dtype), None


class _RoundedRow:
    """Weights P and dO · (error of O), which the gradient of a softmax needs."""

    weights: Tensor
    off: Tensor


class _Output(torch.autograd.Function):
    """Autograd function whose backward pass notes dO · (random rounding error of O)."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, row: _RoundedRow, dtype: torch.dtype) -> Tensor:
        """Return the attention output ``out``; ``row`` is where the error is noted."""
        ctx.save_for_backward(out)
        ctx.row, ctx.dtype = row, dtype
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient as it is, and ``None`` for each other argument."""
        (out,) = ctx.saved_tensors
        off = _Rounding.apply(out, ctx.dtype) - out
        ctx.row.off = (gradient * off).sum(-1, keepdim=True)
        return gradient, None, None


class _Logits(torch.autograd.Function):
    """Autograd function that subtracts P dO · (error of O) from the gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, row: _RoundedRow) -> Tensor:
        """Return ``logits``; ``row`` has the weights P and the noted error."""
        ctx.row = row
        return logits.view_as(logits)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of a softmax whose output is rounded, and ``None``."""
        return gradient - ctx.row.weights.detach() * ctx.row.off, None


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
    """Torch mode that adds autocast's roundings, at random, to float64 operations.

    Operands and results of products (weights among them) are off by u, the unit
    roundoff of ``dtype``, and so are the results of the steps between projections and
    attention. Hooks are the methods by which an encoding acts on attention. Those that
    compute with angles, tables, gates, their sums and counts are exact: all of that is
    float32 or better under autocast, too. The exceptions are the attention weights with
    which a layer's positions are updated and, if ``stored``, the bias, which is then
    the argument of a kernel that takes ``dtype``. If ``kernel``, the gradient to the
    logits P (dP − dO · O) is that of an output O that is off by u.
    """

    def __init__(
        self, layer: Module, dtype: torch.dtype, *, stored: bool, kernel: bool = False
    ):
        super().__init__()
        self.dtype, self.depth = dtype, 0
        self.row: _RoundedRow | None = None
        for encoding in layer.modules():
            if isinstance(encoding, Encoding):
                own = ("logits",) if encoding.uses("logits") else ()
                for name in (*_EXACT, *own):
                    if hasattr(encoding, name):
                        hook = self._without_rounding(getattr(encoding, name))
                        if name == "bias" and stored:
                            hook = self._with_rounded_bias(hook)
                        if name == "update":
                            hook = self._with_rounded_weights(hook)
                        if name == "weigh" and kernel:
                            hook = self._with_rounded_output(hook)
                        setattr(encoding, name, hook)

    def _without_rounding(self, hook: Callable) -> Callable:
        def run(*args, **options):
            self.depth += 1
            try:
                return hook(*args, **options)
            finally:
                self.depth -= 1

        return run

    def _with_rounded_bias(self, hook: Callable) -> Callable:
        """Wrap a ``bias`` hook: subtract each query's largest bias, then round.

        The hook is the method that returns an encoding's bias. Weights do not depend on
        a constant that is subtracted from a query's logits.
        """

        def run(tokens):
            bias = hook(tokens)
            hidden = bias.masked_fill(~tokens.mask, -torch.inf)
            return self._rounded(bias - hidden.detach().amax(-1, keepdim=True))

        return run

    def _with_rounded_weights(self, hook: Callable) -> Callable:
        """Wrap an ``update`` hook, which then gets rounded attention weights.

        The hook is the method that returns the positions of the next layer.
        """

        def run(weights, tokens, mlp_output):
            return hook(self._rounded(weights), tokens, mlp_output)

        return run

    def _with_rounded_output(self, hook: Callable) -> Callable:
        """Wrap a ``weigh`` hook: its gradient is computed from a rounded output.

        The hook is the method that returns attention weights.
        """

        def run(logits, tokens):
            self.row = _RoundedRow()
            self.row.weights = hook(_Logits.apply(logits, self.row), tokens)
            return self.row.weights

        return run

    def _rounded(self, x: Any) -> Any:
        is_number = isinstance(x, Tensor) and x.is_floating_point()
        return _Rounding.apply(x, self.dtype) if is_number else x

    def __torch_function__(
        self, function: Callable, types: Any, args: Sequence = (), kwargs: Any = None
    ) -> Any:
        if self.depth or function not in (*_PRODUCTS, *_STEPS):
            return function(*args, **(kwargs or {}))
        row = self.row
        is_output = row is not None and args[0] is row.weights
        if function in _PRODUCTS:
            args = [self._rounded(x) for x in args]
        result = function(*args, **(kwargs or {}))
        if is_output:
            result = _Output.apply(result, row, self.dtype)
        return self._rounded(result)


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
