"""What stands beside the pages: moved and missing ones, and lists for machines."""

import html
import json
import posixpath
import re
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from sphinx.errors import ExtensionError
from sphinx.util.osutil import relative_uri

DESCRIPTION = re.compile(r'<meta name="description" content="(.*?)" />', re.DOTALL)
MISSING = """
<h1>There is no page here</h1>
<p>It may have another name, or the address that led here has a slip in it.</p>
<ul>
<li><a href="{home}.html">The book's first page</a></li>
<li><a href="search.html">Search the book</a></li>
<li><a href="genindex.html">Every name in the code, by letter</a></li>
</ul>
"""
# A host shows this page wherever nothing is, so its links start at the site's root.
ROOTED = """
<script>
  if (!location.pathname.endsWith("/404.html")) {{
    const base = document.createElement("base");
    base.href = {path};
    document.head.append(base);
  }}
</script>"""


def moved(root):
    """Which pages had another name, and where they are now."""
    path = Path(root, "book", "moved.yml")
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def extra_pages(app):
    """A page for each that moved, and one for all that are missing."""
    for old, new in moved(app.srcdir).items():
        if new not in app.env.found_docs or old in app.env.found_docs:
            raise ExtensionError(f"book/moved.yml: from {old} to {new}, not a page")
        target = relative_uri(f"{old}.html", f"{new}.html")
        base = app.config.html_baseurl
        canonical = posixpath.join(base, f"{new}.html") if base else target
        title = app.env.titles[new].astext()
        words = {"title": title, "target": target, "canonical": canonical}
        yield old, words, "moved.html"
    path = posixpath.join(urlsplit(app.config.html_baseurl).path, "404.html")
    rooted = ROOTED.format(path=json.dumps(posixpath.join("/", path)))
    body = MISSING.format(home=app.config.root_doc)
    yield (
        "404",
        {"title": "No page here", "body": body, "metatags": rooted},
        "page.html",
    )


def sitemap(base, pages):
    """The pages' addresses, as search engines read them."""
    lines = [f"  <url><loc>{base}{page}.html</loc></url>" for page in pages]
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    head = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{space}">'
    return "\n".join([head, *lines, "</urlset>", ""])


def contents(app):
    """The pages as language models like them: a link and a line each, by parts."""
    site = app.config.external_site_map
    home = app.config.root_doc
    lines = [f"# posedu: {app.env.titles[home].astext()}", "", f"> {_said(app, home)}"]
    lines += ["", "The Markdown of `book/….html` is `_sources/book/….md`.", ""]
    for part in site.root.subtrees:
        lines += [f"## {part.caption}", ""]
        for page in _below(site, part):
            link = f"- [{app.env.titles[page].astext()}]({page}.html)"
            said = _said(app, page)
            lines.append(f"{link}: {said}" if said else link)
        lines.append("")
    return "\n".join(lines)


def _below(site, part):
    for page in part.items:
        yield page
        for inner in site[page].subtrees:
            yield from _below(site, inner)


def _said(app, page):
    """The description that the page was written with, now or in an earlier build."""
    text = Path(app.outdir, f"{page}.html").read_text(encoding="utf-8")
    found = DESCRIPTION.search(text)
    return html.unescape(found[1]) if found else ""


def write_lists(app, exception):
    """Write the lists into the built site."""
    if exception is not None or app.builder.format != "html":
        return
    Path(app.outdir, "llms.txt").write_text(contents(app), encoding="utf-8")
    if base := app.config.html_baseurl:
        text = sitemap(base, app.config.external_site_map)
        Path(app.outdir, "sitemap.xml").write_text(text, encoding="utf-8")


def setup(app):
    """Register the events."""
    app.connect("html-collect-pages", extra_pages)
    app.connect("build-finished", write_lists, priority=600)
