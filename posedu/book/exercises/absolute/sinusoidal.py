"""Exercises on sinusoidal encodings."""

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
from posedu.numpy import absolute
from posedu.numpy.frequencies import frequencies as geometric

# sinusoidal-1: one position on paper


def first_position():
    """Sinusoidal encoding PE(1) for d = 4, interleaved: a SymPy column."""
    slow = sp.Rational(1, 100)
    return sp.Matrix([sp.sin(1), sp.cos(1), sp.sin(slow), sp.cos(slow)])


def _sines_and_cosines(*angles):
    waves = (sp.sin, sp.cos) * 2
    return sp.Matrix([f(angle) for f, angle in zip(waves, angles, strict=True)])


FIRST_POSITION = Exercise(
    name="sinusoidal-1",
    title="One position on paper",
    kind="by hand",
    minutes=5,
    lines=2,
    statement=r"""
Work out $\mathrm{PE}(1)$ for $d = 4$ in the interleaved layout, on paper.
Then return it as a SymPy column, exactly: `sp.sin`, `sp.cos`, `sp.Rational(1, …)`, no decimal point.
""",
    hint=r"""
There are two pairs, $p = 0$ and $p = 1$, and $10000^{2/4} = 100$.
""",
    cases=((),),
    solution=first_position,
    misconceptions=(
        Misconception(
            "Second frequency 1/10000",
            "The exponent is −2p/d, where p counts pairs, and 2p/d does not reach 1. "
            "It does if p counts features, and in tensor2tensor's rule.",
            lambda: _sines_and_cosines(
                1, 1, sp.Rational(1, 10**4), sp.Rational(1, 10**4)
            ),
        ),
        Misconception(
            "A different frequency for each feature",
            "The sine and the cosine of a pair share one angle. That makes them a "
            "pair.",
            lambda: _sines_and_cosines(*[sp.Rational(1, 10**n) for n in range(4)]),
        ),
        Misconception(
            "Pairs counted from 1",
            "The first pair is p = 0, and 10000⁰ = 1: at position 1 its angle is one "
            "radian.",
            lambda: _sines_and_cosines(*[sp.Rational(1, 100**n) for n in (1, 1, 2, 2)]),
        ),
        Misconception(
            "The half layout",
            "Interleaved means sine, cosine, sine, cosine.",
            lambda: sp.Matrix([first_position()[n] for n in (0, 2, 1, 3)]),
        ),
        Misconception(
            "Cosines first",
            "Even features are sines. At position 0 the vector is (0, 1, 0, 1).",
            lambda: sp.Matrix([first_position()[n] for n in (1, 0, 3, 2)]),
        ),
        Misconception(
            "Degrees in place of radians",
            "The angle is in radians: sin 1 is about 0.84.",
            lambda: _sines_and_cosines(*[sp.pi / 180 / n for n in (1, 1, 100, 100)]),
        ),
        Misconception(
            "Exponent without its 2",
            "With 10000^(p/d) the second pair gets 10000^(1/4) = 10. Each pair has "
            "two features, and the exponent of pair p is 2p/d.",
            lambda: _sines_and_cosines(1, 1, sp.Rational(1, 10), sp.Rational(1, 10)),
        ),
        Misconception(
            "Second pair faster than the first",
            "The position is divided by 10000^(2p/d), not multiplied by it.",
            lambda: _sines_and_cosines(1, 1, 100, 100),
        ),
        Misconception(
            "The encoding of position 0",
            "There all sines are 0 and all cosines 1, whatever the frequencies are. "
            "PE(1) is asked for.",
            lambda: _sines_and_cosines(0, 0, 0, 0),
        ),
        Misconception(
            "The encoding of position 2",
            "Positions count from 0, so PE(1) belongs to the second token, which is "
            "at position 1.",
            lambda: _sines_and_cosines(2, 2, sp.Rational(1, 50), sp.Rational(1, 50)),
        ),
        Misconception(
            "Slow pair first",
            "The first pair is p = 0, with frequency 10000⁰ = 1.",
            lambda: sp.Matrix([first_position()[n] for n in (2, 3, 0, 1)]),
        ),
        Misconception(
            "One pair all sines, the other all cosines",
            "Each pair has a sine and a cosine, of the same angle.",
            lambda: sp.Matrix(
                [
                    sp.sin(1),
                    sp.sin(1),
                    sp.cos(sp.Rational(1, 100)),
                    sp.cos(sp.Rational(1, 100)),
                ]
            ),
        ),
        Misconception(
            "Angles without sines and cosines",
            "Your angles are right. Now take their sines and cosines.",
            lambda: sp.Matrix([1, 1, sp.Rational(1, 100), sp.Rational(1, 100)]),
        ),
        Misconception(
            "Radians taken for full turns",
            "ω is in radians per position, so there is no 2π in the angle.",
            lambda: _sines_and_cosines(*[2 * sp.pi / n for n in (1, 1, 100, 100)]),
        ),
        Misconception(
            "Second frequency 1/1000",
            "10000^(2/4) is a root of 10000. Which one?",
            lambda: _sines_and_cosines(
                1, 1, sp.Rational(1, 1000), sp.Rational(1, 1000)
            ),
        ),
        Misconception(
            "Second pair with its cosine first",
            "Each pair begins with its sine.",
            lambda: sp.Matrix([first_position()[n] for n in (0, 1, 3, 2)]),
        ),
        Misconception(
            "Second angle doubled",
            "The 2 of 2p/d stands in the exponent, not in front of the angle.",
            lambda: _sines_and_cosines(1, 1, sp.Rational(1, 50), sp.Rational(1, 50)),
        ),
    ),
    explanation=r"""
The frequencies of {prf:ref}`the definition <dfn-frequencies>` are $\omega_0 = 10000^0 = 1$ and $\omega_1 = 10000^{-2/4} = \frac1{100}$.
At position 1 the angles are 1 and $\frac1{100}$, so $\mathrm{PE}(1) = (\sin 1, \cos 1, \sin \frac1{100}, \cos \frac1{100})$.
The second pair has moved by a hundredth of a radian: it needs $200\pi \approx 628$ positions for one turn, the first pair about 6.3.
""",
)


# sinusoidal-2: frequencies by both rules


def frequencies(d, spacing):
    """Frequencies of a sinusoidal encoding's pairs, by one of two rules.

    ``d`` is the width of the encoding; ``spacing`` is the rule, "paper" or
    "tensor2tensor". The frequencies are a float64 array [d/2].
    """
    steps = d / 2 if spacing == "paper" else d / 2 - 1
    return 10000.0 ** (-np.arange(d // 2) / steps)


def _other_rule(d, spacing):
    swap = {"paper": "tensor2tensor", "tensor2tensor": "paper"}
    return frequencies(d, swap[spacing])


def _frequencies_from_1(d, spacing):
    ratio = 10000.0 ** (-2 / d if spacing == "paper" else -1 / (d // 2 - 1))
    return frequencies(d, spacing) * ratio


def _by_rule(paper, tensor2tensor):
    """Make a wrong answer (a function) to the exercise ``frequencies``.

    The exercise asks for the frequencies of a sinusoidal encoding, powers of 10000. In
    the wrong answer, the exponents of the pairs p are ``paper(p, d)`` or
    ``tensor2tensor(p, d)``, by the value of ``spacing``; right are −p/(d/2) and −p/(d/2
    − 1).
    """

    def answer(d, spacing):
        exponent = paper if spacing == "paper" else tensor2tensor
        return 10000.0 ** exponent(np.arange(d // 2), d)

    return answer


def _paper(p, d):
    return -2 * p / d


def _tensor2tensor(p, d):
    return -p / (d / 2 - 1)


FREQUENCIES = Exercise(
    name="sinusoidal-2",
    title="Two rules for the frequencies",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
Return the $d/2$ frequencies, fastest first, as a float64 array.
`spacing` is `"paper"`, $\omega_p = 10000^{-2p/d}$, or `"tensor2tensor"`, $\omega_p = 10000^{-p/(d/2 - 1)}$; $d$ is even and at least 4.
""",
    hint=r"""
Only the number that divides $p$ differs, and both rules begin at 1.
""",
    cases=tuple(
        (d, spacing) for d in (4, 6, 64) for spacing in ("paper", "tensor2tensor")
    ),
    solution=frequencies,
    misconceptions=(
        Misconception(
            "The two rules exchanged",
            "The paper's exponent never reaches −1; tensor2tensor's last one does.",
            _other_rule,
        ),
        Misconception(
            "One rule for both",
            "For tensor2tensor the last frequency is 1/10000 exactly.",
            lambda d, spacing: frequencies(d, "paper"),
        ),
        Misconception(
            "Exponent with its 2 twice",
            "Every frequency of yours is squared. p counts pairs; does yours count "
            "features?",
            lambda d, spacing: frequencies(d, spacing) ** 2,
        ),
        Misconception(
            "Missing minus sign",
            "You return the divisors, not the frequencies. ω₀ = 1 is the fastest, and "
            "the others are slower.",
            lambda d, spacing: 1 / frequencies(d, spacing),
        ),
        Misconception(
            "Pairs counted from 1",
            "Pair 0 comes first, with frequency 1.",
            _frequencies_from_1,
        ),
        Misconception(
            "Exponent of the paper's rule without its 2",
            "For large d the slowest of d/2 pairs should come near 1/10000. With −p/d "
            "it stops near 1/100.",
            _by_rule(lambda p, d: -p / d, _tensor2tensor),
        ),
        Misconception(
            "Features counted in tensor2tensor's rule, not pairs",
            "p is divided by the number of pairs less one, d/2 − 1, so that the last "
            "exponent is −1.",
            _by_rule(_paper, lambda p, d: -p / (d - 1)),
        ),
        Misconception(
            "2p divided by d − 1 in tensor2tensor's rule",
            "With −2p/(d − 1) the last frequency is above 1/10000. By what must p "
            "be divided for the last pair?",
            _by_rule(_paper, lambda p, d: -2 * p / (d - 1)),
        ),
        Misconception(
            "Exponent with its 2 twice in tensor2tensor's rule",
            "p counts pairs, and the last of them is d/2 − 1: −p/(d/2 − 1) reaches −1 "
            "there.",
            _by_rule(_paper, lambda p, d: -2 * p / (d / 2 - 1)),
        ),
        Misconception(
            "Brackets missing in tensor2tensor's rule",
            "p is divided by d/2 − 1. Without the brackets 1 is subtracted from the "
            "exponent.",
            _by_rule(_paper, lambda p, d: -p / (d / 2) - 1),
        ),
        Misconception(
            "1 added to the number of pairs in tensor2tensor's rule",
            "With d/2 + 1 the last exponent is nearer to 0 than in the paper's rule. "
            "It should be −1.",
            _by_rule(_paper, lambda p, d: -p / (d / 2 + 1)),
        ),
        Misconception(
            "Wavelengths in place of frequencies",
            "2π/ω is the number of positions of a full turn. Frequencies are asked "
            "for.",
            lambda d, spacing: 2 * np.pi / frequencies(d, spacing),
        ),
        Misconception(
            "Full turns per position in place of radians",
            "ω is in radians per position, so nothing is divided by 2π.",
            lambda d, spacing: frequencies(d, spacing) / (2 * np.pi),
        ),
        Misconception(
            "Exponents in place of frequencies",
            "Your exponents are right. Now raise 10000 to them.",
            lambda d, spacing: np.log(frequencies(d, spacing)) / np.log(10000),
        ),
        Misconception(
            "Base multiplied by the exponent",
            "Raise 10000 to the exponent: `**`, not `*`.",
            lambda d, spacing: 10000 * np.log(frequencies(d, spacing)) / np.log(10000),
        ),
        Misconception(
            "Frequencies evenly spaced",
            "Their logarithms are evenly spaced: each frequency is the one before it "
            "times the same factor.",
            lambda d, spacing: np.linspace(1, frequencies(d, spacing)[-1], d // 2),
        ),
        Misconception(
            "Frequencies evenly spaced down to 1/10000",
            "Their logarithms are evenly spaced, and only one of the two rules "
            "reaches 1/10000.",
            lambda d, spacing: np.linspace(1, 1e-4, d // 2),
        ),
        Misconception(
            "Slowest frequency first",
            "Pair 0 is the fastest, with frequency 1.",
            lambda d, spacing: frequencies(d, spacing)[::-1],
        ),
        Misconception(
            "Base 1000",
            "The base is 10000: count the zeros.",
            lambda d, spacing: frequencies(d, spacing) ** 0.75,
        ),
    ),
    properties=(
        Property(
            "The fastest pair comes first, with frequency 1",
            lambda answer, d, spacing: bool(abs(answer(d, spacing)[0] - 1) < 1e-9),
        ),
        Property(
            "Frequencies form a geometric progression",
            lambda answer, d, spacing: bool(
                np.ptp(np.diff(np.log(answer(d, spacing)))) < 1e-9
            ),
        ),
    ),
    explanation=r"""
Both rules of {prf:ref}`the definition of the frequencies <dfn-frequencies>` begin at 1 and multiply by the same factor from pair to pair.
With $p$ divided by $d/2$ the last pair, $p = d/2 - 1$, stays above $10^{-4}$; with $p$ divided by $d/2 - 1$ it reaches $10^{-4}$ exactly.
The difference is large for a small width ($10^{-2}$ and $10^{-4}$ for $d = 4$) and small for a large one ($1.037 \cdot 10^{-4}$ and $10^{-4}$ for $d = 512$), and {prf:ref}`the theorem on wavelengths <thm-sin-wavelengths>` states it for the wavelengths.
""",
)


# sinusoidal-3: solve for the offset matrix


def offset_matrix(omega, t):
    """Matrix that moves the pair (sin ωi, cos ωi) by t positions: SymPy, 2 × 2.

    ``omega`` is the frequency ω. The matrix does not depend on the position i.
    """
    M = sp.Matrix(2, 2, sp.symbols("u1 v1 u2 v2"))
    equations = []
    for angle in (0, sp.pi / 2):
        here, there = (
            sp.Matrix([sp.sin(a), sp.cos(a)]) for a in (angle, angle + omega * t)
        )
        equations += list(M * here - there)
    return M.subs(sp.solve(equations, list(M)))


def _without_minus(omega, t):
    cos, sin = sp.cos(omega * t), sp.sin(omega * t)
    return sp.Matrix([[cos, sin], [sin, cos]])


def _moves_the_pair(answer, omega, t):
    i = sp.Symbol("i", real=True)
    here, there = (
        sp.Matrix([sp.sin(omega * n), sp.cos(omega * n)]) for n in (i, i + t)
    )
    return sp.simplify(answer(omega, t) * here - there) == sp.zeros(2, 1)


def _of_cosine_and_sine(entries):
    """Make a wrong answer (a function) to the exercise ``offset_matrix``.

    The exercise asks for the matrix that moves (sin ωi, cos ωi) by t positions, whose
    entries are cos ωt, sin ωt, −sin ωt, cos ωt. The wrong answer's matrix has the four
    entries ``entries(cos ωt, sin ωt)``, row by row.
    """
    return lambda omega, t: sp.Matrix(
        2, 2, entries(sp.cos(omega * t), sp.sin(omega * t))
    )


OFFSET_MATRIX = Exercise(
    name="sinusoidal-3",
    title="Solve for the shift",
    kind="SymPy",
    minutes=15,
    lines=7,
    statement=r"""
Find the matrix $M$, two by two, that moves a pair by $t$ positions, whatever the position $i$:

$$M \begin{pmatrix} \sin \omega i \\ \cos \omega i \end{pmatrix} = \begin{pmatrix} \sin \omega (i + t) \\ \cos \omega (i + t) \end{pmatrix}$$

Even if you know the matrix by heart, let SymPy find it.
`omega` and `t` are SymPy numbers or symbols.
""",
    hint=r"""
Give the four entries names.
An equation that holds for all angles $\omega i$ holds for $0$ and $\pi/2$; each of these angles gives two equations without $i$.
`sp.solve(equations, unknowns)` solves them.
""",
    cases=(
        (sp.S.One, sp.S.Zero),
        (sp.S.One, sp.pi / 2),
        (sp.S.Half, sp.pi / 3),
        tuple(sp.symbols("omega t", positive=True)),
    ),
    solution=offset_matrix,
    misconceptions=(
        Misconception(
            "Shift by −t",
            "Your answer is the transpose, M₋ₜ. With ω = 1 a shift by π/2 must take "
            "PE(0) = (0, 1) to (sin π/2, cos π/2) = (1, 0).",
            lambda omega, t: offset_matrix(omega, -t),
        ),
        Misconception(
            "No minus sign anywhere",
            "The cosine of a sum is a difference: cos(a + b) = cos a cos b − sin a "
            "sin b.",
            _without_minus,
        ),
        Misconception(
            "Missing frequency",
            "The pair rotates by ωt, not by t.",
            lambda omega, t: offset_matrix(1, t),
        ),
        Misconception(
            "Sine and cosine exchanged",
            "For t = 0 the matrix must be the identity.",
            lambda omega, t: offset_matrix(omega, sp.pi / (2 * omega) - t),
        ),
        Misconception(
            "A reflection",
            "The determinant of your matrix is −1. For t = 0 it must be the identity: "
            "look at the sign of the last entry.",
            _of_cosine_and_sine(lambda c, s: [c, s, s, -c]),
        ),
        Misconception(
            "A reflection with sine and cosine exchanged",
            "For t = 0 the matrix must be the identity.",
            _of_cosine_and_sine(lambda c, s: [s, c, c, -s]),
        ),
        Misconception(
            "Last entry with the wrong sign",
            "For t = 0 the matrix must be the identity.",
            _of_cosine_and_sine(lambda c, s: [c, s, -s, -c]),
        ),
        Misconception(
            "A diagonal matrix",
            "sin(a + b) = sin a cos b + cos a sin b: each new member needs both old "
            "ones.",
            _of_cosine_and_sine(lambda c, s: [c, 0, 0, c]),
        ),
        Misconception(
            "New pair as the product of the old one and that of t",
            "The sine of a sum is not the product of the sines. Each new member "
            "needs both old ones.",
            _of_cosine_and_sine(lambda c, s: [s, 0, 0, c]),
        ),
        Misconception(
            "Missing shift",
            "M depends on t. Yours shifts by one position, whatever t is.",
            lambda omega, t: offset_matrix(omega, 1),
        ),
        Misconception(
            "Frequency and shift added",
            "The angle ω(i + t) is ωi + ωt, so the pair rotates by a product.",
            lambda omega, t: offset_matrix(1, omega + t),
        ),
        Misconception(
            "The identity",
            "Only for t = 0 is the matrix the identity.",
            lambda omega, t: sp.eye(2),
        ),
        Misconception(
            "All signs reversed",
            "For t = 0 the matrix must be the identity, and yours is minus the "
            "identity.",
            lambda omega, t: -offset_matrix(omega, t),
        ),
        Misconception(
            "Both sines with a minus",
            "Only one of the two sines has a minus. Which of the two sums is a "
            "difference?",
            _of_cosine_and_sine(lambda c, s: [c, -s, -s, c]),
        ),
        Misconception(
            "Sine and cosine exchanged, without a minus",
            "For t = 0 the matrix must be the identity.",
            _of_cosine_and_sine(lambda c, s: [s, c, c, s]),
        ),
        Misconception(
            "Shift divided by the frequency",
            "A pair of frequency ω rotates by ω radians per position, so by ωt.",
            lambda omega, t: offset_matrix(1, t / omega),
        ),
        Misconception(
            "An approximation for small shifts",
            "1 and ωt are the first terms of cos ωt and sin ωt.",
            lambda omega, t: sp.Matrix([[1, omega * t], [-omega * t, 1]]),
        ),
    ),
    properties=(
        Property(
            "M (sin ωi, cos ωi) is the pair at i + t for every i", _moves_the_pair
        ),
    ),
    explanation=r"""
The addition theorems give $\sin(\omega i + \omega t) = \cos \omega t \sin \omega i + \sin \omega t \cos \omega i$ and $\cos(\omega i + \omega t) = -\sin \omega t \sin \omega i + \cos \omega t \cos \omega i$.
The coefficients are the rows of $M$: $(\cos \omega t, \sin \omega t)$ and $(-\sin \omega t, \cos \omega t)$.
Two angles are enough, because $(0, 1)$ and $(1, 0)$ span the plane; by {prf:ref}`the theorem on the group of shifts <thm-sin-group>` no other matrix shifts all integer positions by $t$, for $0 < \omega < \pi$.
""",
)


# sinusoidal-4: the table in both layouts


def table(length, d, layout):
    """Sinusoidal encodings of positions 0 … length − 1: a float64 array [length, d].

    ``layout``, "interleaved" or "half", says where the sines and cosines stand.
    """
    angles = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, d, 2) / d))
    if layout == "half":
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    result = np.empty((length, d))
    result[:, 0::2], result[:, 1::2] = np.sin(angles), np.cos(angles)
    return result


def _arranged(sines, cosines, layout):
    axis = -1 if layout == "interleaved" else -2
    return np.stack([sines, cosines], axis=axis).reshape(len(sines), -1)


def _table_at(positions, omega, layout):
    angles = np.outer(positions, omega)
    return _arranged(np.sin(angles), np.cos(angles), layout)


def _other_layout(length, d, layout):
    swap = {"interleaved": "half", "half": "interleaved"}
    return table(length, d, swap[layout])


def _cosines_first(length, d, layout):
    angles = np.outer(range(length), geometric(d))
    return _arranged(np.cos(angles), np.sin(angles), layout)


def _own_frequencies(length, d, layout):
    omega = 10000.0 ** (-np.arange(d) / d)
    angles = np.outer(range(length), omega)
    return _arranged(np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2]), layout)


def _with_frequencies(omega):
    """Make a wrong answer (a function) to the exercise ``table``.

    The exercise asks for sinusoidal encodings. In the wrong answer, ``omega(p, d)``
    replaces the frequencies 10000^(−2p/d) of the pairs p.
    """
    return lambda length, d, layout: _table_at(
        range(length), omega(np.arange(d // 2), d), layout
    )


def _of_angles(first, second):
    """Make a wrong answer (a function) to the exercise ``table``.

    The exercise asks for sinusoidal encodings. In the wrong answer, the functions
    ``first`` and ``second`` of the angle replace sine and cosine.
    """

    def answer(length, d, layout):
        angles = np.outer(range(length), geometric(d))
        return _arranged(first(angles), second(angles), layout)

    return answer


def _stacked_without_axis(length, d, layout):
    angles = np.outer(range(length), geometric(d))
    return np.stack([np.sin(angles), np.cos(angles)]).reshape(length, d)


def _frequency_of_feature(pair):
    """Make a wrong answer (a function) to the exercise ``table``.

    The exercise asks for sinusoidal encodings, in which the two features of pair p
    share a frequency. In the wrong answer, feature f has the frequency of pair
    ``pair(f, d)``, which may be another pair than its own.
    """

    def answer(length, d, layout):
        feature = np.arange(d)
        angles = np.outer(range(length), 10000.0 ** (-2 * pair(feature, d) / d))
        first = feature % 2 == 0 if layout == "interleaved" else feature < d // 2
        return np.where(first, np.sin(angles), np.cos(angles))

    return answer


TABLE = Exercise(
    name="sinusoidal-4",
    title="The table, in both layouts",
    kind="NumPy",
    minutes=15,
    lines=6,
    statement=r"""
Return $\mathrm{PE}$ of the positions $0, \dots, \text{length} - 1$ as a float64 array `[length, d]`, with the paper's frequencies.
`layout` is `"interleaved"` (sine, cosine, sine, cosine, …) or `"half"` (all sines, then all cosines).
""",
    hint=r"""
`np.outer` gives all angles at once.
Slices with a step, `table[:, 0::2]`, can be assigned to.
""",
    cases=(
        (1, 4, "interleaved"),
        (2, 4, "interleaved"),
        (2, 4, "half"),
        (7, 16, "interleaved"),
        (7, 16, "half"),
    ),
    solution=table,
    misconceptions=(
        Misconception(
            "Layouts exchanged",
            "The interleaved layout alternates sines and cosines; the half layout has "
            "all sines first.",
            _other_layout,
        ),
        Misconception(
            "One layout for both",
            "Your answer ignores `layout`. The half layout is all sines, then all "
            "cosines.",
            lambda length, d, layout: table(length, d, "interleaved"),
        ),
        Misconception(
            "Cosines first",
            "At position 0 the first feature is sin 0 = 0.",
            _cosines_first,
        ),
        Misconception(
            "A different frequency for each feature",
            "The sine and the cosine of a pair share one angle. Without that, inner "
            "products depend on more than the offset.",
            _own_frequencies,
        ),
        Misconception(
            "Exponent with its 2 twice",
            "2p counts features already: 10000^(−2p/d), not 10000^(−4p/d).",
            lambda length, d, layout: _table_at(
                range(length), geometric(d) ** 2, layout
            ),
        ),
        Misconception(
            "Position divided by an inverted divisor",
            "Multiply the position by ω, or divide it by 10000^(2p/d), but not both.",
            lambda length, d, layout: _table_at(
                range(length), 1 / geometric(d), layout
            ),
        ),
        Misconception(
            "Positions counted from 1",
            "The first row is position 0: sines 0, cosines 1.",
            lambda length, d, layout: _table_at(
                range(1, length + 1), geometric(d), layout
            ),
        ),
        Misconception(
            "Exponent without its 2",
            "10000^(−p/d) for d/2 pairs stays above 1/100. Each pair has two features, "
            "so the factor is 10000^(−2p/d).",
            _with_frequencies(lambda p, d: 10000.0 ** (-p / d)),
        ),
        Misconception(
            "Frequencies of tensor2tensor",
            "The paper divides 2p by d. tensor2tensor divides p by d/2 − 1.",
            _with_frequencies(lambda p, d: 10000.0 ** (-p / (d / 2 - 1))),
        ),
        Misconception(
            "Pairs counted from 1",
            "Pair 0 comes first, with frequency 1.",
            _with_frequencies(lambda p, d: 10000.0 ** (-2 * (p + 1) / d)),
        ),
        Misconception(
            "Slowest pair first",
            "Pair 0 is the fastest, with frequency 1.",
            _with_frequencies(lambda p, d: geometric(d)[::-1]),
        ),
        Misconception(
            "One frequency for all pairs",
            "Such an encoding repeats itself after 2π positions. Each pair has a "
            "frequency of its own.",
            _with_frequencies(lambda p, d: np.ones(d // 2)),
        ),
        Misconception(
            "Base 1000",
            "The paper's base is 10000: count the zeros.",
            _with_frequencies(lambda p, d: 1000.0 ** (-2 * p / d)),
        ),
        Misconception(
            "Radians taken for full turns",
            "The angle is position · ω, without 2π.",
            _with_frequencies(lambda p, d: 2 * np.pi * geometric(d)),
        ),
        Misconception(
            "Degrees in place of radians",
            "The angle is in radians, which `np.sin` takes.",
            _with_frequencies(lambda p, d: np.pi / 180 * geometric(d)),
        ),
        Misconception(
            "Sines everywhere",
            "The second member of each pair is a cosine.",
            _of_angles(np.sin, np.sin),
        ),
        Misconception(
            "Cosines everywhere",
            "The first member of each pair is a sine.",
            _of_angles(np.cos, np.cos),
        ),
        Misconception(
            "Cosines with the wrong sign",
            "At position 0 all cosines are 1.",
            _of_angles(np.sin, lambda x: -np.cos(x)),
        ),
        Misconception(
            "Angles without sines and cosines",
            "Your angles are right. Now take their sines and cosines.",
            _of_angles(np.array, np.array),
        ),
        Misconception(
            "The half layout, whatever `layout` is",
            "Interleaved means sine, cosine, sine, cosine.",
            lambda length, d, layout: table(length, d, "half"),
        ),
        Misconception(
            "Rows mixed up",
            "`reshape` reads row by row. Stacked along a new *first* axis, sines of "
            "one position end up in the row of another. The members of a pair must be "
            "neighbors before the reshape.",
            _stacked_without_axis,
        ),
        Misconception(
            "Rows divided by their lengths",
            "Nothing is divided here: every row has the squared length d/2.",
            lambda length, d, layout: table(length, d, layout) / np.sqrt(d / 2),
        ),
        Misconception(
            "Interleaved frequencies with sines and cosines in halves",
            "In the half layout feature p and feature p + d/2 share a frequency, so "
            "the list of frequencies is repeated as a whole.",
            _frequency_of_feature(lambda feature, d: feature // 2),
        ),
        Misconception(
            "Frequencies in halves with sines and cosines interleaved",
            "In the interleaved layout features 2p and 2p + 1 share a frequency, so "
            "each frequency is repeated.",
            _frequency_of_feature(lambda feature, d: feature % (d // 2)),
        ),
        Misconception(
            "Each feature counted as a pair",
            "p counts pairs. A sine and its cosine share one frequency.",
            _frequency_of_feature(lambda feature, d: feature),
        ),
    ),
    properties=(
        Property(
            "Every row has squared length d/2",
            lambda answer, length, d, layout: bool(
                np.allclose((answer(length, d, layout) ** 2).sum(-1), d / 2)
            ),
        ),
    ),
    explanation=r"""
`np.outer(positions, frequencies)` has one row for each position and one column for each pair.
Both layouts hold the same numbers: by {prf:ref}`the theorem on layouts <thm-sin-layout>` one is a permutation of the other's columns.
Every row has squared length $d/2$, because $\sin^2 + \cos^2 = 1$ in each pair.
""",
)


# sinusoidal-5: from the half layout to the interleaved one


def to_interleaved(x):
    """Reorder the last axis of the array x from the half to the interleaved layout.

    The returned array has the shape of x, and x stays as it is.
    """
    two_rows = x.reshape(*x.shape[:-1], 2, x.shape[-1] // 2)
    return two_rows.swapaxes(-1, -2).reshape(x.shape)


def _regroup(x, groups):
    """Read the last axis of x as a matrix with ``groups`` rows, and list it by columns.

    The returned array has the shape of x.
    """
    rows = x.reshape(*x.shape[:-1], groups, -1)
    return rows.swapaxes(-1, -2).reshape(x.shape)


TO_INTERLEAVED = Exercise(
    name="sinusoidal-5",
    title="From half to interleaved",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
A colleague's encodings are in the half layout, and your model needs them interleaved.
Reorder the last axis of `x`, an array `[…, d]`, and leave `x` itself as it is.
""",
    hint=r"""
Read the last axis as two rows, sines and cosines.
The result lists these two rows column by column.
""",
    cases=(
        (np.array([0.1, 1.0]),),
        (np.array([0.1, 0.2, 1.0, 2.0]),),
        (np.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0]),),
        (draw(2, 3, 8),),
    ),
    solution=to_interleaved,
    misconceptions=(
        Misconception(
            "From interleaved to half",
            "`x` has sines first, then cosines. The second feature of the result is "
            "the first cosine.",
            lambda x: _regroup(x, x.shape[-1] // 2),
        ),
        Misconception(
            "Order unchanged",
            "A reshape keeps the order of the numbers in memory. Somewhere two axes "
            "must change places.",
            lambda x: x.copy(),
        ),
        Misconception(
            "Cosines first",
            "Each pair is in the right place, but its sine must come before its "
            "cosine.",
            lambda x: to_interleaved(np.roll(x, x.shape[-1] // 2, axis=-1)),
        ),
        Misconception(
            "Halves exchanged",
            "Your answer is still in a half layout, with cosines before sines.",
            lambda x: np.roll(x, x.shape[-1] // 2, axis=-1),
        ),
        Misconception(
            "Order reversed",
            "Your answer lists the last number first. A number's new place depends on "
            "the half that it comes from.",
            lambda x: x[..., ::-1].copy(),
        ),
        Misconception(
            "Axes before the last one reordered, too",
            "Each vector along the last axis is reordered by itself. With a single "
            "vector the mistake does not show.",
            lambda x: x.reshape(2, -1).T.reshape(x.shape),
        ),
        Misconception(
            "Halves stacked along the wrong axis",
            "The members of a pair must be neighbors before the reshape: they "
            "belong on a new *last* axis.",
            lambda x: np.stack(np.split(x, 2, axis=-1)).reshape(x.shape),
        ),
        Misconception(
            "Cosines in reverse order",
            "The p-th sine goes with the p-th cosine, counted from the front in both "
            "halves.",
            lambda x: to_interleaved(
                np.concatenate(
                    (x[..., : x.shape[-1] // 2], x[..., : x.shape[-1] // 2 - 1 : -1]),
                    axis=-1,
                )
            ),
        ),
        Misconception(
            "Numbers sorted",
            "A number's new place depends on its old place, not on its size.",
            lambda x: np.sort(x, axis=-1),
        ),
        Misconception(
            "Sines twice",
            "Every number of x occurs once: sine, cosine, sine, cosine.",
            lambda x: np.repeat(x[..., : x.shape[-1] // 2], 2, axis=-1),
        ),
        Misconception(
            "All axes transposed",
            "`.T` reverses the order of all axes. Only the last two may change places.",
            lambda x: x.reshape(-1, 2, x.shape[-1] // 2).T.reshape(x.shape),
        ),
    ),
    explanation=r"""
The last axis is read as a matrix of two rows, sines and cosines, and its transpose has the pairs as rows: its numbers, row by row, are sine, cosine, sine, cosine.
Only the last two axes change places, so each vector is reordered by itself.
By {prf:ref}`the theorem on layouts <thm-sin-layout>` a model may be run in either layout, if its weights are permuted along with the encodings.
""",
)


# sinusoidal-6: accuracy at a million positions


def exact_table(positions, d):
    """Sinusoidal encodings of positions, interleaved, correct up to the last rounding.

    ``positions``, [tokens], are integers. The encodings are a float32 tensor [tokens,
    d].
    """
    exponents = torch.arange(0, d, 2, dtype=torch.float64) / d
    angles = positions.double()[:, None] * 10000**-exponents
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float()


def _exact_frequencies(d):
    return 10000 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def _float32_frequencies(d):
    return 10000 ** (-torch.arange(0, d, 2) / d)


def _float32_table(positions, omega):
    angles = positions[:, None] * omega
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float()


def _of_rounded_angles(positions, d):
    angles = (positions.double()[:, None] * _exact_frequencies(d)).float()
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


def _frequencies_by_logarithm(d):
    return torch.exp(torch.arange(0, d, 2).float() * (-np.log(10000.0) / d))


def _is_true_to_rounding(answer, positions, d):
    want = absolute.sinusoidal(positions.numpy(), d, layout="interleaved")
    return bool(np.abs(answer(positions, d).numpy() - want).max() < 2**-22)


def _distinguishes_neighbors(answer, positions, d):
    here, there = answer(positions, d), answer(positions + 1, d)
    return bool((here != there).any(-1).all())


EXACT_TABLE = Exercise(
    name="sinusoidal-6",
    title="Accuracy at a million positions",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
`positions` is an int64 tensor `[tokens]`, with values up to a million.
Return their encodings, interleaved, as a float32 tensor `[tokens, d]` in which every entry is the true sine or cosine up to the rounding of float32.
""",
    hint=r"""
A sine is at most 1, but an angle may be large.
At which step may you round?
""",
    cases=(
        (torch.tensor([0, 1, 2]), 4),
        (torch.tensor([255, 256, 257]), 4),
        (torch.tensor([10**6, 10**6 + 1]), 6),
        (torch.tensor([10**6, 10**6 + 1]), 16),
    ),
    solution=exact_table,
    misconceptions=(
        Misconception(
            "Angle computed in float32",
            "Near 10⁶ neighboring float32 numbers are 0.06 apart, and so are your "
            "angles. The table may be float32, the angle may not.",
            lambda positions, d: _float32_table(
                positions.float(), _float32_frequencies(d)
            ),
        ),
        Misconception(
            "Frequencies from float32 logarithms, and float32 angles",
            "Your answer rounds twice. The frequency is off in its seventh digit, "
            "which a million positions multiply, and the product is rounded again.",
            lambda positions, d: _float32_table(
                positions.float(), _frequencies_by_logarithm(d)
            ),
        ),
        Misconception(
            "Frequencies rounded to float32 first",
            "Your product is exact, but its factor is not: an error in the seventh "
            "digit of ω is multiplied by the position.",
            lambda positions, d: _float32_table(
                positions.double(), _float32_frequencies(d).double()
            ),
        ),
        Misconception(
            "Angle rounded before its sine",
            "An angle near 10⁶ loses hundredths of a radian in float32. Sine and "
            "cosine are at most 1: round those.",
            _of_rounded_angles,
        ),
        Misconception(
            "Positions held in bf16",
            "bf16 has 8 significant bits: 257 becomes 256.",
            lambda positions, d: _float32_table(
                positions.bfloat16().double(), _exact_frequencies(d)
            ),
        ),
        Misconception(
            "The half layout",
            "Your angles are right. Interleave sines and cosines.",
            lambda positions, d: torch.cat(
                (
                    exact_table(positions, d)[:, 0::2],
                    exact_table(positions, d)[:, 1::2],
                ),
                -1,
            ),
        ),
        Misconception(
            "Cosines first",
            "Your angles are right. The first member of a pair is the sine.",
            lambda positions, d: (
                exact_table(positions, d).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
            ),
        ),
        Misconception(
            "Exponent without its 2",
            "The factor is 10000^(−2p/d) for pairs p = 0, 1, …, since each pair has "
            "two features.",
            lambda positions, d: _float32_table(
                positions.double(),
                10000 ** (-torch.arange(d // 2, dtype=torch.float64) / d),
            ),
        ),
        Misconception(
            "Exponent with its 2 twice",
            "`arange(0, d, 2)` counts features already.",
            lambda positions, d: _float32_table(
                positions.double(), _exact_frequencies(d) ** 2
            ),
        ),
        Misconception(
            "Frequencies inverted",
            "Multiply a position by 10000^(−2p/d), or divide it by 10000^(2p/d).",
            lambda positions, d: _float32_table(
                positions.double(), 1 / _exact_frequencies(d)
            ),
        ),
        Misconception(
            "Rows numbered, whatever their positions",
            "`positions` says where the tokens are; they need not start at 0.",
            lambda positions, d: exact_table(torch.arange(len(positions)), d),
        ),
        Misconception(
            "Frequencies of tensor2tensor",
            "The paper divides 2p by d. tensor2tensor divides p by d/2 − 1.",
            lambda positions, d: _float32_table(
                positions.double(),
                10000 ** (-torch.arange(d // 2, dtype=torch.float64) / (d / 2 - 1)),
            ),
        ),
        Misconception(
            "Finished table passed through half precision",
            "Your angles are right. The sines and cosines have lost their digits on "
            "the way to float32.",
            lambda positions, d: exact_table(positions, d).half().float(),
        ),
        Misconception(
            "Finished table passed through bfloat16",
            "Your angles are right. The sines and cosines have lost their digits on "
            "the way to float32.",
            lambda positions, d: exact_table(positions, d).bfloat16().float(),
        ),
        Misconception(
            "Exponents rounded to float32",
            "2p/d is a float32 number where d is a power of two, and not where d is "
            "6. The position multiplies its error, so divide in float64.",
            lambda positions, d: _float32_table(
                positions.double(), 10000 ** -(torch.arange(0, d, 2) / d).double()
            ),
        ),
        Misconception(
            "Whole turns taken off with a rounded π",
            "Your π has nine digits, and a million radians are 160,000 turns. float64 "
            "needs no such step, and `math.pi` has all its digits.",
            lambda positions, d: _float32_table(
                (positions.double()[:, None] * _exact_frequencies(d))
                % (2 * 3.14159265),
                1.0,
            ),
        ),
    ),
    properties=(
        Property(
            "A position and the next one have different encodings, since positions "
            "keep all their digits",
            _distinguishes_neighbors,
        ),
        Property(
            "At position 1 these are the sines and cosines of 10000^(−2p/d)",
            lambda answer, positions, d: _is_true_to_rounding(
                answer, torch.tensor([1]), d
            ),
        ),
        Property(
            "Errors do not grow with the position: neither frequencies nor angles nor "
            "a period 2π are rounded before the sine or cosine",
            _is_true_to_rounding,
        ),
    ),
    tolerance=2**-24,
    explanation=r"""
An error of an angle is an error of up to the same size in its sine, and near $10^6$ the numbers of float32 are $2^{-4} \approx 0.06$ apart.
So the frequency, the product with the position and the sine are computed in float64, and only the sine is rounded.
With $d = 512$, a float32 angle gives errors up to 0.06 at these positions, and frequencies rounded to float32 give errors up to 0.03, though all further steps are in float64.
""",
    prediction=Prediction(
        "How far apart are neighboring float32 numbers near a million, in radians of "
        "the fastest pair's angle?",
        lambda: float(np.spacing(np.float32(10**6))),
        near=0.1,
    ),
)


# sinusoidal-7: where the Gram curve first rises


def first_rise(d):
    """First offset t at which ⟨PE(0), PE(t)⟩ is larger than at t − 1: an integer.

    PE are the sinusoidal encodings of width d.
    """
    omega = 10000.0 ** (-np.arange(0, d, 2) / d)
    curve = np.cos(np.outer(np.arange(200), omega)).sum(-1)
    return int(np.argmax(np.diff(curve) > 0)) + 1


def _gram(omega, reach=4000):
    return np.cos(np.outer(np.arange(reach), omega)).sum(-1)


def _first(condition):
    return int(np.argmax(condition))


FIRST_RISE = Exercise(
    name="sinusoidal-7",
    title="Where the curve first rises",
    kind="experiment",
    minutes=15,
    lines=4,
    statement=r"""
The inner product $\langle \mathrm{PE}(0), \mathrm{PE}(t) \rangle$ falls from $d/2$ as $t$ grows, for a while.
Return the smallest offset $t \ge 1$ at which it is *larger* than at $t - 1$, as an integer.
How does it grow with $d$?
It is below 100 for $d = 512$, the largest $d$ in the check.
""",
    hint=r"""
The inner product is a sum of cosines; `np.diff` compares neighbors, and `np.argmax` finds the first `True`.
""",
    cases=((2,), (4,), (16,), (38,), (64,), (88,), (512,)),
    solution=first_rise,
    misconceptions=(
        Misconception(
            "Too few offsets looked at",
            "The argmax of a row of False is 0. If there is no rise among your "
            "offsets, look at more of them.",
            lambda d: _first(np.diff(_gram(geometric(d), 20)) > 0) + 1,
        ),
        Misconception(
            "One step too early",
            "You return the offset before the rise. The first offset whose value is "
            "larger than the one before it is asked for.",
            lambda d: first_rise(d) - 1,
        ),
        Misconception(
            "First negative value",
            "The curve can rise long before it crosses zero.",
            lambda d: _first(_gram(geometric(d)) < 0),
        ),
        Misconception(
            "Exponent with its 2 twice",
            "Your curve is another one: its frequencies are the squares.",
            lambda d: _first(np.diff(_gram(geometric(d) ** 2)) > 0) + 1,
        ),
        Misconception(
            "Frequencies inverted",
            "Your curve is another one: its pairs rotate by many radians per position.",
            lambda d: _first(np.diff(_gram(1 / geometric(d))) > 0) + 1,
        ),
        Misconception(
            "Exponent without its 2",
            "Your curve is another one, with 10000^(−p/d) for d/2 pairs.",
            lambda d: _first(np.diff(_gram(geometric(d) ** 0.5)) > 0) + 1,
        ),
        Misconception(
            "A different frequency for each feature",
            "Your curve is another one. A sine and its cosine share a frequency, so "
            "there are d/2 frequencies.",
            lambda d: _first(np.diff(_gram(10000.0 ** (-np.arange(d) / d))) > 0) + 1,
        ),
        Misconception(
            "One step too late",
            "The offset of the value that is larger than the one before it is asked "
            "for, not the next offset.",
            lambda d: first_rise(d) + 1,
        ),
        Misconception(
            "First bend of the curve",
            "There the curve begins to fall more slowly. The first rise is asked for.",
            lambda d: _first(np.diff(_gram(geometric(d)), 2) > 0),
        ),
        Misconception(
            "Lowest point",
            "The curve falls and rises many times, and the lowest point among your "
            "offsets comes late. The *first* rise is asked for.",
            lambda d: int(np.argmin(_gram(geometric(d), 200))),
        ),
        Misconception(
            "1 for every d",
            "The inner product falls at first. Does your code look for the first fall, "
            "or compare with d/2? Or does it add sines? The inner product of two "
            "encodings is a sum of cosines of ωt.",
            lambda d: 1,
        ),
        Misconception(
            "Frequencies of tensor2tensor",
            "Your curve is another one. The paper divides 2p by d; tensor2tensor "
            "divides p by d/2 − 1.",
            lambda d: (
                _first(
                    np.diff(_gram(10000.0 ** (-np.arange(d // 2) / max(d // 2 - 1, 1))))
                    > 0
                )
                + 1
            ),
        ),
        Misconception(
            "Offset after the lowest point",
            "The curve falls and rises many times. After its lowest point among many "
            "offsets it rises, but not for the first time.",
            lambda d: int(np.argmin(_gram(geometric(d), 100))) + 1,
        ),
        Misconception(
            "First peak",
            "The first step upwards is asked for, not the end of the ascent.",
            lambda d: (
                _first(
                    (np.diff(_gram(geometric(d)))[:-1] > 0)
                    & (np.diff(_gram(geometric(d)))[1:] < 0)
                )
                + 1
            ),
        ),
    ),
    properties=(
        Property(
            "The value at the offset is larger than the one before it",
            lambda answer, d: np.diff(_gram(geometric(d)))[answer(d) - 1] > 0,
        ),
        Property(
            "At all smaller offsets the curve falls",
            lambda answer, d: (
                np.diff(_gram(geometric(d)))[: answer(d) - 1] <= 0
            ).all(),
        ),
    ),
    level="optional",
    explanation=r"""
The inner product is $\sum_p \cos \omega_p t$, by {prf:ref}`the theorem on the Gram matrix <thm-sin-gram>`.
The first rise is at 4 for $d = 2$, 4 and 16, at 6 for $d = 64$, at 12 for $d = 88$ and at 44 for $d = 512$.
The fastest cosine rises from $t = \pi$ on; with more pairs more of the cosines are still falling there.
In these examples the first rise never comes earlier for a larger $d$.
So the curve is largest at 0, but it does not fall with the distance: at its first rise the value is still 0.74 of the maximum for $d = 64$.
""",
    prediction=Prediction(
        "At which offset does the curve rise for the first time for $d = 64$?",
        lambda: first_rise(64),
        near=0.2,
    ),
)


# sinusoidal-8: the sign of the offset


def before_or_after(d):
    """Matrix A with PE(i)ᵀ A PE(j) = Σ sin ω_p(i − j): a float64 array [d, d].

    PE is the interleaved sinusoidal encoding; the sum is over its pairs p.
    """
    block = np.array([[0.0, 1.0], [-1.0, 0.0]])
    return np.kron(np.eye(d // 2), block)


def _form(answer, d, positions=range(6)):
    pe = absolute.sinusoidal(positions, d, layout="interleaved")
    return pe @ answer(d) @ pe.T


def _in_blocks(*entries):
    """Make a wrong answer (a function) to the exercise ``before_or_after``.

    The exercise asks for a matrix A with PE(i)ᵀ A PE(j) = Σ sin ω_p(i − j), with the 2
    × 2 block 0, 1, −1, 0 for every pair. In the wrong answer, the block of every pair
    has the four ``entries``, row by row.
    """
    return lambda d: np.kron(
        np.eye(d // 2), np.array(entries, dtype=float).reshape(2, 2)
    )


BEFORE_OR_AFTER = Exercise(
    name="sinusoidal-8",
    title="The sign of the offset",
    kind="NumPy",
    minutes=15,
    lines=2,
    statement=r"""
The inner product of two encodings is the same for $i - j = +1$ and $-1$.
Return a matrix $A$, a float64 array `[d, d]`, whose bilinear form depends on the sign: in the interleaved layout,

$$\mathrm{PE}(i)^\top A \, \mathrm{PE}(j) = \sum_p \sin \omega_p (i - j) .$$

The matrix does not depend on the frequencies.
""",
    hint=r"""
Begin with $d = 2$: $\sin(\alpha - \beta) = \sin\alpha \cos\beta - \cos\alpha \sin\beta$, and the pair is $(\sin, \cos)$.
`np.kron` repeats a block.
""",
    cases=((2,), (4,), (8,)),
    solution=before_or_after,
    misconceptions=(
        Misconception(
            "Sign reversed",
            "For d = 2, i = 1, j = 0 the form must be sin 1 > 0.",
            lambda d: before_or_after(d).T,
        ),
        Misconception(
            "Sign of i − j ignored",
            "The identity gives Σ cos ω(i − j), which is the same for +1 and −1.",
            lambda d: np.eye(d),
        ),
        Misconception(
            "Sum of the positions, without a minus sign",
            "sin a cos b + cos a sin b is sin(a + b). It is symmetric, and it is not "
            "relative.",
            lambda d: np.abs(before_or_after(d)),
        ),
        Misconception(
            "Only one of the two products",
            "sin a cos b alone is half of sin(a − b) and half of sin(a + b). The "
            "second half is not relative.",
            lambda d: np.triu(before_or_after(d)),
        ),
        Misconception(
            "The matrix of the half layout",
            "In the interleaved layout the members of a pair are neighbors.",
            lambda d: np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(d // 2)),
        ),
        Misconception(
            "Half of the matrix",
            "The two products of sin(a − b) have the factors 1 and −1.",
            lambda d: before_or_after(d) / 2,
        ),
        Misconception(
            "Σ cos ω(i + j), up to its sign",
            "Your matrix makes only products of two sines and of two cosines. Which "
            "products does sin(a − b) have?",
            _in_blocks(1, 0, 0, -1),
        ),
        Misconception(
            "Neighbors joined across pairs",
            "Only the two members of one pair may meet. Features 1 and 2 belong to "
            "different pairs.",
            lambda d: np.eye(d, k=1) - np.eye(d, k=-1),
        ),
        Misconception(
            "Products of all features",
            "Members of different pairs have different frequencies, and their "
            "products are not relative.",
            lambda d: np.triu(np.ones((d, d)), 1) - np.tril(np.ones((d, d)), -1),
        ),
        Misconception(
            "Products of all pairs",
            "The sine of one pair must meet the cosine of the same pair only.",
            lambda d: np.kron(np.ones((d // 2, d // 2)), [[0.0, 1.0], [-1.0, 0.0]]),
        ),
        Misconception(
            "Only the other of the two products",
            "−cos a sin b alone is half of sin(a − b) and half of −sin(a + b), which "
            "is not relative.",
            _in_blocks(0, 0, -1, 0),
        ),
        Misconception(
            "Frequencies in the matrix",
            "Each pair counts once. The frequencies act inside the sines.",
            lambda d: np.diag(np.repeat(geometric(d), 2)) @ before_or_after(d),
        ),
        Misconception(
            "Blocks that rotate by 45°",
            "Your matrix also adds Σ cos ω(i − j), which does not change its sign "
            "with the offset.",
            _in_blocks(1, 1, -1, 1),
        ),
        Misconception(
            "Blocks that rotate by −45°",
            "Your matrix adds Σ cos ω(i − j), which does not change its sign with the "
            "offset, and subtracts the sum that is asked for.",
            _in_blocks(1, -1, 1, 1),
        ),
        Misconception(
            "The matrix of the half layout, with its sign reversed",
            "In the interleaved layout the members of a pair are neighbors.",
            lambda d: np.kron([[0.0, -1.0], [1.0, 0.0]], np.eye(d // 2)),
        ),
        Misconception(
            "Alternating signs on the diagonal above the main one",
            "A sine meets the cosine of its own pair, and the other way round with "
            "the other sign. Two pairs do not meet.",
            lambda d: np.diag((-1.0) ** np.arange(d - 1), 1),
        ),
        Misconception(
            "First pair only",
            "The sum is over all pairs: each needs its block.",
            lambda d: np.pad(before_or_after(2), (0, d - 2)),
        ),
    ),
    properties=(
        Property(
            "The form changes its sign when i and j change places",
            lambda answer, d: bool(np.allclose(_form(answer, d), -_form(answer, d).T)),
        ),
        Property(
            "The form does not change when both positions move by one",
            lambda answer, d: bool(
                np.allclose(_form(answer, d), _form(answer, d, range(1, 7)))
            ),
        ),
    ),
    level="hard",
    explanation=r"""
For one pair with the angles $\alpha = \omega i$ and $\beta = \omega j$, $\sin(\alpha - \beta) = \sin \alpha \cdot \cos \beta - \cos \alpha \cdot \sin \beta$: the block has 1 where the query's sine meets the key's cosine, and $-1$ where the query's cosine meets the key's sine.
This is the case $a_p = 0$, $b_p = 1$ of {prf:ref}`the theorem on the commutant <thm-sin-commutant>`, which says that a form is relative if and only if its block for each pair is $a_p I$ plus $b_p$ times this block.
A head can therefore tell before from after, though the inner product of the encodings alone cannot.
""",
)


# sinusoidal-9: positions that a dtype cannot hold


def colleagues_table(positions, d):
    """Sinusoidal encodings of positions, interleaved.

    The result is a float32 tensor. The positions have the
    dtype of the colleague's model, bfloat16.
    """
    at = positions.bfloat16().double()
    pairs = torch.arange(d // 2, dtype=torch.float64)
    angles = at[:, None] / 10000 ** (2 * pairs / d)
    both = torch.stack((angles.sin(), angles.cos()), dim=2)
    return both.reshape(len(at), d).float()


def position_that_is_lost():
    """Return positions and a width on which `colleagues_table` is wrong."""
    return torch.tensor([257]), 2


def _no_positions(positions, d):
    if positions.dtype != torch.int64 or positions.ndim != 1 or not len(positions):
        return "positions is an int64 tensor [tokens]"
    if positions.min() < 0 or type(d) is not int or d not in range(2, 65, 2):
        return "positions count from 0, and d is an even int up to 64"
    return ""


LOST_POSITION = Exercise(
    name="sinusoidal-9",
    title="Find the input: positions in bfloat16",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_table` should do what exercise sinusoidal-6 asks for.
She computes angles in float64, and has tested the positions 0 to 255, and 1000; all of these tests pass.
Find `positions` and `d` for which it is wrong, with the largest position as small as possible.
Why is it right at 1000?
""",
    hint=r"""
How many significant bits has a number in bfloat16?
""",
    cases=((),),
    solution=position_that_is_lost,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_table,
        right=exact_table,
        tested=((torch.arange(256), 8), (torch.tensor([1000]), 8)),
        refusal=_no_positions,
        size=lambda positions, d: int(positions.max()),
        size_of="largest position",
    ),
    tolerance=2**-24,
    explanation=r"""
bfloat16 has 8 significant bits, so it holds every whole number up to 256; 257 needs nine, and becomes 256.
From 256 to 512 it holds the even numbers, up to 1024 the multiples of 4, and 1000 is one of them.
Float64 angles do not help once the position itself is lost: convert the positions to float64, never through the model's dtype.
""",
)


# sinusoidal-10: the two directions of a reordering


def colleagues_reordering(x):
    """Reorder the last axis from half to interleaved."""
    first, second = x[..., 0::2], x[..., 1::2]
    return np.concatenate((first, second), axis=-1)


def vector_that_differs():
    """Return a smallest array on which `colleagues_reordering` is wrong."""
    return np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])


def _no_features(x):
    if type(x) is not np.ndarray or x.dtype.kind not in "if":
        return "x is an array of floats or of integers"
    if not x.ndim or not x.size or x.shape[-1] % 2:
        return "x is an array whose last axis has an even length"
    return ""


DIRECTION = Exercise(
    name="sinusoidal-10",
    title="Find the input: the wrong direction",
    kind="find the input",
    minutes=10,
    lines=1,
    level="optional",
    statement=r"""
`colleagues_reordering` should do what exercise sinusoidal-5 asks for.
She has tested it with vectors of 2 and of 4 features, and with two vectors of 4 features; all of these tests pass.
Find an array `x` of as few numbers as possible for which it is wrong.
What does her function do in place of what it should do, and why is it right for 4 features?
""",
    hint=r"""
For a reordering that is its own inverse both directions are the same.
""",
    cases=((),),
    solution=vector_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_reordering,
        right=to_interleaved,
        tested=(
            (np.array([0.0, 1.0]),),
            (np.array([0.0, 1.0, 2.0, 3.0]),),
            (np.arange(8.0).reshape(2, 4),),
        ),
        refusal=_no_features,
        size=lambda x: x.size,
        size_of="number of entries",
    ),
    explanation=r"""
Her function reorders from the interleaved to the half layout, which is the inverse.
For 2 features nothing moves, and for 4 the two in the middle change places, which undoes itself; so both directions are the same up to width 4, whatever the number of vectors.
For 6 features $(0, 1, 2, 3, 4, 5)$ must become $(0, 3, 1, 4, 2, 5)$, and she returns $(0, 2, 4, 1, 3, 5)$.
Test permutations at a size at which they are not their own inverses.
""",
)


SHEET = Sheet(
    title="Sinusoidal encodings",
    conventions=r"""
Positions, features and pairs count from 0, the base is 10000, and a pair is (sine, cosine).
""",
    example=r"""
from posedu.numpy.absolute import sinusoidal

encodings = sinusoidal([0, 10], 4, layout="interleaved")
print(np.round(encodings, 3))
""",
    figure="sinusoidal_explorable",
    exercises=(
        FIRST_POSITION,
        FREQUENCIES,
        OFFSET_MATRIX,
        TABLE,
        TO_INTERLEAVED,
        EXACT_TABLE,
        FIRST_RISE,
        BEFORE_OR_AFTER,
        LOST_POSITION,
        DIRECTION,
    ),
)
