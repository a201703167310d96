"""Configurations that are not spelled as those of transformers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posedu.tools.configs._fields import count, counts, first, number, shown
from posedu.tools.configs._rope_parameters import Parameters, rope
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    Reading,
    Remark,
    RotaryConfig,
)

Config = Mapping[str, Any]

EVERY = "all"


def _one(
    spelling: str,
    family: str,
    made: RotaryConfig,
    remarks: list[Remark],
    *,
    layers: tuple[str, ...] = (),
) -> Reading:
    """A reading with one kind of layer, besides those without rotation."""
    still = {"none": None} if "none" in layers else {}
    return Reading(
        spelling=spelling,
        family=family,
        kinds={EVERY: made, **still},
        layers=layers,
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _head(config: Config, hidden: str, heads: str, *own: str) -> int:
    """Features of a head: a number of its own, or the width over the heads."""
    said = first(config, *own)
    if said is not None:
        return count(*said)
    missing = [name for name in (hidden, heads) if config.get(name) is None]
    if missing:
        raise ConfigError(f"{' and '.join(missing)} must be given: the head's width")
    return count(hidden, config[hidden]) // count(heads, config[heads])


# --- GGUF: metadata, as the gguf package names them

GGUF_TYPES = {"none": "default", "linear": "linear", "yarn": "yarn"}


def is_gguf(config: Config) -> bool:
    """Whether these are metadata of a GGUF file."""
    return "general.architecture" in config


def read_gguf(config: Config) -> Reading:
    """Rotations of a GGUF file's metadata.

    Raises
    ------
    ConfigError
        Of lists that the file has as tensors, not as metadata, or what cannot be read.
    """
    family = config["general.architecture"]
    if not isinstance(family, str):
        raise ConfigError(f"general.architecture must be text, got {shown(family)}")
    own = {
        name.removeprefix(f"{family}."): value
        for name, value in config.items()
        if name.startswith(f"{family}.")
    }
    scaling = {
        name.removeprefix("rope.scaling."): value
        for name, value in own.items()
        if name.startswith("rope.scaling.")
    }
    kind = scaling.get("type", "none")
    if kind == "longrope":
        raise ConfigError(
            f"{family}.rope.scaling.type is 'longrope': its lists are the tensors "
            "rope_factors_short and rope_factors_long of the file, not metadata"
        )
    if not isinstance(kind, str) or kind not in GGUF_TYPES:
        raise ConfigError(
            f"{family}.rope.scaling.type must be one of {', '.join(GGUF_TYPES)}, got "
            f"{shown(kind)}"
        )
    head_dim = _head(
        own, "embedding_length", "attention.head_count", "attention.key_length"
    )
    width = own.get("rope.dimension_count")
    given = {
        "rope_type": GGUF_TYPES[kind],
        "factor": scaling.get("factor"),
        "original_max_position_embeddings": scaling.get("original_context_length"),
        "beta_fast": scaling.get("yarn_beta_fast"),
        "beta_slow": scaling.get("yarn_beta_slow"),
    }
    remarks = [
        Remark(
            NOTE,
            "a tensor rope_freqs in the file divides these frequencies besides (Llama "
            "3.1's scaling is stored so); metadata do not tell whether there is one",
        ),
    ]
    more = scaling.get("attn_factor")
    more = 1.0 if more is None else number(f"{family}.rope.scaling.attn_factor", more)
    found: dict[str, RotaryConfig | None] = {}
    longest = own.get("context_length")
    for title, base in (("all", "rope.freq_base"), ("window", "rope.freq_base_swa")):
        if title == "window" and own.get(base) is None:
            continue
        made = rope(
            Parameters(
                where=f"{family}.rope",
                given={**given, "rope_theta": own.get(base)},
                head_dim=head_dim,
                width=None
                if width is None
                else count(f"{family}.rope.dimension_count", width),
                longest=None if longest is None else count("context_length", longest),
                remarks=remarks,
            )
        )
        found[title] = replace(made, attention_factor=more * made.attention_factor)
    return Reading(spelling="GGUF", family=family, kinds=found, remarks=tuple(remarks))


# --- Meta's params.json

META_SCALES = {"factor": 8.0, "high_freq_factor": 4.0}
"""Of ``apply_scaling`` in models/llama3/model.py of llama-models."""
META_SCOUT = {"factor": 16.0, "high_freq_factor": 1.0}
"""Of ``ModelArgs`` in models/llama4/args.py of llama-models."""


def is_meta(config: Config) -> bool:
    """Whether this is a params.json of Meta's."""
    return "dim" in config and "n_heads" in config and "model_type" not in config


def read_meta(config: Config) -> Reading:
    """Rotations of Meta's params.json.

    Raises
    ------
    ConfigError
        Values that are missing or of another kind.
    """
    remarks: list[Remark] = []
    given: dict[str, Any] = {"rope_theta": config.get("rope_theta")}
    if given["rope_theta"] is None:
        given["rope_theta"] = 10_000.0
        remarks.append(
            Remark(
                WARNING,
                "rope_theta is not said: Llama 1 and 2 mean 10000, which is taken; "
                "llama-models, with Llama 3's defaults, takes 500000",
            )
        )
    scout = config.get("moe_args") is not None
    if config.get("use_scaled_rope"):
        scales = dict(META_SCOUT if scout else META_SCALES)
        for own, name in (
            ("rope_scaling_factor", "factor"),
            ("rope_high_freq_factor", "high_freq_factor"),
        ):
            if config.get(own) is not None:
                scales[name] = config[own]
        given |= {
            "rope_type": "llama3",
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            **scales,
        }
        if config.get("rope_scaling_factor") is None:
            remarks.append(
                Remark(
                    WARNING,
                    "use_scaled_rope says no numbers: Meta's code has them built in, "
                    f"here a factor of {scales['factor']:g}; the configurations of "
                    "Llama 3.2 for transformers have 32",
                )
            )
    made = rope(
        Parameters(
            where="params",
            given=given,
            head_dim=_head(config, "dim", "n_heads", "head_dim"),
            width=None,
            longest=None,
            remarks=remarks,
        ),
        layout="interleaved",
    )
    interval, depth = config.get("nope_layer_interval"), config.get("n_layers")
    layers: tuple[str, ...] = ()
    if interval is not None and depth is not None:
        every = count("nope_layer_interval", interval)
        layers = tuple(
            "none" if (n + 1) % every == 0 else EVERY
            for n in range(min(count("n_layers", depth), 4096))
        )
    return _one("Meta's params.json", "", made, remarks, layers=layers)


# --- Megatron's arguments, and GPT-NeoX's


def is_megatron(config: Config) -> bool:
    """Whether these are arguments of Megatron-LM, by their names in Python."""
    return "rotary_base" in config or "rotary_percent" in config


def read_megatron(config: Config) -> Reading:
    """Rotations of Megatron-LM's arguments.

    Raises
    ------
    ConfigError
        Values that are missing or of another kind.
    """
    remarks: list[Remark] = []
    given: dict[str, Any] = {
        "rope_theta": config.get("rotary_base", 10_000),
        "partial_rotary_factor": config.get("rotary_percent"),
    }
    if config.get("use_rope_scaling"):
        given |= {
            "rope_type": "llama3",
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "factor": config.get("rope_scaling_factor", 8.0),
        }
    elif config.get("rotary_seq_len_interpolation_factor") is not None:
        given |= {
            "rope_type": "linear",
            "factor": config["rotary_seq_len_interpolation_factor"],
        }
    longest = config.get("max_position_embeddings")
    made = rope(
        Parameters(
            where="arguments",
            given=given,
            head_dim=_head(config, "hidden_size", "num_attention_heads", "kv_channels"),
            width=None,
            longest=None
            if longest is None
            else count("max_position_embeddings", longest),
            remarks=remarks,
        ),
        layout="interleaved" if config.get("rotary_interleaved") else "half",
    )
    return _one("Megatron-LM", "", made, remarks)


def is_neox(config: Config) -> bool:
    """Whether these are arguments of GPT-NeoX, with hyphens or underscores."""
    return {"pos-emb", "pos_emb", "rotary-pct", "rotary-emb-base"} & {*config} != set()


def read_neox(config: Config) -> Reading:
    """Rotations of GPT-NeoX's arguments.

    Raises
    ------
    ConfigError
        Another encoding, or values that are missing or of another kind.
    """
    own = {name.replace("-", "_"): value for name, value in config.items()}
    if own.get("pos_emb", "rotary") != "rotary":
        raise ConfigError(f"pos_emb is {shown(own['pos_emb'])}: there are no rotations")
    remarks: list[Remark] = []
    longest = own.get("max_position_embeddings")
    made = rope(
        Parameters(
            where="arguments",
            given={
                "rope_theta": own.get("rotary_emb_base", 10_000),
                "partial_rotary_factor": own.get("rotary_pct", 1.0),
            },
            head_dim=_head(own, "hidden_size", "num_attention_heads"),
            width=None,
            longest=None
            if longest is None
            else count("max_position_embeddings", longest),
            remarks=remarks,
        ),
        layout="half",
    )
    return _one("GPT-NeoX", "", made, remarks)


# --- ChatGLM 2 to 4, with code of their own


def is_chatglm(config: Config) -> bool:
    """Whether it is a ChatGLM before it came into transformers."""
    return config.get("model_type") == "chatglm" or "rope_ratio" in config


def read_chatglm(config: Config) -> Reading:
    """Rotations of ChatGLM: half of a head's features, the base by a ratio.

    Raises
    ------
    ConfigError
        Values that are missing or of another kind.
    """
    remarks: list[Remark] = []
    ratio = number("rope_ratio", config.get("rope_ratio", 1))
    head_dim = _head(config, "hidden_size", "num_attention_heads", "kv_channels")
    if config.get("rope_theta") is not None:
        remarks.append(
            Remark(WARNING, "rope_theta is not looked at: the base is 10000·rope_ratio")
        )
    longest = config.get("seq_length")
    made = rope(
        Parameters(
            where="config",
            given={"rope_theta": 10_000.0 * ratio},
            head_dim=head_dim,
            width=head_dim // 2,
            longest=None if longest is None else count("seq_length", longest),
            remarks=remarks,
        ),
        layout="interleaved",
    )
    return _one("ChatGLM", "chatglm", made, remarks)


# --- diffusers: a width for each axis

AXES = ("axes_dims_rope", "rope_axes_dim", "axes_dims")
DIFFUSERS = {
    "BriaFiboTransformer2DModel": 10_000.0,
    "ChromaTransformer2DModel": 10_000.0,
    "Flux2Transformer2DModel": 2_000.0,
    "Flux3Transformer2DModel": 10_000.0,
    "FluxTransformer2DModel": 10_000.0,
    "HunyuanVideoTransformer3DModel": 256.0,
    "QwenImageTransformer2DModel": 10_000.0,
    "ZImageTransformer2DModel": 256.0,
}
"""Classes of diffusers 0.42.1 with neighbors for pairs, and their bases."""


def is_diffusers(config: Config) -> bool:
    """Whether it is a transformer of diffusers whose axes have widths of their own."""
    return first(config, *AXES) is not None


def read_diffusers(config: Config) -> Reading:
    """Rotations of a transformer of diffusers.

    Raises
    ------
    ConfigError
        Widths that are odd or not those of the head, or values of another kind.
    """
    named, value = first(config, *AXES) or ("", None)
    widths = counts(named, value)
    odd = [width for width in widths if width % 2]
    if odd or not widths:
        raise ConfigError(
            f"{named} must be even widths, one or more, got {shown(value)}"
        )
    head_dim = config.get("attention_head_dim")
    if head_dim is not None and count("attention_head_dim", head_dim) < sum(widths):
        raise ConfigError(
            f"{named} add up to {sum(widths)}, a head has {shown(head_dim)} features"
        )
    remarks: list[Remark] = []
    family = config.get("_class_name")
    base = DIFFUSERS.get(family) if isinstance(family, str) else None
    if base is None:
        base = 10_000.0
        remarks.append(
            Remark(
                WARNING,
                f"{shown(family)} is no class of diffusers that is known here: each "
                "axis is taken to have its own frequencies, from a base of 10000 if "
                "none is said, and the layout is open",
            )
        )
        layout = ""
    else:
        layout = "interleaved"
    said = first(config, "rope_theta", "theta")
    made = RotaryConfig(
        head_dim=sum(widths) if head_dim is None else count("head", head_dim),
        width=sum(widths),
        base=base if said is None else number(*said),
        layout=layout,
        sections=tuple(width // 2 for width in widths),
        order="separate",
    )
    return _one("diffusers", family if isinstance(family, str) else "", made, remarks)
