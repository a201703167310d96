"""The explorable of digits shows the reference implementations' ids."""

from posedu.book.explorables import digits
from support.explorables import FRAGMENTS, read, set_slider


def check(page, start, power):
    """Every id, mark and number, for the sliders' values."""
    shown = read(page)
    assert shown["inputs"] == [start, power]
    rows = zip(
        ("coupling", "abacus"),
        (digits.COUPLED, digits.COUNTED),
        digits.ids(start),
        strict=True,
    )
    marked = []
    for name, text, places in rows:
        written = page.locator(f"g.{name} text").all_text_contents()
        assert written == [f"{t:.0f}" for t in places]
        marked += [int(j == power) for j in digits.significances(text) if j >= 0]
    visible = page.locator(".marks rect").evaluate_all(
        "all => all.map((r) => Number(r.getAttribute('visibility') === 'visible'))"
    )
    assert visible == marked
    expected = digits.described(start, power)
    for name, text in expected.items():
        assert shown["outputs"][name].strip() == text
    assert shown["outputs"]["power"] == digits.NAMES[power]
    assert shown["summary"] == digits.summary_text(start, power)


def test_the_ids_are_the_references_for_every_slider(open_page):
    page = open_page(FRAGMENTS["digits"])
    values = [digits.START, digits.POWER]
    check(page, *values)
    for n, name, value in ((0, "start", 20), (1, "power", 3), (1, "power", 2)):
        set_slider(page, name, value)
        values[n] = value
        check(page, *values)


def test_digits_of_a_significance_share_one_id_in_both_texts():
    for start in (1, 7, digits.MOST):
        for power in range(digits.POWERS):
            expected = digits.described(start, power)
            assert expected["coupled"].isdigit() and expected["counted"].isdigit()
