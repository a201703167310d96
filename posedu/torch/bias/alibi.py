"""ALiBi: a linear bias of the distance, with a slope for each head."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.types import Device

from posedu._arguments import ALiBiSides, ALiBiSlopes, require_choice, require_dimension
from posedu.torch.bias.distance import ByDistance
from posedu.torch.encoding import Tokens


def alibi_slopes(
    heads: int, *, slopes: ALiBiSlopes, device: Device = None
) -> Float[Tensor, "heads"]:
    """Return ALiBi's slope m_h of each head, in float64. Equation ``def-alibi-slopes``.

    A head's bias is −m_h times query position minus key position. See
    :func:`posedu.numpy.bias.alibi_slopes`, which explains the two values of ``slopes``.
    """
    require_dimension("heads", heads, 1)
    require_choice("slopes", slopes, ALiBiSlopes)
    power = heads if slopes == "geometric" else 1 << (heads.bit_length() - 1)
    steps = torch.arange(1, power + 1, dtype=torch.float64, device=device)
    between = (2 * steps - 1) / 2
    return torch.exp2(-8 / power * torch.cat((steps, between[: heads - power])))


class ALiBi(ByDistance):
    """Attention with linear biases (arXiv 2108.12409): logits less m_h (i − j).

    m_h is the slope of head h, i the query position, j the key position. No parameters,
    no maximal length. Equation ``def-alibi``.

    Parameters
    ----------
    heads
        Query heads.
    slopes
        Rule for a number of heads that is no power of two: ``"authors"`` or
        ``"geometric"``; see
        :func:`posedu.numpy.bias.alibi_slopes`.
    sides
        Bias of later keys: ``"causal"`` (the paper, default), or for encoders
        ``"symmetric"`` or ``"one-sided"``; see :func:`posedu.numpy.bias.alibi`.

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, or odd where one-sided; unknown keywords.
    """

    heads: int

    def __init__(
        self, heads: int, *, slopes: ALiBiSlopes, sides: ALiBiSides = "causal"
    ):
        super().__init__()
        self.sides = require_choice("sides", sides, ALiBiSides)
        self.slopes = require_choice("slopes", slopes, ALiBiSlopes)
        self.heads = require_dimension("heads", heads, 2 if sides == "one-sided" else 1)
        self.needs_causal = sides == "causal"
        self.hooks -= {"bias" if self.needs_causal else "fold"}

    def _slopes(self, device: Device) -> Float[Tensor, "heads 1"]:
        if self.sides != "one-sided":
            m = alibi_slopes(self.heads, slopes=self.slopes, device=device)
        else:
            m = alibi_slopes(self.heads // 2, slopes=self.slopes, device=device)
            m = m.repeat(2)
        return m[:, None]

    def fold(
        self, tokens: Tokens
    ) -> (
        tuple[Float[Tensor, "rows heads queries"], Float[Tensor, "key_rows heads keys"]]
        | None
    ):
        """Return query terms −m i and key terms m j, whose sum is the bias −m (i − j).

        m is the slope of a head, i the position of a query, j the position of a key.
        Unless ``sides`` is ``"causal"``, the bias is no such sum, and ``None`` is
        returned.
        """
        if self.sides != "causal":
            return None
        m = self._slopes(tokens.q.device)
        of_queries = -m * tokens.query_positions[:, None]
        return of_queries, m * tokens.key_positions[:, None]

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
            left = torch.arange(self.heads, device=steps.device) < self.heads // 2
            hidden = torch.where(left[:, None], steps < 0, steps > 0)
            bias = bias.masked_fill(hidden, -torch.inf)
        return bias.unflatten(-1, offsets.shape)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.heads}, slopes={self.slopes!r}, sides={self.sides!r}"
