"""Index of the search: entries of all built pages, in files that the browser reads.

The files are packed scripts that set a variable, so that they load from a folder, too.
``titles.js`` has the titles, the aliases and the first sentence of each page's
sections; it gives the first answers. ``texts-0.js`` and further ones have the whole
text and are loaded after it.
"""

import json
import posixpath
import re
from itertools import takewhile
from pathlib import Path

import lxml.html
from sphinx.errors import ExtensionError

from posedu_sphinx import ROOT
from posedu_sphinx.navigation import contents
from posedu_sphinx.search import aliases
from posedu_sphinx.search.entries import entries
from posedu_sphinx.site.packed_scripts import packed

FOLDER = "_static/search"
GLOSSARY = "book/reference/glossary"
SYMPTOMS = "book/practice/troubleshooting"
FIRST_SENTENCE = 100  # characters of it in titles.js
SHARD = 250_000  # characters of text in a file
KINDS = ("section", "statement", "exercise", "term", "api")  # in the order of entries

# Factors of the scores of pages that repeat or list what chapters say.
FACTORS = {
    "notebooks/exercises/": 0.5,
    "notebooks/": 0.75,
    "book/reference/": 0.7,
    "book/developers/": 0.75,
    "book/teaching/": 0.75,
}


def factor(page):
    """Return the factor of the scores of a page's sections, by the page's folder."""
    return next((f for folder, f in FACTORS.items() if page.startswith(folder)), 1)


def read_pages(folder, pages):
    """Return the entries of built pages, and the sections by page and id.

    ``folder`` is the site's folder, ``pages`` are page names in reading order. The
    first result maps each page to its entries, the second (page, id) to the section
    that contains the id.
    """
    found, sections = {}, {}
    for page in pages:
        found[page], inside = entries(_article(folder, page))
        sections |= {(page, name): section for name, section in inside.items()}
        sections[page, ""] = found[page][0]
    return found, sections


def _article(folder, page):
    text = Path(folder, f"{page}.html").read_text(encoding="utf-8")
    (article,) = lxml.html.document_fromstring(text).cssselect("article.bd-article")
    return article


def add_aliases(sections, articles):
    """Add to the sections their aliases.

    They come from the part of a title before its colon, the file of aliases, the
    catalog, the glossary and the table of symptoms. ``sections`` maps (page, id) to a
    section; "" is the id of the page itself. ``articles`` maps the names of the
    glossary and of the page of symptoms to their articles, elements of lxml. An alias
    of a place that no page has raises ExtensionError.
    """
    for (page, name), section in sections.items():
        head, colon, _ = section.title.partition(": ")
        if colon and not name and not page.startswith("notebooks/"):
            _add(section, [head])
    for listed in aliases.of_file(), aliases.of_catalog():
        for place, names in listed.items():
            page, _, name = place.partition("#")
            if (page, name) not in sections:
                raise ExtensionError(f"{place} has aliases, but no page has this place")
            _add(sections[page, name], names)
    for term, link in aliases.of_glossary(articles[GLOSSARY]):
        _add(sections[_target(GLOSSARY, link)], [term])
    for symptom, link in aliases.of_symptoms(articles[SYMPTOMS]):
        _add(sections[_target(SYMPTOMS, link)], [symptom])


def _target(page, link):
    """Return the page and the id that a link on a page leads to."""
    path, _, name = link.partition("#")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    return found.removesuffix(".html"), name


def _add(section, names):
    known = {section.title.lower(), *map(str.lower, section.aliases)}
    section.aliases += [name for name in names if name.lower() not in known]


def titles(pages):
    """Return the content of ``titles.js``: a list for each page.

    ``pages`` maps each page's name to its entries. The list of a page has its name, its
    factor, the start of its text, and a list of its entries for each of ``KINDS``. An
    entry is a list of title, anchor and aliases, of which what the browser can derive
    is left out at the end (:func:`_short`); a title alone is no list. Of a name of the
    API what it shares with the name before it is left out (:func:`_with_prefixes`).
    """
    return [
        [page, factor(page), _start(found), *_by_kind(found)]
        for page, found in pages.items()
    ]


def _by_kind(found):
    *others, names = ([_short(e) for e in found if e.kind == kind] for kind in KINDS)
    return [_bare(entries) for entries in (*others, _with_prefixes(names))]


def _bare(entries):
    return [entry if len(entry) > 1 else entry[0] for entry in entries]


def _with_prefixes(entries):
    """Yield entries whose titles begin with the number of letters to take over.

    These letters are the first ones of the title before.
    """
    before = ""
    for title, *rest in entries:
        pairs = zip(before, title, strict=False)
        shared = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        while title[shared : shared + 1].isdigit():  # it would lengthen the number
            shared -= 1
        yield [f"{shared}{title[shared:]}", *rest]
        before = title


def without_prefixes(entries):
    """Yield the entries that :func:`_with_prefixes` has shortened."""
    before = ""
    for entry in entries:
        title, *rest = [entry] if isinstance(entry, str) else entry
        shared = re.match(r"\d+", title)[0]
        before = before[: int(shared)] + title[len(shared) :]
        yield [before, *rest]


def _short(entry):
    """Return title, anchor and aliases as a list.

    Empty aliases are left out, and before them an anchor that follows from the title:
    the ``slug`` of a section's title, the whole title of a name of the API.
    """
    if entry.aliases:
        return [entry.title, entry.anchor, entry.aliases]
    derived = entry.title if entry.kind == "api" else slug(entry.title)
    is_derived = entry.anchor in ("", derived)
    return [entry.title] if is_derived else [entry.title, entry.anchor]


def slug(title):
    """Return a title as most anchors have it: lowercase ASCII words with hyphens."""
    ascii_only = re.sub(r"[^\x00-\x7f]", "", title).lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")


def _start(found):
    """Return the start of the first sentence on a page, which has the given entries."""
    text = next((line for e in found for line in e.lines), "")
    if len(text) <= FIRST_SENTENCE:
        return text
    return text[:FIRST_SENTENCE].rpartition(" ")[0] + " …"


def shards(pages):
    """Return the texts of all entries in lists, each for a file of its own.

    ``pages`` maps each page's name to its entries; a text has a sentence a line. After
    an empty line it has the sources, which are searched and seldom shown.
    """
    found, room = [], 0
    for text in (_text(entry) for page in pages.values() for entry in page):
        if room < len(text) or not found:
            found.append([])
            room = SHARD
        found[-1].append(text)
        room -= len(text)
    return found


def _text(entry):
    parts = [entry.lines, entry.sources] if entry.sources else [entry.lines]
    return "\n\n".join("\n".join(part) for part in parts)


def write(folder, root=ROOT):
    """Write the index into the site.

    ``folder`` is the site's folder, ``root`` that of the book. A book without a file of
    aliases has none.
    """
    found, sections = read_pages(folder, contents.documents(root))
    if (root / aliases.FILE).exists():
        add_aliases(sections, {p: _article(folder, p) for p in (GLOSSARY, SYMPTOMS)})
    texts = shards(found)
    content = {"pages": titles(found), "shards": len(texts)}
    place = Path(folder, FOLDER)
    place.mkdir(parents=True, exist_ok=True)
    script = f"poseduSearchTitles = {packed(_json(content))};\n"
    (place / "titles.js").write_text(script, encoding="utf-8")
    for number, shard in enumerate(texts):
        script = f"(self.poseduSearchTexts ??= []).push({packed(_json(shard))});\n"
        (place / f"texts-{number}.js").write_text(script, encoding="utf-8")


def _json(content):
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def finish(app, exception):
    """Write the index of the built site; nothing is done after a failed build."""
    if exception is None and app.builder.format == "html":
        write(app.outdir, Path(app.srcdir))


def disable_sphinx_search(app):
    """Have Sphinx make no index of its own, and no page for it."""
    app.builder.search = False


def search_page(app):
    """Yield the page ``search.html``, for Sphinx to write it."""
    yield "search", {}, "search.html"


def setup(app):
    """Register the events that write the search page and the index."""
    app.connect("builder-inited", disable_sphinx_search)
    app.connect("html-collect-pages", search_page)
    app.connect("build-finished", finish, priority=700)
