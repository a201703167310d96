"""Tables and figures of ``posedu.book.experiments.characters``.

Intervals are Student's t intervals over the seeds, at 95 % unless otherwise stated.
Comparisons use differences between runs of the same seed, in bits per character
(:mod:`posedu.book.experiments.comparisons`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posedu._result_table import Table
from posedu.book.experiments import comparisons
from posedu.book.experiments.characters import (
    ABSOLUTE,
    ALL,
    BASES,
    CLIPS,
    CONDITIONS,
    FURTHER,
    RATES,
    Condition,
    Result,
    base_of,
    in_bits,
    parameters,
    unturned,
)
from posedu.book.experiments.comparisons import Gap, gaps, verdicts_together
from posedu.book.experiments.runs import interval
from posedu.book.figures import COLORS, DASHES, Figure, canvas, finish, table

NOTICED = 0.02  # bits; smaller differences are not reported
BROKEN = 1.0  # bits; an encoding that loses more counts as broken
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
"""Length extrapolation of five encodings in Table 3 of KERPLE (arXiv 2205.09921).

They were trained at 512 tokens and tested up to 16384.
"""


@dataclass(frozen=True)
class Expectation:
    """A paper's expectation that one encoding needs fewer bits than another.

    ``source`` is the paper, ``better`` and ``worse`` are names of encodings, and
    ``multiples`` are the test lengths over the training length.
    """

    source: str
    better: str
    worse: str
    multiples: tuple[int, ...]


BASELINES = {
    "random": "learned",
    "learned-per-layer": "learned",
    "floater": "sinusoidal",
    "cape": "sinusoidal",
    "randomized": "sinusoidal",
}
"""Encoding that each further encoding of absolute positions modifies."""

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
"""Expectations that follow from the papers, at their scale.

FIRE's are those of its abstract, up to four training lengths, which it tests.
"""


EXPECTED_FURTHER = (
    Expectation("Music Transformer", "music-transformer", "sinusoidal", (1,)),
    Expectation("DeBERTa", "deberta", "learned", (1,)),
    Expectation("TUPE", "tupe", "learned", (1,)),
    Expectation("TUPE", "tupe", "t5", (1,)),
    Expectation("PoPE", "pope", "rope", (1, *_BEYOND)),
    Expectation("FoPE", "fope", "rope", _BEYOND),
    Expectation("TAPE", "tape", "rope", (1, *_BEYOND)),
    Expectation("CoPE", "cope", "learned", (1,)),
    Expectation("CoPE", "cope", "shaw", (1,)),
    Expectation("stick-breaking", "stickbreaking", "rope", (1, *_BEYOND)),
    Expectation("FoX", "fox-pro", "fox", (1,)),
    Expectation("FoX", "fox-pro", "rope", (1, *_BEYOND)),
)
"""Expectations about the encodings of ``FURTHER``, from papers' models and tasks.

DeBERTa and TUPE read texts in both directions there, and Music Transformer wrote music.
"""

EXPECTED_PATHS = (
    Expectation("PaTH", "path", "rope", (1, *_BEYOND)),
    Expectation("PaTH", "path-fox", "fox", (1, *_BEYOND)),
    Expectation("PaTH", "path-fox", "path", (1, *_BEYOND)),
    Expectation("Selective RoPE", "selective-rope", "rope", (1,)),
    Expectation("Selective RoPE", "selective-rope-fox", "fox", (1,)),
    Expectation("Selective RoPE", "selective-rope-fox", "selective-rope", (1,)),
    Expectation("Wall", "wall", "rope", _BEYOND),
)
"""Expectations about the encodings of ``PATHS``, from papers' models and tasks.

Wall has no paper; its maker says that it generalizes to far longer texts.
"""

CONTROLS = (
    ("t5-drawn", "t5"),
    ("fire-frozen", "fire"),
    ("learned-wide", "learned"),
    ("random-drawn", "random"),
    ("random-drawn", "learned-wide"),
    ("random-narrow", "learned"),
    ("sinusoidal-per-layer", "sinusoidal"),
    ("floater", "sinusoidal-per-layer"),
    ("alibi-steep", "alibi"),
)
"""Pairs of an encoding and the one that it controls, or that controls it."""


def overview(result: Result) -> Figure:
    """Draw each encoding's mean bits per character against the test length.

    Each kind of encoding has a panel: positions, biases, or vectors and gates.
    """
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
            f"{CONDITIONS[n].title}: from {result.bits(n, lengths[0]).mean():.2f} bits "
            f"to {means[n]:.2f}."
            for n in CONDITIONS
        ),
    )


def origins(result: Result) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions."""
    return comparisons.origins(
        result, {n: condition.title for n, condition in ALL.items()}
    )


def rates(result: Result) -> Table:
    """Return a table of bits per character, by encoding (row) and learning rate.

    The bits are means over the seeds that choose the rate, at the training length. The
    caption names the chosen rate.
    """
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


def own_rates(result: Result) -> Table:
    """Return a table of what length costs encodings whose own best rate is another.

    An encoding's own rate is the one with its fewest bits at the training length, on
    the seeds that choose. The table has the bits at the training length and those that
    the longest length adds, at the rate that all share and at the own rate.
    """
    near, *_, far = result.lengths()
    shared = result.chosen()
    names = [
        name
        for name in CONDITIONS
        if result.own_rate(name) != shared and len(result.at_own_rate(name, near))
    ]

    def costs(bits: Callable[[str, int], np.ndarray]) -> tuple[list[str], list[str]]:
        return (
            [in_bits(bits(name, near)) for name in names],
            [_bits(_gap(bits(name, far), bits(name, near))) for name in names],
        )

    at_shared, added_at_shared = costs(result.bits)
    at_own, added_at_own = costs(result.at_own_rate)
    return table(
        {
            "encoding": [CONDITIONS[name].title for name in names],
            f"L = {near} at {shared:g}": at_shared,
            "added": added_at_shared,
            "own rate": [f"{result.own_rate(name):g}" for name in names],
            f"L = {near} at the own rate": at_own,
            "added at the own rate": added_at_own,
        },
        caption=f"Bits per character at L = {near}, and added from there to L = {far}, "
        f"intervals at 95 %. All but {len(names)} of {len(CONDITIONS)} encodings have "
        f"their fewest bits at the rate {shared:g} that all share",
    )


def bases(result: Result) -> Table:
    """Return a table of RoPE's bits per character at each length, by its base.

    The second column counts pairs that complete no full turn in training.
    """
    names = [n for n in ("rope", *BASES) if len(result.bits(n, result.lengths()[0]))]
    settings = result.settings
    return table(
        {
            "base": [f"{base_of(name, settings.length):,.0f}" for name in names],
            "without a turn": [
                f"{unturned(name, settings)} of {settings.d // 2}" for name in names
            ],
            **{
                f"L = {n}": [in_bits(result.bits(name, n)) for name in names]
                for n in result.lengths()
            },
        },
        caption="Bits per character with RoPE, by its base, with the number of pairs "
        "that complete no full turn in training; intervals at 95 %",
    )


def length_cost(result: Result) -> Table:
    """Return a table of the bits per character that longer texts add, by encoding.

    The second column counts the model's trained parameters. The table's last columns
    say whether the encoding holds, loses or breaks at the longest length, as measured
    here and as published (``REPORTED``).
    """
    near, *longer = result.lengths()
    names = [name for name in result.encodings() if name in CONDITIONS]

    def added(name: str, length: int) -> Gap:
        return _gap(result.bits(name, length), result.bits(name, near))

    outcomes = [_outcome(added(name, longer[-1])) for name in names]
    agree = [
        outcomes[names.index(n)] == reported
        for n, reported in REPORTED.items()
        if n in names
    ]
    return table(
        {
            "encoding": [CONDITIONS[n].title for n in names],
            "parameters": [parameters(n, result.settings) for n in names],
            **{f"L = {n}": [_bits(added(m, n)) for m in names] for n in longer},
            "measured": outcomes,
            "reported": [REPORTED.get(name, "") for name in names],
        },
        formats={"parameters": ",d"},
        caption=f"Bits per character added since L = {near}, each interval by itself "
        f"at 95 %. It holds if the whole interval at L = {longer[-1]} is at most "
        f"{NOTICED}, it breaks if the whole is above {BROKEN:g}: {sum(agree)} of "
        f"{len(agree)} as reported",
    )


def further(result: Result, group: Mapping[str, Condition] = FURTHER) -> Table:
    """Return a table of the encodings of a group: bits, and what longer texts add.

    ``group`` has the encodings by name. The second column counts the model's trained
    parameters, the last says whether the encoding holds, loses or breaks at the longest
    length.
    """
    near, *longer = result.lengths()
    names = [name for name in group if len(result.bits(name, near))]

    def added(name: str, length: int) -> Gap:
        return _gap(result.bits(name, length), result.bits(name, near))

    outcomes = [_outcome(added(name, longer[-1])) for name in names]
    return table(
        {
            "encoding": [group[n].title for n in names],
            "parameters": [parameters(n, result.settings) for n in names],
            f"bits at L = {near}": [in_bits(result.bits(n, near)) for n in names],
            **{f"L = {n}": [_bits(added(m, n)) for m in names] for n in longer},
            "measured": outcomes,
        },
        formats={"parameters": ",d"},
        caption=f"Bits per character at L = {near}, and added since, each interval by "
        f"itself at 95 %. It holds if the whole interval at L = {longer[-1]} is at "
        f"most {NOTICED}, it breaks if the whole is above {BROKEN:g}: "
        + ", ".join(f"{outcomes.count(o)} {o[:-1]}" for o in dict.fromkeys(outcomes)),
    )


def verdicts(
    result: Result, expected: Sequence[Expectation] = EXPECTED
) -> Iterator[tuple[Expectation, int, Gap, str]]:
    """Yield (expectation, test length, gap, verdict), at each expectation's lengths.

    The gap is the bits per character of the encoding expected to be worse, minus those
    of the encoding expected to be better. All verdicts hold together
    (:func:`posedu.book.experiments.comparisons.verdicts_together`).
    """
    found = {}
    for e in expected:
        if {e.better, e.worse} <= {*result.encodings()}:
            for multiple in e.multiples:
                length = multiple * result.settings.length
                both = (result.bits(n, length) for n in (e.worse, e.better))
                found[e, length] = _gap(*both)
    for at, verdict in verdicts_together(found).items():
        yield *at, found[at], verdict


def expectations(result: Result, expected: Sequence[Expectation] = EXPECTED) -> Table:
    """Return a table of the papers' expectations, with measured gaps and verdicts.

    A row is an expectation that one encoding needs fewer bits than another, a column a
    test length.
    """
    found = [*verdicts(result, expected)]
    rows = dict.fromkeys(e for e, *_ in found)
    cells = {(e, n): f"{_bits(gap)} {SIGNS[verdict]}" for e, n, gap, verdict in found}
    outcomes = [verdict for *_, verdict in found]
    summary = ", ".join(f"{SIGNS[v]} {v} ({outcomes.count(v)})" for v in SIGNS)
    return table(
        {
            "source": [e.source for e in rows],
            "expected": [
                f"{ALL[e.better].title} better than {ALL[e.worse].title}" for e in rows
            ],
            **{
                f"L = {n}": [cells.get((e, n), "") for e in rows]
                for n in result.lengths()
            },
        },
        caption=f"{len(found)} expectations: bits saved, each with its own 95 % "
        "interval. The verdicts are corrected so that all of them hold together at "
        f"95 %: {summary}",
    )


def significant_differences(result: Result) -> Table:
    """Return a table that lists, for each encoding, the significantly worse ones.

    The table lists encodings by their numbers in the first column, separately for the
    shortest and for the longest length. The intervals of the mean differences of all
    pairs of encodings at one length hold together with 95 %. A difference is
    significant if its interval excludes 0 and its mean exceeds ``NOTICED``, 0.02 bits
    per character.
    """
    names = [name for name in result.encodings() if name in CONDITIONS]
    numbers = {name: n for n, name in enumerate(names, 1)}
    columns = {"encoding": [f"{numbers[n]} {CONDITIONS[n].title}" for n in names]}
    totals, pairs = [], len(names) * (len(names) - 1) // 2
    for length in (result.lengths()[0], result.lengths()[-1]):
        worse = significantly_worse(result, names, length)
        totals.append(f"{sum(map(len, worse.values()))} at L = {length}")
        columns[f"better than, L = {length}"] = [
            " ".join(str(numbers[other]) for other in worse[name]) for name in names
        ]
    return table(
        columns,
        caption=f"Of {pairs} pairs are significantly different, all of one length "
        "together at 95 %: " + ", ".join(totals),
    )


def significantly_worse(
    result: Result, names: Sequence[str], length: int
) -> dict[str, list[str]]:
    """Return, for each encoding, the encodings that need significantly more bits.

    ``names`` are the encodings to compare, ``length`` is the test length. A difference
    of two encodings is significant if its interval excludes 0 and its mean exceeds
    ``NOTICED``, 0.02 bits per character; the list of an encoding is empty if there is
    none.
    """
    values = {name: result.bits(name, length) for name in names}
    found: dict[str, list[str]] = {name: [] for name in names}
    for (a, b), gap in gaps(values, interval, unit=1.0).items():
        if gap.is_significant(NOTICED):
            better, worse = (b, a) if gap.mean > 0 else (a, b)
            found[better].append(worse)
    return found


def clips(result: Result) -> Table:
    """Return a table that compares Shaw's clip distances with clip 4.

    A clip distance is the largest offset with a vector of its own. The table has the
    bits per character that each clip distance saves compared with clip 4, with
    intervals, at the shortest and at the longest length; all intervals of one length
    hold together with 95 %.
    """
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
        caption=f"Bits that Shaw's tables save compared with clip 4: at L = "
        f"{ends[0]}, {matter} of the {len(beyond)} wider ones differ from it",
    )


def absolute(result: Result) -> Table:
    """Return a table that compares further absolute encodings with their baselines.

    A baseline is the encoding that a further encoding modifies. The table has the bits
    per character saved compared with the baseline, with intervals; all intervals of one
    length hold together with 95 %.
    """
    return _compared(result, [(name, BASELINES[name]) for name in ABSOLUTE])


def controls(result: Result) -> Table:
    """Return a table of ``CONTROLS``: what a start, a place or ALiBi's slopes do.

    The table has the bits per character saved compared with another encoding, with
    intervals; all intervals of one length hold together with 95 %.
    """
    return _compared(result, CONTROLS)


def _compared(result: Result, pairs: Sequence[tuple[str, str]]) -> Table:
    """Return a table of what the first encoding of each pair saves over the second."""
    level = 1 - 0.05 / len(pairs)
    near, next_, *_, far = result.lengths()

    def saved(pair: tuple[str, str], length: int) -> Gap:
        one, other = pair
        return _gap(result.bits(other, length), result.bits(one, length), level)

    totals = ", ".join(
        f"{sum(saved(p, at).is_significant(NOTICED) for p in pairs)} at L = {at}"
        for at in (near, next_, far)
    )
    return table(
        {
            "encoding": [ALL[one].title for one, _ in pairs],
            "parameters": [parameters(one, result.settings) for one, _ in pairs],
            "compared with": [ALL[other].title for _, other in pairs],
            **{
                f"saved at L = {at}": [_bits(saved(p, at)) for p in pairs]
                for at in (near, next_, far)
            },
            f"bits at L = {far}": [
                f"{result.bits(one, far).mean():.2f}" for one, _ in pairs
            ],
        },
        formats={"parameters": ",d"},
        words=("encoding", "compared with"),
        caption="Bits that each saves compared with the other; of "
        f"{len(pairs)} pairs are significantly different {totals}",
    )


def trained_numbers(result: Result, encoding: str) -> Table:
    """Return a table of an encoding's single numbers after training, by seed.

    A number's name has its layer, counted from 0, such as "0.c".
    """
    runs = [run for run in result.reported() if run.encoding == encoding]
    return table(
        {
            "seed": [run.seed for run in runs],
            **{
                name: [f"{run.trained[name]:.3f}" for run in runs]
                for name in runs[0].trained
            },
        },
        caption=f"{ALL[encoding].title}: what single numbers are trained to, with "
        f"{len(runs)} seeds",
    )


def _clip(name: str) -> int:
    return int(ALL[name].title.rpartition(" ")[2])


def _gap(one: np.ndarray, other: np.ndarray, level: float = 0.95) -> Gap:
    return Gap.between(one, other, interval, level, unit=1.0)


def _outcome(added: Gap) -> str:
    if added.mean + added.half <= NOTICED:
        return "holds"
    return "breaks" if added.mean - added.half > BROKEN else "loses"


def _bits(gap: Gap) -> str:
    return f"{gap.mean:+z.3f} ± {gap.half:.3f}"


def _seeds(result: Result) -> int:
    return len({run.seed for run in result.reported()})
