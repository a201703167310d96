"""Exercises on length extrapolation."""

from itertools import pairwise

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)

# length-extrapolation-1: pairs that complete a turn


def pairs_with_full_turn(d, base, length):
    """Return how many of RoPE's pairs make a full turn from first to last token.

    The number is an int. ``d`` is the head dimension, ``base`` RoPE's base, ``length``
    the number of tokens.
    """
    omega = base ** (-2 * np.arange(d // 2) / d)
    return int((omega * (length - 1) >= 2 * np.pi).sum())


def _count(turn=2 * np.pi, last=-1, exponent=lambda p, d: -2 * p / d, first=0):
    def answer(d, base, length):
        p = np.arange(first, d // 2 + first)
        return int((base ** exponent(p, d) * (length + last) >= turn).sum())

    return answer


FULL_TURNS = Exercise(
    name="length-extrapolation-1",
    title="Pairs that complete a turn",
    kind="NumPy",
    minutes=6,
    lines=2,
    statement=r"""
Training texts have `length` tokens.
How many of RoPE's pairs, of head dimension `d` and with this `base`, make at least one full turn between the first token and the last?
""",
    hint=r"""
The largest offset is one less than the number of tokens, and a full turn is $2\pi$.
""",
    cases=(
        (4, 10000.0, 8),
        (4, 10000.0, 7),
        (8, 10000.0, 64),
        (8, 10000.0, 630),
        (64, 10000.0, 4096),
        (128, 500000.0, 8192),
        (128, 500000.0, 1),
        (8, 10.0, 1000),
    ),
    solution=pairs_with_full_turn,
    misconceptions=(
        Misconception(
            "Number of tokens taken for the largest offset",
            "From the first to the last of 7 tokens there are 6 steps, 6 radians for "
            "the fastest pair. That is not yet a full turn.",
            _count(last=0),
        ),
        Misconception(
            "Full turn of one radian",
            "A full turn is 2π radians.",
            _count(turn=1.0),
        ),
        Misconception(
            "Half a turn taken for a full one",
            "After π a pair points in the opposite direction. A full turn is 2π.",
            _count(turn=np.pi),
        ),
        Misconception(
            "Missing factor 2 in the exponent",
            "The frequency of pair p is base^(−2p/d): there are d/2 pairs, and for "
            "large d the last frequency comes near 1/base.",
            _count(exponent=lambda p, d: -p / d),
        ),
        Misconception(
            "Pairs counted from 1",
            "The fastest pair has p = 0 and the frequency 1.",
            _count(first=1),
        ),
        Misconception(
            "Pairs without a full turn counted",
            "The other pairs are asked for.",
            lambda d, base, length: d // 2 - pairs_with_full_turn(d, base, length),
        ),
        Misconception(
            "A frequency for each feature",
            "d features are d/2 pairs, so p ends at d/2 − 1. With a small base further "
            "frequencies would make full turns, too.",
            lambda d, base, length: int(
                (base ** (-2 * np.arange(d) / d) * (length - 1) >= 2 * np.pi).sum()
            ),
        ),
        Misconception(
            "Features counted, not pairs",
            "Two features make one pair.",
            lambda d, base, length: 2 * pairs_with_full_turn(d, base, length),
        ),
        Misconception(
            "Base taken for the longest turn",
            "A full turn of a pair takes 2π/ω tokens: 6.28 for the fastest, "
            "2π base^((d − 2)/d) for the slowest.",
            _count(turn=1.0, last=0),
        ),
        Misconception(
            "All pairs counted",
            "Slow pairs make no full turn in a short text. Compare ω · (length − 1) "
            "with 2π.",
            lambda d, base, length: d // 2,
        ),
        Misconception(
            "Frequencies down to 1/base",
            "The last pair has the exponent −(d − 2)/d, not −1.",
            _count(exponent=lambda p, d: -p / max(d // 2 - 1, 1)),
        ),
        Misconception(
            "Missing minus sign in the exponent",
            "Frequencies fall: base^(−2p/d).",
            _count(exponent=lambda p, d: 2 * p / d),
        ),
        Misconception(
            "Turns counted, not pairs",
            "The number of pairs is asked for, not that of their turns.",
            lambda d, base, length: int(
                (base ** (-2 * np.arange(d // 2) / d) * (length - 1)).sum()
                // (2 * np.pi)
            ),
        ),
        Misconception(
            "Base 10,000, whatever `base` is",
            "The base is an argument. With a larger one no more pairs make a full turn.",
            lambda d, base, length: pairs_with_full_turn(d, 10000.0, length),
        ),
        Misconception(
            "Whole turns of all pairs added",
            "How many pairs make a turn is asked for, not how many turns they make together.",
            lambda d, base, length: int(
                (
                    (base ** (-2 * np.arange(d // 2) / d) * (length - 1)) // (2 * np.pi)
                ).sum()
            ),
        ),
        Misconception(
            "Whole division in the exponent",
            "`//` rounds the exponent to a whole number. Divide with `/`.",
            _count(exponent=lambda p, d: -2 * p // d),
        ),
    ),
    explanation=r"""
The largest offset is $L - 1$, and pair $p$ makes a full turn if $\omega_p\,(L - 1) \ge 2\pi$.
{prf:ref}`The chapter's definition <def-extrapolation-box>` counts in this way, and its first step solves the condition for $p$.
With base 500,000 and 8192 tokens, 35 of 64 pairs make a full turn; with base 10,000 and half as many tokens it is 46.
All other pairs can meet new angles in a longer text.
""",
    prediction=Prediction(
        "The head dimension is 128, the base 500,000, and texts have 8192 tokens. How many of the 64 pairs make a full turn?",
        lambda: pairs_with_full_turn(128, 500000.0, 8192),
        near=0.06,
    ),
)


# length-extrapolation-2: a base for a length


def base_for(d, length):
    """Return RoPE's base for which the slowest pair makes one full turn, in SymPy.

    The turn is made from the first to the last of ``length`` tokens; ``d`` is the head
    dimension.
    """
    return ((length - 1) / (2 * sp.pi)) ** (sp.Integer(d) / (d - 2))


def _base(exponent=lambda d: sp.Integer(d) / (d - 2), last=1, turn=2 * sp.pi):
    return lambda d, length: ((length - last) / turn) ** exponent(d)


_L = sp.Symbol("L", positive=True)

BASE = Exercise(
    name="length-extrapolation-2",
    title="A base for a length",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
With which base does the *slowest* of RoPE's pairs make exactly one turn between the first and the last of `length` tokens?
Return it as a SymPy expression.
`length` is a SymPy number or symbol, and `d` is the head dimension, above 2.
""",
    hint=r"""
The slowest pair is $p = d/2 - 1$.
What is its exponent?
""",
    cases=(
        (4, sp.Integer(101)),
        (8, sp.Integer(4096)),
        (64, _L),
        (128, _L),
    ),
    solution=base_for,
    misconceptions=(
        Misconception(
            "Slowest frequency taken for 1/base",
            "The slowest pair's exponent is −(d − 2)/d, so one turn takes 2π base^((d "
            "− 2)/d) tokens.",
            _base(exponent=lambda d: 1),
        ),
        Misconception(
            "Exponent upside down",
            "Solve base^(−(d − 2)/d) (length − 1) = 2π for the base.",
            _base(exponent=lambda d: sp.Integer(d - 2) / d),
        ),
        Misconception(
            "Number of tokens taken for the largest offset",
            "From the first token to the last there is one step less than tokens.",
            _base(last=0),
        ),
        Misconception(
            "Turn of one radian",
            "A turn is 2π radians.",
            _base(turn=1),
        ),
        Misconception(
            "Half a turn in place of a full one",
            "A full turn is 2π radians, not π.",
            _base(turn=sp.pi),
        ),
        Misconception(
            "Multiplied by 2π",
            "ω (length − 1) = 2π, so length − 1 is divided by 2π.",
            _base(turn=1 / (2 * sp.pi)),
        ),
        Misconception(
            "Exponent of the middle pair",
            "The slowest pair is p = d/2 − 1, with the exponent −2p/d = −(d − 2)/d.",
            _base(exponent=lambda d: 2),
        ),
        Misconception(
            "d pairs counted",
            "There are d/2 pairs: the last is p = d/2 − 1, not d − 1.",
            _base(exponent=lambda d: sp.Integer(d) / (2 * (d - 1))),
        ),
        Misconception(
            "Pairs counted from 1",
            "The last pair is p = d/2 − 1, so the exponent −2p/d is −(d − 2)/d.",
            _base(exponent=lambda d: sp.Integer(d) / (d + 2)),
        ),
        Misconception(
            "Inverse of the base",
            "The base is above 1: frequencies are its negative powers.",
            lambda d, length: 1 / base_for(d, length),
        ),
        Misconception(
            "Missing factor 2 in the exponent",
            "The exponent −2p/d with p = d/2 − 1 is −(d − 2)/d.",
            _base(exponent=lambda d: sp.Integer(d) / (d - 1)),
        ),
        Misconception(
            "A float in place of an exact number",
            "Keep π and the exponent as SymPy numbers.",
            lambda d, length: sp.N(base_for(d, length)),
        ),
        Misconception(
            "Fraction upside down",
            "A longer text needs a larger base.",
            lambda d, length: (2 * sp.pi / (length - 1)) ** (sp.Integer(d) / (d - 2)),
        ),
        Misconception(
            "Whole division in the exponent",
            "`//` rounds the exponent to a whole number. Keep the fraction, with `sp.Rational`.",
            _base(exponent=lambda d: d // (d - 2)),
        ),
    ),
    properties=(
        Property(
            "The result is exact, without floats",
            lambda answer, d, length: not sp.sympify(answer(d, length)).has(sp.Float),
        ),
    ),
    explanation=r"""
The slowest pair has the frequency $b^{-(d-2)/d}$, and one turn between the first and the last token means $b^{-(d-2)/d}\,(L - 1) = 2\pi$.
So $b^{(d-2)/d} = (L - 1)/2\pi$, and $b = ((L - 1)/2\pi)^{d/(d-2)}$.
For $d = 128$ and 4096 tokens this is about 722, far below the usual 10,000: with the usual base some pairs never complete a turn in training.
A larger base makes more of them; {ref}`it does not let every pair see more <err-rotary-base>`.
""",
)


# length-extrapolation-3: new angles


def new_angles(omega, trained, tested):
    """Return which of RoPE's pairs meet an angle new since training: booleans, [pairs].

    ``omega``, [pairs], are the frequencies; ``trained`` and ``tested`` are the numbers
    of tokens of texts in training and in the test.
    """
    return (omega * (trained - 1) < 2 * np.pi) & (omega > 0) & (tested > trained)


def _new(rule):
    return lambda omega, trained, tested: rule(omega, trained, tested)


_ROW = 10000.0 ** (-np.arange(8) / 8)

NEW = Exercise(
    name="length-extrapolation-3",
    title="New angles",
    kind="NumPy",
    minutes=8,
    lines=1,
    statement=r"""
A model was trained on texts of `trained` tokens and reads one of `tested` tokens.
`omega` are the frequencies of its pairs, some of them 0.
Here an offset may be any real number from 0 to one less than the number of tokens, so a pair's angle skips nothing between two tokens.
Which pairs meet an angle (on the circle) outside the arc from 0 to the largest angle of training?
Return booleans.
""",
    hint=r"""
A pair meets no new angle for any of three reasons: training had its whole circle, its frequency is 0, or the text is no longer than in training.
""",
    cases=(
        (np.array([1.0, 0.01]), 100, 200),
        (np.array([1.0, 0.01, 0.0]), 100, 200),
        (np.array([1.0, 0.01]), 100, 100),
        (np.array([1.0, 0.01]), 100, 50),
        (np.array([1.0, 0.01]), 4, 8),
        (_ROW, 64, 512),
        (_ROW, 7, 8),
        (_ROW, 7, 30),
        (_ROW, 4096, 4097),
    ),
    solution=new_angles,
    misconceptions=(
        Misconception(
            "All pairs",
            "A pair that completed a turn in training has met its whole circle.",
            _new(lambda w, a, b: np.full(w.shape, b > a)),
        ),
        Misconception(
            "Pairs of frequency 0 included",
            "A pair of frequency 0 has the angle 0 at every offset.",
            _new(lambda w, a, b: (w * (a - 1) < 2 * np.pi) & (b > a)),
        ),
        Misconception(
            "Every larger angle taken for a new one",
            "A pair that makes a full turn in training has had every angle of the "
            "circle.",
            lambda omega, trained, tested: (omega > 0) & (tested > trained),
        ),
        Misconception(
            "Lengths not compared",
            "A text that is no longer than those of training has no new angles.",
            _new(lambda w, a, b: (w * (a - 1) < 2 * np.pi) & (w > 0)),
        ),
        Misconception(
            "Pairs that complete a turn",
            "Pairs that completed a turn in training have met all their angles.",
            _new(lambda w, a, b: (w * (a - 1) >= 2 * np.pi) & (b > a)),
        ),
        Misconception(
            "Full turn asked of the longer text",
            "A pair must have completed its turn in *training*.",
            _new(lambda w, a, b: (w * (b - 1) < 2 * np.pi) & (w > 0) & (b > a)),
        ),
        Misconception(
            "Number of tokens taken for the largest offset",
            "Texts of 7 tokens have offsets up to 6, and 6 radians are less than a "
            "full turn.",
            _new(lambda w, a, b: (w * a < 2 * np.pi) & (w > 0) & (b > a)),
        ),
        Misconception(
            "Full turn of one radian",
            "A full turn is 2π radians.",
            _new(lambda w, a, b: (w * (a - 1) < 1) & (w > 0) & (b > a)),
        ),
        Misconception(
            "Circle of half a turn",
            "The other half of the circle is new. A full turn is 2π radians.",
            _new(lambda w, a, b: (w * (a - 1) < np.pi) & (w > 0) & (b > a)),
        ),
        Misconception(
            "Only pairs that complete a turn in the longer text",
            "A pair meets a new angle with the first step beyond training, whether it "
            "completes a turn or not.",
            _new(
                lambda w, a, b: (
                    (w * (a - 1) < 2 * np.pi) & (w * (b - 1) >= 2 * np.pi) & (b > a)
                )
            ),
        ),
        Misconception(
            "No pair",
            "In training a slow pair has met only an arc of its circle.",
            _new(lambda w, a, b: np.zeros(w.shape, dtype=bool)),
        ),
        Misconception(
            "Integer offsets",
            "From 6 to 7 a pair of frequency 1 jumps over the new angles. Here offsets "
            "between 6 and 7 count, too, so it meets them.",
            lambda omega, trained, tested: (
                np.arange(trained, max(tested, trained))[:, None] * omega % (2 * np.pi)
                > omega * (trained - 1)
            ).any(0),
        ),
        Misconception(
            "Half as long again required",
            "One token more than in training is enough.",
            _new(lambda w, a, b: (w * (a - 1) < 2 * np.pi) & (w > 0) & (2 * b > 3 * a)),
        ),
        Misconception(
            "Only the turn in training tested",
            "A pair of frequency 0 meets no new angle, and a text that is no longer "
            "has none.",
            _new(lambda w, a, b: w * (a - 1) < 2 * np.pi),
        ),
        Misconception(
            "Only the turn in the longer text tested",
            "You also need the angles that a pair has met in *training*, and an angle "
            "that is new.",
            _new(lambda w, a, b: w * (b - 1) < 2 * np.pi),
        ),
        Misconception(
            "Only the largest offset tested",
            "At a smaller offset than the largest one the pair may have met a new angle already.",
            _new(lambda w, a, b: w * (b - 1) % (2 * np.pi) > w * (a - 1)),
        ),
    ),
    explanation=r"""
A pair meets new angles if three things hold: it makes no full turn in training, $\omega_p\,(L - 1) < 2\pi$; it rotates at all, $\omega_p > 0$; and the text is longer than in training.
A pair that has made a full turn has had the whole circle, however fast it is.
One token more is enough: offsets may be any real numbers here, so the angles just beyond the largest one of training are among the new ones.
These are the pairs of {prf:ref}`the chapter's definition <def-extrapolation-box>` whose angles end before the full turn.
""",
)


# length-extrapolation-4: how often is the order kept?


def order_share(amplitudes, phases, omega, n):
    """Return the share of the offsets 0, …, n − 1 at which the first key scores higher.

    The first key's score minus the second's is a sum of waves with ``amplitudes``,
    ``phases`` and frequencies ``omega``, arrays [waves].
    """
    r = np.arange(n)[:, None]
    difference = (amplitudes * np.cos(omega * r + phases)).sum(axis=1)
    return (difference > 0).mean()


def _order_with(wave=np.cos, first=0, sign=1, of=lambda D: (D > 0).mean()):
    def answer(amplitudes, phases, omega, n):
        r = np.arange(first, n + first)[:, None]
        return of((amplitudes * wave(omega * r + sign * phases)).sum(axis=1))

    return answer


def _amounts(pairs, seed):
    return np.abs(draw(pairs, seed=seed)), 2 * draw(pairs, seed=seed + 1)


ORDER = Exercise(
    name="length-extrapolation-4",
    title="How often is the order kept?",
    kind="experiment",
    minutes=10,
    lines=3,
    statement=r"""
The scores of two keys at one offset $r$ differ by $D(r) = \sum_p A_p \cos(\omega_p r + \varphi_p)$.
Return the share of the offsets $r = 0, \dots, n - 1$ at which the first key has the larger score, $D(r) > 0$.
What value will the share come close to for many offsets, such as 20,000, and why?
""",
    hint=r"""
A column of offsets times a row of frequencies gives all angles at once.
""",
    cases=(
        (np.array([1.0]), np.array([0.3]), np.array([0.5]), 7),
        (np.array([1.0, 0.5]), np.array([0.0, 1.0]), np.array([1.0, 0.1]), 13),
        (np.array([1.0, 0.0]), np.array([np.pi, 0.0]), np.array([0.0, 1.0]), 5),
        (*_amounts(8, 3), _ROW, 500),
        (*_amounts(8, 5), _ROW, 20000),
        (np.array([1.0, -1.0]), np.array([0.2, 0.2]), np.array([0.5, 0.5]), 4),
    ),
    solution=order_share,
    misconceptions=(
        Misconception(
            "Mean of the difference",
            "Count the offsets at which the difference is positive.",
            _order_with(of=np.mean),
        ),
        Misconception(
            "Offsets counted, not divided",
            "A share is asked for: divide by n.",
            _order_with(of=lambda D: (D > 0).sum()),
        ),
        Misconception(
            "Share of the second key",
            "The first key has the larger score where D > 0.",
            _order_with(of=lambda D: (D < 0).mean()),
        ),
        Misconception(
            "Offset 0 left out",
            "The offsets are 0, …, n − 1.",
            _order_with(first=1),
        ),
        Misconception(
            "Phase subtracted",
            "The phase is added to the angle: cos(ωr + φ).",
            _order_with(sign=-1),
        ),
        Misconception(
            "Sines in place of cosines",
            "At offset 0 and phase 0 a cosine has its largest value.",
            _order_with(wave=np.sin),
        ),
        Misconception(
            "Each wave by itself",
            "The sign of the sum of the waves decides, not that of each wave.",
            lambda a, phi, w, n: (
                a * np.cos(w * np.arange(n)[:, None] + phi) > 0
            ).mean(),
        ),
        Misconception(
            "Amplitudes left out",
            "Each wave has its amplitude A_p as a factor.",
            lambda a, phi, w, n: (
                np.cos(w * np.arange(n)[:, None] + phi).sum(axis=1) > 0
            ).mean(),
        ),
        Misconception(
            "Phases left out",
            "At offset 0 the waves have the values cos φ, not all 1.",
            lambda a, phi, w, n: order_share(a, 0 * phi, w, n),
        ),
        Misconception(
            "A half, without counting",
            "In the long run the share may be a half, but not in every window. Count.",
            lambda a, phi, w, n: 0.5,
        ),
        Misconception(
            "Size of the difference",
            "The sign of the difference says which key has the larger score.",
            _order_with(of=lambda D: (np.abs(D) > 0).mean()),
        ),
        Misconception(
            "Only the last offset",
            "All offsets from 0 to n − 1 count.",
            _order_with(of=lambda D: float(D[-1] > 0)),
        ),
        Misconception(
            "Comparison with the order at offset 0",
            "The condition is D > 0, whatever the order was at offset 0.",
            _order_with(of=lambda D: ((D > 0) == (D[0] > 0)).mean()),
        ),
        Misconception(
            "Ties counted",
            "Where the difference is 0 neither key has the larger score.",
            _order_with(of=lambda D: (D >= 0).mean()),
        ),
        Misconception(
            "Phase multiplied by ω",
            "The phase is added to the angle ωr, not to the offset.",
            lambda a, phi, w, n: order_share(a, w * phi, w, n),
        ),
    ),
    explanation=r"""
It comes close to a half: for the check's input with 20,000 offsets it is 0.508.
Half a turn of every wave changes the sign of $D$, so where all combinations of angles occur equally often, both keys are preferred equally often: {prf:ref}`the theorem that the order is kept half the time <thm-extrapolation-half>`.
It needs frequencies without certain integer relations, and these have one, as pair 2 is exactly ten times as slow as pair 0: here the half is measured, not proved, and exercise length-extrapolation-5 has waves for which it is wrong.
At few offsets the share says little: it is 0.574 for another input with 500, and where the waves cancel there is no order at all.
""",
)


# length-extrapolation-5: two waves


def positive_share(n):
    """Return the share of a full turn in which cos τ + cos nτ is positive, exactly.

    ``n`` is a whole number and τ runs from 0 to 2π; the share is a SymPy rational.
    """
    zeros = {sp.Rational(2 * k + 1, n + s) for s in (1, -1) for k in range(n + 1)}
    ends = sorted({0, 1} | {z for z in zeros if z < 1})  # of half a turn
    positive = [
        high - low
        for low, high in pairwise(ends)
        if sp.cos(sp.pi * (low + high) / 2) + sp.cos(n * sp.pi * (low + high) / 2) > 0
    ]
    return sp.Rational(sum(positive))


def _by_zeros_of_one_factor(n):
    ends = [sp.Rational(2 * k + 1, n + 1) for k in range(n + 1)]
    ends = [0, *(end for end in ends if end < 2), 2]
    middles = [(high, low, sp.pi * (low + high) / 2) for low, high in pairwise(ends)]
    return sp.Rational(
        sum(high - low for high, low, t in middles if sp.cos(t) + sp.cos(n * t) > 0), 2
    )


def _counted(rule):
    """Make a wrong answer (a function) to the exercise ``positive_share``.

    The exercise asks for the share of a turn in which the sum of two waves is positive.
    The wrong answer is the share in which ``rule(x, y)`` holds, of their values x and y.
    """

    def answer(n):
        t = 2 * np.pi * (np.arange(20 * n) + 0.5) / (20 * n)
        return sp.Rational(int(rule(np.cos(t), np.cos(n * t)).sum()), 20 * n)

    return answer


TWO = Exercise(
    name="length-extrapolation-5",
    title="Two waves",
    kind="SymPy",
    minutes=25,
    lines=5,
    statement=r"""
One wave is `n` times as fast as another, with `n` at least 2.
In which share of $0 \le \tau < 2\pi$ is $\cos\tau + \cos n\tau$ positive?
Return it exactly, as a SymPy rational number.
""",
    hint=r"""
The sum is $2 \cos\frac{(n+1)\tau}{2} \cos\frac{(n-1)\tau}{2}$, so you know its zeros, and between two neighboring zeros one value gives the sign.
The cosines are even: half a turn is enough.
""",
    cases=((2,), (3,), (4,), (5,), (10,)),
    solution=positive_share,
    misconceptions=(
        Misconception(
            "A half for every n",
            "A half is right for odd n, where a shift by half a turn changes the sign "
            "of both waves. For n = 2 the sum is (2 cos τ − 1)(cos τ + 1).",
            lambda n: sp.Rational(1, 2),
        ),
        Misconception(
            "A third for every n",
            "A third is right for n = 2. With odd n a shift by half a turn changes the "
            "sign of both waves.",
            lambda n: sp.Rational(1, 3),
        ),
        Misconception(
            "Only the first interval",
            "Up to the first zero, π/(n + 1), the sum is positive, and in later "
            "intervals again.",
            lambda n: sp.Rational(1, n + 1),
        ),
        Misconception(
            "One over n",
            "Where do the two factors of the sum change their signs?",
            lambda n: sp.Rational(1, n),
        ),
        Misconception(
            "Share of the negative part",
            "The share where the sum is positive is asked for.",
            lambda n: 1 - positive_share(n),
        ),
        Misconception(
            "Only one of the two factors",
            "The other factor changes its sign, too.",
            lambda n: sp.Rational(n + 2, 2 * (n + 1)) if n % 2 == 0 else 1,
        ),
        Misconception(
            "Each wave by itself",
            "The sign of the sum decides, not whether both waves are positive.",
            lambda n: sp.Rational(1, 4),
        ),
        Misconception(
            "A float in place of an exact number",
            "All zeros are rational parts of a turn: keep them as rational numbers.",
            lambda n: sp.Float(positive_share(n), 12),
        ),
        Misconception(
            "Length in place of the share",
            "Divide by the 2π of a full turn.",
            lambda n: 2 * sp.pi * positive_share(n),
        ),
        Misconception(
            "Share of half a turn, halved again",
            "In the other half of a turn the sum is positive just as often.",
            lambda n: positive_share(n) / 2,
        ),
        Misconception(
            "Mean of the sum",
            "A share is asked for. The mean of the two waves is 0.",
            lambda n: sp.Integer(0),
        ),
        Misconception(
            "Zeros of one factor",
            "The sum is 0 where either of the two cosines is 0. Which zeros are missing?",
            _by_zeros_of_one_factor,
        ),
        Misconception(
            "A third for every even n",
            "A third is right for n = 2. For other even n count again.",
            lambda n: sp.Rational(1, 2) if n % 2 else sp.Rational(1, 3),
        ),
        Misconception(
            "Formula of even n for all n",
            "Even and odd n differ: for odd n a shift by half a turn changes the sign of both waves.",
            lambda n: sp.Rational(n * n - 2, 2 * (n * n - 1)),
        ),
        Misconception(
            "Signs of the first factor alternate",
            "Between two zeros of the first factor the other one may change the sign, too.",
            lambda n: sp.Rational(n, 2 * (n + 1)),
        ),
        Misconception(
            "Both waves positive",
            "The sum decides: one wave may be negative, if the other is larger.",
            _counted(lambda x, y: (x > 0) & (y > 0)),
        ),
        Misconception(
            "Product of the waves positive",
            "The sign of the sum is asked for, not that of the product cos τ · cos nτ.",
            _counted(lambda x, y: x * y > 0),
        ),
    ),
    properties=(
        Property(
            "The result is a rational number",
            lambda answer, n: isinstance(sp.sympify(answer(n)), sp.Rational),
        ),
        Property(
            "All zeros are odd multiples of π/(n + 1) or π/(n − 1), so the share times "
            "n² − 1 is a whole number. Counting on a grid finds the share only nearly",
            lambda answer, n: bool((sp.sympify(answer(n)) * (n * n - 1)).is_integer),
        ),
    ),
    level="hard",
    explanation=r"""
For odd $n$ it is a half: half a turn of $\tau$ changes the sign of both cosines.
For $n = 2$ it is $\tfrac13$, for 4 it is $\tfrac7{15}$, for 10 it is $\tfrac{49}{99}$: in these cases $(n^2 - 2)/(2(n^2 - 1))$.
The zeros of the two factors are $(2k + 1)\pi/(n + 1)$ and $(2k + 1)\pi/(n - 1)$; between neighbors the sign alternates, unless two zeros fall together.
An integer relation with an odd sum, $n\,\omega - \omega' = 0$ with $n - 1$ odd, is what {prf:ref}`the theorem on the half <thm-extrapolation-half>` excludes.
""",
)


# length-extrapolation-6: p-RoPE


def p_rope_scores(q: Tensor, k: Tensor, positions: Tensor, unrotated: int) -> Tensor:
    """Return p-RoPE's scores, [tokens], of q at position 0 with k at each position.

    The slowest ``unrotated`` pairs are not rotated. ``q`` and ``k`` are [d], in the
    half layout; ``positions`` are [tokens].
    """
    pairs = len(q) // 2
    omega = 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    omega[pairs - unrotated :] = 0
    angle = positions.double()[:, None] * omega
    x, y = torch.complex(*q.view(2, -1)), torch.complex(*k.view(2, -1))
    return (x * y.conj() * torch.polar(torch.ones_like(angle), -angle)).real.sum(-1)


def _scores(row, layout=lambda t: t.view(2, -1), sign=-1):
    def answer(q, k, positions, unrotated):
        omega = row(len(q) // 2, unrotated)
        angle = sign * positions.double()[:, None] * omega
        x, y = torch.complex(*layout(q)), torch.complex(*layout(k))
        return (x * y.conj() * torch.polar(torch.ones_like(angle), angle)).real.sum(-1)

    return answer


def _omega(pairs):
    return 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)


def _slow_unrotated(pairs, unrotated):
    return torch.where(torch.arange(pairs) < pairs - unrotated, _omega(pairs), 0.0)


def _squeezed(pairs, unrotated):
    """Return partial rotary's frequencies, [pairs], used by mistake for p-RoPE.

    The rotated pairs spread over the whole range of frequencies; the ``unrotated`` last
    pairs have the frequency 0. Right is that all other pairs keep RoPE's frequencies.
    """
    return torch.cat(
        (_omega(max(pairs - unrotated, 1))[: pairs - unrotated], torch.zeros(unrotated))
    )


def _dropped(q, k, positions, unrotated):
    rotating = len(q) // 2 - unrotated
    return _scores(lambda pairs, _: _omega(len(q) // 2)[:rotating])(
        *(t.view(2, -1)[:, :rotating].flatten() for t in (q, k)), positions, unrotated
    )


def _last_features(q, k, positions, unrotated):
    """Return the scores of a wrong answer to the exercise ``p_rope_scores``.

    The exercise asks for p-RoPE's scores of q at position 0 with k at each position. In
    the wrong answer, the last 2 · ``unrotated`` features are not rotated, in place of
    the two features of each of the slowest ``unrotated`` pairs.
    """
    x = q.repeat(len(positions), 1)
    rotated = x.clone()
    pairs = len(q) // 2
    angle = -positions.double()[:, None] * _omega(pairs)
    a, b = x[:, :pairs], x[:, pairs:]
    cos, sin = angle.cos(), angle.sin()
    rotated[:, :pairs], rotated[:, pairs:] = a * cos - b * sin, a * sin + b * cos
    if unrotated:
        rotated[:, -2 * unrotated :] = x[:, -2 * unrotated :]
    return rotated @ k


def _last_set_to_zero(pairs, unrotated):
    omega = _omega(pairs)
    omega[-unrotated:] = 0
    return omega


_AT = torch.tensor([0, 1, 5, 1000])

P_ROPE = Exercise(
    name="length-extrapolation-6",
    title="p-RoPE: slow pairs without rotation",
    kind="PyTorch",
    minutes=12,
    lines=6,
    statement=r"""
`q` and `k` are one query and one key, float64, with the *half* layout: feature `p` and feature `p + d/2` are pair `p`.
RoPE has base 10 000, but the slowest `unrotated` pairs are not rotated, as in p-RoPE.
The other pairs keep their frequencies.
Return the scores $q^\top R_m k$ with the query at position 0 and the key at each of `positions`, without scaling.
""",
    hint=r"""
`torch.complex(q[: d // 2], q[d // 2 :])` holds the pairs.
A frequency of 0 rotates nothing.
""",
    cases=(
        (
            torch.tensor([1.0, 0, 0, 0]).double(),
            torch.tensor([0, 0, 1.0, 0]).double(),
            _AT,
            0,
        ),
        (
            torch.tensor([0, 1.0, 0, 0]).double(),
            torch.tensor([0, 1.0, 0, 1.0]).double(),
            _AT,
            1,
        ),
        *(
            (torch.tensor(draw(8, seed=s)), torch.tensor(draw(8, seed=s + 9)), _AT, s)
            for s in (0, 1, 2, 4)
        ),
    ),
    solution=p_rope_scores,
    misconceptions=(
        Misconception(
            "Fastest pairs unrotated",
            "p-RoPE keeps the rotation of the fast pairs. Set the last frequencies to "
            "0.",
            _scores(
                lambda n, unrotated: torch.where(
                    torch.arange(n) < unrotated, 0.0, _omega(n)
                )
            ),
        ),
        Misconception(
            "Partial rotary",
            "Rotated pairs keep their own frequencies, base^(−2p/d) with the whole d. "
            "The spectrum is not spread anew.",
            _scores(_squeezed),
        ),
        Misconception(
            "Interleaved layout",
            "In the half layout pair p is the features p and p + d/2.",
            _scores(_slow_unrotated, layout=lambda t: t.view(-1, 2).T),
        ),
        Misconception(
            "Key rotated backwards",
            "A key at position m is rotated by +ω m, and the query at 0 is not "
            "rotated.",
            _scores(_slow_unrotated, sign=1),
        ),
        Misconception(
            "Last features unrotated",
            "In the half layout a slow pair has one feature in each half.",
            _last_features,
        ),
        Misconception(
            "Slow pairs left out of the score",
            "The slow pairs are not rotated, but their products belong to the score.",
            _dropped,
        ),
        Misconception(
            "All pairs rotated",
            "The slowest `unrotated` pairs must not be rotated.",
            _scores(lambda n, unrotated: _omega(n)),
        ),
        Misconception(
            "No pair rotated",
            "Only the slowest `unrotated` pairs are not rotated.",
            _scores(lambda n, unrotated: 0 * _omega(n)),
        ),
        Misconception(
            "Scores divided by √d",
            "The scores without scaling are asked for.",
            lambda q, k, at, unrotated: (
                p_rope_scores(q, k, at, unrotated) / len(q) ** 0.5
            ),
        ),
        Misconception(
            "Features counted in place of pairs",
            "`unrotated` counts pairs, of two features each.",
            lambda q, k, at, unrotated: p_rope_scores(q, k, at, unrotated // 2),
        ),
        Misconception(
            "One pair too many unrotated",
            "Only the slowest `unrotated` pairs are not rotated.",
            lambda q, k, at, unrotated: p_rope_scores(
                q, k, at, min(unrotated + 1, len(q) // 2)
            ),
        ),
        Misconception(
            "Frequencies of d pairs",
            "There are d/2 frequencies, 10 000^(−2p/d). Your base or your exponent is "
            "another one.",
            _scores(
                lambda n, unrotated: torch.where(
                    torch.arange(n) < n - unrotated, _omega(n) ** 0.5, 0.0
                )
            ),
        ),
        Misconception(
            "Only the key or only its rotation conjugated",
            "The score is Re(x · conj(y)) of the rotated pairs. Conjugate y with its "
            "rotation, or take the real inner product without a conjugate.",
            lambda q, k, at, unrotated: _scores(_slow_unrotated)(
                q, torch.cat((k[: len(k) // 2], -k[len(k) // 2 :])), at, unrotated
            ),
        ),
        Misconception(
            "Slice that begins at −0",
            "With `unrotated` = 0 the slice `[-unrotated:]` is the whole list.",
            _scores(_last_set_to_zero),
        ),
        Misconception(
            "No feature conjugated",
            "In the inner product of two pairs, taken as complex numbers, one of them is conjugated. Without this their angles are added.",
            lambda q, k, at, unrotated: _scores(_slow_unrotated, sign=1)(
                q, torch.cat((k[: len(k) // 2], -k[len(k) // 2 :])), at, unrotated
            ),
        ),
        Misconception(
            "Sine terms missing",
            "A rotation mixes the two features of a pair: each new feature has a cosine term and a sine term.",
            lambda q, k, at, unrotated: (
                (
                    _scores(_slow_unrotated)(q, k, at, unrotated)
                    + _scores(_slow_unrotated, sign=1)(q, k, at, unrotated)
                )
                / 2
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The frequencies of the slowest pairs become 0, and their products are added as they are, at every position.
The other pairs keep the frequencies that they have in RoPE: p-RoPE does not spread them anew, as a partial rotary dimension would.
A difference between two keys in the unrotated pairs is a constant, and if it is larger than the sum of the waves' amplitudes the order never changes: {prf:ref}`the theorem that a constant saves the order <thm-extrapolation-constant>`.
""",
)

# length-extrapolation-7: tokens or offsets


def colleagues_pairs(d, base, length):
    """Return how many pairs make a full turn."""
    pairs = np.arange(d // 2)
    turns = length / (2 * np.pi * base ** (2.0 * pairs / d))
    return int(np.count_nonzero(turns >= 1))


def length_that_differs():
    """Return `(d, base, length)`, a short text with a wrong `colleagues_pairs`."""
    return 4, 10000, 7


SEVEN = Exercise(
    name="length-extrapolation-7",
    title="Find the input: full turns",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_pairs` should do what exercise length-extrapolation-1 asks for.
Her tests are `(4, 10000, 8)`, `(64, 10000, 4096)` and `(128, 500000, 8192)`, and they pass.
Return `(d, base, length)` with the shortest text for which it is wrong; `d` is even, and all three are integers.
Why does the answer not depend on the base?
""",
    hint=r"""
The fastest pair rotates by one radian per token.
Between which two whole numbers is $2\pi$?
""",
    cases=((),),
    solution=length_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_pairs,
        right=pairs_with_full_turn,
        tested=((4, 10000, 8), (64, 10000, 4096), (128, 500000, 8192)),
        refusal=lambda d, base, length: (
            ""
            if all(type(n) is int for n in (d, base, length))
            and 2 <= d <= 1024
            and d % 2 == 0
            and 1 <= base <= 10**9
            and 1 <= length <= 10**9
            else "d is an even integer from 2 to 1024, and base and length are "
            "positive integers up to 10⁹"
        ),
        size=lambda d, base, length: length,
        size_of="length",
    ),
    explanation=r"""
She takes the number of tokens for the largest offset, which is one less.
The two counts differ if a pair's turn ends between $L - 1$ and $L$ tokens.
No pair rotates by more than one radian per token, so a text of 6 tokens or fewer has no full turn in either count; with 7 tokens the fastest pair has turned by 6 radians, less than $2\pi$, and she counts it.
The fastest pair has $\omega_0 = 1$ for every base and dimension, so the answer does not depend on them.
""",
)


SHEET = Sheet(
    title="Length extrapolation",
    conventions=r"""
Pairs $p = 0, \dots, d/2 - 1$ have the frequencies $\omega_p = b^{-2p/d}$ for the base $b$.
Texts of $L$ tokens have the offsets $0, \dots, L - 1$.
""",
    example=r"""
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import resonance

omega = resonance(frequencies(8, base=100.0))
print(np.round(2 * np.pi / omega, 3))
""",
    figure="length_extrapolation_explorable",
    exercises=(FULL_TURNS, BASE, NEW, ORDER, TWO, P_ROPE, SEVEN),
)
