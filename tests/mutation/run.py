"""Mutation tests: change one sign, number or condition at a time; a test must fail.

``make mutants`` draws places of ``posedu/numpy`` and ``posedu/torch`` evenly from every
file, changes each of them once by an operator of cosmic-ray, and runs the tests that
execute it, in a forked process, until one fails. A mutant that no test kills is a
survivor; ``equivalent.toml`` lists the survivors that compute the same, and why.

Annotations, type aliases, strings, raised errors and the star before keyword parameters
stay unchanged. Slow tests do not run, nor do the files of ``ELSEWHERE``, which test
pages, notebooks, configurations and processes.

Results are written one by one to ``_build/mutants``, so that an interrupted run can
continue. This module must not import posedu before conftest.py has installed the import
hook.
"""

import argparse
import ast
import gc
import hashlib
import json
import os
import re
import resource
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from itertools import accumulate, groupby, islice
from math import ceil
from pathlib import Path
from types import CodeType, FunctionType

import coverage
import hypothesis
import pytest
from tqdm import tqdm

ROOT = Path(__file__).parents[2]
WORK = ROOT / "_build/mutants"
TABLE = ROOT / "book/data/mutants.json"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
IMPLEMENTATIONS = ("posedu/numpy", "posedu/torch")
ELSEWHERE = (  # below tests/
    *("book", "mutation", "project", "sphinx", "sympy", "tools/checkpoints"),
    *("tools/configs", "tools/diagnose", "torch/test_device.py"),
)
QUIETLY = ("-q", "-s", "--tb=no", "-pno:cacheprovider", "-pno:cov", "-pno:xdist")
MARKED = ("-m", "not slow and not site")
PATIENCE = 30.0  # CPU-seconds of tests for a mutant
QUICK = 0.02  # CPU-seconds of a test that need not wait its turn
DAY = 86_400

ALIKE = (
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"},
    {"BitOr", "BitAnd"},
    {"Eq", "NotEq"},
    {"Lt", "LtE", "Gt", "GtE"},
    {"Is", "IsNot"},
    {"UAdd", "USub"},
)


# Mutants of a file


@dataclass(frozen=True)
class Mutant:
    """A line of a file, before and after; the n-th of equal lines.

    Edits of other lines do not change its identity: the line number, and the occurrence
    at which cosmic-ray's operator acts, are not compared.
    """

    file: str
    operator: str
    before: str
    after: str
    nth: int
    line: int = field(compare=False)
    occurrence: int = field(compare=False)

    def source(self, root: Path = ROOT) -> str:
        """The whole file, changed."""
        text = (root / self.file).read_text("utf-8")
        return changed(text, self.operator, self.occurrence)


def changed(source: str, operator: str, occurrence: int) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    return mutate_code(source, get_operator(f"core/{operator}")(), occurrence)


def operators() -> dict[str, object]:
    """Return operators whose results can run: + to *, say, but not == to <."""
    from cosmic_ray.plugins import get_operator, operator_names

    def is_alike(name: str) -> bool:
        kind, *change = name.split("_")
        if kind.startswith("Variable"):
            return False
        return not change or any({*change} - {"Delete"} <= one for one in ALIKE)

    names = (name.removeprefix("core/") for name in operator_names())
    return {name: get_operator(f"core/{name}")() for name in names if is_alike(name)}


def draw(file: str, share: float, seed: int, root: Path = ROOT) -> list[Mutant]:
    """Draw a share of a file's places, at least one, each with one mutant.

    The draw is a hash of the line and the place in it, so that edits of other lines
    do not change it.
    """
    source = (root / file).read_text("utf-8")
    places = changeable(file, source, seed, unchanged(parsed(source)))
    return list(islice(mutants(file, source, places), ceil(share * len(places))))


Position = tuple[int, int]
Places = dict[Position, list[tuple[str, str, int]]]


def parsed(source: str) -> ast.Module:
    """Return a syntax tree whose columns are characters, as cosmic-ray's are."""
    return ast.parse(re.sub(r"[^\x00-\x7f]", "x", source))


def changeable(
    file: str, source: str, seed: int, skipped: Iterable[tuple[Position, Position]]
) -> Places:
    """Return the places that an operator changes, with the ranks of their changes."""
    from cosmic_ray.ast import ast_nodes, get_ast

    lines, skipped = source.splitlines(), list(skipped)
    nodes = list(ast_nodes(get_ast(source)))
    places = defaultdict(list)
    for name, operator in operators().items():
        found = (at for node in nodes for at in operator.mutation_positions(node))
        for occurrence, (start, _) in enumerate(found):
            row, column = start
            is_star = lines[row - 1].startswith("*,", column)
            if is_star or any(low <= start < high for low, high in skipped):
                continue
            same = lines[:row].count(lines[row - 1])
            number = sum(name == other for _, other, _ in places[start])
            key = f"{seed} {file} {lines[row - 1]} {same} {column} {name} {number}"
            rank = hashlib.sha256(key.encode()).hexdigest()
            places[start].append((rank, name, occurrence))
    return places


def mutants(file: str, source: str, places: Places) -> Iterator[Mutant]:
    """Yield one mutant of every place where a change compiles, in the order drawn."""
    lines = source.splitlines()
    for options, row in sorted((sorted(v), start[0]) for start, v in places.items()):
        for _, name, occurrence in options:
            other = changed(source, name, occurrence)
            if compiles(other):
                both = zip(lines, other.splitlines(), strict=False)
                after = next(new for old, new in both if old != new)
                texts = lines[row - 1].strip(), after.strip()
                nth = lines[:row].count(lines[row - 1])
                yield Mutant(file, name, *texts, nth, row, occurrence)
                break


def unchanged(tree: ast.Module) -> Iterator[tuple[Position, Position]]:
    """Yield the extents of annotations, type aliases and raised errors."""
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, ast.Raise):
            parts.append(node)
        if isinstance(node, ast.Module):
            made = (n for n in node.body if isinstance(n, ast.Assign))
            parts += [n for n in made if "Tensor" in ast.unparse(n.value)]
        for part in filter(None, parts):
            yield (
                (part.lineno, part.col_offset),
                (part.end_lineno, part.end_col_offset),
            )


def compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


# The tests that execute a mutant


class Recorder:
    """A plugin that records the lines and the CPU-seconds of every test."""

    def __init__(self, lines: coverage.Coverage):
        self.lines, self.seconds = lines, {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        self.lines.switch_context(item.nodeid)
        start = time.process_time()
        done = yield
        self.seconds[item.nodeid] = time.process_time() - start
        self.lines.switch_context("")
        return done


def record(tests: Path) -> None:
    """Run a file of tests; store the lines that each test executes in a database."""
    include = [str(ROOT / implementation / "*") for implementation in IMPLEMENTATIONS]
    kept = WORK / f"{record_name(tests)}.db"
    kept.unlink(missing_ok=True)
    lines = coverage.Coverage(str(kept), config_file=False, include=include)
    recorder = Recorder(lines)
    lines.start()
    code = pytest.main([*QUIETLY, *MARKED, str(tests)], [recorder])
    lines.stop()
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"{tests.name} fails without a change")
    lines.save()
    state = {"of": fingerprint(tests), "seconds": recorder.seconds}
    kept.with_suffix(".json").write_text(json.dumps(state))


def record_name(tests: Path) -> str:
    """The name under which a file's record is kept: two folders may share a stem."""
    return "-".join(tests.relative_to(ROOT / "tests").with_suffix("").parts)


def is_recorded(tests: Path) -> bool:
    state = WORK / f"{record_name(tests)}.json"
    return state.exists() and json.loads(state.read_text("utf-8"))["of"] == fingerprint(
        tests
    )


def fingerprint(tests: Path) -> str:
    """Return a hash of the file and of the implementations."""
    texts = [path.read_bytes() for path in (tests, *map(ROOT.joinpath, modules()))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def modules() -> list[str]:
    files = (
        file
        for implementation in IMPLEMENTATIONS
        for file in (ROOT / implementation).rglob("*.py")
    )
    return sorted(file.relative_to(ROOT).as_posix() for file in files)


def test_files() -> list[Path]:
    tests = ROOT / "tests"
    skipped = [tests / name for name in ELSEWHERE]
    return [
        file
        for file in sorted(tests.rglob("test_*.py"))
        if not any(file.is_relative_to(one) for one in skipped)
    ]


class Map:
    """The tests that execute a line, and their CPU-seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        lines = coverage.CoverageData(no_disk=True)
        for tests in test_files():
            state = json.loads((WORK / f"{record_name(tests)}.json").read_text("utf-8"))
            self.seconds |= state["seconds"]
            one = coverage.CoverageData(str(WORK / f"{record_name(tests)}.db"))
            one.read()
            lines.update(one)
        self.lines = {f: lines.contexts_by_lineno(str(ROOT / f)) for f in modules()}

    def tests(self, mutant: Mutant) -> tuple[list[str], bool]:
        """Return tests, likeliest killers first, and whether an import runs the line.

        For a default or a decorator, they are the tests of the function's body. For
        other lines that an import executes, and for lines that no test executes (only
        a compiler reads them), they are the tests of the whole file.
        """
        by_line = self.lines[mutant.file]
        tree = ast.parse((ROOT / mutant.file).read_text("utf-8"))
        own, meant = statement(tree, mutant.line)

        def contexts(numbers: Iterable[int]) -> set[str]:
            return {name for n in numbers for name in by_line.get(n, ())}

        is_imported = "" in contexts(own)
        tests = contexts(meant) - {""}
        if not tests or (is_imported and meant == own):
            tests = contexts(by_line) - {""}
        return within_limit(in_order(tests, self.seconds), self.seconds), is_imported


def statement(tree: ast.Module, line: int) -> tuple[range, range]:
    """Return the lines of the innermost statement's head, and of its effect."""
    inner = None
    for node in ast.walk(tree):  # the outer before the inner
        if isinstance(node, ast.stmt):
            above = getattr(node, "decorator_list", None)
            start = min(n.lineno for n in (node, *(above or ())))
            if start <= line <= node.end_lineno:
                inner, first = node, start
    body = getattr(inner, "body", None)
    if body is None:
        own = range(first, inner.end_lineno + 1)
    else:
        own = range(first, max(body[0].lineno, first + 1))
    if isinstance(inner, ast.FunctionDef):
        return own, range(body[0].lineno, inner.end_lineno + 1)
    return own, own


def in_order(tests: Iterable[str], seconds: dict[str, float]) -> list[str]:
    """Order one case of every test function and all quick ones before the other cases.

    In both groups the fastest come first.
    """

    def function(test: str) -> str:
        return test.partition("[")[0]

    ranked = []
    for _, cases in groupby(sorted(tests, key=function), function):
        fastest = sorted(cases, key=seconds.__getitem__)
        for number, test in enumerate(fastest):
            waits = number > 0 and seconds[test] > QUICK
            ranked.append((waits, seconds[test], test))
    return [test for *_, test in sorted(ranked)]


def within_limit(tests: list[str], seconds: dict[str, float]) -> list[str]:
    """Return the first tests whose time adds up to less than ``PATIENCE``."""
    sums = accumulate(seconds[test] for test in tests)
    return [test for test, spent in zip(tests, sums, strict=True) if spent < PATIENCE]


# Running tests until one fails


def forked(work: Callable[[], str | None], seconds: int) -> tuple[str, str | None]:
    """Return the outcome of a forked process, and the test that failed, if any.

    The process may use ``seconds`` of CPU time, and a hundred times as many in all.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"!"
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            signal.alarm(100 * seconds)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            answer = (work() or "").encode()
        finally:
            os.write(theirs, answer)
            os._exit(0)
    os.close(theirs)
    with open(ours, encoding="utf-8") as answers:
        killer = answers.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if -status in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM):
        return "timed out", None
    if status:
        return "killed", f"exit {status}"
    if killer == "!":
        return "failed", None
    return ("killed", killer) if killer else ("survived", None)


def first_to_fail(session: pytest.Session, tests: Iterable[str]) -> str | None:
    items = {item.nodeid: item for item in session.items}
    for test in tests:
        item = items[test]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if session.testsfailed:
            return test
    return None


class Loop:
    """A plugin that replaces the loop over all tests."""

    def __init__(self, work: Callable[[pytest.Session], object]):
        self.work = work

    def pytest_collection(self) -> None:
        """One example that fails is enough, before any test is collected."""
        phases = hypothesis.Phase.explicit, hypothesis.Phase.generate
        mine = hypothesis.settings(hypothesis.settings.get_profile("ci"), phases=phases)
        hypothesis.settings.register_profile("mutants", mine)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.result = self.work(session)
        return True


def imported(mutant: Mutant | None, tests: Iterable[str]) -> str | None:
    """Import the mutant, for lines that run on import or during collection."""
    if mutant is not None:
        substitute(mutant)
    loop = Loop(partial(first_to_fail, tests=tests))
    files = sorted({test.partition("::")[0] for test in tests})
    code = pytest.main([*QUIETLY, *MARKED, *files], [loop])
    return getattr(loop, "result", f"{code!s} on import")


def substitute(mutant: Mutant) -> None:
    """Make the next import of the file read the mutant."""
    path, source = str(ROOT / mutant.file), mutant.source().encode()
    get_code = SourceFileLoader.get_code

    def get(self: SourceFileLoader, name: str) -> CodeType | None:
        if self.path == path:
            return self.source_to_code(source, path)
        return get_code(self, name)

    SourceFileLoader.get_code = get


class Patched:
    """Collected tests, and the functions of posedu, whose code can be replaced."""

    def __init__(self, session: pytest.Session):
        self.session = session
        paths = {str(ROOT / file) for file in modules()}
        self.modules = {
            getattr(m, "__file__", None): m for m in [*sys.modules.values()]
        }
        self.functions = defaultdict(list)
        gc.unfreeze()  # conftest.py froze what the tests import
        for found in gc.get_objects():
            if type(found) is FunctionType and found.__code__.co_filename in paths:
                self.functions[found.__code__.co_filename].append(found)
        gc.freeze()

    def __call__(self, mutant: Mutant | None, tests: Iterable[str]) -> str | None:
        if mutant is not None:
            path = str(ROOT / mutant.file)
            loader = self.modules[path].__loader__
            new = dict(codes(loader.source_to_code(mutant.source().encode(), path)))
            old = [function.__code__ for function in self.functions[path]]
            if all(new[place(code)] == code for code in old):
                raise LookupError(f"no function is changed: {mutant}")
            for function, code in zip(self.functions[path], old, strict=True):
                function.__code__ = new[place(code)]
        return first_to_fail(self.session, tests)


def codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The codes inside one, by name and line."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield place(inner), inner
            yield from codes(inner)


def place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


Run = Callable[[Mutant | None, Iterable[str]], str | None]


def judge(
    run: Run, mutant: Mutant, tests: list[str], seconds: dict[str, float]
) -> tuple[str, str | None]:
    """Return the outcome; a test that fails without the mutant kills nothing."""
    imports = 20 if run is imported else 5
    limit = imports + round(3 * sum(seconds[test] for test in tests))
    outcome, killer = forked(partial(run, mutant, tests), limit)
    if killer not in tests or is_sound(run, killer):
        return outcome, killer
    return judge(run, mutant, [test for test in tests if test != killer], seconds)


@cache
def is_sound(run: Run, test: str) -> bool:
    return forked(partial(run, None, [test]), 120) != ("killed", test)


def shared(work: Callable[[list], object], items: list, results: "Results") -> None:
    """Work on a part of the items in each of several processes of this machine."""
    children = []
    for part in range(results.processes):
        child = os.fork()
        if child == 0:
            results.part, code = part, 1
            try:
                work(items[part :: results.processes])
                code = 0
            except SystemExit as stop:
                print(stop, file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    if any([os.waitpid(child, 0)[1] for child in children]):
        raise SystemExit("a process ended early; its results so far are kept")


# The command


class Results:
    """The results of the mutants, written to a file one by one."""

    path = WORK / "results.jsonl"
    part = 0  # which process of several this is

    def __init__(self, processes: int = 1) -> None:
        self.processes = processes
        self.bar_file = os.fdopen(os.dup(2), "w")  # a forked process silences its own

    def load(self) -> dict[Mutant, dict[str, str | None]]:
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        rows = [json.loads(line) for line in lines]
        return {Mutant(**row.pop("mutant")): row for row in rows}

    def forget(self, outcome: str) -> None:
        kept = [(m, row) for m, row in self.load().items() if row["outcome"] != outcome]
        self.path.write_text("")
        for mutant, row in kept:
            self.add(mutant, **row)

    def add(self, mutant: Mutant, outcome: str, killer: str | None) -> None:
        row = {"mutant": asdict(mutant), "outcome": outcome, "killer": killer}
        with self.path.open("a") as file:
            print(json.dumps(row), file=file)

    def bar(self, name: str, mutants: list[Mutant]) -> Iterable[Mutant]:
        return tqdm(mutants, desc=name, file=self.bar_file, position=self.part)


def record_all(files: list[Path], results: Results) -> None:
    """Record the lines that the tests of each file execute, unless that is known."""
    for tests in results.bar("recorded", files):
        if (
            not is_recorded(tests)
            and forked(partial(record, tests), DAY)[0] == "failed"
        ):
            raise SystemExit(f"{tests.name} fails without a change")


def run_all(mutants: list[Mutant], results: Results) -> None:
    """Run mutants in one import where patching functions suffices.

    The others run with an import each, and so do survivors whose lines an import
    executes.
    """
    known = Map()
    tests = {mutant: known.tests(mutant) for mutant in mutants}

    def in_place(session: pytest.Session) -> None:
        patched = Patched(session)
        for mutant in results.bar("patched", mutants):
            own, is_imported = tests[mutant]
            outcome, killer = judge(patched, mutant, own, known.seconds)
            if outcome == "killed" or (outcome != "failed" and not is_imported):
                results.add(mutant, outcome, killer)

    def in_one_import() -> None:
        files = [str(file) for file in test_files()]
        if pytest.main([*QUIETLY, *MARKED, *files], [Loop(in_place)]):
            raise RuntimeError("the tests can't be collected")

    if forked(in_one_import, DAY)[0] == "failed":
        raise SystemExit("the tests can't be collected, or a process was ended")
    done = results.load()
    for mutant in results.bar("imported", [m for m in mutants if m not in done]):
        results.add(mutant, *judge(imported, mutant, tests[mutant][0], known.seconds))


def equivalent() -> dict[tuple[str, str, str], str]:
    """The reasons why a mutant is equivalent, by file and line."""
    listed = tomllib.loads(EQUIVALENT.read_text("utf-8")).get("mutant", [])
    return {(m["file"], m["before"], m["after"]): m["reason"] for m in listed}


def table(
    drawn: list[Mutant], known: dict[Mutant, dict[str, str | None]]
) -> list[dict]:
    """Return a row for each mutant, without details of this checkout's files."""
    reasons, rows = equivalent(), []
    for m in drawn:
        outcome, killer = known[m]["outcome"], known[m]["killer"]
        if outcome == "survived" and (m.file, m.before, m.after) in reasons:
            outcome = "equivalent"
        row = {"file": m.file, "before": m.before, "after": m.after, "outcome": outcome}
        rows.append(row | ({"killer": killer.partition("[")[0]} if killer else {}))
    return rows


def write(rows: list[dict[str, str]], share: float, seed: int) -> None:
    import torch

    from posedu.book.provenance import provenance

    libraries = ("cosmic-ray", "coverage", "hypothesis", "pytest")
    made = provenance(torch.device("cpu"), seed, libraries) | {"share": share}
    table = {"made": made, **summary(rows)}
    TABLE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", "utf-8")


def summary(rows: list[dict[str, str]]) -> dict[str, object]:
    """Count the outcomes of each file, and keep the rows that no test noticed."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row["file"]][row["outcome"]] += 1
    kept = [row for row in rows if row["outcome"] in ("survived", "equivalent")]
    return {"outcomes": counts, "unnoticed": kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--share", type=float, default=0.17, help="of all places")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--again", action="store_true", help="run survivors again")
    given = parser.parse_args()
    os.chdir(ROOT)
    os.environ["CI"] = "1"  # hypothesis draws the same examples each time
    WORK.mkdir(parents=True, exist_ok=True)
    for name in ("torch", "sympy", "scipy", "matplotlib.pyplot"):
        import_module(name)
    results = Results(given.processes)
    drawn = [
        mutant
        for file in results.bar("drawn", modules())
        for mutant in draw(file, given.share, given.seed)
    ]
    shared(partial(record_all, results=results), test_files(), results)
    if given.again:
        results.forget("survived")
    known = results.load()
    left = [mutant for mutant in drawn if mutant not in known]
    shared(partial(run_all, results=results), left, results)
    rows = table(drawn, results.load())
    print(Counter(row["outcome"] for row in rows))
    for row in rows:
        if row["outcome"] in ("survived", "failed"):
            print(row)
    write(rows, given.share, given.seed)


if __name__ == "__main__":
    main()
