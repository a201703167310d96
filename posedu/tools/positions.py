"""Positions of padded tokens, packed sequences and cached tokens.

For text with images and videos see :func:`posedu.numpy.rotary.m_rope_positions`.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from posedu._arguments import require_count
from posedu.tools.configs._fields import short_repr


def padded_positions(
    mask: Bool[np.ndarray, "rows tokens"],
) -> Int[np.ndarray, "rows tokens"]:
    """Return positions that count the real tokens of each row (sequence), from 0.

    Parameters
    ----------
    mask
        True at real tokens. Padding may be on either side, or in between.

    Returns
    -------
    int64 array ``[rows, tokens]``. Padding has the position of the last real token
    before it, or 0.

    Raises
    ------
    TypeError, ValueError
        The mask is not boolean, or does not have two axes.
    """
    if isinstance(mask, np.ma.MaskedArray):
        raise TypeError("`mask` must be a plain array: fill the masked entries first")
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(
            f"`mask` must be boolean, True at real tokens, got dtype {mask.dtype}"
        )
    if mask.ndim != 2:
        raise ValueError(f"`mask` must be [rows, tokens], got shape {list(mask.shape)}")
    return np.maximum(mask.cumsum(-1) - 1, 0)


def packed_positions(
    cu_seqlens: Sequence[int] | Int[np.ndarray, "texts_and_one"],
) -> tuple[Int[np.ndarray, "tokens"], Int[np.ndarray, "tokens"]]:
    """Return positions in packed sequences, and the number of each token's sequence.

    Parameters
    ----------
    cu_seqlens
        Cumulative lengths, as kernels for sequences of varying length take them: the
        start of each sequence, from 0, and the end of the last one.

    Returns
    -------
    positions, segments
        int64 arrays ``[tokens]``: positions from 0 on in each sequence, and the number
        of the sequence. Attention takes the latter as ``segments``; without it a
        sequence would attend to its neighbors.

    Raises
    ------
    TypeError, ValueError
        The lengths are not whole numbers, do not begin with 0, or decrease.
    """
    ends = np.asarray(cu_seqlens)
    if ends.dtype.kind not in "iu":
        raise TypeError(f"`cu_seqlens` must be whole numbers, got dtype {ends.dtype}")
    if (
        ends.ndim != 1
        or not len(ends)
        or ends[0]
        or (np.diff(ends.astype(int)) < 0).any()
    ):
        raise ValueError(
            "`cu_seqlens` must begin with 0 and not decrease, with one number more "
            f"than there are sequences, got {short_repr(cu_seqlens)}"
        )
    ends = ends.astype(np.int64)
    segments = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    return np.arange(ends[-1]) - ends[segments], segments


def kept_tokens(
    count: int, *, sinks: int, window: int
) -> tuple[Int[np.ndarray, "kept"], Int[np.ndarray, "kept"]]:
    """Return the tokens that a cache of first tokens (sinks) and last tokens keeps.

    Parameters
    ----------
    count
        Number of tokens so far.
    sinks, window
        Numbers of first and of last tokens to keep.

    Returns
    -------
    kept, shifts
        int64 arrays: the indices of the kept tokens, in order, and the shift of each to
        its new position, at most 0, for :func:`posedu.numpy.rotary.rerotation`. If all
        tokens fit, all shifts are 0.

    Raises
    ------
    ValueError, TypeError
        An argument is not a whole number or is below 0.
    """
    for name, value in (("count", count), ("sinks", sinks), ("window", window)):
        require_count(name, value)
    kept = np.arange(count)
    kept = kept[(kept < sinks) | (kept >= count - window)]
    return kept, np.arange(len(kept)) - kept
