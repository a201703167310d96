"""The joined stylesheet: what it keeps, and that pages load no other."""

import re

import pytest

from posedu_sphinx.build import HTML
from posedu_sphinx.navigation import contents
from posedu_sphinx.site import one_stylesheet, plain_tokens

LIMIT = 155_000  # bytes; the stylesheets that it joins have 472,000


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        (".used{color:red}", ".used{color:red}"),
        (".unused{color:red}", ""),
        (".used,.unused p{color:red}", ".used{color:red}"),
        (".unused.used{color:red}", ""),
        ("p:not(.unused),a{color:red}", "p:not(.unused),a{color:red}"),
        (".made-up{color:red}", ".made-up{color:red}"),
        ("@media print{.unused{color:red}}", ""),
        ("@media print{.used{color:red}}", "@media print{.used{color:red}}"),
        ("/* words */ :root{--a:1}", ":root{--a:1}"),
        ("@keyframes turn{to{top:0}}", "@keyframes turn{to{top:0}}"),
    ],
)
def test_selectors_that_match_nothing_are_left_out(rule, left):
    assert one_stylesheet.without_unused(rule, {"used", "made-"}) == left


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ("a{--b:1;--c:2;color:var(--b)}", "a{--b:1;color:var(--b)}"),
        (":root{--c:var(--d);--d:1}p{top:0}", "p{top:0}"),
        (":root{--page:1}", ":root{--page:1}"),
        (":root{--line-1:2}", ":root{--line-1:2}"),
        (
            """:root{--c:url("data:a;b{}");--b:1}p{x:var(--b)}""",
            ":root{--b:1}p{x:var(--b)}",
        ),
    ],
)
def test_custom_properties_that_nothing_reads_are_left_out(rules, left):
    assert one_stylesheet.without_unread(rules, {"--page", "--line-"}) == left


def test_pages_scripts_and_other_stylesheets_read_custom_properties(tmp_path):
    static = tmp_path / "_static"
    static.mkdir()
    (tmp_path / "a.html").write_text('<p style="top:var(--of-page)">')
    (static / "b.js").write_text("`--of-script-${n}`")
    (static / "print.css").write_text("p{top:var(--of-paper)}")
    (static / "joined.css").write_text("p{top:var(--of-screen)}")
    read = one_stylesheet.read_properties(tmp_path, ["joined.css"])
    assert read == {"--of-page", "--of-script-", "--of-paper"}


def test_parts_of_bootstrap_that_no_page_has_are_not_used(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "a.html").write_text('<p class="modal-body">')
    (tmp_path / "_static" / "b.js").write_text("'modal-title tooltip'")
    used = one_stylesheet.used_words(tmp_path)
    assert {"modal-body", "tooltip"} <= used and "modal-title" not in used


def test_addresses_in_a_stylesheet_are_those_of_its_folder(tmp_path):
    (tmp_path / "styles").mkdir()
    text = "a{src:url(x.png)} b{src:url('../y.png')} c{src:url(data:,)}"
    (tmp_path / "styles" / "a.css").write_text(text)
    moved = one_stylesheet.moved(tmp_path, "styles/a.css")
    assert re.findall(r"url\((.*?)\)", moved) == [
        "styles/x.png",
        "'styles/../y.png'",
        "data:,",
    ]


def test_classes_of_pages_and_words_of_scripts_are_used(tmp_path):
    (tmp_path / "_static" / "mathjax").mkdir(parents=True)
    (tmp_path / "a.html").write_text('<p class="one two"><script>f("three")</script>')
    (tmp_path / "_static" / "b.js").write_text("el.className = 'four-' + x")
    (tmp_path / "_static" / "mathjax" / "c.js").write_text("five")
    used = one_stylesheet.used_words(tmp_path)
    assert {"one", "two", "three", "four-"} <= used and "five" not in used


def test_plain_tokens_have_no_tag():
    from pygments import highlight
    from pygments.lexers import PythonLexer

    shown = highlight("x = f(1)", PythonLexer(), plain_tokens.PlainTokens())
    assert 'x = f(<span class="mi">1</span>)' in shown


@pytest.mark.site
@pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`")
def test_a_page_has_one_stylesheet_for_the_screen():
    for page in [*contents.documents(), "genindex", "search", "404"]:
        text = (HTML / f"{page}.html").read_text(encoding="utf-8")
        links = re.findall(r'<link[^>]*rel="stylesheet"[^>]*>', text)
        screen = [link for link in links if 'media="print"' not in link]
        assert len(screen) == 1 and "_static/site.css" in screen[0], (page, screen)
    assert (HTML / "_static" / one_stylesheet.NAME).stat().st_size <= LIMIT
