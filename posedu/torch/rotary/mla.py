"""Multi-head latent attention: a small vector in the cache, and decoupled RoPE."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posedu._arguments import Layout, require_bool, require_dimension
from posedu.torch._autograd import lowered, without_autocast
from posedu.torch._cut import current_cut
from posedu.torch.attention import Attention, Steps
from posedu.torch.cache import KVCache
from posedu.torch.encoding import Tokens, softmax
from posedu.torch.rotary.rope import RoPE
from posedu.torch.routes import Route, choose_route
from posedu.torch.shared import Shared
from posedu.torch.tiled_attention import by_group

_ROWS = 256  # queries whose weights are computed at a time


class MLA(Attention):
    """Multi-head latent attention with decoupled RoPE (arXiv 2405.04434 §2.1).

    Keys and values are projections of one latent vector of each token. RoPE rotates
    ``rotary`` further features of each query and one key that all heads share. Without
    a cache, keys and values are computed. With one they are not: their projections are
    absorbed into queries and output, and the cache holds the latent vector and the
    rotated shared key alone (``eq-cache-absorbed``). Equation ``def-cache-mla``.

    Parameters
    ----------
    d_model, heads
        Width of the input, and query heads; a head has d = d_model / heads features
        without RoPE, which is even, as many in its values, and ``rotary`` with RoPE.
        Logits are over √(d + rotary).
    latent
        Width of the latent vector.
    rotary
        Number of rotated features, even.
    layout, base
        Which features form a pair, and base of the frequencies; see
        :class:`posedu.torch.rotary.RoPE`. The authors' weights are
        ``"interleaved"``.
    q_latent
        Width of a latent vector from which queries are made; ``None`` (default):
        queries are made from the input.
    norm
        Whether latent vectors go through an RMS norm with gains, ε = 1e−6.
    window, route
        How many of the newest keys a query may attend to, and code path; see
        :class:`posedu.torch.attention.Attention`. With a cache, logits and weights
        are materialized whatever the route.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers or do not divide, an odd ``rotary``,
        unknown ``layout`` or ``route``.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        latent: int,
        rotary: int,
        layout: Layout,
        base: float = 10000.0,
        q_latent: int | None = None,
        norm: bool = True,
        window: int | None = None,
        route: Route | None = None,
    ):
        nn.Module.__init__(self)  # not Attention's, whose projections differ
        require_dimension("heads", heads, 1)
        self.d_model = require_dimension("d_model", d_model, 2 * heads)
        self.heads, self.kv_heads, self.group = heads, heads, 1
        self.d, self.causal = d_model // heads, True
        self.latent = require_dimension("latent", latent, 1)
        self.rotary = require_dimension("rotary", rotary)
        self.window = None if window is None else require_dimension("window", window, 1)
        require_bool("norm", norm)
        self.encoding = RoPE(
            self.rotary + self.d, layout=layout, base=base, rotary_dim=self.rotary
        )
        self.shared = RoPE(self.rotary, layout=layout, base=base)
        self.route = choose_route(self.encoding, route)

        self.q_down = self.q_gain = None
        if q_latent is not None:
            q_latent = require_dimension("q_latent", q_latent, 1)
            self.q_down = nn.Linear(d_model, q_latent, bias=False)
            self.q_gain = nn.Parameter(torch.ones(q_latent)) if norm else None
        of_heads = heads * self.d
        self.q = nn.Linear(q_latent or d_model, of_heads + heads * rotary, bias=False)
        self.kv_down = nn.Linear(d_model, latent + rotary, bias=False)
        self.kv_gain = nn.Parameter(torch.ones(latent)) if norm else None
        self.k_up = nn.Linear(latent, of_heads, bias=False)
        self.v_up = nn.Linear(latent, of_heads, bias=False)
        self.o = nn.Linear(of_heads, d_model, bias=False)

    def head_axes(self) -> dict[str, tuple[int, int]]:
        """Return the axis of heads of the layer's own parameters, by name.

        All heads use the latent vectors and the shared keys, and what makes them.
        """
        names = "q.weight", "k_up.weight", "v_up.weight"
        return {"o.weight": (1, self.heads), **dict.fromkeys(names, (0, self.heads))}

    def project(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        key_padding_mask: Bool[Tensor, "batch keys"] | None,
        segments: Int[Tensor, "batch keys"] | None,
        cache: KVCache | None,
    ) -> tuple[
        Float[Tensor, "batch heads tokens features"],
        Float[Tensor, "batch heads tokens features"],
        Float[Tensor, "batch heads tokens d"],
        Mapping[str, Tensor],
    ]:
        """Return queries, keys and values of all heads; features to rotate come first.

        The fourth result, the further state to cache, is empty. ``key_padding_mask``,
        ``segments`` and ``cache`` are not used.
        """
        q_content, q_rotary, latent, shared = self._small(x)
        k, v = (
            up(latent).unflatten(-1, (self.heads, self.d)).transpose(1, 2)
            for up in (self.k_up, self.v_up)
        )
        of_all = shared.expand(-1, self.heads, -1, -1)
        q, k = torch.cat((q_rotary, q_content), -1), torch.cat((of_all, k), -1)
        return q, k, v, {}

    def _small(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"],
        Float[Tensor, "batch heads tokens rotary"],
        Float[Tensor, "batch tokens latent"],
        Float[Tensor, "batch 1 tokens rotary"],
    ]:
        """Return queries in two parts, the latent vectors and the shared keys.

        The parts of the queries are the features without RoPE, then those with RoPE. A
        latent vector serves all heads as keys and values; the shared key is the key
        with RoPE of all heads. Nothing is rotated yet.
        """
        latent, shared = self.kv_down(x).split((self.latent, self.rotary), -1)
        latent = _normed(latent, self.kv_gain)
        source = x if self.q_down is None else _normed(self.q_down(x), self.q_gain)
        q = self.q(source).unflatten(-1, (self.heads, self.d + self.rotary))
        q_content, q_rotary = q.transpose(1, 2).split((self.d, self.rotary), -1)
        return q_content, q_rotary, latent, shared.unsqueeze(1)

    def checked_steps(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Tensor,
        consecutive: bool,
        key_padding_mask: Bool[Tensor, "batch keys"] | None,
        segments: Int[Tensor, "batch tokens"] | None,
        cache: KVCache | None,
        shared: Shared,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], Steps]:
        """Return the output of :meth:`forward` and its intermediate results.

        With a cache, the intermediate attention output of each head is a latent vector;
        without gradients, this takes O(queries + keys) memory. The arguments are
        checked already: ``consecutive`` is true if each position is known to be the
        previous one plus 1, ``shared`` holds tables that all layers of a model use.
        """
        if cache is None or self.sharded_heads is not None:
            return super().checked_steps(
                x, positions, consecutive, key_padding_mask, segments, cache, shared
            )
        if current_cut() is not None:
            raise ValueError(
                "MLA keeps latent vectors in place of keys, which cannot be cut over "
                "ranks: decode on one device"
            )
        q_content, q_rotary, latent, shared_k = lowered(*self._small(x))
        k_up, v_up = (
            lowered(up.weight.unflatten(0, (self.heads, self.d)))[0]
            for up in (self.k_up, self.v_up)
        )
        with without_autocast(x):
            q_rotary, shared_k = self.shared.rotate_in_model(
                q_rotary, shared_k, positions, shared
            )
            extended = cache.appended(
                *(shared_k, latent[:, None], positions, {}, self.shared)
            )
            extended.consecutive = consecutive
            k, v, key_positions = extended.entries
            tokens = Tokens(
                q=q_rotary,
                grouped_k=k,
                grouped_v=v,
                d=self.d + self.rotary,
                query_positions=positions,
                key_positions=key_positions,
                causal=True,
                x=x,
                window=self.window,
                padding=key_padding_mask,
                consecutive=consecutive,
                shared=shared,
            )
            absorbed = torch.einsum("bhnd,hdc->bhnc", q_content, k_up)
            latent_output = _attend_latent(
                tokens, absorbed, self.encoding.scale(tokens.d)
            )
            out = torch.einsum("bhnc,hdc->bhnd", latent_output, v_up)
        cache.copy_from(extended)
        return self.finish(out, x), Steps(latent_output, tokens, None)


def _attend_latent(
    tokens: Tokens, absorbed: Float[Tensor, "batch heads queries latent"], scale: float
) -> Float[Tensor, "batch heads queries latent"]:
    """Attend to latent vectors, which are keys and values, and to shared rotated keys.

    ``tokens`` holds rotated queries and keys, and latent vectors as values.
    ``absorbed`` are the queries without RoPE, multiplied by the projection of keys, so
    that they meet latent vectors; ``scale`` is the factor of the logits. Nothing of the
    cache is copied; tiles (blocks) of queries keep the weights small.
    """
    rotated, latent = tokens.grouped_k.mT, tokens.grouped_v
    queries, keys = tokens.q.shape[2], tokens.keys
    outputs = []
    for start in range(0, max(queries, 1), _ROWS):
        rows = slice(start, min(start + _ROWS, queries))
        products = by_group(tokens.q[:, :, rows], rotated)
        products = products + by_group(absorbed[:, :, rows], latent.mT)
        every_key = slice(0, keys)
        mask = tokens.limits.allowed(rows, every_key, queries, keys, latent.device)
        weights = softmax(products * scale, mask).to(latent.dtype)
        outputs.append(by_group(weights, latent))
    return torch.cat(outputs, 2)


def _normed(x: Tensor, gain: Tensor | None) -> Tensor:
    if gain is None:
        return x
    return nn.functional.rms_norm(x, x.shape[-1:], eps=1e-6) * gain
