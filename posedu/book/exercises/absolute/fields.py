"""Exercises on fields: NeRF's encoding, the integrated one, hash grids."""

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

# fields-1: the kernel at a power of two


def kernel(octaves, n):
    """Return k(2^−n), exactly: the sum of cos(2^ℓ π 2^−n) for ℓ = 0 … octaves − 1."""
    slow = sp.Add(*(sp.cos(sp.pi / 2**j) for j in range(1, n + 1)))
    return slow - 1 + octaves - n - 1


def _kernel(slow=0, turned=-1, fast=-1):
    """Make a wrong answer to ``kernel``: what is added to the three kinds of cosines.

    ``slow`` is the number of slow cosines more than right, ``turned`` the cosine of a
    half turn, and ``octaves - n + fast`` the number of cosines that are 1.
    """

    def answer(octaves, n):
        waves = (sp.cos(sp.pi / 2**j) for j in range(1, n + 1 + slow))
        return sum(waves) + turned + octaves - n + fast

    return answer


KERNEL = Exercise(
    name="fields-1",
    title="NeRF's kernel at a power of two",
    kind="by hand",
    minutes=10,
    lines=2,
    statement=r"""
On paper: $k(t) = \sum_{\ell=0}^{L-1} \cos 2^\ell \pi\, t$ is the inner product of two codes on one axis.
What is $k(2^{-n})$ for $0 \le n < L$?
Return it for the number of `octaves` $L$ and `n`, exactly, as a SymPy expression: write out the cosines that are neither 1 nor −1.
Is there a largest value that they can add up to?
""",
    hint=r"""
Sort the octaves: $\ell < n$, $\ell = n$ and $\ell > n$.
""",
    cases=((1, 0), (4, 0), (2, 1), (4, 1), (3, 2), (10, 3), (8, 7)),
    solution=kernel,
    misconceptions=(
        Misconception(
            "The half turn left out",
            "At ℓ = n the angle is π, and its cosine is −1.",
            _kernel(turned=0),
        ),
        Misconception(
            "The half turn counted as 1",
            "At ℓ = n the angle is π, and its cosine is −1.",
            _kernel(turned=1),
        ),
        Misconception(
            "One octave too few",
            "The octaves n + 1 … L − 1 are L − n − 1.",
            _kernel(fast=-2),
        ),
        Misconception(
            "One slow octave too many",
            "The octaves below n are 0 … n − 1: their angles are π/2ⁿ … π/2.",
            _kernel(slow=1),
        ),
        Misconception(
            "The slow octaves left out",
            "The octaves below n have angles below a half turn; only that of π/2 has "
            "the cosine 0.",
            lambda octaves, n: sp.Integer(octaves - n - 2),
        ),
        Misconception(
            "2π in place of π",
            "The slowest octave, ℓ = 0, has the angle π t.",
            lambda octaves, n: sum(
                sp.cos(2 * sp.pi * sp.Rational(2**octave, 2**n))
                for octave in range(octaves)
            ),
        ),
        Misconception(
            "π forgotten",
            "Without π this is the published code, whose cosines are not so simple.",
            lambda octaves, n: sum(
                sp.cos(sp.Rational(2**octave, 2**n)) for octave in range(octaves)
            ),
        ),
        Misconception(
            "Sines in place of cosines",
            "An inner product of two pairs is the cosine of the difference.",
            lambda octaves, n: sum(
                sp.sin(sp.pi * sp.Rational(2**octave, 2**n))
                for octave in range(octaves)
            ),
        ),
        Misconception(
            "Frequencies 1, 2, 3, …",
            "Each octave doubles the frequency.",
            lambda octaves, n: sum(
                sp.cos(sp.pi * sp.Rational(m, 2**n)) for m in range(1, octaves + 1)
            ),
        ),
        Misconception(
            "A mean in place of a sum",
            "The inner product adds up all octaves.",
            lambda octaves, n: kernel(octaves, n) / octaves,
        ),
    ),
    explanation=r"""
For $\ell > n$ the angle $2^{\ell-n}\pi$ is a multiple of a full turn: $L - n - 1$ cosines are 1.
For $\ell = n$ it is a half turn: $-1$.
For $\ell < n$ it is $\pi/2^{n-\ell}$, between $\pi/2^n$ and $\pi/2$: these cosines stay, and $k(2^{-n}) = L - n - 2 + \sum_{j=1}^{n} \cos (\pi/2^j)$.
There is no largest value: for large $j$ the cosines are nearly 1.
With $n = 0$ this is {prf:ref}`the alias of the chapter <thm-nerf-alias>`, $k(1) = L - 2$; at $t = \frac12$ one more octave is lost, and so on: the kernel has a lobe at every power of two.
""",
)


# fields-2: the code in three orders


def features(x, octaves, unit, layout, append_input):
    """NeRF's code of the points ``x``, [tokens, axes], for each octave ℓ and axis.

    ``unit`` is "half turns", with the angle 2^ℓ π x, or "radians", 2^ℓ x. ``layout`` is
    "axes" (axis by axis, octave by octave, sine and cosine in turn), "octaves" (octave
    by octave, sines of all axes, then cosines) or "half" (all sines, then all cosines,
    each octave by octave). ``append_input`` puts the coordinates in front.
    """
    factor = np.pi if unit == "half turns" else 1
    angle = factor * x[:, :, None] * 2.0 ** np.arange(octaves)
    waves = np.stack((np.sin(angle), np.cos(angle)), 3)  # axis, octave, function
    order = {"axes": (0, 1, 2, 3), "octaves": (0, 2, 3, 1), "half": (0, 3, 2, 1)}
    code = waves.transpose(order[layout]).reshape(len(x), -1)
    return np.concatenate((x, code), 1) if append_input else code


def _features(order=None, waves=(np.sin, np.cos), frequencies=None, half=np.pi):
    """Make a wrong answer to ``features``.

    ``order(layout)`` are the axes of [tokens, axis, octave, function], ``waves`` the
    two functions, ``frequencies(octaves)`` the frequencies, and ``half`` a half turn.
    """
    orders = {"axes": (0, 1, 2, 3), "octaves": (0, 2, 3, 1), "half": (0, 3, 2, 1)}

    def answer(x, octaves, unit, layout, append_input):
        factor = half if unit == "half turns" else 1
        own = 2.0 ** np.arange(octaves) if frequencies is None else frequencies(octaves)
        angle = factor * x[:, :, None] * own
        both = np.stack([wave(angle) for wave in waves], 3)
        axes = orders[layout] if order is None else order(layout)
        code = both.transpose(axes).reshape(len(x), -1)
        return np.concatenate((x, code), 1) if append_input else code

    return answer


FEATURES = Exercise(
    name="fields-2",
    title="NeRF's code in three orders",
    kind="NumPy",
    minutes=12,
    lines=6,
    statement=r"""
`x` holds points, `[tokens, axes]`.
Return NeRF's code of each, with `octaves` frequencies $2^\ell$, in float64.
`unit` is `"half turns"` (the angle is $2^\ell \pi x$) or `"radians"` ($2^\ell x$).
`layout` is `"axes"`: axis by axis, in it octave by octave, sine and cosine in turn; `"octaves"`: octave by octave, in it the sines of all axes, then the cosines; or `"half"`: all sines, then all cosines, each octave by octave, and in an octave axis by axis.
With `append_input` the coordinates stand in front.
Which of these orders is a matter of taste, and when is it not?
""",
    hint=r"""
Make an array `[tokens, axes, octaves, 2]` first.
The layouts are three orders of its axes.
""",
    cases=tuple(
        (0.4 * draw(tokens, axes), octaves, *options)
        for tokens, axes, octaves, options in (
            (1, 1, 2, ("half turns", "axes", False)),
            (1, 2, 3, ("radians", "octaves", True)),
            (2, 3, 2, ("half turns", "half", False)),
            (3, 2, 3, ("half turns", "axes", True)),
            (2, 3, 4, ("radians", "half", True)),
            (2, 2, 3, ("half turns", "octaves", False)),
            (2, 2, 3, ("radians", "axes", False)),
        )
    ),
    solution=features,
    misconceptions=(
        Misconception(
            "π, whatever `unit` is",
            "In radians the angle is 2^ℓ x, without π.",
            lambda x, octaves, unit, layout, append_input: features(
                x, octaves, "half turns", layout, append_input
            ),
        ),
        Misconception(
            "No π, whatever `unit` is",
            "In half turns the angle is 2^ℓ π x.",
            lambda x, octaves, unit, layout, append_input: features(
                x, octaves, "radians", layout, append_input
            ),
        ),
        Misconception(
            "Units exchanged",
            "π belongs to half turns.",
            lambda x, octaves, unit, layout, append_input: features(
                x,
                octaves,
                "radians" if unit == "half turns" else "half turns",
                layout,
                append_input,
            ),
        ),
        Misconception(
            "2π in place of π", "A half turn is π.", _features(half=2 * np.pi)
        ),
        Misconception(
            "The layout 'axes', whatever is asked for",
            "`layout` says in which order the features are.",
            _features(order=lambda layout: (0, 1, 2, 3)),
        ),
        Misconception(
            "The layout 'octaves', whatever is asked for",
            "`layout` says in which order the features are.",
            _features(order=lambda layout: (0, 2, 3, 1)),
        ),
        Misconception(
            "The layout 'half', whatever is asked for",
            "`layout` says in which order the features are.",
            _features(order=lambda layout: (0, 3, 2, 1)),
        ),
        Misconception(
            "Axes before octaves in 'half'",
            "Each half goes octave by octave, and an octave axis by axis.",
            _features(
                order=lambda layout: {
                    "axes": (0, 1, 2, 3),
                    "octaves": (0, 2, 3, 1),
                    "half": (0, 3, 1, 2),
                }[layout]
            ),
        ),
        Misconception(
            "Sine and cosine in turn in 'octaves'",
            "An octave has the sines of all axes first.",
            _features(
                order=lambda layout: {
                    "axes": (0, 1, 2, 3),
                    "octaves": (0, 2, 1, 3),
                    "half": (0, 3, 2, 1),
                }[layout]
            ),
        ),
        Misconception(
            "Sines before cosines in 'axes'",
            "On each axis sine and cosine of one octave are side by side.",
            _features(
                order=lambda layout: {
                    "axes": (0, 1, 3, 2),
                    "octaves": (0, 2, 3, 1),
                    "half": (0, 3, 2, 1),
                }[layout]
            ),
        ),
        Misconception(
            "Cosines first", "Sines come first.", _features(waves=(np.cos, np.sin))
        ),
        Misconception(
            "Octaves counted from 1",
            "The slowest octave has the frequency 2⁰ = 1.",
            _features(frequencies=lambda n: 2.0 ** np.arange(1, n + 1)),
        ),
        Misconception(
            "Frequencies 1, 2, 3, …",
            "Each octave doubles the frequency.",
            _features(frequencies=lambda n: np.arange(1.0, n + 1)),
        ),
        Misconception(
            "Evenly spaced frequencies",
            "The published code has such a switch, but each octave doubles the "
            "frequency.",
            _features(frequencies=lambda n: np.linspace(1, 2.0 ** (n - 1), n)),
        ),
        Misconception(
            "Octaves halved",
            "The frequencies grow: 1, 2, 4, …",
            _features(frequencies=lambda n: 2.0 ** -np.arange(n)),
        ),
        Misconception(
            "The input at the end",
            "The coordinates stand in front of the waves.",
            lambda x, octaves, unit, layout, append_input: np.concatenate(
                (
                    features(x, octaves, unit, layout, False),
                    x[:, : x.shape[1] * append_input],
                ),
                1,
            ),
        ),
    ),
    properties=(
        Property(
            "Sine and cosine of each angle have squares that add up to 1",
            lambda answer, x, octaves, unit, layout, append_input: bool(
                np.allclose(
                    (answer(x, octaves, unit, layout, False) ** 2).sum(1),
                    x.shape[1] * octaves,
                )
            ),
        ),
    ),
    explanation=r"""
All angles are one array `[tokens, axes, octaves]`, and sines and cosines are stacked on a fourth axis; a layout is an order of the last three axes before they become one.
For a network that is trained from the start the order is a matter of taste: a permutation of its first layer's columns gives back the same function.
It is not where trained weights are loaded, and the factor π never is: it changes the frequencies, as {prf:ref}`the theorem on aliases <thm-nerf-alias>` shows.
""",
)


# fields-3: which point is most similar


def most_similar(points, octaves):
    """Return for each point the index of the other point with the most similar code.

    ``points`` are [tokens, axes]. Codes have ``octaves`` octaves in half turns, and are
    similar if their inner product is large; of equal ones, to 10⁻⁹, the first counts.
    The indices are an integer array, [tokens].
    """
    offset = points[:, None] - points
    angle = np.pi * offset[..., None] * 2.0 ** np.arange(octaves)
    score = np.cos(angle).sum((2, 3))
    np.fill_diagonal(score, -np.inf)
    return score.round(9).argmax(1)


def _most_similar(score, fill=-np.inf):
    def answer(points, octaves):
        found = score(points, octaves)
        np.fill_diagonal(found, fill)
        return found.round(9).argmax(1)

    return answer


def _cosines(points, octaves, half=np.pi, start=0, wave=np.cos):
    offset = points[:, None] - points
    frequencies = 2.0 ** np.arange(start, octaves + start)
    return wave(half * offset[..., None] * frequencies)


def _near(points, octaves):
    return -np.linalg.norm(points[:, None] - points, axis=-1)


_LINE = np.linspace(-1, 1, 9)[:, None]
_GRID = np.stack(np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 5)), -1)

SIMILAR = Exercise(
    name="fields-3",
    title="The most similar point",
    kind="experiment",
    minutes=12,
    lines=6,
    statement=r"""
`points` are `[tokens, axes]`.
Which other point has the most similar code, by the inner product of NeRF's codes with `octaves` octaves, in half turns?
Return its index for each point, as an integer array; of points that are equally similar, to $10^{-9}$, take the first.
Try it on nine points from −1 to 1 with ten octaves: which point is the most similar to the last one, and which to the second?
""",
    hint=r"""
The inner product depends on the offset alone.
A point is always the most similar to itself, so leave it out.
""",
    cases=(
        (np.array([[-1.0], [0.9], [1.0]]), 4),
        (_LINE, 10),
        (_LINE, 1),
        (_GRID.reshape(-1, 2), 3),
        (0.5 * draw(6, 2), 2),
        (0.7 * draw(7, 1, seed=1), 3),
        (draw(5, 3, seed=2), 4),
    ),
    solution=most_similar,
    misconceptions=(
        Misconception(
            "The nearest point",
            "The inner product is not a function that falls with the distance: it has "
            "lobes.",
            _most_similar(_near),
        ),
        Misconception(
            "A point with itself",
            "Each point is the most similar to itself; the other points are asked for.",
            lambda points, octaves: _cosines(points, octaves).sum((2, 3)).argmax(1),
        ),
        Misconception(
            "The least similar point",
            "The largest inner product is asked for.",
            _most_similar(lambda p, octaves: -_cosines(p, octaves).sum((2, 3))),
        ),
        Misconception(
            "The largest size",
            "A large negative inner product is no similarity.",
            _most_similar(lambda p, octaves: abs(_cosines(p, octaves).sum((2, 3)))),
        ),
        Misconception(
            "π forgotten",
            "The codes are in half turns. Without π the ends are not alike.",
            _most_similar(lambda p, octaves: _cosines(p, octaves, half=1).sum((2, 3))),
        ),
        Misconception(
            "2π in place of π",
            "A half turn is π: the slowest octave, ℓ = 0, has the period 2, not 1.",
            _most_similar(
                lambda p, octaves: _cosines(p, octaves, half=2 * np.pi).sum((2, 3))
            ),
        ),
        Misconception(
            "The product over the axes",
            "The inner product is a sum over all features, so over the axes, too.",
            _most_similar(
                lambda p, octaves: _cosines(p, octaves).sum(3).prod(2),
            ),
        ),
        Misconception(
            "Sines alone",
            "The code has cosines, too, and the product of both pairs is a cosine of "
            "the difference.",
            _most_similar(
                lambda p, octaves: np.einsum(
                    "iaf,jaf->ij",
                    np.sin(np.pi * p[..., None] * 2.0 ** np.arange(octaves)),
                    np.sin(np.pi * p[..., None] * 2.0 ** np.arange(octaves)),
                )
            ),
        ),
        Misconception(
            "Only the first axis",
            "All axes count.",
            _most_similar(lambda p, octaves: _cosines(p[:, :1], octaves).sum((2, 3))),
        ),
        Misconception(
            "Only the last octave",
            "All octaves count.",
            _most_similar(lambda p, octaves: _cosines(p, octaves)[..., -1].sum(2)),
        ),
        Misconception(
            "Only the first octave",
            "All octaves count.",
            _most_similar(lambda p, octaves: _cosines(p, octaves)[..., 0].sum(2)),
        ),
        Misconception(
            "The last of equal ones",
            "Of points that are equally similar the first counts.",
            lambda points, octaves: (
                len(points)
                - 1
                - np.array(
                    [
                        row[::-1].argmax()
                        for row in (
                            _cosines(points, octaves).sum((2, 3))
                            - 1e9 * np.eye(len(points))
                        ).round(6)
                    ]
                )
            ),
        ),
        Misconception(
            "Roundings decide",
            "Two points may be equally similar: compare to 10⁻⁹, or roundings of the "
            "last digit choose for you.",
            lambda points, octaves: (
                _cosines(points, octaves).sum((2, 3)) - 1e9 * np.eye(len(points))
            ).argmax(1),
        ),
    ),
    tolerance=0.0,
    explanation=r"""
The inner product of two codes is the sum of $k(x_a - y_a)$ over the axes, so only offsets are needed.
On nine points from −1 to 1 the last one is the most similar to the first: they have one code, by {prf:ref}`the theorem on aliases <thm-nerf-alias>`.
The second, −¾, has no partner at the distance 2; the most similar one is at the distance 1, where the kernel is $L - 2$, and not its neighbor, where it is only $L - 4 + \cos \frac\pi4$.
A network has to take such points apart by the one octave in which they differ.
""",
    prediction=Prediction(
        "Of nine points from −1 to 1, how many have a neighbor as the most similar "
        "point, with ten octaves?",
        lambda: int((abs(most_similar(_LINE, 10) - np.arange(9)) == 1).sum()),
    ),
)


# fields-4: the variance of a wave


def variance(mean, deviation):
    """Return the variance of sin x for x ~ N(mean, deviation²), as an expression."""
    v = deviation**2
    square = (1 - sp.exp(-2 * v) * sp.cos(2 * mean)) / 2
    return square - sp.exp(-v) * sp.sin(mean) ** 2


def _variance(double=2, single=1, half=sp.S.Half, sign=-1, wave=sp.cos):
    """Make a wrong answer to ``variance``: exponents and factors of its two terms."""

    def answer(mean, deviation):
        v = deviation**2
        square = half * (1 + sign * sp.exp(-double * v) * wave(2 * mean))
        return square - sp.exp(-single * v) * sp.sin(mean) ** 2

    return answer


_MU = sp.Symbol("mu", real=True)
_S = sp.Symbol("sigma", positive=True)

VARIANCE = Exercise(
    name="fields-4",
    title="The variance of a feature",
    kind="by hand",
    minutes=10,
    lines=3,
    statement=r"""
On paper: $x \sim \mathcal N(\mu, \sigma^2)$, and $\operatorname{E} \sin x = e^{-\sigma^2/2} \sin \mu$, $\operatorname{E} \cos x = e^{-\sigma^2/2} \cos \mu$.
What is the variance of $\sin x$?
Return a SymPy expression of `mean` and `deviation`.
What does it tend to when nothing is known of $x$?
""",
    hint=r"""
$\sin^2 x = \frac12 (1 - \cos 2x)$, and $2x$ is normal, too.
""",
    cases=(
        (sp.Integer(0), sp.Integer(1)),
        (sp.Rational(1, 2), sp.Rational(1, 3)),
        (_MU, sp.Rational(1, 2)),
        (_MU, _S),
    ),
    solution=variance,
    misconceptions=(
        Misconception(
            "The mean of the square",
            "The variance is the mean of the square less the square of the mean.",
            lambda mean, deviation: (
                (1 - sp.exp(-2 * deviation**2) * sp.cos(2 * mean)) / 2
            ),
        ),
        Misconception(
            "cos 2x damped like cos x",
            "2x has the deviation 2σ, so the exponent is −(2σ)²/2 = −2σ².",
            _variance(double=sp.Rational(1, 2)),
        ),
        Misconception(
            "Exponent of 2x only doubled",
            "2x has the variance 4σ², four times as large.",
            _variance(double=1),
        ),
        Misconception(
            "Exponent −4σ²",
            "The exponent is half the variance of 2x, 4σ²/2.",
            _variance(double=4),
        ),
        Misconception(
            "Mean not squared",
            "The square of e^(−σ²/2) sin μ has e^(−σ²).",
            _variance(single=sp.Rational(1, 2)),
        ),
        Misconception(
            "Mean damped too strongly",
            "The square of e^(−σ²/2) is e^(−σ²).",
            _variance(single=2),
        ),
        Misconception(
            "The variance of the cosine",
            "sin² x is ½ (1 − cos 2x), with a minus.",
            lambda mean, deviation: variance(mean + sp.pi / 2, deviation),
        ),
        Misconception(
            "cos² in place of sin²",
            "sin² x is ½ (1 − cos 2x), with a minus.",
            _variance(sign=1),
        ),
        Misconception(
            "½ forgotten",
            "sin² x is half of 1 − cos 2x.",
            _variance(half=1),
        ),
        Misconception(
            "Linear error propagation",
            "cos² μ σ² holds for small σ only; it grows without bound.",
            lambda mean, deviation: (deviation * sp.cos(mean)) ** 2,
        ),
        Misconception(
            "σ in place of σ²",
            "The exponents have the variance, not the deviation.",
            lambda mean, deviation: variance(mean, sp.sqrt(deviation)),
        ),
        Misconception(
            "sin 2μ",
            "sin² x contains the cosine of 2x.",
            _variance(wave=sp.sin),
        ),
        Misconception(
            "1 − e^(−σ²)",
            "That is the sum of the variances of sine and cosine.",
            lambda mean, deviation: 1 - sp.exp(-(deviation**2)),
        ),
    ),
    properties=(
        Property(
            "The variances at μ and at μ + π/2, of sine and cosine, add up to "
            "1 − e^(−σ²)",
            lambda answer, mean, deviation: bool(
                abs(
                    sp.N(
                        answer(sp.Rational(1, 3), sp.Rational(1, 2))
                        + answer(sp.Rational(1, 3) + sp.pi / 2, sp.Rational(1, 2))
                        - 1
                        + sp.exp(-sp.Rational(1, 4))
                    )
                )
                < 1e-9
            ),
        ),
    ),
    explanation=r"""
$\operatorname{E} \sin^2 x = \frac12 (1 - \operatorname{E} \cos 2x) = \frac12 (1 - e^{-2\sigma^2} \cos 2\mu)$, because $2x$ has the variance $4\sigma^2$.
Less the square of the mean it is $\frac12 (1 - e^{-2\sigma^2} \cos 2\mu) - e^{-\sigma^2} \sin^2 \mu$.
For large $\sigma$ it tends to $\frac12$, the variance of a sine at an angle of which nothing is known: the mean code, {prf:ref}`the integrated encoding <def-integrated-box>`, is 0 there, and each single code is not.
""",
)


# fields-5: the integrated encoding


def integrated(mean, deviation, octaves):
    """Return the mean code for the points' ``mean`` and ``deviation``, [tokens, axes].

    Angles are 2^ℓ x, for ℓ = 0 … octaves − 1. All sines come first, then all cosines,
    each octave by octave, and in an octave axis by axis.
    """
    theta = 2.0 ** np.arange(octaves)[:, None]
    angle = mean[:, None] * theta
    damping = np.exp(-((deviation[:, None] * theta) ** 2) / 2)
    waves = np.stack((damping * np.sin(angle), damping * np.cos(angle)), 1)
    return waves.reshape(len(mean), -1)


def _integrated(exponent=None, waves=(np.sin, np.cos), axes=(0, 1, 2, 3)):
    """Make a wrong answer to ``integrated``.

    ``exponent(deviation, theta)`` is that of the damping, without its minus; ``waves``
    replace sine and cosine; ``axes`` are those of [tokens, function, octave, axis].
    """

    def answer(mean, deviation, octaves):
        theta = 2.0 ** np.arange(octaves)[:, None]
        angle, spread = mean[:, None] * theta, deviation[:, None]
        own = (spread * theta) ** 2 / 2 if exponent is None else exponent(spread, theta)
        both = np.stack([np.exp(-own) * wave(angle) for wave in waves], 1)
        return both.transpose(axes).reshape(len(mean), -1)

    return answer


INTEGRATED = Exercise(
    name="fields-5",
    title="The integrated encoding",
    kind="NumPy",
    minutes=10,
    lines=5,
    statement=r"""
`mean` and `deviation` are `[tokens, axes]`: each coordinate is normal, with this mean and standard deviation.
Return the mean of NeRF's code for each token, with `octaves` octaves and the angles $2^\ell x$: all sines first, then all cosines, each octave by octave, and in an octave axis by axis.
Which octave fades first?
""",
    hint=r"""
The factor of an octave is $e^{-(2^\ell \sigma)^2/2}$.
""",
    cases=(
        (np.array([[0.5]]), np.array([[0.25]]), 2),
        (np.array([[0.5, -1.0]]), np.array([[0.0, 0.5]]), 2),
        (draw(3, 2), abs(draw(3, 2, seed=1)), 3),
        (draw(2, 3, seed=2), 0.3 * abs(draw(2, 3, seed=3)), 4),
    ),
    solution=integrated,
    misconceptions=(
        Misconception(
            "The code of the mean",
            "Uncertainty damps each octave.",
            _integrated(exponent=lambda s, theta: 0 * s * theta),
        ),
        Misconception(
            "Exponent without ½",
            "The exponent is half of the variance of the angle.",
            _integrated(exponent=lambda s, theta: (s * theta) ** 2),
        ),
        Misconception(
            "Frequency not squared",
            "The variance of the angle is 4^ℓ σ².",
            _integrated(exponent=lambda s, theta: s**2 * theta / 2),
        ),
        Misconception(
            "Deviation not squared",
            "The variance of the angle is 4^ℓ σ².",
            _integrated(exponent=lambda s, theta: s * theta**2 / 2),
        ),
        Misconception(
            "Neither squared",
            "The exponent has the variance of the angle, not its deviation.",
            _integrated(exponent=lambda s, theta: s * theta / 2),
        ),
        Misconception(
            "The same factor for all octaves",
            "An octave's angle has the deviation 2^ℓ σ.",
            _integrated(exponent=lambda s, theta: s**2 / 2 * theta**0),
        ),
        Misconception(
            "Divided by the frequency",
            "Fast octaves fade first.",
            _integrated(exponent=lambda s, theta: (s / theta) ** 2 / 2),
        ),
        Misconception(
            "With π",
            "The angles are 2^ℓ x, without π.",
            lambda mean, deviation, octaves: integrated(
                np.pi * mean, np.pi * deviation, octaves
            ),
        ),
        Misconception(
            "π in the exponent alone",
            "The angles are 2^ℓ x, without π.",
            _integrated(exponent=lambda s, theta: (np.pi * s * theta) ** 2 / 2),
        ),
        Misconception(
            "Cosines first",
            "All sines come first.",
            _integrated(waves=(np.cos, np.sin)),
        ),
        Misconception(
            "Octave by octave, sines and cosines",
            "All sines come first, of all octaves.",
            _integrated(axes=(0, 2, 1, 3)),
        ),
        Misconception(
            "Axis by axis in each half",
            "Each half goes octave by octave, and in an octave axis by axis.",
            _integrated(axes=(0, 1, 3, 2)),
        ),
        Misconception(
            "NeRF's order of the paper",
            "All sines come first.",
            _integrated(axes=(0, 3, 2, 1)),
        ),
        Misconception(
            "Octaves counted from 1",
            "The slowest octave has the angle x.",
            lambda mean, deviation, octaves: integrated(
                2 * mean, 2 * deviation, octaves
            ),
        ),
        Misconception(
            "Mean and deviation exchanged",
            "The mean is in the angle, the deviation in the factor.",
            lambda mean, deviation, octaves: integrated(deviation, mean, octaves),
        ),
        Misconception(
            "Growing instead of fading",
            "The exponent is negative.",
            _integrated(exponent=lambda s, theta: -((s * theta) ** 2) / 2),
        ),
    ),
    properties=(
        Property(
            "Without deviations the squares of a code add up to axes times octaves",
            lambda answer, mean, deviation, octaves: bool(
                np.allclose(
                    (answer(mean, 0 * mean, octaves) ** 2).sum(1),
                    mean.shape[1] * octaves,
                )
            ),
        ),
    ),
    explanation=r"""
An octave's angle is normal with the deviation $2^\ell \sigma$, so its sine and cosine have the means $e^{-4^\ell \sigma^2/2} \sin 2^\ell \mu$ and $e^{-4^\ell \sigma^2/2} \cos 2^\ell \mu$, as {prf:ref}`the definition <def-integrated-box>` asks.
The fastest octave fades first: the factor of each octave is the fourth power of that of the one below.
""",
)


# fields-6: scores of jittered positions


def mean_score(q, k, offset, deviation, omega):
    """Return RoPE's mean score of one query and one key at uncertain positions, a scalar.

    ``q`` and ``k`` are [2 * pairs], in the half layout, and ``omega`` are the
    frequencies, [pairs]. The positions are independent and normal, with the difference
    ``offset`` of the query's mean and the key's, and both with ``deviation``.
    """
    a, b = q.chunk(2)
    c, d = k.chunk(2)
    angle = omega * offset
    score = (a * c + b * d) * angle.cos() + (b * c - a * d) * angle.sin()
    return (score * (-((omega * deviation) ** 2)).exp()).sum()


def _mean_score(exponent=None, sign=1, pairs=None):
    """Make a wrong answer to ``mean_score``.

    ``exponent(omega, deviation)`` is that of the damping, without its minus; ``sign``
    multiplies the offset; ``pairs(x)`` are first and second members.
    """

    def answer(q, k, offset, deviation, omega):
        halves = (lambda x: x.chunk(2)) if pairs is None else pairs
        (a, b), (c, d) = halves(q), halves(k)
        angle = sign * omega * offset
        score = (a * c + b * d) * angle.cos() + (b * c - a * d) * angle.sin()
        if exponent is None:
            own = (omega * deviation) ** 2
        else:
            own = exponent(omega, deviation)
        return (score * (-own).exp()).sum()

    return answer


def _vectors(pairs, seed):
    return (torch.tensor(draw(2 * pairs, seed=seed + n)) for n in (0, 1))


MEAN_SCORE = Exercise(
    name="fields-6",
    title="RoPE at uncertain positions",
    kind="PyTorch",
    minutes=15,
    lines=5,
    statement=r"""
A query `q` and a key `k`, `[2 * pairs]` in the half layout, are rotated by RoPE with the frequencies `omega`, `[pairs]`.
Their positions are independent and normal, each with the standard deviation `deviation`; the query's mean less the key's is `offset`.
Return the mean of the score $q^\top R_{j-i}\, k$, without a scale, as a tensor with one number.
A pair $p$ rotates $(x_p, x_{p + \text{pairs}})$ from the first towards the second by the position times `omega[p]`.
What changes if one error moves both positions?
""",
    hint=r"""
Without uncertainty a pair $(a, b)$ of the query and $(c, d)$ of the key give $(ac + bd) \cos \alpha + (bc - ad) \sin \alpha$.
The difference of the positions is normal, too: with which variance?
""",
    cases=tuple(
        (*_vectors(pairs, seed), offset, deviation, torch.tensor(omega))
        for pairs, seed, offset, deviation, omega in (
            (1, 0, 1.0, 0.5, [1.0]),
            (2, 2, 3.0, 0.7, [1.0, 0.1]),
            (2, 4, -2.0, 0.0, [0.5, 0.25]),
            (4, 6, 5.0, 2.0, [1.0, 0.3, 0.1, 0.03]),
        )
    ),
    solution=mean_score,
    misconceptions=(
        Misconception(
            "No damping",
            "The mean of a cosine is not the cosine of the mean.",
            _mean_score(exponent=lambda omega, s: 0 * omega),
        ),
        Misconception(
            "One position certain",
            "Both positions are uncertain: the variances add up.",
            _mean_score(exponent=lambda omega, s: (omega * s) ** 2 / 2),
        ),
        Misconception(
            "Deviations added",
            "Variances of independent numbers add up, not deviations.",
            _mean_score(exponent=lambda omega, s: 2 * (omega * s) ** 2),
        ),
        Misconception(
            "Frequency not squared",
            "The variance of an angle has the square of its frequency.",
            _mean_score(exponent=lambda omega, s: omega * s**2),
        ),
        Misconception(
            "Deviation not squared",
            "The exponent has the variance.",
            _mean_score(exponent=lambda omega, s: omega**2 * s),
        ),
        Misconception(
            "One factor for all pairs",
            "A fast pair is damped more than a slow one.",
            _mean_score(exponent=lambda omega, s: 0 * omega + s**2),
        ),
        Misconception(
            "2π in the exponent",
            "The frequencies are in radians.",
            _mean_score(exponent=lambda omega, s: (2 * torch.pi * omega * s) ** 2),
        ),
        Misconception(
            "Offset with the other sign",
            "The offset is the query's position less the key's.",
            _mean_score(sign=-1),
        ),
        Misconception(
            "Interleaved layout",
            "In the half layout the second member of a pair is `pairs` places later.",
            _mean_score(pairs=lambda x: (x[::2], x[1::2])),
        ),
        Misconception(
            "Growing instead of fading",
            "The exponent is negative.",
            _mean_score(exponent=lambda omega, s: -((omega * s) ** 2)),
        ),
        Misconception(
            "Cosines alone",
            "q and k differ, so the sine of the offset counts, too.",
            lambda q, k, offset, deviation, omega: (
                (q * k).reshape(2, -1).sum(0)
                * (omega * offset).cos()
                * (-((omega * deviation) ** 2)).exp()
            ).sum(),
        ),
        Misconception(
            "Scaled by √d",
            "The score is asked for without a scale.",
            lambda q, k, offset, deviation, omega: (
                mean_score(q, k, offset, deviation, omega) / len(q) ** 0.5
            ),
        ),
        Misconception(
            "A mean over the pairs",
            "The score is the sum over all pairs.",
            lambda q, k, offset, deviation, omega: (
                mean_score(q, k, offset, deviation, omega) / len(omega)
            ),
        ),
    ),
    properties=(
        Property(
            "Without uncertainty and offset the score is the inner product",
            lambda answer, q, k, offset, deviation, omega: bool(
                torch.isclose(answer(q, k, 0.0, 0.0, omega), (q * k).sum())
            ),
        ),
    ),
    explanation=r"""
A pair's score is a cosine and a sine of $\omega_p$ times the difference of the positions, and this difference is normal with the variance $2\sigma^2$.
So each pair is damped by $e^{-\omega_p^2 \cdot 2\sigma^2/2} = e^{-\omega_p^2 \sigma^2}$, by {prf:ref}`the theorem on uncertain positions <thm-integrated-rope>` with $\rho = \sigma$.
If one error moves both positions, their difference is certain, and nothing is damped.
""",
)


# fields-7: the hash


_PRIME = 2_654_435_761


def hashed(x, y, table_size):
    """Return the row of each vertex (x, y), integer arrays, in a table of so many rows.

    The factors are 1 and 2654435761, and ``table_size`` is a power of two.
    """
    return (x ^ (y * _PRIME)) % table_size


HASHED = Exercise(
    name="fields-7",
    title="The hash of a vertex",
    kind="NumPy",
    minutes=6,
    lines=1,
    statement=r"""
`x` and `y` are the coordinates of vertices, arrays of integers from 0 to $2^{20}$.
Return the row of each vertex in a table of `table_size` rows, a power of two: the exclusive or of $1 \cdot x$ and $2654435761 \cdot y$, modulo `table_size`, as an integer array.
Must you let the products wrap at $2^{32}$, as the published program does?
""",
    hint=r"""
In NumPy the exclusive or of integers is `^`.
""",
    cases=(
        (np.array([1]), np.array([1]), 16),
        (np.array([0, 3, 5]), np.array([0, 0, 2]), 64),
        (np.arange(9), np.arange(9)[::-1].copy(), 16),
        (np.array([1000, 2**20, 77]), np.array([2**20, 999, 123456]), 2**14),
    ),
    solution=hashed,
    misconceptions=(
        Misconception(
            "A sum in place of the exclusive or",
            "`^` compares binary digits and carries nothing.",
            lambda x, y, table_size: (x + y * _PRIME) % table_size,
        ),
        Misconception(
            "An or in place of the exclusive or",
            "The exclusive or of two ones is 0: `^`, not `|`.",
            lambda x, y, table_size: (x | (y * _PRIME)) % table_size,
        ),
        Misconception(
            "An and in place of the exclusive or",
            "The exclusive or is `^`.",
            lambda x, y, table_size: (x & (y * _PRIME)) % table_size,
        ),
        Misconception(
            "The factors exchanged",
            "The first coordinate has the factor 1.",
            lambda x, y, table_size: hashed(y, x, table_size),
        ),
        Misconception(
            "The remainder before the exclusive or, of x alone",
            "The remainder is that of the whole.",
            lambda x, y, table_size: (x % table_size) ^ (y * _PRIME),
        ),
        Misconception(
            "Rows counted in order",
            "That is the row of a grid that is not hashed.",
            lambda x, y, table_size: (x + y * (x.max() + 1)) % table_size,
        ),
        Misconception(
            "Products in float32",
            "float32 keeps 24 digits, the first ones. The hash needs the last ones.",
            lambda x, y, table_size: (
                (x ^ (y.astype(np.float32) * np.float32(_PRIME)).astype(np.int64))
                % table_size
            ),
        ),
        Misconception(
            "The factor of the third axis",
            "The second coordinate has the factor 2654435761.",
            lambda x, y, table_size: (x ^ (y * 805_459_861)) % table_size,
        ),
        Misconception(
            "The first digits",
            "The remainder takes the last binary digits.",
            lambda x, y, table_size: (
                ((x ^ (y * _PRIME)) % 2**32) // (2**32 // table_size)
            ),
        ),
        Misconception(
            "One row less",
            "The rows are 0 … table_size − 1: the remainder is by table_size.",
            lambda x, y, table_size: (x ^ (y * _PRIME)) % (table_size - 1),
        ),
        Misconception(
            "x left out",
            "Both coordinates count.",
            lambda x, y, table_size: (y * _PRIME) % table_size,
        ),
    ),
    properties=(
        Property(
            "Vertices of a column collide only at multiples of the table's size",
            lambda answer, x, y, table_size: bool(
                len(
                    np.unique(
                        answer(np.full(16, 5), np.arange(16), 16),
                    )
                )
                == 16
            ),
        ),
    ),
    tolerance=0.0,
    explanation=r"""
With a table of $2^k$ rows only the last $k$ binary digits count, and those of a product depend on the last $k$ digits of its factors alone: a wrap at $2^{32}$ removes higher ones, so it changes nothing, by {prf:ref}`the theorem on lines <thm-hash-grid-line>`.
64-bit integers and float64 hold these products exactly; float32 does not.
""",
)


# fields-8: how many pairs collide


def collisions(side, table_size):
    """Return how many pairs of the ``side`` × ``side`` vertices share a row.

    The rows are those of the hash with the factors 1 and 2654435761, modulo
    ``table_size``.
    """
    x, y = np.meshgrid(np.arange(side), np.arange(side))
    rows = (x ^ (y * _PRIME)) % table_size
    counts = np.unique(rows, return_counts=True)[1]
    return int((counts * (counts - 1)).sum() // 2)


def _collisions(count):
    """Make a wrong answer to ``collisions``: ``count`` of vertices in each row."""

    def answer(side, table_size):
        x, y = np.meshgrid(np.arange(side), np.arange(side))
        rows = (x ^ (y * _PRIME)) % table_size
        return int(count(np.bincount(rows.ravel(), minlength=table_size)))

    return answer


COLLISIONS = Exercise(
    name="fields-8",
    title="Collisions counted",
    kind="experiment",
    minutes=12,
    lines=5,
    statement=r"""
A grid has `side` × `side` vertices, from (0, 0) on, and its table has `table_size` rows, a power of two.
How many pairs of vertices share a row, with the hash $(x \oplus 2654435761\, y) \bmod T$?
Return an integer.
How does it compare with rows that are chosen at random, for 33² vertices and for 129² vertices in 1024 rows?
""",
    hint=r"""
`np.unique` with `return_counts=True` counts the vertices of each row.
A row with $c$ vertices has $c (c - 1)/2$ pairs.
""",
    cases=((2, 4), (4, 4), (8, 16), (33, 1024), (20, 64), (129, 1024)),
    solution=collisions,
    misconceptions=(
        Misconception(
            "Pairs counted twice",
            "(a, b) and (b, a) are one pair.",
            _collisions(lambda c: (c * (c - 1)).sum()),
        ),
        Misconception(
            "A vertex with itself",
            "A pair has two different vertices.",
            _collisions(lambda c: (c * (c + 1) // 2).sum()),
        ),
        Misconception(
            "Squares of the counts",
            "A row with c vertices has c (c − 1)/2 pairs.",
            _collisions(lambda c: (c**2).sum()),
        ),
        Misconception(
            "Vertices too many",
            "That is how many vertices find their row taken, not how many pairs share "
            "one.",
            _collisions(lambda c: np.maximum(c - 1, 0).sum()),
        ),
        Misconception(
            "Vertices that share a row",
            "Pairs are asked for.",
            _collisions(lambda c: c[c > 1].sum()),
        ),
        Misconception(
            "Rows that are shared",
            "Pairs are asked for.",
            _collisions(lambda c: (c > 1).sum()),
        ),
        Misconception(
            "The largest count",
            "All rows count.",
            _collisions(lambda c: c.max()),
        ),
        Misconception(
            "The number at random",
            "That is what chance would give. Count those of the hash.",
            lambda side, table_size: side**2 * (side**2 - 1) // (2 * table_size),
        ),
        Misconception(
            "One vertex too many on each axis",
            "`side` is the number of vertices.",
            lambda side, table_size: collisions(side + 1, table_size),
        ),
        Misconception(
            "One vertex too few on each axis",
            "`side` is the number of vertices.",
            lambda side, table_size: collisions(side - 1, table_size),
        ),
        Misconception(
            "Empty rows",
            "Pairs are asked for.",
            _collisions(lambda c: (c == 0).sum()),
        ),
    ),
    tolerance=0.0,
    explanation=r"""
A row with $c$ vertices makes $c (c - 1)/2$ pairs, and the counts are one call of `np.unique`.
At random, $V$ vertices would make $\binom V2 / T$ pairs on average: 579 for $33^2$ in 1024 rows, where the hash makes 160, and 135,208 for $129^2$, where it makes 127,516.
The hash spreads each row and column evenly, by {prf:ref}`the theorem on lines <thm-hash-grid-line>`, which helps as long as there are not many more vertices than rows.
""",
    prediction=Prediction(
        "Chance makes 579 pairs of $33^2$ vertices share one of 1024 rows. How many "
        "does the hash make?",
        lambda: collisions(33, 1024),
        near=0.3,
    ),
)


# fields-9: a product that a float does not hold


def colleagues_rows(x, y, table_size):
    """Return each vertex's row in a table of such size."""
    product = y.astype(np.float32) * np.float32(2654435761)
    return (x ^ product.astype(np.int64)) % table_size


def vertex_that_differs():
    """Return x, y and a smallest table size on which `colleagues_rows` is wrong."""
    return np.array([0]), np.array([1]), 2


def _no_vertices(x, y, table_size):
    for value in (x, y):
        if type(value) is not np.ndarray or value.dtype.kind != "i" or value.ndim != 1:
            return "x and y are arrays of integers"
        if not value.size or (value < 0).any() or (value > 2**20).any():
            return "x and y hold integers from 0 to 2²⁰"
    if len(x) != len(y):
        return "x and y have one length"
    if isinstance(table_size, bool) or not isinstance(table_size, int):
        return "table_size is an integer"
    is_power = 0 < table_size <= 2**24 and not table_size & (table_size - 1)
    return "" if is_power else "table_size is a power of two, at most 2²⁴"


FLOATS = Exercise(
    name="fields-9",
    title="Find the input: a hash in float32",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_rows` should do what exercise fields-7 asks for.
She has tested it on the first row of a grid, and on 32 vertices with a table of a single row; all of these tests pass.
Find `x`, `y`, arrays of integers, and a `table_size`, as small as possible, on which it is wrong.
Which digits of a product does float32 keep, and which does the hash need?
""",
    hint=r"""
float32 has 24 binary digits, and $2654435761$ needs 32.
""",
    cases=((),),
    solution=vertex_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_rows,
        right=hashed,
        tested=(
            (np.arange(9), np.zeros(9, int), 16),
            (np.arange(32), np.arange(32)[::-1].copy(), 1),
        ),
        refusal=_no_vertices,
        size=lambda x, y, table_size: table_size,
        size_of="table size",
    ),
    tolerance=0.0,
    explanation=r"""
float32 keeps the first 24 binary digits of a product, and the factor has 32: its last digit, a 1, is lost already for $y = 1$.
The hash needs the last digits, and a table of two rows needs the last one alone: there the row of $(0, 1)$ is 1, and she says 0.
A table of one row has no digits to get wrong, so two rows are the smallest; see {prf:ref}`the definition of the hash <def-hash-grid-box>`.
""",
)


SHEET = Sheet(
    title="Fields",
    conventions=r"""
$L$ is the number of octaves, whose frequencies are $2^\ell$ for $\ell = 0, \dots, L - 1$; in half turns the angle is $2^\ell \pi x$, in radians $2^\ell x$.
In a hash grid $T$ is the number of rows of a table, a power of two.
""",
    example=r"""
from posedu.numpy.absolute import nerf_features

convention = dict(unit="half turns", layout="axes")
more = dict(octaves=2, append_input=False)
x = nerf_features([[0.5], [0.25]], **convention, **more)
print(x.round(3))
""",
    figure="fields_explorable",
    exercises=(
        KERNEL,
        FEATURES,
        SIMILAR,
        VARIANCE,
        INTEGRATED,
        MEAN_SCORE,
        HASHED,
        COLLISIONS,
        FLOATS,
    ),
)
