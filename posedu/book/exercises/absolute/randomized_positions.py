"""Exercises on randomized and augmented positions: CAPE, PoSE, Abacus, coupling."""

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

# randomized-positions-1: two cosines under a shift


def product(omega, i, j, most):
    """Mean of cos ω(i + δ) · cos ω(j + δ), δ uniform in ± ``most``: an expression.

    ``i`` and ``j`` are two positions, ``omega`` is the frequency ω.
    """
    sinc = sp.sin(2 * omega * most) / (2 * omega * most)
    return sp.cos(omega * (i - j)) / 2 + sp.cos(omega * (i + j)) / 2 * sinc


def _product(sign=1, sinc=None, half=None, swap=False):
    """Make a wrong answer (a function) to the exercise ``product``.

    The exercise asks for the mean of cos ω(i + δ) · cos ω(j + δ), which is ½ cos ω(i −
    j) + ½ cos ω(i + j) · sin(x)/x. In the wrong answer, ``sign`` is a factor of the
    term with i + j, ``sinc(omega, most)`` replaces sin(x)/x, ``half`` replaces ½, and
    ``swap`` exchanges i + j and i − j. With None for ``sinc`` or ``half``, this factor
    is right.
    """

    def answer(omega, i, j, most):
        angle = 2 * omega * most
        factor = sp.sin(angle) / angle if sinc is None else sinc(omega, most)
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
Return a SymPy expression of `omega`, `i`, `j` and `most`, which is $D$; all are numbers or symbols, and $\omega$ and $D$ are positive.
Enter the result of your calculation: SymPy needs minutes for the integral.
Add the mean for two sines: does the sum depend on $D$?
""",
    hint=r"""
A product of cosines is half the cosine of the difference plus half the cosine of the sum.
Only one of the two changes with $\delta$.
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
            "Mean of the sines",
            "For cosines the cosine of the sum is added.",
            _product(sign=-1),
        ),
        Misconception(
            "Term with i + j left out",
            "That term tends to 0 for large shifts, and is not 0 in general.",
            _product(sign=0),
        ),
        Misconception(
            "Term with i + j not averaged",
            "The part with i + j is averaged over the shifts.",
            _product(sinc=lambda w, m: sp.Integer(1)),
        ),
        Misconception(
            "Missing halves",
            "A product of two cosines is half of each.",
            _product(half=sp.Integer(1)),
        ),
        Misconception(
            "Sum and difference exchanged",
            "The shift is added to both positions, so their difference does not "
            "change.",
            _product(swap=True),
        ),
        Misconception(
            "Shift counted once",
            "In the sum of both positions the shift counts twice: 2ωδ.",
            _product(sinc=lambda w, m: sp.sin(w * m) / (w * m)),
        ),
        Misconception(
            "Interval of length D",
            "The interval from −D to D has the length 2D.",
            _product(sinc=lambda w, m: sp.sin(2 * w * m) / (w * m)),
        ),
        Misconception(
            "Integral in place of the mean",
            "A mean is divided by the length of the interval.",
            _product(sinc=lambda w, m: sp.sin(2 * w * m) / w),
        ),
        Misconception(
            "D not divided out",
            "The integral over [−D, D] is divided by 2D, not by 2.",
            _product(sinc=lambda w, m: sp.sin(2 * w * m) / (2 * w)),
        ),
        Misconception(
            "Cosine in place of the integrated cosine",
            "The integral of a cosine is a sine.",
            _product(sinc=lambda w, m: sp.cos(2 * w * m)),
        ),
        Misconception(
            "ω forgotten after the integration",
            "The integral of cos 2ωδ over δ is divided by 2ω.",
            _product(sinc=lambda w, m: sp.sin(2 * w * m) / (2 * m)),
        ),
        Misconception(
            "Shift from 0 to D",
            "δ is uniform from −D to D.",
            lambda omega, i, j, most: (
                sp.cos(omega * (i - j)) / 2
                + (sp.sin(omega * (i + j + 2 * most)) - sp.sin(omega * (i + j)))
                / (4 * omega * most)
            ),
        ),
        Misconception(
            "Sum of the means of cosines and sines",
            "The function returns the mean for two cosines. The sum with the sines is "
            "the last question.",
            lambda omega, i, j, most: sp.cos(omega * (i - j)),
        ),
        Misconception(
            "Difference in both terms",
            "One term has the difference of the positions, the other their sum.",
            lambda omega, i, j, most: product(omega, i - j, 0, most),
        ),
        Misconception(
            "Sine of the sum",
            "A product of cosines has half the cosine of the sum.",
            lambda omega, i, j, most: (
                sp.cos(omega * (i - j)) / 2
                + sp.sin(omega * (i + j))
                * sp.sin(2 * omega * most)
                / (4 * omega * most)
            ),
        ),
        Misconception(
            "ω taken to be 1",
            "`omega` may be any frequency.",
            lambda omega, i, j, most: product(1, i, j, most),
        ),
        Misconception(
            "Sum of the positions doubled",
            "The shift is there twice, each position once.",
            lambda omega, i, j, most: (
                sp.cos(omega * (i - j)) / 2
                + sp.cos(2 * omega * (i + j))
                * sp.sin(2 * omega * most)
                / (4 * omega * most)
            ),
        ),
        Misconception(
            "NumPy's sinc in SymPy",
            "`np.sinc(x)` is sin(πx)/(πx). `sp.sinc(x)` is sin(x)/x.",
            _product(sinc=lambda w, m: sp.sinc(2 * w * m / sp.pi)),
        ),
        Misconception(
            "Product of the means",
            "Both cosines have the same shift, so they are not independent.",
            lambda omega, i, j, most: (
                sp.cos(omega * i)
                * sp.cos(omega * j)
                * (sp.sin(omega * most) / (omega * most)) ** 2
            ),
        ),
    ),
    properties=(
        Property(
            "At i = j = 0 the mean is at most 1, and at least 1/2 for small shifts",
            lambda answer, omega, i, j, most: bool(
                sp.Rational(1, 2)
                <= sp.N(answer(sp.Integer(1), sp.Integer(0), sp.Integer(0), sp.S.One))
                <= 1
            ),
        ),
    ),
    explanation=r"""
$\cos \alpha \cos \beta = \frac12 \cos(\alpha - \beta) + \frac12 \cos(\alpha + \beta)$ with $\alpha - \beta = \omega (i - j)$ and $\alpha + \beta = \omega (i + j) + 2 \omega \delta$.
The first term does not depend on $\delta$.
The mean of the second is $\frac1{2D} \int_{-D}^{D} \cos(\omega (i + j) + 2 \omega \delta)\, d\delta = \cos \omega (i + j)\, \frac{\sin 2 \omega D}{2 \omega D}$, since the sine part is odd in $\delta$.
For two sines the second term has a minus, so the sum is $\cos \omega (i - j)$ and does not depend on $D$, not even before the mean is taken, as the chapter's derivation shows.
""",
)


# randomized-positions-2: CAPE's positions


def cape_positions(tau, shift, jitter, scale, normalize):
    """Positions that CAPE gives to the tokens of each sequence, [rows, tokens].

    Each row of ``tau``, [rows, tokens], has the positions of one sequence. CAPE changes
    them by random numbers: ``shift`` and ``scale``, [rows], add to and multiply all
    positions of a sequence; ``jitter``, [rows, tokens], is added to each position.
    ``normalize`` subtracts the mean of a sequence's positions ``tau`` first.
    """
    if normalize:
        tau = tau - tau.mean(1, keepdims=True)
    return scale[:, None] * (tau + shift[:, None] + jitter)


def _cape_positions(
    combine=lambda t, d, e, s: s * (t + d + e),
    mean=lambda tau: tau.mean(1, keepdims=True),
):
    """Make a wrong answer (a function) to the exercise ``cape_positions``.

    The exercise asks for CAPE's positions. In the wrong answer, ``combine(tau, shift,
    jitter, scale)`` replaces scale · (tau + shift + jitter), and ``mean(tau)`` replaces
    each row's mean, which normalizing subtracts.
    """

    def answer(tau, shift, jitter, scale, normalize):
        if normalize:
            tau = tau - mean(tau)
        return combine(tau, shift[:, None], jitter, scale[:, None])

    return answer


def _last(tau, shift, jitter, scale, normalize):
    at = cape_positions(tau, shift, jitter, scale, False)
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

CAPE_POSITIONS = Exercise(
    name="randomized-positions-2",
    title="CAPE's positions",
    kind="NumPy",
    minutes=5,
    lines=3,
    statement=r"""
`tau` holds positions, `[rows, tokens]`.
The random `shift`, `jitter` and `scale` have the shapes `[rows]`, `[rows, tokens]` and `[rows]`.
Return the positions that CAPE gives to the tokens, `[rows, tokens]`.
With `normalize` each row's mean position is subtracted first.
""",
    hint=r"""
The scale multiplies the whole bracket, the shift included.
A new last axis makes `[rows]` fit `[rows, tokens]`.
""",
    cases=_ROWS,
    solution=cape_positions,
    misconceptions=(
        Misconception(
            "Shift not scaled",
            "λ stands before the whole bracket.",
            _cape_positions(lambda t, d, e, s: s * (t + e) + d),
        ),
        Misconception(
            "Jitter not scaled",
            "λ stands before the whole bracket.",
            _cape_positions(lambda t, d, e, s: s * (t + d) + e),
        ),
        Misconception(
            "Only the positions scaled",
            "λ stands before the whole bracket.",
            _cape_positions(lambda t, d, e, s: s * t + d + e),
        ),
        Misconception(
            "Shift subtracted",
            "The shift is added.",
            _cape_positions(lambda t, d, e, s: s * (t - d + e)),
        ),
        Misconception(
            "Jitter forgotten",
            "Each token has a jitter of its own.",
            _cape_positions(lambda t, d, e, s: s * (t + d)),
        ),
        Misconception(
            "Shift forgotten",
            "Each row has a shift.",
            _cape_positions(lambda t, d, e, s: s * (t + e)),
        ),
        Misconception(
            "Scale forgotten",
            "Each row has a scale.",
            _cape_positions(lambda t, d, e, s: t + d + e),
        ),
        Misconception(
            "Divided by the scale",
            "λ multiplies. The distribution would be the same, the numbers are not.",
            _cape_positions(lambda t, d, e, s: (t + d + e) / s),
        ),
        Misconception(
            "Scale taken for its logarithm",
            "`scale` is λ itself.",
            _cape_positions(lambda t, d, e, s: np.exp(s) * (t + d + e)),
        ),
        Misconception(
            "Always normalized",
            "Normalize only with `normalize`.",
            lambda tau, d, e, s, normalize: cape_positions(tau, d, e, s, True),
        ),
        Misconception(
            "Never normalized",
            "With `normalize` the mean is subtracted first.",
            lambda tau, d, e, s, normalize: cape_positions(tau, d, e, s, False),
        ),
        Misconception(
            "Normalized at the end",
            "Your answer also removes the shift. The mean of the positions is "
            "subtracted first.",
            _last,
        ),
        Misconception(
            "Mean subtracted at the end",
            "The mean is subtracted before the scale multiplies.",
            lambda tau, d, e, s, normalize: (
                cape_positions(tau, d, e, s, False)
                - normalize * tau.mean(1, keepdims=True)
            ),
        ),
        Misconception(
            "Mean added again at the end",
            "The positions stay without their mean.",
            lambda tau, d, e, s, normalize: (
                cape_positions(tau, d, e, s, normalize)
                + normalize * tau.mean(1, keepdims=True)
            ),
        ),
        Misconception(
            "Middle of the first and the last position",
            "The mean of all positions is subtracted.",
            _cape_positions(mean=lambda tau: (tau[:, :1] + tau[:, -1:]) / 2),
        ),
        Misconception(
            "Jitter as a factor",
            "The jitter is added.",
            _cape_positions(lambda t, d, e, s: s * (t + d) * (1 + e)),
        ),
        Misconception(
            "Shift scaled twice",
            "The scale multiplies the whole bracket, once.",
            _cape_positions(lambda t, d, e, s: s * (t + s * d + e)),
        ),
        Misconception(
            "One jitter for all tokens",
            "Each token has a jitter of its own.",
            _cape_positions(lambda t, d, e, s: s * (t + d + e.mean(1, keepdims=True))),
        ),
        Misconception(
            "Another value in place of the mean",
            "The mean is subtracted, not the first position and not the median.",
            _cape_positions(mean=lambda tau: tau[:, :1]),
        ),
        Misconception(
            "Mean of all rows",
            "Each sequence has a mean of its own.",
            _cape_positions(mean=lambda tau: tau.mean()),
        ),
        Misconception(
            "Mean over the batch",
            "The mean is over the tokens, axis 1.",
            _cape_positions(mean=lambda tau: tau.mean(0, keepdims=True)),
        ),
        Misconception(
            "Divided by the standard deviation, too",
            "The mean is subtracted, and nothing else is done.",
            lambda tau, d, e, s, normalize: cape_positions(
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
            "Without jitter, shift and scale the positions stay as they are",
            lambda answer, tau, d, e, s, normalize: bool(
                np.allclose(answer(tau, 0 * d, 0 * e, 0 * s + 1, False), tau)
            ),
        ),
    ),
    explanation=r"""
{prf:ref}`The definition of CAPE <dfn-cape>` is $\lambda\, (\tau_i + \delta + \varepsilon_i)$: the scale multiplies the whole bracket.
Shift and scale are one number per sequence, so they get a new last axis; the jitter has a number for each token already.
The mean is taken along the tokens, for each sequence by itself, and before the random numbers are added, so that normalizing does not remove the shift.
""",
)


# randomized-positions-3: how much jitter


def most_jitter(tau):
    """Largest a such that jitter in ± a never reorders the positions ``tau``, a float.

    Jitter is a random number that is added to each position.
    """
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
Each of two neighbors may move by half of their distance.
""",
    cases=(
        (np.array([0.0, 1.0]),),
        (np.array([0.0, 1.5, 2.0]),),
        (np.array([3.0, 0.0, 1.75]),),
        (np.array([-4.0, 4.0, -1.5, 7.0]),),
        (np.array([0.0, 2.0, 3.0, 5.0]),),
        (np.array([9.5, 10.0, 2.0]),),
    ),
    solution=most_jitter,
    misconceptions=(
        Misconception(
            "Always one half",
            "One half is right for steps of 1.",
            lambda tau: 0.5,
        ),
        Misconception(
            "A whole step",
            "Both neighbors move, so each has half of the step.",
            _of_steps(np.min),
        ),
        Misconception(
            "Half of the first step",
            "Your jitter is too large if a later step is smaller.",
            _of_steps(lambda steps: steps[0] / 2),
        ),
        Misconception(
            "Half of the last step",
            "Your jitter is too large if an earlier step is smaller.",
            _of_steps(lambda steps: steps[-1] / 2),
        ),
        Misconception(
            "Half of the median step",
            "The smallest step must survive every jitter.",
            _of_steps(lambda steps: np.median(steps) / 2),
        ),
        Misconception(
            "Half of the largest step",
            "Your jitter loses the order at the smallest step.",
            _of_steps(lambda steps: steps.max() / 2),
        ),
        Misconception(
            "Half of the mean step",
            "The smallest step must survive every jitter.",
            _of_steps(lambda steps: steps.mean() / 2),
        ),
        Misconception(
            "Steps in the order given",
            "Neighbors are those on the line, so sort first.",
            lambda tau: float(np.abs(np.diff(tau)).min() / 2),
        ),
        Misconception(
            "Signed steps in the order given",
            "Neighbors are those on the line, so sort first.",
            lambda tau: float(np.diff(tau).min() / 2),
        ),
        Misconception(
            "A quarter of the step",
            "Half of it for each of the two is enough.",
            _of_steps(lambda steps: steps.min() / 4),
        ),
        Misconception(
            "Half of the range",
            "Only neighbors matter.",
            lambda tau: float(np.ptp(tau) / 2),
        ),
        Misconception(
            "A position compared with itself",
            "Its distance from itself is 0. Only the distances of two different "
            "positions count.",
            lambda tau: 0.0,
        ),
        Misconception(
            "First and last step alone",
            "Your jitter is too large if a step in the middle is smaller.",
            _of_steps(lambda steps: min(steps[0], steps[-1]) / 2),
        ),
        Misconception(
            "Sorted as text",
            'As texts "10.0" comes before "9.5". Sort numbers.',
            lambda tau: float(np.abs(np.diff(sorted(tau.tolist(), key=str))).min() / 2),
        ),
        Misconception(
            "Sorted from the largest",
            "Your steps are negative, and the smallest of them is the longest.",
            _of_steps(lambda steps: -steps.max() / 2),
        ),
        Misconception(
            "Positions without their signs",
            "−4 and 4 are eight apart.",
            lambda tau: most_jitter(np.abs(tau)),
        ),
        Misconception(
            "Step cut to a whole number",
            "Steps may be any numbers, such as 0.5.",
            _of_steps(lambda steps: int(steps.min()) / 2),
        ),
        Misconception(
            "Distances from the first position",
            "Any two positions may be the closest.",
            lambda tau: float(np.abs(tau[1:] - tau[0]).min() / 2),
        ),
        Misconception(
            "Half of the smallest position",
            "The steps between positions count, not the positions.",
            lambda tau: float(tau.min() / 2),
        ),
        Misconception(
            "Range divided by the number of positions",
            "The smallest step counts, not a mean. And there is one step fewer than "
            "there are positions.",
            lambda tau: float(np.ptp(tau) / len(tau) / 2),
        ),
        Misconception(
            "Positions rounded to one decimal",
            "Positions may be any numbers.",
            lambda tau: most_jitter(np.unique(np.round(tau, 1))),
        ),
        Misconception(
            "Smallest distance from 0",
            "The steps between positions count, not the positions.",
            lambda tau: float(np.abs(tau).min() / 2),
        ),
    ),
    explanation=r"""
Two neighbors on the line, $h$ apart, may move towards each other by $a$ each, and stay in order for $2a \le h$.
All others are farther apart, so the smallest step decides, and $a$ is half of it; "smallest" is taken after sorting, since the positions may come in any order.
With steps of 1 this is {prf:ref}`the theorem on half a step <thm-randomized-order>`, where $a = \frac12$.
""",
)


# randomized-positions-4: an ordered sample


def sampled_positions(noise, tokens):
    """Sample ``tokens`` different positions for each row of random ``noise``, sorted.

    ``noise``, [rows, most], has a random number for each position 0 … most − 1 of each
    row; the positions with the smallest numbers are sampled. The returned positions are
    [rows, tokens], int64.
    """
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
The index of the smallest number in a row, then that of the next one, and so on, are a shuffle of $0, \dots, M - 1$.
The first `tokens` entries of this shuffle are a sample in which no number occurs twice.
Return this sample for each row, the smallest number first: `[rows, tokens]`, int64.
""",
    hint=r"""
`argsort` gives the index of the smallest number, then that of the next.
Take as many indices as there are tokens, and sort them.
""",
    cases=tuple(
        (torch.tensor(draw(rows, most, seed=most)), tokens)
        for rows, most, tokens in ((1, 4, 2), (2, 6, 3), (3, 9, 5), (1, 3, 3))
    ),
    solution=sampled_positions,
    misconceptions=(
        Misconception(
            "Not sorted",
            "Tokens keep their order, so the first has the smallest position.",
            _of_order(lambda order, tokens: order[:, :tokens]),
        ),
        Misconception(
            "Sorted before the cut",
            "The smallest of all are 0, 1, 2, …: cut first, then sort.",
            _of_order(lambda order, tokens: order.sort(1).values[:, :tokens]),
        ),
        Misconception(
            "Largest position first",
            "The first token has the smallest position.",
            _of_order(lambda order, tokens: order[:, :tokens].sort(1).values.flip(1)),
        ),
        Misconception(
            "End of the shuffle",
            "The end is as good a sample, but the beginning is asked for.",
            lambda noise, tokens: (
                noise.argsort(1)[:, noise.shape[1] - tokens :].sort(1).values
            ),
        ),
        Misconception(
            "argsort applied twice",
            "One argsort is a shuffle. Two give the rank of each number.",
            _of_order(
                lambda order, tokens: order.argsort(1)[:, :tokens].sort(1).values
            ),
        ),
        Misconception(
            "Counted from 1",
            "Positions are 0 to M − 1.",
            _of_order(lambda order, tokens: order[:, :tokens].sort(1).values + 1),
        ),
        Misconception(
            "One sample for all rows",
            "Each row has noise of its own.",
            lambda noise, tokens: sampled_positions(
                noise[:1].repeat(len(noise), 1), tokens
            ),
        ),
        Misconception(
            "Evenly spaced positions",
            "Samples fill the range evenly only on average.",
            lambda noise, tokens: (
                torch.arange(tokens) * noise.shape[1] // tokens
            ).repeat(len(noise), 1),
        ),
        Misconception(
            "Noise sorted",
            "The places of the numbers are asked for, not the numbers.",
            lambda noise, tokens: noise.sort(1).values[:, :tokens].long(),
        ),
        Misconception(
            "Places in the second sort",
            "The indices themselves are asked for, not their order.",
            _of_order(lambda order, tokens: order[:, :tokens].argsort(1)),
        ),
        Misconception(
            "Ranks of the first numbers",
            "One argsort is a shuffle. Two give the rank of each number.",
            _of_order(lambda order, tokens: order.argsort(1)[:, :tokens]),
        ),
        Misconception(
            "Cut before the shuffle",
            "The shuffle is one of all M numbers. Only its first entries are taken.",
            lambda noise, tokens: noise[:, :tokens].argsort(1),
        ),
        Misconception(
            "Noise multiplied by M",
            "The noise decides the order alone. Its size is no position.",
            lambda noise, tokens: (
                (noise[:, :tokens] * noise.shape[1]).long().sort(1).values
            ),
        ),
        Misconception(
            "Sorted along the batch",
            "Each row is a shuffle of its own: sort along axis 1.",
            lambda noise, tokens: noise.argsort(0)[:, :tokens].sort(1).values,
        ),
    ),
    level="optional",
    explanation=r"""
`argsort` of random numbers is a random permutation, so its first entries are a sample without replacement, and every set has the same probability, as {prf:ref}`the definition of randomized positions <dfn-randomized>` asks.
The sample is sorted because the tokens must keep their order.
If it is sorted before the cut, it is $0, 1, 2, \dots$ in every row, and nothing is random.
""",
)


# randomized-positions-5: the offsets of PoSE


def offsets(n, cut, skip):
    """Number of (token, earlier token) pairs at each PoSE offset, int64, [n + skip].

    PoSE adds ``skip`` to the positions of the ``n`` tokens from token ``cut`` on.
    """
    i = np.arange(n)
    positions = np.where(i < cut, i, i + skip)
    found = (positions[:, None] - positions)[i[:, None] > i]
    return np.bincount(found, minlength=n + skip)


def _offsets(
    position,
    pairs=lambda n: [(i, j) for i in range(n) for j in range(i)],
    offset=lambda later, earlier: later - earlier,
):
    def answer(n, cut, skip):
        positions = [position(i, cut, skip) for i in range(n)]
        counts = np.zeros(n + skip, dtype=np.int64)
        for i, j in pairs(n):
            counts[offset(positions[i], positions[j])] += 1
        return counts

    return answer


def _in_chunk(n, cut, skip):
    counts = np.zeros(n + skip, dtype=np.int64)
    for size in (cut, n - cut):
        counts[1:size] += np.arange(size - 1, 0, -1)
    return counts


def _right(i, cut, skip):
    return i if i < cut else i + skip


OFFSETS = Exercise(
    name="randomized-positions-5",
    title="The offsets of PoSE",
    kind="experiment",
    minutes=8,
    lines=2,
    statement=r"""
Of `n` tokens the first `cut` keep their positions, and the positions of the others are shifted by `skip`.
Return the number of pairs of a token and an *earlier* one for each offset, from 0 on: integers, `[n + skip]`.
Try n = 16 and a skip of 40: which offsets occur in no pair, and for which cut are they most?
""",
    hint=r"""
Compute the positions first.
`np.bincount` counts.
""",
    cases=((3, 1, 2), (4, 2, 0), (6, 3, 10), (7, 2, 5), (1, 1, 4), (160, 80, 3)),
    solution=offsets,
    misconceptions=(
        Misconception(
            "Offset 0 counted",
            "An earlier token is asked for, not the same one.",
            _offsets(
                _right, lambda n: [(i, j) for i in range(n) for j in range(i + 1)]
            ),
        ),
        Misconception(
            "Later tokens counted, too",
            "Each pair counts once: a token and an earlier one.",
            lambda n, cut, skip: 2 * offsets(n, cut, skip),
        ),
        Misconception(
            "Only neighbors",
            "All pairs of a token and an earlier one count.",
            _offsets(_right, lambda n: [(i, i - 1) for i in range(1, n)]),
        ),
        Misconception(
            "Only from the first token",
            "All pairs of a token and an earlier one count.",
            _offsets(_right, lambda n: [(i, 0) for i in range(1, n)]),
        ),
        Misconception(
            "Only from the last token",
            "All pairs of a token and an earlier one count.",
            _offsets(_right, lambda n: [(n - 1, j) for j in range(n - 1)]),
        ),
        Misconception(
            "Cut one token later",
            "The token at the cut is shifted, too.",
            _offsets(lambda i, cut, skip: i if i <= cut else i + skip),
        ),
        Misconception(
            "First chunk shifted",
            "The tokens before the cut stay.",
            _offsets(lambda i, cut, skip: i + skip if i < cut else i),
        ),
        Misconception(
            "All tokens shifted, or none",
            "Without a cut no offset changes. The tokens before it stay, the others "
            "are shifted.",
            _offsets(lambda i, cut, skip: i + skip),
        ),
        Misconception(
            "Second chunk placed at `skip`",
            "The second chunk is shifted by `skip`, so it starts at cut + skip.",
            _offsets(lambda i, cut, skip: i if i < cut else i - cut + skip),
        ),
        Misconception(
            "Only pairs across the cut",
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
            "Only pairs within a chunk",
            "Pairs across the cut count, too.",
            _in_chunk,
        ),
        Misconception(
            "Only offsets that the shift changes",
            "Pairs of one chunk count, too, and without a shift all pairs.",
            lambda n, cut, skip: (
                (offsets(n, cut, skip) - _in_chunk(n, cut, skip)) * (skip > 0)
            ),
        ),
        Misconception(
            "Only offsets that the shift does not change",
            "Pairs across the cut count, too.",
            lambda n, cut, skip: (
                _in_chunk(n, cut, skip) if skip else offsets(n, cut, skip)
            ),
        ),
        Misconception(
            "Shift in the wrong direction, and signs dropped",
            "The tokens from the cut on are shifted to larger positions.",
            _offsets(
                lambda i, cut, skip: i + skip if i < cut else i,
                offset=lambda later, earlier: abs(later - earlier),
            ),
        ),
        Misconception(
            "Second chunk placed at `skip`, and signs dropped",
            "The second chunk is shifted by `skip`, so it starts at cut + skip.",
            _offsets(
                lambda i, cut, skip: i if i < cut else i - cut + skip,
                offset=lambda later, earlier: abs(later - earlier),
            ),
        ),
        Misconception(
            "Positions counted",
            "Count the differences of two positions, not the positions.",
            lambda n, cut, skip: np.bincount(
                [_right(i, cut, skip) for i in range(n)], minlength=n + skip
            ),
        ),
        Misconception(
            "Integers of 8 bits",
            "An integer of 8 bits ends at 127. Counts may be larger.",
            lambda *case: offsets(*case).astype(np.int8),
        ),
        Misconception(
            "0 or 1 in place of counts",
            "Count the pairs of each offset.",
            lambda *case: (offsets(*case) > 0).astype(np.int64),
        ),
        Misconception(
            "All pairs in both directions, and a token with itself",
            "Each pair counts once, and no token is earlier than itself.",
            lambda n, cut, skip: (
                2 * offsets(n, cut, skip) + n * (np.arange(n + skip) == 0)
            ),
        ),
    ),
    explanation=r"""
By {prf:ref}`the theorem on the offsets of two chunks <thm-randomized-pose>` the offsets within a chunk go up to $\max(b, n - b) - 1$, where $b$ is the cut, and those across the cut are $u + 1, \dots, u + n - 1$, where $u$ is the skip.
For $n = 16$ and $u = 40$ the offsets from $\max(b, 16 - b)$ to 40 occur in no pair (and 0, since a token is not earlier than itself).
They are most for $b = 8$, where the longer chunk is shortest: the 33 offsets 8 to 40; for $b = 1$ they are the 26 offsets 15 to 40.
With a window of $2n - 1$ or more, as here, a single draw never has all offsets; the draws together have.
""",
    prediction=Prediction(
        "How many of the offsets 1 to 55 occur in no pair for n = 16, a cut of 8 and "
        "a skip of 40?",
        lambda: int((offsets(16, 8, 40)[1:] == 0).sum()),
        near=0.1,
    ),
)


# randomized-positions-6: the mean position of a token


def mean_position(k, n, most):
    """Mean of the k-th smallest of n random numbers, a Rational.

    The numbers are different integers from 0 to ``most`` − 1, and k counts from 0.
    """
    return sp.Rational((k + 1) * (most + 1), n + 1) - 1


MEAN = Exercise(
    name="randomized-positions-6",
    title="The mean position of a token",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: a set of $n$ of the numbers $0, \dots, M - 1$ is drawn, all sets with the same probability.
What is the mean of the $k$-th smallest, $k$ counted from 0?
Return it for integers `k`, `n` and `most`, which is $M$, as a SymPy `Rational`.
""",
    hint=r"""
The $n$ numbers leave $n + 1$ gaps, including those before the first and after the last number.
By symmetry all gaps have the same mean, and gaps and numbers together fill the range.
""",
    cases=((0, 1, 3), (0, 2, 4), (0, 2, 5), (1, 2, 5), (3, 4, 9), (2, 7, 30)),
    solution=mean_position,
    misconceptions=(
        Misconception(
            "Positions counted from 1",
            "Your answer is right for positions 1 to M. Here they begin with 0.",
            lambda k, n, most: sp.Rational((k + 1) * (most + 1), n + 1),
        ),
        Misconception(
            "k counted from 1",
            "The smallest has k = 0.",
            lambda k, n, most: sp.Rational(k * (most + 1), n + 1) - 1,
        ),
        Misconception(
            "k and positions counted from 1",
            "The smallest has k = 0, and positions begin with 0.",
            lambda k, n, most: sp.Rational(k * (most + 1), n + 1),
        ),
        Misconception(
            "Evenly from the start",
            "There is a gap before the first, too.",
            lambda k, n, most: sp.Rational(k * most, n),
        ),
        Misconception(
            "Even steps from 0 to M − 1",
            "The first need not be 0, and the last need not be M − 1.",
            lambda k, n, most: sp.Rational(k * (most - 1), max(n - 1, 1)),
        ),
        Misconception(
            "Even steps from 0 to M − 1, and the middle for one number",
            "The first need not be 0, and the last need not be M − 1.",
            lambda k, n, most: (
                sp.Rational(k * (most - 1), n - 1)
                if n > 1
                else sp.Rational(most - 1, 2)
            ),
        ),
        Misconception(
            "Middles of equal parts",
            "The gaps at the ends are as wide as the others.",
            lambda k, n, most: (
                sp.Rational((2 * k + 1) * most, 2 * n) - sp.Rational(1, 2)
            ),
        ),
        Misconception(
            "Mean of a continuous range",
            "Positions are whole numbers, and none is drawn twice.",
            lambda k, n, most: sp.Rational((k + 1) * most, n + 1),
        ),
        Misconception(
            "Mean of a continuous range, less 1",
            "The factor has M + 1, since the numbers themselves take places.",
            lambda k, n, most: sp.Rational((k + 1) * most, n + 1) - 1,
        ),
        Misconception(
            "n gaps",
            "There is one more gap, after the last number.",
            lambda k, n, most: sp.Rational((k + 1) * (most + 1), n) - 1,
        ),
        Misconception(
            "k-th largest",
            "The k-th smallest is asked for.",
            lambda k, n, most: sp.Rational((n - k) * (most + 1), n + 1) - 1,
        ),
        Misconception(
            "Mean of all numbers",
            "Each of the n numbers has a mean of its own.",
            lambda k, n, most: sp.Rational(most - 1, 2),
        ),
    ),
    properties=(
        Property(
            "With n = M each number is at its own position",
            lambda answer, k, n, most: all(
                answer(place, 4, 4) == place for place in range(4)
            ),
        ),
    ),
    level="optional",
    explanation=r"""
Put $M + 1$ places on a circle and draw $n + 1$ of them: one is the place where the circle is cut open, the others are the sample.
The $n + 1$ gaps from each drawn place to the next add up to $M + 1$, and by symmetry each has the mean $\frac{M + 1}{n + 1}$.
The $k$-th number, counted from 0, is $k + 1$ gaps from the cut, and the first place after the cut is number 0, so the mean is $\frac{(k + 1)(M + 1)}{n + 1} - 1$.
On average a text therefore fills the range of {prf:ref}`randomized positions <dfn-randomized>` evenly, whatever its length.
""",
)


# randomized-positions-7: neighbors in the list and neighbors on the line


def colleagues_jitter(tau):
    """Largest a with which jitter in ± a keeps order.

    The order is that of the positions ``tau``.
    """
    steps = np.abs(tau[1:] - tau[:-1])
    return float(steps.min()) / 2


def positions_that_differ():
    """Return positions for which `colleagues_jitter` is wrong."""
    return np.array([1.0, 3.0, 0.0])


def _no_order(tau):
    if type(tau) is not np.ndarray or tau.dtype.kind not in "if" or tau.ndim != 1:
        return "tau is an array [tokens] of numbers"
    if len(tau) < 2 or not np.isfinite(tau).all():
        return "there are two or more positions, all of them finite"
    is_whole = (tau == np.abs(tau // 1)).all() and len(set(tau)) == len(tau)
    return "" if is_whole else "positions are different whole numbers from 0 on"


ORDER = Exercise(
    name="randomized-positions-7",
    title="Find the input: neighbors",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_jitter` should do what exercise randomized-positions-3 asks for.
She has tested it with the positions 0, 2, 5, with 5, 2, 0, and with 0, 2, 1; all of these tests pass.
Find an array `tau` of different whole numbers from 0 on for which it is wrong, with the largest number as small as possible.
Why does 0, 2, 1, which is not sorted, not show the mistake?
""",
    hint=r"""
She must not see the smallest step: the two positions that are next to each other on the line must not be next to each other in the array.
""",
    cases=((),),
    solution=positions_that_differ,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_jitter,
        right=most_jitter,
        tested=(
            (np.array([0.0, 2.0, 5.0]),),
            (np.array([5.0, 2.0, 0.0]),),
            (np.array([0.0, 2.0, 1.0]),),
        ),
        refusal=_no_order,
        size=lambda tau: int(tau.max()),
        size_of="largest position",
    ),
    explanation=r"""
She takes neighbors in the array for neighbors on the line.
In 0, 2, 1 the smallest step, from 1 to 2, happens to be between neighbors in the array, so her minimum is right.
Among 0, 1 and 2 this is always so: only 0 and 2 are more than 1 apart, and three numbers have two steps.
With 3 there is room: in 1, 3, 0 her steps are 2 and 3, so she allows a jitter of 1, though 0 and 1 allow only ½.
""",
)


# randomized-positions-8: coupled ids of a written sum


def coupled_ids(text, start):
    """Ids of position coupling for the characters of ``text``, an integer array.

    ``text`` is like "17+385=204": summands as we write them, the sum reversed.
    """
    before, after = text.split("=")
    n = max(len(number) for number in before.split("+"))
    ids = []
    for number in before.split("+"):
        ids += [n - j for j in reversed(range(len(number)))]
        ids += [n + 1]
    ids += [n - j for j in range(len(after))]
    return np.array(ids) + start


def _coupled_ids(summand=None, total=None, operator=None, longest=max):
    """Make a wrong answer (a function) to the exercise ``coupled_ids``.

    ``summand(j, n, own)`` and ``total(j, n, own)`` replace the id of a digit of
    significance j before the start is added, ``own`` being the length of its number;
    ``operator(n)`` replaces that of + and =. ``longest`` makes n from the lengths of
    the summands. None leaves an id right.
    """
    summand, total = (
        (lambda j, n, own: n - j) if of is None else of for of in (summand, total)
    )

    def answer(text, start):
        before, after = text.split("=")
        numbers = before.split("+")
        n = longest([len(number) for number in numbers])
        between, ids = n + 1 if operator is None else operator(n), []
        for number in numbers:
            own = len(number)
            ids += [summand(j, n, own) for j in reversed(range(own))] + [between]
        ids += [total(j, n, len(after)) for j in range(len(after))]
        return np.array(ids) + start

    return answer


def _operators_zero(text, start):
    ids = coupled_ids(text, start)
    return np.where([c.isdigit() for c in text], ids, 0)


COUPLED = Exercise(
    name="randomized-positions-8",
    title="One id for all units",
    kind="NumPy",
    minutes=12,
    lines=8,
    statement=r"""
Return the ids that {prf:ref}`position coupling <dfn-coupling>` gives to the characters of a sum, as an integer array.
`text` is like `"17+385=204"`: two or more summands as we write them, and the sum least digit first, of which the last digits may still be missing.
Every character is a digit, + or =.
`start` is $s$.
Which characters would have to know the length of the sum if it were written as we write it?
""",
    hint=r"""
First find $n$, the length of the longest summand.
In a summand the significance falls from left to right, in the sum it rises.
""",
    cases=(
        ("1+2=3", 1),
        ("17+385=204", 1),
        ("17+385=2040", 5),
        ("9+999=8001", 3),
        ("385+17=", 2),
        ("12+34=6", 4),
        ("1+22+333=653", 1),
    ),
    solution=coupled_ids,
    misconceptions=(
        Misconception(
            "Counted from the left",
            "Your summands' ids begin anew at their first digits, so units of numbers "
            "of different lengths have different ids.",
            _coupled_ids(summand=lambda j, n, own: own - j),
        ),
        Misconception(
            "The sum in reading order",
            "The sum is written least digit first.",
            _coupled_ids(total=lambda j, n, own: n - (own - 1 - j)),
        ),
        Misconception(
            "Ids that rise in the sum",
            "In the sum the significance rises from left to right, so ids fall.",
            _coupled_ids(total=lambda j, n, own: 1 + j),
        ),
        Misconception(
            "Ids that rise with the significance",
            "Units have the largest id of all digits here, n above that of place n.",
            _coupled_ids(*(lambda j, n, own: j + 1,) * 2, operator=lambda n: 0),
        ),
        Misconception(
            "Operators without an id",
            "Operators belong to the equation; = predicts the units.",
            _operators_zero,
        ),
        Misconception(
            "Operators with the id of units",
            "Operators have one more than units.",
            _coupled_ids(operator=lambda n: n),
        ),
        Misconception(
            "Operators below all digits",
            "Operators have n + 1 before the start is added.",
            _coupled_ids(operator=lambda n: 0),
        ),
        Misconception(
            "Start less 1",
            "The start is added as it is.",
            lambda text, start: coupled_ids(text, start - 1),
        ),
        Misconception(
            "Length of the first summand",
            "n is the length of the longest summand, wherever it stands.",
            _coupled_ids(longest=lambda lengths: lengths[0]),
        ),
        Misconception(
            "Length of the last summand",
            "n is the length of the longest summand, wherever it stands.",
            _coupled_ids(longest=lambda lengths: lengths[-1]),
        ),
        Misconception(
            "Shortest summand",
            "n is the length of the longest summand.",
            _coupled_ids(longest=min),
        ),
        Misconception(
            "Places in the text",
            "Your ids count characters; here digits of equal significance share one.",
            lambda text, start: np.arange(len(text)) + start,
        ),
    ),
    properties=(
        Property(
            "More digits of the sum change no id before them",
            lambda answer, text, start: all(
                answer(("7+8=51")[:cut], 1)[i] == answer("7+8=51", 1)[i]
                for cut in (4, 5)
                for i in range(cut)
            ),
        ),
    ),
    explanation=r"""
A summand's digit knows its significance from the digits behind it, which are there when the model begins to write; a digit of the sum knows it from those before it.
So ids can be given while the sum is being written.
If the sum were written as we write it, the significance of its first digit would depend on how many follow: every digit of the sum, and no other character, would have to know the length in advance.
This is why it is written least digit first, {prf:ref}`thm-coupling-carry`.
""",
)


# randomized-positions-9: the next digit of a sum


def next_digit(a, b, d):
    """The next digit of the sum of ``a`` and ``b``, given its digits ``d`` so far.

    All are arrays of digits, least digit first; returns an int.
    """
    j = len(d)
    carry = j > 0 and a[j - 1] + b[j - 1] - d[j - 1] >= 9
    here = a[j] + b[j] if j < len(a) else 0
    return int(here + carry) % 10


def _next_digit(carry=None, end=None):
    """Make a wrong answer (a function) to the exercise ``next_digit``.

    ``carry(x, y, z)`` replaces the carry out of a place with the digits x and y of the
    summands and z of the sum; ``end(carry)`` the digit behind the last place.
    """

    def answer(a, b, d):
        j = len(d)
        rule = carry or (lambda x, y, z: x + y - z >= 9)
        out = int(j > 0 and rule(a[j - 1], b[j - 1], d[j - 1]))
        if j == len(a):
            return out if end is None else end(out)
        return int(a[j] + b[j] + out) % 10

    return answer


def _from_the_start(a, b, d):
    carry = 0
    for x, y in zip(a[: len(d)], b[: len(d)], strict=True):
        carry = (x + y + carry) // 10
    here = a[len(d)] + b[len(d)] if len(d) < len(a) else 0
    return int(here + carry) % 10


def _two_digits(a, b, d):
    j = len(d)
    carry = j > 0 and a[j - 1] + b[j - 1] - d[j - 1] >= 9
    return int((a[j] + b[j] if j < len(a) else 0) + carry)


def _own_place(a, b, d):
    j = len(d)
    if j == len(a):
        return int(a[-1] + b[-1] >= 10)
    here = int(a[j] + b[j])
    return (here + (here >= 10)) % 10


def _digits(*numbers):
    return tuple(np.array(number, dtype=int) for number in numbers)


NEXT = Exercise(
    name="randomized-positions-9",
    title="A carry from one place back",
    kind="NumPy",
    minutes=12,
    lines=4,
    statement=r"""
A model writes the sum of two numbers, least digit first.
`a` and `b` are integer arrays of the digits of the summands, as many of each, least digit first; `d` has the digits of the sum that are written.
Return the next one, an `int`.
Read no other digits than those of the place before and of the new place.
All digits of the place before are possible ones: with a carry into it or without.
But `d` may have a mistake; then the next digit goes on from what is written.
After the last place of the summands one more digit is asked for.
How far back does a mistake come from that changes the digit?
""",
    hint=r"""
List $a_j + b_j - d_j$ for all that can happen in a place: with and without a carry into it, with and without one out of it.
""",
    cases=(
        _digits([2], [3], []),
        _digits([2], [3], [5]),
        _digits([7], [5], []),
        _digits([7, 1], [5, 2], [2]),
        _digits([7, 9, 1], [5, 0, 1], [2, 0]),
        _digits([5, 5, 0], [5, 9, 0], [0, 5]),
        _digits([0, 9], [0, 0], [0]),
        _digits([4, 1], [5, 1], [9]),
        _digits([9, 9], [1, 0], [0, 0]),
        _digits([9, 9, 1], [1, 0, 1], [0, 9]),
        _digits([1, 9, 3], [1, 0, 3], [2, 0]),
        _digits([8, 1, 1], [7, 1, 1], [5, 3]),
        _digits([8, 9, 9], [7, 9, 9], [5, 9, 9]),
    ),
    solution=next_digit,
    misconceptions=(
        Misconception(
            "Carry only from 10 on",
            "Your carry misses the places into which a carry came.",
            _next_digit(lambda x, y, z: x + y - z >= 10),
        ),
        Misconception(
            "Carry by the summands alone",
            "Two digits that add up to 9 carry if a carry came in.",
            _next_digit(lambda x, y, z: x + y >= 10),
        ),
        Misconception(
            "Carry from 9 on",
            "Two digits that add up to 9 carry only if a carry came in.",
            _next_digit(lambda x, y, z: x + y >= 9),
        ),
        Misconception(
            "A sum's digit below a summand's",
            "With a carry into it a place may carry and have the same digit.",
            _next_digit(lambda x, y, z: z < x),
        ),
        Misconception(
            "A sum's digit at most a summand's",
            "Without a carry a sum has the digit of one summand if the other is 0.",
            _next_digit(lambda x, y, z: z <= x),
        ),
        Misconception(
            "Carry from any difference",
            "a + b − d is −1 where a carry came in and none goes out.",
            _next_digit(lambda x, y, z: x + y != z),
        ),
        Misconception(
            "All carries computed anew",
            "You add from the first place on; the next digit goes on from what is "
            "written in the place before.",
            _from_the_start,
        ),
        Misconception(
            "No carry",
            "A carry comes from the place before.",
            _next_digit(lambda x, y, z: False),
        ),
        Misconception(
            "Two digits",
            "Only the last digit of a place's sum is written.",
            _two_digits,
        ),
        Misconception(
            "Carry of the new place",
            "The carry comes out of the place before.",
            _own_place,
        ),
        Misconception(
            "The last carry lost",
            "Behind the last place the carry itself is written.",
            _next_digit(end=lambda carry: 0),
        ),
        Misconception(
            "Always 1 at the end",
            "Behind the last place 0 is written where no carry comes out of it.",
            _next_digit(end=lambda carry: 1),
        ),
    ),
    explanation=r"""
With $\kappa$ for carries, $a_j + b_j + \kappa_j = d_j + 10 \kappa_{j+1}$, so $a_j + b_j - d_j$ is $-1$ or 0 without a carry out of the place, and 9 or 10 with one.
The three digits of the place before tell the carry, {prf:ref}`thm-coupling-carry`, and no older digit is needed.
A mistake in the place before can change the digit, as in 199 + 101 with the digits 0, 9; one farther back cannot, unless it changes a digit on the way.
""",
)


# randomized-positions-10: how often an id is trained


def share_of_shifts(t, digits, most):
    """Probability that a number of ``digits`` digits has the id t: a Rational.

    Its ids are 1 to ``digits`` plus a shift, which is uniform in 0 to ``most``.
    """
    first, last = max(0, t - digits), min(most, t - 1)
    return sp.Rational(max(0, last - first + 1), most + 1)


def _share(first=None, last=None, number=None, total=None):
    """Make a wrong answer (a function) to the exercise ``share_of_shifts``.

    ``first`` and ``last`` replace the first and the last shift, ``total`` the number of
    all shifts, each a function of the exercise's arguments; ``number(first, last)``
    replaces the number of shifts from the first to the last.
    """
    first = first or (lambda t, digits, most: max(0, t - digits))
    last = last or (lambda t, digits, most: min(most, t - 1))
    number = number or (lambda low, high: max(0, high - low + 1))
    total = total or (lambda t, digits, most: most + 1)

    def answer(t, digits, most):
        given = t, digits, most
        return sp.Rational(number(first(*given), last(*given)), total(*given))

    return answer


SHARE = Exercise(
    name="randomized-positions-10",
    title="Ids that are rarely trained",
    kind="by hand",
    minutes=10,
    lines=2,
    statement=r"""
On paper: {prf:ref}`Abacus <dfn-abacus>` gives the digits of a number of $L$ digits the ids $1 + k, \dots, L + k$, with $k$ uniform in $0, \dots, K$.
With what probability is $t \ge 1$ among them?
Return it for integers `t`, `digits`, which is $L$, and `most`, which is $K$, as a SymPy `Rational`.
Which ids of a test without a shift are the rarest in training, and which digits have them?
""",
    hint=r"""
Which shifts give some digit the id $t$?
They are consecutive; where does the first one begin, where does the last one end?
""",
    cases=(
        (1, 1, 0),
        (1, 3, 4),
        (3, 3, 4),
        (4, 3, 4),
        (7, 3, 4),
        (8, 3, 4),
        (12, 3, 4),
        (3, 6, 2),
        (2, 6, 2),
        (60, 20, 99),
        (119, 20, 99),
    ),
    solution=share_of_shifts,
    misconceptions=(
        Misconception(
            "K shifts",
            "The shifts are 0 to K, which are K + 1.",
            _share(total=lambda t, digits, most: max(1, most)),
        ),
        Misconception(
            "All ids alike",
            "The first and the last ids occur with few shifts.",
            lambda t, digits, most: sp.Rational(min(digits, most + 1), most + 1),
        ),
        Misconception(
            "One shift for each id",
            "An id is that of another digit with each shift.",
            lambda t, digits, most: sp.Rational(int(t <= digits + most), most + 1),
        ),
        Misconception(
            "Uniform over all ids",
            "A text has several ids, and not all ids equally often.",
            lambda t, digits, most: sp.Rational(
                digits * (t <= digits + most), digits + most
            ),
        ),
        Misconception(
            "Ids counted from 0",
            "Without a shift the first digit has the id 1.",
            _share(
                first=lambda t, digits, most: max(0, t - digits + 1),
                last=lambda t, digits, most: min(most, t),
            ),
        ),
        Misconception(
            "The last digit forgotten",
            "The shift t − L gives the last digit the id t.",
            _share(first=lambda t, digits, most: max(0, t - digits + 1)),
        ),
        Misconception(
            "The first digit forgotten",
            "The shift t − 1 gives the first digit the id t.",
            _share(last=lambda t, digits, most: min(most, t - 2)),
        ),
        Misconception(
            "Difference of the ends",
            "From the first to the last shift there is one more than their difference.",
            _share(number=lambda low, high: max(0, high - low)),
        ),
        Misconception(
            "Negative shifts",
            "Shifts are at least 0.",
            _share(first=lambda t, digits, most: t - digits),
        ),
        Misconception(
            "Shifts above K",
            "Shifts are at most K.",
            _share(last=lambda t, digits, most: t - 1),
        ),
        Misconception(
            "A negative probability",
            "Beyond L + K no shift gives the id; the probability is 0.",
            _share(number=lambda low, high: high - low + 1),
        ),
        Misconception(
            "L and K exchanged",
            "L is the number of digits, K the largest shift.",
            lambda t, digits, most: sp.Rational(
                max(0, min(digits, t - 1) - max(0, t - most) + 1), digits + 1
            ),
        ),
    ),
    properties=(
        Property(
            "The probabilities of all ids add up to the number of digits",
            lambda answer, t, digits, most: (
                sum(answer(place, 3, 4) for place in range(1, 9)) == 3
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The digit in place $p$ has the id $t$ with the shift $t - p$, so the shifts are those from $t - L$ to $t - 1$ that lie in $0, \dots, K$: $\min(K, t - 1) - \max(0, t - L) + 1$ of $K + 1$, {prf:ref}`thm-abacus-share`.
Id 1 is trained with one shift in $K + 1$ alone, id 2 with two.
In a test without a shift these are the ids of the units, which every number has, and of the tens.
""",
)


SHEET = Sheet(
    title="Randomized and augmented positions",
    conventions=r"""
$\tau$ are positions, $\delta$ is the shift and $D$ its largest size, and λ is the scale.
Randomized positions are drawn from $0, \dots, M - 1$, and everything counts from 0.
""",
    example=r"""
from posedu.numpy.absolute import randomized

sample = np.array([[5, 0, 9], [2, 3, 1]])
print(randomized([0, 1, 2], sample=sample))
""",
    figure="cape_explorable",
    exercises=(
        PRODUCT,
        CAPE_POSITIONS,
        MOST,
        SAMPLE,
        OFFSETS,
        MEAN,
        ORDER,
        COUPLED,
        NEXT,
        SHARE,
    ),
)
