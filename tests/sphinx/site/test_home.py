"""Home's dial shows the reference's numbers and respects reduced motion."""

from types import SimpleNamespace

import numpy as np
import pytest
from docutils import nodes

from posedu.catalog import CATALOG
from posedu.numpy.rotary import rope
from posedu_sphinx.markup import HERE
from posedu_sphinx.navigation import downloads
from posedu_sphinx.site import home

PAGE = '<!doctype html><html lang="en"><meta charset="utf-8"><title>page</title>'
D, WORDS = 64, 7
READ = """() => {
  const all = (s) => [...document.querySelectorAll(".posedu-hero " + s)];
  const place = all("svg")[0].getCTM().inverse();
  const at = (dot) => {
    const point = new DOMPoint(dot.cx.baseVal.value, dot.cy.baseVal.value)
      .matrixTransform(place.multiply(dot.getCTM()));
    return [point.x, point.y];
  };
  return {
    key: all("g .key").map(at),
    query: all("g .query").map(at),
    arcs: all("g path").map((path) => path.getTotalLength()),
    positions: all("fieldset small").map((small) => +small.textContent),
    chosen: +all(":checked")[0].value,
    score: +all(".score")[0].textContent,
    status: all(".status")[0].textContent,
    shown: all("[type=range]")[0].getAttribute("aria-valuetext"),
  };
}"""


@pytest.fixture
def open_page(open_page):
    """Open the dial."""
    return lambda **options: open_page(home.hero(), head=PAGE, **options)


def check_against_reference(shown):
    """Dots, arcs and score match the positions under the words."""
    positions, key = np.array(shown["positions"]), shown["chosen"]
    assert (np.diff(positions) == 1).all() and len(positions) == WORDS
    ones = np.tile([1.0, 0.0], D // 2)
    turned = rope(np.tile(ones, (WORDS, 1)), positions, layout="interleaved")
    hands = turned.reshape(WORDS, D // 2, 2)[:, list(home.PAIRS)]
    radii = np.array(home.RADII)[:, None]
    for which, place in (("key", key), ("query", -1)):
        drawn = np.array(shown[which]) / radii * [1, -1]  # y points down
        # Angles are written to 0.005°, places to 0.005 units: 9e-5 + 2e-4 of a radius.
        np.testing.assert_allclose(drawn, hands[place], atol=5e-4)
    assert abs(shown["score"] - turned[key] @ turned[-1] / (D // 2)) < 6e-4
    distance = WORDS - 1 - key
    assert shown["status"].endswith(f"“ran”: {distance}")


def test_style_and_script_are_light():
    sizes = [
        len((HERE / "site" / name).read_bytes()) for name in ("hero.css", "hero.js")
    ]
    assert sum(sizes) < 6000


def test_without_scripts_a_still_picture_of_the_reference_stands(open_page):
    page = open_page(java_script_enabled=False)
    check_against_reference(page.evaluate(READ))
    assert page.locator(".controls").is_hidden()
    assert page.locator("[type=radio]:enabled").count() == 0


def test_it_moves_until_it_is_paused(open_page):
    page = open_page()
    before = page.evaluate(READ)
    page.wait_for_function(
        "n => +document.querySelector('fieldset small').textContent > n",
        arg=before["positions"][0],
    )
    page.get_by_role("button", name="Pause").press("Enter")
    paused = None
    for _ in range(50):  # the step that it is in comes to its end
        earlier, paused = paused, page.evaluate(READ)
        if paused == earlier:
            break
        page.wait_for_timeout(300)
    page.wait_for_timeout(1500)
    assert page.evaluate(READ) == paused
    check_against_reference(paused)
    assert paused["score"] == before["score"] and paused["arcs"] == before["arcs"]
    page.get_by_role("button", name="Play").press("Enter")
    page.get_by_role("button", name="Pause").wait_for()


def test_nothing_moves_by_itself_where_motion_is_unwanted(open_page):
    page = open_page(reduced_motion="reduce")
    before = page.evaluate(READ)
    check_against_reference(before)
    page.wait_for_timeout(1500)
    assert page.evaluate(READ) == before
    assert page.get_by_role("button", name="Play").is_visible()


def test_slider_and_words_answer_to_the_keyboard(open_page):
    page = open_page(reduced_motion="reduce")
    slider = page.get_by_role("slider", name="position of the sentence")
    for key, first in (("Home", 0), ("ArrowRight", 1), ("End", home.LAST)):
        slider.press(key)
        shown = page.evaluate(READ)
        assert shown["positions"][0] == first
        assert shown["shown"] == f"dog at {first + 1}, ran at {first + 6}"
        check_against_reference(shown)
    for chosen in (2, 3, 4, 5, 0):
        page.locator("input:checked").press("ArrowRight")
        shown = page.evaluate(READ)
        assert shown["chosen"] == chosen
        check_against_reference(shown)


def test_the_dial_is_self_contained():
    for outside in ("http", "src=", "href=", "url(", "import"):
        assert outside not in home.hero()


@pytest.mark.parametrize("url", ["", "https://github.com/example/posedu"])
def test_home_says_how_to_run_the_book(url):
    options = {"repository_url": url, "repository_branch": "main"}
    app = SimpleNamespace(
        config=SimpleNamespace(html_theme_options=options),
        builder=SimpleNamespace(get_relative_uri=lambda source, target: target),
    )
    ways = home.run_instructions(app, "book/index")
    links = [node["refuri"] for way in ways for node in way.findall(nodes.reference)]
    assert f"../_sources/{home.NOTEBOOK}.ipynb" in links
    colab = [link for link in links if link.startswith(downloads.COLAB)]
    assert len(colab) == bool(url)
    assert ways[-1].astext() == f"pip install {f'git+{url}' if url else '.'}"


def test_figures_about_the_book_are_counted():
    env = SimpleNamespace(posedu_claims={"a": {"claims": [1, 2]}, "b": {"claims": [3]}})
    found = home.counts(env)
    assert found["claims"] == 3
    assert found["encodings"] == sum(bool(e.page) for e in CATALOG.values())
    assert found["mistakes"] > found["exercises"] > found["chapters"] > 0
    refuted = (home.ROOT / "book" / "rotary" / "errata.md").read_text(encoding="utf-8")
    assert found["errata"] > refuted.count("<err-") > 0
