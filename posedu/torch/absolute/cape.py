"""CAPE: augmented positions, shifted, jittered and scaled anew for every sequence."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from posedu._arguments import require_bool, require_not_negative, require_stretch
from posedu.torch._tensors import (
    Positions,
    from_list,
    in_float64,
    may_look,
    require_all_finite,
    require_floats,
    require_positions,
)
from posedu.torch.absolute.sampled_positions import (
    SampledPositions,
    require_draws,
    require_sizes,
)
from posedu.torch.encoding import Encoding


class CAPE(SampledPositions):
    """Augmented positions, λ (τ + Δ + ε) in training, τ in evaluation.

    arXiv 2106.03143. τ are the given positions, Δ a shift and λ a scale of the
    sequence, ε a jitter of each token. Give the module as ``input`` of a
    :class:`posedu.torch.transformer.Transformer`. Equation ``def-cape``.

    Parameters
    ----------
    max_shift
        Δ of a sequence is uniform between minus and plus this.
    max_jitter
        ε of a token is uniform between minus and plus this, in the unit of positions;
        up to half the distance of neighbors, the order of tokens is kept.
    max_scale
        ln λ of a sequence is uniform between minus and plus the logarithm of this.
    normalize
        Whether a sequence's mean position is subtracted first, in evaluation too. The
        mean is taken over the tokens of one call, so a model with caches refuses this
        module: subtract the mean of all tokens yourself, and leave the module out.
    inner
        Encoding of the augmented positions in the input: the paper's sinusoids, or
        ``None`` where layers encode them. Default ``None``.
    generator
        Source of randomness. Default: PyTorch's own, of the positions' device.

    Raises
    ------
    TypeError, ValueError
        Bounds that are negative or not finite, ``max_scale`` below 1, ``normalize`` no
        boolean, an ``inner`` that is no encoding module.
    """

    def __init__(
        self,
        *,
        max_shift: float,
        max_jitter: float,
        max_scale: float,
        normalize: bool,
        inner: Encoding | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__(inner, generator)
        self.max_shift = require_not_negative("max_shift", max_shift)
        self.max_jitter = require_not_negative("max_jitter", max_jitter)
        self.max_scale = require_stretch("max_scale", max_scale)
        self.normalize = require_bool("normalize", normalize)

    @property
    def needs_whole_sequence(self) -> bool:
        """True in training, and where a sequence's mean position is subtracted."""
        return self.training or self.normalize

    def draw(self, rows: int, tokens: int, *, device: Any = None) -> dict[str, Tensor]:
        """Draw the float64 random numbers Δ, ε and λ for each of ``rows`` sequences.

        Returned is a dictionary of ``shift`` (Δ) and ``scale`` (λ), ``[rows, 1]``, and
        ``jitter`` (ε), ``[rows, tokens]``.
        """
        require_sizes(rows, tokens)
        signed = [2 * self.uniform(rows, n, device=device) - 1 for n in (1, tokens, 1)]
        return {
            "shift": self.max_shift * signed[0],
            "jitter": self.max_jitter * signed[1],
            "scale": (math.log(self.max_scale) * signed[2]).exp(),
        }

    def place(  # type: ignore[override]
        self,
        positions: Positions,
        *,
        shift: Float[Tensor, "rows 1"],
        jitter: Float[Tensor, "rows tokens"],
        scale: Float[Tensor, "rows 1"],
    ) -> Float[Tensor, "_ tokens"]:
        """Return the augmented positions λ (τ + Δ + ε) of ``positions`` τ, in float64.

        Positions are ``[tokens]`` or ``[rows, tokens]``; ``shift`` is Δ, ``jitter`` ε
        and ``scale`` λ. If ``normalize`` is true, the mean of a sequence's positions is
        subtracted first.
        """
        draws = {"shift": shift, "jitter": jitter, "scale": scale}
        for name, draw in draws.items():
            require_floats(name, draw)
            if may_look(draw):
                require_all_finite(name, draw)
        if may_look(scale) and (scale <= 0).any():
            raise ValueError(f"scale must be above 0, got {scale.min().item()}")
        positions = from_list(positions, jitter.device)
        require_positions(positions)
        tau = in_float64(positions, jitter.device)
        require_draws(tau, {"shift": shift, "scale": scale}, {"jitter": jitter})
        tau = self.evaluation_positions(tau)
        return scale * (tau + shift + jitter)

    def evaluation_positions(
        self, positions: Shaped[Tensor, "*rows tokens"]
    ) -> Shaped[Tensor, "*rows tokens"]:
        """Return the positions used in evaluation: ``positions``, not augmented.

        If ``normalize`` is true, the mean of each sequence's positions is subtracted,
        in float64.
        """
        if not self.normalize:
            return positions
        at = positions.to(torch.float64)
        return at - at.mean(-1, keepdim=True)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"max_shift={self.max_shift:g}, max_jitter={self.max_jitter:g}, "
            f"max_scale={self.max_scale:g}, normalize={self.normalize}"
        )
