"""Write the outputs of transformers' recurrent layers, for small random weights.

It needs transformers, which is not among the requirements::

    PYTHONPATH=FOLDER:tests python tests/oracles/recurrent_layers.py

where FOLDER has been filled by ``pip install --target FOLDER transformers``. The layers
run on a CPU, by their own implementations in PyTorch, in float32. The result,
``tests/oracles/recurrent-layers.json``, holds for each class the weights by the names
of our layer, the input, and the output.
"""

import json

import torch
import transformers
from transformers import AutoConfig
from transformers.models.kimi_linear.modeling_kimi_linear import (
    KimiLinearDeltaAttention,
)
from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention
from transformers.models.olmo_hybrid.modeling_olmo_hybrid import (
    OlmoHybridGatedDeltaNet,
)
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

from support import ROOT

OUT = ROOT / "tests/oracles/recurrent-layers.json"
D_MODEL, TOKENS = 8, 70  # more than a chunk


def config(name, **options):
    return AutoConfig.for_model(name, hidden_size=D_MODEL, **options)


def interleaved(weight, sizes, groups):
    """The parts of a projection whose rows are sorted by group, each part together."""
    rows = weight.view(groups, -1, weight.shape[1])
    return [part.flatten(0, 1) for part in rows.split(sizes, 1)]


def of_gates(layer, gate_weight, beta_weight):
    return {
        "encoding.gate_weight": gate_weight,
        "encoding.gate_bias": layer.dt_bias,
        "encoding.gate_rate": layer.A_log,
        "encoding.beta_weight": beta_weight,
    }


def qwen3_next():
    sizes = dict(num_hidden_layers=2, linear_num_key_heads=2, linear_num_value_heads=4)
    sizes |= dict(linear_key_head_dim=4, linear_value_head_dim=6)
    layer = drawn(Qwen3NextGatedDeltaNet(config("qwen3_next", **sizes), 0))
    q, k, v, z = interleaved(layer.in_proj_qkvz.weight, [4, 4, 12, 12], 2)
    b, a = interleaved(layer.in_proj_ba.weight, [2, 2], 2)
    return layer, {
        "q.weight": q,
        "k.weight": k,
        "v.weight": v,
        "gate.weight": z,
        "taps": layer.conv1d.weight[:, 0],
        "gain": layer.norm.weight,
        "o.weight": layer.out_proj.weight,
    } | of_gates(layer, a, b)


def olmo_hybrid():
    sizes = dict(num_hidden_layers=2, linear_num_key_heads=2, linear_num_value_heads=2)
    sizes |= dict(linear_key_head_dim=4, linear_value_head_dim=6)
    sizes |= dict(linear_allow_neg_eigval=True)
    layer = drawn(OlmoHybridGatedDeltaNet(config("olmo_hybrid", **sizes), 0))
    return layer, {
        "q.weight": layer.q_proj.weight,
        "k.weight": layer.k_proj.weight,
        "v.weight": layer.v_proj.weight,
        "gate.weight": layer.g_proj.weight,
        "taps": layer.conv1d.weight[:, 0],
        "gain": layer.o_norm.weight,
        "o.weight": layer.o_proj.weight,
    } | of_gates(layer, layer.a_proj.weight, layer.b_proj.weight)


def kimi_linear():
    sizes = dict(num_hidden_layers=2, linear_num_heads=2, linear_head_dim=4)
    layer = drawn(KimiLinearDeltaAttention(config("kimi_linear", **sizes), 0))
    gate = layer.forget_gate
    return layer, {
        "q.weight": layer.q_proj.weight,
        "k.weight": layer.k_proj.weight,
        "v.weight": layer.v_proj.weight,
        "gate.0.weight": layer.g_a_proj.weight,
        "gate.1.weight": layer.g_b_proj.weight,
        "taps": layer.conv1d.weight[:, 0],
        "gain": layer.o_norm.weight,
        "o.weight": layer.o_proj.weight,
        "encoding.beta_weight": layer.b_proj.weight,
        "encoding.gate_down": gate.f_a_proj.weight,
        "encoding.gate_up": gate.f_b_proj.weight.unflatten(0, (2, 4)),
        "encoding.gate_bias": gate.dt_bias.view(2, 4),
        "encoding.gate_rate": gate.A_log.flatten(),
    }


def mamba2():
    sizes = dict(num_hidden_layers=2, num_heads=4, head_dim=4, state_size=6)
    sizes |= dict(n_groups=2, expand=2)
    layer = drawn(Mamba2Mixer(config("mamba2", **sizes), 0))
    gate, v, k, q, steps = layer.in_proj.weight.split((16, 16, 12, 12, 4))
    taps, tap_bias = (
        torch.cat([t.split((16, 12, 12))[n] for n in (2, 1, 0)])
        for t in (layer.conv1d.weight[:, 0], layer.conv1d.bias)
    )
    return layer, {
        "q.weight": q,
        "k.weight": k,
        "v.weight": v,
        "gate.weight": gate,
        "taps": taps,
        "tap_bias": tap_bias,
        "gain": layer.norm.weight,
        "o.weight": layer.out_proj.weight,
        "encoding.gate_weight": steps,
        "encoding.gate_bias": layer.dt_bias,
        "encoding.gate_rate": layer.A_log,
        "encoding.skip": layer.D,
    }


def minimax():
    sizes = dict(num_hidden_layers=4, num_attention_heads=2, head_dim=4, block_size=16)
    layer = drawn(MiniMaxLightningAttention(config("minimax", **sizes), 1))
    q, k, v = interleaved(layer.qkv_proj.weight, [4, 4, 4], 2)
    return layer, {
        "q.weight": q,
        "k.weight": k,
        "v.weight": v,
        "gate.weight": layer.output_gate.weight,
        "gain": layer.norm.weight,
        "o.weight": layer.out_proj.weight,
    }


def lfm2():
    sizes = dict(num_hidden_layers=2, layer_types=["conv", "full_attention"])
    layer = drawn(Lfm2ShortConv(config("lfm2", **sizes, conv_L_cache=3), 0))
    k, q, v = layer.in_proj.weight.chunk(3)
    return layer, {
        "q.weight": q,
        "k.weight": k,
        "v.weight": v,
        "encoding.taps": layer.conv.weight[:, 0],
        "o.weight": layer.out_proj.weight,
    }


def drawn(layer):
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_(0, 0.7 * p.shape[-1] ** -0.5 if p.ndim > 1 else 0.7)
    return layer.eval()


def numbers(t):
    """The numbers of a float32 tensor as nested lists, with all their digits."""
    if t.ndim:
        return [numbers(row) for row in t]
    return float(f"{t.item():.9g}")


def main():
    found = {"transformers": transformers.__version__, "torch": torch.__version__}
    for make in (qwen3_next, olmo_hybrid, kimi_linear, mamba2, minimax, lfm2):
        torch.manual_seed(0)
        layer, weights = make()
        x = torch.randn(1, TOKENS, D_MODEL)
        given = {"position_embeddings": None, "attention_mask": None}
        options = given if make is minimax else {}
        with torch.no_grad():
            out = layer(x, **options)
        out = out[0] if isinstance(out, tuple) else out
        found[make.__name__] = {
            "class": type(layer).__name__,
            "weights": {n: numbers(t) for n, t in weights.items()},
            "x": numbers(x),
            "out": numbers(out),
        }
    text = json.dumps(found)
    OUT.write_text(text + "\n", encoding="utf-8")
    print(OUT.relative_to(ROOT), len(text))


if __name__ == "__main__":
    main()
