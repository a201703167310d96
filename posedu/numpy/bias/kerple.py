"""KERPLE: biases that fall with the logarithm or with a power of the distance."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import KERPLEScaling, require_choice
from posedu.numpy._arrays import Positions, require_positions
from posedu.numpy.attention import Hooks, Tokens, require_bias
from posedu.numpy.bias.per_head import (
    PerHead,
    exp,
    per_head,
    positive,
    require_same_heads,
)

Array = np.ndarray


def kerple_log_bias(
    offsets: Positions,
    *,
    r1: PerHead | float,
    r2: PerHead | float,
    r3: PerHead | float = 1.0,
) -> Float[Array, "*heads_and_shape"]:
    """KERPLE's logarithmic bias −r1 log(1 + r2 t^r3) at each distance t.

    arXiv 2205.09921, Corollary 1.

    Parameters
    ----------
    offsets
        Query position minus key position, finite; t is its size.
    r1, r2
        Positive: one number, or one for each head.
    r3
        In (0, 2]; 1 for the form of two parameters (default).

    Returns
    -------
    float64 array ``[*shape]``, or ``[heads, *shape]``. Equation ``def-kerple``.

    Raises
    ------
    TypeError, ValueError
        Offsets not finite, parameters outside their ranges.
    """
    t = np.abs(require_positions(offsets, "offsets"))
    r1, r2 = positive("r1", r1, t), positive("r2", r2, t)
    return np.asarray(-r1 * np.log1p(r2 * t ** _exponent("r3", r3, t)))


def kerple_power_bias(
    offsets: Positions, *, r1: PerHead | float, r2: PerHead | float
) -> Float[Array, "*heads_and_shape"]:
    """KERPLE's power bias −r1 t^r2 at each distance t (arXiv 2205.09921, Corollary 1).

    ``r1`` is positive, ``r2`` in (0, 2]; each is one number, or one for each head.
    Offsets, the array returned and errors are those of :func:`kerple_log_bias`.
    """
    t = np.abs(require_positions(offsets, "offsets"))
    return np.asarray(-positive("r1", r1, t) * t ** _exponent("r2", r2, t))


def _exponent(name: str, value: PerHead | float, t: Array) -> Array:
    """Return ``value``, shaped to broadcast with distances; raise unless in (0, 2].

    ``value`` is one number, or ``[heads]``, which gets an axis of size 1 for each axis
    of the distances ``t``. ``name`` is the argument's name in error messages.
    """
    exponent = positive(name, value, t)
    if (exponent > 2).any():
        raise ValueError(f"{name} must be at most 2, got {value}")
    return exponent


def kerple_log(
    *,
    log_r1: PerHead,
    log_r2: PerHead,
    logit_r3: PerHead | None = None,
    scaling: KERPLEScaling,
) -> Hooks:
    """Return the attention hooks of KERPLE's logarithmic bias.

    arXiv 2205.09921, Corollary 1. The trained parameters are unbounded numbers, one for
    each head: r = e^log_r, and r = 2σ(logit_r) for an exponent, σ the logistic
    function.

    Parameters
    ----------
    log_r1, log_r2
        Parameters of the bias −r1 log(1 + r2 t) of the distance t.
    logit_r3
        Exponent of the form with three parameters, −r1 log(1 + r2 t^r3). Default
        ``None``: r3 = 1.
    scaling
        Terms divided by √d. ``"paper"``: products and bias (its Eq. 1). ``"code"``:
        products alone (the authors' code).

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``. Equation ``def-kerple``.

    Raises
    ------
    TypeError, ValueError
        Parameters that hold no floats or are not one for each head, unknown
        ``scaling``.
    """
    require_same_heads(log_r1=log_r1, log_r2=log_r2, logit_r3=logit_r3)
    r1, r2 = exp("log_r1", log_r1), exp("log_r2", log_r2)
    r3 = 1.0 if logit_r3 is None else _exponents("logit_r3", logit_r3)
    require_choice("scaling", scaling, KERPLEScaling)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        b = kerple_log_bias(tokens.distances, r1=r1, r2=r2, r3=r3)
        return b / np.sqrt(tokens.d) if scaling == "paper" else b

    return Hooks(bias=bias)


def kerple_power(
    *,
    log_r1: PerHead,
    logit_r2: PerHead,
    log_r3: PerHead | None = None,
    logit_r4: PerHead | None = None,
    scaling: KERPLEScaling,
) -> Hooks:
    """Return the attention hooks of KERPLE's power bias.

    arXiv 2205.09921, Corollary 1.

    Parameters
    ----------
    log_r1, logit_r2
        Parameters of the bias −r1 t^r2 of the distance t: r = e^log_r, r = 2σ(logit_r).
    log_r3, logit_r4
        Parameters of the form with a weight (default ``None``: no weight), where the
        products of queries and keys are multiplied by e^(−r3 t^r4).
    scaling
        See :func:`kerple_log`.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``, or with ``logits`` for the
    form with a weight. Equation ``def-kerple``.

    Raises
    ------
    TypeError, ValueError
        As :func:`kerple_log`; one of ``log_r3`` and ``logit_r4`` without the other.
    """
    require_same_heads(
        log_r1=log_r1, logit_r2=logit_r2, log_r3=log_r3, logit_r4=logit_r4
    )
    r1, r2 = exp("log_r1", log_r1), _exponents("logit_r2", logit_r2)
    require_choice("scaling", scaling, KERPLEScaling)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        b = kerple_power_bias(tokens.distances, r1=r1, r2=r2)
        return b / np.sqrt(tokens.d) if scaling == "paper" else b

    if log_r3 is None and logit_r4 is None:
        return Hooks(bias=bias)
    if log_r3 is None or logit_r4 is None:
        raise ValueError("a weight needs both log_r3 and logit_r4")
    r3, r4 = exp("log_r3", log_r3), _exponents("logit_r4", logit_r4)

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        weight = np.exp(kerple_power_bias(tokens.distances, r1=r3, r2=r4))
        products = tokens.q @ tokens.k.swapaxes(-1, -2) / np.sqrt(tokens.d)
        return products * weight + require_bias(bias(tokens), products)

    return Hooks(logits=logits)


def _exponents(name: str, logits: PerHead) -> PerHead:
    return 2 / (1 + exp(name, -per_head(name, logits)))
