"""How time and memory grow, as a table and a picture."""

import numpy as np
import pytest
import torch

from posedu.timing import Growth, kept_memory, time_growth

LENGTHS = (100, 200, 400)


def made(length):
    x = torch.randn(length)
    return {"row": lambda: x + 1, "square": lambda: x[:, None] * x}


def exact():
    """Ten milliseconds at first, and then like L and like L²."""
    lengths = np.array(LENGTHS)
    limit = np.broadcast_to((lengths / 1e4)[:, None], (3, 2))
    seconds = {
        "row": np.stack([limit, limit], -1),
        "square": np.stack([limit**2 * 100, limit], -1),
    }
    return Growth(
        "row", "cpu", LENGTHS, seconds, {"row": lengths, "square": lengths**2}
    )


def test_exponents_are_those_of_the_powers():
    growth = exact()
    for of in ("time", "memory"):
        assert growth.exponent("row", of) == pytest.approx(1)
        assert growth.exponent("square", of) == pytest.approx(2)
    assert growth.ratio("square", 400).median == pytest.approx(4)
    assert growth.peak("square", 200) == 40_000
    with pytest.raises(ValueError, match=r"time.*memory"):
        growth.exponent("row", "money")


def test_shown_at_the_longest_length():
    head, row, square = exact().rows()
    assert head[2] == "time / row"
    assert row == ("row", "40", "1.00 [1.00–1.00]", "0.0", "L^1.00", "L^1.00")
    assert square == ("square", "160", "4.00 [4.00–4.00]", "0.2", "L^2.00", "L^2.00")
    assert "L = 400" in exact().caption() and "100 to 400" in exact().caption()


def test_drawn_with_a_line_for_each_way():
    drawn = exact().figure(caption="Both rise.", alt="Four lines.")
    assert (
        "Both rise." in drawn._repr_html_() and drawn.svg.count("<!-- square -->") == 1
    )


def test_memory_is_measured_at_every_length():
    growth = time_growth(made, LENGTHS, limit="row", repeats=1)
    assert growth.peaks["square"].tolist() == [4 * n**2 for n in LENGTHS]
    assert growth.seconds["row"].shape == (3, 1, 2)


def test_refused():
    with pytest.raises(ValueError, match="two lengths"):
        time_growth(made, [8], limit="row")
    with pytest.raises(ValueError, match="limit must be 'row' or 'square'"):
        time_growth(made, LENGTHS, limit="copy")


def test_what_is_kept_for_the_backward_is_counted_once():
    x = torch.randn(8, requires_grad=True)
    assert kept_memory(lambda: x + 1) == 0
    assert kept_memory(lambda: x * x) == 32
    assert kept_memory(lambda: (x * x).exp().sum()) == 64
    assert kept_memory(lambda: x.detach() * 2) == 0
