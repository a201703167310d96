"""The rotation of one layer type, read from a model's configuration."""

import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from posedu._arguments import Layout, require_dimension

Config = str | PathLike[str] | Mapping[str, Any] | object
SEPARATE = "separate"


def rotation_arguments(
    config: Config,
    layer_type: str | None,
    layout: Layout | None,
    length: int | None,
    *,
    has_sections: bool,
) -> dict[str, Any]:
    """Return the arguments of :class:`RoPE`, or with sections those of :class:`MRoPE`.

    They are a dictionary by argument name, read from ``config``. Sections are the
    numbers of pairs that M-RoPE rotates by each coordinate; ``has_sections`` is true
    for :class:`MRoPE`. ``layer_type``, ``layout`` and ``length`` are explained in
    :meth:`RoPE.from_config`.
    """
    # Imported here, so that importing posedu.torch reads no tables of families.
    from posedu.tools.configs.read import read_rope

    reading = read_rope(Path(config) if isinstance(config, PathLike) else config)
    name = _layer_type(reading.kinds, layer_type)
    found = reading.kinds[name]
    assert found is not None
    _require_sections(found, has_sections)
    for text in (*reading.warnings, *_further_factors(reading, name, found)):
        warnings.warn(text, stacklevel=3)  # the caller of from_config
    arguments: dict[str, Any] = {
        "d": found.head_dim,
        "layout": _layout(found.layout, layout),
        "base": found.base,
        "frequencies": _frequencies(found, length),
        "attention_factor": found.attention_factor,
    }
    if has_sections:  # which decide how many features are rotated
        return arguments | {"sections": found.sections, "order": found.order}
    return arguments | {"rotary_dim": found.width}


def _require_sections(found: Any, has_sections: bool) -> None:
    """Raise unless a configuration's positions fit RoPE, or MRoPE with sections.

    MRoPE is meant if ``has_sections`` is true. ``found`` is the rotation that the
    configuration describes. Sections are the numbers of pairs that M-RoPE rotates by
    each coordinate. Coordinates with frequencies of their own, which neither RoPE nor
    M-RoPE has, are refused.
    """
    if found.order == SEPARATE:
        raise ValueError(
            f"the configuration rotates by {len(found.sections)} coordinates, each "
            "with frequencies of its own, unlike RoPE and MRoPE: see AxialRoPE"
        )
    if found.sections and not has_sections:
        raise ValueError(
            "the configuration has M-RoPE sections, for positions with "
            f"{len(found.sections)} coordinates: use MRoPE.from_config"
        )
    if has_sections and not found.sections:
        raise ValueError(
            "the configuration has no M-RoPE sections: use RoPE.from_config"
        )


def _layer_type(kinds: Mapping[str, Any], layer_type: str | None) -> str:
    """Return ``layer_type`` if it is rotated; if it is ``None``, the only rotated type.

    ``kinds`` maps each layer type (such as ``"full_attention"``) of the configuration
    to its rotation, or to ``None`` if its layers are not rotated. An unknown type, and
    ``None`` where several types are rotated, raise a ``ValueError``.
    """
    rotated = [name for name, found in kinds.items() if found is not None]
    if not rotated:
        raise ValueError(
            "the configuration has no layer with rotation: use no RoPE for this model"
        )
    if layer_type is None and len(rotated) == 1:
        return rotated[0]
    if layer_type in rotated:
        return layer_type
    choices = " or ".join(map(repr, rotated))
    reason = ""
    if layer_type is None:
        reason = ": the configuration has a rotation for each"
    elif layer_type in kinds:
        reason = ", whose layers are not rotated: use no RoPE for them"
    raise ValueError(f"`layer_type` must be {choices}, got {layer_type!r}{reason}")


def _layout(known: str, given: Layout | None) -> str:
    layout = given or known
    if not layout:
        raise ValueError(
            "neither the configuration nor its model family decides the layout: give "
            "`layout`, 'interleaved' or 'half', as the weights need it"
        )
    return layout


def _frequencies(found: Any, length: int | None) -> Any:
    """Return the frequencies of a context extension method, ``None`` without one.

    ``found`` is the rotation that the configuration describes, ``length`` the length of
    the text in tokens.
    """
    if length is not None:
        require_dimension("length", length, 1)
    if found.method == "default":
        return None
    if found.follows_length and length is None:
        raise ValueError(
            f"{found.method!r} computes frequencies from the length of the text: give "
            f"`length`, in tokens (the training length is {found.trained})"
        )
    return found.frequencies(length)


def _further_factors(reading: Any, name: str, found: Any) -> list[str]:
    """Return warnings about factors of the logits that the rotation does not have.

    The list is empty if there is no such factor. ``found`` is the rotation of the layer
    type ``name`` in ``reading``, the configuration as ``read_rope`` returns it.
    """
    texts = []
    if found.softmax != 1:
        texts.append(
            "this model also multiplies the scale of its softmax by "
            f"{found.softmax!r}, which is no part of the rotation: multiply the "
            "queries by it"
        )
    temperature = reading.temperature
    if temperature is not None and temperature.layers == name:
        texts.append(
            "this model also multiplies its queries by a temperature, which is no "
            f"part of the rotation: LogN(growth={temperature.growth!r}, alpha="
            f"{temperature.alpha!r}, length={temperature.length!r}, index_from="
            f"{temperature.index_from!r}, over=…)"
        )
    return texts
