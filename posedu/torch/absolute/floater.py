"""FLOATER: vectors of positions that flow along a learned differential equation."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posedu._arguments import (
    FARTHEST,
    TABLEAUX,
    require_choice,
    require_dimension,
    require_positive,
)
from posedu.torch._ode import flow
from posedu.torch._tensors import (
    Positions,
    from_list,
    in_float64,
    is_transformed,
    require_float_dtype,
    require_positions,
    require_shape,
)
from posedu.torch.encoding import Encoding

STATES = ("q", "k", "v")


class Flow(nn.Module):
    """The right side h(t, p), which all layers share. Equation ``def-floater-field``.

    One hidden layer of ReLUs, of the same width, both of whose layers read the time as
    a last feature: "flow_func_linear" of the code of arXiv 2003.09229. It starts as
    there: weights normal with Xavier's variance, biases 0.

    Raises
    ------
    TypeError, ValueError
        A ``width`` that is no positive integer.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = require_dimension("width", width, 1)
        self.inner = nn.Parameter(torch.empty(width, width + 1))
        self.inner_bias = nn.Parameter(torch.zeros(width))
        self.outer = nn.Parameter(torch.empty(width, width + 1))
        self.outer_bias = nn.Parameter(torch.zeros(width))
        nn.init.xavier_normal_(self.inner)
        nn.init.xavier_normal_(self.outer)

    def forward(
        self, t: Tensor | float, p: Float[Tensor, "*states width"]
    ) -> Float[Tensor, "*states width"]:
        """H(t, p), for any solver: one of one's own, or torchdiffeq's."""
        z = p @ self.inner[:, :-1].T + t * self.inner[:, -1] + self.inner_bias
        hidden = z.relu() @ self.outer[:, :-1].T
        return hidden + t * self.outer[:, -1] + self.outer_bias

    def extra_repr(self) -> str:
        """Say the width when the module is printed."""
        return f"{self.width}"


class FLOATER(Encoding):
    """Vectors that flow with the position, added to queries, keys and values.

    Of arXiv 2003.09229 the compatible form, which is the one released: a differential
    equation p' = h(t, p) gives the biases of the three projections. Each layer and
    projection has a p(0) of its own, and one h serves all: give the ``flow`` of the
    first layer's encoding to the others'. Equation ``def-floater-hooks``.

    Each call follows the flow from position 0, one step after another, in float64
    whatever the dtype of the activations; one that decodes a token does so again. The
    gradient is that of the steps themselves, not of an adjoint equation solved
    backwards. There is no second derivative.

    The released code solves all layers at once for positions 0 … 254 and refuses
    longer sequences; it does so every 400th call and adds a detached copy in between,
    and it keeps a sinusoid at the input of the model.

    Parameters
    ----------
    heads, d
        Of the layer. The states are heads · d wide; keys and values of fewer heads get
        the first features of theirs.
    tableau
        ``"3/8"`` (the code, whose solver calls it "rk4") or ``"classical"``.
    delta
        Time between neighbors, the paper's Δt: 0.1 in its text, 0.01 in its code.
    steps
        Runge–Kutta steps from a position to the next. Default 5 (the code).
    farthest
        Positions beyond are refused. Default 2¹⁶.
    flow
        h, if another layer has it. Default: one of its own.
    start
        Where p(0) of queries, keys and values starts, ``[3, heads · d]``. Default:
        uniform, as the code draws them for a model of one layer.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``delta`` not positive, unknown
        ``tableau``; a ``flow`` or a ``start`` of another width.
    """

    heads: int
    d: int

    def __init__(
        self,
        heads: int,
        d: int,
        *,
        tableau: str,
        delta: float,
        steps: int = 5,
        farthest: int = FARTHEST,
        flow: Flow | None = None,
        start: Float[Tensor, "3 width"] | None = None,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d, 1)
        self.tableau = require_choice("tableau", tableau, TABLEAUX)
        self.delta = require_positive("delta", delta)
        self.steps = require_dimension("steps", steps, 1)
        self.farthest = require_dimension("farthest", farthest, 1)
        width = heads * d
        if flow is None:
            flow = Flow(width)
        if not isinstance(flow, Flow):
            raise TypeError(f"flow must be a Flow, got {type(flow).__name__}")
        if flow.width != width:
            raise ValueError(
                f"flow must be {width} wide for {heads} heads of {d} features, got "
                f"{flow.width}"
            )
        self.flow = flow
        if start is None:
            start = torch.empty(len(STATES), width)
            nn.init.xavier_uniform_(start[:, None])
        require_shape("start", start, (len(STATES), width))
        self.start = nn.Parameter(start.clone())

    def table(
        self,
        positions: Positions,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "*rows tokens 3 width"]:
        """What queries, keys and values get at each position. ``def-floater``."""
        require_float_dtype("dtype", dtype)
        return self._at(positions, self.start, dtype).to(dtype)

    def _at(
        self,
        positions: Positions,
        start: Float[Tensor, "states width"],
        dtype: torch.dtype,
    ) -> Float[Tensor, "*rows states width"]:
        """In float32 or better; of a size whose squares are finite in ``dtype``."""
        h = self.flow
        field = h.inner, h.inner_bias, h.outer, h.outer_bias
        positions = from_list(positions, start.device)
        require_positions(positions, start)
        at = in_float64(positions, start.device)
        if any(map(is_transformed, (start, *field, at))):
            raise NotImplementedError(
                "FLOATER follows its flow outside torch.func: its parameters and "
                "positions have gradients by torch.autograd alone"
            )
        return flow(
            start,
            field,
            at,
            tableau=self.tableau,
            delta=self.delta,
            steps=self.steps,
            farthest=self.farthest,
            largest=math.sqrt(torch.finfo(dtype).max / h.width),
        ).to(torch.promote_types(dtype, torch.float32))

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"],
        Float[Tensor, "batch kv_heads tokens d"],
    ]:
        """Queries and keys, each plus its vector; each sum is rounded once."""
        of_q, of_k = self._at(positions, self.start[:2], q.dtype).unbind(-2)
        return _added(q, of_q), _added(k, of_k)

    def values(
        self, v: Float[Tensor, "batch kv_heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch kv_heads tokens d"]:
        """Values, each plus its vector."""
        (of_v,) = self._at(positions, self.start[2:], v.dtype).unbind(-2)
        return _added(v, of_v)

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return (
            f"{self.heads}, {self.d}, tableau={self.tableau!r}, delta={self.delta:g}, "
            f"steps={self.steps}"
        )


def _added(
    x: Float[Tensor, "batch heads tokens d"], p: Float[Tensor, "rows tokens width"]
) -> Float[Tensor, "batch heads tokens d"]:
    _, heads, _, d = x.shape
    own = p[..., : heads * d].unflatten(-1, (heads, d)).transpose(-2, -3)
    return (x + own).to(x.dtype)
