"""Write frequencies of transformers for each rope type, for tests to compare with.

``python tests/oracles/rope_types.py`` needs transformers. Its numbers are committed, so
that tests do not need it.
"""

import json
from pathlib import Path

import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = Path(__file__).parent
LISTS = {
    "short_factor": [1 + 0.01 * j for j in range(32)],
    "long_factor": [1 + 0.4 * j for j in range(32)],
}
TRAINED = "original_max_position_embeddings"
YARN = {"rope_type": "yarn", "factor": 16.0, TRAINED: 4096}
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, TRAINED: 8192}
LONGROPE = {"rope_type": "longrope", TRAINED: 4096, "factor": 32.0, **LISTS}

# Name, rope parameters, head dimension, longest position, length so far.
CASES = (
    ("linear", {"rope_type": "linear", "factor": 4.0}, 64, 8192, None),
    ("dynamic", {"rope_type": "dynamic", "factor": 1.0}, 64, 2048, 8192),
    ("dynamic, factor 4", {"rope_type": "dynamic", "factor": 4.0}, 64, 2048, 8192),
    ("dynamic, short", {"rope_type": "dynamic", "factor": 4.0}, 64, 2048, 100),
    ("yarn", YARN, 128, 65536, None),
    ("yarn, not truncated", {**YARN, "truncate": False}, 64, 65536, None),
    (
        "yarn, other turns",
        {**YARN, "beta_fast": 64.0, "beta_slow": 2.0},
        64,
        65536,
        None,
    ),
    ("yarn, mscale", {**YARN, "mscale": 0.707, "mscale_all_dim": 1.4}, 64, 65536, None),
    ("llama3", {**LLAMA3, "factor": 8.0, "high_freq_factor": 4.0}, 128, 131072, None),
    (
        "llama3, 3.2",
        {**LLAMA3, "factor": 32.0, "high_freq_factor": 4.0},
        64,
        131072,
        None,
    ),
    ("longrope, short", LONGROPE, 64, 131072, 4096),
    ("longrope, long", LONGROPE, 64, 131072, 4097),
    (
        "proportional",
        {"rope_type": "proportional", "partial_rotary_factor": 0.25},
        64,
        8192,
        None,
    ),
)


def case(name, parameters, d, longest, length, base, layer_type=None):
    """One configuration, its frequencies and its attention factor."""
    given = {"rope_theta": base, **parameters}
    config = LlamaConfig(
        hidden_size=4 * d,
        num_attention_heads=4,
        max_position_embeddings=longest,
        rope_parameters={layer_type: given} if layer_type else given,
        **({"layer_types": [layer_type] * 32} if layer_type else {}),
    )
    function = ROPE_INIT_FUNCTIONS[parameters["rope_type"]]
    frequencies, attention_factor = function(
        config, torch.device("cpu"), seq_len=length, layer_type=layer_type
    )
    return {
        "name": f"{name}, base {base:g}",
        "parameters": parameters,
        "d": d,
        "base": base,
        "longest": longest,
        "length": length,
        "frequencies": frequencies.tolist(),
        "attention_factor": attention_factor,
    }


if __name__ == "__main__":
    cases = [case(*each, base) for each in CASES for base in (1e4, 5e5)]
    parameters = {**YARN, "factor": 32.0, "truncate": False}
    nested = case("nested", parameters, 64, 131072, None, 150000.0, "full_attention")
    made = {"transformers": transformers.__version__, "torch": torch.__version__}
    out = HERE / "rope-types.json"
    out.write_text(
        json.dumps({"made": made, "cases": cases, "nested": nested}, indent=1) + "\n"
    )
    print(f"{len(cases)} cases in {out.name}")
