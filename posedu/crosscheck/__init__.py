"""Hold the three implementations of an encoding against each other, forward and backward."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from posedu._arguments import require_choice
from posedu._result_table import Folded, SavedTable
from posedu.catalog import CATALOG, EncodingRecord
from posedu.crosscheck import attention_hooks, autocast, features, sampled_positions
from posedu.crosscheck.common import Row, Tally, present

__all__ = ["WAYS", "CrossCheck", "Row", "crosscheck"]


@dataclass
class CrossCheck(SavedTable):
    """What was compared, shown as a table.

    ``made`` says on what, and ``failed`` which ways could not be tried and why, in a
    result that is to be kept.
    """

    name: str
    results: tuple[Row, ...]
    redrawn: int = 0
    made: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every comparison held; no comparison is no agreement."""
        held = bool(self.results) and all(row.ok for row in self.results)
        return held and not self.failed

    @property
    def title(self) -> str:
        """Whose implementations they are."""
        return CATALOG[self.name].title if self.name in CATALOG else self.name

    def verdict(self) -> Folded:
        """In a line: whether all held, and how close it was; the table opens under it.

        A comparison that used nearly all of its bound holds as well as one of a tenth.
        """
        cases = sum(row.cases for row in self.results)
        fullest = max((row.used for row in self.results), default=0.0)
        if self.ok:
            found = f"✓ The implementations of {self.title} agree: of {cases} comparisons none"
            found += f" uses more than {fullest:.0%} of its bound."
        else:
            outside = sum(not row.ok for row in self.results) + len(self.failed)
            found = f"✗ The implementations of {self.title} do not agree: {outside} of"
            found += f" {len(self.results) + len(self.failed)} rows did not hold."
        return self.under(found)

    @classmethod
    def load(cls, path: str | Path) -> "CrossCheck":
        """Read what :meth:`save` wrote."""
        stored = json.loads(Path(path).read_text())
        rows = tuple(Row(**row) for row in stored.pop("results"))
        return cls(**stored, results=rows)

    _HEAD = (
        "implementations",
        "what",
        "device",
        "dtype",
        "cases",
        "largest error",
        "of bound",
    )

    def caption(self) -> str:
        """Whose implementations they are, on what, and how many inputs were next to a kink."""
        text = f"Implementations of {self.title} held against each other"
        if self.redrawn:
            text += f"; {self.redrawn} inputs next to a kink were drawn again"
        if self.made:
            made = self.made
            text += f"; {made['device']}, torch {made['versions']['torch']}, "
            text += made["date"]
        for way, reason in self.failed.items():
            text += f"; {way} failed ({reason})"
        return text

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each pair of implementations, pass, device and dtype."""
        yield self._HEAD
        for row in self.results:
            verdict = "✓" if row.ok else "✗ outside"
            yield (
                row.implementations,
                row.what,
                row.device,
                row.dtype,
                str(row.cases),
                f"{row.error:.1e}",
                f"{row.used:.0%} {verdict}",
            )


WAYS = ("eager", "compiled", "flex", "autocast")


def crosscheck(
    name: str,
    *,
    ways: Sequence[str] = ("eager",),
    devices: Sequence[torch.device] | None = None,
    seed: int = 0,
) -> CrossCheck:
    """Compare the implementations of a catalog entry on every variant, dtype and device.

    Encodings that move positions are compared by ``posedu.crosscheck.sampled_positions``, those
    that change features token by token by
    ``posedu.crosscheck.features``, those that act inside attention by
    ``posedu.crosscheck.attention_hooks``, which say on what and how their bounds are derived;
    layers under autocast by ``posedu.crosscheck.autocast``.

    Parameters
    ----------
    name
        A key of ``posedu.catalog.CATALOG``.
    ways
        How the PyTorch implementation is called: ``"eager"``; ``"compiled"`` by
        ``torch.compile(fullgraph=True)``, for d = 64 (rounded up) and five integer
        positions, in float32 and bfloat16; with compiled FlexAttention (``"flex"``),
        where it serves and has gradients, on a GPU; under ``"autocast"`` to bfloat16
        and float16. Each comparison of a compiled implementation costs a compilation.
    devices
        The CPU, and the GPU where there is one, if not given. The symbolic implementation takes
        part where the CPU is among them.
    seed
        Of the random inputs, parameters and gradients.

    Raises
    ------
    KeyError
        For a name that the catalog lacks.
    ValueError
        For an unknown way.
    """
    if not isinstance(name, str) or name not in CATALOG:
        raise KeyError(f"no encoding {name!r}; there are {', '.join(CATALOG)}")
    for way in ways:
        require_choice("ways", way, WAYS)
    encoding = CATALOG[name]
    compare = _by_way(encoding)
    tally = Tally()
    for way in ways:
        for variant in encoding.variants:
            if way in compare:
                compare[way](tally, encoding, variant, devices or present(), seed)
    return CrossCheck(name, tally.rows(), tally.redrawn)


def _by_way(encoding: EncodingRecord) -> dict[str, Callable[..., None]]:
    """What compares the implementations of an encoding, by the ways that it has."""
    if encoding.kind == "positions":  # which autocast never touches
        return {
            "eager": sampled_positions.compare,
            "compiled": sampled_positions.compare_compiled,
        }
    if encoding.kind == "features":
        own = {"eager": features.compare, "compiled": features.compare_compiled}
    else:
        own = {
            "eager": attention_hooks.compare,
            "compiled": attention_hooks.compare_compiled,
        }
        own["flex"] = attention_hooks.compare_flex
    return own | {"autocast": autocast.compare}
