"""Positions of tokens that are padded, packed, or left over in a cache.

Those of text with pictures and videos are
:func:`posedu.numpy.rotary.m_rope_positions`.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from posedu._arguments import require_count
from posedu.tools.configs._fields import shown


def padded_positions(
    mask: Bool[np.ndarray, "rows tokens"],
) -> Int[np.ndarray, "rows tokens"]:
    """Positions that count the real tokens of each row, from 0.

    Parameters
    ----------
    mask
        True at real tokens, on whichever side the padding is, and in between.

    Returns
    -------
    int64 array ``[rows, tokens]``. Padding has the position of the last real token
    before it, or 0.

    Raises
    ------
    TypeError, ValueError
        A mask that is not of booleans, or not of two axes.
    """
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(
            f"mask must be of booleans, True at real tokens, got {mask.dtype}"
        )
    if mask.ndim != 2:
        raise ValueError(f"mask must be [rows, tokens], got shape {list(mask.shape)}")
    return np.maximum(mask.cumsum(-1) - 1, 0)


def packed_positions(
    cu_seqlens: Sequence[int] | Int[np.ndarray, "texts_and_one"],
) -> tuple[Int[np.ndarray, "tokens"], Int[np.ndarray, "tokens"]]:
    """Positions in texts that stand one behind the other, and which text it is.

    Parameters
    ----------
    cu_seqlens
        Where each text begins, from 0, and at last where the last one ends: cumulated
        lengths, as kernels for lengths that vary take them.

    Returns
    -------
    positions, segments
        int64 arrays ``[tokens]``: each text's from 0 on, and its number, for the
        argument ``segments`` of attention, without which it would look into its
        neighbors.

    Raises
    ------
    TypeError, ValueError
        What are no whole numbers, do not begin with 0, or fall.
    """
    ends = np.asarray(cu_seqlens)
    if ends.dtype.kind not in "iu":
        raise TypeError(f"cu_seqlens must be whole numbers, got {ends.dtype}")
    if (
        ends.ndim != 1
        or not len(ends)
        or ends[0]
        or (np.diff(ends.astype(int)) < 0).any()
    ):
        raise ValueError(
            "cu_seqlens must begin with 0 and not fall, one number more than there are "
            f"texts, got {shown(cu_seqlens)}"
        )
    ends = ends.astype(np.int64)
    segments = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    return np.arange(ends[-1]) - ends[segments], segments


def kept_tokens(
    count: int, *, sinks: int, window: int
) -> tuple[Int[np.ndarray, "kept"], Int[np.ndarray, "kept"]]:
    """Which tokens a cache of sinks and a window keeps, and how far each moves.

    Parameters
    ----------
    count
        Tokens so far.
    sinks, window
        How many of the first and of the last are kept.

    Returns
    -------
    kept, shifts
        int64 arrays: the indices of those that stay, in order, and the shift that
        brings each to its place among them, at most 0, for
        :func:`posedu.numpy.rotary.rerotation`. Where all fit, nothing moves.

    Raises
    ------
    ValueError, TypeError
        Numbers that are no whole numbers or below 0.
    """
    for name, value in (("count", count), ("sinks", sinks), ("window", window)):
        require_count(name, value)
    kept = np.arange(count)
    kept = kept[(kept < sinks) | (kept >= count - window)]
    return kept, np.arange(len(kept)) - kept
