"""Compare the SymPy, NumPy and PyTorch implementations of an encoding with each other.

Outputs (forward) and gradients (backward) are compared.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from posedu._argument_types import check_types
from posedu._arguments import require_choice, require_dimension, require_seed
from posedu._result_table import Folded, SavedTable, reading
from posedu.catalog import CATALOG, EncodingRecord
from posedu.crosscheck import attention_hooks, autocast, features, sampled_positions
from posedu.crosscheck.common import Row, Tally, available_devices

__all__ = ["MODES", "CrossCheck", "Row", "crosscheck"]


@check_types
@dataclass
class CrossCheck(SavedTable):
    """Result of comparing the implementations of an encoding, shown as a table.

    Parameters
    ----------
    name
        The encoding's name in the catalog, or ``"attention"``.
    results
        A :class:`Row` for each pair of implementations, each pass (forward, backward),
        device and dtype.
    redrawn
        How many inputs were next to a kink (a point where a result has no derivative)
        and were drawn again.
    made
        In a saved result: its device, versions and date.
    failed
        In a saved result: each mode (way to run PyTorch) that raised an error, and the
        error.
    scope
        Which of the encoding's catalog configurations were compared, if not all.
    """

    name: str
    results: tuple[Row, ...]
    redrawn: int = 0
    made: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    scope: str = ""

    @property
    def ok(self) -> bool:
        """True if there was a comparison, all were within bounds and no mode failed.

        A mode is a way in which PyTorch is run, such as ``"compiled"``.
        """
        held = bool(self.results) and all(row.ok for row in self.results)
        return held and not self.failed

    @property
    def title(self) -> str:
        """Title of the encoding in the catalog, or ``name`` if it is not there."""
        return CATALOG[self.name].title if self.name in CATALOG else self.name

    def verdict(self) -> Folded:
        """Return a line that says if all errors were within bounds, and the table.

        The table is folded under the line. The line gives the largest error as a share
        of its bound. A comparison that uses nearly all of its bound holds as well as a
        comparison that uses a tenth.
        """
        cases = sum(row.cases for row in self.results)
        fullest = max((row.used for row in self.results), default=0.0)
        if self.ok:
            line = (
                f"✓ The implementations of {self.title} agree: of {cases} comparisons"
            )
            line += f" in {self.scope}" if self.scope else ""
            line += f" none uses more than {fullest:.0%} of its bound."
        else:
            outside = sum(not row.ok for row in self.results) + len(self.failed)
            line = f"✗ The implementations of {self.title} do not agree: {outside} of"
            line += f" {len(self.results) + len(self.failed)} rows did not hold."
        return self.under(line)

    @classmethod
    def load(cls, path: str | Path) -> "CrossCheck":
        """Read the result of a comparison from a JSON file that :meth:`save` wrote."""
        with reading(path, "a result of posedu.crosscheck"):
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
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
        """Return the caption: encoding, redrawn inputs, device and failed modes.

        Inputs are redrawn if they are next to a kink, a point where a result has no
        derivative. A mode is a way in which PyTorch is run.
        """
        text = f"Implementations of {self.title} compared with each other"
        if self.scope:
            text += f" in {self.scope} (the tests compare all)"
        if self.redrawn:
            text += f"; {self.redrawn} inputs next to a kink were drawn again"
        if self.made:
            made = self.made
            text += f"; {made['device']}, torch {made['versions']['torch']}, "
            text += made["date"]
        for mode, reason in self.failed.items():
            text += f"; {mode} failed ({reason})"
        return text

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the column heads, then the cells of each :class:`Row` of results."""
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


MODES = ("eager", "compiled", "flex", "autocast")
"""Modes in which the PyTorch implementation is run."""


@check_types
def crosscheck(
    name: str,
    *,
    modes: Sequence[str] = ("eager",),
    devices: Sequence[torch.device] | None = None,
    seed: int = 0,
    configurations: int | None = None,
) -> CrossCheck:
    """Compare the implementations of an encoding in its catalog configurations.

    A configuration is a set of the encoding's options. The comparisons are repeated for
    every dtype and device.

    Four modules do the work, and each documents its inputs and the derivation of its
    bounds: ``posedu.crosscheck.sampled_positions`` for encodings that sample positions,
    ``posedu.crosscheck.features`` for encodings that change features token by token,
    ``posedu.crosscheck.attention_hooks`` for encodings that act inside attention, and
    ``posedu.crosscheck.autocast`` for layers under autocast.

    Parameters
    ----------
    name
        A key of ``posedu.catalog.CATALOG``.
    modes
        How the PyTorch implementation is run: ``"eager"``; ``"compiled"`` by
        ``torch.compile(fullgraph=True)``, for d = 64 (rounded up) and five integer
        positions, in float32 and bfloat16; with compiled FlexAttention (``"flex"``),
        where it serves the encoding and has gradients, on a GPU; under ``"autocast"``
        to bfloat16 and float16. Each comparison of a compiled implementation costs a
        compilation.
    devices
        Default: the CPU, and the GPU where there is one. The symbolic implementation
        takes part if the CPU is among the devices.
    seed
        Seed of the random inputs, parameters and gradients.
    configurations
        How many configurations are compared, from the first of the catalog on. Default:
        all, as in the tests.

    Raises
    ------
    KeyError
        The catalog has no such name.
    TypeError, ValueError
        A mode is unknown, or there is none; there are no devices; ``seed`` or
        ``configurations`` is no integer that is allowed.
    """
    if not isinstance(name, str) or name not in CATALOG:
        raise KeyError(
            f"`name` must be an encoding of the catalog, got {name!r}; "
            f"choose one of {', '.join(CATALOG)}"
        )
    for mode in modes:
        require_choice("modes", mode, MODES)
    if not len(modes) or (devices is not None and not len(devices)):
        raise ValueError(
            f"`modes` and `devices` must not be empty, got {modes} and {devices}"
        )
    require_seed(seed)
    encoding = CATALOG[name]
    variants, scope = encoding.variants, ""
    if configurations is not None:
        variants = variants[: require_dimension("configurations", configurations, 1)]
    if len(variants) < len(encoding.variants):
        scope = f"{len(variants)} of {len(encoding.variants)} configurations"
    compare = _comparisons(encoding)
    devices = available_devices() if devices is None else devices
    tally = Tally()
    for mode in modes:
        for variant in variants:
            if mode in compare:
                compare[mode](tally, encoding, variant, devices, seed)
    return CrossCheck(name, tally.rows(), tally.redrawn, scope=scope)


def _comparisons(encoding: EncodingRecord) -> dict[str, Callable[..., None]]:
    """Return the functions that compare an encoding's implementations, by mode.

    A mode is a way in which PyTorch is run: ``"eager"``, ``"compiled"``, ``"flex"`` or
    ``"autocast"``. A mode that does not concern the encoding is left out.
    """
    if encoding.kind == "positions":  # Autocast does not touch positions.
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
