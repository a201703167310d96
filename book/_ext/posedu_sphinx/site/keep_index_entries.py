"""Terms and functions stay in the search when another page has changed.

Sphinx forgets the index entries of every page that it does not write anew
(sphinx-doc/sphinx#12599).
"""


def of_index(app, env, added, changed, removed):
    """Pages with index entries, to be read with those that changed."""
    entries = env.get_domain("index").entries
    pages = {page for page, found in entries.items() if found} - removed
    return pages if added | changed | removed else ()


def setup(app):
    """Register the event."""
    app.connect("env-get-outdated", of_index)
