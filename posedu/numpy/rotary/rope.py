"""RoPE: queries and keys rotated by angles proportional to position."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Complex, Float, Int, Shaped

from posedu._arguments import (
    Layout,
    require_bool,
    require_choice,
    require_dimension,
    require_finite,
    require_own_frequencies,
    require_rotary_dim,
)
from posedu.numpy._arrays import (
    Number,
    Positions,
    align_positions,
    as_array,
    require_floats,
    require_position,
    require_positions,
    require_vectors,
)
from posedu.numpy.frequencies import frequencies as geometric

Array = np.ndarray


def pairs(d: int, *, layout: Layout) -> tuple[Int[Array, "pairs"], Int[Array, "pairs"]]:
    """Indices (a_p, b_p) of the two features that RoPE rotates together as pair p.

    ``layout="interleaved"``: (2p, 2p + 1), as RoFormer and Meta's Llama.
    ``layout="half"``: (p, p + d/2), as GPT-NeoX and Hugging Face's Llama.
    """
    d = require_dimension("d", d)
    p = np.arange(d // 2)
    if require_choice("layout", layout, Layout) == "interleaved":
        return 2 * p, 2 * p + 1
    return p, p + d // 2


def rotation(
    position: Number,
    d: int,
    *,
    layout: Layout,
    base: float = 10000.0,
    rotary_dim: int | None = None,
) -> Float[Array, "d d"]:
    """The dense rotation matrix R_i of one position (arXiv 2104.09864 Eq. 15).

    Parameters
    ----------
    position
        An integer or finite real.
    d
        Head dimension, even.
    layout
        Which features form a pair; see :func:`pairs`.
    base
        See :func:`posedu.numpy.frequencies.frequencies`. Default 10000 (the paper).
    rotary_dim
        How many leading features rotate; the rest stay. ``None``: all ``d``.

    Returns
    -------
    float64 array ``[d, d]``, orthogonal, determinant 1. Equation ``def-rope-dense``.

    Raises
    ------
    TypeError, ValueError
        ``d`` or ``rotary_dim`` odd, not positive or too large, unknown ``layout``,
        ``base`` not above 1, position not finite.
    """
    r = require_rotary_dim(rotary_dim, d)
    a, b = pairs(r, layout=layout)
    angle = require_position("position", position) * geometric(r, base=base)
    matrix = np.eye(d)
    matrix[a, a], matrix[a, b] = np.cos(angle), -np.sin(angle)
    matrix[b, a], matrix[b, b] = np.sin(angle), np.cos(angle)
    return matrix


def rope(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    layout: Layout,
    base: float = 10000.0,
    rotary_dim: int | None = None,
    frequencies: Float[Array, "pairs"] | Sequence[float] | None = None,
    attention_factor: float = 1.0,
) -> Float[Array, "*batch tokens d"]:
    """Rotate each pair p of features of queries or keys by the angle position · ω_p.

    ω_p is the frequency of pair p. The elementwise form of RoPE (arXiv 2104.09864 Eq.
    34), for the hook ``rotate``, a function that attention calls. Equation
    ``def-rope``.

    Parameters
    ----------
    x
        Queries or keys, any float dtype; computed in float64.
    positions
        Integers or finite reals, ``[tokens]`` or ``[batch, tokens]``.
    layout, base, rotary_dim
        See :func:`rotation`. Frequencies are base^(−2p/rotary_dim).
    frequencies
        Frequencies ω_p of the leading pairs, in place of base^(−2p/rotary_dim): context
        extension methods change them.
    attention_factor
        Factor of the rotated features (YaRN's ``mscale``, arXiv 2309.00071 §3.4).
        Default 1.

    Returns
    -------
    float64 array of the shape of ``x``.

    Raises
    ------
    TypeError, ValueError
        As :func:`rotation`; ``x`` not floating; shapes that do not match; frequencies
        or an attention factor that are not finite.
    """
    x = require_vectors("x", x)
    if frequencies is not None:
        frequencies = require_positions(frequencies, "frequencies")
        if frequencies.ndim != 1:
            raise ValueError(
                f"frequencies must be [pairs], got shape {list(frequencies.shape)}"
            )
        rotary_dim = require_own_frequencies(frequencies, rotary_dim)
    r = require_rotary_dim(rotary_dim, x.shape[-1])
    a, b = pairs(r, layout=layout)
    omega = geometric(r, base=base) if frequencies is None else frequencies
    angle = align_positions(positions, x)[..., None] * omega
    m = require_finite("attention_factor", attention_factor)
    y = x.copy()
    y[..., a] = m * (x[..., a] * np.cos(angle) - x[..., b] * np.sin(angle))
    y[..., b] = m * (x[..., a] * np.sin(angle) + x[..., b] * np.cos(angle))
    return y


def rope_dense(
    x: Float[Array, "tokens d"],
    positions: Positions,
    *,
    layout: Layout,
    base: float = 10000.0,
    rotary_dim: int | None = None,
) -> Float[Array, "tokens d"]:
    """Rotate each token's features by RoPE's dense d × d matrix, for use in proofs.

    The vectors equal those of :func:`rope`, but at a cost of O(tokens · d²). Arguments
    and errors as :func:`rope` and :func:`rotation`.
    """
    x = require_floats("x", x)
    if x.ndim != 2:
        raise ValueError(f"x must be [tokens, d], got shape {list(x.shape)}")
    positions = align_positions(positions, x)
    matrix = partial(
        rotation, d=x.shape[-1], layout=layout, base=base, rotary_dim=rotary_dim
    )
    rotated = [matrix(i) @ v for i, v in zip(positions, x, strict=True)]
    return np.array(rotated).reshape(x.shape)


def to_complex(
    x: Float[Array, "*batch d"], *, layout: Layout
) -> Complex[Array, "*batch pairs"]:
    """Return each pair (a, b) of features as the complex number a + ib.

    ``layout`` says which features form a pair; see :func:`pairs`.
    """
    x = require_floats("x", x)
    if x.ndim == 0:
        raise ValueError("x must be [..., d], got a single number")
    a, b = pairs(x.shape[-1], layout=layout)
    return x[..., a] + 1j * x[..., b]


def rope_complex(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    layout: Layout,
    base: float = 10000.0,
) -> Complex[Array, "*batch tokens pairs"]:
    """Rotate by RoPE, with pairs as complex numbers: z_p → z_p e^{i · position · ω_p}.

    Equation ``def-rope-complex``. Arguments and errors as :func:`rope`; the pairs are
    returned as complex numbers.
    """
    x = require_vectors("x", x)
    z = to_complex(x, layout=layout)
    omega = geometric(x.shape[-1], base=base)
    return z * np.exp(1j * align_positions(positions, x)[..., None] * omega)


def layout_permutation(d: int) -> Int[Array, "d"]:
    """Indices that reorder features from the interleaved to the half layout.

    They are 0, 2, …, d−2, 1, 3, …, d−1: π in ``x_half = x_interleaved[π]``. In the
    interleaved layout pair p is the features 2p and 2p + 1, in the half layout p and p
    + d/2.
    """
    return np.concatenate(pairs(d, layout="interleaved"))


def convert_layout(
    weight: Shaped[Array, "features *rest"],
    heads: int,
    *,
    source: Layout,
    target: Layout,
    rotary_dim: int | None = None,
) -> Shaped[Array, "features *rest"]:
    """Reorder rows of W_q or W_k (or their bias) from layout ``source`` to ``target``.

    Scores are unchanged when W_q and W_k are both converted and the rotation uses
    ``target``. Equation ``eq-rope-layout``.

    Parameters
    ----------
    weight
        ``[heads · d, d_model]``, or a bias ``[heads · d]``.
    heads
        Heads of *this* matrix: for grouped queries, W_k has ``kv_heads``.
    source, target
        The layouts, see :func:`pairs`.
    rotary_dim
        How many leading features of each head rotate. ``None``: all.
    """
    weight = as_array("weight", weight)
    require_dimension("heads", heads, 1)
    if weight.ndim == 0 or weight.shape[0] % heads:
        raise ValueError(
            f"the first axis of weight must be a multiple of heads = {heads}, "
            f"got shape {list(weight.shape)}"
        )
    d = weight.shape[0] // heads
    r = require_rotary_dim(rotary_dim, d)
    by_head = weight.reshape(heads, d, *weight.shape[1:]).copy()
    from_features = np.concatenate(pairs(r, layout=source))
    to_features = np.concatenate(pairs(r, layout=target))
    by_head[:, to_features] = by_head[:, from_features]
    return by_head.reshape(weight.shape)


def decay_bound(
    offsets: Positions, d: int, *, base: float = 10000.0
) -> Float[Array, "*offsets"] | float:
    """RoPE's decay bound B(r) at each offset r: mean modulus of partial sums of phases.

    r is query position minus key position, ω_p the frequency of pair p. The phases are
    e^{i r ω_p}, and the sums are over the first 1, …, d/2 phases. A RoPE score at
    offset r has modulus at most d/2 · B(r) times the largest modulus of h_{p+1} − h_p,
    where h_p are the products of query and key pairs as complex numbers, and 0 after
    the last (arXiv 2104.09864 §3.4.3). Equation ``eq-rope-decay``. ``d`` and ``base``
    give RoPE's frequencies ω_p = base^(−2p/d).
    """
    omega = geometric(d, base=base)
    phase = np.exp(1j * require_positions(offsets, "offsets")[..., None] * omega)
    return np.abs(np.cumsum(phase, axis=-1)).mean(axis=-1)


def rope_linear_attention(
    q: Float[Array, "*batch tokens d"],
    k: Float[Array, "*batch tokens d"],
    v: Float[Array, "*batch tokens d_v"],
    positions: Positions,
    *,
    layout: Layout,
    base: float = 10000.0,
    causal: bool = False,
) -> Float[Array, "*batch tokens d_v"]:
    """Linear attention with RoPE in the numerator only (arXiv 2104.09864 Eq. 19).

    The feature map is elu + 1, before the rotation. Equation ``def-rope-linear``.

    Parameters
    ----------
    q, k, v
        Queries, keys and values of any float dtype; computed in float64, from the
        product of every query and key, which the linear form avoids by two running
        sums.
    positions
        Integers or finite reals, ``[tokens]`` or ``[batch, tokens]``.
    layout, base
        See :func:`rotation`.
    causal
        Whether a query attends only to itself and earlier tokens. Default false.

    Raises
    ------
    TypeError, ValueError
        As :func:`rope`; shapes that do not match.
    """
    q, k, v = (require_floats(n, a) for n, a in (("q", q), ("k", k), ("v", v)))
    if q.ndim < 2 or k.shape != q.shape or v.shape[:-1] != q.shape[:-1]:
        raise ValueError(
            "q and k must be [..., tokens, d] and v [..., tokens, d_v], got "
            f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    require_bool("causal", causal)
    q, k = elu_plus_one(q), elu_plus_one(k)
    visible = np.tri(q.shape[-2]) if causal else 1.0
    scores = visible * (q @ k.swapaxes(-1, -2))
    q, k = (rope(t, positions, layout=layout, base=base) for t in (q, k))
    rotated_scores = visible * (q @ k.swapaxes(-1, -2))
    return rotated_scores @ v / scores.sum(axis=-1, keepdims=True)


def elu_plus_one(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The feature map of linear attention: x + 1 above 0 and e^x below."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
