"""Interactive figure of the sinusoidal encoding: values, angles and wavelengths."""

import numpy as np

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import COLORS
from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.numpy.frequencies import frequencies, wavelengths

D, LENGTH = 16, 64
PAIRS = D // 2
POSITION, BASE = 10, 10_000  # drawn where scripts do not run
LEVELS = 5  # shades of each sign
CELL, STRIP = 4, 12  # a cell's width and height


def sinusoidal_explorable() -> Explorable:
    """Draw the sinusoidal table as a heat map, with sliders for position and base.

    The numbers are computed by :func:`posedu.numpy.absolute.sinusoidal` for d = 16.
    """
    waves = [_written(wave) for wave in wavelengths(D, base=BASE)]
    angles = np.degrees(POSITION * frequencies(D, base=BASE)) % 360
    turning = np.count_nonzero(wavelengths(D, base=BASE) <= LENGTH)
    return explorable(
        "sinusoidal",
        _picture(waves),
        (
            Slider("position", "position i", 0, LENGTH - 1, POSITION),
            Slider("base", "base", 1, 6, np.log10(BASE), 0.05, f"{BASE:,}"),
        ),
        summary=f"At base {BASE:,} pair 0 has the wavelength {waves[0]} positions, "
        f"pair {PAIRS - 1} {waves[-1]}; a full turn within the {LENGTH} positions: "
        f"{turning} of {PAIRS} pairs. At position {POSITION} the angles of "
        f"the first and the last pair are {angles[0]:.1f}° and {angles[-1]:.1f}°.",
        caption=f"The table for d = {D}: of each pair the sine above and the cosine "
        f'below, <span style="color:{COLORS[1]}">▬</span> up to 1, '
        f'<span style="color:{COLORS[0]}">▬</span> down to −1. One column is the '
        "vector of one position; at the right its pairs are drawn as hands of clocks. "
        "A larger base lengthens every wavelength but the first.",
    )


def _picture(waves: list[str]) -> str:
    table = sinusoidal(range(LENGTH), D, layout="interleaved", base=BASE)
    runs: dict[int, str] = dict.fromkeys(_shades(), "")
    for feature, values in enumerate(np.rint(LEVELS * table).astype(int).T):
        ends = [*np.flatnonzero(np.diff(values)) + 1, LENGTH]
        for start, end in zip([0, *ends], ends, strict=False):
            if shade := values[start]:
                y = 5 * (feature // 2) + 2 * (feature % 2)
                runs[shade] += f"M{start},{y}h{end - start}"
    cells = "".join(
        f'<path class="shade" data-shade="{shade}" d="{runs[shade]}"'
        f' stroke="{COLORS[shade > 0]}" stroke-opacity="{abs(shade) / LEVELS:g}"'
        ' style="stroke-width:2;vector-effect:none"/>'
        for shade in _shades()
    )
    pairs = table[POSITION].reshape(PAIRS, 2)
    rows = "".join(_row(p, pairs[p], waves[p]) for p in range(PAIRS))
    ticks = "".join(
        f'<text x="{40 + CELL * (tick + 0.5):g}" y="272">{tick}</text>'
        for tick in range(0, LENGTH, 16)
    )
    bottom = 5 * PAIRS - 1
    return f"""
<svg viewBox="0 0 400 276" font-size="14" role="img" style="max-width:36rem;margin:auto"
 aria-label="Heat map of the encoding, position by position, one strip for each sine and
 cosine; at the right the hand of each pair at the chosen position and its wavelength">
<text x="168" y="13">position i</text><text x="356" y="13">wavelength</text>
<g transform="translate(40,26) scale({CELL},{STRIP / 2})">
{cells}<path class="guide" d="M{POSITION},-1h1v{bottom}h-1z" stroke="currentColor"
 style="stroke-width:1.5"/></g>{rows}{ticks}
</svg>"""


def _shades() -> list[int]:
    return [s for s in range(-LEVELS, LEVELS + 1) if s]


def _row(p: int, pair: np.ndarray, wave: str) -> str:
    sine, cosine = pair
    y = 32 + 5 * STRIP // 2 * p
    return f"""
<text x="19" y="{y + 5}">p = {p}</text>
<g transform="translate(312,{y}) scale(12.5,-12.5)">
<circle r="1" stroke="currentColor" stroke-opacity="0.4"/>
<path class="rotation" d="M0,0L{cosine:.3f},{sine:.3f}" stroke="currentColor"
 style="stroke-width:2"/></g>
<text class="wave" x="364" y="{y + 5}">{wave}</text>"""


def _written(number: float) -> str:
    """Format a number with three significant digits, thousands separated by commas."""
    return f"{float(f'{number:.3g}'):,.10g}"
