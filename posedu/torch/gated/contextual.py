"""CoPE: positions that are counted by gates."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from posedu._arguments import SCALINGS, require_choice, require_dimension
from posedu.torch.encoding import Encoding, Tokens


class CoPE(Encoding):
    """Contextual position encoding (arXiv 2405.18719): position is what gates count.

    p_ij sums σ(gate logits) over the keys from j to i, both included, up to npos − 1;
    the bias is the query's inner product with a trained vector e[p], interpolated
    between whole numbers. Equation ``def-cope``. Causal whatever the layer is told.

    Parameters
    ----------
    d
        Head dimension.
    npos
        Positions with a vector, 0 … npos − 1.
    scaling
        What is divided by √d. ``"code"``: content, gates and bias (the authors'
        default). ``"bias unscaled"``: content and gates (their ``cope_nodiv``, and
        x-transformers). ``"paper"``: nothing, as its formulas; the layer's own
        division of the content is undone.
    heads
        How many heads have a table of their own. ``None``: all heads of the layer
        share one (the authors' code).
    gate_keys
        ``None``: gates reuse the content logits. ``(d_model, heads)``: gates have keys
        of their own, projected from the layer's input for each query head.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``scaling``.
    """

    def __init__(
        self,
        d: int,
        *,
        npos: int,
        scaling: str,
        heads: int | None = None,
        gate_keys: tuple[int, int] | None = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        self.npos = require_dimension("npos", npos, 1)
        self.scaling = require_choice("scaling", scaling, SCALINGS)
        own = () if heads is None else (require_dimension("heads", heads, 1),)
        self.table = nn.Parameter(torch.zeros(*own, d, npos))
        self.gate_keys = None
        if gate_keys is not None:
            d_model, gate_heads = gate_keys
            self.gate_keys = nn.Linear(d_model, gate_heads * d, bias=False)

    def remember(self, x):
        """Gate keys, where they are not the content's."""
        return None if self.gate_keys is None else self.gate_keys(x)

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """The inner products q · e[p], in float32 or better."""
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        q, k = tokens.q.to(wide), tokens.k.to(wide)
        content = q @ k.mT
        gates = content
        if self.gate_keys is not None:
            keys = tokens.memory.to(wide).unflatten(-1, (-1, self.d)).transpose(1, 2)
            gates = q @ keys.mT
        root = 1.0 if self.scaling == "paper" else self.d**0.5
        bias = counted_bias(q @ self.table.to(wide), gates / root, tokens.mask)
        if self.scaling == "code":
            return bias / root
        if self.scaling == "paper":
            return bias + content * (1 - self.d**-0.5)
        return bias

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return f"{self.d}, npos={self.npos}, scaling={self.scaling!r}"


def counted_bias(
    values: Float[Tensor, "batch heads queries npos"],
    gate_logits: Float[Tensor, "batch heads queries keys"],
    mask: Bool[Tensor, "#batch #heads queries keys"] | None = None,
) -> Float[Tensor, "batch heads queries keys"]:
    """u[p_ij], where p counts the gates and u is the query's row of ``values``.

    Keeps the gate logits alone for the gradient: 4 bytes for each query and key in
    float32, and computes gates, positions and indices anew.

    Raises
    ------
    ValueError
        Shapes that do not fit, more queries than keys.
    """
    if values.shape[:-1] != gate_logits.shape[:-1] or values.ndim != 4:
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
    return _CountedBias.apply(values, gate_logits, mask)


class _CountedBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, gate_logits, mask):
        ctx.save_for_backward(values, gate_logits, mask)
        counted = _gates(gate_logits, mask).flip(-1).cumsum(-1).flip(-1)
        return _interpolate(values, counted.clamp_(max=values.shape[-1] - 1))

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        values, gate_logits, mask = ctx.saved_tensors
        gates = _gates(gate_logits, mask)
        counted = gates.flip(-1).cumsum(-1).flip(-1)
        largest = values.shape[-1] - 1
        is_free = counted < largest
        counted.clamp_(max=largest)
        low = counted.floor()
        fraction = counted - low
        d_values = torch.zeros_like(values)
        index = low.long()
        d_values.scatter_add_(-1, index, gradient * (1 - fraction))
        lower = values.gather(-1, index)
        index = counted.ceil().long()
        d_values.scatter_add_(-1, index, gradient * fraction)
        slope = (values.gather(-1, index) - lower) * is_free * gradient
        d_gates = slope.cumsum(-1) * gates * (1 - gates)
        return d_values, d_gates, None


def _gates(logits: Tensor, mask: Tensor | None) -> Tensor:
    """σ(logit) of the keys that are not after their query nor hidden, else 0."""
    queries, keys = logits.shape[-2:]
    hidden = torch.ones(queries, keys, dtype=torch.bool, device=logits.device)
    hidden = hidden.triu(keys - queries + 1)
    if mask is not None:
        hidden = hidden | ~mask
    return logits.sigmoid().masked_fill(hidden, 0.0)


def _interpolate(values: Tensor, positions: Tensor) -> Tensor:
    """``values`` at real positions: the fraction weighs the ceiling."""
    low = positions.floor()
    fraction = positions - low
    lower = values.gather(-1, low.long())
    return torch.lerp(lower, values.gather(-1, positions.ceil().long()), fraction)
