"""Exercises on Fourier features."""

import math

import numpy as np
import sympy as sp
import torch
from torch.nn.functional import gelu, relu

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)

# fourier-1: the kernel of uniform frequencies


def kernel(a, r):
    """Mean of cos 2πbr over b uniform in [−a, a], as an expression.

    b is a random frequency in turns, r an offset.
    """
    return sp.sin(2 * sp.pi * a * r) / (2 * sp.pi * a * r)


_A, _R = sp.symbols("a r", positive=True)

KERNEL = Exercise(
    name="fourier-1",
    title="The kernel of uniform frequencies",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: frequencies are drawn uniformly from $[-a, a]$, $a > 0$, instead of from a normal distribution.
What is the mean of $\cos 2\pi b\, r$ over $b$, for $r > 0$?
Return a SymPy expression of `a` and `r`.
Where is this kernel negative, and why may a kernel be negative?
""",
    hint=r"""
The density is $1/2a$ on an interval of length $2a$.
Integrate a cosine.
""",
    cases=((sp.Integer(1), sp.Rational(1, 3)), (_A, sp.Rational(2, 5)), (_A, _R)),
    solution=kernel,
    misconceptions=(
        Misconception(
            "2π forgotten",
            "b counts full turns per step, so the angle is 2π b r.",
            lambda a, r: sp.sin(a * r) / (a * r),
        ),
        Misconception(
            "2π forgotten in the denominator",
            "The integral of cos 2π b r over b is divided by 2π r.",
            lambda a, r: sp.sin(2 * sp.pi * a * r) / (a * r),
        ),
        Misconception(
            "Interval of length a",
            "The interval from −a to a has the length 2a.",
            lambda a, r: sp.sin(2 * sp.pi * a * r) / (sp.pi * a * r),
        ),
        Misconception(
            "Integral in place of the mean",
            "A mean is divided by the length of the interval.",
            lambda a, r: sp.sin(2 * sp.pi * a * r) / (sp.pi * r),
        ),
        Misconception(
            "Interval from −a/2 to a/2",
            "The interval is from −a to a, twice as long.",
            lambda a, r: sp.sin(sp.pi * a * r) / (sp.pi * a * r),
        ),
        Misconception(
            "Cosine at the end of the interval",
            "The mean of a cosine is no cosine: integrate it.",
            lambda a, r: sp.cos(2 * sp.pi * a * r),
        ),
        Misconception(
            "Cosine not integrated",
            "The integral of a cosine is a sine.",
            lambda a, r: sp.cos(2 * sp.pi * a * r) / (2 * sp.pi * a * r),
        ),
        Misconception(
            "Kernel of normal frequencies",
            "The Gaussian belongs to normal frequencies, here with the standard "
            "deviation a.",
            lambda a, r: sp.exp(-2 * sp.pi**2 * a**2 * r**2),
        ),
        Misconception(
            "Gaussian of the same variance",
            "The variance is a²/3, but the distribution is another one.",
            lambda a, r: sp.exp(-2 * sp.pi**2 * a**2 * r**2 / 3),
        ),
        Misconception(
            "Sine over half of the interval",
            "Over [0, a] the sine does not cancel. Here b has both signs, and the "
            "cosine is averaged.",
            lambda a, r: (1 - sp.cos(2 * sp.pi * a * r)) / (2 * sp.pi * a * r),
        ),
        Misconception(
            "Square of the mean",
            "The square is the mean for the sum of two such frequencies.",
            lambda a, r: (sp.sin(2 * sp.pi * a * r) / (2 * sp.pi * a * r)) ** 2,
        ),
        Misconception(
            "Mean of b inserted",
            "The mean of b is 0, and cos 0 is 1. The mean of a cosine is not the "
            "cosine of the mean.",
            lambda a, r: sp.Integer(1),
        ),
        Misconception(
            "Argument of SymPy's sinc without π",
            "`sp.sinc(x)` is sin(x)/x: its argument is the whole angle, π included.",
            lambda a, r: sp.sinc(2 * a * r),
        ),
        Misconception(
            "a forgotten in the denominator",
            "Integrate over b, which divides by 2πr, and divide by 2a, the length of "
            "the interval.",
            lambda a, r: sp.sin(2 * sp.pi * a * r) / (2 * sp.pi * r),
        ),
    ),
    properties=(
        Property(
            "The kernel is near 1 at small offsets",
            lambda answer, a, r: bool(
                abs(sp.N(answer(sp.Integer(1), sp.Rational(1, 10**4))) - 1) < 1e-6
            ),
        ),
    ),
    explanation=r"""
The density is $\frac1{2a}$ on $[-a, a]$, so the mean is $\frac1{2a} \int_{-a}^{a} \cos 2\pi b r\; db = \frac1{2a} \bigl[\frac{\sin 2\pi b r}{2\pi r}\bigr]_{-a}^{a} = \frac{\sin 2\pi a r}{2\pi a r}$.
It is negative where the sine is: for $\frac12 < a r < 1$, for $\frac32 < a r < 2$, and so on.
A kernel may be negative because "positive definite" is not a statement about its single values: it says that $\sum_{ij} u_i u_j\, k(x_i - x_j)$ is never negative, and a mean of cosines has this property whatever the distribution is, as the chapter shows with Bochner's theorem.
""",
)


# fourier-2: the features


def features(x, b, unit, layout, first):
    """Cosines and sines of the angles of points ``x`` at frequencies ``b``.

    ``x`` is [tokens, axes], ``b`` is [pairs, axes], and the features are [tokens, 2 *
    pairs], without an amplitude. ``unit`` is the unit of ``b``, "turns" or "radians".
    ``layout`` is "interleaved" or "half". ``first`` is "cos" or "sin", the first member
    of a pair.
    """
    angle = x @ b.T * (2 * np.pi if unit == "turns" else 1)
    members = [np.cos(angle), np.sin(angle)]
    if first == "sin":
        members = members[::-1]
    if layout == "half":
        return np.concatenate(members, 1)
    return np.stack(members, 2).reshape(len(x), -1)


def _features(angle=None, waves=(np.cos, np.sin), put=None):
    """Make a wrong answer (a function) to the exercise ``features``.

    The exercise asks for cosines and sines of angles. In the wrong answer, ``angle(x,
    b, factor)`` computes the angles in place of ``factor`` · x bᵀ (``factor`` is 2π or
    1, by the unit of b). ``waves`` replace cosine and sine, and ``put`` arranges the
    list of the two arrays, cosines and sines, in one array. With None for ``angle`` or
    ``put``, this step is right.
    """

    def answer(x, b, unit, layout, first):
        factor = 2 * np.pi if unit == "turns" else 1
        angles = factor * (x @ b.T) if angle is None else angle(x, b, factor)
        members = [wave(angles) for wave in waves]
        members = members if first == "cos" else members[::-1]
        if put is not None:
            return put(members)
        if layout == "half":
            return np.concatenate(members, 1)
        return np.stack(members, 2).reshape(len(x), -1)

    return answer


FEATURES = Exercise(
    name="fourier-2",
    title="Fourier features",
    kind="NumPy",
    minutes=10,
    lines=7,
    statement=r"""
`x` holds points, `[tokens, axes]`, and `b` a frequency for each pair, `[pairs, axes]`.
Return the features, `[tokens, 2 * pairs]`, with the amplitude 1.
`unit` is `"turns"` or `"radians"`.
`layout` is `"half"`, all cosines and all sines together, or `"interleaved"`, pair by pair.
`first` says whether `"cos"` or `"sin"` comes first.
""",
    hint=r"""
Angles have the shape `[tokens, pairs]`.
`np.concatenate` gives the half layout, `np.stack` with a new last axis and a reshape the interleaved one.
""",
    cases=tuple(
        (0.3 * draw(tokens, axes), draw(pairs, axes, seed=1), *options)
        for tokens, axes, pairs, options in (
            (1, 1, 2, ("turns", "half", "cos")),
            (2, 2, 2, ("radians", "interleaved", "sin")),
            (3, 2, 4, ("turns", "interleaved", "cos")),
            (4, 3, 2, ("radians", "half", "sin")),
        )
    ),
    solution=features,
    misconceptions=(
        Misconception(
            "Turns, whatever `unit` is",
            "In radians the angle is b · x, without a 2π.",
            lambda x, b, unit, layout, first: features(x, b, "turns", layout, first),
        ),
        Misconception(
            "Radians, whatever `unit` is",
            "A frequency in turns counts waves: the angle is 2π b · x.",
            lambda x, b, unit, layout, first: features(x, b, "radians", layout, first),
        ),
        Misconception(
            "Turns and radians exchanged",
            "The 2π belongs to turns.",
            lambda x, b, unit, layout, first: features(
                x, b, "turns" if unit == "radians" else "radians", layout, first
            ),
        ),
        Misconception(
            "π in place of 2π",
            "A full turn is 2π.",
            _features(
                angle=lambda x, b, factor: (
                    (x @ b.T) * (factor if factor == 1 else np.pi)
                )
            ),
        ),
        Misconception(
            "Layouts exchanged",
            "The half layout has all members of one kind first. The interleaved "
            "layout goes pair by pair.",
            lambda x, b, unit, layout, first: features(
                x, b, unit, "half" if layout == "interleaved" else "interleaved", first
            ),
        ),
        Misconception(
            "The half layout, whatever `layout` is",
            "The interleaved layout has the two members of a pair side by side.",
            lambda x, b, unit, layout, first: features(x, b, unit, "half", first),
        ),
        Misconception(
            "Cosines first, whatever `first` is",
            "`first` says which member comes first.",
            lambda x, b, unit, layout, first: features(x, b, unit, layout, "cos"),
        ),
        Misconception(
            "Sines first, whatever `first` is",
            "`first` says which member comes first.",
            lambda x, b, unit, layout, first: features(x, b, unit, layout, "sin"),
        ),
        Misconception(
            "Cosines and sines exchanged",
            "With first='cos' the features begin with a cosine.",
            _features(waves=(np.sin, np.cos)),
        ),
        Misconception(
            "Cosines twice",
            "Each pair has a cosine and a sine. A cosine alone is not relative.",
            _features(waves=(np.cos, np.cos)),
        ),
        Misconception(
            "Amplitude 1/√m",
            "Here the amplitude is 1, and the length of the vector is √m.",
            lambda x, b, unit, layout, first: (
                features(x, b, unit, layout, first) / np.sqrt(len(b))
            ),
        ),
        Misconception(
            "Amplitude 1/√(2m)",
            "Here the amplitude is 1, and the length of the vector is √m.",
            lambda x, b, unit, layout, first: (
                features(x, b, unit, layout, first) / np.sqrt(2 * len(b))
            ),
        ),
        Misconception(
            "Only the first axis read",
            "The angle is an inner product over all axes.",
            _features(angle=lambda x, b, factor: factor * np.outer(x[:, 0], b[:, 0])),
        ),
        Misconception(
            "Axes added before they are multiplied",
            "Each axis has a frequency of its own: multiply, then add.",
            _features(angle=lambda x, b, factor: factor * np.outer(x.sum(1), b.sum(1))),
        ),
        Misconception(
            "Distance to the frequency",
            "The angle is an inner product, not a distance.",
            _features(
                angle=lambda x, b, factor: (
                    factor * np.linalg.norm(x[:, None] - b, axis=-1)
                )
            ),
        ),
        Misconception(
            "Members in separate rows",
            "The last axis holds all features of one token.",
            _features(
                put=lambda members: np.stack(members).reshape(members[0].shape[0], -1)
            ),
        ),
        Misconception(
            "Divided by 2π",
            "A frequency in turns counts waves: one turn is 2π radians.",
            _features(angle=lambda x, b, factor: x @ b.T / factor),
        ),
        Misconception(
            "Degrees",
            "`np.cos` takes radians: a full turn is 2π, not 360.",
            _features(
                angle=lambda x, b, factor: (x @ b.T) * (factor if factor == 1 else 360)
            ),
        ),
    ),
    properties=(
        Property(
            "The features of a token have the length √m",
            lambda answer, x, b, unit, layout, first: bool(
                np.allclose(
                    (answer(x, b, unit, layout, first) ** 2).sum(1), len(b), atol=1e-9
                )
            ),
        ),
    ),
    explanation=r"""
All angles are one matrix product, `x @ b.T`, times $2\pi$ if the frequencies count turns.
Swapping the list of the two arrays exchanges cosines and sines; joining them along the features gives the half layout, and stacking them on a new last axis before the reshape puts the two members of a pair side by side.
Each pair contributes $\cos^2 + \sin^2 = 1$, so the vector has the length $\sqrt m$ everywhere: this is {prf:ref}`the definition of Fourier features <def-fourier-box>` with the amplitude 1.
""",
)


# fourier-3: how many frequencies


def frequencies_needed(positions, eps, delta):
    """Fewest random frequencies with which a bound makes large errors rare.

    The frequencies estimate a kernel, a function of the offset. A bound on the
    probability that the estimate is off by ``eps`` or more at any offset between
    ``positions`` positions must be at most ``delta``.
    """
    pairs = positions * (positions - 1) / 2
    return math.ceil(2 * math.log(2 * pairs / delta) / eps**2)


def _frequencies_needed(
    terms=lambda n: n * (n - 1), factor=2, power=2, log=math.log, whole=math.ceil
):
    """Make a wrong answer (a function) to the exercise ``frequencies_needed``.

    The exercise asks for the number of random frequencies by a bound. The arguments
    replace parts of the bound, and their defaults are right: ``terms(positions)`` is
    the number of terms of a union bound, ``factor`` multiplies the logarithm ``log``,
    ``power`` is the power of ``eps``, and ``whole`` rounds the number.
    """
    return lambda n, eps, delta: whole(factor * log(terms(n) / delta) / eps**power)


FREQUENCIES_NEEDED = Exercise(
    name="fourier-3",
    title="How many frequencies",
    kind="NumPy",
    minutes=10,
    lines=2,
    statement=r"""
At one offset the estimate from $m$ random frequencies is off by `eps` or more with a probability of at most $2 e^{-m \varepsilon^2/2}$.
For how many frequencies is the probability at most `delta` that it is off at *any* of the offsets between `positions` different positions?
Return the smallest whole number $m$ for which the bound says so.
Two positions have one offset, since its sign does not matter.
""",
    hint=r"""
The probability that any of several events happens is at most the sum of their probabilities.
How many pairs of positions are there?
""",
    cases=(
        (2, 0.5, 0.5),
        (2, 1.0, 0.7357588823428847),  # 2/e, rounded up
        (10, 0.1, 0.05),
        (1024, 0.05, 0.01),
        (64, 0.2, 1e-6),
    ),
    solution=frequencies_needed,
    misconceptions=(
        Misconception(
            "Only one offset",
            "Each pair of positions may be off: add their probabilities.",
            _frequencies_needed(terms=lambda n: 2),
        ),
        Misconception(
            "Each pair counted twice",
            "The opposite offset has the same estimate.",
            _frequencies_needed(terms=lambda n: 2 * n * (n - 1)),
        ),
        Misconception(
            "A position with itself counted",
            "At offset 0 the estimate is exact.",
            _frequencies_needed(terms=lambda n: n * (n + 1)),
        ),
        Misconception(
            "As many offsets as positions",
            "There are as many offsets as pairs of positions, if no two are equal.",
            _frequencies_needed(terms=lambda n: 2 * n),
        ),
        Misconception(
            "Factor 2 of the bound forgotten",
            "The estimate may be too high or too low, and each has its probability.",
            _frequencies_needed(terms=lambda n: n * (n - 1) / 2),
        ),
        Misconception(
            "Error not squared",
            "The exponent has ε².",
            _frequencies_needed(power=1),
        ),
        Misconception(
            "½ of the exponent forgotten",
            "Solve 2 exp(−m ε²/2) for m: the ½ becomes a factor 2 on the other side.",
            _frequencies_needed(factor=1),
        ),
        Misconception(
            "½ of the exponent not inverted",
            "Solve 2 exp(−m ε²/2) for m: the ½ becomes a factor 2 on the other side.",
            _frequencies_needed(factor=0.5),
        ),
        Misconception(
            "Rounded down",
            "With one frequency fewer the bound is above delta.",
            _frequencies_needed(whole=math.floor),
        ),
        Misconception(
            "Floor plus one",
            "One frequency too many where the bound is met exactly.",
            _frequencies_needed(whole=lambda least: math.floor(least) + 1),
        ),
        Misconception(
            "Logarithm of base 2",
            "The inverse of the exponential is the natural logarithm.",
            _frequencies_needed(log=math.log2),
        ),
        Misconception(
            "Logarithm of base 10",
            "The inverse of the exponential is the natural logarithm.",
            _frequencies_needed(log=math.log10),
        ),
        Misconception(
            "m multiplied by the number of pairs",
            "The number of pairs multiplies the probability, so its logarithm is "
            "added.",
            lambda n, eps, delta: math.ceil(
                n * (n - 1) / 2 * 2 * math.log(2 / delta) / eps**2
            ),
        ),
        Misconception(
            "Number of features",
            "The number of frequencies is asked for. Each has two features.",
            lambda n, eps, delta: 2 * frequencies_needed(n, eps, delta),
        ),
        Misconception(
            "Chebyshev's bound",
            "1/(2 m ε²) bounds the probability at one offset, too, but falls "
            "slowly with m. The bound with the exponential is asked for.",
            lambda n, eps, delta: math.ceil(n * (n - 1) / 2 / (2 * delta * eps**2)),
        ),
        Misconception(
            "All pairs in both directions, and each position with itself",
            "n² counts each pair twice, and n offsets of 0.",
            _frequencies_needed(terms=lambda n: 2 * n**2),
        ),
        Misconception(
            "n − 1 offsets",
            "There are n − 1 offsets if all steps are equal. For any positions there "
            "are as many offsets as pairs.",
            _frequencies_needed(terms=lambda n: 2 * (n - 1)),
        ),
        Misconception(
            "Logarithm of the inverse",
            "The bound falls with m, so m is positive. Which of the two numbers is divided by the other in the logarithm?",
            _frequencies_needed(factor=-2),
        ),
        Misconception(
            "Rounded to the nearest number",
            "With one frequency fewer than needed the bound is above delta, however little is missing.",
            _frequencies_needed(whole=round),
        ),
        Misconception(
            "δ forgotten",
            "A smaller `delta` needs more frequencies.",
            lambda n, eps, delta: frequencies_needed(n, eps, 1),
        ),
        Misconception(
            "Independence assumed",
            "The errors at different offsets are not independent. The sum of their probabilities is a bound whether they are or not.",
            lambda n, eps, delta: math.ceil(
                2 / eps**2 * math.log(2 / (1 - (1 - delta) ** (2 / (n * (n - 1)))))
            ),
        ),
        Misconception(
            "2n − 1 offsets",
            "On a grid there are so many offsets, with both signs. For any positions there are as many as pairs.",
            _frequencies_needed(terms=lambda n: 2 * (2 * n - 1)),
        ),
    ),
    properties=(
        Property(
            "Half the error needs four times as many frequencies",
            lambda answer, n, eps, delta: (
                abs(answer(n, eps / 2, delta) - 4 * answer(n, eps, delta)) <= 4
            ),
        ),
    ),
    tolerance=0.0,
    level="optional",
    explanation=r"""
$n$ positions have $\frac{n (n - 1)}2$ pairs and at most as many offsets, and by {prf:ref}`the theorem on the error of m frequencies <thm-fourier-error>` each is off with a probability of at most $2 e^{-m \varepsilon^2/2}$.
The probability that any of them is off is at most the sum, $n (n - 1)\, e^{-m \varepsilon^2/2}$, and this is at most $\delta$ for $m \ge \frac2{\varepsilon^2} \log \frac{n (n - 1)}\delta$, rounded up.
Half the error needs four times as many frequencies, but a thousand times as many positions only about $\frac2{\varepsilon^2} \log 10^6$ more.
""",
    prediction=Prediction(
        "How many frequencies does the bound ask for, for 1024 positions, "
        "$\\varepsilon = 0.05$ and $\\delta = 0.01$?",
        lambda: frequencies_needed(1024, 0.05, 0.01),
        near=0.2,
    ),
)


# fourier-4: learnable features


def encode(x, w_r, w_1, b_1, w_2, b_2):
    """Encoding of every token by learnable Fourier features, [tokens, groups * own].

    ``x``, [tokens, groups, axes], are the tokens' coordinates in groups of axes, and
    ``own`` is the number of features that the network gives to each group. ``w_r``,
    [pairs, axes], are the frequencies; ``w_1``, ``b_1``, ``w_2`` and ``b_2`` are
    weights and biases of the network's two layers.
    """
    angle = x @ w_r.T
    r = torch.cat((angle.cos(), angle.sin()), -1) / (2 * len(w_r)) ** 0.5
    y = gelu(r @ w_1.T + b_1) @ w_2.T + b_2
    return y.flatten(1)


def _encode(factor=1.0, waves=(torch.cos, torch.sin), size=None, act=gelu, join=None):
    """Make a wrong answer (a function) to the exercise ``encode``.

    The exercise asks for learnable Fourier features. In the wrong answer, ``factor``
    multiplies the angles (right: 1), ``waves`` replace cosine and sine, ``size(pairs)``
    replaces 2 · pairs under the root that divides the features, ``act`` replaces GELU,
    and ``join`` joins the groups' outputs in another way. With None for ``size`` or
    ``join``, this step is right.
    """

    def answer(x, w_r, w_1, b_1, w_2, b_2):
        angle = factor * (x @ w_r.T)
        n = 2 * len(w_r) if size is None else size(len(w_r))
        r = torch.cat([wave(angle) for wave in waves], -1) / n**0.5
        y = act(r @ w_1.T + b_1) @ w_2.T + b_2
        return y.flatten(1) if join is None else join(y)

    return answer


def _parameters(tokens, groups, axes, pairs, width, own):
    shapes = (tokens, groups, axes), (pairs, axes), (width, 2 * pairs), (width,)
    shapes = (*shapes, (own, width), (own,))
    return tuple(torch.tensor(draw(*s, seed=n)) for n, s in enumerate(shapes))


def _tanh(z):
    return gelu(z, approximate="tanh")


def _mean_of_groups(x, w_r, w_1, b_1, w_2, b_2):
    angle = x @ w_r.T
    r = torch.cat((angle.cos(), angle.sin()), -1) / (2 * len(w_r)) ** 0.5
    mean = r.mean(1, keepdim=True).expand_as(r)
    return (gelu(mean @ w_1.T + b_1) @ w_2.T + b_2).flatten(1)


ENCODE = Exercise(
    name="fourier-4",
    title="Learnable features",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
In Li's Algorithm 1, `x` holds positions, `[tokens, groups, axes]`, and `w_r` the frequencies in radians, `[pairs, axes]`.
The features of a group are the cosines of its angles, then the sines, divided by the root of their number.
A network encodes each group: `w_1`, `[width, 2 * pairs]`, and `b_1`, then the exact GELU, then `w_2`, `[own, width]`, and `b_2`.
Return the encoded groups of a token side by side, `[tokens, groups * own]`.
""",
    hint=r"""
`x @ w_r.T` has the shape `[tokens, groups, pairs]`; all that follows acts on its last axis.
""",
    cases=(
        _parameters(1, 1, 1, 1, 1, 2),
        _parameters(2, 2, 2, 2, 3, 2),
        _parameters(4, 3, 2, 3, 4, 2),
    ),
    solution=encode,
    misconceptions=(
        Misconception(
            "Angles with a 2π",
            "Li's frequencies are in radians. The 2π is Tancik's.",
            _encode(factor=2 * math.pi),
        ),
        Misconception(
            "Sines before cosines",
            "Algorithm 1 has the cosines first, and the first layer reads them by "
            "their places.",
            _encode(waves=(torch.sin, torch.cos)),
        ),
        Misconception(
            "Features pair by pair",
            "All cosines come first, then all sines.",
            lambda x, w_r, w_1, b_1, w_2, b_2: (
                gelu(
                    torch.stack(((x @ w_r.T).cos(), (x @ w_r.T).sin()), -1).flatten(-2)
                    / (2 * len(w_r)) ** 0.5
                    @ w_1.T
                    + b_1
                )
                @ w_2.T
                + b_2
            ).flatten(1),
        ),
        Misconception(
            "No division",
            "The features are divided by the root of their number.",
            _encode(size=lambda m: 1),
        ),
        Misconception(
            "Divided by the root of the number of frequencies",
            "There are two features for each frequency.",
            _encode(size=lambda m: m),
        ),
        Misconception(
            "Divided by the number, not by its root",
            "Divide by the root, so that the squares of the features add up to one "
            "half.",
            _encode(size=lambda m: (2 * m) ** 2),
        ),
        Misconception(
            "ReLU in place of GELU",
            "The network has a GELU.",
            _encode(act=relu),
        ),
        Misconception(
            "GELU approximated with tanh",
            "The exact GELU is asked for, which is PyTorch's default.",
            _encode(act=_tanh),
        ),
        Misconception(
            "No activation",
            "Two linear layers without an activation between them are one.",
            _encode(act=lambda z: z),
        ),
        Misconception(
            "GELU after the last layer",
            "The output of the last layer may be any number.",
            lambda x, w_r, w_1, b_1, w_2, b_2: gelu(encode(x, w_r, w_1, b_1, w_2, b_2)),
        ),
        Misconception(
            "First bias forgotten",
            "b_1 is added before the activation.",
            lambda x, w_r, w_1, b_1, w_2, b_2: encode(x, w_r, w_1, 0 * b_1, w_2, b_2),
        ),
        Misconception(
            "Second bias forgotten",
            "b_2 is added at the end, for each group.",
            lambda x, w_r, w_1, b_1, w_2, b_2: encode(x, w_r, w_1, b_1, w_2, 0 * b_2),
        ),
        Misconception(
            "Features of the groups alternate",
            "All features of the first group come first, then those of the second.",
            _encode(join=lambda y: y.mT.flatten(1)),
        ),
        Misconception(
            "Groups in reverse order",
            "The first group comes first.",
            _encode(join=lambda y: y.flip(1).flatten(1)),
        ),
        Misconception(
            "Features without the network",
            "The features go through the network. Your answer has another width, "
            "unless the two happen to be equal.",
            lambda x, w_r, w_1, b_1, w_2, b_2: (
                torch.cat(((x @ w_r.T).cos(), (x @ w_r.T).sin()), -1)
                / (2 * len(w_r)) ** 0.5
            ).flatten(1)[:, : x.shape[1] * len(b_2)],
        ),
        Misconception(
            "First group used for all",
            "Each group has its own coordinates. Only the parameters are shared.",
            lambda x, w_r, w_1, b_1, w_2, b_2: encode(
                x[:, :1].expand_as(x), w_r, w_1, b_1, w_2, b_2
            ),
        ),
        Misconception(
            "Sigmoid approximation of GELU",
            "z σ(1.702 z) is an approximation. The exact GELU is asked for.",
            _encode(act=lambda z: z * torch.sigmoid(1.702 * z)),
        ),
        Misconception(
            "Root of all groups' features",
            "Each group is divided by the root of the number of its own features.",
            lambda x, w_r, w_1, *rest: encode(x, w_r, w_1 / x.shape[1] ** 0.5, *rest),
        ),
        Misconception(
            "Divided by the root of the width",
            "The features are divided by the root of their own number, not of that of the hidden layer.",
            lambda x, w_r, w_1, *rest: encode(
                x, w_r, w_1 * (2 * len(w_r) / len(w_1)) ** 0.5, *rest
            ),
        ),
        Misconception(
            "Multiplied by the root",
            "Divide by the root, so that the squares of a group's features add up to one half.",
            _encode(size=lambda m: 1 / (2 * m)),
        ),
        Misconception(
            "Mean of the groups first",
            "Each group goes through the network by itself.",
            _mean_of_groups,
        ),
    ),
    properties=(
        Property(
            "If groups change places, so do their parts of the encoding",
            lambda answer, x, *rest: bool(
                torch.allclose(
                    answer(x.flip(1), *rest),
                    answer(x, *rest).unflatten(1, (x.shape[1], -1)).flip(1).flatten(1),
                )
            ),
        ),
    ),
    explanation=r"""
Everything after the angles acts on the last axis, so the groups need no loop: PyTorch's matrix product treats all leading axes alike, and `flatten(1)` puts the groups' encodings side by side.
The $2 m$ features are divided by $\sqrt{2m}$, so that their squares add up to ½ for every position.
This is {prf:ref}`the definition of learnable Fourier features <def-fourier-learned-box>`; with the weights of {prf:ref}`the theorem on random and learnable features <thm-fourier-identity>` the network gives back the features themselves.
""",
)


# fourier-5: ridge regression on features


def ridge_regression(train_features, values, test_features, ridge):
    """Values that ridge regression predicts at the test positions, an array.

    ``train_features`` and ``test_features``, [positions, features], are the features of
    training and of test positions. ``values`` are known at the training positions;
    ``ridge`` is the factor of the penalty ‖w‖² on the features' weights w.
    """
    gram = train_features @ train_features.T + ridge * np.eye(len(train_features))
    return test_features @ train_features.T @ np.linalg.solve(gram, values)


def _case(tokens, others, pairs, ridge):
    b = draw(pairs, seed=3)
    both = features(draw(tokens + others, 1), b[:, None], "turns", "half", "cos")
    both = both / np.sqrt(pairs)
    return both[:tokens], draw(tokens, seed=5), both[tokens:], ridge


def _by(gram):
    """Make a wrong answer (a function) to the exercise ``ridge_regression``.

    The exercise asks for predicted values. In the wrong answer, ``gram(f, ridge)``, of
    the training features f, replaces the Gram matrix f fᵀ plus ``ridge`` times the
    identity.
    """
    return lambda f, y, g, ridge: g @ f.T @ np.linalg.solve(gram(f, ridge), y)


def _eye(f):
    return np.eye(len(f))


RIDGE_REGRESSION = Exercise(
    name="fourier-5",
    title="Ridge regression on features",
    kind="NumPy",
    minutes=12,
    lines=2,
    statement=r"""
`train_features` holds the features $\gamma_n$ of positions, `[n, features]`, at which the `values` $y_n$ are known; `test_features` holds those of other positions.
The weights $w$ minimize $\sum_n (w^\top \gamma_n - y_n)^2 + \text{ridge} \cdot \lVert w \rVert^2$.
Return the linear function $w^\top \gamma$ at the other positions.
Then try it with features of your own: how does the function change with σ?
""",
    hint=r"""
With `train_features` $= F$ the weights are $F^\top (F F^\top + \text{ridge} \cdot I)^{-1} y$, and $(F^\top F + \text{ridge} \cdot I)^{-1} F^\top y$ as well.
""",
    cases=(_case(1, 1, 2, 0.5), _case(3, 2, 4, 0.1), _case(6, 5, 16, 0.03)),
    solution=ridge_regression,
    misconceptions=(
        Misconception(
            "Without the ridge",
            "The ridge is added to the diagonal, and keeps the weights small.",
            _by(lambda f, ridge: f @ f.T),
        ),
        Misconception(
            "Ridge squared",
            "The ridge multiplies the square of the weights. It is not squared itself.",
            _by(lambda f, ridge: f @ f.T + ridge**2 * _eye(f)),
        ),
        Misconception(
            "Ridge halved",
            "Both squares have the factor 1, so the 2 of the derivative cancels.",
            _by(lambda f, ridge: f @ f.T + ridge / 2 * _eye(f)),
        ),
        Misconception(
            "Ridge doubled",
            "Both squares have the factor 1, so the 2 of the derivative cancels.",
            _by(lambda f, ridge: f @ f.T + 2 * ridge * _eye(f)),
        ),
        Misconception(
            "Ridge added to every entry",
            "The ridge is added to the diagonal alone.",
            _by(lambda f, ridge: f @ f.T + ridge),
        ),
        Misconception(
            "Ridge divided by the number of points",
            "The squares are added up, not averaged.",
            _by(lambda f, ridge: f @ f.T + ridge / len(f) * _eye(f)),
        ),
        Misconception(
            "Ridge multiplied by the number of points",
            "The squares are added up, not averaged.",
            _by(lambda f, ridge: f @ f.T + ridge * len(f) * _eye(f)),
        ),
        Misconception(
            "Ridge subtracted",
            "The ridge makes the diagonal larger.",
            _by(lambda f, ridge: f @ f.T - ridge * _eye(f)),
        ),
        Misconception(
            "Gram matrix not inverted",
            "Points near each other share their influence: multiply by the inverse of "
            "the Gram matrix.",
            lambda f, y, g, ridge: g @ f.T @ y,
        ),
        Misconception(
            "Kernel-weighted mean",
            "The method of Nadaraya and Watson takes such a mean. Least squares "
            "solves a linear system.",
            lambda f, y, g, ridge: (g @ f.T @ y) / (g @ f.T).sum(1),
        ),
        Misconception(
            "Only the diagonal inverted",
            "The whole Gram matrix is inverted.",
            lambda f, y, g, ridge: g @ f.T @ (y / (np.diag(f @ f.T) + ridge)),
        ),
        Misconception(
            "Ridge added to the features",
            "The ridge is added to the diagonal of the inner products of the features.",
            lambda f, y, g, ridge: ridge_regression(f + ridge, y, g, 0.01),
        ),
        Misconception(
            "Mean of the values taken out",
            "The weights minimize the sum as it is written. It has no constant.",
            lambda f, y, g, ridge: (
                y.mean() + ridge_regression(f, y - y.mean(), g, ridge)
            ),
        ),
        Misconception(
            "Kernel-weighted mean with a ridge",
            "The ridge belongs to the linear system of least squares, not to the sum of the weights of a mean.",
            lambda f, y, g, ridge: (g @ f.T @ y) / ((g @ f.T).sum(1) + ridge),
        ),
    ),
    properties=(
        Property(
            "A huge ridge makes the function 0",
            lambda answer, f, y, g, ridge: bool(
                np.abs(answer(f, y, g, 1e12)).max() < 1e-6
            ),
        ),
        Property(
            "Twice the values give twice the function",
            lambda answer, f, y, g, ridge: bool(
                np.allclose(answer(f, 2 * y, g, ridge), 2 * answer(f, y, g, ridge))
            ),
        ),
    ),
    explanation=r"""
Setting the gradient with respect to $w$ to zero gives $(F^\top F + \text{ridge} \cdot I)\, w = F^\top y$, and $w = F^\top (F F^\top + \text{ridge} \cdot I)^{-1} y$ solves this system; the second form inverts a matrix of the size of the number of positions.
$F F^\top$ and the products with the test features are all that enters, so the function is determined by the kernel of the features.
With a small σ the kernel is wide and the function too smooth: it misses the values even where they are known (underfitting).
With a large σ the kernel is narrow: the function passes near the known values and falls to 0 between them (overfitting), as the chapter shows for a picture, whose mean was subtracted first.
""",
)


# fourier-6: linear layers that stay relative


def is_relative(a):
    """Return whether the inner product of A γ(x) and A γ(y) depends on x − y alone.

    γ(x) are the Fourier features of a position x in the half layout; ``a`` is the
    matrix A, [rows, 2 * pairs].
    """
    gram = a.T @ a
    m = len(gram) // 2
    diagonal = np.diag(gram)
    return bool(
        np.allclose(gram, np.diag(diagonal), rtol=0, atol=1e-9)
        and np.allclose(diagonal[:m], diagonal[m:], rtol=0, atol=1e-9)
    )


def _agree(x, y, absolute=1e-9, relative=0.0):
    return bool(np.allclose(x, y, rtol=relative, atol=absolute))


def _of_blocks(rule):
    """Make a wrong answer (a function) to the exercise ``is_relative``.

    The exercise asks whether a layer keeps the features' inner products relative. The
    wrong answer is ``rule(cosines, sines, mixed)``, of three blocks of AᵀA: products of
    cosines' columns, of sines' columns, and of the ones with the others.
    """

    def answer(a):
        gram, m = a.T @ a, a.shape[1] // 2
        return bool(rule(gram[:m, :m], gram[m:, m:], gram[:m, m:]))

    return answer


def _is_relative_within(absolute, relative=0.0):
    def answer(a):
        gram = a.T @ a
        first, second = np.split(np.diag(gram), 2)
        needed = (gram, np.diag(np.diag(gram))), (first, second)
        return all(_agree(x, y, absolute, relative) for x, y in needed)

    return answer


def _has_pairs(gram):
    """Return whether a matrix is diagonal, with equal neighbors 2p and 2p + 1."""
    diagonal = np.diag(gram)
    differences = gram - np.diag(diagonal), diagonal[::2] - diagonal[1::2]
    return all(bool((abs(part) <= 1e-9).all()) for part in differences)


def _rotation(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


_TOLERANCES = (("a relative tolerance", 1e-9), ("`np.allclose`'s tolerances", 1e-8))
_QR = np.linalg.qr(draw(4, 4))[0]

_CROSSED = np.array(  # only the columns of the cosines are not orthogonal
    [[1.0, 2, 0, 0], [2, 1, 0, 0], [0, 0, 1, -2], [0, 0, 2, 1]]
)

IS_RELATIVE = Exercise(
    name="fourier-6",
    title="Linear layers that stay relative",
    kind="experiment",
    minutes=12,
    lines=7,
    statement=r"""
Positions are on a line, and the frequencies are positive and all different.
The features $\gamma(x)$, in the half layout, go through a linear layer `a`, `[rows, 2 * pairs]`.
Is $(A\, \gamma(x))^\top (A\, \gamma(y))$ a function of $x - y$ alone?
Return `True` or `False`, and ignore absolute differences below $10^{-9}$ between entries of $A^\top A$.
Try it with random positions before you decide: shift them and look whether the products change.
""",
    hint=r"""
Only $A^\top A$ matters.
For which entries of it do the products change under a shift of all positions?
""",
    cases=(
        (np.eye(2),),
        (np.array([[1.0, 0.0]]),),
        (np.diag([1.0, 2.0]),),
        (np.diag([1.0, 2.0, 1.0, 2.0]),),
        (np.diag([1.0, 1.0, 2.0, 2.0]),),
        (_rotation(0.7),),
        (3 * _QR,),
        (_QR @ np.diag([1.0, 2.0, 1.0, 2.0]),),
        (np.diag([1.0, 2.0, 1.0, 2.0]) @ _QR,),
        (np.array([[1.0, 0.5], [0.5, 1.0]]),),
        (np.array([[1.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.0, 0.0]] * 2),),
        (np.diag([1.0, -1.0]),),
        (np.vstack((np.eye(4), np.eye(4))),),
        (np.zeros((3, 2)),),
        (draw(3, 4),),
        (np.kron(np.eye(2), [[1.0, 0.5], [0.5, 1.0]]),),
        (_CROSSED,),
        (np.diag([1.0, 1.0 + 1e-6]),),
        (np.diag([1.0, 1.0 + 3e-9]),),
        (np.array([[1.0, 3e-9], [0.0, 1.0]]),),
        (np.diag([1.0, 1.0 + 1e-10]),),
        (np.array([[1.0, 1e-10], [0.0, 1.0]]),),
        (1e3 * np.diag([1.0, 1.0 + 1e-9]),),
    ),
    solution=is_relative,
    misconceptions=(
        Misconception(
            "Every linear layer accepted",
            "Your answer assumes that every linear layer keeps it. A cosine without "
            "its sine does not: cos x cos y depends on the position.",
            lambda a: True,
        ),
        Misconception(
            "No layer accepted",
            "Your answer assumes that no layer keeps it. The identity does.",
            lambda a: bool(a.shape[0] == a.shape[1] and (a == np.eye(len(a))).all()),
        ),
        Misconception(
            "Only orthogonal layers accepted",
            "Your answer assumes that A must be orthogonal. A weight for each pair "
            "keeps it, too.",
            lambda a: _agree(a.T @ a, np.eye(a.shape[1])),
        ),
        Misconception(
            "Only multiples of orthogonal layers accepted",
            "Your answer assumes one factor for all pairs. Each pair may have a "
            "weight of its own.",
            lambda a: _agree(a.T @ a, (a.T @ a)[0, 0] * np.eye(a.shape[1])),
        ),
        *(
            Misconception(
                f"All pairs forced to one length, with {tolerances}",
                "Each pair may have a weight of its own, and `np.allclose` also "
                "accepts relative differences up to 10⁻⁵, unless `rtol=0`.",
                lambda a, absolute=absolute: _agree(
                    a.T @ a, (a.T @ a)[0, 0] * np.eye(a.shape[1]), absolute, 1e-5
                ),
            )
            for tolerances, absolute in _TOLERANCES
        ),
        *(
            Misconception(
                f"All columns forced to length 1, with {tolerances}",
                "Each pair may have a weight of its own, and `np.allclose` also "
                "accepts relative differences up to 10⁻⁵, unless `rtol=0`.",
                lambda a, absolute=absolute: _agree(
                    a.T @ a, np.eye(a.shape[1]), absolute, 1e-5
                ),
            )
            for tolerances, absolute in _TOLERANCES
        ),
        Misconception(
            "Every diagonal A accepted, no other",
            "AᵀA must be diagonal, not A, and the two members of a pair need the same "
            "weight.",
            lambda a: bool(
                a.shape[0] == a.shape[1] and np.allclose(a, np.diag(np.diag(a)))
            ),
        ),
        Misconception(
            "Only diagonal A with a weight for each pair",
            "AᵀA must have that form. A itself may also contain any rotation.",
            lambda a: (
                is_relative(a)
                and bool(
                    a.shape[0] == a.shape[1] and np.allclose(a, np.diag(np.diag(a)))
                )
            ),
        ),
        Misconception(
            "Any orthogonal columns accepted",
            "The columns of the two members of a pair must also have the same length.",
            lambda a: _agree(a.T @ a, np.diag(np.diag(a.T @ a))),
        ),
        Misconception(
            "Any columns of the same length in each pair accepted",
            "The columns must also be orthogonal to each other and to all others.",
            lambda a: _agree(*np.split(np.diag(a.T @ a), 2)),
        ),
        Misconception(
            "Members of a pair taken to be neighbors",
            "In the half layout the sine of pair p is m places after its cosine.",
            lambda a: _has_pairs(a.T @ a),
        ),
        Misconception(
            "A Aᵀ in place of AᵀA",
            "The features are on the right of A, so their inner product has AᵀA.",
            lambda a: is_relative(a.T) if a.shape[0] % 2 == 0 else is_relative(a),
        ),
        Misconception(
            "Every invertible layer accepted",
            "An invertible layer loses nothing, but inner products change.",
            lambda a: bool(
                a.shape[0] >= a.shape[1] and np.linalg.matrix_rank(a) == a.shape[1]
            ),
        ),
        Misconception(
            "Every symmetric layer accepted",
            "AᵀA is always symmetric, so symmetry is not the condition.",
            lambda a: bool(a.shape[0] == a.shape[1] and np.allclose(a, a.T)),
        ),
        Misconception(
            "A that commutes with shifts",
            "AᵀA must commute with shifts. A may also be followed by any rotation.",
            lambda a: bool(a.shape[0] == a.shape[1] and _commutes(a, len(a) // 2)),
        ),
        Misconception(
            "Cosines and sines mixed alike",
            "In your layers a pair meets another one, and cos ωx cos ηy + sin ωx sin "
            "ηy is cos(ωx − ηy).",
            lambda a: bool(
                np.allclose((a.T @ a)[: a.shape[1] // 2, a.shape[1] // 2 :], 0)
                and np.allclose(
                    (a.T @ a)[: a.shape[1] // 2, : a.shape[1] // 2],
                    (a.T @ a)[a.shape[1] // 2 :, a.shape[1] // 2 :],
                )
            ),
        ),
        Misconception(
            "Tolerance too wide",
            "The tolerance 10⁻⁹ is absolute, and yours is far larger.",
            _is_relative_within(1e-3),
        ),
        Misconception(
            "Relative tolerance",
            "The tolerance 10⁻⁹ is absolute. `np.allclose` also accepts relative differences up to 10⁻⁵, unless `rtol=0`.",
            _is_relative_within(1e-8, 1e-5),
        ),
        Misconception(
            "Tolerance a little too wide",
            "The tolerance is 10⁻⁹, absolutely. Yours accepts 6 · 10⁻⁹.",
            _is_relative_within(1e-8),
        ),
        Misconception(
            "Products of different pairs ignored",
            "A product of columns of two different pairs is not relative either: their frequencies differ.",
            _of_blocks(
                lambda c, s, x: _agree(np.diag(c), np.diag(s)) and _agree(np.diag(x), 0)
            ),
        ),
        Misconception(
            "Blocks between pairs accepted",
            "Your condition is that of equal frequencies. The blocks between pairs of different frequencies must vanish.",
            _of_blocks(lambda c, s, x: _agree(c, s) and _agree(x, -x.T)),
        ),
    ),
    properties=(
        Property(
            "A rotation after the layer does not change the verdict",
            lambda answer, a: (
                answer(np.linalg.qr(draw(len(a), len(a), seed=9))[0] @ a) == answer(a)
            ),
        ),
    ),
    tolerance=0.0,
    level="hard",
    explanation=r"""
The products are $\gamma(x)^\top G\, \gamma(y)$ with $G = A^\top A$, so only $G$ matters, and $G$ is symmetric.
If $G$ is diagonal with one number $w_p$ for both members of a pair, the product is $\sum_p w_p \cos \omega_p (x - y)$, by {prf:ref}`the theorem on weights for pairs <thm-fourier-stays>`.
No other layer works: by {prf:ref}`the theorem on the commutant <thm-sin-commutant>` a form is relative only if its blocks are $a_p I$ plus $b_p$ times a skew matrix, and a symmetric $G$ has $b_p = 0$.
So $A$ may be any such weights followed by any rotation, but most layers, and nearly all trained ones, are not of this form.
""",
)


def _commutes(a, m):
    shift = np.kron(np.eye(2), np.diag(np.cos(np.arange(1, m + 1))))
    sines = np.diag(np.sin(np.arange(1, m + 1)))
    shift[:m, m:], shift[m:, :m] = -sines, sines
    return bool(np.allclose(shift @ a, a @ shift))


# fourier-7: where the sine of a pair stands


def colleagues_verdict(a):
    """Return whether ⟨A γ(x), A γ(y)⟩ is relative.

    It is if it depends on x − y alone.
    """
    product = a.T @ a
    on_diagonal = product.diagonal()
    others = product - np.diag(on_diagonal)
    cosines, sines = on_diagonal.reshape(-1, 2).T
    is_diagonal = abs(others).max() < 1e-9
    is_equal = abs(cosines - sines).max() < 1e-9
    return bool(is_diagonal and is_equal)


def layer_that_differs():
    """Return a smallest matrix on which `colleagues_verdict` is wrong."""
    return np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])


def _no_layer(a):
    if type(a) is not np.ndarray or a.dtype.kind not in "if":
        return "a is an array of numbers"
    if a.ndim != 2 or not a.size or a.shape[1] % 2:
        return "a is a matrix with an even number of columns"
    is_whole = np.isfinite(a).all() and (a == a.round()).all()
    return "" if is_whole else "all entries are whole numbers"


NEIGHBORS = Exercise(
    name="fourier-7",
    title="Find the input: which columns are a pair",
    kind="find the input",
    minutes=10,
    lines=1,
    statement=r"""
`colleagues_verdict` should do what exercise fourier-6 asks for.
She has tested it with $2 \times 2$ matrices, with the identity of size 4 and with a single row of ones; all of these tests pass.
Find a matrix `a` of whole numbers for which it is wrong, with as few entries as possible.
Which columns does she take for a pair, and which are one?
""",
    hint=r"""
Can the mistake show with a single pair?
How many columns of a matrix with one row can be orthogonal to each other, and not zero?
""",
    cases=((),),
    solution=layer_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_verdict,
        right=is_relative,
        tested=(
            (np.diag([1.0, 2.0]),),
            (np.array([[1.0, 2.0], [-2.0, 1.0]]),),
            (np.eye(4),),
            (np.ones((1, 4)),),
        ),
        refusal=_no_layer,
        size=lambda a: a.size,
        size_of="number of entries",
    ),
    tolerance=0.0,
    explanation=r"""
She takes the columns $2p$ and $2p + 1$ for a pair; in the half layout the sine of pair $p$ is $m$ places after its cosine, so column $p$ belongs to column $p + m$.
With a single pair both are the same, so $m \ge 2$.
With one row, orthogonal columns are zero except for one at most, and then both functions say `True` for the zero matrix alone.
So the smallest case has two rows and four columns, 8 entries: two orthogonal columns of the same length, in places 0 and 2 (relative, and she says `False`) or 0 and 1 (not relative, and she says `True`).
""",
)


SHEET = Sheet(
    title="Fourier features",
    conventions=r"""
$m$ is the number of frequencies, so that there are $2m$ features.
A frequency in turns has the angle $2\pi\, b^\top x$, one in radians the angle $b^\top x$.
$\Phi$ is the distribution function of the standard normal distribution, and GELU is $x\,\Phi(x)$.
""",
    example=r"""
from posedu.numpy.absolute import fourier_features

b = np.array([1.0, 2.0])
convention = dict(layout="half", first="cos")
scale = dict(unit="turns", amplitude="one")
x = fourier_features([0, 1 / 6], b, **convention, **scale)
print(np.round(x, 3))
""",
    figure="fourier_explorable",
    exercises=(
        KERNEL,
        FEATURES,
        FREQUENCIES_NEEDED,
        ENCODE,
        RIDGE_REGRESSION,
        IS_RELATIVE,
        NEIGHBORS,
    ),
)
