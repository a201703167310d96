"""Exercises on FoPE (Fourier Position Embedding)."""

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
from posedu.numpy.frequencies import frequencies

# fope-1: frequencies that make a full turn


def full_turn_frequencies(d, length):
    """Return how many RoPE frequencies make at least one turn in ``length`` steps.

    The number is an int; ``d`` is the head dimension, the base is 10000.
    """
    turns = [length * 10000 ** (-2 * p / d) / (2 * np.pi) for p in range(d // 2)]
    return sum(t >= 1 for t in turns)


def _count(condition):
    return lambda d, length: int(condition(frequencies(d), d, length).sum())


def _by_logarithm(d, length):
    """Return the real pair index p at which RoPE makes one turn in ``length`` steps.

    ``d`` is the head dimension; the base is 10000.
    """
    return d / 2 * np.log(length / (2 * np.pi)) / np.log(10000)


def _up_to(number):
    return lambda d, length: int(min(max(number(_by_logarithm(d, length)), 0), d // 2))


FULL_TURNS = Exercise(
    name="fope-1",
    title="Frequencies that make a full turn",
    kind="by hand",
    minutes=6,
    lines=2,
    statement=r"""
How many of the $d/2$ frequencies make at least one full turn within `length` steps, each of one position?
The base is 10000.
Find the rule on paper; the function may count.
""",
    hint=r"""
A full turn is $2\pi$: when is $L\,\omega_p \ge 2\pi$?
""",
    cases=(
        *((2, 7), (4, 512), (8, 512), (64, 512), (64, 8192), (8, 10**6)),
        *((64, 6), (64, 3)),  # no pair makes its turn
        *((16, 19869), (16, 19870)),  # one pair makes its turn between the two
    ),
    solution=full_turn_frequencies,
    misconceptions=(
        Misconception(
            "Slow frequencies counted",
            "A pair below the floor never finishes a turn in training. FoPE drops "
            "those frequencies.",
            _count(lambda w, d, length: w < 2 * np.pi / length),
        ),
        Misconception(
            "Floor 2π/d",
            "The floor is set by the training length, not by the width of the head.",
            _count(lambda w, d, length: w >= 2 * np.pi / d),
        ),
        Misconception(
            "Full turn of one radian",
            "1/L is one radian in L positions. A full turn has 2π of them.",
            _count(lambda w, d, length: w >= 1 / length),
        ),
        Misconception(
            "Features counted, not frequencies",
            "Two features make a pair, and a pair has one frequency.",
            lambda d, length: 2 * full_turn_frequencies(d, length),
        ),
        Misconception(
            "All frequencies counted",
            "The slow frequencies do not finish a turn.",
            lambda d, length: d // 2,
        ),
        Misconception(
            "Half a turn taken for a full one",
            "A full turn is 2π.",
            _count(lambda w, d, length: w >= np.pi / length),
        ),
        Misconception(
            "Missing factor 2 in the exponent",
            "ω_p = 10000^(−2p/d) for d/2 pairs.",
            _count(lambda w, d, length: np.sqrt(w) >= 2 * np.pi / length),
        ),
        Misconception(
            "Factor 2 twice in the exponent",
            "ω_p = 10000^(−2p/d), where p counts pairs.",
            _count(lambda w, d, length: w**2 >= 2 * np.pi / length),
        ),
        Misconception(
            "One frequency per feature",
            "There are d/2 frequencies: p counts pairs.",
            lambda d, length: int(
                (10000.0 ** (-np.arange(d) / d) >= 2 * np.pi / length).sum()
            ),
        ),
        Misconception(
            "(2π)² in place of 2π",
            "ω L is the angle. It must be at least 2π, not at least (2π)².",
            _count(lambda w, d, length: w >= (2 * np.pi) ** 2 / length),
        ),
        Misconception(
            "Full turn of 360",
            "ω is in radians per position: a full turn is 2π.",
            _count(lambda w, d, length: w >= 360 / length),
        ),
        Misconception(
            "More frequencies than the head has",
            "p runs over d/2 pairs, so a formula must stop there as well. Try a very "
            "long training length.",
            lambda d, length: sum(
                length * 10000.0 ** (-2 * p / d) >= 2 * np.pi for p in range(d)
            ),
        ),
        Misconception(
            "Last index in place of the number",
            "Indices count from 0, and there are only d/2 of them.",
            lambda d, length: int(np.floor(_by_logarithm(d, length))),
        ),
        Misconception(
            "Last frequency left out",
            "Indices count from 0, so the number is one more than the last index.",
            _up_to(np.floor),
        ),
        Misconception(
            "Index of the last frequency",
            "Indices count from 0, so the number is one more than the last index.",
            lambda d, length: max(full_turn_frequencies(d, length) - 1, 0),
        ),
        Misconception(
            "Frequency below the length",
            "ω is the angle of one step, and the steps add up. Your answer compares L "
            "with the angle of 2π steps.",
            _count(lambda w, d, length: length >= 2 * np.pi * w),
        ),
        Misconception(
            "Rounded to the nearest index",
            "Pair p is counted if p is at most the solution of L ω = 2π, and p counts "
            "from 0.",
            _up_to(round),
        ),
        Misconception(
            "Two logarithms mixed",
            "A quotient of logarithms has the same base above and below: `np.log` is "
            "the natural one.",
            _up_to(lambda p: np.floor(p / np.log(10)) + 1),
        ),
        Misconception(
            "Solution cut, not rounded down",
            "`int` cuts towards 0. For fewer than 2π steps the solution is negative.",
            _up_to(lambda p: int(p) + 1),
        ),
        Misconception(
            "A formula without a smallest value",
            "For fewer than 2π steps the formula becomes negative. A number of "
            "frequencies is at least 0.",
            lambda d, length: min(d // 2, int(np.floor(_by_logarithm(d, length))) + 1),
        ),
        Misconception(
            "A formula without a smallest and a largest value",
            "A number of frequencies is at least 0, and here at most d/2.",
            lambda d, length: int(np.floor(_by_logarithm(d, length))) + 1,
        ),
        Misconception(
            "Slowest frequency at 1/10000",
            "The exponent is 2p/d, so the last pair has a frequency above 1/10000.",
            lambda d, length: sum(
                length * 10000 ** (-2 * p / max(d - 2, 1)) >= 2 * np.pi
                for p in range(d // 2)
            ),
        ),
        Misconception(
            "Half of the pairs",
            "There are d/2 pairs, so p runs from 0 to d/2 − 1.",
            lambda d, length: int(
                (frequencies(d)[: d // 4] * length >= 2 * np.pi).sum()
            ),
        ),
        Misconception(
            "Turns counted, not frequencies",
            "A frequency counts once, however many turns it makes.",
            lambda d, length: int((frequencies(d) * length // (2 * np.pi)).sum()),
        ),
        Misconception(
            "3.14 for π",
            "With 3.14 a pair is counted that is just short of a full turn. Use "
            "`np.pi`.",
            _count(lambda w, d, length: w * length >= 6.28),
        ),
        Misconception(
            "One step too many",
            "`length` is already the number of steps, each of one position.",
            _count(lambda w, d, length: (length + 1) * w >= 2 * np.pi),
        ),
        Misconception(
            "Steps between `length` positions counted",
            "Between `length` positions there are length − 1 steps. Here `length` "
            "steps are given, so the floor is 2π/L.",
            _count(lambda w, d, length: (length - 1) * w >= 2 * np.pi),
        ),
    ),
    explanation=r"""
Pair $p$ makes a full turn if $L\, 10000^{-2p/d} \ge 2\pi$, that is, if $p \le x = \tfrac{d}{2} \log_{10000}\tfrac{L}{2\pi}$.
Since $p$ counts from 0, these are $\lfloor x \rfloor + 1$ pairs if $L \ge 2\pi$, but never more than $d/2$.
With $d = 64$ and $L = 512$ it is $x = 15.3$, so 16 of 32 frequencies: FoPE {prf:ref}`as released <def-fope-box>` drops the other half.
""",
    prediction=Prediction(
        "How many of the 32 frequencies of a head with $d = 64$ make at least one full turn in 512 steps?",
        lambda: full_turn_frequencies(64, 512),
    ),
)


# fope-2: lengths


def length_factor(c, s):
    """Return the factor by which (a, b) ↦ (Ca − Sb, Sa + Cb) changes the length.

    ``c`` and ``s`` are C and S, any real numbers; the factor is a SymPy expression.
    """
    return sp.sqrt(c**2 + s**2)


_C, _S = sp.symbols("C S", positive=True)

LENGTH = Exercise(
    name="fope-2",
    title="Longer or shorter",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
A pair $(a, b)$ becomes $(C a - S b, S a + C b)$.
By which factor does its length change?
Return a SymPy expression in $C, S > 0$.
""",
    hint=r"""
First take $(1, 0)$.
Does the length of every vector change by the same factor?
""",
    cases=(
        (sp.Integer(1), sp.Integer(1)),
        (sp.Rational(3, 5), sp.Rational(4, 5)),
        (_C, _S),
    ),
    solution=length_factor,
    misconceptions=(
        Misconception(
            "Lengths unchanged",
            "Your factor is always 1, which is right for a cosine and a sine of one "
            "angle alone. A series is no cosine.",
            lambda c, s: sp.Integer(1),
        ),
        Misconception(
            "Factor of areas",
            "C² + S² is the determinant: it multiplies areas, that is, squared "
            "lengths.",
            lambda c, s: c**2 + s**2,
        ),
        Misconception(
            "Sum of C and S",
            "C and S act at right angles to each other. Look at the image of (1, 0).",
            lambda c, s: c + s,
        ),
        Misconception(
            "Root of the sum",
            "At right angles the squares add up.",
            lambda c, s: sp.sqrt(c + s),
        ),
        Misconception(
            "Sum of the roots",
            "At right angles the squares add up.",
            lambda c, s: sp.sqrt(c) + sp.sqrt(s),
        ),
        Misconception(
            "Root of the product",
            "(1, 0) becomes (C, S): how long is that?",
            lambda c, s: sp.sqrt(c * s),
        ),
        Misconception(
            "Squares subtracted",
            "Expand (C a − S b)² + (S a + C b)²: which terms cancel?",
            lambda c, s: sp.sqrt(c**2 - s**2),
        ),
        Misconception(
            "C alone",
            "(1, 0) becomes (C, S): how long is that?",
            lambda c, s: c,
        ),
        Misconception(
            "Product of C and S",
            "(1, 0) becomes (C, S): how long is that?",
            lambda c, s: c * s,
        ),
        Misconception(
            "Mean of C and S",
            "(1, 0) becomes (C, S): how long is that?",
            lambda c, s: (c + s) / 2,
        ),
        Misconception(
            "Root of the mean square",
            "(1, 0) becomes (C, S): how long is that?",
            lambda c, s: sp.sqrt((c**2 + s**2) / 2),
        ),
        Misconception(
            "Inverse factor",
            "The factor by which the length *grows* is asked for.",
            lambda c, s: 1 / sp.sqrt(c**2 + s**2),
        ),
        Misconception(
            "The released code's factor",
            "√2 is right only for C = S = 1.",
            lambda c, s: sp.sqrt(2),
        ),
        Misconception(
            "Squares subtracted, and the root missing",
            "Expand (C a − S b)² + (S a + C b)²: which terms cancel?",
            lambda c, s: c**2 - s**2,
        ),
    ),
    explanation=r"""
$(Ca - Sb)^2 + (Sa + Cb)^2 = (C^2 + S^2)(a^2 + b^2)$, because the mixed products cancel.
So every vector's length changes by the same factor $\sqrt{C^2 + S^2}$: the map is a rotation times this number.
It is 1 only where $C$ and $S$ are a cosine and a sine of one angle; sums of waves are that only in the case of {prf:ref}`the theorem on one wave <thm-fope-mixing>`.
""",
)


# fope-3: a series


def series(positions, omega, coefficients):
    """Return FoPE's sum of cosines C_p(x) at each position x: Σ_l cos(ω_l x) c_lp.

    The sums are ``[positions, pairs]``. ``omega`` are the frequencies ω_l of all waves,
    ``coefficients`` are c, ``[waves, pairs]``.
    """
    return np.cos(positions[:, None] * omega) @ coefficients


def _series_case(n, waves, pairs):
    rng = np.random.default_rng((n, waves, pairs))
    positions, omega = rng.uniform(0, 9, size=n), rng.uniform(0.1, 1, size=waves)
    return positions, omega, draw(waves, pairs)


SERIES = Exercise(
    name="fope-3",
    title="A series for every pair",
    kind="NumPy",
    minutes=6,
    lines=1,
    statement=r"""
`positions` is `[n]`, `omega` is `[waves]`, `coefficients` is `[waves, pairs]`.
Return FoPE's $C_p(x) = \sum_l c_{lp} \cos(\omega_l x)$ as `[n, pairs]`.
""",
    hint=r"""
First the waves, `[n, waves]`, then one matrix product.
""",
    cases=tuple(_series_case(*s) for s in ((1, 2, 2), (4, 3, 3), (5, 4, 4), (3, 5, 2))),
    solution=series,
    misconceptions=(
        Misconception(
            "Sines in place of cosines",
            "C is the series of cosines. S has the sines, with coefficients of its "
            "own.",
            lambda x, w, c: np.sin(x[:, None] * w) @ c,
        ),
        Misconception(
            "Frequencies mixed, not the waves",
            "Mixing inside the cosine gives a single wave of another frequency. A "
            "series is a sum of cosines.",
            lambda x, w, c: np.cos(x[:, None] * (w @ c)),
        ),
        Misconception(
            "Own wave added once more",
            "Here the identity is already part of the coefficients.",
            lambda x, w, c: np.cos(x[:, None] * w) @ (c + np.eye(*c.shape)),
        ),
        Misconception(
            "As many waves as pairs",
            "Sum over all waves. There may be more of them than pairs.",
            lambda x, w, c: np.cos(x[:, None] * w[: c.shape[1]]) @ c[: c.shape[1]],
        ),
        Misconception(
            "Waves without coefficients",
            "Each wave has a coefficient for each pair.",
            lambda x, w, c: np.cos(x[:, None] * w) @ np.ones_like(c),
        ),
        Misconception(
            "Position and frequency added",
            "The angle is ω x, a product.",
            lambda x, w, c: np.cos(x[:, None] + w) @ c,
        ),
        Misconception(
            "Frequencies in turns",
            "The angle is ω x, without a factor of 2π.",
            lambda x, w, c: np.cos(2 * np.pi * x[:, None] * w) @ c,
        ),
        Misconception(
            "Mean of the waves",
            "Sum the waves, without dividing by their number.",
            lambda x, w, c: np.cos(x[:, None] * w) @ c / len(w),
        ),
        Misconception(
            "Divided by the sum of the coefficients",
            "The coefficients are used as they are. Their sum need not be 1.",
            lambda x, w, c: np.cos(x[:, None] * w) @ c / c.sum(0),
        ),
        Misconception(
            "Product of two sums",
            "Each wave is multiplied by its own coefficient before the sum.",
            lambda x, w, c: np.cos(x[:, None] * w).sum(1, keepdims=True) * c.sum(0),
        ),
        Misconception(
            "First wave only",
            "Each coefficient belongs to a wave of its own.",
            lambda x, w, c: np.cos(x[:, None] * w[:1]) * c.sum(0),
        ),
        Misconception(
            "Rows counted in place of the positions",
            "The positions are given. They need not be 0, 1, 2, …",
            lambda x, w, c: series(np.arange(len(x)), w, c),
        ),
        Misconception(
            "Positions counted from 1",
            "The positions are used as they are given.",
            lambda x, w, c: series(x + 1, w, c),
        ),
        Misconception(
            "Frequency outside the cosine",
            "The angle is ω x. The cosine is taken of the product.",
            lambda x, w, c: np.cos(x[:, None]) * w @ c,
        ),
        Misconception(
            "Each pair's own wave only",
            "Each pair's series mixes all waves, with the matrix of coefficients.",
            lambda x, w, c: np.cos(x[:, None] * w[: c.shape[1]]) * np.diagonal(c),
        ),
        Misconception(
            "Sign of the coefficients reversed",
            "The coefficients are used as they are.",
            lambda x, w, c: -series(x, w, c),
        ),
        Misconception(
            "Position left out",
            "The angle is ω x.",
            lambda x, w, c: np.tile(np.cos(w) @ c, (len(x), 1)),
        ),
        Misconception(
            "Sines subtracted",
            "C has only cosines. S has the sines, with coefficients of its own.",
            lambda x, w, c: (np.cos(x[:, None] * w) - np.sin(x[:, None] * w)) @ c,
        ),
        Misconception(
            "Sines added",
            "C has only cosines. S has the sines, with coefficients of its own.",
            lambda x, w, c: (np.cos(x[:, None] * w) + np.sin(x[:, None] * w)) @ c,
        ),
        Misconception(
            "Absolute values of the coefficients",
            "The coefficients are used with their signs.",
            lambda x, w, c: np.cos(x[:, None] * w) @ np.abs(c),
        ),
        Misconception(
            "Positions divided by 2π",
            "ω is in radians per position.",
            lambda positions, omega, coefficients: series(
                positions / (2 * np.pi), omega, coefficients
            ),
        ),
        Misconception(
            "Frequencies taken for wavelengths",
            "ω x is already the angle, in radians.",
            lambda positions, omega, coefficients: series(
                positions, 2 * np.pi / omega, coefficients
            ),
        ),
    ),
    explanation=r"""
The table of waves $\cos(\omega_l x)$ has a row for each position and a column for each wave; the coefficients have a row for each wave and a column for each pair.
Their matrix product sums over the waves, as {prf:ref}`the definition of FoPE <def-fope-box>` says.
With the identity as coefficients each pair has its own wave again: {prf:ref}`FoPE contains RoPE <thm-fope-rope>`.
""",
)


# fope-4: padding


def pad(c, s, pairs):
    """Append the slow pairs, which are not rotated, to FoPE's tables C and S.

    ``c`` and ``s`` are C and S, which stand in place of RoPE's cosines and sines. Both
    tables have a row for each position and a column for each pair. The two returned
    tables have ``pairs`` columns.
    """
    missing = pairs - c.shape[1]
    ones, zeros = np.ones((len(c), missing)), np.zeros((len(c), missing))
    return np.hstack((c, ones)), np.hstack((s, zeros))


def _padded(cosine, sine, front=False):
    def padded(c, s, pairs):
        missing = pairs - c.shape[1]
        tables = []
        for table, value in ((c, cosine), (s, sine)):
            margin = np.full((len(c), missing), value)
            tables.append(np.hstack((margin, table) if front else (table, margin)))
        return tuple(tables)

    return padded


PAD = Exercise(
    name="fope-4",
    title="Pairs without rotation",
    kind="NumPy",
    minutes=5,
    lines=3,
    statement=r"""
`c` and `s` are the tables of the fast pairs, `[n, series]`.
Append the slow pairs, which are not rotated at all, so that there are `pairs` pairs together.
Return both tables.
""",
    hint=r"""
For which $(C, S)$ is $(C a - S b, S a + C b) = (a, b)$?
""",
    cases=(
        (np.array([[0.5]]), np.array([[0.25]]), 2),
        (draw(3, 2), draw(3, 2, seed=1), 5),
        (draw(2, 3), draw(2, 3, seed=1), 3),
    ),
    solution=pad,
    misconceptions=(
        Misconception(
            "Both padded with ones",
            "The released code pads with ones: it rotates the pair by 45° and makes it "
            "longer by √2. Which cosine and sine leave a pair as it is?",
            _padded(1.0, 1.0),
        ),
        Misconception(
            "Both padded with zeros",
            "A cosine of 0 and a sine of 0 erase the features. The slow pairs stay as "
            "they are.",
            _padded(0.0, 0.0),
        ),
        Misconception(
            "Padding in front of the fast pairs",
            "Frequencies fall with the index, so the slow pairs come last.",
            _padded(1.0, 0.0, front=True),
        ),
        Misconception(
            "Cosine and sine exchanged",
            "A cosine of 0 and a sine of 1 rotate a pair by 90°.",
            _padded(0.0, 1.0),
        ),
        Misconception(
            "Padding with zeros in front",
            "Frequencies fall with the index, so the slow pairs come last. And a "
            "cosine of 0 erases the features.",
            _padded(0.0, 0.0, front=True),
        ),
        Misconception(
            "Last column repeated",
            "The slow pairs are not rotated at all. Which cosine and sine leave a pair "
            "as it is?",
            lambda c, s, pairs: tuple(
                np.hstack((t, np.repeat(t[:, -1:], pairs - t.shape[1], axis=1)))
                for t in (c, s)
            ),
        ),
        Misconception(
            "Tables repeated",
            "The slow pairs are not rotated at all. Which cosine and sine leave a pair "
            "as it is?",
            lambda c, s, pairs: tuple(
                t[:, np.arange(pairs) % t.shape[1]] for t in (c, s)
            ),
        ),
        Misconception(
            "Mean cosine of the fast pairs",
            "The slow pairs are not rotated at all. Which cosine leaves a pair as it "
            "is?",
            lambda c, s, pairs: (
                np.hstack((c, c.mean(1, keepdims=True).repeat(pairs - c.shape[1], 1))),
                pad(c, s, pairs)[1],
            ),
        ),
        Misconception(
            "Two tables exchanged",
            "Return the cosines first, then the sines.",
            lambda c, s, pairs: pad(c, s, pairs)[::-1],
        ),
        Misconception(
            "Slow pairs multiplied by −1",
            "A cosine of −1 is half a turn.",
            _padded(-1.0, 0.0),
        ),
        Misconception(
            "Slow pairs rotated by 45°",
            "Which cosine and sine leave a pair as it is?",
            _padded(0.5**0.5, 0.5**0.5),
        ),
    ),
    explanation=r"""
$(C, S) = (1, 0)$ leaves every pair as it is: it is a rotation by the angle 0.
With this padding {prf:ref}`FoPE is RoPE with the frequency 0 in its slow pairs <thm-fope-rope>` if its coefficients are the identity.
The released code pads with $(1, 1)$ in its place, which rotates the slow pairs by 45° and makes them $\sqrt 2$ times as long at every position.
""",
)


# fope-5: apply the tables


def apply(x, c, s):
    """Map every pair (a, b) of x, in the half layout, to (Ca − Sb, Sa + Cb).

    The rows of x, ``[tokens, d]``, are tokens; ``c`` and ``s`` are C and S, ``[tokens,
    pairs]``. The returned tensor has the shape of x.
    """
    a, b = x.chunk(2, -1)
    return torch.cat((a * c - b * s, a * s + b * c), -1)


def _interleaved(x, c, s):
    a, b = x[:, 0::2], x[:, 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


def _apply_case(tokens, pairs):
    c, s = (draw(tokens, pairs, seed=seed) for seed in (0, 1))
    return tuple(map(torch.tensor, (draw(tokens, 2 * pairs), c, s)))


def _mapped(first, second):
    """Make a wrong answer (a function) to the exercise ``apply``.

    The exercise asks for pairs (a, b) mapped to (Ca − Sb, Sa + Cb). In the wrong
    answer, ``first(a, b, c, s)`` and ``second(a, b, c, s)`` replace the two members of
    each mapped pair.
    """

    def answer(x, c, s):
        a, b = x.chunk(2, -1)
        return torch.cat((first(a, b, c, s), second(a, b, c, s)), -1)

    return answer


APPLY = Exercise(
    name="fope-5",
    title="Apply the tables in the half layout",
    kind="PyTorch",
    minutes=6,
    lines=2,
    statement=r"""
Rows of `x` are tokens, `c` and `s` are `[tokens, pairs]`.
Map every pair $(a, b)$ to $(C a - S b, S a + C b)$ in the half layout.
""",
    hint=r"""
`x.chunk(2, -1)` gives both members of all pairs.
""",
    cases=(_apply_case(1, 2), _apply_case(3, 4)),
    solution=apply,
    misconceptions=(
        Misconception(
            "Interleaved layout",
            "In the half layout feature p is paired with feature p + d/2.",
            _interleaved,
        ),
        Misconception(
            "Wrong sign of the sine",
            "Your answer rotates clockwise. The first member is C a − S b.",
            lambda x, c, s: apply(x, c, -s),
        ),
        Misconception(
            "Cosine and sine exchanged",
            "With C = 1 and S = 0 nothing may change.",
            lambda x, c, s: apply(x, s, c),
        ),
        Misconception(
            "Missing minus sign",
            "The first member is C a − S b.",
            _mapped(lambda a, b, c, s: a * c + b * s, lambda a, b, c, s: a * s + b * c),
        ),
        Misconception(
            "A minus sign in the second member, too",
            "The second member is S a + C b.",
            _mapped(lambda a, b, c, s: a * c - b * s, lambda a, b, c, s: b * c - a * s),
        ),
        Misconception(
            "Members of each pair exchanged",
            "The first new member is C a − S b.",
            _mapped(lambda a, b, c, s: a * s + b * c, lambda a, b, c, s: a * c - b * s),
        ),
        Misconception(
            "Second member computed from the new first member",
            "Both formulas need the *old* members.",
            _mapped(
                lambda a, b, c, s: a * c - b * s,
                lambda a, b, c, s: (a * c - b * s) * s + b * c,
            ),
        ),
        Misconception(
            "Members scaled, not rotated",
            "Each new member needs both old ones.",
            _mapped(lambda a, b, c, s: a * c, lambda a, b, c, s: b * s),
        ),
        Misconception(
            "Pairs of the half layout put back interleaved",
            "Both members go back to their places, p and p + d/2.",
            lambda x, c, s: (
                apply(x, c, s).unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
            ),
        ),
        Misconception(
            "Interleaved pairs put back in halves",
            "In the half layout feature p is paired with feature p + d/2.",
            lambda x, c, s: torch.cat(
                (x[:, 0::2] * c - x[:, 1::2] * s, x[:, 0::2] * s + x[:, 1::2] * c), -1
            ),
        ),
        Misconception(
            "The first half's signs in the second half",
            "The second member is S a + C b.",
            _mapped(lambda a, b, c, s: a * c - b * s, lambda a, b, c, s: a * s - b * c),
        ),
        Misconception(
            "Partners in reverse order",
            "Feature p is paired with feature p + d/2, not with feature d − 1 − p.",
            lambda x, c, s: (
                x * torch.cat((c, c), -1) + x.flip(-1) * torch.cat((-s, s), -1)
            ),
        ),
        Misconception(
            "C and S exchanged in the second member",
            "The second member is S a + C b.",
            _mapped(lambda a, b, c, s: a * c - b * s, lambda a, b, c, s: a * c + b * s),
        ),
        Misconception(
            "First member missing in the second formula",
            "The second member is S a + C b.",
            _mapped(lambda a, b, c, s: a * c - b * s, lambda a, b, c, s: b * c),
        ),
        Misconception(
            "Length kept",
            "The length of a pair may change. Do not divide by √(C² + S²).",
            lambda x, c, s: apply(x, c / torch.hypot(c, s), s / torch.hypot(c, s)),
        ),
        Misconception(
            "Columns of the tables repeated for neighbors",
            "In the half layout features p and p + d/2 share column p of the tables.",
            lambda x, c, s: (
                x * c.repeat_interleave(2, -1)
                + torch.cat((-x.chunk(2, -1)[1], x.chunk(2, -1)[0]), -1)
                * s.repeat_interleave(2, -1)
            ),
        ),
        Misconception(
            "First token's row for all tokens",
            "Each token has a row of its own in both tables.",
            lambda x, c, s: apply(x, c[:1], s[:1]),
        ),
        Misconception(
            "Mean of the tables over the tokens",
            "Each token has a row of its own in both tables.",
            lambda x, c, s: apply(x, c.mean(0), s.mean(0)),
        ),
        Misconception(
            "Halves exchanged",
            "The first half of the features is a, the second half b.",
            _mapped(lambda a, b, c, s: b * c - a * s, lambda a, b, c, s: b * s + a * c),
        ),
    ),
    level="optional",
    explanation=r"""
In the half layout the first half of a row holds the first members of all pairs, and the second half their partners.
Both new members need both old ones, so compute them before anything is overwritten.
The same lines apply RoPE if $C$ and $S$ are its cosines and sines, {prf:ref}`a special case of FoPE <thm-fope-rope>`.
""",
)


# fope-6: how relative are these scores


def spread(scores):
    """Return the largest spread of scores along a diagonal i − j = const ≥ 0.

    ``scores`` are [queries, keys]; a spread is the maximum minus the minimum.
    """
    n = len(scores)
    return max(np.ptp(np.diag(scores, -offset)) for offset in range(n))


def _toeplitz(n):
    column = draw(n)
    i, j = np.indices((n, n))
    return column[np.abs(i - j)] + 0.0


_SQUARES = np.arange(8.0).reshape(4, 2) ** 2


def _over_diagonals(scores, size, overall=max, offsets=None):
    offsets = range(len(scores)) if offsets is None else offsets
    return overall([size(np.diag(scores, -t)) for t in offsets])


SPREAD = Exercise(
    name="fope-6",
    title="How relative are these scores?",
    kind="experiment",
    minutes=6,
    lines=2,
    statement=r"""
A relative encoding gives equal tokens scores that are constant along each diagonal.
`scores` are `[queries, keys]`, not always square: row $i$ and column $j$ belong to the positions $i$ and $j$.
Return the largest spread (maximum minus minimum) of `scores` along the diagonals with offset $i - j \ge 0$.
""",
    hint=r"""
Use `np.diag(scores, -offset)` and `np.ptp`.
""",
    cases=(
        (np.array([[1.0, 5.0], [2.0, 1.5]]),),
        (np.array([[1.0, 9.0, 0.0], [2.0, 1.0, 3.0], [0.0, 2.0, 1.0]]),),
        (np.array([[1.0, 4.0, 0.0], [2.0, 1.0, 5.0], [0.0, 7.0, 1.0]]),),
        (_SQUARES,),
        (_SQUARES.T,),
        (_toeplitz(5),),
        (draw(6, 6),),
        (np.diag([1.0, 0.0], -4),),
    ),
    solution=spread,
    misconceptions=(
        Misconception(
            "Spread along rows",
            "Along a row the offset changes. Equal offsets stand on a diagonal.",
            lambda scores: max(np.ptp(row) for row in scores),
        ),
        Misconception(
            "Diagonals with i + j constant",
            "Where i + j is constant the offset is not. Do not flip the matrix.",
            lambda scores: spread(scores[:, ::-1]),
        ),
        Misconception(
            "Main diagonal alone",
            "Offset 0 is one of many, and the other diagonals may have a larger "
            "spread.",
            lambda scores: np.ptp(np.diag(scores)),
        ),
        Misconception(
            "Keys after the query included",
            "The causal mask hides negative offsets. Take only the diagonals at and "
            "below the main one.",
            lambda scores: max(
                np.ptp(np.diag(scores, k))
                for k in range(1 - len(scores), scores.shape[1])
            ),
        ),
        Misconception(
            "Queries at the last keys",
            "Row i and column i belong to the same position: the main diagonal begins "
            "at the first query and the first key.",
            lambda scores: _over_diagonals(
                scores,
                np.ptp,
                offsets=range(len(scores) - scores.shape[1], len(scores)),
            ),
        ),
        Misconception(
            "As many diagonals as keys",
            "With more queries than keys there are as many diagonals as queries: each "
            "begins in another row.",
            lambda scores: _over_diagonals(
                scores, np.ptp, offsets=range(min(scores.shape))
            ),
        ),
        Misconception(
            "Half of the diagonals",
            "Every row begins a diagonal.",
            lambda scores: _over_diagonals(
                scores, np.ptp, offsets=range((len(scores) + 1) // 2 + 1)
            ),
        ),
        Misconception(
            "Last diagonal with two scores left out",
            "Two scores have a spread as well.",
            lambda scores: _over_diagonals(
                scores, np.ptp, offsets=range(max(len(scores) - 2, 1))
            ),
        ),
        Misconception(
            "Spread along columns",
            "Along a column the offset changes. Equal offsets stand on a diagonal.",
            lambda scores: max(np.ptp(column) for column in scores.T),
        ),
        Misconception(
            "Spread of all scores",
            "Scores of different offsets may differ. Compare along each diagonal.",
            np.ptp,
        ),
        Misconception(
            "Main diagonal left out",
            "Offset 0 counts as well.",
            lambda scores: _over_diagonals(
                scores, np.ptp, offsets=range(1, len(scores))
            ),
        ),
        Misconception(
            "Diagonals above the main one",
            "i − j ≥ 0 holds on the main diagonal and below. For positive k, "
            "`np.diag(scores, k)` lies above it.",
            lambda scores: _over_diagonals(
                scores, np.ptp, offsets=range(0, -scores.shape[1], -1)
            ),
        ),
        Misconception(
            "Sum of the spreads",
            "The largest spread is asked for.",
            lambda scores: _over_diagonals(scores, np.ptp, overall=sum),
        ),
        Misconception(
            "Mean of the spreads",
            "The largest spread is asked for.",
            lambda scores: _over_diagonals(scores, np.ptp, overall=np.mean),
        ),
        Misconception(
            "Spread of a single score",
            "The smallest spread is that of the last diagonal, 0, since it has one "
            "score. The largest is asked for.",
            lambda scores: _over_diagonals(scores, np.ptp, overall=min),
        ),
        Misconception(
            "Standard deviation",
            "The spread is the maximum minus the minimum.",
            lambda scores: _over_diagonals(scores, np.std),
        ),
        Misconception(
            "Variance",
            "The spread is the maximum minus the minimum.",
            lambda scores: _over_diagonals(scores, np.var),
        ),
        Misconception(
            "Share of the largest score",
            "The spread is the maximum minus the minimum, and is not divided.",
            lambda scores: _over_diagonals(
                scores, lambda x: np.ptp(x) / (np.abs(x).max() + 1e-12)
            ),
        ),
        Misconception(
            "Signs of the scores left out",
            "Scores of 1 and −1 have the spread 2.",
            lambda scores: spread(np.abs(scores)),
        ),
        Misconception(
            "First and last score of a diagonal compared",
            "The maximum and the minimum may stand anywhere on the diagonal.",
            lambda scores: _over_diagonals(scores, lambda x: np.abs(x[0] - x[-1])),
        ),
        Misconception(
            "Diagonals compared with each other",
            "Scores of different offsets may differ. Compare along each diagonal.",
            lambda scores: np.ptp(
                [np.diag(scores, -t).mean() for t in range(len(scores))]
            ),
        ),
        Misconception(
            "Largest score",
            "The spread is the maximum minus the minimum.",
            lambda scores: _over_diagonals(scores, np.max),
        ),
        Misconception(
            "Distance from the mean",
            "The spread is the maximum minus the minimum.",
            lambda scores: _over_diagonals(
                scores, lambda x: np.abs(x - x.mean()).max()
            ),
        ),
        Misconception(
            "Only neighbors on a diagonal compared",
            "The largest difference may be that of scores far apart on the diagonal.",
            lambda scores: max(
                np.abs(np.diff(np.diag(scores, -t))).max(initial=0)
                for t in range(len(scores))
            ),
        ),
        Misconception(
            "All offsets together",
            "Scores of different offsets may differ. Compare along each diagonal.",
            lambda scores: np.ptp(scores[np.tri(*scores.shape, dtype=bool)]),
        ),
        Misconception(
            "Zeros above the diagonal included",
            "`np.tril` fills with zeros, and scores of different offsets may "
            "differ. Compare along each diagonal.",
            lambda scores: np.ptp(np.tril(scores)),
        ),
        Misconception(
            "Distances from the diagonal's first entry",
            "The spread is the maximum minus the minimum, and the first entry may be "
            "neither.",
            lambda scores: max(
                np.abs(np.diag(scores, -t) - scores[t, 0]).max()
                for t in range(len(scores))
            ),
        ),
    ),
    properties=(
        Property(
            "A Toeplitz matrix has spread 0",
            lambda answer, scores: answer(np.ones_like(scores)) == 0,
        ),
    ),
    explanation=r"""
The scores of equal tokens are those of one query and one key at all pairs of positions; they depend on the offset alone exactly if every diagonal is constant, and the largest spread is then 0.
Maximum and minimum may stand far apart on a diagonal, so all of its entries are compared.
For FoPE on tokens the spread is 0 for all queries and keys only if every pair is one wave, {prf:ref}`the theorem on one wave <thm-fope-mixing>`.
""",
)


# fope-7: a head with more frequencies than it has


def colleagues_count(d, length):
    """Number of frequencies that make a full turn.

    The frequencies are RoPE's; they have ``length`` steps.
    """
    omega = [10000 ** (-2 * p / d) for p in range(d)]
    turns = [length * w / (2 * np.pi) for w in omega]
    return len([turn for turn in turns if turn >= 1])


def length_with_wrong_count():
    """Return the smallest length for which `colleagues_count` is wrong, after a d.

    The answer is (d, length).
    """
    return 64, 62832


def _refused_length(d, length):
    if type(d) is not int or d < 2 or d % 2:
        return "d is a positive even integer"
    return "" if type(length) is int and length > 0 else "length is a positive integer"


LONG = Exercise(
    name="fope-7",
    title="Find the input: a training length",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_count` should do what exercise fope-1 asks for.
Her tests are heads of 64 and of 128 features with the lengths 512, 8192 and 32768, and they pass.
For which $d$ and which `length`, the smallest, is it wrong?
Does the smallest length depend on $d$?
""",
    hint=r"""
Over which $p$ does she sum, and which is the fastest frequency that is not there?
""",
    cases=((),),
    solution=length_with_wrong_count,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_count,
        right=full_turn_frequencies,
        tested=tuple((d, n) for d in (64, 128) for n in (512, 8192, 32768)),
        refusal=_refused_length,
        size=lambda d, length: length,
        size_of="length",
    ),
    explanation=r"""
She sums over $d$ indices, but a head has $d/2$ pairs.
The first index too many is $p = d/2$, with the frequency $10000^{-1}$ for every $d$; it makes a full turn from $2\pi \cdot 10000 = 62831.9$ steps on.
So the smallest length is 62832, whatever $d$ is: the mistake shows only with texts longer than those of all her tests.
Every pair of her heads turns from 47,118 or 54,411 steps on, and even there she is right: only a test well beyond, such as a length of 100,000, would have found it.
""",
)


# fope-8: scores that drift along a diagonal


def colleagues_spread(scores):
    """Largest difference of scores at equal offsets.

    The offsets are i − j ≥ 0.
    """
    offsets = range(len(scores))
    lines = [np.diag(scores, -offset) for offset in offsets]
    steps = [np.abs(np.diff(line)) for line in lines]
    return max(step.max(initial=0.0) for step in steps)


def scores_with_wrong_spread():
    """Return the smallest scores for which `colleagues_spread` is wrong.

    They are a square array.
    """
    return np.diag([0.0, 1.0, 2.0])


def _refused_scores(scores):
    if not isinstance(scores, np.ndarray) or scores.dtype.kind not in "if":
        return "scores are a NumPy array of numbers"
    if scores.ndim != 2 or len(scores) != scores.shape[1] or not len(scores):
        return "scores are [tokens, tokens], with one token or more"
    if not np.abs(scores).max() <= 1000:
        return "all scores are between −1000 and 1000"
    return ""


DRIFT = Exercise(
    name="fope-8",
    title="Find the input: scores",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_spread` should do what exercise fope-6 asks for.
Her tests are a matrix that is constant along its diagonals and two matrices of 2 and 3 tokens that are not; all pass.
Find a square array of scores, between −1000 and 1000, for which it is wrong.
The smallest is the one with the fewest tokens.
Which failures of a relative encoding does her function report too small?
""",
    hint=r"""
She compares each score with the next one on its diagonal.
""",
    cases=((),),
    solution=scores_with_wrong_spread,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_spread,
        right=spread,
        tested=(
            (np.array([[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [3.0, 2.0, 1.0]]),),
            (np.array([[1.0, 0.0], [2.0, 1.5]]),),
            (np.array([[1.0, 0.0, 0.0], [2.0, 4.0, 0.0], [0.0, 2.0, 1.0]]),),
        ),
        refusal=_refused_scores,
        size=lambda scores: len(scores),
        size_of="number of tokens",
    ),
    explanation=r"""
Those that grow slowly along the text: three scores 0, 1, 2 on a diagonal have the spread 2, and she reports 1.
With two tokens a diagonal has at most two entries, and both functions agree, so three tokens are the fewest.
A drift over $n$ tokens is reported up to $n - 1$ times too small.
For a pair with two waves the score along a diagonal {prf:ref}`is not constant <thm-fope-mixing>`, and if the waves are slow it changes little from token to token.
""",
    level="optional",
)


SHEET = Sheet(
    title="FoPE",
    conventions=r"""
Pairs $p$ count from 0, with $\omega_p = 10000^{-2p/d}$.
Positions have one coordinate.
""",
    example=r"""
from posedu.numpy.rotary import fope

x, c = np.array([[1.0, 1.0, 0.0, 0.0]] * 2), np.ones((1, 1))
waves = dict(cos_coefficients=c, sin_coefficients=c)
slow = dict(length=8, padding="identity")
y = fope(x, [0, 2], layout="half", **waves, **slow)
print(np.round(y, 3))
""",
    figure="fope_explorable",
    exercises=(FULL_TURNS, LENGTH, SERIES, PAD, APPLY, SPREAD, LONG, DRIFT),
)
