"""Redirects from old page addresses, the 404 page, the sitemap and llms.txt."""

import html
import json
import posixpath
import re
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from sphinx.errors import ExtensionError
from sphinx.util.osutil import relative_uri

from posedu_sphinx.navigation.contents import parts
from posedu_sphinx.site import meta_tags

ROOT_PAGE = "index"  # what a host shows for the site's address
DESCRIPTION = re.compile(r'<meta name="description" content="(.*?)" />', re.DOTALL)
NOT_FOUND = """
<h1>There is no page here</h1>
<p>The page may have been renamed, or the address may contain a mistake.</p>
<ul>
<li><a href="{home}.html">The book's first page</a></li>
<li><a href="search.html">Search the book</a></li>
<li><a href="genindex.html">Every name in the code, by letter</a></li>
</ul>
"""
# A host shows the 404 page below any folder, so its links must start at the root.
ROOT_BASE = """
<script>
  if (!location.pathname.endsWith("/404.html")) {{
    const base = document.createElement("base");
    base.href = {path};
    document.head.append(base);
  }}
</script>"""


def moved_pages(root):
    """Read ``book/moved.yml``: the current page name for every old page name.

    ``root`` is the repository's folder. Without the file the dict is empty.
    """
    path = Path(root, "book", "moved.yml")
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def extra_pages(app):
    """Yield a redirect page for the site's address and each old page, and the 404 page.

    A page is a tuple for Sphinx: name, values for the template, template. An entry of
    ``book/moved.yml`` whose old page exists or whose new one does not is an error.
    """
    for old, new in moved_pages(app.srcdir).items():
        if new not in app.env.found_docs or old in app.env.found_docs:
            raise ExtensionError(
                f"book/moved.yml must map a page that no longer exists to one that "
                f"does, got {old}: {new}"
            )
        yield _redirect(app, old, new)
    yield _redirect(app, ROOT_PAGE, app.config.root_doc)
    path = posixpath.join(urlsplit(app.config.html_baseurl).path, "404.html")
    base_tag = ROOT_BASE.format(path=json.dumps(posixpath.join("/", path)))
    body = NOT_FOUND.format(home=app.config.root_doc)
    words = {"title": "No page here", "body": body, "metatags": base_tag}
    yield "404", words, "page.html"


def _redirect(app, old, new):
    """Return the page, a tuple for Sphinx, that leads from an old name to a new one."""
    target = relative_uri(f"{old}.html", f"{new}.html")
    base = app.config.html_baseurl
    words = {
        "title": app.env.titles[new].astext(),
        "summary": meta_tags.description(app.env.get_doctree(new)),
        "target": target,
        "canonical": posixpath.join(base, f"{new}.html") if base else target,
    }
    return old, words, "moved.html"


def sitemap(base, pages):
    """Return the sitemap's XML, the list of page addresses for search engines.

    ``base`` is the site's address, ``pages`` are page names.
    """
    lines = [f"  <url><loc>{base}{page}.html</loc></url>" for page in pages]
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    head = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{space}">'
    return "\n".join([head, *lines, "</urlset>", ""])


def llms_text(app):
    """Return the text of llms.txt: each page's link and summary, part by part.

    A part is one of the parts of the book's table of contents, with its caption.
    """
    home = app.config.root_doc
    lines = [
        f"# posedu: {app.env.titles[home].astext()}",
        "",
        f"> {_description(app, home)}",
    ]
    lines += ["", "The Markdown of `book/….html` is `_sources/book/….md`.", ""]
    for caption, pages in parts(Path(app.srcdir)).items():
        lines += [f"## {caption}", ""]
        for page in pages:
            link = f"- [{app.env.titles[page].astext()}]({page}.html)"
            words = _description(app, page)
            lines.append(f"{link}: {words}" if words else link)
        lines.append("")
    return "\n".join(lines)


def _description(app, page):
    """Return the summary in a page's HTML file, which may be of an earlier build.

    ``page`` is the page's name. A page without a summary gives "".
    """
    text = Path(app.outdir, f"{page}.html").read_text(encoding="utf-8")
    found = DESCRIPTION.search(text)
    return html.unescape(found[1]) if found else ""


def write_lists(app, exception):
    """Write llms.txt and, for a site with an address, the sitemap into the site.

    Nothing is written after a failed build (``exception``).
    """
    if exception is not None or app.builder.format != "html":
        return
    Path(app.outdir, "llms.txt").write_text(llms_text(app), encoding="utf-8")
    if base := app.config.html_baseurl:
        text = sitemap(base, app.config.external_site_map)
        Path(app.outdir, "sitemap.xml").write_text(text, encoding="utf-8")


def setup(app):
    """Register the events that write redirects, 404 page, sitemap and llms.txt."""
    app.connect("html-collect-pages", extra_pages)
    app.connect("build-finished", write_lists, priority=600)
