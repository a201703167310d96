"""Figure, table and expectations of ``posedu.book.experiments.paths``.

Intervals, verdicts and the accuracy of guessing are those of
:mod:`posedu.book.experiments.sequences_results`.
"""

from posedu._result_table import Table
from posedu.book.experiments import sequences_results
from posedu.book.experiments.paths import Result
from posedu.book.experiments.sequences_results import Expectation, draw_kinds
from posedu.book.figures import Figure, canvas, finish

STATES = ("parity", "modular", "swaps")

EXPECTED = (
    *(Expectation("PaTH", "path", "rope", task, (1, 4)) for task in STATES),
    *(Expectation("PaTH", "path", "fox", task, (1, 4)) for task in STATES),
    Expectation("PaTH", "path-fox", "path", "recall", (1, 16)),
    *(
        Expectation("Selective RoPE", "selective-rope", "rope", task, (1, 4))
        for task in ("parity", "modular", "repeat", "recall")
    ),
    *(
        Expectation("Selective RoPE", "selective-rope-fox", other, task, (1, 4))
        for other in ("selective-rope", "fox")
        for task in ("repeat", "recall")
    ),
    *(
        Expectation("theory", "path", "selective-rope", task, (1,))
        for task in ("swaps", "permutations")
    ),
    *(
        Expectation("theory", "path", other, "parity", (1,))
        for other in ("wall", "retention")
    ),
)
"""Expectations that follow from the papers, at their scale, and from theorems.

PaTH: reflections track states that RoPE's rotations and FoX's gates do not, and gates
help them at recall. Selective RoPE: rotations that read the text solve tasks of state
and recall better than RoPE's, and rotation with decay is better than either alone.
Theory: transitions that commute do not see the order of swaps, and a positive
gate does not change the sign of a channel; theorems on transitions, not on layers.
"""

_KINDS = (
    ("none",),
    ("rope", "selective-rope", "selective-rope-gate"),
    ("retention", "selective-rope-fox"),
    ("fox", "wall"),
    ("path", "path-fox"),
)


def overview(result: Result) -> Figure:
    """Draw all encodings' mean accuracies against the test length, a panel per task.

    A color is a kind of transition: none, rotations, rotations with decay, decays,
    reflections.
    """
    lengths, tasks = result.lengths(), result.run_type.tasks
    figure, panels = canvas(3, 2, figsize=(5.6, 6.4), sharex=True, sharey=True)
    for panel, task in zip(panels.flat, tasks, strict=True):
        draw_kinds(panel, result, task, _KINDS)
        panel.label_outer()
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    swaps = {
        name: 100 * result.accuracy("swaps", name, lengths[0]).mean()
        for names in _KINDS
        for name in names
    }
    best = max(swaps, key=swaps.__getitem__)
    rest = max(swaps[name] for names in _KINDS[:-1] for name in names)
    titles = {name: result.run_type.conditions[name].title for name in swaps}
    highest = []
    for task in tasks:
        far = {name: result.accuracy(task, name, lengths[-1]).mean() for name in swaps}
        name = max(far, key=far.__getitem__)
        highest.append(
            f"{tasks[task].title}: {titles[name]}, {100 * far[name]:.0f} percent"
        )
    return finish(
        figure,
        caption=f"Trained at L = {lengths[0]}: mean accuracy over "
        f"{len({run.seed for run in result.runs})} seeds; the thin line is guessing. "
        f"At swaps of three cups {titles[best]} has {swaps[best]:.0f} % at L = "
        f"{lengths[0]}, encodings without reflections {rest:.0f} % at most.",
        alt=f"Six panels, one for each task, with a line for each of {len(swaps)} "
        f"encodings against the length. Highest at L = {lengths[-1]}: "
        f"{'; '.join(highest)}.",
    )


def expectations(result: Result) -> Table:
    """Return a table of expectations, with measured gaps in points and verdicts."""
    return sequences_results.expectations(result, EXPECTED)


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    return sequences_results.origins(result)
