"""The search of the built site: its answers, its index and its dialog, in Chromium."""

import json
import re
import tomllib
from collections import Counter
from itertools import product
from pathlib import Path

import lxml.html
import pytest
from sphinx.errors import ExtensionError

from posedu_sphinx import ROOT
from posedu_sphinx.build import HTML
from posedu_sphinx.navigation import contents
from posedu_sphinx.search import aliases, entries, index, plain_text
from posedu_sphinx.site import packed_scripts
from posedu_sphinx.site.vendor import AXE_SCRIPT

SITE = [
    pytest.mark.site,
    pytest.mark.skipif(not HTML.exists(), reason="no built site: run `make book`"),
]
QUERIES = tomllib.loads(
    Path(__file__).with_name("queries.toml").read_text(encoding="utf-8")
)["query"]
STATIC = HTML / "_static"
BEFORE_FIRST_ANSWER = (
    *("search.js", "minisearch/minisearch.js", "search/titles.js"),
    *("search/ranking.js", "search/panel.js", "search/search.css"),
)
OPTIONS = "form.bd-search ~ .posedu-search [role=option]"
ALL_READ = "() => typeof poseduSearch == 'object' && poseduSearch.isComplete()"
ONLY_IN_TEXTS = "Barrington"  # whose theorem a chapter cites
OF_PAPER = "Haviv Press Levy still learn positional information"
# For a time after a change of theme axe would read colours between both.
SETTLED = "() => Promise.allSettled(document.getAnimations().map(a => a.finished))"
AXE = """async part => (await axe.run(part, {resultTypes: ["violations"]})).violations
  .filter(v => ["serious", "critical"].includes(v.impact))
  .map(v => [v.id, v.nodes[0].html])"""


@pytest.fixture(scope="module")
def searcher(address, browser):
    """The page of the search, after it has read all texts."""
    tab = browser.new_context().new_page()
    tab.goto(f"{address}search.html")
    tab.wait_for_function(ALL_READ)
    yield tab
    tab.context.close()


def answer(tab, query):
    """The pages that a query leads to, best first."""
    tab.locator(".posedu-search-page input").fill(query)
    links = tab.locator(OPTIONS).evaluate_all("e => e.map(a => a.getAttribute('href'))")
    return [re.sub(r"^[./]*|\.html.*$", "", link) for link in links]


def release(tab, requests):
    """Answer the requests for texts, and wait until the search has read them."""
    tab.wait_for_function("() => document.querySelector('script[src*=texts-]')")
    while not tab.evaluate(ALL_READ):
        while requests:
            requests.pop().continue_()
        tab.wait_for_timeout(50)


@pytest.fixture(scope="module")
def answers(searcher):
    """The pages that each query of the table leads to."""
    return {query["text"]: answer(searcher, query["text"]) for query in QUERIES}


@pytest.fixture(scope="module")
def ranks(answers):
    """Places of the table's pages among the answers; None if a page is not listed."""
    found = {}
    for query in QUERIES:
        right = {query["page"], *query.get("also", ())}
        pages = answers[query["text"]]
        places = [place for place, page in enumerate(pages) if page in right]
        found[query["text"]] = min(places, default=None)
    return found


class TestTable:
    """Queries of readers, each with the page that answers it."""

    pytestmark = SITE

    def test_it_has_390_queries_of_pages_that_exist(self):
        texts = [query["text"].lower() for query in QUERIES]
        assert len({*texts}) == len(texts) >= 390
        pages = {*contents.documents()}
        for query in QUERIES:
            assert {query["page"], *query.get("also", ())} <= pages, query["text"]

    def test_no_question_is_copied_into_the_aliases(self):
        names = {n.lower() for listed in aliases.of_file().values() for n in listed}
        questions = [q["text"] for q in QUERIES if q["kind"] == "question"]
        sentences = [text for text in questions if len(text.split()) > 3]
        assert [text for text in sentences if text.lower() in names] == []

    @pytest.mark.parametrize(("places", "share"), [(1, 0.85), (3, 0.97)])
    def test_the_right_page_is_among_the_first(self, places, share, ranks):
        missed = {
            text: rank for text, rank in ranks.items() if rank is None or rank >= places
        }
        kinds = Counter(q["kind"] for q in QUERIES if q["text"] in missed)
        assert len(missed) <= (1 - share) * len(ranks), (kinds, missed)

    def test_no_answer_is_empty(self, answers):
        assert [query for query, pages in answers.items() if not pages] == []


class TestDialog:
    """The theme's search dialog, and the page of the search."""

    pytestmark = SITE

    @pytest.fixture
    def tab(self, address, browser):
        context = browser.new_context()
        tab = context.new_page()
        tab.goto(f"{address}book/practice/extend-rope.html")
        yield tab
        context.close()

    @pytest.fixture
    def folder_tab(self, browser):
        context = browser.new_context()
        yield context.new_page()
        context.close()

    @pytest.mark.parametrize("keys", ["Control+k", "/"])
    def test_the_keyboard_alone_opens_it_chooses_and_follows_a_link(self, keys, tab):
        tab.keyboard.press(keys)
        tab.keyboard.type("stick-breaking")
        option = tab.locator(OPTIONS).first
        option.wait_for()
        field = tab.locator("#search-input")
        assert field.get_attribute("aria-expanded") == "true"
        tab.keyboard.press("ArrowDown")
        chosen = field.get_attribute("aria-activedescendant")
        assert chosen == option.get_attribute("id")
        assert option.get_attribute("aria-selected") == "true"
        tab.keyboard.press("ArrowUp")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        tab.wait_for_url("**/book/stickbreaking/stickbreaking.html*")

    def test_escape_closes_it(self, tab):
        tab.keyboard.press("Control+k")
        tab.keyboard.type("rope")
        tab.locator(OPTIONS).first.wait_for()
        tab.keyboard.press("Escape")
        tab.locator(OPTIONS).first.wait_for(state="hidden")

    def test_enter_without_a_choice_opens_the_page_of_the_search(self, tab):
        tab.keyboard.press("Control+k")
        tab.keyboard.type("rope")
        tab.keyboard.press("Enter")
        tab.wait_for_url("**/search.html?q=rope")
        tab.locator(OPTIONS).first.wait_for()

    def test_nothing_is_loaded_before_a_field_is_used(self, tab):
        assert not tab.evaluate("() => 'poseduSearchTitles' in self")
        tab.keyboard.press("Control+k")
        tab.wait_for_function("() => 'poseduSearchTitles' in self")

    def test_the_sentence_that_matched_marks_the_words(self, searcher):
        answer(searcher, "forget gate softmax")
        option = searcher.locator(OPTIONS).first
        words = " ".join(option.locator("mark").all_inner_texts()).lower()
        assert "forget" in words and "gate" in words
        assert "\\" not in option.inner_text()

    def test_a_query_without_a_match_says_so_and_lists_near_titles(self, searcher):
        assert answer(searcher, "qqqqzzzzxy")
        status = searcher.locator(".posedu-search-page .posedu-status")
        assert status.inner_text().startswith("Nothing found for “qqqqzzzzxy”.")
        assert status.get_attribute("role") == "status"

    def test_it_is_accessible_and_fits(self, tab):
        def check(part):
            for width, theme in product((1280, 390, 320), ("light", "dark")):
                tab.set_viewport_size({"width": width, "height": 800})
                tab.emulate_media(color_scheme=theme)
                overflow = "() => document.documentElement.scrollWidth - innerWidth"
                assert tab.evaluate(overflow) <= 0, width
                tab.evaluate(SETTLED)
                assert tab.evaluate(AXE, part) == [], (width, theme)

        tab.keyboard.press("Control+k")
        tab.keyboard.type("relative_attention_num_buckets")
        tab.locator(OPTIONS).first.wait_for()
        tab.keyboard.press("ArrowDown")
        tab.add_script_tag(path=AXE_SCRIPT)
        check(".search-button__wrapper")
        tab.goto(
            tab.url.replace("book/practice/extend-rope.html", "search.html?q=yarn")
        )
        tab.locator(OPTIONS).first.wait_for()
        tab.add_script_tag(path=AXE_SCRIPT)
        check("html")

    @pytest.fixture
    def held(self, tab):
        """The requests for texts, which wait for an answer."""
        requests = []
        tab.route("**/search/texts-*.js", lambda route: requests.append(route))
        return requests

    @pytest.fixture
    def status(self, tab):
        return tab.locator(".posedu-status")

    def test_it_says_that_texts_are_loading_and_then_answers_again(
        self, tab, held, status
    ):
        page = tab.url.replace("book/practice/extend-rope.html", "search.html?q=parity")
        tab.goto(page, wait_until="domcontentloaded")
        tab.locator(OPTIONS).first.wait_for()
        assert "titles. The texts of the pages are still loading" in status.inner_text()
        assert status.get_attribute("role") == "status"
        before = tab.locator(OPTIONS).count()
        release(tab, held)
        assert tab.locator(OPTIONS).count() > before
        assert status.inner_text() == f"{tab.locator(OPTIONS).count()} results"

    def test_words_of_texts_are_not_missing_while_texts_are_loading(
        self, tab, held, status
    ):
        tab.keyboard.press("Control+k")
        tab.keyboard.type(ONLY_IN_TEXTS)
        status.filter(has_text="No title has").wait_for()
        assert tab.locator(OPTIONS).count() == 0
        release(tab, held)
        assert tab.locator(OPTIONS).count() > 0

    def test_a_chosen_result_stays_when_texts_arrive(self, tab, held, status):
        tab.keyboard.press("Control+k")
        tab.keyboard.type("parity")
        tab.locator(OPTIONS).first.wait_for()
        tab.keyboard.press("ArrowDown")
        before = tab.locator(OPTIONS).all_inner_texts()
        release(tab, held)
        assert tab.locator(OPTIONS).all_inner_texts() == before
        assert "change the query to search them" in status.inner_text()
        tab.keyboard.type(" ")
        assert tab.locator(OPTIONS).count() > len(before)

    def test_titles_answer_if_texts_cannot_be_loaded(self, tab, status):
        tab.route("**/search/texts-*.js", lambda route: route.abort())
        tab.keyboard.press("Control+k")
        tab.keyboard.type("parity")
        status.filter(has_text="could not be loaded").wait_for()
        assert tab.locator(OPTIONS).count() > 0

    @pytest.mark.parametrize(
        ("query", "is_shown"),
        [(OF_PAPER, True), ("do recurrent layers need one", False)],
    )
    def test_a_paper_is_shown_to_whom_asks_for_it(self, query, is_shown, searcher):
        answer(searcher, query)
        shown = searcher.locator(OPTIONS).all_inner_texts()
        assert any("arXiv" in text for text in shown) == is_shown

    def test_nearest_titles_are_of_different_pages(self, searcher):
        assert len({*answer(searcher, "qqqqzzzzxy")}) == 5

    def test_it_works_from_a_folder(self, folder_tab):
        folder_tab.goto(f"{(HTML / 'search.html').as_uri()}?q=yarn")
        first = folder_tab.locator(OPTIONS).first
        first.wait_for()
        assert "context-extension" in first.get_attribute("href")

    def test_an_answer_takes_100_ms_on_a_slow_machine(self, searcher):
        session = searcher.context.new_cdp_session(searcher)
        session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
        times = searcher.evaluate(
            """queries => {
              const field = document.querySelector(".posedu-search-page input");
              const taken = (query) => {
                const start = performance.now();
                field.value = query;
                field.dispatchEvent(new Event("input"));
                return performance.now() - start;
              };
              return queries.map(query => {  // three tries: others use the machine
                let least = taken(query);
                for (let n = 1; n < 3 && least > 100; n++) {
                  least = Math.min(least, taken(query));
                }
                return least;
              });
            }""",
            [query["text"] for query in QUERIES[::3]],
        )
        session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
        assert sorted(times)[int(0.95 * len(times))] <= 100


class TestFiles:
    """Files that the search loads."""

    pytestmark = SITE

    def test_200_kB_are_loaded_before_the_first_answer(self):
        sizes = {name: (STATIC / name).stat().st_size for name in BEFORE_FIRST_ANSWER}
        assert sum(sizes.values()) <= 200_000, sizes

    def test_no_text_has_the_result_of_a_check(self):
        for file in (STATIC / "search").glob("texts-*.js"):
            text = packed_scripts.unpacked(file.read_text(encoding="utf-8"))
            assert "as typeset: refuses" not in text, file

    def test_sphinx_s_own_index_is_not_served(self):
        for name in ("searchindex.js", "_static/searchtools.js"):
            assert not (HTML / name).exists()

    def test_every_entry_leads_to_a_place(self):
        text = (STATIC / "search" / "titles.js").read_text(encoding="utf-8")
        text = packed_scripts.unpacked(text).partition(".resolve(")[2]
        pages = json.loads(json.loads(text.removesuffix(");\n")))["pages"]
        assert [page[0] for page in pages] == contents.documents()
        for page, _, _, *kinds in pages:
            ids = {*re.findall(r'\bid="([^"]+)"', (HTML / f"{page}.html").read_text())}
            kinds[-1] = [*index.without_prefixes(kinds[-1])]
            for kind, listed in zip(index.KINDS, kinds, strict=True):
                for number, entry in enumerate(listed):
                    title, *rest = [entry] if isinstance(entry, str) else entry
                    derived = title if kind == "api" else index.slug(title)
                    anchor = rest[0] if rest else derived
                    is_page = kind == "section" and number == 0
                    assert is_page or anchor in ids, (page, title)


def test_a_name_is_not_lengthened_by_the_digits_that_it_shares():
    names = [["a.Mamba2"], ["a.Mamba3"], ["a.Mamba31.b"]]
    short = [*index._with_prefixes(names)]
    assert short == [["0a.Mamba2"], ["6a3"], ["6a31.b"]]
    assert [*index.without_prefixes(short)] == names


PAGE = """<article class="bd-article"><section id="t"><h1>1. Title<a class="headerlink"
 href="#t">#</a></h1><p>First sentence.
Second, with <span class="math">\\(\\theta_p^2\\)</span>.</p><pre>code</pre>
<section id="part"><h2>Part</h2><div class="math" id="equation-e">x</div>
<table><tbody><tr><td><p>a</p></td><td><p>b</p></td></tr></tbody></table>
<div class="proof theorem admonition" id="thm"><p class="admonition-title">
<span class="caption-number">Theorem 1.1 </span> (Name)</p><section><p>Claim.</p>
</section></div></section></section></article>"""


class TestEntries:
    def found(self):
        return entries.entries(lxml.html.fromstring(PAGE))

    def test_sections_and_statements_have_entries(self):
        listed, _ = self.found()
        assert [(e.kind, e.anchor, e.title) for e in listed] == [
            ("section", "", "Title"),
            ("section", "part", "Part"),
            ("statement", "thm", "Theorem 1.1: Name"),
        ]

    def test_text_is_a_sentence_a_line_without_code(self):
        listed, _ = self.found()
        assert listed[0].lines == ["First sentence.", "Second, with θ_p^2."]
        assert listed[1].lines[0] == "a · b" and listed[2].lines == ["Claim."]

    def test_an_id_is_in_its_innermost_section(self):
        listed, section_of = self.found()
        assert section_of["equation-e"] is listed[1] and section_of["t"] is listed[0]

    def test_sources_name_their_papers_without_the_numbers_of_citations(self):
        cited = '<span class="bibtex-citation">[<a href="bibliography.html#id1" '
        cited += 'title="A. Author. A paper.">1</a>]</span>'
        page = f'<article><section id="sources"><h1>Sources</h1><p>It: {cited}</p>'
        listed, _ = entries.entries(lxml.html.fromstring(f"{page}</section></article>"))
        assert listed[0].lines == []
        assert listed[0].sources == ["It:", "A. Author. A paper."]
        assert index.shards({"p": listed}) == [["\n\nIt:\nA. Author. A paper."]]

    def test_a_heading_leads_to_the_innermost_place_around_it(self):
        card = '<section id="card"><div><h2>Card</h2></div></section>'
        page = f'<article><section id="t"><h1>Title</h1>{card}</section></article>'
        listed, _ = entries.entries(lxml.html.fromstring(page))
        assert [(e.anchor, e.title) for e in listed] == [
            ("", "Title"),
            ("card", "Card"),
        ]

    def test_blocks_are_lines_and_results_of_checks_are_none(self):
        fold = "<details><summary>Bytes</summary><p>None.</p></details>"
        check = "<details><summary>✓ eq-a sampled</summary><p>12</p></details>"
        nested = "<ul><li>One<ul><li>Two</li></ul></li></ul>"
        page = f'<article><section id="t"><h1>T</h1>{fold}{check}{nested}</section>'
        listed, _ = entries.entries(lxml.html.fromstring(f"{page}</article>"))
        assert listed[0].lines == ["Bytes", "None.", "One", "Two"]

    def test_tex_becomes_text(self):
        assert plain_text.without_tex(r"\(\frac{a}{b} \le \mathrm{x}\)") == "a/b ≤ x"


class TestAliases:
    @pytest.mark.parametrize("text", ["p: [a, A]", "p: [1]"])
    def test_aliases_are_different_texts(self, text, tmp_path):
        (tmp_path / "book").mkdir()
        (tmp_path / aliases.FILE).write_text(text)
        with pytest.raises(ExtensionError, match="must be different texts"):
            aliases.of_file(tmp_path)

    def test_every_page_that_is_no_notebook_has_some(self):
        pages = {p for p in contents.documents() if p.startswith("book/")}
        named = {place.partition("#")[0] for place in aliases.of_file(ROOT)}
        assert pages - named - {*aliases.of_catalog(ROOT)} == set()
        assert named <= {*contents.documents()}

    def test_an_alias_of_no_page_is_refused(self, monkeypatch):
        monkeypatch.setattr(aliases, "of_file", lambda: {"book/none": ["a"]})
        with pytest.raises(ExtensionError, match="book/none has aliases"):
            index.add_aliases({}, {})
