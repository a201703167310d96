"""Times of recurrences in chunks: all sizes compute the same; one file has all."""

import pytest
import torch

from posedu.book.timing import Timing, chunks
from posedu.torch.recurrent import pair_weights


@pytest.mark.parametrize("rule", chunks.RULES)
@pytest.mark.parametrize("backward", (False, True))
def test_every_size_computes_the_same(rule, backward):
    torch.manual_seed(0)
    delta, by_feature = chunks.RULES[rule]
    writes = chunks.random_writes(24, delta=delta, by_feature=by_feature)
    assert (writes.log_decay.ndim == 4, writes.delta) == (by_feature, delta)
    runs, softmax = chunks.calls(writes, (4, 7, 24), backward=backward)
    assert len(softmax()) == (3 if backward else 1)
    assert [*runs] == ["chunks of 4", "chunks of 7", "chunks of 24"]
    if backward:
        for run in runs.values():
            assert [t.shape for t in run()] == [t.shape for t in writes[:5]]
        return
    for run in runs.values():
        (out,) = run()
        torch.testing.assert_close(
            out, pair_weights(writes) @ writes.v, rtol=0, atol=1e-4
        )


def test_the_command_writes_what_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(chunks, "keep_memory", lambda: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    sizes = ["--length", "6", "--chunks", "2", "4", "--repeats", "1"]
    assert chunks.main([*sizes, "--folder", str(tmp_path)]) == 0
    stored = Timing.load(tmp_path / "chunks-cpu.json")
    assert stored.complete and len(stored.records) == 2 * 2 * len(chunks.RULES)
    assert {r.candidate for r in stored.records} == {"chunks of 2", "chunks of 4"}
    assert {r.limit for r in stored.records} == {chunks.SOFTMAX}
    assert "delta rule, forward" in capsys.readouterr().out
