"""The tables of symbols and of other sources' terms."""

import pytest
import yaml

from posedu_sphinx import ROOT
from posedu_sphinx.reference.notation import FILE, markdown_table


@pytest.mark.parametrize(
    ("part", "first"), [("symbols", "symbol"), ("translation", "source")]
)
def test_each_list_has_rows_of_one_kind(part, first):
    rows = yaml.safe_load((ROOT / FILE).read_text(encoding="utf-8"))[part]
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert next(iter(rows[0])) == first


def test_a_bar_that_would_end_a_cell_is_refused():
    with pytest.raises(ValueError, match=r"must not have \|"):
        markdown_table(["Symbol"], [[r"$|c\,t|$"]])
