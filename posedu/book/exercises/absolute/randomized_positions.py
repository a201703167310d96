"""The exercises on shaken positions."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# randomized-positions-1: another law of shifts


def product(omega, i, j, most):
    """The mean of cos ω(i + δ) · cos ω(j + δ), as an expression."""
    sinc = sp.sin(2 * omega * most) / (2 * omega * most)
    return sp.cos(omega * (i - j)) / 2 + sp.cos(omega * (i + j)) / 2 * sinc


def _product(sign=1, sinc=None, half=None, swap=False):
    """With another sign, factor or half; place and offset exchanged."""

    def answer(omega, i, j, most):
        turned = 2 * omega * most
        factor = sp.sin(turned) / turned if sinc is None else sinc(omega, most)
        near, far = sp.cos(omega * (i - j)), sp.cos(omega * (i + j))
        if swap:
            near, far = far, near
        share = sp.Rational(1, 2) if half is None else half
        return share * near + sign * share * far * factor

    return answer


_W, _D = sp.symbols("omega D", positive=True)
_I, _J = sp.symbols("i j", real=True)

PRODUCT = Exercise(
    name="randomized-positions-1",
    title="Two cosines under a shift",
    kind="by hand",
    minutes=8,
    lines=2,
    statement=r"""
On paper: $\delta$ is uniform in $[-D, D]$.
What is the mean of $\cos \omega (i + \delta) \cos \omega (j + \delta)$?
Return a SymPy expression of `omega`, `i`, `j` and `most`, which is $D$; all are numbers or symbols, and $\omega$ and $D$ positive.
Add the mean for two sines: what has become of $D$?
""",
    hint=r"""
A product of cosines is half the cosine of the difference plus half the cosine of the sum. Only one of them moves with $\delta$.
""",
    cases=(
        (sp.Integer(1), sp.Integer(0), sp.Integer(0), sp.Integer(1)),
        (sp.Integer(1), sp.Integer(2), sp.Integer(1), sp.Integer(1)),
        (sp.Rational(1, 2), sp.Integer(5), sp.Integer(1), sp.Integer(3)),
        (_W, _I, _J, _D),
    ),
    solution=product,
    misconceptions=(
        Misconception(
            "This is the mean for sines",
            "For cosines the cosine of the sum is added.",
            _product(sign=-1),
        ),
        Misconception(
            "The place is gone",
            "It is gone in the limit of large shifts only.",
            _product(sign=0),
        ),
        Misconception(
            "The place is untouched",
            "The part with i + j is averaged over the shifts.",
            _product(sinc=lambda w, m: sp.Integer(1)),
        ),
        Misconception(
            "The halves are forgotten",
            "A product of two cosines is half of each.",
            _product(half=sp.Integer(1)),
        ),
        Misconception(
            "Sum and difference are exchanged",
            "The shift adds to both positions: their difference stays.",
            _product(swap=True),
        ),
        Misconception(
            "The shift counts once",
            "In the sum of both positions it counts twice: 2ωδ.",
            _product(sinc=lambda w, m: sp.sin(w * m) / (w * m)),
        ),
        Misconception(
            "The interval has the length D",
            "From −D to D it is 2D.",
            _product(sinc=lambda w, m: sp.sin(2 * w * m) / (w * m)),
        ),
        Misconception(
            "The integral, not the mean",
            "A mean is divided by the length of the interval.",
            _product(sinc=lambda w, m: sp.sin(2 * w * m) / w),
        ),
        Misconception(
            "A cosine at the end",
            "The integral of a cosine is a sine.",
            _product(sinc=lambda w, m: sp.cos(2 * w * m)),
        ),
        Misconception(
            "The product of the means",
            "Both cosines have the same shift: they are not independent.",
            lambda omega, i, j, most: (
                sp.cos(omega * i)
                * sp.cos(omega * j)
                * (sp.sin(omega * most) / (omega * most)) ** 2
            ),
        ),
    ),
    properties=(
        Property(
            "At i = j = 0 it is at most 1 and at least 1/2 for small shifts",
            lambda answer, omega, i, j, most: bool(
                sp.Rational(1, 2)
                <= sp.N(answer(sp.Integer(1), sp.Integer(0), sp.Integer(0), sp.S.One))
                <= 1
            ),
        ),
    ),
)


# randomized-positions-2: the places of CAPE


def places(tau, shift, jitter, scale, normalize):
    """Where CAPE puts the tokens of each row, [rows, tokens]."""
    if normalize:
        tau = tau - tau.mean(1, keepdims=True)
    return scale[:, None] * (tau + shift[:, None] + jitter)


def _places(
    combine=lambda t, d, e, s: s * (t + d + e),
    mean=lambda tau: tau.mean(1, keepdims=True),
):
    """With another order of steps, or another mean."""

    def answer(tau, shift, jitter, scale, normalize):
        if normalize:
            tau = tau - mean(tau)
        return combine(tau, shift[:, None], jitter, scale[:, None])

    return answer


def _last(tau, shift, jitter, scale, normalize):
    at = places(tau, shift, jitter, scale, False)
    return at - at.mean(1, keepdims=True) if normalize else at


_ROWS = tuple(
    (
        3 * draw(rows, tokens) + 1,
        2 * draw(rows, seed=1),
        0.5 * draw(rows, tokens, seed=2),
        np.exp(draw(rows, seed=3)),
        normalize,
    )
    for rows, tokens, normalize in ((1, 2, False), (2, 3, True), (3, 3, False))
)

PLACES = Exercise(
    name="randomized-positions-2",
    title="Where CAPE puts tokens",
    kind="NumPy",
    minutes=6,
    lines=3,
    statement=r"""
`tau` holds positions, `[rows, tokens]`, and `shift`, `jitter` and `scale` what was drawn for them: `[rows]`, `[rows, tokens]`, `[rows]`.
Return where the tokens are put, `[rows, tokens]`.
With `normalize` each row's mean position is taken off first.
""",
    hint=r"""
The scale stands before the bracket: it stretches the shift, too. A new last axis makes `[rows]` fit `[rows, tokens]`.
""",
    cases=_ROWS,
    solution=places,
    misconceptions=(
        Misconception(
            "The shift is not scaled",
            "λ stands before the whole bracket.",
            _places(lambda t, d, e, s: s * (t + e) + d),
        ),
        Misconception(
            "The jitter is not scaled",
            "λ stands before the whole bracket.",
            _places(lambda t, d, e, s: s * (t + d) + e),
        ),
        Misconception(
            "Only the positions are scaled",
            "λ stands before the whole bracket.",
            _places(lambda t, d, e, s: s * t + d + e),
        ),
        Misconception(
            "The shift is taken off",
            "It is added.",
            _places(lambda t, d, e, s: s * (t - d + e)),
        ),
        Misconception(
            "The jitter is forgotten",
            "Each token has one of its own.",
            _places(lambda t, d, e, s: s * (t + d)),
        ),
        Misconception(
            "The shift is forgotten",
            "Each row has one.",
            _places(lambda t, d, e, s: s * (t + e)),
        ),
        Misconception(
            "The scale is forgotten",
            "Each row has one.",
            _places(lambda t, d, e, s: t + d + e),
        ),
        Misconception(
            "Divided by the scale",
            "λ multiplies. In law that is the same, in numbers not.",
            _places(lambda t, d, e, s: (t + d + e) / s),
        ),
        Misconception(
            "The scale is its logarithm",
            "What is given is λ itself.",
            _places(lambda t, d, e, s: np.exp(s) * (t + d + e)),
        ),
        Misconception(
            "Normalized whatever is asked",
            "Only with `normalize`.",
            lambda tau, d, e, s, normalize: places(tau, d, e, s, True),
        ),
        Misconception(
            "Never normalized",
            "With `normalize` the mean is taken off first.",
            lambda tau, d, e, s, normalize: places(tau, d, e, s, False),
        ),
        Misconception(
            "Normalized after the rest",
            "Then the shift is gone, too: the mean of the positions is taken off first.",
            _last,
        ),
        Misconception(
            "Something else than the mean",
            "The mean is taken off: not the first position, nor the median.",
            _places(mean=lambda tau: tau[:, :1]),
        ),
        Misconception(
            "The mean of all rows",
            "Each sequence has a mean of its own.",
            _places(mean=lambda tau: tau.mean()),
        ),
        Misconception(
            "The mean over the batch",
            "The mean is over the tokens, axis 1.",
            _places(mean=lambda tau: tau.mean(0, keepdims=True)),
        ),
        Misconception(
            "Divided by the deviation, too",
            "The mean is taken off, and nothing else.",
            lambda tau, d, e, s, normalize: places(
                tau / (tau.std(1, keepdims=True) if normalize else 1.0),
                d,
                e,
                s,
                normalize,
            ),
        ),
    ),
    properties=(
        Property(
            "Without jitter, shift and scale nothing moves",
            lambda answer, tau, d, e, s, normalize: bool(
                np.allclose(answer(tau, 0 * d, 0 * e, 0 * s + 1, False), tau)
            ),
        ),
    ),
)


# randomized-positions-3: how much jitter


def most_jitter(tau):
    """The largest jitter that keeps the order of these positions surely, a float."""
    return float(np.diff(np.sort(tau)).min() / 2)


def _of_steps(jitter):
    return lambda tau: float(jitter(np.diff(np.sort(tau))))


MOST = Exercise(
    name="randomized-positions-3",
    title="How much jitter",
    kind="NumPy",
    minutes=6,
    lines=1,
    statement=r"""
`tau` holds two or more different positions, `[tokens]`, in any order and with any steps.
Return the largest $a$ such that no jitter within $\pm a$ ever brings two of them out of order, a `float`.
""",
    hint=r"""
Each of two neighbors may go half of what is between them.
""",
    cases=(
        (np.array([0.0, 1.0]),),
        (np.array([0.0, 1.5, 2.0]),),
        (np.array([3.0, 0.0, 1.75]),),
        (np.array([-4.0, 4.0, -1.5, 7.0]),),
    ),
    solution=most_jitter,
    misconceptions=(
        Misconception(
            "Always one half",
            "That is for steps of 1.",
            lambda tau: 0.5,
        ),
        Misconception(
            "A whole step",
            "Both neighbors move: each has half of the step.",
            _of_steps(np.min),
        ),
        Misconception(
            "Half of the first step",
            "The smallest step is the first to be lost.",
            _of_steps(lambda steps: steps[0] / 2),
        ),
        Misconception(
            "Half of the last step",
            "The smallest step is the first to be lost.",
            _of_steps(lambda steps: steps[-1] / 2),
        ),
        Misconception(
            "Half of the median step",
            "Surely means for the smallest step, too.",
            _of_steps(lambda steps: np.median(steps) / 2),
        ),
        Misconception(
            "Half of the largest step",
            "The smallest step is the first to be lost.",
            _of_steps(lambda steps: steps.max() / 2),
        ),
        Misconception(
            "Half of the mean step",
            "Surely means for the smallest step, too.",
            _of_steps(lambda steps: steps.mean() / 2),
        ),
        Misconception(
            "Steps in the order given",
            "Neighbors are those on the line: sort first.",
            lambda tau: float(np.abs(np.diff(tau)).min() / 2),
        ),
        Misconception(
            "Signed steps in the order given",
            "Neighbors are those on the line: sort first.",
            lambda tau: float(np.diff(tau).min() / 2),
        ),
        Misconception(
            "A quarter of the step",
            "Half of it for each of the two is enough.",
            _of_steps(lambda steps: steps.min() / 4),
        ),
        Misconception(
            "Half of the range",
            "It is about neighbors.",
            lambda tau: float(np.ptp(tau) / 2),
        ),
        Misconception(
            "The nearest to 0",
            "Steps count, not positions.",
            lambda tau: float(np.abs(tau).min() / 2),
        ),
    ),
)


# randomized-positions-4: randomized positions


def looked_up(noise, tokens):
    """Sorted places of the tokens of each row, [rows, tokens], int64."""
    return noise.argsort(1)[:, :tokens].sort(1).values


def _of_order(change):
    return lambda noise, tokens: change(noise.argsort(1), tokens)


SAMPLE = Exercise(
    name="randomized-positions-4",
    title="An ordered sample",
    kind="PyTorch",
    minutes=8,
    lines=1,
    statement=r"""
`noise` holds different random numbers, `[rows, M]`.
Where the smallest stands, then where the next one does, and so on: that is a shuffle of $0, \dots, M - 1$, counted along the row.
Its first `tokens` are a sample in which no number is twice.
Return it for each row in the order of tokens, the smallest first: `[rows, tokens]`, int64.
""",
    hint=r"""
`argsort` says where the smallest number stands, then the next. Take as many as there are tokens, and sort what you took.
""",
    cases=tuple(
        (torch.tensor(draw(rows, most, seed=most)), tokens)
        for rows, most, tokens in ((1, 4, 2), (2, 6, 3), (3, 9, 5), (1, 3, 3))
    ),
    solution=looked_up,
    misconceptions=(
        Misconception(
            "Not sorted",
            "Tokens keep their order: the first has the smallest place.",
            _of_order(lambda order, tokens: order[:, :tokens]),
        ),
        Misconception(
            "Sorted before it is cut",
            "The smallest of all are 0, 1, 2, …: cut first, then sort.",
            _of_order(lambda order, tokens: order.sort(1).values[:, :tokens]),
        ),
        Misconception(
            "The largest first",
            "The first token has the smallest place.",
            _of_order(lambda order, tokens: order[:, :tokens].sort(1).values.flip(1)),
        ),
        Misconception(
            "The last of the shuffle",
            "As good a sample, but the first ones are asked for.",
            lambda noise, tokens: (
                noise.argsort(1)[:, noise.shape[1] - tokens :].sort(1).values
            ),
        ),
        Misconception(
            "The order of the order",
            "argsort once is a shuffle; twice it is the rank of each number.",
            _of_order(
                lambda order, tokens: order.argsort(1)[:, :tokens].sort(1).values
            ),
        ),
        Misconception(
            "Counted from 1",
            "Places are 0 to M − 1.",
            _of_order(lambda order, tokens: order[:, :tokens].sort(1).values + 1),
        ),
        Misconception(
            "One sample for all rows",
            "Each row has noise of its own.",
            lambda noise, tokens: looked_up(noise[:1].repeat(len(noise), 1), tokens),
        ),
        Misconception(
            "Evenly spaced",
            "They fill the range evenly on average only.",
            lambda noise, tokens: (
                torch.arange(tokens) * noise.shape[1] // tokens
            ).repeat(len(noise), 1),
        ),
        Misconception(
            "The noise is sorted",
            "Places are where the numbers stand, not the numbers.",
            lambda noise, tokens: noise.sort(1).values[:, :tokens].long(),
        ),
        Misconception(
            "Sorted along the batch",
            "Each row is a shuffle of its own: axis 1.",
            lambda noise, tokens: noise.argsort(0)[:, :tokens].sort(1).values,
        ),
    ),
)


# randomized-positions-5: which offsets PoSE has


def offsets(n, cut, skip):
    """How many pairs have each offset from 0 on, int64, [n + skip]."""
    i = np.arange(n)
    at = np.where(i < cut, i, i + skip)
    met = (at[:, None] - at)[i[:, None] > i]
    return np.bincount(met, minlength=n + skip)


def _offsets(put, pairs=lambda n: [(i, j) for i in range(n) for j in range(i)]):
    def answer(n, cut, skip):
        at = [put(i, cut, skip) for i in range(n)]
        counts = np.zeros(n + skip, dtype=np.int64)
        for i, j in pairs(n):
            counts[at[i] - at[j]] += 1
        return counts

    return answer


def _right(i, cut, skip):
    return i if i < cut else i + skip


MET = Exercise(
    name="randomized-positions-5",
    title="Which offsets PoSE has met",
    kind="experiment",
    minutes=8,
    lines=2,
    statement=r"""
Of `n` tokens those below `cut` stay, the others are moved by `skip`.
Return how many pairs of a token and an *earlier* one have each offset, from 0 on: integers, `[n + skip]`.
Try n = 16 and a skip of 40: which offsets has nobody, and for which cut are they most?
""",
    hint=r"""
Put the tokens first. `np.bincount` counts.
""",
    cases=((3, 1, 2), (4, 2, 0), (6, 3, 10), (7, 2, 5), (1, 1, 4)),
    solution=offsets,
    misconceptions=(
        Misconception(
            "The offset 0 is there",
            "An earlier token, not the same.",
            _offsets(
                _right, lambda n: [(i, j) for i in range(n) for j in range(i + 1)]
            ),
        ),
        Misconception(
            "Later tokens, too, by distance",
            "Each pair once: a token and an earlier one.",
            lambda n, cut, skip: 2 * offsets(n, cut, skip),
        ),
        Misconception(
            "Only neighbors",
            "All pairs of a token and an earlier one.",
            _offsets(_right, lambda n: [(i, i - 1) for i in range(1, n)]),
        ),
        Misconception(
            "Only from the first token",
            "All pairs of a token and an earlier one.",
            _offsets(_right, lambda n: [(i, 0) for i in range(1, n)]),
        ),
        Misconception(
            "Only from the last token",
            "All pairs of a token and an earlier one.",
            _offsets(_right, lambda n: [(n - 1, j) for j in range(n - 1)]),
        ),
        Misconception(
            "The cut is one later",
            "The token at the cut is moved, too.",
            _offsets(lambda i, cut, skip: i if i <= cut else i + skip),
        ),
        Misconception(
            "The first chunk is moved",
            "Those below the cut stay.",
            _offsets(lambda i, cut, skip: i + skip if i < cut else i),
        ),
        Misconception(
            "All are moved, or none",
            "Then no offset changes: those below the cut stay, the others are moved.",
            _offsets(lambda i, cut, skip: i + skip),
        ),
        Misconception(
            "The second chunk starts at the skip",
            "It is moved by the skip: it starts at cut + skip.",
            _offsets(lambda i, cut, skip: i if i < cut else i - cut + skip),
        ),
        Misconception(
            "Only across the cut",
            "Tokens of one chunk have offsets, too.",
            lambda n, cut, skip: (
                offsets(n, cut, skip)
                - np.bincount(
                    [i - j for i in range(n) for j in range(i) if not j < cut <= i],
                    minlength=n + skip,
                )
            ),
        ),
        Misconception(
            "Whether, not how many",
            "Count the pairs.",
            lambda *case: (offsets(*case) > 0).astype(np.int64),
        ),
        Misconception(
            "All pairs by distance, with itself",
            "Each pair once, and no token is earlier than itself.",
            lambda n, cut, skip: (
                2 * offsets(n, cut, skip) + n * (np.arange(n + skip) == 0)
            ),
        ),
    ),
)


# randomized-positions-6: the mean place


def mean_place(k, n, most):
    """The mean of the k-th smallest of n of 0 … most − 1, k from 0, a Rational."""
    return sp.Rational((k + 1) * (most + 1), n + 1) - 1


MEAN = Exercise(
    name="randomized-positions-6",
    title="Where a token is on average",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: of the numbers $0, \dots, M - 1$ a set of $n$ is drawn, all sets alike.
What is the mean of the $k$-th smallest, $k$ counted from 0?
Return it for integers `k`, `n` and `most`, which is $M$, as a SymPy `Rational`.
""",
    hint=r"""
The $n$ numbers leave $n + 1$ gaps, before the first and behind the last included. By symmetry all have the same mean, and together they and the numbers fill the range.
""",
    cases=((0, 1, 3), (0, 2, 5), (1, 2, 5), (3, 4, 9), (2, 7, 30)),
    solution=mean_place,
    misconceptions=(
        Misconception(
            "Counted from 1",
            "That is for places 1 to M; here they begin with 0.",
            lambda k, n, most: sp.Rational((k + 1) * (most + 1), n + 1),
        ),
        Misconception(
            "k from 1",
            "The smallest is k = 0.",
            lambda k, n, most: sp.Rational(k * (most + 1), n + 1) - 1,
        ),
        Misconception(
            "k from 1, places from 1",
            "The smallest is k = 0, and places begin with 0.",
            lambda k, n, most: sp.Rational(k * (most + 1), n + 1),
        ),
        Misconception(
            "Evenly from the start",
            "There is a gap before the first, too.",
            lambda k, n, most: sp.Rational(k * most, n),
        ),
        Misconception(
            "From end to end",
            "The first is 0 and the last M − 1 in one sample of many.",
            lambda k, n, most: sp.Rational(k * (most - 1), max(n - 1, 1)),
        ),
        Misconception(
            "In the middle of equal parts",
            "Near, but gaps at the ends are as wide as the others.",
            lambda k, n, most: (
                sp.Rational((2 * k + 1) * most, 2 * n) - sp.Rational(1, 2)
            ),
        ),
        Misconception(
            "Of a continuous range",
            "Places are whole numbers, and none is taken twice.",
            lambda k, n, most: sp.Rational((k + 1) * most, n + 1),
        ),
        Misconception(
            "Of a continuous range, less 1",
            "With M + 1: the numbers themselves take places.",
            lambda k, n, most: sp.Rational((k + 1) * most, n + 1) - 1,
        ),
        Misconception(
            "n gaps",
            "There is one more, behind the last.",
            lambda k, n, most: sp.Rational((k + 1) * (most + 1), n) - 1,
        ),
        Misconception(
            "The k-th largest",
            "The smallest comes first.",
            lambda k, n, most: sp.Rational((n - k) * (most + 1), n + 1) - 1,
        ),
        Misconception(
            "The mean of all",
            "Each of the n has a mean of its own.",
            lambda k, n, most: sp.Rational(most - 1, 2),
        ),
    ),
    properties=(
        Property(
            "All n of n are where they are",
            lambda answer, k, n, most: all(
                answer(place, 4, 4) == place for place in range(4)
            ),
        ),
    ),
)


SHEET = Sheet(
    title="Shaken positions",
    conventions=r"""
$\tau$ are positions, $\delta$ is the shift and $D$ its largest size, λ the scale. $M$ is the range of randomized positions; everything counts from 0.
""",
    exercises=(PRODUCT, PLACES, MOST, SAMPLE, MET, MEAN),
)
