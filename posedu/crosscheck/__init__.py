"""Hold the three faces of an encoding against each other, forward and backward."""

import html
from collections.abc import Iterator
from dataclasses import dataclass

from posedu.catalog import CATALOG
from posedu.crosscheck import features, inside
from posedu.crosscheck.common import Row, Tally

__all__ = ["CrossCheck", "Row", "crosscheck"]


@dataclass(frozen=True)
class CrossCheck:
    """The rows of a comparison, shown as a table."""

    name: str
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether every comparison held; no comparison is no agreement."""
        return bool(self.rows) and all(row.ok for row in self.rows)

    _HEAD = ("faces", "what", "device", "dtype", "cases", "largest error", "of bound")

    def _cells(self) -> Iterator[tuple[str, ...]]:
        for row in self.rows:
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

    def __str__(self) -> str:
        lines = [self._HEAD, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True))
            for line in lines
        )

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{name}</th>' for name in self._HEAD)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>"
            for cells in self._cells()
        )
        title = html.escape(CATALOG[self.name].title)
        return (
            f'<table class="posedu-table"><caption>Faces of {title} held against each '
            f"other</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
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
    encoding = CATALOG[name]
    kind = inside if encoding.inputs else features
    tally = Tally()
    for options in encoding.variants:
        kind.compare(tally, encoding, options, compiled=compiled, seed=seed)
    return CrossCheck(name, tally.rows())
