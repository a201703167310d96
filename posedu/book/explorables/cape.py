"""Interactive figure of CAPE's positions: tokens shifted, jittered and scaled."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.absolute import cape

Array = np.ndarray

TOKENS = 9
JITTER, SHIFT, LEVEL = 0.5, 2.0, 1.0  # initial values
SIGNS = np.array([0.31, 1.0, -1.0, 0.62, -0.44, 0.93, -0.87, 0.15, -0.58])
PIXELS, ZERO = 12.5, 128.0  # of a step, and where position 0 is
ABOVE, BELOW = 52.0, 138.0


def cape_explorable() -> Explorable:
    """Draw nine tokens' augmented positions by :func:`posedu.numpy.absolute.cape`."""
    at = places(JITTER, SHIFT, LEVEL)
    before, after = _dots(np.arange(TOKENS), ABOVE), _dots(at, BELOW)
    picture = f"""
<svg class="plot" viewBox="0 0 400 184" role="img" aria-label="Nine dots in a row, and
 below them the same nine at their augmented positions, each joined to its own by a
 line">
<text x="200" y="22">positions as they are</text>
<text x="200" y="176">positions in training</text>
<path d="M20,{ABOVE:g}H380M20,{BELOW:g}H380" stroke="currentColor"
 stroke-opacity="0.3"/>
<path class="lines" d="{_lines(at)}" stroke="{INKS[0]}" style="stroke-width:1.5"/>
<path class="before" d="{before}" stroke="currentColor" stroke-linecap="round"
 style="stroke-width:7"/>
<path class="after" d="{after}" stroke="{INKS[0]}" stroke-linecap="round"
 style="stroke-width:7"/>
</svg>"""
    return explorable(
        "cape",
        picture,
        (
            Slider("jitter", "jitter ε at most", 0, 1, JITTER, 0.05, f"{JITTER:.2f}"),
            Slider("shift", "shift δ", -5, 5, SHIFT, 0.5, f"{SHIFT:.1f}"),
            Slider("level", "scale λ", -4, 4, LEVEL, 1, f"{scale(LEVEL):.2f}"),
        ),
        summary=_summary_text(JITTER, LEVEL, at),
        caption="One sample of CAPE: all tokens share the shift and the scale, and "
        "each has its own jitter, here fixed numbers times the largest. If the jitter "
        "is at most half a step, the lines never cross.",
        numbers=SIGNS.tolist(),
    )


def scale(level: float) -> float:
    """Return CAPE's factor λ of the positions at a slider's value.

    The slider's value ``level`` is linear in log λ.
    """
    return float(1.4 ** (level / 4))


def places(jitter: float, shift: float, level: float) -> Float[Array, "tokens"]:
    """Return the augmented positions of nine tokens under CAPE.

    ``jitter`` is the largest displacement of a token (the displacements are fixed in
    place of random ones), ``shift`` the displacement of all tokens together, and
    ``level`` the value of the slider that sets the scale.
    """
    return cape(
        np.arange(TOKENS),
        shift=shift,
        jitter=jitter * SIGNS,
        scale=scale(level),
        normalize=False,
    )


def swapped(at: Float[Array, "tokens"]) -> int:
    """Return the number of neighboring tokens whose positions are in reversed order.

    ``at`` has the augmented positions of the tokens.
    """
    return int((np.round(np.diff(at), 9) < 0).sum())


def _x(at: Float[Array, "tokens"]) -> Float[Array, "tokens"]:
    return ZERO + PIXELS * np.asarray(at)


def _dots(at: Float[Array, "tokens"], y: float) -> str:
    return "".join(f"M{x:.2f},{y:g}h.001" for x in _x(at))


def _lines(at: Float[Array, "tokens"]) -> str:
    pairs = zip(_x(np.arange(TOKENS)), _x(at), strict=True)
    return "".join(f"M{a:.2f},{ABOVE:g}L{b:.2f},{BELOW:g}" for a, b in pairs)


def _summary_text(jitter: float, level: float, at: Float[Array, "tokens"]) -> str:
    count, least = swapped(at), scale(level) * (1 - 2 * jitter)
    return (
        f"Neighbors that have changed their order: {count}. Steps of any sample with "
        f"this jitter and scale are at least {_signed(least)} long."
    )


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")
