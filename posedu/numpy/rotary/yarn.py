"""YaRN: slow pairs interpolated, fast ones unchanged, and an attention factor."""

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    YaRNRamp,
    require_bool,
    require_choice,
    require_finite,
    require_order,
    require_positive,
)
from posedu._renamed import renamed_names
from posedu.numpy.frequencies import require_frequencies, require_grid, require_scaled

Array = np.ndarray


def yarn(
    frequencies: Float[Array, "pairs"],
    *,
    factor: float,
    trained: float,
    ramp: YaRNRamp,
    fast: float = 32.0,
    slow: float = 1.0,
    truncate: bool = True,
) -> Float[Array, "pairs"]:
    """RoPE's frequencies as YaRN scales them: slow pairs divided by s, fast ones kept.

    The frequency of pair p is (1 − γ_p) ω_p/s + γ_p ω_p (arXiv 2309.00071 §3.2). γ is 1
    for pairs with ``fast`` full turns or more within the trained length, 0 for pairs
    with ``slow`` full turns or fewer.

    Parameters
    ----------
    frequencies
        RoPE's frequencies ω_p of the pairs, fastest first.
    factor
        s, a finite number above 0.
    trained
        L, the original training length, before the extension, above 0.
    ramp
        How γ falls from 1 to 0. ``"turns"``: linearly in the number of full
        turns, as the paper prints; Llama 3.1 does so (:func:`llama3`). ``"index"``:
        linearly in p, that is, in the logarithm of the number of turns, as the authors'
        code and its followers.
    fast, slow
        β and α of the paper; 32 and 1 by default, as there.
    truncate
        Whether the ramp by index begins and ends at whole indices, outwards, as the
        authors' code; gpt-oss does not.

    Returns
    -------
    float64 array ``[pairs]``. The attention factor, which sets the temperature, is
    :func:`yarn_attention_factor`. Equations ``def-yarn``, ``def-yarn-turns`` and
    ``def-yarn-index``.

    Raises
    ------
    TypeError, ValueError
        Frequencies that are not floating, not finite or not in a row, for the ramp by
        index also frequencies that do not fall by a constant ratio; numbers that are
        not above 0; ``slow`` above ``fast``; an unknown ``ramp``.
    """
    factor = require_positive("factor", factor)
    trained = require_positive("trained", trained)
    require_order("slow", slow, "fast", fast)
    require_bool("truncate", truncate)
    if require_choice("ramp", ramp, YaRNRamp) == "turns":
        omega = require_frequencies(frequencies)
        gamma = _by_turns(trained * omega / (2 * np.pi), slow, fast)
    else:
        omega = require_grid(frequencies)
        gamma = _by_index(omega, trained, slow, fast, truncate)
    return require_scaled((1 - gamma) * omega / factor + gamma * omega)


def _by_turns(
    turns: Float[Array, "pairs"], slow: float, fast: float
) -> Float[Array, "pairs"]:
    if slow == fast:
        return (turns > fast).astype(np.float64)
    return np.clip((turns - slow) / (fast - slow), 0, 1)


def _by_index(
    omega: Float[Array, "pairs"],
    trained: float,
    slow: float,
    fast: float,
    truncate: bool,
) -> Float[Array, "pairs"]:
    """YaRN's γ of each pair, linear in the index between ``fast`` and ``slow`` turns.

    γ is the share of RoPE's own frequency that a pair keeps; ``omega`` are RoPE's
    frequencies, fastest first. r full turns in the training length L = ``trained`` are
    at the index, in general no integer, where the frequency is 2πr/L. If ``truncate``
    is true, the two ends are whole indices, the first rounded down, the last rounded
    up.
    """
    step = math.log(omega[0] / omega[1])
    first, last = (
        math.log(omega[0] * trained / (2 * math.pi * turns)) / step
        for turns in (fast, slow)
    )
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = (min(max(end, 0), 2 * len(omega) - 1) for end in (first, last))
    if first == last:
        last += 0.001  # as the authors' code: a step
    return 1 - np.clip((np.arange(len(omega)) - first) / (last - first), 0, 1)


def yarn_attention_factor(
    factor: float, *, mscale: float = 1.0, mscale_all: float = 0.0
) -> float:
    """YaRN's attention factor (``mscale``) 0.1 ln s + 1 (arXiv 2309.00071 §3.4).

    Cosines and sines are multiplied by the attention factor. So logits are multiplied
    by its square, which is 1/t for the paper's temperature t: √(1/t) = 0.1 ln s + 1.
    The attention factor is 1 for a ``factor`` of at most 1.

    Parameters
    ----------
    factor
        s, above 0.
    mscale, mscale_all
        DeepSeek's pair: the attention factor is
        (0.1 mscale ln s + 1)/(0.1 mscale_all ln s + 1). Defaults: YaRN's own, 1 and 0.

    Raises
    ------
    TypeError, ValueError
        A ``factor`` that is not above 0, numbers that are not finite, an attention
        factor that is not above 0.
    """
    growth = 0.1 * math.log(max(require_positive("factor", factor), 1))
    above = require_finite("mscale", mscale) * growth + 1
    below = require_finite("mscale_all", mscale_all) * growth + 1
    if min(above, below) <= 0:
        raise ValueError(
            f"mscale = {mscale} and mscale_all = {mscale_all} give no attention factor "
            f"above 0 for factor = {factor}"
        )
    return above / below


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
