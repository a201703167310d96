"""Stick-breaking attention: with all logits at once, and in tiles with O(L) memory."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.types import Device

from posedu._arguments import (
    Remainder,
    require_bool,
    require_choice,
    require_dimension,
    require_finite,
)
from posedu.torch._autograd import completed, keep, without_autocast
from posedu.torch._tensors import require_floats, require_shape
from posedu.torch.encoding import Encoding, Tokens


def softplus(z: Tensor) -> Tensor:
    """Return log(1 + e^z), exact to the rounding of float64.

    PyTorch's function returns z above a threshold, 20 by default, where the error e^−20
    is visible in float64. At 40 the error is below the unit roundoff of float64.
    """
    return nn.functional.softplus(z, threshold=40.0)


def earlier(
    queries: int, keys: int, *, attend_current: bool, device: Device = None
) -> Bool[Tensor, "queries keys"]:
    """Return a boolean mask, true where key j comes before query i.

    ``queries`` and ``keys`` are their numbers; the last query belongs to the last key.
    With ``attend_current`` the query's own key is included.
    """
    require_bool("attend_current", attend_current)
    if queries > keys:
        raise ValueError(
            f"there must be at least as many keys as queries, got {keys} and {queries}"
        )
    ones = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return ones.tril(keys - queries - (not attend_current))


def break_stick_log(
    logits: Float[Tensor, "*rows queries keys"],
    *,
    attend_current: bool,
    mask: Bool[Tensor, "*#rows queries keys"] | None = None,
) -> tuple[Float[Tensor, "*rows queries keys"], Float[Tensor, "*rows queries"]]:
    """Return stick-breaking weights and the logarithm of each query's remaining stick.

    The remaining stick of a query is the weight that its keys leave over. With
    ``attend_current`` a query's own key is included; keys where ``mask`` is false are
    left out. Computed in log space, in float32 or float64; see
    :func:`posedu.numpy.stickbreaking.break_stick_log`. Equation ``eq-stick-log``.
    """
    require_floats("logits", logits)
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    allowed = earlier(*z.shape[-2:], attend_current=attend_current, device=z.device)
    if mask is not None:
        allowed = allowed & mask
    cost = softplus(z).masked_fill(~allowed, 0.0)
    spent = cost.flip(-1).cumsum(-1).flip(-1)
    weights = (z - spent).masked_fill(~allowed, -math.inf).exp()
    return weights, -cost.sum(-1)


def stick_breaking_tiles(
    q: Float[Tensor, "batch heads queries d"],
    k: Float[Tensor, "batch kv_heads keys d"],
    v: Float[Tensor, "batch kv_heads keys d_v"],
    *,
    attend_current: bool,
    key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
    block: int = 256,
    stop: float = 0.0,
) -> tuple[
    Float[Tensor, "batch heads queries d_v"], Float[Tensor, "batch heads queries"]
]:
    """Return stick-breaking attention's output and the logarithm of remaining sticks.

    The remaining stick of a query is the weight that its keys leave over. The
    computation goes in tiles of queries and keys, from the diagonal to older keys. No
    tensor has queries × keys numbers: the state of a query is one number, the logarithm
    of the remaining stick. Products and sums are float32 (float64 for float64).

    Parameters
    ----------
    q, k, v
        Queries, keys and values. With fewer key-value heads than query heads, each
        key-value head serves neighboring query heads.
    attend_current
        Whether a query attends to its own key, too; see
        :func:`posedu.numpy.stickbreaking.break_stick`.
    key_padding_mask
        True where a key is padding, to be skipped.
    block
        Number of queries, and of keys, in a tile.
    stop
        Older keys are skipped once the remaining stick of every query of a tile is at
        most this. The error of the output is then at most ``stop`` times the longest
        value (``eq-stick-stop``). Default 0: no key is skipped.

    Raises
    ------
    TypeError, ValueError
        Shapes that do not match, more queries than keys, a mask of another shape or
        type, a ``stop`` outside [0, 1).
    """
    for name, t in (("q", q), ("k", k), ("v", v)):
        require_floats(name, t)
    require_dimension("block", block, 1)
    if not 0 <= stop < 1:
        raise ValueError(f"stop must be in [0, 1), got {stop}")
    if (
        q.ndim != 4
        or k.ndim != 4
        or v.ndim != 4
        or k.shape[:3] != v.shape[:3]
        or k.shape[0] != q.shape[0]
        or k.shape[3] != q.shape[3]
        or q.shape[1] // max(1, k.shape[1]) * k.shape[1] != q.shape[1]
    ):
        raise ValueError(
            "q, k and v must be [batch, heads, tokens, d] and agree in batch, d and "
            "keys, with heads a multiple of kv_heads; got shapes "
            f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    if q.shape[2] > k.shape[2]:
        raise ValueError(
            "there must be at least as many keys as queries, got "
            f"{k.shape[2]} and {q.shape[2]}"
        )
    if key_padding_mask is not None and (
        key_padding_mask.dtype != torch.bool
        or key_padding_mask.shape != (k.shape[0], k.shape[2])
    ):
        raise ValueError(
            f"key_padding_mask must be boolean [{k.shape[0]}, {k.shape[2]}], got "
            f"{key_padding_mask.dtype} {list(key_padding_mask.shape)}"
        )
    group = q.shape[1] // max(1, k.shape[1])
    k, v = (t.repeat_interleave(group, 1) if group > 1 else t for t in (k, v))
    is_compiling = torch.compiler.is_compiling()
    attend = _outwards_compiled if is_compiling else _StickBreaking.apply
    out, log_rest = attend(q, k, v, key_padding_mask, attend_current, block, stop)
    return out.to(q.dtype), log_rest


class _Tiles:
    """Order and masks of the tiles (blocks of queries × blocks of keys) of attention.

    Keys are counted backwards, from the last. ``block`` is the number of queries, and
    of keys, in a tile; ``padding`` is true at keys to skip; older keys are skipped once
    the weight that is left for them is at most ``stop`` for every query of a tile.
    """

    def __init__(
        self,
        queries: int,
        keys: int,
        attend_current: bool,
        padding: Tensor | None,
        block: int,
        stop: float,
    ):
        self.queries, self.keys, self.block = queries, keys, block
        self.own = 0 if require_bool("attend_current", attend_current) else 1
        self.padding = None if padding is None else padding.flip(-1)
        self.longest = -math.log(stop) if stop else math.inf

    def rows(self) -> Iterator[tuple[slice, int]]:
        """Yield the query blocks, each with the index of its newest key.

        The index is counted backwards, from the last key.
        """
        for start in range(0, self.queries, self.block):
            end = min(start + self.block, self.queries)
            newest = self.queries - end + self.own
            yield slice(start, end), newest

    def columns(self, newest: int) -> Iterator[slice]:
        """Yield the key blocks of a query block, from its newest key to the oldest.

        ``newest`` is the index of the newest key, counted backwards from the last key,
        as are the slices that are yielded.
        """
        for start in range(newest, self.keys, self.block):
            yield slice(start, min(start + self.block, self.keys))

    def are_done(self, used: Tensor) -> bool:
        """Return whether the remaining stick of every query is at most ``stop``.

        The remaining stick of a query is the weight that its keys leave over. ``used``
        is minus the logarithm of each query's remaining stick.
        """
        return bool(
            self.longest < math.inf and used.numel() and used.min() >= self.longest
        )

    def hide(self, z: Tensor, rows: slice, columns: slice) -> Tensor:
        """Set the logits ``z`` of a tile to −∞ at keys that are later or padding.

        ``rows`` and ``columns`` are the tile's slices of queries and of keys, the keys
        counted backwards.
        """
        queries = torch.arange(rows.start, rows.stop, device=z.device)[:, None]
        backwards = torch.arange(columns.start, columns.stop, device=z.device)
        if columns.start < self.queries - 1 - rows.start + self.own:
            z = z.masked_fill(
                backwards < self.queries - 1 - queries + self.own, -math.inf
            )
        if self.padding is not None:
            z = z.masked_fill(self.padding[:, None, None, columns], -math.inf)
        return z


def _outwards(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    padding: Tensor | None,
    attend_current: bool,
    block: int,
    stop: float,
) -> tuple[Tensor, Tensor]:
    """Return the attention output (float32 or wider) and log of the remaining sticks.

    The remaining stick of a query is the weight that its keys leave over. Arguments as
    :func:`stick_breaking_tiles`; the tiles go from the diagonal to older keys.
    """
    tiles = _Tiles(q.shape[2], k.shape[2], attend_current, padding, block, stop)
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1])
    k_back, v_back = k.flip(2).to(wide), v.flip(2).to(wide)
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide, device=q.device)
    spent = torch.zeros(q.shape[:3], dtype=wide, device=q.device)
    with without_autocast(q):
        for rows, newest in tiles.rows():
            q_rows = q[:, :, rows].to(wide) * scale
            used = spent[:, :, rows, None]
            for columns in tiles.columns(newest):
                z = tiles.hide(q_rows @ k_back[:, :, columns].mT, rows, columns)
                total = softplus(z).cumsum(-1).add_(used)
                weights = (z - total).exp_()
                out[:, :, rows] += weights @ v_back[:, :, columns]
                used = total[..., -1:]
                if tiles.are_done(used):
                    break
            spent[:, :, rows] = used.squeeze(-1)
    return out, -spent


def _back_outwards(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    padding: Tensor | None,
    attend_current: bool,
    block: int,
    stop: float,
    out: Tensor,
    d_out: Tensor,
    d_log_rest: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v, by the tiles of :func:`_outwards`.

    The arguments are those of :func:`_outwards`, and three more: ``out`` is the
    attention output, ``d_out`` and ``d_log_rest`` are the gradients of the output and
    of the logarithm of remaining sticks. The remaining stick of a query is the weight
    that its keys leave over.
    """
    tiles = _Tiles(q.shape[2], k.shape[2], attend_current, padding, block, stop)
    wide = out.dtype
    scale = 1 / math.sqrt(q.shape[-1])
    k_back, v_back = k.flip(2).to(wide), v.flip(2).to(wide)
    d_q, d_k, d_v = torch.zeros_like(q, dtype=wide), 0 * k_back, 0 * v_back
    # The part of the gradient that all keys of a row share: ⟨do, o⟩ + d log remainder.
    shared = (d_out * out).sum(-1) + d_log_rest
    with without_autocast(q):
        for rows, newest in tiles.rows():
            q_rows = q[:, :, rows].to(wide) * scale
            d_rows = d_out[:, :, rows]
            used = torch.zeros_like(shared[:, :, rows, None])
            older = shared[:, :, rows, None]
            for columns in tiles.columns(newest):
                z = tiles.hide(q_rows @ k_back[:, :, columns].mT, rows, columns)
                total = softplus(z).cumsum(-1).add_(used)
                weights = (z - total).exp_()
                own = weights * (d_rows @ v_back[:, :, columns].mT)
                newer = own.cumsum(-1)
                d_z = own - z.sigmoid() * (older - newer + own)
                d_q[:, :, rows] += d_z @ k_back[:, :, columns] * scale
                d_k[:, :, columns] += d_z.mT @ q_rows
                d_v[:, :, columns] += weights.mT @ d_rows
                used, older = total[..., -1:], older - newer[..., -1:]
                if tiles.are_done(used):
                    break
    gradients = d_q, d_k.flip(2), d_v.flip(2)
    d_q, d_k, d_v = (g.to(t) for g, t in zip(gradients, (q, k, v), strict=True))
    return d_q, d_k, d_v


def _without_tiles(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    padding: Tensor | None,
    attend_current: bool,
    block: int,
    stop: float,
) -> tuple[Tensor, Tensor]:
    """Compute what :func:`_outwards` returns, by differentiable PyTorch operations.

    Returned are the attention output and the logarithm of the weight that a query's
    keys leave over. ``block`` and ``stop`` are ignored: no key is skipped.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    with without_autocast(q):
        logits = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1])
        mask = None
        if padding is not None:
            mask = ~padding[:, None, None].expand(-1, 1, q.shape[2], -1)
        weights, log_rest = break_stick_log(
            logits, attend_current=attend_current, mask=mask
        )
        return weights @ v.to(wide), log_rest


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    keep(ctx, inputs, output[0])
    ctx.options = inputs[4:]


def _backward(
    back_outwards: Callable[..., tuple[Tensor, Tensor, Tensor]],
    ctx: Any,
    d_out: Tensor,
    d_log_rest: Tensor,
) -> tuple[Tensor | None, ...]:
    q, k, v, *padding, out = ctx.saved_tensors
    mask = padding[0] if padding else None
    gradients = back_outwards(q, k, v, mask, *ctx.options, out, d_out, d_log_rest)
    return *gradients, None, None, None, None


@completed(_without_tiles)
class _StickBreaking(torch.autograd.Function):
    """Autograd function of stick-breaking attention in tiles.

    The backward pass recomputes the logits of each tile.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        return _outwards(*inputs)

    setup_context = staticmethod(_save)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return _backward(_back_outwards, ctx, *gradients)


# Custom operations, since a compiler would unroll the loop over tiles for each length.
_outwards_compiled = torch.library.custom_op(
    "posedu::stick_breaking", _outwards, mutates_args=()
)
_back_outwards_compiled = torch.library.custom_op(
    "posedu::stick_breaking_backward", _back_outwards, mutates_args=()
)
_outwards_compiled.register_autograd(
    partial(_backward, _back_outwards_compiled), setup_context=_save
)


@_outwards_compiled.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *options: object) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(q.dtype, torch.float32)
    out = q.new_empty(*q.shape[:3], v.shape[-1], dtype=wide)
    return out, q.new_empty(q.shape[:3], dtype=wide)


@_back_outwards_compiled.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, *options: object
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


class StickBreaking(Encoding):
    """Stick-breaking attention (arXiv 2410.17980), which needs no positions.

    Stick-breaking replaces the softmax: each key, from the newest on, takes a share of
    the weight that newer keys leave; the rest is the remaining stick. Routes (code
    paths that compute attention): ``"eager"`` (default), which takes O(L²) memory, and
    ``"fused"``, which works in tiles and takes O(L).

    Parameters
    ----------
    attend_current
        Whether the stick starts at the query's own key. The paper's formula: no.
    remainder
        Use of the remaining stick: ``"drop"`` (the paper's formula), ``"own"``,
        ``"sink"`` or ``"renormalize"``; see
        :func:`posedu.numpy.stickbreaking.stick_breaking`.
    heads, d
        Query heads, and width of the values. Needed for ``"sink"``, whose vectors
        ``[heads, d]`` are trained.
    sink
        Initial sink vectors. Default: zeros.
    stop
        See :func:`stick_breaking_tiles`; for the route ``"fused"``. The weights of
        skipped keys go to the remainder, so that the error of the output is at most
        ``stop`` times the distance of a value from the vector that the remainder
        weighs, for ``"renormalize"`` from the output itself (``eq-stick-stop``).

    Raises
    ------
    TypeError, ValueError
        Unknown ``remainder``; ``heads`` and ``d`` missing, or given without a sink; a
        ``sink`` of another shape.
    """

    needs_causal = True
    needs_positions = False
    head_rows = ("sink",)

    def __init__(
        self,
        *,
        attend_current: bool,
        remainder: Remainder,
        heads: int | None = None,
        d: int | None = None,
        sink: Float[Tensor, "heads d"] | None = None,
        stop: float = 0.0,
    ):
        super().__init__()
        self.attend_current = require_bool("attend_current", attend_current)
        self.remainder = require_choice("remainder", remainder, Remainder)
        self.needs_own_key_last = not attend_current or remainder == "own"
        if require_finite("stop", stop) < 0 or stop >= 1:
            raise ValueError(f"stop must be in [0, 1), got {stop}")
        self.stop = stop
        if remainder == "sink":
            if heads is None or d is None:
                raise ValueError("remainder='sink' needs heads and d")
            shape = require_dimension("heads", heads, 1), require_dimension("d", d, 1)
            sink = torch.zeros(shape) if sink is None else sink
            require_shape("sink", sink, shape)
            self.heads, self.d = shape
            self.sink = nn.Parameter(sink.detach().clone())
        elif any(given is not None for given in (heads, d, sink)):
            raise ValueError(
                "heads, d and sink are for remainder='sink', got "
                f"remainder={remainder!r}"
            )

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries columns"]:
        """Return stick-breaking weights, and what ``remainder`` makes of what is left.

        The remaining stick of a query is the weight that its keys leave over. With
        ``"sink"`` it is the weight of one more key, the last. With ``"drop"`` it is
        lost, with ``"own"`` it is added to the weight of the query's own key, and with
        ``"renormalize"`` the weights are divided by their sum.
        """
        weights, log_rest = break_stick_log(
            logits, attend_current=self.attend_current, mask=tokens.mask
        )
        rest = log_rest.exp()[..., None]
        if self.remainder == "own":
            queries, keys = weights.shape[-2:]
            own = torch.ones(queries, keys, device=weights.device).tril(keys - queries)
            own = own.triu(keys - queries)
            weights = weights + own * rest
        elif self.remainder == "sink":
            weights = torch.cat((weights, rest), -1)
        elif self.remainder == "renormalize":
            total = -torch.expm1(log_rest)[..., None]
            weights = weights / torch.where(total > 0, total, 1.0)
        return weights

    def mix(
        self,
        weights: Float[Tensor, "batch heads queries columns"],
        v: Float[Tensor, "batch heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Return the weighted sum of the values and, for "sink", of the sink vector."""
        if self.remainder == "sink":
            sink = self._sink_for(v)[:, None].expand(len(v), -1, 1, -1)
            v = torch.cat((v, sink), -2)
        return weights @ v

    def _sink_for(self, v: Tensor) -> Tensor:
        if v.shape[-1] != self.d:
            raise ValueError(
                f"the sink has {self.d} features, the values have {v.shape[-1]}"
            )
        return self.sink.to(v.dtype)

    def attend(self, tokens: Tokens) -> Float[Tensor, "batch heads queries d_v"]:
        """Compute attention in tiles (blocks of queries and keys), with O(L) memory.

        For ``stop=0`` the output is that of the route ``"eager"`` up to rounding.
        """
        if tokens.segments is not None or tokens.window is not None:
            raise ValueError("segments and windows need another route than 'fused'")
        q, v = tokens.q, tokens.v
        out, log_rest = stick_breaking_tiles(
            q,
            tokens.k,
            v,
            attend_current=self.attend_current,
            key_padding_mask=tokens.padding,
            stop=self.stop,
        )
        rest = log_rest.exp()[..., None]
        if self.remainder == "own":
            out = out + rest * v[:, :, v.shape[2] - q.shape[2] :]
        elif self.remainder == "sink":
            out = out + rest * self._sink_for(v)[:, None]
        elif self.remainder == "renormalize":
            total = -torch.expm1(log_rest)[..., None]
            out = out / torch.where(total > 0, total, 1.0)
        return out.to(q.dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"attend_current={self.attend_current}, remainder={self.remainder!r}"
