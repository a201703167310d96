"""FIRE: a learned function of the distance relative to the query's position."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from posedu._arguments import (
    LEAK,
    FIREActivation,
    FIRELaterKeys,
    require_choice,
    require_dimension,
    require_finite,
    require_not_negative,
    require_positive,
)
from posedu.torch._tensors import may_look, require_floats
from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.toeplitz_bias import toeplitz


class FIRE(Encoding):
    """FIRE: bias f(ψ(i − j) / (ψ(max(ℓ, i)) + ε)), ψ(t) = log(1 + abs(c t)).

    arXiv 2310.04418 §3. f is a network of one hidden layer, that is, piecewise linear
    with a kink for each hidden unit. It is evaluated in this form, so that no hidden
    units are computed for queries × keys. Up to the threshold ℓ the bias depends on the
    distance alone, and on a CPU it costs O(L). Beyond the threshold, and on a GPU,
    attention takes O(L²) memory. One module that serves every layer is the paper's
    FIRE-S. Equation ``def-fire``.

    Parameters
    ----------
    heads
        Query heads.
    threshold
        Initial ℓ; it is trained by a multiplier. Published code: 512, or half of the
        training length and less.
    activation
        ``"relu"``: the paper. ``"leaky"``: slope 0.01 below 0, as under DAPE in the
        code of DAPE's authors.
    later
        The distance of a key after its query. ``"distance"``: j − i (the paper's
        listing). ``"zero"``: 0 (the code of DAPE's authors). A causal mask hides the
        difference.
    width
        Hidden units. Default 32 (the paper's listing).
    c
        Initial c, the trained factor of the distance in ψ. Default 0.1 (the paper's
        listing).
    eps
        The ε in the divisor. Default 1e-6 (the paper's listing); the formula has none.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, a ``threshold`` that is not positive,
        ``c`` not finite, ``eps`` negative, unknown ``activation`` or ``later``.
    """

    heads: int
    head_rows = ("out.weight", "out.bias")

    def __init__(
        self,
        heads: int,
        *,
        threshold: float,
        activation: FIREActivation,
        later: FIRELaterKeys,
        width: int = 32,
        c: float = 0.1,
        eps: float = 1e-6,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.threshold = require_positive("threshold", threshold)
        self.activation = require_choice("activation", activation, FIREActivation)
        self.later = require_choice("later", later, FIRELaterKeys)
        self.eps = require_not_negative("eps", eps)
        largest = torch.finfo(torch.get_default_dtype()).max
        if abs(require_finite("c", c)) > largest:
            raise ValueError(f"c must be at most {largest:g} in size, got {c}")
        self.c = nn.Parameter(torch.full((1,), float(c)))
        self.multiplier = nn.Parameter(torch.ones(1))
        self.hidden = nn.Linear(1, require_dimension("width", width, 1))
        self.out = nn.Linear(width, heads)

    def by_distance(self, tokens: Tokens) -> Float[Tensor, "heads offsets"] | None:
        """Return the bias of every offset, the largest offset first.

        An offset is query position minus key position. ``None`` unless positions are
        known to count up by one to at most the threshold ℓ.
        """
        if not self._is_toeplitz(tokens):
            return None
        queries, keys = tokens.q.shape[2], tokens.keys
        offsets = torch.arange(keys - 1, -queries, -1, device=tokens.q.device)
        return self._at(offsets, offsets.new_zeros(()), tokens)

    def bias(self, tokens: Tokens) -> Float[Tensor, "rows heads queries keys"]:
        """Return the bias of every (query, key) pair.

        Where :meth:`by_distance` gives the bias of every offset, the matrix returned is
        a view of these numbers.
        """
        row = self.by_distance(tokens)
        if row is not None:
            return toeplitz(row, tokens.keys)[None]
        queries = tokens.query_positions[..., None]
        return self._at(tokens.offsets.squeeze(1), queries, tokens).movedim(0, 1)

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """Return a FlexAttention ``score_mod`` that looks up the bias by offset.

        A ``score_mod`` is a function that changes one logit. ``None`` unless positions
        are known to count up by one to at most the threshold ℓ.
        """
        row = self.by_distance(tokens)
        if row is None:
            return None
        newest = tokens.q.shape[2] - 1
        return lambda score, b, h, i, j: score + row[h, newest - i + j]

    def inputs(
        self, offsets: Shaped[Tensor, "*shape"], queries: Shaped[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        """Return the input of FIRE's network for each offset and query, in float64.

        The input is ψ(i − j) / (ψ(max(ℓ, i)) + ε), with the query position i, the key
        position j and the threshold ℓ. Equation ``def-fire-input``. ``offsets`` are i −
        j, ``queries`` the positions i.
        """
        t = offsets.abs() if self.later == "distance" else offsets.clamp(min=0)
        longest = torch.maximum(queries.to(torch.float64), self._longest())
        return self._psi(t.to(torch.float64)) / (self._psi(longest) + self.eps)

    def _longest(self) -> Float[Tensor, "1"]:
        return (self.multiplier.to(torch.float64) * self.threshold).abs()

    def _psi(self, t: Tensor) -> Tensor:
        return (self.c.to(torch.float64) * t).abs().log1p()

    def _is_toeplitz(self, tokens: Tokens) -> bool:
        """Return whether the bias is known to depend on the offset alone (i ≤ ℓ).

        The bias does so where no query position i is above the threshold ℓ. False on a
        GPU, where the host would have to wait for i and ℓ.
        """
        at = tokens.query_positions
        if not (tokens.consecutive and at.numel()):
            return False
        if not (may_look(self.multiplier) and may_look(at)):
            return False
        return at[0, -1].item() <= self._longest().item()

    def _at(
        self, offsets: Tensor, queries: Tensor, tokens: Tokens
    ) -> Float[Tensor, "heads *shape"]:
        x = self.inputs(offsets, queries)
        dtype = torch.promote_types(tokens.q.dtype, torch.float32)
        leak = 0.0 if self.activation == "relu" else LEAK
        kinks, slopes, starts = broken_lines(
            *(self.hidden.weight.squeeze(-1), self.hidden.bias),
            *(self.out.weight, self.out.bias),
            leak=leak,
        )
        piece = torch.searchsorted(kinks, x.detach())
        lines = zip(slopes, starts, strict=True)
        return torch.stack([(a[piece] * x + b[piece]).to(dtype) for a, b in lines])

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.heads}, threshold={self.threshold}, "
            f"activation={self.activation!r}, later={self.later!r}"
        )


def broken_lines(
    w_1: Float[Tensor, "width"],
    b_1: Float[Tensor, "width"],
    w_2: Float[Tensor, "heads width"],
    b_2: Float[Tensor, "heads"],
    *,
    leak: float,
) -> tuple[
    Float[Tensor, "width"],
    Float[Tensor, "heads pieces"],
    Float[Tensor, "heads pieces"],
]:
    """Return kinks, slopes and intercepts of the lines of a one-input ReLU network.

    A unit with the inner weight w, the inner bias b and the outer weight v has its kink
    at −b/w. Left of all kinks the units with w < 0 are on. From left to right each unit
    is switched at its kink, where the slope grows by v (1 − leak) times the size of w.
    ``leak`` is the slope of a unit that is off. Results are float64. Equation
    ``eq-fire-broken``. ``w_1`` and ``b_1`` are weights and biases of the hidden units,
    ``w_2`` and ``b_2`` those of the output, which has a number for each head.

    Raises
    ------
    TypeError, ValueError
        Weights or biases that are no floats, or of shapes that do not fit; ``leak`` not
        finite.
    """
    given = {"w_1": w_1, "b_1": b_1, "w_2": w_2, "b_2": b_2}
    for name, t in given.items():
        require_floats(name, t)
    width, heads = len(b_1) if b_1.ndim else 0, len(b_2) if b_2.ndim else 0
    shapes = (width,), (width,), (heads, width), (heads,)
    if tuple(t.shape for t in given.values()) != shapes:
        raise ValueError(
            "w_1, b_1, w_2 and b_2 must be [width], [width], [heads, width] and "
            f"[heads], got shapes {[list(t.shape) for t in given.values()]}"
        )
    leak = require_finite("leak", leak)
    w_1, b_1, w_2, b_2 = (t.to(torch.float64) for t in given.values())
    flat = w_1 == 0
    kinks = torch.where(flat, torch.inf, -b_1 / torch.where(flat, 1.0, w_1)).detach()
    is_on = (w_1 < 0) | (flat & (b_1 > 0))
    first = torch.where(is_on, w_2, leak * w_2)
    step = w_2 * (1 - leak) * w_1.sign()
    kinks, order = kinks.sort()

    def pieces(amounts: Tensor, start: Tensor | float) -> Tensor:
        left = (first * amounts).sum(-1, keepdim=True) + start
        return torch.cat((left, left + (step * amounts)[:, order].cumsum(-1)), -1)

    return kinks, pieces(w_1, 0.0), pieces(b_1, b_2[:, None])
