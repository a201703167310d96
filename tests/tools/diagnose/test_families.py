"""Unmodified models of transformers have no fault; a command measured them."""

import json

from support import ROOT

DATA = ROOT / "book/data/diagnose-families.json"
WRONG = {
    "git": ["padded cache"],
    "paligemma": ["padding", "cache"],
    **{family: ["padding"] for family in ("convbert", "nystromformer", "yoso")},
}
"""Faults of the families' own code.

Without an image GIT puts columns for one before the mask if there is a cache. Without
``token_type_ids`` PaliGemma's tokens attend to later ones, unless there is padding.
YOSO turns a mask of 0 into 1. The convolutions of ConvBERT and Nyströmformer see
padding.
"""


def test_no_right_model_is_blamed():
    rows = json.loads(DATA.read_text("utf-8"))["families"]
    measured = [row for row in rows if row["status"] == "measured"]
    assert len(measured) > 100
    for row in measured:
        names = [fault.split("(")[1].split(")")[0] for fault in row["faults"]]
        assert names == WRONG.get(row["family"], []), row
    known = {row["family"] for row in measured}
    assert {"bart", "t5", "roberta", "bloom", "gpt2", "opt", "mpt", "llama"} <= known
