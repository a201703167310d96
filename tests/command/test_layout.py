"""Tables and sentences in lines of a terminal's width, of which no text is lost."""

import gzip
import json
import re
import sys
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posedu._result_table import Table
from posedu.command import main
from posedu.command.layout import table_lines, wrapped
from posedu.tools import ConfigError, read_rope
from posedu.tools.configs.differences import differences
from support import ROOT

STORED = json.loads(
    gzip.decompress((ROOT / "tests/oracles/rope-families.json.gz").read_bytes())
)
SHIPPED = json.loads((ROOT / "book/data/as-shipped.json").read_text("utf-8"))
CONFIGS = [case["config"] for case in STORED["cases"]] + [
    each["config"] for each in SHIPPED["models"]
]


class Rows(Table):
    """A table of given rows."""

    def __init__(self, rows):
        self._rows = rows

    def rows(self):
        """Yield the given rows."""
        return iter(self._rows)


def words(texts):
    """The words of texts and how often they are there; parts of a path are words."""
    return Counter(
        word for text in texts for word in re.findall(r"[^\s/]*/|[^\s/]+", text)
    )


def require_fitting(table, width):
    """Require that lines are narrow enough, and that every word of a cell is there."""
    lines = table_lines(table, width)
    assert max(map(len, lines)) <= width, "\n".join(lines)
    lost = words(cell for row in table.rows() for cell in row) - words(lines)
    assert not lost, "\n".join(lines)


@pytest.fixture(scope="module")
def readings():
    """The readings of all stored configurations that can be read."""
    found = []
    for config in CONFIGS:
        try:
            reading = read_rope(config)
            list(reading.rows())
        except ConfigError:
            continue
        found.append(reading)
    assert len(found) > 200
    return found


@pytest.mark.parametrize("width", [80, 120])
def test_tables_of_configurations_fit_and_lose_nothing(width, readings):
    for reading in readings:
        require_fitting(reading, width)


@pytest.mark.parametrize("width", [80, 120])
def test_differences_fit_and_lose_nothing(width, readings):
    found = (differences(a, b) for a, b in combinations(readings[::12], 2))
    several = [each for each in found if len(each.found) > 1]
    assert len(several) > 50
    for each in several:
        require_fitting(each, width)


def test_every_layout_is_one_of_some_configuration(readings):
    """One block, rows as columns, or parts: all three are met at 80 characters."""
    met = Counter()
    for reading in readings:
        lines = table_lines(reading, 80)
        if "" in lines:
            met["parts"] += 1
        elif lines[1].startswith("method"):
            met["rows as columns"] += 1
        else:
            met["one block"] += 1
    assert len(met) == 3, met


CELLS = st.text("ab é\x1b…", max_size=30) | st.text("word ", max_size=90)


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1, max_size=5)
    ),
    st.integers(40, 130),
)
def test_any_table_fits(rows, width):
    lines = table_lines(Rows(rows), width)
    assert all(len(line) <= width and "\x1b" not in line for line in lines)
    for letter in "abworéd…":
        shown = sum(line.count(letter) for line in lines)
        assert shown >= sum(cell.count(letter) for row in rows for cell in row)


@given(st.text("word -\n", max_size=300), st.integers(40, 100))
def test_sentences_fit_and_keep_their_words(text, width):
    lines = wrapped(text, width)
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_cell_before_empty_ones_reaches_over_them():
    long = "a sentence that is longer than its column"
    rows = [("who", "a", "b", "c"), ("x", "1", "22", "4" * 40), ("y", long, "", "")]
    first, *_, last = table_lines(Rows(rows), 80)
    assert first.startswith("who  a  b   c") and last == f"y    {long}"


UNREAD = {"head_dim": 64, "rope_theta": 1e4, "rope_scaling_factor": 32.0}


def test_a_path_is_broken_after_its_folders():
    path = "a-folder/of-some-user/with-a-model/config.json"
    shown = wrapped(path, 40)
    assert shown == ["a-folder/of-some-user/with-a-model/", "  config.json"]


def test_a_terminal_gets_lines_of_its_width(tmp_path, monkeypatch, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(UNREAD), "utf-8")
    main(["config", str(path)])
    piped = capsys.readouterr().out.splitlines()
    assert len(piped[0]) > 100 and max(map(len, piped[2:])) <= 80
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for width in (60, 110):
        monkeypatch.setenv("COLUMNS", str(width))
        main(["config", str(path)])
        shown = capsys.readouterr().out.splitlines()
        assert 0.8 * width < max(map(len, shown)) <= width
        assert not words(piped[:2]) - words(shown)
        main(["config", str(path), "--json"])
        assert json.loads(capsys.readouterr().out)["format"]
