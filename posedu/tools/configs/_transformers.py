"""Reader of configurations of the transformers library, versions 4 and 5."""

import math
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posedu.numpy.rotary import yarn_attention_factor
from posedu.tools.configs._fields import (
    count,
    features,
    first,
    mapping,
    number,
    short_repr,
)
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
"""Names of sub-configurations that do not end in ``SUBCONFIG``."""
WIDTHS = ("rotary_dim", "rotary_ndims")
"""Names of the number of rotated features, before version 5."""
SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct")
HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "encoder_num_attention_heads",
    "memory_attention_num_attention_heads",
)
HIDDEN = (
    "embed_dim",
    "hidden_size",
    "n_embd",
    "d_model",
    "dim",
    "hidden_dim",
    "memory_attention_hidden_size",
)
HEAD_DIMS = ("head_dim", "attention_head_dim", "kv_channels")
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
BASES = ("rope_theta", "rotary_emb_base", "rope_base", "rotary_base")
DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
MOST_LAYERS = 4096
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta")
OWN_LABELS = ("deepseek_v4",)
"""Families whose RoPE parameters have other labels than their kinds of layer."""
PLAIN_SCALES = ("dots3_note_text", "glm5_next_text", "kimi_linear")
"""Families of latent attention whose softmax ignores ``mscale_all_dim``."""

Config = Mapping[str, Any]
RopeObject = ChainMap[str, Any]
"""An object of RoPE parameters, and before it what is added from elsewhere."""


def is_config(config: Config) -> bool:
    """Return whether a mapping looks like a configuration of transformers."""
    own = (*BASES, *SHARES, "rope_parameters", "rope_scaling", "model_type")
    return any(name in config for name in own) or bool(_parts(config))


def read(config: Config) -> Reading:
    """Read the rotary embeddings of a configuration and of its sub-configurations.

    Raises
    ------
    ConfigError
        The configuration has no RoPE parameters, or they cannot be computed.
    """
    remarks: list[Remark] = []
    kinds: dict[str, RotaryConfig | None] = {}
    layers: tuple[str, ...] = ()
    parts = {"": config, **_parts(config)}
    families = {name: _family(config, name, part) for name, part in parts.items()}
    with_rope = {
        name: part for name, part in parts.items() if _has_rope(part, families[name])
    }
    for name in {*parts} - {*with_rope}:
        first(parts[name], *HEAD_DIMS)  # of heads that are not rotated
    if len(with_rope) > 1 and "" in with_rope and not _has_heads(config):
        del with_rope[""]
        remarks.append(
            Remark(
                WARNING,
                "RoPE parameters outside the sub-configurations are ignored, since the "
                "outer configuration has no heads",
                "ignored-name",
            )
        )
    if not with_rope:
        raise ConfigError(_no_rope_message(parts, families))
    temperature = None
    for name, part in with_rope.items():
        own = _Part(name, part, families[name], remarks)
        found, of_layers = own.read()
        kinds |= found
        layers = layers or of_layers
        temperature = temperature or own.temperature()
    family = config.get("model_type")
    is_new = any("rope_parameters" in part for part in with_rope.values())
    return Reading(
        format=f"transformers {5 if is_new else 4}",
        family=family if isinstance(family, str) else "",
        kinds=kinds,
        layers=layers,
        temperature=temperature,
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _parts(config: Config) -> dict[str, Config]:
    """Return sub-configurations at any depth by dotted name: "a_config.b_config".

    A sub-configuration is an object in ``config`` whose key ends in ``_config`` or is
    ``encoder`` or ``decoder``.
    """
    found = {}
    for name, value in config.items():
        inside = name.endswith(SUBCONFIG) or name in SIDES
        if inside and isinstance(value, Mapping):
            found[name] = value
            for inner, part in _parts(value).items():
                found[f"{name}.{inner}"] = part
    return found


def _family(whole: Config, name: str, part: Config) -> Family:
    """Return the model family of a sub-configuration ``part`` of ``whole``.

    ``name`` is the key of the sub-configuration, empty for ``whole`` itself. A text
    configuration without a ``model_type`` of its own has the text family of ``whole``.
    """
    outer, own = (config.get("model_type") for config in (whole, part))
    text = family_of(outer).text
    is_text = name == TEXT or (not name and TEXT not in whole)
    if text and is_text and own in (None, outer):
        return family_of(text)
    return family_of(own)


def _no_rope_message(
    parts: Mapping[str, Config], families: Mapping[str, Family]
) -> str:
    """Return the error message for a configuration without RoPE parameters.

    ``parts`` are the configuration (key "") and its sub-configurations by key,
    ``families`` their model families.
    """
    types = {name: part.get("model_type") for name, part in parts.items()}
    incomplete = [
        (name or "this configuration") + (f" ({types[name]})" if types[name] else "")
        for name, family in families.items()
        if family.base is not None
    ]
    if incomplete:
        return (
            f"the head dimension is left to the class in {', '.join(incomplete)}: give "
            "the configuration that transformers completes, "
            "AutoConfig.from_pretrained(folder)"
        )
    if families[""].no_rotation:
        return (
            "this configuration has no RoPE parameters, and the code of "
            f"{types['']} in transformers has no rotation: it encodes positions in "
            "another way"
        )
    return (
        "this configuration has no RoPE parameters: none of "
        f"{', '.join((*BASES, 'rope_parameters', 'rope_scaling'))}"
    )


def _has_rope(config: Config, family: Family) -> bool:
    """True if a configuration has a key of RoPE, or head sizes in a rotating family."""
    names = ("rope_parameters", "rope_scaling", *BASES, *LOCAL_BASES)
    if any(config.get(name) is not None for name in names):
        return True
    return family.base is not None and bool(family.head_dim or _has_heads(config))


def _has_heads(config: Config) -> bool:
    return all(first(config, *names) for names in (HEADS, HIDDEN)) or bool(
        first(config, "qk_rope_head_dim", *HEAD_DIMS)
    )


class _Part:
    """Reader of one configuration, without its sub-configurations.

    ``config`` is the configuration, ``family`` its model family, and ``name`` its key
    if it is a sub-configuration, empty for the outer configuration. Warnings and notes
    are added to ``remarks``.
    """

    def __init__(
        self, name: str, config: Config, family: Family, remarks: list[Remark]
    ):
        self.name, self.config, self.remarks = name, config, remarks
        self.prefix = f"{name}." if name else ""
        self.family = family
        has_window = config.get("sliding_window") is not None
        self.unrotated = {*self.family.unrotated_layer_types} if has_window else set()

    def read(self) -> tuple[dict[str, RotaryConfig | None], tuple[str, ...]]:
        """Return the rotary embedding of each kind of layer, and each layer's kind."""
        given, where = self._rope_object()
        if not given and self.family.class_fills_defaults:
            self._warn(
                "class-defaults",
                f"{where} is missing, and this family's class fills in more than a "
                "base, which is not known here: give the configuration that "
                "transformers completes, AutoConfig.from_pretrained(folder)",
            )
        layers = self._layers()
        if self.unrotated and not layers:
            self._warn(
                "unlisted-layers",
                "layer_types is missing, and this family's layers without rotation are "
                "not known here: give the configuration that transformers completes, "
                "AutoConfig.from_pretrained(folder)",
            )
        by_kind = self._by_kind(given, layers)
        if self._is_unrotated():
            _ = [*given.values(), first(self.config, *HEAD_DIMS)]  # without effect
            return {self._title(EVERY): None}, ()
        if [*by_kind] == [EVERY]:
            layers = tuple(kind if kind == "none" else EVERY for kind in layers)
        elif not {*layers} <= {*by_kind, "none"}:
            has_own = self.config.get("model_type") in OWN_LABELS
            if not has_own and not {*by_kind} <= {*layers}:
                self._warn_of_kinds(where, {*layers}, {*by_kind})
            layers = ()
        kinds: dict[str, RotaryConfig | None] = {}
        for kind, of_kind in by_kind.items():
            here = f"{self.prefix}{where}" + ("" if kind == EVERY else f".{kind}")
            rotates = of_kind is not None and kind not in self.unrotated
            kinds[self._title(kind)] = (
                self._rope(here, of_kind, kind, layers) if rotates else None
            )
        if "none" in layers:
            kinds[self._title("none")] = None
        return kinds, tuple(map(self._title, layers))

    def _warn_of_kinds(self, where: str, layers: set[str], rotated: set[str]) -> None:
        """Warn of kinds of layer that are listed without parameters, or the reverse.

        ``layers`` are the kinds that the layers have, ``rotated`` those with RoPE
        parameters in the object named ``where``.
        """
        self._warn(
            "other-layers",
            f"layer_types has the kinds {sorted(layers)}, and {where} has parameters "
            f"for {sorted(rotated)}",
        )

    def temperature(self) -> Temperature | None:
        """Return Llama 4's or Mistral's factor of attention scores by query position.

        Llama 4 has this temperature in its NoPE layers, Mistral in all layers. For a
        configuration without it the result is ``None``.
        """
        given, where = self._rope_object()
        own = self.family.temperature
        if self.config.get("attn_temperature_tuning", own is not None):
            alpha, length = own or (None, None)
            names = {"alpha": ("attn_scale", alpha), "length": ("floor_scale", length)}
            numbers = {
                key: number(self.prefix + name, self.config.get(name, default))
                for key, (name, default) in names.items()
            }
            return Temperature(
                growth="steps", index_from=1, layers=self._title("none"), **numbers
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

    def _warn(self, code: str, text: str) -> None:
        self.remarks.append(Remark(WARNING, f"{self.prefix}{text}", code))

    def _rope_object(self) -> tuple[RopeObject, str]:
        """Return the configuration's object of RoPE parameters, and its key.

        The key is ``rope_parameters`` or ``rope_scaling``. Without either the object is
        empty.
        """
        new, old = (self.config.get(n) for n in ("rope_parameters", "rope_scaling"))
        if new is not None and old is not None and new != old:
            self._warn(
                "two-values",
                "rope_parameters and rope_scaling are both given and differ: "
                "transformers 5 uses rope_scaling, and version 4 knows no other; "
                "rope_parameters is used here",
            )
        where = "rope_scaling" if new is None and old is not None else "rope_parameters"
        given = old if new is None else new
        return ChainMap({}, mapping(f"{self.prefix}{where}", given or {})), where

    def _by_kind(
        self, given: RopeObject, layers: tuple[str, ...]
    ) -> dict[str, RopeObject | None]:
        """Return RoPE parameters by kind of layer, ``None`` where there is no rotation.

        ``given`` is the configuration's object of RoPE parameters, ``layers`` is the
        kind of each layer. Parameters that ``given`` lacks are taken from keys outside
        it.
        """
        own = dict(given.maps[-1].items())  # not read, only looked through
        inner = {k: v for k, v in own.items() if isinstance(v, Mapping)}
        absent = {k for k, v in own.items() if v is None and k in layers}
        own_local = first(self.config, *LOCAL_BASES)
        local = self.family.local if own_local is None else own_local[1]
        if not inner:
            self._compare(given)
        if inner or (absent and absent == {*given}):
            for name in sorted(set(given) - set(inner) - absent):
                if own[name] is not None:
                    self._warn(
                        "ignored-name",
                        f"rope_parameters.{name} is ignored, since rope_parameters has "
                        "an object for each kind of layer",
                    )
            by_kind: dict[str, RopeObject | None] = {
                k: ChainMap({}, inner[k]) if k in inner else None
                for k in given
                if k in inner or k in absent
            }
        elif local is not None:
            by_kind = {
                "full_attention": given,
                "sliding_attention": {"rope_theta": local},
            }
            global_base = first(self.config, "global_rope_theta")
            if global_base is not None:
                given.setdefault("rope_theta", global_base[1])
        elif self.unrotated & {*layers}:
            by_kind = {kind: given.new_child() for kind in dict.fromkeys(layers)}
        else:
            by_kind = {EVERY: given}
        for of_kind in by_kind.values():
            if of_kind is not None:
                self._complete(of_kind)
        return by_kind

    def _compare(self, given: Mapping[str, Any]) -> None:
        """Warn if the configuration has two different bases b, one outside ``given``.

        ``given`` is the configuration's object of RoPE parameters, whose base is used.
        """
        base, own = first(self.config, *BASES), given.get("rope_theta")
        if base is not None and own is not None and own != base[1]:
            self._warn(
                "two-values",
                f"{base[0]} is {short_repr(base[1])}, but rope_parameters.rope_theta "
                f"is {short_repr(own)}, which is used",
            )

    def _complete(self, given: RopeObject) -> None:
        """Add RoPE parameters that the configuration has elsewhere to ``given``.

        ``given`` is the configuration's object of RoPE parameters; values in it are
        kept.
        """
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

    def _is_unrotated(self) -> bool:
        """True if the configuration names a positional encoding other than RoPE.

        A note that says so is then added to ``remarks``.
        """
        name = "position_embedding_type"
        required, own = self.family.required_embedding_type, self.config.get(name)
        is_other = bool(required) and own != required
        if is_other:
            self.remarks.append(
                Remark(
                    NOTE,
                    f"{self.prefix}{name} is {short_repr(own)}, not {required!r}: no "
                    "layer is rotated",
                )
            )
        if self.config.get("alibi") is True:
            self.remarks.append(
                Remark(NOTE, f"{self.prefix}alibi is true: no layer is rotated")
            )
            return True
        return is_other

    def _layers(self) -> tuple[str, ...]:
        """Return the kind of each layer, such as "full_attention"; empty if unknown."""
        types = self.config.get("layer_types")
        if types is None:
            types = self._pattern()
        bases = self.config.get("layer_rope_theta")
        switch = self.config.get("no_rope_layers")
        if not switch and not bases:
            switch = self._switches()
        else:
            self.config.get("no_rope_layer_interval")  # the lists are what counts
        if isinstance(types, list) and all(isinstance(t, str) for t in types):
            layers = tuple(types)
        elif isinstance(switch, list) and switch:
            layers = tuple(EVERY for _ in switch)
        elif isinstance(bases, list) and bases:
            layers = tuple(EVERY for _ in bases)
        else:
            return ()
        unrotated = [False] * len(layers)
        for marks in (switch, bases):
            if isinstance(marks, list) and len(marks) == len(layers):
                unrotated = [u or not m for u, m in zip(unrotated, marks, strict=True)]
        return tuple("none" if u else t for t, u in zip(layers, unrotated, strict=True))

    def _switches(self) -> list[bool] | None:
        """Return whether each layer is rotated, if every k-th layer is a NoPE layer.

        The result is ``None`` if neither the configuration nor the model family has
        such a k.
        """
        name = "no_rope_layer_interval"
        every = self.config.get(name, self.family.nope_interval)
        if every is None:
            return None
        every = count(self.prefix + name, every)
        depth = first(self.config, *DEPTHS)
        if depth is None:
            self._warn(
                "unlisted-layers",
                f"{DEPTHS[0]} is missing: the layers without rotation, one in {every}, "
                "are not listed",
            )
            return None
        layers = min(count(self.prefix + depth[0], depth[1]), MOST_LAYERS)
        start = 1 - layers if self.family.counts_from_end else 1
        return [n % every != 0 for n in range(start, start + layers)]

    def _pattern(self) -> list[str] | None:
        """Return each layer's kind by ``sliding_window_pattern``, an older key.

        The result is ``None`` if the configuration and the model family have no
        pattern.
        """
        depth = first(self.config, *DEPTHS)
        pattern = self.config.get("sliding_window_pattern", self.family.pattern)
        if depth is None or self.config.get("sliding_window") is None or not pattern:
            return None
        layers = min(count(self.prefix + depth[0], depth[1]), MOST_LAYERS)
        if isinstance(pattern, str) and {*pattern} <= {*"LG"}:
            is_local = [pattern[n % len(pattern)] == "L" for n in range(layers)]
        else:
            every = count(f"{self.prefix}sliding_window_pattern", pattern)
            is_local = [(n + 1) % every != 0 for n in range(layers)]
        return [
            "sliding_attention" if local else "full_attention" for local in is_local
        ]

    def _rope(
        self, where: str, given: RopeObject, kind: str, layers: tuple[str, ...]
    ) -> RotaryConfig:
        head_dim = self._head_dim(kind, layers)
        longest = first(self.config, *LENGTHS)
        axes = max(self.family.axes, 2 if given.get("rope_type") == "axial" else 1)
        made = rope(
            Parameters(
                where=where,
                given=given.new_child({"rope_type": "default"}) if axes > 1 else given,
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
        """Return YaRN's extra factor of the scale of scores in latent attention.

        The factor is 1 for all other configurations. ``where`` is the name of the RoPE
        parameters ``given``, and ``made`` the rotary embedding that they describe.
        """
        is_latent = self.config.get("qk_rope_head_dim") is not None
        own = given.get("mscale_all_dim")
        is_plain = self.config.get("model_type") in PLAIN_SCALES
        if not is_latent or made.method != "yarn" or not own or is_plain:
            return 1.0
        own = number(f"{where}.mscale_all_dim", own)
        attention_factor = yarn_attention_factor(made.options["factor"], mscale=own)
        scale = attention_factor * attention_factor
        if not math.isfinite(scale):
            raise ConfigError(
                f"{where}.mscale_all_dim must give a finite scale of scores, got "
                f"{own:g}"
            )
        self.remarks.append(
            Remark(
                NOTE,
                f"{where}.mscale_all_dim: latent attention of transformers 5.23 also "
                f"multiplies the scale of its softmax by {scale:g}",
            )
        )
        return scale

    def _head_dim(self, kind: str, layers: tuple[str, ...]) -> int:
        own = self.config.get("per_layer_config")
        if isinstance(own, Mapping) and kind in layers:
            name = f"{self.prefix}per_layer_config.head_dim"
            of_layers = [
                own.get(f"{n:02d}") for n, each in enumerate(layers) if each == kind
            ]
            widths = [
                count(name, of_layer["head_dim"])
                for of_layer in of_layers
                if isinstance(of_layer, Mapping)
                and of_layer.get("head_dim") is not None
            ]
            if len({*widths}) > 1:
                self._warn(
                    "other-layers",
                    f"per_layer_config has heads of {widths} features in layers of the "
                    f"kind {kind!r}; the first number is used for all",
                )
            if widths:
                return widths[0]
        found = first(self.config, "qk_rope_head_dim", *HEAD_DIMS)
        if found is not None:
            self.config.get("head_dim")  # of latent attention: the whole head
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
        """Return the number of rotated features, if a key other than a share gives it.

        ``given`` are the RoPE parameters, ``head_dim`` is the head dimension. ``None``
        means that the share of the head in ``given``, ``partial_rotary_factor``,
        determines the number.
        """
        if self.config.get("qk_rope_head_dim") is not None:
            given.get("partial_rotary_factor")  # says the same in another way
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
        rotated = features(head_dim, share)
        if rotated != width:
            self._warn(
                "ignored-name",
                f"{found[0]} is {width}, which transformers 5 ignores: "
                f"partial_rotary_factor gives {rotated} rotated features",
            )
        return None

    def _layout(self) -> str:
        is_interleaved = self.config.get("rope_interleave")
        if isinstance(is_interleaved, bool):
            return "interleaved" if is_interleaved else "half"
        return self.family.layout
