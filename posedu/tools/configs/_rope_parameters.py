"""One object of rotation parameters, as transformers spells them, to one ``RotaryConfig``."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from posedu.numpy.rotary import longrope_attention_factor, yarn_attention_factor
from posedu.tools.configs._fields import (
    count,
    counts,
    features,
    mapping,
    number,
    numbers,
    shown,
)
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    Remark,
    RotaryConfig,
)

ALIASES = {"su": "longrope", "mrope": "default", "xdrope": "dynamic"}
"""Old names of types: Phi-3's, Qwen2-VL's and HunYuan-VL's."""

KNOWN = {
    *("rope_theta", "rope_type", "type", "partial_rotary_factor", "factor"),
    *("original_max_position_embeddings", "attention_factor", "beta_fast"),
    *("beta_slow", "short_factor", "long_factor", "low_freq_factor"),
    *("high_freq_factor", "mscale", "mscale_all_dim", "truncate", "mrope_section"),
    *("mrope_interleaved", "xdrope_section", "alpha", "llama_4_scaling_beta"),
    "max_position_embeddings",
}
"""Parameters of any type; what else is there is ignored."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """An object of parameters, ``given`` at ``where``, and what stands beside it.

    ``width`` is ``None`` where ``partial_rotary_factor`` decides, ``base`` that of the
    family where none is said. To ``remarks`` is added what is ignored or contradictory.
    """

    where: str
    given: Mapping[str, Any]
    head_dim: int
    width: int | None
    longest: int | None
    remarks: list[Remark]
    base: float | None = None

    def has(self, name: str) -> bool:
        """Whether it has a value."""
        return self.given.get(name) is not None

    def number(self, name: str, default: float | None = None) -> float:
        """The value of a name, or the default.

        Raises
        ------
        ConfigError
            It is not there and there is no default, or it is no number above 0.
        """
        if self.has(name):
            return number(f"{self.where}.{name}", self.given[name])
        if default is None:
            raise ConfigError(f"{self.where}: {self.type} needs {name}")
        return default

    def warn(self, text: str) -> None:
        """Add a warning."""
        self.remarks.append(Remark(WARNING, f"{self.where}{text}"))

    def note(self, text: str) -> None:
        """Add a note."""
        self.remarks.append(Remark(NOTE, f"{self.where}{text}"))

    @property
    def type(self) -> str:
        """As it is said, ``rope_type`` before ``type``.

        Raises
        ------
        ConfigError
            It is none that is known.
        """
        new, old = self.given.get("rope_type"), self.given.get("type")
        said = old if new is None else new
        if said is None:
            return "default"
        if not isinstance(said, str) or ALIASES.get(said, said) not in METHODS:
            raise ConfigError(
                f"{self.where}.rope_type must be one of {', '.join(METHODS)}, got "
                f"{shown(said)}"
            )
        return said

    @property
    def method(self) -> str:
        """The type, by the name that it has today."""
        said = ALIASES.get(self.type, self.type)
        return "ntk" if said == "dynamic" and self.has("alpha") else said

    @property
    def share(self) -> float:
        """``partial_rotary_factor``."""
        return self.number("partial_rotary_factor", 1.0)

    @property
    def turning(self) -> int:
        """How many features the pairs are made of."""
        if self.width is not None:
            return self.width
        share = 1.0 if self.method == "proportional" else self.share
        return features(self.head_dim, share)

    @property
    def trained(self) -> int:
        """The length of training.

        Raises
        ------
        ConfigError
            Neither it nor the longest text is said.
        """
        name = "original_max_position_embeddings"
        if self.has(name):
            return count(f"{self.where}.{name}", self.given[name])
        if self.longest is None:
            raise ConfigError(
                f"{self.where}: {self.type} needs {name}, the length of training, and "
                "there is no max_position_embeddings to take instead"
            )
        return self.longest


def rope(of: Parameters, *, layout: str = "") -> RotaryConfig:
    """The rotation that parameters describe.

    Raises
    ------
    ConfigError
        Values that are missing or of another kind, unknown types, lists of the wrong
        length.
    """
    mapping(of.where, of.given)
    method, width = of.method, of.turning
    _remark_on_names(of)
    if width < 2:
        raise ConfigError(
            f"{of.where}: of {of.head_dim} features of a head {width} turn, no pair"
        )
    return RotaryConfig(
        head_dim=of.head_dim,
        width=width,
        base=_base(of),
        method=method,
        longest=of.longest,
        layout=layout,
        **_sections(of, width),
        **METHODS[method](of),
    )


def _remark_on_names(of: Parameters) -> None:
    for name in sorted(set(of.given) - KNOWN):
        of.warn(f".{name} is no parameter of rotation: ignored")
    new, old = of.given.get("rope_type"), of.given.get("type")
    if None not in (new, old) and new != old:
        of.warn(
            f" has the types {shown(new)} (rope_type) and {shown(old)} (type): the "
            "first one holds"
        )
    if of.type == "mrope":
        of.warn(
            " has the type 'mrope', which is none: Qwen2-VL's class reads it as "
            "'default' with sections, a plain model of transformers 5.23 fails with "
            "KeyError when it is built"
        )


def _base(of: Parameters) -> float:
    if not of.has("rope_theta") and of.base is None:
        of.warn(
            " does not say rope_theta, the base: 10000 is taken, which is what most "
            "libraries do without a word"
        )
    base = of.number("rope_theta", of.base or 10_000.0)
    if base <= 1:
        raise ConfigError(f"{of.where}.rope_theta must be above 1, got {base:g}")
    return base


def _sections(of: Parameters, width: int) -> dict[str, Any]:
    name = "mrope_section" if of.has("mrope_section") else "xdrope_section"
    if not of.has(name):
        return {}
    sections = counts(f"{of.where}.{name}", of.given[name])
    if sum(sections) != width // 2:
        raise ConfigError(
            f"{of.where}.{name} must add up to the {width // 2} pairs that turn, got "
            f"{list(sections)}: {sum(sections)}"
        )
    order = "interleaved" if of.given.get("mrope_interleaved") else "sectioned"
    return {"sections": sections, "order": order}


def _default(of: Parameters) -> dict[str, Any]:
    return {}


def _linear(of: Parameters) -> dict[str, Any]:
    return {"options": {"factor": of.number("factor")}}


def _ntk(of: Parameters) -> dict[str, Any]:
    alpha = of.number("alpha")
    of.note(
        f" has alpha {alpha:g}: the base is multiplied by alpha^(d/(d−2)) once and for "
        "all (HunYuan), whatever the type is called"
    )
    return {"options": {"factor": alpha}}


def _dynamic(of: Parameters) -> dict[str, Any]:
    if of.longest is None:
        raise ConfigError(f"{of.where}: dynamic needs max_position_embeddings")
    if of.has("original_max_position_embeddings"):
        of.warn(
            ".original_max_position_embeddings is not looked at under 'dynamic' by "
            "transformers: max_position_embeddings counts as trained"
        )
    _warn_of_stale_keys(of)
    return {"options": {"factor": of.number("factor")}, "trained": of.longest}


def _yarn(of: Parameters) -> dict[str, Any]:
    trained = of.trained
    factor = of.number("factor", of.longest and of.longest / trained)
    fast, slow = of.number("beta_fast", 32.0), of.number("beta_slow", 1.0)
    if fast < slow:
        raise ConfigError(f"{of.where}: beta_fast {fast:g} is below beta_slow {slow:g}")
    truncate = of.given.get("truncate")
    if not isinstance(truncate, bool | None):
        raise ConfigError(
            f"{of.where}.truncate must be true or false, got {shown(truncate)}"
        )
    scales = {}
    if of.given.get("mscale") and of.given.get("mscale_all_dim"):
        scales["mscale"] = of.number("mscale")
        scales["mscale_all"] = of.number("mscale_all_dim")
    usual = yarn_attention_factor(factor, **scales)
    if not 0 < usual < math.inf:
        raise ConfigError(f"{of.where}: mscale and mscale_all_dim are out of reach")
    return {
        "options": {
            "factor": factor,
            "fast": fast,
            "slow": slow,
            "truncate": truncate is not False,
        },
        "trained": trained,
        "attention_factor": of.number("attention_factor", usual),
    }


def _llama3(of: Parameters) -> dict[str, Any]:
    low, high = of.number("low_freq_factor"), of.number("high_freq_factor")
    if high < low:
        raise ConfigError(
            f"{of.where}: high_freq_factor {high:g} is below low_freq_factor {low:g}"
        )
    return {
        "options": {"factor": of.number("factor"), "low": low, "high": high},
        "trained": of.trained,
    }


def _longrope(of: Parameters) -> dict[str, Any]:
    pairs = (of.turning + 1) // 2
    lists = {}
    for name in ("short", "long"):
        where = f"{of.where}.{name}_factor"
        if not of.has(f"{name}_factor"):
            raise ConfigError(f"{of.where}: {of.type} needs {name}_factor")
        lists[name] = numbers(where, of.given[f"{name}_factor"])
        if len(lists[name]) != pairs:
            raise ConfigError(
                f"{where} must be {pairs} numbers, one for each pair, got "
                f"{len(lists[name])}"
            )
    trained = of.trained
    factor = of.number("factor", (of.longest or trained) / trained)
    if factor > 1 and trained < 2:
        raise ConfigError(f"{of.where}: a training length of 1 has no logarithm")
    usual = longrope_attention_factor(factor, trained=trained) if factor > 1 else 1.0
    _warn_of_stale_keys(of)
    return {
        "options": lists,
        "trained": trained,
        "attention_factor": of.number("attention_factor", usual),
    }


def _proportional(of: Parameters) -> dict[str, Any]:
    every = of.head_dim // 2
    turning = features(of.head_dim, of.share) // 2
    if not 0 < turning <= every:
        raise ConfigError(
            f"{of.where}.partial_rotary_factor must leave 1 to {every} pairs that "
            f"turn, got {of.share:g}: {turning}"
        )
    if turning < every:
        of.note(
            f": proportional is not partial. {turning} of {every} pairs turn, with the "
            "frequencies that they have in the whole head"
        )
    return {"options": {"turning": turning, "factor": of.number("factor", 1.0)}}


def _warn_of_stale_keys(of: Parameters) -> None:
    of.warn(
        f": under {of.type!r} the frequencies change with the length of the text, so "
        "cached keys that were rotated before are wrong afterwards; transformers 5.23 "
        "keeps them"
    )


METHODS: Mapping[str, Callable[[Parameters], dict[str, Any]]] = {
    "default": _default,
    "linear": _linear,
    "ntk": _ntk,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "proportional": _proportional,
}
"""What each type says besides its base; ``"ntk"`` is HunYuan's ``alpha``."""
