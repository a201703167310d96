"""Write skeletons of a new encoding's own files: ``make new NAME=… FAMILY=…``.

Every new file raises or fails until someone completes it; files that exist are not
touched. The command prints the additions that files shared by many encodings need.
"""

import argparse
import re
import sys
from string import Template

from posedu.catalog import CATALOG, FAMILIES
from posedu_sphinx import ROOT

IMPLEMENTATION = '''\
"""$title: one line that names the idea, with the paper's arXiv number."""


def $module(*args: object, **options: object) -> object:
    """Return … (arXiv …, equation …). Equation ``def-$name``."""
    raise NotImplementedError
'''
FILES = {
    "posedu/sympy/$family/$module.py": IMPLEMENTATION,
    "posedu/numpy/$family/$module.py": IMPLEMENTATION,
    "posedu/torch/$family/$module.py": '''\
"""$title: one line that names the idea, with the paper's arXiv number."""

from posedu.torch.encoding import Encoding


class $cls(Encoding):
    """… (arXiv …, equation …). Equation ``def-$name``."""

    def __init__(self) -> None:
        super().__init__()
        raise NotImplementedError
''',
    "book/$family/$name.md": """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
  language: python
---

# $title

## The problem

## The idea in one picture

## Definition

## Derivation

## Properties

## Run it

## Exercises

```{exercise-list} $name
```

## Summary

## Sources
""",
    "posedu/book/exercises/$family/$module.py": '''\
"""Exercises on $title."""

from posedu.book.exercises.records import Sheet

SHEET = Sheet(title="$title", conventions="", exercises=())
''',
    "posedu/book/explorables/$module.py": '''\
"""$title: the picture's content and its controls."""

from posedu.book.explorables.frame import Explorable


def ${module}_explorable() -> Explorable:
    """Draw … from :func:`posedu.numpy.$family.$module`."""
    raise NotImplementedError
''',
    "posedu/book/explorables/$module.js": """\
posedu.live("$module", ({ find }) => {
  return ({}) => ({ summary: "" });
});
""",
    "tests/encodings/$family/test_$module.py": '''\
"""$title: theorems, published numbers, reference and PyTorch, what is refused."""

import pytest


def test_the_definition():
    pytest.fail("write the first test of $name")
''',
}
SHARED = """\
Add by hand:
  posedu/catalog/$family.py                 the record "$name"
  posedu/{sympy,numpy,torch}/$family/__init__.py and above   its exports
  posedu/book/explorables/__init__.py       its explorable
  book/references.bib                       its paper
  notebooks/$name.ipynb                     its lab, or its place in one
  _toc.yml                                  chapter, lab, exercises
  book/reference/                           glossary, notation, api, errata
Then `make missing NAMES=$name` lists the parts that are missing."""


def skeleton(name, family):
    """Return the initial text of each file of a new encoding, by the file's path.

    ``name`` is the encoding's name in the catalog, such as ``fope-offset``, ``family``
    the name of the encoding's family. Paths are relative to the repository's folder.
    """
    words = re.split("-", name)
    names = {
        "name": name,
        "family": family,
        "module": "_".join(words),
        "title": " ".join(words).upper() if len(name) <= 5 else " ".join(words),
        "cls": "".join(word[:1].upper() + word[1:] for word in words),
    }
    return {
        Template(path).substitute(names): Template(text).safe_substitute(names)
        for path, text in FILES.items()
    }


def families():
    """Return the names of the encoding families, such as ``rotary``."""
    return [module.__name__.rpartition(".")[2] for module in FAMILIES]


def write(name, family, root=ROOT):
    """Write the files of a new encoding that do not exist yet; return their paths.

    ``name`` is the encoding's name in the catalog, ``root`` the repository's folder.
    ValueError is raised if the catalog has the name already, if the name is not
    lowercase words joined by hyphens, or if the family is unknown.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(
            "name must be lowercase words joined by -, such as 'fope-offset', "
            f"got {name!r}"
        )
    if name in CATALOG:
        raise ValueError(
            f"the catalog already has an encoding {name!r}: choose another"
        )
    if family not in families():
        raise ValueError(f"family must be one of {families()}, got {family!r}")
    written = []
    for path, text in skeleton(name, family).items():
        file = root / path
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def main(arguments=None):
    """Write a new encoding's files; print them and what is to be added to shared files.

    ``arguments`` are the command's arguments, by default the process's own: the
    encoding's name and family. Return the exit status 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="catalog name, such as fope-offset")
    parser.add_argument("family", help=f"one of {', '.join(families())}")
    given = parser.parse_args(arguments)
    try:
        written = write(given.name, given.family)
    except ValueError as error:
        parser.error(str(error))
    print("\n".join(f"wrote {path}" for path in written))
    names = {"name": given.name, "family": given.family}
    print(Template(SHARED).safe_substitute(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
