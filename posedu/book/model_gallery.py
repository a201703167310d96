"""Small pictures of how models rotate, each drawn from the model's configuration."""

import html
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from jaxtyping import Float

from posedu._argument_types import check_types
from posedu._result_table import Table
from posedu.book.figures import INKS, table
from posedu.tools import read_rope
from posedu.tools.configs.rotary_config import Reading, RotaryConfig

PUBLISHED, CLASS_DEFAULT = "published", "class default"

FULL, WINDOW, SELECTED = "full", "window", "selected keys"
UNROTATED, RECURRENT, MLP = "no rotation", "recurrence", "MLP"
ROLES = {
    "full_attention": FULL,
    "sliding_attention": WINDOW,
    "chunked_attention": WINDOW,
    "indexed_attention": SELECTED,
    "compressed_sparse_attention": SELECTED,
    "heavily_compressed_attention": SELECTED,
    "linear_attention": RECURRENT,
    "mamba": RECURRENT,
    "conv": RECURRENT,
    "mlp": MLP,
    "moe": MLP,
}
"""Roles of layers by their types in transformers."""

ROTATED = (FULL, SELECTED, WINDOW)
OWN = {
    "main": ("sliding_attention",),
    "compress": ("compressed_sparse_attention", "heavily_compressed_attention"),
}
"""Types of layers by the names that DeepSeek-V4 gives their RoPE parameters."""

MARKS = {
    # The top and the height of a layer's bar, and its color.
    FULL: (0, 14, INKS[0]),
    SELECTED: (4, 10, INKS[2]),
    WINDOW: (7, 7, INKS[1]),
    RECURRENT: (10, 4, INKS[3]),
    MLP: (12.5, 1.5, "currentColor"),
    UNROTATED: (0.5, 13, "none"),
}
LEGEND = {
    FULL: "full attention, rotated",
    SELECTED: "attention to selected or compressed keys, rotated",
    WINDOW: "attention within a window or chunk, rotated",
    UNROTATED: "attention without rotation",
    RECURRENT: "recurrence, linear attention or convolution",
    MLP: "MLP alone",
}

LEFT, RIGHT, TOP, BOTTOM, STRIP = 34, 172, 6, 94, 104
LOWEST, HIGHEST = 0.5, 8.5  # powers of ten of the wavelength
WIDEST = 12  # of a layer, so that few layers look like layers
TICKS = {1: "10", 3: "10³", 5: "10⁵", 7: "10⁷"}


@dataclass(frozen=True)
class Model:
    """A model's configuration, as it was read, and the type of each of its layers.

    Parameters
    ----------
    name
        The model's name, or that of its family.
    origin
        ``"published"``, or ``"class default"``: what the family's class in transformers
        fills into an empty configuration, which need not be any published model's.
    reading
        What :func:`posedu.tools.read_rope` reads of the configuration.
    layer_types
        The type of each layer, a key of ``ROLES``.
    """

    name: str
    origin: str
    reading: Reading
    layer_types: tuple[str, ...]

    @property
    def roles(self) -> tuple[str, ...]:
        """The role of each layer, a key of ``LEGEND``."""
        return tuple(
            UNROTATED
            if self.reading.kinds[kind] is None and _attends(layer)
            else ROLES[layer]
            for layer, kind in zip(self.layer_types, self._kinds(), strict=True)
        )

    @property
    def ropes(self) -> dict[str, RotaryConfig]:
        """The rotary embeddings by the role of the layers that have them.

        If layers of several roles have the same one, it is under the first of these
        roles in ``LEGEND``.
        """
        found: dict[str, RotaryConfig] = {}
        layers = [*zip(self.roles, self._kinds(), strict=True)]
        for role in LEGEND:
            for kind in dict.fromkeys(own for of, own in layers if of == role):
                rope = self.reading.kinds[kind]
                if rope is None or rope in found.values() or role not in ROTATED:
                    continue
                found[role] = rope
        return found

    @property
    def trained(self) -> int | None:
        """The training length, ``max_position_embeddings`` if there is no other."""
        ropes = self.ropes.values()
        lengths = [rope.trained for rope in ropes] + [rope.longest for rope in ropes]
        return next(filter(None, lengths), None)

    def turns(self, role: str) -> Float[np.ndarray, "pairs"]:
        """Return how often each rotated pair turns in training, before scaling.

        ``role`` is a key of ``ropes``.

        Raises
        ------
        ValueError
            The model's training length is not known.
        """
        if self.trained is None:
            raise ValueError(f"the training length of {self.name} is not known")
        rope = self.ropes[role]
        unscaled = rope.unscaled()[rope.frequencies() != 0]
        return self.trained * unscaled / (2 * np.pi)

    def _kinds(self) -> list[str]:
        """Return the kind of each layer, a key of the reading's ``kinds``."""
        if self.reading.layers:
            return [*self.reading.layers]
        first, *_ = kinds = [*self.reading.kinds]
        return [
            next(
                (kind for kind in kinds if layer == kind or layer in OWN.get(kind, ())),
                first,
            )
            for layer in self.layer_types
        ]


def _attends(layer: str) -> bool:
    return ROLES[layer] not in (RECURRENT, MLP)


@check_types
def load_models(path: str | Path) -> list[Model]:
    """Return the models of a file that ``tests/oracles/as_shipped.py`` has written."""
    stored = json.loads(Path(path).read_text("utf-8"))
    return [
        Model(
            row["name"],
            row["origin"],
            read_rope(row["config"]),
            tuple(row["layer_types"]),
        )
        for row in stored["models"]
    ]


@check_types
def made_of(path: str | Path) -> str:
    """Return a caption that names the sources of the file of models, and its date."""
    made = json.loads(Path(path).read_text("utf-8"))["made"]
    return (
        f"Class defaults of transformers {made['transformers']}, {made['date']}; "
        f"published files as kept by {made['source']}, commit {made['commit'][:8]}."
    )


@check_types
@dataclass(frozen=True)
class Gallery:
    """A picture of each model, in columns as many as fit; shown as HTML."""

    models: Sequence[Model]
    caption: str

    def _repr_html_(self) -> str:
        panels = "".join(map(panel, self.models))
        style = files("posedu.book").joinpath("model_gallery.css").read_text("utf-8")
        return (
            f'<style>{style}</style><figure class="posedu-figure posedu-gallery">'
            f"{legend()}<ul>{panels}</ul>"
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )


@check_types
def legend() -> str:
    """Return the HTML of the legend: the bar of each role, and what it stands for."""
    items = "".join(
        '<li><svg viewBox="0 0 6 14" aria-hidden="true">'
        f"{_bars(role, [1], 4, 0)}</svg>{meaning}</li>"
        for role, meaning in LEGEND.items()
    )
    return f'<ul class="legend">{items}</ul>'


@check_types
def panel(model: Model) -> str:
    """Return the HTML of one model: its pairs, its layers, and both in words."""
    ticks = "".join(
        f'<text x="{LEFT - 4}" y="{_y(10.0**power) + 4:.0f}">{label}</text>'
        f'<path class="grid" d="M{LEFT},{_y(10.0**power):.1f}H{RIGHT}"/>'
        for power, label in TICKS.items()
    )
    dots = "".join(
        f'<path class="pairs" d="{_dots(rope)}" stroke="{MARKS[role][2]}"/>'
        for role, rope in model.ropes.items()
    )
    line = ""
    if model.trained is not None:
        line = f'<path class="trained" d="M{LEFT},{_y(model.trained):.1f}H{RIGHT}"/>'
    step = (RIGHT - LEFT) / len(model.layer_types)
    bars = "".join(
        _bars(
            role,
            [LEFT + n * step for n, own in enumerate(model.roles) if own == role],
            0.8 * min(step, WIDEST),
            STRIP,
        )
        for role in dict.fromkeys(model.roles)
    )
    below = bases(model) if model.ropes else model.reading.order
    return (
        f"<li><strong>{html.escape(model.name)}</strong> {model.origin}"
        f'<svg viewBox="0 0 176 120" role="img" aria-label="{describe(model)}">'
        f"{ticks}{line}{dots}{bars}</svg>"
        f"{html.escape(below)}</li>"
    )


@check_types
def describe(model: Model) -> str:
    """Return a sentence that says what is seen in a model's picture."""
    if not model.ropes:
        return html.escape(f"{model.name}: no pairs. Layers: {layers(model)}.")
    pairs = "; ".join(
        f"{_layers_of(role, model)}{(rope.frequencies() != 0).sum()} pairs, "
        f"wavelengths {_range(rope)} tokens"
        for role, rope in model.ropes.items()
    )
    line = f"; line at {model.trained:,} tokens" if model.trained else ""
    return html.escape(f"{model.name}: {pairs}{line}. Layers: {layers(model)}.")


def _layers_of(role: str, model: Model) -> str:
    return f"{role}: " if len(model.ropes) > 1 else ""


def _range(rope: RotaryConfig) -> str:
    omega = rope.frequencies()
    waves = 2 * np.pi / omega[omega != 0]
    return f"{waves.min():,.3g} to {float(f'{waves.max():.2g}'):,.0f}"


@check_types
def layers(model: Model) -> str:
    """Return the number of layers of each role, in words."""
    counted = Counter(model.roles)
    return ", ".join(f"{counted[r]} {r}" for r in LEGEND if r in counted)


@check_types
def bases(model: Model) -> str:
    """Return the base of each rotary embedding, with its layers if there are two."""
    found = {role: f"{rope.base:,.10g}" for role, rope in model.ropes.items()}
    if len({*found.values()}) == 1:
        return f"base {next(iter(found.values()))}"
    return "; ".join(f"base {base} ({role})" for role, base in found.items())


@check_types
def overview(models: Sequence[Model], *, caption: str) -> Table:
    """Return a table with a row for each model: its rotary embeddings and layers."""
    columns: dict[str, list[str]] = {
        name: []
        for name in (
            *("model", "origin", "training length", "base", "method"),
            *("rotated features", "full turn", "factor", "layout", "layers"),
        )
    }
    for model in models:
        ropes = [*model.ropes.values()]
        turns = [model.turns(role) for role in model.ropes]
        cells = (
            model.name,
            model.origin,
            f"{model.trained:,}" if model.trained else "–",
            _each(f"{rope.base:,.10g}" for rope in ropes),
            _each(rope.method for rope in ropes)
            if ropes
            else _each(each.kind for each in model.reading.encodings),
            _each(f"{_rotated(rope)} of {rope.head_dim}" for rope in ropes),
            _each(f"{(turn >= 1).sum()} of {len(turn)}" for turn in turns),
            _each(f"{rope.attention_factor:.4g}" for rope in ropes),
            _each(rope.layout or "not given" for rope in ropes),
            layers(model),
        )
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    words = ("base", "rotated features", "full turn", "layers")
    return table(columns, caption=caption, words=words)


def _rotated(rope: RotaryConfig) -> int:
    """Return how many features of a head are rotated."""
    omega = rope.frequencies()
    return min(2 * int((omega != 0).sum()), rope.width)


def _each(cells: Iterable[str]) -> str:
    """Join the cells of a model's rotary embeddings; equal ones once."""
    return "; ".join(dict.fromkeys(cells)) or "–"


def _y(wave: float) -> float:
    power = float(np.clip(np.log10(wave), LOWEST, HIGHEST))
    return BOTTOM - (BOTTOM - TOP) * (power - LOWEST) / (HIGHEST - LOWEST)


def _dots(rope: RotaryConfig) -> str:
    """Return the path of the dots of the pairs that rotate, by frequency."""
    omega = rope.frequencies()
    step = (RIGHT - LEFT) / max(len(omega) - 1, 1)
    return "".join(
        f"M{LEFT + step * p:.1f},{_y(2 * np.pi / w):.1f}h.01"
        for p, w in enumerate(omega)
        if w
    )


def _bars(role: str, starts: Sequence[float], width: float, top: float) -> str:
    """Return the path of the bars of layers of one role."""
    down, height, color = MARKS[role]
    path = "".join(
        f"M{x:.1f},{top + down:g}h{width:.2f}v{height:g}h-{width:.2f}z" for x in starts
    )
    stroke = ' stroke="currentColor"' if color == "none" else ""
    return f'<path d="{path}" fill="{color}"{stroke}/>'
