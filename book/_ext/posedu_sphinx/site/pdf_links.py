"""Links to the book as PDF, where ``make pdf`` has written it."""

import shutil
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu_sphinx import ROOT
from posedu_sphinx.markup import external, parse

# The site is deleted and written anew; these files stay.
FOLDER = ROOT / "_build" / "pdf"
ABSENT = (
    "`make pdf`, in the folder of the source, prints the book as PDF: the whole book, "
    "each part, and the whole book with the solutions of its exercises."
)


class BookAsPDF(SphinxDirective):
    """Directive ``{book-as-pdf}``: links to the PDF files, or how to make them."""

    def run(self):
        """Return a paragraph; without files it names the command that makes them."""
        files = _files()
        _listed(self.env)[self.env.docname] = files
        if not files:
            return parse(self, ABSENT)
        up = "/".join([".."] * self.env.docname.count("/"))
        links = [external(f"{up}/pdf/{name}", name) for name in files]
        parts = [part for link in links for part in (nodes.Text(", "), link)]
        return [nodes.paragraph("", "", nodes.Text("The book as PDF: "), *parts[1:])]


def _files():
    return sorted(path.name for path in FOLDER.glob("*.pdf"))


def _listed(env):
    """Return the files that each page lists, as kept in Sphinx's build environment."""
    if not hasattr(env, "posedu_pdf"):
        env.posedu_pdf = {}
    return env.posedu_pdf


def outdated(app, env, added, changed, removed):
    """Return the pages that list other files than there are, to be read again."""
    return [page for page, files in _listed(env).items() if files != _files()]


def copy(app, exception):
    """Copy the PDF files into the built site, unless the build has failed."""
    if exception is None and app.builder.format == "html" and FOLDER.exists():
        shutil.copytree(FOLDER, Path(app.outdir, "pdf"), dirs_exist_ok=True)


def setup(app):
    """Register the directive, the pages to read again, and the copy of the files.

    The site is packed before the files are copied, so that they are not in its archive.
    """
    app.add_directive("book-as-pdf", BookAsPDF)
    app.connect("env-get-outdated", outdated)
    app.connect("build-finished", copy, priority=950)
