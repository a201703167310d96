"""Exercises on RoPE (rotary position embedding)."""

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
from posedu.numpy.rotary import pairs
from posedu.torch import RoPE, convert_layout

# rope-1: rotate one pair


def rotate(a, b, alpha):
    """Rotate the vector (a, b) by the angle alpha; return a SymPy column."""
    cos, sin = sp.cos(alpha), sp.sin(alpha)
    return sp.Matrix([a * cos - b * sin, a * sin + b * cos])


def _rotate_without_minus(a, b, alpha):
    cos, sin = sp.cos(alpha), sp.sin(alpha)
    return sp.Matrix([a * cos + b * sin, a * sin + b * cos])


ROTATE = Exercise(
    name="rope-1",
    title="Rotate one pair",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
On paper: where does the plane vector $(a, b)$ land when it is rotated counter-clockwise by the angle $\alpha$?
Write the result as a SymPy column.
$a$, $b$ and $\alpha$ may be numbers or symbols.
""",
    hint=r"""
Multiply $a + \mathrm{i}b$ by $\cos\alpha + \mathrm{i}\sin\alpha$, and take the real and the imaginary part.
""",
    cases=(
        (sp.S.One, sp.S.Zero, sp.pi / 2),
        (sp.S.Zero, sp.S.One, sp.pi / 2),
        (sp.Integer(2), sp.Integer(-1), sp.pi / 3),
        tuple(sp.symbols("a b alpha", real=True)),
    ),
    solution=rotate,
    misconceptions=(
        Misconception(
            "Rotation by −α",
            "A quarter turn takes (1, 0) upwards, to (0, 1): that is "
            "counter-clockwise.",
            lambda a, b, alpha: rotate(a, b, -alpha),
        ),
        Misconception(
            "Missing minus sign",
            "In your answer (0, 1) and (1, 0) move towards each other, and lengths "
            "change. Where does a quarter turn take (0, 1)?",
            _rotate_without_minus,
        ),
        Misconception(
            "Members scaled, not rotated",
            "Multiplying a by cos α and b by sin α keeps a out of the second entry, "
            "and at α = 0 it loses b. Each new member needs both old ones.",
            lambda a, b, alpha: sp.Matrix([a * sp.cos(alpha), b * sp.sin(alpha)]),
        ),
        Misconception(
            "Sine and cosine exchanged",
            "At α = 0 nothing may change. Your answer rotates by 90° − α.",
            lambda a, b, alpha: rotate(a, b, sp.pi / 2 - alpha),
        ),
        Misconception(
            "One minus sign too many",
            "Only one of the four products has a minus. Where does a quarter turn take "
            "(0, 1), and where (1, 0)?",
            lambda a, b, alpha: sp.Matrix(
                [
                    a * sp.cos(alpha) - b * sp.sin(alpha),
                    a * sp.sin(alpha) - b * sp.cos(alpha),
                ]
            ),
        ),
        Misconception(
            "Members of the pair exchanged",
            "The first entry is the real part. At α = 0 nothing may change.",
            lambda a, b, alpha: rotate(a, b, alpha)[::-1, :],
        ),
        Misconception(
            "Cosines only",
            "A rotation mixes both members: the first one loses b sin α.",
            lambda a, b, alpha: sp.Matrix([a * sp.cos(alpha), b * sp.cos(alpha)]),
        ),
        Misconception(
            "First entry's functions in the second entry",
            "The second entry is the imaginary part of the product. Which functions "
            "stand there?",
            lambda a, b, alpha: sp.Matrix(
                [
                    a * sp.cos(alpha) - b * sp.sin(alpha),
                    a * sp.cos(alpha) + b * sp.sin(alpha),
                ]
            ),
        ),
        Misconception(
            "A single product in each entry",
            "Every new member needs both old ones.",
            lambda a, b, alpha: sp.Matrix([-b * sp.sin(alpha), a * sp.sin(alpha)]),
        ),
        Misconception(
            "Degrees in place of radians",
            "The angle is in radians, and `sp.cos` takes radians.",
            lambda a, b, alpha: rotate(a, b, alpha * sp.pi / 180),
        ),
        Misconception(
            "A reflection in place of a rotation",
            "Your answer keeps lengths but has the determinant −1: at α = 0 it changes "
            "the sign of b.",
            lambda a, b, alpha: sp.Matrix(
                [
                    a * sp.cos(alpha) + b * sp.sin(alpha),
                    a * sp.sin(alpha) - b * sp.cos(alpha),
                ]
            ),
        ),
        Misconception(
            "Angle added to the coordinates",
            "A rotation does not add the angle to the coordinates. Multiply a + ib by "
            "cos α + i sin α.",
            lambda a, b, alpha: sp.Matrix([a + sp.cos(alpha), b + sp.sin(alpha)]),
        ),
        Misconception(
            "Minus sign at a in the second entry",
            "With both minus signs the matrix is symmetric and changes lengths. Where "
            "does a quarter turn take (1, 0)?",
            lambda a, b, alpha: sp.Matrix(
                [
                    a * sp.cos(alpha) - b * sp.sin(alpha),
                    b * sp.cos(alpha) - a * sp.sin(alpha),
                ]
            ),
        ),
    ),
    properties=(
        Property(
            "A rotation by 0 leaves (a, b) where it is",
            lambda answer, a, b, alpha: (
                sp.simplify(answer(a, b, sp.S.Zero) - sp.Matrix([a, b])).is_zero_matrix
            ),
        ),
        Property(
            "A rotation keeps the length √(a² + b²)",
            lambda answer, a, b, alpha: (
                sp.simplify(answer(a, b, alpha).dot(answer(a, b, alpha)) - a**2 - b**2)
                == 0
            ),
        ),
    ),
    explanation=r"""
As a complex number the pair is $a + \mathrm{i}b$, and a rotation by $\alpha$ multiplies it by $\cos\alpha + \mathrm{i}\sin\alpha$.
The product is $(a\cos\alpha - b\sin\alpha) + \mathrm{i}\,(a\sin\alpha + b\cos\alpha)$: its real part is the first entry, its imaginary part the second.
RoPE does this to every pair of a head; {prf:ref}`The three forms agree <thm-rope-forms>` proves that the complex product, the matrix and these two lines are the same rotation.
""",
)


# rope-2: frequencies by hand


def four_frequencies():
    """Return RoPE's four frequencies, the longest wavelength and a number of pairs.

    The head has d = 8 features and base 10000. The number of pairs is that of the pairs
    that have made at least one full turn at position 100.
    """
    frequencies = [sp.Rational(1, 10**p) for p in range(4)]
    # At position 100 the pairs have rotated by 100, 10, 1 and 0.1 radians.
    return frequencies, 2000 * sp.pi, sp.Integer(2)


def _one_turn(answer):
    omega, wavelength, _ = answer()
    return abs(float(wavelength * omega[-1] - 2 * sp.pi)) < 1e-9


def _results_of(omega):
    full_turns = sum(bool(100 * w >= 2 * sp.pi) for w in omega)
    return omega, 2 * sp.pi / omega[-1], full_turns


_OMEGA = [sp.Rational(1, 10**p) for p in range(4)]


def _results_with(wavelength=2000 * sp.pi, completed=2, omega=None):
    return lambda: (_OMEGA if omega is None else omega, wavelength, completed)


FREQUENCIES = Exercise(
    name="rope-2",
    title="Four frequencies",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
A head has $d = 8$ features and base 10000.
Return three things, exactly (`sp.Rational`, `sp.pi`):

1. the list of its four frequencies, pair 0 first;
2. the wavelength of the slowest pair, in tokens;
3. the number of pairs that have made at least one full turn at position 100.
""",
    hint=r"""
$10000^{1/4} = 10$.
A full turn is $2\pi$ radians.
""",
    cases=((),),
    solution=four_frequencies,
    misconceptions=(
        Misconception(
            "Pairs counted from 1",
            "Pair 0 comes first, and base^0 = 1: the fastest pair rotates by one "
            "radian per token.",
            lambda: _results_of([sp.Rational(1, 10**p) for p in range(1, 5)]),
        ),
        Misconception(
            "Missing factor 2 in the exponent",
            "The exponent is −2p/d. With −p/d the slowest of the d/2 pairs would stay "
            "above one over the root of the base.",
            lambda: _results_of(
                [sp.Integer(10000) ** sp.Rational(-p, 8) for p in range(4)]
            ),
        ),
        Misconception(
            "Factor 2 twice in the exponent",
            "If p counts pairs, the exponent is −2p/d. The feature index 2p in place "
            "of p gives −4p/d.",
            lambda: _results_of([sp.Rational(1, 100**p) for p in range(4)]),
        ),
        Misconception(
            "Radians taken for full turns",
            "ω is in radians per token, so a full turn takes 2π/ω tokens, not 1/ω.",
            lambda: ([sp.Rational(1, 10**p) for p in range(4)], sp.Integer(1000), 3),
        ),
        Misconception(
            "Missing minus sign in the exponent",
            "Your frequencies are 1/ω. The fastest pair rotates by one radian per "
            "token, and the other pairs are slower.",
            _results_with(omega=[sp.Integer(10**p) for p in range(4)]),
        ),
        Misconception(
            "Last exponent −1",
            "The sinusoids of tensor2tensor divide p by d/2 − 1. RoPE divides 2p by d, "
            "and its slowest frequency stays above 1/base.",
            _results_with(
                omega=[sp.Integer(10000) ** sp.Rational(-p, 3) for p in range(4)]
            ),
        ),
        Misconception(
            "Slowest pair first",
            "Pair 0 is the fastest, and its frequency is base^0 = 1.",
            _results_with(omega=[sp.Rational(1, 10**p) for p in range(4)][::-1]),
        ),
        Misconception(
            "Wavelength taken for 1/ω",
            "A full turn takes 2π/ω tokens, not 1/ω.",
            _results_with(sp.Integer(1000)),
        ),
        Misconception(
            "Wavelength of the fastest pair",
            "The slowest is asked for.",
            _results_with(2 * sp.pi),
        ),
        Misconception(
            "1/base as the last frequency",
            "The last pair is p = 3, not 4.",
            _results_with(20000 * sp.pi),
        ),
        Misconception(
            "Half a turn in place of a full turn",
            "A full turn is 2π radians.",
            _results_with(1000 * sp.pi),
        ),
        Misconception(
            "Divided by 2π, not multiplied",
            "At ω radians per token, how many tokens make 2π?",
            _results_with(500 / sp.pi),
        ),
        Misconception(
            "Turns per token",
            "The wavelength is in tokens per turn.",
            _results_with(sp.Rational(1, 2000) / sp.pi),
        ),
        Misconception(
            "Pairs counted from one radian on",
            "A full turn is 2π radians. At 100 the angles are 100, 10, 1 and 0.1.",
            _results_with(completed=3),
        ),
        Misconception(
            "All pairs counted",
            "At 100 the angles are 100, 10, 1 and 0.1 radians. How many are at "
            "least 2π?",
            _results_with(completed=4),
        ),
        Misconception(
            "Only the fastest pair counted",
            "At 100 the angles are 100, 10, 1 and 0.1 radians. How many are at "
            "least 2π?",
            _results_with(completed=1),
        ),
        Misconception(
            "Turns counted, not the pairs",
            "In your answer the turns are added up. How many *pairs* have made at "
            "least one?",
            _results_with(completed=15),
        ),
    ),
    properties=(
        Property(
            "The results are exact, with sp.Rational and sp.pi in place of floats",
            lambda answer: not sp.Tuple(*answer()[0], answer()[1]).has(sp.Float),
        ),
        Property(
            "The first result lists base^(−2p/d) for p = 0, 1, 2, 3",
            lambda answer: list(answer()[0]) == four_frequencies()[0],
        ),
        Property(
            "The second result is the position at which the slowest pair has rotated "
            "by 2π",
            _one_turn,
        ),
        Property(
            "The third result counts the pairs that have rotated by 2π or more",
            lambda answer: answer()[2] == four_frequencies()[2],
        ),
    ),
    explanation=r"""
$10000^{-2p/8} = 10^{-p}$, so the frequencies are 1, 1/10, 1/100 and 1/1000 radians per token.
The slowest pair needs $2\pi / \omega_3 = 2000\pi$ tokens for a full turn, about 6283.
At position 100 the pairs have rotated by 100, 10, 1 and 0.1 radians; a full turn has $2\pi \approx 6.28$, so two pairs have made at least one.
The formula is in {prf:ref}`the definition of RoPE <def-rope-forms>`.
""",
)


# rope-3: RoPE in both layouts


def rope_in(x, positions, layout):
    """Apply RoPE with base 10000 to the rows of x; return a float64 array like x.

    Each row of x, [tokens, d], is one token; ``positions`` are [tokens], and ``layout``
    is "interleaved" or "half".
    """
    d = x.shape[-1]
    p = np.arange(d // 2)
    a, b = (2 * p, 2 * p + 1) if layout == "interleaved" else (p, p + d // 2)
    angle = positions[:, None] * 10000.0 ** (-2 * p / d)
    y = np.empty_like(x)
    y[:, a] = x[:, a] * np.cos(angle) - x[:, b] * np.sin(angle)
    y[:, b] = x[:, a] * np.sin(angle) + x[:, b] * np.cos(angle)
    return y


def _rope_at(x, angle, layout):
    """Rotate the pairs of each row of x, a token, by the angles ``[tokens, d/2]``.

    ``angle`` has the angles; ``layout``, "interleaved" or "half", says which features
    are a pair. The returned array has the shape of x.
    """
    a, b = pairs(x.shape[-1], layout=layout)
    y = x.copy()
    y[:, a] = x[:, a] * np.cos(angle) - x[:, b] * np.sin(angle)
    y[:, b] = x[:, a] * np.sin(angle) + x[:, b] * np.cos(angle)
    return y


def _rope_with_exponent(factor):
    """Make a wrong answer (a function) to the exercise ``rope_in``.

    The exercise asks for rows rotated by RoPE. In the wrong answer, the frequencies of
    the pairs p are base^(−``factor`` · p/d), right being the factor 2.
    """

    def answer(x, positions, layout):
        d = x.shape[-1]
        omega = 10000.0 ** (-factor * np.arange(d // 2) / d)
        return _rope_at(x, positions[:, None] * omega, layout)

    return answer


def _rope_counted_from_one(x, positions, layout):
    d = x.shape[-1]
    return _rope_at(
        x, positions[:, None] * 10000.0 ** (-2 / d) * frequencies(d), layout
    )


def _rope_one_frequency_a_feature(x, positions, layout):
    d = x.shape[-1]
    a, b = pairs(d, layout=layout)
    angle = positions[:, None] * 10000.0 ** (-np.arange(d) / d)
    y = x.copy()
    y[:, a] = x[:, a] * np.cos(angle[:, a]) - x[:, b] * np.sin(angle[:, a])
    y[:, b] = x[:, a] * np.sin(angle[:, b]) + x[:, b] * np.cos(angle[:, b])
    return y


def _other(layout):
    return "half" if layout == "interleaved" else "interleaved"


def _keeps_lengths(answer, x, positions, layout):
    before, after = (
        np.linalg.norm(t, axis=1) for t in (x, answer(x, positions, layout))
    )
    return np.allclose(before, after)


def _moves_together(answer, x, positions, layout):
    here, there = (answer(x, positions + move, layout) for move in (0, 5))
    return np.allclose(here @ here.T, there @ there.T)


def _rope_put(x, positions, layout, put):
    """Apply RoPE, but let a function put the rotated members of the pairs in place.

    ``x`` is ``[tokens, d]``, ``positions`` are ``[tokens]``, and ``layout`` is
    "interleaved" or "half". ``put(y, a, b, first, second)`` gets a copy y of x, the
    indices a and b of the pairs' features, and the rotated first and second members of
    the pairs. ``put`` returns the rotated array.
    """
    d = x.shape[-1]
    a, b = pairs(d, layout=layout)
    angle = positions[:, None] * frequencies(d)
    first = x[:, a] * np.cos(angle) - x[:, b] * np.sin(angle)
    second = x[:, a] * np.sin(angle) + x[:, b] * np.cos(angle)
    return put(x.copy(), a, b, first, second)


def _rope_joined(x, positions, layout):
    return _rope_put(
        x, positions, layout, lambda y, a, b, *members: np.concatenate(members, axis=1)
    )


def _rope_woven(x, positions, layout):
    return _rope_put(
        x,
        positions,
        layout,
        lambda y, a, b, *members: np.stack(members, -1).reshape(y.shape),
    )


def _rope_by(first, second):
    """Make a wrong answer (a function) to the exercise ``rope_in``.

    The exercise asks for rows rotated by RoPE. In the wrong answer, ``first(a, b, cos,
    sin)`` and ``second(a, b, cos, sin)`` replace the rotated members a cos − b sin and
    a sin + b cos of a pair (a, b).
    """

    def answer(x, positions, layout):
        d = x.shape[-1]
        a, b = pairs(d, layout=layout)
        angle = positions[:, None] * frequencies(d)
        cos, sin = np.cos(angle), np.sin(angle)
        y = x.copy()
        y[:, a] = first(x[:, a], x[:, b], cos, sin)
        y[:, b] = second(x[:, a], x[:, b], cos, sin)
        return y

    return answer


def _rope_overwritten(x, positions, layout):
    d = x.shape[-1]
    a, b = pairs(d, layout=layout)
    angle = positions[:, None] * frequencies(d)
    y = x.copy()
    y[:, a] = y[:, a] * np.cos(angle) - y[:, b] * np.sin(angle)
    y[:, b] = y[:, a] * np.sin(angle) + y[:, b] * np.cos(angle)
    return y


def _rope_of_wide_angles(widen):
    """Make a wrong answer (a function) to the exercise ``rope_in``.

    The exercise asks for rows rotated by RoPE. In the wrong answer, ``widen(angle,
    layout)`` spreads the angles ``[tokens, d/2]`` over all features, ``[tokens, d]``,
    so that the features of a pair can get different angles.
    """

    def answer(x, positions, layout):
        d = x.shape[-1]
        a, b = pairs(d, layout=layout)
        angle = widen(positions[:, None] * frequencies(d), layout)
        rotated = np.empty_like(x)
        rotated[:, a], rotated[:, b] = -x[:, b], x[:, a]
        return x * np.cos(angle) + rotated * np.sin(angle)

    return answer


def _rope_of_frequencies(omega):
    """Make a wrong answer (a function) to the exercise ``rope_in``.

    The exercise asks for rows rotated by RoPE. In the wrong answer, ``omega(d)``,
    ``[d/2]``, replaces RoPE's frequencies.
    """
    return lambda x, positions, layout: _rope_at(
        x, positions[:, None] * omega(x.shape[-1]), layout
    )


def _rope_from_the_end(x, positions):
    half = x.shape[-1] // 2
    second_half_reversed = np.concatenate((x[:, :half], x[:, : half - 1 : -1]), axis=1)
    y = rope_in(second_half_reversed, positions, "half")
    return np.concatenate((y[:, :half], y[:, : half - 1 : -1]), axis=1)


def _interleaved_with_far_partners(x, positions, layout):
    if layout == "half":
        return rope_in(x, positions, layout)
    d = x.shape[-1]
    angles = np.repeat(np.outer(positions, frequencies(d)), 2, axis=1)
    partners = np.concatenate((-x[:, d // 2 :], x[:, : d // 2]), axis=1)
    return x * np.cos(angles) + partners * np.sin(angles)


ROPE = Exercise(
    name="rope-3",
    title="RoPE in both layouts",
    kind="NumPy",
    minutes=15,
    lines=8,
    statement=r"""
Rotate the rows of `x`, a float64 array `[tokens, d]`, by their `positions`, an integer array `[tokens]`.
`layout` is `"interleaved"` (pairs $(0, 1), (2, 3), \dots$) or `"half"` (pairs $(p, p + d/2)$).
Write the elementwise form yourself, and leave `x` unchanged.
""",
    hint=r"""
First make the array of angles, `[tokens, d/2]`.
Then find, for each layout, the index array `a` of all first members and `b` of all second members.
""",
    cases=tuple(
        (draw(len(positions), d), np.array(positions), layout)
        for d, positions in ((4, [0, 1]), (4, [3, 100]), (8, [0, 2, 7, 5000]))
        for layout in ("interleaved", "half")
    ),
    solution=rope_in,
    misconceptions=(
        Misconception(
            "Rotation by −angle",
            "For positive positions the rotation is counter-clockwise: the first "
            "member loses b · sin, and the second gains a · sin.",
            lambda x, positions, layout: rope_in(x, -positions, layout),
        ),
        Misconception(
            "Layouts exchanged",
            "The interleaved layout pairs neighbors, (0, 1), (2, 3), …; the half "
            "layout pairs feature p with feature p + d/2.",
            lambda x, positions, layout: rope_in(x, positions, _other(layout)),
        ),
        Misconception(
            "Interleaved layout for both",
            "In the half layout the partner of feature p is p + d/2.",
            lambda x, positions, layout: rope_in(x, positions, "interleaved"),
        ),
        Misconception(
            "Half layout for both",
            "In the interleaved layout the partner of feature 2p is 2p + 1.",
            lambda x, positions, layout: rope_in(x, positions, "half"),
        ),
        Misconception(
            "p/d in the exponent",
            "The exponent is −2p/d, so that d/2 pairs span the base.",
            _rope_with_exponent(1),
        ),
        Misconception(
            "4p/d in the exponent",
            "p counts pairs. The feature index 2p times another 2 doubles the "
            "exponent.",
            _rope_with_exponent(4),
        ),
        Misconception(
            "+2p/d in the exponent",
            "Pair 0 is the fastest, and the frequencies fall from pair to pair.",
            _rope_with_exponent(-2),
        ),
        Misconception(
            "Pairs counted from 1",
            "Pair 0 comes first, and base^0 = 1: pair 0 rotates by one radian per "
            "token.",
            _rope_counted_from_one,
        ),
        Misconception(
            "Row index in place of the position",
            "The angle of a row comes from its entry in `positions`, which need not be "
            "its index.",
            lambda x, positions, layout: rope_in(x, np.arange(len(x)), layout),
        ),
        Misconception(
            "Two frequencies in one pair",
            "A rotation has one angle for both members of a pair, position · ω_p.",
            _rope_one_frequency_a_feature,
        ),
        Misconception(
            "Positions counted from 1",
            "The angle of a row comes from its entry in `positions`: a row at position "
            "0 stays as it is.",
            lambda x, positions, layout: rope_in(x, positions + 1, layout),
        ),
        Misconception(
            "Interleaved pairs put back in halves",
            "In the interleaved layout both members go back to their places, 2p and 2p "
            "+ 1.",
            _rope_joined,
        ),
        Misconception(
            "Pairs put back as neighbors in both layouts",
            "In the half layout the two members go back to p and p + d/2.",
            _rope_woven,
        ),
        Misconception(
            "Missing minus sign",
            "Without a minus sign lengths change: the first member *loses* b · sin.",
            _rope_by(
                lambda a, b, cos, sin: a * cos + b * sin,
                lambda a, b, cos, sin: a * sin + b * cos,
            ),
        ),
        Misconception(
            "A minus sign in the second member, too",
            "One minus sign is enough: the second member is a · sin + b · cos.",
            _rope_by(
                lambda a, b, cos, sin: a * cos - b * sin,
                lambda a, b, cos, sin: b * cos - a * sin,
            ),
        ),
        Misconception(
            "Sine and cosine exchanged",
            "At position 0 no row may change.",
            _rope_by(
                lambda a, b, cos, sin: a * sin - b * cos,
                lambda a, b, cos, sin: a * cos + b * sin,
            ),
        ),
        Misconception(
            "Members of each pair exchanged",
            "The first new member is a · cos − b · sin.",
            _rope_by(
                lambda a, b, cos, sin: a * sin + b * cos,
                lambda a, b, cos, sin: a * cos - b * sin,
            ),
        ),
        Misconception(
            "Members scaled, not rotated",
            "A rotation mixes both members: each new member needs both old ones.",
            _rope_by(lambda a, b, cos, sin: a * cos, lambda a, b, cos, sin: b * sin),
        ),
        Misconception(
            "Second member computed from the new first member",
            "Both formulas need the *old* members. Keep a before you overwrite it.",
            _rope_overwritten,
        ),
        Misconception(
            "Angles in the half layout, features interleaved",
            "In the interleaved layout features 2p and 2p + 1 share the angle of pair "
            "p. Repeat each angle, not the list as a whole.",
            _rope_of_wide_angles(lambda angle, layout: np.tile(angle, 2)),
        ),
        Misconception(
            "Angles interleaved, features in the half layout",
            "In the half layout features p and p + d/2 share the angle of pair p. "
            "Repeat the list of angles as a whole.",
            _rope_of_wide_angles(lambda angle, layout: np.repeat(angle, 2, axis=1)),
        ),
        Misconception(
            "Slowest pair first",
            "Pair 0 is the fastest.",
            _rope_of_frequencies(lambda d: frequencies(d)[::-1]),
        ),
        Misconception(
            "Last exponent −1",
            "tensor2tensor's sinusoids have this rule. RoPE divides 2p by d.",
            _rope_of_frequencies(lambda d: 10000.0 ** -np.linspace(0, 1, d // 2)),
        ),
        Misconception(
            "One frequency for all pairs",
            "Each pair has a frequency of its own.",
            _rope_of_frequencies(lambda d: np.ones(d // 2)),
        ),
        Misconception(
            "Radians taken for full turns",
            "The angle is position · ω_p, without 2π.",
            _rope_of_frequencies(lambda d: 2 * np.pi * frequencies(d)),
        ),
        Misconception(
            "Degrees in place of radians",
            "The angle is in radians, and `np.cos` takes radians.",
            _rope_of_frequencies(lambda d: np.pi / 180 * frequencies(d)),
        ),
        Misconception(
            "Position missing in the angle",
            "Your answer rotates all rows by the same angles. The angle is position · "
            "ω_p.",
            lambda x, positions, layout: rope_in(x, np.ones_like(positions), layout),
        ),
        Misconception(
            "Base other than 10000",
            "The frequency of pair p is base^(−2p/d) with base 10000.",
            _rope_of_frequencies(lambda d: 500000.0 ** (-2 * np.arange(d // 2) / d)),
        ),
        Misconception(
            "Signs of the second member exchanged",
            "The second member is a · sin + b · cos. At the angle 0 your answer changes "
            "the sign of b.",
            _rope_by(
                lambda a, b, cos, sin: a * cos - b * sin,
                lambda a, b, cos, sin: a * sin - b * cos,
            ),
        ),
        Misconception(
            "Only the first member rotated",
            "Each new member needs both old ones.",
            _rope_by(
                lambda a, b, cos, sin: a * cos - b * sin, lambda a, b, cos, sin: b * cos
            ),
        ),
        Misconception(
            "Only the second member rotated",
            "Each new member needs both old ones.",
            _rope_by(
                lambda a, b, cos, sin: a * cos, lambda a, b, cos, sin: a * sin + b * cos
            ),
        ),
        Misconception(
            "Half layout with partners counted from the end",
            "The partner of feature p is p + d/2, not d − 1 − p.",
            lambda x, positions, layout: (
                _rope_from_the_end(x, positions)
                if layout == "half"
                else rope_in(x, positions, layout)
            ),
        ),
        Misconception(
            "Interleaved angles with the partners of the half layout",
            "Your features 2p and 2p + 1 share an angle, but feature p has the partner "
            "p + d/2. In the interleaved layout the partner is the neighbor.",
            _interleaved_with_far_partners,
        ),
    ),
    properties=(
        Property("A rotation keeps every token's length", _keeps_lengths),
        Property(
            "Inner products stay the same when all positions move by 5", _moves_together
        ),
    ),
    explanation=r"""
The angles are the same in both layouts, `[tokens, d/2]`; only the features that make up a pair differ.
By {prf:ref}`the theorem on layouts <thm-rope-layout>` one permutation of the features takes one layout to the other.
Both new members are computed from the two old ones: if the first is written into `x` before the second is computed, the second uses the wrong number.
Scores of such rows depend on the offset only, by {prf:ref}`the relative identity <thm-rope-relative>`.
""",
)


# rope-4: the score as a wave


def wave(q, k):
    """Return the coefficients A and B of a RoPE score, as SymPy expressions.

    The score of q at position i and k at position j is A cos ω(i − j) + B sin ω(i − j).
    ``q`` and ``k`` have a single pair: each is a SymPy column of two.
    """
    i, j = sp.symbols("i j", real=True)  # in units of 1/ω
    score = sp.expand(rotate(*q, i).dot(rotate(*k, j)))
    A = score.subs({i: 0, j: 0})
    B = score.subs({i: sp.pi / 2, j: 0})
    claim = A * sp.cos(i - j) + B * sp.sin(i - j)
    assert sp.expand(sp.expand_trig(claim) - score) == 0
    return A, B


WAVE = Exercise(
    name="rope-4",
    title="A score is a wave",
    kind="SymPy",
    minutes=10,
    lines=5,
    statement=r"""
A head has one pair.
Show with SymPy that the score $(R_2(\omega i)\,q) \cdot (R_2(\omega j)\,k)$ is $A \cos(\omega(i - j)) + B \sin(\omega(i - j))$ for all $i$ and $j$.
Return $A$ and $B$ for the columns `q` and `k`.
Your `rotate` of rope-1 helps.
""",
    hint=r"""
`sp.trigsimp` combines the products of sines and cosines.
The score is such a wave, so two offsets are enough to read off $A$ and $B$: put $j = 0$ and choose $\omega i$.
""",
    cases=(
        (sp.Matrix([1, 0]), sp.Matrix([1, 0])),
        (sp.Matrix([1, 0]), sp.Matrix([0, 1])),
        (sp.Matrix([2, 1]), sp.Matrix([-1, 3])),
        (
            sp.Matrix(sp.symbols("q_a q_b", real=True)),
            sp.Matrix(sp.symbols("k_a k_b", real=True)),
        ),
    ),
    solution=wave,
    misconceptions=(
        Misconception(
            "Offset taken as j − i",
            "The offset is query minus key. With the other sign the cosine stays and "
            "the sine changes its sign.",
            lambda q, k: (wave(q, k)[0], -wave(q, k)[1]),
        ),
        Misconception(
            "Complex product without a conjugate",
            "Without a conjugate the angles add, and the product depends on i + j. An "
            "inner product conjugates one of the two factors.",
            lambda q, k: (q[0] * k[0] - q[1] * k[1], -q[0] * k[1] - q[1] * k[0]),
        ),
        Misconception(
            "Missing minus sign in B",
            "Try q = k. At offset 0 the score has its largest value, so it does not "
            "rise there, and B must vanish.",
            lambda q, k: (wave(q, k)[0], q[0] * k[1] + q[1] * k[0]),
        ),
        Misconception(
            "A and B exchanged",
            "At offset 0 the score is q · k, and the sine vanishes there.",
            lambda q, k: wave(q, k)[::-1],
        ),
        Misconception(
            "Both signs reversed",
            "At offset 0 the score is q · k.",
            lambda q, k: tuple(-part for part in wave(q, k)),
        ),
        Misconception(
            "Missing sine",
            "Only with B = 0 is the score at offset r equal to that at −r. Try q = (1, "
            "0) and k = (0, 1).",
            lambda q, k: (wave(q, k)[0], sp.Integer(0)),
        ),
        Misconception(
            "Product of the lengths as A",
            "The product of the lengths is the amplitude of the wave. A is the wave's "
            "value at offset 0.",
            lambda q, k: (sp.sqrt(q.dot(q) * k.dot(k)), wave(q, k)[1]),
        ),
        Misconception(
            "Wrong products in B",
            "q₀ k₀ and q₁ k₁ belong to A. Which products are left when one of the "
            "vectors is a quarter turn on?",
            lambda q, k: (wave(q, k)[0], q[0] * k[0] - q[1] * k[1]),
        ),
        Misconception(
            "A minus sign in A",
            "An inner product is a sum. Look at the score at offset 0.",
            lambda q, k: (q[0] * k[0] - q[1] * k[1], wave(q, k)[1]),
        ),
        Misconception(
            "A and B halved",
            "In the product formulas each half appears twice, and the two add up to 1.",
            lambda q, k: tuple(part / 2 for part in wave(q, k)),
        ),
        Misconception(
            "A and B split between the two products",
            "A is the sum of both products, the score at offset 0.",
            lambda q, k: (q[0] * k[0], q[1] * k[1]),
        ),
        Misconception(
            "A and B doubled",
            "In the product formulas each half appears twice, and the two add up to 1.",
            lambda q, k: tuple(2 * part for part in wave(q, k)),
        ),
    ),
    properties=(
        Property(
            "At offset 0 the wave is the score of the vectors before rotation",
            lambda answer, q, k: sp.simplify(answer(q, k)[0] - wave(q, k)[0]) == 0,
        ),
        Property(
            "At ω(i − j) = π/2 the wave is the score of q, a quarter turn on, and k",
            lambda answer, q, k: sp.simplify(answer(q, k)[1] - wave(q, k)[1]) == 0,
        ),
    ),
    level="optional",
    explanation=r"""
At $i = j$ both vectors are rotated by the same angle, and the score is $A = q \cdot k = q_a k_a + q_b k_b$.
At $\omega i = \pi/2$, $j = 0$ the query is $(-q_b, q_a)$, so $B = q_a k_b - q_b k_a$.
That these two numbers are enough for all $i$ and $j$ is {prf:ref}`the relative identity <thm-rope-relative>`: $(R_i q) \cdot (R_j k) = q \cdot R_{j-i} k$, and the entries of $R_{j-i}$ are $\pm$ sine and cosine of $\omega(i - j)$.
""",
)


# rope-5: partial rotary


def partial(x, positions, rotary_dim):
    """Apply RoPE to the first ``rotary_dim`` features of x; return an array like x.

    ``x`` is [tokens, d], ``positions`` are [tokens]. The rotated features have the half
    layout and partial rotary's frequencies.
    """
    rotated = rope_in(x[:, :rotary_dim], positions, "half")
    return np.concatenate((rotated, x[:, rotary_dim:]), axis=1)


def _partial_full_exponent(x, positions, rotary_dim):
    omega = frequencies(x.shape[-1])[: rotary_dim // 2]
    rotated = _rope_at(x[:, :rotary_dim], positions[:, None] * omega, "half")
    return np.concatenate((rotated, x[:, rotary_dim:]), axis=1)


def _partial_last(x, positions, rotary_dim):
    rotated = rope_in(x[:, -rotary_dim:], positions, "half")
    return np.concatenate((x[:, :-rotary_dim], rotated), axis=1)


def _partial_dropped(x, positions, rotary_dim):
    y = partial(x, positions, rotary_dim)
    y[:, rotary_dim:] = 0
    return y


def _partial_interleaved(x, positions, rotary_dim):
    rotated = rope_in(x[:, :rotary_dim], positions, "interleaved")
    return np.concatenate((rotated, x[:, rotary_dim:]), axis=1)


def _partial_pairs_of_all(x, positions, rotary_dim):
    angle = np.zeros((len(x), x.shape[-1] // 2))
    rotary_angle = positions[:, None] * frequencies(rotary_dim)
    angle[:, : rotary_dim // 2] = rotary_angle
    return _rope_at(x, angle, "half")


def _partial_with(omega):
    """Make a wrong answer (a function) to the exercise ``partial``.

    The exercise asks for rows rotated by partial rotary. In the wrong answer,
    ``omega(d, rotary_dim)`` replaces the frequencies 10000^(−2p/``rotary_dim``) of the
    pairs p.
    """

    def answer(x, positions, rotary_dim):
        angle = positions[:, None] * omega(x.shape[-1], rotary_dim)
        rotated = _rope_at(x[:, :rotary_dim], angle, "half")
        return np.concatenate((rotated, x[:, rotary_dim:]), axis=1)

    return answer


PARTIAL = Exercise(
    name="rope-5",
    title="Partial rotary",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
Rotate only the first `rotary_dim` features of each row, in the half layout, with the frequencies of partial rotary.
The other features stay as they are, and `x` remains unchanged.
You may use your `rope_in` of rope-3.
""",
    hint=r"""
Treat the first `rotary_dim` features as a whole head.
""",
    cases=tuple(
        (draw(len(positions), d), np.array(positions), rotary_dim)
        for d, rotary_dim, positions in (
            (6, 4, [0, 1]),
            (8, 4, [1, 3, 60]),
            (16, 4, [2, 1000]),
        )
    ),
    solution=partial,
    misconceptions=(
        Misconception(
            "d in the exponent",
            "The frequencies are base^(−2p/rotary_dim): the rotary features have a "
            "whole spectrum of their own.",
            _partial_full_exponent,
        ),
        Misconception(
            "Last features rotated",
            "Rotate the first rotary_dim features. The others stay as they are.",
            _partial_last,
        ),
        Misconception(
            "Other features set to zero",
            "The other features stay as they are, and carry content without position.",
            _partial_dropped,
        ),
        Misconception(
            "Pairs of the whole head",
            "In the half layout the partner of feature p is p + rotary_dim/2, inside "
            "the rotary part.",
            _partial_pairs_of_all,
        ),
        Misconception(
            "Interleaved layout",
            "The half layout is asked for.",
            _partial_interleaved,
        ),
        Misconception(
            "All features rotated",
            "Rotate only the first rotary_dim features.",
            lambda x, positions, rotary_dim: rope_in(x, positions, "half"),
        ),
        Misconception(
            "No rotation",
            "Rotate the first rotary_dim features.",
            lambda x, positions, rotary_dim: x.copy(),
        ),
        Misconception(
            "Only half of the rotary features rotated",
            "rotary_dim counts features, and two of them make a pair.",
            lambda x, positions, rotary_dim: partial(x, positions, rotary_dim // 2),
        ),
        Misconception(
            "Rotated features put last",
            "Every feature keeps its place.",
            lambda x, positions, rotary_dim: np.roll(
                partial(x, positions, rotary_dim), -rotary_dim, axis=1
            ),
        ),
        Misconception(
            "Missing factor 2 in the exponent",
            "The exponent is −2p/rotary_dim for rotary_dim/2 pairs.",
            _partial_with(lambda d, n: 10000.0 ** (-np.arange(n // 2) / n)),
        ),
        Misconception(
            "Factor 2 twice in the exponent",
            "p counts pairs, so the exponent is −2p/rotary_dim.",
            _partial_with(lambda d, n: 10000.0 ** (-4 * np.arange(n // 2) / n)),
        ),
        Misconception(
            "d/2 in the exponent",
            "The frequencies are base^(−2p/rotary_dim), whatever d is.",
            _partial_with(lambda d, n: 10000.0 ** (-2 * np.arange(n // 2) / (d / 2))),
        ),
        Misconception(
            "Slow pairs of the whole head",
            "The rotary features have a spectrum of their own, from frequency 1 on.",
            _partial_with(lambda d, n: frequencies(d)[-(n // 2) :]),
        ),
        Misconception(
            "Rotation by −angle",
            "For positive positions the rotation is counter-clockwise.",
            lambda x, positions, rotary_dim: partial(x, -positions, rotary_dim),
        ),
        Misconception(
            "Positions counted from 1",
            "The angle of a row comes from its entry in `positions`.",
            lambda x, positions, rotary_dim: partial(x, positions + 1, rotary_dim),
        ),
        Misconception(
            "Row index in place of the position",
            "The angle of a row comes from its entry in `positions`, which need not be "
            "its index.",
            lambda x, positions, rotary_dim: partial(x, np.arange(len(x)), rotary_dim),
        ),
        Misconception(
            "The other features rotated",
            "Rotate the first rotary_dim features. The features from rotary_dim on "
            "stay as they are.",
            lambda x, positions, rotary_dim: np.concatenate(
                (x[:, :rotary_dim], rope_in(x[:, rotary_dim:], positions, "half")),
                axis=1,
            ),
        ),
        Misconception(
            "Whole head rotated, and the rest put back",
            "Take the pairs and frequencies of a head of rotary_dim features, not "
            "those of the whole head.",
            lambda x, positions, rotary_dim: np.where(
                np.arange(x.shape[1]) < rotary_dim, rope_in(x, positions, "half"), x
            ),
        ),
    ),
    properties=(
        Property(
            "The features from rotary_dim on stay as they are",
            lambda answer, x, positions, rotary_dim: np.array_equal(
                answer(x, positions, rotary_dim)[:, rotary_dim:], x[:, rotary_dim:]
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The first `rotary_dim` features are a smaller head: its $d$ is `rotary_dim`, in the exponent and in the layout.
The other features are not rotated, so their part of a score does not depend on positions at all.
Both parts are relative by {prf:ref}`the relative identity <thm-rope-relative>`, the second with all its frequencies 0.
""",
)


# rope-6: convert a layout


def to_half(weight, heads):
    """Reorder the rows of W_k from the interleaved to the half layout, head by head.

    ``weight`` and the returned tensor are [heads · d, d_model].
    """
    by_pair = weight.unflatten(0, (heads, -1, 2))  # head, pair, member
    return by_pair.transpose(1, 2).flatten(0, 2)


CONVERT = Exercise(
    name="rope-6",
    title="Move a checkpoint to the other layout",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
`weight` is $W_k$ of a layer with grouped queries, `[heads · d, d_model]`, where `heads` counts the key heads.
It was trained with the interleaved layout.
Return it for a layer that uses the half layout.
""",
    hint=r"""
Reshape the rows to `[heads, d/2, 2]`.
Which index is that of the pair, and which that of the member?
In the half layout all first members come first.
""",
    cases=tuple(
        (
            torch.arange(float(size)).outer(torch.ones(size)) * 100
            + torch.arange(size),
            heads,
        )
        for heads, size in ((1, 4), (2, 12), (1, 6), (4, 32))
    ),
    solution=to_half,
    misconceptions=(
        Misconception(
            "Permutation over all heads at once",
            "Each head has pairs of its own. Split the rows by head first.",
            lambda weight, heads: to_half(weight, 1),
        ),
        Misconception(
            "Half to interleaved, not interleaved to half",
            "Row p of a head must become old row 2p, and row p + d/2 old row 2p + 1.",
            lambda weight, heads: convert_layout(
                weight, heads, source="half", target="interleaved"
            ),
        ),
        Misconception(
            "Columns permuted",
            "The features of a head are the rows of the weight, which is [heads · d, "
            "d_model]. The columns are the features of the input.",
            lambda weight, heads: to_half(weight.T, heads).T.contiguous(),
        ),
        Misconception(
            "Columns permuted, and all at once",
            "The features of a head are the rows of the weight, which is [heads · d, "
            "d_model], and each head has pairs of its own.",
            lambda weight, heads: to_half(weight.T, 1).T.contiguous(),
        ),
        Misconception(
            "Heads interleaved, not the features",
            "The axis of heads comes first, then the pairs, then the two members. "
            "Exchange the last two axes.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1)).transpose(0, 1).flatten(0, 1)
            ),
        ),
        Misconception(
            "Rows left in their order",
            "In the old order the layer would pair features that were never trained as "
            "a pair.",
            lambda weight, heads: weight.clone(),
        ),
        Misconception(
            "Odd features first",
            "In the half layout all *first* members come first: the features 0, 2, "
            "4, …",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1, 2))
                .flip(2)
                .transpose(1, 2)
                .flatten(0, 2)
            ),
        ),
        Misconception(
            "Odd features first, in all heads at once",
            "Each head has pairs of its own, and in the half layout all *first* "
            "members come first.",
            lambda weight, heads: torch.cat((weight[1::2], weight[0::2])),
        ),
        Misconception(
            "Members of each pair exchanged",
            "First members move to the first half of the head, second members to the "
            "second half.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1, 2)).flip(2).flatten(0, 2)
            ),
        ),
        Misconception(
            "Halves of each head exchanged",
            "Halves exchanged do not bring the *first members* of all pairs to the "
            "front.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, -1)).flip(1).flatten(0, 2)
            ),
        ),
        Misconception(
            "Rows and columns permuted",
            "Only the rows move. The columns are the features of the layer's input, "
            "which keep their order.",
            lambda weight, heads: to_half(
                to_half(weight, heads).T, heads
            ).T.contiguous(),
        ),
        Misconception(
            "Rows of each head in reverse order",
            "Sort the rows by member: first the features 0, 2, 4, …",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1)).flip(1).flatten(0, 1)
            ),
        ),
        Misconception(
            "`heads` taken for the number of pairs",
            "d is the number of rows divided by heads.",
            lambda weight, heads: (
                weight.unflatten(0, (-1, heads, 2)).transpose(1, 2).flatten(0, 2)
                if weight.shape[0] % (2 * heads) == 0
                else weight
            ),
        ),
    ),
    properties=(
        Property(
            "The rows are the old rows in another order",
            lambda answer, weight, heads: torch.equal(
                answer(weight, heads).sort(0).values, weight.sort(0).values
            ),
        ),
    ),
    explanation=r"""
In the interleaved layout row $2p + m$ of a head is member $m$ of pair $p$; in the half layout this is row $p + m\,d/2$.
So the rows of each head, seen as `[d/2, 2]`, are transposed to `[2, d/2]`.
With $W_q$ reordered in the same way, no score changes, by {prf:ref}`the theorem on layouts <thm-rope-layout>`: an inner product does not depend on the order of its terms.
""",
)


# rope-7: exact cosines


def cosines(positions, d):
    """Return the cosines of RoPE's angles: a float32 tensor [tokens, d/2].

    ``positions``, [tokens], are integers; ``d`` is the head dimension, the base 10000.
    """
    exponents = -torch.arange(0, d, 2, dtype=torch.float64) / d
    angles = positions.double()[:, None] * 10000**exponents
    return angles.cos().float()


def _cosines_in(position_dtype, frequency_dtype):
    """Make a wrong answer (a function) to the exercise ``cosines``.

    The exercise asks for the cosines of RoPE's angles, to the precision of float32. The
    wrong answer computes angles in float32, after positions are rounded to
    ``position_dtype`` and frequencies to ``frequency_dtype``.
    """

    def answer(positions, d):
        omega = 1 / 10000 ** (torch.arange(0, d, 2).float() / d)
        positions = positions.to(position_dtype).float()
        return (positions[:, None] * omega.to(frequency_dtype).float()).cos()

    return answer


def _cosines_of_float32_frequencies(positions, d):
    omega = 1 / 10000 ** (torch.arange(0, d, 2).float() / d)
    return (positions.double()[:, None] * omega.double()).cos().float()


def _right_at_one(answer, positions, d):
    one = torch.tensor([1])
    return torch.allclose(answer(one, d), cosines(one, d), rtol=0, atol=1e-6)


def _cosines_with(exponent, function=torch.cos):
    """Make a wrong answer (a function) to the exercise ``cosines``.

    The exercise asks for the cosines of RoPE's angles. In the wrong answer,
    ``exponent(p, d)`` replaces −2p/d in the frequencies base^(−2p/d), or ``function``
    replaces the cosine of the float64 angles.
    """

    def answer(positions, d):
        p = torch.arange(d // 2, dtype=torch.float64)
        return function(positions.double()[:, None] * 10000 ** exponent(p, d)).float()

    return answer


COSINES = Exercise(
    name="rope-7",
    title="Exact at a million",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
Make the table of cosines for a tensor of integer `positions` and head dimension `d`: a float32 tensor `[tokens, d/2]`.
At position 1 000 000 its error must not exceed float32's own rounding.
""",
    hint=r"""
After which step does rounding to float32 do no harm?
Mind the dtype of every tensor before it.
""",
    cases=tuple(
        (torch.tensor(positions), d)
        for positions, d in (
            ([0, 1, 2], 4),
            ([255, 256, 257, 4000], 8),
            ([999_999, 1_000_000], 6),
            ([999_999, 1_000_000], 128),
        )
    ),
    solution=cosines,
    tolerance=1e-7,
    misconceptions=(
        Misconception(
            "Angles in float32",
            "At position 10⁶ a float32 angle is off by hundredths of a radian. Only "
            "the finished cosine may be rounded.",
            _cosines_in(torch.float32, torch.float32),
        ),
        Misconception(
            "Frequencies rounded, product in float64",
            "An error of 10⁻⁸ in ω becomes 10⁻² at position 10⁶. Compute the "
            "frequencies in float64 as well.",
            _cosines_of_float32_frequencies,
        ),
        Misconception(
            "Exact angles rounded before their cosine",
            "An angle near 10⁶ loses hundredths of a radian in float32. The cosine is "
            "at most 1: round the cosine.",
            _cosines_with(lambda p, d: -2 * p / d, lambda angles: angles.float().cos()),
        ),
        Misconception(
            "Positions in bfloat16",
            "bfloat16 holds all integers only up to 256: 257 becomes 256.",
            _cosines_in(torch.bfloat16, torch.float32),
        ),
        Misconception(
            "Frequencies in bfloat16",
            "model.to(bfloat16) rounds a buffer of frequencies in this way. Compute "
            "them in float64.",
            _cosines_in(torch.float32, torch.bfloat16),
        ),
        Misconception(
            "Sines in place of cosines",
            "The table of cosines is asked for. It is 1 at position 0.",
            _cosines_with(lambda p, d: -2 * p / d, torch.sin),
        ),
        Misconception(
            "Angles in place of cosines",
            "Your angles are right. Now take their cosines.",
            _cosines_with(lambda p, d: -2 * p / d, torch.clone),
        ),
        Misconception(
            "Missing factor 2 in the exponent",
            "The exponent is −2p/d for the pairs p = 0 … d/2 − 1.",
            _cosines_with(lambda p, d: -p / d),
        ),
        Misconception(
            "Factor 2 twice in the exponent",
            "`arange(0, d, 2)` is 2p already.",
            _cosines_with(lambda p, d: -4 * p / d),
        ),
        Misconception(
            "Missing minus sign in the exponent",
            "Pair 0 is the fastest, and the frequencies fall from pair to pair.",
            _cosines_with(lambda p, d: 2 * p / d),
        ),
        Misconception(
            "Pairs counted from 1",
            "Pair 0 comes first, and rotates by one radian per token.",
            _cosines_with(lambda p, d: -2 * (p + 1) / d),
        ),
        Misconception(
            "Last exponent −1",
            "tensor2tensor's sinusoids have this rule. RoPE divides 2p by d.",
            _cosines_with(lambda p, d: -p / (d / 2 - 1)),
        ),
        Misconception(
            "Row index in place of the position",
            "The tokens stand at the entries of `positions`.",
            lambda positions, d: cosines(torch.arange(len(positions)), d),
        ),
        Misconception(
            "Positions counted from 1",
            "At position 0 all cosines are 1.",
            lambda positions, d: cosines(positions + 1, d),
        ),
        Misconception(
            "Cosines rounded to bfloat16",
            "The angles are right, but the cosines lose digits on their way to "
            "float32.",
            lambda positions, d: cosines(positions, d).bfloat16().float(),
        ),
        Misconception(
            "Cosines rounded to half precision",
            "The angles are right, but the cosines lose digits on their way to "
            "float32.",
            lambda positions, d: cosines(positions, d).half().float(),
        ),
        Misconception(
            "Angles in bfloat16",
            "A bfloat16 angle has 8 significant bits. Round only the finished cosine, "
            "and to float32.",
            lambda positions, d: _cosines_with(
                lambda p, d: -2 * p / d, lambda angle: angle.bfloat16().double().cos()
            )(positions, d),
        ),
        Misconception(
            "Exponents rounded to float32",
            "2p/d is a float32 number where d is a power of two, and not where d is 6. "
            "The position multiplies its error: divide in float64.",
            _cosines_with(lambda p, d: -(2 * p.float() / d).double()),
        ),
    ),
    properties=(
        Property(
            "At position 1 the table holds the cosines of base^(−2p/d), p = 0, 1, …",
            _right_at_one,
        ),
        Property(
            "Only the finished cosine is rounded to float32, so errors do not grow "
            "with the position",
            lambda answer, positions, d: torch.allclose(
                answer(positions, d), cosines(positions, d), rtol=0, atol=1e-7
            ),
        ),
    ),
    level="optional",
    explanation=r"""
Only the finished cosine may be rounded: it is at most 1 in modulus, so its rounding error is at most $2^{-25}$.
An angle near $10^6$ is a large number, and float32 rounds it by up to $2^{-5}$.
{prf:ref}`The bound on rounded angles <thm-rope-precision>` grows with the position: at $10^6$, for the pair with frequency 1, it is 0.12 with float32 and below $10^{-9}$ with float64.
The bound with float32 is larger than $2^{-5}$, since it allows for two roundings, of the frequency and of the product, each with the largest relative error.
""",
)


# rope-8: decode with a cache

rope = RoPE(4, layout="half")


def decode(q, k, cached):
    """Return the scores of new queries with cached and new keys: [new, past + new].

    ``cached`` keys, [past, d], are already rotated by RoPE; ``q`` and ``k``, [new, d],
    are not.
    """
    past, new = len(cached), len(q)
    positions = torch.arange(past, past + new)
    keys = torch.cat((cached, rope(k, positions)))
    return rope(q, positions) @ keys.T


def _decode_from(q, k, cached, start):
    positions = torch.arange(start, start + len(q))
    keys = torch.cat((cached, rope(k, positions)))
    return rope(q, positions) @ keys.T


def _decode_rotated_twice(q, k, cached):
    positions = torch.arange(len(cached) + len(k))
    keys = rope(torch.cat((cached, k)), positions)
    return rope(q, positions[len(cached) :]) @ keys.T


def _decode_key_not_rotated(q, k, cached):
    positions = torch.arange(len(cached), len(cached) + len(q))
    return rope(q, positions) @ torch.cat((cached, k)).T


def _decode_query_not_rotated(q, k, cached):
    positions = torch.arange(len(cached), len(cached) + len(q))
    return q @ torch.cat((cached, rope(k, positions))).T


def _decode_one_position(q, k, cached):
    positions = torch.full((len(q),), len(cached))
    return rope(q, positions) @ torch.cat((cached, rope(k, positions))).T


def _decode_queries_at_the_end(q, k, cached):
    positions = torch.arange(len(cached), len(cached) + len(q))
    keys = torch.cat((cached, rope(k, positions)))
    return rope(q, positions[-1:].expand(len(q))) @ keys.T


def _cached(past):
    return rope(torch.tensor(draw(past, 4)), torch.arange(past))


def _decode_at(query, key, join=torch.cat):
    """Make a wrong answer (a function) to the exercise ``decode``.

    The exercise asks for scores of new queries with cached and new keys. In the wrong
    answer, with n cached keys the new queries start at the position ``query(n)`` and
    the new keys at ``key(n)``, in place of n, or ``join`` puts the cached and the new
    keys together in another order.
    """

    def answer(q, k, cached):
        past, new = len(cached), torch.arange(len(q))
        keys = join((cached, rope(k, new + key(past))))
        return rope(q, new + query(past)) @ keys.T

    return answer


def _hide(scores, past, value):
    later = torch.ones_like(scores, dtype=torch.bool).triu(past + 1)
    return scores.masked_fill(later, value)


DECODE = Exercise(
    name="rope-8",
    title="Decode with a cache",
    kind="PyTorch",
    minutes=10,
    lines=4,
    statement=r"""
A decoder has the keys of all tokens so far in `cached`, `[past, 4]`.
Each was rotated by its own position when it entered the cache.
Now new tokens arrive, with queries `q` and keys `k`, both `[new, 4]` and not yet rotated.
Return the scores of the new queries against all keys, old and new: `[new, past + new]`, without scaling or mask.
`rope(x, positions)`, which is given, rotates the rows of a tensor.
""",
    hint=r"""
The positions already used are $0, 1, \dots, \text{past} - 1$.
""",
    cases=tuple(
        (*torch.tensor(draw(2, new, 4)), _cached(past))
        for new, past in ((1, 0), (1, 3), (2, 5), (3, 400))
    ),
    solution=decode,
    misconceptions=(
        Misconception(
            "New tokens at position 0 again",
            "The new tokens come after the cached ones. Their first position is the "
            "number of cached tokens.",
            lambda q, k, cached: _decode_from(q, k, cached, 0),
        ),
        Misconception(
            "Positions one too small",
            "Positions count from 0. After n cached tokens the next has position n, "
            "and the last cached token has n − 1.",
            lambda q, k, cached: _decode_from(q, k, cached, len(cached) - 1),
        ),
        Misconception(
            "Positions one too large",
            "Positions count from 0. After n cached tokens the next has position n.",
            lambda q, k, cached: _decode_from(q, k, cached, len(cached) + 1),
        ),
        Misconception(
            "Cached keys rotated a second time",
            "Each cached key was rotated by its own position when it entered the "
            "cache.",
            _decode_rotated_twice,
        ),
        Misconception(
            "New keys not rotated",
            "The cached keys are rotated, so rotate the new ones before you append "
            "them.",
            _decode_key_not_rotated,
        ),
        Misconception(
            "Queries not rotated",
            "A score depends on the offset only if both its query and its key are "
            "rotated.",
            _decode_query_not_rotated,
        ),
        Misconception(
            "One position for all new tokens",
            "Several tokens can arrive at once, and each is one position after the one "
            "before.",
            _decode_one_position,
        ),
        Misconception(
            "Scores divided by √d",
            "The scores without scaling are asked for.",
            lambda q, k, cached: decode(q, k, cached) / 2,
        ),
        Misconception(
            "Later keys masked",
            "The scores without a mask are asked for.",
            lambda q, k, cached: _hide(decode(q, k, cached), len(cached), -torch.inf),
        ),
        Misconception(
            "Later keys set to zero",
            "The scores without a mask are asked for.",
            lambda q, k, cached: _hide(decode(q, k, cached), len(cached), 0.0),
        ),
        Misconception(
            "New keys first",
            "The order is that of the tokens: the cached keys come first.",
            _decode_at(int, int, join=lambda parts: torch.cat(parts[::-1])),
        ),
        Misconception(
            "Queries at position 0 again",
            "The new queries come after the cached tokens, as the new keys do.",
            _decode_at(lambda past: 0, int),
        ),
        Misconception(
            "New keys at position 0 again",
            "The new keys come after the cached ones, as the new queries do.",
            _decode_at(int, lambda past: 0),
        ),
        Misconception(
            "Queries one position before their keys",
            "Query and key of a token have the same position.",
            _decode_at(lambda past: past - 1, int),
        ),
        Misconception(
            "Queries one position after their keys",
            "Query and key of a token have the same position.",
            _decode_at(lambda past: past + 1, int),
        ),
        Misconception(
            "Cached keys rotated, new keys not",
            "The other way round: the cached keys were rotated when they entered the "
            "cache, the new ones were not.",
            lambda q, k, cached: (
                rope(q, torch.arange(len(q)) + len(cached))
                @ torch.cat((rope(cached, torch.arange(len(cached))), k)).T
            ),
        ),
        Misconception(
            "No rotation",
            "The cached keys are rotated already. Rotate the new queries and keys as "
            "well.",
            lambda q, k, cached: q @ torch.cat((cached, k)).T,
        ),
        Misconception(
            "Weights in place of scores",
            "The scores are asked for, without softmax.",
            lambda q, k, cached: decode(q, k, cached).softmax(-1),
        ),
        Misconception(
            "New tokens numbered backwards",
            "The first new token follows the last cached one, and the other new tokens "
            "follow it.",
            lambda q, k, cached: (
                rope(q, torch.arange(len(q)).flip(0) + len(cached))
                @ torch.cat(
                    (cached, rope(k, torch.arange(len(q)).flip(0) + len(cached)))
                ).T
            ),
        ),
        Misconception(
            "Interleaved layout",
            "`rope` has the half layout, in which the cached keys were rotated.",
            lambda q, k, cached: (
                lambda rotate: rotate(q) @ torch.cat((cached, rotate(k))).T
            )(
                lambda x: RoPE(4, layout="interleaved")(
                    x, torch.arange(len(x)) + len(cached)
                )
            ),
        ),
        Misconception(
            "Sign of the positions reversed",
            "The angle of a query or key is its position times the frequency, as for "
            "the cached keys.",
            _decode_at(lambda past: -2 * past, int),
        ),
        Misconception(
            "All new queries at the last position",
            "Each new token has a position of its own, as its key has.",
            _decode_queries_at_the_end,
        ),
    ),
    explanation=r"""
A cached key was rotated by its own position, and that position does not change: it stays as it is.
The new tokens have the positions $\text{past}, \dots, \text{past} + \text{new} - 1$, for queries and keys alike.
By {prf:ref}`the relative identity <thm-rope-relative>` each score then depends on query position minus key position only, exactly as if all tokens had been given at once.
""",
)


# rope-9: a peak where you like


def key_for_peak(q, offset):
    """Return the key, [d], whose score with q under RoPE is the largest at one offset.

    The key is as long a vector as q, [d]; ``offset`` is query position minus key
    position.
    """
    return rope_in(q[None], np.array([offset]), "half")[0]


def _peaks_there(answer, q, offset):
    offsets = np.arange(2 * offset + 2)
    rotated = rope_in(np.tile(q, (len(offsets), 1)), offsets, "half")
    return (rotated @ answer(q, offset)).argmax() == offset


def _only_fast(q, rotated):
    first = np.arange(len(q)) % (len(q) // 2) == 0
    return np.where(first, rotated, q)


PEAK = Exercise(
    name="rope-9",
    title="A peak at offset 37",
    kind="experiment",
    minutes=15,
    lines=1,
    statement=r"""
"RoPE prefers near tokens", people say.
`q`, `[d]`, is a float64 query vector with even $d$, not all zero.
Of all key vectors as long as `q`, find the one that has the largest score where query position minus key position is `offset`, for instance 37.
Use the half layout; `rope_in` of rope-3 helps.
Then draw or print the scores at the offsets 0 to 100 and look at your peak.
""",
    hint=r"""
The score at offset $r$ is $(R_r q) \cdot k$.
Which vector of a given length has the largest inner product with $R_r q$?
""",
    cases=tuple((draw(d), offset) for d, offset in ((4, 1), (8, 37), (64, 500))),
    solution=key_for_peak,
    misconceptions=(
        Misconception(
            "Peak at the negative offset",
            "Your key has its peak where the key comes after the query. The query is "
            "rotated by `offset` more than the key. Which rotation must the key have "
            "already?",
            lambda q, offset: key_for_peak(q, -offset),
        ),
        Misconception(
            "Peak at offset 0",
            "A copy of the query matches best where neither is rotated.",
            lambda q, offset: q.copy(),
        ),
        Misconception(
            "Peak at twice the offset",
            "Rotate the key alone, once, by the offset.",
            lambda q, offset: key_for_peak(q, 2 * offset),
        ),
        Misconception(
            "Key for the interleaved layout",
            "The half layout is asked for.",
            lambda q, offset: rope_in(q[None], np.array([offset]), "interleaved")[0],
        ),
        Misconception(
            "Peak one token too far",
            "Offsets count from 0: the offset of a token to itself is 0.",
            lambda q, offset: key_for_peak(q, offset + 1),
        ),
        Misconception(
            "Peak one token too near",
            "Offsets count from 0: the offset of a token to itself is 0.",
            lambda q, offset: key_for_peak(q, offset - 1),
        ),
        Misconception(
            "Key of length 1",
            "The key must be as long as q.",
            lambda q, offset: key_for_peak(q, offset) / np.linalg.norm(q),
        ),
        Misconception(
            "Lowest score in place of the highest",
            "The inner product is largest with the vector of the same direction.",
            lambda q, offset: -key_for_peak(q, offset),
        ),
        Misconception(
            "Interleaved layout and the opposite rotation",
            "The half layout is asked for, and the key must point where the rotated "
            "query points.",
            lambda q, offset: rope_in(q[None], np.array([-offset]), "interleaved")[0],
        ),
        Misconception(
            "Only one pair rotated",
            "Each pair of the key must point where the query's rotated pair points. "
            "Then all pairs have their largest product at once.",
            lambda q, offset: _only_fast(q, key_for_peak(q, offset)),
        ),
        Misconception(
            "Peak at half of the offset",
            "Rotate the key by the whole offset.",
            lambda q, offset: key_for_peak(q, offset / 2),
        ),
        Misconception(
            "Query, scaled to length 1",
            "This key has its peak at offset 0, and it must be as long as q.",
            lambda q, offset: q / np.linalg.norm(q),
        ),
    ),
    properties=(
        Property(
            "The key is as long as the query",
            lambda answer, q, offset: np.isclose(
                np.linalg.norm(answer(q, offset)), np.linalg.norm(q)
            ),
        ),
        Property("Of all offsets, the score is largest at the given one", _peaks_there),
    ),
    explanation=r"""
The score at offset $r$ is $(R_r q) \cdot k$, and among all keys of one length it is largest for the one in the direction of $R_r q$, by Cauchy and Schwarz.
Since $R_r$ keeps lengths, the key is $R_r q$ itself, and the score is $\lVert q \rVert^2$, which no other offset exceeds: this is part (ii) of {prf:ref}`No decay in general <thm-rope-no-decay>`.
So RoPE does not prefer near tokens by itself: for every offset, 37 or 5000, some content has its peak there.
""",
)


# rope-10: random scores do not decay


def spread(q, k, offset):
    """Return the standard deviation of RoPE scores of random queries and keys.

    Query n stands ``offset`` tokens after key n, and the two have one score; ``q`` and
    ``k`` are [samples, d]. The deviation is a number.
    """
    rotated = rope_in(q, np.full(len(q), offset), "half")
    scores = (rotated * k).sum(axis=1)
    return scores.std()


def _far_spread():
    q, k = draw(2, 5000, 64)
    return spread(q, k, 1000) / spread(q, k, 0)


def _rotated(q, offset):
    return rope_in(q, np.full(len(q), offset), "half")


def _spread_over_positions(q, k, offset):
    rotated = rope_in(q, np.arange(len(q)), "half")
    return (rotated * k).sum(axis=1).std()


def _deviation(size):
    """Make a wrong answer (a function) to the exercise ``spread``.

    The exercise asks for the standard deviation of random scores. In the wrong answer,
    ``size(scores)`` replaces the standard deviation.
    """
    return lambda q, k, offset: size((_rotated(q, offset) * k).sum(axis=1))


SPREAD = Exercise(
    name="rope-10",
    title="Do random scores decay?",
    kind="experiment",
    minutes=15,
    lines=3,
    statement=r"""
`q` and `k`, both float64, `[samples, d]`, $d$ even, hold random queries and keys.
Sample $n$ is the pair `q[n]`, `k[n]`.
The query stands `offset` tokens after the key.
Return the standard deviation (NumPy's `std`) of the score over the samples (half layout, no scaling).
Then try it on 5000 samples with $d = 64$ at offsets 0, 10, 100, 1000: does it fall?
""",
    hint=r"""
Only the offset matters, so leave the keys at position 0.
All queries have the same position.
""",
    cases=tuple(
        (*draw(2, samples, d), offset)
        for samples, d, offset in ((3, 4, 1), (500, 64, 100), (500, 64, 1000))
    ),
    solution=spread,
    misconceptions=(
        Misconception(
            "No effect of the offset",
            "Your answer gives the scores at offset 0: nothing is rotated, or query "
            "and key by the same angle. The query stands `offset` tokens after the "
            "key.",
            lambda q, k, offset: spread(q, k, 0),
        ),
        Misconception(
            "Row index as the position",
            "The rows are samples, not positions: all queries have the same offset.",
            _spread_over_positions,
        ),
        Misconception(
            "Mean score",
            "The mean is near 0 at every offset. The exercise asks how far scores "
            "scatter about it.",
            lambda q, k, offset: (_rotated(q, offset) * k).sum(axis=1).mean(),
        ),
        Misconception(
            "Spread of the products of single features",
            "A score is the sum over features. Sum before you take the deviation.",
            lambda q, k, offset: (_rotated(q, offset) * k).std(),
        ),
        Misconception(
            "All queries with all keys",
            "Sample n is the pair q[n], k[n].",
            lambda q, k, offset: (_rotated(q, offset) @ k.T).std(),
        ),
        Misconception(
            "Key after the query",
            "The query stands after the key, at the larger position.",
            lambda q, k, offset: spread(q, k, -offset),
        ),
        Misconception(
            "Variance",
            "The standard deviation is its square root.",
            lambda q, k, offset: spread(q, k, offset) ** 2,
        ),
        Misconception(
            "Scores divided by √d",
            "The scores without scaling are asked for.",
            lambda q, k, offset: spread(q, k, offset) / np.sqrt(q.shape[1]),
        ),
        Misconception(
            "Sum of squares divided by samples − 1",
            "Divide by the number of samples, as np.std does by default.",
            lambda q, k, offset: spread(q, k, offset) * np.sqrt(len(q) / (len(q) - 1)),
        ),
        Misconception(
            "Interleaved layout",
            "The half layout is asked for.",
            lambda q, k, offset: (
                (rope_in(q, np.full(len(q), offset), "interleaved") * k)
                .sum(axis=1)
                .std()
            ),
        ),
        Misconception(
            "Mean not subtracted",
            "Your answer is the root mean square. The standard deviation is about the "
            "mean.",
            _deviation(lambda s: np.sqrt((s**2).mean())),
        ),
        Misconception(
            "Mean absolute score",
            "The standard deviation is the root of the mean squared distance from "
            "the mean.",
            _deviation(lambda s: np.abs(s).mean()),
        ),
        Misconception(
            "Mean absolute deviation",
            "The standard deviation is the root of the mean *squared* distance from "
            "the mean.",
            _deviation(lambda s: np.abs(s - s.mean()).mean()),
        ),
        Misconception(
            "Largest minus the smallest",
            "NumPy's `std` is asked for.",
            _deviation(np.ptp),
        ),
        Misconception(
            "Offset one too large",
            "A query at the key's own place has the offset 0.",
            lambda q, k, offset: spread(q, k, offset + 1),
        ),
        Misconception(
            "Cosines in place of scores",
            "A score is an inner product, and the lengths of the vectors belong to it.",
            lambda q, k, offset: (
                (_rotated(q, offset) * k).sum(axis=1)
                / np.linalg.norm(q, axis=1)
                / np.linalg.norm(k, axis=1)
            ).std(),
        ),
        Misconception(
            "Sum over the samples",
            "A score is the sum over the features of one sample.",
            lambda q, k, offset: (_rotated(q, offset) * k).sum(axis=0).std(),
        ),
        Misconception(
            "Scores divided by d",
            "The scores without scaling are asked for.",
            lambda q, k, offset: spread(q, k, offset) / q.shape[1],
        ),
        Misconception(
            "Keys rotated by their row index",
            "The rows are samples, not positions: leave the keys at position 0.",
            lambda q, k, offset: (
                (_rotated(q, offset) * rope_in(k, np.arange(len(k)), "half"))
                .sum(axis=1)
                .std()
            ),
        ),
        Misconception(
            "Row index added to the offset",
            "The rows are samples, not positions: all samples have the same offset.",
            lambda q, k, offset: (
                (rope_in(q, offset + np.arange(len(q)), "half") * k).sum(axis=1).std()
            ),
        ),
        Misconception(
            "Ratio, not deviation",
            "The function returns the deviation at one offset. The prediction asks "
            "for the ratio of two.",
            lambda q, k, offset: spread(q, k, offset) / spread(q, k, 0),
        ),
        Misconception(
            "All queries with all keys, at their row index",
            "Sample n is the pair q[n], k[n], and all queries stand `offset` after "
            "their keys.",
            lambda q, k, offset: (rope_in(q, np.arange(len(q)), "half") @ k.T).std(),
        ),
    ),
    explanation=r"""
It does not fall: the standard deviation is close to $\sqrt{64} = 8$ at all four offsets, up to the randomness of 5000 samples.
Part (i) of {prf:ref}`No decay in general <thm-rope-no-decay>` says why: for independent entries with mean 0 and variance 1 the mean square of the score is the sum of the squared entries of a rotation, which is $d$ at every offset.
""",
    prediction=Prediction(
        question=r"""
Queries and keys are 5000 samples of standard normal numbers with $d = 64$.
By what factor is the standard deviation of the score at offset 1000 larger or smaller than at offset 0?
""",
        value=_far_spread,
        near=0.05,
    ),
)


# rope-11: a layout converted for one head


def colleagues_conversion(weight, heads):
    """Reorder W_k from interleaved to half.

    ``heads`` is the number of its key heads.
    """
    d = len(weight) // heads
    even = torch.arange(0, heads * d, 2)
    odd = torch.arange(1, heads * d, 2)
    return weight[torch.cat([even, odd])]


def weight_converted_wrongly():
    """Return the smallest weight for which `colleagues_conversion` is wrong, and heads.

    The answer is the pair of arguments: a tensor like ``torch.tensor([[0.0], [1.0]])``
    and a number of heads.
    """
    return torch.tensor([[0.0], [1.0], [2.0], [3.0]]), 2


def _refused_weight(weight, heads):
    if not isinstance(weight, torch.Tensor) or weight.ndim != 2:
        return "weight is a tensor [heads · d, d_model]"
    if type(heads) is not int or heads < 1:
        return "heads is a positive integer"
    if not weight.numel() or len(weight) % (2 * heads):
        return "weight has heads · d rows with an even d, and one column or more"
    return ""


HEADS = Exercise(
    name="rope-11",
    title="Find the input: a layout",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_conversion` should do what exercise rope-6 asks for.
Her tests are two layers with one key head, of 4 and of 8 features, and both pass.
Find a weight and a number of heads for which it is wrong.
The smallest input is the one whose weight has the fewest entries.
Why can no test with one head find this mistake, and models of which shapes would show it?
""",
    hint=r"""
Write down the list `order` for one head with $d = 4$, and for two heads with $d = 2$.
""",
    cases=((),),
    solution=weight_converted_wrongly,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_conversion,
        right=to_half,
        tested=(
            (torch.arange(4.0)[:, None], 1),
            (torch.arange(8.0)[:, None], 1),
        ),
        refusal=_refused_weight,
        size=lambda weight, heads: weight.numel(),
        size_of="number of entries",
    ),
    explanation=r"""
She moves all even rows of the whole weight in front of all odd ones; right is to do that within each head.
With one head both are the same: such a test cannot fail, and the function is right for a model with a single key head.
Two heads of two features are enough: the layouts agree for $d = 2$, so nothing may move, but she exchanges rows 1 and 2, which belong to different heads.
A test needs at least two heads and rows that differ; {prf:ref}`the theorem on layouts <thm-rope-layout>` permutes the features within each head, not the rows of the whole weight.
""",
)


# rope-12: positions in the model's dtype


def colleagues_cosines(positions, d):
    """Cosines of RoPE's angles in a bfloat16 model.

    They are a float32 tensor [tokens, d/2].
    """
    at = positions.to(torch.bfloat16)  # the model's dtype
    omega = 1 / 10000 ** (torch.arange(0, d, 2).float() / d)
    return (at.float()[:, None] * omega).cos()


def position_rounded():
    """Return the smallest positions for which `colleagues_cosines` is wrong, and a d.

    The answer is the pair of arguments: an integer tensor like ``torch.tensor([3])``
    and a head dimension.
    """
    return torch.tensor([257]), 2


def _refused_positions(positions, d):
    if not isinstance(positions, torch.Tensor) or positions.ndim != 1:
        return "positions are a tensor [tokens]"
    if positions.dtype != torch.int64 or not len(positions) or positions.min() < 0:
        return "positions are integers from 0 on, one or more"
    if type(d) is not int or d < 2 or d % 2:
        return "d is a positive even integer"
    return ""


BF16 = Exercise(
    name="rope-12",
    title="Find the input: positions",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_cosines` should make the cosines of exercise rope-7, with errors up to 0.001 allowed.
Her test compares it with exact cosines at the positions 0 to 255, for $d = 64$, and passes.
Find positions and a head dimension for which it is wrong by more than 0.001.
The smallest input is the one whose largest position is smallest.
What does bfloat16 make of that position?
""",
    hint=r"""
A bfloat16 keeps 8 binary digits.
Which is the first integer that needs more?
""",
    cases=((),),
    solution=position_rounded,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_cosines,
        right=cosines,
        tested=((torch.arange(256), 64),),
        refusal=_refused_positions,
        size=lambda positions, d: int(positions.max()),
        size_of="largest position",
    ),
    explanation=r"""
All integers up to 255 have at most 8 binary digits, and 256 is a power of two, so bfloat16 holds them exactly.
257 needs nine; it lies in the middle between 256 and 258 and is rounded to 256, so position 257 gets the cosines of 256.
A test of a table must go as far as the longest text: {prf:ref}`the bound on rounded angles <thm-rope-precision>` assumes positions that the format holds exactly, and bfloat16 holds only some beyond 256.
""",
    tolerance=1e-3,
    level="optional",
)


SHEET = Sheet(
    title="RoPE",
    conventions=r"""
Positions, features and pairs count from 0.
The frequency of pair $p$ is base^(−2p/d) with base 10000.
Every pair rotates counter-clockwise.
""",
    example=r"""
from posedu.numpy import rotary

x = np.array([[1.0, 1.0, 0.0, 0.0]] * 2)
rotated = rotary.rope(x, [0, 2], layout="half")
print(np.round(rotated, 3))
""",
    figure="rope_explorable",
    exercises=(
        ROTATE,
        FREQUENCIES,
        ROPE,
        WAVE,
        PARTIAL,
        CONVERT,
        COSINES,
        DECODE,
        PEAK,
        SPREAD,
        HEADS,
        BF16,
    ),
)
