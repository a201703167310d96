"""At which offset the last query sees each key, under five ways to read on."""

from collections.abc import Mapping

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.rotary import extended_offsets

LONGEST, TRAINED = 64, 24  # tokens
TOKENS, WINDOW, SIZE = 56, 8, 4  # what is drawn where scripts do not run
METHODS: Mapping[str, str] = {
    "sinks": "sinks and a window, moved",
    "rope": "all keys, as they are",
    "grouped": "Self-Extend, groups",
    "constant": "ReRoPE",
    "chunks": "dual chunk attention",
}


def self_extend_explorable() -> Explorable:
    """Draw the offsets over the keys, of a cache that is cut and of three maps."""
    first = next(iter(METHODS))
    marks = "".join(
        f'<text x="{46 + 5 * n}" y="176">{n}</text>' for n in range(0, LONGEST + 1, 16)
    )
    picture = f"""
<svg class="plot" viewBox="0 0 400 204" role="img" aria-label="Over the keys from the
 first to the last: the offset at which the last query sees each, beside the largest
 offset of training">
{marks}<text x="206" y="198">key</text>
<text x="36" y="158" style="text-anchor:end">0</text>
<text x="36" y="{158 - 2 * (TRAINED - 1)}" style="text-anchor:end">{TRAINED - 1}</text>
<text x="36" y="30" style="text-anchor:end">64</text>
<g transform="translate(46,154) scale(5,-2)">
<path d="M0,0H{LONGEST}M0,0V{LONGEST}" stroke="currentColor" stroke-opacity="0.3"/>
<path d="M0,{TRAINED - 1}H{LONGEST}" stroke="currentColor" stroke-dasharray="5 4"/>
<path class="seen" d="{path(first, TOKENS, WINDOW, SIZE)}" stroke="{INKS[0]}"
 style="stroke-width:4"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">━</span> offset of a key</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">┄</span> largest offset of
 training</span>, with {TRAINED} tokens</p>"""
    return explorable(
        "self_extend",
        picture,
        (
            Choice("method", "what is done", METHODS),
            Slider("tokens", "tokens", 1, LONGEST, TOKENS),
            Slider("window", "window", 1, 12, WINDOW),
            Slider("size", "sinks, group or chunk", 1, 12, SIZE),
        ),
        summary=summary_text(first, TOKENS, WINDOW, SIZE),
        caption="A query asks of a key nothing but its offset. Forgotten keys have "
        "none; moved ones have another; and a map of offsets gives far keys, all of "
        "which stay, offsets that training has met. The last control is the number of "
        "sinks, the size of a group, or by how much a chunk is longer than the window.",
    )


def offsets(method: str, tokens: int, window: int, size: int) -> list[int | None]:
    """Of each key for the last query; ``None`` where a key is forgotten.

    A chunk is ``window + size`` tokens, so that it holds the window.
    """
    last = tokens - 1
    if method == "rope":
        return [last - key for key in range(tokens)]
    if method == "sinks":
        gap = max(0, tokens - size - window)
        sinks: list[int | None] = [last - gap - key for key in range(min(size, tokens))]
        window_keys = [last - key for key in range(size + gap, tokens)]
        return [*sinks, *[None] * gap, *window_keys]
    found = extended_offsets(
        [last],
        range(tokens),
        far=method,
        window=window,
        group=size if method == "grouped" else None,
        join="floor" if method == "grouped" else None,
        chunk=window + size if method == "chunks" else None,
    )
    return [int(offset) for offset in found[0]]


def path(method: str, tokens: int, window: int, size: int) -> str:
    """A dash for each key that is not forgotten, at its offset."""
    found = enumerate(offsets(method, tokens, window, size))
    return "".join(f"M{key},{at}h0.8" for key, at in found if at is not None)


def summary_text(method: str, tokens: int, window: int, size: int) -> str:
    """What the picture shows, in a sentence."""
    seen = [at for at in offsets(method, tokens, window, size) if at is not None]
    reach = "within" if max(seen) < TRAINED else "beyond"
    different = len({*seen})
    return (
        f"Of {tokens} tokens the last one sees {len(seen)}, at {different} different "
        f"offsets up to {max(seen)}: {reach} the {TRAINED - 1} of training."
    )
