"""What a layer remembers of the tokens that it has seen."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Shaped
from torch import Tensor


class KVCache:
    """Keys, values and positions of the tokens that a layer has already seen.

    Give one cache to each layer; every call of the layer appends to it, or leaves it as
    it was if the call is refused. Keys are kept as the encoding left them (with RoPE:
    rotated), and with them what the encoding wants remembered of each token.
    ``count`` is how many tokens were ever seen, from which default positions go on;
    ``consecutive`` whether the positions so far were all of these.
    """

    def __init__(self) -> None:
        self.k: Float[Tensor, "batch kv_heads keys features"] | None = None
        self.v: Float[Tensor, "batch kv_heads keys d_v"] | None = None
        self.positions: Shaped[Tensor, "rows keys *position"] | None = None
        self.memory: dict[str, Shaped[Tensor, "batch keys *features"]] = {}
        self.owner: str | None = None
        self.count = 0
        self.consecutive = True

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

    def detach(self) -> None:
        """Let no gradient flow into what is remembered."""
        if self.k is not None:
            self.k, self.v, self.positions = (t.detach() for t in self.held)
            self.memory = {name: t.detach() for name, t in self.memory.items()}


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
