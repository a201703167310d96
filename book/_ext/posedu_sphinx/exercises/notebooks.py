"""Exercise notebooks, set-up cells, and notebook copies with the package inside.

``python -m posedu_sphinx.exercises.notebooks`` writes the learner's notebook of every
chapter's exercises, and the set-up cell of the labs (notebooks to experiment in). With
``--check`` it only lists the notebooks that are out of date; with ``--solved`` it
writes the solved notebooks, too, which are not committed; with ``--execute PATH…`` it
runs labs and stores the outputs of those cells that nbval, a pytest plugin, compares.
"""

import os
import re
import sys
from itertools import chain
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell

from posedu.book.exercises import sheets
from posedu_sphinx import ROOT
from posedu_sphinx.exercises import carried, exercise_list
from posedu_sphinx.exercises.exercise_list import CHECKED, KERNEL
from posedu_sphinx.exercises.head import placed
from posedu_sphinx.navigation.contents import SHEETS

NOTEBOOKS = ROOT / "notebooks"
PROJECTS = NOTEBOOKS / "projects"
EXERCISES = NOTEBOOKS / "exercises"
SOLVED = EXERCISES / "solved"

VALID = re.compile(r"https://github\.com/([a-zA-Z\d-]+/[a-zA-Z\d_-][a-zA-Z\d_.-]*)")

TITLE = "# @title Set-up: posedu, where it is not installed\n"  # Colab shows it

INSTALL = """\
try:
    import posedu
except ModuleNotFoundError:
    %pip install --quiet "posedu[book] @ git+{address}"
    import posedu  # if it is missing, pip says why"""

MISSING = """\
import importlib.util

if importlib.util.find_spec("posedu") is None:
    raise RuntimeError(
        "posedu is not installed, and this copy of the "
        "notebook does not carry it. Download the "
        "notebook from the book's website, or run "
        "`pip install .` in the project's folder."
    )"""

CARRIED = """\
import base64
import importlib.util
import io
import lzma
import sys
import zipfile
from pathlib import Path

PACKAGE = "{package}"
OWN = "{own}"


def unpack(text, folder):
    data = lzma.decompress(base64.b85decode(text))
    zipfile.ZipFile(io.BytesIO(data)).extractall(folder)


def package_beside():
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "{name}").exists():
            return (folder / "{name}").read_text()
    raise RuntimeError(
        "posedu is not installed, and this copy of the "
        "notebook does not carry it. Put {name} "
        "beside the notebook: the book's website has it, "
        "in the folder _sources."
    )


if importlib.util.find_spec("posedu") is None:
    text = f"{{PACKAGE or package_beside()}} {{OWN}}"
    for part in text.split():
        unpack(part, "{folder}")
    sys.path.append("{folder}")"""

PAGE = """\
# The checks read their equations from the text of this page:
# it is included too, as are the measurements that it reads.
import base64
import io
import lzma
import os
import sys
import zipfile
from pathlib import Path

PAGE = ""
DATA = "{data}"

sys.path[:] = map(os.path.abspath, sys.path)
page = Path("posedu-page/{name}")
page.parent.mkdir(parents=True, exist_ok=True)
page.write_text(PAGE, "utf-8")
if DATA:
    data = lzma.decompress(base64.b85decode(DATA))
    zipfile.ZipFile(io.BytesIO(data)).extractall("posedu-page")
os.chdir(page.parent)"""
WITHOUT_CELLS = """\
The page's cells are missing in this copy.
The website puts them in when its link is clicked in a browser with scripts.
`{name}` has them, too: Jupyter opens it as a notebook where Jupytext is installed."""
DATA = re.compile(r"\.\./(?:data|\.\./tests/oracles)/[\w-]+\.(?:json|toml)")


def setup_cell(address, source=""):
    """Return the notebook cell that makes posedu importable.

    ``address`` is the URL of the repository from which pip installs; empty if there is
    none. ``source`` is the cell's code; by default it installs from the address, or
    says that posedu is missing. Colab and Jupyter show the cell folded.
    """
    source = source or (INSTALL.format(address=address) if address else MISSING)
    cell = new_code_cell(TITLE + source)
    cell.metadata.update(
        tags=["setup", "hide-input"],
        cellView="form",
        jupyter={"source_hidden": True},
    )
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


def self_contained(notebook, page, package=None, code=None):
    """Return a copy of the notebook of a page that needs no other file.

    If the repository has an address, the set-up cell installs posedu from it; else it
    carries posedu, or the text ``package`` in its place: with "" the cell reads the
    file :data:`posedu_sphinx.exercises.carried.NAME` beside the notebook. Links lead
    to the published pages if there is an address; else they are replaced by their
    text. ``page`` is the page's name, ``code`` the code that decides which parts of
    posedu go with it, by default that of the notebook.
    """
    notebook = nbformat.from_dict(notebook)
    site, name = published(address()), page.rpartition("/")[2]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = placed(cell.source, page, site)
    if not address():
        own = CARRIED.format(
            package=carried.package(address()) if package is None else package,
            own=_own_parts(name, _code(notebook.cells) if code is None else code),
            folder=f"posedu-carried/{name}",
            name=carried.NAME,
        )
        for cell in notebook.cells:
            if "setup" in cell.metadata.get("tags", []):
                cell.source = setup_cell("", own).source
    return notebook


def _own_parts(name, code):
    """Return the parts of posedu that no other notebook needs, separated by spaces."""
    parts = [carried.explorables_in(code)]
    if "posedu.book.projects" in code:
        parts.append(carried.project(name))
    if f'check("{name}-' in code:
        parts.append(carried.sheet(name))
    return " ".join(filter(None, parts))


def _code(cells):
    own = (c for c in cells if "setup" not in c.metadata.get("tags", []))
    return "\n".join(cell.source for cell in own if cell.cell_type == "code")


def of_page(path, cells):
    """Return the notebook of a chapter's page before its cells are in it.

    ``path`` is the page's file, ``cells`` are its cells. The notebook sets up posedu
    and has the data files that the cells read. ``book/_static/download.js`` adds the
    package and the page's text and cells when a reader downloads it, and then leaves
    out the last cell, which says that they are missing.
    """
    name = path.relative_to(ROOT)
    files = {}
    for data in _data(cells):
        file = Path(os.path.normpath(path.parent / data))
        files[str(file.relative_to(ROOT))] = file.read_bytes()
    data = carried.packed(files) if files else ""
    own = new_code_cell(PAGE.format(data=data, name=name.as_posix()))
    own.metadata.tags = ["hide-input"]
    cells_of_page = [setup_cell(address()), own]
    notebook = nbformat.v4.new_notebook(cells=cells_of_page, metadata=KERNEL)
    notebook = self_contained(notebook, path.stem, "", code=_code(cells))
    notebook.cells.append(new_markdown_cell(WITHOUT_CELLS.format(name=path.name)))
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{path.stem}-{number}"
    notebook.metadata["posedu"] = {"page": name.as_posix()}
    return notebook


def _data(cells):
    """Return the files of ``book/data`` and ``tests/oracles`` that a page's cells read.

    They are relative to the page's folder, and the keys of a dict, in order; empty if
    no cell reads a file.
    """
    return dict.fromkeys(DATA.findall(_code(cells)))


def address():
    """Return the repository's address from ``_config.yml``; empty if there is none."""
    return re.search(
        r'^  url: "(.*)"$', (ROOT / "_config.yml").read_text("utf-8"), re.M
    )[1]


def published(url):
    """Return the address of a repository's GitHub Pages.

    ``url`` is the repository's address on GitHub; any other text, such as "", gives "".
    """
    valid = VALID.fullmatch(url)
    if not valid:
        return ""
    owner, name = valid[1].split("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def paths():
    """Return the paths of committed notebooks: labs, projects, learners' exercises.

    A lab is a notebook to experiment in.
    """
    written = (sorted(folder.glob("*.ipynb")) for folder in (NOTEBOOKS, PROJECTS))
    return [*chain.from_iterable(written), *_of_sheets(EXERCISES)]


def solved_paths():
    """Return the paths of solved notebooks, made for a test and not committed."""
    return _of_sheets(SOLVED)


def _of_sheets(folder):
    return [folder / f"{chapter}.ipynb" for chapter in sheets()]


def expected_text(path):
    """Return the text (JSON) that the notebook at ``path`` should have.

    A notebook of exercises is made anew; a lab (a notebook to experiment in) and a
    project keep their cells except for the set-up cell.
    """
    here = address()
    if path.parent in (NOTEBOOKS, PROJECTS):
        notebook = set_up(nbformat.read(path, as_version=4), here)
    else:
        make = exercise_list.solved if path.parent == SOLVED else exercise_list.student
        notebook = make(path.stem, setup_cell(here))
        if site := published(here):
            cell = notebook.cells[0]
            cell.source = placed(cell.source, f"{SHEETS}{path.stem}", site)
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
    solved = solved_paths() if "--solved" in sys.argv else []
    for path in [*paths(), *solved]:
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
