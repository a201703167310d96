"""Figures and tables of the book, in one visual style.

Functions that draw a whole figure return a :class:`Figure`. As the last expression of
a notebook cell, a figure displays an inline SVG in the page's text color, so that one
figure serves the light and the dark theme. A caption, which states what the figure
shows, and an alternative text, which describes the figure, are required.
"""

import html
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import matplotlib as mpl
import numpy as np
from jaxtyping import Float, Num
from matplotlib.figure import Figure as Canvas

from posedu._argument_types import check_types
from posedu._arguments import require_choice, require_dimension
from posedu._result_table import Table

Array = np.ndarray

# These are Okabe and Ito's colors without black and yellow, which are distinct for
# every kind of color vision. The last three are darkened, so that all are legible on
# white and on near-black. In dark mode the book's pages define --posedu-0 …
# --posedu-5 as brighter colors.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#c0639b", "#2b93d1", "#b97a00")
INKS = tuple(f"var(--posedu-{n}, {color})" for n, color in enumerate(COLORS))
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
DIVERGING = "RdBu_r"
NO_FORMATS: Mapping[str, str] = MappingProxyType({})
DIALS_IN_A_ROW = 3  # as many as stay legible on a phone

_INK = "#010203"  # stands for the page's text color while matplotlib draws
# Matplotlib writes these as a rule for all elements of a page, which took the round
# ends of lines away from explorables.
_LINES = 'stroke-linejoin="round" stroke-linecap="butt"'
_STYLE = {
    "axes.edgecolor": _INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.prop_cycle": mpl.cycler(color=COLORS, linestyle=DASHES),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": _INK,
    "figure.facecolor": "none",
    "figure.figsize": (5.6, 3.2),
    "figure.constrained_layout.use": True,
    "font.size": 11.5,
    "grid.alpha": 0.2,
    "grid.color": _INK,
    "legend.frameon": False,
    "legend.labelcolor": _INK,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "posedu",
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


@check_types
@dataclass(frozen=True)
class Figure:
    """SVG of a drawn figure, with its caption and alternative text."""

    svg: str
    caption: str
    alt: str

    def _repr_html_(self) -> str:
        return (
            '<figure class="posedu-figure">'
            f"{self.svg}<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )


@check_types
def canvas(rows: int = 1, columns: int = 1, **options) -> tuple[Canvas, Array]:
    """Return an empty figure in the book's style, and its axes ``[rows, columns]``.

    :func:`finish` completes the figure. ``options`` go to matplotlib's ``subplots``,
    except for ``figsize``, the figure's width and height in inches.
    """
    require_dimension("rows", rows, 1)
    require_dimension("columns", columns, 1)
    with mpl.rc_context(_STYLE):
        figure = Canvas(figsize=options.pop("figsize", None))
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


@check_types
def finish(figure: Canvas, *, caption: str, alt: str) -> Figure:
    """Convert a drawn matplotlib figure into a :class:`Figure`.

    Raises
    ------
    ValueError
        Without a caption or an alternative text.
    """
    if not caption.strip() or not alt.strip():
        raise ValueError("a figure needs a caption and an alternative text")
    _ink(figure)
    buffer = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    for color, ink in zip(COLORS, INKS, strict=True):
        svg = svg.replace(color, ink)
    label = html.escape(alt, quote=True)
    svg = re.sub(
        r'<svg (.*?)width="[\d.]+pt" height="[\d.]+pt"',
        lambda found: f'<svg role="img" aria-label="{label}" {_LINES} {found[1]}',
        svg,
        count=1,
        flags=re.S,
    )
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.S)
    return Figure(svg, caption, alt)


def _ink(figure: Canvas) -> None:
    """Remove the frames of a figure's legends; give black text the page's color."""
    for legend in figure.findobj(mpl.legend.Legend):
        legend.set_frame_on(False)
    for words in figure.findobj(mpl.text.Text):
        if mpl.colors.same_color(words.get_color(), "black"):
            words.set_color(_INK)


@dataclass(frozen=True)
class _Columns(Table):
    """Table of named columns of text, shown as HTML in a notebook.

    ``text`` is the table's caption, ``columns`` maps a column's name to its cells.
    ``wrapped`` are the names of the columns whose cells may break into lines.
    """

    text: str
    columns: Mapping[str, Sequence[str]]
    wrapped: frozenset[str] = frozenset()

    def words(self) -> frozenset[str]:
        return self.wrapped

    def caption(self) -> str:
        return self.text

    def rows(self) -> Iterator[tuple[str, ...]]:
        yield tuple(self.columns)
        yield from zip(*self.columns.values(), strict=True)


@check_types
def table(
    columns: Mapping[str, Sequence[object]],
    *,
    caption: str,
    formats: Mapping[str, str] = NO_FORMATS,
    words: Collection[str] = (),
) -> Table:
    """Return a table of named columns, with a caption that states the result.

    ``columns`` maps a column's name to its cells. ``formats`` maps columns to format
    specifications such as ``".2f"``. ``words`` names columns of text, whose cells may
    break into lines; numbers never do.

    Raises
    ------
    ValueError
        Without a caption or columns, for columns of unequal lengths, or if ``formats``
        or ``words`` name a column that does not exist.
    """
    lengths = {name: len(cells) for name, cells in columns.items()}
    if not caption.strip() or len(set(lengths.values())) != 1:
        raise ValueError(
            f"a table needs a caption and columns of one length, got {lengths}"
        )
    if unknown := [*(formats.keys() - columns.keys())]:
        raise ValueError(
            f"formats name {unknown}, which are not among the columns {[*columns]}"
        )
    if unknown := [*({*words} - columns.keys())]:
        raise ValueError(
            f"words name {unknown}, which are not among the columns {[*columns]}"
        )
    cells = {
        name: [format(cell, formats.get(name, "")) for cell in values]
        for name, values in columns.items()
    }
    return _Columns(caption, cells, frozenset(words))


@check_types
def curves(
    x: Num[Array, "points"] | Sequence[float],
    lines: Mapping[str, Float[Array, "points"] | Sequence[float]],
    *,
    x_label: str,
    y_label: str,
    caption: str,
    alt: str,
    x_scale: str = "linear",
    y_scale: str = "linear",
) -> Figure:
    """Draw several curves over one abscissa, in different colors and dashes.

    ``lines`` maps a curve's name to its values at the abscissas ``x``; a single curve
    gets no legend. ``x_scale`` and ``y_scale`` are matplotlib's scales, such as
    ``"log"``.
    """
    x = np.asarray(x)
    _require_axes("x", x, 1)
    scales = mpl.scale.get_scale_names()
    for name, scale in (("x_scale", x_scale), ("y_scale", y_scale)):
        require_choice(name, scale, scales)
    for name, y in lines.items():
        if np.shape(y) != x.shape:
            raise ValueError(
                f"lines[{name!r}] must have a number for each of the {len(x)} in x, "
                f"got shape {list(np.shape(y))}"
            )
    with mpl.rc_context(_STYLE):
        figure, ((axes,),) = canvas()
        for name, y in lines.items():
            axes.plot(x, y, label=name)
        axes.set(xlabel=x_label, ylabel=y_label, xscale=x_scale, yscale=y_scale)
        for axis, scale in ((axes.xaxis, x_scale), (axes.yaxis, y_scale)):
            low, high = axis.get_view_interval()
            if scale == "log" and high >= 10 * low:
                axis.set_minor_formatter(mpl.ticker.NullFormatter())
        if len(lines) > 1:
            _legend(figure, axes, "outside upper center", columns=2)
        return finish(figure, caption=caption, alt=alt)


def _require_axes(name: str, array: Array, axes: int) -> None:
    """Raise unless an array of real numbers has so many ``axes``, none of length 0."""
    if array.dtype.kind not in "biuf" or array.ndim != axes or not array.size:
        raise ValueError(
            f"{name} must be an array of numbers with {axes} axes, none empty, got "
            f"shape {list(array.shape)} of {array.dtype}"
        )


def _legend(figure: Canvas, axes: mpl.axes.Axes, place: str, columns: int) -> None:
    """Add a legend with at most ``columns`` columns, as many as fit into the figure.

    The legend's entries are the labeled lines of ``axes``; ``place`` is matplotlib's
    name of the legend's location.
    """
    named = axes.get_legend_handles_labels()
    for ncols in range(columns, 0, -1):
        legend = figure.legend(*named, loc=place, ncols=ncols, columnspacing=1.2)
        if ncols == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


@check_types
def image(
    table: Float[Array, "rows columns"],
    *,
    x_label: str,
    y_label: str,
    caption: str,
    alt: str,
    value_label: str = "value",
) -> Figure:
    """Draw an array of positive and negative numbers as an image with a color bar.

    White is 0, the first row of ``table`` is at the top, and NaN is hatched.
    ``value_label`` says beside the color bar what the numbers are.
    """
    _require_axes("table", table, 2)
    with mpl.rc_context(_STYLE):
        figure, ((axes,),) = canvas()
        limit = float(np.abs(np.nan_to_num(table)).max()) or 1.0
        picture = heat_map(
            axes, table, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto"
        )
        axes.set(xlabel=x_label, ylabel=y_label)
        figure.colorbar(picture, label=value_label)
        return finish(figure, caption=caption, alt=alt)


@check_types
def heat_map(
    axes: mpl.axes.Axes, table: Float[Array, "rows columns"], **options
) -> mpl.image.AxesImage:
    """Draw an array as a heat map on axes, the first row at the top; NaN is hatched.

    NaN stands for a masked entry and has no color, since a color would be read as a
    value of the scale. ``options`` go to matplotlib's ``imshow``.
    """
    _require_axes("table", table, 2)
    axes.grid(False)
    picture = axes.imshow(table, interpolation="nearest", **options)
    i, j = np.nonzero(np.isnan(table))
    hatch = {"color": _INK, "alpha": 0.35, "linewidth": 1, "linestyle": "-"}
    axes.autoscale(False)
    gap = np.full(len(i), np.nan)
    x, y = np.stack([j - 0.5, j + 0.5, gap], -1), np.stack([i + 0.5, i - 0.5, gap], -1)
    axes.plot(x.ravel(), y.ravel(), **hatch)
    return picture


@check_types
def around_a_query(
    columns: Mapping[str, Sequence[Float[Array, "_ _"]]],
    rows: Sequence[str],
    *,
    caption: str,
    alt: str,
) -> Figure:
    """Draw small maps of a query's scores with keys around it; a dot is the query.

    A pixel's place is a key's offset from the query, and white is the score 0.
    ``columns`` maps a column's title to its maps from top to bottom, which share one
    color scale; ``rows`` are the labels of the rows of maps.
    """
    for title, pictures in columns.items():
        if len(pictures) != len(rows):
            raise ValueError(
                f"columns[{title!r}] must have {len(rows)} maps, one for each row, got "
                f"{len(pictures)}"
            )
    figure, axes = canvas(
        len(rows), len(columns), figsize=(5.6, 1.1 * len(rows) + 0.3), sharey=True
    )
    for column, (title, pictures) in zip(axes.T, columns.items(), strict=True):
        limit = float(np.abs(pictures).max()) or 1.0
        for panel, picture in zip(column, pictures, strict=True):
            height, width = picture.shape
            extent = (-width / 2, width / 2, height / 2, -height / 2)
            heat_map(
                panel, picture, cmap=DIVERGING, vmin=-limit, vmax=limit, extent=extent
            )
            panel.plot(0, 0, "o", color="white", markeredgecolor="#111111", ms=6)
            panel.set(xticks=[], yticks=[])
        column[0].set_title(title, fontsize=11)
    for panel, name in zip(axes[:, 0], rows, strict=True):
        panel.set_ylabel(name)
    return finish(figure, caption=caption, alt=alt)


@check_types
def angle_dials(
    angles: Float[Array, "panels pairs"],
    titles: Sequence[str],
    *,
    caption: str,
    alt: str,
) -> Figure:
    """Draw each pair's angle as the hand of a clock, with one dial per position.

    ``angles`` has a row per position, with the angle of each pair in radians,
    counter-clockwise from the right; ``titles`` are the dials' titles. The lower a
    pair's frequency, the shorter its hand.
    """
    _require_axes("angles", angles, 2)
    if len(titles) != len(angles):
        raise ValueError(f"titles must be {len(angles)}, one a dial, got {len(titles)}")
    with mpl.rc_context(_STYLE):
        rows = -(-len(titles) // DIALS_IN_A_ROW)
        columns = min(len(titles), DIALS_IN_A_ROW)
        size = (1.5 * columns, 1.65 * rows + 0.4)
        figure, axes = canvas(rows, columns, figsize=size)
        pairs = angles.shape[1]
        lengths = np.linspace(1.0, 0.45, pairs)
        for panel in axes.flat:
            panel.set_axis_off()
        panels = axes.ravel()[: len(titles)]
        for panel, title, row in zip(panels, titles, angles, strict=True):
            circle = mpl.patches.Circle((0, 0), 1, fill=False, color=_INK, alpha=0.4)
            panel.add_patch(circle)
            for p, (angle, length) in enumerate(zip(row, lengths, strict=True)):
                tip = length * np.cos(angle), length * np.sin(angle)
                panel.plot([0, tip[0]], [0, tip[1]], label=f"pair {p}")
            panel.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", title=title)
        _legend(figure, axes[0][0], "outside lower center", columns=pairs)
        # The first layout leaves too little room for the titles.
        figure.draw_without_rendering()
        return finish(figure, caption=caption, alt=alt)
