"""The at-a-glance table and the map of special cases, from posedu.catalog."""

import html

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu.catalog import ATTENTION, CATALOG
from posedu_book.layers import layered
from posedu_book.markup import external, link, table

HEAD = (
    "Encoding",
    "Year",
    "Paper",
    "Doors",
    "Trainable parameters",
    "Cost",
    "Relative",
    "Bounded",
    "Learned",
    "Adopted by",
)


class glance_placeholder(nodes.General, nodes.Element):
    """Where the at-a-glance table will stand."""


class map_placeholder(nodes.General, nodes.Element):
    """Where the map will stand."""


class Glance(SphinxDirective):
    """``{catalog-table}``."""

    def run(self):
        """Leave a placeholder."""
        return [glance_placeholder()]


class Map(SphinxDirective):
    """``{catalog-map}``."""

    def run(self):
        """Leave a placeholder."""
        return [map_placeholder()]


def fill(app, doctree, docname):
    """Put table and map in place of their placeholders."""
    for placeholder in list(doctree.findall(glance_placeholder)):
        rows = [_row(app, docname, encoding) for encoding in CATALOG.values()]
        placeholder.replace_self(table(HEAD, rows))
    for placeholder in list(doctree.findall(map_placeholder)):
        placeholder.replace_self([_drawing(app, docname), _edges(app, docname)])


def _row(app, docname, encoding):
    return [
        _to_chapter(app, docname, encoding),
        str(encoding.year),
        external(f"https://arxiv.org/abs/{encoding.arxiv}", f"arXiv {encoding.arxiv}"),
        ", ".join(encoding.doors),
        encoding.parameters.replace("**2", "²").replace("*", "·").replace("-", "−"),
        encoding.cost,
        encoding.relative,
        encoding.bounded,
        "yes" if encoding.learned else "no",
        ", ".join(encoding.adopters) or "none known to us",
    ]


def _to_chapter(app, docname, encoding):
    """A link, or the title alone while the book has no chapter."""
    if not encoding.page:
        return encoding.title
    return link(app, docname, encoding.page, "", encoding.title)


def _cases():
    """The arrows between encodings that the book has chapters of."""
    written = [e for e in CATALOG.values() if e.page]
    return [(e, case) for e in written for case in e.special_cases]


def _title(name):
    return "No encoding" if name == ATTENTION else CATALOG[name].title


def _chapter(name):
    return "book/attention/order" if name == ATTENTION else CATALOG[name].page


def _drawing(app, docname):
    names = [ATTENTION, *(e.name for e in CATALOG.values() if e.page)]
    arrows = [(encoding.name, case.of) for encoding, case in _cases()]
    places, routes = layered(names, arrows, column=180, row=110, widest=5)
    points = [*places.values(), *(point for route in routes for point in route)]
    left, right = (f(x for x, _ in points) for f in (min, max))
    height = max(y for _, y in points) + 80
    frame = f"{left - 90:.0f} -40 {right - left + 180:.0f} {height:.0f}"
    parts = []
    numbered = enumerate(zip(_cases(), routes, strict=True), 1)
    for number, ((encoding, case), route) in numbered:
        uri = app.builder.get_relative_uri(docname, encoding.page)
        title = f"{number}. {encoding.title} becomes {_title(case.of)}: {case.when}"
        parts.append(_arrow(number, route, f"{uri}#equation-{case.proof}", title))
    for name, (x, y) in places.items():
        uri = app.builder.get_relative_uri(docname, _chapter(name))
        parts.append(
            f'<a href="{uri}"><rect x="{x - 80:.0f}" y="{y - 22:.0f}" width="160" '
            f'height="44" rx="8"/><text x="{x:.0f}" y="{y + 5:.0f}">{_title(name)}'
            "</text></a>"
        )
    svg = (
        f'<figure class="posedu-figure posedu-map"><svg viewBox="{frame}" '
        'role="group" aria-label="Map of special cases; the same is listed below">'
        '<defs><marker id="posedu-arrow" viewBox="0 0 8 8" refX="8" refY="4" '
        'markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>'
        f"{''.join(parts)}</svg><figcaption>An arrow points from an encoding to its "
        "special case; its number links to the proof.</figcaption></figure>"
    )
    return nodes.raw("", svg, format="html")


def _arrow(number, route, uri, title):
    """A line along the route, from box to box, and its number near the tail."""
    (x1, y1), (x2, y2) = route[0], route[-1]
    path = [(x1, y1 + 22), *route[1:-1], (x2, y2 - 26)]
    line = "L".join(f"{x:.0f} {y:.0f}" for x, y in path)
    (ax, ay), (bx, by) = path[:2]
    x, y = ax + 0.35 * (bx - ax), ay + 0.35 * (by - ay)  # where few arrows meet
    return (
        f'<path d="M{line}" stroke="currentColor" fill="none" '
        'marker-end="url(#posedu-arrow)"/>'
        f'<a href="{uri}" aria-label="{html.escape(title)}">'
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="12"/>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}">{number}</text></a>'
    )


def _edges(app, docname):
    items = []
    for encoding, case in _cases():
        anchor = f"equation-{case.proof}"
        proof = link(app, docname, encoding.page, anchor, "proof")
        text = f"{encoding.title} becomes {_title(case.of)} where {case.when} ("
        paragraph = nodes.paragraph("", "", nodes.Text(text), proof, nodes.Text(")."))
        items.append(nodes.list_item("", paragraph))
    return nodes.enumerated_list("", *items, enumtype="arabic", prefix="", suffix=".")


def setup(app):
    """Register the directives."""
    app.add_node(glance_placeholder)
    app.add_node(map_placeholder)
    app.add_directive("catalog-table", Glance)
    app.add_directive("catalog-map", Map)
    app.connect("doctree-resolved", fill)
