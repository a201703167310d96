"""Tables show their contents as text, never as markup."""

from dataclasses import replace
from pathlib import Path

import pytest

from posedu._result_table import Table, require_writable
from posedu.book.timing import Timing
from posedu.crosscheck import CrossCheck
from support import ROOT

MARKUP = "<b>x</b> & \"y\" 'z'"


class Shown(Table):
    def __init__(self, **given):
        self.given = {"caption": "c", "head": "h", "cell": "d"} | given

    def caption(self):
        return self.given["caption"]

    def rows(self):
        yield (self.given["head"],)
        yield (self.given["cell"],)


@pytest.mark.parametrize("where", ["caption", "head", "cell"])
def test_markup_is_shown_as_text(where):
    table = Shown(**{where: MARKUP})
    page = table._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;x&lt;/b&gt; &amp; " in page
    assert MARKUP in str(table)


def test_a_folded_table_is_under_its_line():
    folded = Shown(cell="inside").under(MARKUP)
    page = folded._repr_html_()
    line, _, below = page.partition("</summary>")
    assert "&lt;b&gt;x" in line and "<b>" not in page and "inside" not in line
    assert "<td>inside</td>" in below and below.endswith("</details>")
    assert str(folded).startswith(MARKUP) and "inside" in str(folded)


def test_columns_are_as_wide_as_their_widest_cell():
    assert str(Shown(cell="wide")) == "c\nh   \nwide"


@pytest.mark.parametrize("kind", [Timing, CrossCheck])
@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"records": [1], "results": [1]}'),
        '{"records": [], "results": [], "more": 1}',
        '{"records": ' + "[" * 10**5,
    ],
)
def test_a_file_of_something_else_is_refused_by_its_name(kind, text, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json is not a result of posedu"):
        kind.load(path)


def test_a_failed_save_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    def stop(self, target):
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(OSError, match="no space"):
        CrossCheck("rope", ()).save(tmp_path / "result.json")
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied", "/a/temporary/file")

    monkeypatch.setattr("posedu._result_table.TemporaryFile", refuse)
    path = tmp_path / "result.json"
    with pytest.raises(PermissionError, match="Permission denied") as refusal:
        require_writable(path)
    assert refusal.value.filename == str(path)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_saved_time_that_is_no_number_is_refused(wrong, tmp_path):
    path = tmp_path / "timing.json"
    stored = Timing.load(ROOT / "book/data/timing-rope-cpu.json")
    spread = replace(stored.records[0].ratio, median=wrong)
    stored.records[0] = replace(stored.records[0], ratio=spread)
    stored.save(path)
    with pytest.raises(ValueError, match=r"timing\.json is not .* ratio must be"):
        Timing.load(path)
