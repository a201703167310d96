"""Description of a conversion: pairs before and after, and dimensions of heads."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from posedu._argument_types import check_types
from posedu._arguments import (
    Layout,
    RotatedEnd,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.numpy.rotary import pairs
from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import ConfigError, Reading, RotaryConfig

FusedOrder = Literal["stacked", "grouped"]
PerLayer = int | Mapping[int, int]

CLOCKWISE = ("nanochat",)
"""Families of transformers whose code rotates clockwise, which no file says."""


class ConvertError(ValueError):
    """Raised for a checkpoint whose conversion could change a logit; says why."""


@check_types
@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Layout of the pairs of a head's rotated features, and the direction of rotation.

    Parameters
    ----------
    layout
        ``"half"``: feature p pairs with feature p + w/2 of the w rotated features;
        ``"interleaved"``: neighbors form a pair.
    clockwise
        Whether positive positions rotate (a, b) to (a cos + b sin, …), opposite to
        RoFormer and transformers. Default: no.

    Raises
    ------
    ValueError, TypeError
        The layout is unknown, or ``clockwise`` is not a boolean.
    """

    layout: Layout
    clockwise: bool = False

    def __post_init__(self) -> None:
        require_choice("layout", self.layout, Layout)
        require_bool("clockwise", self.clockwise)

    def __str__(self) -> str:
        return f"{self.layout}, clockwise" if self.clockwise else self.layout

    def features(self, width: int) -> Int[np.ndarray, "two pairs"]:
        """Return the indices of the first and second feature of each pair.

        ``width`` is the number of rotated features. Positive positions rotate the first
        feature toward the second.
        """
        both = np.stack(pairs(width, layout=self.layout))
        return both[::-1] if self.clockwise else both


@check_types
@dataclass(frozen=True, kw_only=True)
class Fused:
    """Order of the heads in matrices with rows of queries, keys and values.

    Parameters
    ----------
    order
        ``"stacked"``: all queries, then all keys, then all values, as in Phi-3;
        ``"grouped"``: for each head of keys its heads of queries, then the key, then
        the value, as in GPT-NeoX, Falcon, Megatron-LM and InternLM2.
    heads, kv_heads
        Number of heads of queries, and of heads of keys.

    Raises
    ------
    ValueError, TypeError
        The order is unknown, or ``heads`` is not a positive multiple of ``kv_heads``.
    """

    order: FusedOrder
    heads: int
    kv_heads: int

    def __post_init__(self) -> None:
        require_choice("order", self.order, FusedOrder)
        require_dimension("kv_heads", self.kv_heads, 1)
        require_dimension("heads", self.heads, self.kv_heads)

    def rotated_heads(self) -> tuple[bool, ...]:
        """Return for each head of the matrix, from the first row on, if it is rotated.

        Heads of queries and keys are rotated, those of values are not.
        """
        if self.order == "stacked":
            rotated = self.heads + self.kv_heads
            return (True,) * rotated + (False,) * self.kv_heads
        group = (True,) * (self.heads // self.kv_heads + 1) + (False,)
        return group * self.kv_heads


@check_types
@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A conversion between RoPE's layouts of pairs.

    Parameters
    ----------
    source, target
        The pairs of the checkpoint, and the pairs that it should have.
    head_dim
        Head dimension of queries and keys: one number, or a number for each layer by
        the layer's index. The number of heads does not matter, and keys may have fewer
        heads.
    width
        Number of rotated features: one number, or a number for each layer, where 0
        stands for a layer without rotation. Default: all.
    rotated
        Which features are rotated: ``"leading"`` (default) or ``"trailing"``, as in
        latent attention.
    within
        Prefix of the names to convert, such as ``"model.language_model."``; ``*``
        stands for any text without a dot. Other tensors stay as they are. Default: all
        names.
    fused
        Order of the heads in matrices with rows of queries, keys and values. Such
        matrices are refused by default.

    Raises
    ------
    ValueError, TypeError
        ``head_dim`` is not positive; ``width`` is not positive, not even or above
        ``head_dim``; ``rotated`` is unknown; or ``within`` is not text.
    """

    source: Pairs
    target: Pairs
    head_dim: PerLayer
    width: PerLayer | None = None
    rotated: RotatedEnd = "leading"
    within: str = ""
    fused: Fused | None = None

    def __post_init__(self) -> None:
        require_choice("rotated", self.rotated, RotatedEnd)
        if not isinstance(self.within, str):
            raise TypeError(f"`within` must be text, got {self.within!r}")
        by_layer = [v for v in (self.head_dim, self.width) if isinstance(v, Mapping)]
        layers = by_layer[0].keys() if by_layer else (None,)
        if any(layers != sizes.keys() for sizes in by_layer):
            raise ValueError("`head_dim` and `width` must be for the same layers")
        for layer in layers:
            at = "" if layer is None else f"[{layer}]"
            head_dim, width = self.head(layer)
            require_dimension(f"head_dim{at}", head_dim, 1)
            if width or not isinstance(self.width, Mapping):
                require_dimension(f"width{at}", width, 2)
            if width > head_dim:
                raise ValueError(
                    f"`width`{at} must be at most head_dim = {head_dim}, got {width}"
                )

    @classmethod
    def from_config(
        cls,
        config: str | Path | Mapping[str, Any] | object,
        *,
        target: Pairs,
        source: Pairs | None = None,
        within: str = "",
        fused: Fused | None = None,
    ) -> "Conversion":
        """Return the conversion of a checkpoint with this configuration.

        Dimensions of heads, numbers of rotated features and layers without rotation are
        those of the configuration.

        Parameters
        ----------
        config
            A configuration that :func:`posedu.tools.read_rope` reads: a path, the
            content of a file, or an object with a method ``to_dict``.
        target
            The pairs that the checkpoint should have.
        source
            The pairs of the checkpoint. Default: those of the model family.
        within, fused
            As for :class:`Conversion`.

        Raises
        ------
        ConfigError
            The configuration cannot be read, or its rotary embedding not computed.
        ConvertError
            The configuration has no rotary embedding, or does not determine the pairs
            or which layers have which heads.
        OSError
            The file cannot be read.
        """
        reading = read_rope(config)
        kinds, layers = _text_kinds(reading)
        nope = _unrotated_features(config)
        head_dims = {n: rope.head_dim + nope for n, rope in kinds.items() if rope}
        largest = max(head_dims.values())
        widths = {name: rope.width if rope else 0 for name, rope in kinds.items()}
        return cls(
            source=source or _family_pairs(reading, kinds),
            target=target,
            head_dim=_per_layer({n: head_dims.get(n, largest) for n in kinds}, layers),
            width=_per_layer(widths, layers),
            rotated="trailing" if nope else "leading",
            within=within,
            fused=fused,
        )

    def head(self, layer: int | None = None) -> tuple[int, int]:
        """Return the head dimension and the number of rotated features of a layer.

        ``layer`` is the index of the layer. It may be ``None`` if all layers have the
        same heads.

        Raises
        ------
        ConvertError
            There are no numbers for this layer.
        """
        sizes = []
        for name, given in (("head_dim", self.head_dim), ("width", self.width)):
            if isinstance(given, Mapping):
                if layer not in given:
                    where = "no single layer" if layer is None else f"layer {layer}"
                    raise ConvertError(f"is of {where}, and `{name}` is by layer")
                given = given[layer]
            sizes.append(given)
        head_dim, width = sizes
        return head_dim, head_dim if width is None else width

    def order(
        self, features: int, start: int, layer: int | None = None
    ) -> Int[np.ndarray, "features"]:
        """Return the index before conversion of each feature of a head.

        ``features`` is the number of the head's features. The rotated features begin at
        index ``start``; all others stay in place. ``layer`` is the index of the layer,
        for heads that differ by layer.

        Raises
        ------
        ValueError, TypeError
            The rotated features do not lie within the head.
        """
        require_dimension("features", features, 1)
        _, width = self.head(layer)
        if not 0 <= start <= features - width:
            raise ValueError(
                f"start must be from 0 to {features - width}, since {width} of "
                f"{features} features are rotated, got {start}"
            )
        return permutation(self, features, (start,), width)

    def concerns(self, name: str) -> bool:
        """Return whether the tensor ``name`` lies within ``within``."""
        pattern = "[^.]*".join(map(re.escape, self.within.split("*")))
        return re.match(pattern, name) is not None


def permutation(
    conversion: Conversion, length: int, starts: tuple[int, ...], width: int
) -> Int[np.ndarray, "length"]:
    """Return the index before conversion of each of ``length`` features.

    In each place of ``starts`` ``width`` rotated features of a head begin; all others
    stay in place.
    """
    source = np.arange(length)
    if width:
        here = conversion.source.features(width)
        there = conversion.target.features(width)
        for start in starts:
            source[start + there] = start + here
    return source


def _text_kinds(
    reading: Reading,
) -> tuple[Mapping[str, RotaryConfig | None], tuple[str, ...]]:
    """Return the kinds of layers of the text model, and each layer's kind.

    The kinds of a model without a text part are all its kinds. The layers are empty if
    there is one kind.
    """
    text = {k: v for k, v in reading.kinds.items() if k.startswith("text_config")}
    kinds = text or reading.kinds
    if not any(kinds.values()):
        raise ConvertError("the configuration has no layer with rotation")
    if any(rope and rope.order == "separate" for rope in kinds.values()):
        raise ConvertError(
            "the configuration has separate pairs for each coordinate of a position, "
            "which are not converted"
        )
    if len(kinds) == 1:
        return kinds, ()
    if not reading.layers or not {*reading.layers} <= {*kinds}:
        raise ConvertError(
            f"the configuration has several kinds of layers ({', '.join(kinds)}) and "
            "does not list which layer has which: give head_dim and width by layer"
        )
    return kinds, reading.layers


def _per_layer(sizes: Mapping[str, int], layers: tuple[str, ...]) -> PerLayer:
    """Return the size of every layer, one number if it is the same in all layers.

    ``sizes`` are the sizes by kind of layer, ``layers`` the kind of each layer.
    """
    if len({*sizes.values()}) == 1:
        return next(iter(sizes.values()))
    return {n: sizes[kind] for n, kind in enumerate(layers)}


def _family_pairs(reading: Reading, kinds: Mapping[str, RotaryConfig | None]) -> Pairs:
    """Return the pairs that the code of a configuration's model family has."""
    layouts = {rope.layout for rope in kinds.values() if rope}
    if len(layouts) != 1 or layouts == {""}:
        raise ConvertError(
            "the configuration does not determine the layout of pairs: give `source`"
        )
    return Pairs(layout=layouts.pop(), clockwise=reading.family in CLOCKWISE)


def _unrotated_features(config: object) -> int:
    """Return the number of unrotated features of a head in latent attention, or 0."""
    if isinstance(config, str | Path):
        path = Path(config)
        file = path / "config.json" if path.is_dir() else path
        config = json.loads(file.read_bytes()) if file.exists() else {}
    elif not isinstance(config, Mapping):
        config = config.to_dict()
    for part in (config.get("text_config"), config):
        if isinstance(part, Mapping) and part.get("qk_rope_head_dim") is not None:
            nope = part.get("qk_nope_head_dim")
            if type(nope) is not int or nope < 1:
                raise ConfigError(
                    f"qk_nope_head_dim must be a positive integer, got {nope!r}"
                )
            return nope
    return 0
