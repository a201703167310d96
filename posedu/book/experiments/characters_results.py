"""What the runs of ``posedu.book.experiments.characters`` tell, as tables and pictures.

Every interval is Student's over the seeds, at 95 % unless it says otherwise, and every
comparison one of differences within seeds (:mod:`posedu.book.experiments.comparisons`), in
bits per character.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.characters import ABSOLUTE, ALL, CONDITIONS, CLIPS, RATES, Result
from posedu.book.experiments.comparisons import Gap, gaps
from posedu.book.experiments.runs import interval
from posedu.book.figures import COLORS, DASHES, Figure, canvas, finish, table

NOTICED = 0.02  # bits; of smaller differences nothing is said
BROKEN = 1.0  # bits; who loses more has lost the thread
SIGNS = {"reproduced": "✓", "undecided": "?", "contradicted": "✗"}

PANELS = {
    "Positions": ("none", "learned", "sinusoidal", "rope"),
    "Biases": ("t5", "alibi", "kerple-log", "sandwich", "fire", "dape"),
    "Vectors and gates": ("shaw", "transformer-xl", "fox"),
}

REPORTED = {
    "sinusoidal": "breaks",
    "rope": "breaks",
    "t5": "loses",
    "alibi": "holds",
    "kerple-log": "holds",
}
"""What becomes of five encodings in Table 3 of KERPLE (arXiv 2205.09921).

They were trained at 512 and tested to 16384.
"""


@dataclass(frozen=True)
class Expectation:
    """One encoding better than another, at some multiples of the training length."""

    source: str
    better: str
    worse: str
    multiples: tuple[int, ...]


BESIDE = {
    "random": "learned",
    "learned-per-layer": "learned",
    "floater": "sinusoidal",
    "cape": "sinusoidal",
    "randomized": "sinusoidal",
}
"""What each further encoding of absolute positions is a change of."""

_BEYOND = (2, 4, 8, 16)
EXPECTED = (
    Expectation("Shaw", "shaw", "sinusoidal", (1,)),
    Expectation("ALiBi", "alibi", "sinusoidal", (1, *_BEYOND)),
    Expectation("KERPLE, Table 3", "alibi", "rope", (1, *_BEYOND)),
    Expectation("KERPLE, Table 3", "kerple-log", "rope", (1, *_BEYOND)),
    Expectation("KERPLE, Table 3", "kerple-log", "alibi", _BEYOND),
    Expectation("KERPLE, Table 3", "kerple-log", "t5", (4, 8, 16)),
    Expectation("KERPLE, Table 3", "t5", "rope", (1, *_BEYOND)),
    Expectation("FIRE", "fire", "kerple-log", (2, 4)),
    Expectation("FIRE", "fire", "alibi", (2, 4)),
    Expectation("DAPE", "dape", "kerple-log", (1, *_BEYOND)),
)
"""What the papers lead one to expect, at their scale.

Of FIRE what its abstract says, up to the four training lengths that it tests.
"""


def overview(result: Result) -> Figure:
    """Mean bits against the length, a panel for each kind of encoding."""
    figure, (panels,) = canvas(1, len(PANELS), figsize=(7.2, 3.6), sharey=True)
    lengths = result.lengths()
    for panel, (title, names) in zip(panels, PANELS.items(), strict=True):
        for n, name in enumerate(names):
            means = [result.bits(name, length).mean() for length in lengths]
            panel.plot(
                lengths,
                means,
                ms=4,
                marker="os^Dvp"[n],
                color=COLORS[n],
                linestyle=DASHES[n],
                label=CONDITIONS[name].title,
            )
        panel.set(xscale="log", xlabel="L")
        panel.set_title(title, fontsize=11)
        panel.set_xticks(lengths[::2], map(str, lengths[::2]))
        panel.minorticks_off()
        panel.legend(loc="upper left", fontsize=8.5)
    bottom, top = panels[0].get_ylim()
    panels[0].set_ylim(bottom, top + 0.35 * (top - bottom))  # room for the legends
    panels[0].set_ylabel("bits per character")
    means = {n: result.bits(n, lengths[-1]).mean() for n in CONDITIONS}
    best, worst = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return finish(
        figure,
        caption=f"Trained at L = {lengths[0]}: mean bits per character over "
        f"{_seeds(result)} seeds, of the same characters at each length. At "
        f"L = {lengths[-1]}, {CONDITIONS[best].title} needs {means[best]:.2f} bits, "
        f"{CONDITIONS[worst].title} {means[worst]:.2f}.",
        alt="Three panels of lines against the length. "
        + " ".join(
            f"{CONDITIONS[n].title}: from {result.bits(n, lengths[0]).mean():.2f} bits to "
            f"{means[n]:.2f}."
            for n in CONDITIONS
        ),
    )


def origins(result: Result) -> Table:
    """Where the runs come from."""
    return comparisons.origins(result, {n: condition.title for n, condition in ALL.items()})


def rates(result: Result) -> Table:
    """How the learning rate was chosen, and the bits of each encoding at each one."""
    near = str(result.settings.length)
    names = [n for n in CONDITIONS if any(r.encoding == n for r in result.choosing())]

    def bits(name: str, rate: float) -> np.ndarray:
        return np.array(
            [
                run.bits[near]
                for run in result.choosing()
                if (run.encoding, run.rate) == (name, rate)
            ]
        )

    at = {rate: [bits(n, rate).mean() for n in names] for rate in RATES}
    chosen = min(RATES, key=lambda rate: np.mean(at[rate]))
    own = sum(at[chosen][n] == min(at[r][n] for r in RATES) for n in range(len(names)))
    means = {rate: [*values, np.mean(values)] for rate, values in at.items()}
    columns = {f"rate {rate:g}": means[rate] for rate in RATES}
    return table(
        {"encoding": [*(CONDITIONS[n].title for n in names), "mean"], **columns},
        formats=dict.fromkeys(columns, ".3f"),
        caption=f"Bits at L = {near}, means of two seeds that are not reported: "
        f"{chosen:g} is the best for all together, and for {own} of {len(names)} by "
        "themselves",
    )


def length_cost(result: Result) -> Table:
    """Bits added from the training length to each longer one, and what was reported."""
    near, *longer = result.lengths()
    names = [name for name in result.encodings() if name in CONDITIONS]

    def added(name: str, length: int) -> Gap:
        return _gap(result.bits(name, length), result.bits(name, near))

    seen = [_fate(added(name, longer[-1])) for name in names]
    agree = [seen[names.index(n)] == fate for n, fate in REPORTED.items() if n in names]
    return table(
        {
            "encoding": [CONDITIONS[n].title for n in names],
            **{f"L = {n}": [_bits(added(m, n)) for m in names] for n in longer},
            "seen": seen,
            "reported": [REPORTED.get(name, "") for name in names],
        },
        caption=f"Bits per character added since L = {near}, each interval by itself "
        f"at 95 %. It holds if the whole interval at L = {longer[-1]} is at most "
        f"{NOTICED}, it breaks if the whole is above {BROKEN:g}: {sum(agree)} of "
        f"{len(agree)} as reported",
    )


def verdicts(result: Result) -> Iterator[tuple[Expectation, int, Gap]]:
    """Every expectation at each length, and by how many bits it is met."""
    for e in EXPECTED:
        if {e.better, e.worse} <= {*result.encodings()}:
            for multiple in e.multiples:
                length = multiple * result.settings.length
                both = (result.bits(n, length) for n in (e.worse, e.better))
                yield e, length, _gap(*both)


def expectations(result: Result) -> Table:
    """The expectations of the papers beside what is seen here."""
    seen = {(e, length): gap for e, length, gap in verdicts(result)}
    rows = dict.fromkeys(e for e, _ in seen)
    cells = {at: f"{_bits(gap)} {SIGNS[gap.verdict]}" for at, gap in seen.items()}
    verdicts = [gap.verdict for gap in seen.values()]
    said = ", ".join(f"{SIGNS[v]} {v} ({verdicts.count(v)})" for v in SIGNS)
    return table(
        {
            "source": [e.source for e in rows],
            "expected": [
                f"{CONDITIONS[e.better].title} before {CONDITIONS[e.worse].title}" for e in rows
            ],
            **{
                f"L = {n}": [cells.get((e, n), "") for e in rows]
                for n in result.lengths()
            },
        },
        caption=f"{len(seen)} expectations, bits saved and intervals at 95 %: {said}",
    )


def significant_differences(result: Result) -> Table:
    """Which encodings each is better than, at the two ends, by their numbers.

    The intervals of one length hold together with 95 %. A pair differs where its
    interval leaves out zero and its mean is at least what is noticed.
    """
    names = [name for name in result.encodings() if name in CONDITIONS]
    numbers = {name: n for n, name in enumerate(names, 1)}
    columns = {"encoding": [f"{numbers[n]} {CONDITIONS[n].title}" for n in names]}
    told, pairs = [], len(names) * (len(names) - 1) // 2
    for length in (result.lengths()[0], result.lengths()[-1]):
        beaten = significantly_worse(result, names, length)
        told.append(f"{sum(map(len, beaten.values()))} at L = {length}")
        columns[f"better than, L = {length}"] = [
            " ".join(str(numbers[other]) for other in beaten[name]) for name in names
        ]
    return table(
        columns,
        caption=f"Of {pairs} pairs are told apart, all of one length together at 95 %: "
        + ", ".join(told),
    )


def significantly_worse(
    result: Result, names: Sequence[str], length: int
) -> dict[str, list[str]]:
    """For each encoding those that need more bits, as :func:`significant_differences` has it."""
    values = {name: result.bits(name, length) for name in names}
    found: dict[str, list[str]] = {name: [] for name in names}
    for (a, b), gap in gaps(values, interval, unit=1.0).items():
        if gap.is_significant(NOTICED):
            winner, loser = (b, a) if gap.mean > 0 else (a, b)
            found[winner].append(loser)
    return found


def clips(result: Result) -> Table:
    """Shaw's tables by their clip, against clip 4; all of one length together."""
    names = sorted(("shaw", *CLIPS), key=_clip)
    others = [name for name in names if name != "shaw-4"]
    level = 1 - 0.05 / len(others)

    def less(name: str, length: int) -> Gap:
        both = (result.bits(n, length) for n in ("shaw-4", name))
        return _gap(*both, level)

    ends = result.lengths()[0], result.lengths()[-1]
    beyond = [less(name, ends[0]) for name in others if _clip(name) > 4]
    matter = sum(gap.is_significant(NOTICED) for gap in beyond)
    return table(
        {
            "clip": [_clip(name) for name in others],
            **{
                f"saved at L = {length}": [_bits(less(n, length)) for n in others]
                for length in ends
            },
        },
        caption=f"Bits that Shaw's tables save beside those with clip 4: at L = "
        f"{ends[0]}, {matter} of the {len(beyond)} wider ones differ from it",
    )


def absolute(result: Result) -> Table:
    """The further absolute positions against what each changes.

    All intervals of one length hold together.
    """
    level = 1 - 0.05 / len(ABSOLUTE)
    near, next_, *_, far = result.lengths()

    def saved(name: str, length: int) -> Gap:
        both = (result.bits(n, length) for n in (BASELINES[name], name))
        return _gap(*both, level)

    told = ", ".join(
        f"{sum(saved(n, at).is_significant(NOTICED) for n in ABSOLUTE)} at L = {at}"
        for at in (near, next_, far)
    )
    return table(
        {
            "encoding": [condition.title for condition in ABSOLUTE.values()],
            "beside": [CONDITIONS[BASELINES[name]].title for name in ABSOLUTE],
            **{
                f"saved at L = {at}": [_bits(saved(name, at)) for name in ABSOLUTE]
                for at in (near, next_, far)
            },
            f"bits at L = {far}": [
                f"{result.bits(name, far).mean():.2f}" for name in ABSOLUTE
            ],
        },
        caption=f"Bits that each saves beside what it changes; of {len(ABSOLUTE)} are "
        f"told apart {told}",
    )


def _clip(name: str) -> int:
    return int(ALL[name].title.rpartition(" ")[2])


def _gap(one: np.ndarray, other: np.ndarray, level: float = 0.95) -> Gap:
    return Gap.between(one, other, interval, level, unit=1.0)


def _fate(added: Gap) -> str:
    if added.mean + added.half <= NOTICED:
        return "holds"
    return "breaks" if added.mean - added.half > BROKEN else "loses"


def _bits(gap: Gap) -> str:
    return f"{gap.mean:+z.3f} ± {gap.half:.3f}"


def _seeds(result: Result) -> int:
    return len({run.seed for run in result.reported()})
