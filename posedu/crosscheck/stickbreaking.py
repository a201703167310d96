r"""What a softplus costs a stick: its published forms, their errors, a row's bound.

The weights of a row and its remainder make exactly one. In log space a weight is
:math:`e^{z - \sum}`, with a sum whose first term is nearly z again when the logit is
large: what is not the same number on both sides does not cancel.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posedu._result_table import Table
from posedu.crosscheck.common import roundoff, to_numpy
from posedu.torch.stickbreaking import softplus

Array = np.ndarray
Form = Callable[[Tensor], Tensor]

CUT = 15.0
LOG2_E = math.log2(math.e)


def as_written(z: Tensor) -> Tensor:
    """log(1 + e^z), and nothing else."""
    return (1 + z.exp()).log()


def cut(z: Tensor) -> Tensor:
    """:func:`as_written`, and z itself above 15."""
    return torch.where(z > CUT, z, as_written(z))


def cut_in_base_2(z: Tensor) -> Tensor:
    """In base 2, and cut at 15 there, which is 15 ln 2 in z: the published kernel's."""
    s = z * LOG2_E
    return torch.where(s > CUT, s, (1 + s.exp2()).log2()) / LOG2_E


def stored_in_bfloat16(form: Form) -> Form:
    """A form whose results are rounded to bfloat16 before they are summed."""
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
    """How far a form is from log(1 + e^z), relative.

    1 where nothing is left of it, infinite where it is.
    """
    true = np.logaddexp(0, to_numpy(z))
    return np.abs(to_numpy(form(z)) - true) / true


@dataclass(frozen=True)
class Sticks(Table):
    """Rows of random logits, ever larger, broken by each form.

    ``weight`` holds for each form the largest error of a weight, ``excess`` the largest
    sum of a row's weights less 1, both ``[sizes]``; ``bound`` is :func:`row_bound`.
    """

    sizes: Float[Array, "sizes"]
    weight: Mapping[str, Float[Array, "sizes"]]
    excess: Mapping[str, Float[Array, "sizes"]]
    bound: Float[Array, "sizes"]

    def caption(self) -> str:
        """By which form rows are the longest, and how long."""
        longest = max(self.excess, key=lambda form: self.excess[form].max())
        return (
            f"Logits up to ±{self.sizes.max():.0f}, against float64. By the form "
            f"“{longest}” the weights of a row come to as much as "
            f"{1 + self.excess[longest].max():.2f} sticks; by log1p they stay within "
            f"a bound of {self.bound.max():.0e}."
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each form."""
        yield "softplus", "largest error of a weight", "largest sum of a row, less 1"
        for form in self.weight:
            worst = self.weight[form].max(), self.excess[form].max()
            yield form, *(f"{value:.1e}" for value in worst)


def break_sticks(
    sizes: Float[Array, "sizes"], *, rows: int = 256, keys: int = 256, seed: int = 0
) -> Sticks:
    """Break rows of one pattern of logits by every form, at each size of the largest.

    Uniform in ± the size, in float32.
    """
    generator = torch.Generator().manual_seed(seed)
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
    """The largest error of a weight, and the largest sum of a row's weights less 1.

    Of rows whose sticks pass every key, against float64.
    """
    weights = to_numpy((logits - _summed_outwards(form(logits))).exp())
    true, _ = _true(logits)
    wrong = np.abs(weights - true).max()
    return float(wrong), float(weights.sum(-1).max() - 1)


def row_bound(logits: Float[Tensor, "rows keys"]) -> float:
    """By how much ``"log1p"`` may be off, the weights of a row together.

    As ``eq-stick-bound``: each softplus is good to 4u of itself, each addition to u of
    the sum so far, the difference to u, the exponential to 2u.
    """
    true, spent = _true(logits)
    passed = np.arange(logits.shape[-1], 0, -1)
    apart = np.abs(to_numpy(logits) - spent)
    relative = roundoff(logits.dtype) * ((passed + 4) * spent + apart + 2)
    return float((true * np.expm1(relative)).sum(-1).max())


def _true(
    logits: Float[Tensor, "rows keys"],
) -> tuple[Float[Array, "rows keys"], Float[Array, "rows keys"]]:
    """The weights, and what is spent when a key has had its share, in float64."""
    z = logits.double()
    spent = _summed_outwards(torch.logaddexp(z, torch.zeros_like(z)))
    return to_numpy((z - spent).exp()), to_numpy(spent)


def _summed_outwards(costs: Float[Tensor, "rows keys"]) -> Float[Tensor, "rows keys"]:
    """The costs of each key and of those after it."""
    return costs.flip(-1).cumsum(-1).flip(-1)
