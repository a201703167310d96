"""Exercise notebooks, set-up cells, and notebook copies with the package inside.

``python -m posedu_sphinx.exercises.notebooks`` writes the learner's notebook of every
chapter's exercises, and the set-up cell of the labs (notebooks to experiment in). With
``--check`` it only lists the notebooks that are out of date; with ``--solved`` it
writes the solved notebooks, which are not committed; with ``--execute PATH…`` it runs
labs and stores the outputs of those cells that nbval, a pytest plugin, compares.
"""

import base64
import functools
import io
import json
import os
import re
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell

import posedu
from posedu.book.exercises import sheets
from posedu.book.exercises.records import without_roles
from posedu.book.provenance import commit
from posedu_sphinx import ROOT
from posedu_sphinx.exercises import exercise_list
from posedu_sphinx.exercises.exercise_list import CHECKED, KERNEL

NOTEBOOKS = ROOT / "notebooks"
EXERCISES = NOTEBOOKS / "exercises"
SOLVED = EXERCISES / "solved"

SETUP = """\
# Set-up: where posedu is installed, as in the project's own
# folder, this does nothing.
import base64
import importlib.util
import io
import subprocess
import sys
import zipfile

ADDRESS = "{address}"  # where posedu is published
PACKAGE = ""  # the copy for download carries posedu here

if importlib.util.find_spec("posedu") is None:
    if PACKAGE:
        data = io.BytesIO(base64.b64decode(PACKAGE))
        zipfile.ZipFile(data).extractall("posedu-carried")
        sys.path.append("posedu-carried")
    elif ADDRESS:
        pip = [sys.executable, "-m", "pip", "install"]
        source = f"posedu[book] @ git+{{ADDRESS}}"
        done = subprocess.run([*pip, "--quiet", source])
        if done.returncode:
            raise RuntimeError(
                "pip could not install posedu from "
                f"{{ADDRESS}}: its message is above. "
                "Is there a connection to the internet?"
            )
    else:
        raise RuntimeError(
            "posedu is not installed, and this copy of the "
            "notebook does not carry it. Download the "
            "notebook from the book's website, or run "
            "`pip install .` in the project's folder."
        )
    importlib.invalidate_caches()"""

# Pure-Python dependencies that a fresh Colab may lack.
BUNDLED_DISTRIBUTIONS = ("jaxtyping", "wadler_lindig", "lark")

PAGE = """\
# The checks read their equations from the text of this page:
# it is included too.
import os

PAGE = "{page}"
sys.path[:] = map(os.path.abspath, sys.path)
data = io.BytesIO(base64.b64decode(PAGE))
zipfile.ZipFile(data).extractall("posedu-page")
os.chdir("posedu-page/{folder}")"""
DIRECTIVE = re.compile(r"^(`{3,}|:{3,})\{[\w:-]+\} *(.*)\n(?::[\w-]+:.*\n)*", re.M)
FENCE = re.compile(r"^(?:`{3,}|:{3,})$\n?", re.M)
MACROS = {  # of _config.yml, which Jupyter doesn't know
    "R": r"\mathbb{R}",
    "PE": r"\mathrm{PE}",
    "softmax": r"\operatorname{softmax}",
    "diag": r"\operatorname{diag}",
}
MACRO = re.compile(rf"\\({'|'.join(MACROS)})(?![A-Za-z])")
DATA = re.compile(r"\.\./(?:data|\.\./tests/oracles)/[\w-]+\.(?:json|toml)")


def setup_cell(address):
    """Return the notebook cell that installs posedu if it is missing.

    ``address`` is the URL of the repository from which pip installs; empty if there is
    none.
    """
    cell = new_code_cell(SETUP.format(address=address))
    cell.metadata.tags = ["setup", "hide-input"]
    return cell


def set_up(notebook, address):
    """Set a notebook's kernel and set-up cell in place; return the notebook.

    The set-up cell installs posedu from the repository's ``address``.

    Raises
    ------
    ValueError
        If the notebook has no cell with the tag ``setup``.
    """
    notebook.metadata.update(KERNEL)
    for cell in notebook.cells:
        if "setup" in cell.metadata.get("tags", []):
            cell.update(setup_cell(address) | {"id": cell.id})
            return notebook
    raise ValueError("a notebook needs a cell tagged 'setup'; this one has none")


def execute(path):
    """Run the notebook file ``path``; store the outputs of only some cells in it.

    They are the cells that nbval compares, a pytest plugin that runs notebooks.
    """
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=600, resources=resources).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            if CHECKED not in cell.metadata.get("tags", []):
                cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, path)


def self_contained(notebook):
    """Return a copy of a notebook that carries posedu and needs no installation.

    The package is a zip archive, as base64 text, in the source of the set-up cell.
    """
    notebook = nbformat.from_dict(notebook)
    package = base64.b64encode(_archive()).decode()
    for cell in notebook.cells:
        if "setup" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace('PACKAGE = ""', f'PACKAGE = "{package}"')
    return notebook


def from_page(path, cells):
    """Return a chapter's page as a notebook that carries posedu and the page's source.

    ``path`` is the page's file, ``cells`` are its cells. Both posedu and the page (with
    the data files that it reads) are zip archives, as base64 text, in the notebook's
    first two cells. Directives become their titles and contents, since Jupyter does not
    know them.
    """
    name = path.relative_to(ROOT)
    files = [path, *(Path(os.path.normpath(path.parent / f)) for f in _data(cells))]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(ROOT))
    page = base64.b64encode(buffer.getvalue()).decode()
    own = new_code_cell(PAGE.format(page=page, folder=name.parent.as_posix()))
    own.metadata.tags = ["hide-input"]
    notebook = nbformat.v4.new_notebook(metadata=KERNEL)
    notebook.cells = [setup_cell(address()), own]
    for cell in cells:
        if cell.cell_type == "markdown":
            notebook.cells.append(new_markdown_cell(plain(cell.source)))
        else:
            notebook.cells.append(new_code_cell(cell.source))
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{path.stem}-{number}"
    return self_contained(notebook)


def _data(cells):
    """Return the files of ``book/data`` and ``tests/oracles`` that a page's cells read.

    They are relative to the page's folder, and the keys of a dict, in order; empty if
    no cell reads a file.
    """
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return dict.fromkeys(DATA.findall(code))


def plain(markdown):
    """Return Markdown with directives and roles replaced by their text."""
    text = MACRO.sub(lambda m: MACROS[m[1]], markdown)
    text = DIRECTIVE.sub(lambda m: f"**{m[2]}**\n" if m[2] else "\n", text)
    return without_roles(FENCE.sub("", text))


@functools.cache
def _archive():
    """Return the bytes of a zip file with posedu and the packages that it needs.

    These packages are pure Python; their licenses are included. The archive's metadata
    of posedu names the git commit, as pip's metadata does for a package installed from
    git.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        source = Path(posedu.__file__).parent
        for path in sorted(source.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(source.parent))
        info = f"posedu-{posedu.__version__}.dist-info"
        head = f"Metadata-Version: 2.1\nName: posedu\nVersion: {posedu.__version__}\n"
        archive.writestr(f"{info}/METADATA", head)
        origin = {"url": address(), "vcs_info": {"vcs": "git", "commit_id": commit()}}
        archive.writestr(f"{info}/direct_url.json", json.dumps(origin))
        for name in BUNDLED_DISTRIBUTIONS:
            distribution = metadata.distribution(name)
            for file in distribution.files:
                if file.suffix != ".pyc" and ".." not in file.parts:
                    archive.write(file.locate(), str(file))
    return buffer.getvalue()


def address():
    """Return the repository's address from ``_config.yml``; empty if there is none."""
    return re.search(
        r'^  url: "(.*)"$', (ROOT / "_config.yml").read_text("utf-8"), re.M
    )[1]


def paths():
    """Return the paths of committed notebooks: the labs, then learners' exercises.

    A lab is a notebook to experiment in.
    """
    return [*sorted(NOTEBOOKS.glob("*.ipynb")), *_of_sheets(EXERCISES)]


def solved_paths():
    """Return the paths of solved notebooks, made for a test and not committed."""
    return _of_sheets(SOLVED)


def _of_sheets(folder):
    return [folder / f"{chapter}.ipynb" for chapter in sheets()]


def expected_text(path):
    """Return the text (JSON) that the notebook at ``path`` should have.

    A notebook of exercises is made anew; a lab (a notebook to experiment in) keeps its
    cells except for the set-up cell.
    """
    here = address()
    if path.parent == NOTEBOOKS:
        notebook = set_up(nbformat.read(path, as_version=4), here)
    else:
        make = exercise_list.solved if path.parent == SOLVED else exercise_list.student
        notebook = make(path.stem, setup_cell(here))
    return nbformat.writes(notebook) + "\n"


def main():
    """Write the notebooks that are out of date, list them, or execute labs.

    The command's options decide which. Return True if ``--check`` found a notebook out
    of date, else False.
    """
    if "--execute" in sys.argv:
        for name in sys.argv[sys.argv.index("--execute") + 1 :]:
            print("executing", name, flush=True)
            execute(Path(name).resolve())
    stale = []
    SOLVED.mkdir(exist_ok=True)
    for path in solved_paths() if "--solved" in sys.argv else paths():
        text = expected_text(path)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    for path in stale:
        verb = "out of date:" if "--check" in sys.argv else "wrote"
        print(verb, path.relative_to(ROOT))
    return bool(stale) and "--check" in sys.argv


if __name__ == "__main__":
    sys.exit(main())
