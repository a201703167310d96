"""Exercise notebooks where only Colab's packages are: both ways in, and the way out."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from posedu_book import notebooks
from posedu_book.notebooks import ROOT

BARE = ROOT / "_build" / "colab"
PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "matplotlib",
    "sympy",
    "ipykernel",
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def bare():
    """A Python with what Colab has and posedu needs; kept in _build between runs."""
    python = BARE / "bin" / "python"
    ready = BARE / "ready"
    pins = [p for p in (ROOT / "requirements.txt").read_text().split() if "==" in p]
    wanted = [p for p in pins if p.split("==")[0] in PACKAGES]
    assert len(wanted) == len(PACKAGES)
    if not ready.exists() or ready.read_text() != " ".join(wanted):
        venv.create(BARE, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        ready.write_text(" ".join(wanted))
    return python


@pytest.fixture
def layered(bare, tmp_path):
    """A fresh environment on top of the bare one, to install into."""
    folder = tmp_path / "layer"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (below,) = BARE.glob("lib/python*/site-packages")
    (site / "colab.pth").write_text(f"{below}\n")
    return python


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
        if output.output_type == "execute_result"
    )


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


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


@pytest.mark.parametrize("family", ["attention", "absolute", "rotary"])
def test_the_download_runs_from_the_file_alone(family, bare, tmp_path):
    assert imports(bare, "posedu", tmp_path).returncode != 0
    source = nbformat.read(notebooks.EXERCISES / f"{family}.ipynb", as_version=4)
    path = tmp_path / f"{family}.ipynb"
    nbformat.write(notebooks.carried(source), path)
    notebook = run(nbformat.read(path, as_version=4), bare, tmp_path)
    checks = sum("check(" in c.source for c in notebook.cells if "source" in c)
    assert said(notebook).count("○") >= 6, said(notebook)
    assert checks >= 6
    assert (tmp_path / "posedu-carried" / "posedu" / "__init__.py").exists()


def test_the_solved_download_passes_every_check(bare, tmp_path):
    source = nbformat.read(notebooks.SOLVED / "rotary.ipynb", as_version=4)
    notebook = run(notebooks.carried(source), bare, tmp_path)
    assert said(notebook).count("✓") >= 6
    assert "○" not in said(notebook) and "✗" not in said(notebook)


def test_the_address_installs_and_replaces_nothing(layered, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    report = tmp_path / "report.json"
    dry = ["install", "--dry-run", "--quiet", "--report", report, f"git+file://{clone}"]
    subprocess.run([layered, "-m", "pip", *dry], check=True)
    planned = json.loads(report.read_text())["install"]
    names = {item["metadata"]["name"].lower() for item in planned}
    assert "posedu" in names
    assert not names & set(PACKAGES), names

    source = nbformat.read(notebooks.EXERCISES / "rotary.ipynb", as_version=4)
    notebook = run(notebooks.set_up(source, f"file://{clone}"), layered, tmp_path)
    assert said(notebook).count("○") >= 6
    where = imports(layered, "posedu", tmp_path).stdout.strip()
    assert Path(where).is_relative_to(layered.parent.parent), where


def test_without_address_or_package_the_set_up_says_what_to_do(bare, tmp_path):
    source = nbformat.read(notebooks.EXERCISES / "rotary.ipynb", as_version=4)
    with pytest.raises(CellExecutionError, match="Download the notebook from the book"):
        run(notebooks.set_up(source, ""), bare, tmp_path)


def test_an_address_out_of_reach_says_so(layered, tmp_path):
    source = nbformat.read(notebooks.EXERCISES / "rotary.ipynb", as_version=4)
    nowhere = f"file://{tmp_path}/nowhere"
    with pytest.raises(CellExecutionError, match="could not install posedu from"):
        run(notebooks.set_up(source, nowhere), layered, tmp_path)


def test_where_posedu_is_importable_the_set_up_does_nothing(tmp_path):
    setup = notebooks.SETUP.format(address="")
    done = subprocess.run([sys.executable, "-c", setup], cwd=tmp_path, check=True)
    assert done.returncode == 0
    assert not list(tmp_path.iterdir())
