"""The exercises on ComRoPE."""

import numpy as np
import torch

from posedu.check.core import Exercise, Misconception, Property, Sheet, draw

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
In ComRoPE-AP block $m$ belongs to one of $N$ axes.
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
            "The blocks are counted from 1",
            "m ≡ a (mod N) with blocks and axes counted from 0: block 0 belongs to "
            "axis 0.",
            lambda blocks, axes: [(m + 1) % axes for m in range(blocks)],
        ),
        Misconception(
            "The remainder is taken by the number of blocks",
            "Every block would have an axis of its own. There are only N axes.",
            lambda blocks, axes: [m % blocks for m in range(blocks)],
        ),
    ),
)


# comrope-2: parameters


def parameters(width, block, axes, heads):
    """Three numbers trained in a layer: AP, LD per head, LD with shared multipliers."""
    matrices = width * block
    multipliers = axes * width // block
    return matrices, matrices + multipliers, matrices + multipliers // heads


PARAMETERS = Exercise(
    name="comrope-2",
    title="What is trained",
    kind="by hand",
    minutes=6,
    lines=3,
    statement=r"""
A layer has width $C$, $h$ heads, blocks of $b$ and $N$ axes; every head has its own matrices $P_m$, trained in full.
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
            "Only the free numbers are counted",
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
    ),
)


# comrope-3: LD's generators


def ld_generators(matrices, multipliers):
    """Generators ``[axes, blocks, b, b]`` of ComRoPE-LD."""
    skew = matrices - matrices.swapaxes(-1, -2)
    return multipliers[:, :, None, None] * skew


def _ld_case(axes, blocks, b):
    return draw(blocks, b, b), draw(axes, blocks)


GENERATORS = Exercise(
    name="comrope-3",
    title="Generators that commute",
    kind="NumPy",
    minutes=6,
    lines=2,
    statement=r"""
`matrices` is `[blocks, b, b]`, `multipliers` is `[axes, blocks]`.
Return ComRoPE-LD's generators, `[axes, blocks, b, b]`.
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
            "P itself is taken",
            "P is any matrix. What makes a skew one of it?",
            lambda p, t: t[:, :, None, None] * p,
        ),
        Misconception(
            "The multipliers' axes are exchanged",
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


COORDINATES = Exercise(
    name="comrope-4",
    title="Where tokens stand",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
Return the positions of a class token and of the patches of an image of `width` × `height`, as ComRoPE has them: `[1 + width · height, 2]`, the class token first.
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
            "Column and row are exchanged",
            "The first coordinate counts columns and varies fastest. On a square "
            "image you would not have noticed.",
            lambda w, h: coordinates(w, h)[:, ::-1],
        ),
        Misconception(
            "Patches are counted, not measured",
            "ComRoPE's coordinates are the centres of the patches, in fractions of "
            "the image.",
            lambda w, h: np.concatenate(
                (coordinates(w, h)[:1], coordinates(w, h)[1:] * [w, h] - 0.5)
            ),
        ),
        Misconception(
            "The corners are taken",
            "index/count is the left upper corner of a patch; the centre is half a "
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
Return by how many patches the authors' code moves the coordinates for the perturbation $\sigma$: it draws with deviation $\sigma/2$, then clamps to the patch.
""",
    hint=r"""
From its centre, how far is the edge of a patch?
""",
    cases=(
        (torch.tensor([0.5, -0.25, 1.5, -3.0]).double(), 1.0),
        (torch.tensor(draw(20)), 0.5),
    ),
    solution=moves,
    misconceptions=(
        Misconception(
            "This is the paper's deviation",
            "The text says σ patches; the code draws with half of that.",
            lambda draws, sigma: (draws * sigma).clamp(-0.5, 0.5),
        ),
        Misconception(
            "A move may leave the patch",
            "From the centre the edge is half a patch away, not a whole one.",
            lambda draws, sigma: (draws * sigma / 2).clamp(-1.0, 1.0),
        ),
        Misconception(
            "What is too far is put back in the middle",
            "The code clamps: too far becomes the edge.",
            lambda draws, sigma: torch.where(
                (draws * sigma / 2).abs() > 0.5, 0.0, draws * sigma / 2
            ),
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
Return by how much the score of the query `q` at `x` and the key `k` at `y` changes when *both* tokens are moved by `shift`.
The first case has one axis, the others have two that do not commute: predict before you run.
""",
    hint=r"""
The score is an inner product of two turned vectors.
""",
    cases=(
        _shift_case(np.array([2.0, -1.0])[:, None, None] * _free(1, 4)),
        _shift_case(_free(2, 4)),
        _shift_case(_free(2, 3)),
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
