"""LongRoPE: each pair's frequency is divided by a factor that was found by search."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_dimension, require_positive
from posedu._renamed import renamed_names
from posedu.numpy._arrays import require_floats
from posedu.numpy.frequencies import require_frequencies, require_scaled

Array = np.ndarray
Divisors = Float[Array, "pairs"] | Sequence[float]


def longrope(
    frequencies: Float[Array, "pairs"],
    *,
    short: Divisors,
    long: Divisors,
    trained: int,
    length: int,
) -> Float[Array, "pairs"]:
    """RoPE's frequencies divided by a list of factors, for short or for long texts.

    The factors λ_p, one for each pair p, were found by search (arXiv 2402.13753).

    Parameters
    ----------
    frequencies
        RoPE's frequencies of the pairs of features.
    short, long
        λ for texts of up to L tokens, and for longer texts, ``[pairs]``, above 0.
    trained, length
        L, the original training length (``original_max_position_embeddings``), and the
        length of the whole text, as in Phi-3's code and transformers. Keys that were
        rotated before the text passed L were rotated by other frequencies.

    Returns
    -------
    float64 array ``[pairs]``. The paper leaves the first n̂ tokens unchanged, which no
    frequencies can do; the released code does not either. Equation ``def-longrope``.

    Raises
    ------
    TypeError, ValueError
        Frequencies and divisors that are not floating, not finite, not in a row or of
        different lengths; divisors that are not above 0; lengths that are not positive
        integers.
    """
    omega = require_frequencies(frequencies)
    require_dimension("length", length, 1)
    require_dimension("trained", trained, 1)
    lists = {"short": _divisors("short", short, omega)}
    lists["long"] = _divisors("long", long, omega)
    return require_scaled(omega / lists["long" if length > trained else "short"])


def _divisors(
    name: str, divisors: Divisors, omega: Float[Array, "pairs"]
) -> Float[Array, "pairs"]:
    given = require_floats(name, np.asarray(divisors))
    if given.shape != omega.shape or not (np.isfinite(given) & (given > 0)).all():
        raise ValueError(
            f"{name} must be {len(omega)} finite numbers above 0, one for each "
            f"frequency, got {divisors}"
        )
    return given


def longrope_attention_factor(factor: float, *, trained: float) -> float:
    """LongRoPE's attention factor √(1 + ln s/ln L), or 1 for s ≤ 1.

    The formula is that of Phi-3's code; in transformers a configuration's
    ``attention_factor`` replaces it.

    Parameters
    ----------
    factor
        s, the length of the longest text divided by L, above 0.
    trained
        L, the original training length, above 1.

    Raises
    ------
    TypeError, ValueError
        A ``factor`` that is not above 0, a ``trained`` that is not above 1.
    """
    factor = require_positive("factor", factor)
    if require_positive("trained", trained) <= 1:
        raise ValueError(f"trained must be above 1, got {trained}")
    return math.sqrt(1 + math.log(max(factor, 1)) / math.log(trained))


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
