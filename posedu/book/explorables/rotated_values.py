"""Interactive figure of rotated values: their weighted sum, also rotated back."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, Switch, explorable
from posedu.book.figures import INKS
from posedu.numpy import rope

Array = np.ndarray

VALUES = np.array([[0.9, 0.1], [0.3, 0.8], [-0.2, 0.7], [0.8, -0.5]])
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
START, APART = 0.0, 0.3  # drawn where scripts do not run


def rotated_values_explorable() -> Explorable:
    """Draw four values of one pair, rotated by RoPE, and the last query's output.

    The attention weights do not depend on the position at which the text starts, as
    with RoPE.
    """
    paths = "".join(
        f'<path class="value" d="{arrow(v)}" stroke="currentColor" '
        f'stroke-opacity="0.5" style="stroke-width:1.5"/>'
        for v in rotated(START, APART)
    )
    out = output(START, APART, True)
    picture = f"""
<svg class="plot" viewBox="0 0 400 240" role="img" aria-label="A circle with four thin
 arrows, the values, each rotated by its position, and a thick one, the output">
<g transform="translate(200,120) scale(110,-110)">
<circle r="1" fill="none" stroke="currentColor" stroke-opacity="0.3"
 style="vector-effect:non-scaling-stroke"/>
{paths}
<path class="out" d="{arrow(out)}" stroke="{INKS[1]}" style="stroke-width:4"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true">━</span> values, rotated
 by their positions</span> · <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">━</span> the output</span></p>"""
    return explorable(
        "rotated_values",
        picture,
        (
            Slider("start", "first position", 0, 30, START, 0.5, f"{START:.1f}"),
            Slider("apart", "from token to token", 0, 2, APART, 0.1, f"{APART:.1f}"),
            Switch("back", "rotate the output back", on=True),
        ),
        summary=summary_text(START, APART, True),
        caption="A shift of the text rotates all values by the same angle. The output "
        "that is rotated back by the query’s position does not change; otherwise it "
        "rotates with the values. The distance from token to token changes the "
        "offsets, and so the output.",
    )


def rotated(start: float, apart: float) -> Float[Array, "tokens 2"]:
    """Return the tokens' value vectors, each rotated by RoPE by its token's position.

    ``start`` is the first token's position, ``apart`` the distance between neighboring
    tokens.
    """
    return rope(VALUES, _positions(start, apart), layout="half")


def output(start: float, apart: float, back: bool) -> Float[Array, "2"]:
    """Return the last token's attention output, rotated back by RoPE if ``back``.

    ``start`` is the first token's position, ``apart`` the distance between neighboring
    tokens. Without ``back`` the output is the weighted sum of the rotated values.
    """
    out = WEIGHTS @ rotated(start, apart)
    last = _positions(start, apart)[-1:]
    return rope(out[None], -last, layout="half")[0] if back else out


def _positions(start: float, apart: float) -> Float[Array, "tokens"]:
    return start + apart * np.arange(len(VALUES))


def arrow(to: Float[Array, "2"]) -> str:
    """Return the SVG path of an arrow from the center to the point ``to``."""
    x, y = to
    a, b = (to * 0.9 + 0.05 * side * np.array([-y, x]) for side in (1, -1))
    points = ((x, y), a, (x, y), b)
    return "M0,0" + "".join(f"L{p[0]:.4f},{p[1]:.4f}" for p in points)


def summary_text(start: float, apart: float, back: bool) -> str:
    """Describe in one sentence the first position, the spacing and the output.

    ``start`` is the first token's position, ``apart`` the distance between neighboring
    tokens; with ``back`` the output is rotated back.
    """
    x, y = output(start, apart, back)
    direction = "rotated back" if back else "not rotated back"
    return (
        f"From position {start:.1f} on, tokens {apart:.1f} apart: the output, "
        f"{direction}, is {_signed(x)}, {_signed(y)}."
    )


def _signed(x: float) -> str:
    return f"{x:.2f}".replace("-", "−").replace("−0.00", "0.00")
