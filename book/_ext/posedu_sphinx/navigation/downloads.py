"""Colab buttons and downloadable notebooks of the site's pages."""

from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu_sphinx.exercises import carried
from posedu_sphinx.exercises.notebooks import address, of_page, self_contained
from posedu_sphinx.markup import external
from posedu_sphinx.navigation.contents import is_of_a_chapter
from posedu_sphinx.site.execute import pages, read

COLAB = "https://colab.research.google.com/github"


def colab_link(config, docname):
    """Return the address that opens a notebook in Colab; empty without a repository.

    ``config`` is Sphinx's, which has the repository's address; ``docname`` is the
    notebook's page name.
    """
    address = config.html_theme_options.get("repository_url", "")
    if not address:
        return ""
    repository = address.removeprefix("https://github.com/").removesuffix(".git")
    branch = config.html_theme_options.get("repository_branch", "main")
    return f"{COLAB}/{repository}/blob/{branch}/{docname}.ipynb"


class NotebookLinks(SphinxDirective):
    """Directive ``{notebook-links} notebooks/…``: links to Colab and a download."""

    required_arguments = 1

    def run(self):
        """Return a paragraph with links to Colab and to the notebook's download.

        There is no link to Colab if the book's repository has no address.
        """
        docname = self.arguments[0]
        here = Path(self.env.docname).parent
        up = "/".join([".."] * len(here.parts))
        download = external(f"{up}/_sources/{docname}.ipynb", "download the notebook")
        download["classes"].append("posedu-download")
        parts = [nodes.Text("To work on your own copy, "), download]
        advice = (
            ": it contains the package. You can upload it to Colab, or run it in "
            "any Jupyter with NumPy, SymPy, matplotlib and PyTorch."
        )
        parts.append(nodes.Text(advice))
        if colab := colab_link(self.config, docname):
            parts[:0] = [external(colab, "Open it in Colab"), nodes.Text(". ")]
        return [nodes.paragraph("", "", *parts, classes=["posedu-screen"])]


def add_buttons(app, pagename, templatename, context, doctree):
    """Add a Colab button to notebook pages if the book's repository has an address."""
    is_notebook = context.get("page_source_suffix") == ".ipynb"
    if is_notebook and (colab := colab_link(app.config, pagename)):
        button = {
            "type": "link",
            "text": "Colab",
            "tooltip": "Open in Colab",
            "icon": "fas fa-rocket",
            "url": colab,
            "label": "colab-button",
        }
        context["header_buttons"].insert(0, button)


def write_notebooks(app, exception):
    """Write notebooks for download, and the package that they need, into the site.

    The notebooks are the labs (to experiment in), the exercises, and the pages of
    chapters. ``download.js`` puts the package into a notebook that a reader downloads;
    without the script the notebook finds it as a file beside itself. Of a chapter's
    page the script reads the Markdown, too, and makes its cells. Nothing is written
    after a failed build (``exception``).
    """
    if exception is not None or app.builder.format != "html":
        return
    sources = Path(app.outdir, "_sources")
    notebooks = [*(sources / "notebooks").rglob("*.ipynb")]
    for path in notebooks:
        notebook = nbformat.read(path, as_version=4)
        page = path.relative_to(sources).with_suffix("").as_posix()
        _write(self_contained(notebook, page, package=""), path)
    for name, path in pages(Path(app.srcdir)):
        if is_of_a_chapter(name):
            _write(of_page(path, read(path).cells), sources / f"{name}.ipynb")
    if notebooks and not address():
        (sources / carried.NAME).write_text(carried.package(""), encoding="utf-8")


def _write(notebook, path):
    nbformat.write(notebook, path, indent=None, separators=(",", ":"))


def setup(app):
    """Register the ``notebook-links`` directive, Colab buttons and notebook files."""
    app.add_directive("notebook-links", NotebookLinks)
    app.connect("html-page-context", add_buttons, priority=600)
    app.connect("build-finished", write_notebooks)
