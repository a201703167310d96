"""Exercises on multi-axis RoPE: M-RoPE and STRING."""

import numpy as np
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)

# multi-axis-rope-1: the axis of a pair


def interleaved_axes(sections):
    """Return the axis of each pair of features in interleaved M-RoPE, a list of ints.

    ``sections`` has the number of pairs of each axis.
    """
    count = len(sections)
    return [
        p % count if p // count < sections[p % count] else 0
        for p in range(sum(sections))
    ]


def _axes_by_turns(sections, axes, last):
    """Return the axis of each pair if the ``axes`` take turns until no pairs are left.

    ``sections`` has the number of pairs of each axis. When the ``axes`` have no pairs
    left, the axis ``last`` gets all remaining pairs.
    """
    pairs, own = [], list(sections)
    while any(own[a] for a in axes):
        for a in axes:
            if own[a]:
                pairs.append(a)
                own[a] -= 1
    return pairs + [last] * (sum(sections) - len(pairs))


INTERLEAVED = Exercise(
    name="multi-axis-rope-1",
    title="The axis of a pair",
    kind="by hand",
    minutes=6,
    lines=5,
    statement=r"""
`sections` is a list of the numbers of pairs that look at each axis.
Return the axis of each pair in *interleaved* order, as a list.
With $N$ axes, axis $a \ge 1$ has the pairs $a, a + N, a + 2N, \dots$, as many as its section says, and axis 0 has all others.
""",
    hint=r"""
Which axis would pair $p$ have if all sections were long enough?
How many pairs of that axis come before it?
""",
    cases=(
        ([2, 1, 1],),
        ([4, 2, 2],),
        ([24, 20, 20],),
        ([11, 11, 10],),
        ([9, 2, 2],),
        ([9, 1, 3],),
        ([5, 2, 1, 1],),
    ),
    solution=interleaved_axes,
    misconceptions=(
        Misconception(
            "Sectioned in place of interleaved",
            "In Qwen2-VL's sectioned order all pairs of one axis come first, then all "
            "of the next. In interleaved order the pairs of an axis are N pairs apart.",
            lambda sections: np.repeat(range(len(sections)), sections).tolist(),
        ),
        Misconception(
            "Sections ignored",
            "A section limits the pairs of its axis. Every N-th pair beyond it belongs "
            "to axis 0.",
            lambda sections: [p % len(sections) for p in range(sum(sections))],
        ),
        Misconception(
            "Axis 1 first",
            "Pair 0 belongs to axis 0, pair 1 to axis 1.",
            lambda sections: [*interleaved_axes(sections)[1:], 0],
        ),
        Misconception(
            "Free pairs given to the next axis",
            "When an axis has all its pairs, its later places belong to axis 0, not to "
            "the next axis.",
            lambda sections: _axes_by_turns(sections, range(len(sections)), 0),
        ),
        Misconception(
            "Remaining pairs given to the last axis",
            "The remaining pairs belong to axis 0, which is time.",
            lambda sections: [
                a if a or p // len(sections) < min(sections) else len(sections) - 1
                for p, a in enumerate(interleaved_axes(sections))
            ],
        ),
        Misconception(
            "Three axes for any number",
            "The step is the number of axes.",
            lambda sections: [
                p % 3 if p % 3 < len(sections) and p // 3 < sections[p % 3] else 0
                for p in range(sum(sections))
            ],
        ),
        Misconception(
            "Axis 0 last",
            "ERNIE's order has axis 0 last. Here axis 0 takes its turn as well.",
            lambda sections: _axes_by_turns(sections, range(1, len(sections)), 0),
        ),
        Misconception(
            "Section taken for the index of the last pair",
            "A section counts pairs: axis a ends before pair a + N·section.",
            lambda sections: [
                p % len(sections) if p < sections[p % len(sections)] else 0
                for p in range(sum(sections))
            ],
        ),
        Misconception(
            "One pair too many per section",
            "The pairs of an axis count from 0: the first is number 0 of its section.",
            lambda sections: [
                p % len(sections)
                if p // len(sections) <= sections[p % len(sections)]
                else 0
                for p in range(sum(sections))
            ],
        ),
        Misconception(
            "Axes counted from 1",
            "Time is axis 0.",
            lambda sections: [a + 1 for a in interleaved_axes(sections)],
        ),
        Misconception(
            "Free places given to the last axis",
            "When an axis has all its pairs, its later places belong to axis 0, not to "
            "the last axis.",
            lambda sections: [
                p % len(sections)
                if p // len(sections) < sections[p % len(sections)]
                else len(sections) - 1
                for p in range(sum(sections))
            ],
        ),
        Misconception(
            "Blocks of the first section's size",
            "The pairs of an axis are not neighbors in interleaved order, and each "
            "axis has a section of its own.",
            lambda sections: [
                min(p // sections[0], len(sections) - 1) for p in range(sum(sections))
            ],
        ),
    ),
    explanation=r"""
If all sections were long enough, pair $p$ would look at axis $p \bmod N$, and $\lfloor p/N \rfloor$ pairs of that axis would come before it.
So it keeps this axis while $\lfloor p/N \rfloor$ is less than the axis's section, and looks at axis 0 afterwards: {prf:ref}`the interleaved order of M-RoPE <def-m-rope-box>`.
For an axis $a \ge 1$ these are the pairs $a, a + N, \dots$; where all other sections are equal and that of axis 0 is larger, the slow pairs at the end are left to it.
""",
)


# multi-axis-rope-2: the position of the next token


def next_position(parts):
    """Return the position of the token that comes after a sequence: an integer.

    Each of ``parts`` is a number of words, or (frames, rows, columns) of an image or a
    video. The sequence starts at position 0.
    """
    start = 0
    for part in parts:
        if isinstance(part, int):
            start += part
        else:
            frames, rows, columns = part
            start += max(frames, rows, columns)
    return start


def _sum_of(length):
    return lambda parts: sum(p if isinstance(p, int) else length(*p) for p in parts)


NEXT = Exercise(
    name="multi-axis-rope-2",
    title="The position of the next token",
    kind="by hand",
    minutes=5,
    lines=6,
    statement=r"""
A sequence is a list of parts: a number of words, or `(frames, rows, columns)` of tokens, where a frame is 1 later in time than the frame before.
Each part begins 1 beyond the largest coordinate so far, the first at 0.
Return the position of the token that is generated next.
""",
    hint=r"""
What is the largest coordinate of a grid that begins at $s$?
""",
    cases=(
        ([2],),
        ([2, (1, 2, 3)],),
        ([(2, 3, 4)],),
        ([(2, 4, 3)],),
        ([3, (1, 5, 2), 4],),
        ([1, (1, 2, 2), 1, (1, 3, 3), 2],),
        ([2, (9, 2, 3), 1],),
        ([(1, 1, 1), (4, 4, 4)],),
    ),
    solution=next_position,
    misconceptions=(
        Misconception(
            "Tokens counted",
            "The positions of a grid rise by its longest side, not by its number of "
            "tokens.",
            _sum_of(lambda t, h, w: t * h * w),
        ),
        Misconception(
            "Next part one position too late after a grid",
            "The largest coordinate of a grid is its start plus its longest side, "
            "minus 1, and the next part begins 1 beyond.",
            _sum_of(lambda t, h, w: max(t, h, w) + 1),
        ),
        Misconception(
            "Time left out",
            "A video with more frames than rows and columns reaches farthest in time. "
            "transformers 5.23.0 leaves out time for Qwen2-VL, for the text after a "
            "video.",
            _sum_of(lambda t, h, w: max(h, w)),
        ),
        Misconception(
            "Rows left out",
            "A tall image reaches farthest in its rows.",
            _sum_of(lambda t, h, w: w),
        ),
        Misconception(
            "Columns left out",
            "A wide image reaches farthest in its columns.",
            _sum_of(lambda t, h, w: h),
        ),
        Misconception(
            "Last position in place of the next",
            "The next token stands 1 beyond the largest coordinate.",
            lambda parts: next_position(parts) - 1,
        ),
        Misconception(
            "Sides added",
            "Rows and columns both count from the part's start.",
            _sum_of(lambda t, h, w: t + h + w),
        ),
        Misconception(
            "One position for an image",
            "The rows and columns of an image have positions of their own.",
            _sum_of(lambda t, h, w: 1),
        ),
        Misconception(
            "No positions for an image",
            "Text after an image begins beyond the image's largest coordinate.",
            _sum_of(lambda t, h, w: 0),
        ),
        Misconception(
            "Next part one position too early",
            "A grid of n columns has the coordinates s to s + n − 1, and the next part "
            "begins at s + n.",
            _sum_of(lambda t, h, w: max(t, h, w) - 1),
        ),
        Misconception(
            "Only the last part counted",
            "All parts before the last take positions, too.",
            lambda parts: next_position(parts[-1:]),
        ),
        Misconception(
            "Frames counted one after the other",
            "All frames of a video begin at the same row and column.",
            _sum_of(lambda t, h, w: t * max(h, w)),
        ),
        Misconception(
            "Every part from 0",
            "A part begins after the parts before it: starts add up.",
            lambda parts: max(p if isinstance(p, int) else max(p) for p in parts),
        ),
        Misconception(
            "Only the frames of a video counted",
            "Rows and columns of a video reach as far as those of an image, if they "
            "are more than the frames.",
            _sum_of(lambda t, h, w: t if t > 1 else max(h, w)),
        ),
        Misconception(
            "Columns of a video left out",
            "A wide video with few frames reaches farthest in its columns.",
            _sum_of(lambda t, h, w: max(t, h) if t > 1 else max(h, w)),
        ),
        Misconception(
            "Rows of a video left out",
            "A tall video with few frames reaches farthest in its rows.",
            _sum_of(lambda t, h, w: max(t, w) if t > 1 else max(h, w)),
        ),
        Misconception(
            "Frames and rows only",
            "A wide image or video reaches farthest in its columns.",
            _sum_of(lambda t, h, w: max(t, h)),
        ),
        Misconception(
            "An image counted as one position",
            "An image reaches as far as its longer side.",
            _sum_of(lambda t, h, w: t),
        ),
        Misconception(
            "Time and side added",
            "The rows and columns of later frames begin where those of the first do. "
            "Take the largest of the three numbers.",
            _sum_of(lambda t, h, w: t - 1 + max(h, w)),
        ),
        Misconception(
            "Time one too short",
            "The last of f frames is at start + f − 1, and the next part begins 1 "
            "beyond.",
            _sum_of(lambda t, h, w: max(t - 1, h, w)),
        ),
        Misconception(
            "A text counted as one token",
            "A number is that of the words of a text, and each has a position.",
            lambda parts: next_position(
                [1 if isinstance(p, int) else p for p in parts]
            ),
        ),
    ),
    explanation=r"""
A grid that begins at $s$ has the largest coordinate $s - 1 + \max(\text{frames}, \text{rows}, \text{columns})$, so the next part begins at $s + \max(\dots)$, as in {prf:ref}`the definition of the positions <def-m-rope-positions-box>`.
A text of $l$ words moves the start by $l$.
A position therefore grows much more slowly than the number of tokens: an image of $24 \times 32$ tokens takes 768 places in the sequence and 32 positions.
""",
    prediction=Prediction(
        "A sequence has 10 words and then an image of 24 rows and 32 columns of tokens. Which position has the next token?",
        lambda: next_position([10, (1, 24, 32)]),
    ),
)


# multi-axis-rope-3: positions of an image


def image_positions(start, rows, columns):
    """Return the positions ``[rows · columns, 3]`` of an image: time, row, column.

    The image has ``rows`` × ``columns`` tokens. ``start`` is the time of them all and
    the coordinate of the first row and of the first column.
    """
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    time = np.zeros(rows * columns, dtype=int)
    return start + np.stack([time, y.ravel(), x.ravel()], axis=-1)


IMAGE = Exercise(
    name="multi-axis-rope-3",
    title="An image in a text",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
An image of `rows` × `columns` tokens begins at position `start`.
Return the positions of its tokens, row by row, as integers `[rows · columns, 3]`: time, row, column.
""",
    hint=r"""
All its tokens have the same time.
Which of the other two coordinates changes faster?
""",
    cases=((0, 1, 2), (3, 2, 3), (5, 4, 2), (1, 1, 1)),
    solution=image_positions,
    misconceptions=(
        Misconception(
            "Column by column",
            "The tokens go row by row: the column changes faster.",
            lambda s, h, w: (
                image_positions(s, h, w).reshape(h, w, 3).swapaxes(0, 1).reshape(-1, 3)
            ),
        ),
        Misconception(
            "Column coordinate before the row",
            "The order of the coordinates is time, row, column.",
            lambda s, h, w: image_positions(s, h, w)[:, [0, 2, 1]],
        ),
        Misconception(
            "Start forgotten",
            "Without the start every image stands at the beginning of the text.",
            lambda s, h, w: image_positions(0, h, w),
        ),
        Misconception(
            "Start added to time only",
            "All three coordinates begin at the start. Otherwise words before the "
            "image would have the positions of its rows.",
            lambda s, h, w: image_positions(0, h, w) + np.array([s, 0, 0]),
        ),
        Misconception(
            "Start added to rows and columns only",
            "Time begins at the start, too.",
            lambda s, h, w: image_positions(s, h, w) - np.array([s, 0, 0]),
        ),
        Misconception(
            "Time rising from token to token",
            "All tokens of an image have the same time.",
            lambda s, h, w: (
                image_positions(s, h, w) + np.outer(np.arange(h * w), [1, 0, 0])
            ),
        ),
        Misconception(
            "Time rising from row to row",
            "All tokens of an image have the same time.",
            lambda s, h, w: (
                image_positions(s, h, w) + np.outer(np.arange(h * w) // w, [1, 0, 0])
            ),
        ),
        Misconception(
            "Counted from 1",
            "The first token stands at the start itself.",
            lambda s, h, w: image_positions(s + 1, h, w),
        ),
        Misconception(
            "Rows and columns exchanged",
            "`rows` is the number of rows.",
            lambda s, h, w: image_positions(s, w, h),
        ),
        Misconception(
            "Positions of a text",
            "Each token has a row and a column, not its index in the list of tokens.",
            lambda s, h, w: np.repeat(s + np.arange(h * w)[:, None], 3, axis=1),
        ),
    ),
    explanation=r"""
An image is a video of one frame, so all its tokens have the same time, `start`; rows and columns count from `start`, too.
Row by row means that the column changes fastest.
Within the image the offsets are those of rows and columns alone, and {prf:ref}`scores depend on offsets alone <thm-multi-axis-relative>`: time contributes a constant.
""",
)


# multi-axis-rope-4: the angles


def angles(positions, axes, base):
    """Return M-RoPE's angle of each pair of each token: ``[tokens, pairs]``.

    ``positions``, ``[tokens, axes]``, have a coordinate for each axis, ``axes`` has the
    axis of each pair, and ``base`` is RoPE's base.
    """
    pairs = len(axes)
    omega = base ** (-np.arange(pairs) / pairs)
    return positions[:, axes] * omega


def _points(tokens, axes):
    return np.round(10 * draw(tokens, axes))


_SHARED = (
    (_points(1, 3), np.array([0, 1, 2]), 100.0),
    (_points(4, 3), np.array([0, 1, 2, 0]), 1e4),
    (_points(3, 3), np.array([0, 0, 1, 1, 1, 2]), 1e4),
    (_points(2, 4), np.array([3, 1, 0, 2]), 500.0),
)


def _anew(positions, axes, base):
    """Return wrong M-RoPE angles, ``[tokens, pairs]``: frequencies start anew per axis.

    This is a wrong answer to the exercise ``angles``; the frequencies of every axis
    begin with 1. Right is that the frequencies fall from pair to pair, whatever the
    axis. ``positions`` has a coordinate for each axis, ``axes`` the axis of each pair.
    """
    omega = np.empty(len(axes))
    for axis in set(axes.tolist()):
        own = axes == axis
        omega[own] = base ** (-np.arange(own.sum()) / own.sum())
    return positions[:, axes] * omega


ANGLES = Exercise(
    name="multi-axis-rope-4",
    title="One coordinate for each pair",
    kind="NumPy",
    minutes=6,
    lines=3,
    statement=r"""
`positions` is `[tokens, N]`, and `axes` names the axis of each of the $P$ pairs.
Return the angles of M-RoPE, `[tokens, P]`, with $\omega_p = \text{base}^{-p/P}$.
""",
    hint=r"""
Take the coordinate of each pair's axis: an array can index columns.
""",
    cases=_SHARED,
    solution=angles,
    misconceptions=(
        Misconception(
            "A list of frequencies for each axis",
            "Axial RoPE gives every axis its own frequencies, and text would not be "
            "rotated as by RoPE. The pairs keep RoPE's frequencies, whatever axis they "
            "look at.",
            _anew,
        ),
        Misconception(
            "Time for all pairs",
            "A pair has the coordinate of its own axis.",
            lambda x, axes, base: angles(x, 0 * axes, base),
        ),
        Misconception(
            "Coordinates added",
            "A pair looks at one coordinate.",
            lambda x, axes, base: angles(
                np.repeat(x.sum(1, keepdims=True), x.shape[1], 1), axes, base
            ),
        ),
        Misconception(
            "Exponent doubled",
            "There are P pairs of 2P features: the exponent −2p/(2P) is −p/P.",
            lambda x, axes, base: angles(x, axes, base**2),
        ),
        Misconception(
            "Exponent halved",
            "The exponent is −p/P for P pairs: −2p/d with d = 2P features.",
            lambda x, axes, base: angles(x, axes, base**0.5),
        ),
        Misconception(
            "Divided by the frequency",
            "An angle is position times frequency.",
            lambda x, axes, base: (
                x[:, axes] * base ** (np.arange(len(axes)) / len(axes))
            ),
        ),
        Misconception(
            "Frequency of the axis's number",
            "The frequency belongs to the pair, not to its axis.",
            lambda x, axes, base: x[:, axes] * base ** (-axes / len(axes)),
        ),
        Misconception(
            "Pairs counted from 1",
            "The first pair has frequency 1.",
            lambda x, axes, base: angles(x, axes, base) * base ** (-1 / len(axes)),
        ),
        Misconception(
            "Slowest frequency 1/base",
            "The exponent is −p/P, not −p/(P − 1).",
            lambda x, axes, base: (
                x[:, axes] * base ** (-np.arange(len(axes)) / max(len(axes) - 1, 1))
            ),
        ),
        Misconception(
            "Angles in turns",
            "Frequencies are in radians.",
            lambda x, axes, base: angles(x, axes, base) / (2 * np.pi),
        ),
        Misconception(
            "Base 10000",
            "Use `base`: not every model has the base 10000.",
            lambda x, axes, base: angles(x, axes, 1e4),
        ),
        Misconception(
            "Slowest frequency first",
            "The first pair has the frequency 1.",
            lambda x, axes, base: (
                x[:, axes] * base ** (-np.arange(len(axes)) / len(axes))[::-1]
            ),
        ),
        Misconception(
            "Cosine in place of the angle",
            "The angles are asked for.",
            lambda x, axes, base: np.cos(angles(x, axes, base)),
        ),
        Misconception(
            "Exponent rounded down",
            "The exponent is a fraction: divide by `/`.",
            lambda x, axes, base: (
                x[:, axes] * base ** (-np.arange(len(axes)) // len(axes))
            ),
        ),
        Misconception(
            "Number of axes in the exponent",
            "P counts pairs, not axes.",
            lambda x, axes, base: (
                x[:, axes] * base ** (-np.arange(len(axes)) / x.shape[1])
            ),
        ),
        Misconception(
            "Pairs counted anew in each axis",
            "The exponent −p/P has the number of the pair among all pairs, whatever "
            "axis they look at.",
            lambda x, axes, base: (
                x[:, axes]
                * base
                ** -np.array(
                    [np.sum(axes[:p] == a) / len(axes) for p, a in enumerate(axes)]
                )
            ),
        ),
    ),
    properties=(
        Property(
            "Text is rotated as by RoPE, whatever the axes are",
            lambda answer, x, axes, base: np.allclose(
                answer(np.full_like(x, 3.0), axes, base),
                answer(np.full_like(x, 3.0), axes[::-1].copy(), base),
            ),
        ),
    ),
    explanation=r"""
There is one list of $P$ frequencies for all pairs, and the axis decides only which coordinate is multiplied by it: `positions[:, axes]` picks a coordinate for each pair.
On text all coordinates are equal, so the axes do not matter and {prf:ref}`text is rotated as by RoPE <thm-multi-axis-relative>`.
With a list of frequencies for each axis this would not hold.
""",
)


# multi-axis-rope-5: which axis does a pair look at


def axes_of_pairs(rotated):
    """Return the axis whose coordinate rotates each pair in somebody's M-RoPE code.

    The axes are integers, ``[d/2]``. Row a of ``rotated`` is what the code makes of a
    vector of ones at the position whose coordinate a is 1 and whose other coordinates
    are 0.
    """
    pairs = rotated.shape[1] // 2
    distance = np.hypot(rotated[:, :pairs] - 1, rotated[:, pairs:] - 1)
    return distance.argmax(axis=0)


def _rotated_ones(axes, omega=None):
    """Return vectors of ones in the half layout, rotated by M-RoPE, one for each axis.

    In an axis's vector the position has 1 on that axis and 0 on all others; ``axes``
    has the axis of each pair, ``omega`` its frequency, that of base 100 by default.
    """
    axes = np.array(axes)
    if omega is None:
        omega = 100.0 ** (-np.arange(len(axes)) / len(axes))
    angle = (axes == np.arange(axes.max() + 1)[:, None]) * omega
    c, s = np.cos(angle), np.sin(angle)
    return np.hstack([c - s, c + s])


def _quarter_turns(axes, number):
    """Return ``_rotated_ones`` for a ``number`` of quarter turns: entries 1 and −1."""
    return _rotated_ones(axes, np.pi / 2 * np.array(number)).round(9)


def _halves(rotated):
    return np.split(rotated, 2, axis=1)


def _beyond(tolerance, both=True):
    """Make an answer that takes the first row which changes a pair by more.

    With ``both`` a change of either feature counts, else that of the first alone.
    """

    def answer(rotated):
        a, b = (abs(half - 1) > tolerance for half in _halves(rotated))
        return (a | b if both else a).argmax(axis=0)

    return answer


def _axes_of_neighbors(rotated):
    return np.hypot(rotated[:, ::2] - 1, rotated[:, 1::2] - 1).argmax(axis=0)


PROBE = Exercise(
    name="multi-axis-rope-5",
    title="Read a port's sections",
    kind="experiment",
    minutes=8,
    lines=3,
    statement=r"""
You have somebody's code for M-RoPE and no documentation: the base and the direction of the rotations are unknown, too.
You gave it a vector of $d$ ones, in the half layout, at the positions $e_0, e_1, \dots$: one coordinate is 1, the others are 0.
`rotated`, `[N, d]`, is the output, a row for each axis.
Return the axis that each pair looks at, `[d/2]`.
The slowest pair of a model may have an angle as small as $10^{-6}$.
""",
    hint=r"""
A pair that looks at another axis has not been rotated.
Pair $p$ has the features $p$ and $p + d/2$.
""",
    cases=(
        (_rotated_ones([0, 1]),),
        (_rotated_ones([0, 1, 2, 0]),),
        (_rotated_ones([0, 0, 1, 1, 1, 2, 2, 2]),),
        (_rotated_ones([1, 2, 1, 2, 0]),),
        (_rotated_ones([3, 2, 1, 0]),),
        (_rotated_ones([1, 0, 1], [-1.0, -0.5, -0.1]),),
        (_quarter_turns([1, 0, 0, 1], [3, 3, 1, 1]),),
        (_rotated_ones([0] * 16 + [1] * 24 + [2] * 24, 1e6 ** (-np.arange(64) / 64)),),
        (_rotated_ones([2, 1, 0] * 21 + [2], 1e6 ** (-np.arange(64) / 64)),),
    ),
    solution=axes_of_pairs,
    misconceptions=(
        Misconception(
            "Interleaved layout",
            "In the half layout pair p has the features p and p + d/2.",
            _axes_of_neighbors,
        ),
        Misconception(
            "An axis that does not rotate the pair",
            "A pair is rotated with its own axis, and unchanged with the others.",
            lambda t: np.hypot(
                t[:, : t.shape[1] // 2] - 1, t[:, t.shape[1] // 2 :] - 1
            ).argmin(axis=0),
        ),
        Misconception(
            "Lengths compared",
            "A rotation keeps lengths: every pair has the length √2 in every row.",
            lambda t: np.hypot(*_halves(t)).argmax(axis=0),
        ),
        Misconception(
            "Axes counted from 1",
            "The first row belongs to axis 0.",
            lambda t: axes_of_pairs(t) + 1,
        ),
        Misconception(
            "Pairs in reverse order",
            "Pair 0 is the first feature of each half.",
            lambda t: axes_of_pairs(t)[::-1].copy(),
        ),
        Misconception(
            "Last axis that does not rotate the pair",
            "A pair is rotated with its own axis, and unchanged with the others.",
            lambda t: (
                len(t)
                - 1
                - np.hypot(
                    t[::-1, : t.shape[1] // 2] - 1, t[::-1, t.shape[1] // 2 :] - 1
                ).argmin(axis=0)
            ),
        ),
        Misconception(
            "Sectioned order from the counts",
            "The number of an axis's pairs does not say which pairs they are.",
            lambda t: np.repeat(
                range(len(t)), np.bincount(axes_of_pairs(t), minlength=len(t))
            )[::-1].copy(),
        ),
        Misconception(
            "Axes sorted",
            "The order of the pairs is the part that a port gets wrong: keep it.",
            lambda t: np.sort(axes_of_pairs(t)),
        ),
        Misconception(
            "Interleaved layout, one feature of each pair",
            "In the half layout pair p has the features p and p + d/2, and a rotation "
            "may leave one of the two as it was.",
            lambda t: abs(t[:, ::2] - 1).argmax(axis=0),
        ),
        Misconception(
            "First feature of each pair alone",
            "A quarter turn takes (1, 1) to (1, −1) or (−1, 1): look at both features.",
            lambda t: abs(_halves(t)[0] - 1).argmax(axis=0),
        ),
        Misconception(
            "Second feature of each pair alone",
            "A quarter turn takes (1, 1) to (1, −1) or (−1, 1): look at both features.",
            lambda t: abs(_halves(t)[1] - 1).argmax(axis=0),
        ),
        Misconception(
            "Small angles taken for none",
            "The slowest angle may be 10⁻⁶. Look for the largest change.",
            _beyond(1e-3),
        ),
        Misconception(
            "np.isclose takes small angles for none",
            "Its tolerance is 10⁻⁵, and the slowest angle may be 10⁻⁶. Look for the "
            "largest change.",
            _beyond(1.001e-5),
        ),
        Misconception(
            "First feature alone, and small angles taken for none",
            "Look at both features, and for the largest change: the slowest angle may "
            "be 10⁻⁶.",
            _beyond(1e-3, both=False),
        ),
        Misconception(
            "First feature alone, compared by np.isclose",
            "Look at both features, and for the largest change: np.isclose takes an "
            "angle of 10⁻⁶ for none.",
            _beyond(1.001e-5, both=False),
        ),
        Misconception(
            "Largest first feature",
            "A rotation may make it smaller: the direction is unknown. Take |x − 1|.",
            lambda t: _halves(t)[0].argmax(axis=0),
        ),
        Misconception(
            "Smallest first feature",
            "A rotation may make it larger: the direction is unknown. Take |x − 1|.",
            lambda t: _halves(t)[0].argmin(axis=0),
        ),
        Misconception(
            "Largest second feature",
            "A rotation may make it smaller: the direction is unknown. Take |x − 1|.",
            lambda t: _halves(t)[1].argmax(axis=0),
        ),
        Misconception(
            "Largest angle",
            "The rotations may be in the negative direction, and (1, 1) has the angle "
            "π/4. Compare distances from (1, 1).",
            lambda t: np.arctan2(*_halves(t)[::-1]).argmax(axis=0),
        ),
        Misconception(
            "Order guessed",
            "The axes need not take turns. Read them from `rotated`.",
            lambda t: np.arange(t.shape[1] // 2) % len(t),
        ),
        Misconception(
            "An axis that leaves the first feature as it was",
            "A pair is rotated with its own axis, and unchanged with the others.",
            lambda t: abs(_halves(t)[0] - 1).argmin(axis=0),
        ),
    ),
    explanation=r"""
At $e_a$ only the pairs that look at axis $a$ have an angle other than 0; all other pairs are still $(1, 1)$.
So for each pair one takes the row in which it is farthest from $(1, 1)$; both members are needed, since a rotation can leave one of them at 1.
A slow pair moves little, by less than $2 \cdot 10^{-6}$ in a model with 64 pairs and the base $10^6$: compare the distances with each other, not with a tolerance.
""",
)


# multi-axis-rope-6: Cayley's basis


def cayley(skew):
    """Return Cayley-STRING's orthogonal matrix P of a skew matrix S, ``[d, d]``.

    ``skew`` is S, ``[d, d]``.
    """
    one = np.eye(len(skew))
    return (one - skew) @ np.linalg.inv(one + skew)


def _skew(d, seed=0):
    a = draw(d, d, seed=seed)
    return a - a.T


CAYLEY = Exercise(
    name="multi-axis-rope-6",
    title="A basis that can be trained",
    kind="NumPy",
    minutes=5,
    lines=2,
    statement=r"""
`skew` is a skew matrix $S$.
Return Cayley-STRING's $P = (I - S)(I + S)^{-1}$.
""",
    hint=r"""
Use a matrix inverse, or a linear system.
$I - S$ and $I + S$ commute.
""",
    cases=((np.zeros((2, 2)),), (_skew(2),), (_skew(3),), (_skew(6, 1),)),
    solution=cayley,
    misconceptions=(
        Misconception(
            "Signs exchanged",
            "Your answer is the transpose, the P of −S.",
            lambda s: cayley(-s),
        ),
        Misconception(
            "Divided entry by entry",
            "`/` divides entries. You need a matrix inverse.",
            lambda s: (np.eye(len(s)) - s) / (np.eye(len(s)) + s),
        ),
        Misconception(
            "Inverse missing",
            "(I − S)(I + S) = I − S² is no rotation.",
            lambda s: np.eye(len(s)) - s @ s,
        ),
        Misconception(
            "Inverse alone",
            "(I + S)⁻¹ makes vectors shorter.",
            lambda s: np.linalg.inv(np.eye(len(s)) + s),
        ),
        Misconception(
            "Exponential in place of Cayley's transform",
            "exp(−2S) is close to P only where S is small.",
            lambda s: _exponential(-2 * s),
        ),
        Misconception(
            "Ones for the identity",
            "I has ones only on its diagonal.",
            lambda s: (1 - s) @ np.linalg.pinv(1 + s),
        ),
        Misconception(
            "Transpose in place of the inverse",
            "(I + S)ᵀ is I − S, not the inverse: I + S is not orthogonal.",
            lambda s: (np.eye(len(s)) - s) @ (np.eye(len(s)) + s).T,
        ),
        Misconception(
            "I − S divided by itself",
            "Your answer is the identity.",
            lambda s: np.eye(len(s)),
        ),
        Misconception(
            "S halved",
            "Cayley's P has S without a half.",
            lambda s: cayley(s / 2),
        ),
        Misconception(
            "Made skew once more",
            "S is skew already: S − Sᵀ is 2S.",
            lambda s: cayley(s - s.T),
        ),
        Misconception(
            "Wrong sign of I − S",
            "(S − I) in place of (I − S) changes P into −P.",
            lambda s: -cayley(s),
        ),
        Misconception(
            "Power −1 of the entries",
            "`**-1` gives 1 divided by each entry. You need a matrix inverse.",
            lambda s: (np.eye(len(s)) - s) @ (np.eye(len(s)) + s) ** -1,
        ),
        Misconception(
            "Multiplied entry by entry",
            "`*` multiplies entries. A product of matrices is `@`.",
            lambda s: (np.eye(len(s)) - s) * np.linalg.inv(np.eye(len(s)) + s),
        ),
        Misconception(
            "Inverse of the product",
            "Only I + S is inverted.",
            lambda s: np.linalg.inv(np.eye(len(s)) - s @ s),
        ),
        Misconception(
            "I − 2S",
            "This is close to P only where S is small, and it is not orthogonal.",
            lambda s: np.eye(len(s)) - 2 * s,
        ),
    ),
    properties=(
        Property(
            "P keeps lengths",
            lambda answer, s: np.allclose(answer(s).T @ answer(s), np.eye(len(s))),
        ),
    ),
    explanation=r"""
$I - S$ and $I + S$ commute, and for a skew $S$ the transpose of one is the other.
So $P^\top P = (I - S)^{-1}(I + S)(I - S)(I + S)^{-1} = I$: $P$ is orthogonal, as {prf:ref}`the theorem on Cayley-STRING <thm-string-cayley>` says.
The inverse always exists, since a skew matrix has only imaginary eigenvalues and $I + S$ no eigenvalue 0.
""",
)


def _exponential(a):
    values, vectors = np.linalg.eigh(1j * a)
    return ((vectors * np.exp(-1j * values)) @ vectors.conj().T).real


# multi-axis-rope-7: the frequencies of a circulant


def circulant_frequencies(c):
    """Return the frequencies of the waves that a circulant generator rotates.

    ``c`` is the first column of the circulant matrix C, [d], and the generator is C −
    Cᵀ. The waves are m = 1, …, d/2 − 1, so the frequencies are ``[d/2 − 1]``.
    """
    d = len(c)
    return -2 * np.fft.rfft(c).imag[1 : d // 2]


def _sines(c, terms, length):
    """Return twice the sums of ``terms`` sines of waves on ``length`` features."""
    m, n = np.arange(1, len(c) // 2), np.arange(terms)
    return 2 * np.sin(2 * np.pi * np.outer(m, n) / length) @ c[:terms]


def _sorted_frequencies(c):
    return np.sort(abs(circulant_frequencies(c)))[::-1].copy()


CIRCULANT = Exercise(
    name="multi-axis-rope-7",
    title="Frequencies of a circulant generator",
    kind="NumPy",
    minutes=10,
    lines=2,
    statement=r"""
$C$ is circulant with the first column `c`, of even length $d$, and $L = C - C^\top$.
Return the frequencies $f_m = 2 \sum_n c_n \sin(2 \pi m n/d)$ of the waves that $L$ rotates, $m = 1, \dots, d/2 - 1$.
""",
    hint=r"""
A sum of sines is the imaginary part of a Fourier transform.
Mind its sign, or write the matrix of sines.
""",
    cases=((draw(4),), (draw(6),), (draw(8, seed=1),), (draw(12, seed=2),)),
    solution=circulant_frequencies,
    misconceptions=(
        Misconception(
            "Sign of the Fourier transform",
            "A Fourier transform has e^(−i …), so its imaginary part is minus the sum "
            "of sines.",
            lambda c: -circulant_frequencies(c),
        ),
        Misconception(
            "Constant wave included",
            "m begins with 1.",
            lambda c: -2 * np.fft.rfft(c).imag[: len(c) // 2 - 1],
        ),
        Misconception(
            "C in place of C − Cᵀ",
            "L has both c and its mirror image: twice the sum.",
            lambda c: circulant_frequencies(c) / 2,
        ),
        Misconception(
            "Cosines in place of sines",
            "The cosines belong to C + Cᵀ, which stretches.",
            lambda c: 2 * np.fft.rfft(c).real[1 : len(c) // 2],
        ),
        Misconception(
            "Modulus in place of the frequency",
            "A frequency has a sign, the direction of the rotation.",
            lambda c: 2 * np.abs(np.fft.rfft(c))[1 : len(c) // 2],
        ),
        Misconception(
            "Waves in reverse order",
            "m rises from 1.",
            lambda c: circulant_frequencies(c)[::-1].copy(),
        ),
        Misconception(
            "Half frequencies of the waves",
            "Wave m makes m full turns in d features, not in 2d.",
            lambda c: (
                2
                * np.sin(
                    np.pi
                    * np.outer(np.arange(1, len(c) // 2), np.arange(len(c)))
                    / len(c)
                )
                @ c
            ),
        ),
        Misconception(
            "Divided by d",
            "Eigenvalues of a circulant are sums, without a factor.",
            lambda c: circulant_frequencies(c) / len(c),
        ),
        Misconception(
            "Missing 2π",
            "The angle is 2πmn/d: wave 1 makes one full turn in d features.",
            lambda c: (
                2
                * np.sin(
                    np.outer(np.arange(1, len(c) // 2), np.arange(len(c))) / len(c)
                )
                @ c
            ),
        ),
        Misconception(
            "n counted from 1",
            "c₀ stands at n = 0, where every sine is 0.",
            lambda c: circulant_frequencies(np.roll(c, 1)),
        ),
        Misconception(
            "Half of the sum",
            "m ends at d/2 − 1, but n runs over all of c.",
            lambda c: _sines(c, len(c) // 2, len(c)),
        ),
        Misconception(
            "Sines of d − 1 features",
            "The angle is 2πmn/d.",
            lambda c: _sines(c, len(c), len(c) - 1),
        ),
        Misconception(
            "Frequencies without their sign, sorted",
            "Eigenvalues of L come in pairs ± and in any order. Frequency m has a sign "
            "and a place.",
            _sorted_frequencies,
        ),
    ),
    level="optional",
    explanation=r"""
A discrete Fourier transform is $\sum_n c_n e^{-2\pi\mathrm{i} mn/d}$, so its imaginary part is minus the sum of sines, and $f_m$ is $-2$ times it.
The waves $m = 1, \dots, d/2 - 1$ are those whose sines are not all 0; for the constant wave, $m = 0$, and the alternating one, $m = d/2$, nothing is rotated.
This is {prf:ref}`the theorem on circulant-STRING <thm-string-circulant>`: one Fourier transform gives all frequencies.
""",
)


# multi-axis-rope-8: fold the basis


def fold(weight, basis):
    """Multiply each head's basis P into W_q or W_k; keep the shape of ``weight``.

    ``basis`` is ``[heads, d, d]``, and ``weight`` is ``[heads · d, d_model]``.
    """
    heads, d, _ = basis.shape
    return (basis @ weight.view(heads, d, -1)).reshape(weight.shape)


def _weights(heads, d, model):
    weight = torch.tensor(draw(heads * d, model))
    basis = np.stack([cayley(_skew(d, seed)) for seed in range(heads)])
    return weight, torch.tensor(basis)


FOLD = Exercise(
    name="multi-axis-rope-8",
    title="A basis that costs nothing",
    kind="PyTorch",
    minutes=8,
    lines=2,
    statement=r"""
Cayley-STRING rotates $P q$, and a head's query is $q = W x$.
`weight` is $W_q$ (or $W_k$) of all heads, `[heads · d, d_model]`, and `basis` is the $P$ of each head, `[heads, d, d]`.
Return the weight with which RoPE-Mixed alone gives the same scores.
""",
    hint=r"""
$P (W x) = (P W) x$, head by head.
""",
    cases=(_weights(1, 2, 3), _weights(2, 4, 4), _weights(3, 2, 6)),
    solution=fold,
    misconceptions=(
        Misconception(
            "Transpose of P",
            "ComRoPE's Q is folded as Qᵀ, because its rotation is Q M Qᵀ. Here the "
            "rotation is M P.",
            lambda w, p: fold(w, p.mT),
        ),
        Misconception(
            "First head's basis for all heads",
            "Every head has its own P.",
            lambda w, p: fold(w, p[:1].expand_as(p)),
        ),
        Misconception(
            "Heads interleaved",
            "The rows of a head are together: [heads, d, d_model].",
            lambda w, p: (
                torch.einsum("hij,jhm->ihm", p, w.view(p.shape[1], len(p), -1))
                .reshape(w.shape)
                .contiguous()
            ),
        ),
        Misconception(
            "Nothing folded",
            "With the old weight RoPE-Mixed alone would rotate q, not P q.",
            lambda w, p: w.clone(),
        ),
        Misconception(
            "Basis folded twice",
            "Each weight gets P once: W_q for the query, W_k for the key.",
            lambda w, p: fold(fold(w, p), p),
        ),
        Misconception(
            "Basis added",
            "P multiplies the weight.",
            lambda w, p: w + torch.block_diag(*p).sum(1, keepdim=True),
        ),
        Misconception(
            "Heads in reverse order",
            "Head 0 has the first rows and the first basis.",
            lambda w, p: fold(w, p.flip(0)),
        ),
        Misconception(
            "S in place of P",
            "Is your basis orthogonal?",
            lambda w, p: fold(w, p - p.mT),
        ),
        Misconception(
            "First head only",
            "Every head's rows are multiplied by its own P.",
            lambda w, p: torch.cat((p[0] @ w[: p.shape[1]], w[p.shape[1] :])),
        ),
    ),
    properties=(
        Property(
            "Keys and queries with the same P have the scores of those without P",
            lambda answer, w, p: torch.allclose(
                answer(w, p).view(len(p), -1, w.shape[1]).mT
                @ answer(w, p).view(len(p), -1, w.shape[1]),
                w.view(len(p), -1, w.shape[1]).mT @ w.view(len(p), -1, w.shape[1]),
            ),
        ),
    ),
    level="optional",
    explanation=r"""
A head's rotated query is $M(x) P W x'$ for the content $x'$, and $P (W x') = (P W) x'$: the basis is folded into the rows of that head.
Here the rotation is $M P$, so $P$ itself is folded, while a basis on both sides, $Q M Q^\top$, is folded as $Q^\top$.
After training Cayley-STRING therefore costs as much as RoPE-Mixed, whose scores it has with $P q$ and $P k$, {prf:ref}`by the theorem on Cayley-STRING <thm-string-cayley>`.
""",
)


# multi-axis-rope-9: the text after a video


def colleagues_next_position(parts):
    """Position of the token after a sequence of parts.

    They are texts, images and videos.
    """
    start = 0
    for part in parts:
        if isinstance(part, int):
            start += part
        else:
            _, rows, columns = part
            start += max(rows, columns)
    return start


def sequence_with_wrong_position():
    """Return the shortest sequence for which `colleagues_next_position` is wrong.

    It is a list of parts: numbers of words, or (frames, rows, columns).
    """
    return [(2, 1, 1)]


def _refused_parts(parts):
    if type(parts) is not list or not parts:
        return "parts are a list with one part or more"
    for part in parts:
        numbers = part if type(part) is tuple and len(part) == 3 else (part,)
        if any(type(n) is not int or n < 1 for n in numbers):
            return "a part is a number of words or (frames, rows, columns), from 1 on"
    return ""


def _tokens(parts):
    return sum(part if type(part) is int else int(np.prod(part)) for part in parts)


VIDEO = Exercise(
    name="multi-axis-rope-9",
    title="Find the input: a sequence",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_next_position` should do what exercise multi-axis-rope-2 asks for.
Her tests are a text, a text with an image of $5 \times 2$ tokens in it, and a video of 4 frames of $16 \times 16$ tokens; all pass.
Find a list of parts for which it is wrong.
The smallest is the one with the fewest tokens.
Which videos are affected, and what happens to the text after them?
""",
    hint=r"""
Which of the three numbers of a part does she not use?
When is it the largest?
""",
    cases=((),),
    solution=sequence_with_wrong_position,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_next_position,
        right=next_position,
        tested=(([7],), ([3, (1, 5, 2), 4],), ([2, (4, 16, 16), 1],)),
        refusal=_refused_parts,
        size=_tokens,
        size_of="number of tokens",
    ),
    explanation=r"""
She leaves out time, so every video with more frames than rows and columns is affected: the smallest has 2 frames of one token.
The text after such a video begins at a time that frames of the video already have: in time its first tokens stand beside or before the last frames, and {prf:ref}`scores depend on such offsets alone <thm-multi-axis-relative>`.
{prf:ref}`The positions of text, images and videos <def-m-rope-positions-box>` have both rules: with `after="grid"` hers would be right.
""",
)


# multi-axis-rope-10: a pair too many


def colleagues_axes(sections):
    """Axis of each pair in interleaved M-RoPE."""
    count = len(sections)
    axes = []
    for p in range(sum(sections)):
        turn, axis = divmod(p, count)
        axes.append(axis if turn <= sections[axis] else 0)
    return axes


def sections_with_wrong_axes():
    """Return the smallest sections for which `colleagues_axes` is wrong: a list."""
    return [3, 1]


def _refused_sections(sections):
    if type(sections) is not list or not sections:
        return "sections are a list with one number or more"
    if any(type(n) is not int or n < 1 for n in sections):
        return "sections are positive integers"
    last = [a + len(sections) * (n - 1) for a, n in enumerate(sections)]
    if max(last[1:], default=0) >= sum(sections):
        return "there are not enough pairs for the last place of an axis"
    return ""


SECTIONS = Exercise(
    name="multi-axis-rope-10",
    title="Find the input: sections",
    kind="find the input",
    minutes=10,
    lines=1,
    statement=r"""
`colleagues_axes` should do what exercise multi-axis-rope-1 asks for.
Her tests are the sections 2, 1, 1 and 11, 11, 10 and 8, 8, 8; all pass.
Find a list of sections, all positive, for which it is wrong.
The smallest is the one with the fewest pairs.
Why do sections that are nearly equal not show it?
""",
    hint=r"""
How many pairs does she give to an axis at most?
Which pair is the first one too many?
""",
    cases=((),),
    solution=sections_with_wrong_axes,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_axes,
        right=interleaved_axes,
        tested=(([2, 1, 1],), ([11, 11, 10],), ([8, 8, 8],)),
        refusal=_refused_sections,
        size=sum,
        size_of="number of pairs",
    ),
    explanation=r"""
She gives an axis $a \ge 1$ one pair more than its section $n_a$, namely $a + N n_a$, if the head has so many pairs.
With nearly equal sections that index is beyond the last pair, and nothing happens.
The first pair too many of two axes with $n_1 = 1$ is pair 3, so 4 pairs with the sections 3 and 1 are enough; with three axes it is pair 4, and 5 pairs are needed.
In a model such a pair rotates with a row in place of the time; by {prf:ref}`M-RoPE's theorem <thm-multi-axis-relative>` a text does not show it either.
""",
    level="optional",
)


SHEET = Sheet(
    title="Multi-axis RoPE: M-RoPE and STRING",
    conventions=r"""
Axes are time 0, rows 1 and columns 2.
Pairs $p$ count from 0, and angles are in radians.
$\omega_p = \text{base}^{-p/P}$ for $P$ pairs.
""",
    example=r"""
from posedu.numpy.rotary import m_rope_axes

print(m_rope_axes([2, 1, 1], order="sectioned"))
""",
    figure="m_rope_explorable",
    exercises=(
        INTERLEAVED,
        NEXT,
        IMAGE,
        ANGLES,
        PROBE,
        CAYLEY,
        CIRCULANT,
        FOLD,
        VIDEO,
        SECTIONS,
    ),
)
