"""What a configuration says of rotations, in one form for every spelling."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from posedu._result_table import Table
from posedu.numpy.frequencies import require_mapped
from posedu.numpy.rotary import llama3, longrope, ntk, ntk_dynamic, pi, yarn

BY_LENGTH = ("dynamic", "longrope")
LARGEST_HEAD = 2**16  # features: a hundred times those of any model
ORDERS = ("sectioned", "interleaved", "alternating", "separate")
WARNING, NOTE = "warning", "note"


class ConfigError(ValueError):
    """A configuration that says nothing that could be computed, and why."""


@dataclass(frozen=True)
class Remark:
    """Something of a configuration that its reader should know.

    A ``"warning"`` is what is ignored, contradictory or misread; a ``"note"`` what is
    as it should be and easily overlooked.
    """

    level: str
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.text}"


@dataclass(frozen=True, kw_only=True)
class RotaryConfig:
    """The rotation of the layers of one kind.

    Parameters
    ----------
    head_dim
        Features of a head of queries and keys, or of that part of them that is rotated
        by itself (``qk_rope_head_dim``).
    width
        How many of these the pairs are made of, the first ones: d in b^(−2p/d). Under
        ``"proportional"`` all, of which some pairs stand still.
    base
        b.
    method
        How frequencies are made, by transformers' name of the type; ``"ntk"`` is its
        ``alpha``, a larger base once and for all.
    options
        Keywords of the method's function in :mod:`posedu.numpy.rotary`, but for
        lengths.
    trained
        The length of training that the method asks for, ``None`` where it asks none.
    longest
        ``max_position_embeddings``, ``None`` if it is not said.
    attention_factor
        What cosines and sines are multiplied by.
    softmax
        What the scale of the scores is multiplied by besides, 1 but for YaRN in latent
        attention.
    layout
        ``"half"`` or ``"interleaved"``, empty where neither the configuration nor the
        family decides.
    sections, order
        How many pairs each coordinate of a position turns, empty where there is one
        coordinate, and which of :data:`ORDERS` they are in. The frequencies of the head
        are dealt out to the coordinates but for ``"separate"``, where each has its own,
        from 1 on.
    """

    head_dim: int
    width: int
    base: float
    method: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict)
    trained: int | None = None
    longest: int | None = None
    attention_factor: float = 1.0
    softmax: float = 1.0
    layout: str = ""
    sections: tuple[int, ...] = ()
    order: str = ""

    def __post_init__(self) -> None:
        widest = max(self.head_dim, self.width, 2 * sum(self.sections))
        if widest > LARGEST_HEAD:
            raise ConfigError(
                f"a head of {widest:g} features is wider than that of any model, at "
                f"most {LARGEST_HEAD}"
            )

    @property
    def follows_length(self) -> bool:
        """Whether frequencies depend on how long the text is."""
        return self.method in BY_LENGTH

    def frequencies(self, length: int | None = None) -> Float[np.ndarray, "pairs"]:
        """Angular frequencies of the pairs, float64, in radians per position.

        Parameters
        ----------
        length
            Of the text, for methods that follow it. Default: that of training.

        Raises
        ------
        ConfigError
            Numbers that give no finite frequencies.
        """
        try:
            with np.errstate(all="ignore"):
                if self.order == "separate":
                    rows = [self._plain(2 * pairs) for pairs in self.sections]
                    return require_mapped(np.concatenate(rows))
                plain = self._plain(self.width)
                return require_mapped(self._mapped(plain, length))
        except (ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
            reason = str(error).split(": ")[0]  # without the numbers
            raise ConfigError(f"{self.method}: {reason}") from error

    def turns(self) -> Float[np.ndarray, "pairs"] | None:
        """Turns of each pair within the length of training, or the longest one."""
        within = self.trained or self.longest
        return None if within is None else within * self.frequencies() / (2 * np.pi)

    def _plain(self, width: int) -> Float[np.ndarray, "pairs"]:
        return float(self.base) ** (-np.arange(0, width, 2) / width)

    def _mapped(
        self, plain: Float[np.ndarray, "pairs"], length: int | None
    ) -> Float[np.ndarray, "pairs"]:
        options = dict(self.options)
        trained = self.trained
        match self.method:
            case "linear":
                return pi(plain, **options)
            case "ntk":
                return ntk(plain, **options)
            case "dynamic":
                return ntk_dynamic(
                    plain, trained=trained, length=length or trained, **options
                )
            case "yarn":
                return yarn(plain, trained=trained, ramp="index", **options)
            case "llama3":
                return llama3(plain, trained=trained, **options)
            case "longrope":
                return longrope(
                    plain, trained=trained, length=length or trained, **options
                )
            case "proportional":
                turning = options["turning"]
                slow = pi(plain, factor=options["factor"])
                slow[turning:] = 0
                return slow
        return plain


@dataclass(frozen=True, kw_only=True)
class Temperature:
    """What scales scores by the query's position: keywords of ``LogN``.

    ``layers`` is the kind of layers that it is in.
    """

    growth: str
    alpha: float
    length: float
    index_from: int
    layers: str


@dataclass(frozen=True, kw_only=True)
class Reading(Table):
    """What a configuration says, each kind of layer by its name.

    ``kinds`` has ``None`` for layers without rotation. ``layers`` is the kind of each
    layer from the first on, empty where the configuration does not say.
    """

    spelling: str
    family: str
    kinds: Mapping[str, RotaryConfig | None]
    layers: tuple[str, ...] = ()
    temperature: Temperature | None = None
    remarks: tuple[Remark, ...] = field(default=())

    @property
    def warnings(self) -> list[str]:
        """The texts of all warnings."""
        return [r.text for r in self.remarks if r.level == WARNING]

    def caption(self) -> str:
        """Which spelling it is, and of which family."""
        of = f" of {self.family}" if self.family else ""
        return f"Rotations{of}, spelled as {self.spelling}"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each kind of layer."""
        yield (
            *("layers", "method", "base", "pairs", "of", "fastest", "slowest"),
            *("attention_factor", "layout"),
        )
        for name, rope in self.kinds.items():
            count = self.layers.count(name)
            who = f"{name} ({count})" if count else name
            if rope is None:
                yield (who, "no rotation", *[""] * 7)
                continue
            omega = rope.frequencies()
            moving = omega[omega != 0]
            ends = [f"{w:.4g}" for w in (moving[0], moving[-1])] if len(moving) else []
            yield (
                who,
                rope.method,
                f"{rope.base:,g}",
                _pairs(rope, len(moving)),
                str(rope.head_dim),
                *(ends or ["", ""]),
                f"{rope.attention_factor:.6g}",
                rope.layout or "not said",
            )


def _pairs(rope: RotaryConfig, moving: int) -> str:
    if rope.sections:
        return f"{moving}: {rope.order} {list(rope.sections)}"
    return str(moving)


def as_json(reading: Reading) -> dict[str, Any]:
    """What JSON can hold of a reading, frequencies and all."""
    return {
        "spelling": reading.spelling,
        "family": reading.family,
        "layers": list(reading.layers),
        "temperature": reading.temperature and vars(reading.temperature),
        "kinds": {
            name: rope
            and {
                **{key: value for key, value in vars(rope).items() if value != ""},
                "frequencies": rope.frequencies().tolist(),
            }
            for name, rope in reading.kinds.items()
        },
        "remarks": [vars(remark) for remark in reading.remarks],
    }
