"""The package posedu as text, for notebooks where it is not installed.

The site has one such package, :data:`NAME`, without the exercises' solutions and tests,
the projects and the explorables: these are parts of their own. With the pure-Python
packages beyond Colab's own, and without docstrings, comments and most annotations, it
is small.
"""

import ast
import base64
import functools
import io
import json
import lzma
import re
import zipfile
from importlib import metadata
from pathlib import Path

import posedu
from posedu.book import explorables
from posedu.book.exercises import sheets
from posedu.book.projects import projects
from posedu.book.provenance import commit

NAME = "posedu-package.txt"  # in the site's folder of sources
PACKAGE = Path(posedu.__file__).parent
EXPLORABLES = "posedu/book/explorables/"
PROJECTS = "posedu/book/projects/"
SOLUTIONS = f"{PROJECTS}solutions/"
# What no notebook reads. Sheets of exercises, projects and explorables go apart.
LEFT_OUT = (
    *("posedu/command/", "posedu/book/model_gallery"),
    "posedu/book/experiments/live_models",
)

# Distributions that a fresh Colab may lack.
BROUGHT = ("jaxtyping", "wadler_lindig", "lark")

SMALLEST = {
    "id": lzma.FILTER_LZMA2,
    "preset": 9 | lzma.PRESET_EXTREME,
    **{"lc": 4, "lp": 0, "pb": 0},  # for text, which is not aligned
}
KEPT = {"LICENSE", "METADATA"}  # files of a distribution, besides its code


@functools.cache
def package(address):
    """Return posedu without exercises, projects and explorables, as text.

    The text is that of :func:`packed`. With it go the packages that posedu needs, and
    its metadata, which name the repository's ``address`` and the git commit, as pip's
    metadata do for a package that is installed from git.
    """
    apart = (*map(_file, sheets().values()), PROJECTS, *LEFT_OUT)
    files = {
        n: shipped(p)
        for n, p in _files()
        if not n.startswith(apart) and _of_explorable(n) in ("", "__init__", "frame")
    }
    for distribution in map(metadata.distribution, BROUGHT):
        for file in distribution.files:
            if file.name in KEPT or file.suffix in (".py", ".lark"):
                files[str(file)] = _content(file)
    info = f"posedu-{posedu.__version__}.dist-info"
    head = f"Metadata-Version: 2.1\nName: posedu\nVersion: {posedu.__version__}\n"
    origin = {"url": address, "vcs_info": {"vcs": "git", "commit_id": commit()}}
    files[f"{info}/METADATA"] = head
    files[f"{info}/direct_url.json"] = json.dumps(origin)
    return packed(files)


def sheet(name):
    """Return the module with the exercises of a page: see :func:`packed`.

    ``name`` is the last part of the page's name.
    """
    file = _file(sheets()[name])
    return packed({file: shipped(PACKAGE.parent / file)})


def explorables_in(code):
    """Return the explorables that Python code calls, "" for none: see :func:`packed`.

    An explorable is an interactive figure: a module and a script of the same name.
    """
    names = {*re.findall(r"\b\w+_explorable\b", code)} & {*explorables.__all__}
    called = {*map(explorables.module_of, names)}
    files = {n: shipped(p) for n, p in _files() if _of_explorable(n) in called}
    return packed(files) if files else ""


def _of_explorable(name):
    """Return the explorable, or other module, of a file of that folder; else ""."""
    is_one = name.startswith(EXPLORABLES)
    return name.removeprefix(EXPLORABLES).partition(".")[0] if is_one else ""


@functools.cache
def project(name):
    """Return the files of a project, and those that all projects share, as text.

    Its solutions are left out. The text is that of :func:`packed`; ``name`` is the last
    part of the notebook's name, and no other notebook has these files.
    """
    apart = {other.replace("-", "_") for other in projects() if other != name}
    files = {}
    for file, path in _files():
        is_shared = file.startswith(PROJECTS) and path.stem not in apart
        if is_shared and not file.startswith(SOLUTIONS):
            files[file] = shipped(path)
    return packed(files)


@functools.cache
def _files():
    """Return the package's files: pairs of a name in the package and a path."""
    return [
        (path.relative_to(PACKAGE.parent).as_posix(), path)
        for path in sorted(PACKAGE.rglob("*.*"))
        if path.is_file() and path.suffix != ".pyc"
    ]


def _file(module):
    return module.replace(".", "/") + ".py"


@functools.cache
def shipped(path):
    """Return a file's content, with what its users do not need left out of its code.

    A module that makes operators of PyTorch keeps its annotations: the operators have
    the types of their functions.
    """
    if path.suffix != ".py":
        return path.read_bytes()
    source = path.read_text("utf-8")
    tree = _without_docstrings(ast.parse(source))
    return ast.unparse(tree if "custom_op" in source else _without_annotations(tree))


def _content(file):
    """Return a distribution's file: its code shortened, its description left out."""
    text = file.read_text("utf-8")
    if file.suffix == ".py":
        return shortened(text)
    return text.partition("\n\n")[0] + "\n" if file.name == "METADATA" else text


def packed(files):
    """Return files as text: base85 of a zip file, compressed as a whole.

    ``files`` maps their names to their contents.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return base64.b85encode(
        lzma.compress(buffer.getvalue(), filters=[SMALLEST])
    ).decode()


def shortened(source):
    """Return Python source without comments and docstrings."""
    return ast.unparse(_without_docstrings(ast.parse(source)))


def _without_docstrings(tree):
    for node in ast.walk(tree):
        has_docstring = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if has_docstring and ast.get_docstring(node) is not None:
            node.body[0].value.value = ""
    return tree


def _without_annotations(tree):
    """Remove the annotations of functions that nothing reads.

    Those of functions and classes with the decorator ``check_types`` stay.
    """
    nodes = [*ast.walk(tree)]
    kept = {
        inner
        for node in nodes
        if "check_types" in map(ast.unparse, getattr(node, "decorator_list", ()))
        for inner in ast.walk(node)
    }
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node not in kept:
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
    return tree
