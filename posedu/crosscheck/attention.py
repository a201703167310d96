r"""Comparison of PyTorch's attention without an encoding with the NumPy reference.

Two computations of one formula never agree to the last bit. This module computes how
far apart they may be, a guaranteed bound: every number carries a bound on its own
error, a :class:`Ball`, through attention and through its derivative. A sum of n
products, in any order, is off by at most γₙ = n u / (1 − n u) times the sum of their
sizes, where u is the unit roundoff. So the bound holds for every route (way to compute
attention), in whatever order it sums. It lets every rounding go the wrong way, which
never happens: the bound of :mod:`posedu.crosscheck.attention_hooks` is statistical,
this one is certain, and generous.

The derivative is written by hand. Let g be the gradient of the output, and z̄ the
gradient that arrives at z. Then v̄ⱼ = Σᵢ aᵢⱼ m̄ᵢ and āᵢⱼ = m̄ᵢ · vⱼ; through the
softmax s̄ᵢⱼ = aᵢⱼ (āᵢⱼ − Σₗ aᵢₗ āᵢₗ); then q̄ᵢ = Σⱼ s̄ᵢⱼ kⱼ / √d and k̄ⱼ = Σᵢ s̄ᵢⱼ qᵢ /
√d. Fused kernels compute the inner sum as m̄ᵢ · mᵢ, the same number with another error;
the ball contains both.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posedu._argument_types import check_types
from posedu._arguments import require_choice
from posedu._renamed import renamed_names
from posedu.crosscheck import CrossCheck
from posedu.crosscheck.common import CPU, DTYPES, Tally, roundoff, to_numpy
from posedu.numpy.attention import Projections, attention, causal_mask, softmax
from posedu.torch import Attention, KVCache

Array = np.ndarray

TOKENS, D_MODEL, HEADS, KV_HEADS = 9, 16, 4, 2
ROUTES = ("sdpa", "eager", "flex")


@dataclass(frozen=True)
class Ball:
    """Array of numbers, each with a bound on its absolute error."""

    value: Array
    error: Array


def exact(value: Array) -> Ball:
    """Return an array as a :class:`Ball` whose error bounds are 0."""
    return Ball(value, np.zeros_like(value))


class BallArithmetic:
    """Operations on :class:`Ball` arrays, with bounds for a unit roundoff of ``u``."""

    def __init__(self, u: float):
        self.u = u

    def gamma(self, n: int) -> float:
        """Return γₙ = n u / (1 − n u), the largest relative error of n roundings."""
        return n * self.u / (1 - n * self.u)

    def einsum(self, equation: str, a: Ball, b: Ball) -> Ball:
        """Contract two balls like ``np.einsum``, and bound the errors of the sums.

        Balls are arrays whose numbers have error bounds. ``equation`` names the axes as
        in ``np.einsum``, such as ``"im,jm->ij"``.
        """
        value = np.einsum(equation, a.value, b.value)
        ones = np.ones_like(a.value), np.ones_like(b.value)
        terms = int(np.einsum(equation, *ones).max(initial=0))
        largest = abs(a.value) + a.error, abs(b.value) + b.error
        error = np.einsum(equation, largest[0], b.error)
        error += np.einsum(equation, a.error, abs(b.value))
        rounding = self.gamma(terms + 1) * np.einsum(equation, *largest)
        return Ball(value, error + rounding)

    def add(self, a: Ball, b: Ball) -> Ball:
        """Add two balls (arrays with error bounds), and bound the errors of sums."""
        value, error = a.value + b.value, a.error + b.error
        return Ball(value, error + self.u * (abs(value) + error))

    def scale(self, a: Ball, factor: float) -> Ball:
        """Multiply a ball (array with error bounds) by a number, rounded to the dtype.

        The result's bounds include the error of rounding ``factor``.
        """
        value, error = factor * a.value, abs(factor) * a.error
        return Ball(value, error + 2 * self.u * (abs(value) + error))

    def softmax(self, logits: Ball, mask: Bool[Array, "queries keys"]) -> Ball:
        """Return the softmax weights of masked logits, with bounds on their errors.

        ``mask`` is true where a query may attend to a key. If logits are off by E,
        weights are off by a factor of at most e^2E. The roundings of difference,
        exponential, sum and quotient are added to E.
        """
        off = np.where(mask, logits.error, 0).max(-1, keepdims=True)
        size = np.where(mask, abs(logits.value), 0).max(-1, keepdims=True)
        off = off + self.u * (2 * size + logits.value.shape[-1] + 8)
        value = softmax(logits.value, np.broadcast_to(mask, logits.value.shape))
        return Ball(value, value * np.expm1(2 * off))


def layer_and_gradient(
    x: Float[Array, "tokens d_model"],
    w: Projections,
    g: Float[Array, "tokens d_model"],
    mask: Bool[Array, "tokens tokens"],
    u: float,
) -> tuple[Ball, Ball]:
    """Return attention's output y for x, and the gradient of ⟨g, y⟩ with respect to x.

    ``w`` are the layer's weights, ``g`` is the upstream gradient (the gradient of a
    loss with respect to y), and ``mask`` is true where a query may attend to a key.
    Both results are balls (arrays with error bounds): the values are computed in
    float64, the error bounds are for a dtype with unit roundoff ``u``.
    """
    at = BallArithmetic(u)
    group = len(w.q) // len(w.k)
    x, g, w_q, w_o = exact(x), exact(g), exact(w.q), exact(w.o)
    w_k, w_v = exact(w.k.repeat(group, 0)), exact(w.v.repeat(group, 0))
    scale = w.q.shape[1] ** -0.5

    q, k, v = (at.einsum("hdm,im->hid", each, x) for each in (w_q, w_k, w_v))
    a = at.softmax(at.scale(at.einsum("hid,hjd->hij", q, k), scale), mask)
    m = at.einsum("hij,hjd->hid", a, v)
    y = at.einsum("mhd,hid->im", w_o, m)

    to_m = at.einsum("mhd,im->hid", w_o, g)
    to_v = at.einsum("hij,hid->hjd", a, to_m)
    to_a = at.einsum("hid,hjd->hij", to_m, v)
    inner = at.einsum("hij,hij->hi", a, to_a)
    fused = at.einsum("hid,hid->hi", to_m, m)
    center = Ball(-inner.value[..., None], (inner.error + fused.error)[..., None])
    to_s = at.scale(at.einsum("hij,hij->hij", a, at.add(to_a, center)), scale)
    to_q = at.einsum("hij,hjd->hid", to_s, k)
    to_k = at.einsum("hij,hid->hjd", to_s, q)
    by_q, by_k, by_v = (
        at.einsum("hdm,hid->im", w_each, to_each)
        for w_each, to_each in ((w_q, to_q), (w_k, to_k), (w_v, to_v))
    )
    return y, at.add(at.add(by_q, by_k), by_v)


@dataclass(frozen=True)
class Call:
    """One way to call PyTorch's attention layer, and the equivalent mask for NumPy.

    ``run`` calls the layer on its input, ``mask`` is true where a query may attend to a
    key, and ``causal`` says whether the layer is made causal.
    """

    run: Callable[[Attention, Tensor], Tensor]
    mask: Bool[Array, "tokens tokens"]
    causal: bool = True


def _plain(layer: Attention, x: Tensor) -> Tensor:
    return layer(x)


def _with_cache(layer: Attention, x: Tensor, *, pieces: int | tuple) -> Tensor:
    cache = KVCache()
    return torch.cat([layer(piece, cache=cache) for piece in x.split(pieces, 1)], 1)


def _packed(layer: Attention, x: Tensor) -> Tensor:
    return layer(x, segments=torch.tensor([_SEGMENTS]))


def _padded(layer: Attention, x: Tensor) -> Tensor:
    return layer(x, key_padding_mask=torch.tensor([_PADDING]))


_SEGMENTS = [0] * 4 + [1] * 5
_PADDING = [False] * 7 + [True] * 2
_EVERYTHING = np.ones((TOKENS, TOKENS), dtype=bool)
_CAUSAL = causal_mask(TOKENS)

CALLS = MappingProxyType(
    {
        "no mask": Call(_plain, _EVERYTHING, causal=False),
        "causal": Call(_plain, _CAUSAL),
        "cache, two pieces": Call(partial(_with_cache, pieces=(5, 4)), _CAUSAL),
        "cache, one by one": Call(partial(_with_cache, pieces=1), _CAUSAL),
        "packed": Call(_packed, _CAUSAL & np.equal.outer(_SEGMENTS, _SEGMENTS)),
        "padding": Call(_padded, _EVERYTHING & ~np.array(_PADDING), causal=False),
    }
)
MUTANTS = MappingProxyType({"mask off by one": Call(_plain, np.tril(_EVERYTHING, 1))})


@check_types
def crosscheck_attention(
    routes: Sequence[str] = ROUTES,
    calls: Sequence[str] = tuple(CALLS),
    *,
    dtypes: Sequence[torch.dtype] = DTYPES,
    compiled: bool = False,
    seed: int = 0,
) -> CrossCheck:
    """Compare PyTorch's attention layer with NumPy's on the CPU, forward and backward.

    The layer has nine tokens, four query heads that share two key heads, and random
    weights and inputs. It is compared for every route (way to compute attention), dtype
    and way to call the layer.

    Parameters
    ----------
    routes
        Routes of :class:`posedu.torch.attention.Attention`. FlexAttention has no
        gradient on a CPU, so only its output is compared.
    calls
        Ways to call the layer, each of which is one mask for the reference: ``"no
        mask"``; ``"causal"``, also with a cache in ``"cache, two pieces"`` and
        ``"cache, one by one"``; ``"packed"``, two sequences in a row; ``"padding"`` at
        the end. ``"mask off by one"`` is a mutant, a fault made on purpose: the
        reference lets queries attend to the next key, so that the outputs differ.
    dtypes
        Dtypes of the layer.
    compiled
        Whether the layer is compiled, as one graph.
    seed
        Seed of the weights, inputs and gradients.

    Raises
    ------
    ValueError
        A route or call is unknown.
    """
    for route in routes:
        require_choice("routes", route, ROUTES)
    known = {**CALLS, **MUTANTS}
    for call in calls:
        require_choice("calls", call, tuple(known))
    tally = Tally()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without")
        torch.manual_seed(seed)
        for route in routes:
            for dtype in dtypes:
                for call in calls:
                    _compare(tally, route, dtype, known[call], compiled)
    return CrossCheck("attention", tally.rows())


def _compare(
    tally: Tally, route: str, dtype: torch.dtype, call: Call, compiled: bool
) -> None:
    """Compare one attention layer's output, and its gradient if the route has one.

    ``route`` is the layer's way to compute attention, ``call`` the way to call the
    layer; ``compiled`` says whether the layer is compiled. Errors from NumPy are added
    to ``tally``.
    """
    layer = Attention(
        D_MODEL, HEADS, kv_heads=KV_HEADS, causal=call.causal, route=route
    ).to(dtype)
    module = torch.compile(layer, fullgraph=True) if compiled else layer
    x, g = torch.randn(2, 1, TOKENS, D_MODEL).to(dtype)
    x.requires_grad_(route != "flex")
    with torch.set_grad_enabled(x.requires_grad):
        out = call.run(module, x)
    computed = [out]
    if x.requires_grad:
        computed += torch.autograd.grad(out, x, g)

    x, g, w = to_numpy(x)[0], to_numpy(g)[0], _projections(layer)
    y, slope = layer_and_gradient(x, w, g, call.mask, roundoff(torch.float64))
    y = Ball(attention(x, w, mask=call.mask), y.error)
    in_dtype = layer_and_gradient(x, w, g, call.mask, roundoff(dtype))
    implementations = f"numpy–torch {route}" + (", compiled" if compiled else "")
    passes = zip(("forward", "gradient"), computed, (y, slope), in_dtype, strict=False)
    for what, tensor, reference, rounded in passes:
        bound = rounded.error + reference.error
        found = to_numpy(tensor)[0]
        tally.add(implementations, what, CPU, dtype, "x", found, reference.value, bound)


def _projections(layer: Attention) -> Projections:
    """Return an attention layer's weights as NumPy arrays, separated by heads.

    They are the matrices of queries, keys, values and output, in this order: ``[heads,
    d, d_model]``, and ``[d_model, heads, d]`` for the output.
    """

    def by_heads(linear: torch.nn.Linear, axis: int) -> Array:
        return to_numpy(linear.weight.unflatten(axis, (-1, layer.d)))

    q, k, v = (by_heads(each, 0) for each in (layer.q, layer.k, layer.v))
    return Projections(q, k, v, by_heads(layer.o, 1))


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
