"""The exercises on RoPE."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import pairs
from posedu.torch import RoPE, convert_layout

# rope-1: turn one pair


def turn(a, b, alpha):
    """Turn (a, b) by alpha; a SymPy column of two entries."""
    cos, sin = sp.cos(alpha), sp.sin(alpha)
    return sp.Matrix([a * cos - b * sin, a * sin + b * cos])


def _turn_without_minus(a, b, alpha):
    cos, sin = sp.cos(alpha), sp.sin(alpha)
    return sp.Matrix([a * cos + b * sin, a * sin + b * cos])


TURN = Exercise(
    name="rope-1",
    title="Turn one pair",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
Work out on paper where the plane vector $(a, b)$ lands when it is turned counter-clockwise by the angle $\alpha$.
Write the result as a SymPy column; $a$, $b$ and $\alpha$ may be numbers or symbols.
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
    solution=turn,
    misconceptions=(
        Misconception(
            "This turns by −α",
            "A quarter turn must take (1, 0) to (0, 1), upwards: counter-clockwise.",
            lambda a, b, alpha: turn(a, b, -alpha),
        ),
        Misconception(
            "No minus sign anywhere",
            "Then (0, 1) and (1, 0) move towards each other, and lengths change. "
            "Where does a quarter turn take (0, 1)?",
            _turn_without_minus,
        ),
        Misconception(
            "This scales the members instead of turning the pair",
            "Multiplying a by cos α and b by sin α never lets a reach the second "
            "place: at α = 0 it loses b. Each new member needs both old ones.",
            lambda a, b, alpha: sp.Matrix([a * sp.cos(alpha), b * sp.sin(alpha)]),
        ),
        Misconception(
            "Sine and cosine are exchanged",
            "At α = 0 nothing may change; this turns by 90° − α.",
            lambda a, b, alpha: turn(a, b, sp.pi / 2 - alpha),
        ),
        Misconception(
            "The second minus is one too many",
            "Only one of the four products has a minus: where does a quarter turn "
            "take (0, 1), and where (1, 0)?",
            lambda a, b, alpha: sp.Matrix(
                [
                    a * sp.cos(alpha) - b * sp.sin(alpha),
                    a * sp.sin(alpha) - b * sp.cos(alpha),
                ]
            ),
        ),
        Misconception(
            "The two members are exchanged",
            "The first entry is the real part. At α = 0 nothing may change.",
            lambda a, b, alpha: turn(a, b, alpha)[::-1, :],
        ),
        Misconception(
            "Only cosines",
            "A turn mixes both members: the first one loses b sin α.",
            lambda a, b, alpha: sp.Matrix([a * sp.cos(alpha), b * sp.cos(alpha)]),
        ),
        Misconception(
            "The second entry has the first one's functions",
            "The second entry is the imaginary part of the product.",
            lambda a, b, alpha: sp.Matrix(
                [
                    a * sp.cos(alpha) - b * sp.sin(alpha),
                    a * sp.cos(alpha) + b * sp.sin(alpha),
                ]
            ),
        ),
        Misconception(
            "Each entry is multiplied by one function alone",
            "Every new member needs both old ones.",
            lambda a, b, alpha: sp.Matrix([-b * sp.sin(alpha), a * sp.sin(alpha)]),
        ),
        Misconception(
            "Degrees",
            "The angle is in radians, which `sp.cos` takes.",
            lambda a, b, alpha: turn(a, b, alpha * sp.pi / 180),
        ),
        Misconception(
            "This is a mirror",
            "It keeps lengths but has determinant −1: at α = 0 it changes the sign "
            "of b.",
            lambda a, b, alpha: sp.Matrix(
                [
                    a * sp.cos(alpha) + b * sp.sin(alpha),
                    a * sp.sin(alpha) - b * sp.cos(alpha),
                ]
            ),
        ),
        Misconception(
            "The angle is added to the members",
            "Coordinates do not turn by adding. Multiply a + ib by cos α + i sin α.",
            lambda a, b, alpha: sp.Matrix([a + sp.cos(alpha), b + sp.sin(alpha)]),
        ),
        Misconception(
            "In the second entry a has the minus",
            "The two minus signs cancel each other's turn: where does a quarter "
            "turn take (1, 0)?",
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
            "A turn by 0 leaves (a, b) where it is",
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
)


# rope-2: frequencies by hand


def clock():
    """The list of frequencies, the longest wavelength, how many pairs made a turn by 100."""
    frequencies = [sp.Rational(1, 10**p) for p in range(4)]
    return frequencies, 2000 * sp.pi, 2  # at 100: 100, 10, 1, 0.1 radians


def _one_turn(answer):
    omega, wavelength, _ = answer()
    return abs(float(wavelength * omega[-1] - 2 * sp.pi)) < 1e-9


def _clock_with(omega):
    full_turns = sum(bool(100 * w >= 2 * sp.pi) for w in omega)
    return omega, 2 * sp.pi / omega[-1], full_turns


_OMEGA = [sp.Rational(1, 10**p) for p in range(4)]


def _hands(wavelength=2000 * sp.pi, turns=2, omega=None):
    return lambda: (_OMEGA if omega is None else omega, wavelength, turns)


CLOCK = Exercise(
    name="rope-2",
    title="Four hands",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
A head has $d = 8$ features and base 10000.
Return three things, exactly (`sp.Rational`, `sp.pi`):

1. the list of its four frequencies, pair 0 first;
2. the wavelength of the slowest pair, in tokens;
3. how many pairs have made at least one full turn at position 100.
""",
    hint=r"""
$10000^{1/4} = 10$. A full turn is $2\pi$ radians.
""",
    cases=((),),
    solution=clock,
    misconceptions=(
        Misconception(
            "The pairs are counted from 1",
            "Pair 0 comes first, and base^0 = 1: the fastest hand turns one radian "
            "a token.",
            lambda: _clock_with([sp.Rational(1, 10**p) for p in range(1, 5)]),
        ),
        Misconception(
            "The exponent lacks its 2",
            "It is −2p/d: with p/d the slowest of d/2 pairs would only reach the "
            "square root of the base.",
            lambda: _clock_with(
                [sp.Integer(10000) ** sp.Rational(-p, 8) for p in range(4)]
            ),
        ),
        Misconception(
            "The exponent has its 2 twice",
            "If p counts pairs, −2p/d is all; −4p/d comes of putting the feature "
            "index 2p where p belongs.",
            lambda: _clock_with([sp.Rational(1, 100**p) for p in range(4)]),
        ),
        Misconception(
            "Radians are taken for turns",
            "ω is in radians per token, so a full turn takes 2π/ω tokens, not 1/ω.",
            lambda: ([sp.Rational(1, 10**p) for p in range(4)], sp.Integer(1000), 3),
        ),
        Misconception(
            "The minus sign is missing",
            "These are 1/ω. The fastest hand turns one radian a token, the others "
            "are slower.",
            _hands(omega=[sp.Integer(10**p) for p in range(4)]),
        ),
        Misconception(
            "The last exponent is −1",
            "That is another rule, which divides p by d/2 − 1. RoPE's slowest "
            "frequency stays above 1/base.",
            _hands(omega=[sp.Integer(10000) ** sp.Rational(-p, 3) for p in range(4)]),
        ),
        Misconception(
            "The slowest pair comes first",
            "Pair 0 is the fastest, and its frequency is base^0 = 1.",
            _hands(omega=[sp.Rational(1, 10**p) for p in range(4)][::-1]),
        ),
        Misconception(
            "The wavelength is taken for 1/ω",
            "A full turn takes 2π/ω tokens, not 1/ω.",
            _hands(sp.Integer(1000)),
        ),
        Misconception(
            "This is the wavelength of the fastest pair",
            "The slowest is asked for.",
            _hands(2 * sp.pi),
        ),
        Misconception(
            "This would be a frequency of 1/base",
            "The last pair is p = 3, not 4.",
            _hands(20000 * sp.pi),
        ),
        Misconception(
            "This is half a turn",
            "A full turn is 2π.",
            _hands(1000 * sp.pi),
        ),
        Misconception(
            "Divided by 2π in place of multiplied",
            "ω radians a token: how many tokens make 2π?",
            _hands(500 / sp.pi),
        ),
        Misconception(
            "This is turns a token",
            "The wavelength is in tokens a turn.",
            _hands(sp.Rational(1, 2000) / sp.pi),
        ),
        Misconception(
            "Pairs that have turned by a radian are counted",
            "A full turn is 2π radians. At 100 the angles are 100, 10, 1 and 0.1.",
            _hands(turns=3),
        ),
        Misconception(
            "All pairs are counted",
            "At 100 the angles are 100, 10, 1 and 0.1 radians. How many are at "
            "least 2π?",
            _hands(turns=4),
        ),
        Misconception(
            "Only the fastest pair is counted",
            "At 100 the angles are 100, 10, 1 and 0.1 radians. How many are at "
            "least 2π?",
            _hands(turns=1),
        ),
        Misconception(
            "The turns are counted, not the pairs",
            "How many *pairs* have made at least one?",
            _hands(turns=15),
        ),
    ),
    properties=(
        Property(
            "The results are exact, with sp.Rational and sp.pi in place of floats",
            lambda answer: not sp.Tuple(*answer()[0], answer()[1]).has(sp.Float),
        ),
        Property(
            "The first result lists base^(−2p/d) for p = 0, 1, 2, 3",
            lambda answer: list(answer()[0]) == clock()[0],
        ),
        Property(
            "The second result is the position at which the slowest pair has turned "
            "by 2π",
            _one_turn,
        ),
        Property(
            "The third result counts the pairs that have turned by 2π or more",
            lambda answer: answer()[2] == clock()[2],
        ),
    ),
)


# rope-3: RoPE in both layouts


def rope_in(x, positions, layout):
    """RoPE with base 10000: a float64 array of the shape of x."""
    d = x.shape[-1]
    p = np.arange(d // 2)
    a, b = (2 * p, 2 * p + 1) if layout == "interleaved" else (p, p + d // 2)
    angle = positions[:, None] * 10000.0 ** (-2 * p / d)
    y = np.empty_like(x)
    y[:, a] = x[:, a] * np.cos(angle) - x[:, b] * np.sin(angle)
    y[:, b] = x[:, a] * np.sin(angle) + x[:, b] * np.cos(angle)
    return y


def _rope_at(x, angle, layout):
    """Turn each token's pairs by the angles ``[tokens, d/2]``."""
    a, b = pairs(x.shape[-1], layout=layout)
    y = x.copy()
    y[:, a] = x[:, a] * np.cos(angle) - x[:, b] * np.sin(angle)
    y[:, b] = x[:, a] * np.sin(angle) + x[:, b] * np.cos(angle)
    return y


def _rope_with_exponent(factor):
    """RoPE with base^(−factor · p/d)."""

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
    """RoPE whose new members ``put(y, a, b, first, second)`` writes into y."""
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
    """RoPE with other formulas for the new members of (a, b)."""

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


def _rope_in_turn(x, positions, layout):
    d = x.shape[-1]
    a, b = pairs(d, layout=layout)
    angle = positions[:, None] * frequencies(d)
    y = x.copy()
    y[:, a] = y[:, a] * np.cos(angle) - y[:, b] * np.sin(angle)
    y[:, b] = y[:, a] * np.sin(angle) + y[:, b] * np.cos(angle)
    return y


def _rope_of_wide_angles(widen):
    """RoPE by x · cos + rotated x · sin, with the angles widened to d columns."""

    def answer(x, positions, layout):
        d = x.shape[-1]
        a, b = pairs(d, layout=layout)
        angle = widen(positions[:, None] * frequencies(d), layout)
        turned = np.empty_like(x)
        turned[:, a], turned[:, b] = -x[:, b], x[:, a]
        return x * np.cos(angle) + turned * np.sin(angle)

    return answer


def _rope_of_frequencies(omega):
    """RoPE with the frequencies ``omega(d)``."""
    return lambda x, positions, layout: _rope_at(
        x, positions[:, None] * omega(x.shape[-1]), layout
    )


def _rope_from_the_end(x, positions):
    half = x.shape[-1] // 2
    turned_back = np.concatenate((x[:, :half], x[:, : half - 1 : -1]), axis=1)
    y = rope_in(turned_back, positions, "half")
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
Turn the rows of `x`, a float64 array `[tokens, d]`, by their `positions`, an integer array `[tokens]`.
`layout` is `"interleaved"` (pairs $(0, 1), (2, 3), \dots$) or `"half"` (pairs $(p, p + d/2)$).
Write the elementwise form yourself, and leave `x` unchanged.
""",
    hint=r"""
Make the array of angles, `[tokens, d/2]`, first.
Then find, for each layout, the index array `a` of all first members and `b` of all second ones.
""",
    cases=tuple(
        (draw(len(positions), d), np.array(positions), layout)
        for d, positions in ((4, [0, 1]), (4, [3, 100]), (8, [0, 2, 7, 5000]))
        for layout in ("interleaved", "half")
    ),
    solution=rope_in,
    misconceptions=(
        Misconception(
            "This turns by −angle",
            "The first member loses b · sin and the second gains a · sin: "
            "counter-clockwise, for positive positions.",
            lambda x, positions, layout: rope_in(x, -positions, layout),
        ),
        Misconception(
            "The layouts are exchanged",
            "interleaved pairs neighbors, (0, 1), (2, 3), …; half pairs feature p "
            "with feature p + d/2.",
            lambda x, positions, layout: rope_in(x, positions, _other(layout)),
        ),
        Misconception(
            "This is the interleaved layout, whatever is asked for",
            "For half, the partner of feature p is p + d/2.",
            lambda x, positions, layout: rope_in(x, positions, "interleaved"),
        ),
        Misconception(
            "This is the half layout, whatever is asked for",
            "For interleaved, the partner of feature 2p is 2p + 1.",
            lambda x, positions, layout: rope_in(x, positions, "half"),
        ),
        Misconception(
            "The frequency has p/d in its exponent",
            "It is −2p/d, so that d/2 pairs span the base.",
            _rope_with_exponent(1),
        ),
        Misconception(
            "The frequency has 4p/d in its exponent",
            "p counts pairs already; the feature index 2p with another 2 doubles it.",
            _rope_with_exponent(4),
        ),
        Misconception(
            "The frequency has +2p/d in its exponent",
            "Pair 0 is the fastest; the others turn more and more slowly.",
            _rope_with_exponent(-2),
        ),
        Misconception(
            "The pairs are counted from 1",
            "Pair 0 comes first, and base^0 = 1: it turns one radian a token.",
            _rope_counted_from_one,
        ),
        Misconception(
            "The rows are numbered, whatever their positions",
            "A row turns by its entry in positions, which need not be its index.",
            lambda x, positions, layout: rope_in(x, np.arange(len(x)), layout),
        ),
        Misconception(
            "The two members of a pair turn at different speeds",
            "Then it is no rotation. A pair has one angle, position · ω_p.",
            _rope_one_frequency_a_feature,
        ),
        Misconception(
            "The positions are counted from 1",
            "A row turns by its entry in positions: at position 0 it stays as it is.",
            lambda x, positions, layout: rope_in(x, positions + 1, layout),
        ),
        Misconception(
            "The pairs are neighbors, and the result is put together in halves",
            "For interleaved both members go back to where they came from, 2p and "
            "2p + 1.",
            _rope_joined,
        ),
        Misconception(
            "The pairs are put back as neighbors, whatever the layout",
            "For half, the two members go back to p and p + d/2.",
            _rope_woven,
        ),
        Misconception(
            "No minus sign anywhere",
            "Then lengths change: the first member *loses* b · sin.",
            _rope_by(
                lambda a, b, cos, sin: a * cos + b * sin,
                lambda a, b, cos, sin: a * sin + b * cos,
            ),
        ),
        Misconception(
            "The second member has a minus, too",
            "One minus is enough: the second one gains a · sin and keeps b · cos.",
            _rope_by(
                lambda a, b, cos, sin: a * cos - b * sin,
                lambda a, b, cos, sin: b * cos - a * sin,
            ),
        ),
        Misconception(
            "Sine and cosine are exchanged",
            "At position 0 nothing turns.",
            _rope_by(
                lambda a, b, cos, sin: a * sin - b * cos,
                lambda a, b, cos, sin: a * cos + b * sin,
            ),
        ),
        Misconception(
            "The members of each pair are exchanged",
            "The first new member is a · cos − b · sin.",
            _rope_by(
                lambda a, b, cos, sin: a * sin + b * cos,
                lambda a, b, cos, sin: a * cos - b * sin,
            ),
        ),
        Misconception(
            "The members only scale themselves",
            "A rotation mixes both: each new member needs both old ones.",
            _rope_by(lambda a, b, cos, sin: a * cos, lambda a, b, cos, sin: b * sin),
        ),
        Misconception(
            "The second member is made of the new first one",
            "Both formulas need the *old* members: keep a before you overwrite it.",
            _rope_in_turn,
        ),
        Misconception(
            "The angles are laid out in halves, the features are not",
            "In the interleaved layout features 2p and 2p + 1 share the angle of "
            "pair p: each angle is repeated, the list is not.",
            _rope_of_wide_angles(lambda angle, layout: np.tile(angle, 2)),
        ),
        Misconception(
            "The angles are interleaved, the features are not",
            "In the half layout features p and p + d/2 share the angle of pair p: "
            "the list of angles is repeated as a whole.",
            _rope_of_wide_angles(lambda angle, layout: np.repeat(angle, 2, axis=1)),
        ),
        Misconception(
            "The slowest pair comes first",
            "Pair 0 is the fastest.",
            _rope_of_frequencies(lambda d: frequencies(d)[::-1]),
        ),
        Misconception(
            "The last exponent is −1",
            "That is tensor2tensor's rule; RoPE divides 2p by d.",
            _rope_of_frequencies(lambda d: 10000.0 ** -np.linspace(0, 1, d // 2)),
        ),
        Misconception(
            "All pairs turn alike",
            "Each pair has a frequency of its own.",
            _rope_of_frequencies(lambda d: np.ones(d // 2)),
        ),
        Misconception(
            "Radians are taken for turns",
            "The angle is position · ω_p, without 2π.",
            _rope_of_frequencies(lambda d: 2 * np.pi * frequencies(d)),
        ),
        Misconception(
            "Degrees",
            "The angle is in radians, which `np.cos` takes.",
            _rope_of_frequencies(lambda d: np.pi / 180 * frequencies(d)),
        ),
        Misconception(
            "The position is left out",
            "Every row turns by its own position · ω_p. This turns all of them alike.",
            lambda x, positions, layout: rope_in(x, np.ones_like(positions), layout),
        ),
        Misconception(
            "The base is not 10000",
            "The frequency of pair p is base^(−2p/d) with base 10000.",
            _rope_of_frequencies(lambda d: 500000.0 ** (-2 * np.arange(d // 2) / d)),
        ),
        Misconception(
            "The second member loses where it should gain",
            "It is a · sin + b · cos. As it stands the pair is turned and mirrored.",
            _rope_by(
                lambda a, b, cos, sin: a * cos - b * sin,
                lambda a, b, cos, sin: a * sin - b * cos,
            ),
        ),
        Misconception(
            "Only the first member turns",
            "Each new member needs both old ones.",
            _rope_by(
                lambda a, b, cos, sin: a * cos - b * sin, lambda a, b, cos, sin: b * cos
            ),
        ),
        Misconception(
            "Only the second member turns",
            "Each new member needs both old ones.",
            _rope_by(
                lambda a, b, cos, sin: a * cos, lambda a, b, cos, sin: a * sin + b * cos
            ),
        ),
        Misconception(
            "In the half layout the partner is counted from the end",
            "The partner of feature p is p + d/2, not d − 1 − p.",
            lambda x, positions, layout: (
                _rope_from_the_end(x, positions)
                if layout == "half"
                else rope_in(x, positions, layout)
            ),
        ),
        Misconception(
            "Interleaved angles with the partners of half",
            "Feature 2p and 2p + 1 share an angle in yours, but feature p +"
            " d/2 is taken for the partner. For interleaved the partner is "
            "the neighbor.",
            _interleaved_with_far_partners,
        ),
    ),
    properties=(
        Property("A rotation keeps every token's length", _keeps_lengths),
        Property("Inner products stay when all positions move by 5", _moves_together),
    ),
)


# rope-4: the score as a wave


def wave(q, k):
    """The coefficients A and B, as SymPy expressions."""
    i, j = sp.symbols("i j", real=True)  # in units of 1/ω
    score = sp.expand(turn(*q, i).dot(turn(*k, j)))
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
Show with SymPy that the score $(R_2(\omega i)\,q) \cdot (R_2(\omega j)\,k)$ is $A \cos(\omega(i - j)) + B \sin(\omega(i - j))$, whatever $i$ and $j$ are.
Return $A$ and $B$ for the columns `q` and `k`; your `turn` of rope-1 helps.
""",
    hint=r"""
`sp.trigsimp` combines the products of sines and cosines.
Once you believe that the score is such a wave, two offsets are enough to read off $A$ and $B$: put $j = 0$ and choose $\omega i$.
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
            "The offset is taken as j − i",
            "The cosine does not mind, the sine changes its sign: the offset is "
            "query minus key.",
            lambda q, k: (wave(q, k)[0], -wave(q, k)[1]),
        ),
        Misconception(
            "Two complex numbers are multiplied, neither of them conjugated",
            "Then the angles add, and the product turns with i + j. An inner product "
            "conjugates one of the two.",
            lambda q, k: (q[0] * k[0] - q[1] * k[1], -q[0] * k[1] - q[1] * k[0]),
        ),
        Misconception(
            "The sine's coefficient has no minus",
            "Try q = k: at offset 0 the score is largest, so there it cannot rise "
            "with the offset, and B must vanish.",
            lambda q, k: (wave(q, k)[0], q[0] * k[1] + q[1] * k[0]),
        ),
        Misconception(
            "A and B are exchanged",
            "At offset 0 the score is q · k, and the sine vanishes there.",
            lambda q, k: wave(q, k)[::-1],
        ),
        Misconception(
            "Both signs are reversed",
            "At offset 0 the score is q · k.",
            lambda q, k: tuple(-part for part in wave(q, k)),
        ),
        Misconception(
            "There is no sine",
            "The score is as large at offset r as at −r only if B vanishes. Try q = "
            "(1, 0) and k = (0, 1).",
            lambda q, k: (wave(q, k)[0], sp.Integer(0)),
        ),
        Misconception(
            "A is the product of the lengths",
            "That is the attention factor of the wave. A is its value at offset 0.",
            lambda q, k: (sp.sqrt(q.dot(q) * k.dot(k)), wave(q, k)[1]),
        ),
        Misconception(
            "B is the sum of the wrong products",
            "q₀ k₀ and q₁ k₁ belong to A. What is left when one of the two is a "
            "quarter turn on?",
            lambda q, k: (wave(q, k)[0], q[0] * k[0] - q[1] * k[1]),
        ),
        Misconception(
            "In A one product has a minus",
            "An inner product is a sum: look at the score at offset 0.",
            lambda q, k: (q[0] * k[0] - q[1] * k[1], wave(q, k)[1]),
        ),
        Misconception(
            "A and B are halved",
            "The halves of the product formulas appear twice, and add up.",
            lambda q, k: tuple(part / 2 for part in wave(q, k)),
        ),
        Misconception(
            "The two products are taken apart",
            "A is their sum, the score at offset 0.",
            lambda q, k: (q[0] * k[0], q[1] * k[1]),
        ),
        Misconception(
            "A and B are doubled",
            "The halves of the product formulas appear twice, and make one.",
            lambda q, k: tuple(2 * part for part in wave(q, k)),
        ),
    ),
    properties=(
        Property(
            "At offset 0 the wave is the score of what was not turned",
            lambda answer, q, k: sp.simplify(answer(q, k)[0] - wave(q, k)[0]) == 0,
        ),
        Property(
            "At ω(i − j) = π/2 the wave is the score of q, a quarter turn on, and k",
            lambda answer, q, k: sp.simplify(answer(q, k)[1] - wave(q, k)[1]) == 0,
        ),
    ),
)


# rope-5: partial rotary


def partial(x, positions, rotary_dim):
    """RoPE on the leading features: a float64 array of the shape of x."""
    turned = rope_in(x[:, :rotary_dim], positions, "half")
    return np.concatenate((turned, x[:, rotary_dim:]), axis=1)


def _partial_full_exponent(x, positions, rotary_dim):
    omega = frequencies(x.shape[-1])[: rotary_dim // 2]
    turned = _rope_at(x[:, :rotary_dim], positions[:, None] * omega, "half")
    return np.concatenate((turned, x[:, rotary_dim:]), axis=1)


def _partial_last(x, positions, rotary_dim):
    turned = rope_in(x[:, -rotary_dim:], positions, "half")
    return np.concatenate((x[:, :-rotary_dim], turned), axis=1)


def _partial_dropped(x, positions, rotary_dim):
    y = partial(x, positions, rotary_dim)
    y[:, rotary_dim:] = 0
    return y


def _partial_interleaved(x, positions, rotary_dim):
    turned = rope_in(x[:, :rotary_dim], positions, "interleaved")
    return np.concatenate((turned, x[:, rotary_dim:]), axis=1)


def _partial_pairs_of_all(x, positions, rotary_dim):
    angle = np.zeros((len(x), x.shape[-1] // 2))
    turning = positions[:, None] * frequencies(rotary_dim)
    angle[:, : rotary_dim // 2] = turning
    return _rope_at(x, angle, "half")


def _partial_with(omega):
    """Partial rotary with the frequencies ``omega(d, rotary_dim)``."""

    def answer(x, positions, rotary_dim):
        angle = positions[:, None] * omega(x.shape[-1], rotary_dim)
        turned = _rope_at(x[:, :rotary_dim], angle, "half")
        return np.concatenate((turned, x[:, rotary_dim:]), axis=1)

    return answer


PARTIAL = Exercise(
    name="rope-5",
    title="Partial rotary",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
Turn only the first `rotary_dim` features of each row, in the half layout, with the frequencies that partial rotary uses; the others stay, and `x` remains unchanged.
You may use your `rope_in` of rope-3.
""",
    hint=r"""
The first `rotary_dim` features are treated as if they were a whole head.
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
            "The exponent is divided by d",
            "The frequencies are base^(−2p/rotary_dim): the turning features have "
            "the whole spectrum among them.",
            _partial_full_exponent,
        ),
        Misconception(
            "The last features turn",
            "The first rotary_dim features turn, the others stay.",
            _partial_last,
        ),
        Misconception(
            "The other features are set to zero",
            "They stay as they are, and carry content without position.",
            _partial_dropped,
        ),
        Misconception(
            "The pairs are those of the whole head",
            "In the half layout the partner of feature p is p + rotary_dim/2, inside "
            "the part that turns.",
            _partial_pairs_of_all,
        ),
        Misconception(
            "This is the interleaved layout",
            "The exercise's layout is half.",
            _partial_interleaved,
        ),
        Misconception(
            "All features turn",
            "Only the first rotary_dim of them do.",
            lambda x, positions, rotary_dim: rope_in(x, positions, "half"),
        ),
        Misconception(
            "Nothing turns",
            "The first rotary_dim features do.",
            lambda x, positions, rotary_dim: x.copy(),
        ),
        Misconception(
            "Half as many features turn as should",
            "rotary_dim counts features, and two of them make a pair.",
            lambda x, positions, rotary_dim: partial(x, positions, rotary_dim // 2),
        ),
        Misconception(
            "The turned features come last",
            "Every feature keeps its place.",
            lambda x, positions, rotary_dim: np.roll(
                partial(x, positions, rotary_dim), -rotary_dim, axis=1
            ),
        ),
        Misconception(
            "The exponent lacks its 2",
            "It is −2p/rotary_dim for rotary_dim/2 pairs.",
            _partial_with(lambda d, n: 10000.0 ** (-np.arange(n // 2) / n)),
        ),
        Misconception(
            "The exponent has its 2 twice",
            "p counts pairs: −2p/rotary_dim.",
            _partial_with(lambda d, n: 10000.0 ** (-4 * np.arange(n // 2) / n)),
        ),
        Misconception(
            "The exponent is divided by half of the head",
            "The frequencies are base^(−2p/rotary_dim), whatever d is.",
            _partial_with(lambda d, n: 10000.0 ** (-2 * np.arange(n // 2) / (d / 2))),
        ),
        Misconception(
            "The slow pairs of the whole head turn",
            "The turning features have a spectrum of their own, from 1 on.",
            _partial_with(lambda d, n: frequencies(d)[-(n // 2) :]),
        ),
        Misconception(
            "This turns by −angle",
            "Counter-clockwise, for positive positions.",
            lambda x, positions, rotary_dim: partial(x, -positions, rotary_dim),
        ),
        Misconception(
            "The positions are counted from 1",
            "A row turns by its entry in positions.",
            lambda x, positions, rotary_dim: partial(x, positions + 1, rotary_dim),
        ),
        Misconception(
            "The rows are numbered, whatever their positions",
            "A row turns by its entry in positions, which need not be its index.",
            lambda x, positions, rotary_dim: partial(x, np.arange(len(x)), rotary_dim),
        ),
        Misconception(
            "The other features turn",
            "The first rotary_dim features turn, and those from rotary_dim on stay.",
            lambda x, positions, rotary_dim: np.concatenate(
                (x[:, :rotary_dim], rope_in(x[:, rotary_dim:], positions, "half")),
                axis=1,
            ),
        ),
        Misconception(
            "The whole head is turned, and then the rest put back",
            "Pairs and frequencies are those of a head of rotary_dim features, not "
            "of the whole one.",
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
)


# rope-6: convert a layout


def to_half(weight, heads):
    """The rows in the order of the half layout: a tensor of the shape of weight."""
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
Reshape the rows to `[heads, d/2, 2]`: which index says the pair, and which the member?
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
            "The permutation runs over all heads at once",
            "Each head has pairs of its own: split the rows by head first.",
            lambda weight, heads: to_half(weight, 1),
        ),
        Misconception(
            "This goes the other way, from half to interleaved",
            "Row p of a head must become old row 2p, and row p + d/2 old row 2p + 1.",
            lambda weight, heads: convert_layout(
                weight, heads, source="half", target="interleaved"
            ),
        ),
        Misconception(
            "The columns are permuted",
            "The features of a head are the rows of the weight, which is "
            "[heads · d, d_model]; its columns are the features of the input.",
            lambda weight, heads: to_half(weight.T, heads).T.contiguous(),
        ),
        Misconception(
            "The columns are permuted, and all at once",
            "The features of a head are the rows of the weight, which is "
            "[heads · d, d_model]; and each head has pairs of its own.",
            lambda weight, heads: to_half(weight.T, 1).T.contiguous(),
        ),
        Misconception(
            "The heads are interleaved, not the features",
            "The axis of heads comes first, then pairs, then the two members: "
            "exchange the last two of these.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1)).transpose(0, 1).flatten(0, 1)
            ),
        ),
        Misconception(
            "Nothing is moved",
            "Then features would be paired that were never trained as a pair.",
            lambda weight, heads: weight.clone(),
        ),
        Misconception(
            "The odd features come first",
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
            "The odd features come first, in all heads at once",
            "Each head has pairs of its own, and in the half layout all *first* "
            "members come first.",
            lambda weight, heads: torch.cat((weight[1::2], weight[0::2])),
        ),
        Misconception(
            "The members of each pair are exchanged",
            "They must move apart: first members to the first half of the head.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1, 2)).flip(2).flatten(0, 2)
            ),
        ),
        Misconception(
            "The halves of each head are exchanged",
            "That is still the interleaved layout.",
            lambda weight, heads: (
                weight.unflatten(0, (heads, 2, -1)).flip(1).flatten(0, 2)
            ),
        ),
        Misconception(
            "Rows and columns are permuted",
            "The columns are the features of the layer's input, which nobody has "
            "moved.",
            lambda weight, heads: to_half(
                to_half(weight, heads).T, heads
            ).T.contiguous(),
        ),
        Misconception(
            "The rows of each head are in reverse order",
            "They are to be sorted by member: first the features 0, 2, 4, …",
            lambda weight, heads: (
                weight.unflatten(0, (heads, -1)).flip(1).flatten(0, 1)
            ),
        ),
        Misconception(
            "The number of heads is taken for that of the pairs",
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
            "The rows must be the old rows in another order",
            lambda answer, weight, heads: torch.equal(
                answer(weight, heads).sort(0).values, weight.sort(0).values
            ),
        ),
    ),
)


# rope-7: exact cosines


def cosines(positions, d):
    """The table of cosines: a float32 tensor [tokens, d/2]."""
    exponents = -torch.arange(0, d, 2, dtype=torch.float64) / d
    angles = positions.double()[:, None] * 10000**exponents
    return angles.cos().float()


def _cosines_in(position_dtype, frequency_dtype):
    """Give the table with float32 angles of rounded positions and frequencies."""

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
    """Exact functions of the angles, of base^``exponent(p, d)``."""

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
Make the table of cosines for a tensor of integer `positions` and head dimension `d`: a float32 tensor `[tokens, d/2]`, off by no more than float32's own rounding at position 1 000 000.
""",
    hint=r"""
Where is the last place at which you can round to float32 without harm?
Mind the dtype of every tensor on the way there.
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
            "The angles are float32",
            "At position 10⁶ a float32 angle is off by hundredths of a radian. Only "
            "the finished cosine may be rounded.",
            _cosines_in(torch.float32, torch.float32),
        ),
        Misconception(
            "The product is float64, but the frequencies were rounded before",
            "An error of 10⁻⁸ in ω becomes 10⁻² at position 10⁶: compute the "
            "frequencies in float64 as well.",
            _cosines_of_float32_frequencies,
        ),
        Misconception(
            "The angles are exact, and rounded before their cosine",
            "An angle near 10⁶ loses hundredths of a radian in float32. The cosine is "
            "at most 1: round that.",
            _cosines_with(lambda p, d: -2 * p / d, lambda angles: angles.float().cos()),
        ),
        Misconception(
            "The positions went through bfloat16",
            "bfloat16 holds integers up to 256; 257 becomes 256.",
            _cosines_in(torch.bfloat16, torch.float32),
        ),
        Misconception(
            "The frequencies went through bfloat16",
            "That is what model.to(bfloat16) does to a buffer of frequencies.",
            _cosines_in(torch.float32, torch.bfloat16),
        ),
        Misconception(
            "These are the sines",
            "The table of cosines is asked for: 1 at position 0.",
            _cosines_with(lambda p, d: -2 * p / d, torch.sin),
        ),
        Misconception(
            "These are the angles",
            "They are right. Now their cosines.",
            _cosines_with(lambda p, d: -2 * p / d, torch.clone),
        ),
        Misconception(
            "The exponent lacks its 2",
            "−2p/d for the pairs p = 0 … d/2 − 1.",
            _cosines_with(lambda p, d: -p / d),
        ),
        Misconception(
            "The exponent has its 2 twice",
            "`arange(0, d, 2)` is 2p already.",
            _cosines_with(lambda p, d: -4 * p / d),
        ),
        Misconception(
            "The exponent has lost its minus",
            "Pair 0 is the fastest; the others turn more and more slowly.",
            _cosines_with(lambda p, d: 2 * p / d),
        ),
        Misconception(
            "The pairs are counted from 1",
            "Pair 0 comes first, and turns one radian a token.",
            _cosines_with(lambda p, d: -2 * (p + 1) / d),
        ),
        Misconception(
            "The last exponent is −1",
            "That is tensor2tensor's rule; RoPE divides 2p by d.",
            _cosines_with(lambda p, d: -p / (d / 2 - 1)),
        ),
        Misconception(
            "The rows are numbered, whatever their positions",
            "`positions` says where the tokens are.",
            lambda positions, d: cosines(torch.arange(len(positions)), d),
        ),
        Misconception(
            "The positions are counted from 1",
            "At position 0 all cosines are 1.",
            lambda positions, d: cosines(positions + 1, d),
        ),
        Misconception(
            "The finished table went through bfloat16",
            "The angles are right; the cosines have lost their digits on their way "
            "to float32.",
            lambda positions, d: cosines(positions, d).bfloat16().float(),
        ),
        Misconception(
            "The finished table went through half precision",
            "The angles are right; the cosines have lost their digits on their way "
            "to float32.",
            lambda positions, d: cosines(positions, d).half().float(),
        ),
        Misconception(
            "The angles went through bfloat16",
            "An angle has 8 significant bits then. Only the finished cosine may be "
            "rounded, and to float32.",
            lambda positions, d: _cosines_with(
                lambda p, d: -2 * p / d, lambda angle: angle.bfloat16().double().cos()
            )(positions, d),
        ),
        Misconception(
            "The exponents were rounded to float32",
            "2p/d is a float32 number where d is a power of two, and not "
            "where d is 6. The position multiplies its error: divide in "
            "float64.",
            _cosines_with(lambda p, d: -(2 * p.float() / d).double()),
        ),
    ),
    properties=(
        Property(
            "At position 1 these are the cosines of base^(−2p/d), p = 0, 1, …",
            _right_at_one,
        ),
        Property(
            "Nothing before the finished cosine is rounded to float32, so errors do "
            "not grow with the position",
            lambda answer, positions, d: torch.allclose(
                answer(positions, d), cosines(positions, d), rtol=0, atol=1e-7
            ),
        ),
    ),
)


# rope-8: decode with a cache

rope = RoPE(4, layout="half")


def decode(q, k, cached):
    """The scores of new queries against cached and new keys: [new, past + new]."""
    past, new = len(cached), len(q)
    positions = torch.arange(past, past + new)
    keys = torch.cat((cached, rope(k, positions)))
    return rope(q, positions) @ keys.T


def _decode_from(q, k, cached, start):
    positions = torch.arange(start, start + len(q))
    keys = torch.cat((cached, rope(k, positions)))
    return rope(q, positions) @ keys.T


def _decode_turned_twice(q, k, cached):
    positions = torch.arange(len(cached) + len(k))
    keys = rope(torch.cat((cached, k)), positions)
    return rope(q, positions[len(cached) :]) @ keys.T


def _decode_key_not_turned(q, k, cached):
    positions = torch.arange(len(cached), len(cached) + len(q))
    return rope(q, positions) @ torch.cat((cached, k)).T


def _decode_query_not_turned(q, k, cached):
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
    """Scores with ``query(n)`` and ``key(n)`` added to the positions, n cached."""

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
A decoder has the keys of all tokens so far in `cached`, `[past, 4]`, each turned by its own position when it came in.
Now new tokens arrive, with queries `q` and keys `k`, both `[new, 4]` and not turned.
Return the scores of the new queries against all keys, old and new: `[new, past + new]`, without scaling or mask.
`rope(x, positions)`, which is given, turns the rows of a tensor.
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
            "The new tokens start again at position 0",
            "They come after the cached ones; their first position is how many "
            "those are.",
            lambda q, k, cached: _decode_from(q, k, cached, 0),
        ),
        Misconception(
            "The positions are one too small",
            "Positions count from 0: after n cached tokens the next has position n; "
            "n − 1 is taken by the last of them.",
            lambda q, k, cached: _decode_from(q, k, cached, len(cached) - 1),
        ),
        Misconception(
            "The positions are one too large",
            "Positions count from 0: after n cached tokens the next has position n.",
            lambda q, k, cached: _decode_from(q, k, cached, len(cached) + 1),
        ),
        Misconception(
            "The cached keys are turned a second time",
            "They were turned when they came in, each by its own position.",
            _decode_turned_twice,
        ),
        Misconception(
            "The new keys are not turned",
            "Cached keys are turned, so the new ones must be, before they join.",
            _decode_key_not_turned,
        ),
        Misconception(
            "The queries are not turned",
            "A score depends on the offset only if both of its vectors are turned.",
            _decode_query_not_turned,
        ),
        Misconception(
            "All new tokens have the same position",
            "Several can arrive at once; each is one further than the one before it.",
            _decode_one_position,
        ),
        Misconception(
            "The scores are divided by √d",
            "The exercise asks for scores without scaling.",
            lambda q, k, cached: decode(q, k, cached) / 2,
        ),
        Misconception(
            "Later keys are masked",
            "The exercise asks for scores without a mask.",
            lambda q, k, cached: _hide(decode(q, k, cached), len(cached), -torch.inf),
        ),
        Misconception(
            "Later keys are set to zero",
            "The exercise asks for scores without a mask.",
            lambda q, k, cached: _hide(decode(q, k, cached), len(cached), 0.0),
        ),
        Misconception(
            "The new keys come first",
            "The order is that of the tokens: the cached keys are older.",
            _decode_at(int, int, join=lambda parts: torch.cat(parts[::-1])),
        ),
        Misconception(
            "The queries start again at position 0",
            "They come after the cached tokens, as their keys do.",
            _decode_at(lambda past: 0, int),
        ),
        Misconception(
            "The new keys start again at position 0",
            "They come after the cached ones, as their queries do.",
            _decode_at(int, lambda past: 0),
        ),
        Misconception(
            "Queries stand one place before their keys",
            "Query and key of a token have the same position.",
            _decode_at(lambda past: past - 1, int),
        ),
        Misconception(
            "Queries stand one place after their keys",
            "Query and key of a token have the same position.",
            _decode_at(lambda past: past + 1, int),
        ),
        Misconception(
            "The cached keys are turned, the new ones are not",
            "It is the other way round: the cached keys were turned when they came in.",
            lambda q, k, cached: (
                rope(q, torch.arange(len(q)) + len(cached))
                @ torch.cat((rope(cached, torch.arange(len(cached))), k)).T
            ),
        ),
        Misconception(
            "Nothing is turned",
            "The cached keys are turned already; new queries and keys must be.",
            lambda q, k, cached: q @ torch.cat((cached, k)).T,
        ),
        Misconception(
            "These are weights",
            "The scores are asked for, without softmax.",
            lambda q, k, cached: decode(q, k, cached).softmax(-1),
        ),
        Misconception(
            "The tokens are numbered backwards",
            "The first new token follows the last cached one, and the others follow "
            "it.",
            lambda q, k, cached: (
                rope(q, torch.arange(len(q)).flip(0) + len(cached))
                @ torch.cat(
                    (cached, rope(k, torch.arange(len(q)).flip(0) + len(cached)))
                ).T
            ),
        ),
        Misconception(
            "This is the interleaved layout",
            "`rope` has the half layout, in which the cached keys were turned.",
            lambda q, k, cached: (
                lambda turn: turn(q) @ torch.cat((cached, turn(k))).T
            )(
                lambda x: RoPE(4, layout="interleaved")(
                    x, torch.arange(len(x)) + len(cached)
                )
            ),
        ),
        Misconception(
            "The sign of the positions is reversed",
            "Queries and keys turn by their positions, as the cached keys have.",
            _decode_at(lambda past: -2 * past, int),
        ),
        Misconception(
            "All new queries stand at the last position",
            "Each new token has a position of its own, as its key has.",
            _decode_queries_at_the_end,
        ),
    ),
)


# rope-9: a peak where you like


def key_for_peak(q, offset):
    """The key, [d] and as long as q, that q scores highest at this offset."""
    return rope_in(q[None], np.array([offset]), "half")[0]


def _peaks_there(answer, q, offset):
    offsets = np.arange(2 * offset + 2)
    turned = rope_in(np.tile(q, (len(offsets), 1)), offsets, "half")
    return (turned @ answer(q, offset)).argmax() == offset


def _only_fast(q, turned):
    first = np.arange(len(q)) % (len(q) // 2) == 0
    return np.where(first, turned, q)


PEAK = Exercise(
    name="rope-9",
    title="A peak at offset 37",
    kind="experiment",
    minutes=15,
    lines=1,
    statement=r"""
"RoPE prefers near tokens", people say.
Of all key vectors as long as the query vector `q`, `[d]`, float64, $d$ even and not all zero, find the one that has the largest score where query position minus key position is `offset`, for instance 37.
Use the half layout; `rope_in` of rope-3 helps.
Then draw or print the scores at the offsets 0 to 100 and look at your peak.
""",
    hint=r"""
The score at offset $r$ is $(R_r q) \cdot k$.
Which vector of given length has the largest inner product with $R_r q$?
""",
    cases=tuple((draw(d), offset) for d, offset in ((4, 1), (8, 37), (64, 500))),
    solution=key_for_peak,
    misconceptions=(
        Misconception(
            "This key peaks at the negative offset",
            "The peak is where the key comes after the query. The query will be "
            "turned by offset more than the key; what must the key have already?",
            lambda q, offset: key_for_peak(q, -offset),
        ),
        Misconception(
            "This key peaks at offset 0",
            "A copy of the query matches best where nothing is turned.",
            lambda q, offset: q.copy(),
        ),
        Misconception(
            "This key peaks at twice the offset",
            "Query and key do not share the work here: one turn by the offset is all.",
            lambda q, offset: key_for_peak(q, 2 * offset),
        ),
        Misconception(
            "This is the key for the interleaved layout",
            "The exercise's layout is half.",
            lambda q, offset: rope_in(q[None], np.array([offset]), "interleaved")[0],
        ),
        Misconception(
            "This key peaks one token further",
            "Offsets count from 0: the offset of a token to itself is 0.",
            lambda q, offset: key_for_peak(q, offset + 1),
        ),
        Misconception(
            "This key peaks one token nearer",
            "Offsets count from 0: the offset of a token to itself is 0.",
            lambda q, offset: key_for_peak(q, offset - 1),
        ),
        Misconception(
            "This key has length 1",
            "It is to be as long as q.",
            lambda q, offset: key_for_peak(q, offset) / np.linalg.norm(q),
        ),
        Misconception(
            "This key has its lowest score there",
            "The inner product is largest with the vector of the same direction.",
            lambda q, offset: -key_for_peak(q, offset),
        ),
        Misconception(
            "This is the interleaved layout, and turns the wrong way",
            "The exercise's layout is half, and the key must be where the query "
            "will be.",
            lambda q, offset: rope_in(q[None], np.array([-offset]), "interleaved")[0],
        ),
        Misconception(
            "Only one pair is turned",
            "All pairs have their largest product at once: each must stand where "
            "its query's pair will be.",
            lambda q, offset: _only_fast(q, key_for_peak(q, offset)),
        ),
        Misconception(
            "This key peaks at half of the offset",
            "Query and key do not share the work here: the key is turned by the "
            "whole offset.",
            lambda q, offset: key_for_peak(q, offset / 2),
        ),
        Misconception(
            "This is the query, of length 1",
            "It peaks at offset 0, and is to be as long as q.",
            lambda q, offset: q / np.linalg.norm(q),
        ),
    ),
    properties=(
        Property(
            "The key must be as long as the query",
            lambda answer, q, offset: np.isclose(
                np.linalg.norm(answer(q, offset)), np.linalg.norm(q)
            ),
        ),
        Property("Of all offsets, the score is largest at the given one", _peaks_there),
    ),
)


# rope-10: random scores do not decay


def spread(q, k, offset):
    """The standard deviation of the scores at this offset: a number."""
    turned = rope_in(q, np.full(len(q), offset), "half")
    scores = (turned * k).sum(axis=1)
    return scores.std()


def _turned(q, offset):
    return rope_in(q, np.full(len(q), offset), "half")


def _spread_over_positions(q, k, offset):
    turned = rope_in(q, np.arange(len(q)), "half")
    return (turned * k).sum(axis=1).std()


def _deviation(size):
    """Another ``size`` of the scores than their standard deviation."""
    return lambda q, k, offset: size((_turned(q, offset) * k).sum(axis=1))


SPREAD = Exercise(
    name="rope-10",
    title="Do random scores decay?",
    kind="experiment",
    minutes=15,
    lines=3,
    statement=r"""
`q` and `k`, both float64, `[samples, d]`, $d$ even, hold random queries and keys; sample $n$ is the pair `q[n]`, `k[n]`.
Return the standard deviation (NumPy's `std`) over the samples of the score when the query stands `offset` tokens after the key (half layout, no scaling).
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
            "The offset does not act",
            "These are the scores at offset 0: nothing is turned, or query and key are "
            "turned alike. The query stands offset tokens after the key.",
            lambda q, k, offset: spread(q, k, 0),
        ),
        Misconception(
            "Token n is turned by n",
            "The rows are samples, not positions: all of them have the same offset.",
            _spread_over_positions,
        ),
        Misconception(
            "This is the mean score",
            "The mean is near 0 at every offset. How far scores scatter about it is "
            "the question.",
            lambda q, k, offset: (_turned(q, offset) * k).sum(axis=1).mean(),
        ),
        Misconception(
            "This is the spread of the products of single features",
            "A score is the sum over features; sum before you take the deviation.",
            lambda q, k, offset: (_turned(q, offset) * k).std(),
        ),
        Misconception(
            "All queries meet all keys",
            "Sample n is the pair q[n], k[n].",
            lambda q, k, offset: (_turned(q, offset) @ k.T).std(),
        ),
        Misconception(
            "The key stands after the query",
            "The query is the one that is further on.",
            lambda q, k, offset: spread(q, k, -offset),
        ),
        Misconception(
            "This is the variance",
            "The standard deviation is its square root.",
            lambda q, k, offset: spread(q, k, offset) ** 2,
        ),
        Misconception(
            "The scores are divided by √d",
            "The exercise asks for scores without scaling.",
            lambda q, k, offset: spread(q, k, offset) / np.sqrt(q.shape[1]),
        ),
        Misconception(
            "The sum of squares is divided by samples − 1",
            "Divide by the number of samples, as np.std does by default.",
            lambda q, k, offset: spread(q, k, offset) * np.sqrt(len(q) / (len(q) - 1)),
        ),
        Misconception(
            "This is the interleaved layout",
            "The exercise's layout is half.",
            lambda q, k, offset: (
                (rope_in(q, np.full(len(q), offset), "interleaved") * k)
                .sum(axis=1)
                .std()
            ),
        ),
        Misconception(
            "The mean is not subtracted",
            "This is the root mean square. The standard deviation is about the mean.",
            _deviation(lambda s: np.sqrt((s**2).mean())),
        ),
        Misconception(
            "This is the mean absolute score",
            "The standard deviation is the root of the mean squared distance from "
            "the mean.",
            _deviation(lambda s: np.abs(s).mean()),
        ),
        Misconception(
            "This is the mean absolute deviation",
            "The standard deviation is the root of the mean *squared* distance from "
            "the mean.",
            _deviation(lambda s: np.abs(s - s.mean()).mean()),
        ),
        Misconception(
            "This is the largest minus the smallest",
            "NumPy's `std` is asked for.",
            _deviation(np.ptp),
        ),
        Misconception(
            "The offset is counted from 1",
            "A query at the key's own place has the offset 0.",
            lambda q, k, offset: spread(q, k, offset + 1),
        ),
        Misconception(
            "These are cosines of angles",
            "A score is an inner product; the lengths belong to it.",
            lambda q, k, offset: (
                (_turned(q, offset) * k).sum(axis=1)
                / np.linalg.norm(q, axis=1)
                / np.linalg.norm(k, axis=1)
            ).std(),
        ),
        Misconception(
            "The sum runs over the samples",
            "A score is the sum over the features of one sample.",
            lambda q, k, offset: (_turned(q, offset) * k).sum(axis=0).std(),
        ),
        Misconception(
            "The scores are divided by d",
            "The exercise asks for scores without scaling.",
            lambda q, k, offset: spread(q, k, offset) / q.shape[1],
        ),
        Misconception(
            "The keys are turned by their numbers",
            "The rows are samples, not positions: leave the keys at position 0.",
            lambda q, k, offset: (
                (_turned(q, offset) * rope_in(k, np.arange(len(k)), "half"))
                .sum(axis=1)
                .std()
            ),
        ),
        Misconception(
            "Sample n is turned by n more",
            "The rows are samples, not positions: all of them have the same offset.",
            lambda q, k, offset: (
                (rope_in(q, offset + np.arange(len(q)), "half") * k).sum(axis=1).std()
            ),
        ),
    ),
)


SHEET = Sheet(
    title="RoPE",
    conventions=r"""
Positions, features and pairs count from 0, the frequency of pair p is base^(−2p/d) with base 10000, and every pair turns counter-clockwise.
""",
    exercises=(
        TURN,
        CLOCK,
        ROPE,
        WAVE,
        PARTIAL,
        CONVERT,
        COSINES,
        DECODE,
        PEAK,
        SPREAD,
    ),
)
