"""Base class of augmented and randomized positions, sampled in each forward call."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from posedu._arguments import require_count
from posedu.torch._tensors import Positions
from posedu.torch.encoding import Encoding, Sizes


class SampledPositions(Encoding):
    """Positions that a model changes once per forward call, by random numbers.

    Positions that random numbers change are integers or float64, whatever the dtype of
    the model. A subclass defines ``draw``, which draws random numbers, and ``place``,
    which changes positions by them. ``in_evaluation`` is true where positions are
    changed in evaluation too, ``takes_indices`` where positions must be the indices 0,
    1, … of tokens.

    A call that changes positions takes no caches, since the random numbers of one
    sequence must be the same for all its tokens: draw once for all of them, give the
    changed positions and leave this module out.
    """

    in_evaluation = False
    takes_indices = False

    def __init__(self, inner: Encoding | None, generator: torch.Generator | None):
        super().__init__()
        if not isinstance(inner, Encoding | None):
            raise TypeError(f"inner must be an Encoding module, got {inner!r}")
        if not isinstance(generator, torch.Generator | None):
            raise TypeError(
                f"generator must be a torch.Generator, got {type(generator).__name__}"
            )
        self.inner, self.generator = inner, generator

    @property
    def needs_whole_sequence(self) -> bool:
        """True where positions are changed by random numbers of their sequence."""
        return self.training or self.in_evaluation

    def require(self, layer: Sizes) -> None:
        """Raise unless an attention layer of these sizes can use this encoding.

        The layer must also fit ``inner``, the encoding of the changed positions in the
        input, if there is one.
        """
        super().require(layer)
        if self.inner is not None:
            self.inner.require(layer)

    def draw(self, rows: int, tokens: int, *, device: Any = None) -> dict[str, Tensor]:
        """Return a dict of random numbers drawn for each of ``rows`` sequences.

        Each sequence has ``tokens`` tokens. The keys are the keyword arguments of
        :meth:`place`. A subclass defines this method.
        """
        raise NotImplementedError

    def place(self, positions: Positions, **draws: Tensor) -> Tensor:
        """Return ``positions`` changed by the random numbers ``draws`` of :meth:`draw`.

        Positions are ``[tokens]`` or ``[rows, tokens]``. A subclass defines this
        method.
        """
        raise NotImplementedError

    def evaluation_positions(self, positions: Tensor) -> Tensor:
        """Return the positions used in evaluation, without random numbers.

        By default they are the given ``positions``.
        """
        return positions

    def locate(
        self,
        positions: Shaped[Tensor, "rows tokens"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Shaped[Tensor, "_ tokens"]:
        """Return ``positions`` changed by random numbers for each sequence of ``x``.

        In evaluation the positions of :meth:`evaluation_positions` are returned
        instead, unless ``in_evaluation`` is true.
        """
        if not (self.training or self.in_evaluation):
            return self.evaluation_positions(positions)
        draws = self.draw(len(x), positions.shape[-1], device=positions.device)
        return self.place(positions, **draws)

    def embed(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Return ``x`` as the encoding ``inner`` embeds it at the changed positions.

        Without an encoding ``inner``, ``x`` is returned unchanged.
        """
        return x if self.inner is None else self.inner.embed(x, positions)

    def uniform(self, *shape: int, device: Any) -> Float[Tensor, "*shape"]:
        """Draw float64 random numbers, uniform in [0, 1), of the given shape.

        They come from the module's ``generator``, or PyTorch's own if it is ``None``.
        """
        options = {"dtype": torch.float64, "device": device}
        if self.generator is None:
            return torch.rand(shape, **options)
        return torch.rand(shape, generator=self.generator, **options)


def require_same_device(name: str, draw: Tensor, positions: Tensor) -> None:
    """Raise unless the random numbers ``draw`` are on the device of the positions.

    ``name`` is the name of ``draw`` in the error message.
    """
    if draw.device != positions.device:
        raise ValueError(
            f"{name} is on {draw.device}, the positions on {positions.device}; move "
            "one of them"
        )


def require_draws(
    positions: Tensor, of_rows: dict[str, Tensor], of_tokens: dict[str, Tensor]
) -> None:
    """Raise unless random numbers have the shapes that the positions need.

    The dictionaries hold tensors by argument name: ``of_rows`` tensors ``[rows, 1]``, a
    number for each sequence, ``of_tokens`` tensors ``[rows, tokens]``, a number for
    each token. They must be on the device of the positions, with as many rows as the
    positions, or one for all.
    """
    if positions.ndim not in (1, 2):
        raise ValueError(
            "positions must be [tokens] or [rows, tokens], got shape "
            f"{list(positions.shape)}"
        )
    rows = len(positions) if positions.ndim == 2 else 1
    columns = dict.fromkeys(of_rows, 1) | dict.fromkeys(of_tokens, positions.shape[-1])
    for name, draw in (of_rows | of_tokens).items():
        if not isinstance(draw, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(draw).__name__}")
        require_same_device(name, draw, positions)
        if draw.ndim != 2 or draw.shape[1] != columns[name]:
            raise ValueError(
                f"{name} must be [rows, {columns[name]}], got shape {list(draw.shape)}"
            )
        if 1 != rows != len(draw) != 1:
            raise ValueError(
                f"positions and draws differ in rows: {rows}, and {len(draw)} of "
                f"{name}; they must be as many, or one"
            )
        rows = len(draw) if rows == 1 else rows


def require_integers(name: str, draw: Tensor) -> None:
    """Raise unless the tensor ``draw`` of random numbers holds integers.

    ``name`` is the name of ``draw`` in the error message.
    """
    if draw.is_floating_point() or draw.is_complex() or draw.dtype == torch.bool:
        raise TypeError(f"{name} must hold integers, got {draw.dtype}")


def require_sizes(rows: int, tokens: int) -> None:
    """Raise unless ``rows`` and ``tokens`` are integers of at least 0."""
    if not torch.compiler.is_compiling():
        require_count("rows", rows)
        require_count("tokens", tokens)
