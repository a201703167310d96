"""nbval forks its kernels, as when the book is built.

The notebooks' imports then take their time once.
"""

import contextlib
import functools
from pathlib import Path

import nbformat
import nbval.kernel
from jupyter_client import KernelManager

from posedu_sphinx.site.kernels import (
    kernel_managers,
    shared_imports,
)

running = contextlib.ExitStack()


@functools.cache
def managers():
    """Managers of kernels, with a process that forks."""
    codes, here = [], Path(__file__).parent
    for path in here.rglob("*.ipynb"):
        cells = nbformat.read(path, 4).cells
        code = [
            c.source for c in cells if c.cell_type == "code"
        ]
        codes.append("\n".join(code))
    forked = kernel_managers(
        shared_imports(codes), KernelManager
    )
    return running.enter_context(forked)


def pytest_configure():
    """Have nbval start kernels by ``managers``."""
    nbval.kernel.KernelManager = lambda **of: managers()(
        **of
    )


def pytest_unconfigure():
    """End the process that forks."""
    running.close()
