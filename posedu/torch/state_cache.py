"""The cache of a recurrent layer: a state, whatever the number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from jaxtyping import Bool, Float
from torch import Tensor

from posedu._arguments import require_count
from posedu.torch._tensors import Positions
from posedu.torch.cache import KVCache
from posedu.torch.encoding import Encoding

HISTORY = "history"


class StateCache(KVCache):
    """The states of a recurrent layer after the tokens that it has processed.

    It takes the place of a :class:`~posedu.torch.cache.KVCache` for encodings that are
    a recurrence (:class:`~posedu.torch.recurrent.Recurrence`), and takes the same
    memory for every number of tokens. No token can be removed from a state, but states
    are never changed in place: a copy (``copy.copy``) costs nothing and is what to go
    back to after tokens that are to be taken back. With ``keep``, the cache itself
    keeps the states before each of so many last calls, to whose lengths :meth:`crop`
    goes back. A mask of padding has an entry for each token so far, of which only those
    of new tokens are read: earlier padding never entered the state.

    ``states`` are tensors of ``[batch, heads, features, d_v]`` by name. Of ``memory``,
    the tensors that a layer remembers, only the one of the name ``HISTORY`` stays: the
    layer makes it of as many tokens as its convolutions look back. ``count`` is the
    next default position.

    Parameters
    ----------
    keep
        Number of calls that can be taken back. Default 0.

    Raises
    ------
    TypeError, ValueError
        ``keep`` is no integer from 0 on.
    """

    def __init__(self, keep: int = 0) -> None:
        super().__init__()
        self.keep = require_count("keep", keep)
        self.kept: tuple[StateCache, ...] = ()
        self.states: dict[str, Float[Tensor, "batch heads _ _"]] = {}
        self.seen = 0
        self.of_token: tuple[object, ...] | None = None

    def __len__(self) -> int:
        """Return the number of tokens so far, padding included."""
        return self.seen

    def appended(
        self,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        memory: Mapping[str, Tensor],
        encoding: Encoding,
    ) -> "StateCache":
        """Return a cache with the new tokens alone and the states before them.

        The arguments are those of :meth:`posedu.torch.cache.KVCache.appended`.

        Raises
        ------
        ValueError
            An encoding without a state, or of another class than that of the states;
            tokens of another shape, dtype or device.
        """
        name = type(encoding).__name__
        if not encoding.uses("carry"):
            raise ValueError(f"{name} is no recurrence: its layer needs a KVCache")
        if self.encoding_name not in (None, name):
            raise ValueError(
                f"the cache belongs to a layer with {self.encoding_name}, not {name}"
            )
        of_token = len(k), k.shape[1], k.shape[3], v.shape[3], k.dtype, k.device
        if self.of_token not in (None, of_token):
            raise ValueError(
                "batch, kv_heads, d, d_v, dtype and device must be those of the "
                f"earlier tokens, {self.of_token}, got {of_token}"
            )
        extended = StateCache()
        extended.copy_from(self)
        extended.encoding_name, extended.of_token = name, of_token
        extended.count, extended.seen = (
            n + k.shape[2] for n in (self.count, self.seen)
        )
        extended.k, extended.v, extended.positions = k, v, positions
        extended.memory = dict(memory)
        if self.keep and self.seen:
            before = self.shared()
            before.kept = ()
            extended.kept = (*self.kept, before)[-self.keep :]
        return extended

    def hide(
        self, window: int | None, padding: Bool[Tensor, "batch keys"] | None
    ) -> tuple[None, Bool[Tensor, "batch new"] | None]:
        """Return no window, and the padding of the new tokens.

        A window raises ``ValueError``: a state has no keys to hide.
        """
        if window is not None:
            raise ValueError(
                f"a state has no keys that window={window} could hide: give the layer "
                "a KVCache"
            )
        new = self.entries[0].shape[2]
        return None, None if padding is None else padding[:, self.seen - new :]

    def settled(self, states: Mapping[str, Tensor]) -> None:
        """Take new states, in place of the per-token tensors of the new tokens."""
        self.states = dict(states)
        self.k = self.v = self.positions = None
        self.memory = {name: t for name, t in self.memory.items() if name == HISTORY}

    def shared(self) -> "StateCache":
        """Return a new cache of the same states."""
        cache = StateCache()
        cache.copy_from(self)
        return cache

    def crop(self, start: int | None = None, stop: int | None = None) -> None:
        """Go back to the first ``stop`` tokens, where a call ended that was kept.

        Raises
        ------
        ValueError
            A ``start`` that cuts off the first tokens, which no state forgets; a
            ``stop`` at which no state was kept.
        """
        first, last, _ = slice(start, stop).indices(self.seen)
        if first > 0:
            raise ValueError(
                f"the first tokens cannot be removed from a state, got start={start}"
            )
        if last == self.seen:
            return
        lengths = [cache.seen for cache in self.kept]
        if last not in lengths:
            known = f"those after {', '.join(map(str, lengths))}" if lengths else "none"
            raise ValueError(
                f"the state after {last} tokens was not kept (keep={self.keep}; "
                f"kept: {known}): restore a copy of the cache from that length"
            )
        keep, kept = self.keep, self.kept[: lengths.index(last)]
        self.copy_from(self.kept[lengths.index(last)])
        self.keep, self.kept = keep, kept

    def move(self, encoding: Encoding, shifts: float | Positions) -> NoReturn:
        """Raise ``ValueError``: tokens in a state have no positions of their own."""
        raise ValueError(
            "tokens in a state have no positions that could be moved: compute the "
            "state anew"
        )

    def drop(self, encoding: Encoding, start: int, stop: int) -> NoReturn:
        """Raise ``ValueError``: no token can be removed from a state."""
        raise ValueError(
            "no token can be removed from a state: go back to a copy of the cache from "
            "before it"
        )

    def detach(self) -> None:
        """Detach the states, so that no gradient flows into them; keep no others."""
        self.kept = ()
        self.states = {name: t.detach() for name, t in self.states.items()}
        self.memory = {name: t.detach() for name, t in self.memory.items()}
