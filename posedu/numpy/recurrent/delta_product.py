"""DeltaProduct: several corrections of the state by each token."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_bool
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.gated.fox import sigmoid
from posedu.numpy.gated.log_linear import mamba_log_gates
from posedu.numpy.path.product import unit_vectors
from posedu.numpy.recurrent.mamba import require_of_heads
from posedu.numpy.recurrent.state import hooks_of_weights, state_weights

Array = np.ndarray


def delta_product(
    *,
    beta_weight: Float[Array, "steps heads d_model"],
    early_key: Float[Array, "early keys d_model"],
    early_value: Float[Array, "early values d_model"],
    gate_weight: Float[Array, "heads d_model"] | None = None,
    gate_bias: Float[Array, "heads"] | None = None,
    gate_rate: Float[Array, "heads"] | None = None,
    negative_eigenvalues: bool = True,
) -> Hooks:
    """Return the attention hooks of DeltaProduct (arXiv 2502.10297).

    A token takes n steps of the delta rule, each with a key, a value and a strength β.
    The last step has the attention layer's key and value; those of the earlier ones
    are W_m x and V_m x. The transition of a token is the product
    (I − β_n k_n k_nᵀ) ⋯ (I − β_1 k_1 k_1ᵀ) α, with queries and keys of length 1.
    Positions are not used. Equation ``def-delta-product``.

    Parameters
    ----------
    beta_weight
        u of each step's and head's strength β = 2 σ(u · x).
    early_key, early_value
        W_m and V_m of the steps before the last one.
    gate_weight, gate_bias, gate_rate
        Numbers of each head's gate α, as for
        :func:`posedu.numpy.recurrent.gated_delta_net`. Default ``None``: α = 1.
    negative_eigenvalues
        Whether β is 2 σ(u · x) and not σ(u · x). Default true (the paper).

    Returns
    -------
    Hooks (functions that attention calls) with ``logits``, ``weigh`` and ``mix``, for
    causal attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, a gate without all of its
        arrays.
    """
    betas, keys, values = (
        require_floats(name, t)
        for name, t in (
            ("beta_weight", beta_weight),
            ("early_key", early_key),
            ("early_value", early_value),
        )
    )
    if betas.ndim != 3 or any(
        t.ndim != 3
        or (len(t) + 1, t.shape[2]) != (len(betas), betas.shape[2])
        or t.shape[1] % betas.shape[1]
        for t in (keys, values)
    ):
        raise ValueError(
            "beta_weight must be [steps, heads, d_model], early_key "
            "[steps − 1, heads · d, d_model] and early_value "
            "[steps − 1, heads · d_v, d_model], got shapes "
            + ", ".join(str(list(t.shape)) for t in (betas, keys, values))
        )
    gate = None
    if gate_weight is not None and gate_bias is not None and gate_rate is not None:
        gate = require_of_heads(
            *("gate_weight", gate_weight), gate_bias=gate_bias, gate_rate=gate_rate
        )
    elif not gate_weight is gate_bias is gate_rate is None:
        raise ValueError("a gate needs gate_weight, gate_bias and gate_rate")
    largest = 2.0 if require_bool("negative_eigenvalues", negative_eigenvalues) else 1.0
    steps, heads, _ = betas.shape

    def early(x: Array, weight: Array) -> Float[Array, "heads tokens early d"]:
        rows = np.einsum("snc,tc->nts", weight, x)
        of_heads = rows.reshape(heads, len(rows) // heads, *rows.shape[1:])
        return np.moveaxis(of_heads, 1, 3)

    def weights(tokens: Tokens) -> Float[Array, "heads queries tokens steps"]:
        x = require_input("delta_product", tokens)
        q, k = unit_vectors(tokens.q) / np.sqrt(tokens.d), unit_vectors(tokens.k)
        k = np.concatenate((unit_vectors(early(x, keys)), k[:, :, None]), axis=2)
        beta = largest * sigmoid(np.einsum("shc,tc->hts", betas, x))
        log_decay = np.zeros_like(beta)
        if gate is not None:
            log_decay[:, :, 0] = mamba_log_gates(x, *gate)
        found = state_weights(
            np.repeat(q, steps, axis=1),
            *(t.reshape(heads, -1, *t.shape[3:]) for t in (k, log_decay, beta)),
            delta=True,
        )
        return found[:, steps - 1 :: steps].reshape(*q.shape[:2], k.shape[1], steps)

    def mix(
        attention: Float[Array, "heads queries keys"],
        v: Float[Array, "heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Array, "heads queries d_v"]:
        before = np.where(tokens.mask[..., None], weights(tokens)[..., :-1], 0.0)
        written = early(require_input("delta_product", tokens), values)
        return attention @ v + np.einsum("hijm,hjmv->hiv", before, written)

    hooks = hooks_of_weights(lambda tokens: weights(tokens)[..., -1])
    return replace(hooks, mix=mix)
