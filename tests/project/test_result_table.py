"""Tables show their contents as text, never as markup."""

import pytest

from posedu._result_table import Table
from posedu.book.timing import Timing
from posedu.crosscheck import CrossCheck

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
