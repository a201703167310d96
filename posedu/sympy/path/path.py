"""PaTH and PaTH-FoX in SymPy: exact Householder matrices of a few tokens."""

from collections.abc import Sequence
from typing import Any

import sympy as sp

from posedu._arguments import PathScaling, require_bool, require_choice
from posedu.sympy._expressions import expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.gated.fox import forget_bias, log_gates
from posedu.sympy.path.product import path_scores, short_convolution
from posedu.sympy.stickbreaking import sigmoid


def householder(w: sp.Matrix, beta: sp.Expr) -> sp.Matrix:
    """The matrix I − β w wᵀ of a column w: a reflection for β = 2 and a unit w.

    Equation ``def-householder``.
    """
    return sp.eye(w.rows) - beta * w * w.T


def directions(
    x: sp.Matrix,
    w_up: sp.Matrix,
    w_down: sp.Matrix | None = None,
    w_taps: sp.Matrix | None = None,
) -> list[sp.Matrix]:
    """PaTH's unit vectors w of each token in one head, as columns.

    ``x`` has a row for each token; ``w_up`` is ``[d, rank]``, ``w_down`` ``[rank,
    d_model]``, ``w_taps`` ``[d, width]``. Equation ``def-path-directions``.
    """
    inner = x if w_down is None else x * matrix("w_down", w_down).T
    w = inner * matrix("w_up", w_up).T
    if w_taps is not None:
        w = short_convolution(w, matrix("w_taps", w_taps)).applyfunc(
            lambda z: z * sigmoid(z)
        )
    eps = sp.Rational(1, 10**6)
    return [(w[t, :] / sp.sqrt(w[t, :].dot(w[t, :]) + eps)).T for t in range(w.rows)]


def path_products(
    tokens: Tokens,
    *,
    heads: int,
    w_up: Sequence[sp.Matrix],
    beta_weight: sp.Matrix,
    beta_bias: Sequence[sp.Expr],
    w_down: sp.Matrix | None = None,
    w_taps: Sequence[sp.Matrix] | None = None,
    negative_eigenvalues: bool = True,
) -> Heads:
    """PaTH's products q_i · T_i ⋯ T_(j+1) k_j of each head; ``def-path``.

    The arguments are those of :func:`posedu.numpy.path.path_products`.
    """
    require_bool("negative_eigenvalues", negative_eigenvalues)
    if tokens.x is None:
        raise ValueError("path needs the layer's input: give attend x")
    x, largest = tokens.x, 2 if negative_eigenvalues else 1
    weights, biases = matrix("beta_weight", beta_weight), expressions("", beta_bias)
    transitions = []
    for own, up in enumerate(w_up):
        taps = None if w_taps is None else w_taps[own]
        w = directions(x, up, w_down, taps)
        logits = x * weights[own, :].T
        betas = [largest * sigmoid(z + biases[own]) for z in logits]
        transitions.append([*map(householder, w, betas)])
    group = heads // len(transitions)
    return path_scores(tokens, [own for own in transitions for _ in range(group)])


def path_attention(
    *,
    heads: int,
    w_up: Sequence[sp.Matrix],
    beta_weight: sp.Matrix,
    beta_bias: Sequence[sp.Expr],
    w_down: sp.Matrix | None = None,
    w_taps: Sequence[sp.Matrix] | None = None,
    negative_eigenvalues: bool = True,
) -> Hooks:
    """Return the hooks of PaTH, the functions by which it acts on attention.

    The arguments are those of :func:`path_products`. Equation ``def-path``.
    """
    weights: dict[str, Any] = dict(
        heads=heads,
        w_up=w_up,
        beta_weight=beta_weight,
        beta_bias=beta_bias,
        w_down=w_down,
        w_taps=w_taps,
        negative_eigenvalues=negative_eigenvalues,
    )

    def logits(tokens: Tokens) -> Heads:
        products = path_products(tokens, **weights)
        return tuple(m / sp.sqrt(tokens.d) for m in products)

    return Hooks(logits=logits, heads=heads, needs_causal=True)


def path_fox(
    *,
    gate_weight: sp.Matrix,
    gate_bias: Sequence[sp.Expr],
    scaling: PathScaling,
    heads: int,
    w_up: Sequence[sp.Matrix],
    beta_weight: sp.Matrix,
    beta_bias: Sequence[sp.Expr],
    w_down: sp.Matrix | None = None,
    w_taps: Sequence[sp.Matrix] | None = None,
    negative_eigenvalues: bool = True,
) -> Hooks:
    """Return the hooks of PaTH-FoX, the functions by which it acts on attention.

    Arguments as for :func:`posedu.numpy.path.path_fox`. Equation ``def-path-fox``.
    """
    require_choice("scaling", scaling, PathScaling)
    gate_weight = matrix("gate_weight", gate_weight)
    gate_bias = expressions("gate_bias", gate_bias)
    weights: dict[str, Any] = dict(
        heads=heads,
        w_up=w_up,
        beta_weight=beta_weight,
        beta_bias=beta_bias,
        w_down=w_down,
        w_taps=w_taps,
        negative_eigenvalues=negative_eigenvalues,
    )

    def logits(tokens: Tokens) -> Heads:
        root = sp.sqrt(tokens.d)
        scores = []
        for h, product in enumerate(path_products(tokens, **weights)):
            gates = forget_bias(log_gates(tokens.x, gate_weight[h, :].T, gate_bias[h]))
            if scaling == "logit":
                scores.append((product + gates) / root)
            else:
                scores.append(product / root + gates)
        return tuple(scores)

    return Hooks(logits=logits, heads=heads, needs_causal=True)
