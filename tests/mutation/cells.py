"""Mutation tests of the book's checks: what a check computes is changed; it must fail.

A check cell is a cell of a page or notebook with an ``assert``, or with a call of
``prove``, ``prove_each``, ``prove_sampled``, ``assert_close`` or ``assert_allclose``.
``make cell-mutants`` runs each page's cells in order, in one process. Before a check
cell it forks a process for each of a few mutants: the cell with one change at a place
that computes something (:mod:`mutation.places`). A mutant is refused if one of these
checks then fails. A mutant with another error does not count, since it does not show
that the check can fail, nor does one that takes too long.

If no mutant of the cell's own code is refused, the functions that it calls are changed,
one place at a time: those of the cells above and of posedu's public modules, except the
ones that check.

A cell is sound if a mutant is refused. A cell without ``assert``, whose formulas are
read as they are typeset, is also sound if a mutant of a formula is refused, which
:mod:`posedu.book.proof` counts. ``cells.toml`` lists the other cells, and why no such
change makes them fail.

Results are written one by one to ``_build/cell-mutants``, so that an interrupted run
can continue. A cell in the committed table does not run again until its code is edited;
captions and alternative texts of figures do not count.
"""

import argparse
import ast
import copy
import gc
import hashlib
import json
import linecache
import os
import resource
import signal
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from inspect import CO_OPTIMIZED
from itertools import chain, zip_longest
from pathlib import Path
from pkgutil import walk_packages
from traceback import walk_tb
from types import FrameType, FunctionType
from typing import Any

from tqdm import tqdm

from mutation import run
from mutation.places import called, mutants
from mutation.run import ROOT

WORK = ROOT / "_build/cell-mutants/results.jsonl"
TABLE = ROOT / "book/data/cell-mutants.json"
REASONS = Path(__file__).with_name("cells.toml")
REFUSED = "refused"
TRIED = 3  # mutants, if one of them is refused
MOST = 8  # mutants, if none is refused
SECONDS = 20  # CPU time of a mutant
PATIENCE = 15  # CPU-seconds of all mutants, if none is refused
ENOUGH = 0.5  # CPU-seconds of all mutants, if one is refused

PROOFS = {"prove", "prove_each", "prove_sampled"}
ASSERTIONS = {"assert_close", "assert_allclose"}
CHECKING = ("book/proof.py", "book/display/", "catalog/", "crosscheck/")


# Running cells

Run = Callable[[], BaseException | None]


class Cell:
    """A code cell of a page."""

    def __init__(self, source: str):
        self.source = source
        tree = ast.parse(source)
        names = {*map(called, ast.walk(tree))}
        has_assert = any(isinstance(node, ast.Assert) for node in ast.walk(tree))
        self.asserts = has_assert or bool(names & ASSERTIONS)
        self.is_check = self.asserts or bool(names & PROOFS)
        key = hashlib.sha256(code_of(tree).encode()).hexdigest()[:12]
        imports = (ast.Import, ast.ImportFrom)
        own = (n.lineno for n in tree.body if not isinstance(n, imports))
        first = next(own, 1)
        self.row = {"cell": key, "line": source.splitlines()[first - 1]}


def code_of(tree: ast.Module) -> str:
    """Return a cell's syntax tree as text, without words that only describe figures."""
    return ast.unparse(Described().visit(copy.deepcopy(tree)))


class Described(ast.NodeTransformer):
    """Transformer that leaves captions and alternative texts out of calls."""

    def visit_keyword(self, node: ast.keyword) -> ast.keyword | None:
        """Return an argument by keyword, or nothing."""
        return None if node.arg in ("caption", "alt") else self.generic_visit(node)


class Page:
    """A page's cells, run in order in this process."""

    def __init__(self, name: str, path: Path, cells: list[Cell]):
        self.name, self.path = name, path
        self.cells = cells
        self.checks = [cell for cell in cells if cell.is_check]

    def judge(self, known: set[str], seed: int) -> None:
        """Run the cells; write a row for each check cell that is not known."""
        from IPython.core.interactiveshell import InteractiveShell

        from posedu.book import proof

        os.chdir(self.path.parent)
        self.seed, self.shell = seed, InteractiveShell.instance()
        self.shell.showtraceback = lambda *_, **__: None
        self.declared: list[proof.Proof] = []
        proof._declare = self.declared.append
        self.count_of_formula, proof._refused = proof._refused, lambda *_: None
        waiting = {cell.row["cell"] for cell in self.checks} - known
        for cell in self.cells:
            if not waiting:
                return
            is_new = cell.row["cell"] in waiting
            row = self.row(cell) if is_new else {}
            if error := self.run(cell.source):
                raise RuntimeError(f"{cell.row} fails without a change: {error!r}")
            if is_new:
                waiting.remove(cell.row["cell"])
                with WORK.open("a", encoding="utf-8") as file:
                    print(json.dumps({"page": self.name} | row), file=file)

    def run(self, source: str) -> BaseException | None:
        done = self.shell.run_cell(source)
        return done.error_before_exec or done.error_in_exec

    def row(self, cell: Cell) -> dict[str, Any]:
        """Count the mutants of a cell that are tried and refused."""
        if not cell.asserts:
            answer = run.forked(partial(self.of_formulas, cell), run.DAY)[1]
            if answer:
                return cell.row | {"typeset": json.loads(answer)}
        changed = mutants(self.name, cell.source, self.seed)
        own = self.count(partial(self.run, source) for source in changed)
        if own[1]:
            return cell.row | {"own": own}
        return cell.row | {"own": own, "called": self.count(self.of_functions(cell))}

    def of_formulas(self, cell: Cell) -> str | None:
        """Count mutants of the formulas; None unless the cell reads all and refuses."""
        from posedu.book import proof

        proof._refused = self.count_of_formula
        self.declared.clear()
        self.run(cell.source)
        counts = [made.typeset for made in self.declared]
        if not counts or not all(counts):
            return None
        refused, tried = map(sum, zip(*counts, strict=True))
        return json.dumps([tried, refused]) if refused else None

    def of_functions(self, cell: Cell) -> Iterator[Run]:
        """Yield runs of the cell, each with a change in a function that it calls.

        The files of these functions take turns.
        """
        answer = run.forked(partial(self.traced, cell), 3 * SECONDS)[1]
        gc.unfreeze()
        functions = [f for f in gc.get_objects() if type(f) is FunctionType]
        gc.freeze()
        changes = (
            self.of_file(cell, file, lines, functions)
            for file, lines in json.loads(answer or "{}").items()
        )
        yield from filter(None, chain.from_iterable(zip_longest(*changes)))

    def of_file(
        self, cell: Cell, file: str, lines: list[int], functions: list[FunctionType]
    ) -> Iterator[Run]:
        own = [f for f in functions if f.__code__.co_filename == file]
        source = "".join(linecache.getlines(file))
        for changed in mutants(file, source, self.seed, lines):
            yield partial(self.patched, cell, file, changed, own)

    def traced(self, cell: Cell) -> str:
        """Return the lines of functions that a cell executes, by file."""
        lines: dict[str, set[int]] = {}

        def note(frame: FrameType, event: str, _: object) -> Callable | None:
            file = frame.f_code.co_filename
            is_function = frame.f_code.co_flags & CO_OPTIMIZED
            if not (is_function and is_ours(file)):
                return None
            if event == "line":
                lines.setdefault(file, set()).add(frame.f_lineno)
            return note

        sys.settrace(note)
        self.run(cell.source)
        sys.settrace(None)
        return json.dumps({file: sorted(found) for file, found in lines.items()})

    def patched(
        self, cell: Cell, file: str, source: str, functions: list[FunctionType]
    ) -> BaseException | None:
        new = dict(run.codes(compile(source, file, "exec", dont_inherit=True)))
        for one in functions:
            one.__code__ = new.get(run.place(one.__code__), one.__code__)
        return self.run(cell.source)

    def count(self, runs: Iterable[Run]) -> tuple[int, int]:
        """Return the numbers of mutants that passed or were refused, and that were."""
        tried = refused = 0
        begun = children_seconds()
        for one in runs:
            outcome, answer = run.forked(partial(refusal, one), SECONDS)
            tried += outcome == "survived" or answer == REFUSED
            refused += answer == REFUSED
            spent = children_seconds() - begun
            if tried >= (TRIED if refused else MOST):
                break
            if spent > (ENOUGH if refused else PATIENCE):
                break
        return tried, refused


def refusal(one: Run) -> str | None:
    signal.alarm(10 * SECONDS)
    error = one()
    return REFUSED if is_refusal(error) else error and "another error"


def is_refusal(error: BaseException | None) -> bool:
    """Return whether an error is a check's, and not of an assertion in a library."""
    if not isinstance(error, AssertionError):
        return False
    *_, (frame, _) = walk_tb(error.__traceback__)
    file = frame.f_code.co_filename
    return file.startswith("<ipython") or "/testing/" in file or "book/proof" in file


@cache
def is_ours(file: str) -> bool:
    """Return whether a file is a cell, or a public module of posedu that computes."""
    if file.startswith("<ipython"):
        return True
    name = file.removeprefix(f"{ROOT}/posedu/")
    return name != file and "/_" not in f"/{name}" and not name.startswith(CHECKING)


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# The table


def book() -> Iterator[Page]:
    """Yield the pages that have a check."""
    from posedu_sphinx.site.execute import pages, read

    for name, path in sorted(pages(ROOT)):
        cells = getattr(read(path), "cells", ())
        code = [Cell(cell.source) for cell in cells if cell.cell_type == "code"]
        page = Page(name, path, code)
        if page.checks:
            yield page


Rows = dict[tuple[str, str], dict[str, Any]]


def load() -> Rows:
    """Return the rows of the committed table and of the runs since."""
    table = json.loads(TABLE.read_text("utf-8"))["pages"] if TABLE.exists() else {}
    rows = {(page, row["cell"]): row for page in table for row in table[page]}
    for line in WORK.read_text("utf-8").splitlines() if WORK.exists() else ():
        row = json.loads(line)
        rows[row.pop("page"), row["cell"]] = row
    return rows


def write(pages: list[Page], rows: Rows, seed: int) -> None:
    """Write the rows of the pages' present cells, each on a line of its own."""
    import torch

    from posedu.book.provenance import provenance

    def listed(page: Page) -> str:
        own = ((c.row, rows.get((page.name, c.row["cell"]))) for c in page.checks)
        lines = (json.dumps(r | now, ensure_ascii=False) for now, r in own if r)
        return f"{json.dumps(page.name)}: [\n" + ",\n".join(lines) + "\n]"

    made = json.dumps(provenance(torch.device("cpu"), seed, ("cosmic-ray",)))
    tables = ",\n".join(map(listed, pages))
    TABLE.write_text(f'{{"made": {made},\n"pages": {{\n{tables}\n}}}}\n', "utf-8")


def is_sound(row: dict[str, Any]) -> bool:
    return any(row.get(kind, (0, 0))[1] for kind in ("typeset", "own", "called"))


def reasons() -> dict[tuple[str, str], str]:
    """Return why no mutant makes a cell fail, by its page and a line of it."""
    listed = tomllib.loads(REASONS.read_text("utf-8")).get("reason", [])
    return {(page, line): r["text"] for r in listed for page, line in r["cells"]}


def unsound(pages: list[Page], rows: Rows) -> Iterator[tuple[str, Cell]]:
    """Yield the cells of which no mutant is refused, with their pages."""
    for page in pages:
        for cell in page.checks:
            row = rows.get((page.name, cell.row["cell"]))
            if row and not is_sound(row):
                yield page.name, cell


def import_all() -> None:
    """Import what pages import, and all that a cross-check imports when it needs it."""
    for name in ("scipy", "matplotlib.pyplot", "posedu.book.proof"):
        import_module(name)
    for name in ("numpy", "sympy", "torch"):
        for module in walk_packages([f"{ROOT}/posedu/{name}"], f"posedu.{name}."):
            import_module(module.name)
    gc.freeze()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", help="files or names (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="run unsound cells again")
    given = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"
    WORK.parent.mkdir(parents=True, exist_ok=True)
    import_all()
    rows, failed = load(), []
    chosen = {str(Path(name).with_suffix("")) for name in given.pages}
    for page in (bar := tqdm(list(book()), desc="pages", unit="page")):
        bar.set_postfix_str(page.name)
        kept = (key for key, row in rows.items() if is_sound(row) or not given.again)
        known = {cell for name, cell in kept if name == page.name}
        if not chosen or page.name in chosen:
            work = partial(page.judge, known, given.seed)
            failed += [page.name] * (run.forked(work, run.DAY)[0] != "survived")
    pages, rows = list(book()), load()
    write(pages, rows, given.seed)
    for name, cell in unsound(pages, rows):
        print(f"{name}: {cell.row['line']}: no mutant is refused")
    if failed:
        sys.exit(f"a cell fails without a change: {', '.join(failed)}")


if __name__ == "__main__":
    main()
