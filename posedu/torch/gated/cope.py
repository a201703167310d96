"""CoPE: contextual position encoding, whose positions are sums of gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from posedu._arguments import CoPEGates, CoPEScaling, require_choice, require_dimension
from posedu.torch._autograd import completed, keep
from posedu.torch._tensors import require_floats, require_input, require_shape
from posedu.torch.encoding import Encoding, Sizes, Tokens
from posedu.torch.heads import HeadRange


class CoPE(Encoding):
    """Contextual position encoding (arXiv 2405.18719): a position is a sum of gates.

    The position p_ij of key j for query i is the sum of the gates σ(gate logit) of the
    keys from j to i, both included, at most npos − 1; the bias is the query's inner
    product with a trained vector e[p], interpolated between whole numbers. Attention
    takes O(L²) memory. Equation ``def-cope``.

    Parameters
    ----------
    d
        Head dimension.
    npos
        Number of positions with a vector, 0 … npos − 1.
    scaling
        The terms divided by √d. ``"code"``: content, gates and bias (the authors'
        default). ``"bias unscaled"``: content and gates (their ``cope_nodiv``, and
        x-transformers). ``"paper"``: nothing, as its formulas.
    heads
        Number of heads with a table of their own. ``None``: all heads of the layer
        share one (the authors' code).
    gates
        The vector whose product with the query is the gate's logit. ``"content"``: the
        key, so that gates reuse the content logits (default). ``"values"``: the value
        (the authors' ``cope_val_gates``). ``"keys"``: a key for gates alone, projected
        from the layer's input for each query head (their ``cope_sep_key``).
    d_model, gate_heads
        Width of the layer's input, and number of its query heads, for
        ``gates="keys"``.
    table
        Initial e, ``[d, npos]`` or ``[heads, d, npos]``. Default: zeros.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``scaling`` or ``gates``, a
        ``table`` of another shape, sizes missing or given without need.
    """

    d: int
    needs_causal = True
    needs_positions = False
    head_rows = ("table",)

    def __init__(
        self,
        d: int,
        *,
        npos: int,
        scaling: CoPEScaling,
        heads: int | None = None,
        gates: CoPEGates = "content",
        d_model: int | None = None,
        gate_heads: int | None = None,
        table: Float[Tensor, "*heads d npos"] | None = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        self.npos = require_dimension("npos", npos, 1)
        self.scaling = require_choice("scaling", scaling, CoPEScaling)
        self.heads = None if heads is None else require_dimension("heads", heads, 1)
        shape = (d, npos) if heads is None else (heads, d, npos)
        table = torch.zeros(shape) if table is None else table
        require_shape("table", table, shape)
        self.table = nn.Parameter(table.detach().clone())
        self.gates = require_choice("gates", gates, CoPEGates)
        self.gate_keys = None
        if (gates == "keys") != (d_model is not None and gate_heads is not None):
            raise ValueError(
                f"d_model and gate_heads are for gates='keys' and needed there, got "
                f"gates={gates!r}, d_model={d_model} and gate_heads={gate_heads}"
            )
        if d_model is not None and gate_heads is not None:
            require_dimension("d_model", d_model, 1)
            require_dimension("gate_heads", gate_heads, 1)
            self.gate_keys = nn.Linear(d_model, gate_heads * d, bias=False)
            self.needs_x = True

    def of_heads(self, heads: HeadRange) -> Encoding:
        """Return the encoding of some of a layer's heads; it uses these parameters."""
        own = super().of_heads(heads)
        if self.gate_keys is not None:
            own.gate_keys = heads.copied(self.gate_keys, {"weight": (0, None)})
        return own

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads d"]]:
        """Return the state to cache: keys that only gates use, if ``gates="keys"``.

        For other values of ``gates`` nothing more than k and v is cached.
        """
        if self.gate_keys is None:
            return {}
        weight = self.gate_keys.weight
        require_input(x, weight.shape[1], weight)
        return {"gate_keys": self.gate_keys(x).unflatten(-1, (-1, self.d))}

    def require(self, layer: Sizes) -> None:
        """Raise unless the layer has the head dimension and the heads of the encoding.

        The head dimension is that of the table's vectors. The number of heads matters
        if heads have tables of their own or separate gate keys.
        """
        super().require(layer)
        if self.gate_keys is not None:
            heads, d_model = self.gate_keys.out_features // self.d, layer.d_model
            if heads != layer.heads or d_model not in (
                None,
                self.gate_keys.in_features,
            ):
                raise ValueError(
                    f"gate_keys were made for d_model = {self.gate_keys.in_features} "
                    f"and {heads} heads, the layer has {d_model} and {layer.heads}"
                )

    def scale(self, d: int) -> float:
        """Return the factor of q · k: 1/√d, or 1 as in the paper's formulas."""
        return 1.0 if self.scaling == "paper" else d**-0.5

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the bias q · e[p] of every (query, key) pair, float32 or wider.

        p is the position of the key for the query, a sum of gates; e[p] is the trained
        vector of this position.
        """
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        q, keys = tokens.q.to(wide), tokens.k
        if self.gates == "values":
            keys = tokens.v
            if keys.shape[-1] != tokens.d:
                raise ValueError(
                    f"gates of values need as many features as keys, {tokens.d}, got "
                    f"{keys.shape[-1]}"
                )
        elif self.gate_keys is not None:
            keys = tokens.memory["gate_keys"].transpose(1, 2)
        scale = self.scale(tokens.d)
        gate_logits = q @ keys.to(wide).mT * scale
        bias = counted_bias(q @ self.table.to(wide), gate_logits, tokens.mask)
        return bias * scale if self.scaling == "code" else bias

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d}, npos={self.npos}, scaling={self.scaling!r}"


def counted_bias(
    values: Float[Tensor, "batch heads queries npos"],
    gate_logits: Float[Tensor, "batch heads queries keys"],
    mask: Bool[Tensor, "#batch #heads queries keys"] | None = None,
) -> Float[Tensor, "batch heads queries keys"]:
    """Return ``values``, interpolated at the position p_ij of each key for each query.

    ``values`` has a number for each query and each whole position 0 … npos − 1. p_ij is
    the sum of the gates σ(``gate_logits``) of the keys from j to i, at most npos − 1.
    For the gradient the function keeps its arguments, of which the gate logits take 4
    bytes for each query and key in float32, and recomputes gates, positions and
    indices; compiled, it keeps what the compiler chooses. Keys where ``mask`` is false
    have the gate 0; keys after the query always have it.

    Raises
    ------
    ValueError
        Shapes that do not fit, more queries than keys.
    """
    for name, t in (("values", values), ("gate_logits", gate_logits)):
        require_floats(name, t)
    if (
        values.shape[:-1] != gate_logits.shape[:-1]
        or values.ndim != 4
        or not values.shape[-1]
    ):
        raise ValueError(
            "values must be [batch, heads, queries, npos] and gate_logits [batch, "
            f"heads, queries, keys], got shapes {list(values.shape)} and "
            f"{list(gate_logits.shape)}"
        )
    queries, keys = gate_logits.shape[-2:]
    if queries > keys:
        raise ValueError(
            f"there must be at least as many keys as queries, got {keys} and {queries}"
        )
    if mask is not None:
        _require_mask(mask, gate_logits)
    if torch.compiler.is_compiling():
        return _counted(values, gate_logits, mask)
    return _CountedBias.apply(values, gate_logits, mask)


def _require_mask(mask: Tensor, logits: Tensor) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError("mask must be a boolean tensor, true where a key is visible")
    sizes = zip(reversed(mask.shape), reversed(logits.shape), strict=False)
    if mask.ndim > logits.ndim or any(n not in (1, m) for n, m in sizes):
        raise ValueError(
            f"mask must broadcast to {list(logits.shape)}, got {list(mask.shape)}"
        )


def _counted(values: Tensor, gate_logits: Tensor, mask: Tensor | None) -> Tensor:
    """Compute the output of :func:`counted_bias` by differentiable operations.

    The output is ``values`` interpolated at each key's position, a sum of gates.
    Arguments as for :func:`counted_bias`.
    """
    counted = _gates(gate_logits, mask).flip(-1).cumsum(-1).flip(-1)
    return _interpolate(values, counted.clamp(max=values.shape[-1] - 1))


@completed(_counted)
class _CountedBias(torch.autograd.Function):
    @staticmethod
    def forward(values: Tensor, gate_logits: Tensor, mask: Tensor | None) -> Tensor:
        return _counted(values, gate_logits, mask)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        keep(ctx, inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        values, gate_logits, *rest = ctx.saved_tensors
        mask = rest[0] if rest else None
        gates = _gates(gate_logits, mask)
        counted = gates.flip(-1).cumsum(-1).flip(-1)
        counted.clamp_(max=values.shape[-1] - 1)
        low = counted.floor()
        fraction = counted - low
        d_values = torch.zeros_like(values)
        index = _index(low)
        d_values.scatter_add_(-1, index, gradient * (1 - fraction))
        lower = values.gather(-1, index)
        index = _index(counted.ceil())
        d_values.scatter_add_(-1, index, gradient * fraction)
        slope = (values.gather(-1, index) - lower) * gradient
        d_gates = slope.cumsum(-1) * gates * (1 - gates)
        return d_values, d_gates, None


def _gates(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Return the gates σ(logit), 0 for keys that are masked or later than the query.

    ``mask`` is true where a query may attend to a key; ``None``: everywhere.
    """
    queries, keys = logits.shape[-2:]
    hidden = torch.ones(queries, keys, dtype=torch.bool, device=logits.device)
    hidden = hidden.triu(keys - queries + 1)
    if mask is not None:
        hidden = hidden | ~mask
    return logits.sigmoid().masked_fill(hidden, 0.0)


def _interpolate(values: Tensor, positions: Tensor) -> Tensor:
    """Interpolate ``values`` linearly at real positions along their last axis.

    ``values`` has a number for each query and each whole position; ``positions`` are
    ``[…, queries, keys]``.
    """
    low = positions.floor()
    fraction = positions - low
    lower = values.gather(-1, _index(low))
    return torch.lerp(lower, values.gather(-1, _index(positions.ceil())), fraction)


def _index(positions: Tensor) -> Tensor:
    """Return whole positions as int64 indices, 0 for a NaN.

    Interpolation between values at these indices still gives NaN where a position is
    NaN.
    """
    return positions.nan_to_num().long()
