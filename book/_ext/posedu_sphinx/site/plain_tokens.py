"""Highlighted code without tags around names, punctuation and operators.

The first two have the color of plain text in both themes. Operators are plain for their
size: their tags took a third of all highlighted code.
"""

from pygments.formatters import HtmlFormatter
from pygments.token import Name, Operator, Punctuation, Text, Whitespace
from sphinx.highlighting import PygmentsBridge

PLAIN = {Name, Name.Namespace, Operator, Punctuation, Text, Whitespace}


class PlainTokens(HtmlFormatter):
    """HTML formatter that writes plain tokens as text."""

    def _get_css_classes(self, ttype):
        return "" if ttype in PLAIN else super()._get_css_classes(ttype)


def setup(app):
    """Have Sphinx highlight code with :class:`PlainTokens`."""
    PygmentsBridge.html_formatter = PlainTokens
