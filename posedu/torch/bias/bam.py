"""BAM: a bias whose exponential is a generalized Gaussian with a trained shape."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from posedu._arguments import require_bool, require_dimension
from posedu.torch._tensors import (
    Positions,
    align_positions,
    in_float64,
    may_look,
    require_shape,
)
from posedu.torch.bias.alibi import alibi_slopes
from posedu.torch.bias.distance import ByDistance

PerHead = Float[Tensor, "heads"]
EPSILON = 1e-5  # of the authors' code


class BAM(ByDistance):
    """Bayesian attention mechanism: −α (abs(i − j + μ) + ε)^β added to the logits.

    arXiv 2505.22842. i is the query position, j the key position, ε = 10⁻⁵. The
    parameters ``log_alpha`` and ``beta`` of each head are unbounded; a negative β gives
    the keys at the center the lowest bias, and no bound keeps β positive (the authors'
    code has none). A bias beyond the range of float32 is −∞ and hides its key. Equation
    ``def-bam``.

    Parameters
    ----------
    heads
        Query heads.
    shifted
        Whether the center μ = 2 sinh ``theta_mu`` is trained, as an option of the
        authors' code; it is key position minus query position. Default false: μ = 0.
    scaled_softmax
        Whether the products of queries and keys are multiplied by s ln n for the n-th
        position, with a trained ``log_n_slope`` s, initially 1 (scalable softmax, arXiv
        2501.19399). The bias is not. Default false.
    alpha, beta, mu
        Initial values, ``[heads]``. Default: ALiBi's slopes, 1 and 0, so that training
        starts from ALiBi.

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, an initial value of another shape, not finite,
        or α not positive, a ``mu`` without ``shifted``.
    """

    heads: int
    head_rows = ("log_alpha", "beta", "theta_mu", "log_n_slope")

    def __init__(
        self,
        heads: int,
        *,
        shifted: bool = False,
        scaled_softmax: bool = False,
        alpha: PerHead | None = None,
        beta: PerHead | None = None,
        mu: PerHead | None = None,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.shifted = require_bool("shifted", shifted)
        self.scaled_softmax = require_bool("scaled_softmax", scaled_softmax)
        if mu is not None and not shifted:
            raise ValueError("mu is for shifted=True")
        slopes = alibi_slopes(heads, slopes="authors").to(torch.get_default_dtype())
        first = self._start("alpha", alpha, slopes)
        if may_look(first) and (first <= 0).any():
            raise ValueError(f"alpha must be positive, got {first.tolist()}")
        self.log_alpha = nn.Parameter(first.log())
        self.beta = nn.Parameter(self._start("beta", beta, torch.ones(heads)))
        if shifted:
            center = self._start("mu", mu, torch.zeros(heads))
            self.theta_mu = nn.Parameter((center / 2).asinh())
        if scaled_softmax:
            self.log_n_slope = nn.Parameter(torch.ones(heads))
        else:
            self.hooks -= {"rotate", "move_keys"}

    def _start(self, name: str, start: PerHead | None, default: PerHead) -> PerHead:
        if start is None:
            return default
        require_shape(name, start, (self.heads,))
        return start.detach().clone()

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """Return the bias −α (abs(t + μ) + ε)^β of each offset t, in float64.

        An offset is query position minus key position.
        """
        log_alpha, beta = (
            p.to(torch.float64)[:, None] for p in (self.log_alpha, self.beta)
        )
        t = offsets.flatten().to(torch.float64)
        if self.shifted:
            t = t + 2 * self.theta_mu.to(torch.float64).sinh()[:, None]
        bias = -(log_alpha + beta * (t.abs() + EPSILON).log()).exp()
        return bias.unflatten(-1, offsets.shape)

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"], Float[Tensor, "batch kv_heads tokens d"]
    ]:
        """Multiply each query by s ln n if ``scaled_softmax``; keys are unchanged."""
        if not self.scaled_softmax:
            return q, k
        n = in_float64(align_positions(positions, q), q.device) + 1
        tau = self.log_n_slope.to(torch.float64)[:, None] * n.clamp(min=1.0).log()
        wide = torch.promote_types(q.dtype, torch.float32)
        return (q * tau.to(wide)[..., None]).to(q.dtype), k

    def rotation_state(self) -> tuple[Tensor, ...]:
        """Return no tensors: nothing rotates the keys in a cache."""
        return ()

    def move_keys(
        self,
        k: Float[Tensor, "batch kv_heads keys d"],
        shifts: Shaped[Tensor, "rows keys"],
    ) -> Float[Tensor, "batch kv_heads keys d"]:
        """Return cached keys as they are: no position enters into them.

        ``shifts`` are new positions minus old ones.
        """
        return k

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.heads}, shifted={self.shifted}, "
            f"scaled_softmax={self.scaled_softmax}"
        )
