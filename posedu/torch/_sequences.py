"""Order of the tokens of padded and packed sequences, and convolutions over them.

Padding is skipped, and tokens of other segments (packed sequences) do not count.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

Padding = Bool[Tensor, "batch keys"] | None
Segments = Int[Tensor, "batch keys"] | None


def sequence_order(
    like: Float[Tensor, "batch keys *channels"], padding: Padding, segments: Segments
) -> Int[Tensor, "batch keys"]:
    """Return the indices of all tokens, sorted: padding first, then by segment.

    Within a segment tokens keep their order. ``like`` is a tensor of all tokens.
    """
    if segments is None:
        order = torch.arange(like.shape[1], device=like.device).expand(like.shape[:2])
    else:
        order = segments.argsort(dim=1, stable=True)
    if padding is not None:
        is_token = ~padding.gather(1, order)
        order = order.gather(1, is_token.to(torch.int8).argsort(dim=1, stable=True))
    return order


def short_convolution(
    features: Float[Tensor, "batch keys *channels"],
    taps: Float[Tensor, "*channels width"],
    padding: Padding = None,
    segments: Segments = None,
) -> Float[Tensor, "batch keys *channels"]:
    """Convolve each channel over a token and the ``width`` − 1 tokens before it.

    The last of a channel's taps is for the token itself. Tokens before the first of a
    sequence count as zeros. Equation ``def-short-convolution``.
    """
    if padding is None and segments is None:
        return _convolved(features, taps)
    order = sequence_order(features, padding, segments)
    earlier = earlier_in_sequence(order, padding, segments, taps.shape[-1])
    out = _convolved(gathered(features, order), taps, earlier)
    return gathered(out, order.argsort(dim=1))


def gathered(
    features: Float[Tensor, "batch keys *channels"], order: Int[Tensor, "batch places"]
) -> Float[Tensor, "batch places *channels"]:
    """Return the features of the tokens whose indices are ``order``."""
    index = order.reshape(*order.shape, *(1,) * (features.ndim - 2))
    return features.gather(1, index.expand(*order.shape, *features.shape[2:]))


def earlier_in_sequence(
    order: Int[Tensor, "batch keys"], padding: Padding, segments: Segments, width: int
) -> list[Bool[Tensor, "batch keys"]]:
    """Return for s = 0, 1, … whether the token s places earlier is of the sequence.

    Places are those of the sorted tokens, ``order``. A padding token has no sequence.
    """
    number = torch.zeros_like(order)
    if segments is not None:
        number = segments.gather(1, order)
    is_token = torch.ones_like(order, dtype=torch.bool)
    if padding is not None:
        is_token = ~padding.gather(1, order)
    of_sequence = []
    for s in range(width):
        own, other = (slice(s, None), slice(None, order.shape[1] - s))
        if s >= order.shape[1]:
            of_sequence.append(torch.zeros_like(is_token))
            continue
        same = number[:, own] == number[:, other]
        earlier = same & is_token[:, own] & is_token[:, other]
        of_sequence.append(functional.pad(earlier, (s, 0)))
    return of_sequence


def _convolved(
    features: Float[Tensor, "batch keys *channels"],
    taps: Float[Tensor, "*channels width"],
    earlier: list[Tensor] | None = None,
) -> Float[Tensor, "batch keys *channels"]:
    """Sum the features of a token and of those before it, times their taps.

    ``earlier``, if given, says for each number s of tokens back which tokens have such
    an earlier token.
    """
    flat = features.flatten(2)
    of_channel = taps.flatten(0, -2)
    keys, width = flat.shape[1], taps.shape[-1]
    padded = functional.pad(flat, (0, 0, width - 1, 0))
    out = torch.zeros_like(flat)
    for s in range(width):
        part = padded[:, width - 1 - s : width - 1 - s + keys]
        if earlier is not None:
            part = part * earlier[s][..., None]
        out = out + of_channel[:, width - 1 - s] * part
    return out.unflatten(2, features.shape[2:])
