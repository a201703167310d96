"""Tables and figures of ``posedu.book.experiments.needles``.

Only models that have learned the task at the training length count; it is said how many
have.
Intervals are Student's t intervals over the seeds, at 95 %. Comparisons use differences
between runs of the same seed (:mod:`posedu.book.experiments.comparisons`), in points.
Conditions and expectations are those of
:mod:`posedu.book.experiments.context_extension_results`.
"""

from collections.abc import Iterator

import numpy as np

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.characters import base_of, unturned
from posedu.book.experiments.comparisons import Gap, verdicts_together
from posedu.book.experiments.context_extension import FACTORS, METHODS
from posedu.book.experiments.context_extension_results import (
    METHOD_TITLES,
    MODEL_TITLES,
    SIGNS,
    Condition,
    Expectation,
    expected,
    shown_conditions,
    title,
)
from posedu.book.experiments.needles import FACTS, FAR, LETTERS, TRIED, Result
from posedu.book.experiments.runs import in_percent, interval
from posedu.book.figures import COLORS, DASHES, Figure, canvas, finish, table


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    return comparisons.origins(result, MODEL_TITLES)


def overview(result: Result, base: str = "rope") -> Figure:
    """Draw mean accuracies of each condition against test length over training length.

    A condition is a model, ``base`` or "windows", and a context extension method.
    """
    figure, ((panel,),) = canvas(figsize=(7.2, 4.0))
    far = {}
    for n, condition in enumerate(shown_conditions(base)):
        means = [
            100 * _accuracy(result, condition, f)[result.learned(condition[0])].mean()
            for f in (1, *FACTORS)
        ]
        far[condition] = means[-1]
        panel.plot(
            (1, *FACTORS),
            means,
            ms=4,
            marker="os^Dvp*h"[n],
            color=(*COLORS, "gray", "gray")[n],
            linestyle=DASHES[n % len(DASHES)],
            label=title(condition),
        )
    panel.axhline(100 / LETTERS, color="gray", linestyle="-", linewidth=1)
    panel.set(
        xscale="log",
        ylim=(0, 103),
        xlabel="length over that of training",
        ylabel="accuracy in %",
    )
    panel.set_xticks((1, *FACTORS), map(str, (1, *FACTORS)))
    panel.minorticks_off()
    figure.legend(
        *panel.get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    best, worst = max(far, key=far.__getitem__), min(far, key=far.__getitem__)
    return finish(
        figure,
        caption=f"{FACTS} facts, trained at L = {result.settings.length}, without "
        "tuning: mean accuracy of the models that have learned the task there, "
        + " and ".join(
            f"{_how_many(result, model)} of {MODEL_TITLES[model]}"
            for model in (base, "windows")
        )
        + "; the thin line is guessing. "
        f"At {FACTORS[-1]} times the length {title(best)} has "
        f"{far[best]:.0f} %, {title(worst)} {far[worst]:.0f} %.",
        alt="Lines against the length. At its end: "
        + ", ".join(
            f"{title(condition)} {end:.0f} percent" for condition, end in far.items()
        )
        + ".",
    )


def verdicts(
    result: Result, base: str = "rope"
) -> Iterator[tuple[Expectation, int, Gap, str]]:
    """Yield (expectation, factor, gap, verdict), at each longer length.

    Expectations are those for ``base`` about models that are not tuned; ``factor`` is
    the test length over the training length. The gap is the accuracy of the condition
    (a model and a method) expected to be better, minus that of the other condition, in
    percentage points; seeds count with which both models have learned the task, at
    least two. All verdicts hold together
    (:func:`posedu.book.experiments.comparisons.verdicts_together`).
    """
    found = {}
    for e in expected(base):
        if e.how == "plain" and {e.better[0], e.worse[0]} <= {*result.encodings()}:
            among = result.learned(e.better[0]) & result.learned(e.worse[0])
            for factor in FACTORS if among.sum() > 1 else ():
                both = (
                    _accuracy(result, condition, factor)[among]
                    for condition in (e.better, e.worse)
                )
                found[e, factor] = Gap.between(*both, interval)
    for at, verdict in verdicts_together(found).items():
        yield *at, found[at], verdict


def expectations(result: Result, base: str = "rope") -> Table:
    """Return a table of the papers' expectations, with measured gaps and verdicts.

    A row is an expectation for ``base`` that one condition is more accurate than
    another. A column is a test length over the training length.
    """
    found = {(e, f): (gap, verdict) for e, f, gap, verdict in verdicts(result, base)}
    rows = dict.fromkeys(e for e, _ in found)
    outcomes = [verdict for _, verdict in found.values()]
    summary = ", ".join(f"{SIGNS[v]} {v} ({outcomes.count(v)})" for v in SIGNS)
    return table(
        {
            "source": [e.source for e in rows],
            "expected": [
                f"{title(e.better)} better than {title(e.worse)}" for e in rows
            ],
            **{
                f"× {f}": [f"{found[e, f][0]} {SIGNS[found[e, f][1]]}" for e in rows]
                for f in FACTORS
            },
        },
        caption=f"{len(found)} expectations: differences in percentage points, each "
        "with its own 95 % interval. The verdicts are corrected so that all of them "
        f"hold together at 95 %: {summary}",
    )


def by_base(result: Result, factor: int) -> Table:
    """Return a table of each method's accuracy at one length, by RoPE's base.

    ``factor`` is the test length over the training length. A column has the number of
    pairs that complete no turn within the training length, and of seeds with which the
    task was learned, the only ones that count.
    """
    bases = [model for model in result.encodings() if not model.startswith("windows")]
    settings = result.settings

    def column(model: str) -> list[str]:
        among = result.learned(model)
        return [
            in_percent(result.accuracy(model, method, factor)[among], interval)
            for method in METHODS
        ]

    heads = {
        model: f"base {base_of(model, settings.length):,.0f}: "
        f"{unturned(model, settings)} of {settings.d // 2}; {_how_many(result, model)}"
        for model in bases
    }
    return table(
        {
            "method": [METHODS[method].title for method in METHODS],
            **{heads[model]: column(model) for model in bases},
        },
        caption=f"Needles found in %, at {factor} times the training length, by RoPE's "
        "base, with the number of pairs that complete no turn in "
        f"{settings.length} tokens, and of seeds that have learned the task; intervals "
        "at 95 %",
    )


def temperatures(result: Result) -> Table:
    """Return a table of the temperatures of NoPE layers: accuracy at every length.

    The last column is the gain over the model without one at the longest length, with
    an interval and the verdict; all verdicts hold together. Seeds count with which the
    task was learned.
    """
    plain = "windows", "none"
    tried = [("windows", method) for method in TRIED["windows"]]
    among = result.learned("windows")
    gains = {
        condition: Gap.between(
            *(_accuracy(result, one, FAR)[among] for one in (condition, plain)),
            interval,
        )
        for condition in tried
        if condition != plain
    }
    found = verdicts_together(gains)
    titles = {c: METHOD_TITLES[c[1]] for c in tried} | {plain: "no temperature"}
    return table(
        {
            "temperature": [titles[c] for c in tried],
            **{
                f"× {f}": [
                    in_percent(_accuracy(result, c, f)[among], interval) for c in tried
                ]
                for f in (1, *FACTORS, FAR)
            },
            f"more at × {FAR}": [
                f"{gains[c]} {SIGNS[found[c]]}" if c in found else "" for c in tried
            ],
        },
        caption="Needles found in %, by the temperature of the NoPE layer; "
        f"{_how_many(result, 'windows')}, intervals at 95 %. The last column is in "
        f"points; its verdicts hold together at 95 %: {SIGNS['reproduced']} more, "
        f"{SIGNS['undecided']} undecided, {SIGNS['contradicted']} fewer",
    )


def _how_many(result: Result, model: str) -> str:
    learned = result.learned(model)
    return f"{learned.sum()} of {len(learned)} seeds"


def _accuracy(result: Result, condition: Condition, factor: int) -> np.ndarray:
    return result.accuracy(*condition, factor)
