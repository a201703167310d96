"""Values turned by their positions, their sum, and the sum turned back."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, Switch, explorable
from posedu.book.figures import INKS
from posedu.numpy import rope

Array = np.ndarray

VALUES = np.array([[0.9, 0.1], [0.3, 0.8], [-0.2, 0.7], [0.8, -0.5]])
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
START, APART = 0.0, 0.3  # what is drawn where scripts do not run


def rotated_values_explorable() -> Explorable:
    """Draw four values of one pair, turned by RoPE, and what the last query gathers.

    The weights are the same wherever the text starts, as RoPE's are.
    """
    paths = "".join(
        f'<path class="value" d="{arrow(v)}" stroke="currentColor" '
        f'stroke-opacity="0.5" style="stroke-width:1.5"/>'
        for v in rotated(START, APART)
    )
    out = output(START, APART, True)
    picture = f"""
<svg class="plot" viewBox="0 0 400 240" role="img" aria-label="A circle with four thin
 arrows, the values, each turned by its position, and a thick one, their weighted sum,
 turned back by the position of the query">
<g transform="translate(200,120) scale(110,-110)">
<circle r="1" fill="none" stroke="currentColor" stroke-opacity="0.3"
 style="vector-effect:non-scaling-stroke"/>
{paths}
<path class="out" d="{arrow(out)}" stroke="{INKS[1]}" style="stroke-width:4"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true">━</span> values, turned by
 their positions</span> · <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">━</span> the output</span></p>"""
    return explorable(
        "rotated_values",
        picture,
        (
            Slider("start", "first position", 0, 30, START, 0.5, f"{START:.1f}"),
            Slider("apart", "from token to token", 0, 2, APART, 0.1, f"{APART:.1f}"),
            Switch("back", "turn the output back", on=True),
        ),
        summary=summary_text(START, APART, True),
        caption="Moving the text turns all values alike. The output turned back by the "
        "query’s position stays where it is; not turned back, it turns with them. From "
        "token to token something else changes: the offsets.",
    )


def rotated(start: float, apart: float) -> Float[Array, "tokens 2"]:
    """The values of the tokens, each turned by its position."""
    return rope(VALUES, _positions(start, apart), layout="half")


def output(start: float, apart: float, back: bool) -> Float[Array, "2"]:
    """What the query at the last token gathers, turned back or not."""
    out = WEIGHTS @ rotated(start, apart)
    last = _positions(start, apart)[-1:]
    return rope(out[None], -last, layout="half")[0] if back else out


def _positions(start: float, apart: float) -> Float[Array, "tokens"]:
    return start + apart * np.arange(len(VALUES))


def arrow(to: Float[Array, "2"]) -> str:
    """A line from the center, and a head on it."""
    x, y = to
    a, b = (to * 0.9 + 0.05 * side * np.array([-y, x]) for side in (1, -1))
    points = ((x, y), a, (x, y), b)
    return "M0,0" + "".join(f"L{p[0]:.4f},{p[1]:.4f}" for p in points)


def summary_text(start: float, apart: float, back: bool) -> str:
    """What the picture shows, in a sentence."""
    x, y = output(start, apart, back)
    way = "turned back" if back else "not turned back"
    return (
        f"From position {start:.1f} on, tokens {apart:.1f} apart: the output, {way}, "
        f"is {_signed(x)}, {_signed(y)}."
    )


def _signed(x: float) -> str:
    return f"{x:.2f}".replace("-", "−").replace("−0.00", "0.00")
