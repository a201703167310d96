"""The part of posedu that a notebook for download carries, as text.

A notebook carries the modules of posedu that its code imports, directly or not, and the
pure-Python packages beyond Colab's own that these import. So that the notebook stays
small, docstrings, comments and most annotations are left out, and of the interactive
figures and the tools only those are carried that the notebook uses.
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

import grimp
from IPython.core.inputtransformer2 import TransformerManager

import posedu
from posedu.book.provenance import commit

PACKAGE = Path(posedu.__file__).parent

FIGURES = "posedu.book.explorables"
COLLECTIONS = (FIGURES, "posedu.tools", "posedu.tools.configs")
"""Packages that import what they offer; a notebook carries what it uses of them."""

GGUF = {"posedu.tools.configs._gguf", "posedu.tools.configs._gguf_file"}
"""Modules for files that no notebook reads, imported on use and not carried."""

# Packages that a fresh Colab may lack, with the distributions that hold them.
BROUGHT = {"jaxtyping": ("jaxtyping", "wadler_lindig"), "lark": ("lark",)}
# Files of the parts of the library, and of other packages.
LIBRARY = re.compile(r"posedu/(?:numpy|sympy|torch)/|(?!posedu)")

SMALLEST = {
    "id": lzma.FILTER_LZMA2,
    "preset": 9 | lzma.PRESET_EXTREME,
    **{"lc": 4, "lp": 0, "pb": 0},  # for text, which is not aligned
}
KEPT = {"LICENSE", "METADATA"}  # files of a distribution, besides its code


@functools.cache
def _graph():
    return grimp.build_graph(
        "posedu",
        include_external_packages=True,
        exclude_type_checking_imports=True,
        cache_dir=None,
    )


def needed(code, also=()):
    """Return the names of the modules that code of a notebook needs, as a frozenset.

    They are modules of posedu and top-level names of other packages: what ``code``
    imports, the modules ``also``, and all that these import.
    """
    imported = {*_imported(TransformerManager().transform_cell(code))}
    used = {
        one.module
        for package in COLLECTIONS
        for one in _offered(package)
        if imported & {*_names(package, one)}
    }
    found, waiting = set(), {*also, *used, *_graph().modules & imported}
    while waiting:
        module = waiting.pop()
        found.add(module)
        parts = module.split(".")
        waiting |= {".".join(parts[:count]) for count in range(1, len(parts))}
        if module not in COLLECTIONS:
            waiting |= _graph().find_modules_directly_imported_by(module)
        waiting -= found | GGUF
    return frozenset(found)


def _imported(code):
    """Yield the names that code imports; ``from a import b`` gives a and a.b."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def _offered(package):
    """Return the import statements of a collection's ``__init__``, as syntax trees."""
    tree = ast.parse(_file(package).read_text("utf-8"))
    return [node for node in tree.body if isinstance(node, ast.ImportFrom)]


def _names(package, offered):
    return (f"{package}.{alias.name}" for alias in offered.names)


def _data(package, modules):
    """Return a package's files that are not Python, without unused figures' scripts."""
    files = sorted(_file(package).parent.glob("*.*"))
    unused = {
        _file(one.module).stem for one in _offered(FIGURES) if one.module not in modules
    }
    is_figures = package == FIGURES
    return [
        p
        for p in files
        if p.suffix != ".py"
        and not (is_figures and p.stem in unused)
        and p.name != "gguf.json"
    ]


def _file(module):
    path = PACKAGE.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def package(modules, address):
    """Return the modules of a frozenset as text, in two parts: see :func:`packed`.

    The first part is the library with the packages that it needs, the same in many
    notebooks, so that the archive of the site can store it once.
    With them go the other files of their folders, such as scripts of figures, and the
    metadata of posedu, which name the repository's ``address`` and the git commit, as
    pip's metadata do for a package that is installed from git.
    """
    files = {}
    for module in sorted(m for m in modules if m.partition(".")[0] == "posedu"):
        path = _file(module)
        files[path] = without_annotations(shortened(path.read_text("utf-8")))
        if path.stem == "__init__":
            files |= {p: p.read_bytes() for p in _data(module, modules)}
    for collection in modules.intersection(COLLECTIONS):
        used = (ast.unparse(o) for o in _offered(collection) if o.module in modules)
        files[_file(collection)] = "\n".join(used)
    named = {str(p.relative_to(PACKAGE.parent)): text for p, text in files.items()}
    for name in sorted(modules & BROUGHT.keys()):
        for distribution in map(metadata.distribution, BROUGHT[name]):
            for file in distribution.files:
                if file.name in KEPT or file.suffix in (".py", ".lark"):
                    named[str(file)] = _content(file)
    info = f"posedu-{posedu.__version__}.dist-info"
    head = f"Metadata-Version: 2.1\nName: posedu\nVersion: {posedu.__version__}\n"
    origin = {"url": address, "vcs_info": {"vcs": "git", "commit_id": commit()}}
    named[f"{info}/METADATA"] = head
    named[f"{info}/direct_url.json"] = json.dumps(origin)
    library = {name for name in named if LIBRARY.match(name)}
    parts = library, named.keys() - library
    return " ".join(packed({n: named[n] for n in named if n in p}) for p in parts if p)


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
    tree = ast.parse(source)
    for node in ast.walk(tree):
        has_docstring = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if has_docstring and ast.get_docstring(node) is not None:
            node.body[0].value.value = ""
    return ast.unparse(tree)


def without_annotations(source):
    """Return Python source without the annotations of functions that nothing reads.

    Those of functions and classes with the decorator ``check_types`` stay, and those of
    a module that makes operators of PyTorch, which have the types of their functions.
    """
    if "custom_op" in source:
        return source
    tree = ast.parse(source)
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
    return ast.unparse(tree)
