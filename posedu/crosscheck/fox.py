"""Error of FoX's softmax weights from rounding the cumulative sum of log gates.

FoX adds c_i − c_j to the logits. The sum c grows like the length, and its rounding
error grows with it, while the weights depend on differences between neighbors.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from posedu._argument_types import check_types
from posedu._arguments import require_dimension
from posedu.crosscheck.common import roundoff

BiasMethods = Callable[
    [Float[Tensor, "tokens"], int], Mapping[str, Float[Tensor, "rows tokens"]]
]
"""A function from the log gates and a number of rows to the bias of the last rows,
computed by several methods, by name."""


@check_types
@dataclass(frozen=True)
class WeightErrors:
    """Largest error of FoX's attention weights, by method and sequence length.

    A method is a way to compute the bias. ``errors`` has for each method's name an
    error at each of ``lengths``. ``sizes`` holds −c of the last token at each length,
    where c is the cumulative sum of log gates.
    """

    lengths: tuple[int, ...]
    sizes: tuple[float, ...]
    errors: Mapping[str, tuple[float, ...]]

    def bounds(self) -> tuple[float, ...]:
        """Return the error bound of a method that rounds only to float32, by length.

        A method is a way to compute the bias. Each of L additions rounds c, the
        cumulative sum of log gates, by at most u (float32's unit roundoff) times its
        size, and a bias is a rounded difference of two such sums. 10 u are allowed for
        the logits, of which 5 is a large one. An error δ of every logit changes a
        weight by at most e^2δ − 1.
        """
        u = roundoff(torch.float32)
        return tuple(
            math.expm1(2 * u * ((2 * length + 2) * size + 10))
            for length, size in zip(self.lengths, self.sizes, strict=True)
        )


@check_types
def weight_errors(
    methods: BiasMethods, lengths: Sequence[int], *, gate_bias: float, rows: int = 64
) -> WeightErrors:
    """Measure the errors of FoX's attention weights for the last ``rows`` queries.

    The weights are compared with those of float64. Gates are sigmoids of ``gate_bias``
    plus a standard normal number, and their logarithms are float32. The logits are
    standard normal. The seed is the length.

    Parameters
    ----------
    methods
        Function of the log gates and ``rows`` that returns a dictionary: for each
        method, a way to compute the bias, the bias ``[rows, keys]`` of the last
        queries.
    lengths
        Numbers of tokens, each at least ``rows``.
    gate_bias
        The gates start at σ(gate_bias): 0 in the paper, 5 elsewhere.
    rows
        Number of queries to measure.

    Raises
    ------
    ValueError
        A length is shorter than ``rows``.
    """
    require_dimension("rows", rows, 1)
    if min(lengths, default=0) < rows:
        raise ValueError(f"`lengths` must be at least {rows} rows, got {[*lengths]}")
    sizes = []
    errors: dict[str, list[float]] = {}
    for length in lengths:
        generator = torch.Generator().manual_seed(length)
        gates = gate_bias + torch.randn(length, generator=generator).double()
        log_gates = functional.logsigmoid(gates).float()
        logits = torch.randn(rows, length, generator=generator)
        c = log_gates.double().cumsum(0)
        true = _weights(logits.double(), c[-rows:, None] - c)
        for method, bias in methods(log_gates, rows).items():
            error = (_weights(logits, bias) - true).abs().max().item()
            errors.setdefault(method, []).append(error)
        sizes.append(-c[-1].item())
    return WeightErrors(
        tuple(lengths),
        tuple(sizes),
        {method: tuple(values) for method, values in errors.items()},
    )


def _weights(
    logits: Float[Tensor, "rows tokens"], bias: Float[Tensor, "rows tokens"]
) -> Float[Tensor, "rows tokens"]:
    """Causal softmax weights of a text's last queries, from their logits and biases.

    The queries are the last ``rows`` of ``tokens`` tokens. The weights are computed in
    the dtype of the arguments and returned in float64.
    """
    rows, tokens = logits.shape
    later = torch.ones(rows, tokens, dtype=torch.bool).triu(tokens - rows + 1)
    return (logits + bias).masked_fill(later, -torch.inf).softmax(-1).double()
