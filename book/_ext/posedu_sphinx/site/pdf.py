"""The book as PDF: ``make pdf``.

Chromium prints each page of the built site; the pages are joined with a table of
contents, an outline, page numbers and links from one to another. There is a file of the
whole book, one of each part, and a second of the whole book for teachers, with the
solutions.
``python -m posedu_sphinx.site.pdf book/rotary/rope`` prints only these pages.
"""

import argparse
import html
import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, Fit, NameObject, TextStringObject
from tqdm import tqdm

from posedu_sphinx.build import HTML
from posedu_sphinx.navigation.contents import documents, has_exercises, parts
from posedu_sphinx.site.first_paint import served
from posedu_sphinx.site.pdf_links import FOLDER

WHOLE = "posedu"
TITLE = "posedu: how transformers know order"
AUTHOR = "The posedu authors"
SOLUTIONS = "posedu-with-solutions"  # a file, and a class of <html> in print.css
# Pages that are of no use on paper: to run, to look names up, for contributors.
LEFT_OUT = (
    *("notebooks/", "book/developers/", "book/teaching/"),
    *("book/reference/api", "book/reference/renamed", "book/reference/status"),
    *("book/reference/compare", "book/practice/live-model"),
)
MARGIN = {"top": "18mm", "bottom": "20mm", "left": "18mm", "right": "18mm"}
NUMBER = """<div style="font: 9px sans-serif; width: 100%; text-align: center">
<span class="pageNumber"></span></div>"""
SHEET = {"format": "A4", "margin": MARGIN}
PAPER = {**SHEET, "outline": True, "tagged": True, "print_background": True}
PAPER["scale"] = 0.85  # 16 pixels of text are 10 points
NUMBERS = {**SHEET, "display_header_footer": True, "footer_template": NUMBER}
NUMBERS["header_template"] = "<span></span>"  # else the date and the address
FIT = NameObject("/Fit")
CONTENTS = "Contents"
CONTENTS_STYLE = """<style>
body { font: 16px/1.5 sans-serif; }
strong { break-after: avoid; display: block; margin-top: 1em; }
a { color: inherit; display: flex; justify-content: space-between; padding-left: 1em; }
a, a:visited { text-decoration: none; } b { font-weight: normal; padding-left: 2em; }
</style>"""
READY = """async () => {
  await window.poseduMathJax;  // it is unpacked
  await (window.MathJax && MathJax.startup.promise);
  await document.fonts.ready;
}"""
# Links to pages that paper lacks become text, and no line begins with the mark after a
# formula. Returns the headings, the title first.
SETTLE = """printed => {
  for (const formula of document.querySelectorAll("article span.math")) {
    const text = formula.nextSibling;
    const mark = text?.nodeType == Node.TEXT_NODE && text.data.match(/^[,.;:!?)]+/);
    if (!mark) continue;
    text.data = text.data.slice(mark[0].length);
    const whole = document.createElement("span");
    whole.style.whiteSpace = "nowrap";
    formula.replaceWith(whole);
    whole.append(formula, mark[0]);
  }
  for (const link of [...document.links]) {
    const [page] = link.href.split("#");
    const isOwn = page.startsWith(location.origin);
    if (isOwn && !printed.includes(page)) link.removeAttribute("href");
  }
  const headings = document.querySelectorAll("article :is(h1, h2, h3, h4)");
  return [...headings].map(heading => heading.textContent.replace(/#$/, "").trim());
}"""


@dataclass(frozen=True)
class Printed:
    """A page of the site as PDF: its ``name``, the file and the page's headings."""

    name: str
    content: bytes
    headings: tuple[str, ...]

    def reader(self):
        """Return the file as pypdf reads it."""
        return PdfReader(io.BytesIO(self.content))


def printed(tab, address, name, *, solutions=False):
    """Print a page of the site with Chromium; return it as :class:`Printed`.

    ``tab`` is Playwright's page, ``address`` the site's, ``name`` the page's name.
    With ``solutions`` the hints and solutions of exercises are printed, too.
    """
    tab.goto(f"{address}{name}.html", wait_until="load", timeout=0)  # a busy machine
    tab.evaluate(READY)
    kept = [f"{address}{page}.html" for page in on_paper(documents())]
    headings = tab.evaluate(SETTLE, kept)
    if solutions:
        tab.evaluate("name => document.documentElement.classList.add(name)", SOLUTIONS)
    return Printed(name, tab.pdf(**PAPER), tuple(headings))


def joined(tab, pages, address, *, title=TITLE, parts=MappingProxyType({})):
    """Return a PDF of printed pages, as bytes.

    It has contents, an outline, page numbers, links and ``title``. ``tab`` is
    Playwright's page, ``pages`` is a list of :class:`Printed`, and ``parts`` maps the
    captions of parts of the book to names of pages. A link to one of the pages leads to
    its place in the file; other links to the site, whose ``address`` the pages were
    printed from, are removed.
    """
    captions = {name: caption for caption, names in parts.items() for name in names}
    pages = _with_contents(tab, pages, address, captions)
    writer, places, above = PdfWriter(), {}, {}
    for page in pages:
        reader, start = page.reader(), len(writer.pages)
        found = {name: _place(reader, of) for name, of in _destinations(reader)}
        for inner in reader.pages:
            _lead_to(inner, found)
        writer.append(reader, import_outline=False)
        caption = captions.get(page.name)
        if caption and caption not in above:
            above[caption] = writer.add_outline_item(title=caption, page_number=start)
        _add_outline(writer, reader, page.headings, start, above.get(caption))
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
    _describe(writer, title)
    writer.compress_identical_objects()
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _with_contents(tab, pages, address, captions):
    """Return the printed pages with contents before the first that is of a part.

    ``captions`` maps names of pages to the caption of their part.
    """
    before = next((n for n, page in enumerate(pages) if page.name in captions), 0)
    lengths = [len(page.reader().pages) for page in pages]
    own = 0
    while True:  # until the contents have as many pages as they count for themselves
        starts = [
            1 + sum(lengths[:n]) + (own if n >= before else 0)
            for n in range(len(pages))
        ]
        tab.set_content(_contents(pages, starts, address, captions))
        content = Printed(CONTENTS, tab.pdf(**PAPER), (CONTENTS,))
        if own == (own := len(content.reader().pages)):
            return [*pages[:before], content, *pages[before:]]


def _contents(pages, starts, address, captions):
    """Return HTML that lists printed pages under their parts, with their numbers."""
    lines, last = [], ""
    for page, start in zip(pages, starts, strict=True):
        if (caption := captions.get(page.name, "")) != last:
            lines.append(f"<strong>{html.escape(caption)}</strong>")
            last = caption
        title = html.escape(page.headings[0])
        link = f'<a href="{address}{page.name}.html">'
        lines.append(f"{link}<span>{title}</span><b>{start}</b></a>")
    return f"{CONTENTS_STYLE}<h1>{CONTENTS}</h1>{''.join(lines)}"


def _add_outline(writer, reader, headings, start, parent):
    """Add the outline of a file that starts at page ``start`` below ``parent``.

    Chromium leaves out the space where a heading wraps; ``headings`` have it.
    """
    spelled = {"".join(heading.split()): heading for heading in headings}

    def add(items, parent):
        last = parent
        for item in items:
            if isinstance(item, list):
                add(item, last)
                continue
            last = writer.add_outline_item(
                title=spelled.get("".join(item.title.split()), item.title),
                page_number=start + reader.get_destination_page_number(item),
                parent=parent,
                fit=Fit.xyz(top=item.top),
                is_open=False,
            )

    add(reader.outline, parent)


def _describe(writer, title):
    """Set title, author and language; a viewer shows the title and the outline."""
    writer.add_metadata({"/Title": title, "/Author": AUTHOR})
    writer.root_object[NameObject("/Lang")] = TextStringObject("en")
    writer.create_viewer_preferences().display_doctitle = True
    writer.page_mode = "/UseOutlines"


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
        for name, title, files in _files(tab, address, options.pages):
            path = options.to / f"{name}.pdf"
            path.write_bytes(joined(tab, files, address, title=title, parts=parts()))
            size = path.stat().st_size / 1e6
            print(f"{path}: {size:.1f} MB", flush=True)
        browser.close()


def _files(tab, address, chosen):
    """Yield name, title and printed pages of each file; ``chosen`` pages make one."""
    names = chosen or on_paper(documents())
    plain = {n: printed(tab, address, n) for n in tqdm(names, "pages", unit="page")}
    if chosen:
        first = plain[chosen[0]]
        yield chosen[0].rpartition("/")[2], first.headings[0], [*plain.values()]
        return
    yield WHOLE, TITLE, [*plain.values()]
    on = {caption: on_paper(inside) for caption, inside in parts().items()}
    captions = [caption for caption, inside in on.items() if inside]
    for number, caption in enumerate(captions, 1):
        words = re.sub(r"\W+", "-", caption.lower())
        inside = [plain[name] for name in on[caption]]
        yield f"{WHOLE}-{number:02}-{words}", f"{TITLE}. {caption}", inside
    with_exercises = [name for name in names if has_exercises(name)]
    solved = {
        n: printed(tab, address, n, solutions=True)
        for n in tqdm(with_exercises, "solutions", unit="page")
    }
    files = [solved.get(name, page) for name, page in plain.items()]
    yield SOLUTIONS, f"{TITLE}. With solutions", files


if __name__ == "__main__":
    main()
