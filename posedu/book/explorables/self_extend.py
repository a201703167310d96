"""Interactive figure of five KV cache methods: the last query's offset to each key."""

from collections.abc import Mapping

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.rotary import extended_offsets

LONGEST, TRAINED = 64, 24  # tokens
TOKENS, WINDOW, SIZE = 56, 8, 4  # drawn where scripts do not run
METHODS: Mapping[str, str] = {
    "sinks": "sinks and a window, re-rotated",
    "rope": "all keys, unchanged",
    "grouped": "Self-Extend, groups",
    "constant": "ReRoPE",
    "chunks": "dual chunk attention",
}


def self_extend_explorable() -> Explorable:
    """Draw each key's offset under StreamingLLM, RoPE, Self-Extend, ReRoPE and DCA.

    The offset is the last query's distance to the key, as each method changes it.
    """
    first = next(iter(METHODS))
    marks = "".join(
        f'<text x="{46 + 5 * n}" y="176">{n}</text>' for n in range(0, LONGEST + 1, 16)
    )
    picture = f"""
<svg class="plot" viewBox="0 0 400 204" role="img" aria-label="Over the keys from the
 first to the last: the offset of the last query to each, and a line at the
 largest offset of training">
{marks}<text x="206" y="198">key</text>
<text x="36" y="158" style="text-anchor:end">0</text>
<text x="36" y="{158 - 2 * (TRAINED - 1)}" style="text-anchor:end">{TRAINED - 1}</text>
<text x="36" y="30" style="text-anchor:end">64</text>
<g transform="translate(46,154) scale(5,-2)">
<path d="M0,0H{LONGEST}M0,0V{LONGEST}" stroke="currentColor" stroke-opacity="0.3"/>
<path d="M0,{TRAINED - 1}H{LONGEST}" stroke="currentColor" stroke-dasharray="5 4"/>
<path class="offsets" d="{path(first, TOKENS, WINDOW, SIZE)}" stroke="{INKS[0]}"
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
            Choice("method", "method", METHODS),
            Slider("tokens", "tokens", 1, LONGEST, TOKENS),
            Slider("window", "window", 1, 12, WINDOW),
            Slider("size", "sinks, group or chunk", 1, 12, SIZE),
        ),
        summary=summary_text(first, TOKENS, WINDOW, SIZE),
        caption="A score depends on a key's position through the offset only. Evicted "
        "keys have none; the sinks then have a smaller one. A map of offsets keeps "
        "all keys and can give far keys offsets that occurred in training. The last "
        "control is the number of sinks, the size of a group, or the length of a chunk "
        "beyond the window.",
    )


def offsets(method: str, tokens: int, window: int, size: int) -> list[int | None]:
    """Return the last query's offset to each key; ``None`` for an evicted key.

    ``method`` is a key of ``METHODS``, ``tokens`` the number of tokens; ``window`` is
    the number of nearest keys with unchanged offsets. ``size`` is the number of sinks
    (first keys that are kept), the size of a group, or a chunk's length beyond the
    window: a chunk has ``window + size`` tokens.
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
    """Return the SVG path with a dash at the offset of each key that is not evicted.

    The arguments have the same meaning as in :func:`offsets`.
    """
    found = enumerate(offsets(method, tokens, window, size))
    return "".join(f"M{key},{at}h0.8" for key, at in found if at is not None)


def summary_text(method: str, tokens: int, window: int, size: int) -> str:
    """Describe in one sentence the number of visible keys and their offsets.

    The arguments have the same meaning as in :func:`offsets`.
    """
    visible = [at for at in offsets(method, tokens, window, size) if at is not None]
    reach = "within" if max(visible) < TRAINED else "beyond"
    different = len({*visible})
    return (
        f"Of {tokens} tokens the last one sees {len(visible)}, at {different} "
        f"different offsets up to {max(visible)}: {reach} the {TRAINED - 1} of "
        "training."
    )
