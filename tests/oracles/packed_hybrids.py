"""Write how far packed texts leak in hybrid models of transformers, on a CPU.

It needs transformers, which is not among the requirements::

    PYTHONPATH=FOLDER:tests python -P tests/oracles/packed_hybrids.py

where FOLDER has been filled by ``pip install --target FOLDER transformers``. A small
random model of each family reads two texts in one row, with positions that begin
again: by themselves, with boundaries for the scan (``cu_seq_lens_q`` and its kin, which
a flattening collator gives), and with those for the convolution, too (``seq_idx``). The
result, ``tests/oracles/packed-hybrids.json``, holds the largest difference of the
second text's logits from those that it has alone, over the largest of these, or the
error that the model raises.
"""

import json

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from support import ROOT

OUT = ROOT / "tests/oracles/packed-hybrids.json"
SMALL = dict(vocab_size=64, hidden_size=64, intermediate_size=64)
SMALL |= dict(num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)
SMALL |= dict(head_dim=16, pad_token_id=0)
GATED = dict(linear_num_key_heads=2, linear_num_value_heads=4) | dict(
    linear_key_head_dim=16, linear_value_head_dim=16
)
FAMILIES = {
    "qwen3_5_text": SMALL | GATED,
    "olmo_hybrid": SMALL | GATED | dict(linear_num_key_heads=4),
    "kimi_linear": SMALL
    | dict(linear_num_heads=4, linear_head_dim=16, num_key_value_heads=4)
    | dict(kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16)
    | dict(v_head_dim=16, mlp_layer_types=["dense"] * 4)
    | dict(layer_types=[*["linear_attention"] * 3, "full_attention"]),
}
FIRST, SECOND = 9, 7


def leak(model, tokens, alone, more):
    """The leak into the second text, or the error that the model raises."""
    places = torch.cat((torch.arange(FIRST), torch.arange(SECOND)))[None]
    try:
        with torch.no_grad():
            out = model(tokens, position_ids=places, use_cache=False, **more).logits
    except Exception as error:  # A class may raise anything.
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    error = (out[:, FIRST:] - alone).abs().max() / alone.abs().max()
    return float(f"{error.item():.2g}")


def main():
    ends = torch.tensor([0, FIRST, FIRST + SECOND], dtype=torch.int32)
    texts = torch.tensor([[0] * FIRST + [1] * SECOND], dtype=torch.int32)
    scan = dict(cu_seq_lens_q=ends, cu_seq_lens_k=ends)
    scan |= dict(max_length_q=FIRST, max_length_k=FIRST)
    given = {
        "positions alone": {},
        "boundaries for the scan": scan,
        "boundaries for both": scan | dict(seq_idx=texts),
    }
    found = {}
    for family, sizes in FAMILIES.items():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes))
        model = model.eval()
        with torch.no_grad():
            for p in model.parameters():
                if p.ndim > 1:
                    p.normal_(0, p.shape[-1] ** -0.5)
            for name, p in model.named_parameters():
                if name.endswith("dt_bias"):
                    p.fill_(-4)  # so that states last beyond the boundary
        tokens = torch.randint(0, 64, (1, FIRST + SECOND))
        with torch.no_grad():
            alone = model(tokens[:, FIRST:], use_cache=False).logits
        found[family] = {
            name: leak(model, tokens, alone, more) for name, more in given.items()
        }
        print(family, found[family])
    made = {"transformers": transformers.__version__, "torch": torch.__version__}
    OUT.write_text(json.dumps(made | {"families": found}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
