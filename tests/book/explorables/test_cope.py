"""CoPE's explorable: positions as counts of open gates."""

import numpy as np

from posedu.book.explorables import cope
from posedu.numpy.gated.cope import contextual_positions, interpolated_scalars
from support.explorables import FRAGMENTS, close, numbers, read, set_slider


def check_counts(shown, on, opened):
    with np.errstate(divide="ignore"):
        logit = np.clip(np.log(opened) - np.log1p(-opened), -40, 40)
    logits = np.tile(np.where(on, logit, -40.0), (7, 1))
    p = contextual_positions(logits, largest=4)[-1]
    u = interpolated_scalars(p[None], np.array([cope.READS]))[0]
    close([numbers(d)[2] for d in shown["bars"]], p, 3, 1e-12)
    close([float(text) for text in shown["heights"]], p, 2, 1e-9)
    close(numbers(shown["paths"]["dots"])[:-1:3], u, 3, 1e-12)
    close(numbers(shown["paths"]["dots"])[1::3], p, 3, 1e-12)
    close(numbers(shown["summary"])[0], p[0], 2, 1e-9)


def test_gates_count_what_the_reference_counts(open_page):
    page = open_page(FRAGMENTS["cope"])
    on = np.array([word == "." for word in cope.WORDS])
    check_counts(read(page), on, 1.0)
    for j in (2, 6, 0):  # all four counted, then a fifth: the clamp
        page.locator(f'button[name="gate{j}"]').press("Space")
        on[j] = ~on[j]
        check_counts(read(page), on, 1.0)
    assert on.sum() == 5 and read(page)["heights"][0] == "4"
    page.locator('button[name="gate1"]').press("Space")
    on[1] = ~on[1]
    for opened in (0.35, 0.5, 0.05, 0.0):
        set_slider(page, "open", opened)
        check_counts(read(page), on, opened)
