"""Interactive figure of CoPE: positions that count open gates, set by switches."""

import numpy as np
from jaxtyping import Bool, Float

from posedu.book.explorables.frame import Explorable, Slider, Switch, explorable
from posedu.book.figures import INKS
from posedu.numpy.gated.cope import contextual_positions, interpolated_scalars

Array = np.ndarray

WORDS = ["Go", ".", "Run", ".", "Stop", "right", "now"]
READS = (0.0, 0.0, 1.0, 0.0, 0.0)  # u: the query's logits favor position 2
CLOSED = -40.0  # logit at which a gate is 0 to the last digit; at 40 it is 1
BAR, DOT = INKS[:2]


def cope_explorable() -> Explorable:
    """Draw CoPE's positions, with a switch for the gate of each word.

    Positions and added logits are computed by
    :func:`posedu.numpy.gated.contextual_positions` and
    :func:`posedu.numpy.gated.interpolated_scalars`.
    """
    gates = np.array([word == "." for word in WORDS])
    positions = _positions(gates)
    added = interpolated_scalars(positions[None], np.array([READS]))[0]
    reached = [f"“{word}”" for word, u in zip(WORDS, added, strict=True) if u == 1]
    return explorable(
        "cope",
        _picture(gates, positions, added),
        (
            *(
                Switch(f"gate{j}", word, bool(gate))
                for j, (word, gate) in enumerate(zip(WORDS, gates, strict=True))
            ),
            Slider("open", "gate if on", 0, 1, 1, 0.05, "1.00"),
        ),
        summary=f"“{WORDS[0]}” has position {positions[0]:g}. "
        f"At position 2: {', '.join(reached)}.",
        caption="For a query at the last word, a key's position is the sum of the "
        "gates from the key on (filled: on), 4 at most. At the right the logit that "
        "the query adds at each position, here a search for position 2; between whole "
        "positions it is interpolated.",
        numbers=READS,
    )


def _positions(gates: Bool[Array, "keys"]) -> Float[Array, "keys"]:
    """Return CoPE's contextual position of each key for the last query.

    ``gates`` has True for each key whose gate is open.
    """
    logits = np.tile(np.where(gates, -CLOSED, CLOSED), (len(gates), 1))
    return contextual_positions(logits, largest=len(READS) - 1)[-1]


def _picture(
    gates: Bool[Array, "keys"],
    positions: Float[Array, "keys"],
    added: Float[Array, "keys"],
) -> str:
    n, largest = len(WORDS), len(READS) - 1
    words = "".join(
        f'<text x="{60 + 36 * j}" y="202">{word}</text>' for j, word in enumerate(WORDS)
    )
    ticks = "".join(
        f'<text x="30" y="{183 - 36 * p}">{p}</text>' for p in range(largest + 1)
    )
    heights = "".join(
        f'<text x="{60 + 36 * j}" y="{172 - 36 * p:.1f}">{round(p, 2):g}</text>'
        for j, p in enumerate(positions)
    )
    bars = "".join(
        f'<path d="M{j - 0.36:g},0V{p:.3f}h.72V0z" fill-opacity="{int(gate)}"/>'
        for j, (p, gate) in enumerate(zip(positions, gates, strict=True))
    )
    line = "L".join(f"{u:g},{p}" for p, u in enumerate(READS))
    dots = "".join(
        f"M{u:.3f},{p:.3f}h.001" for u, p in zip(added, positions, strict=True)
    )
    return f"""
<svg class="plot" viewBox="0 0 400 230" role="img" aria-label="Bars, one a word, as
 high as its position; at the right, the logit that is added at each position">
{words}{ticks}<g class="heights">{heights}</g>
<text transform="translate(13,106) rotate(-90)">position</text>
<text x="348" y="202">logit</text>
<text x="168" y="224">key, for the query “{WORDS[-1]}”</text>
<g transform="translate(60,178) scale(36,-36)">
<path d="M-.6,2H9" stroke="{DOT}" stroke-dasharray="4 3"/>
<path d="M-.6,0H{n - 0.4}M-.6,{largest}H{n - 0.4}" stroke="currentColor"
 stroke-opacity="0.3"/>
<g class="bars" fill="{BAR}" stroke="{BAR}">{bars}</g>
</g>
<g transform="translate(324,178) scale(48,-36)">
<path d="M0,0V{largest}" stroke="currentColor" stroke-opacity="0.3"/>
<path d="M{line}" stroke="{BAR}" style="stroke-width:2"/>
<path class="dots" d="{dots}" stroke="{DOT}" stroke-linecap="round"
 style="stroke-width:9"/>
</g>
</svg>"""
