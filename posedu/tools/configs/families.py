"""What families of models fix and their configurations do not say.

Most of it is in ``families.json`` by ``model_type``, which
``tests/oracles/rope_families.py`` writes of the classes of transformers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Family:
    """Of a ``model_type``.

    Parameters
    ----------
    base
        b where the configuration says none.
    local
        b of layers with a window where it says none, if they have one of their own.
    head_dim
        Features of a head where it says none, if they do not follow from its width.
    pattern
        k, where every k-th layer has no window unless it says which have.
    text
        The family of its ``text_config``, and of what a flat file says.
    plain
        Whether its code has no rotation at all.
    completes
        Whether its class fills in another method, or other parameters for some layers,
        where a configuration says none.
    layout
        Of the pairs, empty where it is not known.
    still
        Kinds of layers that do not rotate, in a model with ``sliding_window``.
    asks
        What ``position_embedding_type`` must say for it to rotate, empty if it is not
        looked at.
    axes
        How many coordinates a position has, each with all frequencies of its share of
        the head,
    alternating
        or, if so, with every other one of the whole head's; a third coordinate has the
        slowest.
    sections
        How many pairs each has where the configuration does not say and they alternate;
        by default the same number.
    """

    base: float | None = None
    local: float | None = None
    head_dim: int | None = None
    pattern: int | None = None
    text: str = ""
    plain: bool = False
    completes: bool = False
    layout: str = ""
    still: tuple[str, ...] = ()
    asks: str = ""
    axes: int = 1
    alternating: bool = False
    sections: tuple[int, ...] = ()


WINDOWED = Family(still=("full_attention",))

SPECIAL: Mapping[str, Family] = {
    "afmoe": WINDOWED,
    "codegen": Family(base=10_000.0, layout="interleaved"),
    "cohere2": WINDOWED,
    "cohere2_moe": WINDOWED,
    "dinov3_vit": Family(axes=2, layout="half"),
    "eomt_dinov3": Family(axes=2),
    "esm": Family(asks="rotary"),
    "ernie4_5_vl_moe_text": Family(axes=3, alternating=True, sections=(22, 22, 20)),
    "exaone4": WINDOWED,
    "exaone_moe": WINDOWED,
    "flint": WINDOWED,
    "gptj": Family(base=10_000.0, layout="interleaved"),
    "granitemoehybrid": Family(asks="rope"),
    "kolibri1": WINDOWED,
    "llama4_vision_model": Family(axes=2, layout="interleaved"),
    "minimax_m3_vl_vision": Family(axes=3),
    "pixtral": Family(axes=2, alternating=True),
    "roformer": Family(base=10_000.0, layout="interleaved"),
    "sapiens2": Family(axes=2, layout="half"),
}
"""As the classes of transformers 5.23.0 have it, whatever the configuration says."""


def family(model_type: object) -> Family:
    """What a family fixes; nothing of one that is not known."""
    if not isinstance(model_type, str):
        return Family()
    own = SPECIAL.get(model_type, Family())
    said = _said().get(model_type, {})
    return replace(own, **{name: _frozen(value) for name, value in said.items()})


def model_types() -> set[str]:
    """Those of which something is known."""
    return {*SPECIAL, *_said()}


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@cache
def _said() -> dict[str, dict]:
    text = files("posedu.tools.configs").joinpath("families.json").read_text("utf-8")
    return json.loads(text)["families"]
