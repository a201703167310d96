"""The command that lists a record's missing parts finds each of them."""

import shutil
from dataclasses import replace

import pytest

from posedu.book import gpu
from posedu.catalog import CATALOG, ROPE_SCALINGS
from posedu_sphinx import ROOT
from posedu_sphinx.missing import PARTS, RECORDS, main, missing

ROPE = CATALOG["rope"]


@pytest.fixture
def tree(tmp_path):
    """A copy of the folders that the command reads."""
    for folder in ("book", "notebooks", "tests/encodings", "posedu/book/explorables"):
        unread = shutil.ignore_patterns("_ext", "_static", "solved")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=unread)
    shutil.copy(ROOT / "_toc.yml", tmp_path)
    return tmp_path


def without(path, text):
    whole = path.read_text(encoding="utf-8")
    assert text in whole
    path.write_text(whole.replace(text, "gone"), encoding="utf-8")


def test_a_complete_record_lacks_nothing(tree):
    assert missing(ROPE, tree) == []


@pytest.mark.parametrize(
    ("part", "path", "text"),
    [
        ("chapter", "_toc.yml", "book/rotary/rope"),
        ("lab", "_toc.yml", "notebooks/rope"),
        ("exercises", "_toc.yml", "notebooks/exercises/rope"),
        ("claims", "book/rotary/rope-properties.md", "(eq-rope-sinusoidal)"),
        ("claims", "book/rotary/rope.md", "(def-rope)"),
        ("errata", "book/rotary/errata.md", "<err-rotary-values>"),
    ],
)
def test_what_is_taken_out_is_lacking(part, path, text, tree):
    without(tree / path, text)
    assert missing(ROPE, tree) == [part]


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        (["chapter", "claims", "errata"], "book/rotary/rope.md"),
        (["errata"], "book/rotary/rope-practice.md"),
        (["lab"], "notebooks/rope.ipynb"),
        (["exercises"], "notebooks/exercises/rope.ipynb"),
        (["tests"], "tests/encodings/rotary/test_rope.py"),
        (["figure"], "posedu/book/explorables/rope.py"),
        (["timing"], "book/data/timing-rope-cpu.json"),
        (["errata"], "book/rotary/errata.md"),
    ],
)
def test_what_is_deleted_is_lacking(parts, path, tree):
    (tree / path).unlink()
    assert missing(ROPE, tree) == parts


def test_a_lab_that_does_not_use_the_encoding_is_not_its_lab(tree):
    lab = tree / "notebooks" / "rope.ipynb"
    shutil.copy(tree / "notebooks" / "stickbreaking.ipynb", lab)
    assert missing(ROPE, tree) == ["lab"]


def test_a_record_without_pages_or_variants_lacks_them():
    bare = replace(ROPE, name="new", function="rope", chapter="", lab="", variants=())
    found = {"implementations", "claims", "tests", "figure"}  # by the file rope.py
    parts = set(PARTS) - found
    assert set(missing(bare)) == parts


def test_an_implementation_that_is_not_exported_is_lacking(monkeypatch):
    monkeypatch.delattr("posedu.torch.RoPE")
    monkeypatch.setattr("posedu.torch.__all__", ["Attention"])
    assert "implementations" in missing(ROPE)


def test_a_map_of_frequencies_needs_no_timing():
    assert not {"timing", "gpu"} & {*missing(ROPE_SCALINGS["pi"])}


def test_every_encoding_has_its_place_in_the_command_for_gpus(monkeypatch):
    assert not [name for name in CATALOG if "gpu" in missing(CATALOG[name])]
    timed = [part for part in gpu.parts() if part != ("crosscheck", "rope")]
    monkeypatch.setattr(gpu, "parts", lambda: timed)
    assert missing(ROPE) == ["gpu"]


def test_the_command_names_what_is_lacking_and_fails(capsys, monkeypatch):
    assert not main(["rope"])
    assert capsys.readouterr().out == ""
    monkeypatch.setitem(RECORDS, "alibi", replace(CATALOG["alibi"], lab=""))
    assert main(["alibi", "rope"])
    assert capsys.readouterr().out.startswith("alibi: ")


def test_the_command_refuses_a_name_that_no_record_has(capsys):
    with pytest.raises(SystemExit):
        main(["ropee"])
    assert "got ropee" in capsys.readouterr().err
