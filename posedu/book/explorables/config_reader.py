"""Explorable that reads a pasted config.json in the browser."""

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Text, explorable
from posedu.book.figures import INKS
from posedu.tools.configs import _rope_parameters, _transformers, families
from posedu.tools.configs.read import SHOWN_KEYS, SUPPORTED, read_rope
from posedu.tools.configs.rotary_config import Reading, RotaryConfig

EXAMPLES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama3": (
        "Llama 3.1",
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "max_position_embeddings": 131072,
            "rope_theta": 500000.0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        },
    ),
    "two": (
        "two bases, by kind of layer",
        {
            "model_type": "gemma3_text",
            "head_dim": 256,
            "max_position_embeddings": 131072,
            "layer_types": [*["sliding_attention"] * 5, "full_attention"],
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "linear",
                    "rope_theta": 1000000.0,
                    "factor": 8.0,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
    ),
    "lost": (
        "a base that some libraries ignore",
        {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "num_attention_heads": 28,
            "max_position_embeddings": 32768,
            "rope_theta": 1000000.0,
            "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "type": "linear"},
            "rope_scaling": {"type": "yarn", "factor": 4.0},
        },
    ),
    "partial": (
        "no base, partial rotation",
        {
            "hidden_size": 2560,
            "num_attention_heads": 32,
            "partial_rotary_factor": 0.4,
            "max_position_embeddings": 2048,
            "model_type": "my_phi",
            "rope_scaling": {"type": "dynamic", "factor": 2.0},
        },
    ),
}
"""Titles and configurations to try; the page shows the first one."""

HEADINGS = (
    "layers",
    "method",
    "base",
    "rotated pairs",
    "wavelengths",
    "full turn in training",
    "attention factor",
    "layout",
)


def known() -> dict[str, Any]:
    """Return the tables by which configurations are read, for the page's script."""
    return {
        "aliases": _rope_parameters.ALIASES,
        "parameters": sorted(_rope_parameters.KNOWN),
        "bases": _transformers.BASES,
        "local": _transformers.LOCAL_BASES,
        "shares": _transformers.SHARES,
        "widths": _transformers.WIDTHS,
        "headDims": _transformers.HEAD_DIMS,
        "hidden": _transformers.HIDDEN,
        "heads": _transformers.HEADS,
        "lengths": _transformers.LENGTHS,
        "depths": _transformers.DEPTHS,
        "mostLayers": _transformers.MOST_LAYERS,
        "text": _transformers.TEXT,
        "sides": _transformers.SIDES,
        "plainScales": _transformers.PLAIN_SCALES,
        "shownKeys": SHOWN_KEYS,
        "supported": SUPPORTED,
        "families": {
            name: {k: v for k, v in vars(families.family(name)).items() if v}
            for name in sorted(families.model_types())
        },
    }


def config_page() -> Explorable:
    """Return the explorable, which reads a configuration as ``read_rope`` does.

    A script in the page computes frequencies, full turns within training, the attention
    factor and warnings. Tests compare it with :func:`posedu.tools.read_rope`. Pasted
    text does not leave the page.
    """
    (first, (_, config)), *_ = EXAMPLES.items()
    reading = read_rope(config)
    ropes = [rope for rope in reading.kinds.values() if rope]
    shown = dict(enumerate(ropes))
    paths = "".join(
        f'<path class="length{n}" d="{_line(shown.get(n))}" stroke="{ink}"/>'
        f'<path class="kind{n}" d="{dots(shown[n]) if n in shown else ""}"'
        f' stroke="{ink}" stroke-linecap="round" style="stroke-width:4"/>'
        for n, ink in enumerate(INKS)
    )
    marks = "".join(
        f'<text x="40" y="{_y(10.0**n) + 4:.0f}" style="text-anchor:end">{label}</text>'
        for n, label in ((1, "10"), (3, "1000"), (5, "10⁵"), (7, "10⁷"), (9, "∞"))
    )
    heads = "".join(f'<th scope="col">{title}</th>' for title in HEADINGS)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{HEADINGS[n]}">{html.escape(cell)}</td>'
            if n
            else f'<th scope="row">{html.escape(cell)}</th>'
            for n, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows(reading)
    )
    remarks = "".join(f"<li>{html.escape(str(r))}</li>" for r in reading.remarks)
    below = f"""<svg class="plot" viewBox="0 0 400 196" role="img" aria-label="A dot for
 each pair, with the highest frequency on the left; the height is its wavelength. A line
 in the color of the dots is the training length.">
{marks}<text x="216" y="190">pairs, by frequency; height: tokens in a full turn</text>
{paths}</svg>
<style>{_file("config_reader.css")}</style>
<div class="kinds" tabindex="0" role="region" aria-label="Kinds of layers">
<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>
<ul>{remarks}</ul>
<details><summary>Every frequency, in radians per position</summary>
<pre>{_frequencies(reading)}</pre></details>
"""
    return explorable(
        "config_reader",
        "",
        (
            Choice(
                "example", "example", {n: title for n, (title, _) in EXAMPLES.items()}
            ),
            Text("config", "config.json", _text(first)),
        ),
        summary=summary(reading),
        caption="A pair above the line does not complete a full turn within the "
        "training length. The text that you paste is read in this page and sent "
        "nowhere.",
        numbers={
            "known": known(),
            "examples": {name: _text(name) for name in EXAMPLES},
            "inks": INKS,
            "headings": HEADINGS,
        },
        below=below,
        script=_file("read_rope.js") + _file("config_reader.js"),
    )


def rows(reading: Reading) -> list[list[str]]:
    """Return the cells of the page's table, a row for each kind of layer."""
    found = []
    for name, rope in reading.kinds.items():
        many = reading.layers.count(name)
        who = f"{name} ({many})" if many else name
        if rope is None:
            found.append([who, "no rotation", *[""] * 6])
            continue
        waves = wavelengths(rope)
        rotated = waves[np.isfinite(waves)]
        trained = rope.trained or rope.longest
        found.append(
            [
                who,
                rope.method,
                _short(rope.base, 10),
                f"{len(rotated)} of {rope.head_dim // 2}{_sections(rope)}",
                f"{_short(rotated[0], 4)} to {_short(rotated[-1], 4)}",
                f"{(waves <= trained).sum()} in {trained:,}"
                if trained
                else "not given",
                _short(rope.attention_factor, 6),
                rope.layout or "not given",
            ]
        )
    return found


def summary(reading: Reading) -> str:
    """Return the format, the family and the numbers of kinds and warnings, in words."""
    kinds, warnings = len(reading.kinds), len(reading.warnings)
    family = f", family {reading.family}" if reading.family else ""
    return (
        f"Format: {reading.format}{family}; {kinds} kind{'s' * (kinds != 1)} of "
        f"layers, {warnings} warning{'s' * (warnings != 1)}."
    )


def wavelengths(rope: RotaryConfig) -> Float[np.ndarray, "pairs"]:
    """Return the tokens in a full turn of each pair; infinity at frequency 0."""
    with np.errstate(divide="ignore"):
        return 2 * np.pi / rope.frequencies()


def dots(rope: RotaryConfig) -> str:
    """Return the SVG path of a kind's pairs."""
    waves = wavelengths(rope)
    last = max(len(waves) - 1, 1)
    return "".join(
        f"M{46 + 340 * p / last:.1f},{_y(wave):.1f}h.01" for p, wave in enumerate(waves)
    )


def _sections(rope: RotaryConfig) -> str:
    """The order and numbers of pairs by coordinate, if there are several."""
    counts = ", ".join(map(str, rope.sections))
    return f"; {rope.order} {counts}" if counts else ""


def _short(x: float, digits: int) -> str:
    """A number with some digits and separators of thousands."""
    return f"{float(f'{x:.{digits}g}'):,.12g}"


def _line(rope: RotaryConfig | None) -> str:
    trained = rope and (rope.trained or rope.longest)
    return f"M46,{_y(trained):.1f}H386" if trained else ""


def _y(wave: float) -> float:
    return 172 - 18 * float(np.clip(np.log10(wave), 0.5, 9))


def _frequencies(reading: Reading) -> str:
    blocks = (
        "\n".join([name, *map(repr, rope.frequencies().tolist())])
        for name, rope in reading.kinds.items()
        if rope is not None
    )
    return html.escape("\n\n".join(blocks))


def _text(example: str) -> str:
    return json.dumps(EXAMPLES[example][1], indent=1)


def _file(name: str) -> str:
    return files("posedu.book.explorables").joinpath(name).read_text("utf-8")
