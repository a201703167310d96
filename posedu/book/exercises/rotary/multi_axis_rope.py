"""The exercises on several coordinates in language models, and on STRING."""

import numpy as np
import torch

from posedu.book.exercises.records import Exercise, Misconception, Property, Sheet, draw

# multi-axis-rope-1: whose pair is it


def interleaved(sections):
    """The axis of each pair in interleaved order: a list of integers."""
    count = len(sections)
    return [
        p % count if p // count < sections[p % count] else 0
        for p in range(sum(sections))
    ]


def _turns(sections, axes, last):
    """Axes that take turns while they have pairs, and the rest."""
    pairs, own = [], list(sections)
    while any(own[a] for a in axes):
        for a in axes:
            if own[a]:
                pairs.append(a)
                own[a] -= 1
    return pairs + [last] * (sum(sections) - len(pairs))


STRIDED = Exercise(
    name="multi-axis-rope-1",
    title="Whose pair is it?",
    kind="by hand",
    minutes=6,
    lines=5,
    statement=r"""
`sections` says how many pairs look at each axis.
Return the axis of each pair in *interleaved* order, as a list: of $N$ axes, axis $a \ge 1$ has the pairs $a, a + N, a + 2N, \dots$, as many as its section says, and axis 0 has all others.
""",
    hint=r"""
Which axis would pair $p$ have if all sections were long enough, and how many pairs of that axis come before it?
""",
    cases=(
        ((2, 1, 1),),
        ((4, 2, 2),),
        ((24, 20, 20),),
        ((11, 11, 10),),
        ((9, 2, 2),),
        ((9, 1, 3),),
        ((5, 2, 1, 1),),
    ),
    solution=interleaved,
    misconceptions=(
        Misconception(
            "Sectioned for interleaved",
            "So Qwen2-VL has it: first all pairs of one axis, then all of the next. In "
            "interleaved order the axes are N pairs apart.",
            lambda sections: np.repeat(range(len(sections)), sections).tolist(),
        ),
        Misconception(
            "Every N-th pair to the end",
            "A section says when an axis has had its pairs; those beyond are axis 0's.",
            lambda sections: [p % len(sections) for p in range(sum(sections))],
        ),
        Misconception(
            "The axes begin with 1",
            "Pair 0 belongs to axis 0, pair 1 to axis 1.",
            lambda sections: [*interleaved(sections)[1:], 0],
        ),
        Misconception(
            "Axis's places taken over by the next",
            "When an axis has had its pairs, its later places are axis 0's, not the "
            "next one's.",
            lambda sections: _turns(sections, range(len(sections)), 0),
        ),
        Misconception(
            "The rest belongs to the last axis",
            "What is left is axis 0's: time.",
            lambda sections: [
                a if a or p // len(sections) < min(sections) else len(sections) - 1
                for p, a in enumerate(interleaved(sections))
            ],
        ),
        Misconception(
            "Three axes, always",
            "The step is the number of axes.",
            lambda sections: [
                p % 3 if p % 3 < len(sections) and p // 3 < sections[p % 3] else 0
                for p in range(sum(sections))
            ],
        ),
        Misconception(
            "The others take turns, and axis 0 is last",
            "That is ERNIE's order. Here axis 0 takes its turn, too.",
            lambda sections: _turns(sections, range(1, len(sections)), 0),
        ),
        Misconception(
            "The section is the index of the last pair",
            "A section counts pairs: axis a ends before pair a + N·section.",
            lambda sections: [
                p % len(sections) if p < sections[p % len(sections)] else 0
                for p in range(sum(sections))
            ],
        ),
        Misconception(
            "One pair too many",
            "Pairs of an axis are counted from 0: the first is number 0 of its section.",
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
            lambda sections: [a + 1 for a in interleaved(sections)],
        ),
    ),
)


# multi-axis-rope-2: where the next token stands


def following(parts):
    """The position of the token that comes next: an integer."""
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


FOLLOWING = Exercise(
    name="multi-axis-rope-2",
    title="Where the next token stands",
    kind="by hand",
    minutes=5,
    lines=6,
    statement=r"""
A sequence is a list of parts: a number of words, or `(frames, rows, columns)` of tokens, with a pace of 1.
Each part begins 1 beyond the largest coordinate so far, the first at 0.
Return the position of the token that is generated next.
""",
    hint=r"""
What is the largest coordinate of a grid that begins at $s$?
""",
    cases=(
        ([2],),
        ([2, (1, 2, 3)],),
        ([3, (1, 5, 2), 4],),
        ([1, (1, 2, 2), 1, (1, 3, 3), 2],),
        ([2, (9, 2, 3), 1],),
        ([(1, 1, 1), (4, 4, 4)],),
    ),
    solution=following,
    misconceptions=(
        Misconception(
            "Tokens counted",
            "A grid uses up fewer positions than it has tokens.",
            _sum_of(lambda t, h, w: t * h * w),
        ),
        Misconception(
            "Time forgotten",
            "A video with more frames than rows and columns reaches farther in time. "
            "So transformers 5.23.0 counts for Qwen2-VL, for the text behind a video.",
            _sum_of(lambda t, h, w: max(h, w)),
        ),
        Misconception(
            "The columns decide",
            "A tall picture reaches farther down.",
            _sum_of(lambda t, h, w: w),
        ),
        Misconception(
            "The rows decide",
            "A wide picture reaches farther to the right.",
            _sum_of(lambda t, h, w: h),
        ),
        Misconception(
            "The last position, not the next",
            "1 beyond the largest coordinate.",
            lambda parts: following(parts) - 1,
        ),
        Misconception(
            "Sides added",
            "Rows and columns are counted from the same start, side by side.",
            _sum_of(lambda t, h, w: t + h + w),
        ),
        Misconception(
            "Picture one position",
            "Its rows and columns stand at positions of their own.",
            _sum_of(lambda t, h, w: 1),
        ),
        Misconception(
            "Pictures use up nothing",
            "Text behind a picture begins beyond its largest coordinate.",
            _sum_of(lambda t, h, w: 0),
        ),
        Misconception(
            "Largest index added",
            "A grid of n columns has the coordinates s to s + n − 1, and the next part "
            "begins at s + n.",
            _sum_of(lambda t, h, w: max(t, h, w) - 1),
        ),
        Misconception(
            "Only the last part counts",
            "All parts before it have used up positions, too.",
            lambda parts: following(parts[-1:]),
        ),
        Misconception(
            "Frames add up",
            "All frames of a video begin at the same row and column.",
            _sum_of(lambda t, h, w: t * max(h, w)),
        ),
        Misconception(
            "Every part begins at 0",
            "A part begins behind those before it: starts add up.",
            lambda parts: max(p if isinstance(p, int) else max(p) for p in parts),
        ),
    ),
)


# multi-axis-rope-3: positions of a picture


def picture(start, rows, columns):
    """Positions ``[rows · columns, 3]`` of a picture: time, row, column."""
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    time = np.zeros(rows * columns, dtype=int)
    return start + np.stack([time, y.ravel(), x.ravel()], axis=-1)


PICTURE = Exercise(
    name="multi-axis-rope-3",
    title="A picture in a text",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
A picture of `rows` × `columns` tokens begins at position `start`.
Return the positions of its tokens, row by row, as integers `[rows · columns, 3]`: time, row, column.
""",
    hint=r"""
All its tokens have one time. Which of the other two changes faster?
""",
    cases=((0, 1, 2), (3, 2, 3), (5, 4, 2), (1, 1, 1)),
    solution=picture,
    misconceptions=(
        Misconception(
            "Column by column",
            "Tokens go row by row: the column changes faster.",
            lambda s, h, w: (
                picture(s, h, w).reshape(h, w, 3).swapaxes(0, 1).reshape(-1, 3)
            ),
        ),
        Misconception(
            "Columns before rows",
            "Time, row, column.",
            lambda s, h, w: picture(s, h, w)[:, [0, 2, 1]],
        ),
        Misconception(
            "Start forgotten",
            "Then every picture stands at the beginning of the text.",
            lambda s, h, w: picture(0, h, w),
        ),
        Misconception(
            "The start moves time alone",
            "All three coordinates begin at the start: else words before the picture "
            "would lie among its rows.",
            lambda s, h, w: picture(0, h, w) + np.array([s, 0, 0]),
        ),
        Misconception(
            "The start moves rows and columns alone",
            "Time begins at the start, too.",
            lambda s, h, w: picture(s, h, w) - np.array([s, 0, 0]),
        ),
        Misconception(
            "Time goes on from token to token",
            "A picture is one moment.",
            lambda s, h, w: picture(s, h, w) + np.outer(np.arange(h * w), [1, 0, 0]),
        ),
        Misconception(
            "Time goes on from row to row",
            "A picture is one moment.",
            lambda s, h, w: (
                picture(s, h, w) + np.outer(np.arange(h * w) // w, [1, 0, 0])
            ),
        ),
        Misconception(
            "Counted from 1",
            "The first token stands at the start itself.",
            lambda s, h, w: picture(s + 1, h, w),
        ),
        Misconception(
            "Rows and columns exchanged",
            "`rows` is how many rows there are.",
            lambda s, h, w: picture(s, w, h),
        ),
        Misconception(
            "The line's numbers",
            "A row and a column, not the place along the line of tokens.",
            lambda s, h, w: np.repeat(s + np.arange(h * w)[:, None], 3, axis=1),
        ),
    ),
)


# multi-axis-rope-4: the angles


def angles(positions, axes, base):
    """The angle of each pair of each token: ``[tokens, pairs]``."""
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
    """Every axis begins with frequency 1."""
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
Take for each pair the coordinate of its axis: an array indexes columns.
""",
    cases=_SHARED,
    solution=angles,
    misconceptions=(
        Misconception(
            "Every axis has frequencies of its own",
            "That is axial RoPE: text would not be turned as by RoPE. The pairs keep "
            "RoPE's frequencies, whatever axis they look at.",
            _anew,
        ),
        Misconception(
            "All pairs look at time",
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
            "There are P pairs of 2P features: −2p/(2P) = −p/P.",
            lambda x, axes, base: angles(x, axes, base**2),
        ),
        Misconception(
            "Exponent halved",
            "−p/P for P pairs; it is −2p/d with d = 2P features.",
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
            "Frequencies go by axes",
            "The frequency is that of the pair, not of its axis.",
            lambda x, axes, base: x[:, axes] * base ** (-axes / len(axes)),
        ),
        Misconception(
            "Pairs counted from 1",
            "The first pair has frequency 1.",
            lambda x, axes, base: angles(x, axes, base) * base ** (-1 / len(axes)),
        ),
        Misconception(
            "The last pair reaches 1/base",
            "p/P, not p/(P − 1).",
            lambda x, axes, base: (
                x[:, axes] * base ** (-np.arange(len(axes)) / max(len(axes) - 1, 1))
            ),
        ),
        Misconception(
            "Angles in turns",
            "Frequencies are in radians.",
            lambda x, axes, base: angles(x, axes, base) / (2 * np.pi),
        ),
    ),
    properties=(
        Property(
            "Text is turned as by RoPE, whatever the axes are",
            lambda answer, x, axes, base: np.allclose(
                answer(np.full_like(x, 3.0), axes, base),
                answer(np.full_like(x, 3.0), axes[::-1].copy(), base),
            ),
        ),
    ),
)


# multi-axis-rope-5: which axis does a pair look at


def probed(turned):
    """The axis of each pair: an array of integers, ``[d/2]``."""
    pairs = turned.shape[1] // 2
    moved = np.hypot(turned[:, :pairs] - 1, turned[:, pairs:] - 1)
    return moved.argmax(axis=0)


def _turned(axes):
    """Ones in the half layout, with one coordinate at 1 in each row."""
    axes = np.array(axes)
    omega = 100.0 ** (-np.arange(len(axes)) / len(axes))
    angle = (axes == np.arange(axes.max() + 1)[:, None]) * omega
    c, s = np.cos(angle), np.sin(angle)
    return np.hstack([c - s, c + s])


def _interleaved(turned):
    return np.hypot(turned[:, ::2] - 1, turned[:, 1::2] - 1).argmax(axis=0)


PROBED = Exercise(
    name="multi-axis-rope-5",
    title="Read a port's sections",
    kind="experiment",
    minutes=8,
    lines=3,
    statement=r"""
You have somebody's code for M-RoPE and no documentation.
You gave it a vector of $d$ ones, in the half layout, at the positions $e_0, e_1, \dots$: one coordinate is 1, the others are 0.
`turned`, `[N, d]`, is what came out, a row for each axis.
Return the axis that each pair looks at, `[d/2]`.
""",
    hint=r"""
A pair that looks at another axis has not moved. Pair $p$ has the features $p$ and $p + d/2$.
""",
    cases=(
        (_turned([0, 1]),),
        (_turned([0, 1, 2, 0]),),
        (_turned([0, 0, 1, 1, 1, 2, 2, 2]),),
        (_turned([1, 2, 1, 2, 0]),),
        (_turned([3, 2, 1, 0]),),
    ),
    solution=probed,
    misconceptions=(
        Misconception(
            "The interleaved layout",
            "In the half layout pair p has the features p and p + d/2.",
            _interleaved,
        ),
        Misconception(
            "The axis that does not move it",
            "A pair turns with its own axis and stands still with the others.",
            lambda t: np.hypot(
                t[:, : t.shape[1] // 2] - 1, t[:, t.shape[1] // 2 :] - 1
            ).argmin(axis=0),
        ),
        Misconception(
            "Lengths compared",
            "A rotation keeps them: every pair has the length √2 in every row.",
            lambda t: (
                np.hypot(t[:, : t.shape[1] // 2], t[:, t.shape[1] // 2 :])
                .round(9)
                .argmax(axis=0)
            ),
        ),
        Misconception(
            "Axes counted from 1",
            "The first row belongs to axis 0.",
            lambda t: probed(t) + 1,
        ),
        Misconception(
            "Backwards",
            "Pair 0 is the first feature of each half.",
            lambda t: probed(t)[::-1].copy(),
        ),
        Misconception(
            "The last axis that stands still",
            "A pair turns with its own axis and stands still with the others.",
            lambda t: (
                len(t)
                - 1
                - np.hypot(
                    t[::-1, : t.shape[1] // 2] - 1, t[::-1, t.shape[1] // 2 :] - 1
                ).argmin(axis=0)
            ),
        ),
        Misconception(
            "Sectioned, by the counts",
            "How many pairs an axis has does not say which.",
            lambda t: np.repeat(
                range(len(t)), np.bincount(probed(t), minlength=len(t))
            )[::-1].copy(),
        ),
        Misconception(
            "Sorted",
            "The order of the pairs is what a port gets wrong: keep it.",
            lambda t: np.sort(probed(t)),
        ),
    ),
)


# multi-axis-rope-6: Cayley's basis


def cayley(skew):
    """The orthogonal P of a skew S, ``[d, d]``."""
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
A matrix inverse, or a linear system: $I - S$ and $I + S$ commute.
""",
    cases=((np.zeros((2, 2)),), (_skew(2),), (_skew(3),), (_skew(6, 1),)),
    solution=cayley,
    misconceptions=(
        Misconception(
            "Signs exchanged",
            "That is the transpose, P of −S.",
            lambda s: cayley(-s),
        ),
        Misconception(
            "Divided entry by entry",
            "`/` divides entries. What is wanted is a matrix inverse.",
            lambda s: (
                (np.eye(len(s)) - s)
                / np.where(np.eye(len(s)) + s == 0, 1, np.eye(len(s)) + s)
            ),
        ),
        Misconception(
            "Inverse missing",
            "(I − S)(I + S) = I − S² is no rotation.",
            lambda s: np.eye(len(s)) - s @ s,
        ),
        Misconception(
            "The inverse alone",
            "(I + S)⁻¹ makes vectors shorter.",
            lambda s: np.linalg.inv(np.eye(len(s)) + s),
        ),
        Misconception(
            "The exponential",
            "exp(−2S) is near it where S is small, and not the same.",
            lambda s: _exponential(-2 * s),
        ),
        Misconception(
            "Ones for the identity",
            "I has ones on its diagonal alone.",
            lambda s: (1 - s) @ np.linalg.pinv(1 + s),
        ),
        Misconception(
            "The transpose for the inverse",
            "(I + S)ᵀ is I − S, not the inverse: I + S is not orthogonal.",
            lambda s: (np.eye(len(s)) - s) @ (np.eye(len(s)) + s).T,
        ),
        Misconception(
            "I − S over I − S",
            "That is the identity.",
            lambda s: np.eye(len(s)),
        ),
        Misconception(
            "Half of S",
            "Without a half.",
            lambda s: cayley(s / 2),
        ),
        Misconception(
            "Made skew once more",
            "S is skew already: S − Sᵀ is 2S.",
            lambda s: cayley(s - s.T),
        ),
        Misconception(
            "The sign is outside",
            "(S − I) for (I − S): P turns into −P.",
            lambda s: -cayley(s),
        ),
    ),
    properties=(
        Property(
            "P keeps lengths",
            lambda answer, s: np.allclose(answer(s).T @ answer(s), np.eye(len(s))),
        ),
    ),
)


def _exponential(a):
    values, vectors = np.linalg.eigh(1j * a)
    return ((vectors * np.exp(-1j * values)) @ vectors.conj().T).real


# multi-axis-rope-7: the frequencies of a circulant


def waves(c):
    """The frequencies of the waves m = 1 … d/2 − 1 that turn, ``[d/2 − 1]``."""
    d = len(c)
    return -2 * np.fft.rfft(c).imag[1 : d // 2]


WAVES = Exercise(
    name="multi-axis-rope-7",
    title="What a circulant turns",
    kind="NumPy",
    minutes=10,
    lines=2,
    statement=r"""
$C$ is circulant with the first column `c`, of even length $d$, and $L = C - C^\top$.
Return the frequencies $f_m = 2 \sum_n c_n \sin(2 \pi m n/d)$ of the waves that turn, $m = 1, \dots, d/2 - 1$.
""",
    hint=r"""
A sum of sines is the imaginary part of a Fourier transform; mind its sign. Or write the matrix of sines.
""",
    cases=((draw(4),), (draw(6),), (draw(8, seed=1),), (draw(12, seed=2),)),
    solution=waves,
    misconceptions=(
        Misconception(
            "The sign of the transform",
            "A Fourier transform has e to the −i: its imaginary part is minus the sum of "
            "sines.",
            lambda c: -waves(c),
        ),
        Misconception(
            "The one at rest in front",
            "m begins with 1.",
            lambda c: -2 * np.fft.rfft(c).imag[: len(c) // 2 - 1],
        ),
        Misconception(
            "C, not C − Cᵀ",
            "L has both c and its mirror: twice the sum.",
            lambda c: waves(c) / 2,
        ),
        Misconception(
            "Cosines",
            "Those belong to C + Cᵀ, which stretches.",
            lambda c: 2 * np.fft.rfft(c).real[1 : len(c) // 2],
        ),
        Misconception(
            "The modulus",
            "A frequency has a sign: which way round.",
            lambda c: 2 * np.abs(np.fft.rfft(c))[1 : len(c) // 2],
        ),
        Misconception(
            "From d − 1 down",
            "m goes up from 1.",
            lambda c: waves(c)[::-1].copy(),
        ),
        Misconception(
            "Halves of waves",
            "A wave goes round m times in d features, not in 2d.",
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
            lambda c: waves(c) / len(c),
        ),
        Misconception(
            "Without two pi",
            "A wave goes round once in d features: 2πmn/d.",
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
            lambda c: waves(np.roll(c, 1)),
        ),
    ),
)


# multi-axis-rope-8: fold the basis


def folded(weight, basis):
    """W_q or W_k with P multiplied in, for each of its heads: like ``weight``."""
    heads, d, _ = basis.shape
    return (basis @ weight.view(heads, d, -1)).reshape(weight.shape)


def _weights(heads, d, model):
    weight = torch.tensor(draw(heads * d, model))
    basis = np.stack([cayley(_skew(d, seed)) for seed in range(heads)])
    return weight, torch.tensor(basis)


FOLDED = Exercise(
    name="multi-axis-rope-8",
    title="A basis that costs nothing",
    kind="PyTorch",
    minutes=8,
    lines=2,
    statement=r"""
Cayley-STRING turns $P q$, and a head's query is $q = W x$.
`weight` is $W_q$ (or $W_k$) of all heads, `[heads · d, d_model]`, `basis` the $P$ of each, `[heads, d, d]`.
Return the weight with which RoPE-Mixed alone gives the same scores.
""",
    hint=r"""
$P (W x) = (P W) x$, head by head.
""",
    cases=(_weights(1, 2, 3), _weights(2, 4, 4), _weights(3, 2, 6)),
    solution=folded,
    misconceptions=(
        Misconception(
            "The transpose of P",
            "ComRoPE's Q is folded transposed, because its rotation is Q M Qᵀ. Here it "
            "is M P.",
            lambda w, p: folded(w, p.mT),
        ),
        Misconception(
            "The first head's basis for all",
            "Every head has its own P.",
            lambda w, p: folded(w, p[:1].expand_as(p)),
        ),
        Misconception(
            "Heads interleaved",
            "The rows of a head stand together: [heads, d, d_model].",
            lambda w, p: (
                torch.einsum("hij,jhm->ihm", p, w.view(p.shape[1], len(p), -1))
                .reshape(w.shape)
                .contiguous()
            ),
        ),
        Misconception(
            "Nothing folded",
            "RoPE-Mixed alone would turn q, not P q.",
            lambda w, p: w.clone(),
        ),
        Misconception(
            "The basis twice",
            "P for the query and P for the key: once in each weight.",
            lambda w, p: folded(folded(w, p), p),
        ),
        Misconception(
            "Basis added",
            "P multiplies.",
            lambda w, p: w + torch.block_diag(*p).sum(1, keepdim=True),
        ),
        Misconception(
            "Heads in reverse",
            "Head 0 has the first rows and the first basis.",
            lambda w, p: folded(w, p.flip(0)),
        ),
        Misconception(
            "S for P",
            "Is this orthogonal?",
            lambda w, p: folded(w, p - p.mT),
        ),
    ),
    properties=(
        Property(
            "Scores of keys and queries with the same P are those of no P",
            lambda answer, w, p: torch.allclose(
                answer(w, p).view(len(p), -1, w.shape[1]).mT
                @ answer(w, p).view(len(p), -1, w.shape[1]),
                w.view(len(p), -1, w.shape[1]).mT @ w.view(len(p), -1, w.shape[1]),
            ),
        ),
    ),
)

SHEET = Sheet(
    title="Several coordinates",
    conventions=r"""
Axes are time 0, rows 1 and columns 2; pairs $p$ count from 0; angles are in radians; $\omega_p = \text{base}^{-p/P}$ of $P$ pairs.
""",
    exercises=(STRIDED, FOLLOWING, PICTURE, ANGLES, PROBED, CAYLEY, WAVES, FOLDED),
)
