"""Interactive figure of geometric attention: the nearest key takes its share first."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, Switch, explorable
from posedu.book.figures import INKS
from posedu.numpy.stickbreaking import break_nearest_first

Array = np.ndarray

TOKENS = 11
MATCHES = (1, 6, 9)  # keys that match every query
QUERY, MATCH, OTHER = 4, 0.8, 0.1  # drawn where scripts do not run
NARROW = 0.07  # of a piece of the stick without its key's number


def geometric_explorable() -> Explorable:
    """Draw a stick that keys on both sides of a query break, the nearest first.

    The weights are computed by
    :func:`posedu.numpy.stickbreaking.break_nearest_first`.
    """
    shares = np.full(TOKENS, OTHER)
    shares[[*MATCHES]] = MATCH
    logits = np.broadcast_to(np.log(shares / (1 - shares)), (TOKENS, TOKENS))
    mask = np.ones((TOKENS, TOKENS), dtype=bool)
    weights = break_nearest_first(logits, mask, normalize=False)[QUERY]
    order = sorted(range(TOKENS), key=lambda j: (abs(j - QUERY), j < QUERY))[1:]
    most = int(weights.argmax())
    return explorable(
        "geometric",
        _picture(order, weights),
        (
            Slider("query", "query", 0, TOKENS - 1, QUERY),
            Slider("match", "share of ◆", 0.05, 0.99, MATCH, 0.01, f"{MATCH:.2f}"),
            Slider("other", "of the rest", 0.01, 0.6, OTHER, 0.01, f"{OTHER:.2f}"),
            Slider("right", "right side", -5, 5, 0, 0.5, "0.0"),
            Switch("causal", "mask the future"),
            Switch("normalize", "divide by the sum"),
        ),
        summary=f"Query {QUERY} visits the keys {', '.join(map(str, order))}. Key "
        f"{most} gets the most, {100 * weights[most]:.1f} %; "
        f"{100 * (1 - weights.sum()):.1f} % is left over.",
        caption="Above: the stick, from the nearest key to the farthest; keys on the "
        "right of the query are blue, keys on its left orange, and what no key takes "
        "is hatched. Below: the same weights at the places of the keys. Keys with ◆ "
        "match every query equally well. “Right side” is a direction: it is added to "
        "the logits of the keys on the right.",
        numbers=MATCHES,
    )


def _picture(order: list[int], weights: Float[Array, "tokens"]) -> str:
    ends = np.cumsum(weights[order])
    starts = ends - weights[order]
    pieces = "".join(
        f'<path d="M{start:.4f},0V1H{end:.4f}V0z" fill="{INKS[int(j < QUERY)]}"/>'
        for j, start, end in zip(order, starts, ends, strict=True)
    )
    names = "".join(
        f'<text x="{20 + 360 * (start + end) / 2:.1f}" y="74">'
        f"{j if end - start >= NARROW else ''}</text>"
        for j, start, end in zip(order, starts, ends, strict=True)
    )
    hatch = "".join(f"M{x / 60:.4f},1L{(x + 1) / 60:.4f},0" for x in range(60))
    bars = [f"M{j + 0.5},0V{weight:.4f}" for j, weight in enumerate(weights)]
    marks = "".join(
        f'<text x="{20 + 360 / TOKENS * (j + 0.5):.1f}" y="240">{j}</text>'
        for j in range(TOKENS)
    )
    matches = "".join(
        f'<text x="{20 + 360 / TOKENS * (j + 0.5):.1f}" y="258">◆</text>'
        for j in MATCHES
    )
    return f"""
<svg class="plot" viewBox="0 0 400 280" role="img" aria-label="A bar from 0 to 1, cut
 into pieces, and below a column for each of eleven keys">
<text x="20" y="16" style="text-anchor:start">the stick, from the nearest key on</text>
<g transform="translate(20,24) scale(360,34)">
<path d="{hatch}" stroke="currentColor" stroke-opacity="0.35"/>
<path d="M0,0V1H1V0z" stroke="currentColor"/>
<g class="pieces" shape-rendering="crispEdges">{pieces}</g>
</g>
<g class="names">{names}</g>
<text x="20" y="100" style="text-anchor:start">weight</text>
<path d="M20,224H380M20,108H380" stroke="currentColor" stroke-opacity="0.35"/>
<text x="398" y="112" style="text-anchor:end">1</text>
<g transform="translate(20,224) scale({360 / TOKENS:.4f},-116)">
<path class="later" d="{"".join(bars[QUERY:])}" stroke="{INKS[0]}"
 style="stroke-width:14"/>
<path class="earlier" d="{"".join(bars[:QUERY])}" stroke="{INKS[1]}"
 style="stroke-width:14"/>
<path class="here" d="M{QUERY + 0.5},0V1" stroke="currentColor"
 stroke-dasharray="2 3"/>
</g>
{marks}{matches}
<text x="200" y="276">key</text>
</svg>"""
