"""The routes from queries, keys and values to the attention output."""

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from posedu._arguments import require_choice
from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.separable_bias import attend_folded
from posedu.torch.toeplitz_bias import attend_by_distance

Route = Literal["folded", "sdpa", "flex", "eager", "fused"]
ROUTES: tuple[Route, ...] = get_args(Route)
_EAGER_HOOKS = ("logits", "weigh", "mix", "update")  # of the eager route only

Output = Float[Tensor, "batch heads queries d_v"]
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def choose_route(encoding: Encoding, route: Route | None) -> Route:
    """Return ``route`` if it can serve the encoding; for ``None`` the best one.

    Raises
    ------
    ValueError
        An unknown route, or one that lacks a hook of the encoding.
    """
    eager_hooks = [hook for hook in _EAGER_HOOKS if encoding.uses(hook)]
    folds = encoding.uses("fold") and not encoding.uses("bias")
    if route is None:
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
    """Attend by logits and weights as separate tensors; return output and weights."""
    weights = encoding.weigh(encoding.logits(tokens), tokens).to(tokens.v.dtype)
    return encoding.mix(weights, tokens.v, tokens), weights


def sdpa(encoding: Encoding, tokens: Tokens) -> Output:
    """Attend by ``scaled_dot_product_attention``.

    A bias takes queries × keys numbers; on a CPU, a bias that depends on the offset
    alone takes queries + keys numbers.
    """
    bias_of_offset = None
    if tokens.q.is_cpu and not tokens.is_limited and not is_compiling():
        bias_of_offset = encoding.by_distance(tokens)
    if bias_of_offset is not None:
        return attend_by_distance(
            *(tokens.q, tokens.k, tokens.v, bias_of_offset),
            scale=encoding.scale(tokens.d),
            causal=tokens.causal,
        )
    bias = encoding.bias(tokens)
    if bias is None:
        return _stock(tokens.q, tokens.k, tokens.v, tokens, encoding)
    mask = bias if tokens.is_open else bias.masked_fill(~tokens.mask, -torch.inf)
    if mask.dtype != tokens.q.dtype and mask.shape[-1]:
        # The largest entry of a row, which matters most, becomes 0 and is then exact.
        largest = mask.detach().amax(-1, keepdim=True)
        mask = (mask - largest.clamp(min=torch.finfo(mask.dtype).min)).to(tokens.q)
    return scaled_dot_product_attention(
        tokens.q, tokens.k, tokens.v, attn_mask=mask, scale=encoding.scale(tokens.d)
    )


def folded(encoding: Encoding, tokens: Tokens) -> Output:
    """Attend with the bias as features of queries and keys; memory is O(L)."""
    summands = encoding.fold(tokens)
    if summands is None:
        return sdpa(encoding, tokens)
    attending = partial(
        attend_folded,
        *(tokens.q, tokens.k, tokens.v, *summands),
        scale=encoding.scale(tokens.d),
        mask=None if tokens.is_plain else tokens.mask,
    )
    if _is_square(tokens):
        return attending(causal=True)
    return attending(causal=False)


def _stock(
    q: Tensor, k: Tensor, v: Tensor, tokens: Tokens, encoding: Encoding
) -> Output:
    scale = encoding.scale(tokens.d)
    if tokens.is_plain and _is_square(tokens):
        return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    mask = None if tokens.is_plain else tokens.mask
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def _is_square(tokens: Tokens) -> bool:
    """Return whether the mask is causal, with as many queries as keys.

    A compiler sees an expression of lengths, not a constant: its callers branch on it.
    """
    return tokens.causal and tokens.q.shape[2] == tokens.k.shape[2]


def flex(encoding: Encoding, tokens: Tokens) -> Output:
    """Attend by FlexAttention, which fuses a ``score_mod`` under ``torch.compile``."""
    q, k, v = tokens.q, tokens.k, tokens.v
    if q.numel() == 0:  # which FlexAttention refuses
        return eager(encoding, tokens)[0]
    score_mod = encoding.score_mod(tokens)
    if score_mod is None and (bias := encoding.bias(tokens)) is not None:
        score_mod = _adding(bias.expand(*q.shape[:3], k.shape[2]))
    block_mask = None
    if not tokens.is_plain or _is_square(tokens):
        mask = None if tokens.is_plain else tokens.mask.expand(len(q), -1, -1, -1)
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
    )


def fused(encoding: Encoding, tokens: Tokens) -> Output:
    """Attend by the encoding's own kernel."""
    if tokens.segments is not None or tokens.window is not None:
        raise ValueError("segments and windows need another route than 'fused'")
    return encoding.attend(tokens)


BY_NAME = {"folded": folded, "sdpa": sdpa, "flex": flex, "fused": fused}


def _adding(bias: Tensor) -> ScoreMod:
    """Return the ``score_mod`` that adds ``bias``."""
    return lambda score, b, h, i, j: score + bias[b, h, i, j]


def _causal() -> MaskMod:
    """Return the ``mask_mod`` of causality."""
    return lambda b, h, i, j: i >= j


def _lookup(mask: Tensor) -> MaskMod:
    """Return the ``mask_mod`` that reads ``mask``."""
    return lambda b, h, i, j: mask[b, 0, i, j]
