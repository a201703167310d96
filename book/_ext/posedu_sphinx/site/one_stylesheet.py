"""One stylesheet for every page, in place of the thirteen of Sphinx and its themes.

Rules whose selectors name a class that no page and no script has are left out, and
custom properties that nothing reads: more than half of what the themes bring.
"""

import re
from itertools import pairwise
from pathlib import Path

import tinycss2

NAME = "site.css"
# Those that the theme's template links to; the others are of Sphinx's own list.
OF_TEMPLATE = ("basic.css", "styles/bootstrap.css", "styles/pydata-sphinx-theme.css")
HEAD = "/* Joined from other stylesheets, whose licenses are in ../NOTICES.txt. */\n"
URL = re.compile(r"url\((?!data:|[#/]|https?:)(['\"]?)")
CLASS = re.compile(r'class=\\?"([^"\\]*)')
SCRIPT = re.compile(r"<script[^>]*>(.+?)</script>", re.DOTALL)
WORD = re.compile(r"[A-Za-z_][\w-]*")
# What Bootstrap's script can show, and no page has.
IDLE = (
    *("accordion", "bs-popover", "btn-check", "carousel", "list-group", "modal"),
    *("offcanvas", "popover", "toast"),
)
PROPERTY = re.compile(r"--[\w-]+")
READ = re.compile(r"var\(\s*(--[\w-]+)")
DEFINED = re.compile(  # a text in quotes may contain a semicolon
    r"""(?<=[{;\s])(--[\w-]+)\s*:(?:"[^"]*"|'[^']*'|[^;{}"'])*;?"""
)
EMPTY = re.compile(r"[^{}]*\{\s*\}")


def link_one(app, pagename, templatename, context, doctree):
    """Leave of a page's list of stylesheets those that are not joined: for print."""
    context["css_files"] = [css for css in context["css_files"] if not _is_joined(css)]


def _is_joined(stylesheet):
    """Return whether one of Sphinx's entries is a file of the site, for the screen."""
    attributes = getattr(stylesheet, "attributes", {})
    is_local = str(stylesheet.filename).startswith("_static/")
    return is_local and attributes.get("media", "all") == "all"


def joined(app):
    """Return the stylesheets that are joined: paths in the site's ``_static``."""
    own = [str(s.filename) for s in app.builder._css_files if _is_joined(s)]
    return [*OF_TEMPLATE, *(name.removeprefix("_static/") for name in own)]


def write_one(app, exception):
    """Write the joined stylesheet into the site.

    Nothing is written after a failed build (``exception``).
    """
    if exception is not None or app.builder.format != "html":
        return
    static, names = Path(app.outdir, "_static"), joined(app)
    used = used_words(Path(app.outdir))
    text = "\n".join(without_unused(moved(static, name), used) for name in names)
    text = without_unread(text, read_properties(Path(app.outdir), names))
    (static / NAME).write_text(HEAD + text + "\n", encoding="utf-8")


def moved(static, name):
    """Return a stylesheet's text with its relative addresses as seen from ``static``.

    ``static`` is the folder of the joined stylesheet, ``name`` the path below it.
    """
    folder = name.rpartition("/")[0]
    text = (static / name).read_text(encoding="utf-8")
    return URL.sub(rf"url(\1{folder}/", text) if folder else text


def used_words(site):
    """Return the classes of all pages of a built site, and all words of its scripts.

    ``site`` is its folder. Words are those that could be a class: a set of strings.
    Those that begin like one of :data:`IDLE` count on pages only.
    """
    classes, words = set(), set()
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for names in CLASS.findall(text):
            classes.update(names.split())
        for script in SCRIPT.findall(text):
            words.update(WORD.findall(script))
    for script in _scripts(site):
        words.update(WORD.findall(script))
    return classes | {word for word in words if not word.startswith(IDLE)}


def read_properties(site, joined):
    """Return the custom properties that a site names outside of the joined stylesheet.

    ``site`` is its folder, ``joined`` are the files of stylesheets that are joined. The
    names are those in pages and scripts, and those that other stylesheets read.
    """
    pages = (page.read_text(encoding="utf-8") for page in site.rglob("*.html"))
    found = {
        name for text in (*pages, *_scripts(site)) for name in PROPERTY.findall(text)
    }
    static = site / "_static"
    others = {*static.rglob("*.css")} - {static / name for name in (NAME, *joined)}
    for path in others:
        found.update(READ.findall(path.read_text(encoding="utf-8")))
    return found


def _scripts(site):
    """Yield the texts of a site's scripts but MathJax, which has its own styles."""
    for path in site.glob("_static/**/*.js"):
        if path.is_file() and "mathjax" not in path.parts:
            yield path.read_text(encoding="utf-8")


def without_unread(text, read):
    """Return a stylesheet without custom properties that nothing reads.

    ``read`` are the properties that are read elsewhere; one of them that ends with a
    hyphen, which a script completes, stands for all that begin so.
    """
    starts = tuple(name for name in read if name.endswith("-"))
    names = {found[1] for found in DEFINED.finditer(text)} - read
    names = {name for name in names if not name.startswith(starts)}
    while unread := names - {*READ.findall(text)}:
        text = DEFINED.sub(lambda m, un=unread: "" if m[1] in un else m[0], text)
        names -= unread
    return EMPTY.sub("", text)


def without_unused(text, used):
    """Return a stylesheet without comments and without selectors that match nothing.

    A selector matches nothing if it requires a class that is not in ``used``, unless
    ``used`` has the start of the class up to a hyphen, which a script may complete.
    """
    starts = tuple(word for word in used if word.endswith("-"))
    rules = tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)
    return "\n".join(_kept(rules, used, starts))


def _kept(rules, used, starts):
    for rule in rules:
        if rule.type == "qualified-rule":
            chosen = [
                tinycss2.serialize(selector).strip()
                for selector in _selectors(rule.prelude)
                if all(c in used or c.startswith(starts) for c in _classes(selector))
            ]
            if chosen:
                yield f"{','.join(chosen)}{{{tinycss2.serialize(rule.content)}}}"
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inner = tinycss2.parse_rule_list(
                rule.content, skip_comments=True, skip_whitespace=True
            )
            if body := "".join(_kept(inner, used, starts)):
                condition = tinycss2.serialize(rule.prelude)
                yield f"@{rule.at_keyword}{condition}{{{body}}}"
        elif rule.type == "at-rule" and rule.lower_at_keyword != "charset":
            yield rule.serialize()
        elif rule.type == "error":
            raise ValueError(f"a stylesheet must be valid CSS: {rule.message}")


def _selectors(prelude):
    """Split a rule's selectors, tokens of tinycss2, at the commas between them."""
    selector = []
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            yield selector
            selector = []
        else:
            selector.append(token)
    yield selector


def _classes(selector):
    """Yield the classes that a selector requires; those in parentheses are optional."""
    for dot, name in pairwise(selector):
        if dot.type == "literal" and dot.value == "." and name.type == "ident":
            yield name.value


def setup(app):
    """Register the events that link to the stylesheet and write it."""
    app.connect("html-page-context", link_one, priority=950)
    app.connect("build-finished", write_one, priority=880)
