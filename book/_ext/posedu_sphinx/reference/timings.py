"""Page of cross-checks and timings, from the committed result files."""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu.book.timing import Timing
from posedu.catalog import CATALOG
from posedu.crosscheck import CrossCheck
from posedu_sphinx.markup import table

KINDS = {"crosscheck": CrossCheck, "timing": Timing, "peers": Timing}
TASKS = ("forward", "forward + backward")
PEER_TASKS = ("rotate", "causal", "bidirectional")


def stored_results(folder):
    """Load stored cross-checks and timings by device and kind, in the catalog's order.

    ``folder`` has the result files. The dict is ``{"cpu": {"timing": [Timing, …], …},
    …}``; the kinds are ``crosscheck``, ``timing`` and ``peers`` (timings of published
    libraries). A kind without files has no entry.
    """
    found = {}
    for kind, result_type in KINDS.items():
        for path in sorted(Path(folder).glob(f"{kind}-*.json")):
            result = result_type.load(path)
            label = path.stem.removeprefix(f"{kind}-{result.name}-")
            found.setdefault(label, {}).setdefault(kind, []).append(result)
    order = list(CATALOG)
    for results in (one for kinds in found.values() for one in kinds.values()):
        results.sort(key=lambda result: order.index(result.name))
    return found


class StoredResults(SphinxDirective):
    """Base of directives that show cross-checks and timings stored in ``book/data``.

    The files are read in every build.
    """

    def results(self):
        """Return the stored cross-checks and timings, by device and kind of result."""
        self.env.note_reread()
        return stored_results(Path(self.env.srcdir) / "book" / "data")


class TimingTable(StoredResults):
    """Directive ``{timing-table} device``: each encoding's time over its limit's time.

    The limit, with which an encoding is compared, is a copy of the same data, or
    attention without an encoding.
    """

    required_arguments = 1

    def run(self):
        """Return a line on the device and a table of encodings' times over the limit's.

        The limit is a copy of the same data, or attention without an encoding. Without
        stored timings the line says that nothing has been measured.
        """
        results = self.results().get(self.arguments[0], {}).get("timing")
        if not results:
            return [nodes.paragraph("", "Nothing has been measured here yet.")]
        return [nodes.paragraph("", _where(results)), _ratio_table(results, *TASKS)]


class ModelTable(SphinxDirective):
    """Directive ``{model-table} name``: times of models in decoding or training.

    The directive's argument is the name of a file with results of
    ``posedu.book.timing.models`` without its ending, such as ``decoding-cpu``.
    """

    required_arguments = 1

    def run(self):
        """Return a line on the device, and a table of models' times and ratios.

        A cell has the milliseconds at a sequence length, and their ratio to the limit:
        in decoding a plain loop with a cache, in training the model without an
        encoding. The limit's own times are the first row.
        """
        self.env.note_reread()
        data = Path(self.env.srcdir) / "book" / "data"
        result = Timing.load(data / f"{self.arguments[0]}.json")
        return [nodes.paragraph("", _where([result])), _model_table(result)]


def _model_table(result):
    lengths = sorted({r.length for r in result.records})
    limits = {r.length: r.limit_seconds.median for r in result.records}
    rows = []
    for name in dict.fromkeys(r.candidate for r in result.records):
        found = {r.length: r for r in result.select(candidate=name)}
        cells = [
            f"{_duration(found[n].seconds.median)}; {found[n].ratio.median:.2f}"
            for n in lengths
        ]
        rows.append([name, *cells])
    limit = [result.records[0].limit, *(_duration(limits[n]) for n in lengths)]
    return table(["Model", *(f"L = {n}" for n in lengths)], [limit, *rows])


def _duration(seconds):
    """Return a time as text: below a second in ms, with two decimals otherwise."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"


class DeviceTables(StoredResults):
    """Directive ``{device-tables}``: cross-checks and times, by device.

    The CPU has no section, since :class:`TimingTable` shows its times.
    """

    def run(self):
        """Return a section with cross-checks and times for each device but the CPU.

        The sections are in alphabetical order. Without results a sentence says that no
        other device has been measured.
        """
        found = self.results()
        found.pop("cpu", None)
        if not found:
            return [nodes.paragraph("", "No other device has been measured yet.")]
        return [_section(label, found[label]) for label in sorted(found)]


def _section(label, kinds):
    results = [result for one in kinds.values() for result in one]
    section = nodes.section("", ids=[f"timings-{label}"])
    section += nodes.title("", results[0].made["device"])
    section += nodes.paragraph("", _where(results))
    if "crosscheck" in kinds:
        section += _checks(kinds["crosscheck"])
    if "timing" in kinds:
        section += _ratio_table(kinds["timing"], *TASKS)
    for result in kinds.get("peers", ()):
        text = (
            f"{CATALOG[result.name].title} compared with published libraries, forward:"
        )
        section += nodes.paragraph("", text)
        section += _ratio_table([result], *PEER_TASKS)
    failures = [text for result in results for text in _failures(result)]
    if failures:
        items = [nodes.list_item("", nodes.paragraph("", text)) for text in failures]
        section += nodes.paragraph("", "Failed comparisons and missing measurements:")
        section += nodes.bullet_list("", *items)
    return section


def _checks(results):
    rows = [row for result in results for row in result.results]
    held = sum(row.ok for row in rows)
    most = max((row.used for row in rows if row.ok), default=0)
    text = (
        f"Of {len(rows)} comparisons of the implementations of {len(results)} "
        f"encodings, forward and backward, {held} are within their bounds; these use "
        f"at most {most:.0%} of the bound."
    )
    return nodes.paragraph("", text)


def _failures(result):
    title = CATALOG[result.name].title
    if isinstance(result, Timing):
        for what, reason in result.missing.items():
            yield f"{title}: {what} is missing ({reason})."
        if not result.complete:
            yield f"{title}: interrupted."
        return
    for route, reason in result.failed.items():
        yield f"{title}, {route}: {reason}"
    for row in result.results:
        if not row.ok:
            where = f"{row.implementations}, {row.what}, {row.device}, {row.dtype}"
            yield f"{title}: {where}: {row.used:.0%} of the bound."


def _ratio_table(results, *tasks):
    lengths = sorted({r.length for result in results for r in result.records})
    head = ["Encoding", "dtype", "Limit", *(f"L = {n}" for n in lengths)]
    rows = [row for result in results for row in _rows(result, tasks, lengths)]
    return table(head, rows)


def _rows(result, tasks, lengths):
    records = [r for r in result.records if r.task in tasks]
    dims = {r.d for r in records}
    encoding = CATALOG[result.name]
    names = {encoding.label(v): _full_name(encoding, v) for v in encoding.variants}
    for candidate, d, dtype, limit in dict.fromkeys(
        (r.candidate, r.d, r.dtype, r.limit) for r in records
    ):
        ratios = {
            (r.length, r.task): r.ratio.median
            for r in records
            if (r.candidate, r.d, r.dtype) == (candidate, d, dtype)
        }
        name = names.get(candidate, candidate)
        name = f"{name}, d = {d}" if len(dims) > 1 else name
        yield [name, dtype, limit, *(_ratios(ratios, tasks, n) for n in lengths)]


def _full_name(encoding, variant):
    """Return an encoding's title and the options of one configuration, as one text.

    ``encoding`` is the catalog record, ``variant`` the configuration. An option whose
    value is not a string is shown with its name, as ``block=8``.
    """
    options = [
        value if isinstance(value, str) else f"{name}={value}"
        for name, value in variant.keywords.items()
    ]
    own = ["own heads"] if "heads" in variant.sizes else []
    return ", ".join([encoding.title, *options, *own])


def _ratios(ratios, tasks, length):
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
    """Register the directives of the tables of timings, cross-checks and models."""
    app.add_directive("timing-table", TimingTable)
    app.add_directive("device-tables", DeviceTables)
    app.add_directive("model-table", ModelTable)
