"""Exercises on a page: with their solutions or, by an option, without."""

from posedu_sphinx.exercises import exercise_list


def on_page(with_solution):
    source = exercise_list.Source("rope")
    exercise, given, name = next(source.exercises())
    code = source.signature(name), [], given, source.code(name)
    return exercise, exercise_list.markdown(exercise, *code, with_solution)


def test_solutions_can_be_left_out():
    exercise, text = on_page(with_solution=True)
    assert exercise.explanation.strip() in text and "{solution}" in text
    exercise, text = on_page(with_solution=False)
    assert exercise.statement.strip() in text and exercise.hint.strip() in text
    assert exercise.explanation.strip() not in text and "{solution}" not in text
    assert f"def {exercise.solution.__name__}" not in text
