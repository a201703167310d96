"""Interactive figure of TAPE: each token's contextualized position, layer by layer."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.attention import causal_mask, steps
from posedu.numpy.rotary import tape

Array = np.ndarray

TOKENS, D, BASE = 4, 4, 16.0  # pairs of frequency 1 and 1/4
LONG_KEY = 1  # the token whose key may be longer
LAYERS, ATTENDED, KEY, SHIFT = 2, 0.2, 2.0, 0.0  # drawn where scripts do not run
SCALE, WIDE = 41, 2.35  # pixels of a radius, radii to the edge


class Positions(NamedTuple):
    """Contextualized positions of TAPE's tokens, and attention weights.

    ``points`` has, for each layer and token, a point in each of two planes; ``weights``
    are the last token's attention weights.
    """

    points: Float[Array, "layers tokens 2 2"]
    weights: Float[Array, "tokens"]


def tape_explorable() -> Explorable:
    """Draw TAPE's contextualized positions of four tokens after up to three layers.

    The numbers are computed by :func:`posedu.numpy.rotary.tape` for one head of d = 4.
    """
    at = positions_by_layer(LAYERS, ATTENDED, KEY, SHIFT)
    circles = "".join(_circle(p, at.points[:, :, p]) for p in range(D // 2))
    return explorable(
        "tape",
        f"""
<svg viewBox="0 0 400 {2 * WIDE * SCALE + 30:g}" font-size="14" role="img"
 aria-label="Two planes with a circle each, and four tokens in each plane, with the
 paths of their positions">
{circles}</svg>
<p>{_key()}</p>
<p>weights of token 3: <output class="weights" aria-live="off"
>{_shares(at)}</output></p>""",
        (
            Slider("layers", "layers", 0, 3, LAYERS),
            Slider(
                "attended", "attended c", -0.3, 0.3, ATTENDED, 0.1, f"{ATTENDED:.1f}"
            ),
            Slider("key", f"length, key {LONG_KEY}", 0, 4, KEY, 0.5, f"{KEY:.1f}"),
            Slider("shift", "shift of all", 0, 12, SHIFT, 0.5, f"{SHIFT:.1f}"),
        ),
        summary=_summary_text(LAYERS, ATTENDED, SHIFT, at),
        caption="Positions of four tokens, as points of the planes of two pairs. In "
        "layer 0 they are on the circle, as in RoPE. Each layer adds c times the mean "
        "of the positions by the token's attention weights. A shift rotates each plane "
        "as a whole, so it changes no weight.",
    )


def positions_by_layer(
    layers: int, attended: float, key: float, shift: float
) -> Positions:
    """Return TAPE's positions before and after each of ``layers`` layers of one head.

    The MLP output is 0. ``attended`` is the factor of the attention-weighted mean that
    a layer adds to the positions, ``key`` the length of token 1's key vector, ``shift``
    the first token's position before the layers.
    """
    encoding = tape(
        D,
        layout="half",
        mixing="heads",
        attended=np.array([[attended]]),
        up=np.zeros((1, 1)),
        down=np.zeros((1, 1)),
        gate=np.zeros((1, D)),
        base=BASE,
    )
    x = np.ones((1, TOKENS, D))
    k = x * np.where(np.arange(TOKENS) == LONG_KEY, key, 1.0)[:, None]
    blocks = [encoding.locate(np.arange(TOKENS) + shift, x[0])]
    while True:
        attention = steps(
            x, k, x, encoding, positions=blocks[-1], mask=causal_mask(TOKENS)
        )
        if len(blocks) > layers:
            break
        blocks.append(encoding.update(attention.weights, attention.tokens, 0 * x[0]))
    return Positions(np.array(blocks)[:, :, 0, :, :, 0], attention.weights[0, -1])


def _circle(p: int, points: Float[Array, "layers tokens 2"]) -> str:
    x = 100 + 200 * p
    tokens = "".join(
        f'<path class="trajectory" stroke="{INKS[t]}" style="stroke-width:2"'
        f' d="{_curve(points[:, t])}"/>'
        f'<circle class="token" r="0.12" style="fill:{INKS[t]}"'
        f' cx="{points[-1, t, 0]:.3f}" cy="{points[-1, t, 1]:.3f}"/>'
        for t in range(TOKENS)
    )
    return f"""
<text x="{x}" y="16">pair {p}</text>
<g transform="translate({x},{WIDE * SCALE + 26:g}) scale({SCALE},-{SCALE})">
<circle r="1" stroke="currentColor" stroke-opacity="0.4"/>{tokens}</g>"""


def _curve(points: Float[Array, "layers 2"]) -> str:
    return "M" + "L".join(f"{x:.3f},{y:.3f}" for x, y in points)


def _key() -> str:
    return " · ".join(
        f'<span style="white-space:nowrap"><span aria-hidden="true"'
        f' style="color:{INKS[t]}">●</span> token {t}</span>'
        for t in range(TOKENS)
    )


def _shares(at: Positions) -> str:
    return ", ".join(f"{100 * w:.1f}" for w in at.weights) + " %"


def _summary_text(layers: int, attended: float, shift: float, at: Positions) -> str:
    farthest = np.linalg.norm(at.points[-1], axis=-1).max()
    c = f"{attended:.1f}".replace("-", "−")
    return (
        f"After {layers} layers with c = {c}, all positions shifted by {shift:.1f}, "
        f"the farthest point is {farthest:.3f} from the center; the weights of token 3 "
        f"are {_shares(at)}."
    )
