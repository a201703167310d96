"""CAPE in SymPy: augmented positions, and means over their uniform random numbers."""

from collections.abc import Sequence
from typing import Any

import sympy as sp
from sympy.simplify.fu import TR8

from posedu._arguments import require_bool
from posedu.sympy._expressions import expression, matrix, one_expression


def cape(
    positions: Sequence[sp.Expr | float],
    *,
    shift: Any,
    jitter: Any,
    scale: Any,
    normalize: bool,
) -> sp.Matrix:
    """Augmented positions λ (τ + Δ + ε) of one sequence, as a column.

    τ are the positions, less their mean if ``normalize``. Δ is ``shift`` and λ is
    ``scale``, one number each; ε is ``jitter``, a number for each token. Equation
    ``def-cape``. See :func:`posedu.numpy.absolute.cape`.
    """
    tau, epsilon = matrix("positions", positions), matrix("jitter", jitter)
    delta, factor = one_expression("shift", shift), one_expression("scale", scale)
    if require_bool("normalize", normalize) and tau.rows:
        mean = sum(tau) / sp.Integer(tau.rows)
        tau = tau.applyfunc(lambda t: t - mean)
    return (tau + epsilon).applyfunc(lambda t: factor * (t + delta))


def mean_over_uniform(
    function: sp.Expr, variable: sp.Symbol, bound: sp.Expr | float
) -> sp.Expr:
    """The mean of a function over a variable that is uniform in ±``bound``.

    SymPy integrates the function; ``bound`` is positive. Equation
    ``eq-randomized-single``.
    """
    function, bound = expression("function", function), expression("bound", bound)
    if not isinstance(variable, sp.Symbol):
        raise TypeError(f"variable must be a symbol, got {type(variable).__name__}")
    if bound.is_positive is False:
        raise ValueError(f"bound must be positive, got {bound}")
    function = sp.expand(TR8(function))  # products of waves are slow to integrate
    integral = sp.integrate(function, (variable, -bound, bound))
    return integral / (2 * bound)
