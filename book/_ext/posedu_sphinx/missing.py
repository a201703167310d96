"""List what the catalog's encodings still lack: chapter, tests, timing and more.

``python -m posedu_sphinx.missing [name …]`` checks the catalog records of the named
encodings and RoPE scaling methods, by default of all. A record is complete when nothing
is printed for it. ``gpu`` is printed if ``python -m posedu.book.gpu`` would not run the
encoding; results, which need a GPU, may be missing.
"""

import argparse
import re
import sys
from importlib import import_module

from posedu.book import exercises, gpu
from posedu.catalog import CATALOG, IMPLEMENTATIONS, ROPE_SCALINGS, EncodingRecord
from posedu_sphinx import ROOT
from posedu_sphinx.navigation.contents import documents, further_pages

RECORDS = {**CATALOG, **ROPE_SCALINGS}
LABEL = re.compile(r"``((?:def|eq)-[\w-]+)``")


def missing(record, root=ROOT):
    """Return the names of the parts that an encoding lacks, such as ``chapter``.

    ``record`` is the encoding's record in the catalog, ``root`` the repository's
    folder. The list is empty if the encoding is complete.
    """
    return [part for part, is_missing in PARTS.items() if is_missing(record, root)]


def _implementations(record, root):
    names = IMPLEMENTATIONS if isinstance(record, EncodingRecord) else ("numpy",)
    exported = [
        set(import_module(f"posedu.{implementation}").__all__)
        for implementation in names
    ]
    given = [record.implementation(implementation).__name__ for implementation in names]
    return not all(name in own for name, own in zip(given, exported, strict=True))


def _variants(record, root):
    return not (
        record.variants if isinstance(record, EncodingRecord) else record.options
    )


def _chapter(record, root):
    return _page(record.page, root, ".md")


def _lab(record, root):
    if _page(record.notebook, root, ".ipynb"):
        return True
    text = (root / f"{record.notebook}.ipynb").read_text(encoding="utf-8")
    used = {
        record.implementation(implementation).__name__
        for implementation in IMPLEMENTATIONS
        if _has(record, implementation)
    }
    return not any(re.search(rf"\b{name}\b", text) for name in used | {record.name})


def _has(record, implementation):
    return implementation == "numpy" or isinstance(record, EncodingRecord)


def _exercises(record, root):
    return record.chapter not in exercises.sheets() or _page(
        record.exercises, root, ".ipynb"
    )


def _tests(record, root):
    """Return whether no test file is named after the encoding or its chapter.

    ``record`` is the encoding's catalog record, ``root`` the repository's folder.
    """
    folder = root / "tests" / "encodings" / record.family
    return not any((folder / f"test_{name}.py").exists() for name in _names(record))


def _figure(record, root):
    """Return whether neither the chapter nor an encoding in it has an explorable.

    An explorable is an interactive figure. ``record`` is the catalog record of one of
    the chapter's encodings, ``root`` the repository's folder.
    """
    folder = root / "posedu" / "book" / "explorables"
    inside = [one for one in RECORDS.values() if one.page == record.page]
    names = {name for one in (record, *inside) for name in _names(one)}
    return not any((folder / f"{name}.py").exists() for name in names)


def _names(record):
    """Return the names that an encoding's test or explorable may have.

    They are the encoding's own name, its module's name, and its chapter's name, with
    underscores in place of hyphens. ``record`` is the encoding's catalog record.
    """
    own = (record.name, record.file.rpartition(".")[2], record.chapter)
    return {name.replace("-", "_") for name in own if name}


def _timing(record, root):
    path = root / "book" / "data" / f"timing-{record.name}-cpu.json"
    return isinstance(record, EncodingRecord) and not path.exists()


def _gpu(record, root):
    kinds = {kind for kind, name in gpu.parts() if name == record.name}
    return isinstance(record, EncodingRecord) and not {"crosscheck", "timing"} <= kinds


def _claims(record, root):
    """Return whether a label that an encoding's docstring names is in no page.

    The label is a formula's, in the docstring of the NumPy function. Also true if the
    docstring names no label, or if the label of the proof of one of the encoding's
    special cases is in no page. ``record`` is the encoding's catalog record, ``root``
    the repository's folder.
    """
    named = set(LABEL.findall(record.implementation("numpy").__doc__))
    named |= {case.proof for case in record.special_cases}
    pages = [p.read_text(encoding="utf-8") for p in (root / "book").glob("*/*.md")]
    return not named or not all(any(_labeled(n, p) for p in pages) for n in named)


def _labeled(name, page):
    return f":label: {name}\n" in page or f"({name})" in page


def _errata(record, root):
    """Return whether an encoding's chapter has no erratum, or one that a list lacks.

    An erratum corrects a published source; the list is the list of all errata of the
    encoding's family, ``book/FAMILY/errata*.md``. Also true if the encoding has no
    chapter. ``record`` is the encoding's catalog record, ``root`` the repository's
    folder.
    """
    names = (record.page, *further_pages(record.page, root))
    pages = [root / f"{name}.md" for name in names]
    if not record.page or not all(page.exists() for page in pages):
        return True
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    found = re.findall(r"^\((err-[\w-]+)\)=$", text, re.M)
    folder = root / "book" / record.family
    listed = "".join(p.read_text(encoding="utf-8") for p in folder.glob("errata*.md"))
    return not found or not all(f"<{label}>" in listed for label in found)


def _page(name, root, ending):
    """Return whether a page's file is missing, or the page is not in the contents.

    ``root`` is the repository's folder; the file in it is ``name`` followed by
    ``ending``, such as ``.md``.
    """
    return name not in documents(root) or not (root / f"{name}{ending}").exists()


PARTS = {
    "implementations": _implementations,
    "variants": _variants,
    "chapter": _chapter,
    "lab": _lab,
    "exercises": _exercises,
    "tests": _tests,
    "figure": _figure,
    "timing": _timing,
    "gpu": _gpu,
    "claims": _claims,
    "errata": _errata,
}


def main(arguments=None):
    """Print a line for each encoding that lacks something; return whether any does.

    ``arguments`` are the command's arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help="default: all records")
    names = parser.parse_args(arguments).names or list(RECORDS)
    unknown = [name for name in names if name not in RECORDS]
    if unknown:
        known = ", ".join(RECORDS)
        parser.error(f"name must be one of {known}; got {unknown[0]}")
    lacking = {name: missing(RECORDS[name]) for name in names}
    for name, parts in lacking.items():
        if parts:
            print(f"{name}: {', '.join(parts)}")
    return any(lacking.values())


if __name__ == "__main__":
    sys.exit(main())
