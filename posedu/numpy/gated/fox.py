"""FoX (forgetting transformer): each token's gate sets how much past is forgotten."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    FoXForm,
    OutputGate,
    require_choice,
    require_dimension,
    require_output_gate,
    require_times,
)
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, attend, require_input

Array = np.ndarray


def log_gates(
    x: Float[Array, "*batch tokens d_model"],
    gate_weight: Float[Array, "heads d_model"],
    gate_bias: Float[Array, "heads"],
) -> Float[Array, "*batch heads tokens"]:
    """The logarithm of each head's forget gate σ(w · x + b) at every token.

    x is the token's vector in the layer's input (arXiv 2503.02130), w and b are a
    head's weight and bias. Equation ``def-gate``.

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
    """FoX's bias D_ij of query i and key j: the sum of the log gates after j up to i.

    D_ij = Σ log f_l over l = j + 1 … i for j ≤ i, and 0 above the diagonal, computed as
    a difference of cumulative sums, c_i − c_j (arXiv 2503.02130). The bias is added to
    the logits after their division by √d. Equation ``def-forget``.

    Raises
    ------
    TypeError, ValueError
        ``log_gates`` not floating, above 0 or not finite.
    """
    c = np.cumsum(require_log_gates(log_gates), axis=-1)
    return np.tril(c[..., :, None] - c[..., None, :])


def require_log_gates(log_gates: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return ``log_gates`` as float64 if all are finite and at most 0, else raise.

    They are logarithms of gates, which are in (0, 1]; the last axis is that of tokens.
    """
    log_gates = require_floats("log_gates", log_gates)
    if log_gates.ndim == 0:
        raise ValueError("log_gates must be [..., tokens], got a single number")
    bad = log_gates[~((log_gates <= 0) & np.isfinite(log_gates))]
    if bad.size:
        raise ValueError(f"log_gates must be finite and at most 0, got {bad[0]}")
    return log_gates


def fox(
    *,
    gate_bias: Float[Array, "heads"],
    gate_weight: Float[Array, "heads d_model"] | None = None,
    form: FoXForm = "difference",
) -> Hooks:
    """Return the attention hooks of FoX.

    The bias is :func:`forget_bias` of gates computed from the layer's input (arXiv
    2503.02130).

    Parameters
    ----------
    gate_bias
        The bias b of each head's gate σ(w · x + b).
    gate_weight
        The weight w of each head's gate. Default: 0, so that all tokens have the same
        gate.
    form
        Form of the bias, by the cumulative sums c of log gates. ``"difference"``: c_i −
        c_j. ``"key"``: −c_j alone, which has the same softmax (``eq-fox-key``).

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``, for causal attention. Equation
    ``def-fox``.

    Raises
    ------
    TypeError, ValueError
        As :func:`log_gates`; unknown ``form``.
    """
    require_choice("form", form, FoXForm)
    b = require_floats("gate_bias", gate_bias)
    if b.ndim != 1:
        raise ValueError(f"gate_bias must be [heads], got shape {list(b.shape)}")

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x = require_input("fox", tokens)
        w = np.zeros((len(b), x.shape[1])) if gate_weight is None else gate_weight
        gates = log_gates(x, w, b)
        if form == "key":
            c = np.cumsum(require_log_gates(gates), axis=-1)
            return np.repeat(-c[:, None, :], len(x), axis=1)
        return forget_bias(gates)

    return Hooks(bias=bias, needs_causal=True)


def fox_pro(
    x: Float[Array, "tokens d_model"],
    *,
    q_weight: Float[Array, "d_model d_model"],
    k_weight: Float[Array, "d_model d_model"],
    v_weight: Float[Array, "d_model d_model"],
    o_weight: Float[Array, "d_model d_model"],
    encoding_gate_weight: Float[Array, "heads d_model"],
    encoding_gate_bias: Float[Array, "heads"],
    k_shift_weight: Float[Array, "heads d_model"] | None = None,
    v_shift_weight: Float[Array, "heads d_model"] | None = None,
    q_gain: Float[Array, "heads d"] | None = None,
    k_gain: Float[Array, "heads d"] | None = None,
    o_gain: Float[Array, "heads d"] | None = None,
    out_gate_weight: Float[Array, "d_model d_model"] | None = None,
    output_gate: OutputGate | None = "sigmoid",
) -> Float[Array, "tokens d_model"]:
    """Output of the attention block FoX (Pro) (arXiv 2503.02130), from a layer's input.

    Weights are ``[out, in]`` as in PyTorch; optional ones may be ``None``. The block
    applies, in this order: shift of keys and values by a token, norm of queries and
    keys, attention, output norm, output gate (``"sigmoid"``, the paper, or ``"silu"``,
    which the authors' code has too; ``None`` for no gate), output projection. Equation
    ``def-fox-pro``. A step whose arrays are ``None`` is left out. The forget gates have
    the parameters ``encoding_gate_weight`` and ``encoding_gate_bias``;
    ``out_gate_weight`` belongs to the output gate, ``o_gain`` to the output norm.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, one of ``q_gain`` and
        ``k_gain`` without the other, unknown ``output_gate``, or ``None`` with an
        ``out_gate_weight``.
    """
    if (q_gain is None) != (k_gain is None):
        raise ValueError("q_gain and k_gain go together, got one of them")
    require_output_gate(output_gate, out_gate_weight is not None)
    given = {
        name: require_floats(name, array)
        for name, array in locals().items()
        if name != "output_gate" and not (array is None and name in _OPTIONAL)
    }
    _require_block(given)
    x, bias = given["x"], given["encoding_gate_bias"]
    encoding = fox(gate_weight=given["encoding_gate_weight"], gate_bias=bias)
    heads = len(bias)

    def by_head(weight: Array) -> Array:
        by_token = (x @ weight.T).reshape(len(x), heads, len(weight) // heads)
        return np.moveaxis(by_token, 1, 0)

    q, k, v = (by_head(given[f"{name}_weight"]) for name in "qkv")
    if "k_shift_weight" in given:
        k = _shift(k, sigmoid(given["k_shift_weight"] @ x.T))
    if "v_shift_weight" in given:
        v = _shift(v, sigmoid(given["v_shift_weight"] @ x.T))
    if "q_gain" in given:
        q, k = (
            rms_norm(t, given[name], eps=1e-5)
            for t, name in ((q, "q_gain"), (k, "k_gain"))
        )
    out = attend(q, k, v, encoding, x=x)
    if "o_gain" in given:
        out = rms_norm(out, given["o_gain"], eps=1e-6)
    out = np.moveaxis(out, 0, 1).reshape(x.shape)
    if "out_gate_weight" in given:
        gate = x @ given["out_gate_weight"].T
        out = out * sigmoid(gate) * (gate if output_gate == "silu" else 1)
    return out @ given["o_weight"].T


_OPTIONAL = (
    *("k_shift_weight", "v_shift_weight", "q_gain", "k_gain", "o_gain"),
    "out_gate_weight",
)


def _require_block(given: dict[str, Array]) -> None:
    """Raise unless the arrays of :func:`fox_pro` have shapes that fit.

    ``given`` holds the arrays by their names; the sizes are those of ``x`` and
    ``encoding_gate_bias``.
    """
    x, b = given["x"].shape, given["encoding_gate_bias"].shape
    if len(x) != 2 or len(b) != 1 or not b[0] or x[1] % b[0]:
        raise ValueError(
            "x must be [tokens, d_model] and encoding_gate_bias [heads], with d_model "
            f"a multiple of heads, got shapes {list(x)} and {list(b)}"
        )
    (_, d_model), (heads,) = x, b
    for name, array in given.items():
        if name.endswith("gain"):
            needed = (heads, d_model // heads)
        elif "shift" in name or name == "encoding_gate_weight":
            needed = (heads, d_model)
        elif name.endswith("weight"):
            needed = (d_model, d_model)
        else:
            continue
        if array.shape != needed:
            raise ValueError(
                f"{name} must be {list(needed)} for {heads} heads and x of shape "
                f"{list(x)}, got shape {list(array.shape)}"
            )


def _shift(
    t: Float[Array, "heads tokens d"], alpha: Float[Array, "heads tokens"]
) -> Float[Array, "heads tokens d"]:
    """Mix each token's vector with the previous token's, which has the weight α.

    ``t`` holds the vectors. ``alpha`` holds α, from 0 to 1, for each head and token.
    The first token's vector is mixed with zeros.
    """
    before = np.concatenate((np.zeros_like(t[:, :1]), t[:, :-1]), axis=1)
    return alpha[..., None] * before + (1 - alpha[..., None]) * t


def sigmoid(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The logistic function σ(x) = 1/(1 + e^(−x)), without overflow."""
    return np.exp(-np.logaddexp(0.0, -x))


def rms_norm(
    x: Float[Array, "heads tokens d"], gain: Float[Array, "heads d"], *, eps: float
) -> Float[Array, "heads tokens d"]:
    """RMS norm: divide each vector by its root mean square, multiply by its gain.

    ``gain`` has a factor for each feature of each head; ``eps`` is added to the mean
    square.
    """
    size = np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)
    return x / size * gain[:, None]


def constant_gate_bias(
    heads: int, *, shortest: float, longest: float
) -> Float[Array, "heads"]:
    """FoX's constant gate bias b of each head: σ(b) = e^(−1/T) for a time scale T.

    The T of the heads, in tokens, are spaced evenly in log T, from ``shortest`` (the
    first head's) to ``longest``. These are the authors' data-independent and fixed
    gates (arXiv 2503.02130). A head with such a gate is ALiBi with slope 1/T. Equation
    ``eq-fox-alibi``.
    """
    require_dimension("heads", heads, 1)
    require_times(shortest, longest)
    rate = 1 / np.geomspace(float(shortest), float(longest), heads)
    return -(rate + np.log(-np.expm1(-rate)))
