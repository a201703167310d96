"""The explorable of word order shows the reference implementation's outputs."""

from itertools import permutations

import numpy as np
import pytest

from posedu.book.explorables.permutation_equivariance import LONGEST, WORDS
from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.numpy.attention import Projections, attention
from support.explorables import FRAGMENTS, close, numbers

ORDERS = [list(order) for order in permutations(range(3))]

READ = """(figure) => {
  const all = (s) => [...figure.querySelectorAll(s)];
  return {
    words: all(".after .word").map((word) => word.textContent),
    old: all(".before .arrow").map((arrow) => arrow.getAttribute("d")),
    now: all(".after .arrow").map((arrow) => arrow.getAttribute("d")),
    dashed: all(".after .old").map((arrow) => arrow.getAttribute("d")),
    unseen: all(".unseen").map((mark) => mark.textContent).join(""),
    moved: figure.querySelector(".moved").textContent,
    summary: figure.querySelector(".summary").textContent,
  }
}"""


def arrows(order, positions):
    """Outputs and their mean."""
    one, x = np.eye(2), np.array(list(WORDS.values()))[order]
    if positions == "with":
        x = x + sinusoidal([0, 1, 2], 2, layout="interleaved")
    y = attention(x, Projections(4 * one[None], one[None], one[None], one[:, None]))
    return np.vstack([y, y.mean(0)])


def test_without_positions_words_keep_their_outputs_and_with_them_none_does():
    plain, placed = arrows(ORDERS[0], "without"), arrows(ORDERS[0], "with")
    for order in ORDERS[1:]:
        stands = [*order, 3]
        np.testing.assert_allclose(
            arrows(order, "without"), plain[stands], rtol=0, atol=1e-14
        )
        moved = np.linalg.norm(arrows(order, "with") - placed[stands], axis=1)
        assert (moved > [0.4, 0.4, 0.4, 0.2]).all()
    every = [arrows(order, p) for order in ORDERS for p in ("with", "without")]
    assert np.linalg.norm(every, axis=-1).max() < LONGEST


def test_it_asks_first_and_then_shows_the_reference(open_page):
    page = open_page(FRAGMENTS["permutation_equivariance"])
    figure, control = page.locator("figure"), "[name={}]".format
    unseen = figure.evaluate(READ)
    assert unseen["now"] == unseen["dashed"] == [""] * 4
    assert unseen["unseen"] == "????" and unseen["moved"] == "moved by ?"
    page.locator(control("guess")).select_option("word")
    assert figure.evaluate(READ)["summary"].endswith("each word keeps its output”.")

    page.locator(control("look")).press("Space")
    for positions in ("without", "with"):
        page.locator(control("positions")).select_option(positions)
        for order in ORDERS[1:]:
            page.locator(control("order")).select_option("".join(map(str, order)))
            shown, stands = figure.evaluate(READ), [*order, 3]
            old, now = arrows(ORDERS[0], positions), arrows(order, positions)
            assert shown["words"] == [[*WORDS, "mean"][n] for n in stands]
            close([numbers(d)[2:] for d in shown["old"]], old, 3)
            close([numbers(d)[2:] for d in shown["now"]], now, 3)
            close([numbers(d)[2:] for d in shown["dashed"]], old[stands], 3)
            changes = np.linalg.norm(now - old[stands], axis=1)
            least, most, mean = changes[:3].min(), changes[:3].max(), changes[3]
            printed = [most, mean] if positions == "without" else [least, most, mean]
            # two arrows, each printed to half a thousandth in either coordinate
            close(numbers(shown["summary"]), printed, 2, 2 * 0.0005 * 2**0.5)
            assert numbers(shown["moved"]) == numbers(shown["summary"])[-1:]
            right = "was right" if positions == "without" else "was not so"
            assert shown["summary"].endswith(f"{right}.") and not shown["unseen"]


@pytest.mark.parametrize("guess", ["position", "none"])
def test_a_wrong_guess_is_reported(open_page, guess):
    page = open_page(FRAGMENTS["permutation_equivariance"])
    page.locator("[name=guess]").select_option(guess)
    page.locator("[name=look]").press("Space")
    assert page.locator(".summary").inner_text().endswith("was not so.")
    page.locator("[name=positions]").select_option("with")
    right = page.locator(".summary").inner_text().endswith("was right.")
    assert right == (guess == "none")
