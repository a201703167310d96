"""The exercises on maps of RoPE's frequencies."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# context-extension-1: the base that slows the last pair


def larger_base(base, s, d):
    """The base, as an expression."""
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
Which base, put in its place, divides the frequency of the slowest pair by exactly $s$?
Return a SymPy expression of `base`, `s` and `d`.
By how much is the fastest pair divided?
""",
    hint=r"""
The slowest pair is $d/2 - 1$, not $d/2$: what is its exponent?
""",
    cases=(
        (sp.Integer(16), sp.Integer(2), sp.Integer(4)),
        (_B, _S, sp.Integer(8)),
        (_B, _S, 2 + 2 * _M),
    ),
    solution=larger_base,
    misconceptions=(
        Misconception(
            "The base times the factor",
            "The slowest exponent is −(d − 2)/d and not −1.",
            lambda base, s, d: base * s,
        ),
        Misconception(
            "Exponent rotated over",
            "The root of the slowest exponent is to be taken, so d stands above.",
            lambda base, s, d: base * s ** ((d - 2) / d),
        ),
        Misconception(
            "The sign of the 2 is wrong",
            "The slowest pair is d/2 − 1: its exponent is smaller than 1.",
            lambda base, s, d: base * s ** (d / (d + 2)),
        ),
        Misconception(
            "One pair too far",
            "Pairs count from 0, so the last is d/2 − 1, and 2p is d − 2.",
            lambda base, s, d: base * s ** (d / (d - 1)),
        ),
        Misconception(
            "The factor squared",
            "That is right for d = 4 alone.",
            lambda base, s, d: base * s**2,
        ),
        Misconception(
            "d/2 as the exponent",
            "That is right for d = 4 alone: of which power of the base is it the root?",
            lambda base, s, d: base * s ** (d / 2),
        ),
        Misconception(
            "A smaller base",
            "A smaller base makes slow pairs faster.",
            lambda base, s, d: base / s ** (d / (d - 2)),
        ),
        Misconception(
            "Whole product raised",
            "Only the factor is: the base has the power that it had.",
            lambda base, s, d: (base * s) ** (d / (d - 2)),
        ),
        Misconception(
            "What the base is multiplied by",
            "Multiply the base with it.",
            lambda base, s, d: s ** (d / (d - 2)),
        ),
        Misconception(
            "New frequency",
            "The base is asked for.",
            lambda base, s, d: base ** (-(d - 2) / d) / s,
        ),
        Misconception(
            "Factor added",
            "Frequencies are powers of the base: factors go with factors.",
            lambda base, s, d: base + s ** (d / (d - 2)),
        ),
        Misconception(
            "The exponent has 2p where d belongs",
            "Solve base'^(−(d − 2)/d) = base^(−(d − 2)/d)/s: the power of s is d/(d − 2).",
            lambda base, s, d: base * s ** (sp.Integer(2) / (d - 2)),
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
)


# context-extension-2: who meets new angles


def new_angles(omega, slower, trained, factor):
    """How many pairs meet an angle that they did not meet in training, an int."""
    seen = np.minimum(trained * omega, 2 * np.pi)
    asked = np.minimum(factor * trained * slower, 2 * np.pi)
    return int((asked > seen * (1 + 1e-9)).sum())


def _counted(rule):
    return lambda omega, slower, trained, factor: int(
        rule(omega, slower, trained, factor).sum()
    )


_ROW = 10.0 ** -np.arange(0, 4, 0.5)
_NTK = _ROW * 4.0 ** (-np.arange(8) / 7)

NEW_ANGLES = Exercise(
    name="context-extension-2",
    title="Who meets new angles",
    kind="NumPy",
    minutes=12,
    lines=3,
    statement=r"""
`omega` are a head's frequencies, with which it was trained on `trained` tokens, and `slower` those with which it shall read `factor` times as many.
Positions are real numbers from 0: pair $p$ was at all angles from 0 to `trained` $\cdot\, \omega_p$.
How many pairs meet an angle that they never met? Return an `int`; what is the same up to one in $10^9$ is not new.
Predict first, for position interpolation and for NTK-aware scaling.
""",
    hint=r"""
After a full turn there is nothing new under the sun: what is the longest arc a pair can have seen?
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
    ),
    solution=new_angles,
    misconceptions=(
        Misconception(
            "Every pair that never completes a turn",
            "If it is slowed by the whole factor, it stays within what it met.",
            _counted(lambda w, v, L, s: L * w < 2 * np.pi),
        ),
        Misconception(
            "Every pair that slowed by less than the factor",
            "A pair that completed a turn has met all angles.",
            _counted(lambda w, v, L, s: s * v > w * (1 + 1e-9)),
        ),
        Misconception(
            "Circle forgotten",
            "Beyond 2π there are no new angles: hold what it saw at a full turn, and "
            "what it is asked, too.",
            _counted(lambda w, v, L, s: s * v > np.minimum(w, 2 * np.pi / L)),
        ),
        Misconception(
            "Factor forgotten",
            "The longer text has factor times as many positions.",
            lambda w, v, L, s: new_angles(w, v, L, 1.0),
        ),
        Misconception(
            "Known counted",
            "Those that meet a new angle are asked for.",
            lambda w, v, L, s: len(w) - new_angles(w, v, L, s),
        ),
        Misconception(
            "Half a turn is the circle",
            "Cosine and sine together repeat after 2π.",
            _counted(
                lambda w, v, L, s: (
                    np.minimum(s * L * v, np.pi) > np.minimum(L * w, np.pi) * (1 + 1e-9)
                )
            ),
        ),
        Misconception(
            "One radian is a turn",
            "A turn is 2π radians.",
            _counted(
                lambda w, v, L, s: (
                    np.minimum(s * L * v, 1) > np.minimum(L * w, 1) * (1 + 1e-9)
                )
            ),
        ),
        Misconception(
            "Rounding taken for news",
            "Divided by the factor and multiplied by it again is the same, up to one "
            "in a billion.",
            _counted(
                lambda w, v, L, s: (
                    np.minimum(s * L * v, 2 * np.pi)
                    >= np.minimum(L * w, 2 * np.pi) * (1 - 1e-9)
                )
            ),
        ),
        Misconception(
            "Turns of the longer text",
            "What counts is how far it went in training, not how far it goes now.",
            _counted(
                lambda w, v, L, s: (s * L * v < 2 * np.pi) & (s * v > w * (1 + 1e-9))
            ),
        ),
        Misconception(
            "Old and new exchanged",
            "omega was trained, slower is asked.",
            lambda w, v, L, s: new_angles(v, w, L, s),
        ),
        Misconception(
            "Rounding is news",
            "What is the same up to one in a billion is not new.",
            _counted(lambda w, v, L, s: (v * s * L > w * L) & (w * L < 2 * np.pi)),
        ),
        Misconception(
            "Only the last angle looked at",
            "All angles on the way to it are met, too: after a full turn none is left.",
            _counted(lambda w, v, L, s: s * L * v % (2 * np.pi) > L * w * (1 + 1e-9)),
        ),
    ),
    properties=(
        Property(
            "Nothing is new in a text of the old length",
            lambda answer, omega, slower, trained, factor: (
                answer(omega, omega, trained, 1.0) == 0
            ),
        ),
    ),
    tolerance=0.0,
)


# context-extension-3: YaRN as it runs


def yarn_rows(d, base, trained, factor):
    """The frequencies, [d // 2], float64."""
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
):
    """With another end, blend or ramp."""

    def answer(d, base, trained, factor):
        p = np.arange(d // 2)
        omega = base ** (-2 * p / d)
        at = [d * np.log(trained / (turn * r)) / (times * np.log(base)) for r in turns]
        first, last = (f(x) for f, x in zip(ends, at, strict=True))
        if hold is not None:
            first, last = np.clip([first, last], *hold(d))
        gamma = 1 - np.clip((p - first) / max(last - first, 1e-3), 0, 1)
        if ramp is not None:
            gamma = ramp(trained * omega / (2 * np.pi))
        return blend(gamma, omega, factor)

    return answer


YARN = Exercise(
    name="context-extension-3",
    title="YaRN as it runs",
    kind="NumPy",
    minutes=15,
    lines=6,
    statement=r"""
A head has `d` features and the base `base`, was trained on `trained` tokens and is to read `factor` times as many.
Return YaRN's frequencies $(1 - \gamma_p)\, \omega_p/s + \gamma_p\, \omega_p$ as its authors' code computes them, from the fastest pair on.
The index of $r$ turns is $D(r) = d \log(L/2\pi r)/(2 \log \text{base})$.
The ramp $\gamma$ falls from 1 at $\lfloor D(32) \rfloor$ to 0 at $\lceil D(1) \rceil$, straight in the index, both ends first held between 0 and $d - 1$.
(The code has $d - 1$, though there are only $d/2$ pairs.)
""",
    hint=r"""
`np.clip` holds the ends, and the ramp too.
""",
    cases=(
        (8, 10000.0, 4096, 2.0),
        (16, 10000.0, 4096, 4.0),
        (64, 500000.0, 8192, 32.0),
        (16, 10000.0, 100, 4.0),
        (16, 10.0, 600, 8.0),
    ),
    solution=yarn_rows,
    misconceptions=(
        Misconception(
            "The ramp of the paper",
            "This ramp is straight in the turns. The code's is straight in the index.",
            _yarn(ramp=lambda r: np.clip((r - 1) / 31, 0, 1)),
        ),
        Misconception(
            "The ramp of Llama 3",
            "This is straight in the turns from 1 to 4.",
            _yarn(ramp=lambda r: np.clip((r - 1) / 3, 0, 1)),
        ),
        Misconception(
            "The ramp is upside down",
            "γ is 1 where pairs are fast, and these are kept.",
            _yarn(blend=lambda g, w, s: g * w / s + (1 - g) * w),
        ),
        Misconception(
            "Ends not rounded",
            "That is gpt-oss, truncate=False. The authors' code rounds them outwards.",
            _yarn(ends=(lambda x: x, lambda x: x)),
        ),
        Misconception(
            "Ends rounded inwards",
            "Floor below and ceiling above: the ramp becomes longer.",
            _yarn(ends=(np.ceil, np.floor)),
        ),
        Misconception(
            "Both ends rounded to the nearest",
            "Floor below and ceiling above.",
            _yarn(ends=(np.round, np.round)),
        ),
        Misconception(
            "Both ends rounded down",
            "The upper end is a ceiling.",
            _yarn(ends=(np.floor, np.floor)),
        ),
        Misconception(
            "Ends not held",
            "A negative index, or one beyond d − 1, changes the ramp: hold it first.",
            _yarn(hold=None),
        ),
        Misconception(
            "Ends held at the last pair",
            "It would be natural, but the code holds them at d − 1.",
            _yarn(hold=lambda d: (0, d // 2 - 1)),
        ),
        Misconception(
            "2π forgotten",
            "L/r is a wavelength, 2π/ω.",
            _yarn(turn=1.0),
        ),
        Misconception(
            "2 below forgotten",
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
            "Slow pairs stopped",
            "They are divided by the factor.",
            _yarn(blend=lambda g, w, s: g * w),
        ),
        Misconception(
            "With the attention factor",
            "0.1 ln s + 1 multiplies cosines and sines, not frequencies.",
            _yarn(
                blend=lambda g, w, s: ((1 - g) * w / s + g * w) * (0.1 * np.log(s) + 1)
            ),
        ),
        Misconception(
            "A step",
            "Between the ends γ falls gradually.",
            _yarn(ramp=lambda r: (r > 32).astype(float)),
        ),
    ),
    properties=(
        Property(
            "A factor of 1 is RoPE",
            lambda answer, d, base, trained, factor: bool(
                np.allclose(
                    answer(d, base, trained, 1.0), base ** (-np.arange(0, d, 2) / d)
                )
            ),
        ),
    ),
)


# context-extension-4: turn cached keys back


def turn_back(keys, positions, old, new):
    """The keys as the new frequencies would have turned them, [tokens, d]."""
    angle = positions[:, None] * (new - old)
    a, b = keys.chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def _turned(angle_of):
    """Turned by another angle, half layout."""

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


TURN_BACK = Exercise(
    name="context-extension-4",
    title="Turn cached keys back",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
`keys`, `[tokens, d]`, were turned at `positions` by the frequencies `old`, `[d // 2]`, half layout: pair $p$ is the features $p$ and $p + d/2$.
The text has grown, and the frequencies are `new`.
Return the keys as `new` would have turned them, without turning each back to 0 first.
Then try it with NTK: how far from right were the cached ones?
""",
    hint=r"""
Rotations of a plane add their angles. Which angle is missing?
""",
    cases=(_cached(2, 2, start=1), _cached(3, 4, start=2), _cached(5, 8, start=40)),
    solution=turn_back,
    misconceptions=(
        Misconception(
            "The other sense",
            "The keys are turned by old already: new less old is what is missing.",
            _turned(lambda i, old, new: i * (old - new)),
        ),
        Misconception(
            "Turned by the new ones, too",
            "What is cached is turned already, by old.",
            _turned(lambda i, old, new: i * new),
        ),
        Misconception(
            "Turned back to 0",
            "These are the keys as they were before any rotation.",
            _turned(lambda i, old, new: -i * old),
        ),
        Misconception(
            "Turned back by the new ones",
            "They were turned by old.",
            _turned(lambda i, old, new: -i * new),
        ),
        Misconception(
            "The interleaved layout",
            "Pair p is p and p + d/2 here.",
            _interleaved,
        ),
        Misconception(
            "No minus sign",
            "A rotation has one sine with a minus.",
            _no_minus,
        ),
        Misconception(
            "Positions forgotten",
            "The angle that is missing grows with the position.",
            _turned(lambda i, old, new: torch.ones_like(i) * (new - old)),
        ),
        Misconception(
            "The last position for all",
            "Each key was turned at its own.",
            _turned(lambda i, old, new: i.max() * (new - old) * torch.ones_like(i)),
        ),
        Misconception(
            "Positions in the cache",
            "The cache may begin anywhere: positions are given.",
            _turned(lambda i, old, new: torch.arange(len(i))[:, None] * (new - old)),
        ),
        Misconception(
            "Positions from 1",
            "The positions are given as they are.",
            _turned(lambda i, old, new: (i + 1) * (new - old)),
        ),
        Misconception(
            "Distances from the end",
            "A key was turned by its position, not by how far it is from the query.",
            _turned(lambda i, old, new: (i.max() - i) * (new - old)),
        ),
        Misconception(
            "The quotient of frequencies",
            "Angles are added, so frequencies are subtracted.",
            _turned(lambda i, old, new: i * (new / old)),
        ),
        Misconception(
            "Half of the angle",
            "The half belongs to the length of a chord, 2 sin(x/2), not to the turn.",
            _turned(lambda i, old, new: i * (new - old) / 2),
        ),
        Misconception(
            "Slowest first",
            "Frequencies belong to pairs in the order that is given.",
            _turned(lambda i, old, new: i * (new - old).flip(0)),
        ),
    ),
    properties=(
        Property(
            "Lengths stay",
            lambda answer, keys, positions, old, new: bool(
                torch.allclose(
                    answer(keys, positions, old, new).norm(dim=-1), keys.norm(dim=-1)
                )
            ),
        ),
    ),
)


# context-extension-5: how stale a key is


def stale_angles(omega, place, arrived, length, trained):
    """How far ahead a cached key has turned, [pairs], in radians."""
    slowest = len(omega) - 1
    old, new = (
        omega * (max(n, trained) / trained) ** (-np.arange(len(omega)) / slowest)
        for n in (arrived, length)
    )
    return place * (old - new)


def _stale(
    factor=lambda n, L: max(n, L) / L,
    power=lambda n: -np.arange(n) / (n - 1),
    place=lambda j, arrived, length, L: j,
    arrived=lambda n, L: n,
    sign=1.0,
):
    """With another factor, exponent or place."""

    def answer(omega, at, came, length, trained):
        old, new = (
            omega * factor(n, trained) ** power(len(omega))
            for n in (arrived(came, trained), length)
        )
        return sign * place(at, came, length, trained) * (old - new)

    return answer


_SLOW = 16.0 ** (-np.arange(4) / 4)

STALE = Exercise(
    name="context-extension-5",
    title="How stale a key is",
    kind="NumPy",
    minutes=15,
    lines=5,
    statement=r"""
A decoder runs dynamic NTK as the paper has it: with $n$ tokens so far and $L$ = `trained`, pair $p$ of $P$ has $\omega_p\, s^{-p/(P - 1)}$ with $s = \max(n, L)/L$.
A key at position `place` was turned when there were `arrived` tokens, and kept. Now there are `length`.
Return, for each pair, the angle by which it is *ahead* of a key that is turned now, in radians, not reduced by full turns.
Which pair is the worst, and why neither the first nor the last?
""",
    hint=r"""
Two factors, one of the time of arrival and one of now.
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
            "Behind, not ahead",
            "The old frequencies were faster: the cached key has turned too far.",
            _stale(sign=-1.0),
        ),
        Misconception(
            "No key is stale before the trained length",
            "It was turned by plain RoPE, and the frequencies have changed since.",
            lambda omega, place, arrived, length, trained: (
                np.zeros_like(omega)
                if arrived <= trained
                else stale_angles(omega, place, arrived, length, trained)
            ),
        ),
        Misconception(
            "Every key came in with plain RoPE",
            "If there were more than L tokens, it was slowed on arrival.",
            _stale(arrived=lambda n, L: L),
        ),
        Misconception(
            "The number of tokens for the place",
            "A key is turned by its position.",
            _stale(place=lambda j, arrived, length, L: arrived),
        ),
        Misconception(
            "The distance for the place",
            "The error grows with the key's position; the query's has canceled.",
            _stale(place=lambda j, arrived, length, L: length - j),
        ),
        Misconception(
            "The length for the place",
            "A key is turned by its own position.",
            _stale(place=lambda j, arrived, length, L: length),
        ),
        Misconception(
            "No maximum",
            "Texts that are shorter than L are read by plain RoPE.",
            _stale(factor=lambda n, L: n / L),
        ),
        Misconception(
            "Position interpolation",
            "NTK divides each pair by a power of the factor, only the last by all of it.",
            _stale(power=lambda n: -np.ones(n)),
        ),
        Misconception(
            "The exponent p/P",
            "The slowest pair is P − 1, and is divided by the whole factor.",
            _stale(power=lambda n: -np.arange(n) / n),
        ),
        Misconception(
            "Pairs from 1",
            "The fastest pair is 0, and keeps its frequency.",
            _stale(power=lambda n: -(np.arange(n) + 1) / n),
        ),
        Misconception(
            "The factor multiplies",
            "Hands become slower: the exponent is negative.",
            _stale(power=lambda n: np.arange(n) / (n - 1)),
        ),
        Misconception(
            "Reduced by full turns",
            "Return the angle as it is.",
            lambda *case: np.remainder(stale_angles(*case), 2 * np.pi),
        ),
        Misconception(
            "In turns",
            "Radians are asked for.",
            lambda *case: stale_angles(*case) / (2 * np.pi),
        ),
        Misconception(
            "The new angle",
            "How far ahead it is, not where it ought to be.",
            lambda omega, place, arrived, length, trained: (
                place * omega - stale_angles(omega, place, trained, length, trained)
            ),
        ),
        Misconception(
            "The place for the time of arrival",
            "How many tokens there were is given; its position is one of them.",
            lambda omega, at, came, *rest: stale_angles(omega, at, at, *rest),
        ),
    ),
    properties=(
        Property(
            "The fastest pair is never stale",
            lambda answer, omega, place, arrived, length, trained: (
                abs(answer(omega, place, arrived, length, trained)[0]) < 1e-9
            ),
        ),
    ),
)


# context-extension-6: an error and its bounds


def error_and_bound(d, base):
    """The error and the bound, a tuple of two floats."""
    omega = base ** (-np.arange(0, d, 2) / d)
    ends = (len(omega) + np.cos(omega).sum()) / 2
    error = abs(np.cos(omega / 2).sum() - ends)
    return float(error), float((1 + d / (4 * np.log(base))) / 8)


def _error(at=0.5, bound=None, line=True, pairs=None):
    """With another place or bound."""

    def answer(d, base):
        omega = base ** (-np.arange(0, d, 2) / d)
        if pairs is not None:
            omega = pairs(d, base)
        score, first, last = (np.cos(t * omega).sum() for t in (at, 0.0, 1.0))
        error = abs(score - ((1 - at) * first + at * last if line else 0.0))
        of = bound(d, base) if bound else (1 + d / (4 * np.log(base))) / 8
        return float(error), float(of)

    return answer


ERROR = Exercise(
    name="context-extension-6",
    title="An error and its bound",
    kind="experiment",
    minutes=12,
    lines=4,
    statement=r"""
All products of a query's and a key's pairs are 1, so the score at offset $t$ is $a(t) = \sum_p \cos(t\, \omega_p)$ with $\omega_p = \text{base}^{-2p/d}$.
Half way between the offsets 0 and 1, how far is $a$ from the straight line through $a(0)$ and $a(1)$? And what does the bound $\frac{(t - t_1)(t_2 - t)}{2} \bigl( 1 + \frac{d}{4 \log \text{base}} \bigr)$ allow?
Return both as a tuple of floats, `(error, bound)`.
Then print the bound without the 1 beside them, for $d$ = 128, base 10 000.
""",
    hint=r"""
$(t - t_1)(t_2 - t)$ is ¼ in the middle.
""",
    cases=((2, 10.0), (4, 100.0), (64, 10000.0), (128, 500000.0)),
    solution=error_and_bound,
    misconceptions=(
        Misconception(
            "The bound of the paper",
            "The 1 is missing: at d = 128 and base 10 000 the error is above it.",
            _error(bound=lambda d, b: d / (4 * np.log(b)) / 8),
        ),
        Misconception(
            "Bound not halved",
            "A straight line errs by half of the second derivative.",
            _error(bound=lambda d, b: (1 + d / (4 * np.log(b))) / 4),
        ),
        Misconception(
            "Middle forgotten",
            "(t − t₁)(t₂ − t) is ¼.",
            _error(bound=lambda d, b: (1 + d / (4 * np.log(b))) / 2),
        ),
        Misconception(
            "The bound of a whole step",
            "Both distances are ½.",
            _error(bound=lambda d, b: 1 + d / (4 * np.log(b))),
        ),
        Misconception(
            "The sum itself",
            "That is sharper, and right: but the bound with the logarithm is asked for.",
            _error(bound=lambda d, b: (b ** (-2 * np.arange(0, d, 2) / d)).sum() / 8),
        ),
        Misconception(
            "The logarithm to base 10",
            "The natural one.",
            _error(bound=lambda d, b: (1 + d / (4 * np.log10(b))) / 8),
        ),
        Misconception(
            "The logarithm to base 2",
            "The natural one.",
            _error(bound=lambda d, b: (1 + d / (4 * np.log2(b))) / 8),
        ),
        Misconception(
            "8 in place of 4",
            "The 8 of the paper has the ½ in it already.",
            _error(bound=lambda d, b: (1 + d / (8 * np.log(b))) / 8),
        ),
        Misconception(
            "A quarter of the way",
            "Half way.",
            _error(at=0.25),
        ),
        Misconception(
            "The score, not its error",
            "The line is to be subtracted.",
            _error(line=False),
        ),
        Misconception(
            "Frequencies of d pairs",
            "There are d/2.",
            _error(pairs=lambda d, b: b ** (-np.arange(d) / d)),
        ),
        Misconception(
            "The error has a sign",
            "A distance: its absolute value. The cosines lie above their chord.",
            lambda d, base: (
                -error_and_bound(d, base)[0],
                error_and_bound(d, base)[1],
            ),
        ),
        Misconception(
            "The mean over pairs",
            "A score is a sum.",
            lambda d, base: (
                2 * error_and_bound(d, base)[0] / d,
                error_and_bound(d, base)[1],
            ),
        ),
        Misconception(
            "Order exchanged",
            "The error first.",
            lambda d, base: error_and_bound(d, base)[::-1],
        ),
        Misconception(
            "From the first end, not from the line",
            "The line is half way between both ends.",
            lambda d, base: (
                float((1 - np.cos(base ** (-np.arange(0, d, 2) / d) / 2)).sum()),
                error_and_bound(d, base)[1],
            ),
        ),
    ),
    properties=(
        Property(
            "The error is within the bound",
            lambda answer, d, base: answer(d, base)[0] <= answer(d, base)[1],
        ),
    ),
)


SHEET = Sheet(
    title="Slower hands",
    conventions=r"""
Pairs $p$ count from 0, the fastest first; $\omega_p = \text{base}^{-2p/d}$ in radians a position. $L$ is the length of training, $s$ the factor by which texts grow.
""",
    exercises=(LARGER, NEW_ANGLES, YARN, TURN_BACK, STALE, ERROR),
)
