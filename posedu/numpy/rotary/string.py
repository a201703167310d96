"""STRING: rotations with commuting generators, in two forms, Cayley and circulant."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import STRINGForm, require_choice
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    require_exact_angles,
    require_floats,
)
from posedu.numpy.rotary.generators import skew
from posedu.numpy.rotary.grid import for_heads_of
from posedu.numpy.rotary.mixed import mixed

Array = np.ndarray


def cayley(
    entries: Float[Array, "*heads entries"],
) -> Float[Array, "*heads d d"]:
    """The orthogonal matrix P = (I − S)(I + S)⁻¹ of the skew matrix S of ``entries``.

    I is the identity. Equation ``def-string-cayley``.

    S holds ``entries`` above its diagonal, row by row, as :func:`skew` does. P has
    determinant 1 and never the eigenvalue −1.

    Raises
    ------
    TypeError, ValueError
        Entries that are not finite floats, or not d(d − 1)/2 of them.
    """
    s = skew(entries)
    if not np.isfinite(s).all():
        raise ValueError("entries must be finite")
    one = np.eye(s.shape[-1])
    return (one - s) @ np.linalg.inv(one + s)


def circulant_frequencies(
    coefficients: Float[Array, "*heads axes d"],
) -> Float[Array, "*heads pairs axes"]:
    """The frequency vectors f of circulant-STRING's pairs; the last pair has f = 0.

    Wave m = 1 … d/2 − 1 of the d features rotates by f_m · x at position x, with
    coefficients c_k of axis k and f_{m,k} = 2 Σ_n c_{k,n} sin(2πmn/d). Equation
    ``def-string-frequencies``.

    Raises
    ------
    TypeError, ValueError
        Coefficients that are not finite floats ``[*heads, axes, d]`` with d even.
    """
    c = _coefficients(coefficients)
    n = np.arange(c.shape[-1])
    m = np.arange(1, len(n) // 2)
    f = 2 * c @ np.sin(2 * np.pi / len(n) * np.outer(n, m))
    at_rest = np.zeros((*f.shape[:-1], 1))
    return np.concatenate((f, at_rest), axis=-1).swapaxes(-1, -2)


def circulant_generators(
    coefficients: Float[Array, "*heads axes d"],
) -> Float[Array, "*heads axes d d"]:
    """Skew generators L_k = C_k − C_kᵀ of circulant-STRING, one for each axis k.

    C_k is the circulant matrix whose first column is c_k, the ``coefficients`` of axis
    k.
    """
    c = _coefficients(coefficients)
    n = np.arange(c.shape[-1])
    circulant = c[..., (n[:, None] - n) % len(n)]
    return circulant - circulant.swapaxes(-1, -2)


def string(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    form: STRINGForm,
    entries: Float[Array, "*heads entries"] | None = None,
    frequencies: Float[Array, "*heads pairs axes"] | None = None,
    coefficients: Float[Array, "*heads axes d"] | None = None,
) -> Float[Array, "*batch tokens d"]:
    """Rotate queries or keys by STRING, in the Cayley or the circulant form.

    arXiv 2502.02562. Scores depend on positions exactly by their difference. For the
    hook ``rotate``, a function that attention calls.

    Parameters
    ----------
    x
        Queries or keys, any float dtype; computed in float64.
    positions
        Integers or finite reals, ``[tokens, axes]`` or ``[batch, tokens, axes]``.
    form
        ``"cayley"``: R(x) = M(x) P with RoPE-Mixed M, interleaved, and P of
        :func:`cayley`. ``"circulant"``: R(x) = exp(Σ_k x_k L_k) with L_k of
        :func:`circulant_generators`: again circulant, with the first column
        r_n = (1/d) Σ_m cos(2πmn/d − f_m · x), where f_{d−m} = −f_m.
    entries, frequencies
        For ``"cayley"``: the entries of S, and the frequency vectors of M.
    coefficients
        For ``"circulant"``: the first columns of the C_k. Each of the three parameters
        may have a first axis of heads where ``x`` is ``[…, heads, tokens, d]``; if
        ``x`` has more heads, neighbors share them.

    Returns
    -------
    float64 array of the shape of ``x``. Equations ``def-string-cayley`` and
    ``def-string-circulant``.

    Raises
    ------
    TypeError, ValueError
        Parameters of the other form, or shapes that do not match; numbers that are not
        finite; unknown ``form``.
    """
    x = require_floats("x", x)
    require_choice("form", form, STRINGForm)
    if form == "cayley":
        if entries is None or frequencies is None or coefficients is not None:
            raise ValueError("form='cayley' takes entries and frequencies alone")
        p = for_heads_of(x, cayley(entries), 2)
        _require_features(x, p.shape[-1])
        along = x @ p.swapaxes(-1, -2)
        return mixed(along, positions, frequencies=frequencies, layout="interleaved")
    if coefficients is None or entries is not None or frequencies is not None:
        raise ValueError("form='circulant' takes coefficients alone")
    c = for_heads_of(x, _coefficients(coefficients), 2)
    axes, d = c.shape[-2:]
    _require_features(x, d)
    f = circulant_frequencies(c)[..., :-1, :]
    angle = align_positions(positions, x, axes) @ f.swapaxes(-1, -2)
    require_exact_angles("angles", angle)
    n, m = np.arange(d), np.arange(1, d // 2)
    waves = np.cos(2 * np.pi / d * np.outer(n, m) - angle[..., None, :]).sum(-1)
    column = (1 + (-1.0) ** n + 2 * waves) / d
    rotation = column[..., (n[:, None] - n) % d]
    return (rotation @ x[..., None])[..., 0]


def _require_features(x: Float[Array, "*shape"], d: int) -> None:
    if x.ndim < 2 or x.shape[-1] != d:
        raise ValueError(
            f"x must be [..., tokens, {d}] for these parameters, got shape "
            f"{list(x.shape)}"
        )


def _coefficients(
    coefficients: Float[Array, "*heads axes d"],
) -> Float[Array, "*heads axes d"]:
    c = require_floats("coefficients", coefficients)
    if c.ndim not in (2, 3) or 0 in c.shape or c.shape[-1] % 2:
        raise ValueError(
            "coefficients must be [axes, d] or [heads, axes, d] with d even, got shape "
            f"{list(c.shape)}"
        )
    if not np.isfinite(c).all():
        raise ValueError("coefficients must be finite")
    return c
