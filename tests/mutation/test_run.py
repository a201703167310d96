"""The mutation runner, and the results that it wrote."""

import ast
import inspect
import json
import sys
import textwrap
from collections import Counter
from types import SimpleNamespace

import pytest

from mutation import run
from posedu.numpy import attention

SOURCE = '''\
from torch import Tensor

Numbers = Tensor | list


def scaled(x: int | float, *, by: int = 3) -> int | float:
    """Say 1 + 1."""
    if by < 0:
        raise ValueError(f"by must be at least {0 + 0}, got {by}")

    def inner(y, step=1):
        return y + step

    return inner(
        x
        * by
    )
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A file of an implementation, and where mutants are looked for."""
    monkeypatch.setattr(run, "ROOT", tmp_path)
    file = tmp_path / "posedu/numpy/scaled.py"
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE, "utf-8")
    return tmp_path


def test_what_computes_is_changed_and_what_is_only_said_is_not(project):
    pytest.importorskip("cosmic_ray")
    drawn = run.draw("posedu/numpy/scaled.py", 1.0, 0, project)
    changes = {(mutant.line, mutant.before) for mutant in drawn}
    lines = SOURCE.splitlines()
    assert changes == {(n, lines[n - 1].strip()) for n in (6, 8, 11, 12, 16)}
    for mutant in drawn:
        after = mutant.source(project).splitlines()
        assert after[mutant.line - 1].strip() == mutant.after != mutant.before


def test_functions_are_found_though_conftest_froze_them():
    patched = run.Patched(SimpleNamespace(items=[]))
    found = patched.functions[attention.__file__]
    assert inspect.unwrap(attention.softmax) in found


def test_a_draw_stays_what_it_is_when_the_share_grows_or_another_line_changes(project):
    pytest.importorskip("cosmic_ray")
    name = "posedu/numpy/scaled.py"
    few, more = (run.draw(name, share, 0, project) for share in (0.4, 0.8))
    assert more[: len(few)] == few and len(more) > len(few)
    file = project / name
    file.write_text(SOURCE.replace("1 + 1", "one and one"), "utf-8")
    assert run.draw(name, 0.4, 0, project) == few


def test_text_that_looks_like_an_encoding_s_name_is_changed_all_the_same():
    pytest.importorskip("cosmic_ray")
    source = '"""An encoding: inputs are rotated."""\nx = 1 + 2\n'
    changed = run.changed(source, "ReplaceBinaryOperator_Add_Sub", 0)
    assert changed == source.replace("+", "-")


@pytest.mark.parametrize(
    ("line", "own", "meant"),
    [
        (3, range(3, 4), range(3, 4)),  # a statement of its own
        (6, range(6, 7), range(7, 18)),  # a default: the function's body
        (8, range(8, 9), range(8, 9)),  # a condition, without what hangs on it
        (11, range(11, 12), range(12, 13)),
        (16, range(14, 18), range(14, 18)),  # in the middle of a statement
    ],
)
def test_a_line_stands_for_its_statement(line, own, meant):
    assert run.statement(ast.parse(SOURCE), line) == (own, meant)


@pytest.mark.parametrize(
    ("line", "tests", "is_imported"),
    [
        (12, {"scales"}, False),  # in a body: who executes it
        (6, {"scales", "refuses"}, True),  # a default: its function's body
        (3, {"scales", "refuses", "imports"}, True),  # of the module: the file's
        (9, {"scales", "refuses", "imports"}, False),  # of nobody: the file's
    ],
)
def test_a_line_is_tested_by_who_executes_what_it_stands_for(
    project, line, tests, is_imported
):
    """A test that happens to import the file does not stand for its lines alone."""
    known = object.__new__(run.Map)
    own = {3: ["", "imports"], 6: [""], 8: ["scales", "refuses"], 12: ["scales"]}
    known.lines = {"posedu/numpy/scaled.py": own}
    known.seconds = dict.fromkeys(("scales", "refuses", "imports"), 0.1)
    mutant = run.Mutant("posedu/numpy/scaled.py", "any", "", "", 1, line, 0)
    found, imported = known.tests(mutant)
    assert ({*found}, imported) == (tests, is_imported)


def test_quick_cases_and_one_of_each_function_come_first_and_patience_ends():
    seconds = {"a[1]": 4.0, "a[2]": 1.0, "b": 3.0, "c[x]": 2.0, "c[y]": 2.5}
    seconds |= {"d[1]": 0.01, "d[2]": 0.02, "d[3]": 0.03}
    ordered = run.in_order(seconds, seconds)
    assert ordered == ["d[1]", "d[2]", "a[2]", "c[x]", "b", "d[3]", "c[y]", "a[1]"]
    assert run.within_limit([*ordered, "e"], seconds | {"e": 19.0}) == ordered


def forever():
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        (lambda: None, ("survived", None)),
        (lambda: "tests/test_a.py::test_b", ("killed", "tests/test_a.py::test_b")),
        (lambda: 1 / 0, ("failed", None)),
        (forever, ("timed out", None)),
    ],
    ids=["survived", "killed", "failed", "timed out"],
)
def test_a_forked_process_has_an_outcome(work, outcome):
    assert run.forked(work, 1) == outcome


def test_a_change_is_imported_in_place_of_the_file(project, monkeypatch):
    """The import runs in its own process and leaves no trace."""
    mutant = run.Mutant("posedu/numpy/scaled.py", "any", "", "", 1, 12, 0)
    other = SOURCE.replace("y + step", "y - step")
    monkeypatch.setattr(run.Mutant, "source", lambda self: other)
    monkeypatch.setattr(sys, "path", [str(project / "posedu/numpy"), *sys.path])

    def work():
        run.substitute(mutant)
        from scaled import scaled

        return f"{scaled(2)}"

    assert run.forked(work, 5)[1] == "5"


def test_codes_are_found_by_name_and_line():
    found = dict(run.codes(compile(textwrap.dedent(SOURCE), "x", "exec")))
    assert set(found) == {("scaled", 6), ("scaled.<locals>.inner", 11)}


# What came of it

KEPT = json.loads(run.TABLE.read_text("utf-8"))
OUTCOMES = sum(map(Counter, KEPT["outcomes"].values()), Counter())
REASONS = run.equivalent()
UNNOTICED = ("survived", "equivalent")


def test_of_a_hundred_changes_ninety_seven_are_noticed_or_change_nothing():
    assert OUTCOMES.keys() <= {"killed", "timed out", "equivalent", "survived"}
    assert OUTCOMES.total() >= 600
    assert OUTCOMES["survived"] <= 0.03 * OUTCOMES.total()
    assert Counter(row["outcome"] for row in KEPT["unnoticed"]) == {
        name: count for name, count in OUTCOMES.items() if name in UNNOTICED
    }


def test_what_is_equivalent_has_its_reason_and_still_stands_in_the_source():
    """The kept run may be of an older commit, some of whose lines are gone."""

    def stands(file, before):
        return before in (run.ROOT / file).read_text("utf-8")

    kept = (row for row in KEPT["unnoticed"] if row["outcome"] == "equivalent")
    found = {(row["file"], row["before"], row["after"]) for row in kept}
    assert {row for row in found if stands(*row[:2])} == set(REASONS)
    for (file, before, _), reason in REASONS.items():
        assert reason.endswith(".")
        assert stands(file, before), before


def test_processes_share_the_work_and_one_that_ends_early_is_noticed(tmp_path, capfd):
    results = run.Results(2)

    def work(part):
        (tmp_path / "-".join(map(str, part))).touch()

    run.shared(work, [1, 2, 3], results)
    assert {file.name for file in tmp_path.iterdir()} == {"1-3", "2"}

    def stop(part):
        if 2 in part:
            raise SystemExit("a test fails without a change")

    with pytest.raises(SystemExit, match="ended early"):
        run.shared(stop, [1, 2, 3], results)

    def fail(part):
        raise LookupError("no function is changed")

    with pytest.raises(SystemExit, match="ended early"):
        run.shared(fail, [1], results)
    assert "LookupError: no function is changed" in capfd.readouterr().err
