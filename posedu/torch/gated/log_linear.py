"""Log-linear attention: decays, and a factor for each bucket of tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posedu._arguments import LogLinearBuckets, require_choice, require_dimension
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import wide_dtype
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.stickbreaking import softplus
from posedu.torch.tiled_attention import Limits

_STEPS = 1e-3, 0.1  # softplus(b) at the start lies between, as in the authors' code


class LogLinear(Encoding):
    """Log-linear attention (arXiv 2506.04761): decays and a factor for each level.

    The weight of key s for query t is (q_t · k_s) e^D λ_tl, where D is the sum of the
    log gates of the tokens s + 1 … t, and λ_tl is a factor of the query for the level l
    of the bucket of tokens that holds s: level 0 is the token itself, and a weak
    bucket of level l has 2^(l − 1) tokens. There is no softmax, and nothing is divided
    by √d. Positions are not used: levels count tokens. Equation ``def-log-linear``.

    Here attention takes O(L²) memory and operations for L tokens, and O(L) for one
    token with a cache, which holds the keys and the log gates; the authors' kernels
    take O(L log L) and hold a matrix for each bucket. Their layer also multiplies the
    values by softplus(w · x + b), and has a short convolution, a norm and a gate, which
    are no part of this encoding. The weights of the gates and of the factors start
    normal with deviation 0.02.

    Where :meth:`~posedu.torch.cache.KVCache.crop` or
    :meth:`~posedu.torch.cache.KVCache.drop` removes tokens, the tokens that are left
    are counted anew, which changes their buckets.

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    buckets
        ``"weak"`` (the paper) or ``"strong"`` (an option of the authors' code); see
        :func:`posedu.numpy.gated.bucket_level`.
    levels
        Number of factors λ of a head; higher levels get the last one. Default 15, which
        is enough for 16384 tokens (the authors' code, which takes no more tokens).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``buckets``.
    """

    needs_causal = needs_x = True
    needs_positions = False
    needs_own_key_last = True
    heads: int
    head_rows = ("gate_weight", "gate_bias", "gate_rate", "level_weight", "level_scale")

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        buckets: LogLinearBuckets,
        levels: int = 15,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.buckets = require_choice("buckets", buckets, LogLinearBuckets)
        self.levels = require_dimension("levels", levels, 1)
        self.gate_weight = nn.Parameter(0.02 * torch.randn(heads, d_model))
        self.gate_bias = nn.Parameter(initial_step_bias(heads))
        self.gate_rate = nn.Parameter(torch.arange(1.0, heads + 1).log())
        self.level_weight = nn.Parameter(0.02 * torch.randn(heads, levels, d_model))
        self.level_scale = nn.Parameter(torch.ones(heads, levels))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads"]]:
        """Return the logarithm of each token's gates, in float32 or wider."""
        steps = step_sizes(x, self.gate_weight, self.gate_bias)
        return {"log_gates": -self.gate_rate.to(steps.dtype).exp() * steps}

    def level_weights(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Float[Tensor, "batch heads tokens levels"]:
        """Return λ of each token and level. Equation ``def-log-linear-level``."""
        wide = wide_dtype(x, self.level_weight)
        with without_autocast(x):
            logits = x.to(wide)[:, None] @ self.level_weight.to(wide).mT
        return softplus(logits * self.level_scale.to(wide)[:, None])

    def scale(self, d: int) -> float:
        """Return 1: products of queries and keys are not scaled."""
        return 1.0

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return products times decays and factors. Equation ``def-log-linear``.

        The weights are in float32 or wider; keys that are masked have the weight 0.
        """
        assert tokens.x is not None
        dtype = torch.promote_types(logits.dtype, tokens.memory["log_gates"].dtype)
        sums = tokens.running_sum(tokens.memory["log_gates"])
        of_queries = sums[..., tokens.keys - tokens.q.shape[2] :]
        exponents = of_queries[..., None] - sums[..., None, :]
        decays = exponents.masked_fill(~tokens.mask, -torch.inf).exp().to(dtype)
        of_levels = self.level_weights(tokens.x)
        levels = self.levels_of(tokens)[:, None].expand(*decays.shape)
        return logits.to(dtype) * decays * of_levels.gather(-1, levels).to(dtype)

    def levels_of(self, tokens: Tokens) -> Int[Tensor, "rows queries keys"]:
        """Return the level of each query and key, at most the last one.

        For keys after the query the level has no meaning. Equation
        ``def-bucket-level``.
        """
        number = _numbers(tokens)
        t = number[:, tokens.keys - tokens.q.shape[2] :, None]
        powers = 2 ** torch.arange(max(self.levels - 1, 0), device=t.device)
        # The number of tokens of the levels below, for each level from 1 on.
        newer = t % powers
        if self.buckets == "strong":
            halves = powers // 2
            newer = (halves + t % halves.clamp(min=1)) * (powers > 1)
        return torch.searchsorted(newer, t - number[:, None])

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, {self.heads}, buckets={self.buckets!r}, "
            f"levels={self.levels}"
        )


def step_sizes(
    x: Float[Tensor, "batch tokens d_model"],
    weight: Float[Tensor, "heads d_model"],
    bias: Float[Tensor, "heads"],
) -> Float[Tensor, "batch tokens heads"]:
    """Return Mamba's softplus(w · x + b) of each token and head, float32 or wider.

    The logarithm of a gate is −e^rate times this step. Equation
    ``def-log-linear-gate``.
    """
    wide = wide_dtype(x, bias)
    with without_autocast(x):
        return softplus(x.to(wide) @ weight.to(wide).mT + bias.to(wide))


def initial_step_bias(*shape: int) -> Float[Tensor, "*shape"]:
    """Draw biases b whose steps softplus(b) are even in logarithm from .001 to .1."""
    low, high = map(math.log, _STEPS)
    steps = torch.exp(low + (high - low) * torch.rand(shape))
    return steps + torch.log(-torch.expm1(-steps))


def _numbers(tokens: Tokens) -> Int[Tensor, "rows keys"]:
    """Return how many tokens of its text precede each token; padding is not counted.

    Each segment (packed sequence) is a text.
    """
    keys, device = tokens.keys, tokens.q.device
    if tokens.segments is not None:
        every = slice(0, keys)
        limits = Limits(True, None, tokens.padding, tokens.segments)
        return limits.allowed(every, every, keys, keys, device)[:, 0].sum(-1) - 1
    if tokens.padding is not None:
        return (~tokens.padding).cumsum(-1) - 1
    return torch.arange(keys, device=device)[None]
