"""Build the website: ``make book``; with ``--serve``, show it on localhost."""

import functools
import hashlib
import http.server
import shutil
import subprocess
import sys
from pathlib import Path

from posedu_book import notebooks, vendor
from posedu_book.execute import run_pages
from posedu_book.notebooks import ROOT

BUILD = ROOT / "_build"
HTML = BUILD / "html"
FINGERPRINT = BUILD / "inputs.sha256"
INPUTS = ("posedu", "book/_ext", "book/data", "requirements.txt", "_config.yml")


def fingerprint():
    """A hash of what pages are made of beyond their own text and outputs."""
    digest = hashlib.sha256(sys.version.encode())
    for name in INPUTS:
        paths = [ROOT / name, *(ROOT / name).rglob("*")]
        for path in sorted(paths):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(ROOT)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def forget_stale_pages():
    """Drop everything that Sphinx has read if its inputs changed."""
    now = fingerprint()
    before = FINGERPRINT.read_text() if FINGERPRINT.exists() else ""
    if now != before:
        for folder in (".doctrees", "jupyter_execute", "html"):
            shutil.rmtree(BUILD / folder, ignore_errors=True)
        FINGERPRINT.parent.mkdir(exist_ok=True)
        FINGERPRINT.write_text(now)


def build():
    """Build with warnings as errors; return whether it succeeded."""
    vendor.mathjax()
    notebooks.main()
    forget_stale_pages()
    if not run_pages():
        return False
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    command = [jupyter_book, "build", ROOT, "--warningiserror", "--nitpick"]
    result = subprocess.run([*command, "--keep-going"])
    if result.returncode == 0:
        print(f"\nThe book is at {HTML / 'index.html'}; `make serve` shows it.")
    return result.returncode == 0


def serve(port=8000):
    """Serve the built site until interrupted."""
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(HTML)
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"The book is at http://localhost:{port}/ — Ctrl-C stops.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    if not build():
        sys.exit("The book was not built: see the warnings above.")
    if "--serve" in sys.argv:
        serve()
