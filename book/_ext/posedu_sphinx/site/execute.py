"""Run the book's pages in parallel, and again only when one of their inputs changed.

Sphinx would run the pages one after another. This module puts executed pages into the
cache that Sphinx reads, so that Sphinx runs none. That cache identifies a page by its
cells alone. A page's other inputs are the modules of posedu that it imports, the data
files that it reads, and its displayed equations, which its checks read; a hash of them
is stored next to the cache. ``python -m posedu_sphinx.site.execute`` runs the pages.
"""

import ast
import functools
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import psutil
import yaml
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from myst_nb.core.config import NbParserConfig
from myst_nb.core.read import create_nb_reader
from myst_parser.config.main import MdParserConfig
from nbclient import NotebookClient
from tqdm import tqdm

from posedu_sphinx import ROOT
from posedu_sphinx.navigation.contents import documents
from posedu_sphinx.site.kernels import code_of, kernel_managers, shared_imports

# Packages whose modules the catalog's records import by name.
IMPLEMENTATIONS = ("posedu.numpy", "posedu.sympy", "posedu.torch")
# Files that cells and modules of posedu read.
DATA = (
    *("book/data/*", "tests/oracles/*.json", "tests/oracles/*.gz"),
    *("posedu/**/*.json", "posedu/**/*.toml", "posedu/**/*.js", "posedu/**/*.css"),
)
TIMEOUT = 600  # seconds for a cell
SLOWEST = 10  # pages that are listed
DISPLAY = re.compile(r"^\$\$.*?^\$\$ \(eq-[\w-]+\)", re.DOTALL | re.MULTILINE)


def run_pages(root=ROOT, workers=None) -> bool:
    """Run the pages whose inputs changed; return whether all their cells succeeded.

    ``root`` is the repository's folder; ``workers`` is the number of pages that run at
    a time, by default one per core. If a page ran, the slowest pages are printed.
    """
    folder = root / "_build"
    cache = get_cache(folder / ".jupyter_cache")
    known = _load(folder / "executed.json")
    waiting, failed, seconds = {}, [], {}
    for name, path in pages(root):
        notebook = read(path)
        if notebook is None or _is_excluded(name, root):
            continue
        if _may_fail(notebook):
            failed.append(name)
            refusal = "no cell may have the tag raises-exception"
            print(f"{name}: {refusal}; show the error with try", file=sys.stderr)
            continue
        digest = fingerprint(path, notebook, root)
        record = _match(cache, notebook)
        if record is not None and known.get(name) == digest:
            seconds[name] = record.data.get("cpu_seconds", 0.0)
            continue
        if record is not None:
            cache.remove_cache(record.pk)
        known.pop(name, None)
        waiting[name] = path, notebook, digest
    _save(folder / "executed.json", known)
    if not waiting:
        return not failed
    workers = workers or _cores()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // workers)))
    codes = {name: code_of(notebook) for name, (_, notebook, _) in waiting.items()}
    with (
        kernel_managers(shared_imports(codes.values())) as managers,
        ThreadPoolExecutor(workers) as pool,
        tqdm(total=len(waiting), desc="pages", unit="page") as bar,
    ):
        longest = sorted(waiting, key=lambda name: -len(codes[name]))
        runs = {pool.submit(_run, *waiting[n][:2], managers): n for n in longest}
        for run in as_completed(runs):
            name = runs[run]
            path, notebook, digest = waiting[name]
            bar.update()
            try:
                wall, seconds[name] = run.result()
            except Exception as error:  # of a cell, or of a kernel that did not start
                failed.append(name)
                bar.write(f"{name} failed:\n{error}", file=sys.stderr)
                continue
            data = {"execution_seconds": wall, "cpu_seconds": seconds[name]}
            bundle = CacheBundleIn(notebook, str(path), data=data)
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
            known[name] = digest
            _save(folder / "executed.json", known)
            bar.write(f"{seconds[name]:6.1f} CPU-s  {name}")
    slowest = sorted(seconds, key=seconds.get, reverse=True)[:SLOWEST]
    print(f"The slowest of {len(seconds)} pages ({sum(seconds.values()):.0f} CPU-s):")
    for name in slowest:
        print(f"{seconds[name]:6.1f} CPU-s  {name}")
    return not failed


def pages(root=ROOT) -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each page in the book's table of contents.

    ``root`` is the repository's folder. Pages without a file are left out.
    """
    for name in documents(root):
        for ending in (".md", ".ipynb"):
            if (root / f"{name}{ending}").exists():
                yield name, root / f"{name}{ending}"


def _is_excluded(name: str, root: Path) -> bool:
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    patterns = settings["execute"].get("exclude_patterns", ())
    return any(Path(name).match(pattern) for pattern in patterns)


def read(path: Path):
    """Read a page as a notebook, as MyST-NB does; None if the page has no cells."""
    text = path.read_text(encoding="utf-8")
    reader = create_nb_reader(str(path), MdParserConfig(), NbParserConfig(), text)
    return None if reader is None else reader.read(text)


def _may_fail(notebook) -> bool:
    tags = (cell.metadata.get("tags", ()) for cell in notebook.cells)
    return any("raises-exception" in of_cell for of_cell in tags)


def _run(path: Path, notebook, managers: type) -> tuple[float, float]:
    """Run a page's cells; return the elapsed seconds and the kernel's CPU-seconds.

    ``managers`` is the class of the kernel's manager.
    """
    cpu = 0.0

    def note(**_):
        nonlocal cpu
        cpu = sum(psutil.Process(client.km.provisioner.pid).cpu_times()[:4])

    client = NotebookClient(
        notebook,
        kernel_manager_class=managers,
        resources={"metadata": {"path": str(path.parent)}},
        timeout=TIMEOUT,
        record_timing=False,  # the cache would not find the page
        on_cell_executed=note,
        # Each kernel warns about encryption, which would break the progress bar.
        extra_arguments=["--IPKernelApp.log_level=40"],
    )
    start = time.perf_counter()
    client.execute()
    return time.perf_counter() - start, cpu


def _match(cache, notebook):
    try:
        return cache.match_cache_notebook(notebook)
    except KeyError:
        return None


def fingerprint(path: Path, notebook, root=ROOT) -> str:
    """Return a hash of what a page's outputs depend on other than the page's cells.

    ``path`` is the page's file, ``notebook`` the page read as a notebook.
    """
    code = code_of(notebook)
    used = [root / "requirements.txt", *modules_of(code, root)]
    used += _data_of(code, used, root)
    digest = hashlib.sha256(sys.version.encode())
    for display in DISPLAY.findall(path.read_text(encoding="utf-8")):
        digest.update(display.encode() + b"\0")
    for path in used:
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def _data_of(code: str, modules: list[Path], root: Path) -> list[Path]:
    """Return the data files that a page reads, directly or by its modules.

    They are files of ``DATA`` that are named in ``code`` or in a module's text, and
    those that are named like a module in their folder, as the script of an explorable.
    """
    texts = [code, *(path.read_text(encoding="utf-8") for path in modules)]
    named, beside = frozenset().union(*map(_words, texts)), {*modules}
    files = {path for pattern in DATA for path in root.glob(pattern)}
    return sorted(
        path
        for path in files
        if path.with_suffix(".py") in beside or path.name in named
    )


@functools.cache
def _words(text: str) -> frozenset[str]:
    """Return the words of a text, among them names of files."""
    return frozenset(re.findall(r"[\w.-]+", text))


def modules_of(code: str, root=ROOT) -> list[Path]:
    """Return the files of posedu that code imports, directly or indirectly.

    ``code`` is Python source, ``root`` the repository's folder. The list is empty if
    the code does not import posedu.
    """
    found, waiting = {}, list(_imported(ast.parse(code), root))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _file(name, root)
        waiting += _imports_of(found[name], root)
        if name == "posedu.catalog.records":
            for package in IMPLEMENTATIONS:
                waiting += _modules_in(package, root)
    return sorted(found.values())


@functools.cache
def _imports_of(path: Path, root: Path) -> tuple[str, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(_imported(tree, root))


def _imported(tree: ast.AST, root: Path) -> Iterator[str]:
    """Yield posedu's modules that import statements name, and their parent packages.

    ``tree`` is the syntax tree of Python code, ``root`` the repository's folder.
    """
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                module = ".".join(parts[:end])
                if parts[0] == "posedu" and _file(module, root) is not None:
                    yield module


def _file(module: str, root: Path) -> Path | None:
    path = root / Path(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return file
    return None


def _modules_in(package: str, root: Path) -> Iterator[str]:
    folder = root / Path(*package.split("."))
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _save(path: Path, known: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(not run_pages())
