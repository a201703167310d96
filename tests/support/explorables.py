"""Helpers for tests of explorables: their HTML, a page to load it, readers."""

import re

import numpy as np

from posedu.book import explorables

FRAGMENTS = {
    name.removesuffix("_explorable"): getattr(explorables, name)()._repr_html_()
    for name in explorables.__all__
    if name.endswith("_explorable")
}
PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>page</title>'
    '<meta name="viewport" content="width=device-width">'
    "<style>:root { color-scheme: light dark } body { margin: 1rem;"
    " background: Canvas; color: CanvasText }</style>"
)
READ = """(figure) => {
  const all = (selector) => [...figure.querySelectorAll(selector)];
  return {
    paths: Object.fromEntries(all("svg path[class]").map(
      (p) => [p.getAttribute("class"), p.getAttribute("d")])),
    inputs: all("input").map((i) => i.valueAsNumber),
    chosen: all("select").map((s) => s.value),
    outputs: Object.fromEntries(all("output").map((o) => [o.className, o.textContent])),
    summary: figure.querySelector(".summary").textContent,
    shares: all(".shares path").map((p) => p.getAttribute("opacity")),
    cut: all(".cut").map((g) => [...g.children].map(
      (c) => c.getAttribute("d") ?? c.textContent)),
    bars: all("g.bars path").map((p) => p.getAttribute("d")),
    heights: all(".heights text").map((t) => t.textContent),
  };
}"""


def read(page):
    """Read a page's explorable: paths and outputs by class, and its summary."""
    return page.locator("figure").evaluate(READ)


def summary_of(page):
    """The summary of a page's explorable, as it is shown."""
    return page.locator(".summary").inner_text()


def points_of(page, selector):
    """The points of a path, ``[points, 2]``."""
    d = page.locator(selector).get_attribute("d")
    return np.array(numbers(d.replace("M", " ").replace("L", " "))).reshape(-1, 2)


def set_slider(page, name, value):
    """Move a slider to a value, as its reader does."""
    page.locator(f'input[name="{name}"]').evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value
    )


def numbers(text):
    """The numbers in a text, in order."""
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)  # 10,000 is one number
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", plain.replace("−", "-"))]


def close(actual, expected, digits, slack=0.0):
    """Assert equality to the printed digits, with a slack for rounding."""
    atol = 0.5 * 10.0**-digits + slack
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def luminance(rgb):
    """Relative luminance, as WCAG defines it."""
    c = np.array(rgb) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    """Return the contrast of two colors given as ``rgb(…)``."""
    low, high = sorted(luminance(numbers(color)[:3]) for color in (one, other))
    return (high + 0.05) / (low + 0.05)
