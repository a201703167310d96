"""A small model of random weights from a configuration of transformers."""

import copy
from collections.abc import Mapping
from typing import Any

SMALL: Mapping[str, int] = {
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 4),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "depth"), 2),
    **dict.fromkeys(("vocab_size",), 512),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk"), 2),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_num_heads", "num_linear_heads"), 2),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 32),
}
"""What only makes a model large, by the names that configurations have for it."""

HEADS = 4
HEAD_NAMES = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEY_NAMES = (
    "num_key_value_heads",
    "multi_query_group_num",
    "n_head_kv",
    "num_kv_heads",
)
WIDTH_NAMES = ("hidden_size", "n_embd", "d_model", "dim")


def small(config: Any) -> Any:
    """A copy of which a model is small, and turns its heads as the original does.

    Layers are cut to four; heads keep their width. Weights are as large as scores of
    order 1 want, so that an output shows what attention does.
    """
    config = copy.deepcopy(config)
    for value in vars(config).values():
        if hasattr(value, "to_dict"):
            _shrink(value)
    _shrink(config)
    return config


def _shrink(config: Any) -> None:
    heads = next((n for n in HEAD_NAMES if _whole(config, n)), None)
    width = next((n for n in WIDTH_NAMES if _whole(config, n)), None)
    layers = next(
        (_whole(config, n) for n in SMALL if "layer" in n and _whole(config, n)), 0
    )
    for name, most in SMALL.items():
        if (_whole(config, name) or 0) > most:
            setattr(config, name, most)
    if heads and width:
        own, keys = (
            getattr(config, heads),
            next((n for n in KEY_NAMES if _whole(config, n)), None),
        )
        each = _whole(config, "head_dim") or getattr(config, width) // own
        few = min(HEADS, own)
        if keys:
            setattr(config, keys, max(1, few * getattr(config, keys) // own))
        setattr(config, heads, few)
        setattr(config, width, few * each)
        if hasattr(config, "initializer_range"):
            config.initializer_range = (few * each) ** -0.5
    for name, value in list(vars(config).items()):
        if name.endswith("token_id") and isinstance(value, int):
            setattr(config, name, min(value, SMALL["vocab_size"] - 1))
        if isinstance(value, list) and layers and len(value) == layers:
            setattr(config, name, value[: SMALL["num_hidden_layers"]])


def _whole(config: Any, name: str) -> int | None:
    value = getattr(config, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
