"""Times of products over the path: what is timed computes the same thing."""

import pytest
import torch

from posedu.book.timing import Timing, path_products
from posedu.book.timing.path_products import drawn, forms, wide
from posedu.book.timing.published import error


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(path_products, "D", 4)


@torch.no_grad()
@pytest.mark.parametrize("encoding", ("PaTH", "Wall", "Selective RoPE"))
def test_every_form_of_an_encoding_has_its_outputs(encoding):
    torch.manual_seed(0)
    heads = drawn(70)
    fast, *others = forms(70, wide(heads))[encoding].values()
    for run in others:
        assert error(run(), fast()) < 1e-6  # fla-core's is in float32
    for name, run in forms(70, heads)[encoding].items():
        assert error(run(), fast()) < 1e-5, name


MISTAKES = {
    "PaTH": lambda heads: heads._replace(w=heads.w.roll(1, 2)),
    "Wall": lambda heads: heads._replace(sums=heads.sums.roll(1, 2)),
    "Selective RoPE": lambda heads: heads._replace(angles=-heads.angles),
}


@torch.no_grad()
@pytest.mark.parametrize("encoding", MISTAKES)
def test_each_form_sees_a_late_token_or_turns_the_other_way(encoding):
    torch.manual_seed(0)
    heads = wide(drawn(70))
    exact = next(iter(forms(70, heads)[encoding].values()))()
    for name, run in forms(70, MISTAKES[encoding](heads))[encoding].items():
        assert error(run(), exact) > 1e-2, name


def test_pairs_of_features_are_for_short_texts(monkeypatch):
    monkeypatch.setattr(path_products, "MOST_PAIRS", 8)
    assert "all pairs" in forms(8, drawn(8))["Wall"]
    assert "all pairs" not in forms(9, drawn(9))["Wall"]


def test_the_result_is_saved_and_read(tmp_path):
    path = tmp_path / "times.json"
    result = path_products.time_path_products({8: 1}, save_to=path)
    assert result.complete and Timing.load(path).records == result.records
    assert {record.task for record in result.records} == {*MISTAKES}
    assert all(r.peak_bytes > 0 for r in result.records)


def test_the_command_refuses_other_lengths(capsys):
    with pytest.raises(SystemExit):
        path_products.main(["--lengths", "7"])
    assert "invalid choice: 7" in capsys.readouterr().err
