"""Reference solution of the project "patches"."""

import numpy as np

from posedu.book.exercises.rotary.multi_axis_rope import (
    image_positions,
    interleaved_axes,
    next_position,
)
from posedu.book.projects.records import Rubric


def number(segments, merge):
    """Return the positions (time, row, column) of all tokens, [tokens, 3]."""
    parts, positions = [], []
    for segment in segments:
        start = next_position(parts)
        if isinstance(segment, int):
            parts.append(segment)
            words = start + np.arange(segment)
            positions.append(np.repeat(words[:, None], 3, axis=1))
        else:
            frames, rows, columns = segment
            rows, columns = rows // merge, columns // merge
            parts.append((frames, rows, columns))
            image = image_positions(start, rows, columns)
            positions += [image + np.array([t, 0, 0]) for t in range(frames)]
    return np.concatenate(positions)


def assign(pairs):
    """Return the axis of each pair: rows and columns alternate, time comes last."""
    time = pairs // 4
    rows = (pairs - time) // 2
    fast = interleaved_axes((pairs - time - rows, rows))
    return [1 + axis for axis in fast] + [0] * time


def raster(segments, merge):
    """Return the number of each token in the sequence, on all three axes."""
    count = 0
    for segment in segments:
        if isinstance(segment, int):
            count += segment
        else:
            frames, rows, columns = segment
            count += frames * (rows // merge) * (columns // merge)
    return np.repeat(np.arange(count)[:, None], 3, axis=1)


def sectioned(pairs):
    """Return the axis of each pair, all pairs of one axis in a row, as Qwen2-VL's."""
    side = 3 * pairs // 8
    return [0] * (pairs - 2 * side) + [1] * side + [2] * side


ANSWERS = (number, assign)

INSUFFICIENT = {"raster": (raster, assign), "sectioned": (number, sectioned)}

RUBRIC = Rubric(
    full=r"""
Every part begins 1 beyond the largest coordinate so far, on all three axes, and the picture's sides are counted after merging.
The answer explains each condition: equal coordinates make text that of 1-D RoPE, since each pair has all of its frequency on one axis; a common start leaves offsets within the picture as they are.
The pairs are divided by a reason: neighbors are 1 apart, so rows and columns need fast pairs, and both equally; the text finds letters in the picture from far away and by their content, for which slow pairs are useful.
The write-up says why the raster answers “right of” at every size and “below” only at the trained width: the offset of the row below *is* the width.
""",
    partial=r"""
The positions satisfy the conditions, perhaps after they were corrected one by one until the list was empty: the text after a tall picture, the frames of a video.
The division of the pairs was found by trying several and keeping the best; the reason given is that “interleaved is better than sectioned”, without the wavelengths of an axis or the angle between neighbors.
The failure of the raster is described (“it does not know rows”), but not as an offset that depends on the width; that the trained width would be answered perfectly comes as a surprise.
""",
    none=r"""
Tokens are numbered along the line, or every picture begins at 0, or rows and columns are counted in patches before merging.
The violated conditions are removed by cases for the examples that were tried, such as square pictures.
The division of the pairs is copied from a model's configuration and kept although the trained model misses the goal.
The write-up says that two dimensions are better than one because pictures have two, and explains the accuracy at other sizes by too little training.
""",
)
