"""A language model: token embedding, transformer, and a head for the next token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn
from torch.types import Device

from posedu._arguments import (
    require_bool,
    require_count,
    require_dimension,
    require_not_negative,
)
from posedu.torch._cut import current_cut
from posedu.torch._fixed_cache import FixedCache, slots_of
from posedu.torch._tensors import Positions, as_tensor, from_list, may_look
from posedu.torch.attention import Attention, QKNorm
from posedu.torch.cache import KVCache
from posedu.torch.encoding import Encoding
from posedu.torch.routes import Route
from posedu.torch.transformer import Transformer


class LanguageModel(nn.Module):
    """A decoder that predicts the next token, with a positional encoding.

    Token embedding, :class:`~posedu.torch.transformer.Transformer` (causal, with a norm
    at its end), and a linear head without bias.

    Parameters
    ----------
    vocab_size
        Number of different tokens: 0 … vocab_size − 1.
    d_model, heads, layers
        Width, query heads and number of layers of the
        :class:`~posedu.torch.transformer.Transformer`.
    tied
        Whether the head uses the weight of the embedding (arXiv 1608.05859), which
        then starts with the deviation d_model^(−1/2) and is multiplied by √d_model at
        the input (arXiv 1706.03762 §3.4). Default false.
    encoding, input, mixers, window, kv_heads, bias
        As for :class:`~posedu.torch.transformer.Transformer`.
    qk_norm, qk_norm_eps, route, expansion
        As for :class:`~posedu.torch.transformer.Transformer`.

    Raises
    ------
    TypeError, ValueError
        As :class:`~posedu.torch.transformer.Transformer`; a ``vocab_size`` that is no
        positive integer.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        heads: int,
        layers: int,
        *,
        tied: bool = False,
        encoding: Encoding | Sequence[Encoding | None] | nn.ModuleList | None = None,
        input: Encoding | None = None,
        mixers: Sequence[Attention | None] | nn.ModuleList | None = None,
        window: int | Sequence[int | None] | None = None,
        kv_heads: int | None = None,
        bias: bool = False,
        qk_norm: QKNorm | Sequence[QKNorm | None] | None = None,
        qk_norm_eps: float = 1e-6,
        route: Route | None = None,
        expansion: int = 4,
    ):
        super().__init__()
        self.vocab_size = require_dimension("vocab_size", vocab_size, 1)
        self.tied = require_bool("tied", tied)
        self.transformer = Transformer(
            d_model,
            heads,
            layers,
            encoding=encoding,
            input=input,
            mixers=mixers,
            window=window,
            kv_heads=kv_heads,
            bias=bias,
            qk_norm=qk_norm,
            qk_norm_eps=qk_norm_eps,
            route=route,
            expansion=expansion,
        )
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.scale = 1.0
        if tied:
            self.scale = d_model**0.5
            nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
            self.head.weight = self.embedding.weight

    def forward(
        self,
        tokens: Integer[Tensor, "batch tokens"],
        positions: Positions | None = None,
        *,
        key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "batch tokens vocab_size"]:
        """Return the logits of the next token, after each token.

        Parameters
        ----------
        tokens
            Integers from 0 to vocab_size − 1.
        positions, key_padding_mask, segments, caches
            As for :meth:`posedu.torch.transformer.Transformer.forward`.

        Raises
        ------
        TypeError, ValueError
            Tokens that are not integers, not ``[batch, tokens]``, on another device or,
            on a CPU, outside the vocabulary; otherwise as
            :meth:`posedu.torch.transformer.Transformer.forward`.
        """
        self._require_tokens(tokens)
        x = self.embedding(tokens.to(torch.int64))
        x = self.transformer(
            x * self.scale if self.tied else x,
            positions,
            key_padding_mask=key_padding_mask,
            segments=segments,
            caches=caches,
        )
        return self.head(x)

    @torch.no_grad()
    def generate(
        self,
        tokens: Integer[Tensor, "batch prompt"],
        max_new_tokens: int,
        *,
        positions: Positions | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
        compiled: bool = False,
    ) -> Integer[Tensor, "batch total"]:
        """Return the prompts, each continued by ``max_new_tokens`` generated tokens.

        Keys and values are cached; the logits of every step equal the logits of one
        forward pass over the whole sequence up to rounding (but not with the
        ``"published"`` edges of :class:`~posedu.torch.bias.DAPE`). The model is in
        evaluation mode while it generates.

        Inside :func:`~posedu.torch.parallel.context_parallel`, ``tokens`` and the start
        of the result are this rank's part of the prompts, and all ranks return the same
        new tokens.

        Parameters
        ----------
        tokens
            Prompts of equal length, of at least one token.
        max_new_tokens
            Number of tokens to append to each prompt.
        positions
            Positions of the prompt *and* of the new tokens, as for :meth:`forward`.
            Default 0, 1, 2, …; encodings whose positions have several coordinates have
            no default.
        temperature
            0 (default): the most probable token. Above 0: a sample by the probabilities
            softmax(logits / temperature).
        top_k
            Sample among the ``top_k`` most probable tokens only. Default: among all.
        generator
            Source of randomness. Default: PyTorch's own.
        compiled
            Whether ``torch.compile`` compiles the steps after the prompt: one graph
            with fixed shapes for all of them, in which a step attends to a slot for
            each token of the whole text and hides those to come. Default false. An
            encoding that needs a query's own key to be the last (``needs_own_key_last``
            of :class:`~posedu.torch.encoding.Encoding`) cannot be compiled so.

        Raises
        ------
        TypeError, ValueError
            As :meth:`forward`; an empty prompt; a negative number of new tokens or
            temperature; ``top_k`` outside 1 … vocab_size; ``top_k`` or ``generator``
            with temperature 0; an encoding that needs all tokens of a sequence at once
            (:class:`posedu.torch.absolute.randomized.Randomized`, CAPE that
            normalizes); ``compiled`` with an encoding for which steps of fixed shape
            would be wrong, or with a cut text.
        """
        self._require_tokens(tokens)
        if tokens.shape[1] == 0:
            raise ValueError(
                "the prompt must have at least one token, got shape "
                f"{list(tokens.shape)}"
            )
        require_count("max_new_tokens", max_new_tokens)
        self._require_sampling(temperature, top_k, generator)
        require_bool("compiled", compiled)
        total = tokens.shape[1] + max_new_tokens
        axis, of_all = 0, _as_tensor(positions, tokens.device)
        if of_all is not None:
            axis = _token_axis(of_all, self.transformer.position_shape, total)
        cut = current_cut()
        if compiled:
            if cut is not None:
                raise ValueError("the steps of a cut text cannot be compiled")
            self._require_fixed_steps()
            run = total - 1  # the last token is not given to the model
            at = None if of_all is None else of_all.narrow(axis, 0, run)
            size = len(tokens), run, self.transformer.d_model
            self.transformer.require_positions(
                self.embedding.weight.new_zeros(size), at
            )
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            caches = self.transformer.caches(total, states=not compiled)
            result = new = tokens.to(torch.int64)
            step = slots = None
            while result.shape[1] < total:
                start, count = result.shape[1] - new.shape[1], new.shape[1]
                at = None if of_all is None else of_all.narrow(axis, start, count)
                if step is None or slots is None:
                    logits = self(new, at, caches=caches)
                else:
                    place = torch.tensor(start, device=new.device)
                    logits = step(new, at, slots, place)
                new = _next_token(logits[:, -1], temperature, top_k, generator)
                new = self.transformer.agreed(new)
                result = torch.cat((result, new), 1)
                if compiled and step is None:
                    step = torch.compile(self._fixed_step, fullgraph=True)
                    slots = [slots_of(cache, total) for cache in caches]
        finally:
            for module, is_training in modes:
                module.training = is_training
        return result

    def _require_fixed_steps(self) -> None:
        """Raise if an encoding gives other results where masked keys come last.

        Or if the heads of a layer are on several ranks, which a compiler does not see.
        """
        for module in self.modules():
            if getattr(module, "sharded_heads", None) is not None:
                raise ValueError(
                    "the steps of a model whose heads are on several ranks cannot be "
                    "compiled, got compiled=True"
                )
            if isinstance(module, Encoding) and module.needs_own_key_last:
                raise ValueError(
                    f"{type(module).__name__} needs a query's own key to be the last "
                    f"key, got compiled=True, whose steps have later keys: {module}"
                )

    def _fixed_step(
        self,
        token: Integer[Tensor, "batch 1"],
        position: Tensor | None,
        slots: list[dict[str, Tensor]],
        place: Int[Tensor, ""],
    ) -> Float[Tensor, "batch 1 vocab_size"]:
        """Return the logits after one token, which is written to its slot ``place``.

        ``slots`` are the tensors of each layer's cache; ``position`` is the token's
        position, by default ``place``.
        """
        caches = [FixedCache(of_layer, place) for of_layer in slots]
        return self(token, place[None] if position is None else position, caches=caches)

    def _require_tokens(self, tokens: Tensor) -> None:
        """Raise unless tokens are integers ``[batch, tokens]`` from the vocabulary."""
        if not isinstance(tokens, Tensor):
            raise TypeError(
                f"tokens must be a torch.Tensor, got {type(tokens).__name__}"
            )
        dtype = tokens.dtype
        if dtype == torch.bool or dtype.is_floating_point or dtype.is_complex:
            raise TypeError(f"tokens must be integers, got {dtype}")
        if tokens.ndim != 2:
            raise ValueError(
                f"tokens must be [batch, tokens], got shape {list(tokens.shape)}"
            )
        device = self.embedding.weight.device
        if tokens.device != device:
            raise ValueError(
                f"tokens are on {tokens.device}, the weights on {device}; move one of "
                "them"
            )
        if may_look(tokens):
            is_known = (tokens >= 0) & (tokens < self.vocab_size)
            if not is_known.all():
                raise ValueError(
                    f"tokens must be from 0 to {self.vocab_size - 1} = vocab_size − 1, "
                    f"got {tokens[~is_known][0].item()}"
                )

    def _require_sampling(
        self, temperature: float, top_k: int | None, generator: torch.Generator | None
    ) -> None:
        """Raise unless ``temperature``, ``top_k`` and ``generator`` are valid.

        The temperature must not be negative; at temperature 0 the other two must be
        ``None``; ``top_k`` must be 1 … vocab_size.
        """
        require_not_negative("temperature", temperature)
        if not isinstance(generator, torch.Generator | None):
            raise TypeError(
                f"generator must be a torch.Generator, got {type(generator).__name__}"
            )
        for name, option in (("top_k", top_k), ("generator", generator)):
            if option is not None and temperature == 0:
                raise ValueError(
                    f"{name} is for sampling: give a temperature above 0, got "
                    f"{temperature}"
                )
        if top_k is not None and require_dimension("top_k", top_k, 1) > self.vocab_size:
            raise ValueError(
                f"top_k must be at most vocab_size = {self.vocab_size}, got {top_k}"
            )

    def extra_repr(self) -> str:
        """Return the argument ``tied`` as text, which ``print(model)`` shows."""
        return f"tied={self.tied}"


def _as_tensor(positions: Positions | None, device: Device) -> Tensor | None:
    """Return positions as a tensor on ``device``; ``None`` stays ``None``.

    A range or a list becomes a tensor without rounding.
    """
    if positions is None:
        return None
    exact = from_list(positions, device)
    return as_tensor(exact, device) if isinstance(exact, range) else exact


def _token_axis(positions: Tensor, shape: tuple[int, ...] | None, total: int) -> int:
    """Return the token axis of ``positions``; raise unless its length is ``total``.

    The axis is 0 or 1. ``total`` is the number of prompt tokens and new tokens.
    ``shape`` is the shape of one position. If no encoding reads positions, ``shape`` is
    ``None``; then axis 0 is taken if it has the length ``total``, else axis 1.
    """
    if shape is None:
        axis = 0 if positions.shape[:1] == (total,) else 1
    else:
        axis = 0 if positions.ndim == 1 + len(shape) else 1
    if positions.shape[axis : axis + 1] != (total,):
        raise ValueError(
            f"positions must be those of prompt and new tokens, {total} in all, got "
            f"shape {list(positions.shape)}"
        )
    return axis


def _next_token(
    logits: Float[Tensor, "batch vocab_size"],
    temperature: float,
    top_k: int | None,
    generator: torch.Generator | None,
) -> Integer[Tensor, "batch 1"]:
    """Choose each sequence's next token: the most probable if ``temperature`` is 0.

    Else a sample by softmax(logits / temperature) among the ``top_k`` most probable
    tokens (``None``: among all), with random numbers from ``generator`` (``None``:
    PyTorch's own).
    """
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    logits, candidates = logits.to(torch.float64).topk(top_k or logits.shape[-1])
    # Less the largest logit, which a low temperature would otherwise take to infinity.
    weights = ((logits - logits[:, :1]) / temperature).softmax(-1)
    return candidates.gather(1, weights.multinomial(1, generator=generator))
