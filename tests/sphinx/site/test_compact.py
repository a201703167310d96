"""Smaller pages: what is left out of figures, of indentation and of previews."""

import base64
import io
import json
import re

import numpy as np
import pytest
from fontTools.ttLib import TTFont
from PIL import Image
from pygments.formatters import HtmlFormatter

from posedu_sphinx import ROOT
from posedu_sphinx.build import HTML
from posedu_sphinx.site import compact, figure_text
from posedu_sphinx.site.packed_scripts import packed, unpacked

LARGEST = 45_000_000  # bytes of the whole site, without its files for paper

STYLES = ("a11y-high-contrast-light", "a11y-high-contrast-dark")
FIGURE = """<svg role="img" viewBox="0 0 9 9">
 <g id="figure_1">
  <g id="text_1">
   <!-- 7 -->
   <g style="fill: currentColor" transform="translate(1.23456 2) scale(0.115 -0.115)">
    <defs>
     <path id="D-1" d="M 2034 4250
Q 1547.23456 4250 1301 3770
z
" transform="scale(0.015625)"/>
    </defs>
    <use xlink:href="#D-1"/>
    <use xlink:href="#D-1" transform="translate(63.625 0)"/>
   </g>
  </g>
 </g>
</svg>"""
SMALL = (
    '<svg role="img" viewBox="0 0 9 9">{2}'
    '<g class="{3}" transform="translate(1.23 2) scale(0.115 -0.115)">'
    '{0}<use href="#{1}"/><use href="#{1}" x="63.62"/></g></svg>'
)
STYLE = "<style>._1{fill:currentColor}</style>"
LETTER = (
    '<defs><path id="_0" d="m2034 4250q-486.77 0-733-480z"'
    ' transform="scale(0.015625)"/></defs>'
)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("classes", compact.ELEMENTS.values())
def test_the_classes_of_an_element_have_one_color(classes, style):
    colors = {tuple(rules_of(style, name)) for name in classes}
    assert len(colors) == 1 and colors != {()}


def rules_of(style, name):
    rules = HtmlFormatter(style=style).get_style_defs(".highlight")
    return re.findall(rf"\.highlight \.{name} {{([^}}]*)}}", rules)


def test_an_element_of_code_has_the_color_of_its_classes():
    rule = 'html[data-theme="dark"] .highlight .k{ color: #DCC6E0 }\n'
    other = ".highlight .kt{color: red}"
    assert compact.with_elements(rule + other) == (
        rule.rstrip("\n") + rule.replace(".k{", "b{") + other
    )


def test_a_figure_keeps_hundredths_and_the_names_that_are_used():
    small = SMALL.format(LETTER, "_0", STYLE, "_1")
    assert compact.compact_figure(FIGURE, {}) == small


def test_a_letter_and_a_style_are_defined_once_on_a_page():
    page = compact.compact_page(f"{FIGURE}<p>and</p>{FIGURE}")
    first = SMALL.format(LETTER, "_0", STYLE, "_1")
    second = SMALL.format("", "_0", "", "_1")
    assert page == f"{first}<p>and</p>{second}"
    assert compact.compact_page(page) == page


def test_a_letter_of_another_outline_is_defined_anew():
    other = FIGURE.replace("2034", "2035")
    page = compact.compact_page(FIGURE + other)
    anew = LETTER.replace("2034", "2035").replace("_0", "_2")
    anew = anew.replace("q-486.77", "q-487.77").replace("-733", "-734")
    first = SMALL.format(LETTER, "_0", STYLE, "_1")
    assert page == first + SMALL.format(anew, "_2", "", "_1")


def test_a_path_keeps_its_points(browser):
    rng = np.random.default_rng(0)

    def random_path():
        path = ""
        for command in "MLLQzLCMQLzMLz":
            points = rng.integers(-999, 999, {"z": 0, "C": 6, "Q": 4}.get(command, 2))
            path += command + " ".join(f"{point / 100}" for point in points)
        return path

    tab = browser.new_page()
    tab.set_content("<svg><path id='a' /><path id='b' /></svg>")
    for path in [random_path() for _ in range(20)]:
        short = compact.compact_figure(f'<svg><path d="{path}"/></svg>', {})
        (d,) = re.findall(r' d="([^"]*)"', short)
        same = """([a, b]) => {
            const drawn = [a, b].map((d, n) => {
                const path = document.getElementById("ab"[n]);
                path.setAttribute("d", d);
                const total = path.getTotalLength();
                return [0, .2, .4, .6, .8, 1].flatMap((share) => {
                    const point = path.getPointAtLength(share * total);
                    return [total, point.x, point.y];
                });
            });
            return drawn[0].map((number, n) => Math.abs(number - drawn[1][n]));
        }"""
        assert max(tab.evaluate(same, [path, d])) < 1e-3
    tab.close()


@pytest.mark.parametrize(
    ("page", "left"),
    [
        ("<p>a\n    b</p>\n\n  <p>c d</p>", "<p>a\nb</p>\n<p>c d</p>"),
        ("<pre>a\n    b</pre>\n  <p>", "<pre>a\n    b</pre>\n<p>"),
        ("<script>`a\n  b`</script>", "<script>`a\n  b`</script>"),
        ('<code><span class="pre">a_b(1)</span></code>', "<code>a_b(1)</code>"),
        ('<span class="pre">--a-b</span>', '<span class="pre">--a-b</span>'),
        ("<svg><g id='x'>\n  </g></svg>", "<svg><g id='x'>\n</g></svg>"),
        (
            '<pre><span class="s">a</span>\n\n <span class="s">b</span></pre>',
            "<pre><u>a\n\n b</u></pre>",
        ),
        (
            '<pre><span class="s">a</span>\n<span class="k">b</span></pre>',
            "<pre><u>a</u>\n<b>b</b></pre>",
        ),
        (
            '<pre><span class="sa">f</span><span class="s2">"</span> </pre>',
            '<pre><u>f"</u> </pre>',
        ),
        (
            '<pre><span class="s2">"</span> <span class="s2">"</span></pre>',
            '<pre><u>"</u> <u>"</u></pre>',
        ),
        (
            '<pre><span class="s">a<b>b</b></span></pre>',
            '<pre><span class="s">a<b>b</b></span></pre>',
        ),
        ('<a class="reference internal" href="#a">', '<a href="#a">'),
        ('<a href="b.html#a.B" title="a.B">', '<a href="b.html#a.B">'),
        ('<a href="b.html#a" title="About">', '<a href="b.html#a" title="About">'),
        ('<a href="#a" title="Link to this heading">#</a>', '<a href="#a">#</a>'),
        ("<tr>\n <td>a</td>\n <td>b</td></tr>", "<tr>\n<td>a\n<td>b"),
        ("<pre><td>a</td></pre>", "<pre><td>a</td></pre>"),
        (
            '<li class="has-children"><a class="reference internal" href="#a">',
            '<li class="has-children"><a class="reference internal" href="#a">',
        ),
        ('<a class="reference internal nav-link" href>', '<a class="nav-link" href>'),
        (
            '<div id="jb-print-docs-body">1</div><div id="searchbox">',
            '<div id="searchbox">',
        ),
    ],
)
def test_indentation_is_left_out_where_it_is_not_shown(page, left):
    assert compact.compact_page(page) == left


WORDS = """<svg role="img"><g id="figure_1"><g id="text_1">
   <!-- a &lt; b -->
   <g style="fill: red" transform="translate(1.5 2) {turn}scale(0.115 -0.115)">
    <defs><path id="DejaVuSans-13" d="M 2 4 z"/></defs>
    <use xlink:href="#DejaVuSans-13"/>
   </g></g>{more}</g></svg>"""


@pytest.mark.parametrize(
    ("turn", "place"),
    [
        ("", 'x="1.5" y="2"'),
        ("rotate(-90) ", 'transform="translate(1.5 2) rotate(-90)"'),
    ],
)
def test_the_words_of_a_figure_are_text(turn, place):
    figure = WORDS.replace("&lt;", "<").format(turn=turn, more="")
    small = compact.compact_page(figure)
    assert f'<text {place} class="_0">a &lt; b</text>' in small
    assert f"font:11.5px {figure_text.FAMILY}" in small
    assert "<path" not in small
    assert compact.compact_page(small) == small
    assert figure_text.characters_of(small) == {*"a <b"}


def test_a_formula_stays_drawn_and_has_the_letters_it_shares_with_words():
    formula = (
        "<!-- $10^0$ --><g transform='scale(1 -1)'>"
        '<use xlink:href="#DejaVuSans-13"/></g>'
    )
    small = compact.compact_page(WORDS.format(turn="", more=formula))
    assert '<defs><path id="_' in small and '<use href="#_' in small


def test_the_font_has_the_letters_of_figures_and_its_license(tmp_path):
    figure_text.write_font(tmp_path, {*"aβ"})
    path = tmp_path / figure_text.SERVED
    assert {*TTFont(path).getBestCmap()} == {ord("a"), ord("β")}
    assert "Bitstream Vera" in (path.parent / "LICENSE").read_text()


def test_a_picture_of_few_colors_has_a_palette():
    def embedded(picture):
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        data = base64.b64encode(buffer.getvalue()).decode()
        return f'<image href="data:image/png;base64,{data}"/>'

    picture = Image.new("RGBA", (40, 40), (1, 2, 3, 255))
    for place in range(1600):
        shade = place % 40 * (place // 40) % 7
        picture.putpixel((place % 40, place // 40), (shade, 7, 9, 255))
    picture.putpixel((3, 4), (9, 9, 9, 0))
    page = embedded(picture)
    small = compact.compact_page(page)
    assert len(small) < len(page)
    data = base64.b64decode(compact.PICTURE.search(small)[0])
    shown = Image.open(io.BytesIO(data)).convert("RGBA")
    assert shown.tobytes() == picture.tobytes()


def test_a_clip_path_has_a_short_name():
    clipped = '<svg><g id="figure_1"><path clip-path="url(#p05b78f7594)"/></g>{}</svg>'
    box = '<defs><clipPath id="{}"><rect x="1"/></clipPath></defs>'
    small = compact.compact_figure(clipped.format(box.format("p05b78f7594")), {})
    path = '<path clip-path="url(#_0)"/>'
    assert small == f"<svg>{path}{box.format('_0')}</svg>"


def test_a_signature_keeps_the_elements_that_have_a_style():
    name, colon = '<span class="sig-name">f</span>', '<span class="p">:</span>'
    default = '<span class="o">=</span><span class="default_value">1</span>'
    signature = f'<dt class="sig sig-object py">{name}{{}}{default}</dt>'
    value = f'<span class="n">x{colon}<span class="w"> </span></span>'
    page = compact.compact_page(signature.format(value) + colon)
    assert page == signature.format("x: ") + colon


def previews(shown, page):
    """Previews that stay on a page; argument and result map selectors to HTML."""
    script = f"selector_to_html = {json.dumps(shown)}\nskip_classes = []"
    plain = unpacked(compact.compact_previews(script, page))
    start, end = plain.split(".then(function (text) {")
    code = "selector_to_html = JSON.parse(text) skip_classes = []});"
    assert end.split() == code.split()
    return json.loads(json.loads(start.removeprefix("Promise.resolve(")[:-1]))


def test_a_preview_has_no_closed_hints_and_no_links():
    tip = (
        '<h1 class="t" style="margin-top: 0;">T<a class="headerlink" href="#t">#</a>'
        '</h1><details>\n</details><p>x <a href="y.html">y</a></p>'
    )
    page = '<article class="bd-article"><a href="z.html">z</a></article>'
    left = previews({'a[href="z.html"]': tip}, page)
    assert left == {'a[href="z.html"]': '<h1 class="t">T</h1><p>x y</p>'}


def test_a_preview_that_no_link_of_the_page_shows_is_left_out():
    page = """<a href="menu">m</a><article class="bd-article">
    <h2>H<a class="headerlink" href="#h" title="t">#</a></h2>
    <a class="sd-stretched-link reference" href="card">c</a>
    <a class="reference" href="#t">t</a> <a href="x?a&amp;b">x</a></article>"""
    names = ("menu", "#h", "card", "#t", "x?a&b")
    left = previews({f'a[href="{name}"]': "p" for name in names}, page)
    assert left == {f'a[href="{name}"]': "p" for name in ("#t", "x?a&b")}


def test_previews_of_an_earlier_build_stay_as_they_are():
    once = compact.compact_previews("selector_to_html = {}\nskip_classes = []", "")
    assert compact.compact_previews(once, "") == once


def test_a_packed_text_is_small_and_unpacked_by_a_browser(browser):
    text = 'a "β" \\ </script>\n' * 1000
    small = packed(text)
    assert len(small) < 1000
    tab = browser.new_page()
    assert tab.evaluate(small) == tab.evaluate(unpacked(small)) == text
    tab.close()


@pytest.mark.parametrize("element", compact.ELEMENTS)
def test_the_short_elements_of_code_are_plain(browser, element):
    tab = browser.new_page()
    code = f"<{element}>if</{element}>"
    tab.set_content(f'<div class="highlight"><pre>{code}</pre></div>')
    tab.add_style_tag(path=ROOT / "book/_static/book.css")
    found = tab.locator(f"pre {element}").evaluate(
        "(e) => { const s = getComputedStyle(e);"
        " return [s.fontStyle, s.fontWeight, s.textDecorationLine]; }"
    )
    tab.close()
    assert found == ["normal", "400", "none"]


@pytest.mark.site
@pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`")
def test_the_site_is_light():
    size = sum(path.stat().st_size for path in HTML.rglob("*") if path.is_file())
    of_pdf = sum(path.stat().st_size for path in HTML.glob("pdf/*"))
    assert size - of_pdf <= LARGEST


@pytest.mark.site
@pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`")
def test_every_letter_of_a_figure_is_defined_on_its_page():
    for path in HTML.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        used = {*re.findall(r'<use (?:xlink:)?href="#([^"]+)"', page)}
        assert used <= {*re.findall(r'id="([^"]+)"', page)}, path
