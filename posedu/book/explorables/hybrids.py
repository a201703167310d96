"""Interactive figure of hybrid models: the stack of layers, and what each caches."""

import math

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.book.hybrids import Hybrid, load_hybrids
from posedu.tools.configs.mixers import TITLES

FIRST, LAYER, DOUBLINGS = "Qwen3.5 27B", 3, 15  # drawn where scripts do not run
LOW, HIGH = 4, 20  # tokens, in doublings
LEFT, WIDTH = 8, 400  # of the stack
SMALLEST, DECADE = 5, 36  # power of ten of bytes at the left edge; width of a decade
HEIGHTS = {"a": 46, "b": 46, "r": 26, "m": 8}
LETTERS = {"attention": "a", "both": "b", "recurrence": "r", "mlp": "m"}
INK = {"a": INKS[0], "b": INKS[2], "r": INKS[1], "m": "currentColor"}
BYTES, STATE_BYTES = 2, 4  # of a cached number in bfloat16, of one of a state
BOTTOM = 60


def hybrids_explorable() -> Explorable:
    """Draw the layers of shipped hybrid models and the bytes that they cache.

    A reader chooses the model, a layer and the length of the text.
    """
    hybrids = sorted(load_hybrids(), key=lambda each: each.name != FIRST)
    models = {each.name: numbers(each) for each in hybrids}
    first = models[FIRST]
    most = max(len(each["roles"]) for each in models.values())
    step = WIDTH / len(first["roles"])
    bars = "".join(
        f'<path class="{letter}" d="{bars_of(letter, first["roles"])}"'
        f' fill="{INK[letter]}"/>'
        for letter in HEIGHTS
    )
    sizes = {
        "recurrent": first["fixed"],
        "attention": first["grows"] * 2**DOUBLINGS,
        "alone": first["alone"] * 2**DOUBLINGS,
    }
    names = {
        "recurrent": "recurrent layers",
        "attention": "attention layers",
        "alone": "attention in all",
    }
    inks = {"recurrent": INKS[1], "attention": INKS[0], "alone": "currentColor"}
    rows = "".join(
        f'<text x="{LEFT}" y="{105 + 24 * n}" style="text-anchor:start">'
        f"{names[name]}</text>"
        f'<rect class="{name}" x="140" y="{92 + 24 * n}" height="16"'
        f' width="{length(size):.1f}" fill="{inks[name]}" fill-opacity="0.75"/>'
        for n, (name, size) in enumerate(sizes.items())
    )
    marks = "".join(
        f'<path d="M{140 + DECADE * n},88v74" stroke="currentColor"'
        f' stroke-opacity="0.25"/><text x="{140 + DECADE * n}" y="178"'
        f' style="text-anchor:middle">{label}</text>'
        for n, label in ((1, "1 MB"), (4, "1 GB"), (7, "1 TB"))
    )
    picture = f"""
<svg class="plot" viewBox="0 0 416 184" role="img" aria-label="The layers of a model
 from left to right, tall where there is attention, about half as tall where
 there is a recurrence; below, the bytes that they cache, on a scale of powers of ten">
{bars}
<path class="chosen" d="{mark(LAYER, step)}" fill="currentColor"/>
{marks}{rows}
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">█</span> attention</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">▄</span> recurrence</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[2]}">█</span> both</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">▁</span> MLP
 alone</span></p>"""
    return explorable(
        "hybrids",
        picture,
        (
            Choice("model", "model", {each.name: each.label for each in hybrids}),
            Slider("layer", "layer", 0, most - 1, LAYER),
            Slider(
                *("doublings", "tokens", LOW, HIGH, DOUBLINGS, 1),
                f"{2**DOUBLINGS:,}",
            ),
        ),
        summary=summary_text(first, LAYER, DOUBLINGS),
        caption="The layers of a model, and the bytes in its cache, on a logarithmic "
        "scale: keys and values with 2 bytes a number, states with 4. “Attention in "
        "all” is the same model with an attention layer in place of each recurrent "
        "one. Windows are ignored: layers with a window keep fewer keys. With *: what "
        "the class in transformers fills in, which need not be any published model.",
        numbers={"models": models, "heights": HEIGHTS},
    )


def numbers(model: Hybrid) -> dict[str, object]:
    """Return what the picture shows of a model: layers, bytes, sources of order."""
    mixers = model.mixers
    extra = mixers.roles.count("recurrence")
    grows = BYTES * model.per_token * len(mixers.attention)
    return {
        "roles": "".join(LETTERS[role] for role in mixers.roles),
        "fixed": len(mixers.recurrent) * one_state(model),
        "grows": grows,
        "alone": grows + BYTES * model.per_token * extra,
        "state": one_state(model),
        "token": BYTES * model.per_token,
        "recurrence": TITLES[mixers.recurrence],
        "order": mixers.order,
        "position": model.position,
    }


def one_state(model: Hybrid) -> int:
    """Return the bytes that a recurrent layer of a model caches."""
    return STATE_BYTES * model.state + BYTES * model.history


def length(size: float) -> float:
    """Return the length of the bar of a number of bytes."""
    return max(0.0, DECADE * (math.log10(max(size, 1)) - SMALLEST))


def bars_of(letter: str, roles: str) -> str:
    """Return the SVG path of the layers with a role, a key of ``HEIGHTS``."""
    step, height = WIDTH / len(roles), HEIGHTS[letter]
    width = f"{0.8 * step:.1f}"
    return "".join(
        f"M{LEFT + step * n:.2f},{BOTTOM}v-{height}h{width}v{height}z"
        for n, role in enumerate(roles)
        if role == letter
    )


def mark(layer: int, step: float) -> str:
    """Return the path of the mark under a layer."""
    x = LEFT + step * (layer + 0.5)
    return f"M{x:.1f},{BOTTOM + 3}l5,9h-10Z"


def summary_text(shown: dict, layer: int, doublings: int) -> str:
    """Describe a layer, where its order comes from, its cache and that of all."""
    layer = min(layer, len(shown["roles"]) - 1)
    role, tokens = shown["roles"][layer], 2**doublings
    attention = f"attention with {shown['position']}"
    recurrence = f"{shown['recurrence']}: order from {shown['order']}"
    grown = size_text(shown["token"] * tokens)
    state = size_text(shown["state"])
    texts = {
        "a": f"{attention}, {grown} for {tokens:,} tokens",
        "r": f"{recurrence}, {state} for any number of tokens",
        "b": f"{attention}, {grown}, and {recurrence}, {state}",
        "m": "an MLP alone, which mixes no tokens and caches nothing",
    }
    return (
        f"Layer {layer}: {texts[role]}. All layers together: "
        f"attention layers {size_text(shown['grows'] * tokens)}, "
        f"recurrent layers {size_text(shown['fixed'])}; "
        f"attention in all {size_text(shown['alone'] * tokens)}."
    )


def size_text(size: float) -> str:
    """Return a number of bytes with its unit, three digits or more."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size:.0f} B"
