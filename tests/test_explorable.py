"""The explorable: its numbers are the reference face's, still and under the sliders."""

import re
import shutil

import bounds
import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from posedu.explorables import rotation_explorable
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import rope, rope_complex

FRAGMENT = rotation_explorable()._repr_html_()
PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>page</title>'
    '<meta name="viewport" content="width=device-width">'
    "<style>:root { color-scheme: light dark } body { margin: 1rem }</style>"
)
OFFSET, BASE = "input >> nth=0", "input >> nth=1"
D, LONGEST = 16, 256
KEY = 1000  # the key's position; only the offset may matter

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


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: nothing to run the explorable in")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Open pages; at the end none may have asked for anything or complained."""
    complaints, contexts = [], []

    def open_page(body=FRAGMENT, *, width=1024, **options):
        viewport = {"width": width, "height": 800}
        contexts.append(browser.new_context(viewport=viewport, **options))
        page = contexts[-1].new_page()
        page.on("request", lambda request: complaints.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_content(PAGE + body)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def read(page, number=0):
    return page.locator("figure").nth(number).evaluate(READ)


def numbers(text):
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)  # 10,000 is one number
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", plain)]


def close(actual, expected, digits):
    """Equal as printed; both sides' angles are good to ``bounds.angle``."""
    atol = 0.5 * 10.0**-digits + 2 * bounds.angle(KEY + LONGEST).item()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


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
        close(numbers(shown["query"][p]), [0, 0, between[p].real, between[p].imag], 4)
        close(numbers(shown["shadow"][p]), [0, 0, between[p].real], 4)
        (degrees,) = numbers(shown["angle"][p])
        error = np.angle(between[p] * np.exp(-1j * np.radians(degrees)), deg=True)
        close(error, 0, 1)
        assert shown["label"][p] == f"Pair {p}: query {degrees:.1f}° ahead of key"

    points = shown["scores"].removeprefix("M").split("L")
    curve = np.array([numbers(point) for point in points])
    assert curve[:, 0].tolist() == list(range(LONGEST + 1))
    close(curve[:, 1], scores, 4)
    assert shown["marker"] == f"M{points[offset]}h0"
    assert shown["guide"] == f"M{offset},-1V1"

    (score,) = numbers(shown["outputs"]["score"])
    close(score, scores[offset], 3)
    slow = np.count_nonzero(offset * frequencies(D, base=base) < np.pi / 2)
    assert numbers(shown["summary"]) == [offset, base, score, slow, D // 2]
    assert shown["valuetext"] == shown["outputs"]["base"]


def test_the_fragment_is_self_contained():
    for outside in ("http", "src=", "href=", "url(", "import", " id="):
        assert outside not in FRAGMENT


def test_without_scripts_a_still_figure_shows_and_no_slider(open_page):
    page = open_page(java_script_enabled=False)
    shown = read(page)
    check_against_reference(shown)
    assert shown["outputs"]["offset"] == "16"
    assert shown["outputs"]["base"] == "10,000"
    assert page.locator("svg >> visible=true").count() == 1 + D // 2
    assert page.locator("input >> visible=true").count() == 0
    assert page.locator(".still").is_visible()


def test_the_script_first_draws_what_python_drew(open_page):
    still, live = open_page(java_script_enabled=False), open_page()
    assert read(live) == read(still) | {"summary": read(live)["summary"]}
    assert numbers(read(live)["summary"]) == numbers(read(still)["summary"])
    assert not live.locator(".still").is_visible()


def test_both_sliders_move_by_keyboard_and_show_the_reference(open_page):
    page = open_page()
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
    page = open_page(width=390, has_touch=touch)
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
    page = open_page()
    for name in ("offset i − j", "base"):
        assert page.get_by_role("slider", name=name, exact=True).count() == 1
    assert page.get_by_role("img", name=re.compile("Pair|Curve")).count() == 9
    assert page.locator("svg").count() == 9
    assert page.locator("[aria-live=polite]").count() == 1
    assert page.locator("output:not([aria-live=off])").count() == 0
    assert page.locator("figcaption").inner_text().strip()


def test_nothing_moves_by_itself(open_page):
    page = open_page()
    before = read(page)
    page.wait_for_timeout(300)
    assert read(page) == before
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_and_its_text_is_legible(open_page, width):
    page = open_page(width=width)
    page.locator(BASE).press("End")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut, small = page.evaluate(
        """() => {
          const box = (e) => e.getBoundingClientRect();
          const texts = [...document.querySelectorAll("svg text")];
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


def luminance(rgb):
    c = np.array(rgb) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_ink_is_legible_in_both_themes(open_page, theme):
    """Text at 4.5 : 1 and lines at 3 : 1 against the page, as WCAG asks."""
    page = open_page(color_scheme=theme)
    style = "(e, name) => getComputedStyle(e)[name]"
    page.add_style_tag(content="body { background: Canvas; color: CanvasText }")

    def contrast(selector, name):
        colours = (
            page.locator(selector).first.evaluate(style, name),
            page.locator("body").evaluate(style, "backgroundColor"),
        )
        low, high = sorted(luminance(numbers(c)[:3]) for c in colours)
        return (high + 0.05) / (low + 0.05)

    assert contrast("svg text", "fill") >= 4.5
    assert contrast("figcaption", "color") >= 4.5
    for line in (".query", ".shadow", ".scores", ".marker", ".guide"):
        assert contrast(line, "stroke") >= 3
