"""Build the website: ``make book``; with ``--serve``, show it on localhost."""

import argparse
import functools
import hashlib
import http.server
import shutil
import subprocess
import sys
from pathlib import Path

from posedu_sphinx import ROOT
from posedu_sphinx.exercises import notebooks
from posedu_sphinx.site import vendor
from posedu_sphinx.site.execute import run_pages

HTML = ROOT / "_build" / "html"
INPUTS = ("posedu", "book/_ext", "book/data", "requirements.txt", "_config.yml")


def fingerprint(root=ROOT):
    """Return a hash of all pages' common inputs: package code, data files and settings.

    ``root`` is the repository's folder.
    """
    digest = hashlib.sha256(sys.version.encode())
    for name in INPUTS:
        paths = [root / name, *(root / name).rglob("*")]
        for path in sorted(paths):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(root)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def build():
    """Build the whole website with its notebooks; return whether it succeeded."""
    vendor.mathjax()
    vendor.previews()
    vendor.slides()
    vendor.search()
    notebooks.main()
    if not make_site():
        return False
    print(f"\nThe book is at {HTML / 'index.html'}; `make serve` shows it.")
    return True


def make_site(root=ROOT):
    """Run the book's pages and have Sphinx write the site, with warnings as errors.

    Return whether both succeeded. ``root`` is the repository's folder. Sphinx reads
    only pages that changed, and it warns only about pages that it reads. A failed build
    therefore deletes all pages that it has read and written, and all pages are read
    again when one of their common inputs has changed.
    """
    known = root / "_build" / "inputs.sha256"
    now = fingerprint(root)
    if not known.exists() or known.read_text("utf-8") != now:
        forget_pages(root)
    known.unlink(missing_ok=True)
    if run_pages(root) and run_sphinx(root):
        known.write_text(now, "utf-8")
        return True
    forget_pages(root)
    return False


def forget_pages(root=ROOT):
    """Delete all pages that Sphinx has read and written, so that all are read again.

    ``root`` is the repository's folder.
    """
    for folder in (".doctrees", "jupyter_execute", "html"):
        shutil.rmtree(root / "_build" / folder, ignore_errors=True)


def run_sphinx(root=ROOT):
    """Have Sphinx write the site; return whether it did so without a warning.

    ``root`` is the repository's folder. What is printed is the progress and the
    warnings.
    """
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    command = [jupyter_book, "build", root, "--warningiserror", "--nitpick"]
    command += ["--keep-going", "--quiet"]
    return subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0


def serve(port=8000):
    """Serve the built site on localhost until Ctrl-C."""
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(HTML)
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"The book is at http://localhost:{port}/ — Ctrl-C stops.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def main(arguments=None):
    """Build the site, and serve it on localhost with ``--serve``.

    ``arguments`` are the command's arguments, by default the process's own. A failed
    build ends the process with an error.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu_sphinx.build", description="Build the website."
    )
    parser.add_argument("--serve", action="store_true", help="then show it here")
    options = parser.parse_args(arguments)
    if not build():
        sys.exit("The book was not built: see the warnings above.")
    if options.serve:
        serve()


if __name__ == "__main__":
    main()
