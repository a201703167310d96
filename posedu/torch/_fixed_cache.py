"""A key-value cache of fixed size, for decoding steps that are compiled once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from posedu.torch.cache import KVCache
from posedu.torch.encoding import Encoding


class FixedCache(KVCache):
    """A key-value cache of fixed size: a slot for each token of a text.

    A step writes its one new token into the slot ``place``, in place, and attends to
    all slots. Slots of later tokens are hidden by a mask, so that the shapes of all
    tensors are the same in each step. Such a cache cannot be cropped or moved.

    ``slots`` are the tensors by name that :func:`slots_of` makes.
    """

    def __init__(self, slots: Mapping[str, Tensor], place: Int[Tensor, ""]):
        super().__init__()
        self.slots, self.place = slots, place

    def appended(
        self,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        memory: Mapping[str, Tensor],
        encoding: Encoding,
    ) -> "FixedCache":
        """Write the new token into its slot; return this cache.

        The arguments are those of :meth:`posedu.torch.cache.KVCache.appended`.
        """
        self.k, self.v = self._written("k", k, 2), self._written("v", v, 2)
        self.positions = self._written("positions", positions, 1)
        self.memory = {
            name: self._written(f"memory {name}", new, 1)
            for name, new in memory.items()
        }
        return self

    def _written(self, name: str, new: Tensor, axis: int) -> Tensor:
        slots = self.slots[name]
        new = new.expand(len(slots), *new.shape[1:])
        return slots.index_copy_(axis, self.place[None], new)

    def hide(
        self, window: int | None, padding: Bool[Tensor, "batch keys"] | None
    ) -> tuple[None, Bool[Tensor, "batch keys"]]:
        """Return no window, and as padding the slots that the new token may not see.

        These are the slots of later tokens, and of tokens older than ``window`` allows.
        ``padding`` is ``None``.
        """
        batch, _, slots, _ = self.slots["k"].shape
        slot = torch.arange(slots, device=self.place.device)
        hidden = slot > self.place
        if window is not None:
            hidden = hidden | (slot <= self.place - window)
        return None, hidden.expand(batch, -1)

    def shared(self) -> "FixedCache":
        """Return this cache: a step that fails leaves no token that others see."""
        return self


def slots_of(cache: KVCache, capacity: int) -> dict[str, Shaped[Tensor, "..."]]:
    """Return the tensors of a cache by name, with zeros for tokens up to ``capacity``.

    Names are ``"k"``, ``"v"``, ``"positions"`` and, for each further per-token state,
    ``"memory …"``.
    """
    k, v, positions = cache.entries
    memory = {f"memory {name}": t for name, t in cache.memory.items()}
    axes = {"k": 2, "v": 2} | dict.fromkeys(("positions", *memory), 1)
    tensors = {"k": k, "v": v, "positions": positions} | memory
    slots = {}
    for name, axis in axes.items():
        t = tensors[name]
        slots[name] = t.new_zeros(*t.shape[:axis], capacity, *t.shape[axis + 1 :])
        slots[name].narrow(axis, 0, len(cache)).copy_(t)
    return slots
