"""Configurations of transformers, of version 4 and of version 5."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posedu.numpy.rotary import yarn_attention_factor
from posedu.tools.configs._fields import count, features, first, mapping, number, shown
from posedu.tools.configs._rope_parameters import Parameters, rope
from posedu.tools.configs.families import Family
from posedu.tools.configs.families import family as family_of
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    Reading,
    Remark,
    RotaryConfig,
    Temperature,
)

EVERY = "all"
SUBCONFIG = "_config"
TEXT = "text_config"
SIDES = ("encoder", "decoder")
"""Names of configurations inside another, besides those that end so."""
WIDTHS = ("rotary_dim", "rotary_ndims")
"""Names of how many features of a head turn, before version 5."""
SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct")
HEADS = (
    *("num_attention_heads", "n_head", "n_heads", "num_heads"),
    *("encoder_num_attention_heads", "memory_attention_num_attention_heads"),
)
HIDDEN = (
    *("embed_dim", "hidden_size", "n_embd", "d_model", "dim", "hidden_dim"),
    "memory_attention_hidden_size",
)
HEAD_DIMS = ("head_dim", "attention_head_dim", "kv_channels")
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
BASES = ("rope_theta", "rotary_emb_base", "rope_base", "rotary_base")
DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
MOST_LAYERS = 4096
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta")
PLAIN_SCALES = ("dots3_note_text", "glm5_next_text", "kimi_linear")
"""Families of latent attention whose softmax does not look at ``mscale_all_dim``."""

Config = Mapping[str, Any]


def is_config(config: Config) -> bool:
    """Whether it looks like one."""
    own = (*BASES, *SHARES, "rope_parameters", "rope_scaling", "model_type")
    return any(name in config for name in own) or bool(_parts(config))


def read(config: Config) -> Reading:
    """What it says, its parts by their names if it has several.

    Raises
    ------
    ConfigError
        Nothing of it is about rotation, or what is cannot be computed.
    """
    remarks: list[Remark] = []
    kinds: dict[str, RotaryConfig | None] = {}
    layers: tuple[str, ...] = ()
    parts = {"": config, **_parts(config)}
    families = {name: _family(config, name, part) for name, part in parts.items()}
    told = {
        name: part
        for name, part in parts.items()
        if _says_something(part, families[name])
    }
    if len(told) > 1 and "" in told and not _has_heads(config):
        del told[""]
        remarks.append(
            Remark(
                WARNING,
                "what stands beside the parts is no part's, for it has no heads: "
                "ignored",
            )
        )
    if not told:
        raise ConfigError(_why_nothing(parts, families))
    temperature = None
    for name, part in told.items():
        own = _Part(name, part, families[name], remarks)
        found, of_layers = own.read()
        kinds |= found
        layers = layers or of_layers
        temperature = temperature or own.temperature()
    family = config.get("model_type")
    version = "5" if any("rope_parameters" in part for part in told.values()) else "4"
    return Reading(
        spelling=f"transformers {version}",
        family=family if isinstance(family, str) else "",
        kinds=kinds,
        layers=layers,
        temperature=temperature,
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _parts(config: Config) -> dict[str, Config]:
    """Configurations inside it, those inside them by their joined names."""
    found = {}
    for name, value in config.items():
        inside = name.endswith(SUBCONFIG) or name in SIDES
        if inside and isinstance(value, Mapping):
            found[name] = value
            for inner, part in _parts(value).items():
                found[f"{name}.{inner}"] = part
    return found


def _family(whole: Config, name: str, part: Config) -> Family:
    """That of a part: of a text, what the whole makes it if it does not say itself."""
    named, said = (config.get("model_type") for config in (whole, part))
    text = family_of(named).text
    its = name == TEXT or (not name and TEXT not in whole)
    if text and its and said in (None, named):
        return family_of(text)
    return family_of(said)


def _why_nothing(parts: Mapping[str, Config], families: Mapping[str, Family]) -> str:
    """What to do with a configuration of which no part says anything."""
    named = {name: part.get("model_type") for name, part in parts.items()}
    bare = [
        (name or "this configuration") + (f" ({named[name]})" if named[name] else "")
        for name, of in families.items()
        if of.base is not None
    ]
    if bare:
        return (
            f"the width of heads is left to the class by {', '.join(bare)}: give the "
            "configuration that transformers completed, "
            "AutoConfig.from_pretrained(folder)"
        )
    if families[""].plain:
        return (
            "nothing in this configuration is about rotation, nor is the code of "
            f"{named['']} in transformers: its positions come in otherwise"
        )
    return (
        "nothing in this configuration is about rotation: none of "
        f"{', '.join((*BASES, 'rope_parameters', 'rope_scaling'))}"
    )


def _says_something(config: Config, family: Family) -> bool:
    """By a name, or because its family turns whatever is said."""
    names = ("rope_parameters", "rope_scaling", *BASES, *LOCAL_BASES)
    if any(config.get(name) is not None for name in names):
        return True
    return family.base is not None and bool(family.head_dim or _has_heads(config))


def _has_heads(config: Config) -> bool:
    return all(first(config, *names) for names in (HEADS, HIDDEN)) or bool(
        first(config, "qk_rope_head_dim", *HEAD_DIMS)
    )


class _Part:
    """A configuration without those inside it."""

    def __init__(
        self, name: str, config: Config, family: Family, remarks: list[Remark]
    ):
        self.name, self.config, self.remarks = name, config, remarks
        self.prefix = f"{name}." if name else ""
        self.family = family
        windowed = config.get("sliding_window") is not None
        self.still = {*self.family.still} if windowed else set()

    def read(self) -> tuple[dict[str, RotaryConfig | None], tuple[str, ...]]:
        """The kinds of layers, and which layers are of which."""
        given, where = self._given()
        if not given and self.family.completes:
            self._warn(
                f"{where} is left out, for which this family's class has more than a "
                "base, not known here: give the configuration that transformers "
                "completed, AutoConfig.from_pretrained(folder)"
            )
        layers = self._layers()
        named = self._nested(given, layers)
        if self._stands_still():
            return {self._title(EVERY): None}, ()
        if [*named] == [EVERY]:
            layers = tuple(kind if kind == "none" else EVERY for kind in layers)
        elif not {*layers} <= {*named, "none"}:
            layers = ()  # rotations have labels of their own, as DeepSeek-V4's
        kinds: dict[str, RotaryConfig | None] = {}
        for kind, of_kind in named.items():
            here = f"{self.prefix}{where}" + ("" if kind == EVERY else f".{kind}")
            rotates = of_kind is not None and kind not in self.still
            kinds[self._title(kind)] = (
                self._rope(here, of_kind, kind, layers) if rotates else None
            )
        if "none" in layers:
            kinds[self._title("none")] = None
        return kinds, tuple(map(self._title, layers))

    def temperature(self) -> Temperature | None:
        """That of Llama 4, in layers without rotation, or of Mistral's, in all."""
        given, where = self._given()
        if self.config.get("attn_temperature_tuning"):
            names = {"alpha": "attn_scale", "length": "floor_scale"}
            said = {
                key: number(self.prefix + name, self.config.get(name))
                for key, name in names.items()
            }
            return Temperature(
                growth="steps", index_from=1, layers=self._title("none"), **said
            )
        beta = given.get("llama_4_scaling_beta")
        if beta is None:
            return None
        name = "original_max_position_embeddings"
        return Temperature(
            growth="steps",
            index_from=0,
            alpha=number(f"{where}.llama_4_scaling_beta", beta),
            length=number(f"{where}.{name}", given.get(name)),
            layers=self._title(EVERY),
        )

    def _title(self, kind: str) -> str:
        if not self.name:
            return kind
        return self.name if kind == EVERY else f"{self.name}: {kind}"

    def _warn(self, text: str) -> None:
        self.remarks.append(Remark(WARNING, f"{self.prefix}{text}"))

    def _given(self) -> tuple[dict[str, Any], str]:
        """The object of parameters, and its name."""
        new, old = (self.config.get(n) for n in ("rope_parameters", "rope_scaling"))
        if new is not None and old is not None and new != old:
            self._warn(
                "rope_parameters and rope_scaling are both there and differ: "
                "transformers 5 takes rope_scaling, version 4 knows nothing else; "
                "rope_parameters is taken here"
            )
        where = "rope_scaling" if new is None and old is not None else "rope_parameters"
        given = old if new is None else new
        return dict(mapping(f"{self.prefix}{where}", given or {})), where

    def _nested(
        self, given: dict[str, Any], layers: tuple[str, ...]
    ) -> dict[str, dict[str, Any] | None]:
        """Parameters by the kind of layer, with what stands beside the object."""
        inner = {k: v for k, v in given.items() if isinstance(v, Mapping)}
        absent = {k for k, v in given.items() if v is None and k in layers}
        said = first(self.config, *LOCAL_BASES)
        local = self.family.local if said is None else said[1]
        if not inner:
            self._compare(given)
        if inner or (absent and absent == {*given}):
            for name in sorted(set(given) - set(inner) - absent):
                if given[name] is not None:
                    self._warn(
                        f"rope_parameters.{name} stands beside kinds of layers: ignored"
                    )
            named: dict[str, dict[str, Any] | None] = {
                k: dict(v) if k in inner else None
                for k, v in given.items()
                if k in inner or k in absent
            }
        elif local is not None:
            named = {
                "full_attention": given,
                "sliding_attention": {"rope_theta": local},
            }
            above = first(self.config, "global_rope_theta")
            if above is not None:
                given.setdefault("rope_theta", above[1])
        elif self.still & {*layers}:
            named = {kind: dict(given) for kind in dict.fromkeys(layers)}
        else:
            named = {EVERY: given}
        for of_kind in named.values():
            if of_kind is not None:
                self._complete(of_kind)
        return named

    def _compare(self, given: Mapping[str, Any]) -> None:
        """Warn of a base beside the object that is not the one in it."""
        base, own = first(self.config, *BASES), given.get("rope_theta")
        if base is not None and own is not None and own != base[1]:
            self._warn(
                f"{base[0]} is {shown(base[1])}, that of rope_parameters {shown(own)}: "
                "the latter holds"
            )

    def _complete(self, given: dict[str, Any]) -> None:
        """Add what stands beside the object, where it does not say so itself."""
        base = first(self.config, *BASES)
        if base is not None and given.get("rope_theta") is None:
            given["rope_theta"] = base[1]
        share = first(self.config, *SHARES)
        if share is not None and given.get("partial_rotary_factor") is None:
            given["partial_rotary_factor"] = share[1]
        trained = self.config.get("original_max_position_embeddings")
        if trained is not None:
            given.setdefault("original_max_position_embeddings", trained)
        sections = first(self.config, "mrope_section")
        if sections is not None:
            given.setdefault("mrope_section", sections[1])

    def _stands_still(self) -> bool:
        """Whether it is said that positions come in by something else."""
        name = "position_embedding_type"
        asked, said = self.family.asks, self.config.get(name)
        other = bool(asked) and said != asked
        if other:
            self.remarks.append(
                Remark(
                    NOTE,
                    f"{self.prefix}{name} is {shown(said)}, not {asked!r}: nothing "
                    "rotates",
                )
            )
        if self.config.get("alibi") is True:
            self.remarks.append(
                Remark(NOTE, f"{self.prefix}alibi is true: nothing rotates")
            )
            return True
        return other

    def _layers(self) -> tuple[str, ...]:
        """The kind of each layer, if the configuration says it."""
        types = self.config.get("layer_types")
        if types is None:
            types = self._pattern()
        bases = self.config.get("layer_rope_theta")
        switch = self.config.get("no_rope_layers")
        if isinstance(types, list) and all(isinstance(t, str) for t in types):
            layers = tuple(types)
        elif isinstance(switch, list) and switch:
            layers = tuple(EVERY for _ in switch)
        elif isinstance(bases, list) and bases:
            layers = tuple(EVERY for _ in bases)
        else:
            return ()
        still = [False] * len(layers)
        for marks in (switch, bases):
            if isinstance(marks, list) and len(marks) == len(layers):
                still = [s or not m for s, m in zip(still, marks, strict=True)]
        return tuple("none" if s else t for t, s in zip(layers, still, strict=True))

    def _pattern(self) -> list[str] | None:
        """Kinds of layers as they were said before there was a list of them."""
        depth = first(self.config, *DEPTHS)
        pattern = self.config.get("sliding_window_pattern", self.family.pattern)
        if depth is None or self.config.get("sliding_window") is None or not pattern:
            return None
        layers = min(count(self.prefix + depth[0], depth[1]), MOST_LAYERS)
        if isinstance(pattern, str) and {*pattern} <= {*"LG"}:
            near = [pattern[n % len(pattern)] == "L" for n in range(layers)]
        else:
            every = count(f"{self.prefix}sliding_window_pattern", pattern)
            near = [(n + 1) % every != 0 for n in range(layers)]
        return ["sliding_attention" if n else "full_attention" for n in near]

    def _rope(
        self, where: str, given: dict[str, Any], kind: str, layers: tuple[str, ...]
    ) -> RotaryConfig:
        head_dim = self._head_dim(kind, layers)
        longest = first(self.config, *LENGTHS)
        axes = max(self.family.axes, 2 if given.get("rope_type") == "axial" else 1)
        made = rope(
            Parameters(
                where=where,
                given={**given, "rope_type": "default"} if axes > 1 else given,
                head_dim=head_dim,
                width=self._width(given, head_dim),
                longest=longest and count(self.prefix + longest[0], longest[1]),
                remarks=self.remarks,
                base=self.family.base,
            ),
            layout=self._layout(),
        )
        made = replace(made, softmax=self._softmax(where, given, made))
        if axes == 1:
            return made
        equal = (made.width // 2 // axes,) * axes
        if self.family.alternating:
            sections = made.sections or self.family.sections or equal
            return replace(made, sections=sections, order="alternating")
        return replace(made, sections=equal, order="separate")

    def _softmax(
        self, where: str, given: Mapping[str, Any], made: RotaryConfig
    ) -> float:
        """What latent attention multiplies the scale of its scores by."""
        latent = self.config.get("qk_rope_head_dim") is not None
        own = given.get("mscale_all_dim")
        plain = self.config.get("model_type") in PLAIN_SCALES
        if not latent or made.method != "yarn" or not own or plain:
            return 1.0
        own = number(f"{where}.mscale_all_dim", own)
        attention_factor = yarn_attention_factor(made.options["factor"], mscale=own)
        scale = attention_factor * attention_factor
        if not math.isfinite(scale):
            raise ConfigError(f"{where}.mscale_all_dim {own:g} is out of reach")
        self.remarks.append(
            Remark(
                NOTE,
                f"{where}.mscale_all_dim: latent attention of transformers 5.23 "
                f"multiplies the scale of its softmax by {scale:g} besides",
            )
        )
        return scale

    def _head_dim(self, kind: str, layers: tuple[str, ...]) -> int:
        own = self.config.get("per_layer_config")
        if isinstance(own, Mapping) and kind in layers:
            of_layer = own.get(f"{layers.index(kind):02d}")
            if isinstance(of_layer, Mapping) and of_layer.get("head_dim") is not None:
                return count("per_layer_config.head_dim", of_layer["head_dim"])
        found = first(self.config, "qk_rope_head_dim", *HEAD_DIMS)
        if found is not None:
            return count(self.prefix + found[0], found[1])
        if self.family.head_dim is not None and "head_dim" not in self.config:
            return self.family.head_dim
        hidden, heads = first(self.config, *HIDDEN), first(self.config, *HEADS)
        if hidden is None or heads is None:
            raise ConfigError(
                f"{self.prefix}head_dim is needed, or hidden_size and "
                "num_attention_heads to compute it from"
            )
        sizes = [count(self.prefix + n, v) for n, v in (hidden, heads)]
        return sizes[0] // sizes[1]

    def _width(self, given: Mapping[str, Any], head_dim: int) -> int | None:
        """How many features turn, where it is a number and not a share."""
        if self.config.get("qk_rope_head_dim") is not None:
            return head_dim
        found = first(self.config, *WIDTHS)
        if found is None:
            return None
        width = count(self.prefix + found[0], found[1])
        if self.config.get("rope_parameters") is None:
            return width
        share = given.get("partial_rotary_factor", 1.0)
        if not isinstance(share, int | float) or not math.isfinite(share):
            return None
        turning = features(head_dim, share)
        if turning != width:
            self._warn(
                f"{found[0]} is {width}, which transformers 5 does not look at: "
                f"{turning} features turn by partial_rotary_factor"
            )
        return None

    def _layout(self) -> str:
        said = self.config.get("rope_interleave")
        if isinstance(said, bool):
            return "interleaved" if said else "half"
        return self.family.layout
