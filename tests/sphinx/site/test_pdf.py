"""A chapter as PDF: without solutions and figure code, with outline, numbers, links."""

import io
import shutil

import pytest
from pypdf import PdfReader

from posedu_sphinx.build import HTML
from posedu_sphinx.navigation import contents
from posedu_sphinx.site import pdf
from posedu_sphinx.site.first_paint import served

PAGES = ["book/nope/nope", "book/practice/port-rope", "book/reference/notation"]
WRAPS = "Port a model with RoPE between codebases"  # a title of two lines
PARTS = {"Foundations": PAGES[:1], "Practice": PAGES[1:2]}
LEDGER, GLANCE = "book/reference/ledger", "book/reference/at-a-glance"
SORTED = "book/practice/as-shipped"
IN_CODE, GUESS = "book/recurrent/chunks", "book/stickbreaking/stickbreaking"
GUESSES = "book/rotary/commuting-generators", "book/attention/permutation-equivariance"

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`"),
    pytest.mark.skipif(not shutil.which("chromium"), reason="no Chromium"),
]


@pytest.fixture(scope="module")
def tab(browser):
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def files(tab):
    """A chapter and pages with and without a link from it, as a file; it, solved."""
    with served(HTML) as address:
        pages = [pdf.printed(tab, address, name) for name in PAGES]
        solved = pdf.printed(tab, address, PAGES[0], solutions=True)
        return (
            PdfReader(io.BytesIO(pdf.joined(tab, pages, address, parts=PARTS))),
            solved.reader(),
        )


def words(reader):
    return " ".join(page.extract_text() for page in reader.pages)


def test_the_file_has_exercises_and_no_solutions(files):
    plain, solved = map(words, files)
    for text in (plain, solved):
        assert "Exercise nope-1" in text or "nope-1 ·" in text
        assert "Code of this figure" not in text
        assert "How to read this line" not in text
    assert "Solution to" not in plain and "Hint" not in plain
    assert "Solution to" in solved and "Hint" in solved
    assert "Counted from 1." in solved and "Counted from 1." not in plain


def test_every_implementation_is_printed_and_no_title_of_a_fold(files):
    pages = [page.extract_text() for page in files[0].pages]
    starts = {
        "SymPy": "def nope(*, temperature: sp.Expr",
        "NumPy": "def nope(*, temperature: Float",
        "PyTorch": "class NoPE(Encoding)",
    }
    for tab_of, start in starts.items():
        (page,) = (text for text in pages if start in text)
        assert tab_of in page.splitlines()
    text = words(files[0])
    assert "The implementations against each other, in every dtype" not in text


def outline(reader):
    """Yield title, depth and number of the page of each line of a file's outline."""

    def lines(items, depth):
        for item in items:
            if isinstance(item, list):
                yield from lines(item, depth + 1)
            else:
                page = reader.get_destination_page_number(item) + 1
                yield item.title, depth, page

    return [*lines(reader.outline, 0)]


def test_the_outline_has_parts_their_pages_and_sections_below(files):
    lines = outline(files[0])
    tops = [title for title, depth, _ in lines if not depth]
    assert tops == ["Contents", *PARTS, "Notation"]
    titles = [title for title, depth, _ in lines if depth == 1]
    assert titles.index("2. NoPE: no positional encoding") < titles.index(WRAPS)
    assert ("Derivation", 2) in [line[:2] for line in lines]


def test_the_contents_have_the_number_of_each_page_and_lead_there(files):
    contents, (chapter, *_) = files[0].pages[0], outline(files[0])[2:]
    number = {title: page for title, _, page in outline(files[0])}
    text = " ".join(contents.extract_text().split())
    for title in (chapter[0], WRAPS, "Notation"):
        assert f"{title} {number[title]}" in text
        first = files[0].pages[number[title] - 1].extract_text()
        assert title.split()[-1] in first
    targets = [link.get_object()["/Dest"][0] for link in contents["/Annots"]]
    assert [files[0].get_page_number(t.get_object()) + 1 for t in targets] == [
        number[title] for title in (chapter[0], WRAPS, "Notation")
    ]


def test_the_file_says_its_title_and_its_language(files):
    root = files[0].trailer["/Root"]
    assert files[0].metadata.title == pdf.TITLE
    assert root["/Lang"] == "en" and root["/PageMode"] == "/UseOutlines"
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]


def test_long_tables_and_code_go_on_from_page_to_page(tab):
    tab.emulate_media(media="print")
    breaks = (
        "selector => getComputedStyle(document.querySelector(selector)).breakInside"
    )
    with served(HTML) as address:
        tab.goto(f"{address}{LEDGER}.html")
        assert tab.evaluate(breaks, "article table") == "auto"
        tab.goto(f"{address}{PAGES[0]}.html")
        for part in ("pre", ".highlight", "[class*=highlight-]"):
            assert tab.evaluate(breaks, f"article .sd-tab-content {part}") == "auto"
        assert tab.evaluate(breaks, "article .exercise") == "avoid"
        below = (
            "() => getComputedStyle(document.querySelector('.exercise')).marginBottom"
        )
        assert tab.evaluate(below) == "0px"  # else an empty page after a full one


def test_paper_has_no_search_field_no_pointer_and_no_guess(tab):
    tab.emulate_media(media="print")
    with served(HTML) as address:
        tab.goto(f"{address}{GLANCE}.html")
        assert tab.locator(".posedu-filters").is_hidden()
        assert tab.get_by_text("scroll it sideways").is_hidden()
        tab.goto(f"{address}{SORTED}.html")
        assert tab.get_by_text("A click on a column").is_hidden()
        head = "() => getComputedStyle(document.querySelector('th button')).display"
        assert tab.evaluate(head) == "contents"  # else the next page has it empty
        tab.goto(f"{address}{IN_CODE}.html")
        assert tab.get_by_text("Point at a term").is_hidden()
        assert tab.locator(".posedu-in-code").first.is_visible()
        assert tab.get_by_text("To work on your own copy").first.is_hidden()
        assert not [s for s in tab.locator("input[type=range]").all() if s.is_visible()]
        tab.goto(f"{address}{GUESS}.html")
        assert tab.locator("[data-covered] .summary").is_visible()


@pytest.mark.parametrize("page", GUESSES)
def test_paper_shows_what_a_reader_of_the_screen_guesses(tab, page):
    with served(HTML) as address:
        printed = words(pdf.printed(tab, address, page).reader())
    assert "Guess, then look." not in printed


def test_a_wide_table_fits_the_page(tab):
    tab.emulate_media(media="print")
    millimeters = 210 - 18 - 18
    width = round(millimeters / 25.4 * 96 / pdf.PAPER["scale"])
    size = tab.viewport_size
    tab.set_viewport_size({"width": width, "height": 1000})
    with served(HTML) as address:
        tab.goto(f"{address}{GLANCE}.html")
        assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.set_viewport_size(size)


def test_links_to_pages_that_paper_lacks_are_text(tab):
    with served(HTML) as address:
        pdf.printed(tab, address, PAGES[0])
        left = tab.evaluate("[...document.links].map(link => link.href)")
        own = {link.split("#")[0] for link in left if link.startswith(address)}
        names = {link.removeprefix(address).removesuffix(".html") for link in own}
    assert names and names <= {*pdf.on_paper(contents.documents())}


def test_no_line_begins_with_the_mark_after_a_formula(tab):
    marked = """() => [...document.querySelectorAll("article span.math")]
      .filter(e => /^[,.;:!?)]/.test(e.nextSibling?.textContent ?? ""))
      .map(e => getComputedStyle(e.parentElement).whiteSpace)"""
    with served(HTML) as address:
        pdf.printed(tab, address, PAGES[0])
    found = tab.evaluate(marked)
    assert len(found) > 10 and {*found} == {"nowrap"}


def test_every_page_has_its_number(files):
    for number, page in enumerate(files[0].pages, 1):
        assert str(number) in page.extract_text().split()


def test_links_lead_into_the_file_or_to_another_site(files):
    inside, outside = 0, 0
    for page in files[0].pages:
        for reference in page.get("/Annots", []):
            link = reference.get_object()
            if "/Dest" in link:
                inside += 1
                assert link["/Dest"][0].get_object() in files[0].pages
            else:
                outside += 1
                assert "127.0.0.1" not in link["/A"]["/URI"]
    assert inside > 5 and outside >= 0


def test_the_book_on_paper_has_the_chapters_and_no_notebook():
    names = pdf.on_paper(contents.documents())
    assert {*contents.chapters()} <= {*names}
    assert not [n for n in names if n.startswith("notebooks/")]
    inside = [n for found in contents.parts().values() for n in found]
    assert inside == contents.documents()[1:]
