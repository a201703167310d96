"""Packages in notebooks for download: small, and complete."""

import base64
import io
import lzma
import zipfile

import nbformat
import pytest

from posedu.book.exercises import sheets
from posedu_sphinx.exercises import carried, notebooks

LARGEST = 250_000  # characters of an exercise notebook's set-up cell
LARGEST_OF_LABS = 280_000  # which import most of the library


def unpacked(text):
    files = {}
    for part in text.split():
        data = lzma.decompress(base64.b85decode(part))
        archive = zipfile.ZipFile(io.BytesIO(data))
        files |= {name: archive.read(name).decode() for name in archive.namelist()}
    return files


def test_a_package_has_what_is_imported_and_what_that_imports():
    code = "%pip list\nfrom posedu.numpy.rotary import pairs\n"
    files = unpacked(carried.package(carried.needed(code), ""))
    assert "posedu/numpy/rotary/rope.py" in files
    assert "posedu/_arguments.py" in files and "jaxtyping/__init__.py" in files
    assert any("LICENSE" in name for name in files)
    assert not any("torch" in name for name in files)


def test_of_the_figures_only_those_shown_are_carried():
    code = "from posedu.book.explorables import rope_explorable"
    files = unpacked(carried.package(carried.needed(code), ""))
    own = {name for name in files if "explorables" in name}
    assert "posedu/book/explorables/rope.js" in own
    assert "posedu/book/explorables/frame.css" in own
    assert not any("cape" in name for name in own)
    assert "cape" not in files["posedu/book/explorables/__init__.py"]


def test_docstrings_and_comments_are_left_out_and_code_stays():
    source = '"""One."""\n\n\ndef f():\n    """Two."""\n    return "a"  # three\n'
    short = carried.shortened(source)
    assert not any(word in short for word in ("One", "Two", "three"))
    names = {}
    exec(short, names)
    assert names["f"]() == "a"


@pytest.mark.parametrize("name", [*sheets(), *("rope-lab", "fox-lab", "gpu-lab")])
def test_what_a_notebook_carries_is_small(name):
    is_lab = name.endswith("-lab")
    name = name.removesuffix("-lab")
    folder = notebooks.NOTEBOOKS if is_lab else notebooks.EXERCISES
    own = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    page = f"notebooks/{'' if is_lab else 'exercises/'}{name}"
    done = notebooks.self_contained(own, page)
    (setup,) = (c for c in done.cells if "setup" in c.metadata.get("tags", []))
    assert 10_000 < len(setup.source) < (LARGEST_OF_LABS if is_lab else LARGEST)


def test_annotations_stay_where_something_checks_them():
    source = (
        "@check_types\ndef checked(x: int) -> int:\n    return x\n"
        "@check_types\nclass Kept:\n    y: int\n    def read(self, x: int): ...\n"
        'def plain(x: int, *, y: str="") -> int:\n    z: int = x\n    return z\n'
        "class Other:\n    y: int\n"
    )
    short = carried.without_annotations(source)
    assert "def checked(x: int) -> int:" in short and "read(self, x: int)" in short
    assert "def plain(x, *, y='')" in short and short.count("y: int") == 2
    operator = (
        'torch.library.custom_op("posedu::f", f)\ndef f(x: Tensor) -> Tensor: ...'
    )
    assert carried.without_annotations(operator) == operator
