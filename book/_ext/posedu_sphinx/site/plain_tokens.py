"""Highlighted code without tags around tokens that have the color of plain text.

Names and punctuation are such tokens in both themes, and two thirds of all tags.
"""

from pygments.formatters import HtmlFormatter
from pygments.token import Name, Punctuation, Text, Whitespace
from sphinx.highlighting import PygmentsBridge

PLAIN = {Name, Name.Namespace, Punctuation, Text, Whitespace}


class PlainTokens(HtmlFormatter):
    """HTML formatter that writes plain tokens as text."""

    def _get_css_classes(self, ttype):
        return "" if ttype in PLAIN else super()._get_css_classes(ttype)


def setup(app):
    """Have Sphinx highlight code with :class:`PlainTokens`."""
    PygmentsBridge.html_formatter = PlainTokens
