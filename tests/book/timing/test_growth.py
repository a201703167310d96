"""Growth of time and memory, as a table and a picture."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from posedu.book.timing import (
    Growth,
    Spread,
    kept_memory,
    products_of_attention,
    time_growth,
    time_routes,
)
from posedu.torch import Attention

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


def test_the_figure_has_a_line_for_each_call():
    drawn = exact().figure(caption="Both rise.", alt="Four lines.")
    assert (
        "Both rise." in drawn._repr_html_() and drawn.svg.count("<!-- square -->") == 1
    )


def test_memory_within_a_decade_has_labels():
    growth = replace(
        exact(), peaks=dict.fromkeys(("row", "square"), np.array([2e6, 3e6, 4e6]))
    )
    drawn = growth.figure(caption="Both rise.", alt="Two lines.").svg
    *_, memory = drawn.split("milliseconds", 1)
    assert all(rf"{n}\times10^{{0}}" in memory for n in (2, 3, 4))


def test_memory_is_measured_at_every_length():
    growth = time_growth(made, LENGTHS, limit="row", repeats=1)
    assert growth.peaks["square"].tolist() == [4 * n**2 for n in LENGTHS]
    assert growth.seconds["row"].shape == (3, 1, 2)


def test_a_call_that_allocates_nothing_has_no_power():
    growth = exact()
    nothing = replace(growth, peaks={**growth.peaks, "row": np.zeros(3)})
    assert math.isnan(nothing.exponent("row", "memory"))
    _, row, square = nothing.rows()
    assert row[-2:] == ("L^1.00", "—") and square[-1] == "L^2.00"
    drawn = nothing.figure(caption="One holds.", alt="Three lines.").svg
    assert drawn.count("<!-- row -->") == 1


def multiplications(run):
    """Multiplications and additions of the matrix products in a call."""
    with FlopCounterMode(display=False) as counted:
        run()
    return counted.get_total_flops()


@pytest.mark.parametrize("tokens", [3, 40])
def test_the_products_alone_are_those_of_the_routes(tokens):
    x = torch.randn(1, tokens, 16, requires_grad=True)
    layer = Attention(16, 4, route="eager")
    alone = multiplications(products_of_attention(x, 4))
    assert alone == multiplications(lambda: layer(x)) > 0
    assert multiplications(lambda: layer(x).sum().backward()) == 3 * alone
    assert multiplications(products_of_attention(x, 4, times=3)) == 3 * alone


@pytest.mark.parametrize("backward", [False, True])
def test_the_routes_memory_is_that_of_their_weights(backward):
    sizes = {"heads": 2, "d": 4, "backward": backward, "repeats": 1}
    growth = time_routes(("sdpa", "eager"), (64, 512), **sizes)
    assert [*growth.seconds] == ["products alone", "sdpa", "eager", "copy"]
    assert growth.limit == "products alone"
    assert growth.peak("eager", 512) >= 2 * 512**2 * 4 > growth.peak("sdpa", 512)
    assert growth.peak("copy", 512) == growth.peak("products alone", 512) == 0


def test_the_limit_is_once_as_long_as_itself():
    """Its caches are warmer than those of its neighbor, which follows another way."""
    growth = replace(exact(), limit="square")
    assert growth.ratio("square", 400) == Spread(1, 1, 1)


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
