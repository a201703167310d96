"""Write the sizes and layers of hybrid models, published or as their classes default.

It needs transformers and the folder ``model_configs`` of
github.com/ai-dynamo/aiconfigurator, with ``config.json`` files of published models::

    PYTHONPATH=FOLDER:tests python -P tests/oracles/hybrids.py MODEL_CONFIGS

It writes ``posedu/book/hybrids.json``: of each text model the names that say which
layers are recurrent, what a layer caches, and how it rotates. It also writes
``tests/oracles/hybrid-layers.json``: for each hybrid family the type of every layer
that its class fills in, for an empty file and for the completed one.
"""

import argparse
import json
from pathlib import Path

import transformers
from transformers import CONFIG_MAPPING

from posedu.tools import read_rope
from posedu.tools.configs.hybrid import FAMILIES
from support import ROOT

OUT = ROOT / "posedu/book/hybrids.json"
LAYERS = ROOT / "tests/oracles/hybrid-layers.json"
SOURCE = "https://github.com/ai-dynamo/aiconfigurator"
FILES = {
    "Kimi K3": "moonshotai--Kimi-K3",
    "Nemotron 3 Nano": "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Nemotron-H 56B": "nvidia--Nemotron-H-56B-Base-8K",
    "Qwen3.5 27B": "Qwen--Qwen3.5-27B",
}
CLASSES = {
    "Falcon-H1": "falcon_h1",
    "GLM-5 Next": "glm5_next_text",
    "Jamba": "jamba",
    "Kimi Linear": "kimi_linear",
    "LFM3": "lfm3",
    "Ling Hybrid": "bailing_hybrid",
    "MiniMax": "minimax",
    "OLMo Hybrid": "olmo_hybrid",
    "Qwen3-Next": "qwen3_next",
    "RecurrentGemma": "recurrent_gemma",
    "Zamba2": "zamba2",
}
KEPT = (
    *("model_type", "num_hidden_layers", "layer_types", "layers_block_type"),
    *("hybrid_override_pattern", "full_attention_interval", "linear_attn_config"),
    *("attn_layer_period", "attn_layer_offset", "attn_layer_indices", "block_types"),
    *("layer_group_size", "rope_parameters", "rope_theta", "partial_rotary_factor"),
    *("max_position_embeddings", "hidden_size", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "attention_head_dim", "kv_lora_rank"),
    *("qk_rope_head_dim", "use_mem_rope", "mla_use_nope", "sliding_window"),
    *("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim"),
    *("linear_value_head_dim", "linear_num_heads", "linear_head_dim"),
    *("linear_conv_kernel_dim", "conv_kernel", "conv1d_width", "conv_L_cache"),
    *("mamba_d_conv", "mamba_num_heads", "mamba_head_dim", "ssm_state_size"),
    *("n_groups", "mamba_n_heads", "mamba_d_head", "mamba_d_state"),
    *("mamba_n_groups", "mamba_headdim", "n_mamba_heads", "mamba_ngroups"),
    *("mamba_expand", "lru_width", "attention_window_size"),
)


def row(name, origin, config):
    config = config.get("text_config", config)
    kept = {key: config[key] for key in KEPT if config.get(key) is not None}
    one, other = read_rope(config), read_rope(kept)
    assert (one.kinds, one.mixers) == (other.kinds, other.mixers), name
    return {"name": name, "origin": origin, "config": kept}


def layers_of(family):
    """The completed configuration of a family, in part, and the types of its layers."""
    config = CONFIG_MAPPING[family]()
    config = getattr(config, "text_config", config)
    completed = config.to_dict()
    names = ("layer_types", "layers_block_type")
    types = next((t for n in names if (t := getattr(config, n, None))), [])
    return {
        "completed": {k: completed[k] for k in KEPT if completed.get(k) is not None},
        "types": list(types),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    rows = [
        row(name, "published", json.loads((folder / f"{file}_config.json").read_text()))
        for name, file in FILES.items()
    ]
    rows += [
        row(name, "class default", CONFIG_MAPPING[family]().to_dict())
        for name, family in CLASSES.items()
    ]
    rows.sort(key=lambda each: each["name"].lower())
    made = {"transformers": transformers.__version__, "source": SOURCE}
    layers = {name: layers_of(name) for name in sorted(FAMILIES)}
    found = {"transformers": transformers.__version__, "families": layers}
    LAYERS.write_text(json.dumps(found) + "\n", encoding="utf-8")
    text = json.dumps({"made": made, "models": rows}, ensure_ascii=False)
    OUT.write_text(text + "\n", encoding="utf-8")
    print(OUT.relative_to(ROOT), len(text))


if __name__ == "__main__":
    main()
