"""FIRE: a bias that an MLP makes of the distance relative to the query's position."""

import numpy as np
from jaxtyping import Float, Num

from posedu._arguments import (
    LEAK,
    FIREActivation,
    FIRELaterKeys,
    require_choice,
    require_not_negative,
    require_positive,
)
from posedu.numpy._arrays import Positions, as_array, require_floats, require_positions
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def fire_inputs(
    offsets: Positions,
    queries: Num[Array, "*queries"] | float,
    *,
    c: Array | float,
    threshold: Array | float,
    later: FIRELaterKeys,
    eps: float = 1e-6,
) -> Float[Array, "*shape"]:
    """The input of FIRE's MLP for each offset: ψ(i − j) / (ψ(max(ℓ, i)) + ε).

    ℓ is the threshold, i is the position of the query, j the position of the key, and
    ψ(t) = log(1 + abs(c t)) (arXiv 2310.04418 §3). The input is in [0, 1] for every key
    from position 0 up to the query (``eq-fire-bounded``).

    Parameters
    ----------
    offsets
        Query position minus key position, finite.
    queries
        Query position i of each offset; broadcasts with ``offsets``.
    c, threshold
        The factor c in ψ, and the threshold ℓ: one number each.
    later
        The distance of a key after its query. ``"distance"``: j − i (the paper's
        listing). ``"zero"``: 0 (the code of DAPE's authors). A causal mask hides the
        difference.
    eps
        The ε in the divisor. Default 1e-6 (the published code); the formula has none.

    Returns
    -------
    float64 array. Equation ``def-fire-input``.

    Raises
    ------
    TypeError, ValueError
        Positions not finite, ``c`` or ``threshold`` not one finite number, ``eps``
        negative, unknown ``later``.
    """
    offsets = require_positions(offsets, "offsets")
    queries = require_positions(queries, "queries")
    c, threshold = _number("c", c), _number("threshold", threshold)
    eps = require_not_negative("eps", eps)
    if require_choice("later", later, FIRELaterKeys) == "distance":
        distances = np.abs(offsets)
    else:
        distances = np.maximum(offsets, 0)
    longest = np.maximum(threshold, queries)
    return np.asarray(
        np.log1p(np.abs(c * distances)) / (np.log1p(np.abs(c * longest)) + eps)
    )


def fire(
    *,
    c: Float[Array, "1"],
    multiplier: Float[Array, "1"],
    hidden_weight: Float[Array, "width 1"],
    hidden_bias: Float[Array, "width"],
    out_weight: Float[Array, "heads width"],
    out_bias: Float[Array, "heads"],
    threshold: float,
    activation: FIREActivation,
    later: FIRELaterKeys,
    eps: float = 1e-6,
) -> Hooks:
    """Return the attention hooks of FIRE (arXiv 2310.04418 §3).

    The bias is an MLP of :func:`fire_inputs` and is not divided by √d.

    Parameters
    ----------
    c
        Factor in ψ(t) = log(1 + abs(c t)).
    multiplier, threshold
        Factors of ℓ = abs(multiplier · threshold), of which ``multiplier`` is trained.
        Published code starts with ℓ = 512, or with half of the training length or less.
    hidden_weight, hidden_bias, out_weight, out_bias
        Parameters of the MLP, which maps one number to one number for each head.
    activation
        ``"relu"``: the paper. ``"leaky"``: leaky ReLU of slope 0.01, as for FIRE under
        DAPE in the code of DAPE's authors.
    later, eps
        See :func:`fire_inputs`.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``. Equation ``def-fire``.

    Raises
    ------
    TypeError, ValueError
        As :func:`fire_inputs`; parameters that hold no floats or do not fit.
    """
    leak = (
        LEAK
        if require_choice("activation", activation, FIREActivation) != "relu"
        else 0
    )
    require_choice("later", later, FIRELaterKeys)
    require_not_negative("eps", eps)
    threshold = require_positive("threshold", threshold)
    w_1, b_1 = require_floats("hidden_weight", hidden_weight), hidden_bias
    w_2, b_2 = require_floats("out_weight", out_weight), out_bias
    b_1, b_2 = require_floats("hidden_bias", b_1), require_floats("out_bias", b_2)
    shapes = (b_1.size, 1), (b_2.size, b_1.size)
    if (w_1.shape, w_2.shape) != shapes or b_1.ndim != 1 or b_2.ndim != 1:
        raise ValueError(
            "hidden_weight, hidden_bias, out_weight and out_bias must be [width, 1], "
            "[width], [heads, width] and [heads], got shapes "
            f"{[list(t.shape) for t in (w_1, b_1, w_2, b_2)]}"
        )
    c, multiplier = _number("c", c), _number("multiplier", multiplier)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x = fire_inputs(
            tokens.distances,
            tokens.query_positions[:, None],
            c=c,
            threshold=np.abs(multiplier * threshold),
            later=later,
            eps=eps,
        )
        z = x[..., None] * w_1[:, 0] + b_1
        hidden = np.maximum(z, leak * z)
        return np.moveaxis(hidden @ w_2.T + b_2, -1, 0)

    return Hooks(bias=bias)


def _number(name: str, value: Array | float) -> Array:
    """Return ``value`` as an array without axes if it is one finite number, else raise.

    ``name`` is the argument's name in error messages.
    """
    value = as_array(name, value)
    whole = value.dtype.kind in "iu"
    value = require_floats(name, value.astype(np.float64) if whole else value)
    if value.shape not in ((), (1,)):
        raise ValueError(f"{name} must be one number, got shape {list(value.shape)}")
    if not np.isfinite(value).all():
        raise ValueError(f"{name} must be finite, got {value.reshape(())}")
    return value.reshape(())
