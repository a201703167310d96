"""Interactive page element: shows the RoPE settings in a pasted config.json."""

import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float

from posedu._result_table import Table
from posedu.book.explorables.frame import Choice, Explorable, Text, explorable
from posedu.book.figures import INKS
from posedu.tools.configs import families
from posedu.tools.configs._rope_parameters import STALE_KEYS
from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import CODES, Reading, Remark, RotaryConfig

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
    "yarn": (
        "Qwen 2.5 with YaRN",
        {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "num_attention_heads": 28,
            "max_position_embeddings": 32768,
            "rope_theta": 1000000.0,
            "rope_scaling": {
                "type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32768,
            },
        },
    ),
    "linear": (
        "Llama 2, positions divided by 4",
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "max_position_embeddings": 4096,
            "rope_scaling": {"type": "linear", "factor": 4.0},
        },
    ),
    "dynamic": (
        "frequencies that change with the text",
        {
            "model_type": "llama",
            "head_dim": 128,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "dynamic",
                "rope_theta": 10000.0,
                "factor": 2.0,
            },
        },
    ),
    "default": (
        "Mistral 7B, no scaling",
        {
            "model_type": "mistral",
            "head_dim": 128,
            "max_position_embeddings": 32768,
            "sliding_window": None,
            "rope_theta": 1000000.0,
        },
    ),
}
"""Titles and configurations to try; the page shows the first one."""

HEADINGS = (
    "method",
    "base",
    "pairs",
    "wavelengths",
    "full turn in training",
    "attention factor",
    "layout",
)

CODES_PAGE = "command.html"
"""Page with the table of ``warning_codes``, beside the page of the config reader."""

FAMILIES = (
    "arcee",
    "cohere",
    "gemma",
    "granite",
    "llama",
    "mistral",
    "mixtral",
    "olmo",
    "olmo2",
    "olmoe",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "seed_oss",
    "starcoder2",
)
"""Model families that the page reads: every layer rotates whole heads alike."""


def known() -> dict[str, Any]:
    """Return the data that the page's script needs: a warning's text, model families.

    A model family has the base, head dimension and layout that its models use where
    their config.json does not give these.
    """
    return {
        "staleKeys": STALE_KEYS,
        "families": {
            name: {
                key: value
                for key in ("base", "head_dim", "layout")
                if (value := getattr(families.family(name), key))
            }
            for name in FAMILIES
        },
    }


@dataclass(frozen=True)
class _Codes(Table):
    """Table of the codes of warnings, whose rows have ids for links."""

    def caption(self) -> str:
        return "Codes of warnings, and what they mean"

    def words(self) -> frozenset[str]:
        return frozenset({"meaning"})

    def rows(self) -> Iterator[tuple[str, ...]]:
        yield "code", "meaning"
        yield from CODES.items()

    def _repr_html_(self) -> str:
        shown = super()._repr_html_()
        for code in CODES:
            row = f"<tr><td>{code}</td>"
            shown = shown.replace(row, f'<tr id="code-{code}"><td>{code}</td>')
        return shown


def warning_codes() -> Table:
    """Return the table of the codes of warnings, to which the page's warnings link."""
    return _Codes()


def config_page() -> Explorable:
    """Return the explorable that reads a pasted config.json as ``read_rope`` does.

    A script in the page reads the RoPE types default, linear, dynamic, yarn and llama3
    of the model families in ``FAMILIES`` and sends every other configuration to
    ``posedu config``. Tests compare the script with
    :func:`posedu.tools.read_rope`. Pasted text does not leave the page.
    """
    (first, (_, config)), *_ = EXAMPLES.items()
    reading = read_rope(config)
    rope = reading.kinds["all"]
    paths = (
        f'<path class="length" d="{training_line(rope)}" stroke="{INKS[0]}"/>'
        f'<path class="unscaled" d="{dots(rope.unscaled())}" stroke="{INKS[1]}"'
        ' stroke-linecap="round" style="stroke-width:4"/>'
        f'<path class="pairs" d="{dots(rope.frequencies())}" stroke="{INKS[0]}"'
        ' stroke-linecap="round" style="stroke-width:4"/>'
    )
    marks = "".join(
        f'<text x="40" y="{_y(10.0**n) + 4:.0f}" style="text-anchor:end">{label}</text>'
        for n, label in ((1, "10"), (3, "1000"), (5, "10⁵"), (7, "10⁷"), (9, "∞"))
    )
    heads = "".join(f'<th scope="col">{title}</th>' for title in HEADINGS)
    body = "".join(
        f'<td data-head="{HEADINGS[n]}">{html.escape(cell)}</td>'
        if n
        else f'<th scope="row">{html.escape(cell)}</th>'
        for n, cell in enumerate(rows(reading)[0])
    )
    remarks = "".join(map(_remark, reading.remarks))
    below = f"""<svg class="plot" viewBox="0 0 400 196" role="img" aria-label="A dot for
 each pair, with the highest frequency on the left; the height is its wavelength. A
 second dot shows a pair before scaling. A horizontal line is the training length.">
{marks}<text x="216" y="190">pairs, by frequency; height: tokens in a full turn</text>
{paths}</svg>
<style>{_file("config_reader.css")}</style>
<div class="rope" tabindex="0" role="region" aria-label="RoPE of this configuration">
<table><thead><tr>{heads}</tr></thead><tbody><tr>{body}</tr></tbody></table></div>
<ul>{remarks}</ul>
<details><summary>Every frequency, in radians per position</summary>
<pre>{_frequencies(rope)}</pre></details>
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
        caption="A blue dot for each pair as the model rotates it; if scaling changed "
        "it, an orange one for the pair before. A pair that was above the line, the "
        "length of training, before scaling did not complete a full turn in training. "
        "The text that you paste is read in this page and sent nowhere.",
        numbers={
            "known": known(),
            "examples": {name: _text(name) for name in EXAMPLES},
            "headings": HEADINGS,
            "codes": CODES_PAGE,
        },
        below=below,
        script=_file("read_rope.js") + _file("config_reader.js"),
    )


def _remark(remark: Remark) -> str:
    """Return a remark as a list item, with a link from its code to its meaning."""
    text = html.escape(str(remark))
    link = f'<a href="{CODES_PAGE}#code-{remark.code}">{remark.code}</a>'
    return f"<li>{text.replace(f'[{remark.code}]', f'[{link}]', 1)}</li>"


def rows(reading: Reading) -> list[list[str]]:
    """Return the cells of the page's table of RoPE settings: one row, for all layers.

    ``reading`` is a configuration that ``read_rope`` has read; its RoPE must be the
    same in all layers.
    """
    rope = reading.kinds["all"]
    waves = wavelengths(rope.frequencies())
    trained, rotations = rope.trained or rope.longest, rope.rotations()
    return [
        [
            rope.method,
            _short(rope.base, 10),
            str(len(waves)),
            f"{_short(waves[0], 4)} to {_short(waves[-1], 4)}",
            f"{(rotations >= 1).sum()} in {trained:,}" if trained else "not given",
            _short(rope.attention_factor, 6),
            rope.layout or "not given",
        ]
    ]


def summary(reading: Reading) -> str:
    """Describe a read config: its format, model family and number of warnings."""
    warnings = len(reading.warnings)
    family = f", family {reading.family}" if reading.family else ""
    return (
        f"Format: {reading.format}{family}; {warnings} warning{'s' * (warnings != 1)}."
    )


def wavelengths(
    frequencies: Float[np.ndarray, "pairs"],
) -> Float[np.ndarray, "pairs"]:
    """Return each feature pair's wavelength in tokens; infinity at frequency 0.

    ``frequencies`` are in radians per position.
    """
    with np.errstate(divide="ignore"):
        return 2 * np.pi / frequencies


def dots(frequencies: Float[np.ndarray, "pairs"]) -> str:
    """Return the SVG path with a dot for each pair of features that RoPE rotates.

    ``frequencies`` are in radians per position. Pairs are from left to right; a dot's
    height is the logarithm of the pair's wavelength.
    """
    waves = wavelengths(frequencies)
    last = max(len(waves) - 1, 1)
    return "".join(
        f"M{46 + 340 * p / last:.1f},{_y(wave):.1f}h.01" for p, wave in enumerate(waves)
    )


def _short(x: float, digits: int) -> str:
    """Format a number with at most ``digits`` significant digits.

    Thousands are separated by commas.
    """
    return f"{float(f'{x:.{digits}g}'):,.12g}"


def training_line(rope: RotaryConfig) -> str:
    """Return the SVG path of a horizontal line at RoPE's training length.

    If ``rope`` lacks the training length, the config's longest text (such as
    ``max_position_embeddings``) takes its place; without either the path is "".
    """
    trained = rope.trained or rope.longest
    return f"M46,{_y(trained):.1f}H386" if trained else ""


def _y(wave: float) -> float:
    return 172 - 18 * float(np.clip(np.log10(wave), 0.5, 9))


def _frequencies(rope: RotaryConfig) -> str:
    return "\n".join(map(repr, rope.frequencies().tolist()))


def _text(example: str) -> str:
    return json.dumps(EXAMPLES[example][1], indent=1)


def _file(name: str) -> str:
    return files("posedu.book.explorables").joinpath(name).read_text("utf-8")
