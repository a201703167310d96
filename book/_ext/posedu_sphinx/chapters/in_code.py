"""Sphinx role for a formula's terms: pointing at a term highlights it in the code."""

import html
import re

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole

LOGGER = logging.getLogger(__name__)
SCOPE = "sd-tab-content"  # a tab; elsewhere the section, as in chapter.js


class InCode(ReferenceRole):
    r"""Role ``{in-code}`\omega_p <omega>```: a term's LaTeX, and its words in the code.

    While a reader points at the term or focuses it, every occurrence of those words in
    the code of the same tab or section is highlighted.
    """

    def run(self):
        """Return the term's formula inside an HTML span that the keyboard can focus."""
        code = html.escape(self.target)
        opening = (
            f'<span class="posedu-in-code" data-code="{code}" tabindex="0" '
            f'title="in the code: {code}">'
        )
        term = nodes.inline("", "", in_code=self.target)
        term += [
            nodes.raw("", opening, format="html"),
            nodes.math(self.title, self.title),
            nodes.raw("", "</span>", format="html"),
        ]
        self.set_source_info(term)
        return [term], []


def check(app, doctree):
    """Warn about a formula term whose words do not occur in the code beside it.

    This is the code in the same tab as the term or, outside tabs, in the same section.
    """
    for term in doctree.findall(nodes.inline):
        code = term.get("in_code")
        if code and not any(
            re.search(rf"(?<!\w){re.escape(code)}(?!\w)", block.astext())
            for block in _scope(term).findall(nodes.literal_block)
        ):
            LOGGER.warning(
                f"{code!r} does not occur in the code of this tab or section",
                location=term,
                type="posedu",
                subtype="in-code",
            )


def _scope(node):
    while not isinstance(node, nodes.section) and SCOPE not in node.get("classes", ()):
        node = node.parent
    return node


def setup(app):
    """Register the ``in-code`` role, and the check of its words in the code."""
    app.add_role("in-code", InCode())
    app.connect("doctree-read", check)
