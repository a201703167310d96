"""Attention as a module, with every door open to an encoding."""

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from posedu._arguments import require_choice, require_dimension, require_heads
from posedu.torch._tensors import Positions, align_positions, require_floats
from posedu.torch.encoding import Encoding, Tokens

ROUTES = ("sdpa", "flex", "eager", "fused")


class KVCache:
    """Keys, values and positions of the tokens that a layer has already seen.

    Give one cache to each layer; every call of the layer appends to it. Keys are kept
    as the encoding left them (with RoPE: rotated), and with them what the encoding
    wants remembered of each token.
    """

    def __init__(self):
        self.k: Float[Tensor, "batch kv_heads keys d"] | None = None
        self.v: Float[Tensor, "batch kv_heads keys d"] | None = None
        self.positions: Shaped[Tensor, "*rows keys"] | None = None
        self.memory: Shaped[Tensor, "batch keys *features"] | None = None
        self.previous: Shaped[Tensor, "batch heads 1 features"] | None = None

    def __len__(self) -> int:
        """How many tokens are remembered."""
        return 0 if self.k is None else self.k.shape[-2]

    def append(
        self, k: Tensor, v: Tensor, positions: Tensor, axes: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Add new tokens and return everything remembered.

        Where a position has ``axes`` coordinates, they are its last axis.
        """
        coordinates = () if axes is None else (axes,)
        if self.k is None:
            self.k, self.v, self.positions = k, v, positions
        else:
            held, given = ((t.shape[0], t.shape[1], t.shape[3]) for t in (self.k, k))
            if held != given:
                raise ValueError(
                    "the cache holds keys of [batch, kv_heads, d] = "
                    f"{list(held)}, got {list(given)}"
                )
            if positions.ndim != self.positions.ndim:
                rows = (k.shape[0], -1, *coordinates)
                positions = positions.expand(rows)
                self.positions = self.positions.expand(rows)
            self.k = torch.cat((self.k, k), -2)
            self.v = torch.cat((self.v, v), -2)
            tokens = -1 - len(coordinates)
            self.positions = torch.cat((self.positions, positions), tokens)
        return self.k, self.v, self.positions

    def remember(self, memory: Tensor | None) -> Tensor | None:
        """Add what an encoding remembers of new tokens and return all of it."""
        if memory is not None and self.memory is not None:
            memory = torch.cat((self.memory, memory), 1)
        self.memory = memory
        return memory


class Attention(nn.Module):
    """Multi-head attention (arXiv 1706.03762 §3.2.2) with a positional encoding.

    Parameters
    ----------
    d_model
        Width of the input and output vectors.
    heads
        Query heads.
    kv_heads
        Key-value heads, a divisor of ``heads`` (grouped queries, arXiv 2305.13245).
        Default ``heads``.
    d
        Head dimension. Default d_model / heads.
    encoding
        The module whose doors are used; default none (NoPE).
    causal
        Whether a query may look only at itself and earlier tokens. Default true.
        "Earlier" is the order in the sequence, whatever the positions are.
    bias
        Whether the projections have biases. Default false.
    route
        ``"sdpa"`` (default): ``scaled_dot_product_attention``. ``"flex"``:
        FlexAttention, which fuses a ``score_mod`` under ``torch.compile``; on a CPU
        it has no gradient. ``"eager"``: every step in the open, for every encoding.
        ``"fused"``: the encoding's own kernel, for those that open ``attend``.
        Encodings that open ``weigh`` or ``mix`` have these last two routes only.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers or do not divide; an encoding that the
        route cannot serve.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        d: int | None = None,
        encoding: Encoding | None = None,
        causal: bool = True,
        bias: bool = False,
        route: str = "sdpa",
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.group = require_heads(heads, self.kv_heads)
        if d is None and d_model % heads:
            raise ValueError(
                f"d_model must be a multiple of heads = {heads} unless d is given, "
                f"got {d_model}"
            )
        self.d = d_model // heads if d is None else require_dimension("d", d, 1)
        if not isinstance(encoding, Encoding | None):
            raise TypeError(f"encoding must be an Encoding module, got {encoding!r}")
        self.encoding = Encoding() if encoding is None else encoding
        self.causal = causal
        self.route = require_choice("route", route, ROUTES)
        opened = [door for door in ("weigh", "mix") if self.encoding.opens(door)]
        if opened and route in ("sdpa", "flex"):
            raise ValueError(
                f"{type(self.encoding).__name__} opens the door {opened[0]!r}, which "
                f"only route='eager' has; got route={route!r}"
            )
        if route == "fused" and not self.encoding.opens("attend"):
            raise ValueError(
                f"{type(self.encoding).__name__} has no kernel of its own, which "
                "route='fused' needs"
            )
        self.q = nn.Linear(d_model, heads * self.d, bias=bias)
        self.k = nn.Linear(d_model, self.kv_heads * self.d, bias=bias)
        self.v = nn.Linear(d_model, self.kv_heads * self.d, bias=bias)
        self.o = nn.Linear(heads * self.d, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Positions | None = None,
        *,
        key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Attend. Equation ``def-attention``.

        Parameters
        ----------
        x
            One vector a token.
        positions
            A range, ``[tokens]`` or ``[batch, tokens]``; integers or reals in any
            order. Default: 0, 1, 2, … counted on from the cache. An encoding of
            several coordinates needs them: ``[tokens, axes]`` or
            ``[batch, tokens, axes]``.
        key_padding_mask
            True where a key is padding, to be ignored (PyTorch's convention), for all
            keys including the cached ones. A query left with no key gives zeros
            before the output projection.
        segments
            For packed sequences: a token sees only tokens of its own number.
        cache
            What this layer has already seen; the new tokens are appended.

        Raises
        ------
        TypeError, ValueError
            Shapes, dtypes or devices that do not fit; ``segments`` with a cache.
        """
        self._require_inputs(x, key_padding_mask, segments, cache)
        tokens, past = x.shape[1], 0 if cache is None else len(cache)
        axes = self.encoding.axes
        if positions is None:
            if axes is not None:
                raise ValueError(
                    f"{type(self.encoding).__name__} needs positions [{tokens}, "
                    f"{axes}] or [{len(x)}, {tokens}, {axes}], got none"
                )
            positions = range(past, past + tokens)

        align_positions(positions, x, axes)
        x = self.encoding.embed(x, positions)
        q, k, v = self.project(x, segments, cache)
        q, k = self.encoding.rotate(q, k, positions)
        query_positions = key_positions = _as_tensor(positions, x.device)
        memory = self.encoding.remember(x)
        if cache is not None:
            k, v, key_positions = cache.append(k, v, query_positions, axes)
            memory = cache.remember(memory)
        is_fused = self.route == "fused"
        mask = None
        if not is_fused:
            mask = self._mask(tokens, past, key_padding_mask, segments, x.device)
        if self.group > 1:
            k = k.repeat_interleave(self.group, 1)
            v = v.repeat_interleave(self.group, 1)
        seen = Tokens(x, q, k, query_positions, key_positions, memory, mask)
        if is_fused:
            out = self.encoding.attend(seen, v, key_padding_mask)
        else:
            out = getattr(self, f"_{self.route}")(seen, v, mask)
        return self.finish(out, x)

    def project(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        segments: Int[Tensor, "batch tokens"] | None,
        cache: KVCache | None,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"],
        Float[Tensor, "batch kv_heads tokens d"],
        Float[Tensor, "batch kv_heads tokens d"],
    ]:
        """Queries, keys and values of the new tokens."""
        q = self.q(x).unflatten(-1, (self.heads, self.d)).transpose(1, 2)
        k = self.k(x).unflatten(-1, (self.kv_heads, self.d)).transpose(1, 2)
        v = self.v(x).unflatten(-1, (self.kv_heads, self.d)).transpose(1, 2)
        return q, k, v

    def finish(
        self,
        out: Float[Tensor, "batch heads tokens d"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Float[Tensor, "batch tokens d_model"]:
        """The layer's output from what its heads gathered."""
        return self.o(out.transpose(1, 2).flatten(2))

    def _require_inputs(self, x, key_padding_mask, segments, cache) -> None:
        require_floats("x", x)
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(
                f"x must be [batch, tokens, {self.d_model}], got {list(x.shape)}"
            )
        if x.device != self.q.weight.device:
            raise ValueError(
                f"x is on {x.device}, the weights on {self.q.weight.device}; "
                "move one of them"
            )
        batch, tokens, _ = x.shape
        keys = tokens + (0 if cache is None else len(cache))
        if key_padding_mask is not None:
            _require_rows("key_padding_mask", key_padding_mask, (batch, keys), x)
            if key_padding_mask.dtype != torch.bool:
                raise TypeError(
                    "key_padding_mask must be boolean, true where a key is padding, "
                    f"got {key_padding_mask.dtype}"
                )
        if segments is not None:
            if cache is not None:
                raise ValueError("segments cannot be combined with a cache")
            if self.route == "fused":
                raise ValueError("segments need another route than 'fused'")
            _require_rows("segments", segments, (batch, tokens), x)
            if segments.is_floating_point() or segments.is_complex():
                raise TypeError(f"segments must be integers, got {segments.dtype}")

    def _mask(self, tokens, past, key_padding_mask, segments, device):
        """Which key a query may look at, ``[batch or 1, 1, queries, keys]``, or none.

        A mask that allows everything, or only restates causality of a square, is left
        to the route as ``None`` with ``self.causal``.
        """
        only_causality = key_padding_mask is None and segments is None
        if only_causality and (past == 0 or tokens == 1 or not self.causal):
            return None
        mask = _earlier(tokens, past + tokens, device)
        if not self.causal:
            mask = torch.ones_like(mask)
        if key_padding_mask is not None:
            mask = mask & ~key_padding_mask[:, None, None, :]
        if segments is not None:
            mask = mask & (segments[:, None, :, None] == segments[:, None, None, :])
        return mask

    def _eager(self, seen: Tokens, v: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None and self.causal:
            mask = _earlier(seen.q.shape[2], seen.k.shape[2], seen.q.device)
        return self.encoding.attend_openly(seen, v, mask)

    def _sdpa(self, seen: Tokens, v: Tensor, mask: Tensor | None) -> Tensor:
        bias = self.encoding.bias(seen)
        if bias is not None:
            if mask is None and self.causal:
                mask = _earlier(seen.q.shape[2], seen.k.shape[2], seen.q.device)
            bias = bias.to(seen.q.dtype)
            mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        is_causal = mask is None and self._is_square_causal(seen)
        return scaled_dot_product_attention(
            seen.q, seen.k, v, attn_mask=mask, is_causal=is_causal
        )

    def _flex(self, seen: Tokens, v: Tensor, mask: Tensor | None) -> Tensor:
        if seen.q.numel() == 0:  # which FlexAttention refuses
            return seen.q
        score_mod = self.encoding.score_mod(seen)
        if score_mod is None and (bias := self.encoding.bias(seen)) is not None:
            score_mod = _adding(bias.expand(*seen.q.shape[:3], seen.k.shape[2]))
        block_mask = None
        if mask is not None or self._is_square_causal(seen):
            batch = None if mask is None else seen.q.shape[0]
            block_mask = create_block_mask(
                _causal() if mask is None else _lookup(mask.expand(batch, -1, -1, -1)),
                batch,
                None,
                seen.q.shape[2],
                seen.k.shape[2],
                device=seen.q.device,
            )
        return flex_attention(
            seen.q, seen.k, v, score_mod=score_mod, block_mask=block_mask
        )

    def _is_square_causal(self, seen: Tokens) -> bool:
        return self.causal and seen.q.shape[2] == seen.k.shape[2]


def _require_rows(
    name: str, rows: Tensor, shape: tuple[int, int], like: Tensor
) -> None:
    """Raise unless ``rows`` is a tensor of this shape on the device of ``like``."""
    if not isinstance(rows, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(rows).__name__}")
    if rows.shape != shape:
        raise ValueError(
            f"{name} must be {list(shape)}, [batch, tokens], got {list(rows.shape)}"
        )
    if rows.device != like.device:
        raise ValueError(
            f"{name} is on {rows.device}, x on {like.device}; move one of them"
        )


def _as_tensor(positions: Positions, device: torch.device) -> Tensor:
    if isinstance(positions, range):
        return torch.arange(
            positions.start, positions.stop, positions.step, device=device
        )
    return positions


def _earlier(queries: int, keys: int, device: torch.device) -> Tensor:
    """True where a key is not after a query, the last query being at the last key."""
    mask = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=device)
    return mask.tril(keys - queries)


def _adding(bias: Tensor):
    """Make the ``score_mod`` that adds ``bias``."""
    return lambda score, b, h, i, j: score + bias[b, h, i, j]


def _causal():
    """Make the ``mask_mod`` of causality."""
    return lambda b, h, i, j: i >= j


def _lookup(mask: Tensor):
    """Make the ``mask_mod`` that reads ``mask``."""
    return lambda b, h, i, j: mask[b, 0, i, j]
