"""Slides cut out of pages, lessons and plans of courses."""

import re
from dataclasses import replace
from types import SimpleNamespace

import lxml.html
import pytest
import yaml
from docutils import nodes, utils
from sphinx.errors import ExtensionError

from posedu.book import exercises
from posedu_sphinx import ROOT
from posedu_sphinx.navigation.contents import documents
from posedu_sphinx.navigation.reading_time import WORDS_A_MINUTE
from posedu_sphinx.teaching import courses
from posedu_sphinx.teaching.lessons import Lesson, Slide, Week, course, lessons
from posedu_sphinx.teaching.slides import MissingPart, address, deck, write_decks

LESSONS = list(lessons().values())
COURSES = ("one-lesson", "four-weeks", "twelve-weeks")
PAGE = "book/family/chapter"
HTML = r"""<html><head>
<link rel="stylesheet" href="../../_static/book.css">
<link rel="stylesheet" media="print" href="../../_static/print.css">
<script>window.MathJax = {"tex": {"macros": {"R": "\\mathbb{R}"}}}</script>
<script async src="../../_static/mathjax/tex.js"></script>
</head><body><article><section id="chapter"><h1>A chapter<a>#</a></h1>
<section id="the-problem"><h2>The problem</h2><p>First.</p><p>Just before.</p>
<div class="cell"><details class="posedu-code"><summary>Code, 1 line</summary>
<div class="cell_input"><pre>print(1)</pre></div></details>
<div class="cell_output"><div class="stream"><pre>1</pre></div></div></div></section>
<section id="the-idea"><div class="output"><style>p {}</style>
<figure class="posedu-explorable"><svg><defs><path id="dot"></path></defs>
<use href="#dot"></use><path clip-path="url(#dot)"></path></svg>
<div class="controls"><input name="i"></div></figure><script>live()</script></div>
<figure class="posedu-figure"><img alt="A curve" src="../../_images/a.png"></figure>
<section id="deeper"><figure class="posedu-figure">deeper</figure></section></section>
<div class="proof" id="thm-one"><section id="proof-content"><p>For all x
<a href="#equation-eq-one">(1)</a>, <a href="other.html#thm-two">Theorem 2</a>,
<a href="https://arxiv.org/abs/1">a paper</a></p></section></div>
<p>So that</p>
<div class="math" id="equation-eq-one"><a class="headerlink">#</a>\[x\]</div>
<div class="exercise" id="one-1"><p>Do it.</p><div class="solution">SECRET</div></div>
<div class="solution" id="solution-1">SECRET</div></section></article></body></html>"""


def slide(id, part="", **options):
    return Slide("A & title", PAGE, id, 5, part, **options)


def made(*slides):
    """The HTML of a deck with these slides of the small page, and the deck parsed."""
    lesson = Lesson("lesson", "Part", "A lesson", slides)
    text = deck(lesson, {PAGE: lxml.html.document_fromstring(HTML)})
    return text, lxml.html.document_fromstring(text)


def shown(*arguments, **options):
    """Element of a deck with what a slide of the small page shows."""
    (part,) = made(slide(*arguments, **options))[1].cssselect(".posedu-shown")
    return part


def sources():
    """The ids in the source of each page: labels, headings and exercises."""
    found = {}
    for name in {s.page for lesson in LESSONS for s in lesson.slides}:
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        labels = re.findall(r"^:label: (\S+)|^\$\$ \((\S+)\)|^\((\S+)\)=", text, re.M)
        headings = re.findall(r"^#+ (.+)", text, re.M)
        found[name] = {one for group in labels for one in group}
        found[name] |= {nodes.make_id(heading) for heading in headings}
        sheet = name.rpartition("/")[2]
        if sheet in exercises.sheets():
            found[name] |= {e.name for e in exercises.sheet(sheet).exercises}
    return found


def test_there_is_a_lesson_for_each_part_of_the_book():
    """Recurrences and many devices have none: four weeks hold eight lessons."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    captions = [part["caption"] for part in contents["parts"]]
    for without in ("Recurrences", "Many devices"):
        captions.remove(without)
    parts = [lesson.part for lesson in LESSONS]
    assert parts == captions[: len(parts)] and len(parts) == 8


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_lesson_lasts_90_minutes(lesson):
    assert lesson.minutes == 90
    assert 12 <= len(lesson.slides) <= 20
    assert all(slide.note.endswith(".") for slide in lesson.slides)
    in_class = [s for s in lesson.slides if s.title.startswith("In class: ")]
    assert 1 <= len(in_class) == sum(s.id.split("-")[-1].isdigit() for s in in_class)


def test_every_slide_has_a_source():
    known = sources()
    assert known.keys() <= {*documents()}
    for lesson in LESSONS:
        for one in lesson.slides:
            assert one.id in known[one.page], (lesson.name, one.title)


def test_a_slide_has_its_element_under_its_own_title():
    _, page = made(slide("thm-one", note="Ask <why>."))
    assert [h.text for h in page.iter("h1", "h2")] == ["A lesson", "A & title"]
    assert "For all x" in page.cssselect(".posedu-shown .proof")[0].text_content()
    assert page.cssselect("aside.notes")[0].text_content() == "5 min. Ask <why>."
    (source,) = page.cssselect(".posedu-source a")
    assert source.get("href") == "../../book/family/chapter.html#thm-one"
    assert source.text == "A chapter"
    assert len(page.cssselect("section")) == 2  # reveal.js takes each for a slide


def test_an_equation_follows_its_paragraph():
    part = shown("eq-one")
    assert [child.tag for child in part] == ["p", "div"]
    assert re.sub(r"\s", "", part.text_content()) == r"Sothat\[x\]"
    (source,) = made(slide("eq-one"))[1].cssselect(".posedu-source a")
    assert source.get("href").endswith("chapter.html#equation-eq-one")


def test_an_experiment_has_its_question_code_and_output():
    part = shown("the-problem", "experiment")
    assert part.text_content().split() == ["Just", "before.", "print(1)", "1"]
    assert not part.cssselect("details")


def test_an_explorable_has_its_style_and_script():
    part = shown("the-idea", "explorable")
    assert [child.tag for child in part] == ["style", "figure", "script"]
    (figure,) = part.cssselect("figure")
    assert [child[0].tag for child in figure] == ["svg", "div"]
    assert part.cssselect("path")[0].get("id") == "s1-dot"
    assert part.cssselect("use")[0].get("href") == "#s1-dot"
    assert part.cssselect("path")[1].get("clip-path") == "url(#s1-dot)"


def test_a_part_is_that_of_the_section_itself():
    assert shown("the-idea", "figure").cssselect("img[alt='A curve']")
    assert shown("deeper", "figure").text_content() == "deeper"


def test_an_exercise_has_no_solution():
    text, page = made(slide("one-1"))
    assert "Do it." in page.text_content() and "SECRET" not in text


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (slide("thm-two"), "chapter has no element with the id 'thm-two'"),
        (slide("solution-1"), "no element with the id 'solution-1'"),
        (slide("the-idea", "table"), "no table 1 in 'the-idea'"),
        (slide("the-idea", "figure", number=2), "no figure 2 in 'the-idea'"),
    ],
)
def test_a_slide_without_its_element_is_refused(missing, message, tmp_path):
    with pytest.raises(MissingPart, match=message):
        made(missing)
    page = tmp_path / f"{PAGE}.html"
    page.parent.mkdir(parents=True)
    page.write_text(HTML, encoding="utf-8")
    with pytest.raises(ExtensionError, match=message):
        write_decks(tmp_path, [Lesson("lesson", "Part", "A lesson", (missing,))])
    assert not [*tmp_path.rglob("lesson.html")]


def test_a_deck_asks_no_other_site():
    text, page = made(slide("thm-one"), slide("the-idea", "figure"))
    asked = [link for tag, name, link, _ in page.iterlinks() if tag.tag != "a"]
    assert asked and all(link.startswith("../../_") for link in asked)
    assert not any("print" in link for link in asked)
    assert r'"macros": {"R": "\\mathbb{R}"}' in text


@pytest.mark.parametrize(
    ("link", "leads_to"),
    [
        ("#eq-one", "../../book/family/chapter.html#eq-one"),
        ("other.html#a", "../../book/family/other.html#a"),
        ("../../_static/a.css?v=1", "../../_static/a.css?v=1"),
        ("https://arxiv.org/abs/1", "https://arxiv.org/abs/1"),
        ("data:image/png;base64,AA", "data:image/png;base64,AA"),
    ],
)
def test_links_lead_from_the_decks(link, leads_to):
    assert address(PAGE, link) == leads_to


@pytest.mark.parametrize("change", [{"part": "video"}, {"minutes": 0}, {"number": 0}])
def test_a_slide_that_cannot_be_is_refused(change):
    with pytest.raises(ValueError, match="slide 'A & title'"):
        replace(slide("thm-one"), **change)


@pytest.mark.parametrize("name", COURSES)
def test_a_course_has_pages_of_the_book(name):
    weeks = course(name)
    assert len(weeks) == {"one-lesson": 1, "four-weeks": 4, "twelve-weeks": 12}[name]
    for week in weeks:
        assert {*week.pages, *week.further, *week.labs} <= {*documents()}
        assert {*week.lessons} <= {*lessons()}
        assert week.lessons or week.labs
    taught = [lesson for week in weeks for lesson in week.lessons]
    assert len(weeks) == 1 or taught == [*lessons()]


def environment(pages):
    """The little of Sphinx's environment that a plan needs: pages of 10 minutes."""
    document = utils.new_document("page")
    document += nodes.paragraph("", "word " * (10 * WORDS_A_MINUTE))
    titles = {page: nodes.title("", page) for page in pages}
    return SimpleNamespace(
        titles=titles, found_docs=pages, get_doctree=lambda page: document
    )


def test_the_minutes_of_a_plan_add_up():
    builder = SimpleNamespace(get_relative_uri=lambda source, target: f"{target}.html")
    app = SimpleNamespace(env=environment({*documents()}), builder=builder)
    weeks = course("four-weeks")
    of_week = [courses.Plan(app.env, week).minutes() for week in weeks]
    table, listed = courses._course(app, "book/teaching/courses", weeks)
    *_, last = table.findall(nodes.row)
    sums = [courses.duration(sum(column)) for column in zip(*of_week, strict=True)]
    total = courses.duration(sum(map(sum, of_week)))
    assert [e.astext() for e in last] == ["all weeks", *sums, total]
    for (in_class, reading, required), week in zip(of_week, weeks, strict=True):
        assert in_class == 180 and reading == 10 * len(week.pages)
        sheets = (page.rpartition("/")[2] for page in week.pages)
        found = (e for sheet in sheets for e in exercises.sheet(sheet).exercises)
        assert required == sum(e.minutes for e in found if e.level == "required")
    assert "rope-1" in listed.astext() and "week" in table.astext()


def test_a_project_is_listed_if_its_notebook_is_there(monkeypatch):
    week = Week(pages=("book/rotary/rope",), project="kernel")
    task = SimpleNamespace(name="kernel", title="A kernel", minutes=240)
    monkeypatch.setattr(courses, "projects", lambda: ("kernel",))
    monkeypatch.setattr(courses, "project", lambda name: task)
    docs = {*documents()} - {"notebooks/projects/kernel"}
    assert courses.Plan(environment(docs), week).project() is None
    docs |= {"notebooks/projects/kernel"}
    assert courses.Plan(environment(docs), week).project() is task


def test_an_unknown_course_is_refused():
    with pytest.raises(ValueError, match="course must be one of one-lesson"):
        course("semester")
