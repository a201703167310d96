"""Tables and figures of ``posedu.book.experiments.sequences``.

Intervals are Student's t intervals over the seeds, at 95 % unless otherwise stated.
Comparisons use differences between runs of the same seed
(:mod:`posedu.book.experiments.comparisons`).
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.comparisons import Gap, gaps, verdicts_together
from posedu.book.experiments.sequences import (
    ALL,
    CONDITIONS,
    IGNORED,
    TASKS,
    Result,
    Task,
    interval,
)
from posedu.book.figures import COLORS, DASHES, Figure, canvas, finish, table

NOTICED = 1.0  # points; smaller differences are not reported
CEILING = 0.99  # if every seed is above it, no difference is possible
SIGNS = {
    "reproduced": "✓",
    "undecided": "?",
    "both at the ceiling": "=",
    "contradicted": "✗",
}


@dataclass(frozen=True)
class Expectation:
    """Expectation that one encoding is more accurate than another at a task.

    ``source`` is the paper, ``better`` and ``worse`` are names of encodings, and
    ``multiples`` are the test lengths over the training length.
    """

    source: str
    better: str
    worse: str
    task: str
    multiples: tuple[int, ...]


EXPECTED = (
    Expectation("CoPE", "cope", "rope", "count", (1, 2, 8)),
    Expectation("CoPE", "cope", "rope", "copy", (1, 2, 8)),
    *(
        Expectation("CoPE", "cope", other, task, (1, 8))
        for other in ("fox", "fox-spread", "stickbreaking")
        for task in ("count", "copy")
    ),
    *(
        Expectation("stick-breaking", "stickbreaking", other, "recall", (1, 8))
        for other in ("rope", "fox", "cope")
    ),
    *(
        Expectation("recency", other, "stickbreaking", "n-back", (1,))
        for other in ("rope", "cope")
    ),
    *(
        Expectation("FoX", fox, "fixed", task, (1, 8))
        for fox in ("fox", "fox-spread")
        for task in ("count", "copy", "recall")
    ),
)
"""Expectations that follow from the papers, at their scale.

CoPE: positions that count by content are better than positions that count tokens.
Stick-breaking: the most recent match gets the weight. Recency: where the value before
the last is asked for, the most recent match is wrong. FoX: a gate that depends on
content is better than a fixed decay, from either start.
"""


@functools.cache
def guessing(task: Task, length: int, trained: int) -> float:
    """Return the accuracy of a model that always gives the most frequent answer.

    ``length`` is the test length and ``trained`` the training length, both in tokens.
    """
    generator = torch.Generator().manual_seed(0)
    _, labels = task.make(64, length, trained, generator)
    asked = labels[labels != IGNORED]
    return float(torch.bincount(asked).max() / len(asked))


def overview(result: Result) -> Figure:
    """Draw all encodings' mean accuracies against the test length, a panel per task."""
    figure, panels = canvas(2, 2, figsize=(5.6, 4.4), sharex=True, sharey=True)
    worst: dict[str, float] = {}
    for panel, task in zip(panels.flat, TASKS, strict=True):
        for name in result.encodings(task):
            means = [100 * result.accuracy(task, name, n).mean() for n in _at(result)]
            panel.plot(_at(result), means, ms=4, **_style(name))
            worst[name] = min(means[-1], worst.get(name, 100.0))
        frame(panel, result, task)
    for panel in panels.flat:
        panel.label_outer()
    best, least = max(worst, key=worst.__getitem__), min(worst, key=worst.__getitem__)
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    return finish(
        figure,
        caption=f"Trained at L = {_at(result)[0]}: mean accuracy over "
        f"{_seeds(result)} seeds; the thin line is guessing. At L = {_at(result)[-1]}, "
        f"{CONDITIONS[best].title} has {worst[best]:.0f} % or more at every task, "
        f"{CONDITIONS[least].title} {worst[least]:.0f} % at one.",
        alt="Four panels, one for each task, with a line for each encoding against the "
        f"length. The line of {CONDITIONS[best].title} stays near the top of all four.",
    )


def task_figure(result: Result, task: str) -> Figure:
    """Draw each encoding's accuracy at one task against the test length.

    Lines are means over the seeds with 95 % intervals, dots are the seeds.
    """
    figure, ((panel,),) = canvas(figsize=(5.6, 3.8))
    names = result.encodings(task)
    means = {}
    for n, name in enumerate(names):
        seeds = 100 * np.array([result.accuracy(task, name, m) for m in _at(result)])
        mean, half = np.array([interval(values) for values in seeds]).T
        panel.errorbar(
            np.array(_at(result)) * 1.025 ** (n - (len(names) - 1) / 2),
            mean,
            yerr=(np.minimum(half, mean), np.minimum(half, 100 - mean)),
            ms=4.5,
            elinewidth=1,
            **_style(name),
        )
        panel.plot(_at(result), seeds, ".", ms=3, color=_style(name)["color"])
        means[name] = mean
    frame(panel, result, task)
    figure.legend(
        *panel.get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    far = {name: mean[-1] for name, mean in means.items()}
    best, least = max(far, key=far.__getitem__), min(far, key=far.__getitem__)
    return finish(
        figure,
        caption=f"{TASKS[task].title}, trained at L = {_at(result)[0]}: mean and 95 % "
        f"interval over {_seeds(result)} seeds, dots; the thin line is guessing. At "
        f"L = {_at(result)[-1]}, {CONDITIONS[best].title} has {far[best]:.0f} %, "
        f"{CONDITIONS[least].title} {far[least]:.0f} %.",
        alt="A line for each encoding against the length, and dots for its seeds. From "
        "the training length to eight times as long: "
        + ", ".join(
            f"{CONDITIONS[name].title} from {mean[0]:.0f} to {mean[-1]:.0f} percent"
            for name, mean in means.items()
        )
        + ".",
    )


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    return comparisons.origins(
        result,
        {n: condition.title for n, condition in result.run_type.conditions.items()},
    )


def losses(result: Result) -> Table:
    """Return a table of the median and largest training loss, by encoding and task."""

    def losses_of(task: str, name: str) -> list[float]:
        runs = [r for r in result.runs if (r.task, r.encoding) == (task, name)]
        return [run.loss for run in runs]

    task, name = max(_trained(result), key=lambda pair: max(losses_of(*pair)))
    return _by_task(
        result,
        lambda *pair: (
            f"{np.median(losses_of(*pair)):.3f} ({max(losses_of(*pair)):.3f})"
        ),
        caption="Loss of the last tenth of training: median over the seeds (largest). "
        f"The largest is that of {CONDITIONS[name].title} at "
        f"{_lower(TASKS[task].title)}.",
    )


def significant_differences(result: Result) -> Table:
    """Return a table of how many pairs of encodings differ, by task and length.

    The intervals of the mean differences in accuracy of all pairs at one task and
    length hold together with 95 %. A difference is significant if its interval excludes
    0 and its mean exceeds one percentage point. The table also has half of the widest
    interval, below which a difference can go unnoticed.
    """
    columns: dict[str, list[str]] = {"task": []}
    totals = dict.fromkeys(_at(result), 0)
    for task in _tasks(result):
        columns["task"].append(task)
        for length in _at(result):
            found = _gaps(result, task, length).values()
            significant = sum(gap.is_significant(NOTICED) for gap in found)
            widest = max(gap.half for gap in found)
            totals[length] += significant
            columns.setdefault(f"L = {length}", []).append(
                f"{significant} of {len(found)}, ± {widest:.0f}"
            )
    return table(
        columns,
        caption="Pairs that are significantly different within seeds, and half of the "
        "widest interval, in points; all of one task and length together at 95 %. In "
        "all, " + ", ".join(f"{n} at L = {length}" for length, n in totals.items()),
    )


def above(result: Result) -> Table:
    """Return a table that lists, for each encoding, the significantly worse ones.

    A row is a task and an encoding. Less accurate encodings are listed by their numbers
    in the second column, separately for each test length.
    """
    numbers = {name: n for n, name in enumerate(CONDITIONS, 1)}
    columns: dict[str, list[str]] = {"task": [], "encoding": []}
    last = Counter[str]()
    for task, name in _trained(result):
        columns["task"].append(task)
        columns["encoding"].append(f"{numbers[name]} {CONDITIONS[name].title}")
        for length in _at(result):
            worse = significantly_worse(result, task, length)[name]
            cells = columns.setdefault(f"above, L = {length}", [])
            cells.append(" ".join(str(numbers[other]) for other in worse))
        last[name] += len(worse)
    ((most, times),) = last.most_common(1)
    return table(
        columns,
        caption="Encodings that each is significantly above, by their numbers. Most "
        f"often at L = {_at(result)[-1]} it is {CONDITIONS[most].title}: {times} times",
    )


def significantly_worse(result: Result, task: str, length: int) -> dict[str, list[str]]:
    """Return, for each encoding, the encodings that are significantly less accurate.

    ``task`` is a name in :data:`TASKS`, ``length`` the test length. A difference of two
    encodings is significant if its interval excludes 0 and its mean exceeds one
    percentage point; the list of an encoding is empty if there is none.
    """
    found: dict[str, list[str]] = {name: [] for name in result.encodings(task)}
    for (a, b), gap in _gaps(result, task, length).items():
        if gap.is_significant(NOTICED):
            better, worse = (a, b) if gap.mean > 0 else (b, a)
            found[better].append(worse)
    return found


def length_cost(result: Result) -> Table:
    """Return a table of the accuracy lost from the training length to the longest.

    Rows are encodings, columns are tasks.
    """
    near, far = _at(result)[0], _at(result)[-1]

    def lost(task: str, name: str) -> Gap:
        at = [result.accuracy(task, name, length) for length in (near, far)]
        return Gap.between(*at, interval)

    kept = [p for p in _trained(result) if lost(*p).mean + lost(*p).half <= NOTICED]
    return _by_task(
        result,
        lambda *pair: _points(lost(*pair)) + " ✓" * (pair in kept),
        caption=f"Points lost from L = {near} to {far}, each interval by itself at "
        f"95 %: {len(kept)} of {len(_trained(result))} keep what they had (✓) within a "
        "point",
    )


def question_cost(result: Result) -> Table:
    """Return a table of the accuracy lost by asking for the value before the last.

    It compares the task "n-back" with "recall", which asks for the last value.
    """
    columns: dict[str, list[str]] = {
        "encoding": [CONDITIONS[name].title for name in result.encodings("n-back")]
    }
    losing = []
    for length in (_at(result)[0], _at(result)[-1]):
        found = [
            Gap.between(
                *(result.accuracy(t, n, length) for t in ("recall", "n-back")), interval
            )
            for n in result.encodings("n-back")
        ]
        columns[f"L = {length}"] = [
            f"{_points(gap)} {'loses' if _loses(gap) else ''}".strip() for gap in found
        ]
        losing.append(f"{sum(map(_loses, found))} of {len(found)} at L = {length}")
    return table(
        columns,
        caption="Points lost by asking for the value before: "
        f"{' and '.join(losing)} lose more than a point and than their interval",
    )


def verdicts(
    result: Result, expected: Sequence[Expectation] = EXPECTED
) -> Iterator[tuple[Expectation, int, Gap, str]]:
    """Yield (expectation, test length, gap, verdict), at each expectation's lengths.

    Of the ``expected``, those are left out whose encodings were not trained. The gap is
    the accuracy of the encoding expected to be better, minus that of the other
    encoding, in percentage points. The verdict says whether the expectation was
    reproduced, contradicted or left undecided, or that both accuracies are at the
    ceiling. All verdicts hold together
    (:func:`posedu.book.experiments.comparisons.verdicts_together`).
    """
    found, full = {}, set()
    for e in expected:
        if not {e.better, e.worse} <= {*result.encodings(e.task)}:
            continue
        for multiple in e.multiples:
            length = multiple * result.settings.length
            both = [result.accuracy(e.task, n, length) for n in (e.better, e.worse)]
            found[e, length] = Gap.between(*both, interval)
            if np.min(both) > CEILING:
                full.add((e, length))
    for at, verdict in verdicts_together(found).items():
        yield *at, found[at], "both at the ceiling" if at in full else verdict


def draw_kinds(
    panel: mpl.axes.Axes, result: Result, task: str, kinds: Sequence[Sequence[str]]
) -> None:
    """Draw mean accuracies at a task against the test length, framed.

    ``kinds`` are groups of encodings: a group has a color (the first one gray), and its
    members have dashes.
    """
    for name, style in by_kind(kinds):
        panel.plot(
            _at(result),
            [100 * result.accuracy(task, name, n).mean() for n in _at(result)],
            label=result.run_type.conditions[name].title,
            **style,
        )
    frame(panel, result, task)


def by_kind(kinds: Sequence[Sequence[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names in groups with the style of their lines.

    A group has a color, the first one gray, and its members have dashes.
    """
    for color, names in zip(("gray", *COLORS), kinds, strict=False):
        for dash, name in zip(DASHES, names, strict=False):
            yield name, {"ms": 3, "marker": "o", "color": color, "linestyle": dash}


def expectations(result: Result, expected: Sequence[Expectation] = EXPECTED) -> Table:
    """Return a table of the papers' expectations, with measured gaps and verdicts.

    A row is an expectation that one encoding is more accurate than another at a task, a
    column a test length.
    """
    found = [*verdicts(result, expected)]
    conditions = result.run_type.conditions
    counts = Counter(verdict for *_, verdict in found)
    lengths = sorted({length for _, length, *_ in found})
    rows = dict.fromkeys(e for e, *_ in found)
    cells = {(e, n): f"{gap} {SIGNS[verdict]}" for e, n, gap, verdict in found}
    summary = ", ".join(f"{SIGNS[v]} {v} ({counts[v]})" for v in SIGNS)
    return table(
        {
            "source": [e.source for e in rows],
            "task": [e.task for e in rows],
            "expected": [
                f"{conditions[e.better].title} > {conditions[e.worse].title}"
                for e in rows
            ],
            **{f"L = {n}": [cells.get((e, n), "") for e in rows] for n in lengths},
        },
        caption=f"{len(found)} expectations: differences in percentage points, each "
        "with its own 95 % interval. The verdicts are corrected so that all of them "
        f"hold together at 95 %: {summary}",
    )


def tape_comparison(result: Result) -> Table:
    """Return a table of the accuracies of TAPE, of RoPE and of no encoding, by task.

    TAPE before its training is RoPE.
    """
    cells = [(task, n) for task in _tasks(result) for n in _at(result)]
    above = {
        (task, n): Gap.between(
            *(result.accuracy(task, m, n) for m in ("tape", "rope")), interval
        )
        for task, n in cells
    }
    found = verdicts_together(above)
    outcomes = [*found.values()]
    columns: dict[str, list[str]] = {"task": [], "encoding": []}
    for task in _tasks(result):
        for name in ("none", "rope", "tape"):
            columns["task"].append(task)
            columns["encoding"].append(ALL[name].title)
            for n in _at(result):
                mean, half = interval(100 * result.accuracy(task, name, n))
                sign = f" {SIGNS[found[task, n]]}" if name == "tape" else ""
                columns.setdefault(f"L = {n}", []).append(
                    f"{mean:.1f} ± {half:.1f}{sign}"
                )
    return table(
        columns,
        caption=f"Accuracy in %, {_seeds(result)} seeds, each interval by itself at "
        "95 %. TAPE above RoPE, by differences within seeds, all verdicts together at "
        f"95 %, is reproduced (✓) "
        f"{outcomes.count('reproduced')} times of {len(outcomes)}, contradicted (✗) "
        f"{outcomes.count('contradicted')} times",
    )


def _at(result: Result) -> list[int]:
    return result.lengths()


def _tasks(result: Result) -> list[str]:
    return [task for task in result.run_type.tasks if result.encodings(task)]


def _trained(result: Result) -> list[tuple[str, str]]:
    return [(task, name) for task in TASKS for name in result.encodings(task)]


def _seeds(result: Result) -> int:
    return len({run.seed for run in result.runs})


def _lower(title: str) -> str:
    return title[0].lower() + title[1:]


def _points(gap: Gap) -> str:
    return f"{gap.mean:.1f} ± {gap.half:.1f}"


def _loses(gap: Gap) -> bool:
    return gap.mean > 0 and gap.is_significant(NOTICED)


def _gaps(result: Result, task: str, length: int) -> dict[tuple[str, str], Gap]:
    names = result.encodings(task)
    return gaps({n: result.accuracy(task, n, length) for n in names}, interval)


def _by_task(result: Result, cell: Callable[[str, str], str], *, caption: str) -> Table:
    """Return a table with a row for each encoding and a column for each task.

    ``cell(task, encoding)`` is the text of one cell; a cell is empty if the encoding
    was not trained at the task.
    """
    names = [n for n in CONDITIONS if any(n == name for _, name in _trained(result))]
    columns = {
        task: [
            cell(task, name) if name in result.encodings(task) else "" for name in names
        ]
        for task in _tasks(result)
    }
    return table(
        {"encoding": [CONDITIONS[n].title for n in names], **columns}, caption=caption
    )


def _style(name: str) -> dict:
    """Return color, dash, marker and label of an encoding's line, as keyword arguments.

    ``name`` is the encoding's name, a key of ``CONDITIONS``.
    """
    n = [*CONDITIONS].index(name) - 1
    return {
        "color": (*COLORS, "gray")[n],
        "linestyle": (*DASHES, (0, (8, 2)))[n],
        "marker": "os^Dvp*"[n],
        "label": CONDITIONS[name].title,
    }


def frame(panel: mpl.axes.Axes, result: Result, task: str) -> None:
    """Draw the accuracy of guessing as a line in a figure's panel, and set its axes.

    The panel shows accuracies at one ``task`` against the test length.
    """
    lengths = _at(result)
    of_task = result.run_type.tasks[task]
    guess = [100 * guessing(of_task, n, lengths[0]) for n in lengths]
    panel.plot(lengths, guess, color="gray", linestyle="-", linewidth=1)
    panel.set(xscale="log", ylim=(0, 103), xlabel="L", ylabel="accuracy in %")
    panel.set_xticks(lengths, map(str, lengths))
    panel.minorticks_off()
    panel.set_title(of_task.title, fontsize=11)
