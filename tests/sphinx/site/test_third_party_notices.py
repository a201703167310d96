"""The built site's size, meta tags, redirects, lists, notices and archive."""

import functools
import gzip
import html
import json
import re
import shutil
import tarfile
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document
from PIL import Image
from sphinx.errors import ExtensionError

from posedu_sphinx.build import HTML
from posedu_sphinx.exercises import notebooks
from posedu_sphinx.exercises.notebooks import published
from posedu_sphinx.navigation import contents, redirects
from posedu_sphinx.site import (
    meta_tags,
    one_stylesheet,
    share_image,
    third_party_notices,
)

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`"),
]

DOCUMENTS = contents.documents()
MOVED = redirects.moved_pages(notebooks.ROOT)
PAGES = [*(f"{d}.html" for d in DOCUMENTS), "404.html", "genindex.html", "search.html"]
HOME_LIMIT, LIMIT = 250_000, 350_000  # bytes before the first paint


def text(page):
    return (HTML / page).read_text(encoding="utf-8")


@functools.cache
def head_and_scripts(page):
    """The tags of a page's screen stylesheets and of its scripts."""
    found = "".join(re.findall(r"<(?:link|script)\b[^>]*>", text(page)))
    found = BeautifulSoup(found.replace("<script", "<meta"), "html.parser")
    styles = found.find_all("link", rel="stylesheet")
    scripts = found.find_all("meta", src=True)
    return [tag for tag in styles if tag.get("media") != "print"], scripts


def blocks(script):
    return not (script.has_attr("defer") or script.has_attr("async"))


@functools.cache
def compressed(path):
    return len(gzip.compress(path.read_bytes()))


def before_paint(page):
    styles, scripts = head_and_scripts(page)
    needed = [t["href"] for t in styles] + [t["src"] for t in scripts if blocks(t)]
    paths = {((HTML / page).parent / n.partition("?")[0]).resolve() for n in needed}
    return sum(map(compressed, [HTML / page, *paths]))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_light_and_no_script_keeps_it_from_being_seen(page):
    assert before_paint(page) <= (HOME_LIMIT if page == PAGES[0] else LIMIT)
    _, scripts = head_and_scripts(page)
    if page != "search.html":  # whose inline scripts call the others
        assert [t["src"] for t in scripts if blocks(t)] == []


@pytest.mark.parametrize("page", PAGES)
def test_what_sets_formulas_is_loaded_where_there_are_some(page):
    _, scripts = head_and_scripts(page)
    found = [t for t in scripts if "/mathjax/" in t["src"]]
    has_formulas = 'class="math' in text(page)
    assert len(found) == has_formulas
    assert all(t.has_attr("async") for t in found)


def test_every_icon_has_a_picture():
    style = (HTML / "_static" / "icons.css").read_text(encoding="utf-8")
    drawn = set(re.findall(r"\.(fa-[\w-]+) \{ --icon: url\(\"data:image/svg", style))
    assert "fa-rocket" in drawn  # of the Colab button, once there is an address
    classes = re.compile(r'class="([^"]*\bfa[sbr]?[ -][^"]*)"')
    for path in HTML.rglob("*.html"):
        for names in classes.findall(path.read_text(encoding="utf-8")):
            used = {n for n in names.split() if n.startswith("fa-")}
            assert "fab" not in names.split(), path
            assert used - {"fa-solid", "fa-lg"} <= drawn, (path, used)


def said_by(markup):
    """The names and contents of a page's meta tags."""
    head = BeautifulSoup(markup.partition("</head>")[0], "html.parser")
    found = head.find_all("meta", content=True)
    return {tag.get("property") or tag.get("name"): tag["content"] for tag in found}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_page_says_what_it_is(document):
    said = said_by(text(f"{document}.html"))
    assert said["og:type"] == ("website" if document == DOCUMENTS[0] else "article")
    assert said["og:title"] in html.unescape(text(f"{document}.html"))
    described = said.get("description", "")
    assert described == said.get("og:description", "")
    assert len(described) <= meta_tags.LONGEST and "\\" not in described
    if not published(notebooks.address()):
        assert not {"og:url", "og:image"} & set(said)


def test_chapters_labs_and_home_are_described():
    for document in [DOCUMENTS[0], *contents.chapters()]:
        described = said_by(text(f"{document}.html"))["description"]
        assert len(described.split()) >= 8, (document, described)


def page_of(*parts):
    doctree = new_document("")
    doctree += nodes.section("", nodes.title("", "RoPE & co"), *parts)
    return doctree


@pytest.mark.parametrize("base", ["", "https://example.org/book/"])
def test_a_shared_page_has_a_picture_and_an_address_where_there_is_one(base, tmp_path):
    doctree = page_of(nodes.paragraph("", 'It turns "pairs" of <x>.'))
    titles = {"a/rope": nodes.title("", "RoPE & co")}
    config = SimpleNamespace(html_baseurl=base, root_doc="a/index")
    app = SimpleNamespace(
        config=config, env=SimpleNamespace(titles=titles), outdir=tmp_path
    )
    url = base and f"{base}a/rope.html"
    context = {"metatags": "", "pageurl": url or None, "body": "<p>It turns.</p>"}
    meta_tags.add_tags(app, "a/rope", "page.html", context, doctree)
    said = said_by(context["metatags"])
    assert said["og:title"] == "RoPE & co"
    assert said["description"] == said["og:description"] == 'It turns "pairs" of <x>.'
    assert said["twitter:card"] == ("summary_large_image" if base else "summary")
    assert said.get("og:url", "") == url
    assert ("og:image" in said) == bool(base)
    if base:
        name = said["og:image"].removeprefix(f"{base}_images/")
        with Image.open(tmp_path / "_images" / name) as picture:
            assert picture.size == (share_image.WIDTH, share_image.HEIGHT)
        assert (tmp_path / "_images" / name).stat().st_size < 200_000


@pytest.mark.site
@pytest.mark.skipif(not shutil.which("chromium"), reason="no Chromium")
def test_the_picture_of_a_page_with_a_figure_is_its_first(tmp_path):
    drawn = (
        '<svg role="img" aria-label="A &amp; B" viewBox="0 0 9 9"><g id="figure_1">'
        '<rect width="9" height="9" fill="#ff0000"/></g></svg>'
    )
    figure = share_image.first_figure(f"<p>first</p>{drawn}<svg></svg>")
    assert figure == drawn and share_image.alternative(figure) == "A & B"
    name = share_image.picture("RoPE & co", tmp_path, figure)
    share_image.draw_cards(tmp_path)
    with Image.open(tmp_path / name) as picture:
        assert picture.size == (share_image.WIDTH, share_image.HEIGHT)
        middle = (share_image.WIDTH // 2, share_image.HEIGHT // 2)
        assert picture.convert("RGB").getpixel(middle) == (255, 0, 0)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_page_without_a_figure_has_the_general_picture(tmp_path):
    assert share_image.first_figure("<p>none</p><svg></svg>") is None
    assert share_image.alternative(None) == share_image.ALTERNATIVE


@pytest.mark.parametrize(
    ("latex", "words"),
    [
        (r"\theta_i = b^{-2i/d}", "θ_i = b^-2i/d"),
        (r"q_i^\top k_j \le \operatorname{max}", "q_i^T k_j ≤ max"),
        (r"\Omega \cdot \mathbb{R}", "Ω · R"),
    ],
)
def test_a_formula_is_a_line_of_text(latex, words):
    assert " ".join(meta_tags.latex_as_text(latex).split()) == words


def test_a_description_is_prose_and_of_whole_sentences():
    formula = nodes.paragraph("", "", nodes.Text("Let "), nodes.math("", "x"))
    note = nodes.note("", nodes.paragraph("", "A note."))
    item = nodes.bullet_list("", nodes.list_item("", nodes.paragraph("", "An item.")))
    cell = nodes.container("", nodes.paragraph("", "Output."), nb_element="cell_code")
    prose = nodes.container("", nodes.paragraph("", "This\n is  it."))
    time = nodes.paragraph("", "Reading time: 5 min.", classes=["posedu-time"])
    doctree = page_of(time, note, item, cell, prose, formula)
    assert meta_tags.description(doctree) == "This is it."
    assert meta_tags.description(page_of(time, formula)) == "Let x"
    assert meta_tags.description(page_of(time, note)) == ""
    assert meta_tags.shortened("One two. " * 40) == ("One two. " * 22).strip()
    assert meta_tags.shortened("word " * 60).endswith("word…")
    assert len(meta_tags.shortened("word " * 60)) <= meta_tags.LONGEST


def test_a_title_stays_beside_the_dial():
    for document in DOCUMENTS:
        title = said_by(text(f"{document}.html"))["og:title"]
        figure = share_image.draw(title)
        words, dial = figure.texts[0].get_window_extent(), figure.axes[0]
        assert words.x1 < dial.get_window_extent().x0, title
        assert words.y0 > figure.texts[1].get_window_extent().y1, title


@pytest.mark.parametrize(
    ("repository", "site"),
    [
        ("", ""),
        ("https://github.com/Example/book", "https://example.github.io/book/"),
        ("https://github.com/Me/me.github.io", "https://me.github.io/"),
    ],
)
def test_the_site_s_address_follows_from_the_repository_s(repository, site):
    assert published(repository) == site
    options = {"repository_url": repository}
    config = SimpleNamespace(html_baseurl="", html_theme_options=options)
    meta_tags.set_base_address(None, config)
    assert config.html_baseurl == site
    config.html_baseurl = "https://example.org/"
    meta_tags.set_base_address(None, config)
    assert config.html_baseurl == "https://example.org/"


def test_the_missing_page_leads_back():
    links = re.findall(r'<li><a href="([^"]+)"', text("404.html"))
    assert f"{DOCUMENTS[0]}.html" in links
    assert [link for link in links if not link.startswith("#") and "://" not in link]
    for link in links:
        assert link.startswith("#") or (HTML / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_page_that_moved_is_found(old, new):
    moved = text(f"{old}.html")
    (leads,) = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', moved)
    target = ((HTML / f"{old}.html").parent / leads).resolve()
    assert target == (HTML / f"{new}.html").resolve() and target.exists()
    assert f'<a href="{leads}">' in moved and 'rel="canonical"' in moved
    assert json.dumps(leads) in moved  # for the script, which keeps the anchor


def test_a_page_moves_to_one_that_exists_and_leaves_none_behind(tmp_path):
    (tmp_path / "book").mkdir()
    env = SimpleNamespace(found_docs={"here", "there"}, titles={})
    app = SimpleNamespace(srcdir=tmp_path, env=env)
    for wrong in ("old: nowhere", "here: there"):
        (tmp_path / "book" / "moved.yml").write_text(wrong)
        with pytest.raises(ExtensionError, match=r"moved\.yml"):
            next(redirects.extra_pages(app))


def test_the_lists_for_machines_hold_every_page():
    listed = text("llms.txt")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", listed, re.MULTILINE)
    assert links == [f"{d}.html" for d in DOCUMENTS[1:]]
    assert all((HTML / link).exists() for link in links)
    assert listed.count("\n## ") >= 5 and listed.startswith("# posedu")
    written = redirects.sitemap("https://example.org/b/", DOCUMENTS)
    found = [loc.text for loc in ElementTree.fromstring(written).iter() if loc.text]
    urls = [f"https://example.org/b/{d}.html" for d in DOCUMENTS]
    assert [loc for loc in found if loc.strip()] == urls
    assert (HTML / "sitemap.xml").exists() == bool(published(notebooks.address()))


def test_every_script_and_font_that_is_served_has_its_notice():
    told = text(third_party_notices.NOTICES)
    for name in third_party_notices.scripts(HTML):
        works = [
            work
            for work in third_party_notices.WORKS
            if third_party_notices.files_of(work, [name])
        ]
        assert len(works) + third_party_notices.is_ours(name) == 1, (name, works)
        for work in works:
            assert f"\n{work.name} ({work.license})" in told
    assert told.count("Permission is hereby granted") >= 5
    assert "Apache License" in told and "Font" in told


def test_nothing_is_served_that_no_page_asks_for():
    for pattern in third_party_notices.UNUSED:
        assert not list(HTML.glob(pattern)), pattern
    joined = [*one_stylesheet.OF_TEMPLATE, "pygments.css", "sphinx-design.min.css"]
    assert not [name for name in joined if (HTML / "_static" / name).exists()]
    asked = re.compile(r"(?:src|href)=\"([^\"]*_static/[^\"?]*)")
    for path in HTML.rglob("*.html"):
        for name in asked.findall(path.read_text(encoding="utf-8")):
            assert (path.parent / name).exists(), (path, name)


def test_the_archive_is_the_site_without_itself():
    packed = HTML / third_party_notices.ARCHIVE
    assert packed.stat().st_size < 15_000_000
    with tarfile.open(packed) as archived:
        names = {n.removeprefix("posedu/") for n in archived.getnames()}
        cited = archived.extractfile("posedu/book/reference/cite.html").read().decode()
    assert {*PAGES, "index.html", third_party_notices.NOTICES} <= names
    assert third_party_notices.ARCHIVE not in names
    assert third_party_notices.ARCHIVE in text("book/reference/cite.html")
    assert (
        third_party_notices.ARCHIVE not in cited
        and third_party_notices.NOTICES in cited
    )


def test_the_same_pages_make_the_same_archive(tmp_path):
    made = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        (folder / "_images").mkdir()
        for name in ("b.html", "a.txt", ".buildinfo", "_images/preview-0.png"):
            (folder / name).write_text(name)
        for _ in range(2):  # the second must not hold the first
            third_party_notices.archive(folder)
            made.append((folder / third_party_notices.ARCHIVE).read_bytes())
    assert len(set(made)) == 1
    with tarfile.open(folder / third_party_notices.ARCHIVE) as archived:
        assert archived.getnames() == ["posedu/a.txt", "posedu/b.html"]
