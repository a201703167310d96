"""Numbers of sliders' sentences equal the reference implementation's."""

import re

import numpy as np
import pytest
from docutils import nodes

from posedu.numpy.frequencies import wavelengths
from posedu.numpy.gated import log_gates
from posedu_sphinx import ROOT
from posedu_sphinx.chapters import sliders
from posedu_sphinx.chapters.sliders import Slider, number, table

D = Slider.read("d = 64 of 8 64 1,024")
BASE = Slider.read("base = 10,000 of 100 10,000")


def test_a_number_is_computed_for_every_value_that_it_depends_on():
    of, longest = table("wavelengths(d, base=base)[-1]:,.1f", [BASE, D])
    assert of == [BASE, D]
    assert [*longest] == [(b, d) for b in BASE.values for d in D.values]
    for (base, d), shown in longest.items():
        exact = wavelengths(int(d.replace(",", "")), base=int(base.replace(",", "")))
        assert shown == f"{exact[-1]:,.1f}"
    of, pairs = table("d // 2:d", [BASE, D])
    assert of == [D] and pairs == {("8",): "4", ("64",): "32", ("1,024",): "512"}


def test_spelled_numbers():
    assert [number(s) for s in ("1,024", "0.5", "−2", "-2")] == [1024, 0.5, -2, -2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("d is 64", "name = first of values"),
        ("d = 16 of 8 64", "the first value of d must be one of 8 64, got 16"),
    ],
)
def test_a_slider_that_is_none_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        Slider.read(text)


def test_a_number_that_follows_no_slider_is_refused():
    with pytest.raises(ValueError, match="'1 / 2' depends on no slider of this"):
        table("1 / 2:.1f", [D])
    with pytest.raises(NameError, match="wavelength"):
        table("wavelength(d):.1f", [D])


def paragraph(*texts):
    parts = [nodes.inline("", "", **dict([text])) for text in texts]
    return nodes.container("", nodes.paragraph("", "", *parts))


def test_a_page_has_the_first_numbers_and_the_tables():
    doctree = paragraph(("slider", "d = 64 of 8 64"), ("computed", "d // 2:d"))
    sliders.fill(None, doctree)
    assert doctree.astext() == (
        '<span class="posedu-slider" data-name="d" data-values="8|64">64</span>'
        '<output class="posedu-computed" data-of="d" data-values="4|32">32</output>'
    )


def test_a_fault_is_a_warning_at_its_place(monkeypatch):
    said = []
    monkeypatch.setattr(
        sliders.LOGGER, "warning", lambda text, **place: said.append((text, place))
    )
    doctree = paragraph(("slider", "d = 64 of 8 64"), ("computed", "depth:d"))
    sliders.fill(None, doctree)
    ((text, place),) = said
    assert "no slider" in text and place["location"] is doctree[0]


def test_half_and_a_thousandth_are_left_where_fox_says():
    """The expressions on FoX's page, against the bias that its gates make."""
    source = (ROOT / "book/gated/fox.md").read_text(encoding="utf-8")
    (slider,) = map(Slider.read, re.findall(r"\{slider\}`([^`]+)`", source))
    gate, half, thousandth = (
        table(text, [slider])[1]
        for text in re.findall(r"\{computed\}`([^`]+)`", source)
    )
    for b in slider.values:
        log_f = log_gates(
            np.ones((1, 1)), np.zeros((1, 1)), np.array([float(b)])
        ).item()
        for left, after in ((1 / 2, half), (1 / 1000, thousandth)):
            exact = np.log(left) / log_f
            assert abs(number(after[b,]) - exact) <= 0.5
        assert gate[b,] == f"{np.exp(log_f):.4f}"
