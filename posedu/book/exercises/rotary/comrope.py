"""The exercises on ComRoPE."""

import numpy as np
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# comrope-1: whose block is it


def axes_of_blocks(blocks, axes):
    """The axis of each block of ComRoPE-AP, in order: a list of integers."""
    return [m % axes for m in range(blocks)]


AXES = Exercise(
    name="comrope-1",
    title="Whose block is it?",
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
    cases=((4, 2), (6, 3), (6, 2)),
    solution=axes_of_blocks,
    misconceptions=(
        Misconception(
            "The blocks are split into runs",
            "First all blocks of one axis and then all of the next is axial RoPE's "
            "concatenated order. AP's axes take turns.",
            lambda blocks, axes: [m * axes // blocks for m in range(blocks)],
        ),
        Misconception(
            "Blocks counted from 1",
            "m ≡ a (mod N) with blocks and axes counted from 0: block 0 belongs to "
            "axis 0.",
            lambda blocks, axes: [(m + 1) % axes for m in range(blocks)],
        ),
        Misconception(
            "Remainder taken by the number of blocks",
            "Every block would have an axis of its own. There are only N axes.",
            lambda blocks, axes: [m % blocks for m in range(blocks)],
        ),
        Misconception(
            "Axes counted from 1",
            "The first axis is number 0.",
            lambda blocks, axes: [m % axes + 1 for m in range(blocks)],
        ),
        Misconception(
            "The axes take turns backwards",
            "The first block belongs to axis 0, the next one to axis 1.",
            lambda blocks, axes: [axes - 1 - m % axes for m in range(blocks)],
        ),
        Misconception(
            "Quotient taken, not the remainder",
            "m divided by N says how often all axes have had their turn. Whose turn "
            "is it?",
            lambda blocks, axes: [m // axes for m in range(blocks)],
        ),
        Misconception(
            "All blocks belong to the first axis",
            "The axes take turns.",
            lambda blocks, axes: [0] * blocks,
        ),
    ),
)


# comrope-2: parameters


def parameters(width, block, axes, heads):
    """Three numbers trained in a layer: AP, LD per head, LD with shared multipliers."""
    matrices = width * block
    multipliers = axes * width // block
    return matrices, matrices + multipliers, matrices + multipliers // heads


def _trained(
    matrices=lambda c, b, n, h: c * b,
    own=lambda c, b, n, h: n * c // b,
    shared=lambda c, b, n, h: n * c // b // h,
):
    """Three numbers from counts of matrices and of multipliers."""

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
    title="What is trained",
    kind="by hand",
    minutes=6,
    lines=3,
    statement=r"""
A layer has width $C$, all $h$ heads together, blocks of $b$ and $N$ axes; every head has its own matrices $P_m$, trained in full.
Return three numbers: what ComRoPE-AP trains; what LD trains with multipliers of each head; what LD trains with multipliers shared by all heads.
""",
    hint=r"""
How many blocks has a head, and how many all heads together? A matrix has $b^2$ numbers, a multiplier is one number for each axis and block.
""",
    cases=((64, 8, 2, 4), (48, 4, 3, 3), (768, 8, 2, 12)),
    solution=parameters,
    misconceptions=(
        Misconception(
            "Sharing changes nothing",
            "Shared multipliers exist once for all heads, not once for each.",
            lambda width, block, axes, heads: (
                parameters(width, block, axes, heads)[0],
                *[parameters(width, block, axes, heads)[1]] * 2,
            ),
        ),
        Misconception(
            "Only the free numbers counted",
            "b(b − 1)/2 numbers of a block matter, and yet all b² of P are trained.",
            lambda width, block, axes, heads: tuple(
                n - width * block + width * (block - 1) // 2
                for n in parameters(width, block, axes, heads)
            ),
        ),
        Misconception(
            "One multiplier a block",
            "A multiplier belongs to a block *and* an axis: otherwise all axes would "
            "turn alike.",
            lambda width, block, axes, heads: parameters(width, block, 1, heads),
        ),
        Misconception(
            "Matrices of one head counted",
            "Every head has its own.",
            _trained(lambda c, b, n, h: c * b // h),
        ),
        Misconception(
            "Matrices counted for each head once more",
            "The width is that of all heads together: C/b blocks in the layer.",
            _trained(lambda c, b, n, h: c * b * h),
        ),
        Misconception(
            "Matrices counted for each axis",
            "AP gives each block to one axis, LD multiplies one matrix: one P for "
            "each block.",
            _trained(lambda c, b, n, h: c * b * n),
        ),
        Misconception(
            "One matrix counted",
            "There are C/b blocks in the layer, each with a matrix of its own.",
            _trained(lambda c, b, n, h: b * b),
        ),
        Misconception(
            "Matrix counted for its size",
            "b × b numbers.",
            _trained(lambda c, b, n, h: c),
        ),
        Misconception(
            "Dense matrix counted",
            "The blocks are b × b: all the rest is zero and not trained.",
            _trained(lambda c, b, n, h: c * c),
        ),
        Misconception(
            "Multipliers forgotten",
            "LD trains one number for each axis and block beside the matrices.",
            _trained(own=lambda c, b, n, h: 0, shared=lambda c, b, n, h: 0),
        ),
        Misconception(
            "One multiplier for each axis",
            "A multiplier belongs to an axis *and* a block.",
            _trained(own=lambda c, b, n, h: n, shared=lambda c, b, n, h: n),
        ),
        Misconception(
            "One multiplier for each axis and head",
            "A multiplier belongs to an axis *and* a block, and a head has several "
            "blocks.",
            _trained(own=lambda c, b, n, h: n * h, shared=lambda c, b, n, h: n),
        ),
        Misconception(
            "One multiplier for each axis and feature",
            "A block has one number, not b.",
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
            "Every head has its own matrices in all three. Only multipliers are "
            "shared.",
            lambda width, block, axes, heads: (
                *parameters(width, block, axes, heads)[:2],
                (width * block + axes * width // block) // heads,
            ),
        ),
        Misconception(
            "Two kinds of LD exchanged",
            "First multipliers of each head, then shared ones.",
            lambda width, block, axes, heads: tuple(
                parameters(width, block, axes, heads)[n] for n in (0, 2, 1)
            ),
        ),
        Misconception(
            "Multipliers alone",
            "LD trains the matrices as well.",
            lambda width, block, axes, heads: (
                width * block,
                axes * width // block,
                axes * width // block // heads,
            ),
        ),
    ),
)


# comrope-3: LD's generators


def ld_generators(matrices, multipliers):
    """Generators ``[axes, blocks, b, b]`` of ComRoPE-LD."""
    skew = matrices - matrices.swapaxes(-1, -2)
    return multipliers[:, :, None, None] * skew


def _ld_case(axes, blocks, b):
    return draw(blocks, b, b), draw(axes, blocks)


def _generators(skew):
    """Generators of other matrices than P − Pᵀ."""
    return lambda p, t: t[:, :, None, None] * skew(p)


GENERATORS = Exercise(
    name="comrope-3",
    title="Generators that commute",
    kind="NumPy",
    minutes=6,
    lines=2,
    statement=r"""
`matrices` is `[blocks, b, b]`, `multipliers` is `[axes, blocks]`.
Return ComRoPE-LD's generators, `[axes, blocks, b, b]`; of a matrix $P$ it takes $P - P^\top$, without a half.
""",
    hint=r"""
Make the matrices skew first; then give the multipliers two more axes.
""",
    cases=(_ld_case(2, 2, 2), _ld_case(3, 3, 2), _ld_case(2, 2, 4)),
    solution=ld_generators,
    misconceptions=(
        Misconception(
            "The generators are not skew",
            "P + Pᵀ is symmetric, and its exponential stretches.",
            lambda p, t: t[:, :, None, None] * (p + p.swapaxes(-1, -2)),
        ),
        Misconception(
            "P itself taken",
            "P is any matrix. What makes a skew one of it?",
            lambda p, t: t[:, :, None, None] * p,
        ),
        Misconception(
            "Multipliers' axes exchanged",
            "multipliers[a, m] belongs to axis a and block m. This reads it the other "
            "way round, which fits only where there are as many axes as blocks.",
            lambda p, t: (
                ld_generators(p, t.T)
                if t.shape[0] == t.shape[1]
                else ld_generators(p, t)
            ),
        ),
        Misconception(
            "All axes turn alike",
            "The multiplier of axis 0 is used for every axis: then x and y cannot be "
            "told apart.",
            lambda p, t: ld_generators(p, np.broadcast_to(t[:1], t.shape)),
        ),
        Misconception(
            "The upper triangle alone",
            "Its exponential is no rotation: something has to stand below the "
            "diagonal.",
            _generators(lambda p: np.triu(p, 1)),
        ),
        Misconception(
            "Lower triangle ignored",
            "P is a full matrix, and P − Pᵀ has all of it.",
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
            "Then all axes turn alike. Each axis has its own multiple of the same "
            "matrix.",
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
            "All blocks have the first one's multipliers",
            "multipliers[a, m] belongs to axis a and block m.",
            lambda p, t: ld_generators(p, np.broadcast_to(t[:, :1], t.shape)),
        ),
        Misconception(
            "All blocks have the first one's matrix",
            "matrices[m] belongs to block m.",
            lambda p, t: ld_generators(np.broadcast_to(p[:1], p.shape), t),
        ),
        Misconception(
            "Multipliers squared",
            "They are used as they are.",
            lambda p, t: ld_generators(p, t**2),
        ),
        Misconception(
            "Lower triangle alone used",
            "P is a full matrix, and P − Pᵀ has all of it.",
            _generators(lambda p: np.tril(p, -1) - np.tril(p, -1).swapaxes(-1, -2)),
        ),
        Misconception(
            "Matrices divided by √b",
            "ComRoPE takes P − Pᵀ as it is.",
            _generators(lambda p: (p - p.swapaxes(-1, -2)) / p.shape[-1] ** 0.5),
        ),
        Misconception(
            "Each block keeps to one axis",
            "That is AP. In LD every axis turns every block, each by its multiplier.",
            lambda p, t: ld_generators(
                p, t * (np.arange(len(p)) % len(t) == np.arange(len(t))[:, None])
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
)


# comrope-4: coordinates with a class token


def coordinates(width, height):
    """The class token's position, then the patches' row by row, ``[1 + WH, 2]``."""
    x, y = np.meshgrid(
        (np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height
    )
    patches = np.stack([x.ravel(), y.ravel()], axis=-1)
    return np.concatenate(([[0.5, 0.5]], patches))


def _placed(x, y, token=(0.5, 0.5)):
    """Patches whose coordinates are functions of index and count."""

    def answer(width, height):
        columns = x(np.arange(width), width, height)
        rows = y(np.arange(height), height, width)
        grid = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
        return np.concatenate((np.array([token], dtype=float), grid))

    return answer


COORDINATES = Exercise(
    name="comrope-4",
    title="Where tokens stand",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
Return the positions of a class token and of the patches of an image of `width` × `height`, as ComRoPE has them, each coordinate from 0 to 1 across the image: `[1 + width · height, 2]`, the class token first.
""",
    hint=r"""
(index + ½)/count for the patches, row by row; ½ on every axis for the class token.
""",
    cases=((2, 1), (3, 2), (4, 7)),
    solution=coordinates,
    misconceptions=(
        Misconception(
            "The class token stands at the origin",
            "At the origin nothing turns. ComRoPE puts the class token in the middle "
            "of the image.",
            lambda w, h: np.concatenate((np.zeros((1, 2)), coordinates(w, h)[1:])),
        ),
        Misconception(
            "Column and row exchanged",
            "The first coordinate counts columns and varies fastest. On a square "
            "image you would not have noticed.",
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
            "Corners taken",
            "index/count is the left upper corner of a patch; the center is half a "
            "patch further.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[:1], coordinates(w, h)[1:] - [0.5 / w, 0.5 / h])
            ),
        ),
        Misconception(
            "The class token comes last",
            "The class token is the first row here.",
            lambda w, h: np.roll(coordinates(w, h), -1, axis=0),
        ),
        Misconception(
            "Ends of the row taken",
            "Centers, half a patch from the edge: the first is not at 0, nor the "
            "last at 1.",
            lambda w, h: _placed(
                lambda n, count, _: np.linspace(0, 1, count),
                lambda n, count, _: np.linspace(0, 1, count),
            )(w, h),
        ),
        Misconception(
            "Far corners taken",
            "(index + 1)/count is the right lower corner of a patch; the center is "
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
            "The image reaches from −1 to 1",
            "ComRoPE measures in fractions of the image, from its upper left corner.",
            _placed(
                lambda n, count, _: 2 * (n + 0.5) / count - 1,
                lambda n, count, _: 2 * (n + 0.5) / count - 1,
                token=(0, 0),
            ),
        ),
        Misconception(
            "The origin is in the middle",
            "ComRoPE measures from the upper left corner.",
            _placed(
                lambda n, count, _: (n + 0.5) / count - 0.5,
                lambda n, count, _: (n + 0.5) / count - 0.5,
                token=(0, 0),
            ),
        ),
        Misconception(
            "The patches run column by column",
            "Row by row: the column varies fastest.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[:1], coordinates(h, w)[1:, ::-1])
            ),
        ),
        Misconception(
            "Width and height exchanged",
            "A row has width patches.",
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
            "Class token is in the middle of an image that counted in patches",
            "½ on every axis: fractions of the image.",
            lambda w, h: np.concatenate(([[w / 2, h / 2]], coordinates(w, h)[1:])),
        ),
        Misconception(
            "Patches counted from 1",
            "(index + ½)/count, with the index from 0.",
            _placed(
                lambda n, count, _: (n + 1.5) / count,
                lambda n, count, _: (n + 1.5) / count,
            ),
        ),
        Misconception(
            "Everything counted in patches",
            "ComRoPE measures in fractions of the image, from corner to corner.",
            lambda w, h: np.concatenate(
                ([[(w - 1) / 2, (h - 1) / 2]], coordinates(w, h)[1:] * [w, h] - 0.5)
            ),
        ),
        Misconception(
            "Rows divided by the width",
            "Each axis is divided by its own count: columns by the width, "
            "rows by the height.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[:1], coordinates(w, h)[1:] * [1, h / w])
            ),
        ),
        Misconception(
            "Both axes divided by the longer side",
            "Then an image keeps its shape. ComRoPE's is 1 wide and 1 high, whatever "
            "its patches.",
            _placed(
                lambda n, count, other: (n + 0.5) / max(count, other),
                lambda n, count, other: (n + 0.5) / max(count, other),
            ),
        ),
    ),
)


# comrope-5: the code's perturbation


def moves(draws, sigma):
    """Moves in patches, as the authors' code makes them of normal draws: a tensor."""
    return (draws * sigma / 2).clamp(-0.5, 0.5)


MOVES = Exercise(
    name="comrope-5",
    title="The code's perturbation",
    kind="PyTorch",
    minutes=5,
    lines=1,
    statement=r"""
`draws` are standard normal numbers.
Return by how many patches the authors' code moves the coordinates for the perturbation $\sigma$: it draws with deviation $\sigma/2$, then clamps, so that nothing leaves its patch.
""",
    hint=r"""
From its center, how far is the edge of a patch?
""",
    cases=(
        (torch.tensor([0.5, -0.25, 1.5, -3.0]).double(), 1.0),
        (torch.tensor(draw(20)), 0.5),
    ),
    solution=moves,
    misconceptions=(
        Misconception(
            "Paper's deviation",
            "The text says σ patches; the code draws with half of that.",
            lambda draws, sigma: (draws * sigma).clamp(-0.5, 0.5),
        ),
        Misconception(
            "A move may leave the patch",
            "From the center the edge is half a patch away, not a whole one.",
            lambda draws, sigma: (draws * sigma / 2).clamp(-1.0, 1.0),
        ),
        Misconception(
            "What is too far put back in the middle",
            "The code clamps: too far becomes the edge.",
            lambda draws, sigma: torch.where(
                (draws * sigma / 2).abs() > 0.5, 0.0, draws * sigma / 2
            ),
        ),
        Misconception(
            "A move may be of any size",
            "It is clamped, so that a coordinate stays in its patch.",
            lambda draws, sigma: draws * sigma / 2,
        ),
        Misconception(
            "Deviation doubled",
            "The code takes half of what the paper states.",
            lambda draws, sigma: (2 * draws * sigma).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Draws clamped, not the moves",
            "A draw may be large if the move is not.",
            lambda draws, sigma: draws.clamp(-0.5, 0.5) * sigma / 2,
        ),
        Misconception(
            "Paper's move clamped, and then halved",
            "Half the deviation first, and then the clamp.",
            lambda draws, sigma: (draws * sigma).clamp(-0.5, 0.5) / 2,
        ),
        Misconception(
            "σ taken for a variance",
            "It is the deviation.",
            lambda draws, sigma: (draws * sigma**0.5 / 2).clamp(-0.5, 0.5),
        ),
        Misconception(
            "σ squared",
            "It is the deviation, by which draws are multiplied.",
            lambda draws, sigma: (draws * sigma**2 / 2).clamp(-0.5, 0.5),
        ),
        Misconception(
            "The clamp depends on σ",
            "The patch has the same size whatever σ is.",
            lambda draws, sigma: (draws * sigma / 2).clamp(-sigma / 2, sigma / 2),
        ),
        Misconception(
            "Only moves to the right made",
            "The clamp has two sides.",
            lambda draws, sigma: (draws * sigma / 2).clamp(0, 0.5),
        ),
        Misconception(
            "The clamp has one side",
            "Moves to the left leave the patch as well.",
            lambda draws, sigma: (draws * sigma / 2).clamp(max=0.5),
        ),
        Misconception(
            "Half of σ left out",
            "The draws are standard normal: multiply.",
            lambda draws, sigma: (draws / 2).clamp(-0.5, 0.5),
        ),
        Misconception(
            "Variance halved",
            "Half the *deviation*.",
            lambda draws, sigma: (draws * sigma / 2**0.5).clamp(-0.5, 0.5),
        ),
        Misconception(
            "What is too far comes in again on the other side",
            "The code clamps: too far becomes the edge.",
            lambda draws, sigma: (draws * sigma / 2 + 0.5) % 1 - 0.5,
        ),
        Misconception(
            "Half of σ added to the draws",
            "Draws of a deviation are draws *times* it.",
            lambda draws, sigma: (draws + sigma / 2).clamp(-0.5, 0.5),
        ),
        Misconception(
            "A quarter of the deviation",
            "Half of what the paper states, once.",
            lambda draws, sigma: (draws * sigma / 4).clamp(-0.5, 0.5),
        ),
        Misconception(
            "The clamp is smooth",
            "The code clamps: what is not too far stays as it is.",
            lambda draws, sigma: (draws * sigma / 2).tanh() / 2,
        ),
        Misconception(
            "σ/2 taken for a variance",
            "It is the deviation, by which draws are multiplied.",
            lambda draws, sigma: (draws * (sigma / 2) ** 0.5).clamp(-0.5, 0.5),
        ),
    ),
)


# comrope-6: shift everything


def change_of_score(turn, q, k, x, y, shift):
    """By how much the score changes when both tokens move by ``shift``: a number."""
    before = turn(q, x) @ turn(k, y)
    return turn(q, x + shift) @ turn(k, y + shift) - before


def _turning(a):
    """``turn(v, x)`` for generators ``[axes, d, d]``."""

    def turn(v, x):
        values, vectors = np.linalg.eigh(1j * np.tensordot(x, a, 1))
        return ((vectors * np.exp(-1j * values)) @ vectors.conj().T).real @ v

    return turn


def _free(axes, d):
    u = draw(axes, d, d)
    return u - u.swapaxes(-1, -2)


def _shift_case(a):
    q, k = draw(2, a.shape[-1])
    x, y, shift = draw(3, len(a))
    return _turning(a), q, k, x, y, shift


SHIFT = Exercise(
    name="comrope-6",
    title="Shift everything",
    kind="experiment",
    minutes=8,
    lines=2,
    statement=r"""
`turn(v, x)` gives $R(x) v$ for some generators.
Return by how much, and with which sign, the score of the query `q` at `x` and the key `k` at `y` changes when *both* tokens are moved by `shift`.
The first case has one axis, the others have two that do not commute: predict before you run.
""",
    hint=r"""
The score is an inner product of two turned vectors.
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
            "Only the query moves",
            "Then the offset changes, and so may any score. Both tokens must move.",
            lambda turn, q, k, x, y, t: (
                turn(q, x + t) @ turn(k, y) - turn(q, x) @ turn(k, y)
            ),
        ),
        Misconception(
            "They move in opposite directions",
            "x + shift and y − shift have another offset. A common shift is the same "
            "for both.",
            lambda turn, q, k, x, y, t: (
                turn(q, x + t) @ turn(k, y - t) - turn(q, x) @ turn(k, y)
            ),
        ),
        Misconception(
            "It moves the coordinates to the origin",
            "Subtracting x from both assumes what is to be tested for these "
            "generators; use the shift that is given.",
            lambda turn, q, k, x, y, t: (
                turn(q, 0 * x) @ turn(k, y - x) - turn(q, x) @ turn(k, y)
            ),
        ),
        Misconception(
            "Only the key moves",
            "Then the offset changes, and so may any score. Both tokens must move.",
            lambda turn, q, k, x, y, t: (
                turn(q, x) @ turn(k, y + t) - turn(q, x) @ turn(k, y)
            ),
        ),
        Misconception(
            "Score before subtracted from nothing",
            "This is the score after the move. Its change is asked for.",
            lambda turn, q, k, x, y, t: turn(q, x + t) @ turn(k, y + t),
        ),
        Misconception(
            "Score before",
            "By how much does it change?",
            lambda turn, q, k, x, y, t: turn(q, x) @ turn(k, y),
        ),
        Misconception(
            "Sign reversed",
            "The change is the score after minus the score before.",
            lambda turn, q, k, x, y, t: -change_of_score(turn, q, k, x, y, t),
        ),
        Misconception(
            "Sign lost",
            "A score may fall.",
            lambda turn, q, k, x, y, t: abs(change_of_score(turn, q, k, x, y, t)),
        ),
        Misconception(
            "Law taken for granted",
            "turn(turn(q, x), shift) is turn(q, x + shift) only if the generators "
            "commute; if they do, the change is 0.",
            lambda turn, q, k, x, y, t: (
                turn(turn(q, x), t) @ turn(turn(k, y), t) - turn(q, x) @ turn(k, y)
            ),
        ),
        Misconception(
            "Query and key change places",
            "The query is at x, the key at y, before and after.",
            lambda turn, q, k, x, y, t: (
                turn(q, y + t) @ turn(k, x + t) - turn(q, y) @ turn(k, x)
            ),
        ),
        Misconception(
            "The tokens move to the shift",
            "They move *by* it.",
            lambda turn, q, k, x, y, t: (
                turn(q, t) @ turn(k, t) - turn(q, x) @ turn(k, y)
            ),
        ),
        Misconception(
            "The change is relative",
            "The difference of the scores is asked for.",
            lambda turn, q, k, x, y, t: (
                change_of_score(turn, q, k, x, y, t) / (turn(q, x) @ turn(k, y))
            ),
        ),
        Misconception(
            "Positions multiplied by the shift",
            "They move *by* it: a sum.",
            lambda turn, q, k, x, y, t: (
                turn(q, x * t) @ turn(k, y * t) - turn(q, x) @ turn(k, y)
            ),
        ),
    ),
    tolerance=1e-10,
)

SHEET = Sheet(
    title="ComRoPE",
    conventions=r"""
Blocks $m$ and axes $a$ count from 0; coordinates are (column, row), images are read row by row.
""",
    exercises=(AXES, PARAMETERS, GENERATORS, COORDINATES, MOVES, SHIFT),
)
