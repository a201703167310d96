"""Repairs of the pages that Sphinx generates: listings of source, and indexes.

Listings are half of the site's pages. They have a small template of their own.
"""

import re

BACK = re.compile(r'(?<=class="viewcode-back" href=")([^"#]*#)([^"]*)')
LISTING, TEMPLATE = "_modules/", "listing.html"


def list_sources(app):
    """Leave modules whose source viewcode did not find out of its list; add no page."""
    modules = getattr(app.env, "_viewcode_modules", {})
    for module in [name for name, entry in modules.items() if not entry]:
        del modules[module]
    return ()


def link_documentation(app, pagename, templatename, context, doctree):
    """Have the links of a listing of source lead to where an object is documented.

    viewcode writes the names of all objects of a module alike, though some may be
    documented by the name of their module, others by that of a package. Return the
    listing's template; None for other pages.
    """
    module = pagename.removeprefix(LISTING).replace("/", ".")
    entry = getattr(app.env, "_viewcode_modules", {}).get(module)
    if not pagename.startswith(LISTING) or not entry:
        return None
    written, objects = entry[-1], app.env.get_domain("py").objects

    def anchor(link):
        name = link[2]
        place = objects.get(name) or objects.get(module + name.removeprefix(written))
        return link[1] + (place.node_id if place else name)

    context["body"] = BACK.sub(anchor, context["body"])
    return TEMPLATE


def keep_index_open(app, pagename, templatename, context, doctree):
    """Have an index shown in full: the script that folds it would run too early."""
    if templatename == "domainindex.html":
        context["collapse_index"] = False


def setup(app):
    """Register the repairs; the first runs before viewcode makes its pages."""
    app.connect("html-collect-pages", list_sources, priority=400)
    app.connect("html-page-context", link_documentation)
    app.connect("html-page-context", keep_index_open)
