"""PaTH and PaTH-FoX: each token between key and query reflects or shrinks the key."""

from typing import Any

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    PathScaling,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.gated.fox import forget_bias, log_gates, sigmoid
from posedu.numpy.path.product import path_scores, short_convolution, unit_vectors

Array = np.ndarray


def directions(
    x: Float[Array, "tokens d_model"],
    w_up: Float[Array, "transitions d rank"],
    w_down: Float[Array, "rank d_model"] | None = None,
    w_taps: Float[Array, "transitions d width"] | None = None,
) -> Float[Array, "transitions tokens d"]:
    """PaTH's unit vectors w of each token: the directions of its reflections.

    w is the layer's input ``x`` times ``w_down`` and ``w_up``, then, if ``w_taps`` are
    given, convolved over the tokens and passed through SiLU, then divided by its
    length (arXiv 2505.16381; ε = 1e−6 as in the authors' code). Equation
    ``def-path-directions``.
    """
    inner = x if w_down is None else x @ w_down.T
    w = np.einsum("hdr,tr->thd", w_up, inner)
    if w_taps is not None:
        w = short_convolution(w, w_taps)
        w = w * sigmoid(w)
    return np.moveaxis(unit_vectors(w), 0, 1)


def strengths(
    x: Float[Array, "tokens d_model"],
    beta_weight: Float[Array, "transitions d_model"],
    beta_bias: Float[Array, "transitions"],
    *,
    negative_eigenvalues: bool = True,
) -> Float[Array, "transitions tokens"]:
    """PaTH's β of each token: 2 σ(u · x + b), or σ(u · x + b).

    T = I − β w wᵀ has the eigenvalue 1 − β along the unit vector w, which is below 0
    for β above 1: a reflection at β = 2. Without ``negative_eigenvalues`` β is at most
    1, a projection. Equation ``def-path-strength``.
    """
    largest = 2.0 if negative_eigenvalues else 1.0
    return largest * sigmoid(beta_weight @ x.T + beta_bias[:, None])


def path_attention(
    *,
    heads: int,
    w_up: Float[Array, "transitions d rank"],
    beta_weight: Float[Array, "transitions d_model"],
    beta_bias: Float[Array, "transitions"],
    w_down: Float[Array, "rank d_model"] | None = None,
    w_taps: Float[Array, "transitions d width"] | None = None,
    negative_eigenvalues: bool = True,
) -> Hooks:
    """Return the attention hooks of PaTH: a product of Householder matrices.

    The score of query i and key j is q_i · T_i ⋯ T_(j+1) k_j / √d, with the transitions
    T_t = I − β_t w_t w_tᵀ (arXiv 2505.16381 §3.1). The arguments are those of
    :func:`path_products`. Positions are not used. Equation ``def-path``.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits``, for causal attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match.
    """
    weights = require_path(
        heads=heads,
        w_up=w_up,
        beta_weight=beta_weight,
        beta_bias=beta_bias,
        w_down=w_down,
        w_taps=w_taps,
        negative_eigenvalues=negative_eigenvalues,
    )

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        return path_products(tokens, **weights) / np.sqrt(tokens.d)

    return Hooks(logits=logits, needs_causal=True)


def path_fox(
    *,
    gate_weight: Float[Array, "heads d_model"],
    gate_bias: Float[Array, "heads"],
    scaling: PathScaling,
    heads: int,
    w_up: Float[Array, "transitions d rank"],
    beta_weight: Float[Array, "transitions d_model"],
    beta_bias: Float[Array, "transitions"],
    w_down: Float[Array, "rank d_model"] | None = None,
    w_taps: Float[Array, "transitions d width"] | None = None,
    negative_eigenvalues: bool = True,
) -> Hooks:
    """Return the attention hooks of PaTH-FoX: PaTH's products and FoX's forget gates.

    The logarithms of the gates between key and query are added to the score, as
    :func:`posedu.numpy.gated.forget_bias` (arXiv 2505.16381 §3.3). Equation
    ``def-path-fox``.

    Parameters
    ----------
    gate_weight, gate_bias
        w and b of each query head's gate σ(w · x + b).
    scaling
        What 1/√d multiplies: the ``"product"`` of query and key alone (the paper), or
        the whole ``"logit"``, gates included (the authors' code).
    heads, w_up, beta_weight, beta_bias, w_down, w_taps, negative_eigenvalues
        As :func:`path_products`.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits``, for causal attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, unknown ``scaling``.
    """
    require_choice("scaling", scaling, PathScaling)
    weights = require_path(
        heads=heads,
        w_up=w_up,
        beta_weight=beta_weight,
        beta_bias=beta_bias,
        w_down=w_down,
        w_taps=w_taps,
        negative_eigenvalues=negative_eigenvalues,
    )

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x = require_input("path_fox", tokens)
        gates = forget_bias(log_gates(x, gate_weight, gate_bias))
        products, root = path_products(tokens, **weights), np.sqrt(tokens.d)
        if scaling == "logit":
            return (products + gates) / root
        return products / root + gates

    return Hooks(logits=logits, needs_causal=True)


def path_products(
    tokens: Tokens,
    *,
    heads: int,
    w_up: Float[Array, "transitions d rank"],
    beta_weight: Float[Array, "transitions d_model"],
    beta_bias: Float[Array, "transitions"],
    w_down: Float[Array, "rank d_model"] | None = None,
    w_taps: Float[Array, "transitions d width"] | None = None,
    negative_eigenvalues: bool = True,
) -> Float[Array, "heads queries keys"]:
    """PaTH's products q_i · T_i ⋯ T_(j+1) k_j, with T_t = I − β_t w_t w_tᵀ.

    β and w are those of :func:`strengths` and :func:`directions`, computed from the
    layer's input. If there are fewer transitions than ``heads`` (query heads),
    neighboring heads share one. Equation ``def-path``.
    """
    x = require_input("path", tokens)
    group = heads // len(w_up)
    w = directions(x, w_up, w_down, w_taps).repeat(group, axis=0)
    beta = strengths(
        x, beta_weight, beta_bias, negative_eigenvalues=negative_eigenvalues
    ).repeat(group, axis=0)

    def transition(t: int, k: Array) -> Array:
        along = np.einsum("hjd,hd->hj", k, w[:, t])
        return k - np.einsum("h,hj,hd->hjd", beta[:, t], along, w[:, t])

    return path_scores(tokens.q, tokens.k, transition)


_AXES = {
    "w_up": ("transitions", "d", "rank"),
    "w_down": ("rank", "d_model"),
    "w_taps": ("transitions", "d", "width"),
    "beta_weight": ("transitions", "d_model"),
    "beta_bias": ("transitions",),
}


def require_path(
    *,
    heads: int,
    w_up: Float[Array, "transitions d rank"],
    beta_weight: Float[Array, "transitions d_model"],
    beta_bias: Float[Array, "transitions"],
    w_down: Float[Array, "rank d_model"] | None = None,
    w_taps: Float[Array, "transitions d width"] | None = None,
    negative_eigenvalues: bool = True,
) -> dict[str, Any]:
    """Return the keyword arguments of :func:`path_products`, or raise if unfit."""
    require_dimension("heads", heads, 1)
    require_bool("negative_eigenvalues", negative_eigenvalues)
    given = {"w_up": w_up, "beta_weight": beta_weight, "beta_bias": beta_bias}
    optional = {"w_down": w_down, "w_taps": w_taps}
    given |= {name: array for name, array in optional.items() if array is not None}
    given = {name: require_floats(name, array) for name, array in given.items()}
    sizes: dict[str, int] = {}
    for name, array in given.items():
        axes = _AXES[name]
        if name == "w_up" and w_down is None:
            axes = ("transitions", "d", "d_model")
        for axis, size in zip(axes, array.shape, strict=False):
            sizes.setdefault(axis, size)
        needed = [sizes.get(axis, 0) for axis in axes]
        if needed != [*array.shape]:
            raise ValueError(
                f"{name} must be [{', '.join(axes)}], here {needed}, got shape "
                f"{[*array.shape]}"
            )
    if heads % sizes["transitions"]:
        raise ValueError(
            f"heads must be a multiple of {sizes['transitions']}, the transitions, got "
            f"{heads}"
        )
    return {"heads": heads, "negative_eigenvalues": negative_eigenvalues, **given}
