"""Tables and figures of ``posedu.book.experiments.digits``.

Intervals are Student's t intervals over the seeds, widened since training sets overlap,
at 95 % unless otherwise stated. Comparisons use differences between runs of the same
seed (:mod:`posedu.book.experiments.comparisons`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.comparisons import Gap, gaps, verdicts_together
from posedu.book.experiments.digits import (
    ALL,
    CLASSES,
    FURTHER,
    SHIFTS,
    VIEWS,
    Result,
    interval,
)
from posedu.book.figures import COLORS, Figure, canvas, finish, table

HERE = "8 × 8"  # the view of training
ROTATIONS = ("axial", "mixed", "liere", "comrope-ap", "comrope-ld", *FURTHER)
FINISHED = 0.1  # largest median loss over the seeds of a converged training
LEFT_EDGE = 2e-17  # where a change of exactly 0 is drawn


@dataclass(frozen=True)
class Claim:
    """A paper's claim that one encoding is more accurate than another at a resolution.

    ``source`` is the paper, ``view`` the name of the test resolution; ``better`` and
    ``worse`` are names of encodings.
    """

    source: str
    better: str
    worse: str
    view: str


CLAIMS = (
    Claim("RoPE-ViT, larger test images", "axial", "learned", "16 × 16, extrapolated"),
    Claim("RoPE-ViT, larger test images", "mixed", "axial", "16 × 16, extrapolated"),
    Claim("LieRE, training size", "liere", "learned", HERE),
    Claim("LieRE, training size", "liere", "mixed", HERE),
    Claim("ComRoPE, training size", "comrope-ld", "liere", HERE),
    Claim("ComRoPE, training size", "comrope-ap", "liere", HERE),
    Claim("ComRoPE, training size", "comrope-ld", "comrope-ap", HERE),
    *(
        Claim("ComRoPE, larger test images", better, worse, "16 × 16, interpolated")
        for better, worse in (
            ("comrope-ld", "learned"),
            ("comrope-ld", "liere"),
            ("comrope-ap", "liere"),
        )
    ),
)
"""Rankings in the papers' tables, at their scale: ImageNet or CIFAR-100."""


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    return comparisons.origins(
        result, {n: condition.title for n, condition in ALL.items()}
    )


def losses(result: Result) -> Table:
    """Return a table of the median and largest training loss of each encoding."""
    names = result.encodings()
    unfinished = [ALL[name].title for name in names if not _is_finished(result, name)]
    losses = {
        name: [r.loss for r in result.runs if r.encoding == name] for name in names
    }
    return table(
        {
            "encoding": [ALL[name].title for name in names],
            "median": [np.median(losses[name]) for name in names],
            "largest": [max(losses[name]) for name in names],
        },
        caption=f"Loss on the training images after {result.settings.epochs} epochs, "
        f"over {_seeds(result)} seeds. Not at its end, with a median above "
        f"{FINISHED:g}: {', '.join(unfinished) or 'no training'}",
        formats={"median": ".2f", "largest": ".2f"},
    )


def views(result: Result) -> Figure:
    """Draw the accuracy of each encoding at each test resolution.

    Larger images have interpolated positions (the image covers the area of a training
    image) or extrapolated ones (the pixels are one training pixel apart).
    """
    names = result.encodings()
    figure, panels = canvas(2, 1, figsize=(5.6, 7.4), sharex=True, sharey=True)
    groups = {
        "interpolated: the same picture": [v for v in VIEWS if "extra" not in v],
        "extrapolated: pixels numbered on": [v for v in VIEWS if "extra" in v],
    }
    sizes = ["8 × 8", "12 × 8", "16 × 16"]
    for (panel,), (title, group) in zip(panels, groups.items(), strict=True):
        for view in group:
            n = sizes.index(view.partition(",")[0])
            mean, half = _means(result, view)
            panel.errorbar(
                mean,
                np.arange(len(names)) + 0.22 * (n - 1),
                xerr=half,
                marker="os^"[n],
                color=COLORS[n],
                linestyle="",
                ms=5,
                label=sizes[n],
            )
        panel.axvline(100 / CLASSES, color="gray", linewidth=1, linestyle="-")
        panel.set_yticks(range(len(names)), [ALL[name].title for name in names])
        panel.set(title=title, xlim=(0, 100))
    panels[0, 0].invert_yaxis()
    panels[1, 0].set_xlabel("accuracy in %")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3
    )
    near, far = (
        max(_means(result, view)[0].max() for view in group)
        for group in groups.values()
    )
    without = ", without an encoding far to the left" if "none" in names else ""
    return finish(
        figure,
        caption="Accuracy on unseen images, mean and 95 % interval over "
        f"{_seeds(result)} seeds; the gray line is chance. On the same picture the "
        f"best mean is {near:.0f} %; with pixels numbered on, {far:.0f} %."
        + _along_the_raster(result),
        alt="Two panels with a row for each encoding. Above, most markers lie near "
        f"{near:.0f} percent{without}. Below, all lie left of "
        f"{far + 1:.0f}.",
    )


def significant_differences(result: Result) -> Table:
    """Return a table of the significant differences of accuracy in each view.

    A view is an image size of the test. A row counts the pairs of encodings that
    differ, and names those pairs in which both encodings rotate by two coordinates. The
    intervals of the mean differences of all pairs in a view hold together with 95 %.

    Raises
    ------
    ValueError
        Fewer than two rotations were trained.
    """
    found = {view: _gaps(result, view) for view in VIEWS}
    pairs = [pair for pair in found[HERE] if {*pair} <= {*ROTATIONS}]
    if not pairs:
        raise ValueError(f"two of {ROTATIONS} are needed, got {result.encodings()}")
    columns: dict[str, list[str]] = {"view": [*VIEWS]}
    for view in VIEWS:
        significant = sum(gap.is_significant() for gap in found[view].values())
        among = [
            f"{ALL[a].title} − {ALL[b].title}: {found[view][a, b]}"
            for a, b in pairs
            if found[view][a, b].is_significant()
        ]
        widest = max(found[view][pair].half for pair in pairs)
        cells = {
            "pairs that differ": f"{significant} of {len(found[view])}",
            "of rotations": "; ".join(among) or f"none of {len(pairs)}",
            "their widest interval": f"± {widest:.1f}",
        }
        for column, cell in cells.items():
            columns.setdefault(column, []).append(cell)
    from_none = ""
    if "none" in result.encodings():
        count = sum(
            "none" in p for p, gap in found[HERE].items() if gap.is_significant()
        )
        others = len(result.encodings()) - 1
        from_none = f"{count} of {others} differ significantly from none at all, and "
    widest = max(found[HERE][pair].half for pair in pairs)
    return table(
        columns,
        caption=f"Differences within {_seeds(result)} seeds, all intervals of a view "
        f"together at 95 %. At {HERE}, {from_none}{widest:.0f} points could hide "
        "between two rotations",
    )


def verdicts(result: Result) -> Iterator[tuple[Claim, Gap, str]]:
    """Yield (claim, gap, verdict) for each claim whose encodings were trained.

    The gap is the accuracy of the encoding that the paper claims to be more accurate,
    minus that of the other encoding, in percentage points. The verdict is undecided if
    one of the trainings did not converge. All verdicts hold together
    (:func:`posedu.book.experiments.comparisons.verdicts_together`).
    """
    found = {}
    for claim in CLAIMS:
        both = (claim.better, claim.worse)
        if {*both} <= {*result.encodings()}:
            at = [result.accuracy(name, claim.view) for name in both]
            found[claim] = Gap.between(*at, interval)
    for claim, verdict in verdicts_together(found).items():
        both = (claim.better, claim.worse)
        if not all(_is_finished(result, name) for name in both):
            verdict = "undecided: not trained to its end"
        yield claim, found[claim], verdict


def claims(result: Result) -> Table:
    """Return a table of the papers' claims, with measured gaps and verdicts."""
    found = [*verdicts(result)]
    counts = Counter(verdict for *_, verdict in found)
    return table(
        {
            "source": [claim.source for claim, *_ in found],
            "view": [claim.view for claim, *_ in found],
            "above": [ALL[claim.better].title for claim, *_ in found],
            "below": [ALL[claim.worse].title for claim, *_ in found],
            "points": [str(gap) for _, gap, _ in found],
            "here": [verdict for *_, verdict in found],
        },
        caption=f"{len(found)} claims: differences in percentage points, each with its "
        "own 95 % interval. The verdicts are corrected so that all of them hold "
        "together at 95 %: "
        + ", ".join(f"{verdict} ({n})" for verdict, n in counts.items()),
    )


def shift_figure(result: Result) -> Figure:
    """Draw how a common shift of all coordinates changes each encoding's logits.

    The largest change of a logit is over the largest logit, one mark for each shift; a
    second panel has the accuracies under the shifts.
    """
    names = result.encodings()
    figure, ((above,), (below,)) = canvas(2, 1, figsize=(5.6, 7.4), sharey=True)
    for n, shift in enumerate(SHIFTS):
        rows = np.arange(len(names)) + 0.18 * (n - (len(SHIFTS) - 1) / 2)
        style = {"fmt": "os^D"[n], "linestyle": "", "ms": 4.5}
        mean, half = _means(result, shift)
        below.errorbar(mean, rows, xerr=half, label=shift, **style)
        changes = [_changes(result, name, (shift,)) for name in names]
        spread = [np.quantile(c, (0, 0.5, 1)).clip(LEFT_EDGE) for c in changes]
        low, middle, high = np.transpose(spread)
        above.errorbar(middle, rows, xerr=(middle - low, high - middle), **style)
    above.set(xscale="log", xlabel="largest change of a logit, over the largest logit")
    above.set_yticks(range(len(names)), [ALL[name].title for name in names])
    above.invert_yaxis()
    below.set(xlim=(0, 100), xlabel="accuracy in % under the shift")
    figure.legend(loc="outside lower center", ncols=2)
    relative = [max(_changes(result, name)) for name in names if ALL[name].relative]
    others = [min(_changes(result, name)) for name in names if not ALL[name].relative]
    return finish(
        figure,
        caption="One offset added to all coordinates, in pixels of training. Above: "
        "the change of the logits, median and range over the seeds; no change at all "
        "is drawn at the left edge. Below: accuracy, mean and 95 % interval. Logits "
        f"that depend on offsets alone change by at most {max(relative):.0e} of the "
        f"largest, the others by {min(others):.0e} or more.",
        alt="Two panels with a row for each encoding and a marker for each offset. "
        f"Above, {len(relative)} rows lie near 1e-14 or below and {len(others)} near "
        "1. "
        f"Below, the same {len(relative)} rows have all markers on one another; in the "
        "others they scatter.",
    )


def shift_cost(result: Result) -> Table:
    """Return a table of logit changes and lost accuracy, by encoding and shift."""
    names = result.encodings()
    relative = [name for name in names if ALL[name].relative]
    changes = {name: _changes(result, name) for name in names}

    def lost(name: str, shift: str) -> Gap:
        here, there = (result.accuracy(name, view) for view in (HERE, shift))
        return Gap.between(here, there, interval)

    return table(
        {
            "encoding": [ALL[name].title for name in names],
            "logits": [
                "must not change" if name in relative else "may change"
                for name in names
            ],
            "change by": [
                f"{min(changes[name]):.0e} to {max(changes[name]):.0e}"
                for name in names
            ],
            **{
                f"lost, {shift}": [
                    f"{lost(name, shift).mean:.0f} ± {lost(name, shift).half:.0f}"
                    for name in names
                ]
                for shift in SHIFTS
            },
        },
        caption="Changes of a logit, over the largest, and points lost under a common "
        f"shift. Of the {len(relative)} encodings whose logits must not change, none "
        f"does by more than {max(max(changes[name]) for name in relative):.0e}",
    )


def _along_the_raster(result: Result) -> str:
    """Return a caption's sentence on FoPE's accuracy at two larger image sizes.

    Images of 12 × 8 have new pixels between the trained columns, images of 16 × 16 also
    between the rows. If FoPE was not trained, ''.
    """
    if "fope" not in result.encodings():
        return ""
    columns, rows = (
        100 * result.accuracy("fope", f"{size}, interpolated").mean()
        for size in ("12 × 8", "16 × 16")
    )
    return f" FoPE has {columns:.0f} % between columns, {rows:.0f} % between rows."


def _seeds(result: Result) -> int:
    return len({run.seed for run in result.runs})


def _is_finished(result: Result, name: str) -> bool:
    losses = [run.loss for run in result.runs if run.encoding == name]
    return bool(np.median(losses) <= FINISHED)


def _means(result: Result, condition: str) -> np.ndarray:
    """Return mean accuracies in percent and half-widths of intervals, [2, encodings].

    ``condition`` is the name of an image size or of a coordinate shift.
    """
    names = result.encodings()
    return np.transpose(
        [interval(100 * result.accuracy(name, condition)) for name in names]
    )


def _gaps(result: Result, view: str) -> dict[tuple[str, str], Gap]:
    return gaps({n: result.accuracy(n, view) for n in result.encodings()}, interval)


def _changes(
    result: Result, name: str, shifts: tuple[str, ...] = tuple(SHIFTS)
) -> list[float]:
    """Return one encoding's largest logit changes over its largest logit.

    There is a number for each run and each of the ``shifts`` (names of coordinate
    shifts; default: all). ``name`` is the encoding's name; the list is empty if it was
    not trained.
    """
    return [
        run.logit_change[shift] / run.largest_logit
        for run in result.runs
        if run.encoding == name
        for shift in shifts
    ]
