"""Exercise notebooks with Colab's packages alone: download, install, and errors."""

import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from posedu.book import provenance
from posedu_sphinx import ROOT
from posedu_sphinx.exercises import carried, notebooks

# Packages of Colab that posedu or its notebooks need.
PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "matplotlib",
    "sympy",
    "ipykernel",
    "pip",
    "tqdm",
)

pytestmark = pytest.mark.slow


def with_requirements(names):
    """The installed distributions of these names, and of their requirements."""
    found, waiting = {}, [*names]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            found[name] = metadata.distribution(name)
            required = map(Requirement, found[name].requires or ())
            waiting += [r.name for r in required if not r.marker or r.marker.evaluate()]
    return found.values()


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """A Python environment with links to these installed packages and no others."""
    folder = tmp_path_factory.mktemp("colab")
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for distribution in with_requirements(PACKAGES):
        tops = {file.parts[0] for file in distribution.files}
        for top in tops - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(distribution.locate_file(top)).resolve())
    return folder / "bin" / "python"


@pytest.fixture
def layered(bare, tmp_path):
    """A fresh environment on top of the bare one, to install into."""
    folder = tmp_path / "layer"
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    (below,) = bare.parent.parent.glob("lib/python*/site-packages")
    (site / "colab.pth").write_text(f"{below}\n")
    return folder / "bin" / "python"


def imports(python, name, folder):
    command = [python, "-c", f"import {name}; print({name}.__file__)"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def run(notebook, python, folder):
    """Execute a notebook with another Python's kernel, in a folder of its own."""
    kernel = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager = AsyncKernelManager(kernel_name="python3")
    manager.kernel_spec.argv = kernel
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, km=manager, timeout=300, resources=resources)
    client.execute(cleanup_kc=True)  # or a kernel that it was given lives on
    return notebook


def said(notebook):
    return "\n".join(
        output.data["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type in ("execute_result", "display_data")
    )


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def files_below(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder.parent)) for path in paths}


def shipped():
    """Every file of the package, also those that are not Python."""
    command = ["git", "ls-files", "posedu"]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = set(listed.stdout.split())
    assert {
        "posedu/book/explorables/frame.js",
        "posedu/book/explorables/frame.css",
    } <= names
    return names


@pytest.mark.parametrize("last", ["", "1 / 0"], ids=["runs", "fails"])
def test_no_kernel_outlives_its_notebook(last, tmp_path):
    cells = [nbformat.v4.new_code_cell(c) for c in ("import os; os.getpid()", last)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    if last:
        with pytest.raises(CellExecutionError):
            run(notebook, sys.executable, tmp_path)
    else:
        run(notebook, sys.executable, tmp_path)
    assert not is_alive(int(said(notebook)))


def test_the_download_runs_from_the_file_alone(bare, tmp_path):
    assert imports(bare, "posedu", tmp_path).returncode != 0
    source = nbformat.read(notebooks.EXERCISES / "rope.ipynb", as_version=4)
    path = tmp_path / "rope.ipynb"
    nbformat.write(notebooks.self_contained(source, "notebooks/exercises/rope"), path)
    notebook = run(nbformat.read(path, as_version=4), bare, tmp_path)
    checks = sum("check(" in c.source for c in notebook.cells if "source" in c)
    assert said(notebook).count("○") >= 6, said(notebook)
    assert checks >= 6
    unpacked = files_below(tmp_path / "posedu-carried/rope/posedu")
    assert {f for f in unpacked if "__pycache__" not in f} < shipped()


def test_a_notebook_finds_the_package_beside_it_or_asks_for_it(bare, tmp_path):
    source = nbformat.read(notebooks.EXERCISES / "rope.ipynb", as_version=4)
    light = notebooks.self_contained(source, "notebooks/exercises/rope", package="")
    assert len(nbformat.writes(light)) < 120_000
    with pytest.raises(CellExecutionError, match=f"Put {carried.NAME} "):
        run(nbformat.from_dict(light), bare, tmp_path)
    (tmp_path / carried.NAME).write_text(carried.package(""))
    below = tmp_path / "notebooks"
    below.mkdir()
    assert said(run(light, bare, below)).count("○") >= 6


def test_the_gpu_lab_runs_from_the_file_alone_and_knows_its_commit(bare, tmp_path):
    source = nbformat.read(notebooks.NOTEBOOKS / "gpu.ipynb", as_version=4)
    made = "CrossCheck.load(next(data.glob('crosscheck-*.json'))).made['commit']"
    source.cells.append(nbformat.v4.new_code_cell(made))
    notebook = run(notebooks.self_contained(source, "notebooks/gpu"), bare, tmp_path)
    assert "CrossCheck(name='sinusoidal'" in said(notebook)
    assert str(provenance.commit()) in said(notebook)


def test_the_solved_download_passes_every_check(bare, tmp_path):
    source = nbformat.reads(
        notebooks.expected_text(notebooks.SOLVED / "rope.ipynb"), as_version=4
    )
    source = notebooks.self_contained(source, "notebooks/exercises/rope")
    notebook = run(source, bare, tmp_path)
    assert said(notebook).count("✓") >= 6
    assert "not answered yet" not in said(notebook) and "✗" not in said(notebook)


def test_the_address_installs_and_replaces_nothing(layered, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    source = nbformat.read(notebooks.EXERCISES / "rope.ipynb", as_version=4)
    source = notebooks.set_up(source, f"file://localhost{clone}")
    notebook = run(source, layered, tmp_path)
    assert said(notebook).count("○") >= 6
    where = imports(layered, "posedu", tmp_path).stdout.strip()
    assert Path(where).is_relative_to(layered.parent.parent), where
    assert files_below(Path(where).parent) >= shipped()
    site = str(Path(where).parent.parent)
    brought = {canonicalize_name(d.name) for d in metadata.distributions(path=[site])}
    assert "posedu" in brought
    assert not brought & set(PACKAGES), brought


def test_without_address_or_package_the_set_up_says_what_to_do(bare, tmp_path):
    source = nbformat.read(notebooks.EXERCISES / "rope.ipynb", as_version=4)
    with pytest.raises(CellExecutionError, match="Download the notebook from the book"):
        run(notebooks.set_up(source, ""), bare, tmp_path)


def test_an_address_out_of_reach_says_so(layered, tmp_path):
    source = nbformat.read(notebooks.EXERCISES / "rope.ipynb", as_version=4)
    nowhere = f"file://localhost{tmp_path}/nowhere"
    with pytest.raises(CellExecutionError, match="No module named 'posedu'"):
        run(notebooks.set_up(source, nowhere), layered, tmp_path)


@pytest.mark.parametrize("address", ["", f"file://localhost{ROOT}"])
def test_where_posedu_is_importable_the_set_up_does_nothing(address, tmp_path):
    cell = notebooks.setup_cell(address)
    done = run(nbformat.v4.new_notebook(cells=[cell]), sys.executable, tmp_path)
    assert done.cells[0].outputs == []
    assert not list(tmp_path.iterdir())


def test_colab_and_jupyter_show_the_set_up_folded():
    cell = notebooks.setup_cell("")
    assert cell.source.startswith("# @title ")
    assert cell.metadata.cellView == "form" and cell.metadata.jupyter.source_hidden
