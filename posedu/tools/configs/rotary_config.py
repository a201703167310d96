"""Rotary embeddings of a model's configuration, in one form for all config formats."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from posedu._argument_types import check_types
from posedu._result_table import Table
from posedu.numpy.frequencies import require_scaled
from posedu.numpy.rotary import llama3, longrope, ntk, ntk_dynamic, pi, yarn
from posedu.tools.configs.mixers import Mixers
from posedu.tools.configs.other_encoding import OtherEncoding

BY_LENGTH = ("dynamic", "longrope")
LARGEST_HEAD = 2**16  # features, a hundred times those of any model
ORDERS = ("sectioned", "interleaved", "alternating", "separate")
WARNING, NOTE = "warning", "note"
CODES: Mapping[str, str] = {
    "unread-name": "a name that has to do with positions was not read; if the class "
    "reads it, the reading is wrong",
    "ignored-name": "a name that the class of this family does not read",
    "two-values": "one thing has two different values under two names, one name is "
    "there twice, or two values contradict each other",
    "unknown-type": "a RoPE type or class that the library does not define",
    "lengths": "the training length, the longest text and the factor of a RoPE scaling "
    "method contradict each other, or the training length is missing",
    "missing-base": "no base is given, and what a library takes in its place differs",
    "class-defaults": "the class fills in what the file leaves out, and what it fills "
    "in is not known here",
    "unlisted-layers": "some layers are without rotation, and which ones is not known",
    "other-layers": "layers that are listed together differ, or a kind of layer is in "
    "one list and not in the other",
    "stale-keys": "frequencies change with the length of the text, so cached keys no "
    "longer fit",
    "built-in-numbers": "numbers are built into the code that reads the file",
    "other-sections": "the sections given are not those that the code divides pairs "
    "into",
}
"""The meaning of each code of a warning."""


class ConfigError(ValueError):
    """Raised where a rotation is not known or cannot be computed; says why."""


class NoRopeError(ConfigError):
    """Raised for a configuration that says nothing of a rotation."""


@check_types
@dataclass(frozen=True)
class Remark:
    """A warning or a note about a configuration that was read.

    A ``"warning"`` names parameters that are ignored, contradictory or misread. A
    ``"note"`` names things that are right and easily overlooked. ``code`` is the kind
    of a warning, a key of :data:`CODES`; notes have none.
    """

    level: str
    text: str
    code: str = ""

    def __post_init__(self) -> None:
        if (self.level == WARNING) != (self.code in CODES):
            raise ValueError(
                f"a warning has one of the codes {', '.join(CODES)}, and a note has "
                f"none, got {self.level!r} with {self.code!r}"
            )

    def __str__(self) -> str:
        of = f" [{self.code}]" if self.code else ""
        return f"{self.level}{of}: {self.text}"


@check_types
@dataclass(frozen=True, kw_only=True)
class RotaryConfig:
    """Rotary embedding of one kind of layer: dimensions, base, scaling method, layout.

    Parameters
    ----------
    head_dim
        Features of a head of queries and keys, or of the part of them that is rotated
        on its own (``qk_rope_head_dim``).
    width
        Number of rotated features, the first ones of the head; the d of the frequencies
        b^(−2p/d). Under ``"proportional"`` it is all features, and some pairs have
        frequency 0.
    base
        The base b.
    method
        RoPE scaling method, by the name of its type in transformers; ``"ntk"`` stands
        for the parameter ``alpha`` there, one larger base for all lengths, and
        ``"factors"`` for a divisor of each pair's frequency (GGUF's rope_freqs).
    options
        Keywords of the method's function in :mod:`posedu.numpy.rotary`, except lengths.
    trained
        Training length that the method needs, ``None`` if it needs none.
    longest
        ``max_position_embeddings``, ``None`` if it is not given.
    attention_factor
        Factor of cosines and sines (YaRN's ``mscale``).
    softmax
        Further factor of the scale of the scores: 1 except for YaRN in latent
        attention.
    layout
        ``"half"`` or ``"interleaved"``, empty if neither the configuration nor the
        family fixes it.
    sections, order
        Number of pairs of each coordinate of a position, empty if there is one
        coordinate; and their order, one of :data:`ORDERS`. The coordinates share the
        frequencies of the head, except in the order ``"separate"``, where each has
        frequencies of its own, from 1 on.
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
        if min(self.head_dim, self.width) < 1:
            raise ConfigError(
                "head_dim and width must be at least 1, got "
                f"{self.head_dim} and {self.width}"
            )
        widest = max(self.head_dim, self.width, 2 * sum(self.sections))
        if widest > LARGEST_HEAD:
            raise ConfigError(
                f"a head must have at most {LARGEST_HEAD} features, got {widest:g}"
            )

    @property
    def follows_length(self) -> bool:
        """True if the frequencies depend on the length of the text."""
        return self.method in BY_LENGTH

    def frequencies(self, length: int | None = None) -> Float[np.ndarray, "pairs"]:
        """Return angular frequencies of the pairs, float64, in radians per position.

        Parameters
        ----------
        length
            Length of the text, for methods that depend on it. Default: the training
            length.

        Raises
        ------
        ConfigError
            The parameters give no finite frequencies.
        """
        try:
            with np.errstate(all="ignore"):
                return require_scaled(self._mapped(self.unscaled(), length))
        except (ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
            reason = str(error).split(": ")[0]  # The numbers are left out.
            raise ConfigError(f"{self.method}: {reason}") from error

    def unscaled(self) -> Float[np.ndarray, "pairs"]:
        """Return the frequencies before scaling: those of base and dimensions alone."""
        if self.order == "separate":
            return np.concatenate([self._plain(2 * pairs) for pairs in self.sections])
        return self._plain(self.width)

    def rotations(self) -> Float[np.ndarray, "pairs"] | None:
        """Return the number of full turns of each pair in training, before scaling.

        If the method has no training length, ``longest`` stands for it. ``None`` if
        neither is given.
        """
        within = self.trained or self.longest
        return None if within is None else within * self.unscaled() / (2 * np.pi)

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
            case "factors":
                return plain / np.array(options["divisors"])
            case "proportional":
                frequencies = pi(plain, factor=options["factor"])
                frequencies[options["rotated_pairs"] :] = 0
                return frequencies
        return plain


@check_types
@dataclass(frozen=True, kw_only=True)
class Temperature:
    """Factor of attention scores that depends on the query's position.

    The fields are keywords of ``LogN``, the PyTorch module of log-n temperature, except
    ``layers``: the name of the kind of layers that have this factor.
    """

    growth: str
    alpha: float
    length: float
    index_from: int
    layers: str

    def __str__(self) -> str:
        of = "i" if self.index_from == 0 else f"(i + {self.index_from})"
        return (
            f"1 + {self.alpha:g} ln(1 + ⌊{of}/{self.length:g}⌋) for a query at "
            f"position i, in layers {self.layers!r}"
        )


@check_types
@dataclass(frozen=True, kw_only=True)
class Reading(Table):
    """Rotary embeddings of a model's configuration, by the name of the kind of layer.

    Parameters
    ----------
    format
        The config format, such as ``"transformers 5"`` or ``"GGUF"``.
    family
        The model family, empty if the format does not name it.
    kinds
        The rotary embedding of each kind of layer, ``None`` for layers without
        rotation.
    layers
        The kind of each layer from the first on, empty if the configuration does not
        list them.
    temperature
        Factor of attention scores that depends on the query's position, ``None`` if
        there is none.
    encodings
        The positional encodings of a model without rotation; empty if they are not
        known, and for models with rotation.
    mixers
        Which layers have a recurrence, and which attention, in a hybrid model; ``None``
        if no layer is known to have a recurrence. In ``layers`` a layer without
        attention may have the kind of the others.
    remarks
        Warnings and notes.
    """

    format: str
    family: str
    kinds: Mapping[str, RotaryConfig | None]
    layers: tuple[str, ...] = ()
    temperature: Temperature | None = None
    encodings: tuple[OtherEncoding, ...] = ()
    mixers: Mixers | None = None
    remarks: tuple[Remark, ...] = field(default=())

    @property
    def warnings(self) -> list[str]:
        """Texts of the warnings among ``remarks``, the warnings and notes."""
        return [r.text for r in self.remarks if r.level == WARNING]

    @property
    def is_rotated(self) -> bool:
        """True if some kind of layer is rotated."""
        return any(rope is not None for rope in self.kinds.values())

    @property
    def order(self) -> str:
        """Source of the tokens' order, such as "rotation"; empty if it is not known.

        The encodings of a model without rotation are joined by "and".
        """
        sources = ["rotation"] if self.is_rotated else [*map(str, self.encodings)]
        if self.mixers and not any(e.kind == "recurrent" for e in self.encodings):
            sources.append("layers of convolution or recurrence")
        return " and ".join(sources)

    def caption(self) -> str:
        """Return the table's caption: the model family and the config format.

        Of a model without rotation it says where the order of tokens comes from.
        """
        of = f" of {self.family}" if self.family else ""
        text = f"Rotary embeddings{of}, config format: {self.format}"
        if self.temperature:
            text += f". Scores are multiplied by {self.temperature}"
        if self.is_rotated:
            return text
        from_where = f"comes from {self.order}" if self.order else "is not known here"
        return f"{text}. No rotation; the order of tokens {from_where}."

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the column heads, then the RoPE parameters of each kind of layer."""
        if not self.is_rotated:
            yield "layers", "method"
            yield from ((self._title(name), "no rotation") for name in self._attended())
            yield from ((who, text) for who, text in self._recurrent())
            return
        yield (
            "layers",
            "method",
            "base",
            "rotated pairs",
            "head dimension",
            "highest frequency",
            "lowest frequency",
            "attention factor",
            "layout",
        )
        for name, rope in self._attended().items():
            who = self._title(name)
            if rope is None:
                yield (who, "no rotation", *[""] * 7)
                continue
            omega = rope.frequencies()
            rotated = omega[omega != 0]
            ends = ["", ""]
            if len(rotated):
                ends = [f"{w:.4g}" for w in (rotated[0], rotated[-1])]
            yield (
                who,
                rope.method,
                f"{rope.base:,g}",
                _pairs(rope, len(rotated)),
                str(rope.head_dim),
                *ends,
                f"{rope.attention_factor:.6g}",
                rope.layout or "not given",
            )
        yield from ((who, text, *[""] * 7) for who, text in self._recurrent())

    def _attended(self) -> dict[str, RotaryConfig | None]:
        """Return the rotary embedding of each kind of layer that has attention."""
        found = dict(self.kinds)
        if self.mixers and self.mixers.roles:
            for kind in {*self.layers} & {*self.kinds}:
                if self.layers and not self._count(kind):
                    del found[kind]
        return found

    def _recurrent(self) -> Iterator[tuple[str, str]]:
        """Yield the name of the recurrent layers, and where their order comes from."""
        if self.mixers:
            yield (
                str(self.mixers),
                f"no rotation here: order comes from {self.mixers.order}",
            )

    def _count(self, kind: str) -> int:
        """Return the number of layers of a ``kind`` with attention, 0 if not known."""
        roles = () if self.mixers is None else self.mixers.roles
        if not roles:
            return self.layers.count(kind)
        if not self.layers:
            return len(self.mixers.attention) if len(self.kinds) == 1 else 0
        pairs = zip(self.layers, roles, strict=False)
        return sum(own == kind and r in ("attention", "both") for own, r in pairs)

    def _title(self, kind: str) -> str:
        """Return the name of a kind of layer, with the number of its layers if known.

        ``kind`` is a key of ``kinds``.
        """
        count = self._count(kind)
        return f"{kind} ({count})" if count else kind


def _pairs(rope: RotaryConfig, rotated: int) -> str:
    if rope.sections:
        return f"{rotated}: {rope.order} {list(rope.sections)}"
    return str(rotated)


@check_types
def as_json(reading: Reading) -> dict[str, Any]:
    """Return ``reading``, the content of a configuration, as JSON data.

    The data contain all frequencies.
    """
    return {
        "format": reading.format,
        "family": reading.family,
        "layers": list(reading.layers),
        "temperature": reading.temperature and vars(reading.temperature),
        "encodings": [
            {"kind": each.kind, **each.options} for each in reading.encodings
        ],
        "mixers": reading.mixers and vars(reading.mixers),
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
