"""Kernel, estimate and fit under the sliders, compared with the reference."""

import numpy as np

from posedu.book.explorables import fourier
from posedu.numpy.absolute import gaussian_kernel
from support.explorables import FRAGMENTS, close, numbers, read


def check(page):
    """All curves and what is said of them; returns how far fit and estimate are off.

    The fit solves with a matrix whose condition is at most (12 + r) / r, r the ridge:
    each solution is good to 12 · 12 roundings times that, to 1e-9.
    """
    shown = read(page)
    level, power = shown["inputs"]
    sigma, pairs = 2 ** (level / 2), int(2**power)
    kernel = gaussian_kernel(fourier.OFFSETS, sigma=sigma, unit="turns")
    for name, x, y in (
        ("kernel", fourier.OFFSETS, kernel),
        ("estimate", fourier.OFFSETS, fourier.estimate(sigma, pairs)),
        ("fit", fourier.PLACES, fourier.fit(sigma, pairs)),
    ):
        drawn = np.reshape(numbers(shown["paths"][name].replace("L", " ")), (-1, 2))
        close(drawn, np.stack((x, y), -1), 4, 1e-9)
    assert list(shown["outputs"].values()) == [f"{sigma:.3g}", str(pairs)]
    off = fourier.estimate_off(sigma, pairs), fourier.fit_off(sigma, pairs)
    close(numbers(shown["summary"])[:2], [float(f"{sigma:.3g}"), pairs], 9)
    close(numbers(shown["summary"])[2:], off, 2, 1e-9)
    return off


def test_curves_follow_the_reference_and_both_ends_fit_badly(open_page):
    page = open_page(FRAGMENTS["fourier"])
    level, power = (page.locator(f'input[name="{n}"]') for n in ("level", "power"))
    still = check(page)
    level.press("Home")
    assert check(page)[1] > 3 * still[1]
    level.press("End")
    assert check(page)[1] > 3 * still[1]
    level.press("ArrowLeft")
    few = check(page)
    power.press("End")
    assert check(page)[0] < few[0]
    power.press("Home")
    assert check(page)[0] > few[0]
