"""Write what code of transformers does with positions, for the book's errata.

``python -P tests/oracles/model_code.py`` needs transformers (``-P``, since transformers
would import the ``kernels.py`` next to this file). Its numbers are committed, so that
the book and the tests do not need it. They are

- the frequencies that a rotary module with ``dynamic`` scaling has after texts of
  several lengths, one after another;
- for each layer of a model, whether it has RoPE by default (1) or not (0);
- the features of a head that DeepSeek-V4's code rotates, and what its docstring says;
- the temperatures of Llama 4, Ministral 3 and Beam, and the docstring of Beam's;
- the features into which DeepSeek-V3 rotates, and Llama's cosines at a far position;
- the biases of the last keys that Falcon with ALiBi adds to the logits;
- the rows of DeBERTa's table that its second version reads;
- the rows that OPT's table has, and those that OPT and RoBERTa read.
"""

import json
from pathlib import Path

import torch
import transformers
from transformers import (
    AttentionInterface,
    DebertaV2Config,
    FalconConfig,
    FalconModel,
    Llama4TextConfig,
    LlamaConfig,
    Ministral3Config,
    MistralLarge4TextConfig,
    MuseGlimmerTextConfig,
    MuseSparkTextConfig,
    SmolLM3Config,
)
from transformers.models.beam import modeling_beam as beam
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta_v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek_v3
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as deepseek_v4
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama4.modeling_llama4 import Llama4TextAttention
from transformers.models.ministral3.modeling_ministral3 import Ministral3Attention
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

HERE = Path(__file__).parent
TRAINED, LENGTHS = 2048, (2048, 8192, 3000, 2048, 2047, 3000)
DEPTHS = 30, 48
ROTATED = 64  # features of a head of 512 that DeepSeek-V4 rotates
NEAR_A_STEP = 8190, 8191, 8192  # positions at the end of a temperature's first step
FAR = -600, -512, -511, -128, 128, 511, 512, 600  # offsets i − j


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


class Recorded(Exception):
    """Exception with what a model passes on, raised where it is wanted."""


def _raise_query(module, query, *args, **kwargs):
    raise Recorded(query)


def factor_of_queries(attention, **more):
    """Factors of a layer's queries at ``NEAR_A_STEP``, beyond its projection."""
    x = torch.ones(1, NEAR_A_STEP[-1] + 1, attention.config.hidden_size)
    try:
        with torch.no_grad():
            attention(x, attention_mask=None, **more)
    except Recorded as recorded:
        (query,) = recorded.args
    factor = query[0, 0].norm(dim=-1) / attention.q_proj(x[0, :1]).norm()
    return factor[list(NEAR_A_STEP)].tolist()


def temperatures():
    """Temperatures near the end of a step, and Beam's with its docstring."""
    AttentionInterface.register("recorded", _raise_query)
    sizes = dict(hidden_size=8, num_attention_heads=1, num_key_value_heads=1)
    sizes |= dict(head_dim=8, num_hidden_layers=4, attn_implementation="recorded")
    count = NEAR_A_STEP[-1] + 1
    torch.manual_seed(0)
    llama4 = Llama4TextAttention(Llama4TextConfig(**sizes), 3)
    own = {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 8192}
    parameters = {"rope_type": "default", "rope_theta": 10_000.0, **own}
    ministral3 = Ministral3Attention(
        Ministral3Config(**sizes, rope_parameters=parameters), 0
    )
    unrotated = torch.ones(1, count, 8), torch.zeros(1, count, 8)
    at = [0, 2047]
    power = beam.compute_attention_scaling(torch.tensor([at])).flatten()
    return {
        "positions": NEAR_A_STEP,
        "llama4": factor_of_queries(llama4, position_embeddings=None),
        "ministral3": factor_of_queries(
            ministral3,
            position_embeddings=unrotated,
            position_ids=torch.arange(count)[None],
        ),
        "beam": {
            "positions": at,
            "temperatures": power.tolist(),
            "docstring": beam.compute_attention_scaling.__doc__,
        },
    }


def sorted_features():
    """Queries before and after DeepSeek-V3's rotation, and the angles of the pairs."""
    torch.manual_seed(0)
    query = torch.randn(1, 1, 6, 8)
    angle = torch.arange(6.0)[:, None] * 10_000.0 ** (-torch.arange(0, 8, 2) / 8)
    cos, sin = (torch.cat((f, f), -1)[None] for f in (angle.cos(), angle.sin()))
    rotated, _ = deepseek_v3.apply_rotary_pos_emb_interleave(query, query, cos, sin)
    return {"before": query[0, 0].tolist(), "after": rotated[0, 0].tolist()}


def cosines():
    """Llama's cosines of all pairs of 128 features at a position of a million."""
    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )
    position = 2**20 - 1
    cos, _ = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.tensor([[position]]))
    return {"position": position, "cosines": cos[0, 0, :64].tolist()}


def _raise_mask(module, args, kwargs):
    raise Recorded(kwargs["attention_mask"][0, :, -1, -16:])


def alibi_biases():
    """Biases of the last 16 of 2048 keys for the last query, in each head of Falcon."""
    config = FalconConfig(
        hidden_size=32 * 64,
        num_attention_heads=32,
        num_hidden_layers=1,
        vocab_size=8,
        alibi=True,
        attn_implementation="eager",
    )
    model = FalconModel(config)
    model.h[0].register_forward_pre_hook(_raise_mask, with_kwargs=True)
    try:
        with torch.no_grad():
            model(torch.zeros(1, 2048, dtype=torch.long))
    except Recorded as recorded:
        (biases,) = recorded.args
    return {"d": 64, "biases": biases.tolist()}


def rows_read(kind, tokens, **sizes):
    """The row that DeBERTa's code reads for each query and key, by ones and indices."""
    config = DebertaV2Config(
        hidden_size=1,
        num_attention_heads=1,
        relative_attention=True,
        pos_att_type=[kind],
        **sizes,
    )
    attention = deberta_v2.DisentangledSelfAttention(config)
    for projection in attention.children():
        if isinstance(projection, torch.nn.Linear):
            torch.nn.init.ones_(projection.weight)
            torch.nn.init.zeros_(projection.bias)
    one = torch.ones(1, tokens, 1)
    index = torch.arange(2.0 * attention.pos_ebd_size)[:, None]
    with torch.no_grad():
        found = attention.disentangled_attention_bias(one, one, None, index, 1)
    return found[0].round().int()


def deberta_rows():
    """Rows of offsets on the logarithmic scale, and of the keys' term without it."""
    middle = max(FAR)
    scale = {"position_buckets": 256, "max_relative_positions": 512}
    rows = rows_read("c2p", 2 * middle + 1, **scale)[middle]
    few = rows_read("p2c", 6, position_buckets=-1, max_relative_positions=4)
    return {
        "offsets": FAR,
        "rows": [rows[middle - offset].item() for offset in FAR],
        "span_4_rows_of_queries": few.tolist(),
    }


def first_rows():
    """Rows of three tokens in tables, and how many rows OPT has for 2048 positions."""
    opt = OPTLearnedPositionalEmbedding(2048, 1)
    torch.nn.init.zeros_(opt.weight)
    opt.weight.data[:, 0] = torch.arange(len(opt.weight))
    ids = torch.tensor([[7, 8, 9]])
    read = opt(torch.ones(1, 3, dtype=torch.long)).flatten()
    roberta = RobertaEmbeddings.create_position_ids_from_input_ids(ids, 1)
    return {
        "opt": {"rows": len(opt.weight), "read": [int(row) for row in read]},
        "roberta": {"read": roberta.flatten().tolist()},
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
        "temperatures": temperatures(),
        "deepseek_v3": sorted_features(),
        "llama": cosines(),
        "falcon": alibi_biases(),
        "deberta_v2": deberta_rows(),
        "first_rows": first_rows(),
    }
    text = json.dumps(data, indent=1)
    (HERE / "model-code.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
