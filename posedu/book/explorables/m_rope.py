"""Interactive figure of M-RoPE: wavelengths of pairs for time, rows and columns."""

import math
from collections.abc import Mapping

import numpy as np

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.frequencies import wavelengths
from posedu.numpy.rotary import m_rope_axes

D, BASE = 128, 1e6
LOW, HIGH, AT = 2, 22, 6  # a span, in doublings
WIDTH = 16  # of a doubling
MODELS: Mapping[str, tuple[str, tuple[int, int, int]]] = {
    "sectioned": ("sectioned, 16 + 24 + 24 (Qwen2-VL)", (16, 24, 24)),
    "interleaved": ("interleaved, 24 + 20 + 20 (Qwen3-VL)", (24, 20, 20)),
    "alternating": ("alternating, 20 + 22 + 22 (ERNIE 4.5-VL)", (20, 22, 22)),
}
AXES = ("time", "rows", "columns")


def m_rope_explorable() -> Explorable:
    """Draw each pair's wavelength on the line of its axis, in three models' M-RoPE.

    The axes are time, rows and columns, assigned to pairs as by
    :func:`posedu.numpy.rotary.m_rope_axes`; d = 128 and the base 1,000,000 for all
    three models.
    """
    first = next(iter(MODELS))
    lines = "".join(
        f'<text x="58" y="{31 + 44 * k}" style="text-anchor:end">{name}</text>'
        f'<g transform="translate(66,{12 + 44 * k})">'
        f'<path d="M0,30H{WIDTH * 21}" stroke="currentColor" stroke-opacity="0.2"/>'
        f'<path class="complete{k}" d="{ticks(first, k, AT, True)}" stroke="{INKS[k]}"'
        ' style="stroke-width:3"/>'
        f'<path class="incomplete{k}" d="{ticks(first, k, AT, False)}" '
        ' stroke="currentColor" stroke-opacity="0.5"/></g>'
        for k, name in enumerate(AXES)
    )
    marks = "".join(
        f'<text x="{66 + WIDTH * (n - LOW)}" y="160">{2**n:,}</text>'
        for n in (4, 9, 14, 19)
    )
    picture = f"""
<svg class="plot" viewBox="-8 0 424 184" role="img" aria-label="Three lines, of time,
 rows and columns, with a tick at the wavelength of each pair, and a mark at the span">
{lines}{marks}<text x="234" y="180">wavelength, in steps</text>
<path class="chosen" d="{mark(AT)}" stroke="currentColor" stroke-dasharray="4 4"/>
</svg>
<p>Colored: pairs that complete a full turn within the span · <span
 aria-hidden="true">┆</span> the span</p>"""
    return explorable(
        "m_rope",
        picture,
        (
            Choice(
                "model", "pairs", {name: text for name, (text, _) in MODELS.items()}
            ),
            Slider("span", "steps", LOW, HIGH, AT, 1, f"{2**AT:,}"),
        ),
        summary=summary_text(first, AT),
        caption="Every tick is a pair of one head. In sectioned order an axis has one "
        "part of the wavelengths. In interleaved order all axes have wavelengths of "
        "all sizes, except for the longest ones, which only time has.",
    )


def of_axis(model: str, axis: int) -> np.ndarray:
    """Return the wavelengths of the pairs that a model assigns to an axis.

    ``model`` is a key of ``MODELS``; ``axis`` is 0 (time), 1 (rows) or 2 (columns).
    """
    owner = m_rope_axes(MODELS[model][1], order=model)
    return wavelengths(D, base=BASE)[owner == axis]


def ticks(model: str, axis: int, span: int, complete: bool) -> str:
    """Return the SVG path of ticks at the wavelengths of one axis's feature pairs.

    ``model`` is a key of ``MODELS``, ``axis`` is 0 (time), 1 (rows) or 2 (columns).
    With ``complete`` the path has the wavelengths up to ``2**span`` steps, else only
    the longer ones.
    """
    own = of_axis(model, axis)
    own = own[(own <= 2**span) == complete]
    places = (WIDTH * (math.log2(wave) - LOW) for wave in own)
    return "".join(f"M{x:.2f},8V30" for x in places)


def mark(span: int) -> str:
    """Return the SVG path of a vertical line at ``2**span`` steps."""
    return f"M{66 + WIDTH * (span - LOW)},8V146"


def summary_text(model: str, span: int) -> str:
    """Describe the picture: how many pairs of each axis complete a full turn.

    The turn is within ``2**span`` steps; ``model`` is a key of ``MODELS``.
    """
    counts = []
    for axis, name in enumerate(AXES):
        own = of_axis(model, axis)
        counts.append(f"{(own <= 2**span).sum()} of {len(own)} pairs of {name}")
    time, rows, columns = counts
    return f"Over {2**span:,} steps {time}, {rows} and {columns} complete a full turn."
