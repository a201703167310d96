"""Sums over the tokens that precede each token in its sequence.

Padding is skipped, and tokens of other segments (packed sequences) do not count.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

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
