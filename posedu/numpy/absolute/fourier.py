"""Fourier features: cosines and sines of a position's inner products with vectors."""

from math import erf

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    AngleUnit,
    FirstFunction,
    FourierAmplitude,
    Layout,
    require_choice,
    require_positive,
)
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    require_exact_angles,
    require_floats,
    require_positions,
)

Array = np.ndarray
_ERF = np.vectorize(erf, otypes=[np.float64])


def fourier_features(
    positions: Positions,
    frequencies: Float[Array, "pairs"] | Float[Array, "pairs axes"],
    *,
    unit: AngleUnit,
    layout: Layout,
    first: FirstFunction,
    amplitude: FourierAmplitude,
) -> Float[Array, "*rows features"]:
    """Fourier features γ of each position x: cos and sin of 2π b · x for each b in B.

    arXiv 2006.10739 §4 (Tancik), and without the 2π 2106.02795 Eq. 2 (Li). Published
    implementations differ in each of the four keywords.

    Parameters
    ----------
    positions
        Finite numbers of any shape, or points, whose coordinates are the last axis.
    frequencies
        B: for each pair of features a number b where positions are numbers, a vector b
        where positions are points.
    unit
        Unit of a frequency, which is an angle for each unit of position. ``"turns"``:
        the angle is 2π b · x (Tancik). ``"radians"``: it is b · x (Li).
    layout
        ``"half"``: all cosines, then all sines, or the reverse (the code of both
        papers). ``"interleaved"``: cosine and sine pair by pair (Tancik's equation).
    first
        Which member of a pair comes first: ``"cos"`` (the papers) or ``"sin"``
        (Tancik's code).
    amplitude
        The factor of all features: ``"one"``: 1. ``"pairs"``: 1/√m for m
        pairs, so that vectors have length 1. ``"features"``: 1/√(2m) (Li), so that
        they have length 1/√2.

    Returns
    -------
    float64 array with a last axis of 2m. Equation ``def-fourier-features``.

    Raises
    ------
    TypeError, ValueError
        Positions or frequencies not finite, in half precision or of shapes that do
        not fit; angles above 2²⁹; unknown keywords.
    """
    f = _require_frequencies(frequencies)
    positions = require_positions(positions)
    if f.ndim == 2 and positions.shape[-1:] != f.shape[1:]:
        raise ValueError(
            f"positions must be [..., {f.shape[1]}] for frequencies {list(f.shape)}, "
            f"got shape {list(positions.shape)}"
        )
    products = positions[..., None] * f if f.ndim == 1 else positions @ f.T
    radians = 2 * np.pi if require_choice("unit", unit, AngleUnit) == "turns" else 1
    angle = require_exact_angles("angles", radians * products)
    members = [np.cos(angle), np.sin(angle)]
    if require_choice("first", first, FirstFunction) == "sin":
        members.reverse()
    is_half = require_choice("layout", layout, Layout) == "half"
    pairs = np.stack(members, -2 if is_half else -1)
    features = pairs.reshape(*products.shape[:-1], 2 * len(f))
    return features / _divisor(amplitude, len(f))


def embed_fourier_random(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    frequencies: Float[Array, "pairs"] | Float[Array, "pairs axes"],
    unit: AngleUnit,
    layout: Layout,
    first: FirstFunction,
    amplitude: FourierAmplitude,
) -> Float[Array, "*batch tokens d"]:
    """Add to each input vector the Fourier features of its position.

    For the hook ``embed``, a function that a model calls before its layers.
    ``positions`` is ``[tokens]`` or ``[tokens, axes]``, with or without a batch axis in
    front. The width d is twice the number of pairs. Other arguments and errors as
    :func:`fourier_features`. Equation ``def-fourier-embed``.
    """
    x, f = require_floats("x", x), _require_frequencies(frequencies)
    if x.shape[-1:] != (2 * len(f),):
        raise ValueError(
            f"x must be [..., tokens, {2 * len(f)}] for {len(f)} frequencies, got "
            f"shape {list(x.shape)}"
        )
    at = align_positions(positions, x, *f.shape[1:])
    return x + fourier_features(
        at, f, unit=unit, layout=layout, first=first, amplitude=amplitude
    )


def embed_fourier_learned(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    frequencies: Float[Array, "pairs"] | Float[Array, "pairs axes"],
    hidden_weight: Float[Array, "width features"],
    hidden_bias: Float[Array, "width"],
    out_weight: Float[Array, "own width"],
    out_bias: Float[Array, "own"],
    groups: int,
    unit: AngleUnit,
    layout: Layout,
    first: FirstFunction,
    amplitude: FourierAmplitude,
) -> Float[Array, "*batch tokens d"]:
    """Add to each input vector an MLP of its position's Fourier features γ.

    The MLP is W₂ GELU(W₁ γ + b₁) + b₂ (arXiv 2106.02795 Eq. 6 and Algorithm 1). A
    position's coordinates are divided into groups, the first ``axes`` of them being the
    first group; each group fills a part of the d features, and all groups share the
    parameters.

    Parameters
    ----------
    x
        Input vectors of d = groups · own features; ``own`` is the number of features
        that each group fills.
    positions
        ``[tokens, groups · axes]``, or ``[tokens]`` for one group whose frequencies are
        numbers; with or without a batch axis in front.
    frequencies, unit, layout, first, amplitude
        See :func:`fourier_features`. The paper: ``"radians"``, ``"half"``, ``"cos"``,
        ``"features"``.
    hidden_weight, hidden_bias, out_weight, out_bias
        W₁, b₁, W₂, b₂.
    groups
        Number of groups of a position's coordinates; each group is encoded by itself.

    Returns
    -------
    float64 array of the shape of ``x``. Equation ``def-fourier-learned``.

    Raises
    ------
    TypeError, ValueError
        As :func:`fourier_features`; parameters that do not fit.
    """
    x, f = require_floats("x", x), _require_frequencies(frequencies)
    w_1, b_1 = (
        require_floats("hidden_weight", hidden_weight),
        require_floats("hidden_bias", hidden_bias),
    )
    w_2, b_2 = (
        require_floats("out_weight", out_weight),
        require_floats("out_bias", out_bias),
    )
    shapes = (*b_1.shape, 2 * len(f)), (*b_2.shape, *b_1.shape)
    if (w_1.shape, w_2.shape) != shapes or b_1.ndim != 1:
        raise ValueError(
            "hidden_weight, hidden_bias, out_weight and out_bias must be [width, "
            f"{2 * len(f)}], [width], [own, width] and [own], got shapes "
            f"{[list(t.shape) for t in (w_1, b_1, w_2, b_2)]}"
        )
    require_groups(groups, f)
    if x.shape[-1:] != (groups * len(b_2),):
        raise ValueError(
            f"x must be [..., tokens, {groups * len(b_2)}] for {groups} groups of "
            f"{len(b_2)} features, got shape {list(x.shape)}"
        )
    if f.ndim == 1:
        at = align_positions(positions, x)[..., None]
        f = f[:, None]
    else:
        at = align_positions(positions, x, groups * f.shape[1])
    parts = at.reshape(*at.shape[:-1], groups, f.shape[1])
    r = fourier_features(
        parts, f, unit=unit, layout=layout, first=first, amplitude=amplitude
    )
    pe = gelu(r @ w_1.T + b_1) @ w_2.T + b_2
    return x + pe.reshape(*at.shape[:-1], groups * len(b_2))


def require_groups(groups: int, frequencies: Float[Array, "..."]) -> None:
    """Raise unless ``groups`` is a positive integer, 1 if frequencies are numbers.

    Frequencies are numbers, not vectors, if their array has one axis.
    """
    if isinstance(groups, bool) or not isinstance(groups, int | np.integer):
        raise TypeError(f"groups must be an integer, got {groups!r}")
    if groups < 1 or (groups > 1 and frequencies.ndim == 1):
        raise ValueError(
            "groups must be positive, and 1 where frequencies are numbers, got "
            f"{groups}"
        )


def gelu(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The GELU z Φ(z), with the normal distribution function Φ.

    Equation ``def-fourier-gelu``.

    ``z`` holds floats of any shape; other arrays raise a ``TypeError``.
    """
    z = require_floats("z", z)
    return np.asarray(z * (1 + _ERF(z / np.sqrt(2))) / 2)


def gaussian_kernel(
    offsets: Positions, *, sigma: float, unit: AngleUnit
) -> Float[Array, "*shape"]:
    """The mean of cos 2π b · r over random frequencies b ~ N(0, σ²): exp(−2π²σ²r²).

    Parameters
    ----------
    offsets
        Lengths r of offsets, finite.
    sigma
        Standard deviation of each coordinate of b, positive.
    unit
        ``"turns"``: cos 2π b · r. ``"radians"``: cos b · r, whose mean is
        exp(−σ²r²/2). See :func:`fourier_features`.

    Returns
    -------
    float64 array of the shape of ``offsets``. Equation ``eq-fourier-bochner``.

    Raises
    ------
    TypeError, ValueError
        ``sigma`` not positive, offsets not finite, unknown ``unit``.
    """
    require_positive("sigma", sigma)
    radians = 2 * np.pi if require_choice("unit", unit, AngleUnit) == "turns" else 1
    r = require_positions(offsets, "offsets")
    return np.asarray(np.exp(-((radians * sigma * r) ** 2) / 2))


def _require_frequencies(frequencies: Array) -> Array:
    f = require_floats("frequencies", frequencies)
    if f.ndim not in (1, 2) or 0 in f.shape:
        raise ValueError(
            f"frequencies must be [pairs] or [pairs, axes], got shape {list(f.shape)}"
        )
    return require_positions(f, "frequencies")


def _divisor(amplitude: FourierAmplitude, pairs: int) -> float:
    """Return the divisor of the features: 1, √pairs or √(2 pairs).

    ``amplitude`` is ``"one"``, ``"pairs"`` or ``"features"``, in this order; ``pairs``
    is the number of (cosine, sine) pairs.
    """
    require_choice("amplitude", amplitude, FourierAmplitude)
    return float({"one": 1, "pairs": pairs, "features": 2 * pairs}[amplitude]) ** 0.5
