"""Bounds of the rounding errors of attention and of its gradients.

All bounds are of first order in the unit roundoff u, half of the distance from 1 to the
next number. If every logit of a row is off by at most δ, every softmax weight is off by
a factor between e^(−2δ) and e^(2δ). An output, or a gradient, is a sum of products; its
error is at most the weights' relative error times the same sum of absolute values, and
the sum itself adds a u for every term.
"""

import torch
from jaxtyping import Float
from torch import Tensor

SAFETY = 8  # a gradient has the weights, and sums over them, several times


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return the largest relative error of rounding to ``dtype``."""
    return torch.finfo(dtype).eps / 2


def relative_error(
    logits_off: float, length: int, dtype: torch.dtype = torch.float64
) -> float:
    """Return the bound of an error relative to the sum of absolute values.

    ``logits_off`` is the bound δ of the error of a logit, ``length`` the number of
    keys: 8 (δ + (L + 64) u). The 64 are for operations other than sums over keys.
    """
    return SAFETY * (logits_off + (length + 64) * unit_roundoff(dtype))


def softmax_magnitudes(
    weights: Float[Tensor, "*heads queries keys"],
    v: Float[Tensor, "*heads keys d_v"],
    gradient: Float[Tensor, "*heads queries d_v"],
) -> Float[Tensor, "*heads queries keys"]:
    """Return the sums of absolute values for the gradients of the logits of a softmax.

    The gradient of logit z_ij is P_ij (g_i · v_j − Σ_l P_il g_i · v_l); ``gradient`` is
    g, the gradient of the attention output, and ``weights`` are P.
    """
    shares = weights * (gradient.abs() @ v.abs().mT)
    return shares + weights * shares.sum(-1, keepdim=True)


def stick_magnitudes(
    weights: Float[Tensor, "*heads queries keys"],
    fractions: Float[Tensor, "*heads queries keys"],
    v: Float[Tensor, "*heads keys d_v"],
    gradient: Float[Tensor, "*heads queries d_v"],
) -> Float[Tensor, "*heads queries keys"]:
    """Return the sums of absolute values for the gradients of stick-breaking logits.

    The gradient of logit z_ij is A_ij g_i · v_j − β_ij Σ_{l ≤ j} A_il g_i · v_l, with
    the ``weights`` A, the ``fractions`` β = σ(z), and the gradient g of the output.
    """
    shares = weights * (gradient.abs() @ v.abs().mT)
    return shares + fractions * shares.cumsum(-1)


def attention_magnitudes(
    weights: Float[Tensor, "*heads queries keys"],
    of_logits: Float[Tensor, "*heads queries keys"],
    q: Float[Tensor, "*heads queries d"],
    k: Float[Tensor, "*heads keys d"],
    v: Float[Tensor, "*heads keys d_v"],
    gradient: Float[Tensor, "*heads queries d_v"],
) -> dict[str, Tensor]:
    """Return the sums of absolute values of the output and of the gradients of q, k, v.

    ``of_logits`` are those of the gradients of the logits q · k / √d; ``gradient`` is
    the gradient of the output. The keys are "out", "q", "k" and "v".
    """
    root = q.shape[-1] ** 0.5
    return {
        "out": weights @ v.abs(),
        "q": of_logits @ k.abs() / root,
        "k": of_logits.mT @ q.abs() / root,
        "v": weights.mT @ gradient.abs(),
    }


def error_over_bound(
    found: Tensor, right: Tensor, magnitude: Tensor, relative: float
) -> float:
    """Return the largest error over its bound; infinity if a number is not finite.

    The bound is ``relative`` times the largest of ``magnitude``, the sums of absolute
    values.
    """
    error = (found - right).detach().abs().max()
    over = error / (relative * magnitude.detach().abs().max())
    return float(over) if over.isfinite() else float("inf")
