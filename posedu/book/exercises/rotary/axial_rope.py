"""Exercises on RoPE with several axes: axial, mixed, golden gate, atoms."""

import numpy as np
import sympy as sp
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
from posedu.numpy.rotary import axial, axial_frequencies, grid

# axial-rope-1: the frequencies of a head


def spectrum(d):
    """Return axial RoPE's frequencies per axis: how many, the fastest and the slowest.

    ``d`` is the head dimension. The fastest and the slowest frequency are exact SymPy
    numbers.
    """
    count = d // 4
    slowest = sp.Integer(100) ** sp.Rational(-4 * (count - 1), d)
    return sp.Integer(count), sp.Integer(1), slowest


def _slowest(base, last, d, step=4):
    return sp.Integer(base) ** sp.Rational(-step * last, d)


def _counted(count=None, fastest=1, slowest=None):
    """Make a wrong answer (a function) to the exercise ``spectrum``.

    The exercise asks for axial RoPE's number of frequencies, the fastest and the
    slowest. In the wrong answer, ``count(d)`` replaces the number of frequencies,
    ``fastest`` the fastest (right: 1) and ``slowest(d)`` the slowest. With None for
    ``count`` or ``slowest``, this value is right.
    """

    def answer(d):
        right = spectrum(d)
        return (
            right[0] if count is None else count(d),
            sp.Integer(fastest),
            right[2] if slowest is None else slowest(d),
        )

    return answer


SPECTRUM = Exercise(
    name="axial-rope-1",
    title="The frequencies of a head",
    kind="by hand",
    minutes=5,
    lines=2,
    statement=r"""
A head has $d$ features, $d$ a multiple of 4, and uses axial RoPE with base 100 on an image.
On paper, find three things and return them exactly, as SymPy numbers; a power of 100 may stay one:

1. how many frequencies each axis has;
2. the fastest of them;
3. the slowest of them.
""",
    hint=r"""
Two features make a pair, and half of the pairs look at the columns.
First write down all frequencies for $d = 8$.
""",
    cases=((8,), (16,), (64,)),
    solution=spectrum,
    misconceptions=(
        Misconception(
            "One frequency too many",
            "The paper prints the range t = 0 … d/4. Two members per pair and two "
            "axes: how many pairs has each axis?",
            lambda d: (d // 4 + 1, sp.Integer(1), _slowest(100, d // 4, d)),
        ),
        Misconception(
            "Slowest frequency squared",
            "10000 is the base for thousands of tokens on a line, and axial RoPE's "
            "base is 100. An exponent of −8t/d squares the frequency as well: each "
            "axis has d/2 features.",
            lambda d: (d // 4, sp.Integer(1), _slowest(10000, d // 4 - 1, d)),
        ),
        Misconception(
            "Exponent of RoPE on a line",
            "With −2t/d and only d/4 values of t the slowest pair stays above one over the root of the base. Each axis has half of the head: what is "
            "its width? Base 10 gives the same number, but it is mixed RoPE's.",
            lambda d: (d // 4, sp.Integer(1), _slowest(100, d // 4 - 1, d, step=2)),
        ),
        Misconception(
            "One list of frequencies for both axes",
            "Your answer has the d/2 frequencies of RoPE on a line. In axial RoPE "
            "every axis has a list of its own, and the lists are equal.",
            lambda d: (d // 2, sp.Integer(1), _slowest(100, d // 2 - 1, d, step=2)),
        ),
        Misconception(
            "Features counted in place of pairs",
            "t counts pairs. Both features of a pair rotate with one frequency.",
            lambda d: (d // 2, sp.Integer(1), _slowest(100, d // 2 - 1, d)),
        ),
        Misconception(
            "t counted from 1",
            "t starts at 0, and base^0 = 1.",
            lambda d: (d // 4, _slowest(100, 1, d), _slowest(100, d // 4, d)),
        ),
        Misconception(
            "Pairs of both axes",
            "Half of the d/2 pairs look at the columns, the other half at the rows.",
            _counted(lambda d: d // 2),
        ),
        Misconception(
            "Features counted for each axis",
            "Two features make a pair, and a pair has one frequency.",
            _counted(lambda d: d),
        ),
        Misconception(
            "One frequency too few",
            "t runs from 0 to d/4 − 1. How many numbers are these?",
            _counted(lambda d: d // 4 - 1),
        ),
        Misconception(
            "Divided by 8, not by 4",
            "Two members per pair and two axes: divide d by four.",
            _counted(lambda d: d // 8),
        ),
        Misconception(
            "Slowest frequency taken for 1/base",
            "The last t is d/4 − 1, not d/4.",
            _counted(slowest=lambda d: sp.Rational(1, 100)),
        ),
        Misconception(
            "Wavelength in place of the slowest frequency",
            "Your third number says how many units a radian takes. The frequency is "
            "its inverse.",
            _counted(slowest=lambda d: 1 / spectrum(d)[2]),
        ),
        Misconception(
            "Base in place of the fastest frequency",
            "t starts at 0, and base^0 = 1.",
            _counted(fastest=100),
        ),
        Misconception(
            "Fastest and slowest exchanged",
            "The fastest frequency is the largest, and comes first.",
            lambda d: (spectrum(d)[0], spectrum(d)[2], spectrum(d)[1]),
        ),
        Misconception(
            "Missing factor 4 in the exponent",
            "Each axis has a head of d/2 features to itself: what is RoPE's exponent "
            "there?",
            _counted(slowest=lambda d: _slowest(100, d // 4 - 1, d, step=1)),
        ),
        Misconception(
            "A tenth for each further pair",
            "The factor 1/10 is right for d = 8. The last frequency is above 1/base, the nearer the more pairs there are.",
            lambda d: (d // 4, sp.Integer(1), sp.Rational(1, 10) ** (d // 4 - 1)),
        ),
        Misconception(
            "Frequency of t = 1",
            "t = 1 is the second frequency of an axis, and the last one for d = 8 alone.",
            _counted(slowest=lambda d: _slowest(100, 1, d)),
        ),
    ),
    properties=(
        Property(
            "The results are exact, with sp.Rational and sp.Integer in place of floats",
            lambda answer, d: not sp.Tuple(*answer(d)).has(sp.Float),
        ),
        Property(
            "The pairs of both axes together are d/2",
            lambda answer, d: 2 * answer(d)[0] == d // 2,
        ),
        Property(
            "The slowest frequency is above 1/base",
            lambda answer, d: sp.Rational(1, 100) < answer(d)[2] < 1,
        ),
    ),
    explanation=r"""
A head has $d/2$ pairs, half of them for each axis: $d/4$ frequencies.
They are $100^{-4t/d}$ with $t = 0, \dots, d/4 - 1$, by {prf:ref}`the definition of axial RoPE <def-axial-box>` with $N = 2$.
The fastest is $100^0 = 1$ and the slowest $100^{-4(d/4 - 1)/d} = 100^{4/d - 1}$, which is $100^{4/d}$ times $1/100$: 0.013 for $d = 64$, and $1/10$ for $d = 8$.
""",
)


# axial-rope-2: row by row


def patches(width, height):
    """Return the positions (column, row) of an image's patches, row by row.

    ``width`` and ``height`` count patches; the positions are an integer array, [width ·
    height, 2].
    """
    n = np.arange(width * height)
    return np.stack((n % width, n // width), axis=-1)


def _first_row(answer, width, height):
    first = answer(width, height)[:width]
    return np.array_equal(first[:, 1], np.zeros(width)) and np.array_equal(
        first[:, 0], np.arange(width)
    )


def _by(column, row):
    """Make a wrong answer (a function) to the exercise ``patches``.

    The exercise asks for the positions of an image's patches, row by row. In the wrong
    answer, the coordinates of patch number n are ``column(n, width, height)`` and
    ``row(n, width, height)``; right are n mod width and n div width.
    """

    def answer(width, height):
        n = np.arange(width * height)
        return np.stack((column(n, width, height), row(n, width, height)), axis=-1)

    return answer


PATCHES = Exercise(
    name="axial-rope-2",
    title="Row by row",
    kind="NumPy",
    minutes=5,
    lines=2,
    statement=r"""
Return the positions of the patches of an image of `width` columns and `height` rows, row by row: an integer array `[width · height, 2]` of (column, row).
Do it without `posedu.numpy.rotary.grid`.
""",
    hint=r"""
Patch $n$ of the list stands in column $n \bmod \text{width}$.
""",
    cases=((3, 2), (2, 5), (4, 4), (7, 3)),
    solution=patches,
    misconceptions=(
        Misconception(
            "Coordinates swapped",
            "The column comes first: the second patch of the first row is (1, 0).",
            lambda width, height: patches(width, height)[:, ::-1],
        ),
        Misconception(
            "Column by column",
            "Your positions are right but listed column by column. Images are "
            "flattened row by row, so the column varies fastest.",
            lambda width, height: patches(height, width)[:, ::-1],
        ),
        Misconception(
            "Width and height exchanged",
            "A row has `width` patches. On a square image nobody would notice.",
            lambda width, height: patches(height, width),
        ),
        Misconception(
            "Patches counted from 1",
            "Rows and columns count from 0.",
            lambda width, height: patches(width, height) + 1,
        ),
        Misconception(
            "Row counted by the height",
            "A new row begins after `width` patches.",
            _by(lambda n, w, h: n % w, lambda n, w, h: n // h),
        ),
        Misconception(
            "Column counted by the height",
            "A row has `width` patches. After them the column begins again.",
            _by(lambda n, w, h: n % h, lambda n, w, h: n // w),
        ),
        Misconception(
            "Rows counted from below",
            "The first row of the list is row 0.",
            _by(lambda n, w, h: n % w, lambda n, w, h: h - 1 - n // w),
        ),
        Misconception(
            "Positions along a diagonal",
            "Every patch has a column and a row of its own.",
            _by(lambda n, w, h: n, lambda n, w, h: n),
        ),
        Misconception(
            "Coordinates not on the last axis",
            "In your answer all columns come first, then all rows, and a reshape keeps "
            "that order. Which axis must move?",
            lambda width, height: np.array(
                np.meshgrid(np.arange(width), np.arange(height))
            ).reshape(-1, 2),
        ),
    ),
    properties=(
        Property(
            "Every patch has a position of its own",
            lambda answer, width, height: (
                len(np.unique(answer(width, height), axis=0)) == width * height
            ),
        ),
        Property("The first row is (0, 0), (1, 0), …", _first_row),
    ),
    explanation=r"""
A row has `width` patches, so patch $n$ stands in row $\lfloor n / \text{width} \rfloor$ and in column $n \bmod \text{width}$.
The height is needed only for the number of patches.
On a square image every exchange of width and height goes unnoticed: test with images that are not square.
""",
)


# axial-rope-3: can one pair see a diagonal?


def diagonal(f, u, v):
    """Return how far a pair's score is from a column term plus a row term, in SymPy.

    With the score s at an offset of u columns and v rows this is s(u, v) + s(0, 0) −
    s(u, 0) − s(0, v); ``f`` is the pair's frequency vector, a frequency for each axis.
    """
    across, down = f[0] * u, f[1] * v
    return sp.sin(across + down) - sp.sin(across) - sp.sin(down)


def _second_difference(s, u, v):
    return s(u, v) + s(0, 0) - s(u, 0) - s(0, v)


_REAL = sp.symbols("alpha beta u v", real=True)

DIAGONAL = Exercise(
    name="axial-rope-3",
    title="Can one pair see a diagonal?",
    kind="SymPy",
    minutes=10,
    lines=2,
    statement=r"""
A head has one pair, with the frequency vector $f = (f_0, f_1)$.
Before rotation, the query's features are $(1, 0)$ and the key's $(0, 1)$.
Let $s(r_0, r_1)$ be their score where query position minus key position is $(r_0, r_1)$.
Return

$$s(u, v) + s(0, 0) - s(u, 0) - s(0, v)$$

as a SymPy expression, for numbers or symbols.
For which $f$ is it zero for all $u$ and $v$?
""",
    hint=r"""
Put the key at the origin and rotate the query by $f \cdot r$.
What is its inner product with $(0, 1)$?
""",
    cases=(
        ((sp.Integer(1), sp.Integer(0)), sp.Integer(1), sp.Integer(2)),
        ((sp.Integer(1), sp.Integer(1)), sp.pi / 2, sp.pi / 3),
        (_REAL[:2], *_REAL[2:]),
    ),
    solution=diagonal,
    misconceptions=(
        Misconception(
            "Key taken for (1, 0)",
            "At offset 0 query and key have the same rotation, so their score is that "
            "of (1, 0) and (0, 1), which is 0. Your answer has 1 there.",
            lambda f, u, v: _second_difference(
                lambda r0, r1: sp.cos(f[0] * r0 + f[1] * r1), u, v
            ),
        ),
        Misconception(
            "Offset from the query to the key",
            "The offset is query minus key. Rotate the query (1, 0) a little "
            "counter-clockwise and leave the key: they come closer.",
            lambda f, u, v: -diagonal(f, u, v),
        ),
        Misconception(
            "Two angles subtracted",
            "The angle is f · r, a sum.",
            lambda f, u, v: diagonal((f[0], -f[1]), u, v),
        ),
        Misconception(
            "0 for every pair, as for an axial one",
            "The sine of a sum is not the sum of the sines. What is the result for f = "
            "(1, 1)?",
            lambda f, u, v: sp.Integer(0),
        ),
        Misconception(
            "Coordinates of f swapped",
            "The first rate belongs to the columns, so multiply it by u.",
            lambda f, u, v: diagonal((f[1], f[0]), u, v),
        ),
        Misconception(
            "First term alone",
            "The other three are not all zero.",
            lambda f, u, v: sp.sin(f[0] * u + f[1] * v),
        ),
        Misconception(
            "The last two terms added",
            "s(u, 0) and s(0, v) are subtracted.",
            lambda f, u, v: (
                sp.sin(f[0] * u + f[1] * v) + sp.sin(f[0] * u) + sp.sin(f[1] * v)
            ),
        ),
        Misconception(
            "Sines multiplied",
            "The score is a single sine, of the sum of two angles.",
            lambda f, u, v: (
                sp.sin(f[0] * u) * sp.sin(f[1] * v)
                - sp.sin(f[0] * u)
                - sp.sin(f[1] * v)
            ),
        ),
        Misconception(
            "Angle taken for its sine",
            "Your answer is the same sum for angles, which is 0. It is the sine that "
            "makes the difference.",
            lambda f, u, v: (f[0] + f[1]) * (u + v) - f[0] * u - f[1] * v,
        ),
        Misconception(
            "Score 1 at the origin",
            "The query is (1, 0) and the key (0, 1): before rotation they meet at "
            "right angles.",
            lambda f, u, v: diagonal(f, u, v) + 1,
        ),
        Misconception(
            "Rates added, not the angles",
            "The angle is f · r = f₀ u + f₁ v.",
            lambda f, u, v: (
                sp.sin((f[0] + f[1]) * (u + v)) - sp.sin(f[0] * u) - sp.sin(f[1] * v)
            ),
        ),
        Misconception(
            "Only the product of the sines",
            "The score is the sine of a sum of two angles, and four scores are asked "
            "for.",
            lambda f, u, v: sp.sin(f[0] * u) * sp.sin(f[1] * v),
        ),
        Misconception(
            "Key taken for (1, 0), and the origin forgotten",
            "The query is (1, 0) and the key (0, 1): the score is a sine, and 0 at the "
            "origin.",
            lambda f, u, v: (
                sp.cos(f[0] * u + f[1] * v) - sp.cos(f[0] * u) - sp.cos(f[1] * v)
            ),
        ),
        Misconception(
            "Second rate multiplied by u",
            "f · r = f₀ u + f₁ v, and s(0, v) contains v.",
            lambda f, u, v: (
                sp.sin(f[0] * u + f[1] * v) - sp.sin(f[0] * u) - sp.sin(f[1] * u)
            ),
        ),
    ),
    properties=(
        Property(
            "A frequency vector on an axis gives 0",
            lambda answer, f, u, v: (
                sp.simplify(answer((f[0], sp.Integer(0)), u, v)) == 0
                and sp.simplify(answer((sp.Integer(0), f[1]), u, v)) == 0
            ),
        ),
    ),
    explanation=r"""
With the key at the origin the query $(1, 0)$ is rotated by $f \cdot r$ and becomes $(\cos, \sin)$ of this angle, so $s(r) = \sin(f_0 r_0 + f_1 r_1)$.
The expression is $\sin(f_0 u + f_1 v) - \sin(f_0 u) - \sin(f_1 v)$, because $s(0, 0) = 0$.
It is zero for all $u$ and $v$ if and only if $f_0 = 0$ or $f_1 = 0$: if neither is zero, it is $-2$ at $u = \pi / (2 f_0)$, $v = \pi / (2 f_1)$.
So {prf:ref}`an axial score is a sum over axes <thm-axes-separable>`, and {prf:ref}`mixed RoPE can express <thm-axes-diagonal>` scores that are not.
""",
)


# axial-rope-4: the angles in both orders


def angles(positions, d, order):
    """Return axial RoPE's angle of every pair: a float64 array [tokens, d/2].

    ``positions``, [tokens, 2], are (column, row). ``order`` says how the pairs of the
    two axes are arranged: "concatenated" or "alternating".
    """
    theta = 100.0 ** (-4 * np.arange(d // 4) / d)
    by_axis = positions[:, :, None] * theta  # token, axis, frequency
    if order == "alternating":
        by_axis = by_axis.swapaxes(1, 2)
    return by_axis.reshape(len(positions), -1)


def _angles(positions, theta, order):
    x, y = positions[:, :1] * theta, positions[:, 1:] * theta
    if order == "concatenated":
        return np.concatenate((x, y), axis=1)
    return np.stack((x, y), axis=-1).reshape(len(positions), -1)


def _angles_of_a_line(positions, d, order):
    omega = 100.0 ** (-2 * np.arange(d // 2) / d)
    at = np.repeat(positions, d // 4, axis=1)
    if order == "alternating":
        at = np.tile(positions, d // 4)
    return at * omega


_OTHER = {"concatenated": "alternating", "alternating": "concatenated"}


def _angles_with(theta):
    """Make a wrong answer (a function) to the exercise ``angles``.

    The exercise asks for axial RoPE's angles. In the wrong answer, the frequencies of
    each axis are ``theta(t, d)`` for t = 0, 1, …, in place of 100^(−4t/d).
    """
    return lambda positions, d, order: _angles(
        positions, theta(np.arange(d // 4), d), order
    )


ANGLES = Exercise(
    name="axial-rope-4",
    title="The angles in both orders",
    kind="NumPy",
    minutes=15,
    lines=6,
    statement=r"""
`positions` is a float array `[tokens, 2]`.
Return the angle by which axial RoPE (base 100) rotates each pair: `[tokens, d/2]`.
Angles are negative where a coordinate is, and may be larger than a full turn.
`order` is `"concatenated"` (all pairs of the columns, then all pairs of the rows) or `"alternating"` (a pair of the columns, a pair of the rows, and so on).
""",
    hint=r"""
Both axes have the same frequencies.
First make the angles of the columns and those of the rows, each `[tokens, d/4]`.
Then join them.
""",
    cases=tuple(
        (positions, d, order)
        for positions, d in (
            (np.array([[1.0, 0.0], [0.0, 1.0]]), 8),
            (np.array([[-3.0, 12.5]]), 8),
            (grid(5, 3, coordinates="index"), 16),
            (grid(2, 6, coordinates="centers"), 12),
        )
        for order in ("concatenated", "alternating")
    ),
    solution=angles,
    misconceptions=(
        Misconception(
            "Columns and rows swapped",
            "The first pairs look at the first coordinate.",
            lambda positions, d, order: angles(positions[:, ::-1], d, order),
        ),
        Misconception(
            "Orders exchanged",
            "In the concatenated order all pairs of the columns come first. In the "
            "alternating order columns and rows take turns.",
            lambda positions, d, order: angles(positions, d, _OTHER[order]),
        ),
        Misconception(
            "Concatenated for both orders",
            "For the alternating order, pairs 0, 2, 4, … look at the columns.",
            lambda positions, d, order: angles(positions, d, "concatenated"),
        ),
        Misconception(
            "Frequencies squared",
            "10000 is RoPE's base on text, and axial RoPE's base is 100. An exponent "
            "of −8t/d squares the frequencies as well: each axis has d/2 features.",
            lambda positions, d, order: _angles(
                positions, 10000.0 ** (-4 * np.arange(d // 4) / d), order
            ),
        ),
        Misconception(
            "−2t/d in the exponent",
            "Each axis has only half of the features, so the exponent must fall twice "
            "as fast to reach as far. Base 10 gives the same frequencies, but it is "
            "mixed RoPE's.",
            lambda positions, d, order: _angles(
                positions, 100.0 ** (-2 * np.arange(d // 4) / d), order
            ),
        ),
        Misconception(
            "One list of frequencies over both axes",
            "Each axis starts again at 1: both axes have the same frequencies.",
            _angles_of_a_line,
        ),
        Misconception(
            "Slowest frequency 1/base",
            "The slowest frequency would be 1/base with one frequency more per axis, "
            "or a wider spacing: t = d/4 does not occur.",
            lambda positions, d, order: _angles(
                positions, 100.0 ** -np.linspace(0, 1, d // 4), order
            ),
        ),
        Misconception(
            "t counted from 1",
            "The fastest pair of each axis rotates by one radian per unit.",
            lambda positions, d, order: _angles(
                positions, 100.0 ** (-4 * np.arange(1, d // 4 + 1) / d), order
            ),
        ),
        Misconception(
            "−t/d in the exponent",
            "Each axis has a head of d/2 features to itself. What is RoPE's exponent "
            "there?",
            _angles_with(lambda t, d: 100.0 ** (-t / d)),
        ),
        Misconception(
            "Missing minus sign in the exponent",
            "The first pair of each axis is the fastest.",
            _angles_with(lambda t, d: 100.0 ** (4 * t / d)),
        ),
        Misconception(
            "Slowest pair first",
            "The first pair of each axis is the fastest.",
            _angles_with(lambda t, d: 100.0 ** (-4 * t[::-1] / d)),
        ),
        Misconception(
            "Radians taken for full turns",
            "The angle is coordinate · frequency, without 2π.",
            _angles_with(lambda t, d: 2 * np.pi * 100.0 ** (-4 * t / d)),
        ),
        Misconception(
            "Alternating for both orders",
            "For the concatenated order, the first d/4 pairs look at the columns.",
            lambda positions, d, order: angles(positions, d, "alternating"),
        ),
        Misconception(
            "Rotation by −angle",
            "Angles are coordinate · frequency.",
            lambda positions, d, order: angles(-positions, d, order),
        ),
        Misconception(
            "Both axes in every pair",
            "A pair looks either at the columns or at the rows.",
            lambda positions, d, order: np.tile(
                positions.sum(axis=1, keepdims=True)
                * 100.0 ** (-4 * np.arange(d // 4) / d),
                2,
            ),
        ),
        Misconception(
            "Columns for all pairs",
            "Half of the pairs look at the rows.",
            lambda positions, d, order: angles(positions[:, [0, 0]], d, order),
        ),
        Misconception(
            "One frequency for all pairs of an axis",
            "Each axis has d/4 frequencies.",
            _angles_with(lambda t, d: np.ones(d // 4)),
        ),
        Misconception(
            "Angle taken modulo 2π",
            "The whole angle is asked for, with its sign and all its turns.",
            lambda positions, d, order: angles(positions, d, order) % (2 * np.pi),
        ),
    ),
    properties=(
        Property(
            "One column to the right rotates half of the pairs and leaves the others",
            lambda answer, positions, d, order: (
                (answer(np.array([[1.0, 0.0]]), d, order) == 0).sum() == d // 4
            ),
        ),
        Property(
            "A step to the right and a step down rotate by the same frequencies",
            lambda answer, positions, d, order: np.allclose(
                np.sort(answer(np.array([[1.0, 0.0]]), d, order)),
                np.sort(answer(np.array([[0.0, 1.0]]), d, order)),
            ),
        ),
    ),
    explanation=r"""
The angle of a pair is its frequency vector times the position, and axial RoPE's frequency vectors lie on the axes: each pair sees one coordinate, with the same $\theta_t$ for columns and rows.
The two orders hold the same angles, and {prf:ref}`the theorem on orders <thm-axes-order>` gives the permutation of pairs between them.
In the array `[tokens, axis, frequency]` it exchanges the last two axes before they are merged.
""",
)


# axial-rope-5: a class token in the middle


def with_class(width, height):
    """Return the positions of a class token and of an image's patches, in this order.

    ``width`` and ``height`` count patches; the positions are a float64 tensor, [1 +
    width · height, 2].
    """
    n = torch.arange(width * height)
    at = torch.stack((n % width, n // width), -1).double()
    middle = torch.tensor([[(width - 1) / 2, (height - 1) / 2]]).double()
    return torch.cat((middle, at))


def _with_class_at(width, height, column, row):
    n = torch.arange(width * height)
    at = torch.stack((n % width, n // width), -1).double()
    return torch.cat((torch.tensor([[column, row]], dtype=torch.float64), at))


CLASS = Exercise(
    name="axial-rope-5",
    title="A class token in the middle",
    kind="PyTorch",
    minutes=10,
    lines=4,
    statement=r"""
Patches have their index coordinates, (0, 0), (1, 0), …, row by row.
A class token stands in front of them in the list.
Its position must be the exact middle of the image.
Return all positions, a float64 tensor `[1 + width · height, 2]`.
""",
    hint=r"""
Where is the middle of a row of two patches, at 0 and at 1?
""",
    cases=((2, 1), (3, 5), (6, 4)),
    solution=with_class,
    misconceptions=(
        Misconception(
            "Class token at the origin",
            "In your answer the class token is not rotated, as in RoPE-ViT. That is "
            "the position of the upper left patch, not the middle.",
            lambda width, height: _with_class_at(width, height, 0, 0),
        ),
        Misconception(
            "Class token at the position of a patch",
            "Where width or height is even, the middle lies between patches. Positions "
            "may be any real numbers.",
            lambda width, height: _with_class_at(
                width, height, width // 2, height // 2
            ),
        ),
        Misconception(
            "Middle half a patch too far",
            "The patches of a row run from 0 to width − 1, not to width.",
            lambda width, height: _with_class_at(width, height, width / 2, height / 2),
        ),
        Misconception(
            "Middle in other coordinates",
            "(½, ½) is the middle of an image that is one unit wide and high. Here a "
            "patch is one unit wide and high.",
            lambda width, height: _with_class_at(width, height, 0.5, 0.5),
        ),
        Misconception(
            "Coordinates swapped",
            "The column comes first, also for the class token.",
            lambda width, height: with_class(width, height).flip(-1),
        ),
        Misconception(
            "Class token last",
            "The class token's position stands where its features stand: in front.",
            lambda width, height: with_class(width, height).roll(-1, 0),
        ),
        Misconception(
            "Patches counted from 1",
            "The first patch is at (0, 0). The class token is not counted among the "
            "patches.",
            lambda width, height: torch.cat(
                (with_class(width, height)[:1], with_class(width, height)[1:] + 1)
            ),
        ),
        Misconception(
            "Patches column by column",
            "The order is row by row: (0, 0), (1, 0), …",
            lambda width, height: torch.cat(
                (with_class(width, height)[:1], with_class(height, width)[1:].flip(-1))
            ),
        ),
        Misconception(
            "Class token outside the image",
            "The class token's position is the exact middle.",
            lambda width, height: _with_class_at(width, height, -1, -1),
        ),
        Misconception(
            "Class token half a patch too near to the corner",
            "The patches of a row run from 0 to width − 1: where is the middle of 0 "
            "and 1?",
            lambda width, height: _with_class_at(
                width, height, width / 2 - 1, height / 2 - 1
            ),
        ),
        Misconception(
            "Middle rounded down",
            "Positions may be any real numbers.",
            lambda width, height: _with_class_at(
                width, height, (width - 1) // 2, (height - 1) // 2
            ),
        ),
        Misconception(
            "Class token's coordinates swapped",
            "The column comes first, and the middle of the columns depends on the "
            "width.",
            lambda width, height: _with_class_at(
                width, height, (height - 1) / 2, (width - 1) / 2
            ),
        ),
        Misconception(
            "Patches' coordinates swapped",
            "The column comes first: (0, 0), (1, 0), …",
            lambda width, height: torch.cat(
                (with_class(width, height)[:1], with_class(width, height)[1:].flip(-1))
            ),
        ),
        Misconception(
            "Width and height exchanged",
            "A row has `width` patches.",
            lambda width, height: with_class(height, width),
        ),
        Misconception(
            "Class token in the opposite corner",
            "The class token's position is the exact middle.",
            lambda width, height: _with_class_at(width, height, width - 1, height - 1),
        ),
        Misconception(
            "Patches measured in fractions",
            "Patches have their index coordinates: (0, 0), (1, 0), …",
            lambda width, height: torch.cat(
                (
                    with_class(width, height)[:1],
                    (with_class(width, height)[1:] + 0.5)
                    / torch.tensor([width, height]),
                )
            ),
        ),
        Misconception(
            "Everything measured in fractions",
            "Patches have their index coordinates, and the middle is measured in "
            "patches, too.",
            lambda width, height: (
                (with_class(width, height) + 0.5) / torch.tensor([width, height])
            ),
        ),
        Misconception(
            "Class token in the mean",
            "Your mean includes the row of zeros in front. Take the mean of the "
            "patches alone.",
            lambda width, height: _with_class_at(
                width,
                height,
                *(with_class(width, height)[1:].sum(0) / (width * height + 1)).tolist(),
            ),
        ),
    ),
    properties=(
        Property(
            "The first row is the mean of the others",
            lambda answer, width, height: torch.allclose(
                answer(width, height)[0], answer(width, height)[1:].mean(0)
            ),
        ),
        Property(
            "The patches are at (0, 0), (1, 0), …, row by row",
            lambda answer, width, height: torch.equal(
                answer(width, height)[1:], with_class(width, height)[1:]
            ),
        ),
    ),
    explanation=r"""
Coordinates run from 0 to $\text{width} - 1$, so their middle is $(\text{width} - 1)/2$: for two patches, at 0 and at 1, it is one half.
For an even width or height this is between two patches, so the positions must be floats.
RoPE allows that: {prf:ref}`the relative identity on a grid <thm-axes-relative>` holds for all real positions, and the class token's scores then depend on where the patch is relative to the middle of the image.
""",
)


# axial-rope-6: move weights to the other order


def to_alternating(weight, heads):
    """Reorder the rows of W_q or W_k from the concatenated to the alternating order.

    Both are orders in which axial RoPE gives pairs to columns and rows. ``weight`` and
    the returned tensor are [heads · d, d_model].
    """
    parts = weight.unflatten(0, (heads, 2, -1, 2))  # head, axis, frequency, member
    return parts.transpose(1, 2).flatten(0, 3)


REORDER = Exercise(
    name="axial-rope-6",
    title="Move weights to the other order",
    kind="PyTorch",
    minutes=10,
    lines=2,
    statement=r"""
`weight` is $W_q$ or $W_k$ of a layer, `[heads · d, d_model]`.
It was trained with axial RoPE in the concatenated order and the interleaved layout.
Return it for a layer that uses the alternating order and the same layout.
""",
    hint=r"""
Every row belongs to a head, an axis, a frequency and a member of a pair.
Which of these varies fastest in the list of rows, before and after?
""",
    cases=tuple(
        (torch.tensor(draw(heads * d, heads * d)), heads)
        for d, heads in ((8, 1), (12, 2))
    ),
    solution=to_alternating,
    misconceptions=(
        Misconception(
            "Features moved in place of pairs",
            "Both members of a pair look at the same axis, and stay neighbors.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
            ),
        ),
        Misconception(
            "Alternating to concatenated",
            "In the weights you are given, the pairs of the columns fill the first "
            "half of each head.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1, 2, 2)).transpose(1, 2).flatten(0, 3)
            ),
        ),
        Misconception(
            "Heads mixed",
            "Each head has pairs of its own. Move rows inside a head only.",
            lambda weight, heads: to_alternating(weight, 1),
        ),
        Misconception(
            "Columns of the matrix moved",
            "A projection is q = W x: features of q are rows of W.",
            lambda weight, heads: to_alternating(weight.T, heads).T,
        ),
        Misconception(
            "Layout changed, not the order",
            "The members of a pair are neighbors before and after. Only the pairs "
            "move.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
            ),
        ),
        Misconception(
            "Rows left in their order",
            "In the old order the second pair, trained on columns, would be rotated by "
            "the rows.",
            lambda weight, heads: weight.clone(),
        ),
        Misconception(
            "Order of the axes reversed",
            "In the alternating order the first pair looks at the columns.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, -1, 2))
                .flip(1)
                .transpose(1, 2)
                .flatten(0, 3)
            ),
        ),
        Misconception(
            "Halves of each head exchanged",
            "Your answer is the concatenated order with the rows first.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, -1)).flip(1).flatten(0, 2)
            ),
        ),
        Misconception(
            "Rows and columns of the matrix moved",
            "Only the rows of the matrix move. The columns are the features of the "
            "layer's input, which keep their order.",
            lambda weight, heads: (
                to_alternating(to_alternating(weight, heads).T, heads).T
            ),
        ),
        Misconception(
            "Members of each pair exchanged",
            "The layout is the same before and after.",
            lambda weight, heads: (
                to_alternating(weight, heads)
                .unflatten(0, (-1, 2))
                .flip(1)
                .flatten(0, 1)
            ),
        ),
        Misconception(
            "Heads mixed, and features moved in place of pairs",
            "Each head has pairs of its own, and both members of a pair stay "
            "neighbors.",
            lambda weight, heads: (
                weight.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)
            ),
        ),
        Misconception(
            "Rows read in the half layout",
            "In the interleaved layout the member of a pair varies fastest, and then "
            "the frequency.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, 2, -1))
                .permute(0, 3, 1, 2, 4)
                .flatten(0, 3)
            ),
        ),
    ),
    properties=(
        Property(
            "The rows are the same, in another order",
            lambda answer, weight, heads: torch.equal(
                answer(weight, heads).sort(0).values, weight.sort(0).values
            ),
        ),
        Property(
            "Scores with the alternating order are the same as before",
            lambda answer, weight, heads: _same_scores(
                answer(weight, heads), weight, heads
            ),
        ),
    ),
    level="optional",
    explanation=r"""
In the concatenated order the rows of a head are counted by axis, then frequency, then member; in the alternating order by frequency, then axis, then member.
So the two indices are exchanged, within each head, and the members of a pair stay together.
With $W_q$ and $W_k$ both reordered, all scores stay the same, by {prf:ref}`the theorem on orders <thm-axes-order>`.
""",
)


def _same_scores(reordered, weight, heads):
    positions = grid(3, 2, coordinates="index")
    x = draw(len(positions), weight.shape[1])

    def scores(rows, order):
        by_head = (x @ rows.numpy().T).reshape(len(x), heads, -1).swapaxes(0, 1)
        rotated = axial(by_head, positions, order=order, layout="interleaved")
        return rotated @ rotated.swapaxes(1, 2)

    before = scores(weight, "concatenated")
    return np.allclose(scores(reordered, "alternating"), before, rtol=0, atol=1e-9)


# axial-rope-7: a test that a square image cannot fail


def rotated(z, positions):
    """Return the vector z rotated by axial RoPE at every position: [tokens, d].

    ``positions`` are [tokens, 2]; pairs have the concatenated order and half layout.
    """
    rows = np.tile(z, (len(positions), 1))
    return axial(rows, positions, order="concatenated", layout="half")


def neighbor_spread(z, positions, width, height):
    """Return the largest minus the smallest score of right neighbors: a number.

    Every patch of an image has the content z, rotated by the patch's position, a row of
    ``positions``, [width · height, 2]. A score is the product of a patch's vector and
    the vector of the patch to its right.
    """
    image = rotated(z, positions).reshape(height, width, -1)
    scores = (image[:, :-1] * image[:, 1:]).sum(-1)
    return scores.max() - scores.min()


def _rejected():
    images = (4, 4), (5, 3)
    orders = [
        (grid(*shape[::step], coordinates="index"), *shape)
        for shape in images
        for step in (1, -1)
    ]
    return sum(neighbor_spread(_Z, *order) > 1e-9 for order in orders)


def _spread_along_the_line(z, positions, width, height):
    line = rotated(z, positions)
    return np.ptp((line[:-1] * line[1:]).sum(-1))


def _spread_of_neighbors_below(z, positions, width, height):
    image = rotated(z, positions).reshape(height, width, -1)
    return np.ptp((image[:-1] * image[1:]).sum(-1))


def _spread_of_standard_deviation(z, positions, width, height):
    image = rotated(z, positions).reshape(height, width, -1)
    return np.std((image[:, :-1] * image[:, 1:]).sum(-1))


def _spread_of_all_scores(z, positions, width, height):
    line = rotated(z, positions)
    return np.ptp(line @ line.T)


_Z = draw(8)


def _of_right_neighbors(size):
    """Make a wrong answer (a function) to the exercise ``neighbor_spread``.

    The exercise asks for the spread of the scores of right neighbors. In the wrong
    answer, ``size(scores)`` replaces the largest minus the smallest score.
    """

    def answer(z, positions, width, height):
        image = rotated(z, positions).reshape(height, width, -1)
        return size((image[:, :-1] * image[:, 1:]).sum(-1))

    return answer


NEIGHBORS = Exercise(
    name="axial-rope-7",
    title="A test that a square image cannot fail",
    kind="experiment",
    minutes=15,
    lines=4,
    statement=r"""
All patches of an image of `width` columns and `height` rows, two or more of each, have the same content, the vector `z`.
They are listed row by row, and `positions`, `[width · height, 2]`, has the coordinates that somebody's code gives them.
Rotate them (`rotated`, which is given, does it), and take the score of every patch with its right neighbor.
Return the largest of these scores minus the smallest.

Then try `grid(width, height, …)`, which is right, and `grid(height, width, …)`, which is wrong, on $4 \times 4$ and on $5 \times 3$ patches.
Which of the four does this test reject?
""",
    hint=r"""
Give the rotated patches the shape of the image: which comes first, height or width?
The last patch of a row has no right neighbor.
""",
    cases=(
        (_Z, grid(4, 4, coordinates="index"), 4, 4),
        (_Z, grid(5, 3, coordinates="index"), 5, 3),
        (_Z, grid(3, 5, coordinates="index"), 5, 3),
        (_Z, draw(6, 2), 2, 3),
    ),
    solution=neighbor_spread,
    misconceptions=(
        Misconception(
            "Last patch of a row with the first of the next",
            "These two follow each other in the list but stand at opposite edges of "
            "the image. Which patches have a right neighbor?",
            _spread_along_the_line,
        ),
        Misconception(
            "Neighbors below in place of right neighbors",
            "Rows are the first axis of the image, so right neighbors differ on the "
            "second axis.",
            _spread_of_neighbors_below,
        ),
        Misconception(
            "Image folded with width and height exchanged",
            "Row by row means the shape [height, width]: a row is `width` patches "
            "long.",
            lambda z, positions, width, height: neighbor_spread(
                z, positions, height, width
            ),
        ),
        Misconception(
            "Standard deviation",
            "The exercise asks for the largest minus the smallest.",
            _spread_of_standard_deviation,
        ),
        Misconception(
            "All pairs of patches compared",
            "Only right neighbors are asked for: one offset at many positions.",
            _spread_of_all_scores,
        ),
        Misconception(
            "Largest score",
            "Subtract the smallest score, with its sign.",
            _of_right_neighbors(np.max),
        ),
        Misconception(
            "Mean",
            "The exercise asks for the largest minus the smallest.",
            _of_right_neighbors(np.mean),
        ),
        Misconception(
            "Variance",
            "The exercise asks for the largest minus the smallest.",
            _of_right_neighbors(np.var),
        ),
        Misconception(
            "Right neighbors across the edge",
            "The last patch of a row has no right neighbor, but np.roll gives it the "
            "first patch.",
            lambda z, positions, width, height: (
                lambda image: np.ptp((image * np.roll(image, -1, axis=1)).sum(-1))
            )(rotated(z, positions).reshape(height, width, -1)),
        ),
        Misconception(
            "No rotation",
            "All patches have the same content. Only their positions make the scores "
            "differ.",
            lambda z, positions, width, height: 0.0,
        ),
        Misconception(
            "Features not summed",
            "A score is an inner product: sum over the features.",
            lambda z, positions, width, height: (
                lambda image: np.ptp(image[:, :-1] * image[:, 1:])
            )(rotated(z, positions).reshape(height, width, -1)),
        ),
        Misconception(
            "Diagonal neighbors",
            "The right neighbor stands in the same row.",
            lambda z, positions, width, height: (
                lambda image: np.ptp((image[:-1, :-1] * image[1:, 1:]).sum(-1))
            )(rotated(z, positions).reshape(height, width, -1)),
        ),
        Misconception(
            "Each row by itself",
            "Take one largest and one smallest over *all* right neighbors.",
            lambda z, positions, width, height: (
                lambda image: np.ptp(
                    (image[:, :-1] * image[:, 1:]).sum(-1), axis=1
                ).max()
            )(rotated(z, positions).reshape(height, width, -1)),
        ),
    ),
    explanation=r"""
The test rejects one of the four: `grid(3, 5, …)` on $5 \times 3$ patches, where the scores differ by 0.89 for this `z`.
`grid(4, 4, …)` is the same call in the right and in the wrong order, so on a square image the mistake cannot show.
With right positions all right neighbors have the same offset, $(1, 0)$, and so the same score, by {prf:ref}`the relative identity on a grid <thm-axes-relative>`.
""",
    prediction=Prediction(
        r"How many of the four does the test reject: `grid(width, height, …)` and `grid(height, width, …)`, on $4 \times 4$ and on $5 \times 3$ patches?",
        _rejected,
    ),
)


# axial-rope-8: how far the weights are from a product


def second_share(f, width, height):
    """Return the second singular value of attention weights divided by the first.

    The weights, [height, width], are those of the query at (0, 0) on all patches of an
    image; ``f`` are the frequency vectors, [pairs, 2].
    """
    positions = grid(width, height, coordinates="index")
    logits = np.cos(positions @ f.T).sum(axis=1)
    weights = np.exp(logits - logits.max())
    table = (weights / weights.sum()).reshape(height, width)
    sizes = np.linalg.svd(table, compute_uv=False)
    return sizes[1] / sizes[0]


def _share(table):
    sizes = np.linalg.svd(table, compute_uv=False)
    return float(sizes[1] / sizes[0])


def _weights(f, width, height):
    weights = np.exp(_logits(f, width, height))
    return weights / weights.sum()


def _logits(f, width, height):
    positions = grid(width, height, coordinates="index")
    return np.cos(positions @ f.T).sum(-1).reshape(height, width)


def _share_by_rows(f, width, height):
    weights = _weights(f, width, height)
    return _share(weights / weights.sum(axis=1, keepdims=True))


def _share_of_total(f, width, height):
    sizes = np.linalg.svd(_weights(f, width, height), compute_uv=False)
    return float(sizes[1] / sizes.sum())


def _of_sizes(share):
    """Make a wrong answer (a function) to the exercise ``second_share``.

    The exercise asks for the second singular value of attention weights divided by the
    first. In the wrong answer, another number is made of the singular values ``sizes``,
    largest first: ``share(sizes)``.
    """
    return lambda f, width, height: share(
        np.linalg.svd(_weights(f, width, height), compute_uv=False)
    )


def _of_logits(change):
    """Make a wrong answer (a function) to the exercise ``second_share``.

    The exercise asks for the second singular value of attention weights divided by the
    first. In the wrong answer, the logits of the patches are ``change(angles)``, of the
    angles [patches, pairs], in place of the sums of the angles' cosines.
    """

    def answer(f, width, height):
        positions = grid(width, height, coordinates="index")
        weights = np.exp(change(positions @ f.T))
        return _share((weights / weights.sum()).reshape(height, width))

    return answer


def _of_grid(positions, f, width, height):
    """Return the second singular value of attention weights divided by the first.

    This is what the exercise ``second_share`` asks for, here for patches at the given
    ``positions``, [width · height, 2], which may be wrong; ``f`` are the frequency
    vectors, [pairs, 2].
    """
    weights = np.exp(np.cos(positions @ f.T).sum(-1))
    return _share((weights / weights.sum()).reshape(height, width))


def _of_cosines(f, width, height):
    columns, rows = np.hsplit(grid(width, height, coordinates="index"), 2)
    logits = (np.cos(columns * f[:, 0]) * np.cos(rows * f[:, 1])).sum(-1)
    return _share(np.exp(logits).reshape(height, width))


RANK = Exercise(
    name="axial-rope-8",
    title="Columns times rows",
    kind="experiment",
    minutes=15,
    lines=6,
    statement=r"""
A query at (0, 0) looks at all patches of an image, itself included, by index coordinates.
The image has two or more patches each way.
`f` holds the frequency vectors, `[pairs, 2]`, and every pair of the query and of every key is (1, 0).
So the logit of a patch at $y$ is $\sum_p \cos(f_p \cdot y)$ (no scaling).
Take the softmax over all patches and write the weights as a table `[height, width]`.
Return its second singular value divided by its first: 0 if the weights are a product of columns and rows.

Then try frequency vectors of axial RoPE, frequency vectors along one diagonal, and some in between.
""",
    hint=r"""
`np.linalg.svd(table, compute_uv=False)` gives the singular values, largest first.
""",
    cases=(
        (axial_frequencies(8, order="alternating"), 5, 3),
        (np.array([[1.0, 1.0]]), 5, 3),
        (np.array([[1.0, 1.0], [0.5, 0.5], [0.3, -0.2]]), 4, 7),
        (draw(8, 2), 9, 6),
    ),
    solution=second_share,
    misconceptions=(
        Misconception(
            "Logits in place of weights",
            "A sum of columns and rows has rank 2. The softmax makes a product of it.",
            lambda f, width, height: _share(_logits(f, width, height)),
        ),
        Misconception(
            "Softmax over each row by itself",
            "A query shares its weight among all patches of the image.",
            _share_by_rows,
        ),
        Misconception(
            "Image folded with width and height exchanged",
            "Row by row means the shape [height, width].",
            lambda f, width, height: _share(
                _weights(f, width, height).reshape(width, height)
            ),
        ),
        Misconception(
            "Divided by the sum of all singular values",
            "Divide by the largest one.",
            _share_of_total,
        ),
        Misconception(
            "Coordinates of the vectors swapped",
            "The first rate belongs to the columns, the second to the rows.",
            lambda f, width, height: second_share(f[:, ::-1], width, height),
        ),
        Misconception(
            "Second singular value, not divided",
            "Divide it by the largest singular value.",
            _of_sizes(lambda s: s[1]),
        ),
        Misconception(
            "Quotient upside down",
            "Divide the second singular value by the first: 0 if the weights are a "
            "product.",
            _of_sizes(lambda s: s[0] / s[1]),
        ),
        Misconception(
            "Last singular value in place of the second",
            "The second singular value is asked for.",
            _of_sizes(lambda s: s[-1] / s[0]),
        ),
        Misconception(
            "Squares of the singular values",
            "The quotient is that of the singular values, not of their squares.",
            _of_sizes(lambda s: (s[1] / s[0]) ** 2),
        ),
        Misconception(
            "All singular values but the first",
            "Only the second one is asked for.",
            _of_sizes(lambda s: s[1:].sum() / s[0]),
        ),
        Misconception(
            "Softmax over each column by itself",
            "A query shares its weight among all patches of the image.",
            lambda f, width, height: _share(
                _weights(f, width, height) / _weights(f, width, height).sum(axis=0)
            ),
        ),
        Misconception(
            "Angles of all pairs added",
            "The logit is a sum of cosines, one for each pair.",
            _of_logits(lambda angles: np.cos(angles.sum(-1))),
        ),
        Misconception(
            "Cosines averaged",
            "The sum of the cosines is asked for, without scaling.",
            _of_logits(lambda angles: np.cos(angles).mean(-1)),
        ),
        Misconception(
            "Logits scaled",
            "The logits have no scaling.",
            _of_logits(
                lambda angles: np.cos(angles).sum(-1) / np.sqrt(2 * angles.shape[-1])
            ),
        ),
        Misconception(
            "Sines in place of cosines",
            "Query and key are both (1, 0), so their score is the cosine of the "
            "angle between them.",
            _of_logits(lambda angles: np.sin(angles).sum(-1)),
        ),
        Misconception(
            "Sign of the logits reversed",
            "The largest logit gets the most weight.",
            _of_logits(lambda angles: -np.cos(angles).sum(-1)),
        ),
        Misconception(
            "Patches counted from 1",
            "The query is at (0, 0), where the first patch is.",
            lambda f, width, height: _of_grid(
                grid(width, height, coordinates="index") + 1, f, width, height
            ),
        ),
        Misconception(
            "Logits divided by the root of the number of pairs",
            "The logits have no scaling.",
            _of_logits(
                lambda angles: np.cos(angles).sum(-1) / np.sqrt(angles.shape[-1])
            ),
        ),
        Misconception(
            "Cosines of both axes multiplied",
            "The cosine of a sum of angles is not the product of their cosines.",
            _of_cosines,
        ),
    ),
    properties=(
        Property(
            "With vectors on the axes the weights are a product, and the share is 0",
            lambda answer, f, width, height: (
                answer(axial_frequencies(8, order="concatenated"), width, height) < 1e-9
            ),
        ),
    ),
    level="optional",
    explanation=r"""
For axial RoPE the logit is a function of the column plus a function of the row, because {prf:ref}`an axial score is a sum over axes <thm-axes-separable>`.
The exponential of a sum is a product, and so are the weights: columns times rows, a table of rank 1, and the second singular value is 0 up to rounding.
With $f = (1, 1)$ alone the share is 0.52 on $5 \times 3$ patches.
In between it need not rise evenly: on $8 \times 8$ patches, with the vectors $(1, t)$ and $(t, 1)$, it is 0.19 for $t = 0.1$, 0.63 for $t = 0.5$ and 0.57 for $t = 1$.
""",
)


# axial-rope-9: rows counted by the height


def colleagues_patches(width, height):
    """Positions (column, row) of an image's patches.

    They are an array [width · height, 2].
    """
    n = np.arange(width * height)
    return np.stack((n % width, n // height), axis=-1)


def image_with_wrong_rows():
    """Return the smallest image for which `colleagues_patches` is wrong.

    The answer is (width, height), in patches.
    """
    return 1, 2


def _refused_image(width, height):
    if type(width) is not int or type(height) is not int or min(width, height) < 1:
        return "width and height are positive integers"
    return ""


ROWS = Exercise(
    name="axial-rope-9",
    title="Find the input: an image",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_patches` should do what exercise axial-rope-2 asks for.
Her tests are images of $2 \times 2$, $14 \times 14$ and $16 \times 16$ patches, all that her model knows, and they pass.
For which image, the one with the fewest patches, is it wrong?
What have her tests in common?
""",
    hint=r"""
By which of the two numbers should the row be counted?
""",
    cases=((),),
    solution=image_with_wrong_rows,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_patches,
        right=patches,
        tested=((2, 2), (14, 14), (16, 16)),
        refusal=_refused_image,
        size=lambda width, height: width * height,
        size_of="number of patches",
    ),
    explanation=r"""
She divides by the height in place of the width, and all her images are square, where both are the same.
Two patches are enough: with width 1 and height 2 she puts both into row 0, with width 2 and height 1 she puts the second into row 1.
With a wrong row the offsets are wrong, and {prf:ref}`scores depend on offsets alone <thm-axes-relative>`: nothing fails, and the model sees another image.
""",
)


# axial-rope-10: the middle of an image


def colleagues_class_token(width, height):
    """Positions of a class token and of patches.

    The class token is in the middle of the image.
    """
    columns = range(width)
    rows = [[x, y] for y in range(height) for x in columns]
    middle = [(width - 1) // 2, (height - 1) // 2]
    return torch.tensor([middle, *rows]).double()


def image_with_wrong_middle():
    """Return the smallest image for which `colleagues_class_token` is wrong.

    The answer is (width, height), in patches.
    """
    return 2, 1


MIDDLE = Exercise(
    name="axial-rope-10",
    title="Find the input: a middle",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_class_token` should do what exercise axial-rope-5 asks for.
Her tests are images of $3 \times 3$, $5 \times 3$ and $1 \times 7$ patches, and they pass.
For which image, the one with the fewest patches, is it wrong?
Which operator of her code is wrong?
""",
    hint=r"""
Where is the middle of an even number of patches?
""",
    cases=((),),
    solution=image_with_wrong_middle,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_class_token,
        right=with_class,
        tested=((3, 3), (5, 3), (1, 7)),
        refusal=_refused_image,
        size=lambda width, height: width * height,
        size_of="number of patches",
    ),
    explanation=r"""
The operator `//`, in both coordinates: the division should not be rounded.
For odd numbers of patches the middle is a patch, and rounding changes nothing; for two patches in a row it is 0.5, and she puts the class token on the first patch.
A class token at the position of a patch is allowed, but not what was asked for: by {prf:ref}`the relative identity on a grid <thm-axes-relative>` its scores then depend on offsets from that patch.
""",
    level="optional",
)


# axial-rope-11: frequency vectors in golden directions


def golden_vectors(pairs, slowest, fastest):
    """Return golden gate RoPE's frequency vectors in the plane, a float64 array.

    The array is [pairs, 2], for one head; the lengths rise from ``slowest`` to
    ``fastest``. There are at least two pairs.
    """
    i = np.arange(1, pairs + 1)
    golden = (1 + np.sqrt(5)) / 2
    angle = np.pi * (i / golden % 1)
    length = slowest * (fastest / slowest) ** ((i - 1) / (pairs - 1))
    return length[:, None] * np.stack((np.cos(angle), np.sin(angle)), axis=-1)


_PHI = (1 + np.sqrt(5)) / 2


def _vectors(angle=None, length=None):
    """Make a wrong answer (a function) to the exercise ``golden_vectors``.

    The exercise asks for frequency vectors in golden directions. In the wrong answer,
    ``angle(i, pairs)`` are the angles of the vectors i = 1, 2, … and ``length(t, low,
    high)`` their lengths for t from 0 to 1. With None for one of them, it is right.
    """

    def answer(pairs, slowest, fastest):
        i = np.arange(1, pairs + 1)
        t = (i - 1) / (pairs - 1)
        own = np.pi * (i / _PHI % 1) if angle is None else angle(i, pairs)
        size = slowest ** (1 - t) * fastest**t
        size = size if length is None else length(t, slowest, fastest)
        return size[:, None] * np.stack((np.cos(own), np.sin(own)), axis=-1)

    return answer


def _lengths_rise(answer, pairs, slowest, fastest):
    size = np.linalg.norm(answer(pairs, slowest, fastest), axis=-1)
    return np.allclose(size[[0, -1]], (slowest, fastest)) and (np.diff(size) > 0).all()


GOLDEN = Exercise(
    name="axial-rope-11",
    title="Vectors in golden directions",
    kind="NumPy",
    minutes=10,
    lines=5,
    statement=r"""
Golden gate RoPE in the plane has fixed frequency vectors.
Vector $i = 1, 2, \dots$ of a head has the angle $\pi i / \phi \bmod \pi$ with the golden ratio $\phi = (1 + \sqrt 5)/2$.
The lengths are a geometric series: the first is `slowest`, the last `fastest`, and each is the same multiple of the one before.
Return the vectors, `[pairs, 2]`, with the cosine first.
There are at least two pairs.

Why modulo $\pi$ and not $2\pi$?
""",
    hint=r"""
`np.geomspace` is a geometric series.
A vector is its length times the cosine and the sine of its angle.
""",
    cases=((2, 1.0, 4.0), (3, 0.5, 2.0), (8, 0.2, 20.0), (32, 1.0, 100.0)),
    solution=golden_vectors,
    misconceptions=(
        Misconception(
            "Golden angle of the whole circle",
            "2π/φ² spreads arrows. A frequency vector and its opposite are one "
            "direction, so directions go round after π.",
            _vectors(lambda i, n: 2 * np.pi * i / _PHI**2 % np.pi),
        ),
        Misconception(
            "Angle modulo 2π",
            "Take the angle modulo π: your vectors have the right directions, but "
            "some are the opposites of those asked for.",
            _vectors(lambda i, n: np.pi * i / _PHI % (2 * np.pi)),
        ),
        Misconception(
            "Steps of 2π/φ",
            "The circle of directions is π around: the step is π/φ.",
            _vectors(lambda i, n: 2 * np.pi * i / _PHI % np.pi),
        ),
        Misconception(
            "Directions counted from 0",
            "The first direction has i = 1, so it does not lie on the first axis.",
            _vectors(lambda i, n: np.pi * ((i - 1) / _PHI % 1)),
        ),
        Misconception(
            "Equal steps over the half circle",
            "Equal steps are even for one number of pairs alone; with one pair more "
            "all but the first change.",
            _vectors(lambda i, n: np.pi * (i - 1) / n),
        ),
        Misconception(
            "Degrees taken for radians",
            "NumPy's cosine and sine take radians.",
            _vectors(lambda i, n: 180 * (i / _PHI % 1)),
        ),
        Misconception(
            "Turns taken for radians",
            "i/φ mod 1 is a share of the half circle: multiply it by π.",
            _vectors(lambda i, n: i / _PHI % 1),
        ),
        Misconception(
            "Other root of x² = x + 1",
            "φ is (1 + √5)/2, above 1.",
            _vectors(lambda i, n: np.pi * (i * (1 - np.sqrt(5)) / 2 % 1)),
        ),
        Misconception(
            "Square root of 5 for the golden ratio",
            "φ = (1 + √5)/2.",
            _vectors(lambda i, n: np.pi * (i / np.sqrt(5) % 1)),
        ),
        Misconception(
            "Axes exchanged",
            "The cosine is the first coordinate.",
            lambda pairs, slowest, fastest: golden_vectors(pairs, slowest, fastest)[
                :, ::-1
            ],
        ),
        Misconception(
            "Lengths that rise by a constant",
            "The lengths are a geometric series: each is a multiple of the one before.",
            _vectors(length=lambda t, low, high: low + t * (high - low)),
        ),
        Misconception(
            "Longest vector first",
            "The lengths rise from `slowest` to `fastest`.",
            _vectors(length=lambda t, low, high: high ** (1 - t) * low**t),
        ),
        Misconception(
            "One step short of the fastest",
            "The last vector has the length `fastest`: divide by pairs − 1.",
            lambda pairs, slowest, fastest: golden_vectors(pairs + 1, slowest, fastest)[
                :-1
            ],
        ),
        Misconception(
            "Unit vectors",
            "Multiply each direction by its length.",
            _vectors(length=lambda t, low, high: np.ones(len(t))),
        ),
        Misconception(
            "Lengths from 1",
            "The first length is `slowest`.",
            _vectors(length=lambda t, low, high: (high / low) ** t),
        ),
        Misconception(
            "Direction of one vector for all",
            "Each vector has an angle of its own.",
            _vectors(lambda i, n: np.full(n, np.pi / _PHI)),
        ),
    ),
    properties=(
        Property("The lengths rise from `slowest` to `fastest`", _lengths_rise),
        Property(
            "No vector points below the first axis",
            lambda answer, pairs, slowest, fastest: (
                answer(pairs, slowest, fastest)[:, 1] >= 0
            ).all(),
        ),
    ),
    explanation=r"""
A frequency vector and its opposite rotate a pair by opposite angles, so they tell a head the same about a direction: directions go round after $\pi$.
The step {eq}`def-golden-angle` is $\pi/\phi$ therefore, and the vectors are those of {eq}`def-golden-gate` for one head.
After every number of pairs the gaps have at most three lengths, by the three-gap theorem, and after a Fibonacci number of them the largest is at most $\phi$ times the smallest {eq}`eq-golden-gaps`.
""",
)


# axial-rope-12: how even directions are


def largest_gap(angles):
    """Return the largest gap between neighboring directions over the mean gap.

    ``angles`` are the angles of two or more frequency vectors, any real numbers; a
    vector and its opposite have the same direction.
    """
    placed = np.sort(angles % np.pi)
    gaps = np.diff(np.append(placed, placed[0] + np.pi))
    return gaps.max() * len(angles) / np.pi


def _gap_of(placed=None, share=None):
    """Make a wrong answer (a function) to the exercise ``largest_gap``.

    The exercise asks for the largest gap between directions over the mean gap. In the
    wrong answer, ``placed(angles)`` is in place of the sorted angles modulo π, or
    ``share(gaps, count)`` in place of the largest gap over the mean one.
    """

    def answer(angles):
        own = np.sort(angles % np.pi) if placed is None else placed(angles)
        gaps = np.diff(np.append(own, own[0] + np.pi))
        if share is None:
            return gaps.max() * len(angles) / np.pi
        return share(gaps, len(angles))

    return answer


def _without_seam(angles):
    gaps = np.diff(np.sort(angles % np.pi))
    return gaps.max() * len(angles) / np.pi


def _of_a_circle(angles):
    placed = np.sort(angles % (2 * np.pi))
    gaps = np.diff(np.append(placed, placed[0] + 2 * np.pi))
    return gaps.max() * len(angles) / (2 * np.pi)


def _random_gap():
    angles = np.random.default_rng(0).uniform(0, np.pi, size=(500, 64))
    return np.mean([largest_gap(row) for row in angles])


GAP = Exercise(
    name="axial-rope-12",
    title="How even are directions?",
    kind="experiment",
    minutes=10,
    lines=3,
    statement=r"""
`angles` are the angles of a head's frequency vectors in the plane, any real numbers, in any order.
A vector and its opposite have the same direction.
Return the largest gap between neighboring directions, divided by the mean gap: 1 if they are spread evenly.

Then compare golden angles, $\pi i/\phi$, with random ones, for 8, 55 and 64 directions.
""",
    hint=r"""
Directions lie on a circle that is $\pi$ around.
There are as many gaps as directions: one of them is between the last and the first.
""",
    cases=(
        (np.array([0.0, np.pi / 2]),),
        (np.array([3.0, 0.5, -0.5]),),
        (np.pi / _PHI * np.arange(1, 9),),
        (np.array([0.1, 0.2, 0.3, 3.3, 6.4]),),
        (draw(30) * 4,),
    ),
    solution=largest_gap,
    misconceptions=(
        Misconception(
            "Gap across the seam forgotten",
            "Between the largest angle and the smallest one plus π there is a gap, "
            "too.",
            _without_seam,
        ),
        Misconception(
            "Whole circle",
            "A vector and its opposite have one direction: take angles modulo π.",
            _of_a_circle,
        ),
        Misconception(
            "Angles as they are",
            "Angles may be negative or above π; take them modulo π before sorting.",
            _gap_of(placed=np.sort),
        ),
        Misconception(
            "Not sorted",
            "Neighbors are found by sorting.",
            _gap_of(placed=lambda angles: angles % np.pi),
        ),
        Misconception(
            "Gap not divided",
            "Divide by the mean gap, which is π divided by the number of directions.",
            _gap_of(share=lambda gaps, n: gaps.max()),
        ),
        Misconception(
            "Share of the half circle",
            "Divide by the mean gap, not by π.",
            _gap_of(share=lambda gaps, n: gaps.max() / np.pi),
        ),
        Misconception(
            "Over the smallest gap",
            "Divide by the mean gap.",
            _gap_of(share=lambda gaps, n: gaps.max() / gaps.min()),
        ),
        Misconception(
            "Smallest gap",
            "The largest gap is asked for.",
            _gap_of(share=lambda gaps, n: gaps.min() * n / np.pi),
        ),
        Misconception(
            "Quotient upside down",
            "The largest gap over the mean gap is 1 or more.",
            _gap_of(share=lambda gaps, n: np.pi / n / gaps.max()),
        ),
        Misconception(
            "One gap fewer than directions",
            "On a circle there are as many gaps as directions.",
            _gap_of(share=lambda gaps, n: gaps.max() * (n - 1) / np.pi),
        ),
        Misconception(
            "Median gap in place of the mean",
            "Divide by the mean gap.",
            _gap_of(share=lambda gaps, n: gaps.max() / np.median(gaps)),
        ),
        Misconception(
            "Seam of the whole circle",
            "The circle of directions is π around.",
            lambda angles: (
                np.diff(
                    np.append(
                        np.sort(angles % np.pi), np.min(angles % np.pi) + 2 * np.pi
                    )
                ).max()
                * len(angles)
                / np.pi
            ),
        ),
    ),
    properties=(
        Property(
            "Rotating all vectors by one angle changes nothing",
            lambda answer, angles: np.isclose(answer(angles + 1.0), answer(angles)),
        ),
        Property(
            "Opposite vectors have the same direction",
            lambda answer, angles: np.isclose(
                answer(angles + np.pi * (np.arange(len(angles)) % 2)), answer(angles)
            ),
        ),
    ),
    explanation=r"""
Sorted modulo $\pi$, the angles leave as many gaps as there are directions, the last one across the seam.
For golden angles the result is 1.17 for 8 directions and 55, which are Fibonacci numbers {eq}`eq-golden-gaps`, and 1.36 for 64.
For $n$ random directions it is $1 + \frac12 + \dots + \frac1n$ on average: 4.74 for $n = 64$.
""",
    prediction=Prediction(
        r"For 64 golden angles the result is 1.36. What is it for 64 random directions, on average?",
        _random_gap,
        near=0.25,
    ),
)


# axial-rope-13: a rotated molecule


def rotated_vectors(f, matrix):
    """Return frequency vectors that do what rotating all positions does, a tensor.

    With the returned vectors [pairs, 3], every position x [3] gets the angles that
    ``f`` [pairs, 3] gives to the position ``matrix`` x; ``matrix`` is a 3 × 3 matrix. All
    are float64.
    """
    return f @ matrix


def _random_matrix(seed):
    return torch.tensor(draw(3, 3, seed=seed))


def _same_angles(answer, f, matrix):
    x = torch.tensor(draw(3, seed=9))
    return torch.allclose(answer(f, matrix) @ x, f @ (matrix @ x))


_HALF_ROTATION = torch.tensor([[-1.0, 0, 0], [0, -1, 0], [0, 0, 1]]).double()
_QUARTER = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]).double()
_ON_AXES = torch.eye(3).double()

ROTATED = Exercise(
    name="axial-rope-13",
    title="A rotated molecule",
    kind="PyTorch",
    minutes=10,
    lines=1,
    statement=r"""
Atoms at the positions $x$, with three coordinates each, are rotated by the angles $f_p \cdot x$.
Now the molecule rotates in space, and every atom moves to $Q x$.
The same angles would come from the old positions, with other frequency vectors.
Return these, `[pairs, 3]`; `f` is `[pairs, 3]`, `matrix` is $Q$, and it may be any $3 \times 3$ matrix.

For which $Q$ do no scores change, whatever queries, keys and positions are?
""",
    hint=r"""
Write the angle of one pair as $f_p^\top (Q x)$, and move the brackets.
""",
    cases=(
        (_ON_AXES, _QUARTER),
        (torch.tensor([[1.0, 2.0, 0.0]]).double(), _QUARTER),
        (torch.tensor(draw(4, 3)), _HALF_ROTATION),
        (torch.tensor(draw(5, 3)), _random_matrix(1)),
    ),
    solution=rotated_vectors,
    misconceptions=(
        Misconception(
            "Vectors rotated along with the molecule",
            "If Q is a rotation, your vectors Q f give the new positions the old angles. "
            "Asked for are vectors that give the old positions the new angles.",
            lambda f, matrix: f @ matrix.T,
        ),
        Misconception(
            "Inverse of the transpose",
            "Qᵀ and Q⁻¹ are equal for orthogonal Q only; which one moves from one side "
            "of an inner product to the other?",
            lambda f, matrix: f @ torch.linalg.inv(matrix).T,
        ),
        Misconception(
            "Inverse in place of the matrix",
            "Nothing is undone here: the angles are those of the new positions.",
            lambda f, matrix: f @ torch.linalg.inv(matrix),
        ),
        Misconception(
            "Old vectors",
            "New positions have other angles, unless every vector lies on the axis of "
            "the rotation.",
            lambda f, matrix: f.clone(),
        ),
        Misconception(
            "Opposite vectors",
            "A rotation is not a change of sign.",
            lambda f, matrix: -(f @ matrix),
        ),
        Misconception(
            "Rotated twice",
            "The molecule rotates once.",
            lambda f, matrix: f @ matrix @ matrix,
        ),
        Misconception(
            "Products of entries",
            "f and Q are multiplied as matrices.",
            lambda f, matrix: f * matrix.diagonal(),
        ),
        Misconception(
            "Mean of both frames",
            "The new positions alone determine the angles.",
            lambda f, matrix: (f + f @ matrix) / 2,
        ),
        Misconception(
            "Difference to the old vectors",
            "The vectors themselves are asked for, not their change.",
            lambda f, matrix: f @ matrix - f,
        ),
        Misconception(
            "Lengths made equal",
            "For a matrix that stretches, the vectors change their lengths, too.",
            lambda f, matrix: (
                f @ matrix * (f.norm(dim=-1) / (f @ matrix).norm(dim=-1))[:, None]
            ),
        ),
        Misconception(
            "First two axes exchanged",
            "A rotation does more than exchange axes: multiply by the matrix.",
            lambda f, matrix: f[:, [1, 0, 2]],
        ),
    ),
    properties=(
        Property("A position gets the angles of the new position", _same_angles),
    ),
    explanation=r"""
The angle is $f_p^\top (Q x) = (Q^\top f_p)^\top x$, by {prf:ref}`the theorem on a rotated molecule <thm-atoms>`: pair $p$ needs the vector $Q^\top f_p$, and as rows these are $f Q$.
Scores stay as they are only if $Q^\top f_p = f_p$ for every pair.
Axial RoPE has vectors on all three axes, so $Q = I$ is the only such matrix: rotary scores of atoms depend on how the molecule lies, although its distances do not.
""",
)


SHEET = Sheet(
    title="Axial and mixed RoPE",
    conventions=r"""
A position is (column, row), both counted from 0.
Images are read row by row.
Axial RoPE has base 100 and two axes unless said otherwise.
Angles are counter-clockwise.
""",
    example=r"""
from posedu.numpy import rotary

x = np.array([[1.0, 0.0, 1.0, 0.0]] * 2)
at = [(2, 0), (0, 2)]  # (column, row)
pairs = dict(order="concatenated", layout="interleaved")
print(np.round(rotary.axial(x, at, **pairs), 3))
""",
    figure="axial_explorable",
    exercises=(
        SPECTRUM,
        PATCHES,
        DIAGONAL,
        ANGLES,
        CLASS,
        REORDER,
        NEIGHBORS,
        RANK,
        ROWS,
        MIDDLE,
        GOLDEN,
        GAP,
        ROTATED,
    ),
)
