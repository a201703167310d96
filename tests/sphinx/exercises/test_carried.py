"""The package in notebooks for download: small, and complete."""

import base64
import io
import lzma
import re
import zipfile

import nbformat
import pytest

from posedu.book.exercises import sheets
from posedu.book.projects import projects
from posedu_sphinx.exercises import carried, notebooks

LARGEST = 600_000  # characters of the package, which the site has once
LARGEST_SHEET = 25_000  # of the exercises of a page, which each notebook has


def unpacked(text):
    files = {}
    for part in text.split():
        data = lzma.decompress(base64.b85decode(part))
        archive = zipfile.ZipFile(io.BytesIO(data))
        files |= {name: archive.read(name).decode() for name in archive.namelist()}
    return files


def test_the_package_has_all_that_notebooks_import_and_no_solutions():
    files = unpacked(carried.package(""))
    assert "posedu/numpy/rotary/rope.py" in files
    assert "posedu/_arguments.py" in files and "jaxtyping/__init__.py" in files
    assert "posedu/book/explorables/frame.js" in files
    assert "posedu/book/explorables/rope.py" not in files
    assert any("LICENSE" in name for name in files)
    assert not any("pyc" in name or "solutions/" in name for name in files)
    assert not any(name.startswith(carried.PROJECTS) for name in files)
    modules = {name.removesuffix(".py").replace("/", ".") for name in files}
    assert not modules & {*sheets().values()}


def test_the_package_is_small():
    assert 100_000 < len(carried.package("")) <= LARGEST


@pytest.mark.parametrize("name", sheets())
def test_a_sheet_of_exercises_is_a_small_part_of_its_own(name):
    text = carried.sheet(name)
    assert len(text) <= LARGEST_SHEET
    (file,) = unpacked(text)
    assert file.removesuffix(".py").replace("/", ".") == sheets()[name]


def test_a_notebook_has_the_explorables_that_it_calls():
    code = "from posedu.book.explorables import commuting_generators_explorable as f"
    names = {f"posedu/book/explorables/liere.{ending}" for ending in ("py", "js")}
    assert {*unpacked(carried.explorables_in(code))} == names
    assert carried.explorables_in("no_explorable()") == ""


def test_a_project_travels_with_its_own_notebook_without_solutions():
    files = unpacked(carried.project("black-box"))
    assert {"black_box.py", "black_box.json", "records.py", "measuring.py"} <= {
        file.removeprefix("posedu/book/projects/") for file in files
    }
    assert not any("solutions" in file or "/ring." in file for file in files)
    paths = [*notebooks.PROJECTS.glob("*.ipynb"), notebooks.NOTEBOOKS / "rope.ipynb"]
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        light = nbformat.writes(
            notebooks.self_contained(notebook, path.stem, package="")
        )
        for name in projects():
            assert (carried.project(name) in light) == (name == path.stem)


@pytest.mark.parametrize("name", projects())
def test_a_project_imports_no_other(name):
    files = unpacked(carried.project(name))
    code = "\n".join(text for file, text in files.items() if file.endswith(".py"))
    imported = {*re.findall(r"from posedu\.book\.projects\.(\w+) import", code)}
    assert "records" in imported
    assert {f"posedu/book/projects/{module}.py" for module in imported} <= {*files}


def test_docstrings_and_comments_are_left_out_and_code_stays():
    source = '"""One."""\n\n\ndef f():\n    """Two."""\n    return "a"  # three\n'
    short = carried.shortened(source)
    assert not any(word in short for word in ("One", "Two", "three"))
    names = {}
    exec(short, names)
    assert names["f"]() == "a"


def test_annotations_stay_where_something_checks_them(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "@check_types\ndef checked(x: int) -> int:\n    return x\n"
        "@check_types\nclass Kept:\n    y: int\n    def read(self, x: int): ...\n"
        'def plain(x: int, *, y: str="") -> int:\n    z: int = x\n    return z\n'
        "class Other:\n    y: int\n"
    )
    short = carried.shipped(path)
    assert "def checked(x: int) -> int:" in short and "read(self, x: int)" in short
    assert "def plain(x, *, y='')" in short and short.count("y: int") == 2
    path = tmp_path / "operator.py"
    path.write_text("custom_op('posedu::f', f)\n\ndef f(x: Tensor) -> Tensor:\n    ...")
    assert carried.shipped(path) == path.read_text()
