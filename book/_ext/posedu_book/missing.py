"""Say what the records of the catalog still lack.

``python -m posedu_book.missing [name …]``, or all of them without a name. A record is
complete when nothing is printed for it. What is printed as ``gpu`` is its place in
``python -m posedu.gpu``, not a result: that wants a GPU.
"""

import argparse
import re
import sys
from importlib import import_module

from posedu import check, gpu
from posedu.catalog import CATALOG, FACES, FREQUENCY_MAPS, Encoding
from posedu_book.contents import documents, further
from posedu_book.notebooks import ROOT

RECORDS = {**CATALOG, **FREQUENCY_MAPS}
LABEL = re.compile(r"``((?:def|eq)-[\w-]+)``")


def missing(record, root=ROOT):
    """The rooms of the house in which this record is not found yet."""
    return [room for room, lacks in ROOMS.items() if lacks(record, root)]


def _faces(record, root):
    names = FACES if isinstance(record, Encoding) else ("numpy",)
    exported = [set(import_module(f"posedu.{face}").__all__) for face in names]
    given = [record.face(face).__name__ for face in names]
    return not all(name in own for name, own in zip(given, exported, strict=True))


def _variants(record, root):
    return not (record.variants if isinstance(record, Encoding) else record.options)


def _chapter(record, root):
    return _page(record.page, root, ".md")


def _lab(record, root):
    if _page(record.notebook, root, ".ipynb"):
        return True
    text = (root / f"{record.notebook}.ipynb").read_text(encoding="utf-8")
    used = {record.face(face).__name__ for face in FACES if _has(record, face)}
    return not any(re.search(rf"\b{name}\b", text) for name in used | {record.name})


def _has(record, face):
    return face == "numpy" or isinstance(record, Encoding)


def _exercises(record, root):
    return record.chapter not in check.sheets() or _page(
        record.exercises, root, ".ipynb"
    )


def _timing(record, root):
    path = root / "book" / "data" / f"timing-{record.name}-cpu.json"
    return isinstance(record, Encoding) and not path.exists()


def _gpu(record, root):
    kinds = {kind for kind, name in gpu.parts() if name == record.name}
    return isinstance(record, Encoding) and not {"crosscheck", "timing"} <= kinds


def _claims(record, root):
    """Whether a label that its docstring or its special cases name is in no page."""
    named = set(LABEL.findall(record.face("numpy").__doc__))
    named |= {case.proof for case in record.special_cases}
    pages = [p.read_text(encoding="utf-8") for p in (root / "book").glob("*/*.md")]
    return not named or not all(any(_labelled(n, p) for p in pages) for n in named)


def _labelled(name, page):
    return f":label: {name}\n" in page or f"({name})" in page


def _errata(record, root):
    """Whether the chapter refutes nothing, or what the family's errata lack."""
    pages = [root / f"{p}.md" for p in (record.page, *further(record.page, root))]
    if not record.page or not all(page.exists() for page in pages):
        return True
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    found = re.findall(r"^\((err-[\w-]+)\)=$", text, re.M)
    folder = root / "book" / record.family
    listed = "".join(p.read_text(encoding="utf-8") for p in folder.glob("errata*.md"))
    return not found or not all(f"<{label}>" in listed for label in found)


def _page(name, root, ending):
    """Whether a page is not there, or not in the book's contents."""
    return name not in documents(root) or not (root / f"{name}{ending}").exists()


ROOMS = {
    "faces": _faces,
    "variants": _variants,
    "chapter": _chapter,
    "lab": _lab,
    "exercises": _exercises,
    "timing": _timing,
    "gpu": _gpu,
    "claims": _claims,
    "errata": _errata,
}


def main(arguments=None):
    """Print a line for each record that lacks something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help="default: all records")
    names = parser.parse_args(arguments).names or list(RECORDS)
    unknown = [name for name in names if name not in RECORDS]
    if unknown:
        parser.error(f"no record is named {unknown[0]}; there are {', '.join(RECORDS)}")
    lacking = {name: missing(RECORDS[name]) for name in names}
    for name, rooms in lacking.items():
        if rooms:
            print(f"{name}: {', '.join(rooms)}")
    return any(lacking.values())


if __name__ == "__main__":
    sys.exit(main())
