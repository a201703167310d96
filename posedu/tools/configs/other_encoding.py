"""A positional encoding other than a rotation, with the sentence that describes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from posedu._argument_types import check_types
from posedu.numpy.bias.alibi import alibi_slopes

EncodingKind = Literal[
    "learned", "sinusoidal", "transformer-xl", "alibi", "t5", "recurrent", "none"
]
SHOWN_SLOPES = 3


@check_types
@dataclass(frozen=True, kw_only=True)
class OtherEncoding:
    """A positional encoding other than a rotation.

    Parameters
    ----------
    kind
        ``"learned"``: a trained vector for each position; ``"sinusoidal"``: a table of
        sinusoids; ``"transformer-xl"``: sinusoids of offsets in the scores;
        ``"alibi"`` and ``"t5"``: biases of scores; ``"recurrent"``: layers of
        convolution or recurrence, and no encoding in those of attention; ``"none"``:
        the causal mask alone.
    options
        What is known of it. ``"learned"``: ``rows`` of the table, and ``first``, the
        row of position 0. ``"transformer-xl"``: ``largest``, the offset beyond which
        all are alike. ``"alibi"``: ``heads`` and ``bias_max``. ``"t5"``:
        ``buckets``, and ``distance``, from which on all offsets share a bucket.
        ``"recurrent"``: ``attention``, whether some layers have attention.
    """

    kind: EncodingKind
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        own = self.options
        match self.kind:
            case "learned":
                return _learned(own.get("rows"), own.get("first", 0))
            case "sinusoidal":
                return "sinusoids by position"
            case "transformer-xl":
                most = own.get("largest")
                more = f", the same from offset {most:,} on" if most else ""
                return f"sinusoids of the offset in the scores (Transformer-XL's){more}"
            case "alibi":
                return f"ALiBi{_slopes(own.get('heads'), own['bias_max'])}"
            case "t5":
                return (
                    f"T5's bias of scores, {own['buckets']} buckets up to distance "
                    f"{own['distance']}"
                )
            case "recurrent" if own["attention"]:
                return "layers of convolution or recurrence between those of attention"
            case "recurrent":
                return "convolution or recurrence, without attention"
        return "the causal mask alone"


def _learned(rows: int | None, start: int) -> str:
    if rows is None:
        return "a learned vector for each position"
    unused = f" (a table of {rows:,} rows, used from row {start} on)" if start else ""
    return f"a learned vector for each of {rows - start:,} positions{unused}"


def _slopes(heads: int | None, bias_max: float) -> str:
    if heads is None:
        return ""
    slopes = alibi_slopes(heads, slopes="authors", bias_max=bias_max)
    shown = [f"{slope:.4g}" for slope in slopes[:SHOWN_SLOPES]]
    more = ["…"] * (heads > SHOWN_SLOPES)
    return f" with the slopes {', '.join([*shown, *more])} of {heads} heads"
