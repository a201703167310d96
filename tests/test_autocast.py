"""Every encoding under autocast, forward and gradients, against float64."""

import copy
from contextlib import nullcontext, suppress

import pytest
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from posedu.catalog import CATALOG
from posedu.torch import (
    Attention,
    CoPE,
    Encoding,
    FoX,
    FoXPro,
    StickBreaking,
    Transformer,
    attention,
    folding,
    routes,
    stickbreaking,
)

D, TOKENS = 8, 24
SAMPLES, DEVIATIONS = 8, 8
BF16, FP16 = torch.bfloat16, torch.float16

pytestmark = pytest.mark.usefixtures("unchecked")


class Rounding(torch.autograd.Function):
    """A number off by u times its size and half of the smallest one, up or down at
    random; and its gradient likewise."""

    @staticmethod
    def forward(ctx, x, dtype):
        ctx.dtype = dtype
        info = torch.finfo(dtype)
        sign = 2.0 * torch.randint(0, 2, x.shape) - 1
        off = sign * (info.eps * x.abs() + info.tiny * info.eps) / 2
        return torch.where(x.isfinite(), x + off, x)

    @staticmethod
    def backward(ctx, gradient):
        return Rounding.apply(gradient, ctx.dtype), None


PRODUCTS = (functional.linear, torch.Tensor.matmul, torch.Tensor.__matmul__)
STEPS = (
    *(torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__),
    *(torch.Tensor.__rsub__, torch.sigmoid, torch.Tensor.sigmoid),
    *(functional.silu, functional.gelu, functional.rms_norm),
)
EXACT = ("rotate", "bias", "fold", "embed", "weigh", "log_gates")


class Rounded(TorchFunctionMode):
    """float64 with the roundings that autocast to ``dtype`` makes, at random.

    Off by u are the operands and results of products, among them the weights, and the
    results of the steps between projections and attention. Nothing is in the doors
    ``EXACT``: angles, tables, gates, their sums and what they count are float32 or
    better under autocast too. ``stored``: the bias is an argument of a kernel, which
    takes it in its dtype.
    """

    def __init__(self, model, dtype, *, stored):
        super().__init__()
        self.dtype, self.depth = dtype, 0
        for encoding in model.modules():
            if isinstance(encoding, Encoding):
                own = ("logits",) if encoding.opens("logits") else ()
                for name in (*EXACT, *own):
                    if hasattr(encoding, name):
                        door = self.exactly(getattr(encoding, name))
                        if name == "bias" and stored:
                            door = self.storing(door)
                        setattr(encoding, name, door)

    def exactly(self, door):
        def run(*args, **options):
            self.depth += 1
            try:
                return door(*args, **options)
            finally:
                self.depth -= 1

        return run

    def storing(self, door):
        """The door's bias less its largest of a row, which no weight depends on."""

        def run(tokens):
            bias = door(tokens)
            hidden = bias.masked_fill(~tokens.mask, -torch.inf)
            return self.off(bias - hidden.detach().amax(-1, keepdim=True))

        return run

    def off(self, x):
        is_number = isinstance(x, torch.Tensor) and x.is_floating_point()
        return Rounding.apply(x, self.dtype) if is_number else x

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if self.depth or function not in (*PRODUCTS, *STEPS):
            return function(*args, **(kwargs or {}))
        if function in PRODUCTS:
            args = [self.off(x) for x in args]
        return self.off(function(*args, **(kwargs or {})))


def run(model, x, positions, upstream):
    """The result, and the gradients of the input and of every parameter."""
    x = x.clone().requires_grad_()
    return gradients(model, x, model(x, positions), upstream)


def gradients(model, x, out, upstream):
    wanted = [x, *(p for p in model.parameters() if p.requires_grad)]
    found = torch.autograd.grad(out, wanted, upstream.to(out.dtype), allow_unused=True)
    return [out.detach(), *(g for g in found if g is not None)]


def reference(model, numbers, dtype, *, stored):
    """What :func:`run` gives in float64, and the bound of what it gives under autocast.

    The bound is derived, not tuned: the unit roundoff u of the dtype is carried through
    the model by computing it in the open with every rounding that autocast makes of
    weights, inputs and products (:class:`Rounded`), each as large as it can be, up or
    down at random. The bound of an entry is 8 root mean squares of what such runs are
    off by: independent errors add in squares, and a normal one passes 8 deviations once
    in 10^15. That roundings are as large as they can be triples their variance, which
    covers the few that a kernel makes elsewhere and what is uncertain about so few
    samples. All else is float32: a sum of n numbers of size one is off by n² u at most.
    """
    exact = copy.deepcopy(model).double()
    for layer in exact.modules():
        if isinstance(layer, Attention):
            layer.route = "eager"
    x, positions, upstream = numbers
    numbers = x.double(), positions, upstream
    expected = run(exact, *numbers)
    squares = [torch.zeros_like(t) for t in expected]
    with Rounded(exact, dtype, stored=stored):
        for _ in range(SAMPLES):
            for total, a, b in zip(
                squares, run(exact, *numbers), expected, strict=True
            ):
                total += (a - b).square() / SAMPLES
    float32 = x[..., 0].numel() ** 2 * torch.finfo(torch.float32).eps / 2
    return expected, [DEVIATIONS * square.sqrt() + float32 for square in squares]


def use(model, numbers, dtype, expected, bounds):
    """The largest error under autocast as a part of its bound."""
    with torch.autocast("cpu", dtype):
        x, positions, upstream = numbers
        x = x.clone().requires_grad_()
        out = model(x, positions)
    found = gradients(model, x, out, upstream)
    return max(
        ((a.double() - b).abs() / bound).max().item()
        for a, b, bound in zip(found, expected, bounds, strict=True)
    )


def numbers_of(model, axes=None, tokens=TOKENS, seed=0):
    """Parameters of which logits are a few units wide, input, positions, gradient."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad and p.ndim > 1:
                p.normal_(0, 1.5 * p.shape[-1] ** -0.5)
    x = torch.randn(1, tokens, model.d_model)
    shape = (tokens,) if axes is None else (tokens, axes)
    positions = torch.randint(0, 50, shape)
    return x, positions, torch.randn_like(x)


def layers(entry, variant):
    """A layer for every route that serves a variant, or what has no routes."""
    d = -(-D // entry.divisor(variant)) * entry.divisor(variant)
    heads, width = variant.heads, variant.heads * d
    for route in ("eager", "sdpa", "folded", "fused"):
        torch.manual_seed(1)
        if entry.doors == ("embed",):
            encoding = entry.make(variant, d=d, heads=heads)
            if route == "eager":
                yield Transformer(width, heads, 1, encoding=encoding)
            continue
        with suppress(ValueError):
            if entry.kind == "block":
                yield entry.face("torch")(width, heads, route=route, **variant.keywords)
                continue
            encoding = entry.make(variant, d=d, heads=heads)
            causal = encoding.needs_causal or not hasattr(encoding, "bidirectional")
            yield Attention(width, heads, encoding=encoding, route=route, causal=causal)


CASES = {
    f"{entry.label(variant)}-{dtype}".replace("torch.", ""): (entry, variant, dtype)
    for entry in CATALOG.values()
    for dtype, variants in ((BF16, entry.variants), (FP16, entry.variants[:1]))
    for variant in variants
}


@pytest.mark.parametrize("case", CASES)
def test_every_encoding_is_as_exact_as_its_products(case):
    entry, variant, dtype = CASES[case]
    known = {}
    for layer in layers(entry, variant):
        route = getattr(layer, "route", "eager")
        stored = route == "sdpa" and {"fold", "bias"} & {*entry.doors} != set()
        numbers = numbers_of(layer, entry.axes)
        if stored not in known:
            known[stored] = reference(layer, numbers, dtype, stored=stored)
        used = use(layer, numbers, dtype, *known[stored])
        print(f"{case:60} {route:7} {used:.2f}")
        assert used < 1, route


def shielded_nowhere(monkeypatch):
    """Autocast reaches into layers and kernels, not into their backward passes."""
    for module in (attention, folding, stickbreaking):
        monkeypatch.setattr(module, "without_autocast", lambda x: nullcontext())
    monkeypatch.setattr(attention, "lowered", lambda *tensors: tensors)


def stored_as_it_is(monkeypatch):
    """The kernel is given the bias in its dtype without its largest taken off."""

    def sdpa(encoding, tokens):
        mask = encoding.bias(tokens).to(tokens.q.dtype)
        return functional.scaled_dot_product_attention(
            tokens.q,
            tokens.k,
            tokens.v,
            attn_mask=mask.masked_fill(~tokens.mask, -torch.inf),
            scale=encoding.scale(tokens.d),
        )

    monkeypatch.setitem(routes.BY_NAME, "sdpa", sdpa)


def sticks():
    """Long logits: where the backward pass forms others, weights are no weights."""
    encoding = StickBreaking(attend_current=False, remainder="drop")
    layer = Attention(32, 2, encoding=encoding, route="fused")
    numbers = numbers_of(layer, tokens=64)
    with torch.no_grad():
        layer.q.weight *= 2
        layer.k.weight *= 2
    return layer, numbers


def counted():
    """More gates than vectors, all nearly 1, of a table without kinks."""
    largest = 257  # bfloat16 has 256 and 258
    table = torch.randn(8, 1) * torch.arange(largest + 1) / largest
    layer = Attention(16, 2, encoding=CoPE(8, npos=largest + 1, scaling="code"))
    x, positions, upstream = numbers_of(layer, tokens=300)
    with torch.no_grad():
        layer.encoding.table.copy_(table)
        layer.k.weight.copy_(layer.q.weight)
    return layer, (0.1 * x + 1, positions, upstream)


def keyed():
    """The form of FoX whose bias grows with the length."""
    layer = Attention(16, 2, encoding=FoX(16, 2, form="key"), route="sdpa")
    return layer, numbers_of(layer, tokens=64)


def normed():
    """Queries that a gain makes float32 again, with the bias among their features."""
    layer = FoXPro(16, 2, route="folded")
    return layer, numbers_of(layer, tokens=64)


FAULTS = {
    "sticks": (sticks, shielded_nowhere),
    "counted": (counted, shielded_nowhere),
    "keyed": (keyed, stored_as_it_is),
    "normed": (normed, shielded_nowhere),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_was_wrong_under_autocast_is_outside_its_bound(name, monkeypatch):
    torch.manual_seed(2)
    made, fault = FAULTS[name]
    layer, numbers = made()
    stored = layer.route == "sdpa"
    known = reference(layer, numbers, BF16, stored=stored)
    used = use(layer, numbers, BF16, *known)
    fault(monkeypatch)
    wrong = torch.inf
    with suppress(RuntimeError, IndexError):  # a position beyond the table
        wrong = use(layer, numbers, BF16, *known)
    print(f"{name:60} {used:.2f} {wrong:.2f}")
    assert used < 1 < wrong
