"""The explorable of BAM shows the reference implementation's prior."""

import numpy as np
import pytest

from posedu.book.explorables import bam
from support.explorables import FRAGMENTS, close, numbers, read, set_slider


def check(page, beta, scale, center):
    """Every bar and number, for the sliders' values."""
    shown = read(page)
    assert shown["inputs"] == [beta, scale, center]
    drawn = np.reshape(numbers(shown["paths"]["prior"].replace("V", " ")), (-1, 3))
    prior = bam.shares(beta, scale, center)
    assert (drawn[:, 0] == np.arange(bam.SHOWN)).all() and not drawn[:, 1].any()
    close(drawn[:, 2], prior / prior.max(), 4, 1e-9)
    told = bam.described(beta, scale, center)
    for name in ("top", "own", "near", "far"):
        close(numbers(shown["outputs"][name]), numbers(told[name]), 1, 1e-9)
    assert shown["outputs"]["scale"] == bam.factor(scale)
    assert shown["summary"] == bam.summary_text(beta, told)
    return told


def test_the_prior_is_the_reference_s_for_every_slider(open_page):
    page = open_page(FRAGMENTS["bam"])
    values = [bam.BETA, bam.SCALE, bam.CENTER]
    check(page, *values)
    for n, name, value in (
        (0, "beta", 2.0),
        (2, "center", 12),
        (1, "scale", 2),
        (1, "scale", -10),
        (0, "beta", -1.5),
        (2, "center", 0),
        (0, "beta", 0),
    ):
        set_slider(page, name, value)
        values[n] = value
        check(page, *values)


@pytest.mark.parametrize("beta", [-1.5, 0.0])
def test_an_improper_prior_loses_its_near_keys(beta):
    assert bam.described(beta, 0, 0)["far"] == "0.0 %"
    assert bam.described(1.0, 0, 0)["far"] == "100.0 %"
