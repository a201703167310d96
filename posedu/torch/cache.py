"""What a layer remembers of the tokens that it has seen."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from posedu._arguments import require_finite
from posedu.torch._tensors import Positions, as_positions, require_positions
from posedu.torch.encoding import Encoding


class KVCache:
    """Keys, values and positions of the tokens that a layer has already seen.

    Give one cache to each layer; every call of the layer appends to it, or leaves it as
    it was if the call is refused. Keys are kept as the encoding left them (with RoPE:
    rotated), and with them what the encoding wants remembered of each token.
    ``count`` is how many tokens were ever seen, from which default positions go on;
    ``consecutive`` whether the positions so far were all of these; ``turned_by`` the
    maps from positions to angles by which keys were turned, in words; ``entered`` the
    encoding of a model that has put positions into the layer's input, if there is one.
    """

    def __init__(self) -> None:
        self.k: Float[Tensor, "batch kv_heads keys features"] | None = None
        self.v: Float[Tensor, "batch kv_heads keys d_v"] | None = None
        self.positions: Shaped[Tensor, "rows keys *position"] | None = None
        self.memory: dict[str, Shaped[Tensor, "batch keys *features"]] = {}
        self.owner: str | None = None
        self.count = 0
        self.consecutive = True
        self.turned_by: tuple[str, ...] = ()
        self.entered: str | None = None

    def __len__(self) -> int:
        """How many tokens are remembered."""
        return 0 if self.k is None else self.k.shape[-2]

    @property
    def held(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values and positions of a cache that holds some."""
        if self.k is None or self.v is None or self.positions is None:
            raise ValueError("the cache is empty")
        return self.k, self.v, self.positions

    def joined(
        self,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        memory: Mapping[str, Tensor],
        owner: str,
        turning: str = "",
    ) -> "KVCache":
        """Return a cache of these tokens after those remembered; this one is as before.

        Raises
        ------
        ValueError
            Keys, values or what is remembered of another shape, dtype or device, or the
            cache of a layer with another encoding.
        """
        grown = KVCache()
        grown.owner, grown.count = owner, self.count + k.shape[-2]
        grown.entered = self.entered
        turned_by = self.turned_by if len(self) else ()
        known = turning in turned_by
        grown.turned_by = turned_by if known else (*turned_by, turning)
        if self.k is None:
            grown.k, grown.v = k.clone(), v.clone()
            grown.positions = positions.clone()
            grown.memory = {name: new.clone() for name, new in memory.items()}
            return grown
        if owner != self.owner:
            raise ValueError(
                f"the cache is that of a layer with {self.owner}, not {owner}"
            )
        held_k, held_v, held_positions = self.held
        _require_alike("keys of [batch, kv_heads, d]", held_k, k, 2)
        _require_alike("values of [batch, kv_heads, d]", held_v, v, 2)
        if memory.keys() != self.memory.keys():
            raise ValueError(
                f"the cache holds {[*self.memory]} of each token besides keys and "
                f"values, the layer wants {[*memory]}"
            )
        rows = max(len(held_positions), len(positions))
        both = (p.expand(rows, *p.shape[1:]) for p in (held_positions, positions))
        grown.k, grown.v = torch.cat((held_k, k), -2), torch.cat((held_v, v), -2)
        grown.positions = torch.cat((*both,), 1)
        grown.memory = {name: self.after(name, new) for name, new in memory.items()}
        return grown

    def after(
        self, name: str, new: Shaped[Tensor, "batch tokens *features"]
    ) -> Shaped[Tensor, "batch keys *features"]:
        """What is remembered by ``name``, and then ``new``.

        Raises
        ------
        ValueError
            ``new`` of another shape, dtype or device.
        """
        if name not in self.memory:
            return new
        _require_alike(name, self.memory[name], new, 1)
        return torch.cat((self.memory[name], new), 1)

    def take(self, other: "KVCache") -> None:
        """Remember what ``other`` does."""
        self.__dict__.update(other.__dict__)

    def crop(self, start: int | None = None, stop: int | None = None) -> None:
        """Keep tokens ``start`` … ``stop`` − 1 only, counted as in a slice.

        ``crop(-400)`` keeps the newest 400 (Transformer-XL's memory), ``crop(0, 10)``
        the first 10: what comes next then goes on after those.
        """
        if self.k is None:
            return
        kept = slice(start, stop)
        self.count -= len(self) - kept.indices(len(self))[1]
        k, v, positions = self.held
        self.k, self.v = k[:, :, kept], v[:, :, kept]
        self.positions = positions[:, kept]
        self.memory = {name: t[:, kept] for name, t in self.memory.items()}

    def move(self, encoding: Encoding, shifts: float | Positions) -> None:
        """Put what is remembered elsewhere, each token ``shifts`` further on.

        Keys are turned once more, in one pass from the old tensor to a new one, so that
        a fork of the cache keeps its own. Equation ``def-cache-rerotation``.

        Above the first layer that is a run at the new positions only if all earlier
        tokens move alike (``thm-cache-stack``) and nothing else knows where the text
        stands; under a :class:`LogN` queries do, and it is not.

        Parameters
        ----------
        encoding
            That of the layer whose cache it is.
        shifts
            One number for all tokens; default positions go on that much later, too, if
            it is an integer. Or ``[tokens]`` or ``[batch, tokens]``, new positions
            minus old ones, with an axis of coordinates where positions have several:
            give the positions of later tokens yourself then.

        Raises
        ------
        TypeError, ValueError
            The encoding of another layer, one whose keys cannot be moved, or with other
            angles than those by which they were turned (frequencies that depend on the
            length); a model whose input holds positions; shifts of another shape, not
            finite, or not exact, or to positions that are not.
        """
        self._require_turned_by(encoding)
        if isinstance(shifts, Real):
            _require_exact(shifts)
        elif shifts is None:
            raise TypeError("shifts must be given, got none")
        whole = int(shifts) if isinstance(shifts, Integral) else None
        if self.k is not None:
            k, _, positions = self.held
            by = _as_shifts(encoding, shifts, k)
            there = positions + by
            require_positions(there)
            self.k, self.positions = encoding.moved(k, by), there
            self.consecutive = self.consecutive and whole is not None
        self.count += whole or 0

    def drop(self, encoding: Encoding, start: int, stop: int) -> None:
        """Forget tokens ``start`` … ``stop`` − 1, and close the gap.

        Later ones, and those to come, are put as many positions nearer as were dropped.
        ``drop(encoding, 4, -1020)`` keeps four sinks and a window (arXiv 2309.17453).
        Copies like :meth:`move`; what is kept in place is not turned.

        Raises
        ------
        TypeError, ValueError
            As :meth:`move`; positions of several coordinates.
        """
        self._require_turned_by(encoding)
        if self.k is None:
            return
        start, stop, _ = slice(start, stop).indices(len(self))
        k, v, positions = self.held
        gap = max(0, stop - start)
        by = _as_shifts(encoding, -gap, k[:, :, start + gap :])
        moved = encoding.moved(k[:, :, start + gap :], by)
        self.k = torch.cat((k[:, :, :start], moved), -2)
        self.v = torch.cat((v[:, :, :start], v[:, :, start + gap :]), -2)
        after = positions[:, start + gap :] + by
        self.positions = torch.cat((positions[:, :start], after), 1)
        self.memory = {
            name: torch.cat((t[:, :start], t[:, start + gap :]), 1)
            for name, t in self.memory.items()
        }
        self.count -= gap

    def _require_turned_by(self, encoding: Encoding) -> None:
        """Raise unless an encoding is the one by which all the keys were turned."""
        if not isinstance(encoding, Encoding):
            raise TypeError(
                f"encoding must be that of the layer, got {type(encoding).__name__}"
            )
        if self.entered is not None:
            raise ValueError(
                f"{self.entered} puts positions into the layer's input, where they do "
                "not move: compute keys and values anew"
            )
        owner, turning = type(encoding).__name__, encoding.turning
        if self.owner not in (None, owner):
            raise ValueError(
                f"the cache is that of a layer with {self.owner}, not {owner}"
            )
        others = [other for other in self.turned_by if other != turning]
        if others:
            raise ValueError(
                f"keys were turned by {_short(others[0])}, {owner} turns by "
                f"{_short(turning)}: where angles depend on the length (dynamic NTK, "
                "LongRoPE), turned keys cannot be moved; compute them anew"
            )

    def detach(self) -> None:
        """Let no gradient flow into what is remembered."""
        if self.k is not None:
            self.k, self.v, self.positions = (t.detach() for t in self.held)
            self.memory = {name: t.detach() for name, t in self.memory.items()}


def _as_shifts(
    encoding: Encoding, shifts: float | Positions, k: Tensor
) -> Shaped[Tensor, "rows keys *position"]:
    """One shift for each key, of as many coordinates as a position has."""
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
    """Raise unless one shift for all is a finite number that a float64 holds."""
    too_large = isinstance(shift, Integral) and abs(shift) >= 2**53
    if too_large or abs(require_finite("shifts", shift)) >= 2**53:
        raise ValueError(
            f"shifts must be below {2**53} in size to be exact, got {shift}"
        )


def _short(turning: str) -> str:
    return turning if len(turning) <= 100 else f"{turning[:99]}…"


def _require_alike(what: str, held: Tensor, given: Tensor, tokens: int) -> None:
    """Raise unless two tensors differ in nothing but their axis of tokens."""
    if _kind(held, tokens) != _kind(given, tokens):
        old, *of_old = _kind(held, tokens)
        new, *of_new = _kind(given, tokens)
        raise ValueError(
            f"the cache holds {what} = {list(old)}, {of_old[0]} on {of_old[1]}; got "
            f"{list(new)}, {of_new[0]} on {of_new[1]}"
        )


def _kind(t: Tensor, tokens: int) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    """Shape without the axis of tokens, dtype and device."""
    return (*t.shape[:tokens], *t.shape[tokens + 1 :]), t.dtype, t.device
