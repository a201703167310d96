"""Pages that Sphinx generates: their links lead somewhere, and they fit."""

from types import SimpleNamespace

import pytest

from posedu_sphinx.build import HTML
from posedu_sphinx.site import generated_pages

INDEXES = ("genindex.html", "py-modindex.html", "prf-prf.html", "_modules/index.html")


def test_sources_link_only_to_objects_that_the_book_documents():
    used = {"f": "api", "g": "api"}
    modules = {"a": ("code", {}, used, "a"), "builtins": False}
    domain = SimpleNamespace(objects={"a.f": ()})
    env = SimpleNamespace(_viewcode_modules=modules, get_domain=lambda name: domain)
    assert generated_pages.link_what_exists(SimpleNamespace(env=env)) == ()
    assert modules == {"a": ("code", {}, {"f": "api"}, "a")}
    modules["a"] = ("code", {}, used, "short")
    generated_pages.link_what_exists(SimpleNamespace(env=env))
    assert modules == {"a": ("code", {}, {"f": "api"}, "a")}


@pytest.mark.site
@pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`")
@pytest.mark.parametrize("page", INDEXES)
def test_an_index_fits_a_narrow_screen_without_an_error(page, browser):
    context = browser.new_context(viewport={"width": 320, "height": 700})
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.goto((HTML / page).as_uri())
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= 320
    assert faults == []
    context.close()
