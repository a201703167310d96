"""Page of old and new names of modules and functions, from posedu/renamed.toml."""

from sphinx.util.docutils import SphinxDirective

from posedu._renamed import table
from posedu_sphinx.markup import parse
from posedu_sphinx.reference.notation import markdown_table


class Renamed(SphinxDirective):
    """Directive ``{renamed} kind``: a table of old and new names.

    The kind is ``modules``, ``names``, ``parameters``, ``values`` or ``gone`` (names
    that were removed).
    """

    required_arguments = 1

    def run(self):
        """Return the table of old and new names of the directive's kind."""
        names = table()[self.arguments[0]]
        rows = [[f"`{old}`", f"`{new}`"] for old, new in names.items()]
        return parse(self, markdown_table(["Until 0.2", "Since 0.3"], rows))


def setup(app):
    """Register the ``renamed`` directive."""
    app.add_directive("renamed", Renamed)
