"""Linear attention: a state that nothing changes but sums, with or without RoPE."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout, require_base, require_choice, require_positive
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.recurrent.state import no_decay, plain_writes, state_weights
from posedu.numpy.rotary.rope import elu_plus_one, rope

Array = np.ndarray


def linear_attention(
    *, layout: Layout | None, base: float = 10000.0, eps: float = 1e-6
) -> Hooks:
    """Return the attention hooks of causal linear attention (arXiv 2006.16236).

    The weight of key j for query i is φ(q_i) · φ(k_j) over the sum of these products of
    all keys up to the query and ε, with φ(x) = elu(x) + 1. With a ``layout``, RoPE
    rotates φ(q) and φ(k) above the line, not below it (arXiv 2104.09864 Eq. 19), so
    that weights may be negative and need not sum to 1. Nothing is divided by √d.
    Equation ``def-linear-attention``.

    Parameters
    ----------
    layout
        Which features RoPE rotates as a pair, ``"interleaved"`` or ``"half"``;
        ``None`` for no rotation, and no positions.
    base
        Base of RoPE's frequencies. Default 10000.
    eps
        ε, the authors' default.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        An unknown ``layout``, ``base`` not above 1, ``eps`` not above 0.
    """
    if layout is not None:
        require_choice("layout", layout, Layout)
    base, eps = require_base(base), require_positive("eps", eps)

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        q, k = elu_plus_one(tokens.q), elu_plus_one(tokens.k)
        if layout is not None:
            q = rope(q, tokens.query_positions, layout=layout, base=base)
            k = rope(k, tokens.key_positions, layout=layout, base=base)
        return _sums(q, k)

    def weigh(
        logits: Float[Array, "heads queries keys"], tokens: Tokens
    ) -> Float[Array, "heads queries keys"]:
        products = _sums(elu_plus_one(tokens.q), elu_plus_one(tokens.k))
        products, logits = (np.where(tokens.mask, t, 0.0) for t in (products, logits))
        return logits / (products.sum(axis=-1, keepdims=True) + eps)

    return Hooks(logits=logits, weigh=weigh, needs_causal=True)


def _sums(
    q: Float[Array, "heads queries d"], k: Float[Array, "heads tokens d"]
) -> Float[Array, "heads queries tokens"]:
    return state_weights(q, k, no_decay(k), plain_writes(k), delta=False)
