"""Reader of configurations of the transformers library, versions 4 and 5."""

import math
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posedu.numpy.rotary import yarn_attention_factor
from posedu.tools.configs._fields import (
    MOST_LAYERS,
    count,
    features,
    first,
    mapping,
    number,
    require_layers,
    short_repr,
)
from posedu.tools.configs._rope_parameters import KNOWN, Parameters, rope
from posedu.tools.configs.families import ROTARY, Family, Names, model_types
from posedu.tools.configs.families import family as family_of
from posedu.tools.configs.hybrid import read_mixers
from posedu.tools.configs.mixers import Mixers
from posedu.tools.configs.other_encoding import OtherEncoding
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    NoRopeError,
    Reading,
    Remark,
    RotaryConfig,
    Temperature,
)
from posedu.tools.configs.unrotated import has_alibi, is_known, other_encodings

EVERY = "all"
TRAINED = "original_max_position_embeddings"
BY_TRAINED = ("llama3", "longrope", "su", "yarn")
"""Types whose frequencies depend on the training length."""
RATIO_TOLERANCE = 0.01
"""Relative difference of a factor and a ratio of lengths that is no contradiction."""
SUBCONFIG = "_config"
TEXT = "text_config"
ATTENTION = "attn_config"
"""Name of the part of DBRX's and MPT's configurations that has the base."""
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
    "speech_encoder_attention_heads",
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
BASES = (
    "rope_theta",
    "rotary_emb_base",
    "rotary_embedding_base",
    "rope_base",
    "rotary_base",
)
DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta")
OTHER_BASES = (*LOCAL_BASES, "global_rope_theta", "compress_rope_theta")
"""Names of the base of some kinds of layer."""
LISTS = {
    "rope_theta": "rope_theta",
    "partial_rotary_factors": "partial_rotary_factor",
}
"""Names of lists by layer, and the RoPE parameter that their values are."""
WITHOUT_EFFECT = {
    *(*BASES, *OTHER_BASES, *SHARES, *WIDTHS, *HEAD_DIMS, *KNOWN),
    *("qk_rope_head_dim", "no_rope_layers", "no_rope_layer_interval", "alibi"),
}
"""Names that change nothing in a model without rotation."""
OWN_LABELS = ("deepseek_v4",)
"""Families whose RoPE parameters have other labels than their kinds of layer."""
NULL_IS_NONE = ("olmo_hybrid",)
"""Families that rotate nothing if the base is given as null."""
PLAIN_SCALES = ("dots3_note_text",)
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
    if refused := next((f.refused for f in families.values() if f.refused), ""):
        raise ConfigError(f"the rotation of this family cannot be described: {refused}")
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
        return _unrotated(parts, families)
    for name in families[""].parts:
        if name not in config:
            remarks.append(
                Remark(
                    NOTE,
                    f"{name} is missing: the class fills it in, and the rotations in "
                    "it are not read",
                )
            )
    temperature = None
    for name, part in with_rope.items():
        own = _Part(name, part, families[name], remarks)
        found, of_layers = own.read()
        kinds |= found
        layers = layers or of_layers
        temperature = temperature or own.temperature()
    if TEXT in {*parts} - {*with_rope} and families[TEXT].unrotated:
        kinds[TEXT] = None
        first(parts[TEXT], "qk_rope_head_dim")  # of heads that are not rotated
    family = config.get("model_type")
    is_new = any("rope_parameters" in part for part in with_rope.values())
    return Reading(
        format=f"transformers {5 if is_new else 4}",
        family=family if isinstance(family, str) else "",
        kinds=kinds,
        layers=layers,
        temperature=temperature,
        encodings=() if any(kinds.values()) else _encodings(parts),
        mixers=_mixers(parts),
        remarks=tuple(dict.fromkeys([*remarks, *_ignored_switches(parts, families)])),
    )


def _parts(config: Config) -> dict[str, Config]:
    """Return sub-configurations at any depth by dotted name: "a_config.b_config".

    A sub-configuration is an object in ``config`` whose key ends in ``_config`` or is
    ``encoder`` or ``decoder``.
    """
    found = {}
    for name, value in config.items():
        inside = name.endswith(SUBCONFIG) or name in SIDES
        if inside and isinstance(value, Mapping) and name != ATTENTION:
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
        return replace(family_of(text), **family_of(outer).text_filled)
    return family_of(own)


def _unrotated(parts: Mapping[str, Config], families: Mapping[str, Family]) -> Reading:
    """Return the reading of a configuration without RoPE parameters.

    ``parts`` are the configuration (key "") and its sub-configurations by key,
    ``families`` their model families.

    Raises
    ------
    ConfigError
        The head dimension is left to the class.
    NoRopeError
        It is not known whether the model rotates.
    """
    types = {name: part.get("model_type") for name, part in parts.items()}
    incomplete = [
        (name or "this configuration") + (f" ({types[name]})" if types[name] else "")
        for name, family in families.items()
        if family.base is not None
    ]
    if incomplete:
        raise ConfigError(
            f"the head dimension is left to the class in {', '.join(incomplete)}: give "
            "the configuration that transformers completes, "
            "AutoConfig.from_pretrained(folder)"
        )
    whole, family = parts[""], families[""]
    is_measured = family.no_rotation or family.unrotated or is_known(types[""])
    is_named = str(types[""]) in model_types()
    is_text = not (is_measured or is_named) and TEXT in parts
    if is_text:
        text_family = families[TEXT]
        is_measured = text_family.unrotated or is_known(types[TEXT])
    if not is_measured and not has_alibi(whole):
        raise NoRopeError(
            "this configuration has no RoPE parameters: none of "
            f"{', '.join((*BASES, 'rope_parameters', 'rope_scaling'))}"
        )
    for part in parts.values():
        for name in part:
            if name in WITHOUT_EFFECT or name.endswith("head_dim"):
                part.get(name)
        if part.get(ROTARY[0]) == ROTARY[1]:
            raise NoRopeError(f"{ROTARY[0]} is rotary, and how is not known here")
    remarks = []
    read_type = types[TEXT if is_text else ""]
    if is_text:
        text = f"{types['']} is not known here: only {TEXT}, a {read_type}, is read"
        remarks.append(Remark(NOTE, text))
    if "auto_map" in (parts[TEXT] if is_text else whole) and is_measured:
        text = (
            "the code is in the model's repository, and is not read: this is what the "
            f"class of {read_type} in transformers does"
        )
        remarks.append(Remark(NOTE, text))
    return Reading(
        format="transformers",
        family=types[""] if isinstance(types[""], str) else "",
        kinds={TEXT if is_text else EVERY: None},
        encodings=_encodings(parts),
        mixers=_mixers(parts),
        remarks=(*remarks, *_ignored_switches(parts, families)),
    )


def _mixers(parts: Mapping[str, Config]) -> Mixers | None:
    """Return the mixers of the text model, ``None`` if it is not known as a hybrid.

    ``parts`` are the configuration (key "") and its sub-configurations by key.
    """
    return read_mixers(parts.get(TEXT, {})) or read_mixers(parts[""])


def _ignored_switches(
    parts: Mapping[str, Config], families: Mapping[str, Family]
) -> list[Remark]:
    """Return a warning for each part that turns on a rotation its class has not."""
    name = "mla_use_nope"
    return [
        Remark(
            WARNING,
            f"{name} is false, and the class of {part.get('model_type')} in "
            "transformers rotates nothing",
            "ignored-name",
        )
        for title, part in parts.items()
        if part.get(name) is False and families[title].unrotated
    ]


def _encodings(parts: Mapping[str, Config]) -> tuple[OtherEncoding, ...]:
    """Return the encodings of the text model, which is one without rotation.

    ``parts`` are the configuration (key "") and its sub-configurations by key.
    """
    return other_encodings(parts[""]) or other_encodings(parts.get(TEXT, {}))


def _has_rope(config: Config, family: Family) -> bool:
    """True if a configuration has a key of RoPE, or head sizes in a rotating family."""
    names = ("rope_parameters", "rope_scaling", *BASES, *LOCAL_BASES)
    if any(config.get(name) is not None for name in names):
        return True
    inner = config.get(ATTENTION)
    own = (*BASES, "alibi", "rope")
    if isinstance(inner, Mapping) and any(name in inner for name in own):
        return _has_heads(config)
    has_width = bool(family.head_dim or family.rope_head_dim or _has_heads(config))
    return family.is_measured and has_width


def _require_list(name: str, value: object) -> None:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name} must be a list, got {short_repr(value)}")


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
        self.has_window = self.family.has_window
        if "sliding_window" in config:
            self.has_window = config["sliding_window"] is not None
        is_unrotated = self.has_window or not self.family.has_window
        self.unrotated = {*family.unrotated_layer_types} if is_unrotated else set()

    def read(self) -> tuple[dict[str, RotaryConfig | None], tuple[str, ...]]:
        """Return the rotary embedding of each kind of layer, and each layer's kind."""
        given, where = self._rope_object()
        if self._is_unrotated(given):
            self._read_without_effect(given)
            return {self._title(EVERY): None}, ()
        if self.family.note:
            self._note(self.family.note)
        layers = self._layers()
        if self.unrotated and not layers:
            missing = "layer_types" if self._depth() else DEPTHS[0]
            self._warn(
                "unlisted-layers",
                f"{missing} is missing, so this family's layers without rotation are "
                "not known here: give the configuration that transformers completes, "
                "AutoConfig.from_pretrained(folder)",
            )
        by_kind = self._by_kind(given, where, layers)
        by_kind |= {kind: None for kind in self.unrotated & {*layers} - {*by_kind}}
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
        if not given:
            given = given.new_child(dict(self._filled().get(EVERY, {})))
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

    def _note(self, text: str) -> None:
        self.remarks.append(Remark(NOTE, f"{self.prefix}{text}"))

    def _rope_object(self) -> tuple[RopeObject, str]:
        """Return the configuration's object of RoPE parameters, and its key.

        The key is ``rope_parameters`` or ``rope_scaling``. Without either the object is
        empty.
        """
        new, old = (self.config.get(n) for n in ("rope_parameters", "rope_scaling"))
        has_both = new is not None and old and new != old
        where = "rope_parameters" if new is not None or old is None else "rope_scaling"
        if has_both:
            self._warn(
                "two-values",
                "rope_parameters and rope_scaling are both given and differ: "
                "transformers uses rope_scaling, which is read here",
            )
            unused = mapping(f"{self.prefix}{where}", new)
            within = (of for of in unused.values() if isinstance(of, Mapping))
            for of in (unused, *within):
                _ = [*of.values()]  # so that no name in it is warned of
            where = "rope_scaling"
        given = old if where == "rope_scaling" else new
        return ChainMap({}, mapping(f"{self.prefix}{where}", given or {})), where

    def _by_kind(
        self, given: RopeObject, where: str, layers: tuple[str, ...]
    ) -> dict[str, RopeObject | None]:
        """Return RoPE parameters by kind of layer, ``None`` where there is no rotation.

        ``given`` is the configuration's object of RoPE parameters, ``where`` is its
        key, and ``layers`` is the kind of each layer. Parameters that ``given`` lacks
        are taken from keys outside it, and from the model family.
        """
        own = dict(given.maps[-1].items())  # not read, only looked through
        inner = {k: v for k, v in own.items() if isinstance(v, Mapping)}
        if own and not inner and self.family.spread.get(where) == ():
            _ = [*given.values()]
            self._warn("ignored-name", f"{where} is ignored by this family's class")
            given, own = ChainMap({}), {}
        absent = {k for k, v in own.items() if v is None and k in layers}
        names = self.family.names_beside if own else self.family.names
        by_kind: dict[str, RopeObject | None]
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
            by_kind = {
                k: ChainMap({}, inner[k]) if k in inner else None
                for k in given
                if k in inner or k in absent
            }
        elif isinstance(self.config.get("rope_theta"), list):
            by_kind = self._by_layer(given, where, layers)
        elif not own and self._filled():
            by_kind = {kind: ChainMap({}) for kind in self._filled()}
        elif own and where in self.family.spread:
            by_kind = self._spread(given, where)
        elif own and EVERY not in self._filled() and self._filled():
            by_kind = {EVERY: given}
            self._warn(
                "other-layers",
                f"{where} has no object for each kind of layer, and this family's "
                f"class needs one for {', '.join(self._filled())}",
            )
        elif (found := first(self.config, *LOCAL_BASES)) is not None:
            by_kind = {
                "full_attention": given,
                "sliding_attention": ChainMap({"rope_theta": found[1]}),
            }
            global_base = first(self.config, "global_rope_theta")
            if global_base is not None:
                given.setdefault("rope_theta", global_base[1])
        elif self.unrotated & {*layers}:
            by_kind = {kind: given.new_child() for kind in dict.fromkeys(layers)}
        else:
            by_kind = {EVERY: given}
        if names is not None:
            self._warn_of_names(names)
        for kind, of_kind in by_kind.items():
            if of_kind is not None:
                self._complete(kind, of_kind, names)
        return by_kind

    def _filled(self) -> dict[str, Mapping[str, Any]]:
        """Return the RoPE parameters that the family's class fills in, by kind."""
        own = self.family.filled
        is_nested = all(isinstance(each, Mapping) for each in own.values())
        return dict(own) if is_nested or not own else {EVERY: own}

    def _spread(self, given: RopeObject, where: str) -> dict[str, RopeObject | None]:
        """Return RoPE parameters by kind of layer, if the object has no kinds.

        ``given`` is the configuration's object of RoPE parameters, ``where`` is its
        key. The family's class gives it to some kinds of layer; others keep what the
        class fills in.
        """
        taken = self.family.spread[where]
        return {
            kind: given.new_child() if kind in taken else ChainMap({})
            for kind in self._filled()
        }

    def _by_layer(
        self, given: RopeObject, where: str, layers: tuple[str, ...]
    ) -> dict[str, RopeObject | None]:
        """Return RoPE parameters by kind of layer, if bases are listed by layer.

        ``given`` is the configuration's object of RoPE parameters, ``where`` is its
        key, and ``layers`` is the kind of each layer.
        """
        if not layers:
            raise ConfigError(
                f"{self.prefix}rope_theta is a list, a base for each layer: "
                "layer_types is needed to read it"
            )
        only = self.config.get("yarn_only_types", self.family.spread.get(where))
        if only is not None:
            _require_list(f"{self.prefix}yarn_only_types", only)
        by_kind: dict[str, RopeObject | None] = {}
        for kind in dict.fromkeys(layers):
            is_taken = only is None or kind in only
            of_kind = given.new_child() if is_taken else ChainMap({})
            for name, goal in LISTS.items():
                values = self.config.get(name)
                if values is None:
                    continue
                _require_list(f"{self.prefix}{name}", values)
                own = [v for v, of in zip(values, layers, strict=False) if of == kind]
                if len(values) < len(layers) or own.count(own[0]) < len(own):
                    raise ConfigError(
                        f"{self.prefix}{name} must have one value for all layers of "
                        f"the kind {kind!r}, got {short_repr(values)}"
                    )
                of_kind[goal] = own[0]
            by_kind[kind] = of_kind
        return by_kind

    def _warn_of_names(self, names: Names) -> None:
        """Warn of bases and shares in the configuration that are not in ``names``.

        ``names`` are those that the family's class reads.
        """
        for name in (*BASES, *OTHER_BASES, *SHARES):
            if self.config.get(name) is not None and name not in names:
                self._warn("ignored-name", f"{name} is ignored by this family's class")

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

    def _complete(self, kind: str, given: RopeObject, names: Names | None) -> None:
        """Add RoPE parameters that the configuration has elsewhere to ``given``.

        ``given`` are the RoPE parameters of layers of a ``kind``; values in them are
        kept. ``names`` are the names outside them that the family's class reads,
        ``None`` if all are read.
        """
        for goal, others in (
            ("rope_theta", (*BASES, *OTHER_BASES)),
            ("partial_rotary_factor", SHARES),
        ):
            if names is None:
                found = first(self.config, *(n for n in others if n not in OTHER_BASES))
            else:
                key = "" if kind == EVERY else kind
                found = first(
                    self.config, *(n for n in others if key in names.get(n, ()))
                )
            if found is not None and given.get(goal) is None:
                given[goal] = found[1]
        self._complete_from_attention(given)
        filled = dict(self._filled().get(kind, {}))
        has_object = len(given.maps) > 1 and bool(given.maps[-1])
        if has_object:
            filled = {} if kind == EVERY else {"rope_theta": filled.get("rope_theta")}
        filled.setdefault(SHARES[0], self.family.share)
        filled.setdefault("attention_factor", self.family.attention_factor)
        for name, value in filled.items():
            if given.get(name) is None and value is not None:
                given[name] = value
        self._complete_training_length(given)
        sections = first(self.config, "mrope_section")
        if sections is not None:
            given.setdefault("mrope_section", sections[1])

    def _complete_training_length(self, given: RopeObject) -> None:
        """Add the training length outside the object of RoPE parameters to ``given``.

        A few classes of transformers use it, even if there is another one inside; the
        others ignore it. It is used for families that are not known, too.
        """
        beside, inside = self.config.get(TRAINED), given.get(TRAINED)
        if self.family.trained is not None:
            used = self.family.trained if beside is None else beside
            if inside is not None and inside != used:
                whose = "the class's own" if beside is None else "outside it"
                self._warn(
                    "two-values",
                    f"{TRAINED} is {short_repr(inside)} in the object of RoPE "
                    f"parameters; {short_repr(used)}, {whose}, is used",
                )
            given[TRAINED] = used
        elif self.family.is_measured and "auto_map" not in self.config:
            types = given.get("rope_type"), given.get("type")
            is_scaled = any(each in (*BY_TRAINED, "dynamic") for each in types)
            if beside is not None and is_scaled and beside != inside:
                self._warn(
                    "ignored-name",
                    f"{TRAINED} is {short_repr(beside)} outside the object of RoPE "
                    "parameters, where this family's class ignores it",
                )
        elif beside is not None and inside is None:
            given[TRAINED] = beside

    def _complete_from_attention(self, given: RopeObject) -> None:
        """Add the base of ``attn_config``, which DBRX has there, to ``given``."""
        inner = self.config.get(ATTENTION)
        if not isinstance(inner, Mapping) or given.get("rope_theta") is not None:
            return
        found = first(inner, *BASES)
        if found is not None:
            given["rope_theta"] = found[1]
            self._warn(
                "two-values",
                f"{ATTENTION}.{found[0]} is {short_repr(found[1])}, which is used "
                "here; transformers 5.23 ignores it",
            )

    def _is_unrotated(self, given: RopeObject) -> bool:
        """True if the configuration names a positional encoding other than RoPE.

        ``given`` is the configuration's object of RoPE parameters. A note that says so
        is then added to ``remarks``.
        """
        has_own_code = "auto_map" in self.config
        if self.family.unrotated or (self.family.no_rotation and not has_own_code):
            self._note(
                "the attention of this family's code has no rotation, whatever its "
                "configuration says"
            )
            return True
        if self.config.get("model_type") in NULL_IS_NONE:
            beside = "rope_theta" in self.config and self.config["rope_theta"] is None
            inside = "rope_theta" in given and given["rope_theta"] is None
            if inside or (beside and "rope_theta" not in given):
                self._note("rope_theta is null: no layer is rotated")
                return True
        is_other = False
        if self.family.requires is not None:
            name, required, default = self.family.requires
            own = self.config.get(name, default)
            is_other = own != required
        if is_other:
            self._note(
                f"{name} is {short_repr(own)}, not {short_repr(required)}: no layer is "
                "rotated"
            )
        inner = self.config.get(ATTENTION)
        if isinstance(inner, Mapping) and inner.get("rope") is False:
            self._note(f"{ATTENTION}.rope is false: no layer is rotated")
            return True
        for name, of in (("alibi", self.config), (f"{ATTENTION}.alibi", inner)):
            if isinstance(of, Mapping) and of.get("alibi") is True:
                self._note(f"{name} is true: no layer is rotated")
                return True
        return is_other

    def _read_without_effect(self, given: RopeObject) -> None:
        """Read the names of rotation in the configuration of a model without rotation.

        ``given`` is the configuration's object of RoPE parameters.
        """
        inner = self.config.get(ATTENTION)
        own = given.maps[-1]
        each = [v for _, v in own.items() if isinstance(v, Mapping)]
        for of in (self.config, own, *each, inner):
            if isinstance(of, Mapping):
                for name in {*of} & WITHOUT_EFFECT:
                    of.get(name)

    def _layers(self) -> tuple[str, ...]:
        """Return the kind of each layer, such as "full_attention"; empty if unknown."""
        types = self.config.get("layer_types")
        if types is None:
            types = self._pattern() or self._filled_types()
        bases = self.config.get("layer_rope_theta")
        switch = self.config.get("no_rope_layers")
        if not switch and not bases:
            switch = self._switches()
        else:
            self.config.get("no_rope_layer_interval")  # the lists are what counts
        for name, of in (
            ("layer_types", types),
            ("no_rope_layers", switch),
            ("layer_rope_theta", bases),
        ):
            if isinstance(of, list):
                require_layers(f"{self.prefix}{name}", of)
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
        layers = self._depth()
        if not layers:
            self._warn(
                "unlisted-layers",
                f"{DEPTHS[0]} is missing: the layers without rotation, one in {every}, "
                "are not listed",
            )
            return None
        start = 1 - layers if self.family.counts_from_end else 1
        return [n % every != 0 for n in range(start, start + layers)]

    def _pattern(self) -> list[str] | None:
        """Return each layer's kind by ``sliding_window_pattern``, an older key.

        The result is ``None`` if the configuration has no pattern.
        """
        depth = self._depth()
        pattern = self.config.get("sliding_window_pattern")
        if not depth or not self.has_window or not pattern:
            return None
        if isinstance(pattern, str) and {*pattern} <= {*"LG"}:
            is_local = [pattern[n % len(pattern)] == "L" for n in range(depth)]
        else:
            every = count(f"{self.prefix}sliding_window_pattern", pattern)
            is_local = [(n + 1) % every != 0 for n in range(depth)]
        return [
            "sliding_attention" if local else "full_attention" for local in is_local
        ]

    def _filled_types(self) -> list[str] | None:
        """Return each layer's kind as the family's class fills it in.

        The result is ``None`` if the class fills in no kinds, or there is no window.
        """
        rule, depth = self.family.layer_types, self._depth()
        is_null = "sliding_window_pattern" in self.config or not self.has_window
        if not rule or not depth or (self.family.has_window and is_null):
            return None
        start, cycle, end = (rule[name] for name in ("first", "cycle", "last"))
        within = range(max(depth - len(start) - len(end), 0))
        kinds = [*start, *(cycle[n % len(cycle)] for n in within), *end]
        return kinds[:depth]

    def _depth(self) -> int:
        """Return the number of layers, at most ``MOST_LAYERS``; 0 if not given."""
        depth = first(self.config, *DEPTHS)
        if depth is None:
            return 0
        return min(count(self.prefix + depth[0], depth[1]), MOST_LAYERS)

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
                sections=() if axes > 1 else self.family.sections,
                order=self.family.order,
            ),
            layout=self._layout(),
        )
        made = replace(made, softmax=self._softmax(where, given, made))
        self._remark_on_lengths(where, given, made)
        if axes == 1:
            return made
        equal = (made.width // 2 // axes,) * axes
        if self.family.alternating:
            sections = made.sections or self.family.sections or equal
            return replace(made, sections=sections, order="alternating")
        return replace(made, sections=equal, order="separate")

    def _remark_on_lengths(
        self, where: str, given: RopeObject, made: RotaryConfig
    ) -> None:
        """Warn of a training length, a longest text and a factor that do not fit.

        ``where`` is the name of the RoPE parameters ``given``, and ``made`` the rotary
        embedding that they describe.
        """

        def warn(code: str, text: str) -> None:
            self.remarks.append(Remark(WARNING, f"{where}{text}", code))

        longest, trained = made.longest, made.trained
        factor = made.options.get("factor", 1.0)
        inner = given.maps[-1].get("max_position_embeddings")
        if factor < 1 and made.method != "ntk":
            warn(
                "lengths",
                f".factor is {factor:g}: below 1 it raises frequencies, as for texts "
                "shorter than those of training",
            )
        if None not in (inner, longest) and inner != longest:
            warn(
                "two-values",
                f".max_position_embeddings is {short_repr(inner)}, which is ignored: "
                f"the one outside, {longest}, is used",
            )
        is_unscaled = made.method in ("default", "linear")
        if is_unscaled and longest and self.family.trained is None:
            stated = self.config.get(TRAINED) or given.maps[-1].get(TRAINED)
            is_used = given.get("llama_4_scaling_beta") is not None
            if is_used or type(stated) is not int or stated < 1:
                return
            ratio = longest / stated
            if not math.isclose(ratio, factor, rel_tol=RATIO_TOLERANCE):
                warn(
                    "lengths",
                    f".rope_type is {made.method!r}, where {TRAINED} has no effect: "
                    f"max_position_embeddings is {ratio:g} times as long, and "
                    f"frequencies are divided by {factor:g}",
                )
        if made.method not in BY_TRAINED or longest is None or trained is None:
            return
        if given.get(TRAINED) is None:
            warn(
                "lengths",
                f" does not give {TRAINED}: max_position_embeddings, {longest:,}, is "
                "taken as the training length, which is wrong if it is the length "
                "after extension",
            )
        elif trained > longest:
            warn(
                "lengths",
                f".{TRAINED}, {trained:,}, is above max_position_embeddings, "
                f"{longest:,}: training cannot be longer than the longest text",
            )
        elif (
            made.method == "yarn" and longest > (1 + RATIO_TOLERANCE) * factor * trained
        ):
            warn(
                "lengths",
                f": the factor {factor:g} extends the training length {trained:,} to "
                f"{factor * trained:,.0f}, and max_position_embeddings is {longest:,}: "
                "longer texts have angles that training did not have",
            )
        elif made.method == "longrope" and given.get("factor") is not None:
            ratio = longest / trained
            own = number(f"{where}.factor", given["factor"])
            is_outside = self.family.trained or self.config.get(TRAINED) is not None
            is_used = is_outside and given.get("attention_factor") is None
            if is_used and not math.isclose(ratio, own, rel_tol=RATIO_TOLERANCE):
                warn(
                    "lengths",
                    f".factor is {own:g}, from which transformers 5 computes the "
                    f"attention factor; transformers 4 takes the ratio {ratio:g} of "
                    f"max_position_embeddings to {TRAINED}",
                )

    def _softmax(
        self, where: str, given: Mapping[str, Any], made: RotaryConfig
    ) -> float:
        """Return YaRN's extra factor of the scale of scores in latent attention.

        The factor is 1 for all other configurations. ``where`` is the name of the RoPE
        parameters ``given``, and ``made`` the rotary embedding that they describe.
        """
        is_latent = self._rotated_part() is not None
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
        latent = self._rotated_part()
        found = first(self.config, *HEAD_DIMS)
        if latent is not None:
            return latent
        name = "global_head_dim"
        if kind == "full_attention" and self.family.global_head_dim is not None:
            return count(
                self.prefix + name, self.config.get(name, self.family.global_head_dim)
            )
        hidden, heads = first(self.config, *HIDDEN), first(self.config, *HEADS)
        share = self.family.head_share if hidden and heads else None
        if found is not None and share is None:
            return count(self.prefix + found[0], found[1])
        if self.family.head_dim is not None and "head_dim" not in self.config:
            return self.family.head_dim
        if hidden is None or heads is None:
            raise ConfigError(
                f"{self.prefix}head_dim is needed, or hidden_size and "
                "num_attention_heads to compute it from"
            )
        sizes = [count(self.prefix + n, v) for n, v in (hidden, heads)]
        return (share or 1) * sizes[0] // sizes[1]

    def _rotated_part(self) -> int | None:
        """Return the rotated features of a head of latent attention, else ``None``."""
        name = "qk_rope_head_dim"
        given = self.config.get(name, self.family.rope_head_dim)
        return None if given is None else count(self.prefix + name, given)

    def _width(self, given: Mapping[str, Any], head_dim: int) -> int | None:
        """Return the number of rotated features, if a key other than a share gives it.

        ``given`` are the RoPE parameters, ``head_dim`` is the head dimension. ``None``
        means that the share of the head in ``given``, ``partial_rotary_factor``,
        determines the number.
        """
        if self._rotated_part() is not None:
            share = given.get(SHARES[0])  # says the same in another way
            if share is None and SHARES[0] in self._filled().get(EVERY, {}):
                self._warn(
                    "class-defaults",
                    f"{SHARES[0]} is missing, and this family's class computes the "
                    f"width from it, not from the {head_dim} rotated features",
                )
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
