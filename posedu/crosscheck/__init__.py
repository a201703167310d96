"""Hold the three faces of an encoding against each other, forward and backward."""

from collections.abc import Iterator
from dataclasses import dataclass

from posedu._tables import Table
from posedu.catalog import CATALOG
from posedu.crosscheck import features, inside
from posedu.crosscheck.common import Row, Tally

__all__ = ["CrossCheck", "Row", "crosscheck"]


@dataclass(frozen=True)
class CrossCheck(Table):
    """What was compared, shown as a table."""

    name: str
    results: tuple[Row, ...]
    redrawn: int = 0

    @property
    def ok(self) -> bool:
        """Whether every comparison held; no comparison is no agreement."""
        return bool(self.results) and all(row.ok for row in self.results)

    _HEAD = ("faces", "what", "device", "dtype", "cases", "largest error", "of bound")

    def caption(self) -> str:
        """Whose faces they are, and how many inputs were next to a kink."""
        text = f"Faces of {CATALOG[self.name].title} held against each other"
        if self.redrawn:
            text += f"; {self.redrawn} inputs next to a kink were drawn again"
        return text

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each pair of faces, pass, device and dtype."""
        yield self._HEAD
        for row in self.results:
            verdict = "✓" if row.ok else "✗ outside"
            yield (
                row.faces,
                row.what,
                row.device,
                row.dtype,
                str(row.cases),
                f"{row.error:.1e}",
                f"{row.used:.0%} {verdict}",
            )


def crosscheck(name: str, *, compiled: bool = False, seed: int = 0) -> CrossCheck:
    """Compare the faces of a catalog entry on every variant, dtype and device.

    Encodings that change features token by token are compared by
    ``posedu.crosscheck.features``, those that act inside attention by
    ``posedu.crosscheck.inside``, which say on what and how their bounds are derived.

    Parameters
    ----------
    name
        A key of ``posedu.catalog.CATALOG``.
    compiled
        Also compare the PyTorch face under ``torch.compile(fullgraph=True)``, for
        d = 64 (rounded up) and five integer positions, in float32 and bfloat16: each
        costs a compilation.
    seed
        Of the random inputs, parameters and gradients.

    Raises
    ------
    KeyError
        For a name that the catalog lacks.
    """
    if not isinstance(name, str) or name not in CATALOG:
        raise KeyError(f"no encoding {name!r}; there are {', '.join(CATALOG)}")
    encoding = CATALOG[name]
    kind = features if encoding.kind == "features" else inside
    tally = Tally()
    for variant in encoding.variants:
        kind.compare(tally, encoding, variant, compiled=compiled, seed=seed)
    return CrossCheck(name, tally.rows(), tally.redrawn)
