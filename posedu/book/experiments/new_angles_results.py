"""Table and figure of ``posedu.book.experiments.new_angles``.

Intervals are Student's t intervals over the seeds, at 95 %.
"""

import numpy as np

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.characters import in_bits
from posedu.book.experiments.new_angles import (
    FACTORS,
    MODELS,
    Result,
    base,
    label,
    unturned_pairs,
)
from posedu.book.figures import COLORS, Figure, canvas, finish, table

PARTS = ("more keys", "new combinations of angles", "new angles of single pairs")
"""Parts of the loss, the n-th is :meth:`Result.cost` with part n + 1."""


def title(result: Result, model: str) -> str:
    """Return a model's base, and how many pairs complete no turn in training.

    Such a pair is called unturned.
    """
    pairs = result.settings.d // 2
    unturned = unturned_pairs(model, result.settings).sum()
    own = base(model, result.settings)
    # With base 25 in place of 24.7 one pair would not complete its turn.
    digits = 0 if own >= 100 else 1
    return f"base {own:,.{digits}f}, {unturned} of {pairs} unturned"


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    return comparisons.origins(result, {m: title(result, m) for m in MODELS})


def costs(result: Result, factor: int) -> Table:
    """Return a table of what each part of the loss costs, by RoPE's base.

    ``factor`` is the test length over the training length.
    """
    models, near = result.encodings(), str(result.settings.length)
    return table(
        {
            "base, pairs without a turn": [title(result, m) for m in models],
            "bits in training": [in_bits(result.bits(m, near)) for m in models],
            **{
                part: [in_bits(result.cost(m, n, factor)) for m in models]
                for n, part in enumerate(PARTS, 1)
            },
        },
        words=("base, pairs without a turn",),
        caption=f"Bits per character lost at {factor} times the training length, in "
        f"three parts, by RoPE's base; {_seeds(result)} seeds, intervals at 95 %",
    )


def overview(result: Result) -> Figure:
    """Draw the parts of the loss as stacked bars, for each base and length."""
    models = result.encodings()
    figure, (panels,) = canvas(1, len(models), figsize=(7.2, 3.0), sharey=True)
    wholes = {}
    for panel, model in zip(panels, models, strict=True):
        below = np.zeros(len(FACTORS))
        for n, part in enumerate(PARTS, 1):
            cost = np.array([result.cost(model, n, f).mean() for f in FACTORS])
            panel.bar(
                [f"× {f}" for f in FACTORS],
                cost,
                bottom=below,
                color=COLORS[n - 1],
                hatch=("", "///", "xxx")[n - 1],
                edgecolor="white",
                label=part,
            )
            below += cost
        wholes[model] = below[-1]
        panel.set_title(title(result, model).replace(", ", "\n"), fontsize=10)
    panels[0].set_ylabel("bits per character lost")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3
    )
    worst, best = max(wholes, key=wholes.__getitem__), min(wholes, key=wholes.get)
    far = FACTORS[-1]
    return finish(
        figure,
        caption=f"What RoPE loses beyond its training length, "
        f"L = {result.settings.length}, in three parts; mean of {_seeds(result)} seeds."
        f" At {far} times the length it loses {wholes[worst]:.1f} bits per character "
        f"with {title(result, worst)}, and {wholes[best]:.1f} with "
        f"{title(result, best)}.",
        alt="A panel of stacked bars for each base, a bar for each length. "
        + " ".join(
            f"{title(result, m)}, at {far} times the length: "
            + ", ".join(
                f"{part} {result.cost(m, n, far).mean():.2f}"
                for n, part in enumerate(PARTS, 1)
            )
            + " bits."
            for m in models
        ),
    )


def lost(result: Result, model: str, factor: int) -> np.ndarray:
    """Return the bits per character lost at a length, by rising seed.

    They are lost against the same model in a window of the training length, which sees
    the same characters.
    """
    return result.bits(model, label("none", factor)) - result.bits(
        model, label("window", factor)
    )


def _seeds(result: Result) -> int:
    return len({run.seed for run in result.runs})
