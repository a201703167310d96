"""The rotation of a layer, measured on what it does to its queries and keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int

from posedu.tools.diagnose.capture import Side

ALONE = -1  # the partner of a feature that is not turned
ROUNDED = {"bfloat16": torch.bfloat16, "float16": torch.float16}
ROUNDOFFS = 32
"""Bound of what rounding leaves of a fit, in units of the roundoff: about √d sums."""


@dataclass(frozen=True)
class Turning:
    """What one layer does to its queries, or to its keys, from position to position.

    Parameters
    ----------
    d
        Features of a head.
    first, second
        The columns of each pair, as the projection's output has them where it was
        found, in the order of the first ones.
    frequencies
        Signed, in radians per position: negative is clockwise, from the second column
        to the first.
    spread
        How far they may be off: roundoff and what angles are off by, over the longest
        distance.
    eps
        Of the dtype of the features.
    attention_factor
        What the pairs are multiplied by; ``None`` if what they were before was not
        found.
    stretch
        How far from the attention factor the lengths of the pairs go, relative to it.
    off
        How far angles are from frequency · position, in radians, by position.
    positions
        What the positions are taken for: ``"bfloat16"`` or ``"float16"`` if rounded to
        it, else empty.
    permuted
        Whether columns leave in another order than the projection made them.
    moved
        Whether the features depended on the position before they were turned.
    unexplained
        How many columns change by something else than a pair's rotation.
    finite
        Whether all of it is.
    """

    d: int
    first: Int[np.ndarray, "pairs"]
    second: Int[np.ndarray, "pairs"]
    frequencies: Float[np.ndarray, "pairs"]
    spread: float
    eps: float
    attention_factor: float | None
    stretch: float
    off: Mapping[int, float]
    positions: str
    permuted: bool
    moved: bool
    unexplained: int
    finite: bool = True

    @property
    def columns(self) -> Int[np.ndarray, "turned"]:
        """Those that turn."""
        return np.sort(np.concatenate([self.first, self.second]))

    @property
    def width(self) -> int:
        """How many turn."""
        return 2 * len(self.first)

    @property
    def layout(self) -> str:
        """``"half"``, ``"interleaved"``, ``"blocks"``, ``"other"``, or empty.

        ``"blocks"`` are several parts, each in halves; a single pair of neighbors is
        half and interleaved at once: nothing is said.
        """
        apart = set((self.second - self.first).tolist())
        if apart == {1}:
            return "interleaved" if len(self.first) > 1 else ""
        if len(apart) != 1:
            return "other" if apart else ""
        return "half" if (np.diff(self.first) == 1).all() else "blocks"

    @property
    def clockwise(self) -> bool:
        """Whether most pairs turn so."""
        return len(self.frequencies) > 0 and float(np.median(self.frequencies)) < 0


def measure(sides: Mapping[int, Side]) -> Turning:
    """What turns, from the same tokens at several positions, 0 and 1 among them.

    Parameters
    ----------
    sides
        By position, each with one token.
    """
    at = sorted(sides)
    eps = sides[0].eps
    after = {p: _flat(sides[p].features) for p in at}
    d = after[0].shape[1]
    if not all(np.isfinite(x).all() for x in after.values()):
        return _not_finite(d)
    columns, before = _origins(sides)
    moved = any(
        np.abs(before[p] - before[0]).max() > ROUNDOFFS * eps * np.abs(before[0]).max()
        for p in at
    )
    partner, unexplained = _partners(before, after, eps)
    if moved and (partner == ALONE).all():  # what was found had turned before
        still = dict.fromkeys(at, after[0])
        again, left = _partners(still, after, eps)
        if not left and (again != ALONE).any():
            before, partner, moved = still, again, False
            columns = np.full(d, ALONE)
    source = columns if (columns >= 0).all() else np.arange(d)
    firsts = [c for c in range(d) if partner[c] >= 0 and source[c] < source[partner[c]]]
    firsts = [c for c in firsts if partner[partner[c]] == c]
    firsts.sort(key=lambda c: source[c])
    seconds = [int(partner[c]) for c in firsts]
    # of each pair and position: the complex number that it is multiplied by
    turned = np.array(
        [
            [_factor(before[p], after[p], a, b) for p in at]
            for a, b in zip(firsts, seconds, strict=True)
        ]
    ).reshape(len(firsts), len(at))
    lengths = np.abs(turned)
    found = bool((columns >= 0).all())
    middle = float(np.median(lengths)) if lengths.size else 1.0
    frequencies, off, rounded = _frequencies(np.angle(turned), at, eps)
    return Turning(
        d=d,
        first=source[firsts].astype(int),
        second=source[seconds].astype(int),
        frequencies=frequencies,
        spread=(ROUNDOFFS * eps + max(off.values(), default=0)) / at[-1],
        eps=eps,
        attention_factor=middle if found else None,
        stretch=float(np.abs(lengths / middle - 1).max()) if lengths.size else 0.0,
        off=off,
        positions=rounded,
        permuted=bool((np.diff(source) < 0).any()),
        moved=moved,
        unexplained=unexplained,
    )


def _not_finite(d: int) -> Turning:
    none = np.empty(0, int)
    return Turning(
        d=d,
        first=none,
        second=none,
        frequencies=np.empty(0),
        spread=0.0,
        eps=0.0,
        attention_factor=None,
        stretch=0.0,
        off={},
        positions="",
        permuted=False,
        moved=False,
        unexplained=0,
        finite=False,
    )


def _flat(x: Float[np.ndarray, "rows 1 heads d"]) -> Float[np.ndarray, "samples d"]:
    return x.reshape(-1, x.shape[-1])


def _origins(
    sides: Mapping[int, Side],
) -> tuple[Int[np.ndarray, "d"], dict[int, Float[np.ndarray, "samples d"]]]:
    """Which column of its head each feature was, −1 if not found, and what it was.

    At position 0 a rotation leaves each column as it is, but for a factor: it is looked
    for among the columns of what was returned before, the earliest first. Where one is
    missing, the features at position 0 stand for what they were.
    """
    start = sides[0].features[:, 0]
    rows, heads, d = start.shape
    eps = sides[0].eps
    wanted = start.reshape(rows, heads * d)
    where = [(-1, -1)] * (heads * d)
    for number, source in enumerate(sides[0].sources):
        open_ = [c for c, (of, _) in enumerate(where) if of < 0]
        if not open_:
            break
        for c, j in _same(wanted[:, open_], source[:, 0], eps).items():
            where[open_[c]] = (number, j)
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
    """Places within the parts that a head is put together of, as they stand in it."""
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
    """Of each wanted column the offered one that it is a positive multiple of."""
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
    """The other column that each is mixed with, and how many are mixed with more."""
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
    alone = np.where(grown < alone / 64, grown, alone)  # by a factor of the position
    still = np.sqrt(alone / size) < tolerance
    left = np.sqrt(paired.min(1) / size)
    broken = ~still & (left > max(tolerance, 1e-7))
    partner[still | broken] = ALONE
    return partner, int(broken.sum())


def _own(
    x: Float[np.ndarray, "samples d"], y: Float[np.ndarray, "samples d"]
) -> Float[np.ndarray, "d"]:
    """The factor of each column on its own."""
    norms = (x * x).sum(0)
    return (x * y).sum(0) / np.where(norms > 0, norms, 1)


def _factor(
    x: Float[np.ndarray, "samples d"], y: Float[np.ndarray, "samples d"], a: int, b: int
) -> complex:
    """What x_a + i·x_b is multiplied by."""
    before, after = x[:, a] + 1j * x[:, b], y[:, a] + 1j * y[:, b]
    return complex(np.vdot(before, after) / np.vdot(before, before))


def _frequencies(
    angles: Float[np.ndarray, "pairs positions"], at: Sequence[int], eps: float
) -> tuple[Float[np.ndarray, "pairs"], dict[int, float], str]:
    """Frequencies, what angles are off by, and what positions are rounded to.

    Each position is a few times the one before: what is known there says how many whole
    turns the angle has made here.
    """
    if not len(angles):
        return np.empty(0), {}, ""
    tried = {"": np.array(at, float)}
    for name, dtype in ROUNDED.items():
        rounded = torch.tensor(at, dtype=torch.float64).to(dtype).double().numpy()
        if np.isfinite(rounded).all():
            tried[name] = rounded
    fits = {name: _unwrapped(angles, seen) for name, seen in tried.items()}
    rests = {name: rest.max() for name, (_, rest) in fits.items()}
    best = min(rests, key=rests.__getitem__)
    clearly = rests[best] < rests[""] / 8 and rests[""] > 0.02
    name = best if clearly else ""
    frequencies, rest = fits[name]
    return frequencies, dict(zip(at, rest.tolist(), strict=True)), name


def _unwrapped(
    angles: Float[np.ndarray, "pairs positions"], at: Float[np.ndarray, "positions"]
) -> tuple[Float[np.ndarray, "pairs"], Float[np.ndarray, "positions"]]:
    """Frequencies, and the largest difference from a line at each position."""
    frequencies = np.zeros(len(angles))
    for angle, p in zip(angles.T, at, strict=True):
        if p > 0:
            rest = np.angle(np.exp(1j * (angle - p * frequencies)))
            frequencies = frequencies + rest / p
    rest = np.angle(np.exp(1j * (angles - np.outer(frequencies, at))))
    return frequencies, np.abs(rest).max(0)
