"""Conversion of numbers from a user (tensor, NumPy array or list) to a tensor."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def as_real_tensor(
    name: str,
    value: Tensor | np.ndarray | Sequence[object] | float,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return ``value`` as a dense, real tensor.

    A tensor stays on its device; an array, a list or a number becomes a tensor on the
    CPU.
    ``name`` is the argument's name in error messages. ``dtype`` defaults to what
    :func:`torch.as_tensor` takes: the dtype of a tensor or an array, and PyTorch's
    default for a list of floats.

    Raises
    ------
    TypeError
        Values that are not numbers, or are complex numbers; a sparse tensor.
    """
    place = value.device if isinstance(value, Tensor) else "cpu"
    try:
        if isinstance(value, np.ndarray):  # a copy, in memory that PyTorch can use
            value = np.array(value, dtype=value.dtype.newbyteorder("="))
        given = torch.as_tensor(value, device=place)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be numbers, but {error}") from None
    if given.is_complex() or given.layout != torch.strided:
        raise TypeError(f"{name} must be dense and real, got {given.dtype}")
    return torch.as_tensor(value, dtype=dtype, device=place)
