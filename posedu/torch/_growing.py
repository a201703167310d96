"""Tensors that grow along an axis in place, in memory that is reserved for them."""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.compiler import is_compiling

from posedu.torch._tensors import is_wrapped


class Reserve:
    """Memory that holds a tensor, with room for more entries along one axis.

    Caches that share tensors share the memory. Numbers that were written once are never
    overwritten: a tensor grows in place only if it ends where the written part of the
    memory ends; any other tensor is copied to new memory first.

    ``like`` is a tensor that gives shape (except for ``axis``, along which it grows),
    dtype and device; ``capacity`` is the number of entries along this axis.
    """

    def __init__(self, like: Tensor, axis: int, capacity: int):
        shape = (*like.shape[:axis], capacity, *like.shape[axis + 1 :])
        self.memory = like.new_empty(shape)
        self.axis = axis
        self.written = 0

    def append(self, new: Tensor) -> None:
        """Copy the tensor ``new`` into the reserved memory, after the entries there."""
        end = self.written + new.shape[self.axis]
        self.memory.narrow(self.axis, self.written, new.shape[self.axis]).copy_(new)
        self.written = end

    def newest(self, count: int) -> Tensor:
        """Return a view of the last ``count`` entries that were written.

        An entry is an index along the axis along which the tensor grows.
        """
        return self.memory.narrow(self.axis, self.written - count, count)

    def can_extend(self, t: Tensor, by: int) -> bool:
        """Return whether ``by`` more entries can be written right after tensor ``t``.

        False if they do not fit into the memory, if ``t`` is no view of the memory that
        ends at the entry written last, or if the memory was reserved in inference mode
        and that mode is off.
        """
        memory, axis = self.memory, self.axis
        if self.written + by > memory.shape[axis] or t.stride() != memory.stride():
            return False
        if memory.is_inference() and not torch.is_inference_mode_enabled():
            return False
        start = self.written - t.shape[axis]
        step = memory.stride(axis) * memory.itemsize
        return t.data_ptr() == memory.data_ptr() + start * step


def grown(
    t: Shaped[Tensor, "*shape"],
    new: Shaped[Tensor, "*new_shape"],
    axis: int,
    reserve: Reserve | None,
    capacity: int | None,
) -> tuple[Shaped[Tensor, "*grown_shape"], Reserve | None]:
    """Append ``new`` to ``t`` along ``axis``; return the longer tensor and its memory.

    ``reserve`` is the memory in which ``t`` lies, ``None`` if there is none. Where
    gradients are recorded, and under compilers and transforms, the longer tensor is new
    and its memory is ``None``. Otherwise the longer tensor is a view of ``reserve``,
    or, if it does not fit there, of new memory for ``capacity`` entries, by default
    twice as many as there are.
    """
    if torch.is_grad_enabled() or new.is_meta or is_compiling() or is_wrapped(new):
        return torch.cat((t, new), axis), None
    total = t.shape[axis] + new.shape[axis]
    if reserve is None or not reserve.can_extend(t, new.shape[axis]):
        room = 2 * total if capacity is None or capacity < total else capacity
        reserve = Reserve(t, axis, room)
        reserve.append(t)
    reserve.append(new)
    return reserve.newest(total), reserve
