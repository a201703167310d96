"""KERPLE: biases by a trained logarithm or a trained power of the distance."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from posedu._arguments import (
    KERPLEScaling,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.torch._tensors import require_shape
from posedu.torch.bias.distance import ByDistance, OfOffsets, matrix_by_distance
from posedu.torch.encoding import Tokens

PerHead = Float[Tensor, "heads"]
_LEAST = 0.01  # lower bound of initial values in the authors' code


class _KERPLE(ByDistance):
    """Base class of KERPLE's two biases: trained numbers per head, and the scaling.

    The bias is divided by √d unless ``scaling`` is ``"code"``.
    """

    heads: int

    def __init__(self, heads: int, scaling: KERPLEScaling):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.scaling = require_choice("scaling", scaling, KERPLEScaling)

    def _positive(self, name: str, start: PerHead | None, most: float) -> nn.Parameter:
        """Return a parameter that holds log r for each head, r a positive coefficient.

        The initial r is ``start``, ``[heads]``, if given, else drawn uniformly below
        ``most``, but not below 0.01. ``name`` is the coefficient's name in error
        messages.
        """
        first = self._start(name, start, most)
        if start is not None and (first <= 0).any():
            raise ValueError(f"{name} must be positive, got {first.tolist()}")
        return nn.Parameter(first.log())

    def _exponent(self, name: str, start: PerHead | None) -> nn.Parameter:
        """Return a parameter that holds the logit of r/2 for each head, r an exponent.

        The initial r, in (0, 2), is ``start``, ``[heads]``, if given, else drawn
        uniformly, but not below 0.01. ``name`` is the exponent's name in error
        messages.
        """
        first = self._start(name, start, 2.0)
        if start is not None and ((first <= 0) | (first >= 2)).any():
            raise ValueError(f"{name} must be in (0, 2), got {first.tolist()}")
        return nn.Parameter((first / 2).logit())

    def _start(self, name: str, start: PerHead | None, most: float) -> PerHead:
        if start is None:
            return (most * torch.rand(self.heads)).clamp(min=_LEAST)
        require_shape(name, start, (self.heads,))
        return start.detach()

    def _scaled(self, tokens: Tokens) -> OfOffsets:
        if self.scaling == "code":
            return self.of_offsets
        return lambda offsets: self.of_offsets(offsets) * self.scale(tokens.d)


class KERPLELog(_KERPLE):
    """KERPLE's logarithmic bias: −r1 log(1 + r2 t) of the distance t.

    arXiv 2205.09921, Corollary 1. The parameters are log r1 and log r2 of each head, so
    that both stay positive. In the authors' code one module serves every layer.
    Equation ``def-kerple``.

    Parameters
    ----------
    heads
        Query heads.
    scaling
        The terms divided by √d. ``"paper"``: products and bias (its Eq. 1). ``"code"``:
        products alone (the authors' code).
    powers
        Whether distances are raised to a trained power r3 in (0, 2): the paper's form
        with three parameters. Default false.
    r1, r2, r3
        Initial values, ``[heads]``. Default: uniform below 2, 1 and 2 (the authors'
        code has the first two), but not below 0.01.

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, unknown ``scaling``, an initial value of
        another shape or out of range, an r3 without ``powers``.
    """

    head_rows = ("log_r1", "log_r2", "logit_r3")

    def __init__(
        self,
        heads: int,
        *,
        scaling: KERPLEScaling,
        powers: bool = False,
        r1: PerHead | None = None,
        r2: PerHead | None = None,
        r3: PerHead | None = None,
    ):
        super().__init__(heads, scaling)
        self.powers = require_bool("powers", powers)
        if r3 is not None and not powers:
            raise ValueError("r3 is for powers=True")
        self.log_r1 = self._positive("r1", r1, 2.0)
        self.log_r2 = self._positive("r2", r2, 1.0)
        if powers:
            self.logit_r3 = self._exponent("r3", r3)

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """Return the bias −r1 log(1 + r2 t) of each offset ±t, in float64.

        An offset is query position minus key position; with ``powers``, t^r3 takes the
        place of t.
        """
        t = offsets.flatten().abs().to(torch.float64)
        if self.powers:
            t = _raised(t, self.logit_r3)
        logarithm = (_exp(self.log_r2) * t).log1p()
        return (-_exp(self.log_r1) * logarithm).unflatten(-1, offsets.shape)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.heads}, scaling={self.scaling!r}, powers={self.powers}"


class KERPLEPower(_KERPLE):
    """KERPLE's power bias: −r1 t^r2 of the distance t.

    arXiv 2205.09921, Corollary 1. The parameters are log r1 and the logit of r2/2 of
    each head, so that r1 stays positive and r2 in (0, 2). Equation ``def-kerple``.

    Parameters
    ----------
    heads, scaling
        Query heads, and the terms divided by √d; see :class:`KERPLELog`.
    weight
        Whether products are multiplied by e^(−r3 t^r4), the paper's form with a
        bias and a weight, and stores a matrix of all pairs. Default false.
    r1, r2, r3, r4
        Initial values, ``[heads]``. Default: uniform below 1, 2, 1 and 2, but not below
        0.01 (the authors' code).

    Raises
    ------
    TypeError, ValueError
        As :class:`KERPLELog`; an r3 or r4 without ``weight``.
    """

    head_rows = ("log_r1", "logit_r2", "log_r3", "logit_r4")

    def __init__(
        self,
        heads: int,
        *,
        scaling: KERPLEScaling,
        weight: bool = False,
        r1: PerHead | None = None,
        r2: PerHead | None = None,
        r3: PerHead | None = None,
        r4: PerHead | None = None,
    ):
        super().__init__(heads, scaling)
        self.weight = require_bool("weight", weight)
        if not weight and (r3 is not None or r4 is not None):
            raise ValueError("r3 and r4 are for weight=True")
        self.log_r1 = self._positive("r1", r1, 1.0)
        self.logit_r2 = self._exponent("r2", r2)
        if weight:
            self.log_r3 = self._positive("r3", r3, 1.0)
            self.logit_r4 = self._exponent("r4", r4)
        # With a weight, the logits are not products plus a bias.
        self.hooks -= {"bias" if weight else "logits"}

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """Return the bias −r1 t^r2 of each offset ±t, in float64.

        An offset is query position minus key position.
        """
        return _power(offsets, self.log_r1, self.logit_r2)

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return products q · k, times e^(−r3 t^r4) if ``weight``, plus the bias."""
        if not self.weight:
            return super().logits(tokens)
        weight = matrix_by_distance(self._weights, tokens)
        products = tokens.q @ tokens.k.mT * self.scale(tokens.d)
        return products * weight + matrix_by_distance(self._scaled(tokens), tokens)

    def _weights(self, offsets: Tensor) -> Tensor:
        return _power(offsets, self.log_r3, self.logit_r4).exp()

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.heads}, scaling={self.scaling!r}, weight={self.weight}"


def _power(offsets: Tensor, log_r: Tensor, logit_r: Tensor) -> Tensor:
    """Return −r |t|^e of every offset t, for each head's factor r and exponent e.

    ``log_r`` holds log r and ``logit_r`` the logit of e/2, both ``[heads]``. The tensor
    returned is float64, ``[heads, *offsets]``.
    """
    t = offsets.flatten().abs().to(torch.float64)
    return (-_exp(log_r) * _raised(t, logit_r)).unflatten(-1, offsets.shape)


def _exp(log_r: PerHead) -> Float[Tensor, "heads 1"]:
    return log_r.to(torch.float64).exp()[:, None]


def _raised(t: Tensor, logit_r: PerHead) -> Float[Tensor, "heads offsets"]:
    """Raise each distance t to the trained exponent of each head, in float64.

    ``t`` is ``[offsets]``; ``logit_r`` holds the logit of half the exponent. Where the
    distance is 0 the power is not computed, since its second derivatives there are NaN,
    but set to 0.
    """
    exponents = 2 * logit_r.to(torch.float64).sigmoid()[:, None]
    is_zero = t == 0
    return (t.masked_fill(is_zero, 1.0) ** exponents).masked_fill(is_zero, 0.0)
