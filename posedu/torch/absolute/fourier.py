"""Fourier features as modules, with fixed random or with trained frequencies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.types import Device

from posedu._arguments import (
    AngleUnit,
    FirstFunction,
    FourierAmplitude,
    Layout,
    require_choice,
    require_dimension,
    require_not_negative,
    require_seed,
)
from posedu.torch._numbers import as_real_tensor
from posedu.torch._tensors import (
    Positions,
    align_positions,
    from_list,
    in_float64,
    require_all_finite,
    require_exact_angles,
    require_float_dtype,
    require_floats,
    require_positions,
    seeded_normal,
)
from posedu.torch.encoding import Encoding

Frequencies = (
    Float[Tensor, "pairs"]
    | Float[Tensor, "pairs axes"]
    | Float[np.ndarray, "pairs"]
    | Float[np.ndarray, "pairs axes"]
    | Sequence[float]
    | Sequence[Sequence[float]]
)


class FourierFeatures(Encoding):
    """Base class of Fourier features, whose frequencies stay float32 or wider.

    Angles, features and encodings are float64, rounded once to the dtype of the input
    vectors. Angles above 2²⁹ are refused on a CPU. A subclass registers
    ``frequencies``, ``[pairs]`` for positions that are numbers or ``[pairs, axes of a
    group]``, and defines ``_encode``, which makes the vectors to add from the features.
    """

    d_model: int
    groups = 1
    frequencies: Tensor

    def __init__(
        self,
        d_model: int,
        *,
        unit: AngleUnit,
        layout: Layout,
        first: FirstFunction,
        amplitude: FourierAmplitude,
    ):
        super().__init__()
        self.d_model = d_model
        self.unit = require_choice("unit", unit, AngleUnit)
        self.layout = require_choice("layout", layout, Layout)
        self.first = require_choice("first", first, FirstFunction)
        self.amplitude = require_choice("amplitude", amplitude, FourierAmplitude)

    @property
    def axes(self) -> int | None:
        """Number of coordinates of a position; ``None`` if a position is a number."""
        shape = self.frequencies.shape
        return None if len(shape) == 1 else self.groups * shape[1]

    @property
    def position_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of one position: ``(axes,)``, or ``()`` if a position is a number."""
        return () if self.axes is None else (self.axes,)

    def features(
        self, positions: Positions, *, device: Device = None
    ) -> Float[Tensor, "*rows_tokens_and_groups features"]:
        """Return the Fourier features of each position, in float64.

        They are cosines and sines of position times frequency. Equation
        ``def-fourier-features``. If the coordinates form several groups, the features
        have an axis of groups. ``device`` matters only for positions in a range or a
        list.
        """
        return self._features(self._require_shape(positions, device), device)

    def table(
        self,
        positions: Positions,
        *,
        dtype: torch.dtype = torch.float32,
        device: Device = None,
    ) -> Float[Tensor, "*rows tokens d_model"]:
        """Return the vectors that :meth:`embed` adds at ``positions``, in ``dtype``.

        Positions are ``[..., tokens]`` or ``[..., tokens, axes]``. ``device`` matters
        only for positions in a range or a list.
        """
        require_float_dtype("dtype", dtype)
        return self._encode(self._require_shape(positions, device), dtype, device)

    def embed(
        self, x: Float[Tensor, "*batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """Add the encoding of its position to each vector, in x's dtype.

        ``positions`` is a range or ``[tokens]`` where positions are numbers,
        ``[tokens, axes]`` where they are points; or one of the last two with a batch
        axis in front.
        """
        require_floats("x", x)
        if x.shape[-1:] != (self.d_model,):
            raise ValueError(
                f"x must be [..., tokens, {self.d_model}], got shape {list(x.shape)}"
            )
        at = align_positions(positions, x, self.axes)
        return x + self._encode(at, x.dtype, x.device)

    forward = embed

    def _require_shape(
        self, positions: Positions, device: Device
    ) -> Shaped[Tensor, "..."] | range:
        positions = from_list(positions, device)
        require_positions(positions)
        if self.axes is not None and (
            isinstance(positions, range)
            or positions.ndim < 2
            or positions.shape[-1] != self.axes
        ):
            given = "a range" if isinstance(positions, range) else list(positions.shape)
            raise ValueError(
                f"positions must be [..., tokens, {self.axes}], got {given}"
            )
        return positions

    def _features(
        self,
        positions: Tensor | range,
        device: Device,
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        at = in_float64(positions, device)
        f = self.frequencies.to(torch.float64)
        if self.unit == "turns":
            f = 2 * math.pi * f
        if self.groups > 1:
            at = at.unflatten(-1, (self.groups, -1))
        angle = at[..., None] * f if f.ndim == 1 else at @ f.mT
        require_exact_angles("angles", angle)
        waves = [angle.cos(), angle.sin()]
        if self.amplitude != "one":
            n = len(f) if self.amplitude == "pairs" else 2 * len(f)
            waves = [n**-0.5 * wave for wave in waves]
        members = [wave.to(dtype) for wave in waves]
        if self.first == "sin":
            members.reverse()
        axis = -2 if self.layout == "half" else -1
        return torch.stack(members, axis).flatten(-2)

    def _encode(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> Tensor:
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move and cast like every module, but keep frequencies float32 or wider.

        In bf16 an angle of a hundred radians would be off by up to 0.4. PyTorch calls
        this method with ``fn``, the function that moves or casts a tensor, and
        ``recurse``, whether submodules are changed, too.
        """
        frequencies = self.frequencies

        def apply_unrounded(t: Tensor) -> Tensor:
            changed = fn(t)
            if t is not frequencies and t is not frequencies.grad:
                return changed
            return changed if changed.dtype.itemsize >= 4 else t.to(changed.device)

        return super()._apply(apply_unrounded, recurse)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, axes={self.axes}, unit={self.unit!r}, "
            f"layout={self.layout!r}, first={self.first!r}, "
            f"amplitude={self.amplitude!r}"
        )


class FourierRandom(FourierFeatures):
    """Fixed random Fourier features (arXiv 2006.10739 §4), added to the input.

    The paper gives the features to a network: for that use :meth:`table`. Frequencies
    are a buffer: saved, moved, not trained, and float32 or wider after every cast.
    Equation ``def-fourier-embed``.

    Parameters
    ----------
    d_model
        Width of the input vectors: two features for each frequency, so even.
    unit, layout, first, amplitude
        Unit of the frequencies, order of cosines and sines, and factor of all features;
        see :func:`posedu.numpy.absolute.fourier_features`.
    axes
        Coordinates of a position; ``None``, the default, for positions that are
        numbers. Given frequencies decide it by their shape.
    sigma
        Standard deviation of each coordinate of the frequencies: the bandwidth. The
        authors' demo on a picture: 10, for positions in [0, 1) and ``unit="turns"``.
    seed
        Seed of the frequencies, drawn on the CPU, apart from PyTorch's own state.
        Default 0.
    frequencies
        Frequencies to use instead of drawn ones: ``[d_model / 2]`` or
        ``[d_model / 2, axes]``, as a tensor, a NumPy array or lists.

    Raises
    ------
    TypeError, ValueError
        ``d_model`` odd, unknown keywords, frequencies of another shape or not finite,
        ``sigma`` negative or not finite; both ``sigma`` and frequencies, or neither.
    """

    def __init__(
        self,
        d_model: int,
        *,
        unit: AngleUnit,
        layout: Layout,
        first: FirstFunction,
        amplitude: FourierAmplitude,
        axes: int | None = None,
        sigma: float | None = None,
        seed: int = 0,
        frequencies: Frequencies | None = None,
    ):
        require_dimension("d_model", d_model)
        super().__init__(
            d_model, unit=unit, layout=layout, first=first, amplitude=amplitude
        )
        f = drawn_or_given(d_model // 2, axes, sigma, seed, frequencies)
        self.register_buffer("frequencies", f)

    def _encode(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> Tensor:
        return self._features(positions, device, dtype)


class FourierLearned(FourierFeatures):
    """Learnable Fourier features (arXiv 2106.02795 Algorithm 1), added to the input.

    The module adds W₂ GELU(W₁ γ + b₁) + b₂ of the features γ of trained frequencies;
    all groups share the parameters. Frequencies stay float32 or wider when the module
    is cast. Equation ``def-fourier-learned``.

    Parameters
    ----------
    d_model
        Width of the input vectors, a multiple of ``groups``.
    features
        Fourier features of each group, even: two for each frequency.
    width
        Hidden units.
    unit, layout, first, amplitude
        Unit of the frequencies, order of cosines and sines, and factor of all features;
        see :func:`posedu.numpy.absolute.fourier_features`. The paper: ``"radians"``,
        ``"half"``, ``"cos"``, ``"features"``.
    groups
        Number of groups of coordinates, each encoded to a slice of d_model of its own.
        Default 1.
    axes
        Coordinates of a position, a multiple of ``groups``; ``None``, the default, for
        positions that are numbers.
    sigma
        Standard deviation of the frequencies at the start: 1/γ in the paper, whose γ
        is the width of the Gaussian kernel.
    seed
        Seed of the frequencies, as in :class:`FourierRandom`; the network starts as
        PyTorch's layers do.
    frequencies
        Initial frequencies instead, ``[features / 2]`` or ``[features / 2, axes /
        groups]``, as a tensor, a NumPy array or lists.

    Raises
    ------
    TypeError, ValueError
        As :class:`FourierRandom`; sizes that do not divide.
    """

    def __init__(
        self,
        d_model: int,
        *,
        features: int,
        width: int,
        unit: AngleUnit,
        layout: Layout,
        first: FirstFunction,
        amplitude: FourierAmplitude,
        groups: int = 1,
        axes: int | None = None,
        sigma: float | None = None,
        seed: int = 0,
        frequencies: Frequencies | None = None,
    ):
        require_dimension("groups", groups, 1)
        require_dimension("d_model", d_model, groups)
        super().__init__(
            d_model, unit=unit, layout=layout, first=first, amplitude=amplitude
        )
        self.groups = groups
        if axes is not None:
            axes = require_dimension("axes", axes, groups) // groups
        pairs = require_dimension("features", features) // 2
        f = drawn_or_given(pairs, axes, sigma, seed, frequencies)
        if f.ndim == 1 and groups > 1:
            raise ValueError(
                f"positions that are numbers have one group, got groups = {groups}"
            )
        wide = torch.promote_types(torch.get_default_dtype(), f.dtype)
        self.frequencies = nn.Parameter(f.to(wide))
        self.hidden = nn.Linear(features, require_dimension("width", width, 1))
        self.out = nn.Linear(width, d_model // groups)

    def _encode(
        self, positions: Tensor | range, dtype: torch.dtype, device: Device
    ) -> Tensor:
        features = self._features(positions, device)
        hidden = nn.functional.gelu(_affine(self.hidden, features))
        encoded = _affine(self.out, hidden).to(dtype)
        return encoded.flatten(-2) if self.groups > 1 else encoded

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{super().extra_repr()}, groups={self.groups}"


def _affine(layer: nn.Linear, x: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows m"]:
    """Apply a linear layer with its weight and bias cast to the dtype of ``x``.

    :class:`FourierLearned` gives float64; autocast does not lower the dtype.
    """
    return x @ layer.weight.to(x.dtype).mT + layer.bias.to(x.dtype)


def drawn_or_given(
    pairs: int,
    axes: int | None,
    sigma: float | None,
    seed: int,
    frequencies: Frequencies | None,
) -> Float[Tensor, "pairs *axes"]:
    """Return Fourier features' frequencies, drawn from N(0, σ²) or copied.

    They are float32 or float64, ``[pairs]`` if ``axes`` is ``None``, else ``[pairs,
    axes]``. Either ``sigma``, the σ, is given and they are drawn by ``seed``, or
    ``frequencies`` are given and copied; the other is ``None``.

    Raises
    ------
    TypeError, ValueError
        See :class:`FourierRandom`.
    """
    own = () if axes is None else (require_dimension("axes", axes, 1),)
    if sigma is not None and frequencies is None:
        sigma = require_not_negative("sigma", sigma)
        return seeded_normal((pairs, *own), sigma, require_seed(seed))
    if sigma is None and frequencies is not None:
        given = as_real_tensor("frequencies", frequencies)
        return _as_frequencies(pairs, own, given)
    raise ValueError(
        "either `sigma`, to draw frequencies, or `frequencies` must be given, got "
        f"sigma = {sigma} and {'no ' if frequencies is None else ''}frequencies"
    )


def _as_frequencies(pairs: int, own: tuple[int, ...], frequencies: Tensor) -> Tensor:
    require_floats("frequencies", frequencies)
    shape = tuple(frequencies.shape)
    if (
        len(shape) not in (1, 2)
        or shape[0] != pairs
        or 0 in shape
        or (own and shape[1:] != own)
    ):
        wanted = f"[{pairs}, {own[0] if own else 'axes'}]"
        wanted += "" if own else f" or [{pairs}]"
        raise ValueError(f"frequencies must be {wanted}, got shape {list(shape)}")
    require_all_finite("frequencies", frequencies)
    wide = torch.promote_types(frequencies.dtype, torch.float32)
    return frequencies.detach().clone().to(wide)
