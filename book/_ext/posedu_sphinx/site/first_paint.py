"""Measure first contentful paint: ``python -m posedu_sphinx.site.first_paint``.

First contentful paint is when a page first shows text or an image. A Chromium with an
empty cache loads the built site, served compressed over a connection of 1.6 Mbit/s with
a latency of 150 ms. ``--html FOLDER`` measures the site in a folder instead.
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


class Compressed(http.server.BaseHTTPRequestHandler):
    """HTTP server of a folder's files, which gzips them as web hosts do."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments, folder):
        self.folder = folder
        super().__init__(*arguments)

    def do_GET(self):
        """Send the requested file of the folder, or status 404."""
        path = self.folder / self.path.partition("?")[0].lstrip("/")
        found = path.is_file()
        body = _gzipped(path) if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", mimetypes.guess_type(path)[0] or "text/plain")
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
def served(folder):
    """Serve a folder over HTTP in the background; yield the server's address."""
    handler = functools.partial(Compressed, folder=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def measure(browser, url):
    """Return a page's seconds and loaded bytes until its first contentful paint.

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
    tab.goto(url, wait_until="load")
    seconds = tab.evaluate(PAINT)
    until = started[0]["timestamp"] + seconds
    early = (r["encodedDataLength"] for r in received if r["timestamp"] <= until)
    context.close()
    return seconds, sum(early)


def main(arguments=None):
    """Measure and print each page's time and bytes to first contentful paint.

    ``arguments`` are the command's arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu_sphinx.site.first_paint",
        description="Time the first paint.",
    )
    parser.add_argument(
        "pages", nargs="*", default=PAGES, help="pages of the built site"
    )
    parser.add_argument("--html", type=Path, default=HTML, help="folder of the site")
    parser.add_argument(
        "--times", type=int, default=3, help="runs per page; the median is printed"
    )
    options = parser.parse_args(arguments)
    with served(options.html) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for page in options.pages:
            runs = [measure(browser, address + page) for _ in range(options.times)]
            seconds, size = map(statistics.median, zip(*runs, strict=True))
            print(f"{seconds:5.2f} s  {size / 1000:5.0f} kB  {page}", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
