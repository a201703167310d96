"""Exercises on context extension: PI, NTK, YaRN."""

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

# context-extension-1: the base that slows the last pair


def larger_base(base, s, d):
    """Return RoPE's base that divides the slowest frequency by s, as an expression.

    ``base`` is the base without extension, ``d`` the head dimension.
    """
    return base * s ** (d / (d - 2))


_B, _S, _M = sp.symbols("b s m", positive=True)

LARGER = Exercise(
    name="context-extension-1",
    title="The base that slows the last pair",
    kind="by hand",
    minutes=10,
    lines=1,
    statement=r"""
On paper: RoPE has $\omega_p = \text{base}^{-2p/d}$ for $p = 0, \dots, d/2 - 1$.
Which new base divides the frequency of the slowest pair by exactly $s$?
Return a SymPy expression of `base`, `s` and `d`.
By how much is the frequency of the fastest pair divided?
""",
    hint=r"""
The slowest pair is $d/2 - 1$, not $d/2$.
What is its exponent?
""",
    cases=(
        (sp.Integer(16), sp.Integer(2), sp.Integer(4)),
        (_B, _S, sp.Integer(8)),
        (_B, _S, 2 + 2 * _M),
    ),
    solution=larger_base,
    misconceptions=(
        Misconception(
            "Base times the factor",
            "The slowest pair's exponent is −(d − 2)/d, not −1.",
            lambda base, s, d: base * s,
        ),
        Misconception(
            "Exponent upside down",
            "You need the inverse of the slowest pair's exponent, so d stands in the "
            "numerator.",
            lambda base, s, d: base * s ** ((d - 2) / d),
        ),
        Misconception(
            "Wrong sign of the 2",
            "The slowest pair is d/2 − 1: the size of its exponent is below 1.",
            lambda base, s, d: base * s ** (d / (d + 2)),
        ),
        Misconception(
            "One pair too many",
            "Pairs count from 0, so the last is d/2 − 1, and 2p is d − 2.",
            lambda base, s, d: base * s ** (d / (d - 1)),
        ),
        Misconception(
            "Factor squared",
            "The square of s is right only for d = 4.",
            lambda base, s, d: base * s**2,
        ),
        Misconception(
            "d/2 as the exponent",
            "d/2 is right only for d = 4. To which power of the base is the slowest "
            "frequency equal?",
            lambda base, s, d: base * s ** (d / 2),
        ),
        Misconception(
            "A smaller base",
            "With a smaller base slow pairs become faster.",
            lambda base, s, d: base / s ** (d / (d - 2)),
        ),
        Misconception(
            "Whole product raised to the power",
            "Only the factor s is raised to the power. The base keeps its own.",
            lambda base, s, d: (base * s) ** (d / (d - 2)),
        ),
        Misconception(
            "Factor in place of the base",
            "Your answer is the factor. Multiply the base by it.",
            lambda base, s, d: s ** (d / (d - 2)),
        ),
        Misconception(
            "New frequency in place of the base",
            "The base is asked for.",
            lambda base, s, d: base ** (-(d - 2) / d) / s,
        ),
        Misconception(
            "Factor added",
            "Frequencies are powers of the base, so a factor of a frequency becomes a "
            "factor of the base.",
            lambda base, s, d: base + s ** (d / (d - 2)),
        ),
        Misconception(
            "Exponent 2/(d − 2)",
            "Solve base'^(−(d − 2)/d) = base^(−(d − 2)/d)/s: s has the exponent d/(d − "
            "2).",
            lambda base, s, d: base * s ** (sp.Integer(2) / (d - 2)),
        ),
        Misconception(
            "Exponent 1 + 2/d",
            "These are the first two terms of d/(d − 2) = 1/(1 − 2/d), near it only "
            "for a large d.",
            lambda base, s, d: base * s ** ((d + 2) / d),
        ),
    ),
    properties=(
        Property(
            "A factor of 1 changes nothing",
            lambda answer, base, s, d: (
                sp.simplify(answer(base, sp.Integer(1), d) - base) == 0
            ),
        ),
    ),
    explanation=r"""
The slowest pair, $d/2 - 1$, has the frequency $\text{base}^{-(d-2)/d}$.
With a new base $b$ it must be $b^{-(d-2)/d} = \text{base}^{-(d-2)/d} / s$; raise both sides to the power $-d/(d-2)$, and $b = \text{base} \cdot s^{d/(d-2)}$.
The fastest pair is divided by 1: $\omega_0 = 1$ for every base.
{prf:ref}`The theorem on both ends of NTK-aware scaling <thm-ntk>` says this for all pairs; with {ref}`base times s <err-rotary-ntk-base>` the slowest pair is divided by less than $s$.
""",
)


# context-extension-2: pairs that meet new angles


def new_angles(omega, extended, trained, factor):
    """Return how many RoPE pairs meet an angle that training did not have: an int.

    ``omega`` are the frequencies in training, on ``trained`` tokens. The new text has
    ``factor`` times as many tokens and the frequencies ``extended``.
    """
    trained_arc = np.minimum(trained * omega, 2 * np.pi)
    extended_arc = np.minimum(factor * trained * extended, 2 * np.pi)
    return int((extended_arc > trained_arc * (1 + 1e-9)).sum())


def _counted(rule):
    return lambda omega, extended, trained, factor: int(
        rule(omega, extended, trained, factor).sum()
    )


_ROW = 10.0 ** -np.arange(0, 4, 0.5)
_NTK = _ROW * 4.0 ** (-np.arange(8) / 7)

NEW_ANGLES = Exercise(
    name="context-extension-2",
    title="Pairs that meet new angles",
    kind="NumPy",
    minutes=12,
    lines=3,
    statement=r"""
A head was trained with the frequencies `omega` on `trained` tokens, and reads `factor` times as many with the frequencies `extended`.
Positions are real numbers from 0: in training pair $p$ had all angles from 0 to `trained` $\cdot\, \omega_p$.
How many pairs meet an angle that they never met in training?
Angles that are equal up to one part in $10^9$ are not new.
How many are there for position interpolation, and for NTK-aware scaling?
""",
    hint=r"""
After a full turn no angle is new.
What is the longest arc that a pair can have met in training?
""",
    cases=(
        (np.array([1.0, 0.01]), np.array([1.0, 0.005]), 100, 4.0),
        (_ROW, _ROW / 4, 200, 4.0),
        (_ROW, _NTK, 200, 4.0),
        (_ROW, _ROW, 200, 4.0),
        (_ROW, np.where(_ROW > 0.05, _ROW, 0.0), 100, 4.0),
        (_ROW, np.where(_ROW > 0.05, _ROW, _ROW / 3), 50, 8.0),
        (_ROW, np.where(_ROW > 0.05, _ROW / 16, _ROW / 2), 1000, 16.0),
        (np.array([1.0, 0.02, 0.001]), np.array([0.5, 0.015, 0.001]), 200, 1.5),
        (np.array([0.01, 0.02, 0.04]), np.array([0.009, 0.02, 0.04]), 100, 5.0),
        (np.array([0.04, 0.004]), np.array([0.005, 0.0005]), 100, 4.0),
        (np.array([0.05]), np.array([0.04]), 100, 4.0),
        (_ROW, _ROW / 3, 100, 3.0),
        (np.full(2, 0.01), 0.0025 + np.array([2.5e-13, 2.5e-11]), 100, 4.0),
    ),
    solution=new_angles,
    misconceptions=(
        Misconception(
            "All pairs that never complete a turn",
            "If its frequency is divided by the whole factor, a pair stays within the "
            "angles of training.",
            _counted(lambda w, v, L, s: L * w < 2 * np.pi),
        ),
        Misconception(
            "All pairs slowed by less than the factor",
            "A pair that completed a turn in training has met all angles.",
            _counted(lambda w, v, L, s: s * v > w * (1 + 1e-9)),
        ),
        Misconception(
            "Circle forgotten",
            "Beyond 2π there are no new angles. Limit the angles of training to a full "
            "turn, and those of the longer text, too.",
            _counted(lambda w, v, L, s: s * v > np.minimum(w, 2 * np.pi / L)),
        ),
        Misconception(
            "Factor forgotten",
            "The longer text has `factor` times as many positions.",
            lambda w, v, L, s: new_angles(w, v, L, 1.0),
        ),
        Misconception(
            "Pairs without new angles counted",
            "The pairs that meet a new angle are asked for.",
            lambda w, v, L, s: len(w) - new_angles(w, v, L, s),
        ),
        Misconception(
            "Circle of half a turn",
            "Cosine and sine together repeat only after 2π.",
            _counted(
                lambda w, v, L, s: (
                    np.minimum(s * L * v, np.pi) > np.minimum(L * w, np.pi) * (1 + 1e-9)
                )
            ),
        ),
        Misconception(
            "Circle of one radian",
            "A full turn is 2π radians.",
            _counted(
                lambda w, v, L, s: (
                    np.minimum(s * L * v, 1) > np.minimum(L * w, 1) * (1 + 1e-9)
                )
            ),
        ),
        Misconception(
            "Exact comparison",
            "Division by the factor and multiplication by it again may change the last "
            "bit. Angles that are equal up to one part in a billion are not new.",
            _counted(
                lambda w, v, L, s: (
                    np.minimum(s * L * v, 2 * np.pi)
                    >= np.minimum(L * w, 2 * np.pi) * (1 - 1e-9)
                )
            ),
        ),
        Misconception(
            "Full turn asked of the longer text",
            "A pair must have completed its turn in training, not in the longer text.",
            _counted(
                lambda w, v, L, s: (s * L * v < 2 * np.pi) & (s * v > w * (1 + 1e-9))
            ),
        ),
        Misconception(
            "Old and new frequencies exchanged",
            "The model was trained with `omega`, and the longer text is read with "
            "`extended`.",
            lambda w, v, L, s: new_angles(v, w, L, s),
        ),
        Misconception(
            "Exact comparison of the angles",
            "Angles that are equal up to one part in a billion are not new.",
            _counted(lambda w, v, L, s: (v * s * L > w * L) & (w * L < 2 * np.pi)),
        ),
        Misconception(
            "Only the last angle tested",
            "The pair meets all angles on the way to the last one, too. After a full "
            "turn no angle is new.",
            _counted(lambda w, v, L, s: s * L * v % (2 * np.pi) > L * w * (1 + 1e-9)),
        ),
        Misconception(
            "Last whole position",
            "Positions are real numbers up to `trained`, not integers up to `trained` "
            "− 1.",
            _counted(
                lambda w, v, L, s: (
                    np.minimum((s * L - 1) * v, 2 * np.pi)
                    > np.minimum((L - 1) * w, 2 * np.pi) * (1 + 1e-9)
                )
            ),
        ),
        Misconception(
            "Last angles modulo 2π",
            "A pair meets all angles on the way to the last one. After a full turn it "
            "has met every angle, whatever the last one is.",
            _counted(
                lambda w, v, L, s: (
                    s * L * v % (2 * np.pi) > L * w % (2 * np.pi) * (1 + 1e-9)
                )
            ),
        ),
        Misconception(
            "Tolerance too wide",
            "`np.isclose` takes numbers as equal up to one part in 10⁵ by default. "
            "Here it is one part in 10⁹.",
            _counted(
                lambda w, v, L, s: (
                    lambda old, new: (new > old) & ~np.isclose(new, old)
                )(np.minimum(L * w, 2 * np.pi), np.minimum(s * L * v, 2 * np.pi))
            ),
        ),
        Misconception(
            "All pairs slowed by less than the factor, with a wide tolerance",
            "A pair that completed a turn in training has met all angles. And "
            "`np.isclose` is too wide: numbers are equal up to one part in 10⁹.",
            _counted(lambda w, v, L, s: (s * v > w) & ~np.isclose(w, s * v)),
        ),
    ),
    properties=(
        Property(
            "In a text of the old length no angle is new",
            lambda answer, omega, extended, trained, factor: (
                answer(omega, omega, trained, 1.0) == 0
            ),
        ),
    ),
    tolerance=0.0,
    explanation=r"""
Position interpolation has none: all frequencies are divided by the factor, so each pair's longest arc stays what it was.
NTK-aware scaling divides only the slowest pair by the whole factor: of the pairs that made no full turn in training, all but the last meet new angles, 3 of 4 for the 8 pairs and 200 tokens of the check.
Pairs that have made a full turn have had the whole circle, and no angle is new to them.
This is {prf:ref}`the theorem on new angles <thm-maps-new>`.
""",
    prediction=Prediction(
        "A head has 8 pairs, 4 of which make no full turn in 200 tokens. NTK-aware scaling extends it to 800 tokens. How many pairs meet new angles?",
        lambda: new_angles(_ROW, _NTK, 200, 4.0),
    ),
)


# context-extension-3: YaRN in its authors' code


def yarn_frequencies(d, base, trained, factor):
    """Return YaRN's frequencies as in its authors' code, [d // 2], float64.

    ``d`` is the head dimension, ``base`` RoPE's base, ``trained`` the length of text in
    training, and ``factor`` how many times as long texts become.
    """
    p = np.arange(d // 2)
    omega = base ** (-2 * p / d)
    at = [
        d * np.log(trained / (2 * np.pi * r)) / (2 * np.log(base)) for r in (32.0, 1.0)
    ]
    first, last = np.clip([np.floor(at[0]), np.ceil(at[1])], 0, d - 1)
    gamma = 1 - np.clip((p - first) / (last - first), 0, 1)
    return (1 - gamma) * omega / factor + gamma * omega


def _yarn(
    ends=(np.floor, np.ceil),
    hold=lambda d: (0, d - 1),
    turn=2 * np.pi,
    times=2,
    blend=lambda g, w, s: (1 - g) * w / s + g * w,
    turns=(32.0, 1.0),
    ramp=None,
    length=lambda trained, factor: trained,
    longer=0,
):
    """Make a wrong answer (a function) to the exercise ``yarn_frequencies``.

    The exercise asks for YaRN's frequencies. Some steps of the answer can be wrong;
    with the defaults all are right. ``ends`` round the two ends of the ramp, and
    ``hold(d)`` are the bounds of the ends. ``turn``, ``times`` and ``turns`` are
    numbers in the formula of the ends. ``ramp`` maps a pair's turns in training to
    gamma, the share of the unscaled frequency ω in the new one (None: gamma falls along
    the ramp), and ``blend(gamma, omega, factor)`` is the new frequency.
    ``length(trained, factor)`` replaces the length of training, and the ramp is
    ``longer`` pairs too long.
    """

    def answer(d, base, trained, factor):
        p = np.arange(d // 2)
        omega = base ** (-2 * p / d)
        trained = length(trained, factor)
        at = [d * np.log(trained / (turn * r)) / (times * np.log(base)) for r in turns]
        first, last = (f(x) for f, x in zip(ends, at, strict=True))
        if hold is not None:
            first, last = np.clip([first, last], *hold(d))
        across = last - first + longer or 1e-3  # as in the authors' code
        gamma = 1 - np.clip((p - first) / across, 0, 1)
        if ramp is not None:
            gamma = ramp(trained * omega / (2 * np.pi))
        return blend(gamma, omega, factor)

    return answer


def _ramp_not_held(d, base, trained, factor):
    p = np.arange(d // 2)
    omega = base ** (-2 * p / d)
    turns = np.array([32.0, 1.0])
    at = d * np.log(trained / (2 * np.pi * turns)) / (2 * np.log(base))
    first, last = np.clip([np.floor(at[0]), np.ceil(at[1])], 0, d - 1)
    gamma = 1 - (p - first) / (last - first)
    return (1 - gamma) * omega / factor + gamma * omega


YARN = Exercise(
    name="context-extension-3",
    title="YaRN in its authors' code",
    kind="NumPy",
    minutes=18,
    lines=6,
    statement=r"""
A head has `d` features and the base `base`, was trained on `trained` tokens and is to read `factor` times as many.
Return YaRN's frequencies $(1 - \gamma_p)\, \omega_p/s + \gamma_p\, \omega_p$ as its authors' code computes them, from the fastest pair on.
The pair that makes $r$ full turns in training has the index $D(r) = d \log(L/2\pi r)/(2 \log \text{base})$.
The ramp $\gamma$ falls from 1 at $\lfloor D(32) \rfloor$ to 0 at $\lceil D(1) \rceil$ and is linear in the index.
Both ends are first clamped between 0 and $d - 1$.
(The code has $d - 1$, though there are only $d/2$ pairs, and clamps the first end only at 0 and the last only at $d - 1$, which is the same here.
Where the clamped ends are equal, the code adds 0.001 to the last; here they always differ.)
""",
    hint=r"""
`np.clip` clamps the ends, and the ramp too.
""",
    cases=(
        (8, 10000.0, 4096, 2.0),
        (16, 10000.0, 4096, 4.0),
        (64, 500000.0, 8192, 32.0),
        (8, 10000.0, 2011, 2.0),
        (16, 10000.0, 100, 4.0),
        (16, 10.0, 600, 8.0),
        (128, 10000.0, 4096, 4.0),
    ),
    solution=yarn_frequencies,
    misconceptions=(
        Misconception(
            "Ramp of the paper",
            "Your ramp is linear in the number of turns. The code's ramp is linear in "
            "the index.",
            _yarn(ramp=lambda r: np.clip((r - 1) / 31, 0, 1)),
        ),
        Misconception(
            "Ramp of Llama 3",
            "Your ramp is linear in the number of turns, from 1 to 4.",
            _yarn(ramp=lambda r: np.clip((r - 1) / 3, 0, 1)),
        ),
        Misconception(
            "Ramp not held at its ends",
            "Before the first end of the ramp γ stays 1, after the last it stays 0.",
            _ramp_not_held,
        ),
        Misconception(
            "Ramp upside down",
            "γ is 1 for fast pairs, which keep their frequencies.",
            _yarn(blend=lambda g, w, s: g * w / s + (1 - g) * w),
        ),
        Misconception(
            "Ends not rounded",
            "gpt-oss has unrounded ends, truncate=False. The authors' code rounds them "
            "outwards.",
            _yarn(ends=(lambda x: x, lambda x: x)),
        ),
        Misconception(
            "Ends rounded inwards",
            "Take the floor below and the ceiling above: the ramp becomes longer.",
            _yarn(ends=(np.ceil, np.floor)),
        ),
        Misconception(
            "Both ends rounded to the nearest",
            "Take the floor below and the ceiling above.",
            _yarn(ends=(np.round, np.round)),
        ),
        Misconception(
            "Both ends rounded down",
            "The upper end is a ceiling.",
            _yarn(ends=(np.floor, np.floor)),
        ),
        Misconception(
            "Ends not clamped",
            "An index below 0 or above d − 1 changes the ramp. Clamp the ends first.",
            _yarn(hold=None),
        ),
        Misconception(
            "Ends clamped at the last pair",
            "The last pair would be natural, but the code clamps at d − 1.",
            _yarn(hold=lambda d: (0, d // 2 - 1)),
        ),
        Misconception(
            "Missing 2π",
            "L/r is a wavelength, 2π/ω.",
            _yarn(turn=1.0),
        ),
        Misconception(
            "Missing 2 in the denominator",
            "ω_p is base^(−2p/d): the index is half of d times the logarithm.",
            _yarn(times=1),
        ),
        Misconception(
            "Wavelengths blended",
            "The average is of frequencies, not of wavelengths.",
            _yarn(blend=lambda g, w, s: w / ((1 - g) * s + g)),
        ),
        Misconception(
            "Logarithms blended",
            "The average is of frequencies, not of their logarithms.",
            _yarn(blend=lambda g, w, s: w * s ** (g - 1)),
        ),
        Misconception(
            "Slow pairs with frequency 0",
            "The frequencies of slow pairs are divided by the factor.",
            _yarn(blend=lambda g, w, s: g * w),
        ),
        Misconception(
            "Frequencies times the attention factor",
            "The attention factor 0.1 ln s + 1 multiplies cosines and sines, not "
            "frequencies.",
            _yarn(
                blend=lambda g, w, s: ((1 - g) * w / s + g * w) * (0.1 * np.log(s) + 1)
            ),
        ),
        Misconception(
            "A step in place of the ramp",
            "Between the ends γ falls linearly.",
            _yarn(ramp=lambda r: (r > 32).astype(float)),
        ),
        Misconception(
            "Ramp one pair too long",
            "γ is 0 *at* the last end, so the ramp is as long as the difference of "
            "the ends.",
            _yarn(longer=1),
        ),
        Misconception(
            "π r multiplied",
            "In D(r), L is divided by 2πr. `L / 2 * np.pi * r` divides by 2 alone.",
            _yarn(turns=(1 / 32, 1.0), turn=2 / np.pi),
        ),
        Misconception(
            "Ends exchanged",
            "The ramp begins at the pair with 32 full turns, the faster one, and ends "
            "at the pair with one turn.",
            _yarn(turns=(1.0, 32.0)),
        ),
        Misconception(
            "Length of the new text",
            "L is the length of training, in which the pair makes r full turns.",
            _yarn(length=lambda trained, factor: trained * factor),
        ),
    ),
    properties=(
        Property(
            "A factor of 1 gives RoPE's frequencies",
            lambda answer, d, base, trained, factor: bool(
                np.allclose(
                    answer(d, base, trained, 1.0), base ** (-np.arange(0, d, 2) / d)
                )
            ),
        ),
    ),
    level="hard",
    explanation=r"""
Fast pairs, with 32 full turns or more in training, keep their frequency; slow pairs, without a full turn, are divided by the factor; between them the ramp falls by equal steps of the index.
The formula in the paper is linear in the number of turns instead, {ref}`another ramp with the same ends <err-rotary-yarn-ramp>`: if a model was tuned with one ramp and is run with the other, its frequencies change, by a factor of up to about three for 128 features, 4096 tokens and a factor of 16.
Rounding outwards makes the ramp a little wider, and the clamp matters for short trainings and small bases.
{prf:ref}`The definition of the ramp <def-ramps-box>` has both ramps.
""",
)


# context-extension-4: rotate cached keys to new frequencies


def rerotate(keys, positions, old, new):
    """Return cached keys as if rotated by the new frequencies, [tokens, d].

    ``keys``, [tokens, d], were rotated at ``positions``, [tokens], by the frequencies
    ``old``; ``old`` and ``new`` are [d/2].
    """
    angle = positions[:, None] * (new - old)
    a, b = keys.chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def _rerotate_by(angle_of):
    """Make a wrong answer (a function) to the exercise ``rerotate``.

    The exercise asks for cached keys as if rotated by new frequencies. In the wrong
    answer, the cached keys are rotated by ``angle_of(positions, old, new)`` in place of
    positions · (new − old), where ``old`` and ``new`` are the frequencies.
    """

    def answer(keys, positions, old, new):
        angle = angle_of(positions[:, None], old, new)
        a, b = keys.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)

    return answer


def _interleaved(keys, positions, old, new):
    angle = positions[:, None] * (new - old)
    a, b = keys[..., ::2], keys[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def _no_minus(keys, positions, old, new):
    angle = positions[:, None] * (new - old)
    a, b = keys.chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((a * cos + b * sin, a * sin + b * cos), dim=-1)


def _cached(tokens, d, start=0, seed=0):
    keys = torch.tensor(draw(tokens, d, seed=seed))
    old = torch.tensor(0.7 ** np.arange(1.0, d // 2 + 1))
    new = old * torch.tensor(1 / np.linspace(1.5, 3, d // 2))
    return keys, torch.arange(start, start + tokens, dtype=torch.float64), old, new


REROTATE = Exercise(
    name="context-extension-4",
    title="Rotate cached keys to new frequencies",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
`keys`, `[tokens, d]`, were rotated at `positions` by the frequencies `old`, `[d // 2]`, in the half layout: pair $p$ is the features $p$ and $p + d/2$.
The text has grown, and the frequencies are now `new`.
Return the keys as if `new` had rotated them, without undoing the old rotation first.
Then try it with NTK: how far from right were the cached keys?
""",
    hint=r"""
Rotations of a plane add their angles.
Which angle is missing?
""",
    cases=(_cached(2, 2, start=1), _cached(3, 4, start=2), _cached(5, 8, start=40)),
    solution=rerotate,
    misconceptions=(
        Misconception(
            "Rotation in the wrong direction",
            "The keys are already rotated by `old`. The missing frequencies are new "
            "minus old.",
            _rerotate_by(lambda i, old, new: i * (old - new)),
        ),
        Misconception(
            "New rotation on top of the old one",
            "The cached keys are already rotated by `old`.",
            _rerotate_by(lambda i, old, new: i * new),
        ),
        Misconception(
            "Old rotation undone, and no new one",
            "Your keys are those before any rotation.",
            _rerotate_by(lambda i, old, new: -i * old),
        ),
        Misconception(
            "New rotation undone",
            "The cached keys were rotated by `old`.",
            _rerotate_by(lambda i, old, new: -i * new),
        ),
        Misconception(
            "Interleaved layout",
            "In the half layout pair p is the features p and p + d/2.",
            _interleaved,
        ),
        Misconception(
            "Missing minus sign",
            "In a rotation one of the two sines has a minus sign.",
            _no_minus,
        ),
        Misconception(
            "Positions left out",
            "The missing angle grows with the position.",
            _rerotate_by(lambda i, old, new: torch.ones_like(i) * (new - old)),
        ),
        Misconception(
            "Last position for all keys",
            "Each key was rotated at its own position.",
            _rerotate_by(
                lambda i, old, new: i.max() * (new - old) * torch.ones_like(i)
            ),
        ),
        Misconception(
            "Index in the cache as the position",
            "The cache may begin at any position: use `positions`.",
            _rerotate_by(
                lambda i, old, new: torch.arange(len(i))[:, None] * (new - old)
            ),
        ),
        Misconception(
            "Positions counted from 1",
            "Use `positions` as they are.",
            _rerotate_by(lambda i, old, new: (i + 1) * (new - old)),
        ),
        Misconception(
            "Distances from the end",
            "The angle of a key has its position as a factor, not its distance from "
            "the query.",
            _rerotate_by(lambda i, old, new: (i.max() - i) * (new - old)),
        ),
        Misconception(
            "Quotient of the frequencies",
            "Angles are added, so frequencies are subtracted.",
            _rerotate_by(lambda i, old, new: i * (new / old)),
        ),
        Misconception(
            "Half of the angle",
            "The half belongs to the length of a chord, 2 sin(x/2), not to the "
            "rotation.",
            _rerotate_by(lambda i, old, new: i * (new - old) / 2),
        ),
        Misconception(
            "Slowest pair first",
            "The frequencies have the order of the pairs.",
            _rerotate_by(lambda i, old, new: i * (new - old).flip(0)),
        ),
    ),
    properties=(
        Property(
            "Lengths stay the same",
            lambda answer, keys, positions, old, new: bool(
                torch.allclose(
                    answer(keys, positions, old, new).norm(dim=-1), keys.norm(dim=-1)
                )
            ),
        ),
    ),
    explanation=r"""
The key at position $m$ was rotated by $m\,\omega_p$ and must be rotated by $m\,\tilde\omega_p$: only $m\,(\tilde\omega_p - \omega_p)$ is missing, in every plane.
A stale pair was off by $2\,|\sin(\tfrac12 m (\omega_p - \tilde\omega_p))|$ of its length, which is up to twice the length for pairs that are half a turn away; with NTK, a factor of 4, $d = 64$ and base 10 000 some pairs are half a turn off at positions below 100.
{prf:ref}`The theorem on stale keys <thm-cache-stale>` says what this does to scores, and that this rotation corrects it.
""",
)


# context-extension-5: how stale a key is


def stale_angles(omega, position, length_then, length, trained):
    """Return by how many radians a cached key is ahead of one rotated now, [pairs].

    The key at ``position`` was rotated by dynamic NTK when the text had ``length_then``
    tokens; now the text has ``length`` tokens. ``trained`` is the length in training,
    and ``omega``, [pairs], are the frequencies there.
    """
    slowest = len(omega) - 1
    old, new = (
        omega * (max(n, trained) / trained) ** (-np.arange(len(omega)) / slowest)
        for n in (length_then, length)
    )
    return position * (old - new)


def _stale(
    factor=lambda n, L: max(n, L) / L,
    power=lambda n: -np.arange(n) / (n - 1),
    position=lambda j, length_then, length, L: j,
    caching_length=lambda n, L: n,
    sign=1.0,
):
    """Make a wrong answer (a function) to the exercise ``stale_angles``.

    The exercise asks for the angles by which stale cached keys are ahead. Some steps of
    the answer can be wrong; with the defaults all are right. ``factor(n, trained)`` and
    ``power(pairs)`` are the base and the exponent of the scaling of frequencies at the
    length n. ``position`` replaces the key's position, ``caching_length`` the length of
    the text when the key was cached, and ``sign`` multiplies the angles.
    """

    def answer(omega, at, length_then, length, trained):
        old, new = (
            omega * factor(n, trained) ** power(len(omega))
            for n in (caching_length(length_then, trained), length)
        )
        return sign * position(at, length_then, length, trained) * (old - new)

    return answer


_SLOW = 16.0 ** (-np.arange(4) / 4)

STALE = Exercise(
    name="context-extension-5",
    title="How stale a key is",
    kind="NumPy",
    minutes=15,
    lines=5,
    statement=r"""
A decoder runs dynamic NTK as in the paper.
With $n$ tokens so far and $L$ = `trained`, pair $p$ of $P$ has $\omega_p\, s^{-p/(P - 1)}$ with $s = \max(n, L)/L$.
A key at `position` was rotated and cached when there were `length_then` tokens.
Now there are `length`.
Return, for each pair, the angle by which the cached key is *ahead* of a key that is rotated now, in radians, not reduced by full turns.
With 32 pairs of base 10 000, which pair is the worst, and why is it neither the first nor the last?
""",
    hint=r"""
There are two factors, one for the time of caching and one for now.
""",
    cases=(
        (np.array([1.0, 0.25]), 10, 11, 22, 11),
        (_SLOW, 63, 64, 96, 64),
        (_SLOW, 70, 80, 128, 64),
        (_SLOW, 5, 6, 64, 64),
        (10000.0 ** (-np.arange(32) / 32), 4095, 4200, 16384, 4096),
    ),
    solution=stale_angles,
    misconceptions=(
        Misconception(
            "Angle behind in place of ahead",
            "The old frequencies were faster: the cached key has been rotated too far.",
            _stale(sign=-1.0),
        ),
        Misconception(
            "No stale keys from before the trained length",
            "Such a key was rotated by plain RoPE, and the frequencies have changed "
            "since.",
            lambda omega, position, length_then, length, trained: (
                np.zeros_like(omega)
                if length_then <= trained
                else stale_angles(omega, position, length_then, length, trained)
            ),
        ),
        Misconception(
            "Plain RoPE for every cached key",
            "If there were more than L tokens when the key was cached, its frequencies "
            "were already lower.",
            _stale(caching_length=lambda n, L: L),
        ),
        Misconception(
            "Number of tokens in place of the position",
            "The angle of a key has its position as a factor.",
            _stale(position=lambda j, length_then, length, L: length_then),
        ),
        Misconception(
            "Distance in place of the position",
            "The error grows with the key's position. The query is rotated by the new "
            "frequencies alone.",
            _stale(position=lambda j, length_then, length, L: length - j),
        ),
        Misconception(
            "Length in place of the position",
            "The angle of a key has its own position as a factor.",
            _stale(position=lambda j, length_then, length, L: length),
        ),
        Misconception(
            "Missing maximum",
            "Texts shorter than L are read by plain RoPE.",
            _stale(factor=lambda n, L: n / L),
        ),
        Misconception(
            "Position interpolation",
            "NTK divides each pair's frequency by a power of the factor, and only the "
            "last by the whole factor.",
            _stale(power=lambda n: -np.ones(n)),
        ),
        Misconception(
            "Exponent p/P",
            "The slowest pair is P − 1, and its frequency is divided by the whole "
            "factor.",
            _stale(power=lambda n: -np.arange(n) / n),
        ),
        Misconception(
            "Pairs from 1",
            "The fastest pair has p = 0, and keeps its frequency.",
            _stale(power=lambda n: -(np.arange(n) + 1) / n),
        ),
        Misconception(
            "Multiplied by the factor",
            "Frequencies become lower: the exponent is negative.",
            _stale(power=lambda n: np.arange(n) / (n - 1)),
        ),
        Misconception(
            "Reduced by full turns",
            "Return the angle as it is, not modulo 2π.",
            lambda *case: np.remainder(stale_angles(*case), 2 * np.pi),
        ),
        Misconception(
            "Full turns in place of radians",
            "Radians are asked for.",
            lambda *case: stale_angles(*case) / (2 * np.pi),
        ),
        Misconception(
            "New angle in place of the difference",
            "The angle by which the key is ahead is asked for, not the angle that it "
            "should have.",
            lambda omega, position, length_then, length, trained: (
                position * omega
                - stale_angles(omega, position, trained, length, trained)
            ),
        ),
        Misconception(
            "Position in place of the number of tokens",
            "`length_then` says how many tokens there were. The key's position is only "
            "one of theirs.",
            lambda omega, at, length_then, *rest: stale_angles(omega, at, at, *rest),
        ),
        Misconception(
            "Position forgotten",
            "The difference of the frequencies is an angle per position: multiply by "
            "the position.",
            _stale(position=lambda j, length_then, length, L: 1),
        ),
        Misconception(
            "Ratio of the lengths",
            "The cached key was rotated with a factor of its own, max(n, L)/L at that "
            "time, which need not be 1.",
            lambda omega, j, length_then, length, L: (
                j
                * omega
                * (
                    1
                    - (length / length_then)
                    ** (-np.arange(len(omega)) / (len(omega) - 1))
                )
            ),
        ),
        Misconception(
            "Factor 2 in the exponent",
            "The exponent is p/(P − 1), which is 1 for the last pair.",
            _stale(power=lambda n: -2 * np.arange(n) / (n - 1)),
        ),
        Misconception(
            "Factor rounded down",
            "The factor is a quotient of real numbers: `/`, not `//`.",
            _stale(factor=lambda n, L: float(max(n, L) // L)),
        ),
    ),
    properties=(
        Property(
            "The fastest pair is never stale",
            lambda answer, omega, position, length_then, length, trained: (
                abs(answer(omega, position, length_then, length, trained)[0]) < 1e-9
            ),
        ),
    ),
    explanation=r"""
The angle is the position times the difference of two frequencies, $\omega_p\,(s_{\text{then}}^{-p/(P-1)} - s_{\text{now}}^{-p/(P-1)})$.
The first pair never changes, since its exponent is 0; the last changes by the whole factor, but its frequency is so small that little comes of it.
Between them the two effects balance: for a key at 4095 that was cached at 4200 tokens and is read at 16,384, with 32 pairs of base 10 000 and 4096 trained tokens, pair 3 is the worst, 213 radians or 34 turns ahead.
{prf:ref}`The theorem on stale keys <thm-cache-stale>` turns these angles into errors of scores.
""",
)


# context-extension-6: an error and its bounds


def error_and_bound(d, base):
    """Return the error of linear interpolation of a score, and a bound on the error.

    Both are floats. The score at the offset t, Σ cos ω t over RoPE's frequencies ω for
    head dimension ``d`` and base ``base``, is interpolated half way between the offsets
    0 and 1.
    """
    omega = base ** (-np.arange(0, d, 2) / d)
    ends = (len(omega) + np.cos(omega).sum()) / 2
    error = abs(np.cos(omega / 2).sum() - ends)
    return float(error), float((1 + d / (4 * np.log(base))) / 8)


def _error(at=0.5, bound=None, line=True, pairs=None):
    """Make a wrong answer (a function) to the exercise ``error_and_bound``.

    The exercise asks for the error of interpolating a score, and a bound. Some steps of
    the answer can be wrong; with the defaults all are right. ``at`` is the offset,
    ``bound(d, base)`` replaces the bound, and ``pairs(d, base)`` the frequencies.
    Without ``line`` the interpolated score is not subtracted from the score.
    """

    def answer(d, base):
        omega = base ** (-np.arange(0, d, 2) / d)
        if pairs is not None:
            omega = pairs(d, base)
        score, first, last = (np.cos(t * omega).sum() for t in (at, 0.0, 1.0))
        error = abs(score - ((1 - at) * first + at * last if line else 0.0))
        of = bound(d, base) if bound else (1 + d / (4 * np.log(base))) / 8
        return float(error), float(of)

    return answer


def _half_of_interval(d, base):
    omega = base ** (-np.arange(0, d, 2) / d)
    first, middle, last = (np.cos(t * omega).sum() for t in (0.0, 0.25, 0.5))
    return float(abs(middle - (first + last) / 2)), error_and_bound(d, base)[1]


ERROR = Exercise(
    name="context-extension-6",
    title="An error and its bound",
    kind="experiment",
    minutes=12,
    lines=4,
    statement=r"""
All products of a query's and a key's pairs are 1, so the score at offset $t$ is $a(t) = \sum_p \cos(t\, \omega_p)$ with $\omega_p = \text{base}^{-2p/d}$.
Half way between the offsets 0 and 1, how far is $a$ from the straight line through $a(0)$ and $a(1)$?
And what does the bound $\frac{(t - t_1)(t_2 - t)}{2} \bigl( 1 + \frac{d}{4 \log \text{base}} \bigr)$ allow?
Return both as a tuple of floats, `(error, bound)`.
Then, for $d$ = 128 and base 10 000, print the bound without the 1 next to them.
""",
    hint=r"""
$(t - t_1)(t_2 - t)$ is ¼ in the middle.
""",
    cases=((2, 10.0), (4, 100.0), (64, 10000.0), (128, 500000.0)),
    solution=error_and_bound,
    misconceptions=(
        Misconception(
            "Bound of the paper",
            "The 1 is missing: at d = 128 and base 10 000 the error is above the "
            "paper's bound.",
            _error(bound=lambda d, b: d / (4 * np.log(b)) / 8),
        ),
        Misconception(
            "Bound not halved",
            "The error of a straight line has half of the second derivative as a "
            "factor.",
            _error(bound=lambda d, b: (1 + d / (4 * np.log(b))) / 4),
        ),
        Misconception(
            "Middle forgotten",
            "In the middle (t − t₁)(t₂ − t) is ¼.",
            _error(bound=lambda d, b: (1 + d / (4 * np.log(b))) / 2),
        ),
        Misconception(
            "Bound for a whole step",
            "In the middle both distances are ½.",
            _error(bound=lambda d, b: 1 + d / (4 * np.log(b))),
        ),
        Misconception(
            "The sum itself as the bound",
            "That bound is sharper, and right, but the bound with the logarithm is "
            "asked for.",
            _error(bound=lambda d, b: (b ** (-2 * np.arange(0, d, 2) / d)).sum() / 8),
        ),
        Misconception(
            "Logarithm to base 10",
            "The bound has the natural logarithm.",
            _error(bound=lambda d, b: (1 + d / (4 * np.log10(b))) / 8),
        ),
        Misconception(
            "Logarithm to base 2",
            "The bound has the natural logarithm.",
            _error(bound=lambda d, b: (1 + d / (4 * np.log2(b))) / 8),
        ),
        Misconception(
            "8 in place of 4",
            "The 8 of the paper already contains the factor ½.",
            _error(bound=lambda d, b: (1 + d / (8 * np.log(b))) / 8),
        ),
        Misconception(
            "A quarter of the way",
            "The error half way is asked for.",
            _error(at=0.25),
        ),
        Misconception(
            "Score in place of its error",
            "Subtract the straight line.",
            _error(line=False),
        ),
        Misconception(
            "Frequencies of d pairs",
            "There are d/2 pairs.",
            _error(pairs=lambda d, b: b ** (-np.arange(d) / d)),
        ),
        Misconception(
            "Error with its sign",
            "A distance is an absolute value. The cosines lie above their chord.",
            lambda d, base: (
                -error_and_bound(d, base)[0],
                error_and_bound(d, base)[1],
            ),
        ),
        Misconception(
            "Mean over the pairs",
            "A score is a sum.",
            lambda d, base: (
                2 * error_and_bound(d, base)[0] / d,
                error_and_bound(d, base)[1],
            ),
        ),
        Misconception(
            "Error and bound exchanged",
            "The error comes first.",
            lambda d, base: error_and_bound(d, base)[::-1],
        ),
        Misconception(
            "Distance from the first end",
            "Subtract the straight line, which is half way between both ends.",
            lambda d, base: (
                float((1 - np.cos(base ** (-np.arange(0, d, 2) / d) / 2)).sum()),
                error_and_bound(d, base)[1],
            ),
        ),
        Misconception(
            "Pairs counted from 1",
            "Pairs count from 0: the fastest has the frequency 1.",
            _error(pairs=lambda d, b: b ** (-2 * np.arange(1, d // 2 + 1) / d)),
        ),
        Misconception(
            "Half of the interval",
            "The line goes through a(0) and a(1), and the middle is at ½.",
            _half_of_interval,
        ),
        Misconception(
            "Whole division in the exponent",
            "The exponent is −2p/d with `/`. `//` rounds down to whole numbers.",
            _error(pairs=lambda d, b: b ** (-2 * np.arange(d // 2) // d)),
        ),
    ),
    properties=(
        Property(
            "The error is within the bound",
            lambda answer, d, base: answer(d, base)[0] <= answer(d, base)[1],
        ),
    ),
    level="optional",
    explanation=r"""
For $d = 64$ and base 10 000 the error is 0.26 and the bound allows 0.34; for $d = 128$ they are 0.46 and 0.56.
Without the 1 the bound for $d = 128$ would be 0.43, less than the error: {ref}`the bound as it was printed <err-rotary-pi-constant>` does not hold.
The 1 comes from the sum of the squared frequencies, a geometric series whose first term is 1: {prf:ref}`the theorem on the interpolation error <thm-pi-error>`.
""",
)


# context-extension-7: a text shorter than training


def colleagues_angles(
    omega,
    position,
    length_then,
    length,
    trained,
):
    """Return the angles by which a cached key is ahead.

    There is one for each pair.
    """
    share = np.arange(len(omega)) / (len(omega) - 1)
    then = (length_then / trained) ** -share
    now = (length / trained) ** -share
    return position * omega * (then - now)


def text_that_differs():
    """Return `(omega, position, length_then, length, trained)` that she has wrong."""
    return np.array([1.0, 0.5]), 1, 2, 3, 3


SHORT_TEXT = Exercise(
    name="context-extension-7",
    title="Find the input: stale keys",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_angles` should do what exercise context-extension-5 asks for.
Her three tests have `trained` = 8 and (`position`, `length_then`, `length`) = (5, 8, 12), (9, 10, 16) and (0, 1, 16); all pass.
Return `(omega, position, length_then, length, trained)` for which it is wrong, with the smallest `length`; `omega` is an array of at least two numbers between 0 and 1, 1 included, and `position` < `length_then` ≤ `length` are integers.
Which keys does she call stale that are not?
""",
    hint=r"""
Which part of $s = \max(n, L)/L$ has she left out, and when does it matter?
""",
    cases=((),),
    solution=text_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_angles,
        right=stale_angles,
        tested=(
            (np.array([1.0, 0.5]), 5, 8, 12, 8),
            (np.array([1.0, 0.5, 0.25]), 9, 10, 16, 8),
            (np.array([1.0, 0.5]), 0, 1, 16, 8),
        ),
        refusal=lambda omega, position, length_then, length, trained: (
            ""
            if omega.ndim == 1
            and 1 < len(omega) <= 64
            and omega.dtype == float
            and omega.min() > 0
            and omega.max() <= 1
            and all(type(n) is int for n in (position, length_then, length, trained))
            and 0 <= position < length_then <= length <= 10**6
            and 1 <= trained <= 10**6
            else "omega has two numbers or more, above 0 and at most 1, and 0 ≤ "
            "position < length_then ≤ length and trained are integers"
        ),
        size=lambda omega, position, length_then, length, trained: length,
        size_of="length",
    ),
    explanation=r"""
She leaves out the maximum: up to the trained length the factor is 1, and hers is below 1.
A key at position 0 is never rotated, so the key is at 1 or later, and there were at least 2 tokens when it was cached. With the same number of tokens now, neither formula gives a change, so `length` is at least 3.
Until the text is longer than the trained length, no cached key is stale; she nevertheless corrects those cached before it reached this length, which makes them wrong.
In each of her tests the key was cached at the trained length or later, or stood at position 0.
""",
)


SHEET = Sheet(
    title="Context extension: PI, NTK, YaRN",
    conventions=r"""
Pairs $p$ count from 0, the fastest first; $\omega_p = \text{base}^{-2p/d}$ in radians per position.
$L$ is the length of training, and $s$ is the factor by which texts grow.
""",
    example=r"""
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import pi

print(np.round(pi(frequencies(8), factor=4), 5))
""",
    figure="context_extension_explorable",
    exercises=(LARGER, NEW_ANGLES, YARN, REROTATE, STALE, ERROR, SHORT_TEXT),
)
