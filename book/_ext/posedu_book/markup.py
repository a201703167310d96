"""Document nodes for the pages that the extension makes."""

from docutils import nodes


def table(head, rows):
    """A table whose cells are strings, nodes, or lists of nodes."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
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
    """A link from one page to an anchor of another."""
    uri = app.builder.get_relative_uri(source, target)
    if anchor:
        uri = f"{uri}#{anchor}"
    return nodes.reference("", text, refuri=uri, internal=True)


def external(uri, text):
    """A link out of the book."""
    return nodes.reference("", text, refuri=uri)


def parse(directive, markdown):
    """The nodes of a piece of MyST, as if it stood where the directive does."""
    return directive.parse_text_to_nodes(markdown, allow_section_headings=False)
