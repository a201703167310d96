"""Hybrid models as shipped: their layers, and the numbers that each kind caches."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from posedu._argument_types import check_types
from posedu.tools import read_rope
from posedu.tools.configs.mixers import Mixers
from posedu.tools.configs.rotary_config import Reading


@check_types
@dataclass(frozen=True)
class Hybrid:
    """A hybrid model's configuration, and what its layers cache.

    Parameters
    ----------
    name
        The model's name, or that of its family.
    origin
        ``"published"``, or ``"class default"``: what the family's class in transformers
        fills into an empty configuration, which need not be any published model's.
    config
        The configuration of the text model, without what changes no layer's kind, no
        rotation and no size of a cache.
    """

    name: str
    origin: str
    config: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name, with a star if the configuration is a class's default."""
        return self.name + "*" * (self.origin == "class default")

    @cached_property
    def reading(self) -> Reading:
        """Reading of the configuration by :func:`posedu.tools.read_rope`."""
        return read_rope(self.config)

    @property
    def mixers(self) -> Mixers:
        """The mixers of the layers."""
        assert self.reading.mixers is not None
        return self.reading.mixers

    @property
    def position(self) -> str:
        """Position of the attention layers: "NoPE", or rotated features and base."""
        ropes = [rope for rope in self.reading.kinds.values() if rope]
        texts = []
        for rope in ropes:
            rotated = 2 * int((rope.frequencies() != 0).sum())
            texts.append(f"RoPE {rotated} of {rope.head_dim}, {rope.base:.0e}")
        text = "; ".join(dict.fromkeys(texts)) or "NoPE"
        return text.replace("e+0", "e")

    @property
    def per_token(self) -> int:
        """Numbers that an attention layer caches for a token."""
        own = self.config
        if "kv_lora_rank" in own:
            return own["kv_lora_rank"] + own["qk_rope_head_dim"]
        head = own.get("head_dim") or own.get("attention_head_dim")
        head = head or own["hidden_size"] // own["num_attention_heads"]
        return 2 * own["num_key_value_heads"] * head

    @property
    def state(self) -> int:
        """Numbers in the state of a recurrent layer, whatever the text's length."""
        _, k, v, heads = self._sizes
        return heads * k * v

    @property
    def history(self) -> int:
        """Numbers that the convolution of a recurrent layer keeps of earlier tokens."""
        if self.mixers.recurrence == "lightning" or not self.mixers.convolution:
            return 0
        return self._sizes[0] * (self.mixers.convolution - 1)

    @property
    def _sizes(self) -> tuple[int, int, int, int]:
        """Channels of the convolution; K, V and the number of heads of the state."""
        own, inner = self.config, self.config.get("linear_attn_config", {})
        match self.mixers.recurrence:
            case "gated-delta-net":
                k, v = own["linear_key_head_dim"], own["linear_value_head_dim"]
                groups, heads = (
                    own["linear_num_key_heads"],
                    own["linear_num_value_heads"],
                )
                return 2 * groups * k + heads * v, k, v, heads
            case "kda":
                heads = inner.get("num_heads") or own["linear_num_heads"]
                k = inner.get("head_dim") or own["linear_head_dim"]
                return 3 * heads * k, k, k, heads
            case "mamba-2":
                heads, v, k, groups = (
                    next(own[name] for name in names if name in own)
                    for names in (
                        ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads"),
                        ("mamba_head_dim", "mamba_d_head", "mamba_headdim"),
                        ("ssm_state_size", "mamba_d_state"),
                        ("n_groups", "mamba_n_groups", "mamba_ngroups"),
                    )
                )
                return heads * v + 2 * groups * k, k, v, heads
            case "mamba":
                inside = own["mamba_expand"] * own["hidden_size"]
                return inside, own["mamba_d_state"], 1, inside
            case "lightning":
                heads = own["num_attention_heads"]
                k = own["hidden_size"] // heads
                return 0, k, k, heads
            case "rg-lru":
                return own["lru_width"], 1, 1, own["lru_width"]
        return own["hidden_size"], 0, 0, 0

    def cached(self, tokens: int) -> tuple[int, int]:
        """Return the numbers that all recurrent and all attention layers cache.

        ``tokens`` is the length of the text; a window keeps fewer keys, which is not
        counted here.
        """
        fixed = len(self.mixers.recurrent) * (self.state + self.history)
        return fixed, len(self.mixers.attention) * self.per_token * tokens


def load_hybrids() -> tuple[Hybrid, ...]:
    """Return the hybrid models that are stored, by name.

    ``tests/oracles/hybrids.py`` wrote them.
    """
    text = files("posedu.book").joinpath("hybrids.json").read_text("utf-8")
    return tuple(Hybrid(**row) for row in json.loads(text)["models"])
