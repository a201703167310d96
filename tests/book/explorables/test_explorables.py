"""Properties of all explorables, and RoPE's numbers compared with the reference."""

import re

import numpy as np
import pytest

from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import rope, rope_complex
from support import bounds
from support.explorables import FRAGMENTS, close, contrast, numbers

FRAGMENT = FRAGMENTS["rope"]
OFFSET, BASE = "input >> nth=0", "input >> nth=1"
D, LONGEST = 16, 256
KEY = 1000  # the key's position; only the offset may matter
SLACK = 2 * bounds.angle(KEY + LONGEST).item()  # of an angle, from either side

READ = """(figure) => {
  const all = (s) => [...figure.querySelectorAll(s)];
  const path = (s) => figure.querySelector(s).getAttribute("d");
  const clocks = all(".clock");
  return {
    query: clocks.map((c) => c.querySelector(".query").getAttribute("d")),
    shadow: clocks.map((c) => c.querySelector(".shadow").getAttribute("d")),
    angle: clocks.map((c) => c.querySelector(".angle").textContent),
    label: clocks.map((c) => c.getAttribute("aria-label")),
    scores: path(".scores"), marker: path(".marker"), guide: path(".guide"),
    outputs: Object.fromEntries(all("output").map((o) => [o.className, o.textContent])),
    valuetext: figure.querySelectorAll("input")[1].getAttribute("aria-valuetext"),
    summary: figure.querySelector(".summary").textContent,
  }
}"""


def read(page, number=0):
    return page.locator("figure").nth(number).evaluate(READ)


def check_against_reference(shown):
    """Every number in the figure, for the offset and base that it says it shows.

    The vector (1, …, 1) has pairs of equal length. It stands at KEY and beyond.
    """
    (offset,), (base,) = (
        numbers(shown["outputs"][name]) for name in ("offset", "base")
    )
    offset, positions = int(offset), KEY + np.arange(LONGEST + 1)
    x = np.ones((LONGEST + 1, D))
    turned = rope(x, positions, layout="half", base=base)
    scores = turned @ turned[0] / D
    z = rope_complex(x, positions, layout="half", base=base)
    between = z[offset] * z[0].conj() / 2

    for p in range(D // 2):
        close(
            numbers(shown["query"][p]),
            [0, 0, between[p].real, between[p].imag],
            4,
            SLACK,
        )
        close(numbers(shown["shadow"][p]), [0, 0, between[p].real], 4, SLACK)
        (degrees,) = numbers(shown["angle"][p])
        error = np.angle(between[p] * np.exp(-1j * np.radians(degrees)), deg=True)
        close(error, 0, 1, SLACK)
        assert shown["label"][p] == f"Pair {p}: query {degrees:.1f}° ahead of key"

    points = shown["scores"].removeprefix("M").split("L")
    curve = np.array([numbers(point) for point in points])
    assert curve[:, 0].tolist() == list(range(LONGEST + 1))
    close(curve[:, 1], scores, 4, SLACK)
    assert shown["marker"] == f"M{points[offset]}h.001"
    assert shown["guide"] == f"M{offset},-1V1"

    (score,) = numbers(shown["outputs"]["score"])
    close(score, scores[offset], 3, SLACK)
    slow = np.count_nonzero(offset * frequencies(D, base=base) < np.pi / 2)
    assert numbers(shown["summary"]) == [offset, base, score, slow, D // 2]
    assert shown["valuetext"] == shown["outputs"]["base"]


def test_without_scripts_a_static_figure_shows_and_no_slider(open_page):
    page = open_page(FRAGMENT, java_script_enabled=False)
    shown = read(page)
    check_against_reference(shown)
    assert shown["outputs"]["offset"] == "16"
    assert shown["outputs"]["base"] == "10,000"
    assert page.locator("svg >> visible=true").count() == 1 + D // 2
    assert page.locator("input >> visible=true").count() == 0
    assert page.locator(".static").is_visible()


def test_both_sliders_move_by_keyboard_and_show_the_reference(open_page):
    page = open_page(FRAGMENT)
    page.keyboard.press("Tab")
    assert page.locator(OFFSET).evaluate("e => e === document.activeElement")
    for key, offset in (("Home", 0), ("ArrowRight", 1), ("PageUp", 27), ("End", 256)):
        page.keyboard.press(key)
        assert read(page)["outputs"]["offset"] == str(offset)
        check_against_reference(read(page))
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    assert page.locator(BASE).evaluate("e => e === document.activeElement")
    for key, base in (
        ("Home", "10"),
        ("ArrowRight", "11.2"),
        ("PageUp", "35.5"),
        ("End", "1,000,000"),
        ("ArrowLeft", "891,000"),
    ):
        page.keyboard.press(key)
        assert read(page)["outputs"] | {"score": ""} == {
            "offset": "247",
            "base": base,
            "score": "",
        }
        check_against_reference(read(page))


def test_a_larger_base_slows_every_pair_but_the_first():
    bases = np.geomspace(10, 1e6, 101)
    omega = np.array([frequencies(D, base=base) for base in bases])
    assert (omega[:, 0] == 1).all()
    assert (np.diff(omega[:, 1:], axis=0) < 0).all()


@pytest.mark.parametrize("touch", [False, True], ids=["mouse", "touch"])
def test_sliders_follow_mouse_and_touch(open_page, touch):
    page = open_page(FRAGMENT, width=390, has_touch=touch)
    for slider in (OFFSET, BASE):
        box = page.locator(slider).bounding_box()
        assert box["height"] >= 24
        press = page.touchscreen.tap if touch else page.mouse.click
        press(box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"])
    shown = read(page)
    (offset,), (base,) = (
        numbers(shown["outputs"][name]) for name in ("offset", "base")
    )
    assert 180 < offset < 204 and 4.5 < np.log10(base) < 5
    check_against_reference(shown)


def test_two_on_a_page_are_independent(open_page):
    page = open_page(FRAGMENT * 2)
    first = read(page, 0)
    page.locator("figure").nth(1).locator("input").first.press("End")
    assert read(page, 0) == first
    assert read(page, 1)["outputs"]["offset"] == "256"
    check_against_reference(read(page, 1))


def test_a_second_script_leaves_the_first_figure_alone(open_page):
    redrawn = open_page(FRAGMENT * 2).evaluate(
        """() => {
          const curve = document.querySelector(".scores");
          const observer = new MutationObserver(() => {});
          observer.observe(curve, { attributes: true });
          document.querySelector("input").dispatchEvent(new Event("input"));
          return observer.takeRecords().length;
        }"""
    )
    assert redrawn == 1


def test_it_runs_where_a_notebook_inserts_it(open_page):
    page = open_page("<main></main>")
    page.evaluate(
        """(fragment) => {
          document.querySelector("main").innerHTML = fragment;
          const inert = document.querySelector("main script");
          const script = document.createElement("script");
          script.textContent = inert.textContent;
          inert.replaceWith(script);
        }""",
        FRAGMENT,
    )
    page.locator(OFFSET).press("Home")
    assert read(page)["outputs"]["score"] == "1.000"


def test_controls_and_pictures_have_names(open_page):
    page = open_page(FRAGMENT)
    for name in ("offset i − j", "base"):
        assert page.get_by_role("slider", name=name, exact=True).count() == 1
    assert page.get_by_role("img", name=re.compile("Pair|Curve")).count() == 9
    assert page.locator("svg").count() == 9
    assert page.locator("[aria-live=polite]").count() == 1
    assert page.locator("output:not([aria-live=off])").count() == 0
    assert page.locator("figcaption").inner_text().strip()


@pytest.fixture(params=sorted(FRAGMENTS))
def fragment(request):
    return FRAGMENTS[request.param]


def test_every_fragment_is_small_and_self_contained(fragment):
    for outside in ("http", "src=", "href=", "url(", "import", " id="):
        assert outside not in fragment
    assert fragment.count("<script>") == 1
    assert len(fragment.encode()) <= 20_000


SEEN = """(figure) => ({
  words: figure.querySelector(".summary").textContent,
  pictures: [...figure.querySelectorAll("svg")].map((svg) => svg.outerHTML),
  outputs: [...figure.querySelectorAll("output")].map((o) => o.textContent),
})"""


def test_every_static_picture_is_what_the_script_draws_and_reveals(open_page, fragment):
    static, live = open_page(fragment, java_script_enabled=False), open_page(fragment)
    assert static.locator("svg >> visible=true").count() >= 1
    assert static.locator(".controls >> visible=true").count() == 0
    assert static.locator(".static").is_visible()
    assert not live.locator(".static").is_visible()
    for reveal in live.locator(".control button").all():
        reveal.press("Space")
    first, drawn = (page.locator("figure").evaluate(SEEN) for page in (static, live))
    assert drawn.pop("words").startswith(first.pop("words"))  # then of the guess
    assert drawn == first


def test_everything_has_a_name_and_answers_to_the_keyboard(open_page, fragment):
    page = open_page(fragment)
    for svg in page.locator("svg").all():
        assert svg.get_attribute("role") == "img" and svg.get_attribute("aria-label")
    assert page.locator("[aria-live=polite]").count() == 1
    assert page.locator("output:not([aria-live=off])").count() == 0
    assert page.locator("figcaption").inner_text().strip()
    figure = page.locator("figure")
    for control in page.locator(".controls [name]").all():
        page.keyboard.press("Tab")
        assert control.evaluate("e => e === document.activeElement")
        kind, named, first = control.evaluate(
            """(e) => [e.type, (e.labels?.[0] ?? e).textContent.trim(),
              e.value === e.min]"""
        )
        assert named
        before = figure.evaluate(SEEN)
        arrow = "ArrowRight" if first else "ArrowLeft"
        keys = {"button": "Space", "range": arrow, "select-one": "ArrowDown"}
        page.keyboard.press(keys[kind])
        assert figure.evaluate(SEEN) != before
    assert page.evaluate("document.getAnimations().length") == 0


def test_no_mark_is_a_line_without_length(fragment):
    """Chromium leaves out some of those, whatever their caps and width."""
    assert not re.search(r"h0\b(?!\.)", fragment)


WIDE = '* { font-family: Verdana, "DejaVu Sans" }'  # the widest that readers have


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_every_figure_fits_and_its_text_is_legible(open_page, fragment, width):
    page = open_page(fragment, width=width)
    page.add_style_tag(content=WIDE)
    for slider in page.locator("input[type=range]").all():
        slider.press("End")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut, small = page.evaluate(
        """() => {
          const box = (e) => e.getBoundingClientRect();
          const texts = [...document.querySelectorAll("svg text")].filter(
            (t) => box(t).width > 0);
          const within = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1
            && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
          const cut = texts.filter((t) => !within(box(t), box(t.ownerSVGElement)));
          const size = (t) => parseFloat(getComputedStyle(t).fontSize)
            * t.getScreenCTM().a;
          const upright = texts.filter((t) => t.getScreenCTM().b === 0);
          return [cut, upright.filter((t) => size(t) < 10)].map(
            (found) => found.map((t) => t.textContent));
        }"""
    )
    assert cut == [] and small == []


INK = """() => {
  const style = (e) => getComputedStyle(e);
  const shown = (e) => style(e).visibility === "visible" && e.getClientRects().length;
  const of = (selector, name, keep) =>
    [...document.querySelectorAll(selector)].filter((e) => shown(e) && keep(style(e)))
      .map((e) => style(e)[name]);
  return {
    page: style(document.body).backgroundColor,
    text: of("svg text", "fill", () => true)
      .concat(of("figcaption, .summary, label", "color", () => true)),
    lines: of("svg [stroke]", "stroke",
      (s) => s.stroke.startsWith("rgb") && Number(s.strokeOpacity) === 1),
  };
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_ink_is_legible_in_both_themes(open_page, fragment, theme):
    """Text at 4.5 : 1 and lines at 3 : 1 against the page, as WCAG asks.

    A line that is let through in part, of a grid or a ring, may be fainter.
    """
    ink = open_page(fragment, color_scheme=theme).evaluate(INK)
    assert ink["text"] and min(contrast(c, ink["page"]) for c in ink["text"]) >= 4.5
    for line in ink["lines"]:
        assert contrast(line, ink["page"]) >= 3
