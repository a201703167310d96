"""The skeleton of an encoding has all its files; an existing name is refused."""

import ast

import pytest

from posedu_sphinx.new import main, write


def test_every_room_gets_its_file_and_none_is_overwritten(tmp_path):
    written = write("carope-two", "rotary", tmp_path)
    assert "posedu/numpy/rotary/carope_two.py" in written
    assert "tests/encodings/rotary/test_carope_two.py" in written
    for path in written:
        text = (tmp_path / path).read_text(encoding="utf-8")
        assert "$" not in text or path.endswith(".js"), path
        if path.endswith(".py"):
            ast.parse(text)
    kept = tmp_path / "book/rotary/carope-two.md"
    kept.write_text("mine", encoding="utf-8")
    (tmp_path / "posedu/sympy/rotary/carope_two.py").unlink()
    again = write("carope-two", "rotary", tmp_path)
    assert again == ["posedu/sympy/rotary/carope_two.py"]
    assert kept.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rope", "rotary"], "already has an encoding 'rope'"),
        (["New", "rotary"], "joined by -, such as 'fope-offset', got 'New'"),
        (["new", "circles"], "family must be one of"),
    ],
)
def test_what_cannot_be_is_refused(arguments, words, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert words in capsys.readouterr().err
