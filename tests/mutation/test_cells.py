"""The mutation runner of the book's checks, and the results that it wrote."""

from functools import cache, partial

import pytest

from mutation import cells, places, run

FIRST = """\
import numpy as np

def area(width, height=2):
    return width * height

def nothing(x):
    return x
"""
OWN = "sides = 3 * 2 + 1\nassert sides == 7"
CALLED = "assert area(3) == 6"
VACUOUS = "x = np.ones(3) * 2\nassert abs(nothing(x) - x).max() < 1e-9"
TYPESET = """\
from posedu.book.proof import prove
import sympy as sp

a, b = sp.symbols("a b")
prove("eq-tiny", {"a": a, "b": b}, covers="all a and b")
"""
PAGE = "# Tiny\n\n$$\n(a + b)^2 = a^2 + 2 a b + b^2\n$$ (eq-tiny)\n"


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """Run a page of cells, and return the rows of its check cells."""
    pytest.importorskip("cosmic_ray")
    (tmp_path / "tiny.md").write_text(PAGE, "utf-8")
    monkeypatch.setattr(cells, "WORK", tmp_path / "results.jsonl")
    monkeypatch.setattr(cells, "TABLE", tmp_path / "table.json")

    def judge(*sources, outcome="survived"):
        page = cells.Page("tiny", tmp_path / "tiny.md", [*map(cells.Cell, sources)])
        known = {cell for _, cell in cells.load()}
        assert run.forked(partial(page.judge, known, 0), run.DAY)[0] == outcome
        return [*cells.load().values()]

    return judge


def test_a_vacuous_cell_is_found_and_a_sound_one_passes(judged):
    own, called, vacuous = judged(FIRST, OWN, CALLED, VACUOUS)
    assert own["own"] == [3, 3]
    assert called["own"] == [1, 1]
    assert not cells.is_sound(vacuous)
    assert vacuous["own"] == [3, 0] and vacuous["called"] == [0, 0]


def test_what_a_cell_calls_is_changed_if_its_own_code_has_nothing_to_change(judged):
    (row,) = judged(FIRST, "w = 1", "assert area(w) == w + w")
    assert cells.is_sound(row)


def test_a_cell_that_only_has_a_comment_is_no_check():
    cell = cells.Cell("# Call your function here.")
    assert cell.row["line"] == "# Call your function here."
    assert not cell.is_check


def test_mutants_of_a_typeset_formula_count_for_a_cell_without_assert(judged):
    alone, both = judged(TYPESET, f"{TYPESET}assert a is not b")
    tried, refused = alone["typeset"]
    assert 0 < refused <= tried
    assert not cells.is_sound(both)


def test_an_interrupted_run_goes_on(judged, monkeypatch):
    rows = judged(FIRST, OWN, "assert area(3) == 7", outcome="failed")
    assert len(rows) == 1
    monkeypatch.setattr(cells, "MOST", 1)
    monkeypatch.setattr(cells, "TRIED", 1)
    rows = judged(FIRST, OWN, CALLED)
    assert [row["own"][0] for row in rows] == [3, 1]


@pytest.mark.parametrize(
    "source",
    [
        "assert gap < 1e-9 * size",
        "assert gap <= 2.0**-53 * size or not gap",
        "assert [at(n) for n in names] == [4, 6, np.pi]",
        "assert np.allclose(one, [1, 2], atol=1)",
        "assert abs(one / two - 1).max() < gap - 1",
        "print(3 * 2)",
        'prove_sampled("eq", use, samples=3, mutant=("no", use(1)))',
    ],
)
def test_what_is_stated_stays(source):
    pytest.importorskip("cosmic_ray")
    assert not [*places.mutants("page", source, 0)]


@pytest.mark.parametrize(
    ("statement", "file", "is_refused"),
    [
        ("assert False", "<ipython-input-1>", True),
        ("assert False", "/lib/torch/nn/modules/rnn.py", False),
        ("1 / 0", "<ipython-input-1>", False),
    ],
)
def test_only_a_failed_check_refuses(statement, file, is_refused):
    def failing():
        try:
            exec(compile(statement, file, "exec"))
        except Exception as error:
            return error

    assert (
        run.forked(partial(cells.refusal, failing), 5)[1] == "refused"
    ) == is_refused


# What came of it


@cache
def found():
    return list(cells.book()), cells.load()


def test_every_check_of_the_book_is_in_the_table_as_it_is():
    pages, rows = found()
    missing = [
        page.name
        for page in pages
        if any((page.name, cell.row["cell"]) not in rows for cell in page.checks)
    ]
    assert not missing, f'run: make cell-mutants PAGES="{" ".join(missing)}"'
    assert sum(len(page.checks) for page in pages) >= 800


def test_every_check_refuses_a_mutant_or_has_its_reason():
    pages, rows = found()
    unsound = {
        (name, line)
        for name, cell in cells.unsound(pages, rows)
        for line in cell.source.splitlines()
    }
    reasons = cells.reasons()
    assert not {*reasons} - unsound, "not listed as unsound any more"
    bare = [
        f"{name}: {cell.row['line']}"
        for name, cell in cells.unsound(pages, rows)
        if not any((name, line) in reasons for line in cell.source.splitlines())
    ]
    assert not bare
    assert all(reason.endswith(".") for reason in reasons.values())
    assert len(reasons) <= 0.05 * sum(len(page.checks) for page in pages)


def test_a_cell_is_known_by_its_code_and_not_by_its_caption():
    cell = 'x = f({})\nassert x\nfinish(x, caption="{}", alt="{}")'
    first, other_words, other_code = (
        cells.Cell(cell.format(*words)).row["cell"]
        for words in ((1, "a", "b"), (1, "c", "d"), (2, "a", "b"))
    )
    assert first == other_words != other_code
