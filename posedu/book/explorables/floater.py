"""Interactive figure of FLOATER: a sinusoid as an ODE solver's approximation."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.absolute import flow

Array = np.ndarray

LAST = 24
RATE, STEPS = 1.5, 1  # drawn where scripts do not run


def floater_explorable() -> Explorable:
    """Draw a sinusoid's pair as an ODE solution, with sliders for rate and steps.

    The points are computed by :func:`posedu.numpy.absolute.flow`, from (0, 1) on.
    """
    picture = f"""
<svg class="plot" viewBox="0 0 400 240" role="img" aria-label="A circle with 25 dots,
 and a path of straight lines, also with 25 dots, that starts at one of them">
<g transform="translate(200,120) scale(100,-100)">
<circle r="1" fill="none" stroke="currentColor" stroke-opacity="0.3"
 style="vector-effect:non-scaling-stroke"/>
<path class="solved" d="M{_points(nodes(RATE, STEPS))}" stroke="{INKS[0]}"
 style="stroke-width:1.5"/>
<path class="exact" d="{_dots(exact(RATE))}" stroke="currentColor"
 stroke-opacity="0.5" stroke-linecap="round" style="stroke-width:7"/>
<path class="found" d="{_dots(nodes(RATE, STEPS)[::STEPS])}" stroke="{INKS[1]}"
 stroke-linecap="round" style="stroke-width:5"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true">●</span> the
 sinusoid</span> · <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">●</span> solved, at every position</span> · radius at position
 {LAST}: <output class="radius" aria-live="off">{_radius(RATE, STEPS)}</output></p>"""
    return explorable(
        "floater",
        picture,
        (
            Slider("rate", "radians a position", 0.2, 2.9, RATE, 0.1),
            Slider("steps", "steps a position", 1, 5, STEPS),
        ),
        summary=_summary_text(RATE, STEPS),
        caption="One pair (cos, sin) of the sinusoid from position 0 to 24, and its "
        "ODE solved by Runge–Kutta steps of order four. With few steps the solver's "
        "angle is off and its radius shrinks, or grows if a step has more than √8 "
        "radians; five steps are five times the work.",
    )


def nodes(rate: float, steps: int) -> Float[Array, "nodes 2"]:
    """Return the ODE solver's (cos, sin) at position 0 and after each of its steps.

    ``rate`` is the angle from one position to the next, in radians; ``steps`` is the
    number of steps for each position.
    """
    generator = np.array([[0.0, rate], [-rate, 0.0]])
    found = flow(
        lambda t, p: p @ generator.T,
        np.array([0.0, 1.0]),
        np.arange(LAST * steps + 1) / steps,
        tableau="classical",
        delta=1.0,
        steps=steps,
    )
    return found[:, ::-1]


def exact(rate: float) -> Float[Array, "positions 2"]:
    """Return the exact (cos, sin) of the angle ``rate`` · i at each position i.

    ``rate`` is in radians.
    """
    angle = rate * np.arange(LAST + 1)
    return np.stack((np.cos(angle), np.sin(angle)), -1)


def behind(rate: float, steps: int) -> float:
    """Return the lag of the ODE solver's angle at the last position, in degrees.

    The solver makes ``steps`` steps for each position; from one position to the next
    the exact angle grows by ``rate`` radians.
    """
    z = 1j * rate / steps
    factor = 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24
    return float(np.degrees(LAST * (rate - steps * (np.angle(factor) % (2 * np.pi)))))


def _radius(rate: float, steps: int) -> str:
    return f"{np.linalg.norm(nodes(rate, steps)[-1]):.3f}"


def _points(pairs: Float[Array, "points 2"]) -> str:
    return "L".join(f"{x:.3f},{y:.3f}" for x, y in pairs)


def _dots(pairs: Float[Array, "points 2"]) -> str:
    return "".join(f"M{x:.3f},{y:.3f}h.001" for x, y in pairs)


def _summary_text(rate: float, steps: int) -> str:
    each = "one step" if steps == 1 else f"{steps} steps"
    lag = behind(rate, steps)
    return (
        f"At {rate:.1f} radians a position and {each} in it, the solver is at radius "
        f"{_radius(rate, steps)} after {LAST} positions; its angle "
        f"{'leads' if lag < 0 else 'lags'} by {abs(lag):.1f}°."
    )
