"""Log-linear attention in SymPy: exact decays and levels of a few tokens."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import LogLinearBuckets, require_choice
from posedu.sympy._expressions import expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.gated.fox import forget_bias
from posedu.sympy.stickbreaking import softplus


def bucket_level(t: int, s: int, *, buckets: LogLinearBuckets) -> int:
    """The level of the bucket that holds token s for query t, both counted from 0.

    ``"weak"``: the number of binary digits of t XOR s, which is the position of the
    highest digit in which t and s differ. ``"strong"``: see
    :func:`posedu.numpy.gated.bucket_level`. Equation ``def-bucket-level``.
    """
    require_choice("buckets", buckets, LogLinearBuckets)
    if buckets == "weak":
        return (t ^ s).bit_length()
    start = 0
    while t > s:
        digits = (t - start).bit_length()
        size = max(2 ** (digits - 2), 1) if digits > 1 else 1
        parts = 2 if digits > 1 and t - start >= 3 * size else 1
        if s < start + parts * size:
            return digits
        start += parts * size
    return 0


def log_linear(
    *,
    gate_weight: sp.Matrix,
    gate_bias: Sequence[sp.Expr],
    gate_rate: Sequence[sp.Expr],
    level_weight: Sequence[sp.Matrix],
    level_scale: sp.Matrix,
    buckets: LogLinearBuckets,
) -> Hooks:
    """Return the hooks of log-linear attention, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.gated.log_linear`. Equation ``def-log-linear``.
    """
    require_choice("buckets", buckets, LogLinearBuckets)
    weights = matrix("gate_weight", gate_weight)
    biases, rates = expressions("gate_bias", gate_bias), expressions("rate", gate_rate)
    scales = matrix("level_scale", level_scale)

    def factors(x: sp.Matrix, h: int) -> sp.Matrix:
        """The decay of every query and key, times the factor of the key's level."""
        logits = x * weights[h, :].T
        gates = [-sp.exp(rates[h]) * softplus(z + biases[h]) for z in logits]
        decays = forget_bias(gates).applyfunc(sp.exp)
        of_levels = x * matrix("level_weight", level_weight[h]).T

        def entry(i: int, j: int) -> sp.Expr:
            if j > i:
                return sp.S.Zero
            level = min(
                bucket_level(int(i), int(j), buckets=buckets), of_levels.cols - 1
            )
            return decays[i, j] * softplus(scales[h, level] * of_levels[i, level])

        return sp.Matrix(x.rows, x.rows, entry)

    def weigh(logits: Heads, tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("log_linear needs the layer's input: give attend x")
        return tuple(
            m.multiply_elementwise(factors(tokens.x, h)) for h, m in enumerate(logits)
        )

    return Hooks(
        scale=lambda d: sp.S.One, weigh=weigh, heads=len(biases), needs_causal=True
    )
