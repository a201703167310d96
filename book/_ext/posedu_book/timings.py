"""The page of timings, from the committed result files."""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu.catalog import CATALOG
from posedu.timing import Timing
from posedu_book.markup import table


class TimingTable(SphinxDirective):
    """``{timing-table} device``: every encoding's time over the limit's."""

    required_arguments = 1

    def run(self):
        """One row for each variant and dtype, and where it was measured."""
        folder = Path(self.env.srcdir) / "book" / "data"
        paths = [folder / f"timing-{n}-{self.arguments[0]}.json" for n in CATALOG]
        results = [Timing.load(path) for path in paths if path.exists()]
        if not results:
            return [nodes.paragraph("", "Nothing has been measured here yet.")]
        for path in paths:
            self.env.note_dependency(str(path))
        lengths = sorted({r.length for result in results for r in result.records})
        head = ["Encoding", "dtype", "Limit", *(f"L = {n}" for n in lengths)]
        rows = [row for result in results for row in _rows(result, lengths)]
        return [nodes.paragraph("", _where(results)), table(head, rows)]


def _rows(result, lengths):
    cells = dict.fromkeys((r.candidate, r.dtype, r.limit) for r in result.records)
    for candidate, dtype, limit in cells:
        found = result.select(candidate=candidate, dtype=dtype)
        ratios = {(r.length, r.task): r.ratio.median for r in found}
        yield [candidate, dtype, limit, *(_ratios(ratios, n) for n in lengths)]


def _ratios(ratios, length):
    tasks = ("forward", "forward + backward")
    known = [ratios[length, task] for task in tasks if (length, task) in ratios]
    return " / ".join(f"{r:.2f}" if r < 10 else f"{r:.0f}" for r in known)


def _where(results):
    def all_of(value):
        return ", ".join(sorted({value(result.made) for result in results}))

    return (
        f"Measured on {all_of(lambda made: made['device'])}, threads: "
        f"{all_of(lambda made: str(made['threads']))}, torch "
        f"{all_of(lambda made: made['versions']['torch'])}, "
        f"{all_of(lambda made: made['date'])}."
    )


def setup(app):
    """Register the directive."""
    app.add_directive("timing-table", TimingTable)
