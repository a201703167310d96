"""Small models with one planted mistake each, for the tests of the diagnosis."""

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
    "rope_theta": 500_000.0,
    "rope_interleave": False,
}


class Attention(nn.Module):
    """Causal attention with a rotation that can be wrong in one way."""

    def __init__(
        self,
        heads=2,
        d=32,
        *,
        base=500_000.0,
        layout="half",
        width=None,
        sense=1,
        attention_factor=1.0,
        cast="",
        rotates=True,
        keys=True,
        permuted=False,
        product=False,
        cache_shift=0,
        doubled=1.0,
        unrotated=0,
    ):
        super().__init__()
        self.heads, self.d, self.sense, self.attention_factor = (
            heads,
            d,
            sense,
            attention_factor,
        )
        self.cast, self.rotates, self.keys = cast, rotates, keys
        self.permuted, self.product, self.cache_shift = permuted, product, cache_shift
        width = width or d
        self.project = nn.Linear(heads * d, 3 * heads * d)
        self.out = nn.Linear(heads * d, heads * d)
        nn.init.normal_(self.project.weight, std=(heads * d) ** -0.5)
        columns = torch.arange(width)
        pairs = columns.view(2, -1) if layout == "half" else columns.view(-1, 2).T
        self.first, self.second = pairs
        omega = doubled * base ** (-torch.arange(0, width, 2).double() / width)
        omega[len(omega) - unrotated :] = 0
        omega = omega.bfloat16().float() if cast == "frequencies" else omega.float()
        self.register_buffer("omega", omega, persistent=False)

    def rotate(self, x, positions):
        if not self.rotates:
            return x
        at = positions.bfloat16() if self.cast == "positions" else positions
        angle = self.sense * at[:, None, :, None].float() * self.omega
        cos, sin = (
            self.attention_factor * angle.cos(),
            self.attention_factor * angle.sin(),
        )
        if self.cast == "table":
            cos, sin = cos.bfloat16().float(), sin.bfloat16().float()
        a, b = x[..., self.first], x[..., self.second]
        y = x.clone()
        y[..., self.first] = (a * cos - b * sin).to(x.dtype)
        y[..., self.second] = (a * sin + b * cos).to(x.dtype)
        if self.permuted:
            order = torch.cat([self.first, self.second])
            y = torch.cat([y[..., order], y[..., len(order) :]], -1)
        return y

    def forward(self, x, positions, mask, cache):
        rows, tokens, _ = x.shape
        qkv = self.project(x).view(rows, tokens, 3, self.heads, self.d)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q = self.rotate(q, positions)
        k = self.rotate(k, positions) if self.keys else k
        if cache is not None:
            k, v = (torch.cat(pair, 2) for pair in zip(cache, (k, v), strict=True))
        visible = torch.ones(tokens, k.shape[2], dtype=bool).tril(k.shape[2] - tokens)
        visible = visible & mask[:, None, None, :] if mask is not None else visible
        visible = visible | torch.eye(k.shape[2], dtype=bool)[-tokens:]
        if self.product:
            scores = torch.matmul(q, k.transpose(-1, -2)) / self.d**0.5
            y = scores.masked_fill(~visible, -torch.inf).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.out(y.transpose(1, 2).flatten(2)), (k, v)


class Output(dict):
    """An output with access by key and by attribute, as in libraries."""

    __getattr__ = dict.__getitem__


class Tiny(nn.Module):
    """A model of embeddings and two layers of :class:`Attention`."""

    def __init__(self, *, config=None, added=False, ids=True, layers=None, **options):
        super().__init__()
        torch.manual_seed(0)
        self.config, self.ids = config, ids
        heads, d = options.get("heads", 2), options.get("d", 32)
        self.embed = nn.Embedding(97, heads * d)
        self.table = nn.Embedding(64, heads * d) if added else None
        layers = layers or [{}, {}]
        self.layers = nn.ModuleList(Attention(**(options | own)) for own in layers)

    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        use_cache=False,
    ):
        start = past_key_values[0][0].shape[2] if past_key_values else 0
        if position_ids is None:
            cache_shift = self.layers[0].cache_shift if start else 0
            count = torch.arange(input_ids.shape[1]) + start + cache_shift
            position_ids = count.expand(*input_ids.shape)
        x = self.embed(input_ids)
        if self.table is not None:
            x = x + self.table(position_ids)
        mask = None if attention_mask is None else attention_mask.bool()
        caches = past_key_values or [None] * len(self.layers)
        new_caches = []
        for layer, cache in zip(self.layers, caches, strict=True):
            y, cached = layer(x, position_ids, mask, cache)
            x, new_caches = x + y, [*new_caches, cached]
        return Output(logits=x, past_key_values=new_caches)


class Configuration:
    """A configuration with the parts of transformers' that the tests need."""

    def __init__(self, **more):
        vars(self).update(more)

    def to_dict(self):
        return vars(self)


def names(diagnosis):
    return [f.name for f in diagnosis.faults]
