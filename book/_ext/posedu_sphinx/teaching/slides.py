"""Slides for lessons, cut out of the built pages of the book.

A slide shows a chapter's own statement, figure, table or exercise, and so says what the
chapter says. The decks are reveal.js presentations in the site's folder
``teaching/slides``. A slide whose element is not on its page ends the build with an
error.
"""

import copy
import html
import posixpath
import re
from pathlib import Path
from urllib.parse import urlsplit

import lxml.html
from sphinx.errors import ExtensionError

from posedu_sphinx.teaching.lessons import PARTS, lessons

FOLDER = "teaching/slides"  # of the site
REMOVED = ".headerlink, .solution, .posedu-check, .posedu-cue"
SHOWN_CODE = 20  # lines; longer code is folded
NAMES = ("for", "aria-labelledby", "aria-describedby")
OWN_TARGET = re.compile(r"url\(#([^)]+)\)")
DECK = """\
<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · slides · posedu</title>
{styles}
<link rel="stylesheet" href="{static}reveal/reveal.css">
<link rel="stylesheet" href="{static}teaching.css">
<noscript><link rel="stylesheet" href="{static}teaching-list.css"></noscript>
<link rel="icon" href="{static}favicon.svg">
{formulas}
<script defer src="{static}reveal/reveal.js"></script>
<script defer src="{static}reveal/notes.js"></script>
<script defer src="{static}book.js"></script>
<script defer src="{static}teaching.js"></script>
</head>
<body>
<main>
<div class="reveal">
<div class="slides">
{slides}
</div>
</div>
</main>
</body>
</html>
"""


class MissingPart(ValueError):
    """Error about slides whose elements are not on their pages."""


def element(slide, page):
    """Return what a slide shows of a built page, as one element without a parent.

    ``page`` is the page's parsed HTML. An explorable comes with its style and script,
    an experiment or an equation with the paragraph before it. An element that is not on
    the page raises :class:`MissingPart`.
    """
    whole = lxml.html.Element("div", {"class": "posedu-shown"})
    whole.extend(copy.deepcopy(part) for part in _parts(slide, target(slide, page)))
    for part in whole:
        part.tail = None
    return whole


def target(slide, page):
    """Return the element of a built page that has the id of a slide or of its equation.

    ``page`` is the page's parsed HTML. If there is none, or if it is a solution,
    :class:`MissingPart` is raised.
    """
    (article,) = page.cssselect("article")
    for name in slide.id, f"equation-{slide.id}":
        found = article.get_element_by_id(name, None)
        if found is not None and "solution" not in found.get("class", ""):
            return found
    raise MissingPart(f"{slide.page} has no element with the id {slide.id!r}")


def _parts(slide, section):
    """Return the elements that a slide shows; ``section`` is the one with its id."""
    if not slide.part:
        is_equation = "math" in section.get("class", "").split()
        return _after_paragraph(section) if is_equation else [section]
    found = [
        part
        for part in section.cssselect(PARTS[slide.part])
        if next(part.iterancestors("section")) is section
        and (slide.part != "experiment" or part.cssselect(".cell_output .stream"))
    ]
    if len(found) < slide.number:
        raise MissingPart(
            f"{slide.page} has no {slide.part} {slide.number} in {slide.id!r}"
        )
    part = found[slide.number - 1]
    if slide.part == "explorable":
        return list(part.getparent())
    return _after_paragraph(part) if slide.part == "experiment" else [part]


def _after_paragraph(part):
    """Return an element, and before it the paragraph that leads to it, if any."""
    before = part.getprevious()
    return [part] if before is None or before.tag != "p" else [before, part]


def prepare(whole, page, prefix):
    """Adapt a page's element to a deck, in place.

    Solutions, checks and links of headings are removed. Code is folded if it is long.
    An explorable gets two boxes, for its picture and its controls. Links lead from the
    folder of the decks to the page ``page``. Ids begin with ``prefix``, since one deck
    has parts of several pages.
    """
    for part in whole.cssselect(REMOVED):
        part.drop_tree()
    for code in whole.cssselect("div.cell_input"):
        _fold(code)
    for figure in whole.cssselect("figure.posedu-explorable"):
        _divide(figure)
    for wide in whole.cssselect("table"):
        _wrap(wide, "div", "pst-scrollable-table-container")
    for part in whole.iter("section"):
        part.tag = "div"  # reveal.js takes every section for a slide
    own = {part.get("id") for part in whole.iter("*")}
    for part in whole.iter("*"):
        for name, value in part.items():
            part.set(name, _adapted(part.tag, name, value, page, prefix, own))
    for part in whole.cssselect("figure.posedu-explorable, table, pre"):
        part.set("data-prevent-swipe", "")  # a finger moves a slider or scrolls


def _fold(code):
    """Fold the input of a cell if it is long, and unfold it if it is short."""
    lines = len(code.text_content().strip().splitlines())
    fold = code.getparent()
    is_folded = fold.tag == "details"
    if lines <= SHOWN_CODE and is_folded:
        fold.find("summary").drop_tree()
        fold.drop_tag()
    elif lines > SHOWN_CODE and not is_folded:
        summary = lxml.html.Element("summary")
        summary.text = f"Code, {lines} lines"
        _wrap(code, "details", "posedu-fold posedu-code").insert(0, summary)


def _wrap(part, tag, name):
    """Put an element into a new one with the given tag and class; return that one."""
    box = lxml.html.Element(tag, {"class": name})
    part.addprevious(box)
    box.tail, part.tail = part.tail, None
    box.append(part)
    return box


def _divide(figure):
    """Put an explorable's parts into two boxes, which stand side by side.

    The first box ends with the picture, or with the controls if they come first.
    """
    (place,) = [n for n, part in enumerate(figure) if part.get("class") == "controls"]
    for parts in figure[: place or 1], figure[place or 1 :]:
        box = lxml.html.Element("div")
        box.extend(parts)
        figure.append(box)


def _adapted(tag, name, value, page, prefix, own):
    """Return the value in a deck of an attribute of a page's element."""
    if name == "id":
        return prefix + value
    if name in NAMES:
        return " ".join(prefix + one if one in own else one for one in value.split())
    if name in ("href", "src", "xlink:href"):
        is_own = value.startswith("#") and tag != "a"
        return f"#{prefix}{value[1:]}" if is_own else address(page, value)
    return OWN_TARGET.sub(rf"url(#{prefix}\1)", value)


def address(page, link):
    """Return a link on a page of the site as it leads from the folder of the decks.

    ``page`` is the page's name.
    """
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return link
    target = posixpath.join(posixpath.dirname(page), parts.path or ".")
    if not parts.path:
        target = f"{page}.html"
    return parts._replace(path=posixpath.relpath(target, FOLDER)).geturl()


def deck(lesson, pages):
    """Return the deck of a lesson as HTML.

    ``pages`` maps the names of pages to their parsed HTML. If elements of slides are
    not on their pages, :class:`MissingPart` names all of them.
    """
    slides, missing = [_title_slide(lesson, pages)], []
    for number, slide in enumerate(lesson.slides, 1):
        try:
            whole = element(slide, pages[slide.page])
        except MissingPart as error:
            missing.append(str(error))
            continue
        prepare(whole, slide.page, f"s{number}-")
        slides.append(_slide(slide, whole, pages[slide.page]))
    if missing:
        raise MissingPart("; ".join(missing))
    styles, formulas = _head(lesson, pages)
    return DECK.format(
        title=html.escape(lesson.title),
        static=posixpath.relpath("_static", FOLDER) + "/",
        styles=styles,
        formulas=formulas,
        slides="\n".join(slides),
    )


def _title(page):
    (heading,) = page.cssselect("article h1")
    return "".join(heading.itertext()).removesuffix("#")


def _title_slide(lesson, pages):
    read = "".join(
        f'<li><a href="{address(name, "")}">{html.escape(_title(pages[name]))}</a></li>'
        for name in lesson.pages
    )
    return f"""<section>
<h1>{html.escape(lesson.title)}</h1>
<div class="posedu-content">
<p>{html.escape(lesson.part)} · {lesson.minutes} minutes</p>
<ul>{read}</ul>
<p class="posedu-keys">Keys: <kbd>→</kbd> next, <kbd>←</kbd> back, <kbd>Esc</kbd>
overview, <kbd>S</kbd> speaker’s view with notes and minutes, <kbd>F</kbd> full
screen.</p>
</div>
</section>"""


def _slide(slide, whole, page):
    shown = lxml.html.tostring(whole, encoding="unicode")
    source = address(slide.page, "#" + target(slide, page).get("id"))
    minutes = f"{slide.minutes} min. "
    return f"""<section>
<h2>{html.escape(slide.title)}</h2>
<div class="posedu-content bd-content">{shown}</div>
<p class="posedu-source"><a href="{source}">{html.escape(_title(page))}</a></p>
<aside class="notes">{minutes}{html.escape(slide.note)}</aside>
</section>"""


def _head(lesson, pages):
    """Return the tags for the styles and for MathJax that the lesson's pages have."""
    for name in lesson.pages:
        head = pages[name].find("head")
        loaders = [s for s in head.iter("script") if "mathjax" in s.get("src", "")]
        if loaders:
            break
    else:
        raise ValueError(f"no page of the lesson {lesson.name!r} has a formula")
    tags = []
    for link in head.cssselect('link[rel="stylesheet"]:not([media="print"])'):
        tags.append(f'<link rel="stylesheet" href="{address(name, link.get("href"))}">')
    (settings,) = [
        s.text for s in head.iter("script") if "window.MathJax" in (s.text or "")
    ]
    formulas = (
        f"<script>{settings};\n"
        "window.MathJax.chtml = {matchFontHeight: false};  // slides are scaled"
        f'</script>\n<script async src="{address(name, loaders[0].get("src"))}">'
        "</script>"
    )
    return "\n".join(tags), formulas


def write_decks(folder, found):
    """Write the decks of lessons into a built site; ``folder`` is the site's folder.

    Raises
    ------
    ExtensionError
        If elements of slides are not on their pages, which the message names.
    """
    target = Path(folder, FOLDER)
    target.mkdir(parents=True, exist_ok=True)
    pages, missing = {}, []
    for lesson in found:
        for name in lesson.pages:
            if name not in pages:
                pages[name] = _read(Path(folder, f"{name}.html"))
        try:
            text = deck(lesson, pages)
        except MissingPart as error:
            missing.append(str(error))
        else:
            (target / f"{lesson.name}.html").write_text(text, encoding="utf-8")
    if missing:
        raise ExtensionError("slides: " + "; ".join(missing))


def _read(path):
    return lxml.html.document_fromstring(path.read_text(encoding="utf-8"))


def finish(app, exception):
    """Write all decks, unless the build has failed (``exception``)."""
    if exception is None and app.builder.format == "html":
        write_decks(app.outdir, lessons(Path(app.srcdir)).values())


def setup(app):
    """Register the event that writes the decks, before the site is packed."""
    app.connect("build-finished", finish)
