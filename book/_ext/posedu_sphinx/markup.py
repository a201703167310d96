"""Tables, links and parsed MyST as docutils nodes, for pages that the code makes."""

from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent


def table(head, rows, *, stub=False):
    """Return a table node with column titles ``head`` and the cells of ``rows``.

    Cells are strings, nodes, or lists of nodes. With ``stub`` the first cell of each
    row is marked as the row's head.
    """
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    if stub:
        group[0]["stub"] = 1
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *[_row(cells) for cells in rows])
    return nodes.container("", nodes.table("", group), classes=["posedu-wide"])


def _row(cells):
    return nodes.row("", *[nodes.entry("", _paragraph(cell)) for cell in cells])


def _paragraph(cell):
    if isinstance(cell, str):
        return nodes.paragraph("", cell)
    return nodes.paragraph("", "", *(cell if isinstance(cell, list) else [cell]))


def link(app, source, target, anchor, text):
    """Return a link node from one page to an anchor (a labeled place) of another page.

    ``source`` and ``target`` are the pages' names, ``text`` is the link's text. An
    empty anchor stands for the whole target page.
    """
    uri = app.builder.get_relative_uri(source, target)
    if anchor:
        uri = f"{uri}#{anchor}"
    return nodes.reference("", text, refuri=uri, internal=True)


def external(uri, text):
    """Return a link node with the given text to the address of another site or file."""
    return nodes.reference("", text, refuri=uri)


def parse(directive, markdown):
    """Parse MyST text at the place of a directive; return the document's nodes.

    ``directive`` is the directive object whose output the nodes become.
    """
    return directive.parse_text_to_nodes(markdown, allow_section_headings=False)


def asset(name):
    """Return a stylesheet's or script's text inside ``<style>`` or ``<script>``.

    ``name`` is the file's path below the extension's folder.
    """
    tag = {".css": "style", ".js": "script"}[Path(name).suffix]
    return f"<{tag}>{(HERE / name).read_text(encoding='utf-8')}</{tag}>"
