"""Write what code of transformers does with positions, for the book's errata.

``python -P tests/oracles/model_code.py`` needs transformers (``-P``, since transformers
would import the ``kernels.py`` next to this file). Its numbers are committed, so that
the book and the tests do not need it. They are

- the frequencies that a rotary module with ``dynamic`` scaling has after texts of
  several lengths, one after another;
- for each layer of a model, whether it has RoPE by default (1) or not (0);
- the features of a head that DeepSeek-V4's code rotates, and what its docstring says.
"""

import json
from pathlib import Path

import torch
import transformers
from transformers import (
    Llama4TextConfig,
    LlamaConfig,
    MistralLarge4TextConfig,
    MuseGlimmerTextConfig,
    MuseSparkTextConfig,
    SmolLM3Config,
)
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as deepseek_v4
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

HERE = Path(__file__).parent
TRAINED, LENGTHS = 2048, (2048, 8192, 3000, 2048, 2047, 3000)
DEPTHS = 30, 48
ROTATED = 64  # features of a head of 512 that DeepSeek-V4 rotates


def dynamic():
    """Frequencies of one module after each of several texts."""
    parameters = {"rope_type": "dynamic", "factor": 1.0, "rope_theta": 10_000.0}
    module = LlamaRotaryEmbedding(
        LlamaConfig(
            hidden_size=256,
            num_attention_heads=4,
            max_position_embeddings=TRAINED,
            rope_parameters=parameters,
        )
    )
    frequencies = []
    for length in LENGTHS:
        module(torch.zeros(1, 1, 1), torch.arange(length)[None])
        frequencies.append(module.inv_freq.tolist())
    return {
        "d": 64,
        "trained": TRAINED,
        "parameters": parameters,
        "lengths": LENGTHS,
        "frequencies": frequencies,
    }


def layers_with_rope(layers):
    """1 for each layer with RoPE and 0 for each without, by model."""
    listed = {
        "llama4": Llama4TextConfig,
        "smollm3": SmolLM3Config,
        "mistral_large4": MistralLarge4TextConfig,
    }
    by_base = {"muse_glimmer": MuseGlimmerTextConfig, "muse_spark": MuseSparkTextConfig}
    found = {
        name: list(config(num_hidden_layers=layers).no_rope_layers)
        for name, config in listed.items()
    }
    for name, config in by_base.items():
        bases = config(num_hidden_layers=layers).layer_rope_theta
        found[name] = [int(base != 0) for base in bases]
    return found


def rotated_features():
    """Features that DeepSeek-V4 rotates, and the line of a docstring on them."""
    angle = torch.full((1, 1, ROTATED // 2), 0.5)
    head = torch.arange(1.0, 513).reshape(1, 1, 1, 512)
    rotated = deepseek_v4.apply_rotary_pos_emb(head, angle.cos(), angle.sin())
    text = deepseek_v4.DeepseekV4Attention.__doc__
    (line,) = (n.strip() for n in text.splitlines() if "Partial RoPE" in n)
    return {
        "features": (rotated != head).flatten().nonzero().flatten().tolist(),
        "docstring": line,
    }


def main():
    data = {
        "made": {
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        },
        "dynamic": dynamic(),
        "layers_with_rope": {str(n): layers_with_rope(n) for n in DEPTHS},
        "deepseek_v4": rotated_features(),
    }
    text = json.dumps(data, indent=1)
    (HERE / "model-code.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
