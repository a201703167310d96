"""Smaller pages that look the same: figures, indentation and the previews of links.

Matplotlib writes coordinates to a millionth of a point, a name for every element, the
same few styles at most of them, and in each figure the outlines of its letters again.
Sphinx puts every sign of a signature into an element that no stylesheet mentions, and
Pygments every line of a text. The theme's templates indent most lines. A preview cannot
be scrolled or clicked, so it needs no links and no closed hints, and sphinx-tippy makes
one for each heading, whose link shows none.
"""

import base64
import functools
import html
import io
import json
import re
from pathlib import Path

import numpy as np
from PIL import Image

from posedu_sphinx.site import one_stylesheet
from posedu_sphinx.site.figure_text import as_text, characters_of, write_font
from posedu_sphinx.site.packed_scripts import PACKED, packed

FIGURE = re.compile(
    r'<svg\b(?:(?!</svg>).)*?id="(?:[\w-]+-)?figure_1".*?</svg>', re.DOTALL
)
DEFINED = re.compile(r'<path id="([^"]+)"([^>]*?(?:/>|></path>))')
NAME = re.compile(r'(?<= id=")[^"]+|(?<=href="#)[^"]+|(?<=url\(#)[^)]+')
GROUP = re.compile(r"(<g\b[^>]*>|</g>)")
BARE_GROUP = re.compile(r"<g>")
STYLE = re.compile(r' style="([^"]*)"')
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
SPAN = re.compile(r"(<span\b[^>]*>|</span>)")
UNSTYLED_SPAN = re.compile(
    r'<span class="(?:p|w|n|s|k|pre|sig-return|sig-return-icon|sig-return-typehint'
    r'|sig-prename descclassname)">'
)
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
COMMAND = re.compile(r"([MLQCz])([^MLQCz]*)")  # of a path by matplotlib
ZERO = re.compile(r"(?<![\d.])0(?=\.)")
UNNEEDED_SPACE = re.compile(r" ?([a-z]) ?| (?=-)")
SECOND_POINT = re.compile(r"(\.\d+) (?=\.)")  # it begins a number
# What a figure inside a page doesn't need, and elements without a color.
UNNEEDED = re.compile(
    r' xmlns(?::xlink)?="[^"]*"| version="1\.1"'
    r'|<path d="[^"]*"(?: clip-path="[^"]*")? style="fill:none"/>'
)
COORDINATES = re.compile(r' (?:d|x|y|width|height)="[^"]*"|translate\([^)]*\)')
# Ends of lines, and of rows and cells, which end where the next one begins.
ENDS = re.compile(
    r"(<(pre|textarea|script|style)\b.*?</\2>)|</(?:td|th|tr)>|\s*\n\s*",
    re.DOTALL,
)
PREVIEWS = re.compile(r"(?<=selector_to_html = )\{.*?\}(?=\n)", re.DOTALL)
# A word that no line can be broken in, so that keeping it together needs no element.
WORD = re.compile(r"""<span class="pre">([\w.,()\[\]=':]+)</span>""")
LINES = re.compile(r'<span class="(\w+)">[^<]*(?:</span>\n\s*<span class="\1">[^<]*)+')
UNUSABLE = re.compile(
    r'<a class="headerlink".*?</a>|<details\b.*?</details>'
    r'|<a\b[^>]*>|</a>| style="margin-top: 0;"',
    re.DOTALL,
)
ARTICLE = re.compile(r"<article\b.*</article>", re.DOTALL)
LINK = re.compile(r'<a\b[^>]* href="([^"]*)"[^>]*>')
WITHOUT_PREVIEW = re.compile(r'class="[^"]*\b(?:headerlink|sd-stretched-link)\b')
UNREAD = (  # what nothing reads: classes of frequent elements, tags that stand twice
    re.compile(r' title="(?:Perma)?[Ll]ink to this \w+"'),  # book.js sets titles
    re.compile(r'(?<=<script defer)="defer"'),
    re.compile(
        r'<meta name="viewport" content="width=device-width, initial-scale=1" ?/>'
    ),
    re.compile(r'<meta name="docsearch:language" content="en"/>'),
    re.compile(r'(?<=<a class=")reference internal (?=nav-link")'),
    re.compile(r'(?<!has-children"><a)(?<=<a) class="reference internal"(?= href)'),
    re.compile(r'(?<=class="math notranslate) nohighlight(?=")'),
    re.compile(r'(?<=class=")docutils (?=literal notranslate")'),
    re.compile(r'(?<=<div class="cell_input) docutils container(?=")'),
)
OWN_TITLE = re.compile(r'(<a [^>]*href="[^"#]*#([^"]+)") title="\2"')
NAVIGATION = re.compile(r'<nav class="bd-links\b.*?</nav>', re.DOTALL)
TOKEN = re.compile(r'<span class="(\w+)">([^<]*)</span>')
CODE = re.compile(r"<pre\b.*?</pre>", re.DOTALL)
# The most frequent classes of code, by an element that stands for them. Both styles of
# code color those of one element alike.
ELEMENTS = {
    "b": ("k", "kc", "kd", "kn", "kr", "ow"),
    "i": ("nb", "bp", "mb", "mf", "mh", "mi", "mo", "nd", "vm"),
    "u": ("s", "s1", "s2", "sa", "sb", "sd", "se", "sh", "si"),
}
ELEMENT_OF = {name: element for element in ELEMENTS for name in ELEMENTS[element]}
# Jupyter Book's second table of contents, for a way of printing that the book has not.
FOR_PRINT = re.compile(
    r'<div id="jb-print-docs-body".*?(?=<div id="searchbox">)', re.DOTALL
)
PICTURE = re.compile(r"(?<=data:image/png;base64,)[\w+/=\s]+")
PREVIEWS_OF_PAGE = re.compile(r'src="([^"]*_static/tippy/[^"]*\.js)"')


def compact_page(page):
    """Return a page's HTML with compact figures and without indentation."""
    known = {}

    def figure(found):
        return compact_figure(as_text(found[0]), known)

    page = FIGURE.sub(figure, page)
    page = SIGNATURE.sub(lambda m: _without(m[0], SPAN, UNSTYLED_SPAN), page)
    page = WORD.sub(r"\1", page)
    page = LINES.sub(_one_element, page)
    page = FOR_PRINT.sub("", page)
    page = PICTURE.sub(_smaller_picture, page)
    for names in UNREAD:
        page = names.sub("", page)
    page = OWN_TITLE.sub(r"\1", page)
    page = NAVIGATION.sub(lambda m: m[0].replace(' class="toctree-l1"', ""), page)
    page = CODE.sub(_shorter_code, page)
    return ENDS.sub(lambda m: m[1] or ("" if m[0].startswith("</") else "\n"), page)


def _shorter_code(found):
    """Return code with short elements of colors, one for each string."""
    code = TOKEN.sub(_short_token, found[0].replace("<span></span>", "", 1))
    return code.replace("</u><u>", "")


def _short_token(found):
    name, text = found.groups()
    if element := ELEMENT_OF.get(name):
        return f"<{element}>{text}</{element}>"
    return f"<i class={name}>{text}</i>"


def with_elements(sheet):
    """Return a stylesheet with the colors of the elements that stand for classes."""
    for element, (name, *_) in ELEMENTS.items():
        rule = re.compile(rf"([^{{}}]*\.highlight )\.{name}(\s*{{[^}}]*}})")
        sheet = rule.sub(rf"\g<0>\1{element}\2", sheet)
    return sheet


def compact_figure(svg, known):
    """Return a figure of matplotlib with hundredths of a point and fewer elements.

    ``known`` maps the styles, and the outlines of letters and markers, that earlier
    figures of the page define, and matplotlib's names of other elements, to short
    names. What it has is not defined again, and what it lacks is added.
    """
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = COORDINATES.sub(_with_rounded, svg)
    svg = re.sub(r' d="([^"]*)"', _path, svg)
    svg = re.sub(r'style="[^"]*"', lambda m: re.sub(r"([:;]) ", r"\1", m[0]), svg)
    svg = UNNEEDED.sub("", svg.replace("xlink:href=", "href="))
    svg = re.sub(
        r'(<use [^>]*) transform="translate\((\S+) (\S+)\)"', r'\1 x="\2" y="\3"', svg
    )
    svg = svg.replace(' y="0"', "")
    used = {*re.findall(r"#([\w.-]+)", svg)}
    svg = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", svg)
    names = {}
    svg = DEFINED.sub(lambda found: _defined_once(found, known, names), svg)
    svg = NAME.sub(lambda m: names.get(m[0]) or _short_name(m[0], known), svg)
    svg = re.sub(r">\s+<", "><", svg)
    svg = _without(svg.replace("<defs></defs>", ""), GROUP, BARE_GROUP)
    return _with_classes(svg, known)


def _with_rounded(found):
    return LONG_NUMBER.sub(lambda number: _rounded(number[0]), found[0])


def _rounded(number):
    text = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _path(found):
    """Return the attribute of a path with each point as seen from the one before.

    Of matplotlib's commands all letters are capitals, and no letter has two sets of
    points. Sums of the hundredths that are written are the points themselves.
    """
    path, before = [], ""
    at = start = np.zeros(2, int)
    for command, numbers in COMMAND.findall(found[1]):
        points = np.rint(100 * np.array(numbers.split(), float)).astype(int)
        steps = (points.reshape(-1, 2) - at).ravel() / 100
        letter = command.lower()
        path.append("" if letter == before else letter)
        path.extend(map(_rounded, steps))
        at = start if letter == "z" else points[-2:]
        if letter == "m":
            start = at
        before = {"m": "l", "z": ""}.get(letter, letter)
    text = ZERO.sub("", " ".join(filter(None, path)))
    text = SECOND_POINT.sub(r"\1", UNNEEDED_SPACE.sub(r"\1", text))
    return f' d="{text}"'


def _defined_once(found, known, names):
    """Return a definition, or nothing if an earlier figure has the same.

    ``found`` is its match, and ``names`` gets the short name for its own.
    """
    is_new = found[2] not in known
    names[found[1]] = _short_name(found[2], known)
    return found[0] if is_new else ""


def _short_name(long, known):
    return known.setdefault(long, f"_{len(known)}")


def _with_classes(svg, known):
    """Return a figure with a class in place of each style, which it defines if new."""
    styles = dict.fromkeys(STYLE.findall(svg))
    rules = [f".{_short_name(s, known)}{{{s}}}" for s in styles if s not in known]
    svg = STYLE.sub(lambda found: f' class="{known[found[1]]}"', svg)
    sheet = f"<style>{''.join(rules)}</style>" if rules else ""
    return svg.replace(">", f">{sheet}", 1)


def _smaller_picture(found):
    """Return a PNG file in base64 with a palette, if its colors fit into one."""
    with Image.open(io.BytesIO(base64.b64decode(found[0]))) as picture:
        pixels = np.asarray(picture.convert("RGBA")).view(np.uint32)[..., 0]
    colors, numbers = np.unique(pixels, return_inverse=True)
    if len(colors) > 256:
        return found[0]
    of_palette = Image.fromarray(numbers.astype(np.uint8), "P")
    of_palette.putpalette(colors.tobytes(), "RGBA")
    buffer = io.BytesIO()
    of_palette.save(buffer, "PNG", optimize=True)
    small = base64.b64encode(buffer.getvalue()).decode()
    return min(found[0], small, key=len)


def _one_element(found):
    """Return lines of code of one color in one element instead of one for each."""
    start = f'<span class="{found[1]}">'
    return start + found[0].replace(start, "").replace("</span>", "")


def _without(text, tags, unneeded):
    """Return HTML or SVG without some elements, with their content.

    ``tags`` splits the text at the opening and closing tags of one kind of element,
    ``unneeded`` matches the opening tags of the elements that are left out.
    """
    kept, is_left_out = [], []
    for part in tags.split(text):
        if part.startswith("</") and tags.fullmatch(part):
            part = "" if is_left_out.pop() else part
        elif tags.fullmatch(part):
            is_left_out.append(bool(unneeded.fullmatch(part)))
            part = "" if is_left_out[-1] else part
        kept.append(part)
    return "".join(kept)


def compact_previews(script, page):
    """Return a page's script of previews without what cannot be used in them.

    ``page`` is the page's HTML: a preview that none of its links shows is left out. The
    script of a page that an earlier build wrote is returned as it is.
    """
    if PACKED.search(script):
        return script
    found, linked = PREVIEWS.search(script), _previewed(page)
    previews = {
        selector: UNUSABLE.sub("", preview)
        for selector, preview in json.loads(found[0]).items()
        if selector in linked
    }
    text = json.dumps(previews, ensure_ascii=False, separators=(",", ":"))
    # sphinx-tippy's code waits for the page, which a script that unpacks does not meet.
    code = script[found.end() :].replace("window.onload = function ()", "", 1)
    return (
        f"{packed(text)}.then(function (text) {{\n"
        f"selector_to_html = JSON.parse(text)\n{code}}});\n"
    )


def _previewed(page):
    """Return the selectors of sphinx-tippy for the links of a page that have one."""
    return {
        f'a[href="{html.unescape(link[1])}"]'
        for article in ARTICLE.findall(page)
        for link in LINK.finditer(article)
        if not WITHOUT_PREVIEW.search(link[0])
    }


def finish(app, exception):
    """Make the written pages smaller, and the scripts of their previews.

    Nothing is done after a failed build (``exception``).
    """
    if exception is not None or app.builder.format != "html":
        return
    site, characters = Path(app.outdir), set()
    for path in site.rglob("*.html"):
        page = _rewrite(path, compact_page)
        characters |= characters_of(page)
        if found := PREVIEWS_OF_PAGE.search(page):
            script = path.parent / found[1]
            _rewrite(script, functools.partial(compact_previews, page=page))
    _rewrite(site / "_static" / one_stylesheet.NAME, with_elements)
    write_font(site, characters)


def _rewrite(path, change):
    text = path.read_text(encoding="utf-8")
    if (changed := change(text)) != text:
        path.write_text(changed, encoding="utf-8")
    return changed


def setup(app):
    """Register the event that makes pages smaller, before the site is packed."""
    app.connect("build-finished", finish, priority=890)
