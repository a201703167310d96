"""Inkling's relative logits: each token mixes a few profiles of the distance."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from posedu._arguments import (
    DIVISORS,
    require_bool,
    require_choice,
    require_dimension,
    require_limit,
    require_temperature,
)
from posedu.torch._tensors import Positions, as_positions, require_input
from posedu.torch.encoding import Tokens
from posedu.torch.relative.offset_table import OffsetTable, trained_table


def log_temperature(
    positions: Shaped[Tensor, "*shape"], *, floor: float, alpha: float
) -> Float[Tensor, "*shape"]:
    """τ = 1 + α ln max(1, (i + 1) / floor) in float64. Equation ``def-inkling-tau``."""
    count = positions.to(torch.float64) + 1
    return 1 + alpha * (count / floor).clamp(min=1.0).log()


class Inkling(OffsetTable):
    """Relative logits: r_i · P[distance], r_i a projection of the layer's input.

    Of Thinking Machines' Inkling there is no paper; this follows
    ``models/inkling/modeling_inkling.py`` of transformers 5.23.0. Equation
    ``def-inkling``.

    Parameters
    ----------
    heads, d_model
        Query heads, and the width of the layer's input.
    extent
        How many distances have a number: 0, 1, …, extent − 1; farther keys, and later
        ones, get 0. Default 1024 (Inkling's global layers; in the others, their
        window).
    d_rel
        Profiles, which all heads share. Default 16 (Inkling).
    divisor
        What content is divided by: ``"width"``, d (Inkling, whose queries and keys are
        normalized), or ``"root"``, √d (Inkling-2, x-transformers). The bias is not.
    r_bias
        Whether the projection has a bias (x-transformers). Default false.
    limit
        The largest norm of a head's r, after a trained scale: longer ones are
        shortened. Default none (Inkling; Inkling-2 has 8).
    floor, alpha
        Of the temperature 1 + α ln max(1, (i + 1) / floor) that multiplies all logits
        of a query. Default none, 0.1 (Inkling; Inkling-2 has floor 128000).
    profiles
        Where they start, ``[d_rel, extent]``. Default: zeros. (Inkling draws them
        normal.)

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, an unknown ``divisor``, a ``floor`` or
        ``limit`` that is not positive, ``profiles`` of another shape.
    """

    heads: int
    d_model: int
    future = 0
    beyond = "zero"
    needs_x = True

    def __init__(
        self,
        heads: int,
        d_model: int,
        *,
        divisor: str,
        extent: int = 1024,
        d_rel: int = 16,
        r_bias: bool = False,
        limit: float | None = None,
        floor: float | None = None,
        alpha: float = 0.1,
        profiles: Float[Tensor, "d_rel extent"] | None = None,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.d_model = require_dimension("d_model", d_model, 1)
        self.past = require_dimension("extent", extent, 1) - 1
        self.d_rel = require_dimension("d_rel", d_rel, 1)
        self.divisor = require_choice("divisor", divisor, DIVISORS)
        require_temperature(floor, alpha)
        require_limit(limit, limit is not None)
        self.floor, self.alpha = floor, alpha
        require_bool("r_bias", r_bias)
        self.r_proj = nn.Linear(d_model, heads * d_rel, bias=r_bias)
        self.limit = limit
        self.r_scale = None if limit is None else nn.Parameter(torch.ones(heads, d_rel))
        self.profiles = trained_table("profiles", profiles, (d_rel, extent))

    def opens(self, hook: str) -> bool:
        """``rotate`` only with a temperature."""
        return super().opens(hook) and (hook != "rotate" or self.floor is not None)

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"], Float[Tensor, "batch kv_heads tokens d"]
    ]:
        """Warm the queries."""
        return self._warm(
            q, as_positions(positions, (), q, start=0, reader="Inkling")
        ), k

    def scale(self, d: int) -> float:
        """1/d or 1/√d."""
        return 1 / d if self.divisor == "width" else d**-0.5

    def products(
        self, tokens: Tokens, rows: slice
    ) -> Float[Tensor, "batch heads queries rows"]:
        """What each query mixes for these distances, in float32 or better."""
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        x = require_input(tokens.x, self.d_model, self.r_proj.weight)
        r = self.r_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        r = self._limited(r.to(wide))
        mixed = r @ self.profiles.flip(-1)[:, rows].to(wide)
        return self._warm(mixed, tokens.query_positions)

    def _limited(
        self, r: Float[Tensor, "batch heads queries d_rel"]
    ) -> Float[Tensor, "batch heads queries d_rel"]:
        if self.r_scale is None or self.limit is None:
            return r
        r = r * self.r_scale[:, None].to(r.dtype)
        norm = torch.linalg.vector_norm(r, dim=-1, keepdim=True)
        return r * (self.limit / (norm + 1e-6)).clamp(max=1.0)

    def _warm(self, t: Tensor, positions: Tensor) -> Tensor:
        if self.floor is None:
            return t
        tau = log_temperature(positions, floor=self.floor, alpha=self.alpha)
        wide = torch.promote_types(t.dtype, torch.float32)
        return (t * tau[:, None, :, None].to(wide)).to(t.dtype)

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return (
            f"{self.heads}, {self.d_model}, divisor={self.divisor!r}, "
            f"extent={self.past + 1}, limit={self.limit}, floor={self.floor}, "
            f"alpha={self.alpha}"
        )
