"""Figure and tables of ``posedu.book.experiments.addition``.

Intervals are Student's t intervals over the seeds at 95 %. Comparisons use differences
between runs of the same seed (:mod:`posedu.book.experiments.comparisons`).
"""

from collections import Counter
from collections.abc import Iterator

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.addition import CONDITIONS, TESTED, Result
from posedu.book.experiments.comparisons import Gap, verdicts_together
from posedu.book.experiments.runs import interval
from posedu.book.experiments.sequences_results import SIGNS
from posedu.book.figures import COLORS, DASHES, Figure, canvas, finish, table

BY_SIGNIFICANCE = ("abacus", "coupling")
"""Encodings whose positions say the significance of a digit."""

MEASURED = (("exact", 10), ("exact", 15), ("digits", 15), ("digits", 30))
"""Scores and numbers of digits at which encodings are compared."""

TICKS = (5, 10, 15, 20, 30)

_OTHERS = tuple(name for name in CONDITIONS if name not in BY_SIGNIFICANCE)


def overview(result: Result) -> Figure:
    """Draw the mean share of right sums and of right digits against the digits.

    Encodings by significance have colored lines, all others gray ones.
    """
    figure, panels = canvas(1, 2, figsize=(5.6, 3.0), sharey=True)
    styles = {
        **dict(zip(_OTHERS, (("gray", dash) for dash in DASHES), strict=False)),
        **{name: (COLORS[n], "-") for n, name in enumerate(BY_SIGNIFICANCE)},
    }
    for panel, (score, title) in zip(
        panels.flat, (("exact", "whole sums"), ("digits", "digits")), strict=True
    ):
        for name in result.encodings():
            color, dash = styles[name]
            means = [100 * result.accuracy(name, score, n).mean() for n in TESTED]
            panel.plot(
                TESTED,
                means,
                marker="o",
                ms=3,
                color=color,
                linestyle=dash,
                label=CONDITIONS[name].title,
            )
        panel.axvline(result.settings.digits, color="gray", linewidth=0.8)
        panel.set(title=title, xlabel="digits", xticks=TICKS, ylim=(-3, 103))
    panels[0, 0].set_ylabel("% right")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3
    )
    at = result.settings.digits, max(TESTED)
    know, others = (
        [n for n in result.encodings() if (n in BY_SIGNIFICANCE) is is_known]
        for is_known in (True, False)
    )
    best = {
        group: [
            100 * max(result.accuracy(name, "digits", n).mean() for name in names)
            for n in at
        ]
        for group, names in (("know", know), ("others", others))
    }
    return finish(
        figure,
        caption=f"Sums of n-digit numbers, trained with 1 to {at[0]} digits (thin "
        f"line): means over {len({run.seed for run in result.runs})} seeds. Of digits, "
        f"the better of Abacus and position coupling has {best['know'][0]:.0f} % right "
        f"at {at[0]} digits and {best['know'][1]:.0f} % at {at[1]}, the best of the "
        f"others {best['others'][0]:.0f} % and {best['others'][1]:.0f} %.",
        alt="Two panels over the number of digits, a line for each encoding: whole "
        "sums that are right, and digits that are. Of digits, the lines of Abacus and "
        "position coupling stay highest.",
    )


def verdicts(
    result: Result,
) -> Iterator[tuple[str, str, str, int, Gap, str]]:
    """Yield (better, worse, score, digits, gap, verdict) for each expectation.

    Each encoding by significance is expected to be above each of the others. The gap
    is in percentage points. All verdicts hold together at 95 %
    (:func:`posedu.book.experiments.comparisons.verdicts_together`).
    """
    trained = {*result.encodings()}
    found = {
        (better, worse, score, n): Gap.between(
            *(result.accuracy(name, score, n) for name in (better, worse)), interval
        )
        for better in BY_SIGNIFICANCE
        for worse in _OTHERS
        for score, n in MEASURED
        if {better, worse} <= trained
    }
    for key, verdict in verdicts_together(found).items():
        yield *key, found[key], verdict


def expectations(result: Result) -> Table:
    """Return a table of the expectations, with measured gaps and verdicts."""
    found = [*verdicts(result)]
    cells = {
        (better, worse, score, n): f"{gap} {SIGNS[verdict]}"
        for better, worse, score, n, gap, verdict in found
    }
    rows = dict.fromkeys(key[:2] for key in cells)
    counts = Counter(verdict for *_, verdict in found)
    signs = {verdict: SIGNS[verdict] for verdict in counts}
    titles = {"exact": "sums", "digits": "digits"}
    return table(
        {
            "expected": [
                f"{CONDITIONS[better].title} > {CONDITIONS[worse].title}"
                for better, worse in rows
            ],
            **{
                f"{titles[score]}, n = {n}": [cells[*row, score, n] for row in rows]
                for score, n in MEASURED
            },
        },
        caption=f"{len(found)} expectations: differences in percentage points, each "
        "with its own 95 % interval. The verdicts are corrected so that all of them "
        "hold together at 95 %: "
        + ", ".join(f"{sign} {v} ({counts[v]})" for v, sign in signs.items()),
    )


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    titles = {name: condition.title for name, condition in CONDITIONS.items()}
    return comparisons.origins(result, titles)
