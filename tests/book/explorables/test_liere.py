"""Vectors on the sphere: the rotations of LieRE and of commuting generators."""

import numpy as np
import pytest

from posedu.book.explorables import liere
from posedu.numpy import rotary
from support.explorables import FRAGMENTS, close, numbers, points_of, summary_of

EYE = liere.EYE


def standing(page, selector):
    """The position of a mark, in units of the picture."""
    return numbers(page.locator(selector).get_attribute("transform"))


def seen(points):
    x, y, _ = EYE @ np.transpose(points)
    return np.stack([x, -y], -1)


def rotation(place, spins):
    """exp of Σ x_a A_a, where A_a v = spin_a × v."""
    A = np.array([np.cross(spin, np.eye(3)).T for spin in spins], dtype=float)
    return rotary.rotations([place], A[:, None])[0, 0]


def test_the_sphere_is_seen_from_one_side():
    close(EYE @ EYE.T, np.eye(3), 12)
    assert np.linalg.det(EYE) > 0
    assert EYE[1, 2] > 0 and EYE[0, 2] == 0  # the third direction is up


@pytest.mark.parametrize("degrees", [90, 15, 30, 180])
def test_two_turns_end_where_the_reference_says(open_page, degrees):
    page = open_page(FRAGMENTS["commuting_generators"])
    start = np.array([0, 0.6, 0.8])
    turn = np.radians(degrees)
    column, row = (turn * np.eye(3)[n] for n in (2, 0))
    column, row, back = (rotation([1.0], [s]) for s in (column, row, -column))
    first, second = row @ column @ start, column @ row @ start
    ends = {"A": back @ row @ start, "B": second, "C": first}

    slider = page.locator("input")
    slider.press("Home")
    for _ in range(degrees // 15 - 1):
        slider.press("ArrowRight")
    assert page.locator(".second").is_hidden()
    assert numbers(summary_of(page)) == [degrees]
    page.locator("select").select_option("A")
    page.locator("button").press("Space")
    assert page.locator(".second").is_visible()
    for name, end in (("first", first), ("second", second)):
        close(standing(page, f".{name} .end"), liere.SCALE * seen([end])[0], 1, 1e-9)
        points = np.vstack(
            [points_of(page, f".{name} .{side}") for side in ("front", "back")]
        )
        between = (row if name == "second" else column) @ start
        for place in (start, between, end):
            assert np.abs(points - seen([place])).max(axis=-1).min() < 0.001
    for name, end in ends.items():
        place = numbers(page.locator(f"g.{name}").get_attribute("transform"))
        close(place, 120 * seen([end])[0], 1, 1e-9)

    def apart(one, other):
        return np.degrees(2 * np.arcsin(np.linalg.norm(one - other) / 2))

    gap, off = apart(first, second), apart(ends["A"], second)
    shown = numbers(summary_of(page))
    close(shown[:2], [degrees, gap], 0, 1e-5)
    if degrees < 180:
        close(shown[2:], [off], 0, 1e-5)
    else:
        assert "Your guess A is right" in summary_of(page)


def test_halved_turns_have_a_quarter_of_the_gap():
    def gap(turn):
        column, row = rotation([turn], [[0, 0, 1]]), rotation([turn], [[1, 0, 0]])
        return np.linalg.norm((column @ row - row @ column) @ [0, 0.6, 0.8])

    gaps = [gap(np.radians(degrees)) for degrees in (60, 30, 15)]
    assert (np.divide(gaps[1:], gaps[:-1]) < 0.3).all() and gap(np.pi) < 1e-12
    assert abs(gaps[2] / gaps[1] - 0.25) < 0.02


def test_two_generators_turn_about_one_axle(open_page):
    page = open_page(FRAGMENTS["liere"])
    start = np.array([0, 0.6, 0.8])
    learned = liere.LEARNED[:, None]
    for keys, patch in (
        ((), (0.75, 0.5)),
        (("Home", "End"), (0, 1)),
        (("End", "Home"), (1, 0)),
        (("End", "End"), (1, 1)),
        (("Home", "Home"), (0, 0)),
    ):
        for name, press in zip(("column", "row"), keys, strict=False):
            page.locator(f"input[name={name}]").press(press)
        R = rotary.rotations([patch], learned)[0, 0]
        end = R @ start
        close(standing(page, ".end"), liere.SCALE * seen([end])[0], 1, 1e-9)
        assert page.locator(".end").bounding_box()["width"] > 4
        degrees = np.degrees(np.arccos(np.clip((np.trace(R) - 1) / 2, -1, 1)))
        close(numbers(summary_of(page))[:2], patch, 2)
        close(numbers(summary_of(page))[2], degrees, 0, 1e-5)
        close(numbers(summary_of(page))[3:], end, 2, 1e-12)
        assert page.locator(".length").inner_text() == "1.00"
        axle = numbers(page.locator(".axle").get_attribute("d").replace("L", " "))
        fixed = np.linalg.svd(R - np.eye(3))[2][-1]  # R leaves the axle where it is
        if any(patch):
            size = np.dot(axle[2:], seen([fixed])[0]) / np.sum(seen([fixed]) ** 2)
            close(axle[2:], size * seen([fixed])[0], 3, 1e-9)
            close(abs(size), 1.3, 2)
