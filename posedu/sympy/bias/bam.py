"""BAM in SymPy: a bias whose exponential is a generalized Gaussian of the offset."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy._expressions import expression, expressions
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.scaling.log_n import log_n

EPSILON = sp.Rational(1, 100_000)  # of the authors' code


def bam_bias(
    offset: sp.Expr,
    *,
    alpha: sp.Expr,
    beta: sp.Expr,
    mu: sp.Expr = sp.S.Zero,
    epsilon: sp.Expr = EPSILON,
) -> sp.Expr:
    """BAM's bias −α (abs(t + μ) + ε)^β at the offset t. Equation ``def-bam``.

    ``offset`` is query position minus key position.
    """
    z = sp.Abs(expression("offset", offset) + expression("mu", mu))
    z += expression("epsilon", epsilon)
    return -expression("alpha", alpha) * z ** expression("beta", beta)


def bam(
    *,
    log_alpha: Sequence[sp.Expr],
    beta: Sequence[sp.Expr],
    theta_mu: Sequence[sp.Expr] | None = None,
    log_n_slope: Sequence[sp.Expr] | None = None,
) -> Hooks:
    """Return the hooks of BAM, the functions that change attention.

    The bias of each head is :func:`bam_bias` with α = e^log_alpha and μ = 2 sinh
    theta_mu, or μ = 0 if ``theta_mu`` is ``None``. With ``log_n_slope`` the products of
    queries and keys are multiplied by s ln n, too. See :func:`posedu.numpy.bias.bam`.
    """
    log_alpha, beta = expressions("log_alpha", log_alpha), expressions("beta", beta)
    theta = [sp.S.Zero] * len(log_alpha)
    if theta_mu is not None:
        theta = expressions("theta_mu", theta_mu)

    def entry(h: int, offset: sp.Expr) -> sp.Expr:
        alpha, mu = sp.exp(log_alpha[h]), 2 * sp.sinh(theta[h])
        return bam_bias(offset, alpha=alpha, beta=beta[h], mu=mu)

    def bias(tokens: Tokens) -> Heads:
        return tuple(
            tokens.of_offsets(lambda offset, h=h: entry(h, offset))
            for h in range(len(log_alpha))
        )

    if log_n_slope is None:
        return Hooks(bias=bias, heads=len(log_alpha))
    zeros = [sp.S.Zero] * len(log_alpha)
    scaled = log_n(growth="learned", index_from=1, slope=log_n_slope, offset=zeros)
    return Hooks(bias=bias, rotate=scaled.rotate, heads=len(log_alpha))
