"""The verdicts of the character lab, for runs with known bits."""

from dataclasses import replace

import pytest

from posedu.book.experiments import characters_results as results
from posedu.book.experiments.characters import (
    ABSOLUTE,
    ALL,
    BASES,
    CLIPS,
    CONDITIONS,
    METHOD,
    MULTIPLES,
    PATHS,
    RATES,
    Model,
    Result,
    Run,
    Settings,
    parameters,
)
from posedu.book.experiments.characters_results import (
    CONTROLS,
    EXPECTED_FURTHER,
    EXPECTED_PATHS,
)
from posedu.book.experiments.runs import interval
from posedu.catalog import CATALOG
from support import ROOT

LENGTHS = [64 * m for m in MULTIPLES]
JITTER = (-0.002, 0.0, 0.002)  # of the reported seeds: half an interval is 0.005 bits


def a_run(rate, encoding, seed, bits):
    at = {str(n): b for n, b in zip(LENGTHS, bits, strict=True)}
    accuracy = dict.fromkeys(at, 0.5)
    more = dict(bits=at, accuracy=accuracy, loss=2.0, seconds=0.0)
    return Run(rate=rate, encoding=encoding, seed=seed, **more)


def made_up(bits, tried=None, jitter=JITTER):
    """Runs of three seeds around bits [encoding][length], of which the first scatters.

    ``tried`` has the bits of encodings at each rate; the second is the best.
    """
    tried = tried or {"none": (2.5, 2.0, 3.0, 4.0)}
    runs = [
        a_run(rate, name, seed, [of] * len(LENGTHS))
        for name, by_rate in tried.items()
        for rate, of in zip(RATES, by_rate, strict=True)
        for seed in (1, 2)
    ]
    for name, by_length in bits.items():
        own = jitter if name == next(iter(bits)) else (0, 0, 0)
        runs += [
            a_run(RATES[1], name, seed, [b + e for b in by_length])
            for seed, e in enumerate(own, 3)
        ]
    return Result(METHOD, Settings(text="made up"), runs)


FOUND = {
    "rope": (2.0, 3.5, 3.6, 3.7, 3.8),
    "t5": (2.01, 2.02, 2.1, 2.2, 2.3),
    "alibi": (2.2, 2.2, 2.2, 2.2, 2.215),
    "kerple-log": (2.1, 2.1, 2.1, 2.1, 2.05),
}


def rows_of(table):
    head, *rows = table.rows()
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_what_length_costs_and_what_becomes_of_whom():
    table = results.length_cost(made_up(FOUND))
    rope, t5, alibi, kerple = rows_of(table)
    assert rope["parameters"] == "79,073" and t5["parameters"] == "79,201"
    assert rope["L = 1024"] == "+1.800 ± 0.000" and rope["measured"] == "breaks"
    assert t5["L = 128"] == "+0.010 ± 0.000" and t5["measured"] == "loses"
    assert alibi["L = 1024"] == "+0.015 ± 0.000" and alibi["measured"] == "holds"
    assert kerple["L = 1024"] == "-0.050 ± 0.000" and kerple["measured"] == "holds"
    assert [row["reported"] for row in (rope, t5, alibi)] == [
        "breaks",
        "loses",
        "holds",
    ]
    assert "4 of 4 as reported" in table.caption()
    other = made_up(FOUND | {"alibi": (2.2, 2.2, 2.2, 2.2, 2.3)})
    assert "3 of 4 as reported" in results.length_cost(other).caption()


def test_an_outcome_needs_its_whole_interval():
    result = made_up(FOUND)
    far = str(LENGTHS[-1])
    of_alibi = [r for r in result.reported() if r.encoding == "alibi"]
    for run, more in zip(of_alibi, (-0.01, 0.0, 0.01), strict=True):
        run.bits[far] += more
    assert rows_of(results.length_cost(result))[2]["measured"] == "loses"


def test_the_rate_that_is_the_best_for_all_together():
    tried = {"none": (2.5, 2.0, 3.0, 4.0), "rope": (1.9, 2.0, 3.0, 3.5)}
    table = results.rates(made_up(FOUND, tried))
    none, rope, mean = rows_of(table)
    first, second, third, fourth = (f"rate {rate:g}" for rate in RATES)
    assert (none[first], rope[second], mean[third]) == ("2.500", "2.000", "3.000")
    assert mean[fourth] == "3.750"
    assert f"{RATES[1]:g} is the best for all together, and for 1 of 2" in (
        table.caption()
    )


def test_what_length_costs_at_the_own_rate():
    tried = {"t5": (2.5, 2.1, 2.0, 3.0), "alibi": (2.6, 2.0, 2.5, 2.5)}
    result = made_up({name: FOUND[name] for name in tried}, tried=tried)
    own = [
        replace(run, rate=RATES[2], bits=run.bits | {"64": 1.0, "1024": 1.5})
        for run in result.reported()
        if run.encoding == "t5"
    ]
    result = replace(result, runs=[*result.runs, *own])
    (t5,) = rows_of(results.own_rates(result))
    assert t5["encoding"] == "T5" and t5["own rate"] == f"{RATES[2]:g}"
    assert t5["added at the own rate"] == "+0.500 ± 0.000"
    assert t5["L = 64 at the own rate"] == "1.000 ± 0.000"
    assert t5["added"] != t5["added at the own rate"]
    assert "All but 1 of" in results.own_rates(result).caption()


def test_bases_have_a_row_each():
    found = {"rope": FOUND["rope"], "rope-matched": FOUND["alibi"]}
    rows = rows_of(results.bases(made_up(found)))
    assert [row["base"] for row in rows] == ["10,000", "27"]
    assert [row["without a turn"] for row in rows] == ["5 of 8", "2 of 8"]
    assert rows[0]["L = 128"] != rows[1]["L = 128"]


def test_verdicts_are_of_differences_within_seeds():
    result = made_up(FOUND)
    seen = {
        (e.better, e.worse, length): verdict
        for e, length, _, verdict in results.verdicts(result)
    }
    assert seen["kerple-log", "alibi", 128] == "reproduced"
    assert seen["alibi", "rope", 64] == "contradicted"
    assert seen["alibi", "rope", 128] == "reproduced"
    assert seen["kerple-log", "t5", 256] == "undecided"  # the same bits
    assert not any("fire" in pair for pair in seen)
    table = results.expectations(result)
    rows = rows_of(table)
    assert {row["source"] for row in rows} == {"KERPLE, Table 3"}
    (alibi,) = (r for r in rows if r["expected"] == "ALiBi better than RoPE")
    assert alibi["L = 64"] == "-0.200 ± 0.005 ✗"
    assert alibi["L = 128"] == "+1.300 ± 0.005 ✓"
    assert f"{len(seen)} expectations" in table.caption()
    assert f"? undecided ({[*seen.values()].count('undecided')})" in table.caption()


def test_a_pair_differs_by_what_is_noticed_and_by_its_interval():
    result, names = made_up(FOUND), [*FOUND]
    assert results.significantly_worse(result, names, 64) == {
        "rope": ["alibi", "kerple-log"],  # T5 is 0.01 behind
        "t5": ["alibi", "kerple-log"],
        "kerple-log": ["alibi"],
        "alibi": [],
    }
    *_, kerple = rows_of(results.significant_differences(result))
    assert (kerple["encoding"], kerple["better than, L = 64"]) == ("4 KERPLE-log", "3")
    assert kerple["better than, L = 1024"] == "1 2 3"
    caption = results.significant_differences(result).caption()
    assert "Of 6 pairs" in caption and "5 at L = 64, 6 at L = 1024" in caption
    unsure = made_up(FOUND, jitter=(-0.2, 0, 0.2))
    assert results.significantly_worse(unsure, names, 64)["rope"] == []


def test_wider_clips_are_compared_with_four():
    bits = {
        name: (2.0 + more,) * 5
        for name, more in zip(
            ("shaw-4", "shaw", *(n for n in CLIPS if n != "shaw-4")),
            (0.0, 0.01, 0.3, 0.1, -0.1),
            strict=True,
        )
    }
    table = results.clips(made_up(bits))
    rows = rows_of(table)
    assert [row["clip"] for row in rows] == ["1", "2", "16", "64"]
    saved = [row["saved at L = 64"].split()[0] for row in rows]
    assert saved == ["-0.300", "-0.100", "-0.010", "+0.100"]
    assert "1 of the 2 wider ones" in table.caption()


def test_absolute_positions_are_compared_with_their_baselines():
    bits = {
        "learned": (2.0, 4.0, 5.0, 5.0, 5.0),
        "sinusoidal": (2.0, 4.0, 4.0, 4.0, 4.0),
    }
    bits |= {name: (2.01, 3.0, 3.0, 3.0, 3.0) for name in ABSOLUTE}
    bits["cape"] = (2.2, 4.0, 4.0, 4.0, 4.0)
    table = results.absolute(made_up(bits))
    of = {row["encoding"]: row for row in rows_of(table)}
    assert {*of} == {condition.title for condition in ABSOLUTE.values()}
    assert of["random absolute"]["compared with"] == "learned absolute"
    assert of["random absolute"]["saved at L = 1024"].startswith("+2.000")
    assert of["FLOATER"]["saved at L = 128"] == "+1.000 ± 0.000"
    assert of["FLOATER"]["parameters"] == "87,905"
    assert of["CAPE"]["saved at L = 64"] == "-0.200 ± 0.000"
    assert of["CAPE"]["bits at L = 1024"] == "4.00"
    assert "1 at L = 64, 4 at L = 128, 4 at L = 1024" in table.caption()


def test_controls_are_compared_with_what_they_control():
    bits = {name: (2.0, 2.5, 3.0, 3.0, 3.0) for pair in CONTROLS for name in pair}
    bits["learned-wide"] = (1.9, 2.5, 3.0, 3.0, 3.5)
    rows = rows_of(results.controls(made_up(bits)))
    assert [row["saved at L = 64"].split()[0] for row in rows].count("+0.000") == 7
    wide, drawn = (
        next(row for row in rows if row["encoding"] == title)
        for title in (ALL["learned-wide"].title, ALL["random-drawn"].title)
    )
    assert wide["saved at L = 64"] == "+0.100 ± 0.000"
    assert wide["bits at L = 1024"] == "3.50"
    assert drawn["compared with"] == "random absolute"


def test_further_encodings_are_held_against_their_papers():
    bits = {e: (2.0,) * 5 for x in EXPECTED_FURTHER for e in (x.better, x.worse)}
    bits |= {"rope": (2.1, 3.5, 3.6, 3.7, 3.8), "pope": (2.2, 3.6, 3.6, 3.6, 3.6)}
    result = made_up(bits)
    (pope,) = [r for r in rows_of(results.further(result)) if r["encoding"] == "PoPE"]
    assert pope["L = 128"] == "+1.400 ± 0.000" and pope["measured"] == "breaks"
    assert pope["parameters"] == f"{parameters('pope', Settings(text='made up')):,}"
    rows = rows_of(results.expectations(result, EXPECTED_FURTHER))
    (pope,) = [row for row in rows if row["source"] == "PoPE"]
    assert pope["expected"] == "PoPE better than RoPE"
    signs = [pope[f"L = {n}"][-1] for n in LENGTHS]
    assert signs == ["✗", "✗", "?", "✓", "✓"]


def test_products_over_the_path_are_a_group_of_their_own():
    bits = {e: (2.0,) * 5 for x in EXPECTED_PATHS for e in (x.better, x.worse)}
    result = made_up(bits | {"wall": (1.9, 1.9, 1.9, 1.9, 1.9)})
    rows = rows_of(results.further(result, PATHS))
    assert [r["encoding"] for r in rows if r["measured"] == "holds"] == [
        PATHS[name].title for name in PATHS if name in bits
    ]
    rows = rows_of(results.expectations(result, EXPECTED_PATHS))
    (wall,) = [row for row in rows if row["source"] == "Wall"]
    assert wall["L = 64"] == "" and wall["L = 1024"][-1] == "✓"


def test_trained_numbers_are_listed_by_seed():
    result = made_up({"fire": (2.0,) * 5})
    result.runs = [replace(run, trained={"0.c": 0.1 * run.seed}) for run in result.runs]
    rows = rows_of(results.trained_numbers(result, "fire"))
    assert rows == [{"seed": str(n), "0.c": f"{0.1 * n:.3f}"} for n in (3, 4, 5)]


@pytest.fixture(scope="module")
def committed():
    return Result.load(ROOT / "book/data/characters-cpu.json")


def test_every_run_is_there(committed):
    assert committed.complete
    trained = {*ALL}
    assert {*committed.encodings()} == trained
    assert all(len(committed.bits(name, 64)) == 5 for name in trained)
    for name in CONDITIONS:
        assert len(committed.at_own_rate(name, 64)) == 5


def test_seeds_that_choose_the_rate_are_not_counted(committed):
    assert committed.caption().startswith("Means of 5 seeds ")


def test_what_the_lab_says_of_the_runs(committed):
    fates = {
        row["encoding"]: row["measured"]
        for row in rows_of(results.length_cost(committed))
    }
    broken = {name for name, fate in fates.items() if fate == "breaks"}
    assert broken == {"learned absolute", "sinusoidal", "RoPE"}
    holding = {name for name, fate in fates.items() if fate == "holds"}
    assert {"KERPLE-log", "DAPE over KERPLE-log", "Transformer-XL", "FoX"} <= holding
    near, far = committed.lengths()[0], committed.lengths()[-1]
    gain = {
        at: (committed.bits("kerple-log", at) - committed.bits("dape", at)).mean()
        for at in (near, far)
    }
    assert gain[near] > results.NOTICED and abs(gain[far] - gain[near]) < 0.02


def test_what_the_summaries_of_the_chapters_say_of_the_runs(committed):
    near, *_, far = committed.lengths()
    mean = {n: committed.bits(n, near).mean() for n in CONDITIONS}
    lost = {n: committed.bits(n, far).mean() - mean[n] for n in CONDITIONS}
    assert abs(lost["kerple-log"]) < 0.005 and abs(lost["transformer-xl"]) < 0.005
    assert 1 / 60 < lost["alibi"] < 1 / 40
    assert all(0.08 < lost[n] < 0.13 for n in ("t5", "sandwich"))
    assert 0.5 < lost["none"] < 0.65 and 0.9 < lost["fire"] < 1.1
    twice = committed.bits("rope", 2 * near).mean() - mean["rope"]
    assert 1.9 < twice < 2.1 and 2.8 < lost["rope"] < 3.1
    for length in committed.lengths():
        needed = {n: committed.bits(n, length).mean() for n in CONDITIONS}
        assert min(needed, key=needed.get) == "transformer-xl"
    xl = committed.bits("transformer-xl", near)
    for other in ("shaw", "shaw-64"):
        mean, half = interval(committed.bits(other, near) - xl)
        assert abs(mean) < half
    for ahead in "sandwich", "alibi-steep":  # neither trains anything, as ALiBi
        for behind in "alibi", "sinusoidal":
            saved = committed.bits(behind, near) - committed.bits(ahead, near)
            mean, half = interval(saved)
            assert mean > half
    lost_by_t5 = [
        (bits("t5", far) - bits("t5", near)).mean()
        for bits in (committed.bits, committed.at_own_rate)
    ]
    assert 0.08 < lost_by_t5[0] < 0.13 and 0.4 < lost_by_t5[1] < 0.6
    own = {n for n in CONDITIONS if committed.own_rate(n) != committed.chosen()}
    assert own == {"none", "t5"}
    for name in BASES:  # whatever the base, RoPE breaks at twice the length
        twice = committed.bits(name, 2 * near) - committed.bits(name, near)
        mean, half = interval(twice)
        assert mean - half > 1
    contradicted = {
        (e.better, e.worse, length // near)
        for e, length, _, verdict in results.verdicts(committed)
        if verdict == "contradicted"
    }
    assert contradicted == {
        *(("alibi", "sinusoidal", 1), ("alibi", "rope", 1), ("fire", "alibi", 4)),
        *(("fire", "kerple-log", 2), ("fire", "kerple-log", 4)),
    }


def test_relative_encodings_are_ahead_far_beyond_the_training_length(committed):
    near, *_, far = committed.lengths()
    absolute = {"learned", "sinusoidal"}
    others = {*CONDITIONS} - absolute - {"none"}
    relative = {name for name in others if CATALOG[name].relative == "exactly"}
    assert others - relative == {"fire", "dape", "fox"}

    def ahead(length):
        better = results.significantly_worse(committed, [*CONDITIONS], length)
        assert not any(others & {*better[name]} for name in absolute)
        return {name for name in others if absolute <= {*better[name]}}

    assert len(relative) == 7 and ahead(near) & relative == {"shaw", "transformer-xl"}
    assert (others - relative) - ahead(near) == {"fire"}
    assert others - ahead(far) == {"rope"}


def test_a_clip_of_64_is_behind_three_shorter_ones_at_1024(committed):
    far = committed.lengths()[-1]
    bits = {name: committed.bits(name, far).mean() for name in ("shaw", *CLIPS)}
    assert sorted(bits, key=bits.get)[-2:] == ["shaw-64", "shaw-1"]


def test_of_absolute_positions_only_drawn_ones_hold(committed):
    lost = {
        name: (committed.bits(name, 128) - committed.bits(name, 64)).mean()
        for name in ABSOLUTE
    }
    assert min(lost, key=lost.get) == "randomized" and lost["randomized"] < 0.3
    assert all(lost[name] > 1 for name in ("random", "learned-per-layer", "cape"))


def test_what_the_summaries_of_absolute_chapters_say_of_the_runs(committed):
    near, twice, *further, far = committed.lengths()

    def saved(name, baseline, length):
        return (committed.bits(baseline, length) - committed.bits(name, length)).mean()

    def lost(name, length):
        return (committed.bits(name, length) - committed.bits(name, near)).mean()

    beyond = (twice, *further, far)
    assert -0.13 < saved("random", "learned", near) < -0.09
    assert all(0.5 < saved("random", "learned", n) < 0.85 for n in beyond)
    assert all(3.0 < lost("learned", n) < 3.3 for n in beyond)
    assert 1 / 16 < saved("floater", "sinusoidal", near) < 1 / 14
    assert 2.9 < saved("floater", "sinusoidal", twice) < 3.2
    assert all(saved("floater", "sinusoidal", n) < 0 for n in (*further, far))
    assert -0.27 < saved("randomized", "sinusoidal", near) < -0.22
    assert 0.11 < lost("randomized", twice) < 0.14 and 1 < lost("randomized", far) < 1.5
    assert 2.8 < lost("cape", twice) < 3 < lost("sinusoidal", twice) < 3.3
    assert -0.75 < saved("none", "sinusoidal", near) < -0.65
    assert all(2.8 < lost(n, far) < 3.3 for n in ("sinusoidal", "learned", "rope"))
    assert all(0.55 < saved("random-drawn", "learned-wide", n) < 0.65 for n in beyond)
    assert 1 / 10 < saved("floater", "sinusoidal-per-layer", near) < 1 / 8
    assert saved("sinusoidal-per-layer", "sinusoidal", near) < -results.NOTICED
    table = results.absolute(committed)
    (layers,) = [r for r in rows_of(table) if r["encoding"] == "learned in each layer"]
    for length in near, twice, far:
        mean, half = map(float, layers[f"saved at L = {length}"].split(" ± "))
        assert abs(mean) < half


def test_fire_s_threshold_ends_near_the_training_length(committed):
    ends = [
        committed.settings.length / 4 * run.trained[f"{layer}.multiplier"]
        for run in committed.reported()
        if run.encoding == "fire"
        for layer in (0, 1)
    ]
    assert len(ends) == 10 and 53 < min(ends) < max(ends) < 58


def test_what_the_summaries_say_of_further_encodings(committed):
    near, twice, *_, far = committed.lengths()

    def lost(name, length):
        return (committed.bits(name, length) - committed.bits(name, near)).mean()

    verdict = {
        (e.better, e.worse, length): verdict
        for e, length, _, verdict in results.verdicts(committed, EXPECTED_FURTHER)
    }
    assert "contradicted" not in verdict.values()
    ahead = (committed.bits("learned", near) - committed.bits("cope", near)).mean()
    assert 0.155 < ahead < 0.165 and verdict["cope", "learned", near] == "reproduced"
    assert verdict["cope", "shaw", near] == "undecided"
    assert 0.08 < lost("cope", twice) < 0.1 and lost("cope", far) > 1
    assert all(abs(lost(n, far)) < 0.002 for n in ("fox", "fox-pro", "stickbreaking"))
    assert verdict["fox-pro", "fox", near] == "undecided"
    for length in committed.lengths():
        decided = "undecided" if length == near else "reproduced"
        assert verdict["stickbreaking", "rope", length] == decided
        if length > near:
            gap = committed.bits("rope", length) - committed.bits(
                "stickbreaking", length
            )
            assert 2 < gap.mean() < 3.1
        assert verdict["pope", "rope", length] == "undecided"
        assert verdict["tape", "rope", length] == "undecided"
    assert all(2.9 < lost(n, far) < 3.1 for n in ("pope", "rope", "tape"))
    assert 0.45 < lost("fope", twice) < 0.55 and 1.9 < lost("fope", far) < 2.1
    assert lost("deberta", far) < 0.1 and 1.4 < lost("tupe", far) < 1.6
    assert 0.22 < lost("music-transformer", far) < 0.28
    assert lost("shaw", far) < 0.5 * lost("music-transformer", far) + 0.01


def test_every_encoding_has_one_panel():
    shown = [name for names in results.PANELS.values() for name in names]
    assert sorted(shown) == sorted(CONDITIONS)
    everyone = made_up({name: FOUND["alibi"] for name in CONDITIONS} | FOUND)
    figure = results.overview(everyone)
    assert "KERPLE-log needs 2.05 bits, RoPE 3.80" in figure.caption
    assert "T5: from 2.01 bits to 2.30." in figure.alt
    for title in results.PANELS:
        assert f"<!-- {title} -->" in figure.svg


def test_the_models_of_kerple_s_table_are_two_thousand_times_as_large():
    model = Model(CONDITIONS["kerple-log"], Settings(text="any"), seed=0)
    count = sum(p.numel() for p in model.parameters())
    assert round(162e6 / count, -3) == 2000


@pytest.mark.parametrize("fate", ["holds", "loses", "breaks"])
def test_what_is_reported_is_one_of_three(fate):
    assert fate in results.REPORTED.values()
    assert results.REPORTED.keys() <= CONDITIONS.keys()
