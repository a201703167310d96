"""Writer of rotary embeddings as configurations in many formats."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from posedu._argument_types import check_types
from posedu.numpy.rotary import yarn_attention_factor
from posedu.tools.configs._gguf import architectures
from posedu.tools.configs._transformers import SIDES, SUBCONFIG
from posedu.tools.configs.rotary_config import ConfigError, Reading, RotaryConfig

Config = dict[str, Any]
PART = rf"{SUBCONFIG}\b|^({'|'.join(SIDES)})\b"


@check_types
def write_rope(reading: Reading, format: str) -> Config:
    """Return a configuration in ``format`` that has the rotary embeddings of a reading.

    A reading is the content of a model's configuration. Only keys of rotary embeddings
    are written.

    Parameters
    ----------
    reading
        The result of :func:`posedu.tools.read_rope`.
    format
        The config format, one of :data:`FORMATS`.

    Returns
    -------
    dict
        A JSON object, from which :func:`posedu.tools.read_rope` reads the same rotary
        embeddings.

    Raises
    ------
    ConfigError
        The format is unknown, or it cannot express these rotary embeddings.
    """
    if format not in FORMATS:
        raise ConfigError(
            f"`format` must be one of {', '.join(FORMATS)}, got {format!r}"
        )
    parts = [kind for kind in reading.kinds if re.search(PART, kind)]
    if parts:
        raise ConfigError(
            f"the model has several parts ({', '.join(parts)}): give the configuration "
            "of one of them"
        )
    scales = [rope.softmax for rope in reading.kinds.values() if rope]
    if any(scale != 1 for scale in scales):
        raise ConfigError(
            "no format has a parameter for a factor of the softmax scale, which the "
            "code of the model family sets"
        )
    return FORMATS[format](reading)


def _transformers_5(reading: Reading) -> Config:
    kinds = {name: rope for name, rope in reading.kinds.items() if name != "none"}
    rotated = {name: rope for name, rope in kinds.items() if rope is not None}
    if not rotated:
        raise ConfigError("the reading has no rotary embedding to write")
    first = next(iter(rotated.values()))
    config: Config = {"head_dim": first.head_dim}
    if first.longest is not None:
        config["max_position_embeddings"] = first.longest
    config |= _layers(reading)
    if [*kinds] == ["all"]:
        return config | {"rope_parameters": _parameters(first)}
    if not reading.layers:
        raise ConfigError(
            "the reading has several kinds of layers, but not the kind of each layer"
        )
    own = {
        f"{n:02d}": {"head_dim": rope.head_dim}
        for n, kind in enumerate(reading.layers)
        if (rope := reading.kinds[kind]) and rope.head_dim != first.head_dim
    }
    if own:
        config["per_layer_config"] = own
    by_kind = {name: rope and _parameters(rope) for name, rope in kinds.items()}
    return config | {"rope_parameters": by_kind}


def _layers(reading: Reading) -> Config:
    if not reading.layers:
        return {}
    if {*reading.layers} <= {"all", "none"}:
        return {"no_rope_layers": [int(kind != "none") for kind in reading.layers]}
    if "none" in reading.layers:
        raise ConfigError(
            "unrotated layers together with several kinds of rotated layers cannot be "
            "written"
        )
    return {"layer_types": list(reading.layers)}


def _parameters(rope: RotaryConfig) -> Config:
    parameters: Config = {"rope_type": rope.method, "rope_theta": rope.base}
    parameters |= _METHODS[rope.method](rope)
    if rope.order == "separate":
        if len(rope.sections) != 2 or 4 * rope.sections[0] != rope.head_dim:
            raise ConfigError(
                f"transformers has no parameter for axes of {list(rope.sections)} "
                "pairs, which the code of the model family sets"
            )
        parameters["rope_type"] = "axial"
    elif rope.order == "alternating":
        raise ConfigError(
            "transformers has no parameter for axes that alternate, which the code of "
            "the model family sets"
        )
    elif rope.sections:
        parameters["mrope_section"] = list(rope.sections)
        parameters["mrope_interleaved"] = rope.order == "interleaved"
    if rope.order != "separate" and rope.width != rope.head_dim:
        parameters["partial_rotary_factor"] = _share(rope)
    return parameters


def _share(rope: RotaryConfig) -> float:
    """Return the share of the head dimension that gives the number of rotated features.

    The product of share and head dimension, rounded down, is ``rope.width``; ``rope``
    is the rotary embedding.
    """
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


def _factors(rope: RotaryConfig) -> Config:
    divisors = list(rope.options["divisors"])
    return {
        "rope_type": "longrope",
        "short_factor": divisors,
        "long_factor": divisors,
        "original_max_position_embeddings": rope.longest or 1,
        "attention_factor": rope.attention_factor,
    }


def _proportional(rope: RotaryConfig) -> Config:
    share = 2 * rope.options["rotated_pairs"] / rope.head_dim
    return {"partial_rotary_factor": share, "factor": rope.options["factor"]}


_METHODS: Mapping[str, Callable[[RotaryConfig], Config]] = {
    "default": lambda rope: {},
    "linear": _factor,
    "ntk": lambda rope: {"rope_type": "dynamic", "alpha": rope.options["factor"]},
    "dynamic": _factor,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "factors": _factors,
    "proportional": _proportional,
}


def _transformers_4(reading: Reading) -> Config:
    config = _transformers_5(reading)
    parameters = config.pop("rope_parameters")
    if "rope_type" not in parameters:
        raise ConfigError(
            "transformers 4 has no parameters for each kind of layer; write "
            "'transformers 5'"
        )
    if parameters["rope_type"] == "axial":
        raise ConfigError(
            "transformers 4 has no positions of several axes; write 'transformers 5'"
        )
    for name in ("rope_theta", "partial_rotary_factor"):
        if name in parameters:
            config[name] = parameters.pop(name)
    if parameters == {"rope_type": "default"}:
        return config
    if "mrope_section" in parameters and parameters["rope_type"] == "default":
        parameters["rope_type"] = "mrope"
    return config | {"rope_scaling": parameters | {"type": parameters["rope_type"]}}


def _only(reading: Reading, format: str, *methods: str) -> RotaryConfig:
    """Return the rotary embedding of all layers, if ``format`` can express it.

    ``reading`` is the content of a configuration, ``format`` the name of the format to
    write, and ``methods`` are the RoPE scaling methods that the format has. ConfigError
    is raised if layers differ, the method is not one of these, or positions have
    several coordinates.
    """
    rope = reading.kinds.get("all")
    if rope is None or len(reading.kinds) > 1:
        raise ConfigError(f"{format} has one rotary embedding for all layers")
    if rope.method not in methods:
        raise ConfigError(f"{format} has no {rope.method} scaling")
    if rope.sections:
        raise ConfigError(f"positions of several axes cannot be written as {format}")
    return rope


def _gguf(reading: Reading) -> Config:
    rope = _only(reading, "GGUF", "default", "linear", "yarn")
    family = _gguf_architecture(reading.family, rope.layout)
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
    built_in = 1.0
    if rope.method == "yarn":
        if not rope.options["truncate"]:
            raise ConfigError("GGUF has no YaRN whose ramp is not truncated")
        config["rope.scaling.original_context_length"] = rope.trained
        config |= _gguf_ramp(family, rope.options["fast"], rope.options["slow"])
        built_in = yarn_attention_factor(rope.options["factor"])  # ggml multiplies.
    if rope.attention_factor != built_in:
        config["rope.scaling.attn_factor"] = rope.attention_factor / built_in
    written = {f"{family}.{name}": value for name, value in config.items()}
    return {"general.architecture": family, **written}


def _gguf_architecture(family: str, layout: str) -> str:
    """Return the architecture to write: the model family, or one of the same layout.

    The family is written if llama.cpp rotates all layers of an architecture of this
    name alike, by numbers of the file alone, and with ``layout``.
    """
    record = architectures().get(family, {})
    window = record.get("window", {"needs": ""})
    if (
        record.get("layout")
        and layout in ("", record["layout"])
        and not {"own", "unrotated", "latent", "order"} & {*record}
        and "needs" in window
    ):
        return family
    return "qwen2" if layout == "half" else "llama"


def _gguf_ramp(family: str, fast: float, slow: float) -> Config:
    """Return the limits of YaRN's ramp as GGUF metadata of an architecture."""
    record = architectures()[family]
    limits = {"yarn_beta_fast": fast, "yarn_beta_slow": slow}
    names = {f"rope.scaling.{name}": value for name, value in limits.items()}
    if {*names} <= {*record["reads"]}:
        return names
    if (fast, slow) != (32.0, 1.0):
        raise ConfigError(
            f"llama.cpp reads no beta_fast and beta_slow in {family!r}: they must be "
            f"32 and 1, got {fast:g} and {slow:g}"
        )
    return {}


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
        found = (rope.trained, rope.options["low"], rope.options["high"])
        if found != (8192, 1.0, 4.0):
            raise ConfigError(
                "Megatron-LM's scaling has the training length 8192 and the frequency "
                f"factors 1 and 4 built in, got {', '.join(f'{n:g}' for n in found)}"
            )
        config |= {
            "use_rope_scaling": True,
            "rope_scaling_factor": rope.options["factor"],
        }
    return config


def _require_layout(rope: RotaryConfig, format: str, layout: str) -> None:
    """Raise ConfigError unless the pairs have the layout that ``format`` requires.

    ``rope`` is the rotary embedding to write, ``format`` the name of the format, and
    ``layout`` the required layout.
    """
    if rope.layout not in ("", layout):
        raise ConfigError(
            f"{format} has the layout {layout!r}, the model has {rope.layout!r}: "
            "convert the weights first, with posedu.tools.convert"
        )


def _meta(reading: Reading) -> Config:
    rope = _only(reading, "Meta's params.json", "default", "llama3")
    _require_layout(rope, "Meta's params.json", "interleaved")
    if rope.width != rope.head_dim:
        raise ConfigError(
            "Meta's params.json has no partial rotation: width must be head_dim = "
            f"{rope.head_dim}, got {rope.width}"
        )
    config: Config = {
        "dim": rope.head_dim,
        "n_heads": 1,
        "head_dim": rope.head_dim,
        "rope_theta": rope.base,
    }
    if rope.method == "llama3":
        if (rope.trained, rope.options["low"]) != (8192, 1.0):
            raise ConfigError(
                "Meta's code has the training length 8192 and low_freq_factor 1 built "
                f"in, got {rope.trained} and {rope.options['low']:g}"
            )
        config |= {
            "use_scaled_rope": True,
            "rope_scaling_factor": rope.options["factor"],
            "rope_high_freq_factor": rope.options["high"],
        }
    return config


def _neox(reading: Reading) -> Config:
    rope = _only(reading, "GPT-NeoX", "default")
    _require_layout(rope, "GPT-NeoX", "half")
    config: Config = {
        "pos-emb": "rotary",
        "rotary-pct": _share(rope),
        "rotary-emb-base": rope.base,
        "hidden-size": rope.head_dim,
        "num-attention-heads": 1,
    }
    if rope.longest is not None:
        config["max-position-embeddings"] = rope.longest
    return config


def _chatglm(reading: Reading) -> Config:
    rope = _only(reading, "ChatGLM", "default")
    _require_layout(rope, "ChatGLM", "interleaved")
    ratio = rope.base / 10_000
    if rope.width != rope.head_dim // 2 or 10_000 * ratio != rope.base:
        raise ConfigError(
            "ChatGLM rotates half of each head, with base 10000 times a ratio; got "
            f"width {rope.width} of {rope.head_dim} and base {rope.base:g}"
        )
    config: Config = {
        "model_type": "chatglm",
        "kv_channels": rope.head_dim,
        "rope_ratio": ratio,
    }
    return config if rope.longest is None else config | {"seq_length": rope.longest}


def _only_axial(reading: Reading, format: str) -> RotaryConfig:
    """Return the rotary embedding of all layers; raise unless its axes are separate.

    ``reading`` is the content of a configuration, ``format`` the name of the format to
    write. If axes are separate, each coordinate of a position has frequencies of its
    own.
    """
    rope = reading.kinds.get("all")
    if rope is None or len(reading.kinds) > 1 or rope.order != "separate":
        raise ConfigError(
            f"{format} has one rotary embedding for all layers, with separate axes"
        )
    return rope


def _diffusers(reading: Reading) -> Config:
    rope = _only_axial(reading, "diffusers")
    config: Config = {"axes_dims_rope": [2 * pairs for pairs in rope.sections]}
    if reading.family:
        config["_class_name"] = reading.family
    return config | {"attention_head_dim": rope.head_dim, "rope_theta": rope.base}


def _timm(reading: Reading) -> Config:
    rope = _only_axial(reading, "timm")
    if rope.sections != (rope.head_dim // 4,) * 2 or not rope.layout:
        raise ConfigError(
            "timm has two axes with half a head each, in a known layout; got axes of "
            f"{list(rope.sections)} pairs and the layout {rope.layout!r}"
        )
    return {
        "embed_dim": rope.head_dim,
        "num_heads": 1,
        "use_rot_pos_emb": True,
        "rope_type": "cat",
        "rope_temperature": rope.base,
        "rope_rotate_half": rope.layout == "half",
    }


FORMATS: Mapping[str, Callable[[Reading], Config]] = {
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
"""A writer for each format. Formats that need a number of heads get one head."""
