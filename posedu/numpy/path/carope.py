"""CARoPE: rotations by the powers of one frequency a head, which each token sets."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout, require_choice, require_index
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.path.rotation import rotate_along

Array = np.ndarray


def carope_frequencies(
    x: Float[Array, "tokens d_model"], frequency_weight: Float[Array, "heads d_model"]
) -> Float[Array, "tokens heads"]:
    """CARoPE's frequency f = 1/(softplus(w · x) + 1) of each token and head.

    f is between 0 and 1 (arXiv 2507.23083). Equation ``def-carope-frequency``.
    """
    return 1 / (np.logaddexp(0, x @ frequency_weight.T) + 1)


def carope(
    *,
    layout: Layout,
    first_exponent: int,
    frequency_weight: Float[Array, "heads d_model"],
) -> Hooks:
    """Return the attention hooks of CARoPE (arXiv 2507.23083).

    Pair p of token t's query and key is rotated by the sum of f^(p + first exponent)
    over the tokens up to t, with :func:`carope_frequencies` f of the layer's input.
    Positions are not used. Equation ``def-carope``.

    Parameters
    ----------
    layout
        ``"interleaved"`` or ``"half"``; see :func:`posedu.numpy.rotary.pairs`.
    first_exponent
        Exponent of pair 0, which rotates by one radian a token for 0, and by f for 1.
        The paper leaves it open.
    frequency_weight
        w of each query head.

    Returns
    -------
    Hooks (functions that attention calls) with ``transport``, for causal attention.

    Raises
    ------
    TypeError, ValueError
        Weights that are no floats or no matrix, an unknown ``layout``, a
        ``first_exponent`` other than 0 and 1.
    """
    require_choice("layout", layout, Layout)
    first_exponent = require_index("first_exponent", first_exponent)
    weight = require_floats("frequency_weight", frequency_weight)
    if weight.ndim != 2:
        raise ValueError(
            f"frequency_weight must be [heads, d_model], got shape {list(weight.shape)}"
        )

    def transport(tokens: Tokens) -> tuple[Array, Array]:
        f = carope_frequencies(require_input("carope", tokens), weight)
        steps = f[..., None] ** (np.arange(tokens.d // 2) + first_exponent)
        return rotate_along(tokens, steps, layout=layout)

    return Hooks(transport=transport, needs_causal=True)
