"""The key-value cache of an attention layer."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from posedu._arguments import require_dimension, require_finite
from posedu.torch._growing import Reserve, grown
from posedu.torch._tensors import (
    Positions,
    as_positions,
    can_read,
    require_positions,
)
from posedu.torch.encoding import Encoding, Identity

# The smallest and the largest value of each number that fixes the rotation of keys.
Ranges = tuple[tuple[Tensor, Tensor], ...]


class KVCache:
    """Keys, values and positions of the tokens that a layer has already processed.

    Give one cache to each layer. Every call of the layer appends to its cache; a
    refused call leaves the cache as it was. The cache holds keys as the encoding
    returned them (with RoPE: rotated), and the per-token state that the encoding's
    ``remember`` returns.

    The cache also records which encoding rotated its keys, since only that encoding
    may move the keys. The cache holds no module and no parameter, but:

    - ``identity``, the :class:`~posedu.torch.encoding.Identity` of the encoding, which
      ``copy.deepcopy`` of a model preserves; ``None`` for an empty cache and for keys
      of several encodings;
    - ``rotation``, copies of the numbers that fix the encoding's angles
      (:meth:`~posedu.torch.encoding.Encoding.rotation_state`), the smallest and largest
      value of each over all calls; ``None`` where their shapes changed.

    A copy of the cache, and a copy of the model, may thus be used in place of the
    original for as long as the angles are equal. A cache and a model that are saved in
    one file also fit each other when they are loaded.

    ``count`` is the next default position: the number of tokens that were appended,
    less those that :meth:`drop` removed or :meth:`crop` cut off at the end, plus the
    common integer shifts of :meth:`move`. ``consecutive`` is true while every position
    was a default one. ``encoding_name`` is the class of the layer's encoding.
    ``input_encoding`` is the class of the encoding that put positions into the layer's
    input, if a model has one.

    Without gradients (``torch.no_grad`` or ``torch.inference_mode``), the cached
    tensors grow in place, in memory for ``capacity`` tokens: a step then writes the new
    tokens and copies nothing. A cache and its :meth:`shared` one use the same memory
    until both append; the second one to append copies its tokens first (``copy.copy``
    copies them at once). With gradients and under ``torch.compile``, each call copies
    the cached tokens.

    Parameters
    ----------
    capacity
        Tokens for which memory is reserved at the first call. Default: twice as many as
        that call has. A cache whose memory is full takes twice as much as it needs.

    Raises
    ------
    TypeError, ValueError
        A ``capacity`` that is no positive integer.
    """

    def __init__(self, capacity: int | None = None) -> None:
        if capacity is not None:
            require_dimension("capacity", capacity, 1)
        self.capacity = capacity
        self.k: Float[Tensor, "batch kv_heads keys features"] | None = None
        self.v: Float[Tensor, "batch kv_heads keys d_v"] | None = None
        self.positions: Shaped[Tensor, "rows keys *position"] | None = None
        self.memory: dict[str, Shaped[Tensor, "batch keys *features"]] = {}
        self.count = 0
        self.consecutive = True
        self.encoding_name: str | None = None
        self.identity: Identity | None = None
        self.rotation: Ranges | None = None
        self.input_encoding: str | None = None
        self._reserves: dict[str, Reserve | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the contents to pickle or copy, without memory for more tokens."""
        state = self.__dict__ | {"_reserves": {}}
        if self._reserves and self.k is not None:
            for name in ("k", "v", "positions"):
                state[name] = state[name].clone()
            state["memory"] = {name: t.clone() for name, t in self.memory.items()}
        return state

    def __len__(self) -> int:
        """Return the number of cached tokens."""
        return 0 if self.k is None else self.k.shape[-2]

    @property
    def entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Cached keys, values and positions; ``ValueError`` if the cache is empty."""
        if self.k is None or self.v is None or self.positions is None:
            raise ValueError("the cache is empty")
        return self.k, self.v, self.positions

    def appended(
        self,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        memory: Mapping[str, Tensor],
        encoding: Encoding,
    ) -> "KVCache":
        """Return a new cache of the cached and given tokens; leave this cache as is.

        ``k``, ``v`` and ``positions`` are keys, values and positions of the new tokens,
        ``memory`` their further per-token state (tensors by name), ``encoding`` the
        encoding that rotated the keys.

        Raises
        ------
        ValueError
            Keys, values or per-token state of another shape, dtype or device; an
            encoding of another class than the encoding of the cached keys.
        """
        name, state = type(encoding).__name__, encoding.rotation_state()
        extended = KVCache(self.capacity)
        extended.encoding_name, extended.count = name, self.count + k.shape[-2]
        extended.input_encoding = self.input_encoding
        if len(self) == 0:
            extended.identity = encoding.identity
            extended.rotation = tuple(_first_range(t) for t in state)
        if self.k is None:
            entries = k[:, :, :0], v[:, :, :0], positions[:, :0]
            cached_memory = {name: new[:, :0] for name, new in memory.items()}
        else:
            self._require_fit(k, v, memory, name)
            entries, cached_memory = self.entries, self.memory
            if len(self):
                is_same = self.identity is encoding.identity
                extended.identity = encoding.identity if is_same else None
                extended.rotation = _widened(self.rotation, state)

        def grown_by(name: str, cached: Tensor, new: Tensor, axis: int) -> Tensor:
            reserve = self._reserves.get(name)
            both, reserve = grown(cached, new, axis, reserve, self.capacity)
            extended._reserves[name] = reserve
            return both

        rows = max(len(entries[2]), len(positions))
        at, positions = (p.expand(rows, *p.shape[1:]) for p in (entries[2], positions))
        extended.k = grown_by("k", entries[0], k, 2)
        extended.v = grown_by("v", entries[1], v, 2)
        extended.positions = grown_by("positions", at, positions, 1)
        extended.memory = {
            name: grown_by(f"memory {name}", cached_memory[name], new, 1)
            for name, new in memory.items()
        }
        return extended

    def _require_fit(
        self, k: Tensor, v: Tensor, memory: Mapping[str, Tensor], name: str
    ) -> None:
        """Raise unless the new tokens' tensors can follow the cached ones.

        Required: an encoding of the class ``name``, and keys, values and per-token
        state (``memory``) that differ from the cached ones in the number of tokens
        only.
        """
        if name != self.encoding_name:
            raise ValueError(
                f"the cache belongs to a layer with {self.encoding_name}, not {name}"
            )
        cached_k, cached_v, _ = self.entries
        _require_alike("keys of [batch, kv_heads, d]", cached_k, k, 2)
        _require_alike("values of [batch, kv_heads, d]", cached_v, v, 2)
        if memory.keys() != self.memory.keys():
            raise ValueError(
                f"the cache holds {[*self.memory]} of each token besides keys and "
                f"values, the layer needs {[*memory]}"
            )
        for name, new in memory.items():
            _require_alike(name, self.memory[name], new, 1)

    def extended(
        self,
        name: str,
        new: Shaped[Tensor, "batch tokens *features"],
        newest: int | None = None,
    ) -> Shaped[Tensor, "batch keys *features"]:
        """Return the cached per-token state ``name`` with that of new tokens appended.

        With ``newest``, a positive number, only the state of so many cached tokens, the
        last ones, comes before that of the new tokens. If the cache holds no state of
        this name, ``new`` is returned. The cache stays as it is.

        Raises
        ------
        ValueError
            ``new`` of another shape, dtype or device.
        """
        if name not in self.memory:
            return new
        cached = self.memory[name]
        _require_alike(name, cached, new, 1)
        return torch.cat((cached if newest is None else cached[:, -newest:], new), 1)

    def hide(
        self, window: int | None, padding: Bool[Tensor, "batch keys"] | None
    ) -> tuple[int | None, Bool[Tensor, "batch keys"] | None]:
        """Return window and padding of a layer's keys; here those that are given."""
        return window, padding

    def shared(self) -> "KVCache":
        """Return a new cache of the same contents, which shares the tensors."""
        cache = type(self)()
        cache.copy_from(self)
        return cache

    def copy_from(self, other: "KVCache") -> None:
        """Replace this cache's contents by the contents of the cache ``other``.

        Tensors are shared, not copied.
        """
        self.__dict__.update(other.__dict__)

    def crop(self, start: int | None = None, stop: int | None = None) -> None:
        """Keep only the cached tokens ``start`` … ``stop`` − 1, counted as in a slice.

        ``crop(-400)`` keeps the newest 400 (Transformer-XL's memory). ``crop(0, 10)``
        keeps the first 10; default positions of later tokens then go on from 10.

        Raises
        ------
        TypeError
            A ``start`` or ``stop`` that is neither an integer nor ``None``.
        """
        kept = token_slice(start, stop)
        if self.k is None:
            return
        self.count -= len(self) - kept.indices(len(self))[1]
        k, v, positions = self.entries
        self.k, self.v = k[:, :, kept], v[:, :, kept]
        self.positions = positions[:, kept]
        self.memory = {name: t[:, kept] for name, t in self.memory.items()}

    def move(self, encoding: Encoding, shifts: float | Positions) -> None:
        """Move the cached tokens to other positions, each by its own shift.

        Keys are rotated once more, in one pass from the old tensor to a new one, so
        that a copy of the cache keeps the old keys. Equation ``def-cache-rerotation``.

        Above the first layer, the moved keys equal those of a run at the new positions
        only if all earlier tokens move by the same shift (``thm-cache-stack``) and
        nothing else depends on absolute positions. Under :class:`LogN` (a temperature
        that grows with the query's position) the queries do depend on absolute
        positions, and the moved keys differ.

        Parameters
        ----------
        encoding
            The encoding of the layer that filled the cache: the module itself, or a
            deep copy of it whose angles are equal.
        shifts
            New positions minus old ones. One number for all tokens; if it is an
            integer, default positions of later tokens are shifted, too. Or ``[tokens]``
            or ``[batch, tokens]``, with a last axis of coordinates where positions have
            several; give the positions of later tokens yourself then.

        Raises
        ------
        TypeError, ValueError
            Another encoding than the one that rotated the keys; keys that were rotated
            by different angles, since the encoding was replaced or its frequencies
            changed between calls (dynamic NTK, LongRoPE, a training step); keys that
            cannot be moved; a model whose input holds positions; shifts of another
            shape, not finite or not exact, or that lead to such positions. Angles are
            compared outside ``torch.compile`` only.
        """
        self._require_rotated_by(encoding)
        if isinstance(shifts, Real):
            _require_exact(shifts)
        elif shifts is None:
            raise TypeError("shifts must be given, got none")
        common_shift = int(shifts) if isinstance(shifts, Integral) else None
        if self.k is not None:
            k, _, positions = self.entries
            shift_of_key = _as_shifts(encoding, shifts, k)
            new_positions = positions + shift_of_key
            require_positions(new_positions)
            self.k, self.positions = encoding.move_keys(k, shift_of_key), new_positions
            self.consecutive = self.consecutive and common_shift is not None
        self.count += common_shift or 0

    def drop(self, encoding: Encoding, start: int, stop: int) -> None:
        """Drop the cached tokens ``start`` … ``stop`` − 1, and move later tokens back.

        Later tokens, cached or new, move back by as many positions as were dropped.
        ``drop(encoding, 4, -1020)`` keeps four sinks and a window (arXiv 2309.17453).
        Like :meth:`move`, this copies; keys before the gap are not rotated.

        Raises
        ------
        TypeError, ValueError
            As :meth:`crop` and :meth:`move`; positions of several coordinates.
        """
        dropped = token_slice(start, stop)
        self._require_rotated_by(encoding)
        if self.k is None:
            return
        start, stop, _ = dropped.indices(len(self))
        k, v, positions = self.entries
        gap = max(0, stop - start)
        later_keys = k[:, :, start + gap :]
        shift_of_key = _as_shifts(encoding, -gap, later_keys)
        moved_keys = encoding.move_keys(later_keys, shift_of_key)
        self.k = torch.cat((k[:, :, :start], moved_keys), -2)
        self.v = torch.cat((v[:, :, :start], v[:, :, start + gap :]), -2)
        moved_positions = positions[:, start + gap :] + shift_of_key
        self.positions = torch.cat((positions[:, :start], moved_positions), 1)
        self.memory = {
            name: torch.cat((t[:, :start], t[:, start + gap :]), 1)
            for name, t in self.memory.items()
        }
        self.count -= gap

    def _require_rotated_by(self, encoding: Encoding) -> None:
        """Raise unless ``encoding`` rotated all cached keys, by its present angles.

        Also raise if the model's input holds positions, which cannot be moved. Angles
        that cannot be read, under ``torch.compile`` for example, are not compared.
        """
        if not isinstance(encoding, Encoding):
            raise TypeError(
                f"encoding must be that of the layer, got {type(encoding).__name__}"
            )
        if self.input_encoding is not None:
            raise ValueError(
                f"{self.input_encoding} puts positions into the layer's input, where "
                "they cannot be moved: compute keys and values anew"
            )
        name = type(encoding).__name__
        if self.encoding_name not in (None, name):
            raise ValueError(
                f"the cache belongs to a layer with {self.encoding_name}, not {name}"
            )
        if len(self) == 0:
            return
        if self.identity is not None and self.identity is not encoding.identity:
            raise ValueError(
                f"the keys were rotated by another {name} module, whose angles may "
                "differ: give the encoding of the layer that filled the cache"
            )
        if self.identity is None or not _is_constant(
            self.rotation, encoding.rotation_state()
        ):
            raise ValueError(
                f"the angles of {name} changed after keys were cached (its frequencies "
                "depend on the length, as in dynamic NTK and LongRoPE, or it was "
                "trained or replaced): such keys cannot be moved; compute them anew"
            )

    def detach(self) -> None:
        """Detach the cached tensors, so that no gradient flows into them."""
        if self.k is not None:
            self.k, self.v, self.positions = (t.detach() for t in self.entries)
            self.memory = {name: t.detach() for name, t in self.memory.items()}


def token_slice(start: int | None, stop: int | None) -> slice:
    """Return the slice of tokens ``start`` … ``stop`` − 1; raise unless integers."""
    for name, place in (("start", start), ("stop", stop)):
        is_integer = isinstance(place, Integral) and not isinstance(place, bool)
        if not (is_integer or place is None):
            raise TypeError(f"{name} must be an integer or None, got {place!r}")
    return slice(start, stop)


def _as_shifts(
    encoding: Encoding, shifts: float | Positions, k: Tensor
) -> Shaped[Tensor, "rows keys *position"]:
    """Return a tensor of position shifts (new minus old), one for each key of ``k``.

    ``shifts`` is one number for all keys, or positions as attention accepts them. Where
    the positions of ``encoding`` have several coordinates, so has each shift, and one
    number for all is refused.
    """
    shape, name = encoding.position_shape, type(encoding).__name__
    if not isinstance(shifts, Real):
        return as_positions(cast(Positions, shifts), shape, k, start=0, reader=name)
    if shape:
        raise ValueError(
            f"{name} has positions of {shape[0]} coordinates: give a shift of "
            f"[keys, {shape[0]}], got {shifts}"
        )
    shift = int(shifts) if isinstance(shifts, Integral) else float(shifts)
    dtype = torch.int64 if isinstance(shifts, Integral) else torch.float64
    return torch.full((1, k.shape[-2]), shift, dtype=dtype, device=k.device)


def _require_exact(shift: float) -> None:
    """Raise unless ``shift``, a position shift of all tokens, is finite and below 2⁵³.

    Numbers of 2⁵³ and more are not exact in float64.
    """
    too_large = isinstance(shift, Integral) and abs(shift) >= 2**53
    if too_large or abs(require_finite("shifts", shift)) >= 2**53:
        raise ValueError(
            f"shifts must be below {2**53} in size to be exact, got {shift}"
        )


def _first_range(t: Tensor) -> tuple[Tensor, Tensor]:
    """Return a detached copy of ``t`` twice, as the first range of its values.

    A range is a pair: the smallest and the largest value of a tensor over all calls.
    """
    value = t.detach().clone()
    return value, value


def _widened(old: Ranges | None, state: tuple[Tensor, ...]) -> Ranges | None:
    """Widen ranges (smallest and largest values) to cover the tensors in ``state``.

    ``state`` are the tensors that fix an encoding's angles; ``old`` has one range for
    each. ``None`` if ``old`` is ``None``, or if the tensors' shapes differ from those
    of the ranges. Ranges are widened rather than compared: for a comparison a device
    would have to wait, and a compiler could not trace the branch.
    """
    if old is None or [low.shape for low, _ in old] != [t.shape for t in state]:
        return None
    return tuple(
        (torch.minimum(low, t), torch.maximum(high, t))
        for (low, high), t in zip(old, (t.detach() for t in state), strict=True)
    )


def _is_constant(rotation: Ranges | None, state: tuple[Tensor, ...]) -> bool:
    """Return whether each range holds just the value of its tensor in ``state``.

    ``state`` are the tensors that fix an encoding's angles; ``rotation`` has a range
    for each, its smallest and largest value over all calls of a layer. False if
    ``rotation`` is ``None``, or if numbers or shapes of tensors differ. Tensors whose
    values cannot be read (on the device "meta", under ``torch.compile`` or
    ``torch.vmap``) are not compared, and count as equal.
    """
    if rotation is None or len(rotation) != len(state):
        return False
    for (low, high), t in zip(rotation, state, strict=True):
        if low.shape != t.shape:
            return False
        if can_read(low) and can_read(t):
            now = t.detach().to(low)
            if not (torch.equal(low, high) and torch.equal(low, now)):
                return False
    return True


def _require_alike(name: str, cached: Tensor, new: Tensor, token_axis: int) -> None:
    """Raise unless the cached and the new tensor differ only in their token counts.

    ``token_axis`` is the index of the token axis in both; ``name`` says in the error
    message what the tensors hold.
    """
    if _kind(cached, token_axis) != _kind(new, token_axis):
        old_shape, old_dtype, old_device = _kind(cached, token_axis)
        shape, dtype, device = _kind(new, token_axis)
        raise ValueError(
            f"the cache holds {name} = {list(old_shape)}, {old_dtype} on {old_device}; "
            f"got {list(shape)}, {dtype} on {device}"
        )


def _kind(
    t: Tensor, token_axis: int
) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    """Return a tensor's shape without the token axis, its dtype and its device.

    ``token_axis`` is the index of the token axis.
    """
    return (*t.shape[:token_axis], *t.shape[token_axis + 1 :]), t.dtype, t.device
