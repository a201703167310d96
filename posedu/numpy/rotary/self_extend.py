"""Self-Extend, ReRoPE and dual chunk attention: other offsets for far keys."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Num

from posedu._arguments import (
    FarOffsets,
    GroupJoin,
    Layout,
    require_base,
    require_choice,
    require_far,
)
from posedu.numpy._arrays import Positions, require_positions
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary.rope import pairs

Array = np.ndarray


def extended_offsets(
    query_positions: Num[Array, "queries"] | Sequence[object],
    key_positions: Num[Array, "keys"] | Sequence[object],
    *,
    far: FarOffsets,
    window: int,
    group: int | None = None,
    join: GroupJoin | None = None,
    chunk: int | None = None,
) -> Float[Array, "queries keys"]:
    """The offset that RoPE uses for each query and key: far keys may count as nearer.

    Equations ``def-cache-grouped``, ``def-cache-constant`` and ``def-cache-chunks``.

    Parameters
    ----------
    query_positions, key_positions
        Integers or finite reals, ``[queries]`` and ``[keys]``, of a causal layer and in
        rising order; keys ahead of their query count as near.
    far
        Offset of keys that are ``window`` or more away. ``"grouped"``: Self-Extend
        (arXiv 2401.01325 §3.2), ⌊i/G⌋ − ⌊j/G⌋ plus a shift that joins far offsets to
        near ones. ``"constant"``: ReRoPE, the window itself. ``"chunks"``: dual chunk
        attention (arXiv 2402.17463), as its authors' code has it.
    window
        Offsets below ``window`` are unchanged (``"grouped"``, ``"constant"``); for
        ``"chunks"`` offsets up to ``window`` across the border of two chunks are.
    group
        Number G of neighboring positions that share one position in ``"grouped"``.
    join
        The shift of ``"grouped"``, for the window w: ``"floor"``, w − ⌊w/G⌋ (the
        paper), or ``"exact"``, w − w/G, which the authors' code also has. The two agree
        where G divides w.
    chunk
        Tokens of a chunk, at least the window (the code's ``chunk_size`` less its
        ``local_window``).

    Raises
    ------
    TypeError, ValueError
        Sizes that are no positive integers, missing though ``far`` needs them, or given
        though ``far`` does not use them; positions that are not finite or not
        ``[tokens]``.
    """
    require_far(far, window, group, chunk, join)
    i, j = (
        _line(name, given)
        for name, given in (("query", query_positions), ("key", key_positions))
    )
    i, j = i[:, None], j[None, :]
    if chunk is not None:
        return _across_chunks(i, j, chunk, window)
    if group is None:
        return np.where(i - j < window, i - j, window)
    shift = window - (window // group if join == "floor" else window / group)
    grouped = np.floor_divide(i, group) - np.floor_divide(j, group) + shift
    return np.where(i - j < window, i - j, grouped)


def _line(name: str, positions: Positions) -> Float[Array, "tokens"]:
    positions = require_positions(positions, f"{name}_positions")
    if positions.ndim != 1:
        raise ValueError(
            f"{name}_positions must be [tokens], got shape {list(positions.shape)}"
        )
    return positions


def _across_chunks(i: Array, j: Array, chunk: int, window: int) -> Array:
    behind = np.floor_divide(i, chunk) - np.floor_divide(j, chunk)
    top = chunk + window
    query = np.where(behind < 1, i % chunk, np.minimum(i % chunk + chunk, top))
    query = np.where(behind > 1, min(2 * chunk - 1, top), query)
    return query - j % chunk


def self_extend(
    *,
    far: FarOffsets,
    window: int,
    layout: Layout,
    group: int | None = None,
    join: GroupJoin | None = None,
    chunk: int | None = None,
    base: float = 10000.0,
) -> Hooks:
    """Return the attention hooks of RoPE with the offsets of :func:`extended_offsets`.

    Hooks are functions that attention calls; here ``logits``. The offset of a far key
    is replaced, in order to stay within those of training. Equation
    ``def-cache-extended``.

    Parameters
    ----------
    far, window, group, join, chunk
        See :func:`extended_offsets`.
    layout, base
        See :func:`posedu.numpy.rotary.rope`.

    Raises
    ------
    TypeError, ValueError
        As :func:`extended_offsets`; an unknown ``layout``, a ``base`` not above 1.
    """
    require_far(far, window, group, chunk, join)
    require_choice("layout", layout, Layout)
    require_base(base)

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        offsets = extended_offsets(
            tokens.query_positions,
            tokens.key_positions,
            far=far,
            window=window,
            group=group,
            join=join,
            chunk=chunk,
        )
        q, k, d = tokens.q, tokens.k, tokens.d
        angle = offsets[..., None] * frequencies(d, base=base)
        a, b = pairs(d, layout=layout)
        along = q[..., :, None, a] * k[..., None, :, a]
        along = along + q[..., :, None, b] * k[..., None, :, b]
        across = q[..., :, None, b] * k[..., None, :, a]
        across = across - q[..., :, None, a] * k[..., None, :, b]
        scores = along * np.cos(angle) - across * np.sin(angle)
        return scores.sum(axis=-1) / np.sqrt(d)

    return Hooks(logits=logits, needs_causal=True)
