"""Tables and figures of ``posedu.book.experiments.context_extension``.

Intervals are Student's t intervals over the seeds, at 95 %. Comparisons use differences
between runs of the same seed (:mod:`posedu.book.experiments.comparisons`), in bits per
character.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.characters import base_of, in_bits, unturned
from posedu.book.experiments.comparisons import Gap, verdicts_together
from posedu.book.experiments.context_extension import (
    FACTORS,
    METHODS,
    TEMPERATURES,
    TRIED,
    Result,
    label,
)
from posedu.book.experiments.runs import interval
from posedu.book.figures import COLORS, DASHES, Figure, canvas, finish, table

SIGNS = {"reproduced": "✓", "undecided": "?", "contradicted": "✗"}
MODEL_TITLES = {
    "rope": "RoPE",
    "rope-500": "RoPE, base 500",
    "rope-matched": "RoPE, matched base",
    "windows": "windowed and NoPE layers",
    "windows-learned": "the same, trained with a temperature",
}
HOW = {"plain": "untuned", "tuned": "tuned"}
METHOD_TITLES = {
    name: method.title for name, method in (METHODS | TEMPERATURES).items()
}
SHOWN_METHODS = ("none", "pi", "ntk", "llama3", "yarn", "log-n")
"""Methods in the figures.

Dynamic NTK equals NTK at these lengths; YaRN without its attention factor is in the
table.
"""

Condition = tuple[str, str]
"""A model and the method that is applied to it."""


@dataclass(frozen=True)
class Expectation:
    """A paper's expectation that one condition needs fewer bits than another.

    A condition is a model and the method applied to it; ``how`` is "plain" (untuned) or
    "tuned".
    """

    source: str
    better: Condition
    worse: Condition
    how: str


def expected(base: str) -> tuple[Expectation, ...]:
    """Return the papers' expectations for the model of the name ``base``.

    The papers' models are far larger. Those of models with windowed layers are compared
    with RoPE's usual base only.
    """
    of_methods = (
        ("YaRN, §3.1", "ntk", "pi", ("plain",)),
        ("PI", "pi", "none", ("plain", "tuned")),
        ("YaRN", "yarn", "ntk", ("plain", "tuned")),
        ("YaRN", "yarn", "pi", ("tuned",)),
        ("YaRN, §3.4", "yarn", "yarn-cold", ("plain", "tuned")),
    )
    found = [
        Expectation(source, (base, better), (base, worse), how)
        for source, better, worse, hows in of_methods
        for how in hows
    ]
    warm, cold = ("windows", "log-n"), ("windows", "none")
    if base == "rope":
        found.append(Expectation("SWAN", warm, ("rope", "none"), "plain"))
        found.append(Expectation("SWAN", warm, cold, "plain"))
    return tuple(found)


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    return comparisons.origins(result, MODEL_TITLES)


def overview(result: Result, base: str = "rope") -> Figure:
    """Draw each condition's mean bits per character against the test length.

    A condition is a model, ``base`` or "windows", and a context extension method.
    Untuned and tuned models have a panel each; the length is divided by the training
    length.
    """
    figure, (panels,) = canvas(1, 2, figsize=(7.2, 3.6), sharey=True)
    far = {}
    for panel, (how, panel_title) in zip(panels, HOW.items(), strict=True):
        for n, condition in enumerate(shown_conditions(base)):
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
                label=short_title(condition, base),
            )
        panel.set(xscale="log", xlabel="length over that of training")
        panel.set_title(panel_title, fontsize=11)
        panel.set_xticks((1, *FACTORS), map(str, (1, *FACTORS)))
        panel.minorticks_off()
    panels[0].set_ylabel("bits per character")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    best = {
        how: min(shown_conditions(base), key=lambda condition: far[how, condition])
        for how in HOW
    }
    return finish(
        figure,
        caption=f"{MODEL_TITLES[base]}, trained at L = {result.settings.length}: mean "
        "bits per character "
        f"over {_seeds(result)} seeds, the same characters at every length. At "
        f"{FACTORS[-1]} times the length the fewest are "
        + ", and ".join(
            f"{far[how, condition]:.2f} of {short_title(condition, base)}, {HOW[how]}"
            for how, condition in best.items()
        )
        + ".",
        alt="Two panels of lines against the length. "
        + " ".join(
            f"{short_title(condition, base)}: {far['plain', condition]:.2f} bits at "
            f"the end, {far['tuned', condition]:.2f} after tuning."
            for condition in shown_conditions(base)
        ),
    )


def near_cost(result: Result) -> Table:
    """Return a table of the bits per character that methods add at the training length.

    Each method is set for texts of the largest factor times the training length.
    """
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
        f"length adds at the length of training: {sum(free)} of {len(conditions)} add "
        "none",
    )


def by_base(result: Result, how: str) -> Table:
    """Return a table of each method's bits at the largest factor, by RoPE's base.

    ``how`` is "plain" (untuned) or "tuned". A column has the number of pairs that
    complete no turn within the training length.
    """
    bases = [model for model in result.encodings() if model != "windows"]
    pairs, settings = result.settings.d // 2, result.settings

    def bits(model: str, method: str) -> str:
        return in_bits(_bits(result, (model, method), FACTORS[-1], how))

    heads = {
        model: f"base {base_of(model, settings.length):,.0f}: "
        f"{unturned(model, settings)} of {pairs}"
        for model in bases
    }
    return table(
        {
            "method": [METHODS[method].title for method in METHODS],
            **{heads[m]: [bits(m, method) for method in METHODS] for m in bases},
        },
        caption=f"Bits per character (fewer are better) at {FACTORS[-1]} times the "
        "training length, "
        f"{HOW[how]}, by RoPE's base, with the number of pairs that complete no turn "
        f"in {settings.length} tokens; {_seeds(result)} seeds, intervals at 95 %",
    )


def verdicts(
    result: Result, base: str = "rope"
) -> Iterator[tuple[Expectation, int, Gap, str]]:
    """Yield (expectation, factor, gap, verdict), at each longer length.

    Expectations are those of :func:`expected` for ``base``; ``factor`` is the test
    length over the training length. The gap is the bits per character of the condition
    expected to be worse, minus the bits per character of the other condition. All
    verdicts hold together
    (:func:`posedu.book.experiments.comparisons.verdicts_together`).
    """
    found = {}
    for e in expected(base):
        if {e.better[0], e.worse[0]} <= {*result.encodings()}:
            for factor in FACTORS:
                both = (
                    _bits(result, condition, factor, e.how)
                    for condition in (e.worse, e.better)
                )
                found[e, factor] = _gap(*both)
    for at, verdict in verdicts_together(found).items():
        yield *at, found[at], verdict


def expectations(result: Result, base: str = "rope") -> Table:
    """Return a table of the papers' expectations, with measured gaps and verdicts.

    A row is an expectation of :func:`expected` for ``base``, that one condition needs
    fewer bits than another. A column is a test length over the training length.
    """
    found = {
        (e, f): (f"{gap.mean:+.3f} ± {gap.half:.3f}", verdict)
        for e, f, gap, verdict in verdicts(result, base)
    }
    rows = dict.fromkeys(e for e, _ in found)
    outcomes = [verdict for _, verdict in found.values()]
    summary = ", ".join(f"{SIGNS[v]} {v} ({outcomes.count(v)})" for v in SIGNS)
    return table(
        {
            "source": [e.source for e in rows],
            "expected": [
                f"{short_title(e.better, base)} better than "
                f"{short_title(e.worse, base)}"
                for e in rows
            ],
            "": [HOW[e.how] for e in rows],
            **{
                f"× {f}": [f"{found[e, f][0]} {SIGNS[found[e, f][1]]}" for e in rows]
                for f in FACTORS
            },
        },
        caption=f"{MODEL_TITLES[base]}: {len(found)} expectations, in bits saved, each "
        "with its own 95 % interval. The verdicts are corrected so that all of them "
        f"hold together at 95 %: {summary}",
    )


def shown_conditions(base: str) -> list[Condition]:
    """Return the conditions that figures show: ``base`` and windows, with methods."""
    own = [(base, method) for method in SHOWN_METHODS]
    return [*own, *(("windows", method) for method in TRIED["windows"])]


def title(condition: Condition) -> str:
    """Return the title of a condition (a model and a method), for example "YaRN".

    For the model "rope" this is the title of the method alone, for other models that of
    the model and, if frequencies or logits change, of the method.
    """
    model, method = condition
    if model == "rope":
        return METHOD_TITLES[method]
    more = "" if method == "none" else f", {METHOD_TITLES[method]}"
    return MODEL_TITLES[model] + more


def short_title(condition: Condition, base: str) -> str:
    """Return a condition's title; of the model ``base`` that of the method alone."""
    model, method = condition
    return METHOD_TITLES[method] if model == base else title(condition)


def _bits(result: Result, condition: Condition, factor: int, how: str) -> np.ndarray:
    model, method = condition
    return result.values(model, label(method, factor, how))


def _near(result: Result, model: str) -> np.ndarray:
    return result.values(model, str(result.settings.length))


def _gap(one: np.ndarray, other: np.ndarray) -> Gap:
    return Gap.between(one, other, interval, unit=1.0)


def _seeds(result: Result) -> int:
    return len({run.seed for run in result.reported()})
