"""What the runs of ``posedu.book.experiments.context_extension`` tell, as tables and pictures.

Every interval is Student's over the seeds, at 95 %, and every comparison one of
differences within seeds (:mod:`posedu.book.experiments.comparisons`), in bits per character.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.comparisons import Gap
from posedu.book.experiments.context_extension import (
    FACTORS,
    METHODS,
    TRIED,
    Result,
    label,
)
from posedu.book.experiments.runs import interval
from posedu.book.figures import COLORS, DASHES, Figure, canvas, finish, table

SIGNS = {"reproduced": "✓", "undecided": "?", "contradicted": "✗"}
MODEL_TITLES = {"rope": "RoPE", "windows": "windows and layers without rotation"}
HOW = {"plain": "as it is", "tuned": "tuned"}
SHOWN_METHODS = ("none", "pi", "ntk", "llama3", "yarn", "log-n")
"""Dynamic NTK is NTK at these lengths, YaRN without temperature is in the table."""

Condition = tuple[str, str]
"""A model and what is done to it."""


@dataclass(frozen=True)
class Expectation:
    """One condition better than another, at every factor."""

    source: str
    better: Condition
    worse: Condition
    how: str


EXPECTED = (
    Expectation("YaRN, §3.1", ("rope", "ntk"), ("rope", "pi"), "plain"),
    Expectation("PI", ("rope", "pi"), ("rope", "none"), "plain"),
    Expectation("PI", ("rope", "pi"), ("rope", "none"), "tuned"),
    Expectation("YaRN", ("rope", "yarn"), ("rope", "ntk"), "plain"),
    Expectation("YaRN", ("rope", "yarn"), ("rope", "pi"), "tuned"),
    Expectation("YaRN", ("rope", "yarn"), ("rope", "ntk"), "tuned"),
    Expectation("YaRN, §3.4", ("rope", "yarn"), ("rope", "yarn-cold"), "plain"),
    Expectation("YaRN, §3.4", ("rope", "yarn"), ("rope", "yarn-cold"), "tuned"),
    Expectation("SWAN", ("windows", "log-n"), ("rope", "none"), "plain"),
    Expectation("SWAN", ("windows", "log-n"), ("windows", "none"), "plain"),
)
"""What the papers lead one to expect, of models many thousand times as large."""


def origins(result: Result) -> Table:
    """Where the runs come from."""
    return comparisons.origins(result, MODEL_TITLES)


def overview(result: Result) -> Figure:
    """Mean bits against the factor, as it is and tuned, of both models."""
    figure, (panels,) = canvas(1, 2, figsize=(7.2, 3.6), sharey=True)
    far = {}
    for panel, (how, said) in zip(panels, HOW.items(), strict=True):
        for n, condition in enumerate(drawn()):
            means = [_near(result, condition[0]).mean()]
            means += [_bits(result, condition, f, how).mean() for f in FACTORS]
            far[how, condition] = means[-1]
            panel.plot(
                (1, *FACTORS),
                means,
                ms=4,
                marker="os^Dvp*h"[n],
                color=(*COLORS, "gray", "gray")[n],
                linestyle=DASHES[n % len(DASHES)],
                label=title(condition),
            )
        panel.set(xscale="log", xlabel="length over that of training")
        panel.set_title(said, fontsize=11)
        panel.set_xticks((1, *FACTORS), map(str, (1, *FACTORS)))
        panel.minorticks_off()
    panels[0].set_ylabel("bits per character")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    best = {how: min(drawn(), key=lambda condition: far[how, condition]) for how in HOW}
    return finish(
        figure,
        caption=f"Trained at L = {result.settings.length}: mean bits per character "
        f"over {_seeds(result)} seeds, the same characters at every length. At "
        f"{FACTORS[-1]} times the length the fewest are "
        + " and ".join(
            f"{far[how, condition]:.2f} of {title(condition)}, {HOW[how]}"
            for how, condition in best.items()
        )
        + ".",
        alt="Two panels of lines against the length. "
        + " ".join(
            f"{title(condition)}: {far['plain', condition]:.2f} bits at the end, "
            f"{far['tuned', condition]:.2f} after tuning."
            for condition in drawn()
        ),
    )


def near_cost(result: Result) -> Table:
    """Bits that a change for the largest factor adds at the training length."""
    conditions = [(model, m) for model in result.encodings() for m in TRIED[model]]
    added = [
        _gap(
            result.values(model, label(method, FACTORS[-1], "near")),
            _near(result, model),
        )
        for model, method in conditions
    ]
    free = [gap.mean == gap.half == 0 for gap in added]
    return table(
        {
            "condition": [title(condition) for condition in conditions],
            "added": [
                "0, exactly" if zero else f"{gap.mean:+.3f} ± {gap.half:.3f}"
                for gap, zero in zip(added, free, strict=True)
            ],
        },
        caption=f"Bits per character that a model made for {FACTORS[-1]} times the "
        f"length adds at the length of training: {sum(free)} of {len(conditions)} add none",
    )


def verdicts(result: Result) -> Iterator[tuple[Expectation, int, Gap]]:
    """Every expectation at each factor, and by how many bits it is met."""
    for e in EXPECTED:
        if {e.better[0], e.worse[0]} <= {*result.encodings()}:
            for factor in FACTORS:
                both = (
                    _bits(result, condition, factor, e.how) for condition in (e.worse, e.better)
                )
                yield e, factor, _gap(*both)


def expectations(result: Result) -> Table:
    """The expectations of the papers beside what is seen here."""
    seen = {(e, factor): gap for e, factor, gap in verdicts(result)}
    rows = dict.fromkeys(e for e, _ in seen)
    verdicts = [gap.verdict for gap in seen.values()]
    said = ", ".join(f"{SIGNS[v]} {v} ({verdicts.count(v)})" for v in SIGNS)
    return table(
        {
            "source": [e.source for e in rows],
            "expected": [f"{title(e.better)} before {title(e.worse)}" for e in rows],
            "": [HOW[e.how] for e in rows],
            **{
                f"× {f}": [
                    f"{seen[e, f].mean:+.3f} ± {seen[e, f].half:.3f} "
                    f"{SIGNS[seen[e, f].verdict]}"
                    for e in rows
                ]
                for f in FACTORS
            },
        },
        caption=f"{len(seen)} expectations, bits saved and intervals at 95 %: {said}",
    )


def drawn() -> list[Condition]:
    """What the pictures show."""
    rope = [("rope", method) for method in SHOWN_METHODS]
    return [*rope, *(("windows", method) for method in TRIED["windows"])]


def title(condition: Condition) -> str:
    """What an condition is called."""
    model, method = condition
    if model == "rope":
        return METHODS[method].title
    more = "" if method == "none" else f", {METHODS[method].title}"
    return MODEL_TITLES[model] + more


def _bits(result: Result, condition: Condition, factor: int, how: str) -> np.ndarray:
    model, method = condition
    return result.values(model, label(method, factor, how))


def _near(result: Result, model: str) -> np.ndarray:
    return result.values(model, str(result.settings.length))


def _gap(one: np.ndarray, other: np.ndarray) -> Gap:
    return Gap.between(one, other, interval, unit=1.0)


def _seeds(result: Result) -> int:
    return len({run.seed for run in result.reported()})
