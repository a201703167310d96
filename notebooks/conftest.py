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
    code_of,
    kernel_managers,
    shared_imports,
)

running = contextlib.ExitStack()


@functools.cache
def managers():
    """Managers of kernels, with a process that forks."""
    paths = Path(__file__).parent.rglob("*.ipynb")
    codes = [code_of(nbformat.read(p, 4)) for p in paths]
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
