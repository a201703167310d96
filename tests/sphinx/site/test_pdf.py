"""A chapter as PDF: without solutions and figure code, with outline, numbers, links."""

import io
import re
import shutil

import pytest
from pypdf import PdfReader

from posedu_sphinx.build import HTML
from posedu_sphinx.navigation import contents
from posedu_sphinx.site import pdf
from posedu_sphinx.site.first_paint import served

PAGES = ["book/nope/nope", "book/reference/notation"]

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
    """A chapter and a page that it links to, as one file; the chapter, solved."""
    with served(HTML) as address:
        pages = [pdf.printed(tab, address, name) for name in PAGES]
        solved = pdf.printed(tab, address, PAGES[0], solutions=True)
        return (
            PdfReader(io.BytesIO(pdf.joined(tab, pages, address))),
            PdfReader(io.BytesIO(solved.content)),
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


def test_every_implementation_is_printed_and_no_title_of_a_fold(files):
    text = words(files[0])
    for tab_of in ("SymPy", "NumPy", "PyTorch"):
        assert re.search(rf"{tab_of}\s+(def|class) \w", text)
    assert "The implementations against each other, in every dtype" not in text


def test_the_outline_has_a_line_for_each_page_and_its_sections_below(files):
    outline = files[0].outline
    titles = [item for item in outline if not isinstance(item, list)]
    assert len(titles) == len(PAGES)
    assert any(isinstance(item, list) for item in outline)


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
