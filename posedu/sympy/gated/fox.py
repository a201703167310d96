"""FoX in SymPy: each token's forget gate sets how much of the past is forgotten."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import FoXForm, OutputGate, require_choice, require_output_gate
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens, attend
from posedu.sympy.stickbreaking import sigmoid


def forget_bias(log_gates: Sequence[sp.Expr]) -> sp.Matrix:
    """FoX's bias D_ij of query i and key j: the sum of the log gates after j up to i.

    D_ij = Σ log f_l over l = j + 1 … i, and 0 above the diagonal, where log f_l is
    token l's entry of ``log_gates``. Equation ``def-forget``.
    """
    n = len(log_gates)
    return sp.Matrix(n, n, lambda i, j: sp.Add(*log_gates[j + 1 : i + 1]))


def fox(
    *,
    gate_bias: Sequence[sp.Expr],
    gate_weight: sp.Matrix | None = None,
    form: FoXForm = "difference",
) -> Hooks:
    """Return the hooks of FoX, the functions by which it acts on attention.

    The bias of each head is :func:`forget_bias` of forget gates, which are computed
    from the layer's input. ``gate_bias`` has a number for each head. ``gate_weight`` is
    ``[heads, d_model]``; without it gates are the same for all tokens. ``form="key"``
    leaves out the terms that all keys of a query share.
    """
    require_choice("form", form, FoXForm)

    gate_bias = expressions("gate_bias", gate_bias)
    if gate_weight is not None:
        gate_weight = matrix("gate_weight", gate_weight)
    if gate_weight is not None and gate_weight.rows != len(gate_bias):
        raise ValueError("gate_weight and gate_bias must have as many heads")

    def bias(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("fox needs the layer's input: give attend x")
        n = len(tokens.visible)
        heads = []
        for h, b in enumerate(gate_bias):
            if gate_weight is None:
                gates = [sp.log(sigmoid(b))] * n
            else:
                gates = log_gates(tokens.x, gate_weight[h, :].T, b)
            if form == "key":
                of_keys = sp.Matrix([[-sp.Add(*gates[: j + 1]) for j in range(n)]])
                heads.append(sp.ones(n, 1) * of_keys)
            else:
                heads.append(forget_bias(gates))
        return tuple(heads)

    return Hooks(bias=bias, heads=len(gate_bias), needs_causal=True)


def log_gates(
    x: sp.Matrix, gate_weight: sp.Matrix, gate_bias: sp.Expr
) -> list[sp.Expr]:
    """The logarithm of one head's forget gate σ(w · x + b) at every token.

    ``x`` has a row for each token, ``gate_weight`` is the row w and ``gate_bias`` the
    number b. Equation ``def-gate``.
    """
    logits = x * matrix("gate_weight", gate_weight)
    gate_bias = expression("gate_bias", gate_bias)
    return [sp.log(sigmoid(z + gate_bias)) for z in logits]


def fox_pro(
    x: sp.Matrix,
    *,
    q_weight: sp.Matrix,
    k_weight: sp.Matrix,
    v_weight: sp.Matrix,
    o_weight: sp.Matrix,
    encoding_gate_weight: sp.Matrix,
    encoding_gate_bias: Sequence[sp.Expr],
    k_shift_weight: sp.Matrix | None = None,
    v_shift_weight: sp.Matrix | None = None,
    q_gain: sp.Matrix | None = None,
    k_gain: sp.Matrix | None = None,
    o_gain: sp.Matrix | None = None,
    out_gate_weight: sp.Matrix | None = None,
    output_gate: OutputGate | None = "sigmoid",
) -> sp.Matrix:
    """Output of the attention block FoX (Pro), from a layer's input; tokens are rows.

    A step whose weights are ``None`` (shifts of keys and values, norms, the output
    gate) is left out. ``output_gate`` is the function of the output gate, ``"sigmoid"``
    or ``"silu"``. Equation ``def-fox-pro``. See :func:`posedu.numpy.gated.fox_pro`.
    """
    require_output_gate(output_gate, out_gate_weight is not None)
    encoding = fox(gate_weight=encoding_gate_weight, gate_bias=encoding_gate_bias)
    heads = len(encoding_gate_bias)
    d = x.cols // heads

    def by_head(weight):
        projected = x * matrix("a weight", weight).T
        return [projected[:, h * d : (h + 1) * d] for h in range(heads)]

    def shifted(parts, weight):
        if weight is None:
            return parts
        gates = x * matrix("a weight", weight).T
        return [_shift(t, gates[:, h]) for h, t in enumerate(parts)]

    def normed(parts, gain, eps):
        if gain is None:
            return parts
        rows = matrix("a gain", gain)
        return [_rms_norm(t, rows[h, :], eps) for h, t in enumerate(parts)]

    q, k, v = by_head(q_weight), by_head(k_weight), by_head(v_weight)
    k, v = shifted(k, k_shift_weight), shifted(v, v_shift_weight)
    eps = sp.Rational(1, 10**5)
    q, k = normed(q, q_gain, eps), normed(k, k_gain, eps)
    outs = normed(attend(q, k, v, encoding, x=x), o_gain, eps / 10)
    out = sp.Matrix.hstack(*outs)
    if out_gate_weight is not None:
        logits = x * matrix("out_gate_weight", out_gate_weight).T
        act = sigmoid if output_gate == "sigmoid" else lambda z: z * sigmoid(z)
        out = out.multiply_elementwise(logits.applyfunc(act))
    return out * matrix("o_weight", o_weight).T


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
