"""Exercises on FLOATER, positions from a neural ODE."""

import math
from fractions import Fraction

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

# floater-1: the factor of a step


def factor(z):
    """Factor by which a classical Runge–Kutta step on p' = λ p multiplies p.

    The factor is a polynomial of z = λ s, s being the step.
    """
    a = z
    b = z * (1 + a / 2)
    c = z * (1 + b / 2)
    d = z * (1 + c)
    return sp.expand(1 + (a + 2 * b + 2 * c + d) / 6)


_Z = sp.Symbol("z")

FACTOR = Exercise(
    name="floater-1",
    title="The factor of a step",
    kind="by hand",
    minutes=10,
    lines=5,
    statement=r"""
On paper: one step of length $s$ of the classical Runge–Kutta method on $p' = \lambda p$ multiplies $p$ by a polynomial of $z = \lambda s$.
Return the polynomial as a SymPy expression of `z`, which is a symbol or a number.
Of which series are these the first terms?
""",
    hint=r"""
Take $p = 1$.
The first slope, times $s$, is $z$; the second is $z (1 + z/2)$.
""",
    cases=((sp.Rational(1, 2),), (sp.Integer(-2),), (_Z,)),
    solution=factor,
    misconceptions=(
        Misconception(
            "Exponential itself",
            "The exponential is the exact flow. The solver takes four slopes, so its "
            "factor is a polynomial.",
            lambda z: sp.exp(z),
        ),
        Misconception(
            "Euler's step",
            "Euler's step takes one slope of the four.",
            lambda z: 1 + z,
        ),
        Misconception(
            "Polynomial of order two",
            "Two more slopes add higher powers.",
            lambda z: sp.expand(1 + z + z**2 / 2),
        ),
        Misconception(
            "Polynomial of order three",
            "The last slope adds a fourth power.",
            lambda z: sp.expand(1 + z + z**2 / 2 + z**3 / 6),
        ),
        Misconception(
            "A term too many",
            "Four slopes cannot make a fifth power.",
            lambda z: sp.expand(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24 + z**5 / 120),
        ),
        Misconception(
            "Growth without the start",
            "The step starts at p = 1, which is the term 1.",
            lambda z: sp.expand(z + z**2 / 2 + z**3 / 6 + z**4 / 24),
        ),
        Misconception(
            "Powers without factorials",
            "The slopes are averaged, not added.",
            lambda z: sp.expand(1 + z + z**2 + z**3 + z**4),
        ),
        Misconception(
            "Powers divided by n, not by n!",
            "That is the series of a logarithm. Follow the four slopes.",
            lambda z: sp.expand(1 + z + z**2 / 2 + z**3 / 3 + z**4 / 4),
        ),
        Misconception(
            "Equal weights of the four slopes",
            "The slopes in the middle count twice: the weights are 1, 2, 2, 1, "
            "divided by six.",
            lambda z: sp.expand(1 + z + z**2 / 2 + z**3 / 4 + z**4 / 16),
        ),
        Misconception(
            "Third slope taken from the first",
            "Each slope in the middle is taken at the point to which the slope before "
            "it leads.",
            lambda z: sp.expand(
                1 + (z + 4 * z * (1 + z / 2) + z * (1 + z * (1 + z / 2))) / 6
            ),
        ),
        Misconception(
            "Last slope taken at half of the step",
            "The fourth slope is taken at the end, a whole step away.",
            lambda z: sp.expand(
                1
                + (
                    z
                    + 2 * z * (1 + z / 2)
                    + 2 * z * (1 + z * (1 + z / 2) / 2)
                    + z * (1 + z * (1 + z * (1 + z / 2) / 2) / 2)
                )
                / 6
            ),
        ),
        Misconception(
            "Sign of the rate reversed",
            "p' = λ p grows for λ > 0.",
            lambda z: sp.expand(1 - z + z**2 / 2 - z**3 / 6 + z**4 / 24),
        ),
        Misconception(
            "Middle slopes taken after whole steps",
            "The slopes in the middle are taken half a step away.",
            lambda z: sp.expand(
                1
                + (
                    z
                    + 2 * z * (1 + z)
                    + 2 * z * (1 + z * (1 + z))
                    + z * (1 + z * (1 + z * (1 + z)))
                )
                / 6
            ),
        ),
        Misconception(
            "A quarter of each slope",
            "The slopes in the middle count twice: the weights are 1, 2, 2, 1, "
            "divided by six.",
            lambda z: sp.expand(
                1
                + z
                * (
                    1
                    + (1 + z / 2)
                    + (1 + z * (1 + z / 2) / 2)
                    + (1 + z * (1 + z * (1 + z / 2) / 2))
                )
                / 4
            ),
        ),
    ),
    properties=(
        Property(
            "At z = 1 the factor is 65/24, which is near e",
            lambda answer, z: answer(sp.Integer(1)) == sp.Rational(65, 24),
        ),
    ),
    explanation=r"""
With $p = 1$ the slopes, times $s$, are $a = z$, $b = z (1 + a/2) = z + \frac{z^2}2$, $c = z (1 + b/2) = z + \frac{z^2}2 + \frac{z^3}4$ and $d = z (1 + c) = z + z^2 + \frac{z^3}2 + \frac{z^4}4$.
The step leads to $1 + \frac16 (a + 2b + 2c + d) = 1 + z + \frac{z^2}2 + \frac{z^3}6 + \frac{z^4}{24}$.
These are the first five terms of the series of $e^z$, the factor of the exact solution; the first term left out, $\frac{z^5}{120}$, is the error of one step to leading order.
The 3/8 rule has the same factor, so the two methods agree on every field $h(t, p) = M p$, and both have order four, by {prf:ref}`the theorem on the tableaux <thm-floater-order>`.
""",
)


# floater-2: the field of the sinusoidal encoding


def field_matrix(omega, delta):
    """Matrix M of the sinusoidal encoding, PE' = M PE: [2 pairs, 2 pairs].

    PE' is the derivative in time, and PE(i) is at time i · ``delta``; ``omega`` are the
    frequencies of the pairs.
    """
    d = 2 * len(omega)
    field = np.zeros((d, d))
    for p, w in enumerate(omega):
        field[2 * p, 2 * p + 1] = w / delta
        field[2 * p + 1, 2 * p] = -w / delta
    return field


def _field_matrix(upper, lower, step=2, at=1):
    """Make a wrong answer (a function) to the exercise ``field_matrix``.

    The exercise asks for the matrix M of PE' = M PE. The wrong answer couples the two
    features of a pair with frequency w by the entries ``upper(w, delta)`` and
    ``lower(w, delta)``; right are w/delta and −w/delta. The features of pair p are 2p
    and 2p + ``at`` (right: 1) or, if ``step`` is not 2, p and p + d/2.
    """

    def answer(omega, delta):
        d = 2 * len(omega)
        field = np.zeros((d, d))
        for p, w in enumerate(omega):
            one, other = (2 * p, 2 * p + at) if step == 2 else (p, p + d // 2)
            field[one, other] = upper(w, delta)
            field[other, one] = lower(w, delta)
        return field

    return answer


FIELD_MATRIX = Exercise(
    name="floater-2",
    title="The field of the sinusoidal encoding",
    kind="NumPy",
    minutes=10,
    lines=6,
    statement=r"""
Return the matrix $M$ of the linear field $h(t, p) = M p$ whose flow from $\PE(0)$ on is $\PE(i)$ at the time $i\, \Delta$.
The layout is interleaved, `omega` holds the frequencies and `delta` is $\Delta$.
What is $M + M^\top$?
""",
    hint=r"""
The slope of $\sin(\omega\, t / \Delta)$ is a multiple of its partner, the cosine.
""",
    cases=(
        (np.array([1.0]), 1.0),
        (np.array([1.0, 0.01]), 1.0),
        (np.array([1.0, 0.1]), 0.01),
        (np.array([2.0, 0.5, 0.25]), 0.1),
        (np.array([1.5, 0.75]), 2.0),
    ),
    solution=field_matrix,
    misconceptions=(
        Misconception(
            "Opposite sign",
            "Your field rotates backwards. The slope of the sine is plus the cosine.",
            _field_matrix(lambda w, D: -w / D, lambda w, D: w / D),
        ),
        Misconception(
            "Symmetric matrix",
            "The slope of the cosine has a minus.",
            _field_matrix(lambda w, D: w / D, lambda w, D: w / D),
        ),
        Misconception(
            "Inverse frequencies",
            "Your answer has the paper's misprint. The derivative multiplies by the "
            "frequency.",
            _field_matrix(lambda w, D: 1 / (w * D), lambda w, D: -1 / (w * D)),
        ),
        Misconception(
            "Δ forgotten",
            "A position takes the time Δ, so the pair rotates 1/Δ times as fast.",
            _field_matrix(lambda w, D: w, lambda w, D: -w),
        ),
        Misconception(
            "Multiplied by Δ",
            "A position takes the time Δ: the shorter that time, the faster the "
            "rotation.",
            _field_matrix(lambda w, D: w * D, lambda w, D: -w * D),
        ),
        Misconception(
            "The half layout",
            "In the interleaved layout the sine and the cosine of a pair are "
            "neighbors.",
            _field_matrix(lambda w, D: w / D, lambda w, D: -w / D, step=1),
        ),
        Misconception(
            "Frequencies on the diagonal",
            "A feature's slope is a multiple of its partner, not of itself.",
            lambda omega, delta: np.diag(np.repeat(np.asarray(omega) / delta, 2)),
        ),
        Misconception(
            "Frequencies in full turns",
            "The frequencies are radians per position, so there is no 2π.",
            _field_matrix(
                lambda w, D: 2 * np.pi * w / D, lambda w, D: -2 * np.pi * w / D
            ),
        ),
        Misconception(
            "Rotation by one position",
            "Your answer is M_1, which the flow makes of M in the time Δ.",
            lambda omega, delta: _blocks(omega, np.cos, np.sin),
        ),
        Misconception(
            "Slopes of the sines alone",
            "Both members of a pair have a slope.",
            _field_matrix(lambda w, D: w / D, lambda w, D: 0.0),
        ),
        Misconception(
            "Δ divided by the frequency",
            "A larger frequency rotates faster, and so does a shorter time per "
            "position.",
            _field_matrix(lambda w, D: D / w, lambda w, D: -D / w),
        ),
        Misconception(
            "Frequency forgotten",
            "Each pair rotates by its own frequency.",
            _field_matrix(lambda w, D: 1 / D, lambda w, D: -1 / D),
        ),
        Misconception(
            "Cosine of a pair tied to the sine of the next",
            "Each pair has a rotation of its own, and no slope depends on another "
            "pair.",
            lambda omega, delta: sum(
                sign * np.diag(np.repeat(omega, 2)[:-1] / delta, sign)
                for sign in (1, -1)
            ),
        ),
        Misconception(
            "Frequencies computed from their number",
            "`omega` holds the frequencies, and they may be any.",
            lambda omega, delta: field_matrix(
                10000.0 ** (-np.arange(len(omega)) / len(omega)), delta
            ),
        ),
        Misconception(
            "First pair alone",
            "Every pair has its two entries.",
            lambda omega, delta: field_matrix(
                omega * (np.arange(len(omega)) == 0), delta
            ),
        ),
        Misconception(
            "Squared frequencies",
            "The squares belong to the second derivative.",
            _field_matrix(lambda w, D: (w / D) ** 2, lambda w, D: -((w / D) ** 2)),
        ),
    ),
    properties=(
        Property(
            "The matrix is skew, so that lengths do not change",
            lambda answer, omega, delta: np.allclose(
                answer(omega, delta), -np.asarray(answer(omega, delta)).T
            ),
        ),
    ),
    explanation=r"""
At the time $t = i\, \Delta$ the angle of a pair is $\omega t/\Delta$, so the slope of its sine is $\frac\omega\Delta$ times its cosine, and the slope of its cosine is $-\frac\omega\Delta$ times its sine.
$M + M^\top$ is zero: $M$ is skew, so the derivative of $\lVert p \rVert^2$, which is $2\, p^\top M p$, is zero and all vectors of the flow have the same length.
With $\Delta = 1$ this is {prf:ref}`the theorem that the sinusoid solves a linear ODE <thm-floater-sinusoid>`.
""",
)


def _blocks(omega, cos, sin):
    d = 2 * len(omega)
    out = np.zeros((d, d))
    for p, w in enumerate(omega):
        block = [[cos(w), sin(w)], [-sin(w), cos(w)]]
        out[2 * p : 2 * p + 2, 2 * p : 2 * p + 2] = block
    return out


# floater-3: the rule of the released code


def three_eighths(a, b, t, p, s):
    """One step of the 3/8 Runge–Kutta rule on h(t, p) = A p + t³ b.

    ``a`` is the matrix A, ``b`` a vector. The step leads from the state p at time t to
    the returned state at time t + s.
    """

    def h(time, point):
        return a @ point + time**3 * b

    k = h(t, p)
    m = h(t + s / 3, p + s / 3 * k)
    n = h(t + 2 * s / 3, p + s * (m - k / 3))
    o = h(t + s, p + s * (k - m + n))
    return p + s / 8 * (k + 3 * m + 3 * n + o)


def _stages(places, rows, weights):
    """Make a wrong answer (a function) to the exercise ``three_eighths``.

    The exercise asks for a step of the 3/8 Runge–Kutta rule. The wrong answer is a step
    by another Runge–Kutta rule. ``places``, ``rows`` and ``weights`` are the Butcher
    tableau of that rule: the times of its stages, each stage's weights of earlier
    slopes, and the weights of all slopes.
    """

    def answer(a, b, t, p, s):
        slopes = []
        for place, row in zip(places, rows, strict=True):
            at = p + s * sum((w * k for w, k in zip(row, slopes, strict=False)), 0 * p)
            slopes.append(a @ at + (t + place * s) ** 3 * b)
        return p + s * sum((w * k for w, k in zip(weights, slopes, strict=True)), 0 * p)

    return answer


_C = (0, 1 / 3, 2 / 3, 1)
_A = ((), (1 / 3,), (-1 / 3, 1), (1, -1, 1))
_B = (1 / 8, 3 / 8, 3 / 8, 1 / 8)
_CLASSICAL = ((), (1 / 2,), (0, 1 / 2), (0, 0, 1))


def _with_row(stage, others):
    """Yield the rule's rows with another one for a stage, and that one in words."""
    for row in others:
        parts = [f"{Fraction(w).limit_denominator(3)}".replace("-", "−") for w in row]
        yield ", ".join(parts), (*_A[:stage], row, *_A[stage + 1 :])


def _without_state(a, b, t, p, s):
    k = a @ p + t**3 * b
    m = a @ (p + s / 3 * k) + (t + s / 3) ** 3 * b
    n = a @ (s * (m - k / 3)) + (t + 2 * s / 3) ** 3 * b
    o = a @ (s * (k - m + n)) + (t + s) ** 3 * b
    return p + s / 8 * (k + 3 * m + 3 * n + o)


def _given(n, seed):
    a, b, p = draw(n, n, seed=seed), draw(n, seed=seed + 1), draw(n, seed=seed + 2)
    return a, b, p


_CASES = []
for _n, _t, _s, _seed in ((1, 0.0, 1.0, 1), (2, 1.0, 0.5, 4), (4, -2.0, 2.0, 7)):
    _a, _b, _p = _given(_n, _seed)
    _CASES.append((_a, _b, _t, _p, _s))

STEP = Exercise(
    name="floater-3",
    title="The rule of the released code",
    kind="NumPy",
    minutes=12,
    lines=7,
    statement=r"""
The field is $h(t, p) = A p + t^3\, b$.
Return the point to which one step of length `s` of the 3/8 rule leads from `p` at the time `t`.
Its stages are at 0, ⅓, ⅔ and 1 of the step; its rows are –; ⅓; −⅓, 1; 1, −1, 1; its weights are ⅛, ⅜, ⅜, ⅛.
On which fields would the classical method give another result?
""",
    hint=r"""
Each slope is taken at a time of its own, and at `p` plus `s` times a weighted sum of the slopes before.
""",
    cases=tuple(_CASES),
    solution=three_eighths,
    misconceptions=(
        Misconception(
            "The classical method",
            "The classical method has its stages at 0, ½, ½ and 1.",
            _stages((0, 1 / 2, 1 / 2, 1), _CLASSICAL, (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
        ),
        Misconception(
            "Weights of the classical method",
            "The weights go with the rows: ⅛, ⅜, ⅜, ⅛.",
            _stages(_C, _A, (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
        ),
        Misconception(
            "All stages at the time of the first",
            "h depends on the time, and each stage has its own time.",
            _stages((0, 0, 0, 0), _A, _B),
        ),
        Misconception(
            "Times counted from 0",
            "The step begins at t.",
            lambda a, b, t, p, s: three_eighths(a, b, 0.0, p, s),
        ),
        Misconception(
            "Wrong sign in the third stage",
            "The row is −⅓, 1.",
            _stages(_C, ((), (1 / 3,), (1 / 3, 1), (1, -1, 1)), _B),
        ),
        Misconception(
            "Wrong sign in the fourth stage",
            "The row is 1, −1, 1.",
            _stages(_C, ((), (1 / 3,), (-1 / 3, 1), (1, 1, 1)), _B),
        ),
        *(
            Misconception(
                f"Third row {row}", "The third row is −⅓, 1.", _stages(_C, rows, _B)
            )
            for row, rows in _with_row(2, ((0, 2 / 3), (1 / 3, 1 / 3), (1 / 3, -1)))
        ),
        *(
            Misconception(
                f"Fourth row {row}",
                "The fourth row is 1, −1, 1.",
                _stages(_C, rows, _B),
            )
            for row, rows in _with_row(
                3,
                (
                    *((1, 1, -1), (1, -1, -1), (-1, 1, 1), (-1, -1, 1), (-1, 1, -1)),
                    *((1, -1, 0), (0, -1, 1), (0, 0, 1)),
                ),
            )
        ),
        Misconception(
            "p left out of the last two stages",
            "Every slope is taken at `p` plus `s` times a sum of slopes.",
            _without_state,
        ),
        Misconception(
            "Each stage from the one before alone",
            "The rows use all slopes before: –; ⅓; −⅓, 1; 1, −1, 1.",
            _stages(_C, ((), (1 / 3,), (0, 2 / 3), (0, 0, 1)), _B),
        ),
        Misconception(
            "Equal weights",
            "The outer slopes have the weight ⅛, the inner ones ⅜.",
            _stages(_C, _A, (1 / 4,) * 4),
        ),
        Misconception(
            "Euler's step",
            "Euler's step uses the first slope alone.",
            lambda a, b, t, p, s: p + s * (a @ p + t**3 * b),
        ),
        Misconception(
            "Step left out of the stages",
            "Slopes are multiplied by s before they are added to p.",
            lambda a, b, t, p, s: _unscaled(a, b, t, p, s),
        ),
        Misconception(
            "Change in place of the new point",
            "The step begins at p: add p.",
            lambda a, b, t, p, s: three_eighths(a, b, t, p, s) - p,
        ),
        Misconception(
            "p multiplied from the left",
            "The field is A p, with p as a column.",
            lambda a, b, t, p, s: three_eighths(a.T, b, t, p, s),
        ),
        Misconception(
            "−⅓ left out",
            "The third stage's row is −⅓, 1.",
            _stages(_C, ((), (1 / 3,), (0, 1), (1, -1, 1)), _B),
        ),
        Misconception(
            "Stage times without the step",
            "The stages are at parts of the step: s/3 later, not ⅓ later.",
            lambda a, b, t, p, s: _stages([c / s for c in _C], _A, _B)(a, b, t, p, s),
        ),
        Misconception(
            "Mean slope in place of the new point",
            "Multiply it by s, and add p.",
            lambda a, b, t, p, s: (three_eighths(a, b, t, p, s) - p) / s,
        ),
        Misconception(
            "Mean slope not multiplied by the step",
            "Multiply the mean slope by s.",
            lambda a, b, t, p, s: p + (three_eighths(a, b, t, p, s) - p) / s,
        ),
    ),
    properties=(
        Property(
            "Without A the result is exact",
            lambda answer, a, b, t, p, s: np.allclose(
                answer(0 * a, b, t, p, s), p + b * ((t + s) ** 4 - t**4) / 4
            ),
        ),
    ),
    explanation=r"""
Each slope is taken at its own time, and at `p` plus `s` times the weighted sum of the slopes before; the weights then average the four slopes.
On $h = A p$ both methods give the same result, since their factors are the same polynomial of $A s$; on $h = t^3 b$ both are exact, since both integrate polynomials of degree three without error.
They differ where both parts are there: for the first case ($A$ and $b$ with one feature) by $1.8 \cdot 10^{-4}$.
By {prf:ref}`the theorem on the tableaux <thm-floater-order>` both have order four, so they differ at most in terms of order $s^5$, as on nonlinear fields.
""",
)


def _unscaled(a, b, t, p, s):
    def h(time, point):
        return a @ point + time**3 * b

    k = h(t, p)
    m = h(t + s / 3, p + k / 3)
    n = h(t + 2 * s / 3, p + m - k / 3)
    o = h(t + s, p + k - m + n)
    return p + s / 8 * (k + 3 * m + 3 * n + o)


# floater-4: the last step before a position


def last_step(positions, steps):
    """Number of whole solver steps from 0 to each position, and the rest: [n, 2].

    ``positions`` are [n], and ``steps`` is the number of steps per unit of position.
    Both numbers are signed; the rest is a fraction of a step.
    """
    count = positions * steps
    whole = np.trunc(count)
    return np.stack((whole, count - whole), -1)


def _rounded(rule):
    def answer(positions, steps):
        count = positions * steps
        whole = rule(count)
        return np.stack((whole, count - whole), -1)

    return answer


def _parts(change):
    return lambda positions, steps: change(
        last_step(positions, steps), positions, steps
    )


LAST = Exercise(
    name="floater-4",
    title="The last step before a position",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
A solver takes `steps` steps from each whole position to the next, in both directions from 0.
For each of `positions`, reals of either sign, return the number of whole steps from 0 towards it (negative if they go backwards) and the remaining part of a step, with its sign: `[positions, 2]`.
Why must the places of the steps, in a model with a cache, not depend on the positions for which they are taken?
""",
    hint=r"""
A position below 0 is approached from 0, so its whole steps are rounded towards 0.
""",
    cases=(
        (np.array([0.5, -0.75]), 2),
        (np.array([0.0, 1.0, 2.25, -3.0]), 1),
        (np.array([-0.1, 7.3, -2.6, 4.0]), 4),
        (np.array([0.9995, -0.9995, 1000.5]), 1),
    ),
    solution=last_step,
    misconceptions=(
        Misconception(
            "Rounded down",
            "Below 0 rounding down gives a step too many. Count from 0.",
            _rounded(np.floor),
        ),
        Misconception(
            "Rounded up",
            "Your last step lies beyond the position.",
            _rounded(np.ceil),
        ),
        Misconception(
            "Rounded to the nearest",
            "Your remainder may then point backwards.",
            _rounded(np.round),
        ),
        Misconception(
            "Rounded away from 0",
            "Your last step lies beyond the position.",
            _rounded(lambda count: np.sign(count) * np.ceil(np.abs(count))),
        ),
        Misconception(
            "Nearly whole numbers of steps made whole",
            "A step that is not complete does not count, however little is missing.",
            _rounded(lambda count: np.trunc(np.round(count, 2))),
        ),
        Misconception(
            "Integers of 8 bits",
            "An integer of 8 bits ends at 127. Positions have no such bound.",
            _rounded(lambda count: count.astype(np.int64).astype(np.int8)),
        ),
        Misconception(
            "Whole positions in place of steps",
            "There are several steps per position.",
            lambda positions, steps: last_step(positions, 1),
        ),
        Misconception(
            "Sign lost",
            "Steps below 0 go backwards.",
            _parts(lambda out, at, n: np.abs(out)),
        ),
        Misconception(
            "Remainder without its sign",
            "Below 0 the remainder is negative, too.",
            _parts(lambda out, at, n: out * [1, 0] + np.abs(out) * [0, 1]),
        ),
        Misconception(
            "Remainder in positions",
            "The remainder is a part of a step, between −1 and 1.",
            _parts(lambda out, at, n: out / [1, n]),
        ),
        Misconception(
            "Part that is missing to the next step",
            "The remainder leads from the last whole step to the position.",
            _parts(lambda out, at, n: np.stack((out[:, 0], 1 - np.abs(out[:, 1])), -1)),
        ),
        Misconception(
            "Columns exchanged",
            "Whole steps are in the first column.",
            _parts(lambda out, at, n: out[:, ::-1]),
        ),
        Misconception(
            "Positions divided by the steps",
            "Multiply by the steps per position.",
            lambda positions, steps: last_step(positions, 1 / steps),
        ),
        Misconception(
            "No remainder",
            "A position between two steps has a vector of its own.",
            _parts(lambda out, at, n: out * [1, 0]),
        ),
        Misconception(
            "Steps since the last whole position",
            "All steps from 0 are counted, not only those since the last whole "
            "position.",
            lambda positions, steps: np.stack(
                (
                    np.trunc(positions) * steps,
                    (positions - np.trunc(positions)) * steps,
                ),
                -1,
            ),
        ),
    ),
    properties=(
        Property(
            "Whole steps and remainder together lead to the position",
            lambda answer, positions, steps: np.allclose(
                np.sum(answer(positions, steps), -1) / steps, positions
            ),
        ),
    ),
    level="optional",
    explanation=r"""
`np.trunc` rounds towards 0, so $-0.75$ with two steps per position, which is $-1.5$ steps, is one whole step backwards and half a step more backwards.
With these places the vector of a position depends on this position alone.
If the steps were laid out between the positions that happen to be asked for, the vector of a position would change with the other positions in the call, up to the solver's error, and a cached key would not agree with the same key computed with the whole text.
""",
)


# floater-5: the released field


def field(t, p, inner, inner_bias, outer, outer_bias):
    """Slope h(t, p) in FLOATER's released code, an MLP: [states, width].

    ``p``, [states, width], are the states at time ``t``. ``inner`` and ``inner_bias``
    are weight and bias of the MLP's first layer, ``outer`` and ``outer_bias`` weight
    and bias of the last layer. Both layers read the time t, too.
    """
    time = torch.full((*p.shape[:-1], 1), t, dtype=p.dtype)
    hidden = torch.relu(torch.cat((p, time), -1) @ inner.T + inner_bias)
    return torch.cat((hidden, time), -1) @ outer.T + outer_bias


def _field(
    first=True,
    second=True,
    act=torch.relu,
    front=False,
    biases=(1, 1),
    second_time=None,
):
    """Make a wrong answer (a function) to the exercise ``field``.

    The exercise asks for the slope h(t, p) of FLOATER's released code, an MLP whose two
    layers read the time after the features. In the wrong answer, ``first`` and
    ``second`` say which of the two layers read the time, and ``front`` puts the time
    before the features. ``act`` replaces ReLU; ``biases`` are factors of the two
    biases. ``second_time`` is the time in the second layer, None for t.
    """

    def joined(x, t, is_there):
        time = torch.full((*x.shape[:-1], 1), t if is_there else 0.0, dtype=x.dtype)
        return torch.cat((time, x) if front else (x, time), -1)

    def answer(t, p, inner, inner_bias, outer, outer_bias):
        z = joined(p, t, first) @ inner.T + biases[0] * inner_bias
        later = t if second_time is None else second_time
        return joined(act(z), later, second) @ outer.T + biases[1] * outer_bias

    return answer


def _tensors(t, states, width, seed):
    sizes = (states, width), (width, width + 1), (width,), (width, width + 1), (width,)
    return (t, *(torch.tensor(draw(*n, seed=seed + k)) for k, n in enumerate(sizes)))


FIELD = Exercise(
    name="floater-5",
    title="The released field",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
Return $h(t, p)$ of the released code for states `p`, `[states, width]`: a linear layer, ReLUs, a linear layer.
Both layers read the time `t`, a number, as one more input after their features: `inner` and `outer` are `[width, width + 1]`.
Keep the dtype of `p`, also for the time.
With which biases is $h$ linear in $p$ for all values that the sinusoidal encoding takes?
""",
    hint=r"""
In both layers, append a column that holds `t` for each state to the features.
""",
    cases=(
        _tensors(2.0, 1, 2, 1),
        _tensors(-1.0, 3, 4, 10),
        _tensors(0.5, 6, 3, 20),
        _tensors(1000.1, 2, 3, 30),
        (0.5, *(x.round().float() for x in _tensors(0.5, 2, 3, 40)[1:])),
    ),
    solution=field,
    misconceptions=(
        Misconception(
            "Second layer without the time",
            "Both layers read the time.",
            _field(second=False),
        ),
        Misconception(
            "First layer without the time",
            "Both layers read the time.",
            _field(first=False),
        ),
        Misconception(
            "No time",
            "Both layers read the time.",
            _field(first=False, second=False),
        ),
        Misconception(
            "Time as the first input",
            "The time is the last input of a layer.",
            _field(front=True),
        ),
        Misconception(
            "No ReLU",
            "Two layers without an activation between them are one layer.",
            _field(act=lambda z: z),
        ),
        Misconception(
            "A smooth activation",
            "The released field has ReLUs.",
            _field(act=torch.nn.functional.gelu),
        ),
        Misconception(
            "A leaky ReLU",
            "The released field has plain ReLUs.",
            _field(act=torch.nn.functional.leaky_relu),
        ),
        Misconception(
            "A hyperbolic tangent",
            "The released field has ReLUs.",
            _field(act=torch.tanh),
        ),
        Misconception(
            "No inner bias", "Both layers have a bias.", _field(biases=(0, 1))
        ),
        Misconception(
            "No outer bias", "Both layers have a bias.", _field(biases=(1, 0))
        ),
        Misconception(
            "Absolute values",
            "The released field has ReLUs.",
            _field(act=torch.abs),
        ),
        Misconception(
            "Time through the ReLU",
            "Append the time to what the ReLU gives. A ReLU makes 0 of a negative time.",
            lambda t, p, *rest: _field(second_time=max(t, 0.0))(t, p, *rest),
        ),
        Misconception(
            "Time added to the features",
            "The time is one more input, with weights of its own.",
            lambda t, p, inner, inner_bias, outer, outer_bias: (
                torch.relu((p + t) @ inner[:, :-1].T + inner_bias) @ outer[:, :-1].T
                + outer_bias
            ),
        ),
        Misconception(
            "A 1 in place of the time",
            "The last input of both layers is `t`.",
            lambda t, *rest: field(1.0, *rest),
        ),
        Misconception(
            "Time as the first input of the second layer",
            "The time is the last input of both layers.",
            lambda t, p, inner, inner_bias, outer, outer_bias: field(
                t, p, inner, inner_bias, outer.roll(-1, 1), outer_bias
            ),
        ),
        Misconception(
            "First state alone",
            "Each state has a slope of its own.",
            lambda t, p, *rest: field(t, p[:1], *rest).expand(p.shape),
        ),
        Misconception(
            "A residual sum",
            "h is the slope. The solver adds it to the state.",
            lambda t, p, *rest: p + field(t, p, *rest),
        ),
        Misconception(
            "A ReLU after the last layer",
            "Slopes may be negative.",
            lambda t, p, *rest: field(t, p, *rest).relu(),
        ),
        Misconception(
            "No bias",
            "Both layers have a bias.",
            _field(biases=(0, 0)),
        ),
    ),
    properties=(
        Property(
            "With weights of 0 the result is the outer bias",
            lambda answer, t, p, inner, inner_bias, outer, outer_bias: torch.allclose(
                answer(t, p, 0 * inner, inner_bias, 0 * outer, outer_bias),
                outer_bias.expand(p.shape),
            ),
        ),
    ),
    explanation=r"""
The features get one more column, the time, before each of the two linear layers, and the time is made in the dtype of `p`: in float32 a time such as 1000.1 would be off by $2 \cdot 10^{-5}$.
$h$ is linear in $p$ wherever no ReLU cuts off, if the outer bias cancels what the inner bias adds.
With the identity as inner weights and $V$ as outer weights, without time weights, an inner bias of at least 1 in each unit keeps all units active, because no feature of the encoding is below $-1$; the outer bias must be $-V$ times the inner one.
{prf:ref}`The theorem on the released field <thm-floater-raised>` takes the inner bias 2.
""",
)


# floater-6: how many steps are enough


def steps_needed(position, omega, tolerance):
    """Fewest solver steps per position that keep an angle accurate: an int.

    A bound on the error of the angle ``omega`` · ``position`` must be at most
    ``tolerance``; ``omega`` is the frequency in radians per position.
    """
    least = (position * omega**5 / 120 / tolerance) ** (1 / 4)
    return max(1, math.ceil(least))


def _steps_needed(least):
    return lambda i, w, e: max(1, math.ceil(least(i, w, e)))


STEPS_NEEDED = Exercise(
    name="floater-6",
    title="How many steps are enough",
    kind="experiment",
    minutes=10,
    lines=4,
    statement=r"""
A pair rotates by `omega` radians per position.
After $n$ steps by the angle $z \le \sqrt 8$ each, a pair of length 1 is off by $n z^5/120$ at most.
Return the smallest number of steps per position, 1 or more, with which this bound is at most `tolerance` at `position`; you need not check the condition on $z$.
The released code takes five: up to which position are they enough for $\omega = 1$ and a tolerance of 0.01?
""",
    hint=r"""
With $m$ steps per position, $m$ times `position` steps lead to `position`, and each rotates by `omega` / $m$.
""",
    cases=(
        (1, 1.0, 1e-2),
        (1, 1.0, 1e-4),
        (193, 1.0, 1e-1),
        (100, 1.0, 1e-3),
        (5000, 2.0, 1e-2),
        (30, 0.5, 1e-6),
        (12, 1.0, 1e-1),
        (200_000, 3.0, 1e-3),
    ),
    solution=steps_needed,
    misconceptions=(
        Misconception(
            "The error of one step",
            "The errors of all steps up to the position add up.",
            _steps_needed(lambda i, w, e: (w**5 / 120 / e) ** (1 / 5)),
        ),
        Misconception(
            "As many steps as positions",
            "There are m steps per position.",
            _steps_needed(lambda i, w, e: (i * w**5 / 120 / e) ** (1 / 5)),
        ),
        Misconception(
            "Full angle in each step",
            "With more steps each rotates by a smaller angle.",
            _steps_needed(lambda i, w, e: i * w**5 / 120 / e),
        ),
        Misconception(
            "4! in place of 5!",
            "The first term left out is z⁵/120.",
            _steps_needed(lambda i, w, e: (i * w**5 / 24 / e) ** (1 / 4)),
        ),
        Misconception(
            "The fourth power in each step",
            "The first term left out is z⁵/120.",
            _steps_needed(lambda i, w, e: (i * w**4 / 24 / e) ** (1 / 3)),
        ),
        Misconception(
            "Euler's steps",
            "Euler's steps leave out z²/2, these leave out z⁵/120.",
            _steps_needed(lambda i, w, e: i * w**2 / 2 / e),
        ),
        Misconception(
            "No factorial",
            "The first term left out is z⁵/120.",
            _steps_needed(lambda i, w, e: (i * w**5 / e) ** (1 / 4)),
        ),
        Misconception(
            "One too many",
            "The smallest number for which the bound holds is asked for.",
            lambda i, w, e: steps_needed(i, w, e) + 1,
        ),
        Misconception(
            "Rounded to the nearest",
            "With one step less the bound may not hold: round up.",
            lambda i, w, e: max(1, round((i * w**5 / 120 / e) ** (1 / 4))),
        ),
        Misconception(
            "Multiplied by the position",
            "The number of steps per position is asked for.",
            lambda i, w, e: steps_needed(i, w, e) * i,
        ),
        Misconception(
            "Bound below the tolerance",
            "The bound may be equal to the tolerance.",
            lambda i, w, e: int((i * w**5 / 120 / e) ** (1 / 4)) + 1,
        ),
        Misconception(
            "Frequency divided by 2π",
            "`omega` is in radians, as z is.",
            _steps_needed(lambda i, w, e: (i * (w / 2 / np.pi) ** 5 / 120 / e) ** 0.25),
        ),
        Misconception(
            "Multiplied by the tolerance",
            "A smaller tolerance needs more steps.",
            _steps_needed(lambda i, w, e: (i * w**5 / 120 * e) ** (1 / 4)),
        ),
        Misconception(
            "The code's five",
            "Five is what the code has, not what is enough.",
            lambda i, w, e: 5,
        ),
        Misconception(
            "Error of the radius",
            "For small z lengths shrink by z⁶/144 only, and angles are off by more.",
            _steps_needed(lambda i, w, e: (i * w**6 / 144 / e) ** (1 / 5)),
        ),
        Misconception(
            "Rounded down",
            "With one step less the bound does not hold: round up.",
            lambda i, w, e: int((i * w**5 / 120 / e) ** (1 / 4)),
        ),
        Misconception(
            "Rounded down, but not to 0",
            "With one step less the bound does not hold: round up.",
            lambda i, w, e: max(1, int((i * w**5 / 120 / e) ** (1 / 4))),
        ),
        Misconception(
            "Position forgotten",
            "The errors of the steps up to the position add up.",
            _steps_needed(lambda i, w, e: (w**5 / 120 / e) ** (1 / 4)),
        ),
        Misconception(
            "ω not raised",
            "The angle of a step has the fifth power.",
            _steps_needed(lambda i, w, e: (i * w / 120 / e) ** (1 / 4)),
        ),
        Misconception(
            "All steps to the position counted",
            "The number of steps per position is asked for.",
            lambda i, w, e: math.ceil(i * (i * w**5 / 120 / e) ** (1 / 4)),
        ),
    ),
    properties=(
        Property(
            "The bound holds with that many steps and not with one less",
            lambda answer, i, w, e: (
                i * w**5 / 120 / e <= answer(i, w, e) ** 4
                and (answer(i, w, e) - 1) ** 4 <= i * w**5 / 120 / e
            ),
        ),
    ),
    level="optional",
    explanation=r"""
With $m$ steps per position, $n = m i$ steps of the angle $z = \omega/m$ lead to position $i$, so the bound is $m i\, (\omega/m)^5/120 = i\, \omega^5/(120\, m^4)$.
It is at most the tolerance for $m \ge \bigl(i\, \omega^5/(120\, \text{tolerance})\bigr)^{1/4}$, rounded up.
Five steps are enough for $\omega = 1$ and a tolerance of 0.01 as long as $i \le 5^4 \cdot 120 \cdot 0.01 = 750$.
The error grows in proportion to the position, but only the fourth root of the position enters the number of steps.
""",
    prediction=Prediction(
        "Up to which position are five steps per position enough, for "
        "$\\omega = 1$ and a tolerance of 0.01?",
        lambda: max(i for i in range(1, 1000) if steps_needed(i, 1.0, 0.01) <= 5),
        near=0.2,
    ),
)


# floater-7: fields on which two rules agree


def colleagues_step(a, b, t, p, s):
    """One step of "rk4", the Runge–Kutta method.

    The function is h(t, p) = A p + t³ b.
    """

    def slope(time, point):
        return a @ point + time**3 * b

    first = slope(t, p)
    second = slope(t + s / 2, p + s / 2 * first)
    third = slope(t + s / 2, p + s / 2 * second)
    fourth = slope(t + s, p + s * third)
    middle = 2 * second + 2 * third
    return p + s / 6 * (first + middle + fourth)


def field_that_differs():
    """Return a, b, t, p and s for which `colleagues_step` is wrong."""
    return np.array([[1.0]]), np.array([1.0]), 0, np.array([0.0]), 1


def _sum_of_sizes(a, b, t, p, s):
    return int(sum(np.abs(x).sum() for x in (a, b, t, p, s)))


def _no_field(a, b, t, p, s):
    if any(type(x) is not np.ndarray or x.dtype.kind not in "if" for x in (a, b, p)):
        return "a, b and p are arrays of numbers"
    if a.shape != (1, 1) or b.shape != (1,) or p.shape != (1,):
        return "a has shape [1, 1], b and p have shape [1]"
    numbers = (a.item(), b.item(), t, p.item(), s)
    is_whole = all(np.isfinite(x) and x == round(x) for x in numbers)
    return "" if is_whole and s > 0 else "all numbers are whole, and s is positive"


AGREEMENT = Exercise(
    name="floater-7",
    title="Find the input: two methods named rk4",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_step` should do what exercise floater-3 asks for.
She has tested it with the exponential ($A = 1$, $b = 0$) and with the integral of $t^3$ ($A = 0$, $b = 1$); both tests pass, with all digits.
Find arguments for which it is wrong: `a` of shape `[1, 1]`, `b` and `p` of shape `[1]`, all numbers whole, `s` positive.
The sum of the absolute values of all five arguments must be as small as possible.
Why must the right answers of her two tests agree with the wrong method?
""",
    hint=r"""
Which part of the field vanishes in each of her tests?
""",
    cases=((),),
    solution=field_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_step,
        right=three_eighths,
        tested=(
            (np.array([[1.0]]), np.array([0.0]), 0, np.array([1.0]), 1),
            (np.array([[0.0]]), np.array([1.0]), 1, np.array([0.0]), 2),
        ),
        refusal=_no_field,
        size=_sum_of_sizes,
        size_of="sum of absolute values",
    ),
    explanation=r"""
She has written the classical method, and the 3/8 rule is asked for; torchdiffeq names its 3/8 rule "rk4".
On $h = A p$ both multiply $p$ by the same polynomial, the first terms of the exponential series, and on $h = t^3 b$ both are exact, so neither test can distinguish them.
$A$, $b$ and the step must therefore be nonzero, and $A = 1$, $b = 1$, $s = 1$ with $t = 0$ and $p = 0$ is already a case; its sum is 3.
Both methods have order four, by {prf:ref}`the theorem on the tableaux <thm-floater-order>`, so a test of the order would not distinguish them either.
""",
)


# floater-8: how the error grows with the position


def colleagues_number(position, omega, tolerance):
    """Fewest solver steps per position for an angle."""
    share = position * omega**5 / (120 * tolerance)
    return max(1, math.ceil(share**0.2))


def position_that_differs():
    """Return position, omega and tolerance for which the function is wrong."""
    return 20, 1.0, 0.01


def _no_position(position, omega, tolerance):
    if (omega, tolerance) != (1.0, 0.01):
        return "omega is 1.0 and tolerance is 0.01"
    is_position = type(position) is int and 0 < position <= 10**6
    return "" if is_position else "position is an int from 1 to a million"


TOO_FEW = Exercise(
    name="floater-8",
    title="Find the input: too few steps",
    kind="find the input",
    minutes=10,
    lines=1,
    level="hard",
    statement=r"""
`colleagues_number` should do what exercise floater-6 asks for.
She has tested it at the positions 1, 5 and 15, with $\omega = 1$ and a tolerance of 0.01, and all of these tests pass.
For which position, the smallest, is it wrong with this `omega` and this `tolerance`?
What has she forgotten?
""",
    hint=r"""
Write down her condition and the right one as powers of the number of steps.
Between which whole numbers does each of the two roots lie?
""",
    cases=((),),
    solution=position_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_number,
        right=steps_needed,
        tested=((1, 1.0, 0.01), (5, 1.0, 0.01), (15, 1.0, 0.01)),
        refusal=_no_position,
        size=lambda position, omega, tolerance: position,
        size_of="position",
    ),
    explanation=r"""
She takes a fifth root, as if `position` steps were made in all; with $m$ steps per position there are $m$ times as many, and the condition is $m^4 \ge i\, \omega^5/(120 \cdot 0.01) = i/1.2$.
Both roots are at most 1 for $i = 1$, and lie between 1 and 2 from $i = 2$ on, as long as $i/1.2 \le 2^4$, that is up to $i = 19$.
At $i = 20$ three steps are needed, and she still says two, until $i/1.2$ exceeds $2^5$.
""",
)


SHEET = Sheet(
    title="FLOATER",
    conventions=r"""
A position $i$ is the time $i\, \Delta$.
Pairs are interleaved: feature $2p$ is the sine and feature $2p + 1$ the cosine of pair $p$.
In a step by the angle $z$ a pair rotates by $z$ radians.
""",
    example=r"""
from posedu.numpy.absolute import flow

start, at = np.array([0.0, 1.0]), [0, 1, 10]
solver = dict(tableau="classical", delta=0.1)
out = flow(lambda t, p: 10 * t + 0 * p, start, at, **solver)
print(np.round(out, 3))  # p(0) + 5 t^2, [positions, width]
""",
    figure="floater_explorable",
    exercises=(
        FACTOR,
        FIELD_MATRIX,
        STEP,
        LAST,
        FIELD,
        STEPS_NEEDED,
        AGREEMENT,
        TOO_FEW,
    ),
)
