"""Meta tags of a page, for search engines and for previews of shared links.

Tags that need an absolute address (of the page, of its picture) are written if the
site has one: ``html_baseurl``, or the repository's GitHub Pages.
"""

import html
import re
import unicodedata
from pathlib import Path

from docutils import nodes

from posedu_sphinx.exercises.notebooks import published
from posedu_sphinx.site import share_image

LONGEST = 200  # characters of a description
INSERTED = {"posedu-time"}  # classes of paragraphs that every page has
COMMAND = re.compile(r"\\([A-Za-z]+)")
SIGNS = {  # besides Greek letters; other commands are left out, not their arguments
    **{"cdot": "·", "times": "×", "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈"},
    **{"infty": "∞", "in": "∈", "to": "→", "dots": "…", "ldots": "…", "R": "ℝ"},
    **{"sqrt": "√", "sum": "Σ", "log": "log", "exp": "exp", "cos": "cos"},
    **{"sin": "sin", "top": "T", "PE": "PE", "softmax": "softmax", "diag": "diag"},
}
PROSE_PARENTS = (nodes.document, nodes.section, nodes.container)


def set_base_address(app, config):
    """Set the site's address, from which Sphinx derives the address of each page.

    An address in the configuration stays; otherwise it is the address of the
    repository's GitHub Pages, empty without a repository.
    """
    repository = config.html_theme_options.get("repository_url", "")
    config.html_baseurl = config.html_baseurl or published(repository)


def description(doctree):
    """Return the start of a page's first paragraph as a summary, formulas as text.

    ``doctree`` is the page. A page without a paragraph gives "". Paragraphs that the
    build inserts, such as the reading time, are passed over.
    """
    for paragraph in doctree.findall(nodes.paragraph):
        if _is_prose(paragraph):
            return shortened(" ".join(_words(paragraph).split()))
    return ""


def _words(node):
    if isinstance(node, nodes.math):
        return latex_as_text(node.astext())
    return "".join(map(_words, node.children)) if node.children else node.astext()


def latex_as_text(latex):
    r"""Return LaTeX as one line of text: Greek and signs in Unicode, no commands.

    For example ``\\theta_i = b^{-2i/d}`` gives ``θ_i = b^-2i/d``.
    """
    return re.sub(r"[{}]", "", COMMAND.sub(_sign, latex)).replace("\\", "")


def _sign(command):
    name = command[1]
    if name in SIGNS:
        return SIGNS[name]
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {name}")
    except KeyError:
        return ""


def _is_prose(paragraph):
    if INSERTED & {*paragraph["classes"]}:
        return False
    node = paragraph
    while (node := node.parent) is not None:
        if not isinstance(node, PROSE_PARENTS) or "nb_element" in node:
            return False
    return True


def shortened(text):
    """Cut a text to at most 200 characters: after a sentence, or else after a word.

    A text that is not longer is returned unchanged; a cut after a word adds "…".
    """
    if len(text) <= LONGEST:
        return text
    start, stop, _ = text[:LONGEST].rpartition(". ")
    return start + "." if stop else text[: LONGEST - 1].rpartition(" ")[0] + "…"


def tags(title, text, *, is_home, address="", picture="", alternative=""):
    """Return the HTML meta tags of a page for its title, description and picture.

    ``text`` is the description, ``address`` the page's URL, ``picture`` the URL of the
    preview image with its ``alternative`` text; tags of what is empty are left out.
    """
    properties = {
        "og:title": title,
        "og:type": "website" if is_home else "article",
        "og:site_name": "posedu",
        "og:description": text,
        "og:url": address,
        "og:image": picture,
        "og:image:width": picture and str(share_image.WIDTH),
        "og:image:height": picture and str(share_image.HEIGHT),
        "og:image:alt": alternative,
    }
    names = {
        "description": text,
        "twitter:card": "summary_large_image" if picture else "summary",
    }
    lines = [_tag("property", *pair) for pair in properties.items() if pair[1]]
    return "\n".join(lines + [_tag("name", *pair) for pair in names.items() if pair[1]])


def _tag(kind, name, content):
    return f'<meta {kind}="{name}" content="{html.escape(content)}" />'


def add_tags(app, pagename, templatename, context, doctree):
    """Add the meta tags to a page that has a source file."""
    if doctree is None:
        return
    title = app.env.titles[pagename].astext()
    picture = alternative = ""
    if base := app.config.html_baseurl:
        figure = share_image.first_figure(context["body"])
        name = share_image.picture(title, Path(app.outdir, "_images"), figure)
        picture, alternative = f"{base}_images/{name}", share_image.alternative(figure)
    context["metatags"] += "\n" + tags(
        title,
        description(doctree),
        is_home=pagename == app.config.root_doc,
        address=context.get("pageurl") or "",
        picture=picture,
        alternative=alternative,
    )


def draw_pictures(app, exception):
    """Draw the preview images that need Chromium; nothing after a failed build."""
    if exception is None and app.builder.format == "html":
        share_image.draw_cards(Path(app.outdir, "_images"))


def setup(app):
    """Register the events that set the site's address and add the meta tags."""
    app.connect("config-inited", set_base_address)
    app.connect("html-page-context", add_tags)
    app.connect("build-finished", draw_pictures)
