"""Several axes: what the explorables draw is what the reference implementation computes."""

import re

import numpy as np
import pytest

from posedu.book.explorables import comrope, liere
from posedu.book.figures import INKS
from posedu.numpy import rotary
from support.explorables import FRAGMENTS, close, numbers

IMAGE = rotary.grid(12, 8, coordinates="index")


def told(page):
    return page.locator(".summary").inner_text()


def expected_scores(kind, key):
    """Of all patches with a key, from the vectors that the kinds are named after."""
    s = 10.0 ** -(np.arange(4) / 4)
    f = {
        "axial": [(a, 0) for a in s] + [(0, a) for a in s],
        "one": [(a, -a) for a in s],
        "two": [(a, sign * a) for a in s for sign in (1, -1)],
    }[kind]
    places = np.vstack([IMAGE, key]).astype(float)
    x = np.tile([1.0, 0.0], (len(places), len(f)))
    turned = rotary.mixed(x, places, frequencies=np.array(f), layout="interleaved")
    return turned[:-1] @ turned[-1] / len(f)


@pytest.mark.parametrize("kind", ["axial", "one", "two"])
def test_patches_show_the_scores_with_the_key(open_page, kind):
    page = open_page(FRAGMENTS["axial"])
    page.locator("select").select_option(kind)
    for keys, key in (
        ((), (4, 3)),
        (("End", "Home"), (10, 0)),
        (("Home", "End"), (0, 6)),
    ):
        for name, press in zip(("column", "row"), keys, strict=False):
            page.locator(f"input[name={name}]").press(press)
        shown = page.locator("svg").evaluate(
            """(svg) => [...svg.querySelectorAll(".patch")].map((patch) => [
              patch.getAttribute("fill"), patch.getAttribute("fill-opacity")])"""
        )
        s = expected_scores(kind, key)
        close([float(opacity) for _, opacity in shown], np.abs(s), 2, 1e-12)
        fills = [INKS[int(score > 0)] for score in s]
        assert [fill for fill, _ in shown] == fills
        at = {
            tuple(place): score for place, score in zip(IMAGE.tolist(), s, strict=True)
        }
        column, row = key
        diagonal = at[column, row] + at[column + 1, row + 1]
        others = at[column + 1, row] + at[column, row + 1]
        close(numbers(told(page)), [*key, diagonal, others], 2, 1e-12)
        assert (diagonal > others + 0.1) == (kind == "one")


def test_a_click_on_a_patch_moves_the_key(open_page):
    page = open_page(FRAGMENTS["axial"], width=390)
    for place, key in ((12 * 2 + 7, (7, 2)), (95, (10, 6))):
        page.locator(".patch").nth(place).click(force=True)
        assert numbers(told(page))[:2] == list(key)


EYE = liere.EYE


def path(page, selector):
    """The points of a path, as seen, in front and behind."""
    d = page.locator(selector).get_attribute("d")
    return np.array(numbers(d.replace("M", " ").replace("L", " "))).reshape(-1, 2)


def standing(page, selector):
    """Where a mark stands, in units of the picture."""
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
    page = open_page(FRAGMENTS["liere"])
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
    assert numbers(told(page)) == [degrees]
    page.locator("select").select_option("A")
    page.locator("button").press("Space")
    assert page.locator(".second").is_visible()
    for name, end in (("first", first), ("second", second)):
        close(standing(page, f".{name} .end"), liere.SCALE * seen([end])[0], 1, 1e-9)
        points = np.vstack(
            [path(page, f".{name} .{side}") for side in ("front", "back")]
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
    shown = numbers(told(page))
    close(shown[:2], [degrees, gap], 0, 1e-5)
    if degrees < 180:
        close(shown[2:], [off], 0, 1e-5)
    else:
        assert "Your guess A is right" in told(page)


def test_halved_turns_have_a_quarter_of_the_gap():
    def gap(turn):
        column, row = rotation([turn], [[0, 0, 1]]), rotation([turn], [[1, 0, 0]])
        return np.linalg.norm((column @ row - row @ column) @ [0, 0.6, 0.8])

    gaps = [gap(np.radians(degrees)) for degrees in (60, 30, 15)]
    assert (np.divide(gaps[1:], gaps[:-1]) < 0.3).all() and gap(np.pi) < 1e-12
    assert abs(gaps[2] / gaps[1] - 0.25) < 0.02


def test_two_generators_turn_about_one_axle(open_page):
    page = open_page(FRAGMENTS["commuting_generators"])
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
        close(numbers(told(page))[:2], patch, 2)
        close(numbers(told(page))[2], degrees, 0, 1e-5)
        close(numbers(told(page))[3:], end, 2, 1e-12)
        assert page.locator(".length").inner_text() == "1.00"
        axle = numbers(page.locator(".axle").get_attribute("d").replace("L", " "))
        fixed = np.linalg.svd(R - np.eye(3))[2][-1]  # R leaves the axle where it is
        if any(patch):
            size = np.dot(axle[2:], seen([fixed])[0]) / np.sum(seen([fixed]) ** 2)
            close(axle[2:], size * seen([fixed])[0], 3, 1e-9)
            close(abs(size), 1.3, 2)


@pytest.mark.parametrize("kind", ["pairs", "ap", "ld"])
def test_planes_turn_as_their_generators_do(open_page, kind):
    """The shadows and angles that are drawn give back the rotation of the features."""
    page = open_page(FRAGMENTS["comrope"])
    page.locator("select").select_option(kind)
    generators = comrope.drawn_generators()[kind]

    def hands():
        d = page.locator(".clocks").evaluate(
            """(clocks) => [...clocks.querySelectorAll(".hand")].map(
              (hand) => hand.getAttribute("d"))"""
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
    still = hands()
    close(still.T @ still, np.eye(8), 2)
    for column, row in (("End", "Home"), ("Home", "End"), ("End", "End")):
        page.locator("input[name=column]").press(column)
        page.locator("input[name=row]").press(row)
        place = [float(key == "End") for key in (column, row)]
        blocks = rotary.rotations([place], generators)[0]
        R, size = np.zeros((8, 8)), blocks.shape[-1]
        for n, block in enumerate(blocks):
            R[n * size : n * size + size, n * size : n * size + size] = block
        close(still.T @ hands(), R, 2)
        close(numbers(told(page))[:2], place, 2)
        assert page.locator(".angle").all_text_contents() == [
            f"{angle}°" for angle in re.findall(r"(−?\d+)°", told(page))
        ]


@pytest.mark.parametrize(
    ("own", "other", "back"),
    [
        (1.0, 0.3, 0.0),
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.9, 0.0, 0.1),
        (0.0, 0.0, 1.0),
    ],
)
def test_waves_show_hand_and_score_of_the_series(open_page, own, other, back):
    page = open_page(FRAGMENTS["fope"])
    for name, weight in (("own", own), ("other", other), ("back", back)):
        slider = page.locator(f"input[name={name}]")
        if weight not in (0, 1):
            slider.evaluate(
                "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')) }", weight
            )
        else:
            slider.press("End" if weight else "Home")
    at = np.arange(0, 40.01, 0.25)
    options = dict(
        cos_coefficients=np.array([[own + back], [other]]) / (own + other + back),
        sin_coefficients=np.array([[own - back], [other]]) / (own + other + back),
        length=40,
        base=10,
        padding="identity",
    )
    table = rotary.fope_table(at, 4, **options)
    shown = path(page, ".hand")
    close(shown, np.stack(table, -1)[:, 0], 3, 1e-12)
    x = np.tile([1.0, 0, 0, 0], (len(at), 1))  # the first pair alone
    here, there = (
        rotary.fope(x, at + moved, layout="interleaved", **options) for moved in (0, 1)
    )
    scores = (here * there).sum(-1)
    close(path(page, ".scores"), np.stack([at, scores], -1), 3, 1e-12)
    waves = np.count_nonzero([own, other, back])
    assert (np.ptp(scores) < 1e-12) == (waves == 1) == ("It is relative" in told(page))
    ends = [scores.min(), scores.max()] if waves > 1 else [scores[0]]
    close(numbers(told(page)), [waves, *ends], 2, 1e-12)
