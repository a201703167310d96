"""M-RoPE: RoPE whose pairs are divided among several coordinates."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import (
    Layout,
    SectionOrder,
    TextStart,
    require_choice,
    require_dimension,
    require_parts,
    require_sections,
)
from posedu.numpy._arrays import Positions, align_positions, require_floats
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary.mixed import mixed

Array = np.ndarray


def m_rope_axes(sections: Sequence[int], *, order: SectionOrder) -> Int[Array, "pairs"]:
    """The position axis whose coordinate rotates each pair of features in M-RoPE.

    Parameters
    ----------
    sections
        Number of pairs of each axis: time first, then rows and columns.
    order
        ``"sectioned"``: the pairs of the first axis, then those of the next (Qwen2-VL;
        HunYuan-VL with four axes). ``"interleaved"``: of N axes, axis a ≥ 1 has the
        pairs a, a + N, a + 2N, …, as many as its section, and the first axis the rest
        (Qwen3-VL). ``"alternating"``: all axes but the first alternate, and the first
        has the last pairs (ERNIE 4.5-VL, whose configuration names it last).

    Raises
    ------
    TypeError, ValueError
        Sections that are not integers, negative, none or all 0; an unknown ``order``;
        sections with too many pairs for an interleaved axis, or that differ where axes
        alternate.
    """
    sections = require_sections(sections, order)
    others = sections[1:]
    axes = np.zeros(sum(sections), dtype=np.int64)
    if order == "sectioned":
        return np.repeat(np.arange(len(sections)), sections)
    if order == "alternating":
        axes[: sum(others)] = 1 + np.arange(sum(others)) % max(len(others), 1)
        return axes
    for axis, count in enumerate(others, start=1):
        axes[axis :: len(sections)][:count] = axis
    return axes


def m_rope_frequencies(
    sections: Sequence[int], *, order: SectionOrder, base: float = 10000.0
) -> Float[Array, "pairs axes"]:
    """M-RoPE's frequency vector of each pair p: ω_p on the pair's axis, else 0.

    ω_p = base^(−2p/r) for r = 2 Σ ``sections`` features, as RoPE's. Arguments and
    errors as :func:`m_rope_axes`. Equation ``def-m-rope``.
    """
    axes = m_rope_axes(sections, order=order)
    vectors = np.zeros((len(axes), len(sections)))
    vectors[np.arange(len(axes)), axes] = frequencies(2 * len(axes), base=base)
    return vectors


def m_rope(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    sections: Sequence[int],
    order: SectionOrder,
    layout: Layout,
    base: float = 10000.0,
) -> Float[Array, "*batch tokens d"]:
    """Rotate pair p of features by ω_p times one of the token's coordinates (M-RoPE).

    ω_p is the frequency of pair p. arXiv 2409.12191 §2.1; interleaved, arXiv
    2510.23095. For the hook ``rotate``, a function that attention calls. Equation
    ``def-m-rope``.

    Parameters
    ----------
    x
        Queries or keys, any float dtype; computed in float64. The leading
        2 Σ ``sections`` features are rotated, the others pass through.
    positions
        Integers or finite reals, ``[tokens, axes]`` or ``[batch, tokens, axes]``: time,
        row and column, as :func:`m_rope_positions` gives them.
    sections, order
        See :func:`m_rope_axes`.
    layout
        See :func:`posedu.numpy.rotary.pairs`. Qwen's is ``"half"``, ERNIE's
        ``"interleaved"``.
    base
        Base of the frequencies. Default 10000, RoPE's.

    Returns
    -------
    float64 array of the shape of ``x``.

    Raises
    ------
    TypeError, ValueError
        As :func:`m_rope_axes` and :func:`mixed`; more sections than pairs; an odd d.
    """
    x = require_floats("x", x)
    f = m_rope_frequencies(sections, order=order, base=base)
    width = 2 * len(f)
    if x.ndim < 2 or x.shape[-1] < width:
        raise ValueError(
            f"x must be [..., tokens, d] with d at least {width} for sections of "
            f"{len(f)} pairs, got shape {list(x.shape)}"
        )
    require_dimension("d", x.shape[-1])
    require_choice("layout", layout, Layout)
    align_positions(positions, x, len(sections))
    y = x.copy()
    y[..., :width] = mixed(x[..., :width], positions, frequencies=f, layout=layout)
    return y


def m_rope_positions(
    parts: Sequence[int | Sequence[float]], *, after: TextStart
) -> Int[Array, "tokens 3"]:
    """Positions (time, row, column) of a sequence of text, images and videos.

    The sequence consists of parts: texts, pictures and videos. Each part begins at a
    coordinate s, the first at s = 0. A text of n tokens has three equal coordinates, s,
    …, s + n − 1. A picture or video has (s + ⌊c·frame⌋, s + row, s + column), frame by
    frame and row by row. Equation ``def-m-rope-positions``.

    Parameters
    ----------
    parts
        A number of tokens for text; ``(frames, rows, columns)`` of tokens for a video,
        with 1 frame for an image; ``(frames, rows, columns, c)`` where a frame is c
        steps of time after the one before: seconds from frame to frame times tokens per
        second (TM-RoPE, arXiv 2503.20215). Default 1.
    after
        Where the next part begins: ``"largest"``: 1 more than the largest coordinate so
        far (the papers; transformers 4, and 5 for Qwen's Omni models). ``"grid"``:
        after a video at s + max(rows, columns), however long it was (transformers 5).

    Returns
    -------
    int64 array ``[tokens, 3]``.

    Raises
    ------
    TypeError, ValueError
        Text that is no count, a grid with counts below 1, a negative or infinite c,
        parts of another length; an unknown ``after``; coordinates beyond 2³¹.
    """
    require_choice("after", after, TextStart)
    start, places = 0, [np.zeros((0, 3), dtype=np.int64)]
    for part in require_parts(parts):
        if isinstance(part, int):  # text
            place = np.repeat(np.arange(part)[:, None], 3, axis=1)
            length = part
        else:
            frames, rows, columns, step = part
            time = np.floor(np.arange(frames) * step).astype(np.int64)
            grid = np.meshgrid(time, np.arange(rows), np.arange(columns), indexing="ij")
            place = np.stack(grid, axis=-1).reshape(-1, 3)
            length = max(rows, columns)
            if after == "largest":
                length = max(length, time[-1] + 1)
        places.append(start + place)
        start += length
    return np.concatenate(places)
