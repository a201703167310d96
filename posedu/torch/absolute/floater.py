"""FLOATER: position vectors that follow a neural ODE."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posedu._arguments import (
    FARTHEST,
    Tableau,
    require_choice,
    require_dimension,
    require_positive,
)
from posedu._renamed import renamed_names
from posedu.torch._ode import integrate
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


class VectorField(nn.Module):
    """Right-hand side h(t, p) of FLOATER's ODE, which all layers share.

    The ODE is p' = h(t, p), with the time t and the position vector p. Equation
    ``def-floater-field``.

    A network with one hidden layer of ReLUs, of the same width. Both layers read the
    time as their last feature: "flow_func_linear" of the code of arXiv 2003.09229.
    Initial weights are as in this code: normal with Xavier's variance, biases 0.

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
        """Return the slope h(t, p), for any solver: your own, or torchdiffeq's."""
        z = p @ self.inner[:, :-1].T + t * self.inner[:, -1] + self.inner_bias
        hidden = z.relu() @ self.outer[:, :-1].T
        return hidden + t * self.outer[:, -1] + self.outer_bias

    def extra_repr(self) -> str:
        """Return the width as text, which ``print(module)`` shows."""
        return f"{self.width}"


class FLOATER(Encoding):
    """Neural ODE positions, added to queries, keys and values (arXiv 2003.09229).

    This is the released form, compatible with trained models: a differential equation
    p' = h(t, p) gives the biases of the three projections. Each layer and projection
    has its own p(0), and one h serves all layers: give the ``field`` of the first
    layer's encoding to the encodings of the other layers. Equation
    ``def-floater-hooks``.

    Each call integrates from position 0, step by step, in float64 whatever the dtype of
    the activations; so does each call that decodes one token. The gradient is that of
    the steps themselves, not of an adjoint equation solved backwards. There is no
    second derivative.

    The released code solves all layers at once for positions 0 … 254 and refuses
    longer sequences; it does so every 400th call and adds a detached copy in between,
    and it keeps a sinusoid at the input of the model.

    Parameters
    ----------
    heads, d
        Query heads, and head dimension. The states are heads · d wide; keys and values
        of fewer heads get the first features of their vectors.
    tableau
        Coefficients of the Runge–Kutta steps: ``"3/8"`` (the code, whose solver calls
        it "rk4") or ``"classical"``.
    delta
        Time between neighbors, the paper's Δt: 0.1 in its text, 0.01 in its code.
    steps
        Runge–Kutta steps from a position to the next. Default 5 (the code).
    farthest
        The largest position; positions beyond are refused. Default 2¹⁶.
    field
        Another layer's h, to share it. Default: an h of this layer alone.
    start
        Initial p(0) of queries, keys and values, ``[3, heads · d]``. Default: uniform,
        as the code draws them for a model of one layer.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``delta`` not positive, unknown
        ``tableau``; a ``field`` or a ``start`` of another width.
    """

    heads: int
    d: int

    def __init__(
        self,
        heads: int,
        d: int,
        *,
        tableau: Tableau,
        delta: float,
        steps: int = 5,
        farthest: int = FARTHEST,
        field: VectorField | None = None,
        start: Float[Tensor, "3 width"] | None = None,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d, 1)
        self.tableau = require_choice("tableau", tableau, Tableau)
        self.delta = require_positive("delta", delta)
        self.steps = require_dimension("steps", steps, 1)
        self.farthest = require_dimension("farthest", farthest, 1)
        width = heads * d
        if field is None:
            field = VectorField(width)
        if not isinstance(field, VectorField):
            raise TypeError(f"field must be a VectorField, got {type(field).__name__}")
        if field.width != width:
            raise ValueError(
                f"field must be {width} wide for {heads} heads of {d} features, got "
                f"{field.width}"
            )
        self.field = field
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
        """Return the vectors p that are added to q, k and v at each position.

        The axis of size 3 is that of q, k and v, in this order. Equation
        ``def-floater``.
        """
        require_float_dtype("dtype", dtype)
        return self._at(positions, self.start, dtype).to(dtype)

    def _at(
        self,
        positions: Positions,
        start: Float[Tensor, "states width"],
        dtype: torch.dtype,
    ) -> Float[Tensor, "*rows states width"]:
        """Return the ODE's solution at each position, float32 or wider.

        ``start`` are the states at position 0, ``[states, width]``. ``dtype`` is the
        dtype in which the solution will be used; solutions whose squares would overflow
        in it are refused.
        """
        h = self.field
        weights = h.inner, h.inner_bias, h.outer, h.outer_bias
        positions = from_list(positions, start.device)
        require_positions(positions, start)
        at = in_float64(positions, start.device)
        if any(map(is_transformed, (start, *weights, at))):
            raise NotImplementedError(
                "FLOATER integrates outside torch.func: its parameters and positions "
                "have gradients by torch.autograd alone"
            )
        return integrate(
            start,
            weights,
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
        """Add FLOATER's vector of its position to each query and key; round once."""
        of_q, of_k = self._at(positions, self.start[:2], q.dtype).unbind(-2)
        return self._added(q, of_q), self._added(k, of_k)

    def values(
        self, v: Float[Tensor, "batch kv_heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch kv_heads tokens d"]:
        """Add FLOATER's vector of its position to each value."""
        (of_v,) = self._at(positions, self.start[2:], v.dtype).unbind(-2)
        return self._added(v, of_v)

    def _added(
        self,
        x: Float[Tensor, "batch heads tokens d"],
        p: Float[Tensor, "rows tokens width"],
    ) -> Float[Tensor, "batch heads tokens d"]:
        """Return x plus the vector of each token, of the heads that x has."""
        heads, of_heads = x.shape[1], p.unflatten(-1, (-1, self.d)).movedim(-2, 0)
        if self.heads_of is not None and heads != self.heads:
            raise ValueError(
                "FLOATER's heads are cut over ranks with as many key-value heads as "
                f"heads alone, got {heads} and {self.heads} on this rank"
            )
        own = self.own_heads(of_heads)[:heads].movedim(0, -3)
        return (x + own).to(x.dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.heads}, {self.d}, tableau={self.tableau!r}, delta={self.delta:g}, "
            f"steps={self.steps}"
        )


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
