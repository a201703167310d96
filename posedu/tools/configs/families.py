"""Properties of model families that their configurations do not contain.

Most of them are in ``families.json`` by ``model_type``, which
``tests/oracles/rope_families.py`` writes from the classes of transformers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

Names = Mapping[str, tuple[str, ...]]
"""Kinds of layer by the name outside the RoPE parameters that sets a value of theirs.

The kind is empty in families with the same RoPE parameters in all layers.
"""


@dataclass(frozen=True)
class Family:
    """Properties of a model family; a default value means unknown or not applicable.

    Parameters
    ----------
    base
        The base b if the configuration gives none.
    share
        Share of a head's features to rotate if the configuration gives none.
    attention_factor
        YaRN's factor of cosines and sines if the configuration gives none, where it is
        not the usual one.
    filled
        RoPE parameters that the class fills in if the configuration has no object of
        RoPE parameters; by kind of layer if kinds differ.
    names
        Names outside the object of RoPE parameters that the class reads if the
        configuration has no such object, ``None`` if they are ``rope_theta`` and
        ``partial_rotary_factor``, for all layers.
    names_beside
        The same if the configuration has an object of RoPE parameters.
    spread
        Kinds of layer that take an object of RoPE parameters without kinds, by the
        object's name, where not all do. Other kinds keep those of ``filled``.
    head_dim
        Head dimension if the configuration gives none and it does not follow from the
        model's width.
    head_share
        k, where the class makes heads of k times ``hidden_size`` divided by their
        number, whatever the configuration says.
    global_head_dim
        Head dimension of global-attention layers if it is another and the configuration
        gives none.
    rope_head_dim
        Features of a head of latent attention that are rotated, if the configuration
        gives none.
    has_window
        Whether the class fills in a ``sliding_window``.
    layer_types
        The kind of each layer if the configuration does not list them: of the first
        layers, of the layers of a cycle after them, and of the last layers, under
        ``"first"``, ``"cycle"`` and ``"last"``.
    text
        The model family of ``text_config``, or of the whole configuration if it has no
        ``text_config``.
    text_filled
        Properties of the text family in this family, where they are others.
    parts
        Sub-configurations with rotations that the class fills in.
    no_rotation
        Whether the family's code has no rotation at all.
    unrotated
        Whether the attention of the family's code has no rotation, although its
        configuration has RoPE parameters.
    layout
        Layout of the pairs, empty if it is not known.
    unrotated_layer_types
        Types of layers without rotation; if the class fills in a ``sliding_window``,
        only in a model that has one.
    requires
        A name, its value with which the code rotates, and the value that the class
        fills in.
    note
        What a reading cannot show of the rotation, empty if there is nothing.
    refused
        Why the rotation cannot be described, empty if it can.
    axes
        Number of coordinates of a position. Each has all frequencies of its share of
        the head, unless they alternate.
    alternating
        Whether each of two coordinates has every other frequency of the whole head; a
        third coordinate has the lowest frequencies.
    sections
        Number of pairs of each coordinate if the configuration gives no numbers.
    order
        Order of the sections, which the code fixes.
    nope_interval
        k, where every k-th layer is a NoPE layer unless the configuration lists them.
    counts_from_end
        Whether the last layer is one of these, and the others are counted from it.
    temperature
        α and length of Llama 4's temperature if the configuration gives none.
    trained
        Training length, if the class has it outside the object of RoPE parameters and
        the configuration gives none there. Other classes have it inside.
    """

    base: float | None = None
    share: float | None = None
    attention_factor: float | None = None
    filled: Mapping[str, Any] = field(default_factory=dict)
    names: Names | None = None
    names_beside: Names | None = None
    spread: Names = field(default_factory=dict)
    head_dim: int | None = None
    head_share: int | None = None
    global_head_dim: int | None = None
    rope_head_dim: int | None = None
    has_window: bool = False
    layer_types: Names = field(default_factory=dict)
    text: str = ""
    text_filled: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    no_rotation: bool = False
    unrotated: bool = False
    layout: str = ""
    unrotated_layer_types: tuple[str, ...] = ()
    requires: tuple[str, object, object] | None = None
    note: str = ""
    refused: str = ""
    axes: int = 1
    alternating: bool = False
    sections: tuple[int, ...] = ()
    order: str = ""
    nope_interval: int | None = None
    counts_from_end: bool = False
    temperature: tuple[float, float] | None = None
    trained: int | None = None

    @property
    def is_measured(self) -> bool:
        """True if it is known what the family's class of transformers reads."""
        return self.base is not None or bool(self.filled)


ROTARY = ("position_embeddings_type", "rotary", "relative")
BEFORE = "the inputs of the query and key projections are rotated, not their outputs"
CLVP = (
    "CLVP rotates values as well as queries and keys, max(projection_dim // (2 * "
    "num_attention_heads), 32) features of each head, from base 10000"
)

SPECIAL: Mapping[str, Family] = {
    "clvp": Family(refused=CLVP),
    "clvp_encoder": Family(refused=CLVP),
    "codegen": Family(base=10_000.0, layout="interleaved"),
    "dinov3_vit": Family(axes=2, layout="half"),
    "eomt_dinov3": Family(axes=2),
    "esm": Family(requires=("position_embedding_type", "rotary", "absolute")),
    "ernie4_5_vl_moe_text": Family(axes=3, alternating=True, sections=(22, 22, 20)),
    "gptj": Family(base=10_000.0, layout="interleaved"),
    "granitemoehybrid": Family(requires=("position_embedding_type", "rope", None)),
    "llama4_vision_model": Family(axes=2, layout="interleaved"),
    "minimax_m3_vl_vision": Family(axes=3),
    "phi3": Family(trained=4096),
    "phi4_multimodal": Family(trained=4096),
    "pixtral": Family(axes=2, alternating=True),
    "qwen2_5_omni_dit": Family(
        layout="interleaved", note="only the first head of each layer is rotated"
    ),
    "roformer": Family(base=10_000.0, layout="interleaved"),
    "sapiens2": Family(axes=2, layout="half"),
    "seamless_m4t": Family(requires=ROTARY, base=10_000.0, note=BEFORE),
    "wav2vec2-bert": Family(
        requires=("position_embeddings_type", "rotary", "relative_key"),
        base=10_000.0,
        note=BEFORE,
    ),
    "wav2vec2-conformer": Family(requires=ROTARY, base=10_000.0, note=BEFORE),
    "xlnet": Family(no_rotation=True),
    "zamba2": Family(requires=("use_mem_rope", True, False), head_share=2),
}
"""Properties that classes of transformers fix in code, and that are not measured."""


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
    """Return JSON data with tuples for lists, also inside objects."""
    if isinstance(value, dict):
        return {name: _frozen(each) for name, each in value.items()}
    return tuple(value) if isinstance(value, list) else value


@cache
def _stored() -> dict[str, dict]:
    text = files("posedu.tools.configs").joinpath("families.json").read_text("utf-8")
    return json.loads(text)["families"]
