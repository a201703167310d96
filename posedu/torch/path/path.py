"""PaTH and PaTH-FoX: each token between key and query reflects or shrinks the key."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import (
    PathScaling,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.torch._autograd import without_autocast
from posedu.torch._compiled import untraced
from posedu.torch._sequences import short_convolution
from posedu.torch._tensors import wide_dtype
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.gated.fox import log_gates
from posedu.torch.path._sequence import (
    forget_bias,
    products_in_segments,
)

_BLOCK = 64  # tokens whose transitions are multiplied at once
_EPS = 1e-6  # the authors' ε of the norm of w


class PaTH(Encoding):
    """PaTH (arXiv 2505.16381): a product of Householder matrices over the path.

    The score of query i and key j is q_i · T_i T_(i−1) ⋯ T_(j+1) k_j / √d, where
    T_t = I − β_t w_t w_tᵀ. The unit vector w_t and the number β_t are computed from
    the layer's input. Positions are not used. Equation ``def-path``.

    Attention takes O(L²) memory and O(L² d) operations for L tokens, by blocks of 64
    transitions, and O(L d) for one token with a cache if blocks are of this length.
    The cache holds the keys as they were projected.

    A cached token's w contains those of the ``convolution`` − 1 tokens before it: where
    :meth:`~posedu.torch.cache.KVCache.crop` or
    :meth:`~posedu.torch.cache.KVCache.drop` removes these, it is computed without them.

    What makes w and β starts normal with deviation 0.02, b at 0.

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    d
        Head dimension.
    transitions
        How many heads have transitions of their own, a divisor of ``heads``;
        neighboring heads share one. Default ``heads``; the authors' code has one for
        each key-value head.
    rank
        Rank of the matrix that makes w of the input. Default 32 (the authors' code);
        ``None`` for a full matrix.
    convolution
        Number of tokens, the token's own among them, over which w is convolved before
        SiLU. Default 3 (the authors' code); ``None`` for no convolution and no SiLU.
    negative_eigenvalues
        Whether β is 2σ(u · x + b), as in the paper, or σ(u · x + b). Default true.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, or ``transitions`` that do not divide
        ``heads``.
    """

    needs_causal = needs_x = True
    needs_positions = False
    heads: int
    head_rows: tuple[str, ...] = ("w_up", "w_taps", "beta_weight", "beta_bias")

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        transitions: int | None = None,
        rank: int | None = 32,
        convolution: int | None = 3,
        negative_eigenvalues: bool = True,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d, 1)
        own = heads if transitions is None else transitions
        if heads % require_dimension("transitions", own, 1):
            raise ValueError(
                f"transitions must divide heads = {heads}, got {transitions}"
            )
        self.negative_eigenvalues = require_bool(
            "negative_eigenvalues", negative_eigenvalues
        )
        inner, self.w_down, self.w_taps = d_model, None, None
        if rank is not None:
            inner = require_dimension("rank", rank, 1)
            self.w_down = nn.Parameter(0.02 * torch.randn(inner, d_model))
        self.w_up = nn.Parameter(0.02 * torch.randn(own, d, inner))
        if convolution is not None:
            width = require_dimension("convolution", convolution, 1)
            self.w_taps = nn.Parameter(0.02 * torch.randn(own, d, width))
        self.beta_weight = nn.Parameter(0.02 * torch.randn(own, d_model))
        self.beta_bias = nn.Parameter(torch.zeros(own))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Tensor]:
        """Return each token's w before the convolution, and its β, to cache.

        Both are in float32 or wider.
        """
        wide = wide_dtype(x, self.w_up)
        with without_autocast(x):
            x = x.to(wide)
            inner = x if self.w_down is None else x @ self.w_down.to(wide).mT
            w = inner @ self.w_up.to(wide).flatten(0, 1).mT
            logits = x @ self.beta_weight.to(wide).mT + self.beta_bias.to(wide)
        largest = 2.0 if self.negative_eigenvalues else 1.0
        w = w.unflatten(-1, self.w_up.shape[:2])
        return {"w": w, "beta": largest * logits.sigmoid()}

    def directions(self, tokens: Tokens) -> Float[Tensor, "batch transitions keys d"]:
        """Return the unit vector w of each token. Equation ``def-path-directions``."""
        w = tokens.memory["w"]
        if self.w_taps is not None:
            taps = self.w_taps.to(w.dtype)
            of_sequences = tokens.padding, tokens.segments
            w = functional.silu(short_convolution(w, taps, *of_sequences))
        w = w * (w.square().sum(-1, keepdim=True) + _EPS).rsqrt()
        return w.transpose(1, 2)

    def products(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return q_i · T_i ⋯ T_(j+1) k_j of every query i and key j.

        The products are in float32 or wider; for keys after the query they have no
        meaning.
        """
        w, beta = self.directions(tokens), tokens.memory["beta"].mT
        if tokens.padding is not None:
            beta = beta.masked_fill(tokens.padding[:, None], 0.0)
        group = self.heads // w.shape[1]
        w, beta = (t.repeat_interleave(group, 1) for t in (w, beta))
        dtype = torch.promote_types(tokens.q.dtype, w.dtype)
        q, k, w, beta = (t.to(dtype) for t in (tokens.q, tokens.k, w, beta))
        return products_in_segments(path_products, tokens, q, k, w, beta)

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the scaled products over the path. Equation ``def-path``."""
        return self.products(tokens) * self.scale(tokens.d)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        own = self.w_up.shape[0]
        shared = "" if own == self.heads else f", transitions={own}"
        return f"{self.d_model}, {self.heads}, {self.d}{shared}"


@untraced("path_products")
def path_products(
    q: Float[Tensor, "batch heads queries d"],
    k: Float[Tensor, "batch heads keys d"],
    w: Float[Tensor, "batch heads keys d"],
    beta: Float[Tensor, "batch heads keys"],
    *,
    block: int = _BLOCK,
) -> Float[Tensor, "batch heads queries keys"]:
    """Products q_i · T_i ⋯ T_(j+1) k_j with T_t = I − β_t w_t w_tᵀ, block by block.

    The queries are those of the last keys. Blocks of ``block`` keys are walked from the
    newest to the oldest. Queries behind a block are first moved to its end; the product
    of transitions from a key of the block to its end is I − Wᵀ T D W, in which the
    rows of W are the w of the block, D is the diagonal matrix of the β, and
    T = (I + strictly lower part of D W Wᵀ)⁻¹ (``thm-path-wy``). For keys after the
    query the result has no meaning.
    """
    queries, keys = q.shape[2], k.shape[2]
    first_query = keys - queries
    moved = q[:, :, queries:]
    columns = []
    for start in reversed(range(0, keys, block)):
        w_block, k_block = (t[:, :, start : start + block] for t in (w, k))
        d_block = beta[:, :, start : start + block, None]
        n = w_block.shape[2]
        gram = (d_block * w_block @ w_block.mT).tril(-1)
        right = torch.cat(
            (d_block * w_block, (d_block * w_block @ k_block.mT).tril(-1)), -1
        )
        solved = torch.linalg.solve_triangular(
            gram, right, upper=False, unitriangular=True
        )
        of_w, of_k = solved.split((w.shape[-1], n), -1)
        new = slice(max(0, start - first_query), queries - moved.shape[2])
        moved = torch.cat((q[:, :, new], moved), 2)
        # A query inside the block is moved by the tokens up to its own.
        own = max(0, first_query - start)
        along = (moved @ w_block.mT).tril(own)
        column = moved @ k_block.mT - along @ of_k
        columns.append(functional.pad(column, (0, 0, queries - moved.shape[2], 0)))
        moved = moved - along @ of_w
    return torch.cat((q.new_zeros(*q.shape[:3], 0), *reversed(columns)), -1)


class PaTHFoX(PaTH):
    """PaTH-FoX (arXiv 2505.16381 §3.3): PaTH's products and FoX's forget gates.

    The logarithms of the gates f_l of the tokens l = j + 1 … i, one for each token and
    query head, are added to the logits of query i and key j. Their weights start normal
    with deviation 0.02. Attention takes O(L²) memory. Equation ``def-path-fox``.

    Parameters
    ----------
    d_model, heads, d, transitions, rank, convolution, negative_eigenvalues
        As :class:`PaTH`.
    scaling
        What 1/√d multiplies: the ``"product"`` of query and key alone (the paper), or
        the whole ``"logit"``, gates included (the authors' code).

    Raises
    ------
    TypeError, ValueError
        As :class:`PaTH`; unknown ``scaling``.
    """

    head_rows: tuple[str, ...] = (*PaTH.head_rows, "gate_weight", "gate_bias")

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        scaling: PathScaling,
        transitions: int | None = None,
        rank: int | None = 32,
        convolution: int | None = 3,
        negative_eigenvalues: bool = True,
    ):
        super().__init__(
            *(d_model, heads, d),
            transitions=transitions,
            rank=rank,
            convolution=convolution,
            negative_eigenvalues=negative_eigenvalues,
        )
        self.scaling = require_choice("scaling", scaling, PathScaling)
        self.gate_weight = nn.Parameter(0.02 * torch.randn(heads, d_model))
        self.gate_bias = nn.Parameter(torch.zeros(heads))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Tensor]:
        """Return what PaTH caches of each token, and the logarithm of its gates."""
        gates = log_gates(x, self.gate_weight, self.gate_bias)
        return {**super().remember(x), "log_gates": gates}

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return products and sums of log gates. Equation ``def-path-fox``."""
        products, scale = self.products(tokens), self.scale(tokens.d)
        gates = forget_bias(tokens.memory["log_gates"], tokens).to(products.dtype)
        if self.scaling == "logit":
            return (products + gates) * scale
        return products * scale + gates

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{super().extra_repr()}, scaling={self.scaling!r}"
