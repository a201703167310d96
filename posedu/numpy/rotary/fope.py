"""FoPE: a Fourier series in place of each pair's single frequency."""

from typing import Any

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    FoPEPadding,
    Layout,
    require_base,
    require_bool,
    require_choice,
    require_dimension,
    require_fourier_dim,
    require_heads,
)
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    require_floats,
    require_positions,
    require_vectors,
)
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary.grid import for_heads_of
from posedu.numpy.rotary.rope import pairs

Array = np.ndarray


def kept_frequencies(
    d: int, *, length: int, base: float = 10000.0
) -> Float[Array, "kept"]:
    """RoPE's frequencies of at least 2π/length, which make a full turn in training.

    FoPE keeps these frequencies (arXiv 2412.17739 §3.3). Equation ``def-fope-floor``.

    Parameters
    ----------
    d
        Head dimension, even.
    length
        Training length.
    base
        Base of the frequencies. Default 10000.

    Raises
    ------
    TypeError, ValueError
        As :func:`posedu.numpy.frequencies.frequencies`; a length that keeps none.
    """
    omega = frequencies(d, base=base)
    floor = 2 * np.pi / require_dimension("length", length, 1)
    kept = omega[omega >= floor]
    if len(kept) == 0:
        raise ValueError(
            f"length must be at least 7 to keep a frequency above 2π/length, "
            f"got {length}"
        )
    return kept


def fope_table(
    positions: Positions,
    d: int,
    *,
    cos_coefficients: Float[Array, "*heads kept series"],
    sin_coefficients: Float[Array, "*heads kept series"],
    length: int,
    padding: FoPEPadding,
    base: float = 10000.0,
    fourier_dim: int | None = None,
    normalize: bool = False,
) -> tuple[Float[Array, "*table tokens pairs"], Float[Array, "*table tokens pairs"]]:
    """FoPE's cosine and sine series for every pair of features at each position x.

    ω_l are the kept frequencies, c and s the coefficients. The series of pair p are Σ_l
    cos(ω_l x) c_lp and Σ_l sin(ω_l x) s_lp. Equation ``def-fope``. Pairs without a
    series, the slowest, are padded.

    Parameters
    ----------
    positions
        Finite reals, ``[*rows, tokens]``. With coefficients for each head the last axis
        of ``rows`` has size 1 or the number of heads.
    d, length, base
        As :func:`kept_frequencies`.
    cos_coefficients, sin_coefficients
        A column for each pair that has a series, at most d/2 of them.
    padding
        ``"identity"``: (1, 0), so that the pair does not rotate (the paper's Eq. 13).
        ``"ones"``: (1, 1), which rotates it by 45° and scales it by √2 (the code).
    fourier_dim
        The head dimension whose frequencies are summed, at least d: more of them are
        closer to each other (the authors' ``fourier_dim``). Default d.
    normalize
        Whether each column is divided by its sum (the authors' ``fourier_norm``).

    Raises
    ------
    TypeError, ValueError
        Cosine and sine coefficients of different shapes, or without one row for each
        kept frequency, columns of sum 0 to normalize, unknown ``padding``, a
        ``fourier_dim`` below d.
    """
    fourier_dim = require_fourier_dim(fourier_dim, d)
    omega = kept_frequencies(fourier_dim, length=length, base=base)
    c = require_floats("cos_coefficients", cos_coefficients)
    s = require_floats("sin_coefficients", sin_coefficients)
    if (
        s.shape != c.shape
        or c.ndim not in (2, 3)
        or c.shape[-2] != len(omega)
        or c.shape[-1] > d // 2
    ):
        raise ValueError(
            f"cos_coefficients and sin_coefficients must be [{len(omega)}, series] or "
            f"[heads, {len(omega)}, series] with at most {d // 2} series, got shapes "
            f"{list(c.shape)} and {list(s.shape)}"
        )
    if require_bool("normalize", normalize):
        c, s = _normalized(c), _normalized(s)
    sine = 0.0 if require_choice("padding", padding, FoPEPadding) == "identity" else 1.0
    angle = require_positions(positions)[..., None] * omega
    missing = d // 2 - c.shape[-1]
    return _pad(np.cos(angle) @ c, missing, 1.0), _pad(np.sin(angle) @ s, missing, sine)


def _normalized(
    coefficients: Float[Array, "*heads kept series"],
) -> Float[Array, "*heads kept series"]:
    total = coefficients.sum(axis=-2, keepdims=True)
    if (total == 0).any():
        raise ValueError("a column of coefficients whose sum is 0 can't be normalized")
    return coefficients / total


def _pad(
    table: Float[Array, "*rows series"], missing: int, value: float
) -> Float[Array, "*rows pairs"]:
    margin = [(0, 0)] * (table.ndim - 1) + [(0, missing)]
    return np.pad(table, margin, constant_values=value)


def fope(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    cos_coefficients: Float[Array, "*heads kept series"],
    sin_coefficients: Float[Array, "*heads kept series"],
    length: int,
    layout: Layout,
    padding: FoPEPadding,
    base: float = 10000.0,
    fourier_dim: int | None = None,
    normalize: bool = False,
) -> Float[Array, "*batch tokens d"]:
    """Apply FoPE to queries or keys as the authors' code does, token by token.

    Each pair of features (a, b) becomes (C a − S b, S a + C b), with the two series C
    and S of :func:`fope_table` at the token's position. In general this is no rotation,
    and scores are not relative (``eq-fope-mixing``). For the hook ``rotate``, a
    function that attention calls.

    Parameters
    ----------
    x
        Queries or keys, any float dtype; computed in float64.
    positions
        Integers or finite reals, ``[tokens]`` or ``[batch, tokens]``.
    cos_coefficients, sin_coefficients, length, padding, base, fourier_dim, normalize
        As :func:`fope_table`. Coefficients may have a first axis of heads where ``x``
        is ``[…, heads, tokens, d]``; if ``x`` has more heads, neighbors share them.
    layout
        See :func:`posedu.numpy.rotary.pairs`.

    Returns
    -------
    float64 array of the shape of ``x``. Equation ``def-fope``.

    Raises
    ------
    TypeError, ValueError
        As :func:`fope_table`; shapes that do not match; positions not finite.
    """
    x = require_vectors("x", x)
    a, b = pairs(x.shape[-1], layout=layout)
    cos, sin = _table_for(
        x,
        align_positions(positions, x),
        cos_coefficients,
        sin_coefficients,
        length=length,
        padding=padding,
        base=base,
        fourier_dim=fourier_dim,
        normalize=normalize,
    )
    y = np.empty_like(x)
    y[..., a] = x[..., a] * cos - x[..., b] * sin
    y[..., b] = x[..., a] * sin + x[..., b] * cos
    return y


def _table_for(
    x: Float[Array, "*batch tokens d"],
    positions: Float[Array, "*rows places"],
    cos_coefficients: Float[Array, "*heads kept series"],
    sin_coefficients: Float[Array, "*heads kept series"],
    **series: Any,
) -> tuple[Float[Array, "*table places pairs"], Float[Array, "*table places pairs"]]:
    """Return FoPE's cosine and sine series for every head of ``x`` at ``positions``.

    Coefficients of fewer heads than ``x`` has are repeated. ``series`` are further
    arguments of :func:`fope_table`. If coefficients have no axis of heads, neither have
    the series.
    """
    c = require_floats("cos_coefficients", cos_coefficients)
    s = require_floats("sin_coefficients", sin_coefficients)
    return fope_table(
        positions,
        x.shape[-1],
        cos_coefficients=for_heads_of(x, c, 2),
        sin_coefficients=for_heads_of(x, s, 2),
        **series,
    )


def fope_scores(
    q: Float[Array, "*heads queries d"],
    k: Float[Array, "*kv_heads keys d"],
    query_positions: Positions,
    key_positions: Positions,
    *,
    cos_coefficients: Float[Array, "*own kept series"],
    sin_coefficients: Float[Array, "*own kept series"],
    length: int,
    layout: Layout,
    padding: FoPEPadding,
    base: float = 10000.0,
    fourier_dim: int | None = None,
    normalize: bool = False,
) -> Float[Array, "*heads queries keys"]:
    """Attention scores of FoPE as the paper writes it, with the series of each offset.

    Score(i, j) = Σ_p Re(h_p) C_p(i − j) − Im(h_p) S_p(i − j), where h_p is query pair
    times conjugate key pair, as complex numbers, and C_p and S_p are the cosine and
    sine series of pair p (arXiv 2412.17739 Eq. 12). The scores are relative by
    construction and not divided by √d. In general :func:`fope` on queries and keys
    does not give them; here a series is computed for every query and key. Equation
    ``def-fope-offset``. Arguments and errors as :func:`fope`; with fewer key heads than
    query heads, each key head serves a group of neighboring query heads.
    """
    q, k = require_floats("q", q), require_floats("k", k)
    if (
        q.ndim < 2
        or k.ndim != q.ndim
        or k.shape[-1] != q.shape[-1]
        or k.shape[:-3] != q.shape[:-3]
    ):
        raise ValueError(
            "q and k must be [..., heads, tokens, d] and agree in batch and d, got "
            f"shapes {list(q.shape)} and {list(k.shape)}"
        )
    if q.ndim > 2:
        k = k.repeat(require_heads(q.shape[-3], k.shape[-3]), axis=-3)
    offsets = (
        align_positions(query_positions, q)[..., :, None]
        - align_positions(key_positions, k)[..., None, :]
    )
    a, b = pairs(q.shape[-1], layout=layout)
    h = (q[..., a] + 1j * q[..., b])[..., :, None, :]
    h = h * (k[..., a] - 1j * k[..., b])[..., None, :, :]
    tables = _table_for(
        q,
        offsets.reshape(*offsets.shape[:-2], -1),
        cos_coefficients,
        sin_coefficients,
        length=length,
        padding=padding,
        base=base,
        fourier_dim=fourier_dim,
        normalize=normalize,
    )
    cos, sin = (t.reshape(*t.shape[:-2], *offsets.shape[-2:], len(a)) for t in tables)
    return (h.real * cos - h.imag * sin).sum(axis=-1)


def fope_offset(
    *,
    cos_coefficients: Float[Array, "*own kept series"],
    sin_coefficients: Float[Array, "*own kept series"],
    length: int,
    layout: Layout,
    padding: FoPEPadding,
    base: float = 10000.0,
    fourier_dim: int | None = None,
    normalize: bool = False,
) -> Hooks:
    """Return the attention hooks of FoPE as the paper writes it.

    The hook (function that attention calls) ``logits`` is :func:`fope_scores` divided
    by √d. Arguments and errors are those of :func:`fope_scores`. Equation
    ``def-fope-offset``.
    """
    require_choice("layout", layout, Layout)
    require_choice("padding", padding, FoPEPadding)
    require_bool("normalize", normalize)
    require_base(base)
    require_dimension("length", length, 1)

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        scores = fope_scores(
            tokens.q,
            tokens.k,
            tokens.query_positions,
            tokens.key_positions,
            cos_coefficients=cos_coefficients,
            sin_coefficients=sin_coefficients,
            length=length,
            layout=layout,
            padding=padding,
            base=base,
            fourier_dim=fourier_dim,
            normalize=normalize,
        )
        return scores / np.sqrt(tokens.d)

    return Hooks(logits=logits)
