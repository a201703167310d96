"""Interactive figure of random Fourier features: kernel estimate and curve fit."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.absolute import fourier_features, gaussian_kernel

Array = np.ndarray

SIGMA, PAIRS = 1.0, 32  # drawn where scripts do not run
MOST = 128
RIDGE = 1e-3
OFFSETS = np.arange(-40, 41) / 80
SAMPLES = (np.arange(12) + 0.5) / 12
PLACES = np.arange(121) / 120
NORMAL = np.round(np.random.default_rng(3).normal(size=MOST), 4)


def fourier_explorable() -> Explorable:
    """Draw a Gaussian kernel, its estimate by random Fourier features, and a fit.

    The fit is a ridge regression of a curve on these features. The features are
    computed by :func:`posedu.numpy.absolute.fourier_features`, the kernel by
    :func:`posedu.numpy.absolute.gaussian_kernel`.
    """
    dots = "".join(
        f'<ellipse cx="{x:.4f}" cy="{y:.4f}" rx="0.012" ry="0.08"/>'
        for x, y in zip(SAMPLES, target(SAMPLES), strict=True)
    )
    off, worst = estimate_off(SIGMA, PAIRS), fit_off(SIGMA, PAIRS)
    picture = f"""
<svg class="plot" viewBox="0 0 400 396" role="img" aria-label="Above, two curves over
 the offset of two positions, the kernel and its estimate; below, two: a curve to be
 learned, with dots on it, and what is fitted to the dots">
<text x="215" y="18">inner product of two positions' features</text>
<text x="40" y="30" style="text-anchor:end">1</text>
<text x="40" y="120" style="text-anchor:end">0</text>
<text x="50" y="172">−½</text><text x="215" y="172">offset</text>
<text x="380" y="172">½</text>
<g transform="translate(215,115) scale(330,-90)">
<path d="M-0.5,0H0.5M0,-0.4V1" stroke="currentColor" stroke-opacity="0.3"/>
<path class="kernel" d="M{_kernel(SIGMA)}" stroke="currentColor"
 stroke-dasharray="5 4" style="stroke-width:2"/>
<path class="estimate" d="M{_estimate(SIGMA, PAIRS)}" stroke="{INKS[0]}"
 style="stroke-width:2"/>
</g>
<text x="50" y="388">0</text><text x="215" y="388">position</text>
<text x="380" y="388">1</text>
<g transform="translate(50,280) scale(330,-50)">
<path d="M0,0H1" stroke="currentColor" stroke-opacity="0.3"/>
<path d="M{_line(PLACES, target(PLACES))}" stroke="currentColor"
 stroke-dasharray="5 4" style="stroke-width:2"/>
<path class="fit" d="M{_fit(SIGMA, PAIRS)}" stroke="{INKS[0]}" style="stroke-width:2"/>
<g fill="currentColor" stroke="none">{dots}</g>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">━</span> by these features</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">┄</span> their
 target</span></p>"""
    return explorable(
        "fourier",
        picture,
        (
            Slider("level", "bandwidth σ", -4, 8, 0, 1, f"{SIGMA:g}"),
            Slider("power", "frequencies m", 2, 7, 5, 1, f"{PAIRS}"),
        ),
        summary=_summary_text(SIGMA, PAIRS, off, worst),
        caption="Above, the inner products of random Fourier features scatter around "
        "a Gaussian whose width is 1/(2πσ). Below, ridge regression on the same "
        "features from twelve dots: with a small σ the fit is too smooth; with a large "
        "one and many frequencies it falls toward 0 between the dots.",
        numbers=NORMAL.tolist(),
    )


def target(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the curve that the fit has to learn, a sum of two sines, at x."""
    return np.sin(2 * np.pi * x) + 0.6 * np.sin(6 * np.pi * x)


def features(
    x: Float[Array, "places"], sigma: float, pairs: int
) -> Float[Array, "places features"]:
    """Return random Fourier features at the points x; each feature vector has length 1.

    ``pairs`` is the number of random frequencies, ``sigma`` their standard deviation in
    turns.
    """
    return fourier_features(
        x,
        sigma * NORMAL[:pairs],
        unit="turns",
        layout="half",
        first="cos",
        amplitude="pairs",
    )


def estimate(sigma: float, pairs: int) -> Float[Array, "offsets"]:
    """Estimate a Gaussian kernel at each offset by inner products of random features.

    ``sigma`` is the standard deviation of the features' ``pairs`` frequencies.
    """
    at_zero = features(np.zeros(1), sigma, pairs)[0]
    return features(OFFSETS, sigma, pairs) @ at_zero


def fit(sigma: float, pairs: int) -> Float[Array, "places"]:
    """Return a ridge regression's predictions of the curve :func:`target` over [0, 1].

    The regression learns from twelve sampled points. Its inputs are Fourier features of
    ``pairs`` random frequencies with the standard deviation ``sigma``.
    """
    sampled = features(SAMPLES, sigma, pairs)
    gram = sampled @ sampled.T + RIDGE * np.eye(len(SAMPLES))
    weights = sampled.T @ np.linalg.solve(gram, target(SAMPLES))
    return features(PLACES, sigma, pairs) @ weights


def estimate_off(sigma: float, pairs: int) -> float:
    """Return the largest absolute error of the Gaussian kernel's estimate.

    The estimate is by random Fourier features, which have ``pairs`` random frequencies
    of standard deviation ``sigma``.
    """
    exact = gaussian_kernel(OFFSETS, sigma=sigma, unit="turns")
    return float(np.abs(estimate(sigma, pairs) - exact).max())


def fit_off(sigma: float, pairs: int) -> float:
    """Return the root mean square error of the ridge regression on Fourier features.

    The features have ``pairs`` random frequencies of standard deviation ``sigma``.
    """
    return float(np.sqrt(np.mean((fit(sigma, pairs) - target(PLACES)) ** 2)))


def _line(x: Array, y: Array) -> str:
    return "L".join(f"{a:z.4f},{b:z.4f}" for a, b in zip(x, y, strict=True))


def _kernel(sigma: float) -> str:
    return _line(OFFSETS, gaussian_kernel(OFFSETS, sigma=sigma, unit="turns"))


def _estimate(sigma: float, pairs: int) -> str:
    return _line(OFFSETS, estimate(sigma, pairs))


def _fit(sigma: float, pairs: int) -> str:
    return _line(PLACES, fit(sigma, pairs))


def _summary_text(sigma: float, pairs: int, off: float, worst: float) -> str:
    return (
        f"With σ = {sigma:g} and {pairs} frequencies the error of the estimate is "
        f"{off:.2f} at most, that of the fit {worst:.2f} (root mean square)."
    )
