"""Where a cumulative sum of log gates loses its digits, as weights of a softmax show.

FoX adds c_i − c_j to the logits. The sum c grows like the length and its rounding with
it, while what matters are differences between neighbors.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from posedu._arguments import require_dimension
from posedu.crosscheck.common import roundoff

Ways = Callable[
    [Float[Tensor, "tokens"], int], Mapping[str, Float[Tensor, "rows tokens"]]
]


@dataclass(frozen=True)
class WeightErrors:
    """Largest error of a weight by way and length, and how far c has fallen there."""

    lengths: tuple[int, ...]
    sizes: tuple[float, ...]
    errors: Mapping[str, tuple[float, ...]]

    def bounds(self) -> tuple[float, ...]:
        """What a way may be off that rounds to float32 alone, at each length.

        Each of L additions rounds c by u times its size at most, and a bias is a
        difference of two of them, rounded itself; 10 u are for logits, of which 5 is a
        large one. An error δ of every logit changes a weight by at most e^2δ − 1.
        """
        u = roundoff(torch.float32)
        return tuple(
            math.expm1(2 * u * ((2 * length + 2) * size + 10))
            for length, size in zip(self.lengths, self.sizes, strict=True)
        )


def weight_errors(
    ways: Ways, lengths: Sequence[int], *, gate_bias: float, rows: int = 64
) -> WeightErrors:
    """Errors of the last ``rows`` of FoX's weights, beside c and softmax in float64.

    Gates are sigmoids of ``gate_bias`` and a standard normal number, their logarithms
    float32; the logits are standard normal, of a seed that is the length.

    Parameters
    ----------
    ways
        Given the log gates and ``rows``, the bias of the last rows, computed in several
        ways.
    lengths
        Numbers of tokens, each at least ``rows``.
    gate_bias
        At which σ(gate_bias) the gates start: 0 in the paper, 5 elsewhere.
    rows
        How many queries are looked at.

    Raises
    ------
    ValueError
        A length that is shorter than ``rows``.
    """
    require_dimension("rows", rows, 1)
    if min(lengths) < rows:
        raise ValueError(f"lengths must be at least {rows} rows, got {[*lengths]}")
    sizes = []
    errors: dict[str, list[float]] = {}
    for length in lengths:
        generator = torch.Generator().manual_seed(length)
        gates = gate_bias + torch.randn(length, generator=generator).double()
        log_gates = functional.logsigmoid(gates).float()
        logits = torch.randn(rows, length, generator=generator)
        c = log_gates.double().cumsum(0)
        true = _weights(logits.double(), c[-rows:, None] - c)
        for way, bias in ways(log_gates, rows).items():
            error = (_weights(logits, bias) - true).abs().max().item()
            errors.setdefault(way, []).append(error)
        sizes.append(-c[-1].item())
    return WeightErrors(
        tuple(lengths),
        tuple(sizes),
        {way: tuple(values) for way, values in errors.items()},
    )


def _weights(
    logits: Float[Tensor, "rows tokens"], bias: Float[Tensor, "rows tokens"]
) -> Float[Tensor, "rows tokens"]:
    """Causal softmax of the last rows."""
    rows, tokens = logits.shape
    later = torch.ones(rows, tokens, dtype=torch.bool).triu(tokens - rows + 1)
    return (logits + bias).masked_fill(later, -torch.inf).softmax(-1).double()
