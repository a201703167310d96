"""Plan of a conversion: which tensors are permuted, left or refused."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Int

from posedu._argument_types import check_types
from posedu._arguments import require_choice
from posedu._result_table import Table
from posedu.tools.checkpoints._names import FUSED, parse
from posedu.tools.checkpoints.conversion import (
    Conversion,
    ConvertError,
    permutation,
)

Action = Literal["permute", "leave", "refuse"]
MOST_LINES = 40
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)")


@check_types
@dataclass(frozen=True, kw_only=True)
class PlannedTensor:
    """A tensor of a checkpoint, and what a conversion does with the tensor.

    Parameters
    ----------
    name, shape
        Name and shape of the tensor.
    action
        ``"permute"``, ``"leave"`` or ``"refuse"``.
    reason
        Why the tensor is left or refused; empty if it is permuted.
    axis
        The axis that is permuted, ``None`` if none is.
    heads
        Number of permuted heads.
    head_dim
        Number of features of a head along ``axis``.
    width
        Number of rotated features of a head.
    starts
        Indices along ``axis`` where the rotated features of a head begin.
    """

    name: str
    shape: tuple[int, ...]
    action: Action
    reason: str = ""
    axis: int | None = None
    heads: int = 0
    head_dim: int = 0
    width: int = 0
    starts: tuple[int, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        require_choice("action", self.action, Action)


@check_types
@dataclass(frozen=True, kw_only=True)
class Plan(Table):
    """A plan of a conversion: which tensors are permuted, left or refused.

    Printed, it is a table in which layers with equal tensors share a line.

    Parameters
    ----------
    conversion
        The pairs before and after, and the dimensions of heads.
    tensors
        The tensors in the order of the checkpoint.
    """

    conversion: Conversion
    tensors: tuple[PlannedTensor, ...]

    @property
    def permuted(self) -> tuple[PlannedTensor, ...]:
        """The tensors whose features are permuted."""
        return self._of("permute")

    @property
    def left(self) -> tuple[PlannedTensor, ...]:
        """The tensors that stay as they are."""
        return self._of("leave")

    @property
    def refused(self) -> tuple[PlannedTensor, ...]:
        """The tensors that keep the checkpoint from being converted."""
        return self._of("refuse")

    @property
    def fused(self) -> tuple[PlannedTensor, ...]:
        """The permuted tensors that hold queries, keys and values together."""
        parsed = ((tensor, parse(tensor.name)) for tensor in self.permuted)
        return tuple(tensor for tensor, of in parsed if of and of.role == FUSED)

    def require_complete(self) -> None:
        """Raise ConvertError if there are refused tensors; it names the first."""
        if not self.refused:
            return
        first, *others = self.refused
        more = f"; {len(self.refused)} tensors are refused in all" if others else ""
        raise ConvertError(f"{first.name} {first.reason}{more}")

    def order(self, tensor: PlannedTensor) -> Int[np.ndarray, "features"]:
        """Return the index before conversion of each feature of a permuted tensor.

        ``tensor`` is one of ``permuted``, and features are along its ``axis``.
        """
        if tensor.axis is None:
            raise ValueError(
                f"tensor must be permuted, got {tensor.name}, which is not"
            )
        length = tensor.shape[tensor.axis]
        return permutation(self.conversion, length, tensor.starts, tensor.width)

    def caption(self) -> str:
        """Return the table's caption: the pairs, and the numbers of tensors."""
        return (
            f"Pairs {self.conversion.source} → {self.conversion.target}: "
            f"{len(self.permuted)} tensors to permute, {len(self.left)} to leave, "
            f"{len(self.refused)} refused"
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the column heads, then a row for equal tensors of all layers."""
        head = ("action", "tensors", "name", "shape", "axis", "heads × width", "reason")
        yield head
        rows = [
            _row(alike)
            for action in ("refuse", "permute", "leave")
            for alike in _alike(self._of(action))
        ]
        if len(rows) <= MOST_LINES - 2:
            yield from rows
            return
        yield from rows[: MOST_LINES - 3]
        more = len(rows) - MOST_LINES + 3
        yield ("…", "", f"and {more} lines more", *[""] * (len(head) - 3))

    def words(self) -> frozenset[str]:
        """Return the heads of the columns of text."""
        return frozenset({"name", "reason"})

    def _of(self, action: Action) -> tuple[PlannedTensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.action == action)


def _alike(tensors: Iterable[PlannedTensor]) -> list[list[PlannedTensor]]:
    """Return groups of tensors that differ in numbers in their names only."""
    groups: dict[tuple, list[PlannedTensor]] = {}
    for tensor in tensors:
        own = {k: v for k, v in vars(tensor).items() if k != "name"}
        key = (NUMBER.sub("*", tensor.name), *own.values())
        groups.setdefault(key, []).append(tensor)
    return [*groups.values()]


def _row(alike: list[PlannedTensor]) -> tuple[str, ...]:
    """Return the table's row of tensors that differ in numbers in their names only."""
    first = alike[0]
    numbers = [map(int, NUMBER.findall(tensor.name)) for tensor in alike]
    ranges = iter([_ranges(found) for found in zip(*numbers, strict=True)])
    width = f", {first.width} rotated" if first.width < first.head_dim else ""
    return (
        first.action,
        str(len(alike)),
        NUMBER.sub(lambda _: next(ranges), first.name),
        " × ".join(map(str, first.shape)) or "number",
        "" if first.axis is None else str(first.axis),
        f"{first.heads} × {first.head_dim}{width}" if first.heads else "",
        first.reason,
    )


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text, such as "0–4, 6–10"; from the fourth range on as "…"."""
    ranges: list[list[int]] = []
    for number in sorted({*numbers}):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [f"{a}–{b}" if a < b else str(a) for a, b in ranges]
    return ", ".join(texts if len(texts) <= 4 else [*texts[:3], "…", texts[-1]])
