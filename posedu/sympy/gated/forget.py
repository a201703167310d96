"""FoX over symbols."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import FORMS, require_choice
from posedu.sympy.attention import Doors, Heads, Tokens, attend
from posedu.sympy.stickbreaking import sigmoid


def forget_bias(log_gates: Sequence[sp.Expr]) -> sp.Matrix:
    """D_ij = Σ log f_l over l = j + 1 … i, and 0 above the diagonal.

    Equation ``def-forget``.
    """
    n = len(log_gates)
    return sp.Matrix(n, n, lambda i, j: sp.Add(*log_gates[j + 1 : i + 1]))


def fox(
    *,
    gate_bias: Sequence[sp.Expr],
    gate_weight: sp.Matrix | None = None,
    form: str = "difference",
) -> Doors:
    """FoX as doors: D of each head, with the gates of the layer's input.

    ``gate_weight`` is ``[heads, d_model]``; without it gates are the same for all
    tokens. ``form="key"`` leaves out what is the same for a row.
    """
    require_choice("form", form, FORMS)

    def bias(tokens: Tokens) -> Heads:
        n = len(tokens.seen)
        heads = []
        for h, b in enumerate(gate_bias):
            if gate_weight is None:
                gates = [sp.log(sigmoid(b))] * n
            else:
                gates = log_gates(tokens.x, sp.Matrix(gate_weight)[h, :].T, b)
            if form == "key":
                of_keys = sp.Matrix([[-sp.Add(*gates[: j + 1]) for j in range(n)]])
                heads.append(sp.ones(n, 1) * of_keys)
            else:
                heads.append(forget_bias(gates))
        return tuple(heads)

    return Doors(bias=bias)


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
    encoding = fox(gate_weight=w["encoding_gate_weight"], gate_bias=encoding_gate_bias)
    d = x.cols // heads
    queries, keys, values = [], [], []
    for h in range(heads):
        own = slice(h * d, (h + 1) * d)
        q, k, v = (x * w[f"{n}_weight"][own, :].T for n in "qkv")
        k = _shift(k, x * w["k_shift_weight"][h, :].T)
        values.append(_shift(v, x * w["v_shift_weight"][h, :].T))
        queries.append(_rms_norm(q, w["q_gain"][h, :], sp.Rational(1, 10**5)))
        keys.append(_rms_norm(k, w["k_gain"][h, :], sp.Rational(1, 10**5)))
    outs = attend(queries, keys, values, encoding, x=x)
    normed = [
        _rms_norm(out, w["o_gain"][h, :], sp.Rational(1, 10**6))
        for h, out in enumerate(outs)
    ]
    gate = (x * w["out_gate_weight"].T).applyfunc(sigmoid)
    return sp.Matrix.hstack(*normed).multiply_elementwise(gate) * w["o_weight"].T


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
