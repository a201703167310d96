"""Sparse configurations: the reading is what the class makes of them, or warns."""

import json
from dataclasses import fields
from functools import cache

import pytest

from posedu.tools import ConfigError, read_rope
from posedu.tools.configs import families
from support import ROOT
from support.sparse_configs import order, stored, table, verdict

TABLE = json.loads((ROOT / "book/data/config-families.json").read_text("utf-8"))
WORST = {row["family"]: row["verdict"] for row in TABLE["families"]}
HAND_WRITTEN = {"alternating", "note", "refused", "requires", "trained"}
"""Properties that are in ``SPECIAL`` alone."""
OF_OTHER_FILES = {"head_share", "has_window", "no_rotation", "unrotated", "parts"}
"""Properties that change no rotation of a sparse file of a class with rotations."""


@cache
def measured():
    return stored()


def of(family):
    rows = measured()["layers"].get(family, [])
    rows = [] if isinstance(rows, str) else rows
    return [(case, rows) for case in measured()["sparse"] if case["family"] == family]


def test_the_committed_table_is_that_of_the_stored_data():
    assert table() == TABLE


def test_no_family_differs_from_its_class_in_silence():
    assert len(WORST) >= 341
    assert "silent" not in WORST.values()
    assert sum(worst == "equal" for worst in WORST.values()) >= 323


def test_both_stored_files_are_of_one_version():
    data = json.loads((ROOT / "posedu/tools/configs/families.json").read_text("utf-8"))
    assert data["made"] == measured()["made"] == TABLE["made"]


FIELDS = [
    field.name
    for field in fields(families.Family)
    if field.name not in HAND_WRITTEN | OF_OTHER_FILES
]


@pytest.mark.parametrize("field", FIELDS)
def test_each_property_of_families_is_needed(field, monkeypatch):
    """Without it the reading of some sparse file is no longer that of its class."""
    whole = families._stored()
    less = {
        name: {key: value for key, value in own.items() if key != field}
        for name, own in whole.items()
    }
    monkeypatch.setattr(families, "_stored", lambda: less)
    # Of a family itself, or of a family whose text it is.
    holders = {name for name, own in whole.items() if field in own}
    around = {name for name, own in whole.items() if own.get("text") in holders}
    assert holders
    assert any(
        order(verdict(case, rows)[0]) > order(WORST[name])
        for name in sorted({*holders, *around} & {*WORST})
        for case, rows in of(name)
    )


@pytest.mark.parametrize("name", ["partial_rotary_factors", "yarn_only_types"])
def test_a_number_in_place_of_a_list_by_layer_is_refused(name):
    config = {
        "model_type": "step3p5",
        "hidden_size": 64,
        "num_attention_heads": 2,
        "layer_types": ["full_attention", "sliding_attention"],
        "rope_theta": [1e4, 1e5],
    }
    bases = [rope.base for rope in read_rope(config).kinds.values()]
    assert bases == [1e4, 1e5]
    with pytest.raises(ConfigError, match=f"{name} must be a list, got 5"):
        read_rope(config | {name: 5})
