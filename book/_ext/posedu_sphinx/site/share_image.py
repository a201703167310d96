"""Preview image of a shared link: the page's title with its first figure.

Chromium draws it, where it is installed. Without it, or without a figure, the title
stands beside rings for RoPE's pairs.
"""

import hashlib
import html
import re
import shutil
import textwrap
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright

from posedu.book.figures import COLORS
from posedu_sphinx.site.compact import FIGURE
from posedu_sphinx.site.home import KEY, PAIRS, QUERY, RADII, START, rotated_pairs

WIDTH, HEIGHT = 1200, 630  # pixels: the size that sites with previews expect
ALTERNATIVE = "The page's title, and rings with an arc from a key's to a query's dot."
INK, GRAY = "#14181e", "#7d8aa0"
LETTERS = 18  # per line of the title
LARGEST = 40  # points, the title's largest size
ROOM = (600, 380)  # pixels for the title
LABEL = re.compile(r' aria-label="([^"]*)"')
CARD = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ background: white; box-sizing: border-box; color: {ink}; display: flex;
  flex-direction: column; font: 24px sans-serif; gap: 24px; height: {height}px;
  margin: 0; padding: 36px 48px; }}
h1 {{ font-size: 44px; line-height: 1.15; margin: 0; }}
svg {{ flex: 1; min-height: 0; width: 100%; }}
p {{ color: {gray}; margin: 0; }}
</style><h1>{title}</h1>{figure}<p>{site}</p>"""
SITE = "posedu · how transformers know order"


def first_figure(body):
    """Return the first figure on a page, as SVG, or None where none can be drawn.

    ``body`` is the page's HTML. Chromium is needed; explorables are no figures here.
    """
    found = FIGURE.search(body)
    return found[0] if found and shutil.which("chromium") else None


def alternative(figure):
    """Return the alternative text of a preview image: that of its ``figure``, if any.

    ``figure`` is SVG or None.
    """
    return html.unescape(LABEL.search(figure)[1]) if figure else ALTERNATIVE


def picture(title, folder, figure=None):
    """Save the preview image of a page with this title; return the image's file name.

    ``folder`` is the folder for the image. An image that exists is not drawn again. An
    image with a ``figure``, which is SVG, is saved as a page that :func:`draw_cards`
    draws.
    """
    if figure:
        sizes = {"height": HEIGHT, "ink": INK, "gray": GRAY, "site": SITE}
        text = CARD.format(title=html.escape(title), figure=figure, **sizes)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        path = Path(folder, f"figure-{digest}.png")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".html").write_text(text, encoding="utf-8")
        return path.name
    digest = hashlib.sha256((title + ALTERNATIVE).encode()).hexdigest()[:12]
    path = Path(folder, f"preview-{digest}.png")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(title).savefig(path, metadata={"Software": None})
    return path.name


def draw_cards(folder):
    """Draw the preview images with figures that :func:`picture` left as pages.

    ``folder`` has the pages; an image takes the place of each.
    """
    pages = [*Path(folder).glob("figure-*.html")]
    if not pages:
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for page in pages:
            tab.set_content(page.read_text(encoding="utf-8"))
            tab.screenshot(path=page.with_suffix(".png"))
            page.unlink()
        browser.close()


def draw(title):
    """Draw a page's title at the left, and rings for RoPE's feature pairs at the right.

    Return the drawing as a matplotlib figure.
    """
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor="white")
    lines = "\n".join(textwrap.wrap(title, LETTERS))
    words = figure.text(0.06, 0.57, lines, size=LARGEST, color=INK, weight="bold")
    words.set(va="center", linespacing=1.15, parse_math=False)
    extent = words.get_window_extent()
    words.set_size(LARGEST * min(1, ROOM[0] / extent.width, ROOM[1] / extent.height))
    figure.text(0.06, 0.1, SITE, size=20, color=GRAY)
    axes = figure.add_axes((0.58, 0.09, 0.38, 0.82), aspect="equal")
    axes.axis("off")
    key, query = rotated_pairs([START + KEY, START + QUERY])
    for pair, radius in zip(PAIRS, RADII, strict=True):
        _ring(axes, radius, *np.angle([key[pair], query[pair]]))
    return figure


def _ring(axes, radius, key, query):
    """Draw a pair of features as a ring: dots of key and query, and an arc between.

    ``axes`` are matplotlib's, ``radius`` is the ring's radius; ``key`` and ``query``
    are the angles in radians at which the two dots are.
    """
    circle = np.linspace(0, 2 * np.pi, 200)
    arc = np.linspace(key, key + (query - key) % (2 * np.pi), 200)
    axes.plot(*_points(radius, circle), color=GRAY, alpha=0.4)
    axes.plot(*_points(radius, arc), color=COLORS[0], lw=9, solid_capstyle="round")
    axes.plot(*_points(radius, key), "o", ms=12, mfc="white", mec=COLORS[0], mew=3)
    axes.plot(*_points(radius, query), "o", ms=13, color=COLORS[1])


def _points(radius, angles):
    return radius * np.cos(angles), radius * np.sin(angles)
