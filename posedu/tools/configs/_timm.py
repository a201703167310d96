"""Reader of configurations of timm's image models, or of arguments of its classes."""

import json
from collections import ChainMap
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from posedu.tools.configs._fields import count, counts, mapping, number, short_repr
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    Reading,
    Remark,
    RotaryConfig,
)

Config = Mapping[str, Any]

OWN = (
    "rope_temperature",
    "rope_rotate_half",
    "rope_grid_indexing",
    "rope_grid_offset",
    "use_rot_pos_emb",
    "rope_mrope_section",
)
"""Names that only timm uses."""
TOGETHER = (
    ("architecture", "pretrained_cfg"),
    ("architecture", "model_args"),
    ("rope_type", "embed_dim"),
)
"""Names that identify timm if both are there."""
TYPES = ("cat", "axial", "dinov3", "mrope", "mixed")
"""Values of ``rope_type``; Eva's ``"cat"`` is NaFlexVit's ``"axial"``."""
MROPE = (8, 12, 12)
"""Default of ``rope_mrope_section``."""


def is_timm(config: Config) -> bool:
    """Return whether a mapping is timm's configuration or arguments of its classes."""
    return any(name in config for name in OWN) or any(
        {*names} <= {*config} for names in TOGETHER
    )


def read_timm(config: Config) -> Reading:
    """Read the rotary embedding of an image model of timm.

    Raises
    ------
    ConfigError
        There is no rotary embedding, its frequencies are weights, the architecture is
        not known, or a value has another type.
    """
    architecture = config.get("architecture")
    name = architecture if isinstance(architecture, str) else ""
    built_in = architectures().get(name, {})
    model_args = mapping("model_args", config.get("model_args") or {})
    own = ChainMap(model_args, config, built_in)
    if not {*own} & {*OWN, "rope_type"}:
        raise ConfigError(
            f"{short_repr(architecture)} is not known to be an architecture of timm "
            f"{version()} with rotary embeddings; give the arguments of its class"
        )
    kind = own.get("rope_type", "cat")
    if not own.get("use_rot_pos_emb", True) or kind in (None, "", "none"):
        raise ConfigError(
            "use_rot_pos_emb or rope_type disables rotation: no layer is rotated"
        )
    if not isinstance(kind, str) or kind not in TYPES:
        raise ConfigError(
            f"rope_type must be one of {', '.join(TYPES)}, got {short_repr(kind)}"
        )
    if kind == "mixed":
        raise ConfigError(
            "rope_type is 'mixed': its frequencies are weights of the model, one for "
            "each head and pair, and not in its configuration"
        )
    missing = [n for n in ("embed_dim", "num_heads") if own.get(n) is None]
    if missing:
        names = " and ".join(missing)
        raise ConfigError(f"{names} must be given to compute the head dimension")
    head_dim = count("embed_dim", own["embed_dim"]) // count(
        "num_heads", own["num_heads"]
    )
    unit = 2 if kind == "mrope" else 4
    if not head_dim or head_dim % unit:
        raise ConfigError(
            f"a head must have a multiple of {unit} features, got {head_dim}"
        )
    remarks = [Remark(NOTE, text) for text in _notes(own, kind)]
    if "rope_temperature" not in own:
        remarks.append(
            Remark(
                NOTE,
                "rope_temperature is not given: 10000, the default of timm, is used",
            )
        )
    is_half = own.get("rope_rotate_half") or kind == "mrope"
    sections: tuple[int, ...] = (head_dim // 4,) * 2
    if kind == "mrope":
        sections = _mrope_sections(own, head_dim // 2, remarks)
    base = number("rope_temperature", own.get("rope_temperature", 10_000.0))
    if base <= 1:
        raise ConfigError(f"rope_temperature must be above 1, got {base:g}")
    made = RotaryConfig(
        head_dim=head_dim,
        width=head_dim,
        base=base,
        layout="half" if is_half else "interleaved",
        sections=sections,
        order="interleaved" if kind == "mrope" else "separate",
    )
    return Reading(
        format="timm",
        family=name,
        kinds={"all": made},
        remarks=tuple(remarks),
    )


def _notes(own: Config, kind: str) -> list[str]:
    """Return a note on each option that changes coordinates from row and column counts.

    Coordinates are those of an image's patches. ``own`` are timm's options, ``kind`` is
    the value of ``rope_type``.
    """
    found = []
    if kind == "dinov3":
        found.append(
            "rope_type is 'dinov3': a coordinate is 2π times the center of its patch, "
            "from −1 to 1 over the image"
        )
    if own.get("rope_grid_indexing") == "xy":
        found.append("rope_grid_indexing is 'xy': the column comes before the row")
    if kind in ("cat", "axial") and own.get("rope_grid_offset"):
        offset = short_repr(own["rope_grid_offset"])
        found.append(f"rope_grid_offset: coordinates begin at {offset}")
    for name in ("ref_feat_shape", "rope_ref_feat_shape"):
        if kind in ("cat", "axial") and own.get(name) is not None:
            found.append(
                f"{name}: coordinates are scaled as if there were "
                f"{short_repr(own[name])} patches"
            )
    return found


def _mrope_sections(own: Config, pairs: int, remarks: list[Remark]) -> tuple[int, ...]:
    """Return how many pairs are rotated by time, by the row and by the column.

    ``pairs`` is the number of all pairs, the sum of the three. ``own`` are timm's
    options. A warning is added to ``remarks`` if the options give different numbers,
    and a note that images have no time.
    """
    given = own.get("rope_mrope_section")
    nominal = MROPE if given is None else counts("rope_mrope_section", given)
    if len(nominal) != 3:
        raise ConfigError(
            f"rope_mrope_section must be three numbers, got {short_repr(given)}"
        )
    row, column = (
        len(range(first, min(3 * n, pairs), 3))
        for first, n in zip((1, 2), nominal[1:], strict=True)
    )
    sections = (pairs - row - column, row, column)
    if sections != tuple(nominal):
        remarks.append(
            Remark(
                WARNING,
                f"rope_mrope_section is {list(nominal)}, but the {pairs} pairs are "
                f"divided as {list(sections)}: every third pair is the row's, every "
                "third the column's, and the rest the time's",
                "other-sections",
            )
        )
    remarks.append(
        Remark(NOTE, "an image has no time: pairs of the first section do not rotate")
    )
    return sections


def architectures() -> Mapping[str, dict[str, Any]]:
    """Return the class arguments of each timm architecture with rotary embeddings."""
    return _stored()["architectures"]


def version() -> str:
    """Return the version of timm from which the architectures were read."""
    return _stored()["made"]["timm"]


@cache
def _stored() -> dict[str, Any]:
    text = files("posedu.tools.configs").joinpath("timm.json").read_text("utf-8")
    return json.loads(text)
