"""A forked kernel is in the state of a new one, but for its imports, and ends."""

import sys

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook

from posedu_sphinx.site.kernels import kernel_managers, shared_imports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked")


def run(managers, folder, *cells, **options) -> list[str]:
    """Run cells in one kernel; return what each prints."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "", "language": ""}}
    notebook = new_notebook(cells=[*map(new_code_cell, cells)], metadata=kernel)
    resources = {"metadata": {"path": str(folder)}}
    options |= {"extra_arguments": ["--IPKernelApp.log_level=40"]}
    NotebookClient(
        notebook, kernel_manager_class=managers, resources=resources, **options
    ).execute()
    nbformat.validate(notebook)
    return [
        "".join(o.get("text", "") for o in c.outputs).strip() for c in notebook.cells
    ]


@pytest.fixture(scope="module")
def managers():
    with kernel_managers(["colorsys", "numpy", "no_such_module"]) as managers:
        yield managers


def test_modules_are_imported_before_the_first_cell(managers, tmp_path):
    cell = "import sys; print('colorsys' in sys.modules, 'torch' in sys.modules)"
    assert run(managers, tmp_path, cell) == ["True False"]


def test_pages_share_no_state(managers, tmp_path):
    leave = "import colorsys, os; colorsys.left = left = 1; os.environ['LEFT'] = '1'"
    look = """
        import colorsys, os, sys, threading
        print(hasattr(colorsys, "left"), "left" in vars(), "LEFT" in os.environ)
        print(vars(sys.modules["__main__"]) is globals(), "fork_kernels" in vars())"""
    run(managers, tmp_path, leave)
    assert run(managers, tmp_path, look) == ["False False False\nTrue False"]


def test_kernels_draw_different_random_numbers(managers, tmp_path):
    cell = "import random, numpy; print(random.random(), numpy.random.rand())"
    first, second = (run(managers, tmp_path, cell)[0].split() for _ in range(2))
    assert first[0] != second[0] and first[1] != second[1]


def test_a_kernel_runs_in_the_folder_of_its_page(managers, tmp_path):
    (tmp_path / "neighbor.py").write_text("x = 'imported'")
    cell = "import os, neighbor; print(os.getcwd(), neighbor.x)"
    assert run(managers, tmp_path, cell) == [f"{tmp_path} imported"]


def test_processes_of_a_cell_return_their_status(managers, tmp_path):
    cell = "import subprocess; print(subprocess.run(['false']).returncode)"
    assert run(managers, tmp_path, cell) == ["1"]


def test_a_cell_is_interrupted_and_its_kernel_goes_on(managers, tmp_path):
    cells = "import time; time.sleep(60)", "print('next')"
    options = {"timeout": 1, "interrupt_on_timeout": True, "allow_errors": True}
    assert run(managers, tmp_path, *cells, **options) == ["", "next"]


def test_cells_that_fail_hang_or_end_the_kernel_are_reported(managers, tmp_path):
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(managers, tmp_path, "1 / 0")
    with pytest.raises(CellTimeoutError):
        run(managers, tmp_path, "import time; time.sleep(60)", timeout=1)
    with pytest.raises(DeadKernelError):
        run(managers, tmp_path, "import os; os._exit(1)")


def test_kernels_and_their_parent_end_with_the_context(tmp_path):
    with kernel_managers([]) as managers:
        text = run(managers, tmp_path, "import os; print(os.getpid(), os.getppid())")
        kernel, parent = map(int, text[0].split())
        assert psutil.pid_exists(parent) and not psutil.pid_exists(kernel)
    assert not psutil.pid_exists(parent)


def test_imports_of_two_pages_are_shared():
    codes = (
        "import numpy as np\nfrom posedu.book import timing\nimport torch",
        "import numpy\nfrom posedu.book.timing import ratios\ndef f(): import torch",
        "from posedu.book import figures\nfrom .near import x",
    )
    assert shared_imports(codes) == ["numpy", "posedu.book"]
    assert shared_imports(codes[:1]) == []
