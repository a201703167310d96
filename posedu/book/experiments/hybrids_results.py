"""Figures, tables and expectations of the two experiments on hybrids.

They are :mod:`posedu.book.experiments.hybrids` and, on characters,
:mod:`posedu.book.experiments.hybrid_characters`. Intervals, verdicts and the accuracy
of guessing are those of :mod:`posedu.book.experiments.sequences_results`.
"""

from posedu._result_table import Table
from posedu.book.experiments import hybrid_characters, sequences_results
from posedu.book.experiments.hybrids import CONDITIONS, Result
from posedu.book.experiments.sequences_results import Expectation, by_kind, draw_kinds
from posedu.book.figures import Figure, canvas, finish, table

STATES, CONTENTS = ("parity", "swaps"), ("repeat", "recall", "n-back")
MIXTURES = ("three-none", "three-rope", "one-none", "one-rope")

EXPECTED = (
    *(
        Expectation("state", name, other, task, (1, 4))
        for name in ("recurrent", "three-none")
        for other in ("none", "rope")
        for task in STATES
    ),
    *(
        Expectation("content", name, "recurrent", task, (1, 4))
        for name in ("three-none", "one-none")
        for task in CONTENTS
    ),
    *(
        Expectation("order from below", f"{ratio}-none", other, task, (1, 16))
        for ratio in ("three", "one")
        for other in ("rope", f"{ratio}-rope")
        for task in CONTENTS
    ),
)
"""Expectations that follow from theorems and from the hybrids' papers, at their scale.

State: transitions that reflect track states that attention does not. Content: attention
finds what a state of fixed size may have lost. Order from below: above a recurrence,
attention needs no encoding, and without one it reaches farther than with RoPE.
"""

_KINDS = (
    ("none", "rope"),
    ("recurrent",),
    ("three-none", "three-rope"),
    ("one-none", "one-rope"),
)


def overview(result: Result) -> Figure:
    """Draw all models' mean accuracies against the test length, a panel per task.

    A color is a mixture, its dashes have RoPE; the last panel is the legend's.
    """
    lengths, tasks = result.lengths(), result.run_type.tasks
    figure, panels = canvas(3, 2, figsize=(5.6, 6.0), sharex=True, sharey=True)
    *used, free = panels.flat
    for panel, task in zip(used, tasks, strict=True):
        draw_kinds(panel, result, task, _KINDS)
        panel.label_outer()
    panels[1, 1].tick_params(labelbottom=True)
    free.axis("off")
    free.legend(*panels[0, 0].get_legend_handles_labels(), loc="center")
    names = [name for kind in _KINDS for name in kind]
    at = lengths[1]
    worst = {
        name: min(100 * result.accuracy(task, name, at).mean() for task in tasks)
        for name in names
    }
    best = max(worst, key=worst.__getitem__)
    rest = max(value for name, value in worst.items() if name not in MIXTURES)
    title = result.run_type.conditions[best].title
    return finish(
        figure,
        caption=f"Trained at L = {lengths[0]}: mean accuracy over "
        f"{len({run.seed for run in result.runs})} seeds; the thin line is guessing. "
        f"At L = {at}, {title} has {worst[best]:.0f} % or more at every task, "
        f"each model without a mixture at most {rest:.0f} % at one.",
        alt="Five panels, one for each task, with a line for each model. "
        + " ".join(_ends(result, task) for task in tasks),
    )


def _ends(result: Result, task: str) -> str:
    """Say which models are the least and the most accurate at the longest length."""
    far = result.lengths()[-1]
    means = {n: 100 * result.accuracy(task, n, far).mean() for n in CONDITIONS}
    least, most = (choose(means, key=means.__getitem__) for choose in (min, max))
    return (
        f"{result.run_type.tasks[task].title}, L = {far}: from {means[least]:.0f} % "
        f"({CONDITIONS[least].title}) to {means[most]:.0f} % "
        f"({CONDITIONS[most].title})."
    )


def overview_of_characters(result: hybrid_characters.Result) -> Figure:
    """Draw all models' mean bits per character against the test length.

    Colors and dashes are those of :func:`overview`.
    """
    lengths = result.lengths()
    means = {n: [result.bits(n, at).mean() for at in lengths] for n in CONDITIONS}
    figure, axes = canvas(figsize=(5.6, 4.2))
    panel = axes[0, 0]
    for name, style in by_kind(_KINDS):
        panel.plot(lengths, means[name], label=CONDITIONS[name].title, **style)
    panel.set(xscale="log", xlabel="L", ylabel="bits per character")
    panel.set_xticks(lengths, map(str, lengths))
    panel.minorticks_off()
    figure.legend(loc="outside upper center", ncols=2, fontsize=9)
    order = sorted(CONDITIONS, key=lambda name: means[name][-1])
    best, worst = order[0], order[-1]
    return finish(
        figure,
        caption=f"Trained at L = {lengths[0]}: mean bits per character over "
        f"{len({run.seed for run in result.runs})} seeds, of the same characters at "
        f"each length. At L = {lengths[-1]}, {CONDITIONS[best].title} needs "
        f"{means[best][-1]:.2f} bits, {CONDITIONS[worst].title} {means[worst][-1]:.2f}",
        alt="A line for each model against the length. "
        + " ".join(
            f"{CONDITIONS[n].title}: from {means[n][0]:.2f} bits to {means[n][-1]:.2f}."
            for n in order
        ),
    )


def bits(result: hybrid_characters.Result) -> Table:
    """Return a table of bits per character, by model and test length."""
    head, *rows = result.rows()
    return table(
        dict(zip(("model", *head[1:]), zip(*rows, strict=True), strict=True)),
        caption="Bits per character by test length, of the same characters; intervals "
        f"at 95 %, trained at {head[1]}",
    )


def expectations(result: Result) -> Table:
    """Return a table of expectations, with measured gaps in points and verdicts."""
    return sequences_results.expectations(result, EXPECTED)


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    return sequences_results.origins(result)
