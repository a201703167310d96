"""Reader of GGUF: a file's metadata, with the rotation that llama.cpp computes."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from posedu.tools.configs._fields import (
    count,
    first,
    heads,
    mapping,
    number,
    numbers,
    short_repr,
)
from posedu.tools.configs._rope_parameters import Parameters, rope
from posedu.tools.configs._watched import Watched
from posedu.tools.configs.hybrid import read_gguf_mixers
from posedu.tools.configs.other_encoding import OtherEncoding
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    Reading,
    Remark,
    RotaryConfig,
    Temperature,
)

Config = Mapping[str, Any]
Record = Mapping[str, Any]

EVERY, FULL, WINDOW, NONE = "all", "full_attention", "sliding_attention", "none"
"""Names of kinds of layers."""

BASE = 10_000.0  # of llama.cpp
TYPES = ("none", "linear", "yarn", "longrope")
FREQS = "rope_freqs.weight"
LISTS = ("rope_factors_short.weight", "rope_factors_long.weight")
SECTIONS = "rope.dimension_sections"
HEADS = "attention.head_count"
DEFAULTS: Mapping[str, float] = {
    "rope.scaling.yarn_ext_factor": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_beta_fast": 32.0,
    "rope.scaling.yarn_beta_slow": 1.0,
    "rope.scaling.yarn_log_multiplier": 0.0,
    "rope.scaling.alpha": 0.0,
    "attention.temperature_scale": 0.0,
}
"""Names that not every architecture reads, and the values that change nothing."""

WITHOUT_EFFECT = ("rope.scaling.finetuned",)
"""Names without effect on a rotation, except where a record has them."""

NO_ROTATION = 1e20  # Factors above it stand for pairs that are not rotated.
DEEPEST = 4096  # layers


@cache
def architectures() -> Mapping[str, Record]:
    """Return what llama.cpp does in each architecture, by the architecture's name.

    ``tests/oracles/gguf_architectures.py`` writes these records and describes them.
    """
    return _data()["architectures"]


@cache
def _data() -> Mapping[str, Any]:
    return json.loads(
        files("posedu.tools.configs").joinpath("gguf.json").read_text("utf-8")
    )


@cache
def _version() -> str:
    return " ".join(next(iter(_data()["made"].items())))


def from_dump(config: Config) -> Config:
    """Return the metadata in the output of ``gguf-dump --json``, by name.

    The value is ``None`` for arrays whose values the output does not have, and for
    tensors of factors.
    """
    found = {
        name: mapping(f"metadata.{name}", each).get("value")
        for name, each in config["metadata"].items()
    }
    tensors = config.get("tensors")
    if not tensors:
        return {name: v for name, v in found.items() if not name.startswith("GGUF.")}
    return found | dict.fromkeys({FREQS, *LISTS} & {*mapping("tensors", tensors)})


def from_file(path: Path) -> Config:
    """Return the metadata of a .gguf file and its tensors of factors, by name.

    Raises
    ------
    ConfigError
        The package gguf is not installed, or the file is damaged.
    """
    try:
        from posedu.tools.configs import _gguf_file
    except ImportError as error:
        raise ConfigError(
            "a .gguf file is read with the package gguf, which is not installed: "
            "pip install posedu[gguf]"
        ) from error
    try:
        return _gguf_file.content(path)
    except ValueError as error:
        raise ConfigError(f"the .gguf file cannot be read: {error}") from error


def read_gguf(config: Watched) -> Reading:
    """Read the rotary embedding of a GGUF file's metadata, as llama.cpp computes it.

    Raises
    ------
    ConfigError
        Lists of factors are needed and are not there; a method or a list is one that
        llama.cpp does not know; or a value is missing or has another type.
    """
    family = config["general.architecture"]
    if not isinstance(family, str):
        raise ConfigError(
            f"general.architecture must be text, got {short_repr(family)}"
        )
    remarks: list[Remark] = []
    record = architectures().get(family)
    if record is None:
        text = (
            f"{short_repr(family)} is not an architecture of llama.cpp (that in "
            f"{_version()}): its layout and its layers with a window are not known"
        )
        remarks.append(Remark(WARNING, text, "unknown-type"))
        record = {"layout": "", "reads": [*DEFAULTS], "factors": EVERY}
    if record["layout"] is None:
        for name in config.under(f"{family}.rope."):
            config.get(f"{family}.rope.{name}")
        note = Remark(NOTE, f"llama.cpp rotates nothing in {family!r}")
        return Reading(
            format="GGUF",
            family=family,
            kinds={EVERY: None},
            encodings=tuple(_other_encodings(family, config, record)),
            mixers=read_gguf_mixers(family, config.under(f"{family}.")),
            remarks=(note,),
        )
    return _Metadata(family, config, record, remarks).reading()


def _other_encodings(
    family: str, config: Watched, record: Record
) -> Iterator[OtherEncoding]:
    """Yield the encodings of an architecture without rotation that are known.

    ``config`` is a file's metadata, ``record`` what llama.cpp does in the architecture
    ``family``. An encoding whose numbers the file does not have is left out.
    """

    def given(name: str) -> Any:
        return config.get(f"{family}.{name}")

    def whole(name: str) -> int:
        return count(f"{family}.{name}", given(name))

    for fact in record.get("encodings", ()):
        options = {name: value for name, value in fact.items() if name != "kind"}
        match fact["kind"]:
            case "alibi":
                if isinstance(name := fact["bias_max"], str):
                    if not given(name):  # 0 turns ALiBi off
                        continue
                    options["bias_max"] = number(f"{family}.{name}", given(name))
                if isinstance(given(HEADS), int):
                    options["heads"] = heads(f"{family}.{HEADS}", given(HEADS))
            case "learned":
                options = {"rows": whole(fact["rows"])} if given(fact["rows"]) else {}
            case "t5":
                if given(fact["buckets"]) is None:
                    continue
                options["buckets"] = whole(fact["buckets"])
        yield OtherEncoding(kind=fact["kind"], options=options)


@dataclass(frozen=True)
class _Metadata:
    """Metadata of an architecture that is rotated, and llama.cpp's record of it."""

    family: str
    config: Watched
    record: Record
    remarks: list[Remark] = field(default_factory=list)

    @cached_property
    def own(self) -> Watched:
        """The architecture's names, without its own before them."""
        return self.config.under(f"{self.family}.")

    def warn(self, code: str, text: str) -> None:
        self.remarks.append(Remark(WARNING, text, code))

    def note(self, text: str) -> None:
        self.remarks.append(Remark(NOTE, text))

    def number(self, *names: str) -> float | None:
        """Return the number that the first of ``names`` with a value gives, if any."""
        found = first(self.own, *names)
        return found and number(f"{self.family}.{found[0]}", found[1])

    def count(self, *names: str) -> int | None:
        """Return the count that the first of ``names`` with a value gives, if any."""
        found = first(self.own, *names)
        return found and count(f"{self.family}.{found[0]}", found[1])

    def setting(self, name: str) -> float:
        """Return the value of a name of DEFAULTS, if this architecture reads it."""
        default = DEFAULTS[name]
        if name == "rope.scaling.yarn_beta_fast":
            default = self.record.get("beta_fast", default)
        value = self.own.get(name)
        if value is None or value == default:
            return default
        full = f"{self.family}.{name}"
        if name not in self.record["reads"]:
            self.warn(
                "ignored-name",
                f"{full} is ignored: llama.cpp does not read it in this "
                f"architecture, and {default:g} is used",
            )
            return default
        if value == 0:
            return 0.0
        return number(full, value)

    def reading(self) -> Reading:
        """Return the content of the metadata."""
        for name in WITHOUT_EFFECT:
            self.own.get(name)
        self._remark_on_tensors()
        if "own" in self.record:
            self.warn(
                "built-in-numbers",
                f"llama.cpp computes rotations of {self.family!r} partly from "
                "numbers in its code, which are not read here",
            )
        full = self._full()
        window = self._window(full) if self._has_window else full
        kinds, layers = self._kinds(full, window)
        return Reading(
            format="GGUF",
            family=self.family,
            kinds=kinds,
            layers=layers,
            temperature=self._temperature(kinds),
            mixers=read_gguf_mixers(self.family, self.own),
            remarks=tuple(dict.fromkeys(self.remarks)),
        )

    # --- Scaling

    @cached_property
    def type(self) -> str:
        given = self.own.get("rope.scaling.type", "linear")
        if given not in TYPES:
            raise ConfigError(
                f"{self.family}.rope.scaling.type must be one of {', '.join(TYPES)}, "
                f"got {short_repr(given)}"
            )
        return given

    @cached_property
    def factor_in_file(self) -> float:
        """The divisor of frequencies that the file gives, 1 if it gives none or 0."""
        found = first(self.own, "rope.scaling.factor", "rope.scale_linear")
        if found is None or found[1] == 0:
            return 1.0
        return number(f"{self.family}.{found[0]}", found[1])

    @property
    def factor(self) -> float:
        """The divisor of frequencies in layers without a window."""
        return 1.0 if self.type == "none" else self.factor_in_file

    @cached_property
    def is_yarn(self) -> bool:
        """True if frequencies are those of YaRN, and not all divided alike."""
        name = "rope.scaling.yarn_ext_factor"
        given = self.own.get(name)
        is_unset = given is None or (isinstance(given, int | float) and given < 0)
        if is_unset or name not in self.record["reads"]:
            if not is_unset:
                self.setting(name)
            return self.type == "yarn"
        share = self.setting(name)
        if share not in (0, 1):
            self.warn(
                "unread-name",
                f"{self.family}.{name} is {share:g}, a share of YaRN's ramp: this "
                "reading is that of 1",
            )
        return share != 0

    @cached_property
    def attention_factor(self) -> float:
        """``yarn_attn_factor`` of llama.cpp's context, before ggml's factor of YaRN."""
        own = self.number("rope.scaling.attn_factor") or 1.0
        all_dims = self.setting("rope.scaling.yarn_log_multiplier")
        attention = self.setting("rope.scaling.yarn_attn_factor")
        if not self.is_yarn:
            return own * attention
        above = 1.0
        if all_dims:
            all_dims /= self.record.get("log_multiplier", 1.0)
            above = all_dims if "one_mscale" in self.record else 1.0
        return own * (
            self._mscale(above)
            / self._mscale(all_dims)
            / self._ggml_factor(self.factor)
        )

    @property
    def softmax(self) -> float:
        """Further factor of the scale of the scores."""
        if "softmax" not in self.record:
            return 1.0
        all_dims = self.setting("rope.scaling.yarn_log_multiplier")
        all_dims /= self.record.get("log_multiplier", 1.0)
        growth = 1 + 0.1 * all_dims * math.log(self.factor)
        scale = self.attention_factor * _growth(self.factor) * growth
        return _finite("scale of the softmax", scale * scale)

    def _mscale(self, scale: float) -> float:
        return 1 + 0.1 * scale * math.log(max(self.factor, 1.0))

    def _ggml_factor(self, factor: float) -> float:
        return _growth(factor) if self.is_yarn else 1.0

    @cached_property
    def base(self) -> float | None:
        """The base b in layers without a window, ``None`` if the file gives none."""
        base = self.number("rope.freq_base")
        alpha = self.setting("rope.scaling.alpha")
        if not alpha:
            return base
        d = self.head_dim
        if d <= 2:
            raise ConfigError(
                f"rope.scaling.alpha needs heads of more than 2 features, got {d}"
            )
        self.note(
            f"{self.family}.rope.scaling.alpha is {alpha:g}: the base is multiplied by "
            "alpha^(d/(d−2)) for texts of any length (HunYuan)"
        )
        try:
            return (base or BASE) * alpha ** (d / (d - 2))
        except OverflowError:
            raise ConfigError(
                f"{self.family}.rope.scaling.alpha must give a finite base, got "
                f"{alpha:g}"
            ) from None

    # --- Dimensions

    @cached_property
    def head_dim(self) -> int:
        given = self.count("attention.key_length")
        if given is not None:
            return given
        names = ("embedding_length", "attention.head_count")
        width, heads = (self.own.get(name) for name in names)
        if isinstance(heads, list) and heads:
            heads = heads[0]
        if width is None or heads is None:
            missing = [n for n, v in zip(names, (width, heads), strict=True) if not v]
            raise ConfigError(
                f"{' and '.join(missing)} must be given to compute the head dimension"
            )
        return count(names[0], width) // count(names[1], heads)

    @cached_property
    def width(self) -> int:
        given = self.count("rope.dimension_count")
        return self.head_dim if given is None else given

    # --- Kinds of layers

    def _full(self) -> RotaryConfig:
        made = self._rotation(
            head_dim=self.width if "latent" in self.record else self.head_dim,
            width=self.width,
            base=self.base,
            factor=self.factor,
        )
        made = replace(self._with_factors(made), **self._layout(made.width // 2))
        if self.softmax == 1:
            return made
        self.note(
            f"llama.cpp also multiplies the scale of the softmax by "
            f"{self.softmax:g} in {self.family!r}"
        )
        return replace(made, softmax=self.softmax)

    def _window(self, full: RotaryConfig) -> RotaryConfig:
        rule = self.record["window"]
        if "base" not in rule:
            return full
        base = self.number(*(name for name in rule["base"] if name != BASE))
        if base is None and rule["base"][-1] == BASE:
            base = BASE
            self.note(
                f"{self.family}.{rule['base'][0]} is not given: llama.cpp takes "
                f"{BASE:g} in layers with a window"
            )
        latent = "latent" in self.record
        own_width = self.count(*rule["width"]) if "width" in rule else None
        width = own_width or self.width
        head_dim = self.count("attention.key_length_swa") or self.head_dim
        made = self._rotation(
            head_dim=width if latent else head_dim,
            width=width,
            base=base,
            factor=self.factor_in_file if rule["scaling"] == "file" else 1.0,
        )
        if rule["scaling"] == "plain":
            made = replace(made, attention_factor=1.0)
        if self.record.get("factors") == EVERY:
            made = self._with_factors(made)
        return replace(
            made, layout=full.layout, order=full.order, sections=full.sections
        )

    def _rotation(
        self, *, head_dim: int, width: int, base: float | None, factor: float
    ) -> RotaryConfig:
        given: dict[str, Any] = {"rope_theta": base, "rope_type": "default"}
        fast = self.setting("rope.scaling.yarn_beta_fast")
        slow = self.setting("rope.scaling.yarn_beta_slow")
        if factor != 1:
            given |= {"rope_type": "linear", "factor": factor}
            if self.is_yarn:
                given |= {
                    "rope_type": "yarn",
                    "original_max_position_embeddings": self.trained,
                    "beta_fast": fast,
                    "beta_slow": slow,
                }
        made = rope(
            Parameters(
                where=f"{self.family}.rope",
                given=given,
                head_dim=head_dim,
                width=width,
                longest=self.longest,
                remarks=self.remarks,
            )
        )
        attention = self.attention_factor * self._ggml_factor(factor)
        return replace(made, attention_factor=_finite("attention factor", attention))

    @cached_property
    def longest(self) -> int | None:
        return self.count("context_length")

    @cached_property
    def trained(self) -> int | None:
        given = self.count("rope.scaling.original_context_length")
        return self.longest if given is None else given

    # --- Tensors of factors

    @property
    def _tensors_are_known(self) -> bool:
        """True if a tensor that is not among the names is not in the file."""
        is_one_file = (self.config.get("split.count") or 1) in (0, 1)
        return "GGUF.tensor_count" in self.config and is_one_file

    def _remark_on_tensors(self) -> None:
        there = [name for name in (FREQS, *LISTS) if name in self.config]
        reads = "factors" in self.record
        if there and not reads:
            for name in there:
                self.config.get(name)
            self.warn(
                "ignored-name",
                f"the tensors {', '.join(there)} are ignored: llama.cpp does not use "
                f"them in {self.family!r}",
            )
        if reads and not there and not self._tensors_are_known:
            self.note(
                "a tensor rope_freqs in the file, if there is one, also divides these "
                "frequencies (Llama 3.1's scaling is stored so), as do the lists "
                "rope_factors_short and rope_factors_long; the metadata do not show "
                "whether there are any"
            )

    def _tensor(self, name: str, pairs: int) -> tuple[float, ...] | None:
        if name not in self.config:
            return None
        if self.config.get(name) is None:
            raise ConfigError(
                f"the file has a tensor {name}, which divides frequencies, and its "
                "numbers are not here: give the .gguf file itself"
            )
        found = numbers(name, self.config[name])
        if len(found) < pairs:
            raise ConfigError(
                f"{name} must be {pairs} numbers, one for each pair, got {len(found)}"
            )
        return found[:pairs]

    def _with_factors(self, made: RotaryConfig) -> RotaryConfig:
        """Return ``made``, the rotation without factors, with those of the tensors."""
        if "factors" not in self.record:
            return made
        pairs = (made.width + 1) // 2
        freqs = self._tensor(FREQS, pairs)
        lists = [self._tensor(name, pairs) for name in LISTS]
        if freqs is None and None in lists:
            if self.type == "longrope":
                raise ConfigError(
                    f"{self.family}.rope.scaling.type is 'longrope': its lists are the "
                    "tensors rope_factors_short and rope_factors_long of the file, not "
                    "metadata: give the .gguf file itself"
                )
            return made
        if made.method == "yarn":
            raise ConfigError(
                f"{self.family}.rope.scaling.type is 'yarn', and the file has tensors "
                "of factors as well; the two together cannot be described"
            )
        scale = made.options.get("factor", 1.0)
        if freqs is None:
            short, long = ([scale * f for f in each] for each in lists if each)
            self.note(
                f"llama.cpp takes the list of factors by the size of its context, "
                f"not by the length of the text: the long one above {self.trained}"
            )
            return replace(
                made,
                method="longrope",
                options={"short": tuple(short), "long": tuple(long)},
                trained=self.trained,
            )
        rotated = sum(f < NO_ROTATION for f in freqs)
        if rotated < pairs and freqs[:rotated] == (1.0,) * rotated:
            options = {"rotated_pairs": rotated, "factor": scale}
            return replace(made, method="proportional", options=options)
        if set(freqs) == {1.0}:
            return made
        divisors = tuple(scale * f for f in freqs)
        return replace(made, method="factors", options={"divisors": divisors})

    # --- Layouts, layers, temperature

    def _layout(self, pairs: int) -> dict[str, Any]:
        """Return the layout, and the sections if positions have several coordinates."""
        if not self.record["layout"]:
            return {}
        name = f"{self.family}.{SECTIONS}"
        given = self.own.get(SECTIONS)
        if given is None and SECTIONS in self.own:
            raise ConfigError(
                f"{name} is an array without values: write the JSON with gguf-dump "
                "--json --json-array"
            )
        sections = [] if given is None else given
        if not isinstance(sections, list) or any(
            not isinstance(n, int) or n < 0 for n in sections
        ):
            raise ConfigError(
                f"{name} must be a list of whole numbers, got {short_repr(given)}"
            )
        rule: Record = self.record
        for condition, changed in self.record.get("when", {}).items():
            value = sections if condition == SECTIONS else self.own.get(condition)
            if value and (condition != SECTIONS or all(value[:2])):
                rule = changed
                break
        found = {"layout": rule["layout"]}
        used = [n for n in sections if n]
        if "order" not in rule:
            if len(used) > 1:
                self.warn(
                    "ignored-name",
                    f"{name} is ignored: llama.cpp rotates {self.family!r} by one "
                    "coordinate",
                )
            return found
        if sum(used) != pairs or used != sections[: len(used)]:
            raise ConfigError(
                f"{name} must be numbers above 0 that add up to the {pairs} rotated "
                f"pairs, got {sections}"
            )
        if rule["order"] == "interleaved":
            self._warn_of_fourth(name, sections, pairs)
        return found | {"sections": tuple(used), "order": rule["order"]}

    def _warn_of_fourth(self, name: str, sections: list[int], pairs: int) -> None:
        """Warn of pairs that llama.cpp rotates by the fourth coordinate."""
        first_three = (*sections, 0, 0, 0)[:3]
        fourth = [n for n in range(pairs) if n >= 3 * first_three[n % 3]]
        if fourth:
            self.warn(
                "other-sections",
                f"{name} is {sections}: llama.cpp rotates the pairs "
                f"{', '.join(map(str, fourth))} by a position's fourth coordinate, "
                "which is 0 for text; transformers rotates them by the first",
            )

    def _holds(self, rule: Record) -> bool:
        """Return whether a rule on layers holds for this file."""
        if "layers" in rule and self.own.get("block_count") != rule["layers"]:
            return False
        if "needs" in rule and not self.own.get(rule["needs"]):
            return False
        return "unless_zero" not in rule or self.own.get(rule["unless_zero"]) != 0

    @property
    def _has_window(self) -> bool:
        return "window" in self.record and self._holds(self.record["window"])

    @cached_property
    def _depth(self) -> int | None:
        layers = self.count("block_count")
        if layers is None:
            return None
        more = self._whole("nextn_predict_layers") or 0
        return max(0, min(layers - more, DEEPEST))

    def _whole(self, name: str) -> int | None:
        """Return the whole number from 0 on that ``name`` gives, if any."""
        found = self.own.get(name)
        if found is not None and (not isinstance(found, int) or found < 0):
            raise ConfigError(
                f"{self.family}.{name} must be a whole number from 0 on, got "
                f"{short_repr(found)}"
            )
        return found

    def _with_window(self) -> tuple[bool, ...] | None:
        """Return whether each layer has a window, ``None`` if it is not known."""
        depth, name = self._depth, "attention.sliding_window_pattern"
        if depth is None:
            return None
        if not self._has_window:
            return (False,) * depth
        given = self.own.get(name)
        if isinstance(given, list):
            if len(given) < depth:
                raise ConfigError(
                    f"{self.family}.{name} must have a value for each of the {depth} "
                    f"layers, got {len(given)}"
                )
            return tuple(map(bool, given[:depth]))
        rule = self.record["window"]
        if given is None and (name in self.own or "period" not in rule):
            return None
        period = rule["period"] if given is None else self._whole(name)
        full = 0 if rule.get("full_first") else period - 1
        return tuple(period == 0 or n % period != full for n in range(depth))

    def _kinds(
        self, full: RotaryConfig, window: RotaryConfig
    ) -> tuple[dict[str, RotaryConfig | None], tuple[str, ...]]:
        """Return the rotary embedding of each kind of layer, and each layer's kind.

        ``full`` and ``window`` are those of layers without and with a window.
        """
        rule = self.record.get("unrotated", {})
        holds = bool(rule) and self._holds(rule)
        if holds and "without" in rule and self.own.get(rule["without"]) is False:
            return {EVERY: None}, ()
        kinds: dict[str, RotaryConfig | None] = {EVERY: full}
        windows = self._with_window()
        no_full = holds and "full" in rule and self._has_window
        layers: tuple[str, ...] | None = ()
        if no_full or window != full:
            kinds = {FULL: None if no_full else full, WINDOW: window}
            layers = windows and tuple(WINDOW if each else FULL for each in windows)
        if not holds or not {"some", "period", "pattern"} & {*rule}:
            return kinds, layers or ()
        plain = layers or (EVERY,) * (self._depth or 0)
        rotated = self._rotated(rule, len(plain))
        if rotated is None or layers is None:
            self.warn(
                "unlisted-layers",
                f"llama.cpp leaves some layers of {self.family!r} without rotation, "
                "and which ones is not known here",
            )
            return kinds, ()
        listed = tuple(
            kind if each else NONE for kind, each in zip(plain, rotated, strict=True)
        )
        if all(rotated):
            return kinds, layers
        return kinds | {NONE: None}, listed

    def _rotated(self, rule: Record, depth: int) -> list[bool] | None:
        """Return whether each layer is rotated, ``None`` if it is not known."""
        if "period" in rule and depth:
            return [n % rule["period"] != rule["at"] for n in range(depth)]
        if "pattern" in rule:
            given = self.own.get(rule["pattern"])
            if given is None and rule["pattern"] not in self.own:
                return [True] * depth
            if isinstance(given, list) and depth and len(given) >= depth:
                return [bool(each) for each in given[:depth]]
        return None

    def _temperature(self, kinds: Mapping[str, Any]) -> Temperature | None:
        rule = self.record.get("temperature")
        if rule is None:
            self.setting("attention.temperature_scale")
            return None
        alpha, length = rule["alpha"], rule["length"]
        if isinstance(alpha, str):
            alpha = self.setting(alpha)
        if not alpha or (rule["unrotated"] and NONE not in kinds):
            return None
        if length == "rope.scaling.original_context_length":
            length = self.trained
        elif isinstance(length, str):
            length = self.count(length)
        if length is None:
            raise ConfigError(
                f"{self.family}.attention.temperature_scale needs a length, "
                f"{self.family}.{rule['length']}"
            )
        return Temperature(
            growth="steps",
            alpha=alpha,
            length=float(length),
            index_from=rule["index_from"],
            layers=NONE if rule["unrotated"] else EVERY,
        )


def _growth(factor: float) -> float:
    """Return ggml's factor of amplitudes under YaRN."""
    return _finite("attention factor", 1 + 0.1 * math.log(factor))


def _finite(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ConfigError(
            f"the scaling must give a {name} that is finite and above 0, got {value:g}"
        )
    return value
