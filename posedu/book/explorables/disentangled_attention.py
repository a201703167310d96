"""Interactive figure of disentangled attention: the four terms of each score.

A term is an inner product of the query's content or position with the key's content or
position.
"""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.numpy.attention import Hooks, logits, steps
from posedu.numpy.relative import deberta, transformer_xl, tupe

Array = np.ndarray

WORDS = ["the", "dog", "bit", "the", "man"]
METHODS = {
    "added": "sinusoids, added",
    "xl": "Transformer-XL",
    "tupe": "TUPE-A",
    "deberta": "DeBERTa",
}
TERMS = ("content–content", "content–position", "position–content", "position–position")
STARTS, FULL = 5, 150  # first positions; value in full color, in hundredths
MORE, LESS = INKS[:2]


def disentangled_attention_explorable() -> Explorable:
    """Draw the four terms of each score, with a slider for the first position.

    A term is an inner product of the query's content or position with the key's content
    or position. The terms are computed by :mod:`posedu.numpy.relative` for random
    vectors.
    """
    given = [_terms(method, range(STARTS)) for method in METHODS]
    return explorable(
        "disentangled_attention",
        _picture(given[0]),
        (
            Choice("method", "encoding", METHODS),
            Slider("start", "first position", 0, STARTS - 1, 0),
        ),
        summary="sinusoids, added; the text starts at position 0: move the slider.",
        caption="Four terms of every score, and their sum: rows are queries, columns "
        "keys; blue raises a score, orange lowers it. Framed maps differ from "
        "those for first position 0.",
        numbers={"full": FULL, "less": LESS, "names": TERMS, "terms": given},
    )


def terms_of(method: str, start: int) -> list[Float[Array, "queries keys"] | None]:
    """Return the four terms of one head's scores, in the order of ``TERMS``.

    A term is an inner product of the query's content or position with the key's content
    or position; a term that the encoding lacks is None. ``method`` is a key of
    ``METHODS``, ``start`` the first word's position.
    """
    rng = np.random.default_rng(5)
    kinds = {word: rng.normal(size=8) for word in WORDS}
    x = np.array([kinds[word] for word in WORDS])
    w_q, w_k, w_r, w_s = rng.normal(size=(4, 4, 8)) / np.sqrt(8)
    u, v = rng.normal(size=(2, 1, 4))
    table = rng.normal(size=(16, 8))
    positions = start + np.arange(len(WORDS))
    q, k, nothing = x @ w_q.T, x @ w_k.T, np.zeros((len(WORDS), 4))

    def of(hooks: Hooks, q: Array, k: Array) -> Array:
        attention = steps(q[None], k[None], k[None], hooks, positions=positions)
        return logits(attention.tokens, hooks)[0]

    if method == "added":
        pe = sinusoidal(positions, 8, layout="half")
        parts = [(a, b) for a in (q, pe @ w_q.T) for b in (k, pe @ w_k.T)]
        return [of(Hooks(), a, b) for a, b in parts]
    if method == "xl":

        def xl(u: Array, v: Array) -> Hooks:
            return transformer_xl(
                global_content=u, global_position=v, position_weight=w_r, layout="half"
            )

        none = np.zeros((1, 4))
        return [
            of(Hooks(), q, k),
            of(xl(none, none), q, nothing),
            of(xl(u, none), nothing, k),
            of(xl(none, v), nothing, nothing),
        ]
    if method == "tupe":
        hooks = tupe(table=table, query_weight=w_r, key_weight=w_s, first_token="tied")
        positional = of(hooks, nothing, nothing)
        return [of(hooks, q, k) - positional, None, None, positional]
    hooks = deberta(
        table=table[:8], query_weight=w_r, key_weight=w_s, rows="paper", index="paper"
    )
    to_position, to_content = of(hooks, q, nothing), of(hooks, nothing, k)
    return [of(hooks, q, k) - to_position - to_content, to_position, to_content, None]


def _terms(method: str, starts: range) -> list[list[list[int]] | None]:
    """Return the four terms of the scores in hundredths, each by first position.

    A term is an inner product of the query's content or position with the key's content
    or position. ``starts`` are values of the first word's position; for each of them a
    term is a list of one integer for each query and key. A term that does not depend on
    the first position is given once; a term that the encoding ``method`` lacks is None.
    """
    by_start = [terms_of(method, start) for start in starts]
    given: list[list[list[int]] | None] = []
    for term in zip(*by_start, strict=True):
        rows = [
            None if t is None else np.rint(100 * t).astype(int).ravel().tolist()
            for t in term
        ]
        is_constant = all(row == rows[0] for row in rows)
        given.append(None if rows[0] is None else rows[:1] if is_constant else rows)
    return given


def _picture(terms: list[list[list[int]] | None]) -> str:
    n = len(WORDS)
    rows = "".join(
        f'<text x="74" y="{top + 20 * i}" style="text-anchor:end">{word}</text>'
        for top in (51, 165)
        for i, word in enumerate(WORDS)
    )
    columns = "".join(
        f'<text transform="translate({left + 20 * j},256) rotate(-90)"'
        f' style="text-anchor:end">{word}</text>'
        for left in (95, 209)
        for j, word in enumerate(WORDS)
    )
    total = np.sum([term[0] for term in terms if term is not None], axis=0)
    panels = [*(None if term is None else term[0] for term in terms), total.tolist()]
    places = ((80, 36), (194, 36), (80, 150), (194, 150), (312, 93))
    maps = "".join(
        f'<g class="panel" transform="translate({x},{y}) scale(20)"'
        f' fill="{MORE}">{_cells(panel)}'
        f'<path class="frame" fill="none" d="M0,0H{n}V{n}H0Z" stroke="currentColor"'
        ' stroke-opacity="0.3" style="stroke-width: 1;"/></g>'
        for (x, y), panel in zip(places, panels, strict=True)
    )
    return f"""
<svg class="plot" viewBox="0 -4 420 300" role="img" aria-label="Four maps of queries and
 keys, contents and positions of each, and a fifth map, their sum">
<text x="130" y="28">content</text><text x="244" y="28">position</text>
<text x="187" y="12">of the key</text><text x="362" y="85">sum</text>
<text transform="translate(34,86) rotate(-90)">content</text>
<text transform="translate(34,200) rotate(-90)">position</text>
<text transform="translate(14,143) rotate(-90)">of the query</text>
{rows}{columns}{maps}
</svg>"""


def _cells(values: list[int] | None) -> str:
    n = len(WORDS)
    given = [0] * n * n if values is None else values
    return "".join(
        f'<path d="M{c % n},{c // n}h1v1h-1z" opacity="{min(abs(t) / FULL, 1):.2f}"'
        + (f' fill="{LESS}"/>' if t < 0 else "/>")
        for c, t in enumerate(given)
    )
