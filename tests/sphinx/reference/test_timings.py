"""The page of timings shows all results in the folder, for every device."""

from dataclasses import replace
from types import SimpleNamespace

import torch

from posedu.book.timing import time_encoding
from posedu.crosscheck import CrossCheck, Row
from posedu_sphinx.reference import timings

SMALL = dict(lengths=(8,), head_dims=(4,), heads=2, repeats=1, dtypes=(torch.float32,))


def shown(folder):
    """The page's nodes for the devices whose files are in a folder."""
    directive = SimpleNamespace(results=lambda: timings.stored_results(folder))
    return timings.DeviceTables.run(directive)


def write(folder):
    """Result files of the CPU, and copies with the name of a GPU."""
    for name in ("rope", "alibi"):
        result = time_encoding(
            name, **SMALL, save_to=folder / f"timing-{name}-cpu.json"
        )
        result.made["device"] = "Some GPU"
        if name == "alibi":
            result.missing["L = 16, d = 4, float32"] = "out of memory"
            result.complete = False
        result.save(folder / f"timing-{name}-some-gpu.json")
        task = "rotate" if name == "rope" else "causal"
        result.records = [
            replace(r, candidate=f"theirs, {task}", task=task) for r in result.records
        ]
        result.save(folder / f"peers-{name}-some-gpu.json")
    rows = [Row("a–b", "forward", "cuda", "float32", 1, 0.0, used) for used in (0.5, 2)]
    checked = CrossCheck("rope", tuple(rows), 0, result.made, {"flex": "no Triton"})
    checked.save(folder / "crosscheck-rope-some-gpu.json")


def test_other_devices_are_shown_where_their_files_are(tmp_path):
    (none,) = shown(tmp_path)
    assert none.astext() == "No other device has been measured yet."
    write(tmp_path)
    (section,) = shown(tmp_path)
    assert section["ids"] == ["timings-some-gpu"]
    text = section.astext()
    assert text.startswith("Some GPU\n\nMeasured on Some GPU, threads: ")
    assert (
        "Of 2 comparisons of the implementations of 1 encodings, forward and backward, "
        "1 are within their bounds; these use at most 50% of the bound." in text
    )
    # In the book's order, not in that of the files.
    assert text.index("RoPE, half") < text.index("ALiBi, authors, causal")
    for title, task in (("RoPE", "rotate"), ("ALiBi", "causal")):
        assert f"{title} compared with published libraries, forward:" in text
        assert f"theirs, {task}" in text
    for lacking in (
        "RoPE, flex: no Triton",
        "RoPE: a–b, forward, cuda, float32: 200% of the bound.",
        "ALiBi: L = 16, d = 4, float32 is missing (out of memory).",
        "ALiBi: interrupted.",
    ):
        assert lacking in text


def test_the_cpu_has_its_own_table(tmp_path):
    write(tmp_path)
    found = timings.stored_results(tmp_path)
    assert {*found} == {"cpu", "some-gpu"}
    assert [result.name for result in found["cpu"]["timing"]] == ["rope", "alibi"]


def test_a_duration_has_the_unit_that_fits():
    durations = {0.00302: "3.02 ms", 0.0448: "44.80 ms", 1.758: "1.76 s"}
    assert {t: timings._duration(t) for t in durations} == durations
