"""Pages that Sphinx generates: their links lead somewhere, and they fit."""

import re
from types import SimpleNamespace

import pytest

from posedu_sphinx.build import HTML
from posedu_sphinx.site import generated_pages

INDEXES = ("genindex.html", "py-modindex.html", "prf-prf.html", "_modules/index.html")
LISTING = "_modules/posedu/torch/cache.html"


def sphinx(modules, objects):
    """The little of Sphinx that the repairs need; ``objects`` maps names to anchors."""
    places = {name: SimpleNamespace(node_id=anchor) for name, anchor in objects.items()}
    domain = SimpleNamespace(objects=places)
    env = SimpleNamespace(_viewcode_modules=modules, get_domain=lambda name: domain)
    return SimpleNamespace(env=env)


def test_modules_without_source_are_not_listed():
    modules = {"a": ("code", {}, {}, "a"), "builtins": False}
    assert generated_pages.list_sources(sphinx(modules, {})) == ()
    assert list(modules) == ["a"]


@pytest.mark.parametrize(
    ("objects", "anchor"),
    [
        ({"a.f": "a.f"}, "a.f"),
        ({"a.b.f": "a.b.f"}, "a.b.f"),
        ({"a.b.f": "other"}, "other"),
        ({"a.f": "a.f", "a.b.f": "a.b.f"}, "a.f"),
    ],
)
def test_a_listing_links_to_where_an_object_is_documented(objects, anchor):
    app = sphinx({"a.b": ("code", {}, {"f": "api"}, "a")}, objects)
    link = '<a class="viewcode-back" href="../api.html#{}">[docs]</a>'
    context = {"body": link.format("a.f")}
    own = (app, "_modules/a/b", "page.html", context, None)
    assert generated_pages.link_documentation(*own) == "listing.html"
    assert context["body"] == link.format(anchor)


def test_other_pages_keep_their_template():
    app = sphinx({"a.b": ("code", {}, {}, "a")}, {})
    for page in ("book/a", "_modules/index"):
        assert generated_pages.link_documentation(app, page, "p", {}, None) is None


@pytest.mark.site
@pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`")
@pytest.mark.parametrize("page", [*INDEXES, LISTING])
def test_an_index_fits_a_narrow_screen_without_an_error(page, browser):
    context = browser.new_context(viewport={"width": 320, "height": 700})
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.goto((HTML / page).as_uri())
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= 320
    assert faults == []
    context.close()


@pytest.mark.site
@pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`")
def test_no_link_of_a_listing_is_dead():
    documented = (HTML / "book/reference/api.html").read_text(encoding="utf-8")
    anchors = set(re.findall(r'id="([^"]+)"', documented))
    for path in (HTML / "_modules").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for file, anchor in re.findall(r'href="([^"#:]+\.html)(?:#([^"]*))?"', text):
            assert (path.parent / file).exists(), (path, file)
            if file.endswith("reference/api.html") and anchor:
                assert anchor in anchors, (path, anchor)
