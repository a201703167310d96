"""Measurement of a layer's rotation from its queries and keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int

from posedu._argument_types import check_types
from posedu.tools.diagnose.capture import Side

ALONE = -1  # partner of a feature that is not rotated
ROUNDED = {"bfloat16": torch.bfloat16, "float16": torch.float16}
ROUNDOFFS = 32
"""Bound on the residual of a fit by rounding, in units of eps: about √d sums."""


@check_types
@dataclass(frozen=True)
class MeasuredRotation:
    """The rotation that one layer applies to its queries, or to its keys.

    Parameters
    ----------
    d
        Head dimension.
    first, second
        The columns of each pair, in the order of the first columns. They are columns of
        the projection's output if that was found, and of the head otherwise.
    frequencies
        Signed frequencies in radians per position; negative is clockwise, from the
        second column to the first.
    uncertainty
        Bound on the error of frequencies: roundoff and the errors of angles, divided by
        the largest position.
    eps
        The spacing of numbers at 1 in the features' dtype.
    attention_factor
        The factor by which rotation multiplies the lengths of pairs; ``None`` if the
        features before rotation were not found.
    stretch
        Largest relative deviation of the pairs' lengths from the attention factor.
    angle_errors
        Largest difference of angles from frequency · position, in radians, by position.
    positions_dtype
        ``"bfloat16"`` or ``"float16"`` if positions are rounded to it, else empty.
    permuted
        Whether columns are in another order than in the projection's output.
    is_absolute
        Whether the features depend on the position before they are rotated.
    unexplained
        Number of columns that change with the position, and not by a pair's rotation.
    finite
        Whether all features are finite.
    is_zero
        Whether all features are zero, so that no rotation can be seen.
    """

    d: int
    first: Int[np.ndarray, "pairs"]
    second: Int[np.ndarray, "pairs"]
    frequencies: Float[np.ndarray, "pairs"]
    uncertainty: float
    eps: float
    attention_factor: float | None
    stretch: float
    angle_errors: Mapping[int, float]
    positions_dtype: str
    permuted: bool
    is_absolute: bool
    unexplained: int
    finite: bool = True
    is_zero: bool = False

    @property
    def columns(self) -> Int[np.ndarray, "rotated"]:
        """Indices of the head's rotated columns (features), in increasing order."""
        return np.sort(np.concatenate([self.first, self.second]))

    @property
    def width(self) -> int:
        """Number of rotated columns, the features of the head that form pairs."""
        return 2 * len(self.first)

    @property
    def layout(self) -> str:
        """Layout of the pairs: "half", "interleaved", "blocks", "other", or empty.

        ``"blocks"`` means several parts of the head, each in the half layout. A single
        pair of neighbors is both half and interleaved, so its layout is empty.
        """
        apart = set((self.second - self.first).tolist())
        if apart == {1}:
            return "interleaved" if len(self.first) > 1 else ""
        if len(apart) != 1:
            return "other" if apart else ""
        return "half" if (np.diff(self.first) == 1).all() else "blocks"

    @property
    def clockwise(self) -> bool:
        """True if most pairs are rotated clockwise."""
        return len(self.frequencies) > 0 and float(np.median(self.frequencies)) < 0


def measure(sides: Mapping[int, Side]) -> MeasuredRotation:
    """Measure the rotation of queries or keys from one token at several positions.

    Parameters
    ----------
    sides
        Queries, or keys, of one token, by position; 0 and 1 must be among the
        positions.

    Returns
    -------
    MeasuredRotation
        The pairs of columns, with their frequencies and errors; without pairs if
        nothing is rotated.
    """
    at = sorted(sides)
    eps = sides[0].eps
    after = {p: _flat(sides[p].features) for p in at}
    d = after[0].shape[1]
    if not all(np.isfinite(x).all() for x in after.values()):
        return _not_finite(d)
    columns, before = _origins(sides)
    is_absolute = any(
        np.abs(before[p] - before[0]).max() > ROUNDOFFS * eps * np.abs(before[0]).max()
        for p in at
    )
    partner, unexplained = _partners(before, after, eps)
    if is_absolute and (partner == ALONE).all():
        # The sources may have been rotated already: compare with position 0.
        unrotated = dict.fromkeys(at, after[0])
        partner_at_0, left = _partners(unrotated, after, eps)
        if not left and (partner_at_0 != ALONE).any():
            before, partner, is_absolute = unrotated, partner_at_0, False
            columns = np.full(d, ALONE)
    source = columns if (columns >= 0).all() else np.arange(d)
    firsts = [c for c in range(d) if partner[c] >= 0 and source[c] < source[partner[c]]]
    firsts = [c for c in firsts if partner[partner[c]] == c]
    firsts.sort(key=lambda c: source[c])
    seconds = [int(partner[c]) for c in firsts]
    # The complex factor of each pair at each position.
    factors = np.array(
        [
            [_factor(before[p], after[p], a, b) for p in at]
            for a, b in zip(firsts, seconds, strict=True)
        ]
    ).reshape(len(firsts), len(at))
    lengths = np.abs(factors)
    found = bool((columns >= 0).all())
    median = float(np.median(lengths)) if lengths.size else 1.0
    frequencies, angle_errors, rounded = _frequencies(np.angle(factors), at, eps)
    largest_error = max(angle_errors.values(), default=0)
    return MeasuredRotation(
        d=d,
        first=source[firsts].astype(int),
        second=source[seconds].astype(int),
        frequencies=frequencies,
        uncertainty=(ROUNDOFFS * eps + largest_error) / at[-1],
        eps=eps,
        attention_factor=median if found else None,
        stretch=float(np.abs(lengths / median - 1).max()) if lengths.size else 0.0,
        angle_errors=angle_errors,
        positions_dtype=rounded,
        permuted=bool((np.diff(source) < 0).any()),
        is_absolute=is_absolute,
        unexplained=unexplained,
        is_zero=not any(x.any() for x in after.values()),
    )


def _not_finite(d: int) -> MeasuredRotation:
    none = np.empty(0, int)
    return MeasuredRotation(
        d=d,
        first=none,
        second=none,
        frequencies=np.empty(0),
        uncertainty=0.0,
        eps=0.0,
        attention_factor=None,
        stretch=0.0,
        angle_errors={},
        positions_dtype="",
        permuted=False,
        is_absolute=False,
        unexplained=0,
        finite=False,
    )


def _flat(x: Float[np.ndarray, "rows 1 heads d"]) -> Float[np.ndarray, "samples d"]:
    return x.reshape(-1, x.shape[-1])


def _origins(
    sides: Mapping[int, Side],
) -> tuple[Int[np.ndarray, "d"], dict[int, Float[np.ndarray, "samples d"]]]:
    """Find each feature's source column (−1 if none), and the features before rotation.

    At position 0 a rotation leaves each column unchanged up to a factor. So each column
    is searched among the columns of the sources (earlier results of linear maps and
    modules), the earliest first. If a column is not found, the features at position 0
    are taken as those before the rotation.
    """
    start = sides[0].features[:, 0]
    rows, heads, d = start.shape
    eps = sides[0].eps
    wanted = start.reshape(rows, heads * d)
    where = [(-1, -1)] * (heads * d)
    for number, source in enumerate(sides[0].sources):
        missing = [c for c, (of, _) in enumerate(where) if of < 0]
        if not missing:
            break
        for c, j in _same(wanted[:, missing], source[:, 0], eps).items():
            where[missing[c]] = (number, j)
    lost = {p: _flat(sides[0].features) for p in sides}
    if any(of < 0 for of, _ in where):
        return np.full(d, -1), lost
    if any(len(side.sources) <= max(of for of, _ in where) for side in sides.values()):
        return np.full(d, -1), lost
    before = {
        p: np.stack([side.sources[of][:, 0, j] for of, j in where], -1).reshape(-1, d)
        for p, side in sides.items()
    }
    return _places(np.array(where[:d])), before


def _places(own: Int[np.ndarray, "d 2"]) -> Int[np.ndarray, "d"]:
    """Rank each column of a head among the columns that come from the same tensor.

    ``own`` has for each column the number of the tensor that it comes from, and its
    index there. Ranks are counted from the tensor's first column in the head.
    """
    places = np.empty(len(own), int)
    starts = [0, *(np.flatnonzero(np.diff(own[:, 0])) + 1), len(own)]
    for a, b in pairwise(starts):
        places[a:b] = a + np.argsort(np.argsort(own[a:b, 1]))
    return places


def _same(
    wanted: Float[np.ndarray, "rows columns"],
    offered: Float[np.ndarray, "rows others"],
    eps: float,
) -> dict[int, int]:
    """Map wanted columns to the offered columns of which they are positive multiples.

    Keys and values of the mapping are column indices; a column without a match is no
    key. ``eps`` is the spacing of numbers at 1 in the dtype of the columns, and sets
    the tolerance.
    """
    norms = [np.linalg.norm(x, axis=0) for x in (wanted, offered)]
    units = [
        x / np.where(n > 0, n, 1) for x, n in zip((wanted, offered), norms, strict=True)
    ]
    cosines = units[0].T @ units[1]
    best = cosines.argmax(1)
    near = 1 - cosines[np.arange(len(best)), best] < (8 * eps) ** 2 + 1e-13
    return {int(c): int(best[c]) for c in np.flatnonzero(near)}


def _partners(
    before: Mapping[int, Float[np.ndarray, "samples d"]],
    after: Mapping[int, Float[np.ndarray, "samples d"]],
    eps: float,
) -> tuple[Int[np.ndarray, "d"], int]:
    """Find the partner of each column, and the number of unexplained columns.

    The partner is the column with which a column is rotated as a pair. A column is
    unexplained if it changes with the position, but not by the rotation of a pair. The
    partner of an unexplained or unrotated column is ``ALONE``, −1. ``before`` and
    ``after`` are the features before and after rotation, by position, and ``eps`` is
    the spacing of numbers at 1 in their original dtype.
    """
    d = after[0].shape[1]
    (alone, grown, size), paired = np.zeros((3, d)), np.zeros((d, d))
    steady = _own(before[0], after[0])
    for p, x in before.items():
        y = after[p]
        gram, own, total = x.T @ x, x.T @ y, (y * y).sum(0)
        diagonal, straight = np.diag(gram), np.diag(own)
        size += total
        alone += ((y - steady * x) ** 2).sum(0)
        grown += ((y - _own(x, y) * x) ** 2).sum(0)
        inside = np.outer(diagonal, diagonal) - gram**2
        safe = np.where(inside > 1e-9 * np.outer(diagonal, diagonal), inside, np.inf)
        a = (diagonal[None] * straight[:, None] - gram * own.T) / safe
        b = (diagonal[:, None] * own.T - gram * straight[:, None]) / safe
        paired += np.maximum(total[:, None] - a * straight[:, None] - b * own.T, 0)
    size = np.where(size > 0, size, 1)
    tolerance = ROUNDOFFS * eps
    np.fill_diagonal(paired, np.inf)
    partner = paired.argmin(1)
    # A column may grow by a factor of the position without being rotated.
    alone = np.where(grown < alone / 64, grown, alone)
    is_unrotated = np.sqrt(alone / size) < tolerance
    left = np.sqrt(paired.min(1) / size)
    is_unexplained = ~is_unrotated & (left > max(tolerance, 1e-7))
    partner[is_unrotated | is_unexplained] = ALONE
    return partner, int(is_unexplained.sum())


def _own(
    x: Float[np.ndarray, "samples d"], y: Float[np.ndarray, "samples d"]
) -> Float[np.ndarray, "d"]:
    """Return each column's factor c that makes c · x nearest to y by least squares.

    x and y are the features before and after rotation.
    """
    norms = (x * x).sum(0)
    return (x * y).sum(0) / np.where(norms > 0, norms, 1)


def _factor(
    x: Float[np.ndarray, "samples d"], y: Float[np.ndarray, "samples d"], a: int, b: int
) -> complex:
    """Return the complex c that makes c (x_a + i·x_b) nearest to y_a + i·y_b.

    Columns a and b are a pair, x and y the features before and after rotation; so c has
    the angle of the pair's rotation. Nearest means by least squares.
    """
    before, after = x[:, a] + 1j * x[:, b], y[:, a] + 1j * y[:, b]
    return complex(np.vdot(before, after) / np.vdot(before, before))


def _frequencies(
    angles: Float[np.ndarray, "pairs positions"], at: Sequence[int], eps: float
) -> tuple[Float[np.ndarray, "pairs"], dict[int, float], str]:
    """Fit a frequency to each pair's angles; return frequencies, errors and a dtype.

    ``angles`` are rotation angles at the positions ``at``, which increase; ``eps`` is
    not used. The errors are the largest differences of an angle from frequency ·
    position, by position. The dtype is the one that positions were rounded to, empty if
    they were not. Each position is a few times the one before, so the frequency that
    fits the positions before gives the number of full turns at this one.
    """
    if not len(angles):
        return np.empty(0), {}, ""
    tried = {"": np.array(at, float)}
    for name, dtype in ROUNDED.items():
        rounded = torch.tensor(at, dtype=torch.float64).to(dtype).double().numpy()
        if np.isfinite(rounded).all():
            tried[name] = rounded
    fits = {name: _unwrapped(angles, rounded) for name, rounded in tried.items()}
    rests = {name: rest.max() for name, (_, rest) in fits.items()}
    best = min(rests, key=rests.__getitem__)
    is_clear = rests[best] < rests[""] / 8 and rests[""] > 0.02
    name = best if is_clear else ""
    frequencies, rest = fits[name]
    return frequencies, dict(zip(at, rest.tolist(), strict=True)), name


def _unwrapped(
    angles: Float[np.ndarray, "pairs positions"], at: Float[np.ndarray, "positions"]
) -> tuple[Float[np.ndarray, "pairs"], Float[np.ndarray, "positions"]]:
    """Fit a frequency to each pair's angles; return frequencies and largest errors.

    ``angles`` are rotation angles at the positions ``at``, known up to full turns. An
    error is the largest difference of an angle from frequency · position at one
    position.
    """
    frequencies = np.zeros(len(angles))
    for angle, p in zip(angles.T, at, strict=True):
        if p > 0:
            rest = np.angle(np.exp(1j * (angle - p * frequencies)))
            frequencies = frequencies + rest / p
    rest = np.angle(np.exp(1j * (angles - np.outer(frequencies, at))))
    return frequencies, np.abs(rest).max(0)
