"""Interactive figure of log-linear attention: the buckets of a query's past."""

from itertools import groupby

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.gated import bucket_level

Array = np.ndarray

TOKENS = 32
LEVELS = 6  # of 32 tokens
QUERY, DECAY, SLOPE = 11, 0.95, -0.4  # drawn where scripts do not run


def log_linear_explorable() -> Explorable:
    """Draw the buckets of a query and of the next one, and the factor of each key.

    The levels are computed by :func:`posedu.numpy.gated.bucket_level`. The factor is
    the decay times a factor of the level, which the reader makes larger for near or for
    far levels.
    """
    now, following = _levels(QUERY), _levels(QUERY + 1)
    factors = [
        DECAY ** (QUERY - j) * np.exp(SLOPE * level) for j, level in enumerate(now)
    ]
    sizes = [len(list(group)) for _, group in groupby(now)]
    return explorable(
        "log_linear",
        _picture(now, following, np.array(factors)),
        (
            Slider("query", "query", 0, TOKENS - 2, QUERY),
            Choice("buckets", "buckets", {"weak": "weak", "strong": "strong"}),
            Slider("decay", "gates", 0.8, 1, DECAY, 0.01, f"{DECAY:.2f}"),
            Slider("slope", "far levels", -1, 1, SLOPE, 0.1, _signed(SLOPE)),
        ),
        summary=f"Query {QUERY}, {QUERY:b} in binary, has {len(sizes)} buckets, of "
        f"{_joined(sizes)} tokens. At the next token the levels 0 to "
        f"{max(now[j] for j in range(QUERY + 1) if following[j] == following[QUERY])} "
        f"become one bucket, of level {following[QUERY]}.",
        caption="Above: the buckets of the query, and of the next one; the number in a "
        "bar is the bucket's level. Below: what multiplies the product of the query "
        "and each key, the decay times the factor of the key's level. The factor of "
        "level n is the exponential of n times “far levels”.",
    )


def _levels(query: int) -> list[int]:
    return [bucket_level(query, j, buckets="weak") for j in range(query + 1)]


def _signed(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def _joined(sizes: list[int]) -> str:
    *first, last = map(str, sizes)
    return f"{', '.join(first)} and {last}" if first else last


def _bars(levels: list[int], name: str, y: int) -> str:
    """Return a path and a text for each level; both are empty where it has no key."""
    pieces = []
    for level in range(LEVELS):
        keys = [j for j, own in enumerate(levels) if own == level]
        start, end = (keys[0], keys[-1] + 1) if keys else (0, 0)
        path = f"M{start + 0.08:.2f},0H{end - 0.08:.2f}V1H{start + 0.08:.2f}z"
        pieces.append(
            f'<path transform="translate(20,{y}) scale(11.25,22)"'
            f' d="{path if keys else "M0,0"}" fill="{INKS[level]}"'
            f' fill-opacity="0.3"/>'
            f'<text x="{20 + 11.25 * (start + end) / 2:.3f}" y="{y + 17}">'
            f"{level if keys else ''}</text>"
        )
    return f'<g class="{name}">{"".join(pieces)}</g>'


def _picture(
    now: list[int], following: list[int], factors: Float[Array, "keys"]
) -> str:
    columns = "".join(f"M{j + 0.5},0V{factor:.4f}" for j, factor in enumerate(factors))
    marks = "".join(
        f'<text x="{25.6 + 90 * n}" y="290">{8 * n}</text>' for n in range(4)
    )
    return f"""
<svg class="plot" viewBox="0 0 400 312" role="img" aria-label="Two rows of bars,
 one for each bucket, for a query and the next one, and below a column for each key">
<text x="20" y="16" style="text-anchor:start">this query</text>
{_bars(now, "now", 24)}
<text x="20" y="68" style="text-anchor:start">the next query</text>
{_bars(following, "following", 76)}
<text x="20" y="124" style="text-anchor:start">factor of each key</text>
<path d="M20,270H380M20,140H380" stroke="currentColor" stroke-opacity="0.35"/>
<text x="397" y="144" style="text-anchor:end">1</text>
<g transform="translate(20,270) scale(11.25,-130)">
<path class="factors" d="{columns}" stroke="{INKS[0]}" style="stroke-width:6"/>
</g>
{marks}
<text x="200" y="308">key</text>
</svg>"""
