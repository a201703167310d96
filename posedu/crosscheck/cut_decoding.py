"""Decoding over a cache that is cut over ranks, held against one device."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posedu.catalog import EncodingRecord, Variant
from posedu.crosscheck.many_devices import BATCH, SEED, model_of, positions_of
from posedu.torch import Attention, KVCache, StateCache, Transformer
from posedu.torch._cut import current_cut, in_force
from posedu.torch.parallel import TextCut

STEPS = 1, 2, 1, 3, 1
"""New tokens of each call after the first one."""


class Decoding:
    """A model with a configuration of an encoding, a prompt and tokens after it.

    ``tokens`` is the number of the prompt's tokens. With ``padded`` the second text of
    the batch is shorter, with padding on its left. Models are in float64.
    """

    def __init__(
        self, entry: EncodingRecord, variant: Variant, tokens: int, *, padded: bool
    ):
        self.model: nn.Module = model_of(entry, variant).eval()
        self.tokens = tokens
        total = tokens + sum(STEPS)
        generator = torch.Generator().manual_seed(SEED)
        shape = BATCH, total, self.model.d_model
        self.x = torch.randn(shape, generator=generator, dtype=torch.float64)
        self.positions = positions_of(entry, total, generator)
        self.padding = None
        if padded:
            self.padding = torch.zeros(BATCH, total, dtype=torch.bool)
            self.padding[1, : tokens // 3 + 1] = True
        with torch.no_grad():
            self.out = self._outputs()

    def on_rank(self, cut: TextCut) -> float:
        """Return the largest error on this rank, in units of the largest number."""
        with torch.no_grad(), in_force(cut):
            out = self._outputs()
        if not out.isfinite().all():
            return float("inf")
        return float((out - self.out).abs().max() / self.out.abs().max().clamp(min=1.0))

    def _outputs(self) -> Tensor:
        """Return the outputs of the prompt and of the later tokens, 0 at padding."""
        cut, given = current_cut(), caches_of(self.model)
        stop = self.tokens
        prompt = self._arguments(0, stop)
        if cut is not None:
            axes = {"positions": 0}
            prompt = {n: cut.own(t, axes.get(n, 1)) for n, t in prompt.items()}
        out = self.model(**prompt, **given)
        outputs = [out if cut is None else cut.whole(out, 1)]
        for new in STEPS:
            start, stop = stop, stop + new
            outputs.append(self.model(**self._arguments(start, stop), **given))
        out = torch.cat(outputs, 1)
        if self.padding is None:
            return out
        return out.masked_fill(self.padding[..., None], 0.0)

    def _arguments(self, start: int, stop: int) -> dict[str, Tensor]:
        given = {"x": self.x[:, start:stop]}
        if self.positions is not None:
            given["positions"] = self.positions[start:stop]
        if self.padding is not None:
            given["key_padding_mask"] = self.padding[:, :stop]
        return given


def caches_of(model: nn.Module) -> dict[str, KVCache | list[KVCache]]:
    """Return empty caches of a layer or a model, as the argument that takes them."""
    if isinstance(model, Transformer):
        return {"caches": model.caches()}
    assert isinstance(model, Attention)
    if model.encoding.uses("carry"):
        return {"cache": StateCache()}
    cut = current_cut()
    return {"cache": KVCache() if cut is None else cut.cache(None)}
