"""Properties of model families that their configurations do not contain.

Most of them are in ``families.json`` by ``model_type``, which
``tests/oracles/rope_families.py`` writes from the classes of transformers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Family:
    """Properties of a model family; a default value means unknown or not applicable.

    Parameters
    ----------
    base
        The base b if the configuration gives none.
    local
        The base b of layers with a window if the configuration gives none and these
        layers have a base of their own.
    head_dim
        Head dimension if the configuration gives none and it does not follow from the
        model's width.
    pattern
        k, where every k-th layer is a global-attention layer unless the configuration
        lists them.
    text
        The model family of ``text_config``, or of the whole configuration if it has no
        ``text_config``.
    no_rotation
        Whether the family's code has no rotation at all.
    class_fills_defaults
        Whether the family's class fills in another method, or other parameters for some
        layers, if a configuration gives none.
    layout
        Layout of the pairs, empty if it is not known.
    unrotated_layer_types
        Types of layers without rotation, in a model with ``sliding_window``.
    required_embedding_type
        Value of ``position_embedding_type`` that the code requires to rotate, empty if
        the code does not read it.
    axes
        Number of coordinates of a position. Each has all frequencies of its share of
        the head, unless they alternate.
    alternating
        Whether each of two coordinates has every other frequency of the whole head; a
        third coordinate has the lowest frequencies.
    sections
        Number of pairs of each coordinate if coordinates alternate and the
        configuration gives no numbers; by default all coordinates have equally many.
    nope_interval
        k, where every k-th layer is a NoPE layer unless the configuration lists them.
    counts_from_end
        Whether the last layer is one of these, and the others are counted from it.
    temperature
        α and length of Llama 4's temperature if the configuration gives none.
    """

    base: float | None = None
    local: float | None = None
    head_dim: int | None = None
    pattern: int | None = None
    text: str = ""
    no_rotation: bool = False
    class_fills_defaults: bool = False
    layout: str = ""
    unrotated_layer_types: tuple[str, ...] = ()
    required_embedding_type: str = ""
    axes: int = 1
    alternating: bool = False
    sections: tuple[int, ...] = ()
    nope_interval: int | None = None
    counts_from_end: bool = False
    temperature: tuple[float, float] | None = None


WINDOWED = Family(unrotated_layer_types=("full_attention",))

SPECIAL: Mapping[str, Family] = {
    "afmoe": WINDOWED,
    "codegen": Family(base=10_000.0, layout="interleaved"),
    "cohere2": WINDOWED,
    "cohere2_moe": WINDOWED,
    "dinov3_vit": Family(axes=2, layout="half"),
    "eomt_dinov3": Family(axes=2),
    "esm": Family(required_embedding_type="rotary"),
    "ernie4_5_vl_moe_text": Family(axes=3, alternating=True, sections=(22, 22, 20)),
    "exaone4": WINDOWED,
    "exaone_moe": WINDOWED,
    "flint": WINDOWED,
    "gptj": Family(base=10_000.0, layout="interleaved"),
    "granitemoehybrid": Family(required_embedding_type="rope"),
    "kolibri1": WINDOWED,
    "llama4_text": Family(nope_interval=4, temperature=(0.1, 8192.0)),
    "llama4_vision_model": Family(axes=2, layout="interleaved"),
    "minimax_m3_vl_vision": Family(axes=3),
    "mistral_large4_text": Family(nope_interval=4),
    "muse_glimmer_text": Family(nope_interval=4, counts_from_end=True),
    "muse_spark_text": Family(nope_interval=4, counts_from_end=True),
    "pixtral": Family(axes=2, alternating=True),
    "roformer": Family(base=10_000.0, layout="interleaved"),
    "sapiens2": Family(axes=2, layout="half"),
    "smollm3": Family(nope_interval=4),
}
"""Properties that the classes of transformers 5.23.0 fix in code."""


def family(model_type: object) -> Family:
    """Return the properties of the model family named ``model_type``.

    All properties have their defaults if the family is not known.
    """
    if not isinstance(model_type, str):
        return Family()
    own = SPECIAL.get(model_type, Family())
    stored = _stored().get(model_type, {})
    return replace(own, **{name: _frozen(value) for name, value in stored.items()})


def model_types() -> set[str]:
    """Return the ``model_type`` of every model family of which properties are known."""
    return {*SPECIAL, *_stored()}


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@cache
def _stored() -> dict[str, dict]:
    text = files("posedu.tools.configs").joinpath("families.json").read_text("utf-8")
    return json.loads(text)["families"]
