"""Interactive figure of FoX: product of forget gates for each query and key."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.attention import causal_mask
from posedu.numpy.gated import forget_bias

Array = np.ndarray

TEXT = "We saw Rome . Then we went home . It rained ."
WORDS = TEXT.split()
TOKEN, GATE, OTHERS = 4, 0.05, 0.95  # drawn where scripts do not run
SHARE, CROSSING = INKS[:2]


def fox_explorable() -> Explorable:
    """Draw the product of FoX's forget gates for each query and key, with gate sliders.

    The products are computed by :func:`posedu.numpy.gated.forget_bias`.
    """
    gates = np.full(len(WORDS), OTHERS)
    gates[TOKEN] = GATE
    shares = np.exp(forget_bias(np.log(gates)))
    word = WORDS[TOKEN]
    return explorable(
        "fox",
        _map(gates, shares),
        (
            Slider("token", "word", 0, len(WORDS) - 1, TOKEN, shown=word),
            Slider("gate", "its gate", 0.01, 1, GATE, 0.01, f"{GATE:.2f}"),
            Slider("others", "other gates", 0.5, 1, OTHERS, 0.01, f"{OTHERS:.2f}"),
        ),
        summary=f"At the last token {100 * shares[-1, TOKEN]:.1f} % is left of "
        f"“{word}”, and {100 * shares[-1, TOKEN - 1]:.1f} % of “{WORDS[TOKEN - 1]}” "
        "just before it: all older keys are multiplied by its gate.",
        caption="The share that the gates leave of each key (column) at each query "
        "(row): full blue is 1, no blue is 0; hatched keys come later. The frame has "
        "the pairs whose product contains the chosen word's gate.",
        numbers=WORDS,
    )


def _map(gates: Float[Array, "tokens"], shares: Float[Array, "tokens tokens"]) -> str:
    n = len(gates)
    rows = "".join(
        f'<text x="58" y="{77 + 21 * i}" style="text-anchor:end">{word}</text>'
        for i, word in enumerate(WORDS)
    )
    columns = "".join(
        f'<text transform="translate({90 + 26 * j},320) rotate(-90)"'
        f' style="text-anchor:end">{word}</text>'
        for j, word in enumerate(WORDS)
    )
    cells = "".join(
        f'<path d="M{j},{i}h1v1h-1z" opacity="{shares[i, j]:.3f}"/>'
        for i, j in np.argwhere(causal_mask(n))
    )
    later = "".join(f"M{j},{i + 1}l1,-1" for i, j in np.argwhere(~causal_mask(n)))
    bars = "".join(f"M{t + 0.5},0V{gate:.2f}" for t, gate in enumerate(gates))
    return f"""
<svg class="plot" viewBox="0 0 400 376" role="img" aria-label="Above, a bar for the
 gate of each word; below, a triangle of pairs, shaded by what is left of the key">
<text x="36" y="44">gate</text>{rows}{columns}
<text transform="translate(15,186) rotate(-90)">query</text>
<text x="34" y="340">key</text>
<g transform="translate(72,52) scale(26,-40)">
<path d="M0,0H{n}M0,1H{n}" stroke="currentColor" stroke-opacity="0.3"/>
<path class="bars" d="{bars}" stroke="currentColor" style="stroke-width:8"/>
<path class="chosen" d="M{TOKEN + 0.5},0V{gates[TOKEN]:.2f}" stroke="{CROSSING}"
 style="stroke-width:8"/>
</g>
<g transform="translate(72,62) scale(26,21)">
<path d="{later}" stroke="currentColor" stroke-opacity="0.35"/>
<g class="shares" fill="{SHARE}" shape-rendering="crispEdges">{cells}</g>
<path d="M0,0V{n}H{n}" stroke="currentColor" stroke-opacity="0.3"/>
<path class="crossing" d="M0,{TOKEN}H{TOKEN}V{n}H0Z" stroke="{CROSSING}"
 style="stroke-width:2.5"/>
</g>
</svg>"""
