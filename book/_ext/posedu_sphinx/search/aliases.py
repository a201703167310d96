"""Other names of pages and sections, from the file of aliases and from the book.

``book/search-aliases.yml`` maps ``page`` or ``page#id`` to the words that readers look
for it by. The catalog adds the names, papers and models of each encoding, the glossary
the terms that link to a formula, the page of troubleshooting the symptoms of a cause.
"""

import re
from pathlib import Path

import yaml
from pybtex.database import parse_file
from sphinx.errors import ExtensionError

from posedu.catalog import CATALOG, ROPE_SCALINGS
from posedu_sphinx import ROOT

FILE = Path("book", "search-aliases.yml")
NOTE = re.compile(r"\s*\(.*?\)")  # "Llama 4 (every fourth layer)"


def of_file(root=ROOT):
    """Return the aliases of ``book/search-aliases.yml`` by page or ``page#id``.

    ``root`` is the repository's folder. A name that is listed twice for one place, or
    that is no text, raises ExtensionError.
    """
    listed = yaml.safe_load((root / FILE).read_text(encoding="utf-8"))
    for place, names in listed.items():
        texts = [name for name in names if isinstance(name, str)]
        if texts != names or len({*map(str.lower, texts)}) < len(names):
            raise ExtensionError(
                f"the aliases of {place} in {FILE} must be different texts, got {names}"
            )
    return listed


def of_catalog(root=ROOT):
    """Return the names, papers and models of the catalog's encodings and RoPE scalings.

    They are lists by page, or ``page#id`` for what is stated by a labeled equation.
    Encodings that have no page yet have none. ``root`` is the repository's folder,
    whose bibliography has the papers.
    """
    papers = parse_file(root / "book" / "references.bib").entries
    found = {}
    for record in [*CATALOG.values(), *ROPE_SCALINGS.values()]:
        if not record.page:
            continue
        names = [record.name, record.title, getattr(record, "module", record.name)]
        names += [NOTE.sub("", model) for model in record.adopters]
        names += [record.arxiv, *_paper(papers[record.paper])]
        known = found.setdefault(_page(record, root), [])
        known += [name for name in dict.fromkeys(names) if name and name not in known]
    return found


def _page(record, root):
    """Return the page that states a record's encoding: its chapter or a further page.

    ``root`` is the repository's folder.
    """
    if not record.treated:
        return record.page
    (page,) = (
        page
        for page in (root / "book" / record.family).glob("*.md")
        if f"({record.treated})\n" in page.read_text(encoding="utf-8")
    )
    return page.relative_to(root).with_suffix("").as_posix()


def _paper(entry):
    """Return a paper's title and its first author's name with the year."""
    title = re.sub(r"[{}]", "", entry.fields["title"])
    (surname, *_) = entry.persons["author"][0].last_names
    return [title, f"{surname} {entry.fields['year']}"]


def of_glossary(article):
    """Yield each term of the glossary with the link to the first formula it names.

    ``article`` is the built page of the glossary, an element of lxml. The links are
    relative to that page.
    """
    for term in article.cssselect("dl.glossary > dt[id]"):
        text = next(d for d in term.itersiblings() if d.tag == "dd")
        links = text.xpath(".//a[contains(@href, '#equation-')]/@href")
        if links:
            yield term.text, links[0]


def of_symptoms(article):
    """Yield each symptom of troubleshooting's table with the links to its causes.

    ``article`` is the built page of troubleshooting, an element of lxml. The links are
    relative to that page.
    """
    for row in article.cssselect("table tbody tr"):
        symptom, cause = row
        for link in cause.xpath(".//a/@href"):
            yield " ".join(symptom.text_content().split()), link
