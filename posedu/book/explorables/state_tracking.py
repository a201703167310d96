"""Interactive figure of state tracking: swaps of cups, a product, and its answers."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import (
    Choice,
    Explorable,
    Slider,
    Switch,
    explorable,
)
from posedu.book.figures import INKS

Array = np.ndarray

D = 6  # features of a head: balls use the first ones, rotations all three pairs
KAPPA = 8.0  # logit of a coordinate that is 1
STREAMS = {
    name: tuple((int(swap[0]), int(swap[1])) for swap in swaps.split())
    for name, swaps in {
        "5": "01 12 34 23 04 13 02 24 01 14 23 03",
        "3": "01 12 01 02 12 01 02 02 12 02 01 12",
    }.items()
}
STEPS = len(STREAMS["5"])
ENCODINGS = {
    "path": "PaTH, β = 2",
    "beta": "PaTH, β = 2σ(b)",
    "selective": "Selective RoPE",
    "gate": "gates (Wall)",
    "rope": "RoPE",
}
STEP, B, CUP = 2, 2.0, 0  # drawn where scripts do not run
FREQUENCIES = (1.0, 0.4, 0.15)  # of RoPE's pairs


def state_tracking_explorable() -> Explorable:
    """Draw a stream of swaps, the product of transitions and a query's weights.

    The product is that of the chosen encoding's transitions. The query asks which ball
    is in one cup; its answer is the ball with the largest weight.
    """
    stream = STREAMS["5"][:STEP]
    product = _product("path", stream, B)
    weights = _weights(product, 5, CUP)
    cups = _balls(stream, 5)
    return explorable(
        "state_tracking",
        _picture(stream, cups, product, weights),
        (
            Choice("encoding", "encoding", ENCODINGS),
            Choice("cups", "cups", {"5": "five", "3": "three"}),
            Slider("step", "swaps read", 0, STEPS, STEP),
            Slider("cup", "asked for cup", 0, 4, CUP),
            Slider("b", "b", 0, 8, B, 0.5),
            Switch("exchanged", "exchange the first two swaps"),
        ),
        summary=_summary(STEP, CUP, cups, weights),
        caption="Above: a stream of swaps, and the balls in the cups after those that "
        "were read. Left: the product of the transitions; blue is positive, orange "
        "negative. Right: the weights of a query that asks for the ball in the framed "
        "cup. Selective RoPE has a fixed angle for each swap, and the gates have fixed "
        "values; b acts on the second encoding only.",
        numbers={
            "streams": STREAMS,
            "kappa": KAPPA,
            "frequencies": FREQUENCIES,
        },
    )


def _transition(
    encoding: str, swap: tuple[int, int], b: float
) -> Float[Array, "{D} {D}"]:
    """Return the transition of a swap's token in one of the ``ENCODINGS``."""
    first, second = swap
    if encoding in ("path", "beta"):
        w = np.zeros(D)
        w[first], w[second] = np.sqrt(0.5), -np.sqrt(0.5)
        beta = 2.0 if encoding == "path" else 2 / (1 + np.exp(-b))
        return np.eye(D) - beta * np.outer(w, w)
    if encoding == "gate":
        gates = [1 - 0.1 * (1 + (first + 2 * second + c) % 4) for c in range(D)]
        return np.diag(gates)
    matrix = np.eye(D)
    for p, frequency in enumerate(FREQUENCIES):
        letter = 1 + first + 2 * second if encoding == "selective" else 1
        c, s = np.cos(letter * frequency), np.sin(letter * frequency)
        matrix[2 * p : 2 * p + 2, 2 * p : 2 * p + 2] = [[c, -s], [s, c]]
    return matrix


def _product(
    encoding: str, stream: tuple[tuple[int, int], ...], b: float
) -> Float[Array, "{D} {D}"]:
    """Return the product of the transitions of a stream, the latest on the left."""
    product = np.eye(D)
    for swap in stream:
        product = _transition(encoding, swap, b) @ product
    return product


def _weights(
    product: Float[Array, "{D} {D}"], balls: int, cup: int
) -> Float[Array, "balls"]:
    """Return the weights of the query of one cup on the balls' keys."""
    logits = KAPPA * product[cup, :balls]
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def _balls(stream: tuple[tuple[int, int], ...], cups: int) -> list[int]:
    """Return the ball in each cup after a stream of swaps."""
    state = list(range(cups))
    for a, b in stream:
        state[a], state[b] = state[b], state[a]
    return state


def _summary(
    step: int, cup: int, cups: list[int], weights: Float[Array, "balls"]
) -> str:
    answer = int(np.argmax(weights))
    verdict = "right" if answer == cups[cup] else f"wrong, the cup holds {cups[cup]}"
    return (
        f"After {step} swaps the query of cup {cup} has its largest weight, "
        f"{weights[answer]:.2f}, on ball {answer}: {verdict}."
    )


def _picture(
    stream: tuple[tuple[int, int], ...],
    cups: list[int],
    product: Float[Array, "{D} {D}"],
    weights: Float[Array, "balls"],
) -> str:
    letters = "".join(
        f'<text x="{45 + 62 * (n % 6)}" y="{16 + 20 * (n // 6)}"'
        f' opacity="{1 if n < len(stream) else 0.6}">{a}↔{b}</text>'
        for n, (a, b) in enumerate(STREAMS["5"])
    )
    asked = (
        f'<rect class="asked" x="{22 + 74 * CUP}" y="32" width="56" height="46"'
        f' rx="6" fill="none" stroke="{INKS[1]}" stroke-width="3"/>'
    )
    boxes = "".join(
        f'<g visibility="visible"><path d="M{26 + 74 * n},36l8,38h32l8,-38" fill="none"'
        ' stroke="currentColor" stroke-opacity="0.5"/>'
        f'<circle cx="{50 + 74 * n}" cy="56" r="13" fill="{INKS[0]}"'
        ' fill-opacity="0.2"/>'
        f'<text class="ball" x="{50 + 74 * n}" y="61">{ball}</text>'
        f'<text x="{50 + 74 * n}" y="92">cup {n}</text></g>'
        for n, ball in enumerate(cups)
    )
    cells = "".join(
        f'<rect x="{20 + 24 * column}" y="{118 + 24 * row}" width="22" height="22"'
        f' fill="{INKS[0] if product[row, column] > -1e-9 else INKS[1]}"'
        f' fill-opacity="{abs(product[row, column]):.3f}"/>'
        for row in range(D)
        for column in range(D)
    )
    bars = "".join(
        f'<g visibility="visible"><rect x="{206 + 37 * n}" width="26"'
        f' y="{254 - 120 * w:.1f}"'
        f' height="{120 * w:.1f}" fill="{INKS[0]}"/>'
        f'<text x="{219 + 37 * n}" y="272">{n}</text></g>'
        for n, w in enumerate(weights)
    )
    return f"""
<svg class="plot" viewBox="0 0 400 312" role="img" aria-label="Swaps in a line, cups
 with numbered balls, a square of six times six cells, and a bar for each ball">
<g class="letters">{letters}</g>
<g transform="translate(0,16)">
{asked}<g class="boxes">{boxes}</g>
<path d="M18,116h146v146h-146z" fill="none" stroke="currentColor"
 stroke-opacity="0.35"/>
<g class="cells">{cells}</g>
<text x="91" y="281">product</text>
<path d="M200,254H390M200,134H390" stroke="currentColor" stroke-opacity="0.35"/>
<text x="388" y="130" style="text-anchor:end">weight 1</text>
<g class="bars">{bars}</g>
<text x="295" y="290">ball</text>
</g>
</svg>"""
