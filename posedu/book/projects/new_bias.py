"""Project "new bias": a distance bias of one's own, proved and trained against ALiBi.

A bias is −m t − Σ w (1 − e^(−r t)) − ∫ (1 − e^(−s t)) μ(s) ds of the distance t, with
m, w and μ not negative, so that it is conditionally positive definite.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
import torch
from jaxtyping import Float, Shaped
from scipy.optimize import minimize
from torch import Tensor

from posedu._argument_types import check_types
from posedu.book import figures
from posedu.book.experiments import characters
from posedu.book.projects.records import Goal, Project, Report
from posedu.numpy.bias import sandwich_sum
from posedu.torch import ALiBi, Encoding
from posedu.torch.bias.distance import ByDistance

Array = np.ndarray

HEADS, LENGTH = 4, 128
MULTIPLES = (1, 2, 4)
"""Tested lengths over the training length."""
STEPS, BATCH, TESTED, RATE = 300, 16, 64, 3e-2
TOKENS = 128
"""Tokens of the matrix whose smallest eigenvalue is measured."""
COMPARED = (1, 2, 3, 5, 10, 30, 100, 300, 511)
"""Distances at which the mixture is integrated."""
TOLERANCE = 1e-6
"""Largest difference of a bias and its mixture, which is integrated numerically."""
FAINTEST = -10.0
"""Bias below which a weight is too small to be compared."""

Mixture = tuple[sp.Expr, Mapping[sp.Expr, sp.Expr], sp.Expr]


def settings() -> characters.Settings:
    """Return the sizes of the character models of this project."""
    return characters.Settings(
        steps=STEPS, batch=BATCH, length=LENGTH, heads=HEADS, tested=TESTED
    )


class TabledBias(ByDistance):
    """Bias with a fixed number for each head and distance, ``[heads, distances]``."""

    table: Tensor

    def __init__(self, table: Float[Array, "heads distances"]):
        super().__init__()
        self.heads = len(table)
        self.needs_causal = True
        self.register_buffer("table", torch.from_numpy(table).float())

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """Return each head's number of every offset; later keys are masked anyway."""
        return self.table[:, offsets.clamp(min=0)]


def distances() -> Float[Array, "distances"]:
    """Return all distances in the longest tested text, 0 first."""
    return np.arange(float(MULTIPLES[-1] * LENGTH))


@check_types
def table_of(bias: Callable[..., Any]) -> Float[Array, "heads distances"]:
    """Return the learner's bias at :func:`distances`, less its value at distance 0.

    Raises
    ------
    TypeError, ValueError
        If it is no array of finite float64 numbers ``[heads, distances]``.
    """
    t = distances()
    table = bias(t.copy(), HEADS)
    if not isinstance(table, np.ndarray) or table.dtype != np.float64:
        given = getattr(table, "dtype", type(table).__name__)
        raise TypeError(f"bias must return a float64 NumPy array, got {given}")
    if table.shape != (HEADS, len(t)):
        raise ValueError(
            f"bias must return [heads, distances] = [{HEADS}, {len(t)}], got shape "
            f"{list(table.shape)}"
        )
    if not np.isfinite(table).all():
        h, n = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"the bias must be finite, got {table[h, n]} in head {h} at distance {n}"
        )
    return table - table[:, :1]


def _exact(name: str, value: object, sign: str, *symbols: sp.Symbol) -> sp.Expr:
    """Return a SymPy expression; raise unless it is exact and has the ``sign``.

    The sign is "positive" or "not negative", for all positive values of ``symbols``,
    the only ones that may occur.
    """
    number = sp.sympify(value)
    if not isinstance(number, sp.Expr):
        raise TypeError(f"{name} must be a SymPy expression, got {value!r}")
    if number.atoms(sp.Float):
        raise ValueError(
            f"{name} must be exact, such as sp.Rational(1, 3); got {value!r}"
        )
    if number.free_symbols - {*symbols}:
        raise ValueError(f"{name} must not depend on other symbols, got {number}")
    is_right = number.is_positive if sign == "positive" else number.is_nonnegative
    if not is_right:
        known = "is not" if is_right is False else "is not known to SymPy to be"
        raise ValueError(f"{name} must be {sign}; {number} {known} so")
    return number


@check_types
def mixtures_of(mixture: Callable[..., Any]) -> tuple[sp.Symbol, list[Mixture]]:
    """Return the variable s, and slope, atoms and density of each head's mixture.

    Raises
    ------
    TypeError, ValueError
        If they are not exact, or if SymPy does not know that slopes and densities are
        not negative, and that rates and weights are positive.
    """
    s = sp.Symbol("s", positive=True)
    heads = mixture(s, HEADS)
    if not isinstance(heads, Sequence) or len(heads) != HEADS:
        raise ValueError(
            f"mixture must return a list of {HEADS} triples, got {heads!r}"
        )
    return s, [_mixture_of(f"head {h}", triple, s) for h, triple in enumerate(heads)]


def _mixture_of(name: str, triple: object, s: sp.Symbol) -> Mixture:
    """Return the mixture of the head ``name``; raise unless it proves the property."""
    if not isinstance(triple, Sequence) or len(triple) != 3:
        raise ValueError(
            f"{name} must have a slope, a dictionary and a density, got {triple!r}"
        )
    slope, atoms, density = triple
    if not isinstance(atoms, Mapping):
        raise TypeError(
            f"the second entry of {name} must be a dictionary of weights by rate, got "
            f"{atoms!r}"
        )
    slope = _exact(f"the slope of {name}", slope, "not negative")
    density = _exact(f"the density of {name}", density, "not negative", s)
    exact = {
        _exact(f"a rate of {name}", rate, "positive"): _exact(
            f"a weight of {name}", weight, "positive"
        )
        for rate, weight in atoms.items()
    }
    return slope, exact, density


def error_of(
    table: Float[Array, "heads distances"],
    s: sp.Symbol,
    heads: Sequence[Mixture],
    seed: int,
) -> float:
    """Return the largest difference of a bias and its mixtures.

    It is that at the distances :data:`COMPARED` and as many random ones, divided by the
    size of the bias where that is above 1.

    Raises
    ------
    ValueError
        If it is above :data:`TOLERANCE`, or if an integral does not converge.
    """
    others = np.random.default_rng(seed).integers(1, table.shape[1], len(COMPARED))
    compared = [*COMPARED, *others.tolist()]
    errors = []
    for h, (row, (slope, atoms, density)) in enumerate(zip(table, heads, strict=True)):
        mu = sp.lambdify(s, density, "mpmath")
        for t in compared:
            value = -float(slope) * t
            for rate, weight in atoms.items():
                value += float(weight) * np.expm1(-float(rate) * t)
            if density != 0:
                value -= _integral(f"head {h}", mu, t)
            errors.append(abs(row[t] - value) / max(1.0, abs(row[t])))
            if not errors[-1] <= TOLERANCE:
                raise ValueError(
                    f"the mixture of head {h} is {value:.7g} at distance {t}, the bias "
                    f"there less that at distance 0 is {row[t]:.7g}; they must agree"
                )
    return float(max(errors))


def _integral(name: str, mu: Callable[..., Any], t: int) -> float:
    """Return ∫ (1 − e^(−s t)) μ(s) ds over all s > 0; raise if it diverges."""
    edges = [0, *(mp.mpf(10) ** n for n in (-4, -2, 0, 2)), mp.inf]
    value, off = mp.quad(lambda s: -mp.expm1(-s * t) * mu(s), edges, error=True)
    if not off <= TOLERANCE * max(1, abs(value)):
        raise ValueError(
            f"the integral of (1 - exp(-s t)) times the density of {name} does not "
            f"converge at the distance t = {t}, or too slowly to be computed"
        )
    return float(value)


def smallest_eigenvalue(table: Float[Array, "heads distances"]) -> float:
    """Return the smallest eigenvalue of all heads' matrices on the c that sum to 0.

    The matrices are those of :data:`TOKENS` tokens.
    """
    i, j = np.indices((TOKENS, TOKENS))
    basis = np.linalg.qr(np.c_[np.ones(TOKENS), np.eye(TOKENS)[:, 1:]])[0][:, 1:]
    forms = basis.T @ table[:, abs(i - j)] @ basis
    return float(np.linalg.eigvalsh(forms).min())


Family = tuple[Callable[[Array, Array], Array], Sequence[tuple[float, ...]]]


def _bounded(x: float) -> float:
    """Return 2 σ(x), KERPLE's exponent, between 0 and 2."""
    return float(2 / (1 + np.exp(-x)))


def _sandwich(t: Array) -> Array:
    """Return Sandwich's sum of waves, less its value at distance 0."""
    waves = sandwich_sum(t, width=settings().d_model, index_from=1)
    return waves - waves[0]


SCALES = tuple(np.linspace(-12.0, 6.0, 10))
"""Guesses at the logarithm of the number that multiplies the distance."""
EXPONENTS = tuple(np.linspace(-4.0, 4.0, 9))
"""Guesses at the exponent, as arguments of 2 σ."""

CATALOG: Mapping[str, Family] = MappingProxyType(
    {
        "ALiBi": (lambda t, p: -t, [()]),
        "KERPLE, log": (
            lambda t, p: -np.log1p(np.exp(p[0]) * t),
            [(scale,) for scale in SCALES],
        ),
        "KERPLE, power": (
            lambda t, p: -(t ** _bounded(p[0])),
            [(exponent,) for exponent in EXPONENTS],
        ),
        "KERPLE, three numbers": (
            lambda t, p: -np.log1p(np.exp(p[0]) * t ** _bounded(p[1])),
            list(product(SCALES, EXPONENTS)),
        ),
        "Sandwich": (lambda t, p: _sandwich(t), [()]),
        "no bias": (lambda t, p: 0 * t, [()]),
    }
)
"""Biases of the book by name: a function of distance and numbers, and guesses at them.

Each function is also multiplied by a positive factor.
"""
BEST = 3
"""Guesses from which the numbers of a family are fitted."""


@check_types
def fits(row: Float[Array, "distances"]) -> dict[str, float]:
    """Return how far one head's bias is from each family of :data:`CATALOG`.

    A family's factor and numbers, and a constant that a softmax does not see, are
    fitted. The distance is the largest difference of the two at the tokens' distances
    where the head's bias is at least :data:`FAINTEST`.
    """
    seen = row >= FAINTEST
    t, values = distances()[seen], row[seen]

    def apart(numbers: Array, curve: Callable[[Array, Array], Array]) -> float:
        difference = values - np.exp(numbers[0]) * curve(t, numbers[1:])
        return float(np.nan_to_num(np.ptp(difference) / 2, nan=1e9, posinf=1e9))

    found: dict[str, tuple[float, Array]] = {}
    with np.errstate(all="ignore"):
        for name, (curve, guesses) in CATALOG.items():
            starts = [_with_factor(values, curve, t, guess) for guess in guesses]
            starts = sorted(starts, key=lambda start: apart(start, curve))[:BEST]
            if name == "KERPLE, three numbers":
                starts += _special_cases(
                    found["KERPLE, log"][1], *found["KERPLE, power"][1]
                )
            found[name] = min(
                (_polished(apart, start, curve) for start in starts),
                key=lambda fit: fit[0],
            )
    return {name: distance for name, (distance, _) in found.items()}


def _special_cases(log: Array, factor: float, exponent: float) -> list[Array]:
    """Return the three numbers of a fitted logarithm, and of a fitted power.

    The logarithm has the exponent 1, the argument 0 of 2 σ. A power is the limit of a
    small number before t^r, e^(−30) here, and a factor that is larger accordingly.
    """
    return [np.append(log, 0.0), np.array([factor + 30, -30.0, exponent])]


def _with_factor(
    values: Array,
    curve: Callable[[Array, Array], Array],
    t: Array,
    guess: tuple[float, ...],
) -> Array:
    """Return the logarithm of the factor of least squares, and the guessed numbers."""
    shape = curve(t, np.array(guess))
    shape = shape - shape.mean()
    square = shape @ shape
    factor = shape @ values / square if square > 0 else 0.0
    return np.array([np.log(max(factor, 1e-12)), *guess])


def _polished(
    apart: Callable[..., float], start: Array, curve: Callable[[Array, Array], Array]
) -> tuple[float, Array]:
    """Return the distance and numbers of the simplex method, begun anew at its end."""
    for _ in range(2):
        fit = minimize(
            apart,
            start,
            (curve,),
            method="Nelder-Mead",
            options={"xatol": 1e-8, "fatol": 1e-8},
        )
        start = fit.x
    return float(fit.fun), start


@check_types
def bits_of(make: Callable[[], Encoding], seed: int) -> dict[int, float]:
    """Train a small character model with an encoding; return its bits per character.

    ``make`` returns the encoding of a layer. The keys are the tested lengths; the
    characters are the same at all of them, the last ones of each window.
    """
    own, text = settings(), characters.standard_library()
    windows = characters.test_windows(text, own, seed)
    with torch.random.fork_rng(devices=[]):
        condition = characters.Condition("", lambda s: make())
        model = characters.Model(condition, own, seed)
        characters.fit(model.train(), text, own, RATE, seed)
        model.eval()
        return {
            n: characters.test(model, windows, n, LENGTH // 2)[0]
            for n in (m * LENGTH for m in MULTIPLES)
        }


@cache
def bits_of_alibi(own: characters.Settings, seed: int) -> dict[int, float]:
    """Return :func:`bits_of` of ALiBi, kept for other biases with the same seed.

    ``own`` are the present :func:`settings`.
    """
    return bits_of(lambda: ALiBi(own.heads, slopes="authors"), seed)


@check_types
def measure(
    bias: Callable[..., Any], mixture: Callable[..., Any], *, seed: int
) -> dict[str, float]:
    """Return how well a bias is proved, how new it is, and its bits against ALiBi's."""
    table = table_of(bias)
    s, heads = mixtures_of(mixture)
    checked = {
        "error of the mixture": error_of(table, s, heads, seed),
        "smallest eigenvalue": smallest_eigenvalue(table),
        "distance from the catalog": min(min(fits(row).values()) for row in table),
    }
    own = bits_of(lambda: TabledBias(table), seed)
    alibi = bits_of_alibi(settings(), seed)
    farthest = MULTIPLES[-1] * LENGTH
    return {
        **checked,
        "bits gained": alibi[farthest] - own[farthest],
        **{f"bits at {n}": value for n, value in own.items()},
        **{f"ALiBi's at {n}": value for n, value in alibi.items()},
    }


def _lines(report: Report, of: str) -> Iterator[tuple[int, list[float]]]:
    for n in (m * LENGTH for m in MULTIPLES):
        yield n, [row[f"{of} at {n}"] for row in report.measured]


def plot(report: Report) -> figures.Figure:
    """Draw bits per character at each length, with the new bias and with ALiBi."""
    figure, ((axes,),) = figures.canvas()
    means = {}
    for number, (of, title) in enumerate((("bits", "new bias"), ("ALiBi's", "ALiBi"))):
        lengths, values = zip(*_lines(report, of), strict=True)
        means[title] = np.mean(values, axis=1)
        style = {"color": figures.COLORS[number], "linestyle": figures.DASHES[number]}
        axes.plot(lengths, values, alpha=0.35, linewidth=1, **style)
        axes.plot(lengths, means[title], label=title, **style)
    axes.set(xlabel="characters of the text", ylabel="bits per character")
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.legend()
    mine, alibis = (f"{means[title][-1]:.2f}" for title in ("new bias", "ALiBi"))
    return figures.finish(
        figure,
        caption=f"Bits per character of models trained at {LENGTH} characters, "
        f"{len(report.seeds)} seeds (thin) and their means: at {lengths[-1]} "
        f"characters {mine} with the new bias and {alibis} with ALiBi.",
        alt=f"Two bundles of lines against the length, the new bias's ending at about "
        f"{mine} and ALiBi's at about {alibis}.",
    )


PROJECT = Project(
    name="new-bias",
    title="Project: a new distance bias",
    part="Relative and bias",
    minutes=100,
    cpu_minutes=3,
    uses=("distance-biases-4", "distance-biases-5", "distance-biases-8"),
    answers=("bias", "mixture"),
    measure=measure,
    goals=(
        Goal("error of the mixture", most=TOLERANCE),
        Goal("smallest eigenvalue", least=0),
        Goal("distance from the catalog", least=0.05),
        Goal("bits gained", least=0.1),
    ),
    plot=plot,
)
