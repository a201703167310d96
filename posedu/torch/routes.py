"""Routes: code paths that compute attention output from queries, keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from posedu._arguments import require_choice
from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.separable_bias import attend_folded
from posedu.torch.tiled_attention import attend_within, by_group, grouped_sdpa

Route = Literal["folded", "sdpa", "flex", "eager", "fused"]
ROUTES: tuple[Route, ...] = get_args(Route)
_EAGER_HOOKS = ("logits", "weigh", "mix", "update")  # of the eager route only

Output = Float[Tensor, "batch heads queries d_v"]
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def choose_route(encoding: Encoding, route: Route | None) -> Route:
    """Return ``route`` if it can serve the encoding; for ``None`` the default route.

    Raises
    ------
    ValueError
        An unknown route, one that does not call a hook that the encoding uses, or one
        that needs a hook (``fold``, ``attend``) that the encoding does not use.
    """
    eager_hooks = [hook for hook in _EAGER_HOOKS if encoding.uses(hook)]
    folds = encoding.uses("fold") and not encoding.uses("bias")
    if route is None:
        if encoding.is_fused:
            return "fused"
        return "eager" if eager_hooks else "folded" if folds else "sdpa"
    require_choice("route", route, Route)
    name = type(encoding).__name__
    if "update" in eager_hooks and route == "fused":
        raise ValueError(f"{name} uses the hook 'update', which needs route='eager'")
    if eager_hooks and route not in ("eager", "fused"):
        raise ValueError(
            f"{name} uses the hook {eager_hooks[0]!r}, which only route='eager' has; "
            f"got route={route!r}"
        )
    if route == "folded" and not folds:
        raise ValueError(
            f"{name} has no bias that is a number of the query plus one of the key "
            "(the hook 'fold'), which route='folded' needs"
        )
    if route == "fused" and not encoding.uses("attend"):
        raise ValueError(f"{name} has no kernel of its own, which route='fused' needs")
    return route


def eager(encoding: Encoding, tokens: Tokens) -> tuple[Output, Tensor]:
    """Compute attention by logits and weights as tensors; return output, weights."""
    weights = encoding.weigh(encoding.logits(tokens), tokens).to(tokens.grouped_v.dtype)
    if encoding.uses("mix"):
        return encoding.mix(weights, tokens.v, tokens), weights
    return by_group(weights, tokens.grouped_v), weights


def sdpa(encoding: Encoding, tokens: Tokens) -> Output:
    """Compute attention by PyTorch's ``scaled_dot_product_attention``.

    On a CPU, and not compiled, attention without a bias, or with one that depends on
    the offset alone, takes O(queries + keys) memory under every mask. Elsewhere, a mask
    that is neither empty nor square and causal takes queries × keys, and so does every
    bias.
    """
    q, k, v = tokens.q, tokens.grouped_k, tokens.grouped_v
    limits, scale = tokens.limits, encoding.scale(tokens.d)
    bias_of_offset = _bias_of_offset(encoding, tokens)
    if bias_of_offset is not None:
        return attend_within(limits, q, k, v, bias_of_offset, scale=scale)
    bias = encoding.bias(tokens)
    if bias is None:
        return attend_within(limits, q, k, v, scale=scale)
    return _attend_by_matrix(tokens, bias, scale)


def _bias_of_offset(encoding: Encoding, tokens: Tokens) -> Tensor | None:
    """Return the bias of each offset, made once for all layers.

    An offset is query position minus key position. ``None`` under a compiler, not on a
    CPU, or if the bias is no function of offset.
    """
    if is_compiling() or not tokens.q.is_cpu:
        return None
    key = encoding, tokens.q.shape[2], tokens.keys, tokens.q.dtype, tokens.d
    place = tokens.query_positions, tokens.consecutive
    return tokens.shared.once(lambda: encoding.by_distance(tokens), *key, *place)


def _attend_by_matrix(tokens: Tokens, bias: Tensor, scale: float) -> Output:
    """Compute attention with ``bias``, a number for every (query, key) pair."""
    q, limits = tokens.q, tokens.limits
    if not limits.are_none(q.shape[2], tokens.keys):
        bias = bias.masked_fill(~tokens.mask, -torch.inf)
    if bias.dtype != q.dtype and bias.shape[-1]:
        # The largest entry of a row, which matters most, becomes 0 and is then exact.
        largest = bias.detach().amax(-1, keepdim=True)
        bias = (bias - largest.clamp(min=torch.finfo(bias.dtype).min)).to(q)
    return grouped_sdpa(q, tokens.grouped_k, tokens.grouped_v, scale=scale, mask=bias)


def folded(encoding: Encoding, tokens: Tokens) -> Output:
    """Compute attention with the bias as further features of queries and keys.

    Memory is O(L), as for :func:`sdpa` without a bias.
    """
    scale = encoding.scale(tokens.d)
    # One query has one row of biases, in place of features for every key.
    is_row = tokens.q.shape[2] == 1 and not torch.is_grad_enabled()
    if is_row and _bias_of_offset(encoding, tokens) is not None:
        return sdpa(encoding, tokens)
    summands = encoding.fold(tokens)
    if summands is None:
        return sdpa(encoding, tokens)
    if is_row:
        of_keys = summands[1]  # the softmax ignores the query's term
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        bias = (of_keys - of_keys.amax(-1, keepdim=True))[..., None, :].to(wide)
        return _attend_by_matrix(tokens, bias, scale)
    return attend_folded(
        *(tokens.q, tokens.grouped_k, tokens.grouped_v, *summands),
        limits=tokens.limits,
        scale=scale,
    )


def flex(encoding: Encoding, tokens: Tokens) -> Output:
    """Compute attention by FlexAttention, with the bias as a ``score_mod``.

    A ``score_mod`` is a function that changes one logit; ``torch.compile`` fuses it
    into the kernel.
    """
    q, k, v = tokens.q, tokens.grouped_k, tokens.grouped_v
    if q.numel() == 0:  # which FlexAttention refuses
        return eager(encoding, tokens)[0]
    score_mod = encoding.score_mod(tokens)
    if score_mod is None and (bias := encoding.bias(tokens)) is not None:
        score_mod = _adding(bias.expand(*q.shape[:3], k.shape[2]))
    block_mask, is_plain = None, tokens.limits.are_none(1, tokens.keys)
    is_square = is_plain and q.shape[2] == tokens.keys
    if not tokens.limits.are_none(q.shape[2], tokens.keys):
        mask = None if is_square else tokens.mask.expand(len(q), -1, -1, -1)
        block_mask = create_block_mask(
            _causal() if mask is None else _lookup(mask),
            None if mask is None else len(q),
            None,
            q.shape[2],
            k.shape[2],
            device=q.device,
        )
    return flex_attention(
        q,
        k,
        v,
        score_mod=score_mod,
        block_mask=block_mask,
        scale=encoding.scale(tokens.d),
        enable_gqa=q.shape[1] != k.shape[1],
    )


def fused(encoding: Encoding, tokens: Tokens) -> Output:
    """Compute attention by the encoding's own kernel (its hook ``attend``)."""
    return encoding.attend(tokens)


BY_NAME = {"folded": folded, "sdpa": sdpa, "flex": flex, "fused": fused}


def _adding(bias: Tensor) -> ScoreMod:
    """Return a FlexAttention ``score_mod`` (changes a logit) that adds ``bias``."""
    return lambda score, b, h, i, j: score + bias[b, h, i, j]


def _causal() -> MaskMod:
    """Return a FlexAttention ``mask_mod`` (function) that hides later keys."""
    return lambda b, h, i, j: i >= j


def _lookup(mask: Tensor) -> MaskMod:
    """Return a FlexAttention ``mask_mod`` (function) that reads the tensor ``mask``."""
    return lambda b, h, i, j: mask[b, 0, i, j]
