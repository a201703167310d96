"""Repairs of the pages that Sphinx generates: lists of sources, and indexes."""


def link_what_exists(app):
    """Have links from listings of source lead to places that the book's pages have.

    viewcode links all objects of a module to its documentation under one name, though
    an object may be documented under another, and it lists modules whose source it did
    not find. No page is returned.
    """
    known = app.env.get_domain("py").objects
    modules = getattr(app.env, "_viewcode_modules", {})
    for module, entry in list(modules.items()):
        if not entry:
            del modules[module]
            continue
        code, tags, used, name = entry
        found = {
            prefix: {of: page for of, page in used.items() if f"{prefix}.{of}" in known}
            for prefix in (name, module)
        }
        name = max(found, key=lambda prefix: len(found[prefix]))
        modules[module] = code, tags, found[name], name
    return ()


def keep_index_open(app, pagename, templatename, context, doctree):
    """Have an index shown in full: the script that folds it would run too early."""
    if templatename == "domainindex.html":
        context["collapse_index"] = False


def setup(app):
    """Register both repairs; the first before viewcode makes its pages."""
    app.connect("html-collect-pages", link_what_exists, priority=400)
    app.connect("html-page-context", keep_index_open)
