"""The exercises on sinusoidal encodings."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw
from posedu.numpy import absolute
from posedu.numpy.frequencies import frequencies as geometric

# sinusoidal-1: one position on paper


def first_position():
    """PE(1) for d = 4, interleaved: a SymPy column."""
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
            "The second frequency is 1/10000",
            "In 10000^(2p/d) the number p counts pairs, and 2p/d does not reach 1. With "
            "the number of the feature it does; so does another rule, tensor2tensor's.",
            lambda: _sines_and_cosines(
                1, 1, sp.Rational(1, 10**4), sp.Rational(1, 10**4)
            ),
        ),
        Misconception(
            "Each feature has a frequency of its own",
            "A sine and the cosine beside it share one angle: that is what makes "
            "them a pair.",
            lambda: _sines_and_cosines(*[sp.Rational(1, 10**n) for n in range(4)]),
        ),
        Misconception(
            "The pairs are counted from 1",
            "The first pair is p = 0, and 10000⁰ = 1: it turns by one radian.",
            lambda: _sines_and_cosines(*[sp.Rational(1, 100**n) for n in (1, 1, 2, 2)]),
        ),
        Misconception(
            "This is the half layout",
            "Interleaved means sine, cosine, sine, cosine.",
            lambda: sp.Matrix([first_position()[n] for n in (0, 2, 1, 3)]),
        ),
        Misconception(
            "The cosines come first",
            "Even features are sines. At position 0 the vector is (0, 1, 0, 1).",
            lambda: sp.Matrix([first_position()[n] for n in (1, 0, 3, 2)]),
        ),
        Misconception(
            "Degrees",
            "The angle is in radians: sin 1 is about 0.84.",
            lambda: _sines_and_cosines(*[sp.pi / 180 / n for n in (1, 1, 100, 100)]),
        ),
        Misconception(
            "The exponent lacks its 2",
            "With 10000^(p/d) the second pair gets 10000^(1/4) = 10. Each pair has "
            "two features, and the exponent of pair p is 2p/d.",
            lambda: _sines_and_cosines(1, 1, sp.Rational(1, 10), sp.Rational(1, 10)),
        ),
        Misconception(
            "The second pair turns faster than the first",
            "The position is divided by 10000^(2p/d), not multiplied by it.",
            lambda: _sines_and_cosines(1, 1, 100, 100),
        ),
        Misconception(
            "This is position 0",
            "There all sines are 0 and all cosines 1, whatever the frequencies are.",
            lambda: _sines_and_cosines(0, 0, 0, 0),
        ),
        Misconception(
            "This is position 2",
            "PE(1) is that of the position 1, which is the second one: positions "
            "count from 0.",
            lambda: _sines_and_cosines(2, 2, sp.Rational(1, 50), sp.Rational(1, 50)),
        ),
        Misconception(
            "The slow pair comes first",
            "Pair p = 0 comes first, and 10000⁰ = 1.",
            lambda: sp.Matrix([first_position()[n] for n in (2, 3, 0, 1)]),
        ),
        Misconception(
            "One pair is all sines, the other all cosines",
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
            "These are the angles",
            "They are right. Now their sines and cosines.",
            lambda: sp.Matrix([1, 1, sp.Rational(1, 100), sp.Rational(1, 100)]),
        ),
        Misconception(
            "Radians are taken for turns",
            "ω is in radians for each position: there is no 2π in the angle.",
            lambda: _sines_and_cosines(*[2 * sp.pi / n for n in (1, 1, 100, 100)]),
        ),
        Misconception(
            "The second frequency is 1/1000",
            "10000^(2/4) is a root of 10000: which one?",
            lambda: _sines_and_cosines(
                1, 1, sp.Rational(1, 1000), sp.Rational(1, 1000)
            ),
        ),
        Misconception(
            "The second pair has its cosine first",
            "Each pair begins with its sine.",
            lambda: sp.Matrix([first_position()[n] for n in (0, 1, 3, 2)]),
        ),
        Misconception(
            "The second angle is doubled",
            "In 2p/d the 2 stands in the exponent.",
            lambda: _sines_and_cosines(1, 1, sp.Rational(1, 50), sp.Rational(1, 50)),
        ),
    ),
)


# sinusoidal-2: frequencies by both rules


def frequencies(d, spacing):
    """Frequencies of the d/2 pairs: a float64 array [d/2]."""
    steps = d / 2 if spacing == "paper" else d / 2 - 1
    return 10000.0 ** (-np.arange(d // 2) / steps)


def _other_rule(d, spacing):
    swap = {"paper": "tensor2tensor", "tensor2tensor": "paper"}
    return frequencies(d, swap[spacing])


def _frequencies_from_1(d, spacing):
    ratio = 10000.0 ** (-2 / d if spacing == "paper" else -1 / (d // 2 - 1))
    return frequencies(d, spacing) * ratio


def _by_rule(paper, tensor2tensor):
    """Frequencies with the exponents ``paper(p, d)`` or ``tensor2tensor(p, d)``."""

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
Only the number that divides $p$ differs. Both begin at 1.
""",
    cases=tuple(
        (d, spacing) for d in (4, 6, 64) for spacing in ("paper", "tensor2tensor")
    ),
    solution=frequencies,
    misconceptions=(
        Misconception(
            "The two rules are exchanged",
            "The paper's exponent never reaches −1; tensor2tensor's last one does.",
            _other_rule,
        ),
        Misconception(
            "One rule for both",
            "For tensor2tensor the last frequency is 1/10000 exactly.",
            lambda d, spacing: frequencies(d, "paper"),
        ),
        Misconception(
            "The exponent has its 2 twice",
            "Every frequency is squared; the slowest should be near 1/10000, not "
            "near 1/10000².",
            lambda d, spacing: frequencies(d, spacing) ** 2,
        ),
        Misconception(
            "The minus sign is missing",
            "These are the divisors, not the frequencies: ω₀ = 1 is the fastest, and "
            "the others are slower.",
            lambda d, spacing: 1 / frequencies(d, spacing),
        ),
        Misconception(
            "The pairs are counted from 1",
            "Pair 0 comes first, with frequency 1.",
            _frequencies_from_1,
        ),
        Misconception(
            "The exponent of the paper's rule lacks its 2",
            "Of d/2 pairs the slowest should come near 1/10000. With −p/d it stops "
            "near 1/100.",
            _by_rule(lambda p, d: -p / d, _tensor2tensor),
        ),
        Misconception(
            "In the second rule features are counted, not pairs",
            "What divides p is the number of pairs less one, d/2 − 1, so that the "
            "last exponent is −1.",
            _by_rule(_paper, lambda p, d: -p / (d - 1)),
        ),
        Misconception(
            "In the second rule d − 1 divides 2p",
            "With −2p/(d − 1) the last frequency is not quite 1/10000. What must "
            "divide p for the last pair?",
            _by_rule(_paper, lambda p, d: -2 * p / (d - 1)),
        ),
        Misconception(
            "In the second rule the exponent has its 2 twice",
            "p counts pairs, and the last of them is d/2 − 1: −p/(d/2 − 1) reaches "
            "−1 there.",
            _by_rule(_paper, lambda p, d: -2 * p / (d / 2 - 1)),
        ),
        Misconception(
            "In the second rule the 1 has left its bracket",
            "p is divided by d/2 − 1. Without the bracket 1 is subtracted from the "
            "exponent.",
            _by_rule(_paper, lambda p, d: -p / (d / 2) - 1),
        ),
        Misconception(
            "In the second rule 1 is added to the number of pairs",
            "Then the last exponent is nearer to 0 than in the paper's rule. It "
            "should be −1.",
            _by_rule(_paper, lambda p, d: -p / (d / 2 + 1)),
        ),
        Misconception(
            "These are wavelengths",
            "2π/ω is how many positions a turn takes. Frequencies are asked for.",
            lambda d, spacing: 2 * np.pi / frequencies(d, spacing),
        ),
        Misconception(
            "These are turns for each position",
            "ω is in radians for each position, so nothing is divided by 2π.",
            lambda d, spacing: frequencies(d, spacing) / (2 * np.pi),
        ),
        Misconception(
            "These are the exponents",
            "They are right. 10000 must be raised to them.",
            lambda d, spacing: np.log(frequencies(d, spacing)) / np.log(10000),
        ),
        Misconception(
            "The base is multiplied by the exponent",
            "10000 must be raised to the exponent: `**`, not `*`.",
            lambda d, spacing: 10000 * np.log(frequencies(d, spacing)) / np.log(10000),
        ),
        Misconception(
            "The frequencies are evenly spaced",
            "Their logarithms are: each frequency is the one before it times the "
            "same factor.",
            lambda d, spacing: np.linspace(1, frequencies(d, spacing)[-1], d // 2),
        ),
        Misconception(
            "The frequencies are evenly spaced down to 1/10000",
            "It is their logarithms that are evenly spaced, and only one of the two "
            "rules reaches 1/10000.",
            lambda d, spacing: np.linspace(1, 1e-4, d // 2),
        ),
        Misconception(
            "The slowest comes first",
            "Pair 0 is the fastest, with frequency 1.",
            lambda d, spacing: frequencies(d, spacing)[::-1],
        ),
        Misconception(
            "The base is 1000",
            "It is 10000: count the zeros.",
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
)


# sinusoidal-3: solve for the offset matrix


def offset_matrix(omega, t):
    """The matrix that moves (sin ωi, cos ωi) by t: SymPy, 2 × 2."""
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
    """A matrix of the cosine and the sine of ωt."""
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

You may know it by heart; let SymPy find it all the same.
`omega` and `t` are SymPy numbers or symbols.
""",
    hint=r"""
Give the four entries names.
What must hold for all angles $\omega i$ holds for $0$ and $\pi/2$: each turns the two rows into two equations without $i$.
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
            "This moves back by t",
            "It is the transpose, M₋ₜ. With ω = 1 a shift by π/2 must take PE(0) = "
            "(0, 1) to (sin π/2, cos π/2) = (1, 0).",
            lambda omega, t: offset_matrix(omega, -t),
        ),
        Misconception(
            "No minus sign anywhere",
            "The cosine of a sum is a difference: cos(a + b) = cos a cos b − sin a "
            "sin b.",
            _without_minus,
        ),
        Misconception(
            "The frequency is missing",
            "The pair turns by ωt, not by t.",
            lambda omega, t: offset_matrix(1, t),
        ),
        Misconception(
            "Sine and cosine are exchanged",
            "A shift by 0 must be the identity.",
            lambda omega, t: offset_matrix(omega, sp.pi / (2 * omega) - t),
        ),
        Misconception(
            "This is a mirror",
            "Its determinant is −1. A shift by 0 must be the identity: look at the "
            "sign of the last entry.",
            _of_cosine_and_sine(lambda c, s: [c, s, s, -c]),
        ),
        Misconception(
            "This is a mirror with sine and cosine exchanged",
            "A shift by 0 must be the identity.",
            _of_cosine_and_sine(lambda c, s: [s, c, c, -s]),
        ),
        Misconception(
            "The last entry has the wrong sign",
            "A shift by 0 must be the identity.",
            _of_cosine_and_sine(lambda c, s: [c, s, -s, -c]),
        ),
        Misconception(
            "Each member only scales itself",
            "sin(a + b) = sin a cos b + cos a sin b: each new member needs both old "
            "ones.",
            _of_cosine_and_sine(lambda c, s: [c, 0, 0, c]),
        ),
        Misconception(
            "The new pair is the old one times that of t",
            "The sine of a sum is not the product of the sines. Each new member "
            "needs both old ones.",
            _of_cosine_and_sine(lambda c, s: [s, 0, 0, c]),
        ),
        Misconception(
            "The shift is missing",
            "M depends on t: this moves by one position, whatever t is.",
            lambda omega, t: offset_matrix(omega, 1),
        ),
        Misconception(
            "Frequency and shift are added",
            "The angle ω(i + t) is ωi + ωt, so the pair turns by a product.",
            lambda omega, t: offset_matrix(1, omega + t),
        ),
        Misconception(
            "Nothing moves",
            "Only a shift by 0 is the identity.",
            lambda omega, t: sp.eye(2),
        ),
        Misconception(
            "All signs are reversed",
            "A shift by 0 must be the identity, and this is minus it.",
            lambda omega, t: -offset_matrix(omega, t),
        ),
        Misconception(
            "Both sines have a minus",
            "Only one of them has: which of the two sums is a difference?",
            _of_cosine_and_sine(lambda c, s: [c, -s, -s, c]),
        ),
        Misconception(
            "Sine and cosine are exchanged, without a minus",
            "A shift by 0 must be the identity.",
            _of_cosine_and_sine(lambda c, s: [s, c, c, s]),
        ),
        Misconception(
            "The shift is divided by the frequency",
            "A pair of frequency ω turns by ω radians a position, so by ωt.",
            lambda omega, t: offset_matrix(1, t / omega),
        ),
        Misconception(
            "This holds for small shifts only",
            "1 and ωt are where cosine and sine begin.",
            lambda omega, t: sp.Matrix([[1, omega * t], [-omega * t, 1]]),
        ),
    ),
    properties=(
        Property(
            "M (sin ωi, cos ωi) is the pair at i + t for every i", _moves_the_pair
        ),
    ),
)


# sinusoidal-4: the table in both layouts


def table(length, d, layout):
    """PE of the first positions: a float64 array [length, d]."""
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
    """The table with the frequencies ``omega(p, d)`` of the pairs p."""
    return lambda length, d, layout: _table_at(
        range(length), omega(np.arange(d // 2), d), layout
    )


def _of_angles(first, second):
    """The table of two functions of the angle."""

    def answer(length, d, layout):
        angles = np.outer(range(length), geometric(d))
        return _arranged(first(angles), second(angles), layout)

    return answer


def _stacked_without_axis(length, d, layout):
    angles = np.outer(range(length), geometric(d))
    return np.stack([np.sin(angles), np.cos(angles)]).reshape(length, d)


def _frequency_of_feature(pair):
    """The table with the frequency of pair ``pair(feature, d)`` in each feature."""

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
            "The layouts are exchanged",
            "Interleaved alternates sines and cosines; half has all sines first.",
            _other_layout,
        ),
        Misconception(
            "One layout for both",
            "The argument `layout` changes nothing: the half layout is all sines, "
            "then all cosines.",
            lambda length, d, layout: table(length, d, "interleaved"),
        ),
        Misconception(
            "The cosines come first",
            "At position 0 the first feature is sin 0 = 0.",
            _cosines_first,
        ),
        Misconception(
            "Each feature has a frequency of its own",
            "Sine and cosine of a pair share one angle; without that, inner products "
            "depend on more than the offset.",
            _own_frequencies,
        ),
        Misconception(
            "The exponent has its 2 twice",
            "2p counts features already: 10000^(−2p/d), not 10000^(−4p/d).",
            lambda length, d, layout: _table_at(
                range(length), geometric(d) ** 2, layout
            ),
        ),
        Misconception(
            "Divided by what was already inverted",
            "Multiply the position by ω, or divide it by 10000^(2p/d); not both.",
            lambda length, d, layout: _table_at(
                range(length), 1 / geometric(d), layout
            ),
        ),
        Misconception(
            "The positions are counted from 1",
            "The first row is position 0: sines 0, cosines 1.",
            lambda length, d, layout: _table_at(
                range(1, length + 1), geometric(d), layout
            ),
        ),
        Misconception(
            "The exponent lacks its 2",
            "10000^(−p/d) for d/2 pairs ends near 1/100: each pair has two "
            "features, so it is 10000^(−2p/d).",
            _with_frequencies(lambda p, d: 10000.0 ** (-p / d)),
        ),
        Misconception(
            "These are tensor2tensor's frequencies",
            "The paper divides 2p by d. Dividing p by d/2 − 1 is another rule.",
            _with_frequencies(lambda p, d: 10000.0 ** (-p / (d / 2 - 1))),
        ),
        Misconception(
            "The pairs are counted from 1",
            "Pair 0 comes first, with frequency 1.",
            _with_frequencies(lambda p, d: 10000.0 ** (-2 * (p + 1) / d)),
        ),
        Misconception(
            "The slowest pair comes first",
            "Pair 0 is the fastest, with frequency 1.",
            _with_frequencies(lambda p, d: geometric(d)[::-1]),
        ),
        Misconception(
            "All pairs have one frequency",
            "Then the encoding repeats itself after 2π positions. Each pair has a "
            "frequency of its own.",
            _with_frequencies(lambda p, d: np.ones(d // 2)),
        ),
        Misconception(
            "The base is 1000",
            "The paper's is 10000: count the zeros.",
            _with_frequencies(lambda p, d: 1000.0 ** (-2 * p / d)),
        ),
        Misconception(
            "Radians are taken for turns",
            "The angle is position · ω, without 2π.",
            _with_frequencies(lambda p, d: 2 * np.pi * geometric(d)),
        ),
        Misconception(
            "Degrees",
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
            "The cosines have the wrong sign",
            "At position 0 they are all 1.",
            _of_angles(np.sin, lambda x: -np.cos(x)),
        ),
        Misconception(
            "These are the angles",
            "They are right. Now their sines and cosines.",
            _of_angles(np.array, np.array),
        ),
        Misconception(
            "The half layout, whatever is asked for",
            "Interleaved means sine, cosine, sine, cosine.",
            lambda length, d, layout: table(length, d, "half"),
        ),
        Misconception(
            "The rows are mixed",
            "`reshape` reads row by row: stacked along a new *first* axis, sines of "
            "one position end up in the row of another. The members of a pair must "
            "be neighbors before the reshape.",
            _stacked_without_axis,
        ),
        Misconception(
            "The rows are made to have length 1",
            "Nothing is divided here: every row has the squared length d/2.",
            lambda length, d, layout: table(length, d, layout) / np.sqrt(d / 2),
        ),
        Misconception(
            "The frequencies are interleaved, the sines and cosines are not",
            "In the half layout feature p and feature p + d/2 share a frequency, so "
            "the list of frequencies is repeated as a whole.",
            _frequency_of_feature(lambda feature, d: feature // 2),
        ),
        Misconception(
            "The frequencies are in halves, the sines and cosines are not",
            "In the interleaved layout features 2p and 2p + 1 share a frequency, so "
            "each frequency is repeated.",
            _frequency_of_feature(lambda feature, d: feature % (d // 2)),
        ),
        Misconception(
            "Each feature counts as a pair",
            "p counts pairs: a sine and its cosine share one frequency.",
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
)


# sinusoidal-5: from the half layout to the interleaved one


def to_interleaved(x):
    """The same numbers, their last axis interleaved: an array of the shape of x."""
    two_rows = x.reshape(*x.shape[:-1], 2, x.shape[-1] // 2)
    return two_rows.swapaxes(-1, -2).reshape(x.shape)


def _regroup(x, groups):
    """Read the last axis as ``groups`` rows, and give it back column by column."""
    rows = x.reshape(*x.shape[:-1], groups, -1)
    return rows.swapaxes(-1, -2).reshape(x.shape)


TO_INTERLEAVED = Exercise(
    name="sinusoidal-5",
    title="From half to interleaved",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
A colleague's encodings are in the half layout, your model wants them interleaved.
Reorder the last axis of `x`, an array `[…, d]`, and leave `x` itself as it is.
""",
    hint=r"""
Read the last axis as two rows, sines and cosines.
You want it column by column.
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
            "This goes from interleaved to half",
            "You are given sines first, then cosines; the second feature of the "
            "result is the first cosine.",
            lambda x: _regroup(x, x.shape[-1] // 2),
        ),
        Misconception(
            "Nothing has moved",
            "A reshape keeps the order of the numbers in memory; somewhere two axes "
            "must change places.",
            lambda x: x.copy(),
        ),
        Misconception(
            "The cosines come first",
            "Each pair is in the right place, but its sine must come before its "
            "cosine.",
            lambda x: to_interleaved(np.roll(x, x.shape[-1] // 2, axis=-1)),
        ),
        Misconception(
            "The halves are exchanged",
            "That is still a half layout, cosines before sines.",
            lambda x: np.roll(x, x.shape[-1] // 2, axis=-1),
        ),
        Misconception(
            "The order is reversed",
            "This lists the last number first. What moves is which half a number "
            "comes from.",
            lambda x: x[..., ::-1].copy(),
        ),
        Misconception(
            "The axes before the last one take part",
            "Each vector along the last axis is reordered by itself; with one "
            "vector nobody notices.",
            lambda x: x.reshape(2, -1).T.reshape(x.shape),
        ),
        Misconception(
            "The two halves are stacked along the wrong axis",
            "The members of a pair must be neighbors before the reshape: they "
            "belong on a new *last* axis.",
            lambda x: np.stack(np.split(x, 2, axis=-1)).reshape(x.shape),
        ),
        Misconception(
            "The cosines are in reverse order",
            "The p-th sine goes with the p-th cosine, counted from the front in "
            "both halves.",
            lambda x: to_interleaved(
                np.concatenate(
                    (x[..., : x.shape[-1] // 2], x[..., : x.shape[-1] // 2 - 1 : -1]),
                    axis=-1,
                )
            ),
        ),
        Misconception(
            "The numbers are sorted",
            "What moves depends on the place of a number, not on its size.",
            lambda x: np.sort(x, axis=-1),
        ),
        Misconception(
            "The sines come twice",
            "Every number of x occurs once: sine, cosine, sine, cosine.",
            lambda x: np.repeat(x[..., : x.shape[-1] // 2], 2, axis=-1),
        ),
        Misconception(
            "All axes are transposed",
            "`.T` turns the order of all axes round. Only the last two are to change "
            "places.",
            lambda x: x.reshape(-1, 2, x.shape[-1] // 2).T.reshape(x.shape),
        ),
    ),
)


# sinusoidal-6: a table that is right at a million


def exact_table(positions, d):
    """PE of each position, interleaved: a float32 tensor [tokens, d]."""
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


def _tells_neighbors_apart(answer, positions, d):
    here, there = answer(positions, d), answer(positions + 1, d)
    return bool((here != there).any(-1).all())


EXACT_TABLE = Exercise(
    name="sinusoidal-6",
    title="Right at a million",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
`positions` is an int64 tensor `[tokens]`, with values up to a million.
Return their encodings, interleaved, as a float32 tensor `[tokens, d]` in which every entry is the true sine or cosine up to the rounding of float32.
""",
    hint=r"""
A sine is at most 1, an angle is not.
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
            "The angle is computed in float32",
            "Near 10⁶ neighboring float32 numbers are 0.06 apart, and so is your "
            "angle. The table may be float32, the angle may not.",
            lambda positions, d: _float32_table(
                positions.float(), _float32_frequencies(d)
            ),
        ),
        Misconception(
            "The frequencies come from float32 logarithms, and so does the angle",
            "Two roundings: the frequency is off in its seventh digit, which a "
            "million positions multiply, and the product is rounded again.",
            lambda positions, d: _float32_table(
                positions.float(), _frequencies_by_logarithm(d)
            ),
        ),
        Misconception(
            "The frequencies were rounded to float32 first",
            "The product is exact now, but its factor is not: an error in the "
            "seventh digit of ω is multiplied by the position.",
            lambda positions, d: _float32_table(
                positions.double(), _float32_frequencies(d).double()
            ),
        ),
        Misconception(
            "The angle is exact, and rounded before its sine",
            "An angle near 10⁶ loses hundredths of a radian in float32. Sine and "
            "cosine are at most 1: round those.",
            _of_rounded_angles,
        ),
        Misconception(
            "The positions were held in bf16",
            "bf16 has 8 significant bits: 257 becomes 256.",
            lambda positions, d: _float32_table(
                positions.bfloat16().double(), _exact_frequencies(d)
            ),
        ),
        Misconception(
            "This is the half layout",
            "The angles are right; interleave sines and cosines.",
            lambda positions, d: torch.cat(
                (
                    exact_table(positions, d)[:, 0::2],
                    exact_table(positions, d)[:, 1::2],
                ),
                -1,
            ),
        ),
        Misconception(
            "The cosines come first",
            "The angles are right; the first member of a pair is the sine.",
            lambda positions, d: (
                exact_table(positions, d).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
            ),
        ),
        Misconception(
            "The exponent lacks its 2",
            "10000^(−p/d) for pairs p = 0, 1, …: each pair has two features.",
            lambda positions, d: _float32_table(
                positions.double(),
                10000 ** (-torch.arange(d // 2, dtype=torch.float64) / d),
            ),
        ),
        Misconception(
            "The exponent has its 2 twice",
            "`arange(0, d, 2)` counts features already.",
            lambda positions, d: _float32_table(
                positions.double(), _exact_frequencies(d) ** 2
            ),
        ),
        Misconception(
            "The frequencies are inverted",
            "A position is multiplied by 10000^(−2p/d), or divided by 10000^(2p/d).",
            lambda positions, d: _float32_table(
                positions.double(), 1 / _exact_frequencies(d)
            ),
        ),
        Misconception(
            "The rows are numbered, whatever their positions",
            "`positions` says where the tokens are; they need not start at 0.",
            lambda positions, d: exact_table(torch.arange(len(positions)), d),
        ),
        Misconception(
            "These are tensor2tensor's frequencies",
            "The paper divides 2p by d. Dividing p by d/2 − 1 is another rule.",
            lambda positions, d: _float32_table(
                positions.double(),
                10000 ** (-torch.arange(d // 2, dtype=torch.float64) / (d / 2 - 1)),
            ),
        ),
        Misconception(
            "The finished table went through half precision",
            "The angles are right; the sines and cosines have lost their digits on "
            "their way to float32.",
            lambda positions, d: exact_table(positions, d).half().float(),
        ),
        Misconception(
            "The finished table went through bfloat16",
            "The angles are right; the sines and cosines have lost their digits on "
            "their way to float32.",
            lambda positions, d: exact_table(positions, d).bfloat16().float(),
        ),
        Misconception(
            "The exponents were rounded to float32",
            "2p/d is a float32 number where d is a power of two, and not "
            "where d is 6. The position multiplies its error: divide in "
            "float64.",
            lambda positions, d: _float32_table(
                positions.double(), 10000 ** -(torch.arange(0, d, 2) / d).double()
            ),
        ),
    ),
    properties=(
        Property(
            "A position and the next one have different encodings, so positions keep "
            "all their digits",
            _tells_neighbors_apart,
        ),
        Property(
            "At position 1 these are the sines and cosines of 10000^(−2p/d)",
            lambda answer, positions, d: _is_true_to_rounding(
                answer, torch.tensor([1]), d
            ),
        ),
        Property(
            "Nothing before the finished sine or cosine is rounded to float32, so "
            "errors do not grow with the position",
            _is_true_to_rounding,
        ),
    ),
    tolerance=2**-24,
)


# sinusoidal-7: where the Gram curve first rises


def first_rise(d):
    """The first offset t whose inner product exceeds that of t − 1: an int."""
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
Write down a guess for $d = 64$ first. Then look how the answer grows with $d$: it is below 100 for $d = 512$, the largest that is tried.
""",
    hint=r"""
The inner product is a sum of cosines; `np.diff` compares neighbors, and `np.argmax` finds the first `True`.
""",
    cases=((2,), (4,), (16,), (64,), (88,), (512,)),
    solution=first_rise,
    misconceptions=(
        Misconception(
            "Too few offsets are looked at",
            "The argmax of a row of False is 0. Where no rise is found "
            "among the offsets, look at more of them.",
            lambda d: _first(np.diff(_gram(geometric(d), 20)) > 0) + 1,
        ),
        Misconception(
            "One step too early",
            "You give the offset before the rise; wanted is the first offset whose "
            "value is larger than the one before it.",
            lambda d: first_rise(d) - 1,
        ),
        Misconception(
            "This is the first negative value",
            "The curve can rise long before it crosses zero.",
            lambda d: _first(_gram(geometric(d)) < 0),
        ),
        Misconception(
            "The exponent has its 2 twice",
            "You explore another curve: its frequencies are the squares.",
            lambda d: _first(np.diff(_gram(geometric(d) ** 2)) > 0) + 1,
        ),
        Misconception(
            "The frequencies are inverted",
            "You explore another curve: its pairs turn by many radians a position.",
            lambda d: _first(np.diff(_gram(1 / geometric(d))) > 0) + 1,
        ),
        Misconception(
            "The exponent lacks its 2",
            "You explore another curve, with 10000^(−p/d) for d/2 pairs.",
            lambda d: _first(np.diff(_gram(geometric(d) ** 0.5)) > 0) + 1,
        ),
        Misconception(
            "Each feature has a frequency of its own",
            "You explore another curve: a sine and its cosine share a frequency, so "
            "there are d/2 of them.",
            lambda d: _first(np.diff(_gram(10000.0 ** (-np.arange(d) / d))) > 0) + 1,
        ),
        Misconception(
            "One step too late",
            "Wanted is the offset of the value that is larger than the one before "
            "it; no further one.",
            lambda d: first_rise(d) + 1,
        ),
        Misconception(
            "This is where the curve bends",
            "There it begins to fall more slowly. It must rise.",
            lambda d: _first(np.diff(_gram(geometric(d)), 2) > 0),
        ),
        Misconception(
            "This is the lowest point",
            "The curve falls and rises many times, and its lowest point among those "
            "that you looked at comes late. The *first* rise is asked for.",
            lambda d: int(np.argmin(_gram(geometric(d), 200))),
        ),
        Misconception(
            "These are sums of sines",
            "The inner product of two encodings is a sum of cosines of ω t.",
            lambda d: (
                _first(np.diff(np.sin(np.outer(range(4000), geometric(d))).sum(-1)) > 0)
                + 1
            ),
        ),
        Misconception(
            "These are tensor2tensor's frequencies",
            "You explore another curve: the paper divides 2p by d. Dividing"
            " p by d/2 − 1 is another rule.",
            lambda d: (
                _first(
                    np.diff(_gram(10000.0 ** (-np.arange(d // 2) / max(d // 2 - 1, 1))))
                    > 0
                )
                + 1
            ),
        ),
        Misconception(
            "This is the offset after the lowest point",
            "The curve falls and rises many times. After its lowest point "
            "among many offsets it rises, but not for the first time.",
            lambda d: int(np.argmin(_gram(geometric(d), 100))) + 1,
        ),
        Misconception(
            "This is the first peak",
            "The first step upwards is asked for, not how far it goes up from there.",
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
)


# sinusoidal-8: a bilinear form that tells before from after


def before_or_after(d):
    """A form that changes its sign with the offset: a float64 array [d, d]."""
    block = np.array([[0.0, 1.0], [-1.0, 0.0]])
    return np.kron(np.eye(d // 2), block)


def _form(answer, d, positions=range(6)):
    pe = absolute.sinusoidal(positions, d, layout="interleaved")
    return pe @ answer(d) @ pe.T


def _in_blocks(*entries):
    """A form with one block for every pair."""
    return lambda d: np.kron(
        np.eye(d // 2), np.array(entries, dtype=float).reshape(2, 2)
    )


BEFORE_OR_AFTER = Exercise(
    name="sinusoidal-8",
    title="Before or after",
    kind="NumPy",
    minutes=15,
    lines=2,
    statement=r"""
The inner product cannot tell $i - j = +1$ from $-1$.
Find the matrix $A$, a float64 array `[d, d]`, for which it can: in the interleaved layout,

$$\mathrm{PE}(i)^\top A \, \mathrm{PE}(j) = \sum_p \sin \omega_p (i - j) .$$

It does not depend on the frequencies.
""",
    hint=r"""
Begin with $d = 2$: $\sin(\alpha - \beta) = \sin\alpha \cos\beta - \cos\alpha \sin\beta$, and the pair is $(\sin, \cos)$.
`np.kron` repeats a block.
""",
    cases=((2,), (4,), (8,)),
    solution=before_or_after,
    misconceptions=(
        Misconception(
            "The sign is reversed",
            "For d = 2, i = 1, j = 0 the form must be sin 1 > 0.",
            lambda d: before_or_after(d).T,
        ),
        Misconception(
            "This is blind to the sign of i − j",
            "The identity gives Σ cos ω(i − j), which is the same for +1 and −1.",
            lambda d: np.eye(d),
        ),
        Misconception(
            "No minus sign: the sum of the positions",
            "sin a cos b + cos a sin b is sin(a + b). It is symmetric, and it is not "
            "relative.",
            lambda d: np.abs(before_or_after(d)),
        ),
        Misconception(
            "Only one of the two products",
            "sin a cos b alone is half of sin(a − b) and half of sin(a + b); the "
            "second half is not relative.",
            lambda d: np.triu(before_or_after(d)),
        ),
        Misconception(
            "This is for the half layout",
            "In the interleaved layout the members of a pair are neighbors.",
            lambda d: np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(d // 2)),
        ),
        Misconception(
            "Half of it",
            "The two products of sin(a − b) have the factors 1 and −1.",
            lambda d: before_or_after(d) / 2,
        ),
        Misconception(
            "This is Σ cos ω(i + j), up to its sign",
            "With the same feature on both sides there are only products of two "
            "sines and of two cosines. Which products does sin(a − b) have?",
            _in_blocks(1, 0, 0, -1),
        ),
        Misconception(
            "Neighbors are joined across pairs",
            "Only the two members of one pair may meet: features 1 and 2 belong to "
            "different pairs.",
            lambda d: np.eye(d, k=1) - np.eye(d, k=-1),
        ),
        Misconception(
            "All features meet all others",
            "Members of different pairs turn by different frequencies; their "
            "products are not relative.",
            lambda d: np.triu(np.ones((d, d)), 1) - np.tril(np.ones((d, d)), -1),
        ),
        Misconception(
            "All pairs meet all others",
            "The sine of one pair must meet the cosine of the same pair only.",
            lambda d: np.kron(np.ones((d // 2, d // 2)), [[0.0, 1.0], [-1.0, 0.0]]),
        ),
        Misconception(
            "Only the other of the two products",
            "−cos a sin b alone is half of sin(a − b), and half of what is not "
            "relative.",
            _in_blocks(0, 0, -1, 0),
        ),
        Misconception(
            "The frequencies are in the form",
            "Each pair counts once: the frequencies act inside the sines.",
            lambda d: np.diag(np.repeat(geometric(d), 2)) @ before_or_after(d),
        ),
        Misconception(
            "This turns by 45°",
            "It adds Σ cos ω(i − j), which does not change its sign with the offset.",
            _in_blocks(1, 1, -1, 1),
        ),
        Misconception(
            "This turns by −45°",
            "It adds Σ cos ω(i − j), which does not change its sign with the "
            "offset, and subtracts what is wanted.",
            _in_blocks(1, -1, 1, 1),
        ),
        Misconception(
            "This is for the half layout, with its sign reversed",
            "In the interleaved layout the members of a pair are neighbors.",
            lambda d: np.kron([[0.0, -1.0], [1.0, 0.0]], np.eye(d // 2)),
        ),
        Misconception(
            "The signs alternate on the diagonal above the main one",
            "A sine meets the cosine of its own pair, and the other way round with "
            "the other sign; two pairs do not meet.",
            lambda d: np.diag((-1.0) ** np.arange(d - 1), 1),
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
)


SHEET = Sheet(
    title="sinusoidal encodings",
    conventions=r"""
Positions, features and pairs count from 0, the base is 10000, and a pair is (sine, cosine).
""",
    exercises=(
        FIRST_POSITION,
        FREQUENCIES,
        OFFSET_MATRIX,
        TABLE,
        TO_INTERLEAVED,
        EXACT_TABLE,
        FIRST_RISE,
        BEFORE_OR_AFTER,
    ),
)
