"""Jupyter kernels that are forked from a process with the pages' imports in it.

A kernel of its own takes about two CPU-seconds to import PyTorch, SymPy and matplotlib,
before it runs a page's first cell. Here one process imports them, and forks a kernel
for each page. That process runs no page and starts no thread, so that a forked kernel
is in the state of a new one. This is done on Linux only: elsewhere system libraries do
not survive a fork.
"""

import ast
import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator

import psutil
from jupyter_client import AsyncKernelManager, KernelManager
from jupyter_client.provisioning import LocalProvisioner


class ForkedKernel(psutil.Process):
    """Process of a forked kernel, with the methods and attributes of a Popen object."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        """Return None while the process runs, then 0."""
        return None if self.is_running() else 0


def code_of(notebook) -> str:
    """Return the code of a notebook's cells."""
    cells = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    return "\n".join(cells)


def shared_imports(codes: Iterable[str]) -> list[str]:
    """Return the modules that at least two pages import, in order of their names.

    ``codes`` has each page's Python code. Imports inside of a function or condition do
    not count.
    """
    counts = Counter()
    for code in codes:
        names = set()
        for node in ast.parse(code).body:
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
        counts.update(names)
    return sorted(name for name, pages in counts.items() if pages > 1)


@contextlib.contextmanager
def kernel_managers(
    modules: Iterable[str], base: type[KernelManager] = AsyncKernelManager
) -> Iterator[type[KernelManager]]:
    """Yield a class of kernel managers whose kernels have ``modules`` imported.

    All kernels are forked from one process, which ends with the context. ``base`` is
    the class of managers that it extends.
    """
    if sys.platform != "linux":
        yield base
        return
    command = [sys.executable, "-m", __name__, *modules]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    lock = threading.Lock()
    with subprocess.Popen(
        command, **pipes, text=True, start_new_session=True
    ) as forking:

        class Provisioner(LocalProvisioner):
            """Start of a kernel by a fork."""

            async def launch_kernel(self, cmd, *, cwd, env, **_):
                """Fork a kernel with the arguments of ``cmd``, in the folder ``cwd``.

                ``env`` is its environment. Return how to connect to the kernel.

                Raises
                ------
                RuntimeError
                    The process that forks kernels has ended.
                """
                arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
                job = {"arguments": arguments, "folder": cwd, "environment": env}
                with lock:
                    print(json.dumps(job), file=forking.stdin, flush=True)
                    reply = forking.stdout.readline()
                if not reply:
                    raise RuntimeError("the process that forks kernels has ended")
                self.process = ForkedKernel(int(reply))
                self.pid = self.pgid = self.process.pid
                self.cwd = cwd
                return self.connection_info

        class Manager(base):
            """Kernel manager that starts kernels by a fork."""

            def __init__(self, **options):
                super().__init__(**options)
                self.provisioner = Provisioner(
                    parent=self, kernel_spec=self.kernel_spec
                )

        yield Manager


def fork_kernels(modules: Iterable[str]) -> None:
    """Import ``modules``, then fork a kernel for each line of the standard input.

    A line is a JSON object with the kernel's arguments, folder and environment. The
    kernel's process number is printed. A module that cannot be imported is left out:
    the pages that import it report the error.
    """
    if sys.path[0] == os.getcwd():
        del sys.path[0]
    # As ipykernel sets it, but before matplotlib reads it.
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    for name in ("ipykernel.kernelapp", *modules):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            run_kernel(**json.loads(line))
        print(process, flush=True)


def _reap(*_) -> None:
    """Remove processes of kernels that have ended; their times are added to ours."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def run_kernel(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run a kernel in this process, a fork; end the process with it.

    ``arguments`` are ipykernel's, ``folder`` is the kernel's working directory. Random
    numbers of NumPy start anew, as Python's own do after any fork.
    """
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.chdir(folder)
    os.environ.update(environment)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    parent = f"--IPKernelApp.parent_handle={os.getppid()}"  # the kernel ends with it
    IPKernelApp.launch_instance([*arguments, parent])
    sys.exit()


if __name__ == "__main__":
    fork_kernels(sys.argv[1:])
