"""Scripts wait until the page is seen; formulas are set only where there are any.

The theme's own stylesheets and scripts stand in ``book/_templates``.
"""

from sphinx.builders.html._assets import _JavaScript

FORMULA = 'class="math'


def lighten(app, pagename, templatename, context, doctree):
    """Have no script in the way of a page's first paint.

    The search page stays as it is: its inline scripts call those above them.
    """
    if templatename == "search.html":
        return
    scripts = [s for s in context["script_files"] if not _is_idle(s)]
    if FORMULA not in context.get("body", ""):
        scripts = [_without_mathjax(s, app, context) for s in scripts]
    context["script_files"] = [_deferred(script) for script in scripts]


def _is_idle(script):
    """Whether a script states the page's name to a menu of versions, which is none."""
    return "DOCUMENTATION_OPTIONS.pagename" in script.attributes.get("body", "")


def _without_mathjax(script, app, context):
    """In MathJax's place a small script that fetches it for the previews."""
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
    """Register the event, after those that add scripts."""
    app.connect("html-page-context", lighten, priority=950)
