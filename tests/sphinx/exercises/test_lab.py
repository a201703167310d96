"""Learners' copies of notebooks are made once and never overwritten."""

from posedu_sphinx.exercises.lab import EXERCISES, copy_exercises


def test_every_exercise_notebook_is_copied_and_an_answer_stays(tmp_path):
    answers = tmp_path / "answers"
    names = {path.name for path in EXERCISES.glob("*.ipynb")}
    assert {path.name for path in copy_exercises(answers=answers)} == names
    mine = answers / "rope.ipynb"
    mine.write_text("my answer", encoding="utf-8")
    (answers / "fox.ipynb").unlink()
    assert [path.name for path in copy_exercises(answers=answers)] == ["fox.ipynb"]
    assert mine.read_text(encoding="utf-8") == "my answer"
