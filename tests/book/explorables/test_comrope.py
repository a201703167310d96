"""Planes under the controls: they rotate as ComRoPE's generators do."""

import re

import numpy as np
import pytest

from posedu.book.explorables import comrope
from posedu.numpy import rotary
from support.explorables import FRAGMENTS, close, numbers, summary_of


@pytest.mark.parametrize("kind", ["pairs", "ap", "ld"])
def test_planes_turn_as_their_generators_do(open_page, kind):
    """The shadows and angles that are drawn give back the rotation of the features."""
    page = open_page(FRAGMENTS["comrope"])
    page.locator("select").select_option(kind)
    generators = comrope.example_generators()[kind]

    def rotated_shadows():
        d = page.locator(".clocks").evaluate(
            """(clocks) => [...clocks.querySelectorAll(".rotation")].map(
              (rotation) => rotation.getAttribute("d"))"""
        )
        ends = np.array([numbers(path.replace("L", " "))[2:] for path in d])
        half = np.zeros((8, 8))  # of a plane two rows, of a feature one column
        for plane in range(4):
            first = plane // 2 * 4
            half[2 * plane : 2 * plane + 2, first : first + 4] = ends[
                4 * plane : 4 * plane + 4
            ].T
        return half

    for name in ("column", "row"):
        page.locator(f"input[name={name}]").press("Home")
    initial = rotated_shadows()
    close(initial.T @ initial, np.eye(8), 2)
    for column, row in (("End", "Home"), ("Home", "End"), ("End", "End")):
        page.locator("input[name=column]").press(column)
        page.locator("input[name=row]").press(row)
        place = [float(key == "End") for key in (column, row)]
        blocks = rotary.rotations([place], generators)[0]
        R, size = np.zeros((8, 8)), blocks.shape[-1]
        for n, block in enumerate(blocks):
            R[n * size : n * size + size, n * size : n * size + size] = block
        close(initial.T @ rotated_shadows(), R, 2)
        close(numbers(summary_of(page))[:2], place, 2)
        assert page.locator(".angle").all_text_contents() == [
            f"{angle}°" for angle in re.findall(r"(−?\d+)°", summary_of(page))
        ]
