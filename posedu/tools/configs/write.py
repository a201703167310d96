"""A reading, written back as a configuration of one spelling or another."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from posedu.numpy.rotary import yarn_attention_factor
from posedu.tools.configs._transformers import SIDES, SUBCONFIG
from posedu.tools.configs.rotary_config import ConfigError, Reading, RotaryConfig

Config = dict[str, Any]
PART = rf"{SUBCONFIG}\b|^({'|'.join(SIDES)})\b"


def write_rope(reading: Reading, spelling: str) -> Config:
    """The configuration that says of rotations what a reading says, and no more.

    Parameters
    ----------
    reading
        What :func:`posedu.tools.read_rope` returned.
    spelling
        One of :data:`SPELLINGS`.

    Returns
    -------
    dict
        For JSON; :func:`posedu.tools.read_rope` reads from it the same rotations.

    Raises
    ------
    ConfigError
        An unknown spelling, or one that cannot say this.
    """
    if spelling not in SPELLINGS:
        raise ConfigError(
            f"spelling must be one of {', '.join(SPELLINGS)}, got {spelling!r}"
        )
    parts = [kind for kind in reading.kinds if re.search(PART, kind)]
    if parts:
        raise ConfigError(
            f"this is a model of several parts ({', '.join(parts)}): give the "
            "configuration of one of them"
        )
    scales = [rope.softmax for rope in reading.kinds.values() if rope]
    if any(scale != 1 for scale in scales):
        raise ConfigError(
            "that the scale of the softmax grows as well is said by a family, not by a "
            "name"
        )
    return SPELLINGS[spelling](reading)


def _transformers_5(reading: Reading) -> Config:
    kinds = {name: rope for name, rope in reading.kinds.items() if name != "none"}
    turning = {name: rope for name, rope in kinds.items() if rope is not None}
    if not turning:
        raise ConfigError("there is no rotation to be written")
    first = next(iter(turning.values()))
    config: Config = {"head_dim": first.head_dim}
    if first.longest is not None:
        config["max_position_embeddings"] = first.longest
    config |= _layers(reading)
    if [*kinds] == ["all"]:
        return config | {"rope_parameters": _parameters(first)}
    if not reading.layers:
        raise ConfigError("kinds of layers without the list of layers")
    own = {
        f"{n:02d}": {"head_dim": rope.head_dim}
        for n, kind in enumerate(reading.layers)
        if (rope := reading.kinds[kind]) and rope.head_dim != first.head_dim
    }
    if own:
        config["per_layer_config"] = own
    said = {name: rope and _parameters(rope) for name, rope in kinds.items()}
    return config | {"rope_parameters": said}


def _layers(reading: Reading) -> Config:
    if not reading.layers:
        return {}
    if {*reading.layers} <= {"all", "none"}:
        return {"no_rope_layers": [int(kind != "none") for kind in reading.layers]}
    if "none" in reading.layers:
        raise ConfigError("layers without rotation beside several kinds with it")
    return {"layer_types": list(reading.layers)}


def _parameters(rope: RotaryConfig) -> Config:
    said: Config = {"rope_type": rope.method, "rope_theta": rope.base}
    said |= _METHODS[rope.method](rope)
    if rope.order == "separate":
        if len(rope.sections) != 2 or 4 * rope.sections[0] != rope.head_dim:
            raise ConfigError(
                f"axes of {list(rope.sections)} pairs are said by a family, not by its "
                "configuration"
            )
        said["rope_type"] = "axial"
    elif rope.order == "alternating":
        raise ConfigError("that axes alternate is said by a family, not by a name")
    elif rope.sections:
        said["mrope_section"] = list(rope.sections)
        said["mrope_interleaved"] = rope.order == "interleaved"
    if rope.order != "separate" and rope.width != rope.head_dim:
        said["partial_rotary_factor"] = _share(rope)
    return said


def _share(rope: RotaryConfig) -> float:
    """The share whose product with the head's features is cut off to the width."""
    share = rope.width / rope.head_dim
    return share if int(share * rope.head_dim) == rope.width else share * (1 + 1e-12)


def _factor(rope: RotaryConfig) -> Config:
    return {"factor": rope.options["factor"]}


def _yarn(rope: RotaryConfig) -> Config:
    return {
        "factor": rope.options["factor"],
        "original_max_position_embeddings": rope.trained,
        "beta_fast": rope.options["fast"],
        "beta_slow": rope.options["slow"],
        "truncate": rope.options["truncate"],
        "attention_factor": rope.attention_factor,
    }


def _llama3(rope: RotaryConfig) -> Config:
    return {
        "factor": rope.options["factor"],
        "original_max_position_embeddings": rope.trained,
        "low_freq_factor": rope.options["low"],
        "high_freq_factor": rope.options["high"],
    }


def _longrope(rope: RotaryConfig) -> Config:
    return {
        "short_factor": list(rope.options["short"]),
        "long_factor": list(rope.options["long"]),
        "original_max_position_embeddings": rope.trained,
        "attention_factor": rope.attention_factor,
    }


def _proportional(rope: RotaryConfig) -> Config:
    share = 2 * rope.options["turning"] / rope.head_dim
    return {"partial_rotary_factor": share, "factor": rope.options["factor"]}


_METHODS: Mapping[str, Callable[[RotaryConfig], Config]] = {
    "default": lambda rope: {},
    "linear": _factor,
    "ntk": lambda rope: {"rope_type": "dynamic", "alpha": rope.options["factor"]},
    "dynamic": _factor,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "proportional": _proportional,
}


def _transformers_4(reading: Reading) -> Config:
    config = _transformers_5(reading)
    said = config.pop("rope_parameters")
    if "rope_type" not in said:
        raise ConfigError("version 4 has no parameters for each kind of layer")
    if said["rope_type"] == "axial":
        raise ConfigError("version 4 has no axes")
    for name in ("rope_theta", "partial_rotary_factor"):
        if name in said:
            config[name] = said.pop(name)
    if said == {"rope_type": "default"}:
        return config
    if "mrope_section" in said and said["rope_type"] == "default":
        said["rope_type"] = "mrope"
    return config | {"rope_scaling": said | {"type": said["rope_type"]}}


def _only(reading: Reading, spelling: str, *methods: str) -> RotaryConfig:
    """The one rotation of a model whose layers all turn alike, by these methods."""
    rope = reading.kinds.get("all")
    if rope is None or len(reading.kinds) > 1:
        raise ConfigError(f"{spelling} has one rotation for all layers")
    if rope.method not in methods:
        raise ConfigError(f"{spelling} has no {rope.method} scaling")
    if rope.sections:
        raise ConfigError(f"{spelling} is not written with several axes")
    return rope


def _gguf(reading: Reading) -> Config:
    rope = _only(reading, "GGUF", "default", "linear", "yarn")
    family = reading.family or "llama"
    config: Config = {
        "attention.key_length": rope.head_dim,
        "rope.dimension_count": rope.width,
        "rope.freq_base": rope.base,
    }
    if rope.longest is not None:
        config["context_length"] = rope.longest
    if rope.method != "default":
        config["rope.scaling.type"] = rope.method
        config["rope.scaling.factor"] = rope.options["factor"]
    if rope.method == "yarn":
        if not rope.options["truncate"]:
            raise ConfigError("GGUF has no YaRN whose ramp is not truncated")
        config["rope.scaling.original_context_length"] = rope.trained
        config["rope.scaling.yarn_beta_fast"] = rope.options["fast"]
        config["rope.scaling.yarn_beta_slow"] = rope.options["slow"]
        own = yarn_attention_factor(rope.options["factor"])  # which ggml multiplies by
        config["rope.scaling.attn_factor"] = rope.attention_factor / own
    written = {f"{family}.{name}": value for name, value in config.items()}
    return {"general.architecture": family, **written}


def _megatron(reading: Reading) -> Config:
    rope = _only(reading, "Megatron-LM", "default", "linear", "llama3")
    config: Config = {
        "kv_channels": rope.head_dim,
        "rotary_base": rope.base,
        "rotary_percent": _share(rope),
        "rotary_interleaved": rope.layout == "interleaved",
    }
    if rope.longest is not None:
        config["max_position_embeddings"] = rope.longest
    if rope.method == "linear":
        config["rotary_seq_len_interpolation_factor"] = rope.options["factor"]
    if rope.method == "llama3":
        built_in = (rope.trained, rope.options["low"], rope.options["high"])
        if built_in != (8192, 1.0, 4.0):
            raise ConfigError("Megatron-LM has 8192, 1 and 4 built in, not these")
        config |= {
            "use_rope_scaling": True,
            "rope_scaling_factor": rope.options["factor"],
        }
    return config


def _paired(rope: RotaryConfig, spelling: str, layout: str) -> None:
    """Refuse weights that are in another order than the library's."""
    if rope.layout not in ("", layout):
        raise ConfigError(
            f"{spelling} has {layout} pairs, these are {rope.layout}: convert the "
            "weights first"
        )


def _meta(reading: Reading) -> Config:
    rope = _only(reading, "Meta's params.json", "default", "llama3")
    _paired(rope, "Meta's params.json", "interleaved")
    if rope.width != rope.head_dim:
        raise ConfigError("in Meta's params.json whole heads turn")
    config: Config = {
        **{"dim": rope.head_dim, "n_heads": 1, "head_dim": rope.head_dim},
        "rope_theta": rope.base,
    }
    if rope.method == "llama3":
        if (rope.trained, rope.options["low"]) != (8192, 1.0):
            raise ConfigError("Meta's code has 8192 and 1 built in, not these")
        config |= {
            "use_scaled_rope": True,
            "rope_scaling_factor": rope.options["factor"],
            "rope_high_freq_factor": rope.options["high"],
        }
    return config


def _neox(reading: Reading) -> Config:
    rope = _only(reading, "GPT-NeoX", "default")
    _paired(rope, "GPT-NeoX", "half")
    config: Config = {
        **{"pos-emb": "rotary", "rotary-pct": _share(rope)},
        **{"rotary-emb-base": rope.base, "hidden-size": rope.head_dim},
        "num-attention-heads": 1,
    }
    if rope.longest is not None:
        config["max-position-embeddings"] = rope.longest
    return config


def _chatglm(reading: Reading) -> Config:
    rope = _only(reading, "ChatGLM", "default")
    _paired(rope, "ChatGLM", "interleaved")
    ratio = rope.base / 10_000
    if rope.width != rope.head_dim // 2 or 10_000 * ratio != rope.base:
        raise ConfigError(
            "in ChatGLM half of each head turns, from a base of 10000 times a ratio"
        )
    config: Config = {
        **{"model_type": "chatglm", "kv_channels": rope.head_dim},
        "rope_ratio": ratio,
    }
    return config if rope.longest is None else config | {"seq_length": rope.longest}


def _of_axes(reading: Reading, spelling: str) -> RotaryConfig:
    """The one rotation of a model whose axes have frequencies of their own."""
    rope = reading.kinds.get("all")
    if rope is None or len(reading.kinds) > 1 or rope.order != "separate":
        raise ConfigError(f"{spelling} has one rotation of several axes for all layers")
    return rope


def _diffusers(reading: Reading) -> Config:
    rope = _of_axes(reading, "diffusers")
    config: Config = {"axes_dims_rope": [2 * pairs for pairs in rope.sections]}
    if reading.family:
        config["_class_name"] = reading.family
    return config | {"attention_head_dim": rope.head_dim, "rope_theta": rope.base}


def _timm(reading: Reading) -> Config:
    rope = _of_axes(reading, "timm")
    if rope.sections != (rope.head_dim // 4,) * 2 or not rope.layout:
        raise ConfigError("timm has two axes with half a head each, of a known layout")
    return {
        **{"embed_dim": rope.head_dim, "num_heads": 1, "use_rot_pos_emb": True},
        **{"rope_type": "cat", "rope_temperature": rope.base},
        "rope_rotate_half": rope.layout == "half",
    }


SPELLINGS: Mapping[str, Callable[[Reading], Config]] = {
    "transformers 5": _transformers_5,
    "transformers 4": _transformers_4,
    "GGUF": _gguf,
    "Megatron-LM": _megatron,
    "Meta's params.json": _meta,
    "GPT-NeoX": _neox,
    "ChatGLM": _chatglm,
    "diffusers": _diffusers,
    "timm": _timm,
}
"""What can be written. Where a spelling knows heads by their number there is one."""
