"""FoX over symbols."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy.attention import softmax
from posedu.sympy.stickbreaking import sigmoid


def forget_bias(log_gates: Sequence[sp.Expr]) -> sp.Matrix:
    """D_ij = Σ log f_l over l = j + 1 … i, and 0 above the diagonal.

    Equation ``def-forget``.
    """
    n = len(log_gates)
    return sp.Matrix(n, n, lambda i, j: sp.Add(*log_gates[j + 1 : i + 1]))


def forgetting_attention(
    q: sp.Matrix, k: sp.Matrix, v: sp.Matrix, log_gates: Sequence[sp.Expr]
) -> sp.Matrix:
    """Causal attention with the logits q · k/√d + D; rows are tokens of one head."""
    logits = q * k.T / sp.sqrt(q.cols) + forget_bias(log_gates)
    rows = [softmax(list(logits[i, : i + 1])) * v[: i + 1, :] for i in range(q.rows)]
    return sp.Matrix.vstack(*rows)


def fox(
    q: sp.Matrix,
    k: sp.Matrix,
    v: sp.Matrix,
    x: sp.Matrix,
    *,
    gate_weight: sp.Matrix,
    gate_bias: sp.Expr,
) -> sp.Matrix:
    """:func:`forgetting_attention` with one head's gates of the layer's input."""
    return forgetting_attention(q, k, v, log_gates(x, gate_weight, gate_bias))


def log_gates(
    x: sp.Matrix, gate_weight: sp.Matrix, gate_bias: sp.Expr
) -> list[sp.Expr]:
    """The logarithm of every token's gate, σ(w · x + b). Equation ``def-gate``."""
    logits = x * sp.Matrix(gate_weight)
    return [sp.log(sigmoid(z + gate_bias)) for z in logits]


def fox_pro(
    x: sp.Matrix,
    *,
    q_weight: sp.Matrix,
    k_weight: sp.Matrix,
    v_weight: sp.Matrix,
    o_weight: sp.Matrix,
    encoding_gate_weight: sp.Matrix,
    encoding_gate_bias: sp.Matrix,
    k_shift_weight: sp.Matrix,
    v_shift_weight: sp.Matrix,
    q_gain: sp.Matrix,
    k_gain: sp.Matrix,
    o_gain: sp.Matrix,
    out_gate_weight: sp.Matrix,
) -> sp.Matrix:
    """The whole FoX (Pro) block; tokens are rows. Equation ``def-fox-pro``."""
    w = {
        name: sp.Matrix(value)
        for name, value in locals().items()
        if name not in ("x", "encoding_gate_bias")
    }
    heads = w["q_gain"].rows
    d = x.cols // heads
    gate = (x * w["out_gate_weight"].T).applyfunc(sigmoid)
    outs = []
    for h in range(heads):
        own = slice(h * d, (h + 1) * d)
        q, k, v = (x * w[f"{n}_weight"][own, :].T for n in "qkv")
        k = _shift(k, x * w["k_shift_weight"][h, :].T)
        v = _shift(v, x * w["v_shift_weight"][h, :].T)
        q = _rms_norm(q, w["q_gain"][h, :], sp.Rational(1, 10**5))
        k = _rms_norm(k, w["k_gain"][h, :], sp.Rational(1, 10**5))
        gates = log_gates(x, w["encoding_gate_weight"][h, :].T, encoding_gate_bias[h])
        out = forgetting_attention(q, k, v, gates)
        out = _rms_norm(out, w["o_gain"][h, :], sp.Rational(1, 10**6))
        outs.append(out.multiply_elementwise(gate[:, own]))
    return sp.Matrix.hstack(*outs) * w["o_weight"].T


def _shift(t: sp.Matrix, gate_logits: sp.Matrix) -> sp.Matrix:
    before = sp.Matrix.vstack(sp.zeros(1, t.cols), t[:-1, :])
    alpha = sp.diag(*gate_logits.applyfunc(sigmoid))
    return alpha * before + (sp.eye(t.rows) - alpha) * t


def _rms_norm(x: sp.Matrix, gain: sp.Matrix, eps: sp.Expr) -> sp.Matrix:
    rows = []
    for i in range(x.rows):
        row = x[i, :]
        size = sp.sqrt(row.dot(row) / x.cols + eps)
        rows.append((row / size).multiply_elementwise(gain))
    return sp.Matrix.vstack(*rows)
