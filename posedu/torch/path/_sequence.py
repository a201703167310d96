"""Sums over the tokens that precede each token in its sequence.

Padding is skipped, and tokens of other segments (packed sequences) do not count.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from posedu.torch.encoding import Tokens


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
    segments nothing is sorted. The first of ``features`` are those of the queries.
    """
    if tokens.segments is None:
        return products(*features)
    before = tokens.keys - features[0].shape[2]
    of_queries = functional.pad(
        features[0], (*(0, 0) * (features[0].ndim - 3), before, 0)
    )
    order = tokens.segments.argsort(dim=1, stable=True)
    back = order.argsort(dim=1)
    in_order = []
    for t in (of_queries, *features[1:]):
        index = order.reshape(len(order), 1, -1, *(1,) * (t.ndim - 3))
        in_order.append(t.gather(2, index.expand_as(t)))
    found = products(*in_order)
    found = found.gather(2, back[:, None, :, None].expand_as(found))
    return found.gather(3, back[:, None, None].expand_as(found))[:, :, before:]
