"""Exercises on ComRoPE, RoPE with trainable commuting generators."""

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

# comrope-1: the axis of a block


def axes_of_blocks(blocks, axes):
    """Return the axis of each block of ComRoPE-AP, in order: a list of integers.

    ``blocks`` and ``axes`` are the numbers of blocks and of axes.
    """
    return [m % axes for m in range(blocks)]


AXES = Exercise(
    name="comrope-1",
    title="The axis of a block",
    kind="by hand",
    minutes=3,
    lines=1,
    statement=r"""
In ComRoPE-AP block $m$ belongs to one of $N$ axes; $N$ divides the number of blocks.
Return the list of axes of all blocks, in order.
""",
    hint=r"""
The axes take turns, beginning with axis 0.
""",
    cases=((4, 2), (6, 3), (6, 2), (8, 4)),
    solution=axes_of_blocks,
    misconceptions=(
        Misconception(
            "All blocks of one axis together",
            "In axial RoPE's concatenated order all blocks of one axis come first, "
            "then all of the next. In AP the axes take turns.",
            lambda blocks, axes: [m * axes // blocks for m in range(blocks)],
        ),
        Misconception(
            "Blocks counted from 1",
            "m ≡ a (mod N) holds with blocks and axes counted from 0: block 0 belongs "
            "to axis 0.",
            lambda blocks, axes: [(m + 1) % axes for m in range(blocks)],
        ),
        Misconception(
            "Remainder modulo the number of blocks",
            "With this remainder every block has an axis of its own. There are only N "
            "axes.",
            lambda blocks, axes: [m % blocks for m in range(blocks)],
        ),
        Misconception(
            "Axes counted from 1",
            "The first axis is number 0.",
            lambda blocks, axes: [m % axes + 1 for m in range(blocks)],
        ),
        Misconception(
            "Axes in reverse order",
            "The first block belongs to axis 0, the next one to axis 1.",
            lambda blocks, axes: [axes - 1 - m % axes for m in range(blocks)],
        ),
        Misconception(
            "Quotient in place of the remainder",
            "The quotient of m and N says how many rounds over all axes came before. "
            "Which axis has block m in its round?",
            lambda blocks, axes: [m // axes for m in range(blocks)],
        ),
        Misconception(
            "First axis for all blocks",
            "The axes take turns.",
            lambda blocks, axes: [0] * blocks,
        ),
        Misconception(
            "Remainder modulo the number of an axis's blocks",
            "There are N axes, and the remainder modulo N counts them. An axis has "
            "blocks/N blocks.",
            lambda blocks, axes: [m % (blocks // axes) for m in range(blocks)],
        ),
        Misconception(
            "Two axes assumed",
            "N is not always 2.",
            lambda blocks, axes: [m % 2 for m in range(blocks)],
        ),
        Misconception(
            "Every other round backward",
            "Each round begins with axis 0 again.",
            lambda blocks, axes: [
                axes - 1 - m % axes if m // axes % 2 else m % axes
                for m in range(blocks)
            ],
        ),
    ),
    explanation=r"""
Block $m$ has a generator for axis $a$ if $m \equiv a \pmod N$, by {prf:ref}`the definition of ComRoPE-AP <def-ap-box>`: its axis is the remainder $m \bmod N$.
This is the alternating order; with blocks of 2 and suitable matrices AP is {prf:ref}`axial RoPE in that order <thm-comrope-cases>`.
""",
)


# comrope-2: parameters


def parameters(width, block, axes, heads):
    """Return a layer's numbers of parameters with three forms of ComRoPE: three ints.

    The forms are AP, LD with multipliers of each head, and LD with multipliers that all
    heads share. ``width`` is the width of all heads together, ``block`` the size of a
    block; ``axes`` and ``heads`` are numbers.
    """
    matrices = width * block
    multipliers = axes * width // block
    return matrices, matrices + multipliers, matrices + multipliers // heads


def _trained(
    matrices=lambda c, b, n, h: c * b,
    own=lambda c, b, n, h: n * c // b,
    shared=lambda c, b, n, h: n * c // b // h,
):
    """Make a wrong answer (a function) to the exercise ``parameters``.

    The exercise asks for ComRoPE's numbers of parameters. In the wrong answer,
    ``matrices`` replaces the number of entries of the trained matrices, ``own`` the
    number of multipliers if each head has its own, or ``shared`` the number of those
    that all heads share. The arguments of all three are width, block, axes and heads,
    and the defaults are right.
    """

    def answer(width, block, axes, heads):
        case = width, block, axes, heads
        return (
            matrices(*case),
            matrices(*case) + own(*case),
            matrices(*case) + shared(*case),
        )

    return answer


PARAMETERS = Exercise(
    name="comrope-2",
    title="Parameters",
    kind="by hand",
    minutes=6,
    lines=3,
    statement=r"""
A layer has width $C$ (all $h$ heads together), blocks of $b$ and $N$ axes.
Every head has its own matrices $P_m$, trained in full.
Return three numbers of parameters: those of ComRoPE-AP, those of LD with multipliers of each head, and those of LD with multipliers shared by all heads.
""",
    hint=r"""
How many blocks has a head, and how many have all heads together?
A matrix has $b^2$ numbers, and a multiplier is one number for each axis and block.
""",
    cases=((64, 8, 2, 4), (48, 4, 3, 3), (768, 8, 2, 12)),
    solution=parameters,
    misconceptions=(
        Misconception(
            "Multipliers counted for each head in both",
            "Shared multipliers exist once for all heads, not once for each.",
            lambda width, block, axes, heads: (
                parameters(width, block, axes, heads)[0],
                *[parameters(width, block, axes, heads)[1]] * 2,
            ),
        ),
        Misconception(
            "Only the free entries counted",
            "Only b(b − 1)/2 numbers of a block have an effect, but all b² numbers of "
            "P are trained.",
            lambda width, block, axes, heads: tuple(
                n - width * block + width * (block - 1) // 2
                for n in parameters(width, block, axes, heads)
            ),
        ),
        Misconception(
            "One multiplier per block",
            "A multiplier belongs to a block *and* an axis. With one per block, all "
            "axes would have the same generator.",
            lambda width, block, axes, heads: parameters(width, block, 1, heads),
        ),
        Misconception(
            "Matrices of one head counted",
            "Every head has its own matrices.",
            _trained(lambda c, b, n, h: c * b // h),
        ),
        Misconception(
            "Matrices counted for each head once more",
            "The width is that of all heads together: the layer has C/b blocks.",
            _trained(lambda c, b, n, h: c * b * h),
        ),
        Misconception(
            "Matrices counted for each axis",
            "AP gives each block to one axis, and LD multiplies one matrix. So each "
            "block has one P.",
            _trained(lambda c, b, n, h: c * b * n),
        ),
        Misconception(
            "A single matrix counted",
            "The layer has C/b blocks, each with a matrix of its own.",
            _trained(lambda c, b, n, h: b * b),
        ),
        Misconception(
            "b numbers per matrix",
            "A matrix has b × b numbers.",
            _trained(lambda c, b, n, h: c),
        ),
        Misconception(
            "Dense matrix counted",
            "The blocks are b × b. All other entries are zero and not trained.",
            _trained(lambda c, b, n, h: c * c),
        ),
        Misconception(
            "Multipliers left out",
            "LD trains the matrices, and one number for each axis and block.",
            _trained(own=lambda c, b, n, h: 0, shared=lambda c, b, n, h: 0),
        ),
        Misconception(
            "One multiplier per axis",
            "A multiplier belongs to an axis *and* a block.",
            _trained(own=lambda c, b, n, h: n, shared=lambda c, b, n, h: n),
        ),
        Misconception(
            "One multiplier per axis and head",
            "A multiplier belongs to an axis *and* a block, and a head has several "
            "blocks.",
            _trained(own=lambda c, b, n, h: n * h, shared=lambda c, b, n, h: n),
        ),
        Misconception(
            "One multiplier per axis and feature",
            "A block has one multiplier per axis, not b.",
            _trained(
                own=lambda c, b, n, h: n * c, shared=lambda c, b, n, h: n * c // h
            ),
        ),
        Misconception(
            "Multipliers counted for each head once more",
            "The width is that of all heads together.",
            _trained(
                own=lambda c, b, n, h: h * n * c // b,
                shared=lambda c, b, n, h: n * c // b,
            ),
        ),
        Misconception(
            "Matrices shared, too",
            "Every head has its own matrices in all three. Only the multipliers are "
            "shared.",
            lambda width, block, axes, heads: (
                *parameters(width, block, axes, heads)[:2],
                (width * block + axes * width // block) // heads,
            ),
        ),
        Misconception(
            "Two kinds of LD exchanged",
            "LD with multipliers of each head comes first, then LD with shared ones.",
            lambda width, block, axes, heads: tuple(
                parameters(width, block, axes, heads)[n] for n in (0, 2, 1)
            ),
        ),
        Misconception(
            "Matrices left out",
            "LD trains the matrices as well.",
            lambda width, block, axes, heads: (
                width * block,
                axes * width // block,
                axes * width // block // heads,
            ),
        ),
        Misconception(
            "Multipliers in AP",
            "Only LD has multipliers. In AP a block rotates for one axis, by its "
            "matrix as it is.",
            lambda width, block, axes, heads: (
                parameters(width, block, axes, heads)[1],
                *parameters(width, block, axes, heads)[1:],
            ),
        ),
        Misconception(
            "AP's matrices divided among the axes",
            "AP gives each block to one of N axes, but all blocks are there, each "
            "with its matrix.",
            lambda width, block, axes, heads: (
                width * block // axes,
                *parameters(width, block, axes, heads)[1:],
            ),
        ),
        Misconception(
            "Axes and blocks added",
            "Each axis has a multiplier for each block: their number is a product.",
            _trained(
                own=lambda c, b, n, h: n + c // b,
                shared=lambda c, b, n, h: n + c // b // h,
            ),
        ),
        Misconception(
            "Multipliers counted for each feature of a block",
            "An axis has one multiplier for each block of a head, and a head has "
            "C/(bh) blocks, not b.",
            _trained(own=lambda c, b, n, h: n * b * h, shared=lambda c, b, n, h: n * b),
        ),
    ),
    level="optional",
    explanation=r"""
All heads together have $C/b$ blocks, each with a matrix of $b^2$ numbers: $Cb$ parameters for AP.
LD adds one multiplier for each axis and block, $NC/b$; if all heads share them, there are multipliers for the blocks of one head only, $NC/(bh)$.
With $C = 768$, $b = 8$, $N = 2$ and $h = 12$ these are 6144, 6336 and 6160 parameters, so multipliers cost little.
Only $P - P^\top$ matters, so $b(b - 1)/2$ of the $b^2$ numbers of a matrix would be enough.
""",
)


# comrope-3: LD's generators


def ld_generators(matrices, multipliers):
    """Return the generators of ComRoPE-LD, ``[axes, blocks, b, b]``.

    ``matrices`` are the trained matrices P, one for each block; ``multipliers``,
    ``[axes, blocks]``, are trained factors.
    """
    skew = matrices - matrices.swapaxes(-1, -2)
    return multipliers[:, :, None, None] * skew


def _ld_case(axes, blocks, b):
    return draw(blocks, b, b), draw(axes, blocks)


def _generators(skew):
    """Make a wrong answer (a function) to the exercise ``ld_generators``.

    The exercise asks for ComRoPE-LD's generators. In the wrong answer, ``skew(P)``
    replaces P − Pᵀ, where P are the trained matrices of the blocks.
    """
    return lambda p, t: t[:, :, None, None] * skew(p)


GENERATORS = Exercise(
    name="comrope-3",
    title="Generators that commute",
    kind="NumPy",
    minutes=6,
    lines=2,
    statement=r"""
`matrices` is `[blocks, b, b]`, `multipliers` is `[axes, blocks]`.
Return ComRoPE-LD's generators, `[axes, blocks, b, b]`.
From a matrix $P$ it takes $P - P^\top$, without a half.
""",
    hint=r"""
First make the matrices skew, then give the multipliers two more axes.
""",
    cases=(
        _ld_case(2, 2, 2),
        _ld_case(3, 3, 2),
        _ld_case(2, 2, 4),
        _ld_case(2, 3, 2),
    ),
    solution=ld_generators,
    misconceptions=(
        Misconception(
            "Symmetric generators",
            "P + Pᵀ is symmetric, and its exponential stretches.",
            lambda p, t: t[:, :, None, None] * (p + p.swapaxes(-1, -2)),
        ),
        Misconception(
            "P in place of P − Pᵀ",
            "P is any matrix. How do you make it skew?",
            lambda p, t: t[:, :, None, None] * p,
        ),
        Misconception(
            "Axes of the multipliers exchanged",
            "multipliers[a, m] belongs to axis a and block m. Your answer reads them "
            "as [m, a], which fits only with as many axes as blocks.",
            lambda p, t: (
                ld_generators(p, t.T)
                if t.shape[0] == t.shape[1]
                else ld_generators(p, t)
            ),
        ),
        Misconception(
            "First axis's multipliers for all axes",
            "With the same multiplier for every axis, x and y have the same effect.",
            lambda p, t: ld_generators(p, np.broadcast_to(t[:1], t.shape)),
        ),
        Misconception(
            "Only the upper triangle of P",
            "The exponential of an upper triangle is no rotation. Something must stand "
            "below the diagonal.",
            _generators(lambda p: np.triu(p, 1)),
        ),
        Misconception(
            "Skew matrix of the upper triangle alone",
            "P is a full matrix, and P − Pᵀ uses all of it.",
            _generators(lambda p: np.triu(p, 1) - np.triu(p, 1).swapaxes(-1, -2)),
        ),
        Misconception(
            "Skew part halved",
            "ComRoPE takes P − Pᵀ, without a half.",
            _generators(lambda p: (p - p.swapaxes(-1, -2)) / 2),
        ),
        Misconception(
            "Sign reversed",
            "P − Pᵀ keeps the entries of P above the diagonal.",
            _generators(lambda p: p.swapaxes(-1, -2) - p),
        ),
        Misconception(
            "Multipliers left out",
            "Without multipliers all axes have the same generator. Each axis has its "
            "own multiple of the matrix.",
            lambda p, t: np.broadcast_to(
                p - p.swapaxes(-1, -2), (*t.shape, *p.shape[1:])
            ).copy(),
        ),
        Misconception(
            "Multipliers added",
            "A multiple of a skew matrix is skew. With a number added to its "
            "entries it is not.",
            lambda p, t: t[:, :, None, None] + (p - p.swapaxes(-1, -2)),
        ),
        Misconception(
            "First block's multipliers for all blocks",
            "multipliers[a, m] belongs to axis a and block m.",
            lambda p, t: ld_generators(p, np.broadcast_to(t[:, :1], t.shape)),
        ),
        Misconception(
            "First block's matrix for all blocks",
            "matrices[m] belongs to block m.",
            lambda p, t: ld_generators(np.broadcast_to(p[:1], p.shape), t),
        ),
        Misconception(
            "Multipliers squared",
            "The multipliers are used as they are.",
            lambda p, t: ld_generators(p, t**2),
        ),
        Misconception(
            "Skew matrix of the lower triangle alone",
            "P is a full matrix, and P − Pᵀ uses all of it.",
            _generators(lambda p: np.tril(p, -1) - np.tril(p, -1).swapaxes(-1, -2)),
        ),
        Misconception(
            "Matrices divided by √b",
            "ComRoPE takes P − Pᵀ as it is.",
            _generators(lambda p: (p - p.swapaxes(-1, -2)) / p.shape[-1] ** 0.5),
        ),
        Misconception(
            "One axis for each block",
            "In AP each block belongs to one axis. In LD every axis rotates every "
            "block, each with its multiplier.",
            lambda p, t: ld_generators(
                p, t * (np.arange(len(p)) % len(t) == np.arange(len(t))[:, None])
            ),
        ),
        Misconception(
            "Sign of the multipliers lost",
            "A negative multiplier rotates in the other direction.",
            lambda p, t: ld_generators(p, np.abs(t)),
        ),
        Misconception(
            "AP in place of LD",
            "In AP each block belongs to one axis, without multipliers. In LD every "
            "axis rotates every block, each with its multiplier.",
            lambda p, t: ld_generators(
                p, np.arange(len(p)) % len(t) == np.arange(len(t))[:, None]
            ),
        ),
        Misconception(
            "Matrices divided by their length",
            "ComRoPE takes P − Pᵀ as it is.",
            _generators(
                lambda p: (
                    (p - p.swapaxes(-1, -2))
                    / np.linalg.norm(
                        p - p.swapaxes(-1, -2), axis=(-1, -2), keepdims=True
                    )
                )
            ),
        ),
        Misconception(
            "Mean of an axis's multipliers",
            "multipliers[a, m] belongs to axis a and block m.",
            lambda p, t: ld_generators(
                p, np.broadcast_to(t.mean(1, keepdims=True), t.shape)
            ),
        ),
    ),
    properties=(
        Property(
            "Generators are skew",
            lambda answer, p, t: np.allclose(
                answer(p, t), -answer(p, t).swapaxes(-1, -2)
            ),
        ),
    ),
    explanation=r"""
The generators of one block are multiples $\theta_{am} S_m$ of one skew matrix $S_m = P_m - P_m^\top$, by {prf:ref}`the definition of ComRoPE-LD <def-ld-box>`.
Multiples of one matrix commute, so {prf:ref}`both families commute <thm-comrope-commute>` and are exactly relative, whatever is trained.
""",
)


# comrope-4: coordinates with a class token


def coordinates(width, height):
    """Return ComRoPE's positions of the class token, then of the patches row by row.

    The shape is ``[1 + width · height, 2]``; ``width`` and ``height`` count patches.
    """
    x, y = np.meshgrid(
        (np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height
    )
    patches = np.stack([x.ravel(), y.ravel()], axis=-1)
    return np.concatenate(([[0.5, 0.5]], patches))


def _placed(x, y, token=(0.5, 0.5)):
    """Make a wrong answer (a function) to the exercise ``coordinates``.

    The exercise asks for ComRoPE's positions of class token and patches. In the wrong
    answer, the coordinates of the patches are ``x(columns, width, height)`` and
    ``y(rows, height, width)``, in place of (column + ½)/width and (row + ½)/height, or
    ``token`` is another position of the class token than the center.
    """

    def answer(width, height):
        columns = x(np.arange(width), width, height)
        rows = y(np.arange(height), height, width)
        grid = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
        return np.concatenate((np.array([token], dtype=float), grid))

    return answer


COORDINATES = Exercise(
    name="comrope-4",
    title="Coordinates with a class token",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
Return ComRoPE's positions of a class token and of the patches of an image of `width` × `height`.
Each coordinate runs from 0 to 1 across the image.
The result is `[1 + width · height, 2]`, the class token first.
""",
    hint=r"""
A patch has (index + ½)/count, row by row.
The class token has ½ on every axis.
""",
    cases=((2, 1), (3, 2), (4, 7)),
    solution=coordinates,
    misconceptions=(
        Misconception(
            "Class token at the origin",
            "At the origin the rotation is I. ComRoPE puts the class token in the "
            "middle of the image.",
            lambda w, h: np.concatenate((np.zeros((1, 2)), coordinates(w, h)[1:])),
        ),
        Misconception(
            "Column and row exchanged",
            "The first coordinate counts columns and varies fastest. On a square image "
            "you would not have noticed.",
            lambda w, h: coordinates(w, h)[:, ::-1],
        ),
        Misconception(
            "Patches counted, not measured",
            "ComRoPE's coordinates are the centers of the patches, in fractions of "
            "the image.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[:1], coordinates(w, h)[1:] * [w, h] - 0.5)
            ),
        ),
        Misconception(
            "Upper left corners in place of centers",
            "index/count is the upper left corner of a patch. The center is half a "
            "patch further.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[:1], coordinates(w, h)[1:] - [0.5 / w, 0.5 / h])
            ),
        ),
        Misconception(
            "Class token last",
            "The class token is the first row here.",
            lambda w, h: np.roll(coordinates(w, h), -1, axis=0),
        ),
        Misconception(
            "Ends of the row at 0 and 1",
            "The centers of the outer patches are half a patch from the edge: the "
            "first is not at 0, and the last not at 1.",
            lambda w, h: _placed(
                lambda n, count, _: np.linspace(0, 1, count),
                lambda n, count, _: np.linspace(0, 1, count),
            )(w, h),
        ),
        Misconception(
            "Lower right corners in place of centers",
            "(index + 1)/count is the lower right corner of a patch. The center is "
            "half a patch nearer.",
            _placed(
                lambda n, count, _: (n + 1) / count, lambda n, count, _: (n + 1) / count
            ),
        ),
        Misconception(
            "Width and height exchanged in the division",
            "The column is divided by the number of columns.",
            _placed(
                lambda n, count, other: (n + 0.5) / other,
                lambda n, count, other: (n + 0.5) / other,
            ),
        ),
        Misconception(
            "Image from −1 to 1",
            "ComRoPE measures in fractions of the image, from its upper left corner.",
            _placed(
                lambda n, count, _: 2 * (n + 0.5) / count - 1,
                lambda n, count, _: 2 * (n + 0.5) / count - 1,
                token=(0, 0),
            ),
        ),
        Misconception(
            "Origin in the middle",
            "ComRoPE measures from the upper left corner.",
            _placed(
                lambda n, count, _: (n + 0.5) / count - 0.5,
                lambda n, count, _: (n + 0.5) / count - 0.5,
                token=(0, 0),
            ),
        ),
        Misconception(
            "Patches column by column",
            "The order is row by row: the column varies fastest.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[:1], coordinates(h, w)[1:, ::-1])
            ),
        ),
        Misconception(
            "Width and height exchanged",
            "A row has `width` patches.",
            lambda w, h: coordinates(h, w),
        ),
        Misconception(
            "Rows counted from below",
            "The first row of the list is the uppermost, near 0.",
            _placed(
                lambda n, count, _: (n + 0.5) / count,
                lambda n, count, _: 1 - (n + 0.5) / count,
            ),
        ),
        Misconception(
            "Class token's position in patches",
            "The class token has ½ on every axis, in fractions of the image.",
            lambda w, h: np.concatenate(([[w / 2, h / 2]], coordinates(w, h)[1:])),
        ),
        Misconception(
            "Patches counted from 1",
            "A patch has (index + ½)/count, with the index from 0.",
            _placed(
                lambda n, count, _: (n + 1.5) / count,
                lambda n, count, _: (n + 1.5) / count,
            ),
        ),
        Misconception(
            "Everything measured in patches",
            "ComRoPE measures in fractions of the image, from corner to corner.",
            lambda w, h: np.concatenate(
                ([[(w - 1) / 2, (h - 1) / 2]], coordinates(w, h)[1:] * [w, h] - 0.5)
            ),
        ),
        Misconception(
            "Rows divided by the width",
            "Each axis is divided by its own count: columns by the width, rows by the "
            "height.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[:1], coordinates(w, h)[1:] * [1, h / w])
            ),
        ),
        Misconception(
            "Both axes divided by the longer side",
            "Dividing by the longer side keeps the image's shape. ComRoPE's images are "
            "1 wide and 1 high, whatever their patches.",
            _placed(
                lambda n, count, other: (n + 0.5) / max(count, other),
                lambda n, count, other: (n + 0.5) / max(count, other),
            ),
        ),
        Misconception(
            "Only ½ divided by the count",
            "Python divides before it adds: the sum needs parentheses.",
            _placed(
                lambda n, count, _: n + 0.5 / count, lambda n, count, _: n + 0.5 / count
            ),
        ),
        Misconception(
            "Not divided by the count",
            "Each coordinate runs from 0 to 1 across the image: divide by the count.",
            _placed(lambda n, count, _: n + 0.5, lambda n, count, _: n + 0.5),
        ),
        Misconception(
            "(index + 1)/(count + 1)",
            "The centers are half a patch from the edges and a whole one from each "
            "other. Your gaps are all equal.",
            _placed(
                lambda n, count, _: (n + 1) / (count + 1),
                lambda n, count, _: (n + 1) / (count + 1),
            ),
        ),
        Misconception(
            "Fractions cut to 0",
            "`//` leaves out the fraction, and integer arrays have none.",
            _placed(lambda n, count, _: 0.0 * n, lambda n, count, _: 0.0 * n),
        ),
        Misconception(
            "Divided by the number of patches",
            "Each axis is divided by its own count: columns by the width, rows by the "
            "height.",
            _placed(
                lambda n, count, other: (n + 0.5) / (count * other),
                lambda n, count, other: (n + 0.5) / (count * other),
            ),
        ),
        Misconception(
            "Class token on the first patch",
            "The class token stands in the middle of the image.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[1:2], coordinates(w, h)[1:])
            ),
        ),
        Misconception(
            "Class token at the lower right corner",
            "The class token stands in the middle of the image.",
            lambda w, h: np.concatenate((np.ones((1, 2)), coordinates(w, h)[1:])),
        ),
        Misconception(
            "Class token outside the image",
            "The class token stands in the middle of the image.",
            lambda w, h: np.concatenate((-np.ones((1, 2)), coordinates(w, h)[1:])),
        ),
    ),
    explanation=r"""
A patch has its center's coordinates, (index + ½)/count on each axis, so the image runs from 0 to 1 in both directions and the class token stands in its middle.
Width and height have counts of their own: on an image that is not square a step to the right and a step down have different lengths.
""",
)


# comrope-5: the code's perturbation


def moves(draws, sigma):
    """Return how far ComRoPE's released code moves coordinates, in patches: a tensor.

    ``draws`` are standard normal numbers, ``sigma`` sets the size of the perturbation.
    The tensor has the shape of ``draws``.
    """
    return (draws * sigma / 2).clamp(-0.5, 0.5)


def _on_the_edge():
    moved = moves(torch.tensor(draw(20000)), 1)
    return 100 * (moved.abs() == 0.5).double().mean().item()


MOVES = Exercise(
    name="comrope-5",
    title="The code's perturbation",
    kind="PyTorch",
    minutes=5,
    lines=1,
    statement=r"""
`draws` are standard normal numbers.
The authors' code perturbs the coordinates with $\sigma$: it draws with standard deviation $\sigma/2$, then clamps, so that nothing leaves its patch.
Return by how many patches it moves the coordinates.
""",
    hint=r"""
How far is the edge of a patch from its center?
""",
    cases=(
        (torch.tensor([0.5, -0.25, 1.5, -3.0]).double(), 1.0),
        (torch.tensor(draw(20)), 0.5),
        (torch.tensor([0.25, -0.75]).double(), 1.5),
    ),
    solution=moves,
    misconceptions=(
        Misconception(
            "The paper's standard deviation",
            "The text says σ patches. The code draws with half of that.",
            lambda draws, sigma: (draws * sigma).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Clamp at a whole patch",
            "From the center the edge is half a patch away, not a whole one.",
            lambda draws, sigma: (draws * sigma / 2).clamp(-1.0, 1.0),
        ),
        Misconception(
            "Far moves put back in the middle",
            "The code clamps: a move that is too far becomes a move to the edge.",
            lambda draws, sigma: torch.where(
                (draws * sigma / 2).abs() > 0.5, 0.0, draws * sigma / 2
            ),
        ),
        Misconception(
            "No clamp",
            "A move is clamped, so that a coordinate stays in its patch.",
            lambda draws, sigma: draws * sigma / 2,
        ),
        Misconception(
            "Standard deviation doubled",
            "The code takes half of what the paper states.",
            lambda draws, sigma: (2 * draws * sigma).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Draws clamped, not the moves",
            "Clamp the moves. A draw may be large if the move is not.",
            lambda draws, sigma: draws.clamp(-0.5, 0.5) * sigma / 2,
        ),
        Misconception(
            "Clamp before the half",
            "First halve the standard deviation, then clamp.",
            lambda draws, sigma: (draws * sigma).clamp(-0.5, 0.5) / 2,
        ),
        Misconception(
            "σ taken for a variance",
            "σ is the standard deviation.",
            lambda draws, sigma: (draws * sigma**0.5 / 2).clamp(-0.5, 0.5),
        ),
        Misconception(
            "σ squared",
            "σ is the standard deviation: multiply the draws by σ/2.",
            lambda draws, sigma: (draws * sigma**2 / 2).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Clamp that depends on σ",
            "The patch has the same size whatever σ is.",
            lambda draws, sigma: (draws * sigma / 2).clamp(-sigma / 2, sigma / 2),
        ),
        Misconception(
            "Only moves to the right",
            "The clamp has two sides.",
            lambda draws, sigma: (draws * sigma / 2).clamp(0, 0.5),
        ),
        Misconception(
            "Clamp on the right only",
            "Moves to the left leave the patch as well.",
            lambda draws, sigma: (draws * sigma / 2).clamp(max=0.5),
        ),
        Misconception(
            "σ/2 left out",
            "The draws are standard normal. Multiply them by σ/2.",
            lambda draws, sigma: (draws / 2).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Variance halved",
            "Halve the standard *deviation*.",
            lambda draws, sigma: (draws * sigma / 2**0.5).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Far moves entering on the other side",
            "The code clamps: a move that is too far becomes a move to the edge.",
            lambda draws, sigma: (draws * sigma / 2 + 0.5) % 1 - 0.5,
        ),
        Misconception(
            "σ/2 added to the draws",
            "Draws with a standard deviation are standard draws *times* it.",
            lambda draws, sigma: (draws + sigma / 2).clamp(-0.5, 0.5),
        ),
        Misconception(
            "A quarter of σ",
            "The code halves the paper's standard deviation once.",
            lambda draws, sigma: (draws * sigma / 4).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Smooth clamp",
            "The clamp leaves every move within the patch as it is.",
            lambda draws, sigma: (draws * sigma / 2).tanh() / 2,
        ),
        Misconception(
            "σ/2 taken for a variance",
            "σ/2 is the standard deviation: multiply the draws by it.",
            lambda draws, sigma: (draws * (sigma / 2) ** 0.5).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Clamp on the left only",
            "Moves to the right leave the patch as well.",
            lambda draws, sigma: (draws * sigma / 2).clamp(min=-0.5),
        ),
        Misconception(
            "Variance in place of the standard deviation",
            "Draws with the standard deviation σ/2 are standard draws times σ/2, not "
            "times its square.",
            lambda draws, sigma: (draws * sigma**2 / 4).clamp(-0.5, 0.5),
        ),
        Misconception(
            "σ/2 cut to an integer",
            "`//` leaves out the fraction: 1.0 // 2 is 0.",
            lambda draws, sigma: (sigma // 2 * draws).clamp(-0.5, 0.5),
        ),
        Misconception(
            "σ cut to an integer",
            "σ is a real number: 0.5 is one of its values.",
            lambda draws, sigma: (int(sigma) / 2 * draws).clamp(-0.5, 0.5),
        ),
        Misconception(
            "σ limited to 1",
            "Only the moves are clamped. σ may be larger than 1.",
            lambda draws, sigma: (min(sigma, 1) / 2 * draws).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Divided by σ/2",
            "Draws with a standard deviation are standard draws *times* it.",
            lambda draws, sigma: (draws / (sigma / 2)).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Far moves reflected",
            "The code clamps: a move that is too far becomes a move to the edge.",
            lambda draws, sigma: 0.5 - ((draws * sigma / 2 + 0.5) % 2 - 1).abs(),
        ),
        Misconception(
            "Every move to the edge",
            "The clamp leaves every move within the patch as it is.",
            lambda draws, sigma: 0.5 * draws.sign(),
        ),
    ),
    properties=(
        Property(
            "How far a coordinate is moved depends on its own draw only",
            lambda answer, draws, sigma: torch.allclose(
                answer(draws[:1], sigma), answer(draws, sigma)[:1]
            ),
        ),
    ),
    level="optional",
    explanation=r"""
A patch has the length 1, so its edge is half a patch away from its center: the moves are the draws times $\sigma/2$, clamped to $\pm\tfrac12$.
With $\sigma = 1$ every draw beyond one standard deviation is clamped, nearly a third of them, and these coordinates land exactly on the edge of their patch.
The paper's truncated normal distribution with standard deviation $\sigma$ puts none there.
""",
    prediction=Prediction(
        r"With $\sigma = 1$, how many percent of the coordinates does the code put exactly on the edge of their patch?",
        _on_the_edge,
        near=0.1,
    ),
)


# comrope-6: shift both tokens


def change_of_score(rotate, q, k, x, y, shift):
    """Return the change of a score when query and key both move by ``shift``: a number.

    ``rotate(v, x)`` applies an encoding to the vector v at the position x. The query
    ``q`` is at ``x`` and the key ``k`` at ``y``.
    """
    before = rotate(q, x) @ rotate(k, y)
    return rotate(q, x + shift) @ rotate(k, y + shift) - before


def _rotation_by(a):
    """Make a function ``rotate(v, x)`` that multiplies v by exp(Σ_n x_n A_n).

    The generators A_n, one for each axis n, are ``a``, ``[axes, d, d]``; x is a
    position, ``[axes]``.
    """

    def rotate(v, x):
        values, vectors = np.linalg.eigh(1j * np.tensordot(x, a, 1))
        return ((vectors * np.exp(-1j * values)) @ vectors.conj().T).real @ v

    return rotate


def _free(axes, d):
    u = draw(axes, d, d)
    return u - u.swapaxes(-1, -2)


def _shift_case(a):
    q, k = draw(2, a.shape[-1])
    x, y, shift = draw(3, len(a))
    return _rotation_by(a), q, k, x, y, shift


SHIFT = Exercise(
    name="comrope-6",
    title="Shift both tokens",
    kind="experiment",
    minutes=8,
    lines=2,
    statement=r"""
`rotate(v, x)` gives $R(x) v$ for some generators.
The query `q` is at `x` and the key `k` at `y`.
Return by how much, and with which sign, their score changes when *both* tokens are moved by `shift`.
All cases have two axes; in the first case their generators are multiples of one matrix, in the others they do not commute.
In which of them do you expect a change?
""",
    hint=r"""
The score is an inner product of two rotated vectors.
""",
    cases=(
        _shift_case(np.array([2.0, -1.0])[:, None, None] * _free(1, 4)),
        _shift_case(_free(2, 4)),
        _shift_case(_free(2, 3)),
        _shift_case(_free(2, 5)),
    ),
    solution=change_of_score,
    misconceptions=(
        Misconception(
            "Only the query moved",
            "With only the query moved the offset changes, and any score may change "
            "with it. Move both tokens.",
            lambda rotate, q, k, x, y, t: (
                rotate(q, x + t) @ rotate(k, y) - rotate(q, x) @ rotate(k, y)
            ),
        ),
        Misconception(
            "Tokens moved in opposite directions",
            "x + shift and y − shift have another offset. Add the same shift to both.",
            lambda rotate, q, k, x, y, t: (
                rotate(q, x + t) @ rotate(k, y - t) - rotate(q, x) @ rotate(k, y)
            ),
        ),
        Misconception(
            "Coordinates moved to the origin",
            "If you subtract x from both, you assume the law that these generators are "
            "tested for. Use the given shift.",
            lambda rotate, q, k, x, y, t: (
                rotate(q, 0 * x) @ rotate(k, y - x) - rotate(q, x) @ rotate(k, y)
            ),
        ),
        Misconception(
            "Only the key moved",
            "With only the key moved the offset changes, and any score may change with "
            "it. Move both tokens.",
            lambda rotate, q, k, x, y, t: (
                rotate(q, x) @ rotate(k, y + t) - rotate(q, x) @ rotate(k, y)
            ),
        ),
        Misconception(
            "Score after the move",
            "The change of the score is asked for: subtract the score before.",
            lambda rotate, q, k, x, y, t: rotate(q, x + t) @ rotate(k, y + t),
        ),
        Misconception(
            "Score before the move",
            "The change of the score is asked for.",
            lambda rotate, q, k, x, y, t: rotate(q, x) @ rotate(k, y),
        ),
        Misconception(
            "Sign reversed",
            "The change is the score after minus the score before.",
            lambda rotate, q, k, x, y, t: -change_of_score(rotate, q, k, x, y, t),
        ),
        Misconception(
            "Sign lost",
            "The score may fall, so keep the sign.",
            lambda rotate, q, k, x, y, t: abs(change_of_score(rotate, q, k, x, y, t)),
        ),
        Misconception(
            "Law for sums taken for granted",
            "rotate(rotate(q, x), shift) is rotate(q, x + shift) only if the "
            "generators commute. If they do, the change is 0.",
            lambda rotate, q, k, x, y, t: (
                rotate(rotate(q, x), t) @ rotate(rotate(k, y), t)
                - rotate(q, x) @ rotate(k, y)
            ),
        ),
        Misconception(
            "Query and key exchanged",
            "The query is at x, the key at y, before and after.",
            lambda rotate, q, k, x, y, t: (
                rotate(q, y + t) @ rotate(k, x + t) - rotate(q, y) @ rotate(k, x)
            ),
        ),
        Misconception(
            "Tokens moved to the shift",
            "The tokens move *by* the shift, not to it.",
            lambda rotate, q, k, x, y, t: (
                rotate(q, t) @ rotate(k, t) - rotate(q, x) @ rotate(k, y)
            ),
        ),
        Misconception(
            "Relative change",
            "The difference of the scores is asked for.",
            lambda rotate, q, k, x, y, t: (
                change_of_score(rotate, q, k, x, y, t) / (rotate(q, x) @ rotate(k, y))
            ),
        ),
        Misconception(
            "Positions multiplied by the shift",
            "The tokens move *by* the shift: add it.",
            lambda rotate, q, k, x, y, t: (
                rotate(q, x * t) @ rotate(k, y * t) - rotate(q, x) @ rotate(k, y)
            ),
        ),
        Misconception(
            "Score without rotations subtracted",
            "The score before the move has the rotations of x and y.",
            lambda rotate, q, k, x, y, t: rotate(q, x + t) @ rotate(k, y + t) - q @ k,
        ),
        Misconception(
            "Score of the offset subtracted",
            "If you rotate only the key, by y − x, you assume the law that these "
            "generators are tested for. Rotate both.",
            lambda rotate, q, k, x, y, t: (
                rotate(q, x + t) @ rotate(k, y + t) - q @ rotate(k, y - x)
            ),
        ),
        Misconception(
            "Divided by √d",
            "The score here is the inner product itself.",
            lambda rotate, q, k, x, y, t: (
                change_of_score(rotate, q, k, x, y, t) / len(q) ** 0.5
            ),
        ),
        Misconception(
            "Only the first number of the shift",
            "The shift has a number for each axis.",
            lambda rotate, q, k, x, y, t: change_of_score(
                rotate, q, k, x, y, np.full_like(t, t[0])
            ),
        ),
        Misconception(
            "Vectors moved, not positions",
            "The tokens' positions move. Their vectors stay as they are.",
            lambda rotate, q, k, x, y, t: (
                rotate(q + t[0], x) @ rotate(k + t[0], y) - rotate(q, x) @ rotate(k, y)
            ),
        ),
        Misconception(
            "Change of the distance",
            "The score is the inner product, not the distance of the two vectors.",
            lambda rotate, q, k, x, y, t: (
                np.linalg.norm(rotate(q, x + t) - rotate(k, y + t))
                - np.linalg.norm(rotate(q, x) - rotate(k, y))
            ),
        ),
        Misconception(
            "Rounded",
            "Return the number as it is.",
            lambda rotate, q, k, x, y, t: round(
                change_of_score(rotate, q, k, x, y, t), 2
            ),
        ),
    ),
    tolerance=1e-10,
    explanation=r"""
If the generators are multiples of one matrix the score does not change, {prf:ref}`as on one axis <thm-liere-line>`; the result is 0 up to rounding.
If they do not commute it changes, in the second case by −0.41, although the offset between the two tokens is the same.
ComRoPE's generators always {prf:ref}`commute <thm-comrope-commute>`, so its scores never change in this way.
""",
)


# comrope-7: blocks that take turns


def colleagues_axes(blocks, axes):
    """Axis of each block of ComRoPE-AP.

    Every axis has an equal number of blocks.
    """
    return [m * axes // blocks for m in range(blocks)]


def blocks_with_wrong_axes():
    """Return the smallest numbers for which `colleagues_axes` is wrong.

    The answer is (blocks, axes).
    """
    return 4, 2


def _refused_numbers(blocks, axes):
    if type(blocks) is not int or type(axes) is not int or min(blocks, axes) < 1:
        return "blocks and axes are positive integers"
    return "" if blocks % axes == 0 else "axes divides blocks"


TURNS = Exercise(
    name="comrope-7",
    title="Find the input: blocks and axes",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_axes` should do what exercise comrope-1 asks for.
Her tests have 8 blocks and 1 axis, 2 blocks and 2 axes, and 3 blocks and 3 axes; all pass.
For which numbers, with the fewest blocks, is it wrong?
Which encoding's order has she programmed, and would a model trained with it from the start be worse?
""",
    hint=r"""
In which of her tests has an axis more than one block, and are there other axes then?
""",
    cases=((),),
    solution=blocks_with_wrong_axes,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_axes,
        right=axes_of_blocks,
        tested=((8, 1), (2, 2), (3, 3)),
        refusal=_refused_numbers,
        size=lambda blocks, axes: blocks,
        size_of="number of blocks",
    ),
    explanation=r"""
She gives the first blocks to axis 0, the next ones to axis 1, and so on: the concatenated order of {prf:ref}`axial RoPE <def-axial-box>`.
Both orders agree if there is one axis, or one block for each axis; the first numbers with neither are 4 blocks and 2 axes, where she has 0, 0, 1, 1 and right is 0, 1, 0, 1.
A model trained with her order has the same encodings with its blocks in another order, so it would be as good; but trained weights of one order are wrong in the other.
""",
)


SHEET = Sheet(
    title="ComRoPE",
    conventions=r"""
Blocks $m$ and axes $a$ count from 0.
Coordinates are (column, row), and images are read row by row.
""",
    example=r"""
from posedu.numpy.rotary import comrope_ld

p = np.pi / 4 * np.array([[[0.0, -1.0], [1.0, 0.0]]])
m = np.array([[1.0], [2.0]])  # [axes, blocks]
x, at = np.array([[1.0, 0.0]] * 2), [(1, 0), (0, 1)]
y = comrope_ld(x, at, block=2, matrices=p, multipliers=m)
print(np.rint(y).astype(int))
""",
    figure="comrope_explorable",
    exercises=(AXES, PARAMETERS, GENERATORS, COORDINATES, MOVES, SHIFT, TURNS),
)
