"""Kernels under the controls, compared with the reference."""

import numpy as np

from posedu.book.explorables import fields
from posedu.numpy.absolute import gaussian_kernel, nerf_kernel
from support.explorables import FRAGMENTS, close, numbers, read


def check(page):
    """Both curves and what is said of them; returns NeRF's shares at 1 and 2.

    A kernel is off by the roundings of at most 32 π · 2 and of six cosines, to 1e-12.
    """
    shown = read(page)
    octaves, level = (int(n) for n in shown["inputs"])
    (unit,), sigma = shown["chosen"], 2 ** (level / 2)
    kernel = nerf_kernel(fields.OFFSETS, octaves=octaves, unit=unit) / octaves
    gauss = gaussian_kernel(fields.OFFSETS, sigma=sigma, unit="turns")
    for name, y in (("kernel", kernel), ("gauss", gauss)):
        drawn = np.reshape(numbers(shown["paths"][name].replace("L", " ")), (-1, 2))
        close(drawn, np.stack((fields.OFFSETS, y), -1), 4, 1e-12)
    assert shown["outputs"]["level"] == f"{sigma:.3g}"
    said = numbers(shown["summary"])
    close([said[1], said[3], said[6]], [kernel[192], kernel[384], gauss[192]], 2, 1e-12)
    assert said[0] == octaves and said[5] == float(f"{sigma:.3g}")
    return kernel[192], kernel[384]


def test_curves_follow_the_reference_and_pi_makes_the_alias(open_page):
    page = open_page(FRAGMENTS["fields"])
    octaves, level = (page.locator(f'input[name="{n}"]') for n in ("octaves", "level"))
    close(check(page), [0.5, 1.0], 9)
    for key in ("Home", "End"):
        octaves.press(key)
        level.press(key)
        shares = check(page)
    close(shares, [2 / 3, 1.0], 9)
    page.locator("select").select_option("radians")
    assert max(check(page)) < 0.5
