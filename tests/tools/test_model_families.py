"""The census of model families is complete, and agrees with other data."""

import json
import tomllib

import pytest

from posedu.tools.configs.families import family, model_types
from support import ROOT

DATA = ROOT / "book/data/census.json"
CENSUS = json.loads(DATA.read_text("utf-8"))
ROWS = CENSUS["rows"]
ANSWERED = [row for row in ROWS if "layers" in row]
LAYOUTS = {"half", "interleaved", "blocks", "other", ""}
TRIALS = {
    *("own positions", "elsewhere", "padded", "padded and counted", "cached"),
    *("padded and cached", "packed", "after a longer text"),
}
LEAST = {"asked": 217, "answered": 204}
"""Numbers of families with transformers 5.24.0; a later census has no fewer."""
OTHER_BASE = {
    # 21 of 42 columns, rounded up, and a head of 73: b^(−2p/21) and b^(−2p/73).
    "glm4_moe": 1e4 ** (22 / 21),
    "qwen3_omni_moe_text": 1e6 ** (74 / 73),
    # The base of its text; 1200 is that of a module that rotates by seconds.
    "musicflamingo": 1e4,
}
"""Bases of families that differ from those in ``families.json``."""
PATTERNS = tomllib.loads((DATA.parent / "layers.toml").read_text("utf-8"))["pattern"]
EACH, ONE = (p for p in PATTERNS if "base" in p["name"])
"""Families with a base for each type of layer, and with one base for all."""
MIXED = {name for p in PATTERNS[:2] for name in p["default"]}
"""Families with RoPE in some layers of attention, and no encoding in others."""


def folders(rows):
    return {row["folder"] for row in rows}


def rotated_layers(row):
    return [layer for layer in row["layers"] if layer["turned"]]


def test_every_family_has_layers_or_a_reason():
    assert len({row["family"] for row in ROWS}) == len(ROWS)
    assert {"date", "transformers", "torch", "seed"} <= CENSUS["made"].keys()
    for row in ROWS:
        if "layers" not in row:
            assert row["reason"].strip(), row["family"]
            continue
        assert row["layers"] and row["model"], row["family"]
        assert not row["alone"] or row["trials"] == {}
        assert row["trials"].keys() <= TRIALS
        for layer in row["layers"]:
            assert layer["count"] > 0 and layer["layout"] in LAYOUTS
            assert 0 <= layer["turned"] <= layer["of"] and layer["turned"] % 2 == 0
            assert bool(layer["layout"]) <= bool(layer["turned"])


def test_as_many_answered_as_were_aimed_at():
    assert len(folders(ROWS)) >= LEAST["asked"]
    assert len(folders(ANSWERED)) >= LEAST["answered"]


def bases(name):
    """Bases of a family in ``families.json``, of all layers or of kinds of layer."""
    own = family(name)
    inside = [of for of in own.filled.values() if isinstance(of, dict)]
    return {own.base, *(of["rope_theta"] for of in inside)} - {None}


def known(known_of):
    """Rows of families of which ``families.json`` knows something, too."""
    return [
        pytest.param(row, id=row["family"])
        for row in ANSWERED
        if row["family"] in model_types()
        and known_of(row["family"])
        and rotated_layers(row)
    ]


@pytest.mark.parametrize("row", known(lambda name: family(name).layout))
def test_layouts_agree_with_those_of_functions_alone(row):
    """The whole model agrees with its rotary class, which another command measured.

    The attention of Qwen2.5-Omni's DiT reorders features around its function.
    """
    said = family(row["family"]).layout
    if row["family"] == "qwen2_5_omni_dit":
        assert row["alone"] and said == "interleaved"
        return
    assert said in {layer["layout"] for layer in rotated_layers(row)}
    if not row["alone"]:
        assert {layer["layout"] for layer in rotated_layers(row)} == {said}


@pytest.mark.parametrize("row", known(bases))
def test_bases_agree_with_those_of_the_code(row):
    """They agree in at least one kind of layer with a geometric series."""
    found = [layer["base"] for layer in rotated_layers(row) if layer["base"]]
    if not found:
        return
    name = row["family"]
    wanted = {OTHER_BASE[name]} if name in OTHER_BASE else bases(name)
    assert any(abs(base / w - 1) < 2e-3 for base in found for w in wanted)


@pytest.mark.parametrize("name", OTHER_BASE)
def test_exceptions_are_needed(name):
    (row,) = [row for row in ANSWERED if row["family"] == name]
    found = [layer["base"] for layer in rotated_layers(row) if layer["base"]]
    assert not any(abs(base / w - 1) < 2e-3 for base in found for w in bases(name))


@pytest.mark.parametrize("name, base", [("llama", 5e5), ("gemma3_text", 3e5)])
def test_another_base_would_be_seen(name, base, monkeypatch):
    monkeypatch.setitem(OTHER_BASE, name, base)
    (row,) = [row for row in ANSWERED if row["family"] == name]
    with pytest.raises(AssertionError):
        test_bases_agree_with_those_of_the_code(row)


def several_bases(row):
    """Return whether a family has geometric series of several bases."""
    return len({layer["base"] for layer in rotated_layers(row)} - {None}) > 1


@pytest.mark.parametrize("folder", sorted({*EACH["default"]} - {"dots3_note"}))
def test_families_said_to_have_a_base_for_each_type_of_layer_do(folder):
    """All but dots3_note, whose larger one is YaRN's and leaves no series."""
    assert any(several_bases(row) for row in ANSWERED if row["folder"] == folder)


@pytest.mark.parametrize("folder", EACH["configured"] + ONE["default"])
def test_families_said_to_have_one_base_by_default_do(folder):
    assert not any(several_bases(row) for row in ANSWERED if row["folder"] == folder)


def test_no_whole_model_of_several_bases_is_forgotten():
    whole = folders(r for r in ANSWERED if several_bases(r) and not r["alone"])
    assert whole <= {*EACH["default"], "lfm3_vl"}


def test_the_families_that_mix_layers_with_and_without_rotation_are_all_known():
    """MiniMax's layers of linear attention are measured, too, and are none of these."""

    def mixes(row):
        turned = [bool(layer["turned"]) for layer in row["layers"]]
        return any(turned) and not all(turned) and not row["alone"]

    assert folders(filter(mixes, ANSWERED)) - {"minimax"} == MIXED


def test_versions_of_the_lists_and_of_the_census_are_the_same():
    layers = tomllib.loads((DATA.parent / "layers.toml").read_text("utf-8"))
    assert layers["version"] == CENSUS["made"]["transformers"]
