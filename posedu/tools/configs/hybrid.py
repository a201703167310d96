"""Reader of the mixers of hybrid models, from configurations of transformers."""

from collections.abc import Mapping
from typing import Any

from posedu.tools.configs._fields import (
    MOST_LAYERS,
    count,
    counts,
    first,
    mapping,
    require_layers,
    short_repr,
)
from posedu.tools.configs.mixers import Mixers, Recurrence, Role
from posedu.tools.configs.rotary_config import ConfigError

FAMILIES: Mapping[str, Recurrence] = {
    "bailing_hybrid": "kda",
    "bamba": "mamba-2",
    "falcon_h1": "mamba-2",
    "glm5_next": "kda",
    "glm5_next_text": "kda",
    "granitemoehybrid": "mamba-2",
    "jamba": "mamba",
    "kimi_linear": "kda",
    "lfm2": "convolution",
    "lfm2_moe": "convolution",
    "lfm3": "convolution",
    "minimax": "lightning",
    "nemotron_h": "mamba-2",
    "olmo_hybrid": "gated-delta-net",
    "qwen3_5": "gated-delta-net",
    "qwen3_5_moe": "gated-delta-net",
    "qwen3_5_moe_text": "gated-delta-net",
    "qwen3_5_text": "gated-delta-net",
    "qwen3_next": "gated-delta-net",
    "qwen4_exp": "gated-delta-net",
    "qwen4_exp_text": "gated-delta-net",
    "recurrent_gemma": "rg-lru",
    "zamba": "mamba",
    "zamba2": "mamba-2",
}
"""The recurrence of each hybrid family of transformers, by ``model_type``."""
INTERVALS: Mapping[str, tuple[str, int]] = {
    **{
        name: ("full_attention_interval", 4)
        for name in FAMILIES
        if name.startswith(("qwen3_5", "qwen3_next", "qwen4_exp"))
    },
    "bailing_hybrid": ("layer_group_size", 6),
}
"""The key of k, where every k-th layer has attention, and the class's own k."""
TYPES: Mapping[str, Role] = {
    "conv": "recurrence",
    "hybrid": "both",
    "linear_attention": "recurrence",
    "mamba": "recurrence",
    "mlp": "mlp",
    "moe": "mlp",
    "recurrent": "recurrence",
}
"""Roles of layers by their types in transformers; every other type is attention."""
PATTERN: Mapping[str, Role] = {
    "M": "recurrence",
    "*": "attention",
    "-": "mlp",
    "E": "mlp",
}
"""Roles of layers by their letters in ``hybrid_override_pattern``."""
CONVOLUTIONS = (
    "linear_conv_kernel_dim",
    "conv_kernel",
    "mamba_d_conv",
    "conv1d_width",
    "conv_L_cache",
)
"""Names of the number of tokens of the short convolution."""
GGUF: Mapping[str, Recurrence] = {
    "falcon-h1": "mamba-2",
    "granitehybrid": "mamba-2",
    "jamba": "mamba",
    "kimi-k3": "kda",
    "kimi-linear": "kda",
    "lfm2": "convolution",
    "lfm2moe": "convolution",
    "minimax-01": "lightning",
    "nemotron_h": "mamba-2",
    "nemotron_h_moe": "mamba-2",
    "qwen35": "gated-delta-net",
    "qwen35moe": "gated-delta-net",
    "qwen3next": "gated-delta-net",
}
"""The recurrence of each hybrid architecture of llama.cpp."""

Config = Mapping[str, Any]


def read_mixers(config: Config) -> Mixers | None:
    """Return the mixers of a configuration of transformers, without its parts.

    The result is ``None`` if no layer has a recurrence, or if it is not known.

    Raises
    ------
    ConfigError
        A list of layers cannot be read.
    """
    family = config.get("model_type")
    own = FAMILIES.get(family) if isinstance(family, str) else None
    roles = _roles(config, family if own else "")
    if own is None and not {*roles} & {"recurrence", "both"}:
        return None
    return Mixers(
        recurrence=own or "recurrence", roles=roles, convolution=_convolution(config)
    )


def _roles(config: Config, family: str) -> tuple[Role, ...]:
    """Return the role of each layer, empty if the configuration does not list them.

    ``family`` is the ``model_type`` of a hybrid family, empty for another one.
    """
    for name in ("layer_types", "layers_block_type"):
        types = config.get(name)
        if isinstance(types, list | tuple) and types:
            require_layers(name, types)
            return tuple(TYPES.get(_text(name, each), "attention") for each in types)
    name = "hybrid_override_pattern"
    pattern = config.get(name)
    if pattern is not None:
        if not isinstance(pattern, str) or not {*pattern} <= {*PATTERN}:
            raise ConfigError(
                f"{name} must be a text of the letters {', '.join(PATTERN)}, got "
                f"{short_repr(pattern)}"
            )
        require_layers(name, pattern)
        return tuple(PATTERN[letter] for letter in pattern)
    given = first(config, "num_hidden_layers")
    if given is None:
        return ()
    depth = min(count(*given), MOST_LAYERS)
    if family == "falcon_h1":
        return ("both",) * depth
    attention = _attention(config, family, depth)
    return () if attention is None else _beside(attention, depth)


def _beside(attention: set[int], depth: int) -> tuple[Role, ...]:
    """Return roles of layers that have attention if listed, else a recurrence."""
    return tuple("attention" if n in attention else "recurrence" for n in range(depth))


def read_gguf_mixers(architecture: str, own: Config) -> Mixers | None:
    """Return the mixers of an architecture of llama.cpp, ``None`` if it is no hybrid.

    ``own`` is the metadata of the architecture, without its name before them.

    Raises
    ------
    ConfigError
        A number of layers cannot be read.
    """
    recurrence = GGUF.get(architecture)
    if recurrence is None:
        return None
    width = first(own, "ssm.conv_kernel", "shortconv.l_cache")
    return Mixers(
        recurrence=recurrence,
        roles=_gguf_roles(architecture, own),
        convolution=width and count(*width),
    )


def _gguf_roles(architecture: str, own: Config) -> tuple[Role, ...]:
    """Return the role of each layer, as llama.cpp decides it; empty if not listed.

    A list of key-value heads has 0 for a layer without attention. Such a layer of
    Nemotron-H is an MLP if its entry in the list of MLP widths is not 0.
    """
    heads, given = own.get("attention.head_count_kv"), own.get("block_count")
    if isinstance(heads, list | tuple):
        require_layers("attention.head_count_kv", heads)
        widths = own.get("feed_forward_length")
        is_mlp = [False] * len(heads)
        if architecture.startswith("nemotron") and isinstance(widths, list | tuple):
            is_mlp = [bool(width) for width in widths[: len(heads)]]
            is_mlp += [False] * (len(heads) - len(is_mlp))
        return tuple(
            "attention" if n else "mlp" if mlp else "recurrence"
            for n, mlp in zip(heads, is_mlp, strict=True)
        )
    if given is None:
        return ()
    depth = min(count("block_count", given), MOST_LAYERS)
    if architecture == "falcon-h1":
        return ("both",) * depth
    if not architecture.startswith("qwen"):
        return ()
    name = "full_attention_interval"
    every = count(name, own.get(name, 4))
    ahead = own.get("nextn_predict_layers") or 0  # layers of multi-token prediction
    depth -= min(count("nextn_predict_layers", ahead), depth) if ahead else 0
    return _beside({n for n in range(depth) if (n + 1) % every == 0}, depth)


def _attention(config: Config, family: str, depth: int) -> set[int] | None:
    """Return the layers with attention by the keys of some families, from 0 on.

    ``depth`` is the number of layers. The result is ``None`` if no key tells.
    """
    inner = config.get("linear_attn_config")
    if inner is not None:
        listed = mapping("linear_attn_config", inner).get("full_attn_layers")
        if listed is not None:
            places = counts("linear_attn_config.full_attn_layers", listed)
            return {place - 1 for place in places}
    for name in ("attn_layer_indices", "full_attn_idxs"):
        listed = config.get(name)
        if listed is not None:
            return _places(name, listed)
    kinds = config.get("attn_type_list")
    if isinstance(kinds, list):
        return {n for n, kind in enumerate(kinds) if kind}
    blocks = config.get("block_types")
    if isinstance(blocks, list | tuple) and blocks:
        cycle = [TYPES.get(_text("block_types", each)) for each in blocks]
        return {n for n in range(depth) if cycle[n % len(cycle)] is None}
    if family == "jamba":
        period = count("attn_layer_period", config.get("attn_layer_period", 8))
        offset = _places("attn_layer_offset", [config.get("attn_layer_offset", 4)])
        return {n for n in range(depth) if n % period in offset}
    if family in INTERVALS:
        name, usual = INTERVALS[family]
        every = count(name, config.get(name, usual))
        return {n for n in range(depth) if (n + 1) % every == 0}
    return None


def _places(name: str, listed: object) -> set[int]:
    if not isinstance(listed, list | tuple) or any(
        isinstance(n, bool) or not isinstance(n, int) for n in listed
    ):
        raise ConfigError(f"{name} must be a list of layers, got {short_repr(listed)}")
    return {*listed}


def _convolution(config: Config) -> int | None:
    inner = config.get("linear_attn_config")
    name = "short_conv_kernel_size"
    if isinstance(inner, Mapping) and inner.get(name) is not None:
        return count(f"linear_attn_config.{name}", inner[name])
    found = first(config, *CONVOLUTIONS)
    return found and count(*found)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a list of texts, got {short_repr(value)}")
    return value
