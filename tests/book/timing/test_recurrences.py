"""Times of the recurrences: what is timed computes the same thing."""

import pytest
import torch

from posedu.book.timing import Timing, recurrences
from posedu.book.timing.published import error
from posedu.book.timing.recurrences import RULES, drawn, forms, loop, steps, wide
from posedu.torch.recurrent import by_chunks


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(recurrences, "D", 4)
    monkeypatch.setattr(recurrences, "MOST_PAIRS", 80)


@pytest.mark.parametrize("rule", RULES)
def test_every_form_of_a_rule_has_its_outputs(rule):
    writes = drawn(rule, 70)
    exact = loop(wide(writes))
    torch.testing.assert_close(by_chunks(wide(writes))[0], exact, rtol=0, atol=1e-13)
    for name, run in forms(rule, writes).items():
        assert error(run(), exact) < 1e-6, name
    late = wide(writes)._replace(log_decay=wide(writes).log_decay.roll(1, 2))
    assert error(loop(late), exact) > 1e-4


def test_long_texts_have_no_pairs_and_the_longest_no_loop(monkeypatch):
    writes = drawn("one gate", 90)
    assert {*forms("one gate", writes)} == {"chunks", "loop"}
    monkeypatch.setattr(recurrences, "LONGEST_LOOP", 80)
    assert {*forms("one gate", writes)} == {"chunks"}


@torch.no_grad()
def test_a_decoding_step_leaves_its_cache():
    for name, step in steps(9).items():
        assert torch.equal(step(), step()), name


def test_the_result_is_saved_and_read(tmp_path):
    path = tmp_path / "recurrences.json"
    result = recurrences.time_recurrences({8: 1}, save_to=path)
    assert result.complete and Timing.load(path).records == result.records
    tasks = {record.task for record in result.records}
    assert tasks == {*RULES, "decode a token"}
    assert all(r.limit == "softmax attention" for r in result.records)


def test_the_command_refuses_other_lengths(capsys):
    with pytest.raises(SystemExit):
        recurrences.main(["--lengths", "7"])
    assert "invalid choice: 7" in capsys.readouterr().err
