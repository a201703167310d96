"""Multi-head latent attention in SymPy: keys and values made of a latent vector."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import Layout, require_dimension
from posedu.sympy._expressions import matrix
from posedu.sympy.attention import Heads, Hooks, attend, by_token
from posedu.sympy.rotary.rope import rope


def mla(
    x: sp.Matrix,
    positions: Sequence[sp.Expr | float] | None = None,
    *,
    heads: int,
    layout: Layout,
    q_weight: sp.Matrix,
    kv_down_weight: sp.Matrix,
    k_up_weight: sp.Matrix,
    v_up_weight: sp.Matrix,
    o_weight: sp.Matrix,
    q_down_weight: sp.Matrix | None = None,
    q_gain: Sequence[sp.Expr] | None = None,
    kv_gain: Sequence[sp.Expr] | None = None,
    base: sp.Expr | float = 10000,
) -> sp.Matrix:
    """Output of causal multi-head latent attention with RoPE, from a layer's input.

    Tokens are rows of ``x``. ``kv_down_weight`` makes each token's latent vector and
    the rotated key that heads share; ``k_up_weight`` and ``v_up_weight`` make keys and
    values of the latent vector. Without ``q_down_weight`` queries come directly from
    ``x``; without a gain there is no norm. Equation ``def-cache-mla``. See
    :func:`posedu.numpy.rotary.mla`.
    """
    require_dimension("heads", heads, 1)
    up = matrix("k_up_weight", k_up_weight)
    d, latent_size = up.rows // heads, up.cols

    down = x * matrix("kv_down_weight", kv_down_weight).T
    latent, shared = down[:, :latent_size], down[:, latent_size:]
    latent = _rms_norm(latent, "kv_gain", kv_gain)
    source = x
    if q_down_weight is not None:
        source = _rms_norm(
            x * matrix("q_down_weight", q_down_weight).T, "q_gain", q_gain
        )

    def by_head(features: sp.Matrix) -> list[sp.Matrix]:
        n = features.cols // heads
        return [features[:, h * n : (h + 1) * n] for h in range(heads)]

    q = by_head(source * matrix("q_weight", q_weight).T)
    k = [sp.Matrix.hstack(t, shared) for t in by_head(latent * up.T)]
    v = by_head(latent * matrix("v_up_weight", v_up_weight).T)

    def rotate_end(column: sp.Matrix, position: sp.Expr) -> sp.Matrix:
        rotated = rope(column[d:, :], position, layout=layout, base=base)
        return sp.Matrix.vstack(column[:d, :], rotated)

    def rotate(q: Heads, k: Heads, at: Sequence) -> tuple[Heads, Heads]:
        return by_token(rotate_end, q, at), by_token(rotate_end, k, at)

    outs = attend(q, k, v, Hooks(rotate=rotate), positions=positions)
    return sp.Matrix.hstack(*outs) * matrix("o_weight", o_weight).T


def _rms_norm(x: sp.Matrix, name: str, gain: Sequence[sp.Expr] | None) -> sp.Matrix:
    """RMS norm: divide each row by its root mean square, multiply by ``gain``.

    If ``gain`` is ``None``, ``x`` is returned unchanged. ``name`` is the name of the
    gain, for error messages.
    """
    if gain is None:
        return x
    gains, eps = matrix(name, gain).T, sp.Rational(1, 10**6)
    rows = [
        (x[i, :] / sp.sqrt(x[i, :].dot(x[i, :]) / x.cols + eps)) for i in range(x.rows)
    ]
    return sp.Matrix.vstack(*(row.multiply_elementwise(gains) for row in rows))
