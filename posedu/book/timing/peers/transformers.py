"""Attention modules of the library transformers, with parameters of posedu's encodings.

Each function takes posedu's encoding module and the tokens, which hold queries, keys
and values. It returns functions without arguments that call an attention module of the
library, in a dict by the name of the attention kernel in transformers: ``"sdpa"`` or
``"eager"``. The module's projections are replaced, so that they return the given
queries, keys and values. Everything that the library makes once for all layers is made
beforehand.
"""

from typing import Any

import torch
from torch import Tensor, nn

from posedu.book.timing.clock import Run
from posedu.torch import T5, ALiBi, DeBERTa, Inkling, Shaw, TransformerXL
from posedu.torch.encoding import Tokens

KERNELS = ("sdpa", "eager")  # the library's own names, its default first


class Given(nn.Module):
    """Module in place of a projection in a library's attention; returns ``tensor``."""

    def __init__(self, tensor: Tensor):
        super().__init__()
        self.tensor = tensor

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        """Return the stored tensor, whatever the inputs are."""
        return self.tensor


def bloom(encoding: ALiBi, tokens: Tokens) -> dict[str, Run]:
    """Return a function that computes BLOOM's attention with ``encoding``'s slopes.

    It is the only value of a dict, under the name of transformers' attention kernel,
    ``"eager"``. ``tokens`` has the queries, keys and values. The ALiBi tensor is made
    beforehand. BLOOM's attention also adds a residual, here zeros.
    """
    from transformers import BloomConfig
    from transformers.models.bloom import modeling_bloom as library

    flat = _flat(tokens.q)
    heads = tokens.q.shape[1]
    config = BloomConfig(hidden_size=flat.shape[-1], n_head=heads)
    attention = library.BloomAttention(config, layer_idx=0).eval()
    stacked = torch.stack((tokens.q, tokens.k, tokens.v), -2)
    attention.query_key_value, attention.dense = Given(_flat(stacked)), nn.Identity()
    whole = torch.ones(flat.shape[:2], device=flat.device)
    alibi = library.build_alibi_tensor(whole, heads, flat.dtype)
    mask, residual = _causal(config, flat, "eager"), torch.zeros_like(flat)
    return {"eager": lambda: _by_head(attention(flat, residual, alibi, mask)[0], heads)}


def t5(encoding: T5, tokens: Tokens) -> dict[str, Run]:
    """Return functions that compute T5's decoder attention with ``encoding``'s table.

    They are in a dict under the names of transformers' attention kernels, ``"sdpa"``
    and ``"eager"``. ``tokens`` has the queries, keys and values. The bias is made
    beforehand, because T5 itself makes it in the first layer only and shares it with
    later layers.
    """
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    flat, heads = _flat(tokens.q), tokens.q.shape[1]
    table = nn.Parameter(encoding.table.mT.contiguous())

    def run_with(kernel: str) -> Run:
        config = T5Config(
            d_model=flat.shape[-1],
            d_kv=tokens.d,
            num_heads=heads,
            relative_attention_num_buckets=encoding.buckets,
            relative_attention_max_distance=encoding.distance,
            is_decoder=True,
            attn_implementation=kernel,
        )
        attention = T5Attention(config, True, layer_idx=0, is_causal=True).eval()
        attention.relative_attention_bias.weight = table
        attention.q, attention.k, attention.v = map(Given, _all_flat(tokens))
        attention.o = nn.Identity()
        bias = attention.compute_bias(*flat.shape[1:2] * 2, device=flat.device)
        mask = _causal(config, flat, kernel)
        return lambda: _by_head(attention(flat, mask, position_bias=bias)[0], heads)

    return {kernel: run_with(kernel) for kernel in KERNELS}


def wav2vec2_bert(encoding: Shaw, tokens: Tokens) -> dict[str, Run]:
    """Return functions that compute wav2vec2-BERT's attention with Shaw's vectors.

    They are in a dict under the names of transformers' attention kernels, ``"sdpa"``
    and ``"eager"``. ``tokens`` has the queries, keys and values. The relative vectors
    for keys are the vectors of ``encoding``; wav2vec2-BERT has no relative vectors for
    values.
    """
    from transformers import Wav2Vec2BertConfig
    from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as library

    flat, heads = _flat(tokens.q), tokens.q.shape[1]

    def run_with(kernel: str) -> Run:
        config = Wav2Vec2BertConfig(
            hidden_size=flat.shape[-1],
            num_attention_heads=heads,
            position_embeddings_type="relative_key",
            left_max_position_embeddings=encoding.past,
            right_max_position_embeddings=encoding.future,
            attn_implementation=kernel,
        )
        attention = library.Wav2Vec2BertSelfAttention(config).eval()
        attention.distance_embedding.weight = encoding.key_table
        attention.linear_q, attention.linear_k, attention.linear_v = map(
            Given, _all_flat(tokens)
        )
        attention.linear_out = nn.Identity()
        return lambda: _by_head(attention(flat)[0], heads)

    return {kernel: run_with(kernel) for kernel in KERNELS}


def xlnet(encoding: TransformerXL, tokens: Tokens) -> dict[str, Run]:
    """Return a function that computes XLNet's bidirectional attention.

    It is the only value of a dict, under the name of transformers' attention kernel,
    ``"eager"``, and has the parameters of ``encoding``. ``tokens`` has the queries,
    keys and values. The sinusoids are made beforehand, their projection W_R r in every
    call.
    """
    from transformers import XLNetConfig, XLNetModel

    heads, length, d = tokens.q.shape[1:]
    sizes = {"d_model": heads * d, "n_head": heads, "d_inner": 1, "vocab_size": 8}
    model = XLNetModel(XLNetConfig(**sizes, n_layer=1, attn_type="bi")).eval()
    waves = model.relative_positional_encoding(length, length, 1, tokens.q.device)
    waves = waves.to(tokens.q)
    attention = model.layer[0].rel_attn
    attention.r_w_bias = encoding.global_content
    attention.r_r_bias = encoding.global_position
    attention.r = nn.Parameter(encoding.position.weight.mT.unflatten(-1, (heads, d)))
    q, k, v = (
        t.permute(2, 0, 1, 3).contiguous() for t in (tokens.q, tokens.k, tokens.v)
    )

    def run() -> Tensor:
        distances = torch.einsum("ibh,hnd->ibnd", waves, attention.r)
        return attention.rel_attn_core(q, k, v, distances).permute(1, 2, 0, 3)

    return {"eager": run}


def deberta_v2(encoding: DeBERTa, tokens: Tokens) -> dict[str, Run]:
    """Return a function that computes DeBERTa-v2's attention.

    It is the only value of a dict, under the name of transformers' attention kernel,
    ``"eager"``, and has the parameters of ``encoding``. ``tokens`` has the queries,
    keys and values. Queries and keys have separate projections of the table of position
    vectors. The table and the row index of each offset are made beforehand.
    """
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2 import modeling_deberta_v2 as library

    flat, heads = _flat(tokens.q), tokens.q.shape[1]
    config = DebertaV2Config(
        hidden_size=flat.shape[-1],
        num_attention_heads=heads,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=encoding.span,
        max_relative_positions=encoding.distance,
        share_att_key=False,
    )
    attention = library.DisentangledSelfAttention(config).eval().to(flat)
    attention.query_proj, attention.key_proj, attention.value_proj = map(
        Given, _all_flat(tokens)
    )
    attention.pos_query_proj = encoding.query
    attention.pos_key_proj = encoding.key
    rows = library.build_relative_position(
        tokens.q,
        tokens.k,
        bucket_size=encoding.span,
        max_position=encoding.distance,
    )
    mask = torch.ones(1, 1, *flat.shape[1:2] * 2, dtype=torch.bool, device=flat.device)
    options = {"relative_pos": rows, "rel_embeddings": encoding.table}
    return {"eager": lambda: _by_head(attention(flat, mask, **options)[0], heads)}


def inkling(encoding: Inkling, tokens: Tokens) -> dict[str, Run]:
    """Return functions that compute Inkling's global attention.

    They are in a dict under the names of transformers' attention kernels, ``"sdpa"``
    and ``"eager"``, and have the parameters of ``encoding``. ``tokens`` has the
    queries, keys and values. Norms and convolutions are left out.
    """
    from transformers.models.inkling import InklingTextConfig
    from transformers.models.inkling.modeling_inkling import InklingAttention

    x, heads = tokens.x, tokens.q.shape[1]

    def run_with(kernel: str) -> Run:
        config = InklingTextConfig(
            hidden_size=encoding.d_model,
            num_hidden_layers=1,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=tokens.d,
            d_rel=encoding.d_rel,
            rel_extent=encoding.past + 1,
            layer_types=["hybrid"],
            attn_implementation=kernel,
        )
        attention = InklingAttention(config, layer_idx=0).eval()
        attention.q_proj, attention.k_sconv, attention.v_sconv = map(
            Given, _all_flat(tokens)
        )
        for name in ("k_proj", "v_proj", "o_proj", "q_norm", "k_norm"):
            setattr(attention, name, nn.Identity())
        attention.r_proj = encoding.r_proj
        attention.rel_logits_proj.proj = encoding.distance_basis
        mask = _causal(config, x, kernel)
        return lambda: _by_head(attention(x, mask)[0], heads)

    return {kernel: run_with(kernel) for kernel in KERNELS}


def _flat(t: Tensor) -> Tensor:
    """Reshape ``[batch, heads, tokens, d]`` to ``[batch, tokens, heads · d]``."""
    return t.transpose(1, 2).flatten(2)


def _all_flat(tokens: Tokens) -> tuple[Tensor, ...]:
    return tuple(map(_flat, (tokens.q, tokens.k, tokens.v)))


def _by_head(flat: Tensor, heads: int) -> Tensor:
    return flat.unflatten(-1, (heads, -1)).transpose(1, 2)


def _causal(config: Any, x: Tensor, kernel: str) -> Tensor | None:
    """Return a causal mask as transformers makes it, once for all layers of a model.

    ``config`` is the model's configuration in transformers, ``x`` the tokens ``[batch,
    tokens, width]``. The mask is None if the attention kernel (``"sdpa"`` or
    ``"eager"``) needs none.
    """
    from transformers.masking_utils import create_causal_mask

    config._attn_implementation = kernel
    return create_causal_mask(config, x, None, None)
