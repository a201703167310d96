"""ALiBi: a bias that falls linearly with the distance, by a slope for each head."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import ALiBiSides, ALiBiSlopes, require_choice, require_dimension
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def alibi_slopes(heads: int, *, slopes: ALiBiSlopes) -> Float[Array, "heads"]:
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

    Returns
    -------
    float64 array. Equation ``def-alibi-slopes``.

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, unknown ``slopes``.
    """
    require_dimension("heads", heads, 1)
    if require_choice("slopes", slopes, ALiBiSlopes) == "authors":
        power = 2 ** (heads.bit_length() - 1)
        own, finer = _geometric(power), _geometric(2 * power)
        return np.concatenate((own, finer[::2][: heads - power]))
    return _geometric(heads)


def _geometric(heads: int) -> Float[Array, "heads"]:
    return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)


def alibi(*, heads: int, slopes: ALiBiSlopes, sides: ALiBiSides = "causal") -> Hooks:
    """Return the attention hooks of ALiBi.

    The bias of query i and key j is −m_h (i − j), with the slope m_h of head h; it is
    not divided by √d (arXiv 2108.12409 §3).

    Parameters
    ----------
    heads, slopes
        See :func:`alibi_slopes`.
    sides
        ``"causal"``: as the paper, for causal attention. For encoders there are two
        forms (issue 5 of the authors' repository). ``"symmetric"``: the bias falls with
        the distance on both sides. ``"one-sided"``: in addition the first half of the
        heads sees no key to the right and the second half none to the left; each half
        has the slopes of heads/2 heads.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``. Equation ``def-alibi``.

    Raises
    ------
    TypeError, ValueError
        As :func:`alibi_slopes`; unknown ``sides``, an odd number of one-sided heads.
    """
    if require_choice("sides", sides, ALiBiSides) == "one-sided":
        half = require_dimension("heads", heads) // 2
        m = np.tile(alibi_slopes(half, slopes=slopes), 2)[:, None, None]
        left = (np.arange(heads) < half)[:, None, None]
    else:
        m = alibi_slopes(heads, slopes=slopes)[:, None, None]

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        offset = tokens.distances
        if sides == "causal":
            return -m * offset
        hidden = (offset < 0) == left if sides == "one-sided" else False
        return np.where(hidden & (offset != 0), -np.inf, -m * np.abs(offset))

    return Hooks(bias=bias, needs_causal=sides == "causal")
