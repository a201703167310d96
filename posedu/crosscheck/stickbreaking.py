r"""Errors of published softplus formulas in stick-breaking attention, and a bound.

A query's weights and their remainder add up to exactly one. In log space a weight is
:math:`e^{z - \sum}`, with a sum whose first term is nearly z again when the logit is
large. The two cancel only if they are computed as the same number.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posedu._argument_types import check_types, short_repr
from posedu._arguments import require_dimension, require_seed
from posedu._result_table import Table
from posedu.crosscheck.common import roundoff, to_numpy
from posedu.torch.stickbreaking import softplus

Array = np.ndarray
Form = Callable[[Tensor], Tensor]

CUT = 15.0
LOG2_E = math.log2(math.e)


def as_written(z: Tensor) -> Tensor:
    """Return the softplus log(1 + e^z), computed as the formula is written."""
    return (1 + z.exp()).log()


def cut(z: Tensor) -> Tensor:
    """Return the softplus log(1 + e^z) as it is written, or z itself for z above 15."""
    return torch.where(z > CUT, z, as_written(z))


def cut_in_base_2(z: Tensor) -> Tensor:
    """Return the published kernel's softplus of logits: in base 2, and z above the cut.

    The cut is at 15 in base 2, which is z = 15 ln 2.
    """
    s = z * LOG2_E
    return torch.where(s > CUT, s, (1 + s.exp2()).log2()) / LOG2_E


def stored_in_bfloat16(form: Form) -> Form:
    """Return the softplus formula ``form`` with results rounded to bfloat16."""
    return lambda z: form(z).bfloat16().float()


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "as written": as_written,
        "cut at 15": cut,
        "cut at 15 in base 2": cut_in_base_2,
        "log1p": softplus,
        "base 2, stored in bf16": stored_in_bfloat16(cut_in_base_2),
        "log1p, stored in bf16": stored_in_bfloat16(softplus),
    }
)


def softplus_error(form: Form, z: Float[Tensor, "logits"]) -> Float[Array, "logits"]:
    """Return the relative error of ``form``, a formula for log(1 + e^z), at each z.

    The error is 1 where the formula underflows to 0, and infinite where its value is
    infinite.
    """
    true = np.logaddexp(0, to_numpy(z))
    return np.abs(to_numpy(form(z)) - true) / true


@check_types
@dataclass(frozen=True)
class Sticks(Table):
    """Errors of stick-breaking weights, by formula of softplus and size of the logits.

    ``sizes`` are the largest sizes of a logit. ``weight`` holds the largest error of a
    weight for each formula, and ``excess`` the largest sum of a query's weights, minus
    1, both ``[sizes]``. ``bound`` is the bound, at each size, on the summed errors of
    one query's weights with PyTorch's softplus.
    """

    sizes: Float[Array, "sizes"]
    weight: Mapping[str, Float[Array, "sizes"]]
    excess: Mapping[str, Float[Array, "sizes"]]
    bound: Float[Array, "sizes"]

    def caption(self) -> str:
        """Return the caption: range of logits, and largest sum of a query's weights.

        The caption names the softplus formula with which the sum is largest.
        """
        longest = max(self.excess, key=lambda form: self.excess[form].max())
        return (
            f"Logits up to ±{self.sizes.max():.0f}, compared with float64. With the "
            f"form “{longest}” the weights of a row add up to as much as "
            f"{1 + self.excess[longest].max():.2f} sticks; with log1p they stay within "
            f"a bound of {self.bound.max():.0e}."
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the column heads, then a row for each softplus formula.

        A row has the largest error of a weight, and the largest sum of a query's
        weights, minus 1.
        """
        yield "softplus", "largest error of a weight", "largest sum of a row, minus 1"
        for form in self.weight:
            worst = self.weight[form].max(), self.excess[form].max()
            yield form, *(f"{value:.1e}" for value in worst)


@check_types
def break_sticks(
    sizes: Float[Array, "sizes"], *, rows: int = 256, keys: int = 256, seed: int = 0
) -> Sticks:
    """Measure errors of stick-breaking weights, by softplus formula and size of logits.

    The logits of ``rows`` queries and ``keys`` keys are one random pattern, uniform
    from −1 to 1, times each of ``sizes``, in float32.
    """
    require_dimension("rows", rows, 1)
    require_dimension("keys", keys, 1)
    if sizes.ndim != 1 or not sizes.size or not (sizes > 0).all():
        raise ValueError(f"sizes must be numbers above 0, got {short_repr(sizes)}")
    generator = torch.Generator().manual_seed(require_seed(seed))
    pattern = 2 * torch.rand(rows, keys, generator=generator) - 1
    logits = [pattern * float(size) for size in sizes]
    errors = {
        name: np.array([row_errors(form, z) for z in logits]).T
        for name, form in FORMS.items()
    }
    return Sticks(
        sizes,
        {name: weight for name, (weight, _) in errors.items()},
        {name: excess for name, (_, excess) in errors.items()},
        np.array([row_bound(z) for z in logits]),
    )


def row_errors(form: Form, logits: Float[Tensor, "rows keys"]) -> tuple[float, float]:
    """Return the largest error of a stick-breaking weight, and the largest sum minus 1.

    A sum is that of one query's weights of all keys, which should be at most 1.
    ``form`` is the softplus formula that is tested, applied to ``logits``. Errors are
    differences from float64 results.
    """
    weights = to_numpy((logits - _summed_outwards(form(logits))).exp())
    true, _ = _true(logits)
    error = np.abs(weights - true).max()
    return float(error), float(weights.sum(-1).max() - 1)


def row_bound(logits: Float[Tensor, "rows keys"]) -> float:
    """Return the bound on the summed errors of one query's weights with ``"log1p"``.

    ``"log1p"`` is PyTorch's formula of softplus. The derivation is that of
    ``eq-stick-bound``: each softplus is off by at most 4u of itself, each addition by u
    of the sum so far, the difference by u, and the exponential by 2u.
    """
    true, spent = _true(logits)
    passed = np.arange(logits.shape[-1], 0, -1)
    apart = np.abs(to_numpy(logits) - spent)
    relative = roundoff(logits.dtype) * ((passed + 4) * spent + apart + 2)
    return float((true * np.expm1(relative)).sum(-1).max())


def _true(
    logits: Float[Tensor, "rows keys"],
) -> tuple[Float[Array, "rows keys"], Float[Array, "rows keys"]]:
    """Return float64 stick-breaking weights, and sums of softplus from each key on.

    A sum is over the softplus of a query's logits of the key and of all nearer keys.
    """
    z = logits.double()
    spent = _summed_outwards(torch.logaddexp(z, torch.zeros_like(z)))
    return to_numpy((z - spent).exp()), to_numpy(spent)


def _summed_outwards(costs: Float[Tensor, "rows keys"]) -> Float[Tensor, "rows keys"]:
    """Sum ``costs`` over each key and all keys after it, which are nearer.

    ``costs`` are the softplus values of each query's logits.
    """
    return costs.flip(-1).cumsum(-1).flip(-1)
