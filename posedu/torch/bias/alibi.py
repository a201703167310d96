"""ALiBi: a linear bias of the distance, with a slope for each head."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.types import Device

from posedu._arguments import (
    ALiBiSides,
    ALiBiSlopes,
    require_bool,
    require_choice,
    require_default_bias_max,
    require_dimension,
    require_positive,
)
from posedu.torch._tensors import require_shape
from posedu.torch.bias.distance import ByDistance
from posedu.torch.encoding import Tokens


def alibi_slopes(
    heads: int,
    *,
    slopes: ALiBiSlopes,
    bias_max: float = 8.0,
    device: Device = None,
) -> Float[Tensor, "heads"]:
    """Return ALiBi's slope m_h of each head, in float64. Equation ``def-alibi-slopes``.

    A head's bias is −m_h times query position minus key position. See
    :func:`posedu.numpy.bias.alibi_slopes`, which explains ``slopes`` and ``bias_max``.
    """
    heads = require_dimension("heads", heads, 1)
    require_choice("slopes", slopes, ALiBiSlopes)
    if not is_compiling():  # Under a compiler, bias_max may be symbolic.
        bias_max = require_positive("bias_max", bias_max)
    power = heads if slopes == "geometric" else 1 << (heads.bit_length() - 1)
    steps = torch.arange(1, power + 1, dtype=torch.float64, device=device)
    between = (2 * steps - 1) / 2
    return torch.exp2(-bias_max / power * torch.cat((steps, between[: heads - power])))


class ALiBi(ByDistance):
    """Attention with linear biases (arXiv 2108.12409): logits less m_h (i − j).

    m_h is the slope of head h, i the query position, j the key position. No trained
    parameters unless ``trained``, no maximal length. Equation ``def-alibi``.

    Parameters
    ----------
    heads
        Query heads.
    slopes
        The slope of each head. ``"authors"`` or ``"geometric"``: the paper's, by one of
        two rules for a number of heads that is no power of two; see
        :func:`posedu.numpy.bias.alibi_slopes`. A tensor ``[heads]``: the slopes
        themselves, kept with the parameters. (In transformers, Falcon-RW has the
        authors' slopes, rounded to bfloat16, over √d.)
    sides
        Bias of later keys: ``"causal"`` (the paper, default), or for encoders
        ``"symmetric"`` or ``"one-sided"``; see :func:`posedu.numpy.bias.alibi`.
    bias_max
        The 8 in the paper's 2^(−8h/heads), for slopes by a rule (``alibi_bias_max`` in
        MPT's configurations). Default 8.
    trained
        Whether the slopes are trained, from the given ones on. Default false.

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, or odd where one-sided; unknown keywords;
        slopes of another shape, or not finite; both slopes and a ``bias_max``.
    """

    heads: int
    head_rows = ("slopes",)

    def __init__(
        self,
        heads: int,
        *,
        slopes: ALiBiSlopes | Float[Tensor, "heads"],
        sides: ALiBiSides = "causal",
        bias_max: float = 8.0,
        trained: bool = False,
    ):
        super().__init__()
        self.sides = require_choice("sides", sides, ALiBiSides)
        self.heads = require_dimension("heads", heads, 2 if sides == "one-sided" else 1)
        self.bias_max = require_positive("bias_max", bias_max)
        self.slopes: ALiBiSlopes | Tensor
        if isinstance(slopes, str):
            self.slopes = require_choice("slopes", slopes, ALiBiSlopes)
            if require_bool("trained", trained):
                start = self._slopes(None)[:, 0].to(torch.get_default_dtype())
                self.slopes = nn.Parameter(start)
        else:
            require_default_bias_max(bias_max)
            require_shape("slopes", slopes, (heads,))
            self.slopes = nn.Parameter(
                slopes.detach().clone(), require_bool("trained", trained)
            )
        self.needs_causal = sides == "causal"
        self.hooks -= {"bias" if self.needs_causal else "fold"}

    def _slopes(self, device: Device) -> Float[Tensor, "heads 1"]:
        if isinstance(self.slopes, Tensor):
            return self.slopes.to(torch.float64)[:, None]
        heads = self.layer_heads
        like = heads // 2 if self.sides == "one-sided" else heads
        m = alibi_slopes(
            like, slopes=self.slopes, bias_max=self.bias_max, device=device
        )
        return self.own_heads(m.repeat(heads // like))[:, None]

    def fold(
        self, tokens: Tokens
    ) -> (
        tuple[Float[Tensor, "rows heads queries"], Float[Tensor, "key_rows heads keys"]]
        | None
    ):
        """Return query terms −m i and key terms m j, whose sum is the bias −m (i − j).

        m is the slope of a head, i the position of a query, j the position of a key,
        both counted from the first key, which keeps the terms, and their rounding,
        small. Unless ``sides`` is ``"causal"``, the bias is no such sum, and ``None``
        is returned.
        """
        if self.sides != "causal":
            return None
        m = self._slopes(tokens.q.device)
        i, j = tokens.query_positions, tokens.key_positions
        return -m * (i - j[:, :1])[:, None], m * (j - j[:, :1])[:, None]

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """Return the bias of each offset, for each head.

        Causal: −m times the offset, with the head's slope m. Symmetric: −m times the
        distance. One-sided: as symmetric, but −∞ for later keys in the first half of
        the heads and for earlier keys in the second half. An offset is query position
        minus key position.
        """
        steps = offsets.flatten()
        signed = steps if self.sides == "causal" else steps.abs()
        bias = -self._slopes(offsets.device) * signed
        if self.sides == "one-sided":
            heads = self.layer_heads
            left = torch.arange(heads, device=steps.device) < heads // 2
            left = self.own_heads(left)
            hidden = torch.where(left[:, None], steps < 0, steps > 0)
            bias = bias.masked_fill(hidden, -torch.inf)
        return bias.unflatten(-1, offsets.shape)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        own = self.slopes
        slopes = own.tolist() if isinstance(own, Tensor) else own
        text = f"{self.heads}, slopes={slopes!r}, sides={self.sides!r}"
        return text if self.bias_max == 8 else f"{text}, bias_max={self.bias_max:g}"
