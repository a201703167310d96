"""Inkling's relative logits: each token mixes a few learned curves of distance."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from posedu._arguments import (
    InklingDivisor,
    require_bool,
    require_choice,
    require_dimension,
    require_limit,
    require_positive,
    require_temperature,
)
from posedu.torch._tensors import (
    Positions,
    as_positions,
    require_input,
    require_position_dtype,
)
from posedu.torch.encoding import Tokens
from posedu.torch.relative.offset_table import OffsetTable, trained_table


def log_temperature(
    positions: Shaped[Tensor, "*shape"], *, floor: float, alpha: float
) -> Float[Tensor, "*shape"]:
    """Return the temperature τ = 1 + α ln max(1, (i + 1) / floor), in float64.

    i is the position of a query, whose logits τ multiplies. Equation
    ``def-inkling-tau``.

    Raises
    ------
    TypeError, ValueError
        Positions that are no tensor of real numbers, a ``floor`` that is not positive,
        temperatures that are not finite in float32.
    """
    require_position_dtype("positions", positions)
    require_temperature(require_positive("floor", floor), alpha)
    floor, alpha = float(floor), float(alpha)
    count = positions.to(torch.float64) + 1
    return 1 + alpha * (count / floor).clamp(min=1.0).log()


class Inkling(OffsetTable):
    """Inkling's bias r_i · P[distance]; r_i is a projection of the layer's input.

    The bias belongs to query i. P, the distance basis, has d_rel learned numbers for
    each distance. There is no paper on Thinking Machines' Inkling; this follows
    ``models/inkling/modeling_inkling.py`` of transformers 5.23.0. Attention takes O(L²)
    memory. Equation ``def-inkling``.

    Parameters
    ----------
    heads, d_model
        Query heads, and the width of the layer's input.
    table_length
        Number of distances with a relative logit, 0, 1, …, table_length − 1; farther
        keys, and later ones, get 0. Inkling's configuration calls it ``rel_extent``.
        Default 1024 (Inkling's global layers; for its layers with a window, the size of
        the window).
    d_rel
        Number of curves in the distance basis, which all heads share. Default 16
        (Inkling).
    divisor
        Divisor of the content logits: ``"width"``, d (Inkling, whose queries and keys
        are normalized), or ``"root"``, √d (Inkling-2, x-transformers). The bias has
        none.
    r_bias
        Whether the projection has a bias (x-transformers). Default false.
    limit
        The largest norm of a head's r, after a trained scale: longer ones are
        shortened. Default none (Inkling; Inkling-2 has 8).
    floor, alpha
        Constants of the temperature 1 + α ln max(1, (i + 1) / floor) that multiplies
        all logits of a query. Default: no temperature, 0.1 (Inkling; Inkling-2 has
        floor 128000).
    distance_basis
        Initial basis, ``[d_rel, table_length]``. Default: zeros. (Inkling draws it
        normal.)

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, an unknown ``divisor``, a ``floor`` or
        ``limit`` that is not positive, ``distance_basis`` of another shape.
    """

    heads: int
    d_model: int
    future = 0
    beyond = "zero"
    needs_x = True
    head_rows = ("r_proj.weight", "r_proj.bias", "r_scale")

    def __init__(
        self,
        heads: int,
        d_model: int,
        *,
        divisor: InklingDivisor,
        table_length: int = 1024,
        d_rel: int = 16,
        r_bias: bool = False,
        limit: float | None = None,
        floor: float | None = None,
        alpha: float = 0.1,
        distance_basis: Float[Tensor, "d_rel table_length"] | None = None,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.d_model = require_dimension("d_model", d_model, 1)
        self.past = require_dimension("table_length", table_length, 1) - 1
        self.d_rel = require_dimension("d_rel", d_rel, 1)
        self.divisor = require_choice("divisor", divisor, InklingDivisor)
        require_temperature(floor, alpha)
        require_limit(limit, limit is not None)
        self.floor, self.alpha = floor, alpha
        if floor is None:  # no temperature
            self.hooks -= {"rotate"}
        require_bool("r_bias", r_bias)
        self.r_proj = nn.Linear(d_model, heads * d_rel, bias=r_bias)
        self.limit = limit
        self.r_scale = None if limit is None else nn.Parameter(torch.ones(heads, d_rel))
        self.distance_basis = trained_table(
            "distance_basis", distance_basis, (d_rel, table_length)
        )

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"], Float[Tensor, "batch kv_heads tokens d"]
    ]:
        """Multiply each query by the temperature of its position."""
        at = as_positions(positions, (), q, start=0, reader="Inkling")
        return self._with_temperature(q, at), k

    def scale(self, d: int) -> float:
        """Return the factor of the content logits, 1/d or 1/√d, by ``divisor``."""
        return 1 / d if self.divisor == "width" else d**-0.5

    def products(
        self, tokens: Tokens, rows: slice
    ) -> Float[Tensor, "batch heads queries rows"]:
        """Return each query's relative logits r · P at the distances ``rows``.

        ``rows`` is a slice of the distances, the largest first; r is the projection of
        the query's token, P the distance basis. The logits are multiplied by the
        query's temperature, and are float32 or wider.
        """
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        x = require_input(tokens.x, self.d_model, self.r_proj.weight)
        r = self.r_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        r = self._within_limit(r.to(wide))
        mixed = r @ self.distance_basis.flip(-1)[:, rows].to(wide)
        return self._with_temperature(mixed, tokens.query_positions)

    def _within_limit(
        self, r: Float[Tensor, "batch heads queries d_rel"]
    ) -> Float[Tensor, "batch heads queries d_rel"]:
        if self.r_scale is None or self.limit is None:
            return r
        r = r * self.r_scale[:, None].to(r.dtype)
        norm = torch.linalg.vector_norm(r, dim=-1, keepdim=True)
        return r * (self.limit / (norm + 1e-6)).clamp(max=1.0)

    def _with_temperature(self, t: Tensor, positions: Tensor) -> Tensor:
        if self.floor is None:
            return t
        tau = log_temperature(positions, floor=self.floor, alpha=self.alpha)
        wide = torch.promote_types(t.dtype, torch.float32)
        return (t * tau[:, None, :, None].to(wide)).to(t.dtype)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.heads}, {self.d_model}, divisor={self.divisor!r}, "
            f"table_length={self.past + 1}, limit={self.limit}, floor={self.floor}, "
            f"alpha={self.alpha}"
        )
