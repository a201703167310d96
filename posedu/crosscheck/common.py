"""Helpers of all cross-checks: tally of errors, devices, dtypes, differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import sympy as sp
import torch

from posedu._argument_types import check_types
from posedu._renamed import renamed_names

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
CPU = torch.device("cpu")
Number = TypeVar("Number", float, np.ndarray)
DIGITS = 40
"""Decimal digits of the symbolic implementation's arithmetic."""

Devices = Sequence[torch.device]

# The eighth-order central difference, and the factor by which it magnifies independent
# errors.
STEP = 2.0**-5
WEIGHTS = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))
MAGNIFIED = (2 * sum(weight**2 for _, weight in WEIGHTS)) ** 0.5 / STEP

# A random error is taken to be at most 8 sample deviations: at 16 samples Student's t
# exceeds 8 in one case of two million.
SAMPLES = 16
DEVIATIONS = 8


@check_types
@dataclass(frozen=True)
class Row:
    """Largest error of one kind of comparison, also as a share of the error's bound.

    A kind is the pair of implementations that are compared, what is compared (output or
    gradient), the device and the dtype. ``cases`` is the number of comparisons,
    ``error`` the largest error, and ``used`` the largest ratio of an error to its
    bound.
    """

    implementations: str
    what: str
    device: str
    dtype: str
    cases: int
    error: float
    used: float

    @property
    def ok(self) -> bool:
        """True if every compared number stayed within its bound."""
        return 0 <= self.used <= 1


class Tally:
    """Largest errors of each kind of comparison, and the number of redrawn inputs.

    A kind is a pair of implementations, what is compared (output or gradient), a device
    and a dtype. Inputs are redrawn if they are next to a kink, a point where a result
    has no derivative.
    """

    def __init__(self):
        self.worst: dict[tuple[str, str, str, str], list[float]] = {}
        self.redrawn = 0

    def add(
        self, implementations, what, device, dtype, tensor, left, right, bound
    ) -> None:
        """Add one comparison: the error of ``left`` from ``right``, and its ``bound``.

        These three are arrays of equal shape, or numbers. ``implementations`` names the
        two compared implementations, ``what`` is ``"forward"`` for outputs,
        ``"gradient"`` or ``"parameters"`` for gradients to inputs or parameters.
        ``tensor`` names the compared tensor, for a subclass that keeps errors by it.
        """
        where = (str(device), str(dtype).removeprefix("torch."))
        worst = self.worst.setdefault((implementations, what, *where), [0, 0.0, 0.0])
        worst[0] += 1
        if np.size(left) == 0:
            return
        error = np.abs(left - right)
        error = np.where(np.isnan(error), np.inf, error)
        worst[1] = max(worst[1], float(error.max()))
        worst[2] = max(worst[2], float(share_of_bound(error, bound).max()))

    def rows(self) -> tuple[Row, ...]:
        """Return a :class:`Row` with the largest errors for each kind of comparison."""
        return tuple(Row(*key, *values) for key, values in self.worst.items())


def share_of_bound(error, bound) -> np.ndarray:
    """Return errors, at least 0, as shares of their bounds, entry by entry.

    No error is a share of 0 of any bound that is not negative. Where error or bound is
    NaN, or the bound is 0 or negative, the share is infinite, which no comparison with
    a limit takes for a small one.
    """
    with np.errstate(all="ignore"):
        share = np.divide(error, bound)
    share = np.where(share >= 0, share, np.inf)
    return np.where((np.asarray(error) == 0) & (np.asarray(bound) >= 0), 0.0, share)


def available_devices() -> list[torch.device]:
    """Return the CPU, and the GPU where there is one."""
    gpus = [torch.device("cuda")] if torch.cuda.is_available() else []
    return [CPU, *gpus]


def trains_flex(device: torch.device) -> bool:
    """Return whether FlexAttention has gradients on a device: only on a GPU."""
    return device.type == "cuda"


def compiled_dtypes(device: torch.device) -> tuple[torch.dtype, ...]:
    """Return the dtypes in which compiled PyTorch modules are compared on a device.

    A GPU that emulates bfloat16 has no compiler for it.
    """
    emulates = device.type == "cuda" and not torch.cuda.is_bf16_supported(
        including_emulation=False
    )
    return (torch.float32,) if emulates else (torch.float32, torch.bfloat16)


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """Return the values of a tensor as a float64 NumPy array."""
    return x.detach().cpu().double().numpy()


def rounded(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Round ``x`` to a dtype, so that all implementations get the same numbers.

    The rounded numbers are returned in float64.
    """
    return torch.tensor(x).to(dtype).double().numpy()


def roundoff(dtype: torch.dtype) -> float:
    """Return the unit roundoff u of a dtype."""
    return torch.finfo(dtype).eps / 2


def parameters_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers, by their names in NumPy and SymPy.

    In these names "." is replaced by "_".
    """
    named = [*module.named_parameters(), *module.named_buffers()]
    return {n.replace(".", "_"): p for n, p in named}


def difference(product: Callable[[float], Number]) -> tuple[Number, Number]:
    """Estimate the slope of a smooth function at 0, and the error of the estimate.

    The function, ``product``, takes a number and may return a number or an array; an
    array has a slope for each entry. Doubling the step of an eighth-order difference
    multiplies its error by about 256. The error of the estimate is taken to be a 64th
    of the change that doubling makes.
    """
    steps = [n for n, _ in WEIGHTS]
    places = {sign * m * n for sign in (-1, 1) for m in (1, 2) for n in steps}
    at = {n: product(n * STEP) for n in places}

    def slope(m: int) -> Number:
        return sum(w * (at[m * n] - at[-m * n]) for n, w in WEIGHTS) / (m * STEP)

    return slope(1), abs(slope(2) - slope(1)) / 64


def as_rationals(value):
    """Return a number as a rational, an array as nested tuples of rationals."""
    if isinstance(value, np.ndarray) and value.ndim:
        return tuple(as_rationals(item) for item in value)
    return sp.Rational(float(value))


def points_of(line: np.ndarray, axes: int | None) -> np.ndarray:
    """Return the positions ``line``, or points with ``axes`` coordinates made of them.

    If ``axes`` is ``None``, the array ``line`` is returned as it is. The coordinates of
    a point are made of the line, reversed, scaled and rolled, so that they differ.
    """
    if axes is None:
        return line
    return np.stack([np.roll(line[::-1] * (1 - k), k) for k in range(axes)], -1)


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
