"""The doors through which an encoding acts on attention, all shut by default."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from posedu.torch._tensors import Positions


@dataclass(frozen=True)
class Tokens:
    """What a bias may look at.

    ``x`` are the layer's new input vectors; ``k`` and ``key_positions`` include what
    a cache remembers, as does ``memory``: what the encoding's own ``remember`` made of
    each token. ``mask`` says which key a query may look at, where more than causality
    limits it.
    """

    x: Float[Tensor, "batch queries d_model"] | None
    q: Float[Tensor, "batch heads queries d"]
    k: Float[Tensor, "batch heads keys d"]
    query_positions: (
        Shaped[Tensor, "*rows queries"] | Shaped[Tensor, "*rows queries axes"]
    )
    key_positions: Shaped[Tensor, "*rows keys"] | Shaped[Tensor, "*rows keys axes"]
    memory: Shaped[Tensor, "batch keys *features"] | None = None
    mask: Bool[Tensor, "#batch 1 queries keys"] | None = None


def softmax(
    logits: Float[Tensor, "batch heads queries keys"],
    mask: Bool[Tensor, "#batch #heads queries keys"] | None,
) -> Float[Tensor, "batch heads queries keys"]:
    """Weights proportional to exp(logit) over the keys that ``mask`` allows.

    A row with no allowed key gets zeros. Equation ``def-softmax``.
    """
    if mask is None:
        return logits.softmax(-1)
    weights = logits.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


class Encoding(nn.Module):
    """A positional encoding: a module that overrides the doors it opens.

    With nothing overridden it is no encoding at all (NoPE). ``axes`` says how many
    coordinates a position has: ``None`` where it is one number, else positions are
    ``[tokens, axes]`` or ``[batch, tokens, axes]``.
    """

    axes: int | None = None

    def embed(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the input vectors."""
        return x

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"], Float[Tensor, "batch kv_heads tokens d"]
    ]:
        """Change queries and keys, each by its own position."""
        return q, k

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Shaped[Tensor, "batch tokens *features"] | None:
        """What later queries will want to know of these tokens, besides k and v."""
        return None

    def bias(self, tokens: Tokens) -> Float[Tensor, "..."] | None:
        """A term to add to the scaled logits, or ``None``."""
        return None

    def score_mod(self, tokens: Tokens):
        """The bias as a FlexAttention ``score_mod``, or ``None`` to use ``bias``."""
        return None

    def weigh(
        self,
        logits: Float[Tensor, "batch heads queries keys"],
        mask: Bool[Tensor, "#batch #heads queries keys"] | None,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Turn logits into weights."""
        return softmax(logits, mask)

    def mix(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        v: Float[Tensor, "batch heads keys d"],
    ) -> Float[Tensor, "batch heads queries d"]:
        """Combine the values by the weights."""
        return weights @ v

    def attend(
        self,
        tokens: Tokens,
        v: Float[Tensor, "batch heads keys d"],
        key_padding_mask: Bool[Tensor, "batch keys"] | None,
    ) -> Float[Tensor, "batch heads queries d"]:
        """Attend causally by a kernel of the encoding's own, for the route "fused"."""
        raise NotImplementedError

    def forward(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        v: Float[Tensor, "batch kv_heads tokens d"],
        x: Float[Tensor, "batch tokens d_model"] | None = None,
    ) -> Float[Tensor, "batch heads tokens d"]:
        """Attend causally, in the open, with what the encoding does inside attention.

        ``x`` is the layer's input, for encodings that look at it. Encodings that act
        on features alone do that instead.
        """
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        positions = torch.arange(q.shape[2], device=q.device)
        memory = None if x is None else self.remember(x)
        tokens = Tokens(x, q, k, positions, positions, memory)
        keys = k.shape[2]
        mask = torch.ones(1, 1, keys, keys, dtype=torch.bool, device=q.device).tril()
        return self.attend_openly(tokens, v, mask)

    def attend_openly(
        self,
        tokens: Tokens,
        v: Float[Tensor, "batch heads keys d"],
        mask: Bool[Tensor, "#batch #heads queries keys"] | None,
    ) -> Float[Tensor, "batch heads queries d"]:
        """Logits, bias, weights, mixture: every step in the open."""
        logits = tokens.q @ tokens.k.mT / tokens.q.shape[-1] ** 0.5
        bias = self.bias(tokens)
        if bias is not None:
            logits = logits + bias
        return self.mix(self.weigh(logits, mask).to(v.dtype), v)

    def opens(self, door: str) -> bool:
        """Whether this encoding overrides the named door."""
        return getattr(type(self), door) is not getattr(Encoding, door)
