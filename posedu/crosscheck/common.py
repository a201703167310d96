"""What both kinds of comparison use: the tally, the devices, rounding to a dtype."""

from dataclasses import dataclass

import numpy as np
import torch

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
COMPILED_DTYPES = (torch.float32, torch.bfloat16)
DIGITS = 40  # of the symbolic face's arithmetic
HEADS = 2  # of an encoding that may have parameters of each

# The eighth-order central difference.
STEP = 2.0**-5
WEIGHTS = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))


@dataclass(frozen=True)
class Row:
    """One comparison: its largest error as a fraction of the bound at that entry."""

    faces: str
    what: str
    device: str
    dtype: str
    cases: int
    error: float
    used: float

    @property
    def ok(self) -> bool:
        """Whether every entry stayed within its bound."""
        return self.used <= 1


class Tally:
    """The worst of every kind of comparison."""

    def __init__(self):
        self.worst: dict[tuple[str, str, str, str], list[float]] = {}

    def add(self, faces, what, device, dtype, left, right, bound) -> None:
        """Take one comparison in."""
        where = (str(device), str(dtype).removeprefix("torch."))
        worst = self.worst.setdefault((faces, what, *where), [0, 0.0, 0.0])
        worst[0] += 1
        if np.size(left) == 0:
            return
        error = np.abs(left - right)
        error = np.where(np.isnan(error), np.inf, error)
        worst[1] = max(worst[1], float(error.max()))
        worst[2] = max(worst[2], float((error / bound).max()))

    def rows(self) -> tuple[Row, ...]:
        """What was worst of every kind."""
        return tuple(Row(*key, *values) for key, values in self.worst.items())


def devices() -> list[torch.device]:
    """The CPU, and the GPU where there is one."""
    gpus = [torch.device("cuda")] if torch.cuda.is_available() else []
    return [torch.device("cpu"), *gpus]


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """Its values in float64."""
    return x.detach().cpu().double().numpy()


def rounded(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """``x`` as the dtype holds it, so that both faces get the same numbers."""
    return torch.tensor(x).to(dtype).double().numpy()
