"""Geometric attention: a stick that is broken on both sides, the nearest key first."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_bool, require_dimension
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import wide_dtype
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.stickbreaking.stickbreaking import softplus
from posedu.torch.tiled_attention import by_group

_FLOOR = 1e-12  # of the sum by which weights are divided, as in the authors' code


class Geometric(Encoding):
    """Geometric attention (arXiv 2110.07732): the nearest key that matches.

    The logit of query i and key j is α (q_i + c) · k_j + D_ij + γ. Its sigmoid is the
    share that the key takes of what nearer keys on both sides leave; of two keys at
    equal distances, the later one is the nearer. A query skips its own key. D is one
    number of the query for the keys on its left, and another for its right. Positions
    are not used, and attention may be causal or not. Equation ``def-geometric``.

    Attention takes O(L²) memory for L tokens, and O(L d) for one token with a cache.
    What makes D starts uniform up to ± 1/√d_model (the authors' code).

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    d
        Head dimension.
    normalize
        Whether the weights of a query are divided by their sum, or by 1e−12 if that is
        larger (the default of the authors' code).
    direction
        Whether there is D. Default true (the authors).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, options that are not true or false.
    """

    needs_positions = False
    needs_own_key_last = True
    head_rows = (
        "product_scale",
        "logit_bias",
        "content_bias",
        "direction_weight",
        "direction_bias",
    )

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        normalize: bool,
        direction: bool = True,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d, 1)
        self.normalize = require_bool("normalize", normalize)
        self.needs_x = require_bool("direction", direction)
        self.product_scale = nn.Parameter(torch.full((1,), d**-0.5))
        self.logit_bias = nn.Parameter(torch.zeros(1))
        self.content_bias = nn.Parameter(torch.zeros(heads, d))
        self.direction_weight = self.direction_bias = None
        if direction:
            spread = d_model**-0.5  # PyTorch's for a linear map, as the authors' code
            weight = spread * (2 * torch.rand(heads, 2, d_model) - 1)
            self.direction_weight = nn.Parameter(weight)
            bias = spread * (2 * torch.rand(heads, 2) - 1)
            self.direction_bias = nn.Parameter(bias)

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return α (q + c) · k + D + γ, in float32 or wider."""
        wide = wide_dtype(tokens.q, self.content_bias)
        q = tokens.q.to(wide) + self.content_bias.to(wide)[:, None]
        products = by_group(q, tokens.grouped_k.to(wide).mT)
        scores = products * self.product_scale.to(wide) + self.logit_bias.to(wide)
        if self.direction_weight is None or self.direction_bias is None:
            return scores
        assert tokens.x is not None
        weight = self.direction_weight.to(wide).flatten(0, 1)
        with without_autocast(tokens.q):
            sides = tokens.x.to(wide) @ weight.mT
        sides = sides.unflatten(-1, (-1, 2)) + self.direction_bias.to(wide)
        left, right = sides.transpose(1, 2)[..., None].unbind(-2)
        queries, keys = products.shape[2:]
        is_left = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
        is_left = is_left.tril(keys - queries)
        return scores + torch.where(is_left, left, right)

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return geometric weights. Equation ``def-nearest-first``."""
        queries, keys = logits.shape[2:]
        own = torch.ones(queries, keys, dtype=torch.bool, device=logits.device)
        own = own.tril(keys - queries).triu(keys - queries)
        order = None
        if tokens.padding is not None or tokens.segments is not None:
            order = tokens.sequence_order
        weights = break_nearest_first(logits, tokens.mask & ~own, order)
        if self.normalize:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=_FLOOR)
        return weights

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, {self.heads}, {self.d}, normalize={self.normalize}, "
            f"direction={self.needs_x}"
        )


def break_nearest_first(
    logits: Float[Tensor, "batch heads queries keys"],
    mask: Bool[Tensor, "rows 1 queries keys"],
    order: Int[Tensor, "batch keys"] | None = None,
) -> Float[Tensor, "batch heads queries keys"]:
    """Return the weights P_ij ∏ (1 − P_il) over the keys l nearer to i than j.

    P is the sigmoid of a logit; keys that ``mask`` hides are skipped. The last query
    belongs to the last key. ``order``, if given, has the indices of the tokens in the
    order by which distances are counted. The product is the exponential of a difference
    of two sums, in float64. Equation ``def-nearest-first``.
    """
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    queries, keys = z.shape[2:]
    cost = softplus(z).masked_fill(~mask, 0.0)
    place = torch.arange(keys, device=z.device)[None]
    in_order = cost.to(torch.float64)
    if order is not None:
        place = order.argsort(dim=1)
        in_order = in_order.gather(-1, order[:, None, None].expand_as(cost))
    sums = functional.pad(in_order.cumsum(-1), (1, 0))
    offset = place[:, None] - place[:, keys - queries :, None]
    near, far = 1 - offset.abs(), offset.abs() + (offset < 0)
    own = place[:, keys - queries :, None]
    first, last = ((own + t).clamp(0, keys)[:, None] for t in (near, far))
    spent = sums.gather(-1, last.expand_as(cost)) - sums.gather(
        -1, first.expand_as(cost)
    )
    log_share = functional.logsigmoid(z)
    total = log_share - spent.to(z.dtype)
    return total.masked_fill(~mask, -torch.inf).exp()
