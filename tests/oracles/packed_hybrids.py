"""Write how far packed texts leak in hybrid models of transformers, on a CPU.

It needs transformers, which is not among the requirements::

    PYTHONPATH=FOLDER:tests python -P tests/oracles/packed_hybrids.py

where FOLDER has been filled by ``pip install --target FOLDER transformers``. A small
random model of each family reads two texts in one row, as
``DataCollatorWithFlattening`` gives them: with positions that begin again alone, with
boundaries for the scan (``cu_seq_lens_q`` and its kin), for the convolution
(``seq_idx``), and with both. The result, ``tests/oracles/packed-hybrids.json``, holds
the largest difference of the second text's logits from those that it has alone, over
the largest of these, or the error that the model raises: ``families`` without kernels,
and ``kernels`` with the stand-ins of ``packed_kernels.py``, which take the boundaries
as the kernels do. There the default, a model that also makes a cache, is tried, too,
and for some families a remedy, ``REMEDIES``. ``padded`` has the errors of the second
text if it is padded on the left, with its mask and without.
"""

import json
import multiprocessing

import torch
from oracles import packed_kernels

from support import ROOT

OUT = ROOT / "tests/oracles/packed-hybrids.json"
SMALL = dict(vocab_size=64, hidden_size=64, intermediate_size=64)
SMALL |= dict(num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)
SMALL |= dict(head_dim=16, pad_token_id=0)
GATED = dict(linear_num_key_heads=2, linear_num_value_heads=4) | dict(
    linear_key_head_dim=16, linear_value_head_dim=16
)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1)
FAMILIES = {
    "qwen3_5_text": SMALL | GATED,
    "olmo_hybrid": SMALL | GATED | dict(linear_num_key_heads=4),
    "kimi_linear": SMALL
    | dict(linear_num_heads=4, linear_head_dim=16, num_key_value_heads=4)
    | dict(kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16)
    | dict(v_head_dim=16, mlp_layer_types=["dense"] * 4)
    | dict(layer_types=[*["linear_attention"] * 3, "full_attention"]),
}
WITH_KERNELS = FAMILIES | {
    "qwen3_next": SMALL
    | GATED
    | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
    | dict(shared_expert_intermediate_size=32),
    "bamba": SMALL | MAMBA | dict(attn_layer_indices=[3]),
    "granitemoehybrid": SMALL
    | MAMBA
    | dict(layer_types=[*["mamba"] * 3, "attention"])
    | dict(num_local_experts=0, shared_intermediate_size=64),
    "nemotron_h": SMALL
    | dict(layers_block_type=[*["mamba"] * 3, "attention"], n_groups=1)
    | dict(mamba_num_heads=8, mamba_head_dim=16, ssm_state_size=16),
    "mamba2": SMALL
    | dict(num_heads=8, head_dim=16, state_size=16, n_groups=1)
    | dict(num_attention_heads=None, num_key_value_heads=None),
    "lfm2": SMALL | dict(layer_types=[*["conv"] * 3, "full_attention"]),
    "llama": SMALL,
}
FIRST, SECOND = 9, 7
SCAN = "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"


def with_mask(batch):
    """The batch, with the mask of attention that the class does not make."""
    number = batch["seq_idx"][0]
    keep = (number[:, None] == number).tril()
    mask = torch.where(keep, 0.0, -torch.inf)[None, None]
    return batch | {
        "attention_mask": {"full_attention": mask, "linear_attention": None}
    }


def for_backbone(batch):
    """The arguments of a model without its head."""
    given = {name: batch[name] for name in ("input_ids", "seq_idx", "use_cache")}
    return given | {"backbone": True}


REMEDIES = {  # for classes that do not hand on what they are given
    "kimi_linear": lambda batch: batch | {"cu_seqlens": batch["cu_seq_lens_q"]},
    "granitemoehybrid": with_mask,
    "mamba2": for_backbone,
}


def batch_of(texts):
    """Two texts in one row, with all that the collator says of them."""
    from transformers import DataCollatorWithFlattening

    collator = DataCollatorWithFlattening(
        return_flash_attn_kwargs=True, return_seq_idx=True
    )
    batch = collator([{"input_ids": text} for text in texts])
    del batch["labels"]
    return batch


def model_of(family, sizes):
    """A random model whose states last beyond the boundary."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim > 1:
                p.normal_(0, p.shape[-1] ** -0.5)
            if name.endswith("dt_bias"):
                p.fill_(-4)
    return model.eval()


def leak(model, alone, given):
    """The leak into the second text, or the error that the model raises."""
    try:
        with torch.no_grad():
            if given.pop("backbone", False):
                out = model.lm_head(model.backbone(**given)[0])
            else:
                out = model(**given).logits
    except Exception as error:  # A class may raise anything.
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    error = (out[:, FIRST:] - alone).abs().max() / alone.abs().max()
    return float(f"{error.item():.2g}")


def measured(families, stand_ins):
    """The leaks of families; run in a process of its own with stand-ins."""
    if stand_ins:
        packed_kernels.install()
    found = {}
    for family, sizes in families.items():
        model = model_of(family, sizes)
        texts = [torch.randint(1, 64, (n,)).tolist() for n in (FIRST, SECOND)]
        full = batch_of(texts) | {"use_cache": False}
        bare = {name: full[name] for name in ("input_ids", "position_ids", "use_cache")}
        scan = bare | {name: full[name] for name in SCAN}
        tried = {
            "positions alone": bare,
            "boundaries for the scan": scan,
            "boundaries for the convolution": bare | {"seq_idx": full["seq_idx"]},
            "boundaries for both": full,
        }
        if stand_ins:
            tried["both, use_cache by default"] = {
                name: given for name, given in full.items() if name != "use_cache"
            }
            if family in REMEDIES:
                tried["remedy"] = REMEDIES[family](full)
        with torch.no_grad():
            alone = model(torch.tensor([texts[1]]), use_cache=False).logits
        found[family] = {
            name: leak(model, alone, given) for name, given in tried.items()
        }
        print(family, found[family])
    return found


def padded(families):
    """Errors of a text that is padded on the left, with its mask and without."""
    found = {}
    for family, sizes in families.items():
        model = model_of(family, sizes)
        text = torch.randint(1, 64, (1, SECOND))
        row = torch.nn.functional.pad(text, (FIRST, 0))
        masks = {"masked": (row != 0).long(), "unmasked": torch.ones_like(row)}
        with torch.no_grad():
            alone = model(text, use_cache=False).logits
        found[family] = {
            name: leak(
                model,
                alone,
                {"input_ids": row, "attention_mask": mask, "use_cache": False},
            )
            for name, mask in masks.items()
        }
        print(family, found[family])
    return found


def main():
    import transformers

    # Kernels are bound when a model's module is imported: one process for each case.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        families = pool.apply(measured, (FAMILIES, False))
        kernels = pool.apply(measured, (WITH_KERNELS, True))
        left = pool.apply(padded, (WITH_KERNELS,))
    made = {"transformers": transformers.__version__, "torch": torch.__version__}
    found = made | {"families": families, "kernels": kernels, "padded": left}
    OUT.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
