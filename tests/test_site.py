"""The built website, read by machine and in a real Chromium."""

import copy
import functools
import http.server
import json
import os
import re
import shutil
import threading
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from playwright.sync_api import sync_playwright

from posedu.catalog import CATALOG
from posedu_book import contents, pages
from posedu_book.build import HTML
from posedu_book.notebooks import ROOT
from posedu_book.vendor import AXE_SCRIPT

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`"),
]

DOCUMENTS = contents.documents()
PAGES = [f"{document}.html" for document in DOCUMENTS]
CHAPTERS = contents.chapters()
OF_ENCODINGS = {e.page for e in CATALOG.values() if e.page}
HEADINGS = (
    "The problem",
    "The idea in one picture",
    "What you will be able to do",
    "Definition",
    "Derivation",
    "Properties",
    "Three faces",
    "Cross-check",
    "Cost",
    "What goes wrong",
    "Exercises",
    "Summary",
    "Sources",
)
WIDTHS, THEMES = (1280, 390), ("light", "dark")
SETTINGS = tuple(product(WIDTHS, THEMES))
ALL = os.environ.get("POSEDU_SITE") == "all"  # `make site`: each page in each setting
VIEWS = [
    (page, *setting)
    for number, page in enumerate(PAGES)
    for turn, setting in enumerate(SETTINGS)
    if ALL or turn == number % len(SETTINGS)
]
COLAB = pages.COLAB


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(Quiet, directory=str(HTML))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("page", PAGES)
def test_no_page_shows_a_warning_or_where_it_was_built(page):
    text = (HTML / page).read_text(encoding="utf-8")
    assert 'class="output stderr' not in text
    assert str(ROOT) not in text
    assert not re.search(r"object at 0x|Generator at 0x", text)


@pytest.fixture(scope="module")
def chromium():
    found = shutil.which("chromium")
    if not found:
        pytest.skip("Chromium is not installed: the browser tests are skipped")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def html(page):
    return (HTML / page).read_text(encoding="utf-8")


def open_page(context, address, page):
    """A loaded page, and everything that went wrong on the way."""
    faults = []
    tab = context.new_page()
    tab.on("console", lambda m: m.type == "error" and faults.append(m.text))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("requestfailed", lambda r: faults.append(f"failed: {r.url}"))
    tab.on("response", lambda r: r.status >= 400 and faults.append(f"bad: {r.url}"))

    def local(route):
        url = route.request.url
        if url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            faults.append(f"foreign: {url}")
            route.abort()

    tab.route("**/*", local)
    tab.goto(address + page, wait_until="networkidle")
    tab.wait_for_function("() => !window.MathJax || MathJax.startup?.promise")
    tab.evaluate("() => window.MathJax && MathJax.startup.promise")
    return tab, faults


UNSET = """() => [...document.querySelectorAll(".math")]
  .filter(e => !e.querySelector("mjx-container")).map(e => e.textContent)"""
FIGURES = """() => [...document.querySelectorAll(
    ".bd-content img, .bd-content svg:not([aria-hidden=true])")]
  .filter(e => !e.closest("a, button, mjx-container, .sd-summary-title, summary"))
  .map(e => e.tagName == "IMG" ? e.alt :
    (e.querySelector("title")?.textContent || e.getAttribute("aria-label") || ""))"""
AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter(v => ["serious", "critical"].includes(v.impact))
  .map(v => [v.id, v.nodes.length, v.nodes[0].target.join(" "), v.nodes[0].html])"""


@pytest.mark.parametrize(("page", "width", "theme"), VIEWS)
def test_a_page_is_sound(page, width, theme, address, chromium):
    size = {"width": width, "height": 900}
    context = chromium.new_context(viewport=size, color_scheme=theme)
    tab, faults = open_page(context, address, page)
    assert faults == []
    assert tab.evaluate("() => document.documentElement.dataset.theme") == theme
    assert tab.locator("mjx-merror").count() == 0
    assert tab.evaluate(UNSET) == [], "formulas left unset"
    overflow = "() => document.documentElement.scrollWidth - window.innerWidth"
    assert tab.evaluate(overflow) <= 0, "the page scrolls sideways"
    for words in tab.evaluate(FIGURES):
        assert len(words) > 10 and not re.search(r"[0-9a-f]{32}", words), words
    tab.add_script_tag(path=AXE_SCRIPT)
    assert tab.evaluate(AXE) == []
    context.close()


def test_search_finds_rope(address, chromium):
    tab, faults = open_page(chromium.new_context(), address, "search.html?q=RoPE")
    tab.wait_for_selector("#search-results li a")
    found = tab.locator("#search-results li a").evaluate_all("e => e.map(a => a.href)")
    assert any("book/rotary/rope.html" in url for url in found), found
    assert faults == []


PREVIEWED = {  # what is linked, and words of its preview
    'a[href="#equation-def-fox"]': "softmax",
    'a[href*="glossary.html#term-forget-gate"]': "a factor|the factor",
    'a[href*="bibliography.html"]': "Press",
    'a[href*="#thm-"]': r"Theorem \d",
}


def test_links_show_what_they_lead_to_by_mouse_and_by_keyboard(address, chromium):
    tab, faults = open_page(chromium.new_context(), address, "book/gated/fox.html")
    for number, (link, words) in enumerate(PREVIEWED.items()):
        found = tab.locator(f"article {link} >> visible=true").first
        found.focus() if number % 2 else found.hover()
        shown = tab.locator(".tippy-box")
        shown.wait_for()
        assert re.search(words, re.sub(r"\s", " ", shown.inner_text())), link
        tab.keyboard.press("Escape")
        tab.evaluate("() => document.activeElement.blur()")
        tab.mouse.move(1, 1)
        shown.wait_for(state="detached")
    assert faults == []


def test_the_keyboard_reaches_the_content_first(address, chromium):
    tab, _ = open_page(chromium.new_context(), address, PAGES[0])
    tab.keyboard.press("Tab")
    focused = tab.evaluate("() => document.activeElement.textContent.trim()")
    assert focused == "Skip to main content"


def test_without_scripts_the_text_is_there(address, chromium):
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(address + "book/rotary/rope.html")
    assert tab.locator(".posedu-figure").first.is_visible()
    assert tab.locator("article h1").first.is_visible()


class Links(HTMLParser):
    """Where a page links to, however that is quoted: raw HTML passes Sphinx unread."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag in ("a", "area"):
            names = ("href", "xlink:href")
            self.found += [value for name, value in attrs if name in names and value]


def test_links_are_found_however_they_are_quoted():
    text = "<a href='x.html'>1</a><A class=b HREF=y.html>2</A><a\nhref=\"z?a&amp;b\">"
    assert Links(text).found == ["x.html", "y.html", "z?a&b"]


def targets(page):
    """Every link of a page, but those to other sites, as (file, anchor)."""
    for href in Links(html(page)).found:
        url = urlsplit(href)
        if not url.scheme:
            path = unquote(url.path)
            file = (HTML / page).parent / path if path else HTML / page
            yield file.resolve(), unquote(url.fragment)


@functools.cache
def anchors(file):
    text = file.read_text(encoding="utf-8")
    return set(re.findall(r'(?:id|name)="([^"]+)"', text)) | {""}


@pytest.mark.parametrize("page", PAGES)
def test_every_internal_link_resolves(page):
    dead = []
    for file, anchor in targets(page):
        if not file.exists():
            dead.append(str(file))
        elif file.suffix == ".html" and anchor not in anchors(file):
            dead.append(f"{file}#{anchor}")
    assert dead == []


@pytest.mark.parametrize("page", PAGES)
def test_no_page_asks_another_site_for_anything(page):
    asked = re.findall(
        r'<(?:script|img|link|iframe)[^>]*(?:src|href)="([^"]+)"', html(page)
    )
    foreign = [
        a for a in asked if re.match(r"(https?:)?//", a) and "canonical" not in a
    ]
    assert foreign == []


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if d.startswith("notebooks")]
)
def test_the_download_of_a_notebook_carries_the_package(document):
    notebook = nbformat.read(HTML / "_sources" / f"{document}.ipynb", as_version=4)
    nbformat.validate(notebook)
    (setup,) = [c for c in notebook.cells if "setup" in c.metadata.get("tags", [])]
    assert re.search(r'PACKAGE = "[A-Za-z0-9+/=]{10000,}"', setup.source)


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if d.startswith("notebooks")]
)
@pytest.mark.parametrize("url", ["", "https://github.com/example/posedu"])
def test_colab_buttons_open_a_notebook_of_the_tree(document, url):
    options = {"repository_url": url, "repository_branch": "main"}
    app = SimpleNamespace(config=SimpleNamespace(html_theme_options=options))
    context = {"page_source_suffix": ".ipynb", "header_buttons": []}
    pages.add_buttons(app, document, "", context, nodes.document)
    links = [button["url"] for button in context["header_buttons"]]
    if not url:
        assert links == []
        return
    (link,) = links
    prefix = f"{COLAB}/example/posedu/blob/main/"
    path = ROOT / link.removeprefix(prefix)
    nbformat.validate(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("page", PAGES)
def test_colab_links_on_the_site_resolve_and_none_is_dead(page):
    for link in re.findall(rf'href="({re.escape(COLAB)}[^"]*)"', html(page)):
        path = re.sub(r".*/blob/[^/]+/", "", link)
        nbformat.validate(nbformat.read(ROOT / path, as_version=4))
    assert not re.search(r'class="btn[^>]*href=""', html(page))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_every_part(chapter):
    text = html(f"{chapter}.html")
    headings = re.findall(r"<h2>(.*?)<a class=\"headerlink", text, re.S)
    plain = [re.sub(r"<[^>]+>", "", h) for h in headings]
    plain = [re.sub(r"^[\d.]+ ", "", h).strip() for h in plain]
    assert [h for h in plain if h in HEADINGS] == list(HEADINGS), plain
    assert "Conventions of this chapter" in text
    assert text.count('class="posedu-proof"') >= 3
    assert text.count('class="proof theorem') >= 1
    assert 'class="posedu-figure' in text
    if chapter in OF_ENCODINGS:  # which the cross-check knows
        assert 'class="posedu-table"' in text
    assert text.count('class="exercise admonition') >= 6
    assert text.count("solution dropdown admonition") >= 6
    for face in ("SymPy", "NumPy", "PyTorch"):
        assert re.search(rf"<label[^>]*>\s*{face}", text), face
    for kind in ("Proved", "Measured here", "Claimed by"):
        assert kind in text, kind


@functools.cache
def at_first_sight(chapter):
    """A chapter's article as it opens: no folds, no exercises, of tabs the first."""
    page = BeautifulSoup(html(f"{chapter}.html"), "html.parser")
    article = page.select_one("article.bd-article")
    hidden = ".exercise, .solution, .sd-tab-content ~ .sd-tab-content, script, style"
    for part in article.select(f"details > :not(summary), {hidden}"):
        part.decompose()
    return article


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_read_in_25_minutes(chapter):
    article = copy.copy(at_first_sight(chapter))
    for part in article.select("pre, svg, details"):
        part.decompose()
    words = re.findall(r"[^\W\d_]{2,}", article.get_text(" "))
    assert 800 < len(words) <= 4000


def test_most_code_is_a_click_away():
    """The first edition showed 4,700 lines."""
    shown = [pre for c in CHAPTERS for pre in at_first_sight(c).select("pre")]
    lines = sum(len(pre.get_text().strip().splitlines()) for pre in shown)
    assert 300 < lines <= 4700 / 3


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_answers_to_its_reader(chapter):
    text = html(f"{chapter}.html")
    assert 'class="posedu-explorable"' in text
    asked = text.count('class="posedu-question')
    assert asked >= 5
    assert text.count('class="posedu-right') == asked
    assert text.count('class="posedu-wrong') >= 2 * asked


def test_the_ledger_lists_every_claim_of_the_chapters():
    ledger = html("book/reference/ledger.html")
    for chapter in CHAPTERS:
        text = html(f"{chapter}.html")
        claims = set(re.findall(r'id="equation-(eq-[\w-]+)"', text))
        assert claims
        for claim in claims:
            assert f"{Path(chapter).name}.html#equation-{claim}" in ledger, claim


def test_the_map_s_edges_are_proved():
    ledger = html("book/reference/ledger.html")
    drawn = html("book/reference/map.html")
    for encoding in CATALOG.values():
        for case in encoding.special_cases:
            assert f"#equation-{case.proof}" in drawn
            assert f"#equation-{case.proof}" in ledger


def test_every_error_of_the_errata_links_to_a_running_cell():
    text = html("book/reference/errata.html")
    linked = set(re.findall(r'\.html#(err-[\w-]+)"', text))
    stated = {
        anchor
        for chapter in CHAPTERS
        for anchor in re.findall(r'id="(err-[\w-]+)"', html(f"{chapter}.html"))
    }
    assert linked and linked == stated


def test_the_search_index_knows_the_names_in_code():
    index = (HTML / "searchindex.js").read_text(encoding="utf-8")
    terms = json.loads(index[index.index("(") + 1 : index.rindex(")")])["terms"]
    assert {"rope", "sinusoid"} <= set(terms)


def test_most_claims_are_read_as_they_are_typeset():
    ledger = html("book/reference/ledger.html")
    sentence = next(line for line in ledger.splitlines() if "of them are read" in line)
    claims, tied, refused, changes = map(int, re.findall(r"\d+", sentence))
    assert claims >= 143 and tied >= 0.75 * claims
    assert refused >= 0.97 * changes  # the others say the same in another way
