"""Lightning attention (MiniMax): ALiBi's slopes as decays that fade with the depth."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_count, require_dimension
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.recurrent.state import hooks_of_weights, plain_writes, state_weights

Array = np.ndarray
EPS = 1e-5  # the published code's, which keeps the last layer's decays above 0


def lightning_decays(heads: int, *, layer: int, layers: int) -> Float[Array, "heads"]:
    """The decay s_h = 2^(−8 (h + 1)/H) (1 − l/(L − 1 + ε) + ε) of each head h of H.

    l is the ``layer``, counted from 0, of L ``layers``, and ε = 1e−5. Equation
    ``def-lightning``.
    """
    require_dimension("heads", heads, 1)
    if require_count("layer", layer) >= require_dimension("layers", layers, 1):
        raise ValueError(f"layer must be in 0 … layers − 1 = {layers - 1}, got {layer}")
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    return slopes * (1 - layer / (layers - 1 + EPS) + EPS)


def lightning(*, heads: int, layer: int, layers: int) -> Hooks:
    """Return the attention hooks of MiniMax's lightning attention (arXiv 2501.08313).

    Each token multiplies the state by e^(−s), with s of :func:`lightning_decays`: the
    weight of key j for query i is q_i · k_j e^(−s (i − j)), without a softmax and
    without a division by √d. Positions are not used: i − j counts tokens. Equation
    ``def-lightning``.

    Parameters
    ----------
    heads
        Query heads.
    layer, layers
        Number of the layer, counted from 0, and how many there are.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, a ``layer`` that does not exist.
    """
    decays = lightning_decays(heads, layer=layer, layers=layers)

    def weights(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        log_decay = np.repeat(-decays[:, None], tokens.k.shape[1], axis=1)
        writes = log_decay, plain_writes(tokens.k)
        return state_weights(tokens.q, tokens.k, *writes, delta=False)

    return hooks_of_weights(weights)
