"""The exercises on RoPE with several coordinates: axial and mixed."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw
from posedu.numpy.rotary import axial, axial_frequencies, grid

# axial-rope-1: the frequencies of a head


def spectrum(d):
    """The number of frequencies an axis, the fastest and the slowest: three, exact."""
    count = d // 4
    slowest = sp.Integer(100) ** sp.Rational(-4 * (count - 1), d)
    return count, sp.Integer(1), slowest


def _slowest(base, last, d, step=4):
    return sp.Integer(base) ** sp.Rational(-step * last, d)


def _counted(count=None, fastest=1, slowest=None):
    """The three numbers, some of them others than they should be."""

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
Write down all of them for $d = 8$ first.
""",
    cases=((8,), (16,), (64,)),
    solution=spectrum,
    misconceptions=(
        Misconception(
            "One frequency too many",
            "That is the range t = 0 … d/4 of the paper as printed. Two members a "
            "pair and two axes: how many pairs has each axis?",
            lambda d: (d // 4 + 1, sp.Integer(1), _slowest(100, d // 4, d)),
        ),
        Misconception(
            "The slowest frequency is squared",
            "10000 is the base for thousands of tokens on a line, axial RoPE's is 100. "
            "An exponent of −8t/d does the same: each axis has d/2 features.",
            lambda d: (d // 4, sp.Integer(1), _slowest(10000, d // 4 - 1, d)),
        ),
        Misconception(
            "The exponent is that of RoPE on a line",
            "With −2t/d and only d/4 values of t the slowest pair hardly gets below "
            "the square root of the base. Each axis has half of the head: what is "
            "its width?",
            lambda d: (d // 4, sp.Integer(1), _slowest(100, d // 4 - 1, d, step=2)),
        ),
        Misconception(
            "The pairs of both axes share one list of frequencies",
            "These are the d/2 frequencies of RoPE on a line. Here every axis has a "
            "list of its own, and the lists are equal.",
            lambda d: (d // 2, sp.Integer(1), _slowest(100, d // 2 - 1, d, step=2)),
        ),
        Misconception(
            "Features are counted in place of pairs",
            "t counts pairs. Two features turn together, by one frequency.",
            lambda d: (d // 2, sp.Integer(1), _slowest(100, d // 2 - 1, d)),
        ),
        Misconception(
            "t is counted from 1",
            "t starts at 0, and base^0 = 1.",
            lambda d: (d // 4, _slowest(100, 1, d), _slowest(100, d // 4, d)),
        ),
        Misconception(
            "These are the pairs of both axes",
            "Half of the d/2 pairs look at the columns, the other half at the rows.",
            _counted(lambda d: d // 2),
        ),
        Misconception(
            "Features are counted for each axis",
            "Two features make a pair, and a pair has one frequency.",
            _counted(lambda d: d),
        ),
        Misconception(
            "One frequency too few",
            "t runs from 0 to d/4 − 1: how many numbers are these?",
            _counted(lambda d: d // 4 - 1),
        ),
        Misconception(
            "The axes are divided by twice",
            "Two members a pair and two axes make four.",
            _counted(lambda d: d // 8),
        ),
        Misconception(
            "The slowest is taken for 1/base",
            "The last t is d/4 − 1, not d/4.",
            _counted(slowest=lambda d: sp.Rational(1, 100)),
        ),
        Misconception(
            "The slowest is the wavelength",
            "This is how many units a radian takes. The frequency is its inverse.",
            _counted(slowest=lambda d: 1 / spectrum(d)[2]),
        ),
        Misconception(
            "The fastest is the base",
            "t starts at 0, and base^0 = 1.",
            _counted(fastest=100),
        ),
        Misconception(
            "Fastest and slowest are exchanged",
            "The fastest is the largest frequency, and is asked for first.",
            lambda d: (spectrum(d)[0], spectrum(d)[2], spectrum(d)[1]),
        ),
        Misconception(
            "The exponent lacks its 4",
            "Each axis has a head of d/2 features to itself: what is RoPE's exponent there?",
            _counted(slowest=lambda d: _slowest(100, d // 4 - 1, d, step=1)),
        ),
        Misconception(
            "A tenth for each further pair",
            "So it looks for d = 8. The last frequency is always just above 1/base: "
            "more pairs stand closer together.",
            lambda d: (d // 4, sp.Integer(1), sp.Rational(1, 10) ** (d // 4 - 1)),
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
)


# axial-rope-2: row by row


def patches(width, height):
    """The positions (column, row), row by row: an integer array [width · height, 2]."""
    n = np.arange(width * height)
    return np.stack((n % width, n // width), axis=-1)


def _first_row(answer, width, height):
    first = answer(width, height)[:width]
    return np.array_equal(first[:, 1], np.zeros(width)) and np.array_equal(
        first[:, 0], np.arange(width)
    )


def _by(column, row):
    """Positions whose coordinates are functions of n, width and height."""

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
            "The coordinates are swapped",
            "The column comes first: the second patch of the first row is (1, 0).",
            lambda width, height: patches(width, height)[:, ::-1],
        ),
        Misconception(
            "The row varies fastest",
            "These are the right positions, listed column by column. Images are "
            "flattened row by row, so the column varies fastest.",
            lambda width, height: patches(height, width)[:, ::-1],
        ),
        Misconception(
            "Width and height are exchanged",
            "A row has width patches. On a square image nobody would notice.",
            lambda width, height: patches(height, width),
        ),
        Misconception(
            "The patches are counted from 1",
            "Rows and columns count from 0.",
            lambda width, height: patches(width, height) + 1,
        ),
        Misconception(
            "The row is counted by the height",
            "A new row begins after *width* patches.",
            _by(lambda n, w, h: n % w, lambda n, w, h: n // h),
        ),
        Misconception(
            "The column is counted by the height",
            "A row has width patches: the column begins again after them.",
            _by(lambda n, w, h: n % h, lambda n, w, h: n // w),
        ),
        Misconception(
            "The rows are counted from below",
            "The first row of the list is row 0.",
            _by(lambda n, w, h: n % w, lambda n, w, h: h - 1 - n // w),
        ),
        Misconception(
            "These are places along a diagonal",
            "Every patch has a column and a row of its own.",
            _by(lambda n, w, h: n, lambda n, w, h: n),
        ),
        Misconception(
            "The coordinates do not stand in the last axis",
            "All columns come first here, then all rows, and a reshape keeps that "
            "order. Which axis has to move?",
            lambda width, height: np.array(
                np.meshgrid(np.arange(width), np.arange(height))
            ).reshape(-1, 2),
        ),
    ),
    properties=(
        Property(
            "Every patch has a place of its own",
            lambda answer, width, height: (
                len(np.unique(answer(width, height), axis=0)) == width * height
            ),
        ),
        Property("The first row is (0, 0), (1, 0), …", _first_row),
    ),
)


# axial-rope-3: can one pair see a diagonal?


def diagonal(f, u, v):
    """How far one pair is from a sum over columns and rows: a SymPy expression."""
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
A head has one pair, with the frequency vector $f = (f_0, f_1)$; before they are turned, the query's features are $(1, 0)$ and the key's $(0, 1)$.
Let $s(r_0, r_1)$ be their score where query position minus key position is $(r_0, r_1)$.
Return

$$s(u, v) + s(0, 0) - s(u, 0) - s(0, v)$$

as a SymPy expression, for numbers or symbols.
For which $f$ is it zero, whatever $u$ and $v$ are?
""",
    hint=r"""
Put the key at the origin and turn the query by $f \cdot r$.
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
            "The key is taken for (1, 0)",
            "At the offset 0 query and key are turned alike, so their score is that of "
            "(1, 0) and (0, 1): nothing. Yours is 1 there.",
            lambda f, u, v: _second_difference(
                lambda r0, r1: sp.cos(f[0] * r0 + f[1] * r1), u, v
            ),
        ),
        Misconception(
            "The offset is counted from the query to the key",
            "It is query minus key: turn the query (1, 0) a little counter-clockwise, "
            "leave the key, and they come closer.",
            lambda f, u, v: -diagonal(f, u, v),
        ),
        Misconception(
            "The two angles are subtracted",
            "The angle is f · r, a sum.",
            lambda f, u, v: diagonal((f[0], -f[1]), u, v),
        ),
        Misconception(
            "This is 0 for every pair, as if it were axial",
            "The sine of a sum is not the sum of the sines. What is it for f = (1, 1)?",
            lambda f, u, v: sp.Integer(0),
        ),
        Misconception(
            "The coordinates of f are swapped",
            "The first rate belongs to the columns, so it meets u.",
            lambda f, u, v: diagonal((f[1], f[0]), u, v),
        ),
        Misconception(
            "This is the first term alone",
            "The other three are not all zero.",
            lambda f, u, v: sp.sin(f[0] * u + f[1] * v),
        ),
        Misconception(
            "The other two terms are added",
            "s(u, 0) and s(0, v) are subtracted.",
            lambda f, u, v: (
                sp.sin(f[0] * u + f[1] * v) + sp.sin(f[0] * u) + sp.sin(f[1] * v)
            ),
        ),
        Misconception(
            "The sines are multiplied",
            "The score is one sine of the sum of two angles.",
            lambda f, u, v: (
                sp.sin(f[0] * u) * sp.sin(f[1] * v)
                - sp.sin(f[0] * u)
                - sp.sin(f[1] * v)
            ),
        ),
        Misconception(
            "The angle is taken for its sine",
            "A sum of angles would give 0: it is the sine that makes the difference.",
            lambda f, u, v: (f[0] + f[1]) * (u + v) - f[0] * u - f[1] * v,
        ),
        Misconception(
            "The score at the origin is 1",
            "The query is (1, 0) and the key (0, 1): unturned, they meet at right "
            "angles.",
            lambda f, u, v: diagonal(f, u, v) + 1,
        ),
        Misconception(
            "The rates are added, not the angles",
            "The angle is f · r = f₀ u + f₁ v.",
            lambda f, u, v: (
                sp.sin((f[0] + f[1]) * (u + v)) - sp.sin(f[0] * u) - sp.sin(f[1] * v)
            ),
        ),
        Misconception(
            "The sines are multiplied, and the rest forgotten",
            "The score is the sine of a sum of two angles, and four of them are "
            "wanted.",
            lambda f, u, v: sp.sin(f[0] * u) * sp.sin(f[1] * v),
        ),
        Misconception(
            "The key is taken for (1, 0), and the origin forgotten",
            "The query is (1, 0) and the key (0, 1): the score is a sine, and 0 at "
            "the origin.",
            lambda f, u, v: (
                sp.cos(f[0] * u + f[1] * v) - sp.cos(f[0] * u) - sp.cos(f[1] * v)
            ),
        ),
        Misconception(
            "The second rate meets u",
            "f · r = f₀ u + f₁ v, and s(0, v) has v in it.",
            lambda f, u, v: (
                sp.sin(f[0] * u + f[1] * v) - sp.sin(f[0] * u) - sp.sin(f[1] * u)
            ),
        ),
    ),
    properties=(
        Property(
            "A vector on an axis gives 0",
            lambda answer, f, u, v: (
                sp.simplify(answer((f[0], sp.Integer(0)), u, v)) == 0
                and sp.simplify(answer((sp.Integer(0), f[1]), u, v)) == 0
            ),
        ),
    ),
)


# axial-rope-4: the angles in both orders


def angles(positions, d, order):
    """The angle of every pair: a float64 array [tokens, d/2]."""
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
    """Angles of other frequencies ``theta(t, d)``."""
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
Return the angle by which axial RoPE (base 100) turns each pair: `[tokens, d/2]`.
`order` is `"concatenated"` (all pairs of the columns, then all pairs of the rows) or `"alternating"` (one of each in turn).
""",
    hint=r"""
Both axes have the same frequencies.
Make the angles of the columns and those of the rows first, each `[tokens, d/4]`; then it is only a matter of joining them.
""",
    cases=tuple(
        (positions, d, order)
        for positions, d in (
            (np.array([[1.0, 0.0], [0.0, 1.0]]), 8),
            (grid(5, 3, coordinates="index"), 16),
            (grid(2, 6, coordinates="centers"), 12),
        )
        for order in ("concatenated", "alternating")
    ),
    solution=angles,
    misconceptions=(
        Misconception(
            "Columns and rows are swapped",
            "The first pairs look at the first coordinate.",
            lambda positions, d, order: angles(positions[:, ::-1], d, order),
        ),
        Misconception(
            "The orders are exchanged",
            "Concatenated: all pairs of the columns come first. Alternating: one of "
            "each in turn.",
            lambda positions, d, order: angles(positions, d, _OTHER[order]),
        ),
        Misconception(
            "The order is ignored: this is always concatenated",
            "For the alternating order, pairs 0, 2, 4, … look at the columns.",
            lambda positions, d, order: angles(positions, d, "concatenated"),
        ),
        Misconception(
            "The frequencies are squared",
            "10000 is the base of RoPE on text, axial RoPE's is 100. An exponent of "
            "−8t/d does the same: each axis has d/2 features.",
            lambda positions, d, order: _angles(
                positions, 10000.0 ** (-4 * np.arange(d // 4) / d), order
            ),
        ),
        Misconception(
            "The exponent is −2t/d",
            "Each axis has only half of the features, so the exponent must fall twice "
            "as fast to reach as far.",
            lambda positions, d, order: _angles(
                positions, 100.0 ** (-2 * np.arange(d // 4) / d), order
            ),
        ),
        Misconception(
            "The frequencies run on from one pair to the next",
            "Each axis starts again at 1: both have the same frequencies.",
            _angles_of_a_line,
        ),
        Misconception(
            "The slowest frequency is 1/base",
            "That would be one frequency more than there are pairs an axis, or a "
            "wider spacing: t = d/4 does not occur.",
            lambda positions, d, order: _angles(
                positions, 100.0 ** -np.linspace(0, 1, d // 4), order
            ),
        ),
        Misconception(
            "t is counted from 1",
            "The fastest pair of each axis turns by one radian a unit.",
            lambda positions, d, order: _angles(
                positions, 100.0 ** (-4 * np.arange(1, d // 4 + 1) / d), order
            ),
        ),
        Misconception(
            "The exponent is −t/d",
            "Each axis has a head of d/2 features to itself: what is RoPE's exponent there?",
            _angles_with(lambda t, d: 100.0 ** (-t / d)),
        ),
        Misconception(
            "The exponent has lost its minus",
            "The first pair of each axis is the fastest.",
            _angles_with(lambda t, d: 100.0 ** (4 * t / d)),
        ),
        Misconception(
            "The slowest pair comes first",
            "The first pair of each axis is the fastest.",
            _angles_with(lambda t, d: 100.0 ** (-4 * t[::-1] / d)),
        ),
        Misconception(
            "Radians are taken for turns",
            "The angle is coordinate · frequency, without 2π.",
            _angles_with(lambda t, d: 2 * np.pi * 100.0 ** (-4 * t / d)),
        ),
        Misconception(
            "The order is ignored: this is always alternating",
            "For the concatenated order, the first d/4 pairs look at the columns.",
            lambda positions, d, order: angles(positions, d, "alternating"),
        ),
        Misconception(
            "This turns by −angle",
            "Angles are coordinate · frequency.",
            lambda positions, d, order: angles(-positions, d, order),
        ),
        Misconception(
            "Every pair looks at both axes",
            "A pair looks at the columns or at the rows.",
            lambda positions, d, order: np.tile(
                positions.sum(axis=1, keepdims=True)
                * 100.0 ** (-4 * np.arange(d // 4) / d),
                2,
            ),
        ),
        Misconception(
            "Both halves look at the columns",
            "Half of the pairs looks at the rows.",
            lambda positions, d, order: angles(positions[:, [0, 0]], d, order),
        ),
        Misconception(
            "All pairs of an axis have one frequency",
            "There are d/4 frequencies.",
            _angles_with(lambda t, d: np.ones(d // 4)),
        ),
    ),
    properties=(
        Property(
            "One column to the right turns half of the pairs and leaves the others",
            lambda answer, positions, d, order: (
                (answer(np.array([[1.0, 0.0]]), d, order) == 0).sum() == d // 4
            ),
        ),
        Property(
            "A step to the right and a step down turn by the same frequencies",
            lambda answer, positions, d, order: np.allclose(
                np.sort(answer(np.array([[1.0, 0.0]]), d, order)),
                np.sort(answer(np.array([[0.0, 1.0]]), d, order)),
            ),
        ),
    ),
)


# axial-rope-5: a class token in the middle


def with_class(width, height):
    """Where class token and patches stand: a float64 tensor [1 + width · height, 2]."""
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
A class token stands in front of them in the list, and its place is to be the exact middle of the image.
Return all positions, a float64 tensor `[1 + width · height, 2]`.
""",
    hint=r"""
Where is the middle of a row of two patches, at 0 and at 1?
""",
    cases=((2, 1), (3, 5), (6, 4)),
    solution=with_class,
    misconceptions=(
        Misconception(
            "The class token is at the origin",
            "That leaves it unturned, as RoPE-ViT does: the place of the upper left "
            "patch, not the middle.",
            lambda width, height: _with_class_at(width, height, 0, 0),
        ),
        Misconception(
            "The class token has the place of a patch",
            "Where width or height is even, the middle lies between patches, and "
            "positions may be any real numbers.",
            lambda width, height: _with_class_at(
                width, height, width // 2, height // 2
            ),
        ),
        Misconception(
            "The middle is half a patch off",
            "The patches of a row run from 0 to width − 1, not to width.",
            lambda width, height: _with_class_at(width, height, width / 2, height / 2),
        ),
        Misconception(
            "This is the middle in other coordinates",
            "(½, ½) is the middle where an image is one unit wide and high. Here a "
            "patch is.",
            lambda width, height: _with_class_at(width, height, 0.5, 0.5),
        ),
        Misconception(
            "The coordinates are swapped",
            "The column comes first, also for the class token.",
            lambda width, height: with_class(width, height).flip(-1),
        ),
        Misconception(
            "The class token comes last",
            "Its position must stand where its features stand: in front.",
            lambda width, height: with_class(width, height).roll(-1, 0),
        ),
        Misconception(
            "The patches are counted from 1",
            "The first patch is at (0, 0), and the class token has no place among "
            "them.",
            lambda width, height: torch.cat(
                (with_class(width, height)[:1], with_class(width, height)[1:] + 1)
            ),
        ),
        Misconception(
            "The patches run column by column",
            "Row by row: (0, 0), (1, 0), …",
            lambda width, height: torch.cat(
                (with_class(width, height)[:1], with_class(height, width)[1:].flip(-1))
            ),
        ),
        Misconception(
            "The class token is outside the image",
            "Its place is to be the exact middle.",
            lambda width, height: _with_class_at(width, height, -1, -1),
        ),
        Misconception(
            "The class token is half a patch too near to the corner",
            "The patches of a row run from 0 to width − 1: where is the middle of 0 "
            "and 1?",
            lambda width, height: _with_class_at(
                width, height, width / 2 - 1, height / 2 - 1
            ),
        ),
        Misconception(
            "The middle is rounded down",
            "Positions may be any real numbers.",
            lambda width, height: _with_class_at(
                width, height, (width - 1) // 2, (height - 1) // 2
            ),
        ),
        Misconception(
            "The class token's coordinates are swapped",
            "The column comes first, and its middle depends on the width.",
            lambda width, height: _with_class_at(
                width, height, (height - 1) / 2, (width - 1) / 2
            ),
        ),
        Misconception(
            "The patches' coordinates are swapped",
            "The column comes first: (0, 0), (1, 0), …",
            lambda width, height: torch.cat(
                (with_class(width, height)[:1], with_class(width, height)[1:].flip(-1))
            ),
        ),
        Misconception(
            "Width and height are exchanged",
            "A row has width patches.",
            lambda width, height: with_class(height, width),
        ),
        Misconception(
            "The class token is in the opposite corner",
            "Its place is to be the exact middle.",
            lambda width, height: _with_class_at(width, height, width - 1, height - 1),
        ),
        Misconception(
            "The patches are measured in fractions",
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
            "Everything is measured in fractions",
            "Patches have their index coordinates, and the middle is measured in "
            "patches, too.",
            lambda width, height: (
                (with_class(width, height) + 0.5) / torch.tensor([width, height])
            ),
        ),
        Misconception(
            "The class token takes part in the mean",
            "A row of zeros in front is one token more: the mean of the patches is "
            "asked for.",
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
)


# axial-rope-6: move weights to the other order


def to_alternating(weight, heads):
    """The rows in the alternating order: a tensor of the shape of weight."""
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
In which of these does the list of rows run first, before and after?
""",
    cases=tuple(
        (torch.tensor(draw(heads * d, heads * d)), heads)
        for d, heads in ((8, 1), (12, 2))
    ),
    solution=to_alternating,
    misconceptions=(
        Misconception(
            "Features are moved in place of pairs",
            "Both members of a pair look at the same axis, and stay neighbors.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
            ),
        ),
        Misconception(
            "This moves from alternating to concatenated",
            "In the weights you are given, the pairs of the columns fill the first "
            "half of each head.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1, 2, 2)).transpose(1, 2).flatten(0, 3)
            ),
        ),
        Misconception(
            "The heads are mixed",
            "Each head has pairs of its own: move rows inside a head only.",
            lambda weight, heads: to_alternating(weight, 1),
        ),
        Misconception(
            "The columns of the matrix are moved",
            "A projection is q = W x: features of q are rows of W.",
            lambda weight, heads: to_alternating(weight.T, heads).T,
        ),
        Misconception(
            "The layout is changed, not the order",
            "Here the members of a pair are neighbors before and after; it is the "
            "pairs that find new places.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
            ),
        ),
        Misconception(
            "Nothing is moved",
            "Then the second pair, trained on columns, would turn with the rows.",
            lambda weight, heads: weight.clone(),
        ),
        Misconception(
            "The order of the axes is reversed",
            "In the alternating order the first pair looks at the columns.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, -1, 2))
                .flip(1)
                .transpose(1, 2)
                .flatten(0, 3)
            ),
        ),
        Misconception(
            "The halves of each head are exchanged",
            "That is the concatenated order with the rows first.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, -1)).flip(1).flatten(0, 2)
            ),
        ),
        Misconception(
            "Rows and columns are moved",
            "The columns are the features of the layer's input, which nobody has "
            "moved.",
            lambda weight, heads: (
                to_alternating(to_alternating(weight, heads).T, heads).T
            ),
        ),
        Misconception(
            "The members of each pair are exchanged",
            "The layout is the same before and after.",
            lambda weight, heads: (
                to_alternating(weight, heads)
                .unflatten(0, (-1, 2))
                .flip(1)
                .flatten(0, 1)
            ),
        ),
        Misconception(
            "The heads are mixed, and features are moved in place of pairs",
            "Each head has pairs of its own, and both members of a pair stay "
            "neighbors.",
            lambda weight, heads: (
                weight.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)
            ),
        ),
        Misconception(
            "The rows are read in the half layout",
            "Interleaved, the member of a pair runs fastest and the frequency before "
            "it.",
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
            "Scores with the alternating order are those of before",
            lambda answer, weight, heads: _same_scores(
                answer(weight, heads), weight, heads
            ),
        ),
    ),
)


def _same_scores(moved, weight, heads):
    positions = grid(3, 2, coordinates="index")
    x = draw(len(positions), weight.shape[1])

    def scores(rows, order):
        by_head = (x @ rows.numpy().T).reshape(len(x), heads, -1).swapaxes(0, 1)
        turned = axial(by_head, positions, order=order, layout="interleaved")
        return turned @ turned.swapaxes(1, 2)

    before = scores(weight, "concatenated")
    return np.allclose(scores(moved, "alternating"), before, rtol=0, atol=1e-9)


# axial-rope-7: a test that a square image cannot fail


def turned(z, positions):
    """The vector z at every position, turned by axial RoPE."""
    rows = np.tile(z, (len(positions), 1))
    return axial(rows, positions, order="concatenated", layout="half")


def neighbor_spread(z, positions, width, height):
    """The largest minus the smallest score of right neighbors: a number."""
    image = turned(z, positions).reshape(height, width, -1)
    scores = (image[:, :-1] * image[:, 1:]).sum(-1)
    return scores.max() - scores.min()


def _spread_along_the_line(z, positions, width, height):
    line = turned(z, positions)
    return np.ptp((line[:-1] * line[1:]).sum(-1))


def _spread_downwards(z, positions, width, height):
    image = turned(z, positions).reshape(height, width, -1)
    return np.ptp((image[:-1] * image[1:]).sum(-1))


def _spread_of_standard_deviation(z, positions, width, height):
    image = turned(z, positions).reshape(height, width, -1)
    return np.std((image[:, :-1] * image[:, 1:]).sum(-1))


def _spread_of_all_scores(z, positions, width, height):
    line = turned(z, positions)
    return np.ptp(line @ line.T)


_Z = draw(8)


def _of_right_neighbors(size):
    """Another ``size`` of the scores of right neighbors than their spread."""

    def answer(z, positions, width, height):
        image = turned(z, positions).reshape(height, width, -1)
        return size((image[:, :-1] * image[:, 1:]).sum(-1))

    return answer


NEIGHBORS = Exercise(
    name="axial-rope-7",
    title="A test that a square image cannot fail",
    kind="experiment",
    minutes=15,
    lines=4,
    statement=r"""
All patches of an image of `width` columns and `height` rows, two or more of each, have one content, the vector `z`; they are listed row by row, and `positions`, `[width · height, 2]`, says where somebody's code believes that they stand.
Turn them (`turned`, which is given, does it), and take the score of every patch with its right neighbor.
Return the largest of these scores minus the smallest.

Then try `grid(width, height, …)`, which is right, and `grid(height, width, …)`, which is not, on $4 \times 4$ and on $5 \times 3$ patches.
Which of the four does this test reject?
""",
    hint=r"""
Give the turned patches the shape of the image: which comes first, height or width?
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
            "The last patch of a row is compared with the first of the next",
            "They follow each other in the list and stand at opposite edges of the "
            "image. Which patches have a right neighbor?",
            _spread_along_the_line,
        ),
        Misconception(
            "This compares each patch with the one below",
            "Rows are the first axis of the image, so right neighbors differ in the "
            "second.",
            _spread_downwards,
        ),
        Misconception(
            "The image is folded with width and height exchanged",
            "Row by row means [height, width]: a row is width patches long.",
            lambda z, positions, width, height: neighbor_spread(
                z, positions, height, width
            ),
        ),
        Misconception(
            "This is the standard deviation",
            "The exercise asks for the largest minus the smallest.",
            _spread_of_standard_deviation,
        ),
        Misconception(
            "All patches are compared with all",
            "Only right neighbors are asked for: one relation, many places.",
            _spread_of_all_scores,
        ),
        Misconception(
            "This is the largest score",
            "The smallest must be subtracted, with its sign.",
            _of_right_neighbors(np.max),
        ),
        Misconception(
            "This is the mean",
            "The exercise asks for the largest minus the smallest.",
            _of_right_neighbors(np.mean),
        ),
        Misconception(
            "This is the variance",
            "The exercise asks for the largest minus the smallest.",
            _of_right_neighbors(np.var),
        ),
        Misconception(
            "The image goes round",
            "The last patch of a row has no right neighbor; np.roll gives it the "
            "first.",
            lambda z, positions, width, height: (
                lambda image: np.ptp((image * np.roll(image, -1, axis=1)).sum(-1))
            )(turned(z, positions).reshape(height, width, -1)),
        ),
        Misconception(
            "Nothing is turned",
            "All patches have one content. It is their positions that make the "
            "scores differ.",
            lambda z, positions, width, height: 0.0,
        ),
        Misconception(
            "The features are not summed",
            "A score is an inner product.",
            lambda z, positions, width, height: (
                lambda image: np.ptp(image[:, :-1] * image[:, 1:])
            )(turned(z, positions).reshape(height, width, -1)),
        ),
        Misconception(
            "Diagonal neighbors are compared",
            "The right neighbor stands in the same row.",
            lambda z, positions, width, height: (
                lambda image: np.ptp((image[:-1, :-1] * image[1:, 1:]).sum(-1))
            )(turned(z, positions).reshape(height, width, -1)),
        ),
        Misconception(
            "Each row is compared with itself only",
            "One largest and one smallest of *all* right neighbors.",
            lambda z, positions, width, height: (
                lambda image: np.ptp(
                    (image[:, :-1] * image[:, 1:]).sum(-1), axis=1
                ).max()
            )(turned(z, positions).reshape(height, width, -1)),
        ),
    ),
)


# axial-rope-8: how far the weights are from a product


def second_share(f, width, height):
    """How far the weights are from a product of columns and rows: a number."""
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
    """Another ``share(sizes)`` of the singular values than second by first."""
    return lambda f, width, height: share(
        np.linalg.svd(_weights(f, width, height), compute_uv=False)
    )


def _of_logits(change):
    """The share of weights whose logits are changed."""

    def answer(f, width, height):
        positions = grid(width, height, coordinates="index")
        weights = np.exp(change(positions @ f.T))
        return _share((weights / weights.sum()).reshape(height, width))

    return answer


def _of_grid(positions, f, width, height):
    """The share of weights on patches that stand elsewhere."""
    weights = np.exp(np.cos(positions @ f.T).sum(-1))
    return _share((weights / weights.sum()).reshape(height, width))


RANK = Exercise(
    name="axial-rope-8",
    title="Columns times rows",
    kind="experiment",
    minutes=15,
    lines=6,
    statement=r"""
A query at (0, 0) looks at all patches of an image, itself included, two or more each way, by index coordinates; `f` holds the frequency vectors, `[pairs, 2]`, and every pair of the query and of every key is (1, 0).
So the logit of a patch at $y$ is $\sum_p \cos(f_p \cdot y)$ (no scaling).
Take the softmax over all patches, write the weights as a table `[height, width]`, and return its second singular value divided by its first: 0 if the weights are a product of columns and rows.

Then try vectors of axial RoPE, vectors along one diagonal, and in between.
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
            "These are the logits",
            "A sum of columns and rows has rank 2. The softmax makes a product of it.",
            lambda f, width, height: _share(_logits(f, width, height)),
        ),
        Misconception(
            "The softmax runs over each row by itself",
            "A query shares its weight among all patches of the image.",
            _share_by_rows,
        ),
        Misconception(
            "The image is folded with width and height exchanged",
            "Row by row means [height, width].",
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
            "The coordinates of the vectors are swapped",
            "The first rate belongs to the columns.",
            lambda f, width, height: second_share(f[:, ::-1], width, height),
        ),
        Misconception(
            "This is the second singular value itself",
            "Divide it by the largest.",
            _of_sizes(lambda s: s[1]),
        ),
        Misconception(
            "This is upside down",
            "The second, divided by the first: 0 if the weights are a product.",
            _of_sizes(lambda s: s[0] / s[1]),
        ),
        Misconception(
            "The last singular value is taken",
            "The second is asked for.",
            _of_sizes(lambda s: s[-1] / s[0]),
        ),
        Misconception(
            "The squares are compared",
            "Singular values, not their squares.",
            _of_sizes(lambda s: (s[1] / s[0]) ** 2),
        ),
        Misconception(
            "All but the first are taken together",
            "The second is asked for.",
            _of_sizes(lambda s: s[1:].sum() / s[0]),
        ),
        Misconception(
            "The softmax runs over each column by itself",
            "A query shares its weight among all patches of the image.",
            lambda f, width, height: _share(
                _weights(f, width, height) / _weights(f, width, height).sum(axis=0)
            ),
        ),
        Misconception(
            "The angles of all pairs are added",
            "The logit is a sum of cosines, one for each pair.",
            _of_logits(lambda angles: np.cos(angles.sum(-1))),
        ),
        Misconception(
            "The cosines are averaged",
            "The exercise says: no scaling.",
            _of_logits(lambda angles: np.cos(angles).mean(-1)),
        ),
        Misconception(
            "The logits are scaled",
            "The exercise says: no scaling.",
            _of_logits(
                lambda angles: np.cos(angles).sum(-1) / np.sqrt(2 * angles.shape[-1])
            ),
        ),
        Misconception(
            "These are sines",
            "Query and key are both (1, 0), so their score is the cosine of the "
            "angle between them.",
            _of_logits(lambda angles: np.sin(angles).sum(-1)),
        ),
        Misconception(
            "The sign of the logits is reversed",
            "The largest logit gets the most weight.",
            _of_logits(lambda angles: -np.cos(angles).sum(-1)),
        ),
        Misconception(
            "The patches are counted from 1",
            "The query is at (0, 0), where the first patch is.",
            lambda f, width, height: _of_grid(
                grid(width, height, coordinates="index") + 1, f, width, height
            ),
        ),
        Misconception(
            "The logits are divided by the root of the number of pairs",
            "The exercise says: no scaling.",
            _of_logits(
                lambda angles: np.cos(angles).sum(-1) / np.sqrt(angles.shape[-1])
            ),
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
)


SHEET = Sheet(
    title="RoPE on a grid",
    conventions=r"""
A position is (column, row), both counted from 0; images are read row by row; axial RoPE has base 100 and two axes unless said otherwise; angles are counter-clockwise.
""",
    exercises=(
        SPECTRUM,
        PATCHES,
        DIAGONAL,
        ANGLES,
        CLASS,
        REORDER,
        NEIGHBORS,
        RANK,
    ),
)
