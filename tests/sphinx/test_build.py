"""A failed build fails again until the error is corrected, and is never served."""

import re
import shutil

import pytest
import yaml

from posedu_sphinx import ROOT
from posedu_sphinx.build import make_site
from posedu_sphinx.site.packed_scripts import unpacked

FAULTS = {
    "an equation without a label": "$$\na = b\n$$",
    "a label of another kind": "$$\na = b\n$$ (foo-bar)",
    "a claim without a check": "$$\na = b\n$$ (eq-unchecked)",
    "a page that is not there": "[words](nowhere.md)",
    "a reference": "{ref}`nowhere`",
    "an equation": "{eq}`eq-nowhere`",
    "a citation": "{cite}`nobody1900`",
    "a function": "{func}`posedu.numpy.nothing`",
}
SIGNS = {
    "an equation without a label": "displayed equation without an eq- or def- label",
    "a label of another kind": "eq- or def- label: a = b",
    "a claim without a check": "claim eq-unchecked has 0 checks",
    "a page that is not there": "nowhere.md",
    "a reference": "undefined label: 'nowhere'",
    "an equation": "eq-nowhere",
    "a citation": "nobody1900",
    "a function": "posedu.numpy.nothing",
}


@pytest.fixture
def book(tmp_path):
    """The book's own settings with two pages."""
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    settings["sphinx"]["local_extensions"] = {
        "posedu_sphinx": str(ROOT / "book" / "_ext")
    }
    settings["sphinx"]["config"]["html_extra_path"] = []
    (tmp_path / "_config.yml").write_text(yaml.safe_dump(settings))
    contents = {"format": "jb-book", "root": "book/index"}
    contents["parts"] = [{"caption": "All", "chapters": [{"file": "book/page"}]}]
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(contents))
    (tmp_path / "requirements.txt").write_text("")
    for name in ("_static", "_templates"):
        shutil.copytree(ROOT / "book" / name, tmp_path / "book" / name)
    for name in ("notation.yml", "references.bib"):
        shutil.copy(ROOT / "book" / name, tmp_path / "book" / name)
    (tmp_path / "book" / "index.md").write_text("# Home\n")
    return tmp_path


def write(book, text):
    (book / "book" / "page.md").write_text(f"# Page\n\n{text}\n")


def test_every_kind_of_fault_fails_twice_in_a_row(book, capfd):
    write(book, "\n\n".join(FAULTS.values()))
    for _ in range(2):
        assert not make_site(book)
        told = "".join(capfd.readouterr())
        assert [kind for kind, sign in SIGNS.items() if sign not in told] == []
        assert not (book / "_build" / "html").exists()
    write(book, "Words.")
    assert make_site(book)
    assert (book / "_build" / "html" / "book" / "page.html").exists()
    out, err = capfd.readouterr()
    lines = [line.strip() for line in re.split(r"[\r\n]+", err) if line.strip()]
    assert out == "" and [*dict.fromkeys(line[:8] for line in lines)] == [
        "reading:",
        "writing:",
    ]


def test_search_knows_the_terms_of_a_page_that_did_not_change(book):
    write(book, "```{glossary}\nAttention\n: A term.\n```")
    for title in ("Home", "House"):
        (book / "book" / "index.md").write_text(f"# {title}\n")
        assert make_site(book)
    index = book / "_build" / "html" / "_static" / "search" / "titles.js"
    assert '[\\"Attention\\",\\"term-Attention\\"]' in unpacked(
        index.read_text("utf-8")
    )


def test_a_failing_cell_is_never_served(book):
    write(book, "Words.")
    (book / "_build").mkdir()
    html = book / "_build" / "html" / "book" / "page.html"
    html.parent.mkdir(parents=True)
    html.write_text("the page as it was")
    head = "---\nfile_format: mystnb\nkernelspec: {name: python3}\n---\n"
    cell = "# Page\n\n```{code-cell} ipython3\n1 / 0\n```\n"
    (book / "book" / "page.md").write_text(head + cell)
    for _ in range(2):
        assert not make_site(book)
        assert not html.exists()
