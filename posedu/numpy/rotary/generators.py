"""Rotations by matrix exponentials of skew-symmetric matrices, called generators."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_dimension
from posedu._renamed import renamed_names
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    as_array,
    require_exact_angles,
    require_floats,
    require_positions,
)
from posedu.numpy.rotary.grid import for_heads_of

Array = np.ndarray

_COMBINATIONS = 16  # random combinations of generators that normal_form tries


def skew(entries: Float[Array, "*rows entries"]) -> Float[Array, "*rows block block"]:
    """The skew matrix A = U − Uᵀ, where U has ``entries`` above the diagonal, by row.

    Order and sign are those of LieRE's code (arXiv 2406.10322): a positive entry
    rotates clockwise.

    Raises
    ------
    ValueError
        A number of entries that is not b(b − 1)/2 for a block size b ≥ 2.
    """
    entries = require_floats("entries", entries)
    count = entries.shape[-1] if entries.ndim else 0
    block = round((1 + np.sqrt(1 + 8 * count)) / 2)
    if count == 0 or block * (block - 1) // 2 != count:
        raise ValueError(
            "entries must end in an axis of b(b − 1)/2 numbers for blocks of b ≥ 2, "
            f"got shape {list(entries.shape)}"
        )
    upper = np.zeros((*entries.shape[:-1], block, block))
    upper[..., *np.triu_indices(block, 1)] = entries
    return upper - upper.swapaxes(-1, -2)


def rotations(
    positions: Positions, generators: Float[Array, "*heads axes blocks block block"]
) -> Float[Array, "*table tokens blocks block block"]:
    """Rotation matrices R(x) = exp(Σ_k x_k A_k) of each position x, block by block.

    x_k are a position's coordinates, A_k the generators. Equation ``def-lie``.

    Raises
    ------
    TypeError, ValueError
        Generators that are not skew, shapes that do not match, positions not finite,
        an exponent Σ_k x_k A_k whose norm is above 2²⁹.
    """
    generators = require_generators(generators)
    positions = require_positions(positions)
    axes = generators.shape[-4]
    if positions.ndim < 2 or positions.shape[-1] != axes:
        raise ValueError(
            f"positions must be [..., tokens, {axes}], got {list(positions.shape)}"
        )
    sums = np.einsum("...tk,...kmij->...tmij", positions, generators)
    norms = np.linalg.norm(sums, axis=(-2, -1))
    require_exact_angles("norms of exponents", norms)
    # The two triangles may be rounded differently
    return exponential((sums - sums.swapaxes(-1, -2)) / 2)


def exponential(a: Float[Array, "*rows b b"]) -> Float[Array, "*rows b b"]:
    """The matrix exponential exp(A) of skew matrices, from their imaginary eigenvalues.

    exp(A) is orthogonal but for rounding, however large A is. Its error is a few
    b u (1 + s), where s is the norm of A, A is b × b and u is the unit roundoff.

    Raises
    ------
    TypeError, ValueError
        Matrices that are not skew: A + Aᵀ is larger than 8 b u (1 + s), which would
        change the result by more than its error.
    """
    a = require_floats("a", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"a must be [..., b, b], got shape {list(a.shape)}")
    rounding = 8 * a.shape[-1] * 2.0**-53
    off, size = (np.linalg.norm(m, axis=(-2, -1)) for m in (a + a.swapaxes(-1, -2), a))
    if not (off <= rounding * (1 + size)).all():
        raise ValueError(
            "a must be skew, A = −Aᵀ, and finite: A + Aᵀ has norms up to "
            f"{off.max():.1e} compared with {size.max():.1e} of A"
        )
    eigenvalues, vectors = np.linalg.eigh(1j * a)
    phases = np.exp(-1j * eigenvalues)[..., None, :]
    return ((vectors * phases) @ vectors.conj().swapaxes(-1, -2)).real


def require_generators(
    generators: Float[Array, "*heads axes blocks block block"],
) -> Float[Array, "*heads axes blocks block block"]:
    """Return ``generators`` as float64 if they are skew blocks, else raise."""
    generators = require_floats("generators", generators)
    if generators.ndim not in (4, 5) or generators.shape[-1] != generators.shape[-2]:
        raise ValueError(
            "generators must be [axes, blocks, b, b] or [heads, axes, blocks, b, b], "
            f"got shape {list(generators.shape)}"
        )
    if not np.isfinite(generators).all():
        raise ValueError("generators must be finite")
    if (generators != -generators.swapaxes(-1, -2)).any():
        raise ValueError("generators must be skew: A = −Aᵀ in every block")
    return generators


def require_block_size(block: int, blocks: Float[Array, "*shape"]) -> None:
    """Raise unless the matrices ``blocks`` are ``block`` × ``block``.

    ``blocks`` is an array whose last two axes are those of a matrix.
    """
    block = require_dimension("block", block, 1)
    shape = as_array("blocks", blocks).shape
    if shape[-2:] != (block, block):
        raise ValueError(f"blocks must be {block} × {block}, got shape {list(shape)}")


def rotate_blocks(
    x: Float[Array, "*batch tokens d"],
    rotation: Float[Array, "*rows tokens blocks block block"],
) -> Float[Array, "*batch tokens d"]:
    """Multiply each block of b features of ``x`` by its own b × b matrix.

    Equation ``def-lie``.

    Raises
    ------
    TypeError, ValueError
        Arguments that are not floating, a ``rotation`` that does not fit ``x``.
    """
    x, rotation = require_floats("x", x), require_floats("rotation", rotation)
    blocks, b = rotation.shape[-3:-1] if rotation.ndim > 3 else (0, 0)
    rows = zip(reversed(rotation.shape[:-4]), reversed(x.shape[:-2]), strict=False)
    if (
        rotation.shape[-1:] != (b,)
        or (blocks * b,) != x.shape[-1:]
        or rotation.shape[-4:-3] != x.shape[-2:-1]
        or rotation.ndim - 2 > x.ndim
        or any(n not in (1, m) for n, m in rows)
    ):
        raise ValueError(
            "rotation must be [..., tokens, blocks, b, b] with blocks · b = d for x of "
            f"shape {list(x.shape)}, got {list(rotation.shape)}"
        )
    y = np.einsum("...mij,...mj->...mi", rotation, x.reshape(*x.shape[:-1], blocks, b))
    return y.reshape(x.shape)


def rotate_by_generators(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    generators: Float[Array, "*heads axes blocks block block"],
) -> Float[Array, "*batch tokens d"]:
    """Rotate each block of features of a vector by exp(Σ_k x_k A_k) at its position.

    x_k are the position's coordinates, A_k the generators; see :func:`rotations`.

    Parameters
    ----------
    x
        Queries or keys, any float dtype; computed in float64.
    positions
        Integers or finite reals, ``[tokens, axes]`` or ``[batch, tokens, axes]``.
    generators
        Skew matrices A_k. They may have a first axis of heads where ``x`` is
        ``[…, heads, tokens, d]``; if ``x`` has more heads, neighbors share them.

    Raises
    ------
    TypeError, ValueError
        As :func:`rotations`; blocks that do not make up the features of ``x``.
    """
    x = require_floats("x", x)
    generators = require_generators(generators)
    axes, blocks, b, _ = generators.shape[-4:]
    if x.shape[-1:] != (blocks * b,):
        raise ValueError(
            f"x must be [..., tokens, {blocks * b}] for {blocks} blocks of {b}, got "
            f"shape {list(x.shape)}"
        )
    positions = align_positions(positions, x, axes)
    return rotate_blocks(x, rotations(positions, for_heads_of(x, generators, 4)))


def normal_form(
    generators: Float[Array, "axes d d"],
) -> tuple[Float[Array, "d d"], Float[Array, "pairs axes"]]:
    """Find a basis in which all given commuting skew generators rotate the same planes.

    Returns an orthogonal Q (the basis) and frequency vectors f_p with Qᵀ A_k Q =
    blockdiag_p(f_{p,k} J), features interleaved, and one more zero if d is odd; J is
    the 2 × 2 generator of a rotation. R(x) is RoPE-Mixed in the basis Q. Equation
    ``eq-com-normal``.

    The equation holds to within 8 d³ N u times the largest norm of the N generators.
    8 d u is the rounding of the Schur form of a random combination of the generators.
    d² N is the factor by which this rounding grows where two planes have nearly equal
    frequencies in the combination. In at least four of five combinations none of the
    (d/2)² pairs of planes loses more.

    Raises
    ------
    ValueError
        Generators that are not skew, or for which no basis was found: they do not
        commute.
    """
    generators = np.asarray(generators)
    if generators.ndim != 3:
        raise ValueError(
            f"generators must be [axes, d, d], got shape {list(generators.shape)}"
        )
    generators = require_generators(generators[:, None])[:, 0]
    d = generators.shape[-1]
    size = _largest_norm(generators)
    tolerance = 8 * d**3 * len(generators) * 2.0**-53 * size
    rng, residual = np.random.default_rng(0), np.inf
    for _ in range(_COMBINATIONS):
        basis = _planes(np.tensordot(rng.normal(size=len(generators)), generators, 1))
        in_basis = basis.T @ generators @ basis
        first = np.arange(0, d - 1, 2)
        frequencies = in_basis[:, first + 1, first]
        form = np.zeros_like(in_basis)
        form[:, first + 1, first] = frequencies
        form[:, first, first + 1] = -frequencies
        residual = min(residual, _largest_norm(in_basis - form))
        if residual <= tolerance:
            return basis, frequencies.T
    raise ValueError(
        "found no planes that all generators rotate; they exist if generators commute, "
        f"A_k A_l = A_l A_k: the best of {_COMBINATIONS} bases is off by "
        f"{residual:.1e}, where rounding explains {tolerance:.1e}"
    )


def _planes(a: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Orthogonal basis of which columns 2n, 2n + 1 span a plane that ``a`` rotates.

    ``a`` is a skew matrix. Columns that ``a`` maps to 0 are last.
    """
    from scipy.linalg import schur  # slow to import, and only this function needs it

    triangular, basis = schur(a)
    below = np.append(np.diag(triangular, -1), 0.0)
    rotated = [column for n in np.flatnonzero(below) for column in (n, n + 1)]
    fixed = np.setdiff1d(np.arange(len(a)), rotated)
    return basis[:, [*rotated, *fixed]]


def _largest_norm(matrices: Float[Array, "count d d"]) -> float:
    return np.linalg.norm(matrices, 2, axis=(-2, -1)).max(initial=0.0)


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
