"""Defer a page's scripts until after the first paint; load MathJax only for formulas.

The theme's own stylesheets and scripts are in ``book/_templates``.
"""

from sphinx.builders.html._assets import _JavaScript

FORMULA = 'class="math'


def defer_scripts(app, pagename, templatename, context, doctree):
    """Defer the scripts of a page, so that none delays the page's first paint."""
    scripts = [s for s in context["script_files"] if not _sets_page_name(s)]
    if FORMULA not in context.get("body", ""):
        scripts = [_without_mathjax(s, app, context) for s in scripts]
    context["script_files"] = [_deferred(script) for script in scripts]


def _sets_page_name(script):
    """Return whether a script only serves a menu of versions, which the book lacks.

    ``script`` is one of the page's scripts, as Sphinx lists them.
    """
    return "DOCUMENTATION_OPTIONS.pagename" in script.attributes.get("body", "")


def _without_mathjax(script, app, context):
    """Return a small script in place of MathJax's; other scripts are not replaced.

    ``script`` is one of the page's scripts, ``context`` has the page's values for the
    template. The small script fetches MathJax if the preview of a link needs it.
    """
    path = f"_static/{app.config.mathjax_path}"
    if script.filename != path:
        return script
    address = {"data-mathjax": context["pathto"](path, resource=True)}
    return _JavaScript("_static/formulas.js", priority=script.priority, **address)


def _deferred(script):
    if not script.filename or "async" in script.attributes:
        return script
    attributes = {**script.attributes, "defer": "defer"}
    return _JavaScript(script.filename, priority=script.priority, **attributes)


def setup(app):
    """Register :func:`defer_scripts`, to run after all events that add scripts."""
    app.connect("html-page-context", defer_scripts, priority=950)
