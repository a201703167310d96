"""The book as PDF: ``make pdf``.

Chromium prints each page of the built site; the pages are joined with an outline, with
page numbers and with links from one to another. There is a file of the whole book, one
of each part, and a second of the whole book for teachers, with the solutions.
``python -m posedu_sphinx.site.pdf book/rotary/rope`` prints only these pages.
"""

import argparse
import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, NameObject
from tqdm import tqdm

from posedu_sphinx.build import HTML
from posedu_sphinx.navigation.contents import documents, has_exercises, parts
from posedu_sphinx.site.first_paint import served
from posedu_sphinx.site.pdf_links import FOLDER

WHOLE = "posedu"
SOLUTIONS = "posedu-with-solutions"  # a file, and a class of <html> in print.css
# Pages that are of no use on paper: to run, to look names up, for contributors.
LEFT_OUT = ("notebooks/", "book/developers/", "book/teaching/", "book/reference/api")
MARGIN = {"top": "18mm", "bottom": "20mm", "left": "18mm", "right": "18mm"}
NUMBER = """<div style="font: 9px sans-serif; width: 100%; text-align: center">
<span class="pageNumber"></span></div>"""
SHEET = {"format": "A4", "margin": MARGIN}
PAPER = {**SHEET, "outline": True, "tagged": True, "print_background": True}
PAPER["scale"] = 0.85  # 16 pixels of text are 10 points
NUMBERS = {**SHEET, "display_header_footer": True, "footer_template": NUMBER}
NUMBERS["header_template"] = "<span></span>"  # else the date and the address
FIT = NameObject("/Fit")
READY = """async () => {
  await window.poseduMathJax;  // it is unpacked
  await (window.MathJax && MathJax.startup.promise);
  await document.fonts.ready;
}"""


@dataclass(frozen=True)
class Printed:
    """A page of the site as PDF: its ``name`` and the file's ``content``."""

    name: str
    content: bytes


def printed(tab, address, name, *, solutions=False):
    """Print a page of the site with Chromium; return it as :class:`Printed`.

    ``tab`` is Playwright's page, ``address`` the site's, ``name`` the page's name.
    With ``solutions`` the hints and solutions of exercises are printed, too.
    """
    tab.goto(f"{address}{name}.html", wait_until="load")
    tab.evaluate(READY)
    if solutions:
        tab.evaluate("name => document.documentElement.classList.add(name)", SOLUTIONS)
    return Printed(name, tab.pdf(**PAPER))


def joined(tab, pages, address):
    """Return a PDF of printed pages with an outline, page numbers and links, as bytes.

    ``tab`` is Playwright's page, ``pages`` is a list of :class:`Printed`. A link to one
    of them leads to its place in the file; other links to the site, whose ``address``
    the pages were printed from, are removed.
    """
    writer, places = PdfWriter(), {}
    for page in pages:
        reader, start = PdfReader(io.BytesIO(page.content)), len(writer.pages)
        found = {name: _place(reader, of) for name, of in _destinations(reader)}
        for inner in reader.pages:
            _lead_to(inner, found)
        writer.append(reader, import_outline=True)
        places[page.name] = ArrayObject([writer.pages[start].indirect_reference, FIT])
        for name, (target, *view) in found.items():
            number = start + reader.get_page_number(target.get_object())
            own = writer.pages[number].indirect_reference
            places[f"{page.name}#{name}"] = ArrayObject([own, *view])
    for page in writer.pages:
        _follow(page, places, address)
    tab.set_content("<p style='break-after: page'>&nbsp;</p>" * len(writer.pages))
    numbers = tab.pdf(**NUMBERS)
    stamps = PdfReader(io.BytesIO(numbers)).pages
    for page, stamp in zip(writer.pages, stamps, strict=False):
        page.merge_page(stamp)
        page.compress_content_streams()
    writer.compress_identical_objects()
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _destinations(reader):
    """Return names and places that links within a file lead to, as Chromium writes."""
    return reader.trailer["/Root"].get("/Dests", {}).items()


def _place(reader, destination):
    return ArrayObject(destination.get_object())


def _lead_to(page, places):
    """Replace the names in a page's links by the places that they stand for."""
    for reference in page.get("/Annots", []):
        link = reference.get_object()
        if str(link.get("/Dest")) in places:
            link[NameObject("/Dest")] = places[str(link["/Dest"])]


def _follow(page, places, address):
    """Have a page's links to other pages lead to these; remove what leads nowhere.

    ``places`` maps names of pages, or of pages and anchors in them, to destinations.
    """
    kept = ArrayObject()
    for reference in page.get("/Annots", []):
        link = reference.get_object()
        uri = str(link.get("/A", {}).get("/URI", ""))
        if uri.startswith(address):
            path, _, anchor = uri.removeprefix(address).partition("#")
            name = unquote(path).removesuffix(".html")
            place = places.get(f"{name}#/{unquote(anchor)}") or places.get(name)
            if place is None:
                continue
            del link["/A"]
            link[NameObject("/Dest")] = place
        kept.append(reference)
    if "/Annots" in page:
        page[NameObject("/Annots")] = kept


def on_paper(names):
    """Return those of the page names that a printed book has."""
    return [name for name in names if not name.startswith(LEFT_OUT)]


def main(arguments=None):
    """Print the built site as PDF files into ``_build/pdf``; name each file.

    ``arguments`` are the command's arguments, by default the process's own: names of
    pages, printed as one file, or none for the book, its parts and the solutions.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu_sphinx.site.pdf", description="Print the site as PDF."
    )
    parser.add_argument("pages", nargs="*", help="pages of the built site; default all")
    parser.add_argument("--html", type=Path, default=HTML, help="folder of the site")
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder of the files")
    options = parser.parse_args(arguments)
    options.to.mkdir(parents=True, exist_ok=True)
    with served(options.html) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page()
        for name, files in _files(tab, address, options.pages):
            path = options.to / f"{name}.pdf"
            path.write_bytes(joined(tab, files, address))
            size = path.stat().st_size / 1e6
            print(f"{path}: {size:.1f} MB", flush=True)
        browser.close()


def _files(tab, address, chosen):
    """Yield the name of each file and its printed pages; ``chosen`` pages make one."""
    names = chosen or on_paper(documents())
    plain = {n: printed(tab, address, n) for n in tqdm(names, "pages", unit="page")}
    if chosen:
        yield chosen[0].rpartition("/")[2], [*plain.values()]
        return
    yield WHOLE, [*plain.values()]
    for number, (caption, inside) in enumerate(parts().items(), 1):
        if found := on_paper(inside):
            words = re.sub(r"\W+", "-", caption.lower())
            yield f"{WHOLE}-{number}-{words}", [plain[name] for name in found]
    with_exercises = [name for name in names if has_exercises(name)]
    solved = {
        n: printed(tab, address, n, solutions=True)
        for n in tqdm(with_exercises, "solutions", unit="page")
    }
    yield SOLUTIONS, [solved.get(name, page) for name, page in plain.items()]


if __name__ == "__main__":
    main()
