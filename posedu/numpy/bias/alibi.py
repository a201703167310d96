"""ALiBi: a bias that falls linearly with the distance, by a slope for each head."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    ALiBiSides,
    ALiBiSlopes,
    require_choice,
    require_default_bias_max,
    require_dimension,
    require_positive,
)
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def alibi_slopes(
    heads: int, *, slopes: ALiBiSlopes, bias_max: float = 8.0
) -> Float[Array, "heads"]:
    """ALiBi's slope m_h of each head; for powers of two, the steepest slope is first.

    arXiv 2108.12409 §3.

    Parameters
    ----------
    heads
        Number of heads.
    slopes
        Rule for a number of heads that is no power of two. ``"authors"``: the slopes of
        P heads, the next lower power of two, then every other slope of 2P heads (their
        code, BLOOM, MPT). ``"geometric"``: 2^(−8h/heads), h = 1 … heads, as for powers
        of two.
    bias_max
        The 8 in the exponent (``alibi_bias_max`` in MPT's configurations). Default 8.

    Returns
    -------
    float64 array. Equation ``def-alibi-slopes``.

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, unknown ``slopes``, ``bias_max`` not positive.
    """
    heads = require_dimension("heads", heads, 1)
    bias_max = require_positive("bias_max", bias_max)
    if require_choice("slopes", slopes, ALiBiSlopes) == "authors":
        power = 2 ** (heads.bit_length() - 1)
        own, finer = _geometric(power, bias_max), _geometric(2 * power, bias_max)
        return np.concatenate((own, finer[::2][: heads - power]))
    return _geometric(heads, bias_max)


def _geometric(heads: int, bias_max: float) -> Float[Array, "heads"]:
    return 2.0 ** (-bias_max * np.arange(1, heads + 1) / heads)


def alibi(
    *,
    heads: int,
    slopes: ALiBiSlopes | Float[Array, "heads"],
    sides: ALiBiSides = "causal",
    bias_max: float = 8.0,
) -> Hooks:
    """Return the attention hooks of ALiBi.

    The bias of query i and key j is −m_h (i − j), with the slope m_h of head h; it is
    not divided by √d (arXiv 2108.12409 §3).

    Parameters
    ----------
    heads, bias_max
        See :func:`alibi_slopes`.
    slopes
        Rule of :func:`alibi_slopes`, or an array with the slope of each head. (In
        transformers, Falcon-RW has the authors' slopes, rounded to bfloat16, over √d.)
    sides
        ``"causal"``: as the paper, for causal attention. For encoders there are two
        forms (issue 5 of the authors' repository). ``"symmetric"``: the bias falls with
        the distance on both sides. ``"one-sided"``: in addition the first half of the
        heads sees no key to the right and the second half none to the left; by a rule,
        each half has the slopes of heads/2 heads.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``. Equation ``def-alibi``.

    Raises
    ------
    TypeError, ValueError
        As :func:`alibi_slopes`; unknown ``sides``, an odd number of one-sided heads;
        slopes that are not finite floats, one for each head; both slopes and a
        ``bias_max``.
    """
    is_one_sided = require_choice("sides", sides, ALiBiSides) == "one-sided"
    require_dimension("heads", heads, 2 if is_one_sided else 1)
    if isinstance(slopes, str):
        like = heads // 2 if is_one_sided else heads
        m = alibi_slopes(like, slopes=slopes, bias_max=bias_max)
        m = np.tile(m, heads // like)
    else:
        require_default_bias_max(bias_max)
        m = require_floats("slopes", slopes)
        if m.shape != (heads,) or not np.isfinite(m).all():
            raise ValueError(f"slopes must be {heads} finite numbers, got {m.tolist()}")
    m = m[:, None, None]
    left = (np.arange(heads) < heads // 2)[:, None, None]

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        offset = tokens.distances
        if sides == "causal":
            return -m * offset
        hidden = (offset < 0) == left if sides == "one-sided" else False
        return np.where(hidden & (offset != 0), -np.inf, -m * np.abs(offset))

    return Hooks(bias=bias, needs_causal=sides == "causal")
