"""Notices of third-party files that the site serves, and the site as an archive."""

import io
import lzma
import re
import shutil
import tarfile
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu_sphinx import ROOT
from posedu_sphinx.markup import external
from posedu_sphinx.site import one_stylesheet
from posedu_sphinx.site.figure_text import SERVED
from posedu_sphinx.site.packed_scripts import unpacked

UNUSED = (  # files of the themes that no page loads
    *("_static/vendor/fontawesome", "_static/locales", "_static/**/*.map"),
    *("_static/styles/theme.css", "_static/*webpack-macros.html"),
    *("_static/searchtools.js", "_static/language_data.js"),  # the book's own search
)
ARCHIVE, NOTICES = "posedu-site.tar.xz", "NOTICES.txt"
ONLINE_ONLY = (
    *(ARCHIVE, ".*", "sitemap.xml"),
    *("_images/preview-*.png", "_images/figure-*.png"),
)
FILTERS = [
    {"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 26, "lc": 4, "pb": 0}
]
SCRIPTS = {".js", ".css", ".woff", ".woff2", ".ttf"}
OWN_LINK = re.compile(r'<p class="posedu-archive\b.*?</p>', re.DOTALL)


@dataclass(frozen=True)
class Work:
    """A third-party script, stylesheet or font library whose ``files`` the site serves.

    Paths of files are relative to the site's folder ``_static``, with wildcards.
    """

    name: str
    license: str
    files: tuple[str, ...]
    distribution: str = ""  # package that contains the license's text
    text: str = ""  # served file with the license's text
    holder: str = ""  # copyright holder, for the MIT license with the project's text


SPHINX = (
    *("basic.css", "doctools.js", "documentation_options.js", "sphinx_highlight.js"),
)
FONT = (SERVED.removeprefix("_static/"),)
WORKS = (
    Work("MathJax 3.2.2", "Apache-2.0", ("mathjax/*",), text="mathjax/LICENSE"),
    Work("Popper 2.11.8", "MIT", ("popper/*",), text="popper/LICENSE.md"),
    Work("Tippy.js 6.3.7", "MIT", ("tippy.js/*",), text="tippy.js/LICENSE"),
    Work("MiniSearch 7.2.0", "MIT", ("minisearch/*",), text="minisearch/LICENSE.txt"),
    Work("reveal.js 6.0.2", "MIT", ("reveal/*",), text="reveal/LICENSE"),
    Work(
        "Bootstrap 5.3.3",
        "MIT",
        ("scripts/bootstrap.js", "styles/bootstrap.css"),
        holder="2011-2024 The Bootstrap Authors",
    ),
    Work("clipboard.js 2.0.8", "MIT", ("clipboard.min.js",), holder="Zeno Rocha"),
    Work("Sphinx", "BSD-2-Clause", SPHINX, "sphinx"),
    Work("Pygments", "BSD-2-Clause", ("pygments.css",), "pygments"),
    Work(
        "PyData Sphinx Theme",
        "BSD-3-Clause",
        ("scripts/pydata-sphinx-theme.js", "styles/pydata-sphinx-theme.css"),
        "pydata-sphinx-theme",
    ),
    Work(
        "Sphinx Book Theme",
        "BSD-3-Clause",
        ("scripts/sphinx-book-theme.js", "styles/sphinx-book-theme.css"),
        "sphinx-book-theme",
    ),
    Work(
        "sphinx-copybutton",
        "MIT",
        ("copybutton.css", "copybutton.js", "copybutton_funcs.js"),
        "sphinx-copybutton",
    ),
    Work("sphinx-togglebutton", "MIT", ("togglebutton.*",), "sphinx-togglebutton"),
    Work(
        "sphinx-design",
        "MIT",
        ("sphinx-design.min.css", "design-tabs.js"),
        "sphinx-design",
    ),
    Work("MyST-NB", "BSD-3-Clause", ("mystnb.*.css",), "myst-nb"),
    Work("sphinx-proof", "MIT", ("proof.css",), "sphinx-proof"),
    Work("sphinx-exercise", "MIT", ("exercise.css",), "sphinx-exercise"),
    Work("DejaVu Sans 2.37", "Bitstream Vera", FONT, text="figures/LICENSE"),
    Work("sphinx-tippy", "MIT", ("tippy/*",), "sphinx-tippy"),
)
STATIC = ROOT / "book" / "_static"
OURS = tuple(p.relative_to(STATIC).as_posix() for p in STATIC.rglob("*"))
MADE = ("search/titles.js", "search/texts-*.js", one_stylesheet.NAME)
HEAD = f"""\
posedu serves these scripts, stylesheets and fonts with its pages.

The project's own ({", ".join(sorted(n for n in OURS if Path(n).suffix in SCRIPTS))})
are under the MIT license, its text is under CC BY 4.0; the shapes in icons.css are Font
Awesome Free 6.5.2's, Copyright 2024 Fonticons, Inc., CC BY 4.0. {one_stylesheet.NAME}
joins the project's stylesheets and the other stylesheets that are listed here.
"""


def is_ours(name):
    """Return whether a served file is the project's own, or is made of the book's text.

    ``name`` is the file's path relative to the site's folder ``_static``.
    """
    return name in OURS or any(fnmatch(name, pattern) for pattern in MADE)


def files_of(work, served):
    """Return those of the served files that belong to a third-party work.

    ``work`` is the work's :class:`Work`; ``served`` are paths relative to the site's
    folder ``_static``.
    """
    return [f for f in served if any(fnmatch(f, pattern) for pattern in work.files)]


def scripts(folder):
    """List a built site's scripts, stylesheets and fonts.

    ``folder`` is the site's folder; the paths are relative to ``_static`` in it.
    """
    static = Path(folder, "_static")
    found = (path for path in sorted(static.rglob("*")) if path.is_file())
    return [p.relative_to(static).as_posix() for p in found if p.suffix in SCRIPTS]


def notices(folder):
    """Return the license notices of every third-party work whose files are served.

    ``folder`` is the built site's folder; the notices are one text.
    """
    served = scripts(folder)
    parts = [HEAD]
    for work in WORKS:
        if found := files_of(work, served):
            files = ", ".join(found if len(found) < 4 else work.files)
            head = f"{work.name} ({work.license}): {files}"
            parts.append(f"{'-' * 72}\n{head}\n\n{_license(work, folder)}\n")
    return "\n".join(parts)


def _license(work, folder):
    if work.text:
        return Path(folder, "_static", work.text).read_text(encoding="utf-8").strip()
    if work.distribution:
        files = metadata.distribution(work.distribution).files
        own = [f for f in files if f.parts[0].endswith(".dist-info")]
        (found,) = [f for f in own if f.stem == "LICENSE"]
        return found.locate().read_text(encoding="utf-8").strip()
    ours = (ROOT / "LICENSE").read_text(encoding="utf-8").strip()
    return re.sub(r"(?m)^Copyright .*$", f"Copyright (c) {work.holder}", ours)


def archive(folder):
    """Pack the whole built site, which needs no server, into one file.

    The file is ``posedu-site.tar.xz`` in the site's ``folder``. Packed scripts are
    unpacked in it, since texts that occur twice then compress to one.
    Packing unchanged pages again gives an identical file.
    """
    folder = Path(folder)
    with (
        lzma.open(folder / ARCHIVE, "w", filters=FILTERS) as packed,
        tarfile.open(fileobj=packed, mode="w") as archived,
    ):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_dir() or any(fnmatch(name, pattern) for pattern in ONLINE_ONLY):
                continue
            content = path.read_bytes()
            if path.suffix == ".html" and b"posedu-archive" in content:
                content = OWN_LINK.sub("", content.decode()).encode()
            if path.suffix == ".js":
                content = unpacked(content.decode()).encode()
            info = tarfile.TarInfo(f"posedu/{name}")
            info.size = len(content)
            archived.addfile(info, io.BytesIO(content))


class Archive(SphinxDirective):
    """Directive ``{site-archive}``: links to the packed site and license notices."""

    def run(self):
        """Return two paragraphs: links to the packed site and to license notices."""
        up = "/".join([".."] * self.env.docname.count("/"))
        whole = nodes.paragraph("", "", classes=["posedu-archive", "posedu-screen"])
        whole += [
            external(f"{up}/{ARCHIVE}", "The whole site in one archive"),
            nodes.Text(": unpack it and open index.html; it needs no server."),
        ]
        licenses = nodes.paragraph("", "", classes=["posedu-screen"])
        licenses += [
            external(f"{up}/{NOTICES}", "Licenses"),
            nodes.Text(" of the scripts and fonts that the site serves."),
        ]
        return [whole, licenses]


def finish(app, exception):
    """Delete the built site's unused files, write the license notices, pack the site.

    Stylesheets of others are in the joined one: the notices name them, then they go.
    Nothing is done after a failed build (``exception``).
    """
    if exception is not None or app.builder.format != "html":
        return
    for pattern in UNUSED:
        for path in list(Path(app.outdir).glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    text = notices(app.outdir)
    Path(app.outdir, NOTICES).write_text(text, encoding="utf-8")
    for name in one_stylesheet.joined(app):
        if not is_ours(name):
            Path(app.outdir, "_static", name).unlink()
    archive(app.outdir)


def setup(app):
    """Register the ``site-archive`` directive and the event that packs the site."""
    app.add_directive("site-archive", Archive)
    app.connect("build-finished", finish, priority=900)
