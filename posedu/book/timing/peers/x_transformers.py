"""Attention of the library x-transformers, with parameters of posedu's encodings.

Each function takes posedu's encoding module and the tokens, which hold queries, keys
and values. It returns functions without arguments that compute the library's attention,
in a dict by the library's attention kernel: ``"flash"`` or ``"eager"``. The library
makes its bias in every layer, except for ALiBi's bias, which it caches. Logits have the
same scale as in posedu, by the library's own keyword.
"""

from collections.abc import Callable

from torch import Tensor, nn

from posedu.book.timing.clock import Run
from posedu.torch import T5, ALiBi, Encoding, Inkling
from posedu.torch.encoding import Tokens


def alibi(encoding: ALiBi, tokens: Tokens) -> dict[str, Run]:
    """Return functions that compute x-transformers' attention with ALiBi.

    They are in a dict under the names of the library's attention kernels, ``"flash"``
    and ``"eager"``. ``tokens`` has the queries, keys and values. The library caches the
    bias.
    """
    from x_transformers.x_transformers import AlibiPositionalBias

    heads, length = tokens.q.shape[1:3]
    bias = AlibiPositionalBias(heads).to(tokens.q)
    return _calls_with_bias(encoding, tokens, lambda: bias(length, length))


def t5(encoding: T5, tokens: Tokens) -> dict[str, Run]:
    """Return functions that compute x-transformers' attention with T5's bias.

    They are in a dict under the names of the library's attention kernels, ``"flash"``
    and ``"eager"``. ``tokens`` has the queries, keys and values. The bias is T5's bias
    of causal attention, with the table of ``encoding``.
    """
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
    return _calls_with_bias(encoding, tokens, lambda: bias(length, length))


def inkling(encoding: Inkling, tokens: Tokens) -> dict[str, Run]:
    """Return functions that compute x-transformers' attention with Inkling's bias.

    They are in a dict under the names of the library's attention kernels, ``"flash"``
    and ``"eager"``. ``tokens`` has the queries, keys and values; the bias has the
    parameters of ``encoding``. The library calls the bias a relative projection. Its
    own additive bias, which the library can add to that projection, is left out.
    """
    from x_transformers.x_transformers import RelativeProjPositionalBias

    bias = RelativeProjPositionalBias(
        encoding.d_model,
        encoding.heads,
        num_distance_basis=encoding.d_rel,
        max_dist=encoding.past + 1,
    )
    bias.to_distance_weights[0] = encoding.r_proj
    bias.distance_bank = encoding.distance_basis
    return _calls_with_bias(encoding, tokens, lambda: bias(tokens.x))


def _calls_with_bias(
    encoding: Encoding, tokens: Tokens, bias: Callable[[], Tensor]
) -> dict[str, Run]:
    """Return functions that compute x-transformers' causal attention with a bias.

    They are in a dict under the names of the library's attention kernels, ``"flash"``
    and ``"eager"``. ``tokens`` has the queries, keys and values. Every call of one of
    the functions calls ``bias``, which returns a tensor to add to the logits.
    ``encoding`` is posedu's module, which gives the scale of the logits.
    """
    from x_transformers.attend import Attend

    heads, scale = tokens.q.shape[1], encoding.scale(tokens.d)

    def run_with(flash: bool) -> Run:
        attend = Attend(causal=True, heads=heads, scale=scale, flash=flash).eval()
        return lambda: attend(tokens.q, tokens.k, tokens.v, attn_bias=bias())[0]

    return {"flash": run_with(True), "eager": run_with(False)}
