"""Rotations whose angles are sums over the tokens, computed from the layer's input."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import Layout, require_choice, require_dimension
from posedu.torch._tensors import cos_sin
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.rotary.rotation import rotate_pairs


class PathRotation(Encoding):
    """Base class of rotations by angles that each token adds to, by what it says.

    Queries and keys of token t are rotated by ``angles``, which sum numbers of the
    tokens up to t: the score of a query and a key depends on the tokens between them
    (``thm-path-telescope``). Positions are not used. The cache holds keys as they were
    projected, and each token's numbers.

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    d
        Head dimension, even.
    layout
        ``"interleaved"`` or ``"half"``, where the two features of a pair are.
    """

    needs_causal = needs_x = True
    needs_positions = False
    heads: int
    d: int
    d_model: int

    def __init__(self, d_model: int, heads: int, d: int, *, layout: Layout):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d)
        self.layout = require_choice("layout", layout, Layout)

    def angles(self, tokens: Tokens) -> Float[Tensor, "batch heads keys pairs"]:
        """Return the rotation angle of every token, head and pair, in float64."""
        raise NotImplementedError

    def transport(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch heads queries d"], Float[Tensor, "batch key_heads keys d"]
    ]:
        """Rotate queries and keys, each by the sum of the tokens up to its own.

        Each query head rotates the keys in its own way, unless all angles are alike.
        """
        angles = self.angles(tokens)
        first = tokens.keys - tokens.q.shape[2]
        return self.rotated(tokens, angles[:, :, first:], angles)

    def rotated(
        self,
        tokens: Tokens,
        of_queries: Float[Tensor, "batch angle_heads queries pairs"],
        of_keys: Float[Tensor, "batch angle_heads keys pairs"],
    ) -> tuple[
        Float[Tensor, "batch heads queries d"], Float[Tensor, "batch key_heads keys d"]
    ]:
        """Return queries and keys, rotated by float64 angles of each head or of all."""
        dtype = torch.promote_types(tokens.q.dtype, torch.float32)
        k = tokens.grouped_k if of_keys.shape[1] == 1 else tokens.k
        return (
            rotate_pairs(tokens.q, *cos_sin(of_queries, dtype), layout=self.layout),
            rotate_pairs(k, *cos_sin(of_keys, dtype), layout=self.layout),
        )

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d_model}, {self.heads}, {self.d}, layout={self.layout!r}"
