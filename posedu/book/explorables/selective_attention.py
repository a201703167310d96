"""Interactive figure of selective attention: what is left of deselected keys."""

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
from posedu.numpy.attention import causal_mask, softmax
from posedu.numpy.gated import accumulated_selections

Array = np.ndarray

TEXT = "Ann has red . Ann has blue . So Ann has ?"
WORDS = TEXT.split()
N = len(WORDS)
TOKEN, KEY, AMOUNT = 6, 2, 3.0  # drawn where scripts do not run
SECOND = 9  # the token that may deselect the key, too
SHARE, DOT = INKS[:2]


def selective_attention_explorable() -> Explorable:
    """Draw what selections leave of each key at each query, at equal logits.

    The sums are computed by :func:`posedu.numpy.gated.accumulated_selections`. The
    reader chooses which token deselects which key, by how much, and from where on.
    """
    selections = np.zeros((N, N))
    selections[TOKEN, KEY] = AMOUNT
    bias = -accumulated_selections(selections, include_current=False)
    weight = softmax(bias, causal_mask(N))[-1, KEY]
    return explorable(
        "selective_attention",
        _map(np.exp(bias)),
        (
            Slider("token", "token", 1, N - 1, TOKEN, shown=WORDS[TOKEN]),
            Slider("key", "deselects", 0, N - 2, KEY, shown=WORDS[KEY]),
            Slider("amount", "by", 0, 6, AMOUNT, 0.5, f"{AMOUNT:.1f}"),
            Choice("which", "which keys", {"one": "this key", "all": "all before it"}),
            Switch("second", f"“{WORDS[SECOND]}” ({SECOND}) deselects it, too"),
            Switch("current", "counts from its own row on"),
            Switch("spare", "spare the first token", on=True),
        ),
        summary=f"At the last token {100 * np.exp(bias[-1, KEY]):.1f} % is left of "
        f"“{WORDS[KEY]}” ({KEY}); at equal logits its weight is {100 * weight:.1f} %, "
        f"where all {N} keys alike would have {100 / N:.1f} %.",
        caption="The factor that selections leave of each key (column) at each query "
        "(row): full blue is 1, no blue is 0; hatched keys come later. A dot marks a "
        "token that deselects a key. If it deselects all keys before it alike, the "
        "first one too, and from its own row on, it is FoX's forget gate.",
        numbers={"words": WORDS, "second": SECOND},
    )


def _map(factors: Float[Array, "tokens tokens"]) -> str:
    rows = "".join(
        f'<text x="64" y="{26 + 21 * i}" style="text-anchor:end">{word}</text>'
        for i, word in enumerate(WORDS)
    )
    columns = "".join(
        f'<text transform="translate({90 + 26 * j},270) rotate(-90)"'
        f' style="text-anchor:end">{word}</text>'
        for j, word in enumerate(WORDS)
    )
    cells = "".join(
        f'<path d="M{j},{i}h1v1h-1z" opacity="{factors[i, j]:.3f}"/>'
        for i, j in np.argwhere(causal_mask(N))
    )
    later = "".join(f"M{j},{i + 1}l1,-1" for i, j in np.argwhere(~causal_mask(N)))
    return f"""
<svg class="plot" viewBox="0 0 400 326" role="img" aria-label="A triangle of pairs of
 words, shaded by what is left of the key, with a dot where a word deselects another">
{rows}{columns}
<text transform="translate(15,136) rotate(-90)">query</text>
<text x="34" y="290">key</text>
<g transform="translate(72,11) scale(26,21)">
<path d="{later}" stroke="currentColor" stroke-opacity="0.35"/>
<g class="shares" fill="{SHARE}" shape-rendering="crispEdges">{cells}</g>
<path d="M0,0V{N}H{N}" stroke="currentColor" stroke-opacity="0.3"/>
<path class="dots" d="M{KEY + 0.5},{TOKEN + 0.5}h.001" stroke="{DOT}"
 style="stroke-width:10;stroke-linecap:round"/>
</g>
</svg>"""
