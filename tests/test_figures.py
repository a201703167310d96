"""Figures carry a caption, an alternative text and the page's own ink."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from posedu import figures

TEXTS = {"caption": "The claim: a < b.", "alt": 'What is "seen".'}


def drawn():
    x = np.arange(5)
    labels = {"x_label": "position", "y_label": "value"}
    yield figures.curves(x, {"one": x**2.0}, **labels, **TEXTS)
    yield figures.curves(x, {"one": x * 1.0, "two": -x * 1.0}, **labels, **TEXTS)
    yield figures.image(np.eye(4) - 0.5, **labels, **TEXTS)
    yield figures.image(np.zeros((2, 2)), **labels, **TEXTS)
    yield figures.hands(np.ones((2, 3)), ["i = 0", "i = 1"], **TEXTS)


@pytest.mark.parametrize("figure", list(drawn()))
def test_a_figure_is_accessible_and_theme_free(figure):
    svg = ET.fromstring(figure.svg)
    assert svg.attrib["role"] == "img"
    assert svg.attrib["aria-label"] == TEXTS["alt"]
    assert "width" not in svg.attrib
    assert "viewBox" in svg.attrib
    assert "currentColor" in figure.svg
    assert not re.search(r"#000000|#010203|url\(http|<metadata", figure.svg)
    html = figure._repr_html_()
    assert "<figcaption>The claim: a &lt; b.</figcaption>" in html


@pytest.mark.parametrize("missing", ["caption", "alt"])
def test_a_figure_without_words_is_refused(missing):
    figure, _ = figures.canvas()
    with pytest.raises(ValueError, match="a caption and an alternative text"):
        figures.finish(figure, **{**TEXTS, missing: " "})


def test_what_is_drawn_on_a_bare_canvas_takes_the_page_s_ink():
    figure, ((axes,),) = figures.canvas()
    axes.plot([0, 1], [0, 1], label="a line")
    axes.legend()
    axes.text(0.5, 0.5, "words")
    svg = figures.finish(figure, **TEXTS).svg
    assert not re.search(r"#000000|fill: #ffffff|#cccccc", svg)


def test_legend_only_for_several_curves():
    one, two, *_ = drawn()
    assert "legend_1" not in one.svg
    assert "legend_1" in two.svg
