"""At-a-glance table of encodings, and map of their special cases, from the catalog.

A special case is another encoding that an encoding becomes under a condition.
"""

import html
from typing import ClassVar
from urllib.parse import urlsplit

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from posedu.catalog import ATTENTION, CATALOG
from posedu_sphinx.markup import asset, external, table
from posedu_sphinx.reference.filters import filtered
from posedu_sphinx.reference.map_layout import rows

HEAD = (
    "Encoding",
    "Paper",
    "Hooks",
    "Learned",
    "Trained parameters",
    "Relative",
    "Bounded",
    "Cost",
    "Adopted by",
)
FILTERS = {
    "family": "Family",
    "hook": "Hook",
    "learned": "Learned",
    "relative": "Relative",
}
LANE = 16  # pixels between two lines
STOP = 18  # pixels from the top of a row to its circle
COLORS = 6  # in map_layout.css
BREAK = "\u200b"  # a space of no width, where a line may end
CUE = (
    '<p class="posedu-cue" aria-hidden="true">The table is wider than the screen: '
    "scroll it sideways →</p>"
)
CASES = {  # how one encoding becomes another: text of the legend, of the list
    "is": ("equals the lower one", ""),
    "limit": ("has the lower one as its limit", "in the limit "),
    "part": ("agrees with the lower one in one part", "in one part "),
}


class glance_placeholder(nodes.General, nodes.Element):
    """Placeholder node for the at-a-glance table of encodings."""


class map_placeholder(nodes.General, nodes.Element):
    """Placeholder node for the map of which encoding becomes which under conditions."""


class Glance(SphinxDirective):
    """Directive ``{catalog-table}``: the at-a-glance table of all encodings."""

    def run(self):
        """Return a placeholder node, which :func:`fill` replaces by the table."""
        return [glance_placeholder()]


class Map(SphinxDirective):
    """Directive ``{catalog-map}``: the map of which encoding becomes which, and when.

    The option ``:brief:`` leaves out the conditions.
    """

    option_spec: ClassVar = {"brief": directives.flag}

    def run(self):
        """Return a placeholder node, which :func:`fill` replaces by the map."""
        return [map_placeholder(brief="brief" in self.options)]


def fill(app, doctree, docname):
    """Replace the placeholders by the at-a-glance table and map of special cases."""
    for placeholder in list(doctree.findall(glance_placeholder)):
        placeholder.replace_self(_glance(app, docname))
    for placeholder in list(doctree.findall(map_placeholder)):
        placeholder.replace_self(_drawing(app, docname, placeholder["brief"]))


def _glance(app, docname):
    """Return the nodes of the at-a-glance table and of the controls that filter it.

    Links start from the page ``docname``. The controls are hidden without scripts.
    """
    shown = table(HEAD, [_row(app, docname, e) for e in CATALOG.values()], stub=True)
    shown["classes"].append("posedu-glance")
    answers = [_filter_answers(encoding) for encoding in CATALOG.values()]
    controls, script = filtered([shown], answers, FILTERS)
    style = nodes.raw("", asset("reference/at_a_glance.css"), format="html")
    return [style, controls, nodes.raw("", CUE, format="html"), shown, script]


def _filter_answers(encoding):
    """Return an encoding's values for the at-a-glance table's filters, as pairs.

    ``encoding`` is the catalog record. A pair is a filter's name and a value, such as
    ``("family", "rotary")``.
    """
    return [
        ("family", encoding.family),
        *(("hook", hook) for hook in encoding.hooks),
        ("learned", "yes" if encoding.learned else "no"),
        ("relative", "exactly" if encoding.relative == "exactly" else "other"),
    ]


def _row(app, docname, encoding):
    name = encoding.arxiv or urlsplit(encoding.url).hostname
    return [
        _to_chapter(app, docname, encoding),
        [nodes.Text(f"{encoding.year} "), external(encoding.source, name)],
        ", ".join(encoding.hooks),
        "yes" if encoding.learned else "no",
        parameter_formula(encoding).replace("+", f"+{BREAK}"),
        encoding.relative,
        encoding.bounded,
        encoding.cost,
        adopters_of(encoding),
    ]


def parameter_formula(encoding):
    """Return the formula for a layer's trained parameters, with signs for readers."""
    return encoding.parameters.replace("**2", "²").replace("*", "·").replace("-", "−")


def adopters_of(encoding):
    """Return the models and programs that use an encoding, as text."""
    return ", ".join(encoding.adopters) or "none known to us"


def _to_chapter(app, docname, encoding):
    """Return a link to an encoding's chapter, or its title if the book has no chapter.

    The link is from the page ``docname``; ``encoding`` is the catalog record.
    """
    address = page_address(app, docname, encoding.name)
    if not address:
        return encoding.title
    return nodes.reference("", encoding.title, refuri=address, internal=True)


def _cases():
    """Return all pairs (catalog record of an encoding, one of its special cases).

    A special case is another encoding that the encoding becomes under a condition.
    """
    return [(e, case) for e in CATALOG.values() for case in e.special_cases]


def title_of(name):
    """Return an encoding's title; for ``ATTENTION``, no encoding, a title as well."""
    return "No encoding" if name == ATTENTION else CATALOG[name].title


def page_address(app, docname, name):
    """Return the URL of the page or formula that treats an encoding; empty if none.

    ``name`` is the encoding's name, or ``ATTENTION`` for attention without an encoding;
    the URL is relative to the page ``docname``.
    """
    if name == ATTENTION:
        return app.builder.get_relative_uri(
            docname, "book/attention/permutation-equivariance"
        )
    encoding = CATALOG[name]
    if encoding.treated:
        return equation_address(app, docname, encoding.treated)
    return app.builder.get_relative_uri(docname, encoding.page) if encoding.page else ""


def equation_address(app, docname, label):
    """Return the address of a labeled equation, relative to the page ``docname``."""
    page, _ = app.env.get_domain("math").equations[label]
    return f"{app.builder.get_relative_uri(docname, page)}#equation-{label}"


def _drawing(app, docname, brief):
    """Return the map of special cases as an HTML node for the page ``docname``.

    The map is a list of encodings with lines at the left; each line leads from an
    encoding to one that it becomes. ``brief`` leaves out under which condition.
    """
    arrows = [(encoding.name, case.of) for encoding, case in _cases()]
    layout = rows([*CATALOG, ATTENTION], arrows)
    lanes = 1 + max(max(r.lane, *r.leaving.values(), 0) for r in layout)
    items = (
        f'<li style="--lane: {row.lane}">{_lines(row, lanes, _case_kinds(row.name))}'
        f"<div>{_entry(app, docname, row.name, brief)}</div></li>"
        for row in layout
    )
    kind = "posedu-map posedu-brief" if brief else "posedu-map"
    head = asset("reference/map_layout.css") + _legend()
    listed = f'<ul class="{kind}" style="--lanes: {lanes}">{"".join(items)}</ul>'
    return nodes.raw("", head + listed, format="html")


def _legend():
    """Return the HTML legend of the three kinds of line in the map of special cases.

    A line says that an encoding equals another one, has it as its limit, or agrees with
    it in one part.
    """
    items = "".join(
        f'<span><svg aria-hidden="true" width="32" height="12"><path '
        f'class="posedu-line posedu-{kind}" d="M0 6H32"/></svg> {meaning}</span>'
        for kind, (meaning, _) in CASES.items()
    )
    return (
        f'<p class="posedu-legend">In its special case an encoding {items} '
        "<span>Colors have no meaning.</span></p>"
    )


def _entry(app, docname, name, brief):
    """Return the HTML of an encoding in the map: its name, and its special cases.

    ``name`` is the encoding's name, ``docname`` the name of the page with the map. A
    special case is another encoding that this one becomes under a condition; ``brief``
    leaves out the conditions.
    """
    address, title = page_address(app, docname, name), html.escape(title_of(name))
    link = f'<a class="posedu-stop" href="{address}">{title}</a>'
    parts = [link if address else title]
    if name == ATTENTION:
        return parts[0]
    encoding = CATALOG[name]
    if brief:
        becomes = ", ".join(
            f"{CASES[case.kind][1]}{title_of(case.of)}"
            for case in encoding.special_cases
        )
        if becomes:
            parts.append(f'<span class="posedu-to">→ {html.escape(becomes)}</span>')
        return "".join(parts)
    parts.append(f" <small>{encoding.year}</small>")
    cases = "".join(
        f"<li>{_case(app, docname, title, case)}</li>"
        for case in encoding.special_cases
    )
    return "".join(parts) + (f"<ul>{cases}</ul>" if cases else "")


def _case(app, docname, title, case):
    """Return the HTML of a special case, linked to the proof, and its condition.

    A special case (``case``) is another encoding that the one titled ``title`` becomes.
    ``docname`` is the name of the page with the link.
    """
    becomes, manner = html.escape(title_of(case.of)), CASES[case.kind][1]
    proof = equation_address(app, docname, case.proof)
    return (
        f'→ {manner}<a href="{proof}" aria-label="Proof '
        f'that {title} becomes {manner}{becomes}">{becomes}</a> where '
        f"{html.escape(case.when)}"
    )


def _case_kinds(name):
    """Return how an encoding becomes others: a dict from their names to the kind.

    The kind is ``"is"`` (equal), ``"limit"`` or ``"part"`` (equal in one part). The
    dict is empty for attention without an encoding (``ATTENTION``).
    """
    cases = CATALOG[name].special_cases if name != ATTENTION else ()
    return {case.of: case.kind for case in cases}


def _lines(row, lanes, kinds):
    """Return the SVG of the lines at the left of an encoding's row in the map.

    A line leads from an encoding to one that it becomes. ``row`` says which lines pass
    the row, end or start there. ``kinds`` maps the encoding to which a starting line
    leads to the kind of special case, which the line's style shows. ``lanes`` is the
    number of places for lines side by side. Each line is as long as the row is high.
    """

    def x(lane):
        return LANE * (lanes - lane) - LANE / 2

    def line(lane, top, bottom, kind="is"):
        ink = f'class="posedu-line-{lane % COLORS} posedu-{kind}"'
        return (
            f'<line {ink} x1="{x(lane):g}" x2="{x(lane):g}" y1="{top}" y2="{bottom}"/>'
        )

    here, edge = x(row.lane), LANE * lanes
    parts = [f'<path class="posedu-lead" d="M{here:g} {STOP}H{edge:g}"/>']
    parts += [line(lane, 0, "100%") for lane in row.passing.values()]
    if row.arrives:
        parts.append(line(row.lane, 0, STOP))
    for target, lane in row.leaving.items():
        kind = kinds[target]
        if lane == row.lane:
            parts.append(line(lane, STOP, "100%", kind))
            continue
        bend = LANE / 2
        side = bend if lane < row.lane else -bend
        curve = f"M{here:g} {STOP}H{x(lane) - side:g}q{side:g} 0 {side:g} {bend:g}"
        parts.append(f'<path class="posedu-bridge" d="{curve}"/>')
        ink = f"posedu-line-{lane % COLORS} posedu-{kind}"
        parts.append(f'<path class="{ink}" d="{curve}"/>')
        joins = target in row.passing
        parts.append(line(lane, STOP + bend, "100%", "is" if joins else kind))
    ink = f"posedu-line-{row.lane % COLORS}"
    parts.append(f'<circle class="{ink}" cx="{here:g}" cy="{STOP}" r="4.5"/>')
    return f'<svg aria-hidden="true" width="{edge:g}">{"".join(parts)}</svg>'


def setup(app):
    """Register the ``catalog-table`` and ``catalog-map`` directives."""
    app.add_node(glance_placeholder)
    app.add_node(map_placeholder)
    app.add_directive("catalog-table", Glance)
    app.add_directive("catalog-map", Map)
    app.connect("doctree-resolved", fill)
