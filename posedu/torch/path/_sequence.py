"""Sums and convolutions over the tokens that precede each token in its sequence.

Padding is skipped, and tokens of other segments (packed sequences) do not count.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from posedu.torch.encoding import Tokens


def path_sums(
    amounts: Float[Tensor, "batch keys *channels"], tokens: Tokens
) -> Float[Tensor, "batch *channels keys"]:
    """Cumulative sums over the tokens of a number for each token and channel, float64.

    A token's sum includes its own amount. See :meth:`Tokens.running_sum`.
    """
    sums = tokens.running_sum(amounts.flatten(2))
    return sums.unflatten(1, amounts.shape[2:])


def forget_bias(
    log_gates: Float[Tensor, "batch keys heads"], tokens: Tokens
) -> Float[Tensor, "batch heads queries keys"]:
    """Sum of the log gates after the key up to the query, of every pair, in float64.

    For keys after the query the result has no meaning. Equation ``def-forget``.
    """
    c = tokens.running_sum(log_gates)
    of_queries = c[..., tokens.keys - tokens.q.shape[2] :]
    return of_queries[..., None] - c[..., None, :]


def products_in_segments(
    products: Callable[..., Float[Tensor, "batch heads queries keys"]],
    tokens: Tokens,
    *features: Float[Tensor, "batch heads keys *channels"],
) -> Float[Tensor, "batch heads queries keys"]:
    """Return ``products(*features)``, the tokens of each segment side by side.

    ``products`` gives a number for each query and key, from numbers of the tokens
    between them alone. Segments are packed sequences, whose tokens may alternate; they
    are sorted for ``products``, in the order of :meth:`Tokens.running_sum`. Without
    segments nothing is sorted, and the first of ``features`` may have fewer tokens.
    """
    if tokens.segments is None:
        return products(*features)
    order = tokens.segments.argsort(dim=1, stable=True)
    back = order.argsort(dim=1)
    in_order = []
    for t in features:
        index = order.reshape(len(order), 1, -1, *(1,) * (t.ndim - 3))
        in_order.append(t.gather(2, index.expand_as(t)))
    found = products(*in_order)
    of_queries = found.gather(2, back[:, None, :, None].expand_as(found))
    return of_queries.gather(3, back[:, None, None].expand_as(found))


def short_convolution(
    features: Float[Tensor, "batch keys *channels"],
    taps: Float[Tensor, "*channels width"],
    tokens: Tokens,
) -> Float[Tensor, "batch keys *channels"]:
    """Convolve each channel over a token and the ``width`` − 1 tokens before it.

    The last of a channel's taps is for the token itself. Tokens before the first of a
    sequence count as zeros. Equation ``def-short-convolution``.
    """
    if tokens.padding is None and tokens.segments is None:
        return _convolved(features, taps)
    order = tokens.sequence_order
    sorted_features = _gathered(features, order)
    out = _convolved(sorted_features, taps, _earlier_in_sequence(tokens, order, taps))
    return _gathered(out, order.argsort(dim=1))


def _gathered(
    features: Float[Tensor, "batch keys *channels"], order: Int[Tensor, "batch keys"]
) -> Float[Tensor, "batch keys *channels"]:
    index = order.reshape(*order.shape, *(1,) * (features.ndim - 2))
    return features.gather(1, index.expand_as(features))


def _earlier_in_sequence(
    tokens: Tokens, order: Int[Tensor, "batch keys"], taps: Tensor
) -> list[Tensor]:
    """Return for s = 0, 1, … whether the token s places earlier is of the sequence.

    Places are those of the sorted tokens, ``order``. A padding token has no sequence.
    """
    segments = torch.zeros_like(order)
    if tokens.segments is not None:
        segments = tokens.segments.gather(1, order)
    is_token = torch.ones_like(order, dtype=torch.bool)
    if tokens.padding is not None:
        is_token = ~tokens.padding.gather(1, order)
    of_sequence = []
    for s in range(taps.shape[-1]):
        own, other = (slice(s, None), slice(None, order.shape[1] - s))
        if s >= order.shape[1]:
            of_sequence.append(torch.zeros_like(is_token))
            continue
        same = segments[:, own] == segments[:, other]
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
