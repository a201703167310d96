"""Figures have a caption, an alternative text and the page's text color."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from posedu.book import figures
from support import ROOT

TEXTS = {"caption": "The claim: a < b.", "alt": 'What is "seen".'}

LABELS = {"x_label": "position", "y_label": "value", **TEXTS}


def drawn():
    x = np.arange(5)
    labels = {"x_label": "position", "y_label": "value"}
    yield figures.curves(x, {"one": x**2.0}, **labels, **TEXTS)
    yield figures.curves(x, {"one": x * 1.0, "two": -x * 1.0}, **labels, **TEXTS)
    yield figures.image(np.eye(4) - 0.5, **labels, **TEXTS)
    yield figures.image(np.zeros((2, 2)), **labels, **TEXTS)
    yield figures.image(np.where(np.eye(3), np.nan, 1.0), **labels, **TEXTS)
    maps = {"a": [np.eye(3), -np.eye(3)], "b": [np.zeros((2, 3))] * 2}
    yield figures.around_a_query(maps, ["here", "there"], **TEXTS)
    yield figures.angle_dials(np.ones((2, 3)), ["i = 0", "i = 1"], **TEXTS)


@pytest.mark.parametrize("figure", list(drawn()))
def test_a_figure_is_accessible_and_theme_free(figure):
    svg = ET.fromstring(figure.svg)
    assert svg.attrib["role"] == "img"
    assert svg.attrib["aria-label"] == TEXTS["alt"]
    assert "width" not in svg.attrib
    assert "viewBox" in svg.attrib
    assert "currentColor" in figure.svg
    assert not re.search(r"#000000|#010203|url\(http|<metadata|<style", figure.svg)
    assert 'stroke-linejoin="round" stroke-linecap="butt"' in figure.svg
    html = figure._repr_html_()
    assert "<figcaption>The claim: a &lt; b.</figcaption>" in html


def test_what_is_masked_is_hatched_in_the_page_s_ink():
    """A stroke in each such cell; no color of the scale means that."""
    _, ((axes,),) = figures.canvas()
    limits = (-0.5, 2.5), (1.5, -0.5)
    table = np.array([[0.0, np.nan, np.nan], [1.0, 0.5, np.nan]])
    picture = figures.heat_map(axes, table, cmap="Blues", vmin=0, vmax=1)
    (hatching,) = axes.lines
    starts, ends, gaps = np.reshape(hatching.get_xydata(), (-1, 3, 2)).swapaxes(0, 1)
    assert ((starts + ends) / 2).tolist() == [[1, 0], [2, 0], [2, 1]]
    assert np.isnan(gaps).all()
    assert (axes.get_xlim(), axes.get_ylim()) == limits
    assert hatching.get_color() == figures._INK
    assert picture.cmap(np.ma.masked_invalid(table))[0, 1, 3] == 0  # transparent


def test_maps_around_a_query_share_the_scale_of_their_column(monkeypatch):
    """White is 0 in each, and the dot is on the middle cell."""
    drawn = {}
    finish = figures.finish

    def spy(figure, **texts):
        drawn["f"] = figure
        return finish(figure, **texts)

    monkeypatch.setattr(figures, "finish", spy)
    maps = {"a": [np.eye(3), -4 * np.eye(3)], "b": [np.ones((3, 5)), np.zeros((3, 5))]}
    figures.around_a_query(maps, ["here", "there"], **TEXTS)
    pictures = [axes.images[0] for axes in drawn["f"].axes]
    limits = [picture.get_clim() for picture in pictures]
    assert limits == [(-4, 4), (-1, 1), (-4, 4), (-1, 1)]
    assert [*pictures[1].get_extent()] == [-2.5, 2.5, 1.5, -1.5]
    for axes in drawn["f"].axes:
        assert axes.lines[-1].get_xydata().tolist() == [[0, 0]]


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


@pytest.mark.parametrize("words", ["short", "a name as long as a line of a text"])
def test_a_legend_ends_inside_the_figure(monkeypatch, words):
    found, finish = [], figures.finish

    def keep(figure, **texts):
        found.extend(figure.legends)
        return finish(figure, **texts)

    monkeypatch.setattr(figures, "finish", keep)
    lines = {f"{words} {n}": np.zeros(2) for n in range(4)}
    figures.curves(np.arange(2.0), lines, x_label="x", y_label="y", **TEXTS)
    figures.angle_dials(np.zeros((3, 4)), ["here"] * 3, **TEXTS)
    assert len(found) == 2
    for legend in found:
        box, frame = legend.get_window_extent(), legend.get_figure().bbox
        assert box.width <= frame.width


def test_legend_only_for_several_curves():
    one, two, *_ = drawn()
    assert "legend_1" not in one.svg
    assert "legend_1" in two.svg


def luminance(color):
    c = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_every_series_is_legible_in_both_themes():
    """WCAG asks for 3 : 1; the pale blue and orange of Okabe and Ito have 2.3."""
    css = Path("book/_static/chapter.css")
    dark = re.findall(r"--posedu-\d: (#\w{6});", (ROOT / css).read_text("utf-8"))
    assert len(dark) == len(figures.COLORS)
    for paper, series in (
        ("#ffffff", figures.COLORS),
        ("#f3f4f5", figures.COLORS),
        ("#14181e", figures.COLORS),  # in a notebook, which sets no variables
        ("#14181e", dark),
        ("#222832", dark),
    ):
        assert min(contrast(color, paper) for color in series) >= 3, paper
    assert contrast("#56b4e9", "#ffffff") < 3


def test_series_take_the_page_s_colors():
    _, two, *_ = drawn()
    for n in (0, 1):
        assert f"var(--posedu-{n}, {figures.COLORS[n]})" in two.svg


def test_a_table_says_what_it_shows():
    shown = figures.table(
        {"way": ["<eager>", "sdpa"], "ms": [1.26, 10]},
        caption="Eager is first.",
        formats={"ms": ".1f"},
    )
    assert [*shown.rows()] == [("way", "ms"), ("<eager>", "1.3"), ("sdpa", "10.0")]
    assert "&lt;eager&gt;" in shown._repr_html_() and "Eager is first." in str(shown)


def test_words_in_a_table_may_be_broken_and_numbers_may_not():
    names = {"of": ["gptj, gpt_oss"], "bits": ["2.21 ± 0.07"]}
    table = figures.table(names, caption="Two.", words=("of",))
    shown = table._repr_html_()
    assert '<td class="posedu-words">gptj, gpt_<wbr>oss</td>' in shown
    assert "<td>2.21 ± 0.07</td>" in shown and "gptj, gpt_oss" in str(table)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"a": [1]}, {"caption": " "}, "caption"),
        ({}, {"caption": "None."}, "columns"),
        ({"a": [1], "b": []}, {"caption": "Two."}, "'b': 0"),
        ({"a": [1]}, {"caption": "One.", "formats": {"b": ""}}, r"\['b'\]"),
        ({"a": [1]}, {"caption": "One.", "words": ("b",)}, r"words name \['b'\]"),
    ],
)
def test_a_table_without_words_or_of_unequal_columns_is_refused(columns, options, said):
    with pytest.raises(ValueError, match=said):
        figures.table(columns, **options)


@pytest.mark.parametrize("alt", [r"the angle \alpha", r"\1 and \g<0>", "\\"])
def test_a_backslash_in_the_alternative_text_is_read_out_as_it_is(alt):
    figure, _ = figures.canvas()
    svg = ET.fromstring(figures.finish(figure, caption="c", alt=alt).svg)
    assert svg.attrib["aria-label"] == alt


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: figures.image(np.zeros((0, 3)), **LABELS), "table must be an array"),
        (lambda: figures.image(np.zeros(3), **LABELS), "table must be an array"),
        (lambda: figures.angle_dials(np.ones((2, 3)), ["one"], **TEXTS), "titles must"),
        (
            lambda: figures.curves(np.arange(3), {"a": np.ones(4)}, **LABELS),
            r"lines\['a'\] must have a number for each of the 3 in x",
        ),
        (
            lambda: figures.curves(np.arange(3), {}, x_scale="loglog", **LABELS),
            "x_scale must be",
        ),
        (lambda: figures.canvas(0), "rows must be a positive"),
        (
            lambda: figures.around_a_query({"a": []}, ["here"], **TEXTS),
            r"columns\['a'\] must have 1 maps",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_its_name(call, message, unchecked):
    with pytest.raises(ValueError, match=message):
        call()
