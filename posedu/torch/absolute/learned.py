"""Absolute embeddings: a table with a vector for each position, learned or random."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.types import Device

from posedu._arguments import (
    BeyondTable,
    require_bool,
    require_choice,
    require_dimension,
    require_not_negative,
    require_positive,
    require_seed,
)
from posedu.torch._tensors import (
    Positions,
    align_positions,
    as_tensor,
    from_list,
    length,
    may_look,
    require_float_dtype,
    require_floats,
    require_positions,
    require_shape,
    seeded_normal,
)
from posedu.torch.encoding import Encoding


class Table(Encoding):
    """Base class of embedding tables, with a rule for positions beyond the table.

    A subclass makes ``table``, ``[tokens, d_model]``, and overrides the hook (method of
    an encoding that a model calls) by which the rows of the table are added to vectors.
    Positions in a range or on a CPU are checked to lie in the table, except under
    ``torch.compile``. Elsewhere the check would make the host wait for the device;
    there the look-up itself refuses positions outside the table, with a shorter
    message.
    """

    d_model: int
    table: Tensor

    def __init__(self, d_model: int, tokens: int, beyond: BeyondTable):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.tokens = require_dimension("tokens", tokens, 1)
        self.beyond = require_choice("beyond", beyond, BeyondTable)

    def vectors(
        self,
        positions: Positions,
        *,
        dtype: torch.dtype = torch.float32,
        device: Device = None,
    ) -> Float[Tensor, "*rows tokens d_model"]:
        """Return the position vector (row of the table) of each position, in ``dtype``.

        ``device`` matters only for positions in a range or a list, and defaults to the
        device of the table.
        """
        require_float_dtype("dtype", dtype)
        device = self.table.device if device is None else device
        positions = from_list(positions, device)
        require_positions(positions)
        return self._vectors(positions, dtype)

    def forward(
        self, x: Float[Tensor, "*batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """Add the table row of its position to each vector of ``x``, in x's dtype.

        ``positions`` is a range, ``[tokens]`` or ``[batch, tokens]``.
        """
        require_floats("x", x)
        if x.shape[-1:] != (self.d_model,):
            raise ValueError(
                f"x must be [..., tokens, {self.d_model}], got shape {list(x.shape)}"
            )
        return x + self._vectors(align_positions(positions, x), x.dtype)

    def _vectors(self, positions: Tensor | range, dtype: torch.dtype) -> Tensor:
        if self.beyond == "raise":
            self._require_rows(positions)
        if isinstance(positions, range):
            positions = as_tensor(positions, self.table.device)
        rows = positions.floor().to(torch.int64)
        if self.beyond == "raise":
            return functional.embedding(rows, self.table).to(dtype)
        nearest = rows.clamp(0, self.tokens - 1)
        found = functional.embedding(nearest, self.table).to(dtype)
        if self.beyond == "clip":
            return found
        return found.masked_fill((rows != nearest)[..., None], 0.0)

    def _require_rows(self, positions: Tensor | range) -> None:
        if torch.compiler.is_compiling():
            return
        if isinstance(positions, range):
            ends = (positions[0], positions[-1]) if length(positions) else ()
            outside = [p for p in ends if not 0 <= p < self.tokens]
        elif may_look(positions):
            outside = positions[(positions < 0) | (positions >= self.tokens)].tolist()
        else:
            return
        if outside:
            raise ValueError(
                f"positions must be at least 0 and below {self.tokens}, the rows of "
                f"the table, got {outside[0]:g}"
            )

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d_model}, {self.tokens} tokens, beyond={self.beyond!r}"


class Trained(Table):
    """Table of trained vectors, one for each position.

    A subclass overrides the hook (method that a model calls) by which the vectors are
    added.
    """

    def __init__(
        self,
        d_model: int,
        tokens: int,
        *,
        beyond: BeyondTable,
        std: float = 0.02,
        table: Float[Tensor, "tokens d_model"] | None = None,
    ):
        super().__init__(d_model, tokens, beyond)
        std = require_not_negative("std", std)
        if table is None:
            table = std * torch.randn(tokens, d_model)
        require_shape("table", table, (tokens, d_model))
        self.table = nn.Parameter(table.detach().clone())


class Learned(Trained):
    """A trained vector for each position, added to the input (arXiv 1705.03122 §3.1).

    The first position of RoBERTa and of OPT is 2: give it as ``positions``. Equation
    ``def-learned``.

    Parameters
    ----------
    d_model
        Width of the input vectors.
    tokens
        Number of positions with a row: 0 … tokens − 1. BERT's has 512.
    beyond
        Rule for other positions: ``"raise"`` (transformers), ``"zero"`` (tensor2tensor)
        or ``"clip"``, the nearest row (Transformer-XL's ``attn_type=3``, for its
        memory).
    std
        Initial standard deviation of the rows. Default 0.02 (BERT).
    table
        Initial table instead, ``[tokens, d_model]``.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``beyond``, ``std`` negative or
        not finite, a table of another shape or not finite; when called, with
        ``"raise"``, a position without a row.
    """

    embed = Table.forward


class LearnedPerLayer(Trained):
    """A trained vector for each position and layer, added to the layer's input.

    arXiv 1808.04444, "Positional Embeddings". Each layer of a model has its own table:
    give :class:`posedu.torch.transformer.Transformer` a list of them. The vectors stay
    in the residual stream. Arguments and errors as :class:`Learned`. Equation
    ``def-learned-per-layer``.
    """

    enter = Table.forward


class Random(Table):
    """A fixed random vector for each position, added to the input.

    The table is a buffer: saved, moved and cast with the model, not trained. A position
    without a row is refused. Equation ``def-random``.

    Parameters
    ----------
    d_model, tokens
        Width of the input vectors, and number of positions with a row: 0 … tokens − 1.
    std
        Standard deviation of each number. Default 1.
    seed
        Seed of the vectors, drawn on the CPU, apart from PyTorch's own state. Default
        0.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``std`` negative or not finite, ``seed``
        no integer, negative or too large; when called, a position without a row.
    """

    def __init__(self, d_model: int, tokens: int, *, std: float = 1.0, seed: int = 0):
        super().__init__(d_model, tokens, "raise")
        std = require_not_negative("std", std)
        rows = seeded_normal((tokens, d_model), std, require_seed(seed))
        self.register_buffer("table", rows.to(torch.get_default_dtype()))

    embed = Table.forward


class BERTInput(nn.Module):
    """BERT's input: adds positions and segments, then normalizes the sum.

    This module comes before the layers of a model:
    ``Transformer(…)(bert_input(x, positions, segments))``. Equation
    ``def-learned-bert``.

    Parameters
    ----------
    positions
        The table of position vectors, a :class:`Learned`.
    segments
        Number of segments with a vector (BERT: 2), ``None`` for none.
    norm
        Whether there is a layer norm after the sum (BERT: yes; GPT-2: no).
    epsilon
        Number that the layer norm adds to the variance. Default 1e-12, as transformers'
        BERT.
    std
        Initial standard deviation of the segments' vectors. Default 0.02 (BERT).

    Raises
    ------
    TypeError, ValueError
        ``positions`` that is no :class:`Learned`, ``segments`` not positive, ``norm``
        no boolean, ``epsilon`` not positive.
    """

    def __init__(
        self,
        positions: Learned,
        *,
        segments: int | None,
        norm: bool,
        epsilon: float = 1e-12,
        std: float = 0.02,
    ):
        super().__init__()
        if not isinstance(positions, Learned):
            raise TypeError(
                f"positions must be a Learned module, got {type(positions).__name__}"
            )
        width = positions.d_model
        self.positions, self.kinds = positions, segments
        self.segment_table: nn.Parameter | None = None
        if segments is not None:
            kinds = require_dimension("segments", segments, 1)
            std = require_not_negative("std", std)
            self.segment_table = nn.Parameter(std * torch.randn(kinds, width))
        epsilon = require_positive("epsilon", epsilon)
        has_norm = require_bool("norm", norm)
        self.norm = nn.LayerNorm(width, eps=epsilon) if has_norm else None

    def forward(
        self,
        x: Float[Tensor, "*batch tokens d_model"],
        positions: Positions,
        segments: Int[Tensor, "*batch tokens"] | None = None,
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """Add position and segment vectors to ``x``; normalize the sum if ``norm``.

        The dtype is that of ``x``.

        Raises
        ------
        TypeError, ValueError
            Errors of the position table; segments given to a model without them, or
            missing, of another shape, not integers or without a row.
        """
        x = self.positions.embed(x, positions)
        if (segments is None) != (self.segment_table is None):
            raise ValueError(
                f"segments must be {'None' if self.kinds is None else 'given'} for a "
                f"model with {self.kinds or 'no'} segment vectors"
            )
        if segments is not None and self.segment_table is not None:
            _require_segments(segments, x, len(self.segment_table))
            found = functional.embedding(segments.long(), self.segment_table)
            x = x + found.to(x.dtype)
        return x if self.norm is None else _normed(self.norm, x)


def _normed(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """Apply the layer norm ``norm`` to ``x``, in float32 or better.

    The normalized ``x`` is rounded once to the dtype of ``x``.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    weight, bias = (t.to(wide) for t in (norm.weight, norm.bias))
    shape = norm.normalized_shape
    return functional.layer_norm(x.to(wide), shape, weight, bias, norm.eps).to(x.dtype)


def _require_segments(segments: Tensor, x: Tensor, kinds: int) -> None:
    if not isinstance(segments, Tensor):
        raise TypeError(f"segments must be a torch.Tensor, got {segments!r}")
    if segments.is_floating_point() or segments.is_complex():
        raise TypeError(f"segments must be integers, got {segments.dtype}")
    if segments.shape != x.shape[:-1]:
        raise ValueError(
            f"segments must be {list(x.shape[:-1])}, one for each token, got shape "
            f"{list(segments.shape)}"
        )
    if may_look(segments) and ((segments < 0) | (segments >= kinds)).any():
        raise ValueError(
            f"segments must be at least 0 and below {kinds}, the rows of their table"
        )
