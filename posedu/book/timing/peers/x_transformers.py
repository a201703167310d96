"""Attention as x-transformers has it, with an encoding's parameters put into it.

Each function takes our module and what it is to attend to, and returns calls by the
kernel that they use. The library makes its bias in every layer, but for ALiBi's, which
it keeps; logits are scaled as ours, by its keyword.
"""

from collections.abc import Callable

from torch import Tensor, nn

from posedu.book.timing.clock import Run
from posedu.torch import T5, ALiBi, Encoding, Inkling
from posedu.torch.encoding import Tokens


def alibi(encoding: ALiBi, tokens: Tokens) -> dict[str, Run]:
    """Its ALiBi, the matrix of which lies ready."""
    from x_transformers.x_transformers import AlibiPositionalBias

    heads, length = tokens.q.shape[1:3]
    bias = AlibiPositionalBias(heads).to(tokens.q)
    return _attending(encoding, tokens, lambda: bias(length, length))


def t5(encoding: T5, tokens: Tokens) -> dict[str, Run]:
    """Its T5 bias, causal."""
    from x_transformers.x_transformers import RelativePositionBias

    heads, length = tokens.q.shape[1:3]
    bias = RelativePositionBias(
        scale=1,
        causal=True,
        num_buckets=encoding.buckets,
        max_distance=encoding.distance,
        heads=heads,
    )
    bias.relative_attention_bias.weight = nn.Parameter(encoding.table.mT.contiguous())
    return _attending(encoding, tokens, lambda: bias(length, length))


def inkling(encoding: Inkling, tokens: Tokens) -> dict[str, Run]:
    """Its relative projection, without the bias that it adds."""
    from x_transformers.x_transformers import RelativeProjPositionalBias

    bias = RelativeProjPositionalBias(
        encoding.d_model,
        encoding.heads,
        num_distance_basis=encoding.d_rel,
        max_dist=encoding.past + 1,
    )
    bias.to_distance_weights[0] = encoding.r_proj
    bias.distance_bank = encoding.distance_basis
    return _attending(encoding, tokens, lambda: bias(tokens.x))


def _attending(
    encoding: Encoding, tokens: Tokens, bias: Callable[[], Tensor]
) -> dict[str, Run]:
    """Its causal attention with a bias: by PyTorch's kernel, and in the open."""
    from x_transformers.attend import Attend

    heads, scale = tokens.q.shape[1], encoding.scale(tokens.d)

    def run_with(flash: bool) -> Run:
        attend = Attend(causal=True, heads=heads, scale=scale, flash=flash).eval()
        return lambda: attend(tokens.q, tokens.k, tokens.v, attn_bias=bias())[0]

    return {"flash": run_with(True), "eager": run_with(False)}
