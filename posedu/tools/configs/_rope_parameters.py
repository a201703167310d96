"""Reader of a configuration's RoPE parameters, as transformers names them."""

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
    short_repr,
)
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    Remark,
    RotaryConfig,
)

ALIASES = {"su": "longrope", "mrope": "default", "xdrope": "dynamic"}
"""Old names of types, of Phi-3, Qwen2-VL and HunYuan-VL."""

KNOWN = {
    "alpha",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "high_freq_factor",
    "llama_4_scaling_beta",
    "long_factor",
    "low_freq_factor",
    "max_position_embeddings",
    "mrope_interleaved",
    "mrope_section",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "short_factor",
    "truncate",
    "type",
    "xdrope_section",
}
"""Parameters of all types; any other is ignored."""

STALE_KEYS = (
    "the frequencies change with the length of the text, so keys that were cached "
    "before a change are rotated by the wrong angles; transformers 5.23 keeps them"
)
"""End of the warning of types whose frequencies depend on the length."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """RoPE parameters of a configuration, with the other values needed to read them.

    Parameters
    ----------
    where
        The name of the object of RoPE parameters in the configuration.
    given
        The object of RoPE parameters.
    head_dim
        Head dimension.
    width
        Number of rotated features, ``None`` if ``partial_rotary_factor`` gives it.
    longest
        ``max_position_embeddings``, ``None`` if it is not given.
    remarks
        A list to which warnings and notes are added.
    base
        The model family's base b, used if the object of RoPE parameters gives none.
    sections, order
        The model family's sections, used if the object of RoPE parameters gives none,
        and their order, which the object cannot change; empty if they are not known.
    """

    where: str
    given: Mapping[str, Any]
    head_dim: int
    width: int | None
    longest: int | None
    remarks: list[Remark]
    base: float | None = None
    sections: tuple[int, ...] = ()
    order: str = ""

    def has(self, name: str) -> bool:
        """Return whether the RoPE parameter ``name`` has a value."""
        return self.given.get(name) is not None

    def number(self, name: str, default: float | None = None) -> float:
        """Return the number that RoPE parameter ``name`` gives, or the default.

        Raises
        ------
        ConfigError
            There is neither a value nor a default, or the value is no number above 0.
        """
        if self.has(name):
            return number(f"{self.where}.{name}", self.given[name])
        if default is None:
            raise ConfigError(f"{self.where}: {self.type} needs {name}")
        return default

    def warn(self, code: str, text: str) -> None:
        """Append a warning to ``remarks``: the RoPE parameters' name, then ``text``.

        ``code`` is the kind of warning, a key of ``CODES``.
        """
        self.remarks.append(Remark(WARNING, f"{self.where}{text}", code))

    def note(self, text: str) -> None:
        """Append a note to ``remarks``: the RoPE parameters' name, then ``text``."""
        self.remarks.append(Remark(NOTE, f"{self.where}{text}"))

    @property
    def type(self) -> str:
        """RoPE type as given: ``rope_type``, else ``type``, else ``"default"``.

        Raises
        ------
        ConfigError
            The type is unknown.
        """
        new, old = self.given.get("rope_type"), self.given.get("type")
        rope_type = old if new is None else new
        if rope_type is None:
            return "default"
        is_text = isinstance(rope_type, str)
        if not is_text or ALIASES.get(rope_type, rope_type) not in METHODS:
            raise ConfigError(
                f"{self.where}.rope_type must be one of {', '.join(METHODS)}, got "
                f"{short_repr(rope_type)}"
            )
        return rope_type

    @property
    def method(self) -> str:
        """RoPE scaling method: the current name of ``type``, or ``"ntk"``.

        The latter is HunYuan's method: the type ``"dynamic"`` with a parameter
        ``alpha``.
        """
        current = ALIASES.get(self.type, self.type)
        return "ntk" if current == "dynamic" and self.has("alpha") else current

    @property
    def share(self) -> float:
        """Share of a head's features to rotate: ``partial_rotary_factor``, or 1."""
        return self.number("partial_rotary_factor", 1.0)

    @property
    def rotated_width(self) -> int:
        """Number of a head's features that form pairs: ``width``, or from ``share``.

        The share is 1 for the method ``"proportional"``.
        """
        if self.width is not None:
            return self.width
        share = 1.0 if self.method == "proportional" else self.share
        return features(self.head_dim, share)

    @property
    def trained(self) -> int:
        """Training length: ``original_max_position_embeddings``, else ``longest``.

        Raises
        ------
        ConfigError
            The configuration gives neither this length nor ``max_position_embeddings``.
        """
        name = "original_max_position_embeddings"
        if self.has(name):
            return count(f"{self.where}.{name}", self.given[name])
        if self.longest is None:
            raise ConfigError(
                f"{self.where}: {self.type} needs {name}, the training length, and "
                "there is no max_position_embeddings to use instead"
            )
        return self.longest


def rope(of: Parameters, *, layout: str = "") -> RotaryConfig:
    """Return the rotary embedding that a configuration's RoPE parameters describe.

    ``of`` holds the RoPE parameters; ``layout`` is the layout of the pairs, empty if it
    is not known.

    Raises
    ------
    ConfigError
        A value is missing, has another type or is unknown, or a list has the wrong
        length.
    """
    mapping(of.where, of.given)
    method, width = of.method, of.rotated_width
    _remark_on_names(of)
    if width < 2:
        raise ConfigError(
            f"{of.where}: at least 2 of the {of.head_dim} features of a head must be "
            f"rotated, got {width}"
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
        of.warn(
            "ignored-name",
            f".{name} is not a RoPE parameter and is ignored: "
            f"{short_repr(of.given[name])}",
        )
    new, old = of.given.get("rope_type"), of.given.get("type")
    if None not in (new, old) and new != old:
        of.warn(
            "two-values",
            f" has rope_type {short_repr(new)} and type {short_repr(old)}: the first "
            "is used",
        )
    if of.type == "mrope":
        of.warn(
            "unknown-type",
            " has the type 'mrope', which transformers does not define: Qwen2-VL's "
            "class reads it as 'default' with sections, and other models of "
            "transformers 5.23 raise KeyError when they are built",
        )


def _base(of: Parameters) -> float:
    if not of.has("rope_theta") and of.base is None:
        of.warn(
            "missing-base",
            " does not give rope_theta, the base: 10000 is used, as most libraries do "
            "without a warning",
        )
    base = of.number("rope_theta", of.base or 10_000.0)
    if base <= 1:
        raise ConfigError(f"{of.where}.rope_theta must be above 1, got {base:g}")
    return base


def _sections(of: Parameters, width: int) -> dict[str, Any]:
    name = "mrope_section" if of.has("mrope_section") else "xdrope_section"
    is_interleaved = of.given.get("mrope_interleaved")
    if of.has(name):
        sections = counts(f"{of.where}.{name}", of.given[name])
        if sum(sections) != width // 2:
            raise ConfigError(
                f"{of.where}.{name} must add up to the {width // 2} rotated pairs, got "
                f"{list(sections)}, which add up to {sum(sections)}"
            )
    elif not of.sections:
        return {}
    elif sum(of.sections) != width // 2:
        of.warn(
            "other-sections",
            f".mrope_section is missing, and this family's class fills in "
            f"{list(of.sections)}, which does not add up to the {width // 2} rotated "
            "pairs",
        )
        return {}
    else:
        sections = of.sections
    own = "interleaved" if is_interleaved else "sectioned"
    if of.order and isinstance(is_interleaved, bool) and own != of.order:
        of.warn(
            "ignored-name",
            f".mrope_interleaved is {is_interleaved}, but this family's sections are "
            f"always {of.order}",
        )
    return {"sections": sections, "order": of.order or own}


def _default(of: Parameters) -> dict[str, Any]:
    return {}


def _linear(of: Parameters) -> dict[str, Any]:
    return {"options": {"factor": of.number("factor")}}


def _ntk(of: Parameters) -> dict[str, Any]:
    if not of.has("alpha"):
        raise ConfigError(
            f"{of.where} has the type 'ntk', which transformers does not define: code "
            "outside it, such as GTE's, uses the name for several methods; give "
            "'dynamic' with alpha if one larger base is used at all lengths"
        )
    alpha = of.number("alpha")
    of.note(
        f" has alpha {alpha:g}: the base is multiplied by alpha^(d/(d−2)) for texts of "
        "any length (HunYuan), whatever the type is named"
    )
    return {"options": {"factor": alpha}}


def _dynamic(of: Parameters) -> dict[str, Any]:
    if of.longest is None:
        raise ConfigError(f"{of.where}: dynamic needs max_position_embeddings")
    if of.has("original_max_position_embeddings"):
        of.warn(
            "ignored-name",
            ".original_max_position_embeddings is ignored by transformers under "
            "'dynamic': max_position_embeddings is the training length",
        )
    _warn_of_stale_keys(of)
    return {"options": {"factor": of.number("factor")}, "trained": of.longest}


def _yarn(of: Parameters) -> dict[str, Any]:
    trained = of.trained
    factor = of.number("factor", of.longest and of.longest / trained)
    fast, slow = of.number("beta_fast", 32.0), of.number("beta_slow", 1.0)
    if fast < slow:
        raise ConfigError(
            f"{of.where}: beta_fast must be at least beta_slow, got {fast:g} and "
            f"{slow:g}"
        )
    truncate = of.given.get("truncate")
    if not isinstance(truncate, bool | None):
        raise ConfigError(
            f"{of.where}.truncate must be true or false, got {short_repr(truncate)}"
        )
    scales = {}
    if of.given.get("mscale") and of.given.get("mscale_all_dim"):
        scales["mscale"] = of.number("mscale")
        scales["mscale_all"] = of.number("mscale_all_dim")
    default = yarn_attention_factor(factor, **scales)
    if not 0 < default < math.inf:
        raise ConfigError(
            f"{of.where}: mscale and mscale_all_dim must give an attention factor that "
            "is finite and above 0"
        )
    return {
        "options": {
            "factor": factor,
            "fast": fast,
            "slow": slow,
            "truncate": truncate is not False,
        },
        "trained": trained,
        "attention_factor": of.number("attention_factor", default),
    }


def _llama3(of: Parameters) -> dict[str, Any]:
    low, high = of.number("low_freq_factor"), of.number("high_freq_factor")
    if high < low:
        raise ConfigError(
            f"{of.where}: high_freq_factor must be at least low_freq_factor, got "
            f"{high:g} and {low:g}"
        )
    trained = of.trained
    return {
        "options": {"factor": of.number("factor"), "low": low, "high": high},
        "trained": trained,
    }


def _longrope(of: Parameters) -> dict[str, Any]:
    pairs = (of.rotated_width + 1) // 2
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
        raise ConfigError(
            f"{of.where}: the training length must be above 1, since {of.type} divides "
            "by its logarithm"
        )
    default = longrope_attention_factor(factor, trained=trained) if factor > 1 else 1.0
    _warn_of_stale_keys(of)
    return {
        "options": lists,
        "trained": trained,
        "attention_factor": of.number("attention_factor", default),
    }


def _proportional(of: Parameters) -> dict[str, Any]:
    pairs = of.head_dim // 2
    rotated = features(of.head_dim, of.share) // 2
    if not 0 < rotated <= pairs:
        raise ConfigError(
            f"{of.where}.partial_rotary_factor must give 1 to {pairs} rotated pairs, "
            f"got {of.share:g}, which gives {rotated}"
        )
    if rotated < pairs:
        of.note(
            f": 'proportional' is not partial rotation. {rotated} of {pairs} pairs are "
            "rotated, with the frequencies that they have in the whole head"
        )
    factor = of.number("factor", 1.0)
    return {"options": {"rotated_pairs": rotated, "factor": factor}}


def _warn_of_stale_keys(of: Parameters) -> None:
    of.warn("stale-keys", f": under {of.type!r} {STALE_KEYS}")


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
"""A reader of each type's own parameters; ``"ntk"`` is HunYuan's ``alpha``."""
