"""Interactive figure of chunks: which pairs of a text are computed, at what cost."""

from typing import NamedTuple

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable

TOKENS = 32
CHUNK, FEATURES = 8, 16  # drawn where scripts do not run
SIDE = 224  # of the drawn matrix
RULES = {"additive": "additive", "delta": "delta rule"}


class Cost(NamedTuple):
    """Cost of a text in chunks of one size, for one head.

    ``pairs`` are the weights that are computed, ``carried`` the states between chunks,
    ``steps`` those that wait for one another, ``operations`` the multiply-adds of a
    token.
    """

    pairs: int
    carried: int
    steps: int
    operations: float


def chunks_explorable() -> Explorable:
    """Draw the weights of all pairs, cut into chunks, with the numbers of their cost.

    The operations of a token are those of ``eq-chunk-cost``, with as many features of
    values as of keys.
    """
    cost = costs(CHUNK, FEATURES, delta=False)
    return explorable(
        "chunks",
        _picture(CHUNK, cost),
        (
            Slider("chunk", "tokens of a chunk", 1, TOKENS, CHUNK),
            Choice("rule", "rule", RULES),
            Slider("features", "features", 4, 64, FEATURES, 4),
        ),
        summary=f"{cost.steps} chunks: {cost.pairs} of {TOKENS * (TOKENS + 1) // 2} "
        f"pairs are computed as pairs, the others pass through {cost.carried} states "
        f"of {FEATURES} × {FEATURES} numbers. A token takes {cost.operations:,.0f} "
        "operations.",
        caption="The weights of 32 tokens: blue pairs are computed within a chunk, "
        "gray ones pass through the states between chunks (dots). Each chunk is one "
        "step. The operations, multiplications with an addition, are those of a token.",
    )


def costs(chunk: int, features: int, *, delta: bool) -> Cost:
    """Return what :data:`TOKENS` tokens in chunks of a size cost."""
    starts = range(0, TOKENS, chunk)
    sizes = [min(chunk, TOKENS - start) for start in starts]
    square = features * features
    if delta:
        solved = (chunk - 1) * (2 * chunk - 1) / 6
        operations = 5 * chunk * features + solved + 3 * square
    else:
        operations = 2 * chunk * features + 2 * square
    pairs = sum(n * (n + 1) // 2 for n in sizes)
    return Cost(pairs, len(sizes) - 1, len(sizes), operations)


def _picture(chunk: int, cost: Cost) -> str:
    within = between = dots = ""
    for start in range(0, TOKENS, chunk):
        stop = min(start + chunk, TOKENS)
        # Down the left side, and back along the steps of the diagonal.
        stairs = "".join(f"V{row}H{row}" for row in range(stop - 1, start, -1))
        within += f"M{start},{start}V{stop}H{stop}{stairs}V{start}z"
        if start:
            between += f"M0,{start}H{start}V{stop}H0z"
            dots += f"M{start - 0.01:g},{start}h0.02"
    rows = zip(
        ("pairs", "states", "steps", "operations"),
        (cost.pairs, cost.carried, cost.steps, f"{cost.operations:,.0f}"),
        strict=True,
    )
    table = "".join(
        f'<text x="262" y="{76 + 34 * n}" style="text-anchor:start">{name}</text>'
        f'<text class="number" x="396" y="{76 + 34 * n}"'
        f' style="text-anchor:end">{value}</text>'
        for n, (name, value) in enumerate(rows)
    )
    return f"""
<svg class="plot" viewBox="0 0 400 264" role="img" aria-label="A lower triangle of the
 pairs of 32 tokens: blue triangles along the diagonal, gray rectangles to their left,
 and a dot where two triangles meet; beside it four numbers">
<g transform="translate(14,14) scale({SIDE / TOKENS:g})">
<path class="between" d="{between}" fill="currentColor" fill-opacity="0.15"/>
<path class="within" d="{within}" fill="var(--posedu-0, #0072b2)"/>
<path class="dots" d="{dots}" stroke="var(--posedu-1, #d55e00)" stroke-linecap="round"
 style="stroke-width:8"/>
</g>
<text x="{14 + SIDE // 2}" y="254" style="text-anchor:middle">key</text>
<g class="numbers">{table}</g>
</svg>"""
