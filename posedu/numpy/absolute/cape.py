"""CAPE: positions that are shifted, jittered and scaled anew for every sequence."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    require_bool,
    require_count,
    require_not_negative,
    require_stretch,
)
from posedu.numpy._arrays import Number, Positions, require_positions

Array = np.ndarray


def cape(
    positions: Positions,
    *,
    shift: Number | Float[Array, "rows 1"],
    jitter: Number | Float[Array, "*of_tokens"],
    scale: Number | Float[Array, "rows 1"],
    normalize: bool,
) -> Float[Array, "*rows tokens"]:
    """Augmented positions λ (τ + Δ + ε), for positions τ and random Δ, ε and λ.

    arXiv 2106.03143. The augmentation is for training; in evaluation shift and jitter
    are 0 and the scale is 1. A second encoding, in the paper a sinusoidal one, encodes
    the augmented positions.

    Parameters
    ----------
    positions
        τ: ``[tokens]``, or ``[rows, tokens]``, finite.
    shift
        Δ: one number, or one for each sequence, ``[rows, 1]``.
    jitter
        ε: a number, ``[tokens]`` or ``[rows, tokens]``, in the unit of positions.
    scale
        λ: positive; one number, or one for each sequence, ``[rows, 1]``.
    normalize
        Whether a sequence's mean position is subtracted first.

    Returns
    -------
    float64 array. Equation ``def-cape``.

    Raises
    ------
    TypeError, ValueError
        Numbers that are not finite or in half precision; a scale that is not positive;
        shapes that do not fit.
    """
    tau, delta, epsilon, factor = (
        require_positions(given, name)
        for name, given in (
            ("positions", positions),
            ("shift", shift),
            ("jitter", jitter),
            ("scale", scale),
        )
    )
    if not (factor > 0).all():
        raise ValueError(f"scale must be above 0, got {factor[factor <= 0][0]}")
    require_rows(tau, {"shift": delta, "scale": factor}, {"jitter": epsilon})
    if require_bool("normalize", normalize) and tau.size:
        tau = tau - tau.mean(-1, keepdims=True)
    return np.asarray(factor * (tau + delta + epsilon))


def draw_cape(
    rng: np.random.Generator,
    rows: int,
    tokens: int,
    *,
    max_shift: float,
    max_jitter: float,
    max_scale: float,
) -> dict[str, Float[Array, "rows _"]]:
    """Draw random ``shift``, ``jitter`` and ``scale`` of :func:`cape` for a batch.

    Each of the ``rows`` sequences has a shift Δ, uniform in ±``max_shift``, and a scale
    λ with ln λ uniform in ±ln ``max_scale``; each token has a jitter ε, uniform in
    ±``max_jitter``. The paper gives the jitter in steps from token to token: where
    positions are in seconds, multiply the jitter by the seconds of a step. ``rng`` is
    the source of randomness.

    Returns
    -------
    Dictionary of ``shift`` and ``scale``, ``[rows, 1]``, and ``jitter``,
    ``[rows, tokens]``. Equation ``def-cape``.

    Raises
    ------
    TypeError, ValueError
        Bounds that are negative, a largest scale below 1, ``rows`` or ``tokens`` that
        are no counts.
    """
    require_rng(rng)
    rows, tokens = require_count("rows", rows), require_count("tokens", tokens)
    delta = require_not_negative("max_shift", max_shift)
    epsilon = require_not_negative("max_jitter", max_jitter)
    log = np.log(require_stretch("max_scale", max_scale))
    return {
        "shift": rng.uniform(-delta, delta, (rows, 1)),
        "jitter": rng.uniform(-epsilon, epsilon, (rows, tokens)),
        "scale": np.exp(rng.uniform(-log, log, (rows, 1))),
    }


def require_rng(rng: np.random.Generator) -> np.random.Generator:
    """Return ``rng`` if it is a NumPy generator, else raise."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a np.random.Generator, got {type(rng).__name__}; "
            "np.random.default_rng(seed) makes one"
        )
    return rng


def require_rows(
    positions: Array, of_rows: dict[str, Array], of_tokens: dict[str, Array]
) -> None:
    """Raise unless random numbers have shapes that fit ``positions``.

    Positions are ``[tokens]`` or ``[rows, tokens]``. Both dictionaries hold arrays of
    random numbers by argument name. An array of ``of_rows`` is one number or ``[rows,
    1]``: a number for each sequence. An array of ``of_tokens`` is one number,
    ``[tokens]`` or ``[rows, tokens]``. All must agree on the number of rows, which may
    also be 1.
    """
    if positions.ndim not in (1, 2):
        raise ValueError(
            "positions must be [tokens] or [rows, tokens], got shape "
            f"{list(positions.shape)}"
        )
    tokens = positions.shape[-1]
    for name, draw in of_rows.items():
        if draw.ndim and (draw.ndim != 2 or draw.shape[1] != 1):
            raise ValueError(
                f"{name} must be one number or [rows, 1], got shape {list(draw.shape)}"
            )
    for name, draw in of_tokens.items():
        if draw.ndim > 2 or (draw.ndim and draw.shape[-1] != tokens):
            raise ValueError(
                f"{name} must be one number, [{tokens}] or [rows, {tokens}], got shape "
                f"{list(draw.shape)}"
            )
    every = (positions, *of_rows.values(), *of_tokens.values())
    rows = {len(t) for t in every if t.ndim == 2} - {1}
    if len(rows) > 1:
        raise ValueError(f"positions and draws differ in rows: {sorted(rows)}")
