"""Pages run again when an input has changed, and a failed page is never served."""

import textwrap

import pytest

from posedu_sphinx import ROOT
from posedu_sphinx.site.execute import modules_of, pages, read, run_pages

PAGE = """\
---
file_format: mystnb
kernelspec:
  name: python3
---

# {name}

```{{code-cell}} ipython3
import pathlib
if False:
    {imports}
with pathlib.Path("{name}.log").open("a") as log:
    print("run", file=log)
{code}
```
"""


@pytest.fixture
def book(tmp_path):
    """Two pages, with a module of their own each, and one for both."""
    files = {
        "_toc.yml": """
            format: jb-book
            root: index
            parts:
              - caption: All
                chapters: [{file: first}, {file: second}, {file: left}]
            """,
        "_config.yml": "execute: {exclude_patterns: [left]}",
        "requirements.txt": "",
        "posedu/__init__.py": "",
        "posedu/one.py": "from posedu import shared\ntable = 'table.json'",
        "posedu/one.js": "",
        "posedu/two.js": "",
        "posedu/table.json": "{}",
        "posedu/two.py": "from posedu.shared import x",
        "posedu/shared.py": "x = 1",
        "posedu/nobody.py": "",
        "book/data/numbers.json": "{}",
        "tests/oracles/library.json": "{}",
        "tests/oracles/unused.json": "{}",
        "index.md": "# Home",
        "first.md": PAGE.format(name="first", imports="import posedu.one", code=""),
        "second.md": PAGE.format(
            name="second",
            imports="from posedu.two import x",
            code="'numbers.json'; '../tests/oracles/library.json'",
        ),
        "left.md": PAGE.format(name="left", imports="pass", code="raise ValueError"),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path


def runs(book):
    logs = [book / f"{name}.log" for name in ("first", "second", "left")]
    return [len(log.read_text("utf-8").split()) if log.exists() else 0 for log in logs]


def test_only_pages_whose_own_imports_or_data_changed_run_again(book):
    def change(name):
        path = book / name
        path.write_text(path.read_text("utf-8") + "\n# changed\n")
        assert run_pages(book)
        return runs(book)

    assert run_pages(book) and runs(book) == [1, 1, 0]
    assert run_pages(book) and runs(book) == [1, 1, 0]
    assert change("posedu/nobody.py") == [1, 1, 0]
    assert change("index.md") == [1, 1, 0]
    assert change("posedu/one.py") == [2, 1, 0]
    assert change("posedu/shared.py") == [3, 2, 0]
    assert change("book/data/numbers.json") == [3, 3, 0]
    assert change("tests/oracles/unused.json") == [3, 3, 0]
    assert change("tests/oracles/library.json") == [3, 4, 0]
    assert change("posedu/one.js") == [4, 4, 0]
    assert change("posedu/two.js") == [4, 5, 0]
    assert change("posedu/table.json") == [5, 5, 0]
    assert change("requirements.txt") == [6, 6, 0]
    assert change("posedu/__init__.py") == [7, 7, 0]


def test_a_page_whose_displays_changed_is_checked_again(book):
    page = book / "first.md"
    cells, found = page.read_text("utf-8"), []
    for display, prose in ("bb", "bc", "cc"):
        page.write_text(f"{cells}\n$$\na = {display}\n$$ (eq-a)\n\nwords {prose}\n")
        assert run_pages(book)
        found.append(runs(book)[0])
    assert found == [1, 1, 2]


def test_a_cell_that_may_fail_is_refused(book, capsys):
    page = book / "first.md"
    tag = "ipython3\n:tags: [raises-exception]"
    page.write_text(page.read_text("utf-8").replace("ipython3", tag))
    for _ in range(2):
        assert not run_pages(book)
        assert "first: no cell may have the tag raises-exc" in capsys.readouterr().err
    assert runs(book) == [0, 1, 0]


def test_a_page_that_fails_fails_every_time_and_is_not_kept(book, capsys):
    good = (book / "first.md").read_text("utf-8")
    (book / "first.md").write_text(good.replace("print(", "raise ValueError("))
    for _ in range(2):
        assert not run_pages(book)
        assert "first failed" in capsys.readouterr().err
    assert runs(book) == [0, 1, 0]  # the other one is kept
    (book / "first.md").write_text(good)
    assert run_pages(book) and runs(book) == [1, 1, 0]


def test_a_page_whose_kernel_ends_is_named_and_the_others_are_kept(book, capsys):
    good = (book / "first.md").read_text("utf-8")
    (book / "first.md").write_text(good.replace("print(", "__import__('os')._exit(1)#"))
    assert not run_pages(book)
    assert "first failed:\nKernel died" in capsys.readouterr().err
    assert not run_pages(book) and runs(book) == [0, 1, 0]


def test_the_slowest_pages_are_listed_with_those_that_did_not_run_again(book, capsys):
    def listed():
        assert run_pages(book)
        lines = capsys.readouterr().out.partition("The slowest of 2 pages")[2]
        return {name: float(s) for s, _, name in map(str.split, lines.splitlines()[1:])}

    page = book / "second.md"
    busy = (
        "import time\nend = time.process_time() + 1\nwhile time.process_time() < end:"
    )
    page.write_text(page.read_text("utf-8").replace("'numbers.json'", f"{busy} pass"))
    first = listed()
    assert [*first] == ["second", "first"] and first["second"] > 1 > first["first"]
    (book / "posedu" / "one.py").write_text("")  # the first page runs again
    again = listed()
    assert [*again] == [*first] and again["second"] == first["second"]
    assert listed() == {}


def test_a_page_that_fails_because_of_a_module_is_forgotten(book):
    assert run_pages(book)
    page = book / "second.md"
    text = page.read_text("utf-8").replace(
        "'numbers.json'", "(1 / len(open('flag').read()))"
    )
    page.write_text(text)
    (book / "flag").write_text("x")
    assert run_pages(book)
    (book / "flag").write_text("")
    (book / "posedu" / "two.py").write_text("# changed")
    assert not run_pages(book) and not run_pages(book)


def test_what_a_page_imports_is_found_through_packages_and_records():
    def names(code):
        return {str(path.relative_to(ROOT)) for path in modules_of(code)}

    found = names("from posedu.book.proof import prove")
    assert "posedu/book/proof.py" in found and "posedu/__init__.py" in found
    assert not any("check" in name or "numpy" in name for name in found)
    by_name = names("import posedu.crosscheck")
    assert {"posedu/sympy/rotary/fope.py", "posedu/torch/cache.py"} <= by_name


def test_every_page_of_the_book_is_seen():
    names = dict(pages())
    assert {"book/index", "book/rotary/rope", "notebooks/fox"} <= names.keys()
    assert read(names["book/reference/special-cases"]) is None
    assert read(names["book/rotary/rope"]).cells
