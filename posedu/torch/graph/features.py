"""Node features as positions: a trained linear map adds them to the input vectors."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from posedu._arguments import require_dimension
from posedu.torch._tensors import (
    Positions,
    align_positions,
    from_list,
    in_float64,
    may_look,
    require_float_dtype,
    require_floats,
    require_positions,
    require_shape,
)
from posedu.torch.encoding import Encoding


class NodeFeatures(Encoding):
    """Base class of encodings that add C p + c, for a node's features p.

    C and c are trained. Products are float64, rounded once to the dtype of the input
    vectors. Equation ``def-trees-embed``.
    """

    d_model: int

    def __init__(self, d_model: int, axes: int):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.axes = axes
        self.position_shape = (axes,)
        self.projection = nn.Linear(axes, d_model)

    def table(
        self,
        positions: Positions,
        *,
        dtype: torch.dtype = torch.float32,
        device: Device = None,
    ) -> Float[Tensor, "*rows tokens d_model"]:
        """Return the vectors that :meth:`embed` adds at ``positions``, in ``dtype``.

        Positions are ``[..., tokens, features]``. ``device`` matters only for positions
        in a list.
        """
        require_float_dtype("dtype", dtype)
        positions = from_list(positions, device)
        require_positions(positions)
        if isinstance(positions, range) or positions.shape[-1:] != (self.axes,):
            given = "a range" if isinstance(positions, range) else list(positions.shape)
            raise ValueError(
                f"positions must be [..., tokens, {self.axes}], got {given}"
            )
        return self._encode(positions).to(dtype)

    def embed(
        self, x: Float[Tensor, "*batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """Add the encoding of its node to each vector, in x's dtype.

        ``positions`` is ``[tokens, features]``, with or without a batch axis in front.
        """
        require_floats("x", x)
        if x.shape[-1:] != (self.d_model,):
            raise ValueError(
                f"x must be [..., tokens, {self.d_model}], got shape {list(x.shape)}"
            )
        at = align_positions(positions, x, self.axes)
        return x + self._encode(at).to(x.dtype)

    forward = embed

    def _encode(self, positions: Tensor | range) -> Tensor:
        weight, bias = self.projection.weight, self.projection.bias
        at = in_float64(positions, weight.device)
        return at @ weight.to(torch.float64).mT + bias.to(torch.float64)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d_model}, {self.axes}"


def require_adjacency(
    adjacency: Float[Tensor, "*graphs nodes nodes"],
) -> Float[Tensor, "*graphs nodes nodes"]:
    """Return ``adjacency`` in float64 if it is that of undirected graphs, else raise.

    Entries are looked at on a CPU alone: elsewhere the host would wait for the device.
    """
    require_floats("adjacency", adjacency)
    if adjacency.ndim < 2:
        raise ValueError(
            f"adjacency must be [..., nodes, nodes], got {list(adjacency.shape)}"
        )
    nodes = adjacency.shape[-1]
    require_shape("adjacency", adjacency, (*adjacency.shape[:-2], nodes, nodes))
    if may_look(adjacency):
        if not (adjacency.isfinite() & (adjacency >= 0)).all():
            raise ValueError("adjacency must hold finite weights of at least 0")
        if not torch.equal(adjacency, adjacency.mT):
            raise ValueError("adjacency must be symmetric: A = Aᵀ")
    return adjacency.to(torch.float64)


def inverse_degrees(
    adjacency: Float[Tensor, "*graphs nodes nodes"], power: float
) -> Float[Tensor, "*graphs nodes"]:
    """Return the degrees to the power −``power``, and 0 for nodes without an edge."""
    degrees = adjacency.sum(-1)
    is_isolated = degrees == 0
    inverse = degrees.masked_fill(is_isolated, 1.0) ** -power
    return inverse.masked_fill(is_isolated, 0.0)
