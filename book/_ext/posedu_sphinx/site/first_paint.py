"""Measure when pages are shown: ``python -m posedu_sphinx.site.first_paint``.

First contentful paint is when a page first shows text or an image; its first eight
formulas are typeset later. A Chromium with an empty cache loads the built site over a
connection of 1.6 Mbit/s with a latency of 150 ms, served compressed, or as it is with
``--plain``. ``--html FOLDER`` measures the site in a folder instead.
"""

import argparse
import functools
import gzip
import http.server
import mimetypes
import shutil
import statistics
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import sync_playwright

from posedu_sphinx.build import HTML

PAGES = ("book/index.html", "book/rotary/rope.html")  # home, and the longest chapter
LINE = {"latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 0.8e6 / 8}
PAINT = """() => new Promise(done => new PerformanceObserver(list => {
  const [entry] = list.getEntriesByName("first-contentful-paint");
  if (entry) done(entry.startTime / 1000);
}).observe({type: "paint", buffered: true}))"""


FORMULAS = """() => new Promise(done => (function look() {
  const all = [...document.querySelectorAll("article.bd-article .math")];
  const early = all.filter(m => m.getBoundingClientRect().height).slice(0, 8);
  const isWhole = document.readyState !== "loading";
  if (isWhole && early.every(m => m.querySelector("mjx-container"))) {
    return done(early.length ? performance.now() / 1000 : null);
  }
  requestAnimationFrame(look);
})())"""


class Files(http.server.BaseHTTPRequestHandler):
    """HTTP server of a folder's files, which gzips them as web hosts do.

    With ``plain`` it sends them as they are.
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments, folder, plain):
        self.folder, self.plain = folder, plain
        super().__init__(*arguments)

    def do_GET(self):
        """Send the requested file of the folder, or status 404."""
        path = self.folder / self.path.partition("?")[0].lstrip("/")
        found = path.is_file()
        read = Path.read_bytes if self.plain else _gzipped
        body = read(path) if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", mimetypes.guess_type(path)[0] or "text/plain")
        if not self.plain:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):  # the page may have been closed
            self.wfile.write(body)

    def log_message(self, *arguments):
        """Suppress the message that the server would print for each request."""


@functools.cache
def _gzipped(path):
    return gzip.compress(path.read_bytes())


@contextmanager
def served(folder, *, plain=False):
    """Serve a folder over HTTP in the background; yield the server's address.

    Files are sent compressed, or with ``plain`` as they are.
    """
    handler = functools.partial(Files, folder=folder, plain=plain)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def measure(browser, url):
    """Return when a page is first painted, the bytes until then, and when it is read.

    The last is when its first eight formulas are set, ``None`` if there are none. Times
    are in seconds.
    ``browser`` is Playwright's browser, ``url`` the page's address.
    """
    context = browser.new_context()
    tab = context.new_page()
    session = context.new_cdp_session(tab)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", {"offline": False, **LINE})
    started, received = [], []
    session.on("Network.requestWillBeSent", lambda event: started.append(event))
    session.on("Network.dataReceived", lambda event: received.append(event))
    tab.goto(url, wait_until="commit")
    formulas = tab.evaluate(FORMULAS)
    tab.wait_for_load_state("load")
    seconds = tab.evaluate(PAINT)
    until = started[0]["timestamp"] + seconds
    early = (r["encodedDataLength"] for r in received if r["timestamp"] <= until)
    context.close()
    return seconds, sum(early), formulas


def main(arguments=None):
    """Measure and print each page's times, and its bytes to first contentful paint.

    ``arguments`` are the command's arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu_sphinx.site.first_paint",
        description="Time the first paint and the first formulas.",
    )
    parser.add_argument(
        "pages", nargs="*", default=PAGES, help="pages of the built site"
    )
    parser.add_argument("--html", type=Path, default=HTML, help="folder of the site")
    parser.add_argument(
        "--times", type=int, default=3, help="runs per page; the median is printed"
    )
    parser.add_argument("--plain", action="store_true", help="serve uncompressed")
    options = parser.parse_args(arguments)
    with (
        served(options.html, plain=options.plain) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for page in options.pages:
            runs = [measure(browser, address + page) for _ in range(options.times)]
            seconds, size, formulas = zip(*runs, strict=True)
            first = statistics.median(seconds)
            kilobytes = statistics.median(size) / 1000
            read = "–" if None in formulas else f"{statistics.median(formulas):.2f} s"
            print(
                f"{first:5.2f} s  {kilobytes:5.0f} kB  formulas {read:6}  {page}",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
