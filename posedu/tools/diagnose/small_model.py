"""Configuration of a small model, made from a configuration of transformers."""

import copy
from collections.abc import Collection, Mapping
from typing import Any

import torch

from posedu._argument_types import check_types, short_repr
from posedu._arguments import require_dimension

LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
    "depth",
)
KINDS = ("layer_types", "no_rope_layers", "layer_rope_theta")
SMALL: Mapping[str, int] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 512),
    "encoder_hash_byte_group_vocab": 512,
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk"), 2),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_num_heads", "num_linear_heads"), 2),
    "mamba_num_heads": 8,
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 32),
}
"""Largest values of parameters that only make a model large."""

NEEDED = ("vocab_size", "num_experts_per_tok", "n_routed_experts")
"""Parameters that a model needs and that some configurations leave at ``None``."""

HEADS = 4
HEAD_NAMES = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEY_NAMES = (
    "num_key_value_heads",
    "multi_query_group_num",
    "n_head_kv",
    "num_kv_heads",
)
WIDTH_NAMES = ("hidden_size", "n_embd", "d_model", "dim")


@check_types
def small(config: Any, *, layers: int | None = 4) -> Any:
    """Return a copy of ``config`` that makes a small model with the same rotations.

    Heads keep their dimension. Weights are scaled for scores of order 1, so that the
    output depends on attention. A dtype in the configuration becomes float32, since
    fewer bits would hide low frequencies.

    Parameters
    ----------
    config
        A configuration object of the transformers library.
    layers
        Largest number of layers, ``None`` for all. Up to three times as many layers are
        kept if kinds of layers alternate and only then each kind is among them.

    Raises
    ------
    TypeError, ValueError
        ``config`` is no such object; ``layers`` is not a positive integer.
    """
    if isinstance(config, type) or not hasattr(config, "to_dict"):
        raise TypeError(
            "config must be a configuration object of transformers, got "
            f"{short_repr(config)}"
        )
    if layers is not None:
        require_dimension("layers", layers, 1)
    config = copy.deepcopy(config)
    for part in (*_parts(config), config):
        _narrow(part)
        if layers is not None:
            _cut(part, layers)
    return config


def _parts(config: Any) -> list[Any]:
    return [value for value in vars(config).values() if hasattr(value, "to_dict")]


def _narrow(config: Any) -> None:
    for name in ("dtype", "torch_dtype"):
        if vars(config).get(name) is not None:
            setattr(config, name, torch.float32)
    for name, most in SMALL.items():
        if (_whole(config, name) or 0) > most:
            setattr(config, name, most)
    for name in NEEDED:
        if vars(config).get(name, 0) is None:
            setattr(config, name, SMALL[name])
    if not hasattr(config, "pad_token_id"):
        config.pad_token_id = None
    for name, value in list(vars(config).items()):
        if name.endswith("token_id") and isinstance(value, int):
            setattr(config, name, min(value, SMALL["vocab_size"] - 1))
    heads, width, keys = (
        next((name for name in names if _whole(config, name)), None)
        for names in (HEAD_NAMES, WIDTH_NAMES, KEY_NAMES)
    )
    if heads is None or width is None:
        return
    own = getattr(config, heads)
    each = _whole(config, "head_dim") or getattr(config, width) // own
    stated = vars(config).get("head_dim")
    if stated and isinstance(stated, int):  # Some layers may have another.
        each = stated
    few = min(HEADS, own)
    if keys is not None:
        setattr(config, keys, max(1, few * getattr(config, keys) // own))
    for name, value in list(vars(config).items()):  # An encoder and a decoder have own.
        if name.endswith(heads) and value == own:
            setattr(config, name, few)
    setattr(config, heads, few)
    setattr(config, width, few * each)
    if "head_dim" in vars(config) and not stated:
        config.head_dim = each
    if hasattr(config, "initializer_range"):
        config.initializer_range = (few * each) ** -0.5


def _cut(config: Any, most: int) -> None:
    """Reduce a configuration to its first ``most`` layers.

    Counts of layers, and lists with an entry for each layer, are cut. Up to three times
    as many layers are kept if only then each kind of layer is among them. ``config`` is
    changed in place.
    """
    kinds = [
        value
        for name in KINDS
        if isinstance(value := getattr(config, name, None), list)
    ]
    firsts = [max(map(value.index, value), default=0) + 1 for value in kinds]
    most = max([most, *(n for n in firsts if n <= 3 * most)])
    own = [n for n in LAYERS if not isinstance(getattr(type(config), n, 0), property)]
    counts = {name: _whole(config, name) for name in own}  # Funnel counts its blocks.
    for name, count in counts.items():
        if count and count > most:
            setattr(config, name, most)
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) in {*counts.values()} - {None}:
            setattr(config, name, value[:most])
    _cut_sections(config, {n for n in counts.values() if n and n > most}, most)


def _cut_sections(config: Any, counts: Collection[int], most: int) -> None:
    """Reduce the numbers of layers of a model's sections, whose sum is that of all.

    Dory's are ``n_input_layers``, ``n_recurrent_layers`` and ``n_output_layers``.
    ``counts`` are the numbers of all layers that were reduced to ``most``. ``config``
    is changed in place.
    """
    sections = {
        name: count
        for name in vars(config)
        if name.startswith("n_") and name.endswith("_layers") and name not in LAYERS
        if (count := _whole(config, name))
    }
    total = sum(sections.values())
    if total not in counts or len(sections) > most:
        return
    few = {name: max(1, most * count // total) for name, count in sections.items()}
    few[max(few, key=few.__getitem__)] += most - sum(few.values())
    for name, count in few.items():
        setattr(config, name, count)


def _whole(config: Any, name: str) -> int | None:
    try:
        value = getattr(config, name, None)
    except Exception:  # Some configurations raise for values that differ by layer.
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
