"""Readers of configurations in the formats of Meta, Megatron and others."""

from collections.abc import Mapping
from typing import Any

from posedu.tools.configs._fields import count, counts, first, number, short_repr
from posedu.tools.configs._rope_parameters import Parameters, rope
from posedu.tools.configs.other_encoding import EncodingKind, OtherEncoding
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
    format: str,
    family: str,
    made: RotaryConfig,
    remarks: list[Remark],
    *,
    layers: tuple[str, ...] = (),
) -> Reading:
    """Return a :class:`Reading` with one rotary embedding for all rotated layers.

    A reading is the content of a configuration. ``format`` and ``family`` are the names
    of the config format and the model family, ``made`` is the embedding, and
    ``remarks`` are warnings and notes, of which repeated ones are dropped. ``layers``
    names each layer's kind: "all", or "none" without rotation; by default the layers
    are not listed.
    """
    unrotated = {"none": None} if "none" in layers else {}
    return Reading(
        format=format,
        family=family,
        kinds={EVERY: made, **unrotated},
        layers=layers,
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _unrotated(
    format: str, name: str, value: str, kind: EncodingKind | None
) -> Reading:
    """Return the :class:`Reading` of a configuration that turns rotation off.

    ``name`` and ``value`` do so in the config format ``format``; ``kind`` is the kind
    of its positional encoding, ``None`` if it is not known.
    """
    note = Remark(NOTE, f"{name} is {short_repr(value)}: no layer is rotated")
    return Reading(
        format=format,
        family="",
        kinds={EVERY: None},
        encodings=() if kind is None else (OtherEncoding(kind=kind),),
        remarks=(note,),
    )


def _head_dim(config: Config, hidden: str, heads: str, *own: str) -> int:
    """Read the head dimension of a configuration, or compute it as width over heads.

    ``own`` are the keys that may hold the head dimension; ``hidden`` and ``heads`` are
    the keys of the model's width and of the number of heads. Raises ConfigError if the
    width or the number of heads is missing, too.
    """
    given = first(config, *own)
    if given is not None:
        return count(*given)
    missing = [name for name in (hidden, heads) if config.get(name) is None]
    if missing:
        names = " and ".join(missing)
        raise ConfigError(f"{names} must be given to compute the head dimension")
    return count(hidden, config[hidden]) // count(heads, config[heads])


# --- Meta's params.json

META_SCALES = {"factor": 8.0, "high_freq_factor": 4.0}
"""Numbers of ``apply_scaling`` in models/llama3/model.py of llama-models."""
META_SCOUT = {"factor": 16.0, "high_freq_factor": 1.0}
"""Numbers of ``ModelArgs`` in models/llama4/args.py of llama-models."""


def is_meta(config: Config) -> bool:
    """Return whether a mapping is the content of Meta's params.json."""
    return "dim" in config and "n_heads" in config and "model_type" not in config


def read_meta(config: Config) -> Reading:
    """Read the rotary embedding of Meta's params.json.

    Raises
    ------
    ConfigError
        A value is missing or has another type.
    """
    remarks: list[Remark] = []
    given: dict[str, Any] = {"rope_theta": config.get("rope_theta")}
    if given["rope_theta"] is None:
        given["rope_theta"] = 10_000.0
        remarks.append(
            Remark(
                WARNING,
                "rope_theta is not given: 10000 is used, the base of Llama 1 and 2; "
                "llama-models, with Llama 3's defaults, uses 500000",
                "missing-base",
            )
        )
    is_scout = config.get("moe_args") is not None
    if config.get("use_scaled_rope"):
        scales = dict(META_SCOUT if is_scout else META_SCALES)
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
                    "use_scaled_rope comes without numbers: those built into Meta's "
                    f"code are used, here a factor of {scales['factor']:g}; the "
                    "configurations of Llama 3.2 for transformers have 32",
                    "built-in-numbers",
                )
            )
    made = rope(
        Parameters(
            where="params",
            given=given,
            head_dim=_head_dim(config, "dim", "n_heads", "head_dim"),
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


MEGATRON_OTHERS: Mapping[str, EncodingKind | None] = {
    "learned_absolute": "learned",
    "none": "none",
    "relative": None,
}
"""Kinds of encoding by the values of ``position_embedding_type`` without rotation."""
MEGATRON_STATED = ("rope", "learned_absolute", "none")
"""Values of ``position_embedding_type`` by which the arguments are recognized."""


def is_megatron(config: Config) -> bool:
    """Return whether a mapping is Megatron-LM's arguments, or NeMo's for a model."""
    own = ("rotary_base", "rotary_percent")
    is_stated = (
        config.get("position_embedding_type") in MEGATRON_STATED
        or "rotary_percentage" in config
    )
    has_sizes = "num_attention_heads" in config and "model_type" not in config
    return any(name in config for name in own) or (is_stated and has_sizes)


def read_megatron(config: Config) -> Reading:
    """Read the rotary embedding of Megatron-LM's arguments.

    Raises
    ------
    ConfigError
        A value is missing or has another type.
    """
    encoding = str(config.get("position_embedding_type", "rope"))
    if encoding in MEGATRON_OTHERS:
        kind = MEGATRON_OTHERS[encoding]
        return _unrotated("Megatron-LM", "position_embedding_type", encoding, kind)
    remarks: list[Remark] = []
    if encoding != "rope":
        text = f"position_embedding_type is {short_repr(encoding)}, which is not read"
        remarks.append(Remark(WARNING, text, "unread-name"))
    share = first(config, "rotary_percent", "rotary_percentage")
    given: dict[str, Any] = {
        "rope_theta": config.get("rotary_base", 10_000),
        "partial_rotary_factor": share and share[1],
    }
    interpolation = first(
        config, "rotary_seq_len_interpolation_factor", "seq_len_interpolation_factor"
    )
    config.get("apply_rope_fusion")  # the same numbers by another kernel
    if config.get("use_rope_scaling"):
        given |= {
            "rope_type": "llama3",
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "factor": config.get("rope_scaling_factor", 8.0),
        }
    elif interpolation is not None:
        given |= {"rope_type": "linear", "factor": interpolation[1]}
    longest = config.get("max_position_embeddings")
    made = rope(
        Parameters(
            where="arguments",
            given=given,
            head_dim=_head_dim(
                config, "hidden_size", "num_attention_heads", "kv_channels"
            ),
            width=None,
            longest=None
            if longest is None
            else count("max_position_embeddings", longest),
            remarks=remarks,
        ),
        layout="interleaved" if config.get("rotary_interleaved") else "half",
    )
    return _one("Megatron-LM", "", made, remarks)


NEOX = (
    "pos_emb",
    "rotary_pct",
    "rotary_emb_base",
    "hidden_size",
    "num_attention_heads",
    "max_position_embeddings",
)
"""Names that are read, which may have hyphens in place of underscores."""


NEOX_OTHERS: Mapping[str, EncodingKind | None] = {
    "learned": "learned",
    "sinusoidal": "sinusoidal",
    "none": "none",
    "rpe": None,
    "alibi": None,
}
"""Kinds of encoding by the other values of ``pos_emb``, where no number is needed."""


def is_neox(config: Config) -> bool:
    """Return whether a mapping is GPT-NeoX's arguments, with hyphens or underscores."""
    return {"pos-emb", "pos_emb", "rotary-pct", "rotary-emb-base"} & {*config} != set()


def read_neox(config: Config) -> Reading:
    """Read the rotary embedding of GPT-NeoX's arguments.

    Raises
    ------
    ConfigError
        The positional encoding is not known, or a value is missing or has another
        type.
    """
    given = {name: first(config, name, name.replace("_", "-")) for name in NEOX}
    own = {name: found[1] for name, found in given.items() if found}
    encoding = str(own.get("pos_emb", "rotary"))
    if encoding in NEOX_OTHERS:
        return _unrotated("GPT-NeoX", "pos_emb", encoding, NEOX_OTHERS[encoding])
    if encoding != "rotary":
        known = ", ".join(("rotary", *NEOX_OTHERS))
        raise ConfigError(f"pos_emb must be one of {known}, got {short_repr(encoding)}")
    remarks: list[Remark] = []
    longest = own.get("max_position_embeddings")
    made = rope(
        Parameters(
            where="arguments",
            given={
                "rope_theta": own.get("rotary_emb_base", 10_000),
                "partial_rotary_factor": own.get("rotary_pct", 1.0),
            },
            head_dim=_head_dim(own, "hidden_size", "num_attention_heads"),
            width=None,
            longest=None
            if longest is None
            else count("max_position_embeddings", longest),
            remarks=remarks,
        ),
        layout="half",
    )
    return _one("GPT-NeoX", "", made, remarks)


# --- ChatGLM 2 to 4, whose code is in their repositories


def is_chatglm(config: Config) -> bool:
    """Return whether a mapping is a configuration of ChatGLM.

    ChatGLM's code was first in repositories of its own, not in transformers.
    """
    return config.get("model_type") == "chatglm" or "rope_ratio" in config


def read_chatglm(config: Config) -> Reading:
    """Read the rotary embedding of a configuration of ChatGLM.

    ChatGLM rotates half of a head's features; the base is 10000 times ``rope_ratio``.

    Raises
    ------
    ConfigError
        A value is missing or has another type.
    """
    remarks: list[Remark] = []
    ratio = number("rope_ratio", config.get("rope_ratio", 1))
    head_dim = _head_dim(config, "hidden_size", "num_attention_heads", "kv_channels")
    if config.get("rope_theta") is not None:
        remarks.append(
            Remark(
                WARNING,
                "rope_theta is ignored: the base is 10000·rope_ratio",
                "ignored-name",
            )
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


# --- diffusers: a number of features for each axis

AXES = ("axes_dims_rope", "axes_dim_rope", "rope_axes_dim", "axes_dims")
DIFFUSERS = {
    "BriaFiboTransformer2DModel": 10_000.0,
    "ChromaTransformer2DModel": 10_000.0,
    "Flux2Transformer2DModel": 2_000.0,
    "Flux3Transformer2DModel": 10_000.0,
    "FluxTransformer2DModel": 10_000.0,
    "HunyuanVideoTransformer3DModel": 256.0,
    "Lumina2Transformer2DModel": 10_000.0,
    "QwenImageTransformer2DModel": 10_000.0,
    "ZImageTransformer2DModel": 256.0,
}
"""Classes of diffusers 0.42.1 with interleaved pairs, and their bases."""
COGVIEW = "CogView4Transformer2DModel"
WAN = (
    "ChronoEditTransformer3DModel",
    "SkyReelsV2Transformer3DModel",
    "WanAnimateTransformer3DModel",
    "WanTransformer3DModel",
    "WanVACETransformer3DModel",
)
"""Classes with frames, rows and columns, whose shares follow from the head."""
LTX = ("LTX2VideoTransformer3DModel", "LTXVideoTransformer3DModel")
"""Classes that rotate all features before they are divided into heads."""


def is_diffusers(config: Config) -> bool:
    """Return whether a mapping configures a diffusers transformer with axial RoPE."""
    family = config.get("_class_name")
    return first(config, *AXES) is not None or family in (COGVIEW, *WAN, *LTX)


def _axes(config: Config) -> tuple[tuple[int, ...], str]:
    """Return the number of features of each axis, and the name that gives it.

    CogView 4 has two axes of half a head each, since its ``rope_axes_dim`` counts
    positions; Wan has rows and columns of a third of a head each, and frames.

    Raises
    ------
    ConfigError
        The class has no axes of a head, or a value has another type.
    """
    family, name = config.get("_class_name"), "attention_head_dim"
    if family in LTX:
        raise ConfigError(
            f"{family} rotates all features before they are divided into heads, by "
            "angles of fractional positions, so no head has frequencies to be read"
        )
    if family not in (COGVIEW, *WAN):
        named, value = first(config, *AXES) or ("", None)
        return counts(named, value), named
    if config.get(name) is None:
        raise ConfigError(f"{family}: {name} is needed to compute the axes from it")
    head_dim = count(name, config[name])
    if family == COGVIEW:
        config.get("rope_axes_dim")  # numbers of positions
        return (head_dim // 2, head_dim // 2), name
    config.get("rope_max_seq_len")
    third = 2 * (head_dim // 6)
    return (head_dim - 2 * third, third, third), name


def read_diffusers(config: Config) -> Reading:
    """Read the rotary embedding of a transformer of the diffusers library.

    Raises
    ------
    ConfigError
        An axis has an odd number of features, the axes have more features than the
        head, or a value has another type.
    """
    widths, named = _axes(config)
    odd = [width for width in widths if width % 2]
    if odd or not widths:
        raise ConfigError(
            f"{named} must be one or more even numbers, got "
            f"{short_repr(config.get(named))}"
        )
    head_dim = config.get("attention_head_dim")
    if head_dim is not None and count("attention_head_dim", head_dim) < sum(widths):
        raise ConfigError(
            f"{named} must add up to at most attention_head_dim, got {sum(widths)} and "
            f"{short_repr(head_dim)}"
        )
    remarks: list[Remark] = []
    family = config.get("_class_name")
    base, layout = None, "interleaved"
    if isinstance(family, str):
        derived = dict.fromkeys((COGVIEW, *WAN), 10_000.0)
        base = {**DIFFUSERS, **derived}.get(family)
    if family == COGVIEW:
        layout = "half"
    if base is None:
        base, layout = 10_000.0, ""
        remarks.append(
            Remark(
                WARNING,
                f"{short_repr(family)} is not a known class of diffusers: each axis is "
                "taken to have its own frequencies, from a base of 10000 if none is "
                "given, and the layout is unknown",
                "unknown-type",
            )
        )
    given_base = first(config, "rope_theta", "theta")
    made = RotaryConfig(
        head_dim=sum(widths) if head_dim is None else count("head", head_dim),
        width=sum(widths),
        base=base if given_base is None else number(*given_base),
        layout=layout,
        sections=tuple(width // 2 for width in widths),
        order="separate",
    )
    return _one("diffusers", family if isinstance(family, str) else "", made, remarks)
