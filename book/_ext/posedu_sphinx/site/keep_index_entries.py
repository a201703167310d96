"""Keep the index entries of unchanged pages in the search when other pages change.

Sphinx loses the index entries of every page that it does not write again
(sphinx-doc/sphinx#12599).
"""


def pages_with_entries(app, env, added, changed, removed):
    """Return all pages with index entries, to be read again if any page changed.

    ``added``, ``changed`` and ``removed`` are sets of page names; if all three are
    empty, no page is returned.
    """
    entries = env.get_domain("index").entries
    pages = {page for page, found in entries.items() if found} - removed
    return pages if added | changed | removed else ()


def setup(app):
    """Register the event that names the pages to read again."""
    app.connect("env-get-outdated", pages_with_entries)
