"""The notebooks match their sources, and nbval rejects changed outputs."""

import base64
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook, new_output

from posedu_sphinx import ROOT
from posedu_sphinx.exercises import carried, notebooks
from posedu_sphinx.site import address
from posedu_sphinx.site.execute import read

PATHS = notebooks.paths()
OWNER = "https://github.com/example/posedu"  # only ever written to a copy of the tree


EACH_NOTEBOOK = pytest.mark.parametrize(
    "path", PATHS, ids=lambda path: str(path.relative_to(ROOT))
)


@EACH_NOTEBOOK
def test_every_notebook_is_up_to_date(path):
    text = path.read_text(encoding="utf-8")
    assert text == notebooks.expected_text(path), f"run `make notebooks`: {path.name}"


@pytest.mark.parametrize(
    "path",
    PATHS + notebooks.solved_paths(),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_only_checked_cells_store_outputs(path):
    notebook = nbformat.reads(notebooks.expected_text(path), as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            checked = notebooks.CHECKED in cell.metadata.get("tags", [])
            assert bool(cell.outputs) == checked, cell.source


def test_no_text_holds_a_control_character_but_the_newline():
    """A single backslash in a plain string makes one: ``\\top`` begins with a tab."""
    control = re.compile(r"(?!\n)[\x00-\x1f\x7f-\x9f]")
    for path in (p for p in PATHS if p.suffix == ".ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            assert not control.search(cell.source), (path, cell.source)
    for path in (ROOT / "book").rglob("*.md"):
        assert not control.search(path.read_text(encoding="utf-8")), path


def test_every_notebook_names_its_kernel():
    for path in PATHS:
        notebook = nbformat.read(path, as_version=4)
        assert notebook.metadata.kernelspec.name == "python3", path


def checked(source, text, count=1):
    output = new_output("stream", name="stdout", text=text)
    cell = new_code_cell(source, execution_count=count, outputs=[output])
    cell.metadata["tags"] = [notebooks.CHECKED]
    return cell


def run_nbval(path, **environment):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    options = ["--nbval-lax", "--nbval-current-env", "--rootdir", str(path.parent)]
    result = subprocess.run(
        [*command, *options, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=path.parent,
    )
    return result.stdout


def test_the_canary_fails_where_it_should(tmp_path):
    path = tmp_path / "canary.ipynb"
    old = [new_output("stream", name="stdout", text="old\n")]
    unchecked = new_code_cell("print('new')", outputs=old, execution_count=3)
    cells = [
        checked("print('same')", "same\n", 1),
        checked("print('drifted')", "stored\n", 2),
        unchecked,
        new_code_cell("raise ValueError('broken')"),
    ]
    nbformat.write(new_notebook(cells=cells), path)
    said = run_nbval(path)
    failed = re.findall(r"^FAILED .*::Cell (\d+)", said, re.M)
    assert failed == ["1", "3"], said
    assert "2 failed, 2 passed" in said


def test_an_unsolved_notebook_fails_in_strict_mode(tmp_path):
    path = tmp_path / "fields.ipynb"
    shutil.copy(notebooks.EXERCISES / "fields.ipynb", path)
    assert "failed" not in run_nbval(path, POSEDU_STRICT="0")
    assert "failed" in run_nbval(path, POSEDU_STRICT="1")


def test_a_notebook_without_a_set_up_cell_is_refused():
    with pytest.raises(ValueError, match="needs a cell tagged 'setup'"):
        notebooks.set_up(new_notebook(), "")


def stated(folder):
    """The addresses in each file that states the project's address."""
    named = [folder / name for name in address.PLACES]
    paths = [*named, *notebooks.paths()]
    return {p: {*notebooks.VALID.findall(p.read_text(encoding="utf-8"))} for p in paths}


def test_the_address_is_the_same_everywhere():
    found = stated(ROOT)
    assert len(found) >= 3 + len(PATHS)
    own = {*notebooks.VALID.findall(notebooks.address())}
    assert all(addresses == own for addresses in found.values()), found


@pytest.fixture
def copied_tree(tmp_path, monkeypatch):
    for name in ("_config.yml", "CITATION.cff", "README.md", "notebooks"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    folder = tmp_path / "notebooks"
    monkeypatch.setattr(address, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "NOTEBOOKS", folder)
    monkeypatch.setattr(notebooks, "PROJECTS", folder / "projects")
    monkeypatch.setattr(notebooks, "EXERCISES", folder / "exercises")
    monkeypatch.setattr(notebooks, "SOLVED", folder / "exercises" / "solved")
    return tmp_path


def contents(folder):
    return {p: p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def test_one_command_sets_the_address_and_takes_it_out(copied_tree):
    address.set_address("")
    before = contents(copied_tree)
    address.set_address(OWNER)
    found = stated(copied_tree)
    assert all(one == {"example/posedu"} for one in found.values()), found
    readme = (copied_tree / "README.md").read_text(encoding="utf-8")
    assert f"{OWNER}/actions" in readme
    address.set_address("")
    assert contents(copied_tree) == before


BAD_ADDRESSES = [
    *("github.com/a/b", "https://example.org/a/b", "x", "https://github.com/a/b/.."),
    *("https://github.com/../b", "https://github.com/a/..", "https://github.com/a/b\n"),
    *('https://github.com/a/b"', "https://github.com/a/b;touch x", "$(touch x)"),
]


@pytest.mark.parametrize("bad", BAD_ADDRESSES)
def test_an_address_that_colab_cannot_open_is_refused(bad, copied_tree):
    with pytest.raises(ValueError, match=r"https://github\.com/OWNER/NAME"):
        address.set_address(bad)


@pytest.mark.parametrize("url", [*BAD_ADDRESSES, '"; touch x; "', "$(shell touch x)"])
def test_make_hands_an_address_on_and_does_not_run_it(url, tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nprintf "%s" "$URL" > given\n')
    python.chmod(0o755)
    for name in ("requirements.txt", "pyproject.toml", ".venv/ready"):
        (tmp_path / name).touch()
    subprocess.run(["make", "-s", "address", f"URL={url}"], cwd=tmp_path, check=True)
    assert (tmp_path / "given").read_text("utf-8") == url
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("target, names", [("missing", ["NAMES"]), ("new", ["NAME"])])
@pytest.mark.parametrize("bad", ["x; touch x", '"; touch x; "', "$(shell touch x)"])
def test_make_runs_no_name(target, names, bad, tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    for name in ("requirements.txt", "pyproject.toml", ".venv/ready"):
        (tmp_path / name).touch()
    given = [f"{name}={bad}" for name in names]
    subprocess.run(["make", "-s", target, *given], cwd=tmp_path, check=True)
    assert not (tmp_path / "x").exists()


def test_no_owner_is_invented_in_the_tree():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    known = {"OWNER/NAME", "OWNER/REPO", "example/posedu"}
    pattern = re.compile(r"github\.com/([\w.-]+/[\w.-]+)")
    for name in listed:
        path = ROOT / name
        if path.suffix in {".md", ".py", ".ipynb", ".yml", ".yaml", ".toml", ".cff"}:
            found = set(pattern.findall(path.read_text(encoding="utf-8")))
            own = {f for f in found if f.endswith("posedu")} - known
            assert not own or notebooks.address(), f"{name}: {own}"


def test_the_notebook_of_a_page_runs_where_nothing_of_the_book_is(tmp_path):
    """The page's checks read the displays of the page's copy in the notebook."""
    page = ROOT / "book" / "gated" / "decay.md"
    code = (
        "from posedu.book.display import find",
        "assert 'D_{ij}' in find('eq-decay-cope')",
        "assert open('../data/sequences-cpu.json').read(1) == '{'",
    )
    cells = [*read(page).cells, *map(new_code_cell, code)]
    notebook = notebooks.of_page(page, cells)
    prose = "\n\n".join(c.source for c in cells if c.cell_type == "markdown")
    own = notebook.cells[1]
    own.source = own.source.replace('PAGE = ""', f"PAGE = {json.dumps(prose)}")
    notebook.cells[2:] = map(new_code_cell, code)
    (tmp_path / carried.NAME).write_text(carried.package(""))
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=60, resources=resources).execute()
    page = tmp_path / "posedu-page" / "book" / "gated" / "decay.md"
    assert "{code-cell}" not in page.read_text("utf-8")


@pytest.mark.parametrize(
    "data",
    [
        "../data/sequences-cpu.json",
        "../data/layers.toml",
        "../../tests/oracles/m-rope.json",
    ],
)
def test_the_notebook_of_a_page_has_the_files_that_it_reads(data, tmp_path):
    page = ROOT / "book" / "gated" / "decay.md"
    own = notebooks.of_page(page, [new_code_cell(f"open('{data}')")]).cells[1]
    packed = re.search('DATA = "(.*)"', own.source)[1]
    archive = zipfile.ZipFile(io.BytesIO(lzma.decompress(base64.b85decode(packed))))
    (name,) = archive.namelist()
    assert archive.read(name) == (page.parent / data).read_bytes()


def test_every_file_of_measurements_that_a_page_names_is_carried():
    named = re.compile(r"\.\./(?:data|\.\./tests/oracles)[^\"'`)\s]*")
    pages = list((ROOT / "book").rglob("*.md"))
    found = {n for page in pages for n in named.findall(page.read_text("utf-8"))}
    assert found and all(notebooks.DATA.fullmatch(name) for name in found), found
