"""A recurrence token by token, in NumPy: a state that each token changes and reads."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def read_states(
    q: Float[Array, "heads tokens d"],
    k: Float[Array, "heads tokens d"],
    v: Float[Array, "heads tokens d_v"],
    log_decay: Float[Array, "heads tokens *features"],
    beta: Float[Array, "heads tokens"],
    *,
    delta: bool,
    state: Float[Array, "heads d d_v"] | None = None,
) -> tuple[Float[Array, "heads tokens d_v"], Float[Array, "heads d d_v"]]:
    """The outputs S_tᵀ q_t and the last state of S_t = T_t S_(t−1) + β_t k_t v_tᵀ.

    A token first multiplies the state by α_t, a number or one of each row, whose
    logarithms are ``log_decay``, and then writes its value for its key. With ``delta``
    it writes only what the state does not have yet for this key, v_t − Sᵀ k_t. So
    T_t is diag(α_t), or (I − β_t k_t k_tᵀ) diag(α_t). Equation ``def-state``.
    """
    q, k, v, log_decay, beta = _require_writes(
        q=q, k=k, v=v, log_decay=log_decay, beta=beta
    )
    heads, tokens, d = q.shape
    if state is None:
        state = np.zeros((heads, d, v.shape[-1]))
    decay = np.exp(log_decay)
    outputs = [np.zeros((heads, 0, v.shape[-1]))]
    for t in range(tokens):
        state = state * decay[:, t].reshape(heads, -1, 1)
        new = v[:, t]
        if delta:
            new = new - np.einsum("hk,hkv->hv", k[:, t], state)
        state = state + np.einsum("h,hk,hv->hkv", beta[:, t], k[:, t], new)
        outputs.append(np.einsum("hk,hkv->hv", q[:, t], state)[:, None])
    return np.concatenate(outputs, axis=1), state


def state_weights(
    q: Float[Array, "heads queries d"],
    k: Float[Array, "heads tokens d"],
    log_decay: Float[Array, "heads tokens *features"],
    beta: Float[Array, "heads tokens"],
    *,
    delta: bool,
) -> Float[Array, "heads queries tokens"]:
    """The weight q_i · T_i ⋯ T_(j+1) k_j β_j of every key j for query i.

    They are what :func:`read_states` reads if the value of token j is the j-th unit
    vector. The queries are those of the last keys. Equation ``eq-state-weights``.
    """
    q, k = require_floats("q", q), require_floats("k", k)
    if q.ndim == k.ndim == 3 and q.shape[1] < k.shape[1]:
        before = np.zeros((len(q), k.shape[1] - q.shape[1], q.shape[2]))
        rows = np.concatenate((before, q), axis=1)
        return state_weights(rows, k, log_decay, beta, delta=delta)[:, -q.shape[1] :]
    q, k, _, log_decay, beta = _require_writes(
        q=q, k=k, v=k, log_decay=log_decay, beta=beta
    )
    heads, tokens, _ = q.shape
    units = np.broadcast_to(np.eye(tokens), (heads, tokens, tokens))
    return read_states(q, k, units, log_decay, beta, delta=delta)[0]


def _require_writes(**given: Array) -> list[Array]:
    """Return the arrays of :func:`read_states` as floats; raise unless they fit."""
    q, k, v, log_decay, beta = (require_floats(name, t) for name, t in given.items())
    if (
        q.ndim != 3
        or k.shape != q.shape
        or v.ndim != 3
        or v.shape[:2] != q.shape[:2]
        or log_decay.shape not in (q.shape, q.shape[:2])
        or beta.shape != q.shape[:2]
    ):
        raise ValueError(
            "q and k must be [heads, tokens, d], v [heads, tokens, d_v], log_decay "
            "[heads, tokens] or like k, and beta [heads, tokens], got shapes "
            + ", ".join(str(list(t.shape)) for t in (q, k, v, log_decay, beta))
        )
    return [q, k, v, log_decay, beta]


def hooks_of_weights(
    weights: Callable[[Tokens], Float[Array, "heads queries keys"]],
) -> Hooks:
    """Return hooks of attention with these weights, and no softmax."""

    def weigh(
        logits: Float[Array, "heads queries keys"], tokens: Tokens
    ) -> Float[Array, "heads queries keys"]:
        return np.where(tokens.mask, logits, 0.0)

    return Hooks(logits=weights, weigh=weigh, needs_causal=True)


def no_decay(k: Float[Array, "heads tokens d"]) -> Float[Array, "heads tokens"]:
    """The log decay 0 of every head and token."""
    return np.zeros(k.shape[:2])


def plain_writes(k: Float[Array, "heads tokens d"]) -> Float[Array, "heads tokens"]:
    """The strength β = 1 of every head and token."""
    return np.ones(k.shape[:2])
