"""FoX: a gate at every token decides how much of the past is forgotten."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_dimension
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import softmax

Array = np.ndarray


def log_gates(
    x: Float[Array, "*batch tokens d_model"],
    gate_weight: Float[Array, "heads d_model"],
    gate_bias: Float[Array, "heads"],
) -> Float[Array, "*batch heads tokens"]:
    """The logarithm of σ(w · x + b), every token's gate, from the layer's input.

    arXiv 2503.02130 Eq. 4. Equation ``def-gate``.

    Raises
    ------
    TypeError, ValueError
        Arguments that are not floating, shapes that do not match.
    """
    x = require_floats("x", x)
    w = require_floats("gate_weight", gate_weight)
    b = require_floats("gate_bias", gate_bias)
    if w.ndim != 2 or b.shape != w.shape[:1] or x.ndim < 2 or x.shape[-1] != w.shape[1]:
        raise ValueError(
            "gate_weight must be [heads, d_model] and gate_bias [heads] for x "
            f"[..., tokens, d_model], got shapes {list(w.shape)}, {list(b.shape)} and "
            f"{list(x.shape)}"
        )
    logits = np.einsum("hc,...tc->...ht", w, x) + b[:, None]
    return -np.logaddexp(0.0, -logits)


def forget_bias(
    log_gates: Float[Array, "*heads tokens"],
) -> Float[Array, "*heads tokens tokens"]:
    """D_ij = Σ log f_l over l = j + 1 … i for j ≤ i, and 0 above the diagonal.

    As a difference of cumulative sums, c_i − c_j (arXiv 2503.02130 Eq. 7). Added to
    the logits after their division by √d. Equation ``def-forget``.

    Raises
    ------
    TypeError, ValueError
        ``log_gates`` not floating, above 0 or not finite.
    """
    c = np.cumsum(require_log_gates(log_gates), axis=-1)
    return np.tril(c[..., :, None] - c[..., None, :])


def require_log_gates(log_gates: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return ``log_gates`` as float64 if they are logarithms of gates, else raise."""
    log_gates = require_floats("log_gates", log_gates)
    if log_gates.ndim == 0:
        raise ValueError("log_gates must be [..., tokens], got a single number")
    bad = log_gates[~((log_gates <= 0) & np.isfinite(log_gates))]
    if bad.size:
        raise ValueError(f"log_gates must be finite and at most 0, got {bad[0]}")
    return log_gates


def forgetting_attention(
    q: Float[Array, "*heads tokens d"],
    k: Float[Array, "*heads tokens d"],
    v: Float[Array, "*heads tokens d_v"],
    log_gates: Float[Array, "*heads tokens"],
) -> Float[Array, "*heads tokens d_v"]:
    """Causal attention with the logits q · k/√d + D (arXiv 2503.02130 Eq. 6).

    Equation ``def-fox``.

    Raises
    ------
    TypeError, ValueError
        Shapes that do not match; as :func:`forget_bias`.
    """
    q, k, v = (require_floats(n, t) for n, t in (("q", q), ("k", k), ("v", v)))
    if q.ndim < 2 or q.shape != k.shape or v.shape[:-1] != k.shape[:-1]:
        raise ValueError(
            "q, k and v must agree in heads, tokens and d, got shapes "
            f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    bias = forget_bias(log_gates)
    if bias.shape[:-1] != q.shape[:-1]:
        raise ValueError(
            f"log_gates must be {list(q.shape[:-1])} like the queries, got shape "
            f"{list(np.shape(log_gates))}"
        )
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    return (
        softmax(logits, np.broadcast_to(np.tri(len(bias.T), dtype=bool), bias.shape))
        @ v
    )


def constant_gate_bias(
    heads: int, *, shortest: float, longest: float
) -> Float[Array, "heads"]:
    """Gate biases b with σ(b) = e^(−1/T), for time scales T spaced evenly in log T.

    The authors' data-independent and fixed gates (arXiv 2503.02130 §4.5). With one of
    them a head is ALiBi of slope 1/T. Equation ``eq-fox-alibi``.
    """
    require_dimension("heads", heads, 1)
    if not 0 < shortest <= longest < np.inf:
        raise ValueError(
            f"time scales must be 0 < shortest ≤ longest, got {shortest} and {longest}"
        )
    times = np.geomspace(shortest, longest, heads)
    return -np.log(np.expm1(1 / times))
